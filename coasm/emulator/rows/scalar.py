"""Scalar instructions: arithmetic, logic, comparison, moves. Source: CDNA3 and CDNA4 ISA guides,
"Scalar ALU Operations" (SOP1, SOP2, SOPC, SOPK)."""

# NumPy's stubs give Any for arithmetic on arrays of any type.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from coasm.emulator.errors import Fault
from coasm.emulator.rows.context import Context
from coasm.emulator.rows.table import row
from coasm.emulator.rows.taken import ALL
from coasm.emulator.rows.values import Array, Step, spread
from coasm.emulator.state.waves import Group
from coasm.isa import M0, Literal, Operand, Parsed, Register, Word

__all__: list[str] = []

Function = Callable[..., Any]

_U1, _U5, _U6, _U31 = np.uint32(1), np.uint32(31), np.uint32(63), np.uint32(31)


def _sign16(ctx: Context, operand: Operand) -> int:
    ctx.take(operand)
    if not isinstance(operand, Literal) or not isinstance(operand.value, int):
        raise Fault("a constant is expected here")
    value = operand.value & 0xFFFF
    return value - 0x10000 if value & 0x8000 else value


def plain(kinds: str, function: Function, scc: str = "") -> Callable[[Context, Parsed], Step]:
    """``dst = function(*sources)``; *scc*: "" (left alone), "nz" or "own" (function gives both)."""
    out, *sources = kinds.split()

    def build(ctx: Context, parsed: Parsed) -> Step:
        gets = [
            ctx.scalar_source(op, kind)
            for op, kind in zip(parsed.operands[1:], sources, strict=True)
        ]
        put = ctx.scalar_target(parsed.operands[0], out)
        if len(gets) == 1:
            one = gets[0]
            call: Function = lambda s: function(one(s))  # noqa: E731
        elif len(gets) == 2:
            left, right = gets
            call = lambda s: function(left(s), right(s))  # noqa: E731
        else:
            call = lambda s: function(*[get(s) for get in gets])  # noqa: E731
        return _finish(ctx, put, call, scc, out)

    return build


def _finish(ctx: Context, put: Any, call: Function, scc: str, out: str) -> Step:
    zero = 0
    if scc == "own":
        if ctx.scc_live:

            def both(s: Group) -> None:
                value, flag = call(s)
                put(s, value)
                s.scc = spread(flag, (s.n,))

            return both
        return lambda s: put(s, call(s)[0])
    if scc == "nz" and ctx.scc_live:

        def test(s: Group) -> None:
            value = call(s)
            put(s, value)
            s.scc = spread(value != zero, (s.n,))

        return test
    return lambda s: put(s, np.asarray(call(s)))


def fast(function: np.ufunc, scc: Function | None = None) -> Callable[[Context, Parsed], Step]:
    """A 32-bit ``dst = function(a, b)`` straight into the register; *scc*: of (a, b, result)."""

    def build(ctx: Context, parsed: Parsed) -> Step:
        target = parsed.operands[0]
        special = any(isinstance(op, Register) and op.first > 127 for op in parsed.operands)
        if special or (isinstance(target, Register) and target.first in (126, 127)):
            kinds = "u32 u32 u32"
            if scc is None:
                return plain(kinds, function)(ctx, parsed)
            own = scc

            def both(a: Array, b: Array) -> tuple[Array, Array]:
                value = function(a, b)
                return value, own(a, b, value)

            return plain(kinds, both, "own")(ctx, parsed)
        a, b = ctx.ks(parsed.operands[1]), ctx.ks(parsed.operands[2])
        assert isinstance(target, Register)
        d = ctx.scalar(target.first)
        if scc is None or not ctx.scc_live:

            def step(s: Group) -> None:
                u = s.su
                function(u[a], u[b], out=u[d])

            return step
        flag = scc

        def with_scc(s: Group) -> None:
            u = s.su
            left, right = u[a], u[b]
            value = function(left, right)
            s.scc = spread(flag(left, right, value), (s.n,))
            u[d][...] = value

        return with_scc

    return build


def _overflow_add(a: Array, b: Array, r: Array) -> Array:
    return (((a ^ r) & (b ^ r)) >> _U31).astype(bool)


def _overflow_sub(a: Array, b: Array, r: Array) -> Array:
    return (((a ^ b) & (a ^ r)) >> _U31).astype(bool)


