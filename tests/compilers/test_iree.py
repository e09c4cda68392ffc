"""Kernels that IREE compiles for its ROCm target, on the emulator, against NumPy."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import coasm
from coasm.launch.arguments import slots

pytestmark = pytest.mark.slow
_COMPILER = Path(sys.executable).with_name("iree-compile")

if not _COMPILER.is_file():
    pytest.skip("IREE's compiler is not installed (pip install '.[iree]')", allow_module_level=True)

_MATMUL = """
func.func @f(%a: tensor<64x96xf16>, %b: tensor<96x80xf16>) -> tensor<64x80xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64x80xf32>
  %i = linalg.fill ins(%z : f32) outs(%e : tensor<64x80xf32>) -> tensor<64x80xf32>
  %r = linalg.matmul ins(%a, %b : tensor<64x96xf16>, tensor<96x80xf16>)
                     outs(%i : tensor<64x80xf32>) -> tensor<64x80xf32>
  return %r : tensor<64x80xf32>
}
"""
_SOFTMAX = """
func.func @f(%a: tensor<12x200xf32>) -> tensor<12x200xf32> {
  %e = tensor.empty() : tensor<12x200xf32>
  %r = linalg.softmax dimension(1) ins(%a : tensor<12x200xf32>)
                                   outs(%e : tensor<12x200xf32>) -> tensor<12x200xf32>
  return %r : tensor<12x200xf32>
}
"""
_TANH_SUM = """
func.func @f(%a: tensor<40x300xf32>) -> tensor<40xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<40xf32>
  %i = linalg.fill ins(%z : f32) outs(%e : tensor<40xf32>) -> tensor<40xf32>
  %r = linalg.generic {
      indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>],
      iterator_types = ["parallel", "reduction"]
    } ins(%a : tensor<40x300xf32>) outs(%i : tensor<40xf32>) {
  ^bb0(%x: f32, %y: f32):
    %t = math.tanh %x : f32
    %s = arith.addf %t, %y : f32
    linalg.yield %s : f32
  } -> tensor<40xf32>
  return %r : tensor<40xf32>
}
"""


def _cases() -> list[tuple[str, tuple[Any, ...], Any, int, float]]:
    """Program, its inputs, what comes out, workgroups, and by how much that may be off."""
    draw = np.random.default_rng(1)
    a = draw.integers(-3, 4, (64, 96)).astype(np.float16)
    b = draw.integers(-3, 4, (96, 80)).astype(np.float16)
    rows, table = (draw.standard_normal(s).astype(np.float32) for s in ((12, 200), (40, 300)))
    powers = np.exp(rows.astype(np.float64))
    return [
        (_MATMUL, (a, b), a.astype(np.float64) @ b.astype(np.float64), 3, 0.0),
        (_SOFTMAX, (rows,), powers / powers.sum(1, keepdims=True), 12, 1e-7),
        (_TANH_SUM, (table,), np.tanh(table.astype(np.float64)).sum(1), 40, 2e-5),
    ]


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
@pytest.mark.parametrize("case", _cases(), ids=["matmul", "softmax", "tanh_sum"])
def test_a_dispatch(case: Any, target: str, tmp_path: Path) -> None:
    text, inputs, want, workgroups, tolerance = case
    source = tmp_path / "f.mlir"
    source.write_text(text)
    subprocess.run(
        [_COMPILER, source, "-o", tmp_path / "f.vmfb", "--iree-hal-target-backends=rocm",
         f"--iree-rocm-target={target}", f"--iree-hal-dump-executable-binaries-to={tmp_path}"],
        check=True,
    )  # fmt: skip
    co = coasm.load(next(tmp_path.glob("*.hsaco")))
    kernel = co.kernels[0]
    buffers = (*inputs, np.zeros(want.shape, np.float32))
    places = [slot.offset for slot in slots(kernel) if not slot.padding]
    given = dict(zip(places, buffers, strict=True))
    workgroup = tuple(kernel.metadata[".reqd_workgroup_size"])
    outcome = coasm.run(co, given, grid=workgroups, workgroup=workgroup, backend="emulator")
    assert np.abs(outcome.arrays[f"@{places[-1]:#x}"] - want).max() <= tolerance
