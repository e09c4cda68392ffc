"""A listing → a relocatable object → a code object, as ``coasm asm`` does it.

The same function serves the check of ``coasm disasm``: what is checked is what will be built.
"""

from __future__ import annotations

import re
import struct
from typing import NamedTuple

from coasm.asm.linking import NO_PADDING, linker_options, unpadded
from coasm.asm.names import parse_stand_ins
from coasm.asm.pins import Pin, marked_positions, marked_source
from coasm.codeobject.elf import SHT_STRTAB, SHT_SYMTAB, Elf
from coasm.codeobject.layout import SYMBOL, change_section_header, change_symbol
from coasm.llvm import Llvm, limits
from coasm.llvm.run import PLAIN, Setup, assemble, link
from coasm.target import TargetID

__all__ = [
    "Built",
    "Declared",
    "assemble_listing",
    "encode",
    "feature_list",
    "link_object",
]

_LABELS = r'\s*(?:(?:"(?:[^"\\]|\\.)*"|[^\s:"]+):\s*)*'


class Declared(NamedTuple):
    """What a source is assembled for: its target, its code object version, extra features.

    A version of 0 is LLVM's default.
    """

    target: TargetID
    code_object_version: int
    features: tuple[str, ...] = ()


class Built(NamedTuple):
    """An assembled listing.

    ``object`` is the relocatable object with the pins restored, ``plain`` what LLVM wrote;
    ``pins`` are those of the text and ``lost`` the ones whose instruction LLVM now encodes
    otherwise. ``positions`` is line → (section index, offset in ``plain``) for marked lines.
    ``object`` is None where the assembler refused the text: see ``messages``. ``text`` is what it
    was given in the end, where pins of another length had to become data.
    """

    object: bytes | None
    plain: bytes | None
    messages: str
    pins: tuple[Pin, ...] = ()
    lost: tuple[Pin, ...] = ()
    positions: dict[int, tuple[int, int]] | None = None
    text: str | None = None


def assemble_listing(
    text: str,
    what: Declared,
    llvm: Llvm,
    *,
    mark_lines: list[int] | None = None,
    setup: Setup = PLAIN,
) -> Built:
    """Assemble a listing and restore its pins and the symbols' own names.

    With *mark_lines* the positions of those lines (0-based) are found too, in ``positions``.
    """
    pins, source = marked_source(text, mark_lines or ())
    features = ",".join(feature_list(what))
    made = assemble(llvm, source, what.target, what.code_object_version, features, setup)
    if made.data is None:
        return Built(None, None, made.messages, tuple(pins))
    elf = Elf(made.data, "the assembled object")
    limits.check_code(sum(len(part.data) for part in elf.sections if part.code), len(source))
    positions = marked_positions(elf)
    data = bytearray(made.data)
    lost: list[Pin] = []
    resized: list[Pin] = []
    for pin in pins:
        place = positions.get(pin.line)
        if place is None:
            continue  # not assembled (conditional text)
        section = elf.sections[place[0]]
        if section.data[place[1] : place[1] + len(pin.llvm)] != pin.llvm:
            lost.append(pin)
        elif len(pin.llvm) == len(pin.original):
            at = section.offset + place[1]
            data[at : at + len(pin.original)] = pin.original
        else:
            resized.append(pin)
    if resized and mark_lines is None:
        resolved = _as_data(text, resized)
        again = assemble_listing(resolved, what, llvm, setup=setup)
        # The distances of branches are final only now: which pins are lost shows in that run.
        return again._replace(
            plain=made.data, pins=tuple(pins), positions=positions, text=again.text or resolved
        )
    restored = _rename(bytes(data), parse_stand_ins(text))
    return Built(restored, made.data, made.messages, tuple(pins), tuple(lost), positions)


def _as_data(text: str, pins: list[Pin]) -> str:
    """The text with the originals of *pins*, which have another length, as data."""
    lines = text.split("\n")
    for pin in pins:
        words = ", ".join(f"{w:#010x}" for (w,) in struct.iter_unpack("<I", pin.original))
        code = lines[pin.line].split("//", 1)[0]
        label = re.match(_LABELS, code)
        lines[pin.line] = f"{label[0] if label else ''} .long {words}"
    return "\n".join(lines)


def encode(text: str) -> bytes:
    """The bytes of a source, as they were before it was decoded."""
    return text.encode("utf-8", "surrogateescape")


def _rename(data: bytes, names: dict[str, str]) -> bytes:
    """Give the symbols that are stand-ins their own names: a longer string table at the end."""
    if not names:
        return data
    elf = Elf(data, "the assembled object")
    table = next(s for s in elf.sections if s.type == SHT_SYMTAB)
    strings = elf.sections[table.link]
    assert strings.type == SHT_STRTAB
    result = bytearray(data)
    grown = bytearray(strings.data)
    for symbol in elf.symbols:
        real_name = names.get(symbol.name)
        if real_name is not None:
            change_symbol(result, table.offset + SYMBOL.size * symbol.index, name=len(grown))
            grown += real_name.encode("utf-8", "surrogateescape") + b"\0"
    change_section_header(result, elf.header_of(strings), offset=len(result), size=len(grown))
    return bytes(result) + bytes(grown)


def link_object(data: bytes, llvm: Llvm, linking: tuple[str, ...] = ()) -> bytes:
    """Link one relocatable object into a code object.

    *linking* are options beside those that every code object is linked with, as
    :func:`coasm.asm.linking.linking_of` finds them.

    Raises:
        AssemblyError: the linker refused it.
    """
    linked = link(llvm, [data], linker_options(linking))
    return unpadded(linked) if NO_PADDING in linking else linked


def feature_list(what: Declared) -> tuple[str, ...]:
    """The features that the assembler needs beside the processor's name."""
    return what.target.features + what.features
