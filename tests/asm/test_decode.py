"""Decoded code: what llvm-objdump prints, line by line, and the columns that it is kept in."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coasm.asm.code import Code, Instruction, Item, Raw
from coasm.asm.decode import decode, features
from coasm.asm.halves import without_halves
from coasm.codeobject import CodeObject, load
from coasm.llvm.find import Llvm
from coasm.llvm.run import TRUE16, assemble, link
from coasm.target import TargetID
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


_HALVES = """
    s_load_b32 s4, s[0:1], 0x0
    v_add_f16 v1.l, v2.l, v3.l
    v_cvt_f32_f16 v4, v5.l
    v_cmp_lt_f16 s2, v0.l, s3
    v_add_f32 v6, v7, v8
    v_pk_add_f16 v1, v2, v3
    v_mad_u16 v1.l, v2.h, v3.l, v4.l op_sel:[1,0,0,0]
    s_endpgm
"""


@pytest.mark.parametrize("target", ["gfx1100", "gfx1150", "gfx1201", "gfx1250"])
def test_lower_halves_are_what_llvm_prints_by_itself(target: str, llvm: Llvm) -> None:
    co = _with_halves(_HALVES, target, llvm)
    code = decode(co, llvm, extra=(TRUE16,))
    (texts,) = [own.texts for own in code.values()]
    assert "v_cvt_f32_f16_e32 v4, v5.l" in texts
    found = without_halves(co, llvm, code)
    assert found is not None
    assert {i: list(c) for i, c in found.items()} == {
        i: list(c) for i, c in decode(co, llvm).items()
    }


@pytest.mark.parametrize("target", ["gfx1100", "gfx1150", "gfx1201"])
@pytest.mark.parametrize("upper", ["v_cvt_f32_f16 v4, v5.h", "v_mov_b16 v1.l, v2.h"])
def test_upper_halves_need_their_names(upper: str, target: str, llvm: Llvm) -> None:
    """Where LLVM does not name them by itself, its text says less than the encoding."""
    co = _with_halves(_HALVES.replace("s_endpgm", f"{upper}\n s_endpgm"), target, llvm)
    found = without_halves(co, llvm, decode(co, llvm, extra=(TRUE16,)))
    plain = [text for own in decode(co, llvm).values() for text in own.texts]
    named = any(text.endswith("v5.h") or text.endswith("v2.h") for text in plain)
    assert (found is not None) == named


def _with_halves(body: str, target: str, llvm: Llvm) -> CodeObject:
    text = source({"k": body}, target).encode()
    made = assemble(llvm, text, TargetID.parse(target), 5, TRUE16)
    assert made.data is not None, made.messages
    return load(link(llvm, [made.data]))


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
