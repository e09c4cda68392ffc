"""What LLVM knows of each instruction, from the library itself: for the tests of the table.

:func:`decoded` has LLVM's disassembler decode every opcode value of every encoding of a processor.
:func:`described` gives LLVM's own description (``MCInstrDesc``) of each instruction so found, with
its operands. LLVM's C interface has no function for the descriptions; they are plain tables behind
the disassembler's context, whose layout is that of LLVM 22 (``MCInstrDesc.h``,
``MCDisassembler/Disassembler.h``).
"""

from __future__ import annotations

import ctypes
import re
import struct
import subprocess
from functools import cache
from typing import NamedTuple

from coasm.llvm import find_llvm

#: How the operand fields of an instruction's second dword are filled; one of them suits each
#: encoding. Three registers of nine bits each, VGPRs from 256 on; or bytes.
_OFF = {"9": 0x7F, "10": 0x7D}


def _three(a: int, b: int, c: int) -> int:
    return a | b << 9 | c << 18


def _fillings(generation: str) -> list[tuple[int, int, int]]:
    """(what is added to the first dword, the second dword, the third)."""
    off = _OFF.get(generation, 0x7C)
    seconds = [
        *(0, _three(0x104, 0x108, 0x110), _three(4, 8, 0x10), _three(4, 8, 4)),
        *(0x0C000804 | off << 16, 0x100C0804, 0x03020804, 0xF8000000, 0x80020804),
        _three(0x104, 0x108, 0x110) | 3 << 27,
    ]
    found = [(0, second, 0x04040404) for second in seconds]
    if generation == "12":
        found = [(0, second, 4) for second in seconds] + [(0, second, 0) for second in seconds[:3]]
        found += [(0x7C, 0x0C000804, 4), (0x7C, 0x08000000, 4), (0x2000, 0xF8000000, 4)]
    return found


@cache
def _first_dwords() -> list[int]:
    """Every value of the bits that are opcodes in some encoding, the others 0."""
    found = []
    for high in range(1 << 18):
        word = high << 14
        if word >> 31 == 0:  # VOP2, VOPC, VOP1
            op = word >> 25 & 0x3F
            if (word >> 14) & 7 or ((word >> 17) & 0xFF and op != 0x3E):
                continue
            if op == 0x3F:
                found += [word | one << 9 for one in range(256)]
                continue
        elif word >> 30 == 2:  # SOP2, SOPK, SOP1, SOPC, SOPP
            if word >> 23 == 0b101111101:
                if not (word >> 14) & 0x1FF:
                    found += [word | one << 8 for one in range(256)]
                continue
            if (word >> 14) & 3:
                continue
            if word >> 23 not in (0b101111110, 0b101111111) and (word >> 16) & 0x7F:
                continue
        found.append(word)
    return found


@cache
def _library() -> ctypes.CDLL:
    tool = ["ldd", find_llvm().objdump]
    linked = subprocess.run(tool, capture_output=True, text=True, check=True).stdout
    match = re.search(r"libLLVM[^ ]* => (\S+)", linked)
    assert match, "llvm-objdump is not linked with libLLVM"
    library = ctypes.CDLL(match[1])
    for name in ("TargetInfo", "Target", "TargetMC", "Disassembler"):
        getattr(library, f"LLVMInitializeAMDGPU{name}")()
    text, number, pointer = ctypes.c_char_p, ctypes.c_uint64, ctypes.c_void_p
    library.LLVMCreateDisasmCPUFeatures.restype = pointer
    library.LLVMCreateDisasmCPUFeatures.argtypes = [
        *(text, text, text, pointer, ctypes.c_int, pointer, pointer)
    ]
    library.LLVMDisasmInstruction.restype = ctypes.c_size_t
    library.LLVMDisasmInstruction.argtypes = [pointer, text, number, number, text, ctypes.c_size_t]
    return library


def _context(processor: str, features: str = "") -> int:
    made: int = _library().LLVMCreateDisasmCPUFeatures(
        b"amdgcn--amdhsa", processor.encode(), features.encode(), None, 0, None, None
    )
    return made


_SUFFIX = re.compile(r"_(e32|e64|dpp8?|sdwa|e64_dpp8?)$")


def plain(mnemonic: str) -> str:
    """A mnemonic without its encoding suffix."""
    return _SUFFIX.sub("", mnemonic)


