"""Code objects and kernels that can be asked about their code: decoded when first asked.

They are the objects and kernels of :mod:`coasm.codeobject`, and go wherever those do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, overload

from coasm import codeobject
from coasm.asm.code import Code
from coasm.asm.code import Instruction as Decoded
from coasm.errors import UnsupportedError
from coasm.reading.descriptor import KernelDescriptor
from coasm.reading.instruction import Instruction

if TYPE_CHECKING:
    from coasm.asm.references import References
    from coasm.flow.cfg import Graph
    from coasm.inspect import Argument, KernelInfo
    from coasm.reading.cfg import Cfg
    from coasm.reading.liveness import Liveness
    from coasm.reading.swap import Order, Swap

__all__ = ["CodeObject", "Instructions", "Kernel", "readable"]


@dataclass(frozen=True)
class CodeObject(codeobject.CodeObject):
    """A code object whose kernels can be asked about their code.

    *llvm* is the directory of the tools that decode it.
    """

    llvm: str | None = field(default=None, compare=False, repr=False)

    @cached_property
    def kernels(self) -> tuple[Kernel, ...]:
        """The kernels that the metadata lists, in its order.

        Raises:
            FormatError: as :attr:`coasm.codeobject.CodeObject.kernels`.
        """
        return tuple(
            Kernel(
                kernel.name,
                kernel.symbol,
                KernelDescriptor(kernel.descriptor, self.target),
                kernel.descriptor_address,
                kernel.entry,
                kernel.metadata,
                self,
            )
            for kernel in super().kernels
        )

    def kernel(self, name: str | None = None) -> Kernel:
        """The kernel that *name* means (:mod:`coasm.kernels`); the only one without a name.

        Raises:
            UnsupportedError: there is none, or there are several.
        """
        from coasm.kernels import find_kernel, only_kernel

        found = only_kernel(self) if name is None else find_kernel(self, name, self.llvm)
        return next(one for one in self.kernels if one.symbol == found.symbol)

    @cached_property
    def code(self) -> Mapping[int, Code]:
        """The decoded sections, in columns.

        Raises:
            CoasmError: LLVM cannot be found, or does not know the target.
        """
        from coasm.asm.decode import decode
        from coasm.llvm import find_llvm
        from coasm.llvm.run import TRUE16, has_true16

        extra = (TRUE16,) if has_true16(self.target) else ()
        return decode(self, find_llvm(self.llvm, processor=self.target.name), extra=extra)

    def share_code(self, code: Mapping[int, Code]) -> None:
        """Take the decoded sections from who has decoded them already."""
        self.__dict__["code"] = code

    @cached_property
    def graph(self) -> Graph:
        """The control-flow graph of all code.

        Raises:
            CoasmError: as :attr:`code`.
        """
        from coasm.flow.cfg import control_flow

        return control_flow(self, self.code)

    @cached_property
    def addresses(self) -> References:
        """The addresses that code and data hold.

        Raises:
            CoasmError: as :attr:`code`.
        """
        from coasm.asm.references import find_references

        return find_references(self, dict(self.code))

    @property
    def references(self) -> frozenset[int]:
        """The addresses of the instructions that are part of an address relative to themselves.

        Raises:
            CoasmError: as :attr:`code`.
        """
        return frozenset(self.addresses.code) | frozenset(self.addresses.numeric)

    @cached_property
    def instruction_set(self) -> str:
        """Which of the table's instruction sets the target has.

        Raises:
            UnsupportedError: the table has none for it.
        """
        found = self.target.processor.family.instructions
        if not found:
            raise UnsupportedError(
                f"{self.name}: the instructions of {self.target.name} are not described"
            )
        return found

    @cached_property
    def source_line(self) -> Callable[[int], str | None]:
        """Address → file and line of the source, where they are known."""
        if self.line_of is not None:
            return self.line_of
        from bisect import bisect_right

        from coasm.asm.exact import source_lines_of

        known = source_lines_of(self)
        starts = sorted(known)

        def line_of(address: int) -> str | None:
            at = bisect_right(starts, address) - 1
            return known[starts[at]] if at >= 0 else None

        return line_of


@dataclass(frozen=True)
class Kernel(codeobject.Kernel):
    """One kernel of *co*, with its code.

    ``descriptor`` is its 64 bytes with their fields by name; ``metadata`` the map as it is.
    """

    descriptor: KernelDescriptor
    co: CodeObject = field(compare=False, repr=False)

    @cached_property
    def _span(self) -> tuple[int, int]:
        """Which of the object's instructions are the kernel's own."""
        from coasm.mix import own_span

        return own_span(self.co, self, self.co.graph.instructions)

    @cached_property
    def instructions(self) -> Instructions:
        """The kernel's own instructions, from its entry to its end, made when asked for.

        Raises:
            CoasmError: as :attr:`CodeObject.code`.
        """
        return Instructions(self.co, self.co.graph.instructions, *self._span)

    @cached_property
    def size(self) -> int:
        """Bytes from the entry to the end of the kernel's own code.

        Raises:
            CoasmError: as :attr:`CodeObject.code`.
        """
        own = self.instructions.columns
        return own[-1].address + own[-1].size - self.entry if own else 0

    @cached_property
    def cfg(self) -> Cfg:
        """The blocks of the kernel's own code, their edges, their loops.

        Raises:
            CoasmError: as :attr:`CodeObject.code`.
        """
        from coasm.descriptor import preload_entry
        from coasm.reading.cfg import kernel_cfg

        second = preload_entry(self.descriptor, self.entry, self.co.target)
        entries = (self.entry,) if second is None else (self.entry, second)
        return kernel_cfg(self.co.graph, self._span, entries)

    @cached_property
    def liveness(self) -> Liveness:
        """Which registers are live before each instruction, and which are spare.

        Raises:
            UnsupportedError: an instruction that the table does not have.
        """
        from coasm.reading.liveness import Liveness

        return Liveness(
            self.instructions.columns,
            self.cfg,
            self.co.instruction_set,
            self.descriptor.resources,
            self.co.target.processor.family.addressable_sgprs,
            self._has_whole_waves(),
        )

    def _has_whole_waves(self) -> bool:
        """Whether the metadata requires workgroups of whole waves."""
        size = self.metadata.get(".reqd_workgroup_size")
        if not isinstance(size, list) or not all(isinstance(one, int) for one in size):
            return False
        return bool(size) and prod(size) % self.descriptor.wave_size == 0

    @cached_property
    def order(self) -> Order:
        """The kernel as :meth:`may_swap` judges it."""
        from coasm.reading.swap import Order

        co = self.co
        return Order(co, co.code, self.name, self.cfg, self._span, co.references)

    @cached_property
    def arguments(self) -> tuple[Argument, ...]:
        """The arguments that the metadata lists. (Whether the code reads them says ``info``.)"""
        from coasm.inspect import declared_arguments

        return declared_arguments(self)

    @cached_property
    def info(self) -> KernelInfo:
        """What ``coasm info`` says of the kernel: resources, occupancy, arguments that are read.

        Raises:
            CoasmError: as :attr:`CodeObject.code`.
        """
        from coasm.inspect import kernel_info

        return kernel_info(self.co, self, self.co.graph)

    def may_swap(self, first: int | Instruction, second: int | Instruction) -> Swap:
        """Whether two instructions of a block may change places, and if not why.

        They are named by address or as they are. It is true or false itself; see
        :mod:`coasm.reading.swap`.

        Raises:
            UnsupportedError: an address where none of the kernel's instructions begins; a target
                whose wait states and waits are not known; an instruction that is not described.
        """
        from coasm.reading.swap import may_swap

        return may_swap(self.order, self.instructions.at(first), self.instructions.at(second))


class Instructions(Sequence[Instruction]):
    """The instructions of a kernel; ``columns`` are they as they were decoded."""

    def __init__(self, co: CodeObject, every: Sequence[Decoded], first: int, last: int) -> None:
        self._co = co
        self._every = every
        self._first = first
        self._last = last

    def __len__(self) -> int:
        return self._last - self._first

    @cached_property
    def columns(self) -> Sequence[Decoded]:
        """The decoded instructions."""
        return self._every[self._first : self._last]

    @overload
    def __getitem__(self, at: int) -> Instruction: ...
    @overload
    def __getitem__(self, at: slice) -> list[Instruction]: ...
    def __getitem__(self, at: int | slice) -> Instruction | list[Instruction]:
        if isinstance(at, slice):
            return [self._made(one) for one in range(*at.indices(len(self)))]
        return self._made(range(len(self))[at])

    def __iter__(self) -> Iterator[Instruction]:
        return map(self._made, range(len(self)))

    def _made(self, at: int) -> Instruction:
        return Instruction(at, self._every[self._first + at], self._co)

    def at(self, place: int | Instruction) -> Instruction:
        """The instruction that begins at an address.

        Raises:
            UnsupportedError: none does.
        """
        from bisect import bisect_left

        address = place.address if isinstance(place, Instruction) else place
        found = bisect_left(self.columns, address, key=lambda item: item.address)
        if found == len(self) or self.columns[found].address != address:
            raise UnsupportedError(
                f"{self._co.name}: no instruction of the kernel begins at {address:#x}"
            )
        return self._made(found)


def readable(co: codeobject.CodeObject, llvm: str | None = None) -> CodeObject:
    """*co* with kernels that can be asked about their code."""
    if isinstance(co, CodeObject):
        return co
    made = CodeObject(co.name, co.elf, co.target, co.line_of, co.remarks, llvm)
    if "metadata" in co.__dict__:  # decoded already
        made.share_metadata(co)
    return made
