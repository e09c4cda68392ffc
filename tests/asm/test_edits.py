"""Edited listings: what was edited changes, and nothing else; and what --like keeps of a file."""

from __future__ import annotations

import io
import random
import re
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

import coasm
from coasm.asm.assemble import assemble
from coasm.asm.exact import exact_listing
from coasm.codeobject import CodeObject, load
from coasm.compare import verify
from coasm.errors import AssemblyError, UnsupportedError
from coasm.llvm.find import Llvm
from tests.asm.tools import built, dump, loaded, loaded_sections, symbols
from tests.compare.objects import build, source

# Branches whose distance is SIMM16 words behind the next one. Source: ISA guides, SOPP.
_BRANCH = re.compile(r"s_c?branch")
_LABEL = re.compile(r"^[A-Za-z_.][\w.$]*:$")


def _branches(code: dict[int, tuple[str, bytes]]) -> list[tuple[str, int, int]]:
    """(mnemonic, address, where it goes) of each direct branch, in order."""
    found = []
    for address, (text, data) in sorted(code.items()):
        if _BRANCH.match(text):
            distance = int.from_bytes(data[:2], "little", signed=True)
            found.append((text.split()[0], address, address + 4 + 4 * distance))
    return found


def _after_every_label(text: str) -> tuple[str, int]:
    """The listing with an ``s_nop 0`` behind each label of its code."""
    head, mark, tail = text.partition('\n\t.section\t.rodata,"a"')
    lines, count = [], 0
    for line in head.split("\n"):
        lines.append(line)
        if _LABEL.match(line) and not line.startswith(".Lend"):
            lines.append("\ts_nop 0")
            count += 1
    return "\n".join(lines) + mark + tail, count


def _check_nops(co: CodeObject, llvm: Llvm) -> None:
    listed = exact_listing(co, llvm)
    text, count = _after_every_label(listed.text)
    assert count
    result = assemble(text, name="edited.s")
    assert result.lost == 0
    rebuilt = load(result.data, name="rebuilt.co")

    before, after = dump(llvm, co.data), dump(llvm, result.data)
    # Without the new ones, both are the same instructions in the same order.
    old = [data for _, (_, data) in sorted(before.items())]
    new = [data for _, (_, data) in sorted(after.items())]
    nop = bytes.fromhex("000080bf")
    moved, dropped, where, kept = iter(new), 0, {}, 0
    addresses = sorted(after)
    for index, (address, data) in enumerate(zip(sorted(before), old, strict=True)):
        for other in moved:
            position = index + dropped
            same = other[2:] == data[2:] if _BRANCH.match(before[address][0]) else other == data
            if same and (data != nop or len(other) == 4):
                where[address] = addresses[position]
                kept += 1
                break
            assert other == nop, (hex(address), other.hex())
            dropped += 1
    assert kept == len(old) and 0 < dropped <= count
    # Every branch goes where it went: to what stood there, or to an s_nop put in front of it.
    for one, other in zip(_branches(before), _branches(after), strict=True):
        assert one[0] == other[0]
        if one[2] in where:
            target = where[one[2]]
            assert other[2] <= target
            assert all(after[a][1] == nop for a in addresses if other[2] <= a < target)

    kernel = rebuilt.kernels[0]
    assert kernel.entry % 256 == 0
    assert kernel.entry == symbols(result.data).get(kernel.name, (kernel.entry,))[0]
    report = verify(co, rebuilt, llvm)
    verdicts = dict(report.verdicts)
    assert verdicts.pop("text") == "different"
    assert set(verdicts.values()) == {"identical"} or verdicts["descriptors"] != "different"
    old_sections, new_sections = loaded_sections(co.data), loaded_sections(result.data)
    assert new_sections[".note"][1] == old_sections[".note"][1]


