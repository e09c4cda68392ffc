"""Edits of kernel descriptors and metadata. The descriptor is where a resource is changed; the
metadata follows it (:mod:`coasm.asm.follow`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from json import dumps
from typing import Any, NamedTuple

from coasm.asm.follow import FOLLOWS, marked
from coasm.asm.metadata_lines import metadata_span
from coasm.asm.names import parse_stand_ins
from coasm.descriptor import directives, encode
from coasm.editing.snapshot import Snapshot
from coasm.errors import AssemblyError, EditError
from coasm.notes.document import encode as encode_note
from coasm.notes.faults import faults
from coasm.notes.yaml import to_yaml
from coasm.reading import CodeObject, Kernel
from coasm.target import Family

__all__ = ["Declarations", "Spans", "blocks"]

#: A line → the line behind the last that becomes others, and those.
Spans = dict[int, tuple[int, list[str]]]

_BEGIN = re.compile(r"\s*\.amdhsa_kernel\s+(.+?)\s*(?:(?://|;).*)?\r?$")
_END = re.compile(r"\s*\.end_amdhsa_kernel\b")
_DIRECTIVE = re.compile(r"\s*\.amdhsa_(\w+)\s+(.+?)\s*(?:(?://|;).*)?\r?$")
_NUMBER = re.compile(r"0[xX][0-9a-fA-F]+|\d+")
_KERNARG, _LDS = "kernarg_size", "group_segment_fixed_size"
_SCRATCH, _PRIVATE = "private_segment_fixed_size", "enable_private_segment"
_VGPRS, _ACCUM, _SGPRS = "next_free_vgpr", "accum_offset", "next_free_sgpr"
#: VGPRs that an instruction can name; AGPRs have as many.
_NAMED = 256
_ENTRY = slice(16, 24)
#: Keys of the metadata that follow the descriptor.
_FOLLOWING = frozenset(
    f".{name}"
    for name in (
        *("group_segment_fixed_size", "private_segment_fixed_size", "kernarg_segment_size"),
        *("vgpr_count", "agpr_count", "sgpr_count", "uses_dynamic_stack", "wavefront_size"),
        "workgroup_processor_mode",
    )
)


class Block(NamedTuple):
    """A descriptor in a listing, its lines from *first* to before *end*; *given* is as written."""

    first: int
    end: int
    given: dict[str, str]


def blocks(snapshot: Snapshot) -> dict[str, Block]:
    """Kernel → its descriptor's lines, of those that are directives."""
    stand_ins = parse_stand_ins(snapshot.text)
    found: dict[str, Block] = {}
    name, first, given = None, 0, dict[str, str]()
    for number, line in enumerate(snapshot.lines):
        if name is None:
            begin = _BEGIN.match(line) if ".amdhsa_kernel" in line else None
            if begin is not None:
                spelled = begin[1].strip('"')
                name, first, given = stand_ins.get(spelled, spelled), number, {}
        elif _END.match(line):
            found[name] = Block(first, number + 1, given)
            name = None
        else:
            one = _DIRECTIVE.match(line)
            if one is not None:
                given[one[1]] = one[2]
    return found


