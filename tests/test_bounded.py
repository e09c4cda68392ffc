"""Work is bounded by the input: no field of a small file makes coasm, or what it starts, large.

Each field of the headers and tables of a small object is set to extreme values. All commands have
to end, with a verdict or an error, in a process that may have 1.5 GB, LLVM's tools included.
"""

from __future__ import annotations

import re
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import coasm
from coasm.__main__ import main
from coasm.asm.lines import line_table
from coasm.bundle.compressed import pack
from coasm.bundle.images import extract, find
from coasm.bundle.table import read_offload
from coasm.codeobject import load
from coasm.descriptor.declared import resources
from coasm.errors import CoasmError, FormatError, ToolError
from coasm.linter import operands
from coasm.llvm import Llvm, limits
from coasm.llvm.run import assemble, objdump
from coasm.reads import Reads
from coasm.target import TargetID
from tests.bundle.carriers import HOST, bundle, device, entry_id, host
from tests.counting import calls
from tests.linter.sources import listing

#: Address space of a process, in bytes.
_MEMORY = 1500 << 20
#: Seconds: what hangs is ended; nothing here is a measure of speed.
_HANG = 500
_VALUES_64 = (1 << 31, 1 << 36, 1 << 47, (1 << 63) - 4096)
_VALUES_32 = (1 << 16, (1 << 31) - 1)

# Name of a field, offset in its record, size. Source: the System V ABI.
_SECTION = (
    ("sh_type", 4, 4), ("sh_addr", 16, 8), ("sh_offset", 24, 8), ("sh_size", 32, 8),
    ("sh_link", 40, 4), ("sh_info", 44, 4), ("sh_addralign", 48, 8), ("sh_entsize", 56, 8),
)  # fmt: skip
_SEGMENT = (
    ("p_offset", 8, 8), ("p_vaddr", 16, 8), ("p_filesz", 32, 8), ("p_memsz", 40, 8),
    ("p_align", 48, 8),
)  # fmt: skip
_SYMBOL = (("st_name", 0, 4), ("st_value", 8, 8), ("st_size", 16, 8))
_CHILD = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]),) * 2)
from coasm.__main__ import main
original = sys.argv[2]
for path in sys.argv[3:]:
    for command in (["disasm", path, "-o", path + ".s"], ["info", path], ["lint", path],
                    ["verify", original, path], ["extract", path, "--list"], ["roundtrip", path]):
        print("RUN", path, command[0], flush=True)
        status = main(command)
        print("STATUS", status, flush=True)
"""

_EMBED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]),) * 2)
from coasm.__main__ import main
for path in sys.argv[3:]:
    command = ["embed", path, "-r", "gfx942=" + sys.argv[2], "-o", path[:-3] + ".new"]
    print("STATUS", main(command), flush=True)
"""


def _mutants(data: bytes) -> Iterator[tuple[str, bytes]]:
    elf = load(data).elf
    records = [
        (f"section {s.index}", elf.header.shoff + 64 * s.index, _SECTION) for s in elf.sections[1:]
    ]
    records += [
        (f"segment {n}", elf.header.phoff + 56 * n, _SEGMENT) for n in range(len(elf.segments))
    ]
    for table in elf.sections:
        if table.name in (".symtab", ".dynsym"):
            records += [
                (f"symbol {at // 24} of {table.name}", table.offset + at, _SYMBOL)
                for at in range(24, table.size, 24)
            ]
    for what, base, fields in records:
        for name, offset, size in fields:
            for value in _VALUES_64 if size == 8 else _VALUES_32:
                out = bytearray(data)
                out[base + offset : base + offset + size] = value.to_bytes(size, "little")
                yield f"{what} {name} {value:#x}", bytes(out)


