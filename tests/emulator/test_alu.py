"""Vector instructions over edge values, against exact arithmetic on Python integers and fractions.

Every row of the table gives instructions and what one lane's result is. Sources are the 64-bit
``a`` (v[2:3]), ``b`` (v[4:5]) and ``c`` (v[6:7]); 32-bit instructions use the low halves.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from fractions import Fraction
from itertools import product

import ml_dtypes
import numpy as np
import pytest

from coasm.llvm import Llvm
from tests.emulator.harness import assemble, run

M32, M64 = (1 << 32) - 1, (1 << 64) - 1
F32 = struct.Struct("<f")
A, B, C, D = "v2", "v4", "v6", "v10"
AA, BB, CC, DD = "v[2:3]", "v[4:5]", "v[6:7]", "v[10:11]"

INTS = [
    0,
    1,
    2,
    3,
    31,
    32,
    33,
    0x7F,
    0x80,
    0xFF,
    0x7FFF,
    0x8000,
    0xFFFF,
    0x10000,
    0x7FFFFF,
    0x800000,
    0xFFFFFF,
    0x12345678,
    0x7FFFFFFF,
    0x80000000,
    0x80000001,
    0xDEADBEEF,
    0xFFFFFFFE,
    0xFFFFFFFF,
]
FLOATS = [
    0x00000000,
    0x80000000,
    0x3F800000,
    0xBF800000,
    0x7F800000,
    0xFF800000,
    0x7FC00000,
    0x7FA00000,
    0x00000001,
    0x807FFFFF,
    0x00800000,
    0x80800001,
    0x7F7FFFFF,
    0x3F800001,
    0x40490FDB,
    0xC0200000,
    0x33800000,
    0x4B800000,
    0x4F000000,
    0xCF000001,
    0x5F800000,
    0x1F800000,
    0x3F7FFFFF,
    0x477FE000,
]
HALVES = [
    0x0000,
    0x8000,
    0x3C00,
    0xBC00,
    0x7C00,
    0xFC00,
    0x7E00,
    0x0001,
    0x83FF,
    0x0400,
    0x7BFF,
    0x3C01,
    0x4248,
    0xC100,
    0x1400,
    0x6400,
]
DOUBLES = [
    0,
    1 << 63,
    0x3FF0000000000000,
    0xBFF0000000000000,
    0x7FF0000000000000,
    0xFFF0000000000000,
    0x7FF8000000000000,
    1,
    0x800FFFFFFFFFFFFF,
    0x0010000000000000,
    0x7FEFFFFFFFFFFFFF,
    0x3FF0000000000001,
    0x400921FB54442D18,
    0xC004000000000000,
    0x3CA0000000000000,
    0x4340000000000000,
    0x1FF0000000000000,
    0x5FE0000000000000,
    0x3FEFFFFFFFFFFFFF,
]

#: precision, least exponent of a normal number, bits
FORMS = {"f16": (11, -14, 16), "f32": (24, -126, 32), "f64": (53, -1022, 64)}


def signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def number(bits: int, form: str) -> float:
    """The value of a float's bits."""
    code = {"f16": ("<H", "<e"), "f32": ("<I", "<f"), "f64": ("<Q", "<d")}[form]
    return float(
        struct.unpack(code[1], struct.pack(code[0], bits & ((1 << FORMS[form][2]) - 1)))[0]
    )


def encode(value: float | Fraction, form: str, zero: float = 0.0) -> int | None:
    """The bits of a number, rounded to nearest even; None for a NaN. *zero*: a zero's sign."""
    precision, least, size = FORMS[form]
    top = size - precision
    infinity = ((1 << top) - 1) << (precision - 1)
    if isinstance(value, float):
        if math.isnan(value):
            return None
        if math.isinf(value):
            return infinity | (1 << (size - 1) if value < 0 else 0)
        zero = value if value == 0 else zero
        value = Fraction(value)
    if value == 0:
        return 1 << (size - 1) if math.copysign(1.0, zero) < 0 else 0
    sign, value = (1 << (size - 1) if value < 0 else 0), abs(value)
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    if Fraction(2) ** exponent > value:
        exponent -= 1
    unit = Fraction(2) ** (max(exponent, least) - precision + 1)
    whole = value / unit
    count = whole.numerator // whole.denominator
    rest = whole - count
    if rest > Fraction(1, 2) or (rest == Fraction(1, 2) and count & 1):
        count += 1
    # Counting on from a denormal's or a normal number's bits carries into the exponent by itself.
    field = (max(exponent, least) - least) * (1 << (precision - 1)) + count
    return sign | min(field, infinity)


