"""Comparison of numbers and classes of them; selection by lane."""

# NumPy's stubs give Any for arithmetic on arrays of any type.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from coasm.emulator.errors import Fault
from coasm.emulator.rows.context import Context, bit_modifiers
from coasm.emulator.rows.dpp import has_dpp
from coasm.emulator.rows.integer import Function
from coasm.emulator.rows.nans import INVALID, QUIET
from coasm.emulator.rows.table import row
from coasm.emulator.rows.values import DTYPES, Array, Step, spread
from coasm.emulator.state.waves import Group, pack, unpack
from coasm.isa import VCC, Parsed, Register

__all__: list[str] = []


def _cndmask(ctx: Context, parsed: Parsed) -> Step:
    a, b = ctx.source(parsed, 1, "u32"), ctx.source(parsed, 2, "u32")
    pair = ctx.pair(parsed.operands[3]) if len(parsed.operands) > 3 else VCC >> 1
    put = ctx.target(parsed, "u32")
    if not is_plain_select(ctx, parsed):
        return lambda s: put(s, np.where(unpack(s.d[pair]), b(s), a(s)))
    d = ctx.rows(parsed.operands[0])[0]

    def step(s: Group) -> None:
        pick = unpack(s.d[pair])
        if s.full:
            s.u[d][...] = np.where(pick, b(s), a(s))
        else:
            np.copyto(s.u[d], np.where(pick, b(s), a(s)), where=s.mask)

    return step


def is_plain_select(ctx: Context, parsed: Parsed) -> bool:
    """Whether a selection has neither source modifiers nor permutations."""
    return not parsed.modifiers and not ctx.index


row("v_cndmask_b32", _cndmask)


def compare(
    kind: str, function: Function, to_exec: bool = False
) -> Callable[[Context, Parsed], Step]:
    """A comparison into a scalar pair; *to_exec* (``v_cmpx``) also into EXEC."""

    def build(ctx: Context, parsed: Parsed) -> Step:
        a, b = ctx.source(parsed, 1, kind), ctx.source(parsed, 2, kind)
        put = ctx.mask_target(parsed.operands[0])
        if has_dpp(parsed):
            raise Fault("DPP on a comparison is not emulated")

        def step(s: Group) -> None:
            value = np.asarray(function(a(s), b(s)))
            put(s, value)
            if to_exec:
                value = spread(value, s.shape)
                s.d[63][...] = pack(value & s.mask)
                s.update_exec()

        return step

    return build


def _never(a: Array, b: Array) -> Array:
    return np.zeros(np.broadcast_shapes(a.shape, b.shape), bool)


def _always(a: Array, b: Array) -> Array:
    return np.ones(np.broadcast_shapes(a.shape, b.shape), bool)


INTEGER: dict[str, Function] = {
    "f": _never,
    "lt": np.less,
    "eq": np.equal,
    "le": np.less_equal,
    "gt": np.greater,
    "ne": np.not_equal,
    "ge": np.greater_equal,
    "t": _always,
}
for _kind in ("i16", "u16", "i32", "u32", "i64", "u64"):
    for _op, _compare in INTEGER.items():
        row(f"v_cmp_{_op}_{_kind}", compare(_kind, _compare))
        row(f"v_cmpx_{_op}_{_kind}", compare(_kind, _compare, to_exec=True))


# Floats.

FLOAT: dict[str, Function] = {
    "lt": np.less,
    "eq": np.equal,
    "le": np.less_equal,
    "gt": np.greater,
    "lg": lambda a, b: (a < b) | (a > b),
    "ge": np.greater_equal,
    "o": lambda a, b: ~(np.isnan(a) | np.isnan(b)),
    "u": lambda a, b: np.isnan(a) | np.isnan(b),
    "nge": lambda a, b: ~(a >= b),
    "nlg": lambda a, b: ~((a < b) | (a > b)),
    "ngt": lambda a, b: ~(a > b),
    "nle": lambda a, b: ~(a <= b),
    "neq": lambda a, b: ~(a == b),
    "nlt": lambda a, b: ~(a < b),
    "f": lambda a, b: np.zeros(np.broadcast_shapes(a.shape, b.shape), bool),
    "tru": lambda a, b: np.ones(np.broadcast_shapes(a.shape, b.shape), bool),
}
for _kind in ("f16", "f32", "f64"):
    for _op, _function in FLOAT.items():
        row(f"v_cmp_{_op}_{_kind}", compare(_kind, _function))
        row(f"v_cmpx_{_op}_{_kind}", compare(_kind, _function, to_exec=True))


def _class(kind: str, to_exec: bool) -> Callable[[Context, Parsed], Step]:
    def build(ctx: Context, parsed: Parsed) -> Step:
        dtype = DTYPES[kind]
        raw_kind = {"f16": "b16", "f32": "u32", "f64": "b64"}[kind]
        plain = parsed.operands[1]
        bare = (
            plain._replace(negate=False, absolute=False) if isinstance(plain, Register) else plain
        )
        stripped = parsed._replace(operands=(parsed.operands[0], bare, *parsed.operands[2:]))
        bits = ctx.source(stripped, 1, raw_kind)
        if isinstance(plain, Register):
            bits = bit_modifiers(plain, bits, {"f16": 15, "f32": 31, "f64": 63}[kind])
        wanted_classes = ctx.source(parsed, 2, "b16" if kind == "f16" else "u32")
        put = ctx.mask_target(parsed.operands[0])
        unsigned, _, quiet = QUIET[np.dtype(dtype)]
        smallest = np.finfo(dtype).smallest_normal  # type: ignore[type-var]

        def step(s: Group) -> None:
            raw = np.ascontiguousarray(bits(s))
            value, wanted = raw.view(dtype), wanted_classes(s).astype(np.uint32)
            nan, inf, minus = np.isnan(value), np.isinf(value), np.signbit(value)
            is_quiet = raw & unsigned(quiet) != 0
            small = (np.abs(value) < smallest) & (value != 0)
            zero = value == 0
            normal = ~(nan | inf | small | zero)
            classes = (
                nan & ~is_quiet,
                nan & is_quiet,
                inf & minus,
                normal & minus,
                small & minus,
                zero & minus,
                zero & ~minus,
                small & ~minus,
                normal & ~minus,
                inf & ~minus,
            )
            found = np.zeros(value.shape, bool)
            for at, one in enumerate(classes):
                found = found | one & (wanted >> np.uint32(at) & np.uint32(1)).astype(bool)
            INVALID[0] = False
            put(s, found)
            if to_exec:
                s.d[63][...] = pack(spread(found, s.shape) & s.mask)
                s.update_exec()

        return step

    return build


for _kind in ("f16", "f32", "f64"):
    row(f"v_cmp_class_{_kind}", _class(_kind, False))
    row(f"v_cmpx_class_{_kind}", _class(_kind, True))