row("s_add_u32", fast(np.add, lambda a, b, r: r < a))
row("s_sub_u32", fast(np.subtract, lambda a, b, r: a < b))
row("s_add_i32", fast(np.add, _overflow_add))
row("s_sub_i32", fast(np.subtract, _overflow_sub))
row("s_mul_i32", fast(np.multiply))
for _name, _ufunc in (("and", np.bitwise_and), ("or", np.bitwise_or), ("xor", np.bitwise_xor)):
    row(f"s_{_name}_b32", fast(_ufunc, lambda a, b, r: r != 0))
    row(f"s_{_name}_b64", plain("u64 u64 u64", _ufunc, "nz"))


def _carry(sub: bool) -> Callable[[Context, Parsed], Step]:
    def build(ctx: Context, parsed: Parsed) -> Step:
        left, right = (ctx.scalar_source(op, "u32") for op in parsed.operands[1:3])
        put = ctx.scalar_target(parsed.operands[0], "u32")

        def step(s: Group) -> None:
            a, b = left(s), right(s)
            c = s.scc.astype(np.uint32)
            if sub:
                first = a - b
                value = first - c
                s.scc = (a < b) | (first < c)
            else:
                first = a + b
                value = first + c
                s.scc = (first < a) | (value < first)
            put(s, value)

        return step

    return build


row("s_addc_u32", _carry(sub=False))
row("s_subb_u32", _carry(sub=True))


def _high(dtype: Any) -> Function:
    def function(a: Array, b: Array) -> Array:
        return ((a.astype(dtype) * b.astype(dtype)) >> dtype(32)).astype(np.uint32)

    return function


row("s_mul_hi_u32", plain("u32 u32 u32", _high(np.uint64)))
row("s_mul_hi_i32", plain("u32 i32 i32", _high(np.int64)))


def _min_max(pick: np.ufunc, less: np.ufunc) -> Function:
    def function(a: Array, b: Array) -> tuple[Array, Array]:
        return pick(a, b), less(a, b)

    return function


row("s_min_u32", plain("u32 u32 u32", _min_max(np.minimum, np.less), "own"))
row("s_max_u32", plain("u32 u32 u32", _min_max(np.maximum, np.greater_equal), "own"))
row("s_min_i32", plain("i32 i32 i32", _min_max(np.minimum, np.less), "own"))
row("s_max_i32", plain("i32 i32 i32", _min_max(np.maximum, np.greater_equal), "own"))

for _kind, _last in (("b32", "u32"), ("b64", "u64")):
    _k = f"{_last} {_last} {_last}"
    row(f"s_andn2_{_kind}", plain(_k, lambda a, b: a & ~b, "nz"))
    row(f"s_orn2_{_kind}", plain(_k, lambda a, b: a | ~b, "nz"))
    row(f"s_nand_{_kind}", plain(_k, lambda a, b: ~(a & b), "nz"))
    row(f"s_nor_{_kind}", plain(_k, lambda a, b: ~(a | b), "nz"))
    row(f"s_xnor_{_kind}", plain(_k, lambda a, b: ~(a ^ b), "nz"))
    row(f"s_not_{_kind}", plain(f"{_last} {_last}", lambda a: ~a, "nz"))
    row(f"s_mov_{_kind}", plain(f"{_last} {_last}", lambda a: a))

row("s_lshl_b32", plain("u32 u32 u32", lambda a, b: a << (b & _U5), "nz"))
row("s_lshr_b32", plain("u32 u32 u32", lambda a, b: a >> (b & _U5), "nz"))
row("s_ashr_i32", plain("i32 i32 u32", lambda a, b: a >> (b & _U5).astype(np.int32), "nz"))
row("s_lshl_b64", plain("u64 u64 u32", lambda a, b: a << (b & _U6).astype(np.uint64), "nz"))
row("s_lshr_b64", plain("u64 u64 u32", lambda a, b: a >> (b & _U6).astype(np.uint64), "nz"))
row("s_ashr_i64", plain("i64 i64 u32", lambda a, b: a >> (b & _U6).astype(np.int64), "nz"))


def _lshl_add(count: int) -> Function:
    def function(a: Array, b: Array) -> tuple[Array, Array]:
        whole = (a.astype(np.uint64) << np.uint64(count)) + b
        return whole.astype(np.uint32), whole >> np.uint64(32) != 0

    return function


for _count in (1, 2, 3, 4):
    row(f"s_lshl{_count}_add_u32", plain("u32 u32 u32", _lshl_add(_count), "own"))


