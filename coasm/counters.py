"""The wait counters of each generation, what counts in them, and where a wait has its counts.

Source: LLVM 22, AMDGPUBaseInfo.cpp (encodeWaitcnt, the bit masks of the counters) and
SIInsertWaitcnts.cpp (which events a counter counts); the ISA guides' sections on S_WAITCNT.
``tests/linter/test_wait_counters.py`` has LLVM's assembler and its pass judge each of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

__all__ = ["GFX9", "GFX10", "GFX11", "GFX12", "GFX12_5", "Counters", "Orders", "Waits"]

#: How many operations of each counter may still be out behind a wait; None: as many as there are.
Waits = tuple[int | None, ...]
#: Where in SIMM16 a count is: (first bit, how many), the lowest part first.
_Parts = tuple[tuple[int, int], ...]


class Orders(NamedTuple):
    """One kind of operation, by the numbers of the counters.

    ``of``: None where it does not count, -1 where it ends in any order, else the number of the
    order that it ends in. ``ends``: the counters that say that it has ended. ``sources``: those
    that say that it has read its registers. ``counted``: all in which it counts.
    """

    of: tuple[int | None, ...]
    ends: tuple[int, ...]
    sources: tuple[int, ...]
    counted: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Counters:
    """The wait counters of a generation.

    ``bits``: counter → how wide it is; its greatest number is "no wait".
    ``waits``: wait instruction → counter → where in SIMM16 its count is: the parts as (first bit,
    how many), the lowest first. ``all``: what waits for everything, of every counter.
    ``kinds``: kind of operation (:func:`coasm.isa.waits.counted_as`) → counter → the order in which
    its operations end there: those of one name in that of their issue, those of none in any.
    ``sources``: the counters that say only that an operation has read its registers.
    ``disputed``: kinds that count by one of two readings alone. ``drained``: counters that have one
    order at a time: what has another goes out when they are empty.
    """

    bits: Mapping[str, int]
    waits: Mapping[str, Mapping[str, _Parts]]
    kinds: Mapping[str, Mapping[str, str]]
    all: frozenset[str] = frozenset()
    sources: frozenset[str] = frozenset({"expcnt", "xcnt"})
    disputed: frozenset[str] = frozenset()
    drained: frozenset[str] = frozenset()

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The counters; in this order are all :data:`Waits`."""
        return tuple(self.bits)

    @cached_property
    def most(self) -> tuple[int, ...]:
        """The largest count of each that can be waited for."""
        return tuple((1 << bits) - 2 for bits in self.bits.values())

    @cached_property
    def none(self) -> Waits:
        """No wait."""
        return (None,) * len(self.bits)

    @cached_property
    def order_names(self) -> tuple[str, ...]:
        """Every order that operations end in, by its number."""
        named = {order for orders in self.kinds.values() for order in orders.values() if order}
        return tuple(sorted(named))

    @cached_property
    def orders(self) -> Mapping[str, Orders]:
        """:attr:`kinds` by the numbers of counters and orders."""
        number = {"": -1, **{order: at for at, order in enumerate(self.order_names)}}
        found = {}
        for kind, orders in self.kinds.items():
            of = tuple(number[orders[name]] if name in orders else None for name in self.bits)
            counted = [at for at, order in enumerate(of) if order is not None]
            sources = [at for at in counted if self.names[at] in self.sources]
            ends = [at for at in counted if at not in sources] or sources
            # Parameters go to registers; expcnt says so.
            reads = () if kind == "parameter" else tuple(sources)
            found[kind] = Orders(of, tuple(ends), reads, tuple(counted))
        return found

    def of(self, **counts: int) -> Waits:
        """The waits for at most so many of the counters named."""
        return tuple(counts.get(name) for name in self.bits)


_SIMM = {
    "s_waitcnt": {"vmcnt": ((0, 4), (14, 2)), "expcnt": ((4, 3),), "lgkmcnt": ((8, 4),)},
}
#: Before GFX12 what goes through the vector memory unit counts in one counter, in order.
_VM = {"vmcnt": "memory"}
_LDS = {"lds": {"lgkmcnt": "lds"}, "gds": {"lgkmcnt": "gds", "expcnt": "gds"}}
_SCALAR = {"scalar": {"lgkmcnt": ""}, "message": {"lgkmcnt": "message"}}
#: FLAT goes to memory or to LDS, nobody knows which.
_ANY = {"vmcnt": "", "lgkmcnt": ""}
_EXPORT = {"export": {"expcnt": "export"}}

