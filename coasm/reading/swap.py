"""Whether two instructions of a block may change places: registers, memory, waits, wait states.

The first comes to where the second is and the other way round; what stands between stays where it
is. Nothing may depend on their order: no register that one writes and the other uses, no memory
that both use and one writes, no wait that would cover others than before. What the order is worth
for waits and wait states is asked of lint: in the new order it must find nothing that it does not
find in the old one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

from coasm.asm.code import Code
from coasm.asm.code import Instruction as Decoded
from coasm.codeobject import CodeObject
from coasm.errors import UnsupportedError
from coasm.isa.flow import flow_of
from coasm.isa.kinds import class_of, is_a
from coasm.isa.table import Opcode, opcode
from coasm.isa.waits import counters_used
from coasm.linter.findings import Finding
from coasm.linter.program import Program, build_program
from coasm.linter.states import check_states
from coasm.linter.waits import check_waits
from coasm.reading.cfg import Cfg
from coasm.reading.instruction import Instruction, accesses, parsed_halves, registers_of
from coasm.target import counters_of

__all__ = ["Order", "Swap", "may_swap"]

#: Registers that a reason lists.
_SHOWN = 4
_WRITES_MEMORY = ("store", "atomic", "to_lds", "from_lds", "cache")


class Swap(NamedTuple):
    """The answer, which is true or false as ``allowed`` is; *reasons* says why not, a line each."""

    allowed: bool
    reasons: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.allowed


class Order:
    """A kernel in the order that it has: as lint walks it, and what lint finds there.

    *span*: which of the object's instructions are the kernel's own. *references*: the addresses of
    those that are part of an address relative to themselves.
    """

    def __init__(
        self,
        co: CodeObject,
        code: Mapping[int, Code],
        kernel: str,
        cfg: Cfg,
        span: tuple[int, int],
        references: Collection[int],
    ) -> None:
        self.program = build_program(co, code, kernel=kernel)
        self.cfg = cfg
        self.first, self._last = span
        self.references = references
        self.instruction_set = co.target.processor.family.instructions

    @cached_property
    def own(self) -> Sequence[Decoded]:
        """The kernel's own instructions."""
        return self.program.instructions[self.first : self._last]

    @cached_property
    def known(self) -> dict[tuple[object, ...], int | None]:
        """What tells each finding from others → how many states or operations it has."""
        every = range(len(self.program.instructions))
        return {key: has for key, has, _ in _found(self.program, every)}


def may_swap(order: Order, first: Instruction, second: Instruction) -> Swap:
    """See :meth:`coasm.reading.objects.Kernel.may_swap`."""
    low, high = sorted((first, second), key=lambda one: one.index)
    if low.index == high.index:
        return Swap(False, ("they are the same instruction",))
    reasons = list(_between(order, low.index, high.index))
    if not reasons:
        reasons = list(_in_new_order(order, low.index, high.index))
    return Swap(not reasons, tuple(reasons))


def _between(order: Order, low: int, high: int) -> Iterator[str]:
    """What ties the two to each other, or to what stands between them."""
    if order.cfg.block_of(low).number != order.cfg.block_of(high).number:
        yield "they are in different blocks: what stands between is entered or left on other ways"
        return
    code = order.own[low : high + 1]
    uses = [_Use(item, order.instruction_set) for item in code]
    for one in (uses[0], uses[-1]):
        reason = one.stays(order.references)
        if reason is not None:
            yield f"{_said(one)} {reason}"
            return
    stores = _Stores(order)
    done = set()
    for one, other in (
        *((uses[0], use) for use in uses[1:]),
        *((use, uses[-1]) for use in uses[1:-1]),
    ):
        for reason in _tied(one, other, stores):
            if reason not in done:
                done.add(reason)
                yield reason


def _said(use: _Use) -> str:
    return f"{use.item.text} at {use.item.address:#x}"


