"""Programs that wait for what memory gives, and what LLVM and the linter ask for in them.

:data:`SITUATIONS` are worked out by the rules of the ISA guides' section 4.4, :data:`DIFFERENCES`
are where LLVM 22 asks for something else than the linter, :data:`POOL` has instructions of every
kind on few registers.
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

from coasm.linter.findings import ADVICE, ERROR
from tests.linter.mir import Blocks
from tests.linter.mir_waits import Spot, Wait

__all__ = [
    "DIFFERENCES",
    "FLAT_POOL",
    "IN_LDS",
    "IN_ORDER_ANYWAY",
    "POOL",
    "SITUATIONS",
    "TARGETS",
    "Ask",
    "Difference",
    "InLds",
    "Situation",
]

TARGETS = ("gfx942", "gfx950")


def vm(count: int) -> Wait:
    return Wait(count, None)


def lgkm(count: int) -> Wait:
    return Wait(None, count)


class Ask(NamedTuple):
    """A finding: where, what for (block and instruction), the rule, the wait that it asks for."""

    at: Spot
    producer: Spot
    rule: str
    wait: Wait
    level: str = ERROR


class Situation(NamedTuple):
    """A program without waits, and the findings in it."""

    about: str
    program: Blocks
    asks: tuple[Ask, ...] = ()
    targets: tuple[str, ...] = TARGETS


_LOAD = "global_load_dword v1, v5, s[4:5]"
_OTHER = "global_load_dword v2, v5, s[4:5]"
_STORE = "global_store_dword v5, v6, s[4:5]"
_FLAT = "flat_load_dword v1, v[6:7]"
_READ = "ds_read_b32 v1, v5"
_USE = "v_mov_b32_e32 v9, v1"
_SMEM = "s_load_dword s4, s[8:9], 0x0"
_MESSAGE = "s_sendmsg sendmsg(MSG_INTERRUPT)"
_DMA = "buffer_load_dword v5, s[8:11], 0 offen lds"


def _line(about: str, rule: str, wait: Wait, *texts: str, producer: int = 0) -> Situation:
    """A program of one block whose last instruction needs *wait* for that at *producer*."""
    ask = Ask((0, len(texts) - 1), (0, producer), rule, wait)
    return Situation(about, [list(texts)], (ask,))


def _none(about: str, *texts: str) -> Situation:
    return Situation(about, [list(texts)])


def _vm(about: str, count: int, *texts: str) -> Situation:
    return _line(about, "vmem-wait", vm(count), *texts)


def _lds(about: str, count: int, *texts: str, producer: int = 0) -> Situation:
    return _line(about, "lds-wait", lgkm(count), *texts, producer=producer)


def _smem(about: str, *texts: str) -> Situation:
    return _line(about, "smem-wait", lgkm(0), *texts)


SITUATIONS = (
    # VMEM: in order, loads, stores and atomics mixed.
    _vm("a VALU reads a load", 0, _LOAD, _USE),
    _vm("a VALU overwrites a load", 0, _LOAD, "v_mov_b32_e32 v1, 0"),
    _vm("an MFMA reads a load", 0, _LOAD, "v_mfma_f32_4x4x4_16b_f16 v[8:11], v[0:1], v[2:3], 0"),
    _vm("a lane of a load is read", 0, _LOAD, "v_readfirstlane_b32 s6, v1"),
    _vm("a load is an address", 0, _LOAD, "global_load_dword v2, v1, s[4:5]"),
    _vm("a load is the address of a store", 0, _LOAD, "global_store_dword v1, v6, s[4:5]"),
    _vm("a load is what is stored", 0, _LOAD, "buffer_store_dword v1, v5, s[8:11], 0 offen"),
    _vm("a load is written to LDS", 0, _LOAD, "ds_write_b32 v5, v1"),
    _vm("a load is an address in LDS", 0, _LOAD, "ds_read_b32 v2, v1"),
    _vm("a load is the data of an atomic", 0, _LOAD, "global_atomic_add v5, v1, s[4:5]"),
    _vm("a load is the address of a load to LDS", 0, _LOAD, _DMA.replace("v5", "v1")),
    _vm("loads behind it", 2, _LOAD, _OTHER, "scratch_load_dword v3, v5, off", _USE),
    _vm("stores behind it", 2, _LOAD, _STORE, "scratch_store_dword v5, v6, off", _USE),
    _vm("atomics behind it", 2, _LOAD, "global_atomic_add v5, v6, s[4:5]",
        "global_atomic_add v2, v5, v6, s[4:5] sc0", _USE),
    _vm("loads to LDS behind it", 2, _LOAD, _DMA, _DMA, _USE),
    _vm("LDS and scalar memory behind it", 0, _LOAD, "ds_read_b32 v2, v5", _SMEM, _MESSAGE, _USE),
    _vm("cache maintenance behind it", 0, _LOAD, "buffer_inv sc1", "buffer_wbl2 sc1", _USE),
    _vm("an atomic with a result", 1, "global_atomic_add v1, v5, v6, s[4:5] sc0", _STORE, _USE),
    _vm("a buffer atomic with a result", 0, "buffer_atomic_add v1, v5, s[8:11], 0 offen sc0", _USE),
    _vm("one register of many", 1, "global_load_dwordx4 v[0:3], v5, s[4:5]", _STORE, _USE),
    _vm("an AGPR", 0, "global_load_dword a1, v5, s[4:5]", "v_accvgpr_read_b32 v9, a1"),
    _vm("scratch", 1, "scratch_load_dword v1, v5, off", _STORE, _USE),
    _vm("as many as can be counted", 62, _LOAD, *[_STORE] * 62, _USE),
    Situation("a load over a load", [[_LOAD, _LOAD, _OTHER, _USE]],
              (Ask((0, 3), (0, 0), "vmem-wait", vm(2)), Ask((0, 3), (0, 1), "vmem-wait", vm(1)))),
    _vm("LDS over a load", 0, _LOAD, _READ),
    _lds("a load over LDS", 0, _READ, _LOAD),
    _none("an atomic without a result", "global_atomic_add v5, v6, s[4:5]", "v_mov_b32_e32 v6, 0"),
    _none("what a store stores is overwritten", _STORE, "v_mov_b32_e32 v6, 0"),
    _none("an address is overwritten", _LOAD, "v_mov_b32_e32 v5, 0", "s_mov_b32 s4, 0"),
    _none("a descriptor is overwritten", "buffer_load_dword v1, v5, s[8:11], 0 offen",
          "s_mov_b32 s8, 0"),
    _none("what LDS is written with is overwritten", "ds_write_b32 v5, v6", "v_mov_b32_e32 v6, 0"),
    _none("a scalar base is overwritten", _SMEM, "s_mov_b32 s8, 0"),
    _none("the end", _STORE, "global_atomic_add v5, v6, s[4:5]", "ds_write_b32 v5, v6"),
    _none("memory read on another way", "global_store_dword v5, v6, s[8:9]", _SMEM),
    # DS: in order as long as nothing else is out.
    _lds("LDS is read", 0, _READ, _USE),
    _lds("LDS behind it", 3, _READ, "ds_write_b32 v5, v6", "ds_read_b32 v2, v5",
         "ds_add_u32 v5, v6", _USE),
    _lds("VMEM behind it", 0, _READ, _STORE, _OTHER, _DMA, _USE),
    _lds("a result overwritten", 1, _READ, "ds_read_b32 v2, v5", "v_mov_b32_e32 v1, 0"),
    _lds("a result is stored", 0, _READ, "global_store_dword v5, v1, s[4:5]"),
    _lds("bpermute", 1, "ds_bpermute_b32 v1, v5, v6", "ds_read_b32 v2, v5", _USE),
    _lds("permute", 0, "ds_permute_b32 v1, v5, v6", _USE),
    _lds("swizzle", 1, "ds_swizzle_b32 v1, v5", "ds_bpermute_b32 v2, v5, v6", _USE),
    _lds("an atomic on LDS", 0, "ds_add_rtn_u32 v1, v5, v6", _USE),
    _lds("two at once", 0, "ds_read2_b32 v[0:1], v5 offset1:1", _USE),
    _lds("scalar memory behind it", 0, _READ, "ds_read_b32 v2, v5", _SMEM, _USE),
    _lds("scalar memory before it", 0, _SMEM, _READ, "ds_read_b32 v2, v5", _USE, producer=1),
    _lds("a message behind it", 0, _READ, "ds_read_b32 v2, v5", _MESSAGE, _USE),
    _lds("s_dcache_inv behind it", 0, _READ, "ds_read_b32 v2, v5", "s_dcache_inv", _USE),
    _lds("FLAT behind it", 0, _READ, "ds_read_b32 v2, v5", "flat_store_dword v[6:7], v8", _USE),
    # The counter has four bits: 15 that came after it are out only where it is in.
    *(
        _lds(f"{n} of LDS behind it", 14, _READ, *["ds_write_b32 v5, v6"] * n, _USE)._replace(
            asks=(Ask((0, n + 1), (0, 0), "lds-wait", lgkm(14), ADVICE if n > 14 else ERROR),)
        )
        for n in (14, 15, 20)
    ),
    _lds("transposed", 1, "ds_read_b64_tr_b16 v[0:1], v5", "ds_read_b32 v2, v5", _USE)._replace(
        targets=("gfx950",)
    ),
    # SMEM: out of order.
    _smem("SALU reads it", _SMEM, "s_add_u32 s6, s4, s5"),
    _smem("SALU overwrites it", _SMEM, "s_mov_b32 s4, 0"),
    _smem("VALU reads it", _SMEM, "v_mov_b32_e32 v1, s4"),
    _smem("VALU overwrites it", _SMEM, "v_readfirstlane_b32 s4, v1"),
    _smem("VMEM reads it", _SMEM, _LOAD),
    _smem("scalar memory reads it", "s_load_dwordx2 s[8:9], s[4:5], 0x0", _SMEM),
    _smem("scalar memory overwrites it", _SMEM, "s_load_dword s4, s[8:9], 0x4"),
    _smem("scalar loads behind it", _SMEM, "s_load_dword s6, s[8:9], 0x4", "s_mov_b32 s7, s4"),
    _smem("a buffer of scalars", "s_buffer_load_dwordx4 s[4:7], s[8:11], 0x0", "s_mov_b32 s3, s6"),
    _smem("s_memtime", "s_memtime s[4:5]", "s_memtime s[6:7]", "s_mov_b32 s8, s4"),
    _smem("VCC is read implicitly", "s_load_dwordx2 vcc, s[8:9], 0x0",
          "v_cndmask_b32_e32 v9, v1, v2, vcc"),
    _smem("into M0", _SMEM, "s_mov_b32 m0, s4"),
    _smem("LDS behind a scalar load", _SMEM, "ds_read_b32 v2, v5", "s_mov_b32 s7, s4"),
    # FLAT: in both counters, in no order.
    _line("FLAT is read", "flat-wait", Wait(0, 0), _FLAT, _USE),
    _line("FLAT is overwritten", "flat-wait", Wait(0, 0), _FLAT, "v_mov_b32_e32 v1, 0"),
    _line("FLAT, others behind it", "flat-wait", Wait(0, 0), _FLAT, _STORE, "ds_read_b32 v2, v5",
          _USE),
    _line("an atomic through FLAT", "flat-wait", Wait(0, 0),
          "flat_atomic_add v1, v[6:7], v8 sc0", _USE),
    _line("LDS over FLAT", "flat-wait", Wait(0, 0), _FLAT, _READ),
    _line("FLAT over FLAT", "flat-wait", Wait(0, 0), _FLAT, _FLAT),
    _line("FLAT over LDS", "lds-wait", lgkm(0), _READ, _FLAT),
    _line("FLAT over a load", "vmem-wait", vm(0), _LOAD, _FLAT),
    _vm("FLAT behind a load", 0, _LOAD, "flat_store_dword v[6:7], v8", _USE),
    _line("FLAT before a load", "vmem-wait", vm(0), "flat_store_dword v[6:7], v8", _LOAD, _OTHER,
          _USE, producer=1),
    _line("FLAT before LDS", "lds-wait", lgkm(0), "flat_store_dword v[6:7], v8", _READ,
          "ds_read_b32 v2, v5", _USE, producer=1),
    _none("nothing of FLAT's is used", "flat_store_dword v[6:7], v8", "v_mov_b32_e32 v8, 0"),
    # A barrier ends nothing.
    _vm("a load across a barrier", 1, _LOAD, _STORE, "s_barrier", _USE),
    _lds("LDS across a barrier", 0, _READ, "s_barrier", _USE),
    # Loads to LDS.
    _none("a load to LDS after another", _DMA, _DMA),
    _none("M0 and the address change behind a load to LDS", _DMA, "s_mov_b32 m0, s7",
          "v_mov_b32_e32 v5, 0", "s_mov_b32 s8, 0"),
    _none("a load to LDS over what is being read", _READ.replace("v5", "v6"), _DMA),
    # Ways that part and meet.
    Situation("the same count on two ways",
              [[_LOAD, "s_cbranch_scc0 2"], [_STORE, "s_branch 3"], [_OTHER], [_USE]],
              (Ask((3, 0), (0, 0), "vmem-wait", vm(1)),)),
    Situation("the way with less behind it counts",
              [[_LOAD, "s_cbranch_scc0 2"], [_STORE, _STORE, "s_branch 3"], [_STORE], [_USE]],
              (Ask((3, 0), (0, 0), "vmem-wait", vm(1)),)),
    Situation("nothing behind it on one way", [[_READ, "s_cbranch_scc0 2"],
              ["ds_write_b32 v5, v6"], [_USE]], (Ask((2, 0), (0, 0), "lds-wait", lgkm(0)),)),
    Situation("another producer on each way",
              [["s_cbranch_scc0 2"], [_LOAD, _STORE, "s_branch 3"],
               [_LOAD, _STORE, _STORE], [_USE]],
              (Ask((3, 0), (1, 0), "vmem-wait", vm(1)), Ask((3, 0), (2, 0), "vmem-wait", vm(2)))),
    Situation("another counter on each way",
              [["s_cbranch_scc0 2"], [_LOAD, "s_branch 3"], [_READ], [_USE]],
              (Ask((3, 0), (1, 0), "vmem-wait", vm(0)), Ask((3, 0), (2, 0), "lds-wait", lgkm(0)))),
    Situation("scalar memory on one way takes the order of LDS",
              [[_READ, "ds_read_b32 v2, v5", "s_cbranch_scc0 2"], [_SMEM], [_USE]],
              (Ask((2, 0), (0, 0), "lds-wait", lgkm(0)),)),
    Situation("used on one way, overwritten on the other",
              [[_LOAD, _STORE, "s_cbranch_scc0 2"], [_USE, "s_branch 3"],
               [_STORE, "v_mov_b32_e32 v1, 0"], []],
              (Ask((1, 0), (0, 0), "vmem-wait", vm(1)), Ask((2, 1), (0, 0), "vmem-wait", vm(2)))),
    # Loops.
    Situation("what the end of a loop loads its start uses",
              [["s_nop 0"], [_USE, _LOAD, _STORE, "s_cbranch_scc1 1"]],
              (Ask((1, 0), (1, 1), "vmem-wait", vm(1)),)),
    Situation("LDS read ahead in a loop",
              [["s_nop 0"], [_USE, "v_mov_b32_e32 v8, v2", _READ, "ds_read_b32 v2, v5",
                             "s_cbranch_scc1 1"]],
              (Ask((1, 0), (1, 2), "lds-wait", lgkm(1)), Ask((1, 1), (1, 3), "lds-wait", lgkm(0)))),
    Situation("what a loop leaves", [["s_nop 0"], [_LOAD, _STORE, "s_cbranch_scc1 1"], [_USE]],
              (Ask((2, 0), (1, 0), "vmem-wait", vm(1)),)),
    Situation("two blocks of a loop, the shorter way round",
              [["s_nop 0"], [_USE, _LOAD, "s_cbranch_scc0 3"], [_STORE],
               [_STORE, "s_cbranch_scc1 1"]],
              (Ask((1, 0), (1, 1), "vmem-wait", vm(1)),)),
    Situation("scalars read ahead in a loop",
              [["s_nop 0"], ["s_mov_b32 s7, s4", _SMEM, "s_cbranch_scc1 1"]],
              (Ask((1, 0), (1, 1), "smem-wait", lgkm(0)),)),
    Situation("FLAT read ahead in a loop",
              [["s_nop 0"], [_USE, _FLAT, _STORE, "s_cbranch_scc1 1"]],
              (Ask((1, 0), (1, 1), "flat-wait", Wait(0, 0)),)),
)  # fmt: skip


class InLds(NamedTuple):
    """What goes through LDS: LLVM's waits where its accesses may be to the same, our findings."""

    about: str
    program: Blocks
    llvm: dict[Spot, Wait]
    asks: tuple[Ask, ...]


