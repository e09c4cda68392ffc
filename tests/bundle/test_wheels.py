"""Real libraries: those of two public wheels (tests/wheels.py).

Their figures are known from outside: eight libraries, 276 code objects, 29 gfx targets (gfx900 to
gfx1251), 24 to 151 kernels each.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
import zstandard

from coasm.bundle import embed, extract, find
from coasm.bundle.summary import kernel_entries
from coasm.codeobject import load
from coasm.llvm.find import Llvm
from tests.bundle.carriers import cc, run, tool
from tests.wheels import NAMES
from tests.wheels import library as find_library


@pytest.fixture(params=NAMES)
def library(request: pytest.FixtureRequest) -> Path:
    return find_library(request.param)


def _by_hand(data: bytes) -> list[tuple[str, bytes]]:
    """The images by a search for the magics, without ELF: another way than coasm's."""
    found: list[tuple[str, bytes]] = []
    at = 0
    while match := re.compile(rb"__CLANG_OFFLOAD_BUNDLE__|CCOB(?=[\2\3]\0[\0\1]\0)").search(
        data, at
    ):
        start = match.start()
        bundle = data[start:]
        at = start + 24
        if match[0] == b"CCOB":
            version, method = struct.unpack_from("<HH", data, start + 4)
            form, front = ("<II", 24) if version == 2 else ("<QQ", 32)
            total, size = struct.unpack_from(form, data, start + 8)
            packed = data[start + front : start + total]
            bundle = zstandard.decompress(packed, size) if method else zlib.decompress(packed)
            at = start + total
        count, place = struct.unpack_from("<Q", bundle, 24)[0], 32
        for _ in range(count):
            offset, size, length = struct.unpack_from("<QQQ", bundle, place)
            name = bundle[place + 24 : place + 24 + length].decode()
            place += 24 + length
            if size:
                found.append((name, bundle[offset : offset + size]))
    return found


def test_every_image_is_found(library: Path) -> None:
    entries = find(library)
    assert [(e.id, extract(e)) for e in entries] == _by_hand(library.read_bytes())
    for entry in entries:
        co = load(extract(entry))
        assert str(co.target) == entry.target
        names = [name for name, _ in kernel_entries(co)]
        assert 24 <= len(names) <= 151
        if entry.target == "gfx942":
            assert names == [kernel.name for kernel in co.kernels]


def test_the_known_figures() -> None:
    found = [entry for name in NAMES for entry in find(find_library(name))]
    targets = {entry.target for entry in found}
    assert (len(found), len(targets)) == (276, 29)
    assert {"gfx900", "gfx942", "gfx1251"} <= targets


def test_llvm_writes_the_same_from_plain_bundles(llvm: Llvm, tmp_path: Path) -> None:
    library = find_library("_scatter_cuda")
    (tmp_path / "x.so").symlink_to(library)
    run(tool(llvm, "llvm-objdump"), "--offloading", "x.so", cwd=tmp_path)
    written = {
        path.name.partition("--")[2]: path.read_bytes() for path in tmp_path.glob("x.so.*amdgcn*")
    }
    assert written == {entry.target: extract(entry) for entry in find(library)}


def _edited(data: bytes) -> bytes:
    """Another constant in the last kernel descriptor: its LDS size."""
    co = load(data)
    kernel = co.kernels[-1]
    section = co.section_at(kernel.descriptor_address)
    assert section is not None
    at = section.offset + kernel.descriptor_address - section.addr
    return data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :]


def test_embed_in_place(library: Path, tmp_path: Path) -> None:
    before = library.read_bytes()
    entries = find(library)
    chosen = entries[-3]
    assert embed(library, {chosen.name: extract(chosen)}).data == before
    new = _edited(extract(chosen))
    result = embed(library, {chosen.name: new})
    assert result.changes[0].where == "in place" and len(result.data) == len(before)
    (tmp_path / "new.so").write_bytes(result.data)
    held = chosen.container
    start, end = held.offset, held.offset + held.room
    assert result.data[:start] == before[:start] and result.data[end:] == before[end:]
    if not held.method:
        differ = [n for n in range(start, end) if result.data[n] != before[n]]
        assert len(differ) == 1
    wanted = [new if entry is chosen else extract(entry) for entry in entries]
    assert [extract(entry) for entry in find(tmp_path / "new.so")] == wanted


_STUB = """
const void *seen[64]; int count;
void **__hipRegisterFatBinary(void **wrapper)
{
    seen[count] = wrapper[1];
    return (void **)&seen[count++];
}
void __hipRegisterFunction(void) {} void __hipRegisterVar(void) {}
void __hipRegisterManagedVar(void) {} void __hipUnregisterFatBinary(void) {}
"""

_LOAD = """
import ctypes, hashlib, os, sys
stub = ctypes.CDLL(sys.argv[2], mode=ctypes.RTLD_GLOBAL)
ctypes.CDLL(sys.argv[1], mode=os.RTLD_LAZY)
count = ctypes.c_int.in_dll(stub, "count").value
assert count == len(sys.argv) - 3, count
for at, size in zip((ctypes.c_void_p * 64).in_dll(stub, "seen"), sys.argv[3:]):
    print(hashlib.sha256(ctypes.string_at(at, int(size))).hexdigest())
"""


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("lib")])
def test_library_with_a_new_segment_loads(llvm: Llvm, tmp_path: Path, name: str) -> None:
    """The dynamic linker takes it, and its constructors register the bundles, the new one too.

    The HIP libraries that it needs are replaced by ones that note what is registered.
    """
    if platform.machine() != "x86_64":
        pytest.skip("the library is for x86-64")
    library = find_library(name)
    entries = find(library)
    chosen = next(e for e in entries if e.target == "gfx1100" and e.number == 2)
    noise = b"".join(hashlib.sha256(bytes([n & 255, n >> 8])).digest() for n in range(4000))
    new = extract(chosen) + noise
    result = embed(library, {chosen.name: new})
    assert result.changes[0].where == "new segment"
    path = tmp_path / "new.so"
    path.write_bytes(result.data)
    wanted = [new if entry is chosen else extract(entry) for entry in entries]
    assert [extract(entry) for entry in find(path)] == wanted

    needed = run(tool(llvm, "llvm-readelf"), "-dW", library).stdout.decode()
    stubs = [
        found
        for found in re.findall(r"Shared library: \[(.*)\]", needed)
        if not re.match(r"lib(c|m|dl|pthread|stdc\+\+|gcc_s)\.so|ld-linux", found)
    ]
    (tmp_path / "stub.c").write_text(_STUB)
    for stub in stubs:
        command = (cc(), "-w", "-shared", "-fPIC", "stub.c", "-o", stub, f"-Wl,-soname,{stub}")
        run(*command, cwd=tmp_path)
    containers = list(dict.fromkeys(entry.container for entry in find(path)))
    done = subprocess.run(
        [sys.executable, "-c", _LOAD, path, stubs[-1], *(str(c.size) for c in containers)],
        cwd=tmp_path,
        env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    expected = [
        hashlib.sha256(result.data[c.offset : c.offset + c.size]).hexdigest() for c in containers
    ]
    assert done.stdout.split() == expected
