"""Targets: LLVM is the judge of flags, register files, waves and LDS."""

from __future__ import annotations

import re
import subprocess

import msgpack
import pytest

from coasm.codeobject import Elf
from coasm.errors import CoasmError, UnsupportedError
from coasm.llvm import Llvm, find_llvm
from coasm.target import ABI_TO_COV, PROCESSORS, TargetID, processor

NOT_IN_LLVM = {"gfx940", "gfx941"}
KNOWN = [name for name in PROCESSORS if name not in NOT_IN_LLVM]
ABI = {version: abi for abi, version in ABI_TO_COV.items()}
SIGNS = {"on": "+", "off": "-"}


@pytest.fixture(scope="session")
def llvm() -> Llvm:
    try:
        return find_llvm(processor="gfx1250")
    except CoasmError as error:
        pytest.skip(f"no LLVM that knows all targets: {error}")


def assembled(llvm: Llvm, target_id: str, version: int) -> Elf:
    command = [llvm.clang, "--target=amdgcn-amd-amdhsa", f"-mcpu={target_id}"]
    command += [f"-mcode-object-version={version}", "-x", "assembler", "-c", "-", "-o", "-"]
    done = subprocess.run(command, input=b"", capture_output=True, check=True)
    return Elf(done.stdout)


def check(llvm: Llvm, target: TargetID, version: int) -> None:
    header = assembled(llvm, str(target), version).header
    assert ABI_TO_COV[header.abi_version] == version
    generic = header.flags >> 24
    assert bool(generic) == target.processor.generic
    expected = TargetID(target.processor, target.xnack, target.sramecc, generic)
    assert TargetID.from_e_flags(header.flags, header.abi_version) == expected
    assert expected.e_flags(header.abi_version) == header.flags


def test_llvm_knows_no_other_processors(llvm):
    if llvm.major != 22:
        pytest.skip("the table is that of LLVM 22")
    aliases = {  # further names of the same machine: LLVM's "Processors" table
        name for name in llvm.processors if not name.startswith("gfx")
    }
    assert llvm.processors - aliases == set(KNOWN)


@pytest.mark.parametrize("name", KNOWN)
def test_flags_are_those_that_llvm_writes(llvm, name):
    proc = processor(name)
    any_of = TargetID(proc, "any" if proc.xnack else "", "any" if proc.sramecc else "")
    check(llvm, any_of, 6)
    if not proc.generic:
        check(llvm, any_of, 4)
        check(llvm, any_of, 5)


# LLVM writes "any" for both settings of gfx125x, but its clang lets nobody set them.
@pytest.mark.parametrize(
    "name", [n for n in KNOWN if PROCESSORS[n].xnack and not n.startswith("gfx125")]
)
def test_settings_are_those_that_llvm_writes(llvm, name):
    proc = processor(name)
    for xnack, sramecc in (("on", "off"), ("off", "on")):
        check(llvm, TargetID(proc, xnack, sramecc if proc.sramecc else ""), 6)


@pytest.mark.parametrize("name", KNOWN)
def test_a_setting_that_the_processor_does_not_know_is_refused_by_llvm(llvm, name):
    proc = processor(name)
    for setting, known in (("xnack", proc.xnack), ("sramecc", proc.sramecc)):
        if not known:
            with pytest.raises(subprocess.CalledProcessError):
                assembled(llvm, f"{name}:{setting}+", 6)


# e_flags of code object v3, which LLVM no longer writes: LLVM AMDGPU usage, "AMDGPU ELF Header
# e_flags for Code Object V3": EF_AMDGPU_FEATURE_XNACK_V3 0x100, EF_AMDGPU_FEATURE_SRAMECC_V3 0x200.
@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (0x030, "gfx908:sramecc-:xnack-"),
        (0x130, "gfx908:sramecc-:xnack+"),
        (0x230, "gfx908:sramecc+:xnack-"),
        (0x02A, "gfx803"),
    ],
)
def test_flags_of_code_object_v3(flags, text):
    target = TargetID.from_e_flags(flags, 1)
    assert str(target) == text
    assert target.e_flags(1) == flags


@pytest.mark.parametrize(
    ("flags", "abi", "message"),
    [
        (0x04C, 0, "code object v2"),
        (0x04C, 5, "unknown ABI version 5"),
        (0x0FF, 4, "EF_AMDGPU_MACH 0xff"),
        (0x1000004C, 3, "does not define"),
        (0x44C, 1, "does not define"),
        (0x1004C, 4, "does not define"),
    ],
)
def test_other_flags_are_refused(flags, abi, message):
    with pytest.raises(UnsupportedError, match=message):
        TargetID.from_e_flags(flags, abi)


