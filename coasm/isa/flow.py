"""Which instructions do not just go on with the next one: every target's, one row each.

Source: the ISA guides' SOP1, SOP2, SOPK and SOPP instruction lists from GFX6 on; LLVM's
SOPInstructions.td for GFX12.5 (``s_set_pc_i64``, ``s_add_pc_i64`` and the like).
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["FLOW", "Flow", "flow_of", "is_direct", "leaves"]


class Flow(NamedTuple):
    """Where execution goes on behind an instruction.

    ``sort`` is ``branch``, ``jump`` (to an address that a register or a literal gives), ``fork``
    (lanes go two ways), ``call``, ``end`` or ``trap`` (another program comes in between).
    ``direct``: the target is ``address + 4 + 4 * simm16``. ``goes_on``: what comes next in memory
    may be executed next; behind a call that is when it returns.
    """

    sort: str
    direct: bool = False
    goes_on: bool = False


_CONDITIONS = (
    *("scc0", "scc1", "vccz", "vccnz", "execz", "execnz"),
    *("cdbgsys", "cdbguser", "cdbgsys_or_user", "cdbgsys_and_user"),
)
FLOW: dict[str, Flow] = {
    "s_branch": Flow("branch", direct=True),
    **{f"s_cbranch_{name}": Flow("branch", direct=True, goes_on=True) for name in _CONDITIONS},
    **{
        f"s_subvector_loop_{name}": Flow("branch", direct=True, goes_on=True)
        for name in ("begin", "end")
    },
    "s_cbranch_i_fork": Flow("fork", direct=True, goes_on=True),
    "s_cbranch_g_fork": Flow("fork", goes_on=True),
    "s_cbranch_join": Flow("fork", goes_on=True),
    **{
        name: Flow("jump")
        for name in (
            *("s_setpc_b64", "s_set_pc_i64", "s_add_pc_i64"),
            *("s_rfe_b64", "s_rfe_restore_b64", "s_rfe_i64"),
        )
    },
    "s_call_b64": Flow("call", direct=True, goes_on=True),
    "s_call_i64": Flow("call", direct=True, goes_on=True),
    "s_swappc_b64": Flow("call", goes_on=True),
    "s_swap_pc_i64": Flow("call", goes_on=True),
    "s_endpgm": Flow("end"),
    "s_endpgm_saved": Flow("end"),
    "s_endpgm_ordered_ps_done": Flow("end"),
    "s_trap": Flow("trap", goes_on=True),
    "s_sethalt": Flow("trap", goes_on=True),
}

#: What reads the program counter into registers.
READS_PC = ("s_getpc_b64", "s_get_pc_i64")


def flow_of(mnemonic: str) -> Flow | None:
    """The row of an instruction; None where the next one in memory is the next to be executed."""
    return FLOW.get(mnemonic)


def is_direct(mnemonic: str) -> bool:
    """Whether it is a branch or call whose target is in the instruction itself."""
    flow = FLOW.get(mnemonic)
    return flow is not None and flow.direct


def leaves(mnemonic: str) -> bool:
    """Whether what comes behind it in memory is reached only by a branch."""
    flow = FLOW.get(mnemonic)
    return flow is not None and not flow.goes_on
