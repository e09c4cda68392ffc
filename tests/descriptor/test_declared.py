"""Facts read from descriptors that LLVM's assembler made of known directives."""

from __future__ import annotations

import pytest

from coasm.descriptor import UserSgpr, resources
from coasm.errors import FormatError
from coasm.target import PROCESSORS, TargetID


def made(judge, name, **asked):
    proc = PROCESSORS[name]
    target = TargetID(proc, "any" if proc.xnack else "", "any" if proc.sramecc else "")
    (data,) = judge([[f".amdhsa_{key} {value}" for key, value in asked.items()]], target)
    assert isinstance(data, bytes), data
    return resources(data, target)


def test_everything_that_a_gfx90a_descriptor_says(judge):
    found = made(
        judge,
        "gfx90a",
        group_segment_fixed_size=1024,
        private_segment_fixed_size=48,
        kernarg_size=64,
        user_sgpr_private_segment_buffer=1,
        user_sgpr_dispatch_ptr=1,
        user_sgpr_kernarg_segment_ptr=1,
        user_sgpr_kernarg_preload_length=3,
        user_sgpr_private_segment_size=1,
        user_sgpr_count=15,
        uses_dynamic_stack=1,
        system_sgpr_private_segment_wavefront_offset=1,
        system_sgpr_workgroup_id_x=1,
        system_sgpr_workgroup_id_z=1,
        system_vgpr_workitem_id=2,
        next_free_vgpr=100,
        next_free_sgpr=40,
        accum_offset=52,
        float_denorm_mode_32=3,
        float_round_mode_16_64=1,
        ieee_mode=0,
    )
    assert found.wave_size == 64
    assert (found.vgprs, found.vgpr_granule, found.vgprs_allocated) == (104, 8, 104)
    assert found.accum_offset == 52
    assert (found.sgprs, found.sgpr_granule) == (48, 8)  # 40 + 6 for VCC, FLAT_SCRATCH, XNACK_MASK
    assert (found.lds, found.scratch, found.kernarg_size) == (1024, 48, 64)
    assert found.scratch_enabled
    assert found.dynamic_stack
    assert found.user_sgpr_count == 15
    # The order of LLVM AMDGPU usage, "SGPR Register Set Up Order".
    assert found.user_sgprs == (
        UserSgpr("private_segment_buffer", 0, 4),
        UserSgpr("dispatch_ptr", 4, 2),
        UserSgpr("kernarg_segment_ptr", 6, 2),
        UserSgpr("private_segment_size", 8, 1),
        UserSgpr("kernarg_preload", 9, 3),
    )
    assert found.system_sgprs == ("workgroup_id_x", "workgroup_id_z")
    assert found.workitem_ids == 3
    assert dict(found.float_modes) == {
        "float_round_mode_32": 0,
        "float_round_mode_16_64": 1,
        "float_denorm_mode_32": 3,
        "float_denorm_mode_16_64": 3,
        "enable_dx10_clamp": 1,
        "enable_ieee_mode": 0,
        "fp16_ovfl": 0,
    }


@pytest.mark.parametrize(
    ("name", "wave32", "asked", "vgprs", "allocated"),
    [
        ("gfx906", None, 33, 36, 36),
        ("gfx1010", 1, 33, 40, 40),
        ("gfx1010", 0, 33, 36, 36),
        ("gfx1030", 1, 33, 40, 48),  # allocated in 16s
        ("gfx1100", 1, 33, 40, 48),  # in 24s
        ("gfx1100", 0, 33, 36, 36),  # in 12s
        ("gfx1102", 0, 33, 36, 40),  # in 8s
        ("gfx1250", 1, 1000, 1008, 1008),
    ],
)
def test_vgprs_by_wavefront_size(judge, name, wave32, asked, vgprs, allocated):
    size = {} if wave32 is None else {"wavefront_size32": wave32}
    found = made(judge, name, next_free_vgpr=asked, next_free_sgpr=8, **size)
    assert found.wave_size == (32 if wave32 else 64)
    assert (found.vgprs, found.vgprs_allocated) == (vgprs, allocated)
    assert found.accum_offset is None


def test_gfx10_and_later_count_no_sgprs_and_gfx12_has_no_ieee_mode(judge):
    found = made(judge, "gfx1200", next_free_vgpr=8, next_free_sgpr=90)
    assert found.sgprs is None
    assert found.sgpr_granule is None
    assert "enable_ieee_mode" not in dict(found.float_modes)


def test_other_sizes_are_refused():
    with pytest.raises(FormatError):
        resources(b"", TargetID(PROCESSORS["gfx942"]))
