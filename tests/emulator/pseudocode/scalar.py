"""Scalar instructions: the same instructions in many waves, each with values of its own."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from coasm.llvm import Llvm
from tests.emulator.harness import assemble, run
from tests.emulator.pseudocode.catalogue import Entry, Field, text_of
from tests.emulator.pseudocode.evaluate import Environment
from tests.emulator.pseudocode.evaluate import run as evaluate
from tests.emulator.pseudocode.model import M64, Mode, Source, constant_image
from tests.emulator.pseudocode.values import Value, boolean

__all__ = ["ScalarCase", "ScalarState", "execute", "run_scalar", "scalar_cases", "states"]

WAVES = 12
_EXEC = (M64, 0, 1, 0x8000_0000_0000_0000, 0x0F0F_0000_1234_FFFF)
_EDGES = (0, 1, 2, 31, 32, 63, 64, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF, 1 << 32, (1 << 63) - 1,
          1 << 63, M64, 0x0010_0004, 0x0020_0000, 0x0040_0010, 0x007F_001F, 0x0001_003F,
          0x0000_0008)  # fmt: skip
_INTS = (0, 1, 5, 31, 33, 63, 64, -1, -16)
_FLOATS = (0.5, -1.0, 4.0, 0.15915494)
_LITERALS = (0x12345678, 0x92345678, 0x80000000, 0x0010_0004, 0x0040_0000)
#: Where a wave's values are: operands 0 and 1 (pairs), the destination's pair.
_OPERANDS, _DESTINATION = (32, 34), 36


class ScalarCase(NamedTuple):
    """One scalar instruction: as assembled, and its parts."""

    mnemonic: str
    entry: Entry
    text: str
    sources: tuple[Source, ...]
    simm16: int


class ScalarState(NamedTuple):
    """What a wave starts with: the operand pairs, the destination, SCC, EXEC."""

    operands: tuple[int, int]
    destination: int
    scc: int
    exec: int


def _spell(source: Source, field: Field) -> str:
    if source.kind == "s":
        return f"s[{source.value}:{source.value + 1}]" if field.bits == 64 else f"s{source.value}"
    if source.kind == "exec":
        return "exec" if field.bits == 64 else "exec_lo"
    return hex(source.value) if source.kind == "literal" else str(source.value)


def scalar_cases(mnemonic: str, entry: Entry, draw: random.Random) -> Iterator[ScalarCase]:
    """The instruction with registers, then with a constant as each source in turn."""
    names = [name for name in ("ssrc0", "ssrc1") if name in entry.fields]
    fields = [entry.fields[name] for name in names]
    plain = [Source("s", _OPERANDS[at]) for at in range(len(fields))]
    target = entry.fields.get("sdst")
    if entry.encoding == "SOPK":
        for value in (0, 1, 0x7FFF, 0x8000, 0xFFFF, 0x1234, draw.randrange(1 << 16)):
            yield ScalarCase(mnemonic, entry, f"{mnemonic} s{_DESTINATION}, {value:#x}", (), value)
        return
    variants = [plain]
    for at, field in enumerate(fields):
        choices = [Source("int", value) for value in draw.sample(_INTS, 4)]
        choices += [Source("float", value) for value in draw.sample(_FLOATS, 2)]
        choices += [Source("literal", value) for value in draw.sample(_LITERALS, 3)]
        choices += [Source("exec", 0), Source("s", _DESTINATION)]
        del field
        variants += [[*plain[:at], choice, *plain[at + 1 :]] for choice in choices]
    for sources in variants:
        words = [_spell(*pair) for pair in zip(sources, fields, strict=True)]
        if target is not None:
            words.insert(0, _spell(Source("s", _DESTINATION), target))
        yield ScalarCase(mnemonic, entry, f"{mnemonic} {', '.join(words)}", tuple(sources), 0)


def _value(draw: random.Random) -> int:
    if draw.random() < 0.6:
        return draw.choice(_EDGES) | draw.choice((0, 0, draw.choice(_EDGES) << 32 & M64))
    return draw.randrange(1 << 64) >> draw.choice((0, 0, 8, 32, 57))


def states(seed: int) -> list[ScalarState]:
    """What each wave starts with."""
    draw = random.Random(seed)
    found = []
    for at in range(WAVES):
        first = _value(draw)
        second = first if at % 7 == 3 else _value(draw)
        found.append(
            ScalarState((first, second), _value(draw), draw.randrange(2), _EXEC[at % len(_EXEC)])
        )
    return found


def _read(source: Source, field: Field, state: ScalarState) -> int:
    mask = (1 << field.bits) - 1
    if source.kind == "s":
        where = (*_OPERANDS, _DESTINATION).index(source.value)
        return (*state.operands, state.destination)[where] & mask
    if source.kind == "exec":
        return state.exec & mask
    if source.kind == "literal":
        high = field.format == "I64" and source.value >> 31
        return int(source.value) | (0xFFFF_FFFF << 32 if high else 0)
    image = constant_image(source.value, field)
    assert image is not None
    return image


def execute(case: ScalarCase, state: ScalarState, mode: Mode) -> tuple[int, int, int]:
    """(destination, SCC, EXEC) afterwards."""
    entry = case.entry
    target = entry.fields.get("sdst")
    mask = (1 << target.bits) - 1 if target is not None else M64
    names: dict[str, Any] = {
        "SCC": Value("b", 1, state.scc),
        "EXEC": Value("b", 64, state.exec),
        "D0": Value("b", 64, state.destination & mask),
        "WAVE_MODE": {"IEEE": boolean(mode.ieee)},
    }
    fields = [entry.fields[name] for name in ("ssrc0", "ssrc1") if name in entry.fields]
    for at, (source, field) in enumerate(zip(case.sources, fields, strict=True)):
        names[f"S{at}"] = Value("b", 64, _read(source, field, state))
    if entry.encoding == "SOPK":
        compare = "S1.i16" in entry.text or "S1.u16" in entry.text
        names["S0"] = names["D0"] if compare else Value("b", 64, case.simm16)
        names["S1"] = Value("b", 64, case.simm16)
    evaluate(entry.text, Environment(names, text_of))
    result = names["D0"].bits & mask | state.destination & ~mask & M64
    return result, names["SCC"].bits & 1, names["EXEC"].bits & M64


def _around(case: ScalarCase) -> Iterator[str]:
    yield "s_mov_b64 s[32:33], s[40:41]"
    yield "s_mov_b64 s[34:35], s[42:43]"
    yield "s_mov_b64 s[36:37], s[44:45]"
    yield "s_mov_b64 exec, s[48:49]"
    yield "s_cmp_lg_u32 s46, 0"
    yield case.text
    yield "s_cselect_b32 s38, 1, 0"
    yield "s_mov_b64 s[50:51], exec"
    yield "s_mov_b64 exec, 1"
    yield "v_mov_b32 v8, s36"
    yield "v_mov_b32 v9, s37"
    yield "v_mov_b32 v10, s50"
    yield "v_mov_b32 v11, s51"
    yield "v_mov_b32 v12, s38"
    yield "global_store_dwordx4 v2, v[8:11], s[6:7]"
    yield "global_store_dword v2, v12, s[6:7] offset:16"
    yield f"s_add_u32 s6, s6, {WAVES * 32}"
    yield "s_addc_u32 s7, s7, 0"


def run_scalar(
    llvm: Llvm, cases: Sequence[ScalarCase], seed: int, target: str
) -> list[list[tuple[int, int, int]]]:
    """(destination, SCC, EXEC) of each case and wave on the emulator."""
    words = [
        [part for whole in (*s.operands, s.destination, s.scc, s.exec, 0, 0, 0)
         for part in (whole & 0xFFFF_FFFF, whole >> 32)]
        for s in states(seed)
    ]  # fmt: skip
    body = [
        "s_lshl_b32 s20, s2, 6",
        "s_load_dwordx4 s[4:7], s[0:1], 0x0",
        "s_waitcnt lgkmcnt(0)",
        "s_add_u32 s4, s4, s20",
        "s_addc_u32 s5, s5, 0",
        "s_load_dwordx8 s[40:47], s[4:5], 0x0",
        "s_load_dwordx2 s[48:49], s[4:5], 0x20",
        "s_lshl_b32 s21, s2, 5",
        "v_mov_b32 v2, s21",
        "s_waitcnt lgkmcnt(0)",
    ]
    for case in cases:
        body += _around(case)
    body.append("s_endpgm")
    directives = ".amdhsa_system_sgpr_workgroup_id_x 1"
    co = assemble(llvm, "\n".join(body), target, directives=directives)
    out = np.zeros((len(cases), WAVES, 8), np.uint32)
    run(llvm, co, "k", [np.array(words, np.uint32), out], grid=(WAVES, 1, 1))
    return [
        [
            (int(row[0]) | int(row[1]) << 32, int(row[4]), int(row[2]) | int(row[3]) << 32)
            for row in case
        ]
        for case in out
    ]
