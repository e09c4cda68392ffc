"""Resources: what a kernel's code uses against what its descriptor and its metadata declare.

Every target. A kernel's code is what flow reaches from its entry; what it calls is not followed,
and what a call leaves in registers is not known. Sources: LLVM, *User Guide for AMDGPU Backend*,
"Kernel Descriptor", "Initial Kernel Execution State" and "Code Object Metadata".
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from functools import lru_cache
from math import prod
from typing import NamedTuple

from coasm.asm.code import Instruction, Raw, branch_target
from coasm.codeobject.elf import STT_OBJECT
from coasm.descriptor import decode
from coasm.errors import CoasmError
from coasm.flow.forward import forward, union
from coasm.isa import Register, parse
from coasm.isa.access import dwords_read, is_copy, roles
from coasm.isa.flow import flow_of
from coasm.isa.kinds import is_a
from coasm.linter.declarations import DECLARATIONS, named_registers
from coasm.linter.declared import REGISTER
from coasm.linter.findings import Finding
from coasm.linter.kernel_code import Check, KernelCode, check_kernels
from coasm.linter.program import Program
from coasm.linter.rules import RULES
from coasm.occupancy import occupancy
from coasm.reads import kernarg_reads

__all__ = ["check_entries", "check_resources"]


def check_entries(program: Program) -> list[Finding]:
    """The kernels of an object whose entry is at no instruction.

    Where what is there cannot be decoded that is no finding: it was not judged.
    """
    found: list[Finding] = []
    undecoded = {one.address for one in program.undecoded}
    for kernel in program.kernels:
        if _position(program, kernel.entry) is not None or kernel.entry in undecoded:
            continue
        there, case = _what_is_at(program, kernel.entry)
        if case == "no code":
            place = program.place_of(kernel.entry, "")
            finding = RULES["branch-range"].finding
            found.append(finding("entry", kernel.name, place, address=kernel.entry, there=there))
    return found


def check_resources(program: Program) -> list[Finding]:
    """What is wrong with the resources of each kernel that *program*, or a part of one, judges.

    Raises:
        FormatError, UnsupportedError: a kernel descriptor that cannot be read.
    """
    return check_kernels(program, (*DECLARATIONS, *_FLOW))


# Kernel arguments


def _kernarg(code: KernelCode) -> Iterable[Finding]:
    """Rule kernarg-range: a load that starts behind the segment, or (advice) ends behind it."""
    size = code.declared.kernarg_size
    if not size:  # not stated: what AMD's own assembler writes
        said = code.kernel.metadata.get(".kernarg_segment_size")
        if not isinstance(said, int):
            return
        size = said
    program = code.program
    reads = kernarg_reads(program.co, code.kernel, program.graph)
    for address, offset, length in reads.loads:
        outside = not 0 <= offset < size
        if outside or offset + length > size:
            yield code.finding(
                "kernarg-range",
                "starts outside" if outside else "ends outside",
                _index(program, address),
                first=offset,
                last=offset + length - 1,
                size=size,
            )


# Registers at the start of a kernel, followed along the control flow

#: A bit for each SGPR, then for v0 to v2, which may hold work-item IDs.
_SGPRS, _VGPRS = 106, 3
_ALL = (1 << _SGPRS + _VGPRS) - 1
_ALL_SGPRS = (1 << _SGPRS) - 1


class _Touch(NamedTuple):
    """Bits of what an instruction certainly reads and of what it may write."""

    reads: int
    writes: int


def _bits(operand: str, *, reads: bool = False) -> int:
    """The bits of an operand; of one that *reads* VGPRs only where it is a single one.

    Compilers let half of a pair undefined (the addend of v_mad_u64_u32) where it does not matter.
    """
    bits = 0
    for kind, single, low, high in REGISTER.findall(operand):
        first, last = int(single or low), int(single or high or low)
        base, count = (0, _SGPRS) if kind == "s" else (_SGPRS, _VGPRS)
        if kind == "a" or (kind == "v" and reads and not single):
            continue
        for number in range(first, min(last + 1, count)):
            bits |= 1 << base + number
    return bits


@lru_cache(maxsize=1 << 16)
def _touch_of(text: str, registers: str, instructions: str) -> _Touch:
    """What an instruction touches."""
    if registers.endswith("(a guess)"):
        return _Touch(0, _ALL)  # which registers is not known
    item = Instruction(0, b"", text, registers)
    return _touch(item.mnemonic, named_registers(item), instructions)


def _touch(mnemonic: str, operands: str, instructions: str) -> _Touch:
    operation = roles(mnemonic, operands, instructions)
    if operation is None or is_a(mnemonic, "relative register"):
        return _Touch(0, _ALL)
    reads = writes = 0
    sources = []
    for operand, slot in operation:
        if slot.role in "dxk":
            writes |= _bits(operand)
        elif slot.role == "s":
            reads |= _bits(operand, reads=True)
            sources.append(operand)
    if is_a(mnemonic, "packed 32"):
        reads &= _read_by(mnemonic, operands) | ~_ALL_SGPRS
    if is_a(mnemonic, "same of the same") and len(sources) > 1 and sources[-1] == sources[-2]:
        reads = 0  # it gives the same, whatever is in the register
    return _Touch(reads, writes)


def _read_by(mnemonic: str, operands: str) -> int:
    """The SGPRs of which ``op_sel`` says that they are read; all where that is not known."""
    try:
        parsed = parse(f"{mnemonic} {operands}")
    except CoasmError:
        return _ALL_SGPRS
    bits = 0
    for at, operand in enumerate(parsed.operands):
        if at and isinstance(operand, Register):
            chosen = dwords_read(parsed, at)
            numbers = operand.numbers if chosen is None else [operand.first + n for n in chosen]
            bits |= sum(1 << number for number in numbers if number < _SGPRS)
    return bits


class _Step(NamedTuple):
    """An instruction, what it touches, and what may have been written before it."""

    at: int
    item: Instruction
    touch: _Touch
    written: int


@lru_cache(maxsize=1)
def _steps(code: KernelCode) -> list[_Step]:
    """The instructions that are reached without a call and touch a register that has a bit."""
    program = code.program
    instructions = program.family.instructions
    touches: dict[int, list[tuple[int, Instruction, _Touch]]] = {}
    for number in sorted(code.certain):
        block = program.blocks[number]
        touches[number] = rows = []
        for index in range(block.first, block.last):
            item = program.instructions[index]
            touch = _touch_of(item.text, item.registers, instructions)
            if touch.reads | touch.writes:
                rows.append((index, item, touch))

    def transfer(number: int, written: int) -> int:
        for _, _, touch in touches[number]:
            written |= touch.writes
        return written

    before = forward(code.following, {code.entry: 0}, transfer, union)
    found = []
    for number in sorted(before):
        written = before[number]
        for index, item, touch in touches[number]:
            found.append(_Step(index, item, touch, written))
            written |= touch.writes
    return found


#: Workgroup IDs, workgroup information and the wave's scratch offset.
_MOST_SYSTEM_SGPRS = 5


def _initial(code: KernelCode) -> Iterable[Finding]:
    """Rule user-sgpr: registers that are read before anything on any way there wrote them."""
    declared = code.declared
    family = code.program.co.target.processor.family
    users = max(declared.user_sgpr_count, sum(user.count for user in declared.user_sgprs))
    names = {user.name for user in declared.user_sgprs}
    # LLVM adds the wave's offset to the private segment buffer before a call even where it does not
    # ask for that offset, because nothing that is called has scratch.
    offset = declared.scratch_enabled or names & {"private_segment_buffer", "flat_scratch_init"}
    sgprs = users + bool(offset and not family.architected_flat_scratch)
    if not family.architected_sgprs:
        sgprs += len(declared.system_sgprs)
    most = family.max_user_sgprs + _MOST_SYSTEM_SGPRS
    vgprs = 1 if family.packed_workitem_ids else declared.workitem_ids
    known = (1 << sgprs) - 1 | ((1 << vgprs) - 1) << _SGPRS
    for step in _steps(code):
        unknown = step.touch.reads & ~step.written & ~known
        known |= unknown  # said once
        unread = unknown
        while unknown:
            number = (unknown & -unknown).bit_length() - 1
            unknown &= unknown - 1
            if number < _SGPRS:
                name, case = f"s{number}", "sgpr"
                initial = f"s0 to s{sgprs - 1}" if sgprs else "no SGPR"
                if number >= most or _need_not_matter(step.item, unread):
                    case = "sgpr, perhaps"
            else:
                name, case = f"v{number - _SGPRS}", "vgpr"
                initial = f"v0 to v{vgprs - 1}" if vgprs > 1 else "v0 alone"
            yield code.finding("user-sgpr", case, step.at, register=name, initial=initial)


def _need_not_matter(item: Instruction, unknown: int) -> bool:
    """Whether the value of the *unknown* registers that an instruction reads may be of no use."""
    if is_copy(item.mnemonic):
        return True
    if not is_a(item.mnemonic, "wide integer"):
        return False  # compilers let the upper half undefined where they need the lower
    pairs = [_bits(operand) for operand in named_registers(item).split(",")[1:]]
    return all(not pair & unknown or pair & ~unknown for pair in pairs)


# Scratch


def _scratch(code: KernelCode) -> Iterable[Finding]:
    """Rule scratch: an access to memory that the descriptor gives the kernel none of.

    That is a scratch instruction, or a buffer instruction through the SGPRs in which the private
    segment buffer was set up (its last two were not written since).
    """
    declared = code.declared
    sized = declared.scratch or declared.dynamic_stack
    if sized and declared.scratch_enabled:
        return
    buffers = [user.first for user in declared.user_sgprs if user.name == "private_segment_buffer"]
    access = [index for index, item in code.instructions if is_a(item.mnemonic, "scratch")]
    for first in buffers:
        operand, untouched = f"s[{first}:{first + 3}]", 0b11 << first + 2
        access += [
            step.at
            for step in _steps(code)
            if is_a(step.item.mnemonic, "buffer")
            and operand in step.item.text
            and not step.written & untouched
        ]
    if not access:
        return
    directive = ".amdhsa_enable_private_segment 1"
    if not code.program.co.target.processor.family.architected_flat_scratch:
        directive = ".amdhsa_system_sgpr_private_segment_wavefront_offset 1"
    case = "disabled" if sized else "none"
    yield code.finding("scratch", case, min(access), directive=directive)


# A workgroup on a compute unit


def _workgroup(code: KernelCode) -> Iterable[Finding]:
    """Rule workgroup-registers: a workgroup that is larger than the registers allow."""
    metadata, target = code.kernel.metadata, code.program.co.target
    size = metadata.get(".max_flat_workgroup_size")
    required = metadata.get(".reqd_workgroup_size")
    must = False
    if isinstance(required, list) and all(isinstance(n, int) and n > 0 for n in required):
        size, must = prod(required), True
    if not isinstance(size, int) or size < 1:
        return
    wgp = bool(decode(code.kernel.descriptor, target).get("wgp_mode"))
    fit = occupancy(target.processor, code.declared, size, wgp_mode=wgp)
    for limit in fit.limits:
        if not limit.workgroups and limit.cause in ("VGPRs", "SGPRs"):
            yield code.at_entry(
                "workgroup-registers",
                "required" if must else "allowed",
                size=size,
                waves=fit.workgroup_waves,
                kind=limit.cause,
                detail=limit.detail,
                resident=limit.waves_per_simd * fit.simds,
            )


# Where flow goes

#: They do not go on, or not on their own: flow that ends in one is meant to end.
_STOPS = ("end", "trap")


def _flow(code: KernelCode) -> Iterable[Finding]:
    """Rules branch-range and fall-through."""
    program = code.program
    own = {program.blocks[number].last - 1: number for number in code.blocks}
    for at, _ in program.unfollowed:
        item = program.instructions[at]
        target = branch_target(item)
        if at in own and target is not None:
            there, case = _what_is_at(program, target)
            yield code.finding("branch-range", case, at, address=target, there=there)
    ends = [
        (at, *_what_is_at(program, _end(program.instructions[at]))) for at in program.graph.falls
    ]
    for at, number in own.items():
        into = code.runs_into(number)
        if into is not None:
            name = program.entries.get(into, "")
            ends.append((at, f"the kernel {name!r}", "perhaps"))
    for at, there, case in ends:
        flow = flow_of(program.instructions[at].mnemonic)
        stops = flow is not None and flow.sort in _STOPS
        if at in own and own[at] in code.certain and not stops:
            yield code.finding("fall-through", case, at, there=there)
    for index, item in code.instructions:
        if is_a(item.mnemonic, "padding"):
            yield code.finding("fall-through", "padding", index)
            break


def _end(item: Instruction) -> int:
    return item.address + item.size


def _what_is_at(program: Program, address: int) -> tuple[str, str]:
    """What is at an address where no instruction starts; and ``no code`` or ``perhaps``: code."""
    co = program.co
    section = co.section_at(address)
    own = program.code.get(section.index) if section is not None else None
    if section is None or own is None:
        return "outside the code", "no code"
    at = bisect_right(own.stops, address - own.start) - 1
    item = own[at] if at < len(own) else None
    if isinstance(item, Instruction) and item.address < address:
        return f"the middle of {item.mnemonic} at {item.address:#x}", "no code"
    if any(s.type == STT_OBJECT and s.value <= address < s.value + s.size for s in co.symbols):
        return "data", "no code"
    return "nothing that LLVM can decode", "perhaps"


def _position(program: Program, address: int) -> int | None:
    """The item of its section that the instruction at *address* is; None where none begins."""
    section = program.co.section_at(address)
    own = program.code.get(section.index) if section is not None else None
    at = own.position(address) if own is not None else None
    return None if own is None or at is None or isinstance(own.others.get(at), Raw) else at


def _index(program: Program, address: int) -> int:
    """The last instruction that does not start behind *address*, -1 where there is none."""
    return bisect_right(program.instructions, address, key=lambda item: item.address) - 1


_FLOW: tuple[Check, ...] = (_kernarg, _initial, _scratch, _workgroup, _flow)
