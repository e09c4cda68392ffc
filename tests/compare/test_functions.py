"""Objects of many functions: compared one by one, whatever their order and their addresses."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import coasm
from coasm.__main__ import main
from coasm.bundle import embed, extract, find
from coasm.codeobject import CodeObject, load
from coasm.compare import Report, verify
from coasm.errors import CoasmError
from coasm.llvm.find import Llvm
from tests.bundle.carriers import HOST, bundle, entry_id, tool
from tests.compare.objects import build, different, flipped, source

_SOURCES = Path(__file__).parent.parent / "fixtures"


def changed(report: Report) -> dict[str, str]:
    """The functions that are neither identical nor equivalent."""
    return {
        function.name: function.verdict
        for function in report.checks["text"].functions
        if function.verdict not in ("identical", "equivalent")
    }


def address(symbol: str, target: str = "gfx942") -> str:
    """A symbol's address into s[4:5]. Source: LLVM AMDGPU usage, "Code Sequences"."""
    if target == "gfx1250":
        return f"s_get_pc_i64 s[4:5]\ns_add_nc_u64 s[4:5], s[4:5], {symbol}@rel64+4\n"
    return (
        f"s_getpc_b64 s[4:5]\ns_add_u32 s4, s4, {symbol}@rel32@lo+4\n"
        f"s_addc_u32 s5, s5, {symbol}@rel32@hi+12\n"
    )


def helper(name: str, body: str) -> str:
    """A device function: no kernel."""
    return (
        f"\t.text\n\t.p2align 2\n\t.type {name},@function\n{name}:\n{body}\ns_setpc_b64 s[30:31]\n"
    )


def data(*objects: tuple[str, str]) -> str:
    """Constants: name and directive."""
    return "".join(
        f"\t.p2align 4, 0\n\t.type {name},@object\n{name}:\n\t{what}\n\t.size {name}, .-{name}\n"
        for name, what in objects
    )


HELPERS = {
    "twice": "v_add_u32 v0, v0, v0",
    "next": "v_add_u32 v0, 1, v0\nv_add_u32 v0, 2, v0",
}
BODIES_ONLY = {"kernel": "s_nop 0\ns_endpgm"}
TABLES = {"primes": ".long 2, 3, 5, 7, 11", "squares": ".long 1, 4, 9, 16", "single": ".quad 1"}
BODIES = {
    "alpha": f"s_nop 0\n{address('primes')}s_load_dword s6, s[4:5], 0x4\ns_endpgm",
    "beta": f"{address('twice')}s_swappc_b64 s[30:31], s[4:5]\n{address('squares')}"
    "again: s_nop 1\ns_cbranch_scc0 again\ns_endpgm",
    "gamma": f"{address('next')}s_swappc_b64 s[30:31], s[4:5]\ns_endpgm",
}


def many(
    llvm: Llvm,
    bodies: dict[str, str] = BODIES,
    helpers: dict[str, str] = HELPERS,
    tables: dict[str, str] = TABLES,
) -> CodeObject:
    text = source(bodies, rodata=data(*tables.items()))
    return build(llvm, "".join(helper(*item) for item in helpers.items()) + text)


def turned(items: dict[str, str]) -> dict[str, str]:
    return dict(reversed(items.items()))


@pytest.fixture(scope="module")
def base(llvm: Llvm) -> CodeObject:
    return many(llvm)


# --- order and addresses


def test_order_does_not_count(llvm: Llvm, base: CodeObject) -> None:
    for other in (
        many(llvm, bodies=turned(BODIES)),
        many(llvm, helpers=turned(HELPERS)),
        many(llvm, tables=turned(TABLES)),
        many(llvm, turned(BODIES), turned(HELPERS), turned(TABLES)),
    ):
        for one, two in ((base, other), (other, base)):
            report = verify(one, two, llvm)
            # The metadata lists the kernels in the order of the source: that is another document.
            assert different(report) <= {"metadata"}
            assert not report.loaded_identical and not report.data
            assert not changed(report)


def test_one_edit_moves_the_rest(llvm: Llvm, base: CodeObject) -> None:
    for name in BODIES:
        other = many(llvm, {**BODIES, name: "s_nop 7\n" * 80 + BODIES[name]})
        report = verify(base, other, llvm)
        assert different(report) == {"text"} and not report.data
        assert changed(report) == {name: "different"}
        assert len(report.checks["text"].functions) == 5
        rows = [r for h in report.checks["text"].hunks for r in h.rows if r.kind != "same"]
        assert Counter(row.kind for row in rows) == {"inserted": 80}
        assert {hunk.function for hunk in report.checks["text"].hunks} == {name}


