"""What a round shows: where LLVM refuses a listing, or makes other bytes of it, and what then.

Everything that is learnt goes into the :class:`~coasm.asm.knowledge.Knowledge` from which the next
round's listing is written.
"""

from __future__ import annotations

import re
from copy import deepcopy
from itertools import zip_longest
from typing import NamedTuple

from coasm.asm.build import Built, Declared, assemble_listing, feature_list
from coasm.asm.code import Instruction, branch_target
from coasm.asm.content import Content
from coasm.asm.knowledge import Knowledge, errors_in, remember
from coasm.asm.listing import Listing
from coasm.asm.names import display
from coasm.asm.probe import decode_bytes
from coasm.asm.references import References
from coasm.asm.sections import carried_sections
from coasm.codeobject import CodeObject, Section
from coasm.codeobject.elf import SHT_NOBITS, SHT_NOTE, SHT_RELA, STT_FILE, STT_SECTION, Elf
from coasm.errors import CoasmError, UnsupportedError
from coasm.isa.flow import is_direct
from coasm.llvm import Llvm

__all__ = ["Attempt", "Subject", "drop_idle_pins", "learn_differences", "learn_refusals"]


class Subject(NamedTuple):
    """What stays the same in all rounds: what is listed, what for, and the tools."""

    content: Content
    what: Declared
    llvm: Llvm


class Attempt(NamedTuple):
    """A round's listing, and what the assembler made of it."""

    listing: Listing
    built: Built


def drop_idle_pins(attempt: Attempt, known: Knowledge) -> bool:
    """Whether pins were guessed for what LLVM writes as it was; they are taken back."""
    idle = {pin.line for pin in attempt.built.lost}
    for line, _, item in attempt.listing.rows() if idle else ():
        if line in idle:
            known.pins.pop(item.address, None)
    return bool(idle)


def learn_refusals(subject: Subject, attempt: Attempt, known: Knowledge) -> None:
    """Note what to write instead of each line that the assembler refused.

    Raises:
        UnsupportedError: a line that cannot be said otherwise.
    """
    co, listing = subject.content.co, attempt.listing
    instructions = {line: item for line, _, item in listing.rows()}
    errors = errors_in(attempt.built.messages)
    learned = False
    for line, text in errors:
        item = instructions.get(line)
        if item is None:
            learned |= _learn_refused_directive(listing, line, text, known)
            continue
        learned = True
        address = item.address
        if branch_target(item) is not None and address not in known.local_targets:
            known.local_targets.add(address)
            continue
        reference = subject.content.references.code.get(address)
        if reference is not None and reference.anchor not in known.numeric:
            known.numeric.add(reference.anchor)
            continue
        known.spellings.pop(address, None)
        known.pins.pop(address, None)
        known.raw[address] = f"LLVM refuses it: {text}"
    if not learned:
        messages = [text for _, text in errors] or attempt.built.messages.split("\n")
        raise UnsupportedError(f"{co.name}: LLVM refuses its listing: {display(messages[0])}")


def _learn_refused_directive(listing: Listing, line: int, text: str, known: Knowledge) -> bool:
    """Whether a refused *line* is of a kernel descriptor or the metadata, which become data."""
    at = max((start for start in listing.kernel_lines if start <= line), default=None)
    if at is not None:
        between = listing.text.split("\n")[at:line]
        if ".end_amdhsa_kernel" not in "\n".join(between):
            known.data_descriptors[listing.kernel_lines[at]] = f"LLVM refuses it: {text}"
            return True
    if listing.note_line is None or line < listing.note_line or known.data_note:
        return False
    known.data_note = True
    return True


def learn_differences(subject: Subject, attempt: Attempt, known: Knowledge) -> bool:
    """Whether anything came out differently; what to do about it is noted."""
    co, listing = subject.content.co, attempt.listing
    assert attempt.built.object is not None
    elf = Elf(attempt.built.object, "the assembled object")
    made = _resolved(co, elf, subject.content.references)
    learned = False
    changed: list[Section] = []
    for section in carried_sections(co):
        assembled = made.get(section.name)
        if assembled is None:
            raise CoasmError(f"{co.name}: section {section.name!r} was not assembled")
        if section.type == SHT_NOBITS:
            if assembled[1] != section.size:
                raise CoasmError(f"{co.name}: section {section.name!r} changed its size")
        elif assembled[0] == section.data:
            continue
        elif section.code:
            changed.append(section)
        elif section.type == SHT_NOTE and section.alloc:
            if known.data_note:
                raise CoasmError(f"{co.name}: the metadata note cannot be reproduced")
            known.data_note = learned = True
        else:
            _learn_descriptors(co, section, assembled[0], known)
            learned = True
    if changed:
        learned = True
        before = deepcopy(known)
        _learn_encodings(subject, attempt, known, changed)
        if known == before:
            _learn_places(listing, changed, made, known)
    return _learn_symbols(co, listing, elf, known, settled=not changed) or learned


