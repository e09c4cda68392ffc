"""Kernels that Triton compiles, on the emulator, against NumPy."""

from __future__ import annotations

import importlib.util
import os
from typing import Any

import numpy as np
import pytest

import coasm
from coasm.launch.arguments import slots
from coasm.llvm import Llvm

pytestmark = pytest.mark.slow

if importlib.util.find_spec("triton") is None:
    pytest.skip("triton is not installed (pip install '.[triton]')", allow_module_level=True)

from tests.compilers.triton_kernels import CASES, Case  # noqa: E402  (imports triton)


def _compile(case: Case, target: str, llvm: Llvm) -> tuple[bytes, int]:
    """The code object, and how much LDS the kernel is given."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    os.environ.setdefault("TRITON_HIP_LLD_PATH", str(llvm.lld))
    names = case.kernel.arg_names
    signature = {name: kind for name, (kind, _) in zip(names, case.arguments, strict=False)}
    signature |= dict.fromkeys(case.constants, "constexpr")
    source = ASTSource(fn=case.kernel, signature=signature, constexprs=case.constants)
    options = {"num_warps": case.warps, **case.options}
    made = triton.compile(source, target=GPUTarget("hip", target, 64), options=options)
    return made.asm["hsaco"], made.metadata.shared


def _argument(kind: str, value: Any) -> Any:
    if kind[0] != "*":
        return np.int32(value)
    return np.ascontiguousarray(value).reshape(-1).view(np.uint8).copy()


def _wrong(got: np.ndarray[Any, Any], want: np.ndarray[Any, Any], tolerance: float) -> Any:
    if got.dtype.kind in "iu":
        return got != want
    a, b = got.astype(np.float64), want.astype(np.float64)
    near = np.abs(a - b) <= tolerance * np.maximum(np.abs(b), 0.1)
    return ~((a == b) | near | (np.isnan(a) & np.isnan(b)))


def _pairs() -> list[Any]:
    """Each kernel for one of its targets in turn, matrix products for all of them."""
    found = []
    for at, case in enumerate(CASES):
        every = case.targets if "matmul" in case.name else (case.targets[at % len(case.targets)],)
        found += [pytest.param(case, target, id=f"{case.name}-{target}") for target in every]
    return found


@pytest.mark.parametrize(("case", "target"), _pairs())
@pytest.mark.filterwarnings("ignore")
def test_a_kernel(case: Case, target: str, llvm: Llvm) -> None:
    data, shared = _compile(case, target, llvm)
    co = coasm.load(data)
    kernel = co.kernels[0]
    visible = [s for s in slots(kernel) if not s.padding and not s.kind.startswith("hidden")]
    given = {
        f"@{slot.offset:#x}": _argument(*argument)
        for slot, argument in zip(visible, case.arguments, strict=False)
    }
    for slot in visible[len(case.arguments) :]:  # scratch of Triton's own, which is not used here
        given[f"@{slot.offset:#x}"] = None
    fixed = int(kernel.metadata.get(".group_segment_fixed_size") or 0)
    outcome = coasm.run(
        co,
        given,
        grid=case.grid,
        workgroup=case.warps * 64,
        backend="emulator",
        dynamic_lds=max(0, shared - fixed),
    )
    at = max(at for at, (kind, _) in enumerate(case.arguments) if kind[0] == "*")
    found = outcome.arrays[f"@{visible[at].offset:#x}"]
    got = found.reshape(-1).view(np.uint8).view(case.want.dtype)
    want = case.want.reshape(-1)
    wrong = _wrong(got, want, case.tolerance)
    assert not wrong.any(), (wrong.sum(), got[wrong][:5], want[wrong][:5])
