"""Runs pseudo-code: the tree becomes functions, which work on the names of an environment."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from tests.emulator.pseudocode.functions import FUNCTIONS, conversion, is_denormal
from tests.emulator.pseudocode.grammar import Node, Number, parse
from tests.emulator.pseudocode.softfloat import FORMATS, Real, pack
from tests.emulator.pseudocode.values import Value, binary, cast, integer, typed

__all__ = ["Environment", "Registers", "run"]


class Registers:
    """``VGPR[lane][number]``: the vector registers of a wave, as {number: [64 values]}."""

    def __init__(self, rows: dict[int, list[int]]) -> None:
        self.rows = rows


class Environment:
    """The names that a text reads and writes. ``texts``: what an instruction called by name does.

    ``lane_mask``: the name of a mask that the text sets without naming the lane ("VCC").
    """

    def __init__(self, names: dict[str, Any], texts: Callable[[str], str]) -> None:
        self.names, self.texts = names, texts
        self.towards_zero = False
        self.functions: dict[str, tuple[list[str], list[Node]]] = {}


class _Break(Exception):
    pass


class _Return(Exception):
    def __init__(self, value: Value) -> None:
        super().__init__()
        self.value = value


Evaluate = Callable[[Environment], Any]


def run(text: str, environment: Environment) -> None:
    """Execute a text; what it assigns is in the environment's names afterwards."""
    _block(text)(environment)


@cache
def _block(text: str) -> Callable[[Environment], None]:
    return _statements(list(parse(text)))


def _statements(nodes: list[Node]) -> Callable[[Environment], None]:
    steps = [_STATEMENTS[node[0]](node) for node in nodes]

    def execute(env: Environment) -> None:
        for step in steps:
            step(env)

    return execute


# Statements.


def _assign(node: Node) -> Callable[[Environment], None]:
    right = _expression(node[2])
    puts = [_target(target) for target in reversed(node[1])]
    names = [target[1] for target in node[1] if target[0] == "name"]
    if names == ["ROUND_MODE"]:
        wanted = node[2][1]

        def mode(env: Environment) -> None:
            env.towards_zero = wanted == "ROUND_TOWARD_ZERO"

        return mode
    if names == ["prev_mode"]:
        return lambda env: None

    def execute(env: Environment) -> None:
        value = right(env)
        for put in puts:
            put(env, value)

    return execute


def _update(node: Node) -> Callable[[Environment], None]:
    _, sign, left, right = node
    get, put, more = _expression(left), _target(left), _expression(right)

    def execute(env: Environment) -> None:
        old = get(env)
        new = binary(sign, old, more(env))
        put(env, new if new.kind in ("f", "bf") else cast(new, old.kind, old.width))

    return execute


def _if(node: Node) -> Callable[[Environment], None]:
    arms = [(None if test is None else _expression(test), _statements(body))
            for test, body in node[1]]  # fmt: skip

    def execute(env: Environment) -> None:
        for test, body in arms:
            if test is None or test(env).bits:
                body(env)
                return

    return execute


def _for(node: Node) -> Callable[[Environment], None]:
    _, name, first, last, body = node
    low, high, inner = _expression(first), _expression(last), _statements(body)

    def execute(env: Environment) -> None:
        start, stop = low(env), integer(high(env))
        try:
            for count in range(integer(start), stop + 1):
                env.names[name] = Value(start.kind, max(start.width, 8), count)
                inner(env)
        except _Break:
            pass

    return execute


def _declare(node: Node) -> Callable[[Environment], None]:
    _, name, kind, count = node
    letter, width = typed(kind)
    empty = Value(letter, width, 0)

    def execute(env: Environment) -> None:
        if count and name in env.names:
            return  # the sources of an instruction, which are there already
        env.names[name] = [empty] * count if count else empty

    return execute


def _break(node: Node) -> Callable[[Environment], None]:
    def execute(env: Environment) -> None:
        raise _Break

    return execute


def _return(node: Node) -> Callable[[Environment], None]:
    value = _expression(node[1])

    def execute(env: Environment) -> None:
        raise _Return(value(env))

    return execute


def _lambda(node: Node) -> Callable[[Environment], None]:
    _, name, names, body = node

    def execute(env: Environment) -> None:
        env.functions[name] = (names, body)

    return execute


def _plain(node: Node) -> Callable[[Environment], None]:
    value = _expression(node[1])

    def execute(env: Environment) -> None:
        value(env)

    return execute


_STATEMENTS: dict[str, Callable[[Node], Callable[[Environment], None]]] = {
    "assign": _assign,
    "update": _update,
    "if": _if,
    "for": _for,
    "declare": _declare,
    "break": _break,
    "return": _return,
    "lambda": _lambda,
    "value": _plain,
}

# Targets.

Put = Callable[[Environment, Value], None]


