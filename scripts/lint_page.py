"""Write the tables of rules in ``docs/lint.md``, or in the page named, from the rules of lint."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from coasm.linter.rules import GROUPS
from coasm.linter.rules.explain import in_group, marked
from coasm.linter.rules.rule import Rule, states_in
from coasm.target import processor, with_wait_states

_PAGE = Path(__file__).parent.parent / "docs" / "lint.md"


def _only_on(rule: Rule) -> str:
    """The targets that have its hazards, where others have none of them."""
    named = [
        target
        for target in with_wait_states()
        if any(states_in(processor(target).family.wait_states, h.states) for h in rule.hazards)
    ]
    return f" ({', '.join(named)})" if 0 < len(named) < len(with_wait_states()) else ""


def main(path: Path) -> None:
    """Below the heading of each group the rows of the first table are made anew."""
    page = path.read_text(encoding="utf-8")
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
