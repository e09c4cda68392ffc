"""Mutants of real kernels that break a rule: how many of them ``coasm lint`` catches.

An ``s_waitcnt`` is weakened by one, an ``s_nop`` shortened, an instruction between a producer and
its consumer left out. Whether that breaks a rule is worked out here, by arithmetic of its own along
straight code, from the tables of the CDNA3 and CDNA4 ISA guides and what LLVM does (see
docs/lint.md); nothing of it is lint's. As a script: ``python -m benchmarks.lint_mutants [COUNT]``.
"""

from __future__ import annotations

import os
import random
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import coasm
from coasm.asm.code import Instruction, branch_target
from coasm.asm.decode import decode
from coasm.codeobject import CodeObject, load
from coasm.errors import CoasmError
from coasm.isa import EXEC, M0, VCC, VGPR, Parsed, Register, access, parse
from coasm.isa.registers import END
from coasm.isa.table import opcode
from coasm.linter.findings import ERROR
from coasm.linter.lint import judge
from coasm.linter.program import Program, build_program
from coasm.linter.sources import Source, listing_source
from coasm.linter.states import check_states
from coasm.linter.waits import check_waits
from coasm.llvm import Llvm, find_llvm

SEED = 942950
#: Mutants that are wanted, how many of one kernel, how many are also built and linted as listings.
MUTANTS, OF_A_KERNEL, REBUILT = 5000, 24, 30
#: Kernels larger than this are left out: each of their mutants takes as long as many others.
LARGEST = 9000
#: The part that has to be caught.
WANTED = 0.99

_WINDOW = 20
_NO_VM, _NO_LGKM = 63, 15
_SCALARS = (1 << 128) - 1 - (1 << M0)
_EXEC, _VCC, _M0 = 0b11 << EXEC, 0b11 << VCC, 1 << M0
_VECTORS = (1 << END) - (1 << VGPR)


# --- instructions -------------------------------------------------------------------------------


class Op(NamedTuple):
    """An instruction: what it reads and writes, as bits of register numbers, and its operands."""

    base: str
    reads: int
    writes: int
    operands: tuple[int, ...]
    sort: str
    parsed: Parsed

    @property
    def touches(self) -> int:
        return self.reads | self.writes


@lru_cache(maxsize=1 << 16)
def op_of(text: str) -> Op:
    parsed = parse(text)
    used = access(parsed, "950" if opcode(parsed.mnemonic, "950") else "942")
    base = parsed.mnemonic
    operands = tuple(
        ((1 << one.size) - 1) << one.first if isinstance(one, Register) else 0
        for one in parsed.operands
    )
    return Op(base, _bits(used.reads), _bits(used.writes), operands, _sort(base), parsed)


def _bits(numbers: Iterable[int]) -> int:
    return sum(1 << number for number in numbers)


def _sort(base: str) -> str:
    if base.startswith(("v_mfma", "v_smfmac")):
        return "mfma"
    if base.startswith("v_"):
        return "valu"
    if base.startswith(("buffer_", "tbuffer_", "global_", "scratch_", "flat_")):
        return "cache" if re.match(r"buffer_(inv|wbl2)", base) else "vmem"
    if base.startswith("ds_"):
        return "ds"
    if base.startswith(("s_load", "s_buffer_load", "s_memtime", "s_memrealtime")):
        return "smem"
    return "salu"


def matrix(op: Op, is_950: bool) -> tuple[str, int]:
    """The pipe and the passes of an MFMA, by its shape."""
    sparse = re.match(r"v_smfmac_\w+?_(\d+)x\d+x\d+_", op.base)
    if sparse:
        return "xdl", int(sparse[1]) // 4
    shape = re.match(r"v_mfma_(?:scale_)?(\w+?)_(\d+)x\d+x\d+(?:_(\d+)b)?_(\w+)", op.base)
    assert shape, op.base
    side, blocks, sources = int(shape[2]), int(shape[3] or 1), shape[4]
    if sources == "f64":
        return ("dgemm4", 4) if side == 4 else ("dgemm16", 16 if is_950 else 8)
    if sources == "f32":
        return "sgemm", {4: 2, 16: 8, 32: 16}[side]
    if sources == "f8f6f4":
        formats = [int(op.parsed.modifiers.get(name, "0"), 0) for name in ("cbsz", "blgp")]
        return "xdl", side // 4 * (2 if min(formats) < 2 else 1)
    return "xdl", 2 if side == 4 else side // 4 * (2 if blocks > 1 else 1)


