"""Code bytes → instructions: what LLVM's disassembler says, and where it says nothing.

The text comes from ``llvm-objdump -d -z`` on the object itself. A section whose lines do not cover
it exactly, one item after the other, is decoded again from a probe (:mod:`coasm.asm.patient`).
"""

from __future__ import annotations

import bisect
import os
import re
from itertools import accumulate
from typing import NamedTuple

from coasm.asm.code import Code, Instruction, Item
from coasm.asm.dump import DATA_DIRECTIVES, columns, instruction_of, parse_dump
from coasm.asm.patient import SectionDecoder, has_data
from coasm.asm.vgpr_msb import has_states, with_registers
from coasm.codeobject import CodeObject, Section
from coasm.llvm import Llvm
from coasm.llvm.run import TRUE16, Dump, first_features, has_true16, objdump, write_bytes
from coasm.llvm.scratch import scratch_folder

__all__ = ["Disassembly", "decode", "disassemble", "features"]

_SAFE_NAMES = re.compile(r"[\w.$@\0-]*", re.ASCII)


def features(co: CodeObject) -> tuple[str, ...]:
    """The subtarget features, beside the processor's own, that the object's text is in.

    The settings that its target ID names, and ``+wavefrontsize64`` where an object for a target
    whose waves have 32 lanes by default holds only kernels of 64 (their VCC operands are spelled
    ``vcc``, not ``vcc_lo``).
    """
    named = [
        f"{'+' if value == 'on' else '-'}{name}"
        for name, value in (("sramecc", co.target.sramecc), ("xnack", co.target.xnack))
        if value in ("on", "off") and not (value == "off" and co.code_object_version == 3)
    ]
    if 64 in co.target.processor.family.wave_sizes[1:]:
        sizes = {kernel.metadata.get(".wavefront_size") for kernel in co.kernels}
        if sizes == {64}:
            named.append("+wavefrontsize64")
    return tuple(named)


def _covering(co: CodeObject, text: str) -> dict[int, Code] | None:
    """The code of each section by a disassembly whose lines are exactly the code.

    None where they are not, or data is among them.
    """
    sections = co.code_sections
    if any(has_data(co, section) for section in sections):
        return None
    printed = columns(text)
    if printed is None or printed[0] != b"".join(section.data for section in sections):
        return None
    _, sizes, texts = printed
    stops = list(accumulate(sizes, initial=0))
    code: dict[int, Code] = {}
    first = base = 0
    for section in sections:
        after = bisect.bisect_left(stops, base + section.size, first)
        if stops[after] != base + section.size:
            return None
        ends = stops[first : after + 1]
        if base:
            ends = [stop - base for stop in ends]
        section_code = Code(section.data, section.addr, ends, texts[first:after])
        if any(mnemonic.startswith(".") for mnemonic in section_code.by_mnemonic):
            return None
        if "/*" in text:
            section_code = Code.of(
                [
                    instruction_of(*item[:3])
                    for item in section_code
                    if isinstance(item, Instruction)
                ]
            )
        code[section.index] = section_code
        first, base = after, base + section.size
    return code


def decode(
    co: CodeObject,
    llvm: Llvm,
    dump: Dump | None = None,
    extra: tuple[str, ...] = (),
) -> dict[int, Code]:
    """The code of each code section of *co*, by section index.

    *extra* are subtarget features beside those of :func:`features`, *dump* is a disassembly of the
    object itself that has already run, with :func:`~coasm.llvm.run.first_features`.
    """
    mattr = ",".join((*features(co), *extra))
    if not _prints_safely(co):
        dump = Dump("", False)
    elif dump is None or extra != first_features(co.target) or "wavefrontsize64" in mattr:
        with scratch_folder() as folder:
            path = os.path.join(folder, "in.co")
            write_bytes(path, co.data)
            dump = objdump(llvm, [path], co.target, mattr)
    code = _covering(co, dump.text) if dump.complete else None
    if code is None:
        lines = parse_dump(dump.text) if dump.complete else []
        code = {
            section.index: Code.of(_section_items(co, llvm, section, lines, mattr))
            for section in co.code_sections
        }
    if co.target.processor.family.vgpr_msb and has_states(code):
        return with_registers(co, llvm, code, mattr)
    return code


def _section_items(
    co: CodeObject,
    llvm: Llvm,
    section: Section,
    printed_lines: list[tuple[int, int, str]],
    mattr: str,
) -> list[Item]:
    """The items of one section; *printed_lines* are those of the whole object's disassembly."""
    end = section.addr + section.size
    lines = [line for line in printed_lines if section.addr <= line[0] < end]
    items: list[Item] = []
    position = section.addr
    for address, size, text in lines:
        if address != position or text.startswith(DATA_DIRECTIVES) or has_data(co, section):
            break
        data = section.data[address - section.addr : address - section.addr + size]
        items.append(instruction_of(address, data, text))
        position += size
    if position == end and len(items) == len(lines):
        return items
    printed = {a: (size, text) for a, size, text in lines}
    return SectionDecoder(co, llvm, section, mattr).decode(printed)


def _prints_safely(co: CodeObject) -> bool:
    """Whether the names of *co* cannot be taken for something else where they are printed.

    The disassembler prints them as headings and as operands of branches, so one with a line feed
    and a comment in it would pass for an instruction. Such an object is decoded from a probe.
    """
    elf = co.elf
    names = [s.name for table in (elf.symbols, elf.dynamic_symbols, elf.sections) for s in table]
    return _SAFE_NAMES.fullmatch("\0".join(names)) is not None


class Disassembly(NamedTuple):
    """All code of an object in address order: ``items``, and ``instructions`` alone."""

    items: tuple[Item, ...]

    @property
    def instructions(self) -> tuple[Instruction, ...]:
        return tuple(i for i in self.items if isinstance(i, Instruction))


def disassemble(co: CodeObject, llvm: Llvm) -> Disassembly:
    """The instructions and the undecoded bytes of every code section of *co*."""
    extra = (TRUE16,) if has_true16(co.target) else ()
    code = decode(co, llvm, extra=extra)
    return Disassembly(tuple(item for items in code.values() for item in items))
