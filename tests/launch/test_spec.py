"""Launch files: what they say, and what is refused with its place."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from coasm.codeobject import CodeObject
from coasm.errors import CoasmError, LaunchError
from coasm.launch.arguments import Geometry
from coasm.launch.dtypes import DTYPES
from coasm.launch.spec import Spec, read_spec, run
from coasm.llvm import Llvm
from tests.launch.f4gemm_objects import fp4
from tests.launch.objects import FakeDevice, build, source

WriteSpec = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> WriteSpec:
    def write_(text: str) -> Path:
        path = tmp_path / "launch.yaml"
        path.write_text(text)
        return path

    return write_


def filled(write: WriteSpec, buffer: str) -> Any:
    text = f"grid: 1\nworkgroup: 64\nbuffers:\n  x: {buffer}\narguments: {{}}\n"
    return read_spec(write(text)).buffers["x"].array


# Buffers.


def test_fills(write: WriteSpec, tmp_path: Path) -> None:
    got = filled(write, "{dtype: f32, shape: [2, 3]}")
    assert got.dtype == np.float32 and got.tolist() == [[0] * 3] * 2
    assert filled(write, "{dtype: i16, shape: 4, fill: {constant: -7}}").tolist() == [-7] * 4
    assert filled(write, "{dtype: u8, shape: 4, fill: {range: 250}}").tolist() == [
        250,
        251,
        252,
        253,
    ]
    got = filled(write, "{dtype: bf16, shape: [2, 2], fill: {range: 1, step: -0.5}}")
    assert got.dtype == ml_dtypes.bfloat16 and got.tolist() == [[1, 0.5], [0, -0.5]]
    assert filled(write, "{dtype: u64, shape: 1, fill: {constant: 0xffff}}").tolist() == [0xFFFF]
    np.save(tmp_path / "x.npy", np.array([1.5, -2.0]))
    assert filled(write, "{dtype: f16, shape: 2, fill: {npy: x.npy}}").tolist() == [1.5, -2.0]
    assert filled(write, "{dtype: i8, shape: 3, fill: zeros}").tolist() == [0, 0, 0]
    assert filled(write, "{dtype: e8m0, shape: 2}").astype(float).tolist() == [1.0, 1.0]


def test_random_fills(write: WriteSpec) -> None:
    for dtype in DTYPES:
        text = f"{{dtype: {dtype}, shape: [64, 64], fill: {{random: 5}}}}"
        one, other = filled(write, text), filled(write, text)
        assert (one.view(np.uint8) == other.view(np.uint8)).all()
        changed = filled(write, text.replace("random: 5", "random: 6"))
        assert (one.view(np.uint8) != changed.view(np.uint8)).any()
    got = filled(write, "{dtype: f32, shape: 1000, fill: {random: 1, low: 2, high: 3}}")
    assert got.min() >= 2 and got.max() <= 3 and got.std() > 0.2
    got = filled(write, "{dtype: i32, shape: 1000, fill: {random: 1, low: -1, high: 1}}")
    assert set(got.tolist()) == {-1, 0, 1}
    got = filled(write, "{dtype: e8m0, shape: 1000, fill: {random: 1, low: -2, high: 1}}")
    assert set(got.astype(float).tolist()) == {0.25, 0.5, 1.0, 2.0}
    got = filled(write, "{dtype: fp4, shape: 1000, fill: {random: 1}}")
    assert {abs(x) for x in got.astype(float).tolist()} == {abs(fp4(code)) for code in range(16)}


def test_fp4_is_packed_low_nibble_first() -> None:
    dtype = DTYPES["fp4"]
    array = np.array([[0.5, -6.0], [1.5, 0.0]]).astype(dtype.dtype())
    data = dtype.pack(array)
    assert data.tolist() == [0x1 | 0xF << 4, 0x3]
    assert [fp4(b >> shift & 15) for b in data.tolist() for shift in (0, 4)] == [
        0.5,
        -6.0,
        1.5,
        0.0,
    ]
    assert (dtype.unpack(data, (2, 2)).astype(float) == array.astype(float)).all()
    assert dtype.size(6) == 3


@pytest.mark.parametrize("name", list(DTYPES))
def test_every_type_survives_its_packing(name: str) -> None:
    dtype = DTYPES[name]
    codes = np.arange(16 if name == "fp4" else 256, dtype=np.uint8)
    array = np.resize(codes, 16 * dtype.dtype().itemsize).view(dtype.dtype())
    back = dtype.unpack(dtype.pack(array).copy(), array.shape)
    assert (back.view(np.uint8) == array.view(np.uint8)).all()
    assert dtype.pack(array).size == dtype.size(16)


@pytest.mark.parametrize("name", ["bf16", "f8e4m3", "f8e5m2", "fp4", "e8m0"])
def test_narrow_types_are_saved_exactly(name: str) -> None:
    dtype = DTYPES[name]
    codes = np.arange(16 if name == "fp4" else 254, dtype=np.uint8)
    array = (
        np.resize(codes, 508).view(dtype.dtype()) if name == "bf16" else codes.view(dtype.dtype())
    )
    wide = dtype.portable(array)
    assert wide.dtype == np.float32
    back = wide.astype(dtype.dtype())
    same = (back.view(np.uint8) == array.view(np.uint8)).reshape(array.size, -1).all(axis=1)
    assert (same | np.isnan(wide)).all()  # a NaN stays one


# What is refused: the document, and the place that the message must name (line:column).

HEAD = "grid: 1\nworkgroup: 64\n"
BAD = [
    ("", "1:1", "empty"),
    ("- 1\n", "1:1", "a launch file: expected a mapping"),
    ("grid: [1\n", "2:1", "expected ',' or ']'"),
    ("grid: 1\n", "1:1", "'workgroup' is missing"),
    (HEAD + "arguments: {}\ngird: 2\n", "4:1", "unknown key 'gird'"),
    (HEAD + "arguments: {}\ngrid: 2\n", "4:1", "'grid' is given twice"),
    ("grid: 0\nworkgroup: 64\narguments: {}\n", "1:7", "grid: 0 is not in 1 to"),
    ("grid: [1, 2, 3, 4]\nworkgroup: 64\narguments: {}\n", "1:7", "one to three sizes"),
    ("grid: 1.5\nworkgroup: 64\narguments: {}\n", "1:7", "1.5 is no whole number"),
    ("grid: '1'\nworkgroup: 64\narguments: {}\n", "1:7", "'1' is no number"),
    ("grid: {a: 1}\nworkgroup: 64\narguments: {}\n", "1:7", "expected text"),
    (HEAD + "arguments: [1]\n", "3:12", "arguments: expected a mapping"),
    (HEAD + "arguments: {a: b}\n", "3:16", "'b' is neither a number nor a buffer"),
    (HEAD + "arguments: {a: {f32: x}}\n", "3:22", "'x' is no number"),
    (HEAD + "arguments: {a: {i32: 1.5}}\n", "3:22", "no whole number"),
    (HEAD + "arguments: {a: {f32: 1, i32: 2}}\n", "3:16", "one value with its type"),
    (HEAD + "arguments: {a: {f33: 1}}\n", "3:17", "unknown key 'f33'"),
    (HEAD + "arguments: {a: {buffer: x}}\n", "3:25", "there is no buffer 'x'"),
    (HEAD + "buffers:\n  x: {dtype: f33, shape: 1}\narguments: {}\n", "4:14", "unknown type 'f33'"),
    (HEAD + "buffers:\n  x: {dtype: f32}\narguments: {}\n", "4:6", "'shape' is missing"),
    (
        HEAD + "buffers:\n  x: {dtype: f32, shape: []}\narguments: {}\n",
        "4:26",
        "one to eight sizes",
    ),
    (HEAD + "buffers:\n  x: {dtype: f32, shape: -1}\narguments: {}\n", "4:26", "-1 is not in 1 to"),
    (
        HEAD + "buffers:\n  x: {dtype: f32, shape: [1000000, 1000000]}\narguments: {}\n",
        "4:26",
        "4,000,000,000,000 bytes with the buffers before it",
    ),
    (HEAD + "buffers:\n  x: {dtype: fp4, shape: [2, 3]}\narguments: {}\n", "4:26", "multiple of 2"),
    (HEAD + "buffers: {x: &a [*a]}\narguments: {}\n", "3:14", "expected a mapping"),
    (HEAD + "arguments: {}\noutputs: {x: {save: y.npy}}\n", "4:11", "there is no such buffer"),
    (HEAD + "arguments: {\x07: 1}\n", "", "special characters"),
    (HEAD + "arguments: {? [a]\n : 1}\n", "3:15", "a key: expected text"),
    (HEAD + "arguments: !!python/object:os.system {}\nobject: ''\n", "4:9", "'' is no path"),
]


@pytest.mark.parametrize(("text", "place", "message"), BAD)
def test_bad_documents(write: WriteSpec, text: str, place: str, message: str) -> None:
    path = write(text)
    with pytest.raises(LaunchError) as caught:
        read_spec(path)
    assert message in str(caught.value)
    if place:
        assert str(caught.value).startswith(f"{path}:{place}: ")


# Within a buffer of 4 elements: its fill, and the message.
BAD_FILLS = [
    ("f32", "ones", "expected zeros"),
    ("f32", "{}", "expected one of zeros, constant"),
    ("f32", "{constant: 1, random: 2}", "expected one of"),
    ("f32", "{constant: 1, step: 2}", "'step' does not belong to 'constant'"),
    ("f32", "{constant: x}", "'x' is no number"),
    ("f32", "{constant: 1e39}", "does not fit in f32"),
    ("u8", "{constant: 256}", "does not fit in u8"),
    ("u8", "{range: 253}", "does not fit in u8"),
    ("i8", "{constant: 0.5}", "not whole numbers, as i8 needs"),
    ("i64", "{constant: 1e30}", "does not fit in i64"),
    ("u64", "{range: 9223372036854775807}", "leaves 64 bits"),
    ("e8m0", "{constant: 3}", "holds powers of two"),
    ("fp4", "{constant: 7}", "does not fit in fp4"),
    ("f8e4m3", "{constant: 1000}", "does not fit in f8e4m3"),
    ("f16", "{constant: 70000}", "does not fit in f16"),
    ("f32", "{random: -1}", "seed: -1 is not in 0 to"),
    ("f32", "{random: 1, low: 2, high: 1}", "low below high"),
    ("i8", "{random: 1, low: -200}", "-200 is not in -128 to 127"),
    ("i8", "{random: 1, low: 5, high: 4}", "low is above high"),
    ("f32", "{npy: missing.npy}", "No such file"),
    ("f32", "{npy: launch.yaml}", "not a .npy file"),
    ("f32", "{npy: shape.npy}", "shape is [3], expected [4]"),
    ("f32", "{npy: text.npy}", "no numbers"),
    ("f32", "{npy: object.npy}", "not a .npy file"),
    ("i32", "{npy: half.npy}", "not whole numbers"),
]


@pytest.mark.parametrize(("dtype", "fill", "message"), BAD_FILLS)
def test_bad_fills(write: WriteSpec, tmp_path: Path, dtype: str, fill: str, message: str) -> None:
    np.save(tmp_path / "shape.npy", np.zeros(3))
    np.save(tmp_path / "text.npy", np.array(["a"] * 4))
    np.save(tmp_path / "object.npy", np.array([None] * 4), allow_pickle=True)
    np.save(tmp_path / "half.npy", np.full(4, 0.5))
    with pytest.raises(LaunchError) as caught:
        filled(write, f"{{dtype: {dtype}, shape: 4, fill: {fill}}}")
    assert message in str(caught.value) and ":4:" in str(caught.value)


COMPARE = """grid: 1
workgroup: 64
buffers:
  x: {dtype: f32, shape: [2, 2]}
  y: {dtype: f32, shape: [2, 3]}
  i: {dtype: i32, shape: [2, 2]}