class _Use:
    """One instruction and what it uses."""

    def __init__(self, item: Decoded, instructions: str) -> None:
        self.item = item
        self.access = accesses(item, instructions)
        self.parsed = parsed_halves(item.text)[0]
        row = opcode(self.parsed.mnemonic, instructions)
        if row is None:
            raise UnsupportedError(f"{item.address:#x}: {item.text} is not described")
        self.row: Opcode = row
        self.counters = counters_used(
            row,
            counters_of(instructions),
            returns=bool(self.access.writes),
            gds="gds" in self.parsed.modifiers,
        )

    def stays(self, references: Collection[int]) -> str | None:
        """Why the instruction cannot be moved at all."""
        name = self.parsed.mnemonic
        if flow_of(name) is not None:
            return "decides where execution goes on"
        if is_a(name, "reads PC") or self.item.address in references:
            return "is part of an address that is relative to where it stands"
        if class_of(name) == "other" or any(
            is_a(name, kind) for kind in ("setreg", "getreg", "relative register")
        ):
            return "changes or reads how instructions around it are executed"
        if class_of(name) == "wait/barrier" and not (
            is_a(name, "counter wait") or is_a(name, "barrier") or is_a(name, "nop")
        ):
            return "is for those that stand behind it"
        return None

    @property
    def spaces(self) -> frozenset[str]:
        """The memories that it reads or writes."""
        if self.row.unit == "lds":
            return frozenset() if is_a(self.parsed.mnemonic, "no LDS") else frozenset({"LDS"})
        if self.row.does == "cache" or is_a(self.parsed.mnemonic, "scalar cache"):
            return frozenset({"LDS", "memory"})
        if self.row.unit == "flat" or self.moves_to_lds:
            return frozenset({"LDS", "memory"})
        return frozenset({"memory"}) if self.counters else frozenset()

    @property
    def moves_to_lds(self) -> bool:
        return "lds" in self.parsed.modifiers or self.row.does in ("to_lds", "from_lds")

    @property
    def changes(self) -> bool:
        """Whether it writes memory or LDS, or what caches hold."""
        name = self.parsed.mnemonic
        if self.row.unit == "lds":
            return not is_a(name, "only a result of LDS")
        if self.row.unit == "smem" and self.row.does != "cache":
            return not (self.access.writes or is_a(name, "scalar load"))
        return self.moves_to_lds or self.row.does in _WRITES_MEMORY


class _Stores:
    """Whether anything in the kernel that counts in one of some counters writes memory or LDS."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._known: dict[tuple[str, ...], bool] = {}

    def __contains__(self, counters: tuple[str, ...]) -> bool:
        if counters not in self._known:
            names = {item.text: item for item in self._order.own}
            uses = (_Use(item, self._order.instruction_set) for item in names.values())
            self._known[counters] = any(
                use.changes for use in uses if not set(use.counters).isdisjoint(counters)
            )
        return self._known[counters]


def _tied(one: _Use, other: _Use, stores: _Stores) -> Iterator[str]:
    """Why *other*, which comes behind *one*, may not come before it."""
    for numbers, says in (
        (one.access.writes & other.access.reads, "is written by {0} and read by {1}"),
        (one.access.reads & other.access.writes, "is read by {0} and overwritten by {1}"),
        (one.access.writes & other.access.writes, "is written by {0} and by {1}"),
    ):
        if numbers:
            names = registers_of(numbers)
            listed = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
            yield f"{listed} {says.format(_said(one), _said(other))}"
            return
    shared = one.spaces & other.spaces
    if shared and (one.changes or other.changes):
        yield f"{_said(one)} and {_said(other)} both use {' and '.join(sorted(shared))}"
    for barrier, access in ((one, other), (other, one)):
        if is_a(barrier.parsed.mnemonic, "barrier") and (access.counters or _waits(access)):
            yield f"{_said(access)} and the barrier {_said(barrier)} keep their order"
        elif _waits(barrier) and access.counters and (access.changes or access.counters in stores):
            yield (
                f"{_said(access)} and the wait {_said(barrier)}: what is waited for is memory, "
                "which others may read or write"
            )


def _waits(use: _Use) -> bool:
    return is_a(use.parsed.mnemonic, "counter wait")


def _in_new_order(order: Order, low: int, high: int) -> Iterator[str]:
    """What lint finds in the new order that it does not find in the old one."""
    program = order.program
    if program.family.counters is None:
        yield f"no rules for wait states and waits of {program.co.target.name}"
        return
    items, origin = _in_each_others_place(
        program.instructions, order.first + low, order.first + high
    )
    changed = replace(program, graph=replace(program.graph, instructions=items))
    for key, has, finding in _found(changed, origin):
        before = order.known.get(key)
        if key not in order.known or (has is not None and before is not None and has < before):
            yield f"{finding.rule}: {finding.what} ({finding.place.text})"


def _in_each_others_place(
    items: Sequence[Decoded], low: int, high: int
) -> tuple[list[Decoded], Sequence[int]]:
    """The instructions with two of them in each other's place, and where each of them was."""
    found = list(items)
    origin = list(range(len(found)))
    found[low], found[high] = found[high], found[low]
    origin[low], origin[high] = high, low
    address = items[low].address
    for at in range(low, high + 1):
        found[at] = found[at]._replace(address=address)
        address += found[at].size
    return found, origin


def _found(
    program: Program, origin: Sequence[int]
) -> Iterator[tuple[tuple[object, ...], int | None, Finding]]:
    """The findings about waits and wait states, told from each other by *origin*."""
    at = {item.address: origin[index] for index, item in enumerate(program.instructions)}
    for finding in (*check_states(program), *check_waits(program)):
        producer = finding.producer and at.get(finding.producer.address)
        yield (
            (finding.rule, finding.level, at.get(finding.place.address), producer),
            finding.has,
            finding,
        )
