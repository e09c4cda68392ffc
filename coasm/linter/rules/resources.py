"""Resources: what code uses against what its descriptor and its metadata declare."""

from __future__ import annotations

from coasm.linter.findings import ADVICE
from coasm.linter.rules.rule import Message, Rule

__all__ = ["RULES"]

_USAGE = "LLVM AMDGPU usage"

_NAMED = Message(
    "{register} is used, but the descriptor declares {declared} {kind}",
    "raise {directive} for {count} {kind} or more",
)
# The hardware may set aside more than what is declared: then it works all the same.
_REGISTERS = {"beyond": _NAMED, "set aside": _NAMED._replace(level=ADVICE)}
_UNSET = (
    "{register} is read, but nothing has written it before, and the descriptor sets up {initial}"
)
_SET_SGPR = (
    "write it first, or enable what it stands for (.amdhsa_user_sgpr_*, .amdhsa_system_sgpr_*)"
)
_KERNARG = Message(
    "loads bytes {first} to {last} of the kernel arguments, which are {size} bytes",
    "correct the offset, or .amdhsa_kernarg_size and .kernarg_segment_size",
)
_SCRATCH = "scratch memory is used, but the descriptor "
_WORKGROUP = Message(
    "a workgroup of {size} work-items has {waves} waves, but the {kind} ({detail}) are enough for "
    "{resident}",
    "use fewer {kind}, or lower .max_flat_workgroup_size",
)
_DISAGREE = Message(
    "the descriptor declares {value} {what}, the metadata's {key} is {said}",
    "give {key} the descriptor's value, or change the descriptor",
)
_PAD = "the code must begin {offset} bytes behind {symbol}: pad its prologue with s_nop"
_FALLS = Message(
    "flow goes on behind this instruction, but what comes next is {there}",
    "end it with s_endpgm or a branch",
)
_BRANCH = Message(
    "the branch goes to {address:#x}, which is {there}",
    "branch to a label that an instruction has",
)

