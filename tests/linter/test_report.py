"""What lint prints: text, JSON, SARIF; and what is said of each rule."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from coasm.errors import CoasmError
from coasm.linter.findings import ADVICE, ERROR, Finding, Fix, Place
from coasm.linter.lint import Linted, Note
from coasm.linter.report import lines, sarif, to_json
from coasm.linter.rules import GROUPS, RULES, find_rule
from coasm.linter.rules.explain import explained, listed

_AT_LINE = Finding(
    "mfma-source",
    ERROR,
    "k",
    Place(0x1A10, 12, "v_mfma_f32_32x32x8_f16 v[0:15], v[16:17], v[2:3], 0"),
    "an MFMA reads: v[16:17]",
    "insert s_nop 7 before it",
    Place(0x1A00, 9, "v_mfma_f32_32x32x8_f16 v[16:31], v[0:1], v[2:3], 0"),
    3,
    11,
    Fix(states=8),
)
_AT_ADDRESS = _AT_LINE._replace(
    level=ADVICE,
    kernel="other",
    place=_AT_LINE.place._replace(line=None),
    producer=Place(0x1A00, None, "v_mfma"),
)
_METADATA = Finding("metadata", ERROR, "k", Place(0x1900, 4, ""), "they disagree", "change one")


def _text(*findings: Finding, **more: Any) -> list[str]:
    linted = Linted("k.s", "gfx942", 4, findings=findings, **more)
    return ["".join(text for text, _ in line) for line in lines(linted)]


def test_a_finding_is_a_line_that_editors_jump_to() -> None:
    assert _text(_AT_LINE) == [
        "k.s:12: error[mfma-source]: an MFMA reads: v[16:17]; producer v_mfma_f32_32x32x8_f16 at "
        "line 9, has 3 wait states, needs 11; insert s_nop 7 before it"
    ]
    assert _text(_METADATA) == ["k.s:4: error[metadata]: they disagree; change one"]


def test_without_lines_there_are_addresses_and_instructions() -> None:
    assert _text(_AT_ADDRESS) == [
        "k.s:0x1a10: advice[mfma-source]: v_mfma_f32_32x32x8_f16 v[0:15], v[16:17], v[2:3], 0: "
        "an MFMA reads: v[16:17]; producer v_mfma at 0x1a00, has 3 wait states, needs 11; "
        "insert s_nop 7 before it"
    ]


def test_one_wait_state_is_singular() -> None:
    assert "has 1 wait state, needs 11" in _text(_AT_LINE._replace(has=1))[0]


def test_kernels_are_named_where_there_are_several() -> None:
    found = _text(_AT_LINE, _AT_LINE, _AT_ADDRESS, kernels=2)
    assert [line for line in found if "error" not in line and "advice" not in line] == [
        "k.s: in k:",
        "k.s: in other:",
    ]


def test_notes() -> None:
    notes = (Note("about a place", _AT_LINE.place), Note("a line", line=3), Note("all of it"))
    assert _text(notes=notes) == [
        "k.s:12: note: about a place",
        "k.s:3: note: a line",
        "k.s: note: all of it",
    ]


def test_json_has_every_field_of_a_finding() -> None:
    linted = Linted("k.s", "gfx942", 4, findings=(_AT_LINE, _METADATA), notes=(Note("n", line=2),))
    data = json.loads(json.dumps(to_json(linted)))
    assert list(data) == [
        "path",
        "status",
        "target",
        "instructions",
        "findings",
        "notes",
        "advice_left_out",
        "known",
        "allowed",
        "unjudged",
    ]
    first, second = data["findings"]
    assert tuple(first) == tuple(second) == Finding._fields
    place = first["place"]
    assert (place["address"], place["line"], place["text"]) == _AT_LINE.place[:3]
    assert first["fix"] == {**Fix(states=8)._asdict(), "waits": {}}
    assert tuple(first["fix"]) == ("states", "waits", "instruction", "times")
    assert second["producer"] is None and second["fix"] is None
    assert data["notes"] == [{"text": "n", "line": 2, "address": None}]
    assert data["status"] == "findings"


#: Object of SARIF → properties that it must have, and those that it may have of what is written
#: here. Source: the JSON schema of SARIF 2.1.0 (OASIS).
_SARIF: dict[str, tuple[set[str], set[str]]] = {
    "log": ({"version", "runs"}, {"$schema"}),
    "run": ({"tool"}, {"invocations", "results"}),
    "tool": ({"driver"}, set()),
    "driver": ({"name"}, {"rules"}),
    "rule": (
        {"id"},
        {"shortDescription", "fullDescription", "help", "defaultConfiguration", "properties"},
    ),
    "result": (
        {"message"},
        {"ruleId", "ruleIndex", "level", "locations", "relatedLocations"},
    ),
    "invocation": ({"executionSuccessful"}, {"toolExecutionNotifications"}),
    "notification": ({"message"}, {"level", "locations"}),
    "location": (set(), {"physicalLocation", "logicalLocations", "message"}),
    "physicalLocation": (set(), {"artifactLocation", "region", "address"}),
    "text": ({"text"}, set()),
}


def _fits(kind: str, data: dict[str, Any]) -> dict[str, Any]:
    must, may = _SARIF[kind]
    assert must <= set(data) <= must | may, (kind, set(data))
    return data


def test_sarif_has_what_its_schema_requires() -> None:
    refused = Linted("no.s", unjudged="no.s: not there", refused=True)
    found = Linted(
        "a b/k.s", "gfx942", 4, findings=(_AT_LINE, _AT_ADDRESS), notes=(Note("n", line=2),)
    )
    log = _fits("log", json.loads(json.dumps(sarif([found, refused]))))
    assert log["version"] == "2.1.0" and "sarif-schema-2.1.0" in log["$schema"]
    (run,) = log["runs"]
    driver = _fits("driver", _fits("tool", _fits("run", run)["tool"])["driver"])
    assert [_fits("rule", rule)["id"] for rule in driver["rules"]] == list(RULES)
    for rule in driver["rules"]:
        for part in ("shortDescription", "fullDescription", "help"):
            assert _fits("text", rule[part])["text"]
        assert rule["defaultConfiguration"]["level"] in ("error", "note")
    locations = []
    for result in run["results"]:
        _fits("text", _fits("result", result)["message"])
        assert driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
        locations += [*result["locations"], *result["relatedLocations"]]
    (invocation,) = run["invocations"]
    assert _fits("invocation", invocation)["executionSuccessful"] is False
    notifications = invocation["toolExecutionNotifications"]
    assert [n["message"]["text"] for n in notifications] == ["no.s: not there", "n"]
    for notification in notifications:
        locations += _fits("notification", notification)["locations"]
    for location in locations:
        place = _fits("physicalLocation", _fits("location", location)["physicalLocation"])
        assert place["artifactLocation"]["uri"] in ("a%20b/k.s", "no.s")  # relative, escaped
    assert [result["level"] for result in run["results"]] == ["error", "note"]
    at_line, at_address = (r["locations"][0]["physicalLocation"] for r in run["results"])
    assert at_line["region"] == {"startLine": 12}
    assert at_address["address"] == {"absoluteAddress": 0x1A10}


def test_sarif_names_other_folders_by_their_uri() -> None:
    log = sarif([Linted("/tmp/x y.co", "gfx942", 1, findings=(_AT_LINE,))])
    (result,) = log["runs"][0]["results"]
    uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert uri == "file:///tmp/x%20y.co"


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_a_rule_says_what_why_and_where_from(rule: Any) -> None:
    assert rule.group in GROUPS and rule.level in (ERROR, ADVICE)
    assert len(rule.title) <= 60 and not rule.title.endswith(".")
    assert 1 <= len(re.findall(r"[.;:](?: |$)", rule.why)) <= 5 and rule.why.endswith(".")
    assert rule.source and not rule.source.endswith(".")
    text = list(explained(rule))
    assert all(len(line) <= 120 for line in text) and rule.title in text[1]


def test_every_bug_names_a_message_of_its_rule() -> None:
    for rule in RULES.values():
        assert {bug.case for bug in rule.bugs} <= set(rule.messages), rule.name


def test_every_word_of_a_table_is_known() -> None:
    """No name of the table's own language reaches a user."""
    for rule in RULES.values():
        assert not re.search(r"\b\w+_(4x4|16x16|soffset|reader|dword|data)\b", _table(rule.name))


