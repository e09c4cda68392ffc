"""``coasm doctor``: which LLVM was found where, and what it and this Python have."""

from __future__ import annotations

import glob
import os
import sys
from dataclasses import asdict, dataclass

from coasm.cli.options import JsonOption, LlvmOption
from coasm.cli.terminal import printable
from coasm.errors import CoasmError
from coasm.llvm.find import MINIMUM_VERSION, Llvm, find_llvm
from coasm.target import PROCESSORS

__all__ = ["Diagnosis", "diagnose", "doctor"]

_DISTRIBUTIONS = ("coasm", "ml_dtypes", "numpy", "pyyaml", "rich", "typer", "zstandard")


@dataclass(frozen=True)
class Diagnosis:
    """What ``coasm doctor`` found. Versions are text; a tool or package that is missing is None.

    ``processors`` are those that coasm and the LLVM both know, ``unknown_to_llvm`` those of coasm
    that the LLVM lacks, ``unknown_to_coasm`` the reverse. ``hip`` is the path of the HIP runtime
    library. ``problem`` says why coasm cannot work here; None where it can.
    """

    problem: str | None
    llvm_directory: str | None
    llvm_source: str | None
    llvm_version: str | None
    llvm_minimum: int
    tools: dict[str, str | None]
    processors: list[str]
    unknown_to_llvm: list[str]
    unknown_to_coasm: list[str]
    python: str
    packages: dict[str, str | None]
    hip: str | None


def diagnose(directory: str | None = None) -> Diagnosis:
    """Look at the LLVM that :func:`coasm.llvm.find_llvm` finds, at Python, and for HIP."""
    llvm: Llvm | None = None
    problem: str | None = None
    version: str | None = None
    known: frozenset[str] = frozenset()
    try:
        llvm = find_llvm(directory)
        version = ".".join(map(str, llvm.version))
        known = llvm.processors
        if not known:
            problem = f"the LLVM in {llvm.directory} has no AMDGPU target"
    except CoasmError as error:
        problem = str(error)
    packages = {name: _package(name) for name in _DISTRIBUTIONS}
    missing = [name for name, found in packages.items() if found is None and name != "coasm"]
    if missing and problem is None:
        problem = f"Python packages are missing: {', '.join(missing)}"
    return Diagnosis(
        problem=problem,
        llvm_directory=llvm.directory if llvm else None,
        llvm_source=llvm.source if llvm else None,
        llvm_version=version,
        llvm_minimum=MINIMUM_VERSION,
        tools={
            "clang": llvm.clang if llvm else None,
            "ld.lld": llvm.lld if llvm else None,
            "llvm-objdump": llvm.objdump if llvm else None,
            "llvm-mc": llvm.mc if llvm else None,
            "llvm-readelf": llvm.readelf if llvm else None,
            "llvm-cxxfilt": llvm.cxxfilt if llvm else None,
        },
        processors=[name for name in PROCESSORS if name in known],
        unknown_to_llvm=[name for name in PROCESSORS if name not in known] if known else [],
        unknown_to_coasm=sorted(known - PROCESSORS.keys()),
        python=".".join(map(str, sys.version_info[:3])),
        packages=packages,
        hip=_hip(),
    )


def doctor(llvm: LlvmOption = None, json: JsonOption = False) -> int:
    """Show which LLVM was found where, its version, and which gfx targets it knows.

    \b
    Examples:
      coasm doctor
      coasm doctor --llvm /opt/rocm/llvm/bin --json

    Exit status 0 where coasm can work, 2 where it cannot.
    """
    found = diagnose(llvm)
    if json:
        from json import dumps

        print(dumps(asdict(found), indent=2))
    else:
        for label, value in _rows(found):
            print(f"{label:<15}{printable(value)}")
    return 0 if found.problem is None else 2


def _rows(found: Diagnosis) -> list[tuple[str, str]]:
    rows = []
    if found.llvm_directory is not None:
        rows.append(
            ("LLVM", f"{found.llvm_version or '?'} in {found.llvm_directory} ({found.llvm_source})")
        )
        rows += [(f"  {tool}", path or "none (optional)") for tool, path in found.tools.items()]
        rows.append(("targets", f"{len(found.processors)} of the {len(PROCESSORS)} coasm knows"))
        if found.unknown_to_llvm:
            rows.append(("  not known", " ".join(found.unknown_to_llvm)))
        if found.unknown_to_coasm:
            rows.append(("  only LLVM", " ".join(found.unknown_to_coasm)))
    packages = ", ".join(f"{name} {version or '-'}" for name, version in found.packages.items())
    rows.append(("Python", f"{found.python} ({packages})"))
    rows.append(("HIP", found.hip or "none (only needed to run kernels on a GPU)"))
    rows.append(("usable", "yes" if found.problem is None else f"no: {found.problem}"))
    return rows


def _package(name: str) -> str | None:
    from importlib import metadata

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _hip() -> str | None:
    """The path of the HIP runtime library, where ROCm's installations put it."""
    roots = [os.environ.get("ROCM_PATH", ""), *sorted(glob.glob("/opt/rocm*")), "/usr"]
    for root in filter(None, roots):
        for place in ("lib", "lib64", "lib/x86_64-linux-gnu"):
            path = os.path.join(root, place, "libamdhip64.so")
            found = [path, *sorted(glob.glob(f"{glob.escape(path)}.*"))]
            for candidate in found:
                if os.path.exists(candidate):
                    return candidate
    return None
