"""A kernel descriptor as an object with named fields."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from coasm.descriptor import Resources, UserSgpr, decode, resources
from coasm.target import TargetID

__all__ = ["KernelDescriptor"]


class KernelDescriptor(bytes):
    """The 64 bytes of a kernel descriptor, and what they say.

    Every field has an attribute of its own, the name is LLVM's (``AMDHSAKernelDescriptor.h``) in
    lower case: ``descriptor.kernarg_preload_length``; ``fields`` holds them all. The properties
    below are in everyday units: bytes, registers.
    """

    target: TargetID

    def __new__(cls, data: bytes, target: TargetID) -> KernelDescriptor:
        made = super().__new__(cls, data)
        made.target = target
        return made

    @cached_property
    def fields(self) -> Mapping[str, int]:
        """Field → its raw value, in the order of the bits."""
        return decode(self, self.target).fields

    def __getattr__(self, name: str) -> int:
        if not name.startswith("__") and name in self.fields:
            return self.fields[name]
        raise AttributeError(f"kernel descriptors of {self.target.name} have no field {name!r}")

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.fields})

    def __repr__(self) -> str:
        said = ", ".join(f"{name}={value}" for name, value in self.fields.items() if value)
        return f"KernelDescriptor({said})"

    __str__ = __repr__

    @cached_property
    def resources(self) -> Resources:
        """What the descriptor asks for.

        Raises:
            UnsupportedError: a wavefront size that the target does not have.
        """
        return resources(self, self.target)

    @property
    def wave_size(self) -> int:
        """Lanes of a wavefront: 32 or 64."""
        return self.resources.wave_size

    @property
    def vgprs(self) -> int:
        """VGPRs in the descriptor's granules; with the AGPRs where both are one file."""
        return self.resources.vgprs

    @property
    def agprs(self) -> int:
        """The AGPRs of a register file that both share; 0 elsewhere."""
        offset = self.resources.accum_offset
        return 0 if offset is None else max(0, self.resources.vgprs - offset)

    @property
    def sgprs(self) -> int | None:
        """SGPRs in the descriptor's granules, VCC and the like too; None where none are counted."""
        return self.resources.sgprs

    @property
    def lds(self) -> int:
        """Bytes of LDS that the kernel declares."""
        return self.resources.lds

    @property
    def scratch(self) -> int:
        """Bytes of private memory of a work-item."""
        return self.resources.scratch

    @property
    def user_sgprs(self) -> tuple[UserSgpr, ...]:
        """What the dispatch puts into which SGPRs."""
        return self.resources.user_sgprs
