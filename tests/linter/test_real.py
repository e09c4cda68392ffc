"""Kernels that run on hardware: none of them has an error."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

import coasm
from coasm.codeobject import CodeObject, load
from coasm.llvm import Llvm
from tests.emulator.harness import opencl
from tests.wheels import sample

#: The objects are divided among so many tests, so that they can run side by side.
_PARTS = 8
#: One target of each family; the two of which everything is judged.
_TARGETS = ("gfx90a", "gfx942", "gfx950", "gfx1030", "gfx1151", "gfx1201", "gfx1250")


def _check(objects: Iterable[CodeObject]) -> None:
    for co in objects:
        assert co.kernels
        assert [(co.name, *found) for found in coasm.lint(co)] == []


@pytest.mark.slow
@pytest.mark.parametrize("part", range(_PARTS))
def test_no_false_alarm(part: int, corpus: list[Path]) -> None:
    """Every second object of the corpus, hand-written kernels all of them."""
    _check(load(path) for path in corpus[part :: 2 * _PARTS])


@pytest.mark.slow
@pytest.mark.parametrize("target", _TARGETS)
def test_no_false_alarm_in_compiled_objects(target: str) -> None:
    """Of the targets without rules for wait states and waits: resources and operands."""
    _check(sample(target))


@pytest.mark.parametrize("level", ["0", "1", "2", "3"])
@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_no_false_alarm_in_opencl(llvm: Llvm, target: str, level: str) -> None:
    """What clang compiles of OpenCL C, with the undefined registers that it leaves."""
    _check([opencl(llvm, target, level)])
