"""The wheel as a user gets it, in virtual environments of its own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent.parent
#: What lies in a working copy and in no source distribution.
_NOT_SOURCES = shutil.ignore_patterns(
    ".*_cache", ".git", ".hypothesis", ".venv", "__pycache__", "build", "dist", "*.egg-info"
)


class Built(NamedTuple):
    """The source distribution, unpacked, and the wheel that was built from it."""

    sources: Path
    wheel: Path


def clean() -> dict[str, str]:
    """The environment without what points to the sources or to objects."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "PYTEST", "COASM_")) and name != "VIRTUAL_ENV"
    } | {name: os.environ[name] for name in ("COASM_LLVM",) if name in os.environ}


def python(folder: Path, *arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run the Python of the virtual environment in *folder*."""
    command = [str(folder / "bin" / "python"), *map(str, arguments)]
    return subprocess.run(
        command, cwd=cwd, env=clean(), capture_output=True, text=True, check=False
    )


def environment(folder: Path, *packages: str | Path) -> Path:
    """A virtual environment with *packages*; skips the test where the package index has them not.

    pip's settings are those of whoever runs the tests: they say where the index is.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, env=clean())
    pip = [sys.executable, "-m", "pip", "--python", str(folder), "--disable-pip-version-check"]
    command = [*pip, "install", "--quiet", "--retries=1", "--only-binary=:all:"]
    done = subprocess.run(
        [*command, *map(str, packages)], env=clean(), capture_output=True, text=True, check=False
    )
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        pytest.skip(f"pip cannot install {', '.join(map(str, packages))}: {lines[-1:]}")
    return folder


def build(folder: Path) -> Built:
    """Build the source distribution of this working copy, and the wheel from nothing but it."""
    copy, out = folder / "copy", folder / "out"
    shutil.copytree(ROOT, copy, ignore=_NOT_SOURCES)
    tools = environment(folder / "tools", "setuptools>=77")
    code = "import sys, setuptools.build_meta as b; print(getattr(b, sys.argv[1])(sys.argv[2]))"
    done = python(
        tools, "-W", "error::DeprecationWarning", "-c", code, "build_sdist", out, cwd=copy
    )
    assert done.returncode == 0, done.stderr
    (archive,) = out.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        if hasattr(tarfile, "data_filter"):  # Python 3.11.4, 3.10.12
            packed.extraction_filter = tarfile.data_filter
        packed.extractall(folder / "sources")
    (sources,) = (folder / "sources").iterdir()
    done = python(tools, "-c", code, "build_wheel", out, cwd=sources)
    assert done.returncode == 0, done.stderr
    assert "deprecat" not in done.stderr.lower(), done.stderr
    (wheel,) = out.glob("*.whl")
    return Built(sources, wheel)


def metadata(wheel: Path) -> str:
    with zipfile.ZipFile(wheel) as packed:
        (name,) = [n for n in packed.namelist() if n.endswith(".dist-info/METADATA")]
        return packed.read(name).decode()


def oldest(wheel: Path) -> list[str]:
    """The oldest release of each dependency that the wheel allows, extras left out."""
    required = re.findall(r"^Requires-Dist: ([^;\n]+)$", metadata(wheel), re.MULTILINE)
    found = [re.fullmatch(r"([\w-]+).*?>=([\w.]+).*", each) for each in required]
    assert required and all(found)
    return [f"{match[1]}=={match[2]}" for match in found if match]
