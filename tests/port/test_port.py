"""Ports: verdicts by kernels that are made for each rule, encodings by LLVM, real objects."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import coasm
from coasm.asm.decode import decode
from coasm.cli.app import run as command
from coasm.errors import CoasmError
from coasm.isa.renamed import _NEWER, ADVICE, renamed, substitute
from coasm.isa.table import INSTRUCTION_SETS, expanded, mnemonics, opcode
from coasm.llvm import Llvm
from coasm.port import Ported, port
from coasm.port.porting import portable
from coasm.port.rules import RULES
from coasm.port.running import both
from tests.linter.kernels import build, listing, program_of

_END = "\ts_endpgm\n"
_SETS = {"gfx90a": "90a", "gfx942": "942", "gfx950": "950"}


def ported(body: str, old: str, new: str, *, fix: bool = False, **given: Any) -> Ported:
    return port(coasm.load(listing(body + _END, old, **given)), new, fix=fix)


def rules(made: Ported) -> set[str]:
    return {reason.rule for kernel in made.kernels for reason in kernel.reasons}


def test_the_targets() -> None:
    assert portable() == tuple(_SETS)


@pytest.mark.parametrize(
    ("old", "new", "body", "rule"),
    [
        ("gfx942", "gfx950", "v_mfma_f32_16x16x8_xf32 a[0:3], v[0:1], v[2:3], a[0:3]", "missing"),
        ("gfx950", "gfx942", "v_mfma_f32_16x16x32_f16 a[0:3], v[0:3], v[4:7], a[0:3]", "missing"),
        ("gfx950", "gfx942", "v_bitop3_b32 v0, v1, v2, v3 bitop3:0x40", "missing"),
        ("gfx950", "gfx942", "global_load_lds_dwordx4 v[0:1], off", "missing"),
        ("gfx950", "gfx942", "buffer_load_dwordx4 v0, s[0:3], 0 offen lds", "lds-load"),
        ("gfx90a", "gfx942", "v_mad_f32 v0, v1, v2, v3", "missing"),
        ("gfx90a", "gfx942", "buffer_wbinvl1_vol", "missing"),
        # Its encoding is v_fmaak_f32's on gfx942, which rounds once.
        ("gfx90a", "gfx942", "v_madak_f32 v0, v1, v2, 0x1234", "missing"),
        ("gfx942", "gfx90a", "v_cvt_f32_fp8 v0, v1", "missing"),
        ("gfx942", "gfx90a", "s_getreg_b32 s4, hwreg(HW_REG_XCC_ID)", "operand"),
        ("gfx942", "gfx950", "v_cvt_f32_fp8 v0, v1", "fp8"),
        ("gfx942", "gfx950", "v_cvt_pk_bf8_f32 v0, v1, v2", "fp8"),
        ("gfx950", "gfx942", "v_cvt_sr_fp8_f32 v0, v1, v2", "fp8"),
        ("gfx942", "gfx950", "v_mfma_f32_16x16x32_bf8_fp8 a[0:3], v[0:1], v[2:3], a[0:3]", "fp8"),
        ("gfx950", "gfx942", "v_smfmac_f32_16x16x64_fp8_fp8 v[8:11], v[0:1], v[2:5], v6", "fp8"),
        ("gfx90a", "gfx942", "v_mfma_f32_16x16x16f16 a[0:3], v[0:1], v[2:3], a[0:3]", "subnormals"),
        ("gfx942", "gfx90a", "v_mfma_f32_4x4x4_16b_bf16 a[0:3], v[0:1], v[2:3], a[0:3]", "subnormals"),  # noqa: E501
        ("gfx90a", "gfx950", "global_load_dword v1, v0, s[0:1] glc", "caches"),
        ("gfx942", "gfx90a", "global_store_dword v0, v1, s[0:1] sc0 sc1", "caches"),
        ("gfx942", "gfx950", "s_getreg_b32 s4, hwreg(HW_REG_XCC_ID)", "hwreg"),
    ],
)  # fmt: skip
def test_each_rule_at_its_address(old: str, new: str, body: str, rule: str) -> None:
    made = ported(f"\ts_nop 0\n\t{body}\n\ts_nop 7\n\ts_nop 7\n", old, new)
    (kernel,) = made.kernels
    found = [reason for reason in kernel.reasons if reason.rule == rule]
    assert len(found) == 1
    entry = made.source.kernels[0].entry
    assert found[0].address == entry + 4  # behind the s_nop
    assert found[0].text.split()[0].split("_e")[0] == body.split()[0]
    level = RULES[rule].level
    assert kernel.verdict == level
    assert (made.co is None) == (level == "not-portable")
    if rule == "missing":
        assert found[0].advice


@pytest.mark.parametrize(
    ("old", "new", "body", "clean"),
    [
        ("gfx942", "gfx950", "s_getreg_b32 s4, hwreg(HW_REG_MODE)", True),
        ("gfx942", "gfx950", "v_mfma_f32_16x16x16_f16 a[0:3], v[0:1], v[2:3], a[0:3]", True),
        ("gfx90a", "gfx942", "global_atomic_add v1, v0, v2, s[0:1] glc", True),
        ("gfx90a", "gfx942", "s_load_dword s4, s[0:1], 0x0 glc", True),
        ("gfx90a", "gfx942", "global_atomic_add v0, v2, s[0:1] slc", False),
        ("gfx90a", "gfx942", "v_mfma_f32_16x16x4f32 a[0:3], v0, v1, a[0:3]", True),
    ],
)
def test_what_is_no_reason(old: str, new: str, body: str, clean: bool) -> None:
    """Bits that say that an atomic returns something, or are the scalar cache's, stay what they
    are; so do products of F32."""
    made = ported(f"\t{body}\n\ts_nop 7\n\ts_nop 7\n", old, new)
    assert not rules(made) & {"caches", "hwreg", "subnormals"} if clean else "caches" in rules(made)
    assert made.co is not None


@pytest.mark.parametrize(
    ("old", "new", "given", "rule"),
    [
        ("gfx950", "gfx942", {"group_segment_fixed_size": 65537}, "lds-size"),
        ("gfx942", "gfx950", {"group_segment_fixed_size": 65536}, "lds-granule"),
        ("gfx90a", "gfx942", {"user_sgpr_private_segment_buffer": 1}, "descriptor"),
        ("gfx90a", "gfx942", {"system_sgpr_private_segment_wavefront_offset": 1}, "scratch"),
        ("gfx942", "gfx90a", {"enable_private_segment": 1}, "scratch"),
    ],
)
def test_descriptors(old: str, new: str, given: dict[str, int], rule: str) -> None:
    made = ported("", old, new, **given)
    assert rule in rules(made)
    assert made.verdict == {"note": "ok"}.get(RULES[rule].level, RULES[rule].level)
    reason = next(one for one in made.kernels[0].reasons if one.rule == rule)
    assert reason.address == made.source.kernels[0].descriptor_address


def test_where_fp8_enters_and_leaves() -> None:
    """Behind moves and around a loop; what is computed in between is where it comes from."""
    body = (
        "\tglobal_load_dword v1, v0, s[4:5]\n\tglobal_load_dword v2, v0, s[4:5] offset:4\n"
        "\tds_read_b32 v3, v0\n\ts_waitcnt vmcnt(0) lgkmcnt(0)\nagain:\n"
        "\tv_accvgpr_write_b32 a1, v1\n\tv_accvgpr_read_b32 v4, a1\n\tv_cvt_f32_fp8 v5, v4\n"
        "\tv_xor_b32 v2, v2, v2\n\tv_cvt_f32_bf8 v6, v2\n\tv_cvt_f32_fp8 v7, v3\n"
        "\tv_cvt_pk_fp8_f32 v8, v5, v6\n\tglobal_load_dword v1, v0, s[4:5] offset:8\n"
        "\ts_waitcnt vmcnt(0)\n\ts_sub_u32 s6, s6, 1\n\ts_cmp_lg_u32 s6, 0\n"
        "\ts_cbranch_scc1 again\n\tglobal_store_dword v0, v8, s[4:5]\n"
        "\tglobal_store_dword v8, v7, s[4:5]\n\tds_write_b32 v0, v8\n"
    )
    made = ported(body, "gfx942", "gfx950")
    found = [one for one in made.kernels[0].reasons if one.rule == "fp8-memory"]
    assert [(one.text, one.what) for one in found] == [
        ("global_load_dword v1, v0, s[4:5]", "brings in FP8 that v_cvt_f32_fp8_e32 takes"),
        ("ds_read_b32 v3, v0", "brings in FP8 that v_cvt_f32_fp8_e32 takes"),
        ("global_load_dword v1, v0, s[4:5] offset:8", "brings in FP8 that v_cvt_f32_fp8_e32 takes"),
        ("global_store_dword v0, v8, s[4:5]", "takes away FP8 that v_cvt_pk_fp8_f32 makes"),
        ("ds_write_b32 v0, v8", "takes away FP8 that v_cvt_pk_fp8_f32 makes"),
    ]
    texts = {i.address: i.text for i in coasm.load(made.source.data).kernels[0].instructions}
    assert all(one.partner is not None and "_fp8" in texts[one.partner] for one in found)


def test_lds_that_a_launch_adds() -> None:
    """It may be too much where there is less of it, and nowhere else."""
    args = {".args": "[ { .size: 4, .offset: 0, .value_kind: hidden_dynamic_lds_size } ]"}
    for old, new, verdict in (("gfx950", "gfx942", "review"), ("gfx942", "gfx950", "ok")):
        made = port(coasm.load(listing(_END, old, args)), new)
        assert made.verdict == verdict and ("dynamic-lds" in rules(made)) == (verdict == "review")


def test_every_rule_is_on_the_page() -> None:
    page = (Path(__file__).parent.parent.parent / "docs" / "port.md").read_text()
    assert all(f"`{name}`" in page for name in RULES)


def test_lds_before_and_after() -> None:
    """52,000 bytes: 102 granules of 512, 41 of 1,280; of 64 KiB and of 160 KiB."""
    made = ported("", "gfx942", "gfx950", group_segment_fixed_size=52000)
    before, after = made.kernels[0].before, made.kernels[0].after
    assert (before.lds_allocated, after.lds_allocated) == (102 * 512, 41 * 1280)
    assert before.occupancy is not None and after.occupancy is not None
    assert (before.occupancy.workgroups, after.occupancy.workgroups) == (1, 3)


def test_wait_states_that_the_target_asks_for() -> None:
    """A VALU reads what an MFMA of F64 wrote after 11 states on gfx942, 19 on gfx950 (LLVM's hazard
    recognizer: tests/linter/state_cases.py)."""
    mfma = "\tv_mfma_f64_16x16x4_f64 v[8:15], v[0:1], v[2:3], v[8:15]\n"
    read = "\tv_mov_b32 v16, v8\n"
    body = f"{mfma}\ts_nop 10\n{read}"
    assert coasm.lint(listing(body + _END)) == []
    made = ported(body, "gfx942", "gfx950")
    assert made.verdict == "review" and "hazard" in rules(made)
    assert made.obstacle is not None
    fixed = ported(body, "gfx942", "gfx950", fix=True)
    assert fixed.verdict == "ok" and fixed.obstacle is None and fixed.co is not None
    assert coasm.lint(fixed.co.data) == []
    texts = [one.text for one in coasm.load(fixed.co.data).kernels[0].instructions]
    states = sum(int(text.split()[1]) + 1 for text in texts if text.startswith("s_nop"))
    assert states == 19 and [text for text in texts if not text.startswith("s_nop")] == [
        "v_mfma_f64_16x16x4_f64 v[8:15], v[0:1], v[2:3], v[8:15]",
        "v_mov_b32_e32 v16, v8",
        "s_endpgm",
    ]
    (kernel,) = fixed.kernels
    assert {one.rule for one in kernel.reasons} == {"fixed"} and fixed.fixes == 2
    enough = f"{mfma}\ts_nop 15\n\ts_nop 2\n{read}"
    assert ported(enough, "gfx942", "gfx950").verdict == "ok"


def test_names_and_encodings_are_llvms(llvm: Llvm) -> None:
    """LLVM takes gfx90a's names for gfx942, too: the port has its bytes, whatever gfx90a's are."""
    sizes = {"b32": "v0", "b64": "v[0:1]"}
    lines = []
    for old, new in _NEWER.items():
        row = opcode(old, "90a")
        assert row is not None and renamed(old, "942") == new and renamed(new, "90a") == old
        d, a, _, c = row.slots
        accumulator = f"a[0:{int(d.kind[1:]) // 32 - 1}]"
        assert d.kind == c.kind
        lines.append(f"\t{old} {accumulator}, {sizes[a.kind]}, {sizes[a.kind]}, {accumulator}\n")
    waits = "\ts_nop 15\n\ts_nop 15\n"
    made = ported("".join(line + waits for line in lines), "gfx90a", "gfx942", next_free_vgpr=64)
    assert made.co is not None
    wanted = program_of(llvm, listing("".join(line + waits for line in lines) + _END), "gfx942")
    own = build(made.co, llvm)
    assert [i.data for i in own.instructions] == [i.data for i in wanted.instructions]
    assert [i.mnemonic for i in own.instructions if "mfma" in i.text] == list(_NEWER.values())
    assert "encoding" in rules(made)  # of BF16


def test_every_missing_instruction_has_something_in_its_place() -> None:
    every = {name: mnemonics(name) for name in _SETS.values()}
    for old, names in every.items():
        for new, others in every.items():
            for name in names - others:
                assert renamed(name, new) in others or list(substitute(name)), (old, new, name)
    known = frozenset().union(*every.values())
    for names, _ in ADVICE:
        assert {name for one in names.split() for name in expanded(one)} <= known
    assert set(_SETS.values()) <= set(INSTRUCTION_SETS)


def _args(*names: str) -> dict[str, str]:
    """The metadata of pointers, one behind the other."""
    rows = (
        f"{{ .name: {name}, .size: 8, .offset: {8 * at}, .value_kind: global_buffer }}"
        for at, name in enumerate(names)
    )
    return {".args": f"[ {', '.join(rows)} ]"}


@pytest.mark.parametrize(
    ("wide", "narrow", "registers"), [("16x16x32", "16x16x16", 4), ("32x32x16", "32x32x8", 16)]
)
def test_two_products_of_half_the_depth(wide: str, narrow: str, registers: int) -> None:
    """What is said in place of gfx950's F16 products: the same sums, where they are exact."""
    sums, wait = f"v[16:{15 + registers}]", "\ts_nop 15\n\ts_nop 7\n"
    load = (
        "\ts_load_dwordx4 s[4:7], s[0:1], 0x0\n\tv_lshlrev_b32 v40, 5, v0\n"
        "\tv_lshlrev_b32 v41, 6, v0\n\ts_waitcnt lgkmcnt(0)\n"
        "\tglobal_load_dwordx4 v[8:11], v40, s[6:7]\n"
        "\tglobal_load_dwordx4 v[12:15], v40, s[6:7] offset:16\n\ts_waitcnt vmcnt(0)\n"
    )
    load += "".join(f"\tv_mov_b32 v{16 + at}, 0\n" for at in range(registers))
    store = "".join(
        f"\tglobal_store_dwordx4 v41, v[{16 + at}:{19 + at}], s[4:5] offset:{4 * at}\n"
        for at in range(0, registers, 4)
    )
    one = f"\tv_mfma_f32_{wide}_f16 {sums}, v[8:11], v[12:15], {sums}\n{wait}"
    two = "".join(
        f"\tv_mfma_f32_{narrow}_f16 {sums}, v[{8 + at}:{9 + at}], v[{12 + at}:{13 + at}], {sums}\n"
        f"{wait}"
        for at in (0, 2)
    )
    data = np.random.default_rng(7).integers(-8, 8, 64 * 16).astype(np.float16)
    results = []
    for target, products in (("gfx950", one), ("gfx942", two)):
        text = listing(
            load + products + store + _END,
            target,
            _args("out", "data"),
            next_free_vgpr=44,
            accum_offset=44,
        )
        given = {"out": np.zeros(64 * 16, np.float32), "data": data}
        found = coasm.run(text, given, grid=1, workgroup=64, backend="emulator")
        results.append(found.arrays["out"])
    assert np.any(results[0]) and np.array_equal(*results)


