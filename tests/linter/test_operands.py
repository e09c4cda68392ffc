"""Operand rules: each row at its edge, on the targets that have it and on one that has not."""

from __future__ import annotations

from typing import Any

import pytest

import coasm
from coasm.linter.findings import ADVICE, ERROR
from coasm.linter.operands import check_operands
from coasm.linter.rules import RULES
from coasm.llvm import Llvm
from tests.linter.kernels import ended, listing, program_of, said

#: 40 VGPRs, of which v0 to v31 lie below the AGPRs.
AGPRS = {"next_free_vgpr": 40, "accum_offset": 32}
SHIFT, PACKED = "shift64-last-vgpr", "pk-f32-op-sel"
ROWS: list[tuple[str, str, dict[str, int], list[tuple[str, str]]]] = [
    ("gfx942", "v_lshlrev_b64 v[0:1], v31, v[2:3]", {}, [(SHIFT, ERROR)]),
    ("gfx950", "v_lshrrev_b64 v[0:1], v31, v[2:3]", {}, [(SHIFT, ERROR)]),
    ("gfx90a", "v_ashrrev_i64 v[0:1], v31, v[2:3]", {}, [(SHIFT, ERROR)]),
    ("gfx908", "v_ashrrev_i64 v[0:1], v31, v[2:3]", {}, []),
    ("gfx942", "v_lshlrev_b64 v[0:1], v30, v[2:3]", {}, []),  # not the last of eight
    ("gfx942", "v_lshlrev_b64 v[0:1], v23, v[2:3]", {}, []),  # v24 is there
    ("gfx942", "v_lshlrev_b64 v[0:1], v2, v[30:31]", {}, []),  # not the amount
    ("gfx942", "v_lshlrev_b64 v[0:1], 31, v[2:3]", {}, []),
    ("gfx942", "v_lshlrev_b64 v[0:1], s31, v[2:3]", {}, []),
    ("gfx942", "v_lshlrev_b32 v0, v31, v2", {}, []),
    ("gfx942", "v_lshlrev_b64 v[0:1], v31, v[2:3]", {"next_free_vgpr": 33}, [(SHIFT, ADVICE)]),
    ("gfx942", "v_lshlrev_b64 v[0:1], v31, v[2:3]", AGPRS, [(SHIFT, ADVICE)]),
    (
        "gfx942",
        "v_lshlrev_b64 v[0:1], v31, v[2:3]",
        {"next_free_vgpr": 40, "accum_offset": 40},
        [],
    ),
    ("gfx950", "v_pk_fma_f32 v[0:1], v[2:3], v[4:5], v[6:7]", {}, []),
    # The form that ROCm/rocMLIR pull request 2459 reports.
    (
        "gfx950",
        "v_pk_fma_f32 v[0:1], v[2:3], v[4:5], v[6:7] op_sel:[0,1,0]",
        {},
        [(PACKED, ERROR)],
    ),
    ("gfx942", "v_pk_fma_f32 v[0:1], v[2:3], v[4:5], v[6:7] op_sel:[0,1,0]", {}, []),
    ("gfx950", "v_pk_fma_f32 v[0:1], v[2:3], v[4:5], v[6:7] op_sel:[1,0,0]", {}, []),
    (
        "gfx950",
        "v_pk_fma_f32 v[0:1], v[2:3], v[4:5], v[6:7] op_sel:[0,1,0] op_sel_hi:[1,0,1]",
        {},
        [(PACKED, ADVICE)],
    ),
    (
        "gfx950",
        "v_pk_fma_f32 v[0:1], v[2:3], v[4:5], v[6:7] op_sel:[0,0,1] op_sel_hi:[1,1,0]",
        {},
        [(PACKED, ADVICE)],
    ),
    ("gfx950", "v_pk_mul_f32 v[0:1], v[2:3], v[4:5] op_sel:[0,1]", {}, [(PACKED, ADVICE)]),
    ("gfx950", "v_pk_add_f32 v[0:1], v[2:3], v[4:5] op_sel:[0,1]", {}, [(PACKED, ADVICE)]),
    ("gfx950", "v_pk_add_f32 v[0:1], v[2:3], v[4:5] op_sel:[1,0]", {}, []),
    ("gfx950", "v_pk_add_f32 v[0:1], v[2:3], v[4:5] op_sel_hi:[0,1]", {}, []),
    ("gfx950", "v_pk_add_f16 v0, v1, v2 op_sel:[0,1]", {}, []),
    ("gfx942", "v_dot2_f32_f16 v0, v1, v2, v3", {}, []),
    # v_dot2_f32_f16 v0, v1, v2, v3 as gfx90a encodes it, with op_sel:[1,0,0] and op_sel_hi:[0,1,1]:
    # here LLVM's assembler refuses that ("invalid op_sel operand").
    ("gfx942", ".long 0xd3a34800, 0x1c0e0501", {}, [("dot-op-sel", ERROR)]),
    ("gfx950", ".long 0xd3a34000, 0x140e0501", {}, [("dot-op-sel", ERROR)]),
    ("gfx90a", "v_dot2_f32_f16 v0, v1, v2, v3 op_sel:[1,0,0]", {}, []),
    ("gfx942", "v_dot2c_f32_f16 v0, v1, v2", {}, []),
    ("gfx942", "v_dot4_i32_i8 v0, v1, v2, v3", {}, []),
    ("gfx942", "s_nop 15", {}, []),
    ("gfx942", "s_nop 16", {}, [("nop-range", ERROR)]),
    ("gfx950", "s_nop 0xffff", {}, [("nop-range", ERROR)]),
]


