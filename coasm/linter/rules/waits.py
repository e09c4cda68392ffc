"""Waits: results that are used before a wait covers them, and waits for more than is used."""

from __future__ import annotations

from coasm.linter.findings import ADVICE, ERROR
from coasm.linter.rules.rule import Message, Rule

__all__ = [
    "BEHIND_BARRIER",
    "LDS_AT_ONCE",
    "OLD",
    "OLDEST",
    "OLD_FOR_MFMA",
    "PIPELINED",
    "REPLAYED",
    "RULES",
    "UNREAD",
]

_WAITCNT = "LLVM SIInsertWaitcnts; CDNA3 and CDNA4 ISA guides, section 4.4"
# Kernels of aiter that run on hardware use results without a wait. What they do is advice, not an
# error. Ages are in units of four clocks.

#: A result of LDS behind an s_barrier. bwd_hd128_dq_convert_bf16_rtne_group: ds_read_b32 v16,
#: s_barrier, buffer_store_dword v16, an age of 9.
BEHIND_BARRIER = 4
#: A result of LDS that was asked for long before (fmoe_fp8_blockscale_g1u1_subGU_256: ds_read_b32
#: v64, global_atomic_pk_add_bf16 of v64, more than 300).
OLD = 48
#: The same, read by an MFMA (fwd_hd256_fp8_causal: ds_read_b64_tr_b8 a[38:39], then with lgkmcnt(8)
#: where 4 would do v_mfma_f32_32x32x64_f8f6f4 of a[32:39], 20).
OLD_FOR_MFMA = 20
#: What overwrites the result of a load that nobody read
#: (fmoe_bf16_pertokenFp8_g1u1_tkw1_gelu_1tg_32x64: buffer_load_dword v42, v_lshrrev_b32 v42, 42).
UNREAD = 40
#: A result of memory behind an s_barrier: other waves take their time there, or the way without the
#: wait is not taken (mla_a8w8_qh32_qseqlen4_gqaratio8_ps: buffer_load_dword v30, two s_barrier,
#: v_mul_lo_u32 of v30, 69). Advice is also where a wait covers the load, or another into that
#: register, on another way; and what an MFMA reads that a newer ds_read will go over before
#: anything has read the older (mla_a8w8_qh16_qseqlen4_gqaratio16_msk0_lse_cprr_v3_ps:
#: ds_read_b128 a[120:123], six instructions later the MFMA that reads the old one).
OLDEST = 64
#: So many LDS operations are out at most: the next waits until there is room. Kernels use that
#: (pa_bf16_pertokenFp8_gqa16_1tg_4w_qlen64_msk1_ps: 16 ds_read_b128, ``s_waitcnt lgkmcnt(15)``,
#: which is no wait, then an MFMA of the first); LLVM asks for lgkmcnt(14).
LDS_AT_ONCE = 15

#: Counters that matter only where an access is made once more after a page fault. All 14 kernels of
#: aiter for gfx1250 do without (fmha_fwd_mxfp8_d128_causal: s_add_co_u32 s42 behind
#: tensor_load_to_lds of s[40:47], 0x318 bytes before); LLVM 22 waits.
REPLAYED = ("xcnt",)
#: Loads to LDS that kernels keep in flight over rounds of a loop, so that a wait for a count
#: is for those of rounds before (mla_a8w8_qh16_1tg_16mx4_64nx1_np: global_load_async_to_lds_b128,
#: two a round, s_wait_asynccnt 0x4).
PIPELINED = ("async", "tensor")

_USED_EARLY = {
    ERROR: Message("{title}: {registers}", "insert {wait} before it"),
    ADVICE: Message("{title}: {registers}", "insert {wait} before it", ADVICE),
}

