"""Each row of the instruction table against LLVM's own descriptions and AMD's operand tables."""

from __future__ import annotations

import importlib
import re
import subprocess

import pytest

from coasm.counters import GFX9
from coasm.isa.flow import flow_of
from coasm.isa.table import INSTRUCTION_SETS, Opcode, Slot, mnemonics, opcode
from coasm.isa.text import split_operands
from coasm.isa.waits import counted_as
from coasm.llvm import find_llvm
from coasm.target import PROCESSORS
from tests.isa.llvm_instructions import Decoded, decoded, described, descriptions, plain

#: 16-bit instructions of GFX11 and GFX12 name halves of registers with this feature only.
_HALVES = {"1100": "+real-true16", "1150": "+real-true16"}
_HALVES |= {"1200": "+real-true16", "1250": "+real-true16"}

#: Both tests of a set on one worker, so that it is decoded once.
_EACH = pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow, pytest.mark.xdist_group(f"set {name}")])
        for name in INSTRUCTION_SETS
    ],
)

#: What takes two fields that have to fit together, and is not found by trying opcodes.
_TEXTS = {
    "v_mfma_scale_f32_16x16x128_f8f6f4": "v[0:3], v[8:15], v[16:23], v[0:3], v4, v5",
    "v_mfma_scale_f32_32x32x64_f8f6f4": "v[0:15], v[16:23], v[24:31], v[0:15], v4, v5",
    "v_wmma_scale_f32_16x16x128_f8f6f4": "v[0:7], v[16:31], v[32:47], v[0:7], v8, v9",
    "v_wmma_scale16_f32_16x16x128_f8f6f4": "v[0:7], v[16:31], v[32:47], v[0:7], v[8:9], v[10:11]",
    "v_wmma_scale_f32_32x16x128_f4": "v[0:15], v[16:31], v[32:39], v[0:15], v40, v41",
    "v_wmma_scale16_f32_32x16x128_f4": "v[0:15], v[16:31], v[32:39], v[0:15], v[40:41], v[42:43]",
    "image_bvh_intersect_ray": "v[0:3], v[4:14], s[0:3]",
    "image_bvh64_intersect_ray": "v[0:3], v[4:15], s[0:3]",
    "image_bvh_dual_intersect_ray": "v[0:9], [v[0:1], v[2:3], v[4:6], v[7:9], v[10:11]], s[0:3]",
    "image_bvh8_intersect_ray": "v[0:9], [v[0:1], v[2:3], v[4:6], v[7:9], v10], s[0:3]",
    "tensor_load_to_lds": "s[0:3], s[8:15]",
    "tensor_store_from_lds": "s[0:3], s[8:15]",
}
_IN_GFX12 = {"image_bvh_intersect_ray": "v[0:3], [v4, v5, v[6:8], v[9:11], v[12:14]], s[0:3]"}
_IN_GFX12["image_bvh64_intersect_ray"] = "v[0:3], [v[4:5], v5, v[6:8], v[9:11], v[12:14]], s[0:3]"


def _instructions(name: str) -> tuple[Decoded, ...]:
    """All of an instruction set, halves of registers included."""
    return described(f"gfx{name}", _HALVES.get(name, ""))


@_EACH
def test_the_mnemonics_are_those_that_llvm_decodes(name: str) -> None:
    found = {plain(one) for one in decoded(f"gfx{name}", _HALVES.get(name, ""))}
    rows = mnemonics(name)
    assert found - rows == set()
    for left in sorted(rows - found):
        text = f"{left} {(_IN_GFX12 if name[:2] == '12' else {}).get(left, _TEXTS[left])}"
        command = [find_llvm().mc, "-triple=amdgcn--amdhsa", f"-mcpu=gfx{name}"]
        made = subprocess.run(command, input=text, capture_output=True, text=True)
        assert made.returncode == 0, made.stderr


def test_every_processor_has_the_instructions_of_its_set() -> None:
    others = [
        one
        for one in PROCESSORS.values()
        if one.version >= (8,) and not one.relative and one.name[3:] not in INSTRUCTION_SETS
    ]
    assert {one.name for one in others} >= {"gfx902", "gfx1036", "gfx1151", "gfx12-generic"}
    for one in others:
        found = decoded(one.name, tries=1).keys()
        assert found == decoded(f"gfx{one.family.instructions}", tries=1).keys(), one.name


_FILES = {"s": "SGPR", "v": "VGPR", "a": "AGPR"}


def _register(text: str) -> str | None:
    """LLVM's name of a printed register: ``VGPR4_VGPR5``; None for what is none."""
    text = text.strip("-|")
    match = re.fullmatch(r"(?:neg|abs|sext)\((.*)\)", text)
    text = match[1] if match else text
    match = re.fullmatch(r"([sva])(\d+)(?:\.([lh]))?", text)
    if match:
        half = {"l": "_LO16", "h": "_HI16", None: ""}[match[3]]
        return _FILES[match[1]] + match[2] + half
    match = re.fullmatch(r"([sva])\[(\d+):(\d+)\]", text)
    if match:
        return "_".join(f"{_FILES[match[1]]}{n}" for n in range(int(match[2]), int(match[3]) + 1))
    return {"m0": "M0", "null": "SGPR_NULL"}.get(text)


