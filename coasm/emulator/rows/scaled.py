"""Conversions between wide numbers and numbers of 8, 6 and 4 bits with a scale (gfx950).

Source: CDNA4 ISA guide, "Vector ALU Operations"; the OCP specification of MX formats, whose E8M0
the exponent of a scale is: 255 makes everything a NaN.
"""

# NumPy's stubs give Any for arithmetic on arrays of any type.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from coasm.emulator.errors import Fault
from coasm.emulator.rows.context import Context
from coasm.emulator.rows.convert import to_bf16
from coasm.emulator.rows.integer import random_bits
from coasm.emulator.rows.matrix import Format, values_of
from coasm.emulator.rows.narrow import encoder, format_of, get_wide, part_of_result, stochastic
from coasm.emulator.rows.table import row
from coasm.emulator.rows.values import FP16_OVFL, Array, Getter, Step, store
from coasm.emulator.state.waves import Group
from coasm.isa import Literal, Parsed, Register

__all__: list[str] = []

_SCALES = "a scale is the power of two that its exponent says"
_RANDOM = f"{_SCALES}; of two neighbours a result is the one that AMD's header makes of the seed"


def _scale(ctx: Context, parsed: Parsed, at: int) -> Getter:
    """The scale that operand *at* has, as float64 for each lane."""
    operand = parsed.operands[at]
    if isinstance(operand, Register) and (operand.negate or operand.absolute):
        raise Fault("a source modifier on a scale is not emulated")
    get = ctx.raw_source(operand, at - 1, "f32")

    def scale(s: Group) -> Array:
        field = np.broadcast_to(get(s) >> np.uint32(23) & np.uint32(255), s.shape)
        return np.where(field == 255, np.nan, np.ldexp(1.0, field.astype(np.int32) - 127))

    return scale


def _bits(kind: str, value: Array) -> Array:
    """float64, rounded once to float16, bfloat16 or float32, as bits in a uint32."""
    if kind == "f32":
        return value.astype(np.float32).view(np.uint32)
    if kind == "f16":
        return value.astype(np.float16).view(np.uint16).astype(np.uint32)
    return to_bf16(_odd(value))


def _odd(value: Array) -> Array:
    """float64 → float32, inexact ones to the neighbour that is odd: rounding it again is exact."""
    near = value.astype(np.float32)
    raw = near.view(np.uint32).copy()
    raw -= ((np.abs(near.astype(np.float64)) > np.abs(value)) & np.isfinite(near)).astype(np.uint32)
    raw |= ((raw.view(np.float32).astype(np.float64) != value) & np.isfinite(value)).astype(
        np.uint32
    )
    return np.where(np.isfinite(near), raw, near.view(np.uint32)).view(np.float32)


def _check_overflow(ctx: Context, kind: str) -> None:
    if kind == "f16" and ctx.mode & FP16_OVFL:
        raise Fault("FP16_OVFL is not emulated here")


def _part(parsed: Parsed, first: int, bits: int) -> int:
    """Which byte (two bits of op_sel from *first*) or half (one bit) is meant."""
    op_sel = parsed.bits("op_sel", 4)
    return sum(op_sel[first + at] << at for at in range(bits))


def _refuse_other_op_sel(parsed: Parsed, allowed: Sequence[int]) -> None:
    op_sel = parsed.bits("op_sel", 4)
    if any(bit for at, bit in enumerate(op_sel) if at not in allowed):
        raise Fault(f"the modifier op_sel:{list(op_sel)} of {parsed.mnemonic} is not emulated")


def _packed_source(ctx: Context, parsed: Parsed) -> Getter:
    """Source 0, a register of packed numbers, as uint32."""
    if isinstance(parsed.operands[1], Literal):
        raise Fault("a constant as packed numbers is not emulated")
    return ctx.raw_source(parsed.operands[1], 0)


