"""``coasm layout``: which lane, register and half holds which element of a matrix instruction."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from coasm.cli.options import JsonOption
from coasm.errors import CoasmError

if TYPE_CHECKING:
    from coasm.matrices import Layout

__all__ = ["layout"]

#: Colors of registers on a terminal, one after the other.
_COLORS = ("blue", "yellow", "green", "red", "cyan", "magenta", "bright_black", "bright_yellow")


def layout(
    instruction: Annotated[
        str | None,
        typer.Argument(metavar="INSTRUCTION", help="An MFMA, SMFMAC, WMMA or SWMMAC."),
    ] = None,
    operand: Annotated[
        str,
        typer.Option(
            "--operand",
            metavar="A|B|C|D|index|scaleA|scaleB",
            help="The operand (default: D).",
        ),
    ] = "D",
    lane: Annotated[
        int | None, typer.Option("--lane", metavar="L", help="Only what this lane holds.")
    ] = None,
    element: Annotated[
        str | None,
        typer.Option("--element", metavar="I,J", help="Only where this row and column are."),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            "--target", metavar="T", help="A target (default: the newest CDNA that has it)."
        ),
    ] = None,
    cbsz: Annotated[
        int, typer.Option("--cbsz", min=0, help="Broadcast of A, or its format (f8f6f4).")
    ] = 0,
    abid: Annotated[
        int,
        typer.Option("--abid", min=0, help="The block that is broadcast; the set of an index."),
    ] = 0,
    blgp: Annotated[
        int, typer.Option("--blgp", min=0, help="Lane pattern of B, or its format (f8f6f4).")
    ] = 0,
    wave: Annotated[
        int | None,
        typer.Option("--wave", metavar="N", help="Lanes of a wave, 32 or 64 (WMMA; default: 32)."),
    ] = None,
    byte: Annotated[
        int,
        typer.Option("--byte", min=0, help="Which byte of a register of scales op_sel picks."),
    ] = 0,
    json_: JsonOption = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV: a line for each element.")] = False,
    svg: Annotated[bool, typer.Option("--svg", help="Print a picture (SVG).")] = False,
    list_: Annotated[
        bool, typer.Option("--list", help="List the matrix instructions of the target, or of all.")
    ] = False,
) -> None:
    """Show which lane and register, and which part of it, holds each element of an operand of a
    matrix instruction.

    The grid is the operand's own matrix: rows m and columns k of A, k and n of B, m and n of C and
    D. A cell is the lane and its register, counted from the operand's first; behind a point the
    part of the register, from the lowest bits. Of a sparse A it is what is stored: two of four
    neighbours, which the index names.

    \b
    Examples:
      coasm layout v_mfma_f32_16x16x32_f16
      coasm layout v_mfma_f32_16x16x32_f16 --operand A --lane 18
      coasm layout v_mfma_f32_32x32x8_f16 --operand D --element 5,7
      coasm layout v_mfma_scale_f32_16x16x128_f8f6f4 --operand B --blgp 4
      coasm layout v_mfma_scale_f32_16x16x128_f8f6f4 --operand scaleA --lane 18
      coasm layout v_smfmac_f32_16x16x32_f16 --operand index --abid 1 --target gfx942
      coasm layout v_wmma_f32_16x16x16_f16 --operand A --target gfx1201 --wave 64 --json
      coasm layout --list --target gfx90a
    """
    if list_:
        _print_list(target)
        return
    if instruction is None:
        raise CoasmError("layout needs an INSTRUCTION, or --list (coasm layout --help)")
    if json_ + csv + svg > 1:
        raise CoasmError("--json, --csv and --svg are formats; give one of them")
    from coasm.matrices import layout as layout_of

    place = None if element is None else _element(element)
    made = layout_of(
        instruction, operand, target=target, lane=lane, element=place, cbsz=cbsz, abid=abid,
        blgp=blgp, wave=wave, byte=byte,
    )  # fmt: skip
    if json_:
        import json

        print(json.dumps(made.to_json()))
    elif csv:
        print("lane,register,low,high,block,i,j")
        for each in made.elements:
            print(",".join(map(str, each)))
    elif svg:
        from coasm.matrices import svg as picture

        print(picture(made), end="")
    else:
        _show(made, lists=lane is not None or place is not None)


def _element(text: str) -> tuple[int, int]:
    parts = text.split(",")
    try:
        i, j = (int(part) for part in parts)
    except ValueError:
        raise CoasmError(f"--element {text}: two numbers, I,J, are expected") from None
    return i, j


def _print_list(target: str | None) -> None:
    from coasm.matrices import matrix_instructions
    from coasm.target import PROCESSORS, processor

    chosen = [processor(target)] if target else list(PROCESSORS.values())
    names = sorted({name for one in chosen for name in matrix_instructions(one)})
    if not names:
        raise CoasmError(f"{target} has no matrix instructions")
    for name in names:
        print(name)


def _show(made: Layout, *, lists: bool) -> None:
    """What the instruction is, then the grid; or, of a lane or an element, a line for each."""
    import shutil

    from coasm.matrices import grid

    print(_head(made))
    if lists:
        for place in made.elements:
            print(_line(made, place))
        if not made.elements:
            print("nothing: the element is in no register of that lane")
        return
    width = shutil.get_terminal_size((100, 24)).columns
    console = None
    for line in grid(made, width):
        if not sys.stdout.isatty():
            print("".join(piece.text for piece in line).rstrip())
            continue
        from rich.console import Console
        from rich.text import Text

        console = console or Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
        text = Text()
        for piece in line:
            color = "" if piece.register is None else _COLORS[piece.register % len(_COLORS)]
            text.append(piece.text, color)
        console.print(text)


def _head(made: Layout) -> str:
    shape = made.shape
    size = f"{made.rows} × {made.columns}"
    if shape.blocks > 1:
        size += f", {shape.blocks} blocks"
    form = made.format if not made.encoding else f"{made.format}: {made.encoding}"
    parts = [
        f"{made.instruction} on {made.target}: {made.operand} is {size} ({form})",
        f"{made.registers} register{'s' * (made.registers > 1)} of {made.wave} lanes",
    ]
    if made.passes is not None:
        parts.append(f"{made.passes} passes")
    return ", ".join(parts)


def _line(made: Layout, place: object) -> str:
    from coasm.isa.layout import Place

    assert isinstance(place, Place)
    block = f" of block {place.block}" if made.shape.blocks > 1 else ""
    bits = f"bits {place.low} to {place.high}"
    return (
        f"lane {place.lane}, v{place.register}, {bits}: {made.operand}[{place.i}, {place.j}]{block}"
    )
