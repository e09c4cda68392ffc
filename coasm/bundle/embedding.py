"""Put rebuilt code objects back into the file that carries them.

In place where the new bundle fits (the zero bytes that follow the old one count); else in a new
segment, with the wrapper's pointer moved and the old bundle zeroed, so that no reader finds it. The
result is read again before it is handed out: the new objects must be in it, all others unchanged.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import groupby
from typing import TYPE_CHECKING

from coasm.bundle.compressed import MAX_UNPACKED, pack
from coasm.bundle.grow import add_segment, move_section
from coasm.bundle.host import Host, HostSection
from coasm.bundle.images import Container, Entry, contents, entries_of, find, is_bundle, mapped
from coasm.bundle.kpack import KPACK_MAGIC, rewritten
from coasm.bundle.portable import Portable, add_section, is_portable, set_checksum
from coasm.bundle.select import matching, resolve
from coasm.bundle.table import extended, replace, target_of
from coasm.codeobject import CodeObject, load
from coasm.errors import CoasmError, FormatError, UnsupportedError
from coasm.opening import open_code_object

if TYPE_CHECKING:
    from coasm.bundle.compressed import Buffer

__all__ = ["Change", "Embedded", "check", "choose", "embed", "is_build"]


@dataclass(frozen=True)
class Change:
    """What became of one replaced image. Sizes are bytes, ``old`` and ``new`` those of the image.

    ``where`` is ``unchanged`` (the same bytes), ``in place``, ``new segment``, ``new section`` (of
    a Windows file) or ``moved section``. ``old`` is 0 for an object that was added. ``notes`` are
    what a user should know.
    """

    entry: Entry
    old: int
    new: int
    where: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Embedded:
    """The new file, and what has changed in it, in the order of the file."""

    data: bytes
    changes: tuple[Change, ...]


def embed(
    path: str | os.PathLike[str],
    replacements: Mapping[str, bytes | str | os.PathLike[str]],
    additions: Mapping[str, bytes | str | os.PathLike[str]] | None = None,
) -> Embedded:
    """The file at *path* with other code objects; nothing is written.

    *replacements* is target → the rebuilt code object, as bytes or by what names it (see
    :mod:`coasm.opening`). A target is ``gfx942``, or ``gfx942#2`` for that of bundle 2. Where
    several bundles have the target, the one whose kernels are those of the new object is meant, if
    there is just one. *additions* are objects for targets that a bundle does not have yet; which
    bundle is told in the same way.

    Raises:
        CoasmError: a target that is not there or ambiguous, or the object does not fit it: another
            target or code object version, or without one of the kernels (see :func:`check`).
        UnsupportedError: there is no room, and no way to make some.
    """
    name = os.fspath(path)
    entries = find(path)
    new: dict[Entry, tuple[CodeObject, tuple[str, ...]]] = {}
    with mapped(path) as (data, stamp):
        if any(e.container.path == name and e.container.stamp != stamp for e in entries):
            raise FormatError(f"{name}: has changed while it was read")
        for spec, source in replacements.items():
            if isinstance(source, bytes):
                rebuilt = load(source, name=f"the object for {spec}")
            else:
                rebuilt = open_code_object(source)
            entry = choose(data, entries, spec, rebuilt, name)
            if entry in new:
                raise CoasmError(f"{name}: {entry.name} is to be replaced twice")
            if entry.container.path != name:
                raise UnsupportedError(
                    f"{name}: its objects are in {entry.container.path}; embed there"
                )
            ((_, old),) = _images(data, [entry])
            new[entry] = (rebuilt, check(old, rebuilt, f"{name}:{entry.name}"))
        for spec, source in (additions or {}).items():
            rebuilt = open_code_object(source)
            entry, notes = added(data, entries, spec, rebuilt, name)
            if entry in new:
                raise CoasmError(f"{name}: {entry.name} is to be added twice")
            new[entry] = (rebuilt, notes)
        out, where = _replaced(data, name, {entry: co.data for entry, (co, _) in new.items()})
        _prove(data, entries, out, {entry: co.data for entry, (co, _) in new.items()}, name)
    changes = (
        Change(entry, entry.size, len(co.data), where[entry.container], notes)
        for entry, (co, notes) in new.items()
    )
    return Embedded(
        out, tuple(sorted(changes, key=lambda c: (c.entry.container.offset, c.entry.index)))
    )


def is_build(path: str, original: str, added: Sequence[str] = ()) -> bool:
    """Whether the file at *path* carries what *original* does: objects of the same bundle IDs.

    It may also have those for the targets that are *added*.
    """
    try:
        new, old = (Counter(entry.id for entry in find(name)) for name in (path, original))
        return not old - new and {target_of(entry_id) for entry_id in new - old} <= set(added)
    except CoasmError:
        return False


def choose(
    data: Buffer, entries: Sequence[Entry], spec: str, rebuilt: CodeObject, path: str
) -> Entry:
    """The entry of *entries* that *rebuilt* is to replace: the one named *spec*.

    Raises:
        CoasmError: none, or several whose kernels do not tell which.
    """
    found = matching(entries, spec)
    if len(found) < 2:
        return resolve(entries, spec, path)
    kernels = {kernel.name for kernel in rebuilt.kernels}
    same = []
    for entry, old in _images(data, found):
        try:
            if {kernel.name for kernel in load(old, name=entry.name).kernels} == kernels:
                same.append(entry)
        except CoasmError:
            continue  # no code object: not what is to be replaced
    return same[0] if len(same) == 1 else resolve(entries, spec, path)


def added(
    data: Buffer, entries: Sequence[Entry], spec: str, new: CodeObject, path: str
) -> tuple[Entry, tuple[str, ...]]:
    """The entry that *new* becomes, for a target that its bundle does not have, and notes on it.

    The bundle is the one that *spec* numbers (``gfx950#2``), the only one, or else the only one
    with the kernels of *new*. Its first object is what *new* has to go with, but for the target.

    Raises:
        CoasmError: it is there already, is for another target, or it is open where it belongs.
        UnsupportedError: the bundle is of a kind to which none can be added.
    """
    target, _, number = spec.partition("#")
    if target != str(new.target):
        raise CoasmError(f"{new.name}: is for {new.target}, not for {target}")
    firsts = {entry.container: entry for entry in reversed(entries) if entry.target}
    firsts = {c: e for c, e in firsts.items() if not number or str(c.number) == number}
    kernels = {kernel.name for kernel in new.kernels}
    if len(firsts) > 1:
        images = dict(_images(data, reversed(firsts.values())))
        firsts = {
            c: e
            for c, e in firsts.items()
            if {kernel.name for kernel in load(images[e], name=e.name).kernels} == kernels
        }
    if len(firsts) != 1:
        raise CoasmError(f"{path}: which bundle {target} belongs to is open; number it: {target}#1")
    ((container, first),) = firsts.items()
    if container.format not in ("bundle", "CCOB") or container.path != path:
        raise UnsupportedError(f"{container.where}: nothing can be added to {container.format}")
    if any(entry.target == target for entry in entries if entry.container == container):
        raise CoasmError(f"{path}: has {target} already; replace it")
    ((_, old),) = _images(data, [first])
    notes = check(old, new, f"{path}:{first.name}", other_target=True)
    entry_id = first.id.removesuffix(first.target) + target
    entry = Entry(container, len(container.table.images), entry_id, target, 0, 0)
    return entry, notes


def check(
    old: bytes, rebuilt: CodeObject, where: str, *, other_target: bool = False
) -> tuple[str, ...]:
    """Refuse an object that the host program could not use in place of *old*; notes on the rest.

    With *other_target* it is one to stand beside it.

    Raises:
        CoasmError: another target ID or code object version, or a kernel of *old* is missing.
        UnsupportedError: what is there is no code object.
    """
    if not old.startswith(b"\x7fELF"):
        raise UnsupportedError(f"{where}: is not a code object (LLVM bitcode, or another format)")
    original = load(old, name=where)
    if rebuilt.target != original.target and not other_target:
        raise CoasmError(f"{rebuilt.name}: is for {rebuilt.target}; {where} is {original.target}")
    if rebuilt.code_object_version != original.code_object_version:
        raise CoasmError(
            f"{rebuilt.name}: is code object v{rebuilt.code_object_version}; {where} is "
            f"v{original.code_object_version}"
        )
    kernels = {kernel.name: kernel for kernel in rebuilt.kernels}
    missing = [kernel.name for kernel in original.kernels if kernel.name not in kernels]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise CoasmError(f"{rebuilt.name}: lacks the kernel {missing[0]}{more} of {where}")
    notes = [
        f"lacks the symbol {symbol}, which the host program may look up"
        for symbol in sorted(_globals(original) - _globals(rebuilt))
    ]
    for kernel in original.kernels:
        if _arguments(kernel.metadata) != _arguments(kernels[kernel.name].metadata):
            notes.append(f"{kernel.name}: takes other arguments than the host program passes")
    added = len(kernels.keys() - {kernel.name for kernel in original.kernels})
    if added:
        notes.append(f"{added} new kernel{'s' * (added > 1)}, which the host program does not know")
    return tuple(notes)


def _globals(co: CodeObject) -> set[str]:
    """The names that the runtime can look up: defined dynamic symbols."""
    return {symbol.name for symbol in co.elf.dynamic_symbols[1:] if symbol.shndx}


def _arguments(metadata: Mapping[str, object]) -> list[object]:
    """Where each argument that the host passes is, its size and kind."""
    found = metadata.get(".args")
    return [
        [argument.get(key) for key in (".offset", ".size", ".value_kind")]
        for argument in (found if isinstance(found, list) else [])
        if isinstance(argument, dict) and "hidden" not in str(argument.get(".value_kind"))
    ]


def _replaced(
    data: Buffer, name: str, new: Mapping[Entry, bytes]
) -> tuple[bytes, dict[Container, str]]:
    """The file's new bytes, and where each changed bundle is in it."""
    if bytes(data[: len(KPACK_MAGIC)]) == KPACK_MAGIC:
        objects = {(entry.container.member, entry.target): image for entry, image in new.items()}
        made = rewritten(data, name, objects)
        same = made == bytes(data)
        return made, {e.container: "unchanged" if same else "in place" for e in new}
    out = bytearray(data)
    where: dict[Container, str] = {}
    larger: list[tuple[Container, bytes]] = []
    bare: list[tuple[Container, bytes]] = []
    for container in dict.fromkeys(entry.container for entry in new):
        bundle = contents(data, container)
        images = {
            entry.index: image
            for entry, image in new.items()
            if entry.container == container
            and bundle[entry.offset : entry.offset + entry.size] != image
        }
        ids = {entry.index: entry.id for entry in new if entry.index in images}
        where[container] = "in place" if images else "unchanged"
        if not images:
            continue
        if container.format == "section":
            packed = images[0]
        else:
            room = MAX_UNPACKED if container.method else container.room
            table = container.table
            if max(images) >= len(table.images):
                bundle, table = extended(
                    bundle, table, [ids[n] for n in sorted(images) if n >= len(table.images)]
                )
            packed = replace(bundle, table, images, room)
            if container.method:
                packed = pack(packed, container.version, container.method, container.room)
        fits = len(packed) <= container.room
        # Nothing says where these end: what follows must be nothing, or what LLVM took before.
        if container.format == "section":
            fits = len(packed) == container.room
        elif container.format == "CCOB" and container.version == 1:
            fits = len(packed) == container.room or (fits and container.size < container.room)
        if is_bundle(bytes(data[:24])):
            bare.append((container, packed))
        elif fits:
            start = container.offset
            out[start : start + container.room] = packed.ljust(container.room, b"\0")
        else:
            larger.append((container, packed))
    for container, packed in reversed(bare):
        _splice(out, container, packed, last=container.offset + container.room >= len(data))
    _grow(out, data, name, larger, where)
    if is_portable(bytes(data[:24])):
        set_checksum(out, Portable(data, 0, len(data), name))
    return bytes(out), where


def _splice(out: bytearray, container: Container, packed: bytes, *, last: bool) -> None:
    """Put a bundle into a file that consists of bundles; those behind it may move."""
    room = container.room
    if last and room == container.size:
        room, padded = container.size, packed
    else:
        padded = packed.ljust(
            room if len(packed) <= room else -(-len(packed) // 4096) * 4096, b"\0"
        )
    out[container.offset : container.offset + room] = padded


def _grow(
    out: bytearray,
    data: Buffer,
    name: str,
    larger: list[tuple[Container, bytes]],
    where: dict[Container, str],
) -> None:
    """Find another place for the bundles that do not fit where they are."""
    if not larger:
        return
    first = larger[0][0]
    if first.member:
        raise UnsupportedError(
            f"{first.where}: the new bundle does not fit in an archive member; take the member out "
            "(ar x), embed there, and put it back"
        )
    if first.section == "":
        raise UnsupportedError(
            f"{first.where}: the new bundle does not fit, and in a file without section headers "
            "none is moved"
        )
    if is_portable(bytes(data[:24])):
        _grow_portable(out, Portable(data, 0, len(data), name), larger, where)
        return
    host = Host(data, 0, len(data), name)
    sections = {container: _section(host, container) for container, _ in larger}
    if host.relocatable:
        for container, packed in larger:
            section = sections[container]
            if container.offset + container.room < section.offset + section.size:
                raise UnsupportedError(
                    f"{container.where}: the new bundle does not fit in front of the next one"
                )
            start = bytes(out[section.offset : container.offset])
            move_section(out, host, section, start + packed)
            where[container] = "moved section"
        return
    pointers = host.pointers()
    moving = []
    for container, _ in larger:
        section = sections[container]
        address = section.addr + container.offset - section.offset
        found = [pointer for pointer in pointers if pointer.value == address]
        if not found:
            raise UnsupportedError(
                f"{container.where}: the new bundle does not fit, and cannot be moved: no "
                ".hipFatBinSegment points to it"
            )
        moving.append((container, found, address))
    places = add_segment(out, host, sections[first], [packed for _, packed in larger])
    for (container, found, address), place in zip(moving, places, strict=True):
        where[container] = "new segment"
        out[container.offset : container.offset + container.size] = bytes(container.size)
        for pointer in found:
            if pointer.addend is not None:
                _add(out, pointer.addend, place - address)
            if int.from_bytes(out[pointer.field : pointer.field + 8], "little") == address:
                out[pointer.field : pointer.field + 8] = place.to_bytes(8, "little")


def _grow_portable(
    out: bytearray,
    host: Portable,
    larger: list[tuple[Container, bytes]],
    where: dict[Container, str],
) -> None:
    """The same for a Windows file; base relocations of the pointers stay as they are."""
    fields = host.pointers()
    addresses = []
    for container, _ in larger:
        part = next(s for s in host.sections if s.offset <= container.offset < s.offset + s.size)
        address = host.image_base + part.address + container.offset - part.offset
        if not host.linked or address not in fields.values():
            raise UnsupportedError(
                f"{container.where}: the new bundle does not fit, and cannot be moved: nothing "
                "points to it"
            )
        addresses.append(address)
    places = add_section(out, host, larger[0][0].section, [packed for _, packed in larger])
    for (container, _), address, place in zip(larger, addresses, places, strict=True):
        where[container] = "new section"
        out[container.offset : container.offset + container.size] = bytes(container.size)
        for field, value in fields.items():
            if value == address:
                out[field : field + 8] = place.to_bytes(8, "little")


def _add(out: bytearray, at: int, distance: int) -> None:
    value = int.from_bytes(out[at : at + 8], "little") + distance
    out[at : at + 8] = (value & (1 << 64) - 1).to_bytes(8, "little")


def _section(host: Host, container: Container) -> HostSection:
    return next(
        section
        for section in host.sections
        if section.name == container.section
        and section.offset <= container.offset < section.offset + section.size
    )


def _prove(
    data: Buffer, before: Sequence[Entry], out: bytes, new: Mapping[Entry, bytes], name: str
) -> None:
    """Read the result: it must hold every image of the file, with the *new* ones replaced."""
    expected = Counter(
        (entry.id, sha256(new.get(entry, image)).digest()) for entry, image in _images(data, before)
    )
    expected += Counter((e.id, sha256(image).digest()) for e, image in new.items() if not e.size)
    after = entries_of(out, name)
    found = Counter((entry.id, sha256(image).digest()) for entry, image in _images(out, after))
    for entry_id, _ in (expected - found) + (found - expected):
        raise FormatError(f"{name}: {entry_id} cannot be embedded: it does not read back")


def _images(data: Buffer, entries: Iterable[Entry]) -> Iterator[tuple[Entry, bytes]]:
    """The bytes of each entry; every bundle is unpacked once."""
    for container, members in groupby(entries, key=lambda entry: entry.container):
        bundle = contents(data, container)
        for entry in members:
            yield entry, bundle[entry.offset : entry.offset + entry.size]
