"""Matrix instructions (MFMA), each block a product of float64 matrices, rounded once.

A source operand is decoded to float64 when it is first used and kept until one of its registers is
written. Layouts: CDNA3 and CDNA4 ISA guides, "Matrix Arithmetic Instructions"; AMD, *Matrix Core
Programming on AMD CDNA3 and CDNA4*.
"""

# NumPy's stubs give Any for arithmetic on arrays of any type.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from coasm.emulator.errors import Fault
from coasm.emulator.rows.context import Context
from coasm.emulator.rows.table import ROWS, row
from coasm.emulator.rows.values import DTYPES, Array, Step, constant64
from coasm.emulator.state.waves import Group
from coasm.errors import UnsupportedError
from coasm.isa import VGPR, Literal, Operand, Parsed, Register
from coasm.isa.kinds import is_a
from coasm.isa.layout import (
    BITS,
    Shape,
    b_lanes,
    broadcast_block,
    index_bit,
    places,
    shape_of,
)
from coasm.isa.table import mnemonics

__all__ = ["FORMATS", "Format", "values_of"]

#: MFMA is of GFX9, whose waves have 64 lanes: its operands are laid out over so many.
LANES = 64

_NOTE = (
    "the dot products of an MFMA are exact and rounded once; the hardware's order is not published"
)
#: Source: Tensile, ``DataTypes_XFloat32.hpp``.
_XF32 = "xf32 cuts 13 bits off an f32, as AMD's libraries do; how hardware rounds is not published"


class Format(NamedTuple):
    """An element format: its bits, and the ml_dtypes type whose values it has ("" : NumPy's)."""

    bits: int
    name: str


_F8F6F4 = (
    Format(8, "float8_e4m3fn"),
    Format(8, "float8_e5m2"),
    Format(6, "float6_e2m3fn"),
    Format(6, "float6_e3m2fn"),
    Format(4, "float4_e2m1fn"),
)
FORMATS = {
    "f32": Format(32, "float32"),
    "xf32": Format(32, "xfloat32"),
    "f64": Format(64, "float64"),
    "f16": Format(16, "float16"),
    "bf16": Format(16, "bfloat16"),
    "i8": Format(8, "int8"),
    "fp8": Format(8, "float8_e4m3fn"),
    "bf8": Format(8, "float8_e5m2"),
    "fp8_fnuz": Format(8, "float8_e4m3fnuz"),
    "bf8_fnuz": Format(8, "float8_e5m2fnuz"),
    "fp6": Format(6, "float6_e2m3fn"),
    "bf6": Format(6, "float6_e3m2fn"),
    "fp4": Format(4, "float4_e2m1fn"),
}


@cache
def values_of(form: Format) -> Array:
    """The float64 value of every code of a format of at most 8 bits."""
    import ml_dtypes

    codes = np.arange(1 << form.bits, dtype=np.uint8)
    dtype = np.int8 if form.name == "int8" else getattr(ml_dtypes, form.name)
    return codes.view(dtype).astype(np.float64)


@cache
def _pairs() -> Array:
    """For every byte, the float64 values of its low and high fp4 code, as one 16-byte item."""
    values = values_of(_F8F6F4[4])
    codes = np.arange(256)
    both = np.stack([values[codes & 15], values[codes >> 4]], axis=-1)
    return np.ascontiguousarray(both).view(np.complex128)[:, 0]


def decode(raw: Array, form: Format) -> Array:
    """Packed elements, uint32 [..., dwords] → float64 [..., elements]."""
    raw = np.ascontiguousarray(raw)
    if form.bits == 4:
        items = _pairs().take(raw.view(np.uint8))
        return items.view(np.float64)
    if form.bits == 8:
        return values_of(form).take(raw.view(np.uint8))
    if form.bits == 6:
        bits = np.unpackbits(raw.view(np.uint8), axis=-1, bitorder="little")
        codes = bits.reshape(*bits.shape[:-1], -1, 6) @ (1 << np.arange(6, dtype=np.uint8))
        return values_of(form).take(codes)
    if form.name == "bfloat16":
        wide = raw.view(np.uint16).astype(np.uint32) << np.uint32(16)
        return wide.view(np.float32).astype(np.float64)
    if form.name == "xfloat32":
        return (raw & np.uint32(0xFFFF_E000)).view(np.float32).astype(np.float64)
    return raw.view(np.dtype(form.name)).astype(np.float64)


