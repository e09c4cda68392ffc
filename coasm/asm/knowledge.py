"""What is known of one object's listing: by rules beforehand, and from what LLVM made of it."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field

from coasm.asm.build import Declared, assemble_listing
from coasm.asm.code import Code, Instruction
from coasm.asm.quirks import dont_care_rows, doubtful, dropped, has_respellings, respell
from coasm.codeobject import CodeObject
from coasm.llvm import Llvm

__all__ = ["Knowledge", "ask", "errors_in", "predict", "remember"]


@dataclass
class Knowledge:
    """What assembling has shown so far about one object; keys are addresses but where said."""

    pins: dict[int, bytes] = field(default_factory=dict)  # what LLVM makes of the text instead
    spellings: dict[int, str] = field(default_factory=dict)  # text that LLVM takes instead
    raw: dict[int, str] = field(default_factory=dict)  # instructions that stay data, and why
    local_targets: set[int] = field(default_factory=set)  # branches that need a ``.L`` label
    numeric: set[int] = field(default_factory=set)  # anchors of references that stay numbers
    stand_ins: set[int] = field(default_factory=set)  # symbol indices
    data_descriptors: dict[str, str] = field(default_factory=dict)  # descriptor symbol → reason
    data_note: bool = False
    measured: bool = False  # whether encodings were read off by their old places already


#: Processor and mnemonic (there are so many) → bits that LLVM was seen to clear and to set, in this
#: process. What it leads to is a guess, and checked.
_SEEN: dict[tuple[str, str], tuple[int, int]] = {}


def predict(co: CodeObject, code: dict[int, Code], known: Knowledge) -> None:
    """Pins and spellings that are known beforehand; the first round checks each of them."""
    processor = co.target.processor
    for section_code in code.values():
        for mnemonic, positions in section_code.by_mnemonic.items():
            if not mnemonic:
                continue  # data
            masks = _SEEN.get((processor.name, mnemonic)) or dropped(processor, mnemonic)
            respelled = has_respellings(processor, mnemonic)
            quirks = [quirk for quirk in dont_care_rows(processor) if mnemonic in quirk.what]
            if not (any(masks) or respelled or quirks):
                continue
            for at in positions:
                address, data = section_code.address(at), section_code.bytes_at(at)
                clear, bits = masks
                spelling = respell(processor, section_code.texts[at]) if respelled else None
                if spelling is not None:
                    known.spellings[address] = spelling[0]
                    clear, bits = clear | spelling[1], bits & ~spelling[1]
                for quirk in quirks:
                    if quirk.apply(data) is not None:
                        bits |= quirk.bits
                word = int.from_bytes(data, "little")
                changed = (word & ~clear) | bits
                if changed != word:
                    known.pins[address] = changed.to_bytes(len(data), "little")


def ask(
    co: CodeObject, code: dict[int, Code], known: Knowledge, what: Declared, llvm: Llvm
) -> None:
    """Note which of the instructions that LLVM is likely to refuse it does refuse."""
    asked: dict[str, list[int]] = defaultdict(list)  # text → addresses
    for section_code in code.values():
        for mnemonic, positions in section_code.by_mnemonic.items():
            patterns = doubtful(co.target.processor, mnemonic)
            for at in positions if patterns else ():
                if any(pattern.match(section_code.texts[at]) for pattern in patterns):
                    asked[section_code.texts[at]].append(section_code.address(at))
    if not asked:
        return
    texts = list(asked)
    built = assemble_listing("\n".join([*texts, ""]), what, llvm)
    for line, message in errors_in(built.messages):
        for address in asked[texts[line]]:
            known.raw[address] = f"LLVM refuses it: {message}"


def remember(processor: str, item: Instruction, made: bytes) -> None:
    """Keep which bits LLVM dropped, as a first guess for the next object."""
    if len(made) != len(item.data):
        return
    old, new = int.from_bytes(item.data, "little"), int.from_bytes(made, "little")
    clear, bits = _SEEN.get((processor, item.mnemonic), (0, 0))
    clear, bits = clear | (old & ~new), bits | (new & ~old)
    _SEEN[processor, item.mnemonic] = (clear & ~bits, bits & ~clear)


def errors_in(messages: str) -> list[tuple[int, str]]:
    """(0-based line, text) of each error in the assembler's messages."""
    pattern = re.compile(r"^<stdin>:(\d+):\d+: error: (.*)$", re.M)
    return [(int(m[1]) - 1, m[2]) for m in pattern.finditer(messages)]
