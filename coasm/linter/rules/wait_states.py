"""Wait states: which instruction must not follow which too closely.

A wait state is an issued instruction; ``s_nop N`` is N + 1. A row needs its states strictly between
the producer and the consumer, on the shortest path. Sources: LLVM's GCNHazardRecognizer (each
number was measured with LLVM 22's ``post-RA-hazard-rec`` but where the row says otherwise) and the
CDNA3 and CDNA4 ISA guides, "Manually inserted wait states". Witnesses are kernels of aiter that run
on hardware and do what the public tables forbid.
"""

from __future__ import annotations

from collections.abc import Mapping

from coasm.descriptor import Resources
from coasm.isa import Literal, Parsed
from coasm.linter.findings import ADVICE
from coasm.linter.rules.rule import Hazard, Message, OperandBug, Rule

__all__ = ["EXACT", "OTHER_NAME", "OTHER_OPCODE", "PART", "RULES", "SAME_NAME"]

_MFMA_TABLES = "CDNA3 ISA guide, table 37; CDNA4 ISA guide, table 38"
_VALU_TABLES = "CDNA3 and CDNA4 ISA guides, table 11"
_INTO_MFMA = f"LLVM GCNHazardRecognizer::checkMAIHazards90A; {_MFMA_TABLES}"
_OUT_OF_MFMA = f"LLVM GCNHazardRecognizer::checkMAIVALUHazards; {_MFMA_TABLES}"
_VALU = f"LLVM GCNHazardRecognizer::checkVALUHazards; {_VALU_TABLES}"

# How a C operand has to match D: its registers are the same and so is the opcode; only its
# registers are the same; it overlaps them. How a DOT has to match.
EXACT, OTHER_OPCODE, PART = "same registers and opcode", "same registers", "overlapping registers"
SAME_NAME, OTHER_NAME = "same opcode", "another opcode"

#: Columns: all of GFX9; those whose VGPRs an MFMA writes; from CDNA3 on.
_GFX9 = "vega cdna1 cdna2 cdna3 cdna4"
_MAI = "cdna2 cdna3 cdna4"
_CDNA3 = "cdna3 cdna4"


def _on(columns: str, *hazards: Hazard) -> tuple[Hazard, ...]:
    """*hazards* on those *columns*."""
    return tuple(hazard._replace(on=columns) for hazard in hazards)


_ByColumn = dict[str, int | Mapping[int, int]]
# By the producer's passes N. XDL: N + 3 to read A and B, N + 1 to read C, and on gfx950 one more,
# but for N = 2 where it is not read by an XDL as C. SGEMM: N + 2 and N.
_XDL_READ: _ByColumn = {
    "cdna2 cdna3": {2: 5, 4: 7, 8: 11, 16: 19},
    "cdna4": {2: 5, 4: 8, 8: 12, 16: 20},
}
_XDL_C_XDL: _ByColumn = {
    "cdna2": {2: 2, 8: 8, 16: 16},
    "cdna3": {2: 3, 4: 5, 8: 9, 16: 17},
    "cdna4": {2: 4, 4: 6, 8: 10, 16: 18},
}
_XDL_C_OTHER: _ByColumn = {
    "cdna2 cdna3": {2: 3, 4: 5, 8: 9, 16: 17},
    "cdna4": {2: 3, 4: 6, 8: 10, 16: 18},
}
_SGEMM_READ = {2: 4, 8: 10, 16: 18}
_SGEMM_C = {2: 2, 8: 8, 16: 16}
_DGEMM_16_READ = {"cdna2 cdna3": 11, "cdna4": 19}
_DGEMM_16_C = {"cdna2 cdna3": 9, "cdna4": 17}
_ON_950 = {"cdna4": 2}  # what it is of is there alone
_V = "vgprs"

_END_THE_RUN = "insert s_nop 0 before it"
_LAST_OF_EIGHT = (
    0,
    "fwd_hd128_i8fp8 (gfx950): v_cvt_pk_fp8_f32 v59 with op_sel, then "
    "v_mfma_f32_16x16x128_f8f6f4 with v[52:59] as B, no state",
)
_FORWARDED = (
    0,
    "fwd_hd128_fp8 (gfx950): v_mfma_f32_32x32x8_bf16, s_waitcnt, then "
    "v_mfma_scale_f32_32x32x64_f8f6f4 with that C, 1 state of 10; LLVM 22 and older wait for none",
)
_DISPUTED = (0, "LLVM and the ISA guide disagree")


