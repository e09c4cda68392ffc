"""Real MXFP4 GEMM kernels against a float64 product, with the errors that hardware has."""

from __future__ import annotations

import csv
import os
import re
from pathlib import Path

import pytest

import coasm
from coasm.emulator import EmulationError, Options
from coasm.llvm import Llvm
from tests.emulator.f4gemm import Result, multiply

#: What the driver measured on an MI355X without split-K: the rounding to bf16 alone.
HARDWARE = 0.003891


def _kernels() -> list[dict[str, str]]:
    folder = Path(os.environ.get("COASM_CORPUS", "/nonexistent"), "gfx950", "f4gemm")
    manifests = sorted(folder.glob("*.csv"))
    if not manifests:
        return []
    with open(manifests[0], newline="", encoding="utf-8") as file:
        return [row | {"path": str(folder / row["co_name"])} for row in csv.DictReader(file)]


KERNELS = _kernels()
needs_corpus = pytest.mark.skipif(not KERNELS, reason="COASM_CORPUS has no f4gemm kernels")


def kernel(name: str) -> dict[str, str]:
    return next(row for row in KERNELS if row["co_name"].endswith(f"_{name}.co"))


def go(
    llvm: Llvm, row: dict[str, str], co: coasm.CodeObject | None = None, **more: object
) -> Result:
    size = {"m": 300, "n": 2048, "k": 1024} | more
    return multiply(
        llvm,
        co or coasm.load(row["path"]),
        (int(row["tile_M"]), int(row["tile_N"])),
        shuffled=row["bpreshuffle"] == "1",
        **size,  # type: ignore[arg-type]
    )


@pytest.mark.slow
@needs_corpus
@pytest.mark.parametrize("row", KERNELS, ids=[r["co_name"].split("_", 3)[-1][:-3] for r in KERNELS])
def test_every_kernel_has_the_hardwares_error(row: dict[str, str], llvm: Llvm) -> None:
    result = go(llvm, row, options=Options(race=True, strict=True))
    assert result.relative <= 2**-8
    assert result.relative == pytest.approx(HARDWARE, abs=5e-7)


@needs_corpus
@pytest.mark.parametrize(("m", "n", "k"), [(1, 256, 512), (33, 160, 256)])
def test_sizes_that_are_no_multiple_of_a_tile(m: int, n: int, k: int, llvm: Llvm) -> None:
    assert go(llvm, kernel("BpreShuffle_32x128"), m=m, n=n, k=k).relative <= 2**-8


@pytest.mark.slow
@needs_corpus
def test_split_k_errors_grow_as_published(llvm: Llvm) -> None:
    row = kernel("BpreShuffle_256x256")
    errors = [go(llvm, row, m=256, n=1024, k=4096, split=1 << n).absolute for n in range(5)]
    published = (0.0028, 0.0051, 0.0062, 0.0081, 0.0115)
    assert errors == sorted(errors)
    for got, want in zip(errors, published, strict=True):
        assert 0.6 * want < got < 1.4 * want


def edited(row: dict[str, str], pattern: str, change: str) -> coasm.CodeObject:
    """The kernel with the first line that matches *pattern* changed."""
    text = coasm.disassemble(row["path"]).text
    lines = text.splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if re.search(pattern, line))
    lines[at] = re.sub(pattern, change, lines[at]).split("// pin")[0].rstrip() + "\n"
    return coasm.load(coasm.assemble("".join(lines)).data, name="edited.co")


@needs_corpus
@pytest.mark.parametrize(
    ("pattern", "change"),
    [
        (r"(ds_read_b128 .*)offset:64", r"\1offset:80"),
        (r"(v_mfma\S+ \S+) (v\[\S+\]), (v\[\S+\]),", r"\1 \3, \2,"),
    ],
    ids=["a wrong offset", "swapped operands"],
)
def test_an_edit_that_breaks_the_product_is_seen(pattern: str, change: str, llvm: Llvm) -> None:
    row = kernel("BpreShuffle_64x256")
    assert go(llvm, row, edited(row, pattern, change), m=64, n=256, k=512).relative > 1


@needs_corpus
@pytest.mark.parametrize(
    ("pattern", "change", "options", "words"),
    [
        (r"vmcnt\(13\)", "vmcnt(14)", Options(), "still waits for `buffer_load_dword"),
        (r"lgkmcnt\(5\)", "lgkmcnt(6)", Options(), "still waits for `ds_read_b32"),
        (r"s_barrier", "s_nop 0", Options(race=True), "a race"),
        (
            r"next_free_vgpr \d+",
            "next_free_vgpr 300",
            Options(),
            "that the kernel descriptor allocates",
        ),
    ],
)
def test_an_edit_that_breaks_a_rule_is_an_error(
    pattern: str, change: str, options: Options, words: str, llvm: Llvm
) -> None:
    row = kernel("BpreShuffle_64x256")
    with pytest.raises(EmulationError, match=re.escape(words)):
        go(llvm, row, edited(row, pattern, change), m=64, n=256, k=1024, options=options)


@pytest.mark.slow
@needs_corpus
def test_a_rebuilt_kernel_gives_the_same_bits(llvm: Llvm) -> None:
    row = kernel("BpreShuffle_96x128")
    rebuilt = coasm.load(coasm.assemble(coasm.disassemble(row["path"]).text).data, name="rebuilt")
    assert (go(llvm, row).product == go(llvm, row, rebuilt).product).all()
