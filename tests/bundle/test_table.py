"""Bundle tables, against clang-offload-bundler and llvm-offload-binary; and damaged ones."""

from __future__ import annotations

import itertools
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coasm.bundle.table import read_bundle, read_offload, replace, target_of
from coasm.errors import FormatError, UnsupportedError
from coasm.llvm.find import Llvm
from tests.bundle.carriers import HOST, bundle, entry_id, run, tool

IDS = [entry_id(target) for target in ("gfx942", "gfx90a:sramecc+:xnack-", "gfx9-4-generic")]


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("hipv4-amdgcn-amd-amdhsa--gfx942", "gfx942"),
        ("hip-amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-", "gfx90a:sramecc+:xnack-"),
        ("hip-amdgcn-amd-amdhsa-gfx906", "gfx906"),
        ("hipv4-amdgcn-amd-amdhsa--gfx9-4-generic", "gfx9-4-generic"),
        ("hipv4-amdgcn-amd-amdhsa--gfx10-3-generic:xnack+", "gfx10-3-generic:xnack+"),
        ("hip-spirv64-amd-amdhsa--amdgcnspirv", ""),
        ("host-x86_64-unknown-linux-gnu-", ""),
        ("hip-amdgcn-amd-amdhsa--gfx942/../x", ""),
    ],
)
def test_target_of(text: str, target: str) -> None:
    assert target_of(text) == target


@pytest.mark.parametrize("align", [1, 4096])
def test_reads_what_the_bundler_writes(llvm: Llvm, tmp_path: Path, align: int) -> None:
    images = {name: bytes([n]) * (100 + n) for n, name in enumerate(IDS)}
    files = [tmp_path / str(n) for n in range(len(IDS))]
    for file, data in zip(files, images.values(), strict=True):
        file.write_bytes(data)
    out = tmp_path / "x.hipfb"
    (tmp_path / "none").write_bytes(b"")
    run(
        tool(llvm, "clang-offload-bundler"), "-type=o", f"-bundle-align={align}",
        f"-targets={HOST[0]},{','.join(IDS)}", f"-input={tmp_path}/none",
        *(f"-input={file}" for file in files), f"-output={out}",
    )  # fmt: skip
    data = out.read_bytes()
    table = read_bundle(data, len(data), "x")
    assert table is not None
    assert {i.id: data[i.offset : i.offset + i.size] for i in table.images if i.size} == images
    assert table.size == len(data)


def test_prefix_asks_for_more() -> None:
    data = bundle([HOST, (IDS[0], b"abc")])
    front = 32 + 24 + len(HOST[0]) + 24 + len(IDS[0])
    for size in range(front):
        assert read_bundle(data[:size], len(data), "x") is None
    assert read_bundle(data[:front], len(data), "x") is not None


def _patched(data: bytes, at: int, value: int) -> bytes:
    return data[:at] + struct.pack("<Q", value) + data[at + 8 :]


@pytest.mark.parametrize(
    ("record", "field", "value", "message"),
    [
        (1, 0, 1 << 63, "outside"),
        (1, 0, 10, "overlaps the table"),
        (1, 8, 1 << 40, "outside"),
        (1, 8, 4099, "overlaps"),
        (1, 16, 1 << 62, "ID of"),
        (1, 16, 2000, "ID of"),
    ],
)
def test_lying_records(record: int, field: int, value: int, message: str) -> None:
    data = bundle([HOST, (IDS[0], b"abc"), (IDS[1], b"defg")])
    at = 32 + (24 + len(HOST[0])) * record + field
    with pytest.raises(FormatError, match=message):
        read_bundle(_patched(data, at, value), len(data), "x")


@pytest.mark.parametrize("count", [4097, 1 << 32, (1 << 64) - 1])
def test_lying_count(count: int) -> None:
    data = _patched(bundle([HOST, (IDS[0], b"abc")]), 24, count)
    with pytest.raises(FormatError, match="images"):
        read_bundle(data, len(data), "x")


