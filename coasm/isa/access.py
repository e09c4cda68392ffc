"""Which registers an instruction reads and writes, implicit ones and read-modify-write included.

What its operands are, and what it uses beside them, says the table (:mod:`coasm.isa.table`); this
is what becomes of it in one instruction with its modifiers.
"""

from __future__ import annotations

from typing import NamedTuple

from coasm.errors import UnsupportedError
from coasm.isa.kinds import is_a
from coasm.isa.table import Opcode, Slot, opcode
from coasm.isa.text import EXEC, M0, SCC, VCC, VGPR, Parsed, Register

__all__ = ["Access", "access", "dwords_read", "is_copy", "slots_of", "takes_lanes"]


class Access(NamedTuple):
    """Register numbers (see :mod:`coasm.isa.text`) that an instruction reads and writes.

    ``kept`` are those that it only reads because it writes a part of them.
    """

    reads: frozenset[int]
    writes: frozenset[int]
    kept: frozenset[int] = frozenset()


def takes_lanes(parsed: Parsed) -> bool:
    """Whether the instruction does nothing where EXEC switches every lane off.

    Some vector instructions work on scalars, on one lane whatever EXEC says, or on whole waves.
    Source: CDNA3 ISA guide, "V_READLANE", "V_READFIRSTLANE", "V_WRITELANE"; "Matrix Arithmetic
    Instructions": EXEC is ignored.
    """
    return not is_a(parsed.mnemonic, "whatever EXEC")


def dwords_read(parsed: Parsed, at: int) -> tuple[int, ...] | None:
    """Which dwords of the operand *at*, a source of two, are read; None: those that it names.

    Packed 32-bit instructions take a dword for each half by ``op_sel`` and ``op_sel_hi``;
    ``v_pk_mov_b32`` takes one of each source by ``op_sel`` alone. Source: CDNA3 ISA guide, VOP3P
    and the pseudo-code of V_PK_MOV_B32. (Packed 16-bit instructions select within a register.)
    """
    name = parsed.mnemonic
    operand = parsed.operands[at]
    if not at or not isinstance(operand, Register) or operand.size != 2:
        return None
    low = parsed.bits("op_sel", at)[-1]
    if is_a(name, "packed move"):
        return (low,)
    if is_a(name, "packed 32"):
        return tuple({low, parsed.bits("op_sel_hi", at, 1)[-1]})
    return None


def is_copy(mnemonic: str) -> bool:
    """Whether it only moves what a register holds, so that the value need not matter there."""
    return is_a(mnemonic, "copy")


#: The registers that instructions use without naming them; what is no register of a wave is not
#: there (MODE, the counters).
_IMPLICIT = {"vcc": (VCC, VCC + 1), "exec": (EXEC, EXEC + 1), "m0": (M0,), "scc": (SCC,)}
#: An atomic with one of these gives back what was in memory.
_RETURNS = ("sc0", "glc")


def slots_of(found: Opcode, parsed: Parsed) -> tuple[Slot, ...]:
    """The operands of the table that *parsed* has, in its order.

    Raises:
        UnsupportedError: it has others.
    """
    slots = list(found.slots)
    modifiers = parsed.modifiers
    returns = any(name in modifiers for name in _RETURNS) or modifiers.get("th", "").startswith(
        "TH_ATOMIC_"
    )
    if "lds" in modifiers or (found.does == "atomic" and not returns):
        slots = [slot for slot in slots if not (slot.returned and slot.role in "dk")]
    for kind in ("soffset", "base", "addr"):  # forms without: flat_load has no base
        if len(slots) > len(parsed.operands):
            slots = [slot for slot in slots if slot.kind != kind]
    if "gpr_idx" in modifiers:  # printed as an operand, read as a modifier
        slots.pop()
    if len(slots) != len(parsed.operands):
        if any(slot.role != "-" for slot in slots):
            raise UnsupportedError(
                f"{parsed.mnemonic} has {len(slots)} operands, not {len(parsed.operands)}"
            )
        slots = [Slot("-")] * len(parsed.operands)
    if not returns:
        slots = [
            slot._replace(role="s") if slot.returned and slot.role == "x" else slot
            for slot in slots
        ]
    return tuple(slots)


def access(parsed: Parsed, instructions: str) -> Access:
    """The registers that *parsed* reads and writes on a target with these *instructions*.

    EXEC counts as read by every vector instruction, SCC has the number 253. A load to LDS
    (``lds``) writes no register; a returning atomic (``sc0``, ``glc``) writes one.

    Raises:
        UnsupportedError: the table does not have the instruction, or not with these operands.
    """
    found = opcode(parsed.mnemonic, instructions)
    if found is None:
        raise UnsupportedError(f"{parsed.mnemonic} is not described for gfx{instructions}")
    reads: set[int] = set()
    writes: set[int] = set()
    kept: set[int] = set()
    for at, (slot, operand) in enumerate(
        zip(slots_of(found, parsed), parsed.operands, strict=True)
    ):
        if not isinstance(operand, Register):
            continue
        if slot.role in "sx":
            chosen = dwords_read(parsed, at)
            reads.update(operand.numbers if chosen is None else map(operand.first.__add__, chosen))
        if slot.role in "dxk":
            writes.update(operand.numbers)
        if slot.role == "k":
            kept.update(operand.numbers)
    for name in found.reads:
        reads.update(_IMPLICIT.get(name, ()))
    for name in found.writes:
        writes.update(_IMPLICIT.get(name, ()))
    if "lds" in parsed.modifiers or "gds" in parsed.modifiers:
        reads.add(M0)
    _of_modifiers(parsed, reads, writes, kept)
    return Access(frozenset(reads | kept), frozenset(writes), frozenset(kept - reads))


def _of_modifiers(parsed: Parsed, reads: set[int], writes: set[int], kept: set[int]) -> None:
    """Add the results that are also read: where lanes or parts of them are not written."""
    written = {number for number in writes if number >= VGPR}
    if not written:
        return
    if parsed.encoding.endswith("dpp"):
        reads.update(written)  # lanes that are not written
    count = len(parsed.operands)
    high = parsed.bits("op_sel", 4)[count - 1 : count] == (1,)
    if (high and not is_a(parsed.mnemonic, "op_sel of sources")) or (
        parsed.modifiers.get("dst_unused", "") == "UNUSED_PRESERVE"
    ):
        kept.update(written)
