"""How many passes an MFMA takes, and of which matrix pipe it is.

A pass is four clocks. Source: LLVM's scheduling models SIDPGFX942Model and SIDPGFX950Model
(SISchedule.td, VOP3PInstructions.td); each number was measured against LLVM 22's hazard recognizer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["Matrix", "matrix"]


class Matrix(NamedTuple):
    """An MFMA's pipe (``xdl``, ``sgemm``: f32 inputs, ``dgemm``: f64) and its passes.

    Of GFX12.5 the pipe is ``coexecuting``, the passes are the VALU instructions that run beside,
    and ``is_narrow`` says that newer LLVM counts fewer.
    """

    pipe: str
    passes: int
    is_narrow: bool = False


#: Shape and input types → passes. The first row that matches counts.
_PASSES: tuple[tuple[str, str, int | Mapping[str, int]], ...] = (
    ("dgemm", r"f64_4x4x4_4b_f64", 4),
    ("dgemm", r"f64_16x16x4_f64", {"cdna3": 8, "cdna4": 16}),
    ("sgemm", r"f32_4x4x1_16b_f32", 2),
    ("sgemm", r"f32_16x16x(1_4b|4)_f32", 8),
    ("sgemm", r"f32_32x32x(1_2b|2)_f32", 16),
    ("xdl", r"\w+_4x4x4_16b_(f16|bf16|i8)", 2),
    ("xdl", r"\w+_16x16x16_(f16|bf16)", 4),
    ("xdl", r"\w+_16x16x32_(f16|bf16)", 4),
    ("xdl", r"\w+_16x16x(32|64)_i8", 4),
    ("xdl", r"\w+_16x16x32_(fp8|bf8)_(fp8|bf8)", 4),
    ("xdl", r"\w+_16x16x8_xf32", 4),
    ("xdl", r"\w+_16x16x4_4b_(f16|bf16|i8)", 8),
    ("xdl", r"\w+_32x32x(8|16)_(f16|bf16)", 8),
    ("xdl", r"\w+_32x32x(16|32)_i8", 8),
    ("xdl", r"\w+_32x32x16_(fp8|bf8)_(fp8|bf8)", 8),
    ("xdl", r"\w+_32x32x4_xf32", 8),
    ("xdl", r"\w+_32x32x4_2b_(f16|bf16|i8)", 16),
)
#: A or B of 8 bits takes twice the passes of narrower ones: (shape, narrow, with 8 bits).
_F8F6F4 = {"16x16x128": (4, 8), "32x32x64": (8, 16)}
#: Every SMFMAC: by the side of its tile.
_SMFMAC = {"16x16": 4, "32x32": 8}

#: CDNA1 and CDNA2: by the side of the tile, and whether it is of f64; one pipe is all others'.
_EARLY = re.compile(r"(f64|f32|i32)_(\d+x\d+)x\d+")
_SIDES = {("4x4", False): 2, ("16x16", False): 8, ("32x32", False): 16}
_EARLY_PASSES = {
    "cdna1": _SIDES,
    "cdna2": {**_SIDES, ("4x4", True): 4, ("16x16", True): 8},
}

#: The generations with matrix instructions that other VALU instructions run beside.
_COEXECUTING = ("gfx12.5",)
#: Of GFX12.5, by what is behind v_swmmac_ or v_wmma_. The first row that matches counts. Source:
#: LLVM 22, getWMMAHazardInstInCategory.
_BESIDE = (
    (r"v_swmmac_i32_16x16x128", 4),
    (r"v_swmmac_\w+_16x16x(64|128)", 2),
    (r"v_wmma_i32_16x16x64", 8),
    (r"v_wmma_\w*_(16x16x(32|64|128)|32x16x128)_", 4),
)
_NARROW = re.compile(r"v_wmma_f\d+_16x16x64_[fb][pf]8")
_BITS_OF = {"FP8": 8, "BF8": 8, "FP6": 6, "BF6": 6, "FP4": 4}


def _coexecuting(mnemonic: str, modifiers: dict[str, str]) -> Matrix | None:
    """A WMMA or SWMMAC that VALU instructions run beside; those of f32, f64 and K 16 do not."""
    if mnemonic.endswith("_f8f6f4"):
        formats = (modifiers.get(f"matrix_{operand}_fmt", "FP8") for operand in "ab")
        bits = sorted(_BITS_OF[name.removeprefix("MATRIX_FMT_")] for name in formats)
        return Matrix("coexecuting", 8 if 8 in bits else 4, 8 in bits or bits == [4, 4])
    for pattern, number in _BESIDE:
        if re.match(pattern, mnemonic):
            if re.search(r"_16x16x32_(iu4|iu8)$", mnemonic):
                return None
            return Matrix("coexecuting", number, bool(_NARROW.match(mnemonic)))
    return None


_ROWS = tuple((pipe, re.compile(pattern), passes) for pipe, pattern, passes in _PASSES)
_MFMA = re.compile(r"v_mfma_(?:scale_)?(.+)")


def matrix(mnemonic: str, modifiers: dict[str, str], wait_states: str) -> Matrix | None:
    """The pipe and the passes of an MFMA or SMFMAC; None for other instructions.

    *wait_states* is the column of the target's family (:class:`~coasm.target.Family`).
    ``cbsz`` and ``blgp`` say what A and B hold where the mnemonic does not: 0 and 1 are 8 bits.
    """
    if mnemonic.startswith("v_smfmac_"):
        return Matrix("xdl", next(n for side, n in _SMFMAC.items() if f"_{side}x" in mnemonic))
    if wait_states in _COEXECUTING:
        return _coexecuting(mnemonic, modifiers)
    match = _MFMA.fullmatch(mnemonic)
    if match is None:
        return None
    early = _EARLY.match(match[1])
    if wait_states in _EARLY_PASSES and early:
        is_double = early[1] == "f64"
        number = _EARLY_PASSES[wait_states][early[2], is_double]
        return Matrix("dgemm" if is_double else "xdl", number)
    if mnemonic.endswith("_f8f6f4"):
        wide = min(int(modifiers.get("cbsz", "0"), 0), int(modifiers.get("blgp", "0"), 0)) <= 1
        shape = match[1].split("_")[1]
        return Matrix("xdl", _F8F6F4[shape][wide])
    for pipe, pattern, passes in _ROWS:
        if pattern.fullmatch(match[1]):
            if not isinstance(passes, int):
                passes = passes[wait_states]
            return Matrix(pipe, passes)
    return None