def _raw(s: Group, rows: tuple[int, ...]) -> Array:
    """Registers as uint32 [n, 64, dwords]."""
    out = np.empty((s.n, LANES, len(rows)), np.uint32)
    for at, index in enumerate(rows):
        out[..., at] = s.u[index]
    return out


def _sources(parsed: Parsed) -> tuple[range, ...]:
    """The registers that a decoded operand of this matrix instruction depends on, one range each.

    A range holds register numbers of :mod:`coasm.isa`; scale registers belong to their operand.
    """
    ops = parsed.operands
    return tuple(
        op.numbers for op in (*ops[1:3], *ops[4:6]) if isinstance(op, Register) and op.first >= VGPR
    )


class _Side(NamedTuple):
    """Operand A or B: its registers and format, and the scale register and byte where it has one.

    ``lanes`` is the lane pattern of B (blgp), ``broadcast`` what A has for it: cbsz and abid. The
    key of the decoded operand, which holds until one of the registers is written.
    """

    rows: tuple[int, ...]
    form: Format
    scale: int = -1
    byte: int = 0
    blocks: int = 1
    lanes: int = 0
    broadcast: tuple[int, int] = (0, 0)


def _scaled(ctx: Context, parsed: Parsed) -> Step:
    small = "16x16" in parsed.mnemonic
    width = 16 if small else 32
    blocks = LANES // width
    d = ctx.rows(parsed.operands[0])
    c = _accumulator(ctx, parsed.operands[3], "f32")
    sides = [_side(ctx, parsed, at) for at in (0, 1)]
    count = 4 if small else 16
    if len(d) != count or len(d) != d[-1] - d[0] + 1:
        raise Fault("the accumulator does not have the size of the product")
    first = d[0]

    def operand(s: Group, side: _Side) -> Array:
        found = s.decoded.get(side)
        if found is not None:
            return found
        form = side.form
        values = decode(_raw(s, side.rows), form)  # [n, 64, 32]
        # [n, row, block of 32, element]
        matrix = values.reshape(s.n, blocks, width, 32).transpose(0, 2, 1, 3)
        if form.bits == 8:
            # A lane has two runs of 16: one in each half of K.
            matrix = matrix.reshape(s.n, width, blocks, 2, 16).transpose(0, 1, 3, 2, 4)
            matrix = matrix.reshape(s.n, width, blocks, 32)
        if side.scale >= 0:
            code = np.broadcast_to(
                s.u[side.scale] >> np.uint32(8 * side.byte) & np.uint32(0xFF), (s.n, LANES)
            )
            scale = np.ldexp(1.0, code.astype(np.int32) - 127)
            if (code == 0xFF).any():
                scale = np.where(code == 0xFF, np.nan, scale)
            matrix = matrix * scale.reshape(s.n, blocks, width).transpose(0, 2, 1)[..., None]
        result = np.ascontiguousarray(matrix.reshape(s.n, width, 32 * blocks))
        s.decoded[side] = result
        return result

    def step(s: Group) -> None:
        a, b = operand(s, sides[0]), operand(s, sides[1])
        _accumulate(s, np.matmul(a, b.transpose(0, 2, 1)), first, c, width)

    return step


def _accumulate(s: Group, product: Array, first: int, c: int | float, width: int) -> None:
    """``D = C + product``; product is [n, rows, columns], D's rows lie 4 by 4 in the lanes."""
    n, q = s.n, LANES // width
    groups = width // (4 * q)
    # Item 4 * h + g of lane L is [4 * q * h + 4 * (L // width) + g, L % width].
    parts = product.reshape(n, groups, q, 4, width).transpose(1, 3, 0, 2, 4)
    out = s.V[first : first + 4 * groups].view(np.float32).reshape(groups, 4, n, q, width)
    if isinstance(c, float):
        np.add(parts, c, out=out, casting="same_kind")
    else:
        old = s.V[c : c + 4 * groups].view(np.float32).reshape(groups, 4, n, q, width)
        np.add(parts, old, out=out, casting="same_kind")


