"""What a kernel says of its code: against LLVM's dump and loops, and programs worked by hand."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import coasm
from coasm.errors import UnsupportedError
from coasm.llvm import Llvm
from tests.linter.kernels import listing

_EXAMPLES = Path(__file__).parent.parent.parent / "examples"
_END = "\ts_endpgm\n"


def kernel(body: str, target: str = "gfx942", **given: int) -> coasm.Kernel:
    return coasm.load(listing(body, target, **given)).kernels[0]


def test_the_instructions_are_those_of_the_disassembler(llvm: Llvm, tmp_path: Path) -> None:
    """Address, encoding and text of each, as llvm-objdump prints them."""
    data = coasm.assemble((_EXAMPLES / "reverse.s").read_text()).data
    path = tmp_path / "k.co"
    path.write_bytes(data)
    shown = subprocess.run([llvm.objdump, "-d", path], capture_output=True, text=True, check=True)
    rows = re.findall(r"^\t(\S.*?)\s*// ([0-9A-F]+): ([0-9A-F ]+)", shown.stdout, re.M)
    read = coasm.load(path).kernels[0]
    found = [(i.text, i.address, i.bytes) for i in read.instructions]
    assert found and len(found) == len(read.instructions)
    said = {
        int(address, 16): b"".join(int(w, 16).to_bytes(4, "little") for w in words.split())
        for _, address, words in rows
    }
    assert all(said[address] == data for _, address, data in found)
    # A branch's operand is printed as a number there and as a label here.
    texts = [" ".join(text.split()) for text, *_ in rows if not text.startswith("s_cbranch")]
    own = [" ".join(text.split()) for text, *_ in found if not text.startswith("s_cbranch")]
    assert own == texts[: len(own)]
    assert read.size == sum(len(data) for *_, data in found)


def test_an_instruction_says_what_it_uses() -> None:
    read = kernel(
        "\tglobal_load_dwordx2 v[2:3], v1, s[4:5] offset:8\n"
        "\tv_cndmask_b32_e32 v4, v2, v3, vcc\n"
        "\ts_add_u32 s6, s6, s7\n"
        "\tds_write_b64 v1, v[2:3]\n"
        "\tflat_load_dword v9, v[2:3]\n" + _END
    )
    load, select, add, write, flat, end = read.instructions
    assert [(o.text, o.role, o.size, o.registers) for o in load.operands] == [
        ("v[2:3]", "write", 8, ("v2", "v3")),
        ("v1", "read", 4, ("v1",)),
        ("s[4:5]", "read", 8, ("s4", "s5")),
    ]
    assert load.reads == ("s4", "s5", "exec_lo", "exec_hi", "v1")
    assert select.reads == ("vcc_lo", "vcc_hi", "exec_lo", "exec_hi", "v2", "v3")
    assert select.writes == ("v4",)
    assert (add.reads, add.writes) == (("s6", "s7"), ("s6", "src_scc"))
    counters = [i.counter for i in (load, select, add, write, flat, end)]
    assert counters == ["vmcnt", None, None, "lgkmcnt", "vmcnt lgkmcnt", None]
    assert write.operands[1].size == 8
    assert {i.line for i in read.instructions} == {f"<listing>:{n}" for n in range(8, 14)}


_LOOPS = """
kernel void loops(global int *out, int n, int m) {
  int sum = 0;
  for (int i = 0; i < n; i++) {
    for (int j = 0; j < m; j++) { sum += out[j] * i; out[i] = sum; }
    for (int k = 0; k < i; k++) {
      while (out[k] > sum) { sum ^= out[sum & 255]; out[k] -= 7; }
    }
  }
  out[__builtin_amdgcn_workitem_id_x()] = sum;
}
"""


@pytest.mark.parametrize("level", ["1", "3"])
def test_the_loops_are_those_that_llvm_names(llvm: Llvm, level: str) -> None:
    """By depth: LLVM's assembly has a comment at each loop's header."""
    command = [llvm.clang, "-x", "cl", "-cl-std=CL2.0", f"-O{level}", "-S", "-o", "-", "-"]
    command += ["-target", "amdgcn-amd-amdhsa", "-mcpu=gfx942", "-nogpulib"]
    command += ["-Xclang", "-finclude-default-header"]
    text = subprocess.run(command, input=_LOOPS, capture_output=True, text=True, check=True).stdout
    own = text.partition("\nloops:")[2].partition("\n.Lfunc_end")[0]
    said = Counter(map(int, re.findall(r"This (?:Inner )?Loop Header: Depth=(\d+)", own)))
    read = coasm.load(text).kernels[0]
    assert said and Counter(loop.depth for loop in read.cfg.loops) == said
    assert read.cfg.irreducible == ()
    for loop in read.cfg.loops:
        assert loop.header in loop.blocks and set(loop.latches) <= set(loop.blocks)
        if loop.parent is not None:
            assert set(loop.blocks) < set(read.cfg.loops[loop.parent].blocks)


def test_edges_say_how_flow_goes() -> None:
    """Worked by hand; the cycle of the second has two ways in."""
    body = ".La:\n\ts_nop 0\n\ts_cbranch_scc0 .La\n\ts_cbranch_scc1 .Lb\n\ts_nop 1\n.Lb:\n" + _END
    found = kernel(body).cfg
    assert [tuple(edge) for edge in found.edges] == [
        (0, 0, "branch"),
        (0, 1, "fall"),
        (1, 3, "branch"),
        (1, 2, "fall"),
        (2, 3, "fall"),
    ]
    assert [(loop.header, loop.blocks) for loop in found.loops] == [(0, (0,))]
    twice = "\ts_cbranch_scc1 .Lb\n.La:\n\ts_nop 0\n.Lb:\n\ts_cbranch_scc0 .La\n" + _END
    found = kernel(twice).cfg
    assert (found.loops, found.irreducible) == ((), (1, 2))


#: Body → for the instruction at a place, registers that must be live there, and that must not be.
#: Worked by hand: what a lane that EXEC switches off holds stays, and is read behind the join.
_LIVE = {
    "straight": (
        "\tv_mov_b32 v1, v2\n\tv_mov_b32 v3, v1\n" + _END,
        {0: ("v2", "v1"), 1: ("v1", "v2")},
    ),
    "some lanes": (
        "\tv_mov_b32 v1, 5\n\ts_and_saveexec_b64 s[4:5], vcc\n\tv_mov_b32 v1, 7\n"
        "\ts_or_b64 exec, exec, s[4:5]\n\tglobal_store_dword v2, v1, s[0:1]\n" + _END,
        {0: ("v2", "v1"), 1: ("v1", "s4"), 2: ("v1", "v3"), 4: ("v1", "s4")},
    ),
    "all lanes": (
        "\tv_mov_b32 v1, 5\n\ts_and_saveexec_b64 s[4:5], vcc\n\tv_mov_b32 v3, v1\n"
        "\ts_mov_b64 exec, s[4:5]\n\tv_mov_b32 v1, 7\n\tglobal_store_dword v2, v1, s[0:1]\n" + _END,
        {3: ("v2", "v1"), 4: ("v2", "v1")},
    ),
    "around a loop": (
        ".La:\n\tv_add_u32 v1, v1, v2\n\ts_cbranch_scc0 .La\n\tv_mov_b32 v2, v1\n" + _END,
        {0: ("v1", "v3"), 1: ("v2", "v3"), 2: ("v1", "v2")},
    ),
}


@pytest.mark.parametrize("name", _LIVE)
def test_liveness_by_hand(name: str) -> None:
    body, wanted = _LIVE[name]
    live = kernel(body).liveness
    for at, (there, gone) in wanted.items():
        assert there in live[at].registers and gone not in live[at].registers, at
        file = {"s": "sgpr", "v": "vgpr"}[gone[0]]
        assert gone in live[at].spare[file]


def test_everything_is_live_where_flow_is_lost() -> None:
    found = kernel("\tv_mov_b32 v1, 5\n\ts_setpc_b64 s[4:5]\n").liveness
    assert found[1].everything and found[1].spare["vgpr"] == ()
    assert found.spare["vgpr"] == ()


def test_the_descriptor_and_the_arguments_have_names() -> None:
    read = coasm.load(str(_EXAMPLES / "vector_add.s")).kernels[0]
    descriptor = read.descriptor
    assert (descriptor.kernarg_size, descriptor.lds, descriptor.wave_size) == (28, 0, 64)
    assert (descriptor.vgprs, descriptor.agprs) == (8, 4)
    assert descriptor.enable_sgpr_kernarg_segment_ptr == 1
    assert bytes(descriptor) == read.co.bytes_at(read.descriptor_address, 64)
    with pytest.raises(AttributeError, match="no field 'nonsense'"):
        _ = descriptor.nonsense
    names = [(one.name, one.offset, one.size) for one in read.arguments]
    assert names == [("sum", 0, 8), ("left", 8, 8), ("right", 16, 8), ("count", 24, 4)]
    assert all(one.read for one in read.info.arguments)


#: Two neighbours → a word of why they may not change places; None: they may.
_SWAPS = {
    "\tv_mov_b32 v1, 1\n\tv_mov_b32 v2, 2\n": None,
    "\tv_mov_b32 v1, 1\n\tv_mov_b32 v2, v1\n": "v1 is written by",
    "\tv_mov_b32 v2, v1\n\tv_mov_b32 v1, 1\n": "v1 is read by",
    "\ts_add_u32 s4, s5, s6\n\ts_addc_u32 s7, s8, s9\n": "src_scc",
    "\tv_mov_b32 v1, 1\n\ts_mov_b64 exec, -1\n": "exec_lo",
    "\tds_write_b32 v1, v2\n\tds_read_b32 v3, v4\n": "both use LDS",
    "\tglobal_store_dword v1, v2, s[4:5]\n\tglobal_load_dword v3, v4, s[4:5]\n": "both use memory",
    "\tglobal_load_dword v2, v1, s[4:5]\n\tglobal_load_dword v3, v1, s[4:5]\n": None,
    "\ts_waitcnt vmcnt(0)\n\ts_mov_b32 s4, 1\n": None,
    "\tds_write_b32 v1, v2\n\ts_barrier\n": "barrier",
    "\tds_write_b32 v1, v2\n\ts_waitcnt lgkmcnt(0)\n": "wait",
    "\ts_mov_b32 s4, 1\n\ts_branch .Lend\n": "where execution goes on",
    "\ts_mov_b32 s4, 1\n\ts_setprio 1\n": "executed",
    "\tv_rcp_f32 v1, v2\n\ts_nop 0\n\tv_mov_b32 v3, v1\n": "trans",
}


@pytest.mark.parametrize("body", _SWAPS)
def test_what_may_change_places(body: str) -> None:
    read = kernel(body + _END)
    low, high = (0, 1) if body.count("\n") == 2 else (1, 2)
    answer = read.may_swap(read.instructions[low], read.instructions[high].address)
    why = _SWAPS[body]
    assert bool(answer) == (why is None), answer
    assert why is None or why in answer.reasons[0]


def test_a_wait_that_covers_another_load_is_a_reason() -> None:
    body = "\tglobal_load_dword v2, v1, s[4:5]\n\tglobal_load_dword v3, v1, s[4:5]\n"
    body += "\ts_waitcnt vmcnt(1)\n\tv_mov_b32 v4, v2\n\ts_waitcnt vmcnt(0)\n"
    read = kernel(body + _END)
    answer = read.may_swap(*read.instructions[:2])
    assert not answer and answer.reasons[0].startswith("vmem-wait: ")
    with pytest.raises(UnsupportedError, match="begins at 0x3"):
        read.may_swap(read.instructions[0], 3)


def test_no_command_pays_for_it() -> None:
    """``import coasm`` brings none of it; the names are there all the same."""
    code = "import coasm, sys; assert not [m for m in sys.modules if m.startswith('coasm.reading')]"
    subprocess.run([sys.executable, "-c", code], check=True)
    for name in ("Kernel", "CodeObject", "Instruction", "Operand", "Cfg", "Liveness"):
        assert name in dir(coasm) and getattr(coasm, name).__doc__


def test_counters_are_those_of_the_generation() -> None:
    """GFX10 has vscnt for stores, GFX12 loadcnt, storecnt, dscnt, kmcnt; GFX12.5 xcnt as well."""
    for target, store, counter in (
        ("gfx1030", "global_store_dword", "vscnt"),
        ("gfx1200", "global_store_b32", "storecnt"),
        ("gfx1250", "global_store_b32", "storecnt xcnt"),
    ):
        one = kernel(f"\t{store} v0, v1, s[0:1]\n{_END}", target).instructions[0]
        assert one.counter == counter
    with pytest.raises(UnsupportedError, match="wait counters of gfx8"):
        _ = (
            kernel(f"\tbuffer_load_dword v0, v1, s[0:3], 0 offen\n{_END}", "gfx803")
            .instructions[0]
            .counter
        )