def _bfe(a: Array, b: Array) -> Array:
    """Bits from ``b[5:0]`` on, ``b[22:16]`` of them; signed where *a* is."""
    bits = a.dtype.itemsize * 8
    kind = a.dtype.type
    at = b & np.uint32(bits - 1)
    width = np.minimum(b >> np.uint32(16) & np.uint32(0x7F), np.uint32(bits))
    size = np.minimum(width, bits - at)
    gone = (np.uint32(bits) - size).astype(a.dtype)
    safe = np.minimum(gone, kind(bits - 1))
    up = np.minimum(gone - at.astype(a.dtype), kind(bits - 1))
    moved = (a << up) >> safe
    return np.where(size == 0, kind(0), moved)


row("s_bfe_u32", plain("u32 u32 u32", _bfe, "nz"))
row("s_bfe_i32", plain("i32 i32 u32", _bfe, "nz"))


def _bfm64(count: Array, shift: Array) -> Array:
    count, shift = (np.asarray(x).astype(np.uint64) & np.uint64(63) for x in (count, shift))
    return ((np.uint64(1) << count) - np.uint64(1)) << shift


row("s_bfe_u64", plain("u64 u64 u32", _bfe, "nz"))
row("s_bfe_i64", plain("i64 i64 u32", _bfe, "nz"))
row("s_bfm_b32", plain("u32 u32 u32", lambda a, b: ((_U1 << (a & _U5)) - _U1) << (b & _U5)))
row("s_bfm_b64", plain("u64 u32 u32", _bfm64))


row("s_absdiff_i32", plain("i32 i32 i32", lambda a, b: np.abs(np.asarray(a - b)), "nz"))
row("s_abs_i32", plain("i32 i32", np.abs, "nz"))


def _pack(low: int, high: int) -> Function:
    def function(a: Array, b: Array) -> Array:
        first = a >> np.uint32(16 * low) & np.uint32(0xFFFF)
        return first | (b >> np.uint32(16 * high)) << np.uint32(16)

    return function


row("s_pack_ll_b32_b16", plain("u32 u32 u32", _pack(0, 0)))
row("s_pack_lh_b32_b16", plain("u32 u32 u32", _pack(0, 1)))
row("s_pack_hh_b32_b16", plain("u32 u32 u32", _pack(1, 1)))

row("s_sext_i32_i8", plain("i32 u32", lambda a: a.astype(np.int8).astype(np.int32)))
row("s_sext_i32_i16", plain("i32 u32", lambda a: a.astype(np.int16).astype(np.int32)))


def _reverse(a: Array) -> Array:
    size = a.dtype.itemsize
    raw = np.atleast_1d(np.ascontiguousarray(a)).view(np.uint8).reshape(-1, size)
    bits = np.unpackbits(raw, axis=1, bitorder="little")[:, ::-1]
    return np.packbits(bits, axis=1, bitorder="little").view(a.dtype)[:, 0]


def _ones(a: Array) -> Array:
    return np.bitwise_count(a).astype(np.uint32)


def first_one(a: Array) -> Array:
    """The position of the lowest set bit; all ones (-1) where there is none."""
    lowest = a & (~a + a.dtype.type(1))
    return np.where(
        a == 0, np.int32(-1), np.bitwise_count(lowest - a.dtype.type(1)).astype(np.int32)
    )


def leading_zeros(a: Array) -> Array:
    """How many zeros stand before the highest set bit; -1 where there is none."""
    spread = a.copy()
    width = a.dtype.itemsize * 8
    step = 1
    while step < width:
        spread |= spread >> a.dtype.type(step)
        step *= 2
    return np.where(a == 0, np.int32(-1), width - np.bitwise_count(spread).astype(np.int32))


def leading_signs(a: Array) -> Array:
    """The position, from the top, of the first bit unlike the sign; -1 where all are alike."""
    unsigned = a.view(np.uint32 if a.dtype.itemsize == 4 else np.uint64)
    return leading_zeros(np.where(a < 0, np.invert(unsigned), unsigned))


row("s_brev_b32", plain("u32 u32", _reverse))
row("s_brev_b64", plain("u64 u64", _reverse))
row("s_bcnt1_i32_b32", plain("u32 u32", _ones, "nz"))
row("s_bcnt1_i32_b64", plain("u32 u64", _ones, "nz"))
row("s_bcnt0_i32_b32", plain("u32 u32", lambda a: _ones(~a), "nz"))
row("s_bcnt0_i32_b64", plain("u32 u64", lambda a: _ones(~a), "nz"))
row("s_ff1_i32_b32", plain("i32 u32", first_one))
row("s_ff1_i32_b64", plain("i32 u64", first_one))
row("s_ff0_i32_b32", plain("i32 u32", lambda a: first_one(~a)))
row("s_ff0_i32_b64", plain("i32 u64", lambda a: first_one(~a)))
row("s_flbit_i32_b32", plain("i32 u32", leading_zeros))
row("s_flbit_i32_b64", plain("i32 u64", leading_zeros))
row("s_flbit_i32", plain("i32 i32", leading_signs))
row("s_flbit_i32_i64", plain("i32 i64", leading_signs))