def _accumulator(ctx: Context, operand: Operand, kind: str) -> int | float:
    """The first row of the addend, or its constant: the value of its bits as *kind*."""
    if not isinstance(operand, Literal):
        return ctx.rows(operand)[0]
    ctx.take(operand)
    bits = ctx.literal(operand, kind)
    if kind == "f64":
        return float(constant64(bits, kind))
    return float(np.array(bits & 0xFFFF_FFFF, np.uint32).view(DTYPES[kind]))


def _side(ctx: Context, parsed: Parsed, at: int) -> _Side:
    form = parsed.number("cbsz" if at == 0 else "blgp")
    if form >= len(_F8F6F4):
        raise Fault(f"no element format has the number {form}")
    rows = ctx.rows(parsed.operands[1 + at])
    bits = _F8F6F4[form].bits
    if len(rows) < bits:  # 32 elements of n bits are n dwords
        raise Fault("the operand is too small for its format")
    scale, byte = -1, 0
    if "_scale_" in parsed.mnemonic:
        scale = ctx.k(parsed.operands[4 + at])
        low = parsed.bits("op_sel", 3)[at]
        high = parsed.bits("op_sel_hi", 3, 0)[at]
        byte = 2 * high + low
    return _Side(tuple(rows[:bits]), _F8F6F4[form], scale, byte)


for _shape in ("16x16x128", "32x32x64"):
    row(
        f"v_mfma_scale_f32_{_shape}_f8f6f4 v_mfma_f32_{_shape}_f8f6f4",
        _scaled,
        _NOTE,
        decodes=_sources,
    )


# Unscaled MFMA, and SMFMAC.


def _controls(shape: Shape, parsed: Parsed) -> tuple[tuple[int, int], int]:
    """((cbsz, abid), blgp) of an instruction that takes them; those of others are left.

    Raises:
        Fault: values that the instruction does not have.
    """
    broadcast = 0, 0
    if shape.blocks > 1 and shape.out != "f64":
        broadcast = parsed.number("cbsz"), parsed.number("abid")
    blgp = parsed.number("blgp") if shape.takes_blgp else 0
    try:
        broadcast_block(shape, 0, *broadcast)
        b_lanes(shape, blgp)
    except UnsupportedError as error:
        raise Fault(str(error)) from None
    return broadcast, blgp


@cache
def _spread(shape: Shape) -> tuple[Array, ...]:
    """For each register of the result and each lane the number of the product's element there."""
    count = shape.m * shape.n
    size = BITS[shape.out] // 32
    registers = count * shape.blocks * size // LANES
    found = np.zeros((registers, LANES), np.int64)
    for place in places(shape, "D"):
        found[place.register, place.lane] = place.block * count + place.i * shape.n + place.j
    return tuple(found[::size])


