"""Each command of the README and the docs does what they say, and prints what they show.

The commands of a page run one after the other in a folder that has what they name. What a page says
in words between two of them ("delete an ``s_nop 0``") is done here, by the table of steps.
"""

from __future__ import annotations

import ast
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

import coasm
from coasm.llvm.find import Llvm
from tests.bundle.carriers import HOST, bundle, device, entry_id, host
from tests.compare.objects import build, source
from tests.docs import PAGES, ROOT, Block, Command, blocks, commands, pattern
from tests.linter.kernels import listing as kernel_listing
from tests.linter.sources import TOO_CLOSE, listing

EXAMPLES = ROOT / "examples"

#: The f4gemm object of the pages: its place below ``COASM_CORPUS``, and its name there.
_ORIGINAL = "gfx950/f4gemm/f4gemm_bf16_per1x32Fp4_BpreShuffle_256x256.co"
F4GEMM = "f4gemm_256x256.co"
_FP8GEMM = "gfx942/fp8gemm_blockscale/fp8gemm_bf16_blockscale_BpreShuffle_96x128.co"
_MANIFEST = f"""\
tile_M,tile_N,splitK,bpreshuffle,knl_name,co_name
256,256,1,1,_ZN5aiter42f4gemm_bf16_per1x32Fp4_BpreShuffle_256x256E,{F4GEMM}
"""

#: A source of somebody else, which needs a target, a folder and a symbol to assemble.
_THEIRS = """\
	.include "common.inc"
	.set v_x, 1
	.text
	.globl squares
	.p2align 8
	.type squares,@function
squares:
	s_load_dwordx2 s[0:1], s[0:1], 0x0
	v_and_b32 v0, TILE-1, v0
	v_lshlrev_b32 v0, 2, v0
	s_waitcnt lgkmcnt(0)
	global_load_dword v[v_x], v0, s[0:1]
	s_waitcnt vmcnt(0)
	reciprocal v[v_x+1], v[v_x]
	global_store_dword v0, v[v_x+1], s[0:1]
	s_endpgm
	.rodata
	.p2align 6
	.amdhsa_kernel squares
		.amdhsa_user_sgpr_kernarg_segment_ptr 1
		.amdhsa_kernarg_size 8
		.amdhsa_next_free_vgpr 4
		.amdhsa_next_free_sgpr 2
		.amdhsa_accum_offset 4
	.end_amdhsa_kernel
	.amdgpu_metadata
amdhsa.version: [1, 2]
amdhsa.kernels:
  - .name: squares
    .symbol: squares.kd
    .kernarg_segment_size: 8
    .kernarg_segment_align: 8
    .group_segment_fixed_size: 0
    .private_segment_fixed_size: 0
    .wavefront_size: 64
    .sgpr_count: 8
    .vgpr_count: 4
    .max_flat_workgroup_size: 256
    .args:
      - {.size: 8, .offset: 0, .value_kind: global_buffer, .address_space: global}
	.end_amdgpu_metadata
"""
_COMMON = """\
.macro reciprocal out, in
	v_rcp_f32 \\out, \\in
	v_mul_f32 \\out, \\out, \\out
.endm
"""


# --- what the pages name ---------------------------------------------------------------------


def _kernel(folder: Path) -> None:
    """``kernel.co``, the vector addition of the examples, and a launch file for it."""
    built = coasm.assemble((EXAMPLES / "vector_add.s").read_text())
    (folder / "kernel.co").write_bytes(built.data)
    launch = (EXAMPLES / "vector_add.yaml").read_text()
    (folder / "launch.yaml").write_text(launch.replace("vector_add.s", "kernel.co"))


def _f4gemm(folder: Path) -> bool:
    """Whether there is an f4gemm object, which is there then."""
    original = Path(os.environ.get("COASM_CORPUS", "")) / _ORIGINAL
    if original.is_file():
        shutil.copy(original, folder / F4GEMM)
    return original.is_file()