def flushed(bits: int, form: str) -> int:
    precision, _, size = FORMS[form]
    magnitude = bits & ((1 << (size - 1)) - 1)
    return bits & 1 << (size - 1) if magnitude < 1 << (precision - 1) else bits


def exact(function: str, values: list[float]) -> tuple[float | Fraction, float]:
    """add, sub, mul or fma of numbers: exact, or IEEE's special value; and the sign of a zero."""
    if function == "fma":
        a, b, c = values
    elif function == "mul":
        (a, b), c = values, math.copysign(0.0, values[0]) * math.copysign(1.0, values[1])
    else:
        a, b, c = values[0], 1.0, -values[1] if function == "sub" else values[1]
    if any(map(math.isnan, (a, b, c))) or (math.isinf(a) and b == 0) or (a == 0 and math.isinf(b)):
        return math.nan, 0.0
    sign = math.copysign(1.0, a) * math.copysign(1.0, b)
    if math.isinf(a) or math.isinf(b):
        infinite = math.copysign(math.inf, sign)
        return (
            math.nan if math.isinf(c) and c != infinite and function != "mul" else infinite
        ), 0.0
    if math.isinf(c):
        return c, 0.0
    first = Fraction(a) * Fraction(b)
    if function == "mul":
        return first, sign
    total = first + Fraction(c)
    both_minus = (sign < 0) and math.copysign(1.0, c) < 0
    return total, -1.0 if total == 0 and (first == 0 or both_minus) and both_minus else 0.0


Expect = Callable[[int, int, int], "int | None"]
Row = tuple[str, str, Expect]
ROWS: list[Row] = []


def row(text: str, values: str, expect: Expect) -> None:
    ROWS.append((text, values, expect))


def integer(name: str, expect: Expect, sources: int = 2, suffix: str = "") -> None:
    operands = ", ".join([D, A, B, C][: sources + 1])
    row(f"v_{name}{suffix} {operands}", "int", expect)


