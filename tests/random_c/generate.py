"""Random well-defined C programs: one text, for x86-64 and for amdgcn, in plain C or OpenCL C.

A program keeps variables of many types for each work-item (``struct S_k``), fills them from an
input buffer, changes them in phases of random statements, and stores them. Between two phases
stands something that work-items do together: a barrier with LDS, atomics, an exchange of lanes.
The host does a phase for one work-item after the other, and what stands between in one loop.

Defined means: nothing overflows (``-fwrapv``), distances of shifts and indices are masked, divisors
and conversions guarded, the sign and the payload of a NaN never looked at (``prelude.h``).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

__all__ = ["HOST_ENTRY", "Node", "Program", "Variable", "generate", "source"]

PRELUDE = (Path(__file__).parent / "prelude.h").read_text(encoding="utf-8")

SIGNED = ("i8", "i16", "i32", "i64", "i128")
UNSIGNED = ("u8", "u16", "u32", "u64", "u128")
INTEGERS = SIGNED + UNSIGNED
FLOATS = ("f16", "bf16", "f32", "f64")
SCALARS = INTEGERS + FLOATS
COUNTS = (2, 2, 2, 3, 3, 4, 4, 4, 8, 16)
#: The name of a program's function on the host.
HOST_ENTRY = "host_{number}"


class Type(NamedTuple):
    """An element type, and how many elements (1: a scalar)."""

    base: str
    count: int = 1

    @property
    def name(self) -> str:
        return self.base if self.count == 1 else f"{self.base}x{self.count}"

    @property
    def bits(self) -> int:
        return int(self.base.lstrip("iubf"))

    @property
    def is_float(self) -> bool:
        return self.base in FLOATS

    @property
    def is_signed(self) -> bool:
        return self.base in SIGNED

    @property
    def size(self) -> int:
        """Bytes in memory: three elements take the room of four."""
        return self.bits // 8 * (4 if self.count == 3 else self.count)

    @property
    def element(self) -> Type:
        return Type(self.base)


class Variable(NamedTuple):
    """A variable of a program's state: its type, and where its bytes are in input and output."""

    name: str
    type: Type
    offset: int


@dataclass
class Node:
    """A statement; or a compound one, with *body* between *head* and *tail*."""

    head: str
    body: list[Node] = field(default_factory=list)
    tail: str = ""

    def text(self, indent: str = "  ") -> str:
        lines = [indent + self.head] if self.head else []
        lines += [node.text(indent + "  ") for node in self.body]
        if self.tail:
            lines.append(indent + self.tail)
        return "\n".join(lines)


class Exchange(NamedTuple):
    """What work-items do together: its text in the kernel, and on the host for all of them.

    ``lds``: what it declares there, as (type, name, count).
    """

    device: str
    host: str
    lds: tuple[tuple[str, str, int], ...] = ()


@dataclass
class Program:
    """One program; the parts that a reduction may leave out are lists."""

    number: int
    variables: list[Variable]
    functions: list[Node]
    phases: list[list[Node]]
    exchanges: list[Exchange]
    workgroup: int
    groups: int
    noinline: list[bool]
    stride: int

    def text(self) -> str:
        """Its text, to stand behind the prelude."""
        k = self.number
        state = f"struct S_{k}"
        parts = [f"// Program {k}."]
        parts += [node.text("") for node in self.functions]
        fields = "".join(f" {v.type.name} {v.name};" for v in self.variables)
        parts.append(f"{state} {{{fields} }};")
        for v in self.variables:
            parts.append(f"struct P_{k}_{v.name} {{ {v.type.name} v; }} __attribute__((packed));")
        for number, phase in enumerate(self.phases):
            how = "__attribute__((noinline))" if self.noinline[number] else "inline"
            body = "\n".join(node.text() for node in phase)
            parts.append(
                f"static {how} void phase_{k}_{number}({state} *s, u32 lid, u32 gid) {{\n{body}\n}}"
            )
        lds = [one for exchange in self.exchanges for one in exchange.lds]
        parts.append("#ifdef __AMDGCN__")
        parts += [f"LDS_OF_FILE({t}, {name}, {count})" for t, name, count in lds]
        parts.append(self._kernel(state, lds))
        parts.append("#else")
        parts.append(self._host(state))
        parts.append("#endif")
        return "\n".join(parts) + "\n"

    def _moves(self, state: str, load: bool) -> Iterator[str]:
        for v in self.variables:
            const, pointer = ("const ", "from") if load else ("", "to")
            packed = (
                f"((GLOBAL {const}struct P_{self.number}_{v.name} *)({pointer} + {v.offset}))->v"
            )
            yield f"{state}{v.name} = {packed};" if load else f"{packed} = {state}{v.name};"

    def _kernel(self, state: str, lds: list[tuple[str, str, int]]) -> str:
        k, w = self.number, self.workgroup
        lines = [
            f"LIMIT({w}) KERNEL void kernel_{k}"
            "(GLOBAL const u8 *in, GLOBAL u8 *out, GLOBAL u8 *slots) {"
        ]
        lines += [f"  LDS_OF_KERNEL({t}, {name}, {count})" for t, name, count in lds]
        lines += [
            "  u32 lid = __builtin_amdgcn_workitem_id_x();",
            f"  u32 gid = __builtin_amdgcn_workgroup_id_x() * {w} + lid;",
            f"  GLOBAL const u8 *from = in + gid * {self.stride};",
            f"  GLOBAL u8 *to = out + gid * {self.stride};",
            f"  {state} s;",
            *(f"  {line}" for line in self._moves("s.", True)),
        ]
        for number in range(len(self.phases)):
            lines.append(f"  phase_{k}_{number}(&s, lid, gid);")
            if number < len(self.exchanges):
                lines.append(f"  {{ {self.exchanges[number].device} }}")
        lines += [*(f"  {line}" for line in self._moves("s.", False)), "}"]
        return "\n".join(lines)

    def _host(self, state: str) -> str:
        k, w = self.number, self.workgroup
        each = f"for (u32 lid = 0; lid < {w}; lid++)"
        gid = f"u32 gid = group * {w} + lid;"
        entry = HOST_ENTRY.format(number=k)
        lines = [
            f"void {entry}(const u8 *in, u8 *out, u8 *slots) {{",
            f"  for (u32 group = 0; group < {self.groups}; group++) {{",
            f"    {state} all[{w}];",
            f"    {each} {{",
            f"      {gid}",
            f"      const u8 *from = in + gid * {self.stride};",
            f"      {state} *s = &all[lid];",
            *(f"      {line}" for line in self._moves("s->", True)),
            "    }",
        ]
        for number in range(len(self.phases)):
            lines.append(f"    {each} {{ {gid} phase_{k}_{number}(&all[lid], lid, gid); }}")
            if number < len(self.exchanges):
                lines.append(f"    {{ {self.exchanges[number].host} }}")
        lines += [
            f"    {each} {{",
            f"      {gid}",
            f"      u8 *to = out + gid * {self.stride};",
            f"      {state} *s = &all[lid];",
            *(f"      {line}" for line in self._moves("s->", False)),
            "    }",
            "  }",
            "}",
        ]
        return "\n".join(lines)


