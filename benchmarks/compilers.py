"""``python -m benchmarks compilers``: Triton's kernels in several configurations, against NumPy.

Measures no speed. Prints each run that came out otherwise, was refused, or did not compile. See
``tests/compilers``; Triton must be installed.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from coasm.emulator import Options
from coasm.llvm import Llvm

__all__ = ["compilers"]


def compilers(arguments: Sequence[str], llvm: Llvm) -> bool:
    """Run each case for each target in each configuration; whether all are as NumPy has them."""
    from tests.compilers.build import differences
    from tests.compilers.kernels import CASES

    parser = argparse.ArgumentParser(prog="python -m benchmarks compilers")
    parser.add_argument("--name", default="", help="only cases with this in their names")
    parser.add_argument("--warps", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--stages", type=int, nargs="+", default=[2])
    parser.add_argument("--race", action="store_true")
    parser.add_argument("--strict", action="store_true")
    asked = parser.parse_args(arguments)
    checks = Options(race=asked.race, strict=asked.strict)
    runs = wrong = 0
    for case in CASES:
        for target in case.targets if asked.name in case.name else ():
            for warps in asked.warps:
                for stages in asked.stages:
                    options = {"num_stages": stages, **case.options}
                    configured = case._replace(warps=warps, options=options)
                    runs += 1
                    try:
                        said = differences(configured, target, llvm, checks)
                    except Exception as error:  # Triton's and the emulator's: said and gone on
                        said = f"{type(error).__name__}: {error}"
                    if said:
                        wrong += 1
                        print(f"{case.name} {target}, {warps} warps, {stages} stages: {said}")
    print(f"{runs} runs, {wrong} not as expected")
    return not wrong
