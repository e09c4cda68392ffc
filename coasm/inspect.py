"""What a code object holds, and what each of its kernels uses and takes.

Sources: LLVM, *User Guide for AMDGPU Backend*, "Code Object Metadata" and "Kernel Descriptor";
occupancy: LLVM's ``AMDGPUBaseInfo.cpp`` (``IsaInfo``) and ``AMDGPUSubtarget.cpp``
(``getOccupancyWithWorkGroupSizes``), with registers and LDS counted in the granules that the
hardware allocates.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from coasm.codeobject import CodeObject, Kernel
from coasm.codeobject.elf import STT_FUNC
from coasm.descriptor import Resources, decode, resources
from coasm.isa.flow import flow_of, leaves
from coasm.target import Processor

if TYPE_CHECKING:
    from coasm.asm.code import Instruction

__all__ = [
    "CLASSES",
    "Argument",
    "KernelInfo",
    "Limit",
    "ObjectInfo",
    "Occupancy",
    "SectionInfo",
    "classify",
    "inspect",
    "occupancy",
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
class Limit:
    """How far one resource lets a kernel fill a compute unit.

    ``cause`` is ``VGPRs``, ``SGPRs``, ``LDS``, ``workgroup slots`` or ``wave slots``. ``detail``
    is the calculation in words.
    """

    cause: str
    waves_per_simd: int
    workgroups: int
    detail: str


@dataclass(frozen=True)
class Occupancy:
    """How many waves of a kernel can be resident at once.

    ``unit`` is what a workgroup runs on: ``CU``, or ``WGP`` (two CUs) in workgroup processor mode.
    ``workgroups`` fit on one unit at a time, of ``workgroup_size`` work-items or
    ``workgroup_waves`` waves each; that fills the busiest SIMD with ``waves_per_simd`` waves of the
    hardware's ``max_waves_per_simd``. ``limited_by`` names the causes of the lowest limit. Where
    the metadata requires no size, ``workgroup_size`` is the greatest it allows: ``workgroups`` is 0
    where one of that size does not fit.
    """

    unit: str
    simds: int
    workgroup_size: int
    workgroup_waves: int
    workgroups: int
    waves_per_simd: int
    max_waves_per_simd: int
    limited_by: tuple[str, ...]
    limits: tuple[Limit, ...]


@dataclass(frozen=True)
class KernelInfo:
    """One kernel. Numbers are the metadata's, None where it lacks them; sizes are bytes.

    ``resources`` is what the kernel descriptor asks for. ``vgprs`` includes the AGPRs where both
    are one register file (gfx90a and later). ``occupancy`` is None where no workgroup size is
    known; ``instructions`` (class → count, all of :data:`CLASSES`) where no disassembly was given.
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


def inspect(co: CodeObject, instructions: Iterable[Instruction] | None = None) -> ObjectInfo:
    """What *co* holds; with its *instructions* also each kernel's mix, and the arguments it reads.

    Raises:
        FormatError: no metadata, or it does not fit the symbols (see :class:`CodeObject`).
        UnsupportedError: a descriptor with a wave size that the target does not have.
    """
    code = None if instructions is None else sorted(instructions)
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
        kernels=tuple(_kernel(co, kernel, code) for kernel in co.kernels),
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


def _kernel(co: CodeObject, kernel: Kernel, code: Sequence[Instruction] | None) -> KernelInfo:
    data = kernel.metadata
    asked = resources(kernel.descriptor, co.target)
    descriptor = decode(kernel.descriptor, co.target)
    required = _integers(data.get(".reqd_workgroup_size"))
    maximum = _integer(data.get(".max_flat_workgroup_size"))
    size = maximum
    if required is not None and len(required) == 3:
        size = required[0] * required[1] * required[2]
    listed = data.get(".args")
    arguments = tuple(_argument(a) for a in listed or () if isinstance(a, dict))
    if code is not None:
        arguments = _with_reads(co, kernel, code, arguments)
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
        dynamic_lds=any(a.kind in _DYNAMIC_LDS for a in arguments),
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
        instructions=_mix(co, kernel, code) if code is not None else None,
    )


