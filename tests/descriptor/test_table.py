from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coasm.descriptor import decode, describe, differences, fields_of, pack
from coasm.errors import FormatError
from coasm.target import PROCESSORS, TargetID

targets = st.sampled_from([TargetID(proc) for proc in PROCESSORS.values()])
descriptors = st.binary(min_size=64, max_size=64)


@pytest.mark.parametrize("name", PROCESSORS)
def test_every_bit_is_in_exactly_one_field(name):
    fields = fields_of(PROCESSORS[name])
    covered = sorted(bit for field in fields for bit in range(field.bit, field.end))
    assert covered == list(range(512))
    assert len({field.name for field in fields}) == len(fields)


# Which versions LLVM's header means by the tag in a name: from, below.
_GENERATIONS = {
    "": ((0,), (99,)),
    "_GFX6_GFX8": ((6,), (9,)),
    "_GFX6_GFX9": ((6,), (10,)),
    "_GFX6_GFX11": ((6,), (12,)),
    "_GFX6_GFX120": ((6,), (12, 5)),
    "_GFX9_PLUS": ((9,), (99,)),
    "_GFX10": ((10,), (11,)),
    "_GFX10_GFX11": ((10,), (12,)),
    "_GFX10_GFX120": ((10,), (12, 5)),
    "_GFX10_PLUS": ((10,), (99,)),
    "_GFX11": ((11,), (12,)),
    "_GFX11_PLUS": ((11,), (99,)),
    "_GFX12_PLUS": ((12,), (99,)),
    "_GFX120": ((12,), (12, 5)),
    "_GFX125": ((12, 5), (99,)),
}
_PART_BYTES = {
    "COMPUTE_PGM_RSRC3": 44,
    "COMPUTE_PGM_RSRC1": 48,
    "COMPUTE_PGM_RSRC2": 52,
    "KERNEL_CODE_PROPERTY": 56,
    "KERNARG_PRELOAD_SPEC": 58,
}


@pytest.mark.parametrize("name", PROCESSORS)
def test_fields_are_those_of_llvms_header(name, llvm):
    installed = Path(llvm.clang).resolve().parent.parent / "include" / "llvm" / "Support"
    fetched = Path(__file__).parent.parent.parent / "build" / "llvm-22"
    for folder in (installed, fetched):
        header = folder / "AMDHSAKernelDescriptor.h"
        if header.exists() and (llvm.major == 22 or folder == fetched):
            break
    else:
        pytest.skip("needs the header AMDHSAKernelDescriptor.h of LLVM 22 (llvm-22-dev)")
    proc = PROCESSORS[name]
    pattern = rf"^  ({'|'.join(_PART_BYTES)})(_GFX\w+)?\((\w+), (\d+), (\d+)\),"
    entries = re.findall(pattern, header.read_text(), re.M)
    assert len(entries) >= 80
    expected = set()
    for part, tag, entry, bit, width in entries:
        if tag == "_GFX90A":
            exists = proc.version >= (9, 0, 10) and proc.version < (10,) and name != "gfx90c"
        else:
            since, before = _GENERATIONS[tag]
            exists = since <= proc.version < before
            if part == "COMPUTE_PGM_RSRC3":
                exists &= proc.version >= (10,)
        if entry == "ENABLE_WAVEFRONT_SIZE32":
            exists &= proc.version >= (10,)  # the header says so in a comment
        if exists and "RESERVED" not in entry:
            field = entry.lower()
            prefix = "kernarg_preload_" if part == "KERNARG_PRELOAD_SPEC" else ""
            expected.add((prefix + field, _PART_BYTES[part] * 8 + int(bit), int(width)))
    found = {(f.name, f.bit, f.width) for f in fields_of(proc) if "reserved" not in f.name}
    plain = {
        ("group_segment_fixed_size", 0, 32),
        ("private_segment_fixed_size", 32, 32),
        ("kernarg_size", 64, 32),
        ("kernel_code_entry_byte_offset", 128, 64),
    }
    assert found - plain == expected
    assert plain <= found


@given(descriptors, targets)
def test_decode_and_pack_are_inverse(data, target):
    descriptor = decode(data, target)
    assert pack(descriptor.fields, target) == data


@given(descriptors, targets, st.integers(0, 511))
def test_every_single_bit_shows_as_one_difference(data, target, bit):
    other = (int.from_bytes(data, "little") ^ 1 << bit).to_bytes(64, "little")
    assert differences(data, data, target) == []
    ((name, before, after),) = differences(data, other, target)
    (field,) = (f for f in fields_of(target.processor) if f.bit <= bit < f.end)
    assert name == field.name
    assert before != after
    assert differences(other, data, target) == [(name, after, before)]


@given(descriptors, targets)
def test_describe_names_every_field_that_is_not_zero(data, target):
    named = [line.split(" = ")[0] for line in describe(data, target, zeros=False)]
    assert named == [name for name, value in decode(data, target).fields.items() if value]


def test_describe_gives_the_counts():
    fields = {
        "granulated_workitem_vgpr_count": 63,
        "granulated_wavefront_sgpr_count": 12,
        "accum_offset": 63,
    }
    target = TargetID(PROCESSORS["gfx942"])
    # (63 + 1) * 8 VGPRs, (12 + 1) * 8 SGPRs, (63 + 1) * 4: LLVM AMDGPU usage, compute_pgm_rsrc1/3.
    lines = describe(pack(fields, target), target)
    assert "granulated_workitem_vgpr_count = 63 (512 VGPRs)" in lines
    assert "granulated_wavefront_sgpr_count = 12 (104 SGPRs)" in lines
    assert "accum_offset = 63 (AGPRs start at VGPR 256)" in lines
    assert "tg_split = 0" in lines


def test_the_entry_offset_is_signed():
    target = TargetID(PROCESSORS["gfx942"])
    data = bytes(16) + (-4096).to_bytes(8, "little", signed=True) + bytes(40)
    assert decode(data, target)["kernel_code_entry_byte_offset"] == -4096
    assert pack({"kernel_code_entry_byte_offset": -4096}, target) == data


@pytest.mark.parametrize("size", [0, 63, 65])
def test_other_sizes_are_refused(size):
    target = TargetID(PROCESSORS["gfx942"])
    with pytest.raises(FormatError, match=f"64 bytes, not {size}"):
        decode(bytes(size), target)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"fp16_ovfl": 2}, "does not fit in 1 bits"),
        ({"fp16_ovfl": -1}, "does not fit in 1 bits"),
        ({"shared_vgpr_count": 1}, "gfx942 kernel descriptors have no field 'shared_vgpr_count'"),
    ],
)
def test_pack_refuses_what_does_not_fit(fields, message):
    with pytest.raises(FormatError, match=message):
        pack(fields, TargetID(PROCESSORS["gfx942"]))
