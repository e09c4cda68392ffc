"""What the rules say as text: ``coasm lint --list`` and ``--explain``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from coasm.linter.findings import ERROR
from coasm.linter.rules import GROUPS, RULES
from coasm.linter.rules.rule import Hazard, Rule, states_in
from coasm.target import processor, with_wait_states

__all__ = ["explained", "in_group", "listed", "marked"]

#: The words for producers, consumers and what of their registers counts, in a rule's table.
_WORDS = {
    "valu": "VALU",
    "salu": "SALU",
    "mfma": "MFMA",
    "xdl": "XDL MFMA",
    "sgemm": "f32 MFMA",
    "dgemm": "f64 MFMA",
    "dgemm_4x4": "f64 MFMA 4x4x4",
    "dgemm_16x16": "f64 MFMA 16x16x4",
    "dot": "v_dot",
    "trans": "transcendental",
    "vmem": "VMEM, FLAT",
    "ds": "LDS",
    "load": "load",
    "dpp": "DPP",
    "readlane": "v_readlane, v_readfirstlane",
    "lane_select": "v_readlane, v_writelane",
    "rwlane": "v_readlane, v_readfirstlane, v_writelane",
    "div_fmas": "v_div_fmas",
    "permlane_swap": "v_permlane*_swap",
    "f64_fma": "v_fma_f64, v_fmac_f64",
    "sub_dword": "write of a part",
    "mix_half": "v_fma_mixlo, v_fma_mixhi",
    "constant_move": "v_mov of a constant",
    "shifted": "shifted source",
    "wide_store": "wide store",
    "wide_store_soffset": "wide store, offset in an SGPR",
    "m0_reader": "add-TID, message, s_movrel",
    "lds_dma": "load to LDS",
    "setreg": "s_setreg",
    "getreg": "s_getreg",
    "setvskip": "s_setvskip",
    "rfe": "s_rfe",
    "ab": "A, B",
    "ab_first": "A, B",
    "ab_last": "last of eight registers of A, B",
    "c": "C",
    "reads": "reads",
    "writes": "writes",
    "touches": "reads or writes",
    "constant": "as data",
    "mask": "as carry or mask",
    "lane": "as lane number",
    "exec_data": "as data",
    "zero_flag": "vccz, execz",
}
_OUT = {"vgprs": "", "sgprs": " SGPR", "vcc": " VCC", "exec": " EXEC", "m0": " M0", "c": " C"}


def explained(rule: Rule) -> Iterator[str]:
    """What a rule says, line by line: why, its numbers by target and passes, its source."""
    yield f"{rule.name} ({rule.group}, {rule.level})"
    yield f"  {rule.title}"
    yield ""
    yield from _wrapped(rule.why)
    if rule.hazards:
        yield ""
        yield from _table(rule.hazards)
    for witness in dict.fromkeys(row.witness for row in rule.hazards if row.witness):
        yield ""
        yield from _wrapped(f"Why advice and no error: {witness}.")
    yield ""
    yield from _wrapped(f"Source: {rule.source}.")


def _wrapped(text: str) -> list[str]:
    from textwrap import wrap

    return wrap(text, 88, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)


def _table(hazards: Sequence[Hazard]) -> Iterator[str]:
    """The wait states that each row needs, below their heads; columns that say nothing left out."""
    targets = with_wait_states()
    columns = [processor(target).family.wait_states for target in targets]
    rows: list[tuple[str, ...]] = [("producer", "consumer", "", "passes", *targets, "error")]
    for hazard in hazards:
        producer = _words(hazard.producer) + _OUT.get(hazard.out, "")
        consumer = f"{_words(hazard.consumer)}: {_words(hazard.into)}"
        if hazard.unless:
            producer += f", no {_words(hazard.unless)}"
        if hazard.but:
            consumer += f", no {_words(hazard.but)}"
        passes, numbers = "", []
        for column in columns:
            states = states_in(column, hazard.states)
            if isinstance(states, Mapping):
                passes = "/".join(map(str, states))
            numbers.append(_slashed(states))
        sure = (
            "" if hazard.sure is None else f"below {_slashed(states_in(columns[-1], hazard.sure))}"
        )
        rows.append(
            (
                producer,
                consumer,
                hazard.same,
                passes,
                *numbers,
                "never" if hazard.sure == 0 else sure,
            )
        )
    rows = list(dict.fromkeys(rows))
    used = [at for at in range(len(rows[0])) if any(row[at] for row in rows[1:])]
    widths = {at: max(len(row[at]) for row in rows) for at in used}
    for row in rows:
        yield f"  {'  '.join(row[at].ljust(widths[at]) for at in used)}".rstrip()


def _words(names: str) -> str:
    return ", ".join(_WORDS.get(name, name) for name in names.split())


def _slashed(states: int | Mapping[int, int] | None) -> str:
    if isinstance(states, Mapping):
        return "/".join(map(str, states.values()))
    return "-" if states is None else str(states)


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
