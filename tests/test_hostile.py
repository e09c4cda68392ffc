"""Damaged and hostile input: each object is taken exactly, or refused with one clear line.

Objects are mutated from a seed, so a failure can be repeated: its message names object and seed.
"""

from __future__ import annotations

import random
import struct
import time
from pathlib import Path

import pytest

from coasm.codeobject import CodeObject, load
from coasm.descriptor import directives
from coasm.errors import CoasmError
from coasm.llvm.find import Llvm
from coasm.notes import to_yaml
from coasm.trips import roundtrip

_EXTREMES = (0, 1, 2, 3, 4, 7, 8, 24, 63, 64, 65, 0x7F, 0x80, 0xFF, 0x100, 0xFFF, 0x1000, 0xFF00)
_EXTREMES_64 = (*_EXTREMES, 1 << 31, (1 << 32) - 1, 1 << 32, 1 << 63, (1 << 64) - 1, (1 << 64) - 8)

#: Seconds that reading one object may take; a whole trip starts LLVM a few times.
_READ_SECONDS = 5
_TRIP_SECONDS = 30


def _places(data: bytes) -> list[tuple[int, int]]:
    """The (start, end) of the file's tables: what most mutations go to."""
    phoff, shoff = struct.unpack_from("<QQ", data, 32)
    phnum, shnum = struct.unpack_from("<H", data, 56)[0], struct.unpack_from("<H", data, 60)[0]
    found = [(0, 64), (phoff, phoff + 56 * phnum), (shoff, shoff + 64 * shnum)]
    for index in range(1, shnum):
        typ, flags, _, offset, size = struct.unpack_from("<IQQQQ", data, shoff + 64 * index + 4)
        if typ != 8 and not flags & 4:  # neither NOBITS nor code
            found.append((offset, offset + size))
    return [(a, b) for a, b in found if a + 8 <= b <= len(data)]


def mutate(data: bytes, seed: int) -> bytes:
    """A copy of an object with one to four changes, each of a kind that lies or damages."""
    rng = random.Random(seed)
    places = _places(data)
    result = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        low, high = rng.choice(places)
        at = rng.randrange(low, max(low + 1, min(high, len(result)) - 8))
        kind = rng.randrange(8)
        if at + 8 > len(result):
            continue
        if kind < 2:
            result[at] ^= 1 << rng.randrange(8)
        elif kind == 2:
            result[at] = rng.randrange(256)
        elif kind == 3:
            at -= at % 4
            struct.pack_into("<I", result, at, rng.choice(_EXTREMES_64) & 0xFFFFFFFF)
        elif kind == 4:
            at -= at % 8
            struct.pack_into("<Q", result, at, rng.choice(_EXTREMES_64))
        elif kind == 5:
            at -= at % 8
            (value,) = struct.unpack_from("<Q", result, at)
            value = (value + rng.choice((-64, -8, -1, 1, 8, 64, 4096))) & (1 << 64) - 1
            struct.pack_into("<Q", result, at, value)
        elif kind == 6:
            other_low, other_high = rng.choice(places)
            size = min(rng.choice((8, 24, 56, 64)), len(result) - at)
            chunk = result[other_low : min(other_high, other_low + size)]
            result[at : at + len(chunk)] = chunk
        else:
            cut = rng.randrange(len(result))
            if rng.randrange(4) == 0:
                del result[cut:]
            elif rng.randrange(2):
                del result[cut : cut + rng.choice((1, 4, 8, 64))]
            else:
                result[cut:cut] = bytes(rng.choice((1, 4, 8, 64)))
    return bytes(result)


def _read(data: bytes) -> CodeObject:
    """Everything that is read of an object before LLVM is asked."""
    co = load(data, name="hostile.co")
    for kernel in co.kernels:
        directives(
            kernel.descriptor,
            co.target,
            code_object_version=max(co.code_object_version, 4),
            kernel=kernel.metadata,
        )
    if co.metadata_note is not None:
        to_yaml(co.metadata_note)
    assert len(co.symbols) >= 0 and len(co.elf.relocations) >= 0
    return co


def _mutate_and_read(name: str, data: bytes, seeds: range) -> int:
    """How many of the mutations were refused."""
    refused = 0
    for seed in seeds:
        started = time.monotonic()
        try:
            _read(mutate(data, seed))
        except CoasmError as error:
            refused += 1
            assert str(error).startswith("hostile.co: "), f"{name}, seed {seed}: {error}"
            assert "\n" not in str(error), f"{name}, seed {seed}: {error}"
        except Exception as error:
            pytest.fail(f"{name}, seed {seed}: {type(error).__name__}: {error}")
        assert time.monotonic() - started < _READ_SECONDS, f"{name}, seed {seed}"
    return refused


def _mutate_and_trip(name: str, data: bytes, seeds: range, llvm: Llvm) -> int:
    """How many of the mutations went through the whole trip."""
    tripped = 0
    for seed in seeds:
        changed = mutate(data, seed)
        started = time.monotonic()
        try:
            found = roundtrip(load(changed, name="hostile.co"), llvm)
        except CoasmError as error:
            assert "Traceback" not in str(error), f"{name}, seed {seed}: {error}"
            continue
        except Exception as error:
            pytest.fail(f"{name}, seed {seed}: {type(error).__name__}: {error}")
        assert time.monotonic() - started < _TRIP_SECONDS, f"{name}, seed {seed}"
        assert found.status == "ok" and found.loaded_identical, f"{name}, seed {seed}: {found}"
        tripped += 1
    return tripped