def test_unknown_names_are_refused():
    with pytest.raises(UnsupportedError, match="unknown gfx target 'gfx9999'"):
        processor("gfx9999")


def compiled(llvm: Llvm, name: str, ir: str, *options: str) -> subprocess.CompletedProcess[str]:
    command = [llvm.clang, "--target=amdgcn-amd-amdhsa", f"-mcpu={name}", "-x", "ir", "-S"]
    command += ["-O0", "-nogpulib", "-Wno-override-module", *options, "-", "-o", "-"]
    return subprocess.run(command, input=ir, text=True, capture_output=True, check=False)


def occupancies(llvm: Llvm, name: str, wave_size: int, counts: list[int]) -> list[int]:
    """The waves per SIMD that LLVM computes for kernels with these VGPR counts."""
    ir = 'target triple = "amdgcn-amd-amdhsa"\n'
    for count in counts:
        ir += f"define amdgpu_kernel void @k{count}() #0 {{\n"
        ir += f'  call void asm sideeffect "", "~{{v{count - 1}}}"()\n  ret void\n}}\n'
    features = ""
    if len(processor(name).family.vgpr_files) > 1:
        features = f'"target-features"="+wavefrontsize{wave_size}"'
    ir += f'attributes #0 = {{ nounwind "amdgpu-waves-per-eu"="1" {features} }}\n'
    done = compiled(llvm, name, ir)
    assert done.returncode == 0, done.stderr
    return [int(text) for text in re.findall(r"; Occupancy: (\d+)", done.stdout)]


