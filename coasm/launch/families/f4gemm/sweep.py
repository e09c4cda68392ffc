"""The regression sweep: 8 shapes by the tile choice, every kernel once, 8 settings of split K."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from coasm.launch.families.f4gemm.manifest import Manifest
from coasm.launch.families.f4gemm.numbers import Shape
from coasm.launch.families.f4gemm.product import pick
from coasm.launch.families.f4gemm.tiles import AUTO_SPLIT, Choice

__all__ = ["Check", "checks"]

#: Shapes for the tile choice: M = 1, multiples of tiles and none, wide and narrow.
SHAPES = (
    Shape(1, 4096, 2048),
    Shape(16, 1024, 512),
    Shape(64, 2048, 1024),
    Shape(77, 1056, 768),
    Shape(128, 2048, 2048),
    Shape(300, 2048, 1024),
    Shape(512, 1024, 2048),
    Shape(1000, 1536, 512),
)
#: The shape at which every kernel runs once.
EVERY = Shape(300, 2048, 1024)
#: Split K: the shape whose errors are published, log2 of the split, tile (None: by the choice).
SPLITS = (
    *((log2, (256, 256)) for log2 in (1, 2, 3, 4)),
    *((log2, (128, 512)) for log2 in (1, 2, 3)),
    (AUTO_SPLIT, None),
)
SPLIT_SHAPE = Shape(256, 1024, 4096)


class Check(NamedTuple):
    """One run of the sweep: its group (``shape``, ``kernel`` or ``split``), shape and kernel."""

    group: str
    shape: Shape
    choice: Choice

    @property
    def label(self) -> str:
        return f"{self.shape} {self.choice.entry.object}"

    @property
    def cells(self) -> tuple[str, ...]:
        entry, split = self.choice
        tile = f"{entry.tile_m}x{entry.tile_n}{'' if entry.bpreshuffle else ' plain B'}"
        return (self.group, *map(str, self.shape), tile, str(split))

    def to_json(self) -> dict[str, Any]:
        return {**self.shape._asdict(), "kernel": self.choice.entry.kernel}


def checks(manifest: Manifest, *, num_cu: int) -> Iterator[Check]:
    """The checks of the sweep for *manifest*, in their order: 51 where it lists all 35 kernels.

    Raises:
        LaunchError: the manifest has no kernel for one of the shapes.
    """
    shuffled = any(entry.bpreshuffle for entry in manifest.entries)
    for shape in SHAPES:
        yield Check("shape", shape, pick(manifest, shape, num_cu=num_cu, bpreshuffle=shuffled))
    for entry in manifest.entries:
        yield Check("kernel", EVERY, Choice(entry, 1))
    able = {(e.tile_m, e.tile_n): e for e in manifest.entries if e.split_k}
    for log2, tile in SPLITS:
        if tile is None:
            if able:
                choice = pick(
                    manifest,
                    SPLIT_SHAPE,
                    num_cu=num_cu,
                    bpreshuffle=next(iter(able.values())).bpreshuffle,
                    log2_split=log2,
                )
                yield Check("split", SPLIT_SHAPE, choice)
        elif tile in able:
            yield Check("split", SPLIT_SHAPE, Choice(able[tile], 1 << log2))
