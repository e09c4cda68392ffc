"""``coasm bundle`` and ``embed --add``: what Clang's bundler makes, and takes apart."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from coasm.__main__ import main
from coasm.bundle import embed, extract, find
from coasm.bundle.making import bundle_of
from coasm.codeobject import load
from coasm.errors import CoasmError, UnsupportedError
from coasm.llvm.find import Llvm
from tests.bundle.carriers import HOST, bundle, ccob, device, entry_id, host, run, tool


@pytest.fixture(scope="module")
def gfx950(llvm: Llvm) -> bytes:
    return device(llvm, "gfx950", "alpha", "beta")


def test_it_is_what_the_format_says(objects: dict[str, bytes]) -> None:
    images = [(entry_id(target), data) for target, data in objects.items()]
    opened = [load(data, name=target) for target, data in objects.items()]
    assert bundle_of(opened) == bundle([HOST, *images])


def test_clang_makes_the_same_and_reads_both(
    llvm: Llvm, objects: dict[str, bytes], tmp_path: Path
) -> None:
    bundler = tool(llvm, "clang-offload-bundler")
    paths = []
    for target, data in objects.items():
        paths.append(tmp_path / f"{target}.co")
        paths[-1].write_bytes(data)
    ids = [HOST[0], *(entry_id(target) for target in objects)]
    run(
        bundler, "-type=o", "-bundle-align=4096", f"-targets={','.join(ids)}", "-input=/dev/null",
        *(f"-input={path}" for path in paths), f"-output={tmp_path / 'theirs'}",
    )  # fmt: skip
    ours = tmp_path / "ours.hipfb"
    assert main(["bundle", *map(str, paths), "-o", str(ours)]) == 0
    assert ours.read_bytes() == (tmp_path / "theirs").read_bytes()
    assert main(["bundle", *map(str, paths), "-o", str(ours), "--compress"]) == 0
    assert ours.read_bytes().startswith(b"CCOB")
    for target, data in objects.items():
        out = tmp_path / "out"
        run(
            bundler, "-type=o", "-unbundle", f"-targets={entry_id(target)}", f"-input={ours}",
            f"-output={out}",
        )  # fmt: skip
        assert out.read_bytes() == data


def test_what_is_refused_and_kept(
    objects: dict[str, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, other = tmp_path / "a.co", tmp_path / "notes.txt"
    path.write_bytes(objects["gfx942"])
    other.write_text("edited by hand\n")
    assert main(["bundle", str(path), str(path), "-o", str(tmp_path / "x")]) == 2
    assert "is for gfx942, and so is" in capsys.readouterr().err
    assert main(["bundle", str(path), "-o", str(other)]) == 2
    assert "--force" in capsys.readouterr().err and other.read_text() == "edited by hand\n"
    assert main(["bundle", str(path), "-o", str(path), "--force"]) == 2
    assert main(["bundle", str(path), "-o", str(tmp_path / "x"), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["images"] == [{"target": "gfx942", "bytes": len(objects["gfx942"])}]
    with pytest.raises(CoasmError, match="0 code objects"):
        bundle_of([])


@pytest.mark.parametrize("packed", (False, True), ids=("bundle", "CCOB"))
def test_add(objects: dict[str, bytes], gfx950: bytes, tmp_path: Path, packed: bool) -> None:
    """To a bare bundle: it is then what it would be had it been made with that object."""
    path = tmp_path / "x.hipfb"
    data = bundle([HOST, *((entry_id(t), d) for t, d in objects.items())])
    path.write_bytes(ccob(data, 2, "zstd") if packed else data)
    done = embed(path, {}, {"gfx950": gfx950})
    (change,) = done.changes
    assert (change.entry.name, change.old, change.new) == ("gfx950#1", 0, len(gfx950))
    path.write_bytes(done.data)
    expected = {**objects, "gfx950": gfx950}
    assert {e.target: extract(e) for e in find(path)} == expected
    if not packed:
        images = [(entry_id(target), image) for target, image in expected.items()]
        assert done.data == bundle([HOST, *images])
    with pytest.raises(CoasmError, match="has gfx950 already; replace it"):
        embed(path, {}, {"gfx950": gfx950})


def test_add_to_a_table_without_room(gfx950: bytes, llvm: Llvm, tmp_path: Path) -> None:
    """Images that begin right behind the table move."""
    path = tmp_path / "x.hipfb"
    old = device(llvm, "gfx942", "alpha", "beta")
    path.write_bytes(bundle([HOST, (entry_id("gfx942"), old)], align=8))
    path.write_bytes(embed(path, {}, {"gfx950": gfx950}).data)
    assert {e.target: extract(e) for e in find(path)} == {"gfx942": old, "gfx950": gfx950}


def test_add_to_a_library(
    llvm: Llvm, objects: dict[str, bytes], gfx950: bytes, tmp_path: Path
) -> None:
    """The bundle with the same kernels gets it, and the running program finds it."""
    second = {target: device(llvm, target, "gamma") for target in objects}
    bundles = [
        bundle([HOST, *((entry_id(t), d) for t, d in each.items())]) for each in (second, objects)
    ]
    path = host(tmp_path, bundles)
    done = embed(path, {}, {"gfx950": gfx950})
    assert [(c.entry.number, c.where) for c in done.changes] == [(2, "new segment")]
    path.write_bytes(done.data)
    (size,) = {e.container.size for e in find(path) if e.target == "gfx950"}
    seen = run(path, "0", str(size)).stdout
    view = tmp_path / "view.hipfb"
    view.write_bytes(seen)
    assert {e.target: extract(e) for e in find(view)} == {**objects, "gfx950": gfx950}


def test_what_cannot_be_added(
    llvm: Llvm, objects: dict[str, bytes], gfx950: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "x.hipfb"
    data = bundle([HOST, *((entry_id(t), d) for t, d in objects.items())])
    path.write_bytes(data)
    with pytest.raises(CoasmError, match="is for gfx950, not for gfx90a"):
        embed(path, {}, {"gfx90a": gfx950})
    with pytest.raises(CoasmError, match="lacks the kernel beta"):
        embed(path, {}, {"gfx950": device(llvm, "gfx950", "alpha")})
    path.write_bytes(data + bytes(-len(data) % 4096) + data)
    with pytest.raises(CoasmError, match="which bundle gfx950 belongs to is open"):
        embed(path, {}, {"gfx950": gfx950})
    (tmp_path / "a.o").write_bytes(data)
    path.write_bytes(embed(path, {}, {"gfx950#2": gfx950}).data)
    assert [e.name for e in find(path)] == [
        "gfx942#1",
        "gfx1100#1",
        "gfx942#2",
        "gfx1100#2",
        "gfx950#2",
    ]
    section = f'\t.section __CLANG_OFFLOAD_BUNDLE__{entry_id("gfx942")},"a",@progbits\n'
    (tmp_path / "gfx942.co").write_bytes(objects["gfx942"])
    (tmp_path / "a.s").write_text(section + '\t.incbin "gfx942.co"\n')
    run(tool(llvm, "clang"), "-c", "a.s", "-o", "a.o", cwd=tmp_path)
    with pytest.raises(UnsupportedError, match="nothing can be added to section"):
        embed(tmp_path / "a.o", {}, {"gfx950": gfx950})
