"""Matrix instructions against NumPy products of matrices that ml_dtypes decodes.

Lane layouts: AMD's published lane formulas for CDNA3 and CDNA4 (16x16x16: A item e of lane L is
A[L % 16, 4 * (L // 16) + e]; the wider shapes in the same way).
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from coasm.llvm import Llvm
from tests.emulator.harness import assemble, run

FORMATS = [
    (ml_dtypes.float8_e4m3fn, 8),
    (ml_dtypes.float8_e5m2, 8),
    (ml_dtypes.float6_e2m3fn, 6),
    (ml_dtypes.float6_e3m2fn, 6),
    (ml_dtypes.float4_e2m1fn, 4),
]


def product(
    llvm: Llvm, instruction: str, registers: list[np.ndarray], target: str, size: int
) -> np.ndarray:
    """Run one instruction on a[0:], A in v[8:15], B in v[16:23], scales in v24 and v25.

    *registers*: uint32 [registers, 64] of A, B, C and the scales. Gives a[0:size - 1].
    """
    body = ["s_load_dwordx4 s[4:7], s[0:1], 0x0", "v_lshlrev_b32 v1, 2, v0", "s_waitcnt lgkmcnt(0)"]
    places = [(8, len(registers[0])), (16, len(registers[1])), (32, len(registers[2])), (24, 2)]
    offset = 0
    for first, count in places:
        for at in range(count):
            body.append(f"global_load_dword v{first + at}, v1, s[6:7] offset:{offset % 4096}")
            offset += 256
            if offset % 4096 == 0:
                body.append("v_add_u32 v1, 0x1000, v1")
    body.append("s_waitcnt vmcnt(0)")
    body.append("v_lshlrev_b32 v1, 2, v0")
    body += [f"v_accvgpr_write_b32 a{at}, v{32 + at}" for at in range(size)]
    body += ["s_nop 7", instruction, "s_nop 15"]
    for at in range(size):
        body += [
            f"v_accvgpr_read_b32 v2, a{at}",
            "global_store_dword v1, v2, s[4:5]",
            "v_add_u32 v1, 0x100, v1",
        ]
    body.append("s_endpgm")
    data = np.concatenate([*registers[:3], registers[3]])
    out = np.zeros((size, 64), np.uint32)
    run(llvm, assemble(llvm, "\n".join(body), target), "k", [out, data])
    return out


def pack(codes: np.ndarray, bits: int) -> np.ndarray:
    """Codes [64, count] → registers uint32 [count * bits / 32, 64]."""
    spread = codes[..., None] >> np.arange(bits) & 1
    raw = np.packbits(spread.reshape(64, -1).astype(np.uint8), axis=1, bitorder="little")
    return np.ascontiguousarray(raw.view(np.uint32).T)


def accumulator(matrix: np.ndarray) -> np.ndarray:
    """C → registers [., 64]: item 4 * h + g of lane L is row 4 * (q * h + L // width) + g."""
    width = len(matrix)
    q = 64 // width
    lane = np.arange(64)
    rows = [
        matrix[4 * (q * h + lane // width) + g, lane % width]
        for h in range(width // 4 // q)
        for g in range(4)
    ]
    return np.stack(rows)


@pytest.mark.parametrize("width", [16, 32])
@pytest.mark.parametrize("b_format", range(5))
@pytest.mark.parametrize("a_format", range(5))
def test_scaled_products_of_every_pair_of_formats(
    a_format: int, b_format: int, width: int, llvm: Llvm
) -> None:
    rng = np.random.default_rng(a_format * 5 + b_format)
    k = 128 if width == 16 else 64
    blocks = k // 32
    lane = np.arange(64)
    registers, matrices = [], []
    scales = rng.integers(120, 134, (2, 64), dtype=np.uint32)
    words = scales << 16 | 0x11003344  # byte 2 counts
    for side, index in enumerate((a_format, b_format)):
        dtype, bits = FORMATS[index]
        values = (rng.integers(-6, 7, (width, k)) / 2).astype(dtype)
        codes = values.view(np.uint8)
        if bits == 8:
            # Two runs of 16: one in each half of K.
            run_of = [
                np.concatenate(
                    [codes[n % width, h * k // 2 + 16 * (n // width) :][:16] for h in (0, 1)]
                )
                for n in lane
            ]
        else:
            run_of = [codes[n % width, 32 * (n // width) :][:32] for n in lane]
        registers.append(pack(np.array(run_of) & ((1 << bits) - 1), bits))
        factor = 2.0 ** (scales[side].astype(np.float64).reshape(blocks, width).T - 127)
        matrices.append(values.astype(np.float64) * np.repeat(factor, 32, axis=1))
    c = rng.integers(-9, 10, (width, width)).astype(np.float32)
    size = width * width // 64
    shape = "16x16x128" if width == 16 else "32x32x64"
    spans = [
        f"v[{first}:{first + FORMATS[index][1] - 1}]"
        for first, index in ((8, a_format), (16, b_format))
    ]
    text = (
        f"v_mfma_scale_f32_{shape}_f8f6f4 a[0:{size - 1}], {spans[0]}, {spans[1]}, "
        f"a[0:{size - 1}], v24, v25 "
        f"op_sel:[0,0,0] op_sel_hi:[1,1,0] cbsz:{a_format} blgp:{b_format}"
    )
    out = product(llvm, text, [*registers, accumulator(c).view(np.uint32), words], "gfx950", size)
    want = (matrices[0] @ matrices[1].T + c).astype(np.float32)
    assert (out.view(np.float32) == accumulator(want)).all()


def test_a_scale_of_all_ones_is_nan(llvm: Llvm) -> None:
    zeros = np.zeros((4, 64), np.uint32)
    words = np.full((2, 64), 0x7F, np.uint32)
    words[0, 5] = 0xFF  # row 5 of A
    text = (
        "v_mfma_scale_f32_16x16x128_f8f6f4 a[0:3], v[8:11], v[16:19], a[0:3], v24, v25 "
        "op_sel_hi:[0,0,0] cbsz:4 blgp:4"
    )
    out = product(llvm, text, [zeros, zeros, zeros, words], "gfx950", 4).view(np.float32)
    want = np.zeros((16, 16), np.float32)
    want[5] = np.nan
    assert np.array_equal(out, accumulator(want), equal_nan=True)


DENSE = [
    ("gfx942", "f32_16x16x16_f16", 16, 16, np.float16),
    ("gfx942", "f32_32x32x8_f16", 32, 8, np.float16),
    ("gfx942", "f32_16x16x16_bf16", 16, 16, ml_dtypes.bfloat16),
    ("gfx942", "f32_32x32x8_bf16", 32, 8, ml_dtypes.bfloat16),
    ("gfx942", "f32_16x16x4_f32", 16, 4, np.float32),
    ("gfx942", "f32_32x32x2_f32", 32, 2, np.float32),
    ("gfx942", "i32_16x16x32_i8", 16, 32, np.int8),
    ("gfx942", "i32_32x32x16_i8", 32, 16, np.int8),
    (
        "gfx942",
        "f32_16x16x32_fp8_bf8",
        16,
        32,
        (ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2fnuz),
    ),
    ("gfx950", "f32_16x16x32_fp8_bf8", 16, 32, (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2)),
    ("gfx950", "f32_32x32x16_fp8_fp8", 32, 16, ml_dtypes.float8_e4m3fn),
    ("gfx950", "f32_16x16x32_f16", 16, 32, np.float16),
    ("gfx950", "f32_32x32x16_bf16", 32, 16, ml_dtypes.bfloat16),
    ("gfx950", "i32_16x16x64_i8", 16, 64, np.int8),
]


@pytest.mark.parametrize(
    ("target", "name", "width", "k", "dtype"), DENSE, ids=[f"{d[0]}-{d[1]}" for d in DENSE]
)
def test_dense_products(
    target: str, name: str, width: int, k: int, dtype: object, llvm: Llvm
) -> None:
    rng = np.random.default_rng(k)
    types = dtype if isinstance(dtype, tuple) else (dtype, dtype)
    per = width * k // 64
    lane = np.arange(64)
    registers, matrices = [], []
    for one in types:
        values = rng.integers(-7, 8, (width, k)).astype(one)  # type: ignore[arg-type]
        items = np.stack([values[n % width, per * (n // width) :][:per] for n in lane])
        registers.append(np.ascontiguousarray(np.ascontiguousarray(items).view(np.uint32).T))
        matrices.append(values.astype(np.float64))
    integer = name.startswith("i32")
    c = rng.integers(-9, 10, (width, width)).astype(np.int32 if integer else np.float32)
    size = width * width // 64

    def span(first: int, count: int) -> str:
        return f"v[{first}:{first + count - 1}]" if count > 1 else f"v{first}"

    text = (
        f"v_mfma_{name} a[0:{size - 1}], {span(8, len(registers[0]))}, "
        f"{span(16, len(registers[1]))}, "
        f"a[0:{size - 1}]"
    )
    words = np.zeros((2, 64), np.uint32)
    out = product(llvm, text, [*registers, accumulator(c).view(np.uint32), words], target, size)
    want = (matrices[0] @ matrices[1].T + c).astype(c.dtype)
    assert (out.view(c.dtype) == accumulator(want)).all()
