"""Launches on the emulator: examples, edits that break a kernel, the real f4gemm kernels."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import coasm
from coasm.__main__ import main
from coasm.errors import CoasmError
from coasm.launch import run, run_f4gemm, run_spec
from coasm.launch.emulated import Emulator
from coasm.launch.families.f4gemm.layouts import dequantise
from coasm.launch.families.f4gemm.manifest import find_manifest
from coasm.launch.families.f4gemm.numbers import Shape, judge, operands
from coasm.launch.families.f4gemm.product import Runner
from coasm.launch.families.f4gemm.tiles import Choice
from coasm.launch.spec import read_spec
from coasm.llvm import Llvm
from tests.launch.test_hip import library, session

__all__ = ["library"]  # the fixture

EXAMPLES = Path(__file__).parent.parent.parent / "examples"

pytestmark = pytest.mark.usefixtures("llvm")


@pytest.mark.parametrize("name", ["vector_add", "mx_gemm", "reverse"])
def test_the_examples(name: str) -> None:
    outcome = run_spec(EXAMPLES / f"{name}.yaml", backend="emulator")
    assert outcome.passed and outcome.comparisons[0].max_abs_err == 0
    assert outcome.figures.wave_instructions


def test_the_fixture_kernel(fixture_objects: list[tuple[str, Path]]) -> None:
    """A gfx942 object, run with a launch file that names none."""
    path = dict(fixture_objects)["vector_add-gfx942-v5"]
    spec = EXAMPLES.parent / "tests" / "fixtures" / "vector_add.yaml"
    with pytest.raises(CoasmError, match="names no object"):
        run_spec(spec)
    outcome = run_spec(spec, source=path, backend="emulator")
    assert outcome.passed and outcome.comparisons[0].elements == 250


def test_the_library(llvm: Llvm) -> None:
    co = read_spec(EXAMPLES / "vector_add.yaml").load_object()
    left = np.linspace(-3, 5, 100, dtype=np.float32)
    total = np.full(128, 7, np.float32)
    arguments = {"sum": total, "left": left, "right": left[::-1], "count": np.uint32(100)}
    result = run(co, arguments, grid=2, workgroup=64, backend="emulator", iterations=2)
    assert (result.arrays["sum"][:100] == left + left[::-1]).all()
    assert (result.arrays["sum"][100:] == 7).all() and (total == 7).all()
    assert len(result.figures.seconds) == 2 and result.figures.wave_instructions


def test_the_matrix_example_in_plain_python() -> None:
    outcome = run_spec(EXAMPLES / "mx_gemm.yaml", backend="emulator")
    arrays = {name: array.astype(float).tolist() for name, array in outcome.arrays.items()}
    for row, column in ((0, 0), (17, 35), (63, 95)):
        exact = sum(
            arrays["A"][row][k]
            * arrays["A_scale"][row][k // 32]
            * arrays["B"][column][k]
            * arrays["B_scale"][column][k // 32]
            for k in range(512)
        )
        assert arrays["D"][row][column] == exact


# Edits that break a kernel. What is replaced, by what, and how the run ends.

WRONG, REFUSED = 1, 2
FEW = ".amdhsa_next_free_vgpr 32\n\t\t.amdhsa_next_free_sgpr 26\n\t\t.amdhsa_accum_offset 32"
EDITS = [
    # A wrong offset: the second input is the first one again.
    ("vector_add", "s[8:9], s[0:1], 0x10", "s[8:9], s[0:1], 0x8", "replace", WRONG, "FAILED"),
    # Beyond the buffer's end: guarded.
    (
        "vector_add",
        "global_load_dword\tv2, v1, s[6:7]",
        " offset:-4",
        "",
        REFUSED,
        "global_load_dword",
    ),
    # Swapped operands.
    ("mx_gemm", "v[20:23], v[24:27]", "v[24:27], v[20:23]", "replace", WRONG, "FAILED"),
    ("mx_gemm", "v28, v29", "v29, v28", "replace", WRONG, "FAILED"),
    # A wait weakened by one.
    ("vector_add", "vmcnt(0)", "vmcnt(1)", "replace", REFUSED, "v_add_f32"),
    ("mx_gemm", "vmcnt(0)", "vmcnt(1)", "replace", REFUSED, "v_mfma_scale_f32_16x16x128_f8f6f4"),
    ("vector_add", "lgkmcnt(0)", "lgkmcnt(1)", "replace", REFUSED, ""),
    # A dropped barrier.
    ("reverse", "\ts_barrier\n", "\ts_nop 0\n", "replace", REFUSED, "ds_read_b32"),
    # Fewer VGPRs in the descriptor than the code uses.
    ("mx_gemm", FEW, FEW.replace("32", "24"), "replace", REFUSED, "v24"),
]


@pytest.mark.parametrize(("name", "old", "new", "how", "status", "said"), EDITS)
def test_an_edit_that_breaks_a_kernel(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    old: str,
    new: str,
    how: str,
    status: int,
    said: str,
) -> None:
    text = (EXAMPLES / f"{name}.s").read_text()
    assert text.count(old) == 1
    edited = text.replace(old, new if how == "replace" else old + new)
    (tmp_path / f"{name}.s").write_text(edited)
    shutil.copy(EXAMPLES / f"{name}.yaml", tmp_path)
    argv = ["run", "--spec", str(tmp_path / f"{name}.yaml"), "--backend", "emulator", "--race"]
    assert main(argv) == status
    captured = capsys.readouterr()
    assert said in captured.out + captured.err
    if status == REFUSED:
        assert captured.err.startswith("coasm: error: ") and captured.err.count("\n") == 1
        assert name in captured.err


def test_a_run_away_kernel_is_stopped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (
        (EXAMPLES / "vector_add.s")
        .read_text()
        .replace("finished:\n", "finished:\n\ts_branch finished\n")
    )
    (tmp_path / "vector_add.s").write_text(text)
    shutil.copy(EXAMPLES / "vector_add.yaml", tmp_path)
    argv = ["run", "--spec", str(tmp_path / "vector_add.yaml"), "--backend", "emulator"]
    assert main([*argv, "--max-instructions", "10000"]) == 2
    assert "vector_add" in capsys.readouterr().err


def test_through_hip_and_back(library: Path) -> None:
    """The whole HIP path, its launches handed to the emulator: real numbers come back."""
    argv = ("run", "--spec", str(EXAMPLES / "mx_gemm.yaml"), "--backend", "hip", "--json")
    got = session(library, *argv, engine="emulator")
    assert (got["status"], got["err"]) == (0, "")
    report = json.loads(got["out"])
    assert report["passed"] is True and report["backend"] == "hip"
    assert report["comparisons"][0]["max_abs_err"] == 0


# The real kernels.


@pytest.fixture(scope="module")
def f4gemm(corpus: list[Path]) -> Path:
    found = [p.parent for p in corpus if p.parent.parts[-2:] == ("gfx950", "f4gemm")]
    if not found:
        pytest.skip("no gfx950/f4gemm in COASM_CORPUS")
    return found[0]


@pytest.mark.parametrize("shape", [Shape(1, 256, 512), Shape(45, 288, 256)])
def test_a_product(f4gemm: Path, shape: Shape) -> None:
    product = run_f4gemm(*shape, co_dir=f4gemm, kernel="f4gemm_bf16_per1x32Fp4_BpreShuffle_32x128")
    assert product.verdict is not None
    assert product.passed and product.verdict.max_rel_err <= 2**-8


def test_an_odd_multiple_of_16_columns(f4gemm: Path, llvm: Llvm) -> None:
    """These kernels check B's scales against N rows; scales of 32 rows are interleaved.

    With N an odd multiple of 16 half of the last 32 rows' bytes are out of range and read as 0:
    those of the third and fourth scale of each four. That, and nothing else, is what comes out.
    """
    runner = Runner(find_manifest(f4gemm), Emulator(llvm))
    entry = runner.manifest.named("f4gemm_bf16_per1x32Fp4_BpreShuffle_32x128")
    shape = Shape(32, 272, 256)
    product = runner.run(shape, Choice(entry, 1))
    assert not product.passed
    ops = operands(shape, 0)
    a = dequantise(ops.a, ops.a_scale).reshape(32, 2, 4, 32)[:, :, :2].reshape(32, -1)
    b = dequantise(ops.b, ops.b_scale).reshape(272, 2, 4, 32)[256:, :, :2].reshape(16, -1)
    assert judge(product.d[:, 256:], a @ b.T, parts=1, k=256).passed


def test_a_product_through_hip(f4gemm: Path, library: Path) -> None:
    argv = ("run", "--co-dir", str(f4gemm), "-m", "17", "-n", "256", "-k", "512", "--json")
    name = "f4gemm_bf16_per1x32Fp4_BpreShuffle_32x128"
    got = session(library, *argv, "--kernel", name, "--backend", "hip", engine="emulator")
    assert got["status"] == 0, got["err"]
    report = json.loads(got["out"])
    direct = run_f4gemm(17, 256, 512, co_dir=f4gemm, kernel=name, backend="emulator")
    assert report["passed"] and report["result_sha256"] == direct.to_json()["result_sha256"]


# Edits of a real kernel: a pattern (its first match), what stands instead, and how the run ends.
NULL_STORE = "v_mov_b32 v0, 0x40\n\tglobal_store_dword v0, v0, s[8:9]\n\ts_endpgm"
REAL_EDITS = [
    # A wrong offset into LDS, and swapped operands: the product is wrong.
    (r"ds_read_b128 v\[\d+:\d+\], v\d+ offset:(64)", "128", (WRONG,), ""),
    (r"v_mfma_scale\S+ a\S+, (v\[[\d:]+\], v\[[\d:]+\])", "swap", (WRONG,), ""),
    # A wait weakened by one: a register that waits, or LDS that is still being loaded.
    (r"lgkmcnt\((0)\)", "1", (REFUSED,), "still waits for `s_load_dword"),
    (r"lgkmcnt\((5)\)", "6", (REFUSED,), "still waits for `ds_read_b32"),
    (r"vmcnt\((12)\)", "13", (REFUSED,), "still being loaded by wave"),
    # A dropped barrier.
    (r"\t(s_barrier)", "s_nop 0", (REFUSED,), "a race"),
    # A store through C, which is null.
    (r"(s_endpgm)", NULL_STORE, (REFUSED,), "access outside of memory"),
]


@pytest.mark.parametrize(("pattern", "new", "statuses", "said"), REAL_EDITS)
def test_an_edit_that_breaks_a_real_kernel(
    f4gemm: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    pattern: str,
    new: str,
    statuses: tuple[int, ...],
    said: str,
) -> None:
    def edit(text: str) -> str:
        found = re.search(pattern, text)
        assert found is not None
        old = found[1]
        stands = ", ".join(reversed(re.findall(r"v\[[\d:]+\]", old))) if new == "swap" else new
        return text[: found.start(1)] + stands + text[found.end(1) :]

    status, text = run_edited(f4gemm, tmp_path, capsys, edit)
    assert status in statuses and said in text


def test_too_few_registers_for_a_real_kernel(
    f4gemm: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The descriptor asks for one granule of 8 VGPRs less than the code uses."""

    def edit(text: str) -> str:
        top = max(int(n) for n in re.findall(r"\ba(?:\[\d+:)?(\d+)", text))
        few = (256 + top) // 8 * 8  # AGPRs begin at 256
        return re.sub(r"(\.amdhsa_next_free_vgpr) \d+", rf"\1 {few}", text)

    status, text = run_edited(f4gemm, tmp_path, capsys, edit)
    assert status == REFUSED and "AGPRs that the kernel descriptor allocates" in text


