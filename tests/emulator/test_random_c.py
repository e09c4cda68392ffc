"""Random C: the same source for this machine and for gfx942 and gfx950; no program may differ."""

from __future__ import annotations

import platform

import pytest

from coasm.llvm import Llvm
from tests.random_c.sweep import BATCH, Tally, batch

pytestmark = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64"), reason="the host side is compiled for x86-64"
)

_SEED = 2026


def _check(llvm: Llvm, number: int) -> None:
    tally = Tally()
    batch(llvm, _SEED, number, tally)
    assert tally.programs == BATCH, tally.uncompiled
    assert tally.runs >= 2 * BATCH
    assert not tally.differences, "\n".join(tally.differences)
    assert not tally.messages, "\n".join(tally.messages)


@pytest.mark.parametrize("number", range(5))
def test_a_program_does_on_the_emulator_what_it_does_here(number: int, llvm: Llvm) -> None:
    _check(llvm, number)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(5, 9))
def test_more_programs(number: int, llvm: Llvm) -> None:
    _check(llvm, number)