def _target(node: Node) -> Put:
    if node[0] == "name":
        name = node[1]

        def put(env: Environment, value: Value) -> None:
            old = env.names.get(name)
            if old is not None and old.kind == "b" and value.kind != "x":
                # A register keeps its size; a name that was declared so, its own.
                value = Value("b", old.width, value.bits & ((1 << old.width) - 1))
            env.names[name] = value

        return put
    if node[0] == "concat":
        return _concat_target(node[1])
    if node[0] == "index" and node[1][0] == "index":
        return _register_target(node)
    if node[0] == "member" and not node[2][-1].isdigit():
        return lambda env, value: None  # TRAPSTS.INVALID
    place = _place(node)

    def put_bits(env: Environment, value: Value) -> None:
        name, at, width, kind = place(env)
        if kind in ("f", "bf") or value.kind in ("f", "bf", "x"):
            bits = value.bits
        else:
            bits = integer(value)
        old = env.names.get(name)
        if isinstance(old, list):
            old[at] = cast(value, old[0].kind, old[0].width)
            return
        if old is None:
            old = Value("b", max(at + width, 32), 0)
        size = max(old.width, at + width)
        mask = ((1 << width) - 1) << at
        env.names[name] = Value(
            old.kind if old.kind not in ("f", "bf") else "b",
            size,
            (old.bits & ~mask) | (bits << at & mask),
        )

    return put_bits


def _concat_target(parts: list[Node]) -> Put:
    puts = [(_target(part), typed(part[2])[1]) for part in parts]

    def put(env: Environment, value: Value) -> None:
        at = 0
        for one, width in reversed(puts):
            one(env, Value("u", width, value.bits >> at & ((1 << width) - 1)))
            at += width

    return put


def _register_target(node: Node) -> Put:
    lane, number = _expression(node[1][2]), _expression(node[2])

    def put(env: Environment, value: Value) -> None:
        env.names["VGPR"].rows[integer(number(env))][integer(lane(env))] = value.bits & 0xFFFF_FFFF

    return put


def _place(node: Node) -> Callable[[Environment], tuple[str, int, int, str]]:
    """(name, first bit, bits, kind) that an assignment changes."""
    what = node[0]
    if what == "name":
        name = node[1]

        def whole(env: Environment) -> tuple[str, int, int, str]:
            old = env.names.get(name)
            return name, 0, getattr(old, "width", 64), "b"

        return whole
    inner = _place(node[1])
    if what == "member":
        kind, width = typed(node[2])

        def member(env: Environment) -> tuple[str, int, int, str]:
            name, at, _, _ = inner(env)
            return name, at, width, kind

        return member
    first = _expression(node[2])
    if what == "index":

        def index(env: Environment) -> tuple[str, int, int, str]:
            name, at, _, _ = inner(env)
            return name, at + integer(first(env)), 1, "u"

        return index
    last = _expression(node[3])

    def part(env: Environment) -> tuple[str, int, int, str]:
        name, at, _, _ = inner(env)
        high, low = integer(first(env)), integer(last(env))
        # [31 : 0] = [0 : 31] reverses: the right-hand side has done so.
        return name, at + min(high, low), abs(high - low) + 1, "b"

    return part


# Expressions.

_NAMES = {
    "PI": Value("f", 64, 0x400921FB54442D18),
    "INF": Value("f", 64, FORMATS["f64"].infinity),
    "NAN": Value("f", 64, FORMATS["f64"].nan),
    "UNDERFLOW_F32": Value("f", 32, 0),
    "UNDERFLOW_F64": Value("f", 64, 0),
    "OVERFLOW_F32": Value("f", 32, FORMATS["f32"].infinity),
    "OVERFLOW_F64": Value("f", 64, FORMATS["f64"].infinity),
}


@cache
def _literal(number: Number) -> Value:
    kind, width = typed(number.kind)
    if kind != "f":
        return Value(kind, width, int(number.digits, 0))
    whole, _, rest = number.digits.partition(".")
    from tests.emulator.pseudocode.softfloat import Unpacked, divide

    top = Unpacked("number", 0, Real(0, int(whole + rest), 0))
    bottom = Unpacked("number", 0, Real(0, 10 ** len(rest), 0))
    return Value("f", width, pack(divide(top, bottom).value, FORMATS[f"f{width}"]))


def _expression(node: Node) -> Evaluate:
    return _EXPRESSIONS[node[0]](node)


def _constant(node: Node) -> Evaluate:
    value = _literal(node[1])
    return lambda env: value


def _name(node: Node) -> Evaluate:
    name = node[1]
    fixed = _NAMES.get(name)
    if fixed is not None:
        return lambda env: fixed
    return lambda env: env.names[name]


def _member(node: Node) -> Evaluate:
    _, inner, kind = node
    if inner[0] == "name" and inner[1] in ("INF", "NAN"):
        letter, width = typed(kind)
        form = FORMATS[kind]
        special = Value(letter, width, form.infinity if inner[1] == "INF" else form.nan)
        return lambda env: special
    get = _expression(inner)
    if not kind[-1].isdigit():
        return lambda env: get(env)[kind]  # WAVE_MODE.IEEE, INST.OMOD
    letter, width = typed(kind)
    mask = (1 << width) - 1

    def member(env: Environment) -> Value:
        value = get(env)
        return Value(letter, width, value.bits & mask)

    return member