# --- wait states --------------------------------------------------------------------------------


class Need(NamedTuple):
    """*states* are needed where *overlap* is written by nothing in between."""

    rule: str
    states: int
    overlap: int


def _roles(op: Op) -> tuple[int, int]:
    """What an MFMA reads as A, B, index and scale; what as C."""
    first, *rest = op.operands
    if op.base.startswith("v_smfmac"):
        return sum_bits(rest), first
    return sum_bits((*rest[:2], *rest[3:])), rest[2] if len(rest) > 2 else 0


def sum_bits(sets: Iterable[int]) -> int:
    found = 0
    for one in sets:
        found |= one
    return found


def _from_matrix(one: Op, two: Op, is_950: bool) -> Iterator[Need]:
    pipe, passes = matrix(one, is_950)
    more = int(is_950 and passes != 2)
    read = {
        "xdl": passes + 3 + more,
        "sgemm": passes + 2,
        "dgemm4": 6,
        "dgemm16": 19 if is_950 else 11,
    }[pipe]
    d, c = one.writes, _roles(one)[1]
    if two.sort == "mfma":
        ab, onto = _roles(two)
        yield Need("mfma-source", read, d & ab)
        if not d & onto:
            return
        to_xdl = matrix(two, is_950)[0] == "xdl"
        other = {
            "xdl": passes + 1 + (int(is_950) if to_xdl else more),
            "sgemm": 0 if to_xdl else passes,
            "dgemm4": 0 if to_xdl else 4,
            "dgemm16": 0 if to_xdl else 17 if is_950 else 9,
        }[pipe]
        exact = {"dgemm4": 4, "dgemm16": 0}.get(pipe, 2 if passes == 2 else 0)
        if d != onto:
            yield Need("mfma-accumulator", other, d & onto)
        elif one.base == two.base:
            yield Need("mfma-same-accumulator", exact, d)
        else:
            yield Need("mfma-opcode", max(exact, other), d)
        return
    if two.sort == "valu":
        yield Need("mfma-read", read, d & two.reads)
        if pipe.startswith("dgemm") and re.match(r"v_fmac?_f64", two.base):
            yield Need("dgemm-fma", 2, d)
    elif two.sort in ("vmem", "ds"):
        slow = {"dgemm4": 9, "dgemm16": 18}.get(pipe, read)
        yield Need("mfma-memory-read", slow, d & two.reads)
    else:
        return
    yield Need("mfma-overwrite", read, d & two.writes)
    if pipe == "xdl":
        yield Need("mfma-overwrite-c", passes - 1, c & two.writes)


_TRANS = re.compile(r"v_(exp|log|rcp|rcp_iflag|rsq|sqrt|sin|cos)_f")
_LANES = re.compile(r"v_(readlane|readfirstlane|writelane)_")
_SWAP = re.compile(r"v_permlane(16|32)_swap")


def _is_part(op: Op) -> bool:
    """Whether a VALU instruction writes half of a register, by its op_sel."""
    if re.match(r"v_(pk|dot|fma_mix|mad_mix|permlane|accvgpr)", op.base):
        return False
    selected = op.parsed.modifiers.get("op_sel", "[]").strip("[]").split(",")
    return len(selected) == len(op.operands) and selected[-1] == "1"


def _masks(op: Op) -> int:
    if op.base.startswith("v_cndmask") or re.match(r"v_(addc|subb|subbrev)_co", op.base):
        return (op.operands[-1] & _SCALARS) or _VCC & op.reads
    return 0


