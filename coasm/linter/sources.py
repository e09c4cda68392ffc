"""What lint reads: a code object, or a listing with its lines, as a program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from coasm.asm.decode import decode
from coasm.asm.source import NO_OPTIONS, SourceOptions
from coasm.codeobject import CodeObject, load
from coasm.codeobject.elf import STT_FUNC
from coasm.errors import UnsupportedError
from coasm.kernels import find_kernel, kernels_of
from coasm.linter.program import Program, build_program
from coasm.llvm.run import TRUE16, has_true16

__all__ = ["Source", "listing_source", "object_source", "open_source"]


class Source(NamedTuple):
    """A program by the *name* that a user gave it.

    ``text`` are the lines of its listing, none of a code object, and ``files`` those of the files
    that it includes; ``remark`` says why its lines are not known where they are not. ``notes`` are
    what the source does not say and was taken for granted. ``renamed``: kernel → what it is called
    in what is compared with this.
    """

    name: str
    program: Program
    text: tuple[str, ...] = ()
    remark: str | None = None
    files: Mapping[str, tuple[str, ...]] = {}
    notes: tuple[str, ...] = ()
    renamed: Mapping[str, str] = {}


def open_source(
    spec: str,
    llvm: str | None = None,
    kernel: str | None = None,
    options: SourceOptions = NO_OPTIONS,
    *,
    original: bool = False,
) -> Source:
    """The program of what *spec* names (see :mod:`coasm.opening`).

    Of the *original* of a source that *options* are for, an object may be given: it needs none.

    Raises:
        CoasmError: as :func:`object_source` and :func:`listing_source`, or it cannot be read.
    """
    from coasm.opening import read_given

    given = read_given(spec)
    if given.listing:
        return listing_source(given.text, given.name, llvm, kernel, options)
    if not original:
        options.refuse(given.name)
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
    text: str,
    name: str = "<listing>",
    llvm: str | None = None,
    kernel: str | None = None,
    options: SourceOptions = NO_OPTIONS,
) -> Source:
    """The program of a listing, as ``coasm asm`` builds it, with the line of each instruction.

    Raises:
        CoasmError: it cannot be assembled, or has no such kernel.
    """
    from coasm.asm.lines import Line, Spot, is_plain, lines_of_data
    from coasm.asm.source import build

    made = build(text, name, options, llvm)
    co = made.co
    kernel = _named(co, kernel, llvm)
    extra = (TRUE16,) if has_true16(co.target) else ()
    code = decode(co, made.llvm, extra=extra)
    lines = dict(made.lines)
    split = tuple(text.split("\n"))
    if lines and is_plain(text):
        numbers = {address: line.root for address, line in lines.items()}
        for address, line in lines_of_data(numbers, code.values(), split).items():
            lines[address] = Line(line, Spot(name, line))
    remark = None
    if not lines and any(code.values()):
        remark = "its lines cannot be told"
    program = build_program(co, code, lines=lines, name=name, kernel=kernel)
    files = {file.path: tuple(file.text.split("\n")) for file in made.source.files.values()}
    return Source(name, program, split, remark, files, co.remarks)


def _named(co: CodeObject, name: str | None, llvm: str | None) -> str | None:
    """The kernel that *name* means (see :mod:`coasm.kernels`), or the function of that name."""
    functions = (s for s in co.symbols if s.type == STT_FUNC and co.section_of(s) is not None)
    if name is None or name in (symbol.name for symbol in functions):
        return name
    if not kernels_of(co):
        raise UnsupportedError(f"{co.name}: no kernel {name!r}")
    return find_kernel(co, name, llvm).name
