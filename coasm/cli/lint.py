"""``coasm lint``: what an edit can break and no assembler checks."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from coasm.cli.options import (
    DefsymOption,
    IncludeOption,
    JsonOption,
    LlvmOption,
    TargetOption,
    VersionOption,
    source_options,
)
from coasm.cli.progress import Progress
from coasm.cli.terminal import printable
from coasm.errors import CoasmError

if TYPE_CHECKING:
    from coasm.asm.source import SourceOptions
    from coasm.linter.files import Judged
    from coasm.linter.lint import Linted
    from coasm.linter.report import Span

__all__ = ["lint", "show"]

#: One, and several advisories that are not shown.
_LEFT_OUT = ("advisory not shown (see --advice)", "advisories not shown (see --advice)")

_STYLES = {"error": "bold red", "advice": "bold yellow", "note": "bold cyan", "place": "bold"}


_Files = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="FILE...",
        help="Listings, code objects or folders of them, LIBRARY:TARGET, - for standard input.",
    ),
]
_Kernel = Annotated[
    str | None,
    typer.Option("--kernel", metavar="NAME", help="Judge only what this kernel reaches."),
]
_Advice = Annotated[
    bool,
    typer.Option("--advice", help="Show advice too: sources disagree, or a wait is too strict."),
]
_Since = Annotated[
    str | None,
    typer.Option(
        "--since",
        metavar="ORIG",
        help="Show what this original does not have, of either level; for several files "
        "a folder with theirs (default: the object that a listing's head names, if there).",
    ),
]
_Sarif = Annotated[bool, typer.Option("--sarif", help="Print a SARIF 2.1.0 log.")]
_Fix = Annotated[
    bool,
    typer.Option("--fix", help="Write the listing with the wait states and waits it lacks."),
]
_Output = Annotated[
    str | None,
    typer.Option(
        "--output", "-o", metavar="OUT.s", help="Of --fix (default: FILE.fixed.s; - is stdout)."
    ),
]
_Force = Annotated[bool, typer.Option("--force", help="Overwrite OUT.s.")]
_List = Annotated[bool, typer.Option("--list", help="List the rules.")]
_Explain = Annotated[
    str | None,
    typer.Option("--explain", metavar="RULE", help="Say what a rule is, and its numbers."),
]
_Jobs = Annotated[
    int | None, typer.Option("--jobs", "-j", min=1, help="Processes (default: one a core).")
]
_AllowUnjudged = Annotated[
    bool,
    typer.Option(
        "--allow-unjudged",
        help="Say what there are no rules for, without the exit status 2.",
    ),
]


def lint(
    files: _Files = None,
    kernel: _Kernel = None,
    advice: _Advice = False,
    since: _Since = None,
    allow_unjudged: _AllowUnjudged = False,
    json_: JsonOption = False,
    sarif: _Sarif = False,
    fix: _Fix = False,
    output: _Output = None,
    force: _Force = False,
    list_: _List = False,
    explain: _Explain = None,
    jobs: _Jobs = None,
    target: TargetOption = None,
    code_object_version: VersionOption = None,
    include: IncludeOption = None,
    defsym: DefsymOption = None,
    llvm: LlvmOption = None,
) -> int:
    """Find what an edit can break and no assembler checks: wait states, waits, registers and memory
    that the kernel does not have, operands that the hardware does not handle.

    A listing is assembled as coasm asm does it, and findings have its lines; of a code object they
    have the address. "// coasm: allow RULE" on a line silences a rule there. Where there are no
    rules for something on a target that is said, and the exit status is 2 (--allow-unjudged).

    After an edit advice matters as well: with an original, which is an object, LIBRARY:TARGET or a
    listing, everything that it does not have is shown and counts. --advice shows all, new or not.

    \b
    Examples:
      coasm lint kernel.s
      coasm lint --advice kernel.co
      coasm lint edited.s --since kernel.co
      coasm lint kernels/ --since ../main/kernels
      coasm lint hsa/ --sarif > lint.sarif
      coasm lint --allow-unjudged kernels/
      coasm lint --explain mfma-source
      coasm lint --fix kernel.s -o kernel.fixed.s

    Exit status: 0 clean, 1 findings (of what --fix leaves), 2 something could not be judged.
    """
    if list_ or explain is not None:
        return _rules(explain)
    from coasm.linter.files import collect, lint_files

    if not files:
        raise CoasmError("lint needs a FILE, --list or --explain RULE (coasm lint --help)")
    if json_ and sarif:
        raise CoasmError("--json and --sarif are two formats; give one of them")
    options = source_options(target, code_object_version, include, defsym)
    if fix:
        if len(files) > 1 or kernel is not None or sarif or since is not None:
            raise CoasmError("--fix takes one listing, whole, and no --kernel, --since or --sarif")
        return _fix(files[0], output, force, advice, json_, llvm, options)
    if output is not None or force:
        raise CoasmError("-o and --force are for --fix")
    work = partial(
        lint_files,
        llvm=llvm,
        kernel=kernel,
        advice=advice,
        jobs=jobs,
        options=options,
    )
    results = _results(collect(files, since), work, json_, sarif, allow_unjudged)
    _end(results, json_, sarif)
    if any(r.unjudged is not None and (r.refused or not allow_unjudged) for r in results):
        return 2
    return 1 if any(result.findings for result in results) else 0


def _rules(explain: str | None) -> int:
    """List the rules, or explain one."""
    from coasm.linter.rules import find_rule
    from coasm.linter.rules.explain import explained, listed

    for line in listed() if explain is None else explained(find_rule(explain)):
        print(line)
    return 0


def _end(results: Sequence[Linted], json_: bool, sarif: bool) -> None:
    """What is said when all files have been judged."""
    if sarif:
        from json import dumps

        from coasm.linter.report import sarif as log

        print(dumps(log(results), indent=2))
    if not json_ and not (len(results) == 1 and results[0].refused):
        sys.stdout.flush()
        print(_summary(results), file=sys.stderr)


def _results(
    files: Sequence[Judged],
    lint_them: Callable[[Sequence[Judged]], Iterable[Linted]],
    json_: bool,
    sarif: bool,
    allow_unjudged: bool,
) -> list[Linted]:
    """Lint *files*, and print what is found in each as soon as it is known."""
    results = []
    with Progress(len(files)) as bar:
        for result in lint_them(files):
            results.append(result)
            if json_:
                from json import dumps

                from coasm.linter.report import to_json

                print(dumps(to_json(result)), flush=True)
            elif not sarif:
                from coasm.linter.report import lines

                show(lines(result))
            if result.unjudged is not None:
                text = result.unjudged if result.refused else f"{result.path}: {result.unjudged}"
                sys.stdout.flush()
                what = "note" if allow_unjudged and not result.refused else "error"
                print(f"coasm: {what}: {printable(text, multiline=True)}", file=sys.stderr)
            bar.step(result.path)
    return results


def _fix(
    file: str,
    output: str | None,
    force: bool,
    advice: bool,
    json_: bool,
    llvm: str | None,
    options: SourceOptions,
) -> int:
    """Write *file* with what it lacks; say what that was, and what is left."""
    import os

    from coasm.linter.fix import fix
    from coasm.linter.report import finding_json, finding_line
    from coasm.opening import read_given
    from coasm.output import check_target, write_file

    if output is None:
        if file == "-":
            raise CoasmError("standard input needs -o FILE")
        output = f"{os.path.splitext(file)[0]}.fixed.s"
    check_target(output, force=force)
    given = read_given(file)
    if given.data.startswith(b"\x7fELF"):
        raise CoasmError(f"{given.name}: a code object, not a listing; coasm disasm makes one")
    name = given.name
    fixed = fix(given.text, name=name, llvm=llvm, advice=advice, options=options)
    write_file(output, fixed.text.encode("utf-8", "surrogateescape"))
    if json_ and output != "-":
        from json import dumps

        report = {
            "path": file,
            "output": output,
            "changes": [change._asdict() for change in fixed.changes],
            "left": [finding_json(finding) for finding in fixed.left],
        }
        print(dumps(report))
        return 1 if fixed.left else 0
    for change in fixed.changes:
        said = f"{change.text} before it" if change.was is None else f"{change.was} → {change.text}"
        print(printable(f"{name}:{change.line}: {said}"), file=sys.stderr)
    show((finding_line(name, finding) for finding in fixed.left), stderr=True)
    count = len(fixed.changes)
    print(
        f"{printable(output)}: {count:,} {'change' if count == 1 else 'changes'}", file=sys.stderr
    )
    return 1 if fixed.left else 0


def show(lines: Iterable[Sequence[Span]], *, stderr: bool = False) -> None:
    """Print lines, in colors where there is a terminal."""
    stream = sys.stderr if stderr else sys.stdout
    if not stream.isatty():
        for line in lines:
            print("".join(printable(text) for text, _ in line), file=stream)
        return
    console = None
    for line in lines:
        from rich.console import Console
        from rich.text import Text

        console = console or Console(
            stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=True
        )
        console.print(
            Text.assemble(*((printable(text), _STYLES.get(style, "")) for text, style in line))
        )


def _summary(results: Sequence[Linted]) -> str:
    """One line about all results."""
    status = Counter(result.status for result in results)
    level = Counter(finding.level for result in results for finding in result.findings)
    if len(results) == 1:
        (one,) = results
        head = f"{one.path}: {one.target}, {one.instructions:,} instructions"
        said = [] if one.findings else ["clean" if status["clean"] else "nothing found"]
        if one.known is not None and not one.findings and status["clean"]:
            said = ["nothing new" if one.known.errors + one.known.advice else "clean"]
    else:
        head = f"{len(results):,} files"
        said = [
            _count(status["clean"], "clean", "clean"),
            _count(status["findings"], "with findings", "with findings"),
            _count(status["unjudged"], "not judged", "not judged"),
        ]
    said += [
        _count(level["error"], "error", "errors"),
        _count(level["advice"], "advisory", "advisories"),
        _count(sum(result.allowed for result in results), "finding allowed", "findings allowed"),
        _count(sum(result.left_out for result in results), *_LEFT_OUT),
        _known(results),
    ]
    return printable(f"{head}: {', '.join(filter(None, said))}")


def _known(results: Sequence[Linted]) -> str:
    """What originals have as well."""
    known = [result.known for result in results if result.known is not None]
    errors, advice = sum(one.errors for one in known), sum(one.advice for one in known)
    if not errors + advice:
        return ""
    parts = [_count(errors, "error", "errors"), _count(advice, "advisory", "advisories")]
    name = known[0].original if len(known) == 1 else "the originals"
    return f"{' and '.join(filter(None, parts))} of {name} not shown"


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}" if number else ""
