"""One process that runs coasm on the stand-in for libamdhip64 (see hip_double.c).

The bindings load that library once and for all at their first call, so each case has a process of
its own: ``python hip_session.py LIBRARY CONFIG``, with ROCM_PATH at the folder above the library's
``lib``. CONFIG is JSON: ``argv`` of coasm, and optionally ``arch``, ``devices``, ``fail`` (function
and status), ``engine`` (``record``, ``add`` or ``emulator``). JSON comes back: exit status, both
streams, the calls, and each launch.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import json
import struct
import sys
from typing import Any

_U64 = ctypes.c_uint64
_KINDS = {
    "allocate": (_U64, _U64),
    "release": (ctypes.c_int, _U64),
    "upload": (ctypes.c_int, _U64, ctypes.c_void_p, _U64),
    "download": (ctypes.c_int, ctypes.c_void_p, _U64, _U64),
    "load": (ctypes.c_int, ctypes.c_void_p),
    "find": (ctypes.c_int, ctypes.c_char_p),
    "launch": (
        ctypes.c_int,
        ctypes.c_char_p,
        ctypes.POINTER(ctypes.c_uint32),
        ctypes.c_void_p,
        _U64,
    ),
}
_TYPES = {name: ctypes.CFUNCTYPE(*kind) for name, kind in _KINDS.items()}


class _Callbacks(ctypes.Structure):
    _fields_ = list(_TYPES.items())


class PlainMemory:
    """Device memory as a dict of bytearrays; addresses are made up."""

    def __init__(self) -> None:
        self.buffers: dict[int, bytearray] = {}
        self.next = 0x7F00_0000_0000

    def allocate(self, size: int) -> int:
        address, self.next = self.next, self.next + (size + 0xFFFF & ~0xFFFF) + 0x10000
        self.buffers[address] = bytearray(size)
        return address

    def free(self, address: int) -> None:
        del self.buffers[address]

    def write(self, address: int, data: bytes) -> None:
        buffer = self.buffers[address]
        assert len(data) <= len(buffer)
        buffer[: len(data)] = data

    def read(self, address: int, size: int) -> bytes:
        return bytes(self.buffers[address][:size])


class EmulatedMemory:
    """Device memory of the emulator."""

    def __init__(self) -> None:
        from coasm.emulator import Memory

        self.memory = Memory()
        self.allocate = lambda size: self.memory.allocate(size, "buffer")
        self.free, self.write, self.read = (
            self.memory.free,
            self.memory.write,
            self.memory.read,
        )


def object_at(address: int) -> bytes:
    """The ELF file that begins at *address*: it ends behind its last section or header."""
    head = ctypes.string_at(address, 64)
    sections_at = int.from_bytes(head[40:48], "little")
    count = int.from_bytes(head[60:62], "little")
    end = sections_at + 64 * count
    for index in range(count):
        header = ctypes.string_at(address + sections_at + 64 * index, 64)
        kind, offset, size = struct.unpack_from("<4xI16xQQ", header)
        if kind != 8:  # SHT_NOBITS
            end = max(end, offset + size)
    return ctypes.string_at(address, end)


class Session:
    def __init__(self, library: str, config: dict[str, Any]) -> None:
        self.engine = config.get("engine", "record")
        self.memory: Any = EmulatedMemory() if self.engine == "emulator" else PlainMemory()
        self.launches: list[dict[str, Any]] = []
        self.object: Any = None
        self.double = ctypes.CDLL(library)
        self.double.double_log.restype = ctypes.c_char_p
        functions = {name: kind(getattr(self, name)) for name, kind in _TYPES.items()}
        self.callbacks = _Callbacks(**functions)
        arch = config.get("arch", "gfx950:sramecc+:xnack-").encode()
        self.double.double_connect(ctypes.byref(self.callbacks), arch, config.get("devices", 1))
        for function, status in config.get("fail", {}).items():
            self.double.double_fail(function.encode(), status)

    def allocate(self, size: int) -> int:
        return int(self.memory.allocate(size))

    def release(self, address: int) -> int:
        self.memory.free(address)
        return 0

    def upload(self, address: int, source: int, size: int) -> int:
        self.memory.write(address, ctypes.string_at(source, size))
        return 0

    def download(self, to: int, address: int, size: int) -> int:
        ctypes.memmove(to, self.memory.read(address, size), size)
        return 0

    def load(self, image: int) -> int:
        from coasm.codeobject import load

        self.object = load(object_at(image))
        return 0

    def find(self, name: bytes) -> int:
        return 0 if any(k.name.encode() == name for k in self.object.kernels) else 500

    def launch(self, name: bytes, sizes: Any, block: int, size: int) -> int:
        grid, workgroup, lds = tuple(sizes[0:3]), tuple(sizes[3:6]), sizes[6]
        kernarg = ctypes.string_at(block, size)
        self.launches.append(
            {
                "kernel": name.decode(),
                "grid": grid,
                "workgroup": workgroup,
                "lds": lds,
                "kernarg": kernarg.hex(),
            }
        )
        if self.engine == "add":
            self.add(kernarg)
        if self.engine == "emulator":
            from coasm import emulator
            from coasm.llvm import find_llvm

            emulator.launch(
                self.object,
                next(k for k in self.object.kernels if k.name.encode() == name),
                grid=grid,
                workgroup=workgroup,
                kernarg=kernarg,
                memory=self.memory.memory,
                llvm=find_llvm(processor=self.object.target.name),
                dynamic_lds=lds,
            )
        return 0

    def add(self, kernarg: bytes) -> None:
        """What `vector_add` does, without running it."""
        import numpy as np

        to, left, right, count = struct.unpack("<QQQI", kernarg[:28])
        first, second = (
            np.frombuffer(self.memory.read(a, 4 * count), "<f4") for a in (left, right)
        )
        self.memory.write(to, (first + second).tobytes())


def main() -> None:
    library, config = sys.argv[1], json.loads(sys.argv[2])
    session = Session(library, config)
    from coasm.__main__ import main as coasm

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = coasm(config["argv"])
    report = {
        "status": status,
        "out": out.getvalue(),
        "err": err.getvalue(),
        "calls": session.double.double_log().decode().split("\n")[:-1],
        "launches": session.launches,
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
