"""The code of an object for another target: instruction by instruction, the same or refused.

An instruction is the same where LLVM prints the same text for both targets, but for the names that
:mod:`coasm.isa.renamed` has. Its bytes stay where they are that instruction there as well; else
they become those that LLVM's assembler writes. What comes out is disassembled again, and every
instruction compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from coasm.asm.code import Code, Instruction
from coasm.asm.decode import decode
from coasm.codeobject import CodeObject, load
from coasm.codeobject.elf import Elf
from coasm.codeobject.layout import change_file_header
from coasm.errors import UnsupportedError
from coasm.isa.flow import is_direct
from coasm.isa.renamed import CACHES, renamed
from coasm.isa.table import opcode
from coasm.isa.text import without_encoding
from coasm.llvm import Llvm
from coasm.llvm.run import assemble
from coasm.target import Processor, TargetID

__all__ = ["Encoded", "encoded", "retargeted", "translated"]

#: How often it is tried: LLVM finds some errors only where there are no others.
_ROUNDS = 4
_MESSAGE = re.compile(r"<stdin>:(\d+):\d+: error: (.*)")
_VECTOR_MEMORY = ("buffer", "tbuffer", "global", "flat", "scratch")


@dataclass(frozen=True)
class Encoded:
    """An object for another target.

    ``refused`` is why an instruction is none of the target's, by its address; ``other`` are those
    that are the same in other bytes. ``code`` and ``new_code`` are what both were decoded to.
    """

    co: CodeObject
    code: Mapping[int, Code]
    new_code: Mapping[int, Code]
    refused: Mapping[int, str]
    other: tuple[int, ...]


def retargeted(co: CodeObject, processor: Processor) -> CodeObject:
    """The same bytes, but for the target that header and metadata name.

    Raises:
        UnsupportedError: the name would take another number of bytes.
    """
    old = co.target
    new = TargetID(
        processor,
        old.xnack if processor.xnack else "",
        old.sramecc if processor.sramecc else "",
    )
    data = bytearray(co.data)
    change_file_header(data, flags=new.e_flags(co.elf.header.abi_version))
    note = co.metadata_note
    said = co.metadata.get("amdhsa.target") if note is not None else None
    if not isinstance(said, str) or note is None:
        return load(bytes(data), name=co.name)
    head, _, name = said.rpartition("--")
    before, after = (f"{head}--{text}".encode() for text in (name, str(new)))
    at = data.find(note) + note.find(before)
    data[at : at + len(before)] = after
    fits = len(before) == len(after) and name == str(old)
    made = load(bytes(data), name=co.name) if fits else None
    if made is None or made.metadata != {**co.metadata, "amdhsa.target": after.decode()}:
        raise UnsupportedError(
            f"{co.name}: its metadata names {name}, in whose place {new} cannot stand"
        )
    return made


def translated(text: str, instructions: str, to: str) -> str:
    """The text of an instruction of one instruction set as LLVM prints it for another."""
    mnemonic, space, rest = text.partition(" ")
    bare = without_encoding(mnemonic)
    name = renamed(bare, to) + mnemonic[len(bare) :]
    row = opcode(bare, instructions)
    if row is not None and row.unit in _VECTOR_MEMORY:
        names = _caches(instructions, to)
        rest = " ".join(names.get(word, word) for word in rest.split(" "))
    return f"{name}{space}{rest}"


def _caches(instructions: str, to: str) -> Mapping[str, str]:
    """How the modifiers of vector memory are called, from one instruction set to another."""
    scoped = [opcode("buffer_inv", one) is not None for one in (instructions, to)]
    if scoped[0] == scoped[1]:
        return {}
    return CACHES if scoped[1] else {new: old for old, new in CACHES.items()}


def encoded(co: CodeObject, processor: Processor, llvm: Llvm) -> Encoded:
    """The object for another processor.

    Raises:
        CoasmError: it cannot be disassembled, or its target cannot be named.
    """
    new = retargeted(co, processor)
    code, there = decode(co, llvm), decode(new, llvm)
    sets = co.target.processor.family.instructions, processor.family.instructions
    wanted = {item.address: (item, translated(item.text, *sets)) for item in _instructions(code)}
    found = {item.address: item for item in _instructions(there)}
    unlike = {
        address: (item, text)
        for address, (item, text) in wanted.items()
        if address not in found or not _is(found[address], item, text)
    }
    changed: dict[int, bytes] = {}
    refused: dict[int, str] = {}
    if unlike:
        changed, refused = _written(unlike, new.target, co.code_object_version, llvm)
        data = bytearray(new.data)
        for address, other in changed.items():
            at = _file_offset(co, address)
            data[at : at + len(other)] = other
        new = load(bytes(data), name=co.name)
        there = decode(new, llvm)
    known = refused.keys() | changed.keys()
    refused |= _unproven({a: one for a, one in wanted.items() if a not in known}, there)
    other_bytes = (a for a, data in changed.items() if data != wanted[a][0].data)
    return Encoded(new, code, there, dict(sorted(refused.items())), tuple(sorted(other_bytes)))


_Wanted = Mapping[int, tuple[Instruction, str]]


def _written(
    unlike: _Wanted, target: TargetID, version: int, llvm: Llvm
) -> tuple[dict[int, bytes], dict[int, str]]:
    """The bytes that LLVM's assembler writes of instructions, or why it does not."""
    changed: dict[int, bytes] = {}
    refused: dict[int, str] = {}
    texts = {text: None for item, text in unlike.values() if not is_direct(item.mnemonic)}
    made, said = _assembled(texts, target, version, llvm)
    for address, (item, text) in unlike.items():
        other = item.data if is_direct(item.mnemonic) else made.get(text)
        if other is None:
            refused[address] = said.get(text, "LLVM does not assemble it")
        elif len(other) != len(item.data):
            refused[address] = f"takes {len(other)} bytes instead of {len(item.data)}"
        else:
            changed[address] = other
    return changed, refused


