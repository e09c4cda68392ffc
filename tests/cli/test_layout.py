"""``coasm layout``: grid, JSON, CSV, SVG, errors of one line."""

from __future__ import annotations

import csv
import io
import json
from xml.etree import ElementTree

import pytest

from coasm.__main__ import main

_Capture = pytest.CaptureFixture[str]
NAME = "v_mfma_f32_16x16x16_f16"


def test_the_grid_fits_the_terminal(capsys: _Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    for width in (40, 80, 120):
        monkeypatch.setenv("COLUMNS", str(width))
        assert main(["layout", NAME]) == 0
        head, *lines = capsys.readouterr().out.splitlines()
        assert head.startswith(f"{NAME} on gfx950: D is 16 × 16 (f32), 4 registers of 64 lanes")
        assert lines and all(len(line) <= width for line in lines)
        cells = [cell for line in lines for cell in line.replace(" v", ".v").split()[1:]]
        assert {"18.v2"} <= set(cells)


def test_json_csv_and_svg_say_the_same(capsys: _Capture) -> None:
    """Element e of lane L of A is A[L % 16, 4 * (L // 16) + e] (CDNA3 ISA guide)."""
    assert main(["layout", NAME, "--operand", "A", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["instruction"], said["target"], said["operand"]) == (NAME, "gfx950", "A")
    assert len(said["elements"]) == 256
    for one in said["elements"]:
        item = 2 * one["register"] + one["bits"][0] // 16
        assert one["bits"][1] == one["bits"][0] + 15 and one["block"] == 0
        assert (one["i"], one["j"]) == (one["lane"] % 16, 4 * (one["lane"] // 16) + item)
    assert main(["layout", NAME, "--operand", "A", "--csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [int(row["lane"]) for row in rows] == [one["lane"] for one in said["elements"]]
    assert main(["layout", NAME, "--operand", "A", "--svg"]) == 0
    picture = ElementTree.fromstring(capsys.readouterr().out)
    assert len(picture.findall("{http://www.w3.org/2000/svg}rect")) == 256


def test_a_lane_and_an_element(capsys: _Capture) -> None:
    assert main(["layout", NAME, "--operand", "B", "--lane", "18"]) == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    assert lines[0] == "lane 18, v0, bits 0 to 15: B[4, 2]" and len(lines) == 4
    assert main(["layout", NAME, "--element", "6,2"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == ["lane 18, v2, bits 0 to 31: D[6, 2]"]


def test_an_element_that_a_lane_does_not_have(capsys: _Capture) -> None:
    assert main(["layout", NAME, "--element", "6,2", "--lane", "19"]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("nothing: ")


def test_the_list(capsys: _Capture) -> None:
    assert main(["layout", "--list", "--target", "gfx90a"]) == 0
    names = capsys.readouterr().out.split()
    assert "v_mfma_f32_32x32x1f32" in names and "v_smfmac_f32_16x16x32_f16" not in names


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "needs an INSTRUCTION"),
        (["v_mfma_f32_16x16x16_f1"], "did you mean v_mfma_f32_16x16x16_f16?"),
        ([NAME, "--element", "3"], "two numbers"),
        ([NAME, "--json", "--csv"], "give one of them"),
        ([NAME, "--target", "gfx9999"], "gfx9999"),
        ([NAME, "--wave", "32"], "waves of 64"),
    ],
)
def test_errors_are_a_line(arguments: list[str], words: str, capsys: _Capture) -> None:
    assert main(["layout", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith("coasm: error: ") and words in error and error.count("\n") == 1