@pytest.mark.parametrize("name", ["template-gfx942-v5", "multi-gfx1250-v6", "template-gfx1036-v4"])
def test_nops_in_built_objects(
    name: str, fixture_objects: list[tuple[str, Path]], llvm: Llvm
) -> None:
    path = dict(fixture_objects).get(name)
    if path is None:
        pytest.skip(f"this LLVM does not build {name}")
    co = load(path)
    sizes = symbols(co.data)
    text, _ = _after_every_label(exact_listing(co, llvm).text)
    result = assemble(text)
    for symbol, (address, size) in symbols(result.data).items():
        old = sizes[symbol][1]
        # Functions reach as far as they did: to the same label.
        assert (size == 0) == (old == 0) and size >= old, symbol
        if symbol.endswith("_kernel"):
            assert address + size == symbols(result.data)[f"{symbol}_end"][0]


def test_nops_in_real_kernels(corpus: list[Path], llvm: Llvm) -> None:
    chosen = random.Random(3).sample([p for p in corpus if p.stat().st_size < 60_000], 3)
    for path in chosen:
        _check_nops(load(path), llvm)


def test_a_branch_follows_its_label(llvm: Llvm) -> None:
    co = built(llvm, "top:\ns_nop 1\ns_cbranch_scc1 end\ns_branch top\nend:\ns_endpgm")
    text = exact_listing(co, llvm).text.replace("\ts_nop 1", "\ts_nop 1\n" + "\ts_nop 2\n" * 99)
    data = assemble(text).data
    names, code = symbols(data), dump(llvm, data)
    assert {m: to for m, _, to in _branches(code)} == {
        "s_cbranch_scc1": names["end"][0],
        "s_branch": names["top"][0],
    }
    assert names["end"][0] - names["top"][0] == 4 * 102


def test_second_kernel_moves_and_its_descriptor_knows(llvm: Llvm) -> None:
    co = build(llvm, source({"a": "s_nop 1\ns_endpgm", "b": "s_nop 2\ns_endpgm"}))
    text = exact_listing(co, llvm).text.replace("\ts_nop 1", "\ts_nop 1\n" + "\ts_nop 3\n" * 80)
    rebuilt = load(assemble(text).data)
    first, second = rebuilt.kernels
    code = dump(llvm, rebuilt.data)
    assert code[first.entry][0] == "s_nop 1" and code[second.entry][0] == "s_nop 2"
    # 256 bytes as they were, 80 words more, and up to the next multiple of 256.
    assert second.entry % 256 == 0 and second.entry - first.entry == 768


# --- messages ------------------------------------------------------------------------------


def test_messages_name_the_file_and_line_of_the_user(llvm: Llvm) -> None:
    co = built(llvm, "v_nop\ns_nop 1\ns_endpgm")
    text = exact_listing(co, llvm).text
    line = text[: text.index("\ts_nop 1")].count("\n") + 1
    with pytest.raises(AssemblyError) as caught:
        assemble(text.replace("\ts_nop 1", "\ts_nope 1"), name="my kernel.s")
    assert f"my kernel.s:{line}:2: error: invalid instruction" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("s_endpgm\n", "no .amdgcn_target, and no amdhsa.target in its metadata"),
        (
            '.amdgcn_target "amdgcn-amd-amdhsa--gfx999"\n.amdhsa_code_object_version 5\n',
            "unknown gfx target 'gfx999'",
        ),
        (
            '.amdgcn_target "amdgcn-amd-amdhsa--gfx942"\n.amdhsa_code_object_version 3\n',
            "LLVM does not write code object v3",
        ),
        (
            '.amdgcn_target "amdgcn-amd-amdhsa--gfx942:tgsplit+"\n.amdhsa_code_object_version 5\n',
            "unknown setting 'tgsplit+'",
        ),
    ],
)
def test_listings_that_name_no_target(text: str, message: str, llvm: Llvm) -> None:
    with pytest.raises(UnsupportedError, match=re.escape(message)) as caught:
        assemble(text, name="x.s")
    assert str(caught.value).startswith("x.s: ") and "\n" not in str(caught.value)


