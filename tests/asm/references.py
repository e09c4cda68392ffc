"""Where the references of an object lead, by llvm-objdump and pyelftools; and whether an edit keeps
that."""

from __future__ import annotations

import re
import subprocess
from bisect import bisect_left
from pathlib import Path
from typing import NamedTuple

from elftools.elf.elffile import ELFFile

import coasm
from coasm.llvm import Llvm
from tests.edits import with_nops

__all__ = ["check_edit", "computed"]

_LINE = re.compile(r"^\t(\S+) ?(.*?)\s*// ([0-9A-F]{12}): ([0-9A-F ]+)", re.M)
_BRANCH = re.compile(r"s_branch|s_cbranch_\w+|s_call_b64|s_call_i64")


class Row(NamedTuple):
    """An instruction as llvm-objdump shows it; its encoding as 32-bit words in hexadecimal."""

    mnemonic: str
    operands: str
    address: int
    words: list[str]


def check_edit(llvm: Llvm, path: Path) -> int:
    """Assert that ``s_nop``s in every block move no reference; how many there are.

    The edited object has the same instructions in the same order, every branch leads to the same
    one, every computed address and every relocation to the same symbol and offset, and kernels
    begin where hardware wants them to.
    """
    text, count = with_nops(coasm.disassemble(path).text)
    edited = path.with_name("edited.co")
    edited.write_bytes(coasm.assemble(text).data)
    old, new = _rows(llvm, path), _rows(llvm, edited)
    assert _code(new) == _code(old)
    assert _branches(new) == _branches(old)
    assert _places(edited, _addresses(new)) == _places(path, _addresses(old))
    assert _relocated(edited) == _relocated(path)
    assert all(kernel.entry % 256 == 0 for kernel in coasm.load(edited).kernels)
    assert sum(row.mnemonic == "s_nop" for row in new) > sum(row.mnemonic == "s_nop" for row in old)
    return count


def computed(llvm: Llvm, path: Path) -> list[tuple[str, int]]:
    """The addresses that the code computes, each as (symbol or section, offset)."""
    return _places(path, _addresses(_rows(llvm, path)))


def _rows(llvm: Llvm, path: Path) -> list[Row]:
    done = subprocess.run([llvm.objdump, "-d", path], check=True, capture_output=True, text=True)
    return [Row(m[1], m[2], int(m[3], 16), m[4].split()) for m in _LINE.finditer(done.stdout)]


def _kept(rows: list[Row]) -> list[Row]:
    """Without what the edit puts in, and what fills the space between functions."""
    return [r for r in rows if r.mnemonic != "s_code_end" and r[:2] != ("s_nop", "0")]


def _code(rows: list[Row]) -> list[tuple[str, str]]:
    """The instructions, without the distances that an edit changes."""
    return [
        (r.mnemonic, "" if _BRANCH.fullmatch(r.mnemonic) or r.mnemonic.startswith("s_add") else
         r.operands)
        for r in _kept(rows)
    ]  # fmt: skip


def _branches(rows: list[Row]) -> list[tuple[int, int]]:
    """Each branch as (its place in the order of instructions, that of what it leads to)."""
    kept = _kept(rows)
    addresses = [row.address for row in kept]
    found = []
    for place, row in enumerate(kept):
        if _BRANCH.fullmatch(row.mnemonic):
            distance = int(row.words[0], 16) & 0xFFFF
            distance -= (distance & 0x8000) << 1
            found.append((place, bisect_left(addresses, row.address + 4 + 4 * distance)))
    return found


def _addresses(rows: list[Row]) -> list[int]:
    """The addresses that getpc sequences compute, read off the encodings."""
    found = []
    for at, row in enumerate(rows):
        if row.mnemonic not in ("s_getpc_b64", "s_get_pc_i64"):
            continue
        counter = row.address + 4 * len(row.words)
        behind = rows[at + 1 :]
        low = next(
            r
            for r in behind
            if r.mnemonic.startswith(("s_add_u32", "s_add_co_u32", "s_add_nc_u64"))
        )
        if low.mnemonic == "s_add_nc_u64":
            distance = int(low.words[2] + low.words[1], 16)
        else:
            high = next(
                r for r in behind if r.mnemonic.startswith(("s_addc_u32", "s_add_co_ci_u32"))
            )
            distance = int(high.words[1] + low.words[1], 16)
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
