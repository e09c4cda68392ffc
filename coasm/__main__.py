"""The command line's front door: it answers fast, and every failure is one clear line.

Exit status: that of the command, 2 for every error, 130 after an interrupt, 141 where the reader
of standard output went away (what a shell reports for SIGINT and SIGPIPE).
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from collections.abc import Sequence

from coasm.errors import AssemblyError, CoasmError

__all__ = ["main", "script"]


def script() -> None:
    """The console script: :func:`main`, then the end of the process.

    What the interpreter would tear down is memory; it takes as long as a small command.
    """
    status = main()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    if "coasm.llvm.prefetch" in sys.modules:
        sys.modules["coasm.llvm.prefetch"].end()
    os._exit(status)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``coasm`` with *arguments* (default: those of the process) and return its exit status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    # A command is short and makes little cyclic garbage; collecting it costs a tenth of the time.
    gc.set_threshold(200_000)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a character that the locale lacks is no failure
            stream.reconfigure(errors="backslashreplace")
    try:
        status = _run(arguments)
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        # Nothing more can be written; keep the interpreter from trying at its exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno())  # type: ignore[union-attr]
        return 141
    except KeyboardInterrupt:
        return 130
    except AssemblyError as error:
        return _fail(str(error), error.exit_code, multiline=True)
    except CoasmError as error:
        return _fail(str(error), error.exit_code)
    except OSError as error:
        name = f"{error.filename}: " if error.filename else ""
        return _fail(f"{name}{error.strerror or error}")
    except MemoryError:
        return _fail("out of memory")
    except Exception as error:
        if os.environ.get("COASM_DEBUG"):
            raise
        kind = type(error).__name__
        return _fail(f"internal error: {kind}: {error} (COASM_DEBUG=1 shows where; please report)")


def _run(arguments: Sequence[str]) -> int:
    if arguments and arguments[0] == "--version":
        from coasm import __version__

        print(f"coasm {__version__}")
        return 0

    if arguments and arguments[0] in ("asm", "disasm"):  # LLVM works while the rest is imported
        from coasm.cli.simple import simple
        from coasm.llvm import prefetch

        parameters = simple(arguments[0], arguments[1:])
        if parameters is not None and arguments[0] == "asm":
            tools = prefetch.start_assembler_of(parameters["file"], parameters.get("llvm"))
            from coasm.cli.build_object import build_object

            build_object(**parameters, tools=tools)
            return 0
        if parameters is not None:
            prefetch.start_disassembly(parameters["file"], parameters.get("llvm"))
            from coasm.cli.write_listing import write_listing

            write_listing(**parameters)
            return 0

    from coasm.cli.app import run

    try:
        run(arguments)
    except SystemExit as stop:
        if isinstance(stop.__context__, BrokenPipeError):  # typer made it status 1: "different"
            raise stop.__context__ from None
        return stop.code if isinstance(stop.code, int) else 0
    return 0


def _fail(message: str, status: int = 2, *, multiline: bool = False) -> int:
    from coasm.cli.terminal import printable

    print(f"coasm: error: {printable(message, multiline=multiline)}", file=sys.stderr)
    return status


if __name__ == "__main__":
    script()
