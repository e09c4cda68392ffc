"""Faults of the metadata: key and line where LLVM refuses it; a warning where it takes it.

Which of the two is asked of LLVM itself, of the same source without coasm.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import coasm
from coasm.errors import AssemblyError
from coasm.llvm.find import Llvm
from coasm.llvm.run import run
from coasm.notes.faults import doubts
from tests.compare.objects import source

_TEXT = source({"k": "\ts_nop 0\n\ts_endpgm"})

#: What stands in the metadata, what is put there, the line's text, and what is said of it.
_REFUSED = [
    ("value_kind: by_value", "value_kind: by_valu", "args[1].value_kind: 'by_valu' is not known"),
    ("wavefront_size: 64", "wavefront_size: sixty // 64", "'sixty', expected a whole number"),
    ("address_space: global", "address_space: far", "address_space: 'far', expected one of const"),
    ("    .kernarg_segment_align: 8\n", "", "kernels[0]: has no .kernarg_segment_align"),
    (".vgpr_count: 16", ".vgpr_cuont: 16", "no .vgpr_count; is .vgpr_cuont meant for it?"),
    (".vgpr_count: 16", ".vgpr_count: many", "vgpr_count: 'many', expected a whole number"),
    (".vgpr_count: 16", ".vgpr_count: 1.5", "vgpr_count: '1.5', expected a whole number"),
    (".vgpr_count: 16", ".vgpr_count: [16]", "vgpr_count: is a list, expected a whole number"),
    (".vgpr_count: 16", ".vgpr_count: 99999999999999999999", "expected a whole number"),
    (".name: k\n", ".name: 5\n", "kernels[0].name: '5', expected a string"),
    (".uses_dynamic_stack: false", ".uses_dynamic_stack: no", "'no', expected true or false"),
    ("  - .name: k\n", "  - .name: k\n    .name: k\n", "kernels[0].name: stands there twice"),
    ("amdhsa.version: [ 1, 2 ]", "amdhsa.version: [ 1 ]", "version: has 1 entries, not 2"),
    ("amdhsa.version: [ 1, 2 ]\n", "", "the document: has no amdhsa.version"),
    ("amdhsa.kernels:\n", "amdhsa.kernels: 3\nx:\n", "amdhsa.kernels: is no list"),
    ("    .symbol: k.kd", "    .symbol k.kd", "no YAML: "),
    ("    .symbol: k.kd", "   .symbol: k.kd", "no YAML: "),
    ("    .symbol: k.kd", "\t.symbol: k.kd", "no YAML: "),
]

_TAKEN = [
    (".size: 4, .offset: 8", ".size: 4, .offset: 4", "args[1].offset: overlaps argument 0"),
    (".size: 4, .offset: 8", ".size: 4, .offset: 22", "bytes 22 to 26 leave the kernarg segment"),
    ("segment_align: 8", "segment_align: 24", "kernarg_segment_align: 24 is no power of two"),
    ("segment_align: 8", "segment_align: 0", "kernarg_segment_align: 0 is no power of two"),
    (".vgpr_count: 16", ".vgpr_count: -1", "vgpr_count: -1 is negative"),
    ("segment_size: 24", f"segment_size: {1 << 60}", "more than a descriptor's 32 bits can say"),
    (".symbol: k.kd", ".symbol: kk.kd", "no symbol 'kk.kd'; did you mean 'k.kd'?"),
    (".symbol: k.kd", ".symbol: k", "'k' is no kernel descriptor's"),
    (".vgpr_count: 16", '.vgpr_count: "0x10"', None),
    (".vgpr_count: 16", ".vgpr_count: 16\n    .mine: [1, {x: y}]", None),
    (".size: 4, .offset: 8", ".size: 4, .offset: 20", None),
]


def _edited(old: str, new: str) -> tuple[str, int]:
    """The source with *new* for *old*, and the line (from 1 on) where that is."""
    at = _TEXT.index(old)
    line = _TEXT.count("\n", 0, at) + 1
    return _TEXT[:at] + new + _TEXT[at + len(old) :], line + new.startswith("  - ")


def _llvm_takes(llvm: Llvm, text: str, folder: Path) -> bool:
    (folder / "k.s").write_text(text)
    command = [llvm.clang, "-x", "assembler", "-c", "--target=amdgcn-amd-amdhsa"]
    done = run([*command, "-mcpu=gfx942", str(folder / "k.s"), "-o", os.devnull])
    return done.returncode == 0


@pytest.mark.parametrize(("old", "new", "said"), _REFUSED)
def test_what_llvm_refuses(llvm: Llvm, tmp_path: Path, old: str, new: str, said: str) -> None:
    text, line = _edited(old, new)
    assert not _llvm_takes(llvm, text, tmp_path)
    with pytest.raises(AssemblyError) as caught:
        coasm.assemble(text, name="k.s", target="gfx942")
    error = str(caught.value)
    assert said in error and "invalid HSA metadata" not in error
    if new and "no ." not in said and not new.startswith("amdhsa.kernels: 3"):
        assert error.startswith(f"k.s:{line}:"), error
    else:  # what is missing is missed where its map begins
        assert error.startswith("k.s:") and error.count("error:") == 1


@pytest.mark.parametrize(("old", "new", "said"), _TAKEN)
def test_what_llvm_takes(llvm: Llvm, tmp_path: Path, old: str, new: str, said: str | None) -> None:
    text, line = _edited(old, new)
    assert _llvm_takes(llvm, text, tmp_path)
    warnings = coasm.assemble(text, name="k.s", target="gfx942").warnings
    found = [w for w in warnings if w.startswith(f"k.s:{line}: metadata: ")]
    assert [said in w for w in found] == [True] if said else not warnings


def test_two_kernels_of_one_symbol(llvm: Llvm) -> None:
    text = source({"a": "\ts_endpgm", "b": "\ts_endpgm"}).replace(".symbol: b.kd", ".symbol: a.kd")
    line = text[: text.rindex(".symbol")].count("\n") + 1
    warnings = coasm.assemble(text, name="k.s", target="gfx942").warnings
    assert any(w.startswith(f"k.s:{line}: ") and "that of kernel 0 as well" in w for w in warnings)


def test_real_metadata_gives_no_doubt(corpus: list[Path]) -> None:
    for path in corpus[::5]:
        co = coasm.load(str(path))
        assert not list(doubts(co.metadata, {symbol.name for symbol in co.symbols}))
