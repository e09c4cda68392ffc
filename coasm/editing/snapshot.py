"""A listing as it assembles: its lines, the object that it makes, and which lines make what."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import NamedTuple

from coasm.asm.code import Instruction as Decoded
from coasm.asm.source import SourceOptions
from coasm.errors import CoasmError, EditError
from coasm.linter.sources import Source, listing_source
from coasm.linter.statements import Statements
from coasm.reading import CodeObject, Kernel, readable
from coasm.reading.instruction import Instruction

__all__ = ["Place", "Setup", "Snapshot"]

#: Where an edit is: an address, an instruction, a label, or a question to ask each instruction.
Place = int | Instruction | str | Callable[[Instruction], object]

_BY_HAND = "an edit of it has to be made there"


class Setup(NamedTuple):
    """How a listing is assembled: its *name* for messages, the tools, what is said beside it."""

    name: str
    llvm: str | None
    options: SourceOptions


class Snapshot:
    """The *text* of a listing, assembled. Lines are 0-based, instructions by their number.

    Raises:
        CoasmError: it does not assemble.
    """

    def __init__(self, text: str, setup: Setup) -> None:
        self.text = text
        self.setup = setup
        self.source: Source = listing_source(text, setup.name, setup.llvm, options=setup.options)
        program = self.source.program
        self.lines = self.source.text
        self.instructions = program.instructions
        self.co: CodeObject = readable(program.co, setup.llvm)
        self.co.share_code(program.code)
        self._statements = Statements(self.source)

    @cached_property
    def by_line(self) -> dict[int, list[int]]:
        """Line → the instructions that it makes."""
        found: dict[int, list[int]] = defaultdict(list)
        for index in range(len(self.instructions)):
            line = self.line(index)
            if line is not None:
                found[line].append(index)
        return dict(found)

    def line(self, index: int) -> int | None:
        """The line that makes an instruction; None where that is not known."""
        line = self._statements.line(index)
        return None if line is None else line - 1

    def index(self, address: int) -> int | None:
        """The instruction that begins at an address."""
        found = self.source.program.index(address)
        return None if found < 0 else found

    def statement(self, index: int) -> tuple[int, str, str, str]:
        """The line of an instruction, in three: what is before it, itself, what is behind it.

        Raises:
            EditError: a macro, a repetition or an included file makes it.
        """
        span = self._statements.statement(index)
        line = self.line(index)
        if span is None or line is None:
            raise EditError(str(self._statements.refuse(index, _BY_HAND)))
        text = self.lines[line]
        return line, text[: span[0]], text[span[0] : span[1]], text[span[1] :]

    def at(self, place: Place, kernel: str | None = None) -> list[int]:
        """The instructions that *place* means, in their order; with *kernel* only that one's.

        Raises:
            EditError: it means none.
        """
        if callable(place):
            found = [at for at, one in self._own(kernel) if place(one)]
            if not found:
                raise EditError(f"{self.setup.name}: no instruction is what is asked for")
            return found
        if isinstance(place, str):
            return [self._labelled(place)]
        if isinstance(place, Instruction) and place.co is not self.co:
            raise EditError(
                f"{place!r} is of the code before or behind other edits, or of another object: ask "
                "this module for its instructions"
            )
        address = place.address if isinstance(place, Instruction) else place
        index = self.index(address)
        if index is None:
            raise EditError(f"{self.setup.name}: no instruction begins at {address:#x}")
        return [index]

    def kernel(self, name: str | None) -> Kernel:
        """The kernel that *name* means; the only one without a name.

        Raises:
            EditError: there is none, or there are several.
        """
        try:
            return self.co.kernel(name)
        except CoasmError as error:
            raise EditError(str(error)) from None

    def _own(self, name: str | None) -> Iterator[tuple[int, Instruction]]:
        """The instructions of kernels, with their numbers."""
        kernels = self.co.kernels if name is None else (self.kernel(name),)
        for kernel in sorted(kernels, key=lambda one: one.entry):
            own = kernel.instructions
            first = self.index(own[0].address) if len(own) else None
            if first is not None:
                yield from enumerate(own, first)

    def _labelled(self, label: str) -> int:
        """The first instruction behind a label.

        Raises:
            EditError: there is no such label, or nothing behind it.
        """
        pattern = re.compile(rf'\s*(?:\S+:\s*)*"?{re.escape(label)}"?:')
        found = [at for at, line in enumerate(self.lines) if label in line and pattern.match(line)]
        if len(found) != 1:
            several = "no" if not found else f"{len(found)} times the"
            raise EditError(f"{self.setup.name}: {several} label {label!r}")
        behind = next((line for line in sorted(self.by_line) if line >= found[0]), None)
        if behind is None:
            raise EditError(f"{self.setup.name}: no instruction is behind the label {label!r}")
        return self.by_line[behind][0]

    def decoded(self, index: int) -> Decoded:
        """An instruction by its number."""
        return self.instructions[index]
