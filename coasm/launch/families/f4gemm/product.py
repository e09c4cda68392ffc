"""One product: operands made, laid out, launched, compared with the exact result."""

from __future__ import annotations

import hashlib
import math
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from coasm.codeobject import CodeObject, Kernel, load
from coasm.errors import LaunchError
from coasm.launch.arguments import Geometry, Value, find_slot, slots
from coasm.launch.device import Device, Figures
from coasm.launch.edits import Reached, executed_json, passed_json
from coasm.launch.families.f4gemm.layouts import (
    SCALE_BLOCK,
    pad_rows,
    pad_scales,
    shuffle_scales,
    shuffle_weights,
)
from coasm.launch.families.f4gemm.manifest import Entry, Manifest
from coasm.launch.families.f4gemm.numbers import (
    Operands,
    Shape,
    Verdict,
    judge,
    operands,
    reference,
)
from coasm.launch.families.f4gemm.tiles import (
    AUTO_SPLIT,
    MAX_LOG2_SPLIT,
    Choice,
    check_shape,
    choose,
    geometry,
)
from coasm.launch.general import Pointer, launch
from coasm.launch.report import Judged, Report

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Product", "Runner", "pick"]

_ROWS = 256  # A and B are allocated in multiples of so many rows
_D_ROWS = 32  # D too. The kernel for plain B stores whole tiles, whatever M is.

#: What D holds before a launch that does not add to it: bf16 NaNs, to see what is not written.
_POISON = 0xFF


@dataclass(frozen=True, eq=False)
class Product:
    """One launch and what came of it.

    ``path``, ``co`` and ``sha256`` are the object that ran. ``parts`` is how many parts K was split
    in (grid z). ``verdict`` is None where the result was not compared; ``d`` is the result,
    ``[M, N]`` of ml_dtypes' bfloat16. ``figures`` is the timed launches, or the only one.
    """

    shape: Shape
    entry: Entry
    path: str
    co: CodeObject
    sha256: str
    kernel: str
    split: int
    geometry: Geometry
    backend: str
    seed: int
    verdict: Verdict | None
    figures: Figures
    d: NDArray[Any]

    @property
    def passed(self) -> bool:
        """False where the result was compared and is wrong."""
        return self.verdict is None or self.verdict.passed

    @property
    def parts(self) -> int:
        return self.geometry.grid[2]

    @property
    def tflops(self) -> float:
        """10^12 operations per second, by the median time."""
        return self.shape.flops / self.figures.median / 1e12

    @property
    def cells(self) -> tuple[str, ...]:
        """How far off it is, in the table of a sweep."""
        if self.verdict is None:
            return ("", "")
        return (f"{self.verdict.max_rel_err:.3g}", f"{self.verdict.of_max:.2%}")

    def report(self) -> Report:
        """What ``coasm run`` shows."""
        m, n, k = self.shape
        grid = " x ".join(map(str, self.geometry.grid))
        split = f", K split in {self.parts}" if self.parts > 1 else ""
        launched = (
            ("object", self.path),
            ("sha256", self.sha256),
            ("kernel", self.kernel),
            ("launch", f"tile {self.entry.tile_m}x{self.entry.tile_n}, grid {grid}{split}"),
            ("product", f"M={m} N={n} K={k}, seed {self.seed}"),
        )
        judged: tuple[Judged, ...] = ()
        if self.verdict is not None:
            passed, worst, relative, of_max, wrong, first, bound = self.verdict
            text = (
                f"max_abs_err {worst:g}, max_rel_err {relative:.3g}, {of_max:.2%} of max|ref|; "
                f"bound {bound}"
            )
            where = f"of {m * n:,} elements; first D{list(first)}" if first else ""
            judged = (Judged(passed, text, wrong, where),)
        return Report(launched, judged, rate=f"{self.tflops:.1f} TFLOP/s")

    def to_json(self, edit: Reached | None = None) -> dict[str, Any]:
        """Everything but the result; times in seconds.

        *edit* is what the run executed of an edit: a result that says nothing of it has not passed.
        """
        verdict = None
        if self.verdict is not None:
            # JSON has no infinity.
            verdict = {
                key: None if isinstance(value, float) and not math.isfinite(value) else value
                for key, value in self.verdict._asdict().items()
            }
        return {
            "m": self.shape.m,
            "n": self.shape.n,
            "k": self.shape.k,
            "tile": [self.entry.tile_m, self.entry.tile_n],
            "bpreshuffle": self.entry.bpreshuffle,
            "kernel": self.kernel,
            "object": self.path,
            "sha256": self.sha256,
            "split_k": self.split,
            **asdict(self.geometry),
            "seed": self.seed,
            "backend": self.backend,
            "result_sha256": hashlib.sha256(self.d.tobytes()).hexdigest(),
            "passed": passed_json(verdict is not None, self.passed, edit),
            "verdict": verdict,
            "seconds": self.figures.median,
            "runs": len(self.figures.seconds),
            "tflops": self.tflops,
            "wave_instructions": self.figures.wave_instructions,
            "fidelity": list(self.figures.fidelity),
            "dump": self.figures.dump or None,
            **executed_json(self.figures.coverage, edit),
        }


