"""Conversions from and to numbers of 8 and of 4 bits.

Source: CDNA3 and CDNA4 ISA guides, "Vector ALU Operations"; the OCP specifications of 8-bit and of
MX formats. gfx942 has the FNUZ formats, gfx950 those of OCP. A number that is too large becomes
what its format has for it, a NaN or an infinity; with FP16_OVFL the largest number (Triton,
``fp8_clamping``), and what an infinity becomes then is an error, because it is not published.
"""

# NumPy's stubs give Any for arithmetic on arrays of any type.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from coasm.emulator.errors import Fault
from coasm.emulator.rows.context import Context
from coasm.emulator.rows.convert import to_bf16
from coasm.emulator.rows.matrix import FORMATS, Format, values_of
from coasm.emulator.rows.table import row
from coasm.emulator.rows.values import FP16_OVFL, Array, Getter, Step, store
from coasm.emulator.state.waves import Group
from coasm.isa import Literal, Parsed, Register

__all__: list[str] = []

_NOTE = "the payload of an 8-bit NaN is that of ml_dtypes"


def _format(ctx: Context, name: str) -> Format:
    fnuz = ctx.shared.processor.family.fnuz and name in ("fp8", "bf8")
    return FORMATS[name + "_fnuz" if fnuz else name]


def _encoder(ctx: Context, form: Format) -> Callable[[Group, Array], Array]:
    """float64 → the codes of a format as uint32, to nearest even."""
    import ml_dtypes

    dtype: Any = getattr(ml_dtypes, form.name)
    table = values_of(form)
    largest = float(table[np.isfinite(table)].max())
    clamps = bool(ctx.mode & FP16_OVFL) and form.bits == 8

    def encode(s: Group, values: Array) -> Array:
        values = np.broadcast_to(values, s.shape)
        if form.bits == 4 and (np.isnan(values) & s.mask).any():
            raise Fault("a NaN as a number of 4 bits is not emulated")
        if clamps:
            if (np.isinf(values) & s.mask).any():
                raise Fault("an infinity as a number of 8 bits with FP16_OVFL is not emulated")
            values = np.clip(values, -largest, largest)
        return np.ascontiguousarray(values).astype(dtype).view(np.uint8).astype(np.uint32)

    return encode


def _bits_source(ctx: Context, parsed: Parsed) -> Getter:
    """Source 0, which is bits: uint32, SDWA and DPP applied."""
    operand = parsed.operands[1]
    if isinstance(operand, Literal) and isinstance(operand.value, float):
        raise Fault("a floating-point constant as packed numbers is not emulated")
    return ctx.source(parsed, 1, "u32")


def _widen(name: str, count: int) -> Callable[[Context, Parsed], Step]:
    """One or two numbers of 8 bits → float32; SDWA picks which."""

    def build(ctx: Context, parsed: Parsed) -> Step:
        table = values_of(_format(ctx, name)).astype(np.float32)
        get, rows = _bits_source(ctx, parsed), ctx.rows(parsed.operands[0])
        put = ctx.target(parsed, "u32" if count == 1 else "u64")

        def step(s: Group) -> None:
            raw = np.broadcast_to(get(s), s.shape)
            parts = [table[raw >> np.uint32(8 * at) & np.uint32(255)] for at in range(count)]
            both = np.stack(parts, axis=-1).view(np.uint32)
            put(s, both[..., 0] if len(rows) == 1 else both.view(np.uint64)[..., 0])

        return step

    return build


def _narrow(name: str) -> Callable[[Context, Parsed], Step]:
    """Two float32 → two numbers of 8 bits in a half of the result."""

    def build(ctx: Context, parsed: Parsed) -> Step:
        encode = _encoder(ctx, _format(ctx, name))
        gets = [ctx.source(parsed, at, "f32") for at in (1, 2)]
        put = ctx.target(parsed, "u16", keep=True)

        def step(s: Group) -> None:
            low, high = (encode(s, get(s).astype(np.float64)) for get in gets)
            put(s, (low | high << np.uint32(8)).astype(np.uint16))

        return step

    return build


for _name in ("fp8", "bf8"):
    row(f"v_cvt_f32_{_name}", _widen(_name, 1))
    row(f"v_cvt_pk_f32_{_name}", _widen(_name, 2))
    row(f"v_cvt_pk_{_name}_f32", _narrow(_name), _NOTE)


# With a scale: a power of two, the exponent of a float32.


def _scale(ctx: Context, parsed: Parsed, at: int) -> Callable[[Group], Array]:
    """The scale that operand *at* has, as float64 [n, 64] or less."""
    operand = parsed.operands[at]
    if isinstance(operand, Register) and (operand.negate or operand.absolute):
        raise Fault("a source modifier on a scale is not emulated")
    get = ctx.raw_source(operand, at - 1, "f32")

    def scale(s: Group) -> Array:
        field = np.broadcast_to(get(s) >> np.uint32(23) & np.uint32(255), s.shape)
        if (((field == 0) | (field == 255)) & s.mask).any():
            raise Fault("a scale that is zero, a denormal, infinite or no number is not emulated")
        return np.ldexp(1.0, field.astype(np.int32) - 127)

    return scale


