"""GFX12.5 registers above v255: which VGPRs an instruction reaches, along the control flow.

An operand holds the low 8 bits of a VGPR number; the upper 2 come from a state of the wave, one
field for each of src0, src1, src2 and dst, which ``s_set_vgpr_msb`` sets from the low byte of its
immediate. The disassembler follows that state line by line and forgets it at every symbol. Here it
is followed along branches from each kernel's entry, where it is 0, and each instruction is printed
again under the state it runs in. Source: LLVM, AMDGPUInstPrinter and AMDGPULowerVGPREncoding.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from coasm.asm.code import Code, Instruction, Item
from coasm.asm.dump import real_registers
from coasm.asm.probe import decode_bytes
from coasm.asm.quirks import decodable
from coasm.codeobject import CodeObject
from coasm.codeobject.elf import STT_FUNC
from coasm.isa.flow import flow_of
from coasm.isa.kinds import is_a
from coasm.llvm import Llvm

__all__ = ["has_states", "states", "with_registers"]

_UNKNOWN = -1
#: SOPP opcode 6 on GFX12.5, immediate in the low half.
_SET_MSB = 0xBF860000
_VGPR = re.compile(r"(?<!\w)v(?:\d|\[)")


def has_states(code: dict[int, Code]) -> bool:
    """Whether any instruction sets the state, or was printed under one."""
    return any(
        "s_set_vgpr_msb" in section_code.by_mnemonic
        or len(section_code.raws) != len(section_code.others)
        for section_code in code.values()
    )


def states(co: CodeObject, code: Mapping[int, Code]) -> dict[int, int]:
    """The low byte of the state that each reached instruction runs in; -1 where paths differ."""
    from coasm.flow.cfg import control_flow
    from coasm.flow.forward import forward

    graph = control_flow(co, code)
    reached: dict[int, int] = {}

    def transfer(number: int, state: int) -> int | None:
        for item in graph.of(number):
            reached[item.address] = state
            state = _after(item, state)
            flow = flow_of(item.mnemonic)
            if flow is not None and flow.sort == "trap":
                return None
        return state

    starts = {s.value: _UNKNOWN for s in co.symbols if s.type == STT_FUNC}
    starts.update({kernel.entry: 0 for kernel in co.kernels})
    entry = {graph.block_at(address): state for address, state in starts.items()}
    known = {block: state for block, state in entry.items() if block is not None}
    while True:
        states = forward(graph.follows, known, transfer, _merge)
        calls = [number for number in states if graph.blocks[number].last - 1 in graph.targets]
        # What a function that is called leaves is not known.
        left = {at: _UNKNOWN for at in map(graph.resumed, calls) if at is not None}
        if left.keys() <= known.keys():
            return reached
        known.update(left)


def _merge(known: int, new: int) -> int:
    return known if known == new else _UNKNOWN


def _after(item: Instruction, state: int) -> int:
    if is_a(item.mnemonic, "sets VGPR high bits"):
        return int.from_bytes(item.data[:1], "little")
    if is_a(item.mnemonic, "setreg") and "HW_REG_WAVE_MODE" in item.text:
        return _UNKNOWN  # the state is in that register too
    return state


def with_registers(
    co: CodeObject, llvm: Llvm, code: dict[int, Code], mattr: str
) -> dict[int, Code]:
    """*code* with the registers that each instruction reaches, as :class:`Instruction` has them."""
    reached = states(co, code)
    wanted: dict[tuple[int, bytes], int] = {}
    for items in code.values():
        for item in items:
            state = reached.get(item.address, 0)
            if state > 0 and isinstance(item, Instruction) and _VGPR.search(item.text):
                wanted.setdefault((state, decodable(co.target.processor, item.data)), 0)
    stream = bytearray()
    starts = []
    for state, data in wanted:
        wanted[state, data] = len(stream) + 4
        starts.append(len(stream))
        stream += (_SET_MSB | state).to_bytes(4, "little") + data
    printed: dict[int, str] = {}
    if stream:
        rows = decode_bytes(co, llvm, bytes(stream), starts, mattr) or []
        printed = {address: text for address, _, text in rows}

    def settled(item: Item) -> Item:
        if not isinstance(item, Instruction):
            return item
        state = reached.get(item.address, _UNKNOWN)
        if state == _UNKNOWN:
            guess = f"{item.registers} (a guess)" if item.registers else ""
            return item._replace(registers=guess) if guess != item.registers else item
        if state == 0 or not _VGPR.search(item.text):
            return item._replace(registers="") if item.registers else item
        text = printed.get(wanted[state, decodable(co.target.processor, item.data)], "")
        return item._replace(registers=real_registers(text))

    return {index: Code.of([settled(item) for item in items]) for index, items in code.items()}
