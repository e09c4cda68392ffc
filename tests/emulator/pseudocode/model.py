"""What an instruction does to a wave, by the pseudo-code: operands in, the text, results out.

How constants reach operands follows LLVM (``SIInstrInfo::isInlineConstant`` and
``getInlineEncodingV216``: what the hardware does, as found out by its authors); the formats of the
operands are those of AMD's machine-readable ISA. DPP, SDWA, modifiers: CDNA3 ISA guide, chapter 4.
"""

from __future__ import annotations

import re
import struct
from typing import Any, NamedTuple

from tests.emulator.pseudocode.catalogue import Entry, Field, text_of
from tests.emulator.pseudocode.evaluate import Environment, Registers, run
from tests.emulator.pseudocode.functions import flush
from tests.emulator.pseudocode.softfloat import FORMATS, Real, multiply
from tests.emulator.pseudocode.values import Value, boolean, real, rounded

__all__ = ["Case", "Mode", "Result", "Source", "Wave", "execute"]

M64 = (1 << 64) - 1


class Mode(NamedTuple):
    """The fields of MODE that matter: denormals kept (f32; f16 and f64), IEEE, DX10_CLAMP."""

    denormal32: bool
    denormal16: bool
    ieee: bool
    dx10: bool


class Source(NamedTuple):
    """A source operand: ``v s`` and a number, ``int float literal`` and a value, or a name."""

    kind: str
    value: Any
    negate: bool = False
    absolute: bool = False
    sext: bool = False
    select: str = "DWORD"


class Case(NamedTuple):
    """One instruction as it is assembled, and as its parts."""

    mnemonic: str
    entry: Entry
    form: str
    text: str
    sources: tuple[Source, ...]
    modifiers: dict[str, Any]
    literal: int = 0


class Wave:
    """The registers of a wave; EXEC, VCC and SCC with them."""

    def __init__(self, vgprs: dict[int, list[int]], sgprs: dict[int, int], mode: Mode) -> None:
        self.vgprs, self.sgprs, self.mode = vgprs, sgprs, mode
        self.exec, self.vcc, self.scc, self.m0 = M64, 0, 0, 0


class Result(NamedTuple):
    """What is expected afterwards. ``arithmetic``: NaNs are those of arithmetic, so of any payload.

    ``lanes``: the destination, a 64-bit value a lane; ``mask``: the scalar pair; ``known``: the
    bits of the destination that are known.
    """

    lanes: list[int]
    mask: int | None
    exec: int
    scc: int
    known: int
    nan_sources: list[bool]
    rows: dict[int, list[int]]


#: Rows whose unused half of the destination stays. Source: LLVM,
#: GCNSubtarget::zeroesHigh16BitsOfDest.
KEEPS_HALF = set(
    ["v_mad_u16", "v_mad_i16", "v_mad_f16", "v_fma_f16", "v_div_fixup_f16", "v_fma_mixlo_f16"]
) | {"v_fma_mixhi_f16", "v_ashr_pk_i8_i32", "v_ashr_pk_u8_i32"}
#: … of which neither LLVM nor the text says what happens to it.
OPEN_HALF = {
    *("v_add_i16", "v_sub_i16", "v_bitop3_b16", "v_cvt_f16_bf16"),
    *(f"v_{name}3_{kind}" for name in ("min", "max", "med") for kind in ("f16", "i16", "u16")),
}
#: Operands that are looked at or moved, not computed with: a denormal stays.
_UNTOUCHED = ("v_cmp_class", "v_cmpx_class", "v_mov", "v_cndmask")


def _float_image(value: float, kind: str) -> int:
    code = {"f16": "<e", "f32": "<f", "f64": "<d"}[kind]
    raw = int.from_bytes(struct.pack(code, value), "little")
    if abs(value - 0.15915494) < 1e-8:
        raw = {"f16": 0x3118, "f32": 0x3E22F983, "f64": 0x3FC45F306DC9C882}[kind]
    return raw


def constant_image(value: float, field: Field, mix: bool = False) -> int | None:
    """The bits that an inline constant puts on the operand's bus; None: not known."""
    kind = field.format
    if isinstance(value, int):
        low = value & 0xFFFF_FFFF
        if field.bits == 64:
            return low | low << 32 if kind.startswith("PK2") else value & M64
        return low
    if kind.startswith("PK2") and field.bits == 64:
        return _float_image(value, "f32") * 0x1_0000_0001
    if field.bits == 64:
        return _float_image(value, "f64")
    if kind in ("F16", "PK2_F16") or mix:
        return _float_image(value, "f16")
    if kind == "BF16":
        return _float_image(value, "f32") >> 16
    return _float_image(value, "f32")


