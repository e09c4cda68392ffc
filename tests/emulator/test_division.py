"""Division as compilers write it (div_scale, rcp, fma, div_fmas, div_fixup) against IEEE 754."""

from __future__ import annotations

import random

import numpy as np
import pytest

from coasm.codeobject import CodeObject
from coasm.llvm import Llvm
from tests.emulator.harness import compile_source, run

_SOURCE = """
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#define DIVIDE(name, type) \\
  kernel void name(global const type *a, global const type *b, global type *c) { \\
    int i = __builtin_amdgcn_workgroup_id_x() * 64 + __builtin_amdgcn_workitem_id_x(); \\
    c[i] = a[i] / b[i]; }
DIVIDE(f64, double)
DIVIDE(f32, float)
DIVIDE(f16, half)
"""
_TYPES = {"f64": np.float64, "f32": np.float32, "f16": np.float16}
_BITS = {"f64": np.uint64, "f32": np.uint32, "f16": np.uint16}


def _object(llvm: Llvm, target: str) -> CodeObject:
    options = ("-x", "cl", "-cl-std=CL2.0", "-O2", "-Xclang", "-finclude-default-header")
    return compile_source(llvm, _SOURCE, target, *options, "-cl-fp32-correctly-rounded-divide-sqrt")


def _edges(kind: str) -> np.ndarray:
    info = np.finfo(_TYPES[kind])
    smallest, normal, largest = (
        float(v) for v in (info.smallest_subnormal, info.smallest_normal, info.max)
    )
    values = [0.0, 1.0, 3.0, 1 / 3, 0.1, np.pi, np.inf, np.nan, smallest, 3 * smallest, normal,
              normal - smallest, 2 * normal, 1.5 * normal, largest, largest / 2, largest / 3,
              1 / normal, np.sqrt(normal), np.sqrt(largest)]  # fmt: skip
    if kind == "f64":
        values += [1e308, 1e-308]
    with np.errstate(over="ignore"):
        both = np.array(values + [-v for v in values], np.float64).astype(_TYPES[kind])
    return both


def _pairs(kind: str, seed: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Every pair of edges, then random ones, among them those with denormal quotients."""
    edges = _edges(kind)
    a, b = (grid.reshape(-1) for grid in np.meshgrid(edges, edges))
    draw = random.Random(seed)
    size = np.dtype(_BITS[kind]).itemsize * 8
    raw = np.array([[draw.randrange(1 << size) for _ in range(count)] for _ in "ab"], _BITS[kind])
    x, y = raw[0].view(_TYPES[kind]), raw[1].view(_TYPES[kind])
    fraction = np.finfo(_TYPES[kind]).nmant
    low, high = np.finfo(_TYPES[kind]).minexp - fraction - 1, np.finfo(_TYPES[kind]).minexp + 2
    powers = np.array([draw.randrange(low, high) for _ in range(count)])
    shift = np.array([draw.randrange(0, -low // 2) for _ in range(count)])
    with np.errstate(all="ignore"):
        top = np.frexp(np.abs(x))[0].astype(np.float64)
        bottom = np.frexp(np.abs(y))[0].astype(np.float64)
        n = np.ldexp(top, np.maximum(powers + shift, low)).astype(_TYPES[kind])
        d = np.ldexp(bottom, shift).astype(_TYPES[kind])
    a, b = np.concatenate([a, x, n]), np.concatenate([b, y, d])
    pad = -len(a) % 64
    return np.concatenate([a, a[:pad]]), np.concatenate([b, b[:pad]])


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
@pytest.mark.parametrize("kind", ["f64", "f32", "f16"])
def test_compiled_division_is_rounded_once(llvm: Llvm, kind: str, target: str) -> None:
    a, b = _pairs(kind, 5, 700)
    c = np.zeros_like(a)
    run(llvm, _object(llvm, target), kind, [a, b, c], grid=(len(a) // 64, 1, 1))
    with np.errstate(all="ignore"):
        want = a / b
    bits = _BITS[kind]
    wrong = np.flatnonzero((c.view(bits) != want.view(bits)) & ~(np.isnan(c) & np.isnan(want)))
    shown = [f"{a[at]!r} / {b[at]!r} = {c[at]!r}, not {want[at]!r}" for at in wrong[:8]]
    assert not wrong.size, f"{wrong.size}: " + "; ".join(shown)
