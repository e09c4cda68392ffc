"""A kernel in Triton, compiled without a GPU and run on the emulator."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

import coasm
from coasm.emulator import Options
from coasm.launch.arguments import slots
from coasm.llvm import Llvm
from tests.compilers.cases import Array, Case

__all__ = ["compile_case", "differences"]

_SCALARS = {"fp32": np.float32, "i64": np.int64, "i32": np.int32}


def compile_case(case: Case, target: str, llvm: Llvm) -> tuple[bytes, int]:
    """The code object, and how much LDS the kernel is given.

    Pointers, and sizes that are multiples of 16, are said to be so, as Triton's launcher does.
    """
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    os.environ.setdefault("TRITON_HIP_LLD_PATH", str(llvm.lld))
    names = case.kernel.arg_names
    signature = {name: kind for name, (kind, _) in zip(names, case.arguments, strict=False)}
    signature |= dict.fromkeys(case.constants, "constexpr")
    attributes: dict[tuple[int, ...], list[list[Any]]] = {}
    for at, (kind, value) in enumerate(case.arguments):
        if kind[0] == "*":
            attributes[at,] = [["tt.divisibility", 16], ["tt.pointer_range", 32]]
        elif kind[0] == "i" and value % 16 == 0:
            attributes[at,] = [["tt.divisibility", 16]]
    source = ASTSource(
        fn=case.kernel, signature=signature, constexprs=case.constants, attrs=attributes
    )
    options = {"num_warps": case.warps, **case.options}
    made = triton.compile(source, target=GPUTarget("hip", target, 64), options=options)
    return made.asm["hsaco"], made.metadata.shared


def _argument(kind: str, value: Any) -> Any:
    if kind[0] != "*":
        return _SCALARS[kind](value)
    return np.ascontiguousarray(value).reshape(-1).view(np.uint8).copy()


def _wrong(got: Array, want: Array, tolerance: float) -> Any:
    if got.dtype.kind in "iub":
        return got != want
    a, b = got.astype(np.float64), want.astype(np.float64)
    with np.errstate(all="ignore"):
        near = np.abs(a - b) <= tolerance * np.maximum(np.abs(b), 0.1)
    return ~((a == b) | near | (np.isnan(a) & np.isnan(b)))


def differences(case: Case, target: str, llvm: Llvm, checks: Options | None = None) -> str:
    """What of the outputs is otherwise than expected; empty: nothing."""
    data, shared = compile_case(case, target, llvm)
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
        options=checks,
    )
    last = max(at for at, (kind, _) in enumerate(case.arguments) if kind[0] == "*")
    for at, want in {last: case.want, **case.also}.items():
        found = outcome.arrays[f"@{visible[at].offset:#x}"]
        got = found.reshape(-1).view(np.uint8).view(want.dtype)
        wrong = _wrong(got, want.reshape(-1), case.tolerance)
        if wrong.any():
            where = np.flatnonzero(wrong)[:5]
            return (
                f"argument {at}: {wrong.sum()} of {wrong.size} wrong, at {where}: "
                f"{got[where]}, not {want.reshape(-1)[where]}"
            )
    return ""
