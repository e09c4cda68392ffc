"""Kinds of instructions that no row of the table tells apart, each by the names that belong to it.

The names of a kind are a regular expression that a mnemonic begins with; this is the only place,
beside the rows, that knows how mnemonics are spelled. Source: the ISA guides' instruction lists.
"""

from __future__ import annotations

import re
from functools import cache

__all__ = ["CLASSES", "LDS_LINE", "bytes_loaded", "class_of", "following", "is_a"]

_KINDS = {
    # What scheduling and hazards tell apart.
    "matrix product": r"v_s?mfma|v_s?wmma|v_swmmac",
    "wave matrix product": r"v_wmma|v_swmmac",
    "sparse": r"v_smfmac|v_swmmac",
    "dot": r"v_dot",
    "readlane": r"v_read(first)?lane_",
    "lane select": r"v_(readlane|writelane)_",
    "read or write lane": r"v_(readlane|readfirstlane|writelane)_",
    "div_fmas": r"v_div_fmas_",
    "permlane swap": r"v_permlane(16|32)_swap_",
    "permlane": r"v_permlane",
    "vector nop": r"v_nop",
    "AGPR read": r"v_accvgpr_read",
    "AGPR write": r"v_accvgpr_write",
    "float atomic": r"(buffer|tbuffer|global|flat|image)_atomic_f",
    "denormals": r"s_denorm_mode",
    "counter wait": r"s_waitcnt(?!_depctr)|s_wait_(?!alu|event)",
    "wait for stores": r"s_waitcnt_vscnt",
    "wait for scalars": r"s_waitcnt(_lgkmcnt)?$",
    "any wait": r"s_wait",
    "wait for tensors": r"s_wait_tensorcnt",
    "tensor transfer": r"tensor_(load|store)",
    "async barrier": r"ds_atomic_async_barrier_arrive",
    "wait on a wave": r"s_waitcnt_depctr|s_wait_alu",
    "f64 fma": r"v_fmac?_f64",
    "mix half": r"v_fma_mix(lo|hi)_",
    "message": r"s_sendmsg",
    "reads M0 late": r"s_movrel|v_interp_|s_sendmsg|s_ttracedata|ds_gws_|ds_(read|write)_addtid_",
    "setreg": r"s_setreg_",
    "setreg of a constant": r"s_setreg_imm32",
    "getreg": r"s_getreg_",
    "setvskip": r"s_setvskip",
    "rfe": r"s_rfe_",
    "wait": r"s_waitcnt",
    "barrier": r"s_barrier",
    # Counters: what counts in others than its unit says, and how waits are written.
    "GDS": r"ds_gws_|ds_ordered_count|ds_(add|sub)_gs_reg",
    "parameter": r"(lds|ds)_(param|direct)_load",
    "ray": r"image_bvh",
    "in the sampler": r"image_msaa_load",
    "cache of loads": r"global_inv",
    "cache of stores": r"global_wb",
    "counted cache": r"buffer_inv$|buffer_wbl2",
    "not counted": r"s_\w*prefetch|s_atc_probe",
    "state of a barrier": r"s_get_barrier_state",
    "barrier into SCC": r"s_barrier_signal_isfirst|s_barrier_leave",
    "wait by name": r"s_waitcnt$",
    "wait with a scalar": r"s_waitcnt_",
    "barrier begins": r"s_barrier(_signal\w*)?$",
    "barrier ends": r"s_barrier(_wait)?$",
    "scalar cache": r"s_dcache",
    "wide": r"(tbuffer|buffer|global|scratch|flat)_(store_|atomic_cmpswap_x2)",
    "scalar load": r"s_load_|s_buffer_load_",
    # Registers: which instructions do with them other than what an operand says.
    "compare": r"v_cmp",
    "copy": r"s_mov_b64|s_cmov_b|s_cselect_b|v_mov_b|v_pk_mov_b32|v_accvgpr_"
    r"|v_(read|write)lane_b32|v_readfirstlane_b32|v_cndmask_b|v_(permlane\w*_)?swap_b32"
    r"|(scratch|buffer)_store_dword",  # of what is undefined: a register that is spilled
    "wide integer": r"s_\w+_[bui]64$|v_\w+_[bui]64(_|$)",
    "whatever EXEC": r"s_|v_read(first)?lane|v_writelane|v_s?mfma|v_nop|v_clrexcp",
    "packed 32": r"v_pk_(add|mul|fma|min|max|minimum|maximum|mov)_[fbui]32$",
    "packed move": r"v_pk_mov_b32$",
    "move": r"v_mov_b32",
    "op_sel of sources": r"v_pk_|v_mfma|v_mad_mix|v_fma_mix|v_smfmac",
    "op_sel not of halves": r"v_(pk|dot|mfma|smfmac|fma_mix|mad_mix|accvgpr|permlane)",
    "selects a byte": r"v_cvt_(scalef32_)?sr_(fp8|bf8)_|v_cvt_scalef32_pk_fp4_",
    "writes in part": r"v_writelane_|v_(fma|mad)_mix|v_cvt_",  # where its result is read, too
    "writes a byte": r"v_cvt_scalef32_sr_pk_fp4_",
    "relative move": r"\w*movrel",
    "relative register": r"\w*(movrel|gpr_idx)",
    # Lanes: what takes from others, also where EXEC switches them off; what only switches off.
    "other lanes": r"v_permlane|v_readlane|v_readfirstlane|ds_b?permute|ds_swizzle",
    "narrows EXEC": r"s_and_saveexec|s_and(n1|_not0)_(saveexec|wrexec)|v_cmpx",
    "widens EXEC": r"s_or_saveexec",
    "and of masks": r"s_and(n2|_not1)?_b(32|64)$",
    "or of masks": r"s_or_b(32|64)$",
    "and of an inverse": r"s_and(n1|_not0)_",
    "saves EXEC": r"s_\w+_saveexec",
    "move of masks": r"s_mov_b(32|64)$",
    # LDS: what reads and writes it, and what only goes through its unit.
    "LDS read": r"ds_(read|load)",
    "LDS write": r"ds_(write|store)",
    "no LDS": r"ds_(b?permute|swizzle|nop|gws)",
    "LDS access": r"ds_(?!gws|swizzle|b?permute|nop|ordered|bvh)",
    "LDS in rows of 64": r"ds_\w*(st64|stride64)",
    "only a result of LDS": r"ds_(read|b?permute|swizzle)",
    "same of the same": r"[sv]_(xor|sub|subrev|andn2|and_not1|cmp)_",
    "packed f32 fma": r"v_pk_fma_f32",
    "packed f32 sum or product": r"v_pk_(add|mul)_f32",
    "64-bit shift": r"v_(lshlrev_b64|lshrrev_b64|ashrrev_i64)",
    "nop": r"s_nop",
    # The program counter.
    "reads PC": r"s_getpc_b64|s_get_pc_i64",
    "relative to PC": r"s_get_?pc_[bi]64|s_add_pc_i64",
    "branch without operands": r"s_c?branch(?!_i_fork)",
    "adds 64 bits": r"s_add_nc_u64",
    "scalar": r"s_",
    "vector": r"v_",
    "keeps SCC": r"s_(mov|load|nop|wait|delay|get_?pc|sext)",
    "sets VGPR high bits": r"s_set_vgpr_msb",
    # 16-bit operands that are halves of registers where a target has such names.
    "narrow": r"v_\w*(?:16|8)",
    "halves": r"v_(?!pk_|permlane|s?wmma|dot|cvt_(?:scale|pk|sr))(?:\w+_)?(?:bf|[fiub])16"
    r"(?:_(?:[fiu](?:32|64)|fp8|bf8))?(?:_e32|_e64)?$",
    "padding": r"s_code_end",
    "fills gaps": r"s_nop$|s_code_end",
    "covers those behind it": r"s_clause$",
    "prefetches code": r"s_prefetch_inst",
    "scratch": r"(s_)?scratch_",
    "buffer": r"buffer_",
    "global": r"global_",
    "atomic": r"\w*_atomic_",
    "dynamic VGPRs": r"s_alloc_vgpr",
}


