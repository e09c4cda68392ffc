"""Every load, store and lane exchange against what its bytes are by the ISA guides' definitions.

``MEMORY_ROWS`` are the rows that this module executes; no memory row is in none of the modules.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

from coasm.emulator.errors import Fault
from coasm.emulator.rows.table import ROWS
from coasm.emulator.state.spaces import PRIVATE_APERTURE, SHARED_APERTURE
from coasm.emulator.state.waves import Group
from coasm.llvm import Llvm
from tests.emulator.bench import GLOBAL, LDS, SCRATCH, Bench
from tests.emulator.test_atomics import ATOMIC_ROWS
from tests.emulator.test_lds_rows import LDS_ROWS

#: What moves: (bytes, signed, the half of the register: 0 whole, 1 low, 2 high).
_TYPES = {
    "ubyte": (1, False, 0), "sbyte": (1, True, 0), "ushort": (2, False, 0), "sshort": (2, True, 0),
    "ubyte_d16": (1, False, 1), "ubyte_d16_hi": (1, False, 2),
    "sbyte_d16": (1, True, 1), "sbyte_d16_hi": (1, True, 2),
    "short_d16": (2, False, 1), "short_d16_hi": (2, False, 2),
    "byte": (1, False, 0), "short": (2, False, 0), "byte_d16_hi": (1, False, 2),
    "dword": (4, False, 0), "dwordx2": (8, False, 0), "dwordx3": (12, False, 0),
    "dwordx4": (16, False, 0), "dwordx8": (32, False, 0), "dwordx16": (64, False, 0),
    "u8": (1, False, 0), "i8": (1, True, 0), "u16": (2, False, 0), "i16": (2, True, 0),
    "u8_d16": (1, False, 1), "u8_d16_hi": (1, False, 2),
    "i8_d16": (1, True, 1), "i8_d16_hi": (1, True, 2),
    "u16_d16": (2, False, 1), "u16_d16_hi": (2, False, 2),
    "b8": (1, False, 0), "b16": (2, False, 0), "b8_d16_hi": (1, False, 2),
    "b16_d16_hi": (2, False, 2),
    "b32": (4, False, 0), "b64": (8, False, 0), "b96": (12, False, 0), "b128": (16, False, 0),
}  # fmt: skip
_ROW = re.compile(
    r"(ds|global|flat|scratch|buffer|s|s_buffer)_(load|store|read|write)(2|2st64|_lds)?_"
    r"(?!b\d+_tr_|addtid)(\w+)"  # test_narrow.py, test_lds_rows.py
)
_EXCHANGES = ("ds_bpermute_b32", "ds_permute_b32", "ds_swizzle_b32")
MEMORY_ROWS = sorted(name for name in ROWS if _ROW.fullmatch(name)) + list(_EXCHANGES)


def test_no_memory_row_goes_untested() -> None:
    names = re.compile(r"(ds|global|flat|scratch|buffer|s_load|s_buffer)_")
    rows = {name for name in ROWS if names.match(name)}
    caches = {"buffer_inv", "buffer_wbl2"}  # nothing happens
    transposing = {name for name in rows if "_tr_b" in name}
    assert rows == {*MEMORY_ROWS, *ATOMIC_ROWS, *LDS_ROWS, "ds_nop"} | caches | transposing


def _span(file: str, first: int, count: int) -> str:
    return f"{file}{first}" if count == 1 else f"{file}[{first}:{first + count - 1}]"


def _line(name: str) -> str:
    """The row's instruction: address in v[20:21], data from v8 on, results from v40 on."""
    if name == "ds_swizzle_b32":
        return f"{name} v40, v8 offset:0x4d1a"
    if name in _EXCHANGES:
        return f"{name} v40, v20, v8 offset:8"
    match = _ROW.fullmatch(name)
    assert match is not None
    space, way, many, dtype = match.groups()
    size = _TYPES[dtype][0]
    count = max(1, size // 4) * (2 if many in ("2", "2st64") and way == "read" else 1)
    data = _span("v", 8 if way in ("store", "write") else 40, count)
    if space in ("s", "s_buffer"):
        base = "s[4:5]" if space == "s" else "s[8:11]"
        return f"{name} {_span('s', 32, count)}, {base}, 0x14"
    if space == "ds":
        if way == "read":
            return f"{name} {data}, v20 " + ("offset0:3 offset1:1" if many else "offset:16")
        second = f", {_span('v', 12, count)}" if many else ""
        return f"{name} v20, {data}{second} " + ("offset0:3 offset1:1" if many else "offset:16")
    if space == "buffer":
        return f"{name} {data}, v20, s[8:11], s12 offen offset:16"
    if many == "_lds":
        return f"{name} v[20:21], off offset:16"
    address = {"global": "v20, {}, s[4:5]", "flat": "v[20:21], {}", "scratch": "v20, {}, off"}
    text = address[space].format(data)
    if way == "load":
        first, _, rest = text.partition(", ")
        text = f"{data}, {first}{rest.removeprefix(data)}"
    return f"{name} {text} offset:16"


@pytest.fixture(scope="module")
def bench(llvm: Llvm) -> Bench:
    return Bench(llvm, "gfx950", [_line(name) for name in MEMORY_ROWS])


def _loaded(raw: bytes, signed: bool, half: int, old: list[int]) -> list[int]:
    """Registers after a load of these bytes into registers that held *old*."""
    if len(raw) >= 4:
        return [int.from_bytes(raw[at : at + 4], "little") for at in range(0, len(raw), 4)]
    value = int.from_bytes(raw, "little", signed=signed)
    if half == 0:
        return [value & 0xFFFF_FFFF]
    low, high = old[0] & 0xFFFF, old[0] >> 16
    return [high << 16 | value & 0xFFFF if half == 1 else (value & 0xFFFF) << 16 | low]


class _Place:
    """The bytes of a space, as one lane sees them."""

    def __init__(self, bench: Bench, space: str) -> None:
        self.bytes = {"ds": bench.lds, "scratch": bench.scratch}.get(space, bench.globals)
        self.private = space == "scratch"

    def at(self, lane: int, address: int, size: int) -> list[int]:
        """Where the bytes are; of private memory the dwords of all lanes alternate."""
        where = range(address, address + size)
        if self.private:
            return [a // 4 * 256 + lane * 4 + a % 4 for a in where]
        return list(where)


def _prepare(bench: Bench, name: str, rng: np.random.Generator) -> tuple[Group, np.ndarray]:
    """(the group, the lanes' addresses without offsets)"""
    group = bench.wave()
    group.V[:, 0] = rng.integers(0, 1 << 32, group.V[:, 0].shape, dtype=np.uint32)
    for memory in (bench.globals, bench.lds, bench.scratch):
        memory[:] = rng.integers(0, 256, memory.size, dtype=np.uint8)
    room = {"ds": LDS - 1024, "scratch": SCRATCH - 64}.get(name.split("_")[0], GLOBAL - 256)
    address = rng.permutation(room // 64)[:64] * 64 if room >= 4096 else rng.integers(0, 7, 64) * 32
    address = address + rng.integers(0, 4, 64) * (0 if "2" in name else 4)
    if "2st64" in name:
        address = rng.permutation(64) * (4 if "b32" in name else 8)
    on = rng.random(64) < 0.7
    group.d[63][...] = int(np.packbits(on, bitorder="little").view(np.uint64)[0])
    group.update_exec()
    value = address.astype(np.uint64)
    if name.startswith(("flat", "global_load_lds")):
        value = value + np.uint64(bench.base)
    group.V[20, 0], group.V[21, 0] = value.astype(np.uint32), value >> np.uint64(32)
    group.d[2][...] = bench.base
    group.d[4][...], group.d[5][...] = bench.base, GLOBAL | 0x20000 << 32
    group.su[12][...], group.su[124][...] = 32, 64
    return group, address


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", [n for n in MEMORY_ROWS if n not in _EXCHANGES])
def test_a_load_or_store(name: str, seed: int, bench: Bench) -> None:
    match = _ROW.fullmatch(name)
    assert match is not None
    space, way, many, dtype = match.groups()
    size, signed, half = _TYPES[dtype]
    rng = np.random.default_rng(seed)
    group, address = _prepare(bench, name, rng)
    place = _Place(bench, space)
    before = group.V[:, 0].copy()
    memory, registers, lds = place.bytes.copy(), before.copy(), bench.lds.copy()
    on = [lane for lane in range(64) if int(group.d[63][0]) >> lane & 1]
    if space in ("s", "s_buffer"):
        bench.run(_line(name), group)
        raw = memory[0x14 : 0x14 + size].tobytes()
        assert [int(group.su[32 + n][0]) for n in range(size // 4)] == _loaded(raw, False, 0, [])
        return
    offset = 16 + (32 if space == "buffer" else 0)
    offsets = [size * scale * n for n in (3, 1) for scale in [64 if many == "2st64" else 1]]
    for lane in on:
        starts = [int(address[lane]) + o for o in (offsets if many in ("2", "2st64") else [offset])]
        for which, start in enumerate(starts):
            where = place.at(lane, start, size)
            words = max(1, size // 4)
            if many == "_lds":
                old = memory[where].tobytes()
                value = int.from_bytes(old, "little", signed=signed) % (1 << 8 * max(size, 4))
                target = 64 + 16 + lane * (16 if size > 4 else 4)  # M0, the offset, a slot a lane
                lds[target : target + max(size, 4)] = list(value.to_bytes(max(size, 4), "little"))
            elif way in ("load", "read"):
                first = 40 + which * words
                old_values = [int(v) for v in before[first : first + words, lane]]
                raw = memory[where].tobytes()
                registers[first : first + words, lane] = _loaded(raw, signed, half, old_values)
            else:
                first = 12 if which else 8
                data = before[first : first + words, lane].astype("<u4").tobytes()
                memory[where] = list(data[2 if half == 2 else 0 :][:size])
    bench.run(_line(name), group)
    assert (group.V[:, 0] == registers).all()
    if many == "_lds":
        assert (bench.lds == lds).all()
    assert (place.bytes == memory).all()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", _EXCHANGES)
def test_lanes_exchange(name: str, seed: int, bench: Bench) -> None:
    """What a lane that is switched off gives is 0; of ``permute`` the last writer counts."""
    rng = np.random.default_rng(seed)
    group, _ = _prepare(bench, name, rng)
    index = rng.integers(0, 1 << 32, 64, dtype=np.uint32)
    group.V[20, 0] = index
    on = np.array([bool(int(group.d[63][0]) >> lane & 1) for lane in range(64)])
    data, wanted = group.V[8, 0].copy(), group.V[40, 0].copy()
    given = np.where(on, data, 0)
    lanes = [(int(value) + 8 & 0xFFFF_FFFF) // 4 % 64 for value in index]
    sent = np.zeros(64, np.uint32)
    for lane in np.flatnonzero(on):
        sent[lanes[lane]] = data[lane]
    for lane in np.flatnonzero(on):
        if name == "ds_swizzle_b32":  # 0x4d1a: and 0x1a, or 0x08, xor 0x13, within 32 lanes
            wanted[lane] = given[lane & 32 | ((lane & 0x1A | 0x08) ^ 0x13)]
        else:
            wanted[lane] = given[lanes[lane]] if name == "ds_bpermute_b32" else sent[lane]
    bench.run(_line(name), group)
    assert (group.V[40, 0] == wanted).all()


_FLAT = (
    "flat_load_dword v40, v[20:21]",
    "flat_store_dwordx2 v[20:21], v[8:9]",
    "flat_atomic_add v40, v[20:21], v8 sc0",
    "flat_atomic_add_x2 v[20:21], v[8:9]",
)


def _mixed(bench: Bench) -> tuple[Group, list[tuple[np.ndarray, list[int]]]]:
    """A wave whose lanes go to global memory, LDS and their private memory in turn; the 8 bytes
    of each lane as (memory, places)."""
    group, _ = _prepare(bench, "flat", np.random.default_rng(3))
    group.d[63][...] = 0xFFFF_FFFF_FFFF_FFFF
    group.update_exec()
    bases = (bench.base, SHARED_APERTURE << 32, PRIVATE_APERTURE << 32)
    memories = (bench.globals, bench.lds, bench.scratch)
    found = []
    for lane in range(64):
        address = bases[lane % 3] + 8 * (lane // 3)
        group.V[20, 0, lane], group.V[21, 0, lane] = address & 0xFFFF_FFFF, address >> 32
        where = list(range(8 * (lane // 3), 8 * (lane // 3) + 8))
        if lane % 3 == 2:
            where = [a // 4 * 256 + lane * 4 + a % 4 for a in where]
        found.append((memories[lane % 3], where))
    return group, found


def test_the_lanes_of_a_flat_access_go_where_their_addresses_are(llvm: Llvm) -> None:
    bench = Bench(llvm, "gfx942", _FLAT)
    for line in _FLAT[:3]:
        group, places = _mixed(bench)
        before = [int.from_bytes(memory[at].tobytes(), "little") for memory, at in places]
        data = group.V[8, 0].astype(np.uint64) | group.V[9, 0].astype(np.uint64) << np.uint64(32)
        bench.run(line, group)
        after = [int.from_bytes(memory[at].tobytes(), "little") for memory, at in places]
        low = [value & 0xFFFF_FFFF for value in before]
        if "store" in line:
            assert after == data.tolist()
            continue
        assert group.V[40, 0].tolist() == low
        if "load" in line:
            assert after == before
        else:
            sums = [(a + int(b)) & 0xFFFF_FFFF for a, b in zip(low, group.V[8, 0], strict=True)]
            assert [value & 0xFFFF_FFFF for value in after] == sums


def test_a_wide_atomic_with_a_private_lane_changes_nothing(llvm: Llvm) -> None:
    bench = Bench(llvm, "gfx942", _FLAT)
    group, places = _mixed(bench)
    before = [memory[at].tobytes() for memory, at in places]
    with pytest.raises(Fault, match="64-bit atomic on scratch"):
        bench.run(_FLAT[3], group)
    assert [memory[at].tobytes() for memory, at in places] == before
