"""Judged by LLVM (occupancy: what llc prints for the same kernel) and by hand-counted sources."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from coasm.asm.decode import decode
from coasm.codeobject import CodeObject, load
from coasm.errors import CoasmError, UnsupportedError
from coasm.inspect import Argument, KernelInfo, ObjectInfo, inspect
from coasm.llvm import Llvm, find_llvm
from coasm.mix import CLASSES, classify
from coasm.occupancy import occupancy
from coasm.target import PROCESSORS, processor


@pytest.fixture(scope="module")
def llvm() -> Llvm:
    try:
        return find_llvm(processor="gfx1250")
    except CoasmError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def llc(llvm: Llvm) -> str:
    path = (llvm.mc or "llvm-mc").replace("llvm-mc", "llc")
    if not os.path.exists(path):
        pytest.skip(f"no llc in {llvm.directory}")
    return path


def run(*command: str, text: str = "") -> str:
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def assembled(llvm: Llvm, folder: Path, source: str, target: str = "gfx90a") -> CodeObject:
    path = folder / "object.co"
    flags = ("--target=amdgcn-amd-amdhsa", f"-mcpu={target}", "-nogpulib", "-x", "assembler", "-")
    run(llvm.clang, *flags, "-o", str(path), text=source)
    return load(path)


# Occupancy


def ir(name: str, *, size: int = 64, features: str = "", lds: int = 0, **registers: int) -> str:
    """A kernel that uses these many registers of each kind and bytes of LDS."""
    clobbers = ",".join(f"~{{{kind}{count - 1}}}" for kind, count in registers.items() if count)
    body = f'call void asm sideeffect "", "{clobbers}"()\n' if clobbers else ""
    head = ""
    if lds:
        head = f"@{name}.lds = internal addrspace(3) global [{lds} x i8] poison, align 4\n"
        body += f"store volatile i8 0, ptr addrspace(3) @{name}.lds\n"
    attributes = f'"amdgpu-flat-work-group-size"="{size},{size}" "target-features"="{features}"'
    return f"{head}define amdgpu_kernel void @{name}() {attributes} {{\n{body}ret void\n}}\n"


def judged(llvm: Llvm, llc: str, folder: Path, target: str, kernels: list[dict[str, Any]]) -> None:
    """Our lowest limit in waves per SIMD is the occupancy that llc states, for each kernel."""
    source = "\n".join(ir(f"k{at}", **kernel) for at, kernel in enumerate(kernels))
    common = (llc, "-mtriple=amdgcn-amd-amdhsa", f"-mcpu={target}")
    lines = run(*common, "-o", "-", text=source).splitlines()
    stated = [int(line.split()[-1]) for line in lines if line.startswith("; Occupancy:")]
    obj, linked = str(folder / "k.o"), str(folder / "k.co")
    run(*common, "-filetype=obj", "-o", obj, text=source)
    run(llvm.lld, "-shared", "-o", linked, obj)
    found = {kernel.name: kernel.occupancy for kernel in inspect(load(linked)).kernels}
    assert len(stated) == len(found) == len(kernels)
    for at, (kernel, expected) in enumerate(zip(kernels, stated, strict=True)):
        shown = found[f"k{at}"]
        assert shown is not None
        assert min(limit.waves_per_simd for limit in shown.limits) == expected, (kernel, shown)


# One of each hardware generation; LLVM 22 no longer knows gfx940 and gfx941.
TARGETS = (
    *("gfx600", "gfx700", "gfx802", "gfx803", "gfx900", "gfx908", "gfx90a", "gfx942", "gfx950"),
    *("gfx9-generic", "gfx9-4-generic", "gfx1010", "gfx1030", "gfx1100", "gfx1102", "gfx1151"),
    *("gfx11-generic", "gfx1200", "gfx1250"),
)
VGPRS = (1, 24, 25, 32, 33, 48, 64, 65, 84, 96, 97, 128, 129, 168, 192, 256)
SIZES = (1, 32, 64, 65, 128, 192, 256, 320, 384, 448, 512, 576, 640, 768, 896, 1024)
# Multiples of every granule: LLVM does not round up what is allocated.
LDS = (10240, 20480, 30720)


@pytest.mark.parametrize("target", TARGETS)
def test_occupancy_is_what_llc_states(llvm: Llvm, llc: str, tmp_path: Path, target: str) -> None:
    proc = processor(target)
    kernels: list[dict[str, Any]] = [{"v": count} for count in VGPRS]
    kernels += [{"size": size} for size in SIZES]
    kernels += [{"size": 256, "lds": lds} for lds in LDS]
    kernels += [{"size": size, "v": 100} for size in (64, 256, 1024) if target != "gfx600"]
    kernels += [{"size": 256, "v": 40, "lds": 20480}]
    if proc.family.lds_bytes >= 65536:
        kernels += [{"size": 256, "lds": 40960}, {"size": 512, "lds": 61440}]
    if proc.family.lds_bytes > 65536:
        kernels += [{"size": 256, "lds": 81920}, {"size": 1024, "lds": 163840}]
    if proc.family.sgpr_total and not proc.family.sgpr_init_bug:
        # Above 80, LLVM's thresholds and its allocation granules disagree; ours are the granules.
        kernels += [
            {"s": count} for count in (8, 40, 56, 64, 72, 88 if proc.version < (8,) else 102)
        ]
    if proc.family.accum_offset:
        kernels += [{"v": v, "a": a} for v, a in ((8, 8), (64, 64), (65, 1), (128, 100), (9, 256))]
    if len(proc.family.wave_sizes) > 1:
        wave64 = {"features": "+wavefrontsize64"}
        kernels += [{"v": count, **wave64} for count in VGPRS]
        kernels += [{"size": size, **wave64} for size in SIZES]
    if proc.family.wgp_mode:
        kernels += [{"size": size, "features": "+cumode"} for size in SIZES]
        kernels += [{"size": 256, "lds": lds, "features": "+cumode"} for lds in LDS]
    judged(llvm, llc, tmp_path, target, kernels)


def resources(co: CodeObject) -> Any:
    return inspect(co).kernels[0].resources


KERNEL = """
.text
.globl k
.p2align 8
.type k,@function
k:
{code}
.Lend:
.size k, {size}
.rodata
.p2align 6
.amdhsa_kernel k
.amdhsa_next_free_vgpr {vgprs}
.amdhsa_next_free_sgpr 16
.amdhsa_group_segment_fixed_size {lds}
{more}
.end_amdhsa_kernel
.amdgpu_metadata
---
amdhsa.version: [1, 2]
amdhsa.kernels:
  - .name: k
    .symbol: k.kd
    .kernarg_segment_size: 24
    .kernarg_segment_align: 8
    .group_segment_fixed_size: {lds}
    .private_segment_fixed_size: 0
    .wavefront_size: 64
    .sgpr_count: 22
    .vgpr_count: {vgprs}
    .max_flat_workgroup_size: 256
{metadata}
...
.end_amdgpu_metadata
"""


def kernel_source(**parts: Any) -> str:
    defaults = {
        **{"code": "s_endpgm", "size": ".Lend-k", "vgprs": 32, "lds": 0},
        **{"more": ".amdhsa_accum_offset 16", "metadata": ""},
    }
    return KERNEL.format(**(defaults | parts))


@pytest.fixture(scope="module")
def plain(llvm: Llvm, tmp_path_factory: pytest.TempPathFactory) -> CodeObject:
    return assembled(llvm, tmp_path_factory.mktemp("plain"), kernel_source())


def test_lds_is_allocated_in_granules(plain: CodeObject) -> None:
    """CDNA3: 64 KiB in 512 byte units; CDNA4: 160 KiB in 1280 byte units (their ISA guides)."""
    for target, lds, expected in (
        ("gfx942", 13000, 4),  # allocated: 13,312; 65,536 // 13,000 would be 5
        ("gfx942", 12800, 5),
        ("gfx950", 32768, 4),  # allocated: 33,280; 163,840 // 32,768 would be 5
        ("gfx950", 32000, 5),
    ):
        asked = replace(resources(plain), lds=lds)
        limits = occupancy(processor(target), asked, 256).limits
        (found,) = [limit.workgroups for limit in limits if limit.cause == "LDS"]
        assert found == expected


def test_what_does_not_fit_is_said(plain: CodeObject) -> None:
    found = occupancy(processor("gfx942"), replace(resources(plain), lds=65537), 256)
    assert (found.workgroups, found.waves_per_simd, found.limited_by) == (0, 0, ("LDS",))


def test_whole_workgroups_count(plain: CodeObject) -> None:
    """72 VGPRs let seven waves on a SIMD, 28 on a CU: that is three workgroups of eight waves."""
    asked = replace(resources(plain), vgprs=72, vgprs_allocated=72)
    found = occupancy(processor("gfx942"), asked, 512)
    assert (found.workgroups, found.waves_per_simd, found.limited_by) == (3, 6, ("VGPRs",))


def test_every_target_has_an_occupancy(plain: CodeObject) -> None:
    for proc in PROCESSORS.values():
        wave = proc.family.vgpr_files[0].wave_size
        found = occupancy(proc, replace(resources(plain), wave_size=wave), 64)
        assert found.workgroups > 0
    with pytest.raises(UnsupportedError):
        occupancy(processor("gfx942"), replace(resources(plain), wave_size=32), 64)


# Kernels


def only(found: ObjectInfo) -> KernelInfo:
    (kernel,) = found.kernels
    return kernel


METADATA = """
    .agpr_count: 16
    .sgpr_spill_count: 1
    .vgpr_spill_count: 2
    .reqd_workgroup_size: [64, 2, 1]
    .language: OpenCL C
    .language_version: [2, 0]
    .args:
      - {.name: out, .offset: 0, .size: 8, .value_kind: global_buffer, .type_name: "float*",
         .address_space: global, .access: read_write, .actual_access: write_only,
         .is_restrict: true, .is_const: false}
      - {.offset: 8, .size: 4, .value_kind: by_value, .value_type: i32}
      - {.offset: 16, .size: 4, .value_kind: hidden_dynamic_lds_size}
