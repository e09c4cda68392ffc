"""The wait counters of every generation: LLVM's ``si-insert-waitcnts`` on programs at random.

With the waits that LLVM puts in lint finds nothing; with one of them weaker by one, or left out,
it finds that.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence

import pytest

from coasm.counters import Counters, Waits
from coasm.isa.waits import wait_texts, waits_of
from coasm.linter.findings import Finding
from coasm.linter.waits import check_waits
from coasm.llvm import Llvm
from coasm.target import processor
from tests.linter.mir import Blocks, lintable, llc, llc_path, machine_ir
from tests.linter.mir_waits import Spot

_DWORDS = {"_dwordx2": "_b64", "_dword": "_b32", "ds_read": "ds_load", "ds_write": "ds_store"}
_DWORDS |= {"global_atomic_add ": "global_atomic_add_u32 "}

_COMMON = """
global_load_dword v{v}, v{w}, s[4:5]
global_load_dwordx2 v[0:1], v{w}, s[6:7]
buffer_load_dword v{v}, v{w}, s[8:11], 0 offen
global_store_dword v{v}, v{w}, s[4:5]
global_atomic_add v{v}, v{w}, s[4:5]
ds_read_b32 v{v}, v{w}
ds_write_b32 v{v}, v{w}
ds_add_u32 v{v}, v{w}
s_load_dword s{s}, s[8:9], 0x4
s_load_dwordx2 s[4:5], s[6:7], 0x8
v_mov_b32_e32 v{v}, v{w}
v_mov_b32_e32 v{v}, s{s}
v_readfirstlane_b32 s{s}, v{v}
s_mov_b32 s{s}, 0
s_nop 0
"""
_FLAT = """
flat_load_dword v8, v[2:3]
flat_store_dword v[2:3], v{v}
v_mov_b32_e32 v{v}, v8
"""
_MESSAGES = """
s_sendmsg_rtn_b32 s{s}, sendmsg(MSG_RTN_GET_DOORBELL)
"""


def _pool(text: str, names: dict[str, str]) -> list[str]:
    for old, new in names.items():
        text = text.replace(old, new)
    values = [(v, w, s) for v in range(4) for w in (1, 3) for s in (4, 5, 6)]
    found = {line.format(v=v, w=w, s=s) for line in text.split("\n") if line for v, w, s in values}
    return sorted(found)


#: Processor → instructions that programs are made of.
POOLS = {
    **dict.fromkeys(("gfx900", "gfx906", "gfx908", "gfx90a"), _pool(_COMMON, {})),
    **dict.fromkeys(("gfx1010", "gfx1030"), _pool(_COMMON + _FLAT, {})),
    **dict.fromkeys(("gfx1100", "gfx1150"), _pool(_COMMON + _FLAT + _MESSAGES, _DWORDS)),
    **dict.fromkeys(
        ("gfx1200", "gfx1250"),
        _pool(_COMMON + _FLAT + _MESSAGES, _DWORDS | {", 0 offen": ", null offen"}),
    ),
}
_RULES = ("vmem-wait", "lds-wait", "smem-wait", "flat-wait", "source-wait")
PROGRAMS = 60


def programs(target: str) -> list[Blocks]:
    """Straight programs, and ones that go two ways and meet again."""
    rng = random.Random(f"waits {target}")

    def block(most: int) -> list[str]:
        return [rng.choice(POOLS[target]) for _ in range(rng.randint(1, most))]

    found: list[Blocks] = [[block(16)] for _ in range(PROGRAMS // 2)]
    for _ in range(PROGRAMS // 2):
        one, two = [*block(4), "s_cbranch_scc0 2"], [*block(4), "s_branch 3"]
        found.append([one, two, block(4), block(8)])
    return found


def _counters(target: str) -> Counters:
    counters = processor(target).family.counters
    assert counters is not None
    return counters


def waited(made: Sequence[Blocks], target: str, llvm: Llvm) -> list[dict[Spot, Waits]]:
    """Of each program the waits that LLVM puts before its spots."""
    ir = machine_ir(made, target, llvm)
    entry = r"\1\nmachineFunctionInfo:\n  isEntryFunction: true"
    source = re.sub(r"^(name: f\d+)$", entry, ir, flags=re.M)
    out = llc(llvm, target, source, "-run-pass=si-insert-waitcnts")
    functions = re.findall(r"^name: +f\d+$.*?^body: +\|$(.*?)^\.\.\.$", out, re.M | re.S)
    assert len(functions) == len(made)
    return [_inserted(*pair, _counters(target)) for pair in zip(made, functions, strict=True)]


def _inserted(program: Blocks, function: str, counters: Counters) -> dict[Spot, Waits]:
    found: dict[Spot, Waits] = {}
    blocks = re.split(r"^  bb\.\d+.*:.*$", function, flags=re.M)[1:]
    for number, (texts, ir) in enumerate(zip([*program, ["s_endpgm"]], blocks, strict=True)):
        at = 0
        for line in map(str.strip, ir.splitlines()):
            if not line or line.startswith((";", "successors:", "liveins:")):
                continue
            wait = re.fullmatch(r"(S_WAIT\w+)(?: undef \$sgpr_null,| \$sgpr_null,)? (\d+)", line)
            if wait is None:
                at += 1
                continue
            data = int(wait[2]).to_bytes(4, "little")
            counts = waits_of(wait[1].lower(), data, counters)
            assert counts is not None, line
            has = found.get((number, at), counters.none)
            both = zip(has, counts, strict=True)
            found[number, at] = tuple(
                min((n for n in p if n is not None), default=None) for p in both
            )
        assert at == len(texts), (program, ir)
    return {spot: counts for spot, counts in found.items() if counts != counters.none}


def with_waits(program: Blocks, waits: dict[Spot, Waits], counters: Counters) -> Blocks:
    made: list[list[str]] = []
    for number, texts in enumerate(program):
        lines: list[str] = []
        for at, text in enumerate([*texts, ""]):
            wait = list(wait_texts(waits.get((number, at), counters.none), counters))
            lines += [*wait, text] if text else wait
        made.append(lines)
    return made


def weaker(waits: dict[Spot, Waits], counters: Counters) -> Iterator[dict[Spot, Waits]]:
    """The waits with one of their counts raised by one, or left out where that is no wait."""
    for spot, counts in waits.items():
        for at, (count, most) in enumerate(zip(counts, counters.most, strict=True)):
            if count is not None:
                raised = None if count >= most else count + 1
                yield {**waits, spot: (*counts[:at], raised, *counts[at + 1 :])}


def judge(made: Sequence[Blocks], target: str, llvm: Llvm) -> list[list[Finding]]:
    """What lint says of registers in each program."""
    program, places = lintable(made, target, llvm)
    found: list[list[Finding]] = [[] for _ in made]
    for finding in check_waits(program):
        if finding.rule in _RULES:
            found[places[program.index(finding.place.address)][0]].append(finding)
    return found


@pytest.fixture(scope="module")
def llvm_22(llvm: Llvm) -> Llvm:
    if llvm.major != 22 or not llc_path(llvm).exists() or llvm.mc is None:
        pytest.skip("no llc and llvm-mc of LLVM 22, whose waits these are")
    return llvm


@pytest.mark.parametrize("target", POOLS)
def test_waits_of_llvm_are_enough_and_needed(llvm_22: Llvm, target: str) -> None:
    counters = _counters(target)
    given = programs(target)
    waits = waited(given, target, llvm_22)
    full = [with_waits(one, has, counters) for one, has in zip(given, waits, strict=True)]
    for program, all_found in zip(full, judge(full, target, llvm_22), strict=True):
        found = [one for one in all_found if not _counted_with_loads(program, one)]
        assert not found, (program, [(f.rule, f.what, f.advice, f.place.text) for f in found])
    loose = [
        with_waits(program, has, counters)
        for program, all_of in zip(given, waits, strict=True)
        for has in weaker(all_of, counters)
    ]
    unfound = [
        program
        for program, found in zip(loose, judge(loose, target, llvm_22), strict=True)
        if not found
    ]
    missed = [program for program in unfound if not _is_in_order(program)]
    # A load that is in says more of what was issued before it than the xcnt that LLVM 22 counts.
    most = len(loose) // 30 if "xcnt" in counters.bits else 0
    assert len(missed) <= most, (len(missed), len(loose), missed[:2])
    assert len(unfound) < len(loose) / 10


def _counted_with_loads(program: Blocks, found: Finding) -> bool:
    """Whether LLVM 22 took a wait for N loads for one of N in xcnt, where a store is still out."""
    texts = [text for block in program for text in block]
    store = found.producer is not None and re.search("store|atomic", found.producer.text)
    counted = any(re.match(r"s_wait_loadcnt\w* 0x0*[1-9]", text) for text in texts)
    return found.rule == "source-wait" and bool(store) and counted


def _is_in_order(program: Blocks) -> bool:
    """Whether what LLVM waits for may be LDS results of which one goes over another.

    They come in the order in which they were asked for; LLVM waits all the same
    (:data:`tests.linter.wait_cases.DIFFERENCES`).
    """
    results = [
        text.split()[1] for texts in program for text in texts if re.match("ds_(read|load)", text)
    ]
    return len(results) != len(set(results))
