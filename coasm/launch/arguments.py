"""The kernarg segment: explicit arguments where the metadata has them, hidden ones filled in.

Source: LLVM, *User Guide for AMDGPU Backend*, "Code Object Metadata" (``.args``, the table of
``.value_kind`` with the ``hidden_*`` arguments of code object V3 to V5).
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeGuard

from coasm.codeobject import Kernel
from coasm.errors import FormatError, LaunchError, UnsupportedError

__all__ = [
    "SCALAR_TYPES",
    "Geometry",
    "Scalar",
    "Slot",
    "Value",
    "encode",
    "find_slot",
    "pack",
    "segment_size",
    "slots",
]

#: No kernarg segment is larger (the packet processor's own limits are far below).
MAX_SEGMENT = 1 << 20


@dataclass(frozen=True)
class Geometry:
    """A dispatch: ``grid`` in workgroups, ``workgroup`` in work-items, both (x, y, z).

    ``dynamic_lds`` is bytes added behind the kernel's own LDS. ``dimensions`` (1 to 3) is what
    the dispatch packet says; HIP's launches always say 3.
    """

    grid: tuple[int, int, int]
    workgroup: tuple[int, int, int]
    dynamic_lds: int = 0
    dimensions: int = 3

    def check(self, kernel: Kernel) -> None:
        """Check the geometry against the kernel's metadata.

        Raises:
            LaunchError: a size below 1, 2^32 or more work-items in a direction, more work-items
                in a workgroup than the kernel allows, or not those that it requires.
        """
        if not 1 <= self.dimensions <= 3:
            raise LaunchError(f"a grid has 1 to 3 dimensions, not {self.dimensions}")
        for what, size in (("grid", self.grid), ("workgroup", self.workgroup)):
            if any(n < 1 for n in size):
                raise LaunchError(f"{what} {_by(size)}: every size must be at least 1")
        if self.dynamic_lds < 0:
            raise LaunchError(f"dynamic LDS of {self.dynamic_lds} bytes")
        for axis, groups, items in zip("xyz", self.grid, self.workgroup, strict=True):
            if groups * items >= 1 << 32:
                raise LaunchError(
                    f"{groups} workgroups of {items} work-items in {axis}: a grid has fewer than "
                    "2^32 work-items in each direction"
                )
        required = kernel.metadata.get(".reqd_workgroup_size")
        if isinstance(required, list) and len(required) == 3 and any(required):
            if list(self.workgroup) != required:
                raise LaunchError(
                    f"kernel {kernel.name!r} requires workgroups of {_by(required)} work-items, "
                    f"not {_by(self.workgroup)}"
                )
            return
        limit = kernel.metadata.get(".max_flat_workgroup_size")
        total = math.prod(self.workgroup)
        if isinstance(limit, int) and total > limit > 0:
            raise LaunchError(
                f"kernel {kernel.name!r} takes at most {limit} work-items in a workgroup, "
                f"not {total} ({_by(self.workgroup)})"
            )


def _by(size: Any) -> str:
    return " x ".join(map(str, size))


class Slot(NamedTuple):
    """One kernel argument: ``size`` bytes at ``offset`` of the kernarg segment.

    ``name`` is None where the metadata gives none; names may repeat. ``kind`` is the metadata's
    ``.value_kind``, ``type`` its ``.type_name`` or ``.value_type``.
    """

    name: str | None
    offset: int
    size: int
    kind: str
    type: str | None = None

    @property
    def label(self) -> str:
        """What messages call it: ``@0x60 ('stride_D0')``."""
        return f"@{self.offset:#x}" + (f" ({self.name!r})" if self.name else "")

    @property
    def hidden(self) -> bool:
        return self.kind.startswith("hidden_")

    @property
    def pointer(self) -> bool:
        return self.kind == "global_buffer"

    @property
    def padding(self) -> bool:
        """Whether it needs no value: hand-written kernels name what fills a slot up ``pad``."""
        return self.kind == "by_value" and self.name == "pad"


class Scalar(NamedTuple):
    """A value with its type, one of :data:`SCALAR_TYPES`."""

    type: str
    value: int | float


#: What an argument can be given as. A plain int takes the argument's size, a plain float is f32 or
#: f64 by the argument's size, bytes are copied (as many as the argument has).
Value = int | float | bytes | Scalar


def slots(kernel: Kernel) -> tuple[Slot, ...]:
    """The arguments that the metadata lists, by offset, checked against the segment.

    Raises:
        FormatError: an argument without offset, size or kind, one that reaches over the end of
            the kernarg segment, or two that overlap.
    """
    where = f"kernel {kernel.name!r}: metadata"
    size = segment_size(kernel)
    listed = kernel.metadata.get(".args", [])
    if not isinstance(listed, list):
        raise FormatError(f"{where}: .args is not a list")
    found = []
    for position, entry in enumerate(listed):
        at = f"{where}: .args[{position}]"
        if not isinstance(entry, dict):
            raise FormatError(f"{at} is not a map")
        offset, length, kind = (entry.get(key) for key in (".offset", ".size", ".value_kind"))
        if not (_count(offset) and _count(length) and isinstance(kind, str)):
            raise FormatError(f"{at} has no usable .offset, .size or .value_kind")
        name = entry.get(".name")
        type_ = entry.get(".type_name") or entry.get(".value_type")
        found.append(
            Slot(
                name if isinstance(name, str) and name else None,
                offset,
                length,
                kind,
                type_ if isinstance(type_, str) else None,
            )
        )
    found.sort(key=lambda slot: slot.offset)
    end = 0
    for slot in found:
        if slot.offset < end:
            raise FormatError(f"{where}: argument {slot.label} overlaps the one before it")
        end = slot.offset + slot.size
        if end > size:
            raise FormatError(
                f"{where}: argument {slot.label} ends at {end}, the kernarg segment at {size}"
            )
    return tuple(found)


def _count(value: Any) -> TypeGuard[int]:
    return type(value) is int and value >= 0


def segment_size(kernel: Kernel) -> int:
    """Bytes of the kernarg segment: the metadata's ``.kernarg_segment_size``.

    Raises:
        FormatError: it is missing, too large, or not what the kernel descriptor says.
    """
    size = kernel.metadata.get(".kernarg_segment_size")
    if type(size) is not int or not 0 <= size <= MAX_SEGMENT:
        raise FormatError(f"kernel {kernel.name!r}: metadata: no usable .kernarg_segment_size")
    # Bytes 8 to 11 of the kernel descriptor: kernarg_size, 0 where the compiler does not say.
    said = int.from_bytes(kernel.descriptor[8:12], "little")
    if said and said != size:
        raise FormatError(
            f"kernel {kernel.name!r}: a kernarg segment of {size} bytes in the metadata, of "
            f"{said} in the kernel descriptor"
        )
    return size


def find_slot(kernel: Kernel, found: tuple[Slot, ...], key: str | int) -> Slot:
    """The argument that *key* means: a name, or its offset as an int or as ``@0x60``, ``@96``.

    Raises:
        LaunchError: there is no such argument, or several have that name.
    """
    where = f"kernel {kernel.name!r}"
    offset = key if isinstance(key, int) else _offset(key)
    if offset is not None:
        for slot in found:
            if slot.offset == offset:
                return slot
        raise LaunchError(f"{where} has no argument at offset {offset:#x}; it has {_known(found)}")
    named = [slot for slot in found if slot.name == key]
    if not named:
        raise LaunchError(f"{where} has no argument {key!r}; it has {_known(found)}")
    if len(named) > 1:
        places = ", ".join(f"@{slot.offset:#x}" for slot in named[:4])
        more = ", …" if len(named) > 4 else ""
        raise LaunchError(f"{where} has {len(named)} arguments {key!r}: use one of {places}{more}")
    return named[0]


def _offset(key: str) -> int | None:
    if re.fullmatch(r"@(?:0[xX][0-9a-fA-F]{1,8}|[0-9]{1,9})", key):
        return int(key[1:], 16 if key[1:3].lower() == "0x" else 10)
    return None


def _known(found: tuple[Slot, ...]) -> str:
    labels = [slot.name or slot.label for slot in found if not slot.padding and not slot.hidden]
    return ", ".join(labels[:40]) or "none"


def pack(
    kernel: Kernel,
    values: Mapping[str | int, Value],
    geometry: Geometry,
    *,
    found: tuple[Slot, ...] | None = None,
) -> bytes:
    """The kernarg segment: *values* at their arguments, hidden arguments filled, the rest zero.

    Every explicit argument needs a value, except those called ``pad``. Pointers that a runtime
    would put into hidden arguments (queue, heap, host calls, …) are null.

    Raises:
        LaunchError: a value for no argument, for two, none for an argument, or one that does not
            fit in its bytes.
        UnsupportedError: an argument of a kind that coasm cannot fill in.
        FormatError: see :func:`slots`.
    """
    found = slots(kernel) if found is None else found
    where = f"kernel {kernel.name!r}"
    block = bytearray(segment_size(kernel))
    given: dict[int, Value] = {}
    for key, value in values.items():
        slot = find_slot(kernel, found, key)
        if slot.offset in given:
            raise LaunchError(f"{where}: argument {slot.label} is given twice")
        given[slot.offset] = value
    missing = []
    for slot in found:
        here = given.get(slot.offset)
        if here is not None:
            data = encode(kernel, slot, here)
        elif slot.hidden:
            data = _hidden(where, slot, geometry)
        elif slot.kind == "dynamic_shared_pointer":
            data = encode(kernel, slot, _lds_end(kernel, slot))
        elif slot.kind not in ("by_value", "global_buffer"):
            raise UnsupportedError(
                f"{where}: argument {slot.label} is a {slot.kind}: no such launch"
            )
        elif slot.padding:
            continue
        else:
            missing.append(slot)
            continue
        block[slot.offset : slot.offset + slot.size] = data
    if missing:
        raise LaunchError(f"{where}: no value for {', '.join(s.label for s in missing)}")
    return bytes(block)


def _lds_end(kernel: Kernel, slot: Slot) -> int:
    """Where dynamic LDS begins: behind the kernel's own, aligned as the pointer's target asks."""
    fixed = kernel.metadata.get(".group_segment_fixed_size", 0)
    align = next(
        (
            entry.get(".pointee_align", 16)
            for entry in kernel.metadata[".args"]
            if entry.get(".offset") == slot.offset
        ),
        16,
    )
    if type(fixed) is not int or type(align) is not int or fixed < 0 or align < 1:
        raise FormatError(f"kernel {kernel.name!r}: metadata: no usable LDS size for {slot.label}")
    return -(-fixed // align) * align


# type → (struct code, bytes). bf16 is the high half of f32.
_SCALARS = {
    **{"i8": ("<b", 1), "i16": ("<h", 2), "i32": ("<i", 4), "i64": ("<q", 8)},
    **{"u8": ("<B", 1), "u16": ("<H", 2), "u32": ("<I", 4), "u64": ("<Q", 8)},
    **{"f16": ("<e", 2), "f32": ("<f", 4), "f64": ("<d", 8)},
}
# The type names of OpenCL C and HIP for which a whole number is meant as a float.
_FLOAT_NAMES = {
    **{"float": "f32", "double": "f64", "half": "f16", "_Float16": "f16"},
    **{"fp32": "f32", "f32": "f32", "f64": "f64", "f16": "f16", "bf16": "bf16"},
}


#: The types that a :class:`Scalar` can have.
SCALAR_TYPES = ("bf16", *_SCALARS)


def encode(kernel: Kernel, slot: Slot, value: Value) -> bytes:
    """The bytes of *value* as an argument: exactly ``slot.size`` of them.

    Raises:
        LaunchError: it does not fit, or its type is needed and not given.
    """
    where = f"kernel {kernel.name!r}: argument {slot.label}"
    if isinstance(value, bytes):
        if len(value) != slot.size:
            raise LaunchError(f"{where} has {slot.size} bytes, not {len(value)}")
        return value
    if isinstance(value, Scalar):
        data = _scalar(where, value)
        if len(data) != slot.size:
            raise LaunchError(f"{where} has {slot.size} bytes, a {value.type} has {len(data)}")
        return data
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise LaunchError(f"{where}: a {type(value).__name__} is no number")
    declared = _FLOAT_NAMES.get(slot.type or "")
    if isinstance(value, float) and declared is None:
        # The metadata's type is not to be relied on: floats are found behind "i32".
        declared = {4: "f32", 8: "f64"}.get(slot.size)
        if declared is None:
            raise LaunchError(f"{where} has {slot.size} bytes: say the type of {value}")
    if declared is not None:
        return encode(kernel, slot, Scalar(declared, value))
    bits = 8 * slot.size
    if not -(1 << bits >> 1) <= value < 1 << bits:
        raise LaunchError(f"{where}: {value} does not fit in {slot.size} bytes")
    return (int(value) & (1 << bits) - 1).to_bytes(slot.size, "little")


def _scalar(where: str, scalar: Scalar) -> bytes:
    if scalar.type == "bf16":
        return _bf16(float(scalar.value)).to_bytes(2, "little")
    if scalar.type not in _SCALARS:
        known = ", ".join(SCALAR_TYPES)
        raise LaunchError(f"{where}: unknown type {scalar.type!r}; known are {known}")
    code, _ = _SCALARS[scalar.type]
    try:
        if scalar.type.startswith("f"):
            return struct.pack(code, float(scalar.value))
        if isinstance(scalar.value, float):
            raise LaunchError(f"{where}: {scalar.value} is no whole number, as {scalar.type} needs")
        return struct.pack(code, scalar.value)
    except (struct.error, OverflowError):
        raise LaunchError(f"{where}: {scalar.value} does not fit in {scalar.type}") from None


def _bf16(value: float) -> int:
    """The bf16 nearest to *value*, ties to even, as bits."""
    import numpy as np
    from ml_dtypes import bfloat16

    return int(np.array(value, np.float64).astype(bfloat16).view(np.uint16))


# What fills a hidden argument, from the geometry; pointers and the like are 0.
_AXES = {"x": 0, "y": 1, "z": 2}
_PER_AXIS: dict[str, Callable[[Geometry, int], int]] = {
    "hidden_block_count": lambda g, axis: g.grid[axis],
    "hidden_group_size": lambda g, axis: g.workgroup[axis],
    "hidden_remainder": lambda g, axis: 0,  # the grid is whole workgroups
    "hidden_global_offset": lambda g, axis: 0,
}
_WHOLE: dict[str, Callable[[Geometry], int]] = {
    "hidden_grid_dims": lambda g: g.dimensions,
    "hidden_dynamic_lds_size": lambda g: g.dynamic_lds,
}
_NULL = frozenset(
    (
        *("hidden_none", "hidden_printf_buffer", "hidden_hostcall_buffer", "hidden_heap_v1"),
        *("hidden_default_queue", "hidden_completion_action", "hidden_multigrid_sync_arg"),
        *("hidden_queue_ptr", "hidden_private_base", "hidden_shared_base"),
    )
)


def _hidden(where: str, slot: Slot, geometry: Geometry) -> bytes:
    stem, _, axis = slot.kind.rpartition("_")
    if axis in _AXES and stem in _PER_AXIS:
        value = _PER_AXIS[stem](geometry, _AXES[axis])
    elif slot.kind in _WHOLE:
        value = _WHOLE[slot.kind](geometry)
    elif slot.kind in _NULL:
        value = 0
    else:
        raise UnsupportedError(f"{where}: argument {slot.label} is an unknown {slot.kind!r}")
    if value >= 1 << 8 * slot.size:
        raise LaunchError(
            f"{where}: argument {slot.label}: {value} does not fit in {slot.size} bytes"
        )
    return value.to_bytes(slot.size, "little")
