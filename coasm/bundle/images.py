"""Where the device images of a file are: executables, libraries, archives, bare bundles.

The file is mapped, and only headers are read: of a compressed bundle no more is unpacked than its
table. In a section (``.hip_fatbin``) bundles follow each other, with zero bytes between them; what
else stands there is an error, so that nothing is passed over.
"""

from __future__ import annotations

import mmap
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from coasm.bundle.archive import ARCHIVE_MAGIC, THIN_MAGIC, members
from coasm.bundle.compressed import CCOB_MAGIC, peek, read_header, unpack
from coasm.bundle.host import Host
from coasm.bundle.table import (
    BUNDLE_MAGIC,
    OFFLOAD_MAGIC,
    Image,
    Table,
    read_bundle,
    read_offload,
    target_of,
)
from coasm.codeobject.elf import EM_AMDGPU, SHT_NOBITS
from coasm.errors import FormatError, UnsupportedError

if TYPE_CHECKING:
    from coasm.bundle.compressed import Buffer

__all__ = ["Container", "Entry", "extract", "find"]

#: Section type of ``.llvm.offloading``. Source: ``llvm/BinaryFormat/ELF.h``.
SHT_LLVM_OFFLOADING = 0x6FFF4C0B
#: Sections that a host relocatable of ``-fgpu-rdc`` has one of for each image, named after its ID.
_SECTION_PREFIX = BUNDLE_MAGIC.decode()
_NOT_ZERO = re.compile(rb"[^\0]")


@dataclass(frozen=True)
class Container:
    """One bundle in a file. Sizes and offsets are in bytes, ``offset`` in the file.

    ``number`` counts the bundles of the file from 1. ``member`` is the archive member and
    ``section`` the ELF section, empty where there is none. ``format`` is ``bundle``, ``CCOB``,
    ``offload binary``, or ``section`` (an image without a table). ``method`` is ``zlib`` or
    ``zstd``, empty where it is not compressed; ``size`` is what it takes in the file, ``unpacked``
    what its images' offsets count in. Up to ``room`` bytes from ``offset`` on, zero bytes included,
    nothing else follows. ``stamp`` tells whether the file is still the same.
    """

    path: str
    number: int
    member: str
    section: str
    offset: int
    size: int
    room: int
    format: str
    version: int
    method: str
    unpacked: int
    table: Table
    stamp: tuple[int, int]

    @property
    def where(self) -> str:
        """The bundle's name for messages."""
        return _where(self.path, self.member, self.section, self.offset)


@dataclass(frozen=True)
class Entry:
    """One device image: ``index`` is its place in the container's table, ``size`` its bytes.

    ``id`` is the whole bundle entry ID, ``target`` the target ID in it (empty where it names no
    gfx target), ``offset`` counts from the start of the unpacked bundle.
    """

    container: Container
    index: int
    id: str
    target: str
    offset: int
    size: int

    @property
    def number(self) -> int:
        """The number of the bundle, from 1."""
        return self.container.number

    @property
    def kind(self) -> str:
        """The offload kind: ``hip``, ``hipv4``, ``openmp``."""
        return self.id.split("-", 1)[0]

    @property
    def name(self) -> str:
        """``gfx942#1``: what :func:`coasm.bundle.select.resolve` finds it by."""
        return f"{self.target or self.id}#{self.number}"


def find(path: str | os.PathLike[str]) -> list[Entry]:
    """Every device image in the file at *path*, in file order; those without bytes are left out.

    Raises:
        FormatError: no such file, it is damaged, or it carries no bundle.
        UnsupportedError: it is a code object itself, or of a kind that is not handled.
    """
    with mapped(path) as (data, stamp):
        return entries_of(data, os.fspath(path), stamp)


