"""A YAML document whose every part knows its place, so that what is wrong is refused with it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from coasm.codeobject.model import read_input
from coasm.errors import FormatError, LaunchError
from coasm.launch.dtypes import DTYPES, DType

if TYPE_CHECKING:
    from yaml.nodes import Node

__all__ = ["At", "read_document"]

_MAX_FILE = 1 << 20


class At(NamedTuple):
    """A node of the document with the file it is from: knows how to say where it is."""

    file: str
    node: Node

    def error(self, text: str) -> LaunchError:
        mark = self.node.start_mark
        return LaunchError(f"{self.file}:{mark.line + 1}:{mark.column + 1}: {text}")

    def mapping(self, what: str) -> dict[str, tuple[At, At]]:
        """A mapping's entries: key → (where the key is, its value)."""
        from yaml.nodes import MappingNode

        if not isinstance(self.node, MappingNode):
            raise self.error(f"{what}: expected a mapping")
        found: dict[str, tuple[At, At]] = {}
        for key, value in self.node.value:
            at = At(self.file, key)
            name = at.text("a key")
            if name in found:
                raise at.error(f"{name!r} is given twice")
            found[name] = at, At(self.file, value)
        return found

    def fields(
        self, what: str, known: tuple[str, ...], needed: tuple[str, ...] = ()
    ) -> dict[str, At]:
        """A mapping's values by key, none but the *known* ones, and all of the *needed* ones."""
        found = self.mapping(what)
        for name, (at, _) in found.items():
            if name not in known:
                raise at.error(f"{what}: unknown key {name!r}; known are {', '.join(known)}")
        for name in needed:
            if name not in found:
                raise self.error(f"{what}: {name!r} is missing")
        return {name: value for name, (_, value) in found.items()}

    def sequence(self, what: str) -> list[At]:
        from yaml.nodes import SequenceNode

        if not isinstance(self.node, SequenceNode):
            raise self.error(f"{what}: expected a list")
        return [At(self.file, node) for node in self.node.value]

    @property
    def is_mapping(self) -> bool:
        from yaml.nodes import MappingNode

        return isinstance(self.node, MappingNode)

    @property
    def is_sequence(self) -> bool:
        from yaml.nodes import SequenceNode

        return isinstance(self.node, SequenceNode)

    @property
    def plain(self) -> bool:
        """Whether it is a scalar without quotes."""
        return getattr(self.node, "style", "") is None

    def text(self, what: str) -> str:
        from yaml.nodes import ScalarNode

        if not isinstance(self.node, ScalarNode):
            raise self.error(f"{what}: expected text")
        return str(self.node.value)

    def number(self, what: str) -> int | float:
        """A plain whole number (``0x…`` too) or a float."""
        text = self.text(what)
        if self.plain and len(text) <= 64:
            plain = text.replace("_", " ")  # Python's digit separator is not YAML's
            for kind in (_integer, float):
                try:
                    return kind(plain)
                except ValueError:
                    continue
        raise self.error(f"{what}: {text!r} is no number")

    def integer(self, what: str, low: int, high: int) -> int:
        value = self.number(what)
        if not isinstance(value, int):
            raise self.error(f"{what}: {value} is no whole number")
        if not low <= value <= high:
            raise self.error(f"{what}: {value} is not in {low} to {high}")
        return value

    def path(self, what: str, folder: Path) -> Path:
        """A path; a relative one starts at *folder*."""
        text = self.text(what)
        if not text or "\0" in text:
            raise self.error(f"{what}: {text!r} is no path")
        return folder / text

    def dtype(self, what: str) -> DType:
        name = self.text(what)
        if name not in DTYPES:
            raise self.error(f"{what}: unknown type {name!r}; known are {', '.join(DTYPES)}")
        return DTYPES[name]


def _integer(text: str) -> int:
    return int(text, 0) if text.strip("+-")[:2].lower() in ("0x", "0b", "0o") else int(text)


def read_document(path: str | os.PathLike[str]) -> At:
    """The top of the YAML document in a file.

    Raises:
        LaunchError: it is no YAML, or empty; the text names line and column.
        FormatError: it cannot be read.
    """
    import yaml

    name = os.fspath(path)
    data = read_input(path)
    if len(data) > _MAX_FILE:
        raise FormatError(f"{name}: {len(data)} bytes, too large for a launch file")
    try:
        node = yaml.compose(data.decode("utf-8"), Loader=yaml.SafeLoader)
    except UnicodeDecodeError as error:
        at = f"{error.reason} at byte {error.start}"
        raise FormatError(f"{name}: not UTF-8 text ({at})") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        raise LaunchError(f"{name}{where}: {error.problem or error}") from None
    except (yaml.YAMLError, RecursionError) as error:
        raise LaunchError(f"{name}: {str(error).splitlines()[0]}") from None
    if node is None:
        raise LaunchError(f"{name}:1:1: an empty document")
    return At(name, node)
