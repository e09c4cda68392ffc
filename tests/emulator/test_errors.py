"""What a kernel may not do ends in an error that names the instruction, the wave and the lane."""

from __future__ import annotations

import struct
from dataclasses import replace

import numpy as np
import pytest

from coasm.emulator import EmulationError, Memory, Options, Trace, launch
from coasm.errors import UnsupportedError
from coasm.llvm import Llvm
from tests.emulator.harness import assemble, run

#: s[4:5] points to the first buffer, v1 is 4 * work-item.
HEAD = """
    s_load_dwordx2 s[4:5], s[0:1], 0x0
    v_and_b32 v0, 0x3ff, v0
    v_lshlrev_b32 v1, 2, v0
    s_waitcnt lgkmcnt(0)
"""


def fails(
    llvm: Llvm,
    body: str,
    *words: str,
    workgroup: int = 64,
    lds: int = 0,
    size: int = 64,
    options: Options | None = None,
    grid: int = 1,
    **more: object,
) -> EmulationError:
    co = assemble(llvm, HEAD + body + "\ns_endpgm", lds=lds, **more)  # type: ignore[arg-type]
    with pytest.raises(EmulationError) as caught:
        run(
            llvm,
            co,
            "k",
            [np.zeros(size, np.uint32)],
            workgroup=workgroup,
            options=options,
            grid=(grid, 1, 1),
        )
    text = str(caught.value)
    assert "\n" not in text
    assert caught.value.exit_code == 2
    for word in ("k", *words):
        assert word in text, text
    return caught.value


def test_a_missing_wait_before_the_use_of_a_load(llvm: Llvm) -> None:
    fails(
        llvm,
        "global_load_dword v2, v1, s[4:5]\nv_add_u32 v3, v2, v2",
        "v2 still waits for `global_load_dword v2, v1, s[4:5]`",
        "vmcnt(0)",
        "v_add_u32",
    )


def test_a_wait_that_is_too_weak_by_one(llvm: Llvm) -> None:
    body = """
    global_load_dword v2, v1, s[4:5]
    global_load_dword v3, v1, s[4:5]
    s_waitcnt vmcnt({})
    v_mov_b32 v4, v2
    v_mov_b32 v5, {}"""
    fails(llvm, body.format(2, "v4"), "v2 still waits", "vmcnt(1)")
    fails(llvm, body.format(1, "v3"), "v3 still waits", "vmcnt(0)")


def test_more_loads_than_the_counter_counts(llvm: Llvm) -> None:
    """vmcnt has 6 bits: the 64th load goes out when the first has ended."""
    load = "global_load_dword v{}, v1, s[4:5]\n"
    body = load.format(2) + load.format(3) + load.format(4) * 61
    fails(llvm, body + "v_mov_b32 v5, v2", "v2 still waits", "vmcnt(62)")
    fails(llvm, body + load.format(4) + "v_mov_b32 v5, v3", "v3 still waits", "vmcnt(62)")
    co = assemble(llvm, HEAD + body + load.format(4) + "v_mov_b32 v5, v2\ns_endpgm")
    run(llvm, co, "k", [np.zeros(64, np.uint32)])


def test_overwriting_a_register_that_waits(llvm: Llvm) -> None:
    fails(llvm, "global_load_dword v2, v1, s[4:5]\nv_mov_b32 v2, 0", "v2 still waits")


def test_scalar_loads_come_in_any_order(llvm: Llvm) -> None:
    body = """
    s_load_dword s8, s[4:5], 0x0
    s_load_dword s9, s[4:5], 0x4
    s_waitcnt lgkmcnt(1)
    s_mov_b32 s10, s8"""
    fails(llvm, body, "s8 still waits", "lgkmcnt(0)")


def test_lds_reads_come_in_order(llvm: Llvm) -> None:
    body = """
    ds_read_b32 v2, v1
    ds_read_b32 v3, v1
    s_waitcnt lgkmcnt(1)
    v_mov_b32 v4, v2
    v_mov_b32 v5, v3"""
    fails(llvm, body, "v3 still waits", lds=256)


def test_a_flat_load_needs_both_counters(llvm: Llvm) -> None:
    body = """
    v_mov_b32 v2, s4
    v_mov_b32 v3, s5
    flat_load_dword v4, v[2:3]
    s_waitcnt vmcnt(0)
    v_mov_b32 v5, v4"""
    fails(llvm, body, "v4 still waits")


def test_a_direct_to_lds_load_is_visible_only_after_vmcnt(llvm: Llvm) -> None:
    body = (
        HEAD
        + """
    s_mov_b32 s6, 0x1000
    s_mov_b32 s7, 0x20000
    s_mov_b32 m0, 0
    buffer_load_dword v1, s[4:7], 0 offen lds
    s_waitcnt {}
    ds_read_b32 v2, v1
    s_waitcnt lgkmcnt(0)
    v_add_u32 v2, 100, v2
    global_store_dword v1, v2, s[4:5]
    s_endpgm"""
    )
    for wait, want in (("vmcnt(0)", 107), ("vmcnt(1)", 100), ("lgkmcnt(0)", 100)):
        out = np.full(64, 7, np.uint32)
        run(llvm, assemble(llvm, body.format(wait), lds=256), "k", [out])
        assert (out == want).all(), wait


