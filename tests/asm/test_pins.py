"""Pinned encodings: restored where nothing was edited, lost where something was, never misplaced.

What LLVM makes of a text is asked of LLVM (:func:`tests.asm.tools.assembled`), where a branch goes
is worked out from its encoding (ISA guides, SOPP: address + 4 + 4 * SIMM16).
"""

from __future__ import annotations

import re

import pytest

from coasm.asm.assemble import Result, assemble
from coasm.asm.exact import Exact, exact_listing
from coasm.asm.pins import find_pins
from coasm.codeobject import CodeObject
from coasm.llvm.find import Llvm
from tests.asm.tools import assembled, built, dump, loaded, patched_words, symbols

# Text, target, and the words that the disassembler prints as this text although LLVM writes others:
# bits that the decoder ignores, and literals that LLVM would write inline (which are shorter).
_SAME_SIZE = (
    ("v_nop", "gfx942", (0x7E000007,)),
    ("s_ashr_i64 ttmp[8:9], s[14:15], s56", "gfx942", (0x90F5380E,)),
    ("s_setreg_imm32_b32 hwreg(60, 29, 25), 0x5484b3db", "gfx950", (0xBA6BC77C, 0x5484B3DB)),
    ("buffer_load_dword v1, off, s[24:27], s5 offset:1324", "gfx90a", (0xE050052C, 0x050601BF)),
    ("s_version 0xe5fd", "gfx1100", (0xB0F3E5FD,)),
)
_RESIZED = (
    ("v_lshlrev_b16_e32 v146, 0xb800, v42", "gfx942", (0x552454F1,)),
    ("v_max_i16_e32 v195, 0x4400, v122", "gfx803", (0x6186F4F6,)),
    ("s_mul_hi_i32 s24, 16, 0xab4fbd44", "gfx1250", (0x9718FE90, 0xAB4FBD44, 0xB28282B6)),
    ("v_min_num_f32_e32 v80, 0xc5e0cae8, v40", "gfx1250", (0x2AA050FE, 0xC5E0CAE8, 0x95F8792E)),
)


def _object(llvm: Llvm, words: tuple[int, ...], target: str) -> CodeObject:
    """The words between branches that go over them in both directions."""
    filler = "s_nop 1\n" * len(words)
    co = built(llvm, f"s_branch over\nback:\n{filler}over:\ns_cbranch_scc0 back\ns_endpgm", target)
    start = co.kernels[0].entry + 4
    return patched_words(co, *((start + 4 * i, word) for i, word in enumerate(words)))


def _branches(llvm: Llvm, data: bytes) -> None:
    """The two branches of :func:`_object` go to their labels."""
    code, names = dump(llvm, data), symbols(data)
    for mnemonic, label in (("s_branch", "over"), ("s_cbranch_scc0", "back")):
        (found,) = [(a, d) for a, (t, d) in code.items() if t.startswith(mnemonic)]
        address, encoding = found
        distance = int.from_bytes(encoding[:2], "little", signed=True)
        assert address + 4 + 4 * distance == names[label][0], (mnemonic, label)


def _listed(llvm: Llvm, co: CodeObject, text: str) -> Exact:
    """The listing, where the disassembler prints the patched words as *text*."""
    start = co.kernels[0].entry + 4
    if dump(llvm, co.data).get(start, ("",))[0] != text:
        pytest.skip(f"LLVM {llvm.major} prints other text than {text!r}")
    return exact_listing(co, llvm)


def _rebuilt(llvm: Llvm, text: str) -> Result:
    return assemble(text, name="edited.s")


@pytest.mark.parametrize(("text", "target", "words"), _SAME_SIZE + _RESIZED)
def test_what_was_not_edited_comes_back(
    text: str, target: str, words: tuple[int, ...], llvm: Llvm
) -> None:
    co = _object(llvm, words, target)
    listed = _listed(llvm, co, text)
    original = b"".join(w.to_bytes(4, "little") for w in words)
    plain = assembled(llvm, text, target)
    assert plain != original
    halves = [
        " ".join(f"{int.from_bytes(d[i : i + 4], 'little'):08X}" for i in range(0, len(d), 4))
        for d in (original, plain)
    ]
    (line,) = [line for line in listed.text.splitlines() if "// pin " in line]
    assert line.split("//")[0].strip() == text
    assert f"// pin {halves[0]} over {halves[1]}" in line
    assert (listed.pinned, listed.raw) == (1, 0)
    result = _rebuilt(llvm, listed.text)
    assert (result.pins, result.lost) == (1, 0)
    assert loaded(result.data) == loaded(co.data)
    _branches(llvm, result.data)


@pytest.mark.parametrize(("text", "target", "words"), _RESIZED)
def test_branches_over_resized_pins(
    text: str, target: str, words: tuple[int, ...], llvm: Llvm
) -> None:
    """With instructions put between, and with the pin lost to an edit."""
    co = _object(llvm, words, target)
    listing = _listed(llvm, co, text).text
    longer = listing.replace("\nover:\n", "\n\ts_nop 2\n\ts_nop 3\nover:\n")
    assert longer != listing
    result = _rebuilt(llvm, longer)
    assert (result.pins, result.lost) == (1, 0)
    _branches(llvm, result.data)
    original = b"".join(w.to_bytes(4, "little") for w in words)
    assert dump(llvm, result.data)[symbols(result.data)["back"][0]][1] == original

    edited = re.sub(r"^(\s*)\S.*(// pin .*)$", r"\1s_nop 5 \2", listing, flags=re.M)
    result = _rebuilt(llvm, edited)
    assert (result.pins, result.lost) == (0, 1)
    _branches(llvm, result.data)
    assert dump(llvm, result.data)[symbols(result.data)["back"][0]][0] == "s_nop 5"


