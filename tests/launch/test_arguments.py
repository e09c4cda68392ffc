"""Kernarg segments against `struct`, and against what clang says of a compiled kernel."""

from __future__ import annotations

import contextlib
import math
import struct
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coasm.codeobject import load
from coasm.errors import CoasmError, FormatError, LaunchError, UnsupportedError
from coasm.launch.arguments import Geometry, Scalar, encode, find_slot, pack, slots
from coasm.llvm import Llvm
from tests.launch.objects import kernel

GEOMETRY = Geometry((3, 5, 7), (64, 2, 1), dynamic_lds=512, dimensions=2)
VALUE = "by_value"
POINTER = "global_buffer"


def test_values_lie_where_the_metadata_says() -> None:
    made = kernel(
        [
            ("out", 0, 8, POINTER),
            ("count", 8, 4, VALUE),
            ("alpha", 12, 4, VALUE),
            ("step", 16, 8, VALUE),
            ("flag", 24, 1, VALUE),
            ("pair", 26, 6, VALUE),
        ],
        40,
    )
    block = pack(
        made,
        {
            "out": 0x7F12_3456_7800,
            "count": -2,
            "@0xc": 1.5,
            16: 2.5,
            "flag": Scalar("u8", 200),
            "pair": b"abcdef",
        },
        GEOMETRY,
    )
    assert block == struct.pack("<QifdBx6s8x", 0x7F12_3456_7800, -2, 1.5, 2.5, 200, b"abcdef")


# Source of kinds, sizes and values: LLVM AMDGPU usage, code object V5 metadata.
HIDDEN = [
    *(("hidden_block_count_" + axis, 4) for axis in "xyz"),
    *(("hidden_group_size_" + axis, 2) for axis in "xyz"),
    *(("hidden_remainder_" + axis, 2) for axis in "xyz"),
    *(("hidden_global_offset_" + axis, 8) for axis in "xyz"),
    ("hidden_grid_dims", 2),
    ("hidden_printf_buffer", 8),
    ("hidden_hostcall_buffer", 8),
    ("hidden_multigrid_sync_arg", 8),
    ("hidden_heap_v1", 8),
    ("hidden_default_queue", 8),
    ("hidden_completion_action", 8),
    ("hidden_dynamic_lds_size", 4),
    ("hidden_private_base", 4),
    ("hidden_shared_base", 4),
    ("hidden_queue_ptr", 8),
]


