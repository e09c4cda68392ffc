"""What stands in the way of a port, and what to look at: reasons, each at its address."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from coasm.asm.code import Instruction
from coasm.codeobject import Kernel
from coasm.descriptor import decode, fields_of, obstacle
from coasm.errors import UnsupportedError
from coasm.inspect import DYNAMIC_LDS, declared_arguments
from coasm.isa import parse
from coasm.isa.kinds import is_a
from coasm.isa.renamed import CACHES, substitute
from coasm.isa.table import Opcode, opcode
from coasm.isa.text import without_encoding
from coasm.linter.program import Program
from coasm.port.encoding import Encoded
from coasm.port.fp8 import FP8, crossings
from coasm.port.rules import Reason
from coasm.reading import Kernel as ReadKernel
from coasm.target import Family, Processor, TargetID

__all__ = ["Sides", "descriptor_reasons", "instruction_reasons", "memory_reasons"]

_HALVES = ("f16", "bf16")
#: Hardware registers that say the same on every target: what the wave itself has set or done.
#: Source: CDNA3 ISA guide, "Hardware Register Values".
_SAME = ("HW_REG_MODE", "HW_REG_STATUS", "HW_REG_TRAPSTS", "HW_REG_SHADER_CYCLES")
_NO_GETREG = "read the value for the target, or do without"


class Sides:
    """The two targets of a port."""

    def __init__(self, old: Processor, new: Processor) -> None:
        self.old, self.new = old, new

    @property
    def families(self) -> tuple[Family, Family]:
        """What holds for each."""
        return self.old.family, self.new.family

    def differ(self, field: str) -> bool:
        """Whether a fact of the targets differs."""
        one, other = (getattr(family, field) for family in self.families)
        return bool(one != other)


def instruction_reasons(
    program: Program, encoded: Encoded, sides: Sides
) -> Iterator[tuple[Reason, int]]:
    """The reasons at instructions that are reached, and the number of each instruction."""
    known: dict[str, list[tuple[str, str, str]]] = {}
    other = frozenset(encoded.other)
    for number in sorted(program.reached):
        block = program.blocks[number]
        for index in range(block.first, block.last):
            item = program.instructions[index]
            refused = encoded.refused.get(item.address)
            if refused is not None:
                yield Reason(*_refused(item, refused, sides)), index
                continue
            if item.text not in known:
                known[item.text] = list(_looked_at(item, sides))
            for rule, what, advice in known[item.text]:
                yield Reason(rule, item.address, item.text, what, advice), index
            if item.address in other:
                what = "the same instruction in other bytes"
                yield Reason("encoding", item.address, item.text, what), index


def _refused(item: Instruction, said: str, sides: Sides) -> tuple[str, int, str, str, str]:
    """Why an instruction is none of the target's."""
    name = without_encoding(item.mnemonic)
    target = sides.new.name
    place = item.address, item.text
    if opcode(name, sides.new.family.instructions) is None:
        advice = "; or ".join(substitute(name))
        return ("missing", *place, f"{target} does not have {name}", advice)
    if "lds" in parse(item.text).modifiers and not sides.new.family.wide_lds_loads:
        return (
            "lds-load",
            *place,
            f"{target} loads single dwords to LDS",
            "load single dwords (lanes are 4 bytes apart in LDS then, not 16), or go by way of "
            "VGPRs and ds_write_b128",
        )
    return ("operand", *place, f"{target}: {said}", "write it otherwise")


def _looked_at(item: Instruction, sides: Sides) -> Iterator[tuple[str, str, str]]:
    """What is to be reviewed at an instruction that both targets have."""
    mnemonic = item.mnemonic
    row = opcode(without_encoding(mnemonic), sides.old.family.instructions)
    if row is None:
        return
    if sides.differ("fnuz"):
        yield from _fp8(row, sides)
    if sides.differ("flushing_mfma") and is_a(mnemonic, "matrix product") and _takes_halves(row):
        one, other = (("keeps", "flushes")[f.flushing_mfma] for f in sides.families)
        yield (
            "subnormals",
            f"{other} subnormal numbers on {sides.new.name}, {one} them on {sides.old.name}",
            "compare results, with small numbers too",
        )
    if sides.differ("scoped_caches") and _says_caches(item, row):
        yield (
            "caches",
            "its cache bits have another meaning",
            "choose them by the memory model of the target (LLVM AMDGPU usage)",
        )
    if is_a(mnemonic, "getreg") and not any(name in item.text for name in _SAME):
        yield "hwreg", "what it reads is the hardware's", _NO_GETREG


