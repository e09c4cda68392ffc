"""Wait counters over the control-flow graph: what may still be out where a register is used.

An operation of a counter is out until a wait has covered it on every way to a place. Those of one
order (:mod:`coasm.counters`) end as they were issued, so a count covers all but the youngest; where
what is out has no order, or has several, only 0 covers it. Source: LLVM's SIInsertWaitcnts.cpp and
the ISA guides; each case was measured with LLVM 22's ``si-insert-waitcnts``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache, reduce
from itertools import accumulate
from operator import or_, sub
from typing import NamedTuple

from coasm.counters import Counters, Orders, Waits
from coasm.flow.cfg import Block
from coasm.flow.forward import forward
from coasm.isa import SCC, Word
from coasm.isa.kinds import is_a
from coasm.isa.table import opcode
from coasm.isa.waits import counted_as, strictest, wait_texts, waits_of
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
    PIPELINED,
    REPLAYED,
    UNREAD,
)
from coasm.linter.states import states_of
from coasm.target import Family

__all__ = ["check_waits"]

_LDS_DMA, _DS = kind("lds_dma"), kind("ds")
_MFMA, _LOAD, _NO_VM = kind("mfma"), kind("load"), kind("ds flat")
_SCC_BIT = 1 << SCC
_REGISTERS = VGPRS | SGPRS | M0_BIT | EXEC_BITS | _SCC_BIT
#: The rule of a result that is used too early, by the kind of operation.
_RULES = {
    **dict.fromkeys(("load", "store", "sample", "bvh", "async"), "vmem-wait"),
    **dict.fromkeys(("lds", "gds", "parameter"), "lds-wait"),
    **dict.fromkeys(("scalar", "message", "scc"), "smem-wait"),
    **dict.fromkeys(("flat load", "flat store"), "flat-wait"),
}
#: The orders that nothing else is out beside: stores alone need not be followed there.
_ALONE = ("memory", "store", "load")
_FLAT = ("flat load", "flat store")


class _Out(NamedTuple):
    """An operation that may be out: what the counts of :class:`_Now` were when it was issued.

    ``at``: of each counter, None where it does not count there or is in. ``own``: of the order that
    it ends in there, None where it has none.
    """

    at: tuple[int | None, ...]
    own: tuple[int | None, ...]
    sure: int
    time: int


class _Now(NamedTuple):
    """How many operations have been issued, from anywhere on: differences alone matter.

    ``counts``: what counts in each counter. ``ordered``: what is in each order. ``sure``: what
    counts in the first counter by every reading. ``time`` is in units of four clocks, at least: a
    wait state for each instruction, its passes for an MFMA.
    """

    counts: tuple[int, ...]
    ordered: tuple[int, ...]
    sure: int
    time: int


class _State(NamedTuple):
    """What may be at a place. Sets of operations are integers, with the bits of :class:`_Facts`.

    ``out``: what may be out, by index, as seen from ``now``; it is not changed, but replaced.
    ``issued`` are its bits, ``registers`` wait for it, ``sources`` are still to be read by it.
    ``landed``: what a wait has covered on some way. ``passed``: what was out at a barrier.
    ``unread``: results that nothing has read; ``unread_registers`` has the registers they are in,
    and may have others. ``shadowing``: what was issued over such a result. ``shared``: what was put
    into LDS before a barrier. ``crossed``: writes to LDS that were out at the last barrier.
    """

    out: dict[int, _Out]
    now: _Now
    issued: int = 0
    registers: int = 0
    sources: int = 0
    landed: int = 0
    passed: int = 0
    unread: int = 0
    unread_registers: int = 0
    shadowing: int = 0
    shared: int = 0
    crossed: int = 0


class _Event(NamedTuple):
    """An instruction that the counters count, that waits, or that is a barrier.

    ``kind`` is that of the operation, ``orders`` what it ends in. ``result`` are the registers that
    it writes when it ends, ``sources`` those that it may read until then. ``asks``: what must be in
    before it. ``plain`` operations count and do nothing else: stores to memory, of which many may
    be out. ``disputed``: it counts by one of two readings alone.
    """

    kind: str
    orders: Orders | None
    result: int
    sources: int
    wait: bool
    asks: Waits | None
    begins_barrier: bool
    ends_barrier: bool
    disputed: bool
    plain: bool
    reads_lds: bool
    writes_lds: bool
    to_lds: bool

    @property
    def is_in_order(self) -> bool:
        """Whether those of its kind end in the order of their issue by all of their counters."""
        return self.orders is not None and all(self.orders.of[at] != -1 for at in self.orders.ends)


class _Step(NamedTuple):
    """What the counters need to know of an instruction."""

    reads: int
    touches: int
    writes: int
    time: int
    event: _Event | None


class _Facts:
    """The operations of a program: ``steps``, what each waits for, when each is issued at least.

    Those that may be out have a bit each, in order of their indexes. ``writes_lds`` and ``to_lds``
    are the bits of DS operations and of LDS-DMA, ``puts`` both.
    """

    def __init__(self, program: Program, counters: Counters) -> None:
        self.operations = program.operations
        self.counters = counters
        self.drained = [at for at, name in enumerate(counters.names) if name in counters.drained]
        self.family = family = program.family
        steps: dict[Operation, _Step] = {}
        for operation in self.operations:
            if operation not in steps:
                steps[operation] = _step(operation, family, counters)
        self.steps = [steps[operation] for operation in self.operations]
        self.clock = list(accumulate((step.time for step in self.steps), initial=0))
        self.waits: dict[int, Waits] = {}
        self.bits: dict[int, int] = {}
        self.indexes: list[int] = []
        self.writes_lds = self.to_lds = 0
        #: Register → the bits of what it waits for; and of several, as they were asked for.
        self._into: dict[int, int] = {}
        self._into_any: dict[int, int] = {}
        self._of_sources: dict[int, int] = {}
        for index, step in enumerate(self.steps):
            event = step.event
            if event is None or event.plain:
                continue
            if event.wait:
                item = program.instructions[index]
                self.waits[index] = waits_of(item.mnemonic, item.data, counters) or counters.none
            if event.kind:
                bit = self.bits[index] = 1 << len(self.indexes)
                self.indexes.append(index)
                self.writes_lds |= bit if event.writes_lds else 0
                self.to_lds |= bit if event.to_lds else 0
                for register in _ones(event.result):
                    self._into[register] = self._into.get(register, 0) | bit
                for register in _ones(event.sources):
                    self._of_sources[register] = self._of_sources.get(register, 0) | bit
        self.puts = self.writes_lds | self.to_lds

    def event(self, index: int) -> _Event:
        event = self.steps[index].event
        assert event is not None
        return event

    def orders(self, index: int) -> Orders:
        orders = self.event(index).orders
        assert orders is not None
        return orders

    def load_wait(self, index: int, behind: int) -> Waits:
        """The wait for a load to LDS that has so many behind it."""
        (counter, *_) = self.orders(index).ends
        count = min(behind, self.counters.most[counter])
        return tuple(count if at == counter else None for at in range(len(self.counters.bits)))

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

    def reading(self, registers: int) -> int:
        """The operations, as bits, that may still read any of *registers*."""
        return reduce(or_, (self._of_sources.get(one, 0) for one in _ones(registers)), 0)

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
            count = counters.behind_load(producer)
            if count is not None:
                user, least = self.during.get(producer, (index, count))
                self.during[producer] = user, min(least, count)
        self.late |= counters.landed

    def reads_lds(self, counters: _Counters, index: int) -> None:
        """A DS operation reads LDS."""
        facts = counters.facts
        for write in facts.of(counters.crossed):
            orders = facts.orders(write)
            needs = tuple(0 if at in orders.ends else None for at in range(len(orders.of)))
            self.early.append(_Early("lds-barrier", ADVICE, index, write, 0, needs))
        counters.crossed = 0
        self.shared |= counters.shared
        for producer in facts.of(counters.landed & facts.puts & ~counters.shared):
            self.alone.setdefault(producer, index)


def check_waits(program: Program) -> list[Finding]:
    """Where a register or LDS is used before what goes there has come.

    Only the first use of each is a finding: behind it the operation counts as waited for.
    """
    counters = program.family.counters
    if counters is None:
        return []
    facts = _Facts(program, counters)
    seen: dict[int, _Seen] = {}
    nothing = _State({}, _Now((0,) * len(counters.bits), (0,) * len(counters.order_names), 0, 0))

    def transfer(number: int, entry: _State) -> _State:
        seen[number], leaving = _walk(facts, program.blocks[number], entry)
        return leaving

    def merge(known: _State, new: _State) -> _State:
        return _merge(facts, known, new)

    forward(program.graph.follows, dict.fromkeys(program.reached, nothing), transfer, merge)
    blocks = [seen[number] for number in sorted(seen)]
    early = [item for block in blocks for item in block.early]
    early += _lds_early(program, facts, blocks)
    early.sort(key=lambda e: (e.user, e.producer))
    return [_finding(program, counters, item) for item in early]


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
            level = ADVICE if facts.event(producer).kind in PIPELINED else ERROR
            yield _Early("lds-dma-wait", level, user, producer, 0, facts.load_wait(producer, count))
    for producer, user in alone.items():
        if not facts.bits[producer] & shared and _has_waves(program, user):
            yield _Early("lds-barrier", ADVICE, user, producer, 0, facts.counters.none)


@lru_cache(maxsize=1 << 16)
def _step(operation: Operation, family: Family, counters: Counters) -> _Step:
    reads, touches = operation.reads, operation.reads | operation.writes
    time = operation.matrix.passes if operation.matrix else states_of(operation)
    event = _event(operation, family, counters)
    return _Step(reads, touches, operation.writes, time, event)


def _event(operation: Operation, family: Family, counters: Counters) -> _Event | None:
    name, kinds = operation.base, operation.kinds
    described = opcode(name, family.instructions)
    assert described is not None  # else there is no operation
    returns = bool(operation.writes & _REGISTERS)
    counted = counted_as(described, returns=returns, gds="gds" in operation.modifiers)
    orders = counters.orders.get(counted)
    counted = counted if orders else ""
    wait = name in counters.waits or name in counters.all
    begins, ends = is_a(name, "barrier begins"), is_a(name, "barrier ends")
    asks = _asks(operation, family, counters)
    if not (counted or wait or begins or ends or asks):
        return None
    result = operation.writes & _REGISTERS if counted else 0
    sources = _sources(operation, counted) if orders is not None and orders.sources else 0
    to_lds = bool(kinds & _LDS_DMA)
    ds = bool(kinds & _DS) and not is_a(name, "no LDS")
    reads_lds = ds and not is_a(name, "LDS write")
    writes_lds = ds and not is_a(name, "LDS read")
    plain = (
        not family.barrier_waits
        and not (result or sources or to_lds or writes_lds or wait or begins or ends or asks)
        and orders is not None
        and all(order is None or counters.order_names[order] in _ALONE for order in orders.of)
    )
    return _Event(
        counted,
        orders,
        result,
        sources,
        wait,
        asks,
        begins,
        ends,
        counted in counters.disputed,
        plain,
        reads_lds,
        writes_lds,
        to_lds,
    )


def _sources(operation: Operation, counted: str) -> int:
    """The registers that an operation may read some time after its issue."""
    reads = operation.reads & ~operation.writes
    return reads & (VGPRS if counted in ("export", "gds") else VGPRS | SGPRS)


def _asks(operation: Operation, family: Family, counters: Counters) -> Waits | None:
    """What has to be in before an instruction. Source: LLVM, generateWaitcntInstBefore."""
    if family.barrier_waits and is_a(operation.base, "barrier begins"):
        return (0,) * len(counters.bits)
    if is_a(operation.base, "message") and any(
        isinstance(operand, Word) and "MSG_GS_DONE" in operand.text
        for operand in operation.operands
    ):
        return counters.of(vmcnt=0)
    return None


def _has_waves(program: Program, index: int) -> bool:
    """Whether the kernel at operation *index* may run with more than one wave in a workgroup."""
    name = program.name_at(index)
    for kernel in program.kernels:
        if kernel.name == name:
            size = kernel.metadata.get(".max_flat_workgroup_size")
            return not isinstance(size, int) or size > 64
    return False


def _merge(facts: _Facts, known: _State, new: _State) -> _State:
    """What may be where two ways meet: the youngest of each."""
    out, now = _merged_out(facts, known, new)
    sets = tuple(map(or_, known[2:], new[2:]))
    if out is known.out and sets == known[2:]:
        return known
    return _State(out, now, *sets)


def _merged_out(facts: _Facts, known: _State, new: _State) -> tuple[dict[int, _Out], _Now]:
    """The youngest of what may be out on both ways, as seen from a common now."""
    if not new.out:
        return known.out, known.now
    if not known.out:
        return new.out, new.now
    counts = tuple(map(sub, known.now.counts, new.now.counts))
    ordered = tuple(map(sub, known.now.ordered, new.now.ordered))
    sure, time = known.now.sure - new.now.sure, known.now.time - new.now.time
    later = max(*counts, *ordered, sure) > 0
    if new.out is known.out and not later and time <= 0:
        return known.out, known.now
    oldest = known.now.time - OLDEST  # what is older is not told apart
    out = known.out
    for index, at in new.out.items():
        before = out.get(index)
        if before is at and not later and (time <= 0 or at.time + time <= oldest):
            continue
        of = facts.orders(index).of
        after = _Out(
            tuple(n if n is None else n + more for n, more in zip(at.at, counts, strict=True)),
            tuple(
                n if n is None else n + ordered[order or 0]
                for n, order in zip(at.own, of, strict=True)
            ),
            at.sure + sure,
            at.time + time,
        )
        if before is not None:
            after = _Out(
                tuple(map(_later, before.at, after.at)),
                tuple(map(_later, before.own, after.own)),
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


def _walk(facts: _Facts, block: Block, entry: _State) -> tuple[_Seen, _State]:
    """One block: what is seen in it, and what may be out where it ends."""
    counters = _Counters(facts, entry, block.first)
    seen = _Seen()
    steps = facts.steps[block.first : block.last]
    for index, (reads, touches, writes, _, event) in enumerate(steps, block.first):
        if event is not None and event.asks is not None:
            counters.ask(index, event, seen)
        if counters.unread_registers & reads:
            counters.read(reads)
        if counters.registers & touches or counters.sources & writes:
            early = counters.early(index)
            if early:
                seen.early += early
                counters.wait(reduce(strictest, (item.needs for item in early)), repair=True)
        if event is None:
            continue
        if event.wait:
            counters.wait(facts.waits[index])
        if event.begins_barrier:
            counters.barrier()
        if event.ends_barrier:
            counters.meet()
        if event.reads_lds or event.writes_lds:
            seen.uses_lds(counters, index)
        if event.reads_lds:
            seen.reads_lds(counters, index)
        if event.kind:
            counters.issue(index, event)
    return seen, counters.leaving(block.last)


class _Counters:
    """What is out, along a block: :class:`_State`, being changed."""

    def __init__(self, facts: _Facts, entry: _State, first: int) -> None:
        self.facts = facts
        (
            self.out,
            now,
            self.issued,
            self.registers,
            self.sources,
            self.landed,
            self.passed,
            self.unread,
            self.unread_registers,
            self.shadowing,
            self.shared,
            self.crossed,
        ) = entry
        self.counts, self.ordered = list(now.counts), list(now.ordered)
        self.sure = now.sure
        self.begin = now.time - facts.clock[first]
        self.entered = self.out

    def time(self, index: int) -> int:
        """When operation *index* begins."""
        return self.begin + self.facts.clock[index]

    def read(self, registers: int) -> None:
        """Something reads *registers*."""
        self.unread &= ~self.facts.into(registers)
        self.unread_registers &= ~registers

    def barrier(self) -> None:
        """The wave says that it has come here."""
        self.crossed = self.issued & self.facts.writes_lds
        self.passed |= self.issued
        self.shared |= self.crossed | self.landed & self.facts.puts

    def meet(self) -> None:
        """All waves of the workgroup have come here; who came first is known."""
        if self.registers & _SCC_BIT:
            scc = [index for index in self.out if self.facts.event(index).kind == "scc"]
            for index in scc:
                self._remove(index)
            self._update()

    def _unordered(self, counter: int) -> bool:
        """Whether something is out that may end before what was issued before it."""
        first = None
        for index, at in self.out.items():
            if at.at[counter] is not None:
                order = self.facts.orders(index).of[counter]
                if order == -1 or (first is not None and order != first):
                    return True
                first = order
        return False

    def _behind(self, index: int, counter: int) -> int:
        """How many came after it that end in the same order; less than none where there is none."""
        own = self.out[index].own[counter]
        order = self.facts.orders(index).of[counter]
        return -1 if own is None or order is None else self.ordered[order] - own

    def surely_behind(self, index: int, counter: int) -> int | None:
        """How many operations came after it that count in *counter* by every reading.

        None where it does not count there, or is in.
        """
        at = self.out[index]
        issued = at.at[counter]
        if issued is None:
            return None
        return self.counts[counter] - issued if counter else self.sure - at.sure

    def behind_load(self, index: int) -> int | None:
        """How many came after a load to LDS by the counter that it has; None where it is in."""
        return self.surely_behind(index, self.facts.orders(index).ends[0])

    def issue(self, index: int, event: _Event) -> None:
        """Operation *index* goes out."""
        assert event.orders is not None
        of = event.orders.of
        if self.sources and self.facts.drained:
            self._drain(of)
        for counter in event.orders.counted:
            self.counts[counter] += 1
            order = of[counter]
            if order is not None and order >= 0:
                self.ordered[order] += 1
        self.sure += of[0] is not None and not event.disputed
        if event.plain:
            return
        if self.out is self.entered:
            self.out = dict(self.out)
        at: list[int | None] = [None] * len(of)
        own: list[int | None] = [None] * len(of)
        for counter in event.orders.counted:
            at[counter] = self.counts[counter]
            order = of[counter]
            if order is not None and order >= 0:
                own[counter] = self.ordered[order]
        self.out[index] = _Out(tuple(at), tuple(own), self.sure, self.time(index + 1))
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
        self.sources |= event.sources
        self.unread_registers |= result

    def _drain(self, of: Sequence[int | None]) -> None:
        """Something of the orders *of* goes out: what has others has read its registers."""
        for counter in self.facts.drained:
            if of[counter] is None:
                continue
            for index, out in list(self.out.items()):
                order = self.facts.orders(index).of[counter]
                if out.at[counter] is not None and order != of[counter]:
                    at = (*out.at[:counter], None, *out.at[counter + 1 :])
                    self._change(index, None if self._is_in(index, at) else out._replace(at=at))
        self._update()

    def _read_until(self, read: int) -> None:
        """What was issued before one that is in has read its registers, in that order.

        LLVM 22 takes a wait for N loads for one of N in xcnt, stores or not.
        """
        for counter in self.facts.drained:
            for index, out in list(self.out.items()):
                own = out.own[counter]
                if out.at[counter] is not None and own is not None and own <= read:
                    at = (*out.at[:counter], None, *out.at[counter + 1 :])
                    self._change(index, None if self._is_in(index, at) else out._replace(at=at))

    def _change(self, index: int, out: _Out | None) -> None:
        if out is None:
            self._remove(index)
            return
        if self.out is self.entered:
            self.out = dict(self.out)
        self.out[index] = out

    def _remove(self, index: int) -> None:
        if self.out is self.entered:
            self.out = dict(self.out)
        del self.out[index]

    def wait(self, waits: Waits, *, repair: bool = False) -> None:
        """At most so many operations of each counter are out from here on.

        *repair*: as if there were such a wait; it says nothing of what the program waits for.
        """
        gone: list[int] = []
        fewer = False
        read = 0
        for counter, count in enumerate(waits):
            if count is None:
                continue
            last = self.counts[counter] - count
            covered = [
                i for i, out in self.out.items() if (n := out.at[counter]) is not None and n <= last
            ]
            if not covered:
                continue
            if count and self._unordered(counter):
                # So many of their own kind behind them cover those that end in order; LLVM waits
                # for all where something else is out, too.
                for index in covered:
                    if self._behind(index, counter) >= count:
                        self.landed |= self.facts.bits[index]
                continue
            if self.out is self.entered:
                self.out = dict(self.out)
            fewer = True
            for index in covered:
                out = self.out[index]
                at = (*out.at[:counter], None, *out.at[counter + 1 :])
                if self._is_in(index, at):
                    gone.append(index)
                    for drained in self.facts.drained:
                        read = max(read, out.own[drained] or 0)
                    del self.out[index]
                else:
                    self.out[index] = out._replace(at=at)
        if fewer:
            if read:
                self._read_until(read)
            self._update()
        over = self.registers
        for index in sorted(gone, reverse=True) if not repair else ():
            # It matters that it has landed where it is seen, and nothing goes over it.
            result, bit = self.facts.event(index).result, self.facts.bits[index]
            if (result and not result & over) or bit & self.facts.puts:
                self.landed |= bit
            over |= result

    def _is_in(self, index: int, at: tuple[int | None, ...]) -> bool:
        """Whether nothing need wait any longer for an operation that is out *at* counters."""
        event, orders = self.facts.event(index), self.facts.orders(index)
        if all(at[counter] is None for counter in orders.ends):
            return True
        needs_end = event.result or event.to_lds or event.writes_lds
        has_read = all(at[counter] is None for counter in orders.sources)
        return not needs_end and bool(event.sources) and has_read

    def _update(self) -> None:
        """What is out has become less."""
        self.issued = self.registers = self.sources = 0
        for index, out in self.out.items():
            event = self.facts.event(index)
            self.issued |= self.facts.bits[index]
            self.registers |= event.result
            by = self.facts.orders(index).sources
            if event.sources and any(out.at[counter] is not None for counter in by):
                self.sources |= event.sources

    def ask(self, index: int, event: _Event, seen: _Seen) -> None:
        """Operation *index* is only right where what it asks for is in."""
        asks = event.asks
        assert asks is not None
        early = []
        for counter, count in enumerate(asks):
            out = [one for one, at in self.out.items() if at.at[counter] is not None]
            if count is not None and out:
                needs = tuple(count if at == counter else None for at in range(len(asks)))
                rule = "barrier-wait" if event.begins_barrier else "message-wait"
                early.append(_Early(rule, ADVICE, index, max(out), 0, needs))
        if early:
            seen.early.append(early[0]._replace(needs=reduce(strictest, (e.needs for e in early))))
            self.wait(seen.early[-1].needs, repair=True)

    def early(self, index: int) -> list[_Early]:
        """The operations whose result, or whose sources, operation *index* uses too early."""
        found = []
        operation = self.facts.operations[index]
        touches = operation.reads | operation.writes
        for producer in self.facts.of(self.issued & self.facts.into(touches)):
            overlap = self.facts.event(producer).result & touches
            if self._is_after(index, producer):
                overlap &= operation.role("sources")  # what it only writes comes in order
            if overlap and not self._counted_out(producer):
                level = self._level(producer, index, overlap)
                needs = self._needs(producer, self.facts.orders(producer).ends)
                rule = _RULES[self.facts.event(producer).kind]
                found.append(_Early(rule, level, index, producer, overlap, needs))
        if self.sources & operation.writes:
            found += self._overwritten(index, operation.writes, {one.producer for one in found})
        return found

    def _counted_out(self, producer: int) -> bool:
        """Whether more came behind than the counter of memory counts: they went out because it had
        ended.

        What Triton 3.9 compiles builds on it: 63 loads behind, and no wait.
        """
        orders = self.facts.orders(producer)
        counter = orders.ends[0]
        order = orders.of[counter]
        if order is None or order < 0 or len(orders.ends) > 1:
            return False
        if self.facts.counters.order_names[order] not in _ALONE:
            return False
        behind = self.surely_behind(producer, counter)
        most = self.facts.counters.most[counter]
        return behind is not None and min(behind, self._behind(producer, counter)) > most

    def _overwritten(self, index: int, writes: int, known: set[int]) -> Iterator[_Early]:
        """The operations that may still read what operation *index* writes."""
        for producer in self.facts.of(self.issued & self.facts.reading(writes & self.sources)):
            sources = self.facts.orders(producer).sources
            overlap = self.facts.event(producer).sources & writes
            if overlap and producer not in known:
                left = [at for at in sources if not self._reads_before(index, producer, at)]
                needs = self._needs(producer, left)
                if any(count is not None for count in needs):
                    names = self.facts.counters.names
                    replays = all(names[counter] in REPLAYED for counter in sources)
                    level = ADVICE if replays else ERROR
                    yield _Early("source-wait", level, index, producer, overlap, needs)

    def _reads_before(self, index: int, producer: int, counter: int) -> bool:
        """Whether two operations read their registers in the order in which they were issued."""
        event = self.facts.steps[index].event
        orders = event.orders if event is not None else None
        order = self.facts.orders(producer).of[counter]
        return orders is not None and orders.of[counter] == order != -1

    def _needs(self, producer: int, of: Sequence[int]) -> Waits:
        """The wait for an operation by the counters *of* it."""
        return tuple(
            self._needed(counter, self.surely_behind(producer, counter)) if counter in of else None
            for counter in range(len(self.counts))
        )

    def _is_after(self, index: int, producer: int) -> bool:
        """Whether the results of two operations come in the order in which they were issued."""
        event, own = self.facts.steps[index].event, self.facts.event(producer)
        if event is None or event.kind != own.kind or not own.is_in_order:
            return False
        return own.kind == "lds" or not self.facts.family.loads_pass_loads

    def _is_same_kind(self, index: int, kind: str) -> bool:
        event = self.facts.steps[index].event
        return event is not None and event.kind == kind and self.facts.event(index).is_in_order

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
        (counter,) = self.facts.orders(producer).ends
        order = self.out[producer].own[counter]
        return all(
            out.at[counter] is None or own is None or order is None or order <= own
            for out in self.out.values()
            for own in (out.own[counter],)
        )

    def _level(self, producer: int, index: int, overlap: int) -> str:
        """An error, but for what kernels that work do: see :mod:`coasm.linter.rules.waits`."""
        user = self.facts.operations[index]
        age = self.time(index) - self.out[producer].time
        own, bit = self.facts.event(producer).kind, self.facts.bits[producer]
        from_lds = own == "lds"
        orders = self.facts.orders(producer)
        if (
            self.landed & self.facts.into(overlap)
            or (not overlap & user.reads and self._is_same_load(producer, index))
            or (bit & self.passed and age >= (BEHIND_BARRIER if from_lds else OLDEST))
            or (
                # LLVM waits where the flat one may have been for LDS: what it knows to be memory
                # ends in order with the other (hasOtherPendingVmemTypes).
                own in _FLAT
                and user.kinds & _LOAD
                and not user.kinds & _NO_VM
                and not overlap & user.reads
            )
            or (bit & self.shadowing and from_lds and user.kinds & _MFMA)
            or (from_lds and self._behind(producer, orders.ends[0]) >= LDS_AT_ONCE)
            or (from_lds and not overlap & ~user.role("ab_late") and self._is_next(producer))
            or (from_lds and age >= (OLD_FOR_MFMA if user.kinds & _MFMA else OLD))
            or (age >= UNREAD and not overlap & user.reads)
            # Halves: _scatter_cuda.so, gfx1200: global_load_d16_hi_u8 v0 over global_load_d16_u8.
            or (
                self._is_same_kind(index, own)
                and not overlap & ~user.reads
                and not overlap & user.role("sources")
            )
        ):
            return ADVICE
        return ERROR

    def _needed(self, counter: int, behind: int | None) -> int | None:
        if behind is None:
            return None
        most = self.facts.counters.most[counter]
        return 0 if self._unordered(counter) else min(behind, most)

    def leaving(self, last: int) -> _State:
        """What may be where the block ends, before *last*."""
        return _State(
            self.out,
            _Now(tuple(self.counts), tuple(self.ordered), self.sure, self.time(last)),
            self.issued,
            self.registers,
            self.sources,
            self.landed,
            self.passed,
            self.unread,
            self.unread_registers,
            self.shadowing,
            self.shared,
            self.crossed,
        )


def _finding(program: Program, counters: Counters, early: _Early) -> Finding:
    wait = ", ".join(wait_texts(early.needs, counters))
    named_counts = {
        name: count
        for name, count in zip(counters.names, early.needs, strict=True)
        if count is not None
    }
    case = early.level
    if early.rule == "lds-barrier":
        case = "no wait" if named_counts else "no barrier"
    finding = RULES[early.rule].finding(
        case,
        program.name_at(early.user),
        program.place(early.user),
        registers=named(early.overlap),
        wait=wait,
    )
    return finding._replace(
        producer=program.place(early.producer),
        needs=min(named_counts.values(), default=None),
        fix=None if early.rule == "lds-barrier" else Fix(waits=tuple(named_counts.items())),
    )
