"""Text that came out of an input file, made safe to show on a terminal."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coasm.codeobject import CodeObject

__all__ = ["colored", "printable", "say_remarks"]

_COLORS = {"red": 31, "green": 32, "yellow": 33}

# C0 and C1 controls (escape sequences start with them), what reorders or hides text (bidirectional
# marks, zero-width characters, line and paragraph separators), and bytes that are no UTF-8.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)


def colored(text: str, color: str) -> str:
    """*text* in a color, bold, where standard output is a terminal and NO_COLOR is not set."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    if plain or not sys.stdout.isatty():
        return text
    return f"\x1b[1;{_COLORS[color]}m{text}\x1b[0m"


def printable(text: str, *, multiline: bool = False) -> str:
    r"""*text* with every character that a terminal might obey written as an escape (``\x1b``).

    Line feed and tab are kept with *multiline*, escaped without it. A byte that was no UTF-8 (a
    surrogate, as ``surrogateescape`` makes it) is shown as that byte.
    """
    text = _UNSAFE.sub(_escape, text)
    return text if multiline else text.replace("\n", "\\n").replace("\t", "\\t")


def say_remarks(co: CodeObject) -> None:
    """Say what a source that was assembled does not say of itself."""
    for remark in co.remarks:
        text = remark if remark.startswith(co.name) else f"{co.name}: {remark}"
        print(f"coasm: {printable(text)}", file=sys.stderr)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    if 0xDC80 <= code <= 0xDCFF:
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
