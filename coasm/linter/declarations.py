"""What a kernel's code names against what its descriptor declares, and that against the metadata.

Every target. Sources: LLVM, *User Guide for AMDGPU Backend*, "Kernel Descriptor" and "Code Object
Metadata".
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from coasm.asm.code import Instruction
from coasm.isa.flow import is_direct
from coasm.isa.kinds import is_a
from coasm.linter.declared import contradictions, highest, lds_end, limits
from coasm.linter.findings import Finding
from coasm.linter.kernel_code import Check, KernelCode, check_kernels
from coasm.linter.program import Program, parts

__all__ = ["DECLARATIONS", "check_declarations", "named_registers"]


def check_declarations(program: Program) -> list[Finding]:
    """What needs no flow: registers, LDS and metadata as declared.

    Raises:
        FormatError, UnsupportedError: a kernel descriptor that cannot be read.
    """
    return [finding for part in parts(program) for finding in check_kernels(part, DECLARATIONS)]


# Registers


def named_registers(item: Instruction) -> str:
    """The operands with the registers that they reach, as far as that is known."""
    if item.registers and not item.registers.endswith("(a guess)"):
        return item.registers
    return item.operands


@lru_cache(maxsize=1 << 16)
def _highest(text: str, registers: str) -> tuple[tuple[int, int, int], bool]:
    """:func:`coasm.linter.declared.highest` of an instruction, and whether it allocates VGPRs.

    A label is no register.
    """
    item = Instruction(0, b"", text, registers)
    most = (0, 0, 0) if is_direct(item.mnemonic) else highest(named_registers(item))
    return most, is_a(item.mnemonic, "dynamic VGPRs")


def _registers(code: KernelCode) -> Iterable[Finding]:
    """Rules vgpr-range, agpr-range, sgpr-range: the highest register of each kind."""
    most = [(0, 0)] * 3
    dynamic = False
    for index, item in code.instructions:
        counts, allocates = _highest(item.text, item.registers)
        dynamic |= allocates
        for kind, count in enumerate(counts):
            if count > most[kind][0]:
                most[kind] = (count, index)
    declared = limits(code.kernel, code.program.co.target, code.declared, most[1][0] > 0)
    for limit, (count, index) in zip(declared, most, strict=False):
        if count > limit.declared and not (dynamic and limit.letter == "v"):
            yield code.finding(
                limit.rule,
                "beyond" if count > limit.allocated else "set aside",
                index,
                register=f"{limit.letter}{count - 1}",
                declared=limit.declared,
                kind=limit.name,
                directive=limit.directive,
                count=count,
            )


# LDS

#: The arguments that say that a launch adds to the LDS.
_DYNAMIC_LDS = ("dynamic_shared_pointer", "hidden_dynamic_lds_size")


def _lds(code: KernelCode) -> Iterable[Finding]:
    """Rule lds-range."""
    declared, most = code.declared.lds, code.program.co.target.processor.family.lds_bytes
    if declared > most:
        yield code.at_entry("lds-range", "more than there is", declared=declared, most=most)
    arguments = code.kernel.metadata.get(".args")
    listed = arguments if isinstance(arguments, list) else []
    added = any(isinstance(a, dict) and a.get(".value_kind") in _DYNAMIC_LDS for a in listed)
    if not declared or added:
        return
    end, index = max(
        ((lds_end(item.text), index) for index, item in code.instructions), default=(0, 0)
    )
    if end > declared:
        yield code.finding("lds-range", "beyond", index, byte=end - 1, declared=declared, end=end)


def _metadata(code: KernelCode) -> Iterable[Finding]:
    """Rule metadata."""
    for case, key, value, what, said in contradictions(code.kernel, code.declared):
        yield code.at_entry("metadata", case, key=key, value=value, what=what, said=said)


DECLARATIONS: tuple[Check, ...] = (_registers, _lds, _metadata)
