"""What lint found as text, JSON and SARIF."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from coasm.linter.findings import Finding, Place
from coasm.linter.lint import Linted, Note
from coasm.linter.rules import RULES
from coasm.linter.rules.explain import explained
from coasm.linter.rules.rule import Rule

__all__ = ["finding_json", "finding_line", "lines", "sarif", "to_json"]

#: A text and what it is: ``error``, ``advice``, ``note``, ``place``, ``""``.
Span = tuple[str, str]


def lines(linted: Linted) -> Iterator[Sequence[Span]]:
    """A line for each finding and note of one source, in the style of a compiler.

    Where it has several kernels a line names the one that the findings below are in. What one wait
    would cover is one line, that of the strictest.
    """
    kernel = ""
    for _, group in groupby(linted.findings, lambda f: (f.kernel, f.place, f.rule, f.level)):
        findings = list(group)
        if findings[0].kernel != kernel and linted.kernels > 1:
            kernel = findings[0].kernel
            yield [(f"{linted.path}: in {kernel}:", "place")]
        if RULES[findings[0].rule].group != "waits":
            for finding in findings:
                yield finding_line(linted.path, finding)
            yield from _shown(findings[0].place)
            continue
        strictest = min(findings, key=lambda f: -1 if f.needs is None else f.needs)
        line = finding_line(linted.path, strictest)
        if len(findings) > 1:
            line = [*line, (f" (so do {len(findings) - 1:,} more)", "")]
        yield line
        yield from _shown(strictest.place)
    for note in linted.notes:
        where = linted.path if note.line is None else f"{linted.path}:{note.line}"
        if note.place is not None:
            where = _where(linted.path, note.place)
        yield [(f"{where}: ", "place"), ("note: ", "note"), (note.text, "")]


def _shown(place: Place) -> Iterator[Sequence[Span]]:
    """The source line of a finding, and a caret below what it is about."""
    if place.column is None:
        return
    before = place.source[: place.column - 1]
    blank = "".join("\t" if char == "\t" else " " for char in before)
    yield [(f"    {place.source}".expandtabs(8), "")]
    yield [(f"    {blank}".expandtabs(8), ""), ("^" + "~" * (place.width - 1), "error")]


def finding_line(path: str, finding: Finding, level: str | None = None) -> Sequence[Span]:
    """One finding as a line; *level* is what it is called, where that is not its own level."""
    return [
        (f"{_where(path, finding.place)}: ", "place"),
        (f"{level or finding.level}[{finding.rule}]: ", finding.level),
        (_message(finding), ""),
        (_made_by(path, finding.place), ""),
    ]


def _where(path: str, place: Place) -> str:
    number = f"{place.address:#x}" if place.line is None else str(place.line)
    if place.column is not None:
        number += f":{place.column}"
    return f"{place.file or path}:{number}"


def _made_by(path: str, place: Place) -> str:
    """The macro that made the instruction, and where."""
    if place.body is None:
        return ""
    file, line = place.body
    return f" (in macro {place.macro}, {file or path}:{line})"


def _message(finding: Finding) -> str:
    """What, where the producer is, the numbers, what to do."""
    what = finding.what
    if finding.place.line is None and finding.place.text:
        what = f"{finding.place.text}: {what}"
    parts = [what]
    producer = finding.producer
    if producer is not None:
        where = f"{producer.address:#x}" if producer.line is None else f"line {producer.line}"
        if producer.file is not None and producer.line is not None:
            where = f"{producer.file}:{producer.line}"
        elif producer.body is not None and producer.body != finding.place.body:
            file, line = producer.body
            where += f" (macro {producer.macro}, {f'{file}:' if file else 'line '}{line})"
        text = producer.text if producer.line is None else producer.text.split(None, 1)[0]
        parts.append(f"producer {text} at {where}")
    if finding.has is not None and finding.needs is not None:
        unit = ""
        if RULES[finding.rule].group == "wait states":
            unit = " wait state" if finding.has == 1 else " wait states"
        numbers = f"has {finding.has}{unit}, needs {finding.needs}"
        if producer is not None:
            parts[-1] += f", {numbers}"
        else:
            parts.append(numbers)
    if finding.advice:
        parts.append(finding.advice)
    return "; ".join(parts)


def to_json(linted: Linted) -> dict[str, Any]:
    """One source as a JSON object; its keys are documented in ``docs/lint.md``."""
    return {
        "path": linted.path,
        "status": linted.status,
        "target": linted.target,
        "instructions": linted.instructions,
        "findings": [finding_json(finding) for finding in linted.findings],
        "notes": [_note_json(note) for note in linted.notes],
        "advice_left_out": linted.left_out,
        "known": linted.known._asdict() if linted.known else None,
        "allowed": linted.allowed,
        "unjudged": linted.unjudged,
    }


def finding_json(finding: Finding) -> dict[str, Any]:
    """A finding with all of its fields."""
    return {
        **finding._asdict(),
        "place": finding.place._asdict(),
        "producer": finding.producer._asdict() if finding.producer else None,
        "fix": {**finding.fix._asdict(), "waits": dict(finding.fix.waits)} if finding.fix else None,
    }


def _note_json(note: Note) -> dict[str, Any]:
    place = note.place
    return {
        "text": note.text,
        "line": place.line if place else note.line,
        "address": place.address if place else None,
    }


_SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
_LEVELS = {"error": "error", "advice": "note"}


def sarif(results: Iterable[Linted]) -> dict[str, Any]:
    """All sources as one SARIF 2.1.0 log. An advice is a ``note`` there."""
    results = list(results)
    index = {name: number for number, name in enumerate(RULES)}
    unjudged = [r for r in results if r.unjudged is not None]
    return {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {"name": "coasm lint", "rules": [*map(_sarif_rule, RULES.values())]}
                },
                "invocations": [
                    {
                        "executionSuccessful": not unjudged,
                        "toolExecutionNotifications": [
                            *(
                                _notification(r.path, r.unjudged, "error")
                                for r in unjudged
                                if r.unjudged is not None
                            ),
                            *(
                                _notification(r.path, note.text, "note", note)
                                for r in results
                                for note in r.notes
                            ),
                        ],
                    }
                ],
                "results": [
                    _sarif_result(r.path, finding, index) for r in results for finding in r.findings
                ],
            }
        ],
    }


def _sarif_rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.name,
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": rule.why},
        "help": {"text": "\n".join(explained(rule))},
        "defaultConfiguration": {"level": _LEVELS[rule.level]},
        "properties": {"tags": [rule.group]},
    }


def _sarif_result(path: str, finding: Finding, index: Mapping[str, int]) -> dict[str, Any]:
    result = {
        "ruleId": finding.rule,
        "ruleIndex": index[finding.rule],
        "level": _LEVELS[finding.level],
        "message": {"text": _message(finding)},
        "locations": [
            {
                "physicalLocation": _physical(path, finding.place),
                "logicalLocations": [{"name": finding.kernel, "kind": "function"}],
            }
        ],
    }
    if finding.producer is not None:
        result["relatedLocations"] = [
            {
                "physicalLocation": _physical(path, finding.producer),
                "message": {"text": f"producer {finding.producer.text}"},
            }
        ]
    return result


def _physical(path: str, place: Place | None, line: int | None = None) -> dict[str, Any]:
    if place is not None and place.file is not None:
        path = place.file
    location: dict[str, Any] = {"artifactLocation": {"uri": _uri(path)}}
    line = place.line if place else line
    if line is not None:
        location["region"] = {"startLine": line}
        if place is not None and place.column is not None:
            location["region"] |= {
                "startColumn": place.column,
                "endColumn": place.column + place.width,
            }
    elif place is not None:
        location["address"] = {"absoluteAddress": place.address}
    return location


def _notification(path: str, text: str, level: str, note: Note | None = None) -> dict[str, Any]:
    place = _physical(path, note.place if note else None, note.line if note else None)
    return {"level": level, "message": {"text": text}, "locations": [{"physicalLocation": place}]}


def _uri(path: str) -> str:
    """A relative reference for what lies beneath the current directory, else a ``file`` URI."""
    from urllib.parse import quote

    from coasm.bundle.select import split

    path = split(path)[0]
    relative = os.path.relpath(path)
    if relative.startswith(".."):
        return "file://" + quote(os.fsencode(os.path.abspath(path)))
    return quote(os.fsencode(relative.replace(os.sep, "/")))
