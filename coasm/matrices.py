"""Layouts of matrix instructions for people and programs: which lane, register and half holds what.

:mod:`coasm.isa.layout` says where elements are; here an instruction is found for a target, elements
are picked by lane or by place, and shown as a grid, JSON, CSV or SVG.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from coasm.errors import UnsupportedError
from coasm.isa.layout import BITS, OPERANDS, Modifiers, Place, Shape, places, shape_of
from coasm.isa.table import opcode
from coasm.target import WITH_MATRICES, Processor, processor

__all__ = ["Layout", "Style", "grid", "layout", "matrix_instructions", "svg"]

_MARKS = {"v_mfma": 64, "v_smfmac": 64, "v_wmma": 32, "v_swmmac": 32}


@dataclass(frozen=True)
class Layout:
    """Where the elements of one operand of a matrix instruction are.

    ``operand`` is A, B, C, D, index, scaleA or scaleB. ``format`` is that of its
    elements (``fp8`` is FNUZ on gfx942, OCP on gfx950 and GFX12: ``encoding`` says which),
    ``registers`` how many each lane has for it, ``wave`` how many lanes there are,
    ``passes`` how long the instruction takes (4 clocks each), where that is known. ``elements`` are
    in the order of their rows.
    """

    instruction: str
    target: str
    operand: str
    shape: Shape
    format: str
    encoding: str
    registers: int
    wave: int
    passes: int | None
    elements: tuple[Place, ...]

    @property
    def rows(self) -> int:
        """Rows of the operand's own matrix."""
        if self.operand == "scaleB":
            return self.shape.k // self.shape.scaled
        return self.shape.k if self.operand == "B" else self.shape.m

    @property
    def columns(self) -> int:
        """Columns of the operand's own matrix; of a sparse A those that are stored."""
        if self.operand == "scaleA":
            return self.shape.k // self.shape.scaled
        if self.operand in ("A", "index"):
            return self.shape.stored
        return self.shape.n

    def to_json(self) -> dict[str, Any]:
        """The layout as a JSON object; its keys are documented in ``docs/layout.md``."""
        return {
            "instruction": self.instruction,
            "target": self.target,
            "operand": self.operand,
            "format": self.format,
            "encoding": self.encoding,
            "registers": self.registers,
            "wave": self.wave,
            "passes": self.passes,
            "elements": [
                {
                    "lane": place.lane,
                    "register": place.register,
                    "bits": [place.low, place.high],
                    "block": place.block,
                    "i": place.i,
                    "j": place.j,
                }
                for place in self.elements
            ],
        }


def layout(
    instruction: str,
    operand: str = "D",
    *,
    target: str | None = None,
    lane: int | None = None,
    element: tuple[int, int] | None = None,
    cbsz: int = 0,
    abid: int = 0,
    blgp: int = 0,
    wave: int | None = None,
    byte: int = 0,
) -> Layout:
    """Where the elements of an operand of an MFMA, SMFMAC, WMMA or SWMMAC are.

    *operand* is ``A``, ``B``, ``C``, ``D``, of a sparse instruction ``index``, or of a scaled one
    ``scaleA`` or ``scaleB`` (*byte*: which one op_sel and op_sel_hi pick). Without *target*
    it is the newest CDNA that has the instruction, or else the newest RDNA. *lane* and *element*
    (row and column in the operand's own matrix) keep only what is there. *cbsz*, *abid* and *blgp*
    are the instruction's modifiers; of SWMMAC *abid* is ``index_key``. *wave* is 32 or 64, where
    the target has both (default: 32).

    Raises:
        UnsupportedError: no such instruction, operand, lane, element or modifier; or AMD has not
            published the layout.
    """
    found = _target_of(instruction, target)
    name = _plain(instruction)
    shape = shape_of(name, found.family.instructions)
    operand = {known.lower(): known for known in OPERANDS}.get(operand.lower(), operand)
    if operand not in OPERANDS:
        raise UnsupportedError(f"no operand {operand!r}; there are {', '.join(OPERANDS)}")
    modifiers = Modifiers(cbsz, abid, blgp, _wave_of(shape, wave), byte)
    every = tuple(places(shape, operand, modifiers))
    form = _format(shape, operand, modifiers)
    made = Layout(
        name, found.name, operand, shape, form, _encoding(form, found),
        _registers(every), modifiers.wave, _passes(name, shape, found, modifiers), every,
    )  # fmt: skip
    return _picked(made, lane, element)


