"""Which instructions a launch executed; the expected addresses are those of labels, from LLVM."""

from __future__ import annotations

import numpy as np
import pytest

from coasm.emulator import Coverage
from coasm.llvm import Llvm
from tests.emulator.harness import assemble, run

# Each label holds one instruction. The argument at 8 chooses the way, that at 12 the lanes.
_WAYS = """
 s_load_dwordx2 s[4:5], s[0:1], 0x8
 s_waitcnt lgkmcnt(0)
 s_cmp_eq_u32 s4, 0
 s_cbranch_scc1 other
one: v_mov_b32 v1, 1
 s_branch lanes
other: v_mov_b32 v1, 2
lanes: s_mov_b64 exec, s[6:7]
masked: v_mov_b32 v2, v1
matrix: v_mfma_f32_32x32x1_2b_f32 a[0:31], v1, v2, 0
scalar: s_mov_b32 s8, 0
 s_mov_b64 exec, -1
after: v_mov_b32 v3, v1
 s_endpgm
dead: s_mov_b32 s9, 0
 s_nop 0
 s_nop 0
"""


def launch(llvm: Llvm, ways: list[int], *, exec_mask: int = 0) -> tuple[dict[str, int], Coverage]:
    text = f" s_mov_b32 s6, {exec_mask}\n s_mov_b32 s7, 0\n" + _WAYS
    co = assemble(llvm, text)
    buffer = np.zeros(1, np.uint32)
    together = Coverage()
    for way in ways:
        together = together.also(run(llvm, co, "k", [buffer, way]).coverage)
    return {symbol.name: symbol.value for symbol in co.symbols}, together


@pytest.mark.parametrize(
    ("ways", "executed", "missed"),
    [([0], "other", "one"), ([1], "one", "other"), ([0, 1], "one other", "")],
)
def test_the_way_that_was_taken(llvm: Llvm, ways: list[int], executed: str, missed: str) -> None:
    at, found = launch(llvm, ways)
    assert {at[name] for name in executed.split()} <= found.executed
    assert found.executed.isdisjoint({at["dead"], *(at[name] for name in missed.split())})
    assert found.executed <= found.code and at["dead"] in found.code
    assert max(found.code) == at["dead"]  # the s_nop behind it fill the space


def test_what_ran_without_a_lane_did_nothing(llvm: Llvm) -> None:
    at, found = launch(llvm, [0])
    assert found.asleep == {at["masked"]}
    # EXEC does not count for an MFMA (CDNA3 ISA guide, "Matrix Arithmetic Instructions").
    assert {at["matrix"], at["scalar"], at["after"]} <= found.executed
    assert at["masked"] not in found.executed
    at, found = launch(llvm, [0], exec_mask=4)
    assert not found.asleep and at["masked"] in found.executed


def test_lanes_of_one_launch_wake_what_slept_in_another() -> None:
    one, other = Coverage(asleep=frozenset({8})), Coverage(executed=frozenset({8}))
    assert one.also(other).asleep == frozenset() and one.also(other).executed == {8}
