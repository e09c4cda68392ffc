"""``coasm lint --fix``: what is put in is what LLVM puts in, no more, and nothing else changes."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import coasm
from coasm.asm.source import SourceOptions
from coasm.errors import CoasmError, UnsupportedError
from coasm.linter.fix import Change, Fixed, fix
from coasm.linter.rules import RULES
from coasm.llvm.find import Llvm
from tests.linter.sources import CLEAN, TOO_CLOSE, listing
from tests.linter.state_cases import TARGETS
from tests.linter.test_states import adjacent, expected, judge

__all__ = ["judge"]

pytestmark = pytest.mark.usefixtures("llvm")

_LOAD = "\tglobal_load_dword {}, v[4:5], off\n"
_END = "\ts_endpgm"
_GROUPS = ("wait states", "waits")
_NOP = re.compile(r"\s*s_nop (\d+)")


def put(fixed: Fixed) -> list[str]:
    """The lines of the changes, without their numbers."""
    return [change.text for change in fixed.changes]


def fixed_body(body: str, *, advice: bool = False, target: str = "gfx942") -> list[str]:
    """The lines of the kernel, fixed; everything around it is as it was."""
    text = listing(body, target)
    made = fix(text, advice=advice).text
    before, after = text.split(body)
    assert made.startswith(before) and made.endswith(after)
    return made[len(before) : len(made) - len(after)].split("\n")


def waiting(text: str) -> list[str]:
    """The wait-state and wait findings of a listing, of any level, by rule and line."""
    return [
        f"{one.rule} {one.place.line} {one.producer and one.producer.text}"
        for one in coasm.lint(text, advice=True)
        if RULES[one.rule].group in _GROUPS and one.rule != "wait-strict"
    ]


def test_what_is_clean_stays_as_it_is() -> None:
    text = listing(CLEAN)
    assert fix(text) == Fixed(text, (), ())


def test_a_missing_state() -> None:
    text = listing(TOO_CLOSE)
    line = text.split("\n").index("\tv_mul_f32 v2, v1, v1") + 1
    fixed = fix(text)
    assert fixed.text == listing(CLEAN)
    assert fixed.changes == (Change(line, "s_nop 0"),)


def test_labels_stay_before_comments_with_and_indentation_as_it_is() -> None:
    body = (
        "  v_rcp_f32 v1, v0 // first\n"
        "here: there: /* why */ v_mul_f32 v2, v1, v1 ; second\n"
        "\t\tv_rcp_f32 v1, v0\n"
        '\t\tv_mul_f32 v2, v1, v1 // "no /* comment\n'
        "/* v_rcp_f32 v1, v0\n"
        "*/ v_rcp_f32 v1, v0\n"
        "/* over\n"
        "   lines */ v_mul_f32 v2, v1, v1\n"
        f"{_END}"
    )
    assert fixed_body(body) == [
        "  v_rcp_f32 v1, v0 // first",
        "here: there: /* why */",
        "\ts_nop 0",
        "\tv_mul_f32 v2, v1, v1 ; second",
        "\t\tv_rcp_f32 v1, v0",
        "\t\ts_nop 0",
        '\t\tv_mul_f32 v2, v1, v1 // "no /* comment',
        "/* v_rcp_f32 v1, v0",
        "*/ v_rcp_f32 v1, v0",
        "/* over",
        "   lines */",
        "\ts_nop 0",
        "\tv_mul_f32 v2, v1, v1",
        _END,
    ]


def test_line_ends_are_kept() -> None:
    text = listing(TOO_CLOSE).replace("\n", "\r\n")
    assert fix(text).text == listing(CLEAN).replace("\n", "\r\n")


def test_an_s_nop_right_before_is_raised() -> None:
    """16x16x16 f16 has 4 passes: 7 states on gfx942 until D is read (CDNA3 ISA guide, table 37)."""
    mfma = "\tv_mfma_f32_16x16x16_f16 v[8:11], v[2:3], v[4:5], v[8:11]\n"
    body = f"{mfma}\ts_nop 1 // two\n\tv_mov_b32 v1, v8\n{_END}"
    assert fixed_body(body, advice=True)[1:3] == ["\ts_nop 6 // two", "\tv_mov_b32 v1, v8"]
    # Who jumps to the consumer does not come through it.
    body = f"{mfma}\ts_nop 1\nhere:\n\tv_mov_b32 v1, v8\n\ts_cbranch_scc0 here\n{_END}"
    assert fixed_body(body, advice=True)[1:5] == [
        "\ts_nop 1",
        "here:",
        "\ts_nop 4",
        "\tv_mov_b32 v1, v8",
    ]


def test_more_than_sixteen_states_are_several() -> None:
    """32x32x4_2b f16 has 16 passes: 19 states on gfx942 and 20 on gfx950."""
    mfma = "\tv_mfma_f32_32x32x4_2b_f16 v[32:63], v[2:3], v[4:5], v[32:63]\n"
    body = f"{mfma}\tv_mov_b32 v1, v63\n{_END}"
    assert fixed_body(body)[1:3] == ["\ts_nop 15", "\ts_nop 2"]
    assert fixed_body(body, target="gfx950")[1:3] == ["\ts_nop 15", "\ts_nop 3"]
    raised = f"{mfma}\ts_nop 0\n\tv_mov_b32 v1, v63\n{_END}"
    assert fixed_body(raised)[1:3] == ["\ts_nop 15", "\ts_nop 2"]


def test_an_s_nop_of_more_than_it_can_is_split() -> None:
    assert fixed_body(f"\ts_nop 17\n{_END}") == ["\ts_nop 15", "\ts_nop 1", _END]
    assert fixed_body(f"here:\ts_nop 0x20 // 33\n{_END}") == [
        "here:",
        "\ts_nop 15",
        "\ts_nop 15",
        "\ts_nop 0 // 33",
        _END,
    ]


def test_a_wait_as_weak_as_can_be() -> None:
    loads = "".join(_LOAD.format(f"v{number}") for number in (1, 2, 3))
    body = f"{loads}\tv_mov_b32 v0, v1\n\tv_mov_b32 v0, v3\n{_END}"
    assert fixed_body(body)[3:] == [
        "\ts_waitcnt vmcnt(2)",
        "\tv_mov_b32 v0, v1",
        "\ts_waitcnt vmcnt(0)",
        "\tv_mov_b32 v0, v3",
        _END,
    ]


def test_a_wait_right_before_is_made_stricter() -> None:
    """Its other counters stay: expcnt(0) too, and what follows a label is not it."""
    loads = "".join(_LOAD.format(f"v{number}") for number in (1, 2, 3))
    body = f"{loads}\ts_waitcnt vmcnt(5) & expcnt(0) // w\n\tv_mov_b32 v0, v2\n{_END}"
    assert fixed_body(body)[3] == "\ts_waitcnt vmcnt(1) expcnt(0) // w"
    body = f"\tds_read_b32 v9, v0\n{loads}\ts_waitcnt lgkmcnt(0)\n\tv_mov_b32 v0, v3\n{_END}"
    assert fixed_body(body)[4] == "\ts_waitcnt vmcnt(0) lgkmcnt(0)"
    body = f"{loads}\ts_waitcnt vmcnt(5)\nhere:\tv_mov_b32 v0, v1\n\ts_cbranch_scc0 here\n{_END}"
    assert fixed_body(body, advice=True)[3:6] == [
        "\ts_waitcnt vmcnt(5)",
        "here:",
        "\ts_waitcnt vmcnt(2)",
    ]


def test_a_wait_is_a_state() -> None:
    """v_readlane needs one state behind the VALU that wrote v1; the wait for s3 is one."""
    body = (
        f"\ts_load_dword s3, s[0:1], 0x0\n\tv_mov_b32 v1, v0\n\tv_readlane_b32 s4, v1, s3\n{_END}"
    )
    assert fixed_body(body)[2:] == ["\ts_waitcnt lgkmcnt(0)", "\tv_readlane_b32 s4, v1, s3", _END]


def test_scalar_and_flat_loads_need_zero() -> None:
    body = (
        "\ts_load_dword s2, s[0:1], 0x0\n\ts_load_dword s3, s[0:1], 0x4\n"
        f"\ts_mov_b32 s4, s2\n\tflat_load_dword v1, v[2:3]\n\tv_mov_b32 v0, v1\n{_END}"
    )
    lines = fixed_body(body)
    assert lines[2] == "\ts_waitcnt lgkmcnt(0)"
    assert lines[5] == "\ts_waitcnt vmcnt(0) lgkmcnt(0)"


def test_around_a_loop_no_more_than_is_needed() -> None:
    """One insertion at the loop's head is enough for what the loop's end leaves."""
    body = (
        "head:\n\tv_mul_f32 v2, v1, v1\n\tv_mov_b32 v3, v3\n\tv_rcp_f32 v1, v0\n"
        f"\ts_branch head\n{_END}"
    )
    assert fixed_body(body) == body.split("\n")  # the branch is the state
    mfma = "\tv_mfma_f32_16x16x16_f16 v[8:11], v[2:3], v[4:5], v[8:11]\n"
    body = f"head:\n\tds_write_b32 v0, v8\n{mfma}\ts_cbranch_scc0 head\n{_END}"
    assert fixed_body(body)[:3] == ["head:", "\ts_nop 5", "\tds_write_b32 v0, v8"]


def test_allowed_rules_are_left() -> None:
    text = listing(TOO_CLOSE.replace("v1, v1", "v1, v1 // coasm: allow trans"))
    assert fix(text).text == text


def test_advice_only_where_it_is_asked_for() -> None:
    """DOT into MFMA: LLVM asks for no states, the ISA guides for three."""
    mfma = "\tv_mfma_f32_4x4x1_16b_f32 v[8:11], v1, v2, v[8:11]"
    body = f"\tv_dot4_i32_i8 v1, v2, v3, v4\n{mfma}\n{_END}"
    assert fixed_body(body) == body.split("\n")
    assert fixed_body(body, advice=True)[1] == "\ts_nop 2"


def test_what_no_wait_repairs_is_said() -> None:
    body = f"\tds_write_b32 v0, v1\n\ts_barrier\n\tds_read_b32 v2, v0\n{_END}"
    text = listing(body)
    fixed = fix(text, advice=True)
    assert fixed.text == text
    assert [finding.rule for finding in fixed.left] == ["lds-barrier"]
    assert fix(text).left == ()


@pytest.mark.parametrize(
    "body",
    [
        f"\t.macro pair\n\tv_rcp_f32 v1, v0\n\tv_mul_f32 v2, v1, v1\n\t.endm\n\tpair\n{_END}",
        f"\t.macro last\n\tv_mul_f32 v2, v1, v1\n\t.endm\n\tv_rcp_f32 v1, v0\n\tlast\n{_END}",
        f"\t.rept 2\n\tv_rcp_f32 v1, v0\n\tv_mul_f32 v2, v1, v1\n\t.endr\n{_END}",
    ],
)
def test_a_macro_is_not_changed(body: str) -> None:
    text = listing(body)
    line = next(
        n for n, one in enumerate(text.split("\n"), 1) if re.match(r"\t(pair|last|.rept)", one)
    )
    line += 2 * (".rept" in body)  # what is repeated has a line of its own
    with pytest.raises(CoasmError, match=rf"^k\.s:{line}: v_mul_f32_e32 .*macro or a repetition"):
        fix(text, name="k.s")


def test_an_included_file_is_not_changed(tmp_path: Path) -> None:
    (tmp_path / "code.inc").write_text("\tv_rcp_f32 v1, v0\n\tv_mul_f32 v2, v1, v1\n")
    text = listing(f'\t.include "code.inc"\n{_END}')
    options = SourceOptions(include=(str(tmp_path),))
    with pytest.raises(CoasmError, match=r"code\.inc:2: v_mul_f32_e32 .*an included file has it"):
        fix(text, name="k.s", options=options)


def test_a_listing_with_line_directives_of_its_own() -> None:
    text = listing(TOO_CLOSE, head='\t.file 1 "kernel.hip"\n')
    fixed = fix(text, name="k.s").text
    assert fixed == text.replace("\tv_mul_f32", "\ts_nop 0\n\tv_mul_f32")


def test_other_targets_are_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"k\.s: no rules .* gfx803"):
        fix(listing(_END, "gfx803"), name="k.s")


def test_an_instruction_that_is_data() -> None:
    """0x7e040303: v_mov_b32 v2, v3, behind a v_rcp_f32 of v3 (CDNA3 ISA guide, VOP1)."""
    body = f"\tv_rcp_f32 v3, v0\n\t.long 0x7e040303\n{_END}"
    assert fixed_body(body) == ["\tv_rcp_f32 v3, v0", "\ts_nop 0", "\t.long 0x7e040303", _END]


@pytest.mark.parametrize("target", TARGETS)
def test_as_many_states_as_llvm_inserts(judge: Llvm, target: str) -> None:
    """Every pair of the table, with nothing between: what post-RA-hazard-rec puts there."""
    memory = re.compile(r"s_load|s_buffer|(global|buffer|tbuffer|flat|scratch)_(load|atomic)|ds_")
    pairs = [
        (case.producer, case.consumer, expected(case, judged.llvm, like))
        for case, judged, like in adjacent(target, judge)
        if not memory.match(case.producer) and not case.consumer.startswith(("s_cbranch", "s_rfe"))
    ]
    assert len(pairs) > 300
    apart = ["s_waitcnt vmcnt(0) lgkmcnt(0)", "s_nop 15", "s_nop 15"]
    lines = [line for one, two, _ in pairs for line in (one, two, *apart)]
    fixed = fixed_body("\n".join([*lines, "s_endpgm"]), advice=True, target=f"{target}:xnack-")
    wrong = []
    at = 0
    for one, two, states in pairs:
        assert fixed[at] == one
        at += 1
        has = 0
        while fixed[at] != two:
            match = _NOP.fullmatch(fixed[at])
            assert match, (one, two, fixed[at])
            has += int(match[1]) + 1
            at += 1
        assert fixed[at + 1 : at + 4] == apart
        at += 4
        if has != states:
            wrong.append((one, two, has, states))
    assert not wrong


_POOL = (
    "v_rcp_f32 v1, v0",
    "v_mul_f32 v2, v1, v1",
    "v_mov_b32 v1, v2",
    "v_readlane_b32 s4, v1, 0",
    "v_mov_b32_dpp v2, v1 quad_perm:[0,1,2,3] row_mask:0xf bank_mask:0xf",
    "v_cmp_eq_u32 s[4:5], v0, v1",
    "v_cndmask_b32 v1, v0, v2, s[4:5]",
    "v_mfma_f32_16x16x16_f16 v[8:11], v[0:1], v[2:3], v[8:11]",
    "v_mfma_f32_4x4x4_16b_f16 v[8:11], v[8:9], v[2:3], v[8:11]",
    "v_add_f32 v8, v9, v2",
    "global_load_dword v1, v[6:7], off",
    "global_load_dwordx4 v[8:11], v[6:7], off",
    "global_store_dwordx4 v[6:7], v[8:11], off",
    "ds_read_b32 v2, v0",
    "ds_write_b32 v0, v8",
    "s_load_dword s4, s[0:1], 0x0",
    "s_mov_b32 s5, s4",
    "s_waitcnt vmcnt(1)",
    "s_waitcnt lgkmcnt(0)",
    "s_nop 0",
    "s_nop 3",
    "s_cbranch_scc0 a",
    "s_cbranch_scc1 b",
)


@settings(max_examples=8, deadline=None)
@given(
    st.lists(st.sampled_from(_POOL), min_size=4, max_size=16),
    st.tuples(st.integers(0, 24), st.integers(0, 24)),
    st.booleans(),
)
def test_any_program_lints_clean_and_needs_each_part(
    body: list[str], labels: tuple[int, int], advice: bool
) -> None:
    lines = list(body)
    for name, at in zip("ab", sorted(labels, reverse=True), strict=True):
        lines.insert(min(at, len(lines)), f"{name}:")
    text = listing("\n".join([*lines, "s_endpgm"]), "gfx950:xnack-")
    fixed = fix(text, advice=advice)
    kept = {finding.rule for finding in fixed.left}
    found = coasm.lint(fixed.text, advice=advice)
    assert {one.rule for one in found if RULES[one.rule].group in _GROUPS} <= kept | {"wait-strict"}
    made = fixed.text.split("\n")
    assert list(filter(_is_kept, made)) == list(filter(_is_kept, text.split("\n")))
    before = set(waiting(fixed.text))
    if advice:
        for at, was in _changed(text, fixed):
            for weaker in _weaker(made[at], was):
                less = "\n".join([*made[:at], weaker, *made[at + 1 :]])
                assert set(waiting(less)) - before, (made[at], weaker, fixed.text)


def _is_kept(line: str) -> bool:
    return not re.match(r"\s*s_(nop|waitcnt)\b", line)


def _changed(text: str, fixed: Fixed) -> list[tuple[int, str]]:
    """The lines of the fixed listing that are its changes, and what each was before."""
    shift = 0
    found = []
    for change in fixed.changes:
        assert text.split("\n")[change.line - 1].strip()
        found.append((change.line - 1 + shift, change.was or ""))
        shift += change.was is None
    return found


def _weaker(line: str, was: str = "") -> list[str]:
    """The line with one state or one operation less, each counter that it did not have before."""
    match = _NOP.fullmatch(line)
    if match:
        return [f"s_nop {int(match[1]) - 1}" if int(match[1]) else ""]
    return [
        line[: match.start(2)] + str(int(match[2]) + 1) + line[match.end(2) :]
        for match in re.finditer(r"(vmcnt|lgkmcnt)\((\d+)\)", line)
        if match[0] not in was
    ]


@pytest.mark.slow
def test_a_kernel_without_any_wait(corpus: list[Path]) -> None:
    """All s_nop and s_waitcnt taken out: they come back where they are needed."""
    chosen = [path for path in corpus if re.search(r"gfx9[45]", str(path))][5::80]
    rng = random.Random(5)
    for path in chosen:
        text = re.sub(r"^\ts_(nop|waitcnt)\b.*\n", "", coasm.disassemble(path).text, flags=re.M)
        text = re.sub(r'(amdhsa--gfx9\d+)"', r'\1:xnack-"', text)
        fixed = fix(text, advice=True)
        kept = {finding.rule for finding in fixed.left}
        before = set(waiting(fixed.text))
        assert {one.split()[0] for one in before} <= kept <= {"lds-barrier"}
        if re.search(r" lds$|_load_lds_", text, re.M):
            continue  # one of several readers of LDS has to wait; which is not for the fix to say
        made = fixed.text.split("\n")
        put = [at for at, line in enumerate(made) if re.match(r"\ts_(nop|waitcnt)\b", line)]
        for at in rng.sample(put, 4):
            for weaker in _weaker(made[at]):
                less = "\n".join([*made[:at], weaker, *made[at + 1 :]])
                assert set(waiting(less)) - before, made[at]


#: Processor, what is wrong, and what has to stand before its last instruction. As LLVM 22's
#: post-RA-hazard-rec and amdgpu-wait-sgpr-hazards have it.
_GENERATIONS = [
    ("gfx90a", "v_readlane_b32 s0, v0, 0|v_readlane_b32 s1, v0, s0", "s_nop 3"),
    ("gfx1010", "v_cmpx_eq_u32_e32 v0, v1|v_permlane16_b32 v2, v3, s0, s1", "v_mov_b32_e32 v3, v3"),
    (
        "gfx1010",
        "s_mov_b32 s4, exec_lo|v_cmpx_eq_u32_e32 v0, v1",
        "s_waitcnt_depctr depctr_sa_sdst(0)",
    ),
    ("gfx1010", "s_load_dword s4, s[6:7], 0x4|v_readlane_b32 s6, v0, 0", "s_mov_b32 null, 0"),
    ("gfx1030", "global_atomic_fmin v0, v1, s[0:1]|s_denorm_mode 15", "s_nop 2"),
    ("gfx1100", "v_rcp_f32_e32 v0, v1|v_mov_b32_e32 v2, v0", "s_waitcnt_depctr depctr_va_vdst(0)"),
    (
        "gfx1200",
        "v_mov_b32_e32 v0, s4|s_mov_b32 s4, 0|v_mov_b32_e32 v1, s4",
        "s_wait_alu depctr_sa_sdst(0)",
    ),
    (
        "gfx1250",
        "v_wmma_f32_16x16x32_f16 v[0:7], v[8:15], v[16:23], v[0:7]|v_mov_b32_e32 v24, v0",
        "v_nop|v_nop|v_nop|v_nop",
    ),
]


@pytest.mark.parametrize(("target", "lines", "put"), _GENERATIONS)
def test_each_generation_has_its_own_instructions(target: str, lines: str, put: str) -> None:
    *ahead, last = lines.split("|")
    text = listing("\n".join(f"\t{line}" for line in [*ahead, last, "s_endpgm"]), target)
    fixed = fix(text)
    assert [change.text for change in fixed.changes if "cnt(" not in change.text] == put.split("|")
    assert text.replace(f"\t{last}\n", "") in fixed.text.replace(f"\t{last}\n", "").replace(
        "".join(f"\t{line}\n" for line in put.split("|")), ""
    )
    assert fix(fixed.text).changes == ()


#: Processors, a program, and its kernel with the waits that it lacks: what LLVM 22 puts there.
_WAITS = [
    (
        ("gfx90a", "gfx950", "gfx1030"),
        "global_load_dword v1, v0, s[0:1]|v_mov_b32 v2, v1",
        "global_load_dword v1, v0, s[0:1]|s_waitcnt vmcnt(0)|v_mov_b32 v2, v1",
    ),
    (
        ("gfx1100",),
        "flat_load_b32 v1, v[2:3]|s_waitcnt vmcnt(1)|v_mov_b32 v2, v1",
        "flat_load_b32 v1, v[2:3]|s_waitcnt vmcnt(0) lgkmcnt(0)|v_mov_b32 v2, v1",
    ),
    (
        ("gfx1200", "gfx1250"),
        "s_load_b32 s4, s[0:1], 0x4|ds_load_b32 v1, v0|v_add_f32 v2, s4, v1",
        "s_load_b32 s4, s[0:1], 0x4|ds_load_b32 v1, v0|s_wait_dscnt 0x0|s_wait_kmcnt 0x0|"
        "v_add_f32 v2, s4, v1",
    ),
    (
        ("gfx1200", "gfx1250"),
        "flat_load_b32 v1, v[2:3]|s_wait_loadcnt 0x1|v_mov_b32 v2, v1",
        "flat_load_b32 v1, v[2:3]|s_wait_loadcnt 0x0|s_wait_dscnt 0x0|v_mov_b32 v2, v1",
    ),
    (
        ("gfx1200", "gfx1250"),
        "flat_load_b32 v1, v[2:3]|v_mov_b32 v2, v1",
        "flat_load_b32 v1, v[2:3]|s_wait_loadcnt_dscnt 0x0|v_mov_b32 v2, v1",
    ),
]


@pytest.mark.parametrize(("targets", "lines", "wanted"), _WAITS)
def test_each_generation_has_its_own_waits(
    targets: tuple[str, ...], lines: str, wanted: str
) -> None:
    for target in targets:
        body = "".join(f"\t{line}\n" for line in lines.split("|")) + _END
        made = fixed_body(body, target=target)
        assert [line.strip() for line in made[:-1]] == wanted.split("|"), target
