"""16-bit instructions that name halves of VGPRs (``v3.l``, ``v3.h``), and the same without."""

from __future__ import annotations

import re

from coasm.asm.code import Code
from coasm.asm.decode import decode, features
from coasm.asm.dump import DATA_DIRECTIVES
from coasm.asm.probe import decode_bytes
from coasm.codeobject import CodeObject
from coasm.isa.kinds import is_a
from coasm.llvm import Llvm

__all__ = ["leaves_unsaid", "without_halves"]

_HALF, _LOWER = re.compile(r"\bv\d+\.[lh]\b"), re.compile(r"\b(v\d+)\.l\b")
#: GFX10 and later: the top bits of a VOP3 encoding, and its four op_sel bits.
_VOP3, _OP_SEL = 0x35, 0x7800
#: v128 to v255: the upper half of a register in the shorter encodings of 16-bit instructions.
_UPPER_HALF = re.compile(r"\bv(?:12[89]|1[3-9]\d|2\d\d)\b")


def without_halves(co: CodeObject, llvm: Llvm, code: dict[int, Code]) -> dict[int, Code] | None:
    """*code*, as :func:`~coasm.asm.decode.decode` gave it with
    :data:`~coasm.llvm.run.TRUE16`, as it is printed without.

    That differs where halves are named, and for lower ones only in that ``v3.l`` is ``v3``. None
    where it leaves something unsaid: data, or an upper half that the text does not name.
    """
    halved = {
        index: [
            at
            for at in section_code.positions(lambda name: is_a(name, "narrow"))
            if _HALF.search(section_code.texts[at])
        ]
        for index, section_code in code.items()
    }
    texts = {
        section_code.bytes_at(at): section_code.texts[at]
        for i, section_code in code.items()
        for at in halved[i]
    }
    if not texts or _names_halves(co, llvm, next(iter(texts))):
        return None if leaves_unsaid(code) else code
    if any(section_code.others.keys() & set(halved[index]) for index, section_code in code.items()):
        whole = decode(co, llvm)  # with the registers that they reach
        return None if leaves_unsaid(whole) else whole
    printed = {data: _LOWER.sub(r"\1", text) for data, text in texts.items()}
    upper = {data: text for data, text in printed.items() if _HALF.search(text)}
    if any(is_a(t.split()[0], "halves") and not _is_vop3(data) for data, t in upper.items()):
        return None  # the shorter encodings have nothing that could name it
    if upper:
        rows = decode_bytes(co, llvm, b"".join(upper), [0], ",".join(features(co))) or []
        if [size for _, size, _ in rows] != [len(data) for data in upper]:
            return None
        upper = {data: text for data, (_, _, text) in zip(upper, rows, strict=True)}
        if any(
            text.startswith(DATA_DIRECTIVES) or _leaves_out(text, data)
            for data, text in upper.items()
        ):
            return None
    printed |= upper
    found = {}
    for index, section_code in code.items():
        changed = list(section_code.texts)
        for at in halved[index]:
            changed[at] = printed[section_code.bytes_at(at)]
        found[index] = Code(
            section_code.data, section_code.start, section_code.stops, changed, section_code.others
        )
    return found


#: Processor and disassembler (there are few) → whether its own way is :data:`TRUE16`.
_DEFAULT: dict[tuple[str, str], bool] = {}


def _names_halves(co: CodeObject, llvm: Llvm, data: bytes) -> bool:
    """Whether LLVM prints halves by itself, judged by an instruction that has one."""
    key = co.target.name, llvm.objdump
    if key not in _DEFAULT:
        rows = decode_bytes(co, llvm, data, [0], ",".join(features(co))) or []
        _DEFAULT[key] = any(_HALF.search(text) for _, _, text in rows)
    return _DEFAULT[key]


def leaves_unsaid(code: dict[int, Code]) -> bool:
    """Whether something is data, or an instruction whose text leaves out a half of a register."""
    return any(section_code.undecoded for section_code in code.values()) or any(
        _leaves_out(section_code.texts[at], section_code.bytes_at(at))
        for section_code in code.values()
        for at in section_code.positions(lambda name: is_a(name, "halves"))
    )


def _leaves_out(text: str, data: bytes) -> bool:
    if "op_sel" in text or not is_a(text.partition(" ")[0], "halves"):
        return False
    if _is_vop3(data):
        return int.from_bytes(data[:4], "little") & _OP_SEL != 0 and len(data) >= 8
    return _UPPER_HALF.search(text) is not None


def _is_vop3(data: bytes) -> bool:
    return data[3] >> 2 == _VOP3
