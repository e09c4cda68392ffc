"""``python -m benchmarks random-c --programs N --seed S``: random C on the emulator and here.

Measures no speed. Prints each program that came out otherwise than on this machine, and how many
programs ran, how many differ, and which instructions were refused. See ``tests/random_c``.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from coasm.llvm import Llvm
from tests.random_c.sweep import BATCH, Tally, batch, reduced

__all__ = ["random_c"]


def random_c(arguments: Sequence[str], llvm: Llvm) -> bool:
    """Run as many programs as asked for; whether none differs and none is refused."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks random-c")
    parser.add_argument("--programs", type=int, default=120, help=f"in batches of {BATCH}")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--reduce", action="store_true", help="print what is left of differing ones"
    )
    asked = parser.parse_args(arguments)
    tally = Tally()
    for number in range(-(-asked.programs // BATCH)):
        batch(llvm, asked.seed, number, tally, lambda line: print(line, flush=True))
    for program, build in tally.different if asked.reduce else ():
        print(f"{build}:\n{reduced(llvm, asked.seed, program, build)}", flush=True)
    print(
        f"{tally.programs} programs, {tally.runs} runs: {len(tally.differences)} differ,"
        f" {tally.refusals.total()} refused"
    )
    for name, count in tally.refusals.most_common():
        print(f"  refused: {name}: {count}")
    for name, count in tally.uncompiled.most_common():
        print(f"  not compiled by clang: {name}: {count} units of {BATCH}")
    return not tally.differences and not tally.refusals
