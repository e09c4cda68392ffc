"""Where the pseudo-code comes from: the tables of the wheel ``tinygrad``, by the emulator's rows.

Nothing of the text is kept here; what is known to be wrong in it is named with its reason.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import pytest

__all__ = ["CORRECTIONS", "Entry", "Field", "entries", "text_of"]

#: Encodings with arithmetic; the rest (memory, control flow) is not run here.
_ALU = tuple(
    f"{name}Op"
    for name in ("VOP1", "VOP2", "VOP3", "VOP3P", "VOP3SD", "VOPC", "SOP1", "SOP2", "SOPK", "SOPC")
)

#: CDNA's table has gfx908's v_mad_mix, which gfx942 replaced by v_fma_mix: RDNA3's text.
_ELSEWHERE = {"v_fma_mix_f32", "v_fma_mixlo_f16", "v_fma_mixhi_f16"}


class Field(NamedTuple):
    """An operand: the format of its contents (``F32``, ``PK2_F16`` …), its size, what it may be."""

    format: str
    bits: int
    what: str


class Entry(NamedTuple):
    """One encoding of an instruction: which, its pseudo-code, and its operands by their names."""

    name: str
    encoding: str
    text: str
    fields: dict[str, Field]


#: What the text gets wrong, and how it has to read: (what stands there, what is meant, why).
CORRECTIONS: dict[str, tuple[tuple[str, str, str], ...]] = {
    "v_div_scale_f32": (
        (
            "== DENORM.f64",
            "== DENORM.f32",
            "1 / S1 is never a denormal f64 where S1 is an f32",
        ),
        ("64'F(S1.f32) ==", "S1.f32 ==", "the same"),
        ("1.0 /", "1.0F /", "the same"),
    ),
    "v_div_fmas_f32": (
        (
            "2.0F ** 32 * fma(S0.f32, S1.f32, S2.f32)",
            "fma_scaled(S0.f32, S1.f32, S2.f32, exponent(S2.f32) > 127 ? 64 : -64)",
            "V_DIV_SCALE scales by 2**64; measured on hardware: up where S2 >= 2, else down,"
            " rounded once",
        ),
    ),
    "v_div_fmas_f64": (
        (
            "2.0 ** 64 * fma(S0.f64, S1.f64, S2.f64)",
            "fma_scaled(S0.f64, S1.f64, S2.f64, exponent(S2.f64) > 1023 ? 128 : -128)",
            "V_DIV_SCALE scales by 2**128; measured on hardware: up where S2 >= 2, else down,"
            " rounded once",
        ),
    ),
    "v_div_fixup_f32": (
        (
            "sign_out ? -abs(S0.f32) : abs(S0.f32)",
            "isNAN(S0.f32) ? (sign_out ? -INF.f32 : INF.f32)"
            " : (sign_out ? -abs(S0.f32) : abs(S0.f32))",
            "measured on hardware: a quotient that overflowed on the way is infinite",
        ),
    ),
    "v_div_fixup_f64": (
        (
            "sign_out ? -abs(S0.f64) : abs(S0.f64)",
            "isNAN(S0.f64) ? (sign_out ? -INF.f64 : INF.f64)"
            " : (sign_out ? -abs(S0.f64) : abs(S0.f64))",
            "the same",
        ),
    ),
}
CORRECTIONS["v_pk_mov_b32"] = (
    ("S0.u32[", "S0[", "bits 32 to 63 are not in a u32"),
    ("S1.u32[", "S1[", "the same"),
)

for _kind, _one, _below in (("f16", "16'1.0", "0x3bff"), ("f32", "1.0F", "0x3f7fffff")):
    CORRECTIONS[f"v_fract_{_kind}"] = (
        (
            f"S0.{_kind} + -floor(S0.{_kind})",
            f"S0.{_kind} + -floor(S0.{_kind}) >= {_one} ? {_kind[1:]}'F({_below})"
            f" : S0.{_kind} + -floor(S0.{_kind})",
            "the largest number below 1 where the sum rounds to 1 (LLVM, amdgcn.fract)",
        ),
    )
CORRECTIONS["v_fract_f64"] = (
    (
        "S0.f64 + -floor(S0.f64)",
        "S0.f64 + -floor(S0.f64) >= 1.0 ? 64'F(0x3fefffffffffffffULL) : S0.f64 + -floor(S0.f64)",
        "the same",
    ),
)

#: What the text describes wrongly altogether: what is run in its place, and why.
REPLACED: dict[str, tuple[str, str]] = {}
for _kind in ("f16", "f32", "f64"):
    REPLACED[f"v_rndne_{_kind}"] = (
        f"D0.{_kind} = rndne(S0.{_kind})",
        "S0 + 0.5 is rounded where it should not be; the sign of a zero is lost",
    )
    _integer = "i16" if _kind == "f16" else "i32"
    REPLACED[f"v_frexp_exp_{_integer}_{_kind}"] = (
        f"D0.{_integer} = frexp_exp(S0.{_kind})",
        "denormals and 0 as C's frexp, which LLVM lowers to it",
    )
REPLACED["v_div_fixup_legacy_f16"] = (
    "sign_out = (sign(S1.f16) ^ sign(S2.f16));"
    "if isNAN(S2.f16) then tmp = cvtToQuietNAN(S2.f16)"
    " elsif isNAN(S1.f16) then tmp = cvtToQuietNAN(S1.f16)"
    " elsif ((S1.f16 == 16'0.0) && (S2.f16 == 16'0.0)) then tmp = 16'F(0xfe00)"
    " elsif ((abs(S1.f16) == +INF.f16) && (abs(S2.f16) == +INF.f16)) then tmp = 16'F(0xfe00)"
    " elsif ((S1.f16 == 16'0.0) || (abs(S2.f16) == +INF.f16)) then"
    " tmp = sign_out ? -INF.f16 : +INF.f16"
    " elsif ((abs(S1.f16) == +INF.f16) || (S2.f16 == 16'0.0)) then"
    " tmp = sign_out ? -16'0.0 : 16'0.0"
    " else tmp = sign_out ? -abs(S0.f16) : abs(S0.f16) endif;"
    "if OPSEL.u4[3] then D0 = { tmp.f16, D0[15 : 0] } else D0 = { 16'0, tmp.f16 } endif",
    "the text makes doubles of halves; this is that of v_div_fixup_f16",
)
REPLACED["v_lerp_u8"] = (
    "tmp = 0U; "
    + "; ".join(
        f"tmp += (32'U(S0.u32[{at + 7} : {at}]) + 32'U(S1.u32[{at + 7} : {at}])"
        f" + 32'U(S2.u32[{at}])) >> 1U << {at}U"
        for at in (0, 8, 16, 24)
    )
    + "; D0.u32 = tmp.u32",
    "a sum of two bytes does not fit into 8 bits, nor a byte that is shifted up",
)
REPLACED["v_cvt_off_f32_i4"] = (
    "n = S0.u32[3 : 0].u32; D0.f32 = i32_to_f32(n.u32 >= 8U ? 32'I(n.u32 - 16U) : 32'I(n.u32))"
    " * 0.0625F",
    "the table is not spelled out: GCN3's guide has -0.5 for 1000 to 0.4375 for 0111",
)
REPLACED["v_trig_preop_f64"] = ("D0.f64 = trig_preop(S0.f64, S1.u32)", "numbers of 1201 bits")
for _kind in ("f16", "f32"):
    for _name in ("sin", "cos"):
        REPLACED[f"v_{_name}_{_kind}"] = (
            f"D0.{_kind} = {_name}2pi(S0.{_kind})",
            "the product with 2 pi is not rounded on its own",
        )


@cache
def _tables() -> tuple[Any, ...]:
    reason = "the wheel tinygrad with AMD's pseudo-code is not installed (pip install '.[test]')"
    root = "tinygrad.runtime.autogen.amd"
    cdna = pytest.importorskip(f"{root}.cdna.str_pcode", reason=reason)
    rdna = pytest.importorskip(f"{root}.rdna3.str_pcode", reason=reason)
    operands = pytest.importorskip(f"{root}.cdna.operands", reason=reason)
    rdna4 = pytest.importorskip(f"{root}.rdna4.str_pcode", reason=reason)
    return cdna.PCODE, rdna.PCODE, operands.OPERANDS, rdna4.PCODE


def _plain(name: str) -> str:
    name = name.lower()
    return name[:-4] if name.endswith(("_e32", "_e64")) else name


@cache
def entries() -> dict[str, tuple[Entry, ...]]:
    """The arithmetic instructions of CDNA that the text describes, by mnemonic."""
    cdna, rdna, operands = _tables()[:3]
    found: dict[str, list[Entry]] = {}
    layouts = {(type(op).__name__, op.name): fields for op, fields in operands.items()}
    for op, text in cdna.items():
        encoding = type(op).__name__
        if encoding not in _ALU:
            continue
        layout = layouts.get((encoding, op.name))
        if layout is None:
            continue
        mnemonic = _plain(op.name).replace("v_mad_mix", "v_fma_mix")
        if mnemonic in _ELSEWHERE:
            text = next(t for o, t in rdna.items() if _plain(o.name) == mnemonic)
        fields = {
            name: Field(kind.name.removeprefix("FMT_").removeprefix("NUM_"), bits, what.name[4:])
            for name, (kind, bits, what) in layout.items()
        }
        for wrong, right, _ in CORRECTIONS.get(mnemonic, ()):
            assert wrong in text, f"{mnemonic}: the text has changed"
            text = text.replace(wrong, right)
        text = REPLACED.get(mnemonic, (text,))[0]
        found.setdefault(mnemonic, []).append(Entry(op.name, encoding[:-2], text, fields))
    return {name: tuple(several) for name, several in found.items()}


def text_of(mnemonic: str) -> str:
    """The pseudo-code of an instruction that another one calls."""
    found = entries().get(mnemonic)
    if found:
        return found[0].text
    # CDNA names some that only RDNA4 describes.
    return next(text for op, text in _tables()[3].items() if _plain(op.name) == mnemonic)
