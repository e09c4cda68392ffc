"""What a wave knows of itself: MODE and its bits, VSKIP, hardware registers, M0 as an index."""

from __future__ import annotations

import numpy as np
import pytest

from coasm.llvm import Llvm
from tests.emulator.harness import assemble, run

HEAD = """
    s_mov_b32 s20, s2
    s_load_dwordx2 s[4:5], s[0:1], 0x0
    v_lshlrev_b32 v1, 2, v0
    s_lshl_b32 s3, s2, 8
    s_waitcnt lgkmcnt(0)
    s_add_u32 s4, s4, s3
    s_addc_u32 s5, s5, 0
    v_mov_b32 v2, 7
"""
STORE = """
    global_store_dword v1, v2, s[4:5]
    s_endpgm
"""


def result(llvm: Llvm, body: str, groups: int = 1, lds: int = 0) -> list[list[int]]:
    """What each lane of each workgroup has in v2 behind *body*; s20 is the workgroup's number."""
    out = np.zeros((groups, 64), np.uint32)
    run(llvm, assemble(llvm, HEAD + body + STORE, lds=lds), "k", [out], grid=(groups, 1, 1))
    return out.tolist()  # type: ignore[no-any-return]


def test_vector_instructions_are_skipped(llvm: Llvm) -> None:
    """CDNA3 ISA guide, "Manually Inserted Wait States" and S_SETVSKIP: until the bit is off."""
    text = """
        s_mov_b32 s8, 0x20
        s_setvskip s8, 5
        v_mov_b32 v2, 1
        v_readfirstlane_b32 s9, v2
        global_store_dword v1, v2, s[4:5]
        ds_nop
        s_mov_b32 s10, 3
        s_setvskip 0, 0
        v_add_u32 v2, s10, v2
    """
    assert result(llvm, text) == [[10] * 64]


def test_each_wave_has_its_own_vskip(llvm: Llvm) -> None:
    text = """
        s_setvskip s20, 0
        v_mov_b32 v2, 1
        s_setvskip 0, 0
        v_lshl_or_b32 v2, s20, 4, v2
    """
    assert [row[0] for row in result(llvm, text, 5)] == [0x01, 0x17, 0x21, 0x37, 0x41]


def test_each_wave_has_its_own_mode(llvm: Llvm) -> None:
    """Denormals of f32 from a register: only the last mode takes them and gives them."""
    text = """
        s_setreg_b32 hwreg(HW_REG_MODE, 4, 2), s20
        v_mov_b32 v3, 5
        v_add_f32 v2, v3, v3
    """
    assert [row[5] for row in result(llvm, text, 4)] == [0, 0, 0, 10]
    text = "s_setreg_b32 hwreg(HW_REG_MODE, 0, 4), s20\ns_getreg_b32 s8, hwreg(HW_REG_MODE, 0, 4)\n"
    rows = result(llvm, text + "s_nop 1\nv_mov_b32 v2, s8", 16)
    assert [row[0] for row in rows] == list(range(16))


@pytest.mark.parametrize(
    ("before", "register", "value"),
    [
        ("s_cmp_eq_u32 0, 0", "HW_REG_STATUS, 0, 1", 1),
        ("s_cmp_lg_u32 0, 0", "HW_REG_STATUS, 0, 1", 0),
        ("s_cmp_lg_u32 0, 0\ns_mov_b64 exec, 0", "HW_REG_STATUS, 9, 1", 1),
        ("s_mov_b64 exec, 2", "HW_REG_STATUS, 9, 1", 0),
        ("s_mov_b64 vcc, 0", "HW_REG_STATUS, 10, 1", 1),
        ("s_mov_b64 vcc, 4", "HW_REG_STATUS, 10, 1", 0),
        ("", "HW_REG_LDS_ALLOC, 12, 9", 3),
        ("", "HW_REG_XCC_ID", 0),
        ("", "HW_REG_TRAPSTS, 0, 8", 0),
    ],
)
def test_hardware_registers(before: str, register: str, value: int, llvm: Llvm) -> None:
    """CDNA3 ISA guide, "STATUS register fields"; LDS_ALLOC counts 128 dwords."""
    text = f"{before}\ns_getreg_b32 s8, hwreg({register})\ns_mov_b64 exec, -1\nv_mov_b32 v2, s8"
    assert result(llvm, text, lds=1300)[0][0] == value


@pytest.mark.parametrize("register", ["HW_REG_IB_STS", "HW_REG_GPR_ALLOC"])
def test_a_hardware_register_that_is_not_emulated(register: str, llvm: Llvm) -> None:
    with pytest.raises(Exception, match="not emulated"):
        result(llvm, f"s_getreg_b32 s8, hwreg({register})")


def test_m0_as_an_index(llvm: Llvm) -> None:
    """Each workgroup takes and writes another register, as AMD's text has it."""
    fill = "".join(f"s_mov_b32 s{30 + at}, {100 + at}\n" for at in range(8))
    text = fill + "s_mov_b32 m0, s20\ns_nop 1\ns_movrels_b32 s8, s30\nv_mov_b32 v2, s8"
    assert [row[0] for row in result(llvm, text, 8)] == list(range(100, 108))
    text = fill + "s_mov_b32 m0, s20\ns_nop 1\ns_movreld_b32 s30, 5\nv_mov_b32 v2, s33"
    assert [row[0] for row in result(llvm, text, 8)] == [103, 103, 103, 5, 103, 103, 103, 103]
    text = fill + (
        "s_lshl_b32 s21, s20, 1\ns_mov_b32 m0, s21\ns_nop 1\ns_movrels_b64 s[8:9], s[30:31]\n"
        "s_movreld_b64 s[10:11], s[8:9]\nv_mov_b32 v2, s9"
    )
    assert [row[0] for row in result(llvm, text, 4)] == [101, 103, 105, 107]
    text = fill + (
        "s_lshl_b32 s21, s20, 1\ns_mov_b32 m0, s21\ns_nop 1\n"
        "s_movreld_b64 s[30:31], -5\nv_mov_b32 v2, s33"
    )
    assert [row[0] for row in result(llvm, text, 3)] == [103, 0xFFFFFFFF, 103]


def test_what_does_nothing(llvm: Llvm) -> None:
    text = "s_sethalt 0\ns_setkill 0\ns_wakeup\nv_clrexcp\nds_nop\ns_sendmsg sendmsg(MSG_INTERRUPT)"
    assert result(llvm, text) == [[7] * 64]
