"""Operands that an instruction must not have: the bugs of the rules, found."""

from __future__ import annotations

from functools import cache

from coasm.descriptor import resources
from coasm.isa import parse
from coasm.isa.kinds import is_a
from coasm.linter.findings import Finding
from coasm.linter.program import Program
from coasm.linter.rules import RULES
from coasm.linter.rules.rule import OperandBug, Rule

__all__ = ["check_operands"]


def check_operands(program: Program) -> list[Finding]:
    """The instructions of *program* that a rule's bug fits, by address.

    Raises:
        FormatError, UnsupportedError: a kernel descriptor that cannot be read.
    """
    bugs = [
        (rule, bug)
        for rule in RULES.values()
        for bug in rule.bugs
        if getattr(program.family, bug.trait)
    ]
    if not bugs:
        return []
    kinds = tuple(dict.fromkeys(bug.kind for _, bug in bugs))
    declared = {
        kernel.name: resources(kernel.descriptor, program.co.target) for kernel in program.kernels
    }
    fit: dict[tuple[str, str], list[tuple[Rule, OperandBug]]] = {}
    found = []
    for number in sorted(program.reached):
        block = program.blocks[number]
        for index in range(block.first, block.last):
            text = program.instructions[index].text
            mnemonic = text.partition(" ")[0]
            if not _is_any(mnemonic, kinds):
                continue
            name = program.name_at(index)
            if (name, text) not in fit:
                parsed, own = parse(text), declared.get(name)
                fit[name, text] = [
                    (rule, bug)
                    for rule, bug in bugs
                    if is_a(mnemonic, bug.kind) and bug.when(parsed, own)
                ]
            found += [
                rule.finding(bug.case, name, program.place(index)) for rule, bug in fit[name, text]
            ]
    return found


@cache
def _is_any(mnemonic: str, kinds: tuple[str, ...]) -> bool:
    return any(is_a(mnemonic, kind) for kind in kinds)
