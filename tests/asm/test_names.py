"""Symbol names are untrusted: none reaches the assembler unquoted, and each one comes back."""

from __future__ import annotations

import io
import string
import struct

import pytest
from elftools.elf.elffile import ELFFile
from hypothesis import given
from hypothesis import strategies as st

from coasm.asm.assemble import assemble
from coasm.asm.build import link_object
from coasm.asm.exact import exact_listing
from coasm.asm.names import display, is_plain, parse_stand_ins, quote, spell, stand_in_line
from coasm.codeobject import CodeObject, load
from coasm.errors import UnsupportedError
from coasm.llvm.find import Llvm
from coasm.llvm.run import assemble as run_assembler
from coasm.target import TargetID
from coasm.trips import roundtrip
from tests.asm.tools import built, loaded
from tests.compare.objects import source

_PLACE = b"placeholder_name_of_32_bytes____"

_HOSTILE = [
    b'a\n.incbin "/etc/passwd"\n#',
    b'"\n.incbin "/etc/passwd"\n"',
    b"x\n\ts_endpgm\n.set y, 1\n",
    b'x\r\n.include "/etc/passwd"',
    b"\x1b[31m\x1b]0;owned\x07",
    b"\xc2\x9b31m",
    b"\xff\xfe\x80 no UTF-8",
    b"\xe2\x80\xae right to left",
    b'";s_endpgm;"',
    b'\\n\\"\\',
    b"trailing\\",
    b"// pin 00000000 over 00000000",
    b"*/ s_nop 0 /*",
    b'// coasm: symbol k "other"',
    b"v[0:1]",
    b"v255",
    b"s_endpgm",
    b".amdhsa_kernel x",
    b".Lmine",
    b"coasm_symbol_0",
    b"$(touch x) `id` ; rm -rf",
    b"a=b, c:d #e !f %g {h} (i)",
    "größe_文字".encode(),
    b"\x7f\x01\x02",
    b"'",
    b"0x10",
    b"1b",
    b".",
]


def _named(llvm: Llvm, name: bytes, *, pad: bool = True) -> CodeObject:
    """An object with a kernel, a global function and a local label that are called *name*."""
    name = name.ljust(len(_PLACE), b"_" if pad else b"\0")
    assert len(name) == len(_PLACE)
    place = _PLACE.decode()
    body = f"s_nop 0\n.globl f{place}\n.type f{place},@function\nf{place}:\ns_nop 1\n"
    body += f"l{place}:\ns_cbranch_scc0 l{place}\ns_endpgm"
    text = source({place: body})
    target = TargetID.from_e_flags(built(llvm, "s_endpgm").elf.header.flags, 3)
    made = run_assembler(llvm, text.encode(), target, 5).data
    assert made is not None and made.count(_PLACE) >= 5
    return load(link_object(made.replace(_PLACE, name), llvm), name="named.co")


def _names(data: bytes) -> list[bytes]:
    elf = ELFFile(io.BytesIO(data))
    strings = elf.get_section_by_name(".strtab").data()
    table = elf.get_section_by_name(".symtab").data()
    offsets = [row[0] for row in struct.iter_unpack("<IBBHQQ", table)]
    return sorted(strings[at : strings.index(b"\0", at)] for at in offsets)


def _is_harmless(text: str) -> None:
    """Nothing in a listing but what coasm writes itself is an assembler statement."""
    for character in text:
        assert character in "\n\t" or character.isprintable(), repr(character)
    for line in text.split("\n"):
        code = line.split("//")[0].strip()
        assert not code.startswith((".incbin", ".include", ".macro", ".set y")), line
    assert text.split("\n").count("\ts_endpgm") == 1


@pytest.mark.parametrize("name", _HOSTILE, ids=range(len(_HOSTILE)))
def test_hostile_names_come_back(name: bytes, llvm: Llvm) -> None:
    co = _named(llvm, name)
    text = exact_listing(co, llvm).text
    _is_harmless(text)
    rebuilt = assemble(text).data
    assert loaded(rebuilt) == loaded(co.data)
    assert _names(rebuilt) == _names(co.data)
    found = roundtrip(co, llvm)
    assert (found.status, found.file_identical) == ("ok", True), found


@pytest.mark.parametrize("name", [b'a\n.incbin "/etc/passwd"', b"v0", b"s_endpgm", b".L", b"x"])
def test_local_names_of_their_own(name: bytes, llvm: Llvm) -> None:
    """Exactly that name, also twice in one object, and as the label of a branch."""
    co = built(llvm, "aaa:\ns_nop 0\nbbb:\ns_cbranch_scc0 bbb\ns_branch aaa\ns_endpgm")
    for both in (False, True):
        changed = _relabelled(co, {b"aaa": name, **({b"bbb": name} if both else {})})
        assert _names(changed.data).count(name) == 1 + both
        text = exact_listing(changed, llvm).text
        _is_harmless(text)
        rebuilt = assemble(text, like_object=changed)
        assert rebuilt.data == changed.data