def _from_valu(one: Op, two: Op, is_950: bool) -> Iterator[Need]:
    vectors, scalars = one.writes & _VECTORS, one.writes & _SCALARS & ~_EXEC
    dpp = two.parsed.encoding.endswith("dpp")
    is_dot = one.base.startswith("v_dot")
    if two.sort == "mfma":
        if is_dot:
            yield Need("mfma-dot-write", 3, vectors & two.reads)
        else:
            yield Need("mfma-valu-write", 2, vectors & two.reads)
        if one.base.startswith("v_cmpx"):
            yield Need("mfma-exec-write", 4, _EXEC)
    if two.sort == "vmem":
        yield Need("valu-sgpr-vmem", 5, scalars & two.reads)
        if one.base.startswith("v_cmpx"):
            yield Need("valu-exec-vmem", 5, _EXEC)
    if is_dot and two.sort in ("valu", "vmem", "ds"):
        if one.base == two.base:
            yield Need("dot-read", 3, vectors & sum_bits(two.operands[1:3]))
        else:
            yield Need("dot-read", 3, vectors & two.reads)
            yield Need("dot-overwrite", 3, vectors & two.writes)
    if two.sort in ("valu", "mfma"):
        if _TRANS.match(one.base) and not _TRANS.match(two.base):
            yield Need("trans", 1, vectors & two.reads)
        if _is_part(one):
            yield Need("sub-dword", 1, vectors & two.touches)
    if two.sort != "valu":
        return
    if two.base.startswith(("v_readlane", "v_readfirstlane")):
        yield Need("valu-readlane", 1, vectors & two.reads)
    if dpp:
        yield Need("valu-dpp", 2, vectors & two.reads)
    if is_950 and _SWAP.match(two.base):
        yield Need("permlane-swap", 2, vectors & two.touches)
    if one.base.startswith("v_cmpx"):
        if _LANES.match(two.base):
            yield Need("valu-exec-lane", 4, _EXEC)
        if dpp:
            yield Need("valu-exec-dpp", 5, _EXEC)
    select = two.operands[2] if re.match(r"v_(read|write)lane_", two.base) else 0
    yield Need("valu-sgpr-lane", 4, scalars & select)
    if two.base.startswith("v_div_fmas"):
        yield Need("valu-vcc-div-fmas", 4, scalars & _VCC)
    else:
        masks = _masks(two)
        yield Need("valu-sgpr-mask", 2, scalars & masks)
        yield Need("valu-sgpr-constant", 2, scalars & two.reads & ~masks & ~select)


def _from_store(one: Op, two: Op) -> Iterator[Need]:
    at = 0 if one.base.startswith(("buffer", "tbuffer")) else 1
    data = one.operands[at] & _VECTORS
    if bin(data).count("1") < 3:
        return
    offset = one.operands[3] & _SCALARS if not at and len(one.operands) > 3 else 0
    if two.sort in ("valu", "mfma"):
        yield Need("wide-store", 1 if offset else 2, data & two.writes)
    elif two.sort in ("vmem", "ds"):
        yield Need("wide-store-load", 1, data & two.writes)


def needs(one: Op, two: Op, is_950: bool) -> list[Need]:
    """The states that *two* needs behind *one*, by rule; those with 0 left out."""
    found: Iterator[Need] = iter(())
    if one.sort == "mfma":
        found = _from_matrix(one, two, is_950)
    elif one.sort == "valu":
        found = _from_valu(one, two, is_950)
    elif one.sort == "vmem" and "_store_" in one.base:
        found = _from_store(one, two)
    elif one.sort == "salu" and one.writes & _M0 and _takes_m0(two):
        found = iter((Need("m0-write", 1, _M0),))
    return [need for need in found if need.states and need.overlap]


def _takes_m0(op: Op) -> bool:
    if re.match(r"ds_(read|write)_addtid|s_movrel|s_sendmsg", op.base):
        return True
    return op.sort == "vmem" and ("lds" in op.parsed.modifiers or "_load_lds_" in op.base)


# --- mutants ------------------------------------------------------------------------------------


class Mutant(NamedTuple):
    """A change that breaks *rule* between two instructions, by their addresses.

    *text* in the place of the instruction at *address*, "" for nothing.
    """

    sort: str
    rule: str
    address: int
    text: str
    producer: int
    user: int