class _Prepared(NamedTuple):
    ops: Operands
    exact: NDArray[np.float64] | None


class Runner:
    """Runs products of one manifest on one device; operands and references are kept for reuse.

    *given*, an object and its name, is run instead of the objects that the manifest names.
    """

    def __init__(
        self, manifest: Manifest, device: Device, given: tuple[str, CodeObject] | None = None
    ) -> None:
        self.manifest = manifest
        self.given = given
        self.device = device
        self._objects: dict[str, CodeObject] = {}
        self._kept: OrderedDict[tuple[Shape, int], _Prepared] = OrderedDict()

    def pick(
        self,
        shape: Shape,
        *,
        kernel: str | None = None,
        bpreshuffle: bool | None = None,
        log2_split: int = 0,
    ) -> Choice:
        """The kernel for *shape*: the named one, or the one that the tile choice gives.

        Raises:
            LaunchError: a shape, a split or a name that does not fit.
        """
        return pick(
            self.manifest,
            shape,
            num_cu=self.device.num_cu,
            kernel=kernel,
            bpreshuffle=bpreshuffle,
            log2_split=log2_split,
        )

    def run(
        self,
        shape: Shape,
        choice: Choice,
        *,
        seed: int = 0,
        verify: bool = True,
        iterations: int = 0,
    ) -> Product:
        """Run *choice* on random operands, compare, and time *iterations* more launches.

        Raises:
            LaunchError: shape, kernel and arguments do not fit together.
            CoasmError: the object cannot be read, or the device refused or stopped the launch.
        """
        from ml_dtypes import bfloat16

        check_shape(*shape)
        entry, split = choice
        where = geometry(choice, *shape)
        path, co, kernel = self._object(entry)
        where.check(kernel)
        arguments = _arguments(kernel, _scalars(shape, split), where)
        # What does not fit has been refused: from here on it takes time.
        ops, exact = self._prepare(shape, seed, verify)
        buffers = _buffers(ops, shape, choice)
        result = launch(
            self.device,
            co,
            kernel,
            where,
            {**arguments, **{name: Pointer(name) for name in buffers}},
            buffers,
            iterations=iterations,
        )
        d = result.arrays["D"].view(bfloat16).reshape(-1, shape.n)[: shape.m]
        verdict = None
        if exact is not None and not result.figures.dump:
            verdict = judge(d, exact, parts=where.grid[2], k=shape.k)
        return Product(
            shape=shape,
            entry=entry,
            path=path,
            co=co,
            sha256=hashlib.sha256(co.data).hexdigest(),
            kernel=kernel.name,
            split=split,
            geometry=where,
            backend=result.backend,
            seed=seed,
            verdict=verdict,
            figures=result.figures,
            d=d,
        )

    def _prepare(self, shape: Shape, seed: int, verify: bool) -> _Prepared:
        key = shape, seed
        found = self._kept.get(key)
        if found is None or (verify and found.exact is None):
            ops = operands(shape, seed) if found is None else found.ops
            found = self._kept[key] = _Prepared(ops, reference(ops) if verify else None)
            while len(self._kept) > 2:
                self._kept.popitem(last=False)
        return found

    def _object(self, entry: Entry) -> tuple[str, CodeObject, Kernel]:
        path, co = self.given or self._loaded(entry)
        for kernel in co.kernels:
            if kernel.name == entry.kernel:
                return path, co, kernel
        names = ", ".join(repr(kernel.name) for kernel in co.kernels) or "no kernel"
        raise LaunchError(
            f"{path}: no kernel {entry.kernel!r}, which {self.manifest.path.name}:{entry.line} "
            f"names; it holds {names}"
        )

    def _loaded(self, entry: Entry) -> tuple[str, CodeObject]:
        path = str(self.manifest.path_of(entry))
        if path not in self._objects:
            self._objects[path] = load(path)
        return path, self._objects[path]


