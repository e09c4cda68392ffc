"""Runs the waves of a launch: initial state, blocks, divergence, barriers, waits.

Source for the initial state: LLVM AMDGPU usage, "Initial Kernel Execution State".
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import coasm.emulator.rows.matrix  # its rows
import coasm.emulator.rows.mem  # its rows
import coasm.emulator.rows.narrow  # its rows
import coasm.emulator.rows.scalar  # its rows
from coasm.emulator.engine.control import Control, controls
from coasm.emulator.engine.program import (
    EMPTY,
    ENDS,
    Flight,
    InFlight,
    Program,
    register_list,
)
from coasm.emulator.errors import EmulationError, Fault, Mistake
from coasm.emulator.rows import floats
from coasm.emulator.rows.context import Array, Context, Step
from coasm.emulator.rows.table import ROWS
from coasm.emulator.rows.taken import Taken, check_taken
from coasm.emulator.state import spaces as ports
from coasm.emulator.state.memory import Memory
from coasm.emulator.state.race import Race
from coasm.emulator.state.waves import LANES, Group, Layout, join
from coasm.errors import CoasmError
from coasm.isa import EXEC, SCC, VGPR, Parsed, takes_lanes
from coasm.isa.waits import LGKM_MAX, VM_MAX, counted_at_most, waits_of

if TYPE_CHECKING:
    from coasm.descriptor import Resources
    from coasm.emulator import Options
    from coasm.emulator.engine.trace import Tracer

__all__ = ["Machine"]

assert coasm.emulator.rows.mem and coasm.emulator.rows.scalar and coasm.emulator.rows.matrix

#: How far from the lowest address on the fair choice of a group is made: every so many blocks.
_FAIR = 64


class _Item(NamedTuple):
    """One prepared instruction of a block.

    ``mask`` are the registers that it uses, ``written`` those that it writes and does not read.
    ``masked`` says that it does nothing in lanes that EXEC leaves out, ``sets_exec`` that it
    writes EXEC.
    """

    address: int
    step: Step
    mask: int
    written: int
    queue: str
    flight: Flight | None
    waits: tuple[int | None, int | None] | None
    masked: bool = False
    sets_exec: bool = False


def _unfinished(state: InFlight, item: _Item) -> int:
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


class _Block:
    """A prepared run of instructions, and its plans by what is in flight at its start.

    ``awake`` says for the instructions up to the first one that writes EXEC, for those behind it,
    and so on, whether they have run with a lane switched on. ``ran`` says that the block was.
    """

    __slots__ = (
        "address",
        "awake",
        "control",
        "end",
        "fall",
        "items",
        "notes",
        "plans",
        "ran",
        "size",
    )

    def __init__(
        self, address: int, items: list[_Item], end: int | None, control: Control | None, fall: int
    ) -> None:
        self.address, self.items, self.end, self.control, self.fall = (
            address,
            items,
            end,
            control,
            fall,
        )
        self.size = len(items) + (end is not None)
        self.plans: dict[InFlight, _Plan] = {}
        self.notes: tuple[str, ...] = ()
        self.ran = False
        self.awake = [False] * (1 + sum(item.sets_exec for item in items))


class _Plan(NamedTuple):
    """The steps of a block for one state of flight, the address of each, the state behind it."""

    steps: list[Step]
    addresses: list[int]
    after: InFlight


class Machine:
    """One launch's worth of waves, or a chunk of them, on one program."""

    def __init__(
        self,
        program: Program,
        memory: Memory,
        asked: Resources,
        options: Options,
        lds_size: int,
        scratch_size: int,
        code_base: int,
    ) -> None:
        self.program, self.memory, self.options = program, memory, options
        self.co, self.kernel = program.co, program.kernel
        self.lds_size = lds_size
        self.scratch_size = scratch_size
        self.code_base = code_base
        offset = asked.accum_offset if asked.accum_offset is not None else asked.vgprs
        vgprs = min(offset, asked.vgprs)
        self.layout = Layout(vgprs, max(0, asked.vgprs - offset))
        # The hardware allocates SGPRs in groups of 16.
        self.sgprs = min(102, -(-(asked.sgprs or 102) // 16) * 16)
        self.fnuz = self.co.target.processor.family.fnuz
        self.constants: list[Array] = []
        self._constant_at: dict[int, int] = {}
        self.blocks: dict[tuple[int, int, int], _Block] = {}
        self.groups: list[Group] = []
        self.wave_instructions = 0
        self.notes: dict[str, None] = {}
        self.race: Race | None = None
        self.first_wave = 0
        self.waves_per_group = 1
        self.lds_stride = 0
        self.lds_views: dict[int, Any] = {}
        self.scratch_views: dict[int, Any] = {}
        self.arrived: Array = np.zeros(0, np.int64)
        self.alive: Array = np.zeros(0, np.int64)
        self.ended: Array = np.zeros(0, np.int64)
        self.tracer: Tracer | None = None
        self.single = bool(options.trace is not None or options.stop_at is not None)
        self.limit = options.max_instructions
        self.stop: int | None = None

    # Constants are operands like registers; every group lists them.

    def constant(self, bits: int) -> int:
        """The number of a 32-bit constant."""
        found = self._constant_at.get(bits)
        if found is None:
            found = self._constant_at[bits] = len(self.constants)
            value = np.array(bits, np.uint32)
            self.constants.append(value)
            for group in self.groups:
                group.add_constant(value)
        return found

    # Preparing.

    def _block(self, key: tuple[int, int, int]) -> _Block:
        block = self.blocks.get(key)
        if block is None:
            block = self.blocks[key] = self._build(key)
            for note in block.notes:
                self.notes[note] = None
        return block

    def _build(self, key: tuple[int, int, int]) -> _Block:
        start, mode, index = key
        program = self.program
        addresses: list[int] = []
        at = start
        end = None
        while True:
            instruction = program.instructions.get(at)
            if instruction is None:
                if at == start:
                    raise EmulationError(
                        f"{self.kernel.name}: {program.describe(at)}: no instruction here", at
                    )
                break
            if ENDS.match(instruction.mnemonic):
                if self.single and addresses:
                    break
                end = at
                at += instruction.size
                break
            addresses.append(at)
            at += instruction.size
            if at in program.leaders or self.single:
                break
        live = self._scc_live(addresses, end)
        context = Context(self, mode, index)
        items: list[_Item] = []
        notes: dict[str, None] = {}
        for place, scc_live in zip(addresses, live, strict=True):
            context.scc_live = scc_live
            items.append(self._item(context, place, notes))
        control = None
        if end is not None:
            control = self._control(context, end)
        block = _Block(start, items, end, control, at)
        block.notes = tuple(notes)
        return block

    def _scc_live(self, addresses: list[int], end: int | None) -> list[bool]:
        """For each instruction, whether the SCC that it leaves may be read."""
        live, found = True, []
        if end is not None:
            used = self._safe_access(end)
            live = SCC in used[0] or SCC not in used[1]
        for address in reversed(addresses):
            found.append(live or self.single)
            reads, writes = self._safe_access(address)
            if SCC in writes:
                live = False
            if SCC in reads:
                live = True
        return found[::-1]

    def _safe_access(self, address: int) -> tuple[frozenset[int], frozenset[int]]:
        try:
            return self.program.parsed(address)[1][:2]
        except CoasmError:
            return frozenset((SCC,)), frozenset()

    def _item(self, context: Context, address: int, notes: dict[str, None]) -> _Item:
        instruction = self.program.instructions[address]
        context.address = address
        context.now_clean = False
        try:
            parsed, used = self.program.parsed(address)
        except CoasmError as error:
            context.clean.clear()
            return _Item(address, _raiser(str(error)), 0, 0, "", None, None)
        context.access = used
        mask = _bits((used.reads | used.writes) - {SCC})
        if parsed.mnemonic == "s_waitcnt":
            return _Item(address, _nothing, 0, 0, "", None, waits_of(instruction.data))
        step = self._step(context, parsed, notes)
        self._update_clean(context, used.writes)
        if used.writes & self.program.matrix_registers:
            step = self._forget(step, used.writes)
        if self.options.strict:
            from coasm.emulator.engine.strict import checked

            step = checked(self, step, parsed, used, context)
        queue = counted_at_most(parsed.mnemonic)
        flight = None
        if queue:
            targets = _bits(n for n in used.writes if n not in (SCC, EXEC, EXEC + 1))
            name = parsed.mnemonic
            to_lds = (
                "lds" in parsed.modifiers or "_load_lds_" in name or name.startswith("ds_write")
            )
            flight = Flight(address, targets, queue in ("vm", "lds"), to_lds)
        written = _bits(used.writes - (used.reads - used.kept))
        sets_exec = EXEC in used.writes or EXEC + 1 in used.writes
        masked = takes_lanes(parsed)
        return _Item(address, step, mask, written, queue, flight, None, masked, sets_exec)

    def _step(self, context: Context, parsed: Parsed, notes: dict[str, None]) -> Step:
        """The step of an instruction; of one that cannot be emulated, one that says why."""
        row = ROWS.get(parsed.mnemonic)
        if row is None:
            return _raiser("this instruction is not emulated")
        processor = self.co.target.processor
        if not row.since <= processor.version[:2] <= row.until:
            return _raiser(f"{processor.name} has no {parsed.mnemonic}")
        taken = Taken(parsed.modifiers)
        context.begin()
        try:
            step = row.build(context, parsed._replace(modifiers=taken))
            check_taken(parsed._replace(modifiers=taken), context.seen, row.inert)
            context.check_index(parsed)
        except Fault as fault:
            return _raiser(str(fault))
        except Exception as error:
            return _mistake(error)
        if row.note:
            notes[row.note] = None
        return step

    def _update_clean(self, context: Context, writes: frozenset[int]) -> None:
        if EXEC in writes or EXEC + 1 in writes:
            context.clean.clear()
        for number in writes:
            if number >= VGPR:
                try:
                    row = context.row(number)
                except Fault:
                    continue
                if context.now_clean:
                    context.clean.add(row)
                else:
                    context.clean.discard(row)

    def _forget(self, step: Step, writes: frozenset[int]) -> Step:
        """*step*, then without the decoded matrix operands that depend on what it writes."""
        layout = self.layout
        rows = {n - VGPR if n < 512 else layout.vgprs + n - 512 for n in writes if n >= VGPR}

        def forgetting(s: Group) -> None:
            step(s)
            if s.decoded:
                for key in [k for k in s.decoded if not rows.isdisjoint(k.rows) or k.scale in rows]:
                    del s.decoded[key]

        return forgetting

    def _control(self, context: Context, address: int) -> Control:
        context.address = address
        return controls(self, context, self.program.parsed(address)[0], address)

    # Waits.

    def _plan(self, block: _Block, before: InFlight) -> _Plan:
        steps: list[Step] = []
        addresses: list[int] = []
        state = before
        pending = state.mask
        part = 0

        def add(step: Step, address: int) -> None:
            steps.append(step)
            addresses.append(address)

        for item in block.items:
            if item.waits is not None:
                state = self._wait(state, item.waits, add, item.address)
                pending = state.mask
                continue
            if item.mask & pending and (used := _unfinished(state, item)):
                add(self._pending_fault(state, used), item.address)
                break
            if item.step is not _nothing:
                add(item.step, item.address)
            if item.sets_exec:
                part += 1
                add(_watch(block.awake, part), item.address)
            if item.flight is not None:
                state = self._issue(state, item, add)
                pending |= item.flight.mask
        end_mask = self._end_mask(block)
        if end_mask & pending and block.end is not None:
            add(self._pending_fault(state, end_mask), block.end)
        if block.end is not None and block.control is not None and block.control.ends:
            vm = sum(f.writes_lds for f in state.vm)
            ds = sum(f.writes_lds for f in state.lgkm)
            if vm:
                add(self._apply_vm(vm), block.end)
            if ds:
                add(self._apply_ds(ds), block.end)
            state = EMPTY
        return _Plan(steps, addresses, state)

    def _end_mask(self, block: _Block) -> int:
        if block.end is None:
            return 0
        used = self._safe_access(block.end)
        return _bits((used[0] | used[1]) - {SCC})

    def _wait(
        self,
        state: InFlight,
        waits: tuple[int | None, int | None],
        add: Callable[[Step, int], None],
        address: int,
    ) -> InFlight:
        queues: list[tuple[Flight, ...]] = []
        for which, (queue, count) in enumerate(zip(state, waits, strict=True)):
            if count is None:
                queues.append(queue)
                continue
            ordered = sum(f.ordered for f in queue)
            done = max(0, ordered - count)
            kept, written = [], 0
            for flight in queue:
                if flight.ordered and done:
                    done -= 1
                    written += flight.writes_lds
                elif flight.ordered or count:
                    kept.append(flight)
            if written:
                add((self._apply_ds if which else self._apply_vm)(written), address)
            queues.append(tuple(kept))
        return InFlight(queues[0], queues[1])

    def _issue(self, state: InFlight, item: _Item, add: Callable[[Step, int], None]) -> InFlight:
        flight = item.flight
        assert flight is not None
        vm, lgkm = state
        if item.queue in ("vm", "flat"):
            vm = self._saturate((*vm, flight), VM_MAX, self._apply_vm, add, item.address)
        if item.queue in ("lds", "scalar", "flat"):
            lgkm = self._saturate((*lgkm, flight), LGKM_MAX, self._apply_ds, add, item.address)
        return InFlight(vm, lgkm)

    def _saturate(
        self,
        queue: tuple[Flight, ...],
        most: int,
        apply: Callable[[int], Step],
        add: Callable[[Step, int], None],
        address: int,
    ) -> tuple[Flight, ...]:
        """The hardware holds an operation back while its counter is full: the oldest has ended."""
        while len(queue) > most + 2 and not queue[0].mask:
            if queue[0].writes_lds:
                add(apply(1), address)
            queue = queue[1:]
        return queue

    def _apply_vm(self, count: int) -> Step:
        def step(s: Group) -> None:
            for entry in s.vm_queue[:count]:
                ports.apply(self, s, entry)
                if self.race is not None:
                    self.race.landed(self, s, entry)
            del s.vm_queue[:count]

        return step

    def _apply_ds(self, count: int) -> Step:
        def step(s: Group) -> None:
            for entry in s.ds_queue[:count]:
                if not entry.applied:
                    ports.apply(self, s, entry)
            del s.ds_queue[:count]

        return step

    def _pending_fault(self, state: InFlight, mask: int) -> Step:
        for queue, counter in ((state.vm, "vmcnt"), (state.lgkm, "lgkmcnt")):
            for at, flight in enumerate(queue):
                if flight.mask & mask:
                    other = self.program.instructions[flight.address]
                    needed = (
                        len(queue) - 1 - at
                        if flight.ordered and all(f.ordered for f in queue)
                        else 0
                    )
                    place = self.program.place(flight.address)
                    return _raiser(
                        f"{register_list(flight.mask & mask)} still waits for `{other.text}` at "
                        f"{place}; an s_waitcnt {counter}({needed}) must come before"
                    )
        return _nothing

    # Running.

    def start(self, groups: Iterable[Group], workgroups: int, waves: int, first_wave: int) -> None:
        """Take in the waves of *workgroups* workgroups, *waves* each."""
        self.groups = list(groups)
        self.arrived = np.zeros(workgroups, np.int64)
        self.alive = np.full(workgroups, waves, np.int64)
        self.ended = np.full(workgroups, -1, np.int64)
        self.waves_per_group = waves
        self.first_wave = first_wave
        self.lds_stride = -(-self.lds_size // 16) * 16
        raw = np.zeros(max(16, self.lds_stride * workgroups), np.uint8)
        self.lds_views = _views(raw)
        total = workgroups * waves * self.scratch_size * LANES
        self.scratch_views = _views(np.zeros(max(16, -(-total // 16) * 16), np.uint8))
        if workgroups == 1:
            self.lds_stride = 0
        if self.options.race:
            self.race = Race(raw.size // 4, workgroups)

    def run(self) -> None:
        """Run all groups to their end.

        Raises:
            EmulationError: a fault, a barrier that is never complete, too many instructions.
        """
        turn = 0
        old = np.seterrcall(floats.on_invalid)
        try:
            with np.errstate(all="ignore", invalid="call"):
                while self.groups:
                    turn += 1
                    group = self._choose(turn)
                    group.turn = turn
                    self._run_block(group)
        finally:
            np.seterrcall(old)

    def _choose(self, turn: int) -> Group:
        groups = self.groups
        if len(groups) == 1 and groups[0].barrier < 0:
            return groups[0]
        ready = [g for g in groups if g.barrier < 0]
        if not ready:
            raise self._stuck()
        if turn % _FAIR == 0:
            best = min(ready, key=lambda g: g.turn)
        else:
            best = min(ready, key=lambda g: g.pc)
        same = [g for g in ready if g.pc == best.pc and g.key == best.key]
        if len(same) > 1:
            whole = join(same, self.constants)
            gone = {id(g) for g in same}
            self.groups = [g for g in groups if id(g) not in gone]
            self.groups.append(whole)
            return whole
        return best

    def _stuck(self) -> EmulationError:
        group = self.groups[0]
        place = group.barrier
        missing = self.alive[group.wg] - self.arrived[group.wg]
        row = int(np.argmax(missing))
        return self._error(
            place,
            f"a barrier that {int(missing[row])} waves of the workgroup never reach",
            self._wave(group, row),
            None,
        )

    def _wave(self, group: Group, row: int) -> int:
        return int(group.waves[row])

    def _error(self, address: int, text: str, wave: int | None, lane: int | None) -> EmulationError:
        instruction = self.program.instructions.get(address)
        shown = f" `{instruction.text}`" if instruction is not None else ""
        who = "" if wave is None else f", wave {wave}"
        if wave is not None:
            who += f" (workgroup {wave // self.waves_per_group})"
        who += "" if lane is None else f", lane {lane}"
        return EmulationError(
            f"{self.kernel.name}: {self.program.describe(address)}{shown}{who}: {text}", address
        )

    def _run_block(self, s: Group) -> None:
        block = self._block((s.pc, s.mode, s.index))
        plan = block.plans.get(s.pending)
        if plan is None:
            plan = block.plans[s.pending] = self._plan(block, s.pending)
        if self.single:
            self._observe(s)
        block.ran = True
        if not block.awake[0]:
            block.awake[0] = _is_awake(s)
        at = 0
        try:
            for at, step in enumerate(plan.steps):  # noqa: B007
                step(s)
            s.pending = plan.after
            self.wave_instructions += block.size * s.n
            if self.limit is not None and self.wave_instructions > self.limit:
                raise EmulationError(
                    f"{self.kernel.name}: {self.program.describe(s.pc)}: more than {self.limit} "
                    "instructions were executed (--max-instructions)",
                    s.pc,
                )
            if block.control is None:
                s.pc = block.fall
            else:
                at = len(plan.steps)
                block.control.run(s)
        except Fault as fault:
            place = plan.addresses[at] if at < len(plan.addresses) else block.end
            row = fault.row
            wave = (
                self._wave(s, row) if row is not None else (int(s.waves[0]) if s.n == 1 else None)
            )
            raise self._error(
                place if place is not None else s.pc, str(fault), wave, fault.lane
            ) from None
        except (CoasmError, MemoryError):
            raise
        except Exception as error:
            place = plan.addresses[at] if at < len(plan.addresses) else block.end
            where = self._error(place if place is not None else s.pc, "", None, None)
            raise Mistake(f"{where}{type(error).__name__}: {error}") from error

        if self.tracer is not None:
            self.tracer.after()

    def executed_code(self) -> tuple[set[int], set[int]]:
        """The addresses that were executed, and those only executed while no lane was on.

        The latter are of instructions that do nothing in lanes that are switched off.
        """
        executed: set[int] = set()
        asleep: set[int] = set()
        for block in self.blocks.values():
            if not block.ran:
                continue
            part = 0
            for item in block.items:
                awake = block.awake[part] or not item.masked
                (executed if awake else asleep).add(item.address)
                part += item.sets_exec
            if block.end is not None:
                executed.add(block.end)
        return executed, asleep - executed

    def _observe(self, s: Group) -> None:
        if self.stop is not None and s.pc == self.stop:
            raise Stopped(self, s)
        if self.tracer is not None:
            self.tracer.before(s)

    # What the controls use.

    def remove(self, group: Group) -> None:
        """Take a group out of the running ones."""
        self.groups = [g for g in self.groups if g is not group]

    def split(self, s: Group, leave: Array) -> Group:
        """Move the waves of *leave* ([n] bool) into a new group; *s* is replaced by the rest.

        Returns the group of those that leave.
        """
        gone = s.take(np.flatnonzero(leave), self.constants)
        stay = s.take(np.flatnonzero(~leave), self.constants)
        self.remove(s)
        self.groups += [stay, gone]
        return gone

    def release(self) -> None:
        """Let the workgroups go on whose waves have all reached a barrier."""
        full = (self.arrived == self.alive) & (self.arrived > 0)
        if not full.any():
            return
        early = full & (self.alive < self.waves_per_group)
        waiting = [g for g in self.groups if g.barrier >= 0]
        if early.any():
            for group in waiting:
                rows = np.flatnonzero(early[group.wg])
                if rows.size:
                    ended = self.program.place(int(self.ended[group.wg[rows[0]]]))
                    raise self._error(
                        group.barrier,
                        f"a barrier that some waves of the workgroup never reach: they ended at "
                        f"{ended}",
                        self._wave(group, int(rows[0])),
                        None,
                    )
        for group in waiting:
            free = full[group.wg]
            if free.all():
                group.barrier = -1
            elif free.any():
                self.split(group, free).barrier = -1
        self.arrived[full] = 0
        if self.race is not None:
            self.race.epoch[full] += 1


class Stopped(Exception):
    """``stop_at`` was reached; holds the machine and the group that stands there."""

    def __init__(self, machine: Machine, group: Group) -> None:
        super().__init__("stopped")
        self.machine, self.group = machine, group


def _views(raw: Array) -> dict[int, Any]:
    return {
        1: raw,
        2: raw.view(np.uint16),
        4: raw.view(np.uint32),
        8: raw.view(np.uint64),
        16: raw.view(np.complex128),
    }


def _bits(numbers: Iterable[int]) -> int:
    found = 0
    for number in numbers:
        found |= 1 << number
    return found


def _is_awake(s: Group) -> bool:
    return s.full or bool(s.mask.any())


def _watch(awake: list[bool], part: int) -> Step:
    """A step that notes whether the instructions behind a write of EXEC have lanes to work on."""

    def step(s: Group) -> None:
        if not awake[part]:
            awake[part] = _is_awake(s)

    return step


def _nothing(s: Group) -> None:
    return None


def _raiser(text: str) -> Step:
    def step(s: Group) -> None:
        raise Fault(text)

    return step


def _mistake(error: Exception) -> Step:
    """A step that raises what went wrong in a builder: it counts where it is executed."""

    def step(s: Group) -> None:
        raise error

    return step


def now() -> float:
    """Seconds, for measuring."""
    return time.perf_counter()