RULES: tuple[Rule, ...] = (
    Rule(
        "vgpr-range",
        "a VGPR is used that the kernel does not have",
        "The descriptor says how many VGPRs a wave gets, in granules, and with accum_offset where "
        "the AGPRs among them begin. A register beyond is another one, or another wave's. Raise "
        ".amdhsa_next_free_vgpr and .amdhsa_accum_offset.",
        f"{_USAGE}, kernel descriptor, COMPUTE_PGM_RSRC1 and RSRC3",
        messages=_REGISTERS,
    ),
    Rule(
        "agpr-range",
        "an AGPR is used that the kernel does not have",
        "AGPRs are those of a wave's vector registers that lie behind accum_offset. Raise "
        ".amdhsa_next_free_vgpr: it counts both kinds.",
        f"{_USAGE}, kernel descriptor, COMPUTE_PGM_RSRC1 and RSRC3",
        messages=_REGISTERS,
    ),
    Rule(
        "sgpr-range",
        "an SGPR is used that the kernel does not have",
        "The descriptor says how many SGPRs a wave gets, VCC and the like included. Raise "
        ".amdhsa_next_free_sgpr.",
        f"{_USAGE}, kernel descriptor, COMPUTE_PGM_RSRC1",
        messages=_REGISTERS,
    ),
    Rule(
        "lds-range",
        "an LDS offset lies beyond what the kernel declares",
        "LDS reads beyond the workgroup's allocation give 0, and writes are dropped. Raise "
        ".amdhsa_group_segment_fixed_size, and .group_segment_fixed_size of the metadata with it. "
        "LDS that the launch adds cannot be seen here.",
        f"{_USAGE}, kernel descriptor, GROUP_SEGMENT_FIXED_SIZE",
        messages={
            "more than there is": Message(
                "the descriptor declares {declared} bytes of LDS, a workgroup can have {most}",
                "lower .amdhsa_group_segment_fixed_size",
            ),
            "beyond": Message(
                "LDS byte {byte} is used, but the descriptor declares {declared} bytes",
                "raise .amdhsa_group_segment_fixed_size to {end}, unless the launch adds dynamic "
                "LDS",
                ADVICE,
            ),
        },
    ),
    Rule(
        "kernarg-range",
        "a kernel argument is read beyond its segment",
        "The runtime copies only as many bytes of arguments as the metadata's "
        ".kernarg_segment_size and the descriptor say; what lies behind is not the kernel's. Add "
        "the argument to the metadata and raise .amdhsa_kernarg_size.",
        f"{_USAGE}, kernel descriptor, KERNARG_SIZE",
        messages={
            "starts outside": _KERNARG,
            "ends outside": _KERNARG._replace(level=ADVICE),
        },
    ),
    Rule(
        "scratch",
        "scratch is used, but the kernel declares none",
        "Without a private segment no scratch is set up, and the access goes nowhere or to what is "
        "not the wave's. Set .amdhsa_private_segment_fixed_size and enable the private segment.",
        f"{_USAGE}, kernel descriptor, PRIVATE_SEGMENT_FIXED_SIZE",
        messages={
            "none": Message(
                _SCRATCH + "declares no scratch memory", "set .amdhsa_private_segment_fixed_size"
            ),
            "disabled": Message(
                _SCRATCH + "does not enable the private segment", "set {directive}"
            ),
        },
    ),
    Rule(
        "workgroup-registers",
        "a workgroup does not fit the registers of its compute unit",
        "All waves of a workgroup must be resident at once. The registers that each wave gets, "
        "times the waves of the largest workgroup that the metadata allows, are more than a "
        "compute unit has: such a launch fails. Use fewer registers or a smaller workgroup.",
        f"{_USAGE}, target's register file; .max_flat_workgroup_size of the metadata",
        messages={"required": _WORKGROUP, "allowed": _WORKGROUP._replace(level=ADVICE)},
    ),
    Rule(
        "metadata",
        "descriptor and metadata disagree",
        "The hardware takes the descriptor, the runtime the metadata: it allocates LDS, scratch "
        "and arguments by it. After an edit both have to say the same.",
        f"{_USAGE}, code object metadata",
        # Counts of registers are advice, for no launch goes by them: the metadata of aiter's gfx942
        # pa_a16w8_b16 counts 96 SGPRs, its descriptor 80, of which the code uses 74.
        messages={"size": _DISAGREE, "count": _DISAGREE._replace(level=ADVICE)},
    ),
    Rule(
        "preload-entry",
        "the code is not where firmware that preloads enters it",
        "With preloaded arguments (gfx90a to gfx950) a kernel has two entries. Firmware that "
        "preloads enters 256 bytes behind the first; other firmware runs what is before, which "
        "loads the same SGPRs, and goes on there. An edit of the prologue must not move the rest.",
        f"{_USAGE}, preloaded kernel arguments; LLVM AMDGPUPreloadKernArgProlog",
        messages={
            "no instruction": Message(
                "{entry:#x}, {offset} bytes behind the entry, is no instruction's address", _PAD
            ),
            "goes elsewhere": Message(
                "the prologue goes on at {target:#x}, while firmware that preloads arguments "
                "enters at {entry:#x}",
                _PAD,
            ),
        },
    ),
    Rule(
        "fall-through",
        "the flow runs out of the code",
        "Behind this instruction there is data, or nothing: the wave goes on with whatever bytes "
        "lie there. End with s_endpgm or a branch.",
        "CDNA3 and CDNA4 ISA guides, program flow",
        messages={
            "no code": _FALLS,
            "perhaps": _FALLS._replace(level=ADVICE),
            "padding": Message(
                "flow runs into the padding behind the code",
                "end the code before it with s_endpgm or a branch",
            ),
        },
    ),
    Rule(
        "branch-range",
        "a branch goes where no code is",
        "The target lies outside of the code, in data, or inside of an instruction. A branch "
        "reaches 32,767 words forward and 32,768 back.",
        "CDNA3 and CDNA4 ISA guides, SOPP",
        messages={
            "no code": _BRANCH,
            "perhaps": _BRANCH._replace(level=ADVICE),
            "entry": Message(
                "the entry point {address:#x} is {there}",
                "correct the kernel's symbol or its descriptor's kernel_code_entry_byte_offset",
            ),
        },
    ),
    Rule(
        "user-sgpr",
        "a register is read that nobody set up",
        "A wave starts with the user SGPRs that its descriptor enables, then the system SGPRs, and "
        "v0 as it asks for work-item IDs. Everything else holds what an earlier wave left. Enable "
        "it in the descriptor, or write the register first. An error for SGPRs that a "
        "descriptor could set up (s0 to s20); advice for those behind, for v1 and v2 (other VGPRs "
        "are not followed), and for what only copies or spills a register or reads it as half of a "
        "64-bit integer, as compilers do where the value does not matter.",
        f"{_USAGE}, initial kernel execution state",
        messages={
            "sgpr": Message(_UNSET, _SET_SGPR),
            # Behind those that a descriptor could set up the value need not matter: aiter's gfx950
            # fmoe_bf16_blockscaleFp8_g1u1_vs_gelu_1tg_pf2_16x128 compares s86 to s89, which nothing
            # writes, for bits 4 to 7 of s20, of which it only ever asks bits 0 to 3 (s_setvskip).
            # Compilers copy undefined registers, and let half of a 64-bit integer undefined.
            "sgpr, perhaps": Message(_UNSET, _SET_SGPR, ADVICE),
            "vgpr": Message(
                _UNSET,
                "write it first, or enable what it stands for (.amdhsa_system_vgpr_workitem_id)",
                ADVICE,
            ),
        },
    ),
)
