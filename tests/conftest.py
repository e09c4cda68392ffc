"""What every test can ask for: the LLVM tools, the code objects built from `fixtures/`, real ones.

- ``llvm``: the :class:`coasm.llvm.Llvm` that is found here.
- ``fixture_objects``: every built code object as ``[(identifier, path), …]``.
- ``fixture_object``: one of them; a test that takes it runs once for each (``--deselect``, ``-k``
  and the like see identifiers such as ``template-gfx942-v5``).
- ``corpus``: the paths of the real code objects under ``COASM_CORPUS``, sorted.

A test is skipped, with the reason, where what it asks for is not there.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import pytest

from coasm.errors import CoasmError
from coasm.llvm.find import Llvm, find_llvm
from tests.fixtures import build

_CACHE = Path(__file__).parent.parent / "build" / "fixtures"


@cache
def _llvm() -> Llvm | str:
    """The LLVM, or why there is none."""
    try:
        return find_llvm()
    except CoasmError as error:
        return str(error)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "fixture_object" in metafunc.fixturenames:
        found = _llvm()
        names = [] if isinstance(found, str) else [recipe.id for recipe in build.recipes(found)]
        metafunc.parametrize("fixture_object", names, indirect=True)


@pytest.fixture(scope="session")
def llvm() -> Llvm:
    found = _llvm()
    if isinstance(found, str):
        pytest.skip(found)
    return found


@pytest.fixture(scope="session")
def fixture_objects(llvm: Llvm) -> list[tuple[str, Path]]:
    return sorted(build.build_all(llvm, _CACHE).items())


@pytest.fixture
def fixture_object(
    request: pytest.FixtureRequest, fixture_objects: list[tuple[str, Path]]
) -> tuple[str, Path]:
    return next(pair for pair in fixture_objects if pair[0] == request.param)


@pytest.fixture(scope="session")
def corpus() -> list[Path]:
    root = os.environ.get("COASM_CORPUS")
    if not root:
        pytest.skip("COASM_CORPUS is not set: no real code objects")
    found = sorted(Path(root).rglob("*.co"))
    if not found:
        pytest.skip(f"COASM_CORPUS={root} holds no .co file")
    return found