def pick(
    manifest: Manifest,
    shape: Shape,
    *,
    num_cu: int,
    kernel: str | None = None,
    bpreshuffle: bool | None = None,
    log2_split: int = 0,
) -> Choice:
    """See :meth:`Runner.pick`; *num_cu* is the device's compute units."""
    check_shape(*shape)
    if not AUTO_SPLIT <= log2_split <= MAX_LOG2_SPLIT:
        raise LaunchError(
            f"a split of K is given as its log2, 0 to {MAX_LOG2_SPLIT}, or -1 for any"
        )
    if kernel is None:
        shuffled = True if bpreshuffle is None else bpreshuffle
        return choose(
            manifest.entries,
            shape.m,
            shape.n,
            num_cu=num_cu,
            bpreshuffle=shuffled,
            log2_split=log2_split,
        )
    entry = manifest.named(kernel)
    if bpreshuffle is not None and bpreshuffle != entry.bpreshuffle:
        takes = "shuffled" if entry.bpreshuffle else "plain"
        raise LaunchError(
            f"{entry.object} takes {takes} weights (bpreshuffle {int(entry.bpreshuffle)})"
        )
    if log2_split != AUTO_SPLIT:
        return Choice(entry, 1 << log2_split)
    if not entry.split_k:
        return Choice(entry, 1)
    if (entry.tile_m, entry.tile_n) == (128, 512) and shape.n % 512:
        return Choice(entry, 2)  # the choice leaves this tile out; asked for by name it is run
    return choose(
        [entry],
        shape.m,
        shape.n,
        num_cu=num_cu,
        bpreshuffle=entry.bpreshuffle,
        log2_split=AUTO_SPLIT,
    )


def _buffers(ops: Operands, shape: Shape, choice: Choice) -> dict[str, NDArray[Any]]:
    """What the kernel's buffers hold before the launch, as it wants its operands laid out."""
    import numpy as np

    entry, split = choice
    b = pad_rows(ops.b, _ROWS)
    rows = _D_ROWS if entry.bpreshuffle else entry.tile_m
    size = -(-shape.m // rows) * rows * shape.n * 2
    return {
        "A": pad_rows(ops.a, _ROWS),
        "B": shuffle_weights(b) if entry.bpreshuffle else b,
        "ScaleA": shuffle_scales(pad_scales(ops.a_scale)),
        "ScaleB": shuffle_scales(pad_scales(ops.b_scale)),
        "D": np.full(size, 0 if split > 1 else _POISON, np.uint8),
    }


def _scalars(shape: Shape, split: int) -> dict[str | int, Value]:
    """The arguments that are no buffers. Strides of A and B count fp4 elements.

    The kernels store D with the stride of C; the strides that they do not read get the values
    that their names promise. C is null: beta is 0.
    """
    columns = -(-(shape.k // SCALE_BLOCK) // 8) * 8
    return {
        "C": 0,
        "alpha": 1.0,
        "beta": 0.0,
        "strideD0": shape.n,
        "strideD1": 1,
        "strideC0": shape.n,
        "strideC1": 1,
        "strideA0": shape.k,
        "strideA1": 1,
        "strideB0": shape.k,
        "strideB1": 1,
        "Mdim": shape.m,
        "Ndim": shape.n,
        "Kdim": shape.k,
        "strideScaleA0": columns,
        "strideScaleA1": 1,
        "strideScaleB0": columns,
        "strideScaleB1": 1,
        "log2_k_split": split.bit_length() - 1,
    }


def _arguments(
    kernel: Kernel, values: Mapping[str | int, Value], where: Geometry
) -> dict[str | int, Value]:
    """Those of *values* that *kernel* takes: not all of them can split K."""
    found = slots(kernel)
    for name in ("alpha", "beta"):
        slot = find_slot(kernel, found, name)
        if slot.size != 4:
            raise LaunchError(f"kernel {kernel.name!r}: argument {slot.label} has no 4 bytes")
    if any(slot.name == "log2_k_split" for slot in found):
        return dict(values)
    if where.grid[2] > 1:
        raise LaunchError(
            f"kernel {kernel.name!r} has no argument 'log2_k_split': it cannot split K"
        )
    return {name: value for name, value in values.items() if name != "log2_k_split"}