def _read(case: Case, wave: Wave, at: int, field: Field, lane: int) -> int:
    """The bits of source *at* for a lane, before any modifier."""
    source = case.sources[at]
    wide = field.bits == 64
    if source.kind == "v":
        low = wave.vgprs[source.value][lane]
        return low | wave.vgprs[source.value + 1][lane] << 32 if wide else low
    if source.kind == "s":
        low = wave.sgprs[source.value]
        return low | wave.sgprs[source.value + 1] << 32 if wide else low
    if source.kind in ("vcc", "exec"):
        whole = wave.vcc if source.kind == "vcc" else wave.exec
        return whole if wide else whole & 0xFFFF_FFFF
    if source.kind in ("m0", "scc"):
        return wave.m0 if source.kind == "m0" else wave.scc
    if source.kind == "literal":
        if not wide:
            return int(source.value)
        if field.format == "F64":
            return int(source.value) << 32
        negative = field.format == "I64" and source.value >> 31
        return int(source.value) | (0xFFFF_FFFF << 32 if negative else 0)
    mix = case.mnemonic.startswith("v_fma_mix") and bool(case.modifiers["op_sel_hi"][at])
    image = constant_image(source.value, field, mix)
    assert image is not None
    return image


def _signs(bits: int, width: int, source: Source) -> int:
    top = 1 << (width - 1)
    if source.absolute:
        bits &= ~top
    return bits ^ top if source.negate else bits


def _select(bits: int, source: Source) -> int:
    if source.select == "DWORD":
        return bits
    size = 8 if source.select.startswith("BYTE") else 16
    part = bits >> size * int(source.select[-1]) & ((1 << size) - 1)
    if source.sext and part >> (size - 1):
        part |= 0xFFFF_FFFF & ~((1 << size) - 1)
    return part


def _flushed(bits: int, kind: str, case: Case, mode: Mode) -> int:
    """*bits* of a float format with a denormal flushed where the mode says so."""
    if kind not in ("f16", "f32", "f64") or case.mnemonic.startswith(_UNTOUCHED):
        return bits
    if mode.denormal32 if kind == "f32" else mode.denormal16:
        return bits
    width = int(kind[1:])
    rest = bits >> width << width
    return rest | int(flush(Value("f", width, bits & ((1 << width) - 1))).bits)


def _operand(case: Case, wave: Wave, at: int, field: Field, lane: int) -> int:
    """Source *at* for a lane as the text sees it: ``S0.f32`` …"""
    bits = _read(case, wave, at, field, lane)
    source, form = case.sources[at], field.format
    if form.startswith("PK2"):
        return _packed(case, wave, at, field, _select(bits, source))
    if case.mnemonic.startswith("v_fma_mix"):
        return _mixed(case, wave, at, bits)
    if case.form == "sdwa":
        bits = _select(bits, source)
    if form == "M64":
        return bits
    op_sel = case.modifiers.get("op_sel")
    if op_sel and field.bits == 16:
        bits = bits >> 16 * op_sel[at] & 0xFFFF
    width = field.bits
    bits = _signs(bits & ((1 << width) - 1), width, source)
    if at == 1 and "ldexp" in case.mnemonic:
        return bits  # an integer, whatever its format is called
    return _flushed(bits, form.lower(), case, wave.mode)


def _packed(case: Case, wave: Wave, at: int, field: Field, bits: int) -> int:
    size = field.bits // 2
    mask = (1 << size) - 1
    if case.mnemonic == "v_pk_mov_b32" or "_dot" in case.mnemonic:
        return bits
    none = (0, 0, 0), (1, 1, 1)
    picks = (
        case.modifiers.get("op_sel", none[0])[at],
        case.modifiers.get("op_sel_hi", none[1])[at],
    )
    halves = [bits >> size * pick & mask for pick in picks]
    kind = field.format[4:].lower()
    if kind.startswith("f"):
        for which, name in enumerate(("neg_lo", "neg_hi")):
            if case.modifiers.get(name, (0, 0, 0))[at]:
                halves[which] ^= 1 << (size - 1)
        halves = [_flushed(half, kind, case, wave.mode) for half in halves]
    return halves[0] | halves[1] << size


