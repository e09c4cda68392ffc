"""What lint says of each object that ``coasm asm`` makes."""

from __future__ import annotations

from coasm.codeobject import CodeObject
from coasm.errors import CoasmError
from coasm.linter.declared import text_fits
from coasm.llvm import Llvm

__all__ = ["declaration_warnings"]


def declaration_warnings(co: CodeObject, llvm: Llvm, text: str) -> list[str]:
    """Where a kernel uses more than it declares, or its declarations disagree: a line each.

    *text* is the source that the object was made from.
    """
    try:
        if text_fits(text, co):
            return []
        from coasm.asm.decode import decode
        from coasm.linter.declarations import check_declarations
        from coasm.linter.program import build_program
        from coasm.llvm.run import TRUE16, has_true16

        extra = (TRUE16,) if has_true16(co.target) else ()
        found = check_declarations(build_program(co, decode(co, llvm, extra=extra)))
    except CoasmError as error:
        return [f"the use of registers was not checked: {error}"]
    return [
        f"{finding.kernel}: "
        + ("" if finding.rule == "metadata" else f"{finding.place.address:#x}: ")
        + finding.what
        for finding in found
    ]
