"""What a listing has about one kernel, to be read: its code, its descriptor, its metadata."""

from __future__ import annotations

import os
from collections.abc import Sequence

from coasm.asm.metadata_lines import kernel_lines
from coasm.asm.names import display, parse_stand_ins, spell
from coasm.codeobject import CodeObject, Kernel
from coasm.codeobject.elf import STT_FUNC, STT_OBJECT
from coasm.errors import UnsupportedError

__all__ = ["kernel_view"]


def kernel_view(text: str, co: CodeObject, kernel: Kernel) -> str:
    """The lines of *text*, the listing of *co*, that are about *kernel*.

    The result does not assemble, and says so where that is tried: the object's other kernels and
    data are not in it.

    Raises:
        UnsupportedError: the kernel's entry has no label in the listing.
    """
    lines = text.split("\n")
    own = {name: stand_in for stand_in, name in parse_stand_ins(text).items()}

    def label(name: str) -> str:
        return f"{own.get(name) or spell(name) or name}:"

    starts = {
        label(symbol.name)
        for symbol in co.symbols
        if symbol.type in (STT_FUNC, STT_OBJECT) or symbol.name.endswith(".kd")
    }
    starts |= {label(one.name) for one in co.kernels} | {label(one.symbol) for one in co.kernels}
    code = _unit(lines, label(kernel.name), starts)
    if not code:
        raise UnsupportedError(f"{co.name}: {kernel.name!r} has no label in the listing")
    name = label(kernel.name)[:-1]
    said = display(f"{kernel.name} of {os.path.basename(co.name)}")
    head = [
        f"// Kernel {said}",
        "// A part of the object's listing, to be read: it does not assemble.",
        *lines[_line(lines, ".amdgcn_target") : _line(lines, ".amdhsa_code_object_version") + 1],
        '\t.error "this shows one kernel of an object; coasm disasm without --kernel writes a '
        'listing that assembles"',
        "",
    ]
    descriptor = _block(lines, f".amdhsa_kernel {name}", ".end_amdhsa_kernel")
    descriptor = descriptor or _unit(lines, label(kernel.symbol), starts)
    metadata: list[str] = []
    for entry in kernel_lines(lines):
        if entry.symbol == kernel.symbol:
            metadata = ["\t.amdgpu_metadata", "---", "amdhsa.kernels:"]
            metadata += [*lines[entry.first : entry.end], "...", "\t.end_amdgpu_metadata"]
            break
    parts = [part for part in (code, descriptor, metadata) if part]
    return "\n".join([*head, *"\n\n".join("\n".join(part) for part in parts).split("\n"), ""])


def _line(lines: Sequence[str], directive: str) -> int:
    return next(number for number, line in enumerate(lines) if line.strip().startswith(directive))


def _unit(lines: Sequence[str], label: str, starts: set[str]) -> list[str]:
    """The lines from a label to the next symbol's or section's, without what is between them."""
    if label not in lines:
        return []
    at = lines.index(label)
    first, end = at, at + 1
    while end < len(lines) and lines[end] not in starts and not _leaves(lines[end]):
        end += 1
    while end > at + 1 and _prepares(lines[end - 1]):
        end -= 1
    while first and lines[first - 1].strip() and _prepares(lines[first - 1]):
        first -= 1
    return list(lines[first:end])


def _leaves(line: str) -> bool:
    return line.startswith(("\t.section", "\t.text", "\t.rodata", "\t.amdgpu_metadata"))


def _prepares(line: str) -> bool:
    """Whether *line* belongs to the symbol that comes next, or to nothing."""
    return not line.strip() or line.startswith(
        ("\t.p2align", "\t.balign", "\t.type", "\t.globl", "\t.weak", "\t.hidden", "\t.protected")
    )


def _block(lines: Sequence[str], first: str, last: str) -> list[str]:
    """The lines from the directive *first* to *last*."""
    for number, line in enumerate(lines):
        if line.strip() == first:
            end = next(n for n in range(number, len(lines)) if lines[n].strip() == last)
            return list(lines[number : end + 1])
    return []
