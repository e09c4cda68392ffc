"""``coasm run``: kernels launched, and their results checked, on the emulator or a GPU."""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

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
from coasm.cli.terminal import colored, printable, say_remarks
from coasm.errors import CoasmError, LaunchError

if TYPE_CHECKING:
    from coasm.asm.source import SourceOptions
    from coasm.codeobject import CodeObject
    from coasm.emulator import Coverage, Options, Trace
    from coasm.launch.device import Device, Figures
    from coasm.launch.edits import Originals, Reached
    from coasm.launch.families.f4gemm import Check, Manifest, Product
    from coasm.launch.spec import Outcome

__all__ = ["run"]

#: Bytes of scratch that a work-item can have. Source: HIP, ``hipLimitStackSize``.
MAX_STACK = (128 << 10) - 16


def run(
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="[FILE]",
            help="The object, LIBRARY:TARGET or listing to run: one f4gemm kernel, or with --spec "
            "any.",
        ),
    ] = None,
    m: Annotated[int | None, typer.Option("-m", help="Rows of A and D.")] = None,
    n: Annotated[int | None, typer.Option("-n", help="Rows of B, columns of D.")] = None,
    k: Annotated[int | None, typer.Option("-k", help="Columns of A and B.")] = None,
    sweep: Annotated[bool, typer.Option("--sweep", help="Run the regression sweep.")] = False,
    spec: Annotated[
        str | None, typer.Option("--spec", metavar="FILE.yaml", help="Run what a launch file says.")
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="Show the manifest and exit.")] = False,
    co_dir: Annotated[
        str | None,
        typer.Option(
            "--co-dir",
            metavar="DIR",
            help="Folder of the code objects and their manifest "
            "(default: gfx950/f4gemm in AITER_ASM_DIR).",
        ),
    ] = None,
    kernel: Annotated[
        str | None,
        typer.Option("--kernel", metavar="NAME", help="A kernel by its symbol or its file's name."),
    ] = None,
    bpreshuffle: Annotated[
        int | None,
        typer.Option(
            "--bpreshuffle", min=0, max=1, help="Take kernels that want B shuffled, or plain."
        ),
    ] = None,
    splitk: Annotated[
        int,
        typer.Option("--splitk", metavar="L", help="Split K in 2^L parts; -1: by the tile choice."),
    ] = 0,
    iters: Annotated[int, typer.Option("--iters", min=0, help="Launches to time.")] = 0,
    verify: Annotated[
        bool, typer.Option("--verify/--no-verify", help="Compare with the exact product.")
    ] = True,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the operands.")] = 0,
    backend: Annotated[
        str,
        typer.Option(
            "--backend", metavar="auto|emulator|hip", help="auto: a GPU, or else the emulator."
        ),
    ] = "auto",
    num_cu: Annotated[
        int, typer.Option("--num-cu", min=1, help="Emulator: compute units, for the tile choice.")
    ] = 256,
    stack: Annotated[
        int | None,
        typer.Option(
            "--stack",
            min=1,
            max=MAX_STACK,
            help="Emulator: bytes of stack where a kernel's has no bound (default: 1024).",
        ),
    ] = None,
    race: Annotated[bool, typer.Option("--race", help="Emulator: report LDS races.")] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Emulator: refuse registers never written.")
    ] = False,
    max_instructions: Annotated[
        int | None,
        typer.Option("--max-instructions", min=1, help="Emulator: wave-instructions of a launch."),
    ] = None,
    trace: Annotated[
        str | None,
        typer.Option(
            "--trace", metavar="WAVE[:LANE]", help="Emulator: print what this wave executes."
        ),
    ] = None,
    stop_at: Annotated[
        str | None,
        typer.Option(
            "--stop-at", metavar="PLACE", help="Emulator: stop at an address or label, and dump."
        ),
    ] = None,
    like: Annotated[
        str | None,
        typer.Option(
            "--like",
            metavar="ORIG",
            help="The original, or a folder of originals: says whether what was edited was "
            "executed (default: what FILE's listing names).",
        ),
    ] = None,
    target: TargetOption = None,
    code_object_version: VersionOption = None,
    include: IncludeOption = None,
    defsym: DefsymOption = None,
    json_: JsonOption = False,
    llvm: LlvmOption = None,
) -> int:
    """Run a kernel and check what it computes. Without an AMD GPU the emulator runs it.

    f4gemm: D[M, N] = A[M, K] * B[N, K]^T, MXFP4 to bf16, on the kernel that the tile choice (or
    --kernel) picks from the manifest in --co-dir; or on the one in FILE, whatever that is called.
    Other kernels: --spec with a launch file.

    \b
    Examples:
      coasm run --co-dir rebuilt -m 512 -n 1024 -k 2048
      coasm run kernel.rebuilt.co -m 512 -n 1024 -k 2048
      coasm run --co-dir rebuilt --sweep
      coasm run --spec launch.yaml
      coasm run rebuilt.co --spec launch.yaml --like kernel.co

    A run on the emulator says how much of the kernel it executed, and with an original whether
    each changed instruction was: what was not run has not passed.

    Exit status: 0 all right, 1 a result is wrong, 2 it could not be judged.
    """
    shape = (m, n, k)
    given = any(size is not None for size in shape)
    modes = [name for name, on in _modes(list_, sweep, spec, given) if on]
    if len(modes) != 1:
        what = f"{' and '.join(modes)} do not go together" if modes else "nothing to run"
        raise LaunchError(f"{what}: give -m, -n and -k, or --sweep, --spec FILE, or --list")
    if file is not None and modes[0] in ("--list", "--sweep"):
        raise LaunchError(f"{file}: an object by itself goes with -m, -n and -k, or with --spec")
    from coasm.launch.edits import Originals

    if list_:
        _list(co_dir, json_)
        return 0
    if backend == "hip" and any((race, strict, max_instructions, trace, stop_at, stack)):
        raise LaunchError(
            "--race, --strict, --max-instructions, --stack, --trace, --stop-at: emulator only"
        )

    def options() -> Options:
        from coasm import emulator

        return emulator.Options(
            race=race,
            strict=strict,
            max_instructions=max_instructions,
            trace=_trace(trace, json_),
            stop_at=_place(stop_at),
            num_cu=num_cu,
            stack=emulator.STACK if stack is None else stack,
        )

    said = source_options(target, code_object_version, include, defsym)
    if spec is not None:
        originals = Originals(like, llvm)
        return _spec(spec, file, said, backend, iters, options, originals, json_, llvm)

    from coasm.launch.families.f4gemm import Runner, Shape, find_manifest, manifest_of
    from coasm.launch.families.f4gemm.tiles import check_shape
    from coasm.opening import open_code_object

    alone = None
    if file is None:
        said.refuse("the objects of a manifest")
        manifest, target = find_manifest(co_dir), "gfx950"
    else:
        co = open_code_object(file, llvm=llvm, options=said)
        say_remarks(co)
        manifest = manifest_of(co, file, co_dir=co_dir, kernel=kernel)
        alone, target, kernel = (file, co), co.target.name, manifest.entries[0].kernel
    size = None
    if not sweep:
        if m is None or n is None or k is None:
            raise LaunchError("give all of -m, -n and -k")
        check_shape(m, n, k)  # before anything is started
        size = Shape(m, n, k)
    device = _device(backend, target, options, llvm)
    try:
        runner = Runner(manifest, device, alone)
        if size is None:
            return _sweep(runner, seed, Originals(like, llvm), json_)
        choice = runner.pick(size, kernel=kernel, bpreshuffle=_flag(bpreshuffle), log2_split=splitk)
        product = runner.run(size, choice, seed=seed, verify=verify, iterations=iters)
        edit = _edit_of(product, Originals(like, llvm))
        if json_:
            print(json.dumps(product.to_json(edit)))
        else:
            _show(product, edit, device)
        return _status(product.passed, edit)
    finally:
        device.close()