def test_same_id_twice() -> None:
    data = bundle([(IDS[0], b"abc"), (IDS[0], b"def")])
    with pytest.raises(FormatError, match="two images"):
        read_bundle(data, len(data), "x")


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_any_byte_changed_is_read_or_refused(data: st.DataObject) -> None:
    whole = bundle([HOST, (IDS[0], b"abc"), (IDS[1], b"defg")], align=8)
    changed = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 3))):
        changed[data.draw(st.integers(24, len(whole) - 1))] = data.draw(st.integers(0, 255))
    try:
        table = read_bundle(bytes(changed), len(changed), "x")
    except FormatError:
        return
    assert table is not None
    spans = sorted((i.offset, i.offset + i.size) for i in table.images if i.size)
    assert all(table.front <= start <= end <= len(whole) for start, end in spans)
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans))


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.binary(max_size=300), min_size=1, max_size=5),
    st.dictionaries(st.integers(0, 4), st.binary(min_size=1, max_size=600), min_size=1),
    st.sampled_from([8, 64, 4096]),
    st.integers(0, 8192),
)
def test_replace(images: list[bytes], new: dict[int, bytes], align: int, slack: int) -> None:
    named = [(entry_id(f"gfx9{n:02}"), image) for n, image in enumerate(images)]
    new = {n: image for n, image in new.items() if n < len(images) and images[n]}
    if not new:
        return
    data = bundle(named, align)
    table = read_bundle(data, len(data), "x")
    assert table is not None
    out = replace(data, table, new, len(data) + slack)
    after = read_bundle(out, len(out), "x")
    assert after is not None and after.size == len(out)
    expected = [(name, new.get(n, image)) for n, (name, image) in enumerate(named)]
    assert [(i.id, out[i.offset : i.offset + i.size]) for i in after.images] == expected
    assert all(i.offset % align == 0 for i in after.images if i.size)
    same = {n: images[n] for n in new}
    assert replace(data, table, same, len(data) + slack) == data[: table.size]


def test_replace_moves_nothing_that_fits() -> None:
    data = bundle([(IDS[0], b"a" * 5000), (IDS[1], b"b" * 10)])
    table = read_bundle(data, len(data), "x")
    assert table is not None
    out = replace(data, table, {0: b"c" * 8192}, len(data))
    assert out[4096:12288] == b"c" * 8192 and out[12288:] == data[12288:]
    assert len(replace(data, table, {0: b"c" * 8193}, len(data))) == 4096 + 3 * 4096 + 10


_PACKAGER = ("llvm-offload-binary", "clang-offload-packager")  # its name from LLVM 22 on, before


def _offload(llvm: Llvm, folder: Path, images: dict[str, bytes]) -> bytes:
    arguments = []
    for number, (arch, data) in enumerate(images.items()):
        (folder / str(number)).write_bytes(data)
        arguments.append(
            f"--image=file={folder}/{number},triple=amdgcn-amd-amdhsa,arch={arch},kind=hip"
        )
    run(tool(llvm, *_PACKAGER), "-o", folder / "out", *arguments)
    return (folder / "out").read_bytes()


def test_offload_binary(llvm: Llvm, tmp_path: Path) -> None:
    data = _offload(llvm, tmp_path, {"gfx942": b"first image"})
    size = struct.unpack_from("<Q", data, 8)[0]
    table = read_offload(data, len(data), "x")
    assert table is not None and table.size == size
    (image,) = table.images
    assert image.id == "hip-amdgcn-amd-amdhsa--gfx942"
    assert data[image.offset : image.offset + image.size] == b"first image"
    larger = replace(data[:size], table, {0: b"n" * 999}, 1 << 20)
    again = read_offload(larger, len(larger), "x")
    assert again is not None
    image = again.images[0]
    assert larger[image.offset : image.offset + image.size] == b"n" * 999
    # LLVM reads it too: the packager takes the image out again.
    (tmp_path / "new").write_bytes(larger)
    run(
        tool(llvm, *_PACKAGER), tmp_path / "new",
        f"--image=file={tmp_path}/back,triple=amdgcn-amd-amdhsa,arch=gfx942,kind=hip",
    )  # fmt: skip
    assert (tmp_path / "back").read_bytes() == b"n" * 999


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_any_byte_of_an_offload_binary(data: st.DataObject) -> None:
    strings = b"triple\0amdgcn-amd-amdhsa\0arch\0gfx942\0"
    base = 32 + 40 + 2 * 16
    front = -(-(base + len(strings)) // 8) * 8
    whole = struct.pack("<4sIQQQ", b"\x10\xff\x10\xad", 1, front + 16, 32, 40)
    whole += struct.pack("<HHIQQQQ", 1, 4, 0, 72, 2, front, 16)
    whole += struct.pack("<QQQQ", base, base + 7, base + 25, base + 30)
    whole += strings + bytes(front - base - len(strings)) + b"image of 16 byte"
    good = read_offload(whole, len(whole), "x")
    assert good is not None and good.images[0].id == "hip-amdgcn-amd-amdhsa--gfx942"
    changed = bytearray(whole)
    changed[data.draw(st.integers(4, len(whole) - 1))] = data.draw(st.integers(0, 255))
    try:
        table = read_offload(bytes(changed), len(changed), "x")
    except (FormatError, UnsupportedError):
        return
    assert table is not None
    assert all(i.offset + i.size <= len(whole) for i in table.images if i.size)
