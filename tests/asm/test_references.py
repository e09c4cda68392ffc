"""Compiled code that computes addresses: the trip is exact, and an edit moves what it should."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

import coasm
from coasm.asm.build import link_object
from coasm.asm.exact import exact_listing
from coasm.llvm import Llvm

_SOURCES = Path(__file__).parent.parent / "fixtures"
_HIP = ("--offload-device-only", "--no-gpu-bundle-output", "-nogpulib", "-nogpuinc")

_KINDS = [
    (source, target, level, extra)
    for source in ("compiled.cl", "compiled.hip")
    for target, extra in (
        ("gfx90a", ()),
        ("gfx942", ()),
        ("gfx950", ()),
        ("gfx1030", ()),
        ("gfx1100", ()),
        ("gfx1100", ("-mwavefrontsize64",)),
        ("gfx1201", ()),
        ("gfx1250", ()),
    )
    for level in ("-O0", "-O3")
]


def _compile(llvm: Llvm, folder: Path, source: str, target: str, flags: tuple[str, ...]) -> Path:
    out = folder / "compiled.co"
    if source.endswith(".cl"):
        language = ["-x", "cl", "-cl-std=CL2.0", "-target", "amdgcn-amd-amdhsa"]
        command = [*language, f"-mcpu={target}", "-nogpulib", "-w"]
    else:
        command = ["-x", "hip", f"--offload-arch={target}", *_HIP]
    subprocess.run(
        [llvm.clang, *command, *flags, str(_SOURCES / source), "-o", str(out)],
        check=True,
        capture_output=True,
    )
    return out


@pytest.fixture(params=_KINDS, ids=lambda kind: "-".join((*kind[:3], *kind[3])))
def compiled(request: pytest.FixtureRequest, llvm: Llvm, tmp_path: Path) -> Path:
    source, target, level, extra = request.param
    return _compile(llvm, tmp_path, source, target, (level, *extra))


def test_the_trip_is_exact_and_nothing_stays_numeric(compiled: Path, llvm: Llvm) -> None:
    co = coasm.load(compiled)
    listing = exact_listing(co, llvm)
    assert listing.raw == 0
    assert listing.warnings == ()
    report = coasm.verify(co, link_object(listing.object, llvm))
    assert report.loaded_identical
    assert set(report.verdicts.values()) == {"identical"}


# --- an edit -----------------------------------------------------------------------------------

_LINE = re.compile(r"^\t(\S+) ?(.*?)\s*// ([0-9A-F]{12}): ([0-9A-F ]+)", re.M)


def _addresses(llvm: Llvm, path: Path) -> list[int]:
    """The addresses that getpc sequences compute, read off llvm-objdump's encodings."""
    text = subprocess.run([llvm.objdump, "-d", path], check=True, capture_output=True, text=True)
    rows = [(m[1], int(m[3], 16), m[4].split()) for m in _LINE.finditer(text.stdout)]
    found = []
    for at, (mnemonic, address, words) in enumerate(rows):
        if mnemonic not in ("s_getpc_b64", "s_get_pc_i64"):
            continue
        counter = address + 4 * len(words)
        low = next(
            r
            for r in rows[at + 1 :]
            if r[0].startswith(("s_add_u32", "s_add_co_u32", "s_add_nc_u64"))
        )
        if low[0] == "s_add_nc_u64":
            distance = int(low[2][2] + low[2][1], 16)
        else:
            high = next(
                r for r in rows[at + 1 :] if r[0].startswith(("s_addc_u32", "s_add_co_ci_u32"))
            )
            distance = int(high[2][1] + low[2][1], 16)
        found.append((counter + distance) % (1 << 64))
    return found


def _places(path: Path, addresses: list[int]) -> list[tuple[str, int]]:
    """Each address as (symbol or section, offset): what it means wherever things lie."""
    with path.open("rb") as file:
        elf = ELFFile(file)
        symbols = [
            (s["st_value"], s["st_size"], s.name)
            for s in elf.get_section_by_name(".symtab").iter_symbols()
            if s["st_info"]["type"] in ("STT_OBJECT", "STT_FUNC")
        ]
        sections = [
            (s["sh_addr"], s["sh_size"], s.name) for s in elf.iter_sections() if s["sh_flags"] & 2
        ]
    found = []
    for address in addresses:
        for start, size, name in (*symbols, *sections):
            if start <= address < start + size:
                found.append((name, address - start))
                break
        else:
            raise AssertionError(f"{address:#x} is nowhere")
    return found


