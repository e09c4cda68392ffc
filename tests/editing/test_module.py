"""Edits of a module, against sources that say the same by hand and are assembled by LLVM."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import coasm
from coasm import EditError, Module
from tests.linter.kernels import listing

_EXAMPLES = Path(__file__).parent.parent.parent / "examples"
_LOOP = """\
\ts_mov_b32 s4, 4
again:
\ts_sub_u32 s4, s4, 1
\ts_cmp_lg_u32 s4, 0
\ts_cbranch_scc1 again
\tv_mov_b32 v1, 0 // a remark
\ts_endpgm
"""


def texts(module: Module) -> list[str]:
    """The instructions of the only kernel, without operands of branches."""
    return [re.sub(r"(s_c?branch\w*).*", r"\1", one.text) for one in module.kernel().instructions]


def code(body: str, target: str = "gfx942", **given: int) -> bytes:
    """The code that LLVM makes of a kernel."""
    co = coasm.load(listing(body, target, **given))
    return b"".join(one.bytes for one in co.kernels[0].instructions)


def code_of(module: Module) -> bytes:
    return b"".join(one.bytes for one in module.settle().kernel().instructions)


def test_without_edits_the_bytes_are_the_originals(
    fixture_objects: list[tuple[str, Path]],
) -> None:
    for name, path in fixture_objects:
        if name.startswith(("multi-gfx942", "preload-gfx942", "relocations-gfx942", "multi-gfx12")):
            assert Module(path).data == path.read_bytes(), name


def test_what_is_put_before_an_instruction_is_behind_its_labels() -> None:
    module = Module(listing(_LOOP))
    assert module.insert("s_nop 1\ns_nop 2", before="again") == 1
    module.insert("s_nop 3", after=lambda one: one.text == "s_mov_b32 s4, 4")
    module.insert("s_nop 4", after=module.kernel().instructions[3])
    wanted = _LOOP.replace("again:\n", "\ts_nop 3\nagain:\n\ts_nop 1\n\ts_nop 2\n")
    wanted = wanted.replace("scc1 again\n", "scc1 again\n\ts_nop 4\n")
    assert code_of(module) == code(wanted)


def test_replace_delete_move() -> None:
    module = Module(listing(_LOOP))
    first, sub, compare, _, move, _ = module.kernel().instructions
    module.replace(compare, lambda one: one.text.replace("lg", "gt"))
    assert module.delete(sub.address) == 1
    assert module.move(move, before=first) == 1
    wanted = "\tv_mov_b32 v1, 0\n\ts_mov_b32 s4, 4\nagain:\n\ts_cmp_gt_u32 s4, 0\n"
    assert code_of(module) == code(wanted + "\ts_cbranch_scc1 again\n\ts_endpgm\n")
    assert "// a remark" in module.text


def test_a_label_for_what_is_put_in() -> None:
    module = Module(listing(_LOOP))
    end = module.label(lambda one: one.mnemonic == "s_endpgm")
    module.insert(f"s_cbranch_execz {end}", before="again")
    assert module.label(module.kernel().instructions[5]) == end
    wanted = _LOOP.replace("again:\n", "again:\n\ts_cbranch_execz end\n")
    assert code_of(module) == code(wanted.replace("\ts_endpgm", "end:\n\ts_endpgm"))


def test_labels_comments_and_line_ends_stay() -> None:
    body = (
        "x: s_nop 0 // a\n\t/* b */ s_nop 1 ; c\ny: z:\ts_nop 2\n\ts_cbranch_scc0 x\n"
        "\ts_cbranch_scc1 y\n\ts_endpgm\n"
    )
    module = Module(listing(body).replace("\n", "\r\n"))
    module.insert("s_nop 7", before="x")
    module.insert("s_nop 8", before="z")
    module.insert("s_nop 9", after="y")
    module.delete(lambda one: one.text == "s_nop 1")
    wanted = (
        "x:\n\ts_nop 7\n\ts_nop 0\ny:\n\ts_nop 8\n\ts_nop 2\n\ts_nop 9\n"
        "\ts_cbranch_scc0 x\n\ts_cbranch_scc1 y\n\ts_endpgm\n"
    )
    assert code_of(module) == code(wanted)
    assert "// a\r\n" in module.text and "/* b */\r\n" in module.text
    assert module.text.count("\n") == module.text.count("\r\n")


def test_swap_asks_whether_it_may() -> None:
    module = Module(listing("\tv_mov_b32 v1, v2\n\tv_mov_b32 v3, v4\n\tv_mov_b32 v5, v3\n" + _END))
    one, two, three, _ = module.kernel().instructions
    with pytest.raises(EditError, match="v3 is written by"):
        module.swap(two, three)
    module.swap(two, one)
    assert texts(module.settle())[:2] == ["v_mov_b32_e32 v3, v4", "v_mov_b32_e32 v1, v2"]


_END = "\ts_endpgm\n"
_TABLE = """\
\ts_getpc_b64 s[4:5]
\ts_add_u32 s4, s4, table@rel32@lo+4
\ts_addc_u32 s5, s5, table@rel32@hi+12
\ts_load_dword s6, s[4:5], 0x0
\ts_waitcnt lgkmcnt(0)
\ts_endpgm
table:
\t.long 0x12345678
"""


def test_addresses_that_code_computes_follow() -> None:
    module = Module(coasm.assemble(listing(_TABLE)).data)
    module.insert("s_nop 0", after=lambda one: one.mnemonic == "s_load_dword")
    wanted = _TABLE.replace("\ts_waitcnt", "\ts_nop 0\n\ts_waitcnt")
    assert code_of(module) == code(wanted)


@pytest.mark.parametrize(
    ("body", "before", "why"),
    [
        # The literal would be 4 bytes further from what s_getpc_b64 gives.
        (_TABLE, "s_add_u32", "is a part of an address, which would lead elsewhere"),
        # The address is of no known use, and what it leads to would move.
        (
            "\ts_getpc_b64 s[4:5]\n\ts_nop 3\n\ts_mov_b64 s[6:7], s[4:5]\n" + _END,
            "s_nop",
            "not known",
        ),
    ],
)
def test_an_edit_that_would_break_an_address_is_refused(body: str, before: str, why: str) -> None:
    module = Module(coasm.assemble(listing(body)).data)
    text = module.text
    module.insert("s_nop 0", before=lambda one: one.mnemonic == before)
    with pytest.raises(EditError, match=why):
        module.settle()
    assert module.text == text  # it is given up


def test_code_may_be_prefetched() -> None:
    """A prefetch of what is elsewhere now is a hint that is of no use, and no more."""
    prefetch = "\ts_get_pc_i64 s[4:5]\n\ts_prefetch_inst s[4:5], 0x1000, s6, 0\n"
    for behind, fine in (("", True), ("\ts_mov_b64 s[8:9], s[4:5]\n", False)):
        text = listing(f"\ts_nop 0\n{prefetch}{behind}{_END}", "gfx1250")
        module = Module(coasm.assemble(text).data)
        module.insert("s_nop 1", before=module.kernel().instructions[1])
        if fine:
            assert texts(module.settle())[:2] == ["s_nop 0", "s_nop 1"]
            continue
        with pytest.raises(EditError, match="not known where it leads"):
            module.settle()


def test_what_stands_in_a_clause_stays_together() -> None:
    loads = "\tglobal_load_b32 v1, v0, s[0:1]\n\tglobal_load_b32 v2, v0, s[0:1] offset:4\n"
    module = Module(listing(f"\ts_clause 0x1\n{loads}{_END}", "gfx1100"))
    module.insert("s_nop 0", before=module.kernel().instructions[2])
    with pytest.raises(EditError, match=r"s_clause 0x1 at 0x\w+ is for the instructions behind it"):
        module.settle()
    module.insert("s_nop 0", before=module.kernel().instructions[3])
    assert texts(module.settle())[3] == "s_nop 0"


def test_registers_that_a_mode_chooses_stay_the_same() -> None:
    """gfx1250: moved before s_set_vgpr_msb an instruction would write another register."""
    body = "\ts_nop 0\n\ts_set_vgpr_msb 0x40\n\tv_mov_b32 v1 /*v257*/, 0\n\ts_endpgm\n"
    module = Module(listing(body, "gfx1250"))
    module.move(lambda one: one.mnemonic.startswith("v_mov"), before=module.kernel().entry)
    with pytest.raises(EditError, match=r"v_mov_b32\w* .* would mean"):
        module.settle()


def test_what_a_macro_makes_is_refused_with_its_line() -> None:
    macro = ".macro two\n\ts_nop 0\n\ts_nop 1\n.endm\n"
    module = Module(macro + listing("\ttwo\n" + _END), name="mine.s")
    line = (macro + listing("\ttwo\n" + _END)).split("\n").index("\ttwo") + 1
    with pytest.raises(EditError, match=rf"mine.s:{line}: s_nop 1: a macro"):
        module.insert("s_nop 2", before=module.kernel().instructions[1])
    module.insert("s_nop 2", before=lambda one: one.mnemonic == "s_endpgm")
    assert texts(module.settle()) == ["s_nop 0", "s_nop 1", "s_nop 2", "s_endpgm"]


def test_places_are_those_of_the_code_until_it_is_settled() -> None:
    module = Module(listing(_LOOP))
    old = module.kernel().instructions[1]
    module.insert("s_nop 0", before=old)
    module.insert("s_nop 1", before=old)
    module.settle()
    with pytest.raises(EditError, match="before or behind other edits"):
        module.delete(old)
    for place, why in ((0, "no instruction begins at 0x0"), ("nowhere", "no label 'nowhere'")):
        with pytest.raises(EditError, match=why):
            module.delete(place)
    with pytest.raises(EditError, match="no instruction is what is asked for"):
        module.delete(lambda one: one.mnemonic == "s_barrier")
    module.delete("again")
    with pytest.raises(EditError, match="replaced, moved or deleted before"):
        module.replace("again", "s_nop 7")


def test_what_llvm_refuses_is_given_up() -> None:
    module = Module(listing(_LOOP))
    module.insert("v_nothing v1", before="again")
    with pytest.raises(coasm.CoasmError, match="invalid instruction"):
        module.settle()
    assert len(texts(module.settle())) == 6


def test_passes_see_what_the_one_before_left() -> None:
    counts = []

    def add(module: Module) -> None:
        counts.append(module.insert("s_nop 0", before=lambda one: one.mnemonic == "s_nop"))

    def joined(module: Module) -> Module:
        return Module(module.text.replace("s_nop 0", "s_nop 5"))

    module = Module(listing("\ts_nop 3\n" + _END)).apply(add, add, joined)
    assert counts == [1, 2]
    assert texts(module) == ["s_nop 5"] * 3 + ["s_nop 3", "s_endpgm"]


def test_findings_are_those_of_the_edit() -> None:
    body = "\tv_rcp_f32 v1, v2\n\tv_mov_b32 v3, v1\n\tv_rcp_f32 v4, v2\n\ts_nop 0\n"
    module = Module(listing(body + "\tv_mov_b32 v5, v4\n" + _END))
    assert module.findings == ()  # the first pair is the original's
    module.delete(lambda one: one.mnemonic == "s_nop")
    assert [finding.rule for finding in module.findings] == ["trans"]
    assert module.findings[0].place.text == "v_mov_b32_e32 v5, v4"


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        ({"vgprs": 40}, {"next_free_vgpr": 40, "accum_offset": 40}),
        ({"vgprs": 30, "agprs": 8}, {"next_free_vgpr": 40, "accum_offset": 32}),
        ({"agprs": 16}, {"next_free_vgpr": 48, "accum_offset": 32}),
        ({"sgprs": 60, "lds": 4096}, {"next_free_sgpr": 60, "group_segment_fixed_size": 4096}),
        ({"scratch": 64}, {"private_segment_fixed_size": 64, "enable_private_segment": 1}),
    ],
)
def test_resources_are_those_of_the_directives(
    asked: dict[str, int], given: dict[str, int]
) -> None:
    """The descriptor is LLVM's for a source that says it; the metadata follows."""
    module = Module(listing(_LOOP))
    module.set_resources(**asked)
    wanted = coasm.load(listing(_LOOP, **given)).kernels[0]
    assert bytes(module.settle().kernel().descriptor) == bytes(wanted.descriptor)
    metadata = module.kernel().metadata
    assert metadata[".group_segment_fixed_size"] == asked.get("lds", 0)
    assert metadata[".private_segment_fixed_size"] == asked.get("scratch", 0)
    if "next_free_vgpr" in given:
        assert metadata[".vgpr_count"] == given["next_free_vgpr"]