_DYNAMIC_LDS = ("dynamic_shared_pointer", "hidden_dynamic_lds_size")
_QUALIFIERS = ("const", "restrict", "volatile", "pipe")


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
    co: CodeObject, kernel: Kernel, code: Sequence[Instruction], arguments: tuple[Argument, ...]
) -> tuple[Argument, ...]:
    from coasm.reads import kernarg_reads

    found = kernarg_reads(co, kernel, code)
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


# Occupancy

# (from this ISA version on, bytes). Source: LLVM, getLdsDwGranularity; for GFX10.3 to GFX12, where
# the hardware allocates two of the units that the size is encoded in: Mesa, ACO,
# lds_alloc_granule. A version in between belongs to the entry before it.
_LDS_GRANULES = (
    ((6, 0), 256),
    ((7, 0), 512),
    ((9, 5), 1280),
    ((10, 0), 512),
    ((10, 3), 1024),
    ((12, 5), 2048),
)


def occupancy(
    processor: Processor, asked: Resources, workgroup_size: int, *, wgp_mode: bool = False
) -> Occupancy:
    """How many workgroups and waves of a kernel can be resident on one compute unit.

    *asked* is what its descriptor asks for, *workgroup_size* in work-items (at least 1), *wgp_mode*
    whether it runs in workgroup processor mode. LDS that is added at launch, scratch memory, and
    SGPRs that a trap handler takes are not counted.

    Raises:
        UnsupportedError: the target has no waves of that size.
    """
    family = processor.family
    wgp = wgp_mode and family.wgp_mode
    # Source: LLVM, getEUsPerCU. A CU has four SIMDs, on GFX10 to GFX12 two (its WGP four).
    simds = 2 if family.wgp_mode and not wgp else 4
    waves = -(-workgroup_size // asked.wave_size)
    slots = family.max_waves * simds
    limits = []

    def by_waves(cause: str, per_simd: int, detail: str) -> None:
        per_simd = min(per_simd, family.max_waves)
        limits.append(Limit(cause, per_simd, per_simd * simds // waves, detail))

    def by_workgroups(cause: str, workgroups: int, detail: str) -> None:
        # No more than there are wave slots for; on the busiest SIMD, as LLVM counts.
        resident = min(workgroups * waves, slots)
        limits.append(Limit(cause, -(-resident // simds), workgroups, detail))

    file = family.vgpr_file(asked.wave_size)
    by_waves(
        "VGPRs",
        file.total // asked.vgprs_allocated,
        f"{asked.vgprs_allocated} of {file.total} in granules of {file.allocation}",
    )
    if asked.sgprs is not None and family.sgpr_total:
        granule = family.sgpr_allocation
        taken = 96 if family.sgpr_init_bug else -(-asked.sgprs // granule) * granule
        by_waves(
            "SGPRs",
            family.sgpr_total // taken,
            f"{taken} of {family.sgpr_total} in granules of {granule}",
        )
    if asked.lds:
        granule = [size for since, size in _LDS_GRANULES if since <= processor.version[:2]][-1]
        taken = -(-asked.lds // granule) * granule
        total = family.lds_bytes * (2 if wgp else 1)
        fits = total // taken if asked.lds <= family.lds_bytes else 0
        by_workgroups("LDS", fits, f"{taken} of {total} bytes in granules of {granule}")
    if waves > 1:
        # Source: LLVM, getMaxWorkGroupsPerCU; a workgroup of one wave needs no barrier.
        barriers = 32 if wgp else 16
        by_workgroups("workgroup slots", barriers, f"{barriers} workgroups of more than one wave")
    by_workgroups(
        "wave slots", slots // waves, f"{family.max_waves} waves on each of {simds} SIMDs"
    )

    workgroups = min(limit.workgroups for limit in limits)
    return Occupancy(
        unit="WGP" if wgp else "CU",
        simds=simds,
        workgroup_size=workgroup_size,
        workgroup_waves=waves,
        workgroups=workgroups,
        waves_per_simd=-(-workgroups * waves // simds),
        max_waves_per_simd=family.max_waves,
        limited_by=tuple(limit.cause for limit in limits if limit.workgroups == workgroups),
        limits=tuple(limits),
    )


# Instruction mix

# The first row that matches says the class. Source: the instruction formats of the ISA guides
# (GCN3 to RDNA4 and CDNA4) and LLVM's AMDGPU instruction names.
_ROWS = (
    ("MFMA/WMMA", r"v_s?mfma|v_smfmac|v_s?wmmac?"),
    ("VALU", r"v_"),
    ("LDS", r"ds_|lds_"),
    ("VMEM atomic", r"(?:buffer|tbuffer|global|flat|scratch|image)_\w*atomic"),
    ("VMEM store", r"(?:buffer|tbuffer|global|flat|scratch|image|tensor|cluster)_\w*store"),
    (
        "VMEM load",
        r"(?:buffer|tbuffer|global|flat|scratch|image|tensor|cluster)_\w*(?:load|prefetch)"
        r"|image_(?:sample|gather|get|bvh)",
    ),
    (
        "SMEM",
        r"s_(?:buffer_|scratch_)?(?:load|store|atomic|prefetch)|s_dcache|s_mem(?:real)?time"
        r"|s_atc_probe|s_gl1_inv|s_get_waveid",
    ),
    ("wait/barrier", r"s_wait|s_barrier|s_sleep|s_nop|s_delay_alu|s_monitor_sleep"),
    (
        "other",
        r"s_(?:trap|sethalt|setprio|set_prio|sendmsg|clause|set_inst_prefetch|inst_prefetch|icache"
        r"|ttrace|code_end|wakeup|incperflevel|decperflevel|set_gpr_idx_(?:on|off|mode)|denorm_mode"
        r"|round_mode|version|set_vgpr_msb|setkill)",
    ),
    ("SALU", r"s_"),
)
#: The classes of :func:`classify`, in the order in which they are shown.
CLASSES = (
    *("VALU", "MFMA/WMMA", "SALU", "VMEM load", "VMEM store", "VMEM atomic"),
    *("LDS", "SMEM", "branch", "wait/barrier", "other"),
)


def classify(mnemonic: str) -> str:
    """The class of an instruction, one of :data:`CLASSES`, by its mnemonic."""
    flow = flow_of(mnemonic)
    if flow is not None and flow.sort != "trap":
        return "branch"
    for name, pattern in _ROWS:
        if re.match(pattern, mnemonic):
            return name
    return "other"


def _mix(co: CodeObject, kernel: Kernel, code: Sequence[Instruction]) -> dict[str, int]:
    """Instructions by class, from the kernel's entry to the end of its function.

    The end is the symbol's, or, where the symbol has no size, the next kernel's entry or the end
    of the section, without the padding that follows the last end of control flow.
    """
    section = co.section_at(kernel.entry)
    sizes = [s.size for s in co.symbols if s.value == kernel.entry and s.type == STT_FUNC]
    size = max(sizes, default=0)
    end = kernel.entry + size
    if not size:
        end = section.addr + section.size if section else kernel.entry
        end = min([other.entry for other in co.kernels if other.entry > kernel.entry] + [end])
    first, last = (bisect_left(code, at, key=lambda i: i.address) for at in (kernel.entry, end))
    found = [instruction.mnemonic for instruction in code[first:last]]
    if not size:
        stop = max((at for at, name in enumerate(found) if leaves(name)), default=-1)
        found = found[: stop + 1] or found
    counts = dict.fromkeys(CLASSES, 0)
    classes: dict[str, str] = {}
    for mnemonic in found:
        if mnemonic not in classes:
            classes[mnemonic] = classify(mnemonic)
        counts[classes[mnemonic]] += 1
    return counts
