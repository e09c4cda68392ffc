"""Output files: written beside their name and renamed, so that no half of one is ever seen.

The rule of every command for a file that is there already: it is overwritten only with ``--force``,
unless it is empty, or an earlier build of the same (:func:`is_build`, and for libraries
:func:`coasm.bundle.embedding.is_build`), which can be built again.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from coasm.errors import CoasmError, OutputError

if TYPE_CHECKING:
    from coasm.codeobject import CodeObject

__all__ = ["check_replaced", "check_target", "is_build", "write_file"]


def check_target(path: str, *, force: bool, inputs: tuple[str, ...] = ()) -> None:
    """Refuse an output name before any work is done for it.

    Raises:
        OutputError: it exists and *force* is not given, it is one of the *inputs*, or its folder is
            missing.
    """
    if path == "-":
        return
    for name in inputs:
        if os.path.exists(path) and os.path.exists(name) and os.path.samefile(path, name):
            raise OutputError(f"{path}: the output would overwrite the input")
    if os.path.isdir(path):
        raise OutputError(f"{path}: is a directory")
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise OutputError(f"{folder}: no such directory")
    if not force and _holds_something(path):
        raise OutputError(f"{path}: exists and may have been edited; --force overwrites it")


def check_replaced(path: str, built: bool) -> None:
    """Refuse to write over a file that is not *built*, an earlier build of what is written.

    Raises:
        OutputError: it is there and is something else.
    """
    if not built and _holds_something(path):
        raise OutputError(f"{path}: exists and is no earlier build of this; --force overwrites it")


def _holds_something(path: str) -> bool:
    return path != "-" and os.path.isfile(path) and os.path.getsize(path) > 0


def is_build(path: str, new: CodeObject | None) -> bool:
    """Whether the file at *path* is a code object, with a kernel of *new* where that is given."""
    from coasm.codeobject import load

    try:
        old = load(path)
        if new is None:
            return True
        kernels = {kernel.symbol for kernel in old.kernels}
        return not kernels or any(kernel.symbol in kernels for kernel in new.kernels)
    except CoasmError:
        return False


def write_file(path: str, data: bytes) -> None:
    """Write *data* to *path* by way of a temporary file beside it; ``-`` is standard output.

    Raises:
        OutputError: the file cannot be written; what was there is left as it was.
    """
    if path == "-":
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        return
    # A device or a pipe is written to as it is; a link keeps pointing where it points.
    real = os.path.realpath(path)
    try:
        if os.path.exists(real) and not os.path.isfile(real):
            with open(real, "wb") as file:
                file.write(data)
            return
        temporary = os.path.join(os.path.dirname(real), f".coasm-{os.urandom(8).hex()}")
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            mode = os.stat(real).st_mode & 0o7777 if os.path.exists(real) else 0o666 & ~_umask()
            os.chmod(temporary, mode)
            os.replace(temporary, real)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror or error}") from None


def _umask() -> int:
    value = os.umask(0)
    os.umask(value)
    return value