def _mixed(case: Case, wave: Wave, at: int, bits: int) -> int:
    if not case.modifiers["op_sel_hi"][at]:
        return _flushed(_signs(bits, 32, case.sources[at]), "f32", case, wave.mode)
    up = 16 * case.modifiers["op_sel"][at]
    half = _flushed(_signs(bits >> up & 0xFFFF, 16, case.sources[at]), "f16", case, wave.mode)
    return (bits & ~(0xFFFF << up)) | half << up


# Lanes: DPP.


def dpp_source(name: str, count: Any, lane: int) -> int | None:
    """The lane that *lane* reads; None where there is none."""
    row, at = lane & ~15, lane & 15
    if name == "quad_perm":
        return lane & ~3 | count[lane & 3]
    if name == "row_mirror":
        return row | 15 - at
    if name == "row_half_mirror":
        return lane & ~7 | 7 - (lane & 7)
    if name == "row_newbcast":
        return row | count
    if name == "row_ror":
        return row | (at - count) % 16
    if name in ("row_shl", "row_shr"):
        at += count if name == "row_shl" else -count
        return row | at if 0 <= at < 16 else None
    if name == "row_bcast":
        if count == 15:
            return row - 1 if lane >= 16 else None
        return 31 if lane >= 32 else None
    at = lane + (1 if name in ("wave_shl", "wave_rol") else -1)
    if name in ("wave_rol", "wave_ror"):
        return at % 64
    return at if 0 <= at < 64 else None


def _lanes(case: Case, wave: Wave) -> dict[int, int | None]:
    """The lanes that execute: lane → the lane of source 0, or None where that reads 0."""
    active = {lane: lane for lane in range(64) if wave.exec >> lane & 1}
    if case.form != "dpp":
        return dict(active)
    name, count = case.modifiers["dpp"]
    found: dict[int, int | None] = {}
    for lane in active:
        rows, banks = case.modifiers["row_mask"], case.modifiers["bank_mask"]
        if not (rows >> (lane >> 4) & 1 and banks >> (lane >> 2 & 3) & 1):
            continue
        source = dpp_source(name, count, lane)
        if source is None or not wave.exec >> source & 1:
            if case.modifiers["bound_ctrl"]:
                found[lane] = None
        else:
            found[lane] = source
    return found


# Results.

_SCALE = {"mul:2": 1, "mul:4": 2, "div:2": -1}


def _finish(bits: int, kind: str, case: Case, mode: Mode) -> int:
    """Output modifier, clamp and flushing of a float result."""
    width = int(kind[1:])
    value = Value("f", width, bits & ((1 << width) - 1))
    flushes = not (mode.denormal32 if kind == "f32" else mode.denormal16)
    omod = case.modifiers.get("omod")
    if omod and flushes and not mode.ieee:
        scale = Value("x", 0, Real(0, 1, _SCALE[omod]))
        value = flush(value)
        if real(value).kind != "nan":
            value = rounded(multiply(real(value), real(scale)), "f", width)
    if case.modifiers.get("clamp"):
        number = real(value)
        form = FORMATS[kind]
        one = (form.bias) << form.fraction
        if number.kind == "nan":
            value = value._replace(bits=0) if mode.dx10 else value
        elif number.sign:
            value = value._replace(bits=0)
        elif value.bits > one:
            value = value._replace(bits=one)
    if flushes and not case.mnemonic.startswith(_UNTOUCHED):
        value = flush(value)
    return int(value.bits)


def _finished(bits: int, field: Field, case: Case, mode: Mode) -> int:
    form = field.format
    if form.startswith("PK2_F"):
        size = field.bits // 2
        kind = f"f{size}"
        low, high = bits & ((1 << size) - 1), bits >> size & ((1 << size) - 1)
        return _finish(low, kind, case, mode) | _finish(high, kind, case, mode) << size
    if form in ("F16", "F32", "F64"):
        return _finish(bits, form.lower(), case, mode)
    return bits & ((1 << field.bits) - 1)


