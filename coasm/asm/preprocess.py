"""A ``.S`` source goes through the C preprocessor first, as with clang. Its lines stay where they
were.
"""

from __future__ import annotations

import os
import re

from coasm.asm.build import encode
from coasm.errors import AssemblyError, UnsupportedError
from coasm.llvm import Llvm
from coasm.llvm.run import TRIPLE, run, write_bytes
from coasm.llvm.scratch import scratch_folder
from coasm.target import TargetID

__all__ = ["is_preprocessed", "preprocessed"]

# A line marker: the number of the next line, its file. Source: GCC, "Preprocessor Output".
_MARKER = re.compile(r'# (\d+) "((?:[^"\\]|\\.)*)"')
_DIRECTIVE = re.compile(
    r"^[ \t]*#[ \t]*(?:define|include|if|ifdef|ifndef|undef|error|pragma)\b", re.M
)


def is_preprocessed(name: str, text: str) -> bool:
    """Whether clang runs the preprocessor on the file *name*, and *text* has something for it."""
    return name.endswith(".S") and _DIRECTIVE.search(text) is not None


def preprocessed(
    name: str, text: str, folders: tuple[str, ...], target: TargetID | None, llvm: Llvm
) -> str:
    """*text* behind the preprocessor, each line where it was.

    *folders* are those of ``#include``; of *target* the macros such as ``__gfx942__`` are defined.

    Raises:
        AssemblyError: the preprocessor refused it.
        UnsupportedError: it includes a file with assembly in it, which no line can stand for.
    """
    with scratch_folder() as folder:
        path, out = os.path.join(folder, "in.S"), os.path.join(folder, "out.s")
        write_bytes(path, encode(text))
        made = run(
            [
                *(llvm.clang, "-E", "-x", "assembler-with-cpp", "-target", TRIPLE),
                *([f"-mcpu={target}"] if target is not None else []),
                *(part for one in folders for part in ("-I", one)),
                *(path, "-o", out),
            ],
            len(text),
        )
        if made.returncode != 0:
            said = made.stderr.decode("utf-8", "surrogateescape").replace(path, name)
            raise AssemblyError(said.rstrip())
        with open(out, "rb") as file:
            lines = file.read().decode("utf-8", "surrogateescape").split("\n")
    found = [""] * (text.count("\n") + 1)
    here, number = path, 1
    for line in lines:
        marker = _MARKER.match(line)
        if marker is not None:
            number, here = int(marker[1]), marker[2]
        elif here == path:
            if number <= len(found):
                found[number - 1] = line
            number += 1
        elif line.strip() and not here.startswith("<"):
            raise UnsupportedError(
                f"{name}: {here} has assembly in it; take .include for that, or run clang -E"
            )
    return "\n".join(found)
