"""A code object by the name that a user gives: a file, or one inside of a library."""

from __future__ import annotations

import os

from coasm.codeobject import CodeObject, load
from coasm.codeobject.elf import EM_AMDGPU

__all__ = ["is_code_object", "open_code_object"]


def is_code_object(path: str) -> bool:
    """Whether a file starts as an AMDGPU ELF file does."""
    try:
        if not os.path.isfile(path):  # opening a pipe would wait for its other end
            return False
        with open(path, "rb") as file:
            head = file.read(20)
    except OSError:
        return False
    return head.startswith(b"\x7fELF") and head[18:20] == EM_AMDGPU.to_bytes(2, "little")


def open_code_object(spec: str) -> CodeObject:
    """Load ``FILE``, or ``FILE:TARGET`` out of a file that carries code objects.

    Raises:
        CoasmError: it is not there, damaged, of a kind that is not handled, or ambiguous.
    """
    if not is_code_object(spec) and not os.path.isdir(spec):
        from coasm.bundle.select import open_object

        data, name = open_object(spec)
        return load(data, name=name)
    return load(spec)
