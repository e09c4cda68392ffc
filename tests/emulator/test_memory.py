"""Buffers, and the instructions that reach them: ranges, swizzles, LDS, atomics, lane exchanges."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from coasm.emulator import EmulationError, Memory
from coasm.llvm import Llvm
from tests.emulator.harness import assemble, run

HEAD = """
    s_load_dwordx4 s[4:7], s[0:1], 0x0
    v_lshlrev_b32 v1, 2, v0
    s_waitcnt lgkmcnt(0)
    s_mov_b32 s8, s6
    s_mov_b32 s9, s7
    s_mov_b32 s10, 128
    s_mov_b32 s11, 0x20000
"""


def go(
    llvm: Llvm,
    body: str,
    source: np.ndarray,
    *,
    size: int = 64,
    lds: int = 0,
    target: str = "gfx950",
) -> np.ndarray:
    """Runs *body*: s[4:5] is a result of *size* dwords, s[6:7] *source*, s[8:11] a buffer on it."""
    out = np.zeros(size, np.uint32)
    run(
        llvm,
        assemble(llvm, HEAD + body + "\ns_waitcnt vmcnt(0)\ns_endpgm", target, lds=lds),
        "k",
        [out, source],
    )
    return out


def test_buffers_have_gaps_and_views() -> None:
    memory = Memory()
    first, second = memory.allocate(100, "a", b"abc"), memory.allocate(10, "b")
    assert memory.read(first, 4) == b"abc\0"
    assert first % 256 == second % 256 == 0
    memory.write(second + 2, np.array([258], np.uint16))
    assert memory.view(second).tolist() == [0, 0, 2, 1, 0, 0, 0, 0, 0, 0]
    for address, size in ((first + 97, 4), (first - 1, 1), (second + 10, 1)):
        with pytest.raises(EmulationError):
            memory.read(address, size)
    memory.free(first)
    with pytest.raises(EmulationError):
        memory.view(first)


def test_a_raw_buffer_is_zero_beyond_its_records(llvm: Llvm) -> None:
    source = np.arange(1, 65, dtype=np.uint32)
    out = go(
        llvm,
        "buffer_load_dword v2, v1, s[8:11], 0 offen offset:4\ns_waitcnt vmcnt(0)\n"
        "global_store_dword v1, v2, s[4:5]",
        source,
    )
    assert out.tolist() == [n + 2 if 4 * n + 4 < 128 else 0 for n in range(64)]


def test_each_dword_of_a_wide_load_has_its_own_range(llvm: Llvm) -> None:
    source = np.arange(1, 257, dtype=np.uint32)
    body = """
    s_mov_b32 s10, 72
    v_lshlrev_b32 v2, 4, v0
    buffer_load_dwordx4 v[4:7], v2, s[8:11], 0 offen
    s_waitcnt vmcnt(0)
    global_store_dwordx4 v2, v[4:7], s[4:5]"""
    out = go(llvm, body, source, size=256)
    assert out.tolist() == [n + 1 if 4 * n < 72 else 0 for n in range(256)]


def test_a_scalar_offset_takes_from_the_range(llvm: Llvm) -> None:
    source = np.arange(1, 129, dtype=np.uint32)
    body = """
    s_movk_i32 s12, 64
    buffer_load_dword v2, v1, s[8:11], s12 offen
    s_waitcnt vmcnt(0)
    global_store_dword v1, v2, s[4:5]"""
    out = go(llvm, body, source)
    assert out.tolist() == [n + 17 if 4 * n < 128 - 64 else 0 for n in range(64)]


def test_stores_beyond_the_records_are_dropped(llvm: Llvm) -> None:
    source = np.zeros(64, np.uint32)
    body = HEAD + "v_mov_b32 v2, 7\nbuffer_store_dword v2, v1, s[8:11], 0 offen\ns_endpgm"
    run(llvm, assemble(llvm, body), "k", [np.zeros(1, np.uint32), source])
    assert source.tolist() == [7] * 32 + [0] * 32


def test_a_structured_buffer_counts_records(llvm: Llvm) -> None:
    """index * stride + offset, and zero from record 16 on."""
    source = np.arange(1024, dtype=np.uint32)
    body = """
    s_or_b32 s9, s9, 0x200000
    s_mov_b32 s10, 16
    buffer_load_dword v2, v0, s[8:11], 0 idxen offset:8
    s_waitcnt vmcnt(0)
    global_store_dword v1, v2, s[4:5]"""
    out = go(llvm, body, source)
    assert out.tolist() == [n * 8 + 2 if n < 16 else 0 for n in range(64)]


def test_a_swizzled_buffer(llvm: Llvm) -> None:
    """Stride 16, elements of 4 bytes, 8 records interleaved."""
    source = np.arange(1024, dtype=np.uint32)
    body = """
    s_or_b32 s9, s9, 0x80100000
    s_mov_b32 s10, 64
    s_mov_b32 s11, 0x000a0000
    buffer_load_dword v2, v0, s[8:11], 0 idxen offset:8
    s_waitcnt vmcnt(0)
    global_store_dword v1, v2, s[4:5]"""
    out = go(llvm, body, source)
    assert out.tolist() == [(n // 8) * 32 + 2 * 8 + n % 8 for n in range(64)]


@pytest.mark.parametrize("size", [4, 16])
def test_direct_to_lds_puts_lanes_behind_each_other(size: int, llvm: Llvm) -> None:
    source = np.arange(256, dtype=np.uint32)
    wide = "x4" if size == 16 else ""
    body = f"""
    s_movk_i32 s10, 0x400
    s_movk_i32 m0, 64
    v_mul_u32_u24 v2, {size}, v0
    buffer_load_dword{wide} v2, s[8:11], 0 offen lds
    s_waitcnt vmcnt(0)
    ds_read_b32 v3, v1 offset:64
    s_waitcnt lgkmcnt(0)
    global_store_dword v1, v3, s[4:5]"""
    assert go(llvm, body, source, lds=64 + 1024).tolist() == list(range(64))


def test_packed_bf16_atomics_round_each_sum(llvm: Llvm) -> None:
    """Eight lanes add to the same dword, in their order."""
    values = np.array([1.0, 1 / 256, 3.0, -2.5, 100.0, 1 / 128, 7.0, -0.5])
    halves = values.astype(ml_dtypes.bfloat16).view(np.uint16)
    source = np.zeros(64, np.uint32)
    source[:8] = halves | halves[::-1].astype(np.uint32) << 16
    body = """
    global_load_dword v2, v1, s[6:7]
    v_mov_b32 v3, 0
    s_waitcnt vmcnt(0)
    s_movk_i32 s10, 4
    s_mov_b32 s8, s4
    s_mov_b32 s9, s5
    s_mov_b64 exec, 0xff
    buffer_atomic_pk_add_bf16 v2, v3, s[8:11], 0 offen"""
    out = go(llvm, body, source)
    low = high = ml_dtypes.bfloat16(0)
    for a, b in zip(values, values[::-1], strict=True):
        low, high = low + ml_dtypes.bfloat16(a), high + ml_dtypes.bfloat16(b)
    assert int(out[0]) == int(low.view(np.uint16)) | int(high.view(np.uint16)) << 16


def test_compare_and_swap_has_one_winner(llvm: Llvm) -> None:
    body = """
    v_mov_b32 v2, 0
    v_add_u32 v4, 1, v0
    v_mov_b32 v5, 0
    global_atomic_cmpswap v6, v2, v[4:5], s[6:7] sc0
    s_waitcnt vmcnt(0)
    global_store_dword v1, v6, s[4:5]"""
    source = np.zeros(1, np.uint32)
    out = go(llvm, body, source)
    assert source[0] == 1
    assert out.tolist() == [0] + [1] * 63


def test_lds_two_addresses_and_sub_dwords(llvm: Llvm) -> None:
    source = np.arange(64, dtype=np.uint32) * 0x01010101
    body = """
    global_load_dword v2, v1, s[6:7]
    v_not_b32 v6, v0
    s_waitcnt vmcnt(0)
    ds_write2_b32 v1, v2, v6 offset0:0 offset1:64
    s_waitcnt lgkmcnt(0)
    ds_read2st64_b32 v[4:5], v1 offset0:0 offset1:1
    ds_read_u8 v7, v1 offset:1
    ds_read_i16 v8, v1 offset:258
    s_waitcnt lgkmcnt(0)
    v_add_u32 v4, v4, v5
    v_add3_u32 v4, v4, v7, v8
    global_store_dword v1, v4, s[4:5]"""
    out = go(llvm, body, source, lds=512)
    assert out.tolist() == [
        (n * 0x01010101 + (~n & 0xFFFFFFFF) + n - 1) & 0xFFFFFFFF for n in range(64)
    ]


@pytest.mark.parametrize(
    ("text", "lane"),
    [
        ("v_mov_b32_dpp v3, v0 quad_perm:[3,2,1,0] row_mask:0xf bank_mask:0xf", lambda n: n ^ 3),
        (
            "v_mov_b32_dpp v3, v0 row_ror:1 row_mask:0xf bank_mask:0xf",
            lambda n: n & 48 | (n - 1) & 15,
        ),
        ("v_mov_b32_dpp v3, v0 row_mirror row_mask:0xf bank_mask:0xf", lambda n: n ^ 15),
        (
            "v_mov_b32_dpp v3, v0 row_shr:2 row_mask:0xf bank_mask:0xf",
            lambda n: n - 2 if n & 15 > 1 else 99,
        ),
        (
            "v_mov_b32_dpp v3, v0 row_shr:2 row_mask:0xf bank_mask:0xf bound_ctrl:0",
            lambda n: n - 2 if n & 15 > 1 else 0,
        ),
        (
            "v_mov_b32_dpp v3, v0 row_mirror row_mask:0x2 bank_mask:0xf",
            lambda n: n ^ 15 if 16 <= n < 32 else 99,
        ),
        ("v_mov_b32_dpp v3, v0 row_newbcast:5 row_mask:0xf bank_mask:0xf", lambda n: n & 48 | 5),
        ("ds_bpermute_b32 v3, v4, v0", lambda n: 63 - n),
        ("ds_permute_b32 v3, v4, v0", lambda n: 63 - n),
        ("ds_swizzle_b32 v3, v0 offset:0x041f", lambda n: n ^ 1),
    ],
)
def test_lanes_exchange(text: str, lane: object, llvm: Llvm) -> None:
    body = f"""
    v_mov_b32 v3, 99
    v_sub_u32 v4, 63, v0
    v_lshlrev_b32 v4, 2, v4
    {text}
    s_waitcnt lgkmcnt(0)
    global_store_dword v1, v3, s[4:5]"""
    out = go(llvm, body, np.zeros(1, np.uint32))
    assert out.tolist() == [lane(n) for n in range(64)]  # type: ignore[operator]


def test_rows_swap(llvm: Llvm) -> None:
    """The odd rows of the first register with the even rows of the second."""
    body = """
    v_mov_b32 v2, v0
    v_add_u32 v3, 100, v0
    v_permlane16_swap_b32 v2, v3
    v_lshl_or_b32 v2, v3, 16, v2
    global_store_dword v1, v2, s[4:5]"""
    out = go(llvm, body, np.zeros(1, np.uint32))
    first = [n if n // 16 % 2 == 0 else 100 + n - 16 for n in range(64)]
    second = [n + 16 if n // 16 % 2 == 0 else 100 + n for n in range(64)]
    assert out.tolist() == [a | b << 16 for a, b in zip(first, second, strict=True)]


def test_an_indexed_register(llvm: Llvm) -> None:
    body = """
    v_mov_b32 v8, 1
    v_mov_b32 v9, 2
    v_mov_b32 v10, 3
    s_mov_b32 s12, 2
    s_set_gpr_idx_on s12, gpr_idx(SRC0)
    v_mov_b32 v3, v8
    s_set_gpr_idx_off
    v_mov_b32 v4, v8
    v_lshl_or_b32 v3, v4, 8, v3
    global_store_dword v1, v3, s[4:5]"""
    assert (go(llvm, body, np.zeros(1, np.uint32)) == 0x103).all()


def test_an_indexed_register_is_written(llvm: Llvm) -> None:
    """In the lanes of EXEC; two waves, each with an index of its own, and one beyond the end."""
    body = """
    v_readfirstlane_b32 s12, v0
    s_lshr_b32 s12, s12, 6
    s_add_u32 s12, s12, {add}
    v_mov_b32 v8, 0
    v_mov_b32 v9, 0
    v_mov_b32 v10, 0
    s_mov_b64 exec, 0xff
    s_set_gpr_idx_on s12, gpr_idx(DST)
    v_add_u32 v8, 3, v0
    s_set_gpr_idx_off
    s_mov_b64 exec, -1
    v_lshl_or_b32 v8, v9, 8, v8
    v_lshl_or_b32 v8, v10, 16, v8
    global_store_dword v1, v8, s[4:5]
    s_endpgm"""
    written = body.replace("v_add_u32 v8, 3, v0", "v_writelane_b32 v8, 5, s12")
    out = np.zeros(128, np.uint32)
    arguments = [out, np.zeros(1, np.uint32)]
    run(llvm, assemble(llvm, HEAD + written.format(add=1)), "k", arguments, workgroup=128)
    assert out.nonzero()[0].tolist() == [1, 66]  # as aiter's topksoftmax counts on
    assert out[[1, 66]].tolist() == [5 << 8, 5 << 16]
    run(llvm, assemble(llvm, HEAD + body.format(add=1)), "k", arguments, workgroup=128)
    wanted = [(n + 3) << (8 if n < 64 else 16) if n % 64 < 8 else 0 for n in range(128)]
    assert out.tolist() == wanted
    co = assemble(llvm, HEAD + body.format(add=56), vgprs=64)
    with pytest.raises(EmulationError, match=r"wave 0 .*beyond the 64 allocated"):
        run(llvm, co, "k", arguments, workgroup=128)


def test_lds_compare_and_swap_takes_the_comparison_first(llvm: Llvm) -> None:
    body = """
    v_mov_b32 v2, 0
    v_mov_b32 v3, 5
    v_add_u32 v4, 10, v0
    ds_write_b32 v2, v3
    s_waitcnt lgkmcnt(0)
    ds_cmpst_rtn_b32 v5, v2, v3, v4
    s_waitcnt lgkmcnt(0)
    ds_read_b32 v6, v2
    s_waitcnt lgkmcnt(0)
    v_lshl_or_b32 v5, v6, 8, v5
    global_store_dword v1, v5, s[4:5]"""
    out = go(llvm, body, np.zeros(1, np.uint32), lds=64)
    assert out.tolist() == [10 << 8 | 5] + [10 << 8 | 10] * 63


@pytest.mark.parametrize(
    ("second", "wanted"),
    [
        ("ds_write_b8 v1, v3 offset:1", 0x1111_7711),
        ("ds_write_b16 v1, v3 offset:2", 0x7777_1111),
        ("ds_write_b16 v1, v3 offset:1", 0x1177_7711),
        ("ds_write2_b32 v1, v3, v3 offset1:64", 0x7777_7777),
        ("ds_write_b32 v1, v3", 0x7777_7777),
    ],
)
def test_writes_to_lds_end_in_their_order(second: str, wanted: int, llvm: Llvm) -> None:
    """No wait stands between the two: the LDS does a wave's instructions one after the other."""
    body = f"""
        v_mov_b32 v2, 0x11111111
        v_mov_b32 v3, 0x77777777
        ds_write_b32 v1, v2
        {second}
        ds_read_b32 v4, v1
        s_waitcnt lgkmcnt(0)
        global_store_dword v1, v4, s[4:5]
    """
    assert (go(llvm, body, np.zeros(1, np.uint32), lds=1024) == wanted).all()


