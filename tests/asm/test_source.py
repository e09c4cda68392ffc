"""Assembly that coasm did not write. The judge is plain clang on the same file."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

import coasm
from coasm.__main__ import main
from coasm.asm.code import Instruction
from coasm.asm.decode import decode
from coasm.asm.source import BuiltSource, SourceOptions, build
from coasm.errors import AssemblyError, CoasmError, UnsupportedError
from coasm.llvm.find import Llvm

#: A kernel that stores to ``out``; what stands in for BODY, HEAD and VERSION differs.
_KERNEL = """\
HEAD
    .text
    .globl NAME
    .p2align 8
    .type NAME,@function
NAME:
BODY
    s_endpgm
    .size NAME, .-NAME
    .rodata
    .p2align 6
    .amdhsa_kernel NAME
        .amdhsa_user_sgpr_kernarg_segment_ptr 1
        .amdhsa_next_free_vgpr 32
        .amdhsa_next_free_sgpr 32
ACCUM
    .end_amdhsa_kernel
"""
_ENTRY = """\
  - .name: NAME
    .symbol: NAME.kd
    .kernarg_segment_size: 8
    .group_segment_fixed_size: 0
    .private_segment_fixed_size: 0
    .kernarg_segment_align: 8
    .wavefront_size: WAVE
    .sgpr_count: 32
    .vgpr_count: 32
    .max_flat_workgroup_size: 64
    .args:
      - { .name: out, .size: 8, .offset: 0, .value_kind: global_buffer, .address_space: global }
"""


def _source(
    body: str,
    *,
    head: str = "",
    version: str = "[1, 2]",
    wave: int = 64,
    accum: bool = True,
    names: tuple[str, ...] = ("k",),
    target: str = "",
) -> str:
    kernels = "".join(
        _KERNEL.replace("BODY", body)
        .replace("HEAD", head if name == names[0] else "")
        .replace("ACCUM", "        .amdhsa_accum_offset 32" if accum else "")
        .replace("NAME", name)
        for name in names
    )
    entries = "".join(_ENTRY.replace("NAME", name).replace("WAVE", str(wave)) for name in names)
    said = f"amdhsa.target: {target}\n" if target else ""
    return (
        f"{kernels}    .amdgpu_metadata\n---\namdhsa.version: {version}\n{said}"
        f"amdhsa.kernels:\n{entries}...\n    .end_amdgpu_metadata\n"
    )


def _clang(llvm: Llvm, path: Path, target: str, version: int, *extra: str) -> bytes:
    """What clang makes of a file, in its folder."""
    out = path.with_suffix(".clang.co")
    subprocess.run(
        [
            *(llvm.clang, "-x", "assembler", "-target", "amdgcn-amd-amdhsa", f"-mcpu={target}"),
            *(f"-mcode-object-version={version}", *extra, path.name, "-o", str(out)),
        ],
        check=True,
        cwd=path.parent,
        capture_output=True,
    )
    return out.read_bytes()


#: What hand-written sources use, a body each.
_FEATURES = {
    "set": """\
    .set v_tmp, 3
    .set s_a, 4
    v_mov_b32 v[v_tmp+1], s[s_a+1]
    s_mov_b64 s[s_a:s_a+1], s[s_a+2:s_a+3]""",
    "equals": """\
    tmp = 5
    .cnt = 0
    .cnt = .cnt + tmp
    v_mov_b32 v[.cnt], 1.0""",
    "macro": """\
    .macro add2 d, s=v1
    v_add_u32 \\d, \\s, \\s
    .endm
    add2 v0
    add2 v0, v2""",
    "dot-macro": """\
    .macro .v_two d:req, rest:vararg
    v_mov_b32 \\d, \\rest
    .endm
    .v_two v0, 7""",
    "rept": """\
    .i = 0
    .rept 3
    v_mov_b32 v[.i], .i
    .i = .i + 1
    .endr""",
    "irp": """\
    .irp r, 1, 2, 5
    v_mov_b32 v\\r, \\r
    .endr
    .irpc c, 34
    v_mov_b32 v\\c, 0
    .endr""",
    "if": """\
    .set on, 1
    .if on == 1
    s_nop 1
    .elseif on == 2
    s_nop 2
    .else
    bogus
    .endif
    .ifdef nowhere
    bogus
    .endif
    .ifndef nowhere
    s_nop 3
    .endif""",
    "local": """\
