"""Decoded code: what llvm-objdump prints, line by line, and the columns that it is kept in."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coasm.asm.build import target_from_text
from coasm.asm.code import Code, Instruction, Item, Raw
from coasm.asm.decode import TRUE16, decode, features, with_halves
from coasm.codeobject import load
from coasm.llvm.find import Llvm
from coasm.llvm.run import assemble, link
from tests.compare.objects import source

_LINE = re.compile(r"^\t(.*?) *// ([0-9A-F]+): ([0-9A-F ]+)", re.M)


def test_every_line_of_the_disassembler(fixture_object: tuple[str, Path], llvm: Llvm) -> None:
    name, path = fixture_object
    if not name.startswith("template-"):
        pytest.skip("data and labels among its code: see test_exact")
    co = load(path)
    command = [llvm.objdump, "-d", "-z", f"--mattr={','.join(features(co))}", str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        pytest.skip("LLVM has no disassembler for it")
    text = done.stdout
    assert [item[:3] for code in decode(co, llvm).values() for item in code] == [
        (int(address, 16), b"".join(bytes.fromhex(w)[::-1] for w in words.split()), printed)
        for printed, address, words in _LINE.findall(text)
    ]


def test_halves_are_what_a_whole_disassembly_prints(llvm: Llvm) -> None:
    body = """
        s_load_b32 s4, s[0:1], 0x0
        v_add_f16 v1.l, v2.h, v3.l
        v_cvt_f32_f16 v4, v5.h
        v_add_f32 v6, v7, v8
        v_add_f16 v1.l, v2.h, v3.l
        v_pk_add_f16 v1, v2, v3
        s_endpgm
    """
    text = source({"k": body}, "gfx1100").encode()
    made = assemble(llvm, text, target_from_text("gfx1100"), 5, TRUE16)
    assert made.data is not None, made.messages
    co = load(link(llvm, [made.data]))
    again, whole = with_halves(co, llvm, decode(co, llvm)), decode(co, llvm, extra=(TRUE16,))
    assert {i: list(c) for i, c in again.items()} == {i: list(c) for i, c in whole.items()}
    (code,) = again.values()
    assert "v_cvt_f32_f16_e32 v4, v5.h" in code.texts


_TEXTS = st.sampled_from(("s_nop 0", "s_endpgm", "v_add_f32_e32 v0, v1, v2", "s_branch 4"))
_ITEMS = st.lists(
    st.tuples(st.integers(1, 3), st.one_of(_TEXTS, st.none()), st.booleans()), min_size=1
)


@given(_ITEMS)
def test_columns_are_their_items(parts: list[tuple[int, str | None, bool]]) -> None:
    items: list[Item] = []
    address = 0x1000
    for number, (words, text, registers) in enumerate(parts):
        data = bytes([number & 0xFF]) * (4 * words)
        if text is None:
            items.append(Raw(address, data, "a reason"))
        else:
            items.append(Instruction(address, data, text, "v300" if registers else ""))
        address += len(data)
    code = Code.of(items)
    assert list(code) == items
    assert [code[at] for at in range(len(code))] == items
    assert (code[-1], code[1:3]) == (items[-1], items[1:3])
    assert code.data == b"".join(i.data for i in items)
    assert code.raws == [i for i in items if isinstance(i, Raw)]
    wanted = [
        at for at, i in enumerate(items) if isinstance(i, Instruction) and i.mnemonic == "s_nop"
    ]
    assert code.positions("s_nop".__eq__) == wanted
    assert [code.position(i.address) for i in items] == list(range(len(items)))
    assert code.position(address) is code.position(0x1001) is None

    # The first two items as one run of data.
    run = items[:2]
    raw = Raw(run[0].address, b"".join(i.data for i in run), "joined")
    assert list(code.with_raws([(0, len(run), [raw])])) == [raw, *items[2:]]
