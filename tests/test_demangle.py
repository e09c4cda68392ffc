"""Demangled names, as the Itanium C++ ABI's rules give them."""

from __future__ import annotations

import pytest

from coasm.demangle import beside, demangle
from coasm.llvm.find import Llvm


def test_demangle(llvm: Llvm) -> None:
    if llvm.cxxfilt is None:
        pytest.skip("no llvm-cxxfilt")
    names = [
        "_Z3addPii", "plain", "main", "_Z9not valid", "_Znonsense", "_Z3foov\n", "-h", "@x",
        "_ZN3foo3barE", "_Z3addPii",
    ]  # fmt: skip
    found = demangle(names)
    assert found == {"_Z3addPii": "add(int*, int)", "_ZN3foo3barE": "foo::bar"}
    assert beside("_Z3addPii", found) == "_Z3addPii  add(int*, int)"
    assert beside("plain", found) == "plain"


def test_many_names(llvm: Llvm) -> None:
    if llvm.cxxfilt is None:
        pytest.skip("no llvm-cxxfilt")
    names = [f"_Z{5 + len(str(n))}kern_{n}v" for n in range(30_000)]
    assert demangle(names) == {name: f"kern_{n}()" for n, name in enumerate(names)}


def test_without_the_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COASM_LLVM", "/nonexistent")
    assert demangle(["_Z3addPii"]) == {}