arguments: {}
outputs: {x: {compare: %s}}
"""
BAD_COMPARISONS = [
    ("{}", "expected one of npy, constant"),
    ("{rtol: 1}", "expected one of"),
    ("{constant: 1, rtol: -1}", "rtol is -1.0"),
    ("{constant: 1, atol: .inf}", "'.inf' is no number"),
    ("{buffer: z}", "there is no buffer 'z'"),
    ("{buffer: y}", "'y' has shape [2, 3], not [2, 2]"),
    ("{sum: [x, i]}", "'i' is i32, not f32"),
    ("{sum: []}", "sum of no buffer"),
    ("{sum: x}", "expected a list"),
    ("{matmul: {a: x}}", "'b' is missing"),
    ("{matmul: {a: x, b: y}}", "gives no [2, 2]"),
    ("{matmul: {a: y, b: y, a_scale: x}}", "do not divide"),
]


@pytest.mark.parametrize(("text", "message"), BAD_COMPARISONS)
def test_bad_comparisons(write: WriteSpec, text: str, message: str) -> None:
    with pytest.raises(LaunchError) as caught:
        read_spec(write(COMPARE % text))
    assert message in str(caught.value) and ":8:" in str(caught.value)


def test_files_that_must_not_be_written(write: WriteSpec) -> None:
    text = COMPARE.replace("compare: %s", "save: %s")
    with pytest.raises(LaunchError, match=r"does not end in \.npy"):
        read_spec(write(text % "x.txt"))
    clash = "object: x.npy\n" + text % "x.npy"
    with pytest.raises(LaunchError, match="would overwrite"):
        read_spec(write(clash))


@settings(deadline=None, max_examples=200)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "grid",
                        "workgroup",
                        "arguments",
                        "buffers",
                        "outputs",
                        "dtype",
                        "shape",
                        "fill",
                        "x",
                    ]
                ),
                inner,
                max_size=5,
            )
        ),
        max_leaves=20,
    )
)
def test_any_document_is_read_or_refused(document: Any) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x.yaml")
        path.write_text(yaml.safe_dump(document))
        with contextlib.suppress(CoasmError):
            read_spec(path)


# Runs, on a device that does nothing or something simple.

ARGUMENTS = [
    ("out", 0, 8, "global_buffer"),
    ("left", 8, 8, "global_buffer"),
    ("count", 16, 4, "by_value"),
    ("pad", 20, 4, "by_value"),
    ("alpha", 24, 4, "by_value"),
    ("pad", 28, 4, "by_value"),
]
DOCUMENT = """grid: [2, 3]
workgroup: [64, 2]
dynamic_lds: 256
buffers:
  left: {dtype: i32, shape: 4, fill: {range: 1}}
  out: {dtype: i32, shape: 4}
