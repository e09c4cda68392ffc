from __future__ import annotations

import struct

import msgpack
import pytest

from coasm.compare import ABSENT, Difference
from coasm.compare.metadata import differences
from coasm.errors import FormatError


def test_a_changed_value_is_found_by_its_path() -> None:
    a = {"amdhsa.kernels": [{".args": [{".offset": 0}, {".offset": 8}]}], "amdhsa.version": [1, 2]}
    b = {"amdhsa.kernels": [{".args": [{".offset": 0}, {".offset": 16}]}], "amdhsa.version": [1, 1]}
    assert differences(msgpack.packb(a), msgpack.packb(b)) == [
        Difference("amdhsa.kernels[0].args[1].offset", 8, 16),
        Difference("amdhsa.version[1]", 2, 1),
    ]


def test_what_one_side_lacks_is_missing() -> None:
    a = {"amdhsa.kernels": [{".name": "k"}, {".name": "l"}]}
    b = {"amdhsa.kernels": [{".symbol": "k.kd"}], "amdhsa.printf": ["x"]}
    assert differences(msgpack.packb(a), msgpack.packb(b)) == [
        Difference("amdhsa.kernels[0].name", "k", ABSENT),
        Difference("amdhsa.kernels[0].symbol", ABSENT, "k.kd"),
        Difference("amdhsa.kernels[1]", {".name": "l"}, ABSENT),
        Difference("amdhsa.printf", ABSENT, ["x"]),
    ]


def test_key_order_and_encoding_make_no_difference() -> None:
    assert differences(b"\x82\xa1a\x01\xa1b\x02", b"\x82\xa1b\xcc\x02\xa1a\xd0\x01") == []


@pytest.mark.parametrize(
    ("a", "b"), [(1, True), (0, False), (1, 1.0), (0.0, -0.0), ("1", 1), (None, False), ([], {})]
)
def test_a_changed_type_is_a_difference(a: object, b: object) -> None:
    assert differences(msgpack.packb({"x": a}), msgpack.packb({"x": b})) == [Difference("x", a, b)]


def test_a_nan_equals_itself() -> None:
    note = b"\xcb" + struct.pack(">d", float("nan"))
    assert differences(note, note) == []


def test_odd_keys_are_quoted_in_paths() -> None:
    a = {"a\x1b[31m": 1, ".x": {"y": 2, 5: 3}}
    b = {"a\x1b[31m": 2, ".x": {"y": 3, 5: 4}}
    found = differences(msgpack.packb(a), msgpack.packb(b))
    assert [one.place for one in found] == [r"['a\x1b[31m']", ".x['y']", ".x[5]"]


def test_a_damaged_note_is_refused() -> None:
    with pytest.raises(FormatError):
        differences(b"\x80", b"\x81")
