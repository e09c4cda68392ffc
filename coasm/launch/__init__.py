"""Launches: kernel arguments and geometry, the devices, and what is known of families of kernels.

:func:`run` launches any kernel on arrays, :func:`run_spec` what a launch file describes, and
:func:`run_f4gemm` a matrix product. All three run on the emulator where there is no GPU.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from coasm.codeobject import CodeObject
from coasm.opening import open_code_object

if TYPE_CHECKING:
    from coasm.emulator import Options
    from coasm.launch.arguments import Value
    from coasm.launch.families.f4gemm.product import Product
    from coasm.launch.general import Pointer, Result
    from coasm.launch.spec import Outcome

__all__ = ["run", "run_f4gemm", "run_spec"]


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
    from coasm.launch.backends import open_device
    from coasm.launch.families.f4gemm import Runner, Shape, find_manifest, manifest_of
    from coasm.target import TargetID, processor

    given = None
    if source is None:
        manifest, target = find_manifest(co_dir), TargetID(processor("gfx950"))
    else:
        co = open_code_object(source, llvm=llvm)
        manifest, target = manifest_of(co, co.name, co_dir=co_dir, kernel=kernel), co.target
        given, kernel = (co.name, co), manifest.entries[0].kernel
    device, _ = open_device(backend, target, llvm=llvm, options=options)
    try:
        runner = Runner(manifest, device, given)
        shape = Shape(m, n, k)
        choice = runner.pick(shape, kernel=kernel, bpreshuffle=bpreshuffle, log2_split=log2_split)
        return runner.run(shape, choice, seed=seed, verify=verify, iterations=iterations)
    finally:
        device.close()
