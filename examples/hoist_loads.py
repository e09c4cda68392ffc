"""Move loads up, past what they do not depend on, so that they are under way earlier.

    python examples/hoist_loads.py kernel.co hoisted.co [how many instructions a load may climb]

A load and the instruction before it change places where `kernel.may_swap` allows it: no register,
no memory, no wait, no wait state may depend on their order. What it says no to is counted.
"""

from __future__ import annotations

import sys
from collections import Counter

import coasm


def is_load(one: coasm.Instruction) -> bool:
    return one.mnemonic.startswith(("global_load_", "buffer_load_", "s_load_"))


def hoist(module: coasm.Module, reasons: Counter[str]) -> int:
    """Let each load climb by one instruction where that is allowed; how many did."""
    climbed = 0
    for kernel in module.kernels:
        taken = -1  # the place of a load that has climbed is not climbed over in the same pass
        for before, load in zip(kernel.instructions, kernel.instructions[1:], strict=False):
            if not is_load(load) or is_load(before) or before.index <= taken:
                continue
            allowed = kernel.may_swap(before, load)
            if allowed:
                module.swap(before, load)
                climbed, taken = climbed + 1, load.index
            else:
                reasons[" ".join(allowed.reasons[0].split()[-6:])] += 1
    return climbed


def main(source: str, target: str, steps: int = 1) -> None:
    module = coasm.Module(source)
    for step in range(steps):
        reasons: Counter[str] = Counter()
        climbed = hoist(module, reasons)
        module.settle()
        print(f"step {step + 1}: {climbed} loads climbed, {sum(reasons.values())} may not")
        if not climbed:
            break
    print(f"lint: {len(module.findings)} new findings")
    module.write(target)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:4]))
