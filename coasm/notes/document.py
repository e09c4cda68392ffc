"""msgpack bytes ↔ Python values: msgpack reads and writes, and here is what it is held to.

No value is built before the whole note was skipped over once: each of 1,024 nested arrays may
announce as many entries as the note has bytes, and msgpack before 1.2.4 makes room for all of them.
Skipping makes none, and fails where an announced entry is not there.

Sources: LLVM, *User Guide for AMDGPU Backend*, "Code Object Metadata";
``llvm/BinaryFormat/MsgPackWriter.cpp`` and ``MsgPackDocument.cpp`` for the encodings and the key
order that LLVM writes.
"""

from __future__ import annotations

from typing import Any

from coasm.errors import FormatError

__all__ = ["MAX_DEPTH", "MAX_ITEMS", "decode", "encode"]

#: Maps and arrays may be nested this deep; real metadata has a depth of 5.
MAX_DEPTH = 64
#: Maps and arrays that a note may hold: three bytes can be a map, which takes 232 in memory.
MAX_ITEMS = 1 << 21
#: All bytes but those that begin a map or an array (and that ASCII text does not have).
_OTHERS = bytes(b for b in range(256) if not (0x80 <= b <= 0x9F or 0xDC <= b <= 0xDF))

_NESTED = f"metadata note: nested deeper than {MAX_DEPTH}"
_FLT_MIN, _FLT_MAX = 2.0**-126, (2 - 2.0**-23) * 2.0**127


def decode(note: bytes) -> Any:
    """The document that *note* (the descriptor of an NT_AMDGPU_METADATA note) encodes.

    It is to be read: kernels share those of their lists that are the same bytes.

    Returns dicts, lists, ``str`` (UTF-8 with other bytes kept as surrogates: ``surrogateescape``
    gives them back), ``int``, ``float``, ``bool``, ``None``, ``bytes``, and ``msgpack.ExtType`` or
    ``msgpack.Timestamp``.

    Raises:
        FormatError: truncated, longer than its document, an invalid tag, a length that the bytes
            cannot hold, a key twice in a map, a key that is a map or an array, an invalid
            timestamp, or beyond :data:`MAX_DEPTH` or :data:`MAX_ITEMS`.
    """
    import msgpack

    _skip(note)
    boxes = len(note.translate(None, _OTHERS)) if len(note) > MAX_ITEMS else 0
    if boxes > MAX_ITEMS:
        raise FormatError(f"metadata note: up to {boxes} maps and arrays, more than {MAX_ITEMS}")
    try:
        document = _unpack(note)
        faithful = msgpack.packb(document, unicode_errors="surrogateescape") == note
    except (FormatError, TypeError, ValueError, OverflowError):
        faithful = False
    if not faithful:  # an encoding that is not the shortest, or a key twice: found by looking
        document = _unpack(note, object_pairs_hook=_map)
    document = _with_shared_lists(document)
    _check_nesting(document)
    return document


def _skip(note: bytes) -> None:
    """Refuse what is not one whole document."""
    from msgpack import Unpacker, exceptions

    unpacker = Unpacker(max_buffer_size=len(note) or 1)
    unpacker.feed(note)
    try:
        unpacker.skip()
    except exceptions.OutOfData:
        what = f"truncated: the document goes on at its end, offset {len(note):#x}"
    except (exceptions.StackError, RecursionError):
        raise FormatError(_NESTED) from None
    except ValueError:
        at = unpacker.tell()
        what = f"invalid tag {note[at]:#x} at offset {at:#x}"
    else:
        at = unpacker.tell()
        if at == len(note):
            return
        what = f"{len(note) - at} bytes after the document, which ends at offset {at:#x}"
    raise FormatError(f"metadata note: {what}")


def _unpack(note: bytes, **hooks: Any) -> Any:
    import msgpack

    try:
        return msgpack.unpackb(
            note, unicode_errors="surrogateescape", strict_map_key=False, **hooks
        )
    except (ValueError, TypeError) as error:  # a timestamp that is none; an unhashable key
        raise FormatError(f"metadata note: {error}") from None


