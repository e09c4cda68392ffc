"""Compiled kernels run the same before and after an edit, and compute what Python works out.

What they need of the emulator: the loaded image with its relocations, calls and function pointers,
scratch, a stack of no known bound, LDS with barriers, hidden arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import coasm
from coasm.__main__ import main
from coasm.emulator import EmulationError, Options
from coasm.errors import CoasmError, UnsupportedError
from coasm.llvm import Llvm
from tests.bundle.carriers import HOST, bundle, entry_id
from tests.edits import compile_fixture, with_nops
from tests.emulator.harness import assemble, run

_DIGITS = (3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3)
_LOOKED_UP = (17, -4, 1000003, 8, 55, -700, 31, 0)


def _scaled(x: int) -> int:
    return x * _DIGITS[x & 15]


def _choose(i: int, n: int) -> int:
    """What ``choose`` of the fixture writes for work-item *i*: its C, in Python."""
    block = i // 64 * 64
    chosen = [_scaled(block), 2 * _scaled(block + 3), 7 + i, i * i, _DIGITS[i & 15], n, _scaled(n)]
    r = [*chosen, 99, *[-1] * 8][n & 15]
    r += (_LOOKED_UP[n & 7], 2 * _LOOKED_UP[i & 7], -_scaled(i + n), 0)[i & 3]
    return r + 4 * (n & 3) + (i & 3) + 1


def _hidden(grid: tuple[int, int, int], workgroup: tuple[int, int, int]) -> list[int]:
    """Block counts, group sizes, remainders, dimensions, "printf buffer is null", grid in x."""
    return [*grid, *workgroup, 0, 0, 0, 3, 1, grid[0] * workgroup[0]]


def _fibonacci(n: int) -> int:
    return n if n < 2 else _fibonacci(n - 1) + _fibonacci(n - 2)


def _odd(x: int) -> int:
    return 3 * _even(x - 1) if x else 7


def _even(x: int) -> int:
    return _odd(x - 1) + 2 if x else 100


def _everything(i: int, n: int) -> int:
    called = 3 * i if n & 1 else i + 5
    return called + (i & 7) ** 2 + ((n & 7) + 1) + (b"hello", b"world")[n & 1][i & 3]


def _recursive(i: int, n: int) -> int:
    return 11 + _fibonacci(i & 7) + (_odd(n) if i & 1 else _even(n + (i & 2)))


def _indirect(i: int, n: int) -> int:
    x = i & 7
    called = ((3 * x if i & 1 else x + 5), 3 * x, _fibonacci(x))[n % 3]
    return 2 * (called + 5)


class Case(NamedTuple):
    """A launch: its arguments by offset, where the first is written, and what it must hold."""

    kernel: str
    arguments: dict[str | int, Any]
    wanted: list[int]
    grid: int | tuple[int, ...] = 1
    workgroup: int | tuple[int, ...] = 64


def _cases(source: str) -> list[Case]:
    if source == "compiled.hip":
        functions: tuple[tuple[str, Callable[[int, int], int]], ...] = (
            ("everything", _everything),
            ("recursive", _recursive),
            ("indirect", _indirect),
        )
        return [
            Case(name, {0: np.zeros(64, np.int32), 8: n}, [function(i, n) for i in range(64)])
            for name, function in functions
            for n in (2, 3, 4)
        ]
    numbers = np.random.default_rng(1).integers(-1000, 1000, 768, dtype=np.int32)
    scaled = [_scaled(x) for x in numbers.tolist()]
    sums = [sum(scaled[at : at + 256]) for at in (0, 256, 512)]
    lines = [2.0, 6.0, 10.0, 14.0] * 32
    both = (2, 3, 2), (5, 4, 2)
    return [
        *(
            Case(
                "choose", {0: np.zeros(128, np.int32), 8: n}, [_choose(i, n) for i in range(128)]
            )._replace(grid=2)
            for n in (*range(9), 15, -7)
        ),
        Case("second", {0: np.zeros(128, np.float32)}, lines, 2),  # type: ignore[arg-type]
        Case("reduced", {0: np.zeros(3, np.int32), 8: numbers}, sums, 3, 256),
        Case("hidden", {0: np.zeros(2 * 5 * 12, np.int32)}, _hidden(*both) * 10, *both),
    ]


def _objects(llvm: Llvm, folder: Path, source: str, target: str, level: str) -> tuple[Path, Path]:
    """The compiled object, and the one that is assembled from its listing with nops."""
    path = compile_fixture(llvm, folder, source, target, (level,))
    text, count = with_nops(coasm.disassemble(path).text)
    assert count > 20
    edited = folder / "edited.co"
    edited.write_bytes(coasm.assemble(text).data)
    return path, edited


@pytest.mark.parametrize("level", ["-O0", "-O3"])
@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
@pytest.mark.parametrize("source", ["compiled.cl", "compiled.hip"])
def test_the_same_before_and_after_an_edit(
    llvm: Llvm, tmp_path: Path, source: str, target: str, level: str
) -> None:
    original, edited = _objects(llvm, tmp_path, source, target, level)
    assert {case.kernel for case in _cases(source)} == {
        k.name for k in coasm.load(original).kernels
    }
    for case in _cases(source):
        figures = []
        for path in (original, edited):
            result = coasm.run(
                path,
                case.arguments,
                kernel=case.kernel,
                grid=case.grid,
                workgroup=case.workgroup,
                backend="emulator",
            )
            assert result.arrays["@0x0"].tolist() == case.wanted, (case.kernel, path.name)
            figures.append(result.figures.wave_instructions)
        assert figures[1] > figures[0]  # the nops were executed


def test_a_nop_without_moved_addresses_would_be_seen(llvm: Llvm, tmp_path: Path) -> None:
    """The test above can fail: the same nops, with distances that stay as they were."""
    original, _ = _objects(llvm, tmp_path, "compiled.hip", "gfx942", "-O3")
    text, _ = with_nops(coasm.disassemble(original).text)
    wrong = text.replace("functions@rel32@lo+4", "functions@rel32@lo+12")
    assert wrong != text
    with pytest.raises(CoasmError):
        coasm.run(
            coasm.assemble(wrong).data,
            {0: np.zeros(64, np.int32), 8: 3},
            kernel="everything",
            grid=1,
            workgroup=64,
            backend="emulator",
        )


def test_the_stack_is_what_the_options_say(llvm: Llvm, tmp_path: Path) -> None:
    path = compile_fixture(llvm, tmp_path, "compiled.hip", "gfx942", ("-O0",))

    def go(n: int, **more: int) -> list[int]:
        result = coasm.run(
            path,
            {0: np.zeros(64, np.int32), 8: n},
            kernel="recursive",
            grid=1,
            workgroup=64,
            backend="emulator",
            options=Options(**more),
        )
        found: list[int] = result.arrays["@0x0"].tolist()
        return found

    with pytest.raises(EmulationError, match=r"access outside of scratch: .* 1024 bytes are alloc"):
        go(60)
    wanted = np.array([_recursive(i, 60) % (1 << 32) for i in range(64)], np.uint32)
    assert go(60, stack=8192) == wanted.view(np.int32).tolist()


def test_a_symbol_of_another_object_is_refused(llvm: Llvm) -> None:
    body = "s_endpgm\n.data\n.globl elsewhere\n.p2align 3\n.quad elsewhere\n"
    with pytest.raises(UnsupportedError, match="to the symbol 'elsewhere', which is not here"):
        run(
            llvm,
            assemble(llvm, body, flags=("-Wl,--unresolved-symbols=ignore-all",)),
            "k",
            [np.zeros(1, np.uint32)],
        )


def test_on_the_command_line_out_of_a_library(
    llvm: Llvm, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = compile_fixture(llvm, tmp_path, "compiled.hip", "gfx942", ("-O0",))
    library = tmp_path / "library"
    library.write_bytes(bundle([HOST, (entry_id("gfx942"), path.read_bytes())]))
    (tmp_path / "launch.yaml").write_text(
        "object: library:gfx942\nkernel: recursive\ngrid: 1\nworkgroup: 64\n"
        "buffers:\n  out: {dtype: i64, shape: 32}\n"
        "arguments: {'@0': out, '@8': 40}\noutputs:\n  out: {save: out.npy}\n"
    )

    def go(*more: str) -> tuple[int, str]:
        spec = ("--spec", str(tmp_path / "launch.yaml"), "--backend", "emulator")
        return main(["run", *more, *spec]), capsys.readouterr().err

    status, error = go()
    assert status == 2 and "access outside of scratch" in error
    for library_itself in ((), (f"{library}:gfx942",)):
        assert go(*library_itself, "--stack", "4096") == (0, "")
        out = np.load(tmp_path / "out.npy").view(np.uint32)
        assert out.tolist() == [_recursive(i, 40) % (1 << 32) for i in range(64)]
