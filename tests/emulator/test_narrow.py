"""Numbers of 8 and of 4 bits: conversions against ml_dtypes, transposing reads, dot products.

A transposing read is compared with what the description of LLVM's ``amdgpu.transpose_load`` says
of it; that matrix products which Triton builds upon it are right is in ``tests/compilers``.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from coasm.errors import CoasmError
from coasm.llvm import Llvm
from tests.emulator.harness import assemble, run

#: A register of each lane in, up to four out.
_FRAME = """
s_load_dwordx4 s[4:7], s[0:1], 0x0
v_lshlrev_b32 v1, 4, v0
s_waitcnt lgkmcnt(0)
global_load_dwordx4 v[4:7], v1, s[4:5]
s_waitcnt vmcnt(0)
{body}
global_store_dwordx4 v1, v[8:11], s[6:7]
s_endpgm
"""
_OVFL = "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 23, 1), 1\n"
_FNUZ = {"fp8": ml_dtypes.float8_e4m3fnuz, "bf8": ml_dtypes.float8_e5m2fnuz}
_OCP = {"fp8": ml_dtypes.float8_e4m3fn, "bf8": ml_dtypes.float8_e5m2}
_FP4 = ml_dtypes.float4_e2m1fn
_FLOATS: dict[str, Any] = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}


def _type(target: str, name: str) -> Any:
    return _FP4 if name == "fp4" else (_FNUZ if target == "gfx942" else _OCP)[name]


def _lanes(
    llvm: Llvm, target: str, body: str, values: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    """v[8:11] of each lane after *body*, where v[4:7] held a row of *values* (uint32 [64, 4])."""
    out = np.zeros((64, 4), np.uint32)
    co = assemble(llvm, _FRAME.format(body=body), target, lds=2048)
    run(llvm, co, "k", [np.ascontiguousarray(values, np.uint32), out])
    return out


def _same(got: Any, want: Any) -> None:
    """Equal, zeros with their signs, NaNs whatever their payload."""
    a, b = (np.asarray(v).astype(np.float64) for v in (got, want))
    wrong = ~((a == b) & (np.signbit(a) == np.signbit(b)) | (np.isnan(a) & np.isnan(b)))
    assert not wrong.any(), (a[wrong][:5], b[wrong][:5])


def _wide_numbers() -> np.ndarray[Any, Any]:
    """128 float32: every kind, ties between two numbers of 8 bits, what is too large or small."""
    draw = np.random.default_rng(3)
    edges = [0.0, -0.0, np.inf, -np.inf, np.nan, 240, 248, 256, 448, 464, 465, 480, -1e9, 57344,
             61440, 65536, 1e-9, -1e-9, 2**-10, 2**-11, 3 * 2**-11, 2**-17, 1.0625, 1.1875, -1.125,
             2**-16, 2**-8, 3.0e38, 1e-40, 5, 6, 7, 0.25, 0.75]  # fmt: skip
    some = draw.standard_normal(128 - len(edges)) * np.exp2(draw.uniform(-18, 10, 128 - len(edges)))
    return np.array([*edges, *some], np.float32)


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
@pytest.mark.parametrize("name", ["fp8", "bf8"])
def test_every_code_as_float32(llvm: Llvm, target: str, name: str) -> None:
    """v_cvt_f32_fp8, v_cvt_f32_bf8, v_cvt_pk_f32_fp8, v_cvt_pk_f32_bf8: all codes, all parts."""
    codes = np.arange(256, dtype=np.uint8)
    values = np.zeros((64, 4), np.uint32)
    values[:, 0] = codes.view(np.uint32)
    want = codes.view(_type(target, name)).astype(np.float32).reshape(64, 4)
    one = "".join(f"v_cvt_f32_{name}_sdwa v{8 + at}, v4 src0_sel:BYTE_{at}\n" for at in range(4))
    _same(_lanes(llvm, target, one, values).view(np.float32), want)
    pair = f"v_cvt_pk_f32_{name} v[8:9], v4\nv_cvt_pk_f32_{name}_sdwa v[10:11], v4 src0_sel:WORD_1"
    _same(_lanes(llvm, target, pair, values).view(np.float32), want)


@pytest.mark.parametrize("clamps", [False, True])
@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
@pytest.mark.parametrize("name", ["fp8", "bf8"])
def test_float32_as_eight_bits(llvm: Llvm, target: str, name: str, clamps: bool) -> None:
    """v_cvt_pk_fp8_f32, v_cvt_pk_bf8_f32 into either half; the other half stays."""
    dtype, numbers = _type(target, name), _wide_numbers()
    if clamps:
        numbers = np.where(np.isinf(numbers), np.float32(1), numbers)
    values = np.full((64, 4), 0x12345678, np.uint32)
    values[:, :2] = numbers.view(np.uint32).reshape(64, 2)
    body = _OVFL * clamps + (
        f"v_mov_b32 v8, v6\nv_cvt_pk_{name}_f32 v8, v4, v5\n"
        f"v_mov_b32 v9, v6\nv_cvt_pk_{name}_f32 v9, -v4, |v5| op_sel:[0,0,1]"
    )
    out = _lanes(llvm, target, body, values)[:, :2].copy().view(np.uint8).reshape(64, 8)
    largest = float(ml_dtypes.finfo(dtype).max)
    pairs = numbers.reshape(64, 2)
    if clamps:
        pairs = np.clip(pairs, -largest, largest)
    low = pairs.astype(dtype)
    high = np.stack([-pairs[:, 0], np.abs(pairs[:, 1])], axis=-1).astype(dtype)
    _same(out[:, 0:2].copy().view(dtype), low)
    _same(out[:, 6:8].copy().view(dtype), high)
    assert (out[:, 2:4] == [0x34, 0x12]).all()
    assert (out[:, 4:6] == [0x78, 0x56]).all()


def test_an_infinity_that_would_be_clamped_is_refused(llvm: Llvm) -> None:
    values = np.full((64, 4), 0x7F80_0000, np.uint32)
    with pytest.raises(CoasmError, match="an infinity as a number of 8 bits"):
        _lanes(llvm, "gfx942", _OVFL + "v_cvt_pk_fp8_f32 v8, v4, v5", values)


@pytest.mark.parametrize("kind", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("name", ["fp8", "bf8", "fp4"])
@pytest.mark.parametrize("power", [0, 3, -5])
def test_scaled_to_wide(llvm: Llvm, kind: str, name: str, power: int) -> None:
    """v_cvt_scalef32_pk_{f32,f16,bf16}_{fp8,bf8,fp4}: codes times the scale."""
    codes = np.arange(256, dtype=np.uint8)
    values = np.zeros((64, 4), np.uint32)
    values[:, 0] = codes.view(np.uint32)
    values[:, 1] = np.float32(1.75 * 2.0**power).view(np.uint32)  # only the exponent counts
    wide = kind == "f32"
    parts = 4 if name == "fp4" else 2
    body, places = "", []
    for at in range(parts):
        pick = f" op_sel:[{at & 1},{at >> 1}]" if parts == 4 else f" op_sel:[{at},0]"
        d = 8 + (2 * (at % 2) if wide else at)
        places.append(2 * (at % 2) if wide else at)
        target = f"v[{d}:{d + 1}]" if wide else f"v{d}"
        if not (wide and at > 1):
            body += f"v_cvt_scalef32_pk_{kind}_{name} {target}, v4, v5{pick}\n"
    out = _lanes(llvm, "gfx950", body, values)
    for at in range(2 if wide else parts):
        if name == "fp4":
            byte = codes.reshape(64, 4)[:, at]
            pair = np.stack([byte & 15, byte >> 4], axis=-1).view(_FP4)
        else:
            pair = codes.reshape(64, 4)[:, 2 * at : 2 * at + 2].view(_type("gfx950", name))
        with np.errstate(over="ignore"):
            want = (pair.astype(np.float64) * 2.0**power).astype(_FLOATS[kind])
        got = out[:, places[at] : places[at] + (2 if wide else 1)].copy().view(_FLOATS[kind])
        _same(got, want)


@pytest.mark.parametrize("kind", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("name", ["fp8", "bf8", "fp4"])
@pytest.mark.parametrize("power", [0, 2, -4])
def test_wide_to_scaled(llvm: Llvm, kind: str, name: str, power: int) -> None:
    """v_cvt_scalef32_pk_{fp8,bf8,fp4}_{f32,f16,bf16}: numbers over the scale, the rest stays."""
    dtype = _type("gfx950", name)
    with np.errstate(over="ignore"):
        numbers = _wide_numbers().astype(_FLOATS[kind])
    if name == "fp4":
        numbers = np.where(np.isnan(numbers), numbers.dtype.type(0.5), numbers)
    if name == "fp4":
        numbers = np.clip(numbers.astype(np.float32), -6, 6).astype(numbers.dtype)
        numbers = (numbers.astype(np.float32) * 2.0**power).astype(numbers.dtype)
    values = np.full((64, 4), 0x12345678, np.uint32)
    raw = numbers.reshape(64, 2).view(np.uint32).reshape(64, -1)
    values[:, : raw.shape[1]] = raw
    values[:, 2] = np.float32(2.0**power).view(np.uint32)
    sources = "v4, v5, v6" if kind == "f32" else "v4, v6"
    zeros = "0,0" if kind == "f32" else "0"
    sels = [f"[{zeros},0,0]", f"[{zeros},0,1]"] if name != "fp4" else [
        f"[{zeros},{at & 1},{at >> 1}]" for at in range(4)
    ]  # fmt: skip
    body = "".join(
        f"v_mov_b32 v{8 + at}, v7\nv_cvt_scalef32_pk_{name}_{kind} v{8 + at}, {sources}"
        f" op_sel:{sel}\n"
        for at, sel in enumerate(sels)
    )
    out = _lanes(llvm, "gfx950", body, values)
    with np.errstate(over="ignore"):
        want = (numbers.reshape(64, 2).astype(np.float64) / 2.0**power).astype(dtype)
    for at in range(len(sels)):
        size = 1 if name == "fp4" else 2
        mine = out[:, at : at + 1].copy().view(np.uint8).reshape(64, 4)
        part = mine[:, size * at : size * at + size].copy()
        if name == "fp4":
            part = np.concatenate([part & 15, part >> 4], axis=1)
        _same(part.view(dtype), want)
        kept = np.array([0x78, 0x56, 0x34, 0x12], np.uint8)
        others = [byte for byte in range(4) if not size * at <= byte < size * at + size]
        assert (mine[:, others] == kept[others]).all()


@pytest.mark.parametrize("bits", [16, 8, 4])
def test_a_transposing_read(llvm: Llvm, bits: int) -> None:
    """ds_read_b64_tr_b16, _b8 and _b4: rows of 16 elements become columns."""
    size = 8
    rows = 8 * size // bits
    draw = np.random.default_rng(bits)
    blocks = draw.integers(0, 1 << bits, (4, rows, 16))
    stream = (blocks[..., None] >> np.arange(bits) & 1).astype(np.uint8).reshape(64, -1)
    lanes = np.packbits(stream, axis=-1, bitorder="little").view(np.uint32)
    values = np.zeros((64, 4), np.uint32)
    values[:, : size // 4] = lanes
    registers = f"v[8:{8 + size // 4 - 1}]"
    body = (
        f"v_mul_u32_u24 v2, {size}, v0\nds_write_b{8 * size} v2, v[4:{3 + size // 4}]\n"
        "s_waitcnt lgkmcnt(0)\n"
        f"ds_read_b{8 * size}_tr_b{bits} {registers}, v2\ns_waitcnt lgkmcnt(0)"
    )
    out = _lanes(llvm, "gfx950", body, values)[:, : size // 4].copy()
    columns = blocks.transpose(0, 2, 1)
    stream = (columns[..., None] >> np.arange(bits) & 1).astype(np.uint8).reshape(64, -1)
    assert (out == np.packbits(stream, axis=-1, bitorder="little").view(np.uint32)).all()


def test_a_number_that_overflows_with_fp16_ovfl_is_refused(llvm: Llvm) -> None:
    """Whatever makes an f16: with MODE.FP16_OVFL it would be the largest number."""
    values = np.full((64, 4), 0x7B007B00, np.uint32)
    for body in ("v_add_f16 v8, v4, v5", "v_pk_add_f16 v8, v4, v5", "v_pk_fma_f16 v8, v4, v5, v5",
                 "v_fma_f16 v8, v4, v5, v4", "v_fma_mixlo_f16 v8, v4, v5, v5 op_sel_hi:[1,1,1]",
                 "v_ldexp_f16 v8, v4, v6"):  # fmt: skip
        assert (_lanes(llvm, "gfx942", body, values)[:, 0] & 0x7FFF == 0x7C00).all()
        with pytest.raises(CoasmError, match="FP16_OVFL"):
            _lanes(llvm, "gfx942", _OVFL + body, values)


def test_offsets_that_meet_beyond_32_bits_are_refused(llvm: Llvm) -> None:
    """What an i8 reduction of IREE does; an offset that is out of range either way reads 0."""
    body = """
    s_mov_b32 s8, s4
    s_mov_b32 s9, s5
    s_movk_i32 s10, {records}
    s_mov_b32 s11, 0x27000
    v_mov_b32 v2, -20
    buffer_load_dword v8, v2, s[8:11], 0 offen offset:{offset}
    s_waitcnt vmcnt(0)"""
    values = np.full((64, 4), 7, np.uint32)
    out = _lanes(llvm, "gfx942", body.format(records=64, offset=4), values)
    assert (out[:, 0] == 0).all()
    out = _lanes(llvm, "gfx942", body.format(records=64, offset=100), values)
    assert (out[:, 0] == 0).all()
    with pytest.raises(CoasmError, match="add up to more than 32 bits"):
        _lanes(llvm, "gfx942", body.format(records=64, offset=20), values)


# Stochastic rounding, numbers of 6 bits, single numbers with a scale.

_FP6 = {"fp6": ml_dtypes.float6_e2m3fn, "bf6": ml_dtypes.float6_e3m2fn}
_SIXES = {**_OCP, **_FP6, "fp4": _FP4}
#: Bits of the fraction that a number has.
_FRACTION = {"f32": 23, "f16": 10, "bf16": 7}


def _chosen(value: float, seed: int, kind: str, dtype: Any) -> float:
    """Which neighbour a seed picks: that far behind the lower one, in what the format drops.

    In fractions of the step between two numbers of the format, with as many bits of the seed, from
    the top, as the number has behind that step.
    """
    limits = ml_dtypes.finfo(dtype)
    if value == 0 or not math.isfinite(value):
        return value
    size = abs(value)
    exponent = max(math.frexp(size)[1] - 1, int(limits.minexp))
    dropped = _FRACTION[kind] - int(limits.nmant)
    steps, rest = divmod(Fraction(size), Fraction(2) ** (exponent - int(limits.nmant)))
    behind = math.floor(rest / Fraction(2) ** (exponent - int(limits.nmant)) * 2**dropped)
    steps += behind + (seed >> 32 - dropped) >= 1 << dropped
    return math.copysign(float(steps * Fraction(2) ** (exponent - int(limits.nmant))), value)


def _narrowed(values: list[float], dtype: Any) -> np.ndarray[Any, Any]:
    """Rounded to the format; numbers of 6 and 4 bits have no NaN and no infinity."""
    wide = np.array(values)
    if ml_dtypes.finfo(dtype).bits < 8:
        largest = float(ml_dtypes.finfo(dtype).max)
        wide = np.where(np.isnan(wide), np.copysign(largest, wide), wide).clip(-largest, largest)
    return wide.astype(dtype)


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
@pytest.mark.parametrize("name", ["fp8", "bf8"])
def test_stochastic_rounding(llvm: Llvm, target: str, name: str) -> None:
    """v_cvt_sr_fp8_f32, v_cvt_sr_bf8_f32 into each byte: the seed's top bits decide."""
    dtype, draw = _type(target, name), np.random.default_rng(4)
    numbers = _wide_numbers()[:64]
    values = np.full((64, 4), 0x12345678, np.uint32)
    values[:, 0] = numbers.view(np.uint32)
    values[:, 1] = draw.integers(0, 1 << 32, 64, dtype=np.uint32)
    values[::7, 1] = 0xFFFF_FFFF
    body = "".join(
        f"v_mov_b32 v{8 + at}, v6\n"
        f"v_cvt_sr_{name}_f32 v{8 + at}, v4, v5 op_sel:[0,0,{at & 1},{at >> 1}]\n"
        for at in range(4)
    )
    out = _lanes(llvm, target, body, values).view(np.uint8).reshape(64, 4, 4)
    chosen = [_chosen(float(n), int(s), "f32", dtype) for n, s in zip(numbers, values[:, 1])]  # noqa: B905
    want = _narrowed(chosen, dtype)
    for at in range(4):
        _same(out[:, at, at].copy().view(dtype), want)
        others = [byte for byte in range(4) if byte != at]
        assert (out[:, at, others] == np.array([0x78, 0x56, 0x34, 0x12])[others]).all()


