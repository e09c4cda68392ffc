"""Registers that are known to hold no denormals, from one block to the next, and no more.

Each kernel puts a denormal where one was ruled out before, and multiplies by 2^24: of a denormal
operand that is flushed 0 is left, and of one that is not, a number.
"""

from __future__ import annotations

import numpy as np
import pytest

from coasm.llvm import Llvm
from tests.emulator.harness import assemble, run

_FLUSH = ".amdhsa_float_denorm_mode_32 0"
_HEAD = """
    s_load_dwordx2 s[4:5], s[0:1], 0x0
    v_and_b32 v0, 0x3ff, v0
    v_lshlrev_b32 v1, 2, v0
    v_mov_b32 v4, 0x4b800000
    v_mov_b32 v2, 1.0
    v_mov_b32 v9, 0
    s_mov_b32 s6, 0
    s_waitcnt lgkmcnt(0)
loop:
"""
_TAIL = """
    s_add_u32 s6, s6, 1
    s_cmp_lt_u32 s6, 4
    s_cbranch_scc1 loop
    global_store_dword v1, v9, s[4:5]
    s_endpgm
"""
#: What is in a round of the loop, and what v9 is of the lanes 0, 1 and 32 after four rounds.
_ROUNDS = {
    "v_add_f32 v3, v2, v2\nv_mul_f32 v9, v3, v4": (2.0**25,) * 3,
    # The next round's operand is a denormal of an integer instruction, of another block.
    "v_mul_f32 v9, v2, v4\nv_mov_b32 v2, 1": (0.0,) * 3,
    # A part of a register, and some of its lanes.
    "v_mul_f32 v2, v2, v2\nv_mov_b32_sdwa v2, v0 dst_sel:WORD_1\nv_mul_f32 v9, v2, v4": (0.0,) * 3,
    "v_mov_b32 v2, 7\nv_add_f32_dpp v2, v4, v4 row_shr:1 row_mask:0x3 bank_mask:0xf\n"
    "v_mul_f32 v9, v2, v4": (0.0, 2.0**49, 0.0),
    # Half of a register as an operand.
    "v_mul_f32 v2, 1.0, v4\nv_mul_f32_sdwa v9, v2, v4 src0_sel:WORD_1 src1_sel:DWORD": (0.0,) * 3,
    # Lanes that were off have what they had.
    "v_mov_b32 v2, 5\ns_mov_b64 exec, 2\nv_add_f32 v2, v4, v4\nv_mul_f32 v3, v2, v2\n"
    "s_mov_b64 exec, -1\nv_mul_f32 v9, v2, v4": (0.0, 2.0**49, 0.0),
    # One way to the end of the round leaves a denormal.
    "v_mov_b32 v2, 1.0\ns_cmp_lg_u32 s6, 3\ns_cbranch_scc1 on\nv_mov_b32 v2, 9\non:\n"
    "v_mul_f32 v9, v2, v4": (0.0,) * 3,
}


@pytest.mark.parametrize("body", _ROUNDS)
def test_a_denormal_that_comes_later_is_flushed(llvm: Llvm, body: str) -> None:
    out = np.zeros(64, np.float32)
    co = assemble(llvm, _HEAD + body + _TAIL, directives=_FLUSH)
    run(llvm, co, "k", [out])
    assert tuple(out[[0, 1, 32]]) == _ROUNDS[body]


def test_waves_that_meet_again_keep_what_holds_for_both(llvm: Llvm) -> None:
    """Of two waves that go different ways one has a denormal where they meet."""
    body = """
    v_readfirstlane_b32 s7, v0
    s_cmp_lg_u32 s7, 0
    s_cbranch_scc1 other
    v_mov_b32 v2, 3
    s_branch met
other:
    v_add_f32 v2, v2, v2
met:
    v_mul_f32 v9, v2, v4
"""
    out = np.zeros(128, np.float32)
    co = assemble(llvm, _HEAD + body + _TAIL, directives=_FLUSH)
    run(llvm, co, "k", [out], workgroup=128)
    assert out.tolist() == [0.0] * 64 + [2.0**28] * 64
