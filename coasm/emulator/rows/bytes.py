"""Vector instructions on the four bytes of a register: sums of absolute differences, packing.

Source: CDNA3 and CDNA4 ISA guides, "Vector ALU Operations" (VOP1, VOP3).
"""

# NumPy's stubs give Any for arithmetic on arrays of any type.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from coasm.emulator.errors import Fault
from coasm.emulator.rows.context import Context
from coasm.emulator.rows.floats import check_rounding
from coasm.emulator.rows.integer import Function, vector
from coasm.emulator.rows.table import row
from coasm.emulator.rows.values import Array, Step, store
from coasm.emulator.state.waves import Group
from coasm.isa import VGPR, Literal, Parsed, Register

__all__: list[str] = []

_FF = np.uint32(0xFF)


def _difference(a: Array, b: Array, at: int, mask: np.uint32 = _FF) -> Array:
    x, y = ((v >> np.uint32(at) & mask) for v in (a, b))
    return np.maximum(x, y) - np.minimum(x, y)


def _sad8(a: Array, b: Array, c: Array) -> Array:
    return c + sum(_difference(a, b, 8 * at) for at in range(4))


def _masked_sad8(a: Array, b: Array, c: Array) -> Array:
    """Bytes of *b* that are zero are left out."""
    total = c
    for at in range(4):
        counts = (b >> np.uint32(8 * at) & _FF) != 0
        total = total + np.where(counts, _difference(a, b, 8 * at), np.uint32(0))
    return total


def _sad16(a: Array, b: Array, c: Array) -> Array:
    half = np.uint32(0xFFFF)
    return c + _difference(a, b, 0, half) + _difference(a, b, 16, half)


row("v_sad_u8", vector("u32 u32 u32 u32", _sad8))
row("v_msad_u8", vector("u32 u32 u32 u32", _masked_sad8))
row("v_sad_u16", vector("u32 u32 u32 u32", _sad16))
row("v_sad_u32", vector("u32 u32 u32 u32", lambda a, b, c: np.maximum(a, b) - np.minimum(a, b) + c))
row(
    "v_sad_hi_u8",
    vector("u32 u32 u32 u32", lambda a, b, c: (_sad8(a, b, np.uint32(0)) << np.uint32(16)) + c),
)


def _four_sads(one: Function, wide: bool) -> Callable[[Context, Parsed], Step]:
    """A sum for each of four places of source 1 in the eight bytes of source 0, added to source 2:
    16 bits each, or a register each where they are *wide*."""

    def build(ctx: Context, parsed: Parsed) -> Step:
        both, pattern = ctx.source(parsed, 1, "u64"), ctx.source(parsed, 2, "u32")
        d = ctx.rows(parsed.operands[0])
        addend = _words(ctx, parsed, len(d))

        def step(s: Group) -> None:
            a, b = np.broadcast_to(both(s), s.shape), pattern(s)
            old = addend(s)
            found = []
            for at in range(4):
                place = (a >> np.uint64(8 * at)).astype(np.uint32)
                start = old[at] if wide else old[at >> 1] >> np.uint32(16 * (at & 1)) & _HALF
                found.append(np.broadcast_to(one(place, b, start), s.shape))
            if not wide:
                found = [found[at] & _HALF | found[at + 1] << np.uint32(16) for at in (0, 2)]
            for to, value in zip(d, found, strict=True):
                store(s, to, value)

        return step

    return build


def _words(ctx: Context, parsed: Parsed, count: int) -> Callable[[Group], list[Array]]:
    """Source 2 as so many words, which stay as they are when the result is stored."""
    operand = parsed.operands[3]
    if isinstance(operand, Register) and operand.first >= VGPR:
        rows = ctx.rows(operand)
        return lambda s: [s.u[at].copy() for at in rows]
    if count > 2:
        raise Fault(f"an addend of {parsed.mnemonic} that is no VGPR is not emulated")
    get = ctx.source(parsed, 3, "u64")
    return lambda s: [(get(s) >> np.uint64(up)).astype(np.uint32) for up in (0, 32)]


