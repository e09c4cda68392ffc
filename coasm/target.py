"""What a gfx target is: ELF ``e_flags`` and target ID both ways, and per-target facts as data.

Source: LLVM, *User Guide for AMDGPU Backend*, "ELF Code Object" (``e_flags`` tables for code object
V3, V4/V5 and V6) and "Target ID"; ``llvm/BinaryFormat/ELF.h``. ABI version ``n`` of the ELF header
is code object version ``n + 2``. Register files, waves and LDS: LLVM 22, ``AMDGPUBaseInfo.cpp``
(``IsaInfo``) and the features of ``GCNProcessors.td``.
"""

from __future__ import annotations

from typing import NamedTuple

from coasm.counters import GFX9, GFX10, GFX11, GFX12, GFX12_5, Counters
from coasm.errors import UnsupportedError

__all__ = [
    "ABI_TO_COV",
    "PROCESSORS",
    "WITH_MATRICES",
    "Family",
    "Processor",
    "TargetID",
    "VgprFile",
    "counters_of",
    "emulated",
    "generations",
    "processor",
    "relative",
    "with_wait_states",
]

#: ELF header ``EI_ABIVERSION`` → code object version.
ABI_TO_COV = {0: 2, 1: 3, 2: 4, 3: 5, 4: 6}

_MACH_MASK = 0x0FF
_XNACK_V3, _SRAMECC_V3 = 0x100, 0x200
_XNACK_SHIFT, _SRAMECC_SHIFT = 8, 10
_GENERIC_SHIFT = 24
_SETTINGS = ("", "any", "off", "on")  # the two-bit feature fields of code object V4 and later


class VgprFile(NamedTuple):
    """The vector registers of one SIMD as waves of one size see them; counts are VGPRs per lane.

    ``encoding`` is the granule that the kernel descriptor counts in, ``allocation`` the one that
    the hardware allocates in, ``total`` what the waves of one SIMD share.
    """

    wave_size: int
    encoding: int
    allocation: int
    total: int


