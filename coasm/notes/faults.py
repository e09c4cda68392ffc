"""What is wrong with the metadata of a source, by key and line.

LLVM says no more than ``invalid HSA metadata``. :func:`faults` says why, by the same rules
(:mod:`coasm.notes.schema`), and :func:`doubts` what LLVM takes and no launch can be right with.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from coasm.notes.schema import DOCUMENT, Array, Map, Rule

if TYPE_CHECKING:
    from yaml.nodes import Node

__all__ = ["Fault", "doubts", "faults", "place_of"]

#: A line of the assembler ends there, but in double quotes.
_COMMENT = r'((?:"(?:[^"\\]|\\.)*"|[^";/]|/(?![/*]))*)'
_INTEGER = r"[-+]?(0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]*|[1-9][0-9]*)"
_FLOAT = r"(?i)[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.inf|\.nan"
_WORDS = {int: "a whole number", str: "a string", bool: "true or false"}


def _close(word: str, names: Collection[str]) -> list[str]:
    """The name that is closest to a word, if any is close."""
    from difflib import get_close_matches

    return get_close_matches(word, names, n=1)


class Fault(NamedTuple):
    """One fault: line and column of the metadata's text, from 0 on, the key's path, and what."""

    line: int
    column: int
    path: str
    what: str


def faults(lines: Sequence[str]) -> list[Fault]:
    """Why LLVM refuses the metadata in *lines*, those of its block; empty where nothing is known.

    Source: ``AMDGPUMetadataVerifier.cpp`` and ``MsgPackDocumentYAML.cpp`` (LLVM 22).
    """
    from yaml import YAMLError

    try:
        node = _composed(lines)
        return list(_unfit(node, DOCUMENT, "")) if node is not None else []
    except RecursionError:
        return []
    except YAMLError as error:
        context, problem = (getattr(error, name, None) or "" for name in ("context", "problem"))
        mark = getattr(error, "problem_mark", None)
        if "expected ':'" in problem:  # that is noticed a line later
            mark = getattr(error, "context_mark", None) or mark
        said = f"no YAML: {context} {problem}".replace("  ", " ")
        return [Fault(mark.line, mark.column, "", said)] if mark else []


def _composed(lines: Sequence[str]) -> Node | None:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    text = "\n".join(found[1] if (found := re.match(_COMMENT, line)) else line for line in lines)
    node: Node | None = yaml.compose(text, Loader=loader)
    return node


def _unfit(node: Node, rule: Rule, path: str) -> Iterator[Fault]:
    """Where *node* is not as *rule* says."""
    from yaml import MappingNode, ScalarNode, SequenceNode

    def fault(what: str, at: Node = node) -> Fault:
        return Fault(at.start_mark.line, at.start_mark.column, path, what)

    if isinstance(rule, Map):
        if not isinstance(node, MappingNode):
            yield fault("is no map")
            return
        yield from _unfit_map(node, rule, path)
    elif isinstance(rule, Array):
        if not isinstance(node, SequenceNode):
            yield fault("is no list")
            return
        if rule.size not in (None, len(node.value)):
            yield fault(f"has {len(node.value)} entries, not {rule.size}")
        for number, item in enumerate(node.value):
            yield from _unfit(item, rule.item, f"{path}[{number}]")
    elif not isinstance(node, ScalarNode):
        what = "map" if isinstance(node, MappingNode) else "list"
        yield fault(f"is a {what}, expected {_expected(rule)}")
    elif not _is(node, rule):
        close = _close(node.value, rule) if isinstance(rule, frozenset) else []
        hint = f"; did you mean {close[0]}?" if close else f", expected {_expected(rule)}"
        yield fault(f"{node.value!r}{' is not known' if close else ''}{hint}")


def _unfit_map(node: Any, rule: Map, path: str) -> Iterator[Fault]:
    values: dict[str, Node] = {}
    for key, value in node.value:
        if key.value in values:
            mark = key.start_mark
            yield Fault(mark.line, mark.column, _child(path, key.value), "stands there twice")
        values.setdefault(key.value, value)
    known = {**rule.required, **rule.optional}
    for name in rule.required:
        if name not in values:
            close = _close(name, [n for n in values if n not in known])
            hint = f"; is {close[0]} meant for it?" if close else ""
            mark = node.start_mark
            yield Fault(mark.line, mark.column, path or "the document", f"has no {name}{hint}")
    for name, value in values.items():
        if name in known:
            yield from _unfit(value, known[name], _child(path, name))


def _child(path: str, key: str) -> str:
    return path + key if key.startswith(".") else f"{path}.{key}" if path else key


def _expected(rule: Rule) -> str:
    if isinstance(rule, frozenset):
        return f"one of {', '.join(sorted(rule))}"
    return _WORDS.get(rule, "a value") if isinstance(rule, type) else "a value"


def _is(node: Any, rule: Rule) -> bool:
    """Whether LLVM takes a scalar; it types one by its text even where it is quoted."""
    text = node.value
    number = re.fullmatch(_INTEGER, text) is not None and -(1 << 63) <= _value(text) < 1 << 64
    if rule is int:
        return number
    if rule is bool:
        return text in ("true", "false")
    if isinstance(rule, frozenset):
        return text in rule
    return node.tag == "!str" or not (
        number or text in ("true", "false", "") or re.fullmatch(_FLOAT, text)
    )


def _value(text: str) -> int:
    digits = text.lstrip("+-")
    base = {"x": 16, "b": 2, "o": 8}.get(digits[1:2].lower(), 8 if digits[0] == "0" else 10)
    number = int(digits.lstrip("0oO") or "0", 8) if base == 8 else int(digits, base)
    return -number if text.startswith("-") else number


def place_of(lines: Sequence[str], path: Sequence[str | int]) -> tuple[int, int] | None:
    """Line and column of what *path* (keys and indices) leads to; None where it is not found."""
    from yaml import MappingNode, SequenceNode, YAMLError

    try:
        node: Any = _composed(lines)
    except (YAMLError, RecursionError):
        return None
    for step in path:
        if isinstance(step, int) and isinstance(node, SequenceNode) and step < len(node.value):
            node = node.value[step]
        elif isinstance(node, MappingNode):
            found = [value for key, value in node.value if key.value == step]
            if not found:
                break
            node = found[0]
    return None if node is None else (node.start_mark.line, node.start_mark.column)


#: Sizes in bytes that the kernel descriptor has too, as 32 bits.
_SEGMENTS = (".kernarg_segment_size", ".group_segment_fixed_size", ".private_segment_fixed_size")


def doubts(
    document: Mapping[Any, Any], symbols: Collection[str]
) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """What LLVM takes of a decoded document and cannot be right: a path, and what is wrong.

    *symbols* are the names that the object defines.
    """
    kernels = document.get("amdhsa.kernels")
    seen: dict[str, int] = {}
    for number, kernel in enumerate(kernels if isinstance(kernels, list) else ()):
        if not isinstance(kernel, dict):
            continue
        path = ("amdhsa.kernels", number)
        symbol = str(kernel.get(".symbol"))
        if symbol in seen:
            yield (*path, ".symbol"), f"{symbol!r} is that of kernel {seen[symbol]} as well"
        elif symbol not in symbols:
            close = _close(symbol, [s for s in symbols if s.endswith(".kd")])
            hint = f"; did you mean {close[0]!r}?" if close else ""
            yield (*path, ".symbol"), f"the object has no symbol {symbol!r}{hint}"
        elif not symbol.endswith(".kd"):
            yield (*path, ".symbol"), f"{symbol!r} is no kernel descriptor's: those end in .kd"
        seen.setdefault(symbol, number)
        align = kernel.get(".kernarg_segment_align")
        if isinstance(align, int) and (align < 1 or align & (align - 1)):
            yield (*path, ".kernarg_segment_align"), f"{align} is no power of two"
        for key, value in kernel.items():
            if type(value) is int and value < 0:
                yield (*path, key), f"{value} is negative"
            elif key in _SEGMENTS and type(value) is int and value >> 32:
                yield (*path, key), f"{value} bytes are more than a descriptor's 32 bits can say"
        yield from _doubtful_arguments(kernel, path)


def _doubtful_arguments(
    kernel: Mapping[Any, Any], path: tuple[str | int, ...]
) -> Iterator[tuple[tuple[str | int, ...], str]]:
    arguments = kernel.get(".args")
    size = kernel.get(".kernarg_segment_size")
    spans = []
    for number, argument in enumerate(arguments if isinstance(arguments, list) else ()):
        if not isinstance(argument, dict):
            continue
        low, length = argument.get(".offset"), argument.get(".size")
        if type(low) is not int or type(length) is not int:
            continue
        where = (*path, ".args", number, ".offset")
        if low < 0 or length < 0 or (type(size) is int and low + length > size):
            yield (
                where,
                f"bytes {low} to {low + length} leave the kernarg segment of {size} bytes",
            )
        spans.append((low, low + length, number))
    spans.sort()
    for (low, end, number), (start, stop, other) in pairwise(spans):
        if start < min(end, stop) and low < end:
            later, one = max(number, other), min(number, other)
            yield (*path, ".args", later, ".offset"), f"overlaps argument {one}"
