"""Windows executables, libraries and object files (PE/COFF): their sections, and one more.

Source: Microsoft, *PE Format*. HIP's sections there are those of an ELF file; in an executable
names have eight bytes, so they are called ``.hip_fat`` and ``.hipFatB``.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from coasm.bundle.host import WRAPPER, WRAPPER_MAGIC, WRAPPER_VERSION
from coasm.errors import FormatError, UnsupportedError

if TYPE_CHECKING:
    from coasm.bundle.compressed import Buffer

__all__ = ["Portable", "PortableSection", "add_section", "is_portable", "set_checksum"]

_FILE_HEADER = struct.Struct("<HHIIIHH")
_SECTION = struct.Struct("<8sIIIIIIHHI")
#: Machines of object files, which begin with theirs: x86-64 and ARM64.
_MACHINES = (0x8664, 0xAA64)
_PE32_PLUS = 0x20B
_UNINITIALIZED = 0x80
_READ_INITIALIZED = 0x40000040
# Of the optional header of PE32+: offset of the field.
_IMAGE_BASE, _SECTION_ALIGN, _FILE_ALIGN, _IMAGE_SIZE, _HEADERS_SIZE, _CHECKSUM = (
    24,
    32,
    36,
    56,
    60,
    64,
)
_DIRECTORIES, _CERTIFICATES = 112, 4


class PortableSection(NamedTuple):
    """A section: ``address`` counts from the image's base, ``offset`` from the start of the file.

    ``size`` are its bytes in the file, ``memory`` those it has when loaded (0 in an object file).
    """

    name: str
    address: int
    memory: int
    offset: int
    size: int


def is_portable(head: bytes) -> bool:
    """Whether a file that begins so is an executable, a library or an object file of Windows."""
    return head[:2] == b"MZ" or (len(head) >= 20 and _is_object(head))


def _is_object(head: bytes) -> bool:
    machine, sections, _, symbols, count, optional, _ = _FILE_HEADER.unpack_from(head)
    return machine in _MACHINES and sections > 0 and optional == 0 and bool(symbols and count)


@dataclass(frozen=True)
class Portable:
    """A PE or COFF file that lies in *data* from *base* to *end*.

    Raises:
        FormatError: damaged; the text names the place.
        UnsupportedError: a 32-bit file.
    """

    data: Buffer
    base: int
    end: int
    name: str

    @cached_property
    def header(self) -> int:
        """The offset of the file header in ``data``."""
        if self.data[self.base : self.base + 2] != b"MZ":
            return self.base
        at = int.from_bytes(self._bytes(self.base + 60, 4, "the DOS header"), "little")
        if self._bytes(self.base + at, 4, "the PE header") != b"PE\0\0":
            raise FormatError(f"{self.name}: no PE header: not a Windows executable")
        return self.base + at + 4

    def _bytes(self, at: int, size: int, what: str) -> bytes:
        if at + size > self.end:
            raise FormatError(f"{self.name}: {what} is outside of the file")
        return bytes(self.data[at : at + size])

    @cached_property
    def _counts(self) -> tuple[int, int, int, int]:
        """Sections, bytes of the optional header, and offset and number of the symbols."""
        row = _FILE_HEADER.unpack(self._bytes(self.header, _FILE_HEADER.size, "the file header"))
        return row[1], row[5], row[3], row[4]

    @property
    def linked(self) -> bool:
        """Whether it is an executable or a library, and no object file."""
        return self._counts[1] > 0

    @property
    def optional(self) -> int:
        """The offset of the optional header."""
        return self.header + _FILE_HEADER.size

    @property
    def table(self) -> int:
        """The offset of the section table."""
        return self.optional + self._counts[1]

    def field(self, at: int, size: int = 4) -> int:
        """A number of the optional header."""
        if self.linked and self.data[self.optional : self.optional + 2] != b"\x0b\x02":
            raise UnsupportedError(f"{self.name}: not a 64-bit Windows file (PE32+)")
        raw = self._bytes(self.optional + at, size, "the optional header")
        return int.from_bytes(raw, "little")

    @cached_property
    def sections(self) -> tuple[PortableSection, ...]:
        """Every section; those that have bytes are known to lie inside the file."""
        count, _, symbols, number = self._counts
        raw = self._bytes(self.table, count * _SECTION.size, "the section table")
        strings = self.base + symbols + 18 * number
        found = []
        for row in _SECTION.iter_unpack(raw):
            short, memory, address, size, offset, *_, flags = row
            name = short.rstrip(b"\0")
            if name.startswith(b"/") and name[1:].isdigit() and symbols:
                at = strings + int(name[1:])
                name = bytes(self.data[at : min(at + 64, self.end)]).partition(b"\0")[0]
            text = name.decode("utf-8", "surrogateescape")
            if flags & _UNINITIALIZED:
                size = 0
            if size and self.base + offset + size > self.end:
                raise FormatError(f"{self.name}: section {text!r} is outside of the file")
            found.append(PortableSection(text, address, memory, self.base + offset, size))
        return tuple(found)

    @property
    def signed(self) -> bool:
        """Whether a certificate vouches for the bytes as they are."""
        directories = self.field(_DIRECTORIES - 4) if self.linked else 0
        return directories > _CERTIFICATES and bool(self.field(_DIRECTORIES + 8 * _CERTIFICATES))

    @property
    def image_base(self) -> int:
        """The address that the file is linked for."""
        return self.field(_IMAGE_BASE, 8)

    def pointers(self) -> dict[int, int]:
        """The offset in ``data`` of each wrapper's pointer to a bundle → the address it holds."""
        found = {}
        for part in self.sections:
            if part.name not in (".hipFatBinSegment", ".hipFatB"):
                continue
            for at in range(part.offset, part.offset + part.size - WRAPPER.size + 1, WRAPPER.size):
                magic, version, value, _ = WRAPPER.unpack_from(self.data, at)
                if (magic, version) == (WRAPPER_MAGIC, WRAPPER_VERSION):
                    found[at + 8] = value
        return found


