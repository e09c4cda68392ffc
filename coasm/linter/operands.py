"""Operands that an instruction must not have: what no waiting makes right, as a table.

Sources: LLVM's GCNSubtarget.h (hasShift64HighRegBug, hasDOTOpSelHazard, hasPkF32InvalidOpSel) and
GCNHazardRecognizer.cpp (fixShift64HighRegBug); the CDNA3 and CDNA4 ISA guides, S_NOP.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from coasm.descriptor import Resources, resources
from coasm.isa import VGPR, Literal, Parsed, Register, parse
from coasm.linter.findings import ADVICE, ERROR, Finding
from coasm.linter.program import Program

__all__ = ["OPERANDS", "OperandBug", "check_operands"]


def _shift_amount(parsed: Parsed) -> int | None:
    """The VGPR that says how far to shift, if it is the last of eight."""
    amount = parsed.operands[1] if len(parsed.operands) > 1 else None
    if isinstance(amount, Register) and amount.first >= VGPR and amount.first % 8 == 7:
        return amount.first - VGPR
    return None


def _last_of_all(parsed: Parsed, declared: Resources | None) -> bool:
    return declared is not None and _shift_amount(parsed) == declared.vgprs_allocated - 1


def _last_below_agprs(parsed: Parsed, declared: Resources | None) -> bool:
    if declared is None or declared.accum_offset is None:
        return False
    last = declared.accum_offset - 1
    return _shift_amount(parsed) == last < declared.vgprs_allocated - 1


def _op_sel(parsed: Parsed, declared: Resources | None) -> bool:
    count = len(parsed.operands) - 1
    return any(parsed.bits("op_sel", count)) or not all(parsed.bits("op_sel_hi", count, 1))


def _second_high(parsed: Parsed, declared: Resources | None) -> bool:
    return parsed.bits("op_sel", 2) == (0, 1)


def _addend_high(parsed: Parsed, declared: Resources | None) -> bool:
    return any(parsed.bits("op_sel", 3)[1:]) and not _second_high_twice(parsed, declared)


def _second_high_twice(parsed: Parsed, declared: Resources | None) -> bool:
    return parsed.bits("op_sel", 3) == (0, 1, 0) and parsed.bits("op_sel_hi", 3, 1)[1] == 1


def _beyond_15(parsed: Parsed, declared: Resources | None) -> bool:
    first = parsed.operands[0] if parsed.operands else None
    return isinstance(first, Literal) and first.value > 15


class OperandBug(NamedTuple):
    """One row: where the target has the *trait*, *mnemonic* must not be as *when* says.

    *trait* is the name of a :class:`~coasm.target.Family` attribute, *mnemonic* a pattern.
    *when* is asked of the instruction and of the resources of the kernel that it is in, None in a
    function.
    """

    rule: str
    level: str
    trait: str
    mnemonic: str
    when: Callable[[Parsed, Resources | None], bool]
    what: str
    advice: str


_SHIFT64 = r"v_(lshlrev_b64|lshrrev_b64|ashrrev_i64)"
_SHIFT64_ADVICE = "take the shift amount from another VGPR, or allocate more VGPRs"
_PK_ADVICE = "take the high half as a source without op_sel (v_mov_b32 it first), or do it unpacked"

OPERANDS = (
    # LLVM 22 heeds it on gfx90a alone, later versions on the others too.
    OperandBug(
        "shift64-last-vgpr",
        ERROR,
        "shift64_bug",
        _SHIFT64,
        _last_of_all,
        "the shift amount is in the last VGPR that the wave has: the result is wrong",
        _SHIFT64_ADVICE,
    ),
    # LLVM looks at VGPRs alone here; whether the AGPR that is next in the file helps is not known.
    OperandBug(
        "shift64-last-vgpr",
        ADVICE,
        "shift64_bug",
        _SHIFT64,
        _last_below_agprs,
        "the shift amount is in the last VGPR below the AGPRs: the result may be wrong",
        _SHIFT64_ADVICE,
    ),
    # Seen on hardware: rocMLIR, pull request 2459.
    OperandBug(
        "pk-f32-op-sel",
        ERROR,
        "pk_f32_op_sel_bug",
        r"v_pk_fma_f32",
        _second_high_twice,
        "gfx950 mis-executes it where the second source is its high half for both lanes",
        _PK_ADVICE,
    ),
    # Advice: LLVM up to 22 and ROCm 7 write these (libbitsandbytes_rocm7*.so has v_pk_add_f32 and
    # v_pk_mul_f32 with op_sel:[0,1] op_sel_hi:[1,0], v_pk_fma_f32 with op_sel:[0,0,1]
    # op_sel_hi:[1,1,0]), and only newer LLVM says that they are as bad.
    OperandBug(
        "pk-f32-op-sel",
        ADVICE,
        "pk_f32_op_sel_bug",
        r"v_pk_(add|mul)_f32",
        _second_high,
        "gfx950 may mis-execute it with the second source's high half in the low lane",
        _PK_ADVICE,
    ),
    OperandBug(
        "pk-f32-op-sel",
        ADVICE,
        "pk_f32_op_sel_bug",
        r"v_pk_fma_f32",
        _addend_high,
        "gfx950 may mis-execute it with the high half of its second or third source in the low "
        "lane",
        _PK_ADVICE,
    ),
    # LLVM's assembler refuses them too (validateOpSel), but a code object may hold them.
    OperandBug(
        "dot-op-sel",
        ERROR,
        "dot_op_sel_bug",
        r"v_dot\d",
        _op_sel,
        "op_sel and op_sel_hi do not work with v_dot instructions",
        "move the halves to where they are wanted first",
    ),
    OperandBug(
        "nop-range",
        ERROR,
        "nop_of_4_bits",
        r"s_nop",
        _beyond_15,
        "s_nop uses the low 4 bits of its operand alone, so it waits for less",
        "use several s_nop of at most 15",
    ),
)


def check_operands(program: Program) -> list[Finding]:
    """The instructions of *program* that a row of :data:`OPERANDS` fits, by address.

    Raises:
        FormatError, UnsupportedError: a kernel descriptor that cannot be read.
    """
    rows = [row for row in OPERANDS if getattr(program.family, row.trait)]
    if not rows:
        return []
    any_row = re.compile("|".join(row.mnemonic for row in rows))
    declared = {
        kernel.name: resources(kernel.descriptor, program.co.target) for kernel in program.kernels
    }
    fit: dict[tuple[str, str], list[OperandBug]] = {}
    found = []
    for number in sorted(program.reached):
        block = program.blocks[number]
        for index in range(block.first, block.last):
            text = program.instructions[index].text
            if not any_row.match(text):
                continue
            name = program.name_at(index)
            if (name, text) not in fit:
                parsed, own = parse(text), declared.get(name)
                fit[name, text] = [
                    row for row in rows if re.match(row.mnemonic, text) and row.when(parsed, own)
                ]
            found += [
                Finding(row.rule, row.level, name, program.place(index), row.what, row.advice)
                for row in fit[name, text]
            ]
    return found
