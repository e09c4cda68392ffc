"""``python -m benchmarks port``: every gfx942 object of the sample through ``port --to gfx950``.

It measures no speed: it counts verdicts and reasons. Each object that is OK has to lint without an
error, and each that there is has to become the original again on the way back, byte for byte.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import coasm
from coasm.errors import CoasmError
from coasm.llvm import Llvm
from coasm.port import Ported, port
from coasm.port.rules import NOT_PORTABLE, OK

__all__ = ["bench_port"]

_FROM, _TO = "gfx942", "gfx950"


def bench_port(corpus: Path, llvm: Llvm) -> bool:
    """Whether everything that is said of the ported objects holds."""
    verdicts: Counter[str] = Counter()
    reasons: Counter[tuple[str, str]] = Counter()
    wrong = []
    objects = sorted((corpus / _FROM).rglob("*.co"))
    for path in objects:
        try:
            source = coasm.load(path)
            ported = port(source, _TO)
            wrong += [f"{path.name}: {what}" for what in _problems(source, ported)]
        except CoasmError as error:
            wrong.append(str(error))
            continue
        verdicts[ported.verdict] += 1
        for kernel in ported.kernels:
            reasons.update({(one.level, one.rule) for one in kernel.reasons})
    for line in wrong:
        print(line)
    for (level, rule), count in sorted(reasons.items()):
        print(f"  {level} {rule}: in {count} kernels")
    said = ", ".join(f"{verdicts[verdict]} {verdict}" for verdict in (OK, "review", NOT_PORTABLE))
    print(
        f"port of {len(objects)} {_FROM} objects to {_TO}: {said}, {len(wrong)} wrong", flush=True
    )
    return not wrong and bool(objects)


def _problems(source: coasm.CodeObject, ported: Ported) -> list[str]:
    """What does not hold of a port."""
    if ported.co is None:
        return []
    found = []
    if ported.verdict == OK and coasm.lint(ported.co.data):
        found.append("is OK, and lint finds an error")
    back = port(coasm.load(ported.co.data), _FROM)
    if back.co is None or back.co.data != source.data:
        found.append("is another on the way back")
    return found
