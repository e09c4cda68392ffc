"""Blocks: straight runs of instructions, each prepared once for the modes that it is run in.

A block goes from a branch target, or from where a branch falls through, to the next one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from coasm.counters import Waits
from coasm.emulator.engine.endings import Control, control_of
from coasm.emulator.engine.flight import Flight, InFlight
from coasm.emulator.engine.program import Program
from coasm.emulator.engine.strict import checked
from coasm.emulator.errors import Fault
from coasm.emulator.rows.context import Context
from coasm.emulator.rows.table import ENDINGS, ROWS, WAITS
from coasm.emulator.rows.taken import Taken, check_taken
from coasm.emulator.rows.values import VSKIP, Step
from coasm.emulator.state.shared import Shared
from coasm.emulator.state.waves import Group, Layout
from coasm.errors import CoasmError
from coasm.isa import AGPR, EXEC, SCC, VGPR, Parsed, takes_lanes
from coasm.isa.kinds import is_a
from coasm.isa.table import opcode
from coasm.isa.waits import counted_as, waits_of

__all__ = ["Block", "Blocks", "Item", "Plan", "is_awake", "nothing", "raiser", "watch"]


#: What ends beside others of its counter in any order.
_UNORDERED = ("message", "gds", "scc")
#: The most blocks that are made of one for what is known as it is entered.
_VARIANTS = 8


class Item(NamedTuple):
    """One prepared instruction of a block.

    ``mask`` are the registers that it uses, ``written`` those that it writes and does not read.
    ``masked`` says that it does nothing in lanes that EXEC leaves out, ``sets_exec`` that it
    writes EXEC.
    """

    address: int
    step: Step
    mask: int = 0
    written: int = 0
    queue: str = ""
    flight: Flight | None = None
    waits: Waits | None = None
    masked: bool = False
    sets_exec: bool = False


class Plan(NamedTuple):
    """The steps of a block for one state of flight, the address of each, the state behind it."""

    steps: list[Step]
    addresses: list[int]
    after: InFlight


class Block:
    """A prepared run of instructions, from *address* to the one at *end*, or to what is at *fall*.

    ``plans`` are what is done of it, by what is in flight at its start. ``awake`` says for the
    instructions up to the first one that writes EXEC, for those behind it, and so on, whether they
    have run with a lane switched on. ``ran`` says that the block was. ``end_mask`` are the
    registers that its last instruction uses. ``wanted`` are the rows of which it would help to know
    that they hold no denormals as the block is entered, ``stays`` those that do so behind it if
    they did before, ``clean`` those that then do in any case; ``variants`` is how many blocks were
    made of it for what was known.
    """

    __slots__ = (
        "awake",
        "clean",
        "control",
        "end",
        "end_mask",
        "fall",
        "items",
        "plans",
        "ran",
        "size",
        "stays",
        "variants",
        "wanted",
    )

    def __init__(
        self, items: list[Item], end: int | None, control: Control | None, end_mask: int, fall: int
    ) -> None:
        self.items, self.end, self.control, self.fall = items, end, control, fall
        self.end_mask = end_mask
        self.size = len(items) + (end is not None)
        self.plans: dict[InFlight, Plan] = {}
        self.ran = False
        self.awake = [False] * (1 + sum(item.sets_exec for item in items))
        self.wanted, self.stays, self.clean, self.variants = 0, 0, 0, 0


class Blocks:
    """The blocks of a program, by address, mode and VGPR index mode.

    ``notes`` say what of the instructions that were prepared is less than exact. *single*: each
    instruction is a block.
    """

    def __init__(self, program: Program, shared: Shared, *, strict: bool, single: bool) -> None:
        self.program, self.shared = program, shared
        self.strict, self.single = strict, single
        self.prepared: dict[tuple[int, int, int, int], Block] = {}
        self.notes: dict[str, None] = {}

    def at(self, pc: int, mode: int, index: int, clean: int) -> Block:
        """The block at an address, in a mode and VGPR index mode; *clean* as in the group."""
        block = self.prepared.get((pc, mode, index, 0))
        if block is None:
            block = self.prepared[pc, mode, index, 0] = self._build(pc, mode, index, 0)
        helps = clean & block.wanted
        if not helps:
            return block
        better = self.prepared.get((pc, mode, index, helps))
        if better is None:
            if block.variants == _VARIANTS:
                return block
            block.variants += 1
            better = self.prepared[pc, mode, index, helps] = self._build(pc, mode, index, helps)
        return better

    def executed(self) -> tuple[set[int], set[int]]:
        """The addresses that were executed, and those only executed while no lane was on.

        The latter are of instructions that do nothing in lanes that are switched off.
        """
        executed: set[int] = set()
        asleep: set[int] = set()
        for block in self.prepared.values():
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

    def _build(self, start: int, mode: int, index: int, clean: int) -> Block:
        addresses, end, fall = self._run_from(start)
        context = Context(self.shared, mode, index, clean)
        items = []
        for place, scc_live in zip(addresses, self._scc_live(addresses, end), strict=True):
            context.scc_live = scc_live
            items.append(self.item(context, place))
        if end is None:
            return _known(Block(items, None, None, 0, fall), context)
        context.address, context.data = end, self.program.instructions[end].data
        control = control_of(self.program, context, end)
        reads, writes = self._access(end)
        context.now_clean = False
        _update_clean(context, writes)
        return _known(Block(items, end, control, _bits((reads | writes) - {SCC}), fall), context)

    def _run_from(self, start: int) -> tuple[list[int], int | None, int]:
        """The addresses of a block, that of what ends it, and what is behind."""
        program = self.program
        addresses: list[int] = []
        at = start
        while True:
            instruction = program.instructions.get(at)
            if instruction is None:
                if at == start:
                    raise program.error(at, "no instruction here")
                return addresses, None, at
            if instruction.mnemonic in ENDINGS:
                if self.single and addresses:
                    return addresses, None, at
                return addresses, at, at + instruction.size
            addresses.append(at)
            at += instruction.size
            if at in program.leaders or self.single:
                return addresses, None, at

    def _scc_live(self, addresses: list[int], end: int | None) -> list[bool]:
        """For each instruction, whether the SCC that it leaves may be read."""
        live, found = True, []
        if end is not None:
            reads, writes = self._access(end)
            live = SCC in reads or SCC not in writes
        for address in reversed(addresses):
            found.append(live or self.single)
            reads, writes = self._access(address)
            if SCC in writes:
                live = False
            if SCC in reads:
                live = True
        return found[::-1]

    def _access(self, address: int) -> tuple[frozenset[int], frozenset[int]]:
        try:
            return self.program.parsed(address)[1][:2]
        except CoasmError:
            return frozenset((SCC,)), frozenset()

    def item(self, context: Context, address: int) -> Item:
        """The instruction at *address*, prepared."""
        instruction = self.program.instructions[address]
        context.address, context.data = address, instruction.data
        context.now_clean = False
        try:
            parsed, used = self.program.parsed(address)
        except CoasmError as error:
            context.forget_clean()
            return Item(address, raiser(str(error)))
        context.access = used
        if context.mode & VSKIP and not is_a(parsed.mnemonic, "scalar"):
            return Item(address, nothing)
        mask = _bits((used.reads | used.writes) - {SCC})
        family = self.shared.processor.family
        counters = family.counters
        assert counters is not None  # of every target that is emulated
        if parsed.mnemonic in WAITS:
            waits = waits_of(parsed.mnemonic, instruction.data, counters)
            return Item(address, nothing, waits=waits)
        step = self._step(context, parsed)
        _update_clean(context, used.writes)
        if used.writes & self.program.decoded_registers:
            step = _forgetting(step, used.writes, self.shared.layout)
        if self.strict:
            step = checked(step, parsed, used, context)
        described = opcode(parsed.mnemonic, family.instructions)
        queue = counted_as(described, gds="gds" in parsed.modifiers) if described else ""
        flight = None
        if queue in counters.orders:
            targets = _bits(n for n in used.writes if n not in (SCC, EXEC, EXEC + 1))
            ordered = queue not in _UNORDERED and -1 not in counters.orders[queue].of
            flight = Flight(address, targets, ordered, context.writes_lds_late)
        written = _bits(used.writes - (used.reads - used.kept))
        sets_exec = EXEC in used.writes or EXEC + 1 in used.writes
        masked = takes_lanes(parsed)
        return Item(address, step, mask, written, queue, flight, None, masked, sets_exec)

    def _step(self, context: Context, parsed: Parsed) -> Step:
        """The step of an instruction; of one that cannot be emulated, one that says why."""
        try:
            return self.prepare(context, parsed)
        except Fault as fault:
            return raiser(str(fault))
        except Exception as error:
            return _mistake(error)

    def prepare(self, context: Context, parsed: Parsed) -> Step:
        """The step of an instruction.

        Raises:
            Fault: it cannot be emulated.
        """
        row = ROWS.get(parsed.mnemonic)
        if row is None:
            raise Fault("this instruction is not emulated")
        processor = self.shared.processor
        if opcode(parsed.mnemonic, processor.family.instructions) is None:
            raise Fault(f"{processor.name} has no {parsed.mnemonic}")
        taken = parsed._replace(modifiers=Taken(parsed.modifiers))
        context.begin()
        step = row.build(context, taken)
        check_taken(taken, context.seen, row.inert)
        context.check_index(parsed)
        for note in filter(None, (row.note, context.doubt)):
            self.notes[note] = None
        return step


def _known(block: Block, context: Context) -> Block:
    """*block*, with what is known of denormals before it and behind."""
    block.wanted, block.clean = _bits(context.wanted), _bits(context.clean)
    block.stays = 0 if context.forgot else ~_bits(context.touched)
    return block


def _update_clean(context: Context, writes: frozenset[int]) -> None:
    if EXEC in writes or EXEC + 1 in writes:
        context.forget_clean()
    for number in writes:
        if number >= VGPR:
            try:
                row = context.row(number)
            except Fault:
                continue
            context.wrote(row)


def _forgetting(step: Step, writes: frozenset[int], layout: Layout) -> Step:
    """*step*, then without the decoded operands that depend on what it writes."""
    rows = {n - VGPR if n < AGPR else layout.vgprs + n - AGPR for n in writes if n >= VGPR}

    def forgetting(s: Group) -> None:
        step(s)
        if s.decoded:
            for key in [k for k in s.decoded if not rows.isdisjoint(k.rows) or k.scale in rows]:
                del s.decoded[key]

    return forgetting


def _bits(numbers: Iterable[int]) -> int:
    found = 0
    for number in numbers:
        found |= 1 << number
    return found


def is_awake(s: Group) -> bool:
    """Whether a lane of a wave is switched on."""
    return s.full or bool(s.mask.any())


def watch(awake: list[bool], part: int) -> Step:
    """A step that notes whether the instructions behind a write of EXEC have lanes to work on."""

    def step(s: Group) -> None:
        if not awake[part]:
            awake[part] = is_awake(s)

    return step


def nothing(s: Group) -> None:
    """A step that does nothing."""


def raiser(text: str) -> Step:
    """A step that cannot be."""

    def step(s: Group) -> None:
        raise Fault(text)

    return step


def _mistake(error: Exception) -> Step:
    """A step that raises what went wrong in a builder: it counts where it is executed."""

    def step(s: Group) -> None:
        raise error

    return step
