"""Every check on one source."""

from __future__ import annotations

import os
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Union

from coasm.asm.source import NO_OPTIONS, SourceOptions
from coasm.linter.columns import with_column
from coasm.linter.findings import ERROR, Finding, Place
from coasm.linter.program import Program, parts
from coasm.linter.rules import RULES, close_rule
from coasm.linter.since import Known, split_known
from coasm.linter.sources import Source, listing_source, object_source, open_source

if TYPE_CHECKING:
    from coasm.codeobject import CodeObject

__all__ = ["Linted", "Note", "allowed_rules", "judge", "lint"]

#: What :func:`lint` takes: a code object, its bytes, a path, or the text of a listing.
Original = Union["CodeObject", str, "os.PathLike[str]", bytes]

#: Places of one kind that are noted one by one.
_NOTED = 3

# "coasm: allow RULE, RULE" behind the sign of a comment; what comes behind the names is a remark.
_ALLOW = re.compile(r"(?://|;|/\*).*?\bcoasm:\s*allow\b[ \t]*([\w-]+(?:[ \t]*,[ \t]*[\w-]+)*)?")


class Note(NamedTuple):
    """What a reader of the findings should know: about a place, a line of the listing, or all."""

    text: str
    place: Place | None = None
    line: int | None = None


@dataclass(frozen=True)
class Linted:
    """What lint says of one source.

    ``target`` is its target ID, ``instructions`` how many there are; both are None where it could
    not be read. ``left_out`` counts the advice that is not among the findings, ``allowed`` what the
    listing's comments silence. ``known`` counts what an original has too, where there is one to
    compare with. ``unjudged`` says what could not be judged; ``refused``: nothing could.
    """

    path: str
    target: str | None = None
    instructions: int | None = None
    kernels: int = 0
    findings: tuple[Finding, ...] = ()
    notes: tuple[Note, ...] = ()
    left_out: int = 0
    allowed: int = 0
    known: Known | None = None
    unjudged: str | None = None
    refused: bool = False

    @property
    def status(self) -> str:
        """``clean``, ``findings``, or ``unjudged`` where something could not be judged."""
        if self.unjudged is not None:
            return "unjudged"
        return "findings" if self.findings else "clean"


def lint(
    source: Original,
    *,
    kernel: str | None = None,
    advice: bool = False,
    llvm: str | None = None,
    options: SourceOptions = NO_OPTIONS,
    since: Original | None = None,
) -> list[Finding]:
    """See :func:`coasm.lint`; *options* are for a source."""
    opened = _open(source, llvm, kernel, options)
    original = None if since is None else _open(since, llvm, None, options, original=True)
    return list(judge(opened, advice=advice, original=original).findings)


def _open(
    source: Original,
    llvm: str | None,
    kernel: str | None,
    options: SourceOptions,
    *,
    original: bool = False,
) -> Source:
    from coasm.codeobject import CodeObject, load

    if isinstance(source, CodeObject):
        return object_source(source, llvm, kernel)
    if isinstance(source, bytes):
        return object_source(load(source), llvm, kernel)
    if isinstance(source, str) and "\n" in source:
        return listing_source(source, "<listing>", llvm, kernel, options)
    return open_source(os.fspath(source), llvm, kernel, options, original=original)


def judge(source: Source, *, advice: bool = False, original: Source | None = None) -> Linted:
    """The findings of every check on *source*, by address; with *advice* those of that level too.

    With an *original* they are those, of either level, that it does not have.

    Raises:
        UnsupportedError: an instruction whose operands are not known.
    """
    program = source.program
    advice = advice or original is not None
    found = sorted(_findings(program, advice), key=lambda f: (f.place.address, f.rule))
    known = None
    if original is not None:
        had = _findings(original.program, True)
        found, same = split_known(program, found, original.program, had, original.renamed)
        errors = sum(f.level == ERROR for f in same)
        known = Known(original.name, errors, len(same) - errors)
    allowed, notes = allowed_rules(source)
    kept = _once(f for f in found if not _is_allowed(f, allowed))
    shown = [with_column(f, source.text, source.files) for f in kept if advice or f.level == ERROR]
    return Linted(
        source.name,
        str(program.co.target),
        len(program.instructions),
        len(program.kernels),
        tuple(shown),
        (*notes, *_remarks(source), *_unfollowed(source, shown)),
        len(kept) - len(shown),
        sum(_is_allowed(f, allowed) for f in found),
        known,
        "; ".join(_unjudged(program)) or None,
    )


