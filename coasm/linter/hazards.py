"""Wait states: which instruction must not follow which too closely, as a table.

A wait state is an issued instruction; ``s_nop N`` is N + 1. A row needs *states* of them strictly
between the producer and the consumer, on the shortest path. Sources: LLVM's GCNHazardRecognizer
(each number was measured with LLVM 22's ``post-RA-hazard-rec`` but where the row says otherwise)
and the CDNA3 and CDNA4 ISA guides, "Manually inserted wait states".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from coasm.linter.findings import ADVICE, ERROR
from coasm.linter.operation import (
    EXEC_BITS,
    F64_PIPE,
    HARDWARE,
    M0_BIT,
    SGPRS,
    VCC_BITS,
    VGPRS,
    VSKIP,
)

__all__ = ["FARTHEST", "HAZARDS", "WRITTEN", "Hazard", "States"]

#: By target, or one number for both; within it by the producer's passes, or one number.
States = int | Mapping[int, int] | Mapping[str, int] | Mapping[str, Mapping[int, int]]


class Hazard(NamedTuple):
    """One row: *out* of a *producer*, *into* a *consumer*, needs *states* in between.

    Producer and consumer are kinds of :data:`coasm.linter.operation.KINDS`, of which one is enough,
    without those in *unless* (of the producer) and *but* (of the consumer). *out* is a role, or
    what of the written registers counts (:data:`WRITTEN`); *into* are roles. ``same`` says how
    they have to match beside having a register in common.
    """

    rule: str
    producer: str
    out: str
    consumer: str
    into: str
    states: States
    level: str = ERROR
    same: str = ""
    unless: str = ""
    but: str = ""


#: What of the registers that a producer writes counts for a row.
WRITTEN = {
    "vgprs": VGPRS,
    "sgprs": SGPRS,
    "vcc": VCC_BITS,
    "exec": EXEC_BITS,
    "m0": M0_BIT,
    "hardware register": HARDWARE,
    "f64 pipe": F64_PIPE,
    "vskip": VSKIP,
}

#: The most states that a row needs, on any target.
FARTHEST = 20

# How a C operand has to match D: its registers are the same and so is the opcode; its registers are
# the same; it overlaps them.
EXACT, OTHER_OPCODE, PART = "exact", "exact, other opcode", "part"
SAME_NAME, OTHER_NAME = "opcode", "other opcode"

# By the producer's passes. XDL: N + 3 to read A and B, N + 1 to read C, and on gfx950 one more,
# but for N = 2 where it is not read by an XDL as C. SGEMM: N + 2 and N.
_XDL_READ = {"gfx942": {2: 5, 4: 7, 8: 11, 16: 19}, "gfx950": {2: 5, 4: 8, 8: 12, 16: 20}}
_XDL_C_XDL = {"gfx942": {2: 3, 4: 5, 8: 9, 16: 17}, "gfx950": {2: 4, 4: 6, 8: 10, 16: 18}}
_XDL_C_OTHER = {"gfx942": {2: 3, 4: 5, 8: 9, 16: 17}, "gfx950": {2: 3, 4: 6, 8: 10, 16: 18}}
_SGEMM_READ = {2: 4, 8: 10, 16: 18}
_SGEMM_C = {2: 2, 8: 8, 16: 16}
_DGEMM_16_READ = {"gfx942": 11, "gfx950": 19}
_DGEMM_16_C = {"gfx942": 9, "gfx950": 17}

_V = "vgprs"

#: (rule, producer, out, consumer, into, states, …), see :class:`Hazard`.
HAZARDS: tuple[Hazard, ...] = tuple(
    Hazard(*row[:6], **(row[6] if len(row) > 6 else {}))  # type: ignore[arg-type]
    for row in (
        # Into an MFMA. Source: checkMAIHazards90A.
        ("mfma-valu-write", "valu", _V, "mfma", "ab c", 2, {"unless": "dot"}),
        ("mfma-exec-write", "valu", "exec", "mfma", "reads", 4),
        ("mfma-dot-write", "dot", _V, "mfma", "ab c", 3, {"level": ADVICE}),
        ("mfma-source", "xdl", _V, "mfma", "ab", _XDL_READ),
        ("mfma-source", "sgemm", _V, "mfma", "ab", _SGEMM_READ),
        ("mfma-source", "dgemm_4x4", _V, "mfma", "ab", 6),
        ("mfma-source", "dgemm_16x16", _V, "mfma", "ab", _DGEMM_16_READ),
        ("mfma-accumulator", "xdl", _V, "xdl", "c", _XDL_C_XDL, {"same": PART}),
        ("mfma-accumulator", "xdl", _V, "sgemm dgemm", "c", _XDL_C_OTHER, {"same": PART}),
        ("mfma-accumulator", "sgemm", _V, "sgemm dgemm", "c", _SGEMM_C, {"same": PART}),
        ("mfma-accumulator", "dgemm_4x4", _V, "sgemm dgemm", "c", 4, {"same": PART}),
        ("mfma-accumulator", "dgemm_16x16", _V, "sgemm dgemm", "c", _DGEMM_16_C, {"same": PART}),
        ("mfma-same-accumulator", "xdl sgemm", _V, "mfma", "c", {2: 2}, {"same": EXACT}),
        ("mfma-same-accumulator", "dgemm_4x4", _V, "mfma", "c", 4, {"same": EXACT}),
        *(
            ("mfma-opcode", producer, _V, consumer, "c", states, {"same": OTHER_OPCODE})
            for producer, consumer, states in (
                ("xdl", "xdl", _XDL_C_XDL),
                ("xdl", "sgemm dgemm", _XDL_C_OTHER),
                ("sgemm", "sgemm dgemm", _SGEMM_C),
                ("sgemm", "xdl", {2: 2}),
                ("dgemm_4x4", "mfma", 4),
                ("dgemm_16x16", "sgemm dgemm", _DGEMM_16_C),
            )
        ),
        # Out of an MFMA or a DOT. Source: checkMAIVALUHazards.
        ("mfma-read", "xdl", _V, "valu vmem ds", "reads", _XDL_READ),
        ("mfma-read", "sgemm", _V, "valu vmem ds", "reads", _SGEMM_READ),
        ("mfma-read", "dgemm_4x4", _V, "valu", "reads", 6),
        ("mfma-read", "dgemm_16x16", _V, "valu", "reads", _DGEMM_16_READ),
        ("mfma-read", "dgemm_4x4", _V, "vmem ds", "reads", 9),
        ("mfma-read", "dgemm_16x16", _V, "vmem ds", "reads", 18),
        ("mfma-overwrite", "xdl", _V, "valu load", "writes", _XDL_READ),
        ("mfma-overwrite", "sgemm", _V, "valu load", "writes", _SGEMM_READ),
        ("mfma-overwrite", "dgemm_4x4", _V, "valu load", "writes", 6),
        ("mfma-overwrite", "dgemm_16x16", _V, "valu load", "writes", _DGEMM_16_READ),
        ("mfma-overwrite-c", "xdl", "c", "valu load", "writes", {2: 1, 4: 3, 8: 7, 16: 15}),
        ("dgemm-fma", "dgemm", "f64 pipe", "f64_fma", "reads", 2),
        ("dot-read", "dot", _V, "valu vmem ds", "reads", 3, {"same": OTHER_NAME}),
        ("dot-read", "dot", _V, "dot", "ab", 3, {"same": SAME_NAME}),
        ("dot-overwrite", "dot", _V, "valu load", "writes", 3, {"same": OTHER_NAME}),
        # Scalar results of VALU. Source: checkVMEMHazards, checkVALUHazards, checkRWLaneHazards,
        # checkDivFMasHazards, checkDPPHazards.
        ("valu-sgpr-vmem", "valu", "sgprs", "vmem", "reads", 5),
        ("valu-exec-vmem", "valu", "exec", "vmem", "reads", 5, {"level": ADVICE}),
        ("valu-sgpr-constant", "valu", "sgprs", "valu", "constant", 2),
        ("valu-sgpr-mask", "valu", "sgprs", "valu", "mask", 2, {"level": ADVICE}),
        ("valu-sgpr-lane", "valu", "sgprs", "lane_select", "lane", 4),
        ("valu-vcc-div-fmas", "valu", "vcc", "div_fmas", "reads", 4),
        ("valu-exec-lane", "valu", "exec", "rwlane", "reads", 4),
        ("valu-exec-constant", "valu", "exec", "valu", "exec_data", 2),
        ("valu-exec-dpp", "valu", "exec", "dpp", "reads", 5),
        ("valu-zero-flag", "valu", "vcc", "valu", "zero_flag", 5, {"level": ADVICE}),
        ("valu-zero-flag", "valu", "exec", "valu", "zero_flag", 5, {"level": ADVICE}),
        # Vector results. Source: checkVALUHazards, checkDPPHazards, checkPermlaneHazards,
        # createsVALUHazard.
        ("valu-readlane", "valu", _V, "readlane", "reads", 1),
        ("valu-dpp", "valu", _V, "dpp", "reads", 2),
        ("load-dpp", "load", _V, "dpp", "reads", 2, {"level": ADVICE}),
        ("permlane-swap", "valu", _V, "permlane_swap", "touches", {"gfx950": 2}),
        ("permlane-swap-exec", "valu", "exec", "permlane_swap", "reads", {"gfx950": 4}),
        ("trans", "trans", _V, "valu mfma", "reads", 1, {"but": "trans"}),
        ("sub-dword", "sub_dword", _V, "valu mfma", "touches", 1),
        ("wide-store", "wide_store", "data", "valu mfma", "writes", 2),
        ("wide-store", "wide_store_soffset", "data", "valu mfma", "writes", 1),
        (
            "wide-store-load",
            "wide_store wide_store_soffset",
            "data",
            "load",
            "writes",
            1,
            {"level": ADVICE},
        ),
        # M0 and hardware registers. Source: checkReadM0Hazards, checkGetRegHazards,
        # checkSetRegHazards, checkRFEHazards.
        ("m0-write", "salu", "m0", "m0_reader", "reads", 1),
        ("setreg", "setreg", "hardware register", "setreg getreg", "touches", 2),
        ("setreg-rfe", "setreg", "hardware register", "rfe", "reads", 1),
        ("vskip", "setvskip", "hardware register", "getreg", "reads", 2, {"level": ADVICE}),
        ("vskip", "setreg", "vskip", "valu mfma vmem ds", "reads", 2, {"level": ADVICE}),
    )
)
