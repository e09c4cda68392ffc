"""Wait counters over the control-flow graph: what may still be out where a register is used.

An operation of a counter is out until a wait has covered it on every way to a place. VMEM and DS
end in their order, so a count covers all but the youngest; SMEM, messages and FLAT end in any, and
only 0 covers them and what is out beside them. Source: LLVM's SIInsertWaitcnts.cpp and the CDNA3
and CDNA4 ISA guides, section 4.4; each case was measured with LLVM 22's ``si-insert-waitcnts``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from operator import or_, sub
from typing import NamedTuple

from coasm.flow.cfg import Block
from coasm.flow.forward import forward
from coasm.isa.kinds import is_a
from coasm.isa.waits import LGKM_MAX, VM_MAX, Waits, counted_at_most, counted_in, waits_of
from coasm.linter.findings import ADVICE, ERROR, Finding, Fix
from coasm.linter.operation import EXEC_BITS, M0_BIT, SGPRS, VGPRS, Operation, kind, named
from coasm.linter.program import Program
from coasm.linter.rules import RULES
from coasm.linter.rules.waits import (
    BEHIND_BARRIER,
    LDS_AT_ONCE,
    OLD,
    OLD_FOR_MFMA,
    OLDEST,
    UNREAD,
)
from coasm.linter.states import states_of

__all__ = ["check_waits"]

_LDS_DMA, _DS, _WAIT, _BARRIER = kind("lds_dma"), kind("ds"), kind("wait"), kind("barrier")
_MFMA, _LOAD, _NO_VM = kind("mfma"), kind("load"), kind("ds flat")
_REGISTERS = VGPRS | SGPRS | M0_BIT | EXEC_BITS
#: The rule of a result that is used too early, by the queue that it is in.
_RULES = {"vm": "vmem-wait", "lds": "lds-wait", "scalar": "smem-wait", "flat": "flat-wait"}
#: Their results come in the order in which they were asked for.
_IN_ORDER = ("vm", "lds")


class _Out(NamedTuple):
    """An operation that may be out: what each count of :class:`_Now` was when it was issued.

    ``vm`` and ``lgkm`` are None where it does not count there or is in. ``own`` counts what ends in
    the same order, and is None where its queue has none.
    """

    vm: int | None
    lgkm: int | None
    own: int | None
    sure: int
    time: int


class _Now(NamedTuple):
    """How many operations have been issued, from anywhere on: differences alone matter.

    ``vm`` and ``lgkm``: what counts in each counter. ``vm_only`` and ``lds``: what is in those
    queues. ``sure``: what counts in vmcnt by every reading (:mod:`coasm.isa.waits`). ``time`` is in
    units of four clocks, at least: a wait state for each instruction, its passes for an MFMA.
    """

    vm: int
    lgkm: int
    vm_only: int
    lds: int
    sure: int
    time: int


class _State(NamedTuple):
    """What may be at a place. Sets of operations are integers, with the bits of :class:`_Facts`.

    ``out``: what may be out, by index, as seen from ``now``; it is not changed, but replaced.
    ``issued`` are its bits, ``registers`` wait for it. ``landed``: what a wait has covered on some
    way. ``passed``: what was out at a barrier. ``unread``: results that nothing has read;
    ``unread_registers`` has the registers they are in, and may have others. ``shadowing``: what was
    issued over such a result. ``shared``: what was put into LDS before a barrier. ``crossed``:
    writes to LDS that were out at the last barrier.
    """

    out: dict[int, _Out]
    now: _Now
    issued: int = 0
    registers: int = 0
    landed: int = 0
    passed: int = 0
    unread: int = 0
    unread_registers: int = 0
    shadowing: int = 0
    shared: int = 0
    crossed: int = 0


_NOTHING = _State({}, _Now(0, 0, 0, 0, 0, 0))


class _Event(NamedTuple):
    """An instruction that the counters count, that waits, or that is a barrier.

    ``plain`` operations count and do nothing else: stores to memory, of which many may be out.
    ``disputed``: it counts by one of two readings alone.
    """

    queue: str
    result: int
    wait: bool
    barrier: bool
    disputed: bool
    plain: bool
    reads_lds: bool
    writes_lds: bool
    to_lds: bool


class _Step(NamedTuple):
    """What the counters need to know of an instruction."""

    reads: int
    touches: int
    time: int
    event: _Event | None


class _Facts:
    """The operations of a program: ``steps``, what each waits for, when each is issued at least.

    Those that may be out have a bit each, in order of their indexes. ``writes_lds`` and ``to_lds``
    are the bits of DS operations and of LDS-DMA, ``puts`` both.
    """

    def __init__(self, program: Program) -> None:
        self.operations = program.operations
        self.steps = [_step(operation) for operation in self.operations]
        self.clock = list(accumulate((step.time for step in self.steps), initial=0))
        self.waits: dict[int, Waits] = {}
        self.bits: dict[int, int] = {}
        self.indexes: list[int] = []
        self.writes_lds = self.to_lds = 0
        #: Register → the bits of what it waits for; and of several, as they were asked for.
        self._into: dict[int, int] = {}
        self._into_any: dict[int, int] = {}
        for index, step in enumerate(self.steps):
            event = step.event
            if event is None or event.plain:
                continue
            if event.wait:
                self.waits[index] = waits_of(program.instructions[index].data)
            if event.queue:
                bit = self.bits[index] = 1 << len(self.indexes)
                self.indexes.append(index)
                self.writes_lds |= bit if event.writes_lds else 0
                self.to_lds |= bit if event.to_lds else 0
                for register in _ones(event.result):
                    self._into[register] = self._into.get(register, 0) | bit
        self.puts = self.writes_lds | self.to_lds

    def event(self, index: int) -> _Event:
        event = self.steps[index].event
        assert event is not None
        return event

    def into(self, registers: int) -> int:
        """The operations, as bits, whose results go to any of *registers*."""
        registers &= _REGISTERS
        bits = self._into_any.get(registers)
        if bits is None:
            bits = 0
            for register in _ones(registers):
                bits |= self._into.get(register, 0)
            self._into_any[registers] = bits
        return bits

    def of(self, bits: int) -> Iterator[int]:
        """The indexes of the operations with *bits*."""
        return (self.indexes[at] for at in _ones(bits))


def _ones(bits: int) -> Iterator[int]:
    """The numbers of the bits that are set."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


