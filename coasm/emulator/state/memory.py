"""Device memory: buffers with address ranges of their own, and gaps that nothing may touch."""

from __future__ import annotations

import bisect
from typing import TYPE_CHECKING, Any

from coasm.emulator.errors import EmulationError, Fault

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Buffer", "Memory"]

_FIRST = 0x7F00_0000_0000
_GAP = 1 << 21  # between two buffers: larger than what an instruction's offset can bridge
_TAIL = 64  # bytes behind a buffer's end, so that a wide view of its last bytes exists
_LIMIT = 1 << 40


class Buffer:
    """One allocation: ``size`` bytes at ``address``, as views of several widths."""

    def __init__(self, address: int, size: int, name: str) -> None:
        import numpy as np

        self.address, self.size, self.name = address, size, name
        whole = np.zeros((size + 15) // 16 * 16 + _TAIL, np.uint8)
        self.bytes = whole[:size]
        self.views: dict[int, NDArray[Any]] = {
            1: whole,
            2: whole.view(np.uint16),
            4: whole.view(np.uint32),
            8: whole.view(np.uint64),
            16: whole.view(np.complex128),
        }


class Memory:
    """The buffers of a device, by address. Addresses are never used twice until :meth:`reset`."""

    def __init__(self) -> None:
        self._buffers: list[Buffer] = []
        self._starts: list[int] = []
        self._next = _FIRST

    def allocate(
        self,
        size: int,
        name: str,
        data: bytes | NDArray[Any] | None = None,
        *,
        align: int = 256,
    ) -> int:
        """A new buffer of *size* bytes, zero or beginning with *data*; its address.

        Raises:
            EmulationError: a size or alignment that cannot be, more data than the buffer holds, or
                no room for it on this machine.
        """
        if size < 0 or size > _LIMIT:
            raise EmulationError(f"buffer {name!r}: a size of {size} bytes")
        if align < 1 or align & (align - 1):
            raise EmulationError(f"buffer {name!r}: the alignment {align} is no power of two")
        address = -(-self._next // align) * align
        try:
            buffer = Buffer(address, size, name)
        except (MemoryError, ValueError):
            raise EmulationError(f"buffer {name!r}: no room for {size} bytes") from None
        self._next = address + size + _GAP
        if data is not None:
            flat = _flat(data)
            if flat.size > size:
                raise EmulationError(f"buffer {name!r}: {flat.size} bytes of data for {size} bytes")
            buffer.bytes[: flat.size] = flat
        self._buffers.append(buffer)
        self._starts.append(address)
        return address

    def view(self, address: int) -> NDArray[np.uint8]:
        """The live bytes of the buffer that begins at *address*.

        Raises:
            EmulationError: no buffer begins there.
        """
        found = self.find(address)
        if found is None or found.address != address:
            raise EmulationError(f"no buffer begins at {address:#x}")
        return found.bytes

    def read(self, address: int, size: int) -> bytes:
        """*size* bytes of one buffer from *address* on.

        Raises:
            EmulationError: they do not lie in one buffer.
        """
        buffer = self._inside(address, size)
        start = address - buffer.address
        return buffer.bytes[start : start + size].tobytes()

    def write(self, address: int, data: bytes | NDArray[Any]) -> None:
        """Put *data* into one buffer from *address* on.

        Raises:
            EmulationError: it does not lie in one buffer.
        """
        flat = _flat(data)
        buffer = self._inside(address, int(flat.size))
        start = address - buffer.address
        buffer.bytes[start : start + flat.size] = flat

    def free(self, address: int) -> None:
        """Take the buffer that begins at *address* away.

        Raises:
            EmulationError: no buffer begins there.
        """
        self.view(address)
        at = bisect.bisect_left(self._starts, address)
        del self._buffers[at], self._starts[at]

    def reset(self) -> None:
        """Take all buffers away; addresses start again."""
        self._buffers, self._starts, self._next = [], [], _FIRST

    def find(self, address: int) -> Buffer | None:
        """The buffer that holds *address*."""
        at = bisect.bisect_right(self._starts, address) - 1
        if at < 0:
            return None
        buffer = self._buffers[at]
        return buffer if address < buffer.address + max(buffer.size, 1) else None

    def describe(self, address: int) -> str:
        """Where an address that is outside lies, for messages."""
        at = bisect.bisect_right(self._starts, address) - 1
        if at >= 0:
            buffer = self._buffers[at]
            past = address - buffer.address - buffer.size
            if 0 <= past < _GAP:
                return (
                    f"{past} bytes behind the end of buffer {buffer.name!r} ({buffer.size} bytes)"
                )
        if at + 1 < len(self._buffers):
            buffer = self._buffers[at + 1]
            if buffer.address - address <= _GAP:
                return f"{buffer.address - address} bytes before buffer {buffer.name!r}"
        return "in no buffer"

    def _inside(self, address: int, size: int) -> Buffer:
        buffer = self.find(address)
        if buffer is None or address + size > buffer.address + buffer.size:
            raise EmulationError(f"{size} bytes at {address:#x}: {self.describe(address)}")
        return buffer

    # What the instructions use: addresses as uint64 arrays of any shape.

    def locate(
        self, addresses: NDArray[np.uint64], size: int, align: int, active: NDArray[np.bool_] | None
    ) -> Buffer | None:
        """The one buffer that holds *size* bytes at every (active) address; None: several do.

        Raises:
            Fault: an address outside all buffers, or not a multiple of *align*.
        """
        import numpy as np

        used = addresses if active is None else addresses[active]
        if not used.size:
            return None
        low, high = int(np.minimum.reduce(used, axis=None)), int(np.maximum.reduce(used, axis=None))
        if align > 1 and int(np.bitwise_or.reduce(used, axis=None)) & (align - 1):
            bad = (addresses & np.uint64(align - 1)) != 0
            self._fault(addresses, bad if active is None else bad & active, size, align)
        buffer = self.find(low)
        if buffer is not None and high + size <= buffer.address + buffer.size:
            return buffer
        bad = np.ones(addresses.shape, bool) if active is None else active.copy()
        for one in self._buffers:
            if one.size >= size:
                first, last = np.uint64(one.address), np.uint64(one.address + one.size - size)
                bad &= ~((addresses >= first) & (addresses <= last))
        if bad.any():
            self._fault(addresses, bad, size, 1)
        return None

    def buffers(self) -> tuple[Buffer, ...]:
        """Every buffer, by address."""
        return tuple(self._buffers)

    def _fault(self, addresses: NDArray[Any], bad: NDArray[Any], size: int, align: int) -> None:
        import numpy as np

        place = np.argwhere(bad)[0]
        address = int(addresses[tuple(place)])
        row = int(place[0]) if place.size else None
        lane = int(place[1]) if place.size > 1 else None
        if address % align:
            text = (
                f"misaligned access: {size} bytes at {address:#x}, which is no multiple of {align}"
            )
        else:
            text = (
                f"access outside of memory: {size} bytes at {address:#x}, {self.describe(address)}"
            )
        raise Fault(text, row, lane)


def _flat(data: bytes | NDArray[Any]) -> NDArray[np.uint8]:
    import numpy as np

    if isinstance(data, (bytes, bytearray, memoryview)):
        return np.frombuffer(data, np.uint8)
    return np.ascontiguousarray(data).reshape(-1).view(np.uint8)
