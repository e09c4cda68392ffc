"""One object for another target: verdicts and reasons for each kernel, and the object itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from coasm.asm.code import Code
from coasm.codeobject import CodeObject, Kernel, load
from coasm.errors import UnsupportedError
from coasm.kernels import find_kernel, kernels_of
from coasm.linter.findings import Finding
from coasm.linter.program import Program, build_program
from coasm.llvm import find_llvm
from coasm.port.collected import Collected
from coasm.port.encoding import Encoded, encoded
from coasm.port.mended import Put, mended
from coasm.port.reasons import Sides, descriptor_reasons, instruction_reasons, memory_reasons
from coasm.port.rules import NOT_PORTABLE, NOTE, OK, REVIEW, VERDICTS, Reason
from coasm.port.shares import Share, notes, share
from coasm.reading import readable
from coasm.target import PROCESSORS, Processor, processor

if TYPE_CHECKING:
    from coasm.editing import Module
    from coasm.linter.lint import Linted

__all__ = ["Ported", "PortedKernel", "port", "portable"]


#: Names that an error lists.
_SHOWN = 4


@dataclass(frozen=True)
class PortedKernel:
    """A kernel's verdict, ``ok``, ``review`` or ``not-portable``, with its reasons by address."""

    name: str
    verdict: str
    reasons: tuple[Reason, ...]
    before: Share
    after: Share


@dataclass(frozen=True)
class Ported:
    """What comes of a port.

    ``verdict`` is the worst of the kernels'. ``co`` is the object for the target, None where a
    kernel is not portable; of its ``instructions`` so many have ``other`` bytes, and ``fixes``
    were put in for wait states and waits. ``blocked`` are all the kernels that are not portable.
    """

    path: str
    source: CodeObject
    to: Processor
    kernels: tuple[PortedKernel, ...]
    co: CodeObject | None
    instructions: int
    other: int
    fixes: int = 0
    blocked: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """The worst verdict of the kernels."""
        return max((one.verdict for one in self.kernels), key=VERDICTS.index)

    @property
    def obstacle(self) -> str | None:
        """Why the object cannot be handed out; None where it can."""
        if self.co is None:
            more = ", ..." if len(self.blocked) > _SHOWN else ""
            return f"not portable: {', '.join(self.blocked[:_SHOWN])}{more}"
        if any(reason.rule == "hazard" for one in self.kernels for reason in one.reasons):
            return "it lacks wait states or waits on the target: --fix puts them in"
        return None


def portable() -> tuple[str, ...]:
    """The targets that objects are ported between: CDNA 2 to 4."""
    return tuple(
        one.name
        for one in PROCESSORS.values()
        if one.family.accum_offset and not one.generic and not one.relative
    )


def port(
    source: CodeObject,
    to: str,
    *,
    kernel: str | None = None,
    fix: bool = False,
    llvm: str | None = None,
) -> Ported:
    """Judge *source* for the target *to*, and make the object for it where there can be one.

    With *kernel* only that one is judged, while the object is still made whole. With *fix* the
    wait states and waits that the target asks for are put in.

    Raises:
        UnsupportedError: no such kernel, or targets that objects are not ported between.
        CoasmError: the object cannot be read or disassembled.
    """
    sides = _sides(source, to)
    tools = find_llvm(llvm, processor=to)
    asked = None if kernel is None else find_kernel(source, kernel, llvm).name
    if not kernels_of(source):
        raise UnsupportedError(f"{source.name}: it has no kernels to be judged")
    made = encoded(source, sides.new, tools)
    program = build_program(source, made.code)
    found = Collected(program)
    _look(found, made, sides, llvm)
    new, fixes = _result(made, program, found, fix, llvm)
    kernels = tuple(
        _judged(one, found, sides) for one in kernels_of(source) if asked in (None, one.name)
    )
    count = len(program.instructions)
    blocked = tuple(
        one.name
        for one in kernels_of(source)
        if any(reason.level == NOT_PORTABLE for reason in found.all(one))
    )
    return Ported(
        source.name, source, sides.new, kernels, new, count, len(made.other), fixes, blocked
    )


