"""Hazards of GFX10 and later: what must not follow without something in between.

These targets keep most instructions apart by themselves. What is left are errors of one generation,
which time does not mend but an instruction of some kind, and matrix instructions of GFX12.5 that
others run beside. Source: LLVM's GCNHazardRecognizer; each row was measured with LLVM 22's
``post-RA-hazard-rec`` but where it says otherwise.
"""

from __future__ import annotations

from coasm.linter.rules.rule import EVER, Hazard, Message, Rule

__all__ = ["RULES"]

_V = "vgprs"
_FROM_GFX10 = "rdna1 rdna2 rdna3 rdna3.5 rdna4 gfx12.5"
_SOURCE = "LLVM GCNHazardRecognizer::"
_COEXECUTION = f"{_SOURCE}checkWMMACoexecutionHazards"
_FEWER = "newer LLVM asks for fewer where A and B are of 8 bits, or both of 4"
_AT_ONCE = (
    0,
    "f4gemm_bf16_mxfp4_ABpreShuffle_256x256_4x4_ps (gfx1250), as 12 of 14 such kernels: "
    "v_rcp_iflag_f32 v4, then v_mul_f32 reads v4, no state",
)
#: Passes → VALU instructions that run beside a WMMA; what it shares with them.
_BESIDE = {2: 2, 4: 4, 8: 8}
_SHARED = ((_V, "sources writes"), ("ab", "writes"))
_SEEN: tuple[tuple[int | None, str], ...] = (
    (None, ""),
    (
        1,
        "mla_a8w8_qh16_1tg_16mx4_64nx1_sparse (gfx1250): v_wmma_f32_16x16x32_bf16 with v[20:27] as "
        "A, another WMMA, then v_permlane16_swap_b32 v20, 1 state of 4",
    ),
)
_FEWER_VALU = ({4: 1, 8: 4}, _FEWER)
_FEWER_WMMA = ({4: 2, 8: 5}, _FEWER)


def _until(cleared: str, fix: str, *hazards: Hazard) -> tuple[Hazard, ...]:
    """*hazards* of which there is no end but by what is *cleared*."""
    return tuple(hazard._replace(cleared=cleared, fix=fix) for hazard in hazards)


def _behind_valu(*hazards: Hazard) -> tuple[Hazard, ...]:
    """*hazards* of which states are VALU instructions, v_nop among them."""
    return tuple(hazard._replace(counts="valu", fix="v_nop") for hazard in hazards)