def run_edited(
    f4gemm: Path,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    edit: Callable[[str], str],
) -> tuple[int, str]:
    """Edit the 32x128 kernel and run it, alone in its folder, with --race."""
    name = "f4gemm_bf16_per1x32Fp4_BpreShuffle_32x128.co"
    rows = find_manifest(f4gemm).path.read_text().splitlines()
    kept = [rows[0], *(row for row in rows if row.endswith(f",{name}"))]
    (folder / "kernels.csv").write_text("\n".join(kept) + "\n")
    text = coasm.disassemble(f4gemm / name).text
    (folder / name).write_bytes(coasm.assemble(edit(text)).data)
    argv = ["-m", "45", "-n", "256", "-k", "1024", "--backend", "emulator", "--race"]
    status = main(["run", "--co-dir", str(folder), *argv])
    captured = capsys.readouterr()
    return status, captured.out + captured.err


@pytest.mark.slow
def test_the_sweep(f4gemm: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["run", "--sweep", "--co-dir", str(f4gemm), "--backend", "emulator", "--json"]
    assert main(argv) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(lines) == 51 and all(line["passed"] for line in lines)
    whole = [line for line in lines if line["grid"][2] == 1]
    assert all(line["verdict"]["max_rel_err"] <= 2**-8 for line in whole)
    every = [line for line in lines if line["check"] == "kernel"]
    # The figure that an MI355X shows.
    assert {f"{line['verdict']['max_rel_err']:.6f}" for line in every} == {"0.003891"}


#: log2 of the split → max|error| as a part of max|reference|, measured on an MI355X at M=256
#: N=1024 K=4096 (with other random operands).
SPLIT_ERRORS = {0: 0.0028, 1: 0.0051, 2: 0.0062, 3: 0.0081, 4: 0.0115}


@pytest.mark.slow
def test_split_k_errors_grow_as_published(f4gemm: Path, llvm: Llvm) -> None:
    runner = Runner(find_manifest(f4gemm), Emulator(llvm))
    entry = runner.manifest.named("f4gemm_bf16_per1x32Fp4_BpreShuffle_256x256")
    found = []
    for log2, published in SPLIT_ERRORS.items():
        product = runner.run(Shape(256, 1024, 4096), Choice(entry, 1 << log2))
        assert product.verdict is not None and product.passed
        found.append(product.verdict.of_max)
        assert published / 1.5 < product.verdict.of_max < published * 1.5, log2
    assert found == sorted(found)


@pytest.mark.slow
def test_rebuilt_objects_compute_the_same_bits(f4gemm: Path, tmp_path: Path) -> None:
    manifest = find_manifest(f4gemm)
    shutil.copy(manifest.path, tmp_path)
    for entry in manifest.entries[::2]:
        data = (f4gemm / entry.object).read_bytes()
        listing = coasm.disassemble(data)
        (tmp_path / entry.object).write_bytes(coasm.assemble(listing.text).data)
        pair: list[Any] = []
        for folder in (f4gemm, tmp_path):
            product = run_f4gemm(
                *(61, 1024, 512), co_dir=folder, kernel=entry.object, backend="emulator"
            )
            assert product.passed
            pair.append(product.d.view(np.uint16))
        assert (pair[0] == pair[1]).all(), entry.object
