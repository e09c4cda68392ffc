"""Any kernel: arrays in, one launch, arrays out."""

from __future__ import annotations

from collections.abc import Mapping
from operator import index
from typing import TYPE_CHECKING, Any, NamedTuple

from coasm.codeobject import CodeObject, Kernel
from coasm.errors import LaunchError, UnsupportedError
from coasm.kernels import find_kernel
from coasm.launch.arguments import Geometry, Value, find_slot, pack, slots
from coasm.launch.device import Device, Figures, Launch

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

__all__ = ["Pointer", "Result", "launch", "sizes", "the_kernel"]

#: Launches before those that are timed.
_WARMUP = 5


class Pointer(NamedTuple):
    """An argument that points *offset* bytes into the buffer of that name."""

    buffer: str
    offset: int = 0


class Result(NamedTuple):
    """What a launch left: each buffer by its name, and what the launch took.

    ``arrays`` have the types and shapes of what went in. ``backend`` is ``emulator`` or ``hip``;
    ``note`` is one line where ``auto`` fell back to the emulator.
    """

    arrays: dict[str, Array]
    figures: Figures
    kernel: str
    backend: str
    note: str | None = None


def sizes(value: int | tuple[int, ...] | list[int], what: str) -> tuple[tuple[int, int, int], int]:
    """One to three sizes as (x, y, z), and how many were given.

    Raises:
        LaunchError: none or more than three, or not whole numbers.
    """
    try:
        given = tuple(index(n) for n in (value if isinstance(value, (tuple, list)) else (value,)))
    except TypeError:
        given = ()
    if not 1 <= len(given) <= 3:
        raise LaunchError(f"{what}: expected one to three whole numbers, not {value!r}")
    x, y, z = (*given, 1, 1)[:3]
    return (x, y, z), len(given)


def the_kernel(co: CodeObject, name: str | None) -> Kernel:
    """The kernel that *name* means (see :mod:`coasm.kernels`); None means the only one.

    Raises:
        LaunchError: there is no such kernel, or several and no name.
    """
    if name is None:
        if len(co.kernels) == 1:
            return co.kernels[0]
        names = ", ".join(repr(kernel.name) for kernel in co.kernels) or "none"
        raise LaunchError(f"{co.name}: name the kernel; it has {names}")
    try:
        return find_kernel(co, name)
    except UnsupportedError as error:
        raise LaunchError(str(error)) from None


def launch(
    device: Device,
    co: CodeObject,
    kernel: Kernel,
    geometry: Geometry,
    arguments: Mapping[str | int, Value | Pointer],
    buffers: Mapping[str, Array],
    *,
    iterations: int = 0,
) -> Result:
    """Copy *buffers* to the device, run *kernel* once, copy them back.

    *iterations* more launches are timed after that; they do not change what is returned.

    Raises:
        LaunchError: arguments or geometry do not fit the kernel.
        CoasmError: the device refused or stopped the launch.
    """
    import numpy as np

    geometry.check(kernel)
    found = slots(kernel)
    values: dict[str | int, Value] = {}
    addresses: dict[str, int] = {}
    device.reset()
    try:
        for name, array in buffers.items():
            if array.dtype.hasobject:
                raise LaunchError(f"buffer {name!r} holds Python objects, no numbers")
            data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            addresses[name] = device.allocate(data, name)
        for key, value in arguments.items():
            if isinstance(value, Pointer):
                slot = find_slot(kernel, found, key)
                if value.buffer not in addresses:
                    raise LaunchError(f"argument {slot.label}: there is no buffer {value.buffer!r}")
                value = addresses[value.buffer] + value.offset
            values[key] = value
        work = Launch(co, kernel, geometry, pack(kernel, values, geometry, found=found))
        figures = device.launch(work)
        arrays = {
            name: device.read(addresses[name]).view(array.dtype).reshape(array.shape)
            for name, array in buffers.items()
        }
        if iterations and not figures.dump:
            figures = device.time(work, warmup=_WARMUP, iterations=iterations)
    finally:
        device.reset()
    return Result(arrays, figures, kernel.name, device.name)