class Family(NamedTuple):
    """What the processors of one hardware generation have in common.

    Sources: the features and constants named are LLVM 22's, of ``GCNProcessors.td``, ``AMDGPU.td``
    and ``AMDGPUBaseInfo.cpp``. tests/test_target.py and tests/descriptor have LLVM say them of
    each processor, but for ``fnuz``, ``nop_of_4_bits`` and the bugs that it does not know of.
    """

    #: One entry per wave size that LLVM's assembler takes, the default one first.
    vgpr_files: tuple[VgprFile, ...]
    #: Wave sizes that the hardware has, the default one first (FeatureWavefrontSize32 and 64).
    wave_sizes: tuple[int, ...]
    #: Waves per SIMD (getMaxWavesPerEU).
    max_waves: int
    #: LDS that one workgroup can address, and the granule that the hardware allocates it in, in
    #: bytes. Source: getAddressableLocalMemorySize, getLdsDwGranularity; for GFX10.3 to GFX12,
    #: which allocate two of the units that the size is encoded in: Mesa, ACO, lds_alloc_granule.
    lds_bytes: int
    lds_granule: int
    #: The numbered SGPRs of a wave: without VCC, FLAT_SCRATCH and XNACK_MASK.
    addressable_sgprs: int
    #: Opcodes of the SOP1 instructions that read the program counter or add to it: S_GETPC_B64; on
    #: GFX12.5 S_GET_PC_I64 and S_ADD_PC_I64. Source: SOPInstructions.td.
    pc_opcodes: tuple[int, ...]
    #: SGPR allocation granule, and what the waves of one SIMD share; 0: every wave gets all of them
    #: and the kernel descriptor counts none.
    sgpr_allocation: int = 0
    sgpr_total: int = 0
    #: SGPRs that are counted for XNACK_MASK and VCC, and for FLAT_SCRATCH and both
    #: (getNumExtraSGPRs); whether they are of the numbered ones.
    xnack_mask_sgprs: int = 0
    flat_scratch_sgprs: int = 0
    numbers_extra_sgprs: bool = False
    #: Every wave must be given exactly 96 SGPRs (FeatureSGPRInitBug).
    sgpr_init_bug: bool = False
    #: ``.amdhsa_reserve_flat_scratch`` and ``.amdhsa_reserve_xnack_mask`` are directives.
    reserves_flat_scratch: bool = True
    reserves_xnack_mask: bool = True
    #: The hardware sets flat scratch up by itself (FeatureArchitectedFlatScratch).
    architected_flat_scratch: bool = False
    #: The workgroup's IDs are in TTMP registers, not in SGPRs (FeatureArchitectedSGPRs).
    architected_sgprs: bool = False
    #: The three work-item IDs are all in v0 (FeaturePackedTID).
    packed_workitem_ids: bool = False
    #: How many user SGPRs preloaded kernel arguments may take (getMaxNumUserSGPRs).
    max_user_sgprs: int = 16
    #: Kernel arguments can be preloaded; the bytes at a kernel's entry that firmware which preloads
    #: skips (AMDGPU usage, "Preloaded Kernel Arguments"; needsKernArgPreloadProlog).
    kernarg_preload: bool = False
    preload_prologue: int = 0
    #: AGPRs and VGPRs are one file, divided at an offset that the kernel descriptor holds.
    accum_offset: bool = False
    #: S_SET_VGPR_MSB says which VGPRs from 256 on are meant (Feature1024AddressableVGPRs).
    vgpr_msb: bool = False
    #: 16-bit instructions can name halves of VGPRs, v3.l and v3.h (FeatureTrue16BitInsts).
    true16: bool = False
    #: A workgroup may run on a whole workgroup processor.
    wgp_mode: bool = False
    #: FP8 and BF8 are the FNUZ formats, not those of OCP. Source: ROCm documentation, "Data types
    #: and precision support"; HIP's amd_hip_fp8.h, HIP_FP8_TYPE_FNUZ.
    fnuz: bool = False
    #: Loads to LDS of three and four dwords (FeatureLDSLoadB96_B128).
    wide_lds_loads: bool = False
    #: The banks of LDS, of four bytes each. Source: CDNA3 and CDNA4 ISA guides, "Data Share".
    lds_banks: int = 32
    #: MFMAs of F16 and BF16 take subnormal numbers for zero, and give none. Source: ROCm
    #: documentation, MIOpen, "MI200 MFMA behavior specifics".
    flushing_mfma: bool = False
    #: Stores and loads name how far they are coherent (SC0, SC1), in the bits that say GLC and SCC
    #: elsewhere. Source: LLVM AMDGPU usage, "Memory Model gfx942".
    scoped_caches: bool = False
    #: A 64-bit shift by the last VGPR that the wave has is wrong. Source: hasShift64HighRegBug, of
    #: gfx90a alone in LLVM 22, of those behind it too in later ones.
    shift64_bug: bool = False
    #: V_DOT instructions do not heed op_sel (hasDOTOpSelHazard; validateOpSel refuses them).
    dot_op_sel_bug: bool = False
    #: V_PK_FMA_F32 and the like mis-execute with some op_sel. Source: rocMLIR, pull request 2459;
    #: hasPkF32InvalidOpSel of LLVM after 22.
    pk_f32_op_sel_bug: bool = False
    #: S_NOP's operand has four bits. Source: CDNA3 and CDNA4 ISA guides, S_NOP.
    nop_of_4_bits: bool = False
    #: The column of :mod:`coasm.linter.rules` and :mod:`coasm.isa.passes` that is for it, by AMD's
    #: name of the generation; empty where lint has no rules for wait states.
    wait_states: str = ""
    #: Waves of 64 have hazards that lint has no rules for: masks that are written again, partial
    #: forwarding (FeatureVALUMaskWriteHazard, FeatureVALUPartialForwardingHazard).
    wave64_hazards: bool = False
    #: Its wait counters; None where they are not described.
    counters: Counters | None = None
    #: A wave that is held at S_BARRIER takes no exception: everything has to be in before it (no
    #: FeatureBackOffBarrier).
    barrier_waits: bool = False
    #: Loads of one kind may write their VGPRs in another order than that of their issue (no
    #: FeatureVmemWriteVgprInOrder).
    loads_pass_loads: bool = False
    #: Whether the emulator runs its kernels.
    emulated: bool = False
    #: Its instructions: of :data:`coasm.isa.table.INSTRUCTION_SETS`; empty where none is described.
    instructions: str = ""

    def __hash__(self) -> int:
        return hash((self.instructions, self.wait_states))

    def vgpr_file(self, wave_size: int) -> VgprFile:
        """The register file of that wave size.

        Raises:
            UnsupportedError: the family has no waves of that size.
        """
        for file in self.vgpr_files:
            if file.wave_size == wave_size:
                return file
        raise UnsupportedError(f"no wave{wave_size} on this target")