def _picked(made: Layout, lane: int | None, element: tuple[int, int] | None) -> Layout:
    """Only what *lane* holds, or where *element* is."""
    if lane is not None and not 0 <= lane < made.wave:
        raise UnsupportedError(f"no lane {lane}: a wave has {made.wave}")
    if element is not None:
        i, j = element
        if not (0 <= i < made.rows and 0 <= j < made.columns):
            raise UnsupportedError(
                f"no element {i},{j}: {made.operand} of {made.instruction} has {made.rows} rows "
                f"and {made.columns} columns"
            )
    kept = tuple(
        place
        for place in made.elements
        if (lane is None or place.lane == lane) and element in (None, (place.i, place.j))
    )
    from dataclasses import replace

    return replace(made, elements=kept)


def matrix_instructions(target: Processor) -> list[str]:
    """The matrix instructions of a target, by name."""
    from coasm.isa.table import mnemonics

    if not target.family.instructions:
        return []
    every = mnemonics(target.family.instructions)
    return sorted(name for name in every if name.startswith(tuple(_MARKS)) and "_ld_" not in name)


def _plain(instruction: str) -> str:
    name = instruction.strip().lower()
    return name[:-4] if name.endswith("_e64") else name


def _target_of(instruction: str, target: str | None) -> Processor:
    """The processor that is meant.

    Raises:
        UnsupportedError: it, or any, does not have the instruction.
    """
    name = _plain(instruction)
    tried = [processor(target)] if target is not None else [processor(one) for one in WITH_MATRICES]
    for one in tried:
        known = one.family.instructions
        if known and name.startswith(tuple(_MARKS)) and opcode(name, known) is not None:
            return one
    from difflib import get_close_matches

    known_names = sorted({each for one in tried for each in matrix_instructions(one)})
    close = get_close_matches(name, known_names, n=1)
    where = f"{tried[0].name} has" if target is not None else "there is"
    hint = f"did you mean {close[0]}?" if close else "coasm layout --list shows them"
    raise UnsupportedError(f"{where} no matrix instruction {instruction}; {hint}")


def _wave_of(shape: Shape, wave: int | None) -> int:
    if shape.generation == 9:
        if wave not in (None, 64):
            raise UnsupportedError("MFMA has waves of 64 lanes")
        return 64
    if wave not in (None, 32, 64) or (shape.generation == 125 and wave == 64):
        raise UnsupportedError(f"no waves of {wave} lanes")
    return wave or 32


def _format(shape: Shape, operand: str, modifiers: Modifiers) -> str:
    if operand == "index":
        return "index"
    if operand in ("C", "D"):
        return shape.accumulates(operand)
    if operand.startswith("scale"):
        return "e8m0"
    return shape.formats(modifiers.cbsz, modifiers.blgp)["AB".index(operand)]


def _encoding(form: str, target: Processor) -> str:
    """What is not clear of a format's name. Source: the ISA guides, OCP's specifications."""
    return {
        "fp8": "E4M3 FNUZ" if target.family.fnuz else "E4M3 (OCP)",
        "bf8": "E5M2 FNUZ" if target.family.fnuz else "E5M2 (OCP)",
        "fp6": "E2M3 (OCP)",
        "bf6": "E3M2 (OCP)",
        "fp4": "E2M1 (OCP)",
        "xf32": "f32 of which 19 bits count",
        "iu8": "signed or unsigned, as neg_lo says",
        "iu4": "signed or unsigned, as neg_lo says",
        "index": "which of four, two bits each",
        "e8m0": "powers of two",
    }.get(form, "")