arguments:
  out: out
  left: {buffer: left, offset: 8}
  count: 0x10
  "@0x18": {f32: 1.5}
outputs:
  out: {compare: {sum: [left, left]}, save: out.npy}
"""


@pytest.fixture(scope="module")
def small(llvm: Llvm) -> CodeObject:
    return build(llvm, source(ARGUMENTS, 32))


def double(device: FakeDevice, co: CodeObject, geometry: Geometry, kernarg: bytes) -> None:
    at = {name: address for address, name in device.names.items()}
    device.buffers[at["out"]].view(np.int32)[:] = 2 * device.buffers[at["left"]].view(np.int32)


def test_a_run(write: WriteSpec, small: CodeObject, tmp_path: Path) -> None:
    device = FakeDevice(double)
    outcome = run(read_spec(write(DOCUMENT)), small, device)
    assert outcome.passed and outcome.comparisons[0].max_abs_err == 0
    ((name, geometry, block),) = device.launches
    assert name == "k"
    assert geometry == Geometry((2, 3, 1), (64, 2, 1), 256, 2)
    at = {label: address for address, label in device.names.items()}
    import struct

    assert block == struct.pack("<QQi4xf4x", at["out"], at["left"] + 8, 16, 1.5)
    assert outcome.saves[tmp_path / "out.npy"].tolist() == [2, 4, 6, 8]
    assert outcome.arrays["left"].tolist() == [1, 2, 3, 4]


def test_a_wrong_result(write: WriteSpec, small: CodeObject) -> None:
    outcome = run(read_spec(write(DOCUMENT)), small, FakeDevice())
    (found,) = outcome.comparisons
    assert not outcome.passed
    assert (found.wrong, found.first_wrong, found.got, found.expected) == (4, (0,), 0, 2)
    assert found.max_abs_err == 8


# What does not fit the kernel is refused where it stands in the file.
@pytest.mark.parametrize(
    ("old", "new", "place", "message"),
    [
        ("  count: 0x10\n", "", "8:3", "no value for @0x10 ('count')"),
        ("count:", "size:", "10:3", "no argument 'size'"),
        ("count: 0x10", "pad: 1", "10:3", "2 arguments 'pad'"),
        ("count: 0x10", "count: 0x100000000", "10:3", "does not fit in 4 bytes"),
        ("count: 0x10", "count: {f64: 1}", "10:3", "has 4 bytes, a f64 has 8"),
        ("count: 0x10", "count: left", "10:3", "has 4 bytes, a u64 has 8"),
        ('"@0x18"', '"@0x10"', "11:3", "is given twice"),
        ('"@0x18"', '"@0x19"', "11:3", "no argument at offset 0x19"),
    ],
)
def test_what_does_not_fit_the_kernel(
    write: WriteSpec, small: CodeObject, old: str, new: str, place: str, message: str
) -> None:
    path = write(DOCUMENT.replace(old, new))
    with pytest.raises(LaunchError) as caught:
        run(read_spec(path), small, FakeDevice())
    assert str(caught.value).startswith(f"{path}:{place}: ") and message in str(caught.value)


def test_the_kernel_must_be_there(write: WriteSpec, small: CodeObject) -> None:
    with pytest.raises(LaunchError, match="no kernel 'other'; there are k"):
        run(read_spec(write("kernel: other\n" + DOCUMENT)), small, FakeDevice())


# References.


def compared(write: WriteSpec, small: CodeObject, text: str, result: Any) -> Any:
    """The comparison of buffer x with *text* when the kernel leaves *result* there."""

    def leave(device: FakeDevice, *_: Any) -> None:
        at = {name: address for address, name in device.names.items()}
        device.buffers[at["x"]][:] = np.ascontiguousarray(result).reshape(-1).view(np.uint8)

    document = text + "arguments: {out: 0, left: null, count: 1, alpha: 1.0}\n"
    return run(read_spec(write(HEAD + document)), small, FakeDevice(leave)).comparisons[0]


def test_a_float_sum_is_rounded_once(write: WriteSpec, small: CodeObject) -> None:
    text = """buffers:
  a: {dtype: f16, shape: 8, fill: {random: 1}}
  b: {dtype: f32, shape: 8, fill: {random: 2}}
  x: {dtype: f16, shape: 8}
