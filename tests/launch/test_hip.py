"""The HIP backend through AMD's bindings, on a stand-in for libamdhip64 (hip_double.c)."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from coasm.errors import CoasmError
from coasm.launch.hip import fits
from coasm.llvm import Llvm
from coasm.target import TargetID, processor
from tests.launch.f4gemm_objects import write_folder

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
EXAMPLE = str(ROOT / "examples" / "vector_add.yaml")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler on PATH for the stand-in of libamdhip64")
    try:
        found = find_spec("rocm.bindings.hip")
    except ModuleNotFoundError:
        found = None
    if found is None:
        pytest.skip("rocm-bindings-hip is not installed (extra 'hip')")
    path = tmp_path_factory.mktemp("rocm") / "lib" / "libamdhip64.so"
    path.parent.mkdir()
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-o", path, HERE / "hip_double.c"], check=True, timeout=60
    )
    return path


def session(library: Path, *argv: str, **config: Any) -> dict[str, Any]:
    environment = dict(os.environ, ROCM_PATH=str(library.parent.parent), PYTHONPATH=str(ROOT))
    environment.pop("ROCM_HOME", None)
    done = subprocess.run(
        [sys.executable, HERE / "hip_session.py", library, json.dumps({"argv": argv, **config})],
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


START = ["hipGetDeviceCount", "hipGetDeviceProperties", "hipSetDevice"]
BUFFER = ["hipMalloc", "hipMemcpy to"]
TIMED = [
    *("hipEventRecord", "hipModuleLaunchKernel", "hipEventRecord"),
    *("hipEventSynchronize", "hipEventElapsedTime"),
]
EVENTS = ["hipEventCreate"] * 2
END = ["hipEventDestroy"] * 2


def test_a_launch_from_end_to_end(library: Path, llvm: Llvm) -> None:
    got = session(library, "run", "--spec", EXAMPLE, "--backend", "hip", engine="add")
    assert (got["status"], got["err"]) == (0, "")
    assert "PASSED: sum, 250 elements" in got["out"]
    assert "Double (gfx950:sramecc+:xnack-, 256 CUs)" in got["out"]
    assert got["calls"] == [
        *START,
        *(BUFFER * 3),
        *("hipModuleLoadData", "hipModuleGetFunction"),
        *EVENTS,
        *TIMED,
        *END,
        *(["hipMemcpy from"] * 3),
        *(["hipFree"] * 3),
        "hipModuleUnload",
    ]
    (launch,) = got["launches"]
    assert (launch["kernel"], launch["grid"], launch["workgroup"], launch["lds"]) == (
        *("vector_add", [4, 1, 1], [64, 1, 1]),
        0,
    )
    block = bytes.fromhex(launch["kernarg"])
    assert len(block) == 28  # the kernarg segment's size, as the metadata says
    total, left, right, count = struct.unpack("<QQQI", block)
    assert count == 250 and left == 0x7F00_0000_0000 and len({total, left, right}) == 3


def test_timing(library: Path, llvm: Llvm) -> None:
    argv = ("run", "--spec", EXAMPLE, "--backend", "hip", "--iters", "2", "--json")
    got = session(library, *argv, engine="add")
    calls = got["calls"]
    warm = calls.index("hipDeviceSynchronize")
    assert calls[warm - 5 : warm] == ["hipModuleLaunchKernel"] * 5
    assert calls[warm + 1 : warm + 1 + 12] == [*EVENTS, *TIMED, *TIMED]
    assert calls.count("hipModuleLoadData") == 1  # loaded once
    report = json.loads(got["out"])
    # The stand-in's times are 0.30, 0.25, 0.50 ms; the first is the checked launch.
    assert report["seconds"] == pytest.approx(0.000375) and report["runs"] == 2
    assert report["backend"] == "hip" and report["passed"] is True


def test_a_wrong_result_is_seen(library: Path, llvm: Llvm) -> None:
    got = session(library, "run", "--spec", EXAMPLE, "--backend", "hip", engine="record")
    assert got["status"] == 1 and "FAILED" in got["out"]


# Function, status, what is said. Names: hip_runtime_api.h.
FAILURES = [
    ("hipGetDeviceProperties", 101, "asking device 0", "hipErrorInvalidDevice"),
    ("hipSetDevice", 101, "choosing device 0", "hipErrorInvalidDevice"),
    ("hipMalloc", 2, "allocating 1,000 bytes for 'left'", "hipErrorOutOfMemory"),
    ("hipMemcpy to", 1, "copying 1,000 bytes to 'left'", "hipErrorInvalidValue"),
    ("hipModuleLoadData", 200, "loading ", "hipErrorInvalidImage"),
    ("hipModuleGetFunction", 500, "looking for kernel 'vector_add'", "hipErrorNotFound"),
    ("hipModuleLaunchKernel", 1, "launching 'vector_add'", "hipErrorInvalidValue"),
    ("hipEventSynchronize", 719, "waiting for 'vector_add'", "hipErrorLaunchFailure"),
    ("hipMemcpy from", 719, "copying 1,000 bytes from 'left'", "hipErrorLaunchFailure"),
]


@pytest.mark.parametrize(("function", "status", "doing", "name"), FAILURES)
def test_each_failure_by_name(
    library: Path, llvm: Llvm, function: str, status: int, doing: str, name: str
) -> None:
    argv = ("run", "--spec", EXAMPLE, "--backend", "hip")
    got = session(library, *argv, fail={function: status})
    assert got["status"] == 2 and got["out"] == ""
    call = function.partition(" ")[0]
    assert got["err"].startswith(f"coasm: error: {doing}")
    assert got["err"].endswith(f"{call} failed with {name}\n")
    assert got["err"].count("\n") == 1
    # What was there is given back.
    assert got["calls"].count("hipFree") == (
        got["calls"].count("hipMalloc") - (function == "hipMalloc")
    )


def test_the_device_must_be_the_objects(library: Path, llvm: Llvm) -> None:
    argv = ("run", "--spec", EXAMPLE, "--backend", "hip")
    got = session(library, *argv, arch="gfx942:sramecc+:xnack-", devices=2)
    assert got["status"] == 2
    assert "the object is for gfx950, the devices here are gfx942:sramecc+:xnack-" in got["err"]
    assert "hipModuleLoadData" not in got["calls"]


def test_no_device(library: Path, llvm: Llvm) -> None:
    got = session(library, "run", "--spec", EXAMPLE, "--backend", "hip", devices=0)
    assert got["status"] == 2
    assert "hipGetDeviceCount failed with hipErrorNoDevice" in got["err"]


def test_no_runtime(tmp_path: Path, llvm: Llvm, library: Path) -> None:
    """Without libamdhip64 the bindings import, and the first call says what is missing."""
    environment = dict(os.environ, ROCM_PATH=str(tmp_path), PYTHONPATH=str(ROOT))
    code = (
        "from coasm.launch.hip import Hip; from coasm.target import TargetID, processor\n"
        "Hip(TargetID(processor('gfx950')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False
    )
    assert "DeviceError: counting the devices: hipGetDeviceCount: libamdhip64" in done.stderr


def test_a_product_through_hip(library: Path, llvm: Llvm, tmp_path: Path) -> None:
    write_folder(llvm, tmp_path, [(256, 256, 1, 1, "main")])
    argv = ("run", "--co-dir", str(tmp_path), "-m", "300", "-n", "2048", "-k", "1024")
    got = session(library, *argv, "--backend", "hip", "--no-verify", "--splitk", "1")
    assert got["status"] == 0, got["err"]
    (launch,) = got["launches"]
    assert (launch["grid"], launch["workgroup"]) == ([8, 2, 2], [256, 1, 1])
    block = bytes.fromhex(launch["kernarg"])
    assert len(block) == 384
    assert struct.unpack_from("<f", block, 0x40)[0] == 1.0
    assert struct.unpack_from("<I", block, 0xA0)[0] == 1024  # fp4 elements, not bytes
    assert "TFLOP/s" in got["out"]


@pytest.mark.parametrize(
    ("device", "target", "good"),
    [
        ("gfx950:sramecc+:xnack-", ("gfx950", "", ""), True),
        ("gfx950:sramecc+:xnack-", ("gfx950", "any", "any"), True),
        ("gfx950:sramecc+:xnack-", ("gfx950", "off", "on"), True),
        ("gfx950:sramecc+:xnack-", ("gfx950", "on", "on"), False),
        ("gfx950:sramecc+:xnack-", ("gfx950", "any", "off"), False),
        ("gfx942:sramecc+:xnack-", ("gfx950", "", ""), False),
        ("gfx950", ("gfx950", "", ""), True),
        ("", ("gfx950", "", ""), False),
    ],
)
def test_targets_that_a_device_loads(device: str, target: tuple[str, str, str], good: bool) -> None:
    name, xnack, sramecc = target
    assert fits(device, TargetID(processor(name), xnack, sramecc)) is good


def test_errors_are_one_kind() -> None:
    from coasm.errors import DeviceError

    assert issubclass(DeviceError, CoasmError) and DeviceError.exit_code == 2