def _listing(folder: Path, name: str = F4GEMM) -> Path:
    """The listing of an object, written as ``coasm disasm`` does."""
    path = (folder / name).with_suffix(".s")
    path.write_text(coasm.disassemble(folder / name).text)
    return path


def _carriers(folder: Path, llvm: Llvm) -> None:
    """Libraries with two objects each, and another object for one of the targets."""
    images = [HOST]
    for target in ("gfx942", "gfx950"):
        images.append((entry_id(target), device(llvm, target, "scale")))
    for name in ("libexample.so", "libkernels.so"):
        scratch = folder / "scratch"
        scratch.mkdir(exist_ok=True)
        shutil.copy(host(scratch, [bundle(images)], "-shared", "-fPIC", name=name), folder)
    (folder / "new.co").write_bytes(device(llvm, "gfx942", "scale", body="s_nop 7", pad=20000))
    (folder / "k90a.co").write_bytes(device(llvm, "gfx90a", "scale"))
    (folder / "new").mkdir()


def _readme(folder: Path, llvm: Llvm) -> None:
    _kernel(folder)
    _f4gemm(folder)
    (folder / "YOUR_OBJECTS").mkdir()
    shutil.copy(folder / "kernel.co", folder / "YOUR_OBJECTS")
    shutil.copy(folder / "kernel.co", folder / "YOUR.co")


def _equivalence(folder: Path, llvm: Llvm) -> None:
    if _f4gemm(folder):
        target = ["-target", "amdgcn-amd-amdhsa", "-mcpu=gfx950", "-mcode-object-version=6"]
        files = [str(_listing(folder)), "-o", str(folder / "plain.co")]
        subprocess.run([llvm.clang, "-x", "assembler", *target, *files], check=True)
    same = {name: "\ts_nop 0\n\ts_endpgm" for name in ("beta", "gamma", "delta")}
    old = {"alpha": "\ts_nop 0\n\ts_endpgm", **same}
    new = {**old, "alpha": "\ts_nop 1\n\ts_endpgm", "epsilon": "\ts_endpgm"}
    for name, functions in (("old.co", old), ("new.co", new)):
        (folder / name).write_bytes(build(llvm, source(functions)).data)


def _lint(folder: Path, llvm: Llvm) -> None:
    _kernel(folder)
    _ci(folder, llvm)
    _carriers(folder, llvm)
    _f4gemm(folder)
    (folder / "hsa").mkdir()
    shutil.copy(folder / "kernel.co", folder / "hsa")
    edited = (
        _listing(folder, "kernel.co").read_text().replace("\ts_endpgm", "\ts_nop 0\n\ts_endpgm")
    )
    (folder / "edited.s").write_text(edited)
    (folder / "edited.co").write_bytes(coasm.assemble(edited).data)


def _ci(folder: Path, llvm: Llvm) -> None:
    (folder / "kernels").mkdir()
    for name in ("gemm.s", "softmax.s"):
        (folder / "kernels" / name).write_text(listing(TOO_CLOSE))
    base = folder.parent / "base" / "kernels"
    shutil.copytree(folder / "kernels", base, dirs_exist_ok=True)


def _sources(folder: Path, llvm: Llvm) -> None:
    (folder / "include").mkdir()
    (folder / "include" / "common.inc").write_text(_COMMON)
    (folder / "theirs.s").write_text(_THEIRS)


def _run(folder: Path, llvm: Llvm) -> None:
    _kernel(folder)
    for name in ("rebuilt.co", "vector_add.co"):
        shutil.copy(folder / "kernel.co", folder / name)
    shutil.copytree(EXAMPLES, folder / "examples")
    if _f4gemm(folder):
        for name in ("rebuilt", "originals"):
            (folder / name).mkdir()
            shutil.copy(folder / F4GEMM, folder / name)
        (folder / "rebuilt" / "f4gemm.csv").write_text(_MANIFEST)
        shutil.copy(folder / F4GEMM, folder / "kernel.rebuilt.co")


