"""What ``llvm-objdump`` prints → addresses, encodings and texts."""

from __future__ import annotations

import re
from array import array

from coasm.asm.code import Instruction

__all__ = ["DATA_DIRECTIVES", "columns", "instruction_of", "parse_dump", "real_registers"]

# A line of the disassembler: text, then "// address: words", then remarks.
_LINE = re.compile(
    r"^\t([^\n]*?)\s*// ([0-9A-F]{12,16}): ((?:[0-9A-F]{8} ?)+|(?:[0-9A-F]{2} ?)+)(?=$|[ <;])",
    re.M,
)
_WORDS = re.compile(r"[0-9A-F ]*")
#: Where "// ADDRESS: WORDS" begins behind the tab of a line with a short text, and its words.
_COMMENT, _ENCODING = 59, 76
#: Characters of the words of an encoding → its bytes.
_SIZES = {9 * words - 1: 4 * words for words in range(1, 9)}
_MARK = re.compile(r"\s*/\*.*?\*/")
_REGISTER_MARK = re.compile(r"[^\s,]+\s*/\*([av]\d+|[av]\[[\d:]+\])\*/")
#: What the text of a word that is no instruction begins with.
DATA_DIRECTIVES = (".long", ".word", ".byte", ".short")


def parse_dump(text: str) -> list[tuple[int, int, str]]:
    """(address, size, text with its marks) of each line of a disassembly that has an encoding."""
    found = []
    for match in _LINE.finditer(text):
        length = len(match[3].rstrip()) + 1
        found.append((int(match[2], 16), length // 9 * 4 or length // 3, match[1]))
    return found


def columns(text: str) -> tuple[bytes, list[int], list[str]] | None:
    """The encodings in a disassembly, one behind the other, their sizes, and the texts.

    It is :func:`parse_dump` in half the time, for lines that are all alike: they are taken apart
    all at once. None where they are not.
    """
    # The text, filled up with spaces; "// "; the address and the words. Behind them perhaps the
    # place that a branch goes to, and a heading, in angle brackets both.
    lines = text.rstrip().split("\n\t")[1:]
    texts = [line[:_COMMENT].rstrip() for line in lines]
    words = [line[_ENCODING:] for line in lines]
    for at in [
        at for at, line in enumerate(lines) if "<" in line or line[_COMMENT : _COMMENT + 1] != "/"
    ]:
        printed, _, told = lines[at].partition("// ")
        found = _WORDS.match(told, _ENCODING - _COMMENT - 3)
        texts[at], words[at] = printed.rstrip(), found[0].rstrip() if found else ""
    try:
        sizes = [_SIZES[len(of_one)] for of_one in words]
        code = array("I", bytes.fromhex("".join(words)))
    except (KeyError, ValueError):
        return None
    code.byteswap()  # printed as numbers, the first digit the highest
    return code.tobytes(), sizes, texts


def instruction_of(address: int, data: bytes, text: str) -> Instruction:
    """The instruction that is printed as *text*, whose marks name registers."""
    if "/*" not in text:
        return Instruction(address, data, text)
    return Instruction(address, data, _MARK.sub("", text), real_registers(text))


def real_registers(text: str) -> str:
    """The operands of a printed instruction with its register marks in place of what they mark."""
    marked = _REGISTER_MARK.sub(r"\1", text)
    if marked == text:
        return ""
    return _MARK.sub("", marked).partition(" ")[2].strip()
