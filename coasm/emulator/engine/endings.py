"""How the waves of a group go on behind a block: the row of the instruction at its end says it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from coasm.emulator.engine.program import Program
from coasm.emulator.engine.schedule import Schedule
from coasm.emulator.errors import Fault
from coasm.emulator.rows.context import Context
from coasm.emulator.rows.table import ENDINGS, Ending
from coasm.emulator.rows.values import Array, Getter
from coasm.emulator.state.waves import Group

__all__ = ["Control", "control_of"]

Run = Callable[[Schedule, Group], None]


class Control(NamedTuple):
    """What happens at the end of a block: ``run`` sets where the group's waves go on.

    ``ends``: the waves end there, and so does all that is in flight.
    """

    run: Run
    ends: bool = False


def control_of(program: Program, context: Context, address: int) -> Control:
    """The control of the instruction at *address*, which ends a block."""
    instruction = program.instructions[address]
    following = address + instruction.size
    try:
        ending = ENDINGS[instruction.mnemonic](context, program.parsed(address)[0])
        if ending.sort == "branch":
            return Control(_branch(program, ending, address, following))
        if ending.sort == "mode":
            return Control(_modes(ending, following))
        if ending.sort == "jump":
            return Control(_jump(program, ending, context.shared.code_base))
    except Fault as fault:
        return Control(_raise(str(fault)))
    if ending.sort == "barrier":
        return Control(_barrier(address, following))
    if ending.sort == "end":
        return Control(lambda schedule, s: schedule.end(s, address), ends=True)
    return Control(_next(ending, following))


def _raise(text: str) -> Run:
    def run(schedule: Schedule, s: Group) -> None:
        raise Fault(text)

    return run


def _next(ending: Ending, following: int) -> Run:
    step = ending.step
    assert step is not None

    def run(schedule: Schedule, s: Group) -> None:
        step(s)
        s.pc = following

    return run


def _modes(ending: Ending, following: int) -> Run:
    picks = ending.picks
    assert picks is not None

    def run(schedule: Schedule, s: Group) -> None:
        modes = np.array(picks(s))
        s.pc = following
        for mode in np.unique(modes)[1:]:
            leave = modes == mode
            s, gone = schedule.split(s, leave)
            gone.mode = int(mode)
            modes = modes[~leave]
        s.mode = int(modes[0])

    return run


def _barrier(address: int, following: int) -> Run:
    def run(schedule: Schedule, s: Group) -> None:
        s.pc = following
        schedule.wait(s, address)

    return run


def _branch(program: Program, ending: Ending, address: int, following: int) -> Run:
    target = program.targets.get(address)
    if target is None:
        raise Fault("a branch whose target is not known")
    step = ending.step
    if ending.picks is not None:
        return _conditional(ending.picks, target, following)

    def run(schedule: Schedule, s: Group) -> None:
        if step is not None:
            step(s)
        s.pc = target

    return run


def _conditional(condition: Getter, target: int, following: int) -> Run:
    def run(schedule: Schedule, s: Group) -> None:
        taken = condition(s)
        count = int(np.count_nonzero(taken))
        s.pc = target if count == s.n else following
        if 0 < count < s.n:
            schedule.split(s, taken)[1].pc = target

    return run


def _jump(program: Program, ending: Ending, base: int) -> Run:
    source, step = ending.picks, ending.step
    assert source is not None

    def run(schedule: Schedule, s: Group) -> None:
        where: Array = np.array(np.broadcast_to(source(s), (s.n,)))
        if step is not None:
            step(s)
        places = [int(place) - base for place in np.unique(where)]
        for place in places:
            if place not in program.instructions:
                row = int(np.argmax(where == np.uint64(place + base & 0xFFFF_FFFF_FFFF_FFFF)))
                raise Fault(f"a jump to {place + base:#x}, where no instruction is", row)
        for place in places[1:]:
            leave = where == np.uint64(place + base)
            s, gone = schedule.split(s, leave)
            gone.pc = place
            where = where[~leave]
        s.pc = places[0]
        program.leaders.update(places)

    return run
