"""What waits complete: the writes to LDS that are done there, and registers that come too early.

Which memory operations are in flight when a block is entered decides that. It is worked out once
for each such state (:class:`~coasm.emulator.engine.blocks.Plan`) and costs nothing afterwards.
"""

from __future__ import annotations

from collections.abc import Callable

from coasm.emulator.engine.blocks import Block, Item, Plan, nothing, raiser, watch
from coasm.emulator.engine.flight import EMPTY, Flight, InFlight
from coasm.emulator.engine.program import Program, register_list
from coasm.emulator.rows.values import Step
from coasm.emulator.state import spaces
from coasm.emulator.state.shared import Shared
from coasm.emulator.state.waves import Group
from coasm.isa.waits import LGKM_MAX, VM_MAX, Waits

__all__ = ["land_ds", "land_vm", "plan_of"]


def plan_of(program: Program, shared: Shared, block: Block, before: InFlight) -> Plan:
    """What is done of *block* where *before* is in flight at its start."""
    return _Planner(program, shared, before).plan(block)


class _Planner:
    def __init__(self, program: Program, shared: Shared, before: InFlight) -> None:
        self.program, self.shared, self.state = program, shared, before
        self.steps: list[Step] = []
        self.addresses: list[int] = []

    def add(self, step: Step, address: int) -> None:
        self.steps.append(step)
        self.addresses.append(address)

    def plan(self, block: Block) -> Plan:
        pending = self.state.mask
        part = 0
        for item in block.items:
            if item.waits is not None:
                self._wait(item.waits, item.address)
                pending = self.state.mask
                continue
            if item.mask & pending and (used := _unfinished(self.state, item)):
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
        for queue, land in ((self.state.vm, land_vm), (self.state.lgkm, land_ds)):
            count = sum(flight.writes_lds for flight in queue)
            if count:
                self.add(land(self.shared, count), address)
        self.state = EMPTY

    def _wait(self, waits: Waits, address: int) -> None:
        queues: list[tuple[Flight, ...]] = []
        for queue, count, land in zip(self.state, waits, (land_vm, land_ds), strict=True):
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
                self.add(land(self.shared, written), address)
            queues.append(tuple(kept))
        self.state = InFlight(queues[0], queues[1])

    def _issue(self, flight: Flight, item: Item) -> None:
        vm, lgkm = self.state
        if item.queue in ("vm", "flat"):
            vm = self._saturate((*vm, flight), VM_MAX, land_vm, item.address)
        if item.queue in ("lds", "scalar", "flat"):
            lgkm = self._saturate((*lgkm, flight), LGKM_MAX, land_ds, item.address)
        self.state = InFlight(vm, lgkm)

    def _saturate(
        self,
        queue: tuple[Flight, ...],
        most: int,
        land: Callable[[Shared, int], Step],
        address: int,
    ) -> tuple[Flight, ...]:
        """The hardware holds an operation back while its counter is full: the oldest has ended.

        Which one that is of those that end in any order, nobody knows.
        """
        in_order = all(flight.ordered for flight in queue)
        while len(queue) > most + 1 and (in_order or not queue[0].mask):
            if queue[0].writes_lds:
                self.add(land(self.shared, 1), address)
            queue = queue[1:]
        return queue

    def _too_early(self, mask: int) -> Step:
        """The fault of an instruction that names a register which an operation will still write."""
        for queue, counter in ((self.state.vm, "vmcnt"), (self.state.lgkm, "lgkmcnt")):
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


def _unfinished(state: InFlight, item: Item) -> int:
    """The registers of *item* that wait for data which it must not come before.

    A load may write what an earlier one of its own counter still will: they end in order. A flat
    load counts among those from memory, as in LLVM (SIInsertWaitcnts: the same type of VMEM).
    """
    used = state.mask & item.mask
    if item.queue in ("vm", "lds"):
        own, other = (state.vm, state.lgkm) if item.queue == "vm" else (state.lgkm, state.vm)
        if item.queue == "vm":
            other = tuple(f for f in other if f not in own)
        else:
            other += tuple(f for f in own if not f.ordered)
        used &= ~item.written | InFlight((), other).mask
    return used


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
