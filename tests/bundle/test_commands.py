"""``coasm extract``, ``coasm embed``, ``coasm info LIBRARY``, and ``FILE:TARGET``."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

import coasm
from coasm.__main__ import main
from coasm.bundle import extract, find
from coasm.llvm.find import Llvm
from tests.bundle.carriers import HOST, bundle, ccob, device, entry_id, host

#: What a C++ compiler calls ``void scale<float>(float*, int)``.
MANGLED, READABLE = "_Z5scaleIfEvPT_i", "void scale<float>(float*, int)"


@pytest.fixture
def library(llvm: Llvm, objects: dict[str, bytes], tmp_path: Path) -> Path:
    """Bundle 1 plain, bundle 2 compressed, with a mangled kernel for two settings of gfx90a."""
    second = {
        target: device(llvm, target, MANGLED) for target in ("gfx942", "gfx90a:sramecc+:xnack-")
    }
    bundles = [
        bundle([HOST, *((entry_id(t), d) for t, d in each.items())]) for each in (objects, second)
    ]
    return host(tmp_path, [bundles[0], ccob(bundles[1], 3, "zstd")], "-shared", "-fPIC")


def _run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    status = main([str(argument) for argument in arguments])
    said = capsys.readouterr()
    return status, said.out, said.err


def test_extract(library: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    status, said, _ = _run(capsys, "extract", library, "-o", out)
    assert status == 0
    names = [
        "carrier.1.gfx1100.co", "carrier.1.gfx942.co",
        "carrier.2.gfx90a_sramecc+_xnack-.co", "carrier.2.gfx942.co",
    ]  # fmt: skip
    assert sorted(os.listdir(out)) == names and all(name in said for name in names)
    files = [name for name in ("carrier.1.gfx942.co", "carrier.1.gfx1100.co", names[3], names[2])]
    assert [(out / name).read_bytes() for name in files] == [extract(e) for e in find(library)]
    for arguments in ((), ("-t", "gfx942#2")):  # nothing is overwritten in silence
        status, _, error = _run(capsys, "extract", library, "-o", out, *arguments)
        assert status == 2 and "--force" in error
    assert _run(capsys, "extract", library, "-o", out, "--force")[0] == 0


def test_extract_some(library: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, said, _ = _run(
        capsys, "extract", library, "-o", tmp_path / "o", "-t", "gfx90a", "--json"
    )
    assert status == 0
    (row,) = json.loads(said)["images"]
    assert row["target"] == "gfx90a:sramecc+:xnack-" and row["bundle"] == 2
    assert Path(row["output"]).read_bytes() == extract(find(library)[3])
    status, _, error = _run(capsys, "extract", library, "-o", tmp_path / "p", "-t", "gfx1030")
    assert status == 2 and "there are gfx942, gfx1100, gfx90a" in error
    assert not (tmp_path / "p").exists()


def test_list(library: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, said, _ = _run(capsys, "extract", library, "--list")
    assert status == 0
    lines = said.splitlines()
    assert re.fullmatch(r" +1  gfx942 +[\d,]+ +2", lines[1])
    assert re.fullmatch(r" +2  gfx90a:sramecc\+:xnack- +[\d,]+ +1", lines[4])
    assert "CCOB version 3" in said and f"{MANGLED}  {READABLE}" in said
    document = json.loads(_run(capsys, "extract", library, "--list", "--json")[1])
    assert [image["kernels"] for image in document["images"]] == [
        *[[{"name": n, "demangled": None} for n in ("alpha", "beta")]] * 2,
        *[[{"name": MANGLED, "demangled": READABLE}]] * 2,
    ]


def test_nothing_is_written_of_a_damaged_file(
    library: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second bundle is damaged where only unpacking it shows that."""
    data = bytearray(library.read_bytes())
    held = find(library)[-1].container
    data[held.offset + held.size - 9] ^= 0x55
    library.write_bytes(data)
    (tmp_path / "there").mkdir()
    for folder in ("new", "there"):
        status, said, error = _run(capsys, "extract", library, "-o", tmp_path / folder)
        assert (status, said, len(error.splitlines())) == (2, "", 1)
    assert not (tmp_path / "new").exists() and not os.listdir(tmp_path / "there")


