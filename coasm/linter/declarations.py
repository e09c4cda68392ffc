"""What a kernel's code names against what its descriptor declares, and that against the metadata.

Every target. Sources: LLVM, *User Guide for AMDGPU Backend*, "Kernel Descriptor" and "Code Object
Metadata".
"""

from __future__ import annotations

from collections.abc import Iterable

from coasm.asm.code import Instruction, branch_target
from coasm.linter.declared import contradictions, highest, lds_end, limits
from coasm.linter.findings import ADVICE, ERROR, Finding
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


def _registers(code: KernelCode) -> Iterable[Finding]:
    """Rules vgpr-range, agpr-range, sgpr-range: the highest register of each kind."""
    most = [(0, 0)] * 3
    dynamic = False
    for index, item in code.instructions:
        dynamic |= item.text.startswith("s_alloc_vgpr")
        if branch_target(item) is None:
            for kind, count in enumerate(highest(named_registers(item))):
                if count > most[kind][0]:
                    most[kind] = (count, index)
    declared = limits(code.kernel, code.program.co.target, code.declared, most[1][0] > 0)
    for limit, (count, index) in zip(declared, most, strict=False):
        if count > limit.declared and not (dynamic and limit.letter == "v"):
            # The hardware may set aside more than what is declared: then it works all the same.
            yield code.finding(
                limit.rule,
                ERROR if count > limit.allocated else ADVICE,
                index,
                f"{limit.letter}{count - 1} is used, but the descriptor declares {limit.declared} "
                f"{limit.name}",
                f"raise {limit.directive} for {count} {limit.name} or more",
            )


# LDS

#: The arguments that say that a launch adds to the LDS.
_DYNAMIC_LDS = ("dynamic_shared_pointer", "hidden_dynamic_lds_size")


def _lds(code: KernelCode) -> Iterable[Finding]:
    """Rule lds-range. Dynamic LDS is added at launch, behind what is declared: advice."""
    declared, most = code.declared.lds, code.program.co.target.processor.family.lds_bytes
    if declared > most:
        yield code.at_entry(
            "lds-range",
            ERROR,
            f"the descriptor declares {declared} bytes of LDS, a workgroup can have {most}",
            "lower .amdhsa_group_segment_fixed_size",
        )
    arguments = code.kernel.metadata.get(".args")
    listed = arguments if isinstance(arguments, list) else []
    added = any(isinstance(a, dict) and a.get(".value_kind") in _DYNAMIC_LDS for a in listed)
    if not declared or added:
        return
    end, index = max(
        ((lds_end(item.text), index) for index, item in code.instructions), default=(0, 0)
    )
    if end > declared:
        yield code.finding(
            "lds-range",
            ADVICE,
            index,
            f"LDS byte {end - 1} is used, but the descriptor declares {declared} bytes",
            f"raise .amdhsa_group_segment_fixed_size to {end}, unless the launch adds dynamic LDS",
        )


def _metadata(code: KernelCode) -> Iterable[Finding]:
    """Rule metadata: where the descriptor and the metadata do not say the same.

    Counts of registers are advice, for no launch goes by them: the metadata of aiter's gfx942
    pa_a16w8_b16 counts 96 SGPRs, its descriptor 80, of which the code uses 74.
    """
    for key, value, what, said, level in contradictions(code.kernel, code.declared):
        yield code.at_entry(
            "metadata",
            level,
            f"the descriptor declares {value} {what}, the metadata's {key} is {said}",
            f"give {key} the descriptor's value, or change the descriptor",
        )


DECLARATIONS: tuple[Check, ...] = (_registers, _lds, _metadata)
