"""Compiles random programs for the host and for a GPU, runs both, and tells where they differ."""

from __future__ import annotations

import ctypes
import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from coasm.codeobject import CodeObject, load
from coasm.emulator import Memory, Options, launch
from coasm.errors import CoasmError
from coasm.llvm import Llvm
from tests.random_c.generate import HOST_ENTRY, Program, Type, source

__all__ = [
    "Build",
    "CompileError",
    "Difference",
    "Refusal",
    "compile_gpu",
    "compile_host",
    "differences",
    "inputs",
    "run_gpu",
    "run_host",
]

Array = np.ndarray[Any, Any]

_SLOT_BYTES = 2048  # of an exchange: integers, then f32, then f64
_COMMON = (
    *("-fwrapv", "-ffp-contract=off", "-w"),
    *("-Xclang", "-ffloat16-excess-precision=none", "-Xclang", "-fbfloat16-excess-precision=none"),
)
_NUMPY = {
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
}


class Build(NamedTuple):
    """How a translation unit is compiled for the GPU."""

    target: str
    level: str
    opencl: bool = False
    more: tuple[str, ...] = ()

    def __str__(self) -> str:
        language = "OpenCL" if self.opencl else "C"
        return " ".join((self.target, self.level, language, *self.more))


class Difference(NamedTuple):
    """Work-items for which a variable came out otherwise: how many, and the first of them."""

    variable: str
    count: int
    item: int
    host: str
    gpu: str


class Refusal(NamedTuple):
    """What the emulator does not run, as it says it; the instruction's text."""

    message: str
    instruction: str


class CompileError(Exception):
    """clang does not compile a program: its message."""


def _language(opencl: bool) -> tuple[str, ...]:
    if opencl:
        return ("-x", "cl", "-cl-std=CL2.0", "-cl-fp32-correctly-rounded-divide-sqrt")
    return ("-x", "c", "-std=gnu2x")


def _clang(llvm: Llvm, text: str, options: Sequence[str], out: Path) -> None:
    command = [llvm.clang, *options, *_COMMON, "-", "-o", str(out)]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CompileError(f"{' '.join(command)}:\n{done.stderr}")


def compile_host(llvm: Llvm, programs: list[Program], opencl: bool, folder: Path) -> ctypes.CDLL:
    """The programs as a library for this machine, not optimized."""
    out = folder / "host.so"
    options = (*_language(opencl), "-O0", "-shared", "-fPIC")
    _clang(llvm, source(programs), (*options, "-lm"), out)
    return ctypes.CDLL(str(out))


