"""Two listings as one: everything that the second has, behind what the first has."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from coasm.asm.follow import follow
from coasm.asm.metadata_lines import metadata_span
from coasm.asm.names import parse_stand_ins, stand_in_line
from coasm.asm.source import declared
from coasm.codeobject import Symbol
from coasm.codeobject.elf import SHN_UNDEF, STB_LOCAL
from coasm.editing.declarations import Declarations
from coasm.editing.lines import InstructionEdits, Written
from coasm.editing.naming import local_labels, renamed
from coasm.editing.proof import Part, Proof
from coasm.editing.snapshot import Snapshot
from coasm.errors import EditError

__all__ = ["Joined"]

#: Directives that a listing has once.
_ONCE = re.compile(r"\s*\.(?:amdgcn_target|amdhsa_code_object_version)\b")
_REMARK = re.compile(r"\s*//")
#: What cannot stand in one section twice: it has an end of its own.
_SINGLE = (".eh_frame",)
_PRINTF = "amdhsa.printf"


class Joined:
    """Two listings as one."""

    def __init__(self, first: Snapshot, second: Snapshot) -> None:
        self.first, self.second = first, second
        self._declarations = Declarations(first), Declarations(second)
        self._check_alike()

    def _check_alike(self) -> None:
        one, other = map(_said, self._sides)
        if one != other:
            raise EditError(f"{self.first.setup.name} is {one}, {self.second.setup.name} {other}")
        for name in _SINGLE:
            if all(any(s.name == name for s in side.co.sections) for side in self._sides):
                raise EditError(f"both have a section {name}: they cannot be joined")

    @property
    def _sides(self) -> tuple[Snapshot, Snapshot]:
        return self.first, self.second

    @cached_property
    def names(self) -> tuple[dict[str, str], dict[str, str]]:
        """The names that become others, of the first and of the second.

        Raises:
            EditError: both define a symbol that others may refer to.
        """
        symbols = [_defined(side) for side in self._sides]
        both = symbols[0].keys() & symbols[1].keys()
        seen = [s for s in sorted(both) if all(one[s].bind != STB_LOCAL for one in symbols)]
        if seen:
            raise EditError(f"both define {', '.join(seen)}; one has to be renamed")
        texts = "\n".join(side.text for side in self._sides)
        number = 0
        while f".Lj{number}_" in texts or f"coasm_joined_{number}_" in texts:
            number += 1
        first: dict[str, str] = {}
        second = {
            label: f".Lj{number}_" + label.strip('"').removeprefix(".L")
            for label in local_labels(self.second.text)
        }
        for at, symbol in enumerate(sorted(both)):
            one = second if symbols[1][symbol].bind == STB_LOCAL else first
            one[symbol] = f"coasm_joined_{number}_{at}"
        theirs, own = (parse_stand_ins(side.text) for side in reversed(self._sides))
        for at, stand_in in enumerate(sorted(theirs.keys() & own.keys())):
            second[stand_in] = f"coasm_joined_{number}_s{at}"
        return first, second

    @cached_property
    def _merged(self) -> list[str]:
        """The metadata of both.

        Raises:
            EditError: they differ in more than their kernels.
        """
        own, theirs = (dict(side.co.metadata) for side in self._sides)
        del theirs["amdhsa.kernels"]
        if _PRINTF in own and _PRINTF in theirs:
            raise EditError("both have printf strings, whose numbers may be the same")
        unlike = [key for key in theirs if key != _PRINTF and theirs[key] != own.get(key)]
        if unlike or _PRINTF in theirs:
            raise EditError(f"their metadata differs: {', '.join(unlike or [_PRINTF])}")
        first, second = self._declarations
        first.with_kernels(second)
        ((_, lines),) = first.metadata().values()
        return [*lines, "\t.end_amdgpu_metadata"]

    @cached_property
    def parts(self) -> tuple[Written, Written]:
        """The lines of both, each with the other's as such of unknown origin."""
        first = InstructionEdits(self.first).written(self._head_spans())
        second = InstructionEdits(self.second).written(dict(self._tail_spans()))
        names = self.names
        stand_ins = [
            stand_in_line(new, old)
            for one in names
            for old, new in one.items()
            if new.startswith("coasm_joined_") and old not in self._stand_ins
        ]
        lines = [
            *(line for line in renamed(first.lines, names[0])),
            *self._renamed_second(second.lines),
            "",
            *stand_ins,
            *self._merged,
        ]
        shift = len(first.lines)
        rest = [None] * (len(lines) - shift)
        return (
            Written(lines, [*first.origins, *rest], first.starts),
            Written(
                lines,
                [None] * shift + second.origins + [None] * (len(lines) - shift - len(second.lines)),
                [shift + at for at in second.starts],
            ),
        )

    @property
    def _stand_ins(self) -> dict[str, str]:
        return parse_stand_ins(self.second.text)

    def _renamed_second(self, lines: list[str]) -> Iterator[str]:
        """The second's lines with its names; its stand-ins keep what they stand for."""
        names = self.names[1]
        for line in renamed(lines, names):
            stand_in = next((s for s in self._stand_ins if s in names and s in line), None)
            if stand_in is not None and line.lstrip().startswith("// coasm: symbol "):
                yield line.replace(f" {stand_in} ", f" {names[stand_in]} ", 1)
            else:
                yield line

    def _head_spans(self) -> dict[int, tuple[int, list[str]]]:
        """The first without its metadata."""
        span = metadata_span(self.first.lines)
        if span is None:
            raise EditError(f"{self.first.setup.name}: it has no metadata that is YAML")
        return {**self._declarations[0].descriptors(), span[0] - 1: (span[1] + 1, [])}

    def _tail_spans(self) -> Iterator[tuple[int, tuple[int, list[str]]]]:
        """The second without its metadata, and without what a listing has once."""
        span = metadata_span(self.second.lines)
        if span is None:
            raise EditError(f"{self.second.setup.name}: it has no metadata that is YAML")
        yield from self._declarations[1].descriptors().items()
        yield span[0] - 1, (span[1] + 1, [])
        for number, line in enumerate(self.second.lines[: span[0] - 1]):
            says = line.lstrip().startswith("// coasm: symbol ")
            if _ONCE.match(line) or (_REMARK.match(line) and not says):
                yield number, (number + 1, [])

    @cached_property
    def new(self) -> Snapshot:
        """The one, assembled."""
        text, _ = follow("\n".join(self.parts[0].lines), self.first.co.target)
        return Snapshot(text, self.first.setup)

    def check(self) -> None:
        """See that what either has is as it was.

        Raises:
            EditError: it is not.
        """
        for side, written, last in zip(self._sides, self.parts, (False, True), strict=True):
            Proof(side, self.new, written, Part(last=last, whole=False)).check()
        now = {kernel.name: kernel for kernel in self.new.co.kernels}
        for side in self._sides:
            for kernel in side.co.kernels:
                other = now.get(kernel.name)
                if other is None or _without_entry(other) != _without_entry(kernel):
                    raise EditError(f"{kernel.name} would be another")


def _defined(side: Snapshot) -> Mapping[str, Symbol]:
    return {s.name: s for s in side.co.symbols if s.shndx != SHN_UNDEF and s.name and s.type < 3}


def _without_entry(kernel: Any) -> object:
    fields = dict(kernel.descriptor.fields)
    fields.pop("kernel_code_entry_byte_offset", None)
    return fields, kernel.metadata


def _said(side: Snapshot) -> str:
    """What a listing is for."""
    features = declared(side.text, side.setup.name, side.setup.options).features
    what = f"for {side.co.target}, code object v{side.co.code_object_version}"
    return ", ".join([what, *features])
