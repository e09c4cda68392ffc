"""coasm: AMD GPU code objects to editable assembly and back, byte for byte.

Example::

    import coasm

    co = coasm.load("kernel.co")
    listing = coasm.disassemble(co)          # listing.text assembles to the same bytes
    edited = listing.text.replace("s_nop 0", "s_nop 1")
    result = coasm.assemble(edited, like=co)  # result.data is the new code object
    report = coasm.verify(co, coasm.load(result.data))
    print(report.equivalent, report.checks["text"].verdict)

Every function takes ``llvm=``, the directory of the LLVM tools; without it they are looked for as
``coasm doctor`` shows. What a user can act on is raised as :class:`~coasm.errors.CoasmError`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from coasm.errors import CoasmError, EditError

if TYPE_CHECKING:
    from typing import Any

    from coasm.asm.assemble import Result
    from coasm.asm.exact import Exact
    from coasm.compare import Report
    from coasm.editing import Module
    from coasm.flow.loops import Loop
    from coasm.inspect import Argument
    from coasm.launch import run, run_f4gemm, run_family, run_spec
    from coasm.linter.findings import Finding
    from coasm.reading.cfg import Block, Cfg, Edge
    from coasm.reading.descriptor import KernelDescriptor
    from coasm.reading.instruction import Instruction, Operand
    from coasm.reading.liveness import Liveness, LiveRegisters
    from coasm.reading.objects import CodeObject, Kernel
    from coasm.reading.swap import Swap
    from coasm.trips import RoundTrip

__all__ = [
    "Argument",
    "Block",
    "Cfg",
    "CoasmError",
    "CodeObject",
    "Edge",
    "EditError",
    "Exact",
    "Finding",
    "Instruction",
    "Kernel",
    "KernelDescriptor",
    "Layout",
    "LiveRegisters",
    "Liveness",
    "Loop",
    "Module",
    "Operand",
    "Report",
    "Result",
    "RoundTrip",
    "Swap",
    "assemble",
    "disassemble",
    "layout",
    "lint",
    "load",
    "roundtrip",
    "run",
    "run_f4gemm",
    "run_family",
    "run_spec",
    "verify",
]

__version__ = "0.1.0"

#: The names of other rooms, imported when they are first asked for: commands start faster.
_ELSEWHERE = {
    "Argument": "coasm.inspect",
    "Block": "coasm.reading.cfg",
    "Cfg": "coasm.reading.cfg",
    "CodeObject": "coasm.reading.objects",
    "Edge": "coasm.reading.cfg",
    "Exact": "coasm.asm.exact",
    "Finding": "coasm.linter.findings",
    "Instruction": "coasm.reading.instruction",
    "Layout": "coasm.matrices",
    "Kernel": "coasm.reading.objects",
    "KernelDescriptor": "coasm.reading.descriptor",
    "LiveRegisters": "coasm.reading.liveness",
    "Liveness": "coasm.reading.liveness",
    "Loop": "coasm.flow.loops",
    "Module": "coasm.editing",
    "Operand": "coasm.reading.instruction",
    "Report": "coasm.compare",
    "Result": "coasm.asm.assemble",
    "RoundTrip": "coasm.trips",
    "Swap": "coasm.reading.swap",
    "layout": "coasm.matrices",
    "run": "coasm.launch",
    "run_f4gemm": "coasm.launch",
    "run_family": "coasm.launch",
    "run_spec": "coasm.launch",
}


def __getattr__(name: str) -> Any:
    if name in _ELSEWHERE:
        from importlib import import_module

        return getattr(import_module(_ELSEWHERE[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def load(
    source: str | os.PathLike[str] | bytes,
    *,
    name: str | None = None,
    llvm: str | None = None,
    target: str | None = None,
    code_object_version: int | None = None,
    include: Sequence[str] = (),
    defsym: Sequence[str] = (),
) -> CodeObject:
    """The code object that *source* names, or whose bytes it is; *name* stands for it in messages.

    A name is the path of a code object or of a listing (``.s``, assembled as :func:`assemble` does
    it), or ``LIBRARY:TARGET``, ``LIBRARY:TARGET#N`` for one inside of an executable or library.
    Every function that takes a code object takes the same. *target* and what follows are for a
    listing, as :func:`assemble` takes them.

    ``kernels`` of the result can be asked about their code (:class:`Kernel`), which is decoded when
    first asked for.

    Raises:
        CoasmError: it is not there, damaged, of a kind that is not handled, or ambiguous.
    """
    from coasm.opening import open_code_object
    from coasm.reading.objects import readable

    options = None
    if target or code_object_version or include or defsym:
        from coasm.asm.source import SourceOptions

        options = SourceOptions(target, code_object_version, tuple(include), tuple(defsym))
    return readable(open_code_object(source, name=name, llvm=llvm, options=options), llvm)


def disassemble(
    source: CodeObject | str | os.PathLike[str] | bytes, *, llvm: str | None = None
) -> Exact:
    """The listing of a code object, checked: its ``text`` assembles to the object's bytes.

    Raises:
        CoasmError: the object cannot be read, or holds what no listing can say.
    """
    from coasm.asm.exact import exact_listing
    from coasm.llvm import find_llvm
    from coasm.opening import open_code_object

    co = open_code_object(source, llvm=llvm)
    return exact_listing(co, find_llvm(llvm, processor=co.target.name))


def assemble(
    text: str,
    *,
    like: CodeObject | str | os.PathLike[str] | bytes | None = None,
    llvm: str | None = None,
    name: str = "<listing>",
    target: str | None = None,
    code_object_version: int | None = None,
    include: Sequence[str] = (),
    defsym: Sequence[str] = (),
) -> Result:
    """Assemble and link a source, coasm's or another; ``data`` of the result is the code object.

    With *like* what is not loaded is laid out as in that object. *target* (``gfx942:xnack-``) and
    *code_object_version* are for a source that does not say them, *include* are folders that it
    includes from, *defsym* symbols as ``NAME=VALUE``.

    Raises:
        CoasmError: the assembler or the linker refused it; the text has their messages.
    """
    from dataclasses import replace

    from coasm.asm.assemble import assemble as build
    from coasm.asm.source import SourceOptions
    from coasm.linter.built import declaration_warnings
    from coasm.opening import open_code_object
    from coasm.reading.objects import readable

    options = SourceOptions(target, code_object_version, tuple(include), tuple(defsym))
    original = None if like is None else open_code_object(like, llvm=llvm)
    result = build(text, llvm, name=name, like_object=original, options=options)
    warnings = declaration_warnings(result.co, result.llvm, text)
    co = readable(result.co, llvm)
    return replace(result, warnings=(*result.warnings, *warnings), co=co)


def verify(
    original: CodeObject | str | os.PathLike[str] | bytes,
    rebuilt: CodeObject | str | os.PathLike[str] | bytes,
    *,
    kernel: str | None = None,
    llvm: str | None = None,
) -> Report:
    """Compare two code objects: header, descriptors, text, metadata, loaded image, file.

    With *kernel*, a symbol, demangled name or part of one, that kernel's own code, descriptor and
    metadata alone. LLVM is needed only where the code bytes differ.

    Raises:
        CoasmError: one of them cannot be read, or the code cannot be compared.
    """
    from coasm.compare import verify as compare
    from coasm.llvm import find_llvm
    from coasm.opening import open_code_object

    first, second = (open_code_object(one, llvm=llvm) for one in (original, rebuilt))
    tools = find_llvm(llvm, processor=first.target.name) if llvm is not None else None
    if kernel is not None:
        from coasm.compare import verify_kernel
        from coasm.kernels import find_kernel

        return verify_kernel(first, second, find_kernel(first, kernel, llvm), tools)
    return compare(first, second, tools)


def lint(
    source: CodeObject | str | os.PathLike[str] | bytes,
    *,
    kernel: str | None = None,
    advice: bool = False,
    llvm: str | None = None,
    target: str | None = None,
    code_object_version: int | None = None,
    include: Sequence[str] = (),
    defsym: Sequence[str] = (),
    since: CodeObject | str | os.PathLike[str] | bytes | None = None,
) -> list[Finding]:
    """What an edit can break and no assembler checks, by address; empty where nothing is found.

    A string that holds a line feed is the text of a listing, any other the path of a listing or of
    a code object (``coasm lint --help`` says which is which); bytes are a code object's. With
    *kernel* only what that kernel reaches is judged, with *advice* findings of that level are there
    too. With *since*, the original of what was edited, they are those that it does not have, of
    either level. On targets before gfx900 only resources and operands are checked.
    *target* and what follows are for a source, as :func:`assemble` takes them.

    Raises:
        CoasmError: it cannot be read, assembled or disassembled; or has no such kernel.
    """
    from coasm.asm.source import SourceOptions
    from coasm.linter.lint import lint as findings

    options = SourceOptions(target, code_object_version, tuple(include), tuple(defsym))
    return findings(source, kernel=kernel, advice=advice, llvm=llvm, options=options, since=since)


def roundtrip(
    source: CodeObject | str | os.PathLike[str] | bytes, *, llvm: str | None = None
) -> RoundTrip:
    """Take a code object through disassembly, assembly and comparison.

    Raises:
        CoasmError: it cannot be listed, assembled or compared.
    """
    from coasm.llvm import find_llvm
    from coasm.opening import open_code_object
    from coasm.trips import roundtrip as trip

    co = open_code_object(source, llvm=llvm)
    return trip(co, find_llvm(llvm, processor=co.target.name))