def test_use_beyond_what_is_declared_is_warned_of(llvm: Llvm) -> None:
    co = built(llvm, "s_nop 1\ns_endpgm")  # 16 VGPRs
    text = exact_listing(co, llvm).text
    assert coasm.assemble(text).warnings == ()
    for instruction, name in (("v_mov_b32 v16, 0", "v16"), ("s_mov_b32 s60, 0", "s60")):
        (warning,) = coasm.assemble(text.replace("\ts_nop 1", f"\t{instruction}")).warnings
        assert name in warning and warning.startswith("k: ")
    edited = text.replace(
        ".amdhsa_group_segment_fixed_size 0", ".amdhsa_group_segment_fixed_size 64"
    )
    assert coasm.assemble(edited).warnings == ()  # the metadata follows
    edited = edited.replace("// coasm: these follow", "// these do not follow")
    (warning,) = coasm.assemble(edited).warnings
    assert "64 LDS bytes" in warning and ".group_segment_fixed_size is 0" in warning


# --- --like --------------------------------------------------------------------------------


def _sections(data: bytes) -> list[tuple[str, bytes]]:
    return [(s.name, s.data()) for s in ELFFile(io.BytesIO(data)).iter_sections()]


@pytest.mark.parametrize(
    "name", ["sections-gfx942-v5", "template-gfx950-v5", "stripped-gfx942-v5", "names-gfx1250-v6"]
)
def test_like_unedited_and_edited(
    name: str, fixture_objects: list[tuple[str, Path]], llvm: Llvm
) -> None:
    path = dict(fixture_objects).get(name)
    if path is None:
        pytest.skip(f"this LLVM does not build {name}")
    original = load(path)
    text = exact_listing(original, llvm).text
    unedited = assemble(text, like_object=original)
    assert unedited.data == original.data
    assert not any("not kept" in warning for warning in unedited.warnings)

    edited_text = text.replace("\ts_endpgm", "\ts_nop 6\n\ts_endpgm")
    plain = assemble(edited_text)
    edited = assemble(edited_text, like_object=original)
    # Nothing that is loaded comes from the original, and what is not loaded does.
    assert loaded(edited.data) == loaded(plain.data)
    assert loaded(edited.data) != loaded(original.data)
    kept, fresh = _sections(edited.data), dict(_sections(edited.data))
    # But for the debug information, which is of the code as it was.
    wanted = [s for s, _ in _sections(original.data) if not s.startswith(".debug_")]
    assert [s for s, _ in kept] == wanted
    for section in (".comment", ".sp3.notes", ".AMDGPU.gpr_maximums"):
        assert fresh.get(section) == dict(_sections(original.data)).get(section)
    one, other = (
        ELFFile(io.BytesIO(d)).get_section_by_name(".symtab") for d in (original.data, edited.data)
    )
    assert (one is None) == (other is None)
    if one is not None:
        assert [s.name for s in one.iter_symbols()] == [s.name for s in other.iter_symbols()]
    if ".debug_line" in dict(_sections(original.data)):
        assert any("debug information" in warning for warning in edited.warnings)
    load(edited.data)


def test_like_says_what_is_gone_and_what_is_new(llvm: Llvm) -> None:
    original = built(llvm, "gone:\ns_nop 1\ns_endpgm\n.data\n.long 1\n")
    text = exact_listing(original, llvm).text
    edited = re.sub(r"^gone:\n", "added:\n", text, flags=re.M)
    edited = edited.replace("\t.section\t.data", "\t.section\t.data2")
    edited += '\n\t.section\t.extra,"",@progbits\n\t.long 7\n'
    result = assemble(edited, like_object=original)
    said = " ".join(result.warnings)
    assert "symbol 'gone' is no longer there" in said and ".extra" in said
    names = symbols(result.data)
    assert "added" in names and "gone" not in names
    assert dict(_sections(result.data))[".extra"] == b"\7\0\0\0"


def test_like_another_target_is_said(llvm: Llvm) -> None:
    text = exact_listing(built(llvm, "s_endpgm", "gfx942"), llvm).text
    other = built(llvm, "s_endpgm", "gfx950")
    result = assemble(text, like_object=other)
    assert any("gfx942" in w and "gfx950" in w for w in result.warnings)
    assert load(result.data).target.name == "gfx942"