_K = 1024
_VGPR_GCN = (VgprFile(64, 4, 4, 256),)
_VGPR_CDNA = (VgprFile(64, 8, 8, 512),)
_VGPR_10_1 = (VgprFile(32, 8, 8, 1024), VgprFile(64, 4, 4, 512))
_VGPR_10_3 = (VgprFile(32, 8, 16, 1024), VgprFile(64, 4, 8, 512))
_VGPR_1536 = (VgprFile(32, 8, 24, 1536), VgprFile(64, 4, 12, 768))
# The hardware has wave32 only; LLVM's assembler takes `.amdhsa_wavefront_size32 0` all the same.
_VGPR_12_5 = (VgprFile(32, 16, 16, 1024), VgprFile(64, 8, 8, 512))

_GFX6 = Family(
    vgpr_files=_VGPR_GCN,
    wave_sizes=(64,),
    max_waves=10,
    lds_bytes=32 * _K,
    lds_granule=256,
    addressable_sgprs=104,
    pc_opcodes=(0x1F,),
    sgpr_allocation=8,
    sgpr_total=512,
    flat_scratch_sgprs=4,
    numbers_extra_sgprs=True,
    reserves_flat_scratch=False,
    reserves_xnack_mask=False,
)
_GFX7 = _GFX6._replace(lds_bytes=64 * _K, lds_granule=512, reserves_flat_scratch=True)
_GFX8 = _GFX7._replace(
    addressable_sgprs=102,
    pc_opcodes=(0x1C,),
    sgpr_allocation=16,
    sgpr_total=800,
    xnack_mask_sgprs=4,
    flat_scratch_sgprs=6,
    numbers_extra_sgprs=False,
    reserves_xnack_mask=True,
    instructions="801",
)
_GFX8_BUG = _GFX8._replace(addressable_sgprs=96, sgpr_init_bug=True, numbers_extra_sgprs=True)
_GFX9 = _GFX8._replace(wait_states="vega", counters=GFX9, barrier_waits=True, instructions="900")
_GFX9_GENERIC = _GFX9._replace(instructions="9-generic")
_GFX904 = _GFX9._replace(instructions="904")
_GFX906 = _GFX9._replace(instructions="906")
_GFX908 = _GFX9._replace(wait_states="cdna1", instructions="908")
_GFX90A = _GFX9._replace(
    vgpr_files=_VGPR_CDNA,
    max_waves=8,
    packed_workitem_ids=True,
    kernarg_preload=True,
    preload_prologue=256,
    accum_offset=True,
    shift64_bug=True,
    nop_of_4_bits=True,
    wait_states="cdna2",
    flushing_mfma=True,
    barrier_waits=False,
    instructions="90a",
)
_GFX94_GENERIC = _GFX90A._replace(
    reserves_flat_scratch=False,
    architected_flat_scratch=True,
    dot_op_sel_bug=True,
    wait_states="cdna3",
    flushing_mfma=False,
    scoped_caches=True,
    instructions="9-4-generic",
)
_GFX94 = _GFX94_GENERIC._replace(fnuz=True, emulated=True, instructions="942")
_GFX95 = _GFX94._replace(
    lds_bytes=160 * _K,
    lds_granule=1280,
    fnuz=False,
    lds_banks=64,
    wide_lds_loads=True,
    pk_f32_op_sel_bug=True,
    wait_states="cdna4",
    instructions="950",
)
_GFX10_1 = Family(
    vgpr_files=_VGPR_10_1,
    wave_sizes=(32, 64),
    max_waves=20,
    lds_bytes=64 * _K,
    lds_granule=512,
    addressable_sgprs=106,
    pc_opcodes=(0x1F,),
    wgp_mode=True,
    wait_states="rdna1",
    counters=GFX10,
    instructions="1010",
)
_GFX10_1_DOT = _GFX10_1._replace(instructions="1011")
_GFX10_3 = _GFX10_1._replace(
    vgpr_files=_VGPR_10_3,
    max_waves=16,
    lds_granule=1024,
    wait_states="rdna2",
    instructions="1030",
)
_GFX11 = _GFX10_3._replace(
    pc_opcodes=(0x47,),
    reserves_flat_scratch=False,
    architected_flat_scratch=True,
    packed_workitem_ids=True,
    true16=True,
    wave64_hazards=True,
    wait_states="rdna3",
    counters=GFX11,
    instructions="1100",
)
_GFX11_BIG = _GFX11._replace(vgpr_files=_VGPR_1536)
_GFX11_5 = _GFX11._replace(wait_states="rdna3.5", instructions="1150")
_GFX11_5_BIG = _GFX11_BIG._replace(wait_states="rdna3.5", instructions="1150")
_GFX12 = _GFX11_BIG._replace(
    architected_sgprs=True,
    wave64_hazards=False,
    wait_states="rdna4",
    counters=GFX12,
    loads_pass_loads=True,
    instructions="1200",
)
_GFX12_5 = _GFX12._replace(
    vgpr_files=_VGPR_12_5,
    wave_sizes=(32,),
    lds_bytes=320 * _K,
    lds_granule=2048,
    pc_opcodes=(0x47, 0x4B),
    max_user_sgprs=32,
    kernarg_preload=True,
    vgpr_msb=True,
    wgp_mode=False,
    wait_states="gfx12.5",
    counters=GFX12_5,
    instructions="1250",
)