def extract(entry: Entry) -> bytes:
    """The bytes of one image. The last bundle that was unpacked is kept for the next call.

    Raises:
        FormatError: the bundle is damaged, or the file has changed since :func:`find`.
        ToolError: the bundle is zstd, and Python's ``zstandard`` is missing.
    """
    container = entry.container
    held = _last.get(container)
    if held is None:
        with mapped(container.path) as (data, stamp):
            if stamp != container.stamp:
                raise FormatError(f"{container.path}: has changed while it was read")
            if not container.method:
                at = container.offset + entry.offset
                return bytes(data[at : at + entry.size])
            held = contents(data, container)
        _last.clear()
        _last[container] = held
    return held[entry.offset : entry.offset + entry.size]


_last: dict[Container, bytes] = {}


def contents(data: Buffer, container: Container) -> bytes:
    """The whole bundle, unpacked.

    Raises:
        FormatError: damaged.
        ToolError: it is zstd, and Python's ``zstandard`` is missing.
    """
    at, end = container.offset, container.offset + container.size
    if not container.method:
        return bytes(data[at:end])
    return unpack(data, at, read_header(data, at, end, container.where), container.where)


@contextmanager
def mapped(path: str | os.PathLike[str]) -> Iterator[tuple[mmap.mmap, tuple[int, int]]]:
    """A file's bytes, mapped, and what tells whether it has changed: size and time in ns.

    Raises:
        FormatError: missing, empty, unreadable, or not a regular file.
    """
    name = os.fspath(path)
    try:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise FormatError(f"{name}: not a regular file")
            if not status.st_size:
                raise FormatError(f"{name}: the file is empty")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                yield data, (status.st_size, status.st_mtime_ns)
    except OSError as error:
        raise FormatError(f"{name}: {error.strerror or error}") from None


def entries_of(data: Buffer, path: str, stamp: tuple[int, int] = (0, 0)) -> list[Entry]:
    """:func:`find` for the bytes of a file; *path* names it."""
    found = []
    for container in _containers(data, path, stamp):
        for index, image in enumerate(container.table.images):
            if image.size and not image.id.startswith("host-"):
                found.append(
                    Entry(container, index, image.id, target_of(image.id), image.offset, image.size)
                )
    if not found:
        raise FormatError(f"{path}: {_nothing(data, path)}")
    return found


class Region(NamedTuple):
    """A range of the file that holds bundles, or (``id``) one image by itself."""

    member: str
    section: str
    start: int
    end: int
    id: str = ""


def regions(data: Buffer, path: str) -> Iterator[Region]:
    """The ranges of a file that hold bundles.

    Raises:
        FormatError: damaged, or of no kind that could hold any.
        UnsupportedError: as :func:`find`.
    """
    magic = bytes(data[:24])
    if magic.startswith((ARCHIVE_MAGIC, THIN_MAGIC)):
        for member in members(data, path):
            kind = data[member.start : min(member.end, member.start + 24)]
            if kind.startswith(b"\x7fELF"):
                host = Host(data, member.start, member.end, f"{path}: {member.name}")
                if host.header.machine != EM_AMDGPU:
                    yield from _of_host(host, member.name)
            elif _is_bundle(kind):
                yield Region(member.name, "", member.start, member.end)
    elif magic.startswith(b"\x7fELF"):
        host = Host(data, 0, len(data), path)
        if host.header.machine == EM_AMDGPU:
            raise UnsupportedError(f"{path}: a code object already, not a file that carries some")
        yield from _of_host(host, "")
    elif _is_bundle(magic):
        yield Region("", "", 0, len(data))
    elif magic.startswith(b"MZ"):
        raise UnsupportedError(f"{path}: a Windows executable; ELF files are handled")
    else:
        raise FormatError(f"{path}: no executable, library, archive or offload bundle")


def _is_bundle(magic: bytes) -> bool:
    return magic.startswith((BUNDLE_MAGIC, CCOB_MAGIC, OFFLOAD_MAGIC))


