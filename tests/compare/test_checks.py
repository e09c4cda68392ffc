"""The checks that need no disassembly: every single change is caught, by the right check only."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack
import pytest

from coasm.codeobject import CodeObject, load
from coasm.compare import ABSENT, Difference, verify
from coasm.descriptor import fields_of
from coasm.errors import CoasmError, FormatError
from coasm.llvm.find import Llvm
from tests.compare.objects import (
    KERNEL_METADATA,
    build,
    different,
    flipped,
    offset_of,
    patched,
    source,
)


@pytest.fixture(autouse=True)
def no_disassembly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever differs here, the code does not: nothing may be disassembled."""

    def refuse(*_: object) -> None:
        raise AssertionError("disassembled")

    monkeypatch.setattr("coasm.compare.instructions.decode", refuse)


@pytest.fixture(scope="module")
def objects(fixture_objects: list[tuple[str, Path]]) -> dict[str, CodeObject]:
    return {
        name: load(path)
        for name, path in fixture_objects
        if name.startswith(("template", "multi", "vector_add", "stripped"))
    }


def only(findings: tuple[Difference, ...]) -> Difference:
    assert len(findings) == 1, findings
    return findings[0]


# --- all the same


def test_an_object_is_identical_to_itself(objects: dict[str, CodeObject]) -> None:
    for co in objects.values():
        report = verify(co, load(co.data))
        assert set(report.verdicts.values()) == {"identical"}
        assert report.equivalent and report.loaded_identical and report.file_identical


# --- header. The numbers are those of llvm/BinaryFormat/ELF.h.

E_TYPE, E_MACHINE, E_FLAGS, OS_ABI, ABI_VERSION = 16, 18, 48, 7, 8
XNACK = {"unsupported": 0, "any": 0x100, "off": 0x200, "on": 0x300}  # EF_AMDGPU_FEATURE_XNACK_*_V4
SRAMECC = {"unsupported": 0, "any": 0x400, "off": 0x800, "on": 0xC00}
MACH = {"gfx900": 0x2C, "gfx90a": 0x3F, "gfx942": 0x4C, "gfx950": 0x4F, "gfx1250": 0x49}


def with_flags(co: CodeObject, flags: int) -> CodeObject:
    return patched(co, E_FLAGS, flags.to_bytes(4, "little"))


@pytest.mark.parametrize("version", [4, 5, 6])
@pytest.mark.parametrize(
    ("setting", "mask", "values"), [("xnack", 0x300, XNACK), ("sramecc", 0xC00, SRAMECC)]
)
def test_every_target_setting(
    objects: dict[str, CodeObject], version: int, setting: str, mask: int, values: dict[str, int]
) -> None:
    co = objects[f"template-gfx942-v{version}"]
    flags = co.elf.header.flags
    before = next(name for name, value in values.items() if flags & mask == value)
    for name, value in values.items():
        if name != before:
            report = verify(co, with_flags(co, flags & ~mask | value))
            assert different(report) == {"header"}
            assert Difference(setting, before, name) in report.checks["header"].findings
            assert not report.equivalent and not report.loaded_identical


@pytest.mark.parametrize("name", MACH)
def test_every_machine(objects: dict[str, CodeObject], name: str) -> None:
    co = objects["template-gfx90a-v5"]
    flags = co.elf.header.flags & ~0xFF | MACH[name]
    if name != "gfx90a":
        report = verify(co, with_flags(co, flags))
        assert different(report) == {"header"}
        assert Difference("mach", "gfx90a", name) in report.checks["header"].findings


def test_generic_version(objects: dict[str, CodeObject]) -> None:
    co = objects["template-gfx9-4-generic-v6"]
    report = verify(co, with_flags(co, co.elf.header.flags ^ 2 << 24))
    assert different(report) == {"header"}
    assert Difference("generic version", 1, 3) in report.checks["header"].findings


def test_abi_version(objects: dict[str, CodeObject]) -> None:
    co = objects["template-gfx942-v5"]  # ABI version 3
    report = verify(co, patched(co, ABI_VERSION, b"\x02"))
    assert different(report) == {"header"}
    assert Difference("ABI version", 3, 2) in report.checks["header"].findings
    assert Difference("code object version", 5, 4) in report.checks["header"].findings


