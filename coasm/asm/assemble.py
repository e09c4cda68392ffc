"""A source, edited or not, → a code object: what ``coasm asm`` does."""

from __future__ import annotations

from dataclasses import dataclass, field

from coasm.asm.linking import linking_for
from coasm.asm.metadata_faults import warnings_of
from coasm.asm.source import NO_OPTIONS, SourceOptions, build
from coasm.codeobject import CodeObject, load
from coasm.llvm import Llvm
from coasm.target import TargetID

__all__ = ["Result", "assemble"]


@dataclass(frozen=True)
class Result:
    """A built code object, and what a person should know about it.

    ``pins`` counts the pinned instructions whose original encoding was restored, ``lost`` those
    that LLVM now encodes otherwise (they were edited). ``warnings`` are one line each, and so are
    ``notes``: what the source does not say and was taken for granted. ``llvm`` built it; ``co`` is
    the code object, loaded.
    """

    data: bytes
    pins: int
    lost: int
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    target: TargetID
    code_object_version: int
    llvm: Llvm
    co: CodeObject = field(compare=False, repr=False)


def assemble(
    text: str,
    llvm: str | None = None,
    *,
    name: str = "<listing>",
    like_object: CodeObject | None = None,
    options: SourceOptions = NO_OPTIONS,
) -> Result:
    """Assemble and link the source *text*; *name* stands for it in messages.

    With *like_object* the file is laid out as that object where it is not loaded. *llvm* is the
    directory of the tools.

    Raises:
        AssemblyError: the assembler or the linker refused it.
        UnsupportedError: it names no target, or one that cannot be written.
    """
    made = build(text, name, options, llvm)
    data, bare = made.linked(linking_for(text, like_object))
    co = load(data, name=name)
    warnings = [*made.warnings, *warnings_of(co, name, made.source.text)]
    target, version = made.what.target, made.what.code_object_version
    if like_object is not None:
        from coasm.asm.like import like

        kept = like(data, like_object)
        bare = bare or kept.without_debug
        linked, co = co, load(kept.data, name=name)
        co.share_metadata(linked)
        warnings += [f"not kept: {remark}" for remark in kept.remarks]
    if bare:
        warnings.append("the debug information was left out: it describes the code as it was")
    if like_object is not None and like_object.target != target:
        warnings.append(f"the listing is for {target}, the original for {like_object.target}")
    pins, lost = len(made.built.pins), len(made.built.lost)
    return Result(
        co.data, pins - lost, lost, tuple(warnings), made.notes, target, version, made.llvm, co
    )
