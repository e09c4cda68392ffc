"""The object that a listing was made from, as its head names it: name and SHA-256.

The head is what :func:`coasm.asm.head.head_lines` writes; it stays there while the code is
edited.
"""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from coasm.codeobject import CodeObject
from coasm.errors import CoasmError

__all__ = ["HEAD_LINES", "Named", "find_original", "is_original", "named_original"]

#: Lines in which the head is looked for: something may have been written above it.
HEAD_LINES = 40
_HEAD = re.compile(r"^// Listing of (.+)\n// sha256 ([0-9a-f]{64})$", re.M)


class Named(NamedTuple):
    """The file's name without its folder (``LIBRARY:TARGET`` of one inside), and the SHA-256."""

    name: str
    sha256: str


def named_original(text: str) -> Named | None:
    """What the head of a listing says of its original; None where it has no such head."""
    match = _HEAD.search("\n".join(text.split("\n", HEAD_LINES)[:HEAD_LINES]))
    return Named(match[1], match[2]) if match else None


def find_original(text: str, path: str) -> CodeObject | None:
    """The original of the listing *text* in the file *path*.

    It is looked for beside the listing, then in the working directory; only a file with the SHA-256
    of the head is it. None where the head names none, or none is there.
    """
    from hashlib import sha256

    from coasm.opening import open_code_object

    named = named_original(text)
    if named is None or os.sep in named.name:
        return None
    for folder in dict.fromkeys((os.path.dirname(path), "")):
        try:
            co = open_code_object(os.path.join(folder, named.name))
        except (CoasmError, OSError):
            continue
        if sha256(co.data).hexdigest() == named.sha256:
            return co
    return None


def is_original(text: str, path: str, candidate: str) -> bool:
    """Whether the file *candidate* is the one that :func:`find_original` would find."""
    named = named_original(text)
    if named is None or os.sep in named.name or not os.path.isfile(candidate):
        return False
    from hashlib import sha256

    from coasm.codeobject.model import read_input

    places = (os.path.join(folder, named.name) for folder in (os.path.dirname(path), ""))
    return (
        any(os.path.exists(place) and os.path.samefile(place, candidate) for place in places)
        and sha256(read_input(candidate)).hexdigest() == named.sha256
    )