def _widen_pair(name: str, out: str) -> Callable[[Context, Parsed], Step]:
    """Two numbers of 8 or 4 bits, times a scale → two of *out*; op_sel picks the half or byte."""

    def build(ctx: Context, parsed: Parsed) -> Step:
        form = format_of(ctx, name)
        table, code = values_of(form), np.uint32((1 << form.bits) - 1)
        _check_overflow(ctx, out)
        picks = 1 if form.bits == 8 else 2
        _refuse_other_op_sel(parsed, range(picks))
        first = 2 * form.bits * _part(parsed, 0, picks)
        get, scale = _packed_source(ctx, parsed), _scale(ctx, parsed, 2)
        rows = ctx.rows(parsed.operands[0])

        def step(s: Group) -> None:
            raw = np.broadcast_to(get(s), s.shape)
            factor = scale(s)
            low, high = (
                _bits(out, table[raw >> np.uint32(first + at * form.bits) & code] * factor)
                for at in (0, 1)
            )
            if out == "f32":
                store(s, rows[0], low)
                store(s, rows[1], high)
            else:
                store(s, rows[0], low | high << np.uint32(16))

        return step

    return build


def _widen_one(name: str, out: str) -> Callable[[Context, Parsed], Step]:
    """A number of 8 bits in the byte that op_sel says, times a scale → float32, or a float16 in the
    half of the result that the last bit of op_sel says."""

    def build(ctx: Context, parsed: Parsed) -> Step:
        table = values_of(format_of(ctx, name))
        _check_overflow(ctx, out)
        _refuse_other_op_sel(parsed, (0, 1, 2) if out == "f16" else (0, 1))
        first = np.uint32(8 * _part(parsed, 0, 2))
        get, scale = _packed_source(ctx, parsed), _scale(ctx, parsed, 2)
        d = ctx.rows(parsed.operands[0])[0]
        up = np.uint32(16 * _part(parsed, 2, 1))
        field = np.uint32(0xFFFF_FFFF if out == "f32" else 0xFFFF << int(up))

        def step(s: Group) -> None:
            raw = np.broadcast_to(get(s), s.shape)
            bits = _bits(out, table[raw >> first & np.uint32(255)] * scale(s))
            store(s, d, bits << up | s.u[d] & ~field)

        return step

    return build


def _halves(raw: Array, kind: str) -> list[Array]:
    """Both 16-bit numbers of a register as float64."""
    parts = [raw & np.uint32(0xFFFF), raw >> np.uint32(16)]
    if kind == "bf16":
        return [(v << np.uint32(16)).view(np.float32).astype(np.float64) for v in parts]
    return [v.astype(np.uint16).view(np.float16).astype(np.float64) for v in parts]


def _pair_source(ctx: Context, parsed: Parsed, kind: str) -> Callable[[Group], list[Array]]:
    """Two float32 operands, or the two halves of one, as float64."""
    if kind == "f32":
        pair = [ctx.source(parsed, at, "f32") for at in (1, 2)]
        return lambda s: [get_wide(s, get) for get in pair]
    if isinstance(parsed.operands[1], Literal):
        raise Fault("a constant as packed numbers is not emulated")
    raw = ctx.source(parsed, 1, "u32")
    return lambda s: _halves(raw(s), kind)


def _narrow_pair(name: str, kind: str) -> Callable[[Context, Parsed], Step]:
    """Two numbers of *kind*, divided by a scale → two of 8 or 4 bits in a part of the result."""

    def build(ctx: Context, parsed: Parsed) -> Step:
        form = format_of(ctx, name)
        encode = encoder(ctx, form)
        count = 2 if kind == "f32" else 1
        scale, d = _scale(ctx, parsed, 1 + count), ctx.rows(parsed.operands[0])[0]
        # op_sel: a bit for each source, then that of the result; a byte takes the last two.
        picks = 1 if form.bits == 8 else 2
        at = count + 2 - picks
        _refuse_other_op_sel(parsed, range(at, at + picks))
        first = 2 * form.bits * _part(parsed, at, picks)
        field = np.uint32(((1 << 2 * form.bits) - 1) << first)
        values = _pair_source(ctx, parsed, kind)

        def step(s: Group) -> None:
            factor = scale(s)
            low, high = (encode(s, value / factor) for value in values(s))
            both = (low | high << np.uint32(form.bits)) << np.uint32(first)
            store(s, d, both | s.u[d] & ~field)

        return step

    return build


