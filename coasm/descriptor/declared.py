"""What a kernel descriptor says of a kernel's resources and initial state, in everyday units."""

from __future__ import annotations

from dataclasses import dataclass

from coasm.descriptor.codec import decode
from coasm.descriptor.table import USER_SGPRS
from coasm.target import TargetID

__all__ = ["Resources", "UserSgpr", "resources"]

_SYSTEM_SGPRS = ("workgroup_id_x", "workgroup_id_y", "workgroup_id_z", "workgroup_info")
_FLOAT_MODES = (
    "float_round_mode_32",
    "float_round_mode_16_64",
    "float_denorm_mode_32",
    "float_denorm_mode_16_64",
    "enable_dx10_clamp",
    "enable_ieee_mode",
    "fp16_ovfl",
)


@dataclass(frozen=True)
class UserSgpr:
    """User SGPRs ``s[first : first + count - 1]`` and what the dispatch puts there."""

    name: str
    first: int
    count: int


@dataclass(frozen=True)
class Resources:
    """The resources that a descriptor asks for; sizes in bytes, registers per lane or per wave.

    ``vgprs`` is the granulated count that the descriptor holds, ``vgprs_allocated`` what the
    hardware sets aside for it. Where VGPRs and AGPRs are one file, ``accum_offset`` is where the
    AGPRs start, else None. ``sgprs`` is the granulated count with the extra SGPRs in it, None on
    GFX10 and later, where every wave gets them all. ``user_sgpr_count`` may be more than
    ``user_sgprs`` add up to. ``system_sgprs`` names the enabled ones. ``workitem_ids`` is how
    many work-item ID components the kernel asks for (1 to 3). ``float_modes`` holds the raw
    mode fields that the target has.
    """

    wave_size: int
    vgprs: int
    vgpr_granule: int
    vgprs_allocated: int
    accum_offset: int | None
    sgprs: int | None
    sgpr_granule: int | None
    lds: int
    scratch: int
    scratch_enabled: bool
    dynamic_stack: bool
    kernarg_size: int
    user_sgpr_count: int
    user_sgprs: tuple[UserSgpr, ...]
    system_sgprs: tuple[str, ...]
    workitem_ids: int
    float_modes: tuple[tuple[str, int], ...]


def resources(data: bytes, target: TargetID) -> Resources:
    """The resources of a kernel, read from the 64 bytes of its descriptor.

    Source: LLVM AMDGPU usage, "Kernel Descriptor" and "Initial Kernel Execution State".

    Raises:
        FormatError: *data* is not 64 bytes.
        UnsupportedError: a wavefront size that the target does not have.
    """
    d = decode(data, target)
    proc = target.processor
    file = proc.family.vgpr_file(d.wave_size)
    vgprs = (d["granulated_workitem_vgpr_count"] + 1) * file.encoding
    counted = proc.family.sgpr_total > 0
    users, first = [], 0
    preload = ("kernarg_preload_length", d["kernarg_preload_length"])
    for name, count in (*USER_SGPRS, preload):
        if d[name]:
            short = name.removeprefix("enable_sgpr_").removesuffix("_length")
            users.append(UserSgpr(short, first, count))
            first += count
    return Resources(
        wave_size=d.wave_size,
        vgprs=vgprs,
        vgpr_granule=file.encoding,
        vgprs_allocated=-(-vgprs // file.allocation) * file.allocation,
        accum_offset=(d["accum_offset"] + 1) * 4 if "accum_offset" in d else None,
        sgprs=(d["granulated_wavefront_sgpr_count"] + 1) * 8 if counted else None,
        sgpr_granule=8 if counted else None,
        lds=d["group_segment_fixed_size"],
        scratch=d["private_segment_fixed_size"],
        scratch_enabled=bool(d["enable_private_segment"]),
        dynamic_stack=bool(d["uses_dynamic_stack"]),
        kernarg_size=d["kernarg_size"],
        user_sgpr_count=d["user_sgpr_count"],
        user_sgprs=tuple(users),
        system_sgprs=tuple(n for n in _SYSTEM_SGPRS if d[f"enable_sgpr_{n}"]),
        workitem_ids=min(d["enable_vgpr_workitem_id"], 2) + 1,
        float_modes=tuple((n, d[n]) for n in _FLOAT_MODES if n in d),
    )