@pytest.mark.parametrize(
    ("target", "asked", "why"),
    [
        ("gfx942", {"lds": 65537}, "a workgroup of gfx942 has 65536 bytes"),
        ("gfx942", {"vgprs": 257}, "name 256 registers"),
        ("gfx942", {"sgprs": 103}, "gfx942 has 102"),
        ("gfx90a", {"scratch": 16}, "all of them would move"),
        ("gfx908", {"agprs": 16}, "one number for all vector registers"),
    ],
)
def test_resources_that_are_not_there(target: str, asked: dict[str, int], why: str) -> None:
    with pytest.raises(EditError, match=why):
        Module(listing(_LOOP, target)).set_resources(**asked)


def test_arguments() -> None:
    module = Module(_EXAMPLES / "vector_add.s")
    before = module.kernel().arguments
    end = max(one.offset + one.size for one in before if one.offset is not None and one.size)
    offset = module.add_argument("weights", 8, kind="global_buffer", is_const=True)
    assert offset == -(-end // 8) * 8
    assert module.add_argument("flag", 2) == offset + 8
    module.retype_argument(before[0].name or "", type_name="double*")
    kernel = module.settle().kernel()
    assert [one.name for one in kernel.arguments] == [*(a.name for a in before), "weights", "flag"]
    assert kernel.arguments[0].type == "double*"
    assert kernel.arguments[-2].address_space == "global"
    assert kernel.descriptor.kernarg_size == kernel.metadata[".kernarg_segment_size"]
    assert kernel.descriptor.kernarg_size >= offset + 10
    for wrong, why in (
        ({"size": 16}, "reach into the argument"),
        ({"value_kind": "by_valu"}, "value_kind"),
    ):
        with pytest.raises(EditError, match=why):
            module.retype_argument(before[0].name or "", **wrong)
        module.settle()
    with pytest.raises(EditError, match="its code reads more than 4 bytes"):
        module.retype_argument(before[0].name or "", size=4, value_kind="by_value")
    with pytest.raises(EditError, match="no argument 'nobody'"):
        module.retype_argument("nobody", size=4)


def test_hidden_arguments_stay_where_they_are(fixture_objects: list[tuple[str, Path]]) -> None:
    """What the code reads at a fixed offset keeps it; explicit arguments are listed first."""
    text = (_EXAMPLES / "vector_add.s").read_text()
    hidden = "\n      - { .size: 8, .offset: 32, .value_kind: hidden_none }\n"
    text = re.sub(r"(\n      - \{ \.name: count,.*\})\n", lambda found: found[1] + hidden, text)
    text = re.sub(r"kernarg_size \d+", "kernarg_size 40", text)
    text = re.sub(r"kernarg_segment_size: \d+", "kernarg_segment_size: 40", text)
    module = Module(text)
    assert "hidden_none" in [one.kind for one in module.kernel().arguments]
    assert module.add_argument("more", 8) == 40
    arguments = module.settle().kernel().arguments
    assert [(one.kind, one.offset) for one in arguments[-2:]] == [
        ("by_value", 40),
        ("hidden_none", 32),
    ]


def fixture(objects: list[tuple[str, Path]], name: str) -> Path:
    return dict(objects)[name]


def test_rename(fixture_objects: list[tuple[str, Path]]) -> None:
    path = fixture(fixture_objects, "multi-gfx942-v6")
    module = Module(path)
    module.rename("third", "another name")
    with pytest.raises(EditError, match="'first' is a symbol"):
        module.rename("second", "first")
    before, after = coasm.load(path), coasm.load(module.data)
    names = {"third": "another name"}
    assert [k.name for k in after.kernels] == [names.get(k.name, k.name) for k in before.kernels]
    assert after.kernels[2].metadata[".symbol"] == "another name.kd"
    for one, other in zip(before.kernels, after.kernels, strict=True):
        assert [i.bytes for i in one.instructions] == [i.bytes for i in other.instructions]
    assert {s.name for s in before.symbols} - {s.name for s in after.symbols} == {
        "third",
        "third.kd",
    }


def test_texts_are_no_names() -> None:
    """A string that is called as the kernel stays; a quoted name of the kernel does not."""
    data = '\t.section .data.names,"aw"\n\t.asciz "k"\n\t.p2align 3\n\t.quad "k"\n'
    text = listing(_LOOP).replace("\t.rodata\n", f"{data}\t.rodata\n")
    module = Module(text)
    module.rename("k", "other")
    assert '.asciz "k"' in module.text and ".quad other" in module.text
    assert [kernel.name for kernel in module.kernels] == ["other"]


def test_take_out_and_join(fixture_objects: list[tuple[str, Path]]) -> None:
    """Each kernel is what it was, wherever it is; verify says so of the one that is alone."""
    multi = fixture(fixture_objects, "multi-gfx942-v6")
    module = Module(multi)
    module.keep("second")
    assert [kernel.name for kernel in coasm.load(module.data).kernels] == ["second"]
    assert coasm.verify(multi, module.data, kernel="second").equivalent
    assert not [s for s in module.co.symbols if s.name.startswith(("first.", "third"))]
    with pytest.raises(EditError, match="no kernel would be left"):
        module.remove("second")

    close = "\tv_rcp_f32 v1, v2\n\ts_nop 0\n\tv_mov_b32 v3, v1\n"
    other = Module(listing(close + close.replace("\ts_nop 0\n", "") + _LOOP))
    other.rename("k", "looping")
    own = [one.bytes for one in other.settle().kernel().instructions]
    module = Module(multi).join(other)
    joined = coasm.load(module.data)
    assert [k.name for k in joined.kernels] == [
        *(k.name for k in coasm.load(multi).kernels),
        "looping",
    ]
    for name in ("first", "second", "third"):
        assert coasm.verify(multi, joined, kernel=name).equivalent
    assert [one.bytes for one in joined.kernel("looping").instructions] == own
    assert module.findings == ()  # nor what the other had before
    module.delete(module.kernel("looping").instructions[1])
    assert [one.rule for one in module.findings] == ["trans"]
    with pytest.raises(EditError, match="both define first"):
        Module(multi).join(Module(multi))
    with pytest.raises(EditError, match="for gfx950"):
        Module(multi).join(Module(listing(_LOOP, "gfx950")))


def test_code_that_others_call_stays(fixture_objects: list[tuple[str, Path]]) -> None:
    """A kernel that is taken out takes neither functions nor data with it."""
    path = fixture(fixture_objects, "local_twice-gfx942-v5")
    names = [kernel.name for kernel in coasm.load(path).kernels]
    module = Module(path).keep(names[0])
    assert coasm.verify(path, module.data, kernel=names[0]).equivalent


def test_writing(tmp_path: Path) -> None:
    module = Module(listing(_LOOP))
    module.delete(lambda one: one.mnemonic.startswith("v_mov"))
    module.write(tmp_path / "k.s")
    module.write(tmp_path / "k.co")
    assert coasm.load(tmp_path / "k.s").data == coasm.load(tmp_path / "k.co").data == module.data
    with pytest.raises(coasm.CoasmError, match="exists"):
        module.write(tmp_path / "k.co")
