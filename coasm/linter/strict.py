"""Advice on what costs time: waits for more than any use needs; runs that XNACK cannot replay.

A wait is too strict where the results that it alone waits for are neither read nor overwritten
before the next wait covers them, on every way on. What a wait orders beside registers (stores, LDS
that is written or read, atomics, other waves behind a barrier) is not judged. Source: hazard and
counter rules as in :mod:`coasm.linter.waits`; LLVM's checkSoftClauseHazards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from coasm.counters import Counters, Waits
from coasm.flow.cfg import Block
from coasm.flow.forward import forward
from coasm.isa.flow import flow_of
from coasm.isa.kinds import is_a
from coasm.isa.table import opcode
from coasm.isa.waits import counted_as, strictest, wait_texts, waits_of
from coasm.linter.findings import Finding, Fix
from coasm.linter.operation import EXEC_BITS, M0_BIT, SGPRS, VGPRS, Operation, kind, named
from coasm.linter.program import Program
from coasm.linter.rules import RULES

__all__ = ["check_strict"]

#: Kinds of operations on LDS that may do more than give a result.
_OF_LDS = ("lds", "gds")
_REGISTERS = VGPRS | SGPRS | M0_BIT | EXEC_BITS
_LDS_DMA, _VMEM, _SMEM = kind("lds_dma"), kind("vmem"), kind("smem")
#: Where other waves, or who comes after this one, may depend on what has ended.
_ORDERS = kind("barrier cache message")
#: What may be out where a function begins or a call comes back.
_UNKNOWN = -1
#: Instructions behind a wait that are looked at for a use, on all ways together.
_LOOKS = 2000

#: Operation → how many of each counter came after it, at least (None: it does not count, or is in).
_State = dict[int, Waits]


class _Facts(NamedTuple):
    """Of each operation: its kind, the orders it ends in, its result, what it waits for.

    ``ordering``: the operations that do more than give a result.
    """

    counters: Counters
    kinds: Sequence[str]
    orders: Sequence[Waits]
    results: Sequence[int]
    waits: dict[int, Waits]
    ordering: frozenset[int]

    def most(self, counter: int) -> int:
        """What no count reaches that is waited for."""
        return self.counters.most[counter] + 1

    def in_order(self, index: int) -> bool:
        return -1 not in self.orders[index]


def check_strict(program: Program) -> list[Finding]:
    """Findings of ``wait-strict`` and ``soft-clause``, all of them advice."""
    counters = program.family.counters
    if counters is None:
        return sorted(_clauses(program), key=lambda f: f.place.address)
    facts = _facts(program, counters)
    entries = forward(
        program.graph.follows,
        _entries(program, counters),
        lambda number, entry: _leaving(facts, program.blocks[number], entry),
        _merge,
    )
    found: list[Finding] = []
    for number in sorted(program.reached):
        state = dict(entries[number])
        block = program.blocks[number]
        for index in range(block.first, block.last):
            if index in facts.waits:
                found += _judge(program, facts, number, index, state)
            _step(facts, index, state)
    return sorted([*found, *_clauses(program)], key=lambda f: f.place.address)


def _facts(program: Program, counters: Counters) -> _Facts:
    operations = program.operations
    kinds = [_kind(operation, program.family.instructions, counters) for operation in operations]
    ordering = {
        index
        for index, operation in enumerate(operations)
        if kinds[index]
        and (
            not operation.writes & _REGISTERS
            or is_a(operation.base, "atomic")
            or (kinds[index] in _OF_LDS and not is_a(operation.base, "only a result of LDS"))
        )
    }
    waits = {
        index: found
        for index, item in enumerate(program.instructions)
        if (found := waits_of(item.mnemonic, item.data, counters)) is not None
    }
    orders = [counters.orders[kind].of if kind else counters.none for kind in kinds]
    results = [operation.writes & _REGISTERS for operation in operations]
    return _Facts(counters, kinds, orders, results, waits, frozenset(ordering))


def _kind(operation: Operation, instructions: str, counters: Counters) -> str:
    """The kind of operation that counts by every reading."""
    described = opcode(operation.base, instructions)
    assert described is not None  # else there is no operation
    returns = bool(operation.writes & _REGISTERS)
    kind = counted_as(described, returns=returns, gds="gds" in operation.modifiers)
    return kind if kind in counters.kinds and kind not in counters.disputed else ""


def _entries(program: Program, counters: Counters) -> dict[int, _State]:
    """What may be out where each block begins, before anything of the program has run."""
    kernels = {kernel.name for kernel in program.kernels}
    follow = {following for block in program.blocks for following in block.follows}
    entries: dict[int, _State] = {}
    for number in program.reached:
        starts_clean = program.entries.get(number) in kernels
        begins = not starts_clean and (number not in follow or number in program.entries)
        unknown = program.blocks[number].resumes or begins
        entries[number] = {_UNKNOWN: (0,) * len(counters.bits)} if unknown else {}
    return entries


def _merge(known: _State, new: _State) -> _State:
    merged = known
    for index, counts in new.items():
        before = known.get(index)
        after = counts if before is None else strictest(before, counts)
        if after != before:
            if merged is known:
                merged = dict(known)
            merged[index] = after
    return merged


def _leaving(facts: _Facts, block: Block, entry: _State) -> _State:
    state = dict(entry)
    for index in range(block.first, block.last):
        _step(facts, index, state)
    return state


def _step(facts: _Facts, index: int, state: _State) -> None:
    """What is out behind operation *index*."""
    orders = facts.orders[index]
    if facts.kinds[index]:
        for other, counts in state.items():
            state[other] = tuple(
                n if n is None or order is None else min(n + 1, facts.most(at))
                for at, (n, order) in enumerate(zip(counts, orders, strict=True))
            )
        state[index] = tuple(None if order is None else 0 for order in orders)
    waits = facts.waits.get(index)
    if waits is None:
        return
    for counter, count in enumerate(waits):
        for other in _covered(facts, counter, count, state):
            counts = state[other]
            state[other] = (*counts[:counter], None, *counts[counter + 1 :])
    for other in [other for other, counts in state.items() if counts == facts.counters.none]:
        del state[other]


def _unordered(facts: _Facts, counter: int, state: _State) -> bool:
    """Whether something is out that may end before what was issued before it."""
    orders = {
        -1 if index == _UNKNOWN else facts.orders[index][counter]
        for index, counts in state.items()
        if counts[counter] is not None
    }
    return len(orders) > 1 or -1 in orders


def _covered(facts: _Facts, counter: int, count: int | None, state: _State) -> dict[int, int]:
    """What a wait for *count* covers: operation → how many came after it."""
    if count is None or (count and _unordered(facts, counter, state)):
        return {}
    return {
        index: after
        for index, counts in state.items()
        if (after := counts[counter]) is not None and after >= count
    }


def _judge(
    program: Program, facts: _Facts, number: int, index: int, state: _State
) -> Iterator[Finding]:
    """The finding at the wait *index* of block *number*, if it is too strict."""
    waits = facts.waits[index]
    enough: list[int | None] = list(waits)
    first: tuple[int, int | None, int] | None = None
    for counter, count in enumerate(waits):
        covered = _covered(facts, counter, count, state)
        if count is None or not covered:
            continue
        unordered = _unordered(facts, counter, state)
        would_do = _would_do(program, facts, number, index, counter, covered, unordered)
        if would_do == count:
            continue
        enough[counter] = would_do
        youngest = min(covered, key=lambda one: covered[one])
        first = first or (count, would_do, youngest)
    if first is None:
        return
    parts = [
        f"{name} {f'could be {now}' if now is not None else 'needs no wait'}"
        for name, was, now in zip(facts.counters.names, waits, enough, strict=True)
        if was != now
    ]
    kept = ", ".join(wait_texts(tuple(enough), facts.counters))
    finding = RULES["wait-strict"].finding(
        "weaker" if kept else "none",
        program.name_at(index),
        program.place(index),
        counters=", ".join(parts),
        enough=kept,
    )
    yield finding._replace(producer=program.place(first[2]), has=first[0], needs=first[1])


def _would_do(
    program: Program,
    facts: _Facts,
    number: int,
    index: int,
    counter: int,
    covered: dict[int, int],
    unordered: bool,
) -> int | None:
    """The highest count that covers what is used, of all that the wait *index* covers.

    None: nothing of it is used before the next wait.
    """
    needed = [after for one, after in covered.items() if one == _UNKNOWN or one in facts.ordering]
    lowest = min(covered.values())
    pending = frozenset(one for one in covered if one != _UNKNOWN and one not in facts.ordering)
    block = program.blocks[number]
    todo = [(number, index + 1, 0, pending)]
    seen = set()
    looks = _LOOKS
    while todo and not (needed and (unordered or min(needed) == lowest)):
        number, at, issued, pending = todo.pop()
        block = program.blocks[number]
        while pending and at < block.last:
            used, pending, more = _meet(
                program.operations, facts, at, counter, covered, pending, issued
            )
            needed += [covered[one] for one in used]
            issued += more
            looks -= 1
            at += 1
        if not pending:
            continue
        if looks < 0 or not block.follows:
            needed += [covered[one] for one in pending]
            continue
        for following in block.follows:
            then = following, program.blocks[following].first, issued, pending
            if then not in seen:
                seen.add(then)
                todo.append(then)
    if not needed:
        return None
    return 0 if unordered else min(min(needed), facts.most(counter) - 1)


def _meet(
    operations: Sequence[Operation],
    facts: _Facts,
    index: int,
    counter: int,
    covered: dict[int, int],
    pending: frozenset[int],
    issued: int,
) -> tuple[frozenset[int], frozenset[int], int]:
    """What of *pending* operation *index* uses, what is still pending, how many it issues."""
    operation = operations[index]
    if (
        operation.kinds & _ORDERS
        or is_a(operation.base, "atomic")
        or _leaves_program(operation.base)
    ):
        return pending, frozenset(), 0
    waits = facts.waits.get(index)
    if waits is not None and (count := waits[counter]) is not None:
        ended = {
            one
            for one in pending
            if not count or (covered[one] + issued >= count and facts.in_order(one))
        }
        return frozenset(), pending - ended, 0
    kind = facts.kinds[index]
    touched = operation.reads | operation.writes
    used = set()
    replaced = set()
    for one in pending:
        result, own = facts.results[one], facts.kinds[one]
        if own in _OF_LDS and operation.kinds & _LDS_DMA:
            used.add(one)  # what is read is about to be overwritten
        elif result & touched:
            if own != kind or not facts.in_order(one) or result & operation.reads:
                used.add(one)
            elif not result & ~operation.writes:
                replaced.add(one)
    return frozenset(used), pending - used - replaced, int(facts.orders[index][counter] is not None)


def _leaves_program(mnemonic: str) -> bool:
    """Whether something comes next that is not followed here."""
    flow = flow_of(mnemonic)
    return flow is not None and flow.sort != "branch"


def _clauses(program: Program) -> Iterator[Finding]:
    """Where an instruction does not fit the run of its kind that is replayed as one."""
    if program.co.target.xnack not in ("on", "any"):
        return
    for number in sorted(program.reached):
        block = program.blocks[number]
        run: list[int] = []
        reads = writes = sort = 0
        for index in range(block.first, block.last):
            operation = program.operations[index]
            own = operation.kinds & (_VMEM | _SMEM)
            if not own or own != sort:
                run, reads, writes, sort = [], 0, 0, own
            if not own:
                continue
            read, written = operation.reads & _REGISTERS, operation.writes & _REGISTERS
            clash = (written & (reads | read)) | (read & writes)
            stores = not written and bool(writes)
            if run and writes | written and (clash or stores):
                finding = RULES["soft-clause"].finding(
                    "registers" if clash else "store",
                    program.name_at(index),
                    program.place(index),
                    registers=named(clash),
                )
                producer = program.place(run[-1])
                yield finding._replace(producer=producer, has=0, needs=1, fix=Fix(states=1))
                run, reads, writes = [], 0, 0
            run.append(index)
            reads |= read
            writes |= written
