"""Debug information stays with the code that it was made for. It is clang's own (``-g``)."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

import coasm
from coasm.codeobject import CodeObject, load
from coasm.compare.unloaded import remarks
from coasm.llvm import Llvm

_SOURCE = """
kernel void scale(global float *out, int a, float c) {
  int at = __builtin_amdgcn_workitem_id_x();
  out[at] = c * (float)(a - at);
}
"""


@pytest.fixture(scope="module")
def compiled(llvm: Llvm, tmp_path_factory: pytest.TempPathFactory) -> CodeObject:
    folder = tmp_path_factory.mktemp("debug")
    (folder / "scale.cl").write_text(_SOURCE)
    command = [llvm.clang, "-cl-std=CL2.0", "-target", "amdgcn-amd-amdhsa", "-O1", "-g"]
    command += ["-mcpu=gfx942", "-nogpulib", "-w", "scale.cl", "-o", "scale.co"]
    subprocess.run(command, check=True, cwd=folder)
    return load((folder / "scale.co").read_bytes(), name="scale.co")


def _debug(co: CodeObject) -> dict[str, bytes]:
    return {s.name: s.data for s in co.sections if s.name.startswith(".debug_")}


def test_it_stays_where_the_code_is_the_same(compiled: CodeObject) -> None:
    assert len(_debug(compiled)) > 3
    text = coasm.disassemble(compiled).text
    assert coasm.assemble(text, like=compiled).data == compiled.data
    plain = coasm.assemble(text)
    assert _debug(load(plain.data)) == _debug(compiled)
    assert not any("debug" in warning for warning in plain.warnings)


@pytest.mark.parametrize("like", [False, True])
def test_it_goes_where_the_code_is_another(compiled: CodeObject, like: bool, llvm: Llvm) -> None:
    text = coasm.disassemble(compiled).text
    edited = text.replace("\ts_endpgm", "\ts_nop 3\n\ts_endpgm", 1)
    result = coasm.assemble(edited, like=compiled if like else None)
    made = load(result.data)
    assert not _debug(made)
    assert sum("debug information" in warning for warning in result.warnings) == 1
    assert b"scale.cl" not in result.data  # the strings are gone, not only their section headers
    said = subprocess.run(
        [llvm.readelf or "llvm-readelf", "-hlSs", "-"], input=result.data, capture_output=True,
        check=True,
    )  # fmt: skip
    assert b"warning" not in said.stderr


def test_data_that_moves_the_code_counts(compiled: CodeObject) -> None:
    """The same bytes at other addresses: a larger page of constants before the code."""
    text = coasm.disassemble(compiled).text
    moved = text.replace("\n\t.amdhsa_kernel scale", "\n\t.zero 8192\n\t.amdhsa_kernel scale", 1)
    assert moved != text
    made = load(coasm.assemble(moved, like=compiled).data)
    assert [s.data for s in made.code_sections] == [s.data for s in compiled.code_sections]
    assert not _debug(made)


def test_a_source_has_its_own(tmp_path: Path) -> None:
    """A listing that names no code keeps what it says: nobody else made it."""
    text = (
        '\t.amdgcn_target "amdgcn-amd-amdhsa--gfx942"\n\t.text\n\ts_endpgm\n'
        '\t.section .debug_str,"MS",@progbits,1\n\t.asciz "mine"\n'
    )
    assert b"mine" in coasm.assemble(text).data


@pytest.mark.parametrize("version", [4, 5])
def test_lines_of_the_source_are_llvms(version: int, llvm: Llvm, tmp_path: Path) -> None:
    (tmp_path / "scale.cl").write_text(_SOURCE)
    command = [llvm.clang, "-cl-std=CL2.0", "-target", "amdgcn-amd-amdhsa", "-O1", "-g"]
    command += [f"-gdwarf-{version}", "-mcpu=gfx942", "-nogpulib", "-w", "scale.cl", "-o", "s.co"]
    subprocess.run(command, check=True, cwd=tmp_path)
    said = subprocess.run(
        [llvm.objdump, "-d", "-l", "s.co"], check=True, cwd=tmp_path, capture_output=True, text=True
    ).stdout
    expected: list[tuple[str, str]] = []
    line = ""
    for text in said.partition("<scale>:")[2].partition("s_endpgm")[0].split("\n"):
        if text.startswith("; ") and "scale.cl:" in text:
            line = text.rpartition("/")[2]
        elif text.startswith("\t"):
            expected.append((text.partition("//")[0].strip(), line))
            line = ""
    listing = coasm.disassemble(tmp_path / "s.co").text
    shown = []
    body = listing.partition("\nscale:\n")[2].partition("\ts_endpgm")[0]
    for text in body.rstrip("\n").split("\n"):
        instruction, _, comment = text.partition("//")
        shown.append((instruction.strip(), comment.strip()))
    assert len({line for _, line in expected}) > 2
    assert shown == [row for row in expected if row[0]]


def test_a_file_name_is_no_text_of_the_listing(compiled: CodeObject) -> None:
    assert compiled.data.count(b"scale.cl\0") >= 1
    for name in (b'a";\ns_nop', b"pin 7E000100 over 7E000000"[:8], b"\xff\x1b[31m*/", b"/../../\0"):
        own = name[:8].ljust(8, b"\0")
        co = load(compiled.data.replace(b"scale.cl\0", own + b"\0"), name="scale.co")
        text = coasm.disassemble(co).text
        body = text.partition("\nscale:\n")[2].partition("\ts_endpgm")[0]
        comments = [line.partition("//")[2].strip() for line in body.split("\n")]
        assert all(re.fullmatch(r"(?:[A-Za-z0-9._+?-]+:\d+)?", c) for c in comments), comments
        assert any(comments)
        assert coasm.assemble(text, like=co).data == co.data


@pytest.mark.parametrize("options", [[], ["-Wl,--build-id=sha1"]])
def test_verify_says_what_became_of_it(options: list[str], llvm: Llvm, tmp_path: Path) -> None:
    (tmp_path / "scale.cl").write_text(_SOURCE)
    command = [llvm.clang, "-cl-std=CL2.0", "-target", "amdgcn-amd-amdhsa", "-mcpu=gfx942"]
    command += ["-nogpulib", "-w", "scale.cl", *options, "-o"]
    for debug, name in (["-g"], "with.co"), ([], "bare.co"):
        subprocess.run([*command, name, *debug], check=True, cwd=tmp_path)
    whole, bare = load(tmp_path / "with.co"), load(tmp_path / "bare.co")
    assert "without the original's debug information" in remarks(whole, bare)
    assert "with debug information that the original does not have" in remarks(bare, whole)
    entry = whole.kernels[0].entry
    section = whole.section_at(entry)
    assert section is not None
    edited = bytearray(whole.data)
    at = section.offset + entry - section.addr
    edited[at : at + 4] = bytes.fromhex("010080bf")  # s_nop 1
    path = tmp_path / "edited.co"
    path.write_bytes(edited)
    said = ["the original's debug information, which is of other code"]
    said += ["the original's build ID, though the files differ"] * len(options)
    assert list(remarks(whole, load(path))) == said
    report = coasm.verify(whole, path)
    assert list(report.remarks) == said == report.to_json()["remarks"]
    assert not coasm.verify(whole, whole).remarks
