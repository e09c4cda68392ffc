"""Have a kernel note when each of its blocks was entered last, by s_memtime.

    python examples/time_blocks.py kernel.co timed.co

The kernel gets one argument more, `times`: a pointer to 8 bytes for each block. (All waves write
there; to time one wave, launch one.) Blocks that EXEC switches off altogether note nothing.
"""

from __future__ import annotations

import sys

import coasm


def registers(kernel: coasm.Kernel, file: str, count: int, aligned: int, declared: int) -> int:
    """The first of so many registers that no instruction names: spare ones, or new ones."""
    spare = {int(name[1:]) for name in kernel.liveness.spare[file]}
    for first in range(0, declared, aligned):
        if all(first + at in spare for at in range(count)):
            return first
    return -(-declared // aligned) * aligned


def time_blocks(module: coasm.Module) -> int:
    """Instrument the only kernel; how many blocks it has."""
    kernel = module.kernel()
    kernarg = next(s for s in kernel.descriptor.user_sgprs if s.name == "kernarg_segment_ptr")
    offset = kernel.descriptor.resources.accum_offset or kernel.descriptor.vgprs
    vgpr = registers(kernel, "vgpr", 4, 2, min(offset, kernel.descriptor.vgprs))
    sgpr = registers(kernel, "sgpr", 4, 4, _numbered(kernel))
    base, time = f"s[{sgpr}:{sgpr + 1}]", f"s[{sgpr + 2}:{sgpr + 3}]"
    at = module.add_argument("times", 8, kind="global_buffer")
    module.set_resources(vgprs=max(vgpr + 4, offset), sgprs=max(sgpr + 4, _numbered(kernel)))
    kernel_start = kernel.instructions[0]
    module.insert(
        f"s_load_dwordx2 {base}, s[{kernarg.first}:{kernarg.first + 1}], {at:#x}",
        before=kernel_start,
    )
    for block in kernel.cfg.blocks:
        module.insert(
            f"s_memtime {time}\n"
            "s_waitcnt lgkmcnt(0)\n"
            f"v_mov_b32 v{vgpr}, {8 * block.number}\n"
            f"v_mov_b32 v{vgpr + 2}, s{sgpr + 2}\n"
            f"v_mov_b32 v{vgpr + 3}, s{sgpr + 3}\n"
            f"global_store_dwordx2 v{vgpr}, v[{vgpr + 2}:{vgpr + 3}], {base}",
            before=kernel.instructions[block.first],
        )
    return len(kernel.cfg.blocks)


def _numbered(kernel: coasm.Kernel) -> int:
    """One behind the highest SGPR that the kernel names, or is given at its start."""
    named = [
        int(register[1:])
        for one in kernel.instructions
        for register in (*one.reads, *one.writes)
        if register[0] == "s" and register[1:].isdigit()
    ]
    return max([kernel.descriptor.resources.user_sgpr_count + 5, *(at + 1 for at in named)])


def main(source: str, target: str) -> None:
    module = coasm.Module(source)
    count = time_blocks(module)
    for finding in module.findings:
        print(f"{finding.rule}: {finding.what} ({finding.place.text})")
    module.write(target)
    print(f"{target}: {count} blocks are timed; {len(module.findings)} new findings")


if __name__ == "__main__":
    main(*sys.argv[1:3])