@pytest.mark.parametrize(("target", "body", "given", "expected"), ROWS)
def test_rows(
    target: str, body: str, given: dict[str, Any], expected: list[tuple[str, str]], llvm: Llvm
) -> None:
    text = listing(ended(f"\t{body}"), target, **given)
    found = check_operands(program_of(llvm, text, target))
    assert said(found) == expected
    mnemonic = "v_dot2_f32_f16" if body.startswith(".long") else body.split()[0]
    assert all(f.kernel == "k" and f.place.text.startswith(mnemonic) for f in found)


def test_every_row_is_tried() -> None:
    expected = {pair for *_, pairs in ROWS for pair in pairs}
    assert expected == {
        (rule.name, rule.messages[bug.case].level) for rule in RULES.values() for bug in rule.bugs
    }


def test_a_function_has_no_last_vgpr(llvm: Llvm) -> None:
    body = "\ts_endpgm\n\t.globl f\n\t.type f,@function\nf:\n\tv_lshlrev_b64 v[0:1], v31, v[2:3]"
    text = listing(body + "\n\ts_setpc_b64 s[30:31]")
    assert check_operands(program_of(llvm, text, "gfx942")) == []


@pytest.mark.parametrize(
    ("setreg", "found"),
    [
        ("hwreg(HW_REG_WAVE_MODE, 25, 1), 0x1", True),
        # dst 1: bits 12 and 13 of MODE.
        ("hwreg(HW_REG_WAVE_MODE, 25, 1), 0x1001", False),
        ("hwreg(HW_REG_WAVE_SCHED_MODE, 0, 2), 0x2", False),
    ],
)
def test_high_bits_of_vgprs_are_kept(setreg: str, found: bool) -> None:
    """LLVM pull request 193390: the immediate goes into bits 12 to 19, whatever field is named."""
    body = f"\ts_set_vgpr_msb 0x40\n\ts_setreg_imm32_b32 {setreg}\n\tv_mov_b32 v0 /*v256*/, 0\n"
    text = listing(f"{body}\ts_endpgm", "gfx1250", next_free_vgpr=512)
    assert ("vgpr-msb" in {one.rule for one in coasm.lint(text)}) == found
    reset = text.replace("\tv_mov_b32", "\ts_nop 0\n\ts_set_vgpr_msb 0x40\n\tv_mov_b32")
    assert "vgpr-msb" not in {one.rule for one in coasm.lint(reset)}