def _modes(list_: bool, sweep: bool, spec: str | None, given: bool) -> list[tuple[str, bool]]:
    return [
        ("--list", list_),
        ("--sweep", sweep),
        ("--spec", spec is not None),
        ("-m, -n, -k", given),
    ]


def _flag(value: int | None) -> bool | None:
    return None if value is None else bool(value)


def _trace(text: str | None, json_: bool) -> Trace | None:
    """``WAVE[:LANE]``; the trace goes to standard error where standard output is JSON."""
    if text is None:
        return None
    from coasm.emulator import Trace

    wanted = re.fullmatch(r"(\d{1,9})(?::(\d{1,2}))?", text, re.ASCII)
    if wanted is None or int(wanted[2] or 0) > 63:
        raise LaunchError(f"--trace {text}: expected a wave's number, or wave and lane as 3:17")
    stream = sys.stderr if json_ else sys.stdout
    return Trace(
        int(wanted[1]), int(wanted[2] or 0), lambda line: print(printable(line), file=stream)
    )


def _place(text: str | None) -> int | str | None:
    """An address in any notation of Python's, or a label."""
    if text is None:
        return None
    try:
        return int(text, 0)
    except ValueError:
        return text


def _device(backend: str, target: str, options: Any, llvm: str | None) -> Device:
    """The device; one line on standard error says so where it is not the GPU that was hoped for."""
    from coasm.launch.backends import open_device
    from coasm.target import TargetID, processor

    device, note = open_device(backend, TargetID(processor(target)), llvm=llvm, options=options)
    _note(note)
    return device


