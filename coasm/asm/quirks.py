"""Where LLVM's assembler and disassembler do not agree with each other or with AMD's assembler.

Tables, each row of them a fact that was found by going through LLVM there and back:

* :data:`DONT_CARE`: encodings that LLVM's disassembler reads only with certain don't-care bits set,
  which AMD's assembler leaves clear;
* :data:`DROPPED`: bits that LLVM's assembler writes otherwise than AMD's although its disassembler
  ignores them: a first guess that saves an assembler run, always checked;
* :data:`RESPELLINGS`: text that the assembler refuses as the disassembler prints it, and the
  spelling of the same instruction that it takes;
* :data:`DOUBTFUL`: text that the assembler is likely to refuse, of which it is asked beforehand.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from coasm.target import Processor

__all__ = [
    "DONT_CARE",
    "DOUBTFUL",
    "DROPPED",
    "RESPELLINGS",
    "DontCare",
    "decodable",
    "dont_care_rows",
    "doubtful",
    "dropped",
    "has_respellings",
    "respell",
]


#: Targets of a row: from this GFX version on and below that one.
Versions = tuple[tuple[int, ...], tuple[int, ...]]

_GFX950: Versions = (9, 5), (9, 6)
_GFX10: Versions = (10,), (99,)
_GFX120: Versions = (12, 0), (12, 1)
_GFX125: Versions = (12, 5), (12, 6)


class DontCare(NamedTuple):
    """Encodings of *size* bytes with ``word & mask == value``, whose *bits* must be set.

    All three are little-endian integers over the whole encoding; *what* names the mnemonics.
    """

    what: str
    targets: Versions
    size: int
    mask: int
    value: int
    bits: int

    def apply(self, data: bytes) -> bytes | None:
        """*data* with the bits set; None where it is another encoding or has them all."""
        word = int.from_bytes(data, "little")
        if len(data) != self.size or word & self.mask != self.value or not self.bits & ~word:
            return None
        return (word | self.bits).to_bytes(self.size, "little")


# The scaled WMMAs are two VOP3P encodings, the first of which (v_wmma_ld_scale…, opcodes 0x35 and
# 0x3a) loads the scales; its third source is not used and LLVM wants it to name v0 (bit 58). The
# FP4 form has no op_sel_hi and LLVM wants all three bits of it (14 and 59, 60 of the second).
_LD_SCALE = 0x04000000_00000000
_FP4_TAIL = 0x18000000_00004000

DONT_CARE: tuple[DontCare, ...] = (
    *(
        DontCare(
            f"v_wmma_scale{width}_f32_{shape}",
            _GFX125,
            16,
            0xFFFF0000 << 64 | 0xFFFF0000,
            tail << 64 | head,
            tail_bits << 64 | _LD_SCALE,
        )
        for width, head in (("", 0xCC350000), ("16", 0xCC3A0000))
        for shape, tail, tail_bits in (
            ("16x16x128_f8f6f4", 0xCC330000, 0),
            ("32x16x128_f4", 0xCC880000, _FP4_TAIL),
        )
    ),
    DontCare("v_wmma_f32_32x16x128_f4", _GFX125, 8, 0xFFFF0000, 0xCC880000, _FP4_TAIL),
    *(
        DontCare(f"v_wmma_ld_scale{width}_paired_b{bits}", _GFX125, 8, 0xFFFF0000, head, _LD_SCALE)
        for width, bits, head in (("", 32, 0xCC350000), ("16", 64, 0xCC3A0000))
    ),
    # VIMAGE with no address and no data: dim (bit 0), the A16-like bit 22 and rsrc's upper bits.
    DontCare(
        "tensor_load_to_lds / tensor_store_from_lds",
        _GFX125,
        12,
        0xFFBF0000,
        0xD0310000,
        0x7C000000_00400001,
    ),
)


@cache
def dont_care_rows(processor: Processor) -> tuple[DontCare, ...]:
    """The rows of :data:`DONT_CARE` for *processor*."""
    return tuple(row for row in DONT_CARE if processor.between(*row.targets))


def decodable(processor: Processor, data: bytes) -> bytes:
    """The encoding *data* with the don't-care bits that LLVM's disassembler wants."""
    changed = (row.apply(data) for row in dont_care_rows(processor))
    return next((made for made in changed if made is not None), data)


# VOP3 instructions with two sources: those whose absent third one compilers have set to 128 (inline
# constant 0), while LLVM 22 leaves it 0. A guess of the kind that is checked, so a broad one.
_TWO_SOURCES = re.compile(
    r"(?!\w+_(?:e32|dpp|dpp8|sdwa)$)v_(?:\w+_e64|(?:add|sub|subrev)_co_u32|mul_(?:lo|hi)_[iu](?:16|32)|ldexp_f(?:32|64)"
    r"|(?:lshlrev|lshrrev|ashrrev)_[biu](?:16|64)|(?:max|min)_(?:num_)?[fiu](?:16|64)"
    r"|(?:add|mul)_f64|(?:and|or|xor)_b16|(?:add|sub)_nc_[iu]16|mbcnt_(?:lo|hi)_u32_b32"
    r"|readlane_b32|pack_b32_f16|cvt_pk\w+|frexp_\w+|s_\w+|pk_(?:add|mul)\w+)$"
)
_SRC2_IS_128 = 0x02000000_00000000
# The same of the second source.
_ONE_SOURCE = re.compile(
    r"(?!\w+_(?:e32|dpp|dpp8|sdwa)$)v_(?:cvt_(?!pk)|frexp_|s_(?:exp|log|rcp|rsq|sqrt)_|mov_|not_|bfrev_|cls_|clz_|ctz_|rcp_|rsq_"
    r"|sqrt_|exp_|log_|sin_|cos_|floor_|ceil_|trunc_|rndne_|fract_)\w+$"
)
_SRC1_IS_128 = 0x00010000_00000000


#: Mnemonic → (bits LLVM clears, bits LLVM sets), over the whole encoding; rows add up.
DROPPED: tuple[tuple[Versions, re.Pattern[str], int, int], ...] = (
    # op_sel and op_sel_hi of the accumulator, src2.
    (_GFX950, re.compile(r"v_mfma_scale_f32_"), 0x6000, 0),
    # op_sel_hi[2] of the absent src2, set as for every VOP3P default; src2 itself reads 0.
    (_GFX125, re.compile(r"v_pk_(?:mul|add)_f32$"), 0x04000000_00000000, 0x4000),
    (_GFX125, re.compile(r"v_cvt_pk_bf16_f32$"), 0x04000000_00000000, 0),
    (_GFX125, re.compile(r"v_nop$"), 0x1FF, 0),
    (_GFX10, re.compile(r"v_mov_b16_e32$"), 0xFFFF0000_00000000, 0),
    (_GFX10, _TWO_SOURCES, _SRC2_IS_128, 0),
    (_GFX10, _ONE_SOURCE, _SRC2_IS_128 | _SRC1_IS_128, 0),
)


def dropped(processor: Processor, mnemonic: str) -> tuple[int, int]:
    """(bits to clear, bits to set) that lead from AMD's encoding to LLVM's, as far as known."""
    cleared = added = 0
    for targets, pattern, clear, bits in DROPPED:
        if processor.between(*targets) and pattern.match(mnemonic):
            cleared |= clear
            added |= bits
    return cleared, added


_PACKED = re.compile(r"(v_pk_(?:fma|mul|add)_f32) ([^ ,]+(?:, [^ ,]+)+)((?: \S+:\S+)*)$")
_SCALAR = re.compile(r"-?\|?(?:s\[|s\d|ttmp|vcc)")


# The bits of op_sel and op_sel_hi by source. Source: the VOP3P encoding in the ISA guides.
_SELECT_BITS = {"op_sel": (1 << 11, 1 << 12, 1 << 13), "op_sel_hi": (1 << 59, 1 << 60, 1 << 14)}


def _packed_scalar(match: re.Match[str]) -> tuple[str, int]:
    """Packed f32 math on GFX12.5 reads only the low dword of a scalar source, for both halves.

    LLVM's assembler therefore takes op_sel and op_sel_hi 0 alone for such a source, while its
    disassembler prints what the bits say. Source: LLVM, SIInstrInfo.cpp,
    isLegalGFX12PlusPackedMathFP32Operand ("the HW can only read the first SGPR and use it for both
    the low and high operations").
    """
    sources = match[2].split(", ")[1:]
    modifiers = dict(m.split(":", 1) for m in match[3].split())
    selects = {
        key: [
            int(bit)
            for bit in modifiers.get(key, f"[{','.join(default * len(sources))}]")[1:-1].split(",")
        ]
        for key, default in (("op_sel", "0"), ("op_sel_hi", "1"))
    }
    cleared = 0
    for position, source in enumerate(sources):
        if _SCALAR.match(source):
            for key, bits in selects.items():
                bits[position] = 0
                cleared |= _SELECT_BITS[key][position]
    for key, default in (("op_sel", 0), ("op_sel_hi", 1)):
        if any(bit != default for bit in selects[key]):
            modifiers[key] = f"[{','.join(map(str, selects[key]))}]"
        else:
            modifiers.pop(key, None)
    order = ("op_sel", "op_sel_hi", "neg_lo", "neg_hi")
    said = sorted(modifiers.items(), key=lambda m: order.index(m[0]) if m[0] in order else 9)
    return " ".join([match[1], match[2], *(f"{key}:{value}" for key, value in said)]), cleared


#: (targets, mnemonics, pattern of the text, its other spelling and the bits that it clears)
RESPELLINGS: tuple[
    tuple[
        Versions,
        re.Pattern[str],
        re.Pattern[str],
        Callable[[re.Match[str]], tuple[str, int]],
    ],
    ...,
] = ((_GFX125, re.compile(r"v_pk_(?:fma|mul|add)_f32$"), _PACKED, _packed_scalar),)


def has_respellings(processor: Processor, mnemonic: str = "") -> bool:
    """Whether any row of :data:`RESPELLINGS` is for *processor* and, if it is given, *mnemonic*."""
    return any(
        processor.between(*targets) and (not mnemonic or names.match(mnemonic))
        for targets, names, *_ in RESPELLINGS
    )


def respell(processor: Processor, text: str) -> tuple[str, int] | None:
    """Another spelling of an instruction that the assembler refuses as it is printed.

    With it the bits of the encoding that the other spelling clears; None where none is known.
    """
    for targets, _, pattern, rewrite in RESPELLINGS:
        match = pattern.match(text) if processor.between(*targets) else None
        if match:
            changed = rewrite(match)
            if changed[0] != text:
                return changed
    return None


# The first source of both halves, and the second, is the same VGPR.
_NO_MOVES = r"(?!v_dual_mov_b32 .*:: v_dual_mov_b32 )"
_SAME_SRC0 = re.compile(_NO_MOVES + r"v_dual_\w+ v\d+, v(\d+)\b.* :: v_dual_\w+ v\d+, v\1\b")
_SAME_SRC1 = re.compile(
    _NO_MOVES + r"v_dual_\w+ v\d+, [^,]+, v(\d+)\b.* :: v_dual_\w+ v\d+, [^,]+, v\1\b"
)

#: (targets, mnemonics, pattern of the text). The halves of a VOPD instruction must read different
#: VGPR banks, but on GFX12 compilers since ROCm 7.15 let both read the same VGPR, as two moves
#: could before. Source: LLVM 22, AMDGPUBaseInfo.cpp, getInvalidCompOperandIndex.
DOUBTFUL: tuple[tuple[Versions, re.Pattern[str], re.Pattern[str]], ...] = (
    (_GFX120, re.compile(r"v_dual_"), _SAME_SRC0),
    (_GFX120, re.compile(r"v_dual_"), _SAME_SRC1),
)


def doubtful(processor: Processor, mnemonic: str) -> list[re.Pattern[str]]:
    """The patterns of :data:`DOUBTFUL` for *mnemonic* on *processor*."""
    return [
        text
        for targets, names, text in DOUBTFUL
        if processor.between(*targets) and names.match(mnemonic)
    ]