integer("add_u32", lambda a, b, c: a + b)
integer("sub_u32", lambda a, b, c: a - b)
integer("subrev_u32", lambda a, b, c: b - a)
integer("add_i32", lambda a, b, c: a + b)
row(f"v_add_u32_e64 {D}, {A}, {B} clamp", "int", lambda a, b, c: min(a + b, M32))
row(f"v_sub_u32_e64 {D}, {A}, {B} clamp", "int", lambda a, b, c: max(a - b, 0))
row(
    f"v_add_i32 {D}, {A}, {B} clamp",
    "int",
    lambda a, b, c: min(max(signed(a, 32) + signed(b, 32), -(2**31)), 2**31 - 1),
)
integer("mul_lo_u32", lambda a, b, c: a * b)
integer("mul_hi_u32", lambda a, b, c: a * b >> 32)
integer("mul_hi_i32", lambda a, b, c: signed(a, 32) * signed(b, 32) >> 32)
integer("mul_i32_i24", lambda a, b, c: signed(a, 24) * signed(b, 24))
integer("mul_u32_u24", lambda a, b, c: (a & 0xFFFFFF) * (b & 0xFFFFFF))
integer("mul_hi_i32_i24", lambda a, b, c: signed(a, 24) * signed(b, 24) >> 32)
integer("mul_hi_u32_u24", lambda a, b, c: (a & 0xFFFFFF) * (b & 0xFFFFFF) >> 32)
integer("mad_i32_i24", lambda a, b, c: signed(a, 24) * signed(b, 24) + c, 3)
integer("mad_u32_u24", lambda a, b, c: (a & 0xFFFFFF) * (b & 0xFFFFFF) + c, 3)
integer("and_b32", lambda a, b, c: a & b)
integer("or_b32", lambda a, b, c: a | b)
integer("xor_b32", lambda a, b, c: a ^ b)
integer("xnor_b32", lambda a, b, c: ~(a ^ b))
integer("not_b32", lambda a, b, c: ~a, 1)
integer("mov_b32", lambda a, b, c: a, 1)
integer("lshlrev_b32", lambda a, b, c: b << (a & 31))
integer("lshrrev_b32", lambda a, b, c: b >> (a & 31))
integer("ashrrev_i32", lambda a, b, c: signed(b, 32) >> (a & 31))
row(f"v_lshlrev_b32 {D}, 35, {B}", "int", lambda a, b, c: b << 3)
integer("min_u32", lambda a, b, c: min(a, b))
integer("max_u32", lambda a, b, c: max(a, b))
integer("min_i32", lambda a, b, c: min(signed(a, 32), signed(b, 32)))
integer("max_i32", lambda a, b, c: max(signed(a, 32), signed(b, 32)))
integer("min3_u32", lambda a, b, c: min(a, b, c), 3)
integer("max3_i32", lambda a, b, c: max(signed(v, 32) for v in (a, b, c)), 3)
integer("med3_i32", lambda a, b, c: sorted(signed(v, 32) for v in (a, b, c))[1], 3)
integer("med3_u32", lambda a, b, c: sorted((a, b, c))[1], 3)
integer("add3_u32", lambda a, b, c: a + b + c, 3)
integer("lshl_add_u32", lambda a, b, c: (a << (b & 31)) + c, 3)
integer("add_lshl_u32", lambda a, b, c: (a + b) << (c & 31), 3)
integer("lshl_or_b32", lambda a, b, c: a << (b & 31) | c, 3)
integer("and_or_b32", lambda a, b, c: a & b | c, 3)
integer("or3_b32", lambda a, b, c: a | b | c, 3)
integer("xad_u32", lambda a, b, c: (a ^ b) + c, 3)
integer("bfi_b32", lambda a, b, c: a & b | ~a & c, 3)
integer("bfe_u32", lambda a, b, c: (a >> (b & 31)) & ((1 << (c & 31)) - 1), 3)
integer(
    "bfe_i32",
    lambda a, b, c: signed(signed(a, 32) >> (b & 31), c & 31) if c & 31 else 0,
    3,
)
integer("bfm_b32", lambda a, b, c: ((1 << (a & 31)) - 1) << (b & 31))
integer("alignbit_b32", lambda a, b, c: (a << 32 | b) >> (c & 31), 3)
integer("alignbyte_b32", lambda a, b, c: (a << 32 | b) >> 8 * (c & 3), 3)
integer("bfrev_b32", lambda a, b, c: int(f"{a:032b}"[::-1], 2), 1)
integer("ffbh_u32", lambda a, b, c: 32 - a.bit_length() if a else -1, 1)
integer("ffbl_b32", lambda a, b, c: (a & -a).bit_length() - 1, 1)
integer(
    "ffbh_i32",
    lambda a, b, c: -1 if a in (0, M32) else 32 - (a if a >> 31 == 0 else ~a & M32).bit_length(),
    1,
)
integer("bcnt_u32_b32", lambda a, b, c: bin(a).count("1") + b)
integer(
    "sad_u8",
    lambda a, b, c: c + sum(abs((a >> s & 255) - (b >> s & 255)) for s in (0, 8, 16, 24)),
    3,
)


def permute(a: int, b: int, c: int) -> int:
    data = (a << 32 | b).to_bytes(8, "little")
    out = []
    for pick in c.to_bytes(4, "little"):
        if pick < 8:
            out.append(data[pick])
        elif pick < 12:
            out.append(255 if data[2 * (pick - 8) + 1] & 0x80 else 0)
        else:
            out.append(0 if pick == 12 else 255)
    return int.from_bytes(bytes(out), "little")