class _Early(NamedTuple):
    """Operation *user* comes before *producer* is in: it needs a wait for at most so many."""

    rule: str
    level: str
    user: int
    producer: int
    overlap: int
    needs: Waits


class _Seen:
    """What is seen in a block: what is used too early (``early``), and how LDS is used.

    ``during``: who uses LDS while an LDS-DMA is out, with how many behind that. ``late`` are those
    that have landed where somebody does so. ``alone``: who reads LDS when a write has landed but no
    barrier followed; ``shared`` are those behind which there was one.
    """

    def __init__(self) -> None:
        self.early: list[_Early] = []
        self.during: dict[int, tuple[int, int]] = {}
        self.late = 0
        self.alone: dict[int, int] = {}
        self.shared = 0

    def uses_lds(self, counters: _Counters, index: int) -> None:
        """A DS operation reads or writes LDS."""
        facts = counters.facts
        for producer in facts.of(counters.issued & facts.to_lds):
            if counters.out[producer].vm is not None:
                count = counters.surely_behind(producer)
                user, least = self.during.get(producer, (index, count))
                self.during[producer] = user, min(least, count)
        self.late |= counters.landed

    def reads_lds(self, counters: _Counters, index: int) -> None:
        """A DS operation reads LDS."""
        facts = counters.facts
        for write in facts.of(counters.crossed):
            self.early.append(_Early("lds-barrier", ADVICE, index, write, 0, Waits(None, 0)))
        counters.crossed = 0
        self.shared |= counters.shared
        for producer in facts.of(counters.landed & facts.puts & ~counters.shared):
            self.alone.setdefault(producer, index)


