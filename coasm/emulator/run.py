"""A launch: a dispatch checked, its memory laid out, its waves run in chunks of workgroups."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from coasm.descriptor import resources
from coasm.emulator.engine.coverage import coverage_of
from coasm.emulator.engine.program import Program, program_of
from coasm.emulator.engine.trace import dump_text
from coasm.emulator.errors import EmulationError
from coasm.emulator.image import load_image
from coasm.emulator.initial import Dispatch, initial_waves
from coasm.emulator.machine import Machine, Stopped
from coasm.emulator.options import MAX_INSTRUCTIONS, Options, Outcome
from coasm.emulator.state.memory import Memory
from coasm.emulator.state.shared import Shared
from coasm.emulator.state.waves import MASK_LANES
from coasm.errors import UnsupportedError
from coasm.target import emulated

if TYPE_CHECKING:
    from coasm.codeobject import CodeObject, Kernel
    from coasm.llvm import Llvm

__all__ = ["run"]

#: Bytes of registers, LDS and scratch that one chunk of workgroups may take.
CHUNK_BYTES = 96 << 20


def run(
    co: CodeObject,
    kernel: Kernel,
    grid: tuple[int, int, int],
    workgroup: tuple[int, int, int],
    kernarg: bytes,
    memory: Memory,
    llvm: Llvm,
    options: Options,
    dynamic_lds: int,
) -> Outcome:
    """See :func:`coasm.emulator.launch`."""
    begin = time.perf_counter()
    asked = resources(kernel.descriptor, co.target)
    lds = asked.lds + dynamic_lds + 3 & ~3  # what is allocated is whole dwords
    dispatch = Dispatch(kernel, co.target, asked, grid, workgroup, kernarg)
    _check(co, dispatch, lds)
    program = program_of(co, kernel, llvm)
    if options.max_instructions is None:
        options = options._replace(max_instructions=MAX_INSTRUCTIONS)
    size = max(
        len(kernarg), asked.kernarg_size, int(kernel.metadata.get(".kernarg_segment_size") or 0)
    )
    arguments = memory.allocate(max(size, 4), f"arguments of {kernel.name}", kernarg)
    scratch = max(asked.scratch, options.stack + 15 & ~15) if asked.dynamic_stack else asked.scratch
    dispatch = dispatch._replace(arguments=arguments)
    packet = memory.allocate(64, "dispatch packet", dispatch.aql_packet(scratch, lds))
    dispatch = dispatch._replace(packet=packet)
    image, base = load_image(co, memory)
    total, waves = grid[0] * grid[1] * grid[2], dispatch.waves
    if total * waves > (options.max_instructions or 0):
        raise UnsupportedError(
            f"{kernel.name}: {total * waves:,} waves, which take an instruction at least each; the "
            f"limit is {options.max_instructions:,} (--max-instructions sets another)"
        )
    shared = Shared(co.target.processor, asked, memory, lds, scratch, base)
    machine = Machine(program, shared, options, _stop_address(program, options))
    each = waves * (shared.layout.rows * 4 + scratch) * shared.layout.lanes + lds
    chunk = max(1, min(total, CHUNK_BYTES // max(each, 1)))
    dump = ""
    try:
        for first in range(0, total, chunk):
            count = min(chunk, total - first)
            group = initial_waves(dispatch, shared, first, count, strict=options.strict)
            machine.start([group], count, waves, first * waves)
            machine.run()
    except (MemoryError, ValueError):
        raise EmulationError(
            f"{kernel.name}: no room for the registers, LDS and scratch of {chunk} workgroups"
        ) from None
    except Stopped as stopped:
        dump = dump_text(program, shared, stopped.group)
    finally:
        for address in (arguments, packet, *image):
            memory.free(address)
    return Outcome(
        shared.clock,
        time.perf_counter() - begin,
        tuple(sorted(machine.blocks.notes)),
        dump,
        coverage_of(program, *machine.blocks.executed()),
    )


def _check(co: CodeObject, dispatch: Dispatch, lds: int) -> None:
    kernel, grid, workgroup = dispatch.kernel, dispatch.grid, dispatch.workgroup
    processor = co.target.processor
    if not processor.family.emulated:
        raise UnsupportedError(
            f"{co.name}: {processor.name} is not emulated; {' and '.join(emulated())} are"
        )
    for what, sizes in (("grid", grid), ("workgroup", workgroup)):
        if len(sizes) != 3 or min(sizes) < 1:
            raise UnsupportedError(
                f"{kernel.name}: a {what} of {sizes}: three sizes of at least 1 are needed"
            )
    if dispatch.items > 1024 or max(workgroup) > 1024:
        raise UnsupportedError(
            f"{kernel.name}: a workgroup of {dispatch.items} work-items; 1024 is the most"
        )
    if grid[0] * grid[1] * grid[2] > 1 << 32:
        raise UnsupportedError(f"{kernel.name}: a grid of more than 2^32 workgroups")
    if lds > processor.family.lds_bytes:
        raise UnsupportedError(
            f"{kernel.name}: {lds} bytes of LDS; a {processor.name} workgroup has "
            f"{processor.family.lds_bytes}"
        )
    wave_size = dispatch.asked.wave_size
    if wave_size != MASK_LANES:
        raise UnsupportedError(f"{kernel.name}: waves of {wave_size} lanes are not emulated")


def _stop_address(program: Program, options: Options) -> int | None:
    where = options.stop_at
    if where is None:
        return None
    if isinstance(where, str):
        for symbol in program.co.symbols:
            if symbol.name == where:
                where = symbol.value
                break
        else:
            try:
                where = int(str(where), 0)
            except ValueError:
                raise EmulationError(f"{program.co.name}: no label {where!r} to stop at") from None
    if where not in program.instructions:
        raise EmulationError(f"{program.co.name}: no instruction at {where:#x} to stop at")
    return where
