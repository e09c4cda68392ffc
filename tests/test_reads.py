"""Which arguments are read: the documented table, and sources whose reads are plain to see."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from coasm.asm.decode import decode
from coasm.codeobject import CodeObject, load
from coasm.flow.cfg import control_flow
from coasm.launch.arguments import slots
from coasm.llvm import Llvm
from coasm.reads import Reads, kernarg_reads
from tests.launch.objects import Arg, build, source

ARGUMENTS: list[Arg] = [
    ("a", 0, 8, "global_buffer"),
    ("b", 8, 4, "by_value"),
    ("c", 12, 4, "by_value"),
    ("d", 16, 8, "by_value"),
    ("e", 24, 8, "by_value"),
]


def reads(llvm: Llvm, co: CodeObject) -> Reads:
    return kernarg_reads(co, co.kernels[0], control_flow(co, decode(co, llvm)))


def letters(llvm: Llvm, body: str, directives: str = "") -> tuple[str, bool]:
    """The names of the arguments that are read, and whether that is all."""
    lines = "\n".join(f"\t{line}" if not line.endswith(":") else line for line in body.split("\n"))
    co = build(llvm, source(ARGUMENTS, 32, f"{lines}\n\ts_endpgm", directives=directives))
    found = reads(llvm, co)
    names = [s.name or "" for s in slots(co.kernels[0]) if found.of(s.offset, s.size)]
    return "".join(names), found.complete


# What is read and whether everything is known, for each body. The pointer is s[0:1].
BODIES = [
    ("s_nop 0", "", True),
    ("s_load_dwordx2 s[4:5], s[0:1], 0x0", "a", True),
    ("s_load_dword s4, s[0:1], 0xc", "c", True),
    ("s_load_dwordx4 s[4:7], s[0:1], 0x4", "abcd", True),
    ("s_load_dwordx2 s[0:1], s[0:1], 0x8\ns_load_dword s4, s[0:1], 0x10", "bc", True),
    ("s_and_b32 s1, s1, 0xffff\ns_load_dword s4, s[0:1], 0x8", "b", True),
    ("s_and_b32 s1, s1, 0xff\ns_load_dword s4, s[0:1], 0x8", "", False),
    ("s_mov_b64 s[6:7], s[0:1]\ns_mov_b32 s0, 0\ns_load_dword s4, s[6:7], 0x8", "b", True),
    ("s_mov_b32 s6, s0\ns_mov_b32 s7, s1\ns_load_dword s4, s[6:7], 0xc", "c", True),
    ("s_add_u32 s6, s0, 16\ns_addc_u32 s7, s1, 0\ns_load_dword s4, s[6:7], 0x8", "e", True),
    ("s_add_u32 s6, s0, 16\ns_addc_u32 s7, s1, 0\ns_load_dword s4, s[6:7], -0x8", "b", True),
    ("s_mov_b32 s8, 12\ns_load_dword s4, s[0:1], s8", "c", True),
    ("s_mov_b32 s8, 12\ns_load_dword s4, s[0:1], s8 offset:0x4", "d", True),
    ("s_load_dword s4, s[0:1], s2", "", False),  # an index that is not known
    ("v_mov_b32 v1, 0\nglobal_load_dword v2, v1, s[0:1] offset:8", "b", True),
    ("v_mov_b32 v1, 4\nglobal_load_ushort v2, v1, s[0:1] offset:8", "c", True),
    ("global_load_dword v2, v0, s[0:1] offset:8", "", False),
    (
        "v_mov_b32 v2, s0\nv_mov_b32 v3, s1\nglobal_load_dwordx2 v[4:5], v[2:3], off offset:24",
        "e",
        True,
    ),
    ("v_mov_b32 v2, s0\nv_mov_b32 v3, s1\nflat_load_dword v4, v[2:3] offset:16", "d", True),
    ("v_mov_b32 v2, s0\nglobal_store_dword v[6:7], v2, off", "", False),  # it escapes
    ("s_mov_b32 vcc_lo, s0", "", False),
    ("s_swappc_b64 s[30:31], s[8:9]", "", False),
    ("s_setpc_b64 s[8:9]", "", False),
    ("s_load_dwordx2 s[2:3], s[0:1], 0x0\ns_load_dword s4, s[2:3], 0x18", "a", True),
    # Both ways of a branch, and what only one of them overwrites.
    (
        "s_cbranch_scc1 over\ns_load_dword s4, s[0:1], 0x8\ns_branch out\nover:\n"
        "s_load_dword s4, s[0:1], 0x10\nout:",
        "bd",
        True,
    ),
    ("s_cbranch_scc1 over\ns_mov_b32 s0, 0\nover:\ns_load_dword s4, s[0:1], 0x8", "b", False),
    # A pointer that moves in a loop.
    (
        "again:\ns_load_dword s4, s[0:1], 0x0\ns_add_u32 s0, s0, 4\ns_addc_u32 s1, s1, 0\n"
        "s_cbranch_scc1 again",
        "a",
        False,
    ),
    # Nothing behind the end of the program counts.
    ("s_endpgm\ns_load_dword s4, s[0:1], 0x8", "", True),
]


@pytest.mark.parametrize(("body", "names", "complete"), BODIES)
def test_the_pointer_is_followed(llvm: Llvm, body: str, names: str, complete: bool) -> None:
    assert letters(llvm, body) == (names, complete)


PRELOAD = (
    ".amdhsa_user_sgpr_kernarg_preload_length 4\n\t\t.amdhsa_user_sgpr_kernarg_preload_offset 0"
)


@pytest.mark.parametrize(
    ("body", "names"),
    [
        # s[0:1] is the pointer, s[2:5] are the first 16 bytes; the code begins behind 256 bytes.
        ("s_mov_b32 s8, s4", "b"),
        ("s_add_u32 s8, s2, s5", "ac"),
        ("s_mov_b32 s4, 0\ns_mov_b32 s8, s4", ""),
        ("s_load_dword s8, s[0:1], 0x18", "e"),
    ],
)
def test_preloaded_arguments(llvm: Llvm, body: str, names: str) -> None:
    loads = "s_load_dwordx2 s[2:3], s[0:1], 0x0\ns_load_dwordx2 s[4:5], s[0:1], 0x8\n"
    text = f"{loads}s_waitcnt lgkmcnt(0)\ns_branch main\n.p2align 8\nmain:\n{body}"
    assert letters(llvm, text, PRELOAD) == (names, True)


def test_a_compiled_kernel(llvm: Llvm, tmp_path: Path) -> None:
    text = (
        "kernel void k(global int *out, int used, int unused, global int *other, long last) {\n"
        "  constant ushort *hidden = __builtin_amdgcn_implicitarg_ptr();\n"
        "  int at = __builtin_amdgcn_workgroup_id_x() * hidden[6];\n"
        "  if (at < used) out[at] = (int)last;\n"
        "}\n"
    )
    path = tmp_path / "k.co"
    for optimise in ("-O1", "-O3"):
        subprocess.run(
            [
                *(llvm.clang, "-x", "cl", "-nogpulib", optimise, "-cl-kernel-arg-info"),
                *("-target", "amdgcn-amd-amdhsa", "-mcpu=gfx942", "-mcode-object-version=5"),
                *("-", "-o", str(path)),
            ],
            input=text.encode(),
            check=True,
            timeout=120,
        )
        co = load(path)
        found = reads(llvm, co)
        state = {s.name or s.kind: found.of(s.offset, s.size) for s in slots(co.kernels[0])}
        assert found.complete
        assert state["out"] and state["used"] and state["hidden_group_size_x"] and state["last"]
        assert not state["other"] and not state["hidden_grid_dims"]


#: The "read" column of the f4gemm driver's documentation, by offset.
TABLE = {
    **dict.fromkeys((0x00, 0x10, 0x20, 0x30, 0x40, 0x50, 0x80, 0xA0, 0xC0), True),
    **dict.fromkeys((0xE0, 0xF0, 0x100, 0x110, 0x120, 0x130, 0x150), True),
    **dict.fromkeys((0x60, 0x70, 0x90, 0xB0, 0xD0, 0x140, 0x160), False),
}
SPLITS = ("BpreShuffle_256x256.co", "BpreShuffle_128x512.co")


@pytest.mark.slow
def test_the_f4gemm_table(llvm: Llvm, corpus: list[Path]) -> None:
    paths = [p for p in corpus if p.parent.parts[-2:] == ("gfx950", "f4gemm")]
    if not paths:
        pytest.skip("no gfx950/f4gemm in COASM_CORPUS")
    assert len(paths) == 35
    for path in paths:
        co = load(path)
        found = reads(llvm, co)
        assert found.complete
        listed = [slot for slot in slots(co.kernels[0]) if not slot.padding]
        state = {s.offset: found.of(s.offset, s.size) for s in listed}
        wanted = dict(TABLE)
        if "noBpreShuffle" not in path.name:
            wanted[0x170] = path.name.endswith(SPLITS)  # log2_k_split
        assert state == wanted, path.name
        assert state[0x60] is False  # stride_D0
