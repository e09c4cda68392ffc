"""Every rule of lint by its name: what it says, why, and where that is from."""

from __future__ import annotations

from typing import NamedTuple

from coasm.errors import CoasmError
from coasm.linter.findings import ADVICE, ERROR

__all__ = ["GROUPS", "RULES", "Rule", "close_rule", "find_rule"]


class Rule(NamedTuple):
    """A rule. ``title`` is the head of its findings, ``why`` what goes wrong, ``source`` of that.

    ``group`` is one of :data:`GROUPS`; ``level`` what its findings are unless a row of its table
    says otherwise.
    """

    name: str
    group: str
    level: str
    title: str
    why: str
    source: str


#: Group → what its rules are about.
GROUPS = {
    "wait states": "instructions that must not follow each other too closely",
    "waits": "results that are used before a wait covers them",
    "resources": "what code uses against what its descriptor declares",
    "operands": "operands that the hardware does not handle",
}

_MFMA_TABLES = "CDNA3 ISA guide, table 37; CDNA4 ISA guide, table 38"
_VALU_TABLES = "CDNA3 and CDNA4 ISA guides, table 11"
_INTO_MFMA = f"LLVM GCNHazardRecognizer::checkMAIHazards90A; {_MFMA_TABLES}"
_OUT_OF_MFMA = f"LLVM GCNHazardRecognizer::checkMAIVALUHazards; {_MFMA_TABLES}"
_VALU = f"LLVM GCNHazardRecognizer::checkVALUHazards; {_VALU_TABLES}"
_WAITCNT = "LLVM SIInsertWaitcnts; CDNA3 and CDNA4 ISA guides, section 4.4"
_USAGE = "LLVM AMDGPU usage"

