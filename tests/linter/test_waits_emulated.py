"""The wait counters in lint and on the emulator, which knows what is out when a kernel runs.

Kernels at random, most of which lack waits: where the emulator raises an error the linter has a
finding, and with the waits that the findings ask for a kernel gives what it gives when it waits
behind every instruction.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from coasm.asm.decode import decode
from coasm.codeobject import CodeObject
from coasm.emulator import EmulationError
from coasm.linter.findings import ADVICE, Finding
from coasm.linter.program import build_program
from coasm.linter.waits import check_waits
from coasm.llvm import Llvm
from tests.emulator.harness import compile_source, run
from tests.linter.mir_waits import NO_WAIT, Wait

_TARGET = "gfx942"
#: s[4:5] and the descriptor s[8:11] are of a buffer, v[6:7] and v5 a work-item's place in it.
_HEAD = """\
s_load_dwordx2 s[4:5], s[0:1], 0x0
v_and_b32_e32 v0, 0x3ff, v0
v_lshlrev_b32_e32 v5, 2, v0
s_waitcnt lgkmcnt(0)
s_mov_b32 s8, s4
s_mov_b32 s9, s5
s_mov_b32 s10, 0x1000
s_mov_b32 s11, 0x20000
v_mov_b32_e32 v7, s5
v_add_co_u32_e32 v6, vcc, s4, v5
v_addc_co_u32_e32 v7, vcc, 0, v7, vcc
v_mov_b32_e32 v1, 1
v_mov_b32_e32 v2, 2
v_mov_b32_e32 v3, 3
s_mov_b32 s12, 12
s_mov_b32 s13, 13
s_mov_b32 s20, 3
s_mov_b32 m0, 0""".splitlines()
_TAIL = """\
v_add_u32_e32 v8, s12, v1
global_store_dword v5, v8, s[4:5] offset:1024
global_store_dword v5, v2, s[4:5] offset:1280
v_xor_b32_e32 v9, s13, v3
global_store_dword v5, v9, s[4:5] offset:1536
s_endpgm""".splitlines()
_ROUND = ["s_sub_u32 s20, s20, 1", "s_cmp_lg_u32 s20, 0", "s_cbranch_scc1 L"]
_WAITS = [
    *(f"s_waitcnt vmcnt({n})" for n in range(4)),
    *(f"s_waitcnt lgkmcnt({n})" for n in range(4)),
    "s_waitcnt vmcnt(0) lgkmcnt(0)",
]
_ALL = Wait(0, 0).text
_DMA = "buffer_load_dword v5, s[8:11], 0 offen lds"
_VALUES = [(v, w, s) for v in ("v1", "v2", "v3") for w in ("v1", "v2") for s in ("s12", "s13")]


def _pool(*texts: str) -> st.SearchStrategy[str]:
    made = [text.format(v=v, w=w, s=s) for text in texts for v, w, s in _VALUES]
    return st.sampled_from(list(dict.fromkeys(made)))


_IN_ORDER = (
    _pool(
        "global_load_dword {v}, v5, s[4:5]",
        "buffer_load_dword {v}, v5, s[8:11], 0 offen offset:256",
        "global_load_dwordx2 v[2:3], v5, s[4:5]",
        "global_atomic_add {v}, v5, {w}, s[4:5] sc0",
    ),
    _pool("global_store_dword v5, {v}, s[4:5] offset:512", "global_atomic_add v5, {v}, s[4:5]"),
    _pool("ds_read_b32 {v}, v5", "ds_bpermute_b32 {v}, v5, {w}", "ds_add_rtn_u32 {v}, v5, {w}"),
    _pool("ds_write_b32 v5, {v}", "ds_add_u32 v5, {v}", _DMA),
    _pool(
        "v_mov_b32_e32 {v}, {w}",
        "v_mov_b32_e32 {v}, {s}",
        "v_add_u32_e32 {v}, {w}, v3",
        "v_readfirstlane_b32 {s}, {v}",
        "s_add_u32 s12, s12, s13",
        "s_mov_b32 {s}, 7",
    ),
    st.sampled_from(_WAITS),
    st.sampled_from(_WAITS),
)
_ANY = (
    *_IN_ORDER,
    _pool("s_load_dword {s}, s[4:5], 0x0", "s_load_dwordx2 s[12:13], s[4:5], 0x8"),
    _pool("flat_load_dword {v}, v[6:7]", "flat_store_dword v[6:7], {v} offset:2048"),
)
Kernel = list[str]


def _kernels(pool: Sequence[st.SearchStrategy[str]], *, loops: bool) -> st.SearchStrategy[Kernel]:
    lines = st.lists(st.one_of(pool), min_size=2, max_size=12)
    straight = lines.map(lambda body: [*_HEAD, *body, *_TAIL])
    if not loops:
        return straight
    looped = st.tuples(lines, lines, lines).map(
        lambda b: [*_HEAD, *b[0], "L:", *b[1], *_ROUND, *b[2], *_TAIL]
    )
    return st.one_of(straight, looped)


def built(llvm: Llvm, kernels: Sequence[Kernel]) -> CodeObject:
    """A code object of *kernels*, which are called ``k0`` and so on."""
    text = ".text\n"
    for number, lines in enumerate(kernels):
        text += f".globl k{number}\n.p2align 8\n.type k{number},@function\nk{number}:\n"
        label = f"L{number}"
        text += "\n".join(
            line if line != "L:" and not line.endswith(" L") else line.replace("L", label)
            for line in lines
        )
        text += f"\n.size k{number}, .-k{number}\n"
    text += ".rodata\n"
    metadata = ""
    for number in range(len(kernels)):
        text += f"""\
