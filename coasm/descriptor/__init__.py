"""The kernel descriptor: 64 bytes ↔ named fields ↔ ``.amdhsa_*`` directives, from one bit table."""

from coasm.descriptor.codec import Descriptor, decode, describe, differences, pack
from coasm.descriptor.directives import directives, encode, obstacle
from coasm.descriptor.resources import Resources, UserSgpr, resources
from coasm.descriptor.table import ENTRY_OFFSET, SIZE, Field, fields_of

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
    "fields_of",
    "obstacle",
    "pack",
    "resources",
]
