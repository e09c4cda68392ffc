"""Pairs of instructions for the rows of the wait-state table, and where LLVM 22 judges otherwise.

A pair is a producer and a consumer that meet in one register, or in none where a rule asks for
none. Producers write low registers, what a pair does not need lies high. :data:`MATRIX` has every
MFMA and SMFMAC of the two targets, :data:`POOL` instructions of every kind on few registers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count, product
from typing import NamedTuple

__all__ = ["DIFFERENCES", "MATRIX", "TARGETS", "Case", "Difference", "cases", "matrix_text", "pool"]

TARGETS = ("gfx942", "gfx950")


class Case(NamedTuple):
    """A pair that breaks *rule* on *target* where it has too few states in between.

    Without a rule it needs none. *like* is a consumer that LLVM 22 judges as the table judges
    this one.
    """

    target: str
    rule: str
    producer: str
    consumer: str
    like: str = ""


# --- MFMA ---------------------------------------------------------------------------------------

_FP8 = [f"{a}_{b}" for a, b in product(("fp8", "bf8"), repeat=2)]
_BOTH = [
    *("f32_4x4x1_16b_f32", "f32_16x16x1_4b_f32", "f32_32x32x1_2b_f32"),
    *("f32_16x16x4_f32", "f32_32x32x2_f32", "f64_4x4x4_4b_f64", "f64_16x16x4_f64"),
    *(f"f32_4x4x4_16b_{t}" for t in ("f16", "bf16")),
    *(f"f32_16x16x4_4b_{t}" for t in ("f16", "bf16")),
    *(f"f32_32x32x4_2b_{t}" for t in ("f16", "bf16")),
    *(f"f32_16x16x16_{t}" for t in ("f16", "bf16")),
    *(f"f32_32x32x8_{t}" for t in ("f16", "bf16")),
    *("i32_4x4x4_16b_i8", "i32_16x16x4_4b_i8", "i32_32x32x4_2b_i8"),
    *("i32_16x16x32_i8", "i32_32x32x16_i8"),
    *(f"f32_16x16x32_{t}" for t in _FP8),
    *(f"f32_32x32x16_{t}" for t in _FP8),
]
_ONLY = {
    "gfx942": ["f32_16x16x8_xf32", "f32_32x32x4_xf32"],
    "gfx950": [
        *(f"f32_16x16x32_{t}" for t in ("f16", "bf16")),
        *(f"f32_32x32x16_{t}" for t in ("f16", "bf16")),
        *("i32_16x16x64_i8", "i32_32x32x32_i8"),
    ],
}
_SPARSE = [
    *(f"f32_16x16x32_{t}" for t in ("f16", "bf16")),
    *(f"f32_32x32x16_{t}" for t in ("f16", "bf16")),
    *("i32_16x16x64_i8", "i32_32x32x32_i8"),
    *(f"f32_16x16x64_{t}" for t in _FP8),
    *(f"f32_32x32x32_{t}" for t in _FP8),
]
_SPARSE_950 = [
    *(f"f32_16x16x64_{t}" for t in ("f16", "bf16")),
    *(f"f32_32x32x32_{t}" for t in ("f16", "bf16")),
    *("i32_16x16x128_i8", "i32_32x32x64_i8"),
    *(f"f32_16x16x128_{t}" for t in _FP8),
    *(f"f32_32x32x64_{t}" for t in _FP8),
]
#: ``cbsz`` and ``blgp`` of an f8f6f4: fp8, bf8, fp6, bf6, fp4.
_FORMATS = [
    f"v_mfma_{scale}f32_{shape}_f8f6f4 cbsz:{a} blgp:{b}"
    for scale, shape in product(("", "scale_"), ("16x16x128", "32x32x64"))
    for a, b in product(range(5), repeat=2)
]
#: Target → what its matrix instructions are: the mnemonic, for f8f6f4 with its modifiers.
MATRIX = {
    "gfx942": [
        *(f"v_mfma_{name}" for name in _BOTH + _ONLY["gfx942"]),
        *(f"v_smfmac_{name}" for name in _SPARSE),
    ],
    "gfx950": [
        *(f"v_mfma_{name}" for name in _BOTH + _ONLY["gfx950"]),
        *(f"v_smfmac_{name}" for name in _SPARSE + _SPARSE_950),
        *_FORMATS,
    ],
}
_BITS = {"f64": 64, "f32": 32, "xf32": 32, "f16": 16, "bf16": 16, "i8": 8, "fp8": 8, "bf8": 8}


def registers(first: int, count: int, file: str = "v") -> str:
    """``v4``, ``v[4:7]`` …"""
    return f"{file}{first}" if count == 1 else f"{file}[{first}:{first + count - 1}]"


def matrix_size(kind: str) -> tuple[int, int, int]:
    """How many registers D and C, A, and B of a matrix instruction have: its tile over 64 lanes."""
    name, _, modifiers = kind.partition(" ")
    shape = re.search(r"_(\d+)x(\d+)x(\d+)(?:_(\d+)b)?_", name)
    assert shape is not None
    rows, columns, depth, blocks = (int(part or 1) for part in shape.groups())
    wide = 2 if "_f64_" in name else 1
    d = rows * columns * blocks * wide // 64
    if modifiers:
        a, b = ({"0": 8, "1": 8, "2": 6, "3": 6, "4": 4}[part[-1]] for part in modifiers.split())
        return d, a, b
    bits = _BITS[name.rsplit("_", 1)[1]]
    a, b = rows * depth * blocks * bits // 2048, columns * depth * blocks * bits // 2048
    return (d, a // 2, b) if "smfmac" in name else (d, a, b)


def matrix_text(
    kind: str,
    d: int = 0,
    a: int = 64,
    b: int = 80,
    c: int | None = None,
    *,
    file: str = "v",
    index: int = 96,
) -> str:
    """A matrix instruction on registers from the numbers given on; C is D where it is None."""
    name, _, modifiers = kind.partition(" ")
    sizes = matrix_size(kind)
    parts = [
        registers(d, sizes[0], file),
        registers(a, sizes[1]),
        registers(b, sizes[2]),
        registers(index, 1)
        if "smfmac" in name
        else registers(d if c is None else c, sizes[0], file),
    ]
    text = f"{name} {', '.join(parts)}"
    if "_scale_" in name:
        text += f", {registers(index, 1)}, {registers(index + 1, 1)} op_sel_hi:[0,0,0]"
    shown = [part for part in modifiers.split() if part[-1] != "0"]
    return " ".join([text, *shown])


#: One or two of each pipe and pass count.
_CHOSEN = {
    "gfx942": [
        *("v_mfma_f32_4x4x4_16b_f16", "v_mfma_f32_16x16x16_f16", "v_smfmac_f32_16x16x32_bf16"),
        *("v_mfma_f32_16x16x8_xf32", "v_mfma_i32_32x32x16_i8", "v_smfmac_f32_32x32x32_fp8_bf8"),
        *("v_mfma_f32_16x16x4_4b_f16", "v_mfma_f32_32x32x4_2b_bf16"),
        *("v_mfma_f32_4x4x1_16b_f32", "v_mfma_f32_16x16x4_f32", "v_mfma_f32_32x32x2_f32"),
        *("v_mfma_f64_4x4x4_4b_f64", "v_mfma_f64_16x16x4_f64"),
    ],
    "gfx950": [
        *("v_mfma_f32_4x4x4_16b_f16", "v_mfma_f32_16x16x32_f16", "v_smfmac_f32_16x16x64_bf16"),
        *("v_mfma_f32_16x16x128_f8f6f4 cbsz:4 blgp:4", "v_mfma_i32_32x32x32_i8"),
        *("v_mfma_scale_f32_16x16x128_f8f6f4 cbsz:0 blgp:4", "v_smfmac_f32_32x32x64_fp8_bf8"),
        *("v_mfma_f32_32x32x4_2b_bf16", "v_mfma_scale_f32_32x32x64_f8f6f4 cbsz:1 blgp:0"),
        *("v_mfma_f32_4x4x1_16b_f32", "v_mfma_f32_16x16x4_f32", "v_mfma_f32_32x32x2_f32"),
        *("v_mfma_f64_4x4x4_4b_f64", "v_mfma_f64_16x16x4_f64"),
    ],
}
#: What reads an accumulator that is not the producer's: one of each pipe.
_READERS = {
    "gfx942": ["v_mfma_f32_16x16x16_bf16", "v_smfmac_f32_16x16x32_f16"],
    "gfx950": ["v_mfma_f32_16x16x32_bf16", "v_smfmac_f32_16x16x64_f16"],
}
#: Further ones, as large as a chosen one.
_SAME_SIZES = [
    "v_mfma_i32_32x32x4_2b_i8",
    "v_mfma_f32_16x16x1_4b_f32",
    "v_mfma_f32_32x32x1_2b_f32",
    "v_mfma_i32_4x4x4_16b_i8",
]
_NARROW = "v_mfma_f32_16x16x4_f32"
_DOUBLE = "v_mfma_f64_16x16x4_f64"


def _pipe(kind: str) -> str:
    name = kind.split()[0]
    return (
        "dgemm" if name.endswith("_f64") else "sgemm" if re.search(r"\d[b]?_f32$", name) else "xdl"
    )


def _matrix_cases(target: str) -> Iterator[Case]:
    def case(rule: str, producer: str, consumer: str, like: str = "") -> Case:
        return Case(target, rule, producer, consumer, like)

    plain = _READERS[target][0]
    sparse = _READERS[target][1]
    for kind in _CHOSEN[target]:
        name = kind.split()[0]
        size = matrix_size(kind)[0]
        # D is v0 and up, C elsewhere but for what has none of its own.
        producer = matrix_text(kind, 0, c=32)
        last = size - matrix_size(plain)[1]
        yield case("mfma-source", producer, matrix_text(plain, 128, a=0, c=160))
        yield case("mfma-source", producer, matrix_text(plain, 128, b=max(last, 0), c=160))
        yield case("mfma-source", producer, matrix_text(sparse, 128, index=size - 1))
        yield case("mfma-source", producer, matrix_text(_NARROW, 128, a=1, c=160))
        yield case("mfma-source", producer, matrix_text(_DOUBLE, 128, b=0, c=160))
        if target == "gfx950":
            scale = "v_mfma_scale_f32_16x16x128_f8f6f4 cbsz:4 blgp:4"
            yield case("mfma-source", producer, matrix_text(scale, 128, c=160, index=0))
        # C overlaps D.
        readers = [plain] if size > 2 else []
        for reader in readers:
            yield case("mfma-accumulator", producer, matrix_text(reader, 128, c=size - 2))
        if _pipe(kind) == "xdl":
            yield case("mfma-accumulator", producer, matrix_text(sparse, size - 2))
        yield case("mfma-accumulator", producer, matrix_text(_NARROW, 128, c=size - 2))
        yield case("mfma-accumulator", producer, matrix_text(_DOUBLE, 128, c=size - 2))
        yield case(
            "mfma-accumulator",
            producer,
            matrix_text(_DOUBLE if size != 8 else _NARROW, 128, c=0 if size not in (4,) else 2),
        )
        # C is D: the same instruction, or another one.
        if "smfmac" in name:
            yield case("mfma-same-accumulator", producer, matrix_text(kind, 0))
        else:
            yield case("mfma-same-accumulator", producer, matrix_text(kind, 128, c=0))
            yield case("mfma-same-accumulator", producer, matrix_text(kind, 0))
        for other in (*_CHOSEN[target], *_READERS[target], *_SAME_SIZES):
            if matrix_size(other)[0] == size and other.split()[0] != name:
                at = 0 if "smfmac" in other else 128
                overlaps = matrix_text(other, at + 2, c=2)
                yield case("mfma-opcode", producer, matrix_text(other, at, c=0), overlaps)
        # VALU, memory and LDS.
        for consumer in (
            "v_mov_b32_e32 v200, v0",
            f"v_fma_f32 v200, v201, v202, v{size - 1}",
            "v_dot4_i32_i8 v200, v0, v201, v202",
            "v_accvgpr_write_b32 a200, v1",
            "v_readfirstlane_b32 s90, v1",
            "v_cmp_eq_u32_e32 vcc, v0, v200",
            "v_mov_b32_dpp v200, v0 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf",
            "global_store_dword v[200:201], v0, off",
            "global_load_dword v200, v[0:1], off",
            "buffer_store_dword v200, v1, s[8:11], 0 offen",
            "buffer_load_dword v0, s[8:11], 0 offen lds",
            "flat_atomic_add v[200:201], v0",
            "scratch_store_dword v0, v200, off",
            "ds_write_b32 v200, v1",
            "ds_read_b32 v200, v0",
            "ds_bpermute_b32 v200, v201, v0",
        ):
            memory = not consumer.startswith("v_")
            yield case("mfma-memory-read" if memory else "mfma-read", producer, consumer)
        for consumer in (
            "v_mov_b32_e32 v0, v200",
            f"v_cvt_f32_i32_e32 v{size - 1}, v200",
            "v_accvgpr_read_b32 v1, a200",
            "global_load_dword v0, v[200:201], off",
            "buffer_load_dwordx2 v[0:1], v200, s[8:11], 0 offen",
            "scratch_load_dword v1, v200, off",
            "ds_read_b64 v[0:1], v200",
            "ds_add_rtn_u32 v1, v200, v201",
        ):
            yield case("mfma-overwrite", producer, consumer)
        if "smfmac" not in name and _pipe(kind) == "xdl":
            for consumer in (
                "v_mov_b32_e32 v32, v200",
                f"v_mov_b32_e32 v{32 + size - 1}, v200",
                "global_load_dword v32, v[200:201], off",
                "ds_read_b32 v33, v200",
            ):
                yield case("mfma-overwrite-c", producer, consumer)
        in_agprs = matrix_text(kind, 0, c=32, file="a")
        yield case("mfma-read", in_agprs, "v_accvgpr_read_b32 v200, a0")
        yield case("mfma-memory-read", in_agprs, "global_store_dword v[200:201], a1, off")
        yield case("mfma-overwrite", in_agprs, "v_accvgpr_write_b32 a1, v200")
        yield case("mfma-overwrite", in_agprs, "ds_read_b32 a1, v200")
    for double in (_DOUBLE, "v_mfma_f64_4x4x4_4b_f64"):
        producer = matrix_text(double, 0, c=32)
        yield case(
            "dgemm-fma", producer, "v_fma_f64 v[200:201], v[202:203], v[204:205], v[206:207]"
        )
        yield case("dgemm-fma", producer, "v_fmac_f64_e32 v[200:201], v[202:203], v[204:205]")
    for writer in ("v_mov_b32_e32 v0, v200", "v_add_f32_e32 v0, v200, v201"):
        yield case("mfma-valu-write", writer, matrix_text(plain, 128, a=0, c=160))
        yield case("mfma-valu-write", writer, matrix_text(plain, 128, b=0, c=160))
        yield case("mfma-valu-write", writer, matrix_text(plain, 128, c=0))
        yield case("mfma-valu-write", writer, matrix_text(plain, 0))
        yield case("mfma-valu-write", writer, matrix_text(sparse, 128, index=0))
        yield case("mfma-valu-write", writer, matrix_text(sparse, 0))
        yield case("mfma-valu-write", writer, matrix_text(_NARROW, 128, a=0, c=160))
        yield case("mfma-valu-write", writer, matrix_text(_DOUBLE, 128, c=0))
    if target == "gfx950":
        scale = "v_mfma_scale_f32_16x16x128_f8f6f4 cbsz:4 blgp:4"
        text = matrix_text(scale, 128, c=160, index=1)
        yield case("mfma-valu-write", "v_mov_b32_e32 v2, v200", text)
        eight = matrix_text("v_mfma_f32_16x16x128_f8f6f4 cbsz:0 blgp:0", 128, a=0, c=160)
        yield case("mfma-valu-write", "v_permlane16_swap_b32_e32 v200, v1", eight)
        for at in (6, 7):
            yield case("mfma-valu-write", f"v_mov_b32_e32 v{at}, v200", eight)
            part = f"v_cvt_pk_fp8_f32 v{at}, v200, v201 op_sel:[0,0,1]"
            yield case("mfma-valu-write", part, eight)  # "sub-dword" too, which needs fewer
    yield case("mfma-valu-write", "v_accvgpr_write_b32 a0, v200", matrix_text(plain, 0, file="a"))
    for compare in _WRITES_EXEC:
        for kind in (plain, sparse, _NARROW, _DOUBLE):
            yield case("mfma-exec-write", compare, matrix_text(kind, 128, c=160))
    for dot in ("v_dot4_i32_i8 v0, v200, v201, v202", "v_dot2c_f32_f16_e32 v0, v200, v201"):
        yield case("mfma-dot-write", dot, matrix_text(plain, 128, a=0, c=160))
        yield case("mfma-dot-write", dot, matrix_text(plain, 128, c=0))


# --- the rest -----------------------------------------------------------------------------------

_WRITES_EXEC = ["v_cmpx_eq_u32_e32 vcc, v200, v201", "v_cmpx_eq_u32_e64 s[80:81], v200, v201"]
_WRITES_SGPR = [
    "v_cmp_eq_u32_e64 s[4:5], v200, v201",
    "v_cmp_lt_f32_e64 s[4:5], v200, s90",
    "v_readlane_b32 s4, v200, 3",
    "v_readfirstlane_b32 s4, v200",
    "v_add_co_u32_e64 v202, s[4:5], v200, v201",
    "v_div_scale_f32 v202, s[4:5], v200, v200, v201",
    "v_mad_u64_u32 v[202:203], s[4:5], v200, v201, v[204:205]",
    "v_cmpx_eq_u32_e64 s[4:5], v200, v201",
]
_WRITES_VCC = [
    "v_cmp_eq_u32_e32 vcc, v200, v201",
    "v_add_co_u32_e32 v202, vcc, v200, v201",
    "v_div_scale_f32 v202, vcc, v200, v200, v201",
    "v_readfirstlane_b32 vcc_lo, v200",
]
_WRITES_VGPR = [
    "v_mov_b32_e32 v0, v200",
    "v_fma_f32 v0, v200, v201, v202",
    "v_cvt_f32_i32_e32 v0, v200",
    "v_writelane_b32 v0, s90, 3",
    "v_accvgpr_read_b32 v0, a200",
    "v_add_co_u32_e32 v0, vcc, v200, v201",
    "v_swap_b32 v200, v0",
]
_MEMORY_READING_S4 = [
    "buffer_load_dword v210, v211, s[4:7], 0 offen",
    "buffer_store_dword v210, v211, s[8:11], s4 offen",
    "buffer_load_dword v211, s[8:11], s4 offen lds",
    "global_load_dword v210, v211, s[4:5]",
    "global_store_dword v210, v211, s[4:5]",
    "global_load_lds_dword v210, s[4:5]",
    "scratch_load_dword v210, off, s4",
    "scratch_store_dword off, v210, s4",
]
_MEMORY = [
    "buffer_load_dword v210, v211, s[8:11], 0 offen",
    "global_store_dword v[210:211], v212, off",
    "flat_load_dword v210, v[212:213]",
    "scratch_store_dword v210, v211, off",
    "global_atomic_add_f32 v[210:211], v212, off",
]
_DPP_READING_V0 = [
    "v_mov_b32_dpp v210, v0 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf",
    "v_add_f32_dpp v210, v0, v211 row_shl:1 row_mask:0xf bank_mask:0xf",
    "v_add_f32_dpp v210, v211, v0 row_shl:1 row_mask:0xf bank_mask:0xf",
    "v_mov_b32_dpp v0, v211 row_shr:1 row_mask:0xf bank_mask:0xf",
    "v_mov_b32_dpp v0, v211 row_shr:1 row_mask:0xf bank_mask:0xf bound_ctrl:1",
]
_TRANS = [
    *(f"v_{name}_f32_e32 v0, v200" for name in ("exp", "log", "rcp", "rcp_iflag", "rsq", "sqrt")),
    *("v_sin_f32_e32 v0, v200", "v_cos_f32_e32 v0, v200"),
    *("v_rcp_f16_e32 v0, v200", "v_sin_f16_e32 v0, v200", "v_exp_f16_e32 v0, v200"),
    *("v_rcp_f64_e32 v[0:1], v[200:201]", "v_rsq_f64_e32 v[0:1], v[200:201]"),
    "v_sqrt_f64_e32 v[0:1], v[200:201]",
    "v_exp_f32_e64 v0, |v200|",
]
_SUB_DWORD = [
    "v_add_f32_sdwa v0, v200, v201 dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:DWORD"
    " src1_sel:DWORD",
    "v_mov_b32_sdwa v0, v200 dst_sel:BYTE_1 dst_unused:UNUSED_PAD src0_sel:DWORD",
    "v_cvt_f16_f32_sdwa v0, v200 dst_sel:WORD_0 dst_unused:UNUSED_SEXT src0_sel:DWORD",
    "v_fma_f16 v0, v200, v201, v202 op_sel:[0,0,0,1]",
    "v_mad_u16 v0, v200, v201, v202 op_sel:[0,0,0,1]",
    "v_add_i16 v0, v200, v201 op_sel:[0,0,1]",
    "v_cvt_pk_fp8_f32 v0, v200, v201 op_sel:[0,0,1]",
    "v_cvt_sr_fp8_f32 v0, v200, v201 op_sel:[0,0,1,0]",
    "v_cvt_sr_bf8_f32 v0, v200, v201 op_sel:[0,0,0,1]",
]
_SUB_DWORD_950 = [
    "v_cvt_scalef32_pk_fp8_f32 v0, v200, v201, v202 op_sel:[0,0,0,1]",
    "v_cvt_scalef32_pk_fp8_f16 v0, v200, v201 op_sel:[0,0,1]",
    "v_cvt_scalef32_f16_fp8 v0, v200, v201 op_sel:[0,0,1]",
    "v_cvt_scalef32_sr_fp8_f32 v0, v200, v201, v202 op_sel:[0,0,1,0]",
    "v_cvt_scalef32_sr_bf8_f16 v0, v200, v201, v202 op_sel:[0,0,0,1]",
    "v_cvt_scalef32_pk_fp4_f32 v0, v200, v201, v202 op_sel:[0,0,1,0]",
    "v_cvt_scalef32_pk_fp4_f16 v0, v200, v201 op_sel:[0,0,0,1]",
    "v_cvt_scalef32_sr_pk_fp4_f32 v0, v[200:201], v202, v203",
    "v_cvt_scalef32_sr_pk_fp4_f16 v0, v200, v201, v202",
]
_WIDE_STORES = [
    "buffer_store_dwordx3 v[0:2], v200, s[8:11], 0 offen",
    "buffer_store_dwordx4 v[0:3], v200, s[8:11], 0 offen",
    "global_store_dwordx3 v[200:201], v[0:2], off",
    "global_store_dwordx4 v200, v[0:3], s[8:9]",
    "flat_store_dwordx4 v[200:201], v[0:3]",
    "scratch_store_dwordx4 v200, v[0:3], off",
    "scratch_store_dwordx4 off, v[0:3], s8",
    "buffer_atomic_cmpswap_x2 v[0:3], v200, s[8:11], 0 offen",
    "global_atomic_cmpswap_x2 v[200:201], v[0:3], off",
    "flat_atomic_cmpswap_x2 v[202:203], v[200:201], v[0:3] sc0",
    "tbuffer_store_format_xyzw v[0:3], v200, s[8:11], 0"
    " format:[BUF_DATA_FORMAT_32_32_32_32,BUF_NUM_FORMAT_FLOAT] offen",
]
_READS_M0 = [
    "buffer_load_dword v200, s[8:11], 0 offen lds",
    "global_load_lds_dword v[200:201], off",
    "ds_read_addtid_b32 v200",
    "ds_write_addtid_b32 v200",
    "s_sendmsg sendmsg(MSG_INTERRUPT)",
    "s_movrels_b32 s90, s91",
    "s_movreld_b32 s90, s91",
    "s_ttracedata",
]


def _other_cases(target: str) -> Iterator[Case]:
    def pairs(
        rule: str, producers: list[str], consumers: list[str], every: bool = False
    ) -> Iterator[Case]:
        """All producers with the first consumer, the first producer with all consumers."""
        for at, (producer, consumer) in enumerate(product(producers, consumers)):
            if every or at < len(consumers) or not at % len(consumers):
                yield Case(target, rule, producer, consumer)

    new = target == "gfx950"
    matrix = [matrix_text(_READERS[target][0], 128, a=0, c=160)]
    accumulator = [matrix_text(_READERS[target][0], 0, c=160)]
    yield from pairs("valu-sgpr-vmem", _WRITES_SGPR[:-1], _MEMORY_READING_S4, every=True)
    yield from pairs("valu-sgpr-vmem", _WRITES_VCC, ["global_load_dword v210, v211, vcc"])
    yield from pairs("valu-exec-vmem", _WRITES_EXEC, _MEMORY)
    constants = ["v_mov_b32_e32 v210, s4", "v_fma_f32 v210, v211, s4, v212"]
    constants += [
        "v_cmp_eq_u32_e32 vcc, s4, v210",
        "v_lshl_add_u64 v[210:211], s[4:5], 3, v[212:213]",
    ]
    constants += ["v_writelane_b32 v210, s4, 3", "v_pk_mul_f32 v[210:211], v[212:213], s[4:5]"]
    yield from pairs("valu-sgpr-constant", _WRITES_SGPR, constants)
    yield from pairs("valu-sgpr-constant", _WRITES_VCC, ["v_mov_b32_e32 v210, vcc_lo"])
    masks = ["v_cndmask_b32_e64 v210, v211, v212, s[4:5]"]
    masks += ["v_addc_co_u32_e64 v210, s[92:93], v211, v212, s[4:5]"]
    yield from pairs("valu-sgpr-mask", _WRITES_SGPR, masks)
    masks = ["v_cndmask_b32_e32 v210, v211, v212, vcc"]
    masks += ["v_addc_co_u32_e32 v210, vcc, v211, v212, vcc"]
    yield from pairs("valu-sgpr-mask", _WRITES_VCC, masks)
    lanes = ["v_readlane_b32 s90, v210, s4", "v_writelane_b32 v210, 1, s4"]
    yield from pairs("valu-sgpr-lane", _WRITES_SGPR[:-1], lanes)
    yield from pairs("valu-sgpr-lane", _WRITES_VCC, ["v_readlane_b32 s90, v210, vcc_lo"])
    fmas = ["v_div_fmas_f32 v210, v211, v212, v213"]
    fmas += ["v_div_fmas_f64 v[210:211], v[212:213], v[214:215], v[216:217]"]
    yield from pairs("valu-vcc-div-fmas", _WRITES_VCC, fmas)
    lanes = ["v_readlane_b32 s90, v210, 3", "v_readfirstlane_b32 s90, v210"]
    yield from pairs("valu-exec-lane", _WRITES_EXEC, [*lanes, "v_writelane_b32 v210, s90, 3"])
    reads_exec = ["v_mov_b32_e32 v210, exec_lo", "v_and_b32_e32 v210, exec_hi, v211"]
    yield from pairs("valu-exec-constant", _WRITES_EXEC, reads_exec)
    yield from pairs("valu-exec-dpp", _WRITES_EXEC, _DPP_READING_V0)
    yield from pairs("valu-zero-flag", _WRITES_VCC[:1], ["v_mov_b32_e32 v210, src_vccz"])
    yield from pairs("valu-zero-flag", _WRITES_EXEC[1:], ["v_mov_b32_e32 v210, src_execz"])
    lanes = ["v_readlane_b32 s90, v0, 3", "v_readfirstlane_b32 s90, v0"]
    yield from pairs("valu-readlane", _WRITES_VGPR, lanes)
    yield from pairs("valu-dpp", [*_WRITES_VGPR, "v_mov_b32_e32 v0, -1"], _DPP_READING_V0)
    loads = [
        "global_load_dword v0, v[200:201], off",
        "buffer_load_dword v0, v200, s[8:11], 0 offen",
    ]
    loads += ["ds_read_b32 v0, v200", "flat_load_dword v0, v[200:201]"]
    loads += ["scratch_load_dword v0, v200, off", "ds_bpermute_b32 v0, v200, v201"]
    yield from pairs("load-dpp", loads, _DPP_READING_V0)
    if new:
        swaps = [
            f"v_permlane{n}_swap_b32_e32 {ab}" for n in (16, 32) for ab in ("v0, v210", "v210, v0")
        ]
        writes = [*_WRITES_VGPR, "v_permlane32_swap_b32_e32 v200, v0"]
        yield from pairs("permlane-swap", writes, swaps)
        yield from pairs("permlane-swap-exec", _WRITES_EXEC, swaps)
    readers = [
        "v_mov_b32_e32 v210, v0",
        "v_add_f32_e32 v210, v211, v0",
        "v_cmp_eq_u32_e32 vcc, v0, v210",
    ]
    readers += ["v_fma_f32 v210, v211, v212, v0", "v_pk_add_f16 v210, v0, v211"]
    readers += ["v_accvgpr_write_b32 a210, v0", "v_fmac_f32_e32 v0, v210, v211"]
    readers += ["v_dot4_i32_i8 v210, v0, v211, v212", "v_cvt_f32_i32_e32 v210, v0"]
    yield from pairs("trans", _TRANS, readers)
    written = ["v_mov_b32_e32 v0, v210", "v_cvt_f32_i32_e32 v0, v210", "v_rcp_f32_e32 v210, v0"]
    short = _SUB_DWORD + (_SUB_DWORD_950 if new else [])
    yield from pairs("sub-dword", short, [*readers, *written, *accumulator])
    writers = ["v_mov_b32_e32 v0, v210", "v_accvgpr_read_b32 v2, a210", "v_rcp_f32_e32 v1, v210"]
    writers += ["v_mul_f64 v[2:3], v[210:211], v[212:213]", "v_swap_b32 v210, v1", *accumulator]
    yield from pairs("wide-store", _WIDE_STORES, writers)
    in_agprs = ["buffer_store_dwordx4 a[0:3], v200, s[8:11], 0 offen"]
    in_agprs += ["global_store_dwordx4 v[200:201], a[0:3], off"]
    yield from pairs("wide-store", in_agprs, ["v_accvgpr_write_b32 a1, v210"])
    offset = ["buffer_store_dwordx4 v[0:3], v200, s[8:11], s12 offen"]
    offset += ["buffer_store_dwordx3 v[0:2], off, s[8:11], s12"]
    yield from pairs("wide-store", offset, writers)
    loads = ["global_load_dword v0, v[210:211], off", "ds_read_b32 v1, v210"]
    yield from pairs("wide-store-load", _WIDE_STORES, loads)
    yield from pairs("wide-store-load", offset, loads)
    writes_m0 = ["s_mov_b32 m0, s90", "s_mov_b32 m0, 7", "s_add_u32 m0, s90, s91"]
    yield from pairs("m0-write", writes_m0, _READS_M0)
    mode = [
        "s_setreg_b32 hwreg(HW_REG_MODE), s90",
        "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 5",
    ]
    yield from pairs("setreg", mode, ["s_getreg_b32 s91, hwreg(HW_REG_MODE)", *mode], every=True)
    traps = ["s_setreg_imm32_b32 hwreg(HW_REG_TRAPSTS, 0, 4), 5"]
    yield from pairs("setreg", traps, ["s_getreg_b32 s91, hwreg(HW_REG_TRAPSTS)"])
    yield from pairs("setreg-rfe", traps, ["s_rfe_b64 s[92:93]"])
    yield from pairs("vskip", ["s_setvskip s90, s91"], ["s_getreg_b32 s92, hwreg(HW_REG_MODE)"])
    skips = ["s_setreg_imm32_b32 hwreg(HW_REG_MODE, 28, 1), 1"]
    yield from pairs(
        "vskip", skips, ["v_mov_b32_e32 v210, v211", *matrix, "ds_read_b32 v210, v211"]
    )
    yield from pairs("vskip", skips, ["global_load_dword v210, v[212:213], off"])
    dots = ["v_dot4_i32_i8 v0, v200, v201, v202", "v_dot2_f32_f16 v0, v200, v201, v202"]
    dots += ["v_dot8_i32_i4 v0, v200, v201, v202", "v_dot2c_f32_f16_e32 v0, v200, v201"]
    users = [
        "v_mov_b32_e32 v210, v0",
        "v_dot4_u32_u8 v210, v211, v212, v0",
        "ds_write_b32 v210, v0",
    ]
    users += ["global_store_dword v[210:211], v0, off", "global_load_dword v210, v[0:1], off"]
    yield from pairs("dot-read", dots, users)
    yield Case(target, "dot-read", dots[0], "v_dot4_i32_i8 v210, v0, v211, v212")
    yield Case(target, "dot-read", dots[0], "v_dot4_i32_i8 v210, v211, v0, v212")
    yield Case(target, "dot-read", dots[3], "v_dot2c_f32_f16_e32 v210, v211, v0")
    overwriters = ["v_mov_b32_e32 v0, v210", "global_load_dword v0, v[210:211], off"]
    yield from pairs("dot-overwrite", dots, [*overwriters, "ds_read_b32 v0, v210"])


#: Pairs that need nothing, by hazards' sources and by LLVM: {m} is an MFMA with D in v[0:3].
_NOTHING = [
    ("v_mov_b32_e32 v0, v200", "{d}"),
    ("{d}", "{d}"),
    ("s_mov_b64 exec, s[90:91]", "{m}"),
    ("s_mov_b64 exec, s[90:91]", "v_readfirstlane_b32 s92, v210"),
    ("s_mov_b64 exec, s[90:91]", "v_mov_b32_e32 v210, exec_lo"),
    ("s_mov_b32 s4, s90", "global_load_dword v210, v211, s[4:5]"),
    ("s_mov_b32 s4, s90", "v_readlane_b32 s90, v210, s4"),
    ("s_mov_b64 vcc, s[90:91]", "v_div_fmas_f32 v210, v211, v212, v213"),
    ("v_cmpx_eq_u32_e64 s[80:81], v200, v201", "ds_read_b32 v210, v211"),
    ("v_cmpx_eq_u32_e64 s[80:81], v200, v201", "v_mov_b32_e32 v210, v211"),
    ("v_readlane_b32 s4, v200, 3", "s_add_u32 s90, s4, s91"),
    ("v_readlane_b32 s4, v200, 3", "s_load_dword s90, s[4:5], 0x0"),
    ("v_cmp_eq_u32_e32 vcc, v200, v201", "s_and_saveexec_b64 s[90:91], vcc"),
    ("v_readlane_b32 s4, v200, 3", "v_readlane_b32 s4, v210, 3"),
    ("v_mov_b32_e32 v0, v200", "v_writelane_b32 v0, s90, 3"),
    ("v_mov_b32_e32 v0, v200", "global_load_dword v210, v[0:1], off"),
    ("v_mov_b32_e32 v0, v200", "ds_write_b32 v0, v1"),
    (
        "v_mov_b32_e32 v0, v200",
        "v_mov_b32_sdwa v1, v0 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_1",
    ),
    ("v_exp_f32_e32 v0, v200", "v_rcp_f32_e32 v210, v0"),
    ("v_exp_f32_e32 v0, v200", "ds_write_b32 v210, v0"),
    ("v_exp_f32_e32 v0, v200", "global_store_dword v[210:211], v0, off"),
    ("v_exp_f32_e32 v0, v200", "v_mov_b32_e32 v0, v210"),
    ("v_cvt_f32_i32_e32 v0, v200", "v_mov_b32_e32 v210, v0"),
    (
        "v_mov_b32_sdwa v0, v200 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_1",
        "v_mov_b32_e32 v210, v0",
    ),
    ("v_cvt_f32_fp8_sdwa v0, v200 src0_sel:BYTE_1", "v_mov_b32_e32 v210, v0"),
    ("v_cvt_pk_fp8_f32 v0, v200, v201", "v_mov_b32_e32 v210, v0"),
    ("v_cvt_sr_fp8_f32 v0, v200, v201", "v_mov_b32_e32 v210, v0"),
    ("v_fma_f16 v0, v200, v201, v202 op_sel:[1,1,1,0]", "v_mov_b32_e32 v210, v0"),
    (
        "v_mov_b32_sdwa v0, v200 dst_sel:BYTE_1 dst_unused:UNUSED_PAD src0_sel:DWORD",
        "ds_write_b32 v210, v0",
    ),
    (
        "v_mov_b32_sdwa v0, v200 dst_sel:BYTE_1 dst_unused:UNUSED_PAD src0_sel:DWORD",
        "global_store_dword v[210:211], v0, off",
    ),
    ("global_store_dwordx2 v[200:201], v[0:1], off", "v_mov_b32_e32 v0, v210"),
    ("global_store_dwordx4 v[0:1], v[200:203], off", "v_mov_b32_e32 v0, v210"),
    ("buffer_store_dwordx4 v[200:203], v0, s[8:11], 0 offen", "v_mov_b32_e32 v0, v210"),
    ("ds_write_b128 v200, v[0:3]", "v_mov_b32_e32 v0, v210"),
    ("buffer_load_dwordx4 v[0:3], v200, s[8:11], 0 offen", "v_mov_b32_e32 v200, v210"),
    ("s_mov_b32 m0, s90", "ds_read_b32 v210, v211"),
    ("s_mov_b32 m0, s90", "s_mov_b32 s91, m0"),
    ("s_mov_b32 m0, s90", "v_mov_b32_e32 v210, m0"),
    ("s_mov_b32 m0, s90", "v_readlane_b32 s91, v210, m0"),
    ("s_getreg_b32 s90, hwreg(HW_REG_MODE)", "s_setreg_b32 hwreg(HW_REG_MODE), s91"),
    ("s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 5", "v_add_f32_e32 v210, v211, v212"),
    ("s_setreg_imm32_b32 hwreg(HW_REG_TRAPSTS, 0, 4), 5", "s_getreg_b32 s90, hwreg(HW_REG_MODE)"),
    ("s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 5", "s_rfe_b64 s[90:91]"),
    (
        "v_mfma_f64_16x16x4_f64 v[0:7], v[8:9], v[10:11], v[32:39]",
        "v_mul_f64 v[200:201], v[202:203], v[204:205]",
    ),
    ("{m}", "v_fma_f64 v[200:201], v[202:203], v[204:205], v[206:207]"),
    ("{m}", "v_mov_b32_e32 v64, v210"),
    ("{m}", "v_mov_b32_e32 v80, v210"),
    ("v_mfma_f32_16x16x4_f32 v[0:3], v64, v80, v[32:35]", "v_mov_b32_e32 v32, v210"),
    ("v_dot4_i32_i8 v0, v200, v201, v202", "v_dot4_i32_i8 v0, v210, v211, v0"),
    ("v_dot4_i32_i8 v0, v200, v201, v202", "v_dot4_i32_i8 v0, v210, v211, v212"),
    ("global_load_dword v0, v[200:201], off", "v_mov_b32_e32 v210, v0"),
    ("global_load_dword v0, v[200:201], off", "v_readfirstlane_b32 s90, v0"),
]
#: VOP3P, whose op_sel_hi LLVM 22 reads as a half of the destination.
_PACKED = [
    "v_pk_add_f16 v0, v200, v201",
    "v_pk_fma_f16 v0, v200, v201, v202",
    "v_pk_add_f32 v[0:1], v[200:201], v[202:203]",
    "v_fma_mix_f32 v0, v200, v201, v202 op_sel_hi:[1,0,0]",
]
_TO_LDS = [
    "buffer_load_dword v0, s[8:11], 0 offen lds",
    "global_load_lds_dword v[0:1], off",
]
_KEEPS_HALF = [
    "v_cvt_f16_f32_sdwa v0, v210 dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:DWORD",
    "v_fma_f16 v0, v210, v211, v212 op_sel:[0,0,0,1]",
    "v_add_i16 v0, v210, v211 op_sel:[0,0,1]",
]
_MIXED = ["v_fma_mixlo_f16 v0, v200, v201, v202", "v_fma_mixhi_f16 v0, v200, v201, v202"]


def cases(target: str) -> list[Case]:
    """Every pair of *target*."""
    reader = _READERS[target][0]
    shown = {"m": matrix_text(reader, 0, c=32), "d": matrix_text(reader, 0, c=160)}
    reads = "v_mov_b32_e32 v210, v0"
    return [
        *_matrix_cases(target),
        *_other_cases(target),
        *(Case(target, "sub-dword", packed, reads) for packed in (*_PACKED, *_MIXED)),
        *(Case(target, "trans", _TRANS[0], text) for text in (*_TO_LDS, *_KEEPS_HALF)),
        *(Case(target, "sub-dword", _SUB_DWORD[0], text) for text in _TO_LDS),
        *(Case(target, "", *(text.format(**shown) for text in pair)) for pair in _NOTHING),
    ]


# --- programs at random -------------------------------------------------------------------------

#: Templates on few registers: {v} is one of v0 to v7, {w} two of them, {q} four, {o} sixteen that
#: start below v32, {x} sixteen that lie apart; {a} and {z} are one and four AGPRs. {s} is a scalar
#: that a VALU may write, {t} a pair of them, {r} one that SALU writes; {m} is M0's value.
_VALU = [
    "v_mov_b32_e32 {v}, {v}",
    "v_mov_b32_e32 {v}, {s}",
    "v_mov_b32_e32 {v}, exec_lo",
    "v_mov_b32_e32 {v}, m0",
    "v_mov_b64_e32 {w}, {w}",
    "v_add_f32_e32 {v}, {v}, {v}",
    "v_add_f32_e64 {v}, {v}, {s}",
    "v_fma_f32 {v}, {v}, {v}, {v}",
    "v_fmac_f32_e32 {v}, {v}, {v}",
    "v_pk_add_f32 {w}, {w}, {w} op_sel_hi:[0,0]",
    "v_pk_add_f16 {v}, {v}, {v} op_sel_hi:[0,0]",
    "v_fma_f64 {w}, {w}, {w}, {w}",
    "v_fmac_f64_e32 {w}, {w}, {w}",
    "v_mul_f64 {w}, {w}, {w}",
    "v_lshlrev_b64 {w}, {v}, {w}",
    "v_lshl_add_u64 {w}, {w}, 3, {w}",
    "v_mad_u64_u32 {w}, {t}, {v}, {v}, {w}",
    "v_accvgpr_read_b32 {v}, {a}",
    "v_accvgpr_write_b32 {a}, {v}",
    "v_accvgpr_mov_b32 {a}, {a}",
    "v_swap_b32 {v}, {v}",
    "v_cvt_f32_i32_e32 {v}, {v}",
    "v_cvt_pkrtz_f16_f32 {v}, {v}, {v}",
    "v_perm_b32 {v}, {v}, {v}, {v}",
    "v_cndmask_b32_e32 {v}, {v}, {v}, vcc",
    "v_cndmask_b32_e64 {v}, {v}, {v}, {t}",
    "v_add_co_u32_e32 {v}, vcc, {v}, {v}",
    "v_addc_co_u32_e32 {v}, vcc, {v}, {v}, vcc",
    "v_addc_co_u32_e64 {v}, {t}, {v}, {v}, {t}",
    "v_nop",
]
_SCALAR_RESULTS = [
    "v_cmp_eq_u32_e32 vcc, {v}, {v}",
    "v_cmp_eq_u32_e64 {t}, {v}, {v}",
    "v_cmp_lt_f32_e64 {t}, {v}, {s}",
    "v_cmpx_eq_u32_e32 vcc, {v}, {v}",
    "v_cmpx_eq_u32_e64 {t}, {v}, {v}",
    "v_readlane_b32 {s}, {v}, {s}",
    "v_readlane_b32 {s}, {v}, 3",
    "v_readfirstlane_b32 {s}, {v}",
    "v_writelane_b32 {v}, {s}, 3",
    "v_writelane_b32 {v}, 1, {s}",
    "v_div_fmas_f32 {v}, {v}, {v}, {v}",
    "v_div_fmas_f64 {w}, {w}, {w}, {w}",
    "v_div_scale_f32 {v}, vcc, s90, s90, {v}",
]
_SPECIAL = [
    *(f"v_{name}_f32_e32 {{v}}, {{v}}" for name in ("exp", "rcp", "sqrt", "sin")),
    "v_rcp_f64_e32 {w}, {w}",
    "v_log_f16_e32 {v}, {v}",
    "v_mov_b32_dpp {v}, {v} quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf",
    "v_add_f32_dpp {v}, {v}, {v} row_shl:1 row_mask:0xf bank_mask:0xf",
    "v_add_u32_dpp {v}, {v}, {v} row_bcast:15 row_mask:0xa bank_mask:0xf",
    "v_add_f32_sdwa {v}, {v}, {v} dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:DWORD"
    " src1_sel:WORD_0",
    "v_mov_b32_sdwa {v}, {v} dst_sel:BYTE_1 dst_unused:UNUSED_PAD src0_sel:DWORD",
    "v_mov_b32_sdwa {v}, {v} dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_1",
    "v_cvt_f32_fp8_sdwa {v}, {v} src0_sel:BYTE_1",
    "v_cvt_pk_fp8_f32 {v}, {v}, {v}",
    "v_cvt_pk_fp8_f32 {v}, {v}, {v} op_sel:[0,0,1]",
    "v_cvt_sr_bf8_f32 {v}, {v}, {v} op_sel:[0,0,1,0]",
    "v_fma_f16 {v}, {v}, {v}, {v} op_sel:[0,0,0,1]",
    "v_mad_u16 {v}, {v}, {v}, {v} op_sel:[0,0,0,1]",
    "v_dot4_i32_i8 {v}, {v}, {v}, {v}",
    "v_dot8_i32_i4 {v}, {v}, {v}, {v}",
    "v_dot2c_f32_f16_e32 {v}, {v}, {v}",
    "v_dot4c_i32_i8_e32 {v}, {v}, {v}",
]
_SPECIAL_950 = [
    "v_permlane16_swap_b32_e32 {v}, {v}",
    "v_permlane32_swap_b32_e32 {v}, {v}",
    "v_prng_b32_e32 {v}, {v}",
    "v_cvt_scalef32_pk_fp4_f32 {v}, {v}, {v}, {v}",
    "v_cvt_scalef32_pk_fp4_f32 {v}, {v}, {v}, {v} op_sel:[0,0,1,0]",
    "v_cvt_scalef32_sr_pk_fp4_f16 {v}, {v}, {v}, {v}",
    "v_cvt_scalef32_pk_fp8_f16 {v}, {v}, {v}",
    "v_cvt_scalef32_pk_fp8_f16 {v}, {v}, {v} op_sel:[0,0,1]",
    "v_cvt_scalef32_sr_fp8_f32 {v}, {v}, {v}, {v} op_sel:[0,0,0,1]",
    "v_cvt_pk_bf16_f32 {v}, {v}, {v}",
    "v_bitop3_b32 {v}, {v}, {v}, {v} bitop3:0x40",
]
_MATRIX = [
    "v_mfma_f32_4x4x4_16b_f16 {q}, {w}, {w}, {q}",
    "v_mfma_f32_16x16x16_f16 {q}, {w}, {w}, {q}",
    "v_mfma_f32_16x16x16_bf16 {q}, {w}, {w}, {q}",
    "v_mfma_f32_16x16x16_f16 {q}, {w}, {w}, 0",
    "v_mfma_f32_16x16x16_f16 {z}, {w}, {w}, {z}",
    "v_mfma_i32_16x16x32_i8 {q}, {w}, {w}, {q}",
    "v_mfma_f32_16x16x32_fp8_bf8 {q}, {w}, {w}, {q}",
    "v_mfma_f32_4x4x1_16b_f32 {q}, {v}, {v}, {q}",
    "v_mfma_f32_16x16x4_f32 {q}, {v}, {v}, {q}",
    "v_mfma_f64_4x4x4_4b_f64 {w}, {w}, {w}, {w}",
    "v_smfmac_f32_16x16x32_f16 {q}, {w}, {q}, {v}",
    "v_mfma_f32_32x32x8_f16 {o}, {w}, {w}, {x}",
    "v_mfma_f32_32x32x2_f32 {o}, {v}, {v}, {x}",
    "v_mfma_f32_16x16x4_4b_f16 {o}, {w}, {w}, 0",
    "v_mfma_f32_32x32x8_f16 {x}, {w}, {w}, {o}",
    "v_smfmac_f32_32x32x16_bf16 {o}, {w}, {q}, {v}",
    "v_mfma_f64_16x16x4_f64 v[0:7], v[8:9], {w}, v[0:7]",
]
_MATRIX_950 = [
    "v_mfma_f32_16x16x32_f16 {q}, {q}, {q}, {q}",
    "v_mfma_f32_32x32x16_bf16 {x}, {q}, {q}, {o}",
    "v_mfma_f32_16x16x128_f8f6f4 {q}, v[0:7], {q}, {q} blgp:4",
    "v_mfma_scale_f32_16x16x128_f8f6f4 {q}, {q}, {q}, {q}, {v}, {v} op_sel_hi:[0,0,0] cbsz:4"
    " blgp:4",
    "v_mfma_scale_f32_32x32x64_f8f6f4 {x}, v[0:7], {q}, {o}, {v}, {v} op_sel_hi:[0,0,0] blgp:4",
    "v_smfmac_f32_16x16x64_f16 {q}, {q}, v[0:7], {v}",
]
_MEMORY_POOL = [
    "buffer_load_dword {v}, {v}, s[4:7], {r} offen",
    "buffer_load_dwordx4 {q}, {v}, s[8:11], {s} offen offset:16",
    "buffer_load_dword {v}, s[8:11], 0 offen lds",
    "buffer_load_short_d16_hi {v}, {v}, s[8:11], 0 offen",
    "buffer_store_dword {v}, {v}, s[8:11], {s} offen",
    "buffer_store_dwordx4 {q}, {v}, s[8:11], 0 offen",
    "buffer_store_dwordx4 {z}, {v}, s[8:11], 0 offen",
    "buffer_atomic_add {v}, {v}, s[8:11], 0 offen sc0",
    "global_load_dword {v}, {w}, off",
    "global_load_dwordx2 {w}, {v}, {t}",
    "global_load_lds_dword {w}, off",
    "global_store_dword {w}, {v}, off",
    "global_store_dwordx2 {w}, {w}, off",
    "global_store_dwordx3 {w}, v[0:2], off",
    "global_store_dwordx4 {v}, {q}, {t}",
    "global_atomic_add_f32 {w}, {v}, off",
    "global_atomic_add {v}, {w}, {v}, off sc0",
    "global_atomic_cmpswap_x2 {w}, {q}, off",
    "flat_load_dword {v}, {w}",
    "flat_store_dwordx4 {w}, {q}",
    "scratch_load_dword {v}, {v}, off",
    "scratch_store_dwordx4 off, {q}, {s}",
    "ds_read_b32 {v}, {v}",
    "ds_read_b128 {q}, {v}",
    "ds_read_b32 {a}, {v}",
    "ds_write_b32 {v}, {v}",
    "ds_write_b128 {v}, {q}",
    "ds_bpermute_b32 {v}, {v}, {v}",
    "ds_add_rtn_u32 {v}, {v}, {v}",
    "ds_read_addtid_b32 {v}",
]
_SCALARS = [
    "s_mov_b32 m0, {s}",
    "s_mov_b32 m0, 7",
    "s_mov_b32 {r}, {s}",
    "s_add_u32 {r}, {s}, {s}",
    "s_cmp_eq_u32 {s}, {r}",
    "s_load_dword {r}, {t}, 0x0",
    "s_waitcnt vmcnt(0)",
    "s_barrier",
    "s_nop 0",
    "s_nop 2",
    "s_movrels_b32 {r}, {s}",
    "s_sendmsg sendmsg(MSG_INTERRUPT)",
    "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 5",
    "s_setreg_imm32_b32 hwreg(HW_REG_TRAPSTS, 0, 4), 5",
    "s_getreg_b32 {r}, hwreg(HW_REG_MODE)",
]
_CHOICES = {
    "v": [f"v{n}" for n in range(8)],
    "w": [f"v[{n}:{n + 1}]" for n in range(0, 8, 2)],
    "q": [f"v[{n}:{n + 3}]" for n in (0, 2, 4)],
    "o": ["v[0:15]", "v[2:17]", "v[6:21]"],
    "x": ["v[32:47]", "v[64:79]"],
    "a": [f"a{n}" for n in range(4)],
    "z": ["a[0:3]"],
    "s": ["s4", "s5", "s6"],
    "t": ["s[4:5]", "s[6:7]"],
    "r": ["s12", "s13"],
}


def pool(target: str) -> list[list[str]]:
    """Instructions by kind; each template with registers chosen one after the other."""
    new = target == "gfx950"
    kinds = [
        _VALU,
        _SCALAR_RESULTS,
        _SPECIAL + (_SPECIAL_950 if new else []),
        _MATRIX + (_MATRIX_950 if new else []),
        _MEMORY_POOL,
        _SCALARS,
    ]
    turn = {name: count(at) for at, name in enumerate(_CHOICES)}

    def chosen(match: re.Match[str]) -> str:
        choices = _CHOICES[match[1]]
        at = next(turn[match[1]])
        return choices[(at + at // len(choices)) % len(choices)]

    found = []
    for templates in kinds:
        texts = (re.sub(r"\{(\w)\}", chosen, text) for text in templates for _ in range(5))
        found.append(list(dict.fromkeys(texts)))
    return found


class Difference(NamedTuple):
    """Where LLVM 22 needs *llvm* states for a rule and the table *ours*, and why.

    ``ours`` None: what LLVM needs for the case's ``like``, and at least what it needs here.
    *producer* and *consumer* are patterns.
    """

    rule: str
    llvm: int
    ours: int | None
    reason: str
    producer: str = ""
    consumer: str = ""
    target: str = ""


DIFFERENCES: tuple[Difference, ...] = (
    *(
        Difference(
            "mfma-opcode",
            states,
            None,
            "LLVM 22 exempts an equal C whatever the opcode; newer LLVM (#218363) takes it as "
            "overlapping",
            producer,
        )
        for states, producer in ((2, r"v_mfma_f32_4x4x"), (0, ""))
    ),
    Difference("mfma-dot-write", 0, 3, "ISA guide alone: DOT into an MFMA's A, B and C"),
    Difference(
        "mfma-overwrite",
        11,
        19,
        "LLVM has gfx942's number for gfx950, whose 16x16 DGEMM takes twice the passes; ISA guide",
        "v_mfma_f64_16x16x4",
        target="gfx950",
    ),
    Difference("valu-zero-flag", 0, 5, "ISA guide alone"),
    Difference("vskip", 0, 2, "ISA guide alone"),
    Difference(
        "wide-store",
        0,
        1,
        "newer LLVM (#197267): an SGPR as soffset does not exempt the store",
        r"buffer_store.*, s\d",
    ),
    Difference("wide-store-load", 0, 1, "ISA guide alone: a load that overwrites the data"),
    *(
        Difference(
            rule, 1, 0, "LLVM 22 takes a load to LDS for a VALU", consumer=r".*(_lds_| lds$)"
        )
        for rule in ("trans", "sub-dword")
    ),
    Difference(
        "sub-dword", 0, 1, "newer LLVM: v_fma_mix writes half a register", "v_fma_mix(lo|hi)"
    ),
    Difference(
        "sub-dword",
        1,
        0,
        "LLVM 22 takes op_sel_hi of VOP3P for the destination's",
        "v_pk_|v_fma_mix_",
    ),
)
