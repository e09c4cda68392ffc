"""``coasm verify``: prove two code objects equal, or show what differs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coasm.cli.options import JsonOption, KernelOption, LlvmOption
from coasm.cli.terminal import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from coasm.compare import Check, Difference, DontCare, Function, Hunk, Line, Report

__all__ = ["verify"]

#: Findings of one kind, and rows of differing instructions, that are shown without ``--all``.
_FINDINGS, _ROWS = 12, 24
#: Changed functions that are shown without ``--all``.
_FUNCTIONS = 40
#: Characters of a value that are shown without ``--all``.
_VALUE = 160

_STYLES = {"identical": "green", "equivalent": "green", "different": "bold red"}
_MARKS = {"same": " ", "changed": "~", "branch": "~", "removed": "-", "inserted": "+"}
_MARK_STYLES = {"~": "yellow", "-": "red", "+": "green"}

_Span = tuple[str, str]  # text, style


def verify(
    original: Annotated[
        str,
        typer.Argument(
            metavar="ORIG", help="The code object to compare to; LIBRARY:TARGET for one inside."
        ),
    ],
    rebuilt: Annotated[
        str,
        typer.Argument(
            metavar="REBUILT", help="The code object to judge, or a listing: what asm makes of it."
        ),
    ],
    everything: Annotated[
        bool, typer.Option("--all", help="Show every difference, not only the first ones.")
    ] = False,
    kernel: KernelOption = None,
    llvm: LlvmOption = None,
    json: JsonOption = False,
) -> int:
    """Compare two code objects: header, kernel descriptors, text, metadata; and beside these four
    the loaded data, the loaded image, and the file.

    With --kernel that kernel's own code, descriptor and metadata are compared, and nothing else.

    \b
    Examples:
      coasm verify kernel.co kernel.rebuilt.co
      coasm verify kernel.co kernel.rebuilt.co --all | less
      coasm verify libkernels.so:gfx942 kernel.s
      coasm verify a.co b.co --json | jq .checks.text.verdict

    Exit status 0 where they are equivalent, 1 where they differ, 2 where it cannot be judged.
    """
    from coasm.compare import verify as compare
    from coasm.compare import verify_kernel
    from coasm.kernels import find_kernel
    from coasm.llvm import find_llvm
    from coasm.opening import open_code_object

    one, other = (open_code_object(spec, llvm=llvm) for spec in (original, rebuilt))
    tools = find_llvm(llvm, processor=one.target.name) if llvm is not None else None
    if kernel is None:
        report = compare(one, other, tools)
    else:
        report = verify_kernel(one, other, find_kernel(one, kernel, llvm), tools)
    if json:
        from json import dumps

        print(dumps(report.to_json(), indent=2))
    else:
        _show(_demangled(_lines(report, everything, _width()), llvm))
    return 0 if report.equivalent else 1


def _demangled(lines: Iterator[Sequence[_Span]], llvm: str | None) -> Iterator[Sequence[_Span]]:
    """*lines*, each mangled name where it first appears with what it means behind the line."""
    import re

    from coasm.demangle import demangle

    shown = [(line, re.findall(r"\b_Z\w+", "".join(text for text, _ in line))) for line in lines]
    names = demangle((name for _, found in shown for name in found), llvm)
    for line, found in shown:
        new = [name for name in dict.fromkeys(found) if name in names]
        yield [*line, *((f"  {names.pop(name)}", "dim") for name in new)]


def _width() -> int:
    """Columns of the terminal; without one as many as it takes to keep two instructions abreast."""
    from shutil import get_terminal_size

    return get_terminal_size().columns if sys.stdout.isatty() else 200


def _show(lines: Iterator[Sequence[_Span]]) -> None:
    if not sys.stdout.isatty():
        for line in lines:
            print("".join(printable(text) for text, _ in line).rstrip())
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, markup=False, emoji=False)
    for line in lines:
        console.print(
            Text.assemble(*((printable(text), style) for text, style in line)), soft_wrap=True
        )


def _lines(report: Report, everything: bool, width: int) -> Iterator[Sequence[_Span]]:
    """The whole report, line by line."""
    yield [("original  ", "dim"), (report.original, "")]
    yield [("rebuilt   ", "dim"), (report.rebuilt, "")]
    if report.kernel is not None:
        yield [("kernel    ", "dim"), (report.kernel, "")]
    yield []
    rows = [(name, c.verdict.value, _summary(c)) for name, c in report.checks.items()]
    beside = (
        ("data", not report.data, report.data, "difference"),
        ("loaded image", report.loaded_identical, report.loaded, "range"),
        ("file", report.file_identical, (), ""),
    )
    for name, same, found, what in beside if report.kernel is None else ():
        rows.append((name, "identical" if same else "different", _count(len(found), what)))
    if report.remarks:
        rows[-1] = (*rows[-1][:2], "; ".join(report.remarks))
    for name, verdict, summary in rows:
        yield [(f"{name:<13}", ""), (f"{verdict:<11}", _STYLES[verdict]), (f" {summary}", "dim")]
    yield from _functions(report.checks["text"].functions, everything)
    for name, check in report.checks.items():
        yield from _findings(name, check.findings, everything, quoted=name == "metadata")
        yield from _hunks(check.hunks, everything, width)
        if check.dont_care:
            yield []
            yield [(f"{name}: bits that differ and that the disassembler ignores", "bold")]
            yield from ([(f"  {_dont_care(row)}", "")] for row in check.dont_care)
    yield from _findings("data", report.data, everything)
    yield from _findings("loaded image", report.loaded, everything)
    yield from _findings("global symbols", report.symbols, everything)
    yield []
    yield _conclusion(report)


def _conclusion(report: Report) -> Sequence[_Span]:
    if not report.equivalent:
        return [("The two are different.", "bold red")]
    alone = report.kernel is not None and set(report.verdicts.values()) == {"identical"}
    how = "identical" if report.file_identical or alone else "equivalent"
    said: list[_Span] = [(f"The two are {how}.", "bold green")]
    if report.kernel is not None:
        said.append(("  What the kernel calls and reads was not compared.", "dim"))
    return said


def _summary(check: Check) -> str:
    parts = []
    if check.functions:
        verdicts = [function.verdict for function in check.functions]
        known = sum(verdict != "new" for verdict in verdicts)
        parts.append(f"{verdicts.count('identical'):,} of {known:,} functions identical")
        parts += (
            f"{verdicts.count(verdict):,} {verdict}"
            for verdict in ("equivalent", "different", "missing", "new")
            if verdict in verdicts
        )
    counts = {
        kind: sum(row.kind in kinds for hunk in check.hunks for row in hunk.rows)
        for kind, kinds in (
            ("changed", ("changed", "branch")),
            ("removed", ("removed",)),
            ("inserted", ("inserted",)),
        )
    }
    parts += [f"{count:,} {kind}" for kind, count in counts.items() if count]
    alone = sum(function.verdict in ("missing", "new") for function in check.functions)
    harmful = sum(not finding.harmless for finding in check.findings) - alone
    parts += filter(None, [_count(harmful, "difference")])
    if check.dont_care:
        parts.append(
            f"{_count(sum(row.instructions for row in check.dont_care), 'instruction')} "
            "in another encoding"
        )
    if not parts and check.findings:
        parts = [check.findings[0].note]
    return ", ".join(parts)


def _functions(functions: Sequence[Function], everything: bool) -> Iterator[Sequence[_Span]]:
    """The functions that changed, by name."""
    changed = [
        function
        for function in functions
        if function.verdict not in ("identical", *(() if everything else ("equivalent",)))
    ]
    if not changed:
        return
    yield []
    yield [("functions", "bold")]
    shown = changed if everything else changed[:_FUNCTIONS]
    for function in shown:
        style = _STYLES.get(function.verdict, "bold red")
        yield [(f"  {function.verdict:<11}", style), (f" {function.name}", "")]
    if len(shown) < len(changed):
        yield [(f"  and {len(changed) - len(shown):,} more (--all shows them)", "dim")]


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}" if number else ""


def _findings(
    name: str, findings: Sequence[Difference], everything: bool, *, quoted: bool = False
) -> Iterator[Sequence[_Span]]:
    if not findings:
        return
    yield []
    yield [(name, "bold")]
    shown = findings
    if not everything and len(findings) > _FINDINGS:
        shown = [finding for finding in findings if not finding.harmless][:_FINDINGS]
    for finding in shown:
        left, right = (
            _value(value, everything, quoted) for value in (finding.original, finding.rebuilt)
        )
        sides: list[_Span] = [(left, "red"), (" -> ", "dim"), (right, "green")]
        if left == right:
            sides = [(left, "")]
        note = [(f"  ({finding.note})", "dim")] if finding.note else []
        yield [(f"  {finding.place}: ", ""), *sides, *note]
    if len(shown) < len(findings):
        left_out = len(findings) - len(shown)
        what = f"and {left_out:,} more" if shown else f"{left_out:,} that mean the same"
        yield [(f"  {what} (--all shows them)", "dim")]


def _value(value: Any, everything: bool, quoted: bool) -> str:
    from coasm.compare import ABSENT

    if value is ABSENT:
        return "(absent)"
    if isinstance(value, bool) and not quoted:
        return "yes" if value else "no"
    text = repr(value) if quoted else str(value)
    return text if everything or len(text) <= _VALUE else f"{text[:_VALUE]}…"


def _hunks(hunks: Sequence[Hunk], everything: bool, width: int) -> Iterator[Sequence[_Span]]:
    differing = total = sum(row.kind != "same" for hunk in hunks for row in hunk.rows)
    left = total if everything else min(total, _ROWS)
    for hunk in hunks:
        if not left:
            break
        rows = []
        for row in hunk.rows:
            if row.kind != "same":
                if not left:
                    break
                left -= 1
                differing -= 1
            rows.append((_MARKS[row.kind], _line(row.original), _line(row.rebuilt)))
        column = max(len(one) for _, one, _ in rows)
        beside = column + max(len(other) for _, _, other in rows) + 6 <= width
        yield []
        yield [(f"{hunk.section}: {hunk.function}" if hunk.function else hunk.section, "bold")]
        for mark, one, other in rows:
            style = _MARK_STYLES.get(mark, "")
            if beside:
                yield [(f"{mark} {one:<{column}}  {mark if other else ''} {other}", style)]
            elif mark == "~":
                yield [(f"- {one}", "red")]
                yield [(f"+ {other}", "green")]
            else:
                yield [(f"{mark} {one or other}", style)]
    if differing:
        yield [(f"and {differing:,} more instructions (--all shows them)", "dim")]


def _line(line: Line | None) -> str:
    return f"{line.address:#8x}  {printable(line.text)}" if line else ""


def _dont_care(row: DontCare) -> str:
    parts = [f"bit {bit}: {count:,}" for bit, count in row.bits]
    if row.bytes:
        parts.append(_count(row.bytes, "byte"))
    parts += [f"{count:,} times {other} bytes instead of {one}" for one, other, count in row.sizes]
    return f"{row.mnemonic}: {', '.join(parts)}"
