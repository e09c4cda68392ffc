"""The workflow and the hook that docs/ci.md shows do what it says."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from coasm.__main__ import main
from tests.docs import ROOT, blocks
from tests.linter.sources import CLEAN, TOO_CLOSE, listing

pytestmark = pytest.mark.usefixtures("llvm")

_WORKFLOW, _CONFIGURATION = (
    yaml.safe_load("\n".join(block.lines))
    for block in blocks(ROOT / "docs" / "ci.md")
    if block.language == "yaml"
)


def _git(folder: Path, *arguments: str) -> None:
    who = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    subprocess.run(["git", "-C", str(folder), *who, *arguments], check=True, capture_output=True)


@pytest.fixture
def pull_request(tmp_path: Path) -> Path:
    """A clone in which one kernel with an old fault has a new one, and another is not touched."""
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    (theirs / "kernels").mkdir(parents=True)
    for name in ("a.s", "b.s"):
        (theirs / "kernels" / name).write_text(listing(TOO_CLOSE))
    _git(theirs, "init", "-q", "-b", "main")
    _git(theirs, "add", ".")
    _git(theirs, "commit", "-q", "-m", "kernels")
    _git(tmp_path, "clone", "-q", str(theirs), str(ours))
    again = TOO_CLOSE.replace("\ts_endpgm", "")
    (ours / "kernels" / "a.s").write_text(listing(again + TOO_CLOSE))
    (ours / "kernels" / "c.s").write_text(listing(CLEAN))
    _git(ours, "add", ".")
    _git(ours, "commit", "-q", "-m", "an edit")
    return ours


def _steps() -> dict[str, Any]:
    return {step.get("name", step.get("uses")): step for step in _WORKFLOW["jobs"]["lint"]["steps"]}


def _run(step: str, folder: Path) -> int:
    """The exit status of a step's script, run as GitHub runs it."""
    bin_ = folder.parent / "bin"
    bin_.mkdir(exist_ok=True)
    (bin_ / "coasm").write_text(f'#!/bin/sh\nexec {sys.executable} -m coasm "$@"\n')
    (bin_ / "coasm").chmod(0o755)
    env = {
        **os.environ,
        "PATH": f"{bin_}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "GITHUB_BASE_REF": "main",
    }
    script = ["bash", "-e", "-c", _steps()[step]["run"]]
    return subprocess.run(script, cwd=folder, env=env, check=False).returncode


def test_the_workflow_shows_what_a_pull_request_adds(pull_request: Path) -> None:
    assert _run("Fetch what the pull request starts from", pull_request) == 0
    assert _run("Lint", pull_request) == 1
    shown = _steps()["Show the findings"]
    (run,) = json.loads((pull_request / shown["with"]["sarif_file"]).read_text())["runs"]
    places = [one["locations"][0]["physicalLocation"] for one in run["results"]]
    assert {place["artifactLocation"]["uri"] for place in places} == {"kernels/a.s"}
    assert {one["ruleId"] for one in run["results"]} == {"trans"}
    assert all(place["region"]["startLine"] > 1 for place in places)


def test_the_hook_judges_what_a_commit_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    (used,) = _CONFIGURATION["repos"][0]["hooks"]
    assert used["id"] == hook["id"]
    command, *arguments = shlex.split(hook["entry"])
    assert command == "coasm"
    names = ["a.s", "b.co", "c.hsaco", "d.py", "e.so", "f.sh"]
    assert [name for name in names if re.search(hook["files"], name)] == names[:3]
    monkeypatch.chdir(tmp_path)
    Path("a.s").write_text(listing(TOO_CLOSE))
    assert main([*arguments, "a.s"]) == 1
    Path("a.s").write_text(listing(CLEAN))
    assert main([*arguments, "a.s"]) == 0
