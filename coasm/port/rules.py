"""What a port looks at: every rule with its level, what it says, and what that rests on."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["NOTE", "NOT_PORTABLE", "OK", "REVIEW", "RULES", "VERDICTS", "Reason", "Rule"]

#: The verdicts, the best one first. A reason that is only a note leaves a verdict as it is.
OK, REVIEW, NOT_PORTABLE = VERDICTS = ("ok", "review", "not-portable")
NOTE = "note"


class Rule(NamedTuple):
    """``level`` is a verdict, or ``note``; ``source`` is what the rule rests on."""

    level: str
    title: str
    source: str


class Reason(NamedTuple):
    """One reason at an *address*: of an instruction, whose *text* there is, or of a descriptor.

    *what* says it, *advice* what to do about it; *partner* is the address of the other instruction
    that it is about, where there is one.
    """

    rule: str
    address: int
    text: str
    what: str
    advice: str = ""
    partner: int | None = None

    @property
    def level(self) -> str:
        return RULES[self.rule].level


RULES = {
    "missing": Rule(
        NOT_PORTABLE,
        "the target lacks an instruction",
        "LLVM 22's disassembler and assembler for both targets; coasm/isa/renamed.py for what "
        "takes its place",
    ),
    "operand": Rule(
        NOT_PORTABLE,
        "the target has the instruction, but not so",
        "LLVM 22's assembler for the target",
    ),
    "lds-load": Rule(
        NOT_PORTABLE,
        "loads to LDS of three and four dwords",
        "LLVM 22, FeatureLDSLoadB96_B128: gfx950 has them",
    ),
    "undecoded": Rule(
        NOT_PORTABLE,
        "bytes among the code that LLVM cannot decode: nobody knows what they are elsewhere",
        "LLVM 22's disassembler",
    ),
    "descriptor": Rule(
        NOT_PORTABLE,
        "the kernel descriptor asks for what the target does not have",
        "LLVM AMDGPU usage, Kernel Descriptor",
    ),
    "scratch": Rule(
        NOT_PORTABLE,
        "scratch memory is set up by the hardware on one target, in SGPRs on the other",
        "LLVM 22, FeatureArchitectedFlatScratch: gfx942 and gfx950 have it, gfx90a has not",
    ),
    "lds-size": Rule(
        NOT_PORTABLE,
        "more LDS than a workgroup of the target can have",
        "LLVM 22, getAddressableLocalMemorySize: 64 KiB, on gfx950 160 KiB",
    ),
    "fp8": Rule(
        REVIEW,
        "the same byte is another FP8 number: FNUZ on gfx942, OCP on gfx950",
        "ROCm documentation, Data types and precision support; HIP's amd_hip_fp8.h",
    ),
    "fp8-memory": Rule(
        REVIEW,
        "FP8 enters the registers, or leaves them",
        "as fp8; followed through the kernel's own code",
    ),
    "subnormals": Rule(
        REVIEW,
        "MFMAs of F16 and BF16 flush subnormal numbers on gfx90a, not on gfx942 and gfx950",
        "ROCm documentation, MIOpen, MI200 MFMA behavior specifics",
    ),
    "caches": Rule(
        REVIEW,
        "the bits GLC, SLC, SCC are SC0, NT, SC1: scopes of coherence, not hints to a cache",
        "LLVM AMDGPU usage, Memory Model gfx90a and gfx942",
    ),
    "hwreg": Rule(
        REVIEW,
        "what a hardware register says depends on the hardware",
        "CDNA3 and CDNA4 ISA guides, S_GETREG_B32",
    ),
    "dynamic-lds": Rule(
        REVIEW,
        "LDS is added at launch, and a workgroup of the target can have less of it",
        "LLVM 22, getAddressableLocalMemorySize; LLVM AMDGPU usage, Code Object Metadata",
    ),
    "hazard": Rule(
        REVIEW,
        "coasm lint finds an error in the result",
        "coasm lint --explain RULE",
    ),
    "old-hazard": Rule(
        REVIEW,
        "coasm lint finds an error in the result, and in the original",
        "coasm lint --explain RULE",
    ),
    "unjudged": Rule(
        REVIEW,
        "coasm lint cannot judge the result",
        "coasm lint",
    ),
    "fixed": Rule(NOTE, "wait states and waits that --fix put in", "coasm lint --fix"),
    "encoding": Rule(
        NOTE,
        "the same instruction has another encoding or another name",
        "LLVM 22's assembler for both targets",
    ),
    "lds-granule": Rule(
        NOTE,
        "LDS is allocated in other granules",
        "LLVM 22, getLdsDwGranularity: 512 bytes, on gfx950 1,280",
    ),
    "lds-banks": Rule(
        NOTE,
        "LDS has another number of banks: what was laid out without conflicts may have some",
        "CDNA3 and CDNA4 ISA guides, Data Share: 32 banks, on gfx950 64",
    ),
    "occupancy": Rule(NOTE, "another number of waves is resident", "coasm info, for both targets"),
}
