"""What a code object holds, and what each of its kernels uses and takes.

Source: LLVM, *User Guide for AMDGPU Backend*, "Code Object Metadata" and "Kernel Descriptor".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from coasm.codeobject import CodeObject, Kernel
from coasm.descriptor import decode
from coasm.descriptor.declared import Resources, resources
from coasm.mix import instruction_mix
from coasm.occupancy import Occupancy, occupancy

if TYPE_CHECKING:
    from coasm.asm.code import Code
    from coasm.flow.cfg import Graph

__all__ = [
    "DYNAMIC_LDS",
    "Argument",
    "Emulation",
    "KernelInfo",
    "ObjectInfo",
    "SectionInfo",
    "declared_arguments",
    "inspect",
    "kernel_info",
]


@dataclass(frozen=True)
class Argument:
    """One kernel argument as the metadata describes it; None where it does not say.

    ``offset`` and ``size`` are bytes in the kernarg segment. ``access`` is what the kernel really
    does (``.actual_access``), or else what it declares (``.access``). ``qualifiers`` holds those of
    ``const``, ``restrict``, ``volatile`` and ``pipe`` that apply. ``read`` is whether the code
    reads it (:mod:`coasm.reads`), None where that is not known, or no disassembly was given.
    """

    name: str | None
    offset: int | None
    size: int | None
    kind: str | None
    type: str | None
    address_space: str | None
    access: str | None
    qualifiers: tuple[str, ...]
    read: bool | None = None


@dataclass(frozen=True)
class Emulation:
    """Whether the emulator runs a kernel: what it *refused* → how many instructions that are.

    A mnemonic, or a mnemonic and the reason where only a form of it is refused; of a kernel that is
    not run at all, why. Empty: nothing is refused before the kernel runs.
    """

    refused: Mapping[str, int]


@dataclass(frozen=True)
class KernelInfo:
    """One kernel. Numbers are the metadata's, None where it lacks them; sizes are bytes.

    ``resources`` is what the kernel descriptor asks for. ``vgprs`` includes the AGPRs where both
    are one register file (gfx90a and later). ``occupancy`` is None where no workgroup size is
    known; ``instructions`` (class → count, all of :data:`coasm.mix.CLASSES`) and ``emulator`` where
    no disassembly was given.
    """

    name: str
    symbol: str
    entry: int
    language: str | None
    sgprs: int | None
    vgprs: int | None
    agprs: int | None
    sgpr_spills: int | None
    vgpr_spills: int | None
    lds: int | None
    dynamic_lds: bool
    scratch: int | None
    dynamic_stack: bool
    kernarg_size: int | None
    kernarg_align: int | None
    max_workgroup_size: int | None
    required_workgroup_size: tuple[int, ...] | None
    wave_size: int
    resources: Resources
    occupancy: Occupancy | None
    arguments: tuple[Argument, ...]
    instructions: Mapping[str, int] | None
    emulator: Emulation | None


@dataclass(frozen=True)
class SectionInfo:
    """One section header; ``flags`` in letters: W(rite), A(lloc), (e)X(ecute)."""

    index: int
    name: str
    type: str
    flags: str
    address: int
    offset: int
    size: int
    align: int


@dataclass(frozen=True)
class ObjectInfo:
    """A code object: its header, sections and kernels. ``size`` is the file's, in bytes."""

    name: str
    size: int
    target: str
    code_object_version: int
    abi_version: int
    e_flags: int
    entry: int
    metadata_version: tuple[int, ...] | None
    symbols: int
    relocations: int
    sections: tuple[SectionInfo, ...]
    kernels: tuple[KernelInfo, ...]


def inspect(co: CodeObject, code: Mapping[int, Code] | None = None) -> ObjectInfo:
    """What *co* holds; with its decoded *code* also each kernel's mix, and the arguments it reads.

    Raises:
        FormatError: no metadata, or it does not fit the symbols (see :class:`CodeObject`).
        UnsupportedError: a descriptor with a wave size that the target does not have.
    """
    graph = None
    if code is not None:
        from coasm.flow.cfg import control_flow

        graph = control_flow(co, code)
    version = co.metadata.get("amdhsa.version")
    return ObjectInfo(
        name=co.name,
        size=len(co.data),
        target=str(co.target),
        code_object_version=co.code_object_version,
        abi_version=co.elf.header.abi_version,
        e_flags=co.elf.header.flags,
        entry=co.elf.header.entry,
        metadata_version=_integers(version),
        symbols=len(co.symbols),
        relocations=len(co.elf.relocations),
        sections=tuple(_section(s) for s in co.sections[1:]),
        kernels=tuple(kernel_info(co, kernel, graph) for kernel in co.kernels),
    )


_SECTION_TYPES = {
    **{1: "PROGBITS", 2: "SYMTAB", 3: "STRTAB", 4: "RELA", 5: "HASH", 6: "DYNAMIC", 7: "NOTE"},
    **{8: "NOBITS", 9: "REL", 11: "DYNSYM", 0x6FFFFFF6: "GNU_HASH"},
}


