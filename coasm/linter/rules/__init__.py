"""Every rule of lint: what it says, why, its numbers, its words and levels, and where that is from.

A file a group, and in it each rule once; ``coasm lint --list`` and ``--explain``, SARIF and the
tables of ``docs/lint.md`` (``scripts/lint_page.py``) are made of it.
"""

from __future__ import annotations

from coasm.errors import CoasmError
from coasm.linter.rules import hazards, operands, resources, wait_states, waits
from coasm.linter.rules.rule import Rule

__all__ = ["GROUPS", "RULES", "close_rule", "find_rule"]

#: Group → what its rules are about.
GROUPS = {
    "wait states": "instructions that must not follow each other too closely",
    "waits": "results that are used before a wait covers them",
    "resources": "what code uses against what its descriptor declares",
    "operands": "operands that the hardware does not handle",
}

_RULES = (wait_states.RULES + hazards.RULES, waits.RULES, resources.RULES, operands.RULES)

#: Every rule by its name, group after group.
RULES: dict[str, Rule] = {
    rule.name: rule._replace(group=group)
    for group, rules in zip(GROUPS, _RULES, strict=True)
    for rule in rules
}


def find_rule(name: str) -> Rule:
    """The rule *name*.

    Raises:
        CoasmError: there is none; with what may have been meant.
    """
    if name in RULES:
        return RULES[name]
    raise CoasmError(f"no rule {name!r}; {close_rule(name) or 'coasm lint --list shows them'}")


def close_rule(name: str) -> str:
    """``did you mean …?`` for a name that no rule has; empty where none is close."""
    from difflib import get_close_matches

    close = get_close_matches(name, RULES, n=1)
    return f"did you mean {close[0]!r}?" if close else ""
