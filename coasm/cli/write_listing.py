"""What ``coasm disasm`` does; without typer, whose import takes as long as the disassembly."""

from __future__ import annotations

import os
import sys

from coasm.cli.terminal import printable

__all__ = ["write_listing"]


def write_listing(
    file: str,
    *,
    output: str | None = None,
    force: bool = False,
    json_: bool = False,
    llvm: str | None = None,
    kernel: str | None = None,
) -> None:
    """Write the listing of *file* and say so; see ``coasm disasm --help``."""
    if kernel is not None:
        _write_view(file, kernel, output or "-", force, json_, llvm)
        return
    from coasm.asm.exact import exact_listing
    from coasm.llvm import find_llvm, prefetch
    from coasm.opening import open_code_object
    from coasm.output import check_target, write_file

    path = _listing_name(file) if output is None else output
    check_target(path, force=force, inputs=(file,))
    co = open_code_object(file, llvm=llvm)
    tools = find_llvm(llvm, processor=co.target.name)
    shown = _listing_name(file) if path == "-" else path
    found = exact_listing(co, tools, dump=prefetch.take(file, tools.objdump), output=shown)
    write_file(path, found.text.encode("utf-8", "surrogateescape"))
    if json_ and path != "-":
        import json

        print(
            json.dumps(
                {
                    "path": file,
                    "output": path,
                    "target": str(co.target),
                    "code_object_version": co.code_object_version,
                    "kernels": [k.name for k in co.kernels],
                    "instructions": found.instructions,
                    "raw": found.raw,
                    "pinned": found.pinned,
                    "warnings": list(found.warnings),
                }
            )
        )
        return
    counts = [f"{found.instructions:,} instructions"]
    if found.pinned:
        counts.append(f"{found.pinned:,} pinned")
    if found.raw:
        counts.append(f"{found.raw:,} as data")
    kernels = len(co.kernels)
    say = sys.stderr if path == "-" else sys.stdout
    print(
        f"{printable(path)}: {co.target}, {kernels} kernel{'s' * (kernels != 1)}, "
        f"{', '.join(counts)}; assembles to the same bytes",
        file=say,
    )
    for warning in found.warnings:
        print(f"coasm: warning: {printable(warning)}", file=sys.stderr)


def _write_view(
    file: str, name: str, output: str, force: bool, json_: bool, llvm: str | None
) -> None:
    """Write what a listing of *file* has about the kernel that *name* means."""
    from coasm.asm.exact import exact_listing
    from coasm.asm.view import kernel_view
    from coasm.kernels import find_kernel
    from coasm.llvm import find_llvm, prefetch
    from coasm.opening import open_code_object
    from coasm.output import check_target, write_file

    check_target(output, force=force, inputs=(file,))
    co = open_code_object(file, llvm=llvm)
    kernel = find_kernel(co, name, llvm)
    tools = find_llvm(llvm, processor=co.target.name)
    found = exact_listing(co, tools, dump=prefetch.take(file, tools.objdump), output="")
    text = kernel_view(found.text, co, kernel)
    write_file(output, text.encode("utf-8", "surrogateescape"))
    if output == "-":
        return
    if json_:
        import json

        print(json.dumps({"path": file, "output": output, "kernel": kernel.name}))
        return
    lines = text.count("\n")
    print(printable(f"{output}: {lines:,} lines of kernel {kernel.name}, to be read: no listing"))


def _listing_name(file: str) -> str:
    """Where the listing of *file* goes: beside it, with the target in the name of one inside."""
    if os.path.exists(file):
        return os.path.splitext(file)[0] + ".s"
    folder, name = os.path.split(file)
    return os.path.join(folder, name.replace(":", ".").replace("#", ".") + ".s")