integer("perm_b32", permute, 3)
row(
    f"v_bitop3_b32 {D}, {A}, {B}, {C} bitop3:0x6c",
    "int",
    lambda a, b, c: sum(
        (0x6C >> ((a >> n & 1) << 2 | (b >> n & 1) << 1 | c >> n & 1) & 1) << n for n in range(32)
    ),
)
integer("add_u16", lambda a, b, c: a + b & 0xFFFF)
integer("sub_u16", lambda a, b, c: a - b & 0xFFFF)
integer("mul_lo_u16", lambda a, b, c: a * b & 0xFFFF)
integer("lshrrev_b16", lambda a, b, c: (b & 0xFFFF) >> (a & 15))
integer("max_i16", lambda a, b, c: max(signed(a, 16), signed(b, 16)) & 0xFFFF)
integer("pack_b32_f16", lambda a, b, c: a & 0xFFFF | (b & 0xFFFF) << 16)
integer("pk_add_u16", lambda a, b, c: a + b & 0xFFFF | ((a >> 16) + (b >> 16) & 0xFFFF) << 16)
row(
    f"v_pk_mul_lo_u16 {D}, {A}, {B} op_sel:[1,0] op_sel_hi:[0,1]",
    "int",
    lambda a, b, c: (a >> 16) * b & 0xFFFF | ((a & 0xFFFF) * (b >> 16) & 0xFFFF) << 16,
)
row(
    f"v_add_u32_sdwa {D}, {A}, {B} dst_sel:DWORD dst_unused:UNUSED_PAD "
    "src0_sel:BYTE_1 src1_sel:WORD_1",
    "int",
    lambda a, b, c: (a >> 8 & 255) + (b >> 16),
)
row(f"v_lshlrev_b64 {DD}, {A}, {BB}", "wide", lambda a, b, c: b << (a & 63))
row(f"v_lshrrev_b64 {DD}, {A}, {BB}", "wide", lambda a, b, c: b >> (a & 63))
row(f"v_ashrrev_i64 {DD}, {A}, {BB}", "wide", lambda a, b, c: signed(b, 64) >> (a & 63))
row(f"v_lshl_add_u64 {DD}, {AA}, {B}, {CC}", "wide", lambda a, b, c: (a << (b & 7)) + c)
row(f"v_mad_u64_u32 {DD}, vcc, {A}, {B}, {CC}", "wide", lambda a, b, c: (a & M32) * (b & M32) + c)
row(
    f"v_mad_i64_i32 {DD}, vcc, {A}, {B}, {CC}",
    "wide",
    lambda a, b, c: signed(a, 32) * signed(b, 32) + c,
)
PICK = f"v_cndmask_b32_e64 {D}, 0, 1, vcc"
row(f"v_add_co_u32 {D}, vcc, {A}, {B}\n{PICK}", "int", lambda a, b, c: a + b >> 32)
row(f"v_sub_co_u32 {D}, vcc, {A}, {B}\n{PICK}", "int", lambda a, b, c: int(a < b))
for op, compare in (
    ("lt", "<"),
    ("eq", "=="),
    ("le", "<="),
    ("gt", ">"),
    ("ne", "!="),
    ("ge", ">="),
):
    for sign in "iu":

        def integers(a: int, b: int, c: int, compare: str = compare, sign: str = sign) -> int:
            if sign == "i":
                a, b = signed(a, 32), signed(b, 32)
            return int(
                {"<": a < b, "==": a == b, "<=": a <= b, ">": a > b, "!=": a != b, ">=": a >= b}[
                    compare
                ]
            )

        row(f"v_cmp_{op}_{sign}32 vcc, {A}, {B}\n{PICK}", "int", integers)


def float_row(text: str, form: str, function: str, count: int) -> None:
    size = FORMS[form][2]

    def expect(a: int, b: int, c: int) -> int | None:
        bits = [v & ((1 << size) - 1) for v in (a, b, c)][:count]
        if form == "f32" and FLUSH[0]:
            bits = [flushed(v, form) for v in bits]
        result = encode(*_spread(exact(function, [number(v, form) for v in bits]), form))
        if result is not None and form == "f32" and FLUSH[0]:
            result = flushed(result, form)
        return result

    row(text, form, expect)


def _spread(pair: tuple[float | Fraction, float], form: str) -> tuple[float | Fraction, str, float]:
    return pair[0], form, pair[1]


FLUSH = [False]
for op in ("add", "sub", "mul"):
    float_row(f"v_{op}_f32 {D}, {A}, {B}", "f32", op, 2)
    float_row(f"v_{op}_f16 {D}, {A}, {B}", "f16", op, 2)
float_row(f"v_fma_f32 {D}, {A}, {B}, {C}", "f32", "fma", 3)
float_row(f"v_fma_f16 {D}, {A}, {B}, {C}", "f16", "fma", 3)
float_row(f"v_add_f64 {DD}, {AA}, {BB}", "f64", "add", 2)
float_row(f"v_mul_f64 {DD}, {AA}, {BB}", "f64", "mul", 2)
float_row(f"v_fma_f64 {DD}, {AA}, {BB}, {CC}", "f64", "fma", 3)
float_row(f"v_mov_b32 {D}, {C}\nv_fmac_f32 {D}, {A}, {B}", "f32", "fma", 3)


def f32_input(bits: int) -> float:
    return number(flushed(bits, "f32") if FLUSH[0] else bits, "f32")


