"""Symbol names in assembler text: which LLVM can spell, and stand-ins for the rest.

A stand-in is an ordinary name; a ``// coasm: symbol STAND-IN "name"`` line of the listing says what
it stands for, and :func:`coasm.asm.build.assemble_listing` gives the symbol its own name back in
the object, before it is linked.
"""

from __future__ import annotations

import re

__all__ = ["display", "is_plain", "parse_stand_ins", "quote", "spell", "stand_in_line"]

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.$]*\Z")

# What an operand of that spelling means to the AMDGPU assembler, or might in a later LLVM.
# Source: AMDGPUAsmParser.cpp, getSpecialRegForName and the operand modifiers.
_RESERVED = re.compile(
    r"(?:v|s|a|acc|ttmp)\d+(?:\.[lh])?|vcc\w*|exec\w*|m0|scc|null|tba\w*|tma\w*|flat_scratch\w*|xnack_mask\w*"
    r"|src_\w+|lds_direct|pops_\w+|shared_\w+|private_\w+|vccz|execz|off|lit|lit64|abs|neg|sext|hwreg|sendmsg|gds",
    re.I,
)
_STAND_IN = re.compile(r'^\s*// coasm: symbol (\S+) "((?:[^"\\]|\\.)*)"\s*$', re.M)


def is_plain(name: str) -> bool:
    """Whether *name* can stand bare in a label, a directive and a branch operand."""
    return bool(_PLAIN.match(name)) and not _RESERVED.fullmatch(name)


def spell(name: str) -> str | None:
    """*name* as LLVM's assembler takes it, quoted where needed; None where it cannot be spelled.

    Not spelled: names that the assembler keeps for itself (``.L…``), empty ones, and those with
    control characters, quotes, backslashes, what starts a comment, or bytes that are no UTF-8.
    """
    if is_plain(name):
        return name
    if not name or name.startswith(".L") or not name.isprintable():
        return None
    if any(part in name for part in ("\\", '"', "//", "/*")):
        return None
    return f'"{name}"'


def display(text: str) -> str:
    """*text* with everything escaped that a terminal or a comment could misread."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def quote(text: str) -> str:
    """*text* as a quoted one-line ASCII string, escapes as in Python."""
    body = text.encode("unicode_escape").decode("ascii").replace('"', '\\"')
    return f'"{body}"'


def stand_in_line(stand_in: str, name: str) -> str:
    """The listing's line that says what a stand-in is for."""
    return f"// coasm: symbol {stand_in} {quote(name)}"


def parse_stand_ins(text: str) -> dict[str, str]:
    """Stand-in → the symbol's own name, from a listing."""
    if "// coasm: symbol " not in text:
        return {}
    found = {}
    for match in _STAND_IN.finditer(text):
        raw = match[2].replace('\\"', '"')
        found[match[1]] = raw.encode("ascii", "ignore").decode("unicode_escape")
    return found
