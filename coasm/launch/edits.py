"""Whether a run executed what an edit changed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from coasm.codeobject import CodeObject
from coasm.compare import Hunk, check_text

if TYPE_CHECKING:
    from coasm.emulator import Coverage
    from coasm.llvm import Llvm

__all__ = ["Edit", "Reached", "edits", "reached"]


#: What ``coasm asm`` puts behind a listing's name for the object that it builds.
_REBUILT = ".rebuilt.co"


class Edit(NamedTuple):
    """One instruction that an edit changed, put in, or took out.

    ``kind`` is ``changed``, ``branch`` (it leads elsewhere), ``inserted`` or ``removed``.
    ``address`` is that of the instruction in the edited object; for one that was removed, of what
    follows in its place. ``text`` is the edited instruction, or the removed one.
    """

    kind: str
    address: int
    text: str

    def __str__(self) -> str:
        place = "removed before" if self.kind == "removed" else "at"
        return f"`{self.text}` {place} {self.address:#x}"


class Reached(NamedTuple):
    """What of an edit a run executed: all edits, and those that it did not execute.

    ``asleep`` are among ``missed``: they were executed while EXEC had switched off every lane, and
    so did nothing.
    """

    edits: tuple[Edit, ...]
    missed: tuple[Edit, ...]
    asleep: tuple[Edit, ...] = ()

    @property
    def whole(self) -> bool:
        """Whether each edited instruction was executed."""
        return not self.missed

    def to_json(self) -> dict[str, Any]:
        return {
            "instructions": len(self.edits),
            "executed": len(self.edits) - len(self.missed),
            "missed": [
                {**edit._asdict(), "no_lane_on": edit in self.asleep} for edit in self.missed
            ],
        }


def edits(original: CodeObject, edited: CodeObject, llvm: Llvm | None = None) -> tuple[Edit, ...]:
    """The instructions of *edited* that *original* does not have so, and those that it lost.

    Encodings that mean the same and data among the code are no edits.

    Raises:
        ToolError: LLVM is needed, and there is none.
        UnsupportedError: the LLVM does not know the target.
    """
    check, _ = check_text(original, edited, llvm)
    found = [edit for hunk in check.hunks for edit in _of_hunk(hunk)]
    new = {f.rebuilt for f in check.functions if f.verdict == "new" and f.rebuilt is not None}
    if new:
        found += _whole_functions(edited, new, llvm)
    return tuple(sorted(dict.fromkeys(found), key=lambda edit: (edit.address, edit.kind)))


def _of_hunk(hunk: Hunk) -> Iterator[Edit]:
    for at, row in enumerate(hunk.rows):
        if row.kind == "same":
            continue
        if row.rebuilt is not None:
            if not row.rebuilt.text.startswith("data:"):
                yield Edit(row.kind, row.rebuilt.address, row.rebuilt.text)
            continue
        assert row.original is not None
        behind = [other.rebuilt for other in hunk.rows[at:] if other.rebuilt is not None]
        before = [other.rebuilt for other in hunk.rows[:at] if other.rebuilt is not None]
        place = behind[0] if behind else before[-1] if before else row.original
        if not row.original.text.startswith("data:"):
            yield Edit("removed", place.address, row.original.text)


def _whole_functions(edited: CodeObject, starts: set[int], llvm: Llvm | None) -> Iterator[Edit]:
    """Each instruction of functions that the original does not have."""
    from coasm.asm.code import Instruction
    from coasm.asm.decode import decode
    from coasm.compare.units import cut, cuts_of
    from coasm.llvm import find_llvm

    code = decode(edited, llvm or find_llvm(processor=edited.target.name))
    cuts = cuts_of(edited, edited)
    for section in edited.code_sections:
        for unit in cut(section, code[section.index], cuts.get(section.index, {}), ()):
            if unit.low in starts:
                for item in unit.items:
                    if isinstance(item, Instruction):
                        yield Edit("inserted", item.address, item.text)


def reached(found: tuple[Edit, ...], coverage: Coverage) -> Reached:
    """Which of the edits *found* a run with that coverage executed."""
    missed = tuple(edit for edit in found if edit.address not in coverage.executed)
    asleep = tuple(edit for edit in missed if edit.address in coverage.asleep)
    return Reached(found, missed, asleep)


class Originals:
    """What was changed in the objects that are run, against their originals.

    *path* is an original, or a folder of originals with the names of the objects; None stands for
    the object that an object's listing names (see :func:`coasm.asm.original.find_original`), where
    there is one. Each object is compared once. *llvm* is the directory of the LLVM tools.
    """

    def __init__(self, path: str | None, llvm: str | None = None) -> None:
        self.path, self.llvm = path, llvm
        self._edits: dict[str, tuple[Edit, ...] | None] = {}

    def reached(self, path: str, co: CodeObject, coverage: Coverage | None) -> Reached | None:
        """What a run executed of the edit of *co*, which stands at *path*.

        None where no original is known, or not what was executed: on a GPU.

        Raises:
            CoasmError: the original cannot be read, or not be compared with the object.
        """
        if coverage is None:
            return None
        if path not in self._edits:
            self._edits[path] = self._compared(path, co)
        changed = self._edits[path]
        return None if changed is None else reached(changed, coverage)

    def _compared(self, path: str, co: CodeObject) -> tuple[Edit, ...] | None:
        from coasm.llvm import find_llvm

        original = self._original(path)
        if original is None:
            return None
        return edits(original, co, find_llvm(self.llvm, processor=co.target.name))

    def _original(self, path: str) -> CodeObject | None:
        from coasm.opening import open_code_object

        if self.path is not None:
            name = self.path
            if os.path.isdir(name):
                name = os.path.join(name, os.path.basename(path))
            return open_code_object(name)
        from coasm.asm.original import find_original
        from coasm.codeobject.model import read_input

        listing = path
        if path.endswith(_REBUILT):
            listing = path[: -len(_REBUILT)] + ".s"
        if not listing.endswith(".s") or not os.path.isfile(listing):
            return None
        return find_original(read_input(listing).decode("utf-8", "surrogateescape"), listing)


def executed_json(coverage: Coverage | None, edit: Reached | None) -> dict[str, Any]:
    """``executed`` and ``edit`` of a run as JSON values; null where they are not known."""
    executed = None
    if coverage is not None:
        executed = {
            "instructions": len(coverage.code),
            "executed": len(coverage.executed & coverage.code),
            "no_lane_on": len(coverage.asleep & coverage.code),
        }
    return {"executed": executed, "edit": None if edit is None else edit.to_json()}


def passed_json(compared: bool, right: bool, edit: Reached | None) -> bool | None:
    """Whether a run passed, as a JSON value.

    Null where nothing was compared, or the right result says nothing of an edit, since the run did
    not wholly execute it.
    """
    if not compared or (right and edit is not None and not edit.whole):
        return None
    return right