def to_integer(low: int, high: int) -> Expect:
    def expect(a: int, b: int, c: int) -> int:
        value = f32_input(a)
        if math.isnan(value):
            return 0
        return high if value >= high else low if value <= low else int(value)

    return expect


row(f"v_cvt_u32_f32 {D}, {A}", "f32", to_integer(0, M32))
row(f"v_cvt_i32_f32 {D}, {A}", "f32", to_integer(-(2**31), 2**31 - 1))
row(f"v_cvt_f32_u32 {D}, {A}", "int", lambda a, b, c: encode(Fraction(a), "f32"))
row(f"v_cvt_f32_i32 {D}, {A}", "int", lambda a, b, c: encode(Fraction(signed(a, 32)), "f32"))
row(f"v_cvt_f32_ubyte2 {D}, {A}", "int", lambda a, b, c: encode(Fraction(a >> 16 & 255), "f32"))
row(f"v_cvt_f64_i32 {DD}, {A}", "wide", lambda a, b, c: encode(Fraction(signed(a, 32)), "f64"))
row(f"v_cvt_f16_f32 {D}, {A}", "f32", lambda a, b, c: encode(f32_input(a), "f16"))
row(f"v_cvt_f32_f16 {D}, {A}", "f16", lambda a, b, c: encode(number(a, "f16"), "f32"))
row(f"v_cvt_f64_f32 {DD}, {A}", "f32", lambda a, b, c: encode(f32_input(a), "f64"))


def bfloat(a: int, b: int, c: int) -> int | None:
    values = [f32_input(v) for v in (a, b)]
    if any(map(math.isnan, values)):
        return None
    bits = np.array(values, np.float32).astype(ml_dtypes.bfloat16).view(np.uint16)
    return int(bits[0]) | int(bits[1]) << 16


row(f"v_cvt_pk_bf16_f32 {D}, {A}, {B}", "f32", bfloat)


def smaller(a: int, b: int, c: int, sign: int = 1) -> int | None:
    values = [f32_input(v) for v in (a, b)]
    numbers = [v for v in values if not math.isnan(v)]
    if len(numbers) < 2:
        # IEEE mode is on: a signalling NaN wins, else the number does.
        signalling = any(v & 0x7FFFFFFF > 0x7F800000 and not v & 0x400000 for v in (a, b))
        return None if signalling or not numbers else encode(numbers[0], "f32")
    return encode(min(numbers, key=lambda v: (sign * v, sign * math.copysign(1.0, v))), "f32")


row(f"v_min_f32 {D}, {A}, {B}", "f32", smaller)
row(f"v_max_f32 {D}, {A}, {B}", "f32", lambda a, b, c: smaller(a, b, c, -1))
for op, compare in (
    ("lt", "<"),
    ("eq", "=="),
    ("le", "<="),
    ("gt", ">"),
    ("lg", "!="),
    ("ge", ">="),
):
    for negated in (False, True):

        def floats(a: int, b: int, c: int, compare: str = compare, negated: bool = negated) -> int:
            x, y = f32_input(a), f32_input(b)
            found = {
                "<": x < y,
                "==": x == y,
                "<=": x <= y,
                ">": x > y,
                "!=": x < y or x > y,
                ">=": x >= y,
            }
            return int(found[compare] != negated)

        name = ("n" if negated else "") + ("eq" if op == "eq" and negated else op)
        row(f"v_cmp_{name}_f32 vcc, {A}, {B}\n{PICK}", "f32", floats)
row(
    f"v_cmp_u_f32 vcc, {A}, {B}\n{PICK}",
    "f32",
    lambda a, b, c: int(math.isnan(f32_input(a)) or math.isnan(f32_input(b))),
)
for op, function in (
    ("trunc", math.trunc),
    ("floor", math.floor),
    ("ceil", math.ceil),
    ("rndne", round),
):

    def rounds(a: int, b: int, c: int, function: Callable[[float], int] = function) -> int | None:
        value = f32_input(a)
        if not math.isfinite(value):
            return encode(value, "f32")
        return encode(Fraction(function(value)), "f32", value)

    row(f"v_{op}_f32 {D}, {A}", "f32", rounds)


def load_exponent(a: int, b: int, c: int) -> int | None:
    value = f32_input(a)
    if not math.isfinite(value):
        return encode(value, "f32")
    power = max(-400, min(400, signed(b, 32)))
    result = encode(Fraction(value) * Fraction(2) ** power, "f32", value)
    return flushed(result, "f32") if FLUSH[0] and result is not None else result