#: Relocation type → (bytes, shift of the value): all are relative to their place. An address
#: (ABS64) is left to the loader and reads zero. Source: LLVM AMDGPU usage, "Relocation Records".
_RELOCATIONS = {4: (4, 0), 5: (8, 0), 7: (4, 0), 8: (4, 0), 9: (4, 32), 10: (4, 0), 11: (4, 32)}
_GOT = (7, 8, 9)


def _resolved(co: CodeObject, elf: Elf, references: References) -> dict[str, tuple[bytes, int]]:
    """Section name → (bytes, size) of an assembled object, linked to the original's addresses."""
    addresses = {s.name: s.addr for s in carried_sections(co)}
    entries = {
        co.elf.dynamic_symbols[r.symbol].name: r.target
        for r in references.code.values()
        if r.symbol is not None
    }
    data: dict[int, bytearray] = {}  # of the sections with relocations
    for table in elf.sections:
        section = elf.sections[table.info] if table.info < len(elf.sections) else table
        if table.type != SHT_RELA or section.name not in addresses:
            continue
        patched = data.setdefault(section.index, bytearray(section.data))
        for relocation in elf.relocations_of(table):
            symbol = elf.symbols[relocation.symbol]
            kind = _RELOCATIONS.get(relocation.type)
            if kind is None or not 0 < symbol.shndx < len(elf.sections):
                continue  # left as it is, so it shows as a difference where it should not be zero
            size, shift = kind
            if relocation.type in _GOT:
                value = entries.get(symbol.name, 0)
            else:
                value = symbol.value + addresses.get(elf.sections[symbol.shndx].name, 0)
            value += relocation.addend - addresses[section.name] - relocation.offset
            value = value >> shift & (1 << 8 * size) - 1
            at = relocation.offset
            patched[at : at + size] = value.to_bytes(size, "little")
    return {s.name: (bytes(data.get(s.index, s.data)), s.size) for s in elf.sections}


def _learn_descriptors(co: CodeObject, section: Section, made: bytes, known: Knowledge) -> None:
    """Find the descriptors in a data section that came out differently."""
    if len(made) != len(section.data):
        raise CoasmError(f"{co.name}: section {section.name!r} changed its size")
    rest = bytearray(made)
    for kernel in co.kernels:
        at = kernel.descriptor_address - section.addr
        if not 0 <= at <= len(made) - 64 or made[at : at + 64] == kernel.descriptor:
            continue
        if kernel.symbol in known.data_descriptors:
            raise CoasmError(f"{co.name}: the descriptor {kernel.symbol!r} cannot be reproduced")
        known.data_descriptors[kernel.symbol] = "LLVM makes other bytes of its directives"
        rest[at : at + 64] = kernel.descriptor
    if rest != section.data:
        raise CoasmError(f"{co.name}: section {section.name!r} cannot be reproduced")


def _learn_encodings(
    subject: Subject, attempt: Attempt, known: Knowledge, changed: list[Section]
) -> None:
    """Find what LLVM made of each instruction in the *changed* sections, and pin it."""
    facts = _encodings(subject, attempt, known, changed)
    different = {a: (i, made) for a, (i, made) in facts.items() if made != i.data}
    settled = {a: m for a, (_, m) in different.items() if known.pins.get(a) == m}
    fresh = {a: v for a, v in different.items() if a not in settled}
    for address in list(known.pins):
        if address in facts and address not in different:
            del known.pins[address]
    faithful = _decodes_alike(subject, fresh)
    for address, (item, made) in fresh.items():
        if address in faithful:
            known.pins[address] = made
            if address not in known.spellings:
                remember(subject.content.co.target.name, item, made)
        elif branch_target(item) is not None and address not in known.local_targets:
            known.local_targets.add(address)
        else:
            known.pins.pop(address, None)
            known.raw[address] = "LLVM assembles its text to another instruction"


def _encodings(
    subject: Subject, attempt: Attempt, known: Knowledge, changed: list[Section]
) -> dict[int, tuple[Instruction, bytes]]:
    """Address → the instruction, and what LLVM made of it, in the *changed* sections.

    A reference whose literal came out wrong is noted instead: it stays a number.
    """
    bases = {s.index: s.addr for s in changed}
    rows = [row for row in attempt.listing.rows() if row[1] in bases]
    plain, positions = _positions(subject, attempt, known, changed)
    elf = Elf(plain, "the assembled object")
    references = subject.content.references.code
    resolved = _resolved(subject.content.co, elf, subject.content.references)
    facts: dict[int, tuple[Instruction, bytes]] = {}
    for (line, index, item), following in zip_longest(rows, rows[1:]):
        section, at = positions[line]
        size = len(item.data)
        if following is not None and following[1] == index:
            # It ends where the next line's begins; between them may only be data.
            between = following[2].address - item.address - size
            size = positions[following[0]][1] - at - between
        reference = references.get(item.address)
        if reference is not None and reference.anchor not in known.numeric:
            # Its literal is the linker's; it can be judged where nothing before it has moved.
            data = resolved[elf.sections[section].name][0][at : at + size]
            if at == item.address - bases[index] and data != item.data:
                known.numeric.add(reference.anchor)
            continue
        encoded = elf.sections[section].data[at : at + size]
        if branch_target(item) is not None and size == len(item.data):
            # Its distance is to a label, which may still be elsewhere: only the rest is judged.
            encoded = item.data[:2] + encoded[2:]
        facts[item.address] = (item, encoded)
    return facts


