"""What an instruction counts in, and what a wait waits for.

Which counters there are, and which kinds of operations count in them, say the
:class:`~coasm.counters.Counters` of a target; this says of what kind an instruction is. Source:
LLVM's SIInsertWaitcnts.cpp; the ISA guides' chapters on manual waits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

from coasm.counters import Counters, Waits
from coasm.isa.kinds import is_a
from coasm.isa.table import Opcode

__all__ = [
    "counted_as",
    "counters_used",
    "simm_of",
    "strictest",
    "wait_text",
    "wait_texts",
    "waits_of",
]

#: Units of vector memory, but flat and tensor.
_VECTOR = ("buffer", "tbuffer", "global", "scratch", "cluster", "image")


def counted_as(found: Opcode, *, returns: bool = True, gds: bool = False) -> str:
    """The kind of operation that an instruction is for the counters: one of ``Counters.kinds``.

    ``""`` is for what counts nowhere. *returns*: it writes registers; *gds*: its modifier is there.
    """
    if found.unit in _VECTOR or found.unit == "flat":
        return _of_memory(found, returns)
    if found.unit == "lds":
        if is_a(found.name, "parameter"):
            return "parameter"
        return "" if found.name == "ds_nop" else "gds" if gds or is_a(found.name, "GDS") else "lds"
    if found.unit == "export":
        return "parameter" if is_a(found.name, "parameter") else "export"
    if found.unit == "tensor":
        return "tensor" if found.does in ("to_lds", "from_lds") else ""
    return _of_scalars(found)


def counters_used(
    found: Opcode, counters: Counters | None, *, returns: bool = True, gds: bool = False
) -> tuple[str, ...]:
    """The names of the counters that an instruction counts in by every reading."""
    kind = counted_as(found, returns=returns, gds=gds)
    if counters is None or kind in counters.disputed:
        return ()
    return tuple(name for name in counters.bits if name in counters.kinds.get(kind, ()))


def _of_memory(found: Opcode, returns: bool) -> str:
    if found.does == "cache":
        return _of_cache(found.name)
    if "asynccnt" in found.writes:
        return "async"
    if found.does == "prefetch":
        return "prefetch"
    if found.unit == "image" and is_a(found.name, "ray"):
        return "bvh"
    if found.does == "sample" or is_a(found.name, "in the sampler"):
        return "sample"
    loads = found.does in ("load", "to_lds") or (found.does == "atomic" and returns)
    way = "load" if loads else "store"
    return f"flat {way}" if found.unit == "flat" else way


def _of_cache(name: str) -> str:
    if is_a(name, "cache of loads"):
        return "cache load"
    if is_a(name, "cache of stores"):
        return "cache store"
    return "cache" if is_a(name, "counted cache") else ""


def _of_scalars(found: Opcode) -> str:
    if is_a(found.name, "message"):
        return "message"
    if found.unit == "smem":
        return "" if is_a(found.name, "not counted") else "scalar"
    if is_a(found.name, "state of a barrier"):
        return "scalar"
    return "scc" if is_a(found.name, "barrier into SCC") else ""


def waits_of(mnemonic: str, data: bytes, counters: Counters) -> Waits | None:
    """The counts that a wait instruction has, from its encoding; None: it is none of these."""
    if mnemonic in counters.all:
        return (0,) * len(counters.bits)
    fields = counters.waits.get(mnemonic)
    if fields is None:
        return None
    simm = int.from_bytes(data[:2], "little")
    return _counts(mnemonic, simm, counters)


@cache
def _counts(mnemonic: str, simm: int, counters: Counters) -> Waits:
    fields = counters.waits[mnemonic]
    counts: dict[str, int] = {}
    for name, parts in fields.items():
        count = shift = 0
        for first, width in parts:
            count |= (simm >> first & ((1 << width) - 1)) << shift
            shift += width
        if count < (1 << counters.bits[name]) - 1:
            counts[name] = count
    return counters.of(**counts)


def strictest(one: Waits, other: Waits) -> Waits:
    """What waits for both."""
    return tuple(
        a if b is None else b if a is None else min(a, b) for a, b in zip(one, other, strict=True)
    )


def wait_texts(waits: Waits, counters: Counters) -> Iterator[str]:
    """The instructions of the target that wait so, each as LLVM prints it."""
    left = {name: n for name, n in zip(counters.names, waits, strict=True) if n is not None}
    for mnemonic, fields in counters.waits.items():
        named = {name: left[name] for name in fields if name in left}
        if named and (is_a(mnemonic, "wait by name") or len(named) == len(fields)):
            yield wait_text(mnemonic, named, counters)
            for name in named:
                del left[name]


def wait_text(mnemonic: str, counts: Mapping[str, int], counters: Counters) -> str:
    """A wait instruction for *counts*, as LLVM prints it."""
    fields = counters.waits[mnemonic]
    if is_a(mnemonic, "wait by name"):
        return " ".join(
            [mnemonic, *(f"{name}({counts[name]})" for name in fields if name in counts)]
        )
    null = "null, " if is_a(mnemonic, "wait with a scalar") else ""
    simm = sum(
        counts.get(name, (1 << counters.bits[name]) - 1) << parts[0][0]
        for name, parts in fields.items()
    )
    return f"{mnemonic} {null}{simm:#x}"


def simm_of(text: str, counters: Counters) -> int:
    """SIMM16 of a wait that :func:`wait_texts` made."""
    mnemonic, _, rest = text.partition(" ")
    fields = counters.waits[mnemonic]
    if not is_a(mnemonic, "wait by name"):
        return int(rest.rpartition(" ")[2], 0)
    named = dict(word.rstrip(")").split("(") for word in rest.split())
    simm = 0
    for name, parts in fields.items():
        count = int(named.get(name, (1 << counters.bits[name]) - 1))
        for first, width in parts:
            simm |= (count & ((1 << width) - 1)) << first
            count >>= width
    return simm