def _with_nops(text: str) -> tuple[str, int]:
    """The listing with an `s_nop` at the start of every basic block."""
    result: list[str] = []
    count, code = 0, False
    for line in text.split("\n"):
        if line.startswith(("\t.text", "\t.section", "\t.amdgpu_metadata")):
            code = line == "\t.text"
        result.append(line)
        stripped = line.split("//")[0]
        block = stripped.rstrip().endswith(":") and not stripped.startswith(".Lend")
        branch = stripped.startswith(("\ts_branch", "\ts_cbranch"))
        if code and (block or branch):
            result.append("\ts_nop 0")
            count += 1
    return "\n".join(result), count


def test_references_survive_nops_everywhere(compiled: Path, llvm: Llvm) -> None:
    text, count = _with_nops(coasm.disassemble(compiled).text)
    edited = compiled.with_name("edited.co")
    edited.write_bytes(coasm.assemble(text).data)
    assert count >= 3
    before = _places(compiled, _addresses(llvm, compiled))
    after = _places(edited, _addresses(llvm, edited))
    assert before
    assert after == before
    assert _relocated(edited) == _relocated(compiled)
    assert _kernels_start_aligned(edited)


def _relocated(path: Path) -> list[tuple[tuple[str, int], tuple[str, int] | str]]:
    """Each dynamic relocation as (place, what it leads to)."""
    found: list[tuple[tuple[str, int], tuple[str, int] | str]] = []
    with path.open("rb") as file:
        elf = ELFFile(file)
        table = elf.get_section_by_name(".rela.dyn")
        rows = [] if table is None else list(table.iter_relocations())
        names = elf.get_section_by_name(".dynsym")
        relocations = [
            (r["r_offset"], r["r_addend"], names.get_symbol(r["r_info_sym"]).name) for r in rows
        ]
    for offset, addend, name in relocations:
        (place,) = _places(path, [offset])
        found.append((place, name or _places(path, [addend])[0]))
    return found


def _kernels_start_aligned(path: Path) -> bool:
    return all(kernel.entry % 256 == 0 for kernel in coasm.load(path).kernels)


def test_a_second_entry_leaves_the_sequence_numeric(llvm: Llvm) -> None:
    """What a branch can reach in the middle is no address that could be proven."""
    source = _SOURCES / "getpc.s"
    assert source.exists()
    text = (
        '\t.amdgcn_target "amdgcn-amd-amdhsa--gfx942"\n\t.amdhsa_code_object_version 5\n'
        "\t.text\n\t.globl k\n\t.p2align 8\n\t.type k,@function\nk:\n"
        "\ts_getpc_b64 s[4:5]\nmiddle:\n\ts_add_u32 s4, s4, lit(0x10)\n"
        "\ts_addc_u32 s5, s5, lit(0x0)\n\ts_cbranch_scc1 middle\n\ts_endpgm\n\ts_nop 0\n"
        "\t.amdhsa_kernel k\n\t.amdhsa_next_free_vgpr 4\n\t.amdhsa_next_free_sgpr 8\n"
        "\t.amdhsa_accum_offset 4\n\t.end_amdhsa_kernel\n"
        "\t.amdgpu_metadata\n---\namdhsa.version: [1, 2]\namdhsa.kernels:\n  - .name: k\n"
        "    .symbol: k.kd\n    .kernarg_segment_size: 0\n    .kernarg_segment_align: 8\n"
        "    .group_segment_fixed_size: 0\n    .private_segment_fixed_size: 0\n"
        "    .wavefront_size: 64\n    .sgpr_count: 8\n    .vgpr_count: 4\n"
        "    .max_flat_workgroup_size: 64\n...\n\t.end_amdgpu_metadata\n"
    )
    listing = coasm.disassemble(coasm.assemble(text).data)
    assert len(listing.warnings) == 1
    assert "s_getpc_b64 s[4:5] at .text+0x0" in listing.warnings[0]
    direct = coasm.disassemble(
        coasm.assemble(text.replace("middle:\n", "").replace("scc1 middle", "scc1 k")).data
    )
    assert direct.warnings == ()
