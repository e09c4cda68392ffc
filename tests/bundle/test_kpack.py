"""ROCm's kernel archives, written here by the format's description."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import msgpack
import pytest
import zstandard

from coasm.bundle import embed, extract, find
from coasm.errors import CoasmError, FormatError, UnsupportedError
from coasm.llvm.find import Llvm
from tests.bundle.carriers import cc, device, run

_FILES = ("lib/first.so#0", "lib/second.so#0")


def _archive(objects: list[tuple[str, str, bytes]], scheme: str) -> bytes:
    """Source: ROCm/rocm-kpack, the description of the format in ``kpack.py``."""
    body, blobs = b"", []
    toc: dict[str, dict[str, Any]] = {}
    for ordinal, (binary, target, data) in enumerate(objects):
        toc.setdefault(binary, {})[target] = {
            "type": "hsaco", "ordinal": ordinal, "original_size": len(data)
        }  # fmt: skip
        if scheme == "none":
            blobs.append({"offset": 64 + len(body), "size": len(data)})
            body += data
        else:
            frame = zstandard.compress(data)
            body += struct.pack("<I", len(frame)) + frame
    places: dict[str, Any] = {"blobs": blobs}
    if scheme != "none":
        body = struct.pack("<I", len(objects)) + body
        places = {"zstd_offset": 64, "zstd_size": len(body)}
    table = {
        "format_version": 1, "group_name": "blas", "gfx_arch_family": "gfx94X",
        "gfx_arches": ["gfx942"], "toc": toc, "compression_scheme": scheme, **places,
    }  # fmt: skip
    head = struct.pack("<4sIQ", b"KPAK", 1, 64 + len(body)).ljust(64, b"\0")
    return head + body + msgpack.packb(table, use_bin_type=True)


def _rows(objects: dict[str, bytes]) -> list[tuple[str, str, bytes]]:
    first, second = _FILES
    return [
        (first, "gfx942", objects["gfx942"]),
        (first, "gfx1100", objects["gfx1100"]),
        (second, "gfx942", objects["gfx942"]),
    ]


@pytest.mark.parametrize("scheme", ("none", "zstd-per-kernel"))
def test_read_and_put_back(
    llvm: Llvm, objects: dict[str, bytes], tmp_path: Path, scheme: str
) -> None:
    rows = _rows(objects)
    path = tmp_path / "blas.kpack"
    path.write_bytes(_archive(rows, scheme))
    found = find(path)
    assert [(e.container.member, e.target, extract(e)) for e in found] == rows
    assert [e.name for e in found] == ["gfx942#1", "gfx1100#1", "gfx942#2"]
    assert embed(path, {"gfx942#2": objects["gfx942"]}).data == path.read_bytes()
    larger = device(llvm, "gfx942", "alpha", "beta", pad=70_000)
    new = embed(path, {"gfx942#1": larger}).data
    assert new == _archive([(*rows[0][:2], larger), *rows[1:]], scheme)


def test_a_file_that_was_split(objects: dict[str, bytes], tmp_path: Path) -> None:
    """Its section names the archive beside it, and its own name there."""
    (tmp_path / "lib").mkdir()
    (tmp_path / ".kpack").mkdir()
    archive = tmp_path / ".kpack" / "blas.kpack"
    archive.write_bytes(_archive(_rows(objects), "zstd-per-kernel"))
    said = {"kernel_name": "lib/first.so", "kpack_search_paths": ["../.kpack/blas.kpack"]}
    (tmp_path / "ref").write_bytes(msgpack.packb(said))
    (tmp_path / "a.s").write_text('\t.section .rocm_kpack_ref,"a",@progbits\n\t.incbin "ref"\n')
    run(cc(), "-shared", "-nostdlib", "a.s", "-o", "lib/first.so", cwd=tmp_path)
    found = find(tmp_path / "lib" / "first.so")
    assert [(e.target, extract(e)) for e in found] == list(objects.items())
    with pytest.raises(UnsupportedError, match=r"its objects are in .*blas\.kpack; embed there"):
        embed(tmp_path / "lib" / "first.so", {"gfx942": objects["gfx942"]})
    archive.unlink()
    with pytest.raises(FormatError, match=r"blas\.kpack: No such file"):
        find(tmp_path / "lib" / "first.so")


@pytest.mark.parametrize("scheme", ("none", "zstd-per-kernel"))
def test_damaged(objects: dict[str, bytes], tmp_path: Path, scheme: str) -> None:
    """Bytes of the header and the table changed, and the file cut short."""
    data = _archive(_rows({t: d[:600] for t, d in objects.items()}), scheme)
    path = tmp_path / "x.kpack"
    (table,) = struct.unpack_from("<Q", data, 8)
    read = 0
    for at in [*range(4, 16), *range(64, 80), *range(table, len(data), 3)]:
        for value in (0, 0x7F, 0xFF):
            path.write_bytes(data[:at] + bytes([value]) + data[at + 1 :])
            read += _reads(path)
    for end in range(4, len(data), 97):
        path.write_bytes(data[:end])
        assert not _reads(path)
    assert read > 100
    for version in (0, 2):
        path.write_bytes(struct.pack("<4sI", b"KPAK", version) + data[8:])
        with pytest.raises(UnsupportedError, match=f"version {version}; known is 1"):
            find(path)


def _reads(path: Path) -> bool:
    try:
        for entry in find(path):
            extract(entry)
    except CoasmError:
        return False
    return True


def test_a_frame_has_no_more_than_its_bytes_deserve(tmp_path: Path) -> None:
    path = tmp_path / "x.kpack"
    path.write_bytes(_archive([(_FILES[0], "gfx942", bytes(64 << 20))], "zstd-per-kernel"))
    with pytest.raises(FormatError, match="COASM_MAX_UNPACKED sets another"):
        find(path)
