"""Instructions that end a block: branches, barriers, the end of a wave, changes of mode."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from coasm.emulator.errors import Fault
from coasm.emulator.rows.context import Array, Context
from coasm.emulator.state.waves import Group
from coasm.isa import VCC, Literal, Parsed, Word

if TYPE_CHECKING:
    from coasm.emulator.machine import Machine

__all__ = ["Control", "controls"]


class Control(NamedTuple):
    """What happens at the end of a block: ``run`` sets where the group's waves go on.

    ``ends``: the waves end there, and so does all that is in flight.
    """

    run: Callable[[Group], None]
    ends: bool = False


_CONDITIONS: dict[str, Callable[[Group], Array]] = {
    "s_cbranch_scc0": lambda s: ~s.scc,
    "s_cbranch_scc1": lambda s: s.scc,
    "s_cbranch_vccz": lambda s: s.d[VCC >> 1] == 0,
    "s_cbranch_vccnz": lambda s: s.d[VCC >> 1] != 0,
    "s_cbranch_execz": lambda s: s.d[63] == 0,
    "s_cbranch_execnz": lambda s: s.d[63] != 0,
}


def controls(machine: Machine, ctx: Context, parsed: Parsed, address: int) -> Control:
    """The control of the instruction at *address*, which ends a block."""
    name = parsed.mnemonic
    instruction = machine.program.instructions[address]
    following = address + instruction.size
    try:
        if name in _CONDITIONS:
            return _conditional(machine, _CONDITIONS[name], _target(machine, address), following)
        if name == "s_branch":
            target = _target(machine, address)
            return Control(lambda s: _go(s, target))
        if name == "s_barrier":
            return _barrier(machine, address, following)
        if name.startswith("s_endpgm"):
            return _end(machine, address)
        if name in ("s_setpc_b64", "s_swappc_b64", "s_call_b64"):
            return _indirect(machine, ctx, parsed, address, following)
        if name.startswith("s_setreg"):
            return _setreg(ctx, parsed, following)
        if name.startswith("s_set_gpr_idx"):
            return _gpr_index(ctx, parsed, following)
    except Fault as fault:
        return Control(_raise(str(fault)))
    return Control(_raise("this instruction is not emulated"))


def _target(machine: Machine, address: int) -> int:
    """Where the branch at *address* goes.

    Raises:
        Fault: its text does not say so.
    """
    target = machine.program.targets.get(address)
    if target is None:
        raise Fault("a branch whose target is not known")
    return target


def _raise(text: str) -> Callable[[Group], None]:
    def run(s: Group) -> None:
        raise Fault(text)

    return run


def _go(s: Group, target: int) -> None:
    s.pc = target


def _conditional(
    machine: Machine, condition: Callable[[Group], Array], target: int, following: int
) -> Control:
    def run(s: Group) -> None:
        taken = condition(s)
        count = int(np.count_nonzero(taken))
        if count == s.n:
            s.pc = target
        elif count == 0:
            s.pc = following
        else:
            s.pc = following
            machine.split(s, taken).pc = target

    return Control(run)


def _barrier(machine: Machine, address: int, following: int) -> Control:
    def run(s: Group) -> None:
        s.pc = following
        if machine.waves_per_group == 1:
            if machine.race is not None:
                machine.race.epoch[s.wg] += 1
            return
        s.barrier = address
        np.add.at(machine.arrived, s.wg, 1)
        machine.release()

    return Control(run)


def _end(machine: Machine, address: int) -> Control:
    def run(s: Group) -> None:
        machine.remove(s)
        np.subtract.at(machine.alive, s.wg, 1)
        machine.ended[s.wg] = address
        machine.release()

    return Control(run, ends=True)


def _indirect(
    machine: Machine, ctx: Context, parsed: Parsed, address: int, following: int
) -> Control:
    if parsed.mnemonic == "s_call_b64":
        source, target = None, _target(machine, address)
    else:
        source, target = ctx.scalar_source(parsed.operands[-1], "u64"), 0
    put = None if parsed.mnemonic == "s_setpc_b64" else ctx.scalar_target(parsed.operands[0], "u64")
    base = machine.code_base

    def run(s: Group) -> None:
        where = None if source is None else np.array(np.broadcast_to(source(s), (s.n,)))
        if put is not None:
            put(s, np.full(s.n, base + following, np.uint64))
        if where is None:
            s.pc = target
            return
        places = [int(place) - base for place in np.unique(where)]
        for place in places:
            if place not in machine.program.instructions:
                row = int(np.argmax(where == np.uint64(place + base & 0xFFFF_FFFF_FFFF_FFFF)))
                raise Fault(f"a jump to {place + base:#x}, where no instruction is", row)
        left = s
        for place in places[1:]:
            leave = where == np.uint64(place + base)
            gone = machine.split(left, leave)
            gone.pc = place
            stay = machine.groups[-2]
            where = where[~leave]
            left = stay
        left.pc = places[0]
        for place in places:
            machine.program.leaders.add(place)

    return Control(run)


_HWREG = re.compile(r"hwreg\((?:HW_REG_)?(\w+)(?:,\s*(\d+),\s*(\d+))?\)")


def hardware_register(word: object) -> tuple[str, int, int]:
    """(name, first bit, bits) of a ``hwreg(...)`` operand.

    Raises:
        Fault: it is none.
    """
    match = _HWREG.fullmatch(word.text) if isinstance(word, Word) else None
    if match is None:
        raise Fault("the hardware register is not emulated")
    return match[1], int(match[2] or 0), int(match[3] or 32)


def _setreg(ctx: Context, parsed: Parsed, following: int) -> Control:
    name, first, bits = hardware_register(parsed.operands[0])
    if name not in ("MODE", "1"):
        raise Fault(f"writing the hardware register {name} is not emulated")
    field = (1 << bits) - 1 << first
    source = parsed.operands[1]
    if isinstance(source, Literal):
        value = int(source.value)

        def constant(s: Group) -> None:
            s.mode = s.mode & ~field | value << first & field
            s.pc = following

        return Control(constant)
    get = ctx.scalar_source(source, "u32")

    def run(s: Group) -> None:
        values = np.broadcast_to(get(s), (s.n,))
        if (values != values[0]).any():
            raise Fault("the waves set different modes, which is not emulated")
        s.mode = s.mode & ~field | int(values[0]) << first & field
        s.pc = following

    return Control(run)


_INDEX_BITS = {"SRC0": 1, "SRC1": 2, "SRC2": 4, "DST": 8}


def _gpr_index(ctx: Context, parsed: Parsed, following: int) -> Control:
    name = parsed.mnemonic
    if name == "s_set_gpr_idx_off":

        def off(s: Group) -> None:
            s.index, s.pc = 0, following

        return Control(off)
    if name == "s_set_gpr_idx_idx":
        get = ctx.scalar_source(parsed.operands[0], "u32")

        def idx(s: Group) -> None:
            s.su[124][...] = s.su[124] & np.uint32(0xFFFF_FF00) | get(s) & np.uint32(0xFF)
            s.pc = following

        return Control(idx)
    text = parsed.modifiers.get("gpr_idx", "")
    flags = sum(
        _INDEX_BITS[part.strip()] for part in text.split(",") if part.strip() in _INDEX_BITS
    )
    if name == "s_set_gpr_idx_mode":
        words = [op.text for op in parsed.operands if isinstance(op, Word)]
        text = text or (words[0] if words else "")
        flags = sum(bit for part, bit in _INDEX_BITS.items() if part in text)

        def mode(s: Group) -> None:
            s.su[124][...] = s.su[124] & np.uint32(0xFFFF_0FFF) | np.uint32(flags << 12)
            s.index, s.pc = flags, following

        return Control(mode)
    get_on = ctx.scalar_source(parsed.operands[0], "u32")

    def on(s: Group) -> None:
        s.su[124][...] = (
            s.su[124] & np.uint32(0xFFFF_0F00)
            | get_on(s) & np.uint32(0xFF)
            | np.uint32(flags << 12)
        )
        s.index, s.pc = flags, following

    return Control(on)
