"""Decoded code as data: instructions, bytes that stay data, and a section made of both."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import accumulate, chain, pairwise, repeat
from typing import NamedTuple, overload

from coasm.isa.flow import is_direct

__all__ = ["DATA", "Code", "Instruction", "Item", "Raw", "branch_target", "branches"]


class Instruction(NamedTuple):
    """One instruction as the disassembler prints it, without its comments.

    ``registers`` are the operands with the VGPR numbers that they reach (GFX12.5: 8 bits of a
    number are in the instruction, 2 in the state that ``s_set_vgpr_msb`` sets), or empty where
    they are those of ``text``. It ends in ``(a guess)`` where the state is not known.
    """

    address: int
    data: bytes
    text: str
    registers: str = ""

    @property
    def size(self) -> int:
        return len(self.data)

    @property
    def mnemonic(self) -> str:
        return self.text.split(None, 1)[0]

    @property
    def operands(self) -> str:
        return self.text.partition(" ")[2].strip()


#: The reason of bytes that a symbol declares to be data.
DATA = "data"


class Raw(NamedTuple):
    """Bytes in a code section that are listed as data, and why."""

    address: int
    data: bytes
    reason: str


Item = Instruction | Raw

_BRANCH_STARTS = frozenset(("s_br", "s_cb", "s_ca", "s_su"))


def branch_target(instruction: Instruction) -> int | None:
    """The address a direct branch or call goes to; None for any other instruction."""
    text = instruction.text
    if text[:4] not in _BRANCH_STARTS or not is_direct(text.split(None, 1)[0]):
        return None
    return _target(instruction.address, instruction.data)


def branches(code: Code) -> list[tuple[int, int]]:
    """The address of each direct branch or call in *code*, and where it goes."""
    places = code.positions(is_direct)
    return [(code.address(at), _target(code.address(at), code.bytes_at(at))) for at in places]


def _target(address: int, data: bytes) -> int:
    return address + 4 + 4 * int.from_bytes(data[:2], "little", signed=True)


#: Makes an instruction of its four fields in half the time of the class's own call.
_NEW: Callable[[Iterable[object]], Instruction] = partial(tuple.__new__, Instruction)


class Code(Sequence[Item]):
    """The items of one section in address order; they cover its *data* without gaps.

    The first is at *start*; ``stops`` are their offsets in *data* and its end, ``texts`` (empty for
    data) their texts. An item is made when it is asked for: of most instructions only the text is
    ever read. ``others`` are the items, by position, that are more than an instruction with its
    text.
    """

    def __init__(
        self,
        data: bytes,
        start: int,
        stops: list[int],
        texts: list[str],
        others: Mapping[int, Item] | None = None,
    ) -> None:
        self.data = data
        self.start = start
        self.stops = stops
        self.texts = texts
        self.others: Mapping[int, Item] = others or {}

    @classmethod
    def of(cls, items: Sequence[Item]) -> Code:
        """The section that *items* make."""
        data = [item.data for item in items]
        return cls(
            b"".join(data),
            items[0].address if items else 0,
            list(accumulate(map(len, data), initial=0)),
            [item.text if isinstance(item, Instruction) else "" for item in items],
            {at: i for at, i in enumerate(items) if isinstance(i, Raw) or i.registers},
        )

    @cached_property
    def by_mnemonic(self) -> dict[str, list[int]]:
        """The first word of a text → where such instructions are."""
        positions: dict[str, list[int]] = defaultdict(list)
        for at, text in enumerate(self.texts):
            positions[text.partition(" ")[0]].append(at)
        return positions

    @property
    def raws(self) -> list[Raw]:
        """What is data."""
        return [item for item in self.others.values() if isinstance(item, Raw)]

    @property
    def undecoded(self) -> list[Raw]:
        """What LLVM cannot read."""
        return [raw for raw in self.raws if raw.reason != DATA]

    def positions(self, wanted: Callable[[str], object]) -> list[int]:
        """Where the instructions are whose mnemonic is *wanted*."""
        return sorted(chain(*(places for name, places in self.by_mnemonic.items() if wanted(name))))

    def position(self, address: int) -> int | None:
        """The item that begins at *address*."""
        at = bisect_left(self.stops, address - self.start)
        return at if at < len(self) and self.stops[at] == address - self.start else None

    def stops_at(self, address: int) -> bool:
        """Whether an item begins at *address*, or the last one ends there."""
        offset = address - self.start
        return self.stops[bisect_left(self.stops, offset, 0, len(self))] == offset

    def places(self, addresses: Iterable[int]) -> list[int]:
        """Where the items are that begin at *addresses*, in order."""
        found = map(self.position, sorted(addresses))
        return [at for at in found if at is not None]

    def address(self, at: int) -> int:
        """Where an item begins, or the last one ends."""
        return self.start + self.stops[at]

    def bytes_at(self, at: int) -> bytes:
        """The encoding of an item."""
        return self.data[self.stops[at] : self.stops[at + 1]]

    def with_raws(self, changes: Sequence[tuple[int, int, Sequence[Raw]]]) -> Code:
        """The code with data for the items from and to the positions of each of the *changes*."""
        stops: list[int] = []
        texts: list[str] = []
        raws: list[Item] = []
        done = 0
        for low, high, replacing in changes:
            stops += self.stops[done:low]
            stops += [raw.address - self.start for raw in replacing]
            texts += self.texts[done:low]
            texts += [""] * len(replacing)
            raws += replacing
            done = high
        stops += self.stops[done:]
        texts += self.texts[done:]
        changed = Code(self.data, self.start, stops, texts)
        gone = {at for low, high, _ in changes for at in range(low, high)}
        kept = [item for at, item in self.others.items() if at not in gone]
        changed.others = {
            bisect_left(stops, item.address - self.start): item for item in kept + raws
        }
        return changed

    def __len__(self) -> int:
        return len(self.texts)

    @overload
    def __getitem__(self, at: int) -> Item: ...
    @overload
    def __getitem__(self, at: slice) -> list[Item]: ...
    def __getitem__(self, at: int | slice) -> Item | list[Item]:
        if isinstance(at, slice):
            low, high, step = at.indices(len(self))
            if step != 1:
                return [self[one] for one in range(low, high, step)]
            return self._items(low, max(low, high))
        at = range(len(self))[at]
        if at in self.others:
            return self.others[at]
        return Instruction(self.address(at), self.bytes_at(at), self.texts[at])

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items(0, len(self)))

    def _items(self, low: int, high: int) -> list[Item]:
        stops = self.stops[low : high + 1]
        data = [self.data[a:b] for a, b in pairwise(stops)]
        addresses = map(self.start.__add__, stops)
        items: list[Item] = list(map(_NEW, zip(addresses, data, self.texts[low:high], repeat(""))))
        others = self.others
        wanted = others if len(others) < high - low else range(low, high)
        for at in wanted:
            if low <= at < high and at in others:
                items[at - low] = others[at]
        return items
