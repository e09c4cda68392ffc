"""Which line of a source an instruction comes from: the line table that the assembler writes.

Of a listing without macros, repetitions and included files the assembler notes the lines by itself.
Of any other source a marked copy is assembled: the included files are written out, and before each
line that may make code stands a ``.loc`` directive, inside of macros too. The number in it is not
a line's but a position in a list of where the lines stand. ``.loc`` changes no code: a marked copy
that comes out otherwise than the source is not used. Source: DWARF 5, 6.2; LLVM's AsmParser.cpp.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from coasm.asm.code import Item
from coasm.errors import FormatError

__all__ = [
    "Included",
    "Line",
    "Marked",
    "Spot",
    "is_plain",
    "line_table",
    "lines_of_data",
    "lines_of_marks",
    "mark_lines",
]

# What makes several instructions of a line, says by itself which lines the code is from, or takes
# code from another file.
_NOT_PLAIN = re.compile(
    r'^\s*(?:\.(?:macro|rept|irpc?|altmacro|include|loc)\b|\.file\s+\d|#\s*(?:line\s+)?\d+\s+"'
    r"|\.\w*section.*\.debug_)",
    re.M,
)
_MACRO = re.compile(r"^\s*\.macro\s+([^\s,]+)", re.M)
#: What instructions may be written as.
_WORDS = frozenset(
    f".{name}"
    for name in ("long", "int", "word", "short", "hword", "byte", "quad", "2byte", "4byte", "8byte")
)
# A line's labels and its first word.
_LABELS = r'\s*(?:(?:"(?:[^"\\]|\\.)*"|[\w.$@\\]+)\s*:(?!:)\s*)*'
_WORD = re.compile(_LABELS + r"([\w.$@\\]+)")
_INCLUDE = re.compile(_LABELS + r'\.include\s+"([^"]+)"')
_OWN_LINE = re.compile(_LABELS + r"(?:\.loc\b|\.file\s+\d)")
_COMMENT = re.compile(r'"(?:[^"\\]|\\.)*"|//|;|/\*')
#: Blocks in which no directive may stand, and what ends them.
_BLOCKS = {
    ".amdhsa_kernel": ".end_amdhsa_kernel",
    ".amdgpu_metadata": ".end_amdgpu_metadata",
    ".amd_kernel_code_t": ".end_amd_kernel_code_t",
    ".amd_amdgpu_isa_metadata": ".end_amd_amdgpu_isa_metadata",
}
_ENDS = (".endm", ".endmacro")

#: How deep files may include each other, and how many lines a marked copy may have.
_DEEP, _MOST = 32, 2_000_000


class Spot(NamedTuple):
    """A line (from 1 on) of a file."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Line(NamedTuple):
    """Where an instruction comes from.

    ``root`` is the line of the source itself: where the instruction stands, its macro is used, or
    its file is included. ``spot`` is the line where it stands, or where the macro is used, in
    whichever file; ``body`` the line of the macro's body and ``macro`` its name, where one made it.
    """

    root: int
    spot: Spot
    body: Spot | None = None
    macro: str = ""

    def __str__(self) -> str:
        return str(self.spot) if self.body is None else f"{self.spot} (in {self.made_by})"

    @property
    def made_by(self) -> str:
        """The macro and the line of its body."""
        return "" if self.body is None else f"macro {self.macro}, {self.body}"


class Included(NamedTuple):
    """A file that a source includes: where it was found, and what is in it."""

    path: str
    text: str


class Marked(NamedTuple):
    """A copy of a source with ``.loc`` directives; their numbers are positions in ``lines``."""

    text: str
    lines: list[Line]


def is_plain(text: str) -> bool:
    """Whether the assembler's own notes are the lines of *text*."""
    return _NOT_PLAIN.search(text) is None


def mark_lines(name: str, text: str, files: Mapping[str, Included]) -> Marked:
    """The marked copy of the source *name*; *files* are those that it includes, by the names that
    it has for them.
    """
    texts = (text, *(file.text for file in files.values()))
    macros = {found for one in texts for found in _MACRO.findall(one)}
    marker = _Marker(files, macros)
    marker.add(name, text, None, 0)
    return Marked("\n".join(marker.out), marker.lines)


