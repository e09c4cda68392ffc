"""What two metadata notes say differently, by path."""

from __future__ import annotations

import re
import struct
from typing import Any

from coasm.compare.report import ABSENT, Difference
from coasm.notes.document import decode

__all__ = ["differences", "document_differences"]

_PLAIN = re.compile(r"\.?[A-Za-z_][\w.]*", re.ASCII)


def differences(a: bytes, b: bytes) -> list[Difference]:
    """How the documents of two notes differ, in the order of *a*; empty where they are equal.

    Maps are compared by key whatever their order, arrays by index, scalars by type and value. Notes
    of different bytes that encode the same document have no differences.

    Raises:
        FormatError: one of them is not a metadata note (see :func:`~coasm.notes.document.decode`).
    """
    return document_differences(decode(a), decode(b))


def document_differences(left: Any, right: Any) -> list[Difference]:
    """:func:`differences` of two decoded documents, or parts of them."""
    found: list[Difference] = []
    _compare("", left, right, found)
    return found


def _compare(path: str, left: Any, right: Any, found: list[Difference]) -> None:
    if isinstance(left, dict) and isinstance(right, dict):
        lefts, rights = ({_identity(key): key for key in side} for side in (left, right))
        for identity in {**lefts, **rights}:
            _compare(
                _child(path, lefts.get(identity, rights.get(identity))),
                left[lefts[identity]] if identity in lefts else ABSENT,
                right[rights[identity]] if identity in rights else ABSENT,
                found,
            )
    elif isinstance(left, list) and isinstance(right, list):
        for index in range(max(len(left), len(right))):
            _compare(
                f"{path}[{index}]",
                left[index] if index < len(left) else ABSENT,
                right[index] if index < len(right) else ABSENT,
                found,
            )
    elif (
        isinstance(left, (dict, list))
        or isinstance(right, (dict, list))
        or _identity(left) != _identity(right)
    ):
        found.append(Difference(path or "the document", left, right))


def _identity(value: Any) -> tuple[type, Any]:
    """What makes a scalar itself: 1, 1.0 and True are three values, a NaN equals itself."""
    return type(value), struct.pack("d", value) if isinstance(value, float) else value


def _child(path: str, key: Any) -> str:
    if isinstance(key, str) and _PLAIN.fullmatch(key):
        if not path:
            return key
        if key.startswith("."):
            return path + key
    return f"{path}[{key!r}]"
