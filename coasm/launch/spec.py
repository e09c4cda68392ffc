"""Launch files: a YAML document that says which kernel to run on what, and what must come out.

``docs/run.md`` describes the document. Everything wrong in it is refused with its line and column.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from coasm.codeobject import CodeObject
from coasm.errors import LaunchError
from coasm.launch.arguments import (
    SCALAR_TYPES,
    Geometry,
    Scalar,
    Value,
    encode,
    find_slot,
    slots,
)
from coasm.launch.buffers import Buffer, read_buffers
from coasm.launch.device import Device, Figures
from coasm.launch.document import At, read_document
from coasm.launch.edits import executed_json, passed_json
from coasm.launch.general import Pointer, launch, the_kernel
from coasm.launch.references import Comparison, Expected, check_work, compare, read_expected
from coasm.launch.report import Judged, Report

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from coasm.asm.source import SourceOptions
    from coasm.launch.edits import Reached

    Array = NDArray[Any]

__all__ = ["Comparison", "Outcome", "Spec", "read_spec", "run"]


@dataclass(frozen=True)
class Output:
    """What is to happen with a buffer after the launch: saved to a file, compared, or both."""

    name: str
    save: Path | None
    expected: Expected | None
    at: At


@dataclass(frozen=True)
class Spec:
    """A launch file, read and checked as far as it can be without the object.

    ``object`` is what :mod:`coasm.opening` takes: a listing is assembled for the run.
    """

    path: str
    object: Path | None
    kernel: str | None
    geometry: Geometry
    buffers: dict[str, Buffer]
    arguments: dict[str, tuple[At, Value | Pointer]]
    outputs: tuple[Output, ...]
    arguments_at: At

    def load_object(
        self, llvm: str | None = None, options: SourceOptions | None = None
    ) -> CodeObject:
        """The object that the document names; *options* are for a source.

        Raises:
            LaunchError: it names none.
            CoasmError: it cannot be read, or the listing cannot be assembled.
        """
        from coasm.opening import open_code_object

        if self.object is None:
            raise LaunchError(f"{self.path}: names no object; give one")
        return open_code_object(str(self.object), llvm=llvm, options=options)


class Outcome(NamedTuple):
    """What a launch file's run left: every buffer, the comparisons, the files to write."""

    arrays: dict[str, Array]
    comparisons: tuple[Comparison, ...]
    saves: dict[Path, Array]
    figures: Figures
    object: str
    kernel: str
    geometry: Geometry
    backend: str
    note: str | None = None

    @property
    def passed(self) -> bool:
        return all(comparison.passed for comparison in self.comparisons)

    def files(self) -> Iterator[tuple[Path, bytes]]:
        """The ``.npy`` files to write."""
        import io

        import numpy as np

        for path, array in self.saves.items():
            data = io.BytesIO()
            np.save(data, array, allow_pickle=False)
            yield path, data.getvalue()

    def report(self) -> Report:
        """What ``coasm run`` shows."""
        grid, workgroup = (
            " x ".join(map(str, size)) for size in (self.geometry.grid, self.geometry.workgroup)
        )
        judged = []
        for one in self.comparisons:
            text = f"{one.name}, {one.elements:,} elements against {one.against}; "
            where = ""
            if one.first_wrong is not None:
                place = f"{one.name}{list(one.first_wrong)}"
                where = f"elements; first {place} is {one.got}, expected {one.expected}"
            judged.append(
                Judged(one.passed, f"{text}max_abs_err {one.max_abs_err:g}", one.wrong, where)
            )
        launched = (
            ("object", self.object),
            ("kernel", f"{self.kernel}, grid {grid}, workgroups of {workgroup}"),
        )
        return Report(launched, tuple(judged), tuple(map(str, self.saves)))

    def to_json(self, edit: Reached | None = None) -> dict[str, Any]:
        """Everything but the arrays; *edit* is what the run executed of an edit."""

        def finite(value: Any) -> Any:  # JSON has no infinity
            return None if isinstance(value, float) and not math.isfinite(value) else value

        return {
            "object": self.object,
            "kernel": self.kernel,
            "grid": self.geometry.grid,
            "workgroup": self.geometry.workgroup,
            "backend": self.backend,
            "passed": passed_json(bool(self.comparisons), self.passed, edit),
            "comparisons": [
                {key: finite(value) for key, value in one._asdict().items()}
                | {"passed": one.passed}
                for one in self.comparisons
            ],
            "saved": [str(path) for path in self.saves],
            "seconds": self.figures.median,
            "runs": len(self.figures.seconds),
            "wave_instructions": self.figures.wave_instructions,
            "fidelity": list(self.figures.fidelity),
            "dump": self.figures.dump or None,
            **executed_json(self.figures.coverage, edit),
        }