def test_there_and_back_are_the_same_bytes(corpus: list[Path]) -> None:
    """Real gfx942 objects: nothing there is not portable, and what is OK lints without an error."""
    objects = [path for path in corpus if "/gfx942/" in str(path)]
    for path in random.Random(11).sample(objects, min(3, len(objects))):
        source = coasm.load(path)
        there = port(source, "gfx950")
        assert there.co is not None
        if there.verdict == "ok":
            assert coasm.lint(there.co.data) == []
        back = port(coasm.load(there.co.data), "gfx942")
        assert back.co is not None and back.co.data == source.data


def test_real_kernels_compute_the_same(corpus: list[Path], tmp_path: Path) -> None:
    """Attention that is OK is right on both; a product of FP8 in FNUZ is another on gfx950."""
    launches = Path(__file__).parent.parent.parent / "examples" / "launches"
    subprocess.run([sys.executable, launches / "inputs.py", tmp_path], check=True)
    for name, launch, verdict in (
        ("fwd_hd192x128_bf16_rtna.co", "fmha_fwd.yaml", "ok"),
        ("fp8gemm_bf16_blockscale_BpreShuffle_96x128.co", "fp8_gemm.yaml", "review"),
    ):
        source = coasm.load(next(path for path in corpus if path.name == name))
        made = port(source, "gfx950")
        assert made.verdict == verdict and made.co is not None
        (tmp_path / launch).write_text((launches / launch).read_text())
        runs = both(source, made.co, tmp_path / launch)
        assert runs.checked and runs.passed == (True, verdict == "ok")
        assert runs.alike == (verdict == "ok")