def check_waits(program: Program) -> list[Finding]:
    """Where a register or LDS is used before what goes there has come.

    Only the first use of each is a finding: behind it the operation counts as waited for.
    """
    facts = _Facts(program)
    seen: dict[int, _Seen] = {}

    def transfer(number: int, entry: _State) -> _State:
        seen[number], leaving = _walk(facts, program.blocks[number], entry)
        return leaving

    forward(program.graph.follows, dict.fromkeys(program.reached, _NOTHING), transfer, _merge)
    blocks = [seen[number] for number in sorted(seen)]
    early = [item for block in blocks for item in block.early]
    early += _lds_early(program, facts, blocks)
    return [_finding(program, item) for item in sorted(early, key=lambda e: (e.user, e.producer))]


def _lds_early(program: Program, facts: _Facts, blocks: Sequence[_Seen]) -> Iterator[_Early]:
    """Who uses LDS before an LDS-DMA is in, or another wave's write is seen."""
    late = shared = 0
    during: dict[int, tuple[int, int]] = {}
    alone: dict[int, int] = {}
    for block in blocks:
        late |= block.late
        shared |= block.shared
        for producer, (user, count) in block.during.items():
            first, least = during.get(producer, (user, count))
            during[producer] = first, min(least, count)
        alone = {**block.alone, **alone} if block.alone else alone
    for producer, (user, count) in during.items():
        if not facts.bits[producer] & late:
            yield _Early("lds-dma-wait", ERROR, user, producer, 0, Waits(min(count, VM_MAX), None))
    for producer, user in alone.items():
        if not facts.bits[producer] & shared and _has_waves(program, user):
            yield _Early("lds-barrier", ADVICE, user, producer, 0, Waits(None, None))


@lru_cache(maxsize=1 << 16)
def _step(operation: Operation) -> _Step:
    reads, touches = operation.reads, operation.reads | operation.writes
    time = operation.matrix.passes if operation.matrix else states_of(operation)
    queue = counted_at_most(operation.base)
    wait, barrier = bool(operation.kinds & _WAIT), bool(operation.kinds & _BARRIER)
    if not (queue or wait or barrier):
        return _Step(reads, touches, time, None)
    result = operation.writes & _REGISTERS if queue else 0
    to_lds = bool(operation.kinds & _LDS_DMA)
    ds = bool(operation.kinds & _DS) and not is_a(operation.base, "no LDS")
    reads_lds = ds and not is_a(operation.base, "LDS write")
    writes_lds = ds and not is_a(operation.base, "LDS read")
    plain = queue in _IN_ORDER and not result and not to_lds and not writes_lds
    disputed = bool(queue) and not counted_in(operation.base)
    event = _Event(queue, result, wait, barrier, disputed, plain, reads_lds, writes_lds, to_lds)
    return _Step(reads, touches, time, event)


def _has_waves(program: Program, index: int) -> bool:
    """Whether the kernel at operation *index* may run with more than one wave in a workgroup."""
    name = program.name_at(index)
    for kernel in program.kernels:
        if kernel.name == name:
            size = kernel.metadata.get(".max_flat_workgroup_size")
            return not isinstance(size, int) or size > 64
    return False


def _merge(known: _State, new: _State) -> _State:
    """What may be where two ways meet: the youngest of each."""
    out, now = _merged_out(known, new)
    sets = tuple(map(or_, known[2:], new[2:]))
    if out is known.out and sets == known[2:]:
        return known
    return _State(out, now, *sets)


