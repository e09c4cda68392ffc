"""Code objects for another target: what stands in the way, and the object where nothing does."""

from __future__ import annotations

from coasm.port.porting import Ported, port

__all__ = ["Ported", "port"]
