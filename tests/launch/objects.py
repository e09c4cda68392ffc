"""Small objects and a device for the launch tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from coasm.codeobject import CodeObject, Kernel, load
from coasm.launch.arguments import Geometry
from coasm.launch.device import Figures, Launch
from coasm.llvm import Llvm
from coasm.llvm.run import assemble, link
from coasm.target import TargetID, processor

#: An argument: name (None: unnamed), offset, size, kind, further metadata.
Arg = tuple[Any, ...]


def source(
    arguments: Sequence[Arg],
    size: int,
    body: str = "s_endpgm",
    *,
    name: str = "k",
    target: str = "gfx950",
    directives: str = "",
    metadata: str = "",
    kernarg_size: int | None = None,
) -> str:
    """The listing of one kernel."""
    lines = []
    for argument_name, offset, length, kind, *more in arguments:
        entry = {".name": argument_name, ".offset": offset, ".size": length, ".value_kind": kind}
        entry |= dict(more)
        inner = ", ".join(f"{key}: {value}" for key, value in entry.items() if value is not None)
        lines.append(f"      - {{ {inner} }}\n")
    listed = f"    .args:\n{''.join(lines)}" if lines else ""
    return f"""
	.amdgcn_target "amdgcn-amd-amdhsa--{target}"
	.amdhsa_code_object_version 6
	.text
	.globl	{name}
	.p2align	8
	.type	{name},@function
{name}:
{body}
.L{name}_end:
	.size	{name}, .L{name}_end-{name}
	.section	.rodata,"a",@progbits
	.p2align	6, 0x0
	.amdhsa_kernel {name}
		.amdhsa_kernarg_size {size if kernarg_size is None else kernarg_size}
		.amdhsa_user_sgpr_kernarg_segment_ptr 1
		.amdhsa_next_free_vgpr 32
		.amdhsa_next_free_sgpr 32
		.amdhsa_accum_offset 32
		{directives}
	.end_amdhsa_kernel
	.amdgpu_metadata
---
amdhsa.version: [ 1, 2 ]
amdhsa.target: amdgcn-amd-amdhsa--{target}
amdhsa.kernels:
  - .name: {name}
    .symbol: {name}.kd
    .kernarg_segment_size: {size}
    .kernarg_segment_align: 8
    .group_segment_fixed_size: 0
    .private_segment_fixed_size: 0
    .wavefront_size: 64
    .sgpr_count: 32
    .vgpr_count: 32
    .max_flat_workgroup_size: 256
{metadata}{listed}...
	.end_amdgpu_metadata
"""


def build(llvm: Llvm, text: str, target: str = "gfx950") -> CodeObject:
    """Assemble and link a listing."""
    made = assemble(llvm, text.encode(), TargetID(processor(target)), 6)
    assert made.data is not None, made.messages
    return load(link(llvm, [made.data]), name="test.co")


def kernel(arguments: Sequence[Arg], size: int, name: str = "k", **metadata: Any) -> Kernel:
    """A kernel that is nothing but its metadata."""
    entries = [
        {".name": n, ".offset": offset, ".size": length, ".value_kind": kind, **dict(more)}
        for n, offset, length, kind, *more in arguments
    ]
    for entry in entries:
        if entry[".name"] is None:
            del entry[".name"]
    document = {".args": entries, ".kernarg_segment_size": size, **metadata}
    return Kernel(name, f"{name}.kd", bytes(64), 0, 0, document)


class FakeDevice:
    """A device that records launches, and does what *work* does with its memory."""

    name = "emulator"
    description = "fake"
    num_cu = 256

    def __init__(
        self, work: Callable[[FakeDevice, CodeObject, Geometry, bytes], None] | None = None
    ) -> None:
        self.work = work
        self.buffers: dict[int, Any] = {}
        self.names: dict[int, str] = {}
        self.launches: list[tuple[str, Geometry, bytes]] = []
        self.closed = False

    def allocate(self, data: Any, name: str) -> int:
        address = 0x1000_0000_0000 + (len(self.names) << 32)
        self.buffers[address] = data.copy()
        self.names[address] = name
        return address

    def write(self, address: int, data: Any) -> None:
        self.buffers[address][: data.size] = data

    def read(self, address: int) -> Any:
        return self.buffers[address].copy()

    def launch(self, launch: Launch) -> Figures:
        self.launches.append((launch.kernel.name, launch.geometry, launch.kernarg))
        if self.work is not None:
            self.work(self, launch.co, launch.geometry, launch.kernarg)
        return Figures((0.25,), 1234, ())

    def time(self, launch: Launch, *, warmup: int, iterations: int) -> Figures:
        runs = [self.launch(launch) for _ in range(iterations)]
        return runs[-1]._replace(seconds=tuple(0.1 * (i + 1) for i in range(iterations)))

    def reset(self) -> None:
        self.buffers.clear()

    def close(self) -> None:
        self.closed = True