def _operands(one: Decoded) -> list[tuple[str, int | None]]:
    """By LLVM: role (d, s, x; - where no register is, ? where it names none) and dwords of each
    printed operand; 0 for half a register."""
    _, _, rest = one.text.partition(" ")
    parts = [part.strip() for part in split_operands(rest)] if rest else []
    if parts:
        parts[-1] = parts[-1].split(" ")[0]
    found: list[tuple[str, int | None]] = []
    used: set[int] = set()
    for part in parts:
        name = _register(part)
        if name is None:
            found.append(("?" if part.startswith(("vcc", "exec", "ttmp")) else "-", None))
            continue
        at = next(
            (
                at
                for at, operand in enumerate(one.operands)
                if at not in used and (operand == name or operand.startswith(f"{name}_gfx"))
            ),
            None,
        )
        if at is None:
            found.append(("?", None))
            continue
        used.add(at)
        written = at < one.description.defs
        role = ("x" if one.description.tied(at) else "d") if written else "s"
        size = 0 if "16" in name.split("_")[-1] else len(re.findall(r"[A-Z]GPR\d", name))
        found.append((role, size if name[1:4] == "GPR" and "NULL" not in name else None))
    return found


_RETURNS = re.compile(r"\b(sc0|glc|th:TH_ATOMIC_\w*)\b")


def _slots(row: Opcode, count: int, text: str) -> list[Slot] | None:
    """The slots of a form with *count* operands."""
    slots = list(row.slots)
    gives_nothing = row.does == "atomic" and not _RETURNS.search(text)
    if gives_nothing or re.search(r"\blds\b", text):
        slots = [slot for slot in slots if not (slot.role in "dk" and slot.returned)]
    for kind in (
        "soffset",
        "base",
        "addr",
        "mask",
        "group",
    ):  # flat_load has no base, ..., off no address
        if len(slots) > count:
            slots = [slot for slot in slots if slot.kind != kind]
    return slots if len(slots) == count else None


#: Roles that LLVM has otherwise, with the reason.
_READ_TOO = {
    **dict.fromkeys(
        ("s_bitset0_b32", "s_bitset0_b64", "s_bitset1_b32", "s_bitset1_b64"),
        "one bit of it is written; the others stay (AMD's pseudo-code: D0.u32[S0] = 1)",
    ),
    **dict.fromkeys(
        ("s_cmov_b32", "s_cmov_b64", "s_cmovk_i32"), "it is written only where SCC is set"
    ),
    **dict.fromkeys(("s_movreld_b32", "s_movreld_b64"), "M0 says which register is written"),
    "v_interp_p2_f32": "it adds to its result; LLVM ties it on GFX8 and GFX9 only",
}
#: EXEC does not switch these off, but the wait states behind a write of EXEC count them.
_WHATEVER_EXEC = ("v_readlane_b32", "v_writelane_b32", "v_movrelsd_2_b32", "v_swaprel_b32")