def _note(note: str | None) -> None:
    if note is not None:
        print(f"coasm: {printable(note)}", file=sys.stderr)


def _status(right: bool, edit: Reached | None) -> int:
    """The exit status: a right result that says nothing of an edit could not be judged."""
    if not right:
        return 1
    return 0 if edit is None or edit.whole else 2


def _word(right: bool, edit: Reached | None) -> str:
    if not right:
        return colored("FAILED", "red")
    if edit is None or edit.whole:
        return colored("PASSED", "green")
    return colored("NOT JUDGED, the edit was not run", "yellow")


def _executed(coverage: Coverage | None, edit: Reached | None) -> None:
    """How much of the kernel was executed, and what of an edit was not."""
    if coverage is None:
        return
    count, done = len(coverage.code), len(coverage.executed & coverage.code)
    share = f" ({done / count:.1%})" if count else ""
    print(f"executed  {done:,} of {count:,} instructions{share}")
    asleep = len(coverage.asleep & coverage.code)
    if asleep:
        print(f"          {asleep:,} more without a lane switched on: they did nothing")
    if edit is None:
        return
    reached = len(edit.edits) - len(edit.missed)
    if not edit.edits:
        print("edit      none: the instructions are the original's")
        return
    print(f"edit      {reached:,} of {len(edit.edits):,} changed instructions executed")
    for one in edit.missed[:_SHOWN]:
        why = "no lane was on" if one in edit.asleep else "not executed"
        print(f"          {why}: {printable(str(one))}")
    if len(edit.missed) > _SHOWN:
        print(f"          and {len(edit.missed) - _SHOWN:,} more")


#: How many changed instructions that were not executed are listed.
_SHOWN = 8

#: What is said of a result without a verdict, by whether the launch was stopped.
_UNJUDGED = ("not compared", "not compared: the launch was stopped")


# f4gemm


def _list(co_dir: str | None, json_: bool) -> None:
    from coasm.launch.families.f4gemm import find_manifest

    manifest: Manifest = find_manifest(co_dir)
    if json_:
        rows = [entry._asdict() for entry in manifest.entries]
        print(json.dumps({"manifest": str(manifest.path), "kernels": rows}))
        return
    print(printable(str(manifest.path)))
    print(f"{'tile':>10}  {'splitK':>6}  {'bpreshuffle':>11}  object, kernel")
    for entry in manifest.entries:
        missing = "" if (manifest.folder / entry.object).is_file() else "  (missing)"
        print(
            f"{entry.tile_m:>5}x{entry.tile_n:<4}  {entry.split_k:>6d}  {entry.bpreshuffle:>11d}  "
            f"{printable(entry.object)}{missing}\n{'':33}{printable(entry.kernel)}"
        )


def _edit_of(product: Product, originals: Originals) -> Reached | None:
    return originals.reached(product.path, product.co, product.figures.coverage)


