"""What the rules say as text: ``coasm lint --list`` and ``--explain``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from coasm.linter.findings import ERROR
from coasm.linter.operation import KINDS
from coasm.linter.rules import GROUPS, RULES
from coasm.linter.rules.rule import EVER, Hazard, Rule, states_in
from coasm.target import generations

__all__ = ["explained", "in_group", "listed", "marked"]

#: The words for roles, and for what of a producer's registers counts, in a rule's table.
_ROLES = {
    "shifted": "shifted source",
    "ab": "A, B",
    "ab_first": "A, B",
    "ab_last": "last of eight registers of A, B",
    "c": "C",
    "touches": "reads or writes",
    "constant": "as data",
    "mask": "as carry or mask",
    "lane": "as lane number",
    "exec_data": "as data",
    "zero_flag": "vccz, execz",
    "order": "anything",
    "results": "writes",
    "sources": "reads",
    "scratch base": "reads",
}
_OUT = {"exec reads": " reads EXEC", "scalar reads": " reads SGPR", "sources": " sources"}
_OUT |= {
    "ab": " A, B",
    "agprs": "",
    "arch vgprs": "",
    "registers": "",
    "scratch base": " s102, s103",
}
_OUT |= {"vgprs": "", "sgprs": " SGPR", "vcc": " VCC", "exec": " EXEC", "m0": " M0", "c": " C"}


def explained(rule: Rule) -> Iterator[str]:
    """What a rule says, line by line: why, its numbers by target and passes, its source."""
    yield f"{rule.name} ({rule.group}, {rule.level})"
    yield f"  {rule.title}"
    yield ""
    yield from _wrapped(rule.why)
    if rule.hazards:
        yield ""
        yield from _table(rule.hazards)
    for said in dict.fromkeys(filter(None, map(_manner, rule.hazards))):
        yield ""
        yield from _wrapped(said)
    for witness in dict.fromkeys(row.witness for row in rule.hazards if row.witness):
        yield ""
        yield from _wrapped(f"Why advice and no error: {witness}.")
    yield ""
    yield from _wrapped(f"Source: {rule.source}.")


def _manner(hazard: Hazard) -> str:
    """What counts as a state, what clears it and what has to come in between, in words."""
    parts = []
    if hazard.counts:
        also = ""
        if hazard.or_enough is not None:
            other, number = hazard.or_enough
            also = f"; {number} of another are enough, too: {_words(other)}"
        parts.append(f"Such instructions alone are states: {_words(hazard.counts)}{also}.")
    if hazard.cleared:
        parts.append(f"Nothing is needed behind {_words(hazard.cleared)}.")
    if hazard.through:
        parts.append(f"Only past {_words(hazard.through)}.")
    return " ".join(parts)


def _wrapped(text: str) -> list[str]:
    from textwrap import wrap

    return wrap(text, 88, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)


def _table(hazards: Sequence[Hazard]) -> Iterator[str]:
    """The wait states that each row needs, below their heads; columns that say nothing left out."""
    columns, targets = tuple(generations()), tuple(generations().values())
    rows: list[tuple[str, ...]] = [("producer", "consumer", "", "passes", *targets, "error")]
    for hazard in hazards:
        producer = _words(hazard.producer) + _OUT.get(hazard.out, "")
        into = "writes EXEC" if hazard.into == "exec writes" else _words(hazard.into)
        consumer = f"{_words(hazard.consumer)}: {into}"
        if hazard.unless:
            producer += f", no {_words(hazard.unless)}"
        if hazard.but:
            consumer += f", no {_words(hazard.but)}"
        passes, numbers = "", []
        for column in columns:
            states = hazard.states_on(column)
            if isinstance(states, Mapping):
                passes = "/".join(map(str, states))
            numbers.append(_slashed(states))
        sure = next((s for c in columns if (s := states_in(c, hazard.sure)) is not None), None)
        error = "" if sure is None else "never" if sure == 0 else f"below {_slashed(sure)}"
        rows.append((producer, consumer, hazard.same, passes, *numbers, error))
    rows = list(dict.fromkeys(rows))
    used = [at for at in range(len(rows[0])) if any(row[at] not in ("", "-") for row in rows[1:])]
    widths = {at: max(len(row[at]) for row in rows) for at in used}
    for row in rows:
        yield f"  {'  '.join(row[at].ljust(widths[at]) for at in used)}".rstrip()


def _words(names: str) -> str:
    return ", ".join(KINDS.get(name) or _ROLES.get(name, name) for name in _split(names))


def _split(names: str) -> list[str]:
    return [names] if names in _ROLES else names.split()


def _slashed(states: int | Mapping[int, int] | None) -> str:
    if isinstance(states, Mapping):
        return "/".join(map(str, states.values()))
    return "-" if states is None else "any" if states == EVER else str(states)


def listed() -> Iterator[str]:
    """Every rule, a line each, by group; advice is marked."""
    width = max(map(len, RULES))
    for number, (group, about) in enumerate(GROUPS.items()):
        if number:
            yield ""
        yield f"{group}: {about}"
        for rule in in_group(group):
            yield f"  {rule.name:<{width}}  {marked(rule)}"


def in_group(group: str) -> Iterator[Rule]:
    """The rules of a group, in their order."""
    return (rule for rule in RULES.values() if rule.group == group)


def marked(rule: Rule) -> str:
    """The title of a rule; advice is marked."""
    return rule.title if rule.level == ERROR else f"{rule.title} ({rule.level})"
