"""How many waves of a kernel can be resident at once, and what limits them.

Source: LLVM's ``AMDGPUBaseInfo.cpp`` (``IsaInfo``) and ``AMDGPUSubtarget.cpp``
(``getOccupancyWithWorkGroupSizes``), with registers and LDS counted in the granules that the
hardware allocates.
"""

from __future__ import annotations

from dataclasses import dataclass

from coasm.descriptor.declared import Resources
from coasm.target import Processor

__all__ = ["Limit", "Occupancy", "occupancy"]


@dataclass(frozen=True)
class Limit:
    """How far one resource lets a kernel fill a compute unit.

    ``cause`` is ``VGPRs``, ``SGPRs``, ``LDS``, ``workgroup slots`` or ``wave slots``. ``detail``
    is the calculation in words.
    """

    cause: str
    waves_per_simd: int
    workgroups: int
    detail: str


@dataclass(frozen=True)
class Occupancy:
    """How many waves of a kernel can be resident at once.

    ``unit`` is what a workgroup runs on: ``CU``, or ``WGP`` (two CUs) in workgroup processor mode.
    ``workgroups`` fit on one unit at a time, of ``workgroup_size`` work-items or
    ``workgroup_waves`` waves each; that fills the busiest SIMD with ``waves_per_simd`` waves of the
    hardware's ``max_waves_per_simd``. ``limited_by`` names the causes of the lowest limit. Where
    the metadata requires no size, ``workgroup_size`` is the greatest it allows: ``workgroups`` is 0
    where one of that size does not fit.
    """

    unit: str
    simds: int
    workgroup_size: int
    workgroup_waves: int
    workgroups: int
    waves_per_simd: int
    max_waves_per_simd: int
    limited_by: tuple[str, ...]
    limits: tuple[Limit, ...]


def occupancy(
    processor: Processor, asked: Resources, workgroup_size: int, *, wgp_mode: bool = False
) -> Occupancy:
    """How many workgroups and waves of a kernel can be resident on one compute unit.

    *asked* is what its descriptor asks for, *workgroup_size* in work-items (at least 1), *wgp_mode*
    whether it runs in workgroup processor mode. LDS that is added at launch, scratch memory, and
    SGPRs that a trap handler takes are not counted.

    Raises:
        UnsupportedError: the target has no waves of that size.
    """
    family = processor.family
    wgp = wgp_mode and family.wgp_mode
    # Source: LLVM, getEUsPerCU. A CU has four SIMDs, on GFX10 to GFX12 two (its WGP four).
    simds = 2 if family.wgp_mode and not wgp else 4
    waves = -(-workgroup_size // asked.wave_size)
    slots = family.max_waves * simds
    limits = []

    def by_waves(cause: str, per_simd: int, detail: str) -> None:
        per_simd = min(per_simd, family.max_waves)
        limits.append(Limit(cause, per_simd, per_simd * simds // waves, detail))

    def by_workgroups(cause: str, workgroups: int, detail: str) -> None:
        # No more than there are wave slots for; on the busiest SIMD, as LLVM counts.
        resident = min(workgroups * waves, slots)
        limits.append(Limit(cause, -(-resident // simds), workgroups, detail))

    file = family.vgpr_file(asked.wave_size)
    by_waves(
        "VGPRs",
        file.total // asked.vgprs_allocated,
        f"{asked.vgprs_allocated} of {file.total} in granules of {file.allocation}",
    )
    if asked.sgprs is not None and family.sgpr_total:
        granule = family.sgpr_allocation
        taken = 96 if family.sgpr_init_bug else -(-asked.sgprs // granule) * granule
        by_waves(
            "SGPRs",
            family.sgpr_total // taken,
            f"{taken} of {family.sgpr_total} in granules of {granule}",
        )
    if asked.lds:
        granule = family.lds_granule
        taken = -(-asked.lds // granule) * granule
        total = family.lds_bytes * (2 if wgp else 1)
        fits = total // taken if asked.lds <= family.lds_bytes else 0
        by_workgroups("LDS", fits, f"{taken} of {total} bytes in granules of {granule}")
    if waves > 1:
        # Source: LLVM, getMaxWorkGroupsPerCU; a workgroup of one wave needs no barrier.
        barriers = 32 if wgp else 16
        by_workgroups("workgroup slots", barriers, f"{barriers} workgroups of more than one wave")
    by_workgroups(
        "wave slots", slots // waves, f"{family.max_waves} waves on each of {simds} SIMDs"
    )

    workgroups = min(limit.workgroups for limit in limits)
    return Occupancy(
        unit="WGP" if wgp else "CU",
        simds=simds,
        workgroup_size=workgroup_size,
        workgroup_waves=waves,
        workgroups=workgroups,
        waves_per_simd=-(-workgroups * waves // simds),
        max_waves_per_simd=family.max_waves,
        limited_by=tuple(limit.cause for limit in limits if limit.workgroups == workgroups),
        limits=tuple(limits),
    )
