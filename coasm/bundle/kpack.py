"""ROCm's kernel archives (``.kpack``): code objects that were split off from executables.

Source: ROCm/rocm-kpack, ``kpack.py`` and ``compression.py`` (format version 1). A header (magic,
version, offset of the table of contents), the objects, and the table as MessagePack: the file that
they belong to → target → ordinal. The objects lie as they are (``blobs`` has their places), or as
zstd frames with their sizes in front, in the order of their ordinals. A file that was split says in
its section ``.rocm_kpack_ref`` which archives, relative to it, have its objects, and by what name.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from coasm.bundle.table import MAX_ID, MAX_IMAGES
from coasm.errors import FormatError, UnsupportedError

if TYPE_CHECKING:
    from coasm.bundle.compressed import Buffer

__all__ = ["KPACK_MAGIC", "REFERENCE", "Packed", "packed_objects", "reference", "rewritten"]

KPACK_MAGIC = b"KPAK"
#: The section of a file whose objects are in archives.
REFERENCE = ".rocm_kpack_ref"
_HEADER = struct.Struct("<4sIQ")
_U32 = struct.Struct("<I")
_PLAIN, _ZSTD = "none", "zstd-per-kernel"


class Packed(NamedTuple):
    """An object of an archive: ``binary`` is the file that it belongs to, ``offset`` and ``size``
    where it lies in the archive (where ``zstd``: its frame), ``unpacked`` its own size in bytes.
    """

    binary: str
    target: str
    offset: int
    size: int
    unpacked: int
    zstd: bool


def packed_objects(data: Buffer, name: str) -> list[Packed]:
    """The objects of the archive *data*, in the order of its table of contents.

    Raises:
        FormatError: damaged: an entry lies outside, or is not what the format says.
        UnsupportedError: another version, or another way of compression.
    """
    table = _table(data, name)
    places = _places(data, table, name)
    contents = table.get("toc")
    if not isinstance(contents, dict):
        raise FormatError(f"{name}: its table of contents names no files")
    found = []
    for binary, targets in contents.items():
        if not isinstance(binary, str) or not isinstance(targets, dict):
            raise FormatError(f"{name}: an entry of its table of contents is damaged")
        for target, entry in targets.items():
            ordinal = entry.get("ordinal") if isinstance(entry, dict) else None
            if not isinstance(target, str) or type(ordinal) is not int:
                raise FormatError(f"{name}: {binary}: an entry of its table is damaged")
            if not 0 <= ordinal < len(places):
                raise FormatError(f"{name}: {binary}: no object {ordinal} in it")
            offset, size, unpacked = places[ordinal]
            zstd = table["compression_scheme"] == _ZSTD
            found.append(Packed(binary, target, offset, size, unpacked, zstd))
    if len(found) > MAX_IMAGES * 16 or any(len(one.binary) > 4 * MAX_ID for one in found):
        raise FormatError(f"{name}: its table of contents is larger than any archive's")
    return found


def _table(data: Buffer, name: str) -> dict[str, Any]:
    import msgpack

    if len(data) < _HEADER.size:
        raise FormatError(f"{name}: cut short: {len(data)} bytes")
    _, version, at = _HEADER.unpack(data[: _HEADER.size])
    if version != 1:
        raise UnsupportedError(f"{name}: a kernel archive of version {version}; known is 1")
    if not _HEADER.size <= at < len(data):
        raise FormatError(f"{name}: its table of contents is outside of it")
    try:
        table = msgpack.unpackb(bytes(data[at:]), raw=False)
    except (ValueError, msgpack.exceptions.UnpackException) as error:
        raise FormatError(f"{name}: damaged table of contents: {error}") from None
    if not isinstance(table, dict):
        raise FormatError(f"{name}: its table of contents is no map")
    table.setdefault("compression_scheme", _PLAIN)
    return table


def _places(data: Buffer, table: Mapping[str, Any], name: str) -> list[tuple[int, int, int]]:
    """Offset, size and size unpacked of each object, by its ordinal."""
    end = _HEADER.unpack(data[: _HEADER.size])[2]
    scheme = table["compression_scheme"]
    places = []
    if scheme == _PLAIN:
        rows = table.get("blobs")
        for row in rows if isinstance(rows, list) else ():
            offset, size = (row.get(key) if isinstance(row, dict) else None for key in _ROW)
            if (
                type(offset) is not int
                or type(size) is not int
                or offset < _HEADER.size
                or size < 0
            ):
                raise FormatError(f"{name}: the place of an object is damaged")
            places.append((offset, size, size))
    elif scheme == _ZSTD:
        places = [(at, size, _unpacked(data, at, size, name)) for at, size in _frames(data, table)]
    else:
        raise UnsupportedError(f"{name}: compressed as {scheme!r}; known are {_PLAIN} and {_ZSTD}")
    for offset, size, _ in places:
        if offset + size > end:
            raise FormatError(f"{name}: an object at {offset:#x} with {size:#x} bytes is outside")
    return places


_ROW = ("offset", "size")


def _frames(data: Buffer, table: Mapping[str, Any]) -> Iterator[tuple[int, int]]:
    at, length = table.get("zstd_offset"), table.get("zstd_size")
    if type(at) is not int or type(length) is not int or at < 0 or length < 4:
        return
    end = min(at + length, len(data))
    if at + 4 > end:
        return
    (count,) = _U32.unpack(data[at : at + 4])
    at += 4
    for _ in range(count):
        if at + 4 > end:
            return
        (size,) = _U32.unpack(data[at : at + 4])
        yield at + 4, size
        at += 4 + size


def _unpacked(data: Buffer, at: int, size: int, name: str) -> int:
    from coasm.bundle.compressed import frame_size

    return frame_size(data[at : at + min(size, 18)], size, f"{name}: object at {at:#x}")


def rewritten(data: Buffer, name: str, new: Mapping[tuple[str, str], bytes]) -> bytes:
    """The archive *data* with other objects: *new* is (binary, target) → bytes.

    Objects that are not replaced keep their bytes (compressed ones their frames).
    """
    import msgpack

    from coasm.bundle.compressed import zstd_frame

    table = _table(data, name)
    stored = {}
    for one in packed_objects(data, name):
        image = new.get((one.binary, one.target))
        if image is not None:
            stored[one.offset] = zstd_frame(image) if one.zstd else image
    places = _places(data, table, name)
    start = min((offset for offset, *_ in places), default=_HEADER.size)
    out = bytearray(data[:start])
    moved, previous = {}, start
    for offset, size, _ in sorted(set(places)):
        out += data[previous:offset]  # what is between them: nothing, or the sizes of frames
        body = stored.get(offset, data[offset : offset + size])
        if table["compression_scheme"] == _ZSTD:
            _U32.pack_into(out, len(out) - 4, len(body))
        moved[offset] = len(out), len(body)
        out += body
        previous = offset + size
    if table["compression_scheme"] == _ZSTD:
        table["zstd_size"] = len(out) - table["zstd_offset"]
    else:
        table["blobs"] = [dict(zip(_ROW, moved[offset], strict=True)) for offset, *_ in places]
    out += data[previous : _HEADER.unpack(data[: _HEADER.size])[2]]
    for (binary, target), image in new.items():
        if "original_size" in table["toc"][binary][target]:
            table["toc"][binary][target]["original_size"] = len(image)
    _HEADER.pack_into(out, 0, KPACK_MAGIC, 1, len(out))
    packed: bytes = msgpack.packb(table, use_bin_type=True)
    return bytes(out) + packed


def reference(section: bytes, path: str) -> tuple[str, list[str]]:
    """Of the section :data:`REFERENCE`: the name in the archives, and the archives' paths.

    Raises:
        FormatError: damaged.
    """
    import msgpack

    try:
        unpacker = msgpack.Unpacker(raw=False, max_buffer_size=len(section) + 1)
        unpacker.feed(section)
        said = unpacker.unpack()
        name, paths = said["kernel_name"], said["kpack_search_paths"]
        folder = os.path.dirname(path)
        return str(name), [os.path.normpath(os.path.join(folder, str(one))) for one in paths]
    except (ValueError, KeyError, TypeError, msgpack.exceptions.UnpackException) as error:
        raise FormatError(f"{path}: {REFERENCE}: damaged: {error}") from None