def _wqm(a: Array) -> Array:
    some = a | a >> a.dtype.type(1)
    some = (some | some >> a.dtype.type(2)) & a.dtype.type(
        0x1111_1111_1111_1111 & (1 << 8 * a.dtype.itemsize) - 1
    )
    return some * a.dtype.type(15)


def _quads(a: Array) -> Array:
    """A bit for each four neighbours: whether one of them is set."""
    bits = np.unpackbits(a[..., None].view(np.uint8), axis=-1, bitorder="little")
    some = bits.reshape(*bits.shape[:-1], -1, 4).any(axis=-1)
    packed = np.zeros(a.shape, a.dtype)[..., None].view(np.uint8)
    half = np.packbits(some, axis=-1, bitorder="little")
    packed[..., : half.shape[-1]] = half
    return packed.view(a.dtype)[..., 0]


def _twice(a: Array) -> Array:
    """Each bit two times."""
    bits = np.unpackbits(a[..., None].view(np.uint8), axis=-1, bitorder="little")
    return np.packbits(np.repeat(bits, 2, axis=-1), axis=-1, bitorder="little").view(np.uint64)[
        ..., 0
    ]


row("s_quadmask_b32", plain("u32 u32", _quads, "nz"))
row("s_quadmask_b64", plain("u64 u64", _quads, "nz"))
row("s_bitreplicate_b64_b32", plain("u64 u32", _twice))
row("s_wqm_b64", plain("u64 u64", _wqm, "nz"))
row("s_wqm_b32", plain("u32 u32", _wqm, "nz"))


def _select(kind: str) -> Callable[[Context, Parsed], Step]:
    def build(ctx: Context, parsed: Parsed) -> Step:
        left, right = (ctx.scalar_source(op, kind) for op in parsed.operands[1:3])
        put = ctx.scalar_target(parsed.operands[0], kind)
        return lambda s: put(s, np.where(s.scc, left(s), right(s)))

    return build


def _conditional_move(kind: str) -> Callable[[Context, Parsed], Step]:
    def build(ctx: Context, parsed: Parsed) -> Step:
        source, old = (
            ctx.scalar_source(parsed.operands[1], kind),
            ctx.scalar_source(parsed.operands[0], kind),
        )
        put = ctx.scalar_target(parsed.operands[0], kind)
        return lambda s: put(s, np.where(s.scc, source(s), old(s)))

    return build


row("s_cselect_b32", _select("u32"))
row("s_cselect_b64", _select("u64"))
row("s_cmov_b32", _conditional_move("u32"))
row("s_cmov_b64", _conditional_move("u64"))


def _constant(function: Function, scc: str = "") -> Callable[[Context, Parsed], Step]:
    """SOPK: *function* of the old value and the sign-extended constant."""

    def build(ctx: Context, parsed: Parsed) -> Step:
        value = np.int32(_sign16(ctx, parsed.operands[1]))
        old = ctx.scalar_source(parsed.operands[0], "i32") if scc != "new" else None
        put = ctx.scalar_target(parsed.operands[0], "i32")
        if old is None:
            return lambda s: put(s, np.full(s.n, value))
        before = old
        if scc == "cond":
            return lambda s: put(s, np.where(s.scc, value, before(s)))
        return _finish(ctx, put, lambda s: function(before(s), value), scc, "i32")

    return build


def _addk(a: Array, b: Any) -> tuple[Array, Array]:
    value = a + b
    return value, ((a ^ value) & (b ^ value)) < 0


row("s_movk_i32", _constant(lambda a, b: b, "new"))
row("s_cmovk_i32", _constant(lambda a, b: b, "cond"))
row("s_addk_i32", _constant(_addk, "own"))
row("s_mulk_i32", _constant(lambda a, b: a * b))

_COMPARE = {
    "eq": np.equal,
    "lg": np.not_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "lt": np.less,
    "le": np.less_equal,
}


