"""``coasm info``: what a code object holds and what its kernels use."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from coasm.cli.options import (
    DefsymOption,
    IncludeOption,
    JsonOption,
    KernelOption,
    LlvmOption,
    TargetOption,
    VersionOption,
    source_options,
)
from coasm.cli.terminal import printable, say_remarks
from coasm.codeobject import CodeObject
from coasm.errors import ToolError, UnsupportedError
from coasm.inspect import Emulation, KernelInfo, ObjectInfo, inspect

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.table import Table

    from coasm.asm.code import Code

__all__ = ["info"]

#: The columns and the rows of a table (see :mod:`coasm.cli.tables`).
_Table = tuple["Sequence[str]", "Sequence[Sequence[str]]"]


def info(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="A code object or listing, or a library that carries objects."
        ),
    ],
    kernel: KernelOption = None,
    target: TargetOption = None,
    code_object_version: VersionOption = None,
    include: IncludeOption = None,
    defsym: DefsymOption = None,
    llvm: LlvmOption = None,
    json: JsonOption = False,
) -> None:
    """Show what a code object holds: header, sections, and for each kernel its registers, LDS,
    scratch, workgroup size, occupancy with what limits it, whether coasm's emulator runs it whole
    and else what that would refuse, arguments and whether the code reads them, and instruction mix.

    Of an executable or library that carries code objects: kernels by target, the most that they
    take, the largest, and those that spill. FILE:TARGET shows one of its objects.

    The instruction mix needs an LLVM that knows the target; everything else needs none.

    \b
    Examples:
      coasm info kernel.co
      coasm info kernel.co --json | jq '.kernels[0].emulator.refused'
    """
    from dataclasses import replace

    from coasm.bundle.select import carries
    from coasm.kernels import find_kernel
    from coasm.opening import open_code_object

    if carries(file) and kernel is None:
        from coasm.cli.library import show_library

        show_library(file, llvm, json)
        return
    co = open_code_object(
        file, llvm=llvm, options=source_options(target, code_object_version, include, defsym)
    )
    say_remarks(co)
    found = inspect(co)  # first: a damaged object is refused before a tool is started
    wanted = None if kernel is None else find_kernel(co, kernel, llvm)
    missing = None
    try:
        found = inspect(co, _decoded(co, llvm))
    except (ToolError, UnsupportedError) as error:
        if llvm is not None:
            raise
        missing = f"no instruction mix: {error}"
    if wanted is not None:
        found = replace(found, kernels=tuple(k for k in found.kernels if k.symbol == wanted.symbol))
    if json:
        from dataclasses import asdict
        from json import dumps

        print(dumps(asdict(found), indent=2))
        if missing is not None:
            print(f"coasm: {printable(missing)}", file=sys.stderr)
    else:
        _show(found, missing, llvm, len(co.kernels))


def _decoded(co: CodeObject, llvm: str | None) -> Mapping[int, Code]:
    from coasm.asm.decode import decode
    from coasm.llvm import find_llvm
    from coasm.llvm.run import TRUE16, has_true16

    extra = (TRUE16,) if has_true16(co.target) else ()
    return decode(co, find_llvm(llvm, processor=co.target.name), extra=extra)


#: Kernels from which on each is printed without rich, which takes some milliseconds for one.
_MANY = 200


def _show(found: ObjectInfo, missing: str | None, llvm: str | None, kernels: int) -> None:
    from coasm.cli.tables import console as open_console
    from coasm.cli.tables import show_table
    from coasm.demangle import beside, demangle

    names = demangle((kernel.name for kernel in found.kernels), llvm)
    console = open_console()
    console.print(_pairs(_header(found, kernels)))
    console.print()
    show_table(console, *_sections(found))
    plain = len(found.kernels) > _MANY
    for kernel in found.kernels:
        name = f"Kernel {printable(beside(kernel.name, names))}"
        tables = [t for t in (_occupancy(kernel), _arguments(kernel), _mix(kernel)) if t]
        if plain:
            console.file.write(f"\n{name}\n")
            show_table(console, ("", ""), _uses(kernel), plain=True)
        else:
            console.print()
            console.print(name, style="bold")
            console.print(_pairs(_uses(kernel)))
        for table in tables:
            console.file.write("\n")
            show_table(console, *table, plain=plain)
    if missing is not None:
        console.print(f"\n{printable(missing)}")


def _header(found: ObjectInfo, kernels: int) -> list[tuple[str, str]]:
    version = found.metadata_version
    return [
        ("file", f"{found.name} ({found.size:,} bytes)"),
        ("target", f"{found.target} (e_flags {found.e_flags:#x})"),
        ("code object", f"v{found.code_object_version} (ABI version {found.abi_version})"),
        ("metadata", f"version {'.'.join(map(str, version)) if version else 'unknown'}"),
        ("symbols", f"{found.symbols:,}, relocations {found.relocations:,}"),
        (
            "kernels",
            f"{len(found.kernels):,}"
            + (f" of {kernels:,}" if kernels != len(found.kernels) else ""),
        ),
    ]


def _uses(kernel: KernelInfo) -> list[tuple[str, str]]:
    asked = kernel.resources
    vgprs = f"{_number(kernel.vgprs)} ({asked.vgprs_allocated} allocated"
    if kernel.agprs is not None:
        vgprs += f"; AGPRs {kernel.agprs}"
    if asked.accum_offset is not None:
        vgprs += f"; AGPRs from register {asked.accum_offset} on"
    sgprs = _number(kernel.sgprs)
    if asked.sgprs is not None:
        sgprs += f" ({asked.sgprs} in the descriptor, VCC and the like included)"
    spills = (
        f"SGPRs {_number(kernel.sgpr_spills)}, VGPRs {_number(kernel.vgpr_spills)}"
        if (kernel.sgpr_spills, kernel.vgpr_spills) != (None, None)
        else "not stated"
    )
    size = f"at most {_number(kernel.max_workgroup_size)} work-items"
    if kernel.required_workgroup_size is not None:
        size += f"; required {' x '.join(map(str, kernel.required_workgroup_size))}"
    pairs = [
        ("descriptor", f"{kernel.symbol}, code at {kernel.entry:#x}"),
        ("VGPRs", vgprs + ")"),
        ("SGPRs", sgprs),
        ("spills", spills),
        ("LDS", _bytes(kernel.lds) + (" and what the launch adds" if kernel.dynamic_lds else "")),
        (
            "scratch",
            f"{_bytes(kernel.scratch)} per work-item"
            + (" and a dynamic stack" if kernel.dynamic_stack else ""),
        ),
        (
            "kernarg segment",
            f"{_bytes(kernel.kernarg_size)}, aligned to {_number(kernel.kernarg_align)}",
        ),
        ("workgroup", size),
        ("wave size", str(kernel.wave_size)),
    ]
    if kernel.language is not None:
        pairs.append(("language", kernel.language))
    found = kernel.occupancy
    if found is None:
        pairs.append(("occupancy", "unknown: the metadata gives no workgroup size"))
    elif not found.workgroups:
        pairs.append(
            (
                "occupancy",
                f"none: a workgroup of {found.workgroup_size:,} work-items does not fit on a "
                f"{found.unit} ({' and '.join(found.limited_by)})",
            )
        )
    else:
        pairs.append(
            (
                "occupancy",
                f"{found.waves_per_simd} of {found.max_waves_per_simd} waves per SIMD, "
                f"{_count(found.workgroups, 'workgroup')} of "
                f"{_count(found.workgroup_waves, 'wave')} per {found.unit}; "
                f"limited by {' and '.join(found.limited_by)}",
            )
        )
    if kernel.emulator is not None:
        pairs.append(("emulator", _emulated(kernel.emulator)))
    return pairs


#: What the emulator refuses that is listed.
_SHOWN = 6


def _emulated(found: Emulation) -> str:
    refused = sorted(found.refused.items(), key=lambda item: (-item[1], item[0]))
    if not refused:
        return "runs it whole"
    listed = [f"{what} ({count:,})" for what, count in refused[:_SHOWN]]
    more = [f"{len(refused) - _SHOWN:,} more"] if len(refused) > _SHOWN else []
    return f"refuses {', '.join([*listed, *more])}"


def _occupancy(kernel: KernelInfo) -> _Table | None:
    found = kernel.occupancy
    if found is None:
        return None
    return (
        ("limit", "waves/SIMD>", f"workgroups/{found.unit}>", "because"),
        [
            (
                ("* " if limit.cause in found.limited_by else "  ") + limit.cause,
                str(limit.waves_per_simd),
                str(limit.workgroups),
                limit.detail,
            )
            for limit in found.limits
        ],
    )


def _arguments(kernel: KernelInfo) -> _Table | None:
    if not kernel.arguments:
        return None
    return (
        ("argument", "offset>", "size>", "kind", "read", "type", "address space", "access"),
        [
            (
                a.name or "",
                _number(a.offset),
                _number(a.size),
                a.kind or "?",
                {True: "yes", False: "no", None: "?" if kernel.instructions else ""}[a.read],
                a.type or "",
                a.address_space or "",
                " ".join(filter(None, (a.access, *a.qualifiers))),
            )
            for a in kernel.arguments
        ],
    )


def _mix(kernel: KernelInfo) -> _Table | None:
    counts = kernel.instructions
    if counts is None:
        return None
    total = sum(counts.values())
    rows = [(name, f"{count:,}", f"{count / total:.1%}") for name, count in counts.items() if count]
    return (("instructions", "count>", "share>"), [*rows, ("all", f"{total:,}", "")])


def _sections(found: ObjectInfo) -> _Table:
    return (
        ("section", "type", "flags", "address>", "size>"),
        [
            (s.name, s.type, s.flags, f"{s.address:#x}" if s.address else "", f"{s.size:,}")
            for s in found.sections
        ],
    )


def _pairs(pairs: Sequence[tuple[str, str]]) -> Table:
    from rich.table import Table

    from coasm.cli.tables import shown

    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for label, value in pairs:
        table.add_row(label, shown(value))
    return table


def _number(value: int | None) -> str:
    return "unknown" if value is None else f"{value:,}"


def _bytes(value: int | None) -> str:
    return "unknown" if value is None else f"{value:,} bytes"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