class Declarations:
    """Edits of the descriptors and the metadata of one snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._asked: dict[str, dict[str, int]] = {}
        self._document: dict[Any, Any] | None = None
        self._blocks = blocks(snapshot)
        self._others: dict[str, tuple[str, ...] | None] = {}

    def __bool__(self) -> bool:
        return bool(self._asked) or self._document is not None

    @contextmanager
    def attempt(self) -> Iterator[Declarations]:
        """For edits that are given up where one of them is refused, or LLVM would refuse them."""
        before = deepcopy(self._asked), deepcopy(self._document)
        try:
            yield self
            self.spans()
        except EditError:
            self._asked, self._document = before
            raise

    # What is asked for.

    def resources(self, kernel: Kernel, asked: Mapping[str, int | None]) -> None:
        """Set ``vgprs``, ``agprs``, ``sgprs``, ``lds`` and ``scratch``, those that are numbers."""
        family = self._snapshot.co.target.processor.family
        given = self._numbers(kernel)
        wanted = dict(_wanted(given, family, asked, self._snapshot.co.target.name))
        self._ask(kernel, wanted)

    def add_argument(self, kernel: Kernel, name: str, keys: Mapping[str, Any]) -> int:
        """Add an argument behind all that are there; its offset."""
        entry = self._entry(kernel)
        arguments = entry.setdefault(".args", [])
        if any(one.get(".name") == name for one in arguments):
            raise EditError(f"{kernel.name} has an argument {name!r} already")
        size = keys[".size"]
        offset = _aligned(max([entry.get(".kernarg_segment_size", 0), *map(_end, arguments)]), size)
        made = dict(sorted({".name": name, ".offset": offset, **keys}.items()))
        at = next((i for i, one in enumerate(arguments) if _is_hidden(one)), len(arguments))
        entry[".args"] = [*arguments[:at], made, *arguments[at:]]
        self._grow(kernel, entry, offset + size, _alignment(size))
        return offset

    def retype_argument(self, kernel: Kernel, which: str | int, keys: Mapping[str, Any]) -> None:
        """Change keys of the argument of a name or an offset; one that becomes None goes."""
        entry = self._entry(kernel)
        arguments = entry.get(".args", [])
        key = ".name" if isinstance(which, str) else ".offset"
        found = [at for at, one in enumerate(arguments) if one.get(key) == which]
        if len(found) != 1:
            names = ", ".join(str(one.get(".name", one.get(".offset"))) for one in arguments)
            raise EditError(f"{kernel.name} has no argument {which!r}; it has {names or 'none'}")
        (at,) = found
        before = arguments[at]
        made = {k: v for k, v in {**before, **keys}.items() if v is not None}
        _check_room(kernel, arguments, at, made, entry.get(".kernarg_segment_size", 0))
        if made[".size"] < before[".size"]:
            _check_unread(kernel, before, made[".size"])
        entry[".args"] = [*arguments[:at], made, *arguments[at + 1 :]]

    def rename(self, kernel: Kernel, new: str) -> None:
        """Give a kernel another name in the metadata, if that has its symbol's."""
        entry = self._entry(kernel)
        entry[".symbol"] = f"{new}.kd"
        if entry.get(".name") == kernel.name:
            entry[".name"] = new

    def _ask(self, kernel: Kernel, wanted: Mapping[str, int]) -> None:
        lines = {**self._numbers(kernel), **wanted}
        co = self._snapshot.co
        try:
            encode(_directive_lines(lines), co.target, co.code_object_version)
        except AssemblyError as error:
            raise EditError(f"{kernel.name}: {error}") from None
        self._edited()
        self._asked.setdefault(kernel.name, {}).update(wanted)

    def _numbers(self, kernel: Kernel) -> dict[str, int]:
        """What the kernel's descriptor has been given, with what is asked for so far."""
        own = self._blocks.get(kernel.name)
        if own is None:
            raise EditError(
                f"{kernel.name}: its descriptor is data in the listing, or a macro makes it"
            )
        return {**_given(own, kernel, self._snapshot.co), **self._asked.get(kernel.name, {})}

    def _entry(self, kernel: Kernel) -> dict[Any, Any]:
        """The kernel's own map in the metadata to be edited."""
        for entry in self._edited()["amdhsa.kernels"]:
            if entry.get(".symbol") in (kernel.symbol, self._renamed(kernel)):
                assert isinstance(entry, dict)
                return entry
        raise EditError(f"{kernel.name}: the metadata does not have it")

    def _renamed(self, kernel: Kernel) -> str | None:
        """The symbol of a kernel that has another name by now."""
        at = [one.symbol for one in self._snapshot.co.kernels].index(kernel.symbol)
        symbol = self._edited()["amdhsa.kernels"][at].get(".symbol")
        return symbol if isinstance(symbol, str) else None

    def _edited(self) -> dict[Any, Any]:
        if self._document is None:
            co = self._snapshot.co
            if co.metadata_note is None or metadata_span(self._snapshot.lines) is None:
                raise EditError(f"{self._snapshot.setup.name}: it has no metadata that is YAML")
            document = deepcopy(co.metadata)
            # Kernels may share their lists, and deepcopy keeps it so.
            for entry in document["amdhsa.kernels"]:
                if ".args" in entry:
                    entry[".args"] = [dict(one) for one in entry[".args"]]
            self._document = document
        return self._document

    def _grow(self, kernel: Kernel, entry: dict[Any, Any], size: int, alignment: int) -> None:
        """The kernarg segment with room for *size* bytes: in the descriptor, if that counts it."""
        entry[".kernarg_segment_align"] = max(entry.get(".kernarg_segment_align", 4), alignment)
        size = _aligned(size, alignment)
        if self._numbers(kernel).get(_KERNARG, 0):
            self._ask(kernel, {_KERNARG: size})
        else:
            entry[".kernarg_segment_size"] = size

    def without(self, kernels: Collection[str]) -> None:
        """Take kernels out of the metadata."""
        document = self._edited()
        gone = {one.symbol for one in self._snapshot.co.kernels if one.name in kernels}
        document["amdhsa.kernels"] = [
            one for one in document["amdhsa.kernels"] if one.get(".symbol") not in gone
        ]

    def with_kernels(self, other: Declarations) -> None:
        """Add the maps of another listing's kernels to the metadata."""
        self._edited()["amdhsa.kernels"] += other._edited()["amdhsa.kernels"]
        self._others = other._said()

    # What becomes of it.

    def spans(self) -> Spans:
        """The lines of the listing that become others."""
        return {**self.descriptors(), **self.metadata()} if self else {}

    def descriptors(self) -> Spans:
        """The lines of the descriptors that become others: numbers, where some are not."""
        found: Spans = {}
        for kernel in self._snapshot.co.kernels:
            own = self._blocks.get(kernel.name)
            if own is None:
                continue
            asked = self._asked.get(kernel.name, {})
            if asked or not all(map(_NUMBER.fullmatch, own.given.values())):
                given = _given(own, kernel, self._snapshot.co)
                lines = [f"\t\t{line}" for line in _directive_lines({**given, **asked})]
                head, end = (self._snapshot.lines[at] for at in (own.first, own.end - 1))
                found[own.first] = own.end, [head, *lines, end]
        return found

    def metadata(self) -> Spans:
        """The lines of the metadata, which become others."""
        first, last = metadata_span(self._snapshot.lines) or (0, 0)
        head = [] if FOLLOWS in self._snapshot.text else [f"\t{FOLLOWS}"]
        said = {**self._by_new_symbol(self._said()), **self._others}
        yaml = marked(self._yaml(), said, self._snapshot.co.target).rstrip("\n").split("\n")
        return {first - 1: (last, [*head, self._snapshot.lines[first - 1], *yaml])}

    def _said(self) -> dict[str, tuple[str, ...] | None]:
        """Each descriptor's directives as they were."""
        return {kernel.symbol: self._before(kernel) for kernel in self._snapshot.co.kernels}

    def _before(self, kernel: Kernel) -> tuple[str, ...] | None:
        """The directives of a descriptor as they were; None where it is data."""
        own = self._blocks.get(kernel.name)
        if own is None:
            return None
        return tuple(_directive_lines(_given(own, kernel, self._snapshot.co)))

    def _by_new_symbol(
        self, before: Mapping[str, tuple[str, ...] | None]
    ) -> dict[str, tuple[str, ...] | None]:
        entries = self._edited()["amdhsa.kernels"]
        if len(entries) != len(before):  # kernels were taken out, and none has another name
            return dict(before)
        symbols = [one.get(".symbol") for one in entries]
        return dict(zip(symbols, before.values(), strict=True))

    def _yaml(self) -> str:
        document = self._edited()
        yaml = to_yaml(encode_note(document), document)
        if yaml is None:
            found = faults([dumps(document)])
            said = "; ".join(f"{one.path}: {one.what}" for one in found)
            raise EditError(f"the metadata would not be what LLVM takes: {said or 'unknown'}")
        return yaml

    def problems(self, new: CodeObject, names: Mapping[str, str]) -> Iterator[str]:
        """What of descriptors and metadata is not as it was or was asked for."""
        now = {kernel.name: kernel for kernel in new.kernels} if new.metadata_note else {}
        old = self._snapshot.co
        for kernel in old.kernels if old.metadata_note else ():
            other = now.get(names.get(kernel.name, kernel.name))
            if other is None:
                yield f"the kernel {kernel.name} would be lost"
                continue
            wanted = kernel.descriptor[:]
            asked = self._asked.get(kernel.name)
            if asked:
                lines = _directive_lines({**self._numbers(kernel), **asked})
                wanted = encode(lines, old.target, old.code_object_version)
            if _no_entry(wanted) != _no_entry(other.descriptor):
                yield f"the descriptor of {kernel.name} would be another"
        if old.metadata_note is not None:
            wanted_document = old.metadata if self._document is None else self._document
            if _others(wanted_document) != _others(new.metadata):
                yield "the metadata would be another"


