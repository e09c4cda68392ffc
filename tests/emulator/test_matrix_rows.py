"""Every matrix row on one wave, against sums over the lane formulas that AMD publishes.

Formulas and controls (CBSZ, ABID, BLGP, NEG): AMD matrix instruction calculator; CDNA3 and CDNA4
ISA guides, "Matrix Arithmetic Instructions". Values are such that every sum is exact.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest

from coasm.emulator.errors import Fault
from coasm.emulator.rows.table import ROWS
from coasm.isa.table import mnemonics
from coasm.llvm import Llvm
from coasm.target import processor
from tests.emulator.bench import Bench
from tests.emulator.forms import accepted, base_forms

#: gfx90a has the names of gfx908, and more.
TARGETS = ("gfx90a", "gfx942", "gfx950")
_NAME = re.compile(
    r"v_s?mfmac?_(scale_)?(f32|i32|f64)_(\d+)x\d+x(\d+)_?(?:(\d+)b_)?([a-z]\w*?)(?:_1k)?"
)
#: Of gfx90a, whose names do not say it: the products that have blocks, and how many. Source:
#: CDNA2 ISA guide, "Dense Matrix Multiply-Accumulate"; the calculator's tables.
_BLOCKS = {
    ("f64", 4, 4): 4, ("f32", 32, 1): 2, ("f32", 16, 1): 4, ("f32", 4, 1): 16,
    ("f16", 32, 4): 2, ("f16", 16, 4): 4, ("f16", 4, 4): 16,
    ("bf16_1k", 32, 4): 2, ("bf16_1k", 16, 4): 4, ("bf16_1k", 4, 4): 16,
    ("bf16", 32, 2): 2, ("bf16", 16, 2): 4, ("bf16", 4, 2): 16,
    ("i8", 32, 4): 2, ("i8", 16, 4): 4, ("i8", 4, 4): 16,
}  # fmt: skip
_F8F6F4 = (
    ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float6_e2m3fn,
    ml_dtypes.float6_e3m2fn, ml_dtypes.float4_e2m1fn,
)  # fmt: skip
MATRIX_ROWS = sorted(name for name in ROWS if name.startswith("v_mfma"))


class Shape(NamedTuple):
    """A product of ``blocks`` pairs of matrices, size x k and k x size."""

    out: str
    size: int
    k: int
    blocks: int
    types: tuple[Any, Any]


def shape_of(name: str, target: str) -> Shape:
    match = _NAME.fullmatch(name)
    assert match is not None, name
    _, out, size, k, blocks, form = match.groups()
    kinds: dict[str, Any] = {
        "f64": np.float64, "f32": np.float32, "xf32": np.float32, "f16": np.float16,
        "bf16": ml_dtypes.bfloat16,
        "i8": np.int8, "f8f6f4": _F8F6F4[0],
        "fp8": ml_dtypes.float8_e4m3fnuz if target == "gfx942" else ml_dtypes.float8_e4m3fn,
        "bf8": ml_dtypes.float8_e5m2fnuz if target == "gfx942" else ml_dtypes.float8_e5m2,
    }  # fmt: skip
    a, _, b = form.partition("_")
    if target == "gfx90a":
        key = form + "_1k" * name.endswith("_1k"), int(size), int(k)
        blocks = _BLOCKS.get(key, 1)
    return Shape(out, int(size), int(k), int(blocks or 1), (kinds[a], kinds[b or a]))


def places(shape: Shape, wide: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(block, row, k) of each [lane, item] of A; of B the row is its column."""
    per = shape.size * shape.k * shape.blocks // 64
    lane, item = np.indices((64, per))
    column = lane % shape.size
    block = lane // shape.size % shape.blocks
    group = lane // (shape.size * shape.blocks)
    k = per * group + item
    if wide:  # 8-bit elements of the f8f6f4 shapes: half of the items in each half of K
        half = per // 2
        k = item // half * (shape.k // 2) + half * group + item % half
    return block, column, k


