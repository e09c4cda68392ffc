"""Which metadata documents LLVM's assembler takes.

Source: ``llvm/lib/BinaryFormat/AMDGPUMetadataVerifier.cpp``, which the assembler applies to
``.amdgpu_metadata`` (LLVM 22), and LLVM, *User Guide for AMDGPU Backend*, "Code Object Metadata".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Union

__all__ = ["DOCUMENT", "Array", "Map", "Rule", "accepted"]


class Array(NamedTuple):
    """A list of entries of one kind, *size* of them where that is given."""

    item: Rule
    size: int | None = None


class Map(NamedTuple):
    """A map with keys that it must and that it may have; others are free."""

    required: Mapping[str, Rule]
    optional: Mapping[str, Rule]


# A type (bool is no int), one string of a set, or what a container holds.
Rule = Union[type, "frozenset[str]", Array, Map]

_VALUE_KINDS = frozenset(
    ("by_value", "global_buffer", "dynamic_shared_pointer", "sampler", "image", "pipe", "queue")
) | frozenset(
    "hidden_" + name
    for name in (
        *(f"{what}_{axis}" for what in ("block_count", "group_size") for axis in "xyz"),
        *(f"{what}_{axis}" for what in ("remainder", "global_offset") for axis in "xyz"),
        *("grid_dims", "none", "printf_buffer", "hostcall_buffer", "heap_v1", "default_queue"),
        *("completion_action", "multigrid_sync_arg", "dynamic_lds_size"),
        *("private_base", "shared_base", "queue_ptr"),
    )
)
_ADDRESS_SPACES = frozenset(("private", "global", "constant", "local", "generic", "region"))
_ACCESSES = frozenset(("read_only", "write_only", "read_write"))
_LANGUAGES = frozenset(("OpenCL C", "OpenCL C++", "HCC", "HIP", "OpenMP", "Assembler"))

_ARGUMENT = Map(
    required={".size": int, ".offset": int, ".value_kind": _VALUE_KINDS},
    optional={
        ".name": str,
        ".type_name": str,
        ".pointee_align": int,
        ".address_space": _ADDRESS_SPACES,
        ".access": _ACCESSES,
        ".actual_access": _ACCESSES,
        ".is_const": bool,
        ".is_restrict": bool,
        ".is_volatile": bool,
        ".is_pipe": bool,
    },
)
_KERNEL = Map(
    required={
        ".name": str,
        ".symbol": str,
        ".kernarg_segment_size": int,
        ".group_segment_fixed_size": int,
        ".private_segment_fixed_size": int,
        ".kernarg_segment_align": int,
        ".wavefront_size": int,
        ".sgpr_count": int,
        ".vgpr_count": int,
        ".max_flat_workgroup_size": int,
    },
    optional={
        ".language": _LANGUAGES,
        ".language_version": Array(int, 2),
        ".args": Array(_ARGUMENT),
        ".reqd_workgroup_size": Array(int, 3),
        ".workgroup_size_hint": Array(int, 3),
        ".vec_type_hint": str,
        ".device_enqueue_symbol": str,
        ".uses_dynamic_stack": bool,
        ".workgroup_processor_mode": int,
        ".sgpr_spill_count": int,
        ".vgpr_spill_count": int,
        ".uniform_work_group_size": int,
        ".cluster_dims": Array(int, 3),
    },
)
DOCUMENT = Map(
    required={"amdhsa.version": Array(int, 2), "amdhsa.kernels": Array(_KERNEL)},
    optional={
        "amdhsa.printf": Array(str),
        "amdhsa.globals": Array(Map({".name": str, ".size": int}, {})),
    },
)


def accepted(document: Any) -> bool:
    """Whether LLVM's verifier takes *document* as it is.

    LLVM also takes a string where it wants a number or a boolean, and converts it; such a document
    does not come out as it went in, so here it is refused. Unknown keys are free.
    """
    return _fits(document, DOCUMENT, {})


def _fits(value: Any, rule: Rule, lists: dict[tuple[int, int], bool]) -> bool:
    """Whether *value* is as *rule* says; *lists* are the answers at hand, by identity of both."""
    if isinstance(rule, type):
        return type(value) is rule
    if isinstance(rule, frozenset):
        return isinstance(value, str) and value in rule
    if isinstance(rule, Array):
        key = id(value), id(rule)
        if key not in lists:
            lists[key] = (
                isinstance(value, list)
                and rule.size in (None, len(value))
                and all(_fits(item, rule.item, lists) for item in value)
            )
        return lists[key]
    return (
        isinstance(value, dict)
        and all(key in value for key in rule.required)
        and all(
            _fits(value[key], wanted, lists)
            for rules in (rule.required, rule.optional)
            for key, wanted in rules.items()
            if key in value
        )
    )
