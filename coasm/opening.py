"""A code object by what a user names: the one way in for every command and the API.

A *spec* is the path of a code object or of a listing, ``LIBRARY:TARGET`` (``LIBRARY:TARGET#N`` for
that of bundle N) for one inside of an executable or library, or ``-`` for standard input. A listing
stands for the object that ``coasm asm`` makes of it.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, NamedTuple

from coasm.codeobject import CodeObject, load
from coasm.codeobject.model import read_input
from coasm.errors import CoasmError, FormatError, UnsupportedError

if TYPE_CHECKING:
    from coasm.asm.source import SourceOptions

__all__ = ["Given", "is_listing", "open_code_object", "read_given"]

_SUFFIXES = (".s", ".S", ".asm", ".amdgcn")
#: What a file that is not called so holds where it is a listing all the same.
_DIRECTIVES = (b".amdgcn_target", b".amdhsa_kernel", b".amdgpu_metadata")


class Given(NamedTuple):
    """What a spec names: the bytes of a code object, or of a *listing*; *name* is for messages."""

    name: str
    data: bytes
    listing: bool = False

    @property
    def text(self) -> str:
        """The text of a listing; a byte that is no UTF-8 is kept as ``surrogateescape`` does."""
        return self.data.decode("utf-8", "surrogateescape")


def open_code_object(
    source: CodeObject | str | os.PathLike[str] | bytes,
    *,
    name: str | None = None,
    llvm: str | None = None,
    options: SourceOptions | None = None,
) -> CodeObject:
    """The code object that *source* is or names: a spec, its bytes, or the text of a listing.

    A string that holds a line feed is the text of a listing; *llvm* is the directory of the tools
    that assemble one, *options* what is said of it beside its text. *name* stands for the object in
    messages.

    Raises:
        CoasmError: it is not there, damaged, of a kind that is not handled, or ambiguous.
        AssemblyError: a listing that does not assemble; the text names its lines.
    """
    if isinstance(source, CodeObject):
        co = source
    elif isinstance(source, bytes):
        co = load(source, name=name)
    elif isinstance(source, str) and "\n" in source:
        return _assembled(source, name or "<listing>", llvm, options)
    else:
        given = read_given(os.fspath(source))
        if given.listing:
            return _assembled(given.text, name or given.name, llvm, options)
        co = load(given.data, name=name or given.name)
    if options is not None:
        options.refuse(co.name)
    return co


def read_given(spec: str) -> Given:
    """What *spec* names, read and not looked into.

    Raises:
        FormatError: a file that is missing, cannot be read, or is damaged.
        CoasmError: a library whose target is missing, unknown, or there several times.
    """
    if spec == "-":
        data = sys.stdin.buffer.read()
        return Given("<stdin>", data, not data.startswith(b"\x7fELF"))
    from coasm.bundle.select import carries, split

    path, target = split(spec)
    if target:
        return Given(spec, _inside(path, target))
    if carries(path):
        raise _unnamed(path)
    data = read_input(path)
    return Given(path, data, is_listing(path, data))


def is_listing(path: str, data: bytes) -> bool:
    """Whether a file's *data* is a listing: the name says so, or a directive that is in it."""
    if data.startswith(b"\x7fELF"):
        return False
    return path.endswith(_SUFFIXES) or any(word in data for word in _DIRECTIVES)


def _unnamed(path: str) -> CoasmError:
    """What is said of a library where one object is wanted."""
    from coasm.bundle.images import find
    from coasm.bundle.select import listed

    entries = find(path)
    example = f"{path}:{entries[0].target or entries[0].id}"
    return UnsupportedError(
        f"{path}: carries {len(entries)} code object{'s' * (len(entries) > 1)} "
        f"({listed(entries)}); name one, for example {example}, or use coasm extract"
    )


def _inside(path: str, target: str) -> bytes:
    """The code object for *target* out of the file at *path*."""
    from coasm.bundle.images import extract, find
    from coasm.bundle.select import carries, kind_of, resolve

    if not carries(path):
        raise FormatError(f"{path}: carries no code objects, so {target} cannot be taken out of it")
    data = extract(resolve(find(path), target, path))
    kind = kind_of(data)
    if kind != "code object":
        raise UnsupportedError(f"{path}:{target}: is no code object ({kind})")
    return data


def _assembled(text: str, name: str, llvm: str | None, options: SourceOptions | None) -> CodeObject:
    """The code object that ``coasm asm`` makes of a listing."""
    from coasm.asm.source import NO_OPTIONS, build

    made = build(text, name, options or NO_OPTIONS, llvm)
    return made.co