def result_places(shape: Shape) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(block, row, column) of each [lane, item] of C and D."""
    if shape.size == 4:  # the blocks side by side; in f64 the rows, too
        lane, item = np.indices((64, 1 if shape.out == "f64" else 4))
        row = lane // 16 if shape.out == "f64" else item
        return lane // 4 % shape.blocks, row, lane % 4
    count = shape.size**2 // 64
    lane, item = np.indices((64, count * shape.blocks))
    block, item = item // count, item % count
    quarter = lane // shape.size
    if shape.out == "f64":
        return block, 4 * item + quarter, lane % shape.size
    rows_of_lanes = 64 // shape.size * 4
    return block, rows_of_lanes * (item // 4) + 4 * quarter + item % 4, lane % shape.size


def _registers(values: np.ndarray) -> np.ndarray:
    """[lane, item] of a type → uint32 [register, lane]."""
    raw = np.ascontiguousarray(values).view(np.uint8).reshape(64, -1)
    return np.ascontiguousarray(raw.view(np.uint32).T)


@pytest.fixture(scope="module", params=TARGETS)
def machine(request: pytest.FixtureRequest, llvm: Llvm) -> tuple[str, Bench, dict[str, str]]:
    target = request.param
    forms = base_forms(llvm, target, "v_mfma")
    lines = [f + tail for f in forms.values() for tail in ("", *_TAILS)]
    good = accepted(llvm, target, lines)
    return target, Bench(llvm, target, [line for line in lines if line in good]), forms


_TAILS = (
    *(f" blgp:{n}" for n in range(1, 8)),
    " cbsz:1", " cbsz:1 abid:1", " cbsz:2", " cbsz:2 abid:3", " cbsz:1 abid:1 blgp:3",
    " neg:[1,0,0]", " neg:[0,1,0]", " neg:[0,0,1]", " neg:[1,1,1]",
)  # fmt: skip


def _number(text: str, name: str) -> int:
    found = re.search(rf" {name}:(\d)", text)
    return int(found[1]) if found else 0


def _check(bench: Bench, line: str, shape: Shape, seed: int) -> None:
    rng = np.random.default_rng(seed)
    wide = "f8f6f4" in line
    # Random small integers, or one element of A alone.
    full = (shape.blocks, shape.size, shape.k)
    a, b = (rng.integers(-3, 4, full).astype(np.float64) for _ in range(2))
    if seed % 2:
        one = np.zeros_like(a)
        one[tuple(rng.integers(0, n) for n in full)] = 1
        a = one
    c = rng.integers(-9, 10, (shape.blocks, shape.size, shape.size)).astype(np.float64)
    at = places(shape, wide)
    out_at = result_places(shape)
    group = bench.wave()
    group.d[63][...] = 5  # no lane is left out, whatever EXEC is
    group.update_exec()
    kind = {"f32": np.float32, "i32": np.int32, "f64": np.float64}[shape.out]
    for first, values in (
        (8, _registers(a[at].astype(shape.types[0]))),
        (16, _registers(b[at].astype(shape.types[1]))),
        (96, _registers(c[out_at].astype(kind))),
    ):
        group.V[first : first + len(values), 0] = values
    group.V[24:26, 0] = 127  # scales of 1
    bench.run(line, group)
    lanes = np.arange(64)
    pattern = [
        lanes, lanes % 32, lanes % 32 + 32, (lanes + 16) % 64,
        *(lanes % 16 + 16 * n for n in range(4)),
    ][_number(line, "blgp")]  # fmt: skip
    permuted = np.zeros_like(b)
    if not wide and shape.out != "f64":
        permuted[at] = b[at][pattern]
        b = permuted
        cbsz, abid = _number(line, "cbsz"), _number(line, "abid")
        a = a[np.arange(shape.blocks) // 2**cbsz * 2**cbsz + abid]
    negative = re.search(r"neg:\[(\d),(\d),(\d)\]", line)
    sign = [-1 if negative and negative[n] == "1" else 1 for n in (1, 2, 3)]
    product = sign[0] * a @ (sign[1] * b).transpose(0, 2, 1) + sign[2] * c
    size = len(_registers(c[out_at].astype(kind)))
    found = group.V[64 : 64 + size, 0]
    assert (np.ascontiguousarray(found.T).view(kind) == product[out_at]).all()


def test_every_matrix_row(machine: tuple[str, Bench, dict[str, str]]) -> None:
    target, bench, forms = machine
    known = mnemonics(processor(target).family.instructions)
    assert set(forms) == known.intersection(MATRIX_ROWS)
    for name, form in forms.items():
        for seed in range(4):
            _check(bench, form, shape_of(name, target), seed)


def test_lane_patterns_broadcasts_and_negations(
    machine: tuple[str, Bench, dict[str, str]],
) -> None:
    """Where LLVM takes them and their meaning is published they count, else they are refused."""
    target, bench, forms = machine
    done = refused = 0
    for line in bench.addresses:
        name = line.split()[0]
        if line == forms[name] or "f8f6f4" in name:
            continue
        shape = shape_of(name, target)
        published = (
            "neg" in line if shape.out == "f64"
            else (
                shape.blocks > 1
                and _number(line, "cbsz") < shape.blocks.bit_length()
                and _number(line, "abid") < 1 << _number(line, "cbsz")
            )
            or (
                (name.endswith("_f32") or target == "gfx90a")
                and "blgp" in line and "cbsz" not in line
            )
        )  # fmt: skip
        if published:
            for seed in (0, 1):
                _check(bench, line, shape, seed)
            done += 1
        else:
            with pytest.raises(Fault, match=r"cbsz|abid|blgp|neg"):
                bench.run(line, bench.wave())
            refused += 1
    assert done > 50 and refused > 20


@pytest.mark.parametrize("shape", ["16x16x128", "32x32x64"])
def test_the_byte_of_a_register_of_scales(llvm: Llvm, shape: str) -> None:
    """op_sel has its low bit, op_sel_hi its high one; lane L scales part L // rows of its row."""
    size, k = int(shape[:2]), int(shape.split("x")[2])
    count = size * size // 64
    form = (
        f"v_mfma_scale_f32_{shape}_f8f6f4 v[64:{63 + count}], v[8:15], v[16:23], "
        f"v[96:{95 + count}], v24, v25"
    )
    bytes_of = [(0, 3), (1, 2), (2, 0), (3, 1)]
    lines = [
        f"{form} op_sel:[{a & 1},{b & 1},0] op_sel_hi:[{a >> 1},{b >> 1},0]" for a, b in bytes_of
    ]
    bench = Bench(llvm, "gfx950", lines)
    lane = np.arange(64)
    # Byte n of A's scales is 2^n in part 0 of a row, twice that in part 1, ...; of B 2^(4 n).
    part, step = lane // size, np.arange(4)[:, None]
    codes_a, codes_b = 127 + step + part, 127 + 4 * step + 0 * lane
    shift = 8 * step
    group = bench.wave()
    group.V[8:24, 0] = 0x38383838  # 1.0 in e4m3
    group.V[24, 0] = np.bitwise_or.reduce(codes_a << shift, axis=0)
    group.V[25, 0] = np.bitwise_or.reduce(codes_b << shift, axis=0)
    for line, (a, b) in zip(lines, bytes_of, strict=True):
        bench.run(line, group)
        want = 32 * (2.0 ** (k // 32) - 1) * 2.0 ** (a + 4 * b)
        assert (group.V[64 : 64 + count, 0].view(np.float32) == want).all(), line


# SMFMAC.

SPARSE_ROWS = sorted(name for name in ROWS if name.startswith("v_smfmac"))


def _smfmac(
    shape: Shape, a: np.ndarray, b: np.ndarray, index: np.ndarray, first: int
) -> np.ndarray:
    """The product by its definition: a lane's items meet the items of B that its index picks.

    *a* and *b* are [lane, item], *index* one number a lane, of which bits from *first* on count.
    """
    each = a.shape[1]
    full = np.zeros((shape.size, shape.k))
    columns = np.zeros((shape.k, shape.size))
    for lane in range(64):
        group = lane // shape.size
        # 32 bytes of B are two runs of 16 bytes, one in either half of k (rocjitsu, exec_smfmac).
        runs = len(b[lane]) * np.dtype(shape.types[1]).itemsize // 32 + 1
        for run, part in enumerate(np.split(b[lane], runs)):
            first_k = run * shape.k // runs + group * len(part)
            columns[first_k : first_k + len(part), lane % shape.size] = part
        for item in range(each):
            pick = int(index[lane]) >> first + 2 * item & 3
            full[lane % shape.size, 4 * ((group * each + item) // 2) + pick] += a[lane, item]
    return full @ columns


@pytest.fixture(scope="module", params=TARGETS[1:])
def sparse_machine(request: pytest.FixtureRequest, llvm: Llvm) -> tuple[str, Bench, dict[str, str]]:
    target = request.param
    forms = base_forms(llvm, target, "v_smfmac")
    lines = [f + tail for f in forms.values() for tail in ("", *_SETS)]
    good = accepted(llvm, target, lines)
    return target, Bench(llvm, target, [line for line in lines if line in good]), forms


_SETS = (" abid:1", " abid:3", " cbsz:1", " cbsz:1 abid:2")


def test_every_sparse_row(sparse_machine: tuple[str, Bench, dict[str, str]]) -> None:
    """ABID picks one of the index's sets where CBSZ is 0; a set that is not there is refused."""
    target, bench, forms = sparse_machine
    assert set(forms) == mnemonics(processor(target).family.instructions).intersection(SPARSE_ROWS)
    rng = np.random.default_rng(3)
    done = refused = 0
    for line in bench.addresses:
        shape = shape_of(line.split()[0], target)
        each = shape.size * shape.k // 2 // 64
        first = 0 if _number(line, "cbsz") else 2 * each * _number(line, "abid")
        if first + 2 * each > 32:
            with pytest.raises(Fault, match="has no set with abid"):
                bench.run(line, bench.wave())
            refused += 1
            continue
        a, b = (rng.integers(-3, 4, (64, n * each)).astype(np.float64) for n in (1, 2))
        pairs = np.array([0b0100, 0b1000, 0b1100, 0b1001, 0b1101, 0b1110], np.uint64)
        nibbles = rng.choice(pairs, (64, 8)) << np.arange(0, 32, 4).astype(np.uint64)
        index = np.bitwise_or.reduce(nibbles, axis=1).astype(np.uint32)
        c = rng.integers(-9, 10, (1, shape.size, shape.size)).astype(np.float64)
        at = result_places(shape)
        kind = {"f32": np.float32, "i32": np.int32}[shape.out]
        group = bench.wave()
        for register, values in (
            (8, _registers(a.astype(shape.types[0]))),
            (16, _registers(b.astype(shape.types[1]))),
            (64, _registers(c[at].astype(kind))),
        ):
            group.V[register : register + len(values), 0] = values
        group.V[24, 0] = index
        bench.run(line, group)
        want = _smfmac(shape, a, b, index, first)[None] + c
        size = shape.size**2 // 64
        found = np.ascontiguousarray(group.V[64 : 64 + size, 0].T).view(kind)
        assert (found == want[at]).all(), line
        done += 1
    assert done > 2 * len(forms) and refused > 5


def test_what_a_sparse_product_does_not_pick_is_not_there(
    sparse_machine: tuple[str, Bench, dict[str, str]],
) -> None:
    """An infinity or a NaN in B counts only where it is picked."""
    _, bench, forms = sparse_machine
    group = bench.wave()
    group.V[8:10, 0] = 0x3C003C00  # ones
    halves = np.array([np.nan, 1.0, 2.0, np.inf], np.float16).view(np.uint16).astype(np.uint32)
    low, high = halves[0] | halves[1] << 16, halves[2] | halves[3] << 16
    group.V[16:20, 0] = np.array([low, high, low, high])[:, None]
    group.V[24, 0] = 0x99999999  # the second and the third
    bench.run(forms["v_smfmac_f32_16x16x32_f16"], group)
    assert (group.V[64:68, 0].view(np.float32) == 8 * (1.0 + 2.0)).all()
