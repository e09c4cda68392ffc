"""A launch: from descriptor and arguments to the initial state of the waves, in chunks.

Source: LLVM AMDGPU usage, "Initial Kernel Execution State" and "Kernel Descriptor"; the HSA
runtime specification for the dispatch packet.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from coasm.descriptor import Resources, resources
from coasm.emulator.coverage import coverage_of
from coasm.emulator.engine.program import EMPTY, Program, program_of
from coasm.emulator.errors import EmulationError
from coasm.emulator.machine import Machine, Stopped, now
from coasm.emulator.state.memory import Memory
from coasm.emulator.state.waves import LANES, SCALARS, Group
from coasm.errors import UnsupportedError
from coasm.target import emulated

if TYPE_CHECKING:
    from coasm.codeobject import CodeObject, Kernel
    from coasm.emulator import Options, Outcome
    from coasm.llvm import Llvm

__all__ = ["run"]

#: Bytes of registers, LDS and scratch that one chunk of workgroups may take.
CHUNK_BYTES = 96 << 20

_MODE_BITS = {
    "float_round_mode_32": 0,
    "float_round_mode_16_64": 2,
    "float_denorm_mode_32": 4,
    "float_denorm_mode_16_64": 6,
    "enable_dx10_clamp": 8,
    "enable_ieee_mode": 9,
    "fp16_ovfl": 23,
}


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
    from coasm.emulator import MAX_INSTRUCTIONS, Outcome

    begin = now()
    asked = resources(kernel.descriptor, co.target)
    lds = asked.lds + dynamic_lds + 3 & ~3  # what is allocated is whole dwords
    _check(co, kernel, asked, grid, workgroup, lds)
    program = program_of(co, kernel, llvm)
    if options.max_instructions is None:
        options = options._replace(max_instructions=MAX_INSTRUCTIONS)
    size = max(
        len(kernarg), asked.kernarg_size, int(kernel.metadata.get(".kernarg_segment_size") or 0)
    )
    arguments = memory.allocate(max(size, 4), f"arguments of {kernel.name}", kernarg)
    scratch = max(asked.scratch, options.stack + 15 & ~15) if asked.dynamic_stack else asked.scratch
    packet = memory.allocate(
        64, "dispatch packet", _packet(grid, workgroup, scratch, lds, arguments)
    )
    image, base = _image(co, memory)
    total = grid[0] * grid[1] * grid[2]
    waves = -(-(workgroup[0] * workgroup[1] * workgroup[2]) // LANES)
    if total * waves > (options.max_instructions or 0):
        raise UnsupportedError(
            f"{kernel.name}: {total * waves:,} waves, which take an instruction at least each; the "
            f"limit is {options.max_instructions:,} (--max-instructions sets another)"
        )
    machine = Machine(program, memory, asked, options, lds, scratch, base)
    stop = _stop_address(program, options)
    each = waves * (machine.layout.rows * 256 + scratch * LANES) + lds
    chunk = max(1, min(total, CHUNK_BYTES // max(each, 1)))
    if options.trace is not None:
        from coasm.emulator.engine.trace import Tracer

        machine.tracer = Tracer(machine, options.trace)
    machine.stop = stop
    dump = ""
    try:
        for first in range(0, total, chunk):
            count = min(chunk, total - first)
            group = _waves(
                machine, asked, grid, workgroup, waves, first, count, arguments, packet, kernarg
            )
            machine.start([group], count, waves, first * waves)
            machine.run()
    except (MemoryError, ValueError):
        raise EmulationError(
            f"{kernel.name}: no room for the registers, LDS and scratch of {chunk} workgroups"
        ) from None
    except Stopped as stopped:
        from coasm.emulator.engine.trace import dump_text

        dump = dump_text(stopped.machine, stopped.group)
    finally:
        for address in (arguments, packet, *image):
            memory.free(address)
    return Outcome(
        machine.wave_instructions,
        now() - begin,
        tuple(sorted(machine.notes)),
        dump,
        coverage_of(program, *machine.executed_code()),
    )


def _check(
    co: CodeObject,
    kernel: Kernel,
    asked: Resources,
    grid: tuple[int, int, int],
    workgroup: tuple[int, int, int],
    lds: int,
) -> None:
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
    items = workgroup[0] * workgroup[1] * workgroup[2]
    if items > 1024 or max(workgroup) > 1024:
        raise UnsupportedError(
            f"{kernel.name}: a workgroup of {items} work-items; 1024 is the most"
        )
    if grid[0] * grid[1] * grid[2] > 1 << 32:
        raise UnsupportedError(f"{kernel.name}: a grid of more than 2^32 workgroups")
    if lds > processor.family.lds_bytes:
        raise UnsupportedError(
            f"{kernel.name}: {lds} bytes of LDS; a {processor.name} workgroup has "
            f"{processor.family.lds_bytes}"
        )
    if asked.wave_size != LANES:
        raise UnsupportedError(f"{kernel.name}: waves of {asked.wave_size} lanes are not emulated")


def _packet(
    grid: tuple[int, int, int],
    workgroup: tuple[int, int, int],
    scratch: int,
    lds: int,
    arguments: int,
) -> bytes:
    """The AQL dispatch packet: sizes in work-items, 64 bytes."""
    whole = [g * w for g, w in zip(grid, workgroup, strict=True)]
    dimensions = 3 if grid[2] * workgroup[2] > 1 else 2 if grid[1] * workgroup[1] > 1 else 1
    sizes = [min(size, 0xFFFF_FFFF) for size in whole]
    return struct.pack(
        "<HHHHHHIIIIIQQQQ", 2, dimensions, *workgroup, 0, *sizes, scratch, lds, 0, arguments, 0, 0
    )


def _image(co: CodeObject, memory: Memory) -> tuple[list[int], int]:
    """The loaded sections as buffers of their own; and what to add to an address of the object."""
    from coasm.codeobject.elf import SHT_NOBITS

    loaded = [section for section in co.sections if section.alloc and section.size]
    if not loaded:
        return [], 0
    low = min(section.addr for section in loaded) & ~0xFFF
    high = max(section.addr + section.size for section in loaded)
    if high - low > 1 << 30:
        raise UnsupportedError(f"{co.name}: the loaded image has {high - low} bytes")
    address = memory.allocate(high - low, f"image of {co.name}", align=4096)
    for section in loaded:
        if section.type != SHT_NOBITS:
            memory.write(address + section.addr - low, section.data[: section.size])
    _relocate(co, memory, address - low)
    return [address], address - low


def _relocate(co: CodeObject, memory: Memory, base: int) -> None:
    """What the loader does to an image that lies at *base*: its words that hold addresses.

    Source: LLVM AMDGPU usage, "Relocation Records": R_AMDGPU_ABS64 is S + A, RELATIVE64 is B + A.
    """
    from coasm.asm.references import ABS64, RELATIVE64
    from coasm.codeobject.elf import SHT_RELA

    names = co.elf.dynamic_symbols
    for relocation in co.elf.relocations:
        table = co.elf.sections[relocation.section]
        if not table.alloc:
            continue
        where = f"{co.name}: the relocation of {relocation.offset:#x}"
        value = base + relocation.addend
        if table.type != SHT_RELA or relocation.type not in (ABS64, RELATIVE64):
            raise UnsupportedError(f"{where} has type {relocation.type}, which is not emulated")
        if relocation.type == ABS64:
            symbol = names[relocation.symbol] if relocation.symbol < len(names) else None
            if symbol is None or not symbol.shndx:
                name = symbol.name if symbol else f"number {relocation.symbol}"
                raise UnsupportedError(f"{where} is to the symbol {name!r}, which is not here")
            value += symbol.value
        place = co.section_at(relocation.offset)
        if place is None or relocation.offset + 8 > place.addr + place.size:
            raise UnsupportedError(f"{where} lies in no section")
        memory.write(base + relocation.offset, (value & (1 << 64) - 1).to_bytes(8, "little"))


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


def _waves(
    machine: Machine,
    asked: Resources,
    grid: tuple[int, int, int],
    workgroup: tuple[int, int, int],
    waves: int,
    first: int,
    count: int,
    arguments: int,
    packet: int,
    kernarg: bytes,
) -> Group:
    """The waves of workgroups *first* to *first + count* at the kernel's first instruction."""
    n = count * waves
    vector = np.zeros((machine.layout.rows, n, LANES), np.uint32)
    scalar = np.zeros((SCALARS // 2, n, 2), np.uint32)
    local = np.arange(n, dtype=np.int64)
    wg = local // waves
    ids = first + wg
    items = workgroup[0] * workgroup[1] * workgroup[2]
    item = (local % waves)[:, None] * LANES + np.arange(LANES)
    x = item % workgroup[0]
    y = item // workgroup[0] % workgroup[1] if asked.workitem_ids > 1 else np.zeros_like(item)
    z = item // (workgroup[0] * workgroup[1]) if asked.workitem_ids > 2 else np.zeros_like(item)
    packed = np.where(item < items, x | y << 10 | z << 20, 0)
    if machine.layout.vgprs:
        vector[0] = packed
    registers: dict[int, Any] = {}

    def put(at: int, value: Any, size: int = 1) -> int:
        registers[at] = value & 0xFFFF_FFFF
        if size == 2:
            registers[at + 1] = value >> 32
        return at + size

    values: dict[str, tuple[int, int]] = {
        "dispatch_ptr": (packet, 2),
        "queue_ptr": (0, 2),
        "kernarg_segment_ptr": (arguments, 2),
        "dispatch_id": (1, 2),
        "private_segment_size": (machine.scratch_size, 1),
    }
    preload = False
    for user in asked.user_sgprs:
        if user.name in values:
            put(user.first, *values[user.name])
        elif user.name == "kernarg_preload":
            preload = True
            offset = 4 * _preload_offset(machine)
            words = kernarg[offset : offset + 4 * user.count].ljust(4 * user.count, b"\0")
            for at in range(user.count):
                put(user.first + at, int.from_bytes(words[4 * at : 4 * at + 4], "little"))
        else:
            raise UnsupportedError(
                f"{machine.kernel.name}: the user SGPRs {user.name} are not emulated"
            )
    at = asked.user_sgpr_count
    places = {
        "workgroup_id_x": ids % grid[0],
        "workgroup_id_y": ids // grid[0] % grid[1],
        "workgroup_id_z": ids // (grid[0] * grid[1]),
    }
    for name in asked.system_sgprs:
        at = put(at, places[name]) if name in places else put(at, 0)
    for number, value in registers.items():
        if number >= SCALARS:
            raise UnsupportedError(f"{machine.kernel.name}: more initial SGPRs than a wave has")
        scalar[number >> 1, :, number & 1] = value
    on = item < items
    scalar[63] = np.packbits(on, axis=1, bitorder="little").view(np.uint32).reshape(n, 2)
    group = Group(machine.layout, vector, scalar, first * waves + local, wg, machine.constants)
    group.pc = machine.kernel.entry
    if preload:
        group.pc += machine.co.target.processor.family.preload_prologue
    group.mode = sum(
        value << _MODE_BITS[name] for name, value in asked.float_modes if name in _MODE_BITS
    )
    group.pending = EMPTY
    if machine.options.strict:
        written = np.zeros((machine.layout.rows + SCALARS, n), bool)
        written[0] = True
        written[[machine.layout.rows + number for number in registers]] = True
        group.written = written
    return group


def _preload_offset(machine: Machine) -> int:
    from coasm.descriptor import decode

    return decode(machine.kernel.descriptor, machine.co.target)["kernarg_preload_offset"]