def _port(folder: Path, llvm: Llvm) -> None:
    shutil.copytree(EXAMPLES, folder, dirs_exist_ok=True)
    dgemm = (
        "v_mfma_f64_16x16x4_f64 v[8:15], v[0:1], v[2:3], v[8:15]\n\ts_nop 10\n\tv_mov_b32 v16, v8"
    )
    original = Path(os.environ.get("COASM_CORPUS", "")) / _FP8GEMM
    if _f4gemm(folder) and original.is_file():
        shutil.copy(original, folder / "fp8gemm.co")
        inputs = [sys.executable, str(EXAMPLES / "launches" / "inputs.py")]
        subprocess.run([*inputs, folder], check=True)
        shutil.copy(EXAMPLES / "launches" / "fp8_gemm.yaml", folder)
    quantize = "v_cvt_pk_fp8_f32 v2, v0, v1\n\tglobal_store_dword v3, v2, s[4:5]"
    for name, body in (("dgemm", dgemm), ("quantize", quantize)):
        text = kernel_listing(f"\t{body}\n\ts_endpgm")
        text = re.sub(r"\bk\b", name, text)
        (folder / f"{name}.co").write_bytes(coasm.assemble(text).data)


_FOLDERS: dict[str, Callable[[Path, Llvm], object]] = {
    "README.md": _readme,
    "bundles.md": _carriers,
    "ci.md": _ci,
    "editing.md": lambda folder, llvm: shutil.copytree(EXAMPLES, folder, dirs_exist_ok=True),
    "equivalence.md": _equivalence,
    "install.md": lambda folder, llvm: None,
    "layout.md": lambda folder, llvm: None,
    "lint.md": _lint,
    "listing.md": _sources,
    "port.md": _port,
    "run.md": _run,
}


# --- what the pages say between two commands -------------------------------------------------


def _replace(path: Path, *pairs: tuple[str, str]) -> None:
    """The first place of each text is replaced."""
    text = path.read_text()
    for old, new in pairs:
        assert old in text, f"{path.name} has no {old!r}"
        text = text.replace(old, new, 1)
    path.write_text(text)


_MOVE = "\ts_mov_b32 s56, s4\n"
_RECIPROCAL = "\tv_rcp_iflag_f32_e32 v4, v4\n"
_LDS = "\t\t.amdhsa_group_segment_fixed_size "


def _insert_and_halve(folder: Path) -> None:
    _replace(
        folder / "f4gemm_256x256.s",
        (_MOVE, f"{_MOVE}\ts_nop 3\n"),
        (f"{_LDS}163840", f"{_LDS}81920"),
    )


def _delete_a_nop(folder: Path) -> None:
    """In the listing as it was, which is written anew."""
    _replace(_listing(folder), (f"{_RECIPROCAL}\ts_nop 0\n", _RECIPROCAL))


def _weaken_a_wait(folder: Path) -> None:
    _replace(folder / "f4gemm_256x256.s", ("s_waitcnt lgkmcnt(0)", "s_waitcnt lgkmcnt(1)"))


def _edit_three_places(folder: Path) -> None:
    """Two instructions more; and one less, behind a branch that the shape does not take."""
    edited = _listing(folder)
    _replace(
        edited,
        (_MOVE, f"{_MOVE}\ts_nop 0\n"),
        ("\nlabel_0042:\n", "\nlabel_0042:\n\ts_nop 0\n"),
        ("\tv_accvgpr_read_b32 v10, a158\n", ""),
    )
    (folder / "rebuilt" / F4GEMM).write_bytes(coasm.assemble(edited.read_text()).data)


def _leave_out_an_operand(folder: Path) -> None:
    _replace(folder / "include" / "common.inc", ("\\out, \\out, \\out", "\\out, \\out"))


class Step(NamedTuple):
    """What is done before a command, and the exit status that the command has."""

    before: Callable[[Path], None] | None = None
    status: int = 0


