"""Bundles in libraries, programs, object files and archives; and files that are damaged."""

from __future__ import annotations

import random
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from coasm.bundle import Entry, embed, extract, find
from coasm.bundle.select import carries, matching, resolve, split
from coasm.errors import CoasmError, FormatError, UnsupportedError
from coasm.llvm.find import Llvm
from coasm.opening import read_given
from tests.bundle.carriers import HOST, bundle, cc, ccob, device, entry_id, host, run, tool

FORMS = [("bundle", 0, ""), *(("CCOB", v, m) for v in (1, 2, 3) for m in ("zlib", "zstd"))]


def _form(data: bytes, form: tuple[str, int, str]) -> bytes:
    return data if form[0] == "bundle" else ccob(data, form[1], form[2])


def _bundle(objects: dict[str, bytes], align: int = 4096) -> bytes:
    return bundle([HOST, *((entry_id(t), data) for t, data in objects.items())], align)


def _contents(entries: list[Entry]) -> list[tuple[int, str, bytes]]:
    return [(entry.number, entry.target, extract(entry)) for entry in entries]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: "-".join(map(str, form)))
def test_bare_file(objects: dict[str, bytes], tmp_path: Path, form: tuple[str, int, str]) -> None:
    path = tmp_path / "x.hipfb"
    path.write_bytes(_form(_bundle(objects), form))
    found = find(path)
    assert _contents(found) == [(1, target, data) for target, data in objects.items()]
    held = found[0].container
    assert (held.format, held.version, held.method) == form
    assert held.size == held.room == path.stat().st_size


def test_several_in_one_section(objects: dict[str, bytes], tmp_path: Path) -> None:
    """All forms behind each other in one library, as ``-fgpu-rdc`` off leaves them."""
    path = host(tmp_path, [_form(_bundle(objects), form) for form in FORMS], "-shared", "-fPIC")
    assert _contents(find(path)) == [
        (n, t, d) for n in range(1, len(FORMS) + 1) for t, d in objects.items()
    ]


def test_several_sections(objects: dict[str, bytes], tmp_path: Path) -> None:
    (tmp_path / "b").write_bytes(_bundle(objects))
    (tmp_path / "a.s").write_text(
        '\t.section .hip_fatbin,"a",@progbits\n\t.incbin "b"\n'
        '\t.section .hip_fatbin.two,"a",@progbits\n\t.incbin "b"\n'
        '\t.section .hip_fatbin_nothing,"a",@nobits\n\t.zero 64\n'
    )
    run(cc(), "-c", "a.s", "-o", "a.o", cwd=tmp_path)
    found = find(tmp_path / "a.o")
    assert [e.container.section for e in found] == [".hip_fatbin"] * 2 + [".hip_fatbin.two"] * 2
    assert _contents(found) == [(n, t, d) for n in (1, 2) for t, d in objects.items()]


def test_archive(objects: dict[str, bytes], tmp_path: Path) -> None:
    """Members with short and long names; those without bundles are passed over."""
    long_name = "a_member_with_a_very_long_name.o"
    for name, form in (("a.o", FORMS[0]), (long_name, FORMS[-1])):
        (tmp_path / "b").write_bytes(_form(_bundle(objects), form))
        (tmp_path / "a.s").write_text('\t.section .hip_fatbin,"a",@progbits\n\t.incbin "b"\n')
        run(cc(), "-c", "a.s", "-o", name, cwd=tmp_path)
    (tmp_path / "odd.txt").write_text("odd")
    (tmp_path / "bare.hipfb").write_bytes(_bundle(objects))
    members = ["odd.txt", "a.o", long_name, "bare.hipfb"]
    run(shutil.which("ar") or "llvm-ar", "rcs", "lib.a", *members, cwd=tmp_path)
    found = find(tmp_path / "lib.a")
    assert _contents(found) == [(n, t, d) for n in (1, 2, 3) for t, d in objects.items()]
    assert [e.container.member for e in found[::2]] == ["a.o", long_name, "bare.hipfb"]