#: Situations in which LLVM waits for everything, though a count of 1 is enough: another LDS read
#: behind the first is still out while that is. Lint only advises there.
IN_ORDER_ANYWAY = (
    "scalar memory behind it",
    "scalar memory before it",
    "a message behind it",
    "s_dcache_inv behind it",
    "FLAT behind it",
    "FLAT before LDS",
    "FLAT before a load",
    "scalar memory on one way takes the order of LDS",
)

IN_LDS = (
    InLds("a load to LDS that is read",
          [[_DMA, "ds_read_b32 v2, v6"]],
          {(0, 1): vm(0)}, (Ask((0, 1), (0, 0), "lds-dma-wait", vm(0)),)),
    InLds("through a global address",
          [["global_load_lds_dword v5, s[4:5]", "ds_read_b32 v2, v6"]],
          {(0, 1): vm(0)}, (Ask((0, 1), (0, 0), "lds-dma-wait", vm(0)),)),
    InLds("a barrier is no wait",
          [[_DMA, "s_barrier", "ds_read_b32 v2, v6"]],
          {(0, 2): vm(0)}, (Ask((0, 2), (0, 0), "lds-dma-wait", vm(0)),)),
    InLds("in a loop",
          [["s_nop 0"], ["ds_add_u32 v6, v8", _DMA, "s_cbranch_scc1 1"]],
          {(1, 0): vm(0)}, (Ask((1, 0), (1, 1), "lds-dma-wait", vm(0)),)),
    InLds("a load to LDS that is written over",
          [[_DMA, "ds_write_b32 v6, v8"]], {(0, 1): vm(0)},
          (Ask((0, 1), (0, 0), "lds-dma-wait", vm(0)),)),
    InLds("after another load to LDS", [[_DMA, _DMA]], {}, ()),
    InLds("LDS that is being read", [["ds_read_b32 v2, v6", _DMA]], {}, ()),
    InLds("lanes that exchange use no LDS",
          [[_DMA, "ds_bpermute_b32 v2, v6, v8", "ds_swizzle_b32 v3, v6"]], {}, ()),
    # LLVM does not know that other waves share LDS.
    InLds("a write that is out at a barrier",
          [["ds_write_b32 v5, v6", "s_barrier", "ds_read_b32 v2, v6"]],
          {}, (Ask((0, 2), (0, 0), "lds-barrier", Wait(None, None), ADVICE),)),
)  # fmt: skip


