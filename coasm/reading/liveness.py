"""What of a kernel's registers is live before each of its instructions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple

from coasm.asm.code import Instruction as Decoded
from coasm.descriptor import Resources
from coasm.flow.lanes import whole_after, whole_at_starts
from coasm.flow.liveness import EVERYTHING, Effect, Live, before, effect_of, live_at_ends
from coasm.isa import AGPR, EXEC, SCC, VCC, VGPR, Access, Parsed
from coasm.isa.table import opcode
from coasm.reading.cfg import Cfg
from coasm.reading.instruction import (
    Instruction,
    accesses,
    accesses_of,
    parsed_halves,
    registers_of,
    shown,
)

__all__ = ["LiveRegisters", "Liveness"]

#: File → the number of its first register.
_FIRST = {"sgpr": 0, "vgpr": VGPR, "agpr": AGPR}
#: File → all its registers, as bits.
_FILES = {
    "sgpr": (1 << VCC) - 1,
    "vgpr": (1 << AGPR) - (1 << VGPR),
    "agpr": EVERYTHING & ~((1 << AGPR) - 1),
}


class LiveRegisters(NamedTuple):
    """Before one instruction: the registers that are live, by name; how many of each file.

    ``pressure`` and ``spare`` have ``sgpr``, ``vgpr`` and ``agpr``; ``spare`` are those that the
    kernel declares and that hold nothing here that may still be read. *everything*: flow goes on
    to where it cannot be followed, so every register counts as live and none is spare.
    """

    registers: tuple[str, ...]
    pressure: Mapping[str, int]
    spare: Mapping[str, tuple[str, ...]]
    everything: bool


class Liveness:
    """Liveness of a kernel: ``liveness[place]`` is a :class:`LiveRegisters`.

    *place* is that of an instruction in ``kernel.instructions``, or the instruction itself.

    Vector registers count as live as long as any lane of them is: what EXEC switches off keeps it.
    *whole_waves*: every lane of a wave is a work-item.
    """

    def __init__(
        self,
        code: Sequence[Decoded],
        cfg: Cfg,
        instructions: str,
        declared: Resources,
        numbered_sgprs: int,
        whole_waves: bool,
    ) -> None:
        self._code = code
        self._cfg = cfg
        self._instructions = instructions
        offset = declared.accum_offset
        apart = opcode("v_accvgpr_read_b32", instructions) is not None  # a file of their own
        self._sizes = {
            "sgpr": min(declared.sgprs or numbered_sgprs, numbered_sgprs),
            "vgpr": declared.vgprs if offset is None else min(offset, declared.vgprs),
            "agpr": declared.vgprs * apart if offset is None else max(0, declared.vgprs - offset),
        }
        whole_at_entry = whole_waves or not any(
            self._effect(at).lanes == "all" for at in range(len(code))
        )
        self._words = declared.wave_size // 32
        follows = [block.follows for block in cfg.blocks]
        self._whole = whole_at_starts(
            follows,
            {
                **dict.fromkeys(cfg.entries, 1 << EXEC if whole_at_entry else 0),
                **{block.number: 0 for block in cfg.blocks if block.resumes},
            },
            lambda number: (self._access(at) for at in cfg.blocks[number].places),
            self._words,
        )
        self._ends = live_at_ends(
            follows,
            [block.number for block in cfg.blocks if block.leaves],
            lambda number: reversed(self._effects(number)),
        )
        self._block: tuple[int, list[Live]] = -1, []

    def __len__(self) -> int:
        return len(self._code)

    def __getitem__(self, place: int | Instruction) -> LiveRegisters:
        """What is live before an instruction."""
        at = place.index if isinstance(place, Instruction) else range(len(self._code))[place]
        block = self._cfg.block_of(at)
        live = self._of_block(block.number)[at - block.first].registers
        everything = live == EVERYTHING
        if everything:
            live = self._declared
        return LiveRegisters(
            registers_of(_numbers(live)),
            {file: (live & bits).bit_count() for file, bits in _FILES.items()},
            {file: registers_of(_numbers(self._mask(file) & ~live)) for file in _FIRST},
            everything,
        )

    @cached_property
    def pressure(self) -> Mapping[str, int]:
        """File → the most of its registers that are live anywhere in the kernel."""
        most = dict.fromkeys(_FIRST, 0)
        for block in self._cfg.blocks:
            for live in self._of_block(block.number):
                for file in most:
                    registers = self._declared if live.registers == EVERYTHING else live.registers
                    most[file] = max(most[file], (registers & _FILES[file]).bit_count())
        return most

    @cached_property
    def spare(self) -> Mapping[str, tuple[str, ...]]:
        """File → the registers that the kernel declares and no instruction of it names."""
        used = 0
        for at in range(len(self._code)):
            effect = self._effect(at)
            used |= effect.reads | effect.writes | effect.reads_all | effect.writes_all
        if any(block.leaves for block in self._cfg.blocks):
            used = EVERYTHING
        return {file: registers_of(_numbers(self._mask(file) & ~used)) for file in _FIRST}

    def _mask(self, file: str) -> int:
        return ((1 << self._sizes[file]) - 1) << _FIRST[file]

    @property
    def _declared(self) -> int:
        every = (1 << VCC) | (1 << VCC + 1) | (1 << SCC)
        for file in _FIRST:
            every |= self._mask(file)
        return every

    def _of_block(self, number: int) -> list[Live]:
        """What is live before each instruction of a block."""
        if self._block[0] != number:
            live = self._ends[number]
            found = []
            for effect in reversed(self._effects(number)):
                live = before(effect, live)
                found.append(live)
            self._block = number, found[::-1]
        return self._block[1]

    def _effects(self, number: int) -> list[Effect]:
        """What the instructions of a block do, with what is known of EXEC there."""
        whole = self._whole.get(number, 0)
        found = []
        for at in self._cfg.blocks[number].places:
            effect = self._effect(at)
            if effect.writes and whole >> EXEC & 1:
                effect = effect._replace(writes=0, writes_all=effect.writes_all | effect.writes)
            found.append(effect)
            whole = whole_after(*self._access(at), whole, self._words)
        return found

    def _access(self, at: int) -> tuple[Parsed, Access]:
        text = shown(self._code[at])
        return parsed_halves(text)[0], accesses_of(text, self._instructions)

    def _effect(self, at: int) -> Effect:
        decoded = self._code[at]
        accesses(decoded, self._instructions)  # or it is said where it stands
        return _effect(shown(decoded), self._instructions)


@lru_cache(maxsize=1 << 16)
def _effect(text: str, instructions: str) -> Effect:
    return effect_of(parsed_halves(text)[0], accesses_of(text, instructions))


def _numbers(bits: int) -> list[int]:
    found = []
    while bits:
        low = bits & -bits
        found.append(low.bit_length() - 1)
        bits ^= low
    return found
