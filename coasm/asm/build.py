"""A listing → a relocatable object → a code object, as ``coasm asm`` does it.

The same function serves the check of ``coasm disasm``: what is checked is what will be built.
"""

from __future__ import annotations

import re
import struct
from typing import NamedTuple

from coasm.asm.names import parse_stand_ins
from coasm.asm.pins import Pin, find_pins, mark, marked_positions
from coasm.codeobject.elf import SHT_STRTAB, SHT_SYMTAB, Elf
from coasm.errors import AssemblyError, CoasmError, UnsupportedError
from coasm.llvm import Llvm
from coasm.llvm.run import assemble, link
from coasm.target import PROCESSORS, TargetID

__all__ = ["Built", "Declared", "assemble_listing", "declared", "link_object"]

_TARGET = re.compile(r'^\s*\.amdgcn_target\s+"amdgcn-amd-amdhsa-(?:unknown)?-([^"]+)"', re.M)
_VERSION = re.compile(r"^\s*\.amdhsa_code_object_version\s+(\d+)", re.M)
_FEATURES = re.compile(r"^// coasm: features((?: [+-][a-z0-9-]+)+)[ \t\r]*$", re.M)
_LABELS = re.compile(r'\s*(?:(?:"(?:[^"\\]|\\.)*"|[^\s:"]+):\s*)*')
_WRITES = frozenset((4, 5, 6))


class Declared(NamedTuple):
    """What a listing says of itself: its target, its code object version, extra features."""

    target: TargetID
    code_object_version: int
    features: tuple[str, ...] = ()


class Built(NamedTuple):
    """An assembled listing.

    ``object`` is the relocatable object with the pins restored, ``plain`` what LLVM wrote;
    ``pins`` are those of the text and ``lost`` the ones whose instruction LLVM now encodes
    otherwise. ``positions`` is line → (section index, offset in ``plain``) for marked lines.
    ``object`` is None where the assembler refused the text: see ``messages``.
    """

    object: bytes | None
    plain: bytes | None
    messages: str
    pins: tuple[Pin, ...] = ()
    lost: tuple[Pin, ...] = ()
    positions: dict[int, tuple[int, int]] | None = None


def target_from_text(text: str) -> TargetID:
    """The target ID that a text such as ``gfx90a:sramecc+:xnack-`` names.

    Raises:
        UnsupportedError: an unknown processor, or a setting it does not have.
    """
    name, *settings = text.split(":")
    processor = PROCESSORS.get(name)
    if processor is None:
        raise UnsupportedError(f"unknown gfx target {name!r}")
    values = {
        "xnack": "any" if processor.xnack else "",
        "sramecc": "any" if processor.sramecc else "",
    }
    for setting in settings:
        key, sign = setting[:-1], setting[-1:]
        if sign not in ("+", "-") or not values.get(key):
            raise UnsupportedError(f"target ID {text!r}: unknown setting {setting!r} of {name}")
        values[key] = "on" if sign == "+" else "off"
    return TargetID(processor, values["xnack"], values["sramecc"], 1 if processor.generic else 0)


def declared(text: str) -> Declared:
    """The target and version that a listing's directives name.

    Raises:
        UnsupportedError: it names none, or a version that LLVM does not write.
    """
    target, version = _TARGET.search(text), _VERSION.search(text)
    if target is None or version is None:
        missing = ".amdgcn_target" if target is None else ".amdhsa_code_object_version"
        raise UnsupportedError(f"the listing has no {missing} directive; coasm disasm writes one")
    number = int(version[1])
    if number not in _WRITES:
        raise UnsupportedError(f"LLVM does not write code object v{number}; it writes v4 to v6")
    found = target_from_text(target[1])
    extra = _FEATURES.search(text)
    return Declared(found, number, tuple(extra[1].split()) if extra else ())


def assemble_listing(
    text: str,
    target: TargetID,
    version: int,
    llvm: Llvm,
    *,
    features: tuple[str, ...] = (),
    mark_lines: list[int] | None = None,
    line_table: bool = False,
) -> Built:
    """Assemble a listing and restore its pins and the symbols' own names.

    With *mark_lines* the positions of those lines (0-based) are found too, in ``positions``.
    With *line_table* the object has one (see :func:`coasm.llvm.run.assembler_command`).
    """
    pins = find_pins(text)
    wanted = sorted({p.line for p in pins} | set(mark_lines or ()))
    source = mark(text, wanted) if wanted else text
    made = assemble(llvm, _encode(source), target, version, ",".join(features), line_table)
    if made.data is None:
        return Built(None, None, made.messages, tuple(pins))
    elf = Elf(made.data, "the assembled object")
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
        lines = text.split("\n")
        for pin in resized:
            words = ", ".join(f"{w:#010x}" for (w,) in struct.iter_unpack("<I", pin.original))
            code = lines[pin.line].split("//", 1)[0]
            label = _LABELS.match(code)
            lines[pin.line] = f"{label[0] if label else ''} .long {words}"
        again = assemble_listing(
            "\n".join(lines), target, version, llvm, features=features, line_table=line_table
        )
        # The distances of branches are final only now: which pins are lost shows in that run.
        return again._replace(plain=made.data, pins=tuple(pins), positions=positions)
    restored = _rename(bytes(data), parse_stand_ins(text))
    return Built(restored, made.data, made.messages, tuple(pins), tuple(lost), positions)


def _encode(text: str) -> bytes:
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
        own = names.get(symbol.name)
        if own is not None:
            struct.pack_into("<I", result, table.offset + 24 * symbol.index, len(grown))
            grown += own.encode("utf-8", "surrogateescape") + b"\0"
    header = elf.header.shoff + 64 * strings.index
    struct.pack_into("<QQ", result, header + 24, len(result), len(grown))
    return bytes(result) + bytes(grown)


def messages_for(
    path: str, text: str, target: TargetID, version: int, llvm: Llvm, features: tuple[str, ...]
) -> str:
    """The assembler's messages for the text as the user has it, with the user's file name."""
    plain = assemble(llvm, _encode(text), target, version, ",".join(features))
    return plain.messages.replace("<stdin>", path).rstrip()


def link_object(data: bytes, llvm: Llvm) -> bytes:
    """Link one relocatable object into a code object.

    Raises:
        AssemblyError: the linker refused it.
    """
    return link(llvm, [data])


def assemble_text(
    path: str, text: str, llvm: Llvm, *, line_table: bool = False
) -> tuple[Declared, Built]:
    """Assemble the listing *text* of the file *path* for the target that it names.

    With *line_table* the object has one (see :func:`coasm.llvm.run.assembler_command`).

    Raises:
        AssemblyError: the assembler refused it; the message has the user's file and line.
        UnsupportedError: it names no target, or one that cannot be written.
    """
    try:
        what = declared(text)
    except CoasmError as error:
        raise type(error)(f"{path}: {error}") from None
    features = feature_list(what)
    built = assemble_listing(
        text,
        what.target,
        what.code_object_version,
        llvm,
        features=features,
        line_table=line_table,
    )
    if built.object is None:
        raise AssemblyError(
            messages_for(path, text, what.target, what.code_object_version, llvm, features)
            or built.messages
        )
    return what, built


def feature_list(what: Declared) -> tuple[str, ...]:
    """The features that the assembler needs beside the processor's name."""
    settings = (("sramecc", what.target.sramecc), ("xnack", what.target.xnack))
    return (
        tuple(
            f"{'+' if value == 'on' else '-'}{name}"
            for name, value in settings
            if value in ("on", "off")
        )
        + what.features
    )
