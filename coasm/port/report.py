"""What came of a port as text and JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from coasm.port.porting import Ported, PortedKernel
from coasm.port.rules import NOT_PORTABLE, OK, REVIEW, RULES, Reason
from coasm.port.shares import Share

__all__ = ["SHOWN", "lines", "to_json"]

#: What a verdict is called where people read it.
SHOWN = {OK: "OK", REVIEW: "REVIEW", NOT_PORTABLE: "NOT PORTABLE"}


def lines(ported: Ported, *, every: bool = False) -> Iterator[tuple[str, str]]:
    """Lines with what they are: a verdict, a level, or nothing. With *every* each address has one.

    Without, reasons that say the same stand in one line, at the first address.
    """
    old, new = ported.source.target.name, ported.to.name
    for kernel in ported.kernels:
        yield f"{SHOWN[kernel.verdict]}  {kernel.name}", kernel.verdict
        for group in _grouped(kernel, every):
            first = group[0]
            place = f"{first.address:#x}"
            text = f": {first.text}" if first.text else ""
            more = f" (and {len(group) - 1:,} more)" if len(group) > 1 else ""
            yield f"  {place}{text}", ""
            advice = f"; {first.advice}" if first.advice else ""
            partner = f" (at {first.partner:#x})" if first.partner is not None else ""
            said = f"{first.what}{partner}{advice}{more}"
            yield f"    {first.level}[{first.rule}]: {said}", first.level
        yield from _shares(kernel, old, new)


def _grouped(kernel: PortedKernel, every: bool) -> list[list[Reason]]:
    if every:
        return [[one] for one in kernel.reasons]
    groups: dict[tuple[str, ...], list[Reason]] = {}
    for one in kernel.reasons:
        name = one.text.partition(" ")[0]
        groups.setdefault((one.rule, one.what, name), []).append(one)
    return list(groups.values())


def _shares(kernel: PortedKernel, old: str, new: str) -> Iterator[tuple[str, str]]:
    rows = []
    for name, one in ((old, kernel.before), (new, kernel.after)):
        waves = "?" if one.occupancy is None else f"{one.occupancy.waves_per_simd}"
        limit = "" if one.occupancy is None else f" ({', '.join(one.occupancy.limited_by)})"
        rows.append(
            f"  {name}: {one.vgprs} VGPRs ({one.agprs} of them AGPRs), {one.sgprs or 0} SGPRs, "
            f"{one.lds_allocated:,} bytes of LDS, {waves} waves on a SIMD{limit}"
        )
    yield from ((row, "") for row in rows)


def to_json(ported: Ported) -> dict[str, Any]:
    """A port as ``--json`` prints it."""
    return {
        "path": ported.path,
        "from": str(ported.source.target),
        "to": ported.to.name,
        "verdict": ported.verdict,
        "kernels": [
            {
                "kernel": kernel.name,
                "verdict": kernel.verdict,
                "reasons": [_reason(one) for one in kernel.reasons],
                "before": _share(kernel.before),
                "after": _share(kernel.after),
            }
            for kernel in ported.kernels
        ],
        "fixes": ported.fixes,
    }


def _reason(one: Reason) -> dict[str, Any]:
    return {
        "rule": one.rule,
        "level": one.level,
        "address": one.address,
        "instruction": one.text or None,
        "reason": one.what,
        "advice": one.advice or None,
        "partner": one.partner,
        "source": RULES[one.rule].source,
    }


def _share(one: Share) -> dict[str, Any]:
    found: dict[str, Any] = dict(one._asdict())
    found["occupancy"] = None if one.occupancy is None else asdict(one.occupancy)
    return found
