"""Lint of listings and objects: lines, comments that allow, notes, the library call."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from hypothesis import given
from hypothesis import strategies as st

import coasm
from coasm.asm.build import Declared, assemble_listing, link_object
from coasm.asm.lines import line_table
from coasm.asm.source import declared
from coasm.codeobject import load
from coasm.errors import AssemblyError, CoasmError, FormatError, UnsupportedError
from coasm.linter.files import Judged, lint_file, lint_files
from coasm.linter.findings import ERROR
from coasm.linter.lint import judge
from coasm.linter.sources import listing_source, object_source
from coasm.llvm.find import Llvm
from coasm.llvm.run import Setup
from tests.linter.sources import CLEAN, TOO_CLOSE, listing

pytestmark = pytest.mark.usefixtures("llvm")

#: Every "LINE" becomes the number of the line that it stands in: the judge of the tests of lines.
_LINES = """\
	.macro twice at
	s_movk_i32 s2, \\at

	s_movk_i32 s3, \\at
	.endm
	.macro nested at
	twice \\at
	.endm
	.set on, 1
	.text
	.globl k
	.p2align 8
	.type k,@function
k: first: s_movk_i32 s0, LINE   // on the line of two labels
/* a comment over
   lines */ s_movk_i32 s0, LINE

second:
	s_movk_i32 s0, LINE ; another comment
	twice LINE
	nested LINE
	.rept 3
	s_movk_i32 s1, LINE
	s_movk_i32 s1, LINE
	.endr
	.if on
	s_movk_i32 s0, LINE
	.else
	s_movk_i32 s0, 0
	.endif
	s_cbranch_scc0 second
	s_movk_i32 s0, LINE
	.section .text_cold,"ax",@progbits
	s_movk_i32 s0, LINE
	s_setpc_b64 s[30:31]
	.text
	s_movk_i32 s0, LINE
	.long 0xb0040000 | LINE // s_movk_i32 s4
	.long 0xb0040000 | LINE
	v_add_f32_e32 v0, v0, v1 // pin 02000300 over 02000300
	s_movk_i32 s0, LINE
	s_endpgm