1:  s_sub_u32 s0, s0, 1
    s_cbranch_scc0 1b
    s_branch 1f
1:  s_nop 0""",
    "comments": """\
    s_nop 0 // one
    s_nop 1 ; two
    s_nop /* three */ 2
/* four
    s_nop 9 */ s_nop 3
# five""",
    "data": """\
    s_branch over
    .long 0xbf800000, 7
    .fill 4, 4, 0xbf800000
over:
    .long 0xbf800001""",
    "sections": """\
    s_nop 0
    .section .text.cold,"ax",@progbits
    s_nop 1
    .text
    .pushsection .extra
    .long 1
    .popsection""",
    "altmacro": """\
    .altmacro
    .macro m x
    s_nop x
    .endm
    m %1+2
    .noaltmacro""",
}


@pytest.mark.parametrize("feature", _FEATURES)
def test_what_llvm_takes_is_taken(tmp_path: Path, llvm: Llvm, feature: str) -> None:
    path = tmp_path / "k.s"
    path.write_text(_source(_FEATURES[feature]))
    result = coasm.assemble(path.read_text(), target="gfx942", name=str(path))
    assert result.data == _clang(llvm, path, "gfx942", 6)
    assert all(finding.level for finding in coasm.lint(str(path), target="gfx942"))


@pytest.mark.parametrize(
    ("target", "wave", "body"),
    [
        ("gfx906:xnack-", 64, "    v_add_u32 v0, v1, v2"),
        ("gfx90a:sramecc+:xnack-", 64, "    v_pk_mov_b32 v[0:1], v[2:3], v[4:5]"),
        ("gfx950", 64, "    v_prng_b32 v0, v1"),
        ("gfx1030", 32, "    v_cmp_gt_u32 vcc_lo, v0, v1"),
        ("gfx1201", 32, "    s_wait_loadcnt 0x0"),
        ("gfx1250", 32, "    s_wait_tensorcnt 0x0"),
        ("gfx9-4-generic", 64, "    v_mov_b64 v[0:1], v[2:3]"),
    ],
)
@pytest.mark.parametrize("said_by", ["directive", "metadata", "option"])
def test_the_target(
    tmp_path: Path, llvm: Llvm, target: str, wave: int, body: str, said_by: str
) -> None:
    """The directive may stand at any place: here it is the last line."""
    full = f"amdgcn-amd-amdhsa--{target}"
    text = _source(
        body,
        wave=wave,
        accum=target.startswith(("gfx90a", "gfx95", "gfx9-4")),
        target=full if said_by == "metadata" else "",
    )
    if said_by == "directive":
        text += f'    .amdgcn_target "{full}"\n'
    path = tmp_path / "k.s"
    path.write_text(text)
    option = target if said_by == "option" else None
    result = coasm.assemble(text, target=option)
    assert result.data == _clang(llvm, path, target, 6)
    assert str(result.target) == str(coasm.load(result.data).target) == target


@pytest.mark.parametrize(
    "directive", ["amdgcn-amd-amdhsa-unknown-gfx942", "amdgpu9.42-amd-amdhsa-unknown-gfx942"]
)
def test_the_target_as_newer_compilers_write_it(tmp_path: Path, llvm: Llvm, directive: str) -> None:
    """Triton's; the second is LLVM 23's name for what LLVM 22 knows as amdgcn."""
    plain = _source("    s_nop 1")
    path = tmp_path / "k.s"
    path.write_text(plain)
    text = f'    .amdgcn_target "{directive}"\n{plain}'
    assert coasm.assemble(text).data == _clang(llvm, path, "gfx942", 6)