outputs: {x: {compare: {sum: [a, b, b]}}}
"""
    spec = read_spec(write(HEAD + text + "arguments: {}\n"))
    a, b = (spec.buffers[name].array.astype(np.float64) for name in "ab")
    right = (a + b + b).astype(np.float16)
    assert compared(write, small, text, right).passed
    assert not compared(write, small, text, np.nextafter(right, np.float16(9))).passed


def test_integers_wrap_around(write: WriteSpec, small: CodeObject) -> None:
    text = """buffers:
  a: {dtype: u8, shape: 2, fill: {constant: 200}}
  x: {dtype: u8, shape: 2}
outputs: {x: {compare: {%s: [a, a]}}}
"""
    assert compared(write, small, text % "sum", np.array([400 % 256] * 2, np.uint8)).passed
    assert compared(write, small, text % "product", np.array([40000 % 256] * 2, np.uint8)).passed


def test_64_bit_differences_are_exact(write: WriteSpec, small: CodeObject) -> None:
    text = """buffers:
  x: {dtype: u64, shape: 2}
outputs: {x: {compare: {constant: 0, atol: 1}}}
"""
    found = compared(write, small, text, np.array([1, 1 << 63], np.uint64))
    assert (found.wrong, found.first_wrong, found.got) == (1, (1,), 1 << 63)
    assert found.max_abs_err == 2.0**63


def test_a_scaled_matmul(write: WriteSpec, small: CodeObject) -> None:
    text = """buffers:
  a: {dtype: fp4, shape: [3, 64], fill: {random: 1}}
  b: {dtype: f8e4m3, shape: [5, 64], fill: {random: 2, low: -8, high: 8}}
  s: {dtype: e8m0, shape: [3, 2], fill: {random: 3}}
  x: {dtype: f32, shape: [3, 5]}