def _map(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for key, value in pairs:
        if isinstance(key, (dict, list)):
            raise FormatError("metadata note: a map or an array as a key")
        if key in found:
            raise FormatError(f"metadata note: the key {key!r} a second time in its map")
        found[key] = value
    return found


def _with_shared_lists(document: Any) -> Any:
    """*document*, in which what kernels say alike (their arguments) is there once.

    The kernels of a library differ in little else than their names, and what is known of a list is
    known of every place that has it.
    """
    import msgpack

    kernels = document.get("amdhsa.kernels") if isinstance(document, dict) else None
    known: dict[bytes, list[Any]] = {}
    for kernel in kernels if isinstance(kernels, list) else ():
        if isinstance(kernel, dict):
            for key, value in kernel.items():
                if isinstance(value, list):
                    try:
                        raw = msgpack.packb(value, unicode_errors="surrogateescape")
                    except ValueError:  # msgpack packs no deeper than 511
                        raise FormatError(_NESTED) from None
                    kernel[key] = known.setdefault(raw, value)
    return document


def _check_nesting(document: Any) -> None:
    level = {0: document}
    for _ in range(MAX_DEPTH + 1):
        level = {
            id(item): item
            for box in level.values()
            if isinstance(box, (dict, list))
            for item in (box.values() if isinstance(box, dict) else box)
        }
        if not level:
            return
    raise FormatError(_NESTED)


def encode(document: Any) -> bytes:
    """The bytes that LLVM writes for *document*: shortest encodings, keys in LLVM's order.

    An integer from 0 takes an unsigned encoding; a float whose magnitude a normal single can have
    becomes one, rounded, any other a double.

    Raises:
        FormatError: an integer outside the 64-bit ranges, a value too long for msgpack, nesting
            deeper than :data:`MAX_DEPTH`, or a type that :func:`decode` never returns.
    """
    return _Writer().encoded(document, 0)


class _Writer:
    """LLVM's choices around msgpack's encodings; lists at hand are encoded once."""

    def __init__(self) -> None:
        from msgpack import ExtType, Packer, Timestamp

        self.double = Packer(unicode_errors="surrogateescape")
        self.single = Packer(use_single_float=True)
        self.scalars = {str, int, bool, type(None), bytes, ExtType, Timestamp}
        self.lists: dict[tuple[int, int], bytes] = {}

    def encoded(self, value: Any, depth: int) -> bytes:
        parts: list[bytes] = []
        self.write(value, parts, depth)
        return b"".join(parts)

    def write(self, value: Any, parts: list[bytes], depth: int) -> None:
        """Add the encoding of *value*."""
        kind = type(value)
        if kind in self.scalars:
            try:
                parts.append(self.double.pack(value))
            except (ValueError, OverflowError) as error:
                raise FormatError(f"metadata: {error}") from None
        elif depth > MAX_DEPTH:
            raise FormatError(f"metadata: nested deeper than {MAX_DEPTH}")
        elif kind is dict:
            parts.append(self.double.pack_map_header(len(value)))
            for key in sorted(value, key=self.rank):
                self.write(key, parts, depth + 1)
                self.write(value[key], parts, depth + 1)
        elif kind is list:
            at = id(value), depth
            if at not in self.lists:
                head = self.double.pack_array_header(len(value))
                self.lists[at] = head + b"".join(self.encoded(i, depth + 1) for i in value)
            parts.append(self.lists[at])
        elif kind is float:
            # LLVM goes by the range, not by the precision: 0.1 becomes a single, 0.0 a double.
            packer = self.single if _FLT_MIN <= abs(value) <= _FLT_MAX else self.double
            parts.append(packer.pack(value))
        else:
            raise FormatError(f"metadata: a {kind.__name__} has no msgpack encoding")

    @staticmethod
    def rank(key: Any) -> tuple[int, Any]:
        """Where LLVM puts a map key: by kind (Int, UInt, Nil, Boolean, Float, String, Binary), then
        by value; strings by their bytes. Source: ``msgpack::Type`` and ``DocNode``'s
        ``operator<``."""
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
        if isinstance(key, tuple):  # msgpack.ExtType
            return 9, key
        raise FormatError(f"metadata: a {type(key).__name__} cannot be a key")
