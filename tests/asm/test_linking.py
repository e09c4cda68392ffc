"""Objects that another ``ld.lld``, or one with other options, has linked.

The truth is the linker: what it wrote has to come out again, loaded image and file.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from coasm.asm.assemble import assemble
from coasm.asm.exact import exact_listing
from coasm.asm.linking import NO_PADDING, declared_linking, linking_of
from coasm.codeobject import load
from coasm.errors import CoasmError, UnsupportedError
from coasm.llvm import Llvm
from coasm.trips import roundtrip
from tests.fixtures.build import SOURCES

#: Name → source, target: one kernel alone, several, data with pointers behind the RELRO segment.
_OBJECTS = {
    "plain": ("vector_add.s", "gfx942"),
    "template": ("template.s", "gfx942"),
    "relocations": ("relocations.s", "gfx942"),
    "sections": ("sections.s", "gfx942"),
    "halves": ("template.s", "gfx1100"),
}
_OPTIONS = (
    "--no-rosegment",
    "-z norelro",
    "-z separate-code",
    "-z separate-loadable-segments",
    "-z execstack",
    "-z nognustack",
    "-z now",
    "-z nodelete -z origin",
    "-z max-page-size=65536",
    "--hash-style=gnu",
    "--hash-style=sysv",
    "--build-id",
    "--build-id=0x0123456789abcdef",
    "-soname kernels.so",
    "-rpath /opt/x",
    "-rpath /opt/x --disable-new-dtags",
    "--image-base=0x10000",
    "-Bsymbolic",
    "--emit-relocs",
    "--gc-sections",
    "--icf=all",
    "-O2",
    "-s",
    "-z norelro --no-rosegment --hash-style=sysv -z now",
)


def _other_linkers() -> list[str]:
    """Every ``ld.lld`` of LLVM 14 and later that is installed, by path."""
    found = {p.resolve() for p in Path("/usr/lib").glob("llvm-*/bin/ld.lld")}
    versions = range(14, 40)
    named = (shutil.which(f"ld.lld-{v}") for v in versions)
    found |= {Path(path).resolve() for path in named if path}
    return sorted(str(p.parent / "ld.lld") for p in found)


@pytest.fixture(scope="module")
def relocatable(llvm: Llvm, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The objects before they are linked; of code object v4, which LLD 14 knows."""
    folder = tmp_path_factory.mktemp("relocatable")
    found = {}
    for name, (source, target) in _OBJECTS.items():
        found[name] = folder / f"{name}.o"
        gfx, accum, wave = (940, 1, 64) if target == "gfx942" else (1100, 0, 32)
        macros = {
            "GFX": gfx,
            "HAS_ACCUM_OFFSET": accum,
            "WAVE": wave,
            "METADATA_MINOR": 1,
            "TARGET_STRING": f'"amdgcn-amd-amdhsa--{target}"',
        }
        command = [llvm.clang, "-x", "assembler-with-cpp", "-c", "-nogpulib", "-g"]
        command += ["--target=amdgcn-amd-amdhsa", f"-mcpu={target}", "-mcode-object-version=4"]
        command += [f"-D{key}={value}" for key, value in macros.items()]
        command += [str(SOURCES / source), "-o", str(found[name])]
        subprocess.run(command, check=True, cwd=SOURCES)
    return found


def _link(linker: str, source: Path, out: Path, options: Sequence[str] = ()) -> bytes:
    command = [linker, "-shared", "--no-undefined", *options, str(source), "-o", str(out)]
    subprocess.run(command, check=True, capture_output=True)
    return out.read_bytes()


def _comes_back(data: bytes, llvm: Llvm) -> None:
    result = roundtrip(load(data, name="linked.co"), llvm)
    assert (result.status, result.loaded_identical, result.file_identical) == ("ok", True, True)


def test_every_linker_that_is_installed(
    relocatable: dict[str, Path], llvm: Llvm, tmp_path: Path
) -> None:
    linkers = _other_linkers()
    if not linkers:
        pytest.skip("no ld.lld of another LLVM is installed (apt: lld-14, lld-16, lld-19)")
    for linker in linkers:
        for name, source in relocatable.items():
            data = _link(linker, source, tmp_path / f"{name}.co")
            _comes_back(data, llvm)