@_EACH
def test_roles_and_sizes_are_those_of_llvm(name: str) -> None:
    wrong = set()
    for one in _instructions(name):
        mnemonic = plain(one.text.partition(" ")[0])
        row = opcode(mnemonic, name)
        assert row is not None, one.text
        if " :: " in one.text:  # a pair, of which LLVM has one description
            continue
        by_llvm = _operands(one)
        slots = _slots(row, len(by_llvm), one.text)
        if slots is None:
            wrong.add(f"{one.text}: {row.slots}")
            continue
        for slot, (role, dwords) in zip(slots, by_llvm, strict=True):
            if role not in "-?" and not _same_role(slot, role) and mnemonic not in _READ_TOO:
                wrong.add(f"{mnemonic}: {slot} is {role}: {one.text}")
            bits = slot.bits
            if dwords is not None and bits and max(-(-bits // 32), 1) != max(dwords, 1):
                wrong.add(f"{mnemonic}: {slot} has {dwords} dwords: {one.text}")
        wrong |= _implicit(row, one, name)
        if _ends_block(one) != (flow_of(mnemonic) is not None) and mnemonic not in _FLOW_TOO:
            wrong.add(f"{mnemonic}: isa/flow.py and LLVM do not agree")
        counts = name in ("942", "950") and mnemonic not in _COUNTED_OTHERWISE
        if counts and row.does != "to_lds" and _counted(row) != _counters(one):
            wrong.add(f"{mnemonic}: isa/waits.py and LLVM do not agree")
    assert not wrong, "\n".join(sorted(wrong))


#: Bits of LLVM's flags: MCID::Call and Terminator; SIInstrFlags::VM_CNT and LGKM_CNT.
_CALL, _TERMINATOR, _VM, _LGKM = 1 << 7, 1 << 9, 1 << 32, 1 << 34
#: LLVM has no use for where these go on, or none that is not the next instruction.
_FLOW_TOO = (
    *("s_cbranch_g_fork", "s_cbranch_i_fork", "s_cbranch_join", "s_trap", "s_sethalt"),
    *("s_rfe_b64", "s_rfe_i64", "s_rfe_restore_b64"),
    "s_code_end",  # padding, which LLVM calls the end of a program
)
#: ds_nop does nothing; messages count by si-insert-waitcnts, not by the flags; LLVM after 22 counts
#: the cache instructions, with AMD's word. (Loads to LDS have both flags and count in vmcnt.)
_COUNTED_OTHERWISE = ("ds_nop", "s_sendmsg", "s_sendmsghalt", "buffer_inv", "buffer_wbl2")


def _ends_block(one: Decoded) -> bool:
    return bool(one.description.flags & (_CALL | _TERMINATOR))


def _counted(row: Opcode) -> tuple[bool, bool]:
    """Whether an instruction counts in vmcnt and lgkmcnt by :mod:`coasm.isa.waits`."""
    counters = GFX9.kinds.get(counted_as(row), {})
    return "vmcnt" in counters, "lgkmcnt" in counters


def _counters(one: Decoded) -> tuple[bool, bool]:
    """Whether an instruction, in a form that does not go to LDS, counts in vmcnt and lgkmcnt."""
    flags = one.description.target_flags
    to_lds = re.search(r"\blds\b", one.text) is not None
    return bool(flags & _VM), bool(flags & _LGKM) and not to_lds


def _same_role(slot: Slot, role: str) -> bool:
    if slot.role == "x" and slot.returned:
        return role in ("x", "s")  # by the form; LLVM ties those of images in any
    if slot.role == "k":
        return role in ("d", "x")  # LLVM ties some
    return slot.role == role


def _implicit(row: Opcode, one: Decoded, name: str) -> set[str]:
    """What the row says otherwise of the registers that no operand names."""
    description = one.description
    reads, writes = description.reads - row.reads, description.writes - row.writes
    if row.name == "s_setvskip":
        writes -= {"scc"}  # as every SOPC in LLVM; AMD's pseudo-code writes VSKIP alone
    if re.search(r"\bvcc", one.text):  # an operand in the text
        reads, writes = reads - {"vcc"}, writes - {"vcc"}
    if row.unit == "lds" and name != "801" and description.name.endswith("_vi"):
        # LLVM gives the encoding that GFX8 has too what GFX8 needs.
        later = descriptions().get(description.name.replace("_vi", "_gfx9"))
        later = later or descriptions().get(description.name.replace("_vi", "_gfx10"))
        if later is not None and "m0" not in later.reads:
            reads -= {"m0"}
    if re.search(r"\blds\b", one.text):
        reads -= {"m0"}  # the form, not the mnemonic
    more = row.reads - description.reads
    if row.name in _WHATEVER_EXEC:
        more -= {"exec"}
    if row.name in ("ds_nop", "ds_bpermute_fi_b32"):
        reads -= {"m0"}  # they use no LDS
    if row.unit == "lds" and name == "801":
        more -= {"m0"}  # ds_swizzle and the like go through no memory
    if row.unit == "scratch":
        more -= {"flat_scratch"}  # LLVM leaves it out of the loads to LDS
    more |= row.writes - description.writes
    return {f"{one.text}: {found}" for found in (reads, writes, more) if found}


@pytest.mark.parametrize(
    ("isa", "name"), [("cdna", "950"), ("rdna3", "1100"), ("rdna3", "1150"), ("rdna4", "1200")]
)
def test_sizes_and_formats_are_those_of_amd(isa: str, name: str) -> None:
    tables = "tinygrad.runtime.autogen.amd"
    pytest.importorskip(tables, reason="AMD's operand tables are in the wheel tinygrad")
    operands = importlib.import_module(f"{tables}.{isa}.operands").OPERANDS
    compared, wrong = 0, []
    for op, fields in operands.items():
        mnemonic = plain(op.name.lower())
        row = opcode(mnemonic, name)
        given = [fields[field] for field in _FIELDS if field in fields]
        if row is None or not given:
            continue
        slots = [slot for slot in row.slots if slot.role != "-" or len(given) == len(row.slots)]
        if row.does or len(slots) != len(given) or mnemonic in _ODD_IN_AMD:
            continue
        for slot, (_, bits, _) in zip(slots, given, strict=True):
            compared += 1
            if slot.bits is not None and not _fits(slot.bits, bits):
                wrong.append(f"{mnemonic}: {slot} has {bits} bits")
    assert compared > 1500
    assert not wrong, "\n".join(wrong)


#: What AMD's tables have of these is not what is in the registers.
_ODD_IN_AMD = ("s_atc_probe_buffer",)  # the destination is a constant of 8 bits
_FIELDS = ("vdst", "vdsty", "sdst", "sdata", "src0", "vsrc0", "ssrc0", "src1", "vsrc1", "ssrc1")
_FIELDS += ("src2", "vsrc2")


def _fits(bits: int, given: int) -> bool:
    """AMD counts the bits of a value, LLVM those of the registers that it is in."""
    return bits == given or (bits <= 32 and given <= 32)
