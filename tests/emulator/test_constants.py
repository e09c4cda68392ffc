"""How constants and halves reach operands: values from hardware, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from coasm.emulator import EmulationError
from coasm.llvm import Llvm
from tests.emulator.harness import assemble, run


def _result(llvm: Llvm, body: str, target: str = "gfx942") -> tuple[int, int]:
    """v[20:21] of lane 0 after *body*."""
    text = (
        "s_load_dwordx2 s[4:5], s[0:1], 0x0\nv_lshlrev_b32 v1, 3, v0\ns_waitcnt lgkmcnt(0)\n"
        f"v_mov_b32 v21, 0\n{body}\ns_nop 4\nglobal_store_dwordx2 v1, v[20:21], s[4:5]\ns_endpgm"
    )
    out = np.zeros((64, 2), np.uint32)
    run(llvm, assemble(llvm, text, target), "k", [out])
    return int(out[0, 0]), int(out[0, 1])


#: Source: hardware, as reported; LLVM's getInlineEncodingV216 for constants of packed operands.
_MEASURED = (
    (
        "v_mov_b32 v10, 10\nv_mov_b32 v11, 11\nv_mov_b32 v12, 12\nv_mov_b32 v13, 13\n"
        "v_pk_mov_b32 v[20:21], v[10:11], v[12:13]",
        (10, 12),
    ),
    (
        "v_mov_b32 v10, 10\nv_mov_b32 v11, 11\nv_mov_b32 v12, 12\nv_mov_b32 v13, 13\n"
        "v_pk_mov_b32 v[20:21], v[10:11], v[12:13] op_sel:[1,1]",
        (11, 13),
    ),
    (
        "v_mov_b32 v2, 0x3c003c00\nv_pk_mul_f16 v20, v2, 2.0 op_sel_hi:[1,0]",
        (0x40004000, 0),
    ),
    ("v_mov_b32 v2, 0x3c003c00\nv_pk_add_f16 v20, v2, 1.0", (0x3C004000, 0)),
    ("v_mov_b32 v2, 0x00010001\nv_pk_add_u16 v20, v2, 1.0", (0x3F810001, 0)),
    ("v_mov_b32 v2, 0x00010001\nv_pk_add_u16 v20, v2, -1", (0, 0)),
    ("v_mov_b32 v2, 0x7fc00000\nv_div_fixup_f32 v20, v2, 1.0, 1.0", (0x7F800000, 0)),
    ("v_mov_b32 v2, 0x7fc00000\nv_div_fixup_f32 v20, v2, 1.0, -1.0", (0xFF800000, 0)),
)


@pytest.mark.parametrize(("body", "want"), _MEASURED)
def test_measured(llvm: Llvm, body: str, want: tuple[int, int]) -> None:
    assert _result(llvm, body) == want


@pytest.mark.parametrize(
    ("instruction", "reason"),
    [
        ("v_add_u16 v20, 1.0, v2", "16-bit integer"),
        ("v_lshlrev_b16_e64 v20, v2, -2.0", "16-bit integer"),
        ("v_add_f32_sdwa v20, 1.0, v2 dst_sel:DWORD src0_sel:WORD_1 src1_sel:DWORD", "SDWA"),
    ],
)
def test_what_is_not_known_is_refused(llvm: Llvm, instruction: str, reason: str) -> None:
    with pytest.raises(EmulationError, match=reason):
        _result(llvm, instruction)


def test_both_halves_of_a_constant_are_the_constant(llvm: Llvm) -> None:
    """What Triton 3.9 compiles `<poison, 1.0> + x` to, so read by LLVM."""
    body = "v_mov_b32 v2, 1.0\nv_mov_b32 v3, 2.0\nv_pk_add_f32 v[20:21], v[2:3], 1.0"
    assert _result(llvm, body) == (0x40000000, 0x40400000)


def test_a_scalar_pair_is_selected_like_any_other(llvm: Llvm) -> None:
    body = (
        "s_mov_b32 s6, 2.0\ns_mov_b32 s7, 4.0\nv_mov_b32 v2, 1.0\nv_mov_b32 v3, 1.0\n"
        "v_pk_mul_f32 v[20:21], v[2:3], s[6:7]"
    )
    two, four = 0x40000000, 0x40800000
    assert _result(llvm, body) == (two, four)
    assert _result(llvm, body + " op_sel_hi:[1,0]") == (two, two)
    assert _result(llvm, body + " op_sel:[0,1] op_sel_hi:[1,0]") == (four, two)
    assert _result(llvm, body.replace("s[6:7]", "2.0 op_sel_hi:[1,0]")) == (two, two)


def test_accumulation_registers(llvm: Llvm) -> None:
    body = (
        "v_mov_b32 v2, 0x1234\nv_accvgpr_write_b32 a3, v2\ns_nop 4\n"
        "v_accvgpr_mov_b32 a4, a3\ns_nop 4\nv_accvgpr_read_b32 v20, a4"
    )
    assert _result(llvm, body) == (0x1234, 0)