@pytest.mark.parametrize("at", [1, 2, 3])
@pytest.mark.parametrize("dwords", [1, 2, 3, 4])
def test_loads_and_stores_at_any_byte(dwords: int, at: int, llvm: Llvm) -> None:
    """Global memory, scratch and LDS: the bytes that NumPy finds there."""
    wide = "" if dwords == 1 else f"x{dwords}"
    last = 9 + dwords
    source = np.random.default_rng(at).integers(0, 1 << 32, 64 * 5 + 4, dtype=np.uint32)
    body = f"""
        v_mul_u32_u24 v2, 20, v0
        v_mul_u32_u24 v3, 20, v0
        global_load_dword{wide} v[10:{last}], v2, s[6:7] offset:{at}
        s_waitcnt vmcnt(0)
        ds_write_b{32 * dwords} v3, v[10:{last}] offset:{at}
        ds_read_b{32 * dwords} v[20:{last + 10}], v3 offset:{at}
        s_waitcnt lgkmcnt(0)
        global_store_dword{wide} v2, v[20:{last + 10}], s[4:5] offset:{4 - at}
    """
    out = go(llvm, body, source, size=64 * 5 + 4, lds=64 * 20 + 32).view(np.uint8)
    taken = source.view(np.uint8)[: 64 * 20].reshape(64, 20)[:, at : at + 4 * dwords]
    put = out[4 - at :][: 64 * 20].reshape(64, 20)[:, : 4 * dwords]
    assert (put == taken).all()
