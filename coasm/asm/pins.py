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
from collections.abc import Iterable
from typing import NamedTuple

from coasm.codeobject.elf import SHT_RELA, Elf

__all__ = ["Pin", "find_pins", "mark", "marked_positions"]

# A comment, or a directive (a label that begins with a dot is none).
_NO_INSTRUCTION = re.compile(r"//|#|;|/\*|\.(?![\w.$]*\s*:)")
_PIN = re.compile(r"// pin ((?:[0-9A-F]{8} ?)+)over ((?:[0-9A-F]{8} ?)+)(?=[^0-9A-F]|$)")
# Lines in between stand for several instructions, or for none: strings of the metadata.
_OPEN = frozenset((".macro", ".rept", ".irp", ".irpc", ".amdgpu_metadata"))
_CLOSE = frozenset((".endm", ".endmacro", ".endr", ".end_amdgpu_metadata"))
#: How these begin.
_BEGIN = frozenset(word[:2] for word in _OPEN | _CLOSE)
_SECTION = ".coasm.marks"


class Pin(NamedTuple):
    """A pin comment: its 0-based line and the two encodings."""

    line: int
    original: bytes
    llvm: bytes


def _bytes(words: str) -> bytes:
    found = array("I", bytes.fromhex(words))
    found.byteswap()
    return found.tobytes()


def find_pins(lines: list[str]) -> list[Pin]:
    """The pins of a listing. Those inside macros and repetitions are left out: an instruction that
    stands for several cannot be followed to one place.
    """
    found = []
    depth = 0
    for index, line in [
        (index, line)
        for index, line in enumerate(lines)
        if "// pin " in line or line.lstrip()[:2] in _BEGIN
    ]:
        stripped = line.lstrip()
        if stripped.startswith("."):
            word = stripped.split(None, 1)[0]
            if word in _OPEN:
                depth += 1
            elif word in _CLOSE:
                depth = max(depth - 1, 0)
        if "// pin " in line and not depth:
            match = _PIN.search(line)
            if match and not _NO_INSTRUCTION.match(stripped):
                found.append(Pin(index, _bytes(match[1]), _bytes(match[2])))
    return found


def mark(lines: list[str], wanted: Iterable[int]) -> str:
    """The text with a label at each of the *wanted* lines, and the table of those labels."""
    text = "\n".join(lines)
    guarded = "/*" in text or ".if" in text
    result, numbers = list(lines), list(wanted)
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


def marked_positions(elf: Elf) -> dict[int, tuple[int, int]]:
    """Line → (section index, offset in it) of each label that :func:`mark` put there."""
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
