"""`coasm run`: its modes, its exit status, what it prints; devices are stand-ins here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import coasm.launch
from coasm.__main__ import main
from coasm.errors import DeviceError, LaunchError, UnsupportedError
from coasm.launch import backends
from coasm.launch.arguments import Geometry
from coasm.launch.backends import open_device
from coasm.launch.device import Figures
from coasm.launch.families.f4gemm.sweep import SHAPES
from coasm.llvm import Llvm
from coasm.target import TargetID, processor
from tests.launch.f4gemm_objects import multiply, poison, write_folder
from tests.launch.objects import FakeDevice, build, source

ROWS = [(256, 256, 1, 1, "main"), (32, 128, 0, 1, "small"), (256, 256, 0, 0, "noBpre")]


@pytest.fixture(scope="module")
def folder(llvm: Llvm, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("f4gemm")
    write_folder(llvm, made, ROWS)
    return made


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> FakeDevice:
    made = FakeDevice(multiply)
    monkeypatch.setattr(backends, "open_device", lambda *_, **__: (made, "using a stand-in"))
    return made


def command(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    status = main(["run", *argv])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


SHAPE = ("-m", "2", "-n", "32", "-k", "256")


def test_a_product(capsys: pytest.CaptureFixture[str], folder: Path, device: FakeDevice) -> None:
    status, out, err = command(capsys, "--co-dir", str(folder), *SHAPE)
    assert (status, err) == (0, "coasm: using a stand-in\n")
    assert str(folder / "small.co") in out or str(folder / "main.co") in out
    assert "result    PASSED" in out and "M=2 N=32 K=256" in out
    assert device.closed


def test_a_product_as_json(
    capsys: pytest.CaptureFixture[str], folder: Path, device: FakeDevice
) -> None:
    argv = ("--co-dir", str(folder), *SHAPE, "--kernel", "main", "--splitk", "0", "--json")
    status, out, _ = command(capsys, *argv)
    report = json.loads(out)
    assert status == 0 and report["passed"] is True and report["kernel"] == "main"
    assert report["grid"] == [1, 1, 1] and report["workgroup"] == [256, 1, 1]
    assert report["verdict"]["wrong"] == 0 and len(report["sha256"]) == 64


def test_a_wrong_product(
    capsys: pytest.CaptureFixture[str], folder: Path, device: FakeDevice
) -> None:
    device.work = poison
    status, out, _ = command(capsys, "--co-dir", str(folder), *SHAPE)
    assert status == 1 and "result    FAILED" in out and "64 of 64 elements; first D[0, 0]" in out
    status, out, _ = command(capsys, "--co-dir", str(folder), *SHAPE, "--no-verify")
    assert status == 0 and "not compared" in out


def test_iterations(capsys: pytest.CaptureFixture[str], folder: Path, device: FakeDevice) -> None:
    device.work = poison
    argv = ("--co-dir", str(folder), *SHAPE, "--no-verify", "--iters", "3", "--json")
    status, out, _ = command(capsys, *argv)
    report = json.loads(out)
    assert status == 0 and report["runs"] == 3 and report["seconds"] == pytest.approx(0.2)
    assert report["passed"] is None


def test_the_list(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    status, out, _ = command(capsys, "--co-dir", str(folder), "--list")
    assert status == 0 and all(f"{name}.co" in out for *_, name in ROWS) and "missing" not in out
    status, out, _ = command(capsys, "--co-dir", str(folder), "--list", "--json")
    assert [k["tile_m"] for k in json.loads(out)["kernels"]] == [256, 32, 256]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ((), "nothing to run: give -m, -n and -k"),
        (("-m", "1"), "give all of -m, -n and -k"),
        (("--sweep", "--list"), "--list and --sweep do not go together"),
        (("--sweep", "-m", "1"), "--sweep and -m, -n, -k do not go together"),
        (("kernel.co", "--list"), "kernel.co: an object by itself goes with -m, -n and -k"),
        (("-m", "1", "-n", "16", "-k", "100"), "K must be a multiple of 256"),
        (("-m", "1", "-n", "8", "-k", "256"), "N must be a multiple of 16"),
        ((*SHAPE, "--backend", "cuda", "--kernel", "main"), "no backend 'cuda'"),
        ((*SHAPE, "--backend", "hip", "--race"), "emulator only"),
        (("--spec", "/nowhere/x.yaml"), "/nowhere/x.yaml: No such file"),
    ],
)
def test_what_is_refused(
    capsys: pytest.CaptureFixture[str], folder: Path, argv: tuple[str, ...], message: str
) -> None:
    status, out, err = command(capsys, "--co-dir", str(folder), *argv)
    assert (status, out) == (2, "") and message in err and err.count("\n") == 1


def test_a_listed_kernel_that_is_missing(
    capsys: pytest.CaptureFixture[str], folder: Path, device: FakeDevice, tmp_path: Path
) -> None:
    (tmp_path / "kernels.csv").write_text((folder / "kernels.csv").read_text())
    status, out, err = command(capsys, "--co-dir", str(tmp_path), *SHAPE, "--kernel", "small")
    assert (status, out) == (2, "")
    assert f"no such code object: {tmp_path / 'small.co'}" in err and "kernels.csv:3" in err
    _, out, _ = command(capsys, "--co-dir", str(tmp_path), "--list")
    assert out.count("(missing)") == 3


# A sweep: the stand-in knows the right answers.


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small shapes: the stand-in works element by element."""
    from coasm.launch.families.f4gemm import sweep
    from coasm.launch.families.f4gemm.numbers import Shape

    monkeypatch.setattr(sweep, "SHAPES", (Shape(1, 16, 256), Shape(3, 32, 256)))
    monkeypatch.setattr(sweep, "EVERY", Shape(2, 16, 256))
    monkeypatch.setattr(sweep, "SPLIT_SHAPE", Shape(2, 16, 4096))
    monkeypatch.setattr(sweep, "SPLITS", ((1, (256, 256)), (-1, None)))