class Chain(NamedTuple):
    """Instructions that follow each other where no branch is taken; some others jump to."""

    code: Sequence[Instruction]
    ops: Sequence[Op]
    targets: frozenset[int]


_STOPS = ("s_branch", "s_endpgm", "s_setpc", "s_swappc", "s_call", "s_rfe", "s_cbranch_g")
_NOT_TAKEN_OUT = re.compile(
    r"s_(nop|waitcnt|c?branch|barrier|set|endpgm|getpc|sleep|sendmsg)|v_cmpx"
)


def chains(program: Program) -> Iterator[Chain]:
    """The straight code of what the kernels of *program* reach."""
    targets = {
        target for item in program.instructions if (target := branch_target(item)) is not None
    }
    targets |= {program.instructions[program.blocks[one].first].address for one in program.entries}
    reached = [
        index
        for number in sorted(program.reached)
        for index in range(program.blocks[number].first, program.blocks[number].last)
    ]
    run: list[Instruction] = []
    for at, index in enumerate(reached):
        item = program.instructions[index]
        run.append(item)
        follows = at + 1 < len(reached) and reached[at + 1] == index + 1
        if follows:
            after = program.instructions[index + 1].address
            follows = after == item.address + item.size
        if not follows or item.text.startswith(_STOPS):
            yield Chain(run, [op_of(one.text) for one in run], frozenset(targets))
            run = []


def states_of(item: Instruction, op: Op) -> int:
    return (int.from_bytes(item.data[:2], "little") & 15) + 1 if op.base == "s_nop" else 1


def state_mutants(chain: Chain, is_950: bool, rng: random.Random) -> Iterator[Mutant]:
    """Shortened s_nops and left out instructions between what needs all that there is."""
    code, ops, targets = chain
    sizes = [states_of(item, op) for item, op in zip(code, ops, strict=True)]
    hot = [op.writes | (op.reads if op.sort in ("mfma", "vmem") else 0) for op in ops]
    for user, two in enumerate(ops):
        has, written = 0, 0
        for producer in range(user - 1, -1, -1):
            one = ops[producer]
            if hot[producer] & two.touches:
                for need in needs(one, two, is_950):
                    if need.overlap & ~written and has >= need.states:
                        between = range(producer + 1, user)
                        yield from _state_mutant(
                            chain, need, producer, user, between, has, sizes, targets, rng
                        )
            if one.sort != "mfma":
                written |= one.writes
            has += sizes[producer]
            if has > _WINDOW + 1:
                break


def _state_mutant(
    chain: Chain,
    need: Need,
    producer: int,
    user: int,
    between: range,
    has: int,
    sizes: Sequence[int],
    targets: frozenset[int],
    rng: random.Random,
) -> Iterator[Mutant]:
    code, ops = chain.code, chain.ops
    places = code[producer].address, code[user].address
    if has != need.states:
        return
    for at in between:
        if ops[at].base == "s_nop" and (sizes[at] > 1 or code[at].address not in targets):
            text = f"s_nop {sizes[at] - 2}" if sizes[at] > 1 else ""
            yield Mutant("s_nop shortened", need.rule, code[at].address, text, *places)
    free = [
        at
        for at in between
        if ops[at].sort in ("valu", "salu", "mfma")
        and code[at].address not in targets
        and not _NOT_TAKEN_OUT.match(ops[at].base)
        and not ops[at].touches & ops[user].touches & ~_EXEC
        and not ops[at].touches & ops[producer].touches & ~_EXEC
    ]
    if free:
        at = rng.choice(free)
        yield Mutant("instruction left out", need.rule, code[at].address, "", *places)


class _Counts(NamedTuple):
    vm: int
    exp: int
    lgkm: int


def counts_of(item: Instruction) -> _Counts:
    simm = int.from_bytes(item.data[:2], "little")
    return _Counts(simm & 15 | simm >> 14 << 4, simm >> 4 & 7, simm >> 8 & 15)


