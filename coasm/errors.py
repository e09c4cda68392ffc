"""The errors of coasm: each names the input, the place in it, and what to do.

Every error that a caller can act on is a :class:`CoasmError`. The command line prints its text as
one line and ends with its :attr:`~CoasmError.exit_code`; nothing else reaches a user as a failure.
"""

from __future__ import annotations

__all__ = [
    "AssemblyError",
    "CoasmError",
    "DeviceError",
    "EditError",
    "FormatError",
    "LaunchError",
    "OutputError",
    "ToolError",
    "UnsupportedError",
]


class CoasmError(Exception):
    """A failure that a user can act on; its text is one clear line (of an assembler: several)."""

    #: The exit status that the command line gives this error: "could not be judged".
    exit_code = 2


class FormatError(CoasmError):
    """The input is not what it claims to be: truncated, overlapping, or lying about a size."""


class UnsupportedError(CoasmError):
    """The input is well formed, but outside what coasm (or the LLVM it found) handles."""


class ToolError(CoasmError):
    """An LLVM tool is missing, is too old, or failed in a way that is not the input's fault."""


class AssemblyError(CoasmError):
    """The assembler or the linker refused a ``.s`` file; the text holds its messages."""


class EditError(CoasmError):
    """An edit that cannot be made, or would change what it is not about; the text says why."""


class OutputError(CoasmError):
    """An output file cannot be written, or exists and would be overwritten."""


class LaunchError(CoasmError):
    """A launch that does not fit its kernel: arguments, geometry, manifest, or launch file."""


class DeviceError(CoasmError):
    """The device or its runtime is missing, does not fit the object, or refused a call."""
