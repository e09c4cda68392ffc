"""Pinned encodings: text stays text, the original bits come back where they still fit.

A line that ends in ``// pin ORIGINAL over LLVM`` says that the original object had the encoding
ORIGINAL where LLVM writes LLVM for this text (both as 32-bit words). The original is restored only
where LLVM writes exactly LLVM again, so an edited instruction loses its pin by itself.

To learn where a line's instruction ended up, it gets a temporary label and the address of that
label an entry in a section which the linker drops (``SHF_EXCLUDE``).
"""

from __future__ import annotations

import re
import struct
from array import array
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from coasm.codeobject.elf import Elf

__all__ = ["Pin", "find_pins", "mark", "marked_positions", "marked_source"]

# A comment, or a directive (a label that begins with a dot is none).
_NO_INSTRUCTION = re.compile(r"//|#|;|/\*|\.(?![\w.$]*\s*:)")
_PIN = re.compile(r"// pin ((?:[0-9A-F]{8} ?)+)over ((?:[0-9A-F]{8} ?)+)(?=[^0-9A-F]|$)")
# Lines in between stand for several instructions, or for none: strings of the metadata.
_OPEN = frozenset((".macro", ".rept", ".irp", ".irpc", ".amdgpu_metadata"))
_CLOSE = frozenset((".endm", ".endmacro", ".endr", ".end_amdgpu_metadata"))
_BRACKET = re.compile(r"\.(?:macro|rept|irp|endm|endr|(?:end_)?amdgpu_metadata)")
_SECTION = ".coasm.marks"


class Pin(NamedTuple):
    """A pin comment: its 0-based line and the two encodings."""

    line: int
    original: bytes
    llvm: bytes


def _bytes(words: str) -> bytes:
    numbers = array("I", bytes.fromhex(words))
    numbers.byteswap()
    return numbers.tobytes()


def find_pins(text: str) -> list[Pin]:
    """The pins of a listing. Those inside macros and repetitions are left out: an instruction that
    stands for several cannot be followed to one place.
    """
    starts, depths = [-1], [0]  # how deep it is from where on
    for start, line, _ in _lines_with(_BRACKET, text):
        word = line.split(None, 1)[0]
        depths.append(max(depths[-1] + (word in _OPEN) - (word in _CLOSE), 0))
        starts.append(start)
    pins = []
    number = counted = 0
    for start, line, match in _lines_with(_PIN, text):
        number += text.count("\n", counted, start)
        counted = start
        deep = depths[bisect_right(starts, start) - 1]
        if not deep and not _NO_INSTRUCTION.match(line.lstrip()):
            pins.append(Pin(number, _bytes(match[1]), _bytes(match[2])))
    return pins


def _lines_with(wanted: re.Pattern[str], text: str) -> Iterator[tuple[int, str, re.Match[str]]]:
    """Where each line begins that holds what is *wanted*, the line, and the first match in it."""
    end = -1
    for match in wanted.finditer(text):
        if match.start() < end:
            continue
        start = text.rfind("\n", max(end, 0), match.start()) + 1
        end = text.find("\n", match.end())
        end = len(text) if end < 0 else end
        yield start, text[start:end], match


def mark(text: str, wanted: Iterable[int]) -> str:
    """The text with a label at each of the *wanted* lines, and the table of those labels."""
    guarded = "/*" in text or ".if" in text
    result, numbers = text.split("\n"), list(wanted)
    for line in numbers:
        result[line] = f".Lcoasm_mark_{line}:{result[line]}"
    result.append(f'\t.section {_SECTION},"e",@progbits')
    for line in numbers:
        if guarded:
            result.append(f".ifdef .Lcoasm_mark_{line}")
        result.append(f"\t.quad .Lcoasm_mark_{line}, {line}")
        if guarded:
            result.append(".endif")
    result.append("")
    return "\n".join(result)


#: Sources that were marked before they are asked for: see :mod:`coasm.llvm.prefetch`.
prepared: dict[str, tuple[list[Pin], bytes]] = {}


def marked_source(text: str, more: Collection[int] = ()) -> tuple[list[Pin], bytes]:
    """The pins of a listing, and what the assembler gets: it with the lines of its pins, and
    *more* ones, marked.
    """
    if text in prepared and not more:
        return prepared.pop(text)
    pins = find_pins(text)
    wanted = sorted({pin.line for pin in pins}.union(more))
    return pins, (mark(text, wanted) if wanted else text).encode("utf-8", "surrogateescape")


def marked_positions(elf: Elf) -> dict[int, tuple[int, int]]:
    """Line → (section index, offset in it) of each label that :func:`mark` put there."""
    from coasm.codeobject.elf import SHT_RELA

    table = next((s for s in elf.sections if s.name == _SECTION), None)
    if table is None:
        return {}
    values = [(symbol.shndx, symbol.value) for symbol in elf.symbols]
    lines = struct.iter_unpack("<QQ", table.data)  # a relocated address, and the line
    found = {}
    for section in elf.sections:
        if section.type != SHT_RELA or section.info != table.index:
            continue
        # One relocation for each entry, in their order: see mark.
        rows = struct.iter_unpack("<QQq", section.data)
        for (_, line), (_, info, addend) in zip(lines, rows, strict=True):
            shndx, value = values[info >> 32]
            found[line] = (shndx, value + addend)
    return found
