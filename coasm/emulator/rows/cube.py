"""Which face of a cube a direction meets, and where. Source: CDNA3 ISA guide, V_CUBE*."""

from __future__ import annotations

import numpy as np

from coasm.emulator.rows.floats import floating
from coasm.emulator.rows.nans import Function
from coasm.emulator.rows.table import row
from coasm.emulator.rows.values import Array

__all__: list[str] = []


def _by_axis(along_x: Function, along_y: Function, along_z: Function) -> Function:
    """One of three functions of (x, y, z), by the axis on which the direction is longest."""

    def compute(x: Array, y: Array, z: Array) -> Array:
        far_z = (np.abs(z) >= np.abs(x)) & (np.abs(z) >= np.abs(y))
        far_y = np.abs(y) >= np.abs(x)
        rest = np.where(far_y, along_y(x, y, z), along_x(x, y, z))
        return np.where(far_z, along_z(x, y, z), rest)

    return compute


def _face(number: int, axis: int) -> Function:
    return lambda *xyz: np.where(xyz[axis] < 0, np.float32(number + 1), np.float32(number))


def _turned(by: int, of: int, sign: int) -> Function:
    """Coordinate *of*, with *sign*, turned round where coordinate *by* is negative."""
    return lambda *xyz: np.where(xyz[by] < 0, -sign * xyz[of], sign * xyz[of])


_X, _Y, _Z = 0, 1, 2
for _name, _functions in {
    "id": (_face(0, _X), _face(2, _Y), _face(4, _Z)),
    "ma": tuple(lambda *xyz, at=axis: xyz[at] * np.float32(2) for axis in (_X, _Y, _Z)),
    "sc": (_turned(_X, _Z, -1), lambda x, y, z: x, _turned(_Z, _X, 1)),
    "tc": (lambda x, y, z: -y, _turned(_Y, _Z, 1), lambda x, y, z: -y),
}.items():
    row(f"v_cube{_name}_f32", floating("f32 f32 f32 f32", _by_axis(*_functions)))