def wait_text(counts: _Counts) -> str:
    parts = [
        f"{name}({count})"
        for name, count, no in zip(
            ("vmcnt", "expcnt", "lgkmcnt"), counts, (_NO_VM, 7, _NO_LGKM), strict=True
        )
        if count != no
    ]
    return " ".join(["s_waitcnt", *parts]) if len(parts) else ""


def queue_of(op: Op) -> str:
    """In whose order an operation ends: "vm" and "lds" in their own, "" for what is not counted."""
    if op.sort == "vmem":
        return "flat" if op.base.startswith("flat_") else "vm"
    if op.sort == "ds":
        return "lds"
    return "scalar" if op.sort == "smem" or op.base.startswith(("s_sendmsg", "s_dcache")) else ""


_COUNTED = {"vm": (0,), "lds": (1,), "scalar": (1,), "flat": (0, 1)}
_RULE = {"vm": "vmem-wait", "lds": "lds-wait", "scalar": "smem-wait", "flat": "flat-wait"}


def _left(out: Sequence[int], ops: Sequence[Op], count: int) -> list[int]:
    """What is still out behind a wait for *count*, of what is out, the oldest first."""
    if count == 0:
        return []
    if any(queue_of(ops[at]) not in ("vm", "lds") for at in out):
        return list(out)
    return list(out[-count:])


def wait_mutants(chain: Chain, rng: random.Random) -> Iterator[Mutant]:
    """Weakened s_waitcnts, and operations left out that a count of one counts on."""
    code, ops, targets = chain
    out: list[list[int]] = [[], []]
    for at, op in enumerate(ops):
        if op.base != "s_waitcnt":
            for counter in _COUNTED.get(queue_of(op), ()):
                out[counter].append(at)
            continue
        counts = counts_of(code[at])
        for counter, count, no in ((0, counts.vm, _NO_VM), (1, counts.lgkm, _NO_LGKM)):
            if count == no:
                continue
            kept = _left(out[counter], ops, count)
            weak = out[counter] if count + 1 == no else _left(out[counter], ops, count + 1)
            found = _use(chain, at, counter, weak, set(weak) - set(kept))
            if found:
                weaker = counts._replace(**{"lgkm" if counter else "vm": count + 1})
                yield Mutant(
                    "wait weakened", found[0], code[at].address, wait_text(weaker), *found[1]
                )
            free = [one for one in kept if code[one].address not in targets]
            if len(out[counter]) > count and free:
                gone = rng.choice(free)
                left = [one for one in out[counter] if one != gone]
                still = _left(left, ops, count)
                found = _use(chain, at, counter, still, set(still) - set(kept), without=gone)
                if found:
                    yield Mutant("operation left out", found[0], code[gone].address, "", *found[1])
            out[counter] = kept


def _use(
    chain: Chain,
    at: int,
    counter: int,
    out: Sequence[int],
    lost: set[int],
    without: int | None = None,
) -> tuple[str, tuple[int, int]] | None:
    """Which of the *lost* operations is used behind the wait *at* before another covers it.

    The rule, and the addresses of the operation and its user. *out* is what is out there.
    """
    code, ops = chain.code, chain.ops
    out, lost = list(out), set(lost)
    crossed: set[int] = set()
    for user in range(at + 1, len(ops)):
        op = ops[user]
        if not lost and not crossed:
            return None
        own = queue_of(op)
        for one in sorted(lost):
            result, queue = ops[one].writes, queue_of(ops[one])
            in_order = own == queue and own in ("vm", "lds")
            if result & (op.reads if in_order else op.touches):
                return _RULE[queue], (code[one].address, code[user].address)
            if in_order and result and not result & ~op.writes:
                lost.discard(one)
        if op.base == "s_barrier":
            crossed = {one for one in lost if re.match(r"ds_write", ops[one].base)}
        elif op.base.startswith("ds_read") and crossed:
            return "lds-barrier", (code[min(crossed)].address, code[user].address)
        if op.base == "s_waitcnt":
            counts = counts_of(code[user])
            count, no = (counts.lgkm, _NO_LGKM) if counter else (counts.vm, _NO_VM)
            if count != no:
                out = _left(out, ops, count)
                lost &= set(out)
        elif counter in _COUNTED.get(own, ()) and user != without:
            out.append(user)
    return None