def test_hidden_arguments_are_filled_in() -> None:
    arguments, offset = [], 0
    for kind, size in HIDDEN:
        offset = -(-offset // size) * size
        arguments.append((None, offset, size, kind))
        offset += size
    block = pack(kernel(arguments, offset), {}, GEOMETRY)
    fields = {
        kind: int.from_bytes(block[at : at + size], "little") for _, at, size, kind in arguments
    }
    wanted = dict.fromkeys((kind for kind, _ in HIDDEN), 0)
    wanted |= {"hidden_block_count_x": 3, "hidden_block_count_y": 5, "hidden_block_count_z": 7}
    wanted |= {"hidden_group_size_x": 64, "hidden_group_size_y": 2, "hidden_group_size_z": 1}
    wanted |= {"hidden_grid_dims": 2, "hidden_dynamic_lds_size": 512}
    assert fields == wanted


def test_a_compiled_kernel(llvm: Llvm, tmp_path: Path) -> None:
    """An OpenCL C kernel as clang lays its arguments out: C's own rules, then the hidden ones."""
    text = (
        "kernel void k(global float *out, char a, short b, float c, double d, global int *p,\n"
        "  local int *l) {\n"
        "  constant ushort *hidden = __builtin_amdgcn_implicitarg_ptr();\n"
        "  out[__builtin_amdgcn_workitem_id_x()] = a + b + c + d + *p + l[0] + hidden[8];\n"
        "}\n"
    )
    path = tmp_path / "k.co"
    subprocess.run(
        [
            *(llvm.clang, "-x", "cl", "-nogpulib", "-O1", "-cl-kernel-arg-info"),
            *("-target", "amdgcn-amd-amdhsa", "-mcpu=gfx942", "-mcode-object-version=5"),
            *("-", "-o", str(path)),
        ],
        input=text.encode(),
        check=True,
        timeout=120,
    )
    made = load(path).kernels[0]
    values: dict[str | int, Any] = {"out": 16, "a": -1, "b": 7, "c": 3, "d": 0.5, "p": 32}
    block = pack(made, values, GEOMETRY)
    # "c": 3 is a float: the metadata of compiled kernels has the type's name.
    assert block[:36] == struct.pack("<QbxhfdQI", 16, -1, 7, 3.0, 0.5, 32, 0)
    # Where the code looks for them: LLVM AMDGPU usage, "Implicit Argument Layout" of V5.
    hidden = min(slot.offset for slot in slots(made) if slot.hidden)
    assert struct.unpack_from("<IIIHHHHHH", block, hidden) == (3, 5, 7, 64, 2, 1, 0, 0, 0)
    assert struct.unpack_from("<QQQH", block, hidden + 40) == (0, 0, 0, 2)
    assert len(block) == made.metadata[".kernarg_segment_size"]


def test_names_that_repeat_need_an_offset() -> None:
    made = kernel([("x", 0, 4, VALUE), ("pad", 4, 4, VALUE), ("pad", 8, 4, VALUE)], 12)
    found = slots(made)
    assert find_slot(made, found, "@8").offset == find_slot(made, found, 8).offset == 8
    with pytest.raises(LaunchError, match=r"2 arguments 'pad': use one of @0x4, @0x8"):
        find_slot(made, found, "pad")
    assert pack(made, {"x": 1, "@0x8": 3}, GEOMETRY) == struct.pack("<iii", 1, 0, 3)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, r"no value for @0x0 \('out'\), @0x8 \('n'\)"),
        ({"out": 0, "n": 1, "m": 2}, r"no argument 'm'; it has out, n"),
        ({"out": 0, "n": 1, "@0x9": 2}, r"no argument at offset 0x9"),
        ({"out": 0, "n": 1, "@0x8": 2}, r"@0x8 \('n'\) is given twice"),
        ({"out": 0, "n": 1 << 32}, r"4294967296 does not fit in 4 bytes"),
        ({"out": -(1 << 63) - 1, "n": 0}, r"does not fit in 8 bytes"),
        ({"out": 0, "n": Scalar("f64", 1.0)}, r"has 4 bytes, a f64 has 8"),
        ({"out": 0, "n": Scalar("q7", 1)}, r"unknown type 'q7'"),
        ({"out": 0, "n": Scalar("i32", 1 << 31)}, r"does not fit in i32"),
        ({"out": 0, "n": Scalar("i32", 1.5)}, r"no whole number"),
        ({"out": 0, "n": 1e39}, r"does not fit in f32"),
        ({"out": 0, "n": b"abc"}, r"has 4 bytes, not 3"),
        ({"out": 0, "n": None}, r"no value for @0x8"),
        ({"out": 0, "n": "5"}, r"a str is no number"),
    ],
)
def test_what_does_not_fit(values: dict[str | int, Any], message: str) -> None:
    made = kernel([("out", 0, 8, POINTER), ("n", 8, 4, VALUE)], 16)
    with pytest.raises(LaunchError, match=message):
        pack(made, values, GEOMETRY)


