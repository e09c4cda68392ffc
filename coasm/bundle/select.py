"""Which image a user means: ``gfx942``, ``gfx942#2`` (of bundle 2), or a bundle entry ID."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from coasm.codeobject.elf import EM_AMDGPU
from coasm.errors import CoasmError

if TYPE_CHECKING:
    from coasm.bundle.images import Entry

__all__ = ["carries", "kind_of", "listed", "matching", "resolve", "specs", "split"]

_NUMBERED = re.compile(r"(.+?)(?:#([0-9]+))?\Z", re.DOTALL)
#: What the files that :func:`find` reads start with.
_MAGICS = (
    *(b"__CLANG_OFFLOAD_BUNDLE__", b"CCOB", b"!<arch>\n", b"!<thin>\n", b"\x10\xff\x10\xad"),
    *(b"KPAK", b"MZ"),
)
#: What an object file of Windows starts with: its machine, x86-64 or ARM64.
_COFF = (b"\x64\x86", b"\x64\xaa")


def matching(entries: Sequence[Entry], spec: str) -> list[Entry]:
    """The entries that *spec* names: the ID or the target as they stand, or else the processor."""
    parts = _NUMBERED.match(spec)
    if parts is None:
        return []
    name, number = parts[1], parts[2]
    if number is not None:
        entries = [entry for entry in entries if entry.number == int(number)]
    exact = [entry for entry in entries if name in (entry.target, entry.id) and name]
    return exact or [entry for entry in entries if entry.target.partition(":")[0] == name]


def resolve(entries: Sequence[Entry], spec: str, path: str) -> Entry:
    """The one entry that *spec* names.

    Raises:
        CoasmError: none, or several.
    """
    found = matching(entries, spec)
    if not found:
        raise CoasmError(f"{path}: no {spec} in it; there are {listed(entries)}")
    if len(found) > 1:
        names = [entry.name for entry in found]
        if len(set(names)) < len(names):
            names = [f"{entry.id}#{entry.number}" for entry in found]
        raise CoasmError(f"{path}: {spec} is there {len(found)} times; name one: {_few(names)}")
    return found[0]


def listed(entries: Sequence[Entry]) -> str:
    """The targets of *entries*, each once."""
    return _few(list(dict.fromkeys(entry.target or entry.id for entry in entries)))


def _few(names: Sequence[str]) -> str:
    shown = ", ".join(names[:40])
    return shown if len(names) <= 40 else f"{shown} and {len(names) - 40} more"


def split(spec: str) -> tuple[str, str]:
    """``FILE:TARGET`` as its two parts; the second is empty where *spec* is a file's name alone."""
    if os.path.exists(spec):
        return spec, ""
    for at, char in enumerate(spec):
        target = spec[at + 1 :]
        if char == ":" and target and "/" not in target and os.path.isfile(spec[:at]):
            return spec[:at], target
    return spec, ""


def carries(path: str | os.PathLike[str]) -> bool:
    """Whether a file is of a kind that carries code objects, and not itself one."""
    try:
        if not os.path.isfile(path):  # opening a pipe would wait for its other end
            return False
        with open(path, "rb") as file:
            head = file.read(24)
    except OSError:
        return False
    if head.startswith(b"\x7fELF"):
        return len(head) >= 20 and int.from_bytes(head[18:20], "little") != EM_AMDGPU
    if head[:2] in _COFF:
        from coasm.bundle.portable import is_portable

        return is_portable(head)
    return head.startswith(_MAGICS)


def specs(path: str) -> list[str]:
    """``FILE:TARGET`` of each image in a file that carries code objects.

    Raises:
        CoasmError: it is damaged, or carries none.
    """
    from coasm.bundle.images import find

    entries = find(path)
    names = [entry.name for entry in entries]
    if len(set(names)) < len(names):
        names = [f"{entry.id}#{entry.number}" for entry in entries]
    return [f"{path}:{name}" for name in names]


def kind_of(data: bytes) -> str:
    """What an image is, by its first bytes: ``code object``, or another format in words."""
    if data.startswith(b"\x7fELF"):
        return "code object"
    if data.startswith((b"BC\xc0\xde", b"\xde\xc0\x17\x0b")):
        return "LLVM bitcode"
    if data.startswith(b"\x03\x02\x23\x07"):
        return "SPIR-V"
    return "not a code object"