def test_the_sweep(
    capsys: pytest.CaptureFixture[str], folder: Path, device: FakeDevice, quick: None
) -> None:
    status, out, _ = command(capsys, "--co-dir", str(folder), "--sweep")
    assert status == 0, out
    assert "7 of 7 checks passed" in out and out.count("passed") == 8
    assert len(device.launches) == 7


def test_the_sweep_fails(
    capsys: pytest.CaptureFixture[str], folder: Path, device: FakeDevice, quick: None
) -> None:
    def sometimes(made: FakeDevice, co: Any, geometry: Geometry, kernarg: bytes) -> None:
        if co.kernels[0].name != "noBpre":
            multiply(made, co, geometry, kernarg)

    device.work = sometimes
    status, out, _ = command(capsys, "--co-dir", str(folder), "--sweep")
    assert status == 1 and "6 of 7 checks passed" in out and "noBpre.co: 32 elements wrong" in out
    status, out, _ = command(capsys, "--co-dir", str(folder), "--sweep", "--json")
    lines = [json.loads(line) for line in out.splitlines()]
    assert status == 1 and [line["passed"] for line in lines].count(False) == 1


def test_the_sweep_cannot_be_judged(
    capsys: pytest.CaptureFixture[str],
    folder: Path,
    device: FakeDevice,
    quick: None,
    tmp_path: Path,
) -> None:
    write_names = ("kernels.csv", "main.co", "small.co")
    for name in write_names:
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    status, out, _ = command(capsys, "--co-dir", str(tmp_path), "--sweep")
    assert status == 2 and "not judged" in out
    assert f"no such code object: {tmp_path / 'noBpre.co'}" in out


# Launch files.


def test_a_launch_file(
    capsys: pytest.CaptureFixture[str], llvm: Llvm, tmp_path: Path, device: FakeDevice
) -> None:
    co = build(llvm, source([("x", 0, 8, "global_buffer")], 8))
    (tmp_path / "k.co").write_bytes(co.data)
    (tmp_path / "other.co").write_bytes(co.data)
    text = (
        "object: k.co\ngrid: 1\nworkgroup: 64\nbuffers: {x: {dtype: u8, shape: 4}}\n"
        "arguments: {x: x}\noutputs: {x: {save: x.npy, compare: {constant: 7}}}\n"
    )
    spec = tmp_path / "launch.yaml"
    spec.write_text(text)

    def sevens(made: FakeDevice, *_: Any) -> None:
        for buffer in made.buffers.values():
            buffer[:] = 7

    device.work = sevens
    status, out, _ = command(capsys, "--spec", str(spec))
    assert status == 0 and "PASSED: x, 4 elements against constant" in out
    assert np.load(tmp_path / "x.npy").tolist() == [7] * 4
    device.work = None
    status, out, _ = command(capsys, str(tmp_path / "other.co"), "--spec", str(spec), "--json")
    report = json.loads(out)
    assert status == 1 and report["object"] == str(tmp_path / "other.co")
    assert report["comparisons"][0]["first_wrong"] == [0]


# The library.


