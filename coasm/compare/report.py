"""What a comparison of two code objects found: plain data, and the same as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

__all__ = [
    "ABSENT",
    "Absent",
    "Check",
    "Difference",
    "DontCare",
    "Function",
    "Hunk",
    "Line",
    "Report",
    "Row",
    "Verdict",
]


class Verdict(str, Enum):
    """What a check says. ``equivalent``: other bytes that mean the same."""

    IDENTICAL = "identical"
    EQUIVALENT = "equivalent"
    DIFFERENT = "different"

    def __str__(self) -> str:
        return self.value


class Absent(Enum):
    """The type of :data:`ABSENT`."""

    ABSENT = "absent"

    def __repr__(self) -> str:
        return "<absent>"


#: Stands for the value of something that one side does not have.
ABSENT = Absent.ABSENT


@dataclass(frozen=True)
class Difference:
    """One thing and the value it has on each side.

    ``place`` names it: a header field, a kernel and its descriptor's field, a path of the metadata,
    a section and an offset. ``note`` says more where there is more to say. A ``harmless`` one
    explains bytes that differ and mean the same.
    """

    place: str
    original: Any = ABSENT
    rebuilt: Any = ABSENT
    note: str = ""
    harmless: bool = False

    def to_json(self) -> dict[str, Any]:
        """The finding as JSON values; a side that has no value has no key."""
        found: dict[str, Any] = {"place": self.place}
        for key, value in (("original", self.original), ("rebuilt", self.rebuilt)):
            if value is not ABSENT:
                found[key] = _json(value)
        if self.note:
            found["note"] = self.note
        found["harmless"] = self.harmless
        return found


@dataclass(frozen=True)
class Line:
    """One line of a disassembly: its address, its text, its bytes (for long data: the first)."""

    address: int
    text: str
    data: bytes

    def to_json(self) -> dict[str, Any]:
        return {"address": self.address, "text": self.text, "bytes": self.data.hex()}


@dataclass(frozen=True)
class Row:
    """Lines that stand side by side.

    ``kind`` is ``same`` (context), ``changed``, ``branch`` (the same branch or part of an address,
    but it leads to another place), ``removed`` (no rebuilt line) or ``inserted`` (no original
    line).
    """

    kind: str
    original: Line | None
    rebuilt: Line | None


@dataclass(frozen=True)
class Hunk:
    """A run of rows of one code section, with some rows of context around what differs.

    ``function`` is the symbol they belong to, or "" where the section holds only one.
    """

    section: str
    rows: tuple[Row, ...]
    function: str = ""


@dataclass(frozen=True)
class Function:
    """A kernel, a function or data in a code section that holds several.

    ``verdict`` is ``identical``, ``equivalent``, ``different``, ``missing`` (in the rebuilt object)
    or ``new``; ``original`` and ``rebuilt`` are its addresses. What has no symbol is named by its
    place.
    """

    name: str
    section: str
    verdict: str
    original: int | None
    rebuilt: int | None

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"name": self.name, "section": self.section}
        found["verdict"] = self.verdict
        for key, value in (("original", self.original), ("rebuilt", self.rebuilt)):
            if value is not None:
                found[key] = value
        return found


@dataclass(frozen=True)
class DontCare:
    """Bits that differ and that the disassembler ignores, summed up over one mnemonic.

    ``bits`` is (bit, instructions in which it differs), bit 0 being the lowest of the first byte;
    ``bytes`` how many bytes differ. ``sizes`` is (original size, rebuilt size, instructions) for
    encodings of another length; their bits are not compared.
    """

    mnemonic: str
    instructions: int
    bytes: int
    bits: tuple[tuple[int, int], ...] = ()
    sizes: tuple[tuple[int, int, int], ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "mnemonic": self.mnemonic,
            "instructions": self.instructions,
            "bytes": self.bytes,
            "bits": {str(bit): count for bit, count in self.bits},
            "sizes": [
                {"original": original, "rebuilt": rebuilt, "instructions": count}
                for original, rebuilt, count in self.sizes
            ],
        }


@dataclass(frozen=True)
class Check:
    """A check: its verdict, what it found.

    ``hunks``, ``dont_care`` and ``functions`` are the text check's. ``functions`` is empty where
    nothing had to be compared, or where no code section holds more than one.
    """

    verdict: Verdict
    findings: tuple[Difference, ...] = ()
    hunks: tuple[Hunk, ...] = ()
    dont_care: tuple[DontCare, ...] = ()
    functions: tuple[Function, ...] = ()

    @property
    def differing_rows(self) -> int:
        """How many rows of the hunks are not context."""
        return sum(row.kind != "same" for hunk in self.hunks for row in hunk.rows)

    def to_json(self) -> dict[str, Any]:
        """The check as JSON values; of the hunks only the rows that differ."""
        found: dict[str, Any] = {
            "verdict": self.verdict.value,
            "findings": [finding.to_json() for finding in self.findings],
        }
        if self.hunks:
            found["instructions"] = [
                {
                    "section": hunk.section,
                    **({"function": hunk.function} if hunk.function else {}),
                    "kind": row.kind,
                    **({"original": row.original.to_json()} if row.original else {}),
                    **({"rebuilt": row.rebuilt.to_json()} if row.rebuilt else {}),
                }
                for hunk in self.hunks
                for row in hunk.rows
                if row.kind != "same"
            ]
        if self.functions:
            found["functions"] = [function.to_json() for function in self.functions]
        if self.dont_care:
            found["dont_care"] = [row.to_json() for row in self.dont_care]
        return found


@dataclass(frozen=True)
class Report:
    """The comparison of two code objects.

    ``checks`` holds the four that decide, by name: ``header``, ``descriptors``, ``text`` and
    ``metadata``. ``data`` is what differs in the loaded data that the code may read (``.rodata``
    beside the descriptors, ``.data``, ``.bss``, dynamic relocations): no relinking changes it, so
    it counts as well. ``loaded`` is what differs in the loaded image, ``symbols`` in the global
    symbols, ``remarks`` what is to be said of debug information and build ID: for information.
    Where *kernel* is given, the checks are about that one alone, and nothing is said of data,
    image and file.
    """

    original: str
    rebuilt: str
    checks: dict[str, Check]
    data: tuple[Difference, ...]
    loaded: tuple[Difference, ...]
    symbols: tuple[Difference, ...]
    file_identical: bool
    kernel: str | None = None
    remarks: tuple[str, ...] = ()

    @property
    def equivalent(self) -> bool:
        """Whether the two do the same: no check says different, and neither does the data."""
        return not self.data and all(
            check.verdict is not Verdict.DIFFERENT for check in self.checks.values()
        )

    @property
    def loaded_identical(self) -> bool:
        """Whether every byte of every PT_LOAD segment is the same, at the same address.

        ``e_shoff``, ``e_shnum`` and ``e_shstrndx`` of the ELF header are left out: they describe
        what is not loaded.
        """
        return not self.loaded

    @property
    def verdicts(self) -> dict[str, str]:
        """Check → ``identical``, ``equivalent`` or ``different``."""
        return {name: check.verdict.value for name, check in self.checks.items()}

    def to_json(self) -> dict[str, Any]:
        """The whole report as values that :func:`json.dumps` takes."""
        return {
            "original": self.original,
            "rebuilt": self.rebuilt,
            "kernel": self.kernel,
            "equivalent": self.equivalent,
            "loaded_identical": self.loaded_identical if self.kernel is None else None,
            "file_identical": self.file_identical if self.kernel is None else None,
            "checks": {name: check.to_json() for name, check in self.checks.items()},
            "data": [finding.to_json() for finding in self.data],
            "loaded": [finding.to_json() for finding in self.loaded],
            "symbols": [finding.to_json() for finding in self.symbols],
            "remarks": list(self.remarks),
        }


def _json(value: Any) -> Any:
    """*value* as JSON can say it; what JSON has no word for as an object that names its type."""
    if isinstance(value, dict):
        if all(isinstance(key, str) for key in value):
            return {key: _json(inner) for key, inner in value.items()}
        return {"map": [[_json(key), _json(inner)] for key, inner in value.items()]}
    if isinstance(value, (list, tuple)):
        return [_json(inner) for inner in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return {"float": str(value)}
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    return {type(value).__name__.lower(): str(value)}
