"""Output files: written beside their name and renamed, so that no half of one is ever seen."""

from __future__ import annotations

import os
import sys
import tempfile

from coasm.errors import OutputError

__all__ = ["check_target", "write_file"]


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
    if not force and os.path.exists(path):
        raise OutputError(f"{path}: exists and may have been edited; --force overwrites it")


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
        handle, temporary = tempfile.mkstemp(dir=os.path.dirname(real), prefix=".coasm-")
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
