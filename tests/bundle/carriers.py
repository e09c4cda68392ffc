"""Bundles written here, by the format's description, and host programs that carry them."""

from __future__ import annotations

import hashlib
import shutil
import struct
import subprocess
import zlib
from collections.abc import Sequence
from pathlib import Path

import pytest
import zstandard

from coasm.llvm.find import Llvm
from tests.compare.objects import build, source

HOST = ("host-x86_64-unknown-linux-gnu-", b"")


def entry_id(target: str) -> str:
    return f"hipv4-amdgcn-amd-amdhsa--{target}"


def device(llvm: Llvm, target: str, *kernels: str, body: str = "s_nop 0", pad: int = 0) -> bytes:
    """A code object with these kernels; *pad* bytes of constants make it larger."""
    # Bytes that no compressor makes small: a digest for each block.
    noise = b"".join(hashlib.sha256(bytes([n & 255, n >> 8])).digest() for n in range(pad // 32))
    rodata = "".join(f"\t.byte {','.join(map(str, noise[n : n + 64]))}\n"
                     for n in range(0, len(noise), 64))  # fmt: skip
    bodies = {name: f"\t{body}\n\ts_endpgm" for name in kernels}
    return build(llvm, source(bodies, target, rodata), target).data


def bundle(images: Sequence[tuple[str, bytes]], align: int = 4096) -> bytes:
    """Source: Clang documentation, "Bundled Binary File Layout"."""
    front = 32 + sum(24 + len(name) for name, _ in images)
    at = end = -(-front // align) * align
    records, body = b"", b""
    for name, data in images:
        records += struct.pack("<QQQ", at + len(body), len(data), len(name)) + name.encode()
        if data:
            end = at + len(body) + len(data)
        body += data + bytes(-len(data) % align)
    head = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(images)) + records
    return (head + bytes(at - front) + body)[:end]


def ccob(data: bytes, version: int, method: str, *, claims: int | None = None) -> bytes:
    """Source: Clang documentation, "Compression and Decompression"."""
    body = zlib.compress(data) if method == "zlib" else zstandard.compress(data)
    size = len(data) if claims is None else claims
    head = b"CCOB" + struct.pack("<HH", version, ("zlib", "zstd").index(method))
    digest = hashlib.md5(data).digest()[:8]
    total = {1: 20, 2: 24, 3: 32}[version] + len(body)
    sizes = {
        1: struct.pack("<I", size),
        2: struct.pack("<II", total, size),
        3: struct.pack("<QQ", total, size),
    }[version]
    return head + sizes + digest + body


_PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
struct wrapper { unsigned magic, version; const unsigned char *binary; const void *unused; };
extern struct wrapper first_wrapper[];
#ifdef BIG
char zeros[BIG];
#endif
const void *binary(int index) { return first_wrapper[index].binary; }
int main(int argc, char **argv)
{
    for (int n = 1; n < argc; n++)
        fwrite(first_wrapper[n - 1].binary, 1, atol(argv[n]), stdout);
    return 0;
}
"""


def host(
    folder: Path,
    bundles: Sequence[bytes],
    *flags: str,
    name: str = "carrier",
    room: int = 4096,
    section: str = ".hip_fatbin",
    compiler: str | None = None,
) -> Path:
    """A program (or with ``-shared`` a library) for this machine with a wrapper for each bundle.

    Called with sizes, the program writes that many bytes of each bundle, as its wrapper points to
    it. Bundles are aligned to *room* bytes. Skips the test where no host program can be linked.
    """
    text = f'\t.section {section},"a",@progbits\n'
    for number, data in enumerate(bundles):
        (folder / f"{name}.{number}").write_bytes(data)
        text += f'\t.balign {room}\nbundle{number}:\t.incbin "{folder}/{name}.{number}"\n'
    text += '\t.section .hipFatBinSegment,"aw",@progbits\n\t.balign 8\n'
    text += "\t.globl first_wrapper\n\t.hidden first_wrapper\nfirst_wrapper:\n"
    for number in range(len(bundles)):
        text += f"\t.long 0x48495046, 1\n\t.quad bundle{number}, 0\n"
    text += '\t.section .note.GNU-stack,"",@progbits\n'
    (folder / f"{name}.s").write_text(text)
    (folder / f"{name}.c").write_text(_PROGRAM)
    out = folder / name
    command = [compiler or cc(), "-O1", f"{folder}/{name}.c", f"{folder}/{name}.s", "-o", str(out)]
    done = subprocess.run([*command, *flags], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no host program with {' '.join(flags)}: {done.stderr.strip()[-200:]}")
    return out


def cc() -> str:
    for name in ("cc", "gcc", "clang"):
        if found := shutil.which(name):
            return found
    pytest.skip("no C compiler for the host")


def tool(llvm: Llvm, *names: str) -> str:
    """The path of a tool of LLVM, which was renamed if it has several names."""
    folder = Path(llvm.clang).resolve().parent
    for name in names:
        if (folder / name).exists():
            return str(folder / name)
    pytest.skip(f"no {' or '.join(names)} in {folder}")


def run(*command: str | Path, **options: object) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [str(part) for part in command], check=True, capture_output=True, **options
    )  # type: ignore[call-overload, no-any-return]