class Difference(NamedTuple):
    """A program in which LLVM 22 waits elsewhere, or for another count, than the linter asks."""

    why: str
    program: Blocks
    llvm: dict[Spot, Wait]
    ours: dict[Spot, Wait]


DIFFERENCES = (
    Difference("LDS results come in the order in which they were asked for; LLVM waits before one "
               "goes over another",
               [[_READ, "ds_read_b32 v2, v5", "ds_read_b32 v1, v6", _USE]],
               {(0, 2): lgkm(1), (0, 3): lgkm(0)}, {(0, 3): lgkm(0)}),
    Difference("a load over FLAT's result: LLVM takes the two for ordered in vmcnt, the ISA guide "
               "has FLAT in no order",
               [[_FLAT, _LOAD]], {(0, 1): lgkm(0)}, {(0, 1): Wait(0, 0)}),
    Difference("FLAT that is in by one counter disturbs the order of that one no longer; LLVM has "
               "one mark for both",
               [["flat_store_dword v[6:7], v8", _LOAD, _USE, _LOAD, _STORE, _USE]],
               {(0, 2): vm(0), (0, 5): vm(0)}, {(0, 2): vm(0), (0, 5): vm(1)}),
    Difference("global loads to LDS count in vmcnt alone; LLVM 22 counts them in lgkmcnt too and "
               "waits for one too few of LDS (llvm-project #179305)",
               [[_READ, "global_load_lds_dword v6, s[4:5]", _USE]],
               {(0, 2): lgkm(1)}, {(0, 2): lgkm(0)}),
    Difference("vmcnt has 6 bits: the 64th goes out when the first has ended; what Triton 3.9 "
               "compiles, with a newer LLVM, does not wait there",
               [[_LOAD, *[_STORE] * 63, _USE]], {(0, 64): vm(62)}, {}),
    Difference("LLVM waits before a loop that would wait in each round",
               [[_LOAD, "s_nop 0"], ["global_store_dword v5, v1, s[4:5]", "s_cbranch_scc1 1"]],
               {(0, 2): vm(0)}, {(1, 0): vm(0)}),
    Difference("a wait that LLVM puts into a loop before it knows what comes round stays there",
               [["s_nop 0"], ["ds_read_b32 v1, v5", "s_mov_b32 s7, s4", _USE, _SMEM,
                              "s_cbranch_scc1 1"]],
               {(1, 1): lgkm(0), (1, 2): lgkm(0)}, {(1, 1): lgkm(0)}),
)  # fmt: skip


