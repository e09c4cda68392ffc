"""Launches on an AMD GPU through HIP.

The binding is AMD's own, the PyPI package ``rocm-bindings-hip`` (extra ``hip``): it imports
without ROCm and loads ``libamdhip64`` at its first call. Source for the calls: *HIP Runtime API
Reference*; the kernarg block is passed as ``HIP_LAUNCH_PARAM_BUFFER_POINTER`` through ``extra``.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
from typing import TYPE_CHECKING, Any

from coasm.codeobject import CodeObject, Kernel
from coasm.errors import CoasmError, DeviceError
from coasm.launch.device import Figures, Launch
from coasm.target import TargetID

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Bytes = NDArray[np.uint8]

__all__ = ["Hip", "fits"]

# hip_runtime_api.h. The block's address and the address of its size stand behind these markers.
_BUFFER_POINTER, _BUFFER_SIZE, _END = 1, 2, 3


def fits(device: str, target: TargetID) -> bool:
    """Whether a device of that ``gcnArchName`` (``gfx950:sramecc+:xnack-``) loads *target*.

    The processors must be the same, and every setting that the object names must be the device's.
    Source: LLVM AMDGPU usage, "Target ID". Generic targets are not judged: False.
    """
    name, *settings = device.split(":")
    if name != target.name:
        return False
    have = {setting[:-1]: setting[-1] for setting in settings if setting}
    signs = {"on": "+", "off": "-"}
    asked = {"sramecc": signs.get(target.sramecc), "xnack": signs.get(target.xnack)}
    return all(sign is None or have.get(what, sign) == sign for what, sign in asked.items())


class Hip:
    """One GPU as a :class:`~coasm.launch.device.Device`: the first that loads *target*.

    Raises:
        DeviceError: no binding, no runtime, no device, or none that loads the target.
    """

    name = "hip"

    def __init__(self, target: TargetID) -> None:
        try:
            from importlib import import_module

            self._hip: Any = import_module("rocm.bindings.hip")
        except ImportError:
            raise DeviceError(
                "rocm-bindings-hip is not installed (pip install rocm-bindings-hip)"
            ) from None
        self._modules: dict[tuple[str, str], tuple[Any, Any]] = {}
        self._buffers: dict[int, tuple[Any, int, str]] = {}
        count = self._call("counting the devices", "hipGetDeviceCount")
        if not count:
            raise DeviceError("HIP finds no device")
        seen = []
        for device in range(count):
            what = f"asking device {device} for its properties"
            properties = self._call(what, "hipGetDeviceProperties", device)
            arch = _text(properties.gcnArchName)
            seen.append(arch)
            if fits(arch, target):
                break
        else:
            found = ", ".join(dict.fromkeys(seen))
            raise DeviceError(f"the object is for {target}, the devices here are {found}")
        self._call(f"choosing device {device}", "hipSetDevice", device)
        self.arch = arch
        self.num_cu = int(properties.multiProcessorCount)
        self.description = f"{_text(properties.name)} ({arch}, {self.num_cu} CUs)"

    def _call(self, what: str, function: str, *arguments: Any) -> Any:
        """Call a HIP function; its result, None where it has none.

        Raises:
            DeviceError: it failed: what was being done, the function, and HIP's name of the error.
        """
        try:
            status, *results = getattr(self._hip, function)(*arguments)
        except RuntimeError as error:  # the library, or a function in it, cannot be loaded
            # "failed to dlopen 'b'…'': b'the loader's own words'"
            said = str(error).rpartition(": b'")[2].rstrip("'")
            raise DeviceError(f"{what}: {function}: {said}") from None
        if int(status) != 0:
            name = getattr(status, "name", None) or f"error {int(status)}"
            raise DeviceError(f"{what}: {function} failed with {name}")
        return results[0] if results else None

    def allocate(self, data: Bytes, name: str) -> int:
        what = f"allocating {data.size:,} bytes for {name!r}"
        pointer = self._call(what, "hipMalloc", max(data.size, 1))
        address = int(pointer)
        self._buffers[address] = (pointer, data.size, name)
        self.write(address, data)
        return address

    def _copy(self, what: str, to: Any, source: Any, size: int, kind: str) -> None:
        self._call(what, "hipMemcpy", to, source, size, getattr(self._hip.hipMemcpyKind, kind))

    def write(self, address: int, data: Bytes) -> None:
        import numpy as np

        pointer, _, name = self._buffers[address]
        if data.size:
            data = np.ascontiguousarray(data)
            what = f"copying {data.size:,} bytes to {name!r}"
            self._copy(what, pointer, data.ctypes.data, data.size, "hipMemcpyHostToDevice")

    def read(self, address: int) -> Bytes:
        import numpy as np

        pointer, size, name = self._buffers[address]
        data = np.empty(size, np.uint8)
        if size:
            what = f"copying {size:,} bytes from {name!r}"
            self._copy(what, data.ctypes.data, pointer, size, "hipMemcpyDeviceToHost")
        return data

    def _function(self, co: CodeObject, kernel: Kernel) -> Any:
        key = hashlib.sha256(co.data).hexdigest(), kernel.name
        if key not in self._modules:
            if not fits(self.arch, co.target):
                raise DeviceError(f"{co.name} is for {co.target}, the device is {self.arch}")
            module = self._call(f"loading {co.name}", "hipModuleLoadData", co.data)
            what = f"looking for kernel {kernel.name!r} in {co.name}"
            function = self._call(what, "hipModuleGetFunction", module, kernel.name.encode())
            self._modules[key] = module, function
        return self._modules[key][1]

    def _start(self, function: Any, launch: Launch) -> None:
        block = ctypes.create_string_buffer(launch.kernarg, len(launch.kernarg))
        size = ctypes.c_size_t(len(launch.kernarg))
        extra = (ctypes.c_void_p * 5)(
            _BUFFER_POINTER, ctypes.addressof(block), _BUFFER_SIZE, ctypes.addressof(size), _END
        )
        # HIP copies the block before it returns.
        self._call(
            f"launching {launch.kernel.name!r}",
            "hipModuleLaunchKernel",
            function,
            *launch.geometry.grid,
            *launch.geometry.workgroup,
            launch.geometry.dynamic_lds,
            None,
            None,
            ctypes.addressof(extra),
        )

    def launch(self, launch: Launch) -> Figures:
        return self.time(launch, warmup=0, iterations=1)

    def time(self, launch: Launch, *, warmup: int, iterations: int) -> Figures:
        function = self._function(launch.co, launch.kernel)
        for _ in range(warmup):
            self._start(function, launch)
        if warmup:
            self._call(f"waiting for {launch.kernel.name!r}", "hipDeviceSynchronize")
        first = self._call("creating an event", "hipEventCreate")
        second = self._call("creating an event", "hipEventCreate")
        seconds = []
        try:
            for _ in range(iterations):
                self._call("recording an event", "hipEventRecord", first, None)
                self._start(function, launch)
                self._call("recording an event", "hipEventRecord", second, None)
                # An error inside the kernel shows here.
                self._call(f"waiting for {launch.kernel.name!r}", "hipEventSynchronize", second)
                what = f"timing {launch.kernel.name!r}"
                seconds.append(self._call(what, "hipEventElapsedTime", first, second) / 1000)
        finally:
            for event in (first, second):
                self._quiet("hipEventDestroy", event)
        return Figures(tuple(seconds))

    def _quiet(self, function: str, *arguments: Any) -> None:
        """A call that gives something back: what was wrong before is worth more than its error."""
        with contextlib.suppress(CoasmError):
            self._call("giving back", function, *arguments)

    def reset(self) -> None:
        for pointer, _, _ in self._buffers.values():
            self._quiet("hipFree", pointer)
        self._buffers.clear()

    def close(self) -> None:
        self.reset()
        for module, _ in self._modules.values():
            self._quiet("hipModuleUnload", module)
        self._modules.clear()


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
