"""Which registers an instruction reads and writes, implicit ones and read-modify-write included.

A row of :data:`_ROLES` says what the printed operands of the mnemonics that match are: ``d``
written, ``s`` read, ``x`` both, ``k`` written in part, ``-`` neither; the last letter stands for
what follows. The first row that matches counts. Source: CDNA3 and CDNA4 ISA guides, the instruction
lists of each encoding.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from coasm.isa.text import EXEC, M0, SCC, VCC, VGPR, Parsed, Register

__all__ = ["Access", "access", "dwords_read", "is_copy", "takes_lanes"]


class Access(NamedTuple):
    """Register numbers (see :mod:`coasm.isa.text`) that an instruction reads and writes.

    ``kept`` are those that it only reads because it writes a part of them.
    """

    reads: frozenset[int]
    writes: frozenset[int]
    kept: frozenset[int] = frozenset()


_ROLES = tuple(
    (re.compile(pattern), roles)
    for pattern, roles in (
        (r"s_(add|mul|cmov)k_", "x-"),
        (r"s_(cmpk?|bitcmp[01])_|s_setpc|s_setvskip|s_rfe|s_set_gpr_idx_(on|idx)", "s"),
        (r"s_bitset[01]|s_cmov_|s_movreld_", "xs"),
        (r"s_setreg_b32", "-s"),
        (
            r"s_setreg_imm|s_(c?branch|waitcnt|nop|sleep|barrier|endpgm|sendmsg|set|icache|dcache)",
            "-",
        ),
        (r"s_(load|buffer_load|scratch_load|getreg|movk|getpc|memtime|memrealtime)", "ds"),
        (r"s_(store|buffer_store|scratch_store)", "s"),
        (r"s_call", "d-"),
        (r"v_cmpx?_|v_readfirstlane|v_readlane", "ds"),
        (r"v_(add|sub|subrev|addc|subb|subbrev)_co_|v_div_scale|v_mad_[ui]64_[ui]32", "dds"),
        (r"v_(fmac|mac|pk_fmac|dot\dc|writelane|smfmac)", "xs"),
        (r"v_(swap_b32|permlane\d+_swap)", "xx"),
        (r"v_(fma|mad)_mix(lo|hi)|v_cvt_(sr_|pk_fp8|pk_bf8)|v_cvt_scalef32_f16_(fp8|bf8)", "xs"),
        (r"v_cvt_scalef32_(sr_)?(pk_)?(fp8|bf8|fp4)_", "xs"),
        (r"v_nop|v_clrexcp", "-"),
        (r"ds_(write|nop|gws)", "s"),
        (r"ds_(read_u8_d16|read_i8_d16|read_u16_d16)", "ks"),
        (r"ds_(read|swizzle|bpermute|permute|append|consume|wrxchg)|ds_\w+_rtn", "ds"),
        (r"ds_", "s"),
        (r"buffer_(store|wbl2|inv|wbinvl1)|tbuffer_store|(global|flat|scratch)_store", "s"),
        (r"(t?buffer|global|flat|scratch)_load\w*_d16", "ks"),
        (r"t?buffer_load|(global|flat|scratch)_load", "ds"),
        (r"(s|v)_", "ds"),
    )
)
_WRITES_SCC = re.compile(
    r"s_(add|sub|addc|subb|addk|min|max|and|or|xor|andn1|andn2|orn1|orn2|nand|nor|xnor|not|wqm|lshl"
    r"|lshr|ashr|bfe|absdiff|abs|bcnt[01]|quadmask|cmpk?|bitcmp[01]|lshl\d_add)_|s_\w+_saveexec"
)
_READS_SCC = re.compile(r"s_(addc|subb|cselect|cmov|cmovk)_|s_cbranch_scc")


# Vector instructions that work on scalars, on one lane whatever EXEC says, or on whole waves.
# Source: CDNA3 ISA guide, "V_READLANE", "V_READFIRSTLANE", "V_WRITELANE"; "Matrix Arithmetic
# Instructions": EXEC is ignored.
_WHATEVER_EXEC = re.compile(r"s_|v_read(first)?lane|v_writelane|v_s?mfma|v_nop|v_clrexcp")


def takes_lanes(parsed: Parsed) -> bool:
    """Whether the instruction does nothing where EXEC switches every lane off."""
    return _WHATEVER_EXEC.match(parsed.mnemonic) is None


_PACKED_32 = re.compile(r"v_pk_(add|mul|fma|min|max|minimum|maximum|mov)_[fbui]32$")
_COPIES = re.compile(
    r"s_mov_b64|s_cmov_b|s_cselect_b|v_mov_b|v_pk_mov_b32|v_accvgpr_|v_(read|write)lane_b32"
    r"|v_readfirstlane_b32|v_cndmask_b|v_(permlane\w*_)?swap_b32"
    r"|(scratch|buffer)_store_dword"  # of what is undefined: a register that is spilled
)


@cache
def _roles(mnemonic: str) -> str:
    for pattern, roles in _ROLES:
        if pattern.match(mnemonic):
            return roles
    return "s"


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
    if name == "v_pk_mov_b32":
        return (low,)
    if _PACKED_32.match(name):
        return tuple({low, parsed.bits("op_sel_hi", at, 1)[-1]})
    return None


def is_copy(mnemonic: str) -> bool:
    """Whether it only moves what a register holds, so that the value need not matter there."""
    return _COPIES.match(mnemonic) is not None


def access(parsed: Parsed) -> Access:
    """The registers that *parsed* reads and writes.

    EXEC counts as read by every vector instruction, SCC has the number 253. A load to LDS
    (``lds``) writes no register; a returning atomic (``sc0``, ``glc``) writes its first operand.
    """
    name, modifiers = parsed.mnemonic, parsed.modifiers
    roles = _roles(name)
    if "_atomic" in name:
        returns = "sc0" in modifiers or "glc" in modifiers
        # A buffer or scalar atomic gives back into its data operand, the others have one for it.
        roles = ("xs" if name.startswith(("buffer", "s_")) else "ds") if returns else "s"
    elif "lds" in modifiers or "_load_lds_" in name:
        roles = "s"
    reads: set[int] = set()
    writes: set[int] = set()
    kept: set[int] = set()
    for at, operand in enumerate(parsed.operands):
        if isinstance(operand, Register):
            role = roles[min(at, len(roles) - 1)]
            if role in "sx":
                chosen = dwords_read(parsed, at)
                reads.update(
                    operand.numbers if chosen is None else map(operand.first.__add__, chosen)
                )
            if role in "dxk":
                writes.update(operand.numbers)
            if role == "k":
                kept.update(operand.numbers)
    _implicit(parsed, reads, writes, kept)
    return Access(frozenset(reads | kept), frozenset(writes), frozenset(kept - reads))


def _implicit(parsed: Parsed, reads: set[int], writes: set[int], kept: set[int]) -> None:
    """Add what no operand says."""
    name, modifiers = parsed.mnemonic, parsed.modifiers
    if name.startswith("s_"):
        if _WRITES_SCC.match(name):
            writes.add(SCC)
        if _READS_SCC.match(name):
            reads.add(SCC)
        if name.startswith("s_cbranch_vcc"):
            reads.update((VCC, VCC + 1))
        if name.startswith("s_cbranch_exec") or "saveexec" in name or "wrexec" in name:
            reads.update((EXEC, EXEC + 1))
        if "saveexec" in name or "wrexec" in name:
            writes.update((EXEC, EXEC + 1))
        if name.startswith(("s_set_gpr_idx_on", "s_set_gpr_idx_idx")):
            writes.add(M0)
        if name.startswith(("s_movrel", "s_sendmsg", "s_set_gpr_idx")):
            reads.add(M0)
        return
    reads.update((EXEC, EXEC + 1))
    if name.startswith("v_div_fmas"):
        reads.update((VCC, VCC + 1))
    if name.startswith("v_cmpx_"):
        writes.update((EXEC, EXEC + 1))
    if "lds" in modifiers or "_load_lds_" in name or "gds" in modifiers:
        reads.add(M0)
    written = {number for number in writes if number >= VGPR}
    if parsed.encoding.endswith("dpp"):
        reads.update(written)  # lanes that are not written
    high = parsed.bits("op_sel", 4)[len(parsed.operands) - 1 : len(parsed.operands)] == (1,)
    if high and name.startswith(("v_pk_", "v_mfma", "v_mad_mix", "v_fma_mix", "v_smfmac")):
        high = False
    if high or modifiers.get("dst_unused", "") == "UNUSED_PRESERVE":
        kept.update(written)
