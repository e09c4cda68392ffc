"""The note as the lines between ``.amdgpu_metadata`` and ``.end_amdgpu_metadata``.

Two readers stand between these lines and the note, and both are LLVM's. First its assembler's
lexer: it cuts a line at ``;`` and at ``//``, takes ``/* */`` out, and ends the block at
``.end_amdgpu_metadata``, except inside double quotes. Then its YAML reader, which types a scalar by
its text even where it is quoted (``"5"`` is an integer), save behind the tag ``!str``. Hence:
a string is either a plain word that both leave alone, or one line ``!str "…"`` of printable ASCII.
Sources: ``AMDGPUAsmParser::ParseToEndDirective``, ``AsmLexer.cpp``, ``YAMLParser.cpp``,
``MsgPackDocumentYAML.cpp``.
"""

from __future__ import annotations

import re
from math import isfinite
from typing import Any

from coasm.notes.document import decode, encode
from coasm.notes.schema import accepted

__all__ = ["to_yaml"]

# Letters, digits, "_" and "." are one token to the assembler; "-" or a space may stand between.
_PLAIN = re.compile(r"\.?[A-Za-z_][A-Za-z0-9_.]*(?:(?:-+| )[A-Za-z_][A-Za-z0-9_.]*)*")
# What some LLVM or other YAML reader types as a boolean, a null, or a floating-point number.
_WORDS = frozenset(
    ("y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf", "infinity")
) | {".nan", ".inf"}
# A key has no tag: LLVM types it by its text, so a string that starts like a number is none.
_NUMERIC = re.compile(r"\s*[-+]?\.?[0-9]|\s*[-+]?(?:inf|nan)", re.IGNORECASE)
# A YAML key must end within 1024 columns of where it starts.
_MAX_KEY = 1000
_ESCAPES = {"\n": "\\n", "\t": "\\t", '"': '\\"', "\\": "\\\\"}
_SPECIAL = re.compile(r'[^ -~]|["\\]')


class _Unspeakable(Exception):
    """A value that no YAML gives LLVM."""


def to_yaml(note: bytes, document: Any = None) -> str | None:
    """The YAML from which LLVM's assembler makes exactly *note*, each line ended; None if there
    is none.

    *document* is what the note decodes to, where that is known already.

    None means: a key order or an encoding that LLVM does not write, a document that its metadata
    verifier refuses, or a value that its YAML cannot express (binary data, extensions, text that
    is not UTF-8, a string key that reads as a number).

    Raises:
        FormatError: *note* is not a msgpack document (see :func:`~coasm.notes.document.decode`).
    """
    if document is None:
        document = decode(note)
    if encode(document) != note or not accepted(document):
        return None
    lines = ["---"]
    try:
        _map_lines(document, "", "", lines, {})
    except _Unspeakable:
        return None
    lines.append("...\n")
    return "\n".join(lines)


#: The lines of the lists at hand, by identity, first line's beginning and indentation.
_Lists = dict[tuple[int, str, str], list[str]]


def _map_lines(
    value: dict[Any, Any], first: str, indent: str, lines: list[str], lists: _Lists
) -> None:
    """Add the entries of a non-empty map; the first line begins with *first*, others *indent*."""
    for key, item in value.items():
        # LLVM's own layout: values start 17 columns behind their key.
        _add(item, f"{first}{_key(key)}:", 17 + len(first), indent, lines, lists)
        first = indent


def _add(value: Any, start: str, column: int, indent: str, lines: list[str], lists: _Lists) -> None:
    """Add one value behind *start*, or below it, indented more than *indent*."""
    if isinstance(value, dict) and value:
        lines.append(start)
        _map_lines(value, indent + "  ", indent + "  ", lines, lists)
    elif isinstance(value, list) and value:
        lines.append(start)
        _list_lines(value, indent + "  ", indent + "  ", lines, lists)
    else:
        lines.append(f"{start.ljust(column - 1)} {_scalar(value)}")


def _list_lines(value: list[Any], first: str, indent: str, lines: list[str], lists: _Lists) -> None:
    """Add the items of a non-empty array; the first line begins with *first*, others *indent*."""
    key = id(value), first, indent
    if key not in lists:
        own: list[str] = []
        for item in value:
            if isinstance(item, dict) and item:
                _map_lines(item, first + "- ", indent + "  ", own, lists)
            elif isinstance(item, list) and item:
                _list_lines(item, first + "- ", indent + "  ", own, lists)
            else:
                own.append(f"{first}- {_scalar(item)}")
            first = indent
        lists[key] = own
    lines += lists[key]


def _scalar(value: Any) -> str:
    """A scalar, or an empty map or array, as LLVM reads it back."""
    if isinstance(value, str):
        if _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
            return value
        return f"!str {_quote(value)}"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float) and isfinite(value):
        return repr(value)
    if isinstance(value, dict):
        return "{}"
    if isinstance(value, list):
        return "[]"
    if value is None:
        return '!nil ""'
    raise _Unspeakable


def _key(key: Any) -> str:
    if isinstance(key, str):
        if _PLAIN.fullmatch(key) and key.lower() not in _WORDS:
            text = key
        elif not key or "\0" in key or key.lower() in _WORDS or _NUMERIC.match(key):
            raise _Unspeakable
        else:
            text = _quote(key)
    elif isinstance(key, int):
        text = _scalar(key)
    else:
        raise _Unspeakable
    if len(text) > _MAX_KEY:
        raise _Unspeakable
    return text


def _quote(text: str) -> str:
    """A double-quoted YAML scalar of printable ASCII on one line."""
    return '"' + _SPECIAL.sub(_escape, text) + '"'


def _escape(match: re.Match[str]) -> str:
    char = match.group()
    code = ord(char)
    if char in _ESCAPES:
        return _ESCAPES[char]
    if 0xDC80 <= code <= 0xDCFF:  # surrogateescape: a byte that is no UTF-8
        raise _Unspeakable
    return (
        f"\\x{code:02X}"
        if code < 0x80
        else f"\\u{code:04X}"
        if code < 0x10000
        else f"\\U{code:08X}"
    )