def _of_host(host: Host, member: str) -> Iterator[Region]:
    for section in host.sections:
        if section.type == SHT_NOBITS or not section.size:
            continue
        end = section.offset + section.size
        if section.name.startswith(_SECTION_PREFIX):
            entry_id = section.name[len(_SECTION_PREFIX) :]
            yield Region(member, section.name, section.offset, end, entry_id)
        elif section.name.startswith(".hip_fatbin") or section.type == SHT_LLVM_OFFLOADING:
            yield Region(member, section.name, section.offset, end)


def _nothing(data: Buffer, path: str) -> str:
    """What a file without device images is."""
    if bytes(data[:4]) == b"\x7fELF":
        names = {section.name for section in Host(data, 0, len(data), path).sections}
        if ".rocm_kpack_ref" in names:
            return "carries no code objects: they are in a .kpack file of its own"
        if not names:
            return "has no section headers: where its code objects are cannot be told"
        if ".hip_fatbin" not in names:
            return "carries no code objects: it has no .hip_fatbin section"
    return "carries no code objects"


def _where(path: str, member: str, section: str, offset: int) -> str:
    return ": ".join(filter(None, (path, member, section, f"bundle at {offset:#x}")))


def _containers(data: Buffer, path: str, stamp: tuple[int, int]) -> Iterator[Container]:
    number = 0
    for region in regions(data, path):
        if region.id:
            if region.id.startswith("host-"):
                continue
            size = region.end - region.start
            table = Table((Image(region.id, 0, size, 0, 0),), 0, size)
            number += 1
            yield Container(
                path,
                number,
                region.member,
                region.section,
                region.start,
                size,
                size,
                "section",
                0,
                "",
                size,
                table,
                stamp,
            )
            continue
        at = _next(data, region.start, region.end)
        while at < region.end:
            where = _where(path, region.member, region.section, at)
            kind, version, method, size, unpacked, table = _read(data, at, region.end, where)
            following = _next(data, at + size, region.end)
            number += 1
            yield Container(
                path,
                number,
                region.member,
                region.section,
                at,
                size,
                following - at,
                kind,
                version,
                method,
                unpacked,
                table,
                stamp,
            )
            at = following


def _next(data: Buffer, at: int, end: int) -> int:
    """The first byte from *at* on that is not zero; *end* where there is none."""
    found = _NOT_ZERO.search(data, at, end)
    return found.start() if found else end


def _read(data: Buffer, at: int, end: int, where: str) -> tuple[str, int, str, int, int, Table]:
    """Format, version, method, size, size unpacked and table of the bundle at *at*."""
    magic = data[at : min(end, at + len(BUNDLE_MAGIC))]
    if magic == BUNDLE_MAGIC:
        table = _table(read_bundle, data, at, end, where)
        return "bundle", 0, "", table.size, table.size, table
    if magic.startswith(OFFLOAD_MAGIC):
        table = _table(read_offload, data, at, end, where)
        version = int.from_bytes(data[at + 4 : at + 8], "little")
        return "offload binary", version, "", table.size, table.size, table
    if not magic.startswith(CCOB_MAGIC):
        raise FormatError(f"{where}: no bundle starts here; it is damaged, or of another kind")
    header = read_header(data, at, end, where)
    count = 1 << 14
    while True:
        front = peek(data, at, header, count, where)
        if front[: len(BUNDLE_MAGIC)] != BUNDLE_MAGIC:
            raise FormatError(f"{where}: what is compressed in it is no offload bundle")
        found = read_bundle(front, header.unpacked, where)
        if found is not None:
            return "CCOB", header.version, header.method, header.size, header.unpacked, found
        if count >= header.unpacked or len(front) < count:
            raise FormatError(f"{where}: its table is cut short")
        count *= 8


def _table(
    read: Callable[[bytes, int, str], Table | None], data: Buffer, at: int, end: int, where: str
) -> Table:
    """The table at *at*, read from as few bytes as it takes."""
    count = 1 << 14
    while True:
        found = read(data[at : min(end, at + count)], end - at, where)
        if found is not None:
            return found
        if count >= end - at:
            raise FormatError(f"{where}: its table is cut short")
        count *= 8
