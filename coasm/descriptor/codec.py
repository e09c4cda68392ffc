"""64 bytes ↔ named fields, and what two descriptors differ in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from coasm.descriptor.table import SIZE, Field, fields_of
from coasm.errors import FormatError
from coasm.target import TargetID

__all__ = ["Descriptor", "decode", "describe", "differences", "pack"]


@dataclass(frozen=True)
class Descriptor:
    """A decoded kernel descriptor: the raw value of each field by its name, in table order.

    The names are LLVM's (``AMDHSAKernelDescriptor.h``) in lower case; reserved bits have fields
    of their own. ``descriptor["tg_split"]`` is the value, ``"tg_split" in descriptor`` says
    whether the target has such a field.
    """

    target: TargetID
    fields: Mapping[str, int]

    def __getitem__(self, name: str) -> int:
        return self.fields[name]

    def __contains__(self, name: str) -> bool:
        return name in self.fields

    def get(self, name: str) -> int:
        """The value of a field; 0 where the target has no such field."""
        return self.fields.get(name, 0)

    @property
    def wave_size(self) -> int:
        """32 or 64 lanes: GFX10 and later say it in a bit, all before have wave64."""
        return 32 if self.get("enable_wavefront_size32") else 64


def decode(data: bytes, target: TargetID) -> Descriptor:
    """The fields of the 64 bytes of a kernel descriptor.

    Raises:
        FormatError: *data* is not 64 bytes.
    """
    if len(data) != SIZE:
        raise FormatError(f"a kernel descriptor has {SIZE} bytes, not {len(data)}")
    bits = int.from_bytes(data, "little")
    return Descriptor(
        target, {field.name: _get(field, bits) for field in fields_of(target.processor)}
    )


def pack(fields: Mapping[str, int], target: TargetID) -> bytes:
    """The 64 bytes that hold these field values; a field that is not named is 0.

    Raises:
        FormatError: a name that the target has no field of, or a value that does not fit.
    """
    table = {field.name: field for field in fields_of(target.processor)}
    bits = 0
    for name, value in fields.items():
        field = table.get(name)
        if field is None:
            raise FormatError(f"{target.name} kernel descriptors have no field {name!r}")
        low = -(1 << field.width - 1) if field.signed else 0
        if not low <= value < low + (1 << field.width):
            raise FormatError(f"{name} = {value} does not fit in {field.width} bits")
        bits |= (value & (1 << field.width) - 1) << field.bit
    return bits.to_bytes(SIZE, "little")


def describe(data: bytes, target: TargetID, *, zeros: bool = True) -> list[str]:
    """The fields for a human reader, one ``name = value`` each, with what the value stands for.

    Without *zeros*, fields that are 0 are left out; reserved fields that are 0 always are.

    Raises:
        FormatError: *data* is not 64 bytes.
    """
    descriptor = decode(data, target)
    lines = []
    for field in fields_of(target.processor):
        value = descriptor[field.name]
        if value or (zeros and "reserved" not in field.name):
            large = "reserved" in field.name or field.signed
            text = f"{value:#x}" if large else f"{value}"
            lines.append(f"{field.name} = {text}{_meaning(field.name, descriptor)}")
    return lines


def differences(a: bytes, b: bytes, target: TargetID) -> list[tuple[str, int, int]]:
    """The fields in which two descriptors of *target* differ: (name, value in *a*, in *b*).

    Empty exactly where the 64 bytes are equal.

    Raises:
        FormatError: *a* or *b* is not 64 bytes.
    """
    if a == b and len(a) == SIZE:
        return []
    one, other = decode(a, target), decode(b, target)
    return [(n, v, other[n]) for n, v in one.fields.items() if v != other[n]]


def _get(field: Field, bits: int) -> int:
    value = bits >> field.bit & (1 << field.width) - 1
    if field.signed and value >> field.width - 1:
        value -= 1 << field.width
    return value


def _meaning(name: str, descriptor: Descriptor) -> str:
    proc = descriptor.target.processor
    value = descriptor[name]
    if name == "granulated_workitem_vgpr_count":
        granule = proc.family.vgpr_file(descriptor.wave_size).encoding
        return f" ({(value + 1) * granule} VGPRs)"
    if name == "granulated_wavefront_sgpr_count" and proc.family.sgpr_total:
        return f" ({(value + 1) * 8} SGPRs)"
    if name == "accum_offset":
        return f" (AGPRs start at VGPR {(value + 1) * 4})"
    return ""


def preload_entry(data: bytes, entry: int, target: TargetID) -> int | None:
    """Where firmware that preloads kernel arguments enters the kernel at *entry*.

    None where that is *entry* itself: nothing is preloaded, or the target has no prologue.
    """
    prologue = target.processor.family.preload_prologue
    if not prologue or not decode(data, target)["kernarg_preload_length"]:
        return None
    return entry + prologue
