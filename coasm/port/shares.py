"""What a kernel takes on a target, and what changes there in nothing but speed."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import NamedTuple

from coasm.codeobject import Kernel
from coasm.descriptor import resources
from coasm.isa.kinds import is_a
from coasm.occupancy import Occupancy, occupancy
from coasm.port.collected import Collected
from coasm.port.reasons import Sides
from coasm.port.rules import Reason
from coasm.target import Processor, TargetID

__all__ = ["Share", "notes", "share"]


class Share(NamedTuple):
    """What a kernel takes on one target: allocated LDS in bytes, and what is resident of it."""

    vgprs: int
    agprs: int
    sgprs: int | None
    lds: int
    lds_allocated: int
    occupancy: Occupancy | None


def share(kernel: Kernel, one: Processor) -> Share:
    """What a kernel takes on a processor."""
    asked = resources(kernel.descriptor, TargetID(one))
    granule = one.family.lds_granule
    offset = asked.accum_offset
    size = kernel.metadata.get(".max_flat_workgroup_size")
    required = kernel.metadata.get(".reqd_workgroup_size")
    if isinstance(required, list) and all(isinstance(axis, int) for axis in required):
        size = prod(required)
    fits = isinstance(size, int) and size > 0 and asked.lds <= one.family.lds_bytes
    return Share(
        asked.vgprs,
        0 if offset is None else max(0, asked.vgprs - offset),
        asked.sgprs,
        asked.lds,
        -(-asked.lds // granule) * granule,
        occupancy(one, asked, size) if fits and isinstance(size, int) else None,
    )


def notes(
    kernel: Kernel, found: Collected, sides: Sides, shares: tuple[Share, Share]
) -> Iterator[Reason]:
    """What changes nothing that the kernel computes."""
    before, after = shares
    at = kernel.descriptor_address
    old, new = sides.families
    if before.lds_allocated != after.lds_allocated:
        yield Reason(
            "lds-granule",
            at,
            "",
            f"{after.lds:,} bytes of LDS take {after.lds_allocated:,} instead of "
            f"{before.lds_allocated:,}: granules of {new.lds_granule:,} instead of "
            f"{old.lds_granule:,}",
        )
    if sides.differ("lds_banks"):
        for item in found.instructions(kernel):
            if is_a(item.mnemonic, "LDS access"):
                what = f"{new.lds_banks} banks instead of {old.lds_banks}"
                yield Reason(
                    "lds-banks", item.address, item.text, what, "measure, and swizzle anew"
                )
                break
    one, other = (each.occupancy for each in shares)
    if one is not None and other is not None and one.waves_per_simd != other.waves_per_simd:
        yield Reason(
            "occupancy",
            at,
            "",
            f"{other.waves_per_simd} waves on a SIMD instead of {one.waves_per_simd} (limited by "
            f"{', '.join(other.limited_by)})",
        )
