"""Every atomic row against a statement of the ISA guides on Python's and NumPy's numbers.

``old = MEM; MEM = f(old, data)`` lane after lane; the guides give ``f`` for each operation. LDS
compares with its first data operand, the others with the high half of theirs.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from coasm.emulator.errors import Fault
from coasm.emulator.rows.table import ROWS
from coasm.llvm import Llvm
from tests.emulator.bench import MODE, Bench

Number = Any


def _wrap(function: Callable[[int, int], int]) -> Callable[[Number, Number], Number]:
    def apply(old: Number, data: Number) -> Number:
        bits = 8 * old.itemsize
        value = function(int(old), int(data)) & ((1 << bits) - 1)
        return np.uint32(value) if bits == 32 else np.uint64(value)

    return apply


def _picked(better: Callable[[Number, Number], bool]) -> Callable[[Number, Number], Number]:
    return lambda old, data: data if better(data, old) else old


def _added(a: np.ndarray, b: np.ndarray, quiet: int) -> np.ndarray:
    """``a + b`` of one element; a NaN made quiet, the memory's first; AMD's default is positive."""
    unsigned = f"u{a.itemsize}"
    for value in (a, b):
        if np.isnan(value[0]):
            return (value.view(unsigned) | value.view(unsigned).dtype.type(quiet)).view(a.dtype)
    total = a + b
    return np.abs(total) if np.isnan(total[0]) else total


def _halves(dtype: Any, quiet: int) -> Callable[[Number, Number], Number]:
    def apply(old: Number, data: Number) -> Number:
        a, b = (np.array([v], np.uint32).view(np.uint16).view(dtype) for v in (old, data))
        parts = [_added(a[at : at + 1], b[at : at + 1], quiet) for at in (0, 1)]
        return np.concatenate(parts).view(np.uint32)[0]

    return apply


def _plus(old: Number, data: Number) -> Number:
    return _added(np.array([old]), np.array([data]), 1 << (22 if old.itemsize == 4 else 51))[0]


#: Operation → (the type its operands have: u, i, f, h, b; what it does).
OPERATIONS: dict[str, tuple[str, Callable[[Number, Number], Number]]] = {
    "add": ("u", _wrap(lambda old, data: old + data)),
    "sub": ("u", _wrap(lambda old, data: old - data)),
    "rsub": ("u", _wrap(lambda old, data: data - old)),
    "inc": ("u", _wrap(lambda old, data: 0 if old >= data else old + 1)),
    "dec": ("u", _wrap(lambda old, data: data if old == 0 or old > data else old - 1)),
    "umin": ("u", _picked(lambda data, old: data < old)),
    "umax": ("u", _picked(lambda data, old: data > old)),
    "smin": ("i", _picked(lambda data, old: data < old)),
    "smax": ("i", _picked(lambda data, old: data > old)),
    "and": ("u", _wrap(lambda old, data: old & data)),
    "or": ("u", _wrap(lambda old, data: old | data)),
    "xor": ("u", _wrap(lambda old, data: old ^ data)),
    "swap": ("u", lambda old, data: data),
    "fadd": ("f", _plus),
    "fmin": ("f", _picked(lambda data, old: data < old)),
    "fmax": ("f", _picked(lambda data, old: data > old)),
    "pk_add_f16": ("u", _halves(np.float16, 1 << 9)),
    "pk_add_bf16": ("u", _halves(ml_dtypes.bfloat16, 1 << 6)),
}


def _operation(name: str) -> tuple[str, int, bool, bool]:
    """(operation, bits, compare-and-swap, returns) of a row's name."""
    _, _, rest = name.partition("_")
    rest = rest.removeprefix("atomic_")
    returns = "_rtn" in rest
    rest = rest.replace("_rtn", "")
    bits = 64 if rest.endswith(("64", "_x2")) else 32
    if rest.startswith("pk_add"):
        return rest, 32, False, returns
    kind, _, dtype = rest.removesuffix("_x2").partition("_")
    if dtype.startswith("f"):
        kind = "f" + kind
    elif kind in ("min", "max"):
        kind = ("s" if dtype.startswith("i") else "u") + kind
    swap = kind in ("cmpswap", "cmpst")
    return {"wrxchg": "swap"}.get(kind, kind), bits, swap, returns