RULES: tuple[Rule, ...] = (
    Rule(
        "cmpx-permlane",
        "a permlane follows on a v_cmpx without another VALU between",
        "v_permlane* uses EXEC before a v_cmpx ahead of it has written it, however long ago that "
        "was, as long as no VALU instruction but v_nop stands between the two.",
        f"{_SOURCE}fixVcmpxPermlaneHazards",
        hazards=_until(
            "valu_but_nop",
            "move",
            Hazard(
                "cmpx",
                "order",
                "permlane",
                "order",
                {"rdna1 rdna3 rdna3.5 rdna4 gfx12.5": EVER},
            ),
        ),
    ),
    Rule(
        "vmem-scalar-write",
        "a scalar is overwritten that memory may not have read yet",
        "A vector memory or LDS instruction reads its scalars, EXEC and M0 among them, after it "
        "was issued, and a scalar instruction does not wait for it. A VALU instruction in "
        "between, or a wait for 0 of vm_vsrc or of all counters, makes it right. What is written "
        "without being named, as EXEC by s_and_saveexec, LLVM does not count.",
        f"{_SOURCE}fixVMEMtoScalarWriteHazards",
        hazards=_until(
            "valu all0 vm_vsrc0",
            "vm_vsrc",
            Hazard("vmem vmem_cache ds", "scalar reads", "salu smem", "results", {"rdna1": EVER}),
        ),
    ),
    Rule(
        "smem-vector-write",
        "a VALU overwrites what a scalar load may not have read yet",
        "A scalar load reads its address after it was issued, and a VALU instruction that writes "
        "an SGPR does not wait for it. A scalar instruction that computes something in between, "
        "or s_waitcnt lgkmcnt(0), makes it right.",
        f"{_SOURCE}fixSMEMtoVectorWriteHazards",
        hazards=_until(
            "scalar_result lgkmcnt0",
            "scalar move",
            Hazard("smem", "scalar reads", "valu", "writes", {"rdna1": EVER}),
        ),
    ),
    Rule(
        "cmpx-exec-war",
        "a v_cmpx overwrites EXEC that may not have been read yet",
        "Instructions of other units read EXEC after they were issued, and v_cmpx does not wait "
        "for them. A VALU instruction that writes an SGPR in between, or a wait for 0 of sa_sdst, "
        "makes it right.",
        f"{_SOURCE}fixVcmpxExecWARHazard",
        hazards=_until(
            "valu_sgpr sa_sdst0",
            "sa_sdst",
            Hazard(
                "salu vmem vmem_cache ds export",
                "exec reads",
                "valu",
                "exec writes",
                {"rdna1": EVER},
            ),
        ),
    ),
    Rule(
        "lds-branch-vmem",
        "LDS and memory come with a branch between them and no wait",
        "What one of them still reads the other may overwrite where a branch stands between them. "
        "s_waitcnt_vscnt null, 0x0 on either side of the branch makes it right.",
        f"{_SOURCE}fixLdsBranchVmemWARHazard",
        hazards=_until(
            "vmem vmem_cache ds vscnt0",
            "stores",
            Hazard(
                "ds lds_dma",
                "order",
                "vmem vmem_cache",
                "order",
                {"rdna1": EVER},
                but="lds_dma",
                through="branch",
            ),
            Hazard(
                "vmem vmem_cache",
                "order",
                "ds lds_dma",
                "order",
                {"rdna1": EVER},
                unless="lds_dma",
                through="branch",
            ),
        ),
    ),
    Rule(
        "nsa-vmem",
        "a buffer instruction follows on a long image instruction",
        "An image instruction of which the addresses take two dwords more spoils the offset of a "
        "buffer instruction right behind it, where bit 1 or 2 of that is set. One other "
        "instruction is enough.",
        f"{_SOURCE}checkNSAtoVMEMHazard",
        hazards=(Hazard("nsa", "order", "high_offset", "order", {"rdna1": 1}),),
    ),
    Rule(
        "atomic-denorm-mode",
        "the mode of denormals changes right behind a float atomic",
        "A float atomic takes the mode of denormals after it was issued. Three wait states, a VALU "
        "instruction or a wait for a counter make it right.",
        f"{_SOURCE}checkFPAtomicToDenormModeHazard",
        hazards=(
            Hazard(
                "float_atomic",
                "order",
                "denorm_mode",
                "order",
                {"rdna1 rdna2": 3},
                cleared="valu counter_wait",
            ),
        ),
    ),
    Rule(
        "trans-use",
        "a VALU reads a result of the transcendental unit too early",
        "Transcendentals take longer than other VALU instructions and GFX11 does not always wait "
        "for them. Six VALU instructions in between, two transcendentals, a memory instruction or "
        "a wait for 0 of va_vdst make it right.",
        f"{_SOURCE}fixVALUTransUseHazard",
        hazards=_until(
            "vmem vmem_cache ds export va_vdst0",
            "va_vdst",
            Hazard(
                "trans",
                _V,
                "valu",
                "sources",
                {"rdna3": 6},
                counts="valu",
                or_enough=("trans", 2),
            ),
        ),
    ),
    Rule(
        "trans-coexecution",
        "a VALU uses registers of a transcendental still running",
        "On GFX12.5 a transcendental and the VALU instruction behind it run at once: one that "
        "reads the result, or overwrites a source, needs another VALU instruction in between.",
        f"{_SOURCE}fixVALUTransCoexecutionHazards",
        hazards=_behind_valu(
            Hazard("trans", "registers", "valu", "sources", {"gfx12.5": 1}, but="trans").seen(
                *_AT_ONCE
            ),
            Hazard("trans", "sources", "valu", "writes", {"gfx12.5": 1}, but="trans").seen(
                *_AT_ONCE
            ),
        ),
    ),
    Rule(
        "wmma-source",
        "a WMMA reads as A or B what the WMMA ahead of it writes",
        "No WMMA waits for the result of the one before it where that is A, B or, from GFX12 on, "
        "the index; C it does wait for. One VALU instruction in between is enough, on GFX12.5 so "
        "many as the passes of the first say.",
        f"{_SOURCE}fixWMMAHazards; checkWMMACoexecutionHazards",
        hazards=_behind_valu(
            Hazard("wmma", _V, "wmma", "ab", {"rdna3 rdna3.5 rdna4 gfx12.5": 1}),
            Hazard(
                "coexecuting",
                _V,
                "coexecuting",
                "ab",
                {"gfx12.5": {2: 3, 4: 5, 8: 9}},
                unless="narrow_wmma",
            ),
            Hazard("narrow_wmma", _V, "coexecuting", "ab", {"gfx12.5": {4: 5, 8: 9}}).seen(
                *_FEWER_WMMA
            ),
        ),
    ),
    Rule(
        "wmma-coexecution",
        "a VALU uses the registers of a WMMA that still runs",
        "On GFX12.5 VALU instructions run beside a WMMA, and one that reads its result, or "
        "overwrites that, A, B or the index, does not wait for it. As many other VALU instructions "
        "in between are enough as its passes say.",
        _COEXECUTION,
        hazards=_behind_valu(
            *(
                Hazard(
                    "coexecuting", out, "valu", into, {"gfx12.5": _BESIDE}, "", "narrow_wmma"
                )._replace(but="wmma trans", sure=sure, witness=witness)
                for (out, into), (sure, witness) in zip(_SHARED, _SEEN, strict=True)
            ),
            *(
                Hazard(
                    "narrow_wmma", out, "valu", into, {"gfx12.5": _BESIDE}, but="wmma trans"
                ).seen(*_FEWER_VALU)
                for out, into in _SHARED
            ),
            *(
                Hazard("coexecuting", out, "trans", into, {"gfx12.5": _BESIDE}).seen(
                    0, "LLVM 22 asks for it of other VALU instructions, newer LLVM of these too"
                )
                for out, into in _SHARED
            ),
        ),
    ),
    Rule(
        "sgpr-reread",
        "an SGPR is read again before what overwrote it (GFX12)",
        "Once a VALU instruction has read an SGPR the VALU keeps a copy of it. A read behind the "
        "next write needs s_wait_alu of 0: of sa_sdst behind a scalar instruction, of va_sdst, or "
        "va_vcc for VCC, behind a VALU instruction. A buffer, image or scalar memory instruction "
        "in between is enough.",
        "LLVM AMDGPUWaitSGPRHazards.cpp",
        messages={"wait": Message("{title}: {registers}", "insert {instruction} before it")},
    ),
    Rule(
        "getreg-idle",
        "a wave's state is read while instructions are on their way",
        "s_getreg of STATUS, STATE_PRIV or EXCP_FLAG_* gives what was before instructions that are "
        "still on their way. s_wait_alu of 0 for all fields right before it makes it right.",
        f"{_SOURCE}fixGetRegWaitIdle",
        hazards=_until(
            "idle",
            "idle",
            Hazard("salu valu smem vmem ds", "order", "getreg_state", "order", {"gfx12.5": EVER}),
        ),
    ),
    Rule(
        "async-barrier",
        "an asynchronous LDS barrier is too close to memory",
        "ds_atomic_async_barrier_arrive_b64 has to have a wait for 0 of vm_vsrc before it and "
        "behind it.",
        f"{_SOURCE}fixDsAtomicAsyncBarrierArriveB64",
        hazards=_until(
            "vm_vsrc0",
            "vm_vsrc",
            Hazard("vmem ds", "order", "async_barrier", "order", {"gfx12.5": EVER}),
            Hazard("async_barrier", "order", "vmem ds", "order", {"gfx12.5": EVER}),
        ),
    ),
    Rule(
        "scratch-base",
        "the base of scratch is read too early behind its write",
        "src_flat_scratch_base is forwarded from these SGPRs, and not right until ten instructions "
        "have written SGPRs, or a wait for 0 of sa_sdst and va_sdst.",
        f"{_SOURCE}fixScratchBaseForwardingHazard",
        hazards=(
            Hazard(
                "salu valu",
                "scratch base",
                "scratch_base",
                "scratch base",
                {"gfx12.5": 10},
                counts="sgpr_writer",
                cleared="sdst0",
                fix="sdst",
            ),
        ),
    ),
    Rule(
        "tensor-drain",
        "too many tensor transfers may be on their way",
        "Newer LLVM waits before each tensor instruction until at most ten are on their way.",
        f"{_SOURCE}fixTDM (newer LLVM)",
        hazards=_until(
            "tensorcnt10",
            "tensorcnt",
            Hazard("tensor", "order", "tensor", "order", {"gfx12.5": EVER}).seen(
                0, "LLVM 22 does not ask for it"
            ),
        ),
    ),
)
