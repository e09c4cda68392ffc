"""The libraries of two public wheels: ``make test`` fetches them into ``build/hip-wheels``.

``COASM_HIP_WHEELS`` names another folder.

276 code objects for 29 gfx targets. ``COASM_HIP_ALL=1`` makes the tests that take a sample of them
take all.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from coasm.bundle import Entry, extract, find
from coasm.codeobject import CodeObject, load

_FETCHED = Path(__file__).parent.parent / "build" / "hip-wheels"

__all__ = ["NAMES", "TARGETS", "entries_of", "library", "sample"]

NAMES = [
    *("_scatter_cuda", "_segment_csr_cuda"),
    *(f"libbitsandbytes_rocm{version}" for version in (64, 70, 71, 72, 714, 715)),
]

TARGETS = [
    *("gfx900", "gfx906", "gfx908", "gfx90a", "gfx90c", "gfx942", "gfx950"),
    *("gfx1010", "gfx1011", "gfx1012"),
    *("gfx1030", "gfx1031", "gfx1032", "gfx1033", "gfx1034", "gfx1035", "gfx1036"),
    *("gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151", "gfx1152", "gfx1153"),
    *("gfx1200", "gfx1201", "gfx1250", "gfx1251"),
]


def folder() -> Path | None:
    """Where the libraries are, if they are anywhere."""
    named = os.environ.get("COASM_HIP_WHEELS")
    place = Path(named) if named else _FETCHED
    return place if place.is_dir() else None


def library(name: str) -> Path:
    """The path of a library; skips the test where it is not there."""
    place = folder()
    path = place / f"{name}.so" if place else None
    if path is None or not path.exists():
        pytest.skip("no HIP libraries: make test fetches them into build/hip-wheels")
    return path


@cache
def entries_of(name: str) -> tuple[Entry, ...]:
    """What a library carries."""
    return tuple(find(library(name)))


def sample(target: str) -> Iterator[CodeObject]:
    """Two of the objects for *target*, from two libraries, and now and then its largest.

    The two are the smallest of their libraries; over all targets every library has its turn, the
    first of the two alone sees to it.
    """
    every = [e for name in NAMES for e in entries_of(name) if e.target == target]
    if os.environ.get("COASM_HIP_ALL"):
        chosen = every
    else:
        smallest: dict[str, Entry] = {}
        for entry in sorted(every, key=lambda e: -e.size):
            smallest[entry.container.path] = entry
        turn, found = TARGETS.index(target), [smallest[path] for path in sorted(smallest)]
        chosen = [found[(turn + at) % len(found)] for at in (0, len(found) // 2)]
        if turn % 5 == 0:
            chosen.append(max(every, key=lambda e: e.size))
    for entry in dict.fromkeys(chosen):
        yield load(extract(entry), name=f"{Path(entry.container.path).name}:{entry.name}")