def _wanted(
    given: Mapping[str, int], family: Family, asked: Mapping[str, int | None], target: str
) -> Iterator[tuple[str, int]]:
    """The directives for what is asked for."""
    vgprs, agprs, sgprs, lds, scratch = (
        asked.get(name) for name in ("vgprs", "agprs", "sgprs", "lds", "scratch")
    )
    for name, value in asked.items():
        if value is not None and value < 0:
            raise EditError(f"{name}={value}: less than none")
    if vgprs is not None or agprs is not None:
        yield from _registers(given, family, vgprs, agprs, target)
    if sgprs is not None:
        if sgprs > family.addressable_sgprs:
            raise EditError(f"sgprs={sgprs}: {target} has {family.addressable_sgprs}")
        yield _SGPRS, sgprs
    if lds is not None:
        if lds > family.lds_bytes:
            raise EditError(f"lds={lds}: a workgroup of {target} has {family.lds_bytes} bytes")
        yield _LDS, lds
    if scratch is not None:
        yield _SCRATCH, scratch
        if scratch and not given.get(_SCRATCH):
            if not family.architected_flat_scratch:
                raise EditError(
                    f"scratch={scratch}: the kernel has none, and on {target} it takes SGPRs at "
                    "the kernel's entry, so that all of them would move"
                )
            yield _PRIVATE, 1