@pytest.mark.parametrize(
    ("metadata", "directive", "option", "version"),
    [
        ("[ 1, 0 ]", "", None, 4),
        ("\n  - 1\n  - 1", "", None, 4),
        ("[1, 2]", "", None, 6),
        ("[1, 2]", "", 5, 5),
        ("[1, 2]", "    .amdhsa_code_object_version 5\n", None, 5),
    ],
)
def test_the_code_object_version(
    tmp_path: Path,
    llvm: Llvm,
    capsys: pytest.CaptureFixture[str],
    metadata: str,
    directive: str,
    option: int | None,
    version: int,
) -> None:
    """LLVM 22's default is v6; it does not write v3, of which metadata 1.0 is."""
    path = tmp_path / "k.s"
    path.write_text(directive + _source("    s_nop 1", version=metadata))
    given = [] if option is None else [f"--code-object-version={option}"]
    assert main(["asm", str(path), "--target", "gfx942", *given]) == 0
    data = path.with_suffix(".rebuilt.co").read_bytes()
    assert data == _clang(llvm, path, "gfx942", version)
    assert data[8] == version - 2  # EI_ABIVERSION
    said = capsys.readouterr().err
    assert (f"code object v{version}" in said) == (not directive and option is None)


def test_what_the_command_line_gives(tmp_path: Path, llvm: Llvm) -> None:
    folder = tmp_path / "inc"
    folder.mkdir()
    (folder / "sizes.inc").write_text(".set SIZE, TILE * 2\n")
    (tmp_path / "beside.inc").write_text("    s_nop SIZE\n")
    path = tmp_path / "k.s"
    body = '    .include "sizes.inc"\n    .include "beside.inc"\n    s_mov_b32 s0, SIZE'
    path.write_text(_source(body))
    out = tmp_path / "k.co"
    arguments = ["asm", str(path), "-o", str(out), "--target", "gfx942", "-I", str(folder)]
    assert main([*arguments, "--defsym", "TILE=3"]) == 0
    expected = _clang(llvm, path, "gfx942", 6, "-I", "inc", "-Wa,-defsym,TILE=3")
    assert out.read_bytes() == expected
    for command in ("lint", "info"):
        assert main([command, str(path), *arguments[4:], "--defsym", "TILE=3"]) == 0
    bare = tmp_path / "bin"  # LLVM without llvm-mc: clang assembles
    bare.mkdir()
    for tool, found in (
        ("clang", llvm.clang),
        ("ld.lld", llvm.lld),
        ("llvm-objdump", llvm.objdump),
    ):
        (bare / tool).symlink_to(found)
    assert main([*arguments, "--defsym", "TILE=3", "--llvm", str(bare), "--force"]) == 0
    assert out.read_bytes() == expected
    with pytest.raises(AssemblyError, match=r"beside\.inc:1:11: error: invalid operand"):
        coasm.assemble(path.read_text(), name=str(path), target="gfx942", include=[str(folder)])


def test_the_c_preprocessor(tmp_path: Path, llvm: Llvm) -> None:
    """As clang has it: of a .S file, and of no other."""
    (tmp_path / "k.h").write_text("#define TWICE(r) v_add_u32 r, r, r\n")
    body = (
        '#include "k.h"\n#if 0\n    bogus\n#endif\n    TWICE(v1)\n'
        "#ifdef __gfx942__\n    v_rcp_f32 v1, v0\n    v_mul_f32 v2, v1, v1\n#endif"
    )
    path = tmp_path / "k.S"
    text = _source(body)
    path.write_text(text)
    result = coasm.assemble(text, target="gfx942", name=str(path))
    expected = tmp_path / "k.co"
    subprocess.run(
        [llvm.clang, "-target", "amdgcn-amd-amdhsa", "-mcpu=gfx942", str(path), "-o", expected],
        check=True,
    )
    assert result.data == expected.read_bytes()
    (found,) = coasm.lint(str(path), target="gfx942")
    assert found.place.line == text.split("\n").index("    v_mul_f32 v2, v1, v1") + 1
    with pytest.raises(AssemblyError, match=r"k\.s:\d+:5: error: invalid instruction\n    bogus"):
        coasm.assemble(text, target="gfx942", name="k.s")


