"""Where the LLVM tools are looked for, in which order, and what is refused.

The directories here hold shell scripts that print what a tool would print.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from coasm.errors import ToolError, UnsupportedError
from coasm.llvm import find
from coasm.llvm.find import MINIMUM_VERSION, Llvm, find_llvm

_TOOLS = ("clang", "ld.lld", "llvm-objdump", "llvm-mc", "llvm-readelf", "llvm-cxxfilt")

MakeTools = Callable[..., Path]


@pytest.fixture
def tools(tmp_path: Path) -> MakeTools:
    """Makes a directory of tools that say they are of that version and know those processors."""

    def make(
        name: str,
        version: str = "22.1.8",
        *,
        suffix: str = "",
        without: tuple[str, ...] = (),
        knows: str = "gfx942",
    ) -> Path:
        directory = tmp_path / name
        directory.mkdir(parents=True, exist_ok=True)
        listing = "\\n".join(f"\\t{word}" for word in ("fiji", *knows.split()))
        for tool in _TOOLS:
            if tool not in without:
                path = directory / (tool + suffix)
                path.write_text(
                    "#!/bin/sh\n"
                    f'if [ "$1" = --version ]; then echo "Some clang version {version} (x)"\n'
                    f"else printf 'Available CPUs for this target:\\n\\n{listing}\\n\\n' >&2; fi\n"
                )
                path.chmod(0o755)
        return directory

    return make


@pytest.fixture(autouse=True)
def nothing_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hide what this machine has: no variables, an empty PATH, no /usr/lib, no /opt."""
    for name in ("COASM_LLVM", "ROCM_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    listing = find._listing

    def here_only(directory: str) -> frozenset[str]:
        return listing(directory) if directory.startswith(str(tmp_path)) else frozenset()

    monkeypatch.setattr(find, "_listing", here_only)


def _path(monkeypatch: pytest.MonkeyPatch, *directories: Path) -> None:
    monkeypatch.setenv("PATH", ":".join(map(str, directories)))


def test_named_directory(tools: MakeTools) -> None:
    directory = tools("a")
    found = find_llvm(str(directory))
    assert found == Llvm(
        directory=str(directory),
        source="--llvm",
        major=22,
        clang=f"{directory}/clang",
        lld=f"{directory}/ld.lld",
        objdump=f"{directory}/llvm-objdump",
        mc=f"{directory}/llvm-mc",
        readelf=f"{directory}/llvm-readelf",
        cxxfilt=f"{directory}/llvm-cxxfilt",
    )
    assert found.version == (22, 1, 8)


def test_order(tools: MakeTools, monkeypatch: pytest.MonkeyPatch) -> None:
    on_path, rocm = tools("path", "23.0.0"), tools("rocm/llvm/bin", "19.0.0")
    variable, argument = tools("variable", "20.1.0"), tools("argument", "21.1.0")
    _path(monkeypatch, on_path)
    assert find_llvm().directory == str(on_path)
    monkeypatch.setenv("ROCM_PATH", str(rocm.parent.parent))
    assert find_llvm().directory == str(rocm)
    monkeypatch.setenv("COASM_LLVM", str(variable))
    assert find_llvm().directory == str(variable)
    assert find_llvm(str(argument)).directory == str(argument)


def test_newest_on_path(tools: MakeTools, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = tools("old", "20.1.0"), tools("new", "22.1.0")
    _path(monkeypatch, old, new)
    assert find_llvm().directory == str(new)


def test_versioned_names(tools: MakeTools, monkeypatch: pytest.MonkeyPatch) -> None:
    tools("bin", "19.1.7", suffix="-19")
    tools("bin", "14.0.6")
    _path(monkeypatch, tools("bin", "22.1.8", suffix="-22"))
    assert Path(find_llvm().objdump).name == "llvm-objdump-22"
    assert find_llvm().major == 22


def test_tools_are_not_mixed(tools: MakeTools, monkeypatch: pytest.MonkeyPatch) -> None:
    clang_only = tools("one", "23.0.0", without=("ld.lld", "llvm-objdump"))
    others = tools("two", "23.0.0", without=("clang",))
    whole = tools("three", "21.0.0")
    _path(monkeypatch, clang_only, others, whole)
    assert find_llvm().directory == str(whole)
    tools("four", "22.0.0", suffix="-22", without=("ld.lld",))
    with pytest.raises(ToolError, match=r"no LLVM found"):
        _path(monkeypatch, tools("four", "21.0.0", suffix="-21", without=("clang",)))
        find_llvm()


def test_links_to_other_versions_are_not_mixed(tools: MakeTools, tmp_path: Path) -> None:
    new, old = tools("llvm-22/bin"), tools("llvm-20/bin", "20.0.0")
    links = tmp_path / "links"
    links.mkdir()
    for tool in ("clang", "ld.lld", "llvm-objdump"):
        (links / tool).symlink_to(new / tool)
    (links / "llvm-mc").symlink_to(old / "llvm-mc")
    assert find_llvm(str(links)).mc is None  # optional: left out
    (links / "ld.lld").unlink()
    (links / "ld.lld").symlink_to(old / "ld.lld")
    with pytest.raises(ToolError, match=r"clang is LLVM 22, but ld\.lld is LLVM 20"):
        find_llvm(str(links))


@pytest.mark.parametrize("missing", ["clang", "ld.lld", "llvm-objdump"])
def test_named_directory_lacks_a_tool(
    tools: MakeTools, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    _path(monkeypatch, tools("whole"))
    directory = tools("part", without=(missing,))
    with pytest.raises(ToolError, match=f"--llvm .*: no {missing} there"):
        find_llvm(str(directory))
    monkeypatch.setenv("COASM_LLVM", str(directory))
    with pytest.raises(ToolError, match=f"COASM_LLVM .*: no {missing} there"):
        find_llvm()


def test_optional_tools(tools: MakeTools) -> None:
    found = find_llvm(str(tools("a", without=("llvm-mc", "llvm-readelf", "llvm-cxxfilt"))))
    assert (found.mc, found.readelf, found.cxxfilt) == (None, None, None)


def test_named_directory_is_none(tools: MakeTools, tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="no such directory"):
        find_llvm(str(tmp_path / "missing"))
    with pytest.raises(ToolError, match=r"did you mean .*/prefix/bin"):
        find_llvm(str(tools("prefix/bin").parent))


def test_minimum(tools: MakeTools, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MINIMUM_VERSION == 19
    old = tools("old", "18.1.8")
    with pytest.raises(ToolError, match=r"LLVM 18 in .* is too old: coasm needs 19 or newer"):
        find_llvm(str(old))
    _path(monkeypatch, old)
    with pytest.raises(ToolError, match=r"no LLVM found.*LLVM 18 in .* is too old"):
        find_llvm()
    new = tools("new", "19.0.0")
    _path(monkeypatch, old, new)
    assert find_llvm().directory == str(new)


def test_processor(tools: MakeTools, monkeypatch: pytest.MonkeyPatch) -> None:
    lacks = tools("lacks", "21.1.0", knows="gfx942 gfx950")
    with pytest.raises(UnsupportedError, match=r"gfx1250 is not known to LLVM 21\.1\.0 in .*lacks"):
        find_llvm(str(lacks), processor="gfx1250")
    assert find_llvm(str(lacks), processor="gfx950").knows("gfx942")
    # A vendor's LLVM may know more than the release of its number.
    vendor = tools("vendor", "20.0.0", knows="gfx942 gfx950 gfx1250")
    assert find_llvm(str(vendor), processor="gfx1250").directory == str(vendor)
    # Of what nobody named, the first that knows the processor is taken.
    _path(monkeypatch, lacks, vendor)
    assert find_llvm().directory == str(lacks)
    assert find_llvm(processor="gfx1250").directory == str(vendor)
    _path(monkeypatch, lacks)
    with pytest.raises(UnsupportedError, match="install LLVM 22"):
        find_llvm(processor="gfx1250")


def test_nothing_is_run_where_names_tell(tools: MakeTools, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = tools("llvm-22/bin")

    def never(*command: str) -> str:
        raise AssertionError(f"ran {command}")

    monkeypatch.setattr(find, "_output", never)
    assert find_llvm(str(directory), processor="gfx1250").major == 22


def test_version_by_resource_directory(
    tools: MakeTools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tools("prefix/bin")
    (tmp_path / "prefix" / "lib" / "clang" / "21").mkdir(parents=True)
    monkeypatch.setattr(find, "_output", lambda *command: "no version")
    assert find_llvm(str(directory)).major == 21


def test_no_version(tools: MakeTools) -> None:
    with pytest.raises(ToolError, match="prints no version"):
        find_llvm(str(tools("a", "unknown")))


def test_current_directory_is_not_searched(
    tools: MakeTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tools("here"))
    monkeypatch.setenv("PATH", f".:{''}")
    with pytest.raises(ToolError, match="no LLVM found"):
        find_llvm()


def test_real_llvm_says_what_it_is(llvm: Llvm) -> None:
    assert llvm.version[0] == llvm.major
    assert {"gfx600", "gfx900", "gfx942", "gfx1100"} <= llvm.processors
    for processor in ("gfx942", "gfx940", "gfx950", "gfx1250", "gfx9999"):
        if processor in llvm.processors:
            assert llvm.knows(processor)
    assert llvm.knows("gfx940") == ("gfx940" in llvm.processors)
