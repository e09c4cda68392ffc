"""The table of rows: which target has which, and what a mistake in one looks like."""

from __future__ import annotations

import numpy as np
import pytest

from coasm.emulator import EmulationError
from coasm.emulator.errors import Fault, Mistake
from coasm.emulator.rows.context import Context
from coasm.emulator.rows.table import ENDINGS, ROWS, WAITS, Row
from coasm.emulator.rows.values import Step
from coasm.isa import Parsed
from coasm.isa.table import opcode
from coasm.llvm import Llvm
from coasm.target import processor
from tests.emulator.bench import Bench
from tests.emulator.forms import TARGETS, base_forms
from tests.emulator.harness import assemble, run


@pytest.mark.parametrize("target", TARGETS)
def test_the_rows_are_what_llvm_knows_for_the_target(target: str, llvm: Llvm) -> None:
    assert set(base_forms(llvm, target)) == {
        name for name in ROWS if opcode(name, processor(target).family.instructions)
    }
    assert all(opcode(name, processor(target).family.instructions) for name in (*ENDINGS, *WAITS))


def test_what_a_target_lacks_is_refused_by_name(llvm: Llvm) -> None:
    forms = base_forms(llvm, "gfx950")
    lacking = sorted(forms.keys() - base_forms(llvm, "gfx942").keys())
    assert len(lacking) > 15
    bench = Bench(llvm, "gfx950", [forms[name] for name in lacking])
    bench.shared.processor = processor("gfx942")
    for name in lacking:
        with pytest.raises(Fault, match=f"gfx942 has no {name}"):
            bench.run(forms[name], bench.wave())


def _wrong(ctx: Context, parsed: Parsed) -> Step:
    return {}["a key"]  # type: ignore[no-any-return]


def _wrong_later(ctx: Context, parsed: Parsed) -> Step:
    ctx.rows(parsed.operands[0])
    for operand in parsed.operands[1:]:
        ctx.k(operand)

    def step(s: object) -> None:
        raise TypeError("no number")

    return step


@pytest.mark.parametrize(
    ("build", "words"), [(_wrong, "KeyError: 'a key'"), (_wrong_later, "TypeError: no number")]
)
def test_a_mistake_of_a_row_surfaces(
    build: object, words: str, llvm: Llvm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is no fault of the kernel, names the instruction, and counts only where it is executed."""
    monkeypatch.setitem(ROWS, "v_or3_b32", Row(build))  # type: ignore[arg-type]
    co = assemble(llvm, "v_or3_b32 v3, v0, v1, v2\ns_endpgm")
    with pytest.raises(Mistake) as caught:
        run(llvm, co, "k", [])
    assert words in str(caught.value)
    assert "`v_or3_b32 v3, v0, v1, v2`" in str(caught.value)
    run(llvm, assemble(llvm, "s_endpgm\nv_or3_b32 v3, v0, v1, v2"), "k", [np.zeros(1, np.uint32)])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("v_mad_u64_u32 v[10:11], vcc, v2, v4, v[6:7] clamp", "clamp of v_mad_u64_u32"),
        ("v_alignbit_b32 v10, v2, v4, v6 op_sel:[0,1,0,0]", "op_sel of v_alignbit_b32"),
        ("v_pk_add_u16 v10, v2, v4 neg_lo:[1,0]", "neg_lo:[1,0] of v_pk_add_u16"),
        ("v_mfma_f32_16x16x16_f16 a[0:3], v[2:3], v[4:5], 0 cbsz:1", "cbsz"),
    ],
)
def test_a_modifier_that_is_refused_is_named(text: str, words: str, llvm: Llvm) -> None:
    with pytest.raises(EmulationError) as caught:
        run(llvm, assemble(llvm, text + "\ns_endpgm"), "k", [])
    assert words in str(caught.value)


def test_a_sign_on_a_constant_is_put_on_its_bits(llvm: Llvm) -> None:
    """``neg(1)`` is the smallest denormal below zero, not -1; |-1| is the largest NaN."""
    body = """
    s_load_dwordx2 s[4:5], s[0:1], 0x0
    v_lshlrev_b32 v1, 2, v0
    s_waitcnt lgkmcnt(0)
    v_max_f32_e64 v2, neg(1), neg(1)
    v_cndmask_b32_e64 v3, |-1|, |-1|, vcc
    v_mul_f32_e64 v4, neg(1.0), |2.0|
    global_store_dword v1, v2, s[4:5]
    global_store_dword v1, v3, s[4:5] offset:256
    global_store_dword v1, v4, s[4:5] offset:512
    s_endpgm"""
    out = np.zeros(192, np.uint32)
    extra = ".amdhsa_float_denorm_mode_32 3"
    run(llvm, assemble(llvm, body, directives=extra), "k", [out])
    assert out[::64].tolist() == [0x80000001, 0x7FFFFFFF, 0xC0000000]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("v_swap_b32 v4, v5", "index mode on v_swap_b32"),
        ("v_pk_add_f32 v[4:5], v[6:7], v[8:9]", "index mode on v_pk_add_f32"),
    ],
)
def test_index_mode_passes_by_no_operand(text: str, words: str, llvm: Llvm) -> None:
    body = f"s_set_gpr_idx_on s4, gpr_idx(SRC0,SRC1,SRC2,DST)\n{text}\ns_endpgm"
    with pytest.raises(EmulationError, match=words):
        run(llvm, assemble(llvm, body), "k", [])


def test_an_operand_that_no_builder_reads_is_an_error(
    llvm: Llvm, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forgets(ctx: Context, parsed: Parsed) -> Step:
        ctx.rows(parsed.operands[0])
        ctx.k(parsed.operands[1])
        return lambda s: None

    monkeypatch.setitem(ROWS, "v_add_u32", Row(forgets))
    for left in ("v2", "7", "s9"):
        with pytest.raises(EmulationError, match="an operand of v_add_u32 is not emulated"):
            run(llvm, assemble(llvm, f"v_add_u32_e64 v0, v1, {left}\ns_endpgm"), "k", [])