def test_thin_archive(llvm: Llvm, objects: dict[str, bytes], tmp_path: Path) -> None:
    """Its members are files beside it, by their paths from its folder."""
    (tmp_path / "sub").mkdir()
    long_name = "sub/a_member_with_a_very_long_name.hipfb"
    for name in ("a.hipfb", long_name):
        (tmp_path / name).write_bytes(_bundle(objects))
    (tmp_path / "odd.o").write_bytes(b"")
    ar = tool(llvm, "llvm-ar")
    run(ar, "rcs", "--thin", "lib.a", "a.hipfb", long_name, cwd=tmp_path)
    assert (tmp_path / "lib.a").read_bytes().startswith(b"!<thin>")
    found = find(tmp_path / "lib.a")
    assert _contents(found) == [(n, t, d) for n in (1, 2) for t, d in objects.items()]
    assert [Path(e.container.path).name for e in found[::2]] == ["a.hipfb", Path(long_name).name]
    with pytest.raises(UnsupportedError, match=r"its objects are in .*a\.hipfb; embed there"):
        embed(tmp_path / "lib.a", {"gfx942#1": objects["gfx942"]})
    (tmp_path / "a.hipfb").unlink()
    with pytest.raises(FormatError, match=r"a\.hipfb: No such file"):
        find(tmp_path / "lib.a")
    (tmp_path / "lib.a").write_bytes(b"!<thin>\n" + b"x" * 100)
    with pytest.raises(FormatError, match="damaged archive"):
        find(tmp_path / "lib.a")


@pytest.mark.parametrize("form", (FORMS[0], FORMS[-1]), ids=("bundle", "CCOB"))
@pytest.mark.parametrize("flags", (("-shared", "-fPIC"), ("-no-pie",), ("-pie",)), ids=str)
def test_without_section_headers(
    llvm: Llvm,
    objects: dict[str, bytes],
    tmp_path: Path,
    form: tuple[str, int, str],
    flags: tuple[str, ...],
) -> None:
    """The wrappers lead to the bundles, as they lead the program there."""
    path = host(tmp_path, [_form(_bundle(objects), form)] * 2, *flags)
    stripped = tmp_path / "stripped"
    run(tool(llvm, "llvm-objcopy"), "--strip-sections", path, stripped)
    assert not struct.unpack_from("<Q", stripped.read_bytes(), 40)[0]
    found = find(stripped)
    assert _contents(found) == _contents(find(path))
    assert [e.offset + e.container.offset for e in found if e.number == 1]
    same = embed(stripped, {"gfx942#2": objects["gfx942"]})
    assert same.data == stripped.read_bytes()
    if form[0] == "bundle":
        edited = device(llvm, "gfx942", "alpha", "beta", body="s_nop 1")
        stripped.write_bytes(embed(stripped, {"gfx942#2": edited}).data)
        assert [extract(e) for e in find(stripped) if e.name == "gfx942#2"] == [edited]
    larger = device(llvm, "gfx942", "alpha", "beta", pad=70_000)
    with pytest.raises(UnsupportedError, match="without section headers"):
        embed(stripped, {"gfx942#2": larger})


@pytest.mark.parametrize(
    ("flags", "kinds"),
    [
        (["--no-offload-new-driver"], {"bundle"}),
        (["--offload-new-driver"], {"bundle"}),
        (["--no-offload-new-driver", "--offload-compress"], {"CCOB"}),
        (["--no-offload-new-driver", "-fgpu-rdc"], {"section"}),
        (["--offload-new-driver", "-fgpu-rdc"], {"offload binary"}),
    ],
)
def test_what_clang_makes(llvm: Llvm, tmp_path: Path, flags: list[str], kinds: set[str]) -> None:
    """HIP sources compiled for host and device, in each way that clang embeds the result."""
    (tmp_path / "a.hip").write_text(HIP_SOURCE)
    command = [
        llvm.clang, "-x", "hip", *flags, "--offload-arch=gfx942", "--offload-arch=gfx1100",
        "-nogpulib", "-nogpuinc", "-O1", "-fPIC", "-c", "a.hip", "-o", "a.o",
    ]  # fmt: skip
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"this clang does not compile HIP here: {done.stderr.strip()[-200:]}")
    found = find(tmp_path / "a.o")
    assert {e.container.format for e in found} == kinds
    assert sorted(e.target for e in found) == ["gfx1100", "gfx942"]
    bitcode = "-fgpu-rdc" in flags
    for entry in found:
        assert extract(entry).startswith(b"BC\xc0\xde" if bitcode else b"\x7fELF")
    if kinds == {"bundle"}:
        # llvm-objdump writes what it finds beside its input.
        run(tool(llvm, "llvm-objdump"), "--offloading", "a.o", cwd=tmp_path)
        written = {p.name.rpartition("-")[2]: p.read_bytes() for p in tmp_path.glob("a.o.*gfx*")}
        assert written == {e.target: extract(e) for e in found}


