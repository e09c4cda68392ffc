"""A ported object with the wait states and waits that its target asks for."""

from __future__ import annotations

from typing import NamedTuple

from coasm.codeobject import CodeObject
from coasm.editing import Module
from coasm.linter.fix import fix

__all__ = ["Put", "mended"]


class Put(NamedTuple):
    """What was put before the instruction at an address, or with *instead* in its place."""

    text: str
    address: int
    instead: bool


def mended(co: CodeObject, llvm: str | None) -> tuple[Module, list[Put]]:
    """*co* with what ``coasm lint --fix`` puts in, proven to be the same beside that.

    Addresses are those in *co*.

    Raises:
        CoasmError: it cannot be mended, or something else would change.
    """
    module = Module(co, llvm=llvm)
    by_line = {line: address for address, line in module.lines.items()}
    put = []
    for change in fix(module.text, name=co.name, llvm=llvm).changes:
        address = by_line[change.line]
        if change.was is None:
            module.insert(change.text, before=address)
        else:
            module.replace(address, change.text)
        put.append(Put(change.text, address, change.was is not None))
    return module.settle(), put