def _operand(s: Group, key: _Side, shape: Shape, rows: int, depth: int) -> Array:
    """A as [n, blocks, m, k], or B as [n, blocks, n, k]: lanes hold rows of all blocks."""
    found = s.decoded.get(key)
    if found is not None:
        return found
    side = rows * shape.blocks
    each, parts = depth * side // LANES, LANES // side
    values = decode(_raw(s, key.rows), key.form)[..., :each]
    if key.lanes:
        values = values[:, b_lanes(shape, key.lanes)]
    runs = 2 if each * key.form.bits == 256 else 1  # one in either half of the depth
    shaped = values.reshape(s.n, parts, shape.blocks, rows, runs, each // runs)
    shaped = shaped.transpose(0, 2, 3, 4, 1, 5)
    if key.broadcast[0]:
        blocks = [broadcast_block(shape, at, *key.broadcast) for at in range(shape.blocks)]
        shaped = shaped[:, blocks]
    found = np.ascontiguousarray(shaped).reshape(s.n, shape.blocks, rows, depth)
    s.decoded[key] = found
    return found


def _format_of(ctx: Context, name: str) -> Format:
    fnuz = ctx.shared.processor.family.fnuz and name in ("fp8", "bf8")
    return FORMATS[name + "_fnuz" if fnuz else name]


def _dense(shape: Shape) -> Callable[[Context, Parsed], Step]:
    """One block or several."""
    out = shape.out

    def build(ctx: Context, parsed: Parsed) -> Step:
        d = ctx.rows(parsed.operands[0])
        c = _accumulator(ctx, parsed.operands[3], out)
        clamp = out == "i32" and "clamp" in parsed.modifiers
        # The negations of A, B and C stand where other types have their lane pattern.
        negate = parsed.bits("neg", 3) if out == "f64" else (0, 0, 0)
        signs = [-1.0 if one else 1.0 for one in negate]
        addend = c if isinstance(c, float) else ctx.rows(parsed.operands[3])
        broadcast, lanes = _controls(shape, parsed)
        a_rows, b_rows = (tuple(ctx.rows(operand)) for operand in parsed.operands[1:3])
        a_side = _Side(a_rows, _format_of(ctx, shape.a), blocks=shape.blocks, broadcast=broadcast)
        b_side = _Side(b_rows, _format_of(ctx, shape.b), blocks=shape.blocks, lanes=lanes)

        def step(s: Group) -> None:
            a = _operand(s, a_side, shape, shape.m, shape.k)
            b = _operand(s, b_side, shape, shape.n, shape.k)
            product = np.matmul(a, b.transpose(0, 1, 3, 2))  # [n, blocks, m, n]
            if out == "f64":
                _accumulate64(s, product * (signs[0] * signs[1]), d, addend, signs[2], shape)
            elif shape.m == 4:
                _accumulate_small(s, product, d, addend, shape, clamp)
            else:
                _accumulate_blocks(s, product, d[0], c, shape, clamp)

        return step

    return build


def _accumulate_blocks(
    s: Group, product: Array, first: int, c: int | float, shape: Shape, clamp: bool
) -> None:
    """One block behind the other."""
    size = shape.m * shape.n // LANES
    for block in range(shape.blocks):
        base = c + block * size if isinstance(c, int) else c
        at = first + block * size
        if shape.out == "f32":
            _accumulate(s, product[:, block], at, base, shape.m)
        else:
            _accumulate_int(s, product[:, block], at, base, shape.m, clamp)


def _accumulate_int(
    s: Group, product: Array, first: int, c: int | float, width: int, clamp: bool
) -> None:
    n, q = s.n, LANES // width
    groups = width // (4 * q)
    parts = product.reshape(n, groups, q, 4, width).transpose(1, 3, 0, 2, 4).astype(np.int64)
    out = s.V[first : first + 4 * groups].view(np.int32).reshape(groups, 4, n, q, width)
    old: Any = (
        int(c)
        if isinstance(c, float)
        else s.V[c : c + 4 * groups].view(np.int32).reshape(out.shape)
    )
    total = parts + old
    out[...] = np.clip(total, -(2**31), 2**31 - 1) if clamp else total


def _accumulate_small(
    s: Group, product: Array, d: list[int], addend: list[int] | float, shape: Shape, clamp: bool
) -> None:
    """Blocks that share the registers of the result."""
    flat = product.reshape(s.n, -1)
    integer = shape.out == "i32"
    values = []
    for place, spread in enumerate(_spread(shape)):
        old: Any = addend
        if not isinstance(addend, float):
            old = s.i[addend[place]] if integer else s.f[addend[place]]
        total: Array = flat[:, spread] + old
        if integer:
            total = total.astype(np.int64)
            total = np.clip(total, -(2**31), 2**31 - 1) if clamp else total
        values.append(total.astype(np.int32 if integer else np.float32).view(np.uint32))
    for row_, value in zip(d, values, strict=True):
        s.u[row_][...] = value


def _accumulate64(
    s: Group,
    product: Array,
    d: list[int],
    addend: list[int] | float,
    sign: float,
    shape: Shape,
) -> None:
    flat = product.reshape(s.n, -1)
    for g, spread in enumerate(_spread(shape)):
        old: Any = addend
        if not isinstance(addend, float):
            both = np.stack([s.u[addend[2 * g]], s.u[addend[2 * g + 1]]], axis=-1)
            old = both.view(np.float64)[..., 0]
        total = np.ascontiguousarray(flat[:, spread] + sign * old).view(np.uint32)
        total = total.reshape(s.n, LANES, 2)
        s.u[d[2 * g]][...] = total[..., 0]
        s.u[d[2 * g + 1]][...] = total[..., 1]


def _sparse(shape: Shape) -> Callable[[Context, Parsed], Step]:
    """Of four neighbours along k, A has the two that the index says; the rest are zero.

    Rows of A, stored and index alike, lie in the lanes as those of a dense operand of half the
    depth; the result is the addend.
    """
    each = shape.stored * shape.m // LANES

    def build(ctx: Context, parsed: Parsed) -> Step:
        d = ctx.rows(parsed.operands[0])
        a_rows, b_rows = (tuple(ctx.rows(operand)) for operand in parsed.operands[1:3])
        index = ctx.k(parsed.operands[3])
        try:
            first = index_bit(shape, parsed.number("cbsz"), parsed.number("abid"))
        except UnsupportedError as error:
            raise Fault(str(error)) from None
        a_side = _Side(a_rows, _format_of(ctx, shape.a))
        b_side = _Side(b_rows, _format_of(ctx, shape.b))

        def step(s: Group) -> None:
            a = _operand(s, a_side, shape, shape.m, shape.stored)[:, 0]
            b = _operand(s, b_side, shape, shape.n, shape.k)[:, 0]
            bits = np.broadcast_to(s.u[index], (s.n, LANES))
            up = (first + 2 * np.arange(each)).astype(np.uint32)
            picks = (bits[..., None] >> up & np.uint32(3)).astype(np.int64)
            picks = picks.reshape(s.n, LANES // shape.m, shape.m, each).transpose(0, 2, 1, 3)
            column = picks.reshape(s.n, shape.m, shape.stored)
            column = column + np.arange(shape.stored) // 2 * 4
            product = _sparse_product(a, b, column, shape.k)
            if shape.out == "f32":
                _accumulate(s, product, d[0], d[0], shape.m)
            else:
                _accumulate_int(s, product, d[0], d[0], shape.m, False)

        return step

    return build


def _sparse_product(a: Array, b: Array, column: Array, depth: int) -> Array:
    """[n, m, n]: the sum over stored elements of a times b in that element's column."""
    if np.isfinite(b).all():
        full = np.zeros((*a.shape[:2], depth))
        for which in (0, 1):  # two of one group may have the same place
            at = column[..., which::2]
            old = np.take_along_axis(full, at, axis=-1)
            np.put_along_axis(full, at, old + a[..., which::2], axis=-1)
        return np.matmul(full, b.transpose(0, 2, 1))
    out = np.empty((a.shape[0], a.shape[1], b.shape[1]))
    for i in range(a.shape[1]):  # a zero does not meet what is not picked
        picked = np.take_along_axis(b, column[:, None, i], axis=-1)
        out[:, i] = np.matmul(picked, a[:, i, :, None])[..., 0]
    return out


def _add_rows() -> None:
    for instructions in ("908", "90a", "942", "950"):
        for name in mnemonics(instructions):
            if not is_a(name, "matrix product") or name in ROWS:
                continue
            shape = shape_of(name, instructions)
            note = f"{_NOTE}; {_XF32}" if shape.a == "xf32" else _NOTE
            build = _sparse(shape) if shape.sparse else _dense(shape)
            row(name, build, note, decodes=_sources)


_add_rows()