def _fp8(row: Opcode, sides: Sides) -> Iterator[tuple[str, str, str]]:
    taken = sorted({s.kind[:3] for s in row.slots if s.kind.startswith(FP8) and s.role == "s"})
    made = sorted({s.kind[:3] for s in row.slots if s.kind.startswith(FP8) and s.role in "dkx"})
    formats = ["FNUZ" if family.fnuz else "OCP" for family in sides.families]
    for verb, kinds in (("takes", taken), ("makes", made)):
        if kinds:
            yield (
                "fp8",
                f"{verb} {' and '.join(kinds).upper()} in {formats[0]} on {sides.old.name}, in "
                f"{formats[1]} on {sides.new.name}",
                "convert what is in memory, and scales with it (FNUZ has another bias: the same "
                "byte is half as large), or show that nothing but the kernel itself sees it",
            )


def _takes_halves(row: Opcode) -> bool:
    """Whether a matrix product takes F16 or BF16: by its formats, or by the end of its name."""
    by_format = any(slot.kind.startswith(_HALVES) for slot in row.slots)
    return by_format or row.name.removesuffix("_1k").endswith(_HALVES)


def _says_caches(item: Instruction, row: Opcode) -> bool:
    if row.does == "cache" and row.unit == "buffer":
        return True
    if row.unit not in ("buffer", "tbuffer", "global", "flat", "scratch"):
        return False
    words = {*CACHES, *CACHES.values()} & set(item.text.split())
    if row.does == "atomic":  # there GLC, and SC0, say that it returns the old value
        words -= {"glc", "sc0"}
    return bool(words)


def memory_reasons(kernel: ReadKernel) -> Iterator[Reason]:
    """Where FP8 comes into a kernel's registers, and where it leaves them, as far as is known."""
    try:
        found = list(crossings(kernel))
    except UnsupportedError:
        return
    for one, other, comes in found:
        way = "brings in FP8 that {} takes" if comes else "takes away FP8 that {} makes"
        what = way.format(other.mnemonic)
        advice = "convert what is in memory, or what others make of it"
        yield Reason("fp8-memory", one.address, one.text, what, advice, other.address)


def descriptor_reasons(kernel: Kernel, sides: Sides, version: int) -> Iterator[Reason]:
    """What a kernel's descriptor asks for and the target does not have."""
    at = kernel.descriptor_address
    new = TargetID(sides.new)
    data = kernel.descriptor
    fields: Mapping[str, int] = decode(data, TargetID(sides.old)).fields
    if sides.differ("architected_flat_scratch") and fields.get("enable_private_segment"):
        yield Reason(
            "scratch",
            at,
            "",
            f"the kernel has scratch memory, which {sides.new.name} sets up otherwise",
            "compile it for the target: other SGPRs hold what the kernel begins with",
        )
        return
    gone = [name for name in _sgprs_set(fields) if _is_fixed(name, sides.new)]
    why = obstacle(data, new, code_object_version=version)
    if gone:
        what = f"{sides.new.name} has no {' and '.join(gone)}: the SGPRs behind would be others"
        yield Reason("descriptor", at, "", what, "compile it for the target")
    elif why is not None:
        yield Reason("descriptor", at, "", why, "compile it for the target")
    lds, most = fields["group_segment_fixed_size"], sides.new.family.lds_bytes
    if lds > most:
        yield Reason(
            "lds-size",
            at,
            "",
            f"{lds:,} bytes of LDS, and a workgroup of {sides.new.name} has {most:,}",
            "smaller tiles, or fewer stages",
        )
    kinds = {argument.kind for argument in declared_arguments(kernel)}
    if most < sides.old.family.lds_bytes and kinds & set(DYNAMIC_LDS):
        yield Reason(
            "dynamic-lds",
            at,
            "",
            f"what a launch adds to {lds:,} bytes of LDS may be too much for {sides.new.name}",
            f"see that no launch takes more than {most:,} bytes",
        )


def _sgprs_set(fields: Mapping[str, int]) -> Iterator[str]:
    """The fields that have SGPRs filled at the kernel's entry."""
    return (name for name, value in fields.items() if value and name.startswith("enable_sgpr_"))


def _is_fixed(name: str, processor: Processor) -> bool:
    """Whether a field of the descriptor cannot be set on a processor."""
    return any(field.name == name and field.directive is None for field in fields_of(processor))
