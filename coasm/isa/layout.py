"""Where the elements of a matrix instruction's operands are: lanes, registers, bits.

An instruction's shape is read out of its name and out of how many registers its operands have
(:mod:`coasm.isa.table`). Sources of the formulas: CDNA3 and CDNA4 ISA guides, "Matrix Arithmetic
Instructions"; RDNA3 and RDNA4 ISA guides, "Wave Matrix Multiply Accumulate"; AMD, *Matrix Core
Programming on AMD CDNA3 and CDNA4*; AMD's matrix instruction calculator, which the tests compare
with.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from coasm.errors import UnsupportedError
from coasm.isa.table import Opcode, opcode

__all__ = [
    "BITS",
    "CHOSEN",
    "OPERANDS",
    "Modifiers",
    "Place",
    "Shape",
    "b_lanes",
    "broadcast_block",
    "index_bit",
    "places",
    "shape_of",
]

#: Element format → its bits.
BITS = {
    **{"f64": 64, "f32": 32, "xf32": 32, "i32": 32, "f16": 16, "bf16": 16, "i8": 8, "iu8": 8},
    **{"bf16f32": 16, "fp8": 8, "bf8": 8, "fp6": 6, "bf6": 6, "fp4": 4, "iu4": 4},
}
#: What CBSZ (of A) and BLGP (of B) say of an operand whose format is ``f8f6f4``.
CHOSEN = ("fp8", "bf8", "fp6", "bf6", "fp4")
OPERANDS = ("A", "B", "C", "D", "index", "scaleA", "scaleB")

_NAME = re.compile(
    r"v_(mfma|smfmac|wmma|swmmac)(_scale|_scale16)?_(f32|f64|i32|f16|bf16|bf16f32)_"
    r"(\d+)x(\d+)x(\d+)(?:_\d+b)?_?(\w+?)(?:_1k)?"
)


#: Where each MFMA but that of f64 takes BLGP; later those of several blocks and of f32.
_BLGP_EVERYWHERE = ("908", "90a")
#: Instruction set → the generation that says where WMMA has its elements.
_GENERATIONS = {"1100": 11, "1150": 11, "1200": 12, "1250": 125}


#: What stands before an instruction's result → how many elements along k have a scale in common.
_SCALED = {None: 0, "_scale": 32, "_scale16": 16}


class Shape(NamedTuple):
    """D[m, n] = A[m, k] · B[k, n] + C[m, n], for each of *blocks*.

    *a*, *b*, *out* are formats of :data:`BITS`, or ``f8f6f4``. *sparse*: of four neighbours along k
    A holds two, and an index says which. *generation* is 9 (MFMA), 11, 12 or 125 (WMMA).
    *takes_blgp*: BLGP is a pattern of the lanes of B. *scaled*: so many neighbours along k have a
    scale in common, a byte of a register of its own; 0: there are none.
    """

    m: int
    n: int
    k: int
    blocks: int
    a: str
    b: str
    out: str
    sparse: bool
    generation: int
    takes_blgp: bool
    scaled: int = 0

    def formats(self, cbsz: int = 0, blgp: int = 0) -> tuple[str, str]:
        """The formats of A and B; where the instruction has them chosen, by CBSZ and BLGP.

        Raises:
            UnsupportedError: no format has that number.
        """
        if self.a != "f8f6f4":
            return self.a, self.b
        for number in (cbsz, blgp):
            if not 0 <= number < len(CHOSEN):
                raise UnsupportedError(f"no element format has the number {number}")
        return CHOSEN[cbsz], CHOSEN[blgp]

    def accumulates(self, operand: str) -> str:
        """The format of C or D, which differ where the result is rounded to bf16."""
        if self.out == "bf16f32":
            return "f32" if operand == "C" else "bf16"
        return self.out

    @property
    def stored(self) -> int:
        """How many elements of a row of A are stored."""
        return self.k // 2 if self.sparse else self.k


class Place(NamedTuple):
    """Element [i, j] of a block of an operand: bits *low* to *high* of a register of a lane.

    i and j are the row and the column in the operand's own matrix. *register* counts from the
    operand's first.
    """

    lane: int
    register: int
    low: int
    high: int
    block: int
    i: int
    j: int


@cache
def shape_of(mnemonic: str, instructions: str) -> Shape:
    """The shape of a matrix instruction on an instruction set of the table.

    Raises:
        UnsupportedError: it is none, or that set does not have it.
    """
    match, known = _NAME.fullmatch(mnemonic), opcode(mnemonic, instructions)
    if match is None or known is None:
        raise UnsupportedError(f"{mnemonic} is no matrix instruction of that target")
    kind, scale, out, m, n, k, types = match.groups()
    a, b = _formats(types)
    rows, columns = int(m), int(n)
    blocks = _result_bits(known) * 64 // (rows * columns * BITS[out]) if "mfma" in kind else 1
    generation = 9 if kind in ("mfma", "smfmac") else _GENERATIONS[instructions]
    sparse = kind in ("smfmac", "swmmac")
    takes_blgp = kind == "mfma" and a not in ("f64", "f8f6f4")
    if instructions not in _BLGP_EVERYWHERE:
        takes_blgp = takes_blgp and (a == "f32" or blocks > 1)
    return Shape(
        rows, columns, int(k), blocks, a, b, out, sparse, generation, takes_blgp, _SCALED[scale]
    )


def _formats(types: str) -> tuple[str, str]:
    if types == "f4":
        return "fp4", "fp4"
    if types == "f8f6f4" or types in BITS:
        return types, types
    a, _, b = types.partition("_")
    return a, b


def _result_bits(known: Opcode) -> int:
    bits = known.slots[0].bits
    assert bits is not None
    return bits


class Modifiers(NamedTuple):
    """What the modifiers of an instruction change: CBSZ, ABID, BLGP; the size of a wave.

    *byte* is the one of the register of scales that op_sel and op_sel_hi pick.
    """

    cbsz: int = 0
    abid: int = 0
    blgp: int = 0
    wave: int = 64
    byte: int = 0


def places(shape: Shape, operand: str, modifiers: Modifiers = Modifiers()) -> Iterator[Place]:  # noqa: B008
    """Every element of an operand (one of :data:`OPERANDS`); the first fastest along its columns.

    An element that several lanes hold comes once for each.

    Raises:
        UnsupportedError: the instruction has no such operand or modifier, or nobody has published
            where its elements are.
    """
    if operand == "index" and not shape.sparse:
        raise UnsupportedError("only sparse matrix instructions have an index")
    if operand.startswith("scale") and not shape.scaled:
        raise UnsupportedError("only scaled matrix instructions have scales")
    _check(shape, modifiers)
    if shape.generation == 9:
        yield from _mfma(shape, operand, modifiers)
    elif shape.generation == 11:
        yield from _rdna3(shape, operand, modifiers.wave)
    elif shape.generation == 12:
        yield from _rdna4(shape, operand, modifiers)
    else:
        yield from _gfx1250(shape, operand, modifiers)


def _check(shape: Shape, modifiers: Modifiers) -> None:
    """Whether the instruction takes the modifiers, whichever operand they change.

    Raises:
        UnsupportedError: it does not.
    """
    for name, value, bits in (("cbsz", modifiers.cbsz, 3), ("abid", modifiers.abid, 4)):
        if not 0 <= value < 1 << bits:
            raise UnsupportedError(f"the instruction has no {name}:{value}")
    if not 0 <= modifiers.byte < (4 if shape.scaled else 1):
        raise UnsupportedError(f"the instruction has no byte {modifiers.byte} of scales")
    if shape.a == "f8f6f4":
        shape.formats(modifiers.cbsz, modifiers.blgp)
        if modifiers.abid:
            raise UnsupportedError("the instruction has no abid")
    elif shape.generation == 9 and not shape.sparse:
        broadcast_block(shape, 0, modifiers.cbsz, modifiers.abid)
        b_lanes(shape, modifiers.blgp)
    elif shape.generation == 9 and not modifiers.blgp:
        index_bit(shape, modifiers.cbsz, modifiers.abid)
    elif modifiers.blgp or (shape.generation != 9 and modifiers.cbsz):
        raise UnsupportedError("the instruction has no cbsz or blgp")
    elif shape.generation != 9 and modifiers.abid and not shape.sparse:
        raise UnsupportedError("the instruction has no abid")
    elif shape.generation == 12 and shape.sparse:
        size = 2 * _rdna4_input(BITS[shape.a], shape.stored, 1, 0, 0, modifiers.wave)[2]
        if size * (modifiers.abid + 1) > 32:
            raise UnsupportedError(
                f"an index of {size} bits has no set {modifiers.abid} (index_key)"
            )


# MFMA and SMFMAC.


def _mfma(shape: Shape, operand: str, modifiers: Modifiers) -> Iterator[Place]:
    if operand in ("C", "D"):
        yield from _mfma_result(shape)
    elif operand.startswith("scale"):
        yield from _scales(shape, operand, modifiers.byte)
    elif operand == "B":
        lanes = b_lanes(shape, modifiers.blgp)
        bits = BITS[shape.formats(modifiers.cbsz, modifiers.blgp)[1]]
        for block, j, k in _each(shape.blocks, shape.n, shape.k):
            lane, item = input_place(shape, shape.n, shape.k, bits, block, j, k)
            yield _packed(lanes[lane], item, bits, block, k, j)
    elif shape.sparse:
        yield from _sparse(shape, operand, modifiers)
    else:
        bits = BITS[shape.formats(modifiers.cbsz, modifiers.blgp)[0]]
        for block, i, k in _each(shape.blocks, shape.m, shape.k):
            source = broadcast_block(shape, block, modifiers.cbsz, modifiers.abid)
            lane, item = input_place(shape, shape.m, shape.k, bits, source, i, k)
            yield _packed(lane, item, bits, block, i, k)


def _each(*sizes: int) -> Iterator[tuple[int, int, int]]:
    a, b, c = sizes
    return ((x, y, z) for x in range(a) for y in range(b) for z in range(c))


def input_place(
    shape: Shape, rows: int, depth: int, bits: int, block: int, row: int, k: int
) -> tuple[int, int]:
    """(lane, which of its elements) that is element *k* of a row of A, or of a column of B.

    The 64 lanes hold *rows* of all blocks side by side, and then parts of *depth*.
    """
    side = rows * shape.blocks
    each = depth * side // 64
    if each * bits == 256:
        # Two runs of 128 bits, one in either half of the depth: f8f6f4 with 8 bits, and B of the
        # SMFMAC that only CDNA4 has (rocjitsu, exec_smfmac: the same up to the order of k).
        half, rest = divmod(k, depth // 2)
        run = each // 2
        return rest // run * side + row, run * half + rest % run
    return block * rows + k // each * side + row, k % each


def _packed(lane: int, item: int, bits: int, block: int, i: int, j: int) -> Place:
    """Elements without gaps; one of 6 bits may reach into the next register."""
    register, low = divmod(item * bits, 32)
    return Place(lane, register, low, low + bits - 1, block, i, j)


def broadcast_block(shape: Shape, block: int, cbsz: int, abid: int) -> int:
    """The block of A that a block of the product takes: of 2^CBSZ neighbours number ABID.

    Raises:
        UnsupportedError: modifiers that the instruction does not take.
    """
    if shape.a == "f8f6f4":
        return block
    if 1 << cbsz > (1 if shape.a == "f64" else shape.blocks) or abid >= 1 << cbsz:
        raise UnsupportedError(
            f"a product of {shape.blocks} blocks has no cbsz:{cbsz} with abid:{abid}"
        )
    return (block >> cbsz << cbsz) + abid


def b_lanes(shape: Shape, blgp: int) -> list[int]:
    """For each lane the one whose part of B it takes. Source: the calculator's README, "BLGP"."""
    lanes = list(range(64))
    if blgp == 0 or shape.a == "f8f6f4":
        return lanes
    if not shape.takes_blgp or not 0 < blgp < 8:
        raise UnsupportedError(f"the instruction has no blgp:{blgp}")
    if blgp < 3:
        return [lane % 32 + 32 * (blgp - 1) for lane in lanes]
    if blgp == 3:
        return [(lane + 16) % 64 for lane in lanes]
    return [lane % 16 + 16 * (blgp - 4) for lane in lanes]