def _table(rule: str) -> str:
    return "\n".join(line for line in explained(RULES[rule]) if re.search(r"  \S.*  \S", line))


def test_explain_gives_the_numbers_by_target_and_passes() -> None:
    """The states after an XDL MFMA: LLVM 22's hazard recognizer, 16 passes from its fix on."""
    (row,) = [line for line in _table("mfma-source").split("\n") if "XDL MFMA" in line]
    assert " ".join(row.split()) == "XDL MFMA MFMA: A, B 2/4/8/16 4 5/7/11/19 5/7/11/19 5/8/12/20"
    assert re.search(r"VALU, .*reads or writes +2 +below 1$", _table("permlane-swap"), re.M)
    assert "gfx942" not in _table("vmem-wait")


def test_a_mistyped_rule() -> None:
    assert find_rule("trans").name == "trans"
    with pytest.raises(CoasmError, match=r"no rule 'tranz'; did you mean 'trans'\?"):
        find_rule("tranz")
    with pytest.raises(CoasmError, match=r"no rule '\?'; coasm lint --list shows them"):
        find_rule("?")


def test_the_list_has_every_rule() -> None:
    text = "\n".join(listed())
    for rule in RULES.values():
        assert re.search(rf"^  {rule.name} +{re.escape(rule.title)}", text, re.M)
