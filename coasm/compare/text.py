"""The text check: the bytes of the code sections, and only where they differ the instructions."""

from __future__ import annotations

import struct

from coasm.codeobject import CodeObject
from coasm.compare.data import data_places, moves
from coasm.compare.places import CodePair, Places, named
from coasm.compare.report import ABSENT, Check, Difference, Verdict
from coasm.llvm import Llvm
from coasm.target import Processor

__all__ = ["check_text"]


def check_text(
    original: CodeObject, rebuilt: CodeObject, llvm: Llvm | None = None
) -> tuple[Check, Places]:
    """The code sections, by name; and which places in them correspond.

    Equal bytes are identical, and nothing is disassembled for them, unless sections moved against
    each other and code reaches from one into another. Otherwise the kernels and functions of each
    section are paired by name, whatever their order and address, and their instructions are
    aligned and compared by their text; of a branch, or of an address that is proven to be one, not
    the label or the distance counts, but the place that it leads to. Equivalent: the same
    instructions in the same order, in encodings that differ in such distances and in bits that the
    disassembler ignores. Data is compared by its bytes. Without *llvm* one is looked for when it is
    needed.

    Raises:
        ToolError: LLVM is needed, and there is none.
        UnsupportedError: the LLVM does not know the target.
    """
    ones, others = named(original.code_sections), named(rebuilt.code_sections)
    common = [(ones[key], others[key]) for key in ones if key in others]
    findings = tuple(
        Difference(
            f"section {key[0]}",
            f"{ones[key].size} bytes" if key in ones else ABSENT,
            f"{others[key].size} bytes" if key in others else ABSENT,
        )
        for key in {**ones, **others}
        if key not in ones or key not in others
    )
    identical = not findings and all(a.data == b.data for a, b in common)
    if identical and not _reaches_out(original, rebuilt):
        pairs = tuple(CodePair.whole(a, b) for a, b in common)
        return Check(Verdict.IDENTICAL), Places(pairs, data_places(original, rebuilt).same)

    from coasm.compare.instructions import compare

    compared = compare(original, rebuilt, common, llvm)
    findings += compared.findings
    if findings or compared.hunks:
        verdict = Verdict.DIFFERENT
    else:
        verdict = Verdict.IDENTICAL if identical else Verdict.EQUIVALENT
    check = Check(verdict, findings, compared.hunks, compared.dont_care, compared.functions)
    return check, compared.places


def _reaches_out(original: CodeObject, rebuilt: CodeObject) -> bool:
    """Whether equal code may reach different places, for sections moved against each other."""
    if len(moves(original, rebuilt, data=False)) > 1:
        return True
    if len(moves(original, rebuilt, data=True)) <= 1:
        return False
    return any(_may_read_pc(s.data, original.target.processor) for s in original.code_sections)


def _may_read_pc(code: bytes, processor: Processor) -> bool:
    """Whether any word of *code* could be an instruction that reads the program counter."""
    # SOP1 is 101111101 in the topmost nine bits of a word, the opcode in bits 8 to 15.
    wanted = {0xBE800000 | opcode << 8 for opcode in processor.family.pc_opcodes}
    words = struct.unpack_from(f"<{len(code) // 4}I", code)
    return any(word & 0xFF80FF00 in wanted for word in words)
