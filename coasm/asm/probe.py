"""Bytes on their own, disassembled: an ELF file is made that holds just them."""

from __future__ import annotations

import os
from collections.abc import Sequence

from coasm.asm.dump import parse_dump
from coasm.codeobject import CodeObject
from coasm.codeobject.elf import (
    EM_AMDGPU,
    ET_REL,
    OSABI_AMDGPU_HSA,
    SHF_ALLOC,
    SHF_EXECINSTR,
    SHT_PROGBITS,
    SHT_STRTAB,
    SHT_SYMTAB,
)
from coasm.codeobject.layout import (
    FILE_HEADER_SIZE,
    IDENT_SIZE,
    SECTION_HEADER_SIZE,
    SYMBOL,
    FileHeader,
    SectionHeader,
    packed,
)
from coasm.llvm import Llvm
from coasm.llvm.run import objdump, write_bytes
from coasm.llvm.scratch import scratch_folder
from coasm.target import TargetID

__all__ = ["decode_bytes", "probe"]

_SECTION_NAMES = b"\0.text\0.symtab\0.strtab\0.shstrtab\0"


def decode_bytes(
    co: CodeObject, llvm: Llvm, code: bytes, starts: Sequence[int], mattr: str
) -> list[tuple[int, int, str]] | None:
    """Address, size and text of each instruction of *code* as if it were *co*'s.

    It is at address 0, and begun anew at *starts*. None where the disassembler failed.
    """
    with scratch_folder() as folder:
        path = os.path.join(folder, "probe.co")
        write_bytes(path, probe(co.target, co.elf.header.abi_version, code, starts))
        printed = objdump(llvm, [path], co.target, mattr)
    return parse_dump(printed.text) if printed.complete else None


def probe(target: TargetID, abi_version: int, code: bytes, starts: Sequence[int]) -> bytes:
    """A minimal ELF file: one code section at address 0, an unnamed-type symbol at each start."""
    names, symbols = bytearray(b"\0"), bytearray(SYMBOL.size)
    for index, start in enumerate(starts):
        symbols += SYMBOL.pack(len(names), 0, 0, 1, start, 0)
        names += b"p%d\0" % index
    flags = SHF_ALLOC | SHF_EXECINSTR
    contents = (
        (b".text", code, SectionHeader(0, SHT_PROGBITS, flags, 0, 0, 0, 0, 0, 4, 0)),
        (
            b".symtab",
            symbols,
            SectionHeader(0, SHT_SYMTAB, 0, 0, 0, 0, 3, len(starts) + 1, 8, SYMBOL.size),
        ),
        (b".strtab", names, SectionHeader(0, SHT_STRTAB, 0, 0, 0, 0, 0, 0, 1, 0)),
        (b".shstrtab", _SECTION_NAMES, SectionHeader(0, SHT_STRTAB, 0, 0, 0, 0, 0, 0, 1, 0)),
    )
    body, headers = bytearray(), [SectionHeader(*[0] * len(SectionHeader._fields))]
    for name, data, header in contents:
        at = FILE_HEADER_SIZE + len(body)
        named = _SECTION_NAMES.index(name + b"\0")
        headers.append(header._replace(name=named, offset=at, size=len(data)))
        body += data + bytes(-len(data) % 8)
    head = FileHeader(
        type=ET_REL,
        machine=EM_AMDGPU,
        version=1,
        entry=0,
        phoff=0,
        shoff=FILE_HEADER_SIZE + len(body),
        flags=target.e_flags(abi_version),
        ehsize=FILE_HEADER_SIZE,
        phentsize=0,
        phnum=0,
        shentsize=SECTION_HEADER_SIZE,
        shnum=len(headers),
        shstrndx=len(headers) - 1,
    )
    ident = b"\x7fELF\x02\x01\x01" + bytes([OSABI_AMDGPU_HSA, abi_version])
    ident += bytes(IDENT_SIZE - len(ident))
    return b"".join((ident, packed(head), body, *map(packed, headers)))
