"""Conversions from and to numbers of 8 bits, and what those of 6 and 4 bits share with them.

Source: CDNA3 and CDNA4 ISA guides, "Vector ALU Operations"; the OCP specifications of 8-bit and of
MX formats; AMD's header for the host, ``amd_hip_ocp_host.hpp``. gfx942 has the FNUZ formats, gfx950
those of OCP. A number that is too large becomes what its format has for it, a NaN or an infinity;
with FP16_OVFL the largest number (Triton, ``fp8_clamping``), and what an infinity becomes then is
an error, because it is not published. Numbers of 6 and 4 bits have neither: they get the largest.
"""

# NumPy's stubs give Any for arithmetic on arrays of any type.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from coasm.emulator.errors import Fault
from coasm.emulator.rows.context import Context
from coasm.emulator.rows.matrix import FORMATS, Format, values_of
from coasm.emulator.rows.table import row
from coasm.emulator.rows.values import FP16_OVFL, Array, Getter, Setter, Step, store
from coasm.emulator.state.waves import Group
from coasm.isa import Literal, Parsed

__all__ = ["encoder", "format_of", "get_wide", "part_of_result", "stochastic"]

_NOTE = "the payload of an 8-bit NaN is that of ml_dtypes"


def format_of(ctx: Context, name: str) -> Format:
    """The format that a mnemonic calls *name*, as this target has it."""
    fnuz = ctx.shared.processor.family.fnuz and name in ("fp8", "bf8")
    return FORMATS[name + "_fnuz" if fnuz else name]


def encoder(ctx: Context, form: Format) -> Callable[[Group, Array], Array]:
    """float64 → the codes of a format as uint32, to nearest even."""
    import ml_dtypes

    dtype: Any = getattr(ml_dtypes, form.name)
    table = values_of(form)
    largest = float(table[np.isfinite(table)].max())
    clamps = bool(ctx.mode & FP16_OVFL) and form.bits == 8

    def encode(s: Group, values: Array) -> Array:
        values = np.broadcast_to(values, s.shape)
        if form.bits < 8:
            # A NaN becomes the largest number of its sign (amd_hip_ocp_host.hpp).
            values = np.where(np.isnan(values), np.copysign(largest, values), values)
            values = np.clip(values, -largest, largest)
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
        table = values_of(format_of(ctx, name)).astype(np.float32)
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
        encode = encoder(ctx, format_of(ctx, name))
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


#: A kind of operand → the bits of its fraction.
_FRACTION = {"f32": 23, "f16": 10, "bf16": 7}


def stochastic(ctx: Context, form: Format, kind: str) -> Callable[[Group, Array, Array], Array]:
    """float64, which came out of numbers of *kind*, and a seed → the codes of a format as uint32.

    The bits of the fraction that the format drops and as many from the top of the seed are added,
    and what carries counts. Source: ``amd_hip_ocp_host.hpp``, ``from_float_sr``.
    """
    import ml_dtypes

    limits = ml_dtypes.finfo(  # type: ignore[no-untyped-call]
        getattr(ml_dtypes, form.name)
    )
    encode, fraction = encoder(ctx, form), _FRACTION[kind]
    dropped = fraction - limits.nmant

    def choose(s: Group, values: Array, seed: Array) -> Array:
        plain = np.isfinite(values) & (values != 0)
        size = np.where(plain, np.abs(values), 1.0)
        exponent = np.maximum(np.frexp(size)[1] - 1, limits.minexp)
        units = np.floor(np.ldexp(size, fraction - exponent)).astype(np.int64)
        units += (seed >> np.uint32(32 - dropped)).astype(np.int64)
        cut = np.ldexp((units >> dropped).astype(np.float64), exponent - limits.nmant)
        return encode(s, np.where(plain, np.copysign(cut, values), values))

    return choose


def _random(name: str) -> Callable[[Context, Parsed], Step]:
    """A float32 and a seed → a number of 8 bits, in the byte of the result that op_sel says."""

    def build(ctx: Context, parsed: Parsed) -> Step:
        choose = stochastic(ctx, format_of(ctx, name), "f32")
        bare = parsed._replace(modifiers={})
        value, seed = ctx.source(bare, 1, "f32"), ctx.source(bare, 2, "u32")
        put = part_of_result(ctx, parsed, 8)
        return lambda s: put(s, choose(s, get_wide(s, value), seed(s)))

    return build


def get_wide(s: Group, get: Getter) -> Array:
    """A float operand as float64, for each lane."""
    return np.broadcast_to(get(s).astype(np.float64), s.shape)


def part_of_result(ctx: Context, parsed: Parsed, bits: int) -> Setter:
    """A function that puts codes into 8 or 16 bits of the result, and leaves the others alone.

    Which, the last bits of op_sel say: two for a byte, one for a half. The others pick nothing.
    """
    d = ctx.rows(parsed.operands[0])[0]
    op_sel = parsed.bits("op_sel", 4)
    picks = op_sel[2:] if bits == 8 else op_sel[3:]
    if any(op_sel[: 4 - len(picks)]):
        raise Fault(f"the modifier op_sel:{list(op_sel)} of {parsed.mnemonic} is not emulated")
    first = bits * sum(bit << at for at, bit in enumerate(picks))
    field = np.uint32(((1 << bits) - 1) << first)

    def put(s: Group, codes: Array) -> None:
        store(s, d, codes << np.uint32(first) | s.u[d] & ~field)

    return put


_RANDOM = "a result is what AMD's header makes of the seed, one of its two neighbours"
for _name in ("fp8", "bf8"):
    row(f"v_cvt_sr_{_name}_f32", _random(_name), _RANDOM)