@pytest.mark.parametrize("offset", [E_TYPE, E_MACHINE, OS_ABI])
def test_what_is_no_code_object_is_not_judged(objects: dict[str, CodeObject], offset: int) -> None:
    with pytest.raises(CoasmError):
        flipped(objects["vector_add-gfx942-v5"], offset, 0)


# --- descriptors


@pytest.mark.parametrize(
    "name",
    [
        "multi-gfx803-v4",
        "multi-gfx90a-v4",
        "multi-gfx942-v5",
        "multi-gfx1030-v5",
        "multi-gfx1250-v6",
    ],
)
def test_every_descriptor_field(objects: dict[str, CodeObject], name: str) -> None:
    co = objects[name]
    kernel = co.kernels[-1]
    at = offset_of(co, kernel.descriptor_address)
    for field in fields_of(co.target.processor):
        for bit in {field.bit, field.end - 1}:
            report = verify(co, flipped(co, at + bit // 8, bit % 8))
            assert different(report) == {"descriptors"}, field
            finding = only(report.checks["descriptors"].findings)
            assert finding.place == f"{kernel.symbol}: {field.name}"
            assert not finding.harmless and not report.equivalent and not report.data


def test_every_descriptor_bit(objects: dict[str, CodeObject]) -> None:
    co = objects["vector_add-gfx942-v5"]
    at = offset_of(co, co.kernels[0].descriptor_address)
    for bit in range(512):
        report = verify(co, flipped(co, at + bit // 8, bit % 8))
        assert different(report) == {"descriptors"}
        assert len(report.checks["descriptors"].findings) == 1


# Byte and bit: LLVM AMDGPU usage, "Kernel Descriptor".
@pytest.mark.parametrize(
    ("field", "byte", "bit"),
    [
        ("group_segment_fixed_size", 0, 3),
        ("private_segment_fixed_size", 4, 0),
        ("kernarg_size", 8, 7),
        ("kernel_code_entry_byte_offset", 16, 3),
        ("accum_offset", 44, 5),
        ("tg_split", 46, 0),
        ("granulated_workitem_vgpr_count", 48, 5),
        ("granulated_wavefront_sgpr_count", 48, 6),
        ("float_round_mode_32", 49, 4),
        ("enable_ieee_mode", 50, 7),
        ("fp16_ovfl", 51, 2),
        ("user_sgpr_count", 52, 1),
        ("enable_sgpr_workgroup_id_x", 52, 7),
        ("enable_vgpr_workitem_id", 53, 3),
        ("enable_exception_int_divide_by_zero", 55, 6),
        ("enable_sgpr_kernarg_segment_ptr", 56, 3),
        ("uses_dynamic_stack", 57, 3),
        ("kernarg_preload_length", 58, 0),
    ],
)
def test_the_field_is_named_and_has_both_values(
    objects: dict[str, CodeObject], field: str, byte: int, bit: int
) -> None:
    co = objects["vector_add-gfx942-v5"]
    at = offset_of(co, co.kernels[0].descriptor_address) + byte
    finding = only(verify(co, flipped(co, at, bit)).checks["descriptors"].findings)
    assert finding.place == f"vector_add.kd: {field}"
    assert finding.original != finding.rebuilt


def test_values_of_a_field(llvm: Llvm) -> None:
    text = source({"one": "s_endpgm"})
    other = text.replace(".amdhsa_kernarg_size 24", ".amdhsa_kernarg_size 40")
    report = verify(build(llvm, text), build(llvm, other))
    assert report.checks["descriptors"].findings == (Difference("one.kd: kernarg_size", 24, 40),)


def test_an_entry_offset_that_leads_to_the_same_place(llvm: Llvm) -> None:
    bodies = {"one": "s_endpgm", "two": "s_nop 1\ns_endpgm"}
    kernels = "".join(KERNEL_METADATA.format(name=n, wave=64) for n in bodies)
    more = f"amdhsa.version: [ 1, 2 ]\nnote: {'x' * 200}\namdhsa.kernels:\n{kernels}"
    co, moved = build(llvm, source(bodies)), build(llvm, source(bodies, metadata=more))
    offsets = [k.entry - k.descriptor_address for o in (co, moved) for k in o.kernels]
    assert offsets[0] != offsets[2], "the metadata must move .rodata and .text differently"
    report = verify(co, moved)
    assert report.verdicts["descriptors"] == "equivalent"
    assert report.verdicts["text"] == "identical"
    findings = report.checks["descriptors"].findings
    assert [f.place for f in findings] == [
        "one.kd: kernel_code_entry_byte_offset",
        "two.kd: kernel_code_entry_byte_offset",
    ]
    assert all(f.harmless for f in findings)
    assert different(report) == {"metadata"}


def test_equal_descriptors_that_lead_elsewhere(llvm: Llvm) -> None:
    """The kernel's symbol and the entry offset moved together: the code starts elsewhere."""
    body = "s_mov_b32 s4, 1\ns_nop 0\ns_endpgm"
    text = source({"one": body})
    later = text.replace("one:\ns_mov_b32 s4, 1\n", "s_mov_b32 s4, 1\none:\n")
    co, other = build(llvm, text), build(llvm, later)
    assert co.code_sections[0].data == other.code_sections[0].data
    assert different(verify(co, other)) == {"descriptors"}


def test_a_kernel_that_is_missing_or_added(llvm: Llvm) -> None:
    text = source({"one": "s_endpgm", "two": "s_endpgm"})
    both = build(llvm, text)
    fewer = build(llvm, text.replace("two.kd", "one.kd"))  # listed twice, "two" not at all
    report = verify(both, fewer)
    assert different(report) == {"descriptors", "metadata"}
    finding = only(report.checks["descriptors"].findings)
    assert finding.place == "two.kd" and finding.rebuilt is ABSENT
    finding = only(verify(fewer, both).checks["descriptors"].findings)
    assert finding.place == "two.kd" and finding.original is ABSENT


def test_a_kernel_symbol_that_is_gone(llvm: Llvm) -> None:
    text = source({"one": "s_endpgm"})
    co = build(llvm, text)
    gone = load(co.data.replace(b"\0one.kd\0", b"\0xxx.kd\0"), name="gone.co")
    report = verify(co, gone)
    assert different(report) == {"descriptors"}
    assert only(report.checks["descriptors"].findings).rebuilt is ABSENT
    assert {f.place for f in report.symbols} >= {".dynsym: one.kd", ".dynsym: xxx.kd"}


def test_a_kernel_that_is_no_longer_exported(llvm: Llvm) -> None:
    co = build(llvm, source({"one": "s_endpgm"}))
    table = next(s for s in co.sections if s.name == ".dynsym")
    index = next(s.index for s in co.elf.dynamic_symbols if s.name == "one.kd")
    # st_shndx, the two bytes from byte 6 of a symbol on: undefined.
    report = verify(co, patched(co, table.offset + 24 * index + 6, b"\0\0"))
    assert different(report) == {"descriptors"}
    assert only(report.checks["descriptors"].findings).place == "one.kd: in .dynsym"


# --- metadata


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from leaves(inner, (*path, index))
    else:
        yield path, value


def spelled(path: tuple[Any, ...]) -> str:
    return "".join(
        f"[{step}]" if isinstance(step, int) else step if step.startswith(".") or not n else "?"
        for n, step in enumerate(path)
    )


def altered(value: Any) -> Any:
    """Another value whose encoding is as long."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value ^ 1
    return value[:-1] + ("x" if value[-1] != "x" else "y")


@pytest.mark.parametrize(
    "name", ["template-gfx942-v4", "template-gfx1250-v6", "vector_add-gfx942-v5"]
)
def test_every_metadata_value(objects: dict[str, CodeObject], name: str) -> None:
    co = objects[name]
    note = co.metadata_note
    assert note is not None
    document = msgpack.unpackb(note, strict_map_key=False)
    assert msgpack.packb(document) == note
    at = co.data.index(note)
    seen = 0
    for path, value in leaves(document):
        other = copy.deepcopy(document)
        inner = other
        for step in path[:-1]:
            inner = inner[step]
        inner[path[-1]] = altered(value)
        report = verify(co, patched(co, at, msgpack.packb(other)))
        finding = only(report.checks["metadata"].findings)
        assert finding == Difference(spelled(path), value, altered(value))
        # Where .symbol names nothing, the kernels are those that the original names.
        assert different(report) == {"metadata"}, path
        seen += 1
    assert seen > 20


def test_every_metadata_key(objects: dict[str, CodeObject]) -> None:
    co = objects["vector_add-gfx942-v5"]
    note = co.metadata_note
    assert note is not None
    document = msgpack.unpackb(note)
    at = co.data.index(note)
    for key in document["amdhsa.kernels"][0]:
        kernel = {
            (k[:-1] + "?" if k == key else k): v for k, v in document["amdhsa.kernels"][0].items()
        }
        other = {**document, "amdhsa.kernels": [kernel]}
        report = verify(co, patched(co, at, msgpack.packb(other)))
        assert different(report) == {"metadata"}
        one, two = report.checks["metadata"].findings
        assert one.rebuilt is ABSENT and two.original is ABSENT


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        (".sgpr_count: 24", ".sgpr_count: 240", "amdhsa.kernels[0].sgpr_count"),
        (".vgpr_count: 16", ".vgpr_count: '16'", None),
        ("    .uses_dynamic_stack: false\n", "", "amdhsa.kernels[0].uses_dynamic_stack"),
        (
            "      - { .name: count, .size: 4, .offset: 8, .value_kind: by_value }\n",
            "",
            "amdhsa.kernels[0].args[1]",
        ),
        (
            ".uses_dynamic_stack: false",
            ".uses_dynamic_stack: true",
            "amdhsa.kernels[0].uses_dynamic_stack",
        ),
        (".name: out,", ".name: output,", "amdhsa.kernels[0].args[0].name"),
    ],
)
def test_metadata_of_another_length(llvm: Llvm, old: str, new: str, place: str | None) -> None:
    text = source({"one": "s_endpgm"})
    assert old in text
    report = verify(build(llvm, text), build(llvm, text.replace(old, new)))
    if place is None:  # LLVM types the scalar without regard to its quotes
        assert report.file_identical
        return
    assert different(report) == {"metadata"}
    assert only(report.checks["metadata"].findings).place == place


def test_the_same_document_in_other_bytes(llvm: Llvm) -> None:
    co = build(llvm, source({"one": "s_endpgm"}))
    note = co.metadata_note
    assert note is not None
    document = msgpack.unpackb(note)
    turned = dict(reversed(document.items()))
    report = verify(co, patched(co, co.data.index(note), msgpack.packb(turned)))
    assert report.verdicts["metadata"] == "equivalent"
    assert report.equivalent and not report.loaded_identical


def test_metadata_on_one_side_only(llvm: Llvm) -> None:
    with_note = build(llvm, source({"one": "s_endpgm"}))
    without = build(llvm, source({"one": "s_endpgm"}, metadata=""))
    for a, b in ((with_note, without), (without, with_note)):
        report = verify(a, b)
        assert different(report) == {"metadata"}
        finding = only(report.checks["metadata"].findings)
        assert (finding.original is ABSENT) is (a is without)
        assert report.verdicts["descriptors"] in ("identical", "equivalent")


def test_metadata_on_neither_side_is_not_judged(llvm: Llvm) -> None:
    without = build(llvm, source({"one": "s_endpgm"}, metadata=""))
    other = build(llvm, source({"one": "s_nop 0\ns_endpgm"}, metadata=""))
    for rebuilt in (without, other):
        with pytest.raises(FormatError, match="no AMDGPU metadata note"):
            verify(without, rebuilt)


def test_metadata_that_cannot_be_decoded(llvm: Llvm) -> None:
    co = build(llvm, source({"one": "s_endpgm"}))
    note = co.metadata_note
    assert note is not None
    broken = patched(co, co.data.index(note), b"\xc1")  # a byte that msgpack never uses
    report = verify(co, broken)
    assert different(report) == {"metadata"}
    assert "patched.co" in only(report.checks["metadata"].findings).note
    with pytest.raises(FormatError, match=r"patched\.co"):
        verify(broken, flipped(broken, co.data.index(note) + 1, 0))
