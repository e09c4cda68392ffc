"""What LLVM and pyelftools say of an object: the judges of the tests here."""

from __future__ import annotations

import io
import re
import struct
import subprocess
import tempfile
from pathlib import Path

from elftools.elf.elffile import ELFFile

from coasm.codeobject import CodeObject, load
from coasm.llvm.find import Llvm
from coasm.target import PROCESSORS
from tests.compare.objects import build, offset_of, source

__all__ = [
    "assembled",
    "built",
    "dump",
    "loaded",
    "loaded_sections",
    "offset_of",
    "patched_words",
    "symbols",
]

_LINE = re.compile(r"^\t(.*?)\s*// ([0-9A-F]{12,16}): ((?:[0-9A-F]{8} ?)+)", re.M)


def built(llvm: Llvm, body: str, target: str = "gfx942", version: int = 5) -> CodeObject:
    """A code object of one kernel ``k``."""
    # The helper writes .amdhsa_accum_offset by the target's name.
    like = target
    if not target.startswith("gfx1") and not PROCESSORS[target].family.accum_offset:
        like = "gfx803"
    return build(llvm, source({"k": body}, like), target, max(version, 6 * ("generic" in target)))


def patched_words(co: CodeObject, *words: tuple[int, int]) -> CodeObject:
    """A copy with other 32-bit words at those addresses."""
    data = bytearray(co.data)
    for address, word in words:
        at = offset_of(co, address)
        data[at : at + 4] = word.to_bytes(4, "little")
    return load(bytes(data), name="patched.co")


def assembled(llvm: Llvm, text: str, target: str) -> bytes:
    """The bytes that LLVM's assembler makes of *text* in ``.text``."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "a.o")
        command = [llvm.clang, "-c", "-x", "assembler", "--target=amdgcn-amd-amdhsa"]
        subprocess.run(
            [*command, f"-mcpu={target}", "-", "-o", str(out)], input=text.encode(), check=True
        )
        data: bytes = ELFFile(io.BytesIO(out.read_bytes())).get_section_by_name(".text").data()
        return data


def dump(llvm: Llvm, data: bytes) -> dict[int, tuple[str, bytes]]:
    """Address → (text, bytes) of each instruction, by llvm-objdump; nothing where that fails."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.co")
        path.write_bytes(data)
        done = subprocess.run([llvm.objdump, "-d", "-z", str(path)], capture_output=True)
    if done.returncode:
        return {}
    return {
        int(m[2], 16): (m[1], b"".join(int(w, 16).to_bytes(4, "little") for w in m[3].split()))
        for m in _LINE.finditer(done.stdout.decode("utf-8", "replace"))
    }


def symbols(data: bytes) -> dict[str, tuple[int, int]]:
    """Name → (address, size) of the symbol table, by pyelftools."""
    table = ELFFile(io.BytesIO(data)).get_section_by_name(".symtab")
    return {s.name: (s["st_value"], s["st_size"]) for s in table.iter_symbols()}


# The two that follow take damaged files too, at which pyelftools stops, so they read the tables by
# the layouts of the System V ABI.


def loaded(data: bytes) -> list[tuple[int, int, bytes]]:
    """(address, size in memory, bytes) of each PT_LOAD.

    ``e_shoff``, ``e_shnum`` and ``e_shstrndx``, which no loader reads, are left out.
    """
    blank = bytearray(data)
    blank[40:48], blank[60:64] = bytes(8), bytes(4)
    (at,), (count,) = struct.unpack_from("<Q", data, 32), struct.unpack_from("<H", data, 56)
    rows = [struct.unpack_from("<IIQQQQQQ", data, at + 56 * i) for i in range(count)]
    return [
        (vaddr, memory, bytes(blank[offset : offset + size]))
        for kind, _, offset, vaddr, _, size, memory, _ in rows
        if kind == 1
    ]


def loaded_sections(data: bytes) -> dict[str, tuple[int, bytes]]:
    """Name → (address, bytes) of the loaded PROGBITS and NOTE sections."""
    (at,) = struct.unpack_from("<Q", data, 40)
    count, names = struct.unpack_from("<HH", data, 60)
    rows = [struct.unpack_from("<IIQQQQIIQQ", data, at + 64 * i) for i in range(count)]
    found = {}
    for name, kind, flags, address, offset, size, *_ in rows:
        if kind in (1, 7) and flags & 2:
            start = rows[names][4] + name
            text = data[start : data.index(b"\0", start)].decode("utf-8", "surrogateescape")
            found[text] = (address, data[offset : offset + size])
    return found