def test_a_file_that_includes_itself(tmp_path: Path) -> None:
    (tmp_path / "one.inc").write_text('    .include "two.inc"\n')
    (tmp_path / "two.inc").write_text('    .include "one.inc"\n')
    text = '    .include "one.inc"\n'
    with pytest.raises(CoasmError, match=r"k\.s: .*\.inc includes itself"):
        coasm.assemble(text, target="gfx942", name="k.s", include=[str(tmp_path)])


@pytest.mark.parametrize(
    ("target", "flags"),
    [
        ("gfx90a:xnack-", ["-O0"]),
        ("gfx942", ["-O2", "-g"]),
        ("gfx1030", ["-O2", "-mwavefrontsize64", "-mcode-object-version=4"]),
        ("gfx1250", ["-O1", "-g", "-mcode-object-version=5"]),
    ],
)
def test_what_compilers_write(tmp_path: Path, llvm: Llvm, target: str, flags: list[str]) -> None:
    """Every instruction but padding has the line that it stands on, with -g too."""
    path = tmp_path / "k.s"
    command = [llvm.clang, "-target", "amdgcn-amd-amdhsa", f"-mcpu={target}", *flags, "-nogpulib"]
    language = ["-w", "-x", "cl", "-cl-std=CL2.0", "-Xclang", "-finclude-default-header", "-S"]
    kernels = Path(__file__).parent.parent / "fixtures" / "compiled.cl"
    subprocess.run([*command, *language, str(kernels), "-o", str(path)], check=True)
    made = build(path.read_text(), str(path))
    version = made.what.code_object_version
    wave = [flag for flag in flags if flag.startswith("-mwave")]
    assert made.data == _clang(llvm, path, target, version, *wave)
    lines = path.read_text().split("\n")
    checked = 0
    for items in decode(made.co, made.llvm, extra=tuple(made.what.features)).values():
        for item in items:
            if isinstance(item, Instruction) and item.text not in ("s_nop 0", "s_code_end"):
                line = made.lines[item.address]
                assert line.root == line.spot.line
                assert re.sub(r"_e(32|64)$", "", item.mnemonic) in lines[line.root - 1]
                checked += 1
    assert checked > 500


def test_several_kernels(tmp_path: Path, llvm: Llvm) -> None:
    path = tmp_path / "k.s"
    path.write_text(_source("    s_nop 1", names=("first", "second", "third")))
    result = coasm.assemble(path.read_text(), target="gfx950")
    assert result.data == _clang(llvm, path, "gfx950", 6)
    co = coasm.load(str(path), target="gfx950")
    assert co.data == result.data
    assert [kernel.name for kernel in co.kernels] == ["first", "second", "third"]


def test_code_alone(tmp_path: Path, llvm: Llvm, capsys: pytest.CaptureFixture[str]) -> None:
    """No kernel, no metadata: asm makes what clang makes, and lint judges the instructions."""
    path = tmp_path / "k.s"
    path.write_text("    v_rcp_f32 v1, v0\n    v_mul_f32 v2, v1, v1\n")
    assert main(["asm", str(path), "--target", "gfx942"]) == 0
    assert path.with_suffix(".rebuilt.co").read_bytes() == _clang(llvm, path, "gfx942", 6)
    capsys.readouterr()
    assert main(["lint", str(path), "--target", "gfx942"]) == 1
    assert f"{path}:2:19: error[trans]" in capsys.readouterr().out


