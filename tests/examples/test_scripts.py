"""The scripts of examples/: run as their first lines say, and what they made is run, too."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import coasm
from coasm.bundle import extract, find
from coasm.llvm import Llvm
from tests.linter.kernels import listing

_EXAMPLES = Path(__file__).parent.parent.parent / "examples"
_ADDING = _EXAMPLES / "vector_add.s"


def script(folder: Path, name: str, *arguments: object) -> str:
    """Run an example in *folder*; what it prints."""
    done = subprocess.run(
        [sys.executable, str(_EXAMPLES / name), *map(str, arguments)],
        cwd=folder,
        env={"PYTHONPATH": str(_EXAMPLES.parent), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def imported(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, _EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def real(corpus: list[Path], name: str) -> Path:
    return next(path for path in corpus if path.name == name)


def add(source: Any, **more: Any) -> dict[str, Any]:
    """Run the vector addition, or what became of it."""
    left, right = np.arange(250, dtype=np.float32), np.linspace(3, 4, 250, dtype=np.float32)
    arguments = {"sum": np.zeros(250, np.float32), "left": left, "right": right, "count": 250}
    run = coasm.run(source, {**arguments, **more}, grid=4, workgroup=64, backend="emulator")
    assert np.array_equal(run.arrays["sum"], left + right)
    return dict(run.arrays)


def test_every_script_is_run_here() -> None:
    text = Path(__file__).read_text()
    scripts = sorted(_EXAMPLES.glob("*.py"))
    assert len(scripts) == 5
    assert all(f'"{path.name}"' in text for path in scripts)


def test_count_mfmas(corpus: list[Path], llvm: Llvm, tmp_path: Path) -> None:
    """As many of each name as llvm-objdump prints."""
    path = real(corpus, "gemm_a8w8_m128_noSplitK.co")
    printed = script(tmp_path, "count_mfmas.py", path)
    dump = subprocess.run([llvm.objdump, "-d", path], capture_output=True, text=True, check=True)
    counted = Counter(re.findall(r"^\s+(v_s?mfma\w+|v_smfmac\w+)", dump.stdout, re.M))
    assert counted
    found = re.findall(r"^ +([\d,]+)  ([\dx]+) +(\w+)", printed, re.M)
    assert {name: int(number.replace(",", "")) for number, _, name in found} == counted
    assert all(shape in name for _, shape, name in found)


def test_time_blocks(tmp_path: Path) -> None:
    """The sums are right, and blocks that come later note a later time."""
    printed = script(tmp_path, "time_blocks.py", _ADDING, "timed.co")
    assert "3 blocks are timed; 0 new findings" in printed
    times = add(tmp_path / "timed.co", times=np.zeros(3, np.uint64))["times"]
    assert times[0] < times[1] < times[2]


def test_time_blocks_of_a_real_kernel(corpus: list[Path], tmp_path: Path) -> None:
    path = real(corpus, "topksoftmax_4x128x8.co")
    blocks = len(coasm.load(path).kernel().cfg.blocks)
    printed = script(tmp_path, "time_blocks.py", path, "timed.co")
    assert f"{blocks} blocks are timed; 0 new findings" in printed
    kernel = coasm.load(tmp_path / "timed.co").kernel()
    assert sum(one.mnemonic == "s_memtime" for one in kernel.instructions) == blocks


_LOADS = (
    "\ts_load_dwordx4 s[4:7], s[0:1], 0x0\n\tv_lshlrev_b32 v1, 2, v0\n\ts_waitcnt lgkmcnt(0)\n"
    "\tglobal_load_dword v2, v1, s[6:7]\n\tglobal_load_dword v3, v1, s[6:7] offset:4\n"
    "\tglobal_load_dword v4, v1, s[6:7] offset:8\n{wait}"
    "\tv_add_f32 v5, v2, v2\n\ts_waitcnt vmcnt(0)\n\tv_add_f32 v5, v5, v3\n"
    "\tv_add_f32 v5, v5, v4\n\tglobal_store_dword v1, v5, s[4:5]\n\ts_endpgm\n"
)
_ARGS = {
    ".args": "[ { .name: out, .size: 8, .offset: 0, .value_kind: global_buffer }, "
    "{ .name: data, .size: 8, .offset: 8, .value_kind: global_buffer } ]"
}


def test_loosen_waits(tmp_path: Path) -> None:
    """Of three loads one is used: its wait may leave two under way."""
    text = listing(_LOADS.format(wait="\ts_waitcnt vmcnt(0)\n"), "gfx942", _ARGS)
    (tmp_path / "k.s").write_text(text)
    (tmp_path / "launch.yaml").write_text(
        "grid: 1\nworkgroup: 64\nbuffers:\n  out: {dtype: f32, shape: 66}\n"
        "  data: {dtype: f32, shape: 66, fill: {range: 0}}\narguments: {out: out, data: data}\n"
    )
    printed = script(tmp_path, "loosen_waits.py", "k.s", "loose.co", "launch.yaml")
    assert "lint: 0 new errors" in printed and "every buffer is the same" in printed
    waits = [one.text for one in coasm.load(tmp_path / "loose.co").kernel().instructions]
    assert [text for text in waits if text.startswith("s_waitcnt")] == [
        "s_waitcnt lgkmcnt(0)",
        "s_waitcnt vmcnt(2)",
        "s_waitcnt vmcnt(0)",
    ]


def test_loosen_waits_of_a_real_kernel(corpus: list[Path]) -> None:
    """The result is the reference's."""
    path = real(corpus, "f4gemm_bf16_per1x32Fp4_BpreShuffle_32x128.co")
    module = coasm.Module(path)
    before = [one.text for one in module.kernel().instructions]
    imported("loosen_waits").loosen(module)
    after = [one.text for one in module.kernel().instructions]
    assert before != after and not [one for one in module.findings if one.level == "error"]
    problem = {"m": 32, "n": 128, "k": 256}
    product = coasm.run_family("f4gemm", problem, source=module.data, backend="emulator")
    assert product.passed


