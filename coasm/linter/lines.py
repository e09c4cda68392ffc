"""Which line of a listing an instruction comes from: the line table that the assembler writes.

What a macro or a repetition makes belongs to the line that calls it. Source: DWARF 5, 6.2.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Mapping, Sequence

from coasm.asm.decode import Item
from coasm.errors import FormatError

__all__ = ["has_own_lines", "line_table", "lines_of_data"]

# What says by itself which lines the code is from, or takes code from another file.
_OWN = re.compile(
    r'^\s*(?:\.loc\b|\.file\s+\d|\.include\b|#\s*(?:line\s+)?\d+\s+"|\.\w*section.*\.debug_)', re.M
)
_DATA = re.compile(
    r"\s*(?:[^\s:\"]+:\s*|\"[^\"]*\":\s*)*\.(?:long|int|word|short|hword|byte|quad|[248]byte)\b"
)


def has_own_lines(text: str) -> bool:
    """Whether a listing has line directives of its own, so that the assembler's are not its."""
    return _OWN.search(text) is not None


def line_table(data: bytes) -> dict[int, int]:
    """Address → 1-based line of each row of a ``.debug_line`` section.

    Raises:
        FormatError: it is none.
    """
    found: dict[int, int] = {}
    at = 0
    try:
        while at < len(data):
            at = _unit(data, at, found)
    except (struct.error, IndexError, ValueError, ZeroDivisionError):
        raise FormatError(f".debug_line: no line table at {at:#x}") from None
    return found


def _unit(data: bytes, at: int, found: dict[int, int]) -> int:
    """Run the line program of the unit at *at*; the result is where the next one is."""
    length, version = struct.unpack_from("<IH", data, at)
    end = at + 4 + int(length)
    if end > len(data):
        raise ValueError
    at += 6 if version < 5 else 8
    (header,) = struct.unpack_from("<I", data, at)
    program = at + 4 + header
    at += 4
    step = data[at]
    at += 2 if version < 4 else 3
    base, spread, opcodes = struct.unpack_from("<bBB", data, at)
    arguments = data[at + 3 : at + 2 + opcodes]
    at = program
    address, line = 0, 1
    while at < end:
        opcode = data[at]
        at += 1
        if opcode >= opcodes:
            advance, up = divmod(opcode - opcodes, spread)
            address += step * advance
            line += base + up
            found[address] = line
        elif opcode == 0:
            size, at = _leb(data, at)
            if data[at] == 1:  # end of a sequence
                address, line = 0, 1
            elif data[at] == 2:  # set the address
                (address,) = struct.unpack_from("<Q", data, at + 1)
            at += size
        elif opcode == 1:  # a row
            found[address] = line
        elif opcode == 2:  # advance the address
            advance, at = _leb(data, at)
            address += step * advance
        elif opcode == 3:  # advance the line
            advance, at = _leb(data, at, signed=True)
            line += advance
        elif opcode == 8:  # advance the address as the last opcode would
            address += step * ((255 - opcodes) // spread)
        elif opcode == 9:  # advance the address by bytes
            address += int.from_bytes(data[at : at + 2], "little")
            at += 2
        else:
            for _ in range(arguments[opcode - 1]):
                _, at = _leb(data, at)
    return end


def _leb(data: bytes, at: int, *, signed: bool = False) -> tuple[int, int]:
    """A LEB128 number, and where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value - (1 << shift if signed and byte & 64 else 0), at


def lines_of_data(
    lines: Mapping[int, int], code: Iterable[Sequence[Item]], text: Sequence[str]
) -> dict[int, int]:
    """Address → line of instructions that the listing has as data: pins, ``.long``.

    The assembler notes no line for those. They are known where between the lines of the
    instructions around them as many lines hold data as there are such instructions.
    """
    found: dict[int, int] = {}
    for items in code:
        before: int | None = None
        run: list[int] = []
        for item in items:
            line = lines.get(item.address)
            if line is None:
                run.append(item.address)
                continue
            if run and before is not None and before < line:
                between = range(before + 1, line)
                held = [n for n in between if "// pin " in text[n - 1] or _DATA.match(text[n - 1])]
                if len(held) == len(run):
                    found.update(zip(run, held, strict=True))
            before, run = line, []
    return found
