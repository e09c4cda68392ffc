"""Advice about waits that are too strict and runs that cannot be replayed; worked out by hand."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from coasm.asm.decode import decode
from coasm.codeobject import load
from coasm.linter.findings import ADVICE
from coasm.linter.program import Program, build_program
from coasm.linter.sources import listing_source
from coasm.linter.strict import check_strict
from coasm.linter.waits import check_waits
from coasm.llvm.find import Llvm
from tests.linter.sources import listing

pytestmark = pytest.mark.usefixtures("llvm")

_LOAD = "\tglobal_load_dword {}, v[10:11], off\n"
_TWO = _LOAD.format("v1") + _LOAD.format("v2")
_END = "\ts_endpgm"


def strict(body: str, target: str = "gfx942:xnack-") -> list[tuple[str, int | None, int | None]]:
    """The findings for a kernel: the instruction, its count and the one that would do."""
    found = check_strict(listing_source(listing(f"{body}{_END}", target)).program)
    assert all(finding.level == ADVICE for finding in found)
    return [(finding.place.text, finding.has, finding.needs) for finding in found]


def test_a_wait_for_what_is_used_only_behind_the_next() -> None:
    uses = "\tv_mov_b32 v3, v1\n\ts_waitcnt vmcnt(0)\n\tv_mov_b32 v3, v2\n"
    body = f"{_TWO}\ts_waitcnt vmcnt({{}})\n{uses}"
    assert strict(body.format(1)) == []
    assert strict(body.format(0)) == [("s_waitcnt vmcnt(0)", 0, 1)]


def test_a_wait_for_nothing_that_is_used() -> None:
    body = f"{_TWO}\ts_waitcnt vmcnt(1)\n\ts_waitcnt vmcnt(0)\n\tv_mov_b32 v3, v1\n"
    assert strict(body) == [("s_waitcnt vmcnt(1)", 1, None)]


def test_each_counter_by_itself() -> None:
    body = (
        "\tds_read_b32 v1, v0\n\tds_read_b32 v2, v0\n"
        f"{_LOAD.format('v4')}\ts_waitcnt vmcnt(0) lgkmcnt(0)\n\tv_mov_b32 v3, v1\n"
        "\tv_mov_b32 v3, v4\n\ts_waitcnt lgkmcnt(0)\n\tv_mov_b32 v3, v2\n"
    )
    program = listing_source(listing(f"{body}{_END}", "gfx942:xnack-")).program
    (found,) = check_strict(program)
    assert (found.has, found.needs) == (0, 1)
    assert "lgkmcnt could be 1" in found.what and "vmcnt could" not in found.what
    assert found.advice == "make it s_waitcnt vmcnt(0) lgkmcnt(1)"
    assert found.producer is not None and found.producer.text == "ds_read_b32 v2, v0"


@pytest.mark.parametrize(
    "use",
    [
        "\tv_mov_b32 v2, v3\n",  # overwritten by what does not come in order
        "\tds_read_b32 v2, v3\n",
        "\tglobal_store_dword v[10:11], v2, off\n",
        "\ts_barrier\n",
        "\tbuffer_inv sc1\n",
        "\tglobal_atomic_add v[10:11], v3, off\n",
        "",  # the end of the kernel
    ],
)
def test_what_needs_the_wait(use: str) -> None:
    assert strict(f"{_TWO}\ts_waitcnt vmcnt(0)\n{use}") == []


def test_a_load_over_a_load_comes_in_order() -> None:
    body = f"{_TWO}\ts_waitcnt vmcnt(0)\n\tv_mov_b32 v3, v1\n{_LOAD.format('v2')}"
    assert strict(f"{body}\ts_waitcnt vmcnt(0)\n\tv_mov_b32 v3, v2\n") == [
        ("s_waitcnt vmcnt(0)", 0, 1)
    ]


@pytest.mark.parametrize(
    "operation",
    [
        "\tglobal_store_dword v[10:11], v3, off\n",
        "\tglobal_atomic_add v5, v[10:11], v3, off sc0\n",
        "\ts_mov_b32 m0, 0\n\ts_nop 0\n\tbuffer_load_dword v3, s[4:7], 0 offen lds\n",
    ],
)
def test_what_orders_memory_is_not_judged(operation: str) -> None:
    wait = "\ts_waitcnt vmcnt(0)\n"
    assert strict(f"{operation}{wait}{wait}") == []


def test_lds_writes_and_what_goes_over_lds_that_is_read() -> None:
    wait = "\ts_waitcnt lgkmcnt(0)\n"
    again = f"{wait}\tv_mov_b32 v3, v1\n"
    assert strict(f"\tds_write_b32 v0, v1\n{wait}{wait}") == []
    dma = "\tbuffer_load_dword v3, s[4:7], 0 offen lds\n"
    assert strict(f"\tds_read_b32 v1, v0\n{wait}{dma}{again}") == []
    assert strict(f"\tds_read_b32 v1, v0\n{wait}\tv_mov_b32 v3, v4\n{again}") == [
        ("s_waitcnt lgkmcnt(0)", 0, None)
    ]


def test_scalar_loads_have_no_order() -> None:
    loads = "\ts_load_dword s2, s[0:1], 0x0\n\ts_load_dword s3, s[0:1], 0x4\n"
    use = "\ts_waitcnt lgkmcnt(0)\n\ts_mov_b32 s5, s3\n"
    assert strict(f"{loads}\ts_waitcnt lgkmcnt(0)\n\ts_mov_b32 s4, s2\n{use}") == []
    assert strict(f"{loads}\ts_waitcnt lgkmcnt(0)\n\ts_mov_b32 s4, s6\n{use}") == [
        ("s_waitcnt lgkmcnt(0)", 0, None)
    ]


def test_every_way_on_counts() -> None:
    """v2 is used where the branch goes, not where it does not."""
    head = f"{_TWO}\ts_waitcnt vmcnt(0)\n\tv_mov_b32 v3, v1\n\ts_cbranch_scc0 {{}}\n"
    tail = "\ts_waitcnt vmcnt(0)\nthere:\n\tv_mov_b32 v3, v2\n"
    assert strict(head.format("there") + tail) == []
    assert strict(head.format("here") + "\ts_nop 0\nhere:\n" + tail) == [
        ("s_waitcnt vmcnt(0)", 0, 1)
    ]


def test_the_youngest_on_any_way_in_counts() -> None:
    """On one way one load follows, on the other none: vmcnt(0) it has to be."""
    body = (
        f"{_LOAD.format('v1')}\ts_cbranch_scc0 here\n{_LOAD.format('v2')}here:\n"
        "\ts_waitcnt vmcnt(0)\n\tv_mov_b32 v3, v1\n"
    )
    assert strict(body) == []


def test_around_a_loop() -> None:
    """A load for the next round stays out over the back edge, and is used there."""
    body = f"head:\n\ts_waitcnt vmcnt(0)\n\tv_mov_b32 v3, v1\n{_LOAD.format('v1')}"
    back = "\ts_cbranch_scc0 head\n\ts_waitcnt vmcnt(0)\n"
    assert strict(f"{_LOAD.format('v1')}{body}{back}") == []
    assert strict(f"{_LOAD.format('v1')}{body}\ts_waitcnt vmcnt(0)\n{back}") == [
        ("s_waitcnt vmcnt(0)", 0, None)
    ]


def test_a_function_is_entered_with_anything_out() -> None:
    wait = "\ts_waitcnt vmcnt(0)\n"
    body = f"\ts_swappc_b64 s[30:31], s[2:3]\n{_LOAD.format('v1')}{wait}{wait}\tv_mov_b32 v3, v1\n"
    assert strict(body) == []


def test_a_soft_clause() -> None:
    """LLVM's checkSoftClauseHazards: one of a run writes what another reads, or a store follows."""
    writes = "\ts_load_dwordx2 s[2:3], s[0:1], 0x0\n\ts_load_dwordx2 s[0:1], s[0:1], 0x8\n"
    store = f"{_LOAD.format('v1')}\tglobal_store_dword v[10:11], v3, off\n"
    for target in ("gfx942:xnack+", "gfx942"):
        assert strict(writes, target) == [("s_load_dwordx2 s[0:1], s[0:1], 0x8", 0, 1)]
        assert strict(store, target) == [("global_store_dword v[10:11], v3, off", 0, 1)]
        assert strict(writes.replace("\n\ts_load", "\n\ts_nop 0\n\ts_load"), target) == []
        assert strict(_TWO, target) == []
        # A scalar load between two vector ones ends their run.
        assert (
            strict(store.replace("\n\tglobal_store", "\n\ts_memtime s[4:5]\n\tglobal_store")) == []
        )
    assert strict(writes, "gfx942:xnack-") == strict(store, "gfx942:xnack-") == []