def _show(product: Product, edit: Reached | None, device: Device) -> None:
    entry = product.entry
    print(f"object    {printable(product.path)}")
    print(f"sha256    {product.sha256}")
    grid = " x ".join(map(str, product.geometry.grid))
    print(f"kernel    {printable(product.kernel)}")
    split = f", K split in {product.parts}" if product.parts > 1 else ""
    print(f"launch    tile {entry.tile_m}x{entry.tile_n}, grid {grid}{split}")
    m, n, k = product.shape
    print(f"product   M={m} N={n} K={k}, seed {product.seed}")
    verdict = product.verdict
    if verdict is None:
        print(f"result    {_UNJUDGED[bool(product.figures.dump)]}")
    else:
        word = _word(verdict.passed, edit)
        print(
            f"result    {word}: max_abs_err {verdict.max_abs_err:g}, max_rel_err "
            f"{verdict.max_rel_err:.3g}, {verdict.of_max:.2%} of max|ref|; bound {verdict.bound}"
        )
        if verdict.first_wrong is not None:
            row, column = verdict.first_wrong
            print(f"wrong     {verdict.wrong:,} of {m * n:,} elements; first D[{row}, {column}]")
    _executed(product.figures.coverage, edit)
    _took(product.figures, device, product.tflops)


def _took(figures: Figures, device: Device, tflops: float | None = None) -> None:
    if device.name == "hip":
        rate = f", {tflops:.1f} TFLOP/s" if tflops is not None else ""
        print(f"time      {figures.median * 1e6:.1f} us{rate} ({device.description})")
    else:
        count = f", {figures.wave_instructions or 0:,} wave-instructions"
        print(f"time      {figures.median:.2f} s on the emulator{count}")
    if len(figures.seconds) > 1:
        print(f"          median of {len(figures.seconds)} launches")
    for line in figures.fidelity:
        print(f"fidelity  {printable(line)}")
    if figures.dump:
        print(printable(figures.dump, multiline=True))


def _sweep(runner: Any, seed: int, originals: Originals, json_: bool) -> int:
    """Run every check of the sweep; what cannot be judged is reported and does not end it."""
    from coasm.emulator import Coverage
    from coasm.launch.families.f4gemm import checks

    todo: list[Check] = list(checks(runner.manifest, num_cu=runner.device.num_cu))
    done: list[_Done] = []
    whole: dict[str, Coverage] = {}
    objects: dict[str, CodeObject] = {}
    with Progress(len(todo)) as bar:
        for check in todo:
            try:
                product = runner.run(check.shape, check.choice, seed=seed)
                edit = _edit_of(product, originals)
                coverage = product.figures.coverage
                if edit is not None and coverage is not None:
                    whole[product.path] = whole.get(product.path, Coverage()).also(coverage)
                    objects[product.path] = product.co
                done.append(_Done(check, product, edit))
            except CoasmError as error:
                done.append(_Done(check, error, None))
            if json_:
                print(json.dumps({"check": check.group, **_json(done[-1])}), flush=True)
            bar.step(f"{check.shape} {check.choice.entry.object}")
    right = sum(not isinstance(one.result, CoasmError) and one.result.passed for one in done)
    unjudged = any(isinstance(one.result, CoasmError) for one in done)
    if not json_:
        _table(done)
        print(f"{right} of {len(done)} checks passed")
    for path, coverage in whole.items():
        edit = originals.reached(path, objects[path], coverage)
        if edit is not None and not edit.whole:
            unjudged = True
            print(
                f"coasm: {printable(path)}: the sweep did not execute {len(edit.missed):,} of "
                f"{len(edit.edits):,} changed instructions; first {printable(str(edit.missed[0]))}",
                file=sys.stderr,
            )
    if unjudged:
        return 2
    return 0 if right == len(done) else 1


class _Done(NamedTuple):
    """A check of the sweep, what came of it, and what of an edit it executed."""

    check: Check
    result: Product | CoasmError
    edit: Reached | None


def _json(one: _Done) -> dict[str, Any]:
    check, result, edit = one
    if not isinstance(result, CoasmError):
        return result.to_json(edit)
    m, n, k = check.shape
    entry = check.choice.entry
    return {"m": m, "n": n, "k": k, "kernel": entry.kernel, "passed": None, "error": str(result)}