RULES: tuple[Rule, ...] = (
    Rule(
        "vmem-wait",
        "used before its vmcnt wait",
        "A buffer, global or scratch load writes its registers when memory answers; until an "
        "s_waitcnt vmcnt(N) covers it, with N no more than the memory operations issued after it, "
        "the registers hold old values, and a write to them may be overtaken by the load. Advice "
        f"where a wait covers it on another way, and where kernels that run do without: {OLDEST} "
        f"units of four clocks and an s_barrier behind the load, or a write {UNREAD} behind one "
        "that nobody read.",
        _WAITCNT,
        messages=_USED_EARLY,
    ),
    Rule(
        "lds-wait",
        "used before its lgkmcnt wait",
        "LDS answers in order, and an s_waitcnt lgkmcnt(N), with N no more than the LDS operations "
        "issued after it, says that the result is there. While scalar loads, messages or FLAT "
        "operations are out as well the order is lost and only lgkmcnt(0) will do. Advice where a "
        "wait covers it on another way, where so many LDS operations behind it are out that it is "
        f"in ({LDS_AT_ONCE} are the most), and where kernels that run do without: {OLD} units of "
        f"four clocks behind the operation, {OLD_FOR_MFMA} where an MFMA reads it, or "
        f"{BEHIND_BARRIER} and an s_barrier, or the next result of LDS for the last four of an "
        "MFMA's eight registers.",
        _WAITCNT,
        messages=_USED_EARLY,
    ),
    Rule(
        "smem-wait",
        "used before lgkmcnt(0)",
        "Scalar loads answer in any order, so that no count but lgkmcnt(0) says that one of them "
        "is there. Until then its SGPRs must be neither read nor written.",
        _WAITCNT,
        messages=_USED_EARLY,
    ),
    Rule(
        "flat-wait",
        "used before both vmcnt(0) and lgkmcnt(0)",
        "A FLAT operation may go to memory or to LDS, counts in both counters, and is out of order "
        "in both. Its result needs vmcnt(0) and lgkmcnt(0), and while one is out so does "
        "everything else that these counters cover.",
        _WAITCNT,
        messages=_USED_EARLY,
    ),
    Rule(
        "source-wait",
        "a register is overwritten that may still be read",
        "An export, an instruction on GDS, and on GFX12.5 every access to memory reads its "
        "registers some time after it was issued: until expcnt, or s_wait_xcnt, says so (or the "
        "counter that it ends by) they must not be written. Advice for xcnt: it matters where an "
        "access is made once more after a page fault, and kernels that run do without.",
        _WAITCNT,
        messages=_USED_EARLY,
    ),
    Rule(
        "barrier-wait",
        "something is out at an s_barrier",
        "Before gfx90a a wave that is held at s_barrier takes no exception; what is out there may "
        "raise one, and a trap handler then waits for ever. Compilers wait for everything "
        "before it.",
        "LLVM SIInsertWaitcnts; FeatureBackOffBarrier",
        messages={ADVICE: Message("{title}", "insert {wait} before it", ADVICE)},
    ),
    Rule(
        "message-wait",
        "memory is out at the message that ends a geometry shader",
        "MSG_GS_DONE says before GFX11 that what the shader wrote is there: vmcnt(0) before it.",
        "LLVM SIInsertWaitcnts",
        messages={ADVICE: Message("{title}", "insert {wait} before it", ADVICE)},
    ),
    Rule(
        "lds-dma-wait",
        "LDS is read before a transfer to it is done",
        "A load with lds writes to LDS when memory answers; the LDS instructions do not wait for "
        "it. An s_waitcnt vmcnt(N), with N no more than the memory operations issued after it, has "
        "to stand before the first that uses that LDS.",
        _WAITCNT,
        messages={
            ERROR: Message("{title}", "insert {wait} before it"),
            ADVICE: Message("{title}", "insert {wait} before it", ADVICE),
        },
    ),
    Rule(
        "lds-barrier",
        "LDS is shared between waves without wait and barrier",
        "What one wave writes to LDS others may read only after it has waited for its writes "
        "(lgkmcnt(0), vmcnt for loads to LDS) and all of them have met at an s_barrier, which "
        "waits for no counter itself. Which waves use which LDS is not known here, hence advice.",
        _WAITCNT,
        messages={
            "no wait": Message(
                "{title}",
                "insert {wait} before the barrier that the write is to be seen behind",
                ADVICE,
            ),
            "no barrier": Message(
                "{title}",
                "insert s_barrier behind the wait, or see that each wave reads its own data",
                ADVICE,
            ),
        },
    ),
    Rule(
        "wait-strict",
        "waits for more than any use needs",
        "The counter could stay higher here: no instruction up to the next wait uses what is "
        "waited for. A weaker wait lets more memory operations overlap; the result is the same.",
        _WAITCNT,
        messages={
            "weaker": Message("{title}: {counters}", "make it {enough}", ADVICE),
            "none": Message("{title}: {counters}", "leave it out", ADVICE),
        },
    ),
)
