"""What lint reads: a code object, or a listing with its lines, as a program."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from coasm.asm.decode import TRUE16, decode, has_true16
from coasm.codeobject import CodeObject, load
from coasm.codeobject.elf import STT_FUNC
from coasm.errors import CoasmError, FormatError, UnsupportedError
from coasm.kernels import find_kernel
from coasm.linter.program import Program, build_program, kernels_of

if TYPE_CHECKING:
    from coasm.llvm import Llvm

__all__ = ["Source", "declaration_warnings", "listing_source", "object_source", "open_source"]


class Source(NamedTuple):
    """A program by the *name* that a user gave it.

    ``text`` are the lines of its listing, none of a code object; ``remark`` says why its lines are
    not known where they are not.
    """

    name: str
    program: Program
    text: tuple[str, ...] = ()
    remark: str | None = None


def open_source(spec: str, llvm: str | None = None, kernel: str | None = None) -> Source:
    """The program of what *spec* names (see :mod:`coasm.opening`).

    Raises:
        CoasmError: as :func:`object_source` and :func:`listing_source`, or it cannot be read.
    """
    from coasm.opening import read_given

    given = read_given(spec)
    if given.listing:
        return listing_source(given.text, given.name, llvm, kernel)
    return object_source(load(given.data, name=given.name), llvm, kernel)


def object_source(co: CodeObject, llvm: str | None = None, kernel: str | None = None) -> Source:
    """The program of a code object.

    Raises:
        CoasmError: it cannot be disassembled, or has no such kernel.
    """
    from coasm.llvm import find_llvm

    kernel = _named(co, kernel, llvm)
    extra = (TRUE16,) if has_true16(co.target) else ()
    code = decode(co, find_llvm(llvm, processor=co.target.name), extra=extra)
    return Source(co.name, build_program(co, code, kernel=kernel))


def listing_source(
    text: str, name: str = "<listing>", llvm: str | None = None, kernel: str | None = None
) -> Source:
    """The program of a listing, as ``coasm asm`` builds it, with the line of each instruction.

    Raises:
        CoasmError: it cannot be assembled, or has no such kernel.
    """
    from coasm.asm.build import assemble_text, declared, link_object
    from coasm.linter.lines import has_own_lines, line_table, lines_of_data
    from coasm.llvm import find_llvm

    try:
        tools = find_llvm(llvm, processor=declared(text).target.name)
    except UnsupportedError as error:
        raise UnsupportedError(f"{name}: {error}") from None
    own = has_own_lines(text)
    built = assemble_text(name, text, tools, line_table=not own)[1]
    assert built.object is not None
    co = load(link_object(built.object, tools), name=name)
    kernel = _named(co, kernel, llvm)
    extra = (TRUE16,) if has_true16(co.target) else ()
    code = decode(co, tools, extra=extra)
    lines: dict[int, int] = {}
    remark = "it has line directives of its own"
    if not own:
        table = next((s for s in co.elf.sections if s.name == ".debug_line"), None)
        try:
            lines = line_table(table.data) if table is not None else {}
            lines.update(lines_of_data(lines, code.values(), text.split("\n")))
        except (FormatError, IndexError):
            lines, remark = {}, "its line table cannot be read"
            own = True
    program = build_program(co, code, lines=lines, kernel=kernel)
    return Source(name, program, tuple(text.split("\n")), remark if own else None)


def declaration_warnings(co: CodeObject, llvm: Llvm) -> list[str]:
    """Where a kernel uses more than it declares, or its declarations disagree: a line each.

    What ``coasm asm`` says of each object that it makes.
    """
    from coasm.linter.resources import check_declarations

    extra = (TRUE16,) if has_true16(co.target) else ()
    try:
        found = check_declarations(build_program(co, decode(co, llvm, extra=extra)))
    except CoasmError as error:
        return [f"the use of registers was not checked: {error}"]
    return [
        f"{finding.kernel}: "
        + ("" if finding.rule == "metadata" else f"{finding.place.address:#x}: ")
        + finding.what
        for finding in found
    ]


def _named(co: CodeObject, name: str | None, llvm: str | None) -> str | None:
    """The kernel that *name* means (see :mod:`coasm.kernels`), or the function of that name."""
    functions = (s for s in co.symbols if s.type == STT_FUNC and co.section_of(s) is not None)
    if name is None or name in (symbol.name for symbol in functions):
        return name
    if not kernels_of(co):
        raise UnsupportedError(f"{co.name}: no kernel {name!r}")
    return find_kernel(co, name, llvm).name