# --- programs at random ---------------------------------------------------------------------------

_VALUES = [
    dict(zip("vws", values, strict=True))
    for values in product(("v0", "v1", "v2", "v3"), ("v1", "v3"), ("s4", "s5", "s6"))
]


def _pool(templates: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    return {
        kind: tuple(dict.fromkeys(text.format(**values) for text in texts for values in _VALUES))
        for kind, texts in templates.items()
    }


#: Kind → its instructions.
POOL = _pool(
    {
        "load": (
            "global_load_dword {v}, {w}, s[4:5]",
            "global_load_dwordx2 v[0:1], {v}, s[6:7]",
            "buffer_load_dword {v}, {w}, s[4:7], 0 offen",
            "buffer_load_dword {v}, off, s[8:11], {s}",
            "scratch_load_dword {v}, {w}, off",
            "global_load_dword a0, {v}, s[8:9]",
        ),
        "store": (
            "global_store_dword {v}, {w}, s[4:5]",
            "buffer_store_dwordx2 v[2:3], {v}, s[8:11], 0 offen",
            "scratch_store_dword {v}, {w}, off",
            "global_store_dword {v}, a0, s[6:7]",
        ),
        "atomic": (
            "global_atomic_add {v}, {w}, s[4:5]",
            "global_atomic_add {v}, {w}, v2, s[8:9] sc0",
            "buffer_atomic_add {v}, {w}, s[8:11], 0 offen sc0",
            "buffer_atomic_add {v}, {w}, s[8:11], 0 offen",
        ),
        "to LDS": ("buffer_load_dword {v}, s[4:7], 0 offen lds",),
        "ds": (
            "ds_read_b32 {v}, {w}",
            "ds_read_b64 v[2:3], {v}",
            "ds_read_b32 a0, {v}",
            "ds_write_b32 {v}, {w}",
            "ds_bpermute_b32 {v}, {w}, v3",
            "ds_swizzle_b32 {v}, {w}",
            "ds_add_u32 {v}, {w}",
            "ds_add_rtn_u32 {v}, {w}, v1",
        ),
        "smem": (
            "s_load_dword {s}, s[8:9], 0x0",
            "s_load_dwordx2 s[4:5], s[6:7], 0x8",
            "s_buffer_load_dwordx2 s[6:7], s[8:11], 0x0",
            "s_memtime s[4:5]",
            "s_load_dwordx2 vcc, s[8:9], 0x0",
            "s_dcache_inv",
            "s_sendmsg sendmsg(MSG_INTERRUPT)",
        ),
        "valu": (
            "v_mov_b32_e32 {v}, {w}",
            "v_mov_b32_e32 {v}, {s}",
            "v_mov_b32_e32 {v}, 0",
            "v_add_u32_e32 {v}, {w}, v1",
            "v_accvgpr_read_b32 {v}, a0",
            "v_readfirstlane_b32 {s}, {v}",
            "v_cndmask_b32_e32 {v}, {w}, v2, vcc",
            "v_mfma_f32_4x4x4_16b_f16 v[0:3], v[4:5], v[6:7], v[0:3]",
        ),
        "salu": ("s_mov_b32 {s}, 0", "s_add_u32 s4, {s}, s5", "s_nop 0", "s_barrier"),
    }
)
#: FLAT as well, whose results go where no other memory's go.
FLAT_POOL = POOL | _pool(
    {
        "flat": (
            "flat_load_dword v8, v[2:3]",
            "flat_store_dword v[2:3], {v}",
            "flat_atomic_add v9, v[2:3], {w} sc0",
        ),
        "of flat": ("v_mov_b32_e32 {v}, v8", "v_add_u32_e32 v9, v8, {v}", "ds_write_b32 v9, v8"),
    }
)
