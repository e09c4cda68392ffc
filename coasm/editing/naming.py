"""Names in the text of a listing: symbols that get another one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from coasm.asm.metadata_lines import metadata_span
from coasm.asm.names import parse_stand_ins, spell, stand_in_line
from coasm.errors import EditError

__all__ = ["local_labels", "renamed", "spelled"]

#: A comment that stays as it is, a string, a name.
_TOKEN = re.compile(r'//.*|"(?:[^"\\]|\\.)*"|[A-Za-z_.$][\w.$]*')
_LABEL = re.compile(r'^\s*((?:\.L[\w.$]+|"\.L[^"]*")):', re.M)
#: Directives whose strings are no names of symbols.
_TEXTS = re.compile(
    r"\s*(?:\S+:\s*)*\.(?:asci[iz]|string\w*|file|section|ident|include|incbin|amdgcn_target"
    r"|loc|print|error|warning)\b"
)


def renamed(lines: Sequence[str], names: Mapping[str, str]) -> list[str]:
    """The lines of a listing with the tokens of *names* replaced, but in metadata and comments.

    What stands in quotes is a name as well, if it is one whole, but in directives that take texts.
    """
    if not names:
        return list(lines)
    span = metadata_span(lines) or (len(lines), len(lines))

    def replace(found: re.Match[str]) -> str:
        token = found[0]
        return names.get(token, names.get(token.strip('"'), token)) if token[0] != "/" else token

    words = re.compile("|".join(map(re.escape, names)))
    return [
        _TOKEN.sub(replace, line)
        if not span[0] <= number < span[1] and words.search(line) and not _TEXTS.match(line)
        else line
        for number, line in enumerate(lines)
    ]


def spelled(text: str, symbol: str, new: str) -> dict[str, str]:
    """How *symbol*, and its descriptor, are written in a listing → how *new* is.

    Raises:
        EditError: LLVM cannot spell the new name.
    """
    stand_ins = {name: stand_in for stand_in, name in parse_stand_ins(text).items()}
    found = {}
    for one, other in ((symbol, new), (f"{symbol}.kd", f"{new}.kd")):
        spelling = spell(other)
        if spelling is None:
            raise EditError(f"LLVM's assembler cannot spell the name {new!r}")
        found[stand_ins.get(one, one)] = spelling
    return found


def without_stand_ins(lines: Iterable[str], names: Iterable[str]) -> list[str]:
    """The lines but for those that say what stand-ins of *names* stand for."""
    own = tuple(stand_in_line(name, "")[:-1] for name in names)
    return ["" if line.startswith(own) else line for line in lines]


def local_labels(text: str) -> list[str]:
    """The labels of a listing that leave no symbol."""
    return list(dict.fromkeys(_LABEL.findall(text)))