def test_a_write_to_lds_reaches_other_waves_only_after_the_wait(llvm: Llvm) -> None:
    body = (
        HEAD
        + """
    ds_write_b32 v1, v0
    {}
    s_barrier
    v_xor_b32 v2, 0x100, v1
    ds_read_b32 v3, v2
    s_waitcnt lgkmcnt(0)
    global_store_dword v1, v3, s[4:5]
    s_endpgm"""
    )
    out = np.zeros(128, np.uint32)
    run(
        llvm,
        assemble(llvm, body.format("s_waitcnt lgkmcnt(0)"), lds=512),
        "k",
        [out],
        workgroup=128,
    )
    assert out.tolist() == [i ^ 64 for i in range(128)]
    with pytest.raises(EmulationError, match="written, without an s_waitcnt lgkmcnt"):
        run(llvm, assemble(llvm, body.format("s_nop 0"), lds=512), "k", [out], workgroup=128)


def test_an_access_behind_a_buffer(llvm: Llvm) -> None:
    error = fails(
        llvm,
        "global_store_dword v1, v0, s[4:5] offset:128",
        "wave 0",
        "lane 32",
        "0 bytes behind the end of buffer 'argument 0' (256 bytes)",
        "`global_store_dword v1, v0, s[4:5] offset:128`",
    )
    assert error.address is not None


def test_the_wave_and_workgroup_of_a_bad_access(llvm: Llvm) -> None:
    fails(
        llvm,
        "s_mul_i32 s8, s2, 0x100\nv_add_u32 v1, s8, v1\nglobal_load_dword v2, v1, s[4:5]",
        "wave 3",
        "workgroup 3",
        "lane 0",
        grid=4,
        size=192,
    )


@pytest.mark.parametrize(
    "text",
    [
        "global_atomic_add v1, v2, s[4:5] offset:2",
        "global_atomic_add_x2 v1, v[2:3], s[4:5] offset:4",
        "ds_add_u32 v1, v2 offset:1",
        "v_or_b32 v1, 1, v1\nds_read2_b32 v[2:3], v1 offset1:1",
        "s_load_dword s8, s[4:5], 0x2",
    ],
)
def test_a_misaligned_access(text: str, llvm: Llvm) -> None:
    fails(llvm, text, "misaligned", lds=512)


def test_an_access_behind_the_lds(llvm: Llvm) -> None:
    fails(llvm, "ds_read_b32 v2, v1", "outside of LDS", "lane 32", "128 are allocated", lds=128)


def test_an_instruction_that_is_not_emulated(llvm: Llvm) -> None:
    fails(llvm, "s_memrealtime s[8:9]\ns_cbranch_join s4", "s_cbranch_join s4", "not emulated")


def test_a_trap_ends_the_run(llvm: Llvm) -> None:
    fails(llvm, "s_trap 2", "s_trap 2", "trap 2 (llvm.trap)")
    fails(llvm, "s_trap 3", "trap 3 (llvm.debugtrap)")


@pytest.mark.parametrize(
    "text", ["s_sethalt 1", "s_setkill 1", "s_sendmsg sendmsg(MSG_GS_DONE, GS_OP_NOP)"]
)
def test_what_would_stop_a_wave_is_refused(text: str, llvm: Llvm) -> None:
    fails(llvm, text, text.split()[0], "not emulated")


def test_m0_that_leads_out_of_the_registers(llvm: Llvm) -> None:
    fails(llvm, "s_mov_b32 m0, 0x100\ns_movrels_b32 s8, s9", "M0 leads to s265")


def test_what_is_not_executed_may_be_unknown(llvm: Llvm) -> None:
    co = assemble(llvm, "s_endpgm\ns_trap 2")
    run(llvm, co, "k", [])


def test_a_runaway(llvm: Llvm) -> None:
    fails(llvm, "loop: s_branch loop", "more than 1000", options=Options(max_instructions=1000))


def test_registers_beyond_the_descriptor(llvm: Llvm) -> None:
    fails(llvm, "v_mov_b32 v128, 0", "v128 is beyond the 128 registers", offset=40)
    fails(llvm, "v_accvgpr_write_b32 a64, 0", "a64 is beyond the 64 AGPRs")


def test_vgprs_behind_the_start_of_the_agprs_are_agprs(llvm: Llvm) -> None:
    """One register file (CDNA3 ISA guide, "VGPRs"): shipped kernels name AGPRs so."""
    body = """
    s_load_dwordx2 s[4:5], s[0:1], 0x0
    v_lshlrev_b32 v1, 2, v0
    v_mov_b32 v43, 7
    v_accvgpr_write_b32 a2, 9
    v_accvgpr_read_b32 v2, a3
    v_add_u32 v2, v2, v42
    s_waitcnt lgkmcnt(0)
    global_store_dword v1, v2, s[4:5]
    s_endpgm"""
    out = np.zeros(64, np.uint32)
    run(llvm, assemble(llvm, body, offset=40), "k", [out])
    assert (out == 16).all()