_THEIR_BUILD = "coasm asm theirs.s --target gfx942 -I include --defsym TILE=64"

#: By page, the start of the command, and which of the page's commands that start so it is.
_STEPS: dict[tuple[str, str, int], Step] = {
    ("README.md", "coasm asm f4gemm", 1): Step(_insert_and_halve),
    ("README.md", "coasm verify f4gemm", 1): Step(status=1),
    ("README.md", "coasm lint f4gemm", 1): Step(_delete_a_nop, 1),
    ("equivalence.md", "coasm verify old.co", 1): Step(status=1),
    ("lint.md", "coasm lint f4gemm", 1): Step(_delete_a_nop, 1),
    ("lint.md", "coasm lint --fix f4gemm", 1): Step(_weaken_a_wait),
    ("listing.md", "coasm asm theirs.s", 1): Step(status=2),
    ("listing.md", "coasm lint theirs.s", 1): Step(status=1),
    ("listing.md", "coasm asm theirs.s", 3): Step(_leave_out_an_operand, 2),
    ("port.md", "coasm port mx_gemm.s", 1): Step(status=1),
    ("port.md", "coasm port dgemm.co --to gfx950", 1): Step(status=1),
    ("port.md", "coasm port fp8gemm.co", 1): Step(status=1),
    ("port.md", "coasm port quantize.co", 1): Step(status=1),
    ("run.md", "coasm run f4gemm --co-dir rebuilt --kernel", 1): Step(_edit_three_places, 2),
}

#: Not run here, and why.
_NOT_RUN = {
    "coasm --install-completion": "it writes to the user's shell; tests/install shows the script",
    "coasm run f4gemm --co-dir rebuilt --sweep": "a minute; tests/launch/test_emulated.py",
}


# --- the tests --------------------------------------------------------------------------------


