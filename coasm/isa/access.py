"""Which registers an instruction reads and writes, implicit ones and read-modify-write included.

What its operands are, and what it uses beside them, says the table (:mod:`coasm.isa.table`); this
is what becomes of it in one instruction with its modifiers.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from coasm.errors import UnsupportedError
from coasm.isa.kinds import is_a
from coasm.isa.registers import EXEC, M0, SCC, VCC, VGPR, registers_named
from coasm.isa.table import Opcode, Slot, opcode
from coasm.isa.text import Parsed, Register, Word, split_operands, without_encoding

__all__ = [
    "Access",
    "access",
    "dwords_read",
    "is_copy",
    "roles",
    "slots_of",
    "takes_lanes",
    "words_of",
]


class Access(NamedTuple):
    """Register numbers (see :mod:`coasm.isa.registers`) that an instruction reads and writes.

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


def _returns(modifiers: Iterable[str]) -> bool | None:
    """Whether an atomic with these gives back what was in memory; None where they do not say.

    From GFX12 on the temporal hint says so, which LLVM prints without that bit where it is one of
    the cascading ones (AMDGPUInstPrinter.cpp, printTH).
    """
    for word in modifiers:
        if word in _RETURNS:
            return True
        if word.startswith("th:TH_ATOMIC_"):
            hint = word.removeprefix("th:TH_ATOMIC_")
            return hint.endswith("RETURN") if hint in ("NT", "NT_RETURN", "RETURN") else None
    return False


#: What some forms do not have: flat_load has no base, and no pair of VOPD names VCC.
_LEFT_OUT = ("soffset", "base", "addr", "mask", "group")


def slots_of(found: Opcode, count: int, modifiers: Iterable[str]) -> tuple[Slot, ...]:
    """What the table says of each of *count* operands of an instruction with these *modifiers*.

    Raises:
        UnsupportedError: it has others.
    """
    if count == len(found.slots) and not found.does:
        return found.slots
    slots = list(found.slots)
    words = tuple(modifiers)
    returns = _returns(words) if found.does == "atomic" else False
    if returns is None:
        if slots[0].role != "d" or found.unit == "flat":
            raise UnsupportedError(f"whether this {found.name} returns something is not known")
        returns = count == len(slots)
    if "lds" in words or (found.does == "atomic" and not returns):
        slots = [slot for slot in slots if not (slot.returned and slot.role in "dk")]
    for kind in _LEFT_OUT:
        if len(slots) > count:
            slots = [slot for slot in slots if slot.kind != kind]
    if len(slots) > count and slots[-1].role == "-":
        slots.pop()  # gpr_idx(...) is printed as an operand and read as a modifier
    if len(slots) != count:
        if any(slot.role != "-" for slot in slots):
            raise UnsupportedError(f"{found.name} has {len(slots)} operands, not {count}")
        slots = [Slot("-")] * count
    if not returns:
        return tuple(s._replace(role="s") if s.returned and s.role == "x" else s for s in slots)
    return tuple(slots)


@lru_cache(maxsize=1 << 16)
def roles(mnemonic: str, operands: str, instructions: str) -> tuple[tuple[str, Slot], ...] | None:
    """The operands of an instruction as they are printed, each with what the table says of it.

    Of a pair of instructions those of both. None where the table does not have it so.
    """
    found: list[tuple[str, Slot]] = []
    for half in f"{mnemonic} {operands}".split(" :: "):
        name, _, rest = half.strip().partition(" ")
        row = opcode(without_encoding(name), instructions)
        if row is None:
            return None
        parts = [part.strip() for part in split_operands(rest)] if rest.strip() else []
        modifiers: list[str] = []
        if parts:
            parts[-1], *modifiers = parts[-1].split()
        try:
            found += zip(parts, slots_of(row, len(parts), modifiers), strict=True)
        except UnsupportedError:
            return None
    return tuple(found)


def words_of(parsed: Parsed) -> list[str]:
    """The modifiers as :func:`slots_of` takes them."""
    th = parsed.modifiers.get("th")
    return [*parsed.modifiers, f"th:{th}"] if th else list(parsed.modifiers)


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
    slots = slots_of(found, len(parsed.operands), words_of(parsed))
    for at, (slot, operand) in enumerate(zip(slots, parsed.operands, strict=True)):
        if not isinstance(operand, Register):
            if isinstance(operand, Word) and slot.kind == "addr":
                reads.update(_listed(operand.text))
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


def _listed(text: str) -> Iterable[int]:
    """The registers of an image's address that is a list of them: ``[v4, v[6:7]]``."""
    for name in text.strip("[]").split(","):
        first, count = registers_named(name.strip()) or (0, 0)
        yield from range(first, first + count)


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