def _look(found: Collected, made: Encoded, sides: Sides, llvm: str | None) -> None:
    """Collect what is to be said before the object for the target is looked at."""
    program = found.program
    source = program.co
    found.add(instruction_reasons(program, made, sides))
    for one in program.undecoded:
        found.at(
            Reason("undecoded", one.address, "", f"{one.size} bytes that LLVM cannot decode"),
            one.address,
        )
    for kernel in program.kernels:
        for reason in descriptor_reasons(kernel, sides, source.code_object_version):
            found.of(kernel.name, reason)
    with_fp8 = {
        kernel.symbol
        for kernel in program.kernels
        if any(reason.rule == "fp8" for reason in found.all(kernel))
    }
    if with_fp8:
        read = readable(source, llvm)
        read.share_code(made.code)
        for one_kernel in read.kernels:
            if one_kernel.symbol in with_fp8:
                for reason in memory_reasons(one_kernel):
                    found.of(one_kernel.name, reason)


def _sides(source: CodeObject, to: str) -> Sides:
    names = portable()
    new = processor(to)
    for one in (source.target.processor, new):
        if one.name not in names:
            raise UnsupportedError(
                f"{source.name}: from {source.target.name} to {to}: objects are ported between "
                f"{', '.join(names[:-1])} and {names[-1]}"
            )
    if new.name == source.target.name:
        raise UnsupportedError(f"{source.name}: is for {to} already")
    return Sides(source.target.processor, new)


def _result(
    made: Encoded, program: Program, found: Collected, fix: bool, llvm: str | None
) -> tuple[CodeObject | None, int]:
    """The object for the target, linted, and what was put in; None where there can be none."""
    if any(reason.level == NOT_PORTABLE for one in program.kernels for reason in found.all(one)):
        return None, 0
    linted, there = _linted(made.co, made.new_code)
    lacks = fix and any(one.fix is not None for one in linted.findings)
    done = _mended(made.co, llvm) if lacks else None
    if done is None:
        for reason in _lint_reasons(linted, there, program):
            found.at(reason, reason.address)
        return made.co, 0
    module, lines = done
    for put in lines:
        item = program.instructions[program.index(put.address)]
        what = f"{put.text} {'in its place' if put.instead else 'before it'}"
        found.at(Reason("fixed", put.address, item.text, what), put.address)
    linted, there = _linted(module.co, module.co.code)
    for reason in _lint_reasons(linted, there, program, module.came_from):
        found.at(reason, reason.address)
    return load(module.data, name=made.co.name), len(lines)


def _mended(co: CodeObject, llvm: str | None) -> tuple[Module, list[Put]] | None:
    """*co* with what it lacks; None where lint knows the target too little to put it in."""
    try:
        return mended(co, llvm)
    except UnsupportedError:
        return None


def _linted(co: CodeObject, code: Mapping[int, Code]) -> tuple[Linted, Program]:
    from coasm.linter.lint import judge
    from coasm.linter.sources import Source

    program = build_program(co, code)
    return judge(Source(co.name, program)), program


def _lint_reasons(
    linted: Linted, there: Program, program: Program, origin: Mapping[int, int] | None = None
) -> Iterator[Reason]:
    """The errors of the result, and what of it could not be judged.

    *origin* is where its instructions are in the original *program*, where that is elsewhere.
    """
    findings = _findings_of(program) if linted.findings else ()
    had = {(one.rule, one.place.address) for one in findings}
    for finding in linted.findings:
        place = finding.place
        address = (origin or {}).get(place.address, place.address)
        rule = "old-hazard" if (finding.rule, address) in had else "hazard"
        advice = finding.advice if finding.fix is None else f"{finding.advice}; or --fix"
        what = f"lint: {finding.rule}: {finding.what}"
        yield Reason(rule, address, place.text, what, advice)
    if linted.unjudged is not None:
        for kernel in there.kernels:
            yield Reason("unjudged", kernel.entry, "", linted.unjudged, "look for it by hand")


def _findings_of(program: Program) -> Sequence[Finding]:
    """What lint says of the original, as far as it can be judged."""
    from coasm.linter.lint import judge
    from coasm.linter.sources import Source

    return judge(Source(program.co.name, program)).findings


def _judged(kernel: Kernel, found: Collected, sides: Sides) -> PortedKernel:
    """A kernel's verdict, with what is only to be known about it."""
    before, after = (share(kernel, one) for one in (sides.old, sides.new))
    reasons = [*found.all(kernel), *notes(kernel, found, sides, (before, after))]
    levels = {reason.level for reason in reasons}
    verdict = next((one for one in (NOT_PORTABLE, REVIEW) if one in levels), OK)
    order = (NOT_PORTABLE, REVIEW, NOTE)
    reasons.sort(key=lambda one: (order.index(one.level), one.address))
    return PortedKernel(kernel.name, verdict, tuple(reasons), before, after)
