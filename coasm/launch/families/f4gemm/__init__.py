"""f4gemm: MXFP4 matrix products, ``D[M, N] (bf16) = A[M, K] * B[N, K]^T``, each with E8M0 scales.

The hand-written gfx950 kernels of ROCm/aiter (``hsa/gfx950/f4gemm``): their manifest, tile choice,
data layouts, kernel arguments and tolerances, as aiter's ``asm_gemm_a4w4.cu`` has them.
"""

from __future__ import annotations

from coasm.codeobject import CodeObject, Kernel
from coasm.launch.family import Asked, Family, Listing, Option, Plan

__all__ = ["FAMILY"]


def _recognizes(kernel: Kernel) -> bool:
    from coasm.launch.families.f4gemm.alone import NAME

    return NAME.search(kernel.name) is not None


def _plan(asked: Asked, given: tuple[str, CodeObject] | None) -> Plan:
    from coasm.launch.families.f4gemm.plan import Products

    return Products(asked, given)


def _listing(asked: Asked) -> Listing:
    from coasm.launch.families.f4gemm.manifest import find_manifest, listing

    return listing(find_manifest(asked["co_dir"]))


FAMILY = Family(
    name="f4gemm",
    help="D[M, N] = A[M, K] * B[N, K]^T, MXFP4 to bf16: aiter's kernels for gfx950.",
    description="""\
D[M, N] = A[M, K] * B[N, K]^T, MXFP4 to bf16, compared with the exact product.

It runs on the kernel that the tile choice (or --kernel) picks from the manifest in --co-dir; or on
the one in FILE, whatever that is called: an object, LIBRARY:TARGET or listing.

\b
Examples:
  coasm run f4gemm --co-dir rebuilt -m 512 -n 1024 -k 2048
  coasm run f4gemm kernel.rebuilt.co -m 512 -n 1024 -k 2048
  coasm run f4gemm --co-dir rebuilt --list
  coasm run f4gemm --co-dir rebuilt --sweep
""",
    problem=(
        Option("-m", "Rows of A and D."),
        Option("-n", "Rows of B, columns of D."),
        Option("-k", "Columns of A and B."),
    ),
    options=(
        Option(
            "--co-dir",
            "Folder of the code objects and their manifest (default: gfx950/f4gemm in "
            "AITER_ASM_DIR).",
            str,
            metavar="DIR",
        ),
        Option("--kernel", "A kernel by its symbol or its file's name.", str, metavar="NAME"),
        Option("--bpreshuffle", "Take kernels that want B shuffled, or plain.", low=0, high=1),
        Option("--splitk", "Split K in 2^L parts; -1: by the tile choice.", default=0, metavar="L"),
    ),
    recognizes=_recognizes,
    plan=_plan,
    columns=(
        *("check", "M>", "N>", "K>", "tile", "split>"),
        *("max_rel_err>", "of max|ref|>"),
    ),
    listing=_listing,
)
