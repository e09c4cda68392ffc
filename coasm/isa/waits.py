"""What the wait counters count, and what an ``s_waitcnt`` waits for.

Source: CDNA3 and CDNA4 ISA guides, "Manually inserted wait states" (S_WAITCNT) and section 4.4;
LLVM's SIInsertWaitcnts.cpp.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

__all__ = ["LGKM_MAX", "VM_MAX", "Waits", "counted_at_most", "counted_in", "waits_of"]

#: The largest count of each that can be waited for; the field's own maximum is "no wait".
VM_MAX, LGKM_MAX = 62, 14

_NOT_COUNTED = ("buffer_inv", "buffer_wbl2", "buffer_wbinvl1", "buffer_wbinvl1_vol", "ds_nop")
#: They count in vmcnt as LLVM after 22 has it, with AMD's word, and not as LLVM 22 has it.
_DISPUTED = ("buffer_inv", "buffer_wbl2")
#: Prefix of the mnemonic → the queue that its operations are in.
_QUEUES = (
    (("buffer_", "tbuffer_", "global_", "scratch_"), "vm"),
    (("flat_",), "flat"),
    (("ds_gws_",), "scalar"),
    (("ds_",), "lds"),
    (("s_load", "s_buffer_load", "s_scratch_load", "s_memtime", "s_memrealtime"), "scalar"),
    (("s_store", "s_buffer_store", "s_scratch_store", "s_atomic", "s_buffer_atomic"), "scalar"),
    (("s_sendmsg", "s_dcache_"), "scalar"),
)


class Waits(NamedTuple):
    """How many operations of each counter may still be out behind a wait; None: no wait."""

    vm: int | None
    lgkm: int | None


def waits_of(data: bytes) -> Waits:
    """The counts of an ``s_waitcnt`` of gfx942 and gfx950, from its encoding.

    vmcnt is bits 3:0 and 15:14, lgkmcnt bits 11:8 of SIMM16.
    """
    simm = int.from_bytes(data[:2], "little")
    vm = simm & 15 | (simm >> 14 & 3) << 4
    lgkm = simm >> 8 & 15
    return Waits(None if vm > VM_MAX else vm, None if lgkm > LGKM_MAX else lgkm)


@cache
def counted_in(mnemonic: str) -> str:
    """The counters that an instruction counts in.

    "vm" and "lds" end in their order; "scalar" (lgkmcnt) and "flat" (both) in any.
    "" is for what counts in none.
    """
    if mnemonic in _NOT_COUNTED:
        return ""
    for prefixes, queue in _QUEUES:
        if mnemonic.startswith(prefixes):
            return queue
    return ""


@cache
def counted_at_most(mnemonic: str) -> str:
    """:func:`counted_in`, with what counts by one of two readings alone.

    A wait for at most N covers what has N of these behind it: by either reading it does so where
    fewer count. What must hold by both is worked out with :func:`counted_in`.
    """
    return "vm" if mnemonic in _DISPUTED else counted_in(mnemonic)