class Processor(NamedTuple):
    """One LLVM processor: its name, its ``EF_AMDGPU_MACH`` value and which settings it knows.

    LLVM knows it from major version ``llvm_since`` to before ``llvm_before`` (0: as long as coasm
    works with it). ``relative`` is the processor that has all its instructions, in the same
    encodings, where there is one: what is there for that one serves it too.
    """

    name: str
    mach: int
    version: tuple[int, int, int]
    xnack: bool
    sramecc: bool
    generic: bool
    family: Family
    llvm_since: int = 0
    llvm_before: int = 0
    relative: str = ""

    def __hash__(self) -> int:
        return hash(self.name)

    def between(self, since: tuple[int, ...], before: tuple[int, ...]) -> bool:
        """Whether its GFX version is from *since* to below *before*: columns of other tables."""
        return since <= self.version < before


def _p(
    name: str,
    mach: int,
    version: tuple[int, int, int],
    family: Family,
    settings: str = "",
    llvm_since: int = 0,
) -> Processor:
    return Processor(
        name,
        mach,
        version,
        "x" in settings,
        "s" in settings,
        name.endswith("-generic"),
        family,
        llvm_since,
    )


def _dropped(name: str, mach: int, version: tuple[int, int, int]) -> Processor:
    """A relative of gfx942 that LLVM 22 no longer knows.

    Source: llvm-project pull request 126763, which removed them (compilers made their stores
    ``sc0 sc1``; they differ in nothing else).
    """
    return _p(name, mach, version, _GFX94, "xs")._replace(llvm_before=22, relative="gfx942")


