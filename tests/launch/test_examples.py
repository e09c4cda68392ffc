"""The launch files of vendor kernels in ``examples/launches``, on the emulator, against NumPy."""

from __future__ import annotations

import os
import re
import runpy
import shutil
from pathlib import Path

import pytest

import coasm

LAUNCHES = Path(__file__).parents[2] / "examples" / "launches"
OBJECT = re.compile(r"\$AITER/(\S+\.co)")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The launch files, with the arrays that they name beside them."""
    folder = tmp_path_factory.mktemp("launches")
    runpy.run_path(str(LAUNCHES / "inputs.py"))["write"](folder)
    for path in LAUNCHES.glob("*.yaml"):
        shutil.copy(path, folder)
    return folder


@pytest.mark.parametrize("name", sorted(path.stem for path in LAUNCHES.glob("*.yaml")))
def test_a_vendor_kernel(folder: Path, name: str) -> None:
    """The object is the one that the file's head names."""
    corpus = os.environ.get("COASM_CORPUS")
    if not corpus:
        pytest.skip("COASM_CORPUS names no folder of real objects")
    path = folder / f"{name}.yaml"
    said = OBJECT.search(path.read_text(encoding="utf-8"))
    assert said is not None
    outcome = coasm.run_spec(path, source=Path(corpus, said[1]), backend="emulator")
    assert outcome.comparisons
    assert outcome.passed, [one for one in outcome.comparisons if not one.passed]