"""


def _numbered(text: str, first: int) -> str:
    """*text*, whose first line is line *first* of a listing, with the words above filled in."""
    lines = text.split("\n")
    return "\n".join(line.replace("LINE", str(first + at)) for at, line in enumerate(lines))


def _with_lines() -> str:
    """A listing whose instructions name the line that they have."""
    text = listing(CLEAN)
    head, _, rest = text.partition("\t.text\n")
    _, _, tail = rest.partition("s_endpgm\n")
    return head + _numbered(_LINES, head.count("\n") + 1) + tail


def test_every_instruction_has_its_line() -> None:
    program = listing_source(_with_lines()).program
    text = _with_lines().split("\n")
    found = 0
    for index, instruction in enumerate(program.instructions):
        place = program.place(index)
        assert place.line is not None, instruction.text
        match = re.fullmatch(r"s_movk_i32 s\d, (0x[0-9a-f]+|\d+)", instruction.text)
        if match:
            assert int(match[1], 0) == place.line, instruction.text
            found += 1
        else:
            assert instruction.mnemonic.split("_e32")[0] in text[place.line - 1]
    # 8 of their own, 2 and 2 of macros, 6 of the repetition, 2 words.
    assert found == 8 + 4 + 6 + 2


@pytest.mark.parametrize("assembler", ["llvm-mc", "clang"])
def test_the_line_table_is_what_pyelftools_reads(llvm: Llvm, assembler: str) -> None:
    """clang writes another version of DWARF."""
    text = _with_lines()
    tools = llvm if assembler == "llvm-mc" else llvm._replace(mc=None)
    what = Declared(declared(text).target, 5)
    built = assemble_listing(text, what, tools, setup=Setup(line_table=True))
    assert built.object is not None
    co = load(link_object(built.object, tools))
    dwarf = ELFFile(io.BytesIO(co.data)).get_dwarf_info()
    expected = {
        entry.state.address: entry.state.line
        for unit in dwarf.iter_CUs()
        for entry in dwarf.line_program_for_CU(unit).get_entries()
        if entry.state is not None and not entry.state.end_sequence
    }
    assert len(expected) > 20
    table = next(section for section in co.elf.sections if section.name == ".debug_line")
    assert line_table(table.data) == expected


@given(st.binary(max_size=200))
def test_bytes_that_are_no_line_table(data: bytes) -> None:
    try:
        line_table(data)
    except FormatError as error:
        assert ".debug_line" in str(error)


def test_a_pin_of_another_size_keeps_its_line(llvm: Llvm) -> None:
    """v_add_f32 v0, v1, v2: 0x02000501, in eight bytes 0xD1010000 0x00020501 (CDNA3, VOP3)."""
    pinned = "\tv_add_f32_e32 v0, v1, v2 // pin D1010000 00020501 over 02000501"
    text = listing(f"\ts_nop 0\n{pinned}\n\ts_nop 1\n\ts_endpgm")
    program = listing_source(text).program
    assert program.instructions[1].data.hex() == "000001d101050200"
    lines = [program.place(index).line for index in range(4)]
    first = text.split("\n").index(pinned) + 1
    assert lines == [first - 1, first, first + 1, first + 2]


@pytest.mark.parametrize(
    "own",
    ['\t.file 1 "kernel.hip"\n', '# 12 "kernel.hip"\n', '\t.section .debug_line,"",@progbits\n'],
)
def test_lines_of_another_source_are_not_taken(own: str) -> None:
    """Those of the source itself are."""
    text = listing(TOO_CLOSE, head=own)
    linted = judge(listing_source(text, "k.s"))
    expected = text.split("\n").index("\tv_mul_f32 v2, v1, v1") + 1
    assert [finding.place.line for finding in linted.findings] == [expected]


def test_loc_directives_are_not_taken() -> None:
    text = listing(TOO_CLOSE.replace("\tv_mul", "\t.loc 1 7\n\tv_mul"), head='\t.file 1 "k.hip"\n')
    linted = judge(listing_source(text))
    expected = text.split("\n").index("\tv_mul_f32 v2, v1, v1") + 1
    assert [(f.rule, f.place.line) for f in linted.findings] == [("trans", expected)]


def test_a_finding_says_where_and_what() -> None:
    text = listing(TOO_CLOSE)
    (found,) = coasm.lint(text)
    line = text.split("\n").index("\tv_mul_f32 v2, v1, v1") + 1
    assert (found.rule, found.level, found.kernel) == ("trans", ERROR, "k")
    assert (found.place.line, found.place.text) == (line, "v_mul_f32_e32 v2, v1, v1")
    assert found.producer is not None and found.producer.line == line - 1
    assert (found.has, found.needs) == (0, 1)


@pytest.mark.parametrize(
    ("comment", "left"),
    [
        ("// coasm: allow trans", []),
        ("; coasm: allow trans", []),
        ("/* coasm: allow trans */", []),
        ("// coasm: allow valu-dpp, trans", []),
        ("// coasm: allow trans because v1 is a constant", []),
        ("// no more; coasm:allow trans", []),
        ("// coasm: allow valu-dpp", ["trans"]),
        ("// allow trans", ["trans"]),
    ],
)
def test_a_comment_silences_a_rule_on_its_line(comment: str, left: list[str]) -> None:
    text = listing(TOO_CLOSE.replace("v1, v1", f"v1, v1 {comment}"))
    linted = judge(listing_source(text))
    assert [finding.rule for finding in linted.findings] == left
    assert linted.allowed == 1 - len(left) and not linted.notes


def test_a_comment_on_another_line_silences_nothing() -> None:
    text = listing(TOO_CLOSE.replace("v1, v0", "v1, v0 // coasm: allow trans"))
    assert [finding.rule for finding in coasm.lint(text)] == ["trans"]


def test_a_comment_that_allows_no_rule_is_noted() -> None:
    text = listing(TOO_CLOSE.replace("v1, v1", "v1, v1 // coasm: allow tranz"))
    linted = judge(listing_source(text))
    assert [finding.rule for finding in linted.findings] == ["trans"]
    (note,) = linted.notes
    assert note.line == linted.findings[0].place.line and "did you mean 'trans'?" in note.text


def test_jumps_that_are_not_followed_are_noted() -> None:
    jumps = "\ts_setpc_b64 s[2:3]\n" * 6
    linted = judge(listing_source(listing(f"\ts_mov_b64 s[2:3], s[0:1]\n{jumps}\ts_endpgm")))
    texts = [note.text for note in linted.notes]
    assert len(texts) == 4 and all("s_setpc_b64" in text for text in texts[:3])
    assert "3 more" in texts[3]


def test_what_a_macro_makes_alike_is_one_finding() -> None:
    body = "\t.macro pair\n\tv_rcp_f32 v1, v0\n\tv_mul_f32 v2, v1, v1\n\t.endm\n\t.rept 4\n\tpair\n"
    (found,) = coasm.lint(listing(f"{body}\t.endr\n\ts_endpgm"))
    assert found.rule == "trans"


def test_the_library_takes_text_paths_bytes_and_objects(tmp_path: Path) -> None:
    text = listing(TOO_CLOSE)
    data = coasm.assemble(text).data
    (tmp_path / "k.s").write_text(text)
    (tmp_path / "renamed.txt").write_text(text)
    (tmp_path / "k.co").write_bytes(data)
    (from_text,) = coasm.lint(text)
    for path in ("k.s", "renamed.txt"):
        assert coasm.lint(tmp_path / path) == coasm.lint(str(tmp_path / path)) == [from_text]
    (found,) = coasm.lint(data)
    assert found.place.line is None and found.place.text == from_text.place.text
    for source in (load(data), tmp_path / "k.co", str(tmp_path / "k.co")):
        assert coasm.lint(source) == [found]
    assert coasm.lint(listing(CLEAN)) == []


def test_what_lint_refuses(tmp_path: Path) -> None:
    with pytest.raises(AssemblyError, match=r"<listing>:\d+:2: error: invalid instruction"):
        coasm.lint(listing("\tv_nope v0\n\ts_endpgm"))
    with pytest.raises(UnsupportedError, match=r"no \.amdgcn_target"):
        coasm.lint("\ts_nop 0\n")
    with pytest.raises(FormatError):
        coasm.lint(b"\x7fELF and nothing more")
    with pytest.raises(CoasmError, match=r"missing\.s"):
        coasm.lint(tmp_path / "missing.s")
    (tmp_path / "notes.txt").write_text("no assembly\n")
    with pytest.raises(FormatError):
        coasm.lint(tmp_path / "notes.txt")


def test_one_kernel_of_several() -> None:
    text = listing({"alpha": TOO_CLOSE, "beta": CLEAN})
    assert [f.kernel for f in coasm.lint(text)] == ["alpha"]
    assert [f.kernel for f in coasm.lint(text, kernel="alpha")] == ["alpha"]
    assert coasm.lint(text, kernel="beta") == []
    with pytest.raises(UnsupportedError, match="no kernel 'alhpa'; did you mean 'alpha'"):
        coasm.lint(text, kernel="alhpa")
    with pytest.raises(UnsupportedError, match="there are alpha, beta"):
        coasm.lint(text, kernel="zzz")


@pytest.mark.parametrize("target", ["gfx801", "gfx803", "gfx805"])
def test_a_target_without_rules_has_its_resources_checked(target: str) -> None:
    clean = judge(listing_source(listing("\ts_endpgm", target), "k.s"))
    assert clean.status == "unjudged" and not clean.refused and target in (clean.unjudged or "")
    assert clean.findings == ()
    over = coasm.lint(listing("\tv_mov_b32 v99, 0\n\ts_endpgm", target))
    assert [finding.rule for finding in over] == ["vgpr-range"]


def test_advice_is_left_out_unless_asked_for() -> None:
    """DOT into MFMA: LLVM asks for no states, the ISA guides for three."""
    body = "\tv_dot4_i32_i8 v1, v2, v3, v4\n\tv_mfma_f32_4x4x1_16b_f32 v[8:11], v1, v2, v[8:11]\n"
    text = listing(f"{body}\ts_endpgm")
    linted = judge(listing_source(text))
    assert linted.findings == () and linted.left_out and linted.status == "clean"
    asked = coasm.lint(text, advice=True)
    assert len(asked) == linted.left_out
    (found,) = [finding for finding in asked if finding.rule == "mfma-dot-write"]
    assert (found.rule, found.level, found.has, found.needs) == ("mfma-dot-write", "advice", 0, 3)


def test_many_files_are_judged_in_their_order(tmp_path: Path) -> None:
    names = []
    for number in range(8):
        path = tmp_path / f"{number}.s"
        path.write_text(listing(TOO_CLOSE if number % 3 == 0 else CLEAN))
        names.append(str(path))
    names.insert(5, str(tmp_path / "missing.s"))
    files = [Judged(name) for name in names]
    alone = [lint_file(one) for one in files]
    assert list(lint_files(files, jobs=2)) == alone
    assert [one.status for one in alone].count("findings") == 3
    assert alone[5].refused and "missing.s" in (alone[5].unjudged or "")


@pytest.mark.slow
def test_lines_do_not_change_what_is_found(corpus: list[Path]) -> None:
    """A listing and its object have the same findings, at the same instructions."""
    chosen = [path for path in corpus if "gfx942" in str(path) or "gfx950" in str(path)][::40]
    for path in chosen:
        co = load(path)
        text = coasm.disassemble(co).text
        of_object = judge(object_source(co), advice=True).findings
        of_listing = judge(listing_source(text), advice=True).findings
        assert [(f.rule, f.place.text, f.has) for f in of_object] == [
            (f.rule, f.place.text, f.has) for f in of_listing
        ]
        for found in of_listing:
            assert found.place.line is not None
            mnemonic = found.place.text.split(None, 1)[0].removesuffix("_e32").removesuffix("_e64")
            assert mnemonic in text.split("\n")[found.place.line - 1]
