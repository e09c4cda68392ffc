"""Find the LLVM tools: every tool of a run comes from one directory.

The order is: the directory that was named (``--llvm DIR``), the environment variable
``COASM_LLVM``, ``$ROCM_PATH/llvm/bin``, ``/opt/rocm*/llvm/bin``, then the newest of what is on
``PATH`` (plain and versioned names such as ``clang-22``) and under ``/usr/lib/llvm-*/bin``.

Starting a process costs 20 to 40 ms, so a directory is judged by its files and names. A tool is
run only where those do not tell the version, or whether a recent processor is known.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from coasm.errors import CoasmError, ToolError, UnsupportedError
from coasm.target import PROCESSORS, relative

__all__ = ["MINIMUM_VERSION", "Llvm", "find_llvm"]

#: The oldest LLVM that coasm works with: the first whose clang writes code object v6 and knows
#: the generic targets (clang 16 refuses ``-mcode-object-version=6``, clang 19 takes it).
MINIMUM_VERSION = 19

_INSTALL = "install LLVM 22 (Debian: apt-get install clang-22 lld-22 llvm-22)"
_REQUIRED = ("clang", "ld.lld", "llvm-objdump")
_OPTIONAL = ("llvm-mc", "llvm-readelf", "llvm-cxxfilt")


class Llvm(NamedTuple):
    """The LLVM tools of one directory, as absolute paths.

    ``source`` says where the directory came from (``--llvm``, ``COASM_LLVM``, ``ROCM_PATH``,
    ``/opt/rocm``, ``PATH``, ``/usr/lib``). ``major`` is the major version. The optional tools are
    None where the directory has none.
    """

    directory: str
    source: str
    major: int
    clang: str
    lld: str
    objdump: str
    mc: str | None = None
    readelf: str | None = None
    cxxfilt: str | None = None

    @property
    def version(self) -> tuple[int, ...]:
        """The full version, for example ``(22, 1, 8)``: runs ``clang --version`` once.

        Raises:
            ToolError: clang cannot be run, or prints no version.
        """
        return _ask_version(self.clang)

    @property
    def processors(self) -> frozenset[str]:
        """The gfx processors that this LLVM knows: runs clang once.

        Raises:
            ToolError: clang cannot be run.
        """
        return _ask_processors(self.clang)

    def knows(self, processor: str) -> bool:
        """Whether this LLVM knows *processor*; runs clang only where the version does not tell.

        Raises:
            ToolError: clang had to be asked, and cannot be run.
        """
        row = PROCESSORS.get(processor)
        if row and row.llvm_before:
            return self.major < row.llvm_before and processor in self.processors
        return self.major >= (row.llvm_since if row else 0) or processor in self.processors

    def name_of(self, processor: str) -> str | None:
        """What this LLVM calls *processor*; a relative's name where it knows only that.

        None where it knows neither. What is assembled under a relative's name gets its own
        ``e_flags`` back (:func:`coasm.llvm.run.assemble`).

        Raises:
            ToolError: clang had to be asked, and cannot be run.
        """
        names = dict.fromkeys((processor, relative(processor)))
        return next((name for name in names if self.knows(name)), None)


def find_llvm(directory: str | None = None, *, processor: str | None = None) -> Llvm:
    """The LLVM tools to use: those of *directory*, or of the first suitable place.

    With *processor* (``gfx942``) the LLVM must know it or a relative of it; places that do not are
    passed over. A directory that was named by *directory* or ``COASM_LLVM`` is used, or refused,
    never replaced.

    Raises:
        ToolError: a tool is missing, the LLVM is older than :data:`MINIMUM_VERSION`, or there is
            none at all.
        UnsupportedError: the LLVM does not know *processor*.
    """
    named = os.environ.get("COASM_LLVM") if directory is None else directory
    if named is not None and (named or directory is not None):
        source = "COASM_LLVM" if directory is None else "--llvm"
        llvm = _named(named, source)
        if processor is not None and llvm.name_of(processor) is None:
            raise _unknown(llvm, processor)
        return llvm

    refused: list[CoasmError] = []
    for llvm in _implicit(refused):
        if processor is None or llvm.name_of(processor) is not None:
            return llvm
        refused.append(_unknown(llvm, processor))
    for error in refused:  # what would have served but for the processor says more than the rest
        if isinstance(error, UnsupportedError):
            raise error
    seen = f"; found: {'; '.join(str(error) for error in refused)}" if refused else ""
    raise ToolError(
        f"no LLVM found: {', '.join(_REQUIRED)} of version {MINIMUM_VERSION} or newer are needed; "
        f"{_INSTALL}, or name its directory with --llvm DIR or COASM_LLVM{seen}"
    )


def _unknown(llvm: Llvm, processor: str) -> UnsupportedError:
    version = ".".join(map(str, llvm.version))
    return UnsupportedError(
        f"{processor} is not known to LLVM {version} in {llvm.directory}; {_INSTALL} or one that "
        "knows it"
    )


def _named(directory: str, source: str) -> Llvm:
    """The tools of a directory that the user named, or an error that says what is wrong with it."""
    refused: list[CoasmError] = []
    found = _newest(_in_directory(os.path.abspath(directory), source, refused))
    for llvm in found:
        return llvm
    if refused:
        raise refused[0]
    what = f"{source} {directory}"
    if not os.path.isdir(directory):
        raise ToolError(f"{what}: no such directory")
    missing = [tool for tool in _REQUIRED if not _executable(os.path.join(directory, tool))]
    inner = os.path.join(directory, "bin")
    hint = f"; did you mean {inner}?" if _executable(os.path.join(inner, "clang")) else ""
    raise ToolError(f"{what}: no {', no '.join(missing)} there{hint}")


def _implicit(refused: list[CoasmError]) -> Iterator[Llvm]:
    """The usable LLVMs that nobody named, best first; *refused* gets what is wrong with others."""
    rocm = os.environ.get("ROCM_PATH")
    if rocm:
        yield from _newest(_in_directory(os.path.join(rocm, "llvm", "bin"), "ROCM_PATH", refused))
    for root in _rocm_roots():
        yield from _newest(_in_directory(os.path.join(root, "llvm", "bin"), "/opt/rocm", refused))
    others: list[Llvm] = []
    for entry in dict.fromkeys(os.environ.get("PATH", "").split(os.pathsep)):
        if os.path.isabs(entry):  # never a tool of the current directory
            others += _in_directory(entry, "PATH", refused)
    for name in sorted(_listing("/usr/lib")):
        if name.startswith("llvm-"):
            others += _in_directory(f"/usr/lib/{name}/bin", "/usr/lib", refused)
    yield from _newest(others)


def _rocm_roots() -> list[str]:
    """``/opt/rocm`` first (the administrator's choice), then ``/opt/rocm-*``, newest first."""
    names = [name for name in sorted(_listing("/opt")) if name.startswith("rocm")]
    names.sort(key=lambda name: [int(part) for part in re.findall(r"\d+", name)], reverse=True)
    return [f"/opt/{name}" for name in sorted(names, key=lambda name: name != "rocm")]


def _newest(found: Iterable[Llvm]) -> list[Llvm]:
    """By version, newest first; of equals the first stays first."""
    return sorted(found, key=lambda llvm: -llvm.major)


def _in_directory(directory: str, source: str, refused: list[CoasmError]) -> list[Llvm]:
    """The complete sets of tools in *directory*: the plain names, then each version suffix."""
    names = _listing(directory)
    suffixes = [""] if "clang" in names else []
    versioned = [name for name in names if name.startswith("clang-") and name[6:].isdecimal()]
    suffixes += [name[5:] for name in sorted(versioned)]
    tools = []
    for suffix in suffixes:
        missing = [tool for tool in _REQUIRED if tool + suffix not in names]
        if missing:
            continue
        try:
            tools.append(_tools(directory, suffix, names, source))
        except ToolError as error:
            refused.append(error)
    return tools


def _tools(directory: str, suffix: str, names: frozenset[str], source: str) -> Llvm:
    """The set of tools with that suffix; its version from names where they tell it.

    Raises:
        ToolError: not executable, of different versions, or too old.
    """
    paths: dict[str, str] = {}
    majors: dict[str, int | None] = {}
    for tool in (*_REQUIRED, *_OPTIONAL):
        path = os.path.join(directory, tool + suffix)
        if tool + suffix in names and _executable(path):
            paths[tool], majors[tool] = path, _major_by_name(path)
        elif tool in _REQUIRED:
            raise ToolError(f"{path} cannot be executed")
    major = majors["clang"] or _major_by_resources(paths["clang"])
    if major is None:
        major = _ask_version(paths["clang"])[0]
    for tool, other in majors.items():
        if other is not None and other != major:
            if tool in _REQUIRED:
                raise ToolError(
                    f"{directory}: clang{suffix} is LLVM {major}, but {tool}{suffix} is LLVM "
                    f"{other}; all tools must be of one version"
                )
            del paths[tool]
    if major < MINIMUM_VERSION:
        raise ToolError(
            f"LLVM {major} in {directory} is too old: coasm needs {MINIMUM_VERSION} or newer; "
            f"{_INSTALL}"
        )
    required = (paths[tool] for tool in _REQUIRED)
    optional = (paths.get(tool) for tool in _OPTIONAL)
    return Llvm(directory, source, major, *required, *optional)


def _major_by_name(path: str) -> int | None:
    """The major version that a tool's real path names: ``…/llvm-22/bin/…`` or ``…/clang-22``."""
    real = os.path.realpath(path)
    match = re.search(r"/llvm-(\d+)/bin/[^/]+$", real) or re.search(r"-(\d+)$", real)
    return int(match[1]) if match else None


def _major_by_resources(clang: str) -> int | None:
    """The major version by clang's resource directory, ``../lib/clang/22``; None if unclear."""
    root = os.path.dirname(os.path.dirname(os.path.realpath(clang)))
    versions = [name for name in _listing(os.path.join(root, "lib", "clang")) if name[:1].isdigit()]
    if len(versions) != 1:
        return None
    match = re.match(r"\d+", versions[0])
    return int(match[0]) if match else None


@lru_cache(maxsize=16)
def _ask_processors(clang: str) -> frozenset[str]:
    text = _output(clang, "-cc1", "-triple", "amdgcn-amd-amdhsa", "-print-supported-cpus")
    return frozenset(re.findall(r"^\s*(gfx[0-9a-z-]+)\s*$", text, re.MULTILINE))


@lru_cache(maxsize=16)
def _ask_version(clang: str) -> tuple[int, ...]:
    match = re.search(r"\bversion (\d+)\.(\d+)(?:\.(\d+))?", _output(clang, "--version"))
    if match is None:
        raise ToolError(f"{clang} --version prints no version")
    return tuple(int(part) for part in match.groups() if part is not None)


def _output(*command: str) -> str:
    """What *command* prints on both streams."""
    import subprocess

    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise ToolError(f"{command[0]} cannot be run: {error}") from None
    return done.stdout.decode("utf-8", "replace")


def _executable(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def _listing(directory: str) -> frozenset[str]:
    try:
        return frozenset(os.listdir(directory))
    except OSError:
        return frozenset()
