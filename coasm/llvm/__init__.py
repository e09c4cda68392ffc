"""Finds and drives llvm-objdump, clang and lld; the only room that starts a process."""

from coasm.llvm.find import MINIMUM_VERSION, Llvm, find_llvm

__all__ = ["MINIMUM_VERSION", "Llvm", "find_llvm"]
