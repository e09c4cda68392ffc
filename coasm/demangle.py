"""Mangled names in the form that people read, by LLVM's ``llvm-cxxfilt``.

Only C++ names of the Itanium ABI (``_Z…``) are changed. Where the tool is missing or fails, names
stay as they are: they are for reading, nothing depends on them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from coasm.errors import CoasmError

__all__ = ["beside", "demangle"]

#: Bytes of names that one process is given: all systems take that much.
_CHUNK = 100_000


def demangle(names: Iterable[str], llvm: str | None = None) -> dict[str, str]:
    """Mangled name → demangled, for those of *names* that are mangled; all by one process.

    *llvm* is the directory of the LLVM tools (see :func:`coasm.llvm.find_llvm`).
    """
    wanted = [
        name
        for name in dict.fromkeys(names)
        if name.startswith("_Z") and name.isprintable() and not name.isspace() and " " not in name
    ]
    if not wanted:
        return {}
    from coasm.llvm import find_llvm
    from coasm.llvm.run import run

    found: dict[str, str] = {}
    try:
        tool = find_llvm(llvm).cxxfilt
        if tool is None:
            return {}
        for chunk in _chunks(wanted):
            done = run([tool, *chunk])
            lines = done.stdout.decode("utf-8", "replace").splitlines()
            if done.returncode == 0 and len(lines) == len(chunk):
                found.update(zip(chunk, lines, strict=True))
    except (CoasmError, UnicodeError):
        return {}
    return {name: text for name, text in found.items() if text != name}


def beside(name: str, demangled: dict[str, str]) -> str:
    """*name*, with its demangled form behind it where there is one."""
    return f"{name}  {demangled[name]}" if name in demangled else name


def _chunks(names: list[str]) -> Iterator[list[str]]:
    chunk: list[str] = []
    size = 0
    for name in names:
        if chunk and size + len(name) > _CHUNK:
            yield chunk
            chunk, size = [], 0
        chunk.append(name)
        size += len(name) + 16
    yield chunk
