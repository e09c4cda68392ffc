"""The options of ``coasm run`` that every launch takes, whatever the kernel is."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Annotated, NamedTuple

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
from coasm.cli.terminal import printable
from coasm.errors import LaunchError

if TYPE_CHECKING:
    from coasm.asm.source import SourceOptions
    from coasm.emulator import Options, Trace

__all__ = ["Common"]

#: Bytes of scratch that a work-item can have. Source: HIP, ``hipLimitStackSize``.
MAX_STACK = (128 << 10) - 16


class Common(NamedTuple):
    """The values of these options, by the names of their parameters."""

    iters: Annotated[int, typer.Option("--iters", min=0, help="Launches to time.")] = 0
    verify: Annotated[
        bool, typer.Option("--verify/--no-verify", help="Compare with the reference.")
    ] = True
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the operands.")] = 0
    backend: Annotated[
        str,
        typer.Option(
            "--backend", metavar="auto|emulator|hip", help="auto: a GPU, or else the emulator."
        ),
    ] = "auto"
    num_cu: Annotated[
        int, typer.Option("--num-cu", min=1, help="Emulator: compute units, for the tile choice.")
    ] = 256
    stack: Annotated[
        int | None,
        typer.Option(
            "--stack",
            min=1,
            max=MAX_STACK,
            help="Emulator: bytes of stack where a kernel's has no bound (default: 1024).",
        ),
    ] = None
    race: Annotated[bool, typer.Option("--race", help="Emulator: report LDS races.")] = False
    strict: Annotated[
        bool, typer.Option("--strict", help="Emulator: refuse registers never written.")
    ] = False
    max_instructions: Annotated[
        int | None,
        typer.Option("--max-instructions", min=1, help="Emulator: wave-instructions of a launch."),
    ] = None
    trace: Annotated[
        str | None,
        typer.Option(
            "--trace", metavar="WAVE[:LANE]", help="Emulator: print what this wave executes."
        ),
    ] = None
    stop_at: Annotated[
        str | None,
        typer.Option(
            "--stop-at", metavar="PLACE", help="Emulator: stop at an address or label, and dump."
        ),
    ] = None
    like: Annotated[
        str | None,
        typer.Option(
            "--like",
            metavar="ORIG",
            help="The original, or a folder of originals: says whether what was edited was "
            "executed (default: what FILE's listing names).",
        ),
    ] = None
    target: TargetOption = None
    code_object_version: VersionOption = None
    include: IncludeOption = None
    defsym: DefsymOption = None
    json_: JsonOption = False
    llvm: LlvmOption = None

    def source(self) -> SourceOptions:
        """What is said of the object where it is a source."""
        return source_options(self.target, self.code_object_version, self.include, self.defsym)

    def emulator(self) -> Options:
        """The options of the emulator."""
        from coasm import emulator

        return emulator.Options(
            race=self.race,
            strict=self.strict,
            max_instructions=self.max_instructions,
            trace=_trace(self.trace, self.json_),
            stop_at=_place(self.stop_at),
            num_cu=self.num_cu,
            stack=emulator.STACK if self.stack is None else self.stack,
        )

    def check(self) -> None:
        """Refuse options of the emulator that another backend does not have."""
        if self.backend == "hip" and any(
            (self.race, self.strict, self.max_instructions, self.trace, self.stop_at, self.stack)
        ):
            raise LaunchError(
                "--race, --strict, --max-instructions, --stack, --trace, --stop-at: emulator only"
            )


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
