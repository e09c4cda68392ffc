"""Which kernel a product of some shape runs on, and how it is launched.

Source: aiter's host code, ``csrc/py_itfs_cu/asm_gemm_a4w4.cu`` (``get_heuristic_kernel`` and the
launch). It goes through an unordered map there; here through the manifest in its order, so that
the choice is stable.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from coasm.errors import LaunchError
from coasm.launch.arguments import Geometry
from coasm.launch.families.f4gemm.manifest import Entry

__all__ = ["AUTO_SPLIT", "Choice", "check_shape", "choose", "geometry"]

#: ``--splitk -1``: the choice may split K by 2, 4, 8 or 16 where the kernel can.
AUTO_SPLIT = -1
_SPLITS = (2, 4, 8, 16)
#: log2 of the largest split that can be asked for.
MAX_LOG2_SPLIT = 8

_WORKGROUP = (256, 1, 1)
_K_GRANULE = 256


class Choice(NamedTuple):
    """A kernel and the split of K that it is launched with (1: none)."""

    entry: Entry
    split: int


def check_shape(m: int, n: int, k: int) -> None:
    """Refuse a shape that the kernels do not take.

    Raises:
        LaunchError: a size below 1 or above 2^24, K no multiple of 256, N no multiple of 16.
    """
    for name, size in (("M", m), ("N", n), ("K", k)):
        if not 1 <= size <= 1 << 24:
            raise LaunchError(f"{name} = {size}: expected 1 to {1 << 24}")
    if k % _K_GRANULE:
        raise LaunchError(f"K = {k}: K must be a multiple of {_K_GRANULE}")
    if n % 16:
        raise LaunchError(f"N = {n}: N must be a multiple of 16")


def choose(
    entries: Iterable[Entry],
    m: int,
    n: int,
    *,
    num_cu: int,
    bpreshuffle: bool = True,
    log2_split: int = 0,
) -> Choice:
    """The kernel that needs the fewest rounds of workgroups on *num_cu* compute units.

    At equal rounds a row wins that leaves fewer compute units idle in its last round, or that
    does more arithmetic per byte of its tile. A split of ``2**log2_split`` is tried where a row
    can split, all of 2, 4, 8 and 16 with :data:`AUTO_SPLIT`.

    Raises:
        LaunchError: no row fits.
    """
    best: Choice | None = None
    rounds, idle, efficiency = 1 << 62, num_cu, 1
    for entry in entries:
        if entry.bpreshuffle != bpreshuffle or (
            log2_split != 0 and not _may_split(entry, log2_split)
        ):
            continue
        # A quirk that aiter has: this one tile is only taken where it divides N.
        if (entry.tile_m, entry.tile_n) == (128, 512) and n % entry.tile_n:
            continue
        if not entry.split_k:
            splits: tuple[int, ...] = (1,)
        else:
            splits = _SPLITS if log2_split == AUTO_SPLIT else (1 << log2_split,)
        for split in splits:
            workgroups = _ceil(m, entry.tile_m) * _ceil(n, entry.tile_n) * split
            here = _ceil(workgroups, num_cu)
            left = here * num_cu - workgroups
            ratio = entry.tile_m * entry.tile_n // (entry.tile_m + entry.tile_n)
            if here < rounds or (here == rounds and (left < idle or ratio > efficiency)):
                rounds, idle, efficiency = here, left, ratio
                best = Choice(entry, split)
    if best is None:
        wanted = "shuffled" if bpreshuffle else "plain"
        able = ", splits K" if log2_split > 0 else ""
        raise LaunchError(
            f"the manifest lists no kernel that takes {wanted} weights{able} and fits N = {n}"
        )
    return best


def _may_split(entry: Entry, log2_split: int) -> bool:
    return entry.split_k or log2_split == AUTO_SPLIT


def geometry(choice: Choice, m: int, n: int, k: int) -> Geometry:
    """The launch: a workgroup of 256 for each tile of D, and for each part of K.

    Raises:
        LaunchError: the kernel does not split K, or K cannot be split so.
    """
    entry, split = choice
    if split > 1 and not entry.split_k and not entry.line:
        raise LaunchError(
            f"{entry.object}: its name does not say whether it splits K; --co-dir names the folder "
            "of a manifest that lists it"
        )
    if split > 1 and not entry.split_k:
        raise LaunchError(f"{entry.object} does not split K (splitK is 0 in its manifest row)")
    if k % split:
        raise LaunchError(f"K = {k} cannot be split in {split}")
    part = _ceil(_ceil(k, split), _K_GRANULE) * _K_GRANULE
    return Geometry((_ceil(n, entry.tile_n), _ceil(m, entry.tile_m), _ceil(k, part)), _WORKGROUP)


def _ceil(number: int, by: int) -> int:
    return -(-number // by)
