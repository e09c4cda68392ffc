"""Compressed bundles, against clang-offload-bundler and a writer of the tests' own; and bombs."""

from __future__ import annotations

import hashlib
import os
import random
import struct
import tracemalloc
import zlib
from pathlib import Path

import pytest
import zstandard

from coasm.bundle.compressed import MAX_UNPACKED, pack, peek, read_header, unpack
from coasm.bundle.images import entries_of
from coasm.errors import FormatError, UnsupportedError
from coasm.llvm.find import Llvm
from tests.bundle.carriers import HOST, bundle, ccob, entry_id, run, tool

KINDS = [(version, method) for version in (1, 2, 3) for method in ("zlib", "zstd")]
# What compresses badly holds the magic at some place; here it is put there.
NOISE = random.Random(4).randbytes(70_000)
DATA = bundle([HOST, (entry_id("gfx942"), NOISE[:30_000] + b"CCOB\2\0\1\0" * 9 + NOISE[30_000:])])


def _unpacked(data: bytes, at: int = 0, end: int | None = None) -> bytes:
    header = read_header(data, at, len(data) if end is None else end, "x")
    return unpack(data, at, header, "x")


@pytest.mark.parametrize(("version", "method"), KINDS)
def test_unpack(version: int, method: str) -> None:
    data = ccob(DATA, version, method)
    header = read_header(data, 0, len(data), "x")
    assert (header.version, header.method, header.unpacked) == (version, method, len(DATA))
    assert header.size == len(data)
    assert unpack(data, 0, header, "x") == DATA
    assert peek(data, 0, header, 100, "x") == DATA[:100]


@pytest.mark.parametrize(("version", "method"), KINDS)
def test_pack_is_what_others_unpack(version: int, method: str) -> None:
    data = pack(DATA, version, method, 1 << 30)
    body = data[{1: 20, 2: 24, 3: 32}[version] :]
    out = zlib.decompress(body) if method == "zlib" else zstandard.decompress(body)
    assert out == DATA
    assert _unpacked(data) == DATA
    assert hashlib.md5(DATA).digest()[:8] in data[:32]


@pytest.mark.parametrize("version", [2, 3])
def test_the_bundler_reads_and_writes_the_same(llvm: Llvm, tmp_path: Path, version: int) -> None:
    (tmp_path / "none").write_bytes(b"")
    (tmp_path / "image").write_bytes(NOISE)
    targets = f"-targets={HOST[0]},{entry_id('gfx942')}"
    files = {name: tmp_path / name for name in ("plain", "packed", "ours", "back")}
    inputs = (f"-input={tmp_path}/none", f"-input={tmp_path}/image")
    bundler = tool(llvm, "clang-offload-bundler")
    run(bundler, "-type=o", targets, *inputs, f"-output={files['plain']}")
    run(
        bundler, "-type=o", "-compress", targets, *inputs, f"-output={files['packed']}",
        env={**os.environ, "COMPRESSED_BUNDLE_FORMAT_VERSION": str(version)},
    )  # fmt: skip
    packed, plain = files["packed"].read_bytes(), files["plain"].read_bytes()
    assert packed[4] == version
    assert _unpacked(packed) == plain
    for method in ("zlib", "zstd"):
        files["ours"].write_bytes(pack(plain, version, method, 0))
        run(
            bundler, "-unbundle", "-type=o", f"-targets={entry_id('gfx942')}",
            f"-input={files['ours']}", f"-output={files['back']}",
        )  # fmt: skip
        assert files["back"].read_bytes() == NOISE


@pytest.mark.parametrize(("version", "method"), KINDS)
def test_end_is_found_among_others(version: int, method: str) -> None:
    """Version 1 does not say how long it is; and nobody is led astray by a magic inside."""
    one = ccob(DATA, version, method)
    data = one + b"\0" * 100 + ccob(DATA, 3, "zlib") + one
    entries = entries_of(data, "x")
    assert [e.container.offset for e in entries] == [0, len(one) + 100, len(data) - len(one)]
    assert entries[0].container.size == len(one)


