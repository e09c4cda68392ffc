"""The table of instructions: what each mnemonic of each target takes, reads, writes.

The rows are in :mod:`coasm.isa.rows`, as text, because a family of instructions is one line::

    801..1150: d:T s:T s:T < scc > scc = s_{add,sub}_{i32,u32}

Before the colon is which targets have them (:data:`INSTRUCTION_SETS`, ``..`` is "to"; what ends in
``..`` goes on to the newest). Then come the operands in the order in which LLVM prints them, what
is read (``<``) and written (``>``) without being an operand, and the names. An operand is its role
and its kind. The role is ``d`` written, ``s`` read, ``x`` both, ``k`` written in part, ``-`` no
register; with ``?`` it is there, or is written, only where the instruction returns something to a
register. A kind is a number format with its bits (``f32``, ``bf16x2``: two of them), ``mask`` (a
bit for each lane), or a part of an address. ``T`` is the last word of the name, ``U`` the one
before it.

Rows of vector memory say what the instruction does, and the kind of its data (behind a ``/`` that
of what it returns); the operands of each unit are in :data:`_MEMORY`.

Sources: LLVM 22 (which mnemonics a target has, roles, sizes, implicit operands) and AMD's machine
readable ISA (number formats). ``tests/isa/test_table.py`` compares each row with both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import NamedTuple

__all__ = ["INSTRUCTION_SETS", "Opcode", "Slot", "expanded", "mnemonics", "opcode"]

#: The instruction sets that differ, oldest first: the processor that each is named after.
INSTRUCTION_SETS = (
    *("801", "9-generic", "900", "904", "906", "908", "90a", "9-4-generic", "942", "950"),
    *("1010", "1011", "1030", "1100", "1150", "1200", "1250"),
)

_BITS = re.compile(r"[a-z]+(\d+)(?:x(\d+))?")
_BRACES = re.compile(r"\{([^}]*)\}")


class Slot(NamedTuple):
    """One operand: ``role`` and ``kind`` as in the rows.

    ``returned``: it is there (role ``d``), or is written (role ``x``), only where the instruction
    returns something to a register.
    """

    role: str
    kind: str = ""
    returned: bool = False

    @property
    def bits(self) -> int | None:
        """How wide it is; None where the number of lanes, or the form, says so."""
        match = _BITS.fullmatch(self.kind)
        return None if match is None else int(match[1]) * int(match[2] or 1)


class Opcode(NamedTuple):
    """One mnemonic on one instruction set.

    ``unit`` is ``salu``, ``smem``, ``valu``, ``trans``, ``dual`` (a half of a VOPD), ``matrix``,
    ``lds``, ``export``, or the address space of vector memory: ``buffer``, ``tbuffer``, ``global``,
    ``flat``, ``scratch``, ``cluster``, ``tensor``, ``image``. Of these ``does`` says what they do:
    ``load``, ``store``, ``atomic``, ``sample``, ``to_lds``, ``from_lds``, ``prefetch``, ``cache``.
    ``reads`` and ``writes`` are the registers that no operand names.
    """

    name: str
    unit: str
    slots: tuple[Slot, ...]
    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    does: str = ""


#: Unit and what it does → its operands; D is the data, with the role that belongs there.
_MEMORY = {
    "buffer load": "d?:D addr rsrc soffset",
    "buffer store": "s:D addr rsrc soffset",
    "buffer atomic": "x?:D addr rsrc soffset",
    "buffer from_lds": "rsrc soffset",
    "load": "d:D addr base",
    "store": "addr s:D base",
    "atomic": "d?:R addr s:D base",
    "prefetch": "addr base",
    "to_lds": "addr base",
    "cluster to_lds": "s:lds addr base",
    "async to_lds": "s:lds addr base",
    "async from_lds": "addr s:lds base",
    "tensor to_lds": "s:b128 s:b256 s:group s:group",
    "tensor from_lds": "s:b128 s:b256 s:group s:group",
    "image load": "d:D addr rsrc",
    "image store": "s:D addr rsrc",
    "image atomic": "x?:D addr rsrc",
    "image sample": "d:D addr rsrc samp",
    "tensor save": "base",
    "cache": "",
}
#: What the instructions of a unit read beside their operands.
_READS = {
    **dict.fromkeys(("valu", "trans", "dual", "matrix", "lds", "export", "image"), ("exec",)),
    **dict.fromkeys(("buffer", "tbuffer", "global", "cluster"), ("exec",)),
    **dict.fromkeys(("flat", "scratch"), ("exec", "flat_scratch")),
    "tensor": ("exec",),
}
#: Where every access to LDS reads its limit in M0.
_LDS_READS_M0 = "801"
#: The parts of an address are read.
_ADDRESS = ("addr", "base", "rsrc", "soffset", "samp")
#: The first word of a mnemonic → the file that its rows are in.
_FILES = {"s": "scalar", "v": "vector", "ds": "lds", "lds": "lds", "exp": "lds", "export": "lds"}
_MATRIX = ("v_mfma", "v_smfmac", "v_wmma", "v_swmmac", "v_accvgpr_read", "v_accvgpr_write")


class _Row(NamedTuple):
    sets: frozenset[str]
    unit: str
    does: str
    slots: str
    reads: frozenset[str]
    writes: frozenset[str]


@cache
def opcode(mnemonic: str, instructions: str) -> Opcode | None:
    """What *mnemonic*, without its encoding suffix, is in an instruction set of
    :data:`INSTRUCTION_SETS`; None where that does not have it.
    """
    for row in _rows(_file(mnemonic)).get(mnemonic, ()):
        if instructions in row.sets:
            reads = row.reads.union(_READS.get(row.unit, ()))
            if row.unit == "lds" and instructions == _LDS_READS_M0:
                reads |= {"m0"}
            slots = _slots(mnemonic, row.slots)
            return Opcode(mnemonic, row.unit, slots, reads, row.writes, row.does)
    return None


def mnemonics(instructions: str) -> frozenset[str]:
    """Every mnemonic of an instruction set."""
    return frozenset(
        name
        for file in ("scalar", "vector", "matrix", "lds", "memory")
        for name, rows in _rows(file).items()
        if any(instructions in row.sets for row in rows)
    )


def _file(mnemonic: str) -> str:
    if mnemonic.startswith(_MATRIX):
        return "matrix"
    return _FILES.get(mnemonic.partition("_")[0], "memory")


@cache
def _rows(file: str) -> dict[str, list[_Row]]:
    from importlib import import_module

    found: dict[str, list[_Row]] = {}
    unit = ""
    text = import_module(f"coasm.isa.rows.{file}").ROWS.strip().replace("\n    ", " ")
    for line in text.splitlines():
        if line.startswith("["):
            unit = line.strip("[]")
            continue
        head, _, names = line.partition(" = ")
        parts = _head(head)
        for pattern in names.split():
            for name in expanded(pattern):
                row = _memory_row(parts, name) if file == "memory" else _row(parts, unit)
                found.setdefault(name, []).append(row)
    return found


class _Head(NamedTuple):
    sets: frozenset[str]
    words: str
    reads: frozenset[str]
    writes: frozenset[str]


@cache
def _head(head: str) -> _Head:
    """What stands before the names."""
    rest, _, writes = head.partition(">")
    rest, _, reads = rest.partition("<")
    sets, _, words = rest.partition(" ")
    return _Head(
        _sets(sets.rstrip(":")), words.strip(), frozenset(reads.split()), frozenset(writes.split())
    )


def _row(head: _Head, unit: str) -> _Row:
    return _Row(head.sets, unit, "", head.words, head.reads, head.writes)


def _memory_row(head: _Head, name: str) -> _Row:
    does, *kind = head.words.split(" ")
    unit = name.partition("_")[0]
    space = "buffer" if unit == "tbuffer" else "async" if "asynccnt" in head.reads else unit
    slots = _MEMORY.get(f"{space} {does}")
    if slots is None:
        slots = _MEMORY[does]
    for data in kind:
        if data.startswith("k:"):  # a load that writes a part of the register
            slots, data = slots.replace("d", "k", 1), data[2:]
        data, _, result = data.partition("/")
        slots = slots.replace("R", result or data).replace("D", data)
    return _Row(head.sets, unit, does, slots, head.reads, head.writes)


@cache
def _sets(text: str) -> frozenset[str]:
    found: set[str] = set()
    for part in text.split(","):
        low, dots, high = part.partition("..")
        first = INSTRUCTION_SETS.index(low)
        last = (
            INSTRUCTION_SETS.index(high) if high else len(INSTRUCTION_SETS) - 1 if dots else first
        )
        found.update(INSTRUCTION_SETS[first : last + 1])
    return frozenset(found)


def expanded(pattern: str) -> Iterator[str]:
    """The names that a pattern with braces stands for."""
    parts = _BRACES.split(pattern)
    if len(parts) == 1:
        yield pattern
        return
    choices = [part.split(",") if at % 2 else [part] for at, part in enumerate(parts)]
    yield from map("".join, product(*choices))


def _slots(name: str, text: str) -> tuple[Slot, ...]:
    *_, before, last = ["", *name.split("_")]
    found = []
    for word in text.split():
        role, _, kind = word.partition(":")
        if role in _ADDRESS:
            role, kind = "s", role
        if kind[:1] in ("T", "U"):
            kind = (last if kind[0] == "T" else before) + kind[1:]
        found.append(Slot(role.rstrip("?"), kind, role.endswith("?")))
    return tuple(found)
