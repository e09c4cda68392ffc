"""Take a kernel out of code objects for several targets, give it another name, and bundle it.

    python examples/rebundle.py KERNEL NEW_NAME out.hipfb k942.co k950.co ...

A code object may also be inside of a library: libkernels.so:gfx942.
"""

from __future__ import annotations

import sys

import coasm
from coasm.bundle.making import bundle_of


def taken_out(source: str, kernel: str, name: str) -> bytes:
    """The object with that kernel alone, under its new name."""
    module = coasm.Module(source)
    module.keep(kernel) if len(module.kernels) > 1 else None
    module.rename(kernel, name)
    assert not module.findings, module.findings
    return module.data


def main(kernel: str, name: str, output: str, sources: list[str]) -> None:
    objects = [coasm.load(taken_out(source, kernel, name), name=source) for source in sources]
    with open(output, "xb") as file:  # never over a file that is there
        file.write(bundle_of(objects))
    for one in objects:
        print(f"{output}: {one.target}: {', '.join(kernel.name for kernel in one.kernels)}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:])
