"""The table at the front of a bundle: which device images it holds, and where.

Two formats say the same. The *offload bundle* (``__CLANG_OFFLOAD_BUNDLE__``; Clang documentation,
"Clang Offload Bundler", "Bundled Binary File Layout") has one record per image: offset, size, and a
bundle entry ID such as ``hipv4-amdgcn-amd-amdhsa--gfx942``. The *offload binary* (``10 FF 10 AD``;
``llvm/Object/OffloadBinary.h``, versions 1 to 3) has the image's kind, the offload kind, and a map
of strings with ``triple`` and ``arch``. All numbers are little-endian.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from coasm.errors import FormatError, UnsupportedError

__all__ = [
    "BUNDLE_MAGIC",
    "OFFLOAD_MAGIC",
    "Image",
    "Table",
    "extended",
    "made",
    "read_bundle",
    "read_offload",
    "replace",
    "target_of",
]

BUNDLE_MAGIC = b"__CLANG_OFFLOAD_BUNDLE__"
OFFLOAD_MAGIC = b"\x10\xff\x10\xad"

#: More images, or a longer ID, than any bundle has: such a table is damaged.
MAX_IMAGES = 4096
MAX_ID = 1024

#: What the images of a bundle are aligned to, by Clang's driver for HIP.
_ALIGN = 4096
_RECORD = struct.Struct("<QQQ")
_U64 = struct.Struct("<Q")
_OFFLOAD_HEADER = struct.Struct("<4sIQQQ")
_OFFLOAD_ENTRY = struct.Struct("<HHIQQQQ")
_OFFLOAD_KINDS = {1: "openmp", 2: "cuda", 4: "hip", 8: "sycl"}


class Image(NamedTuple):
    """One record of a table: ``id``, and where in the bundle the image is, in bytes.

    ``offset_at`` and ``size_at`` are where in the bundle these two numbers are stored.
    """

    id: str
    offset: int
    size: int
    offset_at: int
    size_at: int


@dataclass(frozen=True)
class Table:
    """What a bundle's front says. ``front`` and ``size`` are bytes: of the front, of the bundle.

    ``size_at`` is where the bundle's own size is stored; None where it is not.
    """

    images: tuple[Image, ...]
    front: int
    size: int
    size_at: int | None = None


_TARGET = re.compile(r"(?:^|-)(gfx[0-9a-z]+(?:-[0-9]+)*(?:-generic)?(?::[a-z]+[+-])*)\Z")


def target_of(entry_id: str) -> str:
    """The target ID in a bundle entry ID (``gfx90a:xnack+``); empty where there is none."""
    found = _TARGET.search(entry_id)
    return found[1] if found else ""


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def read_bundle(data: bytes, limit: int, where: str) -> Table | None:
    """The table of an offload bundle that starts *data*; None where *data* ends within the table.

    *limit* is how many bytes the bundle may take. *where* names it in messages.

    Raises:
        FormatError: the table does not fit, or images overlap, lie outside, or have the same ID.
    """
    head = len(BUNDLE_MAGIC) + 8
    if limit < head:
        raise FormatError(f"{where}: cut short: {limit} bytes, a bundle has at least {head}")
    if len(data) < head:
        return None
    count = _U64.unpack_from(data, head - 8)[0]
    if count > MAX_IMAGES or head + count * _RECORD.size > limit:
        raise FormatError(f"{where}: says it holds {count} images, more than fit")
    images: list[Image] = []
    known: set[str] = set()
    at = head
    for number in range(count):
        if at + _RECORD.size > limit:
            raise FormatError(f"{where}: its table is longer than the bundle")
        if at + _RECORD.size > len(data):
            return None
        offset, size, length = _RECORD.unpack_from(data, at)
        end = at + _RECORD.size + length
        if length > MAX_ID or end > limit:
            raise FormatError(f"{where}: image {number}: an ID of {length} bytes")
        if end > len(data):
            return None
        entry_id = _text(data[at + _RECORD.size : end])
        if entry_id in known:
            raise FormatError(f"{where}: two images with the ID {entry_id!r}")
        known.add(entry_id)
        images.append(Image(entry_id, offset, size, at, at + 8))
        at = end
    return Table(tuple(images), at, _checked(images, at, limit, where))


def read_offload(data: bytes, limit: int, where: str) -> Table | None:
    """The table of an LLVM offload binary that starts *data*; see :func:`read_bundle`.

    Raises:
        FormatError: as :func:`read_bundle`.
        UnsupportedError: a later version, or a compressed offload binary.
    """
    if limit < _OFFLOAD_HEADER.size:
        raise FormatError(f"{where}: cut short: {limit} bytes")
    if len(data) < min(40, limit):
        return None
    _, version, size, entries, count = _OFFLOAD_HEADER.unpack_from(data)
    if version not in (1, 2, 3):
        raise UnsupportedError(f"{where}: an offload binary of version {version}; known are 1 to 3")
    if size > limit or size < _OFFLOAD_HEADER.size + _OFFLOAD_ENTRY.size:
        raise FormatError(f"{where}: says it has {size} bytes, {limit} are there")
    if version == 3 and _U64.unpack_from(data, 32)[0]:
        raise UnsupportedError(f"{where}: a compressed offload binary")
    if len(data) < size:
        return None
    if version == 1:
        count = 1  # the field is the size of the one entry
    if count > MAX_IMAGES or entries + count * _OFFLOAD_ENTRY.size > size:
        raise FormatError(f"{where}: its {count} entries are outside of it")
    images = []
    left = size  # bytes of records of strings, which no two entries share
    front = entries + count * _OFFLOAD_ENTRY.size
    for number in range(count):
        at = entries + number * _OFFLOAD_ENTRY.size
        _, kind, _, strings_at, strings, offset, length = _OFFLOAD_ENTRY.unpack_from(data, at)
        named: dict[str, str] = {}
        step = 16 if version == 1 else 24
        left -= strings * step
        if left < 0 or strings > MAX_IMAGES or strings_at + strings * step > size:
            raise FormatError(f"{where}: image {number}: its strings are outside of it")
        front = max(front, strings_at + strings * step)
        for position in range(strings_at, strings_at + strings * step, step):
            key_at, value_at = struct.unpack_from("<QQ", data, position)
            value_end = data.find(b"\0", value_at, size)
            if version > 1:
                value_end = value_at + _U64.unpack_from(data, position + 16)[0]
            key_end = data.find(b"\0", key_at, size)
            if not key_at <= key_end or not value_at <= value_end <= size:
                raise FormatError(f"{where}: image {number}: a string is outside of it")
            if max(key_end - key_at, value_end - value_at) > MAX_ID:
                raise FormatError(f"{where}: image {number}: a string is too long")
            named[_text(data[key_at:key_end])] = _text(data[value_at:value_end])
            front = max(front, key_end + 1, value_end)
        kind_name = _OFFLOAD_KINDS.get(kind, "none")
        triple, arch = named.get("triple", ""), named.get("arch", "")
        joint = "--" if triple.count("-") < 3 else "-"
        images.append(Image(f"{kind_name}-{triple}{joint}{arch}", offset, length, at + 24, at + 32))
    _checked(images, front, size, where)
    return Table(tuple(images), front, size, 8)


def _checked(images: Sequence[Image], front: int, limit: int, where: str) -> int:
    """The end of the last image. Empty images (the host's) may say any offset."""
    end, last = front, "the table"
    for image in sorted((i for i in images if i.size), key=lambda i: i.offset):
        if image.offset + image.size > limit:
            raise FormatError(
                f"{where}: image {image.id!r} at {image.offset:#x} with {image.size:#x} bytes is "
                f"outside of it ({limit:#x} bytes)"
            )
        if image.offset < end:
            raise FormatError(f"{where}: image {image.id!r} overlaps {last}")
        end, last = image.offset + image.size, f"image {image.id!r}"
    return end


def made(images: Sequence[tuple[str, bytes]]) -> bytes:
    """An offload bundle of *images*, each a bundle entry ID and its bytes, aligned to a page."""
    table = Table((), len(BUNDLE_MAGIC) + 8, len(BUNDLE_MAGIC) + 8)
    data, table = extended(BUNDLE_MAGIC + _U64.pack(0), table, [name for name, _ in images])
    return replace(data, table, {n: image for n, (_, image) in enumerate(images)}, 0)


def extended(data: bytes, table: Table, ids: Sequence[str]) -> tuple[bytes, Table]:
    """The offload bundle *data* with records of more images, which are still empty.

    Where the table has no room, all images move behind it by whole pages.
    """
    front = table.front + sum(_RECORD.size + len(name.encode()) for name in ids)
    held = [image.offset for image in table.images if image.size]
    first = min(held, default=_up(front))
    shift = 0 if front <= first else _up(front - first)
    images = [i._replace(offset=i.offset + (shift if i.size else 0)) for i in table.images]
    body = data[first : table.size] if held else b""
    end = max(_up(front), _up(first + shift + len(body)))
    records, at = b"", table.front
    for name in ids:
        raw = name.encode()
        images.append(Image(name, end, 0, at, at + 8))
        records += _RECORD.pack(end, 0, len(raw)) + raw
        at += _RECORD.size + len(raw)
    out = bytearray((data[: table.front] + records).ljust(first + shift, b"\0") + body)
    _U64.pack_into(out, len(BUNDLE_MAGIC), len(images))
    for image in images:
        _U64.pack_into(out, image.offset_at, image.offset)
    return bytes(out), Table(tuple(images), front, len(out))


def _up(size: int) -> int:
    return -(-size // _ALIGN) * _ALIGN


def replace(data: bytes, table: Table, new: Mapping[int, bytes], room: int) -> bytes:
    """The bundle *data* with other images: *new* is index in the table → bytes.

    Where each new image fits in front of the one that follows it, and all in *room* bytes, nothing
    else moves; what it leaves is zero. Otherwise the images are laid out again, in their order and
    with the alignment that they had. Images that are not replaced keep their bytes.
    """
    order = sorted(
        (n for n, image in enumerate(table.images) if image.size or n in new),
        key=lambda n: table.images[n].offset,
    )
    images = {n: new.get(n, data[i.offset : i.offset + i.size]) for n, i in enumerate(table.images)}
    offsets = {n: table.images[n].offset for n in order}
    ends = [*(offsets[n] for n in order[1:]), max(room, table.size)]
    size = table.size
    if all(offsets[n] + len(images[n]) <= end for n, end in zip(order, ends, strict=True)):
        if table.size_at is None or offsets[order[-1]] + len(images[order[-1]]) > size:
            size = offsets[order[-1]] + len(images[order[-1]])
    else:
        align = 4096
        while any(offset % align for offset in offsets.values()):
            align //= 2
        align = max(align, 8)
        at = offsets[order[0]]
        for n in order:
            at = -(-at // align) * align
            offsets[n] = at
            at += len(images[n])
        size = at
    if table.size_at is not None:
        size = -(-size // 8) * 8
    out = bytearray(size)
    first = table.images[order[0]].offset
    out[:first] = data[:first]
    for n in order:
        out[offsets[n] : offsets[n] + len(images[n])] = images[n]
        _U64.pack_into(out, table.images[n].offset_at, offsets[n])
        _U64.pack_into(out, table.images[n].size_at, len(images[n]))
    if table.size_at is not None:
        _U64.pack_into(out, table.size_at, size)
    return bytes(out)