@pytest.mark.parametrize(("version", "method"), KINDS)
def test_cut_short(version: int, method: str) -> None:
    data = ccob(DATA, version, method)
    for size in (*range(8, 40), len(data) // 2, len(data) - 5, len(data) - 1):
        with pytest.raises(FormatError):
            _unpacked(data[:size])


@pytest.mark.parametrize(("version", "method"), KINDS)
@pytest.mark.parametrize("off", [-1, 1])
def test_lies_about_the_unpacked_size(version: int, method: str, off: int) -> None:
    data = ccob(DATA, version, method, claims=len(DATA) + off)
    with pytest.raises(FormatError):
        _unpacked(data)


@pytest.mark.parametrize(("version", "method"), KINDS)
def test_wrong_digest(version: int, method: str) -> None:
    data = bytearray(ccob(DATA, version, method))
    data[{1: 12, 2: 16, 3: 24}[version]] ^= 1
    with pytest.raises(FormatError, match="checksum"):
        _unpacked(bytes(data))


def test_other_versions_and_methods() -> None:
    data = ccob(DATA, 2, "zlib")
    with pytest.raises(UnsupportedError, match="version 4"):
        _unpacked(data[:4] + b"\4" + data[5:])
    with pytest.raises(UnsupportedError, match="method 2"):
        _unpacked(data[:6] + b"\2" + data[7:])


@pytest.mark.parametrize(("version", "method"), KINDS)
def test_claims_more_than_the_limit(version: int, method: str) -> None:
    data = ccob(DATA, version, method, claims=MAX_UNPACKED + 1)
    with pytest.raises(FormatError, match="the limit for"):
        read_header(data, 0, len(data), "x")


def _zstd_bomb(size: int) -> bytes:
    """A frame without its size, of blocks that repeat one byte. Source: RFC 8878."""
    frame = struct.pack("<IBB", 0xFD2FB528, 0, 0x58)  # no content size; a window of 2 MiB
    blocks = size >> 17
    for number in range(blocks):
        frame += ((1 << 17) << 3 | 1 << 1 | (number == blocks - 1)).to_bytes(3, "little") + b"\0"
    return frame


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("method", ["zlib", "zstd"])
@pytest.mark.parametrize("claimed", [100, 1 << 20])
def test_bomb(version: int, method: str, claimed: int) -> None:
    """A stream of 64 MiB whose header claims little takes no memory to be refused."""
    size = 1 << 26
    if method == "zstd":
        body = _zstd_bomb(size)
        assert len(zstandard.ZstdDecompressor().decompressobj().decompress(body[:10])) == 1 << 17
    else:
        stream = zlib.compressobj(9)
        body = b"".join(stream.compress(bytes(1 << 20)) for _ in range(size >> 20)) + stream.flush()
    head = b"CCOB" + struct.pack("<HH", version, ("zlib", "zstd").index(method))
    total = {1: 20, 2: 24, 3: 32}[version] + len(body)
    head += {1: struct.pack("<I", claimed), 2: struct.pack("<II", total, claimed),
             3: struct.pack("<QQ", total, claimed)}[version]  # fmt: skip
    data = head + bytes(8) + body
    tracemalloc.start()
    try:
        with pytest.raises(FormatError):
            _unpacked(data)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_zstd_frame_claims_another_size() -> None:
    body = zstandard.compress(DATA)
    at = ccob(DATA, 3, "zstd")[:32]
    with pytest.raises(FormatError, match="the stream"):
        _unpacked(at[:16] + struct.pack("<Q", 5000) + at[24:] + body)


@pytest.mark.parametrize(("version", "method"), KINDS)
def test_damaged_stream(version: int, method: str) -> None:
    data = ccob(DATA, version, method)
    for seed in range(40):
        changed = bytearray(data)
        changed[random.Random(seed).randrange(4, len(data))] ^= 1 << seed % 8
        try:
            assert _unpacked(bytes(changed)) == DATA  # a bit that does not matter
        except (FormatError, UnsupportedError):
            continue


def test_something_else_inside() -> None:
    data = ccob(b"\x7fELF" + bytes(100), 3, "zstd")
    with pytest.raises(FormatError, match="no offload bundle"):
        entries_of(data, "x")