@pytest.mark.parametrize("options", _OPTIONS)
def test_the_options_of_a_linker(
    options: str, relocatable: dict[str, Path], llvm: Llvm, tmp_path: Path
) -> None:
    for name in ("relocations", "sections"):
        data = _link(llvm.lld, relocatable[name], tmp_path / "out.co", options.split())
        _comes_back(data, llvm)


def _without_padding(data: bytes) -> bytes:
    """What LLD 17 writes: no ``.relro_padding``, whose header is taken out by hand."""
    elf = load(data).elf
    padding = next(s for s in elf.sections if s.name == ".relro_padding")
    header = elf.header
    out = bytearray(data)
    for number, segment in enumerate(elf.segments):
        if segment.type == 1 and segment.vaddr + segment.memsz == padding.addr + padding.size:
            struct.pack_into("<Q", out, header.phoff + 56 * number + 40, segment.filesz)
    at = header.shoff + 64 * padding.index
    del out[at : at + 64]
    for number in range(header.shnum - 1):  # sh_link of what stands behind it
        place = header.shoff + 64 * number + 40
        (link,) = struct.unpack_from("<I", out, place)
        struct.pack_into("<I", out, place, link - (link > padding.index))
    struct.pack_into("<HH", out, 60, header.shnum - 1, header.shstrndx - 1)
    return bytes(out)


def test_an_object_without_padding(
    relocatable: dict[str, Path], llvm: Llvm, tmp_path: Path
) -> None:
    # Nothing loaded stands behind the padding of this one, so no symbol's section index moves.
    older = _without_padding(_link(llvm.lld, relocatable["plain"], tmp_path / "plain.co"))
    _comes_back(older, llvm)
    co = load(older)
    listing = exact_listing(co, llvm)
    declared = declared_linking(listing.text)
    assert declared is not None and NO_PADDING in declared
    edited = listing.text.replace("\ts_endpgm", "\ts_nop 0\n\ts_endpgm", 1)
    assert edited != listing.text
    made = load(assemble(edited, llvm.directory, like_object=co).data)
    assert [s.name for s in made.sections if s.alloc] == [s.name for s in co.sections if s.alloc]
    assert linking_of(made.elf) == (NO_PADDING,)  # and no debug sections, whose strings move


def test_clang_links_as_the_head_says(
    relocatable: dict[str, Path], llvm: Llvm, tmp_path: Path
) -> None:
    options = ["-z", "norelro", "--build-id=0xabcd", "--hash-style=gnu"]
    data = _link(llvm.lld, relocatable["sections"], tmp_path / "orig.co", options)
    listing = exact_listing(load(data), llvm, output="k.s").text
    (tmp_path / "k.s").write_text(listing)
    command = next(line for line in listing.split("\n") if line.startswith("// clang "))[3:]
    subprocess.run([llvm.clang, *command.split()[1:]], cwd=tmp_path, check=True)
    made = load((tmp_path / "k.rebuilt.co").read_bytes())
    assert linking_of(made.elf) == linking_of(load(data).elf) != ()


@pytest.mark.parametrize(
    "option",
    [
        "--script=/etc/passwd",
        "-o/tmp/elsewhere",
        "-zmax-page-size=1073741824",
        "-soname=$(touch x)",
        "--build-id=0x" + "00" * 65,
        "@response",
    ],
)
def test_other_options_are_refused(option: str, llvm: Llvm, relocatable: dict[str, Path]) -> None:
    text = f'// coasm: link {option}\n\t.amdgcn_target "amdgcn-amd-amdhsa--gfx942"\n'
    with pytest.raises(UnsupportedError, match="line 1"):
        declared_linking(text)
    with pytest.raises(CoasmError):
        assemble(f"{text}\t.amdhsa_code_object_version 6\n\ts_endpgm\n", llvm.directory)


def test_real_objects_of_an_older_lld(corpus: list[Path], llvm: Llvm) -> None:
    folder = Path(os.environ["COASM_CORPUS"]).parent / "older-lld"
    objects = sorted(folder.glob("*.co"))
    if not objects:
        pytest.skip(f"no objects in {folder}")
    for path in objects:
        _comes_back(path.read_bytes(), llvm)
