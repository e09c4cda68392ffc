"""What an edit can break and no assembler checks: wait states, waits, resources, operands."""

from coasm.linter.findings import ADVICE, ERROR, Finding, Fix, Place

__all__ = ["ADVICE", "ERROR", "Finding", "Fix", "Place"]
