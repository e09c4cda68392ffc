"""The members of an archive (``ar``). Source: System V and GNU ``ar``, and BSD's long names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from coasm.errors import FormatError

if TYPE_CHECKING:
    from coasm.bundle.compressed import Buffer

__all__ = ["ARCHIVE_MAGIC", "THIN_MAGIC", "Member", "members"]

ARCHIVE_MAGIC = b"!<arch>\n"
THIN_MAGIC = b"!<thin>\n"
_HEADER = 60
#: Members that are the archive's own: symbols, and names that are longer than a header has room.
_TABLES = (b"/", b"/SYM64/", b"//")
#: Longer than any file's name: members may all have the same of them, each as often as it is there.
_LONGEST = 4096


class Member(NamedTuple):
    """A member: its name, and the offsets in the archive between which its bytes are.

    The members of a thin archive are files of their own, whose paths start at the archive's folder:
    there, *start* and *end* are equal.
    """

    name: str
    start: int
    end: int


def members(data: Buffer, name: str) -> Iterator[Member]:
    """The members of an archive, without its symbol and name tables.

    Raises:
        FormatError: a header is damaged, or a member lies outside.
    """
    thin = data[:8] == THIN_MAGIC
    long_names = b""
    at = len(ARCHIVE_MAGIC)
    while at < len(data):
        header = data[at : at + _HEADER]
        size_text = header[48:58].strip()
        if len(header) < _HEADER or header[58:] != b"`\n" or not size_text.isdigit():
            raise FormatError(f"{name}: damaged archive member header at offset {at:#x}")
        start, size = at + _HEADER, int(size_text)
        raw = header[:16].rstrip()
        if thin and raw not in _TABLES:
            size = 0
        if start + size > len(data):
            raise FormatError(f"{name}: the archive member at offset {at:#x} is cut short")
        at = start + size + (size & 1)
        if raw == b"//":
            long_names = bytes(data[start : start + size])
            continue
        if raw in _TABLES or raw.startswith(b"__.SYMDEF"):
            continue
        end = start + size
        if raw.startswith(b"#1/") and raw[3:].isdigit():
            length = int(raw[3:])
            if length > min(size, _LONGEST):
                raise FormatError(f"{name}: the archive member at offset {start:#x}: bad name")
            raw, start = bytes(data[start : start + length]).rstrip(b"\0"), start + length
        elif raw.startswith(b"/") and raw[1:].isdigit():
            offset = int(raw[1:])
            stop = long_names.find(b"\n", offset, offset + _LONGEST + 1)
            if offset >= len(long_names) or stop < 0:
                raise FormatError(f"{name}: the archive member at offset {start:#x}: bad name")
            raw = long_names[offset:stop].rstrip(b"/")
        else:
            raw = raw.removesuffix(b"/")
        yield Member(raw.decode("utf-8", "surrogateescape"), start, end)
