"""README and docs/ taken apart: code blocks, the commands in them, the output that they show."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))


class Block(NamedTuple):
    """A code block: indented by four blanks, or fenced with a language."""

    page: str
    line: int
    language: str
    lines: tuple[str, ...]


class Command(NamedTuple):
    """A command of a page; ``output`` are the lines that the page shows for it, if any."""

    page: str
    line: int
    text: str
    output: tuple[str, ...] | None

    @property
    def id(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(path: Path) -> Iterator[Block]:
    """The code blocks of a page, in order."""
    lines = path.read_text(encoding="utf-8").split("\n")
    at = 0
    while at < len(lines):
        if lines[at].startswith("```"):
            end = lines.index("```", at + 1)
            yield Block(path.name, at + 2, lines[at][3:], tuple(lines[at + 1 : end]))
            at = end + 1
        elif lines[at].startswith("    ") and (at == 0 or not lines[at - 1].strip()):
            end = at
            while end < len(lines) and (lines[end].startswith("    ") or not lines[end].strip()):
                end += 1
            body = [line[4:] for line in lines[at:end]]
            while body and not body[-1].strip():
                body.pop()
            yield Block(path.name, at + 1, "", tuple(body))
            at = end
        else:
            at += 1


def commands(path: Path) -> Iterator[Command]:
    """The ``coasm`` commands of a page: behind ``$`` with their output, else without."""
    for block in blocks(path):
        if block.language not in ("", "sh", "console"):
            continue
        session = False
        for at, line in enumerate(block.lines):
            place = block.page, block.line + at
            session = session or line.startswith("$ ")
            if line.startswith("$ coasm "):
                shown = []
                for more in block.lines[at + 1 :]:
                    if more.startswith("$ "):
                        break
                    shown.append(more)
                yield Command(*place, line[2:], tuple(shown))
            elif not session and re.match(r"(\.venv/bin/)?coasm ", line):
                text = re.split(r"\s#\s|\s{3,}|\s>\s", line.removeprefix(".venv/bin/"))[0]
                yield Command(*place, text.strip(), None)


#: What differs from run to run: durations.
_SECONDS = re.compile(r"\d+\.\d+(?= s\b)")


def pattern(output: tuple[str, ...]) -> re.Pattern[str]:
    """What a shown output matches: lines may be wrapped, ``…`` stands for anything left out."""
    text = " ".join(" ".join(output).split())
    parts = []
    for part in re.split(r"\s*…\s*", text):
        pieces = _SECONDS.split(part)
        parts.append(r"\d+\.\d+".join(re.escape(piece) for piece in pieces))
    return re.compile(r"\s?.*?\s?".join(parts), re.S)


def roundtrip_table() -> dict[str, tuple[int, ...]]:
    """The README's table of the sample: target or "all" → what ``roundtrip`` says of it."""
    (block,) = (block for block in blocks(PAGES[0]) if block.lines[0].startswith("target "))
    rows = [line.split() for line in block.lines if re.match(r"(gfx|all)", line)]
    return {name: tuple(int(n.replace(",", "")) for n in numbers) for name, *numbers in rows}
