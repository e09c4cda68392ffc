"""``coasm port``: what of a code object is the same on another target, and the object for it."""

from __future__ import annotations

import os
import sys
from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from coasm.cli.options import JsonOption, KernelOption, LlvmOption
from coasm.cli.progress import Progress
from coasm.cli.terminal import colored, printable
from coasm.errors import CoasmError

if TYPE_CHECKING:
    from coasm.port import Ported
    from coasm.port.running import Runs

__all__ = ["port"]

_COLORS = {"ok": "green", "review": "yellow", "not-portable": "red"}


def port(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...",
            help="Code objects or folders of them, listings, LIBRARY:TARGET.",
        ),
    ],
    to: Annotated[str, typer.Option("--to", metavar="TARGET", help="gfx90a, gfx942 or gfx950.")],
    write: Annotated[
        bool, typer.Option("--write", help="Write the object for the target, if it is the same.")
    ] = False,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="OUT",
            help="Of --write (default: FILE.TARGET.co); a listing where it ends in .s.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite OUT.")] = False,
    fix: Annotated[
        bool,
        typer.Option("--fix", help="Put in the wait states and waits that the target asks for."),
    ] = False,
    run: Annotated[
        str | None,
        typer.Option(
            "--run", metavar="LAUNCH", help="Run both on the emulator, and compare all buffers."
        ),
    ] = None,
    kernel: KernelOption = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Show each address, not only the first one of a kind.")
    ] = False,
    json_: JsonOption = False,
    llvm: LlvmOption = None,
) -> int:
    """Judge each kernel for another target: gfx90a, gfx942 and gfx950, from any to any.

    OK: the same instructions compute the same there. REVIEW: they are the same, and mean something
    else, or lack wait states there. NOT PORTABLE: the target lacks something. Each reason has its
    address; a note is about speed alone. What is written has been disassembled for the target and
    compared instruction by instruction, and lint finds no error in it that the original does not
    have.

    \b
    Examples:
      coasm port kernel.co --to gfx950
      coasm port kernel.co --to gfx950 --fix --write
      coasm port kernel.co --to gfx950 --run launch.yaml
      coasm port hsa/ --to gfx950 --json

    Exit status: 0 all kernels are OK and runs leave the same, 1 not so, 2 it could not be judged.
    """
    from coasm.trips import collect

    specs = collect(files)
    if (output is not None or force) and not write:
        raise CoasmError("-o and --force are for --write")
    if len(specs) > 1 and (output is not None or run is not None):
        raise CoasmError("-o and --run are for one file")
    options = _Options(to, output, force, fix, run, kernel, write, llvm)
    verdicts: Counter[str] = Counter()
    status = 0
    with Progress(len(specs)) as bar:
        for spec in specs:
            try:
                one, verdict = _one(spec, options, everything, json_)
            except CoasmError as error:
                if len(specs) == 1:
                    raise
                one, verdict = 2, "not judged"
                print(f"coasm: error: {printable(str(error), multiline=True)}", file=sys.stderr)
            status = max(status, one)
            verdicts[verdict] += 1
            bar.step(spec)
    if len(specs) > 1:
        print(_summed_up(verdicts, to), file=sys.stderr)
    return status


class _Options(NamedTuple):
    """What is asked for, of each file."""

    to: str
    output: str | None
    force: bool
    fix: bool
    run: str | None
    kernel: str | None
    write: bool
    llvm: str | None


def _one(spec: str, options: _Options, everything: bool, json_: bool) -> tuple[int, str]:
    """Judge one file, write what is asked for; the exit status and the verdict."""
    from coasm.opening import open_code_object
    from coasm.output import check_target
    from coasm.port import port as ported_to

    output = _output(spec, options)
    if output is not None:
        check_target(output, force=options.force, inputs=(spec,))
    source = open_code_object(spec, llvm=options.llvm)
    ported = ported_to(
        source, options.to, kernel=options.kernel, fix=options.fix, llvm=options.llvm
    )
    runs = None
    if options.run is not None and ported.co is not None:
        from coasm.port.running import both

        runs = both(source, ported.co, options.run, options.llvm)
    why_not = _write(ported, output, options.llvm) if output is not None else None
    written = output if why_not is None else None
    if json_:
        _print_json(ported, written, why_not, runs)
    else:
        _show(spec, ported, everything, runs, options.run is not None)
        if output is not None:
            _say_written(ported, output, why_not)
    fine = ported.verdict == "ok" and why_not is None and (runs is None or runs.alike)
    return 0 if fine else 1, ported.verdict


def _output(spec: str, options: _Options) -> str | None:
    """Where the object for the target goes: beside the file, of one inside with its name."""
    if not options.write:
        return None
    if options.output is not None:
        return options.output
    if spec == "-":
        raise CoasmError("standard input needs -o OUT")
    if os.path.exists(spec):
        return f"{os.path.splitext(spec)[0]}.{options.to}.co"
    folder, name = os.path.split(spec)
    return os.path.join(folder, f"{name.replace(':', '.').replace('#', '.')}.{options.to}.co")


def _write(ported: Ported, output: str, llvm: str | None) -> str | None:
    """Write the object, or say why not."""
    from coasm.output import write_file

    if ported.obstacle is not None:
        return ported.obstacle
    assert ported.co is not None
    data = ported.co.data
    if output.endswith(".s"):
        from coasm.asm.exact import exact_listing
        from coasm.llvm import find_llvm

        tools = find_llvm(llvm, processor=ported.to.name)
        listed = exact_listing(ported.co, tools, output=output)
        data = listed.text.encode("utf-8", "surrogateescape")
    write_file(output, data)
    return None


def _print_json(
    ported: Ported, written: str | None, why_not: str | None, runs: Runs | None
) -> None:
    from json import dumps

    from coasm.port.report import to_json

    report: dict[str, Any] = to_json(ported)
    report["written"] = written
    report["not_written"] = why_not
    report["run"] = None if runs is None else runs.to_json()
    print(dumps(report), flush=True)


def _show(spec: str, ported: Ported, everything: bool, runs: Runs | None, asked: bool) -> None:
    from coasm.port.report import lines

    print(printable(f"{spec}: {ported.source.target} → {ported.to.name}"))
    for text, what in lines(ported, every=everything):
        line = printable(text)
        print(colored(line, _COLORS[what]) if what in _COLORS else line)
    if asked and runs is None:
        print("  not run: it is not portable")
    if runs is not None:
        for text in runs.lines(ported.source.target.name, ported.to.name):
            print(printable(text))


def _say_written(ported: Ported, output: str, why_not: str | None) -> None:
    sys.stdout.flush()
    if why_not is not None:
        print(f"{printable(output)}: not written: {printable(why_not)}", file=sys.stderr)
        return
    parts = [f"{ported.instructions:,} instructions verified"]
    if ported.other:
        parts.append(f"{ported.other:,} in another encoding")
    if ported.fixes:
        parts.append(f"{ported.fixes:,} put in")
    print(f"{printable(output)}: {ported.to.name}, {', '.join(parts)}", file=sys.stderr)


def _summed_up(verdicts: Counter[str], to: str) -> str:
    from coasm.port.report import SHOWN

    counted = (f"{verdicts[one]:,} {shown}" for one, shown in SHOWN.items())
    failed = f", {verdicts['not judged']:,} not judged" if verdicts["not judged"] else ""
    return f"{sum(verdicts.values()):,} objects to {to}: {', '.join(counted)}{failed}"
