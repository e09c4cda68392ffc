"""Compressed offload bundles (``CCOB``): the header, unpacking within limits, packing.

Source: Clang documentation, "Clang Offload Bundler", "Compression and Decompression", and
``CompressedOffloadBundle`` of LLVM. After the magic: version (16 bits), method (16 bits; 0 zlib,
1 zstd), the total size with the header (32 bits in version 2, 64 in version 3, absent in 1), the
size unpacked (32, 32, 64 bits), and the first eight bytes of the MD5 of what is packed.
"""

from __future__ import annotations

import hashlib
import os
import struct
import zlib
from typing import TYPE_CHECKING, Any, NamedTuple

from coasm.errors import FormatError, ToolError, UnsupportedError

if TYPE_CHECKING:
    from mmap import mmap

    Buffer = bytes | mmap

__all__ = [
    "CCOB_MAGIC",
    "MAX_UNPACKED",
    "Header",
    "frame_size",
    "pack",
    "peek",
    "read_header",
    "unpack",
    "unpack_frame",
    "zstd_frame",
]

CCOB_MAGIC = b"CCOB"

#: Bytes that any bundle may have unpacked, and how many times its own size another may: those of
#: hipcc have up to 23 times theirs, a kilobyte of zstd can be 20 MB of zeros.
MAX_UNPACKED = 1 << 30
_FREE, _MAX_RATIO = 1 << 20, 256
#: Another limit, in bytes, for all bundles: for who has one that these keep out.
LIMIT_VARIABLE = "COASM_MAX_UNPACKED"

_LAYOUTS = {
    1: struct.Struct("<4sHHI8s"),
    2: struct.Struct("<4sHHII8s"),
    3: struct.Struct("<4sHHQQ8s"),
}
_METHODS = ("zlib", "zstd")


class Header(NamedTuple):
    """A header: ``size`` is the whole bundle's with it, ``start`` its own, both in bytes.

    ``method`` is ``zlib`` or ``zstd``, ``digest`` the first eight bytes of the MD5.
    """

    version: int
    method: str
    size: int
    unpacked: int
    digest: bytes
    start: int


def read_header(data: Buffer, at: int, end: int, where: str) -> Header:
    """The header at offset *at* of *data*, whose bundle must end before *end*.

    Version 1 does not say where the bundle ends; the compressed stream itself does.

    Raises:
        FormatError: cut short, or a size that cannot be.
        UnsupportedError: another version or method.
    """
    if end - at < 8:
        raise FormatError(f"{where}: cut short: {end - at} bytes")
    version, method = struct.unpack_from("<HH", data, at + 4)
    layout = _LAYOUTS.get(version)
    if layout is None:
        raise UnsupportedError(f"{where}: CCOB version {version}; known are 1 to 3")
    if method >= len(_METHODS):
        raise UnsupportedError(f"{where}: compression method {method}; known are 0 and 1")
    if end - at < layout.size:
        raise FormatError(f"{where}: cut short: {end - at} bytes, its header has {layout.size}")
    total, unpacked, digest = layout.unpack_from(data, at)[-3:]
    here = end - at if version == 1 else min(total, end - at)
    _check_unpacked(unpacked, here, where)
    if version == 1:
        total = layout.size + _stream_size(data, at + layout.size, end, method, unpacked, where)
        _check_unpacked(unpacked, total, where)
    elif total < layout.size or total > end - at:
        raise FormatError(f"{where}: says it has {total:,} bytes, {end - at:,} are there")
    return Header(version, _METHODS[method], total, unpacked, digest, layout.size)


def _check_unpacked(unpacked: int, size: int, where: str) -> None:
    """Refuse a bundle of *size* bytes that says it has more unpacked than those deserve.

    Raises:
        FormatError: it does; or the variable holds no number.
    """
    own = os.environ.get(LIMIT_VARIABLE, "")
    if own and not own.isdecimal():
        raise FormatError(f"{LIMIT_VARIABLE}={own}: expected a number of bytes")
    limit = int(own) if own else min(MAX_UNPACKED, _FREE + _MAX_RATIO * size)
    if unpacked > limit:
        raise FormatError(
            f"{where}: says it has {unpacked:,} bytes unpacked; the limit for its {size:,} bytes "
            f"is {limit:,} ({LIMIT_VARIABLE} sets another)"
        )


