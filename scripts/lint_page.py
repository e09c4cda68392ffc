"""Write the tables of rules in ``docs/lint.md``, or in the page named, from the rules of lint."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from coasm.linter.rules import GROUPS
from coasm.linter.rules.explain import in_group, marked
from coasm.linter.rules.rule import Rule
from coasm.target import PROCESSORS, generations

_PAGE = Path(__file__).parent.parent / "docs" / "lint.md"


def _only_on(rule: Rule) -> str:
    """The generations that have its hazards, where others have none of them."""
    targets = list(generations().values())
    at = [
        number
        for number, column in enumerate(generations())
        if any(hazard.states_on(column) for hazard in rule.hazards)
    ]
    if not at or len(at) == len(targets):
        return ""
    runs: list[list[int]] = []
    for number in at:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return " (" + ", ".join(_run([targets[number] for number in run]) for run in runs) + ")"


def _run(targets: list[str]) -> str:
    return f"{targets[0]} to {targets[-1]}" if len(targets) > 1 else targets[0]


def _targets() -> str:
    """A row for each generation: its processors, wait counters, and rules for wait states."""
    rows = ""
    for column in generations():
        family = [p for p in PROCESSORS.values() if p.family.wait_states == column]
        names = ", ".join(one.name for one in family)
        counters = family[0].family.counters
        waits = ", ".join(counters.names) if counters else "none"
        rules = sum(
            any(hazard.states_on(column) for hazard in rule.hazards)
            for group in GROUPS
            for rule in in_group(group)
        )
        rows += f"| {names} | {waits} | {rules} |\n"
    return rows


def main(path: Path) -> None:
    """Below the heading of each group the rows of the first table are made anew."""
    page = path.read_text(encoding="utf-8")
    head = r"(?s)(\n### Targets\n.*?\n\| targets \|[^\n]*\n\|[-|]+\|\n)(?:\|[^\n]*\n)*"
    page, count = re.subn(head, lambda table: table[1] + _targets(), page, count=1)
    if not count:
        sys.exit(f"{path}: no table of targets")
    for group in GROUPS:
        rows = "".join(
            f"| `{rule.name}` | {marked(rule)}{_only_on(rule)} |\n" for rule in in_group(group)
        )
        head = rf"(?s)(\n### {group.capitalize()}\n.*?\n\| rule \| \|\n\|-+\|-+\|\n)(?:\|[^\n]*\n)*"
        page, count = re.subn(head, lambda table, rows=rows: table[1] + rows, page, count=1)
        if not count:
            sys.exit(f"{path}: no table below the heading of {group}")
    path.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else _PAGE)