_WAIT_STATES = (
    (
        "mfma-valu-write",
        ERROR,
        "an MFMA reads what a VALU instruction just wrote",
        "The matrix pipe reads its operands earlier than the VALU does, and does not wait for a "
        "VALU result that is still under way: it gets the old value. Put independent instructions "
        "or an s_nop between the two.",
        _INTO_MFMA,
    ),
    (
        "mfma-exec-write",
        ERROR,
        "an MFMA follows a VALU instruction that writes EXEC",
        "A v_cmpx writes EXEC late, and an MFMA that follows too closely may still use the old "
        "mask, whatever its registers. EXEC written by a scalar instruction needs no states. Move "
        "independent instructions in between.",
        _INTO_MFMA,
    ),
    (
        "mfma-dot-write",
        ADVICE,
        "an MFMA reads what a dot product just wrote",
        "The ISA guide asks for three wait states between a v_dot* and an instruction of another "
        "opcode that reads its result; LLVM asks for none where that is an MFMA. Three states are "
        "right by both.",
        f"{_INTO_MFMA}; LLVM checks no such pair",
    ),
    (
        "mfma-source",
        ERROR,
        "an MFMA reads as A or B what an MFMA still writes",
        "An MFMA writes its result some passes after it was issued, and nothing holds back a "
        "second one that reads it as A, B, index or scale: it multiplies the old values, without a "
        "fault. The more passes the first takes, the more states are needed. Schedule other MFMAs "
        "or loads in between, or insert s_nop.",
        _INTO_MFMA,
    ),
    (
        "mfma-accumulator",
        ERROR,
        "an MFMA accumulates onto part of what an MFMA still writes",
        "The result is forwarded to the C operand of the next MFMA only where both name the same "
        "registers. Where C overlaps them in part, or starts or ends elsewhere, the second reads "
        "the register file before the first has written it.",
        _INTO_MFMA,
    ),
    (
        "mfma-same-accumulator",
        ERROR,
        "an MFMA follows too closely on its own accumulator",
        "Results are forwarded from one MFMA to the next of the same opcode with the same "
        "accumulator, but the shortest of them (2 passes, 4x4) leave too little time for it. Put "
        "another instruction between the two.",
        _INTO_MFMA,
    ),
    (
        "mfma-opcode",
        ADVICE,
        "an MFMA of another opcode reads this accumulator as C",
        "Results are forwarded to C between MFMAs of one opcode; the ISA guide exempts only equal "
        "passes and none from XDL into SGEMM or DGEMM. LLVM up to 22 asks for no states where the "
        "registers are identical, newer ones for those of an overlap.",
        f"{_INTO_MFMA} (newer LLVM: getMFMAOverlappedSrcCWaitStates)",
    ),
    (
        "mfma-read",
        ERROR,
        "the result of an MFMA is read while still being written",
        "An MFMA writes its result some passes after it was issued, and no VALU instruction waits "
        "for it: it reads the old values, without a fault. AGPRs and "
        "VGPRs behave alike, and so does v_accvgpr_read. Schedule other work in between, or insert "
        "s_nop.",
        _OUT_OF_MFMA,
    ),
    (
        "mfma-memory-read",
        ERROR,
        "memory reads the result of an MFMA still being written",
        "A store, an LDS write or an address takes its VGPRs or AGPRs at issue and does not wait "
        "for an MFMA that still writes them: old values are stored, without a fault. Schedule "
        "other work in between, or insert s_nop.",
        _OUT_OF_MFMA,
    ),
    (
        "mfma-overwrite",
        ERROR,
        "the result of an MFMA is overwritten while in flight",
        "The MFMA's late write lands behind the newer one of a VALU instruction or a load, so that "
        "the register keeps the older value. A load counts where it is issued. Write to another "
        "register, or put the states in between.",
        _OUT_OF_MFMA,
    ),
    (
        "mfma-overwrite-c",
        ERROR,
        "the accumulator that an MFMA still reads is overwritten",
        "An XDL MFMA reads its C operand over several passes; a VALU instruction or a load that "
        "writes these registers meanwhile changes what is accumulated. A and B are read at issue "
        "and need no states.",
        _OUT_OF_MFMA,
    ),
    (
        "dgemm-fma",
        ERROR,
        "an f64 FMA follows too closely on an f64 MFMA",
        "f64 MFMAs and v_fma_f64 share a pipe, whatever their registers. Put two other "
        "instructions or s_nop 1 in between.",
        _OUT_OF_MFMA,
    ),
    (
        "dot-read",
        ERROR,
        "the result of a dot product is read too early",
        "A v_dot* takes longer than other VALU instructions, and its result is forwarded only to "
        "the accumulator of the same opcode. Every other reader needs three wait states, or reads "
        "the old value.",
        _OUT_OF_MFMA,
    ),
    (
        "dot-overwrite",
        ERROR,
        "the result of a dot product is overwritten in flight",
        "A v_dot* writes later than other VALU instructions: what another one or a load writes to "
        "the same register less than three wait states behind it is lost.",
        _OUT_OF_MFMA,
    ),
    (
        "valu-sgpr-vmem",
        ERROR,
        "a memory instruction reads an SGPR that a VALU just wrote",
        "v_readlane, v_readfirstlane, v_cmp and carries write scalars late. A buffer, flat, global "
        "or scratch instruction reads its descriptor, offset or base without waiting for them and "
        "goes to the old address. Scalars written by SALU need no states.",
        f"LLVM GCNHazardRecognizer::checkVMEMHazards; {_VALU_TABLES}",
    ),
    (
        "valu-exec-vmem",
        ADVICE,
        "a memory instruction follows a VALU that writes EXEC",
        "LLVM treats EXEC as an operand of memory instructions and keeps five wait states behind a "
        "v_cmpx; the ISA guide has no such row.",
        "LLVM GCNHazardRecognizer::checkVMEMHazards; not in the ISA guides",
    ),
    (
        "valu-sgpr-constant",
        ERROR,
        "a VALU reads as a constant an SGPR that a VALU just wrote",
        "The VALU reads scalar operands before the scalar result of the VALU instruction ahead of "
        "it has been written. Two wait states are needed; scalars written by SALU need none.",
        f"LLVM GCNHazardRecognizer::checkVALUHazards (VDecCoExec); {_VALU_TABLES}",
    ),
    (
        "valu-sgpr-mask",
        ADVICE,
        "a VALU selects or carries by an SGPR just written",
        "LLVM keeps two wait states also where the scalar is a carry-in or the mask of v_cndmask; "
        "the ISA guide asks for none there.",
        "LLVM GCNHazardRecognizer::checkVALUHazards; not in the ISA guides",
    ),
    (
        "valu-sgpr-lane",
        ERROR,
        "a lane number comes from an SGPR that a VALU just wrote",
        "v_readlane and v_writelane read the number of the lane before the scalar result of a VALU "
        "instruction has been written, and take another lane. Four wait states are needed.",
        f"LLVM GCNHazardRecognizer::checkRWLaneHazards; {_VALU_TABLES}",
    ),
    (
        "valu-vcc-div-fmas",
        ERROR,
        "v_div_fmas reads VCC that a VALU just wrote",
        "v_div_fmas takes VCC as an operand that is not interlocked: after a v_div_scale or v_cmp "
        "that writes VCC it scales by the old bits. Four wait states are needed.",
        f"LLVM GCNHazardRecognizer::checkDivFMasHazards; {_VALU_TABLES}",
    ),
    (
        "valu-exec-lane",
        ERROR,
        "a lane is read or written just after a VALU wrote EXEC",
        "v_readlane, v_readfirstlane and v_writelane use EXEC before a v_cmpx ahead of them has "
        "written it. Four wait states are needed.",
        _VALU,
    ),
    (
        "valu-exec-constant",
        ERROR,
        "a VALU reads as data an EXEC that a VALU just wrote",
        "As a mask EXEC is interlocked, as an operand it is not: the VALU gets the value from "
        "before the v_cmpx. Two wait states are needed.",
        _VALU,
    ),
    (
        "valu-exec-dpp",
        ERROR,
        "a DPP instruction follows a VALU that writes EXEC",
        "DPP decides by EXEC which lanes it may take data from, earlier than other instructions "
        "use it. Five wait states are needed behind a v_cmpx.",
        f"LLVM GCNHazardRecognizer::checkDPPHazards; {_VALU_TABLES}",
    ),
    (
        "valu-zero-flag",
        ADVICE,
        "vccz or execz is read as data just after a VALU wrote it",
        "The ISA guide asks for five wait states until src_vccz or src_execz as an operand is up "
        "to date; LLVM never emits such an operand and checks nothing.",
        f"{_VALU_TABLES}; none in LLVM",
    ),
    (
        "valu-readlane",
        ERROR,
        "v_readlane reads a VGPR that a VALU just wrote",
        "The value is read across lanes before the forwarding network has it. One wait state is "
        "needed.",
        _VALU,
    ),
    (
        "valu-dpp",
        ERROR,
        "a DPP instruction reads a VGPR that a VALU just wrote",
        "DPP reads the registers of other lanes, past the forwarding between VALU instructions, "
        "and gets old values. Two wait states are needed, for every VGPR that the instruction "
        "reads and for its old destination.",
        f"LLVM GCNHazardRecognizer::checkDPPHazards; {_VALU_TABLES}",
    ),
    (
        "load-dpp",
        ADVICE,
        "a DPP instruction reads a VGPR that was just loaded",
        "LLVM counts a load among the writers that DPP has to keep away from, and its s_waitcnt "
        "only as one state. The counter already says that the data is there.",
        "LLVM GCNHazardRecognizer::checkDPPHazards; not in the ISA guides",
    ),
    (
        "permlane-swap",
        ERROR,
        "a permlane swap touches a VGPR that a VALU just wrote",
        "v_permlane16_swap and v_permlane32_swap read both operands across lanes, past the "
        "forwarding between VALU instructions. Two wait states are needed.",
        "LLVM GCNHazardRecognizer::checkPermlaneHazards; CDNA4 ISA guide, table 11",
    ),
    (
        "permlane-swap-exec",
        ERROR,
        "a permlane swap follows a VALU that writes EXEC",
        "v_permlane16_swap and v_permlane32_swap use EXEC before a v_cmpx ahead of them has "
        "written it. Four wait states are needed.",
        "LLVM GCNHazardRecognizer::checkPermlaneHazards; CDNA4 ISA guide, table 11",
    ),
    (
        "trans",
        ERROR,
        "a result of the transcendental unit is read at once",
        "v_exp, v_log, v_rcp, v_rsq, v_sqrt, v_sin and v_cos take longer than other VALU "
        "instructions, and an ordinary VALU instruction right behind one reads the old value. One "
        "wait state is needed; another transcendental, a store or an LDS instruction needs none.",
        f"LLVM GCNHazardRecognizer::checkVALUHazards (TransForwarding); {_VALU_TABLES}",
    ),
    (
        "sub-dword",
        ERROR,
        "a VGPR of which a part was just written is used at once",
        "What SDWA, op_sel or a byte select writes to a part of a register is not forwarded: the "
        "next VALU instruction that reads or writes the register takes it without that part. One "
        "wait state is needed.",
        f"LLVM GCNHazardRecognizer::checkVALUHazards (getDstSelForwardingOperand); {_VALU_TABLES}",
    ),
    (
        "wide-store",
        ERROR,
        "the data of a wide store is overwritten at once",
        "A store of more than 64 bits reads its data over several cycles after it was issued, and "
        "a VALU instruction that overwrites them meanwhile changes what is stored. Two wait states "
        "are needed, one where the offset is in an SGPR.",
        "LLVM GCNHazardRecognizer::createsVALUHazard, checkSOFFSETWindowVALUHazardsHelper (newer "
        f"LLVM; LLVM 22 and the guides ask for none with an SGPR offset); {_VALU_TABLES}",
    ),
    (
        "wide-store-load",
        ADVICE,
        "a load overwrites the data of a wide store at once",
        "The ISA guide asks for one wait state also where a load takes the place of the data; LLVM "
        "asks for none, for the load's result comes much later.",
        f"{_VALU_TABLES}; not in LLVM",
    ),
    (
        "m0-write",
        ERROR,
        "M0 is used right behind the instruction that wrote it",
        "A load to LDS, an add-TID access, a message or s_movrel takes M0 from where the scalar "
        "write has not yet arrived. One wait state is needed.",
        f"LLVM GCNHazardRecognizer::checkReadM0Hazards; {_VALU_TABLES}",
    ),
    (
        "setreg",
        ERROR,
        "a hardware register is used right after s_setreg",
        "s_setreg takes effect late: an s_getreg of the same register reads the old value, and a "
        "second s_setreg may be lost. Two wait states are needed; another register needs none.",
        f"LLVM GCNHazardRecognizer::checkSetRegHazards, checkGetRegHazards; {_VALU_TABLES}",
    ),
    (
        "setreg-rfe",
        ERROR,
        "s_rfe follows right after s_setreg of TRAPSTS",
        "The return from the trap handler uses TRAPSTS before the write to it has arrived. One "
        "wait state is needed.",
        f"LLVM GCNHazardRecognizer::checkRFEHazards; {_VALU_TABLES}",
    ),
    (
        "vskip",
        ADVICE,
        "skipping of vector instructions was just switched",
        "MODE.vskip takes effect two wait states after it was written; until then vector "
        "instructions, or an s_getreg of MODE, see the old setting.",
        f"{_VALU_TABLES}; none in LLVM",
    ),
    (
        "nop-range",
        ERROR,
        "s_nop waits less than its operand says",
        "s_nop has four bits for its operand: s_nop 16 assembles and waits for one state, not for "
        "seventeen. Write several of them.",
        "CDNA3 and CDNA4 ISA guides, SOPP; LLVM SIInstrInfo::getNumWaitStates",
    ),
    (
        "soft-clause",
        ADVICE,
        "a run of loads overwrites what it reads",
        "With XNACK a faulted run of scalar (or vector) memory instructions is replayed from its "
        "start: what one of them overwrote and another reads is no longer there. Only replay is "
        "affected; any other instruction in between ends the run.",
        "LLVM GCNHazardRecognizer::checkSoftClauseHazards",
    ),
)

