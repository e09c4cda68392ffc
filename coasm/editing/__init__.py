"""Code objects that can be edited: what :class:`coasm.Module` is made of."""

from __future__ import annotations

from coasm.editing.module import Module
from coasm.editing.snapshot import Place

__all__ = ["Module", "Place"]
