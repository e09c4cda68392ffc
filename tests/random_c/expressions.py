"""Random expressions of a type, defined for all values of what they read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.random_c.generate import COUNTS, FLOATS, INTEGERS, SCALARS, Type

if TYPE_CHECKING:
    from tests.random_c.generate import Writer
    from tests.random_c.statements import Scope

__all__ = ["condition", "constant", "expression", "index"]

_COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
_FLOAT_CONSTANTS = (
    *("0.0f", "-0.0f", "0.5f", "-0.5f", "1.0f", "-1.0f", "2.0f", "-2.0f", "4.0f", "-4.0f"),
    *("0.1f", "3.0f", "-7.0f", "1.5f", "100.0f", "1024.0f", "0x1p-14f", "0x1.8p-24f", "65504.0f"),
    *("0.15915494f", "__builtin_inff()", "-__builtin_inff()", '__builtin_nanf("")'),
)
_WIDE_CONSTANTS = ("1e30f", "1e-40f", "0x1.fffffep127f", "0x1p-149f", "-3e38f", "16777217.0f")
_DOUBLE_CONSTANTS = ("1e300", "1e-310", "0.1", "0x1.fffffffffffffp1023", "0x1p-1074", "0x1p53")


def expression(w: Writer, scope: Scope, kind: Type, depth: int) -> str:
    """Text of an expression of exactly this type."""
    if depth <= 0 or w.rng.random() < 0.12:
        return _leaf(w, scope, kind)
    if kind.count > 1:
        return _vector(w, scope, kind, depth)
    text = (_float if kind.is_float else _integer)(w, scope, kind, depth)
    return f"(({kind.name}){text})"


def _leaf(w: Writer, scope: Scope, kind: Type) -> str:
    names = scope.names(kind)
    if names and w.rng.random() < 0.8:
        return w.rng.choice(names)
    near = [(n, t) for n, t in scope.all() if t.count == kind.count and "128" not in t.base]
    if near and w.rng.random() < 0.7:
        name, source = w.rng.choice(near)
        return convert(name, source, kind)
    return constant(w, kind)


def constant(w: Writer, kind: Type) -> str:
    """A constant, one that an instruction holds inline among them."""
    if kind.count > 1:
        if w.rng.random() < 0.6:
            return f"({kind.name})({constant(w, kind.element)})"
        return f"({kind.name}){{{', '.join(constant(w, kind.element) for _ in range(kind.count))}}}"
    if kind.is_float:
        choices = _FLOAT_CONSTANTS
        if kind.base in ("f32", "f64", "bf16"):
            choices += _WIDE_CONSTANTS
        if kind.base == "f64":
            choices += _DOUBLE_CONSTANTS
        return f"(({kind.name}){w.rng.choice(choices)})"
    bits = kind.bits
    value = w.rng.choice(
        (
            w.rng.randint(-16, 64),
            w.rng.choice((1, -1)) << w.rng.randrange(bits),
            (1 << w.rng.randrange(bits)) - 1,
            w.rng.getrandbits(bits),
        )
    ) & ((1 << bits) - 1)
    if bits == 128:
        return f"(({kind.name})((u128){value >> 64:#x}ul << 64 | {value & (1 << 64) - 1:#x}ul))"
    return f"(({kind.name}){value:#x}ul)"


def convert(text: str, source: Type, kind: Type) -> str:
    """*text* of one type as another one with as many elements (128 bits: scalars only)."""
    if source == kind:
        return text
    if {source.base, kind.base} == {"f16", "bf16"}:
        middle = Type("f32", kind.count)
        return convert(convert(text, source, middle), middle, kind)
    if kind.count == 1:
        if source.is_float and not kind.is_float:
            return f"{kind.base}_of_{source.base}({text})"
        if kind.base in ("f16", "bf16") and not source.is_float and source.bits > 16:
            # Rounded to float first, as some compilers do and some do not.
            return f"(({kind.base})(f32)({text}))"
        return f"(({kind.base})({text}))"
    if source.is_float and not kind.is_float:
        # In range: what is not becomes 0.
        limit = min(kind.bits - kind.is_signed, 126)
        if source.base == "f16":
            limit = min(limit, 15)
        wide = source.name
        low = f"-0x1p{limit}f" if kind.is_signed else "-1.0f"
        guarded = (
            f"select_{wide}(({text}) > ({wide})(({source.base}){low}),"
            f" select_{wide}(({text}) < ({wide})(({source.base})0x1p{limit}f), {text},"
            f" ({wide})(({source.base})0.0f)), ({wide})(({source.base})0.0f))"
        )
        return f"__builtin_convertvector({guarded}, {kind.name})"
    if kind.base in ("f16", "bf16") and not source.is_float and source.bits > 16:
        middle = f"__builtin_convertvector({text}, f32x{kind.count})"
        return f"__builtin_convertvector({middle}, {kind.name})"
    return f"__builtin_convertvector({text}, {kind.name})"


def condition(w: Writer, scope: Scope, depth: int) -> str:
    """A scalar condition."""
    kind = w.rng.choice(scope.types())
    if w.rng.random() < 0.2:
        left, right = condition_of(w, scope, kind, depth), condition(w, scope, depth - 1)
        return f"({left} {w.one_of('&&', '||', '&', '^')} {right})" if depth > 0 else left
    return condition_of(w, scope, kind, depth)


def condition_of(w: Writer, scope: Scope, kind: Type, depth: int) -> str:
    """A comparison of two expressions of the element type of *kind*."""
    a, b = (expression(w, scope, kind.element, depth - 1) for _ in range(2))
    return f"({a} {w.rng.choice(_COMPARISONS)} {b})"


def index(w: Writer, scope: Scope, count: int) -> str:
    """An index below *count*."""
    kind = w.rng.choice([t for t in scope.types() if not t.is_float and t.count == 1])
    text = expression(w, scope, kind, 1)
    return f"((u32)({text}) % {count}u)"


def _integer(w: Writer, scope: Scope, kind: Type, depth: int) -> str:
    rng, t = w.rng, kind.name

    def sub(other: Type = kind) -> str:
        return expression(w, scope, other, depth - 1)

    def binary() -> str:
        return f"({t})({sub()} {w.one_of('+', '-', '*', '&', '|', '^', '+', '-', '*')} {sub()})"

    def shift() -> str:
        by = sub(rng.choice((kind, Type("u32"))))
        return f"({t})({sub()} {w.one_of('<<', '>>')} (i32)({by} & {kind.bits - 1}))"

    def divide() -> str:
        return f"{w.one_of('div', 'mod')}_{t}({sub()}, {sub()})"

    def cast() -> str:
        other = Type(rng.choice(SCALARS))
        return f"({convert(sub(other), other, kind)})"

    def extend() -> str:
        other = Type(rng.choice(INTEGERS))
        return f"({t})({other.name})({sub()})"

    def compare() -> str:
        return f"({t}){condition_of(w, scope, rng.choice(scope.types()), depth)}"

    def ternary() -> str:
        return f"({condition(w, scope, depth - 1)} ? {sub()} : {sub()})"

    def unary() -> str:
        return f"({t})({w.one_of('-', '~', '!')}{sub()})"

    def builtin() -> str:
        return _integer_builtin(w, kind, sub)

    def funnel() -> str:
        return f"__builtin_elementwise_{w.one_of('fshl', 'fshr')}({sub()}, {sub()}, {sub()})"

    def bits() -> str:
        sources = [f for f in FLOATS if Type(f).bits == kind.bits]
        if not sources:
            return shift()
        source = Type(rng.choice(sources))
        return f"({t})bits_{source.base}({sub(source)})"

    def high() -> str:
        wide = {8: "16", 16: "32", 32: "64", 64: "128"}.get(kind.bits)
        if wide is None:
            return binary()
        wide = t[0] + wide
        return f"({t})(({wide}){sub()} * ({wide}){sub()} >> {kind.bits})"

    def multiply_add() -> str:
        half = {32: 16, 64: 32, 128: 64}.get(kind.bits)
        if half is None:
            return binary()
        narrow = Type(t[0] + str(half))
        return f"(({t}){sub(narrow)} * {sub(narrow)} + {sub()})"

    def field() -> str:
        start = rng.randrange(kind.bits)
        width = rng.randint(1, kind.bits - start)
        up = kind.bits - start - width
        return f"({t})(({t})({sub()} << {up}) >> {kind.bits - width})"

    def overflow() -> str:
        if kind.bits == 128:
            return binary()
        name = w.one_of("add", "sub", "mul")
        call = f"__builtin_{name}_overflow({sub()}, {sub()}, &_r)"
        return f"({{ {t} _r; {t} _o = {call}; ({t})(_r ^ _o); }})"

    choices = [binary, binary, binary, shift, shift, divide, cast, cast, extend, compare, ternary]
    choices += [unary, builtin, builtin, builtin, funnel, bits, high, multiply_add, field, overflow]
    choices += [lambda: _lane(w, scope, kind, depth) or binary()] * 2
    choices += [lambda: _call(w, scope, kind, depth) or ternary()] * 2
    return rng.choice(choices)()


def _integer_builtin(w: Writer, kind: Type, sub: object) -> str:
    t, e = kind.name, "__builtin_elementwise_"
    assert callable(sub)
    name = w.one_of("min", "max", "add_sat", "sub_sat", "popcount", "bitreverse", "clz", "ctz",
                    "abs", "bswap", "rotate")  # fmt: skip
    if name in ("min", "max", "add_sat", "sub_sat"):
        return f"{e}{name}({sub()}, {sub()})"
    if name in ("clz", "ctz"):
        unsigned = kind.base.replace("i", "u")
        return f"({t})({e}{name}g(({unsigned}){sub()}, ({unsigned}){kind.bits}))"
    if name == "abs":
        return f"{e}abs({sub()})" if kind.is_signed else f"({t})(-{sub()})"
    if name == "bswap" and kind.bits in (16, 32, 64):
        return f"({t})__builtin_bswap{kind.bits}({sub()})"
    if name == "rotate":
        return f"({{ {t} _x = {sub()}; {e}fshl(_x, _x, {sub()}); }})"
    if name in ("popcount", "bitreverse"):
        return f"{e}{name}({sub()})"
    return f"({t})({sub()} + 1)"


def _float(w: Writer, scope: Scope, kind: Type, depth: int) -> str:
    rng, t, e = w.rng, kind.name, "__builtin_elementwise_"

    def sub(other: Type = kind) -> str:
        return expression(w, scope, other, depth - 1)

    def binary() -> str:
        return f"({sub()} {w.one_of('+', '-', '*', '+', '-', '*', '/')} {sub()})"

    def fused() -> str:
        if kind.base == "bf16":
            return binary()
        name = "fma_f16" if kind.base == "f16" else f"{e}fma"
        return f"{name}({w.one_of('', '-')}{sub()}, {sub()}, {w.one_of('', '-')}{sub()})"

    def unary() -> str:
        name = w.one_of("floor", "ceil", "trunc", "roundeven", "abs", "sqrt", "neg", "canonical")
        if name == "neg":
            return f"(-{sub()})"
        if name == "canonical" or (kind.base == "bf16" and name == "sqrt"):
            return f"{e}abs({sub()})"
        return f"{e}{name}({sub()})"

    def pick() -> str:
        name = w.one_of("minimumnum", "maximumnum", "minimum", "maximum")
        if kind.base == "bf16":
            return f"({sub()} < {sub()} ? {sub()} : {sub()})"
        return f"{e}{name}({sub()}, {sub()})"

    def clamp() -> str:
        low, high = w.one_of(("0.0f", "1.0f"), ("-1.0f", "1.0f"), ("0.0f", "6.0f"))
        if kind.base == "bf16":
            return binary()
        name = w.one_of("num", "")
        return f"{e}minimum{name}({e}maximum{name}({sub()}, ({t}){low}), ({t}){high})"

    def cast() -> str:
        other = Type(rng.choice(SCALARS))
        return convert(sub(other), other, kind)

    def ternary() -> str:
        return f"({condition(w, scope, depth - 1)} ? {sub()} : {sub()})"

    def bits() -> str:
        return f"from_bits_{t}({sub(Type(f'u{kind.bits}'))})"

    def sign() -> str:
        return f"{e}copysign({sub()}, sign_{t}({sub()}))"

    def scale() -> str:
        by = sub(Type("i32"))
        if kind.base in ("f16", "bf16"):
            return binary()
        return f"{e}ldexp({sub()}, (i32)({by} % {rng.choice((8, 64, 300, 2000))}))"

    def split() -> str:
        if kind.base not in ("f32", "f64"):
            return unary()
        suffix = "f" if kind.base == "f32" else ""
        both = f"__builtin_frexp{suffix}(_x, &_e)"
        finite = f"{t} _x = {sub()}; _x = _x - _x == 0 ? _x : 0"
        return f"({{ i32 _e = 0; {finite}; {t} _m = {both}; _m + _e; }})"

    def remainder() -> str:
        if kind.base not in ("f32", "f64"):
            return binary()
        return f"__builtin_fmod{'f' if kind.base == 'f32' else ''}({sub()}, {sub()})"

    choices = [binary] * 5 + [fused] * 3 + [unary] * 3 + [pick, pick, clamp, cast, cast, cast]
    choices += [ternary, ternary, bits, sign, scale, split]
    if rng.random() < 0.1:
        choices = [remainder]
    choices += [lambda: _lane(w, scope, kind, depth) or binary()] * 2
    choices += [lambda: _call(w, scope, kind, depth) or ternary()] * 2
    return rng.choice(choices)()


def _lane(w: Writer, scope: Scope, kind: Type, depth: int) -> str:
    """An element of a vector of the scope, or a reduction over one."""
    vectors = [(n, t) for n, t in scope.all() if t.count > 1 and t.base == kind.base]
    if not vectors:
        return ""
    name, vector = w.rng.choice(vectors)
    if w.rng.random() < 0.3:
        return f"{name}[{index(w, scope, vector.count)}]"
    if not kind.is_float and w.rng.random() < 0.4:
        what = w.one_of("add", "mul", "xor", "or", "and", "min", "max")
        return f"__builtin_reduce_{what}({expression(w, scope, vector, depth - 1)})"
    return f"{name}[{w.rng.randrange(vector.count)}]"


def _call(w: Writer, scope: Scope, kind: Type, depth: int) -> str:
    found = [one for one in w.callable if one[1] == kind]
    if not found or depth < 2 or scope.calls <= 0:
        return ""
    scope.calls -= 1
    name, _, parameters = w.rng.choice(found)
    return f"{name}({', '.join(expression(w, scope, p, 1) for p in parameters)})"


def _vector(w: Writer, scope: Scope, kind: Type, depth: int) -> str:
    rng, t = w.rng, kind.name

    def sub(other: Type = kind) -> str:
        return expression(w, scope, other, depth - 1)

    def binary() -> str:
        ops = ("+", "-", "*", "/") if kind.is_float else ("+", "-", "*", "&", "|", "^")
        return f"({sub()} {w.one_of(*ops)} {sub()})"

    def special() -> str:
        if kind.is_float:
            return _float_vector(w, kind, sub)
        return _integer_vector(w, kind, sub)

    def splat() -> str:
        return f"({t})({sub(kind.element)})"

    def build() -> str:
        if kind.count > 4:
            return splat()
        return f"({t}){{{', '.join(sub(kind.element) for _ in range(kind.count))}}}"

    def cast() -> str:
        bases = [b for b in SCALARS if "128" not in b]
        other = Type(rng.choice(bases), kind.count)
        return convert(sub(other), other, kind)

    def shuffle() -> str:
        picks = ", ".join(str(rng.randrange(2 * kind.count)) for _ in range(kind.count))
        return f"__builtin_shufflevector({sub()}, {sub()}, {picks})"

    def select() -> str:
        return f"select_{t}({sub()} {rng.choice(_COMPARISONS)} {sub()}, {sub()}, {sub()})"

    def resize() -> str:
        other = Type(kind.base, rng.choice(COUNTS))
        picks = ", ".join(str(rng.randrange(other.count)) for _ in range(kind.count))
        text = sub(other)
        return f"__builtin_shufflevector({text}, {text}, {picks})"

    choices = [binary, binary, binary, special, special, special, splat, build, cast, cast]
    choices += [shuffle, select, select, resize]
    choices += [lambda: _call(w, scope, kind, depth) or binary()] * 2
    return rng.choice(choices)()


def _float_vector(w: Writer, kind: Type, sub: object) -> str:
    assert callable(sub)
    e = "__builtin_elementwise_"
    names = ["floor", "ceil", "trunc", "roundeven", "abs", "neg"]
    if kind.base != "bf16":
        names += ["fma", "fma", "fma", "sqrt", "minimumnum", "maximumnum", "minimum", "maximum"]
    name = w.rng.choice(names)
    if name == "neg":
        return f"(-{sub()})"
    if name == "fma":
        call = f"fma_{kind.name}" if kind.base == "f16" else f"{e}fma"
        return f"{call}({w.one_of('', '-')}{sub()}, {sub()}, {w.one_of('', '-')}{sub()})"
    if name.startswith(("min", "max")):
        return f"{e}{name}({sub()}, {sub()})"
    return f"{e}{name}({sub()})"


def _integer_vector(w: Writer, kind: Type, sub: object) -> str:
    assert callable(sub)
    t, e = kind.name, "__builtin_elementwise_"
    name = w.one_of("shift", "shift", "divide", "min", "max", "add_sat", "sub_sat", "popcount",
                    "bitreverse", "abs", "compare", "not", "clzg", "ctzg", "fshl")  # fmt: skip
    if name == "shift":
        mask = f"({t})(({kind.base}){kind.bits - 1})"
        return f"({sub()} {w.one_of('<<', '>>')} ({sub()} & {mask}))"
    if name == "divide":
        most = (1 << kind.bits - kind.is_signed) - 1
        divisor = f"({sub()} & ({t})(({kind.base}){most:#x}ul) | ({t})(({kind.base})1))"
        return f"({sub()} {w.one_of('/', '%')} {divisor})"
    if name in ("min", "max", "add_sat", "sub_sat"):
        return f"{e}{name}({sub()}, {sub()})"
    if name == "compare":
        comparison = f"{sub()} {w.rng.choice(_COMPARISONS)} {sub()}"
        return f"__builtin_convertvector({comparison}, {t})"
    if name in ("clzg", "ctzg"):
        if kind.is_signed:
            return f"(-{sub()})"
        return f"{e}{name}({sub()}, ({t})(({kind.base}){kind.bits}))"
    if name == "fshl":
        return f"{e}{w.one_of('fshl', 'fshr')}({sub()}, {sub()}, {sub()})"
    if name == "not" or (name == "abs" and not kind.is_signed):
        return f"(~{sub()})"
    return f"{e}{name}({sub()})"
