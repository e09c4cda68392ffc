"""What the code objects of a library need: registers, LDS, scratch, spills, by target and kernel.

Source of the numbers: the kernels' metadata (LLVM AMDGPU usage, "Code Object Metadata").
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from coasm.bundle.images import Entry, extract
from coasm.bundle.select import kind_of
from coasm.codeobject import CodeObject, load
from coasm.codeobject.elf import STT_FUNC
from coasm.errors import CoasmError

__all__ = ["KernelUse", "Summary", "TargetUse", "kernel_entries", "summarize"]


@dataclass(frozen=True)
class KernelUse:
    """One kernel of one object. Numbers are the metadata's (0 where it says none), sizes bytes.

    ``code`` is the size of the kernel's function (where its symbol has none: up to the next one, or
    the end of the section), ``bundle`` the number of its bundle.
    """

    name: str
    target: str
    bundle: int
    code: int
    vgprs: int
    agprs: int
    sgprs: int
    lds: int
    scratch: int
    vgpr_spills: int
    sgpr_spills: int

    @property
    def spills(self) -> int:
        """Registers that the kernel spills, of both kinds."""
        return self.vgpr_spills + self.sgpr_spills


@dataclass(frozen=True)
class TargetUse:
    """The objects of one target: their number and size; registers and the like are the maxima."""

    target: str
    objects: int
    bytes: int
    kernels: int
    vgprs: int
    agprs: int
    sgprs: int
    lds: int
    scratch: int
    spilling: int


@dataclass(frozen=True)
class Summary:
    """A file's code objects. ``kernels`` has each kernel once for each object that holds it.

    ``other`` are the images that could not be read, with the reason.
    """

    path: str
    bundles: int
    objects: int
    targets: tuple[TargetUse, ...]
    kernels: tuple[KernelUse, ...]
    other: tuple[tuple[Entry, str], ...]


def summarize(path: str, entries: Sequence[Entry]) -> Summary:
    """Sum up *entries*, which are images of the file at *path*; one image is read at a time.

    Raises:
        CoasmError: a bundle is damaged.
    """
    kernels: list[KernelUse] = []
    other: list[tuple[Entry, str]] = []
    sizes: dict[str, list[int]] = {}
    for entry in entries:
        data = extract(entry)
        kind = kind_of(data)
        try:
            if kind != "code object":
                other.append((entry, kind))
                continue
            co = load(data, name=entry.name)
            kernels += _uses(co, entry)
            sizes.setdefault(entry.target, []).append(entry.size)
        except CoasmError as error:
            other.append((entry, str(error).removeprefix(f"{entry.name}: ")))
    targets = []
    for target, each in sizes.items():
        own = [kernel for kernel in kernels if kernel.target == target]
        targets.append(
            TargetUse(
                target=target,
                objects=len(each),
                bytes=sum(each),
                kernels=len(own),
                vgprs=max((k.vgprs for k in own), default=0),
                agprs=max((k.agprs for k in own), default=0),
                sgprs=max((k.sgprs for k in own), default=0),
                lds=max((k.lds for k in own), default=0),
                scratch=max((k.scratch for k in own), default=0),
                spilling=sum(k.spills > 0 for k in own),
            )
        )
    return Summary(
        path=path,
        bundles=len({entry.number for entry in entries}),
        objects=sum(map(len, sizes.values())),
        targets=tuple(targets),
        kernels=tuple(kernels),
        other=tuple(other),
    )


def kernel_entries(co: CodeObject) -> list[tuple[str, dict[str, Any]]]:
    """Name and metadata of each kernel, as :attr:`CodeObject.kernels` has them, by the metadata
    alone where that says enough: a large library has 100,000.

    Raises:
        FormatError: no metadata, or damaged.
    """
    try:
        return [
            (entry[".symbol"].removesuffix(".kd"), entry)
            for entry in co.metadata.get("amdhsa.kernels", ())
        ]
    except (TypeError, KeyError, AttributeError):
        return [(kernel.name, kernel.metadata) for kernel in co.kernels]


def _uses(co: CodeObject, entry: Entry) -> list[KernelUse]:
    functions = {s.name: s for s in co.symbols if s.type == STT_FUNC}
    starts = sorted({s.value for s in functions.values()})

    def code(name: str) -> int:
        symbol = functions.get(name)
        section = co.section_of(symbol) if symbol is not None else None
        if symbol is None or section is None:
            return 0
        if symbol.size:
            return symbol.size
        end = section.addr + section.size
        following = bisect_right(starts, symbol.value)
        return min([end, *starts[following : following + 1]]) - symbol.value

    return [_use(name, data, entry, code(name)) for name, data in kernel_entries(co)]


def _use(name: str, metadata: dict[str, Any], entry: Entry, code: int) -> KernelUse:
    def number(key: str) -> int:
        value = metadata.get(key)
        return value if isinstance(value, int) else 0

    return KernelUse(
        name=name,
        target=entry.target,
        bundle=entry.number,
        code=code,
        vgprs=number(".vgpr_count"),
        agprs=number(".agpr_count"),
        sgprs=number(".sgpr_count"),
        lds=number(".group_segment_fixed_size"),
        scratch=number(".private_segment_fixed_size"),
        vgpr_spills=number(".vgpr_spill_count"),
        sgpr_spills=number(".sgpr_spill_count"),
    )