def compile_gpu(llvm: Llvm, programs: list[Program], build: Build) -> CodeObject:
    """The programs as a code object."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "gpu.co")
        target = ("-target", "amdgcn-amd-amdhsa", f"-mcpu={build.target}", "-nogpulib")
        options = (*_language(build.opencl), build.level, *target, *build.more)
        _clang(llvm, source(programs), options, out)
        return load(out.read_bytes(), name="random.co")


def inputs(program: Program, seed: int) -> tuple[Array, Array]:
    """The bytes that a program reads, edge values among them, and its slots for atomics."""
    rng = np.random.default_rng(seed * 1_000_003 + program.number)
    items = program.workgroup * program.groups
    data = rng.integers(0, 256, (items, program.stride), dtype=np.uint8)
    for variable in program.variables:
        count = 4 if variable.type.count == 3 else variable.type.count
        values = _values(rng, variable.type, items * count).reshape(items, -1)
        data[:, variable.offset : variable.offset + variable.type.size] = values
    slots = rng.integers(0, 256, (max(1, len(program.exchanges)), _SLOT_BYTES), dtype=np.uint8)
    for one in slots:
        one[512:1024].view(np.float32)[:] = rng.integers(-1000, 1000, 128)
        one[1024:].view(np.float64)[:] = rng.integers(-1000, 1000, 128)
    return data.reshape(-1), slots.reshape(-1)


def _values(rng: np.random.Generator, kind: Type, count: int) -> Array:
    """*count* values as bytes: edges, small numbers, any bits; no signalling NaN."""
    size = kind.bits // 8
    raw = rng.integers(0, 256, (count, size), dtype=np.uint8)
    if not kind.is_float:
        small = rng.random(count) < 0.4
        number = rng.integers(-20, 70, count)
        number = np.where(rng.random(count) < 0.3, (1 << rng.integers(0, 63, count)) - 1, number)
        wide = np.zeros((count, 16), np.uint8)
        wide[:, :8] = number.astype("<i8").view(np.uint8).reshape(count, 8)
        wide[:, 8:] = np.where(number < 0, 255, 0).astype(np.uint8)[:, None]
        raw[small] = wide[small, :size]
        return raw
    dtype = _NUMPY[kind.base]
    edges = [0.0, -0.0, 1, -1, 0.5, 2, 3, np.inf, -np.inf, np.nan, 65504, 65536, 1e-7, 6e-5, 1e30,
             -1e-40, 1e38, 2.0**31, -(2.0**31), 2.0**63, 2.5, -3.5, 1e-310, 1e300]  # fmt: skip
    with np.errstate(all="ignore"):
        plain = (rng.normal(size=count) * 10.0 ** rng.integers(-3, 4, count)).astype(dtype)
        edge = np.array(edges).astype(dtype)[rng.integers(0, len(edges), count)]
    which = rng.random(count)
    values = np.ascontiguousarray(raw).view(dtype).reshape(count).copy()
    values = np.where(which < 0.5, plain, np.where(which < 0.7, edge, values)).astype(dtype)
    unsigned = np.dtype(f"u{size}")
    quiet = np.array(np.nan, dtype).view(unsigned) & ~(np.uint64(1) << np.uint64(kind.bits - 1))
    with np.errstate(all="ignore"):
        nans = np.isnan(values.astype(np.float64))
    values.view(unsigned)[nans] = quiet.astype(unsigned)
    return values.view(np.uint8).reshape(count, size)


def run_host(library: ctypes.CDLL, program: Program, data: Array, slots: Array) -> Array:
    """What the program stores on this machine, its slots behind it."""
    out, own = np.zeros_like(data), slots.copy()
    function = library[HOST_ENTRY.format(number=program.number)]
    function(*(ctypes.c_void_p(array.ctypes.data) for array in (data, out, own)))
    return np.concatenate([out, own])


def run_gpu(
    llvm: Llvm, co: CodeObject, program: Program, data: Array, slots: Array
) -> Array | Refusal:
    """The same of the emulator."""
    memory = Memory()
    addresses = [
        memory.allocate(array.nbytes, name, array)
        for name, array in (("in", data), ("out", np.zeros_like(data)), ("slots", slots))
    ]
    kernel = next(k for k in co.kernels if k.name == f"kernel_{program.number}")
    try:
        launch(
            co,
            kernel,
            grid=(program.groups, 1, 1),
            workgroup=(program.workgroup, 1, 1),
            kernarg=b"".join(address.to_bytes(8, "little") for address in addresses),
            memory=memory,
            llvm=llvm,
            options=Options(stack=1 << 14, max_instructions=20_000_000),
        )
    except CoasmError as error:
        return Refusal(str(error), _instruction(str(error)))
    return np.concatenate([memory.view(address) for address in addresses[1:]])


def _instruction(message: str) -> str:
    found = re.search(r"\b([vs]_\w+|ds_\w+|global_\w+|flat_\w+|scratch_\w+|buffer_\w+)", message)
    return found.group(1) if found else "?"


def differences(program: Program, host: Array, gpu: Array) -> list[Difference]:
    """The variables that are not the same; two NaNs are."""
    found = []
    items = program.workgroup * program.groups
    size = items * program.stride
    whole = [array[:size].reshape(items, program.stride) for array in (host, gpu)]
    for variable in program.variables:
        kind, end = variable.type, variable.offset + variable.type.size
        both = [np.ascontiguousarray(array[:, variable.offset : end]) for array in whole]
        raw = [array.reshape(items, -1, kind.bits // 8)[:, : kind.count] for array in both]
        differs = (raw[0] != raw[1]).any(axis=2)
        if kind.is_float:
            dtype = _NUMPY[kind.base]
            values = [np.ascontiguousarray(array).view(dtype)[..., 0] for array in raw]
            with np.errstate(all="ignore"):
                nans = [np.isnan(value.astype(np.float64)) for value in values]
            differs &= ~(nans[0] & nans[1])
        if differs.any():
            item, element = np.argwhere(differs)[0]
            name = f"{variable.name}[{element}] ({kind.name})"
            shown = [bytes(array[item, element][::-1]).hex() for array in raw]
            found.append(Difference(name, int(differs.any(axis=1).sum()), int(item), *shown))
    if (host[size:] != gpu[size:]).any():
        at = int(np.argwhere(host[size:] != gpu[size:])[0][0])
        shown = [bytes(array[size + at & ~7 :][:8]).hex() for array in (host, gpu)]
        found.append(Difference(f"slot byte {at}", 1, 0, *shown))
    return found
