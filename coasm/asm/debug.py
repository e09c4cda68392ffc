"""Debug information belongs to the code that it was made for.

A listing has the debug sections as data: offsets and addresses in them are numbers that no edit
moves. So its head says which code they are of, and what is built from other code has none.
"""

from __future__ import annotations

import re
import struct

from coasm.codeobject.elf import Elf, Section
from coasm.codeobject.layout import change_section_header

__all__ = ["debug_line", "describes", "is_debug", "without_debug"]

_LINE = re.compile(r"^// coasm: debug information of code ([0-9a-f]{64})[ \t\r]*$", re.M)
_NAMES = (".debug_", ".zdebug_", ".gdb_index", ".rela.debug_", ".rel.debug_")
#: The linker leaves such a section out. Source: the System V ABI, ``sh_flags``.
_SHF_EXCLUDE = 0x80000000


def is_debug(section: Section) -> bool:
    """Whether a section is debug information."""
    return not section.alloc and section.name.startswith(_NAMES)


def _digest(elf: Elf) -> str:
    """Of the code and where it is loaded."""
    from hashlib import sha256

    digest = sha256()
    for section in elf.sections:
        if section.code:
            digest.update(struct.pack("<QQ", section.addr, section.size) + section.data)
    return digest.hexdigest()


def debug_line(elf: Elf) -> str | None:
    """The line of a listing's head that says which code its debug information is of."""
    if not any(is_debug(section) for section in elf.sections):
        return None
    return f"// coasm: debug information of code {_digest(elf)}"


def describes(text: str, linked: bytes) -> bool:
    """Whether the debug information of the listing *text* is of the code of a linked object."""
    found = _LINE.search(text) if "// coasm: debug " in text else None
    return found is None or found[1] == _digest(Elf(linked, "the linked object"))


def without_debug(data: bytes) -> bytes:
    """A relocatable object whose debug information the linker leaves out."""
    elf = Elf(data, "the assembled object")
    out = bytearray(data)
    for section in elf.sections:
        if is_debug(section):
            change_section_header(out, elf.header_of(section), flags=section.flags | _SHF_EXCLUDE)
    return bytes(out)