_KEYS = ("object", "kernel", "grid", "workgroup", "dynamic_lds", "buffers", "arguments", "outputs")


def read_spec(path: str | os.PathLike[str]) -> Spec:
    """Read and check a launch file, and fill its buffers. Paths in it start at its own folder.

    Raises:
        LaunchError: it is no such document; the text names line and column.
        FormatError: it, or a file that it names, cannot be read.
    """
    top = read_document(path)
    name = top.file
    fields = top.fields("a launch file", _KEYS, ("grid", "workgroup", "arguments"))
    folder = Path(name).parent
    grid, dimensions = _sizes(fields["grid"], "grid")
    buffers = read_buffers(fields.get("buffers"), folder)
    spec = Spec(
        path=name,
        object=fields["object"].path("object", folder) if "object" in fields else None,
        kernel=fields["kernel"].text("kernel") if "kernel" in fields else None,
        geometry=Geometry(
            grid,
            _sizes(fields["workgroup"], "workgroup")[0],
            fields["dynamic_lds"].integer("dynamic_lds", 0, 1 << 20)
            if "dynamic_lds" in fields
            else 0,
            dimensions,
        ),
        buffers=buffers,
        arguments=_arguments(fields["arguments"], buffers),
        outputs=_outputs(fields.get("outputs"), buffers, folder),
        arguments_at=fields["arguments"],
    )
    inputs = [Path(name), *([spec.object] if spec.object else [])]
    for output in spec.outputs:
        if output.save is not None and any(_same(output.save, other) for other in inputs):
            raise output.at.error(f"output {output.name!r} would overwrite {output.save}")
    return spec


def _same(one: Path, other: Path) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def _sizes(at: At, what: str) -> tuple[tuple[int, int, int], int]:
    items = at.sequence(what) if at.is_sequence else [at]
    if not 1 <= len(items) <= 3:
        raise at.error(f"{what}: expected one to three sizes, not {len(items)}")
    x, y, z = (*(item.integer(what, 1, (1 << 32) - 1) for item in items), 1, 1)[:3]
    return (x, y, z), len(items)


def _arguments(at: At, buffers: Mapping[str, Buffer]) -> dict[str, tuple[At, Value | Pointer]]:
    return {
        name: (key, _argument(value, f"argument {name!r}", buffers))
        for name, (key, value) in at.mapping("arguments").items()
    }


