"""Windows executables and object files, which LLVM's linker makes and its reader judges."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest

from coasm.bundle import embed, extract, find
from coasm.errors import FormatError, UnsupportedError
from coasm.llvm.find import Llvm
from tests.bundle.carriers import HOST, bundle, ccob, device, entry_id, run, tool

_SOURCE = """\
\t.section .hip_fatbin,"dr"
\t.balign 4096
bundle:\t.incbin "bundle"
\t.section .hipFatBinSegment,"dw"
\t.balign 8
wrapper:\t.long 0x48495046, 1
\t.quad bundle, 0
\t.text
\t.globl main
main:\tleaq wrapper(%rip), %rax
\tretq
"""


def _bundle(objects: dict[str, bytes]) -> bytes:
    return bundle([HOST, *((entry_id(t), d) for t, d in objects.items())])


def _linked(llvm: Llvm, folder: Path, data: bytes, *flags: str) -> Path:
    (folder / "bundle").write_bytes(data)
    (folder / "a.s").write_text(_SOURCE)
    triple = "--target=x86_64-pc-windows-msvc"
    run(tool(llvm, "clang"), triple, "-c", "a.s", "-o", "a.obj", cwd=folder)
    command = ["/entry:main", "/subsystem:console", "/nodefaultlib", "/out:a.exe", *flags, "a.obj"]
    run(tool(llvm, "lld-link"), *command, cwd=folder)
    return folder / "a.exe"


def _said(llvm: Llvm, path: Path, *options: str) -> str:
    return run(tool(llvm, "llvm-readobj"), *options, path).stdout.decode()


@pytest.mark.parametrize("packed", (False, True), ids=("bundle", "CCOB"))
def test_read_and_in_place(
    llvm: Llvm, objects: dict[str, bytes], tmp_path: Path, packed: bool
) -> None:
    data = _bundle(objects)
    exe = _linked(llvm, tmp_path, ccob(data, 3, "zstd") if packed else data)
    for path, section in ((exe, ".hip_fat"), (tmp_path / "a.obj", ".hip_fatbin")):
        found = find(path)
        assert [(e.target, extract(e)) for e in found] == list(objects.items())
        assert {e.container.section for e in found} == {section}
        assert embed(path, {"gfx942": objects["gfx942"]}).data == path.read_bytes()
        edited = device(llvm, "gfx942", "alpha", "beta", body="s_nop 1")
        done = embed(path, {"gfx942": edited})
        assert [change.where for change in done.changes] == ["in place"]
        path.write_bytes(done.data)
        assert [extract(e) for e in find(path)] == [edited, objects["gfx1100"]]


def test_in_a_new_section(llvm: Llvm, objects: dict[str, bytes], tmp_path: Path) -> None:
    exe = _linked(llvm, tmp_path, _bundle(objects))
    before = _said(llvm, exe, "--sections", "--coff-basereloc")
    larger = device(llvm, "gfx942", "alpha", "beta", pad=70_000)
    done = embed(exe, {"gfx942": larger})
    assert [change.where for change in done.changes] == ["new section"]
    exe.write_bytes(done.data)
    assert [extract(e) for e in find(exe)] == [larger, objects["gfx1100"]]
    after = _said(llvm, exe, "--sections", "--coff-basereloc")
    names = [re.findall(r"Name: (\S+)", text) for text in (before, after)]
    assert names[1] == [*names[0], ".hip_fat"]
    # What the loader makes of it: the pointer, less the base it is linked for, is in that section.
    head = _said(llvm, exe, "--file-headers")
    (base,) = re.findall(r"ImageBase: (\w+)", head)
    (size,) = re.findall(r"SizeOfImage: (\w+)", head)
    start, length, raw = (
        int(re.findall(rf"{key}: (\w+)", after)[-1], 0)
        for key in ("VirtualAddress", "VirtualSize", "PointerToRawData")
    )
    assert start % 4096 == 0 and start + length <= int(size, 0)
    data = exe.read_bytes()
    wrapper = data.index(struct.pack("<II", 0x48495046, 1))
    (pointer,) = struct.unpack_from("<Q", data, wrapper + 8)
    at = raw + pointer - int(base, 0) - start
    assert data[at:].startswith(b"__CLANG_OFFLOAD_BUNDLE__")
    relocations = re.findall(r"Type: DIR64\s+Address: (\w+)", before)
    assert relocations and relocations == re.findall(r"Type: DIR64\s+Address: (\w+)", after)
    again = embed(exe, {"gfx942": device(llvm, "gfx942", "alpha", "beta", pad=140_000)})
    assert [change.where for change in again.changes] == ["new section"]


def test_the_checksum_is_that_of_the_linker(
    llvm: Llvm, objects: dict[str, bytes], tmp_path: Path
) -> None:
    """Two programs that differ in a bundle: what one becomes by ``embed`` is the other."""
    edited = device(llvm, "gfx942", "alpha", "beta", body="s_nop 1")
    flags = ("/release", "/Brepro", "/timestamp:1")
    try:
        one = _linked(llvm, tmp_path, _bundle({**objects, "gfx942": edited}), *flags).read_bytes()
    except Exception as error:  # this linker may not know the flags
        pytest.skip(f"no checksum: {error}")
    exe = _linked(llvm, tmp_path, _bundle(objects), *flags)
    made = embed(exe, {"gfx942": edited}).data
    checksum = struct.unpack_from("<I", made, struct.unpack_from("<I", made, 60)[0] + 24 + 64)
    if not any(checksum):
        pytest.skip("this linker writes no checksum")
    assert made == one


def test_damaged(llvm: Llvm, objects: dict[str, bytes], tmp_path: Path) -> None:
    exe = _linked(llvm, tmp_path, _bundle(objects))
    data = exe.read_bytes()
    header = struct.unpack_from("<I", data, 60)[0]
    sections = header + 24 + struct.unpack_from("<H", data, header + 20)[0]
    larger = device(llvm, "gfx942", "alpha", "beta", pad=70_000)
    for at in [60, *range(header, header + 24, 2), *range(header + 24, sections + 160, 4)]:
        for value in (0, 0x7FFFFFFF, 0xFFFFFFFF):
            out = bytearray(data)
            struct.pack_into("<I", out, at, value)
            exe.write_bytes(out)
            try:
                made = embed(exe, {"gfx942": larger}).data
            except (FormatError, UnsupportedError):
                continue
            assert len(made) < len(data) + len(larger) + (1 << 18)
    exe.write_bytes(data[: header + 100])
    with pytest.raises(FormatError, match="outside of the file"):
        find(exe)
