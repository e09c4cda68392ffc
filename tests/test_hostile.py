"""Damaged and hostile input: each object is taken exactly, or refused with one clear line.

Objects are mutated from a seed, so a failure can be repeated: its message names object and seed.
"""

from __future__ import annotations

import random
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from coasm.asm.build import link_object
from coasm.asm.exact import exact_listing
from coasm.asm.like import like
from coasm.asm.sections import carried_sections
from coasm.codeobject import CodeObject, load
from coasm.compare import verify
from coasm.descriptor import directives
from coasm.errors import CoasmError
from coasm.llvm.find import Llvm
from coasm.notes.yaml import to_yaml
from coasm.trips import roundtrip
from tests.asm.tools import loaded, loaded_sections
from tests.counting import calls, programs

_ROOT = Path(__file__).parent.parent
_EXTREMES = (0, 1, 2, 3, 4, 7, 8, 24, 63, 64, 65, 0x7F, 0x80, 0xFF, 0x100, 0xFFF, 0x1000, 0xFF00)
_EXTREMES_64 = (*_EXTREMES, 1 << 31, (1 << 32) - 1, 1 << 32, 1 << 63, (1 << 64) - 1, (1 << 64) - 8)

#: Calls that reading one object of 5 kB may take, and programs that a whole trip may start.
_READ_CALLS = 300_000
_TRIP_PROGRAMS = 60


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


def read(data: bytes) -> CodeObject:
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
        try:
            with calls() as made:
                read(mutate(data, seed))
        except CoasmError as error:
            refused += 1
            assert str(error).startswith("hostile.co: "), f"{name}, seed {seed}: {error}"
            assert "\n" not in str(error), f"{name}, seed {seed}: {error}"
        except Exception as error:
            pytest.fail(f"{name}, seed {seed}: {type(error).__name__}: {error}")
        assert made.number < _READ_CALLS, f"{name}, seed {seed}"
    return refused


def _mutate_and_trip(name: str, data: bytes, seeds: range, llvm: Llvm) -> int:
    """How many of the mutations had a listing; it and its verdict are judged by pyelftools."""
    tripped = 0
    for seed in seeds:
        changed = mutate(data, seed)
        try:
            with programs() as started:
                co = load(changed, name="hostile.co")
                fresh = link_object(exact_listing(co, llvm).object, llvm)
                report = verify(co, load(fresh, name="fresh.co"), llvm)
                like(fresh, co)
        except CoasmError as error:
            assert "\n" not in str(error), f"{name}, seed {seed}: {error}"
            continue
        except Exception as error:
            pytest.fail(f"{name}, seed {seed}: {type(error).__name__}: {error}")
        assert started.number < _TRIP_PROGRAMS, f"{name}, seed {seed}"
        # The linker's own sections may have been damaged; then the verdict says so.
        assert report.loaded_identical == (loaded(fresh) == loaded(changed)), f"{name}, {seed}"
        one, other = loaded_sections(changed), loaded_sections(fresh)
        for section in {s.name for s in carried_sections(co) if s.alloc} & other.keys():
            if one[section][0] == other[section][0]:
                assert one[section] == other[section], f"{name}, seed {seed}: {section}"
        tripped += 1
    return tripped


_NAMES = (
    *("template-gfx942-v5", "names-gfx942-v5", "relocations-gfx942-v5", "sections-gfx950-v6"),
    *("visibility-gfx1250-v6", "template-gfx803-v4", "multi-gfx90a-v4", "stripped-gfx942-v5"),
    *("middle-gfx942-v5", "text_data-gfx1100-v5", "getpc-gfx942-v5"),
)


def _chosen(objects: list[tuple[str, Path]]) -> list[tuple[str, bytes]]:
    found = [(name, path.read_bytes()) for name, path in objects if name in _NAMES]
    assert found
    return found


def test_mutated_built_objects_are_read_or_refused(
    fixture_objects: list[tuple[str, Path]],
) -> None:
    for name, data in _chosen(fixture_objects):
        refused = _mutate_and_read(name, data, range(500))
        assert 50 < refused < 450, name  # the mutations are neither all fatal nor all harmless


def test_mutated_real_objects_are_read_or_refused(corpus: list[Path]) -> None:
    for path in sorted(corpus, key=lambda p: p.stat().st_size)[:200:20]:
        _mutate_and_read(path.name, path.read_bytes(), range(200))


def test_every_truncation_is_refused(fixture_objects: list[tuple[str, Path]]) -> None:
    """The section header table is at the end, so no proper prefix is an object."""
    data = dict(_chosen(fixture_objects))["template-gfx942-v5"]
    for size in range(0, len(data), 7):
        with pytest.raises(CoasmError, match=r"^cut\.co: ") as caught:
            load(data[:size], name="cut.co")
        assert "\n" not in str(caught.value)


def test_mutated_objects_through_the_whole_trip(
    fixture_objects: list[tuple[str, Path]], llvm: Llvm
) -> None:
    tripped = sum(
        _mutate_and_trip(name, data, range(1000, 1008), llvm)
        for name, data in _chosen(fixture_objects)
    )
    assert tripped > 10


@pytest.mark.slow
def test_many_mutated_objects_through_the_whole_trip(
    fixture_objects: list[tuple[str, Path]], llvm: Llvm
) -> None:
    for name, data in _chosen(fixture_objects):
        _mutate_and_trip(name, data, range(30), llvm)


_LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (1 << 31, 1 << 31))
from tests.test_hostile import CoasmError, mutate, read
from pathlib import Path
data = Path(sys.argv[1]).read_bytes()
for seed in range(2000, 2300):
    try:
        read(mutate(data, seed))
    except CoasmError:
        pass
print("done")
"""


def test_memory_stays_small(fixture_objects: list[tuple[str, Path]]) -> None:
    """With 2 GiB of address space, whatever a size or a count in the file says."""
    path = dict(fixture_objects)["template-gfx942-v5"]
    done = subprocess.run(
        [sys.executable, "-c", _LIMITED, str(path)],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


def test_sizes_that_lie_about_memory(fixture_objects: list[tuple[str, Path]], llvm: Llvm) -> None:
    """A .bss of many gigabytes has no bytes; a listing says it in one line, or it is refused."""
    data = bytearray(dict(_chosen(fixture_objects))["template-gfx942-v5"])
    shoff, shnum = struct.unpack_from("<Q", data, 40)[0], struct.unpack_from("<H", data, 60)[0]
    for index in range(1, shnum):
        at = shoff + 64 * index
        if struct.unpack_from("<I", data, at + 4)[0] == 8:  # NOBITS
            struct.pack_into("<Q", data, at + 32, 1 << 40)
    with programs() as started, pytest.raises(CoasmError):
        roundtrip(load(bytes(data), name="large.co"), llvm)
    assert started.number < _TRIP_PROGRAMS