def test_a_barrier_that_some_waves_never_reach(llvm: Llvm) -> None:
    body = """
    v_readfirstlane_b32 s8, v0
    s_cmp_lt_u32 s8, 64
    s_cbranch_scc1 out
    s_barrier
    out:"""
    fails(llvm, body, "s_barrier", "never reach", workgroup=128)


def test_a_race_over_lds(llvm: Llvm) -> None:
    body = """
    ds_write_b32 v1, v0
    s_waitcnt lgkmcnt(0)
    {}
    v_xor_b32 v2, 0x100, v1
    ds_read_b32 v3, v2
    s_waitcnt lgkmcnt(0)"""
    fails(llvm, body.format("s_nop 0"), "race", workgroup=128, lds=512, options=Options(race=True))
    co = assemble(llvm, HEAD + body.format("s_barrier") + "\ns_endpgm", lds=512)
    run(llvm, co, "k", [np.zeros(64, np.uint32)], workgroup=128, options=Options(race=True))


def test_a_register_that_was_never_written(llvm: Llvm) -> None:
    fails(llvm, "v_add_u32 v3, v2, v1", "v2 was never written", options=Options(strict=True))
    fails(llvm, "s_add_u32 s8, s9, s4", "s9 was never written", options=Options(strict=True))


def test_launches_that_cannot_be(llvm: Llvm) -> None:
    co = assemble(llvm, "s_endpgm")
    for grid, workgroup in (((1, 1, 1), (2048, 1, 1)), ((0, 1, 1), (64, 1, 1))):
        with pytest.raises(UnsupportedError):
            launch(
                co,
                co.kernels[0],
                grid=grid,
                workgroup=workgroup,
                kernarg=b"",
                memory=Memory(),
                llvm=llvm,
            )
    with pytest.raises(UnsupportedError, match="bytes of LDS"):
        launch(
            co,
            co.kernels[0],
            grid=(1, 1, 1),
            workgroup=(64, 1, 1),
            kernarg=b"",
            memory=Memory(),
            llvm=llvm,
            dynamic_lds=1 << 20,
        )


def test_a_trace_of_one_wave_and_lane(llvm: Llvm) -> None:
    co = assemble(llvm, HEAD + "v_add_u32 v2, 5, v0\ns_endpgm")
    lines: list[str] = []
    out = np.zeros(64, np.uint32)
    run(llvm, co, "k", [out], workgroup=128, options=Options(trace=Trace(1, 3, lines.append)))
    assert lines[-2].split(": ", 1)[1].split() == [
        "v_add_u32_e32",
        "v2,",
        "5,",
        "v0",
        "v2=0x00000048",
    ]
    assert lines[-1].endswith("s_endpgm")
    assert len(lines) == 6


def test_a_stop_with_a_dump(llvm: Llvm) -> None:
    body = HEAD + "v_add_u32 v2, 5, v0\ns_movk_i32 s20, 0x77\nhere: s_nop 0\ns_endpgm"
    outcome = run(
        llvm, assemble(llvm, body), "k", [np.zeros(64, np.uint32)], options=Options(stop_at="here")
    )
    assert "s20 = 0x00000077" in outcome.dump
    assert "v2 = 00000005 00000006" in outcome.dump


def test_initial_registers(llvm: Llvm) -> None:
    """Workgroup IDs follow the user SGPRs, work-item IDs are packed ten bits each."""
    body = """
    s_load_dwordx2 s[8:9], s[0:1], 0x0
    v_bfe_u32 v1, v0, 10, 10
    v_lshl_or_b32 v1, s3, 8, v1
    v_lshl_or_b32 v1, s2, 16, v1
    v_and_b32 v2, 0x3ff, v0
    v_bfe_u32 v3, v0, 10, 10
    v_lshl_or_b32 v2, v3, 5, v2
    v_lshl_or_b32 v2, s2, 8, v2
    v_lshl_or_b32 v2, s3, 9, v2
    v_lshlrev_b32 v2, 2, v2
    s_waitcnt lgkmcnt(0)
    global_store_dword v2, v1, s[8:9]
    s_endpgm"""
    extra = ".amdhsa_system_sgpr_workgroup_id_y 1"
    co = assemble(llvm, body, directives=extra.replace("id_y", "id_y"))
    data = bytearray(co.kernels[0].descriptor)
    data[53] |= 1 << 3  # two work-item ID components: compute_pgm_rsrc2 bits 11 and 12
    memory = Memory()
    out = memory.allocate(4 * 2048, "out")
    kernel = replace(co.kernels[0], descriptor=bytes(data))
    launch(
        co,
        kernel,
        grid=(2, 3, 1),
        workgroup=(32, 8, 1),
        kernarg=struct.pack("<Q", out),
        memory=memory,
        llvm=llvm,
    )
    found = memory.view(out).view(np.uint32)[: 256 * 6].reshape(3, 2, 8, 32)
    for wy in range(3):
        for wx in range(2):
            for y in range(8):
                assert (found[wy, wx, y] == (wx << 16 | wy << 8 | y)).all()
