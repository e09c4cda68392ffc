"""The built code objects are what their recipes say, and coasm reads of them what LLVM reads."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from coasm.codeobject import load
from coasm.llvm.find import Llvm
from coasm.target import PROCESSORS
from tests.fixtures import build


def _readelf(llvm: Llvm, paths: list[Path], *options: str) -> dict[str, str]:
    """llvm-readelf's text for each path."""
    if llvm.readelf is None:
        pytest.skip(f"no llvm-readelf in {llvm.directory}")
    command = [llvm.readelf, *options, *map(str, paths)]
    text = subprocess.run(command, capture_output=True, check=True).stdout.decode()
    parts = re.split(r"^File: (.*)\n", text, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def test_every_processor_of_llvm_is_known(llvm: Llvm) -> None:
    assert llvm.processors <= PROCESSORS.keys()


def test_every_processor_and_version_is_built(
    llvm: Llvm, fixture_objects: list[tuple[str, Path]]
) -> None:
    names = {name for name, _ in fixture_objects}
    for processor in llvm.processors:
        for version in (6,) if "generic" in processor else (4, 5, 6):
            assert f"template-{processor}-v{version}" in names


def test_target_and_version_as_llvm_readelf_has_them(
    llvm: Llvm, fixture_objects: list[tuple[str, Path]]
) -> None:
    paths = [path for _, path in fixture_objects]
    for path, text in _readelf(llvm, paths, "-h").items():
        flags = re.search(r"Flags: +0x([0-9A-Fa-f]+)(.*)", text)
        abi = re.search(r"ABI Version: +(\d+)", text)
        assert flags and abi
        found = load(path)
        target = found.target
        words = {target.name}
        if target.xnack:
            words.add({"any": "xnack", "off": "xnack-", "on": "xnack+"}[target.xnack])
        if target.sramecc:
            words.add({"any": "sramecc", "off": "sramecc-", "on": "sramecc+"}[target.sramecc])
        if target.generic_version:
            words.add(f"generic_v{target.generic_version}")
        said = {word.strip() for word in flags[2].split(",") if word.strip()}
        # llvm-readelf says "xnack" and "sramecc" for "any".
        assert words == said, path
        assert found.elf.header.abi_version == int(abi[1])
        assert target.e_flags(int(abi[1])) == int(flags[1], 16)


def test_target_id_and_version_are_the_recipes(
    llvm: Llvm, fixture_objects: list[tuple[str, Path]]
) -> None:
    wanted = {recipe.id: recipe for recipe in build.recipes(llvm)}
    for name, path in fixture_objects:
        found = load(path)
        assert str(found.target) == wanted[name].target
        assert found.code_object_version == wanted[name].version
        assert found.metadata["amdhsa.target"] == f"amdgcn-amd-amdhsa--{wanted[name].target}"


def test_kernels_are_named_by_the_metadata(fixture_objects: list[tuple[str, Path]]) -> None:
    by_name = dict(fixture_objects)
    multi = load(by_name["multi-gfx942-v5"])
    # The order of the metadata in multi.s, where the code has third first.
    assert [kernel.name for kernel in multi.kernels] == ["first", "second", "third"]
    assert multi.kernels[1].metadata[".name"] == "void second<int>(int)"
    entries = {kernel.name: kernel.entry for kernel in multi.kernels}
    assert entries["third"] < entries["first"] < entries["second"]
    preload = load(by_name["preload-gfx942-v5"])
    (text,) = preload.code_sections
    assert preload.kernels[0].entry == text.addr + 256  # behind 64 words of s_nop


def test_renamed_symbols_are_in_the_table(fixture_objects: list[tuple[str, Path]]) -> None:
    names = [
        symbol.name for symbol in load(dict(fixture_objects)["hostile_names-gfx942-v5"]).symbols
    ]
    assert 'x\n.incbin "/etc/pass"' in names
    assert "\x1b[2J\x1b[31mred!!" in names
    assert names.count("twice_this_one") == 2
    assert "\udcff\udcfe not UTF-8 \udcc3" in names


def test_traps_hold_what_they_are_for(fixture_objects: list[tuple[str, Path]]) -> None:
    by_name = dict(fixture_objects)
    # GRANULATED_WAVEFRONT_SGPR_COUNT: bits 9:6 of compute_pgm_rsrc1 at byte 48, in units of 16
    # SGPRs, stored as count/8 - 1. Source: LLVM AMDGPU usage, "Kernel Descriptor".
    granules = {
        kernel.name: (int.from_bytes(kernel.descriptor[48:52], "little") >> 6 & 15) * 8 + 8
        for kernel in load(by_name["sgpr_granule-gfx942-v5"]).kernels
    }
    assert granules == {"granule_104": 104, "granule_112": 112, "granule_8": 8}
    assert not load(by_name["stripped-gfx942-v5"]).elf.symbols
    assert load(by_name["relocations-gfx942-v5"]).elf.relocations
    loops = [s for s in load(by_name["local_twice-gfx942-v5"]).symbols if s.name == "loop"]
    assert len(loops) == 2
    names = {section.name for section in load(by_name["sections-gfx942-v5"]).sections}
    assert {".debug_line", ".sp3.notes", ".AMDGPU.gpr_maximums", ".custom_rodata"} <= names
    assert [s.name for s in load(by_name["template-gfx942-v5"]).code_sections] == [
        ".text",
        ".text_cold_code",
    ]
