"""Random statements: assignments, branches, loops, switches, arrays, and functions to call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.random_c.expressions import condition, constant, expression, index
from tests.random_c.generate import Node, Type

if TYPE_CHECKING:
    from tests.random_c.generate import Writer

__all__ = ["Scope", "block", "function"]


class Scope:
    """The variables that a statement can name; those of *fixed* are only read."""

    def __init__(self, variables: list[tuple[str, Type]]) -> None:
        self.variables = list(variables)
        self.readable: list[tuple[str, Type]] = []
        #: Arrays: name, element, count.
        self.arrays: list[tuple[str, Type, int]] = []
        self.calls = 6
        #: Nested loops multiply; the deepest level of a statement's loops.
        self.loops = 0

    def inner(self) -> Scope:
        """A scope within this one: what is declared there is gone after it."""
        scope = Scope(self.variables)
        scope.readable = list(self.readable)
        scope.arrays = list(self.arrays)
        scope.calls, scope.loops = self.calls, self.loops
        return scope

    def all(self) -> list[tuple[str, Type]]:
        return self.variables + self.readable

    def names(self, kind: Type) -> list[str]:
        return [name for name, t in self.all() if t == kind]

    def types(self) -> list[Type]:
        return [t for _, t in self.all()]


def block(w: Writer, scope: Scope, count: int, level: int) -> list[Node]:
    """*count* statements."""
    return [_statement(w, scope, level) for _ in range(count)]


def _statement(w: Writer, scope: Scope, level: int) -> Node:
    choices = [_assign] * 8 + [_declare, _array, _array_use, _array_use, _element, _update]
    if level < 3:
        choices += [_if, _if, _switch, _for, _for, _while]
    return w.rng.choice(choices)(w, scope, level)


def _assign(w: Writer, scope: Scope, level: int) -> Node:
    name, kind = w.rng.choice(scope.variables)
    return Node(f"{name} = {expression(w, scope, kind, w.rng.choice((1, 2, 2, 3)))};")


def _update(w: Writer, scope: Scope, level: int) -> Node:
    name, kind = w.rng.choice(scope.variables)
    ops = ("+=", "-=", "*=") if kind.is_float else ("+=", "-=", "*=", "^=", "|=", "&=")
    return Node(f"{name} {w.one_of(*ops)} {expression(w, scope, kind, 2)};")


def _element(w: Writer, scope: Scope, level: int) -> Node:
    vectors = [(n, t) for n, t in scope.variables if t.count > 1]
    if not vectors:
        return _assign(w, scope, level)
    name, kind = w.rng.choice(vectors)
    at = str(w.rng.randrange(kind.count)) if w.rng.random() < 0.5 else index(w, scope, kind.count)
    return Node(f"{name}[{at}] = {expression(w, scope, kind.element, 2)};")


def _declare(w: Writer, scope: Scope, level: int) -> Node:
    kind, name = w.rng.choice(scope.types()), w.name("t")
    node = Node(f"{kind.name} {name} = {expression(w, scope, kind, 2)};")
    scope.variables.append((name, kind))
    return node


def _array(w: Writer, scope: Scope, level: int) -> Node:
    kind, name, count = w.rng.choice(scope.types()), w.name("a"), w.rng.choice((2, 3, 4, 8, 16, 24))
    value = expression(w, scope, kind, 1)
    scope.arrays.append((name, kind, count))
    return Node(
        f"{kind.name} {name}[{count}]; for (i32 i = 0; i < {count}; i++) {name}[i] = {value};"
    )


def _array_use(w: Writer, scope: Scope, level: int) -> Node:
    if not scope.arrays:
        return _array(w, scope, level)
    name, kind, count = w.rng.choice(scope.arrays)
    place = f"{name}[{index(w, scope, count)}]"
    targets = [n for n, t in scope.variables if t == kind]
    if targets and w.rng.random() < 0.6:
        return Node(f"{w.rng.choice(targets)} = {place};")
    return Node(f"{place} = {expression(w, scope, kind, 2)};")


def _if(w: Writer, scope: Scope, level: int) -> Node:
    node = Node(f"if ({condition(w, scope, 2)}) {{", tail="}")
    node.body = block(w, scope.inner(), w.rng.randint(1, 3), level + 1)
    if w.rng.random() < 0.4:
        other = Node("} else {")
        other.body = block(w, scope.inner(), w.rng.randint(1, 3), level + 1)
        node.body.append(other)
    return node


def _switch(w: Writer, scope: Scope, level: int) -> Node:
    count = w.rng.randint(2, 6)
    node = Node(f"switch ({index(w, scope, count + 1)}) {{", tail="}")
    for case in range(count):
        one = Node(f"case {case}: {{", block(w, scope.inner(), 1, level + 1), "}")
        if w.rng.random() < 0.7:
            one.tail = "} break;"
        node.body.append(one)
    if w.rng.random() < 0.5:
        node.body.append(Node("default: {", block(w, scope.inner(), 1, level + 1), "}"))
    return node


def _loop_scope(scope: Scope) -> Scope:
    inside = scope.inner()
    inside.loops += 1
    inside.calls = 0 if inside.loops > 1 else 1
    return inside


def _for(w: Writer, scope: Scope, level: int) -> Node:
    if scope.loops > 1:
        return _assign(w, scope, level)
    i = w.name("i")
    kind = w.rng.choice([t for t in scope.types() if not t.is_float and t.count == 1])
    count = w.one_of("3", "5", "8", f"(i32)((u32)({expression(w, scope, kind, 1)}) & 7)")
    inside = _loop_scope(scope)
    inside.readable.append((i, Type("i32")))
    node = Node(f"for (i32 {i} = 0, n_{i} = {count}; {i} < n_{i}; {i}++) {{", tail="}")
    node.body = block(w, inside, w.rng.randint(1, 3), level + 1)
    if w.rng.random() < 0.3:
        node.body.insert(
            w.rng.randrange(len(node.body) + 1),
            Node(f"if ({condition(w, scope, 1)}) {w.one_of('break', 'continue')};"),
        )
    return node


def _while(w: Writer, scope: Scope, level: int) -> Node:
    if scope.loops > 1:
        return _assign(w, scope, level)
    n = w.name("n")
    node = Node(f"for (u32 {n} = 0; {n} < 6 && {condition(w, scope, 1)}; {n}++) {{", tail="}")
    inside = _loop_scope(scope)
    inside.readable.append((n, Type("u32")))
    node.body = block(w, inside, w.rng.randint(1, 3), level + 1)
    return node


def function(w: Writer, types: list[Type]) -> None:
    """One more function that expressions may call, of one of four shapes."""
    result = w.rng.choice(types)
    parameters = [w.rng.choice(types) for _ in range(w.rng.randint(1, 4))]
    name = w.name("f")
    how = w.one_of("__attribute__((noinline))", "__attribute__((noinline))", "inline")
    names = [f"p{at}" for at in range(len(parameters))]
    scope = Scope(list(zip(names, parameters, strict=True)))
    scope.readable = [("zero", Type("u32"))]
    scope.calls = 1
    listed = ", ".join(f"{t.name} {n}" for t, n in zip(parameters, names, strict=True))
    shape = w.one_of("plain", "plain", "recursive", "structure", "table")
    if shape == "recursive" and w.opencl:
        shape = "plain"
    body = [Node("u32 zero = 0;")]
    if shape == "recursive":
        how = "__attribute__((noinline))"
        body.append(Node(f"if (n <= 0) return {expression(w, scope, result, 1)};"))
        again = ", ".join(expression(w, scope, t, 1) for t in parameters)
        body.append(Node(f"{result.name} again = {name}_r({again}, n - {w.one_of('1', '2')});"))
        scope.variables.append(("again", result))
        listed += ", i32 n"
        inner_name = f"{name}_r"
    else:
        inner_name = name
    if shape == "structure":
        body += _structure(w, scope, types)
    if shape == "table":
        body += _table(w, scope, types)
    body += block(w, scope, w.rng.randint(1, 3), 2)
    body.append(Node(f"return {expression(w, scope, result, 2)};"))
    w.functions.append(Node(f"static {how} {result.name} {inner_name}({listed}) {{", body, "}"))
    if shape == "recursive":
        outer = ", ".join(f"{t.name} {n}" for t, n in zip(parameters, names, strict=True))
        depth = w.rng.randint(1, 5)
        w.functions.append(
            Node(
                f"static inline {result.name} {name}({outer})"
                f" {{ return {inner_name}({', '.join(names)}, {depth}); }}"
            )
        )
    w.callable.append((name, result, parameters))


def _structure(w: Writer, scope: Scope, types: list[Type]) -> list[Node]:
    """A structure by value through a function of its own."""
    name, members = w.name("Q"), [w.rng.choice(types) for _ in range(w.rng.randint(2, 5))]
    fields = " ".join(f"{t.name} m{at};" for at, t in enumerate(members))
    w.functions.append(Node(f"struct {name} {{ {fields} }};"))
    inside = Scope([(f"q.m{at}", t) for at, t in enumerate(members)])
    inside.readable = [("zero", Type("u32"))]
    body = [Node("u32 zero = 1;"), *block(w, inside, 2, 3), Node("return q;")]
    passes = f"static __attribute__((noinline)) struct {name} pass_{name}(struct {name} q) {{"
    w.functions.append(Node(passes, body, "}"))
    values = "; ".join(f"q.m{at} = {expression(w, scope, t, 1)}" for at, t in enumerate(members))
    scope.variables += [(f"q.m{at}", t) for at, t in enumerate(members)]
    return [Node(f"struct {name} q; {values}; q = pass_{name}(q);")]


def _table(w: Writer, scope: Scope, types: list[Type]) -> list[Node]:
    """A constant table, read at a computed index."""
    kind, count, name = w.rng.choice(types), w.rng.choice((3, 4, 8, 11)), w.name("T")
    values = ", ".join(constant(w, kind) for _ in range(count))
    w.functions.append(Node(f"CONSTANT {kind.name} {name}[{count}] = {{{values}}};"))
    local = w.name("t")
    node = Node(f"{kind.name} {local} = {name}[{index(w, scope, count)}];")
    scope.variables.append((local, kind))
    return [node]
