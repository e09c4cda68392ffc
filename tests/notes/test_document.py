from __future__ import annotations

import struct
import subprocess
import sys
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coasm.errors import FormatError
from coasm.notes import document as room
from coasm.notes.document import decode, encode

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=40)
    | st.binary(max_size=40)
)
documents = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=20,
)


@given(documents)
def test_decodes_what_msgpack_packs(value: Any) -> None:
    assert decode(msgpack.packb(value)) == value


@given(documents)
def test_msgpack_unpacks_what_is_encoded(value: Any) -> None:
    encoded = encode(value)
    assert decode(encoded) == msgpack.unpackb(encoded)


@given(st.binary(max_size=60))
def test_random_bytes_are_one_document_or_refused(data: bytes) -> None:
    """Whatever the checks let through is what msgpack says without them."""
    try:
        value = decode(data)
    except FormatError:
        return
    theirs = msgpack.unpackb(data, strict_map_key=False, unicode_errors="surrogateescape")
    assert repr(value) == repr(theirs)


@given(documents, st.data())
def test_damage_is_refused_or_a_document(value: Any, data: st.DataObject) -> None:
    note = bytearray(msgpack.packb(value))
    for _ in range(data.draw(st.integers(1, 3))):
        note[data.draw(st.integers(0, len(note) - 1))] = data.draw(st.integers(0, 255))
    try:
        decode(bytes(note))
    except FormatError as error:
        assert str(error).startswith("metadata note: ")


@given(st.binary())
def test_strings_are_lossless(raw: bytes) -> None:
    note = b"\xdb" + struct.pack(">I", len(raw)) + raw
    assert decode(note).encode("utf-8", "surrogateescape") == raw


def test_every_proper_prefix_is_truncated() -> None:
    note = msgpack.packb({"a": [1, 300, -70000, "text" * 20, {"b": 1.5}, b"bin", None]})
    for size in range(len(note)):
        with pytest.raises(FormatError, match="truncated"):
            decode(note[:size])


# The tags, from the msgpack specification's "Formats" table.
@pytest.mark.parametrize(
    ("note", "value"),
    [
        (b"\x7f", 127),
        (b"\xe0", -32),
        (b"\xcc\xff", 255),
        (b"\xcd\x01\x00", 256),
        (b"\xce\x00\x01\x00\x00", 65536),
        (b"\xcf" + b"\xff" * 8, 2**64 - 1),
        (b"\xd0\x80", -128),
        (b"\xd1\x80\x00", -(2**15)),
        (b"\xd2\x80\x00\x00\x00", -(2**31)),
        (b"\xd3\x80" + bytes(7), -(2**63)),
        (b"\xca\x3f\xc0\x00\x00", 1.5),
        (b"\xcb\x3f\xf8" + bytes(6), 1.5),
        (b"\xc0", None),
        (b"\xc2", False),
        (b"\xc3", True),
        (b"\xa1a", "a"),
        (b"\xd9\x01a", "a"),
        (b"\xda\x00\x01a", "a"),
        (b"\xdb\x00\x00\x00\x01a", "a"),
        (b"\xc4\x01a", b"a"),
        (b"\xc5\x00\x01a", b"a"),
        (b"\xc6\x00\x00\x00\x01a", b"a"),
        (b"\xd6\xff\x00\x00\x00\x05", msgpack.Timestamp(5, 0)),
        (b"\xd4\x7fa", msgpack.ExtType(127, b"a")),
        (b"\xd8\x05" + bytes(16), msgpack.ExtType(5, bytes(16))),
        (b"\xc7\x03\x05abc", msgpack.ExtType(5, b"abc")),
        (b"\xc8\x00\x03\x05abc", msgpack.ExtType(5, b"abc")),
        (b"\xc9\x00\x00\x00\x03\x05abc", msgpack.ExtType(5, b"abc")),
        (b"\x91\x01", [1]),
        (b"\xdc\x00\x01\x01", [1]),
        (b"\xdd\x00\x00\x00\x01\x01", [1]),
        (b"\x81\x01\x02", {1: 2}),
        (b"\xde\x00\x01\x01\x02", {1: 2}),
        (b"\xdf\x00\x00\x00\x01\x01\x02", {1: 2}),
    ],
)
def test_tags(note: bytes, value: Any) -> None:
    decoded = decode(note)
    assert decoded == value
    assert type(decoded) is type(value)


@pytest.mark.parametrize(
    ("note", "message"),
    [
        (b"", "truncated"),
        (b"\x01\x02", "1 bytes after the document"),
        (b"\xc1", "invalid tag 0xc1"),
        (b"\x82\xa1a\x01\xa1a\x02", "a second time"),
        (b"\x81\x90\x01", "as a key"),
        (b"\x81\x80\x01", "as a key"),
        (b"\xdd\xff\xff\xff\xff", "truncated"),
        (b"\xdf\x7f\xff\xff\xff" + bytes(64), "truncated"),
        (b"\xdb\xff\xff\xff\xff", "truncated"),
        (b"\xc6\xff\xff\xff\xff", "truncated"),
        (b"\xc9\xff\xff\xff\xff\x00", "after the document"),
        (b"\x91" * 100_000 + b"\x01", "nested deeper"),
        (b"\x81\x01" * 100_000 + b"\x01", "nested deeper"),
    ],
)
def test_refused(note: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        decode(note)


def test_the_number_of_maps_and_arrays_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "MAX_ITEMS", 100)
    assert decode(b"\xdc\x00\x63" + b"\x80" * 99) == [{}] * 99
    with pytest.raises(FormatError, match="up to 101 maps and arrays, more than 100"):
        decode(b"\xdc\x00\x64" + b"\x80" * 100)


_LIMITED = """
import resource
from coasm.errors import FormatError
from coasm.notes.document import decode
import msgpack
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
try:
    decode((b"\\xdd" + (1 << 20).to_bytes(4, "big")) * 1000 + bytes(1 << 20))
except FormatError as error:
    print(error)
"""


def test_announced_entries_take_no_memory() -> None:
    """A thousand arrays in one another, each of as many entries as there are bytes: msgpack 1.2.0
    makes room for all of them, 8 GB, when it is given the whole."""
    command = [sys.executable, "-c", _LIMITED]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("metadata note: truncated")


@pytest.mark.parametrize("value", [2**64, -(2**63) - 1, object(), (1,), {(): 1}])
def test_what_has_no_encoding_is_refused(value: Any) -> None:
    with pytest.raises(FormatError):
        encode(value)


def test_encode_refuses_endless_nesting() -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(FormatError, match="nested deeper"):
        encode(value)