def _compare(
    function: Function, kind: str, constant: bool = False
) -> Callable[[Context, Parsed], Step]:
    def build(ctx: Context, parsed: Parsed) -> Step:
        left = ctx.scalar_source(parsed.operands[0], kind)
        if constant:
            value = _sign16(ctx, parsed.operands[1])
            limit = np.int32(value) if kind == "i32" else np.uint32(value & 0xFFFF)

            def compare_constant(s: Group) -> None:
                s.scc = spread(function(left(s), limit), (s.n,))

            return compare_constant if ctx.scc_live else _nothing(ctx, parsed)
        right = ctx.scalar_source(parsed.operands[1], kind)

        def compare(s: Group) -> None:
            s.scc = spread(function(left(s), right(s)), (s.n,))

        return compare if ctx.scc_live else _nothing(ctx, parsed)

    return build


for _op, _function in _COMPARE.items():
    for _kind in ("i32", "u32"):
        row(f"s_cmp_{_op}_{_kind}", _compare(_function, _kind))
        row(f"s_cmpk_{_op}_{_kind}", _compare(_function, _kind, constant=True))
row("s_cmp_eq_u64", _compare(np.equal, "u64"))
row("s_cmp_lg_u64", _compare(np.not_equal, "u64"))


def _bitcmp(want: int, kind: str) -> Callable[[Context, Parsed], Step]:
    bits = 31 if kind == "u32" else 63

    def build(ctx: Context, parsed: Parsed) -> Step:
        value, at = (
            ctx.scalar_source(parsed.operands[0], kind),
            ctx.scalar_source(parsed.operands[1], "u32"),
        )

        def step(s: Group) -> None:
            x = value(s)
            bit = x >> (at(s) & np.uint32(bits)).astype(x.dtype) & x.dtype.type(1)
            s.scc = spread(bit == want, (s.n,))

        return step

    return build


def _bitset(want: int, kind: str) -> Callable[[Context, Parsed], Step]:
    bits = 31 if kind == "u32" else 63

    def build(ctx: Context, parsed: Parsed) -> Step:
        old, at = (
            ctx.scalar_source(parsed.operands[0], kind),
            ctx.scalar_source(parsed.operands[1], "u32"),
        )
        put = ctx.scalar_target(parsed.operands[0], kind)

        def step(s: Group) -> None:
            x = old(s)
            bit = x.dtype.type(1) << (at(s) & np.uint32(bits)).astype(x.dtype)
            put(s, x | bit if want else x & ~bit)

        return step

    return build


for _kind, _last in (("b32", "u32"), ("b64", "u64")):
    for _want in (0, 1):
        row(f"s_bitcmp{_want}_{_kind}", _bitcmp(_want, _last))
        row(f"s_bitset{_want}_{_kind}", _bitset(_want, _last))


def _saveexec(function: Function) -> Callable[[Context, Parsed], Step]:
    """``dst = EXEC; EXEC = function(source, EXEC); SCC = EXEC != 0``."""

    def build(ctx: Context, parsed: Parsed) -> Step:
        source = ctx.scalar_source(parsed.operands[1], "u64")
        target = ctx.pair(parsed.operands[0])

        def step(s: Group) -> None:
            old = s.d[63].copy()
            value = function(source(s), old)
            s.d[target][...] = old
            s.d[63][...] = value
            s.scc = s.d[63] != 0
            s.update_exec()

        return step

    return build


row("s_and_saveexec_b64", _saveexec(lambda a, e: a & e))
row("s_or_saveexec_b64", _saveexec(lambda a, e: a | e))
row("s_xor_saveexec_b64", _saveexec(lambda a, e: a ^ e))
row("s_andn2_saveexec_b64", _saveexec(lambda a, e: a & ~e))
row("s_andn1_saveexec_b64", _saveexec(lambda a, e: ~a & e))
row("s_orn2_saveexec_b64", _saveexec(lambda a, e: a | ~e))
row("s_orn1_saveexec_b64", _saveexec(lambda a, e: ~a | e))
row("s_nand_saveexec_b64", _saveexec(lambda a, e: ~(a & e)))
row("s_nor_saveexec_b64", _saveexec(lambda a, e: ~(a | e)))
row("s_xnor_saveexec_b64", _saveexec(lambda a, e: ~(a ^ e)))