def _run(folder: Path, original: Path, mutants: list[tuple[str, bytes]]) -> str:
    paths = []
    for number, (_, data) in enumerate(mutants):
        paths.append(folder / f"{number}.co")
        paths[-1].write_bytes(data)
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, str(_MEMORY), str(original), *map(str, paths)],
        capture_output=True,
        text=True,
        timeout=_HANG,
        check=False,
    )
    said = done.stdout + done.stderr
    runs = done.stdout.count("RUN ")
    last = [line for line in done.stdout.split("\n") if line.startswith("RUN ")][-1:]
    what = mutants[int(Path(last[0].split()[1]).stem)][0] if last else ""
    assert runs == 6 * len(mutants) == done.stdout.count("STATUS "), (what, last, said[-800:])
    assert done.returncode == 0, (what, said[-800:])
    for word in ("out of memory", "internal error", "Traceback", "MemoryError"):
        assert word not in said, (word, said[max(0, said.find(word) - 400) :][:800])
    return said


def _kind(name: str) -> str:
    return name.split(" ")[-2]


@pytest.mark.slow
def test_no_field_makes_the_work_large(
    fixture_objects: list[tuple[str, Path]], tmp_path: Path
) -> None:
    original = dict(fixture_objects)["sections-gfx942-v5"]
    whole = list(_mutants(original.read_bytes()))
    # Every 29th, and a quarter of the alignments: which they are changes with the fixture.
    alignments = [m for m in whole if "align" in _kind(m[0])]
    chosen = whole[::29] + alignments[::4]
    assert {"sh_addralign", "p_align"} < {_kind(name) for name, _ in chosen}
    _run(tmp_path, original, chosen)