def _stored(case: Case, field: Field, old: int, bits: int) -> tuple[int, int]:
    """(the destination afterwards, the bits of it that are known)."""
    known = M64
    if case.form == "sdwa" and case.modifiers["dst_sel"] != "DWORD":
        return _sdwa_stored(case, old, bits), known
    if case.mnemonic == "v_fma_mixhi_f16":
        return (old & ~0xFFFF_0000) | (bits & 0xFFFF) << 16, known
    if field.bits == 16:
        op_sel = case.modifiers.get("op_sel")
        if op_sel and case.form == "e64" and op_sel[-1] and "legacy" not in case.mnemonic:
            return (old & ~0xFFFF_0000) | bits << 16, known
        if case.mnemonic in KEEPS_HALF:
            return (old & ~0xFFFF) | bits, known
        if case.mnemonic in OPEN_HALF:
            known = M64 & ~0xFFFF_0000
    keep = 0 if field.bits == 64 else old & ~0xFFFF_FFFF
    return keep | bits, known


def _sdwa_stored(case: Case, old: int, bits: int) -> int:
    select = case.modifiers["dst_sel"]
    size = 8 if select.startswith("BYTE") else 16
    shift = size * int(select[-1])
    part = bits & ((1 << size) - 1)
    unused = case.modifiers["dst_unused"]
    value = part << shift
    if unused == "UNUSED_PRESERVE":
        return (old & ~(((1 << size) - 1) << shift)) | value
    if unused == "UNUSED_SEXT" and part >> (size - 1):
        value |= 0xFFFF_FFFF & ~((1 << (size + shift)) - 1)
    return (old & ~0xFFFF_FFFF) | value


_SOURCES = (("src0", "ssrc0"), ("src1", "vsrc1", "ssrc1"), ("src2",))


def source_fields(entry: Entry) -> list[Field]:
    """The fields of S0, S1, S2."""
    found = []
    for names in _SOURCES:
        field = next((entry.fields[name] for name in names if name in entry.fields), None)
        if field is not None:
            found.append(field)
    return found


def _environment(case: Case, wave: Wave, lane: int) -> dict[str, Any]:
    modifiers = case.modifiers
    op_sel = sum(bit << at for at, bit in enumerate(modifiers.get("op_sel") or ()))
    op_sel_hi = sum(bit << at for at, bit in enumerate(modifiers.get("op_sel_hi") or ()))
    table = modifiers.get("bitop3", 0)
    return {
        "laneId": Value("u", 32, lane),
        "VCC": Value("b", 64, wave.vcc),
        "EXEC": Value("b", 64, wave.exec),
        "SCC": Value("b", 1, wave.scc),
        "OPSEL": Value("b", 4, op_sel),
        "OPSEL_HI": Value("b", 4, op_sel_hi),
        "SIMM32": Value("b", 32, case.literal),
        "SIMM16": Value("b", 16, case.literal & 0xFFFF),
        "WAVE_MODE": {"IEEE": boolean(wave.mode.ieee)},
        "INST": {
            "OMOD": Value("b", 2, table >> 6),
            "ABS": Value("b", 3, table >> 3 & 7),
            "NEG": Value("b", 3, table & 7),
        },
        "DST": Value("b", 64, 0),
    }


