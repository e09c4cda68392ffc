"""What a tool may use: memory, processor time, and bytes that it writes, by the size of its input.

A line such as ``.fill 0x10000000, 8, 1`` or ``.rept 2000000000`` makes LLVM fill the memory or the
disk, or go on for hours. The limits are set from outside after the start (``prlimit``, Linux):
what would set them in between the fork and the program's start costs a fork of all our memory.
"""

from __future__ import annotations

import os
import signal

from coasm.errors import ToolError

__all__ = ["check_code", "confine", "exceeded", "is_ours", "written"]

#: What an empty input may take, and for each of its bytes: memory in bytes (real listings take 3 a
#: byte, objects 10), seconds of processor time (real ones 0.5 a megabyte), bytes written (an
#: object's disassembly is 20 to 50 times as long).
_MEMORY, _MEMORY_EACH = 1 << 30, 64
_SECONDS, _SECONDS_EACH = 10, 1 / 100_000
_WRITTEN, _WRITTEN_EACH = 1 << 28, 256
#: Bytes of code that a source may make: each instruction takes 500 bytes of ours, and some time.
_CODE, _CODE_EACH = 1 << 22, 32
#: The linker's threads have a stack each.
_STACK = 8 << 20


def _memory(given: int) -> int:
    return _MEMORY + _MEMORY_EACH * given + _STACK * (os.cpu_count() or 1)


def _seconds(given: int) -> int:
    return int(_SECONDS + _SECONDS_EACH * given)


def written(given: int) -> int:
    """The bytes that a tool may write whose input has *given*."""
    return _WRITTEN + _WRITTEN_EACH * given


def confine(process: int, given: int) -> None:
    """Hold a process that was just started to what *given* bytes of input deserve."""
    try:
        import resource
    except ImportError:
        return
    if not hasattr(resource, "prlimit"):
        return  # only Linux sets the limits of another process
    for kind, limit in (
        (resource.RLIMIT_DATA, _memory(given)),
        (resource.RLIMIT_CPU, _seconds(given)),
        (resource.RLIMIT_FSIZE, written(given)),
    ):
        try:
            _, hard = resource.prlimit(process, kind)
            if hard == resource.RLIM_INFINITY or limit < hard:
                resource.prlimit(process, kind, (limit, hard))
        except (OSError, ValueError):
            return  # it has ended, or the system does not allow it


#: What LLVM says, through whichever of its libraries, where it gets no memory.
_NO_MEMORY = ("out of memory", "bad_alloc", "Allocation failed", "Buffer allocation failed")


def is_ours(status: int, messages: str | None = None) -> bool:
    """Whether a tool that ended with *status* did so because of a limit.

    Without its *messages* a crash is none: the disassembler crashes on some byte patterns.
    """
    if -status in (signal.SIGXCPU, signal.SIGXFSZ):
        return True
    if messages is None:
        return False
    if -status in (signal.SIGSEGV, signal.SIGBUS) and _peak() > _MEMORY // 2:
        return True  # memory that was not given, and not looked at
    return status != 0 and any(word in messages for word in _NO_MEMORY)


def _peak() -> int:
    """The most bytes that any tool had so far."""
    try:
        import resource
    except ImportError:
        return 0
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10


def exceeded(tool: str | os.PathLike[str], number: int, given: int) -> ToolError:
    """The error for a tool that a limit ended, by the number of the signal."""
    reasons: dict[int, str] = {
        signal.SIGXCPU: f"takes more than {_seconds(given)} s of processor time",
        signal.SIGXFSZ: f"writes more than {written(given) >> 20} MB",
    }
    what = reasons.get(number, f"needs more than {_memory(given) >> 20} MB of memory")
    return ToolError(f"{os.path.basename(tool)} {what} for an input of {given:,} bytes: {_LOOK}")


_LOOK = (
    "look for counts, sizes and alignments in it (.fill, .zero, .org, .rept, .p2align, recursive "
    "macros)"
)


def check_code(size: int, given: int) -> None:
    """Refuse *size* bytes of code that the assembler made of a source of *given* bytes.

    Raises:
        ToolError: they are more than it deserves.
    """
    if size > _CODE + _CODE_EACH * given:
        raise ToolError(f"{size:,} bytes of code of an input of {given:,} bytes: {_LOOK}")
