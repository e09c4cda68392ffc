"""Wait counters over the control-flow graph: what may still be out where a register is used.

An operation of a counter is out until a wait has covered it on every way to a place. VMEM and DS
end in their order, so a count covers all but the youngest; SMEM, messages and FLAT end in any, and
only 0 covers them and what is out beside them. Source: LLVM's SIInsertWaitcnts.cpp and the CDNA3
and CDNA4 ISA guides, section 4.4; each case was measured with LLVM 22's ``si-insert-waitcnts``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

from coasm.isa.waits import LGKM_MAX, VM_MAX, Waits, counted_at_most, counted_in, waits_of
from coasm.linter.findings import ADVICE, ERROR, Finding, Fix
from coasm.linter.operation import EXEC_BITS, M0_BIT, SGPRS, VGPRS, Operation, kind, named
from coasm.linter.program import Block, Program
from coasm.linter.rules import RULES
from coasm.linter.states import states_of

__all__ = ["check_waits"]

_LDS_DMA, _DS, _WAIT, _BARRIER = kind("lds_dma"), kind("ds"), kind("wait"), kind("barrier")
_MFMA, _LOAD, _NO_VM = kind("mfma"), kind("load"), kind("ds flat")
_REGISTERS = VGPRS | SGPRS | M0_BIT | EXEC_BITS
#: The rule of a result that is used too early, by the queue that it is in.
_RULES = {"vm": "vmem-wait", "lds": "lds-wait", "scalar": "smem-wait", "flat": "flat-wait"}
#: Their results come in the order in which they were asked for.
_IN_ORDER = ("vm", "lds")
#: DS operations that use no LDS.
_NO_MEMORY = ("ds_bpermute", "ds_permute", "ds_swizzle", "ds_nop", "ds_gws")

# Kernels of aiter that run on hardware use results without a wait. What they do is advice, not an
# error (:meth:`_Counters._level`). Ages are in units of four clocks.

#: A result of LDS behind an s_barrier. bwd_hd128_dq_convert_bf16_rtne_group: ds_read_b32 v16,
#: s_barrier, buffer_store_dword v16, an age of 9.
_BEHIND_BARRIER = 4
#: A result of LDS that was asked for long before (fmoe_fp8_blockscale_g1u1_subGU_256: ds_read_b32
#: v64, global_atomic_pk_add_bf16 of v64, more than 300).
_OLD = 48
#: The same, read by an MFMA (fwd_hd256_fp8_causal: ds_read_b64_tr_b8 a[38:39], then with lgkmcnt(8)
#: where 4 would do v_mfma_f32_32x32x64_f8f6f4 of a[32:39], 20).
_OLD_FOR_MFMA = 20
#: What overwrites the result of a load that nobody read
#: (fmoe_bf16_pertokenFp8_g1u1_tkw1_gelu_1tg_32x64: buffer_load_dword v42, v_lshrrev_b32 v42, 42).
_UNREAD = 40
#: A result of memory behind an s_barrier: other waves take their time there, or the way without the
#: wait is not taken (mla_a8w8_qh32_qseqlen4_gqaratio8_ps: buffer_load_dword v30, two s_barrier,
#: v_mul_lo_u32 of v30, 69). Advice is also where a wait covers the load, or another into that
#: register, on another way; and what an MFMA reads that a newer ds_read will go over before
#: anything has read the older (mla_a8w8_qh16_qseqlen4_gqaratio16_msk0_lse_cprr_v3_ps:
#: ds_read_b128 a[120:123], six instructions later the MFMA that reads the old one).
_OLDEST = 64
#: So many LDS operations are out at most: the next waits until there is room. Kernels use that
#: (pa_bf16_pertokenFp8_gqa16_1tg_4w_qlen64_msk1_ps: 16 ds_read_b128, ``s_waitcnt lgkmcnt(15)``,
#: which is no wait, then an MFMA of the first); LLVM asks for lgkmcnt(14).
_MOST = LGKM_MAX + 1


class _Out(NamedTuple):
    """An operation that may be out: how many of its counters' came after it (None: it is in).

    ``sure``: how many of them came that count in vmcnt by every reading (:mod:`coasm.isa.waits`).
    ``behind``: how many came after it that end in the same order. ``age``: the time since, at
    least, in units of four clocks and up to :data:`_OLDEST`: a wait state for each instruction, its
    passes for an MFMA.
    """

    vm: int | None
    lgkm: int | None
    behind: int
    age: int
    sure: int


#: Makes one of its fields in half the time of the class's own call.
_NEW_OUT: Callable[[Iterable[object]], _Out] = partial(tuple.__new__, _Out)


class _State(NamedTuple):
    """What may be at a place, by the operations' indexes.

    ``out``: what may be out. ``landed``: what a wait has covered on some way. ``passed``: what was
    out at a barrier. ``unread``: results that nothing has read. ``shadowing``: what was issued
    over such a result. ``shared``: what was put into LDS before a barrier. ``crossed``: writes to
    LDS that were out at the last barrier.
    """

    out: dict[int, _Out]
    landed: set[int]
    passed: set[int]
    unread: set[int]
    shadowing: set[int]
    shared: set[int]
    crossed: set[int]

    @classmethod
    def nothing(cls) -> _State:
        return cls({}, set(), set(), set(), set(), set(), set())


class _Facts(NamedTuple):
    """What the counters need to know of each operation of a program, by its index.

    ``plain`` operations count and do nothing else: stores to memory, of which many may be out.
    """

    operations: Sequence[Operation]
    queues: Sequence[str]
    disputed: frozenset[int]
    results: Sequence[int]
    waits: dict[int, Waits]
    reads_lds: frozenset[int]
    writes_lds: frozenset[int]
    to_lds: frozenset[int]
    puts: frozenset[int]
    times: Sequence[int]
    plain: frozenset[int]


class _Early(NamedTuple):
    """Operation *user* comes before *producer* is in: it needs a wait for at most so many."""

    rule: str
    level: str
    user: int
    producer: int
    overlap: int
    needs: Waits


class _LdsReads(NamedTuple):
    """Who uses LDS while an LDS-DMA is out, with how many behind that; who reads it when a write
    has landed but no barrier followed.

    ``late`` and ``shared`` are those behind which, and behind the barrier, somebody does so too.
    """

    early: dict[int, tuple[int, int]]
    late: set[int]
    alone: dict[int, int]
    shared: set[int]


def check_waits(program: Program) -> list[Finding]:
    """Where a register or LDS is used before what goes there has come.

    Only the first use of each is a finding: behind it the operation counts as waited for.
    """
    facts = _facts(program)
    entries = [_State.nothing() for _ in program.blocks]
    found: dict[int, list[_Early]] = {}
    reads = _LdsReads({}, set(), {}, set())
    todo = sorted(program.reached, reverse=True)
    waiting = set(todo)
    while todo:
        number = todo.pop()
        waiting.discard(number)
        block = program.blocks[number]
        found[number], leaving = _walk(program.operations, facts, block, entries[number], reads)
        for following in block.follows:
            if _merge(entries[following], leaving) and following not in waiting:
                waiting.add(following)
                todo.append(following)
    early = [item for number in sorted(found) for item in found[number]]
    early += [
        _Early("lds-dma-wait", ERROR, user, producer, 0, Waits(min(count, VM_MAX), None))
        for producer, (user, count) in reads.early.items()
        if producer not in reads.late
    ]
    early += [
        _Early("lds-barrier", ADVICE, user, producer, 0, Waits(None, None))
        for producer, user in reads.alone.items()
        if producer not in reads.shared and _has_waves(program, user)
    ]
    return [_finding(program, item) for item in sorted(early, key=lambda e: (e.user, e.producer))]


def _facts(program: Program) -> _Facts:
    queues, results, reads, writes, to_lds = [], [], [], [], []
    waits: dict[int, Waits] = {}
    disputed: set[int] = set()
    for index, operation in enumerate(program.operations):
        queue = counted_at_most(operation.base)
        queues.append(queue)
        if queue and not counted_in(operation.base):
            disputed.add(index)
        results.append(operation.writes & _REGISTERS if queue else 0)
        if operation.kinds & _WAIT:
            waits[index] = waits_of(program.instructions[index].data)
        elif operation.kinds & _LDS_DMA:
            to_lds.append(index)
        elif operation.kinds & _DS and not operation.base.startswith(_NO_MEMORY):
            if not operation.base.startswith("ds_write"):
                reads.append(index)
            if not operation.base.startswith("ds_read"):
                writes.append(index)
    lds = (frozenset(reads), frozenset(writes), frozenset(to_lds), frozenset(writes + to_lds))
    times = [
        operation.matrix.passes if operation.matrix else states_of(operation)
        for operation in program.operations
    ]
    plain = frozenset(
        index
        for index, queue in enumerate(queues)
        if queue in _IN_ORDER and not results[index] and index not in lds[3]
    )
    return _Facts(
        program.operations, queues, frozenset(disputed), results, waits, *lds, times, plain
    )


def _has_waves(program: Program, index: int) -> bool:
    """Whether the kernel at operation *index* may run with more than one wave in a workgroup."""
    name = program.name_at(index)
    for kernel in program.kernels:
        if kernel.name == name:
            size = kernel.metadata.get(".max_flat_workgroup_size")
            return not isinstance(size, int) or size > 64
    return False


def _merge(into: _State, leaving: _State) -> bool:
    """Take up what may be on another way, the youngest of each; whether that changed something."""
    changed = False
    for index, out in leaving.out.items():
        before = into.out.get(index)
        if before is not None:
            out = _Out(
                _younger(before.vm, out.vm),
                _younger(before.lgkm, out.lgkm),
                min(before.behind, out.behind),
                min(before.age, out.age),
                min(before.sure, out.sure),
            )
        if out != before:
            into.out[index] = out
            changed = True
    for known, more in zip(into[1:], leaving[1:], strict=True):
        if not more <= known:
            known |= more
            changed = True
    return changed


def _younger(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return one if other is None else other
    return min(one, other)


def _walk(
    operations: Sequence[Operation], facts: _Facts, block: Block, entry: _State, reads: _LdsReads
) -> tuple[list[_Early], _State]:
    """One block: what is used too early in it, and what may be out where it ends."""
    counters = _Counters(facts, entry)
    found: list[_Early] = []
    crossed = set(entry.crossed)
    for index in range(block.first, block.last):
        operation = operations[index]
        if counters.unread_mask & operation.reads:
            counters.read(operation.reads)
        if counters.mask & (operation.reads | operation.writes):
            early = counters.early(index, operation)
            if early:
                found += early
                counters.wait(_strictest(item.needs for item in early), repair=True)
        if index in facts.waits:
            counters.wait(facts.waits[index])
        elif operation.kinds & _BARRIER:
            crossed = {write for write in counters.out if write in facts.writes_lds}
            counters.passed.update(counters.out)
            counters.shared.update(crossed, counters.landed & facts.puts)
        if index in facts.reads_lds or index in facts.writes_lds:
            for producer, at in counters.out.items():
                if producer in facts.to_lds and at[0] is not None:
                    count = counters.surely_behind(producer)
                    user, least = reads.early.get(producer, (index, count))
                    reads.early[producer] = user, min(least, count)
            reads.late.update(counters.landed)
        if index in facts.reads_lds:
            for write in sorted(crossed):
                found.append(_Early("lds-barrier", ADVICE, index, write, 0, Waits(None, 0)))
            crossed = set()
            reads.shared.update(counters.shared)
            for producer in counters.landed & facts.puts - counters.shared:
                reads.alone.setdefault(producer, index)
        counters.time += facts.times[index]
        if facts.queues[index]:
            counters.issue(index)
    return found, counters.leaving(crossed)


def _strictest(needs: Iterable[Waits]) -> Waits:
    vm: int | None = None
    lgkm: int | None = None
    for need in needs:
        vm, lgkm = _younger(vm, need.vm), _younger(lgkm, need.lgkm)
    return Waits(vm, lgkm)


class _Counters:
    """What is out, along a block. ``mask`` are the registers that wait for it."""

    def __init__(self, facts: _Facts, entry: _State) -> None:
        self.facts = facts
        self.issued = [0, 0]
        self.ordered = dict.fromkeys(_IN_ORDER, 0)
        self.time = 0
        # Operation → the numbers of its counters when it was issued; None: that one is in.
        self.out: dict[int, list[int | None]] = {}
        self.order: dict[int, int] = {}
        self.since: dict[int, int] = {}
        self.counted = 0
        self.sure: dict[int, int] = {}
        for index, (vm, lgkm, behind, age, sure) in entry.out.items():
            self.sure[index] = -sure
            self.order[index] = -behind
            self.out[index] = [None if count is None else -count for count in (vm, lgkm)]
            self.since[index] = -age
        self.landed = set(entry.landed)
        self.passed = set(entry.passed)
        self.unread = set(entry.unread)
        self.shadowing = set(entry.shadowing)
        self.shared = set(entry.shared)
        self.mask = self.unread_mask = 0
        self._update()

    def _update(self) -> None:
        self.mask = self._registers(self.out)
        self.unread_mask = self._registers(self.unread)

    def _registers(self, indexes: Iterable[int]) -> int:
        registers = 0
        for index in indexes:
            registers |= self.facts.results[index]
        return registers

    def read(self, registers: int) -> None:
        """Something reads *registers*."""
        results = self.facts.results
        self.unread = {index for index in self.unread if not results[index] & registers}
        self.unread_mask = self._registers(self.unread)

    def _unordered(self, counter: int) -> bool:
        """Whether something is out that may end before what was issued before it."""
        return any(
            at[counter] is not None and self.facts.queues[index] not in _IN_ORDER
            for index, at in self.out.items()
        )

    def _behind(self, index: int) -> int:
        """How many came after it that end in the same order; less than none where there is none."""
        queue = self.facts.queues[index]
        return self.ordered[queue] - self.order[index] if queue in _IN_ORDER else -1

    def surely_behind(self, index: int) -> int:
        """How many operations came after it that count in vmcnt by every reading."""
        return self.counted - self.sure[index]

    def _age(self, index: int) -> int:
        return self.time - self.since[index]

    def issue(self, index: int) -> None:
        """Operation *index* goes out."""
        queue = self.facts.queues[index]
        at: list[int | None] = [None, None]
        for counter, queues in ((0, ("vm", "flat")), (1, ("lds", "scalar", "flat"))):
            if queue in queues:
                self.issued[counter] += 1
                at[counter] = self.issued[counter]
        if queue in _IN_ORDER:
            self.ordered[queue] += 1
            self.order[index] = self.ordered[queue]
        if at[0] is not None and index not in self.facts.disputed:
            self.counted += 1
        if index in self.facts.plain:
            return
        self.sure[index] = self.counted
        self.out.pop(index, None)
        self.out[index] = at
        self.since[index] = self.time
        self.landed.discard(index)
        self.passed.discard(index)
        self.shadowing.discard(index)
        self.shared.discard(index)
        result = self.facts.results[index]
        landed = self.landed
        if result and landed and result & self._registers(landed):
            self.landed = {old for old in landed if not self.facts.results[old] & result}
        if result & self.unread_mask:
            over = {old for old in self.unread if self.facts.results[old] & result}
            if over & landed:
                self.shadowing.add(index)
            self.unread -= over
        if result:
            self.unread.add(index)
        self.mask |= result
        self.unread_mask |= result

    def wait(self, waits: Waits, *, repair: bool = False) -> None:
        """At most so many operations of each counter are out from here on.

        *repair*: as if there were such a wait; it says nothing of what the program waits for.
        """
        ended: set[int] = set()
        for counter, count in enumerate(waits):
            if count is None:
                continue
            last = self.issued[counter] - count
            covered = [
                i for i, at in self.out.items() if (n := at[counter]) is not None and n <= last
            ]
            if count and self._unordered(counter):
                # So many of their own kind behind them cover those that end in order; LLVM waits
                # for all where something else is out, too.
                self.landed.update(i for i in covered if self._behind(i) >= count)
                continue
            for index in covered:
                self.out[index][counter] = None
            ended.update(covered)
        gone = [index for index in sorted(ended) if self.out[index] == [None, None]]
        for index in gone:
            del self.out[index]
        if ended:
            self._update()
        over = self.mask
        for index in reversed(gone) if not repair else ():
            # It matters that it has landed where it is seen, and nothing goes over it.
            result = self.facts.results[index]
            if (result and not result & over) or index in self.facts.puts:
                self.landed.add(index)
            over |= result

    def early(self, index: int, operation: Operation) -> list[_Early]:
        """The operations whose result *operation* uses too early."""
        found = []
        queue = self.facts.queues[index]
        for producer, at in self.out.items():
            overlap = self.facts.results[producer] & (operation.reads | operation.writes)
            own = self.facts.queues[producer]
            if queue == own and queue in _IN_ORDER:
                overlap &= operation.role("sources")  # what it only writes comes in order
            if overlap:
                level = self._level(producer, index, overlap)
                vm = None if at[0] is None else self.surely_behind(producer)
                lgkm = None if at[1] is None else self.issued[1] - at[1]
                needs = Waits(self._needed(0, vm, VM_MAX), self._needed(1, lgkm, LGKM_MAX))
                found.append(_Early(_RULES[own], level, index, producer, overlap, needs))
        return found

    def _is_same_load(self, one: int, other: int) -> bool:
        """Whether both are a scalar load of the same address: the same comes in any order.

        Kernels that work have them twice: bwd_hd128_bf16_a16_rtz_pddv (gfx942), for s95 and s96.
        """
        operations = self.facts.operations[one : other + 1]
        if not operations or not operations[0].base.startswith(("s_load_", "s_buffer_load_")):
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
        queues = self.facts.queues
        return all(
            self.order[producer] <= self.order[other]
            for other in self.out
            if queues[other] == "lds"
        )

    def _level(self, producer: int, index: int, overlap: int) -> str:
        """An error, but for what kernels that work do: see :data:`_BEHIND_BARRIER` and below."""
        user = self.facts.operations[index]
        age = self._age(producer)
        from_lds = self.facts.queues[producer] == "lds"
        if (
            any(self.facts.results[other] & overlap for other in self.landed)
            or (not overlap & user.reads and self._is_same_load(producer, index))
            or (producer in self.passed and age >= (_BEHIND_BARRIER if from_lds else _OLDEST))
            or (
                # LLVM waits where the flat one may have been for LDS: what it knows to be memory
                # ends in order with the other (hasOtherPendingVmemTypes).
                self.facts.queues[producer] == "flat"
                and user.kinds & _LOAD
                and not user.kinds & _NO_VM
                and not overlap & user.reads
            )
            or (producer in self.shadowing and from_lds and user.kinds & _MFMA)
            or (from_lds and self._behind(producer) >= _MOST)
            or (from_lds and not overlap & ~user.role("ab_late") and self._is_next(producer))
            or (from_lds and age >= (_OLD_FOR_MFMA if user.kinds & _MFMA else _OLD))
            or (age >= _UNREAD and not overlap & user.reads)
        ):
            return ADVICE
        return ERROR

    def _needed(self, counter: int, behind: int | None, most: int) -> int | None:
        if behind is None:
            return None
        return 0 if self._unordered(counter) else min(behind, most)

    def leaving(self, crossed: set[int]) -> _State:
        """What may be where the block ends."""
        vm, lgkm = self.issued
        out = {
            index: _NEW_OUT(
                (
                    None if at[0] is None else vm - at[0],
                    None if at[1] is None else lgkm - at[1],
                    max(self._behind(index), 0),
                    min(self.time - self.since[index], _OLDEST),
                    self.counted - self.sure[index],
                )
            )
            for index, at in self.out.items()
        }
        return _State(
            out, self.landed, self.passed, self.unread, self.shadowing, self.shared, crossed
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