def test_several_kernels_have_verdicts_of_their_own(
    fixture_objects: list[tuple[str, Path]],
) -> None:
    path = dict(fixture_objects)["multi-gfx942-v6"]
    module = coasm.Module(path)
    first = module.kernel("first")
    module.insert("v_cvt_f32_fp8 v0, v1", before=first.instructions[0])
    made = port(coasm.load(module.data), "gfx950")
    assert {one.name: one.verdict for one in made.kernels} == {
        "first": "review",
        "second": "ok",
        "third": "ok",
    }
    assert made.verdict == "review"
    alone = port(coasm.load(module.data), "gfx950", kernel="second")
    assert [one.verdict for one in alone.kernels] == ["ok"]


def test_what_is_refused(fixture_objects: list[tuple[str, Path]]) -> None:
    path = dict(fixture_objects)["multi-gfx942-v6"]
    for target, why in (("gfx942", "is for gfx942 already"), ("gfx1100", "ported between")):
        with pytest.raises(CoasmError, match=why):
            port(coasm.load(path), target)


def test_only_the_target_is_another(fixture_objects: list[tuple[str, Path]], llvm: Llvm) -> None:
    """Flags and metadata as LLVM has them for the target; every other byte is the original's."""
    source = coasm.load(dict(fixture_objects)["multi-gfx942-v6"])
    made = port(source, "gfx950").co
    assert made is not None
    unlike = [
        at for at, pair in enumerate(zip(source.data, made.data, strict=True)) if len({*pair}) > 1
    ]
    assert len(unlike) == 1 + 2  # the machine of e_flags, "42" -> "50"
    assert made.metadata["amdhsa.target"] == "amdgcn-amd-amdhsa--gfx950"
    # LLVM's disassembler takes it for what it says.
    assert [i.text for own in decode(made, llvm).values() for i in own] == [  # type: ignore[union-attr]
        i.text
        for own in decode(source, llvm).values()
        for i in own  # type: ignore[union-attr]
    ]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    examples = Path(__file__).parent.parent.parent / "examples"
    for name in ("reverse.s", "reverse.yaml", "mx_gemm.s"):
        (tmp_path / name).write_text((examples / name).read_text())

    def ran(*arguments: str) -> tuple[int, dict[str, Any], str]:
        with pytest.raises(SystemExit) as stopped:
            command(["port", *arguments])
        out, err = capsys.readouterr()
        return stopped.value.code or 0, json.loads(out) if "--json" in arguments else {}, err  # type: ignore[return-value]

    status, report, _ = ran(
        "reverse.s", "--to", "gfx942", "--write", "--run", "reverse.yaml", "--json"
    )
    assert status == 0 and report["verdict"] == "ok" and report["written"] == "reverse.gfx942.co"
    assert report["run"]["passed"] == [True, True] and report["run"]["differences"] == []
    assert report["kernels"][0]["verdict"] == "ok"
    assert coasm.load("reverse.gfx942.co").target.name == "gfx942"

    status, report, _ = ran("mx_gemm.s", "--to", "gfx942", "--write", "--json")
    assert status == 1 and report["verdict"] == "not-portable" and report["written"] is None
    assert not (tmp_path / "mx_gemm.gfx942.co").exists()
    reason = report["kernels"][0]["reasons"][0]
    assert reason["rule"] == "missing" and reason["instruction"].startswith("v_mfma_scale")

    status, _, err = ran("reverse.s", "mx_gemm.s", "--to", "gfx942")
    assert status == 1 and "2 objects to gfx942: 1 OK, 0 REVIEW, 1 NOT PORTABLE" in err
    assert ran("reverse.s", "--to", "gfx942", "--write", "-o", "r.s")[0] == 0
    assert coasm.load("r.s").data == coasm.load("reverse.gfx942.co").data


def test_runs_that_differ(tmp_path: Path) -> None:
    """The byte 0x38 is 0.5 in FNUZ and 1.0 in OCP."""
    body = (
        "\ts_load_dwordx2 s[4:5], s[0:1], 0x0\n\tv_mov_b32 v1, 0x38\n\tv_cvt_f32_fp8 v2, v1\n"
        "\tv_lshlrev_b32 v3, 2, v0\n\ts_waitcnt lgkmcnt(0)\n\tglobal_store_dword v3, v2, s[4:5]\n"
    )
    source = coasm.load(listing(body + _END, "gfx942", _args("out")))
    launch = tmp_path / "launch.yaml"
    launch.write_text(
        "grid: 1\nworkgroup: 64\nbuffers:\n  out: {dtype: f32, shape: 64}\narguments:\n  out: out\n"
    )
    made = port(source, "gfx950").co
    assert made is not None
    runs = both(source, made, launch)
    assert not runs.alike and [one.buffer for one in runs.differences] == ["out"]
    # 0x3f000000 and 0x3f800000 differ in one byte of each number.
    assert runs.differences[0].bytes == 64
