"""The whole trip: every built object, real ones, and code that is nearly or wholly noise."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path
from typing import Any

import pytest

from coasm.asm.build import link_object
from coasm.asm.decode import decode
from coasm.asm.exact import exact_listing
from coasm.asm.like import like
from coasm.asm.quirks import doubtful
from coasm.codeobject import CodeObject, load
from coasm.compare import verify
from coasm.llvm.find import Llvm
from coasm.llvm.run import Assembled, assemble
from coasm.target import PROCESSORS, TargetID
from coasm.trips import RoundTrip, roundtrip
from tests.asm.tools import built, dump, loaded, patched_words
from tests.counting import programs
from tests.docs import roundtrip_table

#: Programs of LLVM that the trip of one hostile code section may start: twice what it takes now,
#: and far from one for each of its instructions or of the words on which one crashes.
_PROGRAMS = 320

# MTBUF and VOP3 encodings on which llvm-objdump 22 ends with a segmentation fault.
_CRASHES = ((0xE80C3BD0, 0xFF25A6C2), (0xD296BB84, 0x152A06FF))


def _check(name: str, co: CodeObject, llvm: Llvm) -> None:
    """The trip is exact; judged by pyelftools beside coasm's own verdict."""
    listed = exact_listing(co, llvm)
    fresh = link_object(listed.object, llvm)
    assert loaded(fresh) == loaded(co.data), name
    assert like(fresh, co).data == co.data, name


def _ok(found: RoundTrip) -> bool:
    return (found.status, found.loaded_identical, found.file_identical) == ("ok", True, True)


def test_every_built_object(fixture_object: tuple[str, Path], llvm: Llvm) -> None:
    name, path = fixture_object
    found = roundtrip(load(path), llvm)
    assert _ok(found), f"{name}: {found}"


@pytest.mark.parametrize("name", ["template-gfx1100-v5", "names-gfx942-v5", "middle-gfx1250-v6"])
def test_loaded_image_by_pyelftools(
    name: str, fixture_objects: list[tuple[str, Path]], llvm: Llvm
) -> None:
    path = dict(fixture_objects).get(name)
    if path is None:
        pytest.skip(f"this LLVM does not build {name}")
    _check(name, load(path), llvm)


def test_some_real_objects(corpus: list[Path], llvm: Llvm) -> None:
    for path in sorted(corpus, key=lambda p: p.name)[::24]:
        found = roundtrip(load(path), llvm)
        assert _ok(found), f"{path.name}: {found}"


def test_plain_clang_takes_the_listings_of_real_objects(
    corpus: list[Path], llvm: Llvm, tmp_path: Path
) -> None:
    some = [p for p in corpus if "gfx1250" in p.parts][::3] + corpus[::48]
    for path in some:
        co = load(path)
        listing = tmp_path / "listing.s"
        listing.write_text(exact_listing(co, llvm).text)
        version = f"-mcode-object-version={co.code_object_version}"
        command = [llvm.clang, "-x", "assembler", "-target", "amdgcn-amd-amdhsa", version]
        out = str(tmp_path / "plain.co")
        subprocess.run([*command, f"-mcpu={co.target}", str(listing), "-o", out], check=True)
        assert set(verify(co, load(out), llvm).verdicts.values()) <= {"identical", "equivalent"}


@pytest.mark.slow
def test_all_real_objects(corpus: list[Path], llvm: Llvm) -> None:
    """And the README's table, which is of the whole sample."""
    sums: dict[str, list[int]] = {}
    for path in corpus:
        co = load(path)
        found = roundtrip(co, llvm)
        assert _ok(found), f"{path.name}: {found}"
        assert found.raw == 0, path.name
        row = [1, 1, 1, 1, found.instructions or 0, found.pinned or 0, 0]
        for name in (found.target or "", "all"):
            sums[name] = [a + b for a, b in zip(sums.get(name, [0] * 7), row, strict=True)]
    table = roundtrip_table()
    if len(corpus) == table["all"][0]:
        assert table == {name: tuple(row) for name, row in sums.items()}


# --- noise ---------------------------------------------------------------------------------


def _noise(count: int, every: int, seed: int) -> str:
    """*count* random words, with a label at each *every*-th of them (0: none)."""
    rng = random.Random(seed)
    lines = []
    for number in range(count):
        label = f"l{number}: " if every and number % every == 0 else ""
        lines.append(f"{label}.long {rng.getrandbits(32):#x}")
    return "\n".join(lines)


