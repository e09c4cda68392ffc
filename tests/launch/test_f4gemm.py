"""The f4gemm launch against the documented block, layouts and choice, stated again here."""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ml_dtypes import bfloat16

from coasm.errors import FormatError, LaunchError
from coasm.launch.families.f4gemm.layouts import (
    dequantise,
    pad_rows,
    pad_scales,
    shuffle_scales,
    shuffle_weights,
)
from coasm.launch.families.f4gemm.manifest import Entry, Manifest, find_manifest, read_manifest
from coasm.launch.families.f4gemm.numbers import Shape, judge, operands, reference
from coasm.launch.families.f4gemm.product import Runner, pick
from coasm.launch.families.f4gemm.sweep import checks
from coasm.launch.families.f4gemm.tiles import Choice, choose, geometry
from coasm.llvm import Llvm
from tests.launch.f4gemm_objects import block_arguments, fp4, multiply, poison, write_folder
from tests.launch.objects import FakeDevice

# Layouts: the formulas of the driver's documentation, index by index.


def test_weights_are_shuffled_as_documented() -> None:
    rng = np.random.default_rng(1)
    rows, width = 48, 96
    source = rng.integers(0, 256, (rows, width), np.uint8)
    got = shuffle_weights(source).reshape(-1)
    for row in range(rows):
        for byte in range(width):
            n0, n1 = divmod(row, 16)
            k0, rest = divmod(byte, 32)
            k1, k2 = divmod(rest, 16)
            at = (((n0 * (width // 32) + k0) * 2 + k1) * 16 + n1) * 16 + k2
            assert got[at] == source[row, byte]


def test_scales_are_padded_and_shuffled_as_documented() -> None:
    rng = np.random.default_rng(2)
    source = rng.integers(0, 256, (300, 20), np.uint8)
    padded = pad_scales(source)
    assert padded.shape == (512, 24)
    assert (padded[:300, :20] == source).all()
    assert (padded[300:] == 0x7F).all() and (padded[:, 20:] == 0x7F).all()
    got = shuffle_scales(padded).reshape(-1)
    for row in range(512):
        for column in range(24):
            d0, d1, d2 = row // 32, row // 16 % 2, row % 16
            d3, d4, d5 = column // 8, column // 4 % 2, column % 4
            at = ((((d0 * 3 + d3) * 4 + d5) * 16 + d2) * 2 + d4) * 2 + d1
            assert got[at] == padded[row, column]


def test_rows_are_padded() -> None:
    array = np.ones((300, 4), np.uint8)
    assert pad_rows(array, 256).shape == (512, 4)
    assert pad_rows(array[:256], 256).shape == (256, 4)
    assert pad_rows(array, 256)[300:].sum() == 0


def test_every_fp4_and_every_scale() -> None:
    packed = np.arange(256, dtype=np.uint8).reshape(1, 256)  # 512 elements, 16 scales
    scales = np.arange(120, 136, dtype=np.uint8).reshape(1, 16)
    got = dequantise(packed, scales)[0]
    for byte in range(256):
        for half, code in ((0, byte & 15), (1, byte >> 4)):
            at = 2 * byte + half
            assert got[at] == fp4(code) * 2.0 ** (120 + at // 32 - 127)
    assert math.isnan(dequantise(packed[:, :16], np.array([[255]], np.uint8))[0, 2])


# The operands and the reference product.


def test_operands_are_as_documented() -> None:
    ops = operands(Shape(64, 128, 1024), seed=5)
    again = operands(Shape(64, 128, 1024), seed=5)
    other = operands(Shape(64, 128, 1024), seed=6)
    assert all((x == y).all() for x, y in zip(ops, again, strict=True))
    assert (ops.a != other.a).any() and (ops.b_scale != other.b_scale).any()
    assert ops.a.shape == (64, 512) and ops.b_scale.shape == (128, 32)
    nibbles = {int(x) for x in np.unique(np.concatenate((ops.a & 15, ops.a >> 4)))}
    assert nibbles == set(range(16))
    for scales in (ops.a_scale, ops.b_scale):
        assert set(np.unique(scales).tolist()) == set(range(124, 131))  # 2^-3 to 2^3


def test_the_reference_is_a_plain_triple_loop() -> None:
    shape = Shape(3, 16, 256)
    ops = operands(shape, seed=9)

    def element(packed: Any, scales: Any, row: int, at: int) -> float:
        code = int(packed[row, at // 2]) >> 4 * (at % 2) & 15
        return fp4(code) * 2.0 ** (int(scales[row, at // 32]) - 127)

    got = reference(ops)
    for i in range(shape.m):
        for j in range(shape.n):
            total = 0.0
            for at in range(shape.k):
                total += element(ops.a, ops.a_scale, i, at) * element(ops.b, ops.b_scale, j, at)
            assert got[i, j] == total


def test_the_reference_in_blocks_is_the_same() -> None:
    ops = operands(Shape(2, 4096, 8192), seed=1)  # B in two blocks
    whole = dequantise(ops.a, ops.a_scale) @ dequantise(ops.b, ops.b_scale).T
    assert (reference(ops) == whole).all()


# The verdict.


def test_bf16_rounding_is_the_hardware_figure() -> None:
    exact = reference(operands(Shape(300, 2048, 1024), seed=0))
    found = judge(exact.astype(bfloat16), exact, parts=1, k=1024)
    assert found.passed and found.wrong == 0
    assert f"{found.max_rel_err:.6f}" == "0.003891"  # measured on an MI355X


@pytest.mark.parametrize(
    ("exact", "got", "parts", "passed"),
    [
        (1.0, 1.0, 1, True),
        (1.0, 1.0 + 2**-7, 1, False),  # one unit in the last place
        (1.0 + 2**-8, 1.0, 1, True),  # half of one
        (0.0, 0.0, 1, True),
        (0.0, -0.0, 1, True),
        (0.0, 2.0**-100, 1, False),
        (1.0, math.nan, 1, False),
        (1.0, math.inf, 1, False),
        (0.0, math.nan, 4, False),
        (1.0, 1.0 + 1.98, 2, True),  # max|exact| is 100 here
        (1.0, 1.0 + 2.05, 2, False),
    ],
)
def test_the_bound(exact: float, got: float, parts: int, passed: bool) -> None:
    reference_ = np.array([[exact, 100.0 if parts > 1 else 1.0]])
    result = np.array([[got, reference_[0, 1]]], np.float64)
    found = judge(result, reference_, parts=parts, k=1024)
    assert found.passed == passed
    assert found.wrong == (0 if passed else 1)
    assert found.first_wrong == (None if passed else (0, 0))


def test_large_sums_may_be_rounded_in_f32() -> None:
    exact = np.array([[70000.0, 1.0]])
    off = 2 * 2.0**-24 * 70000.0  # two roundings
    result = np.array([[70000.0, 1.0 + 2**-8 + off]])
    assert judge(result, exact, parts=1, k=16384).passed
    assert not judge(result, np.array([[60000.0, 1.0]]), parts=1, k=16384).passed


# The tile choice, in the words of aiter's host code.


def literal_choice(
    entries: list[Entry], m: int, n: int, num_cu: int, shuffled: int, log2: int | None
) -> tuple[Entry, int] | None:
    empty_cu, rounds, effi = num_cu, 0xFFFFFFFF, 1.0
    selected = None
    enabled = 1 if log2 is not None and log2 != 0 else 0
    for cfg in entries:
        if int(cfg.bpreshuffle) != shuffled or int(cfg.split_k) < enabled:
            continue
        if (cfg.tile_m != 128 or cfg.tile_n != 512) or (n % cfg.tile_n == 0):
            if log2 is not None and cfg.split_k:
                splits = [1 << log2]
            elif cfg.split_k:
                splits = [2, 4, 8, 16]
            else:
                splits = [1]
            for split in splits:
                tg_m = (m + cfg.tile_m - 1) // cfg.tile_m
                tg_n = (n + cfg.tile_n - 1) // cfg.tile_n
                tg = tg_m * tg_n * split
                local_round = (tg + num_cu - 1) // num_cu
                local_effi = float(cfg.tile_m * cfg.tile_n // (cfg.tile_m + cfg.tile_n))
                earlier = local_round < rounds
                same = local_round == rounds
                sufficient = empty_cu > (local_round * num_cu - tg)
                better = local_effi > effi
                if earlier or (same and (sufficient or better)):
                    rounds, effi = local_round, local_effi
                    empty_cu = local_round * num_cu - tg
                    selected = (cfg, split)
    return selected


ENTRIES = [
    Entry(tile_m, tile_n, split, shuffled, f"k{at}", f"k{at}.co", at + 2)
    for at, (tile_m, tile_n, split, shuffled) in enumerate(
        [
            (256, 256, False, False),
            (256, 256, True, True),
            (128, 512, True, True),
            (192, 256, False, True),
            (32, 1024, False, True),
            (32, 128, False, True),
            (96, 640, False, True),
            (64, 896, False, True),
        ]
    )
]


@pytest.mark.parametrize("num_cu", [1, 80, 256, 304])
@pytest.mark.parametrize("log2", [None, 0, 1, 3])
@pytest.mark.parametrize("shuffled", [0, 1])
def test_the_choice_is_aiters(num_cu: int, log2: int | None, shuffled: int) -> None:
    for m in (1, 33, 128, 300, 4096, 70000):
        for n in (16, 512, 528, 1024, 16384):
            wanted = literal_choice(ENTRIES, m, n, num_cu, shuffled, log2)
            arguments: dict[str, Any] = {
                "num_cu": num_cu,
                "bpreshuffle": bool(shuffled),
                "log2_split": -1 if log2 is None else log2,
            }
            if wanted is None:
                with pytest.raises(LaunchError, match="lists no kernel"):
                    choose(ENTRIES, m, n, **arguments)
            else:
                assert choose(ENTRIES, m, n, **arguments) == wanted


def test_the_choice_keeps_the_manifests_order() -> None:
    twins = [ENTRIES[3]._replace(kernel=name) for name in ("first", "second")]
    assert choose(twins, 256, 256, num_cu=256).entry.kernel == "first"


# Published by the driver, measured on an MI355X (256 compute units).
PUBLISHED = [
    ((8192, 8192, 8192), "BpreShuffle_256x256"),
    ((2048, 8192, 8192), "BpreShuffle_256x256"),
    ((4096, 4096, 4096), "BpreShuffle_256x256"),
    ((128, 16384, 16384), "BpreShuffle_96x640"),
]


def real_manifest(corpus: list[Path]) -> Manifest:
    folder = next((p.parent for p in corpus if p.parent.parts[-2:] == ("gfx950", "f4gemm")), None)
    if folder is None:
        pytest.skip("no gfx950/f4gemm in COASM_CORPUS")
    return find_manifest(folder)


@pytest.mark.parametrize(("shape", "name"), PUBLISHED)
def test_the_published_selections(
    corpus: list[Path], shape: tuple[int, int, int], name: str
) -> None:
    choice = pick(real_manifest(corpus), Shape(*shape), num_cu=256)
    assert choice.entry.object == f"f4gemm_bf16_per1x32Fp4_{name}.co" and choice.split == 1


def test_the_sweep_has_51_checks(corpus: list[Path]) -> None:
    found = list(checks(real_manifest(corpus), num_cu=256))
    groups = [check.group for check in found]
    assert [groups.count(g) for g in ("shape", "kernel", "split")] == [8, 35, 8]
    assert {c.shape for c in found if c.group == "kernel"} == {Shape(300, 2048, 1024)}
    shapes = [c.shape for c in found if c.group == "shape"]
    assert any(s.m == 1 for s in shapes) and any(s.m % 32 for s in shapes if s.m > 1)
    for check in found:
        geometry(check.choice, *check.shape)


# Geometry.


@pytest.mark.parametrize(
    ("tile", "split", "shape", "grid"),
    [
        ((256, 256), 1, (300, 2048, 1024), (8, 2, 1)),
        ((128, 512), 1, (1, 512, 256), (1, 1, 1)),
        ((256, 256), 4, (256, 1024, 4096), (4, 1, 4)),
        ((256, 256), 16, (256, 1024, 4096), (4, 1, 16)),
        ((256, 256), 8, (256, 1024, 1024), (4, 1, 4)),  # 128 of K, rounded up to 256
        ((256, 256), 2, (256, 1024, 768), (4, 1, 2)),  # 384, rounded up to 512
    ],
)
def test_the_grid(
    tile: tuple[int, int], split: int, shape: tuple[int, int, int], grid: tuple[int, int, int]
) -> None:
    entry = ENTRIES[1]._replace(tile_m=tile[0], tile_n=tile[1])
    found = geometry(Choice(entry, split), *shape)
    assert (found.grid, found.workgroup) == (grid, (256, 1, 1))


def test_splits_that_cannot_be() -> None:
    with pytest.raises(LaunchError, match="does not split K"):
        geometry(Choice(ENTRIES[3], 2), 1, 256, 1024)
    with pytest.raises(LaunchError, match="cannot be split in 512"):
        geometry(Choice(ENTRIES[1], 512), 1, 256, 768)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((0, 16, 256), "M = 0"),
        ((1, 24, 256), "N must be a multiple of 16"),
        ((1, 16, 128), "K must be a multiple of 256"),
        ((1, 16, 1 << 30), "K = "),
    ],
)
def test_shapes_that_are_refused(shape: tuple[int, int, int], message: str) -> None:
    manifest = Manifest(Path("m.csv"), tuple(ENTRIES))
    with pytest.raises(LaunchError, match=message):
        pick(manifest, Shape(*shape), num_cu=256)


# The manifest.

HEAD = "tile_M,tile_N,splitK,bpreshuffle,knl_name,co_name\n"


def test_a_manifest_is_read_by_its_columns(tmp_path: Path) -> None:
    path = tmp_path / "m.csv"
    path.write_text(
        "more,co_name,tile_N,tile_M,splitK,bpreshuffle,knl_name\n\nx,a.co,512,128,1,0,ka\n"
    )
    assert read_manifest(path).entries == (Entry(128, 512, True, False, "ka", "a.co", 3),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"m\.csv:1: empty"),
        (HEAD, r"m\.csv: lists no kernel"),
        ("tile_M,tile_N\n1,2\n", r"m\.csv:1: no column splitK, bpreshuffle, knl_name, co_name"),
        (HEAD + "1,2,0,1,k\n", r"m\.csv:2: 5 values for 6 columns"),
        (HEAD + "1,2,0,1,k,a.co\nx,2,0,1,k,a.co\n", r"m\.csv:3: tile_M is 'x'"),
        (HEAD + "0,2,0,1,k,a.co\n", r"m\.csv:2: tile_M is 0, expected 1 to"),
        (HEAD + "1,2,2,1,k,a.co\n", r"m\.csv:2: splitK is 2"),
        (HEAD + "1,2,0,-1,k,a.co\n", r"m\.csv:2: bpreshuffle is '-1'"),
        (HEAD + "1,2,0,1,,a.co\n", r"m\.csv:2: knl_name is empty"),
        (HEAD + "1,2,0,1,k,../a.co\n", r"m\.csv:2: co_name is '\.\./a\.co'"),
        (HEAD + "1,2,0,1,k,\n", r"m\.csv:2: co_name"),
        (HEAD + '1,2,0,1,k,"a.co\n', r"m\.csv:\d: "),
        (HEAD + "1,²,0,1,k,a.co\n", r"m\.csv:2: tile_N"),
    ],
)
def test_manifests_that_are_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "m.csv"
    path.write_text(text)
    with pytest.raises(FormatError, match=message):
        read_manifest(path)


def test_a_manifest_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "m.csv"
    path.write_bytes(b"\xff\xfe\0")
    with pytest.raises(FormatError, match="not UTF-8"):
        read_manifest(path)


def test_where_the_manifest_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AITER_ASM_DIR", raising=False)
    with pytest.raises(LaunchError, match="AITER_ASM_DIR"):
        find_manifest(None)
    monkeypatch.setenv("AITER_ASM_DIR", str(tmp_path))
    with pytest.raises(LaunchError, match="no such folder"):
        find_manifest(None)
    folder = tmp_path / "gfx950" / "f4gemm"
    folder.mkdir(parents=True)
    with pytest.raises(LaunchError, match="CSV files there: none"):
        find_manifest(None)
    (folder / "any.csv").write_text(HEAD + "1,2,0,1,k,a.co\n")
    assert find_manifest(None).entries[0].kernel == "k"
    (folder / "more.csv").write_text(HEAD)
    with pytest.raises(LaunchError, match=r"any\.csv, more\.csv"):
        find_manifest(folder)


def test_names(tmp_path: Path) -> None:
    manifest = Manifest(tmp_path / "m.csv", tuple(ENTRIES))
    assert manifest.named("k3") == manifest.named("k3.co") == ENTRIES[3]
    with pytest.raises(LaunchError, match="no kernel 'k33'; did you mean"):
        manifest.named("k33")
    with pytest.raises(LaunchError, match=r"no such code object: .*k3\.co; m\.csv:5 lists it"):
        manifest.path_of(ENTRIES[3])
    shape = Shape(1, 16, 256)
    assert pick(manifest, shape, num_cu=256, kernel="k3") == (ENTRIES[3], 1)
    assert pick(manifest, shape, num_cu=256, kernel="k1", log2_split=2) == (ENTRIES[1], 4)
    assert pick(manifest, shape, num_cu=256, kernel="k3", log2_split=-1) == (ENTRIES[3], 1)
    with pytest.raises(LaunchError, match="takes plain weights"):
        pick(manifest, shape, num_cu=256, kernel="k0", bpreshuffle=True)


# The whole way, on a device that does by the documented formulas what the kernels promise.

ROWS = [(256, 256, 0, 0, "noBpre"), (256, 256, 1, 1, "main"), (32, 128, 0, 1, "small")]


@pytest.fixture(scope="module")
def folder(llvm: Llvm, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("f4gemm")
    write_folder(llvm, made, ROWS)
    return made


@pytest.mark.parametrize("name", ["noBpre", "main", "small"])
@pytest.mark.parametrize("shape", [Shape(1, 16, 256), Shape(5, 32, 512)])
def test_a_product(folder: Path, name: str, shape: Shape) -> None:
    device = FakeDevice(multiply)
    runner = Runner(find_manifest(folder), device)
    found = runner.run(shape, runner.pick(shape, kernel=name), seed=3)
    assert found.passed and found.verdict is not None and found.verdict.max_rel_err < 2**-8
    assert found.d.shape == (shape.m, shape.n)
    assert found.to_json()["passed"] is True
    assert not device.buffers  # everything was given back


def test_the_block_is_the_documented_one(folder: Path) -> None:
    device = FakeDevice(poison)
    runner = Runner(find_manifest(folder), device)
    shape = Shape(300, 2048, 1024)
    found = runner.run(shape, Choice(runner.manifest.named("main"), 2), verify=False)
    ((name, where, block),) = device.launches
    at = {label: address for address, label in device.names.items()}
    assert (name, where.grid) == ("main", (8, 2, 2))
    assert len(block) == 384
    wanted = bytearray(384)
    for offset, value in ((0x00, at["D"]), (0x10, 0), (0x20, at["A"]), (0x30, at["B"])):
        struct.pack_into("<Q", wanted, offset, value)
    struct.pack_into("<f", wanted, 0x40, 1.0)
    struct.pack_into("<f", wanted, 0x50, 0.0)
    for offset, value in (
        *((0x60, 2048), (0x70, 1), (0x80, 2048), (0x90, 1), (0xA0, 1024), (0xB0, 1)),
        *((0xC0, 1024), (0xD0, 1), (0xE0, 300), (0xF0, 2048), (0x100, 1024)),
        *((0x130, 32), (0x140, 1), (0x150, 32), (0x160, 1), (0x170, 1)),
    ):
        struct.pack_into("<I", wanted, offset, value)
    struct.pack_into("<Q", wanted, 0x110, at["ScaleA"])
    struct.pack_into("<Q", wanted, 0x120, at["ScaleB"])
    assert block == bytes(wanted)
    assert (np.asarray(found.d).view(np.uint16) == 0).all()  # zeroed: the parts are added to it


def test_what_a_kernel_does_not_write_is_seen(folder: Path) -> None:
    runner = Runner(find_manifest(folder), FakeDevice(poison))
    found = runner.run(Shape(2, 16, 256), Choice(runner.manifest.named("small"), 1))
    assert found.verdict is not None and found.verdict.wrong == 32
    assert not found.passed and found.to_json()["verdict"]["max_abs_err"] is None


def test_the_kernel_without_a_split_argument(folder: Path) -> None:
    device = FakeDevice(poison)
    runner = Runner(find_manifest(folder), device)
    entry = runner.manifest.named("noBpre")
    runner.run(Shape(2, 16, 256), Choice(entry, 1))
    assert len(device.launches[0][2]) == 368
    with pytest.raises(LaunchError, match="cannot split K"):
        runner.run(Shape(2, 16, 512), Choice(entry._replace(split_k=True), 2))


def test_another_kernel_under_that_name(folder: Path) -> None:
    runner = Runner(find_manifest(folder), FakeDevice(poison))
    entry = runner.manifest.named("small")._replace(kernel="other")
    with pytest.raises(LaunchError, match=r"no kernel 'other', which kernels\.csv:4 names"):
        runner.run(Shape(2, 16, 256), Choice(entry, 1))


def test_timing(folder: Path) -> None:
    runner = Runner(find_manifest(folder), FakeDevice(poison))
    shape = Shape(2, 16, 256)
    found = runner.run(shape, runner.pick(shape), verify=False, iterations=4)
    assert found.figures.median == pytest.approx(0.25)
    assert found.tflops == pytest.approx(2 * 2 * 16 * 256 / 0.25 / 1e12)


def test_the_documented_block_has_24_arguments() -> None:
    named = [a for a in block_arguments()[0] if a[0] != "pad"]
    assert len(named) == 24 and block_arguments()[1] == 384
    assert block_arguments(split=False)[1] == 368
