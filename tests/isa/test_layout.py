"""Where the elements of matrix instructions are: AMD's published formulas, restated as they stand.

Sources: CDNA3 and CDNA4 ISA guides; AMD matrix instruction calculator (its equations for gfx9,
gfx11 and gfx12; CDNA4 it does not have). One-hot runs: ``tests/emulator/test_matrix_rows.py``.
"""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest

from coasm.errors import UnsupportedError
from coasm.isa.layout import BITS, Modifiers, Place, Shape, places, shape_of
from coasm.isa.table import mnemonics, opcode
from coasm.matrices import layout, matrix_instructions
from coasm.target import processor

SETS = ("908", "90a", "942", "950", "1100", "1200")


def _shapes(instructions: str) -> dict[str, Shape]:
    return {
        name: shape_of(name, instructions)
        for name in sorted(mnemonics(instructions))
        if name.startswith(("v_mfma", "v_smfmac", "v_wmma", "v_swmmac")) and "_ld_" not in name
    }


@pytest.mark.parametrize("instructions", SETS)
def test_every_element_is_somewhere_and_nothing_is_there_twice(instructions: str) -> None:
    """And the operand has the registers that LLVM says."""
    for name, shape in _shapes(instructions).items():
        known = opcode(name, instructions)
        assert known is not None
        for operand in ("A", "B", "D"):
            every = list(places(shape, operand))
            rows = shape.k if operand == "B" else shape.m
            columns = shape.stored if operand == "A" else shape.n
            keys = Counter((p.block, p.i, p.j) for p in every)
            assert len(keys) == shape.blocks * rows * columns, (name, operand)
            copies = 4 if shape.generation == 11 and operand != "D" else 1
            assert set(keys.values()) == {copies}, (name, operand)
            spots = Counter((p.lane, p.register, p.low) for p in every)
            assert set(spots.values()) == {1}, (name, operand)
            if shape.generation == 9 and shape.a != "f8f6f4":
                slot = known.slots["DAB".index(operand)]
                assert 1 + max(p.register + p.high // 32 for p in every) == (slot.bits or 0) // 32


def _mfma_input(shape: Shape, bits: int, rows: int, depth: int, b: int, i: int, k: int) -> Place:
    """The calculator's equations: elements in contiguous registers, then the next lanes."""
    each = depth // (64 // (rows * shape.blocks))
    if each * bits == 256:  # B of the SMFMAC of CDNA4: two runs of 128 bits
        lane, item = k % (depth // 2) // (each // 2) * rows + i, k % (each // 2)
        item += each // 2 * (k // (depth // 2))
        return Place(
            lane, item * bits // 32, item * bits % 32, item * bits % 32 + bits - 1, b, i, k
        )
    lane = b * rows + k // each * rows * shape.blocks + i
    register, low = divmod(k % each * bits, 32)
    return Place(lane, register, low, low + bits - 1, b, i, k)


def _mfma_output(shape: Shape, b: int, i: int, j: int) -> Place:
    bits = BITS[shape.out]
    height, across = 1 if bits == 64 else 4, 64 // shape.n
    beside = -(-64 // (shape.n * shape.m // height))
    item = b * (shape.m * shape.n // 64) + i // (height * across) * height + i % height
    lane = b % beside * shape.n + i // height % across * beside * shape.n + j
    return Place(lane, item * bits // 32, 0, bits - 1, b, i, j)


@pytest.mark.parametrize("instructions", ["908", "90a", "942", "950"])
def test_mfma(instructions: str) -> None:
    for name, shape in _shapes(instructions).items():
        assert all(p == _mfma_output(shape, p.block, p.i, p.j) for p in places(shape, "D")), name
        assert list(places(shape, "C")) == list(places(shape, "D"))
        if shape.a == "f8f6f4":
            continue
        for place in places(shape, "A"):
            at = place.block, place.i, place.j
            want = _mfma_input(shape, BITS[shape.a], shape.m, shape.stored, *at)
            assert place == want, name
        for place in places(shape, "B"):
            want = _mfma_input(
                shape, BITS[shape.b], shape.n, shape.k, place.block, place.j, place.i
            )
            assert place == want._replace(i=place.i, j=place.j), name


def test_the_examples_of_the_guides() -> None:
    """Lane 18 of 16x16x16 and 16x16x32; a scaled operand of 8 and of 4 bits."""
    narrow = layout("v_mfma_f32_16x16x16_f16", "A", target="gfx942", lane=18)
    assert [(p.i, p.j) for p in narrow.elements] == [(2, 4 + e) for e in range(4)]
    wide = layout("v_mfma_f32_16x16x32_f16", "B", lane=18)
    assert [(p.i, p.j) for p in wide.elements] == [(8 + e, 2) for e in range(8)]
    result = layout("v_mfma_f32_16x16x32_f16", lane=18)
    assert [(p.i, p.j, p.register) for p in result.elements] == [(4 + g, 2, g) for g in range(4)]
    # AMD, Matrix Core Programming on AMD CDNA3 and CDNA4: fp8 in two runs of 16, fp4 in one of 32.
    name = "v_mfma_scale_f32_16x16x128_f8f6f4"
    eight = [p.j for p in layout(name, "A", lane=17).elements]
    assert eight == [*range(16, 32), *range(80, 96)]
    four = [p.j for p in layout(name, "A", lane=17, cbsz=4).elements]
    assert four == list(range(32, 64))


@pytest.mark.parametrize("cbsz", range(5))
def test_broadcasts(cbsz: int) -> None:
    """CBSZ: 2**CBSZ blocks take the block of that number (ABID) among them."""
    shape = shape_of("v_mfma_f32_4x4x4_16b_f16", "942")
    abid = (1 << cbsz) - 1
    for place in places(shape, "A", Modifiers(cbsz=cbsz, abid=abid)):
        block = place.block // 2**cbsz * 2**cbsz + abid
        assert place.lane == 4 * block + place.i
    with pytest.raises(UnsupportedError, match=r"no cbsz:|no abid:16"):
        list(places(shape, "A", Modifiers(cbsz=cbsz, abid=1 << cbsz)))


#: BLGP → what each quarter of the lanes takes. Source: the calculator's README.
_QUARTERS = {
    1: (0, 1, 0, 1), 2: (2, 3, 2, 3), 3: (1, 2, 3, 0),
    4: (0,) * 4, 5: (1,) * 4, 6: (2,) * 4, 7: (3,) * 4,
}  # fmt: skip


@pytest.mark.parametrize("blgp", _QUARTERS)
def test_lane_patterns(blgp: int) -> None:
    shape = shape_of("v_mfma_f32_16x16x1_4b_f32", "942")
    plain = list(places(shape, "B"))
    for before, after in zip(plain, places(shape, "B", Modifiers(blgp=blgp)), strict=True):
        quarter, rest = divmod(before.lane, 16)
        assert after == before._replace(lane=16 * _QUARTERS[blgp][quarter] + rest)


@pytest.mark.parametrize(
    ("name", "bits", "sets"),
    [
        ("v_smfmac_f32_16x16x32_f16", 8, 4), ("v_smfmac_f32_32x32x16_bf16", 8, 4),
        ("v_smfmac_i32_16x16x64_i8", 16, 2), ("v_smfmac_f32_32x32x32_fp8_bf8", 16, 2),
    ],
)  # fmt: skip
def test_the_index_of_smfmac(name: str, bits: int, sets: int) -> None:
    """Two bits for each stored element; ABID picks the set, but where CBSZ is not 0."""
    shape = shape_of(name, "942")
    for number in range(sets):
        by_lane = defaultdict(list)
        for place in places(shape, "index", Modifiers(abid=number)):
            by_lane[place.lane].append(place.low)
        assert all(low == list(range(bits * number, bits * (number + 1), 2))
                   for low in by_lane.values())  # fmt: skip
    first = list(places(shape, "index"))
    assert list(places(shape, "index", Modifiers(cbsz=1, abid=1))) == first
    with pytest.raises(UnsupportedError, match="no set"):
        list(places(shape, "index", Modifiers(abid=sets)))


@pytest.mark.parametrize("wave", [32, 64])
def test_wmma_of_rdna3(wave: int) -> None:
    for name, shape in _shapes("1100").items():
        bits = BITS[shape.a]
        for place in places(shape, "A", Modifiers(wave=wave)):
            assert place.lane % 16 == place.i and place.register * 32 + place.low == place.j * bits
        lanes = Counter((p.i, p.j) for p in places(shape, "B", Modifiers(wave=wave)))
        assert set(lanes.values()) == {wave // 16}, name
        for place in places(shape, "D", Modifiers(wave=wave)):
            row = place.register * (wave // 16) + place.lane // 16
            assert (place.i, place.j, place.low) == (row, place.lane % 16, 0)


def _rdna4_dense(bits: int, depth: int, wave: int, i: int, k: int) -> tuple[int, int]:
    """(lane, register) by the calculator's equations."""
    if wave == 32:
        if bits == 16:
            return 16 * (k // 4 % 2) + i, 2 * (k // 8) + k // 2 % 2
        if bits == 8 or depth == 16:
            return 16 * (k // 8) + i, k // 4 % 2 if bits == 8 else 0
        return 16 * (k // 16) + i, k // 8 % 2
    if bits == 16:
        return 32 * (k // 8 % 2) + 16 * (k // 4 % 2) + i, k // 2 % 2
    if bits == 8:
        return 32 * (k // 4 % 2) + 16 * (k // 8 % 2) + i, 0
    return (16 * (k // 8) if depth == 16 else 32 * (k // 8 % 2) + 16 * (k // 16 % 2)) + i, 0


def _rdna4_sparse(bits: int, depth: int, wave: int, i: int, k: int) -> tuple[int, int, int]:
    """(lane, register, first bit) of the two stored of k // 4, by the calculator's equations."""
    if wave == 32:
        lane = 16 * (k // 8 % 2) if bits == 16 else 16 * (k // (16 if depth == 32 else 32))
        wide = k // 16 % 2 if depth == 64 else 0
        register = {16: 2 * (k // 16) + k // 4 % 2, 8: k // 8 % 2, 4: wide}[bits]
    elif bits == 16:
        lane, register = 16 * (k // 8), k // 4 % 2
    elif depth == 32:
        lane, register = 16 * (k // 16) + (32 * (k // 8 % 2) if bits == 8 else 0), 0
    else:
        lane, register = 32 * (k // 16 % 2) + 16 * (k // 32), 0
    return lane + i, register, 0 if bits == 16 else 2 * bits * (k // 4 % (16 // bits))


@pytest.mark.parametrize("wave", [32, 64])
def test_wmma_and_swmmac_of_rdna4(wave: int) -> None:
    for name, shape in _shapes("1200").items():
        bits = BITS[shape.a]
        for place in places(shape, "A", Modifiers(wave=wave)):
            if not shape.sparse:
                want = _rdna4_dense(bits, shape.k, wave, place.i, place.j)
                assert (place.lane, place.register) == want, (name, place)
                assert place.low == bits * (place.j % (32 // bits))
                continue
            lane, register, low = _rdna4_sparse(bits, shape.k, wave, place.i, place.j // 2 * 4)
            low += bits * (place.j % 2)
            assert place[:3] == (lane, register, low), (name, place)
        for place in places(shape, "D", Modifiers(wave=wave)):
            height, size = 256 // wave, BITS[shape.out]
            up = 32 * (place.i // 4 % 2) if wave == 64 else 0
            item = place.i % height
            assert place.lane == up + 16 * (place.i // 8) + place.j
            assert 32 * place.register + place.low == item * size


#: Format, depth → the first k of each run of a lane of the lower half, and how long a run is.
#: Sources: Composable Kernel, "Register Mapping for 16x128" of its test of scaled WMMA (fp8, fp6,
#: fp4) and its ``LayoutFromDataType``; rocjitsu says the same.
_RUNS = {
    ("f32", 4): ((0,), 2), ("f16", 32): ((0, 16), 8), ("bf16", 32): ((0, 16), 8),
    ("fp8", 128): ((0, 32, 64, 96), 16), ("bf8", 128): ((0, 32, 64, 96), 16),
    ("fp6", 128): ((0, 64), 32), ("bf6", 128): ((0, 64), 32), ("fp4", 128): ((0, 64), 32),
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "chosen"),
    [
        ("v_wmma_f32_16x16x4_f32", ((0, "f32"),)),
        ("v_wmma_f32_16x16x32_f16", ((0, "f16"),)),
        ("v_wmma_bf16f32_16x16x32_bf16", ((0, "bf16"),)),
        ("v_wmma_f32_32x16x128_f4", ((0, "fp4"),)),
        (
            "v_wmma_scale_f32_16x16x128_f8f6f4",
            tuple(enumerate(("fp8", "bf8", "fp6", "bf6", "fp4"))),
        ),
    ],
)
def test_wmma_of_gfx1250(name: str, chosen: tuple[tuple[int, str], ...]) -> None:
    for number, form in chosen:
        for operand in "AB":
            made = layout(name, operand, target="gfx1250", cbsz=number, blgp=number)
            starts, length = _RUNS[form, made.shape.k]
            for lane in (0, 5, 16, 31):
                each = sorted((p.register, p.low, p.i, p.j) for p in made.elements
                              if p.lane == lane)  # fmt: skip
                depth = [one["AB".index(operand) ^ 1 | 2] for one in each]
                up = length * (lane // 16)
                run = [up + start + at for start in starts for at in range(length)]
                assert depth == run * (len(each) // len(run)), (name, form, lane)
            known = opcode(name, "1250")
            if form in ("fp8", "f16", "bf16", "f32") or "f4" in name.split("_"):
                assert known is not None
                assert made.registers == (known.slots["DAB".index(operand)].bits or 0) // 32


def test_results_of_gfx1250() -> None:
    """Rows 8 to 15 are 16 lanes up, rows 16 to 31 eight registers; C of bf16f32 is f32, D bf16."""
    for name, registers in (
        ("v_wmma_f32_16x16x64_fp8_fp8", (8, 8)), ("v_wmma_f16_16x16x32_f16", (4, 4)),
        ("v_wmma_bf16f32_16x16x32_bf16", (8, 4)), ("v_wmma_f32_32x16x128_f4", (16, 16)),
    ):  # fmt: skip
        for operand, count in zip("CD", registers, strict=True):
            made = layout(name, operand, target="gfx1250")
            assert made.registers == count, (name, operand)
            size = BITS[made.format]
            for place in made.elements:
                assert place.lane == 16 * (place.i % 16 // 8) + place.j
                item = 8 * (place.i // 16) + place.i % 8
                assert (place.register, place.low) == divmod(item * size, 32)


def test_passes_are_of_mfma() -> None:
    """LLVM's scheduling models (SISchedule.td) have them of MFMA; WMMA has none."""
    assert layout("v_mfma_f32_32x32x8_f16", lane=0).passes == 8
    assert layout("v_mfma_scale_f32_16x16x128_f8f6f4", lane=0, cbsz=4, blgp=4).passes == 4
    for target in ("gfx1100", "gfx1201", "gfx1250"):
        assert layout("v_wmma_f32_16x16x16_f16", lane=0, target=target).passes is None
    assert layout("v_wmma_f32_16x16x32_f16", lane=0).passes is None


def test_scales() -> None:
    """A lane of 16x16x128 has a row's scale of the 32 that it would hold of fp4 (CDNA4 guide)."""
    name = "v_mfma_scale_f32_16x16x128_f8f6f4"
    for byte in range(4):
        places = layout(name, "scaleA", byte=byte).elements
        assert {(p.i, p.j): p.lane for p in places} == {
            (row, part): 16 * part + row for row in range(16) for part in range(4)
        }
        assert {(p.register, p.low, p.high) for p in places} == {(0, 8 * byte, 8 * byte + 7)}
    assert layout(name, "scaleB", element=(3, 7)).elements[0].lane == 55
    wide = layout("v_mfma_scale_f32_32x32x64_f8f6f4", "scaleB").elements
    assert all(p.lane == 32 * p.i + p.j for p in wide) and len(wide) == 64


def test_what_is_not_published_is_refused() -> None:
    """Or where AMD's sources part: then no element of the operand is shown."""
    for name in matrix_instructions(processor("gfx1250")):
        other = "16x16x16" in name or name.endswith(("fp8", "bf8", "iu8", "iu4"))
        if name.startswith("v_swmmac") or other:
            for operand in "AB":
                with pytest.raises(UnsupportedError, match="do not give one layout"):
                    layout(name, operand, target="gfx1250")
        else:
            assert layout(name, "A", target="gfx1250").elements


@pytest.mark.parametrize(
    ("name", "operand", "modifiers"),
    [
        ("v_mfma_f32_16x16x32_f16", "D", {"cbsz": 1}),
        ("v_mfma_f32_16x16x32_f16", "A", {"blgp": 1}),
        ("v_mfma_f32_16x16x32_f16", "A", {"cbsz": -1}),
        ("v_mfma_f32_16x16x32_f16", "A", {"byte": 1}),
        ("v_mfma_f64_16x16x4_f64", "C", {"abid": 1}),
        ("v_mfma_scale_f32_16x16x128_f8f6f4", "B", {"cbsz": 5}),
        ("v_mfma_scale_f32_16x16x128_f8f6f4", "scaleA", {"byte": 4}),
        ("v_smfmac_f32_16x16x32_f16", "B", {"abid": 4}),
        ("v_smfmac_f32_16x16x32_f16", "B", {"blgp": 1}),
        ("v_wmma_i32_16x16x16_iu8", "A", {"cbsz": 1}),
        ("v_wmma_i32_16x16x16_iu8", "A", {"abid": 1}),
        ("v_swmmac_f32_16x16x32_f16", "D", {"abid": 2}),
        ("v_swmmac_i32_16x16x64_iu4", "A", {"abid": 1}),
    ],
)
def test_a_modifier_that_nothing_takes_is_refused(
    name: str, operand: str, modifiers: dict[str, int]
) -> None:
    """Whichever operand is asked for."""
    assert layout(name, operand).elements
    with pytest.raises(UnsupportedError):
        layout(name, operand, **modifiers)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("v_mfma_f32_16x16x32_f61",), "did you mean v_mfma_f32_16x16x32_f16"),
        (("v_add_f32",), "no matrix instruction v_add_f32"),
        (("v_mfma_f32_16x16x32_f16", "E"), "no operand 'E'"),
        (("v_mfma_f32_16x16x32_f16", "index"), "only sparse"),
    ],
)
def test_mistakes(arguments: tuple[str, ...], words: str) -> None:
    with pytest.raises(UnsupportedError, match=words):
        layout(*arguments)
    with pytest.raises(UnsupportedError, match="gfx942 has no matrix instruction"):
        layout("v_mfma_f32_16x16x32_f16", target="gfx942")
    with pytest.raises(UnsupportedError, match="no lane 64"):
        layout("v_mfma_f32_16x16x32_f16", lane=64)
    with pytest.raises(UnsupportedError, match="16 rows and 16 columns"):
        layout("v_mfma_f32_16x16x32_f16", element=(16, 0))