_WAITS = (
    (
        "vmem-wait",
        ERROR,
        "used before its vmcnt wait",
        "A buffer, global or scratch load writes its registers when memory answers; until an "
        "s_waitcnt vmcnt(N) covers it, with N no more than the memory operations issued after it, "
        "the registers hold old values, and a write to them may be overtaken by the load. Advice "
        "where a wait covers it on another way, and where kernels that run do without: 64 units "
        "of four clocks and an s_barrier behind the load, or a write 40 behind one that nobody "
        "read.",
        _WAITCNT,
    ),
    (
        "lds-wait",
        ERROR,
        "used before its lgkmcnt wait",
        "LDS answers in order, and an s_waitcnt lgkmcnt(N), with N no more than the LDS operations "
        "issued after it, says that the result is there. While scalar loads, messages or FLAT "
        "operations are out as well the order is lost and only lgkmcnt(0) will do. Advice where a "
        "wait covers it on another way, where so many LDS operations behind it are out that it is "
        "in (15 are the most), and where kernels that run do without: 48 units of four clocks "
        "behind the operation, 20 where an MFMA reads it, or 4 and an s_barrier, or the next "
        "result of LDS for the last four of an MFMA's eight registers.",
        _WAITCNT,
    ),
    (
        "smem-wait",
        ERROR,
        "used before lgkmcnt(0)",
        "Scalar loads answer in any order, so that no count but lgkmcnt(0) says that one of them "
        "is there. Until then its SGPRs must be neither read nor written.",
        _WAITCNT,
    ),
    (
        "flat-wait",
        ERROR,
        "used before both vmcnt(0) and lgkmcnt(0)",
        "A FLAT operation may go to memory or to LDS, counts in both counters, and is out of order "
        "in both. Its result needs vmcnt(0) and lgkmcnt(0), and while one is out so does "
        "everything else that these counters cover.",
        _WAITCNT,
    ),
    (
        "lds-dma-wait",
        ERROR,
        "LDS is read before a transfer to it is done",
        "A load with lds writes to LDS when memory answers; the LDS instructions do not wait for "
        "it. An s_waitcnt vmcnt(N), with N no more than the memory operations issued after it, has "
        "to stand before the first that uses that LDS.",
        _WAITCNT,
    ),
    (
        "lds-barrier",
        ADVICE,
        "LDS is shared between waves without wait and barrier",
        "What one wave writes to LDS others may read only after it has waited for its writes "
        "(lgkmcnt(0), vmcnt for loads to LDS) and all of them have met at an s_barrier, which "
        "waits for no counter itself. Which waves use which LDS is not known here, hence advice.",
        _WAITCNT,
    ),
    (
        "wait-strict",
        ADVICE,
        "waits for more than any use needs",
        "The counter could stay higher here: no instruction up to the next wait uses what is "
        "waited for. A weaker wait lets more memory operations overlap; the result is the same.",
        _WAITCNT,
    ),
)

