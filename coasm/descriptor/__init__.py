"""The kernel descriptor: 64 bytes ↔ named fields ↔ ``.amdhsa_*`` directives, from one bit table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coasm.descriptor.codec import Descriptor, decode, describe, differences, pack, preload_entry
from coasm.descriptor.directives import directives, encode, extra_sgprs, obstacle
from coasm.descriptor.table import ENTRY_OFFSET, SIZE, Field, fields_of

if TYPE_CHECKING:
    from coasm.descriptor.declared import Resources, UserSgpr, resources

__all__ = [
    "ENTRY_OFFSET",
    "SIZE",
    "Descriptor",
    "Field",
    "Resources",
    "UserSgpr",
    "decode",
    "describe",
    "differences",
    "directives",
    "encode",
    "extra_sgprs",
    "fields_of",
    "obstacle",
    "pack",
    "preload_entry",
    "resources",
]


def __getattr__(name: str) -> Any:
    """The resources, imported when first asked for: ``coasm disasm`` does not need them."""
    if name in ("Resources", "UserSgpr", "resources"):
        from coasm.descriptor import declared

        return getattr(declared, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