def test_the_library(llvm: Llvm, device: FakeDevice) -> None:
    co = build(llvm, source([("x", 0, 8, "global_buffer"), ("n", 8, 4, "by_value")], 16))

    def count(made: FakeDevice, _: Any, geometry: Geometry, kernarg: bytes) -> None:
        (buffer,) = made.buffers.values()
        buffer.view(np.float32)[:] += int.from_bytes(kernarg[8:12], "little")

    device.work = count
    given = np.arange(6, dtype=np.float32).reshape(2, 3)
    result = coasm.launch.run(co.data, {"x": given, "n": 5}, grid=(2, 2), workgroup=64)
    assert result.arrays["x"].tolist() == [[5, 6, 7], [8, 9, 10]]
    assert given.tolist() == [[0, 1, 2], [3, 4, 5]]  # as it was
    assert device.launches[0][1] == Geometry((2, 2, 1), (64, 1, 1), 0, 2)
    assert result.note == "using a stand-in" and isinstance(result.figures, Figures)
    device.work = None
    result = coasm.launch.run(co, {0: None, "n": np.int32(-1)}, grid=1, workgroup=1)
    assert device.launches[1][2] == bytes(8) + b"\xff" * 4 + bytes(4) and not result.arrays
    for bad in ((1, 2, 3, 4), (), 1.5, "1"):
        with pytest.raises(LaunchError, match="grid: expected one to three"):
            coasm.launch.run(co, {}, grid=bad, workgroup=1)  # type: ignore[arg-type]
    with pytest.raises(LaunchError, match="holds Python objects"):
        coasm.launch.run(co, {"x": np.array([None]), "n": 1}, grid=1, workgroup=1)


def test_the_library_multiplies(folder: Path, device: FakeDevice) -> None:
    found = coasm.launch.run_f4gemm(2, 16, 256, co_dir=folder, kernel="small.co", seed=11)
    assert found.passed and found.d.shape == (2, 16)


# Devices.


def test_auto_says_why_it_emulates(monkeypatch: pytest.MonkeyPatch) -> None:
    from coasm.launch import hip

    def missing(*_: object) -> None:
        raise DeviceError("HIP finds no device")

    monkeypatch.setattr(hip, "Hip", missing)
    target = TargetID(processor("gfx1100"))
    with pytest.raises(
        UnsupportedError, match="runs gfx942 and gfx950, not gfx1100; no usable GPU"
    ):
        open_device("auto", target)
    with pytest.raises(DeviceError, match="HIP finds no device"):
        open_device("hip", target)
    with pytest.raises(LaunchError, match="no backend 'cuda'"):
        open_device("cuda", target)


def test_the_sweeps_shapes_fit_the_documented_limits() -> None:
    assert len(SHAPES) == 8
    assert all(shape.k % 256 == 0 and shape.n % 32 == 0 for shape in SHAPES)


# One object by itself, whatever it is called


def test_one_object_by_its_kernels_symbol(
    capsys: pytest.CaptureFixture[str],
    folder: Path,
    device: FakeDevice,
    llvm: Llvm,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("AITER_ASM_DIR", raising=False)
    odd = tmp_path / "odd.rebuilt.co"
    odd.write_bytes((folder / "small.co").read_bytes())
    # By the manifest that lists its kernel, wherever that is.
    status, out, _ = command(capsys, str(odd), *SHAPE, "--co-dir", str(folder))
    assert status == 0 and f"object    {odd}" in out and "tile 32x128, grid 1 x 1 x 1" in out
    status, out, _ = command(capsys, str(folder / "small.co"), *SHAPE, "--json")
    assert status == 0 and json.loads(out)["tile"] == [32, 128]
    # Nothing says what the kernel called "small" is.
    status, out, err = command(capsys, str(odd), *SHAPE)
    assert (status, out) == (2, "") and "'small' is no f4gemm kernel" in err and "--spec" in err
    # By its name, as aiter's are called: 32x64 takes B shuffled, and two workgroups for N = 80.
    name = "_ZN5aiter40f4gemm_bf16_per1x32Fp4_BpreShuffle_32x64E"
    (tmp_path / "made").mkdir()
    write_folder(llvm, tmp_path / "made", [(1, 1, 0, 1, name)])
    odd.write_bytes((tmp_path / "made" / f"{name}.co").read_bytes())
    status, out, _ = command(capsys, str(odd), "-m", "2", "-n", "80", "-k", "256", "--json")
    report = json.loads(out)
    assert status == 0 and report["passed"] is True and report["kernel"] == name
    assert (report["tile"], report["grid"]) == ([32, 64], [2, 1, 1])
    product = coasm.launch.run_f4gemm(2, 32, 256, source=odd)
    assert product.entry.bpreshuffle and product.passed
    status, _, err = command(capsys, str(odd), *SHAPE, "--splitk", "1")
    assert status == 2 and "does not say whether it splits K; --co-dir" in err


def test_the_verdict_is_in_color_on_a_terminal(
    capsys: pytest.CaptureFixture[str],
    folder: Path,
    device: FakeDevice,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    argv = ("--co-dir", str(folder), *SHAPE)
    assert "result    \x1b[1;32mPASSED\x1b[0m: max_abs_err" in command(capsys, *argv)[1]
    device.work = poison
    assert "result    \x1b[1;31mFAILED\x1b[0m: " in command(capsys, *argv)[1]
    monkeypatch.setenv("NO_COLOR", "1")
    assert "result    FAILED: " in command(capsys, *argv)[1]
