"""Starts the LLVM tools of ``disasm`` and ``asm`` before the rest of the program is imported.

A disassembly takes about as long as the command line's imports, and the assembler a third of its
time to start. The disassembler's output is taken by :func:`take`; an assembler or a linker that
waits for its input is in :data:`coasm.llvm.run.waiting`, an assembler that has it in
:data:`coasm.llvm.run.working`. What is not taken ends with the process.
"""

from __future__ import annotations

import atexit
import os
import re
import subprocess
from typing import IO

from coasm.errors import CoasmError
from coasm.llvm import limits
from coasm.llvm.find import Llvm, find_llvm
from coasm.llvm.run import (
    TIMEOUT,
    Dump,
    Setup,
    assembler_command,
    feed,
    first_features,
    linker_command,
    objdump_arguments,
    search_folders,
    start_tool,
    waiting,
    working,
)
from coasm.llvm.scratch import new_folder, remove_folder
from coasm.target import ABI_TO_COV, TargetID

__all__ = ["end", "start_assembler_of", "start_disassembly", "start_linker", "take"]

#: Bytes at the start of a listing in which its target is looked for.
_HEAD = 8192
_TARGET = re.compile(rb'^\s*\.amdgcn_target\s+"amdgcn-amd-amdhsa--([\w:+-]+)"', re.M)
_FEATURES = re.compile(rb"^// coasm: features((?: [+-][a-z0-9-]+)+)[ \t\r]*$", re.M)
_VERSION = re.compile(rb"^\s*\.amdhsa_code_object_version\s+([456])\s*$", re.M)
#: Where a kernel of GFX10 to GFX12 may say that its waves have 64 lanes.
_WAVE64 = re.compile(rb"wavefront_size(?:32\s+0|:\s*64)")

_folders: list[str] = []
_running: dict[tuple[str, str], tuple[subprocess.Popen[bytes], IO[bytes]]] = {}


def start_disassembly(path: str, directory: str | None) -> None:
    """Start the disassembly of the file *path*, if it is a code object, and the assembler for it.

    *directory* is that of the LLVM tools, as the user gave it.
    """
    if "\n" in path or not os.path.isfile(path):
        return  # the tool prints the path: a line feed in it might pass for an instruction
    try:
        with open(path, "rb") as file:
            header = file.read(64)
        if header[:4] != b"\x7fELF" or header[18:20] != b"\xe0\0" or len(header) < 64:
            return
        llvm = find_llvm(directory)
        output = open(os.path.join(_folder(), "dump"), "w+b")  # noqa: SIM115  (outlives this call)
        # Absolute: a name that starts with "-" or "@" would mean something else to the tool.
        target = TargetID.from_e_flags(int.from_bytes(header[48:52], "little"), header[8])
        arguments = objdump_arguments(llvm, target, ",".join(first_features(target)))
        command = [llvm.objdump, *arguments, os.path.abspath(path)]
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.DEVNULL
        )
        limits.confine(process.pid, os.path.getsize(path))
        _running[path, llvm.objdump] = (process, output)
        _start_assembler(llvm, target, max(ABI_TO_COV[header[8]], 4))
    except (OSError, ValueError, CoasmError):
        return  # whoever needs it will start it again, and say what is wrong


def start_assembler_of(path: str, directory: str | None) -> Llvm | None:
    """Assemble the listing *path*, where its head says what it is for; with which tools.

    The assembler starts while the metadata is made to follow and the pins are marked.
    """
    if not os.path.isfile(path):
        return None  # a pipe is read once
    try:
        with open(path, "rb") as file:
            data = file.read()
        what = _declared(data)
        if what is None:
            return None
        target, version, features = what
        llvm = find_llvm(directory, processor=target.name)
        if llvm.name_of(target.name) != target.name:
            return None  # it is assembled as a relative's
        setup = Setup(include=search_folders(path))
        command = assembler_command(llvm, target, version, ",".join(features), setup)
        waiting[tuple(command)] = start_tool(command, _folder())
        _feed(tuple(command), data.decode("utf-8", "surrogateescape"), target)
        return llvm
    except (OSError, ValueError, CoasmError):
        return None  # whoever needs it will start it again, and say what is wrong


def _feed(command: tuple[str, ...], text: str, target: TargetID) -> None:
    """Give the assembler that waits the listing *text* as :mod:`coasm.asm.build` will have it."""
    from coasm.asm.follow import follow
    from coasm.asm.pins import marked_source, prepared

    text, _ = follow(text, target)
    prepared[text] = marked_source(text)
    source = prepared[text][1]
    if feed(waiting[command], source):
        working[command, source] = waiting.pop(command)


def _declared(data: bytes) -> tuple[TargetID, int, tuple[str, ...]] | None:
    """Target, code object version and features by a listing's head; None where it has not all."""
    head = data[:_HEAD]
    said, version, extra = (p.search(head) for p in (_TARGET, _VERSION, _FEATURES))
    if said is None or version is None:
        return None
    target = TargetID.parse(said[1].decode("ascii"))
    if extra is None and len(target.processor.family.vgpr_files) > 1 and _WAVE64.search(data):
        return None  # its kernels say which features it takes
    named = extra[1].decode("ascii").split() if extra else ()
    return target, int(version[1]), (*target.features, *named)


def start_linker(llvm: Llvm, linking: tuple[str, ...]) -> None:
    """Start a linker with these options, which waits for the object."""
    try:
        command = linker_command(llvm, linking)
        waiting[tuple(command)] = start_tool(command, _folder())
    except OSError:
        return


def _start_assembler(llvm: Llvm, target: TargetID, version: int) -> None:
    """Start the assembler for a target and a code object version."""
    if len(target.processor.family.vgpr_files) > 1 or target.features:
        return  # its features are known only to those who have read the whole object
    command = assembler_command(llvm, target, version)
    waiting[tuple(command)] = start_tool(command, _folder())


def _folder() -> str:
    """A new folder for a tool's files, which goes with the process."""
    if not _folders:
        atexit.register(end)
    _folders.append(new_folder())
    return _folders[-1]


def end() -> None:
    """End what was started and not taken, and remove its files."""
    for tool in (*waiting.values(), *working.values()):
        tool.process.kill()
        tool.process.wait()
    waiting.clear()
    working.clear()
    for process, output in _running.values():
        process.kill()
        process.wait()
        output.close()
    _running.clear()
    for folder in _folders:
        remove_folder(folder)
    _folders.clear()


def take(path: str, tool: str) -> Dump | None:
    """The disassembly of *path* by *tool*, if :func:`start_disassembly` began it."""
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
        if limits.is_ours(process.returncode):
            raise limits.exceeded(tool, -process.returncode, os.path.getsize(path))
        output.seek(0)
        text = output.read().decode("utf-8", "surrogateescape")
    return Dump(text, process.returncode == 0)