def add_section(out: bytearray, host: Portable, name: str, bodies: Sequence[bytes]) -> list[int]:
    """Append a section with *bodies* to the linked file *out*; their addresses when loaded.

    Raises:
        UnsupportedError: its header has no room for one more section.
    """
    align, file_align = host.field(_SECTION_ALIGN), host.field(_FILE_ALIGN)
    if not 0 < file_align <= 1 << 16 or not 0 < align <= 1 << 26:
        raise FormatError(f"{host.name}: sections aligned to {align:#x} and {file_align:#x} bytes")
    count = host._counts[0]
    row = host.table + count * _SECTION.size
    first = min((s.offset for s in host.sections if s.size), default=0)
    room = min(first, host.field(_HEADERS_SIZE))
    if row + _SECTION.size > room or any(out[row : row + _SECTION.size]):
        raise UnsupportedError(f"{host.name}: no room for the header of one more section")
    address = max(_up(s.address + max(s.memory, s.size), align) for s in host.sections)
    out += bytes(_up(len(out), file_align) - len(out))
    if address + sum(_up(len(body), 4096) for body in bodies) >= 1 << 31:  # as far as jumps reach
        raise UnsupportedError(f"{host.name}: no address for one more section below 2 GiB")
    offset, places = len(out), []
    for body in bodies:
        out += bytes(_up(len(out) - offset, 4096) - (len(out) - offset))
        places.append(host.image_base + address + len(out) - offset)
        out += body
    memory = len(out) - offset
    out += bytes(_up(len(out), file_align) - len(out))
    _SECTION.pack_into(
        out, row, name.encode(), memory, address, len(out) - offset, offset, 0, 0, 0, 0,
        _READ_INITIALIZED,
    )  # fmt: skip
    struct.pack_into("<H", out, host.header + 2, count + 1)
    struct.pack_into("<I", out, host.optional + _IMAGE_SIZE, _up(address + memory, align))
    return places


def set_checksum(out: bytearray, host: Portable) -> None:
    """Set the checksum of a changed file, where it has one. Source: ``CheckSumMappedFile``."""
    if not host.linked or not host.field(_CHECKSUM):
        return
    at = host.optional + _CHECKSUM
    struct.pack_into("<I", out, at, 0)
    import numpy as np

    words = np.frombuffer(bytes(out) + bytes(len(out) % 2), "<u2")
    total = int(words.sum(dtype=np.uint64))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    struct.pack_into("<I", out, at, total + len(out))


def _up(value: int, align: int) -> int:
    return -(-value // align) * align