def test_hoist_loads(tmp_path: Path) -> None:
    """The second load climbs over what it does not need, and not over what makes its address."""
    body = (
        "\ts_load_dwordx4 s[4:7], s[0:1], 0x0\n\tv_lshlrev_b32 v1, 2, v0\n"
        "\ts_waitcnt lgkmcnt(0)\n\tv_add_u32 v2, 4, v1\n\tv_mov_b32 v5, 2.0\n"
        "\tglobal_load_dword v3, v2, s[6:7]\n\ts_waitcnt vmcnt(0)\n\tv_mul_f32 v3, v3, v5\n"
        "\tglobal_store_dword v1, v3, s[4:5]\n\ts_endpgm\n"
    )
    (tmp_path / "k.s").write_text(listing(body, "gfx942", _ARGS))
    printed = script(tmp_path, "hoist_loads.py", "k.s", "hoisted.co", 3)
    assert "step 1: 1 loads climbed" in printed and "step 2: 0 loads climbed" in printed
    assert "lint: 0 new findings" in printed
    texts = [one.text for one in coasm.load(tmp_path / "hoisted.co").kernel().instructions]
    assert texts[3:6] == [
        "v_add_u32_e32 v2, 4, v1",
        "global_load_dword v3, v2, s[6:7]",
        "v_mov_b32_e32 v5, 2.0",
    ]
    data = np.arange(66, dtype=np.float32)
    given = {"out": np.zeros(66, np.float32), "data": data}
    run = coasm.run(tmp_path / "hoisted.co", given, grid=1, workgroup=64, backend="emulator")
    assert np.array_equal(run.arrays["out"][:64], 2 * data[1:65])


def test_hoist_loads_of_a_real_kernel(corpus: list[Path]) -> None:
    """The result is the reference's."""
    path = real(corpus, "f4gemm_bf16_per1x32Fp4_BpreShuffle_32x128.co")
    module = coasm.Module(path)
    assert imported("hoist_loads").hoist(module, Counter()) > 0
    assert module.findings == ()
    problem = {"m": 32, "n": 128, "k": 256}
    product = coasm.run_family("f4gemm", problem, source=module.data, backend="emulator")
    assert product.passed


def test_rebundle(tmp_path: Path) -> None:
    """The bundle has both objects, and the kernel in them is what it was."""
    text = _ADDING.read_text()
    for target in ("gfx942", "gfx950"):
        made = coasm.assemble(text.replace("gfx950", target))
        (tmp_path / f"{target}.co").write_bytes(made.data)
    script(tmp_path, "rebundle.py", "vector_add", "added", "out.hipfb", "gfx942.co", "gfx950.co")
    found = [coasm.load(extract(image)) for image in find(tmp_path / "out.hipfb") if image.size]
    objects = [co for co in found if co.kernels]
    assert [co.target.name for co in objects] == ["gfx942", "gfx950"]
    for co in objects:
        assert [kernel.name for kernel in co.kernels] == ["added"]
        original = coasm.load(tmp_path / f"{co.target.name}.co").kernel()
        assert [i.bytes for i in co.kernel().instructions] == [
            i.bytes for i in original.instructions
        ]
        add(co)
