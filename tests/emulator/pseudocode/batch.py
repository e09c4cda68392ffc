"""Many instructions in one kernel: each starts from the same registers and stores what it left."""

from __future__ import annotations

import random
import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from coasm.emulator.engine.blocks import Blocks, nothing
from coasm.emulator.errors import Fault
from coasm.emulator.rows.context import Context
from coasm.emulator.rows.values import Step
from coasm.isa import Parsed
from coasm.llvm import Llvm
from tests.emulator.harness import assemble, run
from tests.emulator.pseudocode.cases import BANKS, DST, MASK_REGISTER, SCALAR_BANKS
from tests.emulator.pseudocode.model import M64, Case, Mode, Wave

__all__ = ["Observed", "accepted", "run_vector", "wave_of"]

_OLD = 8  # the pair that the destination starts from
_MARK = frozenset((48, 49))  # where EXEC is put behind each case
_SAVED = 60  # what a swap overwrites

_EDGES = {
    "f16": (0, 0x8000, 0x3C00, 0xBC00, 0x7C00, 0xFC00, 0x7E00, 0xFD01, 0x7C01, 0x0001, 0x83FF,
            0x0400, 0x7BFF, 0xFBFF, 0x3C01, 0x4248, 0x3800, 0xB801, 0x6400, 0x1400, 0x3BFF),
    "bf16": (0, 0x8000, 0x3F80, 0x7F80, 0xFF80, 0x7FC0, 0x7F81, 0x0001, 0x807F, 0x7F7F, 0x4049),
    "f32": (0, 0x80000000, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC12345,
            0x7FA00001, 1, 0x807FFFFF, 0x00800000, 0x80800001, 0x7F7FFFFF, 0xFF7FFFFF, 0x3F800001,
            0x40490FDB, 0xC0200000, 0x33800000, 0x4B800000, 0x4F000000, 0xCF000001, 0x5F800000,
            0x3F000000, 0x3EFFFFFF, 0x477FE000, 0x477FF000, 0x33000001, 0x387FE000, 0x7EFFFFFF),
    "f64": (0, 1 << 63, 0x3FF0000000000000, 0xBFF0000000000000, 0x7FF0000000000000,
            0xFFF0000000000000, 0x7FF8000000000000, 0x7FF0000000000001, 1, 0x800FFFFFFFFFFFFF,
            0x0010000000000000, 0x7FEFFFFFFFFFFFFF, 0x3FF0000000000001, 0x400921FB54442D18,
            0xC004000000000000, 0x3CA0000000000000, 0x4340000000000000, 0x41DFFFFFFFC00000,
            0x41EFFFFFFFE00000, 0xC1E0000000200000, 0x3FE0000000000000, 0x47EFFFFFF0000000,
            0x36A0000000000000, 0x3810000000000000),
    "i16": (0, 1, 2, 15, 16, 17, 0x7FFF, 0x8000, 0xFFFF, 0xFFFE, 0x00FF, 0x5555),
    "i32": (0, 1, 2, 3, 7, 31, 32, 33, 63, 64, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x10000,
            0x7FFFFF, 0x800000, 0xFFFFFF, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xDEADBEEF,
            0xFFFFFFFE, 0xFFFFFFFF, 0x0C0D0800, 0x03020100),
    "i64": (0, 1, 63, 0xFFFFFFFF, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1,
            0x123456789ABCDEF),
}  # fmt: skip