class _Marker:
    """Writes the copy: ``macro`` are the macros whose bodies are open, by name."""

    def __init__(self, files: Mapping[str, Included], macros: set[str]) -> None:
        self.files, self.macros = files, macros
        self.out = ['\t.file 1 "source"']
        self.lines: list[Line] = [Line(0, Spot("", 0))]  # number 0 is no line
        self.macro: list[str] = []
        self.block = ""

    def add(self, file: str, text: str, root: int | None, deep: int) -> None:
        """Copy a file that is included at line *root* of the source (None: it is the source)."""
        comment = False
        for number, line in enumerate(text.split("\n"), 1):
            was, comment = comment, self._ends_in_comment(line, comment)
            if was:
                head, end, line = line.partition("*/")
                self.out.append(head + end)
            if len(self.out) > _MOST or (was and not line):
                self.out.append(line)
                continue
            included = _INCLUDE.match(line) if ".include" in line else None
            inner = self.files.get(included[1]) if included and not self.macro else None
            if inner is not None and deep < _DEEP and not self.block:
                self.add(inner.path, inner.text, root or number, deep + 1)
            else:
                self._line(line, Spot(file, number), root or number)

    def _ends_in_comment(self, line: str, inside: bool) -> bool:
        if self.block == ".amdgpu_metadata" or not (inside or "/*" in line):
            return inside and "*/" not in line
        at = 0
        while at < len(line):
            if inside:
                end = line.find("*/", at)
                if end < 0:
                    return True
                inside, at = False, end + 2
                continue
            token = _COMMENT.search(line, at)
            if token is None or token[0] in ("//", ";"):
                return False
            inside, at = token[0] == "/*", token.end()
        return inside

    def _line(self, line: str, spot: Spot, root: int) -> None:
        found = _WORD.match(line)
        word = found[1] if found else ""
        if self.block:
            self.block = "" if word == _BLOCKS[self.block] else self.block
        elif word in _BLOCKS:
            self.block = word
        elif word == ".macro":
            named = _MACRO.match(line)
            self.macro.append(named[1] if named else "")
        elif word in _ENDS:
            del self.macro[-1:]
        elif _OWN_LINE.match(line):
            line = ""
        elif word and (not word.startswith(".") or word in self.macros or word in _WORDS):
            # A directive's line is noted at the next instruction, or where another one stands.
            self.out += [f"\t.loc 1 {len(self.lines)}"] * (1 + (word in _WORDS))
            body = self.macro[0] if self.macro else ""
            self.lines.append(Line(root, spot, spot if body else None, body))
        self.out.append(line)


def lines_of_marks(data: bytes, marked: Marked) -> dict[int, Line]:
    """Address → line, from the line table that the assembler made of a marked copy.

    Raises:
        FormatError: it is none.
    """
    found: dict[int, Line] = {}
    use: Line | None = None
    for address, number in _last_unit(data):
        if not 0 < number < len(marked.lines):
            use = None  # the end of a sequence
            continue
        line = marked.lines[number]
        if line.body is None:
            use = found[address] = line
        elif use is not None:
            # What is known of the use of a macro stands before its first instruction.
            found[address] = Line(use.root, use.spot, line.body, line.macro)
    return found


def line_table(data: bytes) -> dict[int, int]:
    """Address → 1-based line of each row of a ``.debug_line`` section.

    Raises:
        FormatError: it is none.
    """
    return {address: line for unit in _units(data) for address, line in unit if line}


def _last_unit(data: bytes) -> list[tuple[int, int]]:
    """The rows of the assembler's own unit: it comes behind those that the source holds."""
    units = [*_units(data)]
    return units[-1] if units else []


def _units(data: bytes) -> Iterator[list[tuple[int, int]]]:
    """The rows of each unit, address and line; line 0 is the end of a sequence."""
    at = 0
    try:
        while at < len(data):
            rows: list[tuple[int, int]] = []
            at = _unit(data, at, rows)
            yield rows
    except (struct.error, IndexError, ValueError, ZeroDivisionError):
        raise FormatError(f".debug_line: no line table at {at:#x}") from None