outputs: {x: {compare: {matmul: {a: a, b: b, a_scale: s}, rtol: %s}}}
"""
    spec = read_spec(write(HEAD + text % 0 + "arguments: {}\n"))
    a, b, s = (spec.buffers[name].array.astype(float).tolist() for name in "abs")
    exact = [
        [math.fsum(a[i][k] * s[i][k // 32] * b[j][k] for k in range(64)) for j in range(5)]
        for i in range(3)
    ]
    result = np.array(exact, np.float32)
    assert compared(write, small, text % 0, result).passed
    off = result * np.float32(1.01)
    assert not compared(write, small, text % 0.001, off).passed
    assert compared(write, small, text % 0.02, off).passed


@pytest.mark.parametrize(
    ("expected", "got", "passed"),
    [
        ("nan", math.nan, True),
        ("inf", math.inf, True),
        ("inf", -math.inf, False),
        ("0", math.nan, False),
        ("0", -0.0, True),
        ("1", 1.0000001, False),
    ],
)
def test_special_numbers(
    write: WriteSpec, small: CodeObject, tmp_path: Path, expected: str, got: float, passed: bool
) -> None:
    np.save(tmp_path / "e.npy", np.array([float(expected)], np.float32))
    text = "buffers:\n  x: {dtype: f32, shape: 1}\noutputs: {x: {compare: {npy: e.npy}}}\n"
    assert compared(write, small, text, np.array([got], np.float32)).passed is passed


# The examples.


@pytest.mark.parametrize("name", ["vector_add", "mx_gemm", "reverse"])
def test_the_examples_are_whole(llvm: Llvm, name: str) -> None:
    spec: Spec = read_spec(Path(__file__).parent.parent.parent / "examples" / f"{name}.yaml")
    co = spec.load_object()
    device = FakeDevice()
    outcome = run(spec, co, device)
    assert len(device.launches) == 1 and not outcome.passed  # nothing ran