def _table(done: list[_Done]) -> None:
    from rich.text import Text

    from coasm.cli.tables import console as open_console
    from coasm.cli.tables import show_table

    columns = (
        *("check", "M>", "N>", "K>", "tile", "split>", "max_rel_err>", "of max|ref|>", "s>"),
        "result",
    )
    rows: list[list[str | Text]] = []
    problems = []
    for check, result, edit in done:
        entry = check.choice.entry
        head = [check.group, *map(str, check.shape), f"{entry.tile_m}x{entry.tile_n}"]
        head[-1] += "" if entry.bpreshuffle else " plain B"
        head.append(str(check.choice.split))
        if isinstance(result, CoasmError):
            rows.append([*head, "", "", "", Text("not judged", "red")])
            problems.append(f"{check.shape} {entry.object}: {result}")
            continue
        verdict = result.verdict
        assert verdict is not None
        figures = [f"{verdict.max_rel_err:.3g}", f"{verdict.of_max:.2%}"]
        word = Text("passed", "green") if verdict.passed else Text("FAILED", "red")
        if verdict.passed and edit is not None and not edit.whole:
            word = Text("edit not run", "yellow")
        rows.append([*head, *figures, f"{result.figures.median:.2f}", word])
        if not verdict.passed:
            problems.append(f"{check.shape} {entry.object}: {verdict.wrong:,} elements wrong")
    console = open_console()
    show_table(console, columns, rows)
    for line in problems:
        console.print(printable(line), soft_wrap=True)


# Launch files


def _spec(
    path: str,
    file: str | None,
    said: SourceOptions,
    backend: str,
    iterations: int,
    options: Any,
    originals: Originals,
    json_: bool,
    llvm: str | None,
) -> int:
    from coasm.launch.backends import open_device
    from coasm.launch.spec import read_spec
    from coasm.launch.spec import run as run_spec
    from coasm.opening import open_code_object

    spec = read_spec(path)
    if file is None:
        co = spec.load_object(llvm, said)
    else:
        co = open_code_object(file, llvm=llvm, options=said)
    say_remarks(co)
    device, note = open_device(backend, co.target, llvm=llvm, options=options)
    _note(note)
    try:
        outcome = run_spec(spec, co, device, iterations=iterations)
        _save(outcome)
        place = str(spec.object) if file is None else file
        edit = originals.reached(place, co, outcome.figures.coverage)
        if json_:
            print(json.dumps(_outcome(outcome, edit, co.name)))
        else:
            _report(outcome, edit, device, co.name)
    finally:
        device.close()
    return _status(outcome.passed, edit if outcome.comparisons else None)


def _save(outcome: Outcome) -> None:
    import io

    import numpy as np

    from coasm.output import write_file

    for path, array in outcome.saves.items():
        data = io.BytesIO()
        np.save(data, array, allow_pickle=False)
        write_file(str(path), data.getvalue())


def _outcome(outcome: Outcome, edit: Reached | None, name: str) -> dict[str, Any]:
    import math

    from coasm.launch.edits import executed_json, passed_json

    def finite(value: Any) -> Any:
        return None if isinstance(value, float) and not math.isfinite(value) else value

    return {
        "object": name,
        "kernel": outcome.kernel,
        "grid": outcome.geometry.grid,
        "workgroup": outcome.geometry.workgroup,
        "backend": outcome.backend,
        "passed": passed_json(bool(outcome.comparisons), outcome.passed, edit),
        "comparisons": [
            {key: finite(value) for key, value in one._asdict().items()} | {"passed": one.passed}
            for one in outcome.comparisons
        ],
        "saved": [str(path) for path in outcome.saves],
        "seconds": outcome.figures.median,
        "runs": len(outcome.figures.seconds),
        "wave_instructions": outcome.figures.wave_instructions,
        "fidelity": list(outcome.figures.fidelity),
        "dump": outcome.figures.dump or None,
        **executed_json(outcome.figures.coverage, edit),
    }


def _report(outcome: Outcome, edit: Reached | None, device: Device, name: str) -> None:
    print(f"object    {printable(name)}")
    grid, items = (
        " x ".join(map(str, s)) for s in (outcome.geometry.grid, outcome.geometry.workgroup)
    )
    print(f"kernel    {printable(outcome.kernel)}, grid {grid}, workgroups of {items}")
    for one in outcome.comparisons:
        word = _word(one.passed, edit)
        print(
            f"result    {word}: {printable(one.name)}, {one.elements:,} elements against "
            f"{one.against}; max_abs_err {one.max_abs_err:g}"
        )
        if one.first_wrong is not None:
            print(
                f"wrong     {one.wrong:,} elements; first {printable(one.name)}"
                f"{list(one.first_wrong)} is {one.got}, expected {one.expected}"
            )
    if not outcome.comparisons:
        print(f"result    {_UNJUDGED[bool(outcome.figures.dump)]}")
    for path in outcome.saves:
        print(f"saved     {printable(str(path))}")
    _executed(outcome.figures.coverage, edit)
    _took(outcome.figures, device)
