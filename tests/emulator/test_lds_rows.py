"""Operations of LDS with two operands, of two places, or at M0, by AMD's text of each, in Python.

The text: wheel tinygrad, ``amd/cdna/str_pcode.py``. Here it is written once more, lane after lane,
on Python's and NumPy's numbers.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from coasm.emulator.errors import Fault
from coasm.isa import M0
from coasm.llvm import Llvm
from tests.emulator.bench import MODE, Bench

M32, M64 = (1 << 32) - 1, (1 << 64) - 1
START = 64


def _equal(bits: int) -> Callable[[int, int], bool]:
    kind, dtype = (np.uint32, np.float32) if bits == 32 else (np.uint64, np.float64)

    def equal(a: int, b: int) -> bool:
        left, right = (np.array([v], kind).view(dtype)[0] for v in (a, b))
        return bool(left == right)

    return equal


def _cmpst(bits: int) -> Callable[[int, int, int], int]:
    equal = _equal(bits)
    return lambda old, first, second: second if equal(old, first) else old


#: Row, bits, whether it returns, and what becomes of the place, from the old value, DATA and DATA2.
ROWS = [
    ("ds_cmpst_f32", 32, False, _cmpst(32)),
    ("ds_cmpst_rtn_f32", 32, True, _cmpst(32)),
    ("ds_cmpst_f64", 64, False, _cmpst(64)),
    ("ds_cmpst_rtn_f64", 64, True, _cmpst(64)),
    ("ds_mskor_b32", 32, False, lambda old, first, second: old & ~first | second),
    ("ds_mskor_rtn_b32", 32, True, lambda old, first, second: old & ~first | second),
    ("ds_mskor_b64", 64, False, lambda old, first, second: old & ~first | second),
    ("ds_mskor_rtn_b64", 64, True, lambda old, first, second: old & ~first | second),
    (
        "ds_wrap_rtn_b32",
        32,
        True,
        lambda old, first, second: old - first if old >= first else old + second,
    ),
]


def _line(name: str, bits: int, returns: bool) -> str:
    first, second, old = ("v[8:9]", "v[10:11]", "v[40:41]") if bits == 64 else ("v8", "v10", "v40")
    return f"{name} {old + ', ' if returns else ''}v20, {first}, {second} offset:{START}"


OTHERS = [
    "ds_wrxchg2_rtn_b32 v[40:41], v20, v8, v10 offset0:3 offset1:80",
    "ds_wrxchg2_rtn_b64 v[40:43], v20, v[8:9], v[10:11] offset0:3 offset1:90",
    "ds_wrxchg2st64_rtn_b32 v[40:41], v20, v8, v10 offset0:1 offset1:3",
    "ds_wrxchg2st64_rtn_b64 v[40:43], v20, v[8:9], v[10:11] offset0:1 offset1:3",
    "ds_condxchg32_rtn_b64 v[40:41], v20, v[8:9] offset:8",
    "ds_read_addtid_b32 v40 offset:12",
    "ds_write_addtid_b32 v8 offset:12",
]
#: What is run here.
LDS_ROWS = {name for name, *_ in ROWS} | {line.split()[0] for line in OTHERS}


@pytest.fixture(scope="module")
def bench(llvm: Llvm) -> Bench:
    return Bench(llvm, "gfx950", [*(_line(*row[:3]) for row in ROWS), *OTHERS])


def _put(group: object, first: int, values: np.ndarray) -> None:
    words = values.view(np.uint32).reshape(64, -1)
    for at in range(words.shape[1]):
        group.V[first + at, 0] = words[:, at]  # type: ignore[attr-defined]


def _got(group: object, first: int, count: int) -> np.ndarray:
    return np.ascontiguousarray(group.V[first : first + count, 0].T)  # type: ignore[attr-defined]


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
@pytest.mark.parametrize("seed", range(4))
def test_two_operands(
    row: tuple[str, int, bool, Callable[[int, int, int], int]], seed: int, bench: Bench
) -> None:
    name, bits, returns, function = row
    dtype = np.uint32 if bits == 32 else np.uint64
    rng = np.random.default_rng(seed)
    top = bits - 1
    edges = [0, 1 << top, 1, 5, (1 << bits) - 1, 0x7FC0_0001, 0x7FF8 << 48 & (1 << bits) - 1]
    before, first, second = (
        np.where(rng.random(64) < 0.6, rng.choice(np.array(edges, dtype), 64),
                 rng.integers(0, 1 << bits, 64, dtype=dtype))
        for _ in range(3)
    )  # fmt: skip
    spread = rng.permutation(64) if seed % 2 else rng.integers(0, 8, 64)
    first = np.where(rng.random(64) < 0.4, before[spread], first)
    on = rng.random(64) < (0.6 if seed > 1 else 2)
    size = bits // 8
    group = bench.wave()
    bench.lds[:] = 0xA5
    bench.lds[START : START + 64 * size] = before.view(np.uint8)
    group.d[63][...] = int(np.packbits(on, bitorder="little").view(np.uint64)[0])
    group.update_exec()
    group.V[20, 0] = (spread * size).astype(np.uint32)
    _put(group, 8, first)
    _put(group, 10, second)
    kept = _got(group, 40, size // 4)
    bench.run(_line(name, bits, returns), group)
    after, old = [int(v) for v in before], [0] * 64
    for lane in np.flatnonzero(on):
        old[lane] = after[spread[lane]]
        value = function(old[lane], int(first[lane]), int(second[lane]))
        after[spread[lane]] = value & ((1 << bits) - 1)
    assert bench.lds[START : START + 64 * size].view(dtype).tolist() == after
    assert (bench.lds[:START] == 0xA5).all() and (bench.lds[START + 64 * size :] == 0xA5).all()
    found = _got(group, 40, size // 4).view(dtype)[:, 0]
    for lane in range(64):
        if returns and on[lane]:
            assert int(found[lane]) == old[lane]
        else:
            assert found[lane] == kept.view(dtype)[lane, 0]


@pytest.mark.parametrize("line", OTHERS[:4])
def test_two_places(line: str, bench: Bench) -> None:
    size = 8 if "_b64 " in line else 4
    scale = 64 * size if "st64" in line else size
    dtype = np.uint64 if size == 8 else np.uint32
    offsets = [int(part.partition(":")[2]) * scale for part in line.split()[-2:]]
    rng = np.random.default_rng(1)
    for on in (np.ones(64, bool), rng.random(64) < 0.5):
        group = bench.wave()
        group.d[63][...] = int(np.packbits(on, bitorder="little").view(np.uint64)[0])
        group.update_exec()
        bench.lds[:] = rng.integers(0, 256, len(bench.lds), dtype=np.uint8)
        memory = bench.lds.copy().view(dtype)
        where = rng.permutation(64) * size
        first, second = (rng.integers(0, 1 << 8 * size, 64, dtype=dtype) for _ in range(2))
        group.V[20, 0] = where.astype(np.uint32)
        _put(group, 8, first)
        _put(group, 10, second)
        bench.run(line, group)
        found = _got(group, 40, size // 2).view(dtype)
        for lane in np.flatnonzero(on):
            one, two = ((where[lane] + offset) // size for offset in offsets)
            assert found[lane].tolist() == [int(memory[one]), int(memory[two])]
            memory[one], memory[two] = first[lane], second[lane]
        assert bench.lds.view(dtype).tolist() == memory.tolist()
    group = bench.wave()
    with pytest.raises(Fault, match="two lanes exchange one place"):
        bench.run(line, group)


def test_exchange_by_the_highest_bits(bench: Bench) -> None:
    """The three lowest bits of the address do not count."""
    line = OTHERS[4]
    rng = np.random.default_rng(2)
    group = bench.wave()
    bench.lds[:] = rng.integers(0, 256, len(bench.lds), dtype=np.uint8)
    memory = [int(v) for v in bench.lds.copy().view(np.uint32)]
    where = rng.integers(0, 20, 64) * 8 + rng.integers(0, 8, 64)
    data = rng.integers(0, 1 << 64, 64, dtype=np.uint64)
    group.V[20, 0] = where.astype(np.uint32)
    _put(group, 8, data)
    bench.run(line, group)
    found = _got(group, 40, 2)
    for lane in range(64):
        at = (int(where[lane]) + 8 & 0xFFF8) // 4
        assert found[lane].tolist() == memory[at : at + 2]
        for half in (0, 1):
            word = int(data[lane]) >> 32 * half & M32
            if word >> 31:
                memory[at + half] = word & 0x7FFF_FFFF
    assert bench.lds.view(np.uint32).tolist() == memory


def test_places_by_the_lane(bench: Bench) -> None:
    """M0[15:0] and the offset, and four bytes a lane."""
    rng = np.random.default_rng(3)
    group = bench.wave()
    bench.lds[:] = rng.integers(0, 256, len(bench.lds), dtype=np.uint8)
    memory = bench.lds.copy().view(np.uint32)
    on = rng.random(64) < 0.5
    group.su[M0][...] = 0x7_0100
    group.d[63][...] = int(np.packbits(on, bitorder="little").view(np.uint64)[0])
    group.update_exec()
    bench.run(OTHERS[5], group)
    start = (0x100 + 12) // 4
    expected = np.where(on, memory[start : start + 64], 0)
    assert group.V[40, 0].tolist() == expected.tolist()
    data = rng.integers(0, 1 << 32, 64, dtype=np.uint32)
    _put(group, 8, data)
    bench.run(OTHERS[6], group)
    memory[start : start + 64][on] = data[on]
    assert bench.lds.view(np.uint32).tolist() == memory.tolist()


def test_denormals_of_a_float_comparison(bench: Bench) -> None:
    """What nothing is published about is refused."""
    with pytest.raises(Fault, match="denormals"):
        bench.run(_line("ds_cmpst_f32", 32, False), bench.wave(MODE & ~0xF0))