def _section(section: Any) -> SectionInfo:
    flags = "".join(letter for bit, letter in ((1, "W"), (2, "A"), (4, "X")) if section.flags & bit)
    return SectionInfo(
        section.index,
        section.name,
        _SECTION_TYPES.get(section.type, f"{section.type:#x}"),
        flags,
        section.addr,
        section.offset,
        section.size,
        section.align,
    )


def kernel_info(co: CodeObject, kernel: Kernel, graph: Graph | None = None) -> KernelInfo:
    """What *co* says of one kernel; with its *graph* also what its code is and reads."""
    data = kernel.metadata
    asked = resources(kernel.descriptor, co.target)
    descriptor = decode(kernel.descriptor, co.target)
    required = _integers(data.get(".reqd_workgroup_size"))
    maximum = _integer(data.get(".max_flat_workgroup_size"))
    size = maximum
    if required is not None and len(required) == 3:
        size = required[0] * required[1] * required[2]
    arguments = declared_arguments(kernel)
    if graph is not None:
        arguments = _with_reads(co, kernel, graph, arguments)
    return KernelInfo(
        name=kernel.name,
        symbol=kernel.symbol,
        entry=kernel.entry,
        language=_language(data),
        sgprs=_integer(data.get(".sgpr_count")),
        vgprs=_integer(data.get(".vgpr_count")),
        agprs=_integer(data.get(".agpr_count")),
        sgpr_spills=_integer(data.get(".sgpr_spill_count")),
        vgpr_spills=_integer(data.get(".vgpr_spill_count")),
        lds=_integer(data.get(".group_segment_fixed_size")),
        dynamic_lds=any(a.kind in DYNAMIC_LDS for a in arguments),
        scratch=_integer(data.get(".private_segment_fixed_size")),
        dynamic_stack=asked.dynamic_stack,
        kernarg_size=_integer(data.get(".kernarg_segment_size")),
        kernarg_align=_integer(data.get(".kernarg_segment_align")),
        max_workgroup_size=maximum,
        required_workgroup_size=required,
        wave_size=asked.wave_size,
        resources=asked,
        occupancy=occupancy(
            co.target.processor, asked, size, wgp_mode=bool(descriptor.get("wgp_mode"))
        )
        if size is not None and size > 0
        else None,
        arguments=arguments,
        instructions=instruction_mix(co, kernel, graph.instructions) if graph is not None else None,
        emulator=_emulation(co, kernel, graph) if graph is not None else None,
    )


def _emulation(co: CodeObject, kernel: Kernel, graph: Graph) -> Emulation:
    from coasm.emulator.refusals import refused
    from coasm.mix import own_span

    first, last = own_span(co, kernel, graph.instructions)
    return Emulation(refused(co, kernel, graph.instructions[first:last]))


#: Kinds of arguments that say that LDS is added at launch.
DYNAMIC_LDS = ("dynamic_shared_pointer", "hidden_dynamic_lds_size")
_QUALIFIERS = ("const", "restrict", "volatile", "pipe")


def declared_arguments(kernel: Kernel) -> tuple[Argument, ...]:
    """The arguments that the metadata lists."""
    listed = kernel.metadata.get(".args")
    return tuple(_argument(one) for one in listed or () if isinstance(one, dict))


def _argument(data: Mapping[Any, Any]) -> Argument:
    return Argument(
        name=_string(data.get(".name")),
        offset=_integer(data.get(".offset")),
        size=_integer(data.get(".size")),
        kind=_string(data.get(".value_kind")),
        type=_string(data.get(".type_name")) or _string(data.get(".value_type")),
        address_space=_string(data.get(".address_space")),
        access=_string(data.get(".actual_access")) or _string(data.get(".access")),
        qualifiers=tuple(q for q in _QUALIFIERS if data.get(f".is_{q}") is True),
    )


def _with_reads(
    co: CodeObject, kernel: Kernel, graph: Graph, arguments: tuple[Argument, ...]
) -> tuple[Argument, ...]:
    from coasm.reads import kernarg_reads

    found = kernarg_reads(co, kernel, graph)
    return tuple(
        replace(a, read=found.of(a.offset, a.size))
        if a.offset is not None and a.size is not None
        else a
        for a in arguments
    )


def _language(data: Mapping[Any, Any]) -> str | None:
    language = _string(data.get(".language"))
    version = _integers(data.get(".language_version"))
    if language is None or not version:
        return language
    return f"{language} {'.'.join(map(str, version))}"


def _integer(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _integers(value: Any) -> tuple[int, ...] | None:
    if not isinstance(value, list) or any(_integer(item) is None for item in value):
        return None
    return tuple(value)


def _string(value: Any) -> str | None:
    return value if isinstance(value, str) else None
