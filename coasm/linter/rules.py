"""Every rule of lint by its name: what it says, why, and where that is from."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["RULES", "Rule"]


class Rule(NamedTuple):
    """A rule. ``title`` is the head of its findings, ``why`` what goes wrong, ``source`` of that.

    ``group`` is ``wait states``, ``waits``, ``resources`` or ``operands``; ``level`` what its
    findings are unless a row of its table says otherwise.
    """

    name: str
    group: str
    level: str
    title: str
    why: str
    source: str


_RULES: tuple[Rule, ...] = ()

RULES: dict[str, Rule] = {rule.name: rule for rule in _RULES}
