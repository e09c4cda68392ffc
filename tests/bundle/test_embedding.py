"""Objects put back: the host program still runs and finds the new one, and nothing else changes."""

from __future__ import annotations

import itertools
import platform
import shutil
import struct
import sys
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from coasm.bundle import embed, extract, find
from coasm.bundle.images import entries_of
from coasm.errors import CoasmError, FormatError, UnsupportedError
from coasm.llvm.find import Llvm
from tests.bundle.carriers import HOST, bundle, cc, ccob, device, entry_id, host, run, tool
from tests.bundle.test_images import FORMS

TARGETS = ("gfx942", "gfx1100")
LINKS = {
    "shared": ("-shared", "-fPIC"),
    "lld-shared": ("-shared", "-fPIC"),
    "lld-pie": ("-pie", "-fPIE"),
    "lld-no-pie": ("-no-pie", "-fno-pie"),
    "pie": ("-pie", "-fPIE"),
    "no-pie": ("-no-pie", "-fno-pie"),
    "static": ("-static", "-no-pie", "-fno-pie"),
    "relr": ("-pie", "-fPIE", "-Wl,-z,pack-relative-relocs"),
    "big-bss": ("-pie", "-fPIE", "-DBIG=20000000"),
}
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="builds ELF host programs")


def _form(data: bytes, form: tuple[str, int, str]) -> bytes:
    return data if form[0] == "bundle" else ccob(data, form[1], form[2])


def _bundle(objects: dict[str, bytes]) -> bytes:
    return bundle([HOST, *((entry_id(t), data) for t, data in objects.items())])


@pytest.fixture(scope="module")
def second(llvm: Llvm) -> dict[str, bytes]:
    """The objects of the second bundle: other kernels."""
    return {target: device(llvm, target, "gamma") for target in TARGETS}


@pytest.fixture(scope="module")
def edited(llvm: Llvm) -> bytes:
    """Of the size of the original: one constant is another."""
    return device(llvm, "gfx942", "alpha", "beta", body="s_nop 1")


@pytest.fixture(scope="module")
def larger(llvm: Llvm) -> bytes:
    return device(llvm, "gfx942", "alpha", "beta", pad=70_000)


def _views(path: Path, order: tuple[int, ...]) -> list[bytes]:
    """The bundles as the program itself reads them, through its wrappers.

    *order* has the number in the file of the bundle that each wrapper must point to.
    """
    held = {entry.number: entry.container.size for entry in find(path)}
    assert sorted(held) == sorted(order)
    sizes = [held[number] for number in order]
    if _is_library(path):
        code = (
            "import ctypes, sys\nlib = ctypes.CDLL(sys.argv[1])\n"
            "lib.binary.restype = ctypes.c_void_p\n"
            "for n, size in enumerate(sys.argv[2:]):\n"
            "    sys.stdout.buffer.write(ctypes.string_at(lib.binary(n), int(size)))\n"
        )
        out = run(sys.executable, "-c", code, path, *map(str, sizes)).stdout
    else:
        out = run(path, *map(str, sizes)).stdout
    parts = []
    for size in sizes:
        parts.append(out[:size])
        out = out[size:]
    assert not out
    return parts


def _is_library(path: Path) -> bool:
    with path.open("rb") as file:
        head = file.read(64)
    return head[16] == 3 and head[24:32] == bytes(8)  # ET_DYN without an entry


def _contents(path: Path) -> list[tuple[str, bytes]]:
    return [(entry.name, extract(entry)) for entry in find(path)]


def _seen(path: Path, *order: int) -> list[list[tuple[str, bytes]]]:
    """The targets and objects in each bundle as the running program sees it."""
    found = []
    for number, data in enumerate(_views(path, order)):
        file = path.with_name(f"view{number}")
        file.write_bytes(data)
        found.append([(e.target, extract(e)) for e in find(file)])
    return found


def _write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("form", FORMS, ids=lambda form: "-".join(map(str, form)))
def test_unchanged_object_gives_the_identical_file(
    objects: dict[str, bytes], second: dict[str, bytes], tmp_path: Path, form: tuple[str, int, str]
) -> None:
    data = [_form(_bundle(o), form) for o in (objects, second)]
    path = host(tmp_path, data, "-shared", "-fPIC")
    result = embed(path, {e.name: extract(e) for e in find(path)})
    assert result.data == path.read_bytes()
    assert [change.where for change in result.changes] == ["unchanged"] * 4