_HALF = np.uint32(0xFFFF)
row("v_qsad_pk_u16_u8", _four_sads(_sad8, wide=False))
row("v_mqsad_pk_u16_u8", _four_sads(_masked_sad8, wide=False))
row("v_mqsad_u32_u8", _four_sads(_masked_sad8, wide=True))


def _lerp(a: Array, b: Array, c: Array) -> Array:
    """The mean of each byte, rounded up where the lowest bit of *c*'s is set."""
    total = np.zeros(np.broadcast_shapes(a.shape, b.shape, c.shape), np.uint32)
    for at in range(0, 32, 8):
        up = np.uint32(at)
        total |= (
            (a >> up & _FF) + (b >> up & _FF) + (c >> up & np.uint32(1)) >> np.uint32(1)
        ) << up
    return total


row("v_lerp_u8", vector("u32 u32 u32 u32", _lerp))


def _saturated_bytes(a: Array) -> Array:
    low, high = (
        np.clip((a >> up).astype(np.uint16).view(np.int16), 0, 255).astype(np.uint16)
        for up in (np.uint32(0), np.uint32(16))
    )
    return low | high << np.uint16(8)


row("v_sat_pk_u8_i16", vector("u16 u32", _saturated_bytes))


def _shifted_bytes(low: int, high: int) -> Function:
    def compute(a: Array, b: Array, c: Array) -> Array:
        count = (c & np.uint32(31)).astype(np.int32)
        x, y = (np.clip(v >> count, low, high).astype(np.uint16) & np.uint16(255) for v in (a, b))
        return x | y << np.uint16(8)

    return compute


row("v_ashr_pk_i8_i32", vector("u16 i32 i32 u32", _shifted_bytes(-128, 127), keep=True))
row("v_ashr_pk_u8_i32", vector("u16 i32 i32 u32", _shifted_bytes(0, 255), keep=True))


def _saturated_halves(low: int, high: int) -> Function:
    def compute(a: Array, b: Array) -> Array:
        x, y = (np.clip(v, low, high).astype(np.uint32) & _HALF for v in (a, b))
        return x | y << np.uint32(16)

    return compute


# That they saturate: LLVM's combination of a clamp from 64 to 16 bits rests on it.
row("v_cvt_pk_u16_u32", vector("u32 u32 u32", _saturated_halves(0, 0xFFFF)))
row("v_cvt_pk_i16_i32", vector("u32 i32 i32", _saturated_halves(-0x8000, 0x7FFF)))


def _byte_of(a: Array, b: Array, c: Array) -> Array:
    """float32 *a*, rounded and saturated, as byte *b* of *c*."""
    value = np.clip(np.rint(np.where(np.isnan(a), np.float32(0), a)), 0, 255).astype(np.uint32)
    up = (b & np.uint32(3)) << np.uint32(3)
    return c & ~(_FF << up) | value << up


def _into_byte(*, accumulates: bool) -> Callable[[Context, Parsed], Step]:
    """*accumulates*: the other bytes are the result register's."""
    inner = vector("u32 f32 u32 u32", _byte_of)

    def build(ctx: Context, parsed: Parsed) -> Step:
        check_rounding(ctx, {"f32"})
        operands = parsed.operands
        if any(isinstance(op, Literal) and isinstance(op.value, float) for op in operands[2:]):
            raise Fault("a floating-point constant as packed numbers is not emulated")
        if accumulates:
            parsed = parsed._replace(operands=(*operands, operands[0]))
        return inner(ctx, parsed)

    return build


_ROUNDS = "the number is rounded as MODE says, as was measured on other hardware"
row("v_cvt_pk_u8_f32", _into_byte(accumulates=False), f"v_cvt_pk_u8_f32: {_ROUNDS}")
row("v_cvt_pkaccum_u8_f32", _into_byte(accumulates=True), f"v_cvt_pkaccum_u8_f32: {_ROUNDS}")
