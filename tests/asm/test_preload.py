"""Kernels with preloaded arguments keep their second entry, and lint knows where that must be.

Firmware that preloads enters 256 bytes behind the kernel's entry (LLVM AMDGPU usage, "Preloaded
Kernel Arguments"). The kernels are LLVM's own, and the fixture's.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

import coasm
from coasm.codeobject import CodeObject, load
from coasm.errors import AssemblyError
from coasm.llvm import Llvm

_SOURCE = """
kernel void scale(global float *out, int a, int b, float c) {
  out[__builtin_amdgcn_workitem_id_x()] = c * (float)(a - b);
}
"""
_ORG = re.compile(r"\t\.p2align\t8\n\t\.org \w+\+256 .*\n")


@pytest.fixture(scope="module", params=["gfx90a", "gfx942", "gfx950"])
def compiled(request: pytest.FixtureRequest, llvm: Llvm) -> CodeObject:
    command = [llvm.clang, "-x", "cl", "-cl-std=CL2.0", "-target", "amdgcn-amd-amdhsa", "-O2"]
    command += [f"-mcpu={request.param}", "-nogpulib", "-w", "-", "-o", "-"]
    command += ["-mllvm", "-amdgpu-kernarg-preload-count=8"]
    done = subprocess.run(command, input=_SOURCE.encode(), capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"this clang preloads no arguments: {done.stderr[:80]!r}")
    return load(done.stdout, name="scale.co")


def _body(co: CodeObject) -> bytes:
    """What is 256 bytes behind the entry, to the end of the kernel."""
    kernel = co.kernels[0]
    size = next(s.size for s in co.symbols if s.name == kernel.name)
    found = co.bytes_at(kernel.entry + 256, size - 256 if size > 256 else 8)
    assert found
    return found


def test_an_edit_of_the_prologue_leaves_the_rest_where_it_is(compiled: CodeObject) -> None:
    assert compiled.kernels[0].descriptor[58] & 127  # the count of preloaded SGPRs
    text = coasm.disassemble(compiled).text
    assert coasm.assemble(text, like=compiled).data == compiled.data
    assert len(_ORG.findall(text)) == 1
    first = re.search(r"^scale:\n", text, re.M)
    assert first is not None
    for count in (1, 3):
        edited = text[: first.end()] + "\ts_nop 1\n" * count + text[first.end() :]
        made = load(coasm.assemble(edited).data)
        assert _body(made) == _body(compiled)
        assert not coasm.lint(made)
    shorter = re.sub(r"\ts_waitcnt lgkmcnt\(0\)\n", "", text, count=1)
    assert shorter != text
    assert _body(load(coasm.assemble(shorter).data)) == _body(compiled)
    with pytest.raises(AssemblyError, match=r"invalid \.org offset"):
        coasm.assemble(text[: first.end()] + "\ts_nop 1\n" * 64 + text[first.end() :])


def test_lint_finds_a_body_that_moved(compiled: CodeObject) -> None:
    """As before there was a directive: the padding as instructions, and one more before it."""
    text = coasm.disassemble(compiled).text
    assert not coasm.lint(compiled)
    literal = _ORG.sub("\t.fill 63, 4, 0xbf800000\n", text)
    found = coasm.lint(load(coasm.assemble(literal).data))
    assert [(f.rule, f.advice) for f in found] == [
        (
            "preload-entry",
            "the code must begin 256 bytes behind scale: pad its prologue with s_nop",
        )
    ]


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_the_fixture(target: str, fixture_objects: list[tuple[str, Path]]) -> None:
    path = dict(fixture_objects)[f"preload-{target}-v5"]
    text = coasm.disassemble(path).text
    assert "\t.org preload+256" in text
    edited = text.replace("\npreload:\n", "\npreload:\n\ts_nop 1\n")
    assert edited != text
    assert _body(load(coasm.assemble(edited).data)) == _body(load(path))


def test_gfx1250_is_entered_at_its_entry(fixture_objects: list[tuple[str, Path]]) -> None:
    """LLVM's needsKernArgPreloadProlog is false for it."""
    assert ".org" not in coasm.disassemble(dict(fixture_objects)["preload-gfx1250-v6"]).text