def _wrexec(function: Function) -> Callable[[Context, Parsed], Step]:
    """``dst = EXEC = function(source, EXEC); SCC = EXEC != 0``."""

    def build(ctx: Context, parsed: Parsed) -> Step:
        source = ctx.scalar_source(parsed.operands[1], "u64")
        target = ctx.pair(parsed.operands[0])

        def step(s: Group) -> None:
            value = function(source(s), s.d[63])
            s.d[63][...] = value
            s.d[target][...] = s.d[63]
            s.scc = s.d[63] != 0
            s.update_exec()

        return step

    return build


row("s_andn1_wrexec_b64", _wrexec(lambda a, e: ~a & e))
row("s_andn2_wrexec_b64", _wrexec(lambda a, e: a & ~e))


def _relative(ctx: Context, operand: Operand, wide: bool) -> Callable[[Group, int], int]:
    """The number of the register that is M0 behind an operand, for one value of M0."""
    if not isinstance(operand, Register):
        raise Fault("the operand is no scalar register")
    first = operand.first
    ctx.take(operand)

    def number(s: Group, by: int) -> int:
        at = first + by
        if not 0 <= at < ctx.shared.sgprs or (wide and at & 1):
            raise Fault(f"M0 leads to s{at}, which the kernel does not have")
        return at >> 1 if wide else at

    return number


def _each_m0(s: Group) -> Iterator[tuple[int, Array]]:
    """Each value of M0 among the waves, and whose it is."""
    values = s.su[M0].view(np.int32)
    for value in np.unique(values):
        yield int(value), values == value


def _move_from(wide: bool) -> Callable[[Context, Parsed], Step]:
    def build(ctx: Context, parsed: Parsed) -> Step:
        number = _relative(ctx, parsed.operands[1], wide)
        put = ctx.scalar_target(parsed.operands[0], "u64" if wide else "u32")

        def step(s: Group) -> None:
            found = np.zeros(s.n, np.uint64 if wide else np.uint32)
            for by, waves in _each_m0(s):
                found[waves] = (s.d if wide else s.su)[number(s, by)][waves]
            put(s, found)

        return step

    return build


def _move_to(wide: bool) -> Callable[[Context, Parsed], Step]:
    def build(ctx: Context, parsed: Parsed) -> Step:
        number = _relative(ctx, parsed.operands[0], wide)
        source = ctx.scalar_source(parsed.operands[1], "u64" if wide else "u32")

        def step(s: Group) -> None:
            values = np.array(np.broadcast_to(source(s), (s.n,)))
            for by, waves in _each_m0(s):
                (s.d if wide else s.su)[number(s, by)][waves] = values[waves]

        return step

    return build


for _wide, _suffix in ((False, "b32"), (True, "b64")):
    row(f"s_movrels_{_suffix}", _move_from(_wide))
    row(f"s_movreld_{_suffix}", _move_to(_wide))


def _zero_only(ctx: Context, parsed: Parsed) -> Step:
    """Does nothing with 0; anything else would end or halt the wave."""
    operand = parsed.operands[0]
    ctx.take(operand)
    if not isinstance(operand, Literal) or operand.value != 0:
        raise Fault(f"{parsed.mnemonic} with another operand than 0 is not emulated")
    return lambda s: None


row("s_sethalt s_setkill", _zero_only)

#: What LLVM calls the traps of amdhsa (LLVM AMDGPU usage, "Trap Handler ABI").
_TRAPS = {1: "debugger", 2: "llvm.trap", 3: "llvm.debugtrap"}


def _trap(ctx: Context, parsed: Parsed) -> Step:
    number = _sign16(ctx, parsed.operands[0])
    name = _TRAPS.get(number & 0xFF, "reserved")

    def step(s: Group) -> None:
        raise Fault(f"trap {number} ({name}): the kernel gives up here")

    return step


row("s_trap", _trap)


def _message(ctx: Context, parsed: Parsed) -> Step:
    operand = parsed.operands[0]
    ctx.take(operand)
    text = operand.text if isinstance(operand, Word) else str(operand)
    if "MSG_INTERRUPT" not in text:
        raise Fault(f"the message {text} is not emulated")
    return lambda s: None


row("s_sendmsg", _message, "s_sendmsg: nobody gets the message")


def _nothing(ctx: Context, parsed: Parsed) -> Step:
    return lambda s: None


row(
    "s_nop s_sleep s_setprio s_icache_inv s_dcache_inv s_dcache_wb s_dcache_inv_vol s_dcache_wb_vol"
    " s_incperflevel s_decperflevel s_ttracedata v_nop buffer_wbl2 buffer_inv s_wakeup v_clrexcp"
    " ds_nop",
    _nothing,
    inert=ALL,
)