def _registers(every: Sequence[Place]) -> int:
    return 1 + max(place.register + place.high // 32 for place in every)


def _passes(name: str, shape: Shape, target: Processor, modifiers: Modifiers) -> int | None:
    """Passes of an MFMA; what the table has of WMMA are wait states."""
    from coasm.isa.passes import matrix

    if not target.family.wait_states or shape.generation != 9:
        return None
    said = {"cbsz": str(modifiers.cbsz), "blgp": str(modifiers.blgp)}
    found = matrix(name, said, target.family.wait_states)
    return None if found is None else found.passes


# Shown.


class Style(NamedTuple):
    """A piece of text, and the number of the register that its color stands for (None: plain)."""

    text: str
    register: int | None = None


def _cell(place: Place, form: str) -> str:
    """``18 v2`` or, of parts of a register, ``18 v2.1``: lane, register, which part."""
    size = {"index": 2, "e8m0": 8}.get(form) or BITS[form]
    if size >= 32:
        return f"{place.lane} v{place.register}"
    part = f"b{place.low}" if form == "index" or size == 6 else str(place.low // size)
    return f"{place.lane} v{place.register}.{part}"


def grid(made: Layout, width: int) -> Iterator[list[Style]]:
    """The operand's matrix, block by block, in lines of at most *width* characters.

    A cell is the lane and the register of an element, and which part of the register it is; where
    several lanes hold it, the first.
    """
    cells: dict[tuple[int, int, int], Place] = {}
    for place in made.elements:
        cells.setdefault((place.block, place.i, place.j), place)
    if not cells:
        yield [Style("nothing is there")]
        return
    size = max(len(_cell(place, made.format)) for place in cells.values()) + 1
    rows = sorted({key[1] for key in cells})
    columns = sorted({key[2] for key in cells})
    across = max(1, (width - 5) // size)
    if across < len(columns):
        across = 1 << across.bit_length() - 1
    for block in sorted({key[0] for key in cells}):
        for start in range(0, len(columns), across):
            part = columns[start : start + across]
            title = f"block {block}" if made.shape.blocks > 1 else ""
            yield [Style(f"{title:<5}"[:5] + "".join(f"{j:>{size}}" for j in part))]
            for i in rows:
                line = [Style(f"{i:>4} ")]
                for j in part:
                    one = cells.get((block, i, j))
                    text = "" if one is None else _cell(one, made.format)
                    register = None if one is None else one.register
                    line.append(Style(f"{text:>{size}}", register))
                yield line
            yield [Style("")]


#: Hues of registers, in a picture and (as names) on a terminal.
COLORS = ("#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#76b7b2", "#b07aa1", "#9c755f", "#edc948")


def svg(made: Layout) -> str:
    """The grid as a picture: a block below the other, a color a register."""
    size = max((len(_cell(place, made.format)) for place in made.elements), default=1)
    wide, high, left, top = 7 * size + 8, 18, 30, 44
    space = made.rows * high + 34
    title = f"{made.operand} of {made.instruction} ({made.target}): lane, register"
    body = []
    seen = set()
    for place in made.elements:
        key = (place.block, place.i, place.j)
        if key in seen:
            continue
        seen.add(key)
        x, y = left + place.j * wide, top + place.block * space + place.i * high
        color = COLORS[place.register % len(COLORS)]
        body.append(
            f'<rect x="{x}" y="{y}" width="{wide - 1}" height="{high - 1}" fill="{color}" '
            f'fill-opacity="0.35"/><text x="{x + wide / 2:g}" y="{y + 13}">'
            f"{_cell(place, made.format)}</text>"
        )
    for block in range(made.shape.blocks):
        above = top + block * space
        body += [
            f'<text x="{left + j * wide + wide / 2:g}" y="{above - 4}">{j}</text>'
            for j in range(made.columns)
        ]
        body += [
            f'<text x="{left / 2:g}" y="{above + i * high + 13}">{i}</text>'
            for i in range(made.rows)
        ]
    width, height = left + made.columns * wide + 4, top + made.shape.blocks * space
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="monospace" font-size="11" '
        f'text-anchor="middle">\n<title>{title}</title>\n'
        f'<text x="4" y="16" text-anchor="start" font-size="13">{title}</text>\n'
        + "\n".join(body)
        + "\n</svg>\n"
    )
