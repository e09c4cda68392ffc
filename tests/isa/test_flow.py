"""The list of what jumps, calls and ends: LLVM assembles each, to where the label is."""

from __future__ import annotations

import pytest

from coasm.asm.code import Instruction, branch_target
from coasm.isa.flow import FLOW
from coasm.llvm import Llvm
from tests.asm.tools import assembled

#: A target that has it → operands ("there" is a label behind the next instruction) → mnemonics.
_GFX9 = {
    "there": "s_branch s_cbranch_scc0 s_cbranch_scc1 s_cbranch_vccz s_cbranch_vccnz s_cbranch_execz"
    " s_cbranch_execnz s_cbranch_cdbgsys s_cbranch_cdbguser s_cbranch_cdbgsys_or_user"
    " s_cbranch_cdbgsys_and_user",
    "s[2:3], there": "s_cbranch_i_fork s_call_b64",
    "s[2:3], s[4:5]": "s_cbranch_g_fork s_swappc_b64",
    "s2": "s_cbranch_join",
    "s[2:3]": "s_setpc_b64 s_rfe_b64 s_rfe_restore_b64",
    "": "s_endpgm s_endpgm_saved s_endpgm_ordered_ps_done",
    "0": "s_trap s_sethalt",
}
_CASES = {
    "gfx900": _GFX9,
    "gfx1030": {"s2, there": "s_subvector_loop_begin s_subvector_loop_end"},
    "gfx1250": {
        "s[2:3]": "s_set_pc_i64 s_add_pc_i64 s_rfe_i64",
        "s[2:3], s[4:5]": "s_swap_pc_i64",
        "s[2:3], there": "s_call_i64",
    },
}
_ROWS = [
    (target, name, operands)
    for target, by_operands in _CASES.items()
    for operands, names in by_operands.items()
    for name in names.split()
    if name != "s_rfe_restore_b64"
]


@pytest.mark.parametrize("target", _CASES)
def test_llvm_has_each_row_and_goes_where_the_label_is(llvm: Llvm, target: str) -> None:
    rows = [(name, operands) for own, name, operands in _ROWS if own == target]
    text = "".join(
        f"{name} {operands.replace('there', f'there{n}')}\ns_nop 1\nthere{n}:\ns_nop 2\n"
        for n, (name, operands) in enumerate(rows)
    )
    data = assembled(llvm, text, target)
    assert len(data) == 12 * len(rows)
    for at, (name, operands) in enumerate(rows):
        word = data[12 * at : 12 * at + 4]
        goes_to = branch_target(Instruction(12 * at, word, f"{name} {operands}"))
        assert goes_to == (12 * at + 8 if "there" in operands else None), name
        assert FLOW[name].direct == ("there" in operands)


def test_no_row_is_left_out() -> None:
    assert {name for _, name, _ in _ROWS} | {"s_rfe_restore_b64"} == set(FLOW)