def test_missing_and_new(llvm: Llvm, base: CodeObject) -> None:
    other = many(llvm, helpers={**HELPERS, "more": "v_mov_b32 v0, 0"})
    assert changed(verify(base, other, llvm)) == {"more": "new"}
    assert changed(verify(other, base, llvm)) == {"more": "missing"}
    fewer = many(llvm, {name: BODIES[name] for name in ("alpha", "gamma")})
    report = verify(base, fewer, llvm)
    assert changed(report) == {"beta": "missing"}
    assert different(report) == {"text", "metadata", "descriptors"}


# --- what an address leads to


@pytest.mark.parametrize("target", ["gfx942", "gfx1250"])
def test_an_address_of_something_else(llvm: Llvm, target: str) -> None:
    tables = data(*TABLES.items())

    def pair(symbol: str) -> CodeObject:
        bodies = {"one": f"{address(symbol, target)}s_endpgm", "two": "s_nop 0\ns_endpgm"}
        return build(llvm, source(bodies, target, rodata=tables), target)

    report = verify(pair("primes"), pair("squares"), llvm)
    assert different(report) == {"text"} and changed(report) == {"one": "different"}
    rows = [r for h in report.checks["text"].hunks for r in h.rows if r.kind != "same"]
    assert {row.kind for row in rows} == {"branch"}
    assert all(r.original and "-> primes at 0x" in r.original.text for r in rows)
    assert all(r.rebuilt and "-> squares at 0x" in r.rebuilt.text for r in rows)


def test_the_helpers_are_exchanged(llvm: Llvm, base: CodeObject) -> None:
    """Equal bytes in the caller, but what lies at that distance is another function."""
    sizes = dict(HELPERS, next="v_add_u32 v0, 3, v0")  # both helpers of the same size
    one = many(llvm, helpers=sizes)
    swapped = many(llvm, helpers={"twice": sizes["next"], "next": sizes["twice"]})
    report = verify(one, swapped, llvm)
    assert changed(report) == {"twice": "different", "next": "different"}
    calls = {**BODIES, "gamma": BODIES["gamma"].replace("next", "twice")}
    assert changed(verify(one, many(llvm, calls, sizes), llvm)) == {"gamma": "different"}
    # The callers' bytes stay the same, but at that distance lies the other one.
    calls["beta"] = BODIES["beta"].replace("twice", "next")
    report = verify(one, many(llvm, calls, turned(sizes)), llvm)
    assert changed(report) == {"beta": "different", "gamma": "different"}


def test_a_distance_that_stays_a_number(llvm: Llvm) -> None:
    """A branch into the sequence: what the registers hold there cannot be proven."""
    numeric = "s_getpc_b64 s[4:5]\nhere: s_add_u32 s4, s4, 0x100\ns_cbranch_scc1 here\ns_endpgm"
    bodies = {"one": numeric, "two": "s_nop 0\ns_endpgm", "three": "s_nop 2\ns_endpgm"}
    co = build(llvm, source(bodies))
    longer = build(llvm, source({**bodies, "two": "s_nop 0\n" * 80 + "s_endpgm"}))
    report = verify(co, longer, llvm)
    assert changed(report) == {"one": "different", "two": "different"}
    (finding,) = report.checks["text"].findings
    assert finding.place == "one+0x0" and "moved" in finding.note


def test_what_has_no_end_runs_into_what_follows(llvm: Llvm) -> None:
    open_, closed = "v_mov_b32 v1, v2", "s_endpgm"
    bodies = {
        "one": "s_nop 1\ns_endpgm",
        "two": open_,
        "three": closed,
        "four": "s_nop 3\ns_endpgm",
    }
    moved = {name: bodies[name] for name in ("two", "three", "one", "four")}
    apart = {name: bodies[name] for name in ("one", "two", "four", "three")}
    co = build(llvm, source(bodies))
    assert not changed(verify(co, build(llvm, source(moved)), llvm))
    report = verify(co, build(llvm, source(apart)), llvm)
    assert changed(report) == {"two": "different"}
    (finding,) = report.checks["text"].findings
    assert (finding.original, finding.rebuilt) == ("runs into three", "runs into four")


def test_local_functions_of_one_name(llvm: Llvm) -> None:
    """Two files may each have a function of a name: told apart by what is in them."""

    def twins(first: str, second: str) -> CodeObject:
        a, b = (helper("twin", body).replace("twin", f"twin{n}")
                for n, body in enumerate((first, second)))  # fmt: skip
        co = build(llvm, a + b + source({"one": "s_endpgm"}))
        # The names differ in the last letter: make them one.
        return load(co.data.replace(b"twin1\0", b"twin0\0"), name="twins.co")

    one, other = "v_mov_b32 v0, 1\ns_nop 4", "v_mov_b32 v0, 2"
    report = verify(twins(one, other), twins(other, one), llvm)
    assert not changed(report) and report.verdicts["text"] == "equivalent"
    report = verify(twins(one, other), twins(other, one.replace("4", "5")), llvm)
    assert changed(report) == {"twin0": "different"}


