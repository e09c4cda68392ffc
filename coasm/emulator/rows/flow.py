"""Instructions that end a block: branches, barriers, the end of a wave, changes of mode; waits.

Source: CDNA3 and CDNA4 ISA guides, "Program Flow Control" and the lists of SOP1, SOPK and SOPP.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from coasm.emulator.errors import Fault
from coasm.emulator.rows.context import Context
from coasm.emulator.rows.table import WAITS, Ending, ending, row
from coasm.emulator.rows.values import VSKIP, Array, Getter, Step
from coasm.emulator.state.shared import Shared
from coasm.emulator.state.waves import Group
from coasm.isa import VCC, Literal, Parsed, Word

__all__: list[str] = []

WAITS.add("s_waitcnt")


def _fixed(found: Ending) -> Callable[[Context, Parsed], Ending]:
    return lambda ctx, parsed: found


ending("s_barrier", _fixed(Ending("barrier")))
ending("s_endpgm s_endpgm_saved s_endpgm_ordered_ps_done", _fixed(Ending("end")))
ending("s_branch", _fixed(Ending("branch")))

_CONDITIONS: dict[str, Getter] = {
    "scc0": lambda s: ~s.scc,
    "scc1": lambda s: s.scc,
    "vccz": lambda s: s.d[VCC >> 1] == 0,
    "vccnz": lambda s: s.d[VCC >> 1] != 0,
    "execz": lambda s: s.d[63] == 0,
    "execnz": lambda s: s.d[63] != 0,
}
for _name, _condition in _CONDITIONS.items():
    ending(f"s_cbranch_{_name}", _fixed(Ending("branch", picks=_condition)))


def _return_address(ctx: Context, parsed: Parsed) -> Step:
    """Puts the address of the instruction behind into the first operand."""
    put = ctx.scalar_target(parsed.operands[0], "u64")
    value = ctx.shared.code_base + ctx.address + len(ctx.data)
    return lambda s: put(s, np.full(s.n, value, np.uint64))


def _call(ctx: Context, parsed: Parsed) -> Ending:
    return Ending("branch", _return_address(ctx, parsed))


def _jump(ctx: Context, parsed: Parsed) -> Ending:
    return Ending("jump", picks=ctx.scalar_source(parsed.operands[-1], "u64"))


def _call_indirect(ctx: Context, parsed: Parsed) -> Ending:
    return _jump(ctx, parsed)._replace(step=_return_address(ctx, parsed))


ending("s_call_b64", _call)
ending("s_setpc_b64", _jump)
ending("s_swappc_b64", _call_indirect)


def _getpc(ctx: Context, parsed: Parsed) -> Step:
    return _return_address(ctx, parsed)


row("s_getpc_b64", _getpc)


# Hardware registers.

_HWREG = re.compile(r"hwreg\((?:HW_REG_)?(\w+)(?:,\s*(\d+),\s*(\d+))?\)")


def _field(word: object) -> tuple[str, int, int]:
    """The register that a ``hwreg(...)`` operand says, the first bit, how many.

    Raises:
        Fault: it is no operand of that kind.
    """
    match = _HWREG.fullmatch(word.text) if isinstance(word, Word) else None
    if match is None:
        raise Fault("the hardware register is not emulated")
    return _NUMBERS.get(match[1], match[1]), int(match[2] or 0), int(match[3] or 32)


def _getreg(ctx: Context, parsed: Parsed) -> Step:
    ctx.take(parsed.operands[1])
    name, first, bits = _field(parsed.operands[1])
    get = _HARDWARE.get(name)
    if get is None:
        raise Fault(f"reading the hardware register {name} is not emulated")
    put, mask = ctx.scalar_target(parsed.operands[0], "u32"), np.uint32((1 << bits) - 1)
    shared = ctx.shared
    return lambda s: put(s, get(shared, s) >> np.uint32(first) & mask)


def _status(shared: Shared, s: Group) -> Array:
    """SCC, EXECZ, VCCZ, IN_TG and VALID of STATUS. Source: CDNA3 ISA guide."""
    bits: Array = s.scc.astype(np.uint32)
    bits |= (s.d[63] == 0).astype(np.uint32) << np.uint32(9)
    bits |= (s.d[VCC >> 1] == 0).astype(np.uint32) << np.uint32(10)
    bits |= np.uint32(1 << 11 | 1 << 16)
    return bits


def _constant(value: Callable[[Shared, Group], int]) -> Callable[[Shared, Group], Array]:
    return lambda shared, s: np.full(s.n, value(shared, s), np.uint32)


#: What hwreg names, by LLVM's names, and what is there.
_HARDWARE: dict[str, Callable[[Shared, Group], Array]] = {
    "MODE": _constant(lambda shared, s: s.mode),
    "STATUS": _status,
    "TRAPSTS": _constant(lambda shared, s: 0),
    "HW_ID": _constant(lambda shared, s: 0),
    "XCC_ID": _constant(lambda shared, s: 0),
    # In units of 128 dwords.
    "LDS_ALLOC": _constant(lambda shared, s: -(-shared.lds_size // 512) << 12),
}
#: Their numbers, where LLVM prints no name. Source: LLVM, ``SIDefines.h``.
_NUMBERS = {
    "1": "MODE",
    "2": "STATUS",
    "3": "TRAPSTS",
    "4": "HW_ID",
    "6": "LDS_ALLOC",
    "20": "XCC_ID",
}


def _setreg(ctx: Context, parsed: Parsed) -> Ending:
    name, first, bits = _field(parsed.operands[0])
    if name != "MODE":
        raise Fault(f"writing the hardware register {name} is not emulated")
    field = (1 << bits) - 1 << first
    source = parsed.operands[1]
    if isinstance(source, Literal):
        value = int(source.value)

        def constant(s: Group) -> None:
            s.mode = s.mode & ~field | value << first & field

        return Ending("next", constant)
    get = ctx.scalar_source(source, "u32")

    def modes(s: Group) -> Array:
        values = np.broadcast_to(get(s), (s.n,)).astype(np.int64)
        return s.mode & ~field | values << first & field

    return Ending("mode", picks=modes)


def _setvskip(ctx: Context, parsed: Parsed) -> Ending:
    """Bit S1 of S0 says whether the vector instructions behind it are skipped."""
    value, bit = (ctx.scalar_source(operand, "u32") for operand in parsed.operands)

    def modes(s: Group) -> Array:
        on = value(s) >> (bit(s) & np.uint32(31)) & np.uint32(1)
        return np.broadcast_to(np.where(on != 0, s.mode | VSKIP, s.mode & ~VSKIP), (s.n,))

    return Ending("mode", picks=modes)


ending("s_setvskip", _setvskip)
row(
    "s_getreg_b32",
    _getreg,
    "s_getreg_b32: all waves are on the first compute unit of the first XCC, and no trap was taken",
)
ending("s_setreg_b32 s_setreg_imm32_b32", _setreg)


# VGPR index mode: its flags are in M0[15:12], the index in M0[7:0].

_INDEX_BITS = {"SRC0": 1, "SRC1": 2, "SRC2": 4, "DST": 8}


def _flags(text: str) -> int:
    return sum(bit for part, bit in _INDEX_BITS.items() if part in text)


def _index_off(ctx: Context, parsed: Parsed) -> Ending:
    def off(s: Group) -> None:
        s.index = 0

    return Ending("next", off)


def _index_set(ctx: Context, parsed: Parsed) -> Ending:
    get = ctx.scalar_source(parsed.operands[0], "u32")

    def idx(s: Group) -> None:
        s.su[124][...] = s.su[124] & np.uint32(0xFFFF_FF00) | get(s) & np.uint32(0xFF)

    return Ending("next", idx)


def _index_mode(ctx: Context, parsed: Parsed) -> Ending:
    words = [op.text for op in parsed.operands if isinstance(op, Word)]
    flags = _flags(parsed.modifiers.get("gpr_idx", "") or (words[0] if words else ""))

    def mode(s: Group) -> None:
        s.su[124][...] = s.su[124] & np.uint32(0xFFFF_0FFF) | np.uint32(flags << 12)
        s.index = flags

    return Ending("next", mode)


def _index_on(ctx: Context, parsed: Parsed) -> Ending:
    flags = _flags(parsed.modifiers.get("gpr_idx", ""))
    get = ctx.scalar_source(parsed.operands[0], "u32")

    def on(s: Group) -> None:
        index = get(s) & np.uint32(0xFF)
        s.su[124][...] = s.su[124] & np.uint32(0xFFFF_0F00) | index | np.uint32(flags << 12)
        s.index = flags

    return Ending("next", on)


ending("s_set_gpr_idx_off", _index_off)
ending("s_set_gpr_idx_idx", _index_set)
ending("s_set_gpr_idx_mode", _index_mode)
ending("s_set_gpr_idx_on", _index_on)