def _merged_out(known: _State, new: _State) -> tuple[dict[int, _Out], _Now]:
    """The youngest of what may be out on both ways, as seen from a common now."""
    if not new.out:
        return known.out, known.now
    if not known.out:
        return new.out, new.now
    vm, lgkm, vm_only, lds, sure, time = map(sub, known.now, new.now)
    if new.out is known.out and max(vm, lgkm, vm_only, lds, sure, time) <= 0:
        return known.out, known.now
    oldest = known.now.time - OLDEST  # what is older is not told apart
    later = max(vm, lgkm, vm_only, lds, sure) > 0
    out = known.out
    for index, at in new.out.items():
        before = out.get(index)
        if before is at and not later and (time <= 0 or at.time + time <= oldest):
            continue
        after = _Out(
            None if at.vm is None else at.vm + vm,
            None if at.lgkm is None else at.lgkm + lgkm,
            None if at.own is None else at.own + (vm_only if at.lgkm is None else lds),
            at.sure + sure,
            at.time + time,
        )
        if before is not None:
            after = _Out(
                _later(before.vm, after.vm),
                _later(before.lgkm, after.lgkm),
                _later(before.own, after.own),
                max(before.sure, after.sure),
                max(before.time, after.time) if after.time > oldest else before.time,
            )
            if after == before:
                continue
        if out is known.out:
            out = dict(out)
        out[index] = after
    return out, known.now


