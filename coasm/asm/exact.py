"""Finds the listing that assembles to the same bytes, by assembling what it wrote.

Each round writes the whole listing, assembles it as ``coasm asm`` would, and compares every
section, every symbol and every instruction with the original. What came out differently is a fact:
the next round pins it, spells it differently, or writes it as data. The object of the last round,
made from the very text that is handed out, is kept: a round trip links it.
"""

from __future__ import annotations

from typing import NamedTuple

from coasm.asm.build import Declared, assemble_listing
from coasm.asm.code import Code, Instruction
from coasm.asm.content import Content
from coasm.asm.decode import decode, features
from coasm.asm.follow import marked
from coasm.asm.halves import leaves_unsaid, without_halves
from coasm.asm.head import Head, head_lines
from coasm.asm.knowledge import Knowledge, ask, predict
from coasm.asm.learn import Attempt, Subject, drop_idle_pins, learn_differences, learn_refusals
from coasm.asm.linking import NO_PADDING, linking_of
from coasm.asm.listing import render
from coasm.asm.references import find_references
from coasm.codeobject import CodeObject
from coasm.errors import UnsupportedError
from coasm.llvm import Llvm
from coasm.llvm.run import TRUE16, Dump, clang_command, has_true16

__all__ = ["Exact", "exact_listing", "source_lines_of"]

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
    doubtful = any(section_code.undecoded for section_code in halves.values())
    code = decode(co, llvm) if doubtful else without_halves(co, llvm, halves)
    if code is not None and not (doubtful and leaves_unsaid(code)):
        listed = _exact(co, llvm, code, output, whole=True)
        if listed is not None:
            return listed
    other = _settled(co, llvm, halves, output, (TRUE16,))
    if not doubtful or code is None:
        return other
    listed = _settled(co, llvm, code, output)
    return other if other.raw <= listed.raw else listed


def _settled(
    co: CodeObject,
    llvm: Llvm,
    code: dict[int, Code],
    output: str,
    extra: tuple[str, ...] = (),
) -> Exact:
    listed = _exact(co, llvm, code, output, extra)
    assert listed is not None
    return listed


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
    version = max(co.code_object_version, 4)
    what = Declared(co.target, version, (*(f for f in features(co) if "wavefront" in f), *extra))
    subject = Subject(_content(co, code, version), what, llvm)
    known = Knowledge()
    predict(co, code, known)
    ask(co, code, known, what, llvm)
    linking = linking_of(co.elf)
    head = Head(_digest(co.data), what.features, linking, _commands(output, what, linking, llvm))
    if whole and known.raw:
        return None
    for _ in range(_ROUNDS):
        warnings = _warnings(subject.content, known)
        listing = render(subject.content, known, head_lines(co, head, warnings))
        built = assemble_listing(listing.text, what, llvm)
        attempt = Attempt(listing, built)
        if built.object is None or built.plain is None:
            learn_refusals(subject, attempt, known)
            if whole and known.raw:
                return None
            continue
        if learn_differences(subject, attempt, known):
            continue
        if not drop_idle_pins(attempt, known):
            return Exact(
                listing.text,
                built.object,
                listing.instruction_count + listing.raw_count,
                listing.raw_count,
                len(known.pins),
                warnings,
                sum(len(section_code.undecoded) for section_code in code.values()),
            )
    raise UnsupportedError(f"{co.name}: no listing was found that assembles to the same bytes")


def _content(co: CodeObject, code: dict[int, Code], version: int) -> Content:
    """What the listing of *co* is made of, for that code object version."""
    from coasm.descriptor import directives as to_directives
    from coasm.notes.yaml import to_yaml

    directives = {
        k.symbol: to_directives(
            k.descriptor, co.target, code_object_version=version, kernel=k.metadata
        )
        for k in co.kernels
    }
    yaml = to_yaml(co.metadata_note, co.metadata) if co.metadata_note is not None else None
    if yaml is not None:
        yaml = marked(yaml, directives, co.target)
    remarks = {
        item.address: item.registers
        for section_code in code.values()
        for item in section_code.others.values()
        if isinstance(item, Instruction) and item.registers
    }
    for address, line in source_lines_of(co).items():
        remarks[address] = f"{remarks[address]}, {line}" if address in remarks else line
    return Content(co, code, yaml, directives, remarks, find_references(co, code))


def source_lines_of(co: CodeObject) -> dict[int, str]:
    """Address → the line of its source, of an object with debug information."""
    sections = {s.name: s.data for s in co.sections if not s.alloc}
    if not sections.get(".debug_line"):
        return {}
    from coasm.asm.lines import source_lines

    line_strings = sections.get(".debug_line_str", b"")
    return source_lines(sections[".debug_line"], line_strings, sections.get(".debug_str", b""))


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
    assembling = f"coasm asm {source} -o {result}"
    if not llvm.knows(what.target.name):
        return assembling, None  # clang takes a relative's name alone, and would write that
    return (
        assembling,
        clang_command(
            source,
            result,
            what.target,
            what.code_object_version,
            (*what.features, *(f"-Wl,{o}" for o in linking if o != NO_PADDING)),
        ),
    )


def _warnings(content: Content, known: Knowledge) -> tuple[str, ...]:
    """The places where a distance stays a number in the code."""
    numeric = set(content.references.numeric)
    numeric |= {a for a, r in content.references.code.items() if r.anchor in known.numeric}
    found = []
    if numeric:
        for index, items in content.code.items():
            section = content.co.sections[index]
            for item in items:
                if item.address in numeric and isinstance(item, Instruction):
                    place = f"{section.name}+{item.address - section.addr:#x}"
                    found.append(f"{item.text} at {place}")
    return tuple(found)