ATOMIC_ROWS = sorted(
    name for name in ROWS if ("_atomic_" in name and name[:2] != "s_")
    or ((name.startswith("ds_") and not name.startswith(("ds_read", "ds_write")))
    and name not in ("ds_bpermute_b32", "ds_permute_b32", "ds_swizzle_b32", "ds_nop")
    and not re.search("mskor|cmpst.*_f|wrap|wrxchg2|condxchg", name))  # test_lds_rows.py
)  # fmt: skip

_EDGES = {
    ("u", 32): [0, 1, 2, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFFFFFE, 5],
    ("u", 64): [0, 1, 2, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, 1 << 32, 5],
    # ±0, ±inf, NaNs of either kind, denormals, and ordinary numbers
    ("f", 32): [0, 1 << 31, 0x7F800000, 0xFF800000, 0x7FC00001, 0x7F800001, 1, 0x80000003,
                0x3F800000, 0xC0490FDB, 0x007FFFFF, 0x7F7FFFFF],
    ("f", 64): [0, 1 << 63, 0x7FF << 52, 0xFFF << 52, 0x7FF8 << 48 | 1, 0x7FF << 52 | 1, 1,
                1 << 63 | 3, 0x3FF << 52, 0xC00921FB54442D18, (1 << 52) - 1, (0x7FF << 52) - 1],
    ("h", 32): [0x80000000, 0x7C00FC00, 0xFC007C00, 0x7E01FE02, 0x00018001, 0x3C00C200, 0x04000400],
    ("b", 32): [0x80000000, 0x7F80FF80, 0xFF807F80, 0x7FC1FFC2, 0x00018001, 0x3F80C120, 0x00800080],
}  # fmt: skip


def _values(operation: str, bits: int, count: int, rng: np.random.Generator) -> np.ndarray:
    kind = {"pk_add_f16": "h", "pk_add_bf16": "b"}.get(operation, OPERATIONS[operation][0])
    edges = _EDGES["u" if kind == "i" else kind, bits]
    dtype = np.uint32 if bits == 32 else np.uint64
    random = rng.integers(0, 1 << bits, count, dtype=dtype)
    return np.where(
        rng.random(count) < 0.75, np.array(edges, dtype)[rng.integers(0, len(edges), count)], random
    )


def _line(name: str, swap: bool, wide: int, returns: bool) -> str:
    """The instruction: address in v[20:21], data from v8 on, the old value to v[40:41]."""

    def span(first: int, count: int) -> str:
        return f"v[{first}:{first + count - 1}]" if count > 1 else f"v{first}"

    data, old = span(8, wide * (2 if swap else 1)), span(40, wide)
    if name.startswith("ds"):
        data = span(8, wide) + (f", {span(10, wide)}" if swap else "")
        return f"{name} {old + ', ' if returns else ''}v20, {data}"
    sc0 = " sc0" if returns else ""
    if name.startswith("buffer"):
        return f"{name} {data}, v20, s[8:11], 0 offen{sc0}"
    off = ", off" if name.startswith("global") else ""
    return f"{name} {old + ', ' if returns else ''}v[20:21], {data}{off}{sc0}"


