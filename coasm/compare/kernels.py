"""The kernels of an object that is compared with another, which may know them better."""

from __future__ import annotations

from coasm.codeobject import CodeObject, Kernel
from coasm.codeobject.elf import SHN_UNDEF
from coasm.codeobject.model import DESCRIPTOR_SIZE
from coasm.errors import FormatError

__all__ = ["comparable_kernels"]


def comparable_kernels(co: CodeObject, other: CodeObject) -> dict[str, Kernel]:
    """The kernels of *co* by their descriptor's symbol.

    Where its metadata is missing or damaged, or names a kernel that is not there, those kernels
    that *other* names and *co* has.

    Raises:
        FormatError: the kernels of neither can be told.
    """
    try:
        return {kernel.symbol: kernel for kernel in co.kernels}
    except FormatError as error:
        try:
            wanted = other.kernels
        except FormatError:
            raise error from None
    found = {}
    defined = {
        symbol.name: symbol
        for symbol in (*co.elf.symbols[1:], *co.elf.dynamic_symbols[1:])
        if symbol.shndx != SHN_UNDEF
    }
    for kernel in wanted:
        symbol = defined.get(kernel.symbol)
        data = co.bytes_at(symbol.value, DESCRIPTOR_SIZE) if symbol else None
        if symbol is not None and data is not None:
            entry = symbol.value + int.from_bytes(data[16:24], "little", signed=True)
            found[kernel.symbol] = Kernel(kernel.name, kernel.symbol, data, symbol.value, entry, {})
    return found