def mutants(program: Program, rng: random.Random, most: int) -> list[Mutant]:
    """At most *most* mutants that break a rule, of as many sorts and rules as there are."""
    is_950 = program.co.target.name == "gfx950"
    by_sort: dict[tuple[str, str], list[Mutant]] = defaultdict(list)
    for chain in chains(program):
        for mutant in (*state_mutants(chain, is_950, rng), *wait_mutants(chain, rng)):
            by_sort[mutant.sort, mutant.rule].append(mutant)
    for group in by_sort.values():
        rng.shuffle(group)
    found: list[Mutant] = []
    while by_sort and len(found) < most:
        for key in sorted(by_sort):
            if by_sort[key]:
                found.append(by_sort[key].pop())
            else:
                del by_sort[key]
    return found[:most]


# --- what lint says -----------------------------------------------------------------------------

#: Rule, addresses of producer and user → level.
Said = dict[tuple[str, int, int], str]


def said(program: Program) -> Said:
    """What lint says of wait states and waits."""
    return {
        (finding.rule, finding.producer.address, finding.place.address): finding.level
        for finding in (*check_states(program), *check_waits(program))
        if finding.producer is not None
    }


def changed(program: Program, mutant: Mutant) -> Program:
    """The program with the mutant's change; addresses stay as they are."""
    instructions = list(program.instructions)
    at = next(i for i, item in enumerate(instructions) if item.address == mutant.address)
    if mutant.text:
        data = _encoded(mutant.text)
        instructions[at] = instructions[at]._replace(text=mutant.text, data=data)
        return replace(program, graph=replace(program.graph, instructions=instructions))
    del instructions[at]
    blocks = [
        block._replace(first=block.first - (block.first > at), last=block.last - (block.last > at))
        for block in program.blocks
    ]
    graph = replace(program.graph, instructions=instructions, blocks=blocks)
    return replace(program, graph=graph)


def _encoded(text: str) -> bytes:
    """An s_nop or s_waitcnt. Source: CDNA3 ISA guide, SOPP."""
    if text.startswith("s_nop"):
        return (0xBF800000 | int(text.split()[1])).to_bytes(4, "little")
    named = {name: int(count) for name, count in re.findall(r"(\w+)\((\d+)\)", text)}
    vm, lgkm = named.get("vmcnt", _NO_VM), named.get("lgkmcnt", _NO_LGKM)
    simm = vm & 15 | vm >> 4 << 14 | named.get("expcnt", 7) << 4 | lgkm << 8
    return (0xBF8C0000 | simm).to_bytes(4, "little")


class Result(NamedTuple):
    """A mutant and the level at which lint says so, None where it does not."""

    kernel: str
    mutant: Mutant
    level: str | None
    said: str


def judged(co: CodeObject, llvm: Llvm, rng: random.Random, most: int) -> tuple[list[Result], int]:
    """The mutants of one object, and the errors that lint finds in the object itself."""
    program = build_program(co, decode(co, llvm))
    before = said(program)
    alarms = sum(one.level == ERROR for one in judge(Source(co.name, program)).findings)
    texts = {item.address: item.text for item in program.instructions}
    results: list[Result] = []
    for mutant in mutants(program, rng, 2 * most):
        key = mutant.rule, mutant.producer, mutant.user
        if key in before or len(results) == most:
            continue  # a shorter way there breaks the rule already
        after = said(changed(program, mutant))
        what = " | ".join(texts[at] for at in (mutant.producer, mutant.address, mutant.user))
        results.append(Result(co.name, mutant, after.get(key), what))
    return results, alarms