"""


def test_a_kernel_is_described(llvm: Llvm, tmp_path: Path) -> None:
    source = kernel_source(metadata=METADATA, lds=4096)
    found = inspect(assembled(llvm, tmp_path, source))
    assert (found.target, found.metadata_version) == ("gfx90a", (1, 2))
    assert found.code_object_version == found.abi_version + 2
    assert {s.name: s.flags for s in found.sections}[".text"] == "AX"
    kernel = only(found)
    assert (kernel.name, kernel.symbol) == ("k", "k.kd")
    assert (kernel.vgprs, kernel.agprs, kernel.sgprs) == (32, 16, 22)
    assert (kernel.sgpr_spills, kernel.vgpr_spills) == (1, 2)
    assert (kernel.lds, kernel.dynamic_lds, kernel.scratch) == (4096, True, 0)
    assert (kernel.kernarg_size, kernel.kernarg_align) == (24, 8)
    assert (kernel.max_workgroup_size, kernel.required_workgroup_size) == (256, (64, 2, 1))
    assert (kernel.wave_size, kernel.language) == (64, "OpenCL C 2.0")
    assert kernel.resources.accum_offset == 16
    assert kernel.instructions is None
    assert kernel.occupancy is not None
    assert (kernel.occupancy.workgroup_size, kernel.occupancy.workgroup_waves) == (128, 2)
    assert kernel.arguments == (
        Argument(*("out", 0, 8, "global_buffer", "float*", "global", "write_only"), ("restrict",)),
        Argument(None, 8, 4, "by_value", "i32", None, None, ()),
        Argument(None, 16, 4, "hidden_dynamic_lds_size", None, None, None, ()),
    )


CODE = """
s_load_dwordx2 s[0:1], s[4:5], 0x0
s_waitcnt lgkmcnt(0)
v_mov_b32 v0, 0
v_add_u32 v1, v0, v0
buffer_load_dword v2, off, s[8:11], 0
global_load_dword v3, v0, s[0:1]
global_atomic_add v0, v1, s[0:1]
ds_write_b32 v0, v1
v_mfma_f32_32x32x1f32 a[0:31], v0, v1, a[0:31]
s_barrier
s_cmp_eq_u32 s0, 0
s_cbranch_scc1 .Lout
global_store_dword v0, v3, s[0:1]
.Lout:
s_sendmsg sendmsg(MSG_INTERRUPT)
s_endpgm
"""
MIX = {
    **{"VALU": 2, "MFMA/WMMA": 1, "SALU": 1, "VMEM load": 2, "VMEM store": 1, "VMEM atomic": 1},
    **{"LDS": 1, "SMEM": 1, "branch": 2, "wait/barrier": 2, "other": 1},
}
PADDING = ".fill 8, 4, 0xbf800000\nv_nop\n.p2align 8"


@pytest.mark.parametrize("size", [".Lpad-k", "0"])
def test_instruction_mix(llvm: Llvm, tmp_path: Path, size: str) -> None:
    """Padding behind the kernel is not part of it, whether or not its symbol has a size."""
    source = kernel_source(code=f"{CODE}.Lpad:\n{PADDING}", size=size)
    co = assembled(llvm, tmp_path, source)
    mix = only(inspect(co, decode(co, llvm))).instructions
    assert mix == MIX
    assert tuple(mix) == CLASSES


@pytest.mark.parametrize(
    ("kind", "mnemonics"),
    {
        "VALU": "v_mov_b32_e32 v_accvgpr_read_b32 v_dual_fmac_f32 v_pk_fma_f32 v_dot4_i32_i8 v_nop",
        "MFMA/WMMA": "v_mfma_scale_f32_16x16x128_f8f6f4 v_smfmac_f32_16x16x32_f16 "
        "v_wmma_f32_16x16x16_f16 v_swmmac_f32_16x16x32_f16",
        "SALU": "s_mov_b32 s_getpc_b64 s_get_pc_i64 s_setreg_b32 s_add_u32 s_add_f32 s_cmp_eq_u32",
        "VMEM load": "buffer_load_dword tbuffer_load_format_x global_load_b32 flat_load_dword "
        "scratch_load_b32 image_sample image_load image_gather4 tensor_load_to_lds "
        "global_load_async_to_lds_b128 buffer_load_dword_lds global_prefetch_b8 cluster_load_b32 "
        "image_bvh_intersect_ray",
        "VMEM store": "buffer_store_dword tbuffer_store_format_x global_store_b8 flat_store_dword "
        "scratch_store_b32 image_store tensor_store_from_lds global_store_async_from_lds_b8",
        "VMEM atomic": "buffer_atomic_add global_atomic_pk_add_bf16 flat_atomic_swap "
        "image_atomic_or",
        "LDS": "ds_read_b128 ds_write_b32 ds_bpermute_b32 ds_load_b64 lds_direct_load",
        "SMEM": "s_load_dwordx4 s_buffer_load_dword s_store_dword s_dcache_inv s_memtime "
        "s_scratch_load_dword s_prefetch_inst s_atomic_add",
        "branch": "s_branch s_cbranch_scc0 s_setpc_b64 s_swappc_b64 s_set_pc_i64 s_swap_pc_i64 "
        "s_call_b64 s_endpgm s_subvector_loop_begin",
        "wait/barrier": "s_waitcnt s_waitcnt_vscnt s_wait_loadcnt s_wait_alu s_barrier s_nop "
        "s_barrier_signal s_sleep s_delay_alu",
        "other": "s_sendmsg s_setprio s_clause s_code_end s_set_vgpr_msb exp export buffer_gl0_inv "
        "buffer_wbinvl1 global_wb s_trap s_icache_inv",
    }.items(),
)
def test_classes(kind: str, mnemonics: str) -> None:
    assert {m: classify(m) for m in mnemonics.split()} == dict.fromkeys(mnemonics.split(), kind)


# The command


def info(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "coasm", "info", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | environment,
    )


HOSTILE = r"""
    .args:
      - .name: !str "\e[31m[bold red]x[/] \u202e :smile:\n"
        .offset: 0
        .size: 8
        .value_kind: by_value
