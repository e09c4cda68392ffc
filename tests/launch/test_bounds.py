"""What a launch file may ask for: numbers in 400 bytes must not cost gigabytes or minutes.

Values are NumPy's, of whole arrays: that some elements are worked on at a time changes none.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from coasm.emulator import Memory, Options, launch
from coasm.errors import CoasmError, LaunchError
from coasm.launch import buffers, references
from coasm.launch.references import compare
from coasm.launch.spec import Spec, read_spec
from coasm.llvm import Llvm
from tests.emulator.harness import assemble

_HEAD = "grid: 1\nworkgroup: 64\narguments: {}\n"


def _spec(folder: Path, text: str) -> Spec:
    path = folder / "launch.yaml"
    path.write_text(_HEAD + text)
    return read_spec(path)


def _outputs(*compares: str) -> str:
    return "outputs:\n" + "".join(f"  x{n}: {{compare: {c}}}\n" for n, c in enumerate(compares))


_LARGE = {
    "one buffer": ("buffers: {a: {dtype: f32, shape: 67108865}}\n", "4:34"),
    "a product of sizes": (
        f"buffers: {{a: {{dtype: f32, shape: [{', '.join(['1099511627776'] * 8)}]}}}}\n",
        "4:34",
    ),
    "small elements": ("buffers: {a: {dtype: f8e4m3, shape: 67108865}}\n", "4:37"),
    "halves of bytes": ("buffers: {a: {dtype: fp4, shape: 67108866}}\n", "4:34"),
    "together": (
        "buffers:\n  a: {dtype: f64, shape: 30000000}\n  b: {dtype: f64, shape: 30000000}\n",
        "6:26",
    ),
    "terms": (
        "buffers: {x0: {dtype: f32, shape: 1000000}}\n"
        + _outputs(f"{{sum: [{', '.join(['x0'] * 269)}]}}"),
        "6:17",
    ),
    "terms of all outputs": (
        "buffers: {x0: {dtype: f32, shape: 1000000}, x1: {dtype: f32, shape: 1000000}}\n"
        + _outputs(*[f"{{product: [{', '.join(['x0'] * 135)}]}}"] * 2),
        "7:17",
    ),
    "products": (
        "buffers:\n  a: {dtype: i8, shape: [5000, 5000]}\n  x0: {dtype: i8, shape: [5000, 5000]}\n"
        + _outputs("{matmul: {a: a, b: a}}"),
        "8:17",
    ),
}


@pytest.mark.parametrize("what", _LARGE)
def test_what_is_too_much_is_refused_where_it_stands(what: str, tmp_path: Path) -> None:
    text, place = _LARGE[what]
    with pytest.raises(LaunchError, match="COASM_MAX_BUFFERS sets another") as caught:
        _spec(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path / 'launch.yaml'}:{place}: "), caught.value


def test_the_limit_can_be_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "buffers: {a: {dtype: u8, shape: 100}}\n"
    monkeypatch.setenv("COASM_MAX_BUFFERS", "399")
    with pytest.raises(LaunchError, match="400 bytes with the buffers before it"):
        _spec(tmp_path, text)
    monkeypatch.setenv("COASM_MAX_BUFFERS", "400")
    assert _spec(tmp_path, text).buffers["a"].array.size == 100
    monkeypatch.setenv("COASM_MAX_BUFFERS", "1G")
    with pytest.raises(LaunchError, match="COASM_MAX_BUFFERS=1G: expected a number of bytes"):
        _spec(tmp_path, text)


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffers, "_PIECE", 7)
    monkeypatch.setattr(references, "_DEPTH", 40)


@pytest.mark.usefixtures("small_pieces")
def test_fills_by_pieces(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(33, dtype=np.float64).reshape(3, 11) / 4)
    made = _spec(
        tmp_path,
        "buffers:\n"
        "  u: {dtype: f8e4m3, shape: [3, 11], fill: {random: 5, low: -3, high: 7}}\n"
        "  r: {dtype: f32, shape: [3, 11], fill: {range: 0.5, step: -0.25}}\n"
        "  i: {dtype: i16, shape: 33, fill: {range: -40, step: 3}}\n"
        "  n: {dtype: bf16, shape: [3, 11], fill: {npy: a.npy}}\n",
    ).buffers
    drawn = np.random.default_rng(5).uniform(-3, 7, (3, 11)).astype(ml_dtypes.float8_e4m3fn)
    assert made["u"].array.tobytes() == drawn.tobytes()
    assert made["r"].array.tolist() == (0.5 - 0.25 * np.arange(33)).reshape(3, 11).tolist()
    assert made["i"].array.tolist() == list(range(-40, 59, 3))
    assert made["n"].array.tolist() == (np.arange(33) / 4).reshape(3, 11).tolist()


_TERMS = {
    "matmul": "{matmul: {a: a, b: b, a_scale: s}, rtol: 1.0e-6}",
    "sum": "{sum: [p, q]}",
    "product": "{product: [p, q]}",
    "buffer": "{buffer: p}",
    "constant": "{constant: 2.5}",
}


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("rows", (1, 5, 24))
@pytest.mark.parametrize("kind", _TERMS)
def test_comparisons_by_pieces(kind: str, rows: int, tmp_path: Path) -> None:
    columns = 120 // rows
    shape = f"[{rows}, {columns}]"
    spec = _spec(
        tmp_path,
        "buffers:\n"
        f"  a: {{dtype: f16, shape: [{rows}, 64], fill: {{random: 1}}}}\n"
        f"  b: {{dtype: f16, shape: [{columns}, 64], fill: {{random: 2}}}}\n"
        f"  s: {{dtype: e8m0, shape: [{rows}, 2], fill: {{random: 3}}}}\n"
        f"  p: {{dtype: f16, shape: {shape}, fill: {{random: 4}}}}\n"
        f"  q: {{dtype: f16, shape: {shape}, fill: {{random: 5}}}}\n"
        f"  x0: {{dtype: f32, shape: {shape}}}\n" + _outputs(_TERMS[kind]),
    )
    made: dict[str, Any] = {n: b.array.astype(np.float64) for n, b in spec.buffers.items()}
    scaled = made["a"].reshape(rows, 2, 32) * made["s"][:, :, None]
    want = {
        "matmul": scaled.reshape(rows, 64) @ made["b"].T,
        "sum": made["p"] + made["q"],
        "product": made["p"] * made["q"],
        "buffer": made["p"],
        "constant": np.full((rows, columns), 2.5),
    }[kind].astype(np.float32)
    expected = spec.outputs[0].expected
    assert expected is not None
    assert compare("x0", expected, spec.buffers, want).passed
    places = [(0, 3), (rows - 1, columns - 1)]
    for place in places:
        want[place] += 64
    found = compare("x0", expected, spec.buffers, want)
    assert (found.wrong, found.first_wrong) == (2, (0, 3))
    assert found.got == want[0, 3] and 63.9 < found.max_abs_err < 64.1


def test_a_grid_of_more_waves_than_instructions(llvm: Llvm) -> None:
    co = assemble(llvm, "s_endpgm")
    with pytest.raises(CoasmError, match=r"8,589,934,590 waves.*--max-instructions sets another"):
        launch(
            co,
            co.kernels[0],
            grid=((1 << 32) - 1, 1, 1),
            workgroup=(65, 1, 1),
            kernarg=bytes(64),
            memory=Memory(),
            llvm=llvm,
        )
    done = launch(
        co,
        co.kernels[0],
        grid=(10, 1, 1),
        workgroup=(65, 1, 1),
        kernarg=bytes(64),
        memory=Memory(),
        llvm=llvm,
        options=Options(max_instructions=20),
    )
    assert done.wave_instructions == 20


_CHILD = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (1500 << 20,) * 2)
from coasm.launch.references import compare
from coasm.launch.spec import read_spec
spec = read_spec(sys.argv[1])
for output in spec.outputs:
    array = spec.buffers[output.name].array
    print(compare(output.name, output.expected, spec.buffers, array.copy()).wrong > 0)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_AS")
def test_the_largest_buffers_take_their_bytes(tmp_path: Path) -> None:
    """33 million numbers of 8 bits, twice; in float64, and six arrays of those, it is 1.6 GB."""
    size = 33 << 20
    text = (
        f"buffers:\n  x0: {{dtype: f8e4m3, shape: {size}, fill: {{random: 1}}}}\n"
        f"  x1: {{dtype: i8, shape: {size - (3 << 20)}, fill: {{random: 2}}}}\n"
    )
    (tmp_path / "launch.yaml").write_text(
        _HEAD + text + _outputs("{sum: [x0, x0]}", "{constant: 1}")
    )
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, str(tmp_path / "launch.yaml")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "True\nTrue\n", done.stderr
