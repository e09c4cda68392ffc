"""msgpack bytes ↔ Python values, strictly: nothing is guessed and nothing is lost.

Sources: the msgpack specification (https://github.com/msgpack/msgpack/blob/master/spec.md); LLVM,
*User Guide for AMDGPU Backend*, "Code Object Metadata"; ``llvm/BinaryFormat/MsgPackWriter.cpp`` and
``MsgPackDocument.cpp`` for the encodings and the key order that LLVM writes.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from coasm.errors import FormatError

__all__ = ["MAX_DEPTH", "MAX_ITEMS", "Extension", "decode", "encode"]

#: Maps and arrays may be nested this deep; real metadata has a depth of 5.
MAX_DEPTH = 64
#: Values a note may hold: what bounds the memory that a hostile note can take.
MAX_ITEMS = 1 << 22

#: Lists that are recognised by their bytes: how many that begin alike, with how many bytes, and the
#: bytes of all together.
_ALIKE, _BEGIN, _ROOM = 16, 24, 1 << 20

_UNSIGNED = {0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q"}
_SIGNED = {0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q"}
_FLOAT = {0xCA: ">f", 0xCB: ">d"}
_NUMBER = {tag: struct.Struct(form) for tag, form in {**_UNSIGNED, **_SIGNED, **_FLOAT}.items()}
# Tag → bytes of the length field that follows it.
_STR = {0xD9: 1, 0xDA: 2, 0xDB: 4}
_BIN = {0xC4: 1, 0xC5: 2, 0xC6: 4}
_EXT = {0xC7: 1, 0xC8: 2, 0xC9: 4}
_ARRAY = {0xDC: 2, 0xDD: 4}
_MAP = {0xDE: 2, 0xDF: 4}
_FLT_MIN, _FLT_MAX = 2.0**-126, (2 - 2.0**-23) * 2.0**127
_FIXEXT = {0xD4: 1, 0xD5: 2, 0xD6: 4, 0xD7: 8, 0xD8: 16}
_CONSTANT = {0xC0: None, 0xC2: False, 0xC3: True}


@dataclass(frozen=True)
class Extension:
    """A msgpack extension value: its type (-128 to 127) and its bytes."""

    type: int
    data: bytes


def decode(note: bytes) -> Any:
    """The document that *note* (the descriptor of an NT_AMDGPU_METADATA note) encodes.

    It is to be read: lists of the same bytes are one object.

    Returns dicts, lists, ``str`` (UTF-8 with other bytes kept as surrogates: ``surrogateescape``
    gives them back), ``int``, ``float``, ``bool``, ``None``, ``bytes`` and :class:`Extension`.

    Raises:
        FormatError: truncated, longer than its document, an invalid tag, a length that the bytes
            cannot hold, a key twice in a map, a key that is a map or an array, or beyond
            :data:`MAX_DEPTH` or :data:`MAX_ITEMS`.
    """
    reader = _Reader(note)
    value = reader.value(0)
    if reader.at != len(note):
        raise FormatError(
            f"metadata note: {len(note) - reader.at} bytes after the document, "
            f"which ends at offset {reader.at:#x}"
        )
    return value


class _Reader:
    """A position in the bytes of a note."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.left = MAX_ITEMS
        self.known: dict[tuple[int, int, bytes], list[tuple[bytes, list[Any], int]]] = {}
        self.room = _ROOM
        self.seen: dict[tuple[int, bytes], list[tuple[bytes, list[Any], int]]] = {}

    def fail(self, what: str) -> FormatError:
        return FormatError(f"metadata note: {what} at offset {self.at:#x}")

    def take(self, size: int) -> bytes:
        end = self.at + size
        if end > len(self.data):
            raise self.fail(f"truncated: {size} bytes wanted, {len(self.data) - self.at} left")
        taken = self.data[self.at : end]
        self.at = end
        return taken

    def length(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def value(self, depth: int) -> Any:
        self.left -= 1
        if self.left < 0:
            raise self.fail(f"more than {MAX_ITEMS} values")
        tag = self.take(1)[0]
        if tag <= 0x7F:
            return tag
        if tag <= 0x8F:
            return self.map(tag & 0x0F, depth)
        if tag <= 0x9F:
            return self.array(tag & 0x0F, depth)
        if tag <= 0xBF:
            return self.text(tag & 0x1F)
        if tag >= 0xE0:
            return tag - 0x100
        if tag in _NUMBER:
            layout = _NUMBER[tag]
            return layout.unpack(self.take(layout.size))[0]
        if tag in _CONSTANT:
            return _CONSTANT[tag]
        if tag in _STR:
            return self.text(self.length(_STR[tag]))
        if tag in _ARRAY:
            return self.array(self.length(_ARRAY[tag]), depth)
        if tag in _MAP:
            return self.map(self.length(_MAP[tag]), depth)
        if tag in _BIN:
            return self.take(self.length(_BIN[tag]))
        if tag in _FIXEXT:
            return self.extension(_FIXEXT[tag])
        if tag in _EXT:
            return self.extension(self.length(_EXT[tag]))
        self.at -= 1
        raise self.fail(f"invalid tag {tag:#x}")

    def text(self, size: int) -> str:
        return self.take(size).decode("utf-8", "surrogateescape")

    def extension(self, size: int) -> Extension:
        (kind,) = struct.unpack("b", self.take(1))
        return Extension(kind, self.take(size))

    def enter(self, count: int, size: int, depth: int) -> None:
        if depth >= MAX_DEPTH:
            raise self.fail(f"nested deeper than {MAX_DEPTH}")
        if count * size > len(self.data) - self.at:
            raise self.fail(f"truncated: {count} entries announced, too few bytes left")

    def array(self, count: int, depth: int) -> list[Any]:
        self.enter(count, 1, depth)
        # The kernels of a library share their lists of arguments: bytes that begin with those of a
        # value are that value, for an encoding is no beginning of another.
        start, left = self.at, self.left
        known = self.known.setdefault((depth, count, self.data[start : start + _BEGIN]), [])
        for raw, value, items in known:
            if self.data.startswith(raw, start):
                self.at += len(raw)
                self.left -= items
                return value
        value = [self.value(depth + 1) for _ in range(count)]
        size = self.at - start
        if len(known) < _ALIKE and size <= self.room:
            self.room -= size
            known.append((self.data[start : self.at], value, left - self.left))
        return value

    def map(self, count: int, depth: int) -> dict[Any, Any]:
        self.enter(count, 2, depth)
        found: dict[Any, Any] = {}
        for _ in range(count):
            start = self.at
            key = self.value(depth + 1)
            if isinstance(key, (dict, list)):
                self.at = start
                raise self.fail("a map or an array as a key")
            if key in found:
                self.at = start
                raise self.fail(f"the key {key!r} a second time in its map")
            found[key] = self.value(depth + 1)
        return found


def encode(document: Any) -> bytes:
    """The bytes that LLVM writes for *document*: shortest encodings, keys in LLVM's order.

    An integer from 0 takes an unsigned encoding; a float whose magnitude a normal single can have
    becomes one, rounded, any other a double.

    Raises:
        FormatError: an integer outside the 64-bit ranges, a value too long for msgpack, nesting
            deeper than :data:`MAX_DEPTH`, or a type that :func:`decode` never returns.
    """
    parts: list[bytes] = []
    _write(document, parts, 0, {})
    return b"".join(parts)


def _write(value: Any, parts: list[bytes], depth: int, lists: dict[tuple[int, int], bytes]) -> None:
    """Add the encoding of *value*; *lists* are those at hand, by identity and depth."""
    if depth > MAX_DEPTH:
        raise FormatError(f"metadata: nested deeper than {MAX_DEPTH}")
    if isinstance(value, str):
        raw = value.encode("utf-8", "surrogateescape")
        parts += _head(len(raw), 31, 0xA0, (0xD9, 0xDA, 0xDB)), raw
    elif value is None:
        parts.append(b"\xc0")
    elif isinstance(value, bool):
        parts.append(b"\xc3" if value else b"\xc2")
    elif isinstance(value, int):
        parts.append(_integer(value))
    elif isinstance(value, dict):
        parts.append(_head(len(value), 15, 0x80, (None, 0xDE, 0xDF)))
        for key in sorted(value, key=_rank):
            _write(key, parts, depth + 1, lists)
            _write(value[key], parts, depth + 1, lists)
    elif isinstance(value, list):
        key = id(value), depth
        if key not in lists:
            own = [_head(len(value), 15, 0x90, (None, 0xDC, 0xDD))]
            for item in value:
                _write(item, own, depth + 1, lists)
            lists[key] = b"".join(own)
        parts.append(lists[key])
    elif isinstance(value, float):
        parts.append(_float(value))
    elif isinstance(value, bytes):
        parts += _head(len(value), -1, 0, (0xC4, 0xC5, 0xC6)), value
    elif isinstance(value, Extension):
        fixed = next((tag for tag, size in _FIXEXT.items() if size == len(value.data)), None)
        head = bytes([fixed]) if fixed else _head(len(value.data), -1, 0, (0xC7, 0xC8, 0xC9))
        parts += head, struct.pack("b", value.type), value.data
    else:
        raise FormatError(f"metadata: a {type(value).__name__} has no msgpack encoding")


def _head(count: int, fixed: int, base: int, tags: tuple[int | None, int, int]) -> bytes:
    """The tag and length of *count* bytes or entries: up to *fixed* the length is in the tag."""
    if count <= fixed:
        return bytes([base + count])
    for tag, size in zip(tags, (1, 2, 4), strict=True):
        if tag is not None and count < 1 << 8 * size:
            return bytes([tag]) + count.to_bytes(size, "big")
    raise FormatError(f"metadata: {count} bytes or entries do not fit in a msgpack value")


def _integer(value: int) -> bytes:
    if -32 <= value <= 127:
        return bytes([value & 0xFF])
    for tag in _UNSIGNED if value >= 0 else _SIGNED:
        bits = 8 * _NUMBER[tag].size
        if value < 1 << bits and value >= -1 << bits - 1:
            return bytes([tag]) + _NUMBER[tag].pack(value)
    raise FormatError(f"metadata: the integer {value} has no 64-bit encoding")


def _float(value: float) -> bytes:
    # LLVM goes by the range, not by the precision: 0.1 becomes a single, 0.0 a double.
    tag = 0xCA if _FLT_MIN <= abs(value) <= _FLT_MAX else 0xCB
    return bytes([tag]) + _NUMBER[tag].pack(value)


def _rank(key: Any) -> tuple[int, Any]:
    """Where LLVM puts a map key: by kind (Int, UInt, Nil, Boolean, Float, String, Binary), then
    by value; strings by their bytes. Source: ``msgpack::Type`` and ``DocNode``'s ``operator<``."""
    if isinstance(key, str):
        return 5, key.encode("utf-8", "surrogateescape")
    if key is None:
        return 2, 0
    if isinstance(key, bool):
        return 3, key
    if isinstance(key, int):
        return int(key >= 0), key
    if isinstance(key, float):
        return 4, key
    if isinstance(key, bytes):
        return 6, key
    if isinstance(key, Extension):
        return 9, (key.type, key.data)
    raise FormatError(f"metadata: a {type(key).__name__} cannot be a key")
