"""The parts of an instruction's text."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coasm.errors import UnsupportedError
from coasm.isa import AGPR, EXEC, M0, VCC, VGPR, Literal, Register, Word, parse
from coasm.isa.registers import END, register_name, registers_named


def test_registers_have_the_numbers_of_source_operands() -> None:
    parsed = parse("v_foo v[2:5], a7, s[10:11], vcc, m0, exec_hi, ttmp3")
    assert parsed.operands == (
        Register(VGPR + 2, 4),
        Register(AGPR + 7, 1),
        Register(10, 2),
        Register(VCC, 2),
        Register(M0, 1),
        Register(EXEC + 1, 1),
        Register(111, 1),
    )


@pytest.mark.parametrize(
    ("text", "mnemonic", "encoding"),
    [
        ("v_add_f32_e32 v1, v2, v3", "v_add_f32", "e32"),
        ("v_add_f32_e64 v1, v2, v3", "v_add_f32", "e64"),
        ("v_mov_b32_dpp v1, v2 row_shl:1 row_mask:0xf bank_mask:0xf", "v_mov_b32", "dpp"),
        ("v_add_u32_sdwa v1, v2, v3 dst_sel:DWORD", "v_add_u32", "sdwa"),
        ("s_endpgm", "s_endpgm", ""),
    ],
)
def test_the_encoding_is_apart_from_the_mnemonic(text: str, mnemonic: str, encoding: str) -> None:
    parsed = parse(text)
    assert (parsed.mnemonic, parsed.encoding) == (mnemonic, encoding)


def test_source_modifiers() -> None:
    _, a, b, c, d = parse("v_x v0, -v1, |v2|, -|v3|, neg(4)").operands
    assert a == Register(VGPR + 1, 1, negate=True)
    assert b == Register(VGPR + 2, 1, absolute=True)
    assert c == Register(VGPR + 3, 1, negate=True, absolute=True)
    assert d == Literal(4, negate=True)


def test_constants() -> None:
    operands = parse("s_x s0, 0x10, -5, 0.5, -4.0, lit(0xffffffff)").operands[1:]
    assert operands == (
        Literal(16),
        Literal(-5),
        Literal(0.5),
        Literal(-4.0),
        Literal(0xFFFFFFFF, encoded=True),
    )


def test_modifiers_of_a_matrix_instruction() -> None:
    parsed = parse(
        "v_mfma_scale_f32_16x16x128_f8f6f4 a[0:3], v[72:75], v[8:11], a[0:3], v140, v136 "
        "op_sel:[0,1,0] op_sel_hi:[1,1,0] cbsz:4 blgp:4"
    )
    assert len(parsed.operands) == 6
    assert parsed.bits("op_sel", 3) == (0, 1, 0)
    assert parsed.bits("op_sel_hi", 3) == (1, 1, 0)
    assert parsed.number("cbsz") == 4
    assert parsed.number("abid") == 0


def test_flags_and_offsets_of_memory_instructions() -> None:
    parsed = parse("buffer_load_dwordx4 v144, s[12:15], 0 offen offset:1024 lds")
    assert parsed.modifiers == {"offen": "1", "offset": "1024", "lds": "1"}
    assert parsed.operands == (Register(VGPR + 144, 1), Register(12, 4), Literal(0))
    parsed = parse("global_load_dword v1, v[2:3], off offset:-8 sc0")
    assert parsed.operands[2] == Word("off")
    assert parsed.number("offset") == -8
    # As LLVM prints them for gfx10 and gfx1250.
    parsed = parse("global_atomic_add v0, v1, v2, s[2:3] offset:4 glc dlc")
    assert parsed.modifiers == {"offset": "4", "glc": "1", "dlc": "1"}
    parsed = parse(
        "v_wmma_scale_f32_16x16x128_f8f6f4 v[0:7], v[8:23], v[24:39], v[0:7], v40, v41 "
        "matrix_a_fmt:MATRIX_FMT_FP4 matrix_a_reuse matrix_b_reuse"
    )
    assert set(parsed.modifiers) == {"matrix_a_fmt", "matrix_a_reuse", "matrix_b_reuse"}
    parsed = parse("image_load v[0:3], v0, s[0:7] dmask:0xf dim:SQ_RSRC_IMG_1D unorm a16")
    assert parsed.number("a16") == 1 and parse("v_accvgpr_read_b32 v8, a16").modifiers == {}
    assert parse("s_set_gpr_idx_on s92, gpr_idx(SRC0)").modifiers == {"gpr_idx": "SRC0"}
    assert parse("s_waitcnt vmcnt(13) lgkmcnt(5)").operands == (Word("vmcnt(13) lgkmcnt(5)"),)


@pytest.mark.parametrize("text", ["v_x v1024, v0", "s_x s[104:107]", "v_x v[3:2]"])
def test_registers_that_do_not_exist(text: str) -> None:
    with pytest.raises(UnsupportedError):
        parse(text)


@given(st.text("abcsvx_0123456789[]:,.()|- ", max_size=40))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    with contextlib.suppress(UnsupportedError):
        assert isinstance(parse(text).operands, tuple)


def test_every_register_has_a_name_of_its_own() -> None:
    """A number's name stands for that number, and no two files share one."""
    vectors = [f"v{n}" for n in range(1024)] + [f"a{n}" for n in range(256)]
    assert [register_name(n) for n in range(VGPR, END)] == vectors
    scalars = [n for n in range(128) if n not in (EXEC - 1,)]
    for number in [*scalars, 253, *range(VGPR, END)]:
        assert registers_named(register_name(number)) == (number, 1)