#: What begins an instruction on LDS, to the end of its line: for a first look at a whole source.
LDS_LINE = r"ds_[^/;\n]*"

_SMEM = re.compile(r"s_load_(dword|b32|b64|b96|b128|b256|b512|[iu](?:8|16))(?:x(\d+))?$")
_SMEM_BYTES = {"b64": 8, "b96": 12, "b128": 16, "b256": 32, "b512": 64}
_SMEM_BYTES |= {"i8": 1, "u8": 1, "i16": 2, "u16": 2, "b32": 4}
_VMEM = re.compile(r"(?:global|flat)_load_(\w+)$")
_VMEM_BYTES = {
    **{"ubyte": 1, "sbyte": 1, "u8": 1, "i8": 1, "ushort": 2, "sshort": 2, "u16": 2, "i16": 2},
    **{"dword": 4, "dwordx2": 8, "dwordx3": 12, "dwordx4": 16},
    **{"b32": 4, "b64": 8, "b96": 12, "b128": 16},
    **{"short_d16": 2, "short_d16_hi": 2, "ubyte_d16": 1, "ubyte_d16_hi": 1},
    **{"sbyte_d16": 1, "sbyte_d16_hi": 1},
}


@cache
def bytes_loaded(mnemonic: str) -> int:
    """What a scalar, global or flat load takes from each address; 0 for other instructions."""
    scalar = _SMEM.match(mnemonic)
    if scalar:
        return _SMEM_BYTES.get(scalar[1], 4 * int(scalar[2] or 1))
    vector = _VMEM.match(mnemonic)
    return _VMEM_BYTES.get(vector[1], 0) if vector else 0


