"""What instructions do, on all waves of a group at once: importing this fills the table of rows."""

from coasm.emulator.rows import floats, flow, integer, matrix, mem, narrow, scalar

__all__ = ["floats", "flow", "integer", "matrix", "mem", "narrow", "scalar"]