def _positions(
    subject: Subject, attempt: Attempt, known: Knowledge, changed: list[Section]
) -> tuple[bytes, dict[int, tuple[int, int]]]:
    """The assembled object, and line → (section index, offset) of each instruction in it.

    Where no section has another length, each instruction is taken to be where it was: if that is
    wrong, the next round differs again, and a label at every instruction tells for certain.
    """
    listing, built = attempt
    assert built.plain is not None
    if not known.measured:
        known.measured = True
        made = {s.name: s for s in Elf(built.plain, "the assembled object").sections}
        if all(made[s.name].size == s.size for s in changed):
            places = {s.index: (made[s.name].index, s.addr) for s in changed}
            return built.plain, {
                line: (places[index][0], item.address - places[index][1])
                for line, index, item in listing.rows()
                if index in places
            }
    indices = {s.index for s in changed}
    marked = assemble_listing(
        listing.text,
        subject.what,
        subject.llvm,
        mark_lines=[line for line, index, _ in listing.rows() if index in indices],
    )
    if marked.plain is None or marked.positions is None:
        name = subject.content.co.name
        raise CoasmError(f"{name}: the assembler refused the marked listing")
    return marked.plain, marked.positions


def _learn_places(
    listing: Listing,
    changed: list[Section],
    made: dict[str, tuple[bytes, int]],
    known: Knowledge,
) -> None:
    """Give up the text of what differs although each encoding seems to be right."""
    for section in changed:
        data = made[section.name][0]
        for _, index, item in listing.rows():
            at = item.address - section.addr
            if index != section.index or data[at : at + len(item.data)] == item.data:
                continue
            if branch_target(item) is not None and item.address not in known.local_targets:
                known.local_targets.add(item.address)
            else:
                known.pins.pop(item.address, None)
                known.raw[item.address] = "LLVM assembles its text to another instruction"
            if len(data) != section.size:
                break  # what follows may be right, but elsewhere


def _decodes_alike(subject: Subject, found: dict[int, tuple[Instruction, bytes]]) -> set[int]:
    """The addresses whose new encoding the disassembler prints as the text that made it."""

    distinct: dict[tuple[str, bytes], int] = {}
    for item, made in found.values():
        distinct.setdefault((item.text, made), len(distinct))
    code, starts = b"", []
    for _, made in distinct:
        starts.append(len(code))
        code += made + b"\0" * (-len(made) % 4)
    if not code:
        return set()
    mattr = ",".join(feature_list(subject.what))
    rows = decode_bytes(subject.content.co, subject.llvm, code, starts, mattr) or []
    lines = {address: (size, text) for address, size, text in rows}
    good = set()
    for (text, made), start in zip(distinct, starts, strict=True):
        size, printed = lines.get(start, (0, ""))
        printed = re.sub(r"\s*/\*.*?\*/", "", printed)
        if size == len(made) and _same_text(printed, text):
            good.add((text, made))
    return {a for a, (item, made) in found.items() if (item.text, made) in good}


def _same_text(printed: str, text: str) -> bool:
    if printed == text:
        return True
    if not is_direct(printed.split(None, 1)[0]):
        return False
    # The operand of a branch is a label in the text and a number in print.
    one, other = (re.split(r"[ ,]+", t)[:-1] for t in (printed, text))
    return one == other


def _learn_symbols(
    co: CodeObject, listing: Listing, elf: Elf, known: Knowledge, *, settled: bool
) -> bool:
    """Compare the symbols; one whose name did not survive gets a stand-in.

    While the code is not *settled*, a symbol may be in another place.
    """
    bases = {s.index: s.addr for s in co.sections}
    names = {s.index: s.name for s in co.sections}
    made: dict[str, list[tuple[object, ...]]] = {}
    for symbol in elf.symbols[1:]:
        if symbol.type in (STT_FILE, STT_SECTION):
            continue
        section = elf.sections[symbol.shndx].name if symbol.shndx < len(elf.sections) else "*ABS*"
        made.setdefault(symbol.name, []).append(
            (section, symbol.value, symbol.size, symbol.bind, symbol.type, symbol.visibility)
        )
    learned = False
    for symbol in co.symbols:
        if symbol.index not in listing.symbol_names:
            continue
        wanted = (
            names.get(symbol.shndx, "*ABS*"),
            symbol.value - bases.get(symbol.shndx, 0),
            symbol.size,
            symbol.bind,
            symbol.type,
            symbol.visibility,
        )
        if wanted in made.get(symbol.name, ()):
            continue
        if symbol.name not in made and symbol.index not in known.stand_ins:
            known.stand_ins.add(symbol.index)
            learned = True
            continue
        if not settled and symbol.name in made:
            continue
        raise CoasmError(
            f"{co.name}: symbol {display(symbol.name)!r} cannot be reproduced: "
            f"wanted {wanted}, assembled {made.get(symbol.name)}"
        )
    return learned
