"""What the tests by pseudo-code and by modifier leave out of instructions on packed integers."""

from __future__ import annotations

import numpy as np

from coasm.llvm import Llvm
from tests.emulator.harness import assemble, run

_BODY = """
s_load_dwordx4 s[4:7], s[0:1], 0x0
v_lshlrev_b32 v1, 5, v0
s_waitcnt lgkmcnt(0)
global_load_dwordx4 v[4:7], v1, s[4:5]
global_load_dwordx4 v[8:11], v1, s[4:5] offset:16
s_waitcnt vmcnt(0)
v_mqsad_u32_u8 v[8:11], v[4:5], v6, v[8:11]
v_lshlrev_b32 v1, 4, v0
global_store_dwordx4 v1, v[8:11], s[6:7]
s_endpgm
"""


def test_mqsad_u32_u8(llvm: Llvm) -> None:
    """By V_MSAD_U8's words: where a byte of the pattern is zero nothing is added."""
    draw = np.random.default_rng(5)
    values = draw.integers(0, 1 << 32, (64, 8), dtype=np.uint32)
    values[::3, 2] &= np.uint32(0xFF00FF00)
    out = np.zeros((64, 4), np.uint32)
    run(llvm, assemble(llvm, _BODY, "gfx942"), "k", [values, out])
    for lane, row in enumerate(values):
        eight = row[:2].tobytes()
        pattern = row[2:3].tobytes()
        for at in range(4):
            pairs = zip(eight[at : at + 4], pattern, strict=True)
            total = int(row[4 + at]) + sum(abs(x - y) for x, y in pairs if y)
            assert out[lane, at] == total & 0xFFFF_FFFF


_DOTS = """
s_load_dwordx4 s[4:7], s[0:1], 0x0
v_lshlrev_b32 v1, 4, v0
s_waitcnt lgkmcnt(0)
global_load_dwordx4 v[4:7], v1, s[4:5]
s_waitcnt vmcnt(0)
v_mov_b32 v8, v6
v_mov_b32 v9, v6
v_dot4c_i32_i8_e64 v8, v4, v5 clamp
v_dot8c_i32_i4_e64 v9, v4, v5 clamp
v_dot4_i32_i8 v10, v4, v5, v6 clamp
v_dot8_i32_i4 v11, v4, v5, v6 clamp
global_store_dwordx4 v1, v[8:11], s[6:7]
s_endpgm
"""


def test_dot_products_saturate(llvm: Llvm) -> None:
    """With clamp a sum beyond 32 bits is the largest or the smallest number."""
    draw = np.random.default_rng(1)
    values = draw.integers(0, 1 << 32, (64, 4), dtype=np.uint32)
    values[:, 2] = np.where(np.arange(64) % 2, 0x7FFF_FFF0, 0x8000_0010)
    out = np.zeros((64, 4), np.uint32)
    run(llvm, assemble(llvm, _DOTS, "gfx942"), "k", [values, out])
    saturated = 0
    for lane, (a, b, c, _) in enumerate(values.tolist()):
        for at, bits in ((0, 8), (1, 4), (2, 8), (3, 4)):
            total = c - (c >> 31 << 32)
            for up in range(0, 32, bits):
                x, y = (v >> up & (1 << bits) - 1 for v in (a, b))
                total += (x - (x >> bits - 1 << bits)) * (y - (y >> bits - 1 << bits))
            want = min(max(total, -(1 << 31)), (1 << 31) - 1)
            saturated += want != total
            assert out[lane, at] == want & 0xFFFF_FFFF
    assert saturated > 20
