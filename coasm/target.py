"""What a gfx target is: ELF ``e_flags`` and target ID both ways, and per-target facts as data.

Source: LLVM, *User Guide for AMDGPU Backend*, "ELF Code Object" (``e_flags`` tables for code object
V3, V4/V5 and V6) and "Target ID"; ``llvm/BinaryFormat/ELF.h``. ABI version ``n`` of the ELF header
is code object version ``n + 2``. Register files, waves and LDS: LLVM 22, ``AMDGPUBaseInfo.cpp``
(``IsaInfo``) and the features of ``GCNProcessors.td``.
"""

from __future__ import annotations

from typing import NamedTuple

from coasm.errors import UnsupportedError

__all__ = [
    "ABI_TO_COV",
    "PROCESSORS",
    "Family",
    "Processor",
    "TargetID",
    "VgprFile",
    "processor",
    "relative",
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

    ``vgpr_files`` has one entry per wave size, the default one first. ``max_waves`` is waves per
    SIMD, ``lds_bytes`` the LDS that one workgroup can address, ``addressable_sgprs`` the numbered
    SGPRs of a wave (without VCC, FLAT_SCRATCH and XNACK_MASK), ``sgpr_allocation`` and
    ``sgpr_total`` the SGPR allocation granule and what the waves of one SIMD share (0: every wave
    gets all of them). ``max_user_sgprs`` is how many user SGPRs preloaded kernel arguments may
    take, ``preload_prologue`` the bytes at a kernel's entry that firmware which preloads skips
    (LLVM AMDGPU usage, "Preloaded Kernel Arguments"; ``needsKernArgPreloadProlog`` says where).
    ``accum_offset``: AGPRs and VGPRs are one file, divided at an offset that the kernel
    descriptor holds. ``architected_flat_scratch``: the hardware sets flat scratch up by itself.
    ``wgp_mode``: a workgroup may run on a whole workgroup processor. ``sgpr_init_bug``: every
    wave must be given exactly 96 SGPRs.
    """

    vgpr_files: tuple[VgprFile, ...]
    max_waves: int
    lds_bytes: int
    addressable_sgprs: int
    sgpr_allocation: int = 0
    sgpr_total: int = 0
    max_user_sgprs: int = 16
    accum_offset: bool = False
    architected_flat_scratch: bool = False
    kernarg_preload: bool = False
    preload_prologue: int = 0
    wgp_mode: bool = False
    sgpr_init_bug: bool = False

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

_GFX6 = Family(_VGPR_GCN, 10, 32 * _K, 104, 8, 512)
_GFX7 = _GFX6._replace(lds_bytes=64 * _K)
_GFX8 = Family(_VGPR_GCN, 10, 64 * _K, 102, 16, 800)
_GFX8_BUG = _GFX8._replace(addressable_sgprs=96, sgpr_init_bug=True)
_GFX9 = _GFX8
_GFX90A = Family(
    _VGPR_CDNA,
    8,
    64 * _K,
    102,
    16,
    800,
    accum_offset=True,
    kernarg_preload=True,
    preload_prologue=256,
)
_GFX94 = _GFX90A._replace(architected_flat_scratch=True)
_GFX95 = _GFX94._replace(lds_bytes=160 * _K)
_GFX10_1 = Family(_VGPR_10_1, 20, 64 * _K, 106, wgp_mode=True)
_GFX10_3 = Family(_VGPR_10_3, 16, 64 * _K, 106, wgp_mode=True)
_GFX11 = _GFX10_3._replace(architected_flat_scratch=True)
_GFX11_BIG = _GFX11._replace(vgpr_files=_VGPR_1536)
_GFX12 = _GFX11_BIG
_GFX12_5 = _GFX11._replace(
    vgpr_files=_VGPR_12_5,
    lds_bytes=320 * _K,
    max_user_sgprs=32,
    kernarg_preload=True,
    wgp_mode=False,
)


class Processor(NamedTuple):
    """One LLVM processor: its name, its ``EF_AMDGPU_MACH`` value and which settings it knows."""

    name: str
    mach: int
    version: tuple[int, int, int]
    xnack: bool
    sramecc: bool
    generic: bool
    family: Family


def _p(
    name: str, mach: int, version: tuple[int, int, int], family: Family, settings: str = ""
) -> Processor:
    return Processor(
        name, mach, version, "x" in settings, "s" in settings, name.endswith("-generic"), family
    )


# "x": the target ID may name xnack, "s": it may name sramecc.
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
    _p("gfx904", 0x2E, (9, 0, 4), _GFX9, "x"),
    _p("gfx906", 0x2F, (9, 0, 6), _GFX9, "xs"),
    _p("gfx908", 0x30, (9, 0, 8), _GFX9, "xs"),
    _p("gfx909", 0x31, (9, 0, 9), _GFX9, "x"),
    _p("gfx90a", 0x3F, (9, 0, 10), _GFX90A, "xs"),
    _p("gfx90c", 0x32, (9, 0, 12), _GFX9, "x"),
    _p("gfx940", 0x40, (9, 4, 0), _GFX94, "xs"),
    _p("gfx941", 0x4B, (9, 4, 1), _GFX94, "xs"),
    _p("gfx942", 0x4C, (9, 4, 2), _GFX94, "xs"),
    _p("gfx950", 0x4F, (9, 5, 0), _GFX95, "xs"),
    _p("gfx9-generic", 0x51, (9, 0, 0), _GFX9, "x"),
    _p("gfx9-4-generic", 0x5F, (9, 4, 0), _GFX94, "xs"),
    _p("gfx1010", 0x33, (10, 1, 0), _GFX10_1, "x"),
    _p("gfx1011", 0x34, (10, 1, 1), _GFX10_1, "x"),
    _p("gfx1012", 0x35, (10, 1, 2), _GFX10_1, "x"),
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
    _p("gfx1150", 0x43, (11, 5, 0), _GFX11),
    _p("gfx1151", 0x4A, (11, 5, 1), _GFX11_BIG),
    _p("gfx1152", 0x55, (11, 5, 2), _GFX11),
    _p("gfx1153", 0x58, (11, 5, 3), _GFX11),
    _p("gfx11-generic", 0x54, (11, 0, 3), _GFX11),
    _p("gfx1200", 0x48, (12, 0, 0), _GFX12),
    _p("gfx1201", 0x4E, (12, 0, 1), _GFX12),
    _p("gfx12-generic", 0x59, (12, 0, 0), _GFX12),
    _p("gfx1250", 0x49, (12, 5, 0), _GFX12_5, "xs"),
    _p("gfx1251", 0x5A, (12, 5, 1), _GFX12_5, "xs"),
)

#: Every processor coasm knows, by its LLVM name.
PROCESSORS = {p.name: p for p in _ALL}
_BY_MACH = {p.mach: p for p in _ALL}


#: Processors that LLVM has dropped (by LLVM 22) → the one that has all their instructions, in the
#: same encodings: what is there for that one serves them too. Source: llvm-project pull request
#: 126763, which removed them (compilers made their stores `sc0 sc1`; they differ in nothing else).
_RELATIVES = {"gfx940": "gfx942", "gfx941": "gfx942"}


def relative(name: str) -> str:
    """The processor whose instructions those of *name* are: nearly always itself."""
    return _RELATIVES.get(name, name)


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
