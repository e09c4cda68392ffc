"""Instructions to run: every encoding of a row, with constants, scalars and modifiers as operands.

What LLVM's assembler does not take is left out; what it takes has to be right or an error.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from tests.emulator.pseudocode.catalogue import Entry, Field
from tests.emulator.pseudocode.model import Case, Source, constant_image, source_fields

__all__ = ["BANKS", "DST", "SCALAR_BANKS", "base_cases", "more_cases"]

#: The result register pair, and the registers of operands 0 to 2 by the format of their contents.
DST = 10
BANKS = {"f16": 16, "bf16": 22, "f32": 28, "f64": 34, "i16": 40, "i32": 46, "i64": 52}
SCALAR_BANKS = {"f16": 32, "bf16": 34, "f32": 36, "f64": 38, "i16": 40, "i32": 42, "i64": 44}
MASK_REGISTER = 46

_FLOATS = (0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 4.0, -4.0, 0.15915494)
_INTS = (0, 1, 2, 31, 32, 63, 64, -1, -5, -16)
_LITERALS = {
    16: (0x3C66, 0x8001, 0x7C01, 0xFFFF, 0x1234),
    32: (0x3FC00000, 0x80000001, 0x7F800001, 0xFFFF0000, 0x12345678, 0x92345678, 65),
    64: (0x3FC00000, 0x40091EB8, 0xC0000001, 0x12345678, 0x92345678, 0x80000000),
}


def bank_of(field: Field) -> str:
    """Which bank of registers suits an operand."""
    form = field.format.removeprefix("PK2_").lower()
    if form in ("f16", "f32", "f64", "bf16"):
        return form
    if form.startswith("pk") or form.endswith(("8", "24")):
        return "i32"
    return {16: "i16", 32: "i32"}.get(field.bits, "i64")


def register(field: Field, at: int) -> Source:
    """The vector register (pair) that is operand *at*."""
    return Source("v", BANKS[bank_of(field)] + 2 * at)


def _scalar(field: Field) -> Source:
    return Source("s", SCALAR_BANKS[bank_of(field)])


def spell(source: Source, field: Field) -> str:
    """An operand as assembly."""
    if source.kind in ("v", "s"):
        text = f"{source.kind}{source.value}"
        if field.bits == 64:
            text = f"{source.kind}[{source.value}:{source.value + 1}]"
    elif source.kind in ("vcc", "exec"):
        text = source.kind if field.bits == 64 else f"{source.kind}_lo"
    elif source.kind == "literal":
        text = hex(source.value)
    elif source.kind in ("m0", "scc"):
        text = {"m0": "m0", "scc": "src_scc"}[source.kind]
    else:
        text = str(source.value)
        if source.value == 0.15915494 and field.format == "F64":
            text = "0.15915494309189532"
    if source.absolute:
        text = f"|{text}|"
    if source.sext:
        text = f"sext({text})"
    return f"-{text}" if source.negate else text


_FORMS = {"VOP1": ("e32", "e64", "sdwa", "dpp"), "VOP2": ("e32", "sdwa", "dpp")}
_FORMS["VOPC"] = ("e32", "sdwa")


def _forms(entry: Entry) -> tuple[str, ...]:
    if entry.encoding in _FORMS:
        return _FORMS[entry.encoding]
    return ("vop3p",) if entry.encoding == "VOP3P" else ("e64",)


def _suffix(entry: Entry, form: str) -> str:
    if entry.encoding in _FORMS:
        return f"_{form}"
    shared = entry.name.lower().endswith(("_e64", "c_co_u32", "b_co_u32", "v_co_u32"))
    shared = shared or entry.name.lower() in ("v_add_co_u32", "v_sub_co_u32")
    return "_e64" if shared and entry.encoding in ("VOP3", "VOP3SD") else ""


def _tail(case_modifiers: dict[str, Any], form: str) -> str:
    words = []
    for name in ("op_sel", "op_sel_hi", "neg_lo", "neg_hi"):
        bits = case_modifiers.get(name)
        if bits and (any(bits) or name == "op_sel_hi"):
            words.append(f"{name}:[{','.join(map(str, bits))}]")
    if case_modifiers.get("clamp"):
        words.append("clamp")
    if case_modifiers.get("omod"):
        words.append(case_modifiers["omod"])
    if "bitop3" in case_modifiers:
        words.insert(0, f"bitop3:{case_modifiers['bitop3']:#x}")
    if form == "sdwa":
        names = ["dst_sel", "dst_unused", "src0_sel", "src1_sel"]
        words += [f"{name}:{case_modifiers[name]}" for name in names if name in case_modifiers]
    if form == "dpp":
        name, count = case_modifiers["dpp"]
        if isinstance(count, tuple):
            words.append(f"{name}:[{','.join(map(str, count))}]")
        else:
            words.append(name if count is None else f"{name}:{count}")
        words.append(f"row_mask:{case_modifiers['row_mask']:#x}")
        words.append(f"bank_mask:{case_modifiers['bank_mask']:#x}")
        words += ["bound_ctrl:0"] * case_modifiers["bound_ctrl"]
    return " ".join(words)


def _destinations(mnemonic: str, entry: Entry, form: str) -> list[str]:
    field = entry.fields.get("vdst")
    names = []
    if field is None or field.what in ("SREG", "SDST", "SREG_NOVCC"):
        scalar = "s30" if field is not None and field.bits == 32 else "s[30:31]"
        names.append("vcc" if entry.encoding == "VOPC" and form == "e32" else scalar)
    else:
        names.append(f"v[{DST}:{DST + 1}]" if field.bits == 64 else f"v{DST}")
    if "_co_" in mnemonic or "sdst" in entry.fields:
        names.append("s[30:31]" if entry.encoding == "VOP3SD" else "vcc")
    return names


def _assemble(
    mnemonic: str, entry: Entry, form: str, sources: list[Source], modifiers: dict[str, Any]
) -> Case:
    fields = source_fields(entry)
    words = [spell(source, field) for source, field in zip(sources, fields, strict=True)]
    literal = modifiers.get("simm32", 0)
    if mnemonic.endswith(("mk_f32", "mk_f16")):
        words.insert(1, hex(literal))
    if mnemonic.endswith(("ak_f32", "ak_f16")):
        words.append(hex(literal))
    if entry.encoding == "VOP2" and mnemonic.startswith(("v_cndmask", "v_addc", "v_subb")):
        words.append("vcc")
    name = mnemonic + _suffix(entry, form)
    tail = _tail(modifiers, form)
    text = f"{name} {', '.join([*_destinations(mnemonic, entry, form), *words])} {tail}".strip()
    return Case(mnemonic, entry, form, text, tuple(sources), modifiers, literal)


def _plain(mnemonic: str, entry: Entry, form: str) -> tuple[list[Source], dict[str, Any]]:
    fields = source_fields(entry)
    sources = [
        Source("s", MASK_REGISTER) if field.format == "M64" else register(field, at)
        for at, field in enumerate(fields)
    ]
    if mnemonic in ("v_readlane_b32", "v_writelane_b32"):
        sources[1] = _scalar(fields[1])
    if mnemonic == "v_writelane_b32":
        sources[0] = _scalar(fields[0])
    modifiers: dict[str, Any] = {}
    dot = mnemonic.startswith("v_dot")  # op_sel is refused by LLVM
    packed = fields[0].format[:3] == "PK2" and not dot
    if form == "vop3p" and (packed or mnemonic.startswith("v_fma_mix")):
        modifiers = {"op_sel": (0,) * len(fields), "op_sel_hi": (1,) * len(fields)}
        if mnemonic.startswith("v_fma_mix"):
            modifiers["op_sel_hi"] = (0,) * len(fields)
    if mnemonic.startswith("v_bitop3"):
        modifiers["bitop3"] = 0xE4
    if mnemonic.startswith(("v_fmamk", "v_fmaak")):
        modifiers["simm32"] = 0x40490FDB
    if mnemonic.startswith(("v_madmk", "v_madak")):
        modifiers["simm32"] = 0x4249
    if form == "sdwa":
        if entry.encoding != "VOPC":
            modifiers |= {"dst_sel": "DWORD", "dst_unused": "UNUSED_PAD"}
        modifiers |= {f"src{at}_sel": "DWORD" for at in range(len(fields))}
    if form == "dpp":
        modifiers |= {"dpp": ("row_shl", 1), "row_mask": 15, "bank_mask": 15, "bound_ctrl": 0}
    return sources, modifiers


def base_cases(mnemonic: str, entry: Entry) -> Iterator[Case]:
    """Each encoding once, with vector registers."""
    for form in _forms(entry):
        yield _assemble(mnemonic, entry, form, *_plain(mnemonic, entry, form))


def _constants(mnemonic: str, entry: Entry, form: str, draw: random.Random) -> Iterator[Case]:
    """Each source in turn a scalar, an inline constant of either sort, a literal, a special."""
    fields = source_fields(entry)
    if form in ("sdwa", "dpp") or mnemonic in ("v_readfirstlane_b32", "v_swap_b32"):
        return
    for at, field in enumerate(fields):
        choices = [_scalar(field), Source("vcc", 0), Source("exec", 0)]
        if field.bits == 32:
            choices += [Source("m0", 0), Source("scc", 0)]
        choices += [Source("int", value) for value in draw.sample(_INTS, 2)]
        if field.format not in ("I16", "U16", "B16"):  # refused: see test_constants.py
            choices += [Source("float", value) for value in draw.sample(_FLOATS, 2)]
        if form == "e32":
            choices += [Source("literal", value) for value in draw.sample(_LITERALS[field.bits], 2)]
        if field.format == "M64":
            choices = [Source("vcc", 0)]
        for source in choices:
            sources, modifiers = _plain(mnemonic, entry, form)
            sources[at] = source
            yield _assemble(mnemonic, entry, form, sources, modifiers)


def _floating(field: Field) -> bool:
    return field.format in ("F16", "F32", "F64", "B32")


def _modified(mnemonic: str, entry: Entry, form: str, draw: random.Random) -> Iterator[Case]:
    """Source modifiers, op_sel, clamp and output modifiers of VOP3 and SDWA."""
    fields = source_fields(entry)
    if form == "e32":
        return
    for _ in range(6):
        sources, modifiers = _plain(mnemonic, entry, form)
        for at, field in enumerate(fields):
            if sources[at].kind == "v" and _floating(field) and draw.random() < 0.7:
                sources[at] = sources[at]._replace(
                    negate=draw.random() < 0.5, absolute=draw.random() < 0.4
                )
        if form == "e64":
            if any(field.bits == 16 for field in fields) and draw.random() < 0.6:
                modifiers["op_sel"] = tuple(draw.randrange(2) for _ in range(len(fields) + 1))
            target = entry.fields.get("vdst")
            if target is not None and "F" in target.format:
                modifiers["clamp"] = draw.random() < 0.3
                modifiers["omod"] = draw.choice((None, None, "mul:2", "mul:4", "div:2"))
        if form == "vop3p":
            sources = _vop3p(mnemonic, entry, sources, modifiers, draw)
        if mnemonic.startswith("v_bitop3"):
            modifiers["bitop3"] = draw.randrange(256)
        if form == "sdwa":
            sources = _sdwa(entry, sources, modifiers, draw)
        if form == "dpp":
            _dpp(modifiers, draw)
        yield _assemble(mnemonic, entry, form, sources, modifiers)


def _vop3p(
    mnemonic: str,
    entry: Entry,
    sources: list[Source],
    modifiers: dict[str, Any],
    draw: random.Random,
) -> list[Source]:
    fields = source_fields(entry)
    count = len(fields)
    packed = fields[0].format.startswith("PK2") and not mnemonic.startswith("v_dot")
    mix = mnemonic.startswith("v_fma_mix")
    if not mix:
        sources = [source._replace(negate=False, absolute=False) for source in sources]
    if packed or mix:
        modifiers["op_sel"] = tuple(draw.randrange(2) for _ in range(count))
        modifiers["op_sel_hi"] = tuple(draw.randrange(2) for _ in range(count))
    target = entry.fields["vdst"].format
    if packed and fields[0].format.startswith("PK2_F"):
        for name in ("neg_lo", "neg_hi"):
            modifiers[name] = tuple(draw.randrange(2) for _ in range(count))
    if "F" in target and mnemonic != "v_pk_mov_b32":
        modifiers["clamp"] = draw.random() < 0.2
    if draw.random() < 0.6:
        at = draw.randrange(count)
        kind = draw.choice(("s", "int", "float", "float"))
        value: Any = draw.choice(_INTS if kind == "int" else _FLOATS)
        source = _scalar(fields[at]) if kind == "s" else Source(kind, value)
        assert constant_image(value, fields[at]) is not None or kind == "s"
        sources[at] = source
    return sources


_SELECTS = ("BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3", "WORD_0", "WORD_1", "DWORD")


def _sdwa(
    entry: Entry, sources: list[Source], modifiers: dict[str, Any], draw: random.Random
) -> list[Source]:
    fields = source_fields(entry)
    found = []
    for at, (source, field) in enumerate(zip(sources, fields, strict=True)):
        if draw.random() < 0.2:
            source = _scalar(field)._replace(negate=source.negate, absolute=source.absolute)
        select = draw.choice(_SELECTS)
        integer = not field.format.startswith(("F", "BF"))
        sext = integer and draw.random() < 0.4
        modifiers[f"src{at}_sel"] = select
        if integer:
            source = source._replace(negate=False, absolute=False)
        found.append(source._replace(select=select, sext=sext))
    if "dst_sel" in modifiers:
        modifiers["dst_sel"] = draw.choice(_SELECTS)
        modifiers["dst_unused"] = draw.choice(("UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE"))
        if "F" in entry.fields["vdst"].format:
            modifiers["clamp"] = draw.random() < 0.2
            modifiers["omod"] = draw.choice((None, None, "mul:2", "div:2"))
    return found


_DPP = ("row_shl", "row_shr", "row_ror", "quad_perm", "row_mirror", "row_half_mirror",
        "row_bcast", "row_newbcast", "wave_shl", "wave_rol", "wave_shr", "wave_ror")  # fmt: skip


def _dpp(modifiers: dict[str, Any], draw: random.Random) -> None:
    name = draw.choice(_DPP)
    count: Any = draw.randrange(1, 16)
    if name == "quad_perm":
        count = tuple(draw.randrange(4) for _ in range(4))
    elif name.endswith("mirror"):
        count = None
    elif name == "row_bcast":
        count = draw.choice((15, 31))
    elif name.startswith("wave"):
        count = 1
    modifiers["dpp"] = (name, count)
    modifiers["row_mask"] = draw.choice((15, 15, 10, 5, 12))
    modifiers["bank_mask"] = draw.choice((15, 15, 3, 14))
    modifiers["bound_ctrl"] = draw.randrange(2)


def more_cases(mnemonic: str, entry: Entry, draw: random.Random) -> Iterator[Case]:
    """The same with constants and modifiers, drawn at random."""
    for form in _forms(entry):
        yield from _constants(mnemonic, entry, form, draw)
        yield from _modified(mnemonic, entry, form, draw)