def test_bitcode_is_not_extracted(
    objects: dict[str, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    images = [(entry_id("gfx906"), b"BC\xc0\xde" * 9), (entry_id("gfx942"), objects["gfx942"])]
    path = tmp_path / "x.hipfb"
    path.write_bytes(bundle(images))
    status, _, error = _run(capsys, "extract", path, "-o", tmp_path / "o")
    assert status == 0 and error == "coasm: not extracted: gfx906#1: LLVM bitcode\n"
    assert os.listdir(tmp_path / "o") == ["x.hipfb.1.gfx942.co"]
    path.write_bytes(bundle(images[:1]))
    status, _, error = _run(capsys, "extract", path, "-o", tmp_path / "p")
    assert status == 2 and "LLVM bitcode" in error and not (tmp_path / "p").exists()


def test_names_do_not_leave_the_folder(
    objects: dict[str, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.hipfb"
    bad = "hip-amdgcn-amd-amdhsa--../../evil\x1b[31m"
    path.write_bytes(bundle([(bad, objects["gfx942"])]))
    status, said, _ = _run(capsys, "extract", path, "-o", tmp_path / "o")
    assert status == 0 and "\x1b" not in said
    assert os.listdir(tmp_path / "o") == ["x.hipfb.1.hip-amdgcn-amd-amdhsa--.._.._evil__31m.co"]
    assert "\x1b" not in _run(capsys, "extract", path, "--list")[1]


def test_from_the_library_through_an_edit_and_back(
    library: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """extract, disasm, edit a constant, asm, embed: exactly that kernel differs."""
    before = library.read_bytes()
    entry = find(library)[0]
    listing = coasm.disassemble(extract(entry))
    at = listing.text.index("s_nop 0", listing.text.index("\nbeta:"))
    text = listing.text[:at] + "s_nop 3" + listing.text[at + 7 :]
    rebuilt = tmp_path / "rebuilt.co"
    rebuilt.write_bytes(coasm.assemble(text, like=extract(entry)).data)
    new = tmp_path / "new.so"
    status, said, _ = _run(capsys, "embed", library, "-r", f"gfx942#1={rebuilt}", "-o", new)
    assert status == 0 and said.startswith(f"{new}: gfx942#1: ") and "in place" in said
    after = new.read_bytes()
    assert os.stat(new).st_mode & 0o777 == os.stat(library).st_mode & 0o777
    (changed,) = [n for n in range(len(before)) if before[n] != after[n]]
    # s_nop is a SOPP instruction: its operand is in the low bits.
    assert (before[changed], after[changed]) == (0, 3)
    co = coasm.load(extract(entry))
    beta = next(kernel for kernel in co.kernels if kernel.name == "beta")
    section = co.section_at(beta.entry)
    assert section is not None
    inside = changed - entry.container.offset - entry.offset
    assert inside == section.offset + beta.entry - section.addr
    assert [extract(e) for e in find(new)][1:] == [extract(e) for e in find(library)][1:]


def test_embed_refuses(
    library: Path, objects: dict[str, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = tmp_path / "good.co"
    good.write_bytes(objects["gfx942"])
    new = tmp_path / "new.so"
    for arguments, message in (
        (("-r", "gfx942"), "expected TARGET=OBJECT"),
        (("-r", f"gfx942#1={good}", "-r", f"gfx942#1={good}"), "given twice"),
        (("-r", f"gfx1030={good}"), "no gfx1030 in it"),
        (("-r", f"gfx942#2={good}"), "lacks the kernel _Z5scale"),
        (("-r", f"gfx1100={good}"), "is for gfx942"),
        (("-r", f"gfx942={tmp_path}/none.co"), "No such file"),
    ):
        status, said, error = _run(capsys, "embed", library, *arguments, "-o", new)
        assert (status, said) == (2, "") and message in error and len(error.splitlines()) == 1
        assert not new.exists()
    status, _, error = _run(capsys, "embed", library, "-r", f"gfx942={good}", "-o", library)
    assert status == 2 and "overwrite the input" in error


def test_embed_takes_an_object_out_of_another_library(
    library: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new = tmp_path / "new.so"
    status, said, _ = _run(
        capsys, "embed", library, "-r", f"gfx942#1={library}:gfx942#1", "-o", new, "--json"
    )
    assert status == 0 and json.loads(said)["replaced"][0]["where"] == "unchanged"
    assert new.read_bytes() == library.read_bytes()


def test_info(library: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, said, _ = _run(capsys, "info", library)
    assert status == 0
    assert "2 bundles, 4 code objects, 3 kernels" in said
    assert re.search(r"^gfx942 +2 +[\d,]+ +3 ", said, re.MULTILINE)
    assert MANGLED in said and READABLE in said and "No kernel spills registers" in said
    document = json.loads(_run(capsys, "info", library, "--json")[1])
    assert {t["target"]: t["kernels"] for t in document["targets"]} == {
        "gfx942": 3, "gfx1100": 2, "gfx90a:sramecc+:xnack-": 1
    }  # fmt: skip
    # 16 VGPRs and 24 SGPRs are what the metadata of these kernels states; s_nop and s_endpgm
    # are four bytes each.
    assert all((k["vgprs"], k["sgprs"]) == (16, 24) for k in document["kernels"])


def test_info_of_one_object(library: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, said, _ = _run(capsys, "info", f"{library}:gfx942#2")
    assert status == 0 and f"Kernel {MANGLED}  {READABLE}" in said
    status, _, error = _run(capsys, "info", f"{library}:gfx942")
    assert status == 2 and "name one: gfx942#1, gfx942#2" in error


def test_one_target_twice_in_a_bundle(
    objects: dict[str, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """For two offload kinds: names tell them apart, whichever is extracted."""
    ids = ["hipv4-amdgcn-amd-amdhsa--gfx942", "openmp-amdgcn-amd-amdhsa--gfx942"]
    path = tmp_path / "x.hipfb"
    path.write_bytes(bundle([(name, objects["gfx942"]) for name in ids]))
    assert _run(capsys, "extract", path, "-o", tmp_path / "o")[0] == 0
    assert sorted(os.listdir(tmp_path / "o")) == [f"x.hipfb.1.{name}.co" for name in ids]
    assert _run(capsys, "extract", path, "-o", tmp_path / "p", "-t", ids[1])[0] == 0
    assert os.listdir(tmp_path / "p") == [f"x.hipfb.1.{ids[1]}.co"]
    status, _, error = _run(capsys, "info", f"{path}:gfx942")
    assert status == 2 and f"name one: {ids[0]}#1, {ids[1]}#1" in error


def test_roundtrip_of_each_object(library: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, said, _ = _run(capsys, "roundtrip", library, "--json")
    results = [json.loads(line) for line in said.splitlines()]
    assert status == 0 and [result["status"] for result in results] == ["ok"] * 4
    names = ["gfx1100#1", "gfx90a:sramecc+:xnack-#2", "gfx942#1", "gfx942#2"]
    assert sorted(result["path"] for result in results) == [f"{library}:{name}" for name in names]


def test_lint_of_each_object(library: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, said, error = _run(capsys, "lint", library, "--json")
    judged = {json.loads(line)["path"].split(":")[1] for line in said.splitlines()}
    assert status == 0 and not error
    assert judged == {"gfx1100#1", "gfx90a", "gfx942#1", "gfx942#2"}
