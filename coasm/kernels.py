"""The kernels of a code object, and which one a user means."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from coasm.codeobject import CodeObject, Kernel
from coasm.demangle import demangle
from coasm.errors import UnsupportedError

__all__ = ["find_kernel", "kernels_of", "only_kernel"]

#: Names that an error lists.
_SHOWN = 8


def kernels_of(co: CodeObject) -> tuple[Kernel, ...]:
    """The kernels of *co*; none where it has no metadata, as a listing may."""
    return co.kernels if co.metadata_note is not None else ()


def find_kernel(co: CodeObject, name: str, llvm: str | None = None) -> Kernel:
    """The kernel of *co* that *name* means.

    That is its symbol; or what the symbol demangles to, with or without the parameters; or a part
    of either that no other kernel has. *llvm* is the directory of the tools that demangle.

    Raises:
        UnsupportedError: there is none, or several; the text names the nearest, or those.
    """
    kernels = co.kernels
    for kernel in kernels:
        if name in (kernel.name, kernel.symbol):
            return kernel
    readable = demangle((kernel.name for kernel in kernels), llvm)
    found = _matching(kernels, name, readable)
    if len(found) == 1:
        return found[0]
    if found:
        raise UnsupportedError(
            f"{co.name}: {name!r} is in the names of {len(found)} kernels; give more of one: "
            f"{_few([_shortest(kernel.name, readable) for kernel in found])}"
        )
    raise UnsupportedError(f"{co.name}: no kernel {name!r}; {_hint(kernels, name, readable)}")


def only_kernel(co: CodeObject) -> Kernel:
    """The one kernel of *co*.

    Raises:
        UnsupportedError: there is none, or several.
    """
    if len(co.kernels) == 1:
        return co.kernels[0]
    names = _few([kernel.name for kernel in co.kernels])
    raise UnsupportedError(f"{co.name}: name the kernel; it has {names or 'none'}")


def _matching(
    kernels: Sequence[Kernel], name: str, readable: Mapping[str, str]
) -> Sequence[Kernel]:
    """The kernels that *name* may mean, by the first of three ways by which there are any."""
    if not name:
        return ()
    shown = [(kernel, readable.get(kernel.name, kernel.name)) for kernel in kernels]
    return (
        [kernel for kernel, text in shown if text == name]
        or [kernel for kernel, text in shown if _without_parameters(text) == name]
        or [kernel for kernel, text in shown if name in kernel.name or name in text]
    )


def _without_parameters(text: str) -> str:
    """``void scale<float>(float*, int)`` as a user calls it: ``scale<float>``."""
    return re.sub(r"\(.*", "", text, count=1, flags=re.DOTALL).removeprefix("void ")


def _shortest(name: str, readable: Mapping[str, str]) -> str:
    """The shortest way to name one kernel."""
    short = _without_parameters(readable.get(name, name))
    alike = sum(_without_parameters(text) == short for text in readable.values())
    return short if name in readable and alike == 1 else name


def _hint(kernels: Sequence[Kernel], name: str, readable: Mapping[str, str]) -> str:
    """The kernel whose name, or a word of it, is nearest; or what there is."""
    from difflib import get_close_matches

    words: dict[str, str] = {}
    for kernel in kernels:
        text = readable.get(kernel.name, kernel.name)
        for word in (kernel.name, text, _without_parameters(text), *re.findall(r"\w{3,}", text)):
            words.setdefault(word, kernel.name)
    close = get_close_matches(name, words, n=1)
    if close:
        return f"did you mean {_shortest(words[close[0]], readable)!r}?"
    return f"there are {_few([kernel.name for kernel in kernels])}" if kernels else "it has none"


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
