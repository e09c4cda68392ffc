"""Runs the LLVM tools: the disassembler, the assembler, the linker. Starts every process of coasm.

No input reaches a shell, and every file name that a tool sees is made here. ``llvm-mc`` assembles
where it is there (it starts faster), ``clang -cc1as`` elsewhere: both are the same assembler.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import IO, NamedTuple

from coasm.errors import AssemblyError, ToolError, UnsupportedError
from coasm.llvm import limits
from coasm.llvm.find import Llvm
from coasm.llvm.scratch import scratch_folder
from coasm.target import TargetID

__all__ = [
    "PLAIN",
    "TRUE16",
    "Assembled",
    "Dump",
    "Setup",
    "Started",
    "assemble",
    "clang_command",
    "feed",
    "first_features",
    "has_true16",
    "link",
    "linker_command",
    "objdump",
    "search_folders",
    "write_bytes",
]

TRIPLE = "amdgcn-amd-amdhsa"

#: Seconds after which a tool is given up: far above what the largest real object takes.
TIMEOUT = 120


class Dump(NamedTuple):
    """What one disassembler run printed, and whether it came to its end."""

    text: str
    complete: bool


class Assembled(NamedTuple):
    """An assembler run: the relocatable object, or None, and the messages as printed."""

    data: bytes | None
    messages: str


class Setup(NamedTuple):
    """What the assembler is told beside the target: its triple, include folders, symbols.

    ``defsym`` are ``NAME=VALUE`` as on its command line. With ``line_table`` the object has a line
    table (``.debug_line``) of the source.
    """

    triple: str = TRIPLE
    include: tuple[str, ...] = ()
    defsym: tuple[str, ...] = ()
    line_table: bool = False


PLAIN = Setup()


def search_folders(source: str, include: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Where the file *source* finds what it includes: last where it is itself.

    clang looks where it runs, and in ``-I``.
    """
    own = os.path.dirname(source)
    if own and own not in include and os.path.isfile(source):
        return (*include, own)
    return include


