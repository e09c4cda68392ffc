"""A code object that can be asked about its code: what :func:`coasm.load` gives."""

from __future__ import annotations

from coasm.reading.objects import CodeObject, Kernel, readable

__all__ = ["CodeObject", "Kernel", "readable"]
