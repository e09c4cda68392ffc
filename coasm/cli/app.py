"""Puts the commands together.

A command is a row in :data:`COMMANDS` and a module ``coasm.cli.<name>`` that holds a function
``<name>``: its parameters are the command line (typer), its docstring the help, its result the exit
status (None is 0). Only the module of the command that runs is imported. ``run`` makes its
function, and one for each family of kernels, which is a command of two words.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from importlib import import_module

from coasm.errors import CoasmError

__all__ = ["COMMANDS", "run"]

#: Every command with the line that ``coasm --help`` shows for it.
COMMANDS = {
    "disasm": "Write a code object as editable assembly.",
    "asm": "Assemble and link a listing into a code object.",
    "verify": "Prove two code objects equal, or show what differs.",
    "roundtrip": "Take code objects through disasm, asm and verify.",
    "lint": "Find what an edit can break: wait states, waits, registers, memory.",
    "run": "Launch a kernel on the emulator or a GPU, and check its result.",
    "port": "Judge a code object for another target, and make the object for it.",
    "extract": "Take the code objects out of an executable or library.",
    "bundle": "Make an offload bundle of code objects for several targets.",
    "embed": "Put rebuilt code objects back into an executable or library.",
    "layout": "Show which lane and register holds which element of a matrix.",
    "info": "Show what a code object holds and what its kernels use.",
    "doctor": "Show which LLVM was found, and what it knows.",
}

_HELP = "AMD GPU code objects to editable assembly and back, byte for byte."


def run(arguments: Sequence[str]) -> None:
    """Run the command line *arguments* (without the program's name); ends in ``SystemExit``.

    Raises:
        CoasmError: what the command raised, or the command does not exist.
    """
    word = arguments[0] if arguments and not arguments[0].startswith("-") else None
    if word is not None and word not in COMMANDS:
        raise CoasmError(_no_such_command(word))

    arguments, family = _split_family(arguments)
    typed = _being_completed()
    import typer

    # Plain help: typer's rich markup would import rich for it.
    app = typer.Typer(
        context_settings={"help_option_names": ["-h", "--help"]},
        help=_HELP,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )

    @app.callback()
    def options(
        version: bool = typer.Option(False, "--version", help="Show the version and exit."),
    ) -> None:
        pass  # __main__ answers --version before anything is imported

    for name, summary in COMMANDS.items():
        runs = family is None and name in (word, *typed[:1])
        function = _load(name, _split_family(typed)[1]) if runs else _placeholder
        app.command(name, short_help=summary)(function)
    if family is not None:
        app.command(arguments[0], hidden=True)(_load("run", family))
    app(list(arguments), prog_name="coasm")


def _split_family(arguments: Sequence[str]) -> tuple[Sequence[str], str | None]:
    """``run NAME …`` with the two words as one, where NAME is a family's, and that name."""
    if list(arguments[:1]) != ["run"] or len(arguments) < 2:
        return arguments, None
    from coasm.launch.families import FAMILIES

    name = arguments[1]
    return ([f"run {name}", *arguments[2:]], name) if name in FAMILIES else (arguments, None)


def _being_completed() -> list[str]:
    """The words of the line that a shell wants completed, as typer's scripts pass it on."""
    if "_COASM_COMPLETE" not in os.environ:
        return []
    line = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS") or ""
    return line.split()[1:]


def _load(name: str, family: str | None = None) -> Callable[..., None]:
    """The function of a command, made to exit with the status that it returns."""
    import typer

    module = import_module(f"coasm.cli.{name}")
    command = module.command_of(family) if name == "run" else getattr(module, name)

    @functools.wraps(command)
    def exiting(*args: object, **kwargs: object) -> None:
        raise typer.Exit(command(*args, **kwargs) or 0)

    return exiting


def _placeholder() -> None:
    """Stands for a command that is listed but does not run."""


def _no_such_command(word: str) -> str:
    from difflib import get_close_matches

    close = get_close_matches(word, COMMANDS, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(COMMANDS)}"
    return f"no command {word!r}; {hint} (coasm --help)"