def test_waves_of_64_lanes_and_halves(llvm: Llvm) -> None:
    """The text says what it was written for, or LLVM does: it takes only one of the two."""
    body = "    v_cmp_gt_u32 s[4:5], v0, v1"
    text = _source(body, accum=False, wave=64)
    with pytest.raises(subprocess.CalledProcessError):
        subprocess.run(
            [
                *(llvm.clang, "-x", "assembler", "-target", "amdgcn-amd-amdhsa"),
                *("-mcpu=gfx1030", "-c", "-", "-o", "/dev/null"),
            ],
            input=text.encode(),
            check=True,
            capture_output=True,
        )
    made = build(text, options=SourceOptions("gfx1030"))
    assert made.what.features == ("+wavefrontsize64",)
    made = build(body + "\n", options=SourceOptions("gfx1030"))
    assert any("+wavefrontsize64" in note for note in made.notes)
    for half in ("v_add_f16 v0.l, v1.l, v2.h", "v_add_f16 v0, v1, v2"):
        assert build(half + "\n", options=SourceOptions("gfx1100")).data


# What is not as it says


def test_targets_that_differ(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directive = '    .amdgcn_target "amdgcn-amd-amdhsa--gfx942"\n'
    text = directive + _source("    s_nop 1")
    for other in ("gfx90a", "gfx942:xnack-", "gfx942:sramecc+"):
        with pytest.raises(UnsupportedError, match=rf":1: .*gfx942, --target {re.escape(other)};"):
            coasm.assemble(text, target=other)
    stale = _source("    s_nop 1", target="amdgcn-amd-amdhsa--gfx90a")
    with pytest.raises(UnsupportedError, match=r"amdhsa\.target says gfx90a, --target gfx942"):
        coasm.assemble(stale, target="gfx942")
    said = "its amdhsa.target says gfx90a, but it is assembled for gfx942"
    path = tmp_path / "k.s"
    path.write_text(directive + stale)
    for command in ("asm", "lint", "info"):
        assert main([command, str(path)]) == 0
        shown = capsys.readouterr()
        assert said in shown.err + shown.out


def test_a_target_that_only_the_assembler_finds(tmp_path: Path, llvm: Llvm) -> None:
    """A macro says it; and a comment says another one."""
    text = (
        '/*\n    .amdgcn_target "amdgcn-amd-amdhsa--gfx90a"\n*/\n    .macro for gfx\n'
        '    .amdgcn_target "amdgcn-amd-amdhsa--\\gfx"\n    .endm\n    for gfx942\n'
    )
    made = build(text + _source("    s_nop 1", target="amdgcn-amd-amdhsa--gfx942"))
    assert str(made.what.target) == "gfx942"
    with pytest.raises(UnsupportedError, match="says gfx942, --target gfx950"):
        build(text, options=SourceOptions("gfx950"))


_942 = '.amdgcn_target "amdgcn-amd-amdhsa--gfx942"\n'


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        ("s_nop 0\n", {}, "no .amdgcn_target, and no amdhsa.target .* --target gfx942"),
        (
            "\n.hsa_code_object_version 2,1\n.hsa_code_object_isa 9,0,0\n",
            {},
            ":2: .hsa_code_object_version is of code object v2",
        ),
        (
            ".amd_amdgpu_hsa_metadata\n.end_amd_amdgpu_hsa_metadata\n",
            {"target": "gfx900"},
            ":1: .amd_amdgpu_hsa_metadata is of code object v2",
        ),
        (f"{_942}.amdhsa_code_object_version 5\n", {"code_object_version": 4}, "says 5, .* 4"),
        (f"{_942}.amdhsa_code_object_version 3\n", {}, "does not write code object v3"),
        ("s_nop 0\n", {"target": "gfx942:fast+"}, "unknown setting 'fast\\+'"),
        ("s_nop 0\n", {"target": "gfx9000"}, "unknown gfx target"),
        (f"{_942}s_nop 0\n", {"defsym": ("X",)}, "expected NAME=VALUE"),
        (f"{_942}s_nop 0\n", {"include": ("no/such",)}, "-I no/such: no such folder"),
        ('.amdgcn_target "amdgcn-amd-amdpal--gfx1030"\n', {}, "only amdhsa is handled"),
        (f"{_942}s_branch nowhere\n", {}, "k.s:2:10: error: undefined label 'nowhere'"),
        (
            f"{_942}s_mov_b32 s0, there@rel32@lo\n",
            {},
            "k.s: the linker refused the object:\n.*there",
        ),
    ],
)
def test_what_is_refused(text: str, options: dict[str, object], words: str) -> None:
    with pytest.raises(CoasmError, match=words) as caught:
        coasm.assemble(text, name="k.s", **options)  # type: ignore[arg-type]
    assert "<stdin>" not in str(caught.value)