def _later(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return one if other is None else other
    return max(one, other)


def _younger(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return one if other is None else other
    return min(one, other)


def _walk(facts: _Facts, block: Block, entry: _State) -> tuple[_Seen, _State]:
    """One block: what is seen in it, and what may be out where it ends."""
    counters = _Counters(facts, entry, block.first)
    seen = _Seen()
    steps = facts.steps[block.first : block.last]
    for index, (reads, touches, _, event) in enumerate(steps, block.first):
        if counters.unread_registers & reads:
            counters.read(reads)
        if counters.registers & touches:
            early = counters.early(index)
            if early:
                seen.early += early
                counters.wait(_strictest(item.needs for item in early), repair=True)
        if event is None:
            continue
        if event.wait:
            counters.wait(facts.waits[index])
        elif event.barrier:
            counters.barrier()
        if event.reads_lds or event.writes_lds:
            seen.uses_lds(counters, index)
        if event.reads_lds:
            seen.reads_lds(counters, index)
        if event.queue:
            counters.issue(index, event)
    return seen, counters.leaving(block.last)


def _strictest(needs: Iterable[Waits]) -> Waits:
    vm: int | None = None
    lgkm: int | None = None
    for need in needs:
        vm, lgkm = _younger(vm, need.vm), _younger(lgkm, need.lgkm)
    return Waits(vm, lgkm)


class _Counters:
    """What is out, along a block: :class:`_State`, being changed."""

    def __init__(self, facts: _Facts, entry: _State, first: int) -> None:
        self.facts = facts
        (
            self.out,
            now,
            self.issued,
            self.registers,
            self.landed,
            self.passed,
            self.unread,
            self.unread_registers,
            self.shadowing,
            self.shared,
            self.crossed,
        ) = entry
        self.vm, self.lgkm, self.vm_only, self.lds, self.sure, time = now
        self.begin = time - facts.clock[first]
        self.entered = self.out

    def time(self, index: int) -> int:
        """When operation *index* begins."""
        return self.begin + self.facts.clock[index]

    def read(self, registers: int) -> None:
        """Something reads *registers*."""
        self.unread &= ~self.facts.into(registers)
        self.unread_registers &= ~registers

    def barrier(self) -> None:
        """All waves of the workgroup have come here."""
        self.crossed = self.issued & self.facts.writes_lds
        self.passed |= self.issued
        self.shared |= self.crossed | self.landed & self.facts.puts

    def _unordered(self, counter: int) -> bool:
        """Whether something is out that may end before what was issued before it."""
        return any(at.own is None and at[counter] is not None for at in self.out.values())

    def _behind(self, at: _Out) -> int:
        """How many came after it that end in the same order; less than none where there is none."""
        if at.own is None:
            return -1
        return (self.vm_only if at.lgkm is None else self.lds) - at.own

    def surely_behind(self, index: int) -> int:
        """How many operations came after it that count in vmcnt by every reading."""
        return self.sure - self.out[index].sure

    def issue(self, index: int, event: _Event) -> None:
        """Operation *index* goes out."""
        vm = lgkm = own = None
        if event.queue in ("vm", "flat"):
            vm = self.vm = self.vm + 1
            self.sure += not event.disputed
        if event.queue in ("lds", "scalar", "flat"):
            lgkm = self.lgkm = self.lgkm + 1
        if event.queue == "vm":
            own = self.vm_only = self.vm_only + 1
        elif event.queue == "lds":
            own = self.lds = self.lds + 1
        if event.plain:
            return
        if self.out is self.entered:
            self.out = dict(self.out)
        self.out[index] = _Out(vm, lgkm, own, self.sure, self.time(index + 1))
        bit, result = self.facts.bits[index], event.result
        self.issued |= bit
        landed = self.landed & ~bit
        self.passed &= ~bit
        self.shadowing &= ~bit
        self.shared &= ~bit
        over = self.facts.into(result)
        self.landed = landed & ~over
        if over & self.unread & landed:
            self.shadowing |= bit
        if result:
            self.unread = self.unread & ~over | bit
        self.registers |= result
        self.unread_registers |= result

    def wait(self, waits: Waits, *, repair: bool = False) -> None:
        """At most so many operations of each counter are out from here on.

        *repair*: as if there were such a wait; it says nothing of what the program waits for.
        """
        gone: list[int] = []
        fewer = False
        for counter, count in enumerate(waits):
            if count is None:
                continue
            last = (self.vm, self.lgkm)[counter] - count
            covered = [
                i for i, at in self.out.items() if (n := at[counter]) is not None and n <= last
            ]
            if not covered:
                continue
            if count and self._unordered(counter):
                # So many of their own kind behind them cover those that end in order; LLVM waits
                # for all where something else is out, too.
                for index in covered:
                    if self._behind(self.out[index]) >= count:
                        self.landed |= self.facts.bits[index]
                continue
            if self.out is self.entered:
                self.out = dict(self.out)
            fewer = True
            for index in covered:
                at = self.out[index]
                if at[1 - counter] is None:
                    gone.append(index)
                    del self.out[index]
                else:
                    self.out[index] = at._replace(lgkm=None) if counter else at._replace(vm=None)
        if fewer:
            self._update()
        over = self.registers
        for index in sorted(gone, reverse=True) if not repair else ():
            # It matters that it has landed where it is seen, and nothing goes over it.
            result, bit = self.facts.event(index).result, self.facts.bits[index]
            if (result and not result & over) or bit & self.facts.puts:
                self.landed |= bit
            over |= result

    def _update(self) -> None:
        """What is out has become less."""
        self.issued = self.registers = 0
        for index in self.out:
            self.issued |= self.facts.bits[index]
            self.registers |= self.facts.event(index).result

    def early(self, index: int) -> list[_Early]:
        """The operations whose result operation *index* uses too early."""
        found = []
        operation = self.facts.operations[index]
        touches = operation.reads | operation.writes
        event = self.facts.steps[index].event
        queue = event.queue if event is not None else ""
        for producer in self.facts.of(self.issued & self.facts.into(touches)):
            at, own = self.out[producer], self.facts.event(producer)
            overlap = own.result & touches
            if queue == own.queue and queue in _IN_ORDER:
                overlap &= operation.role("sources")  # what it only writes comes in order
            if overlap and not self._counted_out(producer, own):
                level = self._level(producer, index, overlap)
                vm = None if at.vm is None else self.surely_behind(producer)
                lgkm = None if at.lgkm is None else self.lgkm - at.lgkm
                needs = Waits(self._needed(0, vm, VM_MAX), self._needed(1, lgkm, LGKM_MAX))
                found.append(_Early(_RULES[own.queue], level, index, producer, overlap, needs))
        return found

    def _counted_out(self, producer: int, event: _Event) -> bool:
        """Whether more came behind than vmcnt counts: they went out because it had ended.

        What Triton 3.9 compiles builds on it: 63 loads behind, and no wait.
        """
        at = self.out[producer]
        if event.queue != "vm" or at.own is None:
            return False
        return min(self.surely_behind(producer), self.vm_only - at.own) > VM_MAX

    def _is_same_load(self, one: int, other: int) -> bool:
        """Whether both are a scalar load of the same address: the same comes in any order.

        Kernels that work have them twice: bwd_hd128_bf16_a16_rtz_pddv (gfx942), for s95 and s96.
        """
        operations = self.facts.operations[one : other + 1]
        if not operations or not is_a(operations[0].base, "scalar load"):
            return False
        first, last = operations[0], operations[-1]
        same = (first.base, first.operands, first.modifiers) == (
            last.base,
            last.operands,
            last.modifiers,
        )
        return same and not any(between.writes & first.reads for between in operations)

    def _is_next(self, producer: int) -> bool:
        """Whether no other LDS operation ends before it.

        An MFMA reads the last four of eight registers later than the others
        (mla_a8w8_qh16_qseqlen1_gqaratio16_ps, gfx950: ``s_waitcnt lgkmcnt(4)`` where 3 is needed,
        v_mfma_f32_16x16x128_f8f6f4 of a[40:47], of which a[44:47] is the next to come).
        """
        order = self.out[producer].own
        return all(
            at.lgkm is None or at.own is None or order is None or order <= at.own
            for at in self.out.values()
        )

    def _level(self, producer: int, index: int, overlap: int) -> str:
        """An error, but for what kernels that work do: see :mod:`coasm.linter.rules.waits`."""
        user = self.facts.operations[index]
        age = self.time(index) - self.out[producer].time
        queue, bit = self.facts.event(producer).queue, self.facts.bits[producer]
        from_lds = queue == "lds"
        if (
            self.landed & self.facts.into(overlap)
            or (not overlap & user.reads and self._is_same_load(producer, index))
            or (bit & self.passed and age >= (BEHIND_BARRIER if from_lds else OLDEST))
            or (
                # LLVM waits where the flat one may have been for LDS: what it knows to be memory
                # ends in order with the other (hasOtherPendingVmemTypes).
                queue == "flat"
                and user.kinds & _LOAD
                and not user.kinds & _NO_VM
                and not overlap & user.reads
            )
            or (bit & self.shadowing and from_lds and user.kinds & _MFMA)
            or (from_lds and self._behind(self.out[producer]) >= LDS_AT_ONCE)
            or (from_lds and not overlap & ~user.role("ab_late") and self._is_next(producer))
            or (from_lds and age >= (OLD_FOR_MFMA if user.kinds & _MFMA else OLD))
            or (age >= UNREAD and not overlap & user.reads)
        ):
            return ADVICE
        return ERROR

    def _needed(self, counter: int, behind: int | None, most: int) -> int | None:
        if behind is None:
            return None
        return 0 if self._unordered(counter) else min(behind, most)

    def leaving(self, last: int) -> _State:
        """What may be where the block ends, before *last*."""
        sure, time = self.sure, self.time(last)
        return _State(
            self.out,
            _Now(self.vm, self.lgkm, self.vm_only, self.lds, sure, time),
            self.issued,
            self.registers,
            self.landed,
            self.passed,
            self.unread,
            self.unread_registers,
            self.shadowing,
            self.shared,
            self.crossed,
        )


def _finding(program: Program, early: _Early) -> Finding:
    parts = [
        f"{name}({count})"
        for name, count in (("vmcnt", early.needs.vm), ("lgkmcnt", early.needs.lgkm))
        if count is not None
    ]
    wait = "s_waitcnt " + " ".join(parts)
    case, fix = early.level, Fix(0, early.needs.vm, early.needs.lgkm)
    if early.rule == "lds-barrier":
        case = "no barrier" if early.needs.lgkm is None else "no wait"
    finding = RULES[early.rule].finding(
        case,
        program.name_at(early.user),
        program.place(early.user),
        registers=named(early.overlap),
        wait=wait,
    )
    return finding._replace(
        producer=program.place(early.producer),
        needs=_strict(early.needs),
        fix=None if early.rule == "lds-barrier" else fix,
    )


def _strict(waits: Waits) -> int | None:
    return min((count for count in waits if count is not None), default=None)