def _with_counts(program: Program, counts: Mapping[int, tuple[int, int]]) -> Program:
    """The program with other counts in the s_waitcnts at some addresses (SIMM16: see the ISA)."""
    instructions = list(program.instructions)
    for at, item in enumerate(instructions):
        if item.address in counts:
            vm, lgkm = counts[item.address]
            simm = int.from_bytes(item.data[:2], "little") & 0x70
            simm |= vm & 15 | vm >> 4 << 14 | lgkm << 8
            data = simm.to_bytes(2, "little") + item.data[2:]
            instructions[at] = item._replace(data=data)
    return replace(program, graph=replace(program.graph, instructions=instructions))


@pytest.mark.slow
def test_what_is_advised_is_enough(corpus: list[Path], llvm: Llvm) -> None:
    """Kernels with every piece of advice followed have no wait finding that they did not have."""
    judged = 0
    for path in [path for path in corpus if re.search(r"gfx9[45]", str(path))][::18]:
        co = load(path)
        program = build_program(co, decode(co, llvm))
        found = [one for one in check_strict(program) if one.rule == "wait-strict"]
        judged += len(found)
        before = {(f.rule, f.place, f.producer) for f in check_waits(program)}
        for finding in found:
            named = dict(re.findall(r"(\w+)\((\d+)\)", finding.advice))
            counts = int(named.get("vmcnt", 63)), int(named.get("lgkmcnt", 15))
            after = check_waits(_with_counts(program, {finding.place.address: counts}))
            assert {(f.rule, f.place, f.producer) for f in after} <= before, (path, finding)
    assert judged > 50