@cache
def decoded(
    processor: str, features: str = "", tries: int | None = None
) -> dict[str, tuple[bytes, ...]]:
    """Mnemonic, with suffix → encodings of it that LLVM decodes, those without a remark first.

    *tries*: of the ways to fill the operand fields only so many.
    """
    generation = "9" if processor[3] in "89" else processor[3:5]
    context = _context(processor, features)
    text = ctypes.create_string_buffer(1024)
    decode = _library().LLVMDisasmInstruction
    found: dict[str, dict[tuple[bool, int], bytes]] = {}
    for low, second, third in _fillings(generation)[:tries]:
        for word in _first_dwords():
            if low and not word >> 31:
                continue
            if word >> 16 == 0xCC33 and generation == "12" and second == 0x100C0804:
                continue  # LLVM 22 crashes
            low_bits = low | (12 if word >> 26 in (0b110100, 0b110101, 0b110011) else 0)
            data = struct.pack("<IIII", word | low_bits, second, third, 0)
            size = decode(context, data, 16, 0, text, 1024)
            if not size:
                continue
            line = text.value
            score = b"Invalid" in line, -len(set(re.findall(rb"\b[sv]\[?\d+", line)))
            for part in line.split(b" :: "):
                kept = found.setdefault(part.split(None, 1)[0].decode(), {})
                if score not in kept and len(kept) < 12:
                    kept[score] = data[:size]
    return {name: tuple(kept[score] for score in sorted(kept)) for name, kept in found.items()}


class Description(NamedTuple):
    """An ``MCInstrDesc``: ``operands`` as (register class, flags, type, constraints)."""

    name: str
    defs: int
    operands: tuple[tuple[int, int, int, int], ...]
    reads: frozenset[str]
    writes: frozenset[str]
    flags: int
    target_flags: int

    def tied(self, operand: int) -> bool:
        """Whether a source has to be the same register as the result *operand*."""
        return any(one[3] & 1 and one[3] >> 4 & 15 == operand for one in self.operands)


#: The registers that instructions use without an operand, by LLVM 22's numbers.
_IMPLICIT = {
    **{1: "asynccnt", 2: "exec", 5: "flat_scratch", 16: "mode", 19: "scc", 41: "tensorcnt"},
    **{45: "vcc", 323: "m0"},
}


@cache
def descriptions() -> dict[str, Description]:
    """LLVM's name of an instruction (``V_ADD_F32_e32_vi``) → its description."""
    context = _context("gfx942")
    # LLVMDisasmContext: a string, five words, then the pointers to its tables; MCInstrInfo is the
    # fourth of these.
    info = (ctypes.c_uint64 * 13).from_address(context)[12]
    last, indices, names, _, _, count = (ctypes.c_uint64 * 6).from_address(info)
    count &= 0xFFFF_FFFF
    starts = struct.unpack(f"<{count}I", ctypes.string_at(indices, 4 * count))
    table = ctypes.string_at(last - 32 * (count - 1), 32 * count)  # the last opcode comes first
    behind = last + 32
    found = {}
    for opcode in range(count):
        at = 32 * (count - 1 - opcode)
        number, operands, defs, _, _, uses, implicit_defs, info_at, implicit_at = (
            struct.unpack_from("<HHBBHBBHH", table, at)
        )
        assert number == opcode
        flags, target_flags = struct.unpack_from("<QQ", table, at + 16)
        name = ctypes.string_at(names + starts[opcode]).decode()
        data = ctypes.string_at(behind + 6 * info_at, 6 * operands)
        total = uses + implicit_defs
        registers = struct.unpack(
            f"<{total}H", ctypes.string_at(behind + 2 * implicit_at, 2 * total)
        )
        known = [_IMPLICIT.get(register, f"register {register}") for register in registers]
        found[name] = Description(
            name,
            defs,
            tuple(struct.iter_unpack("<hBBH", data)),
            frozenset(known[:uses]),
            frozenset(known[uses:]),
            flags,
            target_flags,
        )
    return found


class Decoded(NamedTuple):
    """An instruction as LLVM decodes it: its text, description, and operands (a register's name,
    or ``#`` and a number)."""

    text: str
    description: Description
    operands: tuple[str, ...]


_INST = re.compile(r"\t(\S.*?)\s+; <MCInst #\d+ (\w+)")
_OPERAND = re.compile(r"<MCOperand (?:Reg:(\w+)|Imm:(-?\w+)|\w+)")


@cache
def described(processor: str, features: str = "") -> tuple[Decoded, ...]:
    """All that :func:`decoded` found, with LLVM's descriptions."""
    encodings = sorted({data for kept in decoded(processor, features).values() for data in kept})
    lines = "".join("[" + ",".join(f"0x{byte:02x}" for byte in one) + "]\n" for one in encodings)
    command = [
        find_llvm().mc,
        "--disassemble",
        "-triple=amdgcn--amdhsa",
        f"-mcpu={processor}",
        "-show-inst",
    ]
    if features:
        command.append(f"-mattr={features}")
    shown = subprocess.run(command, input=lines, capture_output=True, text=True, check=True).stdout
    table = descriptions()
    found: list[tuple[str, str, list[str]]] = []
    for line in shown.splitlines():
        start = _INST.match(line)
        if start:
            # A register of a file that the operand cannot be in tells nothing of its size.
            text = re.sub(r"[^ ,]+/\*Invalid.*?\*/", "?", start[1])
            found.append((text, start[2], []))
        operand = _OPERAND.search(line)
        if operand and found:
            found[-1][2].append(operand[1] or f"#{operand[2]}")
    return tuple(Decoded(text, table[name], tuple(ops)) for text, name, ops in found)