def _index(node: Node) -> Evaluate:
    get, at = _expression(node[1]), _expression(node[2])

    def index(env: Environment) -> Any:
        value, place = get(env), integer(at(env))
        if isinstance(value, list):
            return value[place]
        if isinstance(value, Registers):
            rows = value.rows
            return {number: Value("b", 32, row[place]) for number, row in rows.items()}
        if isinstance(value, dict):
            return value[place]
        return Value("u", 1, value.bits >> place & 1)

    return index


def _slice(node: Node) -> Evaluate:
    get, first, last = (_expression(part) for part in node[1:])

    def part(env: Environment) -> Value:
        value, high, low = get(env), integer(first(env)), integer(last(env))
        width = abs(high - low) + 1
        bits = value.bits >> min(high, low) & ((1 << width) - 1)
        if high < low:
            bits = int(f"{bits:0{width}b}"[::-1], 2)
        return Value("u", width, bits)

    return part


def _part(node: Node) -> Evaluate:
    get, first, size = (_expression(part) for part in node[1:])

    def part(env: Environment) -> Value:
        value, at, width = get(env), integer(first(env)), integer(size(env))
        return Value("u", width, value.bits >> at & ((1 << width) - 1))

    return part


def _concat(node: Node) -> Evaluate:
    parts = [_expression(part) for part in node[1]]

    def concat(env: Environment) -> Value:
        bits = width = 0
        for part in parts:
            value = part(env)
            bits, width = bits << value.width | value.bits, width + value.width
        return Value("u", width, bits)

    return concat


def _cast(node: Node) -> Evaluate:
    letter, width = typed(node[1])
    get = _expression(node[2])
    return lambda env: cast(get(env), letter, width)


def _unary(node: Node) -> Evaluate:
    _, sign, inner = node
    get = _expression(inner)
    literal = inner[0] == "number" or (inner[0] == "name" and inner[1] in _NAMES)

    def unary(env: Environment) -> Value:
        value: Value = get(env)
        if sign == "!":
            return Value("u", 1, int(not value.bits))
        if sign == "~":
            return value._replace(bits=~value.bits & ((1 << value.width) - 1))
        if value.kind in ("f", "bf"):
            if sign == "-":
                value = value._replace(bits=value.bits ^ value.form.sign)
            return value._replace(signed_zero=literal and not value.bits & (value.form.sign - 1))
        return value if sign == "+" else value._replace(bits=-value.bits & (1 << value.width) - 1)

    return unary


def _binary(node: Node) -> Evaluate:
    _, sign, left, right = node
    if right[0] == "member" and right[1] == ("name", "DENORM"):
        get = _expression(left)
        letter, width = typed(right[2])
        return lambda env: Value("u", 1, int(is_denormal(cast(get(env), letter, width))))
    a, b = _expression(left), _expression(right)
    if sign in ("&&", "||"):
        early = sign == "||"

        def logic(env: Environment) -> Value:
            if bool(a(env).bits) == early:
                return Value("u", 1, int(early))
            return Value("u", 1, int(bool(b(env).bits)))

        return logic
    return lambda env: binary(sign, a(env), b(env))


def _choice(node: Node) -> Evaluate:
    test, yes, no = (_expression(part) for part in node[1:])
    return lambda env: yes(env) if test(env).bits else no(env)


def _call(node: Node) -> Evaluate:
    _, name, arguments = node
    gets = [_expression(argument) for argument in arguments]
    function = FUNCTIONS.get(name)
    if function is not None:
        return lambda env: function(*[get(env) for get in gets])

    def call(env: Environment) -> Value:
        values = [get(env) for get in gets]
        if name in env.functions:
            return _apply(env, *env.functions[name], values)
        if len(values) == 1:
            found = conversion(name, values[0], env.towards_zero)
            if found is not None:
                return found
        return _instruction(env, name, values)

    return call


def _apply(env: Environment, names: list[str], body: list[Node], values: list[Value]) -> Value:
    inner = Environment({**env.names, **dict(zip(names, values, strict=True))}, env.texts)
    inner.functions = env.functions
    if len(body) == 1 and body[0][0] == "value":
        value: Value = _expression(body[0][1])(inner)
        return value
    try:
        _statements(body)(inner)
    except _Return as result:
        return result.value
    raise SyntaxError("a function that returns nothing")


def _instruction(env: Environment, name: str, values: list[Value]) -> Value:
    """An instruction that a text calls by its name, on values."""
    names = {f"S{at}": Value("b", 64, value.bits) for at, value in enumerate(values)}
    inner = Environment({**env.names, **names, "D0": Value("b", 64, 0)}, env.texts)
    run(env.texts(name), inner)
    return values[0]._replace(bits=inner.names["D0"].bits & ((1 << values[0].width) - 1))


_EXPRESSIONS: dict[str, Callable[[Node], Evaluate]] = {
    "number": _constant,
    "name": _name,
    "member": _member,
    "index": _index,
    "slice": _slice,
    "part": _part,
    "concat": _concat,
    "cast": _cast,
    "unary": _unary,
    "binary": _binary,
    "choice": _choice,
    "call": _call,
}