@pytest.mark.parametrize("form", FORMS, ids=lambda form: "-".join(map(str, form)))
def test_in_place(
    objects: dict[str, bytes], second: dict[str, bytes], edited: bytes, tmp_path: Path,
    form: tuple[str, int, str],
) -> None:  # fmt: skip
    data = [_form(_bundle(o), form) for o in (objects, second)]
    path = host(tmp_path, data, "-shared", "-fPIC")
    before = path.read_bytes()
    assert len(edited) == len(objects["gfx942"])
    result = embed(path, {"gfx942#1": edited})
    held = find(path)[0].container
    inside = range(held.offset, held.offset + held.room)
    assert [change.where for change in result.changes] == ["in place"]
    assert len(result.data) == len(before)
    differ = [n for n in range(len(before)) if before[n] != result.data[n]]
    assert differ and all(n in inside for n in differ)
    after = _write(tmp_path / "new", result.data)
    wanted = [*({**objects, "gfx942": edited}).items(), *second.items()]
    assert [(name.partition("#")[0], d) for name, d in _contents(after)] == wanted
    assert find(after)[0].container.format == form[0]
    assert find(after)[0].container.version == form[1]
    if form[0] == "bundle":
        assert len(differ) <= 2 * sum(
            a != b for a, b in zip(edited, objects["gfx942"], strict=True)
        )