@pytest.mark.parametrize(
    ("arguments", "size", "message"),
    [
        ([("a", 0, 8, VALUE), ("b", 4, 4, VALUE)], 16, "overlaps"),
        ([("a", 8, 16, VALUE)], 16, "ends at 24, the kernarg segment at 16"),
        ([("a", -4, 4, VALUE)], 16, "no usable .offset"),
        ([("a", True, 4, VALUE)], 16, "no usable .offset"),
        ([("a", 0, 4, None)], 16, "no usable .offset"),
        ([], -1, "no usable .kernarg_segment_size"),
        ([], 1 << 40, "no usable .kernarg_segment_size"),
    ],
)
def test_metadata_that_cannot_be(arguments: list[Any], size: int, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        slots(kernel(arguments, size))


def test_the_descriptor_must_agree_on_the_size() -> None:
    made = kernel([], 16)
    said = bytearray(64)
    said[8] = 24
    with pytest.raises(FormatError, match="16 bytes in the metadata, of 24"):
        slots(replace(made, descriptor=bytes(said)))


@pytest.mark.parametrize("kind", ["sampler", "image", "pipe", "queue", "hidden_from_tomorrow"])
def test_kinds_that_cannot_be_filled(kind: str) -> None:
    with pytest.raises(UnsupportedError):
        pack(kernel([("a", 0, 8, kind)], 8), {}, GEOMETRY)


@given(st.sampled_from(["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"]), st.integers())
def test_integers(kind: str, value: int) -> None:
    size = int(kind[1:]) // 8
    made = kernel([("a", 0, size, VALUE)], size)
    code = {1: "b", 2: "h", 4: "i", 8: "q"}[size]
    try:
        wanted = struct.pack("<" + (code if kind[0] == "i" else code.upper()), value)
    except struct.error:
        with pytest.raises(LaunchError):
            encode(made, slots(made)[0], Scalar(kind, value))
    else:
        assert encode(made, slots(made)[0], Scalar(kind, value)) == wanted


@settings(deadline=None)  # the first one imports NumPy
@given(st.floats(width=32, allow_nan=False))
def test_bf16_is_the_nearest(value: float) -> None:
    made = kernel([("a", 0, 2, VALUE)], 2)
    got = encode(made, slots(made)[0], Scalar("bf16", value))
    back = struct.unpack("<f", b"\0\0" + got)[0]
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    below = struct.unpack("<f", struct.pack("<I", bits & 0xFFFF0000))[0]
    above_bits = (bits & 0xFFFF0000) + 0x10000
    above = struct.unpack("<f", struct.pack("<I", above_bits & 0xFFFFFFFF))[0]
    if math.isinf(value) or math.isinf(above):
        assert back in (below, above)
        return
    assert abs(back - value) == min(abs(below - value), abs(above - value))


@pytest.mark.parametrize(
    ("geometry", "metadata", "message"),
    [
        (Geometry((0, 1, 1), (64, 1, 1)), {}, "at least 1"),
        (Geometry((1, 1, 1), (64, -1, 1)), {}, "at least 1"),
        (Geometry((1 << 26, 1, 1), (64, 1, 1)), {}, "fewer than 2"),
        (Geometry((1, 1, 1), (16, 16, 2)), {".max_flat_workgroup_size": 256}, "at most 256"),
        (Geometry((1, 1, 1), (64, 1, 1)), {".reqd_workgroup_size": [256, 1, 1]}, "requires"),
        (Geometry((1, 1, 1), (64, 1, 1), dimensions=4), {}, "1 to 3"),
        (Geometry((1, 1, 1), (64, 1, 1), dynamic_lds=-1), {}, "dynamic LDS"),
    ],
)
def test_geometry_that_does_not_fit(geometry: Geometry, metadata: Any, message: str) -> None:
    with pytest.raises(LaunchError, match=message):
        geometry.check(kernel([], 0, **metadata))


def test_geometry_that_fits() -> None:
    Geometry((1, 1, 1), (256, 1, 1)).check(kernel([], 0, **{".reqd_workgroup_size": [256, 1, 1]}))
    Geometry((1 << 20, 1, 1), (16, 16, 1)).check(kernel([], 0, **{".max_flat_workgroup_size": 256}))


@given(
    st.dictionaries(st.sampled_from([".args", ".kernarg_segment_size"]), st.none() | st.integers())
)
def test_odd_metadata_is_refused_cleanly(document: dict[str, Any]) -> None:
    made = replace(kernel([], 0), metadata=document)
    with contextlib.suppress(CoasmError):
        slots(made)
