"""Make the waits of a kernel as weak as they may be, and show that nothing broke.

    python examples/loosen_waits.py kernel.co loose.co [launch.yaml]

Lint says which wait is stricter than any use needs. Each is weakened alone and stays so where lint
finds no missing wait then. With a launch file the emulator runs both: every buffer has to be the
same.
"""

from __future__ import annotations

import sys

import numpy as np

import coasm

_RULE = "wait-strict"


def weaker(module: coasm.Module, tried: set[tuple[int, str]]) -> bool:
    """Weaken the first wait that lint has advice for and that was not tried; whether there was one.

    The module stays as it is where that is too weak.
    """
    for finding in coasm.lint(module.text, advice=True):
        key = (len(module.kernel().instructions), f"{finding.place.address:#x} {finding.advice}")
        if finding.rule != _RULE or key in tried:
            continue
        tried.add(key)
        text = finding.advice.removeprefix("make it ") if "make it" in finding.advice else ""
        trial = coasm.Module(module.text)
        trial.replace(finding.place.address, text)
        if not any(one.level == "error" for one in trial.findings):
            module.replace(finding.place.address, text)
            module.settle()
        return True
    return False


def loosen(module: coasm.Module, most: int = 1000) -> int:
    """Weaken every wait that may be weaker; in how many steps that was tried."""
    tried: set[tuple[int, str]] = set()
    while len(tried) < most and weaker(module, tried):
        pass
    return len(tried)


def main(source: str, target: str, launch: str | None = None) -> None:
    module = coasm.Module(source)
    before = [one.text for one in module.kernel().instructions]
    loosen(module)
    after = [one.text for one in module.kernel().instructions]
    waits = [sum(text.startswith("s_waitcnt") for text in one) for one in (before, after)]
    changed = sum(text not in before for text in after) + len(before) - len(after)
    print(f"{waits[0]} waits, {waits[1]} left; {changed} weaker or gone")
    errors = [one for one in module.findings if one.level == "error"]
    print(f"lint: {len(errors)} new errors")
    module.write(target)
    if launch is not None:
        runs = [
            coasm.run_spec(launch, source=one, backend="emulator")
            for one in (coasm.load(source), module.data)
        ]
        same = all(
            np.array_equal(array, runs[1].arrays[name]) for name, array in runs[0].arrays.items()
        )
        print(f"emulator: {'every buffer is the same' if same else 'THE BUFFERS DIFFER'}")


if __name__ == "__main__":
    main(*sys.argv[1:4])
