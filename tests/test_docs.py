"""Each command of the README and the docs does what they say, and prints what they show."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

from tests.docs import PAGES, ROOT, blocks, commands

EXAMPLES = ROOT / "examples"
COMMANDS = {command.id: command for page in PAGES for command in commands(page)}

#: The f4gemm object of the pages, by its name in ROCm/aiter.
F4GEMM = "f4gemm_bf16_per1x32Fp4_BpreShuffle_256x256.co"


def coasm(folder: Path, text: str) -> tuple[int, str]:
    """Run a command in *folder*; the exit status, and what it prints, standard error last."""
    done = subprocess.run(
        [sys.executable, "-m", *shlex.split(text)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "100", "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_the_pages_have_commands() -> None:
    """What would find none would pass."""
    assert len(COMMANDS) > 25
    assert sum(command.output is not None for command in COMMANDS.values()) > 5
    assert {command.page for command in COMMANDS.values()} >= {"README.md", "run.md", "lint.md"}
    assert any(block.language == "python" for page in PAGES for block in blocks(page))