def _beyond_15(parsed: Parsed, declared: Resources | None) -> bool:
    first = parsed.operands[0] if parsed.operands else None
    return isinstance(first, Literal) and first.value > 15


RULES: tuple[Rule, ...] = (
    Rule(
        "mfma-valu-write",
        "an MFMA reads what a VALU instruction just wrote",
        "The matrix pipe reads its operands earlier than the VALU does, and does not wait for a "
        "VALU result that is still under way: it gets the old value. Put independent instructions "
        "or an s_nop between the two.",
        _INTO_MFMA,
        hazards=(
            *_on(
                _MAI,
                Hazard("valu", _V, "mfma", "ab_first", 2, unless="dot permlane_swap"),
                Hazard("permlane_swap", _V, "mfma", "ab_first", _ON_950).seen(
                    1,
                    "bwd_hd128_bf16_a16_psskddv (gfx950): v_permlane16_swap_b32 v61, v63, "
                    "v_mul_f32, then v_mfma_f32_32x32x16_bf16 with v[60:63] as B, 1 state of 2",
                ),
                Hazard("valu", _V, "mfma", "ab_last", _ON_950, unless="dot").seen(*_LAST_OF_EIGHT),
                Hazard("valu", _V, "mfma", "c", 2, unless="dot").seen(
                    1,
                    "fwd_hd128_f4f4 (gfx950): v_mov_b64, s_nop 0, "
                    "v_smfmac_f32_16x16x128_fp8_fp8 with that C, 1 state of 2",
                ),
            ),
            *_on("cdna1", Hazard("valu", "arch vgprs", "mfma agpr_write", "reads", 2)),
        ),
    ),
    Rule(
        "mfma-exec-write",
        "an MFMA follows a VALU instruction that writes EXEC",
        "A v_cmpx writes EXEC late, and an MFMA that follows too closely may still use the old "
        "mask, whatever its registers. EXEC written by a scalar instruction needs no states. Move "
        "independent instructions in between.",
        _INTO_MFMA,
        hazards=(
            *_on(_MAI, Hazard("valu", "exec", "mfma", "reads", 4)),
            *_on("cdna1", Hazard("valu", "exec", "mfma agpr_write", "reads", 4)),
        ),
    ),
    Rule(
        "mfma-dot-write",
        "an MFMA reads what a dot product just wrote",
        "The ISA guide asks for three wait states between a v_dot* and an instruction of another "
        "opcode that reads its result; LLVM asks for none where that is an MFMA. Three states are "
        "right by both.",
        f"{_INTO_MFMA}; LLVM checks no such pair",
        hazards=(*_on(_CDNA3, Hazard("dot", _V, "mfma", "ab c", 3).seen(*_DISPUTED)),),
    ),
    Rule(
        "mfma-source",
        "an MFMA reads as A or B what an MFMA still writes",
        "An MFMA writes its result some passes after it was issued, and nothing holds back a "
        "second one that reads it as A, B, index or scale: it multiplies the old values, without a "
        "fault. The more passes the first takes, the more states are needed. Schedule other MFMAs "
        "or loads in between, or insert s_nop.",
        _INTO_MFMA,
        hazards=(
            Hazard("xdl", _V, "mfma", "ab", {"cdna1": 4, **_XDL_READ}),
            *_on(_CDNA3, Hazard("sgemm", _V, "mfma", "ab", _SGEMM_READ)),
            *_on(_MAI, Hazard("dgemm_4x4", _V, "mfma", "ab", 6)),
            Hazard("dgemm_16x16", _V, "mfma", "ab", _DGEMM_16_READ),
        ),
    ),
    Rule(
        "mfma-accumulator",
        "an MFMA accumulates onto part of what an MFMA still writes",
        "The result is forwarded to the C operand of the next MFMA only where both name the same "
        "registers. Where C overlaps them in part, or starts or ends elsewhere, the second reads "
        "the register file before the first has written it.",
        _INTO_MFMA,
        hazards=(
            Hazard("xdl", _V, "xdl", "c", {"cdna1": 2, **_XDL_C_XDL}, same=PART),
            Hazard("xdl", _V, "sgemm dgemm", "c", _XDL_C_OTHER, same=PART),
            *_on(_CDNA3, Hazard("sgemm", _V, "sgemm dgemm", "c", _SGEMM_C, same=PART)),
            *_on(_MAI, Hazard("dgemm_4x4", _V, "sgemm dgemm", "c", 4, same=PART)),
            Hazard("dgemm_16x16", _V, "sgemm dgemm", "c", _DGEMM_16_C, same=PART),
        ),
    ),
    Rule(
        "mfma-same-accumulator",
        "an MFMA follows too closely on its own accumulator",
        "Results are forwarded from one MFMA to the next of the same opcode with the same "
        "accumulator, but the shortest of them (2 passes, 4x4) leave too little time for it. Put "
        "another instruction between the two.",
        _INTO_MFMA,
        hazards=(
            *_on(_CDNA3, Hazard("xdl sgemm", _V, "mfma", "c", {2: 2}, same=EXACT)),
            *_on(_MAI, Hazard("dgemm_4x4", _V, "mfma", "c", 4, same=EXACT)),
        ),
    ),
    Rule(
        "mfma-opcode",
        "an MFMA of another opcode reads this accumulator as C",
        "Results are forwarded to C between MFMAs of one opcode; the ISA guide exempts only equal "
        "passes and none from XDL into SGEMM or DGEMM. LLVM up to 22 asks for no states where the "
        "registers are identical, newer ones for those of an overlap.",
        f"{_INTO_MFMA} (newer LLVM: getMFMAOverlappedSrcCWaitStates)",
        hazards=(
            *_on(
                _CDNA3,
                Hazard("xdl", _V, "xdl", "c", _XDL_C_XDL, OTHER_OPCODE).seen(*_FORWARDED),
                Hazard("xdl", _V, "sgemm dgemm", "c", _XDL_C_OTHER, OTHER_OPCODE).seen(*_FORWARDED),
                Hazard("sgemm", _V, "sgemm dgemm", "c", _SGEMM_C, OTHER_OPCODE).seen(*_FORWARDED),
                Hazard("sgemm", _V, "xdl", "c", {2: 2}, OTHER_OPCODE).seen(*_FORWARDED),
            ),
        ),
    ),
    Rule(
        "mfma-read",
        "the result of an MFMA is read while still being written",
        "An MFMA writes its result some passes after it was issued, and no VALU instruction waits "
        "for it: it reads the old values, without a fault. AGPRs and "
        "VGPRs behave alike, and so does v_accvgpr_read. Schedule other work in between, or insert "
        "s_nop.",
        _OUT_OF_MFMA,
        hazards=(
            Hazard("xdl", _V, "valu", "reads", _XDL_READ).seen(
                {_CDNA3: 2},
                "fp8gemm_bf16_blockscale_BpreShuffle_96x128 (gfx942): "
                "v_mfma_f32_16x16x32_fp8_fp8, two v_pk_fma_f32, then v_pk_fma_f32 reads D, 2 "
                "states of 7",
            ),
            *_on(_CDNA3, Hazard("sgemm", _V, "valu", "reads", _SGEMM_READ)),
            *_on(_MAI, Hazard("dgemm_4x4", _V, "valu", "reads", 6)),
            Hazard("dgemm_16x16", _V, "valu", "reads", _DGEMM_16_READ),
            Hazard("xdl", _V, "agpr_read", "reads", {"cdna1": {2: 4, 8: 10, 16: 18}}),
        ),
    ),
    Rule(
        "mfma-memory-read",
        "memory reads the result of an MFMA still being written",
        "A store, an LDS write or an address takes its VGPRs or AGPRs at issue and does not wait "
        "for an MFMA that still writes them: old values are stored, without a fault. Schedule "
        "other work in between, or insert s_nop.",
        _OUT_OF_MFMA,
        hazards=(
            Hazard("xdl", _V, "vmem ds", "reads", _XDL_READ),
            *_on(_CDNA3, Hazard("sgemm", _V, "vmem ds", "reads", _SGEMM_READ)),
            *_on(_MAI, Hazard("dgemm_4x4", _V, "vmem ds", "reads", 9)),
            *_on(_MAI, Hazard("dgemm_16x16", _V, "vmem ds", "reads", 18)),
        ),
    ),
    Rule(
        "mfma-overwrite",
        "the result of an MFMA is overwritten while in flight",
        "The MFMA's late write lands behind the newer one of a VALU instruction or a load, so that "
        "the register keeps the older value. A load counts where it is issued. Write to another "
        "register, or put the states in between.",
        _OUT_OF_MFMA,
        hazards=(
            Hazard("xdl", _V, "valu", "writes", _XDL_READ).seen(
                {_CDNA3: {2: 1, 4: 3, 8: 6, 16: 12}},
                "fwd_hd128_bf16_rtne (gfx942): v_cndmask_b32 overwrites the D of "
                "v_mfma_f32_32x32x8_bf16 after 7 states of 11",
            ),
            Hazard("xdl", _V, "load", "writes", _XDL_READ),
            *_on(_CDNA3, Hazard("sgemm", _V, "valu load", "writes", _SGEMM_READ)),
            *_on(_MAI, Hazard("dgemm_4x4", _V, "valu load", "writes", 6)),
            Hazard("dgemm_16x16", _V, "valu load", "writes", _DGEMM_16_READ),
            Hazard("xdl", _V, "agpr_write", "writes", {"cdna1": {2: 1, 8: 7, 16: 15}}),
        ),
    ),
    Rule(
        "mfma-overwrite-c",
        "the accumulator that an MFMA still reads is overwritten",
        "An XDL MFMA reads its C operand over several passes; a VALU instruction or a load that "
        "writes these registers meanwhile changes what is accumulated. A and B are read at issue "
        "and need no states.",
        _OUT_OF_MFMA,
        hazards=(
            *_on(_MAI, Hazard("xdl", "c_apart", "valu load", "writes", {2: 1, 4: 3, 8: 7, 16: 15})),
            Hazard("xdl", "c_apart", "agpr_write", "writes", {"cdna1": {8: 5, 16: 13}}),
        ),
    ),
    Rule(
        "agpr-write",
        "an AGPR is used right behind the move that wrote it",
        "On CDNA1 AGPRs are apart from the VGPRs: v_accvgpr_write puts a value there late, and an "
        "MFMA or v_accvgpr_read that follows too closely gets the old one. Three states are "
        "needed, one where it is C.",
        "LLVM GCNHazardRecognizer::checkMAIHazards908",
        hazards=(
            Hazard("agpr_write", "agprs", "mfma", "ab", {"cdna1": 3}),
            Hazard("agpr_write", "agprs", "mfma", "c", {"cdna1": 1}),
            Hazard("agpr_write", "agprs", "agpr_read", "reads", {"cdna1": 3}),
            Hazard("agpr_write", "agprs", "agpr_write", "writes", {"cdna1": 3}),
        ),
    ),
    Rule(
        "agpr-memory",
        "memory reads a VGPR that was just moved out of an AGPR",
        "On CDNA1 a memory instruction takes its VGPRs before a v_accvgpr_read ahead of it has "
        "written them; and with a move of AGPRs in between it does not wait for another VALU "
        "instruction either. Two states are needed behind that which writes.",
        "LLVM GCNHazardRecognizer::checkMAILdStHazards",
        hazards=(
            Hazard("agpr_read", _V, "vmem ds", "reads", {"cdna1": 2}),
            Hazard(
                "valu",
                _V,
                "vmem ds",
                "reads",
                {"cdna1": 2},
                unless="agpr_read agpr_write",
                through="agpr_read agpr_write",
            ),
        ),
    ),
    Rule(
        "dgemm-memory",
        "memory reads a VGPR of a VALU with an f64 MFMA in between",
        "On CDNA2 a memory instruction waits for the VALU instruction that writes its VGPRs, but "
        "not where an f64 MFMA stands between the two. Two states are needed behind that which "
        "writes.",
        "LLVM GCNHazardRecognizer::checkMAIVALUHazards (DMFMABetweenVALUWriteVMEMRead)",
        hazards=(Hazard("valu", _V, "vmem ds", "reads", {"cdna2": 2}, through="dgemm"),),
    ),
    Rule(
        "dgemm-fma",
        "an f64 FMA follows too closely on an f64 MFMA",
        "f64 MFMAs and v_fma_f64 share a pipe, whatever their registers. Put two other "
        "instructions or s_nop 1 in between.",
        _OUT_OF_MFMA,
        hazards=(*_on(_MAI, Hazard("dgemm", "f64 pipe", "f64_fma", "reads", 2)),),
    ),
    Rule(
        "dot-read",
        "the result of a dot product is read too early",
        "A v_dot* takes longer than other VALU instructions, and its result is forwarded only to "
        "the accumulator of the same opcode. Every other reader needs three wait states, or reads "
        "the old value.",
        _OUT_OF_MFMA,
        hazards=(
            *_on(
                _MAI,
                Hazard("dot", _V, "valu vmem ds", "reads", 3, same=OTHER_NAME),
                Hazard("dot", _V, "dot", "ab", 3, same=SAME_NAME),
            ),
        ),
    ),
    Rule(
        "dot-overwrite",
        "the result of a dot product is overwritten in flight",
        "A v_dot* writes later than other VALU instructions: what another one or a load writes to "
        "the same register less than three wait states behind it is lost.",
        _OUT_OF_MFMA,
        hazards=(*_on(_MAI, Hazard("dot", _V, "valu load", "writes", 3, same=OTHER_NAME)),),
    ),
    Rule(
        "valu-sgpr-vmem",
        "a memory instruction reads an SGPR that a VALU just wrote",
        "v_readlane, v_readfirstlane, v_cmp and carries write scalars late. A buffer, flat, global "
        "or scratch instruction reads its descriptor, offset or base without waiting for them and "
        "goes to the old address. Scalars written by SALU need no states.",
        f"LLVM GCNHazardRecognizer::checkVMEMHazards; {_VALU_TABLES}",
        hazards=(
            *_on(
                _GFX9,
                Hazard("valu", "sgprs", "vmem", "reads", 5, unless="readlane"),
                Hazard("readlane", "sgprs", "vmem", "reads", 5).seen(
                    2,
                    "allreduce_rmsnorm_N8192 (gfx942): v_readlane_b32 s8, two scalar "
                    "instructions, then buffer_store_dwordx4 through s[8:11], 2 states of 5",
                ),
            ),
        ),
    ),
    Rule(
        "valu-exec-vmem",
        "a memory instruction follows a VALU that writes EXEC",
        "LLVM treats EXEC as an operand of memory instructions and keeps five wait states behind a "
        "v_cmpx; the ISA guide has no such row.",
        "LLVM GCNHazardRecognizer::checkVMEMHazards; not in the ISA guides",
        hazards=(*_on(_GFX9, Hazard("valu", "exec", "vmem", "reads", 5).seen(*_DISPUTED)),),
    ),
    Rule(
        "valu-sgpr-constant",
        "a VALU reads as a constant an SGPR that a VALU just wrote",
        "The VALU reads scalar operands before the scalar result of the VALU instruction ahead of "
        "it has been written. Two wait states are needed; scalars written by SALU need none.",
        f"LLVM GCNHazardRecognizer::checkVALUHazards (VDecCoExec); {_VALU_TABLES}",
        hazards=(
            *_on(
                _CDNA3,
                Hazard("valu", "sgprs", "valu", "constant", 2, unless="readlane"),
                Hazard("readlane", "sgprs", "valu", "constant", 2).seen(
                    0,
                    "topksoftmax_4x128x8 (gfx942): v_readlane_b32 s20, then v_mov_b32 v16, "
                    "s20, no state",
                ),
            ),
        ),
    ),
    Rule(
        "valu-sgpr-mask",
        "a VALU selects or carries by an SGPR just written",
        "LLVM keeps two wait states also where the scalar is a carry-in or the mask of v_cndmask; "
        "the ISA guide asks for none there.",
        "LLVM GCNHazardRecognizer::checkVALUHazards; not in the ISA guides",
        hazards=(*_on(_CDNA3, Hazard("valu", "sgprs", "valu", "mask", 2).seen(*_DISPUTED)),),
    ),
    Rule(
        "valu-sgpr-lane",
        "a lane number comes from an SGPR that a VALU just wrote",
        "v_readlane and v_writelane read the number of the lane before the scalar result of a VALU "
        "instruction has been written, and take another lane. Four wait states are needed.",
        f"LLVM GCNHazardRecognizer::checkRWLaneHazards; {_VALU_TABLES}",
        hazards=(*_on(_GFX9, Hazard("valu", "sgprs", "lane_select", "lane", 4)),),
    ),
    Rule(
        "valu-vcc-div-fmas",
        "v_div_fmas reads VCC that a VALU just wrote",
        "v_div_fmas takes VCC as an operand that is not interlocked: after a v_div_scale or v_cmp "
        "that writes VCC it scales by the old bits. Four wait states are needed.",
        f"LLVM GCNHazardRecognizer::checkDivFMasHazards; {_VALU_TABLES}",
        hazards=(*_on(_GFX9, Hazard("valu", "vcc", "div_fmas", "reads", 4)),),
    ),
    Rule(
        "valu-exec-lane",
        "a lane is read or written just after a VALU wrote EXEC",
        "v_readlane, v_readfirstlane and v_writelane use EXEC before a v_cmpx ahead of them has "
        "written it. Four wait states are needed.",
        _VALU,
        hazards=(*_on(_CDNA3, Hazard("valu", "exec", "rwlane", "reads", 4)),),
    ),
    Rule(
        "valu-exec-constant",
        "a VALU reads as data an EXEC that a VALU just wrote",
        "As a mask EXEC is interlocked, as an operand it is not: the VALU gets the value from "
        "before the v_cmpx. Two wait states are needed.",
        _VALU,
        hazards=(*_on(_CDNA3, Hazard("valu", "exec", "valu", "exec_data", 2)),),
    ),
    Rule(
        "valu-exec-dpp",
        "a DPP instruction follows a VALU that writes EXEC",
        "DPP decides by EXEC which lanes it may take data from, earlier than other instructions "
        "use it. Five wait states are needed behind a v_cmpx.",
        f"LLVM GCNHazardRecognizer::checkDPPHazards; {_VALU_TABLES}",
        hazards=(*_on(_GFX9, Hazard("valu", "exec", "dpp", "reads", 5)),),
    ),
    Rule(
        "valu-zero-flag",
        "vccz or execz is read as data just after a VALU wrote it",
        "The ISA guide asks for five wait states until src_vccz or src_execz as an operand is up "
        "to date; LLVM never emits such an operand and checks nothing.",
        f"{_VALU_TABLES}; none in LLVM",
        hazards=(
            *_on(
                _GFX9,
                Hazard("valu", "vcc", "valu", "zero_flag", 5).seen(*_DISPUTED),
                Hazard("valu", "exec", "valu", "zero_flag", 5).seen(*_DISPUTED),
            ),
        ),
    ),
    Rule(
        "valu-readlane",
        "v_readlane reads a VGPR that a VALU just wrote",
        "The value is read across lanes before the forwarding network has it. One wait state is "
        "needed.",
        _VALU,
        hazards=(*_on(_CDNA3, Hazard("valu", _V, "readlane", "reads", 1)),),
    ),
    Rule(
        "valu-dpp",
        "a DPP instruction reads a VGPR that a VALU just wrote",
        "DPP reads the registers of other lanes, past the forwarding between VALU instructions, "
        "and gets old values. Two wait states are needed, for every VGPR that the instruction "
        "reads and for its old destination.",
        f"LLVM GCNHazardRecognizer::checkDPPHazards; {_VALU_TABLES}",
        hazards=(
            *_on(
                _GFX9,
                Hazard("valu", _V, "dpp", "shifted", 2, unless="constant_move").seen(
                    1,
                    "pa_bf16_pertokenFp8_gqa16_2tg_4w (gfx942): v_cndmask_b32 v120, "
                    "v_cndmask_b32, then v_mov_b32_dpp reads v120, 1 state of 2",
                ),
                Hazard("constant_move", _V, "dpp", "shifted", 2).seen(
                    0,
                    "pa_a16w16_f16 (gfx942): v_mov_b32 v9, -1, then v_mov_b32_dpp v9, v9 "
                    "row_shl:8, no state",
                ),
                Hazard("valu", _V, "dpp", "reads", 2).seen(
                    0,
                    "gemm_a8w8_m128_noSplitK (gfx942): v_mul_f32 v100, then v_mul_f32_dpp "
                    "with v100 as src1, no state; LLVM counts src1 and the old destination too",
                ),
            ),
        ),
    ),
    Rule(
        "load-dpp",
        "a DPP instruction reads a VGPR that was just loaded",
        "LLVM counts a load among the writers that DPP has to keep away from, and its s_waitcnt "
        "only as one state. The counter already says that the data is there.",
        "LLVM GCNHazardRecognizer::checkDPPHazards; not in the ISA guides",
        hazards=(*_on(_GFX9, Hazard("load", _V, "dpp", "reads", 2).seen(*_DISPUTED)),),
    ),
    Rule(
        "permlane-swap",
        "a permlane swap touches a VGPR that a VALU just wrote",
        "v_permlane16_swap and v_permlane32_swap read both operands across lanes, past the "
        "forwarding between VALU instructions. Two wait states are needed.",
        "LLVM GCNHazardRecognizer::checkPermlaneHazards; CDNA4 ISA guide, table 11",
        hazards=(
            Hazard("valu", _V, "permlane_swap", "touches", _ON_950, unless="permlane_swap").seen(
                1,
                "mla_a8w8_qh16_qseqlen1_gqaratio16 (gfx950): v_cvt_pk_fp8_f32 v39, s_nop "
                "0, then v_permlane16_swap_b32 v38, v39, 1 state of 2",
            ),
            Hazard("permlane_swap", _V, "permlane_swap", "touches", _ON_950).seen(
                0,
                "mla_a8w8_qh64_qseqlen1_gqaratio64_nm (gfx950): v_permlane32_swap_b32 "
                "v40, v40 twice, no state",
            ),
        ),
    ),
    Rule(
        "permlane-swap-exec",
        "a permlane swap follows a VALU that writes EXEC",
        "v_permlane16_swap and v_permlane32_swap use EXEC before a v_cmpx ahead of them has "
        "written it. Four wait states are needed.",
        "LLVM GCNHazardRecognizer::checkPermlaneHazards; CDNA4 ISA guide, table 11",
        hazards=(Hazard("valu", "exec", "permlane_swap", "reads", {"cdna4": 4}),),
    ),
    Rule(
        "trans",
        "a result of the transcendental unit is read at once",
        "v_exp, v_log, v_rcp, v_rsq, v_sqrt, v_sin and v_cos take longer than other VALU "
        "instructions, and an ordinary VALU instruction right behind one reads the old value. One "
        "wait state is needed; another transcendental, a store or an LDS instruction needs none.",
        f"LLVM GCNHazardRecognizer::checkVALUHazards (TransForwarding); {_VALU_TABLES}",
        hazards=(*_on(_CDNA3, Hazard("trans", _V, "valu mfma", "sources", 1, but="trans")),),
    ),
    Rule(
        "sub-dword",
        "a VGPR of which a part was just written is used at once",
        "What SDWA, op_sel or a byte select writes to a part of a register is not forwarded: the "
        "next VALU instruction that reads or writes the register takes it without that part. One "
        "wait state is needed.",
        f"LLVM GCNHazardRecognizer::checkVALUHazards (getDstSelForwardingOperand); {_VALU_TABLES}",
        hazards=(
            *_on(
                _CDNA3,
                Hazard("sub_dword", _V, "valu", "touches", 1),
                Hazard("sub_dword", _V, "mfma", "ab_first c writes", 1),
                Hazard("sub_dword", _V, "mfma", "ab_last", {"cdna4": 1}).seen(*_LAST_OF_EIGHT),
                Hazard("mix_half", _V, "valu mfma", "touches", 1).seen(
                    0,
                    "what LLVM 22 and older compile: v_fma_mixlo_f16 v34, then v_bfi_b32 "
                    "reads v34, no state; newer LLVM only",
                ),
            ),
        ),
    ),
    Rule(
        "wide-store",
        "the data of a wide store is overwritten at once",
        "A store of more than 64 bits reads its data over several cycles after it was issued, and "
        "a VALU instruction that overwrites them meanwhile changes what is stored. Two wait states "
        "are needed, one where the offset is in an SGPR.",
        "LLVM GCNHazardRecognizer::createsVALUHazard, checkSOFFSETWindowVALUHazardsHelper (newer "
        f"LLVM; LLVM 22 and the guides ask for none with an SGPR offset); {_VALU_TABLES}",
        hazards=(
            *_on(_CDNA3, Hazard("wide_store", "data", "valu mfma", "writes", 2)),
            *_on(
                _CDNA3,
                Hazard("wide_store_soffset", "data", "valu mfma", "writes", 1).seen(
                    0,
                    "f4gemm_bf16_per1x32Fp4_noBpreShuffle_256x256 (gfx950): "
                    "buffer_store_dwordx4 v[44:47] … s51, then v_cvt_pk_bf16_f32 v44, no state",
                ),
            ),
            Hazard("wide_store", "data", "valu mfma", "writes", {"vega cdna1 cdna2": 1}),
        ),
    ),
    Rule(
        "wide-store-load",
        "a load overwrites the data of a wide store at once",
        "The ISA guide asks for one wait state also where a load takes the place of the data; LLVM "
        "asks for none, for the load's result comes much later.",
        f"{_VALU_TABLES}; not in LLVM",
        hazards=(
            *_on(
                _CDNA3,
                Hazard("wide_store wide_store_soffset", "data", "load", "writes", 1).seen(
                    *_DISPUTED
                ),
            ),
        ),
    ),
    Rule(
        "m0-write",
        "M0 is used right behind the instruction that wrote it",
        "A load to LDS, an add-TID access, a message or s_movrel takes M0 from where the scalar "
        "write has not yet arrived. One wait state is needed.",
        f"LLVM GCNHazardRecognizer::checkReadM0Hazards; {_VALU_TABLES}",
        hazards=(
            *_on(
                _GFX9,
                Hazard("salu", "m0", "m0_reader", "reads", 1, but="lds_dma"),
                Hazard("salu", "m0", "lds_dma", "reads", 1).seen(
                    0,
                    "most kernels that load to LDS, "
                    "bf16gemm_fp32bf16_tn_96x64_bshuffle_splitk (gfx942) for one: s_add_u32 m0, "
                    "then buffer_load_dword … lds, no state",
                ),
            ),
        ),
    ),
    Rule(
        "setreg",
        "a hardware register is used right after s_setreg",
        "s_setreg takes effect late: an s_getreg of the same register reads the old value, and a "
        "second s_setreg may be lost. Two wait states are needed; another register needs none.",
        f"LLVM GCNHazardRecognizer::checkSetRegHazards, checkGetRegHazards; {_VALU_TABLES}",
        hazards=(
            *_on(_GFX9, Hazard("setreg", "hardware register", "setreg getreg", "touches", 2)),
        ),
    ),
    Rule(
        "setreg-rfe",
        "s_rfe follows right after s_setreg of TRAPSTS",
        "The return from the trap handler uses TRAPSTS before the write to it has arrived. One "
        "wait state is needed.",
        f"LLVM GCNHazardRecognizer::checkRFEHazards; {_VALU_TABLES}",
        hazards=(*_on(_GFX9, Hazard("setreg", "hardware register", "rfe", "reads", 1)),),
    ),
    Rule(
        "vskip",
        "skipping of vector instructions was just switched",
        "MODE.vskip takes effect two wait states after it was written; until then vector "
        "instructions, or an s_getreg of MODE, see the old setting.",
        f"{_VALU_TABLES}; none in LLVM",
        hazards=(
            *_on(
                _GFX9,
                Hazard("setvskip", "hardware register", "getreg", "reads", 2).seen(*_DISPUTED),
                Hazard("setreg", "vskip", "valu mfma vmem ds", "reads", 2).seen(*_DISPUTED),
            ),
        ),
    ),
    Rule(
        "nop-range",
        "s_nop waits less than its operand says",
        "s_nop has four bits for its operand: s_nop 16 assembles and waits for one state, not for "
        "seventeen. Write several of them.",
        "CDNA3 and CDNA4 ISA guides, SOPP; LLVM SIInstrInfo::getNumWaitStates",
        messages={
            "beyond 15": Message(
                "s_nop uses the low 4 bits of its operand alone, so it waits for less",
                "use several s_nop of at most 15",
            ),
        },
        bugs=(OperandBug("nop_of_4_bits", "nop", _beyond_15, "beyond 15"),),
    ),
    Rule(
        "soft-clause",
        "a run of loads overwrites what it reads",
        "With XNACK a faulted run of scalar (or vector) memory instructions is replayed from its "
        "start: what one of them overwrote and another reads is no longer there. Only replay is "
        "affected; any other instruction in between ends the run.",
        "LLVM GCNHazardRecognizer::checkSoftClauseHazards",
        messages={
            "registers": Message("{title}: {registers}", _END_THE_RUN, ADVICE),
            "store": Message("{title}, with a store behind a load", _END_THE_RUN, ADVICE),
        },
    ),
)
