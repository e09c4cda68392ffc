"""``coasm run``: kernels launched, and their results checked, on the emulator or a GPU.

Each family of kernels makes a command of its own, ``coasm run NAME``, from the options that its
face lists and those that all share. Without a name the command takes launch files, and the options
of the family that was there before families had names.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from coasm.cli.launched import show, status_of, sweep
from coasm.cli.run_options import Common
from coasm.cli.terminal import printable, say_remarks
from coasm.errors import LaunchError
from coasm.launch.families import FAMILIES, UNNAMED
from coasm.launch.family import Family, Option

if TYPE_CHECKING:
    from coasm.codeobject import CodeObject
    from coasm.launch.device import Device
    from coasm.launch.edits import Reached
    from coasm.launch.report import Shown
    from coasm.target import TargetID

__all__ = ["command_of"]

_HELP = """\
Run a kernel and check what it computes. Without an AMD GPU the emulator runs it.

What it computes is checked by what is known of its family, or by a launch file (--spec).

\b
Families, each with options of its own (coasm run NAME --help):
{families}

A family's name counts as one where it is the first word; a file called so is ./NAME. The options of
{unnamed} are taken without its name, too.

\b
Examples:
  coasm run --spec launch.yaml
  coasm run rebuilt.co --spec launch.yaml --like kernel.co
  coasm run {unnamed} --help
{after}"""

_AFTER = """
A run on the emulator says how much of the kernel it executed, and with an original whether each
changed instruction was: what was not run has not passed.

