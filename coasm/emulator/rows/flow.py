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
from coasm.emulator.rows.values import Getter, Step
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


def _mode_field(word: object, what: str) -> tuple[int, int]:
    """(first bit, bits) of MODE that a ``hwreg(...)`` operand says.

    Raises:
        Fault: it is no operand of that kind, or of another register.
    """
    match = _HWREG.fullmatch(word.text) if isinstance(word, Word) else None
    if match is None:
        raise Fault("the hardware register is not emulated")
    if match[1] not in ("MODE", "1"):
        raise Fault(f"{what} the hardware register {match[1]} is not emulated")
    return int(match[2] or 0), int(match[3] or 32)


def _getreg(ctx: Context, parsed: Parsed) -> Step:
    ctx.take(parsed.operands[1])
    first, bits = _mode_field(parsed.operands[1], "reading")
    value = ctx.mode >> first & (1 << bits) - 1
    put = ctx.scalar_target(parsed.operands[0], "u32")
    return lambda s: put(s, np.full(s.n, value, np.uint32))


def _setreg(ctx: Context, parsed: Parsed) -> Ending:
    first, bits = _mode_field(parsed.operands[0], "writing")
    field = (1 << bits) - 1 << first
    source = parsed.operands[1]
    if isinstance(source, Literal):
        value = int(source.value)

        def constant(s: Group) -> None:
            s.mode = s.mode & ~field | value << first & field

        return Ending("next", constant)
    get = ctx.scalar_source(source, "u32")

    def run(s: Group) -> None:
        values = np.broadcast_to(get(s), (s.n,))
        if (values != values[0]).any():
            raise Fault("the waves set different modes, which is not emulated")
        s.mode = s.mode & ~field | int(values[0]) << first & field

    return Ending("next", run)


row("s_getreg_b32", _getreg)
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
