"""What a source's text tells of its declarations agrees with what its code does."""

from __future__ import annotations

from pathlib import Path

import pytest

import coasm
from coasm.codeobject import load
from coasm.linter.built import declaration_warnings
from coasm.linter.declared import text_fits
from coasm.llvm import Llvm
from tests.linter.sources import CLEAN, listing


def warnings(llvm: Llvm, text: str) -> tuple[bool, list[str]]:
    """What the text alone says, and what the code does (no text ever fits an empty one)."""
    co = load(coasm.assemble(text).data, name="k")
    return text_fits(text, co), declaration_warnings(co, llvm, "\t.long 0\n")


@pytest.mark.parametrize(
    ("line", "fits"),
    [
        ("v_mov_b32 v1, v2", True),
        ("v_mov_b32 v200, v2", False),
        ("v_mov_b32 v1, v[200:200]", False),
        ("s_mov_b64 s[98:99], 0", False),
        ("v_accvgpr_read_b32 v1, a77", False),
        ("s_nop 0 // v255 is not used", False),  # a comment is not told from code
        (".set n, 255\n\tv_mov_b32 v[n], 0", False),
        (".macro use r\n\tv_mov_b32 v\\r, 0\n.endm\n\tuse 255", False),
        (".rept 2\n\tv_mov_b32 v1, 0\n.endr", False),
        (".long 0x7ffe0300", False),  # v_mov_b32 v255, v0
        ("ds_read_b32 v1, v2 offset:65532", True),  # no LDS is declared: nothing to go beyond
    ],
)
def test_what_the_text_says(llvm: Llvm, line: str, fits: bool) -> None:
    text = listing(CLEAN.replace("\ts_endpgm", f"\t{line}\n\ts_endpgm"))
    try:
        said, found = warnings(llvm, text)
    except coasm.CoasmError:
        pytest.fail("LLVM refuses the line")
    if said:
        assert found == []
    if not fits:
        assert not said


def test_what_fits_has_no_warning(llvm: Llvm, corpus: list[Path]) -> None:
    """Of real listings: most fit, and what fits is warned of by nobody."""
    paths = [path for path in corpus if "gfx1250" not in str(path)][::12]
    fitting = 0
    for path in paths:
        co = coasm.load(path)
        if text_fits(coasm.disassemble(co).text, co):
            fitting += 1
            assert declaration_warnings(co, llvm, "\t.long 0\n") == [], path.name
    assert fitting > len(paths) / 2
