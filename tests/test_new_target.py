"""A new gfx target is a row in ``target.py``: a made-up one, which no other module knows of.

gfx9f9 is gfx950 with other LDS: 192 KiB in granules of 1536 bytes. What is expected of it is what
gfx950 does, but for what these numbers say.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import coasm
from coasm import target
from coasm.asm.assemble import assemble
from coasm.asm.exact import exact_listing
from coasm.codeobject import load
from coasm.errors import UnsupportedError
from coasm.inspect import inspect
from coasm.launch import run_spec
from coasm.llvm import Llvm
from coasm.trips import roundtrip_many
from tests.docs import ROOT, blocks

_SPEC = Path(__file__).parent / "fixtures" / "vector_add.yaml"
_MACH = 0x7F
#: More than gfx950's 163,840 bytes, less than the 196,608 of the made-up target.
_LDS = 180_000


@pytest.fixture
def gfx9f9(monkeypatch: pytest.MonkeyPatch) -> target.Processor:
    relative = target.processor("gfx950")
    added = relative._replace(
        name="gfx9f9",
        mach=_MACH,
        version=(9, 5, 9),
        family=relative.family._replace(lds_bytes=192 << 10, lds_granule=1536),
        llvm_since=99,
        relative="gfx950",
    )
    monkeypatch.setitem(target.PROCESSORS, added.name, added)
    monkeypatch.setitem(target._BY_MACH, added.mach, added)
    return added


@pytest.fixture
def gfx950(fixture_objects: list[tuple[str, Path]], llvm: Llvm, tmp_path: Path) -> Path:
    """The fixture for gfx942, whose instructions gfx950 has too, assembled for that."""
    co = load(dict(fixture_objects)["vector_add-gfx942-v5"].read_bytes(), name="vector_add.co")
    text = exact_listing(co, llvm).text.replace("amdhsa--gfx942", "amdhsa--gfx950")
    path = tmp_path / "gfx950.co"
    path.write_bytes(assemble(text, llvm.directory, name="gfx950.s").data)
    return path


@pytest.fixture
def made_up(gfx9f9: target.Processor, gfx950: Path, tmp_path: Path) -> Path:
    """gfx950's object with another machine in ``e_flags`` and in the metadata's target."""
    data = gfx950.read_bytes()
    data = data[:48] + bytes([_MACH]) + data[49:]
    path = tmp_path / "made_up.co"
    path.write_bytes(data.replace(b"amdhsa--gfx950", b"amdhsa--gfx9f9"))
    return path


def _with_lds(path: Path, llvm: Llvm) -> Path:
    """The object with that much LDS in its descriptor and its metadata."""
    text = exact_listing(load(path.read_bytes(), name=path.name), llvm).text
    edited, count = re.subn(r"(group_segment_fixed_size:? )0$", rf"\g<1>{_LDS}", text, flags=re.M)
    assert count == 2
    made = path.with_name(f"lds-{path.name}")
    made.write_bytes(assemble(edited, llvm.directory, name="lds.s").data)
    return made


def test_the_listing_comes_back(made_up: Path, llvm: Llvm) -> None:
    assert '.amdgcn_target "amdgcn-amd-amdhsa--gfx9f9"' in coasm.disassemble(str(made_up)).text
    (result,) = roundtrip_many([str(made_up)], jobs=1)
    assert (result.status, result.file_identical) == ("ok", True)
    assert result.target is not None and result.target.startswith("gfx9f9")


def test_info_knows_its_lds(made_up: Path, llvm: Llvm) -> None:
    co = load(_with_lds(made_up, llvm).read_bytes())
    fit = inspect(co).kernels[0].occupancy
    assert fit is not None
    (limit,) = (limit for limit in fit.limits if limit.cause == "LDS")
    # 118 granules of 1536 bytes are the first to hold 180,000; once into 192 KiB.
    assert (limit.workgroups, limit.detail) == (1, "181248 of 196608 bytes in granules of 1536")


def test_lint_and_run_go_by_its_lds(made_up: Path, gfx950: Path, llvm: Llvm) -> None:
    too_much, enough = _with_lds(gfx950, llvm), _with_lds(made_up, llvm)
    assert coasm.lint(str(made_up)) == []
    levels = [{f.rule for f in coasm.lint(str(path))} for path in (too_much, enough)]
    assert levels[0] - levels[1] and not levels[1]
    assert run_spec(_SPEC, source=made_up, backend="emulator").passed
    assert run_spec(_SPEC, source=enough, backend="emulator").passed
    with pytest.raises(UnsupportedError, match="a gfx950 workgroup has 163840"):
        run_spec(_SPEC, source=too_much, backend="emulator")


def test_wait_states_are_those_of_its_column(made_up: Path, llvm: Llvm) -> None:
    text = exact_listing(load(made_up.read_bytes(), name="k.co"), llvm).text
    # GCNHazardRecognizer, checkPermlaneHazards: two states on gfx950; gfx942 has no such swap.
    edited = text.replace(
        "\ts_endpgm", "\tv_mov_b32_e32 v0, 0\n\tv_permlane32_swap_b32_e32 v0, v1\n\ts_endpgm", 1
    )
    assert edited != text
    (found,) = (f for f in coasm.lint(edited) if f.rule == "permlane-swap")
    assert (found.has, found.needs) == (0, 2)


def test_a_target_without_rules_says_which_have_some(
    gfx9f9: target.Processor, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert target.emulated() == ("gfx942", "gfx950")
    known = target.with_wait_states()
    monkeypatch.setitem(target.PROCESSORS, "gfx9f9", gfx9f9._replace(relative=""))
    assert target.emulated() == ("gfx942", "gfx950", "gfx9f9")
    assert target.with_wait_states() == (*known, "gfx9f9")


#: Where a target may be named: the kernels that exist for it alone.
_NAME_ONE = ("launch/families/f4gemm/",)
_VERSION = re.compile(r"\b(processor|proc)\.version\b")


def _decisions(path: Path) -> Iterator[tuple[str, int]]:
    """What a module decides by the name of a target, or by its GFX version: what, and the line."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if re.fullmatch(r"gfx\d[0-9a-f]*(-[\w-]+)?", node.value):
                yield "name", node.lineno
        elif isinstance(node, ast.Compare) and _VERSION.search(ast.unparse(node)):
            yield "version", node.lineno


def test_no_other_module_decides_by_name_or_version(tmp_path: Path) -> None:
    root = Path(coasm.__file__).parent
    found = set()
    for path in root.rglob("*.py"):
        module = path.relative_to(root).as_posix()
        for what, line in _decisions(path):
            named = what == "name" and module.startswith(_NAME_ONE)
            if not named and module != "target.py":
                found.add(f"{module}:{line}: {what}")
    assert not found
    # The test can see both.
    wrong = tmp_path / "wrong.py"
    wrong.write_text('old = name == "gfx942" or processor.version < (9, 5)\n')
    assert {"name", "version"} == {what for what, _ in _decisions(wrong)}


def test_the_page_shows_rows_that_are_there() -> None:
    source = Path(target.__file__).read_text("utf-8")
    shown = [
        b for b in blocks(ROOT / "docs" / "where-to-touch.md") if b.lines[0][:2] in ("_p", "_G")
    ]
    assert len(shown) == 2
    for block in shown:
        assert re.sub(r"\s", "", "".join(block.lines)) in re.sub(r"\s", "", source)