def _forms() -> dict[tuple[str, bool], str]:
    forms = {}
    for name in ATOMIC_ROWS:
        _, bits, swap, returns = _operation(name)
        for back in (returns,) if name.startswith("ds") else (False, True):
            forms[name, back] = _line(name, swap, bits // 32, back)
    return forms


@pytest.fixture(scope="module")
def bench(llvm: Llvm) -> Bench:
    return Bench(llvm, "gfx950", list(_forms().values()))


@pytest.mark.parametrize("name", ATOMIC_ROWS)
def test_an_atomic(name: str, bench: Bench) -> None:
    operation, bits, swap, _ = _operation(name)
    for (row, returns), line in _forms().items():
        if row == name:
            for seed in range(6):
                _check(bench, line, (operation, bits, swap, returns), seed)


def _check(bench: Bench, line: str, what: tuple[str, int, bool, bool], seed: int) -> None:
    operation, bits, swap, returns = what
    rng = np.random.default_rng(seed)
    size = bits // 8
    base = "swap" if swap else operation
    group = bench.wave()
    memory = bench.lds if line.startswith("ds") else bench.globals
    spread = rng.permutation(64) if seed % 2 else rng.integers(0, 8, 64)  # apart, or many on one
    on = np.ones(64, bool) if seed < 4 else rng.random(64) < 0.6
    before, data = (_values(base, bits, 64, rng) for _ in range(2))
    compare = np.where(rng.random(64) < 0.5, before[spread], _values(base, bits, 64, rng))
    memory[:] = 0xA5
    memory[256 : 256 + 64 * size] = before.view(np.uint8)
    group.d[63][...] = int(np.packbits(on, bitorder="little").view(np.uint64)[0])
    group.update_exec()
    address = (256 + spread * size).astype(np.uint64)
    if not line.startswith(("ds", "buffer")):
        address += np.uint64(bench.base)
    group.V[20, 0], group.V[21, 0] = address.astype(np.uint32), address >> np.uint64(32)
    group.d[4][...], group.d[5][...] = bench.base, 1 << 14 | 0x20000 << 32
    words = bits // 32
    first, second = (compare, data) if line.startswith("ds") and swap else (data, compare)
    for at in range(words):
        group.V[8 + at, 0] = first.view(np.uint32).reshape(64, -1)[:, at]
        place = 10 if line.startswith("ds") else 8 + words
        if swap:
            group.V[place + at, 0] = second.view(np.uint32).reshape(64, -1)[:, at]
    where = 8 if line.startswith("buffer") else 40
    kept = group.V[where : where + words, 0].copy()
    bench.run(line, group)

    after, old = before.copy(), np.zeros(64, before.dtype)
    kind, function = OPERATIONS[base]
    dtype = {"u": before.dtype, "i": np.dtype(f"i{size}"), "f": np.dtype(f"f{size}")}[kind]
    with np.errstate(all="ignore"):
        for lane in np.flatnonzero(on):
            cell = after[spread[lane] : spread[lane] + 1].view(dtype)
            old[lane] = after[spread[lane]]
            if not swap or old[lane] == compare[lane]:
                cell[0] = function(cell[0], data[lane : lane + 1].view(dtype)[0])
    assert memory[256 : 256 + 64 * size].view(before.dtype).tolist() == after.tolist()
    assert (memory[:256] == 0xA5).all() and (memory[256 + 64 * size :] == 0xA5).all()
    found = np.ascontiguousarray(group.V[where : where + words, 0].T).view(before.dtype)[:, 0]
    wanted = np.where(on, old, np.ascontiguousarray(kept.T).view(before.dtype)[:, 0])
    if returns:
        assert found.tolist() == wanted.tolist()
    else:
        assert (group.V[where : where + words, 0] == kept).all()


@pytest.mark.parametrize(
    ("line", "flushes"),
    [
        ("ds_add_f32 v20, v8", True),
        ("ds_add_f64 v20, v[8:9]", False),
        ("global_atomic_add_f32 v[20:21], v8, off", False),
        ("ds_pk_add_f16 v20, v8", None),
        ("ds_min_f64 v20, v[8:9]", None),
        ("ds_max_f32 v20, v8", None),
    ],
)
def test_denormals(line: str, flushes: bool | None, llvm: Llvm) -> None:
    """LDS adds float32 as the mode says, float64 without flushing, memory without flushing.

    Source: LLVM's handling of ``atomicrmw fadd`` and its feature
    memory-atomic-fadd-f32-denormal-support. What nothing is published about is refused.
    """
    bench = Bench(llvm, "gfx950", [line])
    group = bench.wave(MODE & ~0xF0)
    memory = bench.lds if line.startswith("ds") else bench.globals
    memory[:] = 0
    address = 0 if line.startswith("ds") else bench.base
    group.V[20], group.V[21] = address & 0xFFFF_FFFF, address >> 32
    group.V[8] = 3
    if flushes is None:
        with pytest.raises(Fault, match="denormals"):
            bench.run(line, group)
        return
    bench.run(line, group)
    assert int(memory.view(np.uint32)[0]) == (0 if flushes else 3 * 64)
