"""Kernels taken out of a listing: their code, their descriptors, their metadata."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import cached_property

from coasm.asm.follow import follow
from coasm.asm.names import parse_stand_ins, spell
from coasm.codeobject.elf import SHN_UNDEF
from coasm.editing.declarations import Declarations, Spans, blocks
from coasm.editing.lines import InstructionEdits, Written
from coasm.editing.proof import Part, Proof
from coasm.editing.snapshot import Snapshot
from coasm.errors import AssemblyError, EditError
from coasm.reading import Kernel

__all__ = ["Without"]

#: Directives that say something of a symbol.
_SAYS = re.compile(
    r'\s*\.(?:globl|global|weak|protected|hidden|internal|type|size|local)\s+("[^"]*"|[\w.$]+)'
)
_LABEL = re.compile(r'\s*("[^"]*"|[\w.$]+):')
#: Names that an error lists.
_SHOWN = 4


class Without:
    """A listing without the *kernels* of these names."""

    def __init__(self, old: Snapshot, kernels: Collection[str]) -> None:
        self.old = old
        self.gone = [kernel for kernel in old.co.kernels if kernel.name in kernels]
        if len(self.gone) == len(old.co.kernels):
            raise EditError(f"{old.setup.name}: no kernel would be left")

    @cached_property
    def written(self) -> Written:
        """The lines that are left."""
        declarations = Declarations(self.old)
        declarations.without([kernel.name for kernel in self.gone])
        spans: Spans = dict(declarations.spans())
        known = blocks(self.old)
        for kernel in self.gone:
            if kernel.name not in known:
                raise EditError(f"{kernel.name}: its descriptor is data in the listing")
            spans[known[kernel.name].first] = known[kernel.name].end, []
        spans.update({line: (line + 1, []) for line in self._lines()})
        return InstructionEdits(self.old).written(spans)

    @cached_property
    def new(self) -> Snapshot:
        """What is left, assembled."""
        text, _ = follow("\n".join(self.written.lines), self.old.co.target)
        try:
            return Snapshot(text, self.old.setup)
        except AssemblyError as error:
            names = ", ".join(kernel.name for kernel in self.gone[:_SHOWN])
            raise EditError(f"what is left without {names} does not assemble:\n{error}") from None

    def _lines(self) -> Iterator[int]:
        """The lines of the kernels' code with their labels, and what says something of symbols."""
        stand_ins = {name: one for one, name in parse_stand_ins(self.old.text).items()}
        own: dict[str, Kernel] = {}
        for kernel in self.gone:
            for symbol in (kernel.name, kernel.symbol):
                own[stand_ins.get(symbol) or spell(symbol) or symbol] = kernel
        begins: dict[str, int] = {}
        for number, line in enumerate(self.old.lines):
            label = _LABEL.match(line)
            if label is not None and label[1] in own:
                begins[own[label[1]].name] = number
            says = _SAYS.match(line)
            if says is not None and says[1] in own:
                yield number
        for kernel in self.gone:
            code = [self.old.line(at) for at in self._indices(kernel)]
            known = [line for line in code if line is not None]
            if kernel.name not in begins or not known or len(known) != len(code):
                raise EditError(f"{kernel.name}: its lines cannot be told")
            yield from range(begins[kernel.name], max(known) + 1)

    def _indices(self, kernel: Kernel) -> range:
        first = self.old.index(kernel.entry)
        return range(first or 0, (first or 0) + len(kernel.instructions))

    def check(self) -> None:
        """See that what is left is as it was.

        Raises:
            EditError: it is not, or something of it refers to what is gone.
        """
        undefined = [s.name for s in self.new.co.symbols if s.shndx == SHN_UNDEF and s.name]
        if undefined:
            more = ", ..." if len(undefined) > _SHOWN else ""
            raise EditError(f"{', '.join(undefined[:_SHOWN])}{more}: something refers to it")
        gone = frozenset(kernel.descriptor_address for kernel in self.gone)
        Proof(self.old, self.new, self.written, Part(gone=gone)).check()
        left = {kernel.name: kernel for kernel in self.new.co.kernels}
        names = {kernel.name for kernel in self.gone}
        for kernel in self.old.co.kernels:
            if kernel.name in names:
                continue
            other = left.get(kernel.name)
            if other is None or _fields(other) != _fields(kernel):
                raise EditError(f"{kernel.name} would be another")


def _fields(kernel: Kernel) -> object:
    fields = dict(kernel.descriptor.fields)
    fields.pop("kernel_code_entry_byte_offset", None)
    return fields, kernel.metadata