def rebuilt(co: CodeObject, mutant: Mutant) -> str | None:
    """The level that lint gives the mutant as a listing that is assembled; None where it is silent.

    Raises:
        CoasmError: it cannot be built.
    """
    source = listing_source(coasm.disassemble(co).text, co.name)
    places = {item.address: at for at, item in enumerate(source.program.instructions)}
    original = [item for items in decode(co, find_llvm()).values() for item in items]
    order = [item.address for item in original if isinstance(item, Instruction)]
    assert len(order) == len(places)
    at = order.index(mutant.address)
    line = source.program.lines[source.program.instructions[at].address].root
    text = list(source.text)
    indent = text[line - 1][: len(text[line - 1]) - len(text[line - 1].lstrip())]
    assert source.program.instructions[at].mnemonic.split("_e")[0] in text[line - 1]
    text[line - 1] = indent + mutant.text
    made = listing_source("\n".join(text), co.name).program
    here = {item.address: number for number, item in enumerate(made.instructions)}
    shift = 0 if mutant.text else 1
    wanted = []
    for address in (mutant.producer, mutant.user):
        number = order.index(address)
        wanted.append(number - shift * (number > at))
    for (rule, producer, user), level in said(made).items():
        if rule == mutant.rule and [here[producer], here[user]] == wanted:
            return level
    return None


def kernels(corpus: Path) -> list[Path]:
    return sorted(path for name in ("gfx942", "gfx950") for path in corpus.rglob(f"{name}/**/*.co"))


def bench_lint_mutants(corpus: Path, llvm: Llvm, wanted: int = MUTANTS) -> bool:
    """Mutants of the corpus that break a rule: at least 99 % caught, no error on what works."""
    rng = random.Random(SEED)
    paths = kernels(corpus)
    rng.shuffle(paths)
    results: list[Result] = []
    by_name: dict[str, Path] = {}
    alarms = objects = 0
    started = time.process_time()
    for path in paths:
        co = load(path)
        if sum(section.size for section in co.code_sections) > 8 * LARGEST:
            continue
        objects += 1
        own, errors = judged(co, llvm, rng, OF_A_KERNEL)
        results += own
        alarms += errors
        by_name[co.name] = path
        if len(results) >= wanted:
            break
    seconds = time.process_time() - started
    total, caught, errors = _print(results)
    missed = [one for one in results if one.level is None]
    for one in missed[:20]:
        print(f"  missed {one.mutant.sort}, {one.mutant.rule}: {one.kernel}: {one.said}")
    print(f"  {objects} kernels, {seconds:.0f} s CPU; false alarms: {alarms}")
    chosen = rng.sample(results, min(REBUILT, len(results)))
    agree = 0
    for one in chosen:
        try:
            agree += rebuilt(load(by_name[one.kernel]), one.mutant) == one.level
        except CoasmError as error:
            print(f"  not built: {one.kernel}: {error}")
    print(f"  assembled as listings: {agree} of {len(chosen)} say the same")
    part = caught / total if total else 0
    good = part >= WANTED and not alarms and total >= wanted and agree == len(chosen)
    print(
        f"lint: {caught:,} of {total:,} mutants caught ({part:.2%}; {errors:,} as errors), "
        f"limit {WANTED:.0%} of {wanted:,}: {'ok' if good else 'MISSED'}",
        flush=True,
    )
    return good


def _print(results: Sequence[Result]) -> tuple[int, int, int]:
    """A line for each sort and each rule; all mutants, those caught, those caught as errors."""
    for what in ("sort", "rule"):
        names = Counter(getattr(one.mutant, what) for one in results)
        print(f"  {what:24} mutants  as error  with --advice")
        for name, count in sorted(names.items(), key=lambda pair: (-pair[1], pair[0])):
            own = [one for one in results if getattr(one.mutant, what) == name]
            errors = sum(one.level == ERROR for one in own)
            caught = sum(one.level is not None for one in own)
            print(f"  {name:24} {count:7,}  {errors:8,}  {caught:13,}")
    return (
        len(results),
        sum(one.level is not None for one in results),
        sum(one.level == ERROR for one in results),
    )


def main(arguments: list[str]) -> int:
    root = os.environ.get("COASM_CORPUS")
    if not root:
        print("COASM_CORPUS is not set: no kernels to change")
        return 0
    wanted = int(arguments[0]) if arguments else MUTANTS
    return 0 if bench_lint_mutants(Path(root), find_llvm(), wanted) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
