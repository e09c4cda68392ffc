"""The wheel without extras, from an empty folder: every command, every example, the whole API.

In an environment with the newest dependencies that pip finds and in one with the oldest that are
allowed. The package index is needed; where it is not reachable, the tests are skipped.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import coasm
from coasm.cli.app import COMMANDS
from coasm.llvm.find import Llvm
from tests.bundle.carriers import HOST, bundle, device, entry_id, host
from tests.compare.objects import source
from tests.install.environments import (
    ROOT,
    Built,
    build,
    clean,
    environment,
    metadata,
    oldest,
    python,
)

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("wheel")]

#: What a C++ compiler calls ``void scale<float>(float*, int)``.
_KERNEL = "_Z5scaleIfEvPT_i"
_LAUNCH = f"""\
object: kernel.co
kernel: {_KERNEL}
grid: 1
workgroup: 64
buffers:
  out: {{dtype: f32, shape: 64, fill: zeros}}
arguments: {{out: out, count: 64}}
outputs:
  out: {{compare: {{constant: 0}}}}
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return build(tmp_path_factory.mktemp("built"))


@pytest.fixture(scope="module")
def newest(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return environment(tmp_path_factory.mktemp("newest"), built.wheel)


@pytest.fixture(scope="module", params=["newest", "oldest"])
def installed(
    request: pytest.FixtureRequest, built: Built, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    if request.param == "newest":
        return Path(request.getfixturevalue("newest"))
    return environment(tmp_path_factory.mktemp("oldest"), built.wheel, *oldest(built.wheel))


@pytest.fixture(scope="module")
def stage(llvm: Llvm, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the examples name."""
    stage = tmp_path_factory.mktemp("stage")
    kernel = device(llvm, "gfx942", _KERNEL)
    other = device(llvm, "gfx1100", "alpha")
    for name in ("kernel.co", "kernel.rebuilt.co", "rebuilt.co"):
        (stage / name).write_bytes(kernel)
    (stage / "k942.co").write_bytes(kernel)
    for name in ("k950.co", "ported.co"):
        (stage / name).write_bytes(device(llvm, "gfx950", _KERNEL))
    for name in ("a.co", "b.co"):
        (stage / name).write_bytes(other)
    for name in ("work", "rebuilt", "new", "hsa", "include", "kernels", "main/kernels"):
        (stage / name).mkdir(parents=True)
    for name in ("hsa", "kernels", "main/kernels"):
        shutil.copy(stage / "kernel.co", stage / name)
    for name in ("kernel.s", "edited.s"):
        (stage / name).write_text(coasm.disassemble(stage / "kernel.co").text)
    (stage / "launch.yaml").write_text(_LAUNCH)
    plain = source({"tile": '\t.include "wait.inc"\n\ts_endpgm'})
    (stage / "theirs.s").write_text(plain)
    (stage / "include" / "wait.inc").write_text("\ts_movk_i32 s0, TILE\n")
    scratch = tmp_path_factory.mktemp("scratch")
    for name, images in (
        ("libkernels.so", [[("gfx942", kernel), ("gfx1100", other)]]),
        ("libexample.so", [[("gfx942", kernel), ("gfx1100", other)]]),
        ("app", [[("gfx1100", other)], [("gfx1100", other)]]),
    ):
        bundles = [bundle([HOST, *((entry_id(t), d) for t, d in each)]) for each in images]
        flags = ("-shared", "-fPIC") if name.startswith("lib") else ()
        shutil.copy(host(scratch, bundles, *flags, name=name), stage / name)
    return stage


def _run(
    installed: Path, line: str, cwd: Path, **environment: str
) -> subprocess.CompletedProcess[str]:
    program, *arguments = shlex.split(line)
    assert program == "coasm"
    return subprocess.run(
        [str(installed / "bin" / "coasm"), *arguments],
        cwd=cwd,
        env={**clean(), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


# --- what is shipped -------------------------------------------------------------------------


def test_the_source_distribution_has_docs_examples_and_tests(built: Built) -> None:
    for folder in ("docs", "examples", "tests/fixtures", "scripts", "benchmarks", "coasm"):
        here = {
            path.relative_to(ROOT)
            for path in (ROOT / folder).rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }
        missing = {path for path in here if not (built.sources / path).is_file()}
        assert here and not missing
    for name in ("LICENSE", "Makefile", "README.md", "pyproject.toml"):
        assert (built.sources / name).read_bytes() == (ROOT / name).read_bytes()


def test_the_wheel_says_licence_and_version(built: Built) -> None:
    said = metadata(built.wheel)
    assert "\nLicense-Expression: MIT\n" in said and "\nLicense-File: LICENSE\n" in said
    assert "License ::" not in said
    assert f"\nVersion: {coasm.__version__}\n" in said
    names = re.findall(r"^Requires-Dist: ([\w-]+)[^;\n]*$", said, re.MULTILINE)
    assert {name.lower().replace("_", "-") for name in names} == {
        *("ml-dtypes", "msgpack", "numpy", "pyelftools", "pyyaml", "rich", "typer", "zstandard")
    }


# --- every command -----------------------------------------------------------------------------

#: Each command at least once; what is written is read by those that follow.
_LINES = """
coasm --version
coasm --help
coasm doctor
coasm doctor --json
coasm disasm kernel.co -o listing.s
coasm disasm kernel.co -o - --json
coasm disasm libkernels.so:gfx942
coasm asm listing.s --like kernel.co -o built.co
coasm verify kernel.co built.co --json
coasm roundtrip hsa libkernels.so --jobs 2
coasm roundtrip kernel.co --json
coasm lint listing.s --advice
coasm lint --list
coasm lint kernel.co --json
coasm lint kernel.co --sarif
coasm lint --fix listing.s -o fixed.s
coasm port kernel.co --to gfx950 --write -o k950.co --force
coasm port kernel.co --to gfx950 --run launch.yaml --json
coasm run --spec launch.yaml
coasm run --spec launch.yaml --json
coasm run f4gemm --help
coasm extract libkernels.so --list
coasm extract libkernels.so -o objects
coasm embed libkernels.so -r gfx942=built.co -o grown.so
coasm bundle kernel.co -o kernel.hipfb --compress
coasm layout v_mfma_f32_16x16x16_f16 --json
coasm info kernel.co
coasm info kernel.co --json
coasm info libkernels.so
coasm info libkernels.so --json
""".strip().splitlines()


def test_every_command_runs(installed: Path, stage: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(stage, tmp_path / "here")
    assert {line.split()[1] for line in _LINES} >= set(COMMANDS)
    for line in _LINES:
        done = _run(installed, line, folder)
        assert done.returncode == 0, f"{line}: {done.stderr}"
        assert "internal error" not in done.stderr
    assert (folder / "built.co").read_bytes() == (folder / "kernel.co").read_bytes()
    listed = _run(installed, "coasm extract libkernels.so --list", folder).stdout
    assert "void scale<float>(float*, int)" in listed and "alpha" in listed


def _examples(text: str) -> Iterator[str]:
    """The commands under "Examples:" of a help text, without what a shell does with the output."""
    for line in text.partition("Examples:")[2].splitlines():
        command = re.split(r"\s{2,}|\s[|>]\s", line.strip())[0]
        if command.startswith("coasm "):
            yield command


#: What an example names outside of the folder that it runs in, and where it is here.
_PLACES = (("/opt/aiter/hsa", "hsa"), ("../main/", "main/"))


@pytest.mark.parametrize("command", COMMANDS)
def test_the_examples_of_a_help_text_run(
    command: str, newest: Path, stage: Path, llvm: Llvm, tmp_path: Path
) -> None:
    done = _run(newest, f"coasm {command} --help", tmp_path)
    assert done.returncode == 0 and done.stderr == ""
    examples = list(_examples(done.stdout))
    assert examples
    for number, line in enumerate(examples):
        if command == "run" and "--spec" not in line:
            continue  # a product takes an object of the f4gemm family: tests/launch
        for place, here in (*_PLACES, ("/opt/rocm/llvm/bin", llvm.directory)):
            line = line.replace(place, here)
        folder = shutil.copytree(stage, tmp_path / str(number))
        if command == "disasm" or command == "extract":
            (folder / "kernel.s").unlink()
        done = _run(newest, line, folder)
        assert done.returncode == 0, f"{line}: {done.stderr}{done.stdout}"


# --- the API -----------------------------------------------------------------------------------

_API = """
import io, pathlib, pydoc, sys
import numpy as np
import coasm

assert "site-packages" in coasm.__file__ and coasm.__version__
folder = pathlib.Path(sys.argv[1])
assert set(coasm.__all__) <= set(dir(coasm))
text = pydoc.plain(pydoc.render_doc(coasm))
for name in coasm.__all__:
    value = getattr(coasm, name)
    assert value.__doc__, name
    assert f"    {name}(" in text or f"class {name}(" in text, name

co = coasm.load(folder / "kernel.co")
assert isinstance(co, coasm.CodeObject) and isinstance(co.kernels[0], coasm.Kernel)
listing = coasm.disassemble(co)
assert isinstance(listing, coasm.Exact)
result = coasm.assemble(listing.text, like=co)
assert isinstance(result, coasm.Result) and result.data == co.data
report = coasm.verify(co, result.data)
assert isinstance(report, coasm.Report) and report.equivalent
assert isinstance(coasm.roundtrip(co), coasm.RoundTrip)
assert coasm.lint(listing.text) == []
edited = listing.text.replace("s_nop 0", "v_mov_b32 v1, v200")
assert isinstance(coasm.lint(edited, advice=True)[0], coasm.Finding)
values = np.arange(64, dtype=np.float32)
got = coasm.run(co, {"out": values, "count": 64}, grid=1, workgroup=64, backend="emulator")
assert (got.arrays["out"] == values).all()
assert coasm.run_spec(folder / "launch.yaml", backend="emulator")
try:
    coasm.run_f4gemm(16, 32, 256, co_dir=folder)
except coasm.CoasmError as error:
    print(error)
"""


def test_the_whole_api(installed: Path, stage: Path, tmp_path: Path) -> None:
    (tmp_path / "use.py").write_text(_API)
    done = python(installed, "-W", "error", tmp_path / "use.py", stage, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert str(stage) in done.stdout  # no f4gemm object is there, says run_f4gemm


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete(shell: str, newest: Path, tmp_path: Path) -> None:
    script = _run(newest, f"coasm --show-completion {shell}", tmp_path, SHELL=f"/bin/{shell}")
    assert "_COASM_COMPLETE" in script.stdout
    words = {"_COASM_COMPLETE": f"complete_{shell}", "COMP_CWORD": "2"}
    line = "coasm asm --l"
    words |= {"COMP_WORDS": line} if shell == "bash" else {"_TYPER_COMPLETE_ARGS": line}
    done = _run(newest, "coasm", tmp_path, **words, _TYPER_COMPLETE_FISH_ACTION="get-args")
    assert "--like" in done.stdout and "--llvm" in done.stdout, done.stderr
