"""How the modules hang together: no two import each other, by whatever way round."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

_ROOT = Path(__file__).parent.parent


def modules(root: Path) -> dict[str, Path]:
    """Name → file of the modules of the package in *root*; ``__init__.py`` has the package's."""
    found = {}
    for path in sorted((root / "coasm").rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(name: str, path: Path, known: Mapping[str, Path]) -> Iterator[str]:
    """The modules that one imports: at its head, in functions, and for type checking alone.

    A package's own file counts where something is taken from it that is no module.
    """
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name in known:
                    yield alias.name
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                up = package.split(".")[: len(package.split(".")) + 1 - node.level]
                base = ".".join([*up, *([base] if base else [])])
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                if inner in known:
                    yield inner
                elif base in known:
                    yield base


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """The strongly connected components of more than one module, or of one that imports itself."""
    reach = {name: _reached(graph, name) for name in graph}
    found: dict[tuple[str, ...], None] = {}
    for name in graph:
        if name in reach[name]:
            found[tuple(sorted(one for one in reach[name] if name in reach[one]))] = None
    return [list(circle) for circle in found]


def _reached(graph: Mapping[str, set[str]], start: str) -> set[str]:
    reached: set[str] = set()
    todo = list(graph[start])
    while todo:
        name = todo.pop()
        if name not in reached:
            reached.add(name)
            todo += graph[name]
    return reached


def _graph(root: Path) -> dict[str, set[str]]:
    known = modules(root)
    return {name: set(imported(name, path, known)) for name, path in known.items()}


def test_no_two_modules_import_each_other() -> None:
    assert circles(_graph(_ROOT)) == []


#: The emulator's floors, lowest first: nobody imports from above. Its other modules are on top.
_FLOORS = (("errors", "options"), ("state",), ("rows",), ("engine",))


def test_imports_of_the_emulator_point_down() -> None:
    room = "coasm.emulator"

    def floor(name: str) -> int:
        part = name.removeprefix(f"{room}.").partition(".")[0]
        return next((at for at, names in enumerate(_FLOORS) if part in names), len(_FLOORS))

    assert not {
        (name, other)
        for name, others in _graph(_ROOT).items()
        for other in others
        if name.startswith(f"{room}.") and other.startswith(room) and floor(name) < floor(other)
    }


@pytest.mark.parametrize(
    "statement",
    [
        "from coasm.other import thing",
        "import coasm.other",
        "from coasm import other",
        "from . import other",
        "from .other import thing",
        "if TYPE_CHECKING:\n    from coasm.other import Thing",
        "def function():\n    from coasm.other import thing",
    ],
)
def test_a_circle_is_seen_however_it_is_made(tmp_path: Path, statement: str) -> None:
    """By each kind of import statement that Python has (The Python Language Reference, 7.11)."""
    package = tmp_path / "coasm"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "one.py").write_text(statement)
    (package / "other.py").write_text("import os\n")
    assert circles(_graph(tmp_path)) == []
    (package / "other.py").write_text("from coasm import one\n")
    assert circles(_graph(tmp_path)) == [["coasm.one", "coasm.other"]]


#: What reads a text by a pattern or a prefix.
_READS = ("compile", "match", "fullmatch", "search", "startswith", "endswith", "sub", "findall")
_MNEMONIC = re.compile(
    r"^[\^(?:\[]*([sv]_|ds_|t?buffer_|global_|flat_|scratch_|image_|s\?|\[sv\]_|\(s\|v\))"
    r"|_(load|store|atomic|swap|mfma|lds)_"
)
#: Rooms that may know how mnemonics are spelled: the table's, and the encodings that LLVM does not
#: agree on with itself.
_SPELLERS = ("coasm/isa/", "coasm/asm/quirks.py")


def spelled(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Where a module decides something by a pattern, a prefix or a part of a mnemonic."""
    for node in ast.walk(tree):
        constants: list[ast.AST] = []
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in _READS:
                constants = list(ast.walk(node))
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.In, ast.NotIn)):
            constants = [node.left]
        for one in constants:
            if isinstance(one, ast.Constant) and isinstance(one.value, str):
                text = one.value
                whole = isinstance(node, ast.Compare) and not text.endswith("_")
                if _MNEMONIC.search(text) and not whole:
                    yield one.lineno, text


def test_mnemonics_are_spelled_in_isa_alone() -> None:
    found = [
        f"{name}:{line}: {text}"
        for path in sorted((_ROOT / "coasm").rglob("*.py"))
        if not (name := path.relative_to(_ROOT).as_posix()).startswith(_SPELLERS)
        for line, text in spelled(ast.parse(path.read_text("utf-8")))
    ]
    assert found == []


@pytest.mark.parametrize(
    "line",
    [
        're.compile(r"v_(add|sub)_f32")',
        're.match("ds_read", name)',
        'name.startswith(("s_load_", "x"))',
        '"_atomic_" in name',
    ],
)
def test_a_spelled_mnemonic_is_seen(line: str) -> None:
    assert list(spelled(ast.parse(line)))
