"""The command line: errors, exit statuses, closed pipes, start-up; and `coasm doctor`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import coasm.cli.app
from coasm.__main__ import main
from coasm.cli.terminal import printable
from coasm.errors import AssemblyError, FormatError
from coasm.llvm.find import Llvm

_ROOT = Path(__file__).parent.parent.parent


def _coasm(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(_ROOT)}
    command = [sys.executable, "-m", "coasm", *arguments]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, **options
    )  # type: ignore[call-overload, no-any-return]


@pytest.fixture
def raising(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], None]:
    """Makes every command line raise that exception."""

    def install(error: BaseException) -> None:
        def run(arguments: list[str]) -> None:
            raise error

        monkeypatch.setattr(coasm.cli.app, "run", run)

    return install


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    for name in ("disasm", "asm", "verify", "roundtrip", "info", "doctor"):
        assert f"  {name} " in text


@pytest.mark.parametrize(
    ("typed", "meant"), [("disas", "disasm"), ("verfy", "verify"), ("docter", "doctor")]
)
def test_mistyped_command(capsys: pytest.CaptureFixture[str], typed: str, meant: str) -> None:
    assert main([typed, "x"]) == 2
    assert f"did you mean '{meant}'?" in capsys.readouterr().err


def test_unknown_command_and_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["zzz"]) == 2
    assert "known are disasm, asm, verify" in capsys.readouterr().err
    assert main(["doctor", "--no-such-option"]) == 2
    assert "--no-such-option" in capsys.readouterr().err
    assert main(["doctor", "too", "many"]) == 2


def test_version() -> None:
    done = _coasm("--version")
    assert done.returncode == 0 and done.stdout.startswith("coasm ")


def test_an_error_is_one_line(
    capsys: pytest.CaptureFixture[str], raising: Callable[[BaseException], None]
) -> None:
    raising(FormatError("a\nb\x1b[31m.co: the file is empty"))
    assert main(["info"]) == 2
    assert capsys.readouterr().err == "coasm: error: a\\nb\\x1b[31m.co: the file is empty\n"
    raising(AssemblyError("a.s:1:2: error: no\n  s_nope\x1b[0m\n"))
    assert main(["asm"]) == 2
    assert capsys.readouterr().err.splitlines()[1] == "  s_nope\\x1b[0m"


@pytest.mark.parametrize(
    ("error", "status", "text"),
    [
        (KeyboardInterrupt(), 130, ""),
        (MemoryError(), 2, "coasm: error: out of memory\n"),
        (FileNotFoundError(2, "No such file", "x.co"), 2, "coasm: error: x.co: No such file\n"),
    ],
)
def test_other_failures(
    capsys: pytest.CaptureFixture[str],
    raising: Callable[[BaseException], None],
    error: BaseException,
    status: int,
    text: str,
) -> None:
    raising(error)
    assert main(["info"]) == status
    assert capsys.readouterr().err == text


def test_a_fault_of_coasm_is_no_verdict(
    capsys: pytest.CaptureFixture[str],
    raising: Callable[[BaseException], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("COASM_DEBUG", raising=False)
    raising(ZeroDivisionError("x"))
    assert main(["verify"]) == 2  # 1 would say "different"
    assert "internal error: ZeroDivisionError: x" in capsys.readouterr().err
    monkeypatch.setenv("COASM_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        main(["verify"])


@pytest.mark.parametrize("arguments", [["--help"], ["doctor"], ["doctor", "--json"]])
def test_closed_pipe(arguments: list[str]) -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "coasm", *arguments],
        cwd=_ROOT,
        stdout=write,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(write)
    assert done.returncode == 141
    assert done.stderr == b""


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from coasm.__main__ import main; main(['--help']);"
        "heavy = {'rich', 'yaml', 'msgpack', 'elftools', 'numpy', 'zstandard'};"
        "print(heavy & {m.partition('.')[0] for m in sys.modules})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=_ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "set()"


def test_printable() -> None:
    assert printable("plain ü 文 text") == "plain ü 文 text"
    assert printable("\x1b[2J\x07\x9b31m\x7f\r") == "\\x1b[2J\\x07\\x9b31m\\x7f\\x0d"
    assert printable("a\nb\tc") == "a\\nb\\tc"
    assert printable("a\nb\tc", multiline=True) == "a\nb\tc"
    assert printable(b"\xff".decode("utf-8", "surrogateescape")) == "\\xff"
    assert printable("\u202eright to left\u200b") == "\\u202eright to left\\u200b"


def test_doctor(llvm: Llvm) -> None:
    done = _coasm("doctor", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["problem"] is None
    assert found["llvm_version"] == ".".join(map(str, llvm.version))
    assert found["tools"]["clang"] == llvm.clang
    assert set(found["processors"]) == llvm.processors  # coasm's table knows all of LLVM's
    assert found["unknown_to_coasm"] == []
    text = _coasm("doctor")
    assert text.returncode == 0 and "usable" in text.stdout and llvm.clang in text.stdout


def test_doctor_without_llvm(tmp_path: Path) -> None:
    done = _coasm("doctor", "--llvm", str(tmp_path / "missing\x1b[31m"))
    assert done.returncode == 2
    assert "no such directory" in done.stdout and "\x1b" not in done.stdout
    assert json.loads(_coasm("doctor", "--json", "--llvm", str(tmp_path)).stdout)["problem"]
