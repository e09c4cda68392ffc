"""gfx940 and gfx941, which LLVM 22 no longer knows, and whose instructions are gfx942's.

The objects are gfx942's with another machine in ``e_flags`` and in the metadata's target. The
numbers are those of LLVM's ``ELF.h``, ``EF_AMDGPU_MACH_AMDGCN_GFX940`` and ``…GFX941``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import coasm
from coasm.asm.assemble import assemble
from coasm.asm.exact import exact_listing
from coasm.codeobject import load
from coasm.compare import verify
from coasm.errors import CoasmError
from coasm.launch import run_spec
from coasm.llvm import Llvm
from coasm.trips import roundtrip_many

_MACH = {"gfx940": 0x40, "gfx941": 0x4B}
_GFX942 = 0x4C


def _as(name: str, data: bytes) -> bytes:
    assert data[48] == _GFX942
    data = data[:48] + bytes([_MACH[name]]) + data[49:]
    return data.replace(b"amdhsa--gfx942", b"amdhsa--" + name.encode())


@pytest.fixture(scope="module")
def gfx942(fixture_objects: list[tuple[str, Path]]) -> dict[str, Path]:
    return {name: path for name, path in fixture_objects if "-gfx942" in name}


@pytest.mark.parametrize("name", _MACH)
def test_every_object_comes_back(
    name: str, gfx942: dict[str, Path], llvm: Llvm, tmp_path: Path
) -> None:
    paths = []
    for identifier, path in gfx942.items():
        if identifier.endswith("-v3"):
            continue
        paths.append(str(tmp_path / f"{identifier}.co"))
        Path(paths[-1]).write_bytes(_as(name, path.read_bytes()))
    assert len(paths) > 10
    for result in roundtrip_many(paths, jobs=1):
        own = gfx942[Path(result.path).stem]
        assert result.status == "ok" and result.loaded_identical and result.file_identical, own
        assert result.target is not None and result.target.startswith(name)


@pytest.mark.parametrize("name", _MACH)
def test_an_edit_keeps_the_target(name: str, gfx942: dict[str, Path], llvm: Llvm) -> None:
    path = gfx942["vector_add-gfx942-v5"]
    co = load(_as(name, path.read_bytes()), name="k.co")
    text = exact_listing(co, llvm).text
    edited = text.replace("\ts_endpgm", "\ts_nop 0\n\ts_endpgm", 1)
    made = load(assemble(edited, llvm.directory, name="k.s", like_object=co).data)
    assert (made.data[48], str(made.target)) == (_MACH[name], name)
    assert made.metadata.get("amdhsa.target") == co.metadata.get("amdhsa.target")
    report = verify(co, made, llvm)
    assert (report.verdicts["header"], report.verdicts["text"]) == ("identical", "different")
    # An error of the assembler names the target and the line as the user has them.
    with pytest.raises(CoasmError, match=r"k\.s:\d+:\d+: error"):
        assemble(
            text.replace("\ts_endpgm", "\ts_wait_alu 0\n\ts_endpgm"), llvm.directory, name="k.s"
        )


@pytest.mark.parametrize("name", _MACH)
def test_lint_and_run_take_it_as_the_relative(
    name: str, gfx942: dict[str, Path], llvm: Llvm, tmp_path: Path
) -> None:
    own = gfx942["vector_add-gfx942-v5"]
    other = tmp_path / own.name
    other.write_bytes(_as(name, own.read_bytes()))
    findings = [[(f.rule, f.what) for f in coasm.lint(p)] for p in (own, other)]
    assert findings[0] == findings[1]
    spec = Path(__file__).parent.parent / "fixtures" / "vector_add.yaml"
    outcome = run_spec(spec, source=other, backend="emulator")
    assert outcome.passed and outcome.comparisons[0].elements == 250