def coasm_command(folder: Path, text: str) -> tuple[int, str]:
    """Run a command in *folder*; the exit status, and what a terminal would show."""
    done = subprocess.run(
        [sys.executable, "-m", *shlex.split(text)],
        cwd=folder,
        env={
            **os.environ,
            **{"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", "NO_COLOR": "1"},
            "COLUMNS": "100",
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    return done.returncode, done.stdout


@pytest.fixture
def folder(request: pytest.FixtureRequest, llvm: Llvm, tmp_path: Path) -> Path:
    """A folder with what a page names."""
    _FOLDERS[request.param](tmp_path, llvm)
    return tmp_path


def _step(command: Command, seen: Counter[tuple[str, str, int]]) -> Step:
    """The step of a command; *seen* counts how often each row's start has come."""
    found = Step()
    for (page, start, number), step in _STEPS.items():
        if page == command.page and command.text.startswith(start):
            seen[page, start, number] += 1
            if seen[page, start, number] == number:
                found = step
    return found


#: What only a command, or a text of Python, that needs an f4gemm object has.
_OF_F4GEMM = re.compile(r"f4gemm|fp8gemm|plain\.co| -m \d")


def _lacks(folder: Path, text: str) -> bool:
    return bool(_OF_F4GEMM.search(text)) and not (folder / F4GEMM).exists()


def _skip_if(lacking: list[str]) -> None:
    """What is there was run; what was not is said."""
    if lacking:
        pytest.skip(f"COASM_CORPUS names no folder with {_ORIGINAL}: not run: {lacking}")


_WITH_FOLDERS = [page for page in PAGES if page.name in _FOLDERS]


@pytest.mark.parametrize(
    ("folder", "page"),
    [(page.name, page) for page in _WITH_FOLDERS],
    indirect=["folder"],
    ids=[page.name for page in _WITH_FOLDERS],
)
def test_the_commands_of_a_page(folder: Path, page: Path) -> None:
    seen: Counter[tuple[str, str, int]] = Counter()
    lacking = []
    for command in commands(page):
        step = _step(command, seen)
        if command.text in _NOT_RUN:
            continue
        if _lacks(folder, command.text):
            lacking.append(command.text)
            continue
        if step.before:
            step.before(folder)
        status, printed = coasm_command(folder, command.text)
        assert status == step.status, f"{command.id}: {command.text}: {printed}"
        if command.output is not None:
            shown = " ".join(printed.split())
            assert pattern(command.output).fullmatch(shown), f"{command.id}: {printed}"
    for row in _STEPS:
        assert row[0] != page.name or seen[row] >= row[2], f"no such command: {row}"
    _skip_if(lacking)


def test_every_page_with_commands_is_run() -> None:
    """What would find no command would pass."""
    found = [command for page in PAGES for command in commands(page)]
    assert {command.page for command in found} == set(_FOLDERS) - {"editing.md"}
    assert len(found) > 40
    assert sum(command.output is not None for command in found) >= 14
    assert {command.text for command in found} >= set(_NOT_RUN)


# --- blocks that are no commands ----------------------------------------------------------------

_PYTHON = [block for page in PAGES for block in blocks(page) if block.language == "python"]


@pytest.mark.parametrize(
    ("folder", "block"),
    [(block.page, block) for block in _PYTHON],
    indirect=["folder"],
    ids=[f"{block.page}:{block.line}" for block in _PYTHON],
)
def test_python_runs(folder: Path, block: Block) -> None:
    """Without the statements that need an object which is not here."""
    statements = ast.parse("\n".join(block.lines)).body
    lacking = []
    if not (folder / F4GEMM).exists():
        names = {"product"}  # what coasm.run_f4gemm gives
        lacking = [s for s in statements if names & {ast.unparse(n) for n in ast.walk(s)}]
    kept = [ast.unparse(s) for s in statements if s not in lacking]
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(kept)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    shown = tuple(line.strip()[4:] for line in block.lines if line.strip().startswith("# >"))
    if shown:
        assert pattern(shown).fullmatch(" ".join(done.stdout.split())), done.stdout
    _skip_if([ast.unparse(s) for s in lacking])


def test_the_blocks_of_python_are_found() -> None:
    pages = {"README.md", "bundles.md", "editing.md", "layout.md", "lint.md", "port.md", "run.md"}
    assert {block.page for block in _PYTHON} == pages


def test_the_launch_file_of_a_page_is_that_of_the_examples() -> None:
    """Which is run by the tests of launches, and by what the example's first line says."""
    (block,) = (b for b in blocks(ROOT / "docs" / "run.md") if b.language == "yaml")
    example = (EXAMPLES / "vector_add.yaml").read_text().splitlines()
    assert [line for line in example if not line.startswith("# ")] == list(block.lines)


_TABLE = """\
\t.globl table
\t.protected table
\t.type table,@object
table:
\t.long 1
\t.size table, 4
"""
_ADDRESS = (
    "s_getpc_b64 s[12:13]\n\ts_add_u32 s12, s12, table@rel32@lo+4\n"
    "\ts_addc_u32 s13, s13, table@rel32@hi+12"
)

#: Blocks that show a part of a listing: the page, how they begin, and what the listing is of: the
#: f4gemm object, or a target and what its kernel's code begins with.
_EXCERPTS: dict[tuple[str, str], tuple[str, str] | None] = {
    ("README.md", "label_003D:"): None,
    ("README.md", "v_mfma_scale"): None,
    ("listing.md", "// Listing of"): None,
    ("listing.md", "   v_nop "): ("gfx942", ".long 0x7e000100"),
    ("listing.md", "v_mov_b32_e32 v201"): ("gfx1250", "s_set_vgpr_msb 64\n\tv_mov_b32 v201, v221"),
    ("listing.md", "s_getpc_b64"): ("gfx942", _ADDRESS),
}


def _block(page: str, start: str) -> Block:
    path = next(path for path in PAGES if path.name == page)
    (block,) = (block for block in blocks(path) if block.lines[0].startswith(start))
    return block


@pytest.mark.parametrize(("page", "start"), _EXCERPTS)
def test_what_is_shown_of_a_listing_is_in_it(
    page: str, start: str, llvm: Llvm, tmp_path: Path
) -> None:
    made = _EXCERPTS[page, start]
    if made:
        text = source({"k": f"\t{made[1]}\n\ts_endpgm"}, made[0], _TABLE)
        (tmp_path / F4GEMM).write_bytes(build(llvm, text, made[0]).data)
    elif not _f4gemm(tmp_path):
        _skip_if([f"{page}: {start}"])
    done, printed = coasm_command(tmp_path, f"coasm disasm {F4GEMM}")
    assert done == 0, printed
    text = (tmp_path / F4GEMM).with_suffix(".s").read_text()
    assert pattern(_block(page, start).lines).search(" ".join(text.split()))


def test_what_the_page_on_lint_allows_is_allowed() -> None:
    """The first line of the block in the place of the one that it is like."""
    allowed = _block("lint.md", "v_mul_f32 v2, v1, v1").lines[0]
    assert {found.rule for found in coasm.lint(listing(TOO_CLOSE))} == {"trans"}
    assert not coasm.lint(listing(TOO_CLOSE.replace("v_mul_f32 v2, v1, v1", allowed)))


#: Blocks that are nothing to be run here, and what looks after them.
_OTHERS = {
    ("README.md", "make run"): "test_docs_names; its command is run",
    ("README.md", "target "): "tests/asm/test_exact.py",
    ("bundles.md", "COASM_HIP_ALL"): "test_docs_names; the tests take this variable",
    ("how-it-is-built.md", ".co ──"): "a drawing",
    ("how-it-is-built.md", "python -m benchmarks"): "test_docs_names",
    ("install.md", "make run"): "test_docs_names; tests/install",
    ("install.md", "pip install"): "test_docs_names; tests/install; its commands are run",
    ("lint.md", "v_mul_f32 v2, v1, v1"): "the test above",
    ("run.md", "D[M, N]"): "a formula",
    ("where-to-touch.md", "FAMILY = "): "tests/launch/test_families.py",
    ("where-to-touch.md", "950: d:f32"): "tests/isa/test_new_instruction.py",
    ("where-to-touch.md", "_GFX95 = "): "tests/test_new_target.py",
    ("where-to-touch.md", '_p("gfx950"'): "tests/test_new_target.py",
    ("where-to-touch.md", '_fixed("made_up_bit"'): "tests/descriptor/test_new_field.py",
    ("where-to-touch.md", "def kernels("): "tests/cli/test_command.py",
    ("where-to-touch.md", "Rule("): "tests/linter/test_new_hazard.py",
}


def test_every_block_is_looked_after() -> None:
    """By one of the tests here, or by what the table says; which names nothing else."""
    with_commands = {(c.page, c.line) for page in PAGES for c in commands(page)}
    tables = {*_EXCERPTS, *_OTHERS}
    found = set()
    for block in (block for page in PAGES for block in blocks(page)):
        rows = {r for r in tables if r[0] == block.page and block.lines[0].startswith(r[1])}
        found |= rows
        lines = range(block.line, block.line + len(block.lines))
        has_command = any((block.page, line) in with_commands for line in lines)
        assert rows or has_command or block.language in ("python", "yaml"), block
    assert found == tables


def test_what_is_compared_is_seen_to_differ() -> None:
    """Numbers and words count, line ends do not, durations do not, ``…`` is anything."""
    shown = pattern(("text  different   1 inserted", "…", "time  0.5 s on", "the end"))
    assert shown.fullmatch("text different 1 inserted and more time 12.25 s on the end")
    assert not shown.fullmatch("text different 2 inserted and more time 12.25 s on the end")
    assert not shown.fullmatch("text different 1 inserted and more time 12.25 s on the end of it")
    assert not shown.fullmatch("text different 1 inserted and more time 12 s on the end")
