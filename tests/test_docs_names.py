"""What README and docs name is there: files, links, options, targets of make, extras."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from coasm.cli.app import COMMANDS
from coasm.launch.families import FAMILIES
from tests.docs import PAGES, ROOT

#: Options that are not coasm's: of the linker (docs/listing.md), of typer, of benchmarks.
_OF_OTHERS = {
    *("--no-rosegment", "--hash-style", "--build-id", "--image-base", "--disable-new-dtags"),
    *("--install-completion", "--help", "--reduce"),
}


def _text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


_HOUSE = _text(ROOT / "docs" / "how-it-is-built.md")


def test_every_link_leads_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)", _text(page)):
            assert target.startswith("https://") or (page.parent / target).is_file(), target


def test_every_target_of_make_and_every_extra_is_there() -> None:
    made = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    project = (ROOT / "pyproject.toml").read_text()
    extras = re.search(r"^\[project\.optional-dependencies\]\n(.*?)^\[", project, re.M | re.S)
    assert extras
    named = set(re.findall(r"^(\w+) = \[", extras[1], re.MULTILINE))
    everything = "".join(map(_text, PAGES))
    targets = set(re.findall(r"(?:`|^    )make ([a-z]+)", everything, re.MULTILINE))
    assert {"run", "test", "bench"} <= targets <= made
    assert {"hip"} <= set(re.findall(r"'\.\[(\w+)\]'", everything)) <= named


def test_every_benchmark_that_a_page_names_is_there() -> None:
    found = {n for page in PAGES for n in re.findall(r"-m benchmarks ([a-z-]+)", _text(page))}
    assert {"hip", "lint-mutants", "random-c"} <= found
    source = (ROOT / "benchmarks" / "__main__.py").read_text()
    assert not [name for name in found if f'"{name}"' not in source]


def test_every_variable_that_a_page_names_is_read() -> None:
    rooms = ("coasm", "tests", "benchmarks")
    code = "".join(_text(path) for room in rooms for path in (ROOT / room).rglob("*.py"))
    named = {name for page in PAGES for name in re.findall(r"\b(?:COASM|AITER)_\w+", _text(page))}
    assert {"COASM_LLVM", "COASM_CORPUS", "AITER_ASM_DIR"} <= named
    assert not [name for name in named if f'"{name}"' not in code]


def test_every_path_that_a_page_names_is_there() -> None:
    roots = "coasm|docs|tests|examples|scripts|benchmarks"
    for page in PAGES:
        for path in re.findall(rf"(?<![\w/.])((?:{roots})/[\w./-]+\w/?)", _text(page)):
            assert (ROOT / path).exists(), f"{page.name}: {path}"


def test_the_page_on_the_house_names_what_is_there() -> None:
    everything = [p for room in ("coasm", "tests") for p in (ROOT / room).rglob("*.py")]
    names = re.findall(r"`((?:\w+/)*\w+\.py)`", _HOUSE)
    assert len(names) > 60
    for name in names:
        assert any(path.as_posix().endswith(f"/{name}") for path in everything), name


def test_every_room_and_every_module_is_in_the_page_on_the_house() -> None:
    modules = [*(ROOT / "coasm").glob("*.py")]
    for room in (path for path in (ROOT / "coasm").iterdir() if (path / "__init__.py").exists()):
        assert f"| `coasm/{room.name}/` |" in _HOUSE
        if f"| in `{room.name}/` |" in _HOUSE:
            modules += [path for path in room.glob("*.py") if path.name != "__init__.py"]
    for path in modules:
        assert re.search(rf"`(coasm/)?{path.name}`", _HOUSE), path


def test_the_tables_of_rules_are_made_of_the_rules(tmp_path: Path) -> None:
    page = _text(ROOT / "docs" / "lint.md")
    table = r"(\| rule \| \|\n\|-+\|-+\|\n)(?:\|.*\n)*"
    copy = tmp_path / "lint.md"
    copy.write_text(re.sub(table, r"\1", page), encoding="utf-8")
    subprocess.run([sys.executable, "scripts/lint_page.py", str(copy)], cwd=ROOT, check=True)
    assert _text(copy) == page  # else: python scripts/lint_page.py


def test_every_option_that_a_page_names_is_there() -> None:
    """Of coasm: in a code span that begins with it, or behind ``coasm COMMAND``."""
    known = set(_OF_OTHERS)
    for command in (*COMMANDS, *(f"run {family}" for family in FAMILIES)):
        asked = [sys.executable, "-m", "coasm", *command.split(), "--help"]
        text = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        known |= set(re.findall(r"(?<!\S)--[a-z][a-z-]*", text))
    for page in PAGES:
        spans = re.findall(r"`(--[^`]+)`", _text(page))
        spans += re.findall(r"coasm [a-z]+ [^\n`]*", _text(page))
        named = {name for span in spans for name in re.findall(r"(?<!\S)--[a-z][a-z-]*", span)}
        assert named <= known, f"{page.name}: {named - known}"