def _random_one(name: str, kind: str) -> Callable[[Context, Parsed], Step]:
    """A number of *kind*, divided by a scale, and a seed → 8 bits in a byte of the result."""

    def build(ctx: Context, parsed: Parsed) -> Step:
        choose = stochastic(ctx, format_of(ctx, name), kind)
        bare = parsed._replace(modifiers={})
        value, seed = ctx.source(bare, 1, kind), ctx.source(bare, 2, "u32")
        scale, put = _scale(ctx, parsed, 3), part_of_result(ctx, parsed, 8)

        def step(s: Group) -> None:
            wide = _float(value(s), kind)
            put(s, choose(s, np.broadcast_to(wide, s.shape) / scale(s), seed(s)))

        return step

    return build


def _float(value: Array, kind: str) -> Array:
    if kind == "bf16":
        return (value.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
    return value.astype(np.float64)


def _random_pair(kind: str) -> Callable[[Context, Parsed], Step]:
    """Two numbers of *kind*, divided by a scale, and a seed → two of 4 bits in a byte."""

    def build(ctx: Context, parsed: Parsed) -> Step:
        choose = stochastic(ctx, format_of(ctx, "fp4"), kind)
        if isinstance(parsed.operands[1], Literal):
            raise Fault("a constant as packed numbers is not emulated")
        if isinstance(parsed.operands[1], Register) and (
            parsed.operands[1].negate or parsed.operands[1].absolute
        ):
            raise Fault("a source modifier on packed numbers is not emulated")
        rows = ctx.rows(parsed.operands[1])
        seed = ctx.source(parsed._replace(modifiers={}), 2, "u32")
        scale, put = _scale(ctx, parsed, 3), part_of_result(ctx, parsed, 8)

        def step(s: Group) -> None:
            factor, number = scale(s), np.broadcast_to(seed(s), s.shape)
            low, high = _numbers(s, rows, kind)
            first = choose(s, low / factor, number)
            put(s, first | choose(s, high / factor, random_bits(number)) << np.uint32(4))

        return step

    return build


def _numbers(s: Group, rows: Sequence[int], kind: str) -> list[Array]:
    """The numbers of *kind* in registers, in order, as float64."""
    if kind == "f32":
        return [s.f[at].astype(np.float64) for at in rows]
    return [half for at in rows for half in _halves(s.u[at], kind)]


def _store_sixes(s: Group, rows: Sequence[int], codes: Sequence[Array]) -> None:
    """32 codes of 6 bits into six registers, without gaps."""
    words = [np.zeros(s.shape, np.uint32) for _ in rows]
    for at, code in enumerate(codes):
        word, first = divmod(6 * at, 32)
        words[word] |= code << np.uint32(first)
        if first > 26:
            words[word + 1] |= code >> np.uint32(32 - first)
    for d, word_ in zip(rows, words, strict=True):
        store(s, d, word_)


def _sixes(s: Group, rows: Sequence[int], form: Format) -> list[Array]:
    """The float64 values of 32 codes of 6 bits in six registers."""
    table = values_of(form)
    found = []
    for at in range(32):
        word, first = divmod(6 * at, 32)
        code = s.u[rows[word]] >> np.uint32(first)
        if first > 26:
            code = code | s.u[rows[word + 1]] << np.uint32(32 - first)
        found.append(table[code & np.uint32(63)])
    return found


def _widen_32(name: str, out: str) -> Callable[[Context, Parsed], Step]:
    """32 numbers of 6 bits, times a scale → 32 of *out*."""

    def build(ctx: Context, parsed: Parsed) -> Step:
        form = format_of(ctx, name)
        _check_overflow(ctx, out)
        source, rows = ctx.rows(parsed.operands[1]), ctx.rows(parsed.operands[0])
        scale = _scale(ctx, parsed, 2)

        def step(s: Group) -> None:
            factor = scale(s)
            bits = [_bits(out, value * factor) for value in _sixes(s, source, form)]
            if out != "f32":
                bits = [bits[at] | bits[at + 1] << np.uint32(16) for at in range(0, 32, 2)]
            for d, word in zip(rows, bits, strict=True):
                store(s, d, word)

        return step

    return build


def _narrow_32(name: str, kind: str, *, interleaved: bool) -> Callable[[Context, Parsed], Step]:
    """32 numbers of *kind*, divided by a scale → 32 of 6 bits; *interleaved*: of two operands, one
    by one."""

    def build(ctx: Context, parsed: Parsed) -> Step:
        encode = encoder(ctx, format_of(ctx, name))
        sources = [ctx.rows(operand) for operand in parsed.operands[1:-1]]
        rows = [at for pair in zip(*sources, strict=True) for at in pair]
        d, scale = ctx.rows(parsed.operands[0]), _scale(ctx, parsed, 3 if interleaved else 2)

        def step(s: Group) -> None:
            factor = scale(s)
            _store_sixes(s, d, [encode(s, value / factor) for value in _numbers(s, rows, kind)])

        return step

    return build


def _random_32(name: str, kind: str) -> Callable[[Context, Parsed], Step]:
    """32 numbers of *kind*, divided by a scale → 32 of 6 bits, each with the next random number."""

    def build(ctx: Context, parsed: Parsed) -> Step:
        choose = stochastic(ctx, format_of(ctx, name), kind)
        rows, d = ctx.rows(parsed.operands[1]), ctx.rows(parsed.operands[0])
        seed, scale = ctx.source(parsed, 2, "u32"), _scale(ctx, parsed, 3)

        def step(s: Group) -> None:
            factor, number = scale(s), np.broadcast_to(seed(s), s.shape)
            codes = []
            for value in _numbers(s, rows, kind):
                codes.append(choose(s, value / factor, number))
                number = random_bits(number)
            _store_sixes(s, d, codes)

        return step

    return build


for _kind in ("f32", "f16", "bf16"):
    for _name in ("fp8", "bf8", "fp4"):
        row(f"v_cvt_scalef32_pk_{_kind}_{_name}", _widen_pair(_name, _kind), _SCALES)
        row(f"v_cvt_scalef32_pk_{_name}_{_kind}", _narrow_pair(_name, _kind), _SCALES)
    row(f"v_cvt_scalef32_sr_pk_fp4_{_kind}", _random_pair(_kind), _RANDOM)
    for _name in ("fp8", "bf8"):
        if _kind != "bf16":
            row(f"v_cvt_scalef32_{_kind}_{_name}", _widen_one(_name, _kind), _SCALES)
        row(f"v_cvt_scalef32_sr_{_name}_{_kind}", _random_one(_name, _kind), _RANDOM)
    for _name in ("fp6", "bf6"):
        row(f"v_cvt_scalef32_pk32_{_kind}_{_name}", _widen_32(_name, _kind), _SCALES)
        row(f"v_cvt_scalef32_sr_pk32_{_name}_{_kind}", _random_32(_name, _kind), _RANDOM)
        if _kind == "f32":
            wide = _narrow_32(_name, _kind, interleaved=True)
            row(f"v_cvt_scalef32_2xpk16_{_name}_f32", wide, _SCALES)
        else:
            wide = _narrow_32(_name, _kind, interleaved=False)
            row(f"v_cvt_scalef32_pk32_{_name}_{_kind}", wide, _SCALES)