_RESOURCES = (
    (
        "vgpr-range",
        ERROR,
        "a VGPR is used that the kernel does not have",
        "The descriptor says how many VGPRs a wave gets, in granules, and with accum_offset where "
        "the AGPRs among them begin. A register beyond is another one, or another wave's. Raise "
        ".amdhsa_next_free_vgpr and .amdhsa_accum_offset.",
        f"{_USAGE}, kernel descriptor, COMPUTE_PGM_RSRC1 and RSRC3",
    ),
    (
        "agpr-range",
        ERROR,
        "an AGPR is used that the kernel does not have",
        "AGPRs are those of a wave's vector registers that lie behind accum_offset. Raise "
        ".amdhsa_next_free_vgpr: it counts both kinds.",
        f"{_USAGE}, kernel descriptor, COMPUTE_PGM_RSRC1 and RSRC3",
    ),
    (
        "sgpr-range",
        ERROR,
        "an SGPR is used that the kernel does not have",
        "The descriptor says how many SGPRs a wave gets, VCC and the like included. Raise "
        ".amdhsa_next_free_sgpr.",
        f"{_USAGE}, kernel descriptor, COMPUTE_PGM_RSRC1",
    ),
    (
        "lds-range",
        ERROR,
        "an LDS offset lies beyond what the kernel declares",
        "LDS reads beyond the workgroup's allocation give 0, and writes are dropped. Raise "
        ".amdhsa_group_segment_fixed_size, and .group_segment_fixed_size of the metadata with it. "
        "LDS that the launch adds cannot be seen here.",
        f"{_USAGE}, kernel descriptor, GROUP_SEGMENT_FIXED_SIZE",
    ),
    (
        "kernarg-range",
        ERROR,
        "a kernel argument is read beyond its segment",
        "The runtime copies only as many bytes of arguments as the metadata's "
        ".kernarg_segment_size and the descriptor say; what lies behind is not the kernel's. Add "
        "the argument to the metadata and raise .amdhsa_kernarg_size.",
        f"{_USAGE}, kernel descriptor, KERNARG_SIZE",
    ),
    (
        "scratch",
        ERROR,
        "scratch is used, but the kernel declares none",
        "Without a private segment no scratch is set up, and the access goes nowhere or to what is "
        "not the wave's. Set .amdhsa_private_segment_fixed_size and enable the private segment.",
        f"{_USAGE}, kernel descriptor, PRIVATE_SEGMENT_FIXED_SIZE",
    ),
    (
        "workgroup-registers",
        ERROR,
        "a workgroup does not fit the registers of its compute unit",
        "All waves of a workgroup must be resident at once. The registers that each wave gets, "
        "times the waves of the largest workgroup that the metadata allows, are more than a "
        "compute unit has: such a launch fails. Use fewer registers or a smaller workgroup.",
        f"{_USAGE}, target's register file; .max_flat_workgroup_size of the metadata",
    ),
    (
        "metadata",
        ERROR,
        "descriptor and metadata disagree",
        "The hardware takes the descriptor, the runtime the metadata: it allocates LDS, scratch "
        "and arguments by it. After an edit both have to say the same.",
        f"{_USAGE}, code object metadata",
    ),
    (
        "preload-entry",
        ERROR,
        "the code is not where firmware that preloads enters it",
        "With preloaded arguments (gfx90a to gfx950) a kernel has two entries. Firmware that "
        "preloads enters 256 bytes behind the first; other firmware runs what is before, which "
        "loads the same SGPRs, and goes on there. An edit of the prologue must not move the rest.",
        f"{_USAGE}, preloaded kernel arguments; LLVM AMDGPUPreloadKernArgProlog",
    ),
    (
        "fall-through",
        ERROR,
        "the flow runs out of the code",
        "Behind this instruction there is data, or nothing: the wave goes on with whatever bytes "
        "lie there. End with s_endpgm or a branch.",
        "CDNA3 and CDNA4 ISA guides, program flow",
    ),
    (
        "branch-range",
        ERROR,
        "a branch goes where no code is",
        "The target lies outside of the code, in data, or inside of an instruction. A branch "
        "reaches 32,767 words forward and 32,768 back.",
        "CDNA3 and CDNA4 ISA guides, SOPP",
    ),
    (
        "user-sgpr",
        ERROR,
        "a register is read that nobody set up",
        "A wave starts with the user SGPRs that its descriptor enables, then the system SGPRs, and "
        "v0 as it asks for work-item IDs. Everything else holds what an earlier wave left. Enable "
        "it in the descriptor, or write the register first. An error for SGPRs that a "
        "descriptor could set up (s0 to s20); advice for those behind, for v1 and v2 (other VGPRs "
        "are not followed), and for what only copies or spills a register or reads it as half of a "
        "64-bit integer, as compilers do where the value does not matter.",
        f"{_USAGE}, initial kernel execution state",
    ),
)

