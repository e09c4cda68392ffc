"""Operands that an instruction must not have: what no waiting makes right.

Sources: LLVM's GCNSubtarget.h (hasShift64HighRegBug, hasDOTOpSelHazard, hasPkF32InvalidOpSel) and
GCNHazardRecognizer.cpp (fixShift64HighRegBug).
"""

from __future__ import annotations

from coasm.descriptor import Resources
from coasm.isa import VGPR, Parsed, Register
from coasm.linter.findings import ADVICE
from coasm.linter.rules.rule import Message, OperandBug, Rule

__all__ = ["RULES"]


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


_SHIFT64 = "64-bit shift"
_SHIFT64_ADVICE = "take the shift amount from another VGPR, or allocate more VGPRs"
_PK_ADVICE = "take the high half as a source without op_sel (v_mov_b32 it first), or do it unpacked"

RULES: tuple[Rule, ...] = (
    Rule(
        "shift64-last-vgpr",
        "a 64-bit shift takes its amount from the last VGPR",
        "v_lshlrev_b64, v_lshrrev_b64 and v_ashrrev_i64 read a shift amount in the last register "
        "of the allocation (v7, v15, …) wrongly; in the last below the AGPRs, perhaps: advice. "
        "Take another register for it, or allocate a granule more.",
        "LLVM GCNHazardRecognizer::fixShift64HighRegBug (newer than LLVM 22 for these targets)",
        messages={
            "last of all": Message(
                "the shift amount is in the last VGPR that the wave has: the result is wrong",
                _SHIFT64_ADVICE,
            ),
            # LLVM looks at VGPRs alone here; whether the AGPR that is next in the file helps is not
            # known.
            "last below AGPRs": Message(
                "the shift amount is in the last VGPR below the AGPRs: the result may be wrong",
                _SHIFT64_ADVICE,
                ADVICE,
            ),
        },
        # LLVM 22 heeds it on gfx90a alone, later versions on the others too.
        bugs=(
            OperandBug("shift64_bug", _SHIFT64, _last_of_all, "last of all"),
            OperandBug("shift64_bug", _SHIFT64, _last_below_agprs, "last below AGPRs"),
        ),
    ),
    Rule(
        "pk-f32-op-sel",
        "a packed f32 instruction has an op_sel that misexecutes",
        "On gfx950 v_pk_fma_f32 computes wrong results where op_sel and op_sel_hi both take the "
        "high half of its second source. Newer LLVM avoids the same in v_pk_add_f32 and "
        "v_pk_mul_f32, and any high half in the low lane of v_pk_fma_f32, which older LLVM writes: "
        "advice. Move the value, or do it unpacked.",
        "LLVM GCNSubtarget::hasPkF32InvalidOpSel (newer LLVM); rocMLIR #2459",
        messages={
            # Seen on hardware: rocMLIR, pull request 2459.
            "second high twice": Message(
                "gfx950 mis-executes it where the second source is its high half for both lanes",
                _PK_ADVICE,
            ),
            # Advice: LLVM up to 22 and ROCm 7 write these (libbitsandbytes_rocm7*.so has
            # v_pk_add_f32 and v_pk_mul_f32 with op_sel:[0,1] op_sel_hi:[1,0], v_pk_fma_f32 with
            # op_sel:[0,0,1] op_sel_hi:[1,1,0]), and only newer LLVM says that they are as bad.
            "second high": Message(
                "gfx950 may mis-execute it with the second source's high half in the low lane",
                _PK_ADVICE,
                ADVICE,
            ),
            "addend high": Message(
                "gfx950 may mis-execute it with the high half of its second or third source in the "
                "low lane",
                _PK_ADVICE,
                ADVICE,
            ),
        },
        bugs=(
            OperandBug(
                "pk_f32_op_sel_bug", "packed f32 fma", _second_high_twice, "second high twice"
            ),
            OperandBug(
                "pk_f32_op_sel_bug", "packed f32 sum or product", _second_high, "second high"
            ),
            OperandBug("pk_f32_op_sel_bug", "packed f32 fma", _addend_high, "addend high"),
        ),
    ),
    Rule(
        "vgpr-msb",
        "an s_setreg of MODE changes which VGPRs are meant",
        "On GFX12.5 the high bits of VGPR numbers are bits 12 to 19 of MODE, and "
        "s_setreg_imm32_b32 of MODE writes them from its immediate, whatever field it names.",
        "LLVM pull requests 174681 and 193390, FeatureSetregVGPRMSBFixup",
        messages={
            "changed": Message(
                "{title}: s_set_vgpr_msb {was} becomes {now} before {user}",
                "have the high bits in bits 12 to 19 of the immediate, or insert s_nop 0 and "
                "s_set_vgpr_msb {was} behind it",
            ),
        },
    ),
    Rule(
        "dot-op-sel",
        "op_sel is set on a dot product",
        "The dot products ignore or mishandle op_sel on these targets. Pack the operands so that "
        "they need none.",
        "LLVM GCNSubtarget::hasDOTOpSelHazard",
        messages={
            "op_sel": Message(
                "op_sel and op_sel_hi do not work with v_dot instructions",
                "move the halves to where they are wanted first",
            ),
        },
        # LLVM's assembler refuses them too (validateOpSel), but a code object may hold them.
        bugs=(OperandBug("dot_op_sel_bug", "dot", _op_sel, "op_sel"),),
    ),
)
