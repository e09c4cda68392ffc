"""Many objects: which files are taken, in which batches, and that no failure stops the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from coasm.codeobject import load
from coasm.errors import CoasmError, UnsupportedError
from coasm.llvm.find import Llvm
from coasm.trips import collect, roundtrip, roundtrip_many
from tests.asm.tools import built


def test_collect(tmp_path: Path) -> None:
    for name in ("b.co", "a.hsaco", "sub/c.co", "sub/note.txt", "d.so"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"")
    found = [Path(p).relative_to(tmp_path).as_posix() for p in collect([str(tmp_path)])]
    assert sorted(found) == ["a.hsaco", "b.co", "sub/c.co"]
    # A file that is named is taken whatever it is called, and once.
    named = str(tmp_path / "d.so")
    assert collect([named, named, str(tmp_path / "sub")]) == [named, str(tmp_path / "sub/c.co")]
    with pytest.raises(CoasmError, match="No such file"):
        collect([str(tmp_path / "missing")])
    (tmp_path / "none").mkdir()
    with pytest.raises(CoasmError, match="no "):
        collect([str(tmp_path / "none")])


def test_a_cycle_of_links_ends(tmp_path: Path) -> None:
    (tmp_path / "a.co").write_bytes(b"")
    (tmp_path / "loop").symlink_to(tmp_path)
    assert collect([str(tmp_path)]) == [str(tmp_path / "a.co")]


@pytest.mark.parametrize("jobs", [1, 2])
def test_targets_copies_and_failures_together(jobs: int, llvm: Llvm, tmp_path: Path) -> None:
    """One disassembler run takes its processor from the first file, so targets are kept apart."""
    bodies = {
        "a": ("gfx942", "v_mov_b32 v1, v2\ns_endpgm"),
        "b": ("gfx950", "v_prng_b32 v1, v2\ns_endpgm"),
        "c": ("gfx1100", "v_dual_mov_b32 v1, v2 :: v_dual_mov_b32 v4, v3\ns_endpgm"),
        "d": ("gfx942", "s_nop 1\n.long 0xe80c3bd0, 0xff25a6c2\nx:\ns_endpgm"),  # a crash
        "e": ("gfx942", "s_nop 2\ns_endpgm"),
    }
    paths = []
    for name, (target, body) in bodies.items():
        paths.append(tmp_path / f"{name}.co")
        paths[-1].write_bytes(built(llvm, body, target).data)
    copy, empty = tmp_path / "copy.co", tmp_path / "empty.co"
    copy.write_bytes(paths[0].read_bytes())
    empty.write_bytes(b"")
    every = [str(p) for p in (*paths, copy, empty, tmp_path / "missing.co")]
    results = {Path(r.path).name: r for r in roundtrip_many(every, jobs=jobs)}
    assert len(results) == len(every)
    for name in ("a.co", "b.co", "c.co", "d.co", "e.co", "copy.co"):
        found = results[name]
        assert (found.status, found.file_identical) == ("ok", True), found
    assert {n: results[f"{n}.co"].raw for n in "abcde"} == {**dict.fromkeys("abce", 0), "d": 1}
    assert results["c.co"].target == "gfx1100" and results["c.co"].instructions == 2
    assert results["copy.co"].seconds == 0
    assert (results["empty.co"].status, results["empty.co"].error) == ("error", "the file is empty")
    assert results["missing.co"].status == "error"


def test_code_object_v3_cannot_be_written(llvm: Llvm) -> None:
    data = bytearray(built(llvm, "s_endpgm").data)
    data[8], data[48:52] = 1, b"\x4c\0\0\0"
    with pytest.raises(UnsupportedError, match=r"^v3\.co: code object v3: LLVM no longer writes"):
        roundtrip(load(bytes(data), name="v3.co"), llvm)
