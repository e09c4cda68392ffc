"""A resource is changed in one place: the metadata follows the kernel descriptor.

A listing says with :data:`FOLLOWS` that its metadata does. What of the metadata was not what the
descriptor says when the listing was written has a remark with what that was, and is left alone as
long as the descriptor says that: so an unedited listing is taken as it stands. So is every source
without that line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from coasm.asm.metadata_lines import KernelLines, Value, kernel_lines
from coasm.asm.names import display, parse_stand_ins
from coasm.descriptor import extra_sgprs
from coasm.target import TargetID

__all__ = ["FOLLOWS", "follow", "marked"]

#: The line of a listing whose metadata follows.
FOLLOWS = "// coasm: these follow the kernel descriptors, but for what `stays`"
_STAYS = "// stays while the descriptor says"
#: A count of SGPRs as AMD's assembler notes it.
_WITHOUT_EXTRA = "// without VCC and the like"

_KERNEL = re.compile(r"^[ \t]*\.amdhsa_kernel[ \t]+(.+?)[ \t\r]*(?://.*)?$", re.M)
_END = ".end_amdhsa_kernel"
_DIRECTIVE = re.compile(
    r"^[ \t]*\.amdhsa_(\w+)[ \t]+(0[xX][0-9a-fA-F]+|\d+)[ \t\r]*(?://.*)?$", re.M
)


def follow(text: str, target: TargetID) -> tuple[str, tuple[str, ...]]:
    """The listing *text* with metadata as its descriptors say, and a line about each change."""
    if FOLLOWS not in text:
        return text, ()
    lines = text.split("\n")
    stand_ins = parse_stand_ins(text)
    kernels = {}
    for found in _kernels(text):
        name = found[1].strip('"')
        block = text[found.end() : text.find(_END, found.end())]
        kernels[f"{stand_ins.get(name, name)}.kd"] = _given(block)
    notes = []
    for entry in kernel_lines(lines):
        given = kernels.get(entry.symbol)
        if given is None:
            continue
        for key, value, wanted in _unlike(entry, given, target):
            if value.comment.rstrip() == f"{_STAYS} {wanted}":
                continue
            head, _, tail = lines[value.line].partition(f"{key}:")
            new = _spelled(value, wanted)
            lines[value.line] = f"{head}{key}:{tail.replace(value.text, new, 1)}"
            kernel = display(entry.symbol.removesuffix(".kd"))
            notes.append(
                f"metadata of {kernel}: {key} {value.text} -> {new}, as the descriptor says"
            )
    return ("\n".join(lines), tuple(notes)) if notes else (text, ())


def _kernels(text: str) -> Iterator[re.Match[str]]:
    """The lines that begin a kernel descriptor; the lines are many, so the word is found first."""
    at = text.find(".amdhsa_kernel")
    while at >= 0:
        found = _KERNEL.match(text, text.rfind("\n", 0, at) + 1)
        if found is not None:
            yield found
        at = text.find(".amdhsa_kernel", at + 1)


def marked(yaml: str, directives: Mapping[str, Iterable[str] | None], target: TargetID) -> str:
    """The lines of a metadata note with remarks where :func:`follow` would change them.

    *directives* are the lines of each descriptor, by its symbol; None of one that is no directives.
    """
    lines = ["\t.amdgpu_metadata", *yaml.split("\n"), "\t.end_amdgpu_metadata"]
    for entry in kernel_lines(lines):
        own = directives.get(entry.symbol)
        if own is None:
            continue
        given = _given("\n".join(own))
        found = entry.values.get(".sgpr_count")
        alone = found is not None and found.text == str(given.get("next_free_sgpr"))
        if found is not None and alone and _extra(given, target):
            lines[found.line] += f" {_WITHOUT_EXTRA}"
            entry.values[".sgpr_count"] = found._replace(comment=_WITHOUT_EXTRA)
        for _, value, wanted in _unlike(entry, given, target):
            lines[value.line] += f" {_STAYS} {wanted}"
    return "\n".join(lines[1:-1])


def _given(block: str) -> dict[str, int]:
    """Directive, without ``.amdhsa_`` → its number."""
    return {found[1]: int(found[2], 0) for found in _DIRECTIVE.finditer(block)}


def _unlike(
    entry: KernelLines, given: Mapping[str, int], target: TargetID
) -> Iterator[tuple[str, Value, int]]:
    """The keys of a kernel's map that are not what its descriptor says, and what that is."""
    for key, wanted in _counterparts(entry, given, target).items():
        value = entry.values.get(key)
        if value is not None and _number(value.text) not in (None, wanted):
            yield key, value, wanted


def _counterparts(entry: KernelLines, given: Mapping[str, int], target: TargetID) -> dict[str, int]:
    """Key → what the descriptor says. Source: LLVM AMDGPU usage, "Kernel Descriptor" and "Code
    Object Metadata"; for the registers ``AMDGPUHSAMetadataStreamer.cpp``."""
    counterparts = {
        ".group_segment_fixed_size": given.get("group_segment_fixed_size", 0),
        ".private_segment_fixed_size": given.get("private_segment_fixed_size", 0),
        ".kernarg_segment_size": given.get("kernarg_size", 0),
        ".uses_dynamic_stack": given.get("uses_dynamic_stack", 0),
    }
    if "wavefront_size32" in given:
        counterparts[".wavefront_size"] = 32 if given["wavefront_size32"] else 64
    if "workgroup_processor_mode" in given:
        counterparts[".workgroup_processor_mode"] = given["workgroup_processor_mode"]
    if "next_free_vgpr" in given:
        counterparts[".vgpr_count"] = given["next_free_vgpr"]
        if "accum_offset" in given:
            counterparts[".agpr_count"] = max(0, given["next_free_vgpr"] - given["accum_offset"])
    if "next_free_sgpr" in given:
        value = entry.values.get(".sgpr_count")
        alone = value is not None and value.comment.startswith(_WITHOUT_EXTRA)
        counterparts[".sgpr_count"] = given["next_free_sgpr"] + (
            0 if alone else _extra(given, target)
        )
    return counterparts


def _extra(given: Mapping[str, int], target: TargetID) -> int:
    return extra_sgprs(target, given.get("reserve_vcc", 1), given.get("reserve_flat_scratch", 1))


def _number(text: str) -> int | None:
    """A number or a boolean of the metadata; None for anything else."""
    if text in ("true", "false"):
        return int(text == "true")
    return int(text, 0) if re.fullmatch(r"0[xX][0-9a-fA-F]+|[1-9]\d*|0", text) else None


def _spelled(value: Value, wanted: int) -> str:
    return str(bool(wanted)).lower() if value.text in ("true", "false") else str(wanted)
