"""Launches: kernel arguments and geometry, the devices, and what is known of families of kernels.

:func:`run` launches any kernel on arrays, :func:`run_spec` what a launch file describes, and
:func:`run_family` a problem on a kernel of a family. All run on the emulator where there is no GPU.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from coasm.codeobject import CodeObject
from coasm.errors import LaunchError
from coasm.opening import open_code_object

if TYPE_CHECKING:
    from coasm.emulator import Options
    from coasm.launch.arguments import Value
    from coasm.launch.families.f4gemm.product import Product
    from coasm.launch.general import Pointer, Result
    from coasm.launch.spec import Outcome

__all__ = ["run", "run_f4gemm", "run_family", "run_spec"]


def run(
    source: CodeObject | str | os.PathLike[str] | bytes,
    arguments: Mapping[str | int, Any],
    *,
    grid: int | tuple[int, ...],
    workgroup: int | tuple[int, ...],
    kernel: str | None = None,
    dynamic_lds: int = 0,
    backend: str = "auto",
    iterations: int = 0,
    options: Options | None = None,
    llvm: str | None = None,
) -> Result:
    """Launch one kernel of a code object.

    *arguments* are by name, or by offset as an int or as ``"@0x60"``: a NumPy array is copied
    into a buffer and given by its address, None is a null pointer; numbers, bytes and
    :class:`~coasm.launch.arguments.Scalar` are values. *grid* is in workgroups, *workgroup* in
    work-items. *backend* is ``auto``, ``emulator`` or ``hip``.

    Returns:
        The arrays as the kernel left them, by the argument's name or ``@0x…`` (new arrays: those
        given are not changed), and what the launch took.

    Raises:
        CoasmError: arguments or geometry do not fit the kernel, no device, or the launch failed.
    """
    import numpy as np

    from coasm.launch.arguments import Geometry
    from coasm.launch.backends import open_device
    from coasm.launch.general import Pointer, launch, sizes, the_kernel

    co = open_code_object(source, llvm=llvm)
    entry = the_kernel(co, kernel)
    groups, dimensions = sizes(grid, "grid")
    geometry = Geometry(groups, sizes(workgroup, "workgroup")[0], dynamic_lds, dimensions)
    buffers: dict[str, Any] = {}
    values: dict[str | int, Value | Pointer] = {}
    for key, value in arguments.items():
        if isinstance(value, np.ndarray):
            name = key if isinstance(key, str) else f"@{key:#x}"
            buffers[name] = value
            values[key] = Pointer(name)
        elif isinstance(value, np.generic):
            values[key] = value.tobytes()
        else:
            values[key] = 0 if value is None else value
    device, note = open_device(backend, co.target, llvm=llvm, options=options)
    try:
        result = launch(device, co, entry, geometry, values, buffers, iterations=iterations)
    finally:
        device.close()
    return result._replace(note=note)


def run_spec(
    path: str | os.PathLike[str],
    *,
    source: CodeObject | str | os.PathLike[str] | bytes | None = None,
    backend: str = "auto",
    iterations: int = 0,
    options: Options | None = None,
    llvm: str | None = None,
) -> Outcome:
    """Run what a launch file describes; *source* stands in for the object that it names.

    Nothing is written: the arrays that the file asks to save are in the outcome.

    Raises:
        LaunchError: the file is not a launch file; the text names line and column.
        CoasmError: as :func:`run`.
    """
    from coasm.launch.backends import open_device
    from coasm.launch.spec import read_spec
    from coasm.launch.spec import run as room

    spec = read_spec(path)
    co = spec.load_object(llvm) if source is None else open_code_object(source, llvm=llvm)
    device, note = open_device(backend, co.target, llvm=llvm, options=options)
    try:
        return room(spec, co, device, iterations=iterations)._replace(note=note)
    finally:
        device.close()


def run_family(
    name: str,
    problem: Mapping[str, Any],
    *,
    source: CodeObject | str | os.PathLike[str] | bytes | None = None,
    seed: int = 0,
    verify: bool = True,
    iterations: int = 0,
    backend: str = "auto",
    options: Options | None = None,
    llvm: str | None = None,
) -> Any:
    """Run a problem on a kernel of a family and compare the result with the reference.

    *problem* has the options of ``coasm run NAME`` by their names, as in ``{"m": 512, "co_dir":
    "rebuilt"}``; what it leaves out has its default. With *source* that object is run.

    Returns:
        The family's own: an :class:`~coasm.launch.family.Outcome` at least.

    Raises:
        LaunchError: no such family or option, or a part of the problem is not given.
        CoasmError: no such kernel or object, what does not fit it, or the launch failed.
    """
    from coasm.launch.backends import open_device
    from coasm.launch.families import family_of

    family = family_of(name)
    asked = family.asked(problem)
    if not family.whole(asked):
        raise LaunchError(f"{name}: give {family.flags}")
    co = None if source is None else open_code_object(source, llvm=llvm)
    plan = family.plan(asked, None if co is None else (co.name, co))
    device, _ = open_device(backend, plan.target, llvm=llvm, options=options)
    try:
        (check,) = plan.checks(device)
        return plan.run(device, check, seed=seed, verify=verify, iterations=iterations)
    finally:
        device.close()


def run_f4gemm(
    m: int,
    n: int,
    k: int,
    *,
    source: CodeObject | str | os.PathLike[str] | bytes | None = None,
    co_dir: str | os.PathLike[str] | None = None,
    kernel: str | None = None,
    bpreshuffle: bool | None = None,
    log2_split: int = 0,
    seed: int = 0,
    verify: bool = True,
    iterations: int = 0,
    backend: str = "auto",
    options: Options | None = None,
    llvm: str | None = None,
) -> Product:
    """Run a matrix product on one of the f4gemm kernels and compare it with the exact result.

    *co_dir* defaults to ``$AITER_ASM_DIR/gfx950/f4gemm``. With *source* that object is run,
    whatever it is called: its kernel's symbol says which it is. *log2_split* of -1 lets the tile
    choice split K. The result's ``d`` is [M, N] of bfloat16.

    Raises:
        CoasmError: no such kernel or object, a shape that does not fit, or the launch failed.
    """
    problem = {
        **{"m": m, "n": n, "k": k, "co_dir": co_dir, "kernel": kernel},
        **{"bpreshuffle": bpreshuffle, "splitk": log2_split},
    }
    product: Product = run_family(
        "f4gemm",
        problem,
        source=source,
        seed=seed,
        verify=verify,
        iterations=iterations,
        backend=backend,
        options=options,
        llvm=llvm,
    )
    return product