def test_stochastic_rounding_to_16_bits(llvm: Llvm) -> None:
    """v_cvt_sr_f16_f32, v_cvt_sr_bf16_f32 into either half."""
    draw = np.random.default_rng(6)
    numbers = _wide_numbers()[:64]
    numbers[np.abs(numbers) < 2.0**-126] = 0  # denormals are flushed
    values = np.full((64, 4), 0x12345678, np.uint32)
    values[:, 0] = numbers.view(np.uint32)
    values[:, 1] = draw.integers(0, 1 << 32, 64, dtype=np.uint32)
    for kind, dtype in (("f16", np.float16), ("bf16", ml_dtypes.bfloat16)):
        body = (
            f"v_mov_b32 v8, v6\nv_cvt_sr_{kind}_f32 v8, v4, v5\n"
            f"v_mov_b32 v9, v6\nv_cvt_sr_{kind}_f32 v9, v4, v5 op_sel:[0,0,1]"
        )
        out = _lanes(llvm, "gfx950", body, values)[:, :2].copy().view(np.uint16).reshape(64, 4)
        chosen = [_chosen(float(n), int(s), "f32", dtype) for n, s in zip(numbers, values[:, 1])]  # noqa: B905
        want = np.array(chosen).astype(dtype)
        _same(out[:, 0].copy().view(dtype), want)
        _same(out[:, 3].copy().view(dtype), want)
        assert (out[:, 1] == 0x1234).all() and (out[:, 2] == 0x5678).all()


