"""What kernel descriptors declare, against what a source's text names and the metadata says.

It needs no code: ``coasm asm`` asks it of each object that it makes. Source: LLVM, *User Guide for
AMDGPU Backend*, "Kernel Descriptor" and "Code Object Metadata".
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from coasm.codeobject import CodeObject, Kernel
from coasm.descriptor import decode
from coasm.descriptor.declared import Resources, resources
from coasm.isa.kinds import LDS_LINE, is_a
from coasm.target import TargetID

__all__ = [
    "REGISTER",
    "Limit",
    "contradictions",
    "highest",
    "lds_end",
    "limits",
    "named_in",
    "text_fits",
]

# v7, v[4:7], a0, s[2:3] as operands; names such as v_add or s_nop have no digit there.
REGISTER = re.compile(r"(?<![\w.])([vas])(?:(\d+)|\[(\d+)(?::(\d+))?\])(?![\w\]])")
#: GFX10 and GFX11 give a wave64 these VGPRs more, counted in this granule (shared VGPRs).
_SHARED_GRANULE = 8


@lru_cache(maxsize=1 << 16)
def highest(operands: str) -> tuple[int, int, int]:
    """One more than the highest VGPR, AGPR and SGPR that *operands* name."""
    counts = {"v": 0, "a": 0, "s": 0}
    for kind, single, low, high in REGISTER.findall(operands):
        counts[kind] = max(counts[kind], int(single or high or low) + 1)
    return counts["v"], counts["a"], counts["s"]


class Limit(NamedTuple):
    """How many registers of a kind a kernel declares and is given, and who says so."""

    rule: str
    letter: str
    name: str
    declared: int
    allocated: int
    directive: str


def limits(kernel: Kernel, target: TargetID, declared: Resources, uses_agprs: bool) -> list[Limit]:
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
        Limit("vgpr-range", "v", kind_of, vgprs, has, what),
        Limit("agpr-range", "a", "AGPRs", agprs, has_agprs, what),
    ]
    if declared.sgprs is not None:
        sgprs = declared.sgprs
        found.append(Limit("sgpr-range", "s", "SGPRs", sgprs, sgprs, ".amdhsa_next_free_sgpr"))
    return found


_DS_WIDTH = re.compile(r"_[biuf](\d+)")
_OFFSET = re.compile(r"\boffset([01]?):(\d+)")


def lds_end(text: str) -> int:
    """The byte of LDS behind what a DS instruction reaches where its address is 0; 0 for others."""
    mnemonic = text.partition(" ")[0]
    if not is_a(mnemonic, "LDS access") or text.endswith(" gds"):
        return 0
    width = _DS_WIDTH.search(mnemonic)
    size = int(width[1]) // 8 if width else 4
    scale = size * (64 if is_a(mnemonic, "LDS in rows of 64") else 1)
    offsets = [int(offset) * (scale if which else 1) for which, offset in _OFFSET.findall(text)]
    return max(offsets, default=0) + size


def contradictions(kernel: Kernel, declared: Resources) -> list[tuple[str, str, int, str, int]]:
    """Case of the rule, the metadata's key, the descriptor's value, of what, the metadata's."""
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
        ("size", key, value, what, said)
        for key, value, what in equal
        if isinstance(said := metadata.get(key), int) and said != value
    ]
    wrong += [
        ("count", key, value, what, said)
        for key, value, what in at_most
        if value is not None and isinstance(said := metadata.get(key), int) and said > value
    ]
    return wrong


# Registers alone: of a thousand instructions most name the same ones.
_NAMED = re.compile(r"(?<![\w.])[vas](?:\d+|\[\d+(?::\d+)?\])(?![\w\]])")
# Registers, and what makes code, in a way that is not read off the text.
_UNREAD = re.compile(r"(?<![\w.])[vas]\[(?!\d+(?::\d+)?\])")
_MAKES = (
    r"\.(?:(?:long|int|word|short|hword|byte|quad|[248]byte|ascii|asciz|string|fill|zero|skip|space"
    r"|incbin|set|if\w*|equ|macro|rept|irpc?|include)\b)"
)
_MAKER = re.compile(_MAKES)
_MAKER_LINE = r"(?m)^[^/;\n]*" + _MAKES
_DS_LINE = re.compile(LDS_LINE)


@lru_cache(maxsize=1)
def named_in(text: str) -> tuple[tuple[int, int, int], int] | None:
    """One more than the highest VGPR, AGPR and SGPR that a source names, and its last LDS byte.

    What a comment names may be among them. None where the text does not tell.
    """
    words = " ".join(set(text.split()))  # a tenth of the text
    if _UNREAD.search(words) or (_MAKER.search(words) and re.search(_MAKER_LINE, text)):
        return None
    named = highest(" ".join(set(_NAMED.findall(words))))
    lines = {
        line[0].rstrip()
        for line in _DS_LINE.finditer(text)
        if not (before := text[max(line.start() - 1, 0) : line.start()]).isalnum() and before != "_"
    }
    return named, max(map(lds_end, lines), default=0)


def text_fits(text: str, co: CodeObject) -> bool:
    """Whether the source *text* of *co* shows that :func:`check_declarations` finds nothing.

    It does where the highest register of each kind and the last LDS byte that any instruction
    names are declared for every kernel, and the metadata says what the descriptors say. False says
    nothing: the code has to be looked at.
    """
    # GFX12.5 names VGPRs from 256 on by other means than their operand.
    told = None if co.target.processor.family.vgpr_msb else named_in(text)
    if told is None:
        return False
    named, last = told
    for kernel in co.kernels:
        declared = resources(kernel.descriptor, co.target)
        most = limits(kernel, co.target, declared, named[1] > 0)
        if any(count > limit.declared for count, limit in zip(named, most, strict=False)):
            return False
        if declared.lds > co.target.processor.family.lds_bytes or 0 < declared.lds < last:
            return False
        if contradictions(kernel, declared):
            return False
    return True
