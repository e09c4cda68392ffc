"""What the options of f4gemm ask for: products on the kernels of a manifest, or on one object."""

from __future__ import annotations

from collections.abc import Iterable

from coasm.codeobject import CodeObject
from coasm.launch.device import Device
from coasm.launch.families.f4gemm.alone import manifest_of
from coasm.launch.families.f4gemm.manifest import find_manifest
from coasm.launch.families.f4gemm.numbers import Shape
from coasm.launch.families.f4gemm.product import Product, Runner
from coasm.launch.families.f4gemm.sweep import Check, checks
from coasm.launch.families.f4gemm.tiles import check_shape
from coasm.launch.family import Asked
from coasm.target import TargetID, processor

__all__ = ["Products"]


class Products:
    """Products that *asked* has the shape of, or all of the sweep; *given* is an object, its name.

    Raises:
        LaunchError: no manifest, no f4gemm kernel, or a shape that the kernels do not take.
        CoasmError: the manifest cannot be read.
    """

    def __init__(self, asked: Asked, given: tuple[str, CodeObject] | None) -> None:
        self._asked, self._given, self._kernel = asked, given, asked["kernel"]
        if given is None:
            self._manifest = find_manifest(asked["co_dir"])
            self.target = TargetID(processor("gfx950"))
        else:
            path, co = given
            self._manifest = manifest_of(co, path, co_dir=asked["co_dir"], kernel=self._kernel)
            self._kernel, self.target = self._manifest.entries[0].kernel, co.target
        self._shape = None
        if asked["m"] is not None:
            self._shape = Shape(asked["m"], asked["n"], asked["k"])
            check_shape(*self._shape)
        self._runner: Runner | None = None

    def _on(self, device: Device) -> Runner:
        if self._runner is None or self._runner.device is not device:
            self._runner = Runner(self._manifest, device, self._given)
        return self._runner

    def checks(self, device: Device) -> Iterable[Check]:
        if self._shape is None:
            return checks(self._manifest, num_cu=device.num_cu)
        shuffled = self._asked["bpreshuffle"]
        choice = self._on(device).pick(
            self._shape,
            kernel=self._kernel,
            bpreshuffle=None if shuffled is None else bool(shuffled),
            log2_split=self._asked["splitk"],
        )
        return (Check("shape", self._shape, choice),)

    def run(
        self, device: Device, check: Check, *, seed: int, verify: bool, iterations: int
    ) -> Product:
        return self._on(device).run(
            check.shape, check.choice, seed=seed, verify=verify, iterations=iterations
        )