def test_options_are_for_sources(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "k.co"
    path.write_bytes(coasm.assemble(_source("    s_nop 1"), target="gfx942").data)
    for command in ("lint", "info"):
        assert main([command, str(path), "--target", "gfx942"]) == 2
        assert "no assembly source" in capsys.readouterr().err


# Lines: each instruction's immediate is the number of its line.


def _check_lines(made: BuiltSource, expected: dict[int, str]) -> None:
    """*expected*: the immediate of an s_movk_i32 → where lint says that it is."""
    found: dict[int, str | None] = {}
    for items in decode(made.co, made.llvm).values():
        for item in items:
            if isinstance(item, Instruction) and item.mnemonic == "s_movk_i32":
                found[int(item.text.split(", ")[1], 0)] = made.line_of(item.address)
    assert found == expected


_DEFINITIONS = """\
    .macro inner v
    s_movk_i32 s0, \\v
    .endm
    .macro outer v

    s_movk_i32 s0, \\v+1
    inner \\v
    .endm
"""


def test_lines_of_macros_and_files(tmp_path: Path) -> None:
    (tmp_path / "defs.inc").write_text(_DEFINITIONS)
    (tmp_path / "code.inc").write_text("    s_movk_i32 s0, 601\n    inner 602\n")
    text = (
        '    .include "defs.inc"\n'  # line 1
        "    s_movk_i32 s0, 100\n"
        "    inner 200\n"
        "    outer 300\n"
        "    .rept 1\n"  # 5
        "    s_movk_i32 s0, 400\n"
        "    inner 500\n"
        "    .endr\n"
        '    .if 0\n    .include "nowhere.inc"\n    .endif\n'
        '    .include "code.inc"\n'  # 12
        "    .loc 1 77\n    s_movk_i32 s0, 700 ; not line 77\n"
        "    .long 0xb0000000 + 800\n"  # 15: s_movk_i32 s0, 800
        "/* a comment\n*/ s_movk_i32 s0, 900\n"
    )
    path = tmp_path / "k.s"
    path.write_text('    .file 1 "other.cl"\n' + text)
    made = build(path.read_text(), str(path), SourceOptions("gfx942"))
    here, defs, code = path, tmp_path / "defs.inc", tmp_path / "code.inc"
    _check_lines(
        made,
        {
            100: f"{here}:3",
            200: f"{here}:4 (in macro inner, {defs}:2)",
            301: f"{here}:5 (in macro outer, {defs}:6)",
            300: f"{here}:5 (in macro inner, {defs}:2)",
            400: f"{here}:7",
            500: f"{here}:8 (in macro inner, {defs}:2)",
            601: f"{code}:1",
            602: f"{code}:2 (in macro inner, {defs}:2)",
            700: f"{here}:15",
            800: f"{here}:16",
            900: f"{here}:18",
        },
    )
    assert {line.root for line in made.lines.values()} == {3, 4, 5, 7, 8, 13, 15, 16, 18}


def test_messages_name_the_users_lines(tmp_path: Path) -> None:
    (tmp_path / "defs.inc").write_text(
        "    .macro bad r\n    s_nop 0\n    v_bogus \\r\n    .endm\n"
    )
    text = (
        '    .include "defs.inc"\n'
        "    bad v1\n"
        "    .rept 40\n    s_nop 1\n    s_bogus 99999\n    .endr\n"
        "    v_mov_b32 v0\n"
        "    .macro outer\n    bad v2\n    .endm\n    outer\n"
    )
    path = tmp_path / "k.s"
    path.write_text(text)
    with pytest.raises(AssemblyError) as caught:
        coasm.assemble(text, name=str(path), target="gfx942")
    said = str(caught.value)
    defs = tmp_path / "defs.inc"
    places = re.findall(r"^(.+?:\d+):\d+: (?:error|note):", said, re.M)
    assert places[:2] == [f"{defs}:3", f"{path}:2"]
    assert f"{path}:7" in places
    assert places[-3:] == [f"{defs}:3", f"{path}:9", f"{path}:11"]
    assert f"{path}:5" in places and f"{path}:3" in places
    assert "<stdin>" not in said and "<instantiation>" not in said
    assert said.count("99999") < 4  # of 40 rounds


def test_lint_in_macros_and_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """v_rcp_f32 needs a wait state before its reader: see tests/linter."""
    (tmp_path / "code.inc").write_text("    v_rcp_f32 v1, v0\n    v_mul_f32 v2, v1, v1\n")
    body = (
        "    .macro read r\n    v_mul_f32 v2, \\r, \\r\n    .endm\n"
        '    v_rcp_f32 v1, v0\n    read v1\n    s_nop 4\n    .include "code.inc"\n'
    )
    path = tmp_path / "k.s"
    path.write_text(_source(body, head='    .amdgcn_target "amdgcn-amd-amdhsa--gfx942"'))
    lines = path.read_text().split("\n")
    use, made = lines.index("    read v1") + 1, lines.index("    v_mul_f32 v2, \\r, \\r") + 1
    assert main(["lint", str(path)]) == 1
    said = [line for line in capsys.readouterr().out.split("\n") if "error[trans]" in line]
    assert said[0].startswith(f"{path}:{use}:10: error[trans]")
    assert f"at line {use - 1}," in said[0]
    assert said[0].endswith(f"(in macro read, {path}:{made})")
    assert said[1].startswith(f"{tmp_path / 'code.inc'}:2:19: error[trans]")
    assert main(["lint", str(path), "--json"]) == 1
    places = [found["place"] for found in json.loads(capsys.readouterr().out)["findings"]]
    assert [place["line"] for place in places] == [use, 2]
    assert [place["file"] for place in places] == [None, str(tmp_path / "code.inc")]
    # A comment silences it in the macro's body and in the included file as well.
    allow = " // coasm: allow trans"
    lines[made - 1] += allow
    path.write_text("\n".join(lines))
    (tmp_path / "code.inc").write_text(f"    v_rcp_f32 v1, v0\n    v_mul_f32 v2, v1, v1{allow}\n")
    assert main(["lint", str(path)]) == 0


def test_faults_name_the_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body = (
        "    .macro store r\n    global_store_dword v1, \\r, s[4:5]\n    .endm\n"
        "    s_load_dwordx2 s[4:5], s[0:1], 0x0\n    v_lshlrev_b32 v1, 2, v0\n"
        "    WAIT\n    store v0"
    )
    spec, path = tmp_path / "k.yaml", tmp_path / "k.s"
    spec.write_text(
        "object: k.s\ngrid: 1\nworkgroup: 64\n"
        "buffers:\n  out: {dtype: u32, shape: 64, fill: zeros}\narguments: {out: out}\n"
        "outputs:\n  out: {compare: {npy: out.npy}}\n"
    )
    np.save(tmp_path / "out.npy", np.arange(64, dtype=np.uint32))
    command = ["run", "--spec", str(spec), "--target", "gfx942", "--backend", "emulator"]
    path.write_text(_source(body.replace("WAIT", "s_waitcnt lgkmcnt(0)")))
    assert main(command) == 0
    capsys.readouterr()
    path.write_text(_source(body.replace("WAIT", "s_nop 0")))
    assert main(command) == 2
    lines = path.read_text().split("\n")
    use = lines.index("    store v0") + 1
    assert f", {path}:{use} (in macro store, {path}:{use - 5})" in capsys.readouterr().err
