"""Mutants of real kernels that break a rule are found; a small part of ``benchmarks``."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from benchmarks.lint_mutants import (
    Chain,
    Op,
    judged,
    matrix,
    needs,
    op_of,
    rebuilt,
    state_mutants,
    wait_mutants,
)
from coasm.asm.code import Instruction
from coasm.codeobject import load
from coasm.llvm.find import Llvm

_SMALL = 40_000


@pytest.mark.parametrize(
    ("text", "is_950", "pipe", "passes"),
    [
        # SISchedule.td and VOP3PInstructions.td of LLVM; the CDNA4 ISA guide, table 38.
        ("v_mfma_f32_4x4x4_16b_f16 v[0:3], v[4:5], v[6:7], v[0:3]", False, "xdl", 2),
        ("v_mfma_f32_16x16x16_f16 v[0:3], v[4:5], v[6:7], v[0:3]", False, "xdl", 4),
        ("v_mfma_f32_16x16x32_bf16 v[0:3], v[4:7], v[8:11], v[0:3]", True, "xdl", 4),
        ("v_mfma_i32_16x16x4_4b_i8 v[0:15], v16, v17, v[0:15]", False, "xdl", 8),
        ("v_mfma_f32_32x32x16_fp8_bf8 v[0:15], v[16:17], v[18:19], v[0:15]", False, "xdl", 8),
        ("v_mfma_f32_32x32x4_2b_f16 v[0:31], v[32:33], v[34:35], v[0:31]", False, "xdl", 16),
        ("v_mfma_f32_16x16x128_f8f6f4 v[0:3], v[8:15], v[16:23], v[0:3]", True, "xdl", 8),
        (
            "v_mfma_f32_16x16x128_f8f6f4 v[0:3], v[8:11], v[16:19], v[0:3] cbsz:4 blgp:4",
            True,
            "xdl",
            4,
        ),
        (
            "v_mfma_scale_f32_32x32x64_f8f6f4 v[0:15], v[16:23], v[24:27], v[0:15], v32, v33 "
            "op_sel_hi:[0,0,0] blgp:4",
            True,
            "xdl",
            16,
        ),
        ("v_smfmac_f32_32x32x16_f16 v[0:15], v[16:17], v[18:21], v22", False, "xdl", 8),
        ("v_mfma_f32_4x4x1_16b_f32 v[0:3], v4, v5, v[0:3]", False, "sgemm", 2),
        ("v_mfma_f32_16x16x4_f32 v[0:3], v4, v5, v[0:3]", False, "sgemm", 8),
        ("v_mfma_f32_32x32x1_2b_f32 v[0:31], v32, v33, v[0:31]", False, "sgemm", 16),
        ("v_mfma_f64_4x4x4_4b_f64 v[0:1], v[2:3], v[4:5], v[0:1]", False, "dgemm4", 4),
        ("v_mfma_f64_16x16x4_f64 v[0:7], v[8:9], v[10:11], v[0:7]", False, "dgemm16", 8),
        ("v_mfma_f64_16x16x4_f64 v[0:7], v[8:9], v[10:11], v[0:7]", True, "dgemm16", 16),
    ],
)
def test_the_generator_knows_the_passes(text: str, is_950: bool, pipe: str, passes: int) -> None:
    assert matrix(op_of(text), is_950) == (pipe, passes)


_MFMA = "v_mfma_f32_16x16x16_f16 v[0:3], v[4:5], v[6:7], v[0:3]"


@pytest.mark.parametrize(
    ("one", "two", "found"),
    [
        # CDNA3 and CDNA4 ISA guides, tables 37 and 38: (gfx942, gfx950).
        (_MFMA, _MFMA, {}),
        (
            _MFMA,
            "v_mfma_f32_16x16x16_f16 v[8:11], v[0:1], v[6:7], v[8:11]",
            {"mfma-source": (7, 8)},
        ),
        (
            _MFMA,
            "v_mfma_f32_16x16x16_f16 v[2:5], v[8:9], v[6:7], v[2:5]",
            {"mfma-accumulator": (5, 6)},
        ),
        (_MFMA, "v_mov_b32_e32 v9, v3", {"mfma-read": (7, 8)}),
        (
            _MFMA,
            "v_mov_b32_e32 v3, v9",
            {"mfma-overwrite": (7, 8), "mfma-overwrite-c": (3, 3)},
        ),
        (_MFMA, "ds_write_b32 v9, v0", {"mfma-memory-read": (7, 8)}),
        # Table 11.
        ("v_rcp_f32_e32 v0, v1", "v_mul_f32_e32 v2, v0, v0", {"trans": (1, 1)}),
        ("v_mov_b32_e32 v0, v1", "v_readlane_b32 s0, v0, 3", {"valu-readlane": (1, 1)}),
        (
            "v_readfirstlane_b32 s4, v1",
            "buffer_load_dword v0, v1, s[4:7], 0 offen",
            {"valu-sgpr-vmem": (5, 5)},
        ),
        (
            "buffer_store_dwordx4 v[0:3], v4, s[0:3], 0 offen",
            "v_mov_b32_e32 v3, v4",
            {"wide-store": (2, 2)},
        ),
        ("s_mov_b32 m0, s0", "buffer_load_dword v0, s[0:3], 0 offen lds", {"m0-write": (1, 1)}),
    ],
)
def test_the_generator_knows_the_tables(
    one: str, two: str, found: dict[str, tuple[int, int]]
) -> None:
    for at in (0, 1):
        got = {need.rule: need.states for need in needs(op_of(one), op_of(two), bool(at))}
        assert got == {rule: states[at] for rule, states in found.items()}


def _chain(lines: list[tuple[str, int]]) -> Chain:
    code = [
        Instruction(0x100 + 8 * at, simm.to_bytes(2, "little") + b"\0\0", text)
        for at, (text, simm) in enumerate(lines)
    ]
    ops: list[Op] = [op_of(item.text) for item in code]
    return Chain(code, ops, frozenset())


def test_the_generator_breaks_a_state() -> None:
    """trans needs one state: the s_nop 0, which goes away; the s_nop 1 is one more than needed."""
    lines = [("v_rcp_f32_e32 v0, v1", 0), ("s_nop 0", 0), ("v_mul_f32_e32 v2, v0, v0", 0)]
    (mutant,) = state_mutants(_chain(lines), False, random.Random(0))
    assert mutant == ("s_nop shortened", "trans", 0x108, "", 0x100, 0x110)
    lines[1] = ("s_nop 1", 1)
    assert not list(state_mutants(_chain(lines), False, random.Random(0)))
    lines[1] = ("v_mov_b32_e32 v8, v9", 0)
    (mutant,) = state_mutants(_chain(lines), False, random.Random(0))
    assert mutant == ("instruction left out", "trans", 0x108, "", 0x100, 0x110)


def test_the_generator_breaks_a_wait() -> None:
    """Two loads; vmcnt(1) (SIMM16 0x0f71) covers the first alone."""
    lines = [
        ("global_load_dword v1, v[4:5], off", 0),
        ("global_load_dword v2, v[4:5], off", 0),
        ("s_waitcnt vmcnt(1)", 0x0F71),
        ("v_mov_b32_e32 v0, v1", 0),
    ]
    found = set(wait_mutants(_chain(lines), random.Random(0)))
    assert found == {
        ("wait weakened", "vmem-wait", 0x110, "s_waitcnt vmcnt(2)", 0x100, 0x118),
        ("operation left out", "vmem-wait", 0x108, "", 0x100, 0x118),
    }
    lines[3] = ("v_mov_b32_e32 v0, v2", 0)
    assert not list(wait_mutants(_chain(lines), random.Random(0)))


def test_mutants_of_kernels_are_caught(corpus: list[Path], llvm: Llvm) -> None:
    """150 mutants of three kernels, and three of them as listings that are assembled."""
    rng = random.Random(3)
    small = [
        path
        for path in corpus
        if path.stat().st_size < _SMALL and load(path).target.name in ("gfx942", "gfx950")
    ]
    caught = total = 0
    for path in rng.sample(small, 3):
        co = load(path)
        results, alarms = judged(co, llvm, rng, 50)
        assert not alarms, path
        total += len(results)
        caught += sum(one.level is not None for one in results)
        assert rebuilt(co, results[0].mutant) == results[0].level
    assert total >= 100 and caught >= 0.99 * total