# "x": the target ID may name xnack, "s": it may name sramecc. The number is the LLVM that knows the
# processor first, where not all that coasm works with do. Source: `clang -print-supported-cpus` of
# LLVM 19 and 22.
_ALL = (
    _p("gfx600", 0x20, (6, 0, 0), _GFX6),
    _p("gfx601", 0x21, (6, 0, 1), _GFX6),
    _p("gfx602", 0x3A, (6, 0, 2), _GFX6),
    _p("gfx700", 0x22, (7, 0, 0), _GFX7),
    _p("gfx701", 0x23, (7, 0, 1), _GFX7),
    _p("gfx702", 0x24, (7, 0, 2), _GFX7),
    _p("gfx703", 0x25, (7, 0, 3), _GFX7),
    _p("gfx704", 0x26, (7, 0, 4), _GFX7),
    _p("gfx705", 0x3B, (7, 0, 5), _GFX7),
    _p("gfx801", 0x28, (8, 0, 1), _GFX8, "x"),
    _p("gfx802", 0x29, (8, 0, 2), _GFX8_BUG),
    _p("gfx803", 0x2A, (8, 0, 3), _GFX8),
    _p("gfx805", 0x3C, (8, 0, 5), _GFX8_BUG),
    _p("gfx810", 0x2B, (8, 1, 0), _GFX8, "x"),
    _p("gfx900", 0x2C, (9, 0, 0), _GFX9, "x"),
    _p("gfx902", 0x2D, (9, 0, 2), _GFX9, "x"),
    _p("gfx904", 0x2E, (9, 0, 4), _GFX904, "x"),
    _p("gfx906", 0x2F, (9, 0, 6), _GFX906, "xs"),
    _p("gfx908", 0x30, (9, 0, 8), _GFX908, "xs"),
    _p("gfx909", 0x31, (9, 0, 9), _GFX9, "x"),
    _p("gfx90a", 0x3F, (9, 0, 10), _GFX90A, "xs"),
    _p("gfx90c", 0x32, (9, 0, 12), _GFX9, "x"),
    _dropped("gfx940", 0x40, (9, 4, 0)),
    _dropped("gfx941", 0x4B, (9, 4, 1)),
    _p("gfx942", 0x4C, (9, 4, 2), _GFX94, "xs"),
    _p("gfx950", 0x4F, (9, 5, 0), _GFX95, "xs", 22),
    _p("gfx9-generic", 0x51, (9, 0, 0), _GFX9_GENERIC, "x"),
    _p("gfx9-4-generic", 0x5F, (9, 4, 0), _GFX94_GENERIC, "xs", 22),
    _p("gfx1010", 0x33, (10, 1, 0), _GFX10_1, "x"),
    _p("gfx1011", 0x34, (10, 1, 1), _GFX10_1_DOT, "x"),
    _p("gfx1012", 0x35, (10, 1, 2), _GFX10_1_DOT, "x"),
    _p("gfx1013", 0x42, (10, 1, 3), _GFX10_1, "x"),
    _p("gfx10-1-generic", 0x52, (10, 1, 0), _GFX10_1, "x"),
    _p("gfx1030", 0x36, (10, 3, 0), _GFX10_3),
    _p("gfx1031", 0x37, (10, 3, 1), _GFX10_3),
    _p("gfx1032", 0x38, (10, 3, 2), _GFX10_3),
    _p("gfx1033", 0x39, (10, 3, 3), _GFX10_3),
    _p("gfx1034", 0x3E, (10, 3, 4), _GFX10_3),
    _p("gfx1035", 0x3D, (10, 3, 5), _GFX10_3),
    _p("gfx1036", 0x45, (10, 3, 6), _GFX10_3),
    _p("gfx10-3-generic", 0x53, (10, 3, 0), _GFX10_3),
    _p("gfx1100", 0x41, (11, 0, 0), _GFX11_BIG),
    _p("gfx1101", 0x46, (11, 0, 1), _GFX11_BIG),
    _p("gfx1102", 0x47, (11, 0, 2), _GFX11),
    _p("gfx1103", 0x44, (11, 0, 3), _GFX11),
    _p("gfx1150", 0x43, (11, 5, 0), _GFX11_5),
    _p("gfx1151", 0x4A, (11, 5, 1), _GFX11_5_BIG),
    _p("gfx1152", 0x55, (11, 5, 2), _GFX11_5),
    _p("gfx1153", 0x58, (11, 5, 3), _GFX11_5, llvm_since=22),
    _p("gfx11-generic", 0x54, (11, 0, 3), _GFX11),
    _p("gfx1200", 0x48, (12, 0, 0), _GFX12),
    _p("gfx1201", 0x4E, (12, 0, 1), _GFX12),
    _p("gfx12-generic", 0x59, (12, 0, 0), _GFX12),
    _p("gfx1250", 0x49, (12, 5, 0), _GFX12_5, "xs", 22),
    _p("gfx1251", 0x5A, (12, 5, 1), _GFX12_5, "xs", 22),
)

#: Those that stand for their line where one with matrix instructions is looked for, in the order
#: in which they are tried.
WITH_MATRICES = ("gfx950", "gfx942", "gfx90a", "gfx908", "gfx1201", "gfx1100", "gfx1250")

#: Every processor coasm knows, by its LLVM name.
PROCESSORS = {p.name: p for p in _ALL}
_BY_MACH = {p.mach: p for p in _ALL}


def relative(name: str) -> str:
    """The processor whose instructions those of *name* are: nearly always itself."""
    found = PROCESSORS.get(name)
    return found.relative or name if found else name


def emulated() -> tuple[str, ...]:
    """The processors that the emulator runs, without those that only have a relative there."""
    return tuple(p.name for p in PROCESSORS.values() if p.family.emulated and not p.relative)


def counters_of(instructions: str) -> Counters | None:
    """The wait counters of the processors that have an instruction set; None: not described."""
    for one in PROCESSORS.values():
        if one.family.instructions == instructions:
            return one.family.counters
    return None


def with_wait_states() -> tuple[str, ...]:
    """The processors that lint has rules for wait states for, without relatives."""
    return tuple(p.name for p in PROCESSORS.values() if p.family.wait_states and not p.relative)


def generations() -> dict[str, str]:
    """The columns of the wait-state tables, each with the first processor that it is for."""
    found: dict[str, str] = {}
    for name in with_wait_states():
        found.setdefault(PROCESSORS[name].family.wait_states, name)
    return found