HIP_SOURCE = """
typedef struct { unsigned x, y, z; } dim3;
extern "C" int hipLaunchKernel(const void *, dim3, dim3, void **, unsigned long, void *);
extern "C" int __hipPushCallConfiguration(dim3, dim3, unsigned long, void *);
extern "C" int __hipPopCallConfiguration(dim3 *, dim3 *, unsigned long *, void *);
__attribute__((device)) int table[4] = {1, 2, 3, 4};
__attribute__((global)) void add(int *p, int n)
{
    int i = __builtin_amdgcn_workitem_id_x();
    if (i < n)
        p[i] += table[i & 3];
}
"""


# Damage


def test_files_without_bundles(tmp_path: Path, objects: dict[str, bytes]) -> None:
    (tmp_path / "a.c").write_text("int x;\n")
    run(cc(), "-c", "a.c", "-o", "a.o", cwd=tmp_path)
    with pytest.raises(FormatError, match=r"no \.hip_fatbin section"):
        find(tmp_path / "a.o")
    for name, data, error, message in (
        ("empty", b"", FormatError, "empty"),
        ("text", b"some text\n", FormatError, "no executable"),
        ("elf", b"\x7fELF", FormatError, "truncated"),
        ("exe", b"MZ" + bytes(100), FormatError, "no PE header"),
        ("co", objects["gfx942"], UnsupportedError, "a code object already"),
        ("none.hipfb", bundle([HOST]), FormatError, "carries no code objects"),
        ("ar", b"!<arch>\n", FormatError, "carries no code objects"),
        ("ar2", b"!<arch>\nxxx", FormatError, "damaged archive"),
    ):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(error, match=message):
            find(tmp_path / name)
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(FormatError):
            find(path)


def test_something_between_bundles(objects: dict[str, bytes], tmp_path: Path) -> None:
    path = host(tmp_path, [_bundle(objects) + b"\0\0xyz"], "-shared", "-fPIC")
    with pytest.raises(FormatError, match="no bundle starts here"):
        find(path)


def test_section_outside_of_the_file(objects: dict[str, bytes], tmp_path: Path) -> None:
    path = host(tmp_path, [_bundle(objects)], "-shared", "-fPIC")
    data = bytearray(path.read_bytes())
    at, count = struct.unpack_from("<Q", data, 40)[0], struct.unpack_from("<H", data, 60)[0]
    for section in range(count):
        row = at + section * 64
        if data[struct.unpack_from("<Q", data, row + 24)[0] :][:8] == b"__CLANG_":
            data[row + 32 : row + 40] = struct.pack("<Q", 1 << 40)
    path.write_bytes(data)
    with pytest.raises(FormatError, match="outside the file"):
        find(path)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: "-".join(map(str, form)))
def test_damaged_anywhere(
    objects: dict[str, bytes], tmp_path: Path, form: tuple[str, int, str]
) -> None:
    """Bytes changed or cut anywhere give images inside the file, or one of coasm's errors."""
    original = host(tmp_path, [_form(_bundle(objects, 64), form)] * 2, "-shared", "-fPIC")
    data = original.read_bytes()
    chance = random.Random(form[1])
    start = data.index(b"CCOB" if form[0] == "CCOB" else b"__CLANG_")
    tables = [*range(64), *range(start, start + 200), *range(len(data) - 2500, len(data))]
    for number in range(120):
        changed = bytearray(data)
        for _ in range(1 + number % 3):
            changed[chance.choice(tables)] = chance.choice(
                (0, 1, 0x7F, 0xFF, chance.randrange(256))
            )
        if number % 8 == 0:
            del changed[chance.randrange(len(data)) :]
        path = tmp_path / "damaged"
        path.write_bytes(changed)
        try:
            for entry in find(path):
                assert len(extract(entry)) == entry.size
        except (FormatError, UnsupportedError):
            continue