def execute(case: Case, wave: Wave, dst: int, chosen: int = M64) -> Result:
    """The wave after a vector instruction whose destination is VGPR *dst* (or a scalar pair).

    *chosen*: the lanes that are looked at; what the others get is not worked out.
    """
    if "VGPR[" in case.entry.text:
        return _whole_wave(case, wave, dst)
    fields, entry = source_fields(case.entry), case.entry
    target = entry.fields.get("vdst", Field32)
    lanes = [wave.vgprs[dst][lane] | wave.vgprs[dst + 1][lane] << 32 for lane in range(64)]
    rows: dict[int, list[int]] = {}
    nans = [False] * 64
    mask, exec_after, known = 0, wave.exec, M64
    masked = "laneId] =" in entry.text or entry.text.startswith("VCC = 0x") or "D1." in entry.text
    for lane, origin in _lanes(case, wave).items():
        if not chosen >> lane & 1:
            continue
        names = _environment(case, wave, lane)
        values = []
        for at, field in enumerate(fields):
            if at == 0 and origin is None:
                bits = _operand(_zeroed(case), wave, 0, field, lane)
            else:
                bits = _operand(case, wave, at, field, origin if at == 0 else lane)
            values.append(bits)
            names[f"S{at}"] = Value("b", 64, bits)
        names["S"] = [Value("b", 32, bits & 0xFFFF_FFFF) for bits in values]
        old = lanes[lane]
        start = old if target.bits == 64 else old & 0xFFFF_FFFF
        if "mac" in case.mnemonic:
            kind = target.format.removeprefix("PK2_").lower()
            start = _flushed(start, kind, case, wave.mode)
            if target.format == "PK2_F16":
                start = start & 0xFFFF | _flushed(start >> 16, kind, case, wave.mode) << 16
        if "div_scale" in case.mnemonic:
            start = values[0]  # what the text leaves unassigned is the source as it is
        names["D0"] = Value("b", 64, 0 if case.mnemonic.startswith("v_cmp") else start)
        names["D1"] = Value("b", 1, 0)
        if fields[-1].format == "M64":
            names["VCC"] = Value("b", 64, values[-1])
        environment = Environment(names, text_of)
        run(entry.text, environment)
        if masked:
            mask |= _mask_bit(case, environment, lane) << lane
        nans[lane] = any(_has_nan(bits, field) for bits, field in zip(values, fields, strict=True))
        nans[lane] |= bool(re.search("mac|dot2c", case.mnemonic)) and _has_nan(start, target)
        if "EXEC.u64[laneId]" in entry.text:
            exec_after = exec_after & ~(1 << lane) | names["EXEC"].bits & 1 << lane
        if case.mnemonic.startswith("v_cmp"):
            continue
        result = names["D"].bits if "D" in names else names["D0"].bits
        if case.mnemonic == "v_fma_mixhi_f16":
            result >>= 16
        if case.mnemonic == "v_swap_b32":
            rows.setdefault(case.sources[0].value, list(wave.vgprs[case.sources[0].value]))
            rows[case.sources[0].value][lane] = names["S0"].bits & 0xFFFF_FFFF
        bits = _finished(result, target, case, wave.mode)
        if "legacy" in case.mnemonic and target.bits == 16:
            lanes[lane] = old & ~0xFFFF_FFFF | _legacy(case, target, wave.mode, result)
            continue
        lanes[lane], known = _stored(case, target, old, bits)
    return Result(lanes, mask if masked else None, exec_after, wave.scc, known, nans, rows)


Field32 = Field("B32", 32, "VGPR")


def _legacy(case: Case, target: Field, mode: Mode, result: int) -> int:
    """A register of which the text sets both halves; the result is in one of them."""
    up = 16 * bool(case.modifiers.get("op_sel") and case.modifiers["op_sel"][-1])
    half = _finished(result >> up & 0xFFFF, target, case, mode)
    return result & 0xFFFF_FFFF & ~(0xFFFF << up) | half << up


def _zeroed(case: Case) -> Case:
    first = case.sources[0]._replace(kind="int", value=0)
    return case._replace(sources=(first, *case.sources[1:]))


def _mask_bit(case: Case, environment: Environment, lane: int) -> int:
    names = environment.names
    if case.entry.text.startswith("VCC = 0x"):
        return int(names["VCC"].bits & 1)
    if "D1." in case.entry.text:
        return int(names["D1"].bits & 1)
    which = "VCC" if "VCC.u64[laneId] =" in case.entry.text else "D0"
    return int(names[which].bits >> lane & 1)


def _has_nan(bits: int, field: Any) -> bool:
    form = field.format.removeprefix("PK2_").lower()
    if field.format == "B32":
        return True  # fma_mix: not told apart
    if form not in FORMATS:
        return False
    width = FORMATS[form].width
    kind = "bf" if form == "bf16" else "f"
    return any(
        real(Value(kind, width, bits >> at & ((1 << width) - 1))).kind == "nan"
        for at in range(0, max(field.bits, width), width)
    )


def _whole_wave(case: Case, wave: Wave, dst: int) -> Result:
    """Instructions that name lanes themselves."""
    names: dict[str, Any] = _environment(case, wave, 0)
    rows = {number: list(row) for number, row in wave.vgprs.items()}
    names["VGPR"] = Registers(rows)
    first = case.sources[0]
    names["SRC0"] = Value("b", 32, first.value if first.kind == "v" else 0)
    names["VDST"] = Value("b", 32, dst)
    names["D0"] = Value("b", 32, 0)
    for at, field in enumerate(source_fields(case.entry)):
        if case.sources[at].kind != "v":
            names[f"S{at}"] = Value("b", 64, _read(case, wave, at, field, 0))
    run(case.entry.text, Environment(names, text_of))
    lanes = [rows[dst][lane] | rows[dst + 1][lane] << 32 for lane in range(64)]
    scalar = names["D0"].bits if "D0.b32 =" in case.entry.text else None
    return Result(lanes, scalar, wave.exec, wave.scc, M64, [False] * 64, rows)
