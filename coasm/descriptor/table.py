"""The one table of bits: every field of the kernel descriptor, where it lies, and who has it.

Source: LLVM 22, ``llvm/Support/AMDHSAKernelDescriptor.h`` (names and bits), ``AMDGPUAsmParser.cpp``
(``ParseDirectiveAMDHSAKernel``: directives and the targets that take them) and
``AMDGPUMCKernelDescriptor.cpp`` (defaults); *User Guide for AMDGPU Backend*, "Kernel Descriptor".
Whatever bits no row names for a target are reserved there: :func:`fields_of` gives them a field of
their own, so that the fields of a target always cover all 512 bits.

LLVM 19 has all of these directives but two: ``.amdhsa_inst_pref_size`` and, new with gfx1250,
``.amdhsa_named_barrier_count``.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from coasm.target import Processor

__all__ = ["ENTRY_OFFSET", "SIZE", "USER_SGPRS", "Field", "fields_of"]

#: Bytes of a kernel descriptor.
SIZE = 64
#: The field that is a relocation: the distance from the descriptor to the first instruction.
ENTRY_OFFSET = "kernel_code_entry_byte_offset"

# Plain fields have a directive that holds their value. Computed ones are worked out from one or
# more directives. Fixed ones have no directive: the assembler always writes 0.
PLAIN, COMPUTED, FIXED = "plain", "computed", "fixed"


class Field(NamedTuple):
    """One field: ``width`` bits from bit ``bit`` on (counted from byte 0, bit 0).

    ``directive`` is the ``.amdhsa_*`` directive that sets it, None where there is none.
    ``default`` is the field's value where the assembler sees no such directive. ``show`` says that
    a listing names the directive even at its default: because a reader looks for it, or because
    the default is not the same in all LLVM versions or depends on ``-mattr``. The field exists on
    targets from version ``since`` to below ``before`` whose family has the trait ``needs`` and
    not the trait ``lacks`` (names of :class:`~coasm.target.Family` attributes).
    """

    name: str
    bit: int
    width: int
    directive: str | None = None
    default: int = 0
    show: bool = False
    kind: str = PLAIN
    since: tuple[int, ...] = (0,)
    before: tuple[int, ...] = (99,)
    needs: str = ""
    lacks: str = ""
    signed: bool = False

    @property
    def end(self) -> int:
        """The first bit after the field."""
        return self.bit + self.width

    def exists_on(self, proc: Processor) -> bool:
        """Whether the descriptors of *proc* have this field."""
        family = proc.family
        return (
            proc.between(self.since, self.before)
            and (not self.needs or bool(getattr(family, self.needs)))
            and not (self.lacks and getattr(family, self.lacks))
        )


# The parts of the descriptor: name, first byte. Reserved bits never span two parts.
_PARTS = (
    ("group_segment_fixed_size", 0),
    ("private_segment_fixed_size", 4),
    ("kernarg_size", 8),
    ("reserved0", 12),
    (ENTRY_OFFSET, 16),
    ("reserved1", 24),
    ("compute_pgm_rsrc3", 44),
    ("compute_pgm_rsrc1", 48),
    ("compute_pgm_rsrc2", 52),
    ("kernel_code_properties", 56),
    ("kernarg_preload", 58),
    ("reserved3", 60),
)
_R3, _R1, _R2, _PROPERTIES, _PRELOAD = 44 * 8, 48 * 8, 52 * 8, 56 * 8, 58 * 8
_FLAT = "architected_flat_scratch"


def _fixed(
    name: str,
    bit: int,
    width: int = 1,
    since: tuple[int, ...] = (0,),
    before: tuple[int, ...] = (99,),
    needs: str = "",
    lacks: str = "",
) -> Field:
    return Field(name, bit, width, kind=FIXED, since=since, before=before, needs=needs, lacks=lacks)


def _exception(name: str, bit: int, directive: str) -> Field:
    return Field(f"enable_exception_{name}", _R2 + bit, 1, f".amdhsa_exception_{directive}")


# In the order in which LLVM prints the directives, which is the order of a listing.
_TABLE = (
    Field("group_segment_fixed_size", 0, 32, ".amdhsa_group_segment_fixed_size", show=True),
    Field("private_segment_fixed_size", 32, 32, ".amdhsa_private_segment_fixed_size", show=True),
    Field("kernarg_size", 64, 32, ".amdhsa_kernarg_size", show=True),
    Field(ENTRY_OFFSET, 128, 64, kind=FIXED, signed=True),
    Field(
        "user_sgpr_count",
        _R2 + 1,
        5,
        ".amdhsa_user_sgpr_count",
        kind=COMPUTED,
        before=(12, 5),
    ),
    Field("user_sgpr_count", _R2 + 1, 6, ".amdhsa_user_sgpr_count", kind=COMPUTED, since=(12, 5)),
    Field(
        "enable_sgpr_private_segment_buffer",
        _PROPERTIES + 0,
        1,
        ".amdhsa_user_sgpr_private_segment_buffer",
        lacks=_FLAT,
    ),
    _fixed("enable_sgpr_private_segment_buffer", _PROPERTIES + 0, needs=_FLAT),
    Field("enable_sgpr_dispatch_ptr", _PROPERTIES + 1, 1, ".amdhsa_user_sgpr_dispatch_ptr"),
    Field("enable_sgpr_queue_ptr", _PROPERTIES + 2, 1, ".amdhsa_user_sgpr_queue_ptr"),
    Field(
        "enable_sgpr_kernarg_segment_ptr",
        _PROPERTIES + 3,
        1,
        ".amdhsa_user_sgpr_kernarg_segment_ptr",
    ),
    Field("enable_sgpr_dispatch_id", _PROPERTIES + 4, 1, ".amdhsa_user_sgpr_dispatch_id"),
    Field(
        "enable_sgpr_flat_scratch_init",
        _PROPERTIES + 5,
        1,
        ".amdhsa_user_sgpr_flat_scratch_init",
        lacks=_FLAT,
    ),
    _fixed("enable_sgpr_flat_scratch_init", _PROPERTIES + 5, needs=_FLAT),
    Field(
        "kernarg_preload_length",
        _PRELOAD + 0,
        7,
        ".amdhsa_user_sgpr_kernarg_preload_length",
        needs="kernarg_preload",
    ),
    _fixed("kernarg_preload_length", _PRELOAD + 0, 7, lacks="kernarg_preload"),
    Field(
        "kernarg_preload_offset",
        _PRELOAD + 7,
        9,
        ".amdhsa_user_sgpr_kernarg_preload_offset",
        needs="kernarg_preload",
    ),
    _fixed("kernarg_preload_offset", _PRELOAD + 7, 9, lacks="kernarg_preload"),
    Field(
        "enable_sgpr_private_segment_size",
        _PROPERTIES + 6,
        1,
        ".amdhsa_user_sgpr_private_segment_size",
    ),
    Field(
        "enable_wavefront_size32",
        _PROPERTIES + 10,
        1,
        ".amdhsa_wavefront_size32",
        1,
        show=True,
        since=(10,),
    ),
    Field("uses_dynamic_stack", _PROPERTIES + 11, 1, ".amdhsa_uses_dynamic_stack"),
    Field(
        "enable_private_segment",
        _R2 + 0,
        1,
        ".amdhsa_system_sgpr_private_segment_wavefront_offset",
        lacks=_FLAT,
    ),
    Field("enable_private_segment", _R2 + 0, 1, ".amdhsa_enable_private_segment", needs=_FLAT),
    Field(
        "enable_sgpr_workgroup_id_x",
        _R2 + 7,
        1,
        ".amdhsa_system_sgpr_workgroup_id_x",
        1,
        show=True,
    ),
    Field(
        "enable_sgpr_workgroup_id_y", _R2 + 8, 1, ".amdhsa_system_sgpr_workgroup_id_y", show=True
    ),
    Field(
        "enable_sgpr_workgroup_id_z", _R2 + 9, 1, ".amdhsa_system_sgpr_workgroup_id_z", show=True
    ),
    Field("enable_sgpr_workgroup_info", _R2 + 10, 1, ".amdhsa_system_sgpr_workgroup_info"),
    Field("enable_vgpr_workitem_id", _R2 + 11, 2, ".amdhsa_system_vgpr_workitem_id", show=True),
    Field("granulated_workitem_vgpr_count", _R1 + 0, 6, ".amdhsa_next_free_vgpr", kind=COMPUTED),
    Field("granulated_wavefront_sgpr_count", _R1 + 6, 4, ".amdhsa_next_free_sgpr", kind=COMPUTED),
    Field("accum_offset", _R3 + 0, 6, ".amdhsa_accum_offset", kind=COMPUTED, needs="accum_offset"),
    Field("named_bar_cnt", _R3 + 14, 3, ".amdhsa_named_barrier_count", since=(12, 5)),
    _fixed("priority", _R1 + 10, 2),
    Field("float_round_mode_32", _R1 + 12, 2, ".amdhsa_float_round_mode_32"),
    Field("float_round_mode_16_64", _R1 + 14, 2, ".amdhsa_float_round_mode_16_64"),
    Field("float_denorm_mode_32", _R1 + 16, 2, ".amdhsa_float_denorm_mode_32"),
    Field("float_denorm_mode_16_64", _R1 + 18, 2, ".amdhsa_float_denorm_mode_16_64", 3),
    _fixed("priv", _R1 + 20),
    Field("enable_dx10_clamp", _R1 + 21, 1, ".amdhsa_dx10_clamp", 1, before=(12,)),
    _fixed("debug_mode", _R1 + 22),
    Field("enable_ieee_mode", _R1 + 23, 1, ".amdhsa_ieee_mode", 1, before=(12,)),
    _fixed("disable_perf", _R1 + 23, since=(12,)),
    _fixed("bulky", _R1 + 24),
    _fixed("cdbg_user", _R1 + 25),
    Field("fp16_ovfl", _R1 + 26, 1, ".amdhsa_fp16_overflow", since=(9,)),
    _fixed("flat_scratch_is_nv", _R1 + 27, since=(12, 5)),
    Field("tg_split", _R3 + 16, 1, ".amdhsa_tg_split", needs="accum_offset"),
    Field(
        "wgp_mode",
        _R1 + 29,
        1,
        ".amdhsa_workgroup_processor_mode",
        1,
        show=True,
        since=(10,),
        needs="wgp_mode",
    ),
    _fixed("wgp_mode", _R1 + 29, since=(10,), lacks="wgp_mode"),
    Field("mem_ordered", _R1 + 30, 1, ".amdhsa_memory_ordered", 1, show=True, since=(10,)),
    Field("fwd_progress", _R1 + 31, 1, ".amdhsa_forward_progress", 1, show=True, since=(10,)),
    Field("shared_vgpr_count", _R3 + 0, 4, ".amdhsa_shared_vgpr_count", since=(10,), before=(12,)),
    Field("inst_pref_size", _R3 + 4, 6, ".amdhsa_inst_pref_size", since=(11,), before=(12,)),
    Field("inst_pref_size", _R3 + 4, 8, ".amdhsa_inst_pref_size", since=(12,)),
    _fixed("trap_on_start", _R3 + 10, since=(11,), before=(12,)),
    _fixed("trap_on_end", _R3 + 11, since=(11,), before=(12,)),
    _fixed("glg_en", _R3 + 13, since=(12,)),
    _fixed("enable_dynamic_vgpr", _R3 + 17, since=(12, 5)),
    _fixed("tcp_split", _R3 + 18, 3, since=(12, 5)),
    _fixed("enable_didt_throttle", _R3 + 21, since=(12, 5)),
    _fixed("image_op", _R3 + 31, since=(11,)),
    Field("enable_wg_rr_en", _R1 + 21, 1, ".amdhsa_round_robin_scheduling", since=(12,)),
    _fixed("enable_trap_handler", _R2 + 6, before=(12,)),
    _fixed("enable_dynamic_vgpr", _R2 + 6, since=(12,), before=(12, 5)),
    _fixed("enable_exception_address_watch", _R2 + 13),
    _fixed("enable_exception_memory", _R2 + 14),
    _fixed("granulated_lds_size", _R2 + 15, 9),
    _exception("ieee_754_fp_invalid_operation", 24, "fp_ieee_invalid_op"),
    _exception("fp_denormal_source", 25, "fp_denorm_src"),
    _exception("ieee_754_fp_division_by_zero", 26, "fp_ieee_div_zero"),
    _exception("ieee_754_fp_overflow", 27, "fp_ieee_overflow"),
    _exception("ieee_754_fp_underflow", 28, "fp_ieee_underflow"),
    _exception("ieee_754_fp_inexact", 29, "fp_ieee_inexact"),
    _exception("int_divide_by_zero", 30, "int_div_zero"),
)

#: User SGPRs in the order in which the hardware sets them up: field, how many it takes.
#: Source: LLVM AMDGPU usage, "SGPR Register Set Up Order".
USER_SGPRS = (
    ("enable_sgpr_private_segment_buffer", 4),
    ("enable_sgpr_dispatch_ptr", 2),
    ("enable_sgpr_queue_ptr", 2),
    ("enable_sgpr_kernarg_segment_ptr", 2),
    ("enable_sgpr_dispatch_id", 2),
    ("enable_sgpr_flat_scratch_init", 2),
    ("enable_sgpr_private_segment_size", 1),
)


@cache
def fields_of(proc: Processor) -> tuple[Field, ...]:
    """The fields of *proc*'s descriptors: every one of the 512 bits is in exactly one of them.

    First the named ones in the order of LLVM's directives, then the reserved ones by their bits.
    A reserved field is called after its part and its first and last bit in it
    (``compute_pgm_rsrc1_reserved_27_28``); the parts that are reserved on every target have LLVM's
    names (``reserved0``, ``reserved1``, ``reserved3``).
    """
    named = [field for field in _TABLE if field.exists_on(proc)]
    taken = sorted((field.bit, field.end) for field in named)
    starts = [byte * 8 for _, byte in _PARTS] + [SIZE * 8]
    reserved = []
    for (part, byte), end in zip(_PARTS, starts[1:], strict=True):
        start = at = byte * 8
        for low, high in [*((a, b) for a, b in taken if start <= a < end), (end, end)]:
            if at < low:
                span = f"{part}_reserved_{at - start}_{low - 1 - start}"
                whole = part.startswith("reserved")
                reserved.append(_fixed(part if whole else span, at, low - at))
            at = high
    return (*named, *reserved)