def _instructions(code: Mapping[int, Code]) -> Iterable[Instruction]:
    return (item for own in code.values() for item in own if isinstance(item, Instruction))


def _is(found: Instruction, item: Instruction, text: str) -> bool:
    """Whether *found* is *item*, *text* there: of a branch the name of the label may differ."""
    if is_direct(item.mnemonic):
        return found.data == item.data and found.mnemonic == item.mnemonic
    return found.text == text and len(found.data) == len(item.data)


def _unproven(wanted: _Wanted, there: Mapping[int, Code]) -> dict[int, str]:
    """The instructions that the new object does not have where they were."""
    found = {item.address: item for item in _instructions(there)}
    problems = {}
    for address, (item, text) in wanted.items():
        other = found.get(address)
        if other is None or not _is(other, item, text):
            reads = "nothing" if other is None else other.text
            problems[address] = f"its encoding reads as {reads}"
    return problems


def _file_offset(co: CodeObject, address: int) -> int:
    section = co.section_at(address)
    assert section is not None
    return section.offset + address - section.addr


def _assembled(
    texts: Iterable[str], target: TargetID, version: int, llvm: Llvm
) -> tuple[dict[str, bytes], dict[str, str]]:
    """Each instruction's bytes, and what LLVM says of those that it refuses."""
    todo = list(texts)
    said: dict[str, str] = {}
    features = ",".join(target.features)
    for _ in range(_ROUNDS):
        lines = [f"coasm_{at}: {text}" for at, text in enumerate(todo)]
        source = "\n".join([*lines, "coasm_end:", ""])
        made = assemble(llvm, source.encode(), target, max(version, 4), features)
        if made.data is not None:
            return _split(todo, Elf(made.data, "the instructions")), said
        for line, message in _MESSAGE.findall(made.messages):
            said.setdefault(todo[int(line) - 1], message)
        todo = [text for text in todo if text not in said]
    return {}, said


def _split(texts: list[str], elf: Elf) -> dict[str, bytes]:
    places = {symbol.name: symbol.value for symbol in elf.symbols}
    data = next(section.data for section in elf.sections if section.name == ".text")
    stops = [places[f"coasm_{at}"] for at in range(len(texts))] + [places["coasm_end"]]
    return {text: data[stops[at] : stops[at + 1]] for at, text in enumerate(texts)}
