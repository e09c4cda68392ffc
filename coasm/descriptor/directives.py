"""64 bytes ↔ ``.amdhsa_*`` directives.

:func:`encode` is a model of what LLVM's assembler makes of directives; :func:`directives` goes the
other way and proves each answer with that model before it gives it. Source: LLVM 22,
``AMDGPUAsmParser.cpp`` (``ParseDirectiveAMDHSAKernel``, ``calculateGPRBlocks``) and
``AMDGPUBaseInfo.cpp`` (``getNumExtraSGPRs``, granules).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from coasm.descriptor.codec import Descriptor, decode, pack
from coasm.descriptor.table import COMPUTED, ENTRY_OFFSET, FIXED, USER_SGPRS, fields_of
from coasm.errors import AssemblyError, UnsupportedError
from coasm.target import Processor, TargetID

__all__ = ["directives", "encode", "extra_sgprs", "obstacle"]

_LINE = re.compile(r"\s*(\.amdhsa_\w+)\s+(0|[1-9][0-9]{0,18}|0x[0-9a-fA-F]{1,16})\s*")
_NEXT_VGPR, _NEXT_SGPR = ".amdhsa_next_free_vgpr", ".amdhsa_next_free_sgpr"
_ACCUM_OFFSET, _USER_SGPR_COUNT = ".amdhsa_accum_offset", ".amdhsa_user_sgpr_count"
_VCC, _FLAT_SCRATCH = ".amdhsa_reserve_vcc", ".amdhsa_reserve_flat_scratch"
_XNACK = ".amdhsa_reserve_xnack_mask"
# The most that a register count of the metadata is believed: more than any target has.
_MAX_COUNT = 0xFFFF


def directives(
    data: bytes,
    target: TargetID,
    *,
    code_object_version: int,
    kernel: Mapping[str, Any] | None = None,
) -> tuple[str, ...] | None:
    """The lines between ``.amdhsa_kernel`` and ``.end_amdhsa_kernel`` that assemble to *data*.

    *kernel* is the kernel's metadata map: its ``.sgpr_count`` and ``.vgpr_count`` are used where
    they encode to the stored granules. The entry offset (bytes 16 to 23) is left out of account:
    it is a relocation. None where no directives yield these bytes; :func:`obstacle` says why.

    Raises:
        FormatError: *data* is not 64 bytes.
        UnsupportedError: a code object version other than 3 to 6.
    """
    counts = (_count(kernel or {}, ".vgpr_count"), _count(kernel or {}, ".sgpr_count"))
    try:
        return _prove(data[:16] + bytes(8) + data[24:], target, code_object_version, *counts)
    except AssemblyError:
        return None


def obstacle(data: bytes, target: TargetID, *, code_object_version: int) -> str | None:
    """Why no directives yield *data*: one line; None where some do.

    Raises:
        FormatError: *data* is not 64 bytes.
        UnsupportedError: a code object version other than 3 to 6.
    """
    try:
        _prove(data[:16] + bytes(8) + data[24:], target, code_object_version)
    except AssemblyError as error:
        return str(error)
    return None


def encode(lines: Iterable[str], target: TargetID, code_object_version: int) -> bytes:
    """The 64 bytes that LLVM's assembler makes of these directive lines; the entry offset is 0.

    A line is one directive and one number. No more is taken than LLVM takes; of the values that
    LLVM cuts off or lets run into a neighbouring field, none is. The bytes do not depend on the
    code object version, the directives may (``.amdhsa_reserve_xnack_mask`` by the target ID). An
    xnack-capable processor without a setting counts as ``any``, as LLVM takes it.

    Raises:
        AssemblyError: what the assembler refuses, in its order and much in its words.
        UnsupportedError: a code object version other than 3 to 6.
    """
    if code_object_version not in (3, 4, 5, 6):
        raise UnsupportedError(f"code object v{code_object_version}: v3 to v6 have descriptors")
    proc = target.processor
    given = _parse(lines, target)
    values = {}
    for field in fields_of(proc):
        value = given.get(field.directive or "", field.default)
        if field.kind == COMPUTED:
            continue
        if value >> field.width:
            raise AssemblyError(f"{field.directive} {value}: value out of range")
        values[field.name] = value
    if values.get("kernarg_preload_length", 0) > proc.family.max_user_sgprs:
        raise AssemblyError(".amdhsa_user_sgpr_kernarg_preload_length: value out of range")
    for required in (_NEXT_VGPR, _NEXT_SGPR):
        if required not in given:
            raise AssemblyError(f"{required} directive is required")

    vgprs = given[_NEXT_VGPR]
    wave32 = values.get("enable_wavefront_size32", 0)
    granule = proc.family.vgpr_file(32 if wave32 else 64).encoding
    blocks = _blocks(vgprs, granule)
    if blocks > 63:
        raise AssemblyError(f"{_NEXT_VGPR} {vgprs}: value out of range")
    values["granulated_workitem_vgpr_count"] = blocks
    implied = _implied_user_sgprs(values)
    values["user_sgpr_count"] = count = given.get(_USER_SGPR_COUNT, implied)
    if count < implied:
        raise AssemblyError(
            f"{_USER_SGPR_COUNT} {count}: smaller than the {implied} implied by enabled user SGPRs"
        )
    if count >= 1 << next(f.width for f in fields_of(proc) if f.name == "user_sgpr_count"):
        raise AssemblyError(f"{count} user SGPRs: too many user SGPRs enabled")
    length = values.get("kernarg_preload_length", 0)
    kernarg_size = values["kernarg_size"]
    if length and 0 < kernarg_size < 4 * (length + values["kernarg_preload_offset"]):
        raise AssemblyError(
            "kernarg preload length + offset is larger than the kernarg segment size"
        )
    extra = extra_sgprs(target, given.get(_VCC, 1), given.get(_FLAT_SCRATCH, 1))
    # LLVM 22: with preloaded kernel arguments at least the user SGPRs are counted.
    sgprs = max(given[_NEXT_SGPR], count if length else 0)
    values["granulated_wavefront_sgpr_count"] = _sgpr_blocks(proc, sgprs, extra)
    if proc.family.accum_offset:
        values["accum_offset"] = _accum_blocks(given, vgprs)
    shared = values.get("shared_vgpr_count", 0)
    if shared and given.get(".amdhsa_wavefront_size32"):
        raise AssemblyError("shared_vgpr_count is not valid with wavefront size 32")
    if shared * 2 + blocks > 63 and "shared_vgpr_count" in values:
        raise AssemblyError("shared_vgpr_count*2 + granulated_workitem_vgpr_count cannot exceed 63")
    return pack(values, target)


def _parse(lines: Iterable[str], target: TargetID) -> dict[str, int]:
    proc = target.processor
    known = {field.directive for field in fields_of(proc) if field.directive} | {_VCC}
    if proc.family.reserves_flat_scratch:
        known.add(_FLAT_SCRATCH)
    if proc.family.reserves_xnack_mask:
        known.add(_XNACK)
    given: dict[str, int] = {}
    for line in lines:
        match = _LINE.fullmatch(line)
        if match is None:
            raise AssemblyError(f"not a directive and a number: {line!r}")
        name, value = match[1], int(match[2], 0)
        if name not in known:
            raise AssemblyError(f"{name} is not a directive of {target.name}")
        if name in given:
            raise AssemblyError(f"{name}: .amdhsa_ directives cannot be repeated")
        if value >> (1 if name in (_VCC, _FLAT_SCRATCH, _XNACK) else 32):
            raise AssemblyError(f"{name} {value}: value out of range")
        if name == _XNACK and value != _xnack(target):
            raise AssemblyError(f"{name} does not match target id")
        given[name] = value
    return given


def _xnack(target: TargetID) -> bool:
    return target.processor.xnack and target.xnack != "off"


def extra_sgprs(target: TargetID, vcc: int, flat_scratch: int) -> int:
    """How many SGPRs the assembler adds: it counts as ``getNumExtraSGPRs`` does."""
    family = target.processor.family
    if not family.sgpr_total:
        return 0  # the field is reserved: nothing is counted
    if flat_scratch or family.architected_flat_scratch:
        return family.flat_scratch_sgprs
    return family.xnack_mask_sgprs if _xnack(target) else 2 * vcc


def _blocks(count: int, granule: int) -> int:
    return (max(1, count) + granule - 1) // granule - 1


def _sgpr_blocks(proc: Processor, count: int, extra: int) -> int:
    family = proc.family
    if not family.sgpr_total:
        return 0
    limit = family.addressable_sgprs
    if count + (extra if family.numbers_extra_sgprs else 0) > limit:
        raise AssemblyError(f"{_NEXT_SGPR} {count}: value out of range")
    return _blocks(limit if family.sgpr_init_bug else count + extra, 8)


def _implied_user_sgprs(values: Mapping[str, int]) -> int:
    enabled = sum(count for name, count in USER_SGPRS if values.get(name))
    return enabled + values.get("kernarg_preload_length", 0)


def _accum_blocks(given: Mapping[str, int], vgprs: int) -> int:
    offset = given.get(_ACCUM_OFFSET)
    if offset is None:
        raise AssemblyError(f"{_ACCUM_OFFSET} directive is required")
    if not 4 <= offset <= 256 or offset % 4:
        raise AssemblyError("accum_offset should be in range [4..256] in increments of 4")
    if offset > -(-max(1, vgprs) // 4) * 4:
        raise AssemblyError("accum_offset exceeds total VGPR allocation")
    return offset // 4 - 1


@lru_cache(4096)  # half of the kernels in an object are like another
def _prove(
    data: bytes,
    target: TargetID,
    code_object_version: int,
    vgprs: int | None = None,
    sgprs: int | None = None,
) -> tuple[str, ...]:
    """The lines of :func:`directives` for *data* with an entry offset of 0."""
    lines = tuple(_lines(decode(data, target), vgprs, sgprs))
    made = encode(lines, target, code_object_version)
    if made != data:  # no input is known that gets here
        raise AssemblyError("the directives found assemble to other bytes")
    return lines


def _lines(descriptor: Descriptor, vgprs: int | None, sgprs: int | None) -> Iterator[str]:
    target = descriptor.target
    # With a wavefront size, LLVM refuses shared VGPRs on wave32; without one, it takes them.
    skip_size = descriptor.get("shared_vgpr_count") and descriptor.wave_size == 32
    for field in fields_of(target.processor):
        value = descriptor[field.name]
        if field.kind == FIXED:
            if value and field.name != ENTRY_OFFSET:
                raise AssemblyError(f"{field.name} = {value:#x}: no directive sets it")
        elif field.directive == _NEXT_VGPR:
            yield f"{_NEXT_VGPR} {_next_free_vgpr(descriptor, vgprs)}"
        elif field.directive == _NEXT_SGPR:
            yield from _sgpr_lines(descriptor, sgprs)
        elif field.directive == _ACCUM_OFFSET:
            yield f"{_ACCUM_OFFSET} {(value + 1) * 4}"
        elif field.directive == _USER_SGPR_COUNT:
            if value != _implied_user_sgprs(descriptor.fields):
                yield f"{_USER_SGPR_COUNT} {value}"
        elif field.name == "enable_wavefront_size32" and skip_size:
            continue
        elif field.show or value != field.default:
            yield f"{field.directive} {value}"


def _count(kernel: Mapping[str, Any], key: str) -> int | None:
    """A register count of the metadata, None where it holds nothing that could be one."""
    value = kernel.get(key)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MAX_COUNT:
        return value
    return None


def _next_free_vgpr(descriptor: Descriptor, noted: int | None) -> int:
    granule = descriptor.target.processor.family.vgpr_file(descriptor.wave_size).encoding
    blocks = descriptor["granulated_workitem_vgpr_count"]
    if noted is not None and _blocks(noted, granule) == blocks:
        # LLVM wants the accumulator's start inside the count rounded up to 4.
        start = (descriptor["accum_offset"] + 1) * 4 if "accum_offset" in descriptor else 0
        if start <= -(-max(1, noted) // 4) * 4:
            return noted
    return (blocks + 1) * granule


def _sgpr_lines(descriptor: Descriptor, noted: int | None) -> Iterator[str]:
    target = descriptor.target
    proc, family = target.processor, target.processor.family
    if not family.sgpr_total:
        # The assembler writes 0 whatever the count: the note's is the one a reader knows.
        yield f"{_NEXT_SGPR} {family.addressable_sgprs if noted is None else noted}"
        return
    blocks = descriptor["granulated_wavefront_sgpr_count"]
    reserved = ((1, 1), (1, 0), (0, 0)) if family.reserves_flat_scratch else ((1, 1), (0, 1))
    # Notes of AMD's assembler leave the extra SGPRs out, LLVM's count them: the first reading that
    # encodes to the stored granules is taken; where neither does, the largest count that does.
    trials = [
        (count - included, vcc, flat)
        for count in ([] if noted is None else [noted])
        for vcc, flat in reserved
        for included in (0, extra_sgprs(target, vcc, flat))
    ]
    for vcc, flat in reserved:
        extra = extra_sgprs(target, vcc, flat)
        most = min((blocks + 1) * 8 - extra, family.addressable_sgprs)
        trials += [(most, vcc, flat), (family.addressable_sgprs - extra, vcc, flat)]
    # With preloaded arguments LLVM 22 counts the user SGPRs at least (LLVM 19 does not): only a
    # count from there on means the same to both.
    least = descriptor["user_sgpr_count"] if descriptor.get("kernarg_preload_length") else 0
    for count, vcc, flat in trials:
        if count < least:
            continue
        try:
            found = _sgpr_blocks(proc, count, extra_sgprs(target, vcc, flat))
        except AssemblyError:
            continue
        if found == blocks:
            yield f"{_NEXT_SGPR} {count}"
            if not vcc:
                yield f"{_VCC} 0"
            if not flat:
                yield f"{_FLAT_SCRATCH} 0"
            return
    raise AssemblyError(
        f"granulated_wavefront_sgpr_count = {blocks}: {(blocks + 1) * 8} SGPRs cannot be asked for"
    )
