"""Wait states: which instruction must not follow which too closely, as a table.

A wait state is an issued instruction; ``s_nop N`` is N + 1. A row needs *states* of them strictly
between the producer and the consumer, on the shortest path. Sources: LLVM's GCNHazardRecognizer
(each number was measured with LLVM 22's ``post-RA-hazard-rec`` but where the row says otherwise)
and the CDNA3 and CDNA4 ISA guides, "Manually inserted wait states".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from coasm.linter.operation import (
    EXEC_BITS,
    F64_PIPE,
    HARDWARE,
    M0_BIT,
    SGPRS,
    VCC_BITS,
    VGPRS,
    VSKIP,
)

__all__ = ["FARTHEST", "HAZARDS", "WRITTEN", "Hazard", "States"]

#: By column (:class:`~coasm.target.Family`, ``wait_states``), or one number for all; within it by
#: the producer's passes, or one number.
States = int | Mapping[int, int] | Mapping[str, int] | Mapping[str, Mapping[int, int]]


class Hazard(NamedTuple):
    """One row: *out* of a *producer*, *into* a *consumer*, needs *states* in between.

    Producer and consumer are kinds of :data:`coasm.linter.operation.KINDS`, of which one is
    enough, without those in *unless* (of the producer) and *but* (of the consumer). *out* is a
    role, or what of the written registers counts (:data:`WRITTEN`); *into* are roles. *same* says
    how they have to match beside having a register in common.

    Fewer states than *sure* are an error (None: fewer than *states*). From there on it is advice,
    because sources disagree or a kernel that works does it: *witness* says which.
    """

    rule: str
    producer: str
    out: str
    consumer: str
    into: str
    states: States
    same: str = ""
    unless: str = ""
    but: str = ""
    sure: States | None = None
    witness: str = ""


#: What of the registers that a producer writes counts for a row.
WRITTEN = {
    "vgprs": VGPRS,
    "sgprs": SGPRS,
    "vcc": VCC_BITS,
    "exec": EXEC_BITS,
    "m0": M0_BIT,
    "hardware register": HARDWARE,
    "f64 pipe": F64_PIPE,
    "vskip": VSKIP,
}

#: The most states that a row needs, on any target.
FARTHEST = 20

# How a C operand has to match D: its registers are the same and so is the opcode; only its
# registers are the same; it overlaps them. How a DOT has to match.
EXACT, OTHER_OPCODE, PART = "same registers and opcode", "same registers", "overlapping registers"
SAME_NAME, OTHER_NAME = "same opcode", "another opcode"

# By the producer's passes N. XDL: N + 3 to read A and B, N + 1 to read C, and on gfx950 one more,
# but for N = 2 where it is not read by an XDL as C. SGEMM: N + 2 and N.
_XDL_READ = {"gfx942": {2: 5, 4: 7, 8: 11, 16: 19}, "gfx950": {2: 5, 4: 8, 8: 12, 16: 20}}
_XDL_C_XDL = {"gfx942": {2: 3, 4: 5, 8: 9, 16: 17}, "gfx950": {2: 4, 4: 6, 8: 10, 16: 18}}
_XDL_C_OTHER = {"gfx942": {2: 3, 4: 5, 8: 9, 16: 17}, "gfx950": {2: 3, 4: 6, 8: 10, 16: 18}}
_SGEMM_READ = {2: 4, 8: 10, 16: 18}
_SGEMM_C = {2: 2, 8: 8, 16: 16}
_DGEMM_16_READ = {"gfx942": 11, "gfx950": 19}
_DGEMM_16_C = {"gfx942": 9, "gfx950": 17}
_ON_950 = {"gfx950": 2}  # what it is of is there alone
_V = "vgprs"

# Kernels of aiter that run on hardware and do what the public tables forbid.
_READS_EARLY = {
    "sure": 2,
    "witness": "fp8gemm_bf16_blockscale_BpreShuffle_96x128 (gfx942): v_mfma_f32_16x16x32_fp8_fp8, "
    "two v_pk_fma_f32, then v_pk_fma_f32 reads D, 2 states of 7",
}
_OVERWRITES_EARLY = {
    "sure": {2: 1, 4: 3, 8: 6, 16: 12},
    "witness": "fwd_hd128_bf16_rtne (gfx942): v_cndmask_b32 overwrites the D of "
    "v_mfma_f32_32x32x8_bf16 after 7 states of 11",
}
_INTO_C = {
    "sure": 1,
    "witness": "fwd_hd128_f4f4 (gfx950): v_mov_b64, s_nop 0, v_smfmac_f32_16x16x128_fp8_fp8 with "
    "that C, 1 state of 2",
}
_SWAP_INTO_AB = {
    "sure": 1,
    "witness": "bwd_hd128_bf16_a16_psskddv (gfx950): v_permlane16_swap_b32 v61, v63, v_mul_f32, "
    "then v_mfma_f32_32x32x16_bf16 with v[60:63] as B, 1 state of 2",
}
_LAST_OF_EIGHT = {
    "sure": 0,
    "witness": "fwd_hd128_i8fp8 (gfx950): v_cvt_pk_fp8_f32 v59 with op_sel, then "
    "v_mfma_f32_16x16x128_f8f6f4 with v[52:59] as B, no state",
}
_LDS_DMA = {
    "sure": 0,
    "witness": "most kernels that load to LDS, bf16gemm_fp32bf16_tn_96x64_bshuffle_splitk "
    "(gfx942) for one: s_add_u32 m0, then buffer_load_dword … lds, no state",
}
_OTHER_OPCODE = {
    "same": OTHER_OPCODE,
    "sure": 0,
    "witness": "fwd_hd128_fp8 (gfx950): v_mfma_f32_32x32x8_bf16, s_waitcnt, then "
    "v_mfma_scale_f32_32x32x64_f8f6f4 with that C, 1 state of 10; LLVM 22 and older wait for none",
}
_FROM_LANE = {
    "sure": 0,
    "witness": "topksoftmax_4x128x8 (gfx942): v_readlane_b32 s20, then v_mov_b32 v16, s20, no "
    "state",
}
_LANE_TO_MEMORY = {
    "sure": 2,
    "witness": "allreduce_rmsnorm_N8192 (gfx942): v_readlane_b32 s8, two scalar instructions, then "
    "buffer_store_dwordx4 through s[8:11], 2 states of 5",
}
_SHIFTED = {
    "sure": 1,
    "witness": "pa_bf16_pertokenFp8_gqa16_2tg_4w (gfx942): v_cndmask_b32 v120, v_cndmask_b32, "
    "then v_mov_b32_dpp reads v120, 1 state of 2",
}
_NOT_SHIFTED = {
    "sure": 0,
    "witness": "gemm_a8w8_m128_noSplitK (gfx942): v_mul_f32 v100, then v_mul_f32_dpp with v100 as "
    "src1, no state; LLVM counts src1 and the old destination too",
}
_SHIFTED_CONSTANT = {
    "sure": 0,
    "witness": "pa_a16w16_f16 (gfx942): v_mov_b32 v9, -1, then v_mov_b32_dpp v9, v9 row_shl:8, no "
    "state",
}
_INTO_SWAP = {
    "sure": 1,
    "witness": "mla_a8w8_qh16_qseqlen1_gqaratio16 (gfx950): v_cvt_pk_fp8_f32 v39, s_nop 0, then "
    "v_permlane16_swap_b32 v38, v39, 1 state of 2",
}
_SWAPS = {
    "sure": 0,
    "witness": "mla_a8w8_qh64_qseqlen1_gqaratio64_nm (gfx950): v_permlane32_swap_b32 v40, v40 "
    "twice, no state",
}
_STORE_SOFFSET = {
    "sure": 0,
    "witness": "f4gemm_bf16_per1x32Fp4_noBpreShuffle_256x256 (gfx950): buffer_store_dwordx4 "
    "v[44:47] … s51, then v_cvt_pk_bf16_f32 v44, no state",
}
_MIX_HALF = {
    "sure": 0,
    "witness": "what LLVM 22 and older compile: v_fma_mixlo_f16 v34, then v_bfi_b32 reads v34, no "
    "state; newer LLVM only",
}
_DISPUTED = {"sure": 0, "witness": "LLVM and the ISA guide disagree"}

#: (rule, producer, out, consumer, into, states, the rest of a :class:`Hazard` by name).
HAZARDS: tuple[Hazard, ...] = tuple(
    Hazard(*row[:6], **(row[6] if len(row) > 6 else {}))
    for row in (
        # Into an MFMA. Source: checkMAIHazards90A.
        ("mfma-valu-write", "valu", _V, "mfma", "ab_first", 2, {"unless": "dot permlane_swap"}),
        ("mfma-valu-write", "permlane_swap", _V, "mfma", "ab_first", _ON_950, _SWAP_INTO_AB),
        (
            "mfma-valu-write",
            "valu",
            _V,
            "mfma",
            "ab_last",
            _ON_950,
            {"unless": "dot", **_LAST_OF_EIGHT},
        ),
        ("mfma-valu-write", "valu", _V, "mfma", "c", 2, {"unless": "dot", **_INTO_C}),
        ("mfma-exec-write", "valu", "exec", "mfma", "reads", 4),
        ("mfma-dot-write", "dot", _V, "mfma", "ab c", 3, _DISPUTED),
        ("mfma-source", "xdl", _V, "mfma", "ab", _XDL_READ),
        ("mfma-source", "sgemm", _V, "mfma", "ab", _SGEMM_READ),
        ("mfma-source", "dgemm_4x4", _V, "mfma", "ab", 6),
        ("mfma-source", "dgemm_16x16", _V, "mfma", "ab", _DGEMM_16_READ),
        ("mfma-accumulator", "xdl", _V, "xdl", "c", _XDL_C_XDL, {"same": PART}),
        ("mfma-accumulator", "xdl", _V, "sgemm dgemm", "c", _XDL_C_OTHER, {"same": PART}),
        ("mfma-accumulator", "sgemm", _V, "sgemm dgemm", "c", _SGEMM_C, {"same": PART}),
        ("mfma-accumulator", "dgemm_4x4", _V, "sgemm dgemm", "c", 4, {"same": PART}),
        ("mfma-accumulator", "dgemm_16x16", _V, "sgemm dgemm", "c", _DGEMM_16_C, {"same": PART}),
        ("mfma-same-accumulator", "xdl sgemm", _V, "mfma", "c", {2: 2}, {"same": EXACT}),
        ("mfma-same-accumulator", "dgemm_4x4", _V, "mfma", "c", 4, {"same": EXACT}),
        ("mfma-opcode", "xdl", _V, "xdl", "c", _XDL_C_XDL, _OTHER_OPCODE),
        ("mfma-opcode", "xdl", _V, "sgemm dgemm", "c", _XDL_C_OTHER, _OTHER_OPCODE),
        ("mfma-opcode", "sgemm", _V, "sgemm dgemm", "c", _SGEMM_C, _OTHER_OPCODE),
        ("mfma-opcode", "sgemm", _V, "xdl", "c", {2: 2}, _OTHER_OPCODE),
        # Out of an MFMA or a DOT. Source: checkMAIVALUHazards.
        ("mfma-read", "xdl", _V, "valu", "reads", _XDL_READ, _READS_EARLY),
        ("mfma-read", "sgemm", _V, "valu", "reads", _SGEMM_READ),
        ("mfma-read", "dgemm_4x4", _V, "valu", "reads", 6),
        ("mfma-read", "dgemm_16x16", _V, "valu", "reads", _DGEMM_16_READ),
        ("mfma-memory-read", "xdl", _V, "vmem ds", "reads", _XDL_READ),
        ("mfma-memory-read", "sgemm", _V, "vmem ds", "reads", _SGEMM_READ),
        ("mfma-memory-read", "dgemm_4x4", _V, "vmem ds", "reads", 9),
        ("mfma-memory-read", "dgemm_16x16", _V, "vmem ds", "reads", 18),
        ("mfma-overwrite", "xdl", _V, "valu", "writes", _XDL_READ, _OVERWRITES_EARLY),
        ("mfma-overwrite", "xdl", _V, "load", "writes", _XDL_READ),
        ("mfma-overwrite", "sgemm", _V, "valu load", "writes", _SGEMM_READ),
        ("mfma-overwrite", "dgemm_4x4", _V, "valu load", "writes", 6),
        ("mfma-overwrite", "dgemm_16x16", _V, "valu load", "writes", _DGEMM_16_READ),
        ("mfma-overwrite-c", "xdl", "c_apart", "valu load", "writes", {2: 1, 4: 3, 8: 7, 16: 15}),
        ("dgemm-fma", "dgemm", "f64 pipe", "f64_fma", "reads", 2),
        ("dot-read", "dot", _V, "valu vmem ds", "reads", 3, {"same": OTHER_NAME}),
        ("dot-read", "dot", _V, "dot", "ab", 3, {"same": SAME_NAME}),
        ("dot-overwrite", "dot", _V, "valu load", "writes", 3, {"same": OTHER_NAME}),
        # Scalar results of VALU. Source: checkVMEMHazards, checkVALUHazards, checkRWLaneHazards,
        # checkDivFMasHazards, checkDPPHazards.
        ("valu-sgpr-vmem", "valu", "sgprs", "vmem", "reads", 5, {"unless": "readlane"}),
        ("valu-sgpr-vmem", "readlane", "sgprs", "vmem", "reads", 5, _LANE_TO_MEMORY),
        ("valu-exec-vmem", "valu", "exec", "vmem", "reads", 5, _DISPUTED),
        ("valu-sgpr-constant", "valu", "sgprs", "valu", "constant", 2, {"unless": "readlane"}),
        ("valu-sgpr-constant", "readlane", "sgprs", "valu", "constant", 2, _FROM_LANE),
        ("valu-sgpr-mask", "valu", "sgprs", "valu", "mask", 2, _DISPUTED),
        ("valu-sgpr-lane", "valu", "sgprs", "lane_select", "lane", 4),
        ("valu-vcc-div-fmas", "valu", "vcc", "div_fmas", "reads", 4),
        ("valu-exec-lane", "valu", "exec", "rwlane", "reads", 4),
        ("valu-exec-constant", "valu", "exec", "valu", "exec_data", 2),
        ("valu-exec-dpp", "valu", "exec", "dpp", "reads", 5),
        ("valu-zero-flag", "valu", "vcc", "valu", "zero_flag", 5, _DISPUTED),
        ("valu-zero-flag", "valu", "exec", "valu", "zero_flag", 5, _DISPUTED),
        # Vector results. Source: checkVALUHazards, checkDPPHazards, checkPermlaneHazards,
        # createsVALUHazard.
        ("valu-readlane", "valu", _V, "readlane", "reads", 1),
        ("valu-dpp", "valu", _V, "dpp", "shifted", 2, {"unless": "constant_move", **_SHIFTED}),
        ("valu-dpp", "constant_move", _V, "dpp", "shifted", 2, _SHIFTED_CONSTANT),
        ("valu-dpp", "valu", _V, "dpp", "reads", 2, _NOT_SHIFTED),
        ("load-dpp", "load", _V, "dpp", "reads", 2, _DISPUTED),
        (
            "permlane-swap",
            "valu",
            _V,
            "permlane_swap",
            "touches",
            _ON_950,
            {"unless": "permlane_swap", **_INTO_SWAP},
        ),
        ("permlane-swap", "permlane_swap", _V, "permlane_swap", "touches", _ON_950, _SWAPS),
        ("permlane-swap-exec", "valu", "exec", "permlane_swap", "reads", {"gfx950": 4}),
        ("trans", "trans", _V, "valu mfma", "sources", 1, {"but": "trans"}),
        ("sub-dword", "sub_dword", _V, "valu", "touches", 1),
        ("sub-dword", "sub_dword", _V, "mfma", "ab_first c writes", 1),
        ("sub-dword", "sub_dword", _V, "mfma", "ab_last", {"gfx950": 1}, _LAST_OF_EIGHT),
        ("sub-dword", "mix_half", _V, "valu mfma", "touches", 1, _MIX_HALF),
        ("wide-store", "wide_store", "data", "valu mfma", "writes", 2),
        ("wide-store", "wide_store_soffset", "data", "valu mfma", "writes", 1, _STORE_SOFFSET),
        (
            "wide-store-load",
            "wide_store wide_store_soffset",
            "data",
            "load",
            "writes",
            1,
            _DISPUTED,
        ),
        # M0 and hardware registers. Source: checkReadM0Hazards, checkGetRegHazards,
        # checkSetRegHazards, checkRFEHazards; the ISA guide alone for vskip.
        ("m0-write", "salu", "m0", "m0_reader", "reads", 1, {"but": "lds_dma"}),
        ("m0-write", "salu", "m0", "lds_dma", "reads", 1, _LDS_DMA),
        ("setreg", "setreg", "hardware register", "setreg getreg", "touches", 2),
        ("setreg-rfe", "setreg", "hardware register", "rfe", "reads", 1),
        ("vskip", "setvskip", "hardware register", "getreg", "reads", 2, _DISPUTED),
        ("vskip", "setreg", "vskip", "valu mfma vmem ds", "reads", 2, _DISPUTED),
    )
)
