"""Scalar instructions over edge values, against Python integers: the result and SCC.

Sources are ``a`` (s[8:9]) and ``b`` (s[10:11]); SCC is ``a & 1`` before. What SCC becomes:
CDNA3 ISA guide, "SOP2", "SOP1", "SOPC", "SOPK" instructions.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np

from coasm.llvm import Llvm
from tests.emulator.harness import assemble, run

M32, M64 = (1 << 32) - 1, (1 << 64) - 1
EDGES = [
    0,
    1,
    2,
    31,
    32,
    63,
    0x7FFFFFFF,
    0x80000000,
    0xFFFFFFFF,
    0x00100004,
    0x12345678,
    0xFFFF8000,
    1 << 32,
    (1 << 63) - 1,
    1 << 63,
    M64,
    0xDEADBEEF12345679,
    0x0021000300200001,
]

Result = "tuple[int, int | None]"
ROWS: list[tuple[str, Callable[[int, int, int], tuple[int, int | None]]]] = []


def s32(value: int) -> int:
    value &= M32
    return value - (1 << 32) if value >> 31 else value


def s64(value: int) -> int:
    value &= M64
    return value - (1 << 64) if value >> 63 else value


def row(text: str, expect: Callable[[int, int, int], tuple[int, int | None]]) -> None:
    """*expect* of a, b and the old SCC gives the result and the new SCC (None: as it was)."""
    ROWS.append((text, expect))


def narrow(
    name: str, expect: Callable[[int, int, int], tuple[int, int | None]], sources: int = 2
) -> None:
    operands = ", ".join(["s16", "s8", "s10"][: sources + 1])

    def masked(a: int, b: int, c: int) -> tuple[int, int | None]:
        value, scc = expect(a & M32, b & M32, c)
        return value & M32, scc

    row(f"s_{name} {operands}", masked)


def wide(
    name: str,
    expect: Callable[[int, int, int], tuple[int, int | None]],
    sources: int = 2,
    second: str = "s[10:11]",
) -> None:
    operands = ", ".join(["s[16:17]", "s[8:9]", second][: sources + 1])
    row(f"s_{name} {operands}", lambda a, b, c: (expect(a, b, c)[0] & M64, expect(a, b, c)[1]))


def nz(value: int, mask: int = M32) -> tuple[int, int]:
    return value, int(value & mask != 0)


def fits(value: int) -> int:
    return int(not -(2**31) <= value < 2**31)


narrow("add_u32", lambda a, b, c: (a + b, a + b >> 32))
narrow("sub_u32", lambda a, b, c: (a - b, int(b > a)))
narrow("addc_u32", lambda a, b, c: (a + b + c, a + b + c >> 32))
narrow("subb_u32", lambda a, b, c: (a - b - c, int(b + c > a)))
narrow("add_i32", lambda a, b, c: (a + b, fits(s32(a) + s32(b))))
narrow("sub_i32", lambda a, b, c: (a - b, fits(s32(a) - s32(b))))
narrow("mul_i32", lambda a, b, c: (a * b, None))
narrow("mul_hi_u32", lambda a, b, c: (a * b >> 32, None))
narrow("mul_hi_i32", lambda a, b, c: (s32(a) * s32(b) >> 32, None))
narrow("min_u32", lambda a, b, c: (min(a, b), int(a < b)))
narrow("max_i32", lambda a, b, c: (max(s32(a), s32(b)), int(s32(a) >= s32(b))))
narrow("min_i32", lambda a, b, c: (min(s32(a), s32(b)), int(s32(a) < s32(b))))
narrow("and_b32", lambda a, b, c: nz(a & b))
narrow("or_b32", lambda a, b, c: nz(a | b))
narrow("xor_b32", lambda a, b, c: nz(a ^ b))
narrow("andn2_b32", lambda a, b, c: nz(a & ~b))
narrow("orn2_b32", lambda a, b, c: nz(a | ~b))
narrow("nand_b32", lambda a, b, c: nz(~(a & b)))
narrow("xnor_b32", lambda a, b, c: nz(~(a ^ b)))
narrow("not_b32", lambda a, b, c: nz(~a), 1)
narrow("lshl_b32", lambda a, b, c: nz(a << (b & 31)))
narrow("lshr_b32", lambda a, b, c: nz(a >> (b & 31)))
narrow("ashr_i32", lambda a, b, c: nz(s32(a) >> (b & 31)))
narrow("bfm_b32", lambda a, b, c: (((1 << (a & 31)) - 1) << (b & 31), None))
narrow("lshl3_add_u32", lambda a, b, c: ((a << 3) + b, int((a << 3) + b > M32)))
narrow("absdiff_i32", lambda a, b, c: nz(abs(s32(a - b))))
narrow("abs_i32", lambda a, b, c: nz(abs(s32(a))), 1)
narrow("sext_i32_i8", lambda a, b, c: ((a & 255) - (a & 128) * 2, None), 1)
narrow("sext_i32_i16", lambda a, b, c: ((a & 0xFFFF) - (a & 0x8000) * 2, None), 1)
narrow("pack_lh_b32_b16", lambda a, b, c: (a & 0xFFFF | b & 0xFFFF0000, None))
narrow("cselect_b32", lambda a, b, c: (a if c else b, None))
narrow("brev_b32", lambda a, b, c: (int(f"{a:032b}"[::-1], 2), None), 1)
narrow("bcnt1_i32_b32", lambda a, b, c: nz(bin(a).count("1")), 1)
narrow("ff1_i32_b32", lambda a, b, c: ((a & -a).bit_length() - 1, None), 1)
narrow("flbit_i32_b32", lambda a, b, c: (32 - a.bit_length() if a else -1, None), 1)


def extract(bits: int, sign: bool) -> Callable[[int, int, int], tuple[int, int | None]]:
    def expect(a: int, b: int, c: int) -> tuple[int, int | None]:
        a &= (1 << bits) - 1
        at, width = b & (bits - 1), min(b >> 16 & 127, bits)
        size = min(width, bits - at)
        value = a >> at & ((1 << size) - 1)
        if sign and size and value >> (size - 1):
            value -= 1 << size
        return value, int(value != 0)

    return expect


narrow("bfe_u32", extract(32, False))
narrow("bfe_i32", extract(32, True))
wide("bfe_u64", extract(64, False), second="s10")
wide("bfe_i64", extract(64, True), second="s10")
wide("and_b64", lambda a, b, c: nz(a & b, M64))
wide("andn2_b64", lambda a, b, c: nz(a & ~b, M64))
wide("xor_b64", lambda a, b, c: nz(a ^ b, M64))
wide("not_b64", lambda a, b, c: nz(~a, M64), 1)
wide("lshl_b64", lambda a, b, c: nz(a << (b & 63), M64), second="s10")
wide("lshr_b64", lambda a, b, c: nz(a >> (b & 63), M64), second="s10")
wide("ashr_i64", lambda a, b, c: nz(s64(a) >> (b & 63), M64), second="s10")
wide("cselect_b64", lambda a, b, c: (a if c else b, None))
row("s_bcnt1_i32_b64 s16, s[8:9]", lambda a, b, c: nz(bin(a).count("1")))
row("s_ff1_i32_b64 s16, s[8:9]", lambda a, b, c: ((a & -a).bit_length() - 1 & M32, None))
row("s_flbit_i32_b64 s16, s[8:9]", lambda a, b, c: ((64 - a.bit_length() if a else -1) & M32, None))
row(
    "s_mov_b32 s16, s8\ns_addk_i32 s16, 0x8000",
    lambda a, b, c: (a - 0x8000 & M32, fits(s32(a) - 0x8000)),
)
row("s_mov_b32 s16, s8\ns_mulk_i32 s16, 0x7fff", lambda a, b, c: (a * 0x7FFF & M32, None))
row("s_movk_i32 s16, 0x8001", lambda a, b, c: (0xFFFF8001, None))
row("s_mov_b32 s16, s8\ns_cmovk_i32 s16, 0x12", lambda a, b, c: (0x12 if c else a & M32, None))
row("s_mov_b32 s16, s8\ns_bitset1_b32 s16, s10", lambda a, b, c: (a & M32 | 1 << (b & 31), None))
for op, test in (
    ("eq", "__eq__"),
    ("lg", "__ne__"),
    ("gt", "__gt__"),
    ("ge", "__ge__"),
    ("lt", "__lt__"),
    ("le", "__le__"),
):
    row(
        f"s_mov_b32 s16, 0\ns_cmp_{op}_u32 s8, s10",
        lambda a, b, c, test=test: (0, int(getattr(a & M32, test)(b & M32))),
    )  # type: ignore[misc]
    row(
        f"s_mov_b32 s16, 0\ns_cmp_{op}_i32 s8, s10",
        lambda a, b, c, test=test: (0, int(getattr(s32(a), test)(s32(b)))),
    )  # type: ignore[misc]
row("s_mov_b32 s16, 0\ns_cmp_eq_u64 s[8:9], s[10:11]", lambda a, b, c: (0, int(a == b)))
row("s_mov_b32 s16, 0\ns_bitcmp1_b32 s8, s10", lambda a, b, c: (0, (a & M32) >> (b & 31) & 1))


def test_every_row_over_edge_values(llvm: Llvm) -> None:
    pairs = list(product(EDGES, EDGES))
    body = [
        "s_mov_b32 s3, s2",
        "s_load_dwordx4 s[4:7], s[0:1], 0x0",
        "s_lshl_b32 s3, s3, 4",
        "s_waitcnt lgkmcnt(0)",
        "s_add_u32 s6, s6, s3",
        "s_addc_u32 s7, s7, 0",
        "s_load_dwordx4 s[8:11], s[6:7], 0x0",
        "v_mov_b32 v1, s3",
        "s_waitcnt lgkmcnt(0)",
    ]
    for text, _ in ROWS:
        body += [
            "s_mov_b64 s[16:17], 0",
            "s_bitcmp1_b32 s8, 0",
            text,
            "s_cselect_b32 s18, 1, 0",
            "v_mov_b32 v2, s16",
            "v_mov_b32 v3, s17",
            "v_mov_b32 v4, s18",
            "global_store_dwordx3 v1, v[2:4], s[4:5]",
            f"s_add_u32 s4, s4, {16 * len(pairs)}",
            "s_addc_u32 s5, s5, 0",
        ]
    body.append("s_endpgm")
    out = np.zeros((len(ROWS), len(pairs), 4), np.uint32)
    source = np.array(pairs, np.uint64)
    run(llvm, assemble(llvm, "\n".join(body)), "k", [out, source], grid=(len(pairs), 1, 1))
    wrong = []
    for (text, expect), results in zip(ROWS, out.tolist(), strict=True):
        for (a, b), (low, high, scc, _) in zip(pairs, results, strict=True):
            value, flag = expect(a, b, a & 1)
            want = (value & M64, a & 1 if flag is None else flag)
            if (low | high << 32, scc) != want:
                wrong.append((text, hex(a), hex(b), (hex(low | high << 32), scc), want))
    assert not wrong, f"{len(wrong)} wrong, for example {wrong[:8]}"