def processor(name: str) -> Processor:
    """The processor of that LLVM name (``gfx942``, ``gfx9-4-generic``).

    Raises:
        UnsupportedError: no such processor is known.
    """
    try:
        return PROCESSORS[name]
    except KeyError:
        raise UnsupportedError(f"unknown gfx target {name!r}") from None


class TargetID(NamedTuple):
    """A processor with its xnack and sramecc settings, as one code object names them.

    ``xnack`` and ``sramecc`` are ``""`` (the processor, or the object's flags, know no such
    setting), ``"any"``, ``"off"`` or ``"on"``. ``generic_version`` is 0 for a real processor.
    """

    processor: Processor
    xnack: str = ""
    sramecc: str = ""
    generic_version: int = 0

    @classmethod
    def from_e_flags(cls, e_flags: int, abi_version: int) -> TargetID:
        """Decode ``e_flags`` as the code object version of *abi_version* defines them.

        Raises:
            UnsupportedError: an unknown machine, bits that the version does not define, or a
                code object version other than 3 to 6.
        """
        version = ABI_TO_COV.get(abi_version)
        if version is None or version < 3:
            raise UnsupportedError(
                f"code object v{version} (ABI version {abi_version}) is not supported; v3 to v6 are"
                if version
                else f"unknown ABI version {abi_version}; known are 1 to 4 (code object v3 to v6)"
            )
        mach = e_flags & _MACH_MASK
        proc = _BY_MACH.get(mach)
        if proc is None:
            raise UnsupportedError(f"unknown gfx target: EF_AMDGPU_MACH {mach:#x} in e_flags")
        if version == 3:
            target = cls(
                proc,
                ("off", "on")[bool(e_flags & _XNACK_V3)] if proc.xnack else "",
                ("off", "on")[bool(e_flags & _SRAMECC_V3)] if proc.sramecc else "",
            )
        else:
            target = cls(
                proc,
                _SETTINGS[e_flags >> _XNACK_SHIFT & 3],
                _SETTINGS[e_flags >> _SRAMECC_SHIFT & 3],
                e_flags >> _GENERIC_SHIFT if version >= 6 else 0,
            )
        if target.e_flags(abi_version) != e_flags:
            raise UnsupportedError(
                f"e_flags {e_flags:#x} hold bits that code object v{version} does not define"
            )
        return target

    @property
    def features(self) -> tuple[str, ...]:
        """LLVM's features for the settings that are on or off."""
        settings = (("sramecc", self.sramecc), ("xnack", self.xnack))
        signs = {"on": "+", "off": "-"}
        return tuple(f"{signs[value]}{name}" for name, value in settings if value in signs)

    @classmethod
    def parse(cls, text: str) -> TargetID:
        """The target ID that a text such as ``gfx90a:sramecc+:xnack-`` names.

        Raises:
            UnsupportedError: an unknown processor, or a setting it does not have.
        """
        name, *settings = text.split(":")
        proc = processor(name)
        values = {"xnack": "any" if proc.xnack else "", "sramecc": "any" if proc.sramecc else ""}
        for setting in settings:
            key, sign = setting[:-1], setting[-1:]
            if sign not in ("+", "-") or not values.get(key):
                raise UnsupportedError(f"target ID {text!r}: unknown setting {setting!r} of {name}")
            values[key] = "on" if sign == "+" else "off"
        return cls(proc, values["xnack"], values["sramecc"], 1 if proc.generic else 0)

    def e_flags(self, abi_version: int) -> int:
        """The ``e_flags`` word that says this target ID in that ABI version."""
        if ABI_TO_COV[abi_version] == 3:
            return (
                self.processor.mach
                | (_XNACK_V3 if self.xnack == "on" else 0)
                | (_SRAMECC_V3 if self.sramecc == "on" else 0)
            )
        return (
            self.processor.mach
            | _SETTINGS.index(self.xnack) << _XNACK_SHIFT
            | _SETTINGS.index(self.sramecc) << _SRAMECC_SHIFT
            | self.generic_version << _GENERIC_SHIFT
        )

    @property
    def name(self) -> str:
        """The processor's name: what ``-mcpu`` takes."""
        return self.processor.name

    def __str__(self) -> str:
        """The canonical target ID: ``gfx942``, ``gfx90a:sramecc+:xnack-``."""
        signs = {"on": "+", "off": "-"}
        text = self.processor.name
        for setting, value in (("sramecc", self.sramecc), ("xnack", self.xnack)):
            if value in signs:
                text += f":{setting}{signs[value]}"
        return text
