"""Are two code objects the same? The four checks that decide, the loaded image, and the report."""

from __future__ import annotations

from coasm.codeobject import CodeObject
from coasm.compare.checks import check_descriptors, check_header, check_metadata
from coasm.compare.image import compare_data, compare_loaded, compare_symbols
from coasm.compare.kernels import comparable_kernels
from coasm.compare.one import verify_kernel
from coasm.compare.report import (
    ABSENT,
    Check,
    Difference,
    DontCare,
    Function,
    Hunk,
    Line,
    Report,
    Row,
    Verdict,
)
from coasm.compare.text import check_text
from coasm.compare.unloaded import remarks
from coasm.llvm import Llvm

__all__ = [
    "ABSENT",
    "Check",
    "Difference",
    "DontCare",
    "Function",
    "Hunk",
    "Line",
    "Report",
    "Row",
    "Verdict",
    "check_descriptors",
    "check_header",
    "check_metadata",
    "check_text",
    "compare_data",
    "compare_loaded",
    "compare_symbols",
    "verify",
    "verify_kernel",
]


def verify(original: CodeObject, rebuilt: CodeObject, llvm: Llvm | None = None) -> Report:
    """Compare two code objects: see :class:`Report` for what decides and what is reported.

    LLVM is only used where the code differs; without *llvm* one is looked for then.

    Raises:
        FormatError: an object is damaged, or no side has metadata that names the kernels.
        ToolError: LLVM is needed, and there is none.
        UnsupportedError: LLVM is needed, and does not know the target.
    """
    comparable_kernels(
        original, rebuilt
    )  # what cannot be read cannot be judged, be it equal or not
    if original.data == rebuilt.data:
        same = Check(Verdict.IDENTICAL)
        names = ("header", "descriptors", "text", "metadata")
        return Report(original.name, rebuilt.name, dict.fromkeys(names, same), (), (), (), True)
    header = check_header(original, rebuilt)
    metadata = check_metadata(original, rebuilt)
    text, places = check_text(original, rebuilt, llvm)
    descriptors = check_descriptors(original, rebuilt, places)
    loaded = compare_loaded(original, rebuilt)
    return Report(
        original.name,
        rebuilt.name,
        {"header": header, "descriptors": descriptors, "text": text, "metadata": metadata},
        compare_data(original, rebuilt, places) if loaded else (),
        loaded,
        compare_symbols(original, rebuilt),
        False,
        remarks=remarks(original, rebuilt),
    )