"""


def test_command(llvm: Llvm, tmp_path: Path) -> None:
    co = assembled(llvm, tmp_path, kernel_source(code=CODE, metadata=HOSTILE))
    done = info(co.name, "--llvm", llvm.directory)
    assert (done.returncode, done.stderr) == (0, "")
    assert r"\x1b[31m[bold red]x[/] \u202e :smile:\n" in done.stdout
    assert done.stdout.replace("\n", "").isprintable()
    assert "MFMA/WMMA" in done.stdout
    found = json.loads(info(co.name, "--json", "--llvm", llvm.directory).stdout)
    assert found["target"] == "gfx90a"
    (kernel,) = found["kernels"]
    assert kernel["instructions"] == MIX
    assert kernel["arguments"][0]["name"] == "\x1b[31m[bold red]x[/] \u202e :smile:\n"
    assert kernel["resources"]["vgprs"] == 32
    assert "VGPRs" in {limit["cause"] for limit in kernel["occupancy"]["limits"]}


def test_command_without_llvm(plain: CodeObject, tmp_path: Path) -> None:
    done = info(plain.name, COASM_LLVM=str(tmp_path))
    assert done.returncode == 0
    assert "no instruction mix: " in done.stdout
    assert "wave slots" in done.stdout
    done = info(plain.name, "--llvm", str(tmp_path))
    assert (done.returncode, done.stdout) == (2, "")


def test_command_on_what_is_no_code_object(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"text")
    done = info(str(path))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1


def test_real_objects_agree_with_their_descriptors() -> None:
    """What the metadata says of each kernel is what its descriptor asks for."""
    folder = os.environ.get("COASM_CORPUS")
    if not folder:
        pytest.skip("COASM_CORPUS is not set")
    paths = sorted(Path(folder).rglob("*.co"))
    assert paths
    for path in paths:
        kernel = only(inspect(load(path)))
        asked = kernel.resources
        assert (kernel.lds, kernel.scratch) == (asked.lds, asked.scratch)
        assert kernel.vgprs is not None
        assert asked.vgprs - asked.vgpr_granule < kernel.vgprs <= asked.vgprs
        assert kernel.occupancy is not None
        # Without a required size it is the greatest allowed, which need not fit.
        assert kernel.occupancy.workgroups or kernel.required_workgroup_size is None, path.name
        assert kernel.arguments
