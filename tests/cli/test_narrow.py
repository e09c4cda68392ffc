"""On a narrow terminal nothing is lost: every cell is printed whole, or folded."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from coasm.cli.tables import show_table
from coasm.llvm.find import Llvm
from tests.bundle.carriers import HOST, bundle, device, entry_id

_ROOT = Path(__file__).parent.parent.parent


def _on_terminal(columns: int, *arguments: str) -> str:
    """What a command prints on a terminal of so many columns, without colors."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, columns))  # type: ignore[attr-defined,unused-ignore]
    environment = {**os.environ, "PYTHONPATH": str(_ROOT), "TERM": "xterm"}
    environment.pop("COLUMNS", None)
    command = [sys.executable, "-m", "coasm", *arguments]
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    data = b""
    while True:
        try:
            part = os.read(ours, 1 << 16)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        data += part
    assert process.wait() == 0
    os.close(ours)
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", data.decode()).replace("\r\n", "\n")


@pytest.mark.skipif(not hasattr(termios, "tcsetwinsize"), reason="Python 3.10 cannot size one")
def test_tables_at_40_columns(llvm: Llvm, tmp_path: Path) -> None:
    data = device(llvm, "gfx942", "alpha", "beta")
    (tmp_path / "k.co").write_bytes(data)
    library = bundle([HOST, (entry_id("gfx942"), data), (entry_id("gfx90a"), data)])
    (tmp_path / "two.hipfb").write_bytes(library)
    size = f"{len(data):,}"
    for arguments, wanted in (
        (("roundtrip", "k.co"), ["gfx942", "instructions  66", "objects       1"]),
        (("info", "two.hipfb"), ["gfx942", "gfx90a", f"bytes     {size}", "kernels   2"]),
        (("info", "k.co"), ["global_buffer", "PROGBITS", "kind", "out"]),
        (("extract", "two.hipfb", "--list"), ["gfx90a", size]),
    ):
        said = _on_terminal(40, arguments[0], str(tmp_path / arguments[1]), *arguments[2:])
        for words in wanted:
            assert words in said, (arguments, words, said)
        assert "…" not in said


def test_a_table_or_its_rows() -> None:
    from io import StringIO

    from rich.console import Console

    rows = [["first", "1,234,567", ""], ["second", "8", "a long text that may be folded"]]
    for width, wanted in (
        (60, "name        count  remark\n"),
        (20, "first\n  count  1,234,567\nsecond\n  count   8\n  remark  a long"),
    ):
        out = StringIO()
        show_table(Console(file=out, width=width), ("name", "count>", "remark"), rows)
        text = "\n".join(line.rstrip() for line in out.getvalue().split("\n"))
        assert text.startswith(wanted), text
        assert "1,234,567" in text and "second" in text