def _word(kind: str, draw: random.Random) -> int:
    """A 64-bit value for a register pair of a bank: edges more often than not."""
    if kind in ("f16", "bf16", "i16"):
        parts = [
            draw.choice(_EDGES[kind]) if draw.random() < 0.7 else draw.randrange(1 << 16)
            for _ in range(4)
        ]
        return sum(part << 16 * at for at, part in enumerate(parts))
    size = 32 if kind in ("f32", "i32") else 64
    value = 0
    for at in range(64 // size):
        if draw.random() < 0.6:
            part = draw.choice(_EDGES[kind])
        elif kind.startswith("f") and draw.random() < 0.5:
            # Of moderate size, so that sums and products round instead of vanishing.
            exponent = draw.randrange(-12, 12) + (127 if size == 32 else 1023)
            fraction = 23 if size == 32 else 52
            part = draw.randrange(2) << (size - 1) | exponent << fraction
            part |= draw.randrange(1 << fraction)
        else:
            part = draw.randrange(1 << size)
        value |= part << size * at
    return value


def wave_of(seed: int, mode: Mode) -> Wave:
    """A wave with edge values and random ones in all banks."""
    draw = random.Random(seed)
    vgprs: dict[int, list[int]] = {}

    def put(number: int, words: list[int]) -> None:
        vgprs[number] = [word & 0xFFFF_FFFF for word in words]
        vgprs[number + 1] = [word >> 32 for word in words]

    for kind, first in BANKS.items():
        columns = [[_word(kind, draw) for _ in range(64)] for _ in range(3)]
        for lane in range(64):
            if draw.random() < 0.15:
                columns[1][lane] = columns[0][lane]
            if draw.random() < 0.1:
                columns[2][lane] = columns[0][lane]
        for at, column in enumerate(columns):
            put(first + 2 * at, column)
    put(_OLD, [draw.randrange(1 << 64) for _ in range(64)])
    vgprs[DST], vgprs[DST + 1] = list(vgprs[_OLD]), list(vgprs[_OLD + 1])
    sgprs: dict[int, int] = {}
    for kind, first in SCALAR_BANKS.items():
        word = _word(kind, draw)
        sgprs[first], sgprs[first + 1] = word & 0xFFFF_FFFF, word >> 32
    sgprs[MASK_REGISTER] = draw.randrange(1 << 32)
    sgprs[MASK_REGISTER + 1] = draw.randrange(1 << 32)
    wave = Wave(vgprs, sgprs, mode)
    wave.vcc, wave.scc = draw.randrange(1 << 64), draw.randrange(2)
    wave.m0 = draw.choice((5, 63, 64, 0x12345))
    wave.exec = draw.choice((M64, draw.randrange(1, 1 << 64), 0xFFFF_0000_FFFF_0000, 1 << 40))
    return wave


class Observed:
    """What the emulator left, by instruction: destination, scalar pair, EXEC, swapped register.

    ``refused``: the instructions that it does not take, with its reasons.
    """

    def __init__(
        self, lanes: Any, mask: list[int], execs: list[int], swapped: Any, refused: dict[int, str]
    ) -> None:
        self.lanes, self.mask, self.exec, self.swapped = lanes, mask, execs, swapped
        self.refused = refused


def accepted(llvm: Llvm, cases: Sequence[Case], target: str) -> list[Case]:
    """Those of *cases* that LLVM assembles for *target*."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "cases.s")
        source.write_text("\n".join(case.text for case in cases) + "\n", encoding="ascii")
        command = [llvm.clang, "-target", "amdgcn-amd-amdhsa", f"-mcpu={target}", "-c",
                   "-x", "assembler", str(source), "-o", str(Path(folder, "out.o"))]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    wrong = {int(line) for line in re.findall(r"cases\.s:(\d+):\d+: error", done.stderr)}
    assert done.returncode == 0 or wrong, done.stderr[:2000]
    return [case for at, case in enumerate(cases, 1) if at not in wrong]


def _set64(name: str, value: int) -> Iterator[str]:
    low, high = ("vcc_lo", "vcc_hi") if name == "vcc" else ("exec_lo", "exec_hi")
    yield f"s_mov_b32 {low}, {value & 0xFFFF_FFFF:#x}"
    yield f"s_mov_b32 {high}, {value >> 32:#x}"


def _prologue(wave: Wave) -> Iterator[str]:
    yield "s_load_dwordx4 s[4:7], s[0:1], 0x0"
    yield "s_waitcnt lgkmcnt(0)"
    yield "v_lshlrev_b32 v1, 2, v0"
    yield "v_lshlrev_b32 v2, 4, v0"
    for number in sorted(set(wave.vgprs) - {DST, DST + 1}):
        yield f"global_load_dword v{number}, v1, s[4:5]"
        yield "s_add_u32 s4, s4, 0x100"
        yield "s_addc_u32 s5, s5, 0"
    for number, value in wave.sgprs.items():
        yield f"s_mov_b32 s{number}, {value:#x}"
    yield f"s_mov_b32 s24, {wave.vcc & 0xFFFF_FFFF:#x}"
    yield f"s_mov_b32 s25, {wave.vcc >> 32:#x}"
    yield f"s_mov_b32 s26, {wave.exec & 0xFFFF_FFFF:#x}"
    yield f"s_mov_b32 s27, {wave.exec >> 32:#x}"
    yield f"s_mov_b32 s28, {wave.scc}"
    yield f"s_mov_b32 m0, {wave.m0:#x}"
    yield "s_waitcnt vmcnt(0)"


def _around(case: Case) -> Iterator[str]:
    yield "s_mov_b64 exec, -1"
    yield f"v_mov_b32 v{DST}, v{_OLD}"
    yield f"v_mov_b32 v{DST + 1}, v{_OLD + 1}"
    swapped = case.sources[0].value if "swap" in case.mnemonic else None
    if swapped is not None:
        yield f"v_mov_b32 v{_SAVED}, v{swapped}"
    yield "s_mov_b64 s[30:31], 0"
    yield "s_mov_b64 vcc, s[24:25]"
    # Exchanges between lanes of which some are off are refused.
    yield "s_mov_b64 exec, s[26:27]" if "permlane" not in case.text else "s_mov_b64 exec, -1"
    yield "s_cmp_lg_u32 s28, 0"
    yield case.text
    yield "s_mov_b64 s[48:49], exec"
    yield "s_mov_b64 exec, -1"
    mask = "vcc" if " vcc," in case.text.split("//")[0] and "s[30:31]" not in case.text else "s30"
    low, high = ("vcc_lo", "vcc_hi") if mask == "vcc" else ("s30", "s31")
    yield f"v_mov_b32 v{DST + 2}, {low}"
    yield f"v_mov_b32 v{DST + 3}, {high}"
    yield f"global_store_dwordx4 v2, v[{DST}:{DST + 3}], s[6:7]"
    yield "v_mov_b32 v4, s48" if swapped is None else f"v_mov_b32 v4, v{swapped}"
    yield "v_mov_b32 v5, s49"
    yield "global_store_dwordx2 v2, v[4:5], s[6:7] offset:1024"
    if swapped is not None:
        yield f"v_mov_b32 v{swapped}, v{_SAVED}"
    yield "s_add_u32 s6, s6, 0x800"
    yield "s_addc_u32 s7, s7, 0"


@contextmanager
def _refusals() -> Iterator[dict[int, str]]:
    """What the emulator refuses, by address, is noted and passed over; ends of cases are -1."""
    found: dict[int, str] = {}
    prepare = Blocks.prepare

    def noting(self: Blocks, context: Context, parsed: Parsed) -> Step:
        try:
            made = prepare(self, context, parsed)
        except Fault as fault:
            found[context.address] = str(fault)
            return nothing
        if parsed.mnemonic == "s_mov_b64" and context.access.writes == _MARK:
            found[context.address] = ""
        return made

    Blocks.prepare = noting  # type: ignore[method-assign]
    try:
        yield found
    finally:
        Blocks.prepare = prepare  # type: ignore[method-assign]


def _refused(found: dict[int, str]) -> dict[int, str]:
    """The refusals by the number of their case."""
    refused: dict[int, str] = {}
    case = 0
    for address in sorted(found):
        if found[address]:
            refused[case] = found[address]
        else:
            case += 1
    return refused


def run_vector(llvm: Llvm, cases: Sequence[Case], wave: Wave, target: str) -> Observed:
    """Execute vector instructions on the emulator, each from the state of *wave*."""
    body = [*_prologue(wave)]
    for case in cases:
        body += _around(case)
    body.append("s_endpgm")
    mode = wave.mode
    directives = "\n".join(
        (
            f".amdhsa_float_denorm_mode_32 {3 * mode.denormal32}",
            f".amdhsa_float_denorm_mode_16_64 {3 * mode.denormal16}",
            f".amdhsa_ieee_mode {int(mode.ieee)}",
            f".amdhsa_dx10_clamp {int(mode.dx10)}",
        )
    )
    co = assemble(llvm, "\n".join(body), target, directives=directives)
    rows = [wave.vgprs[number] for number in sorted(set(wave.vgprs) - {DST, DST + 1})]
    out = np.zeros((len(cases), 512), np.uint32)
    with _refusals() as found:
        run(llvm, co, "k", [np.array(rows, np.uint32), out])
    first = out[:, :256].reshape(-1, 64, 4)
    lanes = first[..., 0].astype(np.uint64) | first[..., 1].astype(np.uint64) << np.uint64(32)
    masks = [int(row[0, 2]) | int(row[0, 3]) << 32 for row in first]
    second = out[:, 256:]
    execs = [int(row[0]) | int(row[1]) << 32 for row in second]
    return Observed(lanes, masks, execs, second[:, ::4], _refused(found))