@pytest.mark.parametrize(
    "target",
    [
        *("gfx600", "gfx701", "gfx803", "gfx900", "gfx90a", "gfx942", "gfx950", "gfx9-4-generic"),
        *("gfx1010", "gfx1036", "gfx1100", "gfx1150", "gfx1201", "gfx1250", "gfx1251"),
    ],
)
def test_random_words(target: str, llvm: Llvm) -> None:
    if target not in llvm.processors:
        pytest.skip(f"LLVM {llvm.major} does not know {target}")
    co = built(llvm, _noise(1500, 3, seed=len(target)), target)
    with programs() as started:
        found = roundtrip(co, llvm)
    assert _ok(found), found
    assert started.number <= _PROGRAMS


@pytest.mark.slow
@pytest.mark.parametrize("target", ["gfx803", "gfx942", "gfx950", "gfx1100", "gfx1250"])
@pytest.mark.parametrize("every", [0, 2])
def test_many_random_words(target: str, every: int, llvm: Llvm) -> None:
    """Among so many are some that the disassembler does not survive."""
    co = built(llvm, _noise(12_000, every, seed=7), target)
    with programs() as started:
        found = roundtrip(co, llvm)
    assert _ok(found), found
    assert started.number <= _PROGRAMS


# Instructions of every class, so that a flipped bit meets every decoder table.
_SEEDS = """
v_mov_b32 v0, v1
v_mov_b32 v0, 0x12345678
v_add_f32 v1, v2, v3
v_add_f32 v1, 0x40490fdb, v3
v_fma_f32 v1, v2, v3, v4
v_cmp_lt_f32 vcc, v1, v2
v_cndmask_b32 v1, v2, v3, vcc
v_add_u32 v1, v2, v3 dst_sel:BYTE_0 dst_unused:UNUSED_PAD src0_sel:DWORD src1_sel:WORD_1
v_mov_b32 v1, v2 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf
v_pk_fma_f16 v1, v2, v3, v4
v_mfma_f32_32x32x8_f16 a[0:15], v[2:3], v[4:5], a[0:15]
v_accvgpr_read_b32 v1, a2
s_mov_b32 s0, 1
s_mov_b64 s[0:1], 0x12345678
s_add_u32 s0, s1, 0x12345678
s_addk_i32 s0, 0x1234
s_cmp_eq_u32 s0, s1
s_waitcnt vmcnt(0) lgkmcnt(0)
s_nop 3
s_barrier
s_load_dwordx4 s[4:7], s[0:1], 0x10
s_buffer_load_dword s5, s[8:11], s3
buffer_load_dword v1, v2, s[4:7], s3 offen offset:16
buffer_store_dwordx4 v[4:7], v2, s[4:7], 0 offen
global_load_dwordx4 v[4:7], v[2:3], off offset:32
flat_store_dword v[2:3], v1
global_atomic_add v1, v[2:3], v4, off sc0
ds_read_b128 v[4:7], v1 offset:64
ds_write_b32 v1, v2
ds_bpermute_b32 v1, v2, v3
v_readfirstlane_b32 s0, v1
s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 5
s_branch l0
s_cbranch_execz l0
s_getpc_b64 s[2:3]
"""