def source(programs: list[Program]) -> str:
    """The text of one translation unit."""
    return PRELUDE + "\n" + "\n".join(program.text() for program in programs)


class Writer:
    """Writes the expressions and statements of one program."""

    def __init__(self, rng: random.Random, number: int, target: str, opencl: bool) -> None:
        self.rng, self.number, self.target, self.opencl = rng, number, target, opencl
        self.fresh = 0
        self.exchanges = 0
        self.functions: list[Node] = []
        #: Functions that can be called: name, result, parameters.
        self.callable: list[tuple[str, Type, list[Type]]] = []

    def name(self, what: str) -> str:
        self.fresh += 1
        return f"{what}_{self.number}_{self.fresh}"

    def one_of(self, *choices: str) -> str:
        return self.rng.choice(choices)


def generate(seed: int, number: int, target: str, opencl: bool) -> Program:
    """Program *number* of *seed*; *target* says which instructions of lanes exist.

    OpenCL C has no recursion.
    """
    from tests.random_c.exchanges import exchange
    from tests.random_c.statements import Scope, block, function

    rng = random.Random(f"{seed}:{number}")
    writer = Writer(rng, number, target, opencl)
    types = _types(rng)
    variables, offset = [], rng.choice((0, 0, 1, 2))
    aligned = offset == 0 and rng.random() < 0.6
    for at, kind in enumerate(types):
        if aligned:
            offset += -offset % kind.size
        variables.append(Variable(f"v{at}", kind, offset))
        offset += kind.size
    stride = offset + (-offset % 64 if aligned else rng.randrange(4))
    for _ in range(rng.choice((0, 0, 1, 1, 2))):
        function(writer, types)
    scope = Scope([(f"s->{v.name}", v.type) for v in variables])
    scope.readable = [("lid", Type("u32")), ("gid", Type("u32"))]
    count = rng.choice((1, 1, 2, 2, 3))
    workgroup = rng.choice((64, 64, 64, 128, 256, 1, 7, 32, 65, 100, 192, 200))
    phases = [block(writer, scope.inner(), rng.randint(2, 5), 0) for _ in range(count)]
    exchanges = [exchange(writer, variables, workgroup) for _ in range(count - 1)]
    noinline = [rng.random() < 0.3 for _ in range(count)]
    groups = max(1, 384 // max(workgroup, 64))
    return Program(
        number, variables, writer.functions, phases, exchanges, workgroup, groups, noinline, stride
    )


def _types(rng: random.Random) -> list[Type]:
    """The types of a program's variables: a few families, so that values meet."""
    bases = rng.sample(SCALARS, rng.randint(2, 4))
    counts = rng.sample(COUNTS, 2)
    types = [Type("u32"), Type("i32")]
    for base in bases:
        types += [Type(base)] * rng.randint(1, 2)
        if "128" not in base and rng.random() < 0.6:
            types += [Type(base, rng.choice(counts))] * rng.randint(1, 2)
    rng.shuffle(types)
    return types
