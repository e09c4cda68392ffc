"""Scalars of GFX12 that VALU instructions have read: what overwrites them is not seen at once.

Once a VALU instruction has read an SGPR, the VALU keeps a copy: behind the next write to it a read
needs a wait for that write, ``s_wait_alu`` of sa_sdst, va_sdst or va_vcc. Source: LLVM's
AMDGPUWaitSGPRHazards.cpp, of which this is the analysis.
"""

from __future__ import annotations

from typing import NamedTuple

from coasm.flow.forward import forward
from coasm.linter.findings import Finding, Fix
from coasm.linter.operation import SGPRS, VCC_BITS, Operation, kind, named
from coasm.linter.program import Program
from coasm.linter.rules import RULES

__all__ = ["Reread", "check_rereads", "rereads"]

#: The generations that have it.
_COLUMNS = ("rdna4",)
_MEMORY = kind("with_descriptor smem")
_SALU, _VALU = kind("salu"), kind("valu")
_WAITS = {name: kind(f"{name}0") for name in ("sa_sdst", "va_sdst", "va_vcc")}
_ANY_WAIT = _WAITS["sa_sdst"] | _WAITS["va_sdst"] | _WAITS["va_vcc"]
_LEAVES = kind("leaves")
#: So many ds_nop in a row take every copy away.
_DS_NOP, _NOPS = kind("ds_nop"), 8
_EVEN = SGPRS // 3  # a bit for the first of each pair


class Reread(NamedTuple):
    """An operation that reads *registers* before those *waits* (fields of s_wait_alu)."""

    consumer: int
    registers: int
    waits: tuple[str, ...]

    @property
    def instruction(self) -> str:
        """The wait that it lacks."""
        return "s_wait_alu " + " ".join(f"depctr_{name}(0)" for name in self.waits)


class _State(NamedTuple):
    """``kept``: what the VALU has copies of, by pairs; what SALU and VALU have written since."""

    kept: int
    salu: int
    valu: int


def rereads(program: Program) -> list[Reread]:
    """Every place that lacks a wait, in their order, as if those before had theirs."""
    if program.family.wait_states not in _COLUMNS:
        return []
    found: dict[int, list[Reread]] = {}

    def transfer(number: int, state: _State) -> _State:
        block = program.blocks[number]
        there: list[Reread] = []
        nops = 0
        for index in range(block.first, block.last):
            operation = program.operations[index]
            nops = nops + 1 if operation.kinds & _DS_NOP else 0
            if nops >= _NOPS:
                state = state._replace(kept=0)
            state, lacking = _behind(operation, state)
            if lacking.waits:
                there.append(lacking._replace(consumer=index))
        found[number] = there
        return state

    kernels = {kernel.name for kernel in program.kernels}
    entry = {
        number: _State(0 if program.entries.get(number, "") in kernels else SGPRS, 0, 0)
        for number in program.reached
        if number in program.entries
    }
    entry = entry or {number: _State(SGPRS, 0, 0) for number in program.reached}
    forward(program.graph.follows, entry, transfer, _merge)
    return [one for number in sorted(found) for one in found[number]]


def _merge(known: _State, new: _State) -> _State:
    merged = _State(*(one | other for one, other in zip(known, new, strict=True)))
    return known if merged == known else merged


_NOTHING = Reread(-1, 0, ())


def _behind(operation: Operation, state: _State) -> tuple[_State, Reread]:
    """What holds behind an operation, and what it lacks before it."""
    kinds = operation.kinds
    if kinds & _MEMORY:
        return state._replace(salu=0, valu=0), _NOTHING
    if kinds & _ANY_WAIT:
        waits = [name for name, bit in _WAITS.items() if kinds & bit]
        return _waited(state, waits), _NOTHING
    if not kinds & (_SALU | _VALU):
        return state, _NOTHING
    reads = operation.reads & SGPRS
    if kinds & _LEAVES:
        reads = state.salu | state.valu  # the other side does not know of them
    used = reads & state.kept
    late = used & (state.salu | state.valu if kinds & _VALU or kinds & _LEAVES else state.salu)
    if kinds & _SALU and not kinds & _LEAVES:
        if used & VCC_BITS and state.valu & VCC_BITS:
            state = state._replace(valu=state.valu & ~VCC_BITS, salu=state.salu & ~VCC_BITS)
            late &= ~VCC_BITS
        if used & ~VCC_BITS:
            state = state._replace(valu=state.valu & VCC_BITS)
    lacking = _NOTHING
    if late:
        waits = ["sa_sdst"] if late & state.salu else []
        waits += ["va_sdst"] if late & state.valu & ~VCC_BITS else []
        waits += ["va_vcc"] if late & state.valu & VCC_BITS else []
        lacking = Reread(-1, late, tuple(waits))
        state = _waited(state, waits)
    if kinds & _VALU:
        state = state._replace(kept=state.kept | _pairs(reads))
    written = operation.writes & SGPRS & state.kept
    if written and kinds & _SALU:
        state = state._replace(salu=state.salu | written, valu=state.valu & ~(written & VCC_BITS))
    elif written:
        state = state._replace(valu=state.valu | written, salu=state.salu & ~(written & VCC_BITS))
    return state, lacking


def _pairs(registers: int) -> int:
    """*registers* with the other one of each pair."""
    low = (registers | registers >> 1) & _EVEN
    return low | low << 1


def _waited(state: _State, waits: list[str]) -> _State:
    salu, valu = state.salu, state.valu
    if "sa_sdst" in waits:
        salu = 0
    if "va_sdst" in waits:
        valu &= VCC_BITS
    if "va_vcc" in waits:
        valu &= ~VCC_BITS
    return state._replace(salu=salu, valu=valu)


def check_rereads(program: Program) -> list[Finding]:
    """The findings of :func:`rereads`."""
    found = []
    for one in rereads(program):
        finding = RULES["sgpr-reread"].finding(
            "wait",
            program.name_at(one.consumer),
            program.place(one.consumer),
            registers=named(one.registers),
            instruction=one.instruction,
        )
        found.append(finding._replace(fix=Fix(instruction=one.instruction)))
    return found