def unpack(data: Buffer, at: int, header: Header, where: str) -> bytes:
    """What the bundle at offset *at* holds, checked against its header's size and digest.

    Raises:
        FormatError: the stream is damaged, or gives another size or digest.
        ToolError: it is zstd, and Python's ``zstandard`` is missing.
    """
    payload = data[at + header.start : at + header.size]
    try:
        if header.method == "zlib":
            stream = zlib.decompressobj()
            # One byte more than it may give: output is never larger, whatever the stream says.
            out = stream.decompress(payload, header.unpacked + 1)
            whole = stream.eof
        else:
            out, whole = _unpack_zstd(payload, header.unpacked, where), True
    except _errors() as error:
        raise FormatError(f"{where}: damaged {header.method} stream: {error}") from None
    if not whole or len(out) != header.unpacked:
        raise FormatError(
            f"{where}: its header says {header.unpacked:,} bytes unpacked, the stream gives "
            + ("more" if len(out) > header.unpacked else f"{len(out):,}")
        )
    if hashlib.md5(out, usedforsecurity=False).digest()[:8] != header.digest:
        raise FormatError(f"{where}: what it holds does not match its checksum")
    return out


def _unpack_zstd(payload: bytes, unpacked: int, where: str) -> bytes:
    """What a frame holds, which must be *unpacked* bytes."""
    zstd = _zstd()
    claimed = zstd.get_frame_parameters(payload).content_size
    if claimed not in (unpacked, zstd.CONTENTSIZE_UNKNOWN):
        raise FormatError(
            f"{where}: its header says {unpacked:,} bytes unpacked, the stream {claimed:,}"
        )
    # Unpacks into a buffer of that size: a stream that gives more is an error.
    out: bytes = zstd.ZstdDecompressor().decompress(
        payload, max_output_size=unpacked, allow_extra_data=False
    )
    return out


def frame_size(front: bytes, size: int, where: str) -> int:
    """Bytes that a zstd frame of *size* bytes, which begins as *front*, says it holds.

    Raises:
        FormatError: damaged, it does not say, or it has more than those bytes deserve.
        ToolError: as :func:`unpack`.
    """
    zstd = _zstd()
    try:
        unpacked: int = zstd.get_frame_parameters(front).content_size
    except zstd.ZstdError as error:
        raise FormatError(f"{where}: damaged zstd stream: {error}") from None
    if unpacked == zstd.CONTENTSIZE_UNKNOWN:
        raise FormatError(f"{where}: a zstd frame that does not say what it holds")
    _check_unpacked(unpacked, size, where)
    return unpacked


def unpack_frame(payload: bytes, unpacked: int, where: str) -> bytes:
    """What a zstd frame holds, which must be *unpacked* bytes; raises as :func:`unpack`."""
    try:
        return _unpack_zstd(payload, unpacked, where)
    except _errors() as error:
        raise FormatError(f"{where}: damaged zstd stream: {error}") from None


def zstd_frame(data: bytes) -> bytes:
    """*data* as one zstd frame that says how much it holds."""
    frame: bytes = _zstd().ZstdCompressor(level=3).compress(data)
    return frame


def peek(data: Buffer, at: int, header: Header, count: int, where: str) -> bytes:
    """The first *count* bytes of what the bundle holds (fewer where it holds fewer).

    Raises:
        FormatError: the stream is damaged.
        ToolError: as :func:`unpack`.
    """
    # A stream grows what it cannot compress by little, and comes in blocks of at most 128 KiB.
    start = at + header.start
    payload = data[start : min(at + header.size, start + count + (1 << 19))]
    count = min(count, header.unpacked)
    try:
        if header.method == "zlib":
            return zlib.decompressobj().decompress(payload, count)
        reader = _zstd().ZstdDecompressor(max_window_size=MAX_UNPACKED).stream_reader(payload)
        parts, got = [], 0
        while got < count:
            part = reader.read(count - got)
            if not part:
                break
            parts.append(part)
            got += len(part)
        return b"".join(parts)
    except _errors() as error:
        raise FormatError(f"{where}: damaged {header.method} stream: {error}") from None