def test_no_field_of_a_carrier_makes_embed_large(llvm: Llvm, tmp_path: Path) -> None:
    objects = {target: device(llvm, target, "alpha") for target in ("gfx942", "gfx1100")}
    images = [HOST, *((entry_id(target), data) for target, data in objects.items())]
    data = host(tmp_path, [bundle(images)], "-shared", "-fPIC").read_bytes()
    new = tmp_path / "new.co"
    new.write_bytes(device(llvm, "gfx942", "alpha", pad=70_000))
    phoff, shoff = struct.unpack_from("<QQ", data, 32)
    phnum, _, shnum = struct.unpack_from("<HHH", data, 56)
    records = [(shoff + 64 * n, _SECTION) for n in range(1, shnum)]
    records += [(phoff + 56 * n, _SEGMENT) for n in range(phnum)]
    head = (("count", 24, 8), ("offset", 32, 8), ("size", 40, 8), ("length", 48, 8))
    records.append((data.index(b"__CLANG_OFFLOAD_BUNDLE__"), head))
    fields = [(base + at, size) for base, row in records for _, at, size in row]
    places = []
    for number, (at, size) in enumerate(fields[:: len(fields) // 60]):
        values = _VALUES_64 if size == 8 else _VALUES_32
        out = bytearray(data)
        out[at : at + size] = values[number % len(values)].to_bytes(size, "little")
        places.append(tmp_path / f"{number}.so")
        places[-1].write_bytes(out)
    done = subprocess.run(
        [sys.executable, "-c", _EMBED, str(_MEMORY), str(new), *map(str, places)],
        capture_output=True,
        text=True,
        timeout=_HANG,
        check=False,
    )
    assert done.returncode == 0 and done.stdout.count("STATUS ") == len(places), done.stderr[-800:]
    assert "STATUS 0" in done.stdout and "STATUS 2" in done.stdout
    assert not re.search("out of memory|internal error|Traceback|MemoryError", done.stderr)
    sizes = [made.stat().st_size for made in tmp_path.glob("*.new")]
    assert max(sizes) < len(data) + (80 << 10) + (1 << 26)


def test_an_alignment_is_refused(fixture_objects: list[tuple[str, Path]], tmp_path: Path) -> None:
    original = dict(fixture_objects)["sections-gfx942-v5"]
    data = bytearray(original.read_bytes())
    elf = load(bytes(data)).elf
    section = next(s for s in elf.sections if s.name == ".debug_abbrev")
    struct.pack_into("<Q", data, elf.header.shoff + 64 * section.index + 48, 1 << 31)
    said = _run(tmp_path, original, [("alignment", bytes(data))])
    assert "alignment 2147483648" in said


_SOURCE = """\
\t.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
\t.amdhsa_code_object_version 5
\t.text
\ts_endpgm
"""
# What a source says, and which limit ends the assembler.
_LARGE = {
    ".p2align 31\ns_nop 0": "MB",
    ".zero 0x70000000": "MB",
    ".fill 0x10000000, 8, 1": "MB",
    ".rept 100000000\ns_nop 0\n.endr": "MB",
    ".rept 10000\n.rept 10000\ns_nop 0\n.endr\n.endr": "MB",
    ".rept 2000000000\n.endr": "s of processor time",
}


@pytest.mark.parametrize("body", _LARGE)
def test_a_source_is_not_larger_than_its_text(
    body: str, llvm: Llvm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "_MEMORY", 1 << 27)
    monkeypatch.setattr(limits, "_SECONDS", 3)
    monkeypatch.setattr(limits, "_WRITTEN", 1 << 24)
    with pytest.raises(ToolError, match="for an input of") as caught:
        assemble(llvm, (_SOURCE + body + "\n").encode(), TargetID.parse("gfx942"), 5)
    if _LARGE[body] != "MB":  # which of memory and time ends first depends on the machine
        assert _LARGE[body] in str(caught.value)


def test_code_is_not_larger_than_its_text(llvm: Llvm, monkeypatch: pytest.MonkeyPatch) -> None:
    """What coasm itself does with the code comes behind the tools, and takes more."""
    monkeypatch.setattr(limits, "_CODE", 1 << 16)
    for body in (".zero 100000", ".fill 25000, 4, 0xbf800000", ".rept 25000\ns_nop 0\n.endr"):
        with pytest.raises(CoasmError, match=r"100,004 bytes of code of an input of \d+ bytes"):
            coasm.assemble(_SOURCE + body + "\n")
    coasm.assemble(_SOURCE + ".zero 50000\n.data\n.zero 100000\n")


def test_a_descriptor_is_read_once_and_not_for_each_instruction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read = []

    def counted(descriptor: bytes, target: TargetID) -> object:
        read.append(descriptor)
        return resources(descriptor, target)

    monkeypatch.setattr(operands, "resources", counted)
    for count in (10, 2000):
        read.clear()
        source = listing(f"\t.rept {count}\n\ts_nop 20\n\t.endr\n\ts_endpgm")
        assert {finding.rule for finding in coasm.lint(source)} == {"nop-range"}
        assert len(read) == 1


def test_a_size_in_metadata_is_no_count_of_bytes_to_look_at() -> None:
    reads = Reads(frozenset({4, 5, 6, 7}), complete=True)
    for offset, size, is_read in ((0, 1 << 62, True), (8, 1 << 62, False), (1 << 63, 8, False)):
        with calls() as made:
            assert reads.of(offset, size) is is_read
        assert made.number < 20


def test_many_kernels_are_shown_without_rich(
    fixture_objects: list[tuple[str, Path]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It takes milliseconds for each, and the words are the same."""
    path = str(dict(fixture_objects)["multi-gfx942-v5"])
    monkeypatch.setenv("COLUMNS", "120")
    said = []
    for many in (200, 1):
        monkeypatch.setattr("coasm.cli.info._MANY", many)
        assert main(["info", path]) == 0
        said.append(capsys.readouterr().out)
    words = [text.replace("─", " ").split() for text in said]
    assert words[0] == words[1] and words[0].count("Kernel") > 1
    assert said[1].count("──") < said[0].count("──")


def test_a_disassembly_is_bounded(
    llvm: Llvm, fixture_objects: list[tuple[str, Path]], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = dict(fixture_objects)["sections-gfx942-v5"]
    whole = objdump(llvm, [path], TargetID.parse("gfx942"))
    assert whole.complete and len(whole.text) > 200
    monkeypatch.setattr(limits, "written", lambda given: 200)
    with pytest.raises(ToolError, match="for an input of"):
        objdump(llvm, [path], TargetID.parse("gfx942"))


def _image(size: int) -> bytes:
    """An offload bundle with one image of *size* zeros, compressed."""
    name = b"hipv4-amdgcn-amd-amdhsa--gfx942"
    head = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<QQQQ", 1, 4096, size, len(name)) + name
    data = head.ljust(4096, b"\0") + bytes(size)
    return pack(data, 2, "zstd", 1 << 30)


@pytest.mark.parametrize("size", (8 << 20, 64 << 20))
def test_a_bundle_unpacks_to_what_its_bytes_deserve(
    size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "bomb.hipfb"
    path.write_bytes(_image(size))
    assert path.stat().st_size < 16 << 10
    with pytest.raises(FormatError, match="COASM_MAX_UNPACKED sets another"):
        find(path)
    monkeypatch.setenv("COASM_MAX_UNPACKED", str(1 << 28))
    (entry,) = find(path)
    assert extract(entry) == bytes(size)
    monkeypatch.setenv("COASM_MAX_UNPACKED", "1G")
    with pytest.raises(FormatError, match="COASM_MAX_UNPACKED=1G: expected a number of bytes"):
        find(path)


def _archive(name: bytes, members: int) -> bytes:
    """An archive whose members are bundles and have one name, from the table of long names."""
    entry_id = b"hip-amdgcn-amd-amdhsa--gfx942"
    bundle = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<QQQQ", 1, 128, 8, len(entry_id)) + entry_id
    out = b"!<arch>\n"
    for raw, data in [(b"//", name + b"/\n"), *[(b"/0", bundle.ljust(136, b"\0"))] * members]:
        out += b"%-16s%-32s%-10d`\n" % (raw, b"", len(data)) + data + b"\n" * (len(data) & 1)
    return out


def test_members_of_an_archive_share_no_long_name(tmp_path: Path) -> None:
    path = tmp_path / "x.a"
    path.write_bytes(_archive(b"n" * 4000, 20))
    assert [entry.target for entry in find(path)] == ["gfx942"] * 20
    path.write_bytes(_archive(b"n" * 1_000_000, 20))
    with pytest.raises(FormatError, match="bad name"):
        find(path)


def test_entries_of_an_offload_binary_share_no_strings() -> None:
    count = 1024
    table, strings = 40, 40 + 40 * count
    text = strings + 24 * count
    front = struct.pack("<4sIQQQQ", b"\x10\xff\x10\xad", 3, text + 8, table, count, 0)
    entry = struct.pack("<HHIQQQQ", 2, 4, 0, strings, count, text, 0)
    data = front + entry * count + struct.pack("<QQQ", text, text, 1) * count + b"k" + bytes(7)
    with pytest.raises(FormatError, match="its strings are outside of it"):
        read_offload(data, len(data), "x")


def test_a_number_of_a_line_table_is_not_as_long_as_its_bytes() -> None:
    # DW_LNS_advance_pc with a number of a megabyte: as one integer, a square of its length.
    header = struct.pack("<BBBbBB", 1, 1, 1, -5, 14, 3) + b"\0\1\0\0f\0\0\0\0\0"
    program = b"\x02" + b"\xff" * (1 << 20) + b"\x01\x01"
    body = struct.pack("<HI", 4, len(header)) + header + program
    table = struct.pack("<I", len(body)) + body
    assert max(line_table(table)) < 1 << 70


def test_sections_are_looked_up_among_segments(fixture_objects: list[tuple[str, Path]]) -> None:
    """30,000 loaded sections and as many segments, none of which has one of them."""
    data = bytearray(dict(fixture_objects)["sections-gfx942-v5"].read_bytes())
    header = load(bytes(data)).elf.header
    count = 30_000
    segments = bytes(data[header.phoff : header.phoff + 56 * header.phnum])
    segments += struct.pack("<IIQQQQQQ", 1, 4, 0, 0x900000, 0, 16, 16, 4096) * count
    # In the file where the last segment loads them: each is tried with all the others before it.
    segments += struct.pack("<IIQQQQQQ", 1, 4, 0, 0x1000000, 0, len(data), 1 << 24, 4096)
    sections = bytes(data[header.shoff : header.shoff + 64 * header.shnum])
    for number in range(count):
        at = number % 1024
        sections += struct.pack(
            "<IIQQQQIIQQ", 0, 1, 2, 0x1000000 + at, at, int(number < 1024), 0, 0, 1, 0
        )
    struct.pack_into("<QQ", data, 32, len(data), len(data) + len(segments))
    struct.pack_into("<H", data, 56, len(segments) // 56)
    struct.pack_into("<H", data, 60, len(sections) // 64)
    assert len(load(bytes(data + segments + sections)).sections) > count


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_AS")