row(f"v_ldexp_f32 {D}, {A}, {B}", "f32", load_exponent)
row(
    f"v_mul_f32_e64 {D}, -{A}, |{B}|",
    "f32",
    lambda a, b, c: _product(-f32_input(a), abs(f32_input(b))),
)


def _product(x: float, y: float) -> int | None:
    value, zero = exact("mul", [x, y])
    result = encode(value, "f32", zero)
    return flushed(result, "f32") if FLUSH[0] and result is not None else result


def reciprocal(a: int, b: int, c: int) -> int | None:
    value = f32_input(a)
    if value == 0:
        return encode(math.copysign(math.inf, value), "f32")
    if not math.isfinite(value):
        return encode(math.copysign(0.0, value) if math.isinf(value) else value, "f32")
    result = encode(1 / Fraction(value), "f32")
    return flushed(result, "f32") if FLUSH[0] and result is not None else result


def fraction_part(a: int, b: int, c: int) -> int | None:
    value = f32_input(a)
    if not math.isfinite(value):
        return None
    part = Fraction(value) - math.floor(value)
    return min(encode(part, "f32") or 0, 0x3F7FFFFF)


def mantissa(a: int, b: int, c: int) -> int | None:
    value = f32_input(a)
    return encode(math.frexp(value)[0] if math.isfinite(value) else value, "f32")


def classes(a: int, b: int, c: int) -> int:
    """Bits 0 to 9: signalling and quiet NaN, then from -inf to +inf; denormals are told apart
    in any mode, as LLVM's ``is.fpclass`` needs it."""
    exponent, rest, minus = a >> 23 & 255, a & 0x7FFFFF, a >> 31
    if exponent == 255 and rest:
        bit = 1 if rest >> 22 else 0
    elif exponent == 255:
        bit = 2 if minus else 9
    elif exponent:
        bit = 3 if minus else 8
    elif rest:
        bit = 4 if minus else 7
    else:
        bit = 5 if minus else 6
    return b >> bit & 1


def middle(a: int, b: int, c: int) -> int | None:
    values = [f32_input(v) for v in (a, b, c)]
    if any(map(math.isnan, values)):
        return ANY
    return encode(sorted(values, key=lambda v: (v, math.copysign(1.0, v)))[1], "f32")


def clamped(a: int, b: int, c: int) -> int | None:
    value, _ = exact("add", [f32_input(a), f32_input(b)])
    if value != value or value <= 0:
        return ANY if value == 0 else 0
    result = encode(min(value, Fraction(1)) if value != math.inf else 1.0, "f32")
    return flushed(result, "f32") if FLUSH[0] and result is not None else result


ANY = 1 << 200  # a case whose result the table does not say
row(f"v_rcp_f32 {D}, {A}", "f32", reciprocal)
row(f"v_rcp_iflag_f32 {D}, {A}", "f32", reciprocal)
row(f"v_fract_f32 {D}, {A}", "f32", fraction_part)
row(f"v_frexp_mant_f32 {D}, {A}", "f32", mantissa)
row(
    f"v_frexp_exp_i32_f32 {D}, {A}",
    "f32",
    lambda a, b, c: math.frexp(f32_input(a))[1] if math.isfinite(f32_input(a)) else 0,
)
row(f"v_cmp_class_f32 vcc, {A}, {B}\n{PICK}", "f32", classes)
row(f"v_med3_f32 {D}, {A}, {B}, {C}", "f32", middle)
row(f"v_add_f32_e64 {D}, {A}, {B} clamp", "f32", clamped)
row(f"v_mov_b64 {DD}, {AA}", "wide", lambda a, b, c: a)
row(f"v_mul_f32_e64 {D}, {A}, 0.5", "f32", lambda a, b, c: _product(f32_input(a), 0.5))
row(
    f"v_mul_f32_e32 {D}, 0x40490fdb, {A}",
    "f32",
    lambda a, b, c: _product(f32_input(a), number(0x40490FDB, "f32")),
)
row(
    f"v_fma_f64 {DD}, {AA}, 1.0, 2.0",
    "f64",
    lambda a, b, c: encode(*_spread(exact("add", [number(a, "f64"), 2.0]), "f64")),
)