def _registers(
    given: Mapping[str, int], family: Family, vgprs: int | None, agprs: int | None, target: str
) -> Iterator[tuple[str, int]]:
    if max(vgprs or 0, agprs or 0) > _NAMED and not family.vgpr_msb:
        raise EditError(f"instructions of {target} name {_NAMED} registers of a file")
    if not family.accum_offset:
        if agprs is not None:
            raise EditError(
                f"agprs={agprs}: the descriptor of {target} has one number for all vector registers"
            )
        assert vgprs is not None
        yield _VGPRS, vgprs
        return
    if vgprs is None:
        offset = given[_ACCUM]
        vgprs = offset if agprs else min(offset, given[_VGPRS])
    else:
        offset = max(4, _aligned_to(vgprs, 4))
    if agprs is None:
        agprs = max(0, given[_VGPRS] - given[_ACCUM])
    yield _ACCUM, offset
    yield _VGPRS, offset + agprs if agprs else vgprs


def _given(own: Block, kernel: Kernel, co: CodeObject) -> dict[str, int]:
    """The numbers of a descriptor: as they are written, or as they come out of what is written."""
    if all(map(_NUMBER.fullmatch, own.given.values())):
        return {name: int(value, 0) for name, value in own.given.items()}
    made = directives(
        kernel.descriptor,
        co.target,
        code_object_version=co.code_object_version,
        kernel=kernel.metadata,
    )
    if made is None:
        raise EditError(f"{kernel.name}: no directives yield its descriptor")
    pairs = (line.removeprefix(".amdhsa_").split() for line in made)
    return {name: int(value, 0) for name, value in pairs}


def _directive_lines(given: Mapping[str, int]) -> list[str]:
    return [f".amdhsa_{name} {value}" for name, value in given.items()]


def _check_room(
    kernel: Kernel, arguments: list[dict[Any, Any]], at: int, made: Mapping[str, Any], size: int
) -> None:
    """Refuse an argument that does not fit where it is."""
    offset, end = made[".offset"], made[".offset"] + made[".size"]
    for number, other in enumerate(arguments):
        if number != at and offset < _end(other) and other[".offset"] < end:
            raise EditError(
                f"{kernel.name}: {made['.size']} bytes at {offset} reach into the argument "
                f"{other.get('.name', other['.offset'])!r} at {other['.offset']}"
            )
    if end > size:
        raise EditError(f"{kernel.name}: {made['.size']} bytes at {offset} leave its {size} bytes")
    needed = _alignment(made[".size"]) if made[".value_kind"] == "global_buffer" else 1
    if offset % needed:
        raise EditError(f"{kernel.name}: an address at {offset}, no multiple of {needed}")


def _check_unread(kernel: Kernel, before: Mapping[str, Any], size: int) -> None:
    """Refuse to make an argument smaller than what the code reads of it."""
    from coasm.reads import kernarg_reads

    end = before[".offset"] + size
    read = kernarg_reads(kernel.co, kernel, kernel.co.graph).of(end, before[".size"] - size)
    if read is not False:
        does = "reads" if read else "may read"
        raise EditError(
            f"{kernel.name}: its code {does} more than {size} bytes of the argument "
            f"{before.get('.name', before['.offset'])!r}"
        )


def _end(argument: Mapping[str, Any]) -> int:
    return int(argument.get(".offset", 0)) + int(argument.get(".size", 0))


def _is_hidden(argument: Mapping[str, Any]) -> bool:
    return str(argument.get(".value_kind", "")).startswith("hidden_")


def _alignment(size: int) -> int:
    """That of a value of *size* bytes: the power of two in it, up to 8."""
    return min(8, size & -size) if size else 1


def _aligned(offset: int, size: int) -> int:
    return _aligned_to(offset, _alignment(size))


def _aligned_to(number: int, step: int) -> int:
    return -(-number // step) * step


def _no_entry(descriptor: bytes) -> bytes:
    data = bytearray(descriptor)
    data[_ENTRY] = bytes(8)
    return bytes(data)


def _others(document: dict[Any, Any]) -> bytes:
    """A document without what follows the descriptors."""
    entries = document.get("amdhsa.kernels", [])
    kept = [{k: v for k, v in one.items() if k not in _FOLLOWING} for one in entries]
    return encode_note({**document, "amdhsa.kernels": kept})
