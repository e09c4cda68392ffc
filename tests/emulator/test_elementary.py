"""Elementary functions as clang writes them out, against NumPy in float64.

The bounds of exp and log are those of the OpenCL C specification ("Relative Error as ULPs", 3 ulp,
2 for half). Sine and cosine are the hardware's of ``x / (2 pi)``, so that two roundings of the
argument count: ``|x| * 2**-23`` for float, ``|x| * 2**-10`` for half, and the result's own.
"""

from __future__ import annotations

import numpy as np
import pytest

from coasm.llvm import Llvm
from tests.emulator.harness import compile_source, run

_NAMES = ("exp", "exp2", "exp10", "log", "log2", "log10", "sin", "cos")
_TYPES = {"float": np.float32, "_Float16": np.float16}
_SOURCE = """
#define GLOBAL __attribute__((address_space(1)))
#define FUNCTION(T, name) \\
  __attribute__((amdgpu_kernel)) void T##_##name(GLOBAL T *y, GLOBAL const T *x) { \\
    unsigned i = __builtin_amdgcn_workitem_id_x(); \\
    y[i] = __builtin_elementwise_##name(x[i]); \\
  }
"""


def _arguments(name: str, dtype: type[np.floating]) -> np.ndarray:
    """256 of them: over the range in which the result is a number, edges, and what lies beyond."""
    rng = np.random.default_rng(5)
    info = np.finfo(dtype)
    if name.startswith("log"):
        with np.errstate(all="ignore"):
            wide = np.exp2(rng.uniform(np.log2(float(info.smallest_subnormal)), info.maxexp, 256))
        edges = [0.0, 1.0, np.inf, -1.0, np.nan, info.max, info.smallest_normal]
    else:
        limit = {"exp2": 1.0, "exp": np.log(2), "exp10": np.log10(2)}.get(name, 0) * info.maxexp
        wide = rng.uniform(-1.2 * limit, 1.05 * limit, 256) if limit else rng.uniform(-50, 50, 256)
        edges = [0.0, -0.0, 1.0, -1.0, 0.5, np.nan]
        edges += [np.inf, -np.inf] if limit else []
    with np.errstate(all="ignore"):
        return np.concatenate([edges, wide])[:256].astype(dtype)


@pytest.mark.parametrize("level", ["-O0", "-O3"])
@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_elementary_functions(target: str, level: str, llvm: Llvm) -> None:
    kernels = "".join(f"FUNCTION({t}, {name})\n" for t in _TYPES for name in _NAMES)
    co = compile_source(llvm, _SOURCE + kernels, target, "-x", "c", level)
    for type_name, dtype in _TYPES.items():
        for name in _NAMES:
            x = _arguments(name, dtype)
            y = np.zeros(256, dtype)
            run(llvm, co, f"{type_name}_{name}", [y, x], workgroup=256)
            with np.errstate(all="ignore"):
                wide = x.astype(np.float64)
                exact = 10.0**wide if name == "exp10" else getattr(np, name)(wide)
                nearest = exact.astype(dtype)
                ulp = np.spacing(np.abs(nearest)).astype(np.float64)
                if name in ("sin", "cos"):
                    bits = 23 if dtype == np.float32 else 10
                    bound = (np.abs(wide) + 1) * 2.0**-bits
                else:
                    bound = ulp * (3 if dtype == np.float32 else 2)
                error = np.abs(y.astype(np.float64) - exact)
            plain = np.isfinite(nearest) & np.isfinite(y)
            case = f"{type_name} {name}"
            assert plain.sum() > 200, case
            beyond = plain & (error > bound)
            assert not beyond.any(), (case, x[beyond], y[beyond])
            # Infinite where the nearest is, or one rounding from the largest number.
            far = np.abs(exact) > float(np.finfo(dtype).max) * (1 - 2.0**-9)
            assert (np.isnan(y) == np.isnan(nearest)).all(), case
            assert (np.isinf(y) == np.isinf(nearest))[~far | np.isnan(exact)].all(), case
