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
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from coasm.bundle.archive import ARCHIVE_MAGIC, THIN_MAGIC, members
from coasm.bundle.compressed import CCOB_MAGIC, peek, read_header, unpack, unpack_frame
from coasm.bundle.host import Host
from coasm.bundle.kpack import KPACK_MAGIC, REFERENCE, packed_objects, reference
from coasm.bundle.portable import Portable, is_portable
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
#: Names of sections in a Windows executable have eight bytes.
_SHORT_NAME = ".hip_fat"
_NOT_ZERO = re.compile(rb"[^\0]")


@dataclass(frozen=True)
class Container:
    """One bundle in a file. Sizes and offsets are in bytes, ``offset`` in the file.

    ``number`` counts the bundles of the file from 1. ``member`` is the archive member and
    ``section`` the ELF section, empty where there is none. ``format`` is ``bundle``, ``CCOB``,
    ``offload binary``, ``section`` (an image without a table), or ``kpack`` (one of an archive,
    whose ``member`` is the file that it belongs to). ``method`` is ``zlib`` or
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
    if container.format == "kpack":
        return unpack_frame(bytes(data[at:end]), container.unpacked, container.where)
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
    """A range of the file that holds bundles, or one image by itself, which has the ``id``.

    Where one bundle is all that is known of it, ``single`` is true. An image may be a zstd frame
    that holds ``unpacked`` bytes.
    """

    member: str
    section: str
    start: int
    end: int
    id: str = ""
    single: bool = False
    unpacked: int = 0


def regions(data: Buffer, path: str) -> Iterator[Region]:
    """The ranges of a file that hold bundles.

    Raises:
        FormatError: damaged, or of no kind that could hold any.
        UnsupportedError: as :func:`find`.
    """
    magic = bytes(data[:24])
    if magic.startswith(ARCHIVE_MAGIC):
        for member in members(data, path):
            kind = bytes(data[member.start : min(member.end, member.start + 24)])
            if is_bundle(kind):
                yield Region(member.name, "", member.start, member.end)
            else:
                where = f"{path}: {member.name}"
                yield from _of_program(data, member.start, member.end, where, member.name)
    elif magic.startswith(b"\x7fELF"):
        if Host(data, 0, len(data), path).header.machine == EM_AMDGPU:
            raise UnsupportedError(f"{path}: a code object already, not a file that carries some")
        yield from _of_program(data, 0, len(data), path, "")
    elif is_portable(magic):
        yield from _of_program(data, 0, len(data), path, "")
    elif is_bundle(magic):
        yield Region("", "", 0, len(data))
    elif magic.startswith(KPACK_MAGIC):
        for one in packed_objects(data, path):
            end = one.offset + one.size
            unpacked = one.unpacked if one.zstd else 0
            yield Region(one.binary, "", one.offset, end, one.target, unpacked=unpacked)
    else:
        raise FormatError(f"{path}: no executable, library, archive or offload bundle")


def is_bundle(magic: bytes) -> bool:
    """Whether a bundle begins so."""
    return magic.startswith((BUNDLE_MAGIC, CCOB_MAGIC, OFFLOAD_MAGIC))


def _of_program(data: Buffer, start: int, end: int, where: str, member: str) -> Iterator[Region]:
    """The ranges of an executable, library or object file that lies from *start* to *end*."""
    kind = bytes(data[start : min(end, start + 24)])
    if kind.startswith(b"\x7fELF"):
        host = Host(data, start, end, where)
        if host.header.machine == EM_AMDGPU:
            return
        for section in host.sections:
            if section.type != SHT_NOBITS and section.size:
                stop = section.offset + section.size
                listed = section.type == SHT_LLVM_OFFLOADING
                yield from _of_section(section.name, member, section.offset, stop, listed)
        if not host.sections:
            for at in host.unsectioned():
                yield Region(member, "", at, end, single=True)
    elif is_portable(kind):
        for part in Portable(data, start, end, where).sections:
            if part.size:
                yield from _of_section(part.name, member, part.offset, part.offset + part.size)


def _of_section(
    name: str, member: str, start: int, end: int, listed: bool = False
) -> Iterator[Region]:
    if name.startswith(_SECTION_PREFIX):
        yield Region(member, name, start, end, name[len(_SECTION_PREFIX) :])
    elif listed or name.startswith((".hip_fatbin", _SHORT_NAME)):
        yield Region(member, name, start, end)


def _nothing(data: Buffer, path: str) -> str:
    """What a file without device images is."""
    head = bytes(data[:24])
    if head.startswith(b"\x7fELF"):
        names = {section.name for section in Host(data, 0, len(data), path).sections}
        if not names:
            return "carries no code objects: no fat binary's wrapper is in its segments"
        if ".hip_fatbin" not in names:
            return "carries no code objects: it has no .hip_fatbin section"
    elif is_portable(head):
        names = {part.name for part in Portable(data, 0, len(data), path).sections}
        if not names & {".hip_fatbin", _SHORT_NAME}:
            return "carries no code objects: it has no .hip_fat section"
    return "carries no code objects"


def _where(path: str, member: str, section: str, offset: int) -> str:
    return ": ".join(filter(None, (path, member, section, f"bundle at {offset:#x}")))


def _containers(
    data: Buffer, path: str, stamp: tuple[int, int], numbers: Iterator[int] | None = None
) -> Iterator[Container]:
    numbers = count(1) if numbers is None else numbers
    if data[: len(THIN_MAGIC)] == THIN_MAGIC:
        for member in members(data, path):
            yield from _elsewhere(os.path.join(os.path.dirname(path), member.name), numbers)
        return
    number, binary = 0, ""
    found = False
    for region in regions(data, path):
        if region.id:
            if region.id.startswith("host-"):
                continue
            if not region.member or region.section or region.member != binary:
                number, binary = next(numbers), region.member
            yield _of_image(path, number, region, stamp)
        else:
            for container in _of_region(data, path, region, stamp, numbers):
                yield container
                found = True
    if not found and bytes(data[:4]) == b"\x7fELF":
        for section in Host(data, 0, len(data), path).sections:
            if section.name == REFERENCE:
                at = section.offset
                name, archives = reference(bytes(data[at : at + section.size]), path)
                for archive in archives:
                    for container in _elsewhere(archive, numbers):
                        if name in (container.member, container.member.rpartition("#")[0]):
                            yield container


def _elsewhere(path: str, numbers: Iterator[int]) -> Iterator[Container]:
    """The bundles of another file, which the one that was asked for leads to."""
    with mapped(path) as (data, stamp):
        if data[: len(THIN_MAGIC)] == THIN_MAGIC:
            raise FormatError(f"{path}: a thin archive in a thin archive")
        yield from _containers(data, path, stamp, numbers)


def _of_image(path: str, number: int, region: Region, stamp: tuple[int, int]) -> Container:
    """An image that is there without a table."""
    size = region.end - region.start
    unpacked = region.unpacked or size
    return Container(
        path=path,
        number=number,
        member=region.member,
        section=region.section,
        offset=region.start,
        size=size,
        room=size,
        format="section" if region.section else "kpack",
        version=0 if region.section else 1,
        method="zstd" if region.unpacked else "",
        unpacked=unpacked,
        table=Table((Image(region.id, 0, unpacked, 0, 0),), 0, unpacked),
        stamp=stamp,
    )


def _of_region(
    data: Buffer, path: str, region: Region, stamp: tuple[int, int], numbers: Iterator[int]
) -> Iterator[Container]:
    at = _next(data, region.start, region.end)
    while at < region.end:
        where = _where(path, region.member, region.section, at)
        kind, version, method, size, unpacked, table = _read(data, at, region.end, where)
        following = at + size if region.single else _next(data, at + size, region.end)
        yield Container(
            path=path,
            number=next(numbers),
            member=region.member,
            section=region.section,
            offset=at,
            size=size,
            room=following - at,
            format=kind,
            version=version,
            method=method,
            unpacked=unpacked,
            table=table,
            stamp=stamp,
        )
        if region.single:
            return
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
    length = 1 << 14
    while True:
        front = peek(data, at, header, length, where)
        if front[: len(BUNDLE_MAGIC)] != BUNDLE_MAGIC:
            raise FormatError(f"{where}: what is compressed in it is no offload bundle")
        found = read_bundle(front, header.unpacked, where)
        if found is not None:
            return "CCOB", header.version, header.method, header.size, header.unpacked, found
        if length >= header.unpacked or len(front) < length:
            raise FormatError(f"{where}: its table is cut short")
        length *= 8


def _table(
    read: Callable[[bytes, int, str], Table | None], data: Buffer, at: int, end: int, where: str
) -> Table:
    """The table at *at*, read from as few bytes as it takes."""
    length = 1 << 14
    while True:
        found = read(data[at : min(end, at + length)], end - at, where)
        if found is not None:
            return found
        if length >= end - at:
            raise FormatError(f"{where}: its table is cut short")
        length *= 8
