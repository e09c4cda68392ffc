"""Folders for the tools' files (``tempfile`` takes longer to import than an object to link)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

__all__ = ["new_folder", "remove_folder", "scratch_folder"]


def new_folder() -> str:
    """A new folder that only this user can read, where ``TMPDIR`` says or in ``/tmp``."""
    for parent in (os.environ.get("TMPDIR"), "/tmp"):
        if parent:
            path = os.path.join(os.path.abspath(parent), f"coasm-{os.urandom(8).hex()}")
            with suppress(OSError):
                os.mkdir(path, 0o700)
                return path
    import tempfile

    return tempfile.mkdtemp(prefix="coasm-")


def remove_folder(path: str) -> None:
    """Remove a folder and the files in it, as far as that can be done."""
    with suppress(OSError):
        for name in os.listdir(path):
            os.unlink(os.path.join(path, name))
        os.rmdir(path)


@contextmanager
def scratch_folder() -> Iterator[str]:
    """A new folder, for the time of the block."""
    path = new_folder()
    try:
        yield path
    finally:
        remove_folder(path)