#: Bits of s_clause's operand that count the instructions behind it, less one. Source: RDNA2 ISA
#: guide, S_CLAUSE.
_CLAUSE = 63


def following(text: str) -> int:
    """How many instructions behind it one that ``covers those behind it`` is for."""
    return (int(text.split()[1], 0) & _CLAUSE) + 1


@cache
def is_a(mnemonic: str, kind: str) -> bool:
    """Whether an instruction is of a *kind*; its encoding suffix may be there."""
    return re.match(_KINDS[kind], mnemonic) is not None


# The first pattern that matches says the class. Source: the instruction formats of the ISA guides
# (GCN3 to RDNA4 and CDNA4) and LLVM's AMDGPU instruction names.
_CLASSES = (
    ("MFMA/WMMA", r"v_s?mfma|v_smfmac|v_s?wmmac?"),
    ("VALU", r"v_"),
    ("LDS", r"ds_|lds_"),
    ("VMEM atomic", r"(?:buffer|tbuffer|global|flat|scratch|image)_\w*atomic"),
    ("VMEM store", r"(?:buffer|tbuffer|global|flat|scratch|image|tensor|cluster)_\w*store"),
    (
        "VMEM load",
        r"(?:buffer|tbuffer|global|flat|scratch|image|tensor|cluster)_\w*(?:load|prefetch)"
        r"|image_(?:sample|gather|get|bvh)",
    ),
    (
        "SMEM",
        r"s_(?:buffer_|scratch_)?(?:load|store|atomic|prefetch)|s_dcache|s_mem(?:real)?time"
        r"|s_atc_probe|s_gl1_inv|s_get_waveid",
    ),
    ("wait/barrier", r"s_wait|s_barrier|s_sleep|s_nop|s_delay_alu|s_monitor_sleep"),
    (
        "other",
        r"s_(?:trap|sethalt|setprio|set_prio|sendmsg|clause|set_inst_prefetch|inst_prefetch|icache"
        r"|ttrace|code_end|wakeup|incperflevel|decperflevel|set_gpr_idx_(?:on|off|mode)|denorm_mode"
        r"|round_mode|version|set_vgpr_msb|setkill)",
    ),
    ("SALU", r"s_"),
)
#: The classes of :func:`class_of`, in the order in which they are shown.
CLASSES = (
    *("VALU", "MFMA/WMMA", "SALU", "VMEM load", "VMEM store", "VMEM atomic"),
    *("LDS", "SMEM", "branch", "wait/barrier", "other"),
)


@cache
def class_of(mnemonic: str) -> str:
    """The class of an instruction that is no branch, one of :data:`CLASSES`."""
    for name, pattern in _CLASSES:
        if re.match(pattern, mnemonic):
            return name
    return "other"