#: 32 registers in, up to 32 out; v40 is a seed and v41 a scale.
_WIDE_FRAME = """
s_load_dwordx4 s[4:7], s[0:1], 0x0
v_mul_u32_u24 v1, 0x88, v0
v_lshlrev_b32 v2, 7, v0
s_waitcnt lgkmcnt(0)
{loads}
global_load_dwordx2 v[40:41], v1, s[4:5] offset:128
s_waitcnt vmcnt(0)
{body}
{stores}
s_endpgm
"""


def _wide_lanes(
    llvm: Llvm, body: str, first: int, count: int, values: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    """*count* registers from *first* on after *body*, where v[4:35] held a row of *values*."""
    moves = range(0, 32, 4)
    loads = "\n".join(
        f"global_load_dwordx4 v[{4 + at}:{7 + at}], v1, s[4:5] offset:{4 * at}" for at in moves
    )
    stores = "\n".join(
        f"global_store_dword v2, v{first + at}, s[6:7] offset:{4 * at}" for at in range(count)
    )
    out = np.zeros((64, 32), np.uint32)
    text = _WIDE_FRAME.format(loads=loads, body=body, stores=stores)
    run(llvm, assemble(llvm, text, "gfx950"), "k", [np.ascontiguousarray(values), out])
    return out[:, :count]


def _next_random(seed: int) -> int:
    """V_PRNG_B32."""
    return (seed << 1 ^ (197 if seed >> 31 else 0)) & 0xFFFF_FFFF


def _numbers_32(kind: str, power: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """32 numbers of *kind* for each lane, and the registers that hold them, a seed and a scale."""
    draw = np.random.default_rng(power + 40)
    wide = draw.standard_normal((64, 32)) * np.exp2(draw.integers(-5, 5, (64, 32)) + power)
    wide[0, :6] = 0.0, -0.0, np.inf, -np.inf, 1e30, np.nan
    with np.errstate(over="ignore"):
        numbers = wide.astype(_FLOATS[kind])
    values = np.zeros((64, 34), np.uint32)
    raw = np.ascontiguousarray(numbers).view(np.uint32).reshape(64, -1)
    values[:, : raw.shape[1]] = raw
    values[:, 32] = draw.integers(0, 1 << 32, 64, dtype=np.uint32)
    values[:, 33] = np.float32(2.0**power).view(np.uint32)
    return numbers.astype(np.float64), values


def _six_bits(codes: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """32 codes of each lane as six words, the first code lowest."""
    stream = (codes[..., None] >> np.arange(6) & 1).astype(np.uint8).reshape(64, -1)
    return np.packbits(stream, axis=-1, bitorder="little").view(np.uint32)


@pytest.mark.parametrize("kind", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("name", ["fp6", "bf6"])
def test_numbers_of_six_bits(llvm: Llvm, kind: str, name: str) -> None:
    """Both ways, with a scale, rounded to nearest even and by a seed that goes on."""
    numbers, values = _numbers_32(kind, 2)
    dtype, size = _FP6[name], 32 if kind == "f32" else 16
    scaled = numbers / 4.0
    want = _narrowed(list(scaled.reshape(-1)), dtype).view(np.uint8).reshape(64, 32)
    if kind == "f32":
        body = f"v_cvt_scalef32_2xpk16_{name}_f32 v[50:55], v[4:19], v[20:35], v41"
        order = [at // 2 + 16 * (at % 2) for at in range(32)]
    else:
        body = f"v_cvt_scalef32_pk32_{name}_{kind} v[50:55], v[4:19], v41"
        order = list(range(32))
    assert (_wide_lanes(llvm, body, 50, 6, values) == _six_bits(want[:, order])).all()
    body = f"v_cvt_scalef32_sr_pk32_{name}_{kind} v[50:55], v[4:{3 + size}], v40, v41"
    chosen = []
    for row, seed in zip(scaled, values[:, 32].tolist(), strict=True):
        for value in row:
            chosen.append(_chosen(float(value), seed, kind, dtype))
            seed = _next_random(seed)
    want = _narrowed(chosen, dtype).view(np.uint8).reshape(64, 32)
    assert (_wide_lanes(llvm, body, 50, 6, values) == _six_bits(want)).all()
    codes = np.random.default_rng(2).integers(0, 64, (64, 32)).astype(np.uint8)
    values[:, :6] = _six_bits(codes)
    body = "".join(f"v_mov_b32 v{44 + at}, v{4 + at}\n" for at in range(6))
    body += f"v_cvt_scalef32_pk32_{kind}_{name} v[4:{3 + size}], v[44:49], v41"
    out = np.ascontiguousarray(_wide_lanes(llvm, body, 4, size, values))
    _same(out.view(_FLOATS[kind]), codes.view(dtype).astype(np.float64) * 4.0)


@pytest.mark.parametrize("kind", ["f32", "f16", "bf16"])
def test_scaled_and_rounded_by_a_seed(llvm: Llvm, kind: str) -> None:
    """v_cvt_scalef32_sr_{fp8,bf8}_*, v_cvt_scalef32_sr_pk_fp4_*, into the byte that op_sel says."""
    numbers, values = _numbers_32(kind, -3)
    second = 1 if kind == "f32" else 0
    pair = f"v[4:{4 + second}]" if second else "v4"
    body = (
        "v_mov_b32 v50, -1\nv_mov_b32 v51, -1\n"
        f"v_cvt_scalef32_sr_fp8_{kind} v50, v4, v40, v41 op_sel:[0,0,1,0]\n"
        f"v_cvt_scalef32_sr_bf8_{kind} v50, v4, v40, v41 op_sel:[0,0,0,1]\n"
        f"v_cvt_scalef32_sr_pk_fp4_{kind} v51, {pair}, v40, v41 op_sel:[0,0,1,1]"
    )
    out = np.ascontiguousarray(_wide_lanes(llvm, body, 50, 2, values)).view(np.uint8)
    seeds = values[:, 32].tolist()
    first = [float(n) * 8.0 for n in numbers[:, 0]]
    for name, at in (("fp8", 1), ("bf8", 2)):
        chosen = [_chosen(n, s, kind, _OCP[name]) for n, s in zip(first, seeds, strict=True)]
        _same(out[:, at].copy().view(_OCP[name]), _narrowed(chosen, _OCP[name]))
    other = [float(n) * 8.0 for n in numbers[:, 1]]
    low = [_chosen(n, s, kind, _FP4) for n, s in zip(first, seeds, strict=True)]
    high = [_chosen(n, _next_random(s), kind, _FP4) for n, s in zip(other, seeds, strict=True)]
    codes = [_narrowed(part, _FP4).view(np.uint8) for part in (low, high)]
    assert (out[:, 7] == codes[0] | codes[1] << 4).all()
    assert (out[:, [0, 3, 4, 5, 6]] == 0xFF).all()


@pytest.mark.parametrize("name", ["fp8", "bf8"])
def test_one_number_with_a_scale(llvm: Llvm, name: str) -> None:
    """v_cvt_scalef32_f32_* and v_cvt_scalef32_f16_*: of a byte; into a half of the result."""
    codes = np.arange(256, dtype=np.uint8)
    values = np.full((64, 34), 0, np.uint32)
    values[:, 0] = codes.view(np.uint32)
    values[:, 33] = np.float32(0.5).view(np.uint32)
    body = "v_mov_b32 v54, -1\nv_mov_b32 v55, -1\n" + "".join(
        f"v_cvt_scalef32_f32_{name} v{50 + at}, v4, v41 op_sel:[{at & 1},{at >> 1},0]\n"
        for at in range(4)
    )
    body += (
        f"v_cvt_scalef32_f16_{name} v54, v4, v41 op_sel:[1,0,0]\n"
        f"v_cvt_scalef32_f16_{name} v55, v4, v41 op_sel:[0,1,1]\n"
    )
    out = np.ascontiguousarray(_wide_lanes(llvm, body, 50, 6, values))
    want = codes.view(_OCP[name]).astype(np.float64).reshape(64, 4) / 2
    _same(out[:, :4].copy().view(np.float32), want)
    halves = out[:, 4:].copy().view(np.uint16).reshape(64, 4)
    _same(halves[:, 0].copy().view(np.float16), want[:, 1].astype(np.float16))
    _same(halves[:, 3].copy().view(np.float16), want[:, 2].astype(np.float16))
    assert (halves[:, 1:3] == 0xFFFF).all()


def test_a_scale_that_is_no_number(llvm: Llvm) -> None:
    """E8M0 (OCP MX formats): 255 is a NaN, 0 is 2**-127."""
    values = np.zeros((64, 4), np.uint32)
    values[:, 0] = 0x38383838  # 1.0 in each byte
    values[:, 1] = 0x7F800000
    values[1::2, 1] = 0
    out = _lanes(llvm, "gfx950", "v_cvt_scalef32_pk_f32_fp8 v[8:9], v4, v5", values)
    want = np.where(np.arange(64) % 2, 2.0**-127, np.nan)
    _same(out[:, 0].copy().view(np.float32), want)