@pytest.mark.parametrize(("text", "target", "words"), [_SAME_SIZE[1], _RESIZED[0]])
def test_moved_doubled_and_removed(
    text: str, target: str, words: tuple[int, ...], llvm: Llvm
) -> None:
    co = _object(llvm, words, target)
    listing = _listed(llvm, co, text).text
    (line,) = [line for line in listing.splitlines() if "// pin " in line]
    original = b"".join(w.to_bytes(4, "little") for w in words)

    def encodings(edited: str) -> tuple[Result, list[bytes]]:
        result = _rebuilt(llvm, edited)
        code = dump(llvm, result.data)
        return result, [d for _, (t, d) in sorted(code.items()) if t == text]

    moved = listing.replace(line + "\n", "").replace("\ts_endpgm", f"{line}\n\ts_endpgm")
    assert encodings(moved) == (_rebuilt(llvm, moved), [original])
    result, found = encodings(listing.replace(line, f"{line}\n\ts_nop 7\n{line}"))
    assert (result.pins, result.lost, found) == (2, 0, [original, original])
    result, found = encodings(listing.replace(line + "\n", ""))
    assert (result.pins, result.lost, found) == (0, 0, [])
    # The same text without its pin is LLVM's; beside it the pin still holds.
    result, found = encodings(listing.replace(line, f"\t{text}\n{line}"))
    assert (result.pins, found) == (1, [assembled(llvm, text, target), original])
    # A label in front of it, one that needs quotes too.
    labelled = listing.replace(line, f'here: "a label": {line.lstrip()}')
    result, found = encodings(labelled)
    assert (result.pins, found) == (1, [original])
    assert symbols(result.data)["here"] == symbols(result.data)["a label"]


def test_an_edited_operand_loses_the_pin(llvm: Llvm) -> None:
    text, target, words = _SAME_SIZE[1]
    listing = _listed(llvm, _object(llvm, words, target), text).text
    other = text.replace("s56", "s57")
    edited = listing.replace(text, other)
    result = _rebuilt(llvm, edited)
    assert (result.pins, result.lost) == (0, 1)
    made = assembled(llvm, other, target)
    assert made in [d for _, d in dump(llvm, result.data).values()]


@pytest.mark.parametrize(
    ("before", "after", "copies"),
    [
        (".rept 3", ".endr", 3),
        (".macro twice", ".endm\ntwice\ntwice", 2),
        (".irp x, 1, 2", ".endr", 2),
    ],
)
def test_repetitions_keep_what_llvm_writes(
    before: str, after: str, copies: int, llvm: Llvm
) -> None:
    """A line that stands for several instructions cannot be followed to one place."""
    text, target, words = _RESIZED[0]
    listing = _listed(llvm, _object(llvm, words, target), text).text
    (line,) = [line for line in listing.splitlines() if "// pin " in line]
    result = _rebuilt(llvm, listing.replace(line, f"{before}\n{line}\n{after}"))
    found = [d for _, (t, d) in dump(llvm, result.data).items() if t == text]
    assert found == [assembled(llvm, text, target)] * copies
    _branches(llvm, result.data)


@pytest.mark.parametrize("condition", [0, 1])
def test_conditional_text(condition: int, llvm: Llvm) -> None:
    text, target, words = _RESIZED[0]
    listing = _listed(llvm, _object(llvm, words, target), text).text
    (line,) = [line for line in listing.splitlines() if "// pin " in line]
    edited = listing.replace(line, f".if {condition}\n{line}\n.endif")
    result = _rebuilt(llvm, edited)
    original = b"".join(w.to_bytes(4, "little") for w in words)
    found = [d for _, (t, d) in dump(llvm, result.data).items() if t == text]
    assert found == [original] * condition
    _branches(llvm, result.data)


def test_pins_in_comments_are_none() -> None:
    pin = "// pin 00000001 over 00000002"
    assert find_pins(f"// s_nop 0 {pin}\n; s_nop 0 {pin}\n# s_nop 0 {pin}\n{pin}") == []
    assert find_pins(f'\t.asciz "{pin}"') == []
    assert [p.line for p in find_pins(f".Lx: s_nop 0 {pin}\nx:y: s_nop 0 {pin}")] == [0, 1]
    (found,) = find_pins(f"\n\ts_nop 0 {pin} {pin}")
    assert (found.line, found.original, found.llvm) == (1, b"\1\0\0\0", b"\2\0\0\0")


def test_what_other_objects_had_is_no_pin_here(llvm: Llvm) -> None:
    """Bits that LLVM was seen to drop are a guess for the next object, never a fact."""
    text, target, words = _SAME_SIZE[1]
    _listed(llvm, _object(llvm, words, target), text)
    plain = assembled(llvm, text, target)
    # The bit that was dropped may be one that counts elsewhere, or is set by LLVM itself.
    for word in (int.from_bytes(plain, "little"), 0x90F4380F, 0x90F5380F):
        listed = exact_listing(_object(llvm, (word,), target), llvm)
        pins = find_pins(listed.text)
        assert len(pins) == listed.pinned
        result = _rebuilt(llvm, listed.text)
        assert (result.pins, result.lost) == (len(pins), 0)
