"""What a kernel's code names against what its descriptor declares, and that against the metadata.

Every target. Sources: LLVM, *User Guide for AMDGPU Backend*, "Kernel Descriptor" and "Code Object
Metadata".
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from coasm.asm.decode import Instruction, branch_target
from coasm.codeobject import CodeObject, Kernel
from coasm.descriptor import Resources, decode, resources
from coasm.linter.findings import ADVICE, ERROR, Finding
from coasm.linter.kernel_code import Check, KernelCode, check_kernels
from coasm.linter.program import Program, parts
from coasm.target import TargetID

__all__ = ["DECLARATIONS", "REGISTER", "check_declarations", "named_registers", "text_fits"]


def check_declarations(program: Program) -> list[Finding]:
    """What needs no flow: registers, LDS and metadata as declared.

    Raises:
        FormatError, UnsupportedError: a kernel descriptor that cannot be read.
    """
    return [finding for part in parts(program) for finding in check_kernels(part, DECLARATIONS)]


# Registers

# v7, v[4:7], a0, s[2:3] as operands; names such as v_add or s_nop have no digit there.
REGISTER = re.compile(r"(?<![\w.])([vas])(?:(\d+)|\[(\d+)(?::(\d+))?\])(?![\w\]])")
#: GFX10 and GFX11 give a wave64 these VGPRs more, counted in this granule (shared VGPRs).
_SHARED_GRANULE = 8


@lru_cache(maxsize=1 << 16)
def _highest(operands: str) -> tuple[int, int, int]:
    """One more than the highest VGPR, AGPR and SGPR that *operands* name."""
    counts = {"v": 0, "a": 0, "s": 0}
    for kind, single, low, high in REGISTER.findall(operands):
        counts[kind] = max(counts[kind], int(single or high or low) + 1)
    return counts["v"], counts["a"], counts["s"]


def named_registers(item: Instruction) -> str:
    """The operands with the registers that they reach, as far as that is known."""
    if item.registers and not item.registers.endswith("(a guess)"):
        return item.registers
    return item.operands


def _registers(code: KernelCode) -> Iterable[Finding]:
    """Rules vgpr-range, agpr-range, sgpr-range: the highest register of each kind."""
    most = [(0, 0)] * 3
    dynamic = False
    for index, item in code.instructions:
        dynamic |= item.text.startswith("s_alloc_vgpr")
        if branch_target(item) is None:
            for kind, count in enumerate(_highest(named_registers(item))):
                if count > most[kind][0]:
                    most[kind] = (count, index)
    limits = _limits(code.kernel, code.program.co.target, code.declared, most[1][0] > 0)
    for limit, (count, index) in zip(limits, most, strict=False):
        if count > limit.declared and not (dynamic and limit.letter == "v"):
            # The hardware may set aside more than what is declared: then it works all the same.
            yield code.finding(
                limit.rule,
                ERROR if count > limit.allocated else ADVICE,
                index,
                f"{limit.letter}{count - 1} is used, but the descriptor declares {limit.declared} "
                f"{limit.name}",
                f"raise {limit.directive} for {count} {limit.name} or more",
            )


class _Limit(NamedTuple):
    """How many registers of a kind a kernel declares and is given, and who says so."""

    rule: str
    letter: str
    name: str
    declared: int
    allocated: int
    directive: str


def _limits(
    kernel: Kernel, target: TargetID, declared: Resources, uses_agprs: bool
) -> list[_Limit]:
    """The limits of VGPRs, AGPRs, and where the descriptor counts them SGPRs, in this order."""
    shared = decode(kernel.descriptor, target).get("shared_vgpr_count") * _SHARED_GRANULE
    vgprs, has = declared.vgprs + shared, declared.vgprs_allocated + shared
    agprs, has_agprs = vgprs, has
    what, kind_of = ".amdhsa_next_free_vgpr", "VGPRs"
    if declared.accum_offset is not None:
        agprs = max(vgprs - declared.accum_offset, 0)
        has_agprs = max(has - declared.accum_offset, 0)
        what += " or .amdhsa_accum_offset"
        if uses_agprs:
            # Without AGPRs VGPRs may go on behind it: so they do in aiter's gfx942
            # fwd_hd128_bf16_rtne, which uses v235 with accum_offset 160 and 256 in all.
            vgprs = has = min(vgprs, declared.accum_offset)
            kind_of = "VGPRs below the AGPRs"
    found = [
        _Limit("vgpr-range", "v", kind_of, vgprs, has, what),
        _Limit("agpr-range", "a", "AGPRs", agprs, has_agprs, what),
    ]
    if declared.sgprs is not None:
        sgprs = declared.sgprs
        found.append(_Limit("sgpr-range", "s", "SGPRs", sgprs, sgprs, ".amdhsa_next_free_sgpr"))
    return found


# LDS

_DS = re.compile(r"ds_(?!gws|swizzle|b?permute|nop|ordered|bvh)\w*")
_DS_WIDTH = re.compile(r"_[biuf](\d+)")
_OFFSET = re.compile(r"\boffset([01]?):(\d+)")
#: The arguments that say that a launch adds to the LDS.
_DYNAMIC_LDS = ("dynamic_shared_pointer", "hidden_dynamic_lds_size")


def _lds_end(text: str) -> int:
    """The byte of LDS behind what a DS instruction reaches where its address is 0; 0 for others."""
    match = _DS.match(text)
    if match is None or text.endswith(" gds"):
        return 0
    width = _DS_WIDTH.search(match[0])
    size = int(width[1]) // 8 if width else 4
    scale = size * (64 if "st64" in match[0] or "stride64" in match[0] else 1)
    offsets = [int(offset) * (scale if which else 1) for which, offset in _OFFSET.findall(text)]
    return max(offsets, default=0) + size


def _lds(code: KernelCode) -> Iterable[Finding]:
    """Rule lds-range. Dynamic LDS is added at launch, behind what is declared: advice."""
    declared, most = code.declared.lds, code.program.co.target.processor.family.lds_bytes
    if declared > most:
        yield code.at_entry(
            "lds-range",
            ERROR,
            f"the descriptor declares {declared} bytes of LDS, a workgroup can have {most}",
            "lower .amdhsa_group_segment_fixed_size",
        )
    arguments = code.kernel.metadata.get(".args")
    listed = arguments if isinstance(arguments, list) else []
    added = any(isinstance(a, dict) and a.get(".value_kind") in _DYNAMIC_LDS for a in listed)
    if not declared or added:
        return
    end, index = max(
        ((_lds_end(item.text), index) for index, item in code.instructions), default=(0, 0)
    )
    if end > declared:
        yield code.finding(
            "lds-range",
            ADVICE,
            index,
            f"LDS byte {end - 1} is used, but the descriptor declares {declared} bytes",
            f"raise .amdhsa_group_segment_fixed_size to {end}, unless the launch adds dynamic LDS",
        )


def _metadata(code: KernelCode) -> Iterable[Finding]:
    """Rule metadata: where the descriptor and the metadata do not say the same.

    Counts of registers are advice, for no launch goes by them: the metadata of aiter's gfx942
    pa_a16w8_b16 counts 96 SGPRs, its descriptor 80, of which the code uses 74.
    """
    for key, value, what, said, level in _contradictions(code.kernel, code.declared):
        yield code.at_entry(
            "metadata",
            level,
            f"the descriptor declares {value} {what}, the metadata's {key} is {said}",
            f"give {key} the descriptor's value, or change the descriptor",
        )


def _contradictions(kernel: Kernel, declared: Resources) -> list[tuple[str, int, str, int, str]]:
    """Metadata key, the descriptor's value, of what, the metadata's value, and the level."""
    metadata = kernel.metadata
    equal = [
        (".group_segment_fixed_size", declared.lds, "LDS bytes"),
        (".private_segment_fixed_size", declared.scratch, "scratch bytes"),
        (".wavefront_size", declared.wave_size, "lanes"),
    ]
    if declared.kernarg_size:  # else not stated: what AMD's own assembler writes
        equal.append((".kernarg_segment_size", declared.kernarg_size, "kernarg bytes"))
    at_most = ((".vgpr_count", declared.vgprs, "VGPRs"), (".sgpr_count", declared.sgprs, "SGPRs"))
    wrong = [
        (key, value, what, said, ERROR)
        for key, value, what in equal
        if isinstance(said := metadata.get(key), int) and said != value
    ]
    wrong += [
        (key, value, what, said, ADVICE)
        for key, value, what in at_most
        if value is not None and isinstance(said := metadata.get(key), int) and said > value
    ]
    return wrong


DECLARATIONS: tuple[Check, ...] = (_registers, _lds, _metadata)


# The same, as far as a source's text tells

# Registers alone: of a thousand instructions most name the same ones.
_NAMED = re.compile(r"(?<![\w.])[vas](?:\d+|\[\d+(?::\d+)?\])(?![\w\]])")
# What names registers, or makes code, in a way that is not read off the text.
_UNREAD = re.compile(
    r"(?<![\w.])[vas]\[(?!\d+(?::\d+)?\])|^[^/;\n]*\.(?:(?:long|int|word|short|hword|byte|quad|[248]byte"
    r"|ascii|asciz|string|fill|zero|skip|space|incbin|set|if\w*|equ|macro|rept|irpc?|include)\b)",
    re.M,
)
_DS_LINE = re.compile(r"^[^/;\n]*?(\bds_[^/;\n]*)", re.M)


@lru_cache(maxsize=1)
def named_in(text: str) -> tuple[tuple[int, int, int], int] | None:
    """One more than the highest VGPR, AGPR and SGPR that a source names, and its last LDS byte.

    None where the text does not tell.
    """
    if _UNREAD.search(text):
        return None
    named = _highest(" ".join(set(_NAMED.findall(text))))
    return named, max((_lds_end(line.rstrip()) for line in set(_DS_LINE.findall(text))), default=0)


def text_fits(text: str, co: CodeObject) -> bool:
    """Whether the source *text* of *co* shows that :func:`check_declarations` finds nothing.

    It does where the highest register of each kind and the last LDS byte that any instruction
    names are declared for every kernel, and the metadata says what the descriptors say. False says
    nothing: the code has to be looked at.
    """
    # GFX12.5 names VGPRs from 256 on by other means than their operand.
    told = named_in(text) if co.target.processor.version < (12, 5) else None
    if told is None:
        return False
    named, last = told
    for kernel in co.kernels:
        declared = resources(kernel.descriptor, co.target)
        limits = _limits(kernel, co.target, declared, named[1] > 0)
        if any(count > limit.declared for count, limit in zip(named, limits, strict=False)):
            return False
        if declared.lds > co.target.processor.family.lds_bytes or 0 < declared.lds < last:
            return False
        if _contradictions(kernel, declared):
            return False
    return True
