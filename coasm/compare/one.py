"""One kernel of two code objects: its code, its descriptor, its metadata."""

from __future__ import annotations

from collections.abc import Iterable

from coasm.codeobject import CodeObject, Kernel
from coasm.compare.checks import check_descriptors, check_header
from coasm.compare.kernels import comparable_kernels
from coasm.compare.report import ABSENT, Check, Difference, Report, Verdict
from coasm.compare.text import check_text
from coasm.llvm import Llvm

__all__ = ["verify_kernel"]


def verify_kernel(
    original: CodeObject, rebuilt: CodeObject, kernel: Kernel, llvm: Llvm | None = None
) -> Report:
    """Compare one *kernel* of *original* with the one of that name in *rebuilt*.

    What it calls and the data that it reads are not compared, and nothing is said of the files.

    Raises:
        CoasmError: as :func:`coasm.compare.verify`.
    """
    other = comparable_kernels(rebuilt, original).get(kernel.symbol)
    text, places = check_text(original, rebuilt, llvm)
    descriptors = check_descriptors(original, rebuilt, places)
    checks = {
        "header": check_header(original, rebuilt),
        "descriptors": _judged(
            finding
            for finding in descriptors.findings
            if finding.place == kernel.symbol or finding.place.startswith(f"{kernel.symbol}: ")
        ),
        "text": _text(text, original, rebuilt, kernel, other),
        "metadata": _metadata(kernel, other),
    }
    return Report(original.name, rebuilt.name, checks, (), (), (), False, kernel.name)


def _judged(findings: Iterable[Difference]) -> Check:
    found = tuple(findings)
    if not found:
        return Check(Verdict.IDENTICAL)
    harmless = all(finding.harmless for finding in found)
    return Check(Verdict.EQUIVALENT if harmless else Verdict.DIFFERENT, found)


def _text(
    check: Check, original: CodeObject, rebuilt: CodeObject, kernel: Kernel, other: Kernel | None
) -> Check:
    """What *check* says of the kernel's code."""
    if other is None:
        return Check(
            Verdict.DIFFERENT, (Difference(f"function {kernel.name}", "is there", ABSENT),)
        )
    functions = tuple(
        function
        for function in check.functions
        if function.original == kernel.entry or function.rebuilt == other.entry
    )
    section = original.section_at(kernel.entry)
    name = section.name if section is not None else ""
    own = {function.name for function in functions} or {""}
    findings = tuple(
        finding
        for finding in check.findings
        if finding.place in (f"section {name}", *(f"function {one}" for one in own))
        or finding.place.partition("+")[0] in (own if functions else {name})
    )
    hunks = tuple(h for h in check.hunks if h.function in own and (functions or h.section == name))
    verdicts = {function.verdict for function in functions}
    if findings or hunks or verdicts - {"identical", "equivalent"}:
        verdict = Verdict.DIFFERENT
    elif functions:
        verdict = max(map(Verdict, verdicts), key=list(Verdict).index)
    elif section is not None and _same_bytes(original, rebuilt, name):
        verdict = Verdict.IDENTICAL
    else:
        verdict = check.verdict if check.verdict is Verdict.IDENTICAL else Verdict.EQUIVALENT
    return Check(verdict, findings, hunks, () if functions else check.dont_care, functions)


def _same_bytes(original: CodeObject, rebuilt: CodeObject, name: str) -> bool:
    one, other = (
        [section.data for section in co.code_sections if section.name == name]
        for co in (original, rebuilt)
    )
    return one == other


def _metadata(kernel: Kernel, other: Kernel | None) -> Check:
    from coasm.compare.metadata import document_differences

    if other is None:
        return Check(Verdict.DIFFERENT, (Difference(kernel.symbol, "is listed", ABSENT),))
    return _judged(document_differences(kernel.metadata, other.metadata))
