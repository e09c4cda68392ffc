"""Starts ``llvm-objdump`` before the rest of the program is imported.

A disassembly takes about as long as the command line's imports; both at once save a third of
``coasm disasm``. What was started here is taken by :func:`take`, or forgotten.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Sequence
from typing import IO

from coasm.errors import CoasmError
from coasm.llvm.find import find_llvm
from coasm.llvm.run import TIMEOUT, Dump, objdump_arguments

__all__ = ["start", "take"]

_running: dict[tuple[str, str], tuple[subprocess.Popen[bytes], IO[bytes]]] = {}


def start(arguments: Sequence[str]) -> None:
    """Start the disassembly of the first argument that is an ELF file, if there is one."""
    directory: str | None = None
    path: str | None = None
    skip = False
    for position, argument in enumerate(arguments):
        if skip:
            skip = False
        elif argument.startswith("--llvm="):
            directory = argument[7:]
        elif argument in ("--llvm", "-o", "--output"):
            skip = True
            if argument == "--llvm" and position + 1 < len(arguments):
                directory = arguments[position + 1]
        elif not argument.startswith("-") and path is None:
            path = argument
    if path is None:
        return
    try:
        with open(path, "rb") as file:
            if file.read(4) != b"\x7fELF":
                return
        llvm = find_llvm(directory)
        output = tempfile.TemporaryFile(prefix="coasm-")
        # Absolute: a name that starts with "-" or "@" would mean something else to the tool.
        command = [llvm.objdump, *objdump_arguments(), os.path.abspath(path)]
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.DEVNULL
        )
    except (OSError, ValueError, CoasmError):
        return  # whoever needs it will start it again, and say what is wrong
    _running[path, llvm.objdump] = (process, output)


def take(path: str, tool: str) -> Dump | None:
    """The disassembly of *path* by *tool*, if :func:`start` began it."""
    found = _running.pop((path, tool), None)
    if found is None:
        return None
    process, output = found
    with output:
        try:
            process.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return None
        output.seek(0)
        text = output.read().decode("utf-8", "surrogateescape")
    return Dump(text, process.returncode == 0)