@pytest.mark.parametrize("after", [0, 4, 8])
def test_a_name_that_looks_like_a_disassembly(after: int, llvm: Llvm) -> None:
    """The disassembler prints names as they are; a line in one must not pass for its own."""
    co = built(llvm, "s_nop 0\naaa:\ns_cbranch_scc0 aaa\ns_branch aaa\ns_endpgm")
    line = f'\t.incbin "/etc/passwd" // {co.kernels[0].entry + after:012X}: BF800000'
    for name in (f"x>:\n{line}\n<y", line.strip(), f"x{line}"):
        changed = _relabelled(co, {b"aaa": name.encode()})
        text = exact_listing(changed, llvm).text
        _is_harmless(text)
        assert text.count("\ts_nop 0\n") == 1
        assert assemble(text, like_object=changed).data == changed.data


def test_a_name_of_100_kilobytes(llvm: Llvm) -> None:
    co = built(llvm, "aaa:\ns_nop 0\ns_branch aaa\ns_endpgm")
    changed = _relabelled(co, {b"aaa": b"\x1b\n" * 50_000})
    text = exact_listing(changed, llvm).text
    _is_harmless(text)
    assert assemble(text, like_object=changed).data == changed.data


def _relabelled(co: CodeObject, names: dict[bytes, bytes]) -> CodeObject:
    """A copy in which local symbols have other names, in a string table at the file's end."""
    elf = ELFFile(io.BytesIO(co.data))
    table = elf.get_section_by_name(".symtab")
    index = elf.get_section_index(".strtab")
    strings = elf.get_section(index).data()
    data = bytearray(co.data)
    for at in range(table["sh_offset"], table["sh_offset"] + table["sh_size"], 24):
        (offset,) = struct.unpack_from("<I", data, at)
        new = names.get(strings[offset : strings.index(b"\0", offset)])
        if new is not None:
            struct.pack_into("<I", data, at, len(strings))
            strings += new + b"\0"
    header = elf["e_shoff"] + 64 * index
    struct.pack_into("<QQ", data, header + 24, len(data), len(strings))
    return load(bytes(data) + strings, name="relabelled.co")


@pytest.mark.parametrize("name", [b"a@b", b"a@@b", b"@"])
def test_global_names_that_no_linker_takes(name: bytes, llvm: Llvm) -> None:
    """What follows an @ is a version to the linker."""
    co = built(
        llvm,
        "s_nop 0\n.globl xyz@\nxyz:\ns_endpgm".replace("xyz@", "xyzw").replace("xyz:", "xyzw:"),
    )
    name = name.ljust(4, b"@")
    changed = load(co.data.replace(b"xyzw", name), name="at.co")
    with pytest.raises(UnsupportedError, match=r"^at\.co: symbol .* cannot be linked$"):
        exact_listing(changed, llvm)


# --- spelling ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        *("v0", "s1", "a31", "ttmp5", "vcc", "VCC", "exec_lo", "m0", "scc", "null", "off", "v3.l"),
        *("", "1a", "a-b", "a b", "v[0:1]", "a:b", "a\n", "größe"),
    ],
)
def test_not_plain(name: str) -> None:
    assert not is_plain(name)


def test_spelling() -> None:
    assert spell("kernel") == "kernel"
    assert spell("_ZN3fooEv.kd") == "_ZN3fooEv.kd"
    assert spell("a b") == '"a b"'
    for name in ("", "a\nb", 'a"b', "a\\b", ".Lx", "\x1b", "\udcff", "\u202e"):
        assert spell(name) is None


@given(st.text(st.characters(exclude_categories=()), max_size=40))
def test_stand_in_lines_are_one_ascii_line_and_read_back(name: str) -> None:
    line = stand_in_line("coasm_symbol_0", name)
    assert all(c in string.printable for c in line) and line.splitlines() == [line]
    assert parse_stand_ins(f"\ts_nop 0\n{line}\n") == {"coasm_symbol_0": name}
    assert display(display(name)) == display(name)
    assert display(name).isprintable() and quote(name).isascii()


def test_stand_ins_are_read_from_whole_lines_only() -> None:
    assert parse_stand_ins('\ts_nop 0 // coasm: symbol a "b"\n') == {}
    assert parse_stand_ins('\t.asciz "// coasm: symbol a \\"b\\""\n') == {}
