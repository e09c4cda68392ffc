"""The inputs for which coasm reads ELF beyond the records itself, and what pyelftools does there.

docs/how-it-is-built.md names them. Should one of the first assertions fail, pyelftools has learned
it, and may be asked instead.
"""

from __future__ import annotations

import io
import struct

import pytest
from elftools.elf.elffile import ELFFile

from coasm.codeobject.elf import Elf
from coasm.errors import FormatError
from tests.counting import calls

_NUL = 15  # an offset of the file header at which there is a zero byte


def _file(sections: list[bytes], segments: int = 0, behind: bytes = b"") -> bytes:
    """An AMDGPU ELF file: header, so many PT_DYNAMIC headers, section headers, other bytes."""
    table = 64 + 56 * segments
    numbers = (3, 224, 1, 0, 64, table, 0x54F, 64, 56, segments, 64, len(sections), 1)
    ident = b"\x7fELF\2\1\1\x40\4" + bytes(7)
    dynamic = struct.pack("<IIQQQQQQ", 2, 4, 0, 0, 0, 0, 0, 8)
    return b"".join(
        [ident, struct.pack("<HHIQQQIHHHHHH", *numbers), dynamic * segments, *sections, behind]
    )


def _section(kind: int, offset: int = 0, size: int = 0, name: int = 0, link: int = 0) -> bytes:
    return struct.pack("<IIQQQQIIQQ", name, kind, 0, 0, offset, size, link, 0, 1, 24)


def test_names_that_share_their_bytes() -> None:
    """300 sections in a file of 1 MB: 300 MB of names."""
    count, long = 300, b"a" * 1_000_000 + b"\0"
    names = _section(3, 64 + 64 * count, len(long))
    others = [_section(1, name=number) for number in range(count - 2)]
    data = _file([_section(0), names, *others], behind=long)
    theirs = ELFFile(io.BytesIO(data))
    assert sum(len(section.name) for section in theirs.iter_sections()) > 250 * len(data)
    with pytest.raises(FormatError, match="many sections or names share their bytes"):
        Elf(data)


def test_dynamic_segments_are_read_one_by_one() -> None:
    """Each PT_DYNAMIC header has pyelftools go through all sections."""
    made = {}
    for count in (50, 100):
        sections = [_section(0), _section(3, _NUL, 1), *[_section(1)] * (count - 2)]
        data = _file(sections, segments=count)
        with calls() as theirs:
            assert len(list(ELFFile(io.BytesIO(data)).iter_segments())) == count
        with calls() as ours:
            assert len(Elf(data).segments) == count
        made[count] = (theirs.number, ours.number)
    assert made[100][0] > 3 * made[50][0]
    assert made[100][1] < 2.2 * made[50][1]


def test_a_section_that_the_file_does_not_hold() -> None:
    """pyelftools gives the bytes that there are, and no word."""
    data = _file([_section(0), _section(3, _NUL, 1), _section(1, 100, 1 << 40)])
    theirs = ELFFile(io.BytesIO(data)).get_section(2).data()
    assert theirs == data[100:]
    with pytest.raises(FormatError, match=r"section 2 .* is outside the file"):
        Elf(data)


def test_symbols_are_read_as_a_table() -> None:
    """A library has 100,000s of them: a call for each field of each is too many."""
    count = 2000
    sections = [_section(0), _section(3, _NUL, 1), _section(2, 256, 24 * count, link=1)]
    data = _file(sections, behind=bytes(24 * count))
    with calls() as theirs:
        assert len(list(ELFFile(io.BytesIO(data)).get_section(2).iter_symbols())) == count
    with calls() as ours:
        assert len(Elf(data).symbols) == count
    assert theirs.number > 50 * count and ours.number < 15 * count
