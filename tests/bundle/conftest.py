"""Code objects that the bundles of these tests hold."""

from __future__ import annotations

import pytest

from coasm.llvm.find import Llvm
from tests.bundle.carriers import device


@pytest.fixture(scope="session")
def objects(llvm: Llvm) -> dict[str, bytes]:
    """Target → a code object with the kernels alpha and beta."""
    return {target: device(llvm, target, "alpha", "beta") for target in ("gfx942", "gfx1100")}
