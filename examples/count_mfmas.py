"""Count the matrix products of kernels by shape, in and outside of loops.

python examples/count_mfmas.py kernel.co ...
"""

from __future__ import annotations

import re
import sys
from collections import Counter

import coasm

#: As in v_mfma_f32_16x16x32_f16, v_smfmac_i32_16x16x64_i8 and v_mfma_f32_32x32x8bf16_1k.
_PRODUCT = re.compile(r"v_(?:mfma|smfmac)_\w*?(\d+x\d+x\d+)")


def count(kernel: coasm.Kernel) -> Counter[tuple[str, str, bool]]:
    """(mnemonic, shape, whether it is in a loop) → how many there are."""
    looped = {number for loop in kernel.cfg.loops for number in loop.blocks}
    found: Counter[tuple[str, str, bool]] = Counter()
    for block in kernel.cfg.blocks:
        for at in block.places:
            mnemonic = kernel.instructions[at].mnemonic
            product = _PRODUCT.match(mnemonic)
            if product:
                found[mnemonic, product[1], block.number in looped] += 1
    return found


def main(paths: list[str]) -> None:
    for path in paths:
        for kernel in coasm.load(path).kernels:
            print(f"{kernel.name}: {len(kernel.instructions):,} instructions")
            for (mnemonic, shape, loops), number in sorted(count(kernel).items()):
                print(f"  {number:6,}  {shape:<10}  {mnemonic}{'  in a loop' if loops else ''}")


if __name__ == "__main__":
    main(sys.argv[1:])