def _mfma_result(shape: Shape) -> Iterator[Place]:
    """Groups of four rows (of one, in f64) go from lane to lane, then to the next registers."""
    bits = BITS[shape.out]
    height = 1 if bits == 64 else 4
    across = 64 // shape.n
    beside = max(1, 64 * height // (shape.n * shape.m))  # blocks in the same registers
    for block, i, j in _each(shape.blocks, shape.m, shape.n):
        item = block * (shape.m * shape.n // 64) + i // (height * across) * height + i % height
        lane = block % beside * shape.n + i // height % across * beside * shape.n + j
        yield Place(lane, item * bits // 32, 0, bits - 1, block, i, j)


def _scales(shape: Shape, operand: str, byte: int) -> Iterator[Place]:
    """A lane has the scale of the elements of its row that a format of 4 bits puts into it."""
    rows = shape.m if operand == "scaleA" else shape.n
    for _, row, part in _each(1, rows, shape.k // shape.scaled):
        i, j = (row, part) if operand == "scaleA" else (part, row)
        yield Place(part * rows + row, 0, 8 * byte, 8 * byte + 7, 0, i, j)


def _sparse(shape: Shape, operand: str, modifiers: Modifiers) -> Iterator[Place]:
    """A holds two of four neighbours: a pair of places stands for any two of them.

    The index has two bits for each stored element; CBSZ 0 says that ABID picks one of its sets.
    """
    bits = BITS[shape.a]
    each = shape.stored * shape.m // 64
    first = index_bit(shape, modifiers.cbsz, modifiers.abid)
    for _, i, k in _each(1, shape.m, shape.stored):
        lane, item = k // each * shape.m + i, k % each
        if operand == "A":
            yield _packed(lane, item, bits, 0, i, k)
        else:
            low = first + 2 * item
            yield Place(lane, 0, low, low + 1, 0, i, k)


def index_bit(shape: Shape, cbsz: int, abid: int) -> int:
    """The first bit of the index that an SMFMAC takes.

    Raises:
        UnsupportedError: a set that the register does not have.
    """
    size = 2 * shape.stored * shape.m // 64
    if cbsz:
        return 0
    if size * (abid + 1) > 32:
        raise UnsupportedError(f"an index of {size} bits has no set with abid:{abid}")
    return size * abid


# WMMA of RDNA3: every half of a wave holds A and B.


def _rdna3(shape: Shape, operand: str, wave: int) -> Iterator[Place]:
    if operand in ("A", "B"):
        bits = BITS[shape.a]
        for _, row, k in _each(1, shape.m, shape.k):
            register, low = divmod(k * bits, 32)
            for lane in range(row, wave, 16):
                i, j = (row, k) if operand == "A" else (k, row)
                yield Place(lane, register, low, low + bits - 1, 0, i, j)
        return
    bits = BITS[shape.out]
    for _, i, j in _each(1, shape.m, shape.n):
        across = wave // 16
        yield Place(16 * (i % across) + j, i // across, 0, bits - 1, 0, i, j)


# WMMA and SWMMAC of RDNA4.


def _rdna4(shape: Shape, operand: str, modifiers: Modifiers) -> Iterator[Place]:
    wave = modifiers.wave
    if operand in ("C", "D"):
        bits = BITS[shape.out]
        for _, i, j in _each(1, shape.m, shape.n):
            across, rest = divmod(i, 8)
            quarter = 0
            if wave == 64:
                quarter, rest = divmod(rest, 4)
            register, low = divmod(rest * bits, 32)
            yield Place(32 * quarter + 16 * across + j, register, low, low + bits - 1, 0, i, j)
        return
    if operand == "B":
        # Where A is sparse, what meets a run of it is twice as long.
        for _, j, k in _each(1, shape.n, shape.k):
            lane, item, _ = _rdna4_input(BITS[shape.b], shape.k, 1 + shape.sparse, j, k, wave)
            yield _packed(lane, item, BITS[shape.b], 0, k, j)
        return
    bits = BITS[shape.a]
    for _, i, k in _each(1, shape.m, shape.stored):
        lane, item, count = _rdna4_input(bits, shape.stored, 1, i, k, wave)
        if operand == "A":
            yield _packed(lane, item, bits, 0, i, k)
            continue
        low = 2 * (count * modifiers.abid + item)
        yield Place(lane, 0, low, low + 1, 0, i, k)


def _rdna4_input(
    bits: int, depth: int, runs: int, row: int, k: int, wave: int
) -> tuple[int, int, int]:
    """(lane, which of its elements, how many it has) that is element *k* of a row of A.

    In a wave of 32 the two halves take turns with runs of *runs* × 64 bits; in one of 64 the second
    half of each lane's elements lies 32 lanes up, unless they fit into one register.
    """
    run = min(runs * 64 // bits, depth // 2)
    turn, at = divmod(k, run)
    lane, item, count = 16 * (turn % 2) + row, run * (turn // 2) + at, depth // 2
    if wave == 64 and count * bits > 32:
        count //= 2
        up, item = divmod(item, count)
        lane += 32 * up
    return lane, item, count


# WMMA of GFX12.5, whose waves have 32 lanes.

#: Format of A and B, depth → elements of a run; the halves of the wave take turns with runs.
#: Sources: Composable Kernel, ``LayoutFromDataType`` and its test of scaled WMMA; rocjitsu,
#: ``wmma_input_loc`` and ``wmma_block_scaled_input_loc``.
_RUNS_1250 = {("f32", 4): 2, ("f16", 32): 8, ("bf16", 32): 8, ("fp4", 128): 32}


def _gfx1250(shape: Shape, operand: str, modifiers: Modifiers) -> Iterator[Place]:
    if operand in ("C", "D"):
        if shape.sparse and shape.out == "bf16f32":
            raise UnsupportedError("AMD has not published where this SWMMAC has its result")
        bits = BITS[shape.accumulates(operand)]
        for _, i, j in _each(1, shape.m, shape.n):
            register, low = divmod((i // 16 * 8 + i % 8) * bits, 32)
            yield Place(i // 8 % 2 * 16 + j, register, low, low + bits - 1, 0, i, j)
        return
    if shape.sparse:
        raise UnsupportedError(
            "AMD's sources do not give one layout of A, B and the index of SWMMAC on GFX12.5"
        )
    if operand.startswith("scale"):
        raise UnsupportedError("AMD's sources do not give one layout of scales on GFX12.5")
    form = shape.formats(modifiers.cbsz, modifiers.blgp)["AB".index(operand)]
    bits = BITS[form]
    run = _RUNS_1250.get((form, shape.k))
    if shape.a == "f8f6f4":
        run = 16 if bits == 8 else 32
    if run is None:
        raise UnsupportedError(
            f"AMD's sources do not give one layout of A and B with {bits} bits and a depth of "
            f"{shape.k} on GFX12.5"
        )
    for _, row, k in _each(1, shape.m if operand == "A" else shape.n, shape.k):
        turn, at = divmod(k, run)
        item = turn // 2 * run + at + row // 16 * shape.k // 2
        i, j = (row, k) if operand == "A" else (k, row)
        yield _packed(turn % 2 * 16 + row % 16, item, bits, 0, i, j)