.p2align 6
.amdhsa_kernel k{number}
.amdhsa_next_free_vgpr 16
.amdhsa_next_free_sgpr 32
.amdhsa_accum_offset 16
.amdhsa_user_sgpr_kernarg_segment_ptr 1
.amdhsa_kernarg_size 8
.amdhsa_group_segment_fixed_size 4096
.end_amdhsa_kernel
"""
        metadata += f"""\
  - .name: k{number}
    .symbol: k{number}.kd
    .group_segment_fixed_size: 4096
    .private_segment_fixed_size: 0
    .kernarg_segment_size: 8
    .kernarg_segment_align: 8
    .max_flat_workgroup_size: 64
    .sgpr_count: 32
    .vgpr_count: 16
    .wavefront_size: 64
"""
    text += (
        ".amdgpu_metadata\n---\namdhsa.version: [1, 2]\n"
        f"amdhsa.target: amdgcn-amd-amdhsa--{_TARGET}\namdhsa.kernels:\n{metadata}...\n"
        ".end_amdgpu_metadata\n"
    )
    return compile_source(llvm, text, _TARGET, "-x", "assembler")


def findings(llvm: Llvm, co: CodeObject, count: int) -> list[list[Finding]]:
    """The findings of each kernel about registers, by address."""
    found: list[list[Finding]] = [[] for _ in range(count)]
    for one in check_waits(build_program(co, decode(co, llvm))):
        if not one.rule.startswith(("lds-dma", "lds-barrier")):
            found[int(one.kernel[1:])].append(one)
    return found


def repaired(lines: Kernel, addresses: Sequence[int], found: Sequence[Finding]) -> Kernel:
    """The kernel with the waits that the findings ask for; *addresses* of its instructions."""
    waits: dict[int, Wait] = {}
    for one in found:
        assert one.fix is not None
        has = waits.get(one.place.address, NO_WAIT)
        counts = dict(one.fix.waits)
        wait = Wait(counts.get("vmcnt"), counts.get("lgkmcnt"))
        waits[one.place.address] = has.with_(wait)
    made = []
    at = iter(addresses)
    for line in lines:
        if line != "L:":
            wait = waits.get(next(at))
            made += [wait.text] if wait else []
        made.append(line)
    return made


def outcome(llvm: Llvm, co: CodeObject, number: int) -> np.ndarray | EmulationError:
    """What the kernel leaves in its buffer, or the error that it ends in."""
    data = np.arange(1024, dtype=np.uint32)
    try:
        run(llvm, co, f"k{number}", [data])
    except EmulationError as error:
        return error
    return data


def _addresses(llvm: Llvm, co: CodeObject, kernels: Sequence[Kernel]) -> list[list[int]]:
    program = build_program(co, decode(co, llvm))
    every = [item.address for item in program.instructions]
    starts = {kernel.name: every.index(kernel.entry) for kernel in co.kernels}
    return [
        every[starts[f"k{number}"] :][: len([line for line in lines if line != "L:"])]
        for number, lines in enumerate(kernels)
    ]


def _waits_everywhere(lines: Kernel) -> Kernel:
    return [part for line in lines for part in ((line,) if line == "L:" else (_ALL, line))]


_BOUNDED = settings(derandomize=True, max_examples=4, deadline=None, phases=[Phase.generate])


@pytest.mark.parametrize("loops", [False, True], ids=["straight", "loops"])
@pytest.mark.parametrize("pool", [_IN_ORDER, _ANY], ids=["in order", "any"])
def test_the_emulator_agrees(
    llvm: Llvm, pool: Sequence[st.SearchStrategy[str]], loops: bool
) -> None:
    """An error there is a finding here, and a kernel without findings runs and is right.

    What scalar memory or FLAT is out with, lint waits for as LLVM does, by 0; the emulator counts.
    """

    @_BOUNDED
    @given(st.lists(_kernels(pool, loops=loops), min_size=15, max_size=15))
    def check(kernels: list[Kernel]) -> None:
        co = built(llvm, kernels)
        found = findings(llvm, co, len(kernels))
        addresses = _addresses(llvm, co, kernels)
        fixed = [repaired(*parts) for parts in zip(kernels, addresses, found, strict=True)]
        fixed_co = built(llvm, fixed)
        assert not any(findings(llvm, fixed_co, len(fixed)))
        slow_co = built(llvm, [_waits_everywhere(lines) for lines in kernels])
        for number, (lines, asks) in enumerate(zip(kernels, found, strict=True)):
            first = asks[0].place.address if asks else None
            ends = outcome(llvm, co, number)
            if isinstance(ends, EmulationError):
                assert "still waits for" in str(ends)
                assert asks, (lines, str(ends))
                if "L:" not in lines:
                    assert first is not None and ends.address is not None
                    assert first <= ends.address, (lines, str(ends), asks)
                    if pool is _IN_ORDER:
                        assert first == ends.address, (lines, str(ends), asks)
                        producers = [one.producer.text for one in asks if one.producer]
                        assert any(f"`{text}`" in str(ends) for text in producers)
            elif pool is _IN_ORDER and "L:" not in lines:
                assert not asks, (lines, asks)
            right = outcome(llvm, slow_co, number)
            assert isinstance(right, np.ndarray)
            got = outcome(llvm, fixed_co, number)
            assert isinstance(got, np.ndarray), (fixed[number], str(got))
            if _DMA not in lines:
                assert (got == right).all(), fixed[number]

    check()


_OVER = {
    "a load": ("global_load_dword v1, v5, s[4:5]\nglobal_load_dword v1, v5, s[4:5] offset:256", 0),
    "an atomic": (
        "global_load_dword v1, v5, s[4:5]\nglobal_atomic_add v1, v5, v2, s[4:5] offset:256 sc0",
        0,
    ),
    "LDS": ("ds_write_b32 v5, v2\nds_read_b32 v1, v5\nds_bpermute_b32 v1, v5, v3", 0),
    "another counter": ("ds_read_b32 v1, v5\nglobal_load_dword v1, v5, s[4:5]", 1),
    "another counter, back": ("global_load_dword v1, v5, s[4:5]\nds_read_b32 v1, v5", 1),
    "FLAT": ("flat_load_dword v1, v[6:7]\nflat_load_dword v1, v[6:7]", 1),
    "a load over FLAT": ("flat_load_dword v1, v[6:7]\nglobal_load_dword v1, v5, s[4:5]", 1),
    "FLAT over a load": ("global_load_dword v1, v5, s[4:5]\nflat_load_dword v1, v[6:7]", 1),
    "scalars": ("s_load_dword s12, s[4:5], 0x0\ns_load_dword s12, s[4:5], 0x4", 1),
    "its own address": (
        "global_load_dword v1, v5, s[4:5]\nglobal_load_dword v1, v1, s[4:5] offset:256",
        1,
    ),
}


@pytest.mark.parametrize("name", _OVER)
def test_what_goes_over_what_is_out(llvm: Llvm, name: str) -> None:
    """The same counter in order: nothing to wait for until it is read. All else waits."""
    body, early = _OVER[name]
    kernel = [*_HEAD, *body.splitlines(), _ALL, *_TAIL]
    co = built(llvm, [kernel])
    (found,) = findings(llvm, co, 1)
    ends = outcome(llvm, co, 0)
    assert len(found) == early
    if name == "a load over FLAT":
        # What LLVM knows to be memory ends in order: so the emulator, and to lint it is advice.
        assert isinstance(ends, np.ndarray) and found[0].level == ADVICE
    elif early:
        assert isinstance(ends, EmulationError) and ends.address == found[0].place.address
    else:
        assert isinstance(ends, np.ndarray)


def test_the_younger_of_two_loads_into_a_register_counts(llvm: Llvm) -> None:
    """A wait that covers the older one only is too weak; the value is the younger one's."""
    body = [
        "global_load_dword v1, v5, s[4:5]",
        "global_load_dword v1, v5, s[4:5] offset:256",
        "global_load_dword v2, v5, s[4:5]",
    ]
    weak, enough = (
        [*_HEAD, *body, f"s_waitcnt vmcnt({n})", "v_mov_b32_e32 v8, v1", _ALL, *_TAIL]
        for n in (2, 1)
    )
    co = built(llvm, [weak, enough])
    found = findings(llvm, co, 2)
    ends = outcome(llvm, co, 0)
    assert isinstance(ends, EmulationError) and "offset:256` at" in str(ends)
    assert [one.needs for one in found[0]] == [1] and not found[1]
    right = outcome(llvm, co, 1)
    assert isinstance(right, np.ndarray)
    assert (right[256:320] == np.arange(64, 128) + 12).all()