GFX9 = Counters(
    {"vmcnt": 6, "expcnt": 3, "lgkmcnt": 4},
    _SIMM,
    {
        **dict.fromkeys(("load", "sample", "bvh", "store", "cache"), _VM),
        **dict.fromkeys(("flat load", "flat store"), _ANY),
        **_LDS,
        **_SCALAR,
        **_EXPORT,
    },
    # Newer LLVM counts BUFFER_INV and BUFFER_WBL2, with AMD's word; LLVM 22 does not.
    disputed=frozenset({"cache"}),
)

#: One counter a SOPK instruction, besides an SGPR that is added to its count.
_SOPK = {
    f"s_waitcnt_{name}": {name: ((0, bits),)}
    for name, bits in {"vmcnt": 6, "expcnt": 3, "lgkmcnt": 6, "vscnt": 6}.items()
}
_KINDS_10 = {
    **dict.fromkeys(("load", "sample", "bvh"), _VM),
    "store": {"vscnt": "store"},
    "flat load": {"vmcnt": "memory", "lgkmcnt": "lds"},
    "flat store": {"vscnt": "store", "lgkmcnt": "lds"},
    **_LDS,
    **_SCALAR,
    **_EXPORT,
}
GFX10 = Counters(
    {"vmcnt": 6, "expcnt": 3, "lgkmcnt": 6, "vscnt": 6},
    {
        "s_waitcnt": {"vmcnt": ((0, 4), (14, 2)), "expcnt": ((4, 3),), "lgkmcnt": ((8, 6),)},
        **_SOPK,
    },
    _KINDS_10,
    all=frozenset({"s_wait_idle"}),
)
GFX11 = Counters(
    GFX10.bits,
    {
        "s_waitcnt": {"vmcnt": ((10, 6),), "expcnt": ((0, 3),), "lgkmcnt": ((4, 6),)},
        **_SOPK,
    },
    {**_KINDS_10, "parameter": {"expcnt": "parameter"}},
    all=GFX10.all,
)

_BITS_12 = {"loadcnt": 6, "samplecnt": 6, "bvhcnt": 3, "expcnt": 3, "storecnt": 6, "dscnt": 6}
_BITS_12 |= {"kmcnt": 5}
_LOAD, _STORE, _DS = {"loadcnt": "load"}, {"storecnt": "store"}, {"dscnt": "lds"}


def _split(bits: Mapping[str, int]) -> dict[str, dict[str, _Parts]]:
    """The waits of GFX12: one for each counter, and two for one of memory and that of LDS."""
    alone: dict[str, dict[str, _Parts]] = {
        f"s_wait_{name}": {name: ((0, width),)} for name, width in bits.items()
    }
    pairs: dict[str, dict[str, _Parts]] = {
        f"s_wait_{name}_dscnt": {name: ((8, bits[name]),), "dscnt": ((0, bits["dscnt"]),)}
        for name in ("loadcnt", "storecnt")
    }
    return {**pairs, **alone}


GFX12 = Counters(
    _BITS_12,
    _split(_BITS_12),
    {
        "load": _LOAD,
        "sample": {"samplecnt": "sample"},
        "bvh": {"bvhcnt": "bvh"},
        "store": _STORE,
        "cache load": _LOAD,
        "cache store": _STORE,
        "flat load": {**_LOAD, **_DS},
        "flat store": {**_STORE, **_DS},
        "lds": _DS,
        "scalar": {"kmcnt": ""},
        "message": {"kmcnt": "message"},
        "scc": {"kmcnt": "scc"},
        "export": {"expcnt": "export"},
        "parameter": {"expcnt": "parameter"},
    },
    all=GFX10.all,
)

_BITS_12_5 = {"loadcnt": 6, "storecnt": 6, "dscnt": 6, "kmcnt": 5, "xcnt": 6, "asynccnt": 6}
_BITS_12_5 |= {"tensorcnt": 6}
_VECTOR, _ASYNC = {"xcnt": "vector"}, {"asynccnt": "async"}
GFX12_5 = Counters(
    _BITS_12_5,
    _split(_BITS_12_5),
    {
        "load": {**_LOAD, **_VECTOR},
        "store": {**_STORE, **_VECTOR},
        "cache load": _LOAD,
        "cache store": _STORE,
        "flat load": {**_LOAD, **_DS, **_VECTOR},
        "flat store": {**_STORE, **_DS, **_VECTOR},
        "lds": _DS,
        "scalar": {"kmcnt": "", "xcnt": ""},
        "message": {"kmcnt": "message"},
        "scc": {"kmcnt": "scc"},
        "async": {**_ASYNC, **_VECTOR},
        "tensor": {"tensorcnt": "tensor", **_VECTOR},
    },
    all=GFX10.all,
    drained=frozenset({"xcnt"}),
)