def _unjudged(program: Program) -> Iterator[str]:
    """What of a program was not judged: code that cannot be decoded, rules that are not there."""
    for one in program.undecoded[:_NOTED]:
        before = bisect_left(program.instructions, one.address, key=lambda i: i.address) - 1
        line = program.place(before).line if before >= 0 else None
        behind = "" if line is None else f" behind line {line}"
        yield (
            f"{one.address:#x}{behind}: {one.size} bytes that LLVM cannot decode are reached"
            + (f" in {one.kernel}" if one.kernel else "")
            + ": the code from there on was not judged"
        )
    if len(program.undecoded) > _NOTED:
        yield f"{len(program.undecoded) - _NOTED:,} more such places"
    if program.family.counters is None:
        name = program.co.target.name
        what = "waits" if program.family.wait_states else "wait states and waits"
        yield f"no rules for {what} of {name}; everything else was checked"
    sizes = {kernel.metadata.get(".wavefront_size") for kernel in program.kernels}
    if program.family.wave64_hazards and 64 in sizes:
        yield (
            f"no rules for what waves of 64 have to keep apart on {program.co.target.name}, masks "
            "that are written again and partial forwarding; everything else was checked"
        )


def _findings(program: Program, advice: bool) -> Iterator[Finding]:
    from coasm.linter.forked import forked
    from coasm.linter.high_vgprs import check_high_vgprs
    from coasm.linter.preload import check_preload
    from coasm.linter.resources import check_entries
    from coasm.trips import cores

    yield from check_entries(program)
    yield from check_preload(program)
    yield from check_high_vgprs(program)
    shares = cores() if len(program.instructions) >= _LARGE and hasattr(os, "fork") else 1
    if shares == 1:
        yield from _of_share(program, advice, 0, 1)
        return
    for found in forked(lambda share: list(_of_share(program, advice, share, shares)), shares):
        yield from found


#: Instructions from which on a program is worth a process for each core.
_LARGE = 300_000


def _of_share(program: Program, advice: bool, share: int, shares: int) -> Iterator[Finding]:
    """The findings in one of so many *shares* of the parts of *program*."""
    from coasm.linter.operands import check_operands
    from coasm.linter.resources import check_resources

    for part in parts(program, share, shares):
        yield from check_resources(part)
        yield from check_operands(part)
        if program.family.wait_states:
            from coasm.linter.rereads import check_rereads
            from coasm.linter.states import check_states

            yield from check_states(part)
            yield from check_rereads(part)
        if program.family.counters is not None:
            from coasm.linter.strict import check_strict
            from coasm.linter.waits import check_waits

            yield from check_waits(part)
            if advice:
                yield from check_strict(part)


def _once(findings: Iterable[Finding]) -> list[Finding]:
    """*findings*, of those that a macro or a repetition makes alike on one line the first."""
    found: dict[object, Finding] = {}
    for f in findings:
        key: object = f
        if f.place.line is not None:
            producer = f.producer and f.producer[1:]
            key = f.place[1:], f.rule, f.kernel, f.what, producer, f.has, f.needs
        found.setdefault(key, f)
    return list(found.values())


#: File (None: the source itself) and line → the rules that a comment there silences.
Allowed = dict[tuple[str | None, int | None], set[str]]


def _is_allowed(finding: Finding, allowed: Allowed) -> bool:
    """Whether a comment silences *finding*: where it stands, or in the body of its macro."""
    place = finding.place
    if finding.rule in allowed.get((place.file, place.line), ()):
        return True
    return place.body is not None and finding.rule in allowed.get(place.body, ())


def allowed_rules(source: Source) -> tuple[Allowed, list[Note]]:
    """The rules that comments silence, and what is wrong with those comments."""
    allowed: Allowed = {}
    notes = []
    for file, lines in ((None, source.text), *source.files.items()):
        for number, line in enumerate(lines, 1):
            match = _ALLOW.search(line) if "allow" in line else None
            if match is None:
                continue
            names = [name.strip() for name in (match[1] or "").split(",")]
            allowed[file, number] = {name for name in names if name in RULES}
            where = number if file is None else None
            at = "" if file is None else f"{file}:{number}: "
            for name in names:
                if not name:
                    notes.append(Note(f"{at}coasm: allow names no rule", line=where))
                elif name not in RULES:
                    hint = close_rule(name) or "coasm lint --list shows them"
                    notes.append(Note(f"{at}no rule {name!r} to allow; {hint}", line=where))
    return allowed, notes


def _remarks(source: Source) -> Iterator[Note]:
    yield from map(Note, source.notes)
    if source.remark is not None:
        yield Note(
            f"{source.remark}: findings have the addresses of the code object that coasm asm "
            "makes, and no comment silences them"
        )


def _unfollowed(source: Source, findings: Iterable[Finding]) -> Iterator[Note]:
    """Where flow could not be followed, but for what is a finding anyway."""
    program = source.program
    known = {finding.place.address for finding in findings if finding.rule == "branch-range"}
    starts = [program.blocks[number] for number in program.reached]
    judged = {block.last - 1 for block in starts}
    left = [
        one
        for one in program.unfollowed
        if one.at in judged and program.instructions[one.at].address not in known
    ]
    for one in left[:_NOTED]:
        place = program.place(one.at)
        yield Note(f"{place.text.split(None, 1)[0]} {one.why}: not followed", place)
    if len(left) > _NOTED:
        yield Note(f"{len(left) - _NOTED:,} more jumps and calls were not followed")
