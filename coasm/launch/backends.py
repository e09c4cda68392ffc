"""Which device a backend means: a GPU through HIP, or the emulator."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from coasm.errors import DeviceError, LaunchError, UnsupportedError
from coasm.launch.device import Device
from coasm.launch.emulated import Emulator
from coasm.target import TargetID, emulated

if TYPE_CHECKING:
    from coasm.emulator import Options

__all__ = ["BACKENDS", "open_device"]

#: What ``--backend`` takes.
BACKENDS = ("auto", "emulator", "hip")


def open_device(
    backend: str,
    target: TargetID,
    *,
    llvm: str | None = None,
    options: Options | Callable[[], Options] | None = None,
) -> tuple[Device, str | None]:
    """The device that *backend* (one of :data:`BACKENDS`) means for an object of *target*.

    *options* are the emulator's, or a function that makes them. The text is set where ``auto``
    fell back to the emulator: one line that says why.

    Raises:
        DeviceError: ``hip`` has no usable device.
        UnsupportedError: the emulator does not run the target.
        ToolError: the emulator finds no LLVM to disassemble with.
    """
    from coasm.launch.hip import Hip

    if backend not in BACKENDS:
        raise LaunchError(f"no backend {backend!r}; known are {', '.join(BACKENDS)}")
    reason = None
    if backend != "emulator":
        try:
            return Hip(target), None
        except DeviceError as error:
            if backend == "hip":
                raise
            reason = f"no usable GPU ({error}): using the emulator"
    if not target.processor.family.emulated:
        because = f"; {reason}" if reason else ""
        raise UnsupportedError(
            f"the emulator runs {' and '.join(emulated())}, not {target.name}{because}"
        )
    from coasm.llvm import find_llvm

    try:
        made = options() if callable(options) else options
        return Emulator(find_llvm(llvm, processor=target.name), made), reason
    except ImportError as error:
        raise LaunchError(
            f"the emulator needs {_package(error)}: pip install {_package(error)}"
        ) from None


def _package(error: ImportError) -> str:
    return (error.name or str(error)).partition(".")[0]
