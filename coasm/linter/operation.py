"""What the rules ask of an instruction: its kinds, and the registers in each of its roles.

Sets of registers are integers with a bit for each register number of :mod:`coasm.isa`. Some bits
stand for what is no register but is written and read like one: a hardware register, the f64 pipe.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache, lru_cache

from coasm.errors import UnsupportedError
from coasm.isa import (
    AGPR,
    EXEC,
    M0,
    VCC,
    VGPR,
    Literal,
    Operand,
    Parsed,
    Register,
    Word,
    access,
    parse,
    register_name,
)
from coasm.isa.access import slots_of, words_of
from coasm.isa.depctr import FIELDS, depctr
from coasm.isa.flow import flow_of
from coasm.isa.kinds import is_a
from coasm.isa.passes import Matrix, matrix
from coasm.isa.registers import END
from coasm.isa.table import Opcode, Slot, opcode
from coasm.target import Family

__all__ = [
    "EXEC_BITS",
    "F64_PIPE",
    "HARDWARE",
    "KINDS",
    "M0_BIT",
    "ORDER",
    "SGPRS",
    "VCC_BITS",
    "VGPRS",
    "VSKIP",
    "WRITTEN",
    "Operation",
    "kind",
    "named",
    "operation",
]

#: Vector registers, AGPRs too; scalar ones, VCC among them, without M0, EXEC and SCC.
VGPRS = (1 << END) - (1 << VGPR)
AGPRS = (1 << END) - (1 << AGPR)
SGPRS = (1 << M0) - 1
VCC_BITS = 0b11 << VCC
EXEC_BITS = 0b11 << EXEC
M0_BIT = 1 << M0
#: Behind the registers: the f64 pipe, MODE's bit that skips vector instructions, then the hardware
#: registers by their numbers.
F64_PIPE = 1 << END
VSKIP = 1 << END + 1
#: Written and read by what hazards concern whatever its registers are.
ORDER = 1 << END + 2
_HWREG = END + 3
HARDWARE = ((1 << 64) - 1) << _HWREG
_MODE, _TRAPSTS = 1, 3
#: s102 and s103, which src_flat_scratch_base is of.
_SCRATCH_BASE = 102
_VSKIP_AT = 28
_ZERO_FLAGS = {251: VCC_BITS, 252: EXEC_BITS}

#: What of the registers that an instruction writes counts for a rule, by the name in its rows.
WRITTEN = {
    "vgprs": VGPRS,
    "agprs": AGPRS,
    "arch vgprs": VGPRS & ~AGPRS,
    "sgprs": SGPRS,
    "vcc": VCC_BITS,
    "exec": EXEC_BITS,
    "m0": M0_BIT,
    "hardware register": HARDWARE,
    "f64 pipe": F64_PIPE,
    "vskip": VSKIP,
    "registers": VGPRS | SGPRS,
    "scratch base": 0b11 << _SCRATCH_BASE,
}

#: The same of what it reads, for roles.
_READ = {
    "scalar reads": SGPRS | M0_BIT | EXEC_BITS,
    "exec reads": EXEC_BITS,
    "scratch base": 0b11 << _SCRATCH_BASE,
}

#: Hardware registers by name. Source: LLVM's AMDGPUAsmUtils.cpp, the rows of GFX9 and GFX940.
_HWREGS = {
    "MODE": _MODE,
    "STATUS": 2,
    "TRAPSTS": _TRAPSTS,
    "HW_ID": 4,
    "GPR_ALLOC": 5,
    "LDS_ALLOC": 6,
    "IB_STS": 7,
    "XCC_ID": 20,
    "SQ_PERF_SNAPSHOT_DATA": 21,
    "SQ_PERF_SNAPSHOT_DATA1": 22,
    "SQ_PERF_SNAPSHOT_PC_LO": 23,
    "SQ_PERF_SNAPSHOT_PC_HI": 24,
}

#: What an instruction may be, and what a rule's table calls it: a kind is a bit, an instruction
#: has several. ``vmem`` has FLAT among it; ``load`` is what writes VGPRs from memory or LDS.
KINDS = {
    "salu": "SALU",
    "scalar_result": "SALU with operands",
    "valu": "VALU",
    "v_nop": "v_nop",
    "mfma": "MFMA",
    "xdl": "XDL MFMA",
    "sgemm": "f32 MFMA",
    "dgemm_4x4": "f64 MFMA 4x4x4",
    "dgemm_16x16": "f64 MFMA 16x16x4",
    "dgemm": "f64 MFMA",
    "wmma": "WMMA",
    "narrow_wmma": "WMMA of few bits",
    "coexecuting": "XDL WMMA",
    "agpr_read": "v_accvgpr_read",
    "agpr_write": "v_accvgpr_write",
    "dot": "v_dot",
    "trans": "transcendental",
    "vmem": "VMEM, FLAT",
    "flat": "FLAT",
    "with_descriptor": "buffer and image instructions",
    "export": "export",
    "ds": "LDS",
    "smem": "SMEM",
    "message": "message",
    "load": "load",
    "lds_dma": "load to LDS",
    "dpp": "DPP",
    "readlane": "v_readlane, v_readfirstlane",
    "lane_select": "v_readlane, v_writelane",
    "rwlane": "v_readlane, v_readfirstlane, v_writelane",
    "div_fmas": "v_div_fmas",
    "permlane": "v_permlane*",
    "permlane_swap": "v_permlane*_swap",
    "f64_fma": "v_fma_f64, v_fmac_f64",
    "sub_dword": "write of a part",
    "mix_half": "v_fma_mixlo, v_fma_mixhi",
    "constant_move": "v_mov of a constant",
    "wide_store": "wide store",
    "wide_store_soffset": "wide store, offset in an SGPR",
    "m0_reader": "add-TID, message, s_movrel",
    "setreg": "s_setreg",
    "getreg": "s_getreg",
    "setvskip": "s_setvskip",
    "rfe": "s_rfe",
    "wait": "s_waitcnt",
    "barrier": "s_barrier",
    "cache": "cache instruction",
    "vmem_cache": "cache of VMEM",
    "branch": "branch",
    "leaves": "jump, call",
    "ds_nop": "ds_nop",
    "valu_but_nop": "VALU but v_nop",
    "cmpx": "v_cmpx",
    "valu_sgpr": "VALU that writes a mask",
    "sgpr_writer": "SALU, VALU that write SGPRs",
    "tensor": "tensor transfer",
    "async_barrier": "asynchronous barrier",
    "scratch_base": "src_flat_scratch_base",
    "nsa": "long image instruction",
    "high_offset": "buffer instruction with such an offset",
    "float_atomic": "float atomic",
    "denorm_mode": "s_denorm_mode",
    "getreg_state": "s_getreg of state",
    "counter_wait": "s_waitcnt",
    "all0": "s_waitcnt of 0 for all",
    "lgkmcnt0": "s_waitcnt lgkmcnt(0)",
    "vscnt0": "s_waitcnt_vscnt of 0",
    **{f"{field}0": f"s_waitcnt_depctr depctr_{field}(0)" for field in FIELDS},
    "idle": "s_wait_alu of 0",
    "sdst0": "s_wait_alu depctr_sa_sdst(0) depctr_va_sdst(0)",
    "tensorcnt10": "s_wait_tensorcnt of 10 or less",
}
_BIT = {name: 1 << bit for bit, name in enumerate(KINDS)}


def kind(names: str) -> int:
    """The bits of the kinds in *names*, which blanks divide."""
    bits = 0
    for name in names.split():
        bits |= _BIT[name]
    return bits


#: The kinds of :mod:`coasm.isa.kinds` that rules ask for, by what they are called here.
_BY_NAME = {
    **{name: name for name in ("dot", "readlane", "div_fmas", "message", "setreg", "getreg")},
    **{name: name for name in ("setvskip", "rfe", "wait", "barrier")},
    **{"lane_select": "lane select", "rwlane": "read or write lane", "f64_fma": "f64 fma"},
    **{"permlane_swap": "permlane swap", "mix_half": "mix half", "m0_reader": "reads M0 late"},
    **{"cache": "scalar cache", "permlane": "permlane", "v_nop": "vector nop"},
    **{"agpr_read": "AGPR read", "agpr_write": "AGPR write", "float_atomic": "float atomic"},
    **{"denorm_mode": "denormals", "counter_wait": "counter wait"},
    **{"tensor": "tensor transfer", "async_barrier": "async barrier"},
}
#: Units of the table → kinds.
_BY_UNIT = {
    **{"valu": "valu", "trans": "valu trans", "smem": "smem", "salu": "salu", "matrix": "mfma"},
    **{"lds": "ds", "flat": "vmem flat", "dual": "valu", "export": "export"},
    **dict.fromkeys(("global", "scratch", "cluster", "tensor"), "vmem"),
    **dict.fromkeys(("buffer", "tbuffer", "image"), "vmem with_descriptor"),
}
#: What an s_wait_alu has to wait for so that nothing is on its way.
_IDLE = ("va_vdst", "va_sdst", "va_ssrc", "vm_vsrc", "va_vcc", "sa_sdst")
_ZERO = re.compile(r"(\w+)\(0\)")
_STATE = re.compile(r"hwreg\(HW_REG_(?:WAVE_)?(?:STATUS|STATE_PRIV|EXCP_FLAG_(?:PRIV|USER))\b")
_SCRATCH = re.compile(r"src_flat_scratch_base|hwreg\(HW_REG_(?:WAVE_)?(?:SCRATCH_BASE|FLAT_SCR)")
_HWREG_NAME = re.compile(r"hwreg\((?:HW_REG_)?(\w+)(?:,\s*(\d+),\s*(\d+))?")


@dataclass(frozen=True, eq=False, slots=True)
class Operation:
    """One instruction for the rules. Sets of registers are bits.

    ``roles`` has registers by what they are for: ``sources`` (all reads, but what is only kept),
    ``ab`` (A, B, index and scale of an MFMA), of that ``ab_last`` (the last register of an operand
    of eight), ``ab_first`` (all others) and ``ab_late`` (its last four), ``c``, ``c_apart`` (C
    without what D overlaps),
    ``data`` and ``soffset`` (of a store), ``constant`` (scalars that a VALU reads as data),
    ``mask`` (as carry-in or to select by), ``exec_data``, ``lane`` (the number of a lane),
    ``shifted`` (the source that DPP moves between lanes), ``zero_flag``. ``base`` is the mnemonic
    without its encoding; ``matrix`` is None for what is no MFMA.
    """

    base: str
    kinds: int
    reads: int
    writes: int
    roles: dict[str, int]
    matrix: Matrix | None
    modifiers: dict[str, str]
    operands: tuple[Operand, ...]

    def role(self, name: str) -> int:
        """The registers in the role *name*, which may be ``reads``, ``writes``, ``touches``."""
        if name == "reads":
            return self.reads
        if name == "writes":
            return self.writes
        if name == "touches":
            return self.reads | self.writes
        if name == "order":
            return ORDER
        if name in _READ:
            return self.reads & _READ[name]
        if name == "exec writes":
            return self.writes & EXEC_BITS
        return self.roles.get(name, 0)


@lru_cache(maxsize=1 << 16)
def operation(text: str, family: Family) -> Operation:
    """The instruction *text*, as LLVM prints it, for the rules; of a pair both as one.

    Raises:
        UnsupportedError: an operand that no target of this family has, or an unknown MFMA.
    """
    one, *more = (_operation(half.strip(), family) for half in text.split(" :: "))
    for other in more:
        roles = {
            name: one.roles.get(name, 0) | other.roles.get(name, 0)
            for name in {**one.roles, **other.roles}
        }
        one = replace(
            one,
            kinds=one.kinds | other.kinds,
            reads=one.reads | other.reads,
            writes=one.writes | other.writes,
            roles=roles,
        )
    return one


def _operation(text: str, family: Family) -> Operation:
    parsed = parse(text)
    used = access(parsed, family.instructions)
    described = opcode(parsed.mnemonic, family.instructions)
    assert described is not None  # else it has no access
    found = matrix(parsed.mnemonic, parsed.modifiers, family.wait_states)
    kinds = _by_name(described)
    if found is None and kinds & _BIT["mfma"]:
        raise UnsupportedError(f"the passes of {parsed.mnemonic} are not known")
    if found:
        kinds |= _BIT[found.pipe]
        if found.is_narrow:
            kinds |= _BIT["narrow_wmma"]
        if found.pipe == "dgemm":
            kinds |= _BIT["dgemm_4x4" if found.passes == 4 else "dgemm_16x16"]
    reads, writes = _bits(used.reads), _bits(used.writes)
    kinds |= _by_form(parsed, described, kinds, writes & VGPRS)
    slots = slots_of(described, len(parsed.operands), words_of(parsed))
    roles = _roles(parsed, described, slots, kinds, reads)
    roles["sources"] = reads & ~_bits(used.kept)
    if kinds & kind("salu smem"):
        results = zip(slots, parsed.operands, strict=True)
        roles["results"] = _registers(operand for slot, operand in results if slot.role in "dxk")
    kinds |= _by_writes(kinds, writes)
    if is_a(parsed.mnemonic, "wide") and roles["data"].bit_count() > 2:
        kinds |= _BIT["wide_store_soffset" if roles.get("soffset") else "wide_store"]
    for name, bits in (
        ("getreg", _hwreg(parsed)),
        ("rfe", 1 << (_HWREG + _TRAPSTS)),
        ("f64_fma", F64_PIPE),
        ("m0_reader", M0_BIT),
        ("valu", roles.get("zero_flag", 0)),
        ("valu", VSKIP),
        ("mfma", VSKIP),
        ("vmem", VSKIP | ORDER),
        ("ds", VSKIP | ORDER),
        ("vmem_cache", ORDER),
        ("permlane", ORDER),
        ("denorm_mode", ORDER),
        ("getreg_state", ORDER),
        ("scratch_base", 0b11 << _SCRATCH_BASE),
    ):
        reads |= bits if kinds & _BIT[name] else 0
    for name, bits in (
        ("setreg", _hwreg(parsed)),
        ("setvskip", 1 << (_HWREG + _MODE)),
        ("dgemm", F64_PIPE),
    ):
        writes |= bits if kinds & _BIT[name] else 0
    return Operation(
        parsed.mnemonic, kinds, reads, writes, roles, found, parsed.modifiers, parsed.operands
    )


@cache
def _by_name(found: Opcode) -> int:
    name = found.name
    kinds = kind(_BY_UNIT.get(found.unit, ""))
    if found.unit == "matrix" and not is_a(name, "matrix product"):
        kinds = _BIT["valu"]  # moves of AGPRs
    if is_a(name, "wave matrix product"):
        kinds = kind("valu wmma")
    flow = flow_of(name)
    if flow is not None and flow.sort in ("branch", "jump"):
        kinds |= _BIT["branch"]
    if flow is not None and flow.sort in ("jump", "call"):
        kinds |= _BIT["leaves"]
    operands = any(slot.role in "dsxk" for slot in found.slots)
    if found.unit == "salu" and not is_a(name, "any wait") and (operands or is_a(name, "setreg")):
        kinds |= _BIT["scalar_result"]
    if found.does == "cache":
        kinds = _BIT["cache"] | (_BIT["vmem_cache"] if found.unit in ("buffer", "global") else 0)
    if name == "ds_nop":
        kinds = _BIT["ds_nop"]
    for own, named in _BY_NAME.items():
        if is_a(name, named):
            kinds |= _BIT[own]
    return kinds


def _by_writes(kinds: int, writes: int) -> int:
    """The kinds that depend on what is written."""
    found = 0
    is_valu = kinds & _BIT["valu"]
    if is_valu and writes & EXEC_BITS:
        found |= _BIT["cmpx"]
    if is_valu and not kinds & _BIT["v_nop"]:
        found |= _BIT["valu_but_nop"]
    if is_valu and writes & (SGPRS | EXEC_BITS) and not kinds & _BIT["readlane"]:
        found |= _BIT["valu_sgpr"]
    if kinds & kind("salu valu") and writes & (SGPRS | M0_BIT | EXEC_BITS):
        found |= _BIT["sgpr_writer"]
    return found


def _by_form(parsed: Parsed, described: Opcode, kinds: int, written: int) -> int:
    """The kinds that are not in the mnemonic but in the modifiers and operands."""
    name, modifiers = parsed.mnemonic, parsed.modifiers
    found = 0
    if kinds & _BIT["vmem"] and ("lds" in modifiers or described.does == "to_lds"):
        found |= _BIT["lds_dma"] | _BIT["m0_reader"]
    if kinds & kind("vmem ds") and written:
        found |= _BIT["load"]
    if parsed.encoding.endswith("dpp"):
        found |= _BIT["dpp"]
    if kinds & _BIT["valu"] and _is_sub_dword(parsed):
        found |= _BIT["sub_dword"]
    if is_a(name, "move") and not isinstance(parsed.operands[-1], Register):
        found |= _BIT["constant_move"]
    if described.unit == "image" and any(_addresses(operand) > 5 for operand in parsed.operands):
        found |= _BIT["nsa"]
    if described.unit in ("buffer", "tbuffer") and parsed.number("offset") & 6:
        found |= _BIT["high_offset"]
    if kinds & _BIT["getreg"] and any(
        isinstance(operand, Word) and _STATE.match(operand.text) for operand in parsed.operands
    ):
        found |= _BIT["getreg_state"]
    if any(
        isinstance(operand, Word) and _SCRATCH.match(operand.text) for operand in parsed.operands
    ):
        found |= _BIT["scratch_base"]
    if kinds & _BIT["salu"]:
        found |= _waited_for(parsed)
    return found


def _addresses(operand: Operand) -> int:
    """How many registers a list of addresses names one by one: ``[v4, v6]``."""
    listed = isinstance(operand, Word) and operand.text.startswith("[")
    return operand.text.count(",") + 1 if isinstance(operand, Word) and listed else 0


def _waited_for(parsed: Parsed) -> int:
    """The kinds of a wait: what is no longer on its way behind it."""
    name = parsed.mnemonic
    if is_a(name, "wait on a wave"):
        counts = depctr(parsed)
        found = kind(" ".join(f"{field}0" for field, count in counts.items() if not count))
        found |= _BIT["sdst0"] if found & _BIT["sa_sdst0"] and found & _BIT["va_sdst0"] else 0
        return found | (_BIT["idle"] if not any(counts.get(field, 1) for field in _IDLE) else 0)
    zeros = {
        word
        for operand in parsed.operands
        if isinstance(operand, Word)
        for word in _ZERO.findall(operand.text)
    }
    is_zero = any(isinstance(operand, Literal) and not operand.value for operand in parsed.operands)
    found = 0
    if is_a(name, "wait for scalars"):
        found |= _BIT["lgkmcnt0"] if "lgkmcnt" in zeros or is_zero else 0
        found |= _BIT["all0"] if len(zeros) == 3 else 0
    if is_a(name, "wait for stores") and is_zero:
        found |= _BIT["vscnt0"]
    if is_a(name, "wait for tensors") and any(
        isinstance(operand, Literal) and operand.value <= 10 for operand in parsed.operands
    ):
        found |= _BIT["tensorcnt10"]
    return found


def _is_sub_dword(parsed: Parsed) -> bool:
    """Whether it writes part of a VGPR. Source: LLVM, getDstSelForwardingOperand."""
    name, modifiers = parsed.mnemonic, parsed.modifiers
    if parsed.encoding == "sdwa":
        return modifiers.get("dst_sel", "DWORD") != "DWORD" and not is_a(name, "compare")
    if is_a(name, "writes a byte"):
        return True
    if "op_sel" not in modifiers or is_a(name, "op_sel not of halves"):
        return False
    selected = [part.strip() for part in modifiers["op_sel"].strip("[]").split(",")]
    if is_a(name, "selects a byte"):
        return "1" in selected[2:]
    return selected[-1] == "1" and len(selected) >= len(parsed.operands)


def _roles(
    parsed: Parsed, described: Opcode, slots: tuple[Slot, ...], kinds: int, reads: int
) -> dict[str, int]:
    operands = parsed.operands
    results = sum(slot.role in "dx" for slot in slots)
    roles: dict[str, int] = {}
    if kinds & kind("mfma wmma"):
        sparse = is_a(parsed.mnemonic, "sparse")
        roles["c"] = _registers(operands[:1] if sparse else operands[3:4])
        roles["c_apart"] = roles["c"] & ~_registers(operands[:1])
        more = operands[3:] if sparse else operands[4:]
        if kinds & _BIT["wmma"] and not sparse:
            more = ()  # LLVM asks nothing of the scales
        roles["ab"] = _registers(operands[1:3] + more)
        roles["ab_last"] = _of_eight(operands[1:3], 7)
        roles["ab_late"] = _of_eight(operands[1:3], 4)
        roles["ab_first"] = roles["ab"] & ~roles["ab_last"]
    elif kinds & _BIT["valu"]:
        scalars = reads & SGPRS
        if slots and slots[-1].kind == "mask" and slots[-1].role == "s":
            roles["mask"] = _registers(operands[-1:]) & SGPRS
            scalars &= ~roles["mask"] | _registers(operands[results:-1])
        if kinds & _BIT["lane_select"]:
            roles["lane"] = _registers(operands[2:3])
            scalars &= ~roles["lane"] | _registers(operands[1:2])
        if kinds & _BIT["div_fmas"]:
            scalars &= ~VCC_BITS | _registers(operands)
        if kinds & _BIT["dot"]:
            roles["ab"] = _registers(operands[1:3])
        if kinds & _BIT["dpp"]:
            roles["shifted"] = _registers(operands[results : results + 1])
        roles["constant"] = scalars
        for flag, bits in _ZERO_FLAGS.items():
            if any(isinstance(operand, Register) and operand.first == flag for operand in operands):
                roles["zero_flag"] = roles.get("zero_flag", 0) | bits
        roles["exec_data"] = _registers(operands[1:]) & EXEC_BITS
    elif described.does in ("store", "atomic") and not kinds & _BIT["lds_dma"]:
        for slot, operand in zip(slots, operands, strict=True):
            if slot.role in "sx" and slot.bits is not None:
                roles["data"] = _registers((operand,)) & VGPRS
            if slot.kind == "soffset":
                roles["soffset"] = _registers((operand,))
    return roles


def _registers(operands: Iterable[Operand]) -> int:
    bits = 0
    for operand in operands:
        if isinstance(operand, Register):
            bits |= ((1 << operand.size) - 1) << operand.first
    return bits


def _of_eight(operands: Iterable[Operand], first: int) -> int:
    """The registers from number *first* on of each operand that has eight."""
    bits = 0
    for operand in operands:
        if isinstance(operand, Register) and operand.size == 8:
            bits |= ((1 << (8 - first)) - 1) << (operand.first + first)
    return bits


def _hwreg(parsed: Parsed) -> int:
    """The bit of the hardware register that an operand names, all of them where it is unknown."""
    for operand in parsed.operands:
        match = _HWREG_NAME.match(operand.text) if isinstance(operand, Word) else None
        if match:
            number = int(match[1]) if match[1].isdigit() else _HWREGS.get(match[1], 64)
            if number > 63:
                break  # a name that is not known here may be any of them
            first, size = int(match[2] or 0), int(match[3] or 32)
            skips = VSKIP if number == _MODE and first <= _VSKIP_AT < first + size else 0
            return 1 << (_HWREG + number) | skips
    return HARDWARE


def _bits(numbers: Iterable[int]) -> int:
    bits = 0
    for number in numbers:
        bits |= 1 << number
    return bits


def named(bits: int) -> str:
    """The registers in *bits* as one writes them, neighbours together: ``v[4:7], s2, vcc``."""
    found = []
    number = 0
    while bits >> number:
        if not bits >> number & 1:
            number += 1
            continue
        first = number
        ends = (VCC, VCC + 2, M0, EXEC, EXEC + 2, VGPR, AGPR, END, END + 1, END + 2, _HWREG)
        number += 1
        while bits >> number & 1 and number not in ends:
            number += 1
        found.append(_run(first, number - first))
    return ", ".join(found)


def _run(first: int, count: int) -> str:
    if 1 << first in (F64_PIPE, VSKIP):
        return "the f64 pipe" if 1 << first == F64_PIPE else "MODE.vskip"
    if first >= _HWREG:
        names = {number: name for name, number in _HWREGS.items()}
        number = first - _HWREG
        return f"hwreg({names.get(number, number)})" if count == 1 else "hardware registers"
    if count == 2 and first in (VCC, EXEC):
        return "vcc" if first == VCC else "exec"
    name = register_name(first)
    if count == 1 or not name[1:].isdigit():
        return name
    return f"{name[0]}[{name[1:]}:{int(name[1:]) + count - 1}]"
