"""Finds the listing that assembles to the same bytes, by assembling what it wrote.

Each round writes the whole listing, assembles it as ``coasm asm`` would, and compares every
section, every symbol and every instruction with the original. What came out differently is a fact:
the next round pins it, spells it differently, or writes it as data. The object of the last round,
made from the very text that is handed out, is kept: a round trip links it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from copy import deepcopy
from typing import NamedTuple

from coasm.asm.build import Built, Declared, assemble_listing, feature_list
from coasm.asm.code import Code, Instruction, branch_target
from coasm.asm.decode import decode, features
from coasm.asm.follow import marked
from coasm.asm.halves import leaves_unsaid, without_halves
from coasm.asm.linking import NO_PADDING, linking_of
from coasm.asm.listing import Knowledge, Listing, head_lines, render
from coasm.asm.names import display
from coasm.asm.probe import decode_bytes
from coasm.asm.quirks import dont_care_rows, doubtful, dropped, has_respellings, respell
from coasm.asm.references import References, find_references
from coasm.asm.sections import carried_sections
from coasm.codeobject import CodeObject, Section
from coasm.codeobject.elf import SHT_NOBITS, SHT_NOTE, SHT_RELA, STT_FILE, STT_SECTION, Elf
from coasm.errors import CoasmError, UnsupportedError
from coasm.isa.flow import is_direct
from coasm.llvm import Llvm
from coasm.llvm.run import TRUE16, Dump, clang_command, has_true16

__all__ = ["Exact", "exact_listing"]

_ROUNDS = 10


class Exact(NamedTuple):
    """A checked listing: its text, the object it assembles to, and what it holds.

    ``object`` is the relocatable object that the check assembled from ``text``. ``raw`` and
    ``pinned`` count instructions, ``undecoded`` those of the raw ones that LLVM cannot read.
    """

    text: str
    object: bytes
    instructions: int
    raw: int
    pinned: int
    warnings: tuple[str, ...]
    undecoded: int = 0


def exact_listing(
    co: CodeObject, llvm: Llvm, *, dump: Dump | None = None, output: str = ""
) -> Exact:
    """The listing of *co* that assembles to its bytes.

    *dump* is its disassembly, where it has already run; *output* is the listing's file name, for
    the commands in its head.

    Raises:
        UnsupportedError: something in the object that no listing can say.
        CoasmError: something that the assembler refuses, or makes other bytes of.
    """
    if not has_true16(co.target):
        return _settled(co, llvm, decode(co, llvm, dump), output)
    # The way that LLVM prefers where it says everything, else the one that leaves less unsaid.
    halves = decode(co, llvm, dump, (TRUE16,))
    doubtful = any(own.undecoded for own in halves.values())
    code = decode(co, llvm) if doubtful else without_halves(co, llvm, halves)
    if code is not None and not (doubtful and leaves_unsaid(code)):
        found = _exact(co, llvm, code, output, whole=True)
        if found is not None:
            return found
    other = _settled(co, llvm, halves, output, (TRUE16,))
    if not doubtful or code is None:
        return other
    found = _settled(co, llvm, code, output)
    return other if other.raw <= found.raw else found


def _settled(
    co: CodeObject,
    llvm: Llvm,
    code: dict[int, Code],
    output: str,
    extra: tuple[str, ...] = (),
) -> Exact:
    found = _exact(co, llvm, code, output, extra)
    assert found is not None
    return found


def _exact(
    co: CodeObject,
    llvm: Llvm,
    code: dict[int, Code],
    output: str,
    extra: tuple[str, ...] = (),
    *,
    whole: bool = False,
) -> Exact | None:
    """The listing of *code*, which was printed with *extra* features; with *whole* None where it
    leaves something unsaid.
    """
    from coasm.descriptor import directives as to_directives
    from coasm.notes.yaml import to_yaml

    known = Knowledge()
    _predict(co, code, known)
    version = max(co.code_object_version, 4)
    what = Declared(co.target, version, (*(f for f in features(co) if "wavefront" in f), *extra))
    directives = {
        k.symbol: to_directives(
            k.descriptor, co.target, code_object_version=version, kernel=k.metadata
        )
        for k in co.kernels
    }
    yaml = to_yaml(co.metadata_note, co.metadata) if co.metadata_note is not None else None
    if yaml is not None:
        yaml = marked(yaml, directives, co.target)
    references = find_references(co, code)
    remarks = {
        item.address: item.registers
        for own in code.values()
        for item in own.others.values()
        if isinstance(item, Instruction) and item.registers
    }
    for address, line in _source_lines(co).items():
        remarks[address] = f"{remarks[address]}, {line}" if address in remarks else line
    _ask(co, code, known, what, llvm)
    if whole and known.raw:
        return None
    linking = linking_of(co.elf)
    digest, commands = _digest(co.data), _commands(output, what, linking, llvm)
    for _ in range(_ROUNDS):
        warnings = _warnings(co, code, references, known)
        listing = render(
            co,
            code,
            known,
            head=head_lines(co, digest, what.features, linking, commands, warnings),
            yaml=yaml,
            directives=directives,
            remarks=remarks,
            references=references,
        )
        built = assemble_listing(
            listing.text, what.target, version, llvm, features=feature_list(what)
        )
        if built.object is None or built.plain is None:
            _learn_refusals(co, listing, built, known, references)
            if whole and known.raw:
                return None
            continue
        if _learn_differences(co, listing, built, known, what, llvm, references):
            continue
        if not _drop_idle_pins(listing, built, known):
            return Exact(
                listing.text,
                built.object,
                listing.instruction_count + listing.raw_count,
                listing.raw_count,
                len(known.pins),
                warnings,
                sum(len(own.undecoded) for own in code.values()),
            )
    raise UnsupportedError(f"{co.name}: no listing was found that assembles to the same bytes")


def _source_lines(co: CodeObject) -> dict[int, str]:
    """Address → the line of its source, of an object with debug information."""
    sections = {s.name: s.data for s in co.sections if not s.alloc}
    if not sections.get(".debug_line"):
        return {}
    from coasm.asm.lines import source_lines

    line_strings = sections.get(".debug_line_str", b"")
    return source_lines(sections[".debug_line"], line_strings, sections.get(".debug_str", b""))


def _drop_idle_pins(listing: Listing, built: Built, known: Knowledge) -> bool:
    """Whether pins were guessed for what LLVM writes as it was; they are taken back."""
    idle = {pin.line for pin in built.lost}
    for line, _, item in listing.rows() if idle else ():
        if line in idle:
            known.pins.pop(item.address, None)
    return bool(idle)


def _digest(data: bytes) -> str:
    try:  # hashlib loads OpenSSL, which takes longer than the digest
        from _sha256 import sha256  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        from hashlib import sha256
    return str(sha256(data).hexdigest())


def _commands(
    output: str, what: Declared, linking: tuple[str, ...], llvm: Llvm
) -> tuple[str, str | None]:
    import os
    import shlex

    name = os.path.basename(output) or "FILE.s"
    source, result = shlex.quote(name), shlex.quote(os.path.splitext(name)[0] + ".rebuilt.co")
    own = f"coasm asm {source} -o {result}"
    if not llvm.knows(what.target.name):
        return own, None  # clang takes a relative's name alone, and would write that
    return (
        own,
        clang_command(
            source,
            result,
            what.target,
            what.code_object_version,
            (*what.features, *(f"-Wl,{o}" for o in linking if o != NO_PADDING)),
        ),
    )


#: Processor and mnemonic → bits that LLVM was seen to clear and to set, in this process.
_SEEN: dict[tuple[str, str], tuple[int, int]] = {}


def _predict(co: CodeObject, code: dict[int, Code], known: Knowledge) -> None:
    """Pins and spellings that are known beforehand; the first round checks each of them."""
    processor = co.target.processor
    for own in code.values():
        for mnemonic, positions in own.by_mnemonic.items():
            if not mnemonic:
                continue  # data
            masks = _SEEN.get((processor.name, mnemonic)) or dropped(processor, mnemonic)
            respelled = has_respellings(processor, mnemonic)
            rows = [row for row in dont_care_rows(processor) if mnemonic in row.what]
            if not (any(masks) or respelled or rows):
                continue
            for at in positions:
                address, data = own.address(at), own.bytes_at(at)
                clear, bits = masks
                spelling = respell(processor, own.texts[at]) if respelled else None
                if spelling is not None:
                    known.spellings[address] = spelling[0]
                    clear, bits = clear | spelling[1], bits & ~spelling[1]
                for row in rows:
                    if row.apply(data) is not None:
                        bits |= row.bits
                word = int.from_bytes(data, "little")
                changed = (word & ~clear) | bits
                if changed != word:
                    known.pins[address] = changed.to_bytes(len(data), "little")


def _ask(
    co: CodeObject, code: dict[int, Code], known: Knowledge, what: Declared, llvm: Llvm
) -> None:
    """Note which of the instructions that LLVM is likely to refuse it does refuse."""
    asked: dict[str, list[int]] = defaultdict(list)  # text → addresses
    for own in code.values():
        for mnemonic, positions in own.by_mnemonic.items():
            patterns = doubtful(co.target.processor, mnemonic)
            for at in positions if patterns else ():
                if any(pattern.match(own.texts[at]) for pattern in patterns):
                    asked[own.texts[at]].append(own.address(at))
    if not asked:
        return
    texts = list(asked)
    built = assemble_listing(
        "\n".join([*texts, ""]),
        what.target,
        what.code_object_version,
        llvm,
        features=feature_list(what),
    )
    for line, message in _errors(built.messages):
        for address in asked[texts[line]]:
            known.raw[address] = f"LLVM refuses it: {message}"


def _remember(processor: str, item: Instruction, made: bytes) -> None:
    """Keep which bits LLVM dropped, as a first guess for the next object."""
    if len(made) != len(item.data):
        return
    old, new = int.from_bytes(item.data, "little"), int.from_bytes(made, "little")
    clear, bits = _SEEN.get((processor, item.mnemonic), (0, 0))
    clear, bits = clear | (old & ~new), bits | (new & ~old)
    _SEEN[processor, item.mnemonic] = (clear & ~bits, bits & ~clear)


def _learn_refusals(
    co: CodeObject, listing: Listing, built: Built, known: Knowledge, references: References
) -> None:
    """Note what to write instead of each line that the assembler refused.

    Raises:
        UnsupportedError: a line that cannot be said otherwise.
    """
    rows = {line: item for line, _, item in listing.rows()}
    kernels = sorted(listing.kernel_lines)
    learned = False
    for diagnostic in _errors(built.messages):
        line, text = diagnostic
        item = rows.get(line)
        if item is None:
            at = max((k for k in kernels if k <= line), default=None)
            lines = listing.text.split("\n")
            inside = at is not None and ".end_amdhsa_kernel" not in "\n".join(lines[at:line])
            if inside and at is not None:
                known.data_descriptors[listing.kernel_lines[at]] = f"LLVM refuses it: {text}"
                learned = True
            elif (
                listing.note_line is not None and line >= listing.note_line and not known.data_note
            ):
                known.data_note = True
                learned = True
            continue
        learned = True
        address = item.address
        if branch_target(item) is not None and address not in known.local_targets:
            known.local_targets.add(address)
            continue
        reference = references.code.get(address)
        if reference is not None and reference.anchor not in known.numeric:
            known.numeric.add(reference.anchor)
            continue
        known.spellings.pop(address, None)
        known.pins.pop(address, None)
        known.raw[address] = f"LLVM refuses it: {text}"
    if not learned:
        messages = [text for _, text in _errors(built.messages)] or built.messages.split("\n")
        raise UnsupportedError(f"{co.name}: LLVM refuses its listing: {display(messages[0])}")


def _errors(messages: str) -> list[tuple[int, str]]:
    """(0-based line, text) of each error."""
    pattern = re.compile(r"^<stdin>:(\d+):\d+: error: (.*)$", re.M)
    return [(int(m[1]) - 1, m[2]) for m in pattern.finditer(messages)]


def _learn_differences(
    co: CodeObject,
    listing: Listing,
    built: Built,
    known: Knowledge,
    what: Declared,
    llvm: Llvm,
    references: References,
) -> bool:
    """Whether anything came out differently; what to do about it is noted."""
    assert built.plain is not None and built.object is not None
    elf = Elf(built.object, "the assembled object")
    made = _resolved(co, elf, references)
    learned = False
    changed: list[Section] = []
    for section in carried_sections(co):
        found = made.get(section.name)
        if found is None:
            raise CoasmError(f"{co.name}: section {section.name!r} was not assembled")
        if section.type == SHT_NOBITS:
            if found[1] != section.size:
                raise CoasmError(f"{co.name}: section {section.name!r} changed its size")
        elif found[0] == section.data:
            continue
        elif section.code:
            changed.append(section)
        elif section.type == SHT_NOTE and section.alloc:
            if known.data_note:
                raise CoasmError(f"{co.name}: the metadata note cannot be reproduced")
            known.data_note = learned = True
        else:
            _learn_descriptors(co, section, found[0], known)
            learned = True
    if changed:
        learned = True
        before = deepcopy(known)
        _learn_encodings(co, listing, built, changed, known, what, llvm, references)
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
        own = data.setdefault(section.index, bytearray(section.data))
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
            own[at : at + size] = value.to_bytes(size, "little")
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
    co: CodeObject,
    listing: Listing,
    built: Built,
    changed: list[Section],
    known: Knowledge,
    what: Declared,
    llvm: Llvm,
    references: References,
) -> None:
    """Find what LLVM made of each instruction in the *changed* sections, and pin it."""
    assert built.plain is not None
    bases = {s.index: s.addr for s in changed}
    rows = [r for r in listing.rows() if r[1] in bases]
    plain, positions = _positions(co, listing, built, changed, known, what, llvm)
    elf = Elf(plain, "the assembled object")
    resolved = _resolved(co, elf, references)
    facts: dict[int, tuple[Instruction, bytes]] = {}
    for position, (line, index, item) in enumerate(rows):
        section, at = positions[line]
        # The instruction ends where the next line's begins; between them may only be data.
        size = _encoded_size(elf, section, at, rows, position, positions, item, index)
        reference = references.code.get(item.address)
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
    different = {a: (i, made) for a, (i, made) in facts.items() if made != i.data}
    settled = {a: m for a, (_, m) in different.items() if known.pins.get(a) == m}
    fresh = {a: v for a, v in different.items() if a not in settled}
    for address in list(known.pins):
        if address in facts and address not in different:
            del known.pins[address]
    faithful = _decodes_alike(co, fresh, llvm, what)
    for address, (item, made) in fresh.items():
        if address in faithful:
            known.pins[address] = made
            if address not in known.spellings:
                _remember(co.target.name, item, made)
        elif branch_target(item) is not None and address not in known.local_targets:
            known.local_targets.add(address)
        else:
            known.pins.pop(address, None)
            known.raw[address] = "LLVM assembles its text to another instruction"


def _positions(
    co: CodeObject,
    listing: Listing,
    built: Built,
    changed: list[Section],
    known: Knowledge,
    what: Declared,
    llvm: Llvm,
) -> tuple[bytes, dict[int, tuple[int, int]]]:
    """The assembled object, and line → (section index, offset) of each instruction in it.

    Where no section has another length, each instruction is taken to be where it was: if that is
    wrong, the next round differs again, and a label at every instruction tells for certain.
    """
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
        what.target,
        what.code_object_version,
        llvm,
        features=feature_list(what),
        mark_lines=[line for line, index, _ in listing.rows() if index in indices],
    )
    if marked.plain is None or marked.positions is None:
        raise CoasmError(f"{co.name}: the assembler refused the marked listing")
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


def _encoded_size(
    elf: Elf,
    section: int,
    at: int,
    rows: list[tuple[int, int, Instruction]],
    position: int,
    positions: dict[int, tuple[int, int]],
    item: Instruction,
    index: int,
) -> int:
    if position + 1 < len(rows) and rows[position + 1][1] == index:
        line, _, following = rows[position + 1]
        between = following.address - item.address - len(item.data)
        return positions[line][1] - at - between
    return len(item.data)


def _decodes_alike(
    co: CodeObject, found: dict[int, tuple[Instruction, bytes]], llvm: Llvm, what: Declared
) -> set[int]:
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
    rows = decode_bytes(co, llvm, code, starts, ",".join(feature_list(what))) or []
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
    if not printed.startswith("s_") or not is_direct(printed.split(None, 1)[0]):
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


def _warnings(
    co: CodeObject, code: dict[int, Code], references: References, known: Knowledge
) -> tuple[str, ...]:
    """The places where a distance stays a number in the code."""
    numeric = set(references.numeric)
    numeric |= {a for a, r in references.code.items() if r.anchor in known.numeric}
    found = []
    if numeric:
        for index, items in code.items():
            section = co.sections[index]
            for item in items:
                if item.address in numeric and isinstance(item, Instruction):
                    place = f"{section.name}+{item.address - section.addr:#x}"
                    found.append(f"{item.text} at {place}")
    return tuple(found)