def _argument(at: At, what: str, buffers: Mapping[str, Buffer]) -> Value | Pointer:
    """A number, the name of a buffer, null, ``{buffer:, offset:}``, or ``{f32: 1.5}``."""
    if not at.is_mapping:
        text = at.text(what)
        plain = at.plain
        if text in buffers:
            return Pointer(text)
        if plain and text in ("null", "~", ""):
            return 0
        try:
            return at.number(what)
        except LaunchError:
            known = ", ".join(buffers) or "there are none"
            raise at.error(f"{what}: {text!r} is neither a number nor a buffer ({known})") from None
    fields = at.fields(what, ("buffer", "offset", *SCALAR_TYPES))
    if "buffer" in fields:
        if set(fields) - {"buffer", "offset"}:
            raise at.error(f"{what}: a buffer takes nothing but an offset")
        name = fields["buffer"].text(what)
        if name not in buffers:
            raise fields["buffer"].error(f"{what}: there is no buffer {name!r}")
        size = buffers[name].dtype.size(math.prod(buffers[name].shape))
        offset = fields["offset"].integer(f"{what}: offset", 0, size) if "offset" in fields else 0
        return Pointer(name, offset)
    if len(fields) != 1 or "offset" in fields:
        raise at.error(f"{what}: expected one value with its type, such as {{f32: 1.5}}")
    kind, value = next(iter(fields.items()))
    number = value.number(what)
    if isinstance(number, float) and kind not in ("bf16", "f16", "f32", "f64"):
        raise value.error(f"{what}: {number} is no whole number, as {kind} needs")
    return Scalar(kind, number)


def _outputs(at: At | None, buffers: Mapping[str, Buffer], folder: Path) -> tuple[Output, ...]:
    found = []
    work = 0
    for name, (key, value) in (at.mapping("outputs") if at is not None else {}).items():
        what = f"output {name!r}"
        if name not in buffers:
            raise key.error(f"{what}: there is no such buffer")
        fields = value.fields(what, ("save", "compare"))
        if not fields:
            raise value.error(f"{what}: expected save, compare, or both")
        save = None
        if "save" in fields:
            save = fields["save"].path(what, folder)
            if save.suffix != ".npy":
                raise fields["save"].error(f"{what}: {save.name!r} does not end in .npy")
        expected = None
        if "compare" in fields:
            expected = read_expected(fields["compare"], what, buffers[name], buffers, folder)
            work += expected.work
            check_work(fields["compare"], what, work)
        found.append(Output(name, save, expected, value))
    return tuple(found)


def run(spec: Spec, co: CodeObject, device: Device, *, iterations: int = 0) -> Outcome:
    """Run *spec* with the kernel in *co* on *device*, and compare what it asks to compare.

    Raises:
        LaunchError: the document does not fit the kernel; the text names line and column.
        CoasmError: the device refused or stopped the launch.
    """
    kernel = the_kernel(co, spec.kernel)
    found = slots(kernel)
    arguments: dict[str | int, Value | Pointer] = {}
    for name, (at, value) in spec.arguments.items():
        try:
            slot = find_slot(kernel, found, name)
            # A pointer's value is known at the launch; an address has 8 bytes.
            encode(kernel, slot, Scalar("u64", 0) if isinstance(value, Pointer) else value)
        except LaunchError as error:
            raise at.error(str(error)) from None
        if slot.offset in arguments:
            raise at.error(f"argument {slot.label} is given twice")
        arguments[slot.offset] = value
    missing = [
        slot.label
        for slot in found
        if slot.offset not in arguments
        and slot.kind in ("by_value", "global_buffer")
        and not slot.padding
    ]
    if missing:
        raise spec.arguments_at.error(f"no value for {', '.join(missing)}")
    memory = {name: buffer.dtype.pack(buffer.array) for name, buffer in spec.buffers.items()}
    result = launch(device, co, kernel, spec.geometry, arguments, memory, iterations=iterations)
    after = {
        name: buffer.dtype.unpack(result.arrays[name], buffer.shape)
        for name, buffer in spec.buffers.items()
    }
    return Outcome(
        arrays=after,
        comparisons=tuple(
            compare(output.name, output.expected, spec.buffers, after[output.name])
            for output in spec.outputs
            if output.expected is not None and not result.figures.dump
        ),
        saves={
            output.save: spec.buffers[output.name].dtype.portable(after[output.name])
            for output in spec.outputs
            if output.save is not None
        },
        figures=result.figures,
        object=co.name,
        kernel=kernel.name,
        geometry=spec.geometry,
        backend=device.name,
    )
