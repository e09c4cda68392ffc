"""Kernels that Triton compiles, on the emulator, against NumPy."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from coasm.llvm import Llvm

pytestmark = pytest.mark.slow

if importlib.util.find_spec("triton") is None:
    pytest.skip("triton is not installed (pip install '.[triton]')", allow_module_level=True)

from tests.compilers.build import differences  # noqa: E402
from tests.compilers.cases import Case  # noqa: E402
from tests.compilers.kernels import CASES  # noqa: E402  (imports triton)


def _pairs() -> list[Any]:
    """Each kernel for one of its targets in turn, matrix products for all of them."""
    found = []
    for at, case in enumerate(CASES):
        every = case.targets if "matmul" in case.name else (case.targets[at % len(case.targets)],)
        found += [pytest.param(case, target, id=f"{case.name}-{target}") for target in every]
    return found


@pytest.mark.parametrize(("case", "target"), _pairs())
@pytest.mark.filterwarnings("ignore")
def test_a_kernel(case: Case, target: str, llvm: Llvm) -> None:
    assert not differences(case, target, llvm)
