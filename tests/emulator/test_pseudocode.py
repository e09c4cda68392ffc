"""Every arithmetic row of the emulator against AMD's pseudo-code, run by ``pseudocode/``."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from coasm.emulator.rows.table import ROWS
from coasm.llvm import Llvm
from tests.emulator.pseudocode import scalar
from tests.emulator.pseudocode.batch import accepted, run_vector, wave_of
from tests.emulator.pseudocode.cases import DST, base_cases, more_cases
from tests.emulator.pseudocode.catalogue import CORRECTIONS, REPLACED, Entry, entries
from tests.emulator.pseudocode.compare import same
from tests.emulator.pseudocode.model import M64, Case, Mode, Result, execute

HERE = Path(__file__).parent
TARGETS = ("gfx942", "gfx950")
#: denormals of f32, of f16 and f64, IEEE, DX10_CLAMP: what clang sets, and three others.
MODES = (
    Mode(True, True, True, True),
    Mode(False, True, True, True),
    Mode(True, False, False, False),
    Mode(False, True, False, True),
)

#: Forms that LLVM's assembler takes and the emulator refuses, with the reason.
REFUSED = {
    "DPP that leaves out lanes of a carry": "what becomes of the carries is not written anywhere",
    "the operand src_scc": "a packed operation on SCC",
    "the modifier clamp of v_cvt_pk": "a clamp of bfloat16",
    "the modifier clamp of v_(div_scale|dot2c)": "a clamp of what is no plain float",
    "the modifier (mul|div):. of v_(div|cvt_pk)": "output modifiers of what is no plain float",
    "the modifier (mul|div):. of v_dot2c": "the same of a dot product",
    "a floating-point constant as packed numbers": "no manual says how it reaches a dot product",
    "op_sel of v_(pack|cvt_pk)": "a result of 32 bits has no half",
    "SDWA on v_pk_fmac": "a part of packed numbers",
    "op_sel of v_mad_[iu]32_[iu]16, operand 2": "an operand of 32 bits has no half",
}

#: Rows with a text that is no arithmetic, or none at all, and where they are run instead.
ELSEWHERE = {
    "s_nop s_sleep s_setprio s_inst_prefetch s_icache_inv s_dcache_inv s_dcache_wb "
    "s_dcache_inv_vol s_dcache_wb_vol s_incperflevel s_decperflevel s_ttracedata v_nop": "nothing",
    "s_getpc_b64 s_getreg_b32": "test_scalar.py",
    "s_movrels_b32 s_movrels_b64 s_movreld_b32 s_movreld_b64": "test_modes.py",
    "s_memtime s_memrealtime": "a clock",
    "v_mqsad_u32_u8": "test_bytes.py",
    "v_accvgpr_read_b32 v_accvgpr_write_b32 v_accvgpr_mov_b32": "test_constants.py",
    " ".join(
        name
        for name in ROWS
        if name[:6] == "v_cvt_" and re.search("fp8|bf8|fp6|bf6|fp4|_sr_", name)
    ): ("test_narrow.py"),
}


def _vector_rows() -> list[str]:
    # Conversions of 8 and 4 bits: the text names functions that it does not describe.
    others = ("mfma", "mqsad_u32", "fp8", "bf8", "fp6", "bf6", "fp4", "cvt_sr_")
    return [
        name
        for name in ROWS
        if name in entries() and name[:2] == "v_" and not any(part in name for part in others)
    ]


def _scalar_rows() -> list[str]:
    others = {"s_getpc_b64", "s_getreg_b32"}
    others |= {f"s_movrel{side}_{size}" for side in "sd" for size in ("b32", "b64")}
    return [name for name in ROWS if name in entries() and name[:2] == "s_" and name not in others]


def _expected_refusal(text: str) -> bool:
    return any(re.search(pattern, text) for pattern in REFUSED)


def _lanes(case: Case, executing: int, seed: int, all_lanes: bool) -> int:
    """The lanes that are compared: all, or some that execute and one of any kind."""
    if all_lanes or "lane" in case.mnemonic or "swap" in case.mnemonic:
        return M64
    draw = random.Random(f"{case.text} {seed}")
    active = [lane for lane in range(64) if executing >> lane & 1]
    chosen = draw.sample(active, min(6, len(active)))
    return sum(1 << lane for lane in chosen) | 1 << draw.randrange(64)


def _differences(
    case: Case, want: Result, got: tuple[list[int], int, int, list[int]], chosen: int
) -> str:
    lanes, mask, executing, swapped = got
    field = case.entry.fields.get("vdst")
    scalar_result = field is None or field.what in ("SREG", "SDST", "SREG_NOVCC")
    if field is not None and not scalar_result:
        for lane in range(64):
            if chosen >> lane & 1 and not same(case, field, lanes[lane], want, lane):
                return f"lane {lane}: {lanes[lane]:#x}, not {want.lanes[lane]:#x}"
    whole = M64 if "lane" in case.mnemonic else chosen
    if want.mask is not None and (want.mask ^ mask) & whole:
        return f"scalar result {mask:#x}, not {want.mask:#x} in {whole:#x}"
    if "swap" in case.mnemonic:
        expected = want.rows[case.sources[0].value]
        return "" if swapped == expected else "the swapped register"
    if (want.exec ^ executing) & chosen:
        return f"EXEC {executing:#x}, not {want.exec:#x} in {chosen:#x}"
    return ""


def _check(
    llvm: Llvm, cases: list[Case], seed: int, mode: Mode, target: str, all_lanes: bool
) -> set[str]:
    """Run the cases and compare; gives the rows that were executed."""
    cases = accepted(llvm, cases, target)
    wave = wave_of(seed, mode)
    seen = run_vector(llvm, cases, wave, target)
    wrong = [f"{cases[at].text}: {text}" for at, text in seen.refused.items()
             if not _expected_refusal(text)]  # fmt: skip
    for at, case in enumerate(cases):
        if at in seen.refused:
            continue
        chosen = _lanes(case, wave.exec, seed, all_lanes)
        want = execute(case, wave, DST, chosen)
        got = (
            [int(value) for value in seen.lanes[at]],
            seen.mask[at],
            seen.exec[at],
            [int(value) for value in seen.swapped[at]],
        )
        text = _differences(case, want, got, chosen)
        if text:
            wrong.append(f"{case.text}: {text}")
    assert not wrong, f"{len(wrong)} of {len(cases)} ({target}, {mode}):\n" + "\n".join(wrong[:20])
    return {case.mnemonic for at, case in enumerate(cases) if at not in seen.refused}


def _all(kind: str, seed: int) -> list[Case]:
    draw = random.Random(seed)
    found: list[Case] = []
    for name in _vector_rows():
        for entry in entries()[name]:
            found += base_cases(name, entry) if kind == "base" else more_cases(name, entry, draw)
    return found


def test_each_row_in_each_encoding(llvm: Llvm) -> None:
    """Vector registers as operands. Every row that the text describes is executed."""
    done: set[str] = set()
    cases = _all("base", 0)
    for seed, target in enumerate(TARGETS):
        some = cases if target == "gfx950" else random.Random(1).sample(cases, len(cases) // 2)
        done |= _check(llvm, some, 1 + seed, MODES[seed], target, False)
    assert done == set(_vector_rows())


@pytest.mark.parametrize("seed", range(4))
def test_constants_and_modifiers(llvm: Llvm, seed: int) -> None:
    """A sample of scalars, constants, source and output modifiers, op_sel, SDWA, DPP."""
    cases = random.Random(seed).sample(_all("more", seed), 900)
    _check(llvm, cases, 10 + seed, MODES[seed], TARGETS[seed % 2], False)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_more_constants_and_modifiers(llvm: Llvm, seed: int) -> None:
    cases = random.Random(100 + seed).sample(_all("more", 100 + seed), 1500)
    _check(llvm, cases, 20 + seed, MODES[3 - seed], TARGETS[seed % 2], False)


@pytest.mark.parametrize("target", TARGETS)
def test_scalar_rows(llvm: Llvm, target: str) -> None:
    draw = random.Random(target)
    cases = [
        case
        for name in _scalar_rows()
        for entry in entries()[name]
        for case in scalar.scalar_cases(name, entry, draw)
    ]
    cases = accepted(llvm, cases, target)
    assert {case.mnemonic for case in cases} == set(_scalar_rows())
    seen = scalar.run_scalar(llvm, cases, 7, target)
    wrong = []
    for case, rows in zip(cases, seen, strict=True):
        for state, got in zip(scalar.states(7), rows, strict=True):
            want = scalar.execute(case, state, MODES[0])
            if got != want:
                shown = [tuple(map(hex, part)) for part in (got, want)]
                wrong.append(f"{case.text}: {shown[0]}, not {shown[1]} from {state}")
                break
    assert not wrong, f"{len(wrong)} of {len(cases)}:\n" + "\n".join(wrong[:20])


def test_every_row_is_run() -> None:
    """A new row is described by the text and so run above, or is named, or is in another test."""
    named = {name for names in ELSEWHERE for name in names.split()}
    others = "\n".join(
        path.read_text(encoding="utf-8")
        for path in sorted(HERE.glob("test_*.py"))
        if path.name != Path(__file__).name
    )
    run = {*_vector_rows(), *_scalar_rows(), *named}
    missing = [
        name
        for name in ROWS
        if name[:2] in ("v_", "s_") and name not in run and name not in others
        and not name.startswith(("v_mfma", "v_smfmac", "s_load", "s_buffer_load", "s_store",
                                 "s_buffer_store"))
    ]  # fmt: skip
    assert not missing
    assert not named & set(_vector_rows())


def test_what_the_text_gets_wrong_is_named() -> None:
    """No correction without its row, or without a reason."""
    assert set(CORRECTIONS) | set(REPLACED) <= set(ROWS)
    assert all(why for several in CORRECTIONS.values() for _, _, why in several)
    assert all(why for _, why in REPLACED.values())


def _entry(name: str) -> Entry:
    return entries()[name][0]