def _needs_native() -> None:
    if platform.machine() not in ("x86_64", "aarch64"):
        pytest.skip("relocations are known for x86-64 and AArch64")


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize(
    "form", [FORMS[0], FORMS[2], FORMS[6]], ids=lambda f: "-".join(map(str, f))
)
def test_in_a_new_segment(
    llvm: Llvm, objects: dict[str, bytes], second: dict[str, bytes], larger: bytes, tmp_path: Path,
    link: str, form: tuple[str, int, str],
) -> None:  # fmt: skip
    _needs_native()
    data = [_form(_bundle(o), form) for o in (objects, second)]
    lld = [f"--ld-path={llvm.lld}"] if link.startswith("lld") else []
    path = host(tmp_path, data, *LINKS[link], *lld, compiler=llvm.clang if lld else None)
    assert _seen(path, 1, 2) == [list(objects.items()), list(second.items())]
    before = path.read_bytes()
    result = embed(path, {"gfx942#1": larger})
    assert [change.where for change in result.changes] == ["new segment"]
    after = _write(tmp_path / "new", result.data)
    wanted = {**objects, "gfx942": larger}
    assert _seen(after, 2, 1) == [list(wanted.items()), list(second.items())]
    # What changed of the old bytes: the bundle's own, the header's e_phoff, e_shoff, e_phnum and
    # e_shnum, the program headers and the notes and hash tables that made room for one more, the
    # tags of the latter, and for the wrapper its pointer or the relocation's addend, or both.
    held = find(path)[0].container
    old = {*range(held.offset, held.offset + held.size), *range(32, 48), 56, 57, 60, 61}
    old |= _may_move(path)
    differ = {n for n in range(len(before)) if before[n] != result.data[n]} - old
    assert 1 <= len({n // 8 for n in differ}) <= 2
    assert set(result.data[held.offset : held.offset + held.size]) == {0}
    # LLVM agrees with the headers, and nothing stands twice.
    _check_headers(after)
    assert embed(after, {"gfx942": larger}).data == result.data


def _may_move(path: Path) -> set[int]:
    """The bytes of the program headers, of the sections behind them, and of the dynamic tags."""
    with path.open("rb") as file:
        elf = ELFFile(file)
        found = {*range(64, 64 + 56 * elf.num_segments())}
        for section in elf.iter_sections():
            kind, at = section["sh_type"], section["sh_offset"]
            if kind in ("SHT_NOTE", "SHT_GNU_HASH", "SHT_HASH", "SHT_DYNSYM") or (
                section.name == ".interp"
            ):
                found |= {*range(at, at + section["sh_size"])}
            if kind == "SHT_DYNAMIC":
                tags = enumerate(section.iter_tags())
                moved = ("DT_GNU_HASH", "DT_HASH", "DT_SYMTAB")
                places = [at + 16 * n + 8 for n, tag in tags if tag.entry.d_tag in moved]
                found |= {n for place in places for n in range(place, place + 8)}
    return found


#: Tools that write the file anew, as people use them on a library before they ship it.
TOOLS = {
    "strip": ("strip", "{}"),
    "strip-unneeded": ("strip", "--strip-unneeded", "{}"),
    "strip-debug": ("strip", "-g", "{}"),
    "objcopy": ("objcopy", "{}"),
    "llvm-strip": ("llvm-strip", "{}"),
    "llvm-objcopy": ("llvm-objcopy", "{}"),
    "patchelf": ("patchelf", "--set-rpath", "/a/rather/long/path/that/needs/room/of/its/own", "{}"),
}
#: What they refuse, as it was linked.
_NOT_STATIC = ("patchelf", "llvm-")


@pytest.mark.parametrize("link", LINKS)
def test_what_has_grown_survives_other_tools(
    llvm: Llvm, objects: dict[str, bytes], larger: bytes, tmp_path: Path, link: str
) -> None:
    """GNU strip and objcopy put the program headers behind the file header, whatever is there."""
    _needs_native()
    lld = [f"--ld-path={llvm.lld}"] if link.startswith("lld") else []
    compiler = llvm.clang if lld else None
    path = host(tmp_path, [_bundle(objects)], *LINKS[link], *lld, compiler=compiler)
    assert embed(path, {"gfx942": larger}).changes[0].where == "new segment"
    wanted = list({**objects, "gfx942": larger}.items())
    tools = 0
    for name, (tool_name, *arguments) in TOOLS.items():
        beside = Path(llvm.clang).resolve().parent / tool_name
        program = str(beside) if beside.exists() else shutil.which(tool_name)
        if program is None or (link == "static" and name.startswith(_NOT_STATIC)):
            continue
        after = _write(tmp_path / name, embed(path, {"gfx942": larger}).data)
        run(program, *(a.format(after) for a in arguments))
        assert _seen(after, 1) == [wanted], name
        assert [(e.target, extract(e)) for e in find(after)] == wanted, name
        tools += 1
    if not tools:
        pytest.skip("no GNU strip (apt: binutils)")


def _check_headers(path: Path) -> None:
    data = path.read_bytes()
    phoff, shoff = struct.unpack_from("<QQ", data, 32)
    phnum, shnum = struct.unpack_from("<H", data, 56)[0], struct.unpack_from("<H", data, 60)[0]
    segments = [struct.unpack_from("<IIQQQQQQ", data, phoff + 56 * n) for n in range(phnum)]
    loads = [s for s in segments if s[0] == 1]
    assert [s[3] for s in loads] == sorted(s[3] for s in loads)
    for _, _, offset, vaddr, _, filesz, memsz, align in loads:
        assert offset + filesz <= len(data) and filesz <= memsz
        assert (offset - vaddr) % align == 0
    for one, two in itertools.pairwise(loads):
        assert one[3] + one[6] <= two[3]
    table = [s for s in segments if s[0] == 6]
    assert all((s[2], s[5]) == (phoff, 56 * phnum) for s in table)
    assert any(s[2] <= phoff and phoff + 56 * phnum <= s[2] + s[5] for s in loads)
    assert shoff + 64 * shnum == len(data)


def test_llvm_finds_the_new_object(
    llvm: Llvm, objects: dict[str, bytes], larger: bytes, tmp_path: Path
) -> None:
    path = host(tmp_path, [_bundle(objects)], "-shared", "-fPIC")
    _write(tmp_path / "new", embed(path, {"gfx942": larger}).data)
    run(tool(llvm, "llvm-objdump"), "--offloading", "new", cwd=tmp_path)
    written = {p.name.rpartition("-")[2]: p.read_bytes() for p in tmp_path.glob("new.*gfx*")}
    assert written == {**objects, "gfx942": larger}
    said = run(tool(llvm, "llvm-readelf"), "-lSW", tmp_path / "new")
    assert said.stderr == b"" and said.stdout.count(b".hip_fatbin ") >= 2


def test_two_at_once_and_again(
    llvm: Llvm, objects: dict[str, bytes], second: dict[str, bytes], larger: bytes, tmp_path: Path
) -> None:
    _needs_native()
    path = host(tmp_path, [_bundle(objects), _bundle(second)], "-shared", "-fPIC")
    other = device(llvm, "gfx1100", "gamma", pad=50_000)
    result = embed(path, {"gfx942": larger, "gfx1100": other})  # the kernels tell which
    assert [c.entry.name for c in result.changes] == ["gfx942#1", "gfx1100#2"]
    after = _write(tmp_path / "new", result.data)
    wanted = [{**objects, "gfx942": larger}, {**second, "gfx1100": other}]
    assert _seen(after, 1, 2) == [list(w.items()) for w in wanted]
    huge = device(llvm, "gfx942", "alpha", "beta", pad=200_000)
    twice = _write(tmp_path / "twice", embed(after, {"gfx942": huge}).data)
    wanted[0]["gfx942"] = huge
    assert _seen(twice, 2, 1) == [list(w.items()) for w in wanted]
    _check_headers(twice)


def test_smaller_object_leaves_zeros(
    objects: dict[str, bytes], larger: bytes, tmp_path: Path
) -> None:
    path = host(tmp_path, [_bundle({**objects, "gfx942": larger})], "-shared", "-fPIC")
    before = path.read_bytes()
    result = embed(path, {"gfx942": objects["gfx942"]})
    assert len(result.data) == len(before) and result.changes[0].where == "in place"
    entry = find(path)[0]
    at = entry.container.offset + entry.offset
    assert result.data[at : at + entry.size] == objects["gfx942"].ljust(entry.size, b"\0")


@pytest.mark.parametrize("form", FORMS, ids=lambda form: "-".join(map(str, form)))
def test_bare_file(
    objects: dict[str, bytes], larger: bytes, tmp_path: Path, form: tuple[str, int, str]
) -> None:
    path = tmp_path / "x.hipfb"
    path.write_bytes(_form(_bundle(objects), form))
    after = _write(tmp_path / "new", embed(path, {"gfx942": larger}).data)
    assert _contents(after) == [("gfx942#1", larger), ("gfx1100#1", objects["gfx1100"])]
    back = embed(after, {"gfx942": objects["gfx942"]}).data
    if form[0] == "bundle":
        assert entries_of(back, "x")[0].size == len(objects["gfx942"])


def test_bundles_behind_each_other_in_a_file(
    objects: dict[str, bytes], second: dict[str, bytes], larger: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "x.hipfb"
    path.write_bytes(_bundle(objects) + bytes(50) + ccob(_bundle(second), 3, "zstd"))
    after = _write(tmp_path / "new", embed(path, {"gfx942#1": larger}).data)
    assert [data for _, data in _contents(after)] == [
        larger, objects["gfx1100"], *second.values()
    ]  # fmt: skip


@pytest.mark.parametrize("compressed", [False, True])
def test_object_file_is_linked_with_the_new_object(
    objects: dict[str, bytes], larger: bytes, tmp_path: Path, compressed: bool
) -> None:
    data = _bundle(objects)
    data = ccob(data, 3, "zstd") if compressed else data
    host(tmp_path, [data], "-shared", "-fPIC")  # for its sources
    run(cc(), "-c", "-fPIC", "carrier.s", "-o", "a.o", cwd=tmp_path)
    result = embed(tmp_path / "a.o", {"gfx942": larger})
    assert result.changes[0].where == "moved section"
    _write(tmp_path / "a.o", result.data)
    run(cc(), "-shared", "-fPIC", "carrier.c", "a.o", "-o", "linked", cwd=tmp_path)
    assert _seen(tmp_path / "linked", 1) == [[("gfx942", larger), ("gfx1100", objects["gfx1100"])]]


def test_archive_member(
    objects: dict[str, bytes], edited: bytes, larger: bytes, tmp_path: Path
) -> None:
    host(tmp_path, [_bundle(objects)], "-shared", "-fPIC")
    run(cc(), "-c", "-fPIC", "carrier.s", "-o", "a.o", cwd=tmp_path)
    run("ar", "rcs", "lib.a", "a.o", cwd=tmp_path)
    after = _write(tmp_path / "new.a", embed(tmp_path / "lib.a", {"gfx942": edited}).data)
    assert _contents(after)[0] == ("gfx942#1", edited)
    with pytest.raises(UnsupportedError, match="archive member"):
        embed(tmp_path / "lib.a", {"gfx942": larger})


# What is refused


def test_refused(llvm: Llvm, objects: dict[str, bytes], tmp_path: Path) -> None:
    path = tmp_path / "x.hipfb"
    path.write_bytes(_bundle(objects))
    cases: list[tuple[str, bytes, type[CoasmError], str]] = [
        ("gfx1030", objects["gfx942"], CoasmError, "no gfx1030 in it; there are gfx942, gfx1100"),
        ("gfx942#2", objects["gfx942"], CoasmError, "no gfx942#2"),
        ("gfx942", objects["gfx1100"], CoasmError, "is for gfx1100"),
        ("gfx942", device(llvm, "gfx942", "alpha"), CoasmError, "lacks the kernel beta"),
        ("gfx942", b"no object", FormatError, "not an ELF"),
    ]
    for target, new, error, message in cases:
        with pytest.raises(error, match=message):
            embed(path, {target: new})
    from tests.compare.objects import build, source

    bodies = {name: "\ts_endpgm" for name in ("alpha", "beta")}
    other = build(llvm, source(bodies), version=6).data
    with pytest.raises(CoasmError, match="code object v6"):
        embed(path, {"gfx942": other})


def test_notes_on_arguments_and_new_kernels(
    llvm: Llvm, objects: dict[str, bytes], tmp_path: Path
) -> None:
    path = tmp_path / "x.hipfb"
    path.write_bytes(_bundle(objects))
    more = embed(path, {"gfx942": device(llvm, "gfx942", "alpha", "beta", "gamma")})
    assert more.changes[0].notes == ("1 new kernel, which the host program does not know",)
    from tests.compare.objects import build, source

    text = source({name: "\ts_endpgm" for name in ("alpha", "beta")})
    text = text.replace(".size: 4, .offset: 8", ".size: 8, .offset: 8", 1)
    result = embed(path, {"gfx942": build(llvm, text).data})
    assert result.changes[0].notes == ("alpha: takes other arguments than the host program passes",)


def test_ambiguous(
    objects: dict[str, bytes], second: dict[str, bytes], edited: bytes, tmp_path: Path
) -> None:
    """Kernels decide between bundles of one target; where they do not, nobody guesses."""
    path = tmp_path / "x.hipfb"
    path.write_bytes(_bundle(objects) + _bundle(second))
    result = embed(path, {"gfx942": second["gfx942"]})
    assert result.changes[0].entry.name == "gfx942#2" and result.data == path.read_bytes()
    path.write_bytes(_bundle(objects) + _bundle(objects))
    with pytest.raises(CoasmError, match="there 2 times"):
        embed(path, {"gfx942": edited})
    after = entries_of(embed(path, {"gfx942#2": edited}).data, "x")
    assert len(after) == 4
    with pytest.raises(CoasmError, match="twice"):
        embed(path, {"gfx942#2": edited, f"{entry_id('gfx942')}#2": edited})


def test_no_wrapper_points_to_it(
    objects: dict[str, bytes], edited: bytes, larger: bytes, tmp_path: Path
) -> None:
    (tmp_path / "b").write_bytes(_bundle(objects))
    (tmp_path / "a.s").write_text(
        '\t.section .hip_fatbin,"a",@progbits\n\t.balign 4096\n\t.incbin "b"\n'
        '\t.section .note.GNU-stack,"",@progbits\n'
    )
    run(cc(), "-shared", "-nostdlib", "a.s", "-o", "a.so", cwd=tmp_path)
    assert embed(tmp_path / "a.so", {"gfx942": edited}).changes[0].where == "in place"
    with pytest.raises(UnsupportedError, match="points to it"):
        embed(tmp_path / "a.so", {"gfx942": larger})


def test_not_a_code_object(objects: dict[str, bytes], tmp_path: Path) -> None:
    path = tmp_path / "x.hipfb"
    path.write_bytes(bundle([(entry_id("gfx942"), b"BC\xc0\xde" + bytes(100))]))
    with pytest.raises(UnsupportedError, match="not a code object"):
        embed(path, {"gfx942": objects["gfx942"]})
