"""An instruction as data: its mnemonic, operands, modifiers, the registers it uses."""

from __future__ import annotations

from coasm.isa.access import Access, access, takes_lanes
from coasm.isa.registers import AGPR, EXEC, M0, SCC, VCC, VGPR, register_name
from coasm.isa.text import Literal, Operand, Parsed, Register, Word, parse

__all__ = [
    "AGPR",
    "EXEC",
    "M0",
    "SCC",
    "VCC",
    "VGPR",
    "Access",
    "Literal",
    "Operand",
    "Parsed",
    "Register",
    "Word",
    "access",
    "parse",
    "register_name",
    "takes_lanes",
]
