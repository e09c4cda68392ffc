"""The files that lint judges, each with its original, through a pool of processes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from coasm.asm.original import HEAD_LINES, find_original
from coasm.asm.source import NO_OPTIONS, SourceOptions
from coasm.errors import AssemblyError, CoasmError
from coasm.linter.lint import Linted, Note, judge
from coasm.linter.sources import object_source, open_source
from coasm.opening import is_listing
from coasm.trips import SUFFIXES

__all__ = ["Judged", "collect", "lint_file", "lint_files"]

#: Files that a process must have to be worth its start.
_WORTH = 3


class Judged(NamedTuple):
    """A file and what it is compared with; ``missing``: what it would have been, were it there."""

    spec: str
    since: str | None = None
    missing: str | None = None


def collect(paths: Sequence[str], since: str | None = None) -> list[Judged]:
    """The files that *paths* stand for, each with its original.

    A folder stands for the code objects and AMD GPU listings in it, a library for its code objects.
    *since* is the original of the only file, or a folder with the originals: that of a file which a
    folder among *paths* stands for lies at the same place in it, and that of another where its path
    leads from there.

    Raises:
        CoasmError: a path that is not there, a folder without a file to judge, one original for
            several files.
    """
    judged: dict[str, str] = {}
    for path in paths:
        if os.path.isdir(path):
            inside = sorted(_inside(path))
            if not inside:
                raise CoasmError(f"{path}: no code object and no AMD GPU listing in this folder")
            judged |= {
                spec: os.path.relpath(spec, path) for name in inside for spec in _named(name)
            }
        else:
            judged |= {spec: spec for spec in _named(path)}
    if since is None:
        return [Judged(spec) for spec in judged]
    if not os.path.isdir(since):
        if len(judged) > 1:
            raise CoasmError("--since compares one file with its original, or folders")
        return [Judged(spec, since) for spec in judged]
    return [_beside(since, spec, path) for spec, path in judged.items()]


def _named(path: str) -> list[str]:
    """What a user would call the code objects or the listing in a file."""
    from coasm.bundle.select import carries, specs

    return specs(path) if os.path.isfile(path) and carries(path) else [path]


def _inside(folder: str) -> Iterator[str]:
    for place, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            if name.endswith(SUFFIXES) or (name.endswith(".s") and _is_ours(path)):
                yield path


def _is_ours(path: str) -> bool:
    """Whether a file called like a listing is one of AMD's."""
    with open(path, "rb") as file:
        return is_listing("", file.read())


def _beside(folder: str, spec: str, path: str) -> Judged:
    from coasm.bundle.select import split

    if os.path.isabs(path) or path.startswith(os.pardir + os.sep):
        raise CoasmError(f"{path}: --since {folder} takes files below the working directory")
    original = os.path.join(folder, path)
    there = os.path.exists(split(original)[0])
    return Judged(spec, original) if there else Judged(spec, None, original)


def lint_file(
    judged: Judged,
    llvm: str | None = None,
    *,
    kernel: str | None = None,
    advice: bool = False,
    options: SourceOptions = NO_OPTIONS,
) -> Linted:
    """:func:`coasm.linter.lint.judge` of a file; what cannot be judged is in the result.

    Without an original to compare with, and without *advice*, it is the one that a listing's head
    names, where that is there.
    """
    spec = judged.spec
    try:
        source = open_source(spec, llvm, kernel, options)
        original = None
        if judged.since is not None:
            original = open_source(judged.since, llvm, None, options, original=True)
        elif not advice and source.text:
            co = find_original("\n".join(source.text[:HEAD_LINES]), spec)
            original = None if co is None else object_source(co, llvm)
        result = judge(source, advice=advice, original=original)
    except CoasmError as error:
        said = str(error)
        if not isinstance(error, AssemblyError) and not said.startswith((spec, "<stdin>")):
            said = f"{spec}: {said}"
        return Linted(spec, unjudged=said, refused=True)
    if judged.missing is not None and original is None:
        alone = Note(f"{judged.missing} is not there: judged without an original")
        return replace(result, notes=(alone, *result.notes))
    return result


def lint_files(
    files: Sequence[Judged],
    llvm: str | None = None,
    *,
    kernel: str | None = None,
    advice: bool = False,
    jobs: int | None = None,
    options: SourceOptions = NO_OPTIONS,
) -> Iterator[Linted]:
    """:func:`lint_file` of each of *files*, in their order; *jobs* processes (default: a core)."""
    work = partial(lint_file, llvm=llvm, kernel=kernel, advice=advice, options=options)
    from coasm.trips import cores

    jobs = min(jobs or cores(), len(files) // _WORTH)
    if jobs < 2:
        yield from map(work, files)
        return
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        try:
            yield from pool.map(work, files)
        finally:
            pool.shutdown(cancel_futures=True)
