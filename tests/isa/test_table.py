"""Each row of the instruction table against LLVM's own descriptions and AMD's operand tables."""

from __future__ import annotations

import importlib
import re
import subprocess

import pytest
from llvm_instructions import Decoded, decoded, described, plain

from coasm.isa.table import INSTRUCTION_SETS, Opcode, Slot, mnemonics, opcode
from coasm.isa.text import split_operands
from coasm.llvm import find_llvm

#: 16-bit instructions of GFX11 and GFX12 name halves of registers with this feature only.
_HALVES = {"1100": "+real-true16", "1150": "+real-true16"}
_HALVES |= {"1200": "+real-true16", "1250": "+real-true16"}

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
    found = described(f"gfx{name}")
    return found + (described(f"gfx{name}", _HALVES[name]) if name in _HALVES else ())


@pytest.mark.slow
@pytest.mark.parametrize("name", INSTRUCTION_SETS)
def test_the_mnemonics_are_those_that_llvm_decodes(name: str) -> None:
    found = {plain(one) for one in decoded(f"gfx{name}")}
    if name in _HALVES:
        found |= {plain(one) for one in decoded(f"gfx{name}", _HALVES[name])}
    rows = mnemonics(name)
    assert found - rows == set()
    for left in sorted(rows - found):
        text = f"{left} {(_IN_GFX12 if name[:2] == '12' else {}).get(left, _TEXTS[left])}"
        command = [find_llvm().mc, "-triple=amdgcn--amdhsa", f"-mcpu=gfx{name}"]
        made = subprocess.run(command, input=text, capture_output=True, text=True)
        assert made.returncode == 0, made.stderr


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


def _slots(row: Opcode, count: int, text: str) -> list[Slot] | None:
    """The slots of a form with *count* operands."""
    slots = list(row.slots)
    if len(slots) > count:
        slots = [slot for slot in slots if not (slot.role in "dk" and slot.returned)]
    for kind in ("soffset", "base", "addr"):  # buffer_load v0, off, s[0:3], 0; flat_load without
        if len(slots) > count:
            slots = [slot for slot in slots if slot.kind != kind]
    return slots if len(slots) == count else None


@pytest.mark.slow
@pytest.mark.parametrize("name", INSTRUCTION_SETS)
def test_roles_and_sizes_are_those_of_llvm(name: str) -> None:
    wrong = set()
    for one in _instructions(name):
        if " :: " in one.text:
            continue
        mnemonic = plain(one.text.partition(" ")[0])
        row = opcode(mnemonic, name)
        assert row is not None, one.text
        by_llvm = _operands(one)
        slots = _slots(row, len(by_llvm), one.text)
        if slots is None:
            wrong.add(f"{one.text}: {row.slots}")
            continue
        for slot, (role, dwords) in zip(slots, by_llvm, strict=True):
            if role not in "-?" and not _same_role(slot, role):
                wrong.add(f"{mnemonic}: {slot} is {role}: {one.text}")
            if dwords is not None and not _same_size(slot, dwords):
                wrong.add(f"{mnemonic}: {slot} has {dwords}: {one.text}")
    assert not wrong, "\n".join(sorted(wrong))


def _same_role(slot: Slot, role: str) -> bool:
    return slot.role == role


def _same_size(slot: Slot, dwords: int) -> bool:
    bits = slot.bits
    return bits is None or max(-(-bits // 32), 1) == max(dwords, 1)
