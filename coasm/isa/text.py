"""The text of one instruction → mnemonic, operands, modifiers.

Registers are by their numbers of :mod:`coasm.isa.registers`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from coasm.errors import UnsupportedError
from coasm.isa.registers import registers_named

__all__ = [
    "Literal",
    "Operand",
    "Parsed",
    "Register",
    "Word",
    "parse",
    "split_operands",
    "without_encoding",
]

_ENCODINGS = re.compile(r"_(e32|e64|dpp8?|sdwa|e64_dpp8?)$")
_MODIFIER = re.compile(
    r"\s(?:(\w+):(\[[^\]]*\]|\w+\([^)]*\)|\S+)|(gpr_idx)\(([^)]*)\)|(\w+))(?=\s|$)"
)
_ENCODED = re.compile(r"lit(?:64)?\((.*)\)")
_INTEGER = re.compile(r"-?(?:0x[0-9a-f]+|\d+)", re.I)
_FLOAT = re.compile(r"-?\d+\.\d+(?:e[+-]?\d+)?", re.I)

#: Modifiers that are a word alone; any other word behind the operands is an operand's.
_FLAGS = frozenset(
    """offen idxen lds glc slc dlc sc0 sc1 nt nv clamp gds tfe lwe addr64 row_mirror row_half_mirror
    unorm da r128 d16 done vm compr row_en high scale_offset matrix_a_reuse matrix_b_reuse
    """.split()  # noqa: SIM905
)
#: Flags that are registers elsewhere → how the instructions begin that have them.
_FLAGS_OF = {
    "a16": ("image_",),
    "scc": ("buffer_", "tbuffer_", "global_", "flat_", "scratch_", "image_"),
}


class Register(NamedTuple):
    """``size`` registers from ``first`` on, with the source modifiers of the text."""

    first: int
    size: int
    negate: bool = False
    absolute: bool = False
    sext: bool = False

    @property
    def numbers(self) -> range:
        return range(self.first, self.first + self.size)


class Literal(NamedTuple):
    """A constant: an integer, or a float that stands for its bits in the operand's own type.

    ``encoded``: a literal dword, by the text, where it could also be an inline constant. The source
    modifiers change the sign bit of what the instruction takes it for, not the number.
    """

    value: int | float
    encoded: bool = False
    negate: bool = False
    absolute: bool = False


class Word(NamedTuple):
    """Anything else: ``off``, ``hwreg(...)``, a label, a counter of ``s_waitcnt``."""

    text: str


Operand = Register | Literal | Word


class Parsed(NamedTuple):
    """One instruction. ``mnemonic`` is without its encoding suffix, which is ``encoding``."""

    mnemonic: str
    encoding: str
    operands: tuple[Operand, ...]
    modifiers: dict[str, str]

    def bits(self, name: str, count: int, default: int = 0) -> tuple[int, ...]:
        """A list modifier (``op_sel:[0,1,0]``) as *count* numbers; *default* where it is short."""
        text = self.modifiers.get(name, "").strip("[]")
        found = [int(part) for part in text.split(",")] if text else []
        return tuple((found + [default] * count)[:count])

    def number(self, name: str, default: int = 0) -> int:
        """A modifier as a number; *default* where the text does not have it."""
        return int(self.modifiers.get(name, str(default)), 0)


def parse(text: str) -> Parsed:
    """The parts of one instruction as LLVM's disassembler prints it.

    Raises:
        UnsupportedError: an operand that no target of this family has.
    """
    name, _, rest = text.strip().partition(" ")
    encoding = _ENCODINGS.search(name)
    if encoding:
        name = name[: encoding.start()]
    head, *more = split_operands(rest)
    parts = [head.strip(), *(part.strip() for part in more)] if rest.strip() else []
    modifiers: dict[str, str] = {}
    if parts:
        parts[-1] = _take_modifiers(name, parts[-1], modifiers, text)
        if not parts[-1]:
            parts.pop()
    operands = tuple(_operand(part, text) for part in parts)
    return Parsed(name, encoding[1] if encoding else "", operands, modifiers)


def without_encoding(mnemonic: str) -> str:
    """A mnemonic without the suffix that names its encoding."""
    return _ENCODINGS.sub("", mnemonic)


def split_operands(text: str) -> list[str]:
    """Split at the commas that are not inside brackets."""
    parts, depth, start = [], 0, 0
    for at, char in enumerate(text):
        if char in "[(":
            depth += 1
        elif char in "])":
            depth -= 1
        elif char == "," and not depth:
            parts.append(text[start:at])
            start = at + 1
    parts.append(text[start:])
    return parts


def _take_modifiers(name: str, last: str, modifiers: dict[str, str], text: str) -> str:
    """Move the modifiers behind the last operand into *modifiers*; the operand that is left."""
    if name.startswith(("s_waitcnt", "s_branch", "s_cbranch", "s_sendmsg")):
        return last
    padded = f" {last}"
    first, end = None, 0
    for match in _MODIFIER.finditer(padded):
        key, value, idx, mode, flag = match.groups()
        if flag and flag not in _FLAGS and not name.startswith(_FLAGS_OF.get(flag, "\n")):
            continue
        if first is None:
            first = match.start()
        elif padded[end : match.start()].strip():
            break
        end = match.end()
        if key:
            modifiers[key] = value
        elif idx:
            modifiers[idx] = mode
        else:
            modifiers[flag] = "1"
    if first is not None and padded[end:].strip():
        raise UnsupportedError(f"a modifier that is not known, {padded[end:].strip()!r}: {text}")
    return last if first is None else padded[:first].strip()


def _operand(text: str, whole: str) -> Operand:
    inner, negate, absolute, sext = text, False, False, False
    if inner.startswith("sext(") and inner.endswith(")"):
        inner, sext = inner[5:-1], True
    if inner.startswith("neg(") and inner.endswith(")"):
        inner, negate = inner[4:-1], True
    elif (inner.startswith("-") and inner[1:2].isalpha()) or inner.startswith("-|"):
        inner, negate = inner[1:], True
    if inner.startswith("|") and inner.endswith("|") and len(inner) > 2:
        inner, absolute = inner[1:-1], True
    elif inner.startswith("abs(") and inner.endswith(")"):
        inner, absolute = inner[4:-1], True
    named = registers_named(inner)
    if named is not None:
        if not named[1]:
            raise UnsupportedError(f"no register {inner} on this target: {whole}")
        return Register(*named, negate, absolute, sext)
    number: int | float | None = None
    encoded = _ENCODED.fullmatch(inner)
    if encoded:
        inner = encoded[1]
    if _INTEGER.fullmatch(inner):
        number = int(inner, 0)
    elif _FLOAT.fullmatch(inner):
        number = float(inner)
    if number is None:
        return Word(text)
    return Literal(number, bool(encoded), negate, absolute)
