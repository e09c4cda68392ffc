"""Bytes → :class:`CodeObject`: the ELF file, its symbols, and its kernels."""

from coasm.codeobject.elf import Elf, Relocation, Section, Segment, Symbol
from coasm.codeobject.model import CodeObject, Kernel, load

__all__ = ["CodeObject", "Elf", "Kernel", "Relocation", "Section", "Segment", "Symbol", "load"]