def run(
    command: Sequence[str | os.PathLike[str]], given: int = 0
) -> subprocess.CompletedProcess[bytes]:
    """Run one tool to its end, its output captured. *given* are the bytes of its input files.

    Raises:
        ToolError: it cannot be started, does not end within :data:`TIMEOUT`, or exceeds a limit.
    """
    try:
        process = subprocess.Popen(
            [os.fspath(part) for part in command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=_environment(),
        )
    except OSError as error:
        raise ToolError(f"cannot run {command[0]}: {error.strerror or error}") from None
    with process:
        limits.confine(process.pid, given)
        try:
            output, errors = process.communicate(timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            raise ToolError(f"{command[0]} did not end within {TIMEOUT} s") from None
    if limits.is_ours(process.returncode, errors.decode("utf-8", "replace")):
        raise limits.exceeded(command[0], -process.returncode, given)
    return subprocess.CompletedProcess(process.args, process.returncode, output, errors)


def _environment() -> dict[str, str]:
    # A crash takes four times as long where LLVM looks up the names in its own stack.
    return {**os.environ, "LLVM_DISABLE_SYMBOLIZATION": "1"}


#: What the pipe is to hold behind which a tool's output is gathered (Linux grants 1 MiB to all).
_PIPE = 1 << 20
#: Bytes in a second: how fast a tool is taken to write at most.
_RATE = 100e6


def _gather(command: Sequence[str | os.PathLike[str]], given: int) -> tuple[bytes, int]:
    """What a tool prints that writes each line by itself, and its exit status.

    *given* are the bytes of its input.

    Who waits at the other end of a pipe is woken by each line, which costs as much as the tool;
    who comes by now and then finds thousands.

    Raises:
        ToolError: as :func:`run`.
    """
    try:
        process = subprocess.Popen(
            [os.fspath(part) for part in command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            env=_environment(),
        )
    except OSError as error:
        raise ToolError(f"cannot run {command[0]}: {error.strerror or error}") from None
    assert process.stdout is not None
    with process, process.stdout as output:
        limits.confine(process.pid, given)
        most = limits.written(given)
        os.set_blocking(output.fileno(), False)
        longest, pause = _enlarge(output.fileno()) / _RATE, 0.001
        limit = time.monotonic() + TIMEOUT
        parts: list[bytes] = []
        while True:
            ended = process.poll() is not None
            part = output.read(_PIPE)  # None where nothing is there yet
            if part:
                parts.append(part)
                most -= len(part)
                if most < 0:
                    process.kill()
                    raise limits.exceeded(command[0], signal.SIGXFSZ, given)
            elif ended:
                return b"".join(parts), process.returncode
            elif time.monotonic() > limit:
                process.kill()
                raise ToolError(f"{command[0]} did not end within {TIMEOUT} s")
            if not ended:
                time.sleep(pause)
                pause = min(2 * pause, longest)


def _enlarge(pipe: int) -> int:
    """Enlarge a pipe, where the system does that; the bytes that it holds."""
    try:
        import fcntl

        return fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE)
    except (ImportError, AttributeError, OSError):
        return 1 << 16


def write_bytes(path: str, data: bytes) -> None:
    """Write a file for a tool (pathlib would be imported for nothing else)."""
    with open(path, "wb") as file:
        file.write(data)


def _read_bytes(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def objdump(
    llvm: Llvm, paths: Sequence[str | os.PathLike[str]], target: TargetID, mattr: str = ""
) -> Dump:
    """Disassemble the code sections of *paths*, all for *target*; see :mod:`coasm.asm.decode`.

    ``llvm-objdump`` crashes on some byte patterns: ``complete`` is False then, and the text is
    what came before.
    """
    command: list[str | os.PathLike[str]] = [
        llvm.objdump,
        *objdump_arguments(llvm, target, mattr),
        *paths,
    ]
    given = sum(os.path.getsize(path) for path in paths)
    output, status = _gather(command, given)
    if limits.is_ours(status):
        raise limits.exceeded(command[0], -status, given)
    return Dump(output.decode("utf-8", "surrogateescape"), status == 0)


#: GFX11 and later name the halves of a VGPR in 16-bit instructions (v3.l, v3.h). LLVM has both
#: this and an older way, in which it cannot name the upper halves; which one is its default depends
#: on the processor.
TRUE16 = "+real-true16"


def has_true16(target: TargetID) -> bool:
    """Whether 16-bit instructions of the target name halves of VGPRs."""
    return target.processor.family.true16


def first_features(target: TargetID) -> tuple[str, ...]:
    """The features, beside its own, with which an object of *target* is disassembled first."""
    return (TRUE16,) if has_true16(target) else ()


def objdump_arguments(llvm: Llvm, target: TargetID, mattr: str = "") -> list[str]:
    """The arguments of a disassembly before its files."""
    arguments = ["-d", "-z"]
    name = _name(llvm, target)
    if name != target.name:
        # The triple too: of a machine that LLVM never knew it cannot tell even the architecture.
        arguments += [f"--triple={TRIPLE}", f"--mcpu={name}"]
    if mattr:
        arguments.append(f"--mattr={mattr}")
    return arguments


def _name(llvm: Llvm, target: TargetID) -> str:
    """What the tools call the target's processor.

    Raises:
        UnsupportedError: they know neither it nor a relative.
    """
    name = llvm.name_of(target.name)
    if name is None:
        raise UnsupportedError(f"{target.name} is not known to the LLVM in {llvm.directory}")
    return name


def assembler_command(
    llvm: Llvm,
    target: TargetID,
    code_object_version: int,
    mattr: str = "",
    setup: Setup = PLAIN,
) -> list[str]:
    """The command that assembles standard input; its output file is still to be named.

    A *code_object_version* of 0 is what the source says, or LLVM's default.
    """
    version = [f"--amdhsa-code-object-version={code_object_version}"] if code_object_version else []
    include = [part for folder in setup.include for part in ("-I", folder)]
    name = _name(llvm, target)
    if llvm.mc is None:
        return [
            llvm.clang,
            "-cc1as",
            *("-triple", setup.triple, "-filetype", "obj", "-target-cpu", name),
            *(part for f in mattr.split(",") if f for part in ("-target-feature", f)),
            *(part for option in version for part in ("-mllvm", option)),
            *(["-debug-info-kind=constructor"] if setup.line_table else []),
            *include,
            *(part for value in setup.defsym for part in ("--defsym", value)),
            "-",
            "-o",
        ]
    return [
        llvm.mc,
        f"-triple={setup.triple}",
        f"-mcpu={name}",
        *version,
        "-filetype=obj",
        *([f"-mattr={mattr}"] if mattr else []),
        *(["-g"] if setup.line_table else []),
        *include,
        *(f"--defsym={value}" for value in setup.defsym),
        "-o",
    ]


class Started(NamedTuple):
    """A tool that runs: its process, and the path of its output file."""

    process: subprocess.Popen[bytes]
    output: str


#: Tools that wait for their input, and assemblers that have it: see :mod:`coasm.llvm.prefetch`.
waiting: dict[tuple[str, ...], Started] = {}
working: dict[tuple[tuple[str, ...], bytes], Started] = {}


def start_tool(
    command: list[str], folder: str, source: IO[bytes] | int = subprocess.PIPE
) -> Started:
    """Start an assembler or a linker that reads *source*, or a pipe.

    Behind the *command* its output file is named, which is in *folder*.
    """
    output = os.path.join(folder, "out.o")
    process = subprocess.Popen(
        [*command, output],
        stdin=source,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=_environment(),
    )
    return Started(process, output)


def feed(tool: Started, source: bytes) -> bool:
    """Give a tool that waits for it all of its input at once; whether its pipe holds that much.

    A pipe that is filled bit by bit wakes up both ends a thousand times.
    """
    pipe = tool.process.stdin
    if pipe is None or len(source) > _enlarge(pipe.fileno()):
        return False
    limits.confine(tool.process.pid, len(source))
    with suppress(OSError):  # it has ended: what it says is read later
        pipe.write(source)
        pipe.close()
    tool.process.stdin = None
    return True


def _finish(tool: Started, given: int, source: bytes | None = None) -> str:
    """Let a tool end whose input has *given* bytes: *source*, if it waits for it. Its messages.

    Raises:
        ToolError: it does not end.
    """
    process = tool.process
    limits.confine(process.pid, given)
    if source is not None and feed(tool, source):
        source = None
    try:
        _, errors = process.communicate(source, TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        assert isinstance(process.args, list)
        raise ToolError(f"{process.args[0]} did not end within {TIMEOUT} s") from None
    return errors.decode("utf-8", "surrogateescape")


def assemble(
    llvm: Llvm,
    source: bytes,
    target: TargetID,
    code_object_version: int,
    mattr: str = "",
    setup: Setup = PLAIN,
) -> Assembled:
    """Assemble *source* into a relocatable object. Messages name the input ``<stdin>``.

    Where LLVM knows only a relative of the target, source and object are that one's to LLVM alone.
    See :func:`assembler_command` for the rest.

    Raises:
        ToolError: the assembler cannot be started, or does not end.
        AssemblyError: it crashed.
    """
    command = assembler_command(llvm, target, code_object_version, mattr, setup)
    name = _name(llvm, target)
    if name != target.name:
        source = re.sub(_DIRECTIVE, rb"\g<1>" + name.encode(), source)
    key = tuple(command)
    try:
        if (key, source) in working:
            tool = working.pop((key, source))
            return _assembled(tool, _finish(tool, len(source)), source, target, name)
        if key in waiting:
            tool = waiting.pop(key)
            return _assembled(tool, _finish(tool, len(source), source), source, target, name)
        with scratch_folder() as folder:
            # From a file: what feeds a pipe wakes up a thousand times.
            write_bytes(os.path.join(folder, "in.s"), source)
            with open(os.path.join(folder, "in.s"), "rb") as file:
                tool = start_tool(command, folder, file)
            return _assembled(tool, _finish(tool, len(source)), source, target, name)
    except OSError as error:
        raise ToolError(f"cannot run {command[0]}: {error.strerror or error}") from None


def _assembled(
    tool: Started, messages: str, source: bytes, target: TargetID, name: str
) -> Assembled:
    """What an assembler made that has ended, to which the target's processor is *name*."""
    status = tool.process.returncode
    if limits.is_ours(status, messages):
        assert isinstance(tool.process.args, list)
        raise limits.exceeded(tool.process.args[0], -status, len(source))
    if status < 0:
        raise AssemblyError(f"the assembler crashed ({signal.Signals(-status).name}) on this input")
    if status != 0:
        return Assembled(None, messages)
    data = _read_bytes(tool.output)
    if name != target.name:
        data = data[:_MACH] + bytes([target.processor.mach]) + data[_MACH + 1 :]
    return Assembled(data, messages)


#: The processor's name in the directive, and the byte of ``e_flags`` that says it.
_DIRECTIVE = rb'(?m)^([ \t]*\.amdgcn_target[ \t]+"amdgcn-amd-amdhsa-[a-z]*-)gfx[0-9a-z]+'
_MACH = 48


#: Features that clang's driver has a flag for; it cannot be told of the others.
_CLANG_FLAGS = {"+wavefrontsize64": "-mwavefrontsize64"}


def clang_command(
    source: str,
    output: str,
    target: TargetID,
    code_object_version: int,
    extras: Sequence[str] = (),
) -> str | None:
    """The command that assembles and links a listing with plain clang; None where none does.

    *extras* are subtarget features, and options for the linker (``-Wl,…``).
    """
    extra = [e if e.startswith("-Wl,") else _CLANG_FLAGS.get(e) for e in extras]
    if None in extra:
        return None
    flags = " ".join(
        [
            f"-target {TRIPLE} -mcpu={target} -mcode-object-version={code_object_version}",
            *(flag for flag in extra if flag),
        ]
    )
    return f"clang -x assembler {flags} {source} -o {output}"


def linker_command(
    llvm: Llvm, extra: Sequence[str] = (), paths: Sequence[str] = ("/dev/stdin",)
) -> list[str]:
    """The command that links objects, by default one from a pipe, before its output file."""
    return [llvm.lld, "--no-undefined", "-shared", *extra, *paths, "-o"]


def _linked_by_waiting(command: list[str], objects: Sequence[bytes]) -> bytes | None:
    """What a linker that waits for the object makes of it; None where there is none, or it fails.

    Whoever runs it again has its messages.
    """
    if len(objects) != 1 or tuple(command) not in waiting:
        return None
    tool = waiting.pop(tuple(command))
    try:
        _finish(tool, len(objects[0]), objects[0])
    except (ToolError, OSError):
        return None
    return _read_bytes(tool.output) if tool.process.returncode == 0 else None


def link(llvm: Llvm, objects: Sequence[bytes], extra: Sequence[str] = ()) -> bytes:
    """Link relocatable objects into a code object, as clang's driver does for this target.

    Raises:
        AssemblyError: the linker refused them; the text holds its messages.
    """
    linked = _linked_by_waiting(linker_command(llvm, extra), objects)
    if linked is not None:
        return linked
    with scratch_folder() as folder:
        paths = []
        for index, data in enumerate(objects):
            paths.append(os.path.join(folder, f"in{index}.o"))
            write_bytes(paths[-1], data)
        out = os.path.join(folder, "out.co")
        given = sum(map(len, objects))
        done = run([*linker_command(llvm, extra, paths), out], given)
        if done.returncode != 0 or not os.path.exists(out):
            text = done.stderr.decode("utf-8", "replace").replace(folder + os.sep, "")
            raise AssemblyError(f"the linker refused the object:\n{text.rstrip()}")
        return _read_bytes(out)
