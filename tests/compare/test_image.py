"""The loaded image, the data in it, and symbols; and that no single bit goes unnoticed."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coasm.codeobject import CodeObject, load
from coasm.codeobject.elf import PT_LOAD, SHT_NOTE, SHT_PROGBITS
from coasm.compare import ABSENT, verify
from coasm.errors import CoasmError
from coasm.llvm.find import Llvm
from tests.compare.objects import build, different, flipped, offset_of, patched, source

# Offsets in the ELF header and in a program header: System V ABI.
E_SHOFF, E_SHNUM, E_SHSTRNDX = (0x28, 8), (0x3C, 2), (0x3E, 2)
E_ENTRY, E_PHOFF = 0x18, 0x20
P_FLAGS, P_MEMSZ, P_ALIGN, PHDR_SIZE = 4, 40, 48, 56


@pytest.fixture(scope="module")
def template(fixture_objects: list[tuple[str, Path]]) -> CodeObject:
    return load(dict(fixture_objects)["template-gfx942-v5"])


@pytest.fixture(scope="module")
def addition(fixture_objects: list[tuple[str, Path]]) -> CodeObject:
    return load(dict(fixture_objects)["vector_add-gfx942-v5"])


def test_section_headers_elsewhere_are_the_same_loaded_image(template: CodeObject) -> None:
    header = template.elf.header
    table = template.data[header.shoff : header.shoff + 64 * header.shnum]
    data = bytearray(template.data + bytes(8) + table)
    struct.pack_into("<Q", data, E_SHOFF[0], len(data) - len(table))
    report = verify(template, load(bytes(data)))
    assert report.equivalent and report.loaded_identical and not report.file_identical
    assert set(report.verdicts.values()) == {"identical"}


def test_what_is_not_loaded_is_only_in_the_file(template: CodeObject) -> None:
    comment = next(s for s in template.sections if s.name == ".strtab")
    report = verify(template, flipped(template, comment.offset + 1, 0))
    assert report.equivalent and report.loaded_identical and not report.file_identical


@pytest.mark.parametrize("member", [P_FLAGS, P_MEMSZ, P_ALIGN])
def test_segments(template: CodeObject, member: int) -> None:
    index, segment = next(
        (n, s) for n, s in reversed(list(enumerate(template.elf.segments))) if s.type == PT_LOAD
    )
    at = template.elf.header.phoff + PHDR_SIZE * index + member
    report = verify(template, flipped(template, at + 1 if member == P_MEMSZ else at, 0))
    assert not report.loaded_identical
    finding = report.loaded[-1]
    assert finding.place.startswith("PT_LOAD segment") and finding.original != finding.rebuilt
    assert segment.vaddr and f"{segment.vaddr:#x}.." in str(finding.original)


@pytest.mark.parametrize(
    ("offset", "place"), [(E_ENTRY, "ELF header+0x18"), (0x40 + P_FLAGS, "program headers+0x4")]
)
def test_headers_are_loaded_too(template: CodeObject, offset: int, place: str) -> None:
    report = verify(template, flipped(template, offset, 0))
    assert [f.place for f in report.loaded] == [place]


def test_loaded_differences_are_named_by_section_and_offset(template: CodeObject) -> None:
    rodata = next(s for s in template.sections if s.name == ".rodata")
    report = verify(template, patched(template, rodata.offset + 80, b"\xff" * 3))
    (finding,) = report.loaded
    assert finding.place == ".rodata+0x50" and finding.note == "3 bytes"
    assert finding.rebuilt == "ff ff ff"


def test_data_beside_the_descriptors_counts(template: CodeObject) -> None:
    """A constant table is part of the program, though none of the four checks is about it."""
    table = next(s for s in template.symbols if s.name == "table")
    report = verify(template, flipped(template, offset_of(template, table.value + 4), 0))
    assert different(report) == set()
    assert not report.equivalent
    (finding,) = report.data
    assert (finding.original, finding.rebuilt) == ("02", "03")


def test_data_sections_by_name_and_size(llvm: Llvm) -> None:
    text = source({"one": "s_endpgm"})
    data = '\t.section .mydata,"aw",@progbits\n\t.long 1, 2\n'
    one, two, three = (
        build(llvm, text + more) for more in ("", data, data.replace("1, 2", "1, 2, 3"))
    )
    (finding,) = verify(one, two).data
    assert finding.place == "section .mydata" and finding.original is ABSENT
    (finding,) = verify(two, three).data
    assert (finding.original, finding.rebuilt) == ("8 bytes", "12 bytes")
    assert not verify(two, three).equivalent


def test_the_size_of_bss_counts(llvm: Llvm) -> None:
    text = source({"one": "s_endpgm"}) + "\t.bss\n\t.globl b\nb: .zero 64\n\t.size b, 8\n"
    report = verify(build(llvm, text), build(llvm, text.replace("64\n\t.size", "68\n\t.size")))
    assert [f.place for f in report.data] == ["section .bss"]


def test_relocations(llvm: Llvm) -> None:
    data = '\t.section .mydata,"aw",@progbits\n\t.p2align 3\n\t.quad {}\n\t.quad 0\n'
    text = source({"one": "s_nop 0\ns_endpgm", "two": "s_endpgm"})
    one, two = (build(llvm, text + data.format(name)) for name in ("one", "two"))
    report = verify(one, two)
    assert different(report) == set() and not report.equivalent
    assert {f.place for f in report.data} >= {"relocation"}
    assert verify(one, build(llvm, text + data.format("one"))).file_identical


def test_global_symbols_are_reported(llvm: Llvm) -> None:
    text = source({"one": "s_endpgm"})
    other = text.replace("one:\n", "one:\n\t.globl alias\nalias:\n")
    report = verify(build(llvm, text), build(llvm, other))
    added = {f.place for f in report.symbols if f.original is ABSENT}
    assert added == {".symtab: alias", ".dynsym: alias"}
    assert report.equivalent and not report.loaded_identical


def test_relinked_objects_of_another_layout(llvm: Llvm) -> None:
    """More symbols move everything behind their tables; the program stays the same."""
    text = source({"one": "s_nop 0\ns_endpgm"})
    more = text.replace("one:\n", "one:\n" + "".join(f"\t.globl x{n}\nx{n}:\n" for n in range(40)))
    report = verify(build(llvm, text), build(llvm, more))
    assert report.equivalent and not report.loaded_identical and not report.data
    assert report.verdicts["text"] == "identical"


# --- every bit


def loaded_offsets(co: CodeObject) -> list[int]:
    """File offsets of what is loaded, without the three members that the image leaves out."""
    left_out = {at + n for at, size in (E_SHOFF, E_SHNUM, E_SHSTRNDX) for n in range(size)}
    return [
        offset
        for s in co.elf.segments
        if s.type == PT_LOAD
        for offset in range(s.offset, s.offset + s.filesz)
        if offset not in left_out
    ]


BITS = settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))


@BITS
@given(data=st.data())
def test_no_bit_of_the_loaded_image_goes_unnoticed(
    template: CodeObject, data: st.DataObject
) -> None:
    code = {o for s in template.code_sections for o in range(s.offset, s.offset + s.size)}
    offset = data.draw(st.sampled_from([o for o in loaded_offsets(template) if o not in code]))
    try:
        report = verify(template, flipped(template, offset, data.draw(st.integers(0, 7))))
    except CoasmError:
        return  # could not be judged: exit status 2
    assert not report.loaded_identical and not report.file_identical
    note = next(s for s in template.sections if s.type == SHT_NOTE)
    assert template.metadata_note is not None
    # A note: three words, "AMDGPU" and two zeros, the metadata, zeros up to four bytes.
    if note.offset + 20 + len(template.metadata_note) <= offset < note.offset + note.size:
        return  # nothing reads what fills it up
    program = any(
        s.offset <= offset < s.offset + s.size
        for s in template.sections
        if s.alloc and s.type in (SHT_PROGBITS, SHT_NOTE) and s.name != ".dynamic"
    )
    # Descriptors, metadata, tables: of what the program is made of every bit decides.
    assert not (program and report.equivalent)


@settings(BITS, max_examples=60)
@given(data=st.data())
def test_no_bit_of_the_code_goes_unnoticed(
    llvm: Llvm, addition: CodeObject, data: st.DataObject
) -> None:
    (code,) = addition.code_sections
    offset = data.draw(st.integers(code.offset, code.offset + code.size - 1))
    report = verify(addition, flipped(addition, offset, data.draw(st.integers(0, 7))), llvm)
    assert not report.loaded_identical and not report.file_identical
    text = report.checks["text"]
    assert report.verdicts["text"] in ("different", "equivalent")
    if report.verdicts["text"] == "equivalent":
        (row,) = text.dont_care
        assert (row.instructions, row.bytes, len(row.bits)) == (1, 1, 1)
    else:
        assert text.differing_rows


@pytest.mark.parametrize("member", [E_SHOFF, E_SHNUM, E_SHSTRNDX])
def test_where_the_section_headers_are_is_no_part_of_the_image(
    template: CodeObject, member: tuple[int, int]
) -> None:
    at, size = member
    for bit in range(8 * size):
        try:
            report = verify(template, flipped(template, at + bit // 8, bit % 8))
        except CoasmError:
            continue
        assert report.loaded_identical and not report.file_identical