_OPERANDS = (
    (
        "shift64-last-vgpr",
        ERROR,
        "a 64-bit shift takes its amount from the last VGPR",
        "v_lshlrev_b64, v_lshrrev_b64 and v_ashrrev_i64 read a shift amount in the last register "
        "of the allocation (v7, v15, …) wrongly; in the last below the AGPRs, perhaps: advice. "
        "Take another register for it, or allocate a granule more.",
        "LLVM GCNHazardRecognizer::fixShift64HighRegBug (newer than LLVM 22 for these targets)",
    ),
    (
        "pk-f32-op-sel",
        ERROR,
        "a packed f32 instruction has an op_sel that misexecutes",
        "On gfx950 v_pk_fma_f32 computes wrong results where op_sel and op_sel_hi both take the "
        "high half of its second source. Newer LLVM avoids the same in v_pk_add_f32 and "
        "v_pk_mul_f32, and any high half in the low lane of v_pk_fma_f32, which older LLVM writes: "
        "advice. Move the value, or do it unpacked.",
        "LLVM GCNSubtarget::hasPkF32InvalidOpSel (newer LLVM); rocMLIR #2459",
    ),
    (
        "dot-op-sel",
        ERROR,
        "op_sel is set on a dot product",
        "The dot products ignore or mishandle op_sel on these targets. Pack the operands so that "
        "they need none.",
        "LLVM GCNSubtarget::hasDOTOpSelHazard",
    ),
)

_BY_GROUP = dict(zip(GROUPS, (_WAIT_STATES, _WAITS, _RESOURCES, _OPERANDS), strict=True))

#: Every rule by its name, group after group.
RULES: dict[str, Rule] = {
    name: Rule(name, group, *rest) for group, rows in _BY_GROUP.items() for name, *rest in rows
}


def find_rule(name: str) -> Rule:
    """The rule *name*.

    Raises:
        CoasmError: there is none; with what may have been meant.
    """
    if name in RULES:
        return RULES[name]
    raise CoasmError(f"no rule {name!r}; {close_rule(name) or 'coasm lint --list shows them'}")


def close_rule(name: str) -> str:
    """``did you mean …?`` for a name that no rule has; empty where none is close."""
    from difflib import get_close_matches

    close = get_close_matches(name, RULES, n=1)
    return f"did you mean {close[0]!r}?" if close else ""
