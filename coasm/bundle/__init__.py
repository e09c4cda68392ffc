"""Offload bundles in executables and libraries: find, unpack, put back."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from coasm.bundle.embedding import Change, Embedded, embed
    from coasm.bundle.images import Container, Entry, extract, find

__all__ = ["Change", "Container", "Embedded", "Entry", "embed", "extract", "find"]

_ROOMS = {
    **dict.fromkeys(("Change", "Embedded", "embed"), "embedding"),
    **dict.fromkeys(("Container", "Entry", "extract", "find"), "images"),
}


def __getattr__(name: str) -> Any:
    """The names above, imported when they are first asked for: plain code objects need none."""
    if name in _ROOMS:
        from importlib import import_module

        return getattr(import_module(f"coasm.bundle.{_ROOMS[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
