"""Waits: results that are used before a wait covers them, and waits for more than is used."""

from __future__ import annotations

from coasm.linter.findings import ADVICE, ERROR
from coasm.linter.rules.rule import Message, Rule

__all__ = ["RULES"]

_WAITCNT = "LLVM SIInsertWaitcnts; CDNA3 and CDNA4 ISA guides, section 4.4"
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
        "where a wait covers it on another way, and where kernels that run do without: 64 units "
        "of four clocks and an s_barrier behind the load, or a write 40 behind one that nobody "
        "read.",
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
        "in (15 are the most), and where kernels that run do without: 48 units of four clocks "
        "behind the operation, 20 where an MFMA reads it, or 4 and an s_barrier, or the next "
        "result of LDS for the last four of an MFMA's eight registers.",
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
        "lds-dma-wait",
        "LDS is read before a transfer to it is done",
        "A load with lds writes to LDS when memory answers; the LDS instructions do not wait for "
        "it. An s_waitcnt vmcnt(N), with N no more than the memory operations issued after it, has "
        "to stand before the first that uses that LDS.",
        _WAITCNT,
        messages={ERROR: Message("{title}", "insert {wait} before it")},
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
            "weaker": Message("{title}: {counters}", "make it s_waitcnt {enough}", ADVICE),
            "none": Message("{title}: {counters}", "leave it out", ADVICE),
        },
    ),
)