def _unit(data: bytes, at: int, rows: list[tuple[int, int]], files: list[int] | None = None) -> int:
    """Run the line program of the unit at *at*; the result is where the next one is.

    *files* gets the number of each row's file.
    """
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
    address, line, file = 0, 1, 1
    while at < end:
        opcode = data[at]
        at += 1
        if opcode >= opcodes:
            advance, up = divmod(opcode - opcodes, spread)
            address += step * advance
            line += base + up
            rows.append((address, line))
        elif opcode == 0:
            size, at = _leb(data, at)
            if data[at] == 1:  # end of a sequence
                rows.append((address, 0))
                address, line, file = 0, 1, 1
            elif data[at] == 2:  # set the address
                (address,) = struct.unpack_from("<Q", data, at + 1)
            at += size
        elif opcode == 1:  # a row
            rows.append((address, line))
        elif opcode == 2:  # advance the address
            advance, at = _leb(data, at)
            address += step * advance
        elif opcode == 3:  # advance the line
            advance, at = _leb(data, at, signed=True)
            line += advance
        elif opcode == 4:  # another file
            file, at = _leb(data, at)
        elif opcode == 8:  # advance the address as the last opcode would
            address += step * ((255 - opcodes) // spread)
        elif opcode == 9:  # advance the address by bytes
            address += int.from_bytes(data[at : at + 2], "little")
            at += 2
        else:
            for _ in range(arguments[opcode - 1]):
                _, at = _leb(data, at)
        if files is not None and len(files) < len(rows):
            files.append(file)
    return end


def _leb(data: bytes, at: int, *, signed: bool = False) -> tuple[int, int]:
    """A LEB128 number, and where it ends; the bits beyond the 70th are left out."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        if shift < 64:
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
                held = [n for n in between if "// pin " in text[n - 1] or _is_data(text[n - 1])]
                if len(held) == len(run):
                    found.update(zip(run, held, strict=True))
            before, run = line, []
    return found


def _is_data(line: str) -> bool:
    found = _WORD.match(line)
    return found is not None and found[1] in _WORDS


#: ``DW_FORM_*`` of fixed size → their bytes. Source: DWARF 5, section 7.5.6.
_FORM_SIZES = {0x05: 2, 0x06: 4, 0x07: 8, 0x0B: 1, 0x1E: 16}
_STRING, _STRP, _LINE_STRP, _UDATA, _BLOCK = 0x08, 0x0E, 0x1F, 0x0F, 0x09
_LNCT_PATH = 1
#: What a file's name keeps in a comment: nothing that could mean something there.
_UNSAFE = re.compile(r"[^A-Za-z0-9._+-]")
_LONGEST = 80


def source_lines(table: bytes, line_strings: bytes, strings: bytes) -> dict[int, str]:
    """Address → ``file.cl:12``, of each row of a ``.debug_line`` section that has another line.

    *line_strings* and *strings* are ``.debug_line_str`` and ``.debug_str``. Names of files are
    without their folders. What cannot be read is left out: these are for comments.
    """
    found: dict[int, str] = {}
    at = 0
    try:
        while at < len(table):
            rows: list[tuple[int, int]] = []
            files: list[int] = []
            unit, at = at, _unit(table, at, rows, files)
            names = _file_names(table, unit, line_strings, strings)
            before = ""
            for (address, line), file in zip(rows, files, strict=True):
                said = f"{names[file]}:{line}" if line and file in names else ""
                if said and said != before:
                    found[address] = said
                before = said or before
    except (struct.error, IndexError, KeyError, ValueError, ZeroDivisionError):
        pass
    return found


def _file_names(data: bytes, at: int, line_strings: bytes, strings: bytes) -> dict[int, str]:
    """The names in the header of a unit's line table, by number."""
    length, version = struct.unpack_from("<IH", data, at)
    end = at + 4 + int(length)
    at += (6 if version < 5 else 8) + 4
    at += 5 if version < 4 else 6
    at += data[at - 1] - 1  # opcode_base, and the lengths of its opcodes
    if version < 5:
        while data[at]:  # folders
            at = data.index(b"\0", at) + 1
        return dict(_old_files(data, at + 1, end))
    *_, at = _entries(data, at, end, line_strings, strings)
    names, _ = _entries(data, at, end, line_strings, strings)
    return {number: _name(raw) for number, raw in enumerate(names)}


def _old_files(data: bytes, at: int, end: int) -> Iterator[tuple[int, str]]:
    number = 1
    while at < end and data[at]:
        stop = data.index(b"\0", at)
        yield number, _name(data[at:stop])
        at, number = stop + 1, number + 1
        for _ in range(3):
            _, at = _leb(data, at)


def _entries(
    data: bytes, at: int, end: int, line_strings: bytes, strings: bytes
) -> tuple[list[bytes], int]:
    """The paths of a table of folders or files of DWARF 5, and where it ends."""
    count, at = data[at], at + 1
    formats = []
    for _ in range(count):
        kind, at = _leb(data, at)
        form, at = _leb(data, at)
        formats.append((kind, form))
    entries, at = _leb(data, at)
    paths: list[bytes] = []
    while len(paths) < entries and formats and at < end:
        path = b""
        for kind, form in formats:
            value = b""
            if form == _STRING:
                stop = data.index(b"\0", at)
                value, at = data[at:stop], stop + 1
            elif form in (_STRP, _LINE_STRP):
                (offset,) = struct.unpack_from("<I", data, at)
                table = line_strings if form == _LINE_STRP else strings
                value, at = table[offset : offset + 4096].partition(b"\0")[0], at + 4
            elif form == _UDATA:
                _, at = _leb(data, at)
            elif form == _BLOCK:
                size, at = _leb(data, at)
                at += size
            else:
                at += _FORM_SIZES[form]
            path = value if kind == _LNCT_PATH else path
        paths.append(path[-4 * _LONGEST :])
    return paths, at


def _name(raw: bytes) -> str:
    text = raw.decode("utf-8", "replace").replace("\\", "/").rpartition("/")[2]
    return _UNSAFE.sub("?", text)[-_LONGEST:] or "?"
