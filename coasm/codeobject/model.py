"""A code object: an ELF file, the target it is for, and the kernels its metadata names."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from coasm.codeobject.elf import (
    ET_DYN,
    ET_REL,
    PT_LOAD,
    SHN_LORESERVE,
    SHN_UNDEF,
    SHT_NOBITS,
    SHT_NOTE,
    Elf,
    Section,
    Symbol,
)
from coasm.errors import CoasmError, FormatError, UnsupportedError
from coasm.target import ABI_TO_COV, TargetID

__all__ = ["DESCRIPTOR_SIZE", "CodeObject", "Kernel", "load"]

#: Bytes of a kernel descriptor. Source: LLVM AMDGPU usage, "Kernel Descriptor".
DESCRIPTOR_SIZE = 64
NT_AMDGPU_METADATA = 32

#: Larger inputs than any code object: refused before they are read.
MAX_FILE_SIZE = 1 << 31

_MAGICS = (
    (b"__CLANG_OFFLOAD_BUNDLE__", "an offload bundle (fat binary); extract the code object first"),
    (b"CCOB", "a compressed offload bundle; extract the code object first"),
    (b"!<arch>\n", "an archive; extract the code object first"),
    (b"\x10\xff\x10\xad", "an LLVM offload binary; extract the code object first"),
)


@dataclass(frozen=True)
class Kernel:
    """One kernel: what the metadata, the descriptor and the symbol table say of it.

    ``name`` is the function's symbol, ``symbol`` the descriptor's (the metadata's ``.symbol``),
    ``descriptor`` its 64 bytes at address ``descriptor_address``, ``entry`` the address of the
    first instruction (descriptor address plus its entry offset), ``metadata`` the decoded map
    under ``amdhsa.kernels``.
    """

    name: str
    symbol: str
    descriptor: bytes
    descriptor_address: int
    entry: int
    metadata: dict[str, Any]


@dataclass(frozen=True)
class CodeObject:
    """A linked AMDGPU code object. ``name`` is for messages: the file's base name.

    Of one that was assembled from a source: ``line_of`` is the file and line of an instruction by
    its address, where they are known, ``remarks`` what the source does not say of itself.
    """

    name: str
    elf: Elf
    target: TargetID
    line_of: Callable[[int], str | None] | None = field(default=None, compare=False, repr=False)
    remarks: tuple[str, ...] = field(default=(), compare=False, repr=False)

    @property
    def data(self) -> bytes:
        """The whole file."""
        return self.elf.data

    @property
    def code_object_version(self) -> int:
        """3 to 6 (the ELF header's ABI version plus 2)."""
        return ABI_TO_COV[self.elf.header.abi_version]

    @property
    def sections(self) -> tuple[Section, ...]:
        return self.elf.sections

    @property
    def code_sections(self) -> tuple[Section, ...]:
        """The sections that hold instructions, by address."""
        return tuple(sorted((s for s in self.sections if s.code), key=lambda s: s.addr))

    @cached_property
    def symbols(self) -> tuple[Symbol, ...]:
        """``.symtab``, or ``.dynsym`` where the symbol table was stripped; without entry 0."""
        return (self.elf.symbols or self.elf.dynamic_symbols)[1:]

    @cached_property
    def metadata_note(self) -> bytes | None:
        """The msgpack bytes of ``NT_AMDGPU_METADATA``; None where there is no such note.

        Raises:
            FormatError: more than one such note.
        """
        found = [
            desc
            for section in self.sections
            if section.type == SHT_NOTE
            for owner, typ, desc in self.elf.notes_of(section)
            if owner == b"AMDGPU" and typ == NT_AMDGPU_METADATA
        ]
        if len(found) > 1:
            raise FormatError(f"{self.name}: {len(found)} metadata notes, expected one")
        return found[0] if found else None

    @cached_property
    def metadata(self) -> dict[str, Any]:
        """The decoded metadata document.

        Raises:
            FormatError: there is no metadata note, or it is not a msgpack map.
        """
        from coasm.notes.document import decode

        if self.metadata_note is None:
            raise FormatError(f"{self.name}: no AMDGPU metadata note")
        try:
            document = decode(self.metadata_note)
        except CoasmError as error:
            raise type(error)(f"{self.name}: {error}") from None
        if not isinstance(document, dict):
            raise FormatError(f"{self.name}: the metadata is not a map")
        return document

    def share_metadata(self, other: CodeObject) -> None:
        """Take over what *other* has decoded, where both have the same metadata note."""
        if self.metadata_note is not None and self.metadata_note == other.metadata_note:
            self.__dict__["metadata"] = other.metadata  # where the cached property keeps it

    @cached_property
    def kernels(self) -> tuple[Kernel, ...]:
        """The kernels that the metadata lists, in its order.

        Raises:
            FormatError: an entry without a usable ``.symbol`` or ``.name``, or a descriptor
                symbol that is missing or does not lie on 64 bytes of the file.
        """
        listed = self.metadata.get("amdhsa.kernels", [])
        if not isinstance(listed, list):
            raise FormatError(f"{self.name}: metadata: amdhsa.kernels is not a list")
        by_name: dict[str, Symbol] = {}
        for symbol in (*self.elf.dynamic_symbols[1:], *self.elf.symbols[1:]):
            if symbol.shndx != SHN_UNDEF:
                by_name.setdefault(symbol.name, symbol)
        kernels = []
        for position, entry in enumerate(listed):
            where = f"{self.name}: metadata: amdhsa.kernels[{position}]"
            if not isinstance(entry, dict):
                raise FormatError(f"{where} is not a map")
            symbol_name = entry.get(".symbol")
            if not isinstance(symbol_name, str):
                raise FormatError(f"{where} has no .symbol")
            found = by_name.get(symbol_name)
            if found is None:
                raise FormatError(f"{where}: no symbol {symbol_name!r} for the kernel descriptor")
            kernels.append(self._kernel(where, found, entry))
        return tuple(kernels)

    def _kernel(self, where: str, symbol: Symbol, entry: dict[str, Any]) -> Kernel:
        descriptor = self.bytes_at(symbol.value, DESCRIPTOR_SIZE)
        if descriptor is None:
            raise FormatError(
                f"{where}: the kernel descriptor {symbol.name!r} at {symbol.value:#x} is not in "
                "any section"
            )
        # kernel_code_entry_byte_offset: bytes 16 to 23, relative to the descriptor.
        entry_at = symbol.value + int.from_bytes(descriptor[16:24], "little", signed=True)
        name = symbol.name[:-3] if symbol.name.endswith(".kd") else entry.get(".name")
        if not isinstance(name, str):
            raise FormatError(f"{where}: no name for the kernel of {symbol.name!r}")
        return Kernel(name, symbol.name, descriptor, symbol.value, entry_at, entry)

    def section_at(self, address: int) -> Section | None:
        """The loaded section that holds *address*."""
        for section in self.sections:
            if section.alloc and section.addr <= address < section.addr + section.size:
                return section
        return None

    def bytes_at(self, address: int, size: int) -> bytes | None:
        """*size* bytes of one loaded section at *address*; None where they are not in one."""
        section = self.section_at(address)
        if section is None:
            return None
        start = address - section.addr
        found = section.data[start : start + size]
        return found if len(found) == size else None  # some sections have a size, but no bytes

    def section_of(self, symbol: Symbol) -> Section | None:
        """The section a symbol is defined in; None for undefined and absolute ones."""
        if SHN_UNDEF < symbol.shndx < SHN_LORESERVE:
            return self.sections[symbol.shndx]
        return None


def load(source: str | os.PathLike[str] | bytes, *, name: str | None = None) -> CodeObject:
    """Read a linked code object from a path, or from its bytes.

    *name* stands for the object in messages (default: the path as given).

    Raises:
        FormatError: missing, a directory, damaged, or not an ELF file at all.
        UnsupportedError: another machine, ``ET_REL``, code object v2, an unknown gfx target.
    """
    if isinstance(source, bytes):
        data, name = source, name or "<bytes>"
    else:
        name = name or os.fspath(source)
        data = read_input(source)
    for magic, what in _MAGICS:
        if data.startswith(magic):
            raise UnsupportedError(f"{name}: {what}")
    elf = Elf(data, name)
    if elf.header.type == ET_REL:
        raise UnsupportedError(
            f"{name}: a relocatable file (ET_REL); link it first (ld.lld -shared)"
        )
    if elf.header.type != ET_DYN:
        raise UnsupportedError(f"{name}: ELF type {elf.header.type}, expected ET_DYN (3)")
    try:
        target = TargetID.from_e_flags(elf.header.flags, elf.header.abi_version)
    except CoasmError as error:
        raise type(error)(f"{name}: {error}") from None
    _check_overlaps(elf)
    return CodeObject(name, elf, target)


def read_input(path: str | os.PathLike[str]) -> bytes:
    """The bytes of a regular file.

    Raises:
        FormatError: it is missing, no regular file, unreadable, or larger than any code object.
    """
    import stat

    try:
        with open(path, "rb", opener=_open_at_once) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise FormatError(f"{os.fspath(path)}: not a regular file")
            if status.st_size > MAX_FILE_SIZE:
                raise FormatError(f"{os.fspath(path)}: {status.st_size} bytes, too large")
            return file.read()
    except OSError as error:
        raise FormatError(f"{os.fspath(path)}: {error.strerror or error}") from None


def _open_at_once(path: str, flags: int) -> int:
    """Open without waiting: a named pipe waits for who writes to it, for ever."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _check_overlaps(elf: Elf) -> None:
    """Refuse sections that overlap in memory, or lie about where the file has them."""
    # Address minus offset → what is loaded there: starts, and how far all up to each one reach.
    loads: dict[int, tuple[list[int], list[int]]] = {}
    for segment in sorted(elf.segments, key=lambda s: s.vaddr):
        if segment.type != PT_LOAD:
            continue
        starts, ends = loads.setdefault(segment.vaddr - segment.offset, ([], []))
        starts.append(segment.vaddr)
        ends.append(max(segment.vaddr + segment.filesz, *ends[-1:], 0))
    alloc = sorted((s for s in elf.sections if s.alloc and s.size), key=lambda s: (s.addr, s.index))
    end, last = 0, None
    for section in alloc:
        where = f"{elf.name}: section {section.index} ({section.name!r})"
        if last is not None and section.addr < end:
            raise FormatError(f"{where} overlaps {last.name!r} in memory")
        end, last = section.addr + section.size, section
        if section.type == SHT_NOBITS:
            continue
        starts, ends = loads.get(section.addr - section.offset, ([], []))
        at = bisect_right(starts, section.addr)
        if loads and not (at and end <= ends[at - 1]):
            raise FormatError(f"{where} is not where a segment loads it")