def test_changed_while_it_was_read(objects: dict[str, bytes], tmp_path: Path) -> None:
    path = tmp_path / "x.hipfb"
    path.write_bytes(_bundle(objects))
    entry = find(path)[0]
    path.write_bytes(_bundle(objects) + b"\0")
    with pytest.raises(FormatError, match="has changed"):
        extract(entry)


# What a user means


def _two(tmp_path: Path, llvm: Llvm) -> Path:
    path = tmp_path / "two.hipfb"
    first = [(entry_id(t), b"\x7fELF" + t.encode()) for t in ("gfx942", "gfx90a:xnack+", "gfx908")]
    second = [(entry_id(t), b"\x7fELF" + t.encode()) for t in ("gfx942", "gfx90a:xnack-")]
    path.write_bytes(bundle(first) + bytes(100) + bundle(second))
    return path


def test_matching(llvm: Llvm, tmp_path: Path) -> None:
    entries = find(_two(tmp_path, llvm))

    def names(spec: str) -> list[str]:
        return [entry.name for entry in matching(entries, spec)]

    assert names("gfx942") == ["gfx942#1", "gfx942#2"]
    assert names("gfx942#2") == ["gfx942#2"]
    assert names("gfx942#3") == names("gfx94") == names("") == names("#1") == []
    assert names("gfx90a:xnack-") == ["gfx90a:xnack-#2"]
    assert names("gfx90a") == ["gfx90a:xnack+#1", "gfx90a:xnack-#2"]
    assert names("gfx90a#1") == ["gfx90a:xnack+#1"]
    assert names(entry_id("gfx908")) == ["gfx908#1"]
    with pytest.raises(CoasmError, match="there 2 times; name one: gfx942#1, gfx942#2"):
        resolve(entries, "gfx942", "x")
    with pytest.raises(CoasmError, match="no gfx1030 in it; there are gfx942, gfx90a:xnack"):
        resolve(entries, "gfx1030", "x")


def test_read_given(llvm: Llvm, tmp_path: Path, objects: dict[str, bytes]) -> None:
    plain = tmp_path / "a:gfx942"  # a file may be called that
    plain.write_bytes(objects["gfx942"])
    assert read_given(str(plain)) == (str(plain), objects["gfx942"], False)
    two = _two(tmp_path, llvm)
    assert read_given(f"{two}:gfx90a:xnack-").data == b"\x7fELFgfx90a:xnack-"
    assert read_given(f"{two}:gfx942#2")[:2] == (f"{two}:gfx942#2", b"\x7fELFgfx942")
    assert split(f"{two}:gfx942#2") == (str(two), "gfx942#2")
    assert split(f"{tmp_path}/none:gfx942") == (f"{tmp_path}/none:gfx942", "")
    for spec, kind, said in (
        (f"{two}", UnsupportedError, r"carries 5 code objects.*coasm extract"),
        (f"{two}:gfx942", CoasmError, "gfx942 is there 2 times; name one: gfx942#1, gfx942#2"),
        (f"{two}:gfx942#3", CoasmError, "no gfx942#3 in it; there are gfx942, gfx90a"),
        (f"{two}:kernels", CoasmError, "no kernels in it; there are gfx942, gfx90a"),
        (f"{plain}:gfx942", FormatError, "carries no code objects"),
        (f"{tmp_path}/none:gfx942", FormatError, "No such file"),
        (f"{tmp_path}", FormatError, "Is a directory|not a regular file"),
    ):
        with pytest.raises(kind, match=said):
            read_given(spec)
    assert carries(two) and not carries(plain) and not carries(tmp_path)