def cases(kind: str) -> list[tuple[int, int, int]]:
    edge = {"int": INTS, "wide": None, "f32": FLOATS, "f16": HALVES, "f64": DOUBLES}[kind]
    rng = np.random.default_rng(17)
    if edge is None:
        edge = [*INTS, 1 << 32, 1 << 63, M64, 0x123456789ABCDEF0]
    pairs = list(product(edge, edge))
    third = [edge[n * 7 % len(edge)] for n in range(len(pairs))]
    found = [(a, b, c) for (a, b), c in zip(pairs, third, strict=True)]
    size = {"int": 32, "wide": 64, "f32": 32, "f16": 16, "f64": 64}[kind]
    while len(found) % 64 or len(found) < 704:
        a, b, c = (int.from_bytes(rng.bytes(size // 8), "little") for _ in range(3))
        if kind == "f32" and len(found) & 1:  # near each other: cancellation and ties
            a, b, c = a & 0x3FFFFFFF | 0x38000000, b & 0x3FFFFFFF | 0x38000000, c & 0xBFFFFFFF
        found.append((a, b, c))
    return found


def evaluate(llvm: Llvm, rows: list[Row], kind: str, directives: str) -> list[np.ndarray]:
    """The result of every row in every case: uint64 arrays."""
    values = cases(kind)
    count = len(values)
    body = [
        "s_load_dwordx8 s[4:11], s[0:1], 0x0",
        "v_mov_b32 v1, s2",
        "v_lshlrev_b32 v1, 6, v1",
        "v_add_lshl_u32 v1, v0, v1, 3",
        "s_waitcnt lgkmcnt(0)",
        "global_load_dwordx2 v[2:3], v1, s[6:7]",
        "global_load_dwordx2 v[4:5], v1, s[8:9]",
        "global_load_dwordx2 v[6:7], v1, s[10:11]",
        "s_waitcnt vmcnt(0)",
    ]
    for text, _, _ in rows:
        body += [
            "v_mov_b32 v10, 0x5a5a5a5a",
            "v_mov_b32 v11, 0",
            text,
            "global_store_dwordx2 v1, v[10:11], s[4:5]",
            f"s_add_u32 s4, s4, {8 * count}",
            "s_addc_u32 s5, s5, 0",
        ]
    body += ["s_endpgm"]
    co = assemble(llvm, "\n".join(body), directives=directives)
    out = np.zeros((len(rows), count), np.uint64)
    sources = [np.array([v[n] for v in values], np.uint64) for n in range(3)]
    run(llvm, co, "k", [out, *sources], grid=(count // 64, 1, 1))
    return list(out)


@pytest.mark.parametrize("denormals", ["flushed", "kept"])
@pytest.mark.parametrize("kind", ["int", "wide", "f32", "f16", "f64"])
def test_every_row_over_edge_values(kind: str, denormals: str, llvm: Llvm) -> None:
    rows = [r for r in ROWS if r[1] == kind]
    keeps = 3 if denormals == "kept" else 0
    results = evaluate(llvm, rows, kind, f".amdhsa_float_denorm_mode_32 {keeps}")
    FLUSH[0] = denormals == "flushed"
    wrong = []
    for (text, _, expect), result in zip(rows, results, strict=True):
        wide = DD in text
        for case, got in zip(cases(kind), result.tolist(), strict=True):
            mask = M64 if wide else M32
            want = expect(*(v & (M64 if kind in ("wide", "f64") else M32) for v in case))
            got &= mask
            if want == ANY:
                continue
            if want is None:
                if not _is_nan(got, text):
                    wrong.append((text, [hex(v) for v in case], hex(got), "NaN"))
            elif got != want & mask and not ("fma_f16" in text and got & 0xFFFF == want & 0xFFFF):
                wrong.append((text, [hex(v) for v in case], hex(got), hex(want & mask)))
    assert not wrong, f"{len(wrong)} wrong, for example {wrong[:8]}"


def _is_nan(bits: int, text: str) -> bool:
    if "f64" in text:
        return bits & (1 << 63) - 1 > 0x7FF << 52
    if "pk_bf16" in text:
        return any(bits >> s & 0x7FFF > 0x7F80 for s in (0, 16))
    if ("_f16 " in text or "cvt_f16" in text) and "cvt_f32_f16" not in text:
        return bits & 0x7FFF > 0x7C00
    return bits & 0x7FFFFFFF > 0x7F800000


def test_an_invalid_operation_gives_the_default_nan(llvm: Llvm) -> None:
    """inf - inf and 0 * inf are 0x7fc00000; x86 has the sign bit set there."""
    body = f"""
    s_load_dwordx2 s[4:5], s[0:1], 0x0
    v_lshlrev_b32 v1, 3, v0
    v_mov_b32 v2, 0x7f800000
    v_sub_f32 v10, v2, v2
    v_mul_f32 v11, 0, v2
    s_waitcnt lgkmcnt(0)
    global_store_dwordx2 v1, {DD}, s[4:5]
    s_endpgm"""
    out = np.zeros(128, np.uint32)
    run(llvm, assemble(llvm, body), "k", [out])
    assert (out == 0x7FC00000).all()


def test_the_mode_can_be_set_and_read(llvm: Llvm) -> None:
    """Denormals are flushed by the descriptor; then MODE bits 4 and 5 keep them."""
    body = """
    s_load_dwordx2 s[4:5], s[0:1], 0x0
    v_lshlrev_b32 v1, 4, v0
    v_mov_b32 v2, 0x00400000
    v_add_f32 v10, v2, v2
    s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 3
    v_add_f32 v11, v2, v2
    s_getreg_b32 s8, hwreg(HW_REG_MODE, 4, 4)
    v_mov_b32 v12, s8
    s_movk_i32 s9, 0
    s_setreg_b32 hwreg(HW_REG_MODE, 4, 2), s9
    v_mul_f32 v13, 1.0, v2
    s_waitcnt lgkmcnt(0)
    global_store_dwordx4 v1, v[10:13], s[4:5]
    s_endpgm"""
    out = np.zeros((64, 4), np.uint32)
    co = assemble(llvm, body, directives=".amdhsa_float_denorm_mode_32 0")
    run(llvm, co, "k", [out])
    assert (out == [0, 0x00800000, 0xF, 0]).all()


def test_a_multiply_add_of_mixed_precision(llvm: Llvm) -> None:
    """f32 and either half of f16 pairs; float64 holds these sums exactly."""
    body = f"""
    s_load_dwordx8 s[4:11], s[0:1], 0x0
    v_lshlrev_b32 v1, 2, v0
    v_lshlrev_b32 v9, 4, v0
    v_mov_b32 v12, 0x5a5a5a5a
    v_mov_b32 v13, 0x5a5a5a5a
    s_waitcnt lgkmcnt(0)
    global_load_dword {A}, v1, s[6:7]
    global_load_dword {B}, v1, s[8:9]
    global_load_dword {C}, v1, s[10:11]
    s_waitcnt vmcnt(0)
    v_fma_mix_f32 v10, {A}, {B}, {C} op_sel_hi:[0,1,0]
    v_fma_mix_f32 v11, -{A}, |{B}|, {C} op_sel:[0,1,0] op_sel_hi:[0,1,0]
    v_fma_mixlo_f16 v12, {A}, {B}, {B} op_sel:[0,0,1] op_sel_hi:[0,1,1]
    v_fma_mixhi_f16 v13, {A}, 2.0, {C} clamp
    global_store_dwordx4 v9, v[10:13], s[4:5]
    s_endpgm"""
    rng = np.random.default_rng(21)
    a = rng.normal(size=64).astype(np.float16).astype(np.float32) * np.float32(1 + 2**-11)
    b = rng.normal(size=(64, 2)).astype(np.float16)
    c = rng.normal(size=64).astype(np.float32)
    out = np.zeros((64, 4), np.uint32)
    run(llvm, assemble(llvm, body), "k", [out, a, b.view(np.uint32), c])
    wide, low, high, addend = (v.astype(np.float64) for v in (a, b[:, 0], b[:, 1], c))
    assert out[:, 0].view(np.float32).tolist() == (wide * low + addend).astype(np.float32).tolist()
    second = (addend - wide * np.abs(high)).astype(np.float32)
    assert out[:, 1].view(np.float32).tolist() == second.tolist()
    halves = np.ascontiguousarray(out[:, 2:]).view(np.float16).reshape(64, 4)
    third = (wide * low + high).astype(np.float32).astype(np.float16)
    fourth = np.clip((2 * wide + addend).astype(np.float32).astype(np.float16), 0, 1)
    assert halves[:, 0].tolist() == third.tolist()
    assert halves[:, 3].tolist() == fourth.tolist()
    kept = np.uint16(0x5A5A)
    assert (halves[:, 1].view(np.uint16) == kept).all()
    assert (np.ascontiguousarray(halves[:, 2]).view(np.uint16) == kept).all()