def _flipped(llvm: Llvm, count: int, target: str, seed: int) -> CodeObject:
    """*count* instructions, each with one bit flipped and a label of its own."""
    rng = random.Random(seed)
    lines = [line for line in _SEEDS.splitlines() if line]
    encodings = []
    sample = built(llvm, "l0:\n" + "\n".join(lines), "gfx942")
    for _, data in dump(llvm, sample.data).values():
        encodings.append(data)
    assert len(encodings) >= len(lines)
    body = []
    for number in range(count):
        data = bytearray(rng.choice(encodings))
        bit = rng.randrange(8 * len(data))
        data[bit // 8] ^= 1 << bit % 8
        body.append(f"l{number}: .byte " + ", ".join(map(str, data)))
    return built(llvm, "\n".join(body), target)


@pytest.mark.parametrize("target", ["gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1250"])
def test_single_flipped_bits(target: str, llvm: Llvm) -> None:
    co = _flipped(llvm, 3000, target, seed=1)
    with programs() as started:
        found = roundtrip(co, llvm)
    assert _ok(found), found
    assert started.number <= _PROGRAMS
    if target in ("gfx942", "gfx950"):
        assert found.pinned  # bits that the decoder ignores are among them


def test_flipped_bits_of_real_kernels(corpus: list[Path], llvm: Llvm) -> None:
    rng = random.Random(2)
    for target in ("gfx942", "gfx950", "gfx1250"):
        path = next(p for p in corpus if f"/{target}/" in p.as_posix())
        co = load(path)
        data = bytearray(co.data)
        section = co.code_sections[0]
        low = section.offset + co.kernels[0].entry - section.addr
        for at in range(low, section.offset + section.size):
            if rng.random() < 0.005:
                data[at] ^= 1 << rng.randrange(8)
        found = roundtrip(load(bytes(data), name=path.name), llvm)
        assert _ok(found), f"{path.name}: {found}"


# --- what the disassembler does not survive ------------------------------------------------


@pytest.mark.parametrize("words", _CRASHES)
def test_a_crash_costs_only_what_caused_it(words: tuple[int, int], llvm: Llvm) -> None:
    body = "s_nop 1\n" + "".join(f".long {word:#x}\n" for word in words)
    body += "after:\nv_mov_b32 v1, v2\ns_branch after\ns_endpgm"
    co = built(llvm, body)
    if dump(llvm, co.data):
        pytest.skip(f"llvm-objdump {llvm.major} survives these words")
    listed = exact_listing(co, llvm)
    lines = [line.strip() for line in listed.text.splitlines()]
    for expected in ("s_nop 1", "v_mov_b32_e32 v1, v2", "s_branch after", "s_endpgm"):
        assert expected in lines
    assert ".long " + ", ".join(f"0x{word:08x}" for word in words) in lines
    assert listed.raw == 1
    _check("crash", co, llvm)


def test_many_crashes_are_bounded(llvm: Llvm) -> None:
    """A section that is full of such words takes bounded work, and its beginning is listed."""
    words = "".join(f"c{n}: .long 0xe80c3bd0, 0xff25a6c2\n s_nop 2\n" for n in range(300))
    co = built(llvm, f"v_mov_b32 v1, v2\n{words}s_endpgm")
    with programs() as started:
        found = roundtrip(co, llvm)
    assert _ok(found), found
    assert started.number <= _PROGRAMS
    assert found.instructions is not None and found.raw is not None
    assert 0 < found.raw < found.instructions  # what comes before the last of them is listed


def test_a_target_that_llvm_does_not_disassemble(llvm: Llvm) -> None:
    """GFX6 and GFX7: LLVM assembles for them, but reads nothing ("not yet supported")."""
    co = built(llvm, "s_nop 0\nhere:\ns_branch here\ns_endpgm", "gfx701")
    if dump(llvm, co.data):
        pytest.skip(f"LLVM {llvm.major} disassembles gfx701")
    listed = exact_listing(co, llvm)
    assert "LLVM does not disassemble gfx701" in listed.text
    assert "\nhere:\n" in listed.text and ".amdhsa_kernel k" in listed.text
    _check("gfx701", co, llvm)


# --- labels and sizes where no instruction starts ------------------------------------------


def test_after_an_unknown_word_nothing_is_listed_until_a_label(llvm: Llvm) -> None:
    """The length of what LLVM does not know is unknown, so what follows may be its tail."""
    body = "s_nop 1\n.long 0xffffffff\nv_mov_b32 v1, v2\nback:\ns_nop 2\ns_branch back\ns_endpgm"
    co = built(llvm, body)
    text = exact_listing(co, llvm).text
    assert "v_mov_b32" not in text
    assert "\ts_nop 1\n" in text and "\ts_nop 2\n" in text and "s_branch back" in text
    _check("unknown word", co, llvm)


@pytest.mark.parametrize("target", ["gfx942", "gfx1100", "gfx1250"])
def test_branches_to_odd_places(target: str, llvm: Llvm) -> None:
    """Into an instruction, before and behind the section, to its end, to itself."""
    body = "\n".join(
        (
            "s_branch 0x7fff",  # behind the section
            "s_branch 0x8000",  # before it
            "s_cbranch_scc0 1",  # into the next instruction's literal
            "s_mov_b32 s0, 0x12345678",
            "s_branch 0xffff",  # to itself
            "s_cbranch_scc1 2",  # to the section's end
            "s_nop 0",
            "s_endpgm",
        )
    )
    _check(target, built(llvm, body, target), llvm)


def test_two_code_sections_and_objects_in_them(llvm: Llvm) -> None:
    body = """\
s_nop 1
.type table, @object
table: .long 0xbf800000, 1, 2, 3
inner: .long 4
.size table, 20
s_endpgm
.section .text.other, "ax", @progbits
other: s_nop 2
s_branch other
.type blob, @object
blob: .byte 1, 2, 3
.size blob, 3
"""
    co = built(llvm, body)
    text = exact_listing(co, llvm).text
    assert "0xbf800000" in text  # an s_nop 0, but data
    assert text.index("\ntable:") < text.index("\ninner:") < text.index("\nblob:")
    _check("two sections", co, llvm)


def test_a_descriptor_that_leads_elsewhere(llvm: Llvm) -> None:
    """A stale entry offset cannot be said by directives; the bytes stay."""
    co = built(llvm, "s_nop 0\ns_nop 1\ns_endpgm")
    kernel = co.kernels[0]
    changed = patched_words(
        co, (kernel.descriptor_address + 16, kernel.entry + 4 - kernel.descriptor_address)
    )
    assert changed.kernels[0].entry == kernel.entry + 4
    text = exact_listing(changed, llvm).text
    assert ".amdhsa_kernel" not in text and "kernel descriptor as data" in text
    _check("stale entry", changed, llvm)


def test_metadata_that_no_yaml_says(llvm: Llvm) -> None:
    """LLVM writes the keys of a map in order, so another order can only be data."""
    co = built(llvm, "s_endpgm")
    at = co.data.index(b".sgpr_count")
    changed = load(co.data[:at] + b".zgpr_count" + co.data[at + 11 :], name="order.co")
    text = exact_listing(changed, llvm).text
    assert "metadata as data" in text and ".amdgpu_metadata" not in text
    _check("order", changed, llvm)


#: VOPD instructions of GFX12 whose halves read the same VGPR, or other ones.
_VOPD = (
    "v_dual_mul_f32 v14, v17, v30 :: v_dual_mul_f32 v21, v17, v31",
    "v_dual_mul_f32 v14, v16, v31 :: v_dual_mul_f32 v21, v17, v31",
    "v_dual_fmac_f32 v14, s2, v31 :: v_dual_add_f32 v21, v17, v31",
    "v_dual_mov_b32 v14, v17 :: v_dual_add_f32 v21, v17, v31",
    "v_dual_mov_b32 v14, v17 :: v_dual_mov_b32 v21, v17",
    "v_dual_mul_f32 v14, v17, v30 :: v_dual_mul_f32 v21, v18, v31",
    "v_dual_mul_f32 v14, v1, v30 :: v_dual_mul_f32 v21, v18, v31",
)


@pytest.mark.parametrize("text", _VOPD)
def test_doubtful_text_is_what_llvm_refuses(text: str, llvm: Llvm) -> None:
    if llvm.major > 22:
        pytest.skip("later assemblers may take it")
    made = assemble(llvm, f"{text}\n".encode(), TargetID.parse("gfx1200"), 5)
    patterns = doubtful(PROCESSORS["gfx1200"], "v_dual_mul_f32")
    assert any(pattern.match(text) for pattern in patterns) == (made.data is None)


def test_what_llvm_refuses_alone_is_not_tried_in_the_listing(
    llvm: Llvm, monkeypatch: pytest.MonkeyPatch
) -> None:
    co = built(llvm, f"{_VOPD[-2]}\ns_endpgm", "gfx1200")
    at = co.kernels[0].entry
    (encoding,) = [own.bytes_at(0) for own in decode(co, llvm).values()]
    low, high = (int.from_bytes(encoding[i : i + 4], "little") for i in (0, 4))
    # The first source of the second half, v18, becomes v17: bits 0 to 8 of the second word.
    assert high & 0x1FF == 0x112
    changed = patched_words(co, (at, low), (at + 4, high & ~0x1FF | 0x111))
    sources: list[bytes] = []

    def counted(tools: Llvm, text: bytes, *rest: Any) -> Assembled:
        sources.append(text)
        return assemble(tools, text, *rest)

    monkeypatch.setattr("coasm.asm.build.assemble", counted)
    listed = exact_listing(changed, llvm)
    assert listed.raw == 1
    assert sum(b".amdgcn_target" in text for text in sources) == 1
    assert loaded(link_object(listed.object, llvm)) == loaded(changed.data)
