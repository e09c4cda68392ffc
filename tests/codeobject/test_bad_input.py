"""What is no code object, or is not handled: an error that names the file and the place."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from coasm.codeobject import CodeObject, load
from coasm.errors import CoasmError, FormatError, UnsupportedError
from coasm.llvm.find import Llvm
from tests.asm.tools import built


@pytest.fixture(scope="module")
def good(llvm: Llvm) -> CodeObject:
    return built(llvm, "s_nop 0\ns_endpgm")


def _patched(co: CodeObject, *changes: tuple[int, bytes]) -> bytes:
    data = bytearray(co.data)
    for at, new in changes:
        data[at : at + len(new)] = new
    return bytes(data)


def _section_header(co: CodeObject, name: str, field: int) -> int:
    (section,) = [s for s in co.sections if s.name == name]
    return co.elf.header.shoff + 64 * section.index + field


# Offsets are those of the ELF-64 file header and section header (System V ABI).
_HEADER = {
    "empty": (None, "the file is empty", FormatError),
    "text": (b"hello\n" * 20, "not an ELF file", FormatError),
    "magic only": (b"\x7fELF", "truncated", FormatError),
    "32-bit": ([(4, b"\1")], "not a 64-bit little-endian ELF file", UnsupportedError),
    "big-endian": ([(5, b"\2")], "not a 64-bit little-endian ELF file", UnsupportedError),
    "x86-64": ([(18, b"\x3e\0")], "machine 62, not EM_AMDGPU", UnsupportedError),
    "Linux OS ABI": ([(7, b"\3")], "OS ABI 3, not AMDGPU_HSA", UnsupportedError),
    "PAL": ([(7, b"\x41")], "OS ABI 65, not AMDGPU_HSA", UnsupportedError),
    "relocatable": ([(16, b"\1\0")], "a relocatable file (ET_REL)", UnsupportedError),
    "executable": ([(16, b"\2\0")], "ELF type 2, expected ET_DYN", UnsupportedError),
    "v2": ([(8, b"\0")], "code object v2 (ABI version 0)", UnsupportedError),
    "v9": ([(8, b"\7")], "unknown ABI version 7", UnsupportedError),
    "unknown gfx": ([(48, b"\xee")], "unknown gfx target: EF_AMDGPU_MACH 0xee", UnsupportedError),
    "stray flags": ([(51, b"\x80")], "bits that code object v5 does not define", UnsupportedError),
    "shnum": ([(60, b"\xff\x7f")], "the section header table", FormatError),
    "shoff": ([(40, b"\xff" * 8)], "the section header table", FormatError),
    "shentsize": ([(58, b"\x28\0")], "section header size 40", FormatError),
    "shstrndx": ([(62, b"\xff\0")], "is not the section name table", FormatError),
    "phoff": ([(32, b"\xff" * 7)], "the program header table", FormatError),
    "phentsize": ([(54, b"\1\0")], "program header size 1", FormatError),
    "no sections": ([(40, bytes(8)), (58, bytes(6))], "no AMDGPU metadata", FormatError),
    "bundle": (b"__CLANG_OFFLOAD_BUNDLE__" + bytes(64), "an offload bundle", UnsupportedError),
    "compressed": (b"CCOB" + bytes(64), "a compressed offload bundle", UnsupportedError),
    "archive": (b"!<arch>\n" + bytes(64), "an archive", UnsupportedError),
    "packaged": (b"\x10\xff\x10\xad" + bytes(64), "an LLVM offload binary", UnsupportedError),
}


@pytest.mark.parametrize("case", _HEADER)
def test_header(case: str, good: CodeObject) -> None:
    change, message, kind = _HEADER[case]
    data = change if isinstance(change, bytes) else _patched(good, *(change or []))
    with pytest.raises(kind) as caught:
        _ = load(b"" if change is None else data, name="bad.co").kernels
    assert str(caught.value).startswith("bad.co: ") and "\n" not in str(caught.value)
    assert message in str(caught.value)
    assert caught.value.exit_code == 2


_SECTIONS = {
    "size": (".text", 32, b"\xff" * 6, "section"),
    "offset": (".note", 24, b"\xff" * 6, "outside the file"),
    "overlap": (".rodata", 32, struct.pack("<Q", 0x10000), "section"),
    "address": (".text", 16, struct.pack("<Q", 0x40), "section"),
    "partial symbol": (".symtab", 32, struct.pack("<Q", 25), "is no multiple of 24"),
    "string table": (".symtab", 40, struct.pack("<I", 99), "its string table (section 99) is none"),
    "name": (".symtab", 0, struct.pack("<I", 1 << 30), "the name of section"),
    "note size": (".note", 32, struct.pack("<Q", 9), "truncated note header"),
}


@pytest.mark.parametrize("case", _SECTIONS)
def test_sections(case: str, good: CodeObject) -> None:
    name, field, new, message = _SECTIONS[case]
    data = _patched(good, (_section_header(good, name, field), new))
    with pytest.raises(FormatError) as caught:
        co = load(data, name="bad.co")
        _ = co.symbols, co.kernels
    assert str(caught.value).startswith("bad.co: ") and message in str(caught.value)


def test_symbols_that_lie(good: CodeObject) -> None:
    table = next(s for s in good.sections if s.name == ".symtab")
    for field, new, message in (
        (0, b"\xff" * 4, "is outside its string table"),
        (6, b"\x88\x00", "is in section 136, which is none"),
        (6, b"\xff\xff", "extended section indices"),
    ):
        data = _patched(good, (table.offset + 24 + field, new))
        with pytest.raises(CoasmError, match=message):
            _ = load(data, name="bad.co").symbols


def test_metadata_that_lies(good: CodeObject) -> None:
    for old, new, message in (
        (b"k.kd", b"j.kd", r"amdhsa\.kernels\[0\]: no symbol 'j\.kd'"),
        (b".symbol", b".simbol", r"amdhsa\.kernels\[0\] has no \.symbol"),
        (b"amdhsa.kernels", b"amdhsa.kernals", None),
        (b"AMDGPU\0", b"AMDGPV\0", "no AMDGPU metadata"),
    ):
        note = next(s for s in good.sections if s.name == ".note")
        assert note.data.count(old) == 1
        data = _patched(good, (note.offset + note.data.index(old), new))
        if message is None:
            assert load(data).kernels == ()
            continue
        with pytest.raises(FormatError, match=message) as caught:
            _ = load(data, name="bad.co").kernels
        assert str(caught.value).startswith("bad.co: ")


def test_the_descriptor_is_nowhere(good: CodeObject) -> None:
    for name in (".symtab", ".dynsym"):
        table = next(s for s in good.sections if s.name == name)
        symbol = next(
            s
            for s in (good.elf.symbols if name == ".symtab" else good.elf.dynamic_symbols)
            if s.name == "k.kd"
        )
        at = table.offset + 24 * symbol.index + 8
        data = _patched(good, (at, struct.pack("<Q", 0x7FFFFFFF0)))
        co = load(data, name="bad.co")
        if name == ".dynsym":
            with pytest.raises(FormatError, match=r"descriptor 'k\.kd' at 0x7fffffff0 is not in"):
                _ = co.kernels


def test_paths(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="No such file"):
        load(tmp_path / "missing.co")
    with pytest.raises(FormatError, match=r"[Ii]s a directory|not a regular file"):
        load(tmp_path)
    with pytest.raises(FormatError, match="not a regular file"):
        load("/dev/zero")
    os.mkfifo(tmp_path / "pipe.co")  # which nobody ever writes to
    with pytest.raises(FormatError, match="not a regular file"):
        load(tmp_path / "pipe.co")
    with open(tmp_path / "large.co", "wb") as file:
        file.truncate(1 << 32)  # takes no room
    with pytest.raises(FormatError, match="too large"):
        load(tmp_path / "large.co")
    (tmp_path / "empty.co").write_bytes(b"")
    with pytest.raises(FormatError, match="the file is empty"):
        load(tmp_path / "empty.co")


def test_code_object_v3_is_read(good: CodeObject) -> None:
    """ABI version 1; in it xnack and sramecc are one bit each (LLVM AMDGPU usage, V3 e_flags)."""
    co = load(_patched(good, (8, b"\1"), (48, struct.pack("<I", 0x4C))))
    assert (co.code_object_version, str(co.target)) == (3, "gfx942:sramecc-:xnack-")
    assert [k.name for k in co.kernels] == ["k"]
    co = load(_patched(good, (8, b"\1"), (48, struct.pack("<I", 0x34C))))
    assert str(co.target) == "gfx942:sramecc+:xnack+"