# --- data


def test_an_object_among_moved_ones(llvm: Llvm, base: CodeObject) -> None:
    edited = turned({**TABLES, "primes": TABLES["primes"].replace("7", "8")})
    report = verify(base, many(llvm, tables=edited), llvm)
    assert not different(report) and not report.equivalent
    (finding,) = report.data
    assert finding.place == "primes+0xc"
    assert (finding.original, finding.rebuilt) == ("07", "08")
    report = verify(base, many(llvm, tables={**TABLES, "primes": ".long 2"}), llvm)
    assert [(f.place, f.original, f.rebuilt) for f in report.data] == [
        ("primes", "20 bytes", "4 bytes")
    ]
    assert not changed(report)


def test_pointers_in_moved_objects(llvm: Llvm) -> None:
    def pointers(*rows: tuple[str, str]) -> CodeObject:
        section = '\t.section .mydata,"aw",@progbits\n'
        bodies = {"one": f"{address('first')}s_endpgm", "two": "s_nop 0\ns_endpgm"}
        return build(llvm, source(bodies) + section + data(*rows))

    first, second = ("first", ".quad one\n\t.quad 7"), ("second", ".quad second")
    third = ("third", ".quad 1")
    for order in ((third, second, first), (second, first, third)):
        report = verify(pointers(first, second, third), pointers(*order), llvm)
        assert report.equivalent and not report.data
    other = ("second", ".quad first")
    report = verify(pointers(first, second, third), pointers(third, other, first), llvm)
    assert {finding.place for finding in report.data} == {"relocation"}


def test_frame_tables(llvm: Llvm) -> None:
    """Entries in another order, and one that says something else."""
    head, frame = "\t.cfi_sections .eh_frame\n", ".cfi_startproc\n{}\n.cfi_endproc"
    framed = {name: frame.format(body) for name, body in HELPERS.items()}
    one = build(llvm, head + "".join(map(helper, framed, framed.values())) + source(BODIES_ONLY))
    two = build(
        llvm,
        head + "".join(helper(n, framed[n]) for n in reversed(framed)) + source(BODIES_ONLY),
    )
    assert any(section.name == ".eh_frame" and section.alloc for section in one.sections)
    report = verify(one, two, llvm)
    assert report.equivalent and not report.data and not report.loaded_identical
    framed["next"] = frame.format(".cfi_undefined 2560\n" + HELPERS["next"])
    three = build(llvm, head + "".join(map(helper, framed, framed.values())) + source(BODIES_ONLY))
    report = verify(one, three, llvm)
    assert not different(report)
    assert ".eh_frame: entry" in {finding.place for finding in report.data}


# --- compiled objects


def compiled(llvm: Llvm, folder: Path, name: str, target: str, *flags: str) -> Path:
    out = folder / f"{target}.co"
    language = (
        ["-x", "cl", "-cl-std=CL2.0", "-target", "amdgcn-amd-amdhsa", f"-mcpu={target}", "-w"]
        if name.endswith(".cl")
        else ["-x", "hip", f"--offload-arch={target}", "--offload-device-only", "-nogpuinc"]
    )
    if name.endswith(".hip") and "-c" not in flags:
        language.append("--no-gpu-bundle-output")
    subprocess.run(
        [llvm.clang, *language, "-nogpulib", *flags, str(_SOURCES / name), "-o", str(out)],
        check=True,
        capture_output=True,
    )
    return out


def functions_of(co: CodeObject) -> list[str]:
    """The function symbols (STT_FUNC is 2)."""
    return [s.name for s in co.symbols if s.type == 2]


def with_nop(text: str, function: str) -> str:
    """The listing with an `s_nop` before the first instruction of a function."""
    at = text.index(f"\n{function}:")
    at = text.index("\n\ts_", at)
    return f"{text[:at]}\n\ts_nop 3{text[at:]}"


@pytest.mark.parametrize("name", ["compiled.cl", "compiled.hip"])
@pytest.mark.parametrize("target", ["gfx90a", "gfx942", "gfx1100", "gfx1250"])
def test_exactly_the_edited_function_differs(
    llvm: Llvm, tmp_path: Path, name: str, target: str
) -> None:
    path = compiled(llvm, tmp_path, name, target, "-O3" if target != "gfx942" else "-O0")
    co, text = load(path), coasm.disassemble(path).text
    for function in functions_of(co):
        report = verify(co, load(coasm.assemble(with_nop(text, function)).data), llvm)
        assert changed(report) == {function: "different"}
        assert report.checks["text"].differing_rows == 1
        assert different(report) == {"text"} and not report.data
        assert len(report.checks["text"].functions) == len(functions_of(co))