Exit status: 0 all right, 1 a result is wrong, 2 it could not be judged.
"""

_FILE = Annotated[
    str | None,
    typer.Argument(metavar="[FILE]", help="The object, LIBRARY:TARGET or listing to run."),
]
_SPEC = Annotated[
    str | None, typer.Option("--spec", metavar="FILE.yaml", help="Run what a launch file says.")
]
_SWEEP = Option("--sweep", "Run the regression sweep.", bool, False)
_LIST = Option("--list", "Show the kernels that there are and exit.", bool, False)


def command_of(name: str | None) -> Callable[..., int]:
    """The command of the family of that name, or ``coasm run`` without one.

    Its parameters are those that typer makes the command line of.
    """
    family = FAMILIES[name or UNNAMED]
    own = [*family.problem, *family.options]
    own += [_SWEEP] if family.columns else []
    own += [_LIST] if family.listing is not None else []
    defaults: dict[str, Any] = {"file": None} | ({} if name else {"spec": None})
    types: dict[str, Any] = {"file": _FILE} | ({} if name else {"spec": _SPEC})
    for option in own:
        types[option.name] = _declared(option, hidden=name is None)
        defaults[option.name] = option.default
    types |= get_type_hints(Common, include_extras=True)
    defaults |= Common._field_defaults

    def command(**given: Any) -> int:
        common = Common(**{field: given.pop(field) for field in Common._fields})
        return _run(family, given, common, named=name is not None)

    parameters = [
        inspect.Parameter(
            one, inspect.Parameter.KEYWORD_ONLY, default=defaults[one], annotation=kind
        )
        for one, kind in types.items()
    ]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = types
    rows = "\n".join(f"  {one.name:10}{one.help}" for one in FAMILIES.values())
    command.__doc__ = (
        family.description + _AFTER
        if name
        else _HELP.format(families=rows, unnamed=UNNAMED, after=_AFTER)
    )
    return command


def _declared(option: Option, *, hidden: bool) -> Any:
    """An option of a family as typer takes it."""
    kind = option.kind if option.kind is bool else option.kind | None
    said = typer.Option(
        option.flag,
        help=option.help,
        metavar=option.metavar,
        min=option.low,
        max=option.high,
        hidden=hidden,
    )
    return Annotated[kind, said]


def _run(family: Family, given: dict[str, Any], common: Common, *, named: bool) -> int:
    """Do what *given* asks for: the file, ``--spec``, and the options of *family*."""
    file, spec = given.pop("file"), given.pop("spec", None)
    listed, swept = given.pop(_LIST.name, False), given.pop(_SWEEP.name, False)
    mode = _mode(family, {**given, "list": listed, "sweep": swept, "spec": spec}, named)
    if file is not None and mode in (_LIST.flag, _SWEEP.flag):
        also = "" if named else ", or with --spec"
        raise LaunchError(f"{file}: an object by itself goes with {family.flags}{also}")
    if listed:
        return _list(family, given, common.json_)
    common.check()
    if named and os.path.isfile(family.name):
        print(
            f"coasm: {family.name} is the family of that name, not the file (./{family.name})",
            file=sys.stderr,
        )
    if spec is not None:
        return _run_spec(spec, file, common)
    return _run_family(family, file, given, common, named=named)


def _mode(family: Family, given: Mapping[str, Any], named: bool) -> str:
    """Which one of the things that the command does is asked for.

    Raises:
        LaunchError: none, or more than one.
    """
    problem = any(given[option.name] is not None for option in family.problem)
    asked = {"--list": given["list"], "--sweep": given["sweep"]}
    asked |= {"--spec": given["spec"] is not None}
    asked |= {", ".join(option.flag for option in family.problem): problem}
    modes = [name for name, on in asked.items() if on]
    if len(modes) == 1:
        return modes[0]
    ways = ["--sweep"] * bool(family.columns) + ["--spec FILE"] * (not named)
    ways += ["--list"] * (family.listing is not None)
    what = f"{' and '.join(modes)} do not go together" if modes else "nothing to run"
    *first, last = [family.flags, *([", ".join(ways[:-1])] if ways[1:] else []), *ways[-1:]]
    raise LaunchError(f"{what}: give {''.join(f'{way}, or ' for way in first)}{last}")


def _list(family: Family, given: Mapping[str, Any], json_: bool) -> int:
    assert family.listing is not None
    found = family.listing(family.asked(given))
    for line in [json.dumps(found.json)] if json_ else map(printable, found.lines):
        print(line)
    return 0


def _run_family(
    family: Family, file: str | None, given: Mapping[str, Any], common: Common, *, named: bool
) -> int:
    """Run a problem of *family*, or its sweep, and say what came of it."""
    from coasm.launch.edits import Originals

    asked = family.asked(given)
    whole = family.whole(asked)
    if file is None:
        common.source().refuse("the objects of a manifest")
        plan = family.plan(asked, None)
    else:
        if not named and file in FAMILIES and not os.path.isfile(file):
            raise LaunchError(f"{file}: a family's name comes first: coasm run {file} …")
        co = _open(file, common)
        say_remarks(co)
        if not named:
            _refuse_others(family, file, co)
        plan = family.plan(asked, (file, co))
    device = _device(plan.target, common)
    originals = Originals(common.like, common.llvm)
    try:
        if not whole:
            return sweep(
                family, plan, device, seed=common.seed, originals=originals, json_=common.json_
            )
        (check,) = plan.checks(device)
        outcome = plan.run(
            device, check, seed=common.seed, verify=common.verify, iterations=common.iters
        )
        edit = originals.reached(outcome.path, outcome.co, outcome.figures.coverage)
        _say(outcome, edit, device, common.json_)
        return status_of(outcome.passed, edit)
    finally:
        device.close()


def _run_spec(path: str, file: str | None, common: Common) -> int:
    """Run a launch file, on the object in *file* or the one that it names."""
    from coasm.launch.edits import Originals
    from coasm.launch.spec import read_spec
    from coasm.launch.spec import run as run_spec
    from coasm.output import write_file

    spec = read_spec(path)
    place = str(spec.object) if file is None else file
    co = spec.load_object(common.llvm, common.source()) if file is None else _open(file, common)
    say_remarks(co)
    device = _device(co.target, common)
    try:
        outcome = run_spec(spec, co, device, iterations=common.iters)
        for saved, data in outcome.files():
            write_file(str(saved), data)
        edit = Originals(common.like, common.llvm).reached(place, co, outcome.figures.coverage)
        _say(outcome, edit, device, common.json_)
    finally:
        device.close()
    return status_of(outcome.passed, edit if outcome.comparisons else None)


def _say(outcome: Shown, edit: Reached | None, device: Device, json_: bool) -> None:
    """Print what came of a launch."""
    if json_:
        print(json.dumps(outcome.to_json(edit)))
    else:
        show(outcome.report(), outcome.figures, edit, device)


def _open(file: str, common: Common) -> CodeObject:
    from coasm.opening import open_code_object

    return open_code_object(file, llvm=common.llvm, options=common.source())


def _refuse_others(family: Family, file: str, co: CodeObject) -> None:
    """Refuse an object of another family than the one whose options were taken."""
    names = [other.name for other in FAMILIES.values() if any(map(other.recognizes, co.kernels))]
    if names and family.name not in names:
        raise LaunchError(f"{file}: a kernel of {names[0]}: coasm run {names[0]} FILE …")


def _device(target: TargetID, common: Common) -> Device:
    """The device; one line on standard error says so where it is not the GPU that was hoped for."""
    from coasm.launch import backends

    device, note = backends.open_device(
        common.backend, target, llvm=common.llvm, options=common.emulator
    )
    if note is not None:
        print(f"coasm: {printable(note)}", file=sys.stderr)
    return device
