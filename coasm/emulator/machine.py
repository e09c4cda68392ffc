"""Runs the waves of a launch, block by block: the engine with all rows, on one state."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

import coasm.emulator.rows  # all of them
from coasm.emulator.engine.blocks import Block, Blocks, Plan, is_awake
from coasm.emulator.engine.program import Program
from coasm.emulator.engine.schedule import Schedule
from coasm.emulator.engine.trace import Tracer
from coasm.emulator.engine.waits import plan_of
from coasm.emulator.errors import EmulationError, Fault, Mistake
from coasm.emulator.options import Options
from coasm.emulator.rows.nans import on_invalid
from coasm.emulator.state.race import Race
from coasm.emulator.state.shared import Shared
from coasm.emulator.state.waves import Group
from coasm.errors import CoasmError

__all__ = ["Machine", "Stopped"]

assert coasm.emulator.rows


class Stopped(Exception):
    """``stop_at`` was reached; holds the group that stands there."""

    def __init__(self, group: Group) -> None:
        super().__init__("stopped")
        self.group = group


class Machine:
    """One launch's worth of waves, or a chunk of them, on one program.

    *stop*: the address of ``stop_at``.
    """

    def __init__(
        self, program: Program, shared: Shared, options: Options, stop: int | None = None
    ) -> None:
        self.program, self.shared, self.options, self.stop = program, shared, options, stop
        self.single = bool(options.trace is not None or options.stop_at is not None)
        self.blocks = Blocks(program, shared, strict=options.strict, single=self.single)
        self.tracer: Tracer | None = None
        if options.trace is not None:
            self.tracer = Tracer(program, shared, options.trace)
        self.schedule = Schedule(program, shared, 0, 1)

    def start(self, groups: Iterable[Group], workgroups: int, waves: int, first_wave: int) -> None:
        """Take in the waves of *workgroups* workgroups, *waves* each."""
        shared = self.shared
        shared.start(list(groups), workgroups, waves, first_wave)
        self.schedule = Schedule(self.program, shared, workgroups, waves)
        if self.options.race:
            shared.race = Race(shared.lds_views[4].size, workgroups)

    def run(self) -> None:
        """Run all groups to their end.

        Raises:
            EmulationError: a fault, a barrier that is never complete, too many instructions.
        """
        shared, choose = self.shared, self.schedule.choose
        old = np.seterrcall(on_invalid)
        try:
            with np.errstate(all="ignore", invalid="call"):
                while shared.groups:
                    self._run_block(choose())
        finally:
            np.seterrcall(old)

    def _run_block(self, s: Group) -> None:
        block = self.blocks.at(s.pc, s.mode, s.index, s.clean)
        plan = block.plans.get(s.pending)
        if plan is None:
            plan = plan_of(self.program, self.shared, block, s.pending)
            block.plans[s.pending] = plan
        if self.single:
            self._observe(s)
        block.ran = True
        if not block.awake[0]:
            block.awake[0] = is_awake(s)
        at = 0
        try:
            for at, step in enumerate(plan.steps):  # noqa: B007
                step(s)
            s.pending = plan.after
            s.clean = s.clean & block.stays | block.clean
            self._count(s, block)
            if block.control is None:
                s.pc = block.fall
            else:
                at = len(plan.steps)
                block.control.run(self.schedule, s)
        except Fault as fault:
            raise self._error(_place(block, plan, at, s), s, fault) from None
        except (CoasmError, MemoryError):
            raise
        except Exception as error:
            where = self.program.error(_place(block, plan, at, s), "")
            raise Mistake(f"{where}{type(error).__name__}: {error}") from error
        if self.tracer is not None:
            self.tracer.after()

    def _count(self, s: Group, block: Block) -> None:
        self.shared.clock += block.size * s.n
        limit = self.options.max_instructions
        if limit is not None and self.shared.clock > limit:
            raise EmulationError(
                f"{self.program.kernel.name}: {self.program.describe(s.pc)}: more than {limit} "
                "instructions were executed (--max-instructions)",
                s.pc,
            )

    def _error(self, address: int, s: Group, fault: Fault) -> EmulationError:
        row = 0 if fault.row is None and s.n == 1 else fault.row
        who = "" if row is None else self.schedule.who(s, row)
        who += "" if fault.lane is None else f", lane {fault.lane}"
        return self.program.error(address, str(fault), who)

    def _observe(self, s: Group) -> None:
        if self.stop is not None and s.pc == self.stop:
            raise Stopped(s)
        if self.tracer is not None:
            self.tracer.before(s)


def _place(block: Block, plan: Plan, at: int, s: Group) -> int:
    """The address of step *at*; behind the steps, of what ends the block."""
    if at < len(plan.addresses):
        return plan.addresses[at]
    return block.end if block.end is not None else s.pc