def _pack(kind: str, low: Array, high: Array) -> Array:
    """Two float64, exact, as two numbers of 16 bits in a register."""
    if kind == "bf16":
        parts = [to_bf16(v.astype(np.float32)) for v in (low, high)]
    else:
        parts = [v.astype(np.float16).view(np.uint16).astype(np.uint32) for v in (low, high)]
    return parts[0] | parts[1] << np.uint32(16)


def _picks(parsed: Parsed, first: int, bits: int) -> int:
    """Which byte (two bits of op_sel from *first*) or half (one bit); the other bits are 0."""
    op_sel = parsed.bits("op_sel", 4)
    if any(bit for at, bit in enumerate(op_sel) if not first <= at < first + bits):
        raise Fault(f"the modifier op_sel:{list(op_sel)} of {parsed.mnemonic} is not emulated")
    return sum(op_sel[first + at] << at for at in range(bits))


def _scaled_widen(name: str, out: str) -> Callable[[Context, Parsed], Step]:
    """Two numbers of 8 or 4 bits, times a scale → two of *out*; op_sel picks the half or byte."""

    def build(ctx: Context, parsed: Parsed) -> Step:
        form = _format(ctx, name)
        table, code = values_of(form), np.uint32((1 << form.bits) - 1)
        if out == "f16" and ctx.mode & FP16_OVFL:
            raise Fault("FP16_OVFL is not emulated here")
        first = 2 * form.bits * _picks(parsed, 0, 1 if form.bits == 8 else 2)
        if isinstance(parsed.operands[1], Literal):
            raise Fault("a constant as packed numbers is not emulated")
        get, scale = ctx.raw_source(parsed.operands[1], 0), _scale(ctx, parsed, 2)
        rows = ctx.rows(parsed.operands[0])

        def step(s: Group) -> None:
            raw = np.broadcast_to(get(s), s.shape)
            factor = scale(s)
            low, high = (
                table[raw >> np.uint32(first + at * form.bits) & code] * factor for at in (0, 1)
            )
            if out != "f32":
                store(s, rows[0], _pack(out, low, high))
                return
            for at, value in zip(rows, (low, high), strict=True):
                store(s, at, value.astype(np.float32).view(np.uint32))

        return step

    return build


def _scaled_narrow(name: str, source: str) -> Callable[[Context, Parsed], Step]:
    """Two numbers of *source*, divided by a scale → two of 8 or 4 bits in a part of the result."""

    def build(ctx: Context, parsed: Parsed) -> Step:
        form = _format(ctx, name)
        encode = _encoder(ctx, form)
        count = 2 if source == "f32" else 1
        scale, d = _scale(ctx, parsed, 1 + count), ctx.rows(parsed.operands[0])[0]
        # op_sel: a bit for each source, then that of the result; a byte takes the last two.
        bits = 1 if form.bits == 8 else 2
        first = 2 * form.bits * _picks(parsed, count + 2 - bits, bits)
        field = np.uint32(((1 << 2 * form.bits) - 1) << first)
        values = _two_sources(ctx, parsed, source)

        def step(s: Group) -> None:
            factor = scale(s)
            low, high = (encode(s, value / factor) for value in values(s))
            both = (low | high << np.uint32(form.bits)) << np.uint32(first)
            store(s, d, both | s.u[d] & ~field)

        return step

    return build


def _two_sources(ctx: Context, parsed: Parsed, kind: str) -> Callable[[Group], list[Array]]:
    """Two float32 operands, or the two halves of one, as float64."""
    if kind == "f32":
        pair = [ctx.source(parsed, at, "f32") for at in (1, 2)]
        return lambda s: [get(s).astype(np.float64) for get in pair]
    if isinstance(parsed.operands[1], Literal):
        raise Fault("a constant as packed numbers is not emulated")
    raw = ctx.source(parsed, 1, "u32")

    def halves(s: Group) -> list[Array]:
        bits = raw(s)
        parts = [(bits & np.uint32(0xFFFF)), bits >> np.uint32(16)]
        if kind == "bf16":
            return [(v << np.uint32(16)).view(np.float32).astype(np.float64) for v in parts]
        return [v.astype(np.uint16).view(np.float16).astype(np.float64) for v in parts]

    return halves


_SCALES = "a scale is the power of two that its exponent says"
for _name in ("fp8", "bf8", "fp4"):
    for _kind in ("f32", "f16", "bf16"):
        row(f"v_cvt_scalef32_pk_{_kind}_{_name}", _scaled_widen(_name, _kind), _SCALES)
        row(
            f"v_cvt_scalef32_pk_{_name}_{_kind}",
            _scaled_narrow(_name, _kind),
            _SCALES,
        )
