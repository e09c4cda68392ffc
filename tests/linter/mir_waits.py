"""The waits that LLVM's ``si-insert-waitcnts`` puts into a program, and the program with them.

Programs are those of :mod:`tests.linter.mir`. A wait stands before an instruction, or at the end
of a block; instructions are counted without waits.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from coasm.linter.findings import Finding
from coasm.linter.program import Program
from coasm.linter.waits import check_waits
from coasm.llvm import Llvm
from tests.linter.mir import Blocks, Place, lintable, llc, machine_ir

__all__ = ["NO_WAIT", "Asked", "Spot", "Wait", "asked", "judge", "waited", "with_waits"]


class Wait(NamedTuple):
    """At most so many operations of each counter may be out; None: as many as there are."""

    vm: int | None
    lgkm: int | None

    @property
    def text(self) -> str:
        """The instruction, as LLVM prints it."""
        counts = (("vmcnt", self.vm), ("lgkmcnt", self.lgkm))
        return "s_waitcnt " + " ".join(f"{name}({n})" for name, n in counts if n is not None)

    def with_(self, other: Wait) -> Wait:
        """What waits for both."""
        both = zip(self, other, strict=True)
        return Wait(*(min((n for n in pair if n is not None), default=None) for pair in both))


NO_WAIT = Wait(None, None)
#: The block and the instruction in it; behind the last one: the end of the block.
Spot = tuple[int, int]


# --- LLVM's ---------------------------------------------------------------------------------------

#: Instructions whose machine IR has no destination although the first operand is taken for one.
_PLAIN = re.compile(r"^ *(?:(\S+) )?= ((?:S_DCACHE|BUFFER_INV|BUFFER_WBL2)\w*) ", re.M)
#: What LLVM asks of an access to LDS: whether it can be one that a load to LDS writes.
_LDS = re.compile(r"^( *(?:\$\w+ = )?DS_(?!BPERMUTE|PERMUTE|SWIZZLE)(\w+).*)$", re.M)
_DMA = re.compile(r"^( *(?:BUFFER_LOAD_\w*LDS|GLOBAL_LOAD_LDS|SCRATCH_LOAD_LDS)_?\w* .*)$", re.M)


def _entries(ir: str) -> str:
    """*ir*, its functions as entries: what others wait for at their start is no concern of ours."""
    return re.sub(
        r"^(name: f\d+)$", r"\1\nmachineFunctionInfo:\n  isEntryFunction: true", ir, flags=re.M
    )


def _accesses(ir: str) -> str:
    """*ir* with what LDS instructions access, which makes loads to LDS matter for them."""

    def lds(match: re.Match[str]) -> str:
        ways = "load" if match[2].startswith("READ") else "store"
        ways = "load store" if match[2].startswith("ADD") else ways
        return f"{match[1]} :: ({ways} (s32), addrspace 3)"

    ir = _LDS.sub(lds, ir)
    return _DMA.sub(r"\1 :: (load (s32), addrspace 1), (store (s32), addrspace 3)", ir)


def _wait(simm: int) -> Wait:
    """The counts in SIMM16 (hazards: the ISA guides' S_WAITCNT)."""
    vm, lgkm = simm & 15 | simm >> 14 << 4, simm >> 8 & 15
    return Wait(None if vm == 63 else vm, None if lgkm == 15 else lgkm)


def waited(
    programs: Sequence[Blocks], target: str, llvm: Llvm, *, lds: bool = False
) -> list[dict[Spot, Wait]]:
    """Of each program the waits that LLVM puts before its spots; of their own, what they become.

    *lds*: accesses to LDS may be to what a load to LDS writes.
    """
    ir = _PLAIN.sub(
        lambda m: f"    {m[2]} {m[1] + ', ' if m[1] else ''}", machine_ir(programs, target, llvm)
    )
    source = _entries(_accesses(ir) if lds else ir)
    made = llc(llvm, target, source, "-run-pass=si-insert-waitcnts")
    functions = re.findall(r"^name: +f\d+$.*?^body: +\|$(.*?)^\.\.\.$", made, re.M | re.S)
    assert len(functions) == len(programs)
    return [_inserted(*pair) for pair in zip(programs, functions, strict=True)]


def _inserted(program: Blocks, function: str) -> dict[Spot, Wait]:
    blocks = re.split(r"^  bb\.\d+.*:.*$", function, flags=re.M)[1:]
    found: dict[Spot, Wait] = {}
    for block, (texts, ir) in enumerate(zip([*program, ["s_endpgm"]], blocks, strict=True)):
        at = 0
        for line in ir.splitlines():
            line = line.strip()
            if not line or line.startswith((";", "successors:", "liveins:")):
                continue
            wait = re.fullmatch(r"S_WAITCNT (\d+)", line)
            if wait:
                spot = block, at
                found[spot] = found.get(spot, NO_WAIT).with_(_wait(int(wait[1])))
            else:
                at += 1
        assert at == sum(not text.startswith("s_waitcnt") for text in texts), (program, ir)
    return {spot: wait for spot, wait in found.items() if wait != NO_WAIT}


# --- ours -----------------------------------------------------------------------------------------


def with_waits(program: Blocks, waits: Mapping[Spot, Wait]) -> tuple[Blocks, dict[Spot, Spot]]:
    """The program with *waits*, and where its instructions came from."""
    made: list[list[str]] = []
    spots: dict[Spot, Spot] = {}
    for block, texts in enumerate(program):
        lines: list[str] = []
        for index, text in enumerate(texts):
            if waits.get((block, index), NO_WAIT) != NO_WAIT:
                lines.append(waits[block, index].text)
            spots[block, len(lines)] = block, index
            lines.append(text)
        if waits.get((block, len(texts)), NO_WAIT) != NO_WAIT:
            lines.append(waits[block, len(texts)].text)
        made.append(lines)
    return made, spots


class Asked(NamedTuple):
    """A finding of a program: where, by what rule, for what, and the wait that ends it."""

    spot: Spot
    rule: str
    level: str
    producer: str
    wait: Wait


def judge(
    programs: Sequence[tuple[Blocks, Mapping[Spot, Wait]]], target: str, llvm: Llvm
) -> list[list[Asked]]:
    """What the linter finds in each program, which has the waits beside it."""
    made = [with_waits(*pair) for pair in programs]
    program, places = lintable([blocks for blocks, _ in made], target, llvm)
    found: dict[int, list[Asked]] = defaultdict(list)
    at = {item.address: index for index, item in enumerate(program.instructions)}
    for finding in check_waits(program):
        number, *spot = _place(program, places, at[finding.place.address])
        found[number].append(_asked(finding, made[number][1][spot[0], spot[1]]))
    return [found[number] for number in range(len(programs))]


def _place(program: Program, places: Mapping[int, Place], index: int) -> Place:
    assert index in places, program.instructions[index].text
    return places[index]


def _asked(finding: Finding, spot: Spot) -> Asked:
    assert finding.producer is not None
    fix = finding.fix
    counts = dict(fix.waits) if fix else {}
    wait = Wait(counts.get("vmcnt"), counts.get("lgkmcnt"))
    return Asked(spot, finding.rule, finding.level, finding.producer.text, wait)


def asked(found: Iterable[Asked]) -> dict[Spot, Wait]:
    """The waits that end the findings of a program."""
    waits: dict[Spot, Wait] = {}
    for one in found:
        waits[one.spot] = waits.get(one.spot, NO_WAIT).with_(one.wait)
    return waits