@pytest.mark.parametrize("target", ["gfx942", "gfx1100", "gfx1250"])
def test_functions_that_the_linker_orders(llvm: Llvm, tmp_path: Path, target: str) -> None:
    obj = compiled(llvm, tmp_path, "compiled.cl", target, "-c", "-ffunction-sections", "-O3")
    plain, ordered = tmp_path / "plain.co", tmp_path / "ordered.co"
    lld, order = tool(llvm, "ld.lld"), tmp_path / "order"
    subprocess.run([lld, "-shared", obj, "-o", plain], check=True)
    co = load(plain)
    names = [s.name for s in sorted(co.symbols, key=lambda s: s.value) if s.type == 2]
    order.write_text("\n".join([*reversed(names), "rows", "digits"]))
    subprocess.run(
        [lld, "-shared", "--symbol-ordering-file", order, obj, "-o", ordered], check=True
    )
    other = load(ordered)
    again = [s.name for s in sorted(other.symbols, key=lambda s: s.value) if s.type == 2]
    assert again == names[::-1] and len(names) > 2
    report = verify(co, other, llvm)
    assert report.equivalent and not report.loaded_identical and not report.data
    assert report.verdicts["text"] == report.verdicts["descriptors"] == "equivalent"


def test_a_library_with_one_edited_kernel(llvm: Llvm, tmp_path: Path) -> None:
    """extract, disasm, edit a constant, asm, embed."""
    bodies = {
        name: f"v_mov_b32 v0, {n:#x}\ns_endpgm" for n, name in enumerate(("a", "b", "c"), 0x1000)
    }
    objects = {t: build(llvm, source(bodies, t), t).data for t in ("gfx942", "gfx1100")}
    library = tmp_path / "library"
    library.write_bytes(bundle([HOST, *((entry_id(t), d) for t, d in objects.items())]))
    held = {entry.target: entry for entry in find(library)}
    text = coasm.disassemble(load(extract(held["gfx942"]), name="b.co")).text
    assert text.count("0x1001") == 1
    rebuilt = coasm.assemble(text.replace("0x1001", "0x2001")).data
    library.write_bytes(embed(library, {"gfx942": rebuilt}).data)
    after = {entry.target: load(extract(entry)) for entry in find(library)}
    assert verify(load(objects["gfx1100"]), after["gfx1100"]).file_identical
    report = verify(load(objects["gfx942"]), after["gfx942"], llvm)
    assert changed(report) == {"b": "different"} and different(report) == {"text"}
    assert report.verdicts["descriptors"] == report.verdicts["metadata"] == "identical"


# --- every bit


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(draw=st.data())
def test_no_bit_goes_unnoticed(llvm: Llvm, base: CodeObject, draw: st.DataObject) -> None:
    (code,) = base.code_sections
    offset = draw.draw(st.integers(code.offset, code.offset + code.size - 1))
    try:
        report = verify(base, flipped(base, offset, draw.draw(st.integers(0, 7))), llvm)
    except CoasmError:
        return
    text = report.checks["text"]
    if report.verdicts["text"] == "equivalent":
        assert text.dont_care
    else:
        assert report.verdicts["text"] == "different"
        assert text.differing_rows or text.findings


# --- as a person reads it


def test_the_report(
    llvm: Llvm, tmp_path: Path, capsys: pytest.CaptureFixture[str], base: CodeObject
) -> None:
    mangled = "_Z6doublei"
    one, two = (
        build(
            llvm,
            source(
                {
                    "alpha": "s_endpgm",
                    mangled: f"{body}\ns_endpgm",
                    "omega": f"{address('alpha')}s_nop 2\ns_endpgm",
                }
            ),
        )
        for body in ("v_mov_b32 v0, v1", "v_mov_b32 v0, v2\n" * 70)
    )
    paths = [str(tmp_path / name) for name in ("one.co", "two.co")]
    for path, co in zip(paths, (one, two), strict=True):
        Path(path).write_bytes(co.data)
    assert main(["verify", *paths]) == 1
    out = capsys.readouterr().out
    assert "text         different   1 of 3 functions identical, 1 equivalent, 1 different" in out
    assert re.search(rf"^  different   {mangled}  double\(int\)$", out, re.M)
    assert f".text: {mangled}\n" in out
    assert main(["verify", *paths, "--json"]) == 1
    text = json.loads(capsys.readouterr().out)["checks"]["text"]
    assert [(f["name"], f["verdict"]) for f in text["functions"]] == [
        ("alpha", "identical"),
        (mangled, "different"),
        ("omega", "equivalent"),
    ]
    assert {row["function"] for row in text["instructions"]} == {mangled}