@pytest.mark.parametrize("name", KNOWN)
def test_register_files_and_waves_are_llvms(llvm, name):
    family = processor(name).family
    counts = list(range(1, 257, 3))
    for file in family.vgpr_files:
        if file.wave_size not in family.wave_sizes:
            continue
        # Where every wave must have 96 SGPRs, they bound the waves too.
        most = family.sgpr_total // 96 if family.sgpr_init_bug else family.max_waves
        expected = []
        for count in counts:
            allocated = -(-count // file.allocation) * file.allocation
            expected.append(min(most, file.total // allocated))
        found = occupancies(llvm, name, file.wave_size, counts)
        assert found == expected, file


@pytest.mark.parametrize("name", KNOWN)
def test_addressable_lds_is_llvms(llvm, name):
    ir = (
        'target triple = "amdgcn-amd-amdhsa"\n'
        "@lds = internal addrspace(3) global [400000 x i8] poison\n"
        "define amdgpu_kernel void @k() {\n"
        "  store volatile i8 0, ptr addrspace(3) @lds\n  ret void\n}\n"
    )
    done = compiled(llvm, name, ir)
    match = re.search(r"local memory \(\d+\) exceeds limit \((\d+)\)", done.stderr)
    assert match, done.stderr
    assert int(match[1]) == processor(name).family.lds_bytes


# --- What LLVM's assembler takes ------------------------------------------------------------------

#: A line, and the field that says whether a processor has what it names.
PROBES = {
    "s_set_vgpr_msb 0": "vgpr_msb",
    "v_mov_b16_e32 v0.l, v1.l": "true16",
    "buffer_load_dwordx4 off, s[0:3], 0 lds": "wide_lds_loads",
    "v_dot2_f32_f16 v0, v1, v2, v3 op_sel:[1,0,0]": "dot_op_sel_bug",
    ".amdhsa_reserve_flat_scratch 1": "reserves_flat_scratch",
    ".amdhsa_reserve_xnack_mask 1": "reserves_xnack_mask",
}
ABSENT = ("not supported", "invalid operand for instruction", "requires gfx")


@pytest.mark.parametrize("name", KNOWN)
def test_what_the_assembler_takes(llvm, name):
    if llvm.mc is None:
        pytest.skip(f"no llvm-mc in {llvm.directory}")
    lines = ["s_getpc_b64 s[0:1]", "s_add_pc_i64 s[0:1]"]
    for number, probe in enumerate(PROBES):
        if probe.startswith("."):
            lines += [f".amdhsa_kernel k{number}", probe, ".end_amdhsa_kernel"]
        else:
            lines.append(probe)
    command = [llvm.mc, "-triple=amdgcn-amd-amdhsa", f"-mcpu={name}", "-mattr=+real-true16"]
    done = subprocess.run(
        [*command, "-show-encoding"],
        input="\n".join(lines),
        text=True,
        capture_output=True,
        check=False,
    )
    errors = re.findall(r"^<stdin>:(\d+):\d+: error: (.*)", done.stderr, re.M)
    said: dict[str, str] = {}
    for number, message in errors:
        said.setdefault(lines[int(number) - 1], message)
    family = processor(name).family
    for probe, field in PROBES.items():
        message = said.get(probe, "")
        if field == "dot_op_sel_bug":
            found = message == "invalid op_sel operand"
        else:
            found = not any(part in message for part in ABSENT)
        assert getattr(family, field) == found, (probe, message)
    words = re.findall(r"s_(?:get_?pc|add_pc)_\w+ .*\[0x00,(0x..),0x80,0xbe\]", done.stdout)
    assert family.pc_opcodes == tuple(int(word, 16) for word in words)


# --- What LLVM compiles ---------------------------------------------------------------------------

STATE = """\
declare i32 @llvm.amdgcn.workitem.id.y()
declare i32 @llvm.amdgcn.workgroup.id.x()
define amdgpu_kernel void @k(ptr addrspace(1) %p) #0 {
  %y = call i32 @llvm.amdgcn.workitem.id.y()
  store volatile i32 %y, ptr addrspace(1) %p
  %g = call i32 @llvm.amdgcn.workgroup.id.x()
  store volatile i32 %g, ptr addrspace(1) %p
  ret void
}
attributes #0 = { nounwind "amdgpu-no-workitem-id-x" }
"""


@pytest.mark.parametrize("name", KNOWN)
def test_where_the_ids_are_is_llvms(llvm, name):
    done = compiled(llvm, name, 'target triple = "amdgcn-amd-amdhsa"\n' + STATE)
    assert done.returncode == 0, done.stderr
    code = done.stdout.partition(".amdhsa_kernel")[0]
    family = processor(name).family
    assert family.packed_workitem_ids == bool(re.search(r"v_bfe_u32 v\d+, v\d+, 10, 10", code))
    assert family.architected_sgprs == ("ttmp9" in code)


# The hardware of GFX10.3 to GFX12 allocates two of LLVM's units: Mesa, ACO, lds_alloc_granule.
TWO_UNITS = re.compile(r"gfx(10-?3|11|12-|120)")


@pytest.mark.parametrize("name", KNOWN)
def test_lds_granule_is_llvms(llvm, name):
    # PAL's metadata of version 3 has the LDS that is allocated, in bytes.
    metadata = {"amdpal.pipelines": [{".hardware_stages": {".cs": {}}}], "amdpal.version": [3, 0]}
    packed = "".join(f"\\{byte:02X}" for byte in msgpack.packb(metadata))
    ir = (
        'target triple = "amdgcn-amd-amdpal"\n'
        "@lds = internal addrspace(3) global [4 x i8] poison\n"
        "define amdgpu_cs void @k() {\n"
        "  store volatile i8 0, ptr addrspace(3) @lds\n  ret void\n}\n"
        f'!amdgpu.pal.metadata.msgpack = !{{!0}}\n!0 = !{{!"{packed}"}}\n'
    )
    command = [llvm.clang, "--target=amdgcn-amd-amdpal", f"-mcpu={name}", "-x", "ir", "-S"]
    command += ["-nogpulib", "-Wno-override-module", "-", "-o", "-"]
    done = subprocess.run(command, input=ir, text=True, capture_output=True, check=True)
    match = re.search(r"\.lds_size: +(0x[0-9a-f]+|\d+)", done.stdout)
    assert match, done.stdout
    units = 2 if TWO_UNITS.match(name) else 1
    assert int(match[1], 0) * units == processor(name).family.lds_granule


@pytest.mark.parametrize("name", KNOWN)
def test_wave_sizes_are_llvms(llvm, name):
    found = []
    for size, option in ((32, "-mno-wavefrontsize64"), (64, "-mwavefrontsize64")):
        done = compiled(llvm, name, "define amdgpu_kernel void @k() { ret void }\n", option)
        size_of = re.search(r"\.wavefront_size: (\d+)", done.stdout)
        if done.returncode == 0 and size_of and int(size_of[1]) == size:
            found.append(size)
    assert tuple(found) == processor(name).family.wave_sizes