def pack(data: bytes, version: int, method: str, room: int) -> bytes:
    """A compressed bundle of *data*, as LLVM writes it; harder compressed where *room* is short.

    Raises:
        UnsupportedError: too large for the version's header.
        ToolError: as :func:`unpack`.
    """
    layout = _LAYOUTS[version]
    body = b""
    for effort in (0, 1):
        if method == "zlib":
            body = zlib.compress(data, (6, 9)[effort])
        else:
            zstd = _zstd()
            level = (3, 19)[effort]
            settings = zstd.ZstdCompressionParameters.from_level(
                level, source_size=len(data), enable_ldm=True
            )
            body = zstd.ZstdCompressor(compression_params=settings).compress(data)
        if layout.size + len(body) <= room:
            break
    total = layout.size + len(body)
    digest = hashlib.md5(data, usedforsecurity=False).digest()[:8]
    sizes = (len(data),) if version == 1 else (total, len(data))
    return layout.pack(CCOB_MAGIC, version, _METHODS.index(method), *sizes, digest) + body


def _stream_size(data: Buffer, at: int, end: int, method: int, unpacked: int, where: str) -> int:
    """Bytes of the compressed stream at *at*."""
    if _METHODS[method] == "zlib":
        return _zlib_size(data, at, end, unpacked, where)
    return _zstd_size(data, at, end, where)


def _zlib_size(data: Buffer, at: int, end: int, unpacked: int, where: str) -> int:
    stream, position, given = zlib.decompressobj(), at, 0
    pending = b""
    try:
        while not stream.eof:
            if not pending:
                pending = data[position : min(end, position + (1 << 16))]
                position += len(pending)
                if not pending:
                    raise FormatError(f"{where}: cut short: its zlib stream does not end")
            given += len(stream.decompress(pending, 1 << 20))
            pending = stream.unconsumed_tail
            if given > unpacked:
                raise FormatError(
                    f"{where}: its stream gives more than the {unpacked:,} bytes "
                    "that its header says"
                )
    except zlib.error as error:
        raise FormatError(f"{where}: damaged zlib stream: {error}") from None
    return position - len(stream.unused_data) - at


def _zstd_size(data: Buffer, at: int, end: int, where: str) -> int:
    """Bytes of a zstd frame, by its blocks. Source: RFC 8878, sections 3.1.1 and 3.1.1.2."""
    zstd = _zstd()
    front = data[at : min(end, at + 18)]
    try:
        size: int = zstd.frame_header_size(front)
        checksum = zstd.get_frame_parameters(front).has_checksum
    except zstd.ZstdError as error:
        raise FormatError(f"{where}: damaged zstd stream: {error}") from None
    position, last = at + size, False
    while not last:
        if position + 3 > end:
            raise FormatError(f"{where}: cut short: its zstd stream does not end")
        block = int.from_bytes(data[position : position + 3], "little")
        last, kind, size = bool(block & 1), block >> 1 & 3, block >> 3
        position += 3 + (1 if kind == 1 else size)
    position += 4 if checksum else 0
    if position > end:
        raise FormatError(f"{where}: cut short: its zstd stream does not end")
    return position - at


def _zstd() -> Any:
    try:
        import zstandard
    except ImportError:
        raise ToolError(
            "a bundle is compressed with zstd; install the Python package zstandard"
        ) from None
    return zstandard


def _errors() -> tuple[type[Exception], ...]:
    """What the two decompressors raise on a damaged stream."""
    try:
        import zstandard
    except ImportError:
        return (zlib.error,)
    return (zlib.error, zstandard.ZstdError)
