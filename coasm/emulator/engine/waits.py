"""What waits complete: the writes to LDS that are done there, and registers that come too early.

Which memory operations are in flight when a block is entered decides that. It is worked out once
for each such state (:class:`~coasm.emulator.engine.blocks.Plan`) and costs nothing afterwards.
"""

from __future__ import annotations

from collections.abc import Callable

from coasm.counters import Counters, Waits
from coasm.emulator.engine.blocks import Block, Item, Plan, nothing, raiser, watch
from coasm.emulator.engine.flight import EMPTY, Flight, InFlight, registers_of
from coasm.emulator.engine.program import Program, register_list
from coasm.emulator.rows.values import Step
from coasm.emulator.state import spaces
from coasm.emulator.state.shared import Shared
from coasm.emulator.state.waves import Group

__all__ = ["land_ds", "land_vm", "plan_of"]

#: The counters of LDS; what others count goes there from memory.
_OF_LDS = ("lgkmcnt", "dscnt")


def plan_of(program: Program, shared: Shared, block: Block, before: InFlight) -> Plan:
    """What is done of *block* where *before* is in flight at its start."""
    return _Planner(program, shared, before).plan(block)


class _Planner:
    def __init__(self, program: Program, shared: Shared, before: InFlight) -> None:
        counters = shared.processor.family.counters
        assert counters is not None  # of every target that is emulated
        self.program, self.shared, self.counters = program, shared, counters
        self.state = before or ((),) * len(counters.bits)
        self.steps: list[Step] = []
        self.addresses: list[int] = []

    def add(self, step: Step, address: int) -> None:
        self.steps.append(step)
        self.addresses.append(address)

    def plan(self, block: Block) -> Plan:
        pending = registers_of(self.state)
        part = 0
        for item in block.items:
            if item.waits is not None:
                self._wait(item.waits, item.address)
                pending = registers_of(self.state)
                continue
            if item.mask & pending and (used := _unfinished(self.state, item, self.counters)):
                self.add(self._too_early(used), item.address)
                break
            if item.step is not nothing:
                self.add(item.step, item.address)
            if item.sets_exec:
                part += 1
                self.add(watch(block.awake, part), item.address)
            if item.flight is not None:
                self._issue(item.flight, item)
                pending |= item.flight.mask
        if block.end is not None:
            if block.end_mask & pending:
                self.add(self._too_early(block.end_mask), block.end)
            if block.control is not None and block.control.ends:
                self._finish(block.end)
        return Plan(self.steps, self.addresses, self.state)

    def _finish(self, address: int) -> None:
        """The waves end: so does all that they have in flight."""
        for counter, queue in zip(self.counters.names, self.state, strict=True):
            count = sum(flight.writes_lds for flight in queue)
            if count:
                self.add(_land(counter)(self.shared, count), address)
        self.state = EMPTY

    def _wait(self, waits: Waits, address: int) -> None:
        queues: list[tuple[Flight, ...]] = []
        for counter, queue, count in zip(self.counters.names, self.state, waits, strict=True):
            if count is None:
                queues.append(queue)
                continue
            done = max(0, sum(f.ordered for f in queue) - count)
            kept, written = [], 0
            for flight in queue:
                if flight.ordered and done:
                    done -= 1
                    written += flight.writes_lds
                elif flight.ordered or count:
                    kept.append(flight)
            if written:
                self.add(_land(counter)(self.shared, written), address)
            queues.append(tuple(kept))
        self.state = tuple(queues)

    def _issue(self, flight: Flight, item: Item) -> None:
        queues = list(self.state)
        for counter in self.counters.orders[item.queue].ends:
            queues[counter] = self._saturate((*queues[counter], flight), counter, item.address)
        self.state = tuple(queues)

    def _saturate(
        self, queue: tuple[Flight, ...], counter: int, address: int
    ) -> tuple[Flight, ...]:
        """The hardware holds an operation back while its counter is full: the oldest has ended.

        Which one that is of those that end in any order, nobody knows.
        """
        in_order = all(flight.ordered for flight in queue)
        most, land = self.counters.most[counter], _land(self.counters.names[counter])
        while len(queue) > most + 1 and (in_order or not queue[0].mask):
            if queue[0].writes_lds:
                self.add(land(self.shared, 1), address)
            queue = queue[1:]
        return queue

    def _too_early(self, mask: int) -> Step:
        """The fault of an instruction that names a register which an operation will still write."""
        for counter, queue in zip(self.counters.names, self.state, strict=True):
            for at, flight in enumerate(queue):
                if flight.mask & mask:
                    other = self.program.instructions[flight.address]
                    in_order = flight.ordered and all(f.ordered for f in queue)
                    needed = len(queue) - 1 - at if in_order else 0
                    place = self.program.place(flight.address)
                    return raiser(
                        f"{register_list(flight.mask & mask)} still waits for `{other.text}` at "
                        f"{place}; an s_waitcnt {counter}({needed}) must come before"
                    )
        return nothing


def _unfinished(state: InFlight, item: Item, counters: Counters) -> int:
    """The registers of *item* that wait for data which it must not come before.

    A load may write what an earlier one of its own counter still will: they end in order. A flat
    load counts among those from memory, as in LLVM (SIInsertWaitcnts: the same type of VMEM).
    """
    used = registers_of(state) & item.mask
    if item.flight is not None and item.flight.ordered:
        ends = counters.orders[item.queue].ends
        own = [flight for counter in ends for flight in state[counter]]
        other = tuple(f for queue in state for f in queue if f not in own)
        if item.queue == "lds":
            other += tuple(f for f in own if not f.ordered)
        used &= ~item.written | registers_of((other,))
    return used


def _land(counter: str) -> Callable[[Shared, int], Step]:
    """What ends where *counter* says that something has, of what goes to LDS."""
    return land_ds if counter in _OF_LDS else land_vm


def land_vm(shared: Shared, count: int) -> Step:
    """The oldest *count* loads to LDS have ended: their data is there."""

    def step(s: Group) -> None:
        for entry in s.vm_queue[:count]:
            spaces.apply(shared, s, entry)
            if shared.race is not None:
                shared.race.landed(s, entry)
        del s.vm_queue[:count]

    return step


def land_ds(shared: Shared, count: int) -> Step:
    """The oldest *count* writes to LDS have ended."""

    def step(s: Group) -> None:
        for entry in s.ds_queue[:count]:
            if not entry.applied:
                spaces.apply(shared, s, entry)
        del s.ds_queue[:count]

    return step
