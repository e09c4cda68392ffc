"""What kinds of instructions a kernel is made of."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING

from coasm.codeobject import CodeObject, Kernel
from coasm.codeobject.elf import STT_FUNC
from coasm.isa.flow import flow_of, leaves

if TYPE_CHECKING:
    from coasm.asm.code import Instruction

__all__ = ["CLASSES", "classify", "instruction_mix"]

# The first pattern that matches says the class. Source: the instruction formats of the ISA guides
# (GCN3 to RDNA4 and CDNA4) and LLVM's AMDGPU instruction names.
_CLASSES = (
    ("MFMA/WMMA", r"v_s?mfma|v_smfmac|v_s?wmmac?"),
    ("VALU", r"v_"),
    ("LDS", r"ds_|lds_"),
    ("VMEM atomic", r"(?:buffer|tbuffer|global|flat|scratch|image)_\w*atomic"),
    ("VMEM store", r"(?:buffer|tbuffer|global|flat|scratch|image|tensor|cluster)_\w*store"),
    (
        "VMEM load",
        r"(?:buffer|tbuffer|global|flat|scratch|image|tensor|cluster)_\w*(?:load|prefetch)"
        r"|image_(?:sample|gather|get|bvh)",
    ),
    (
        "SMEM",
        r"s_(?:buffer_|scratch_)?(?:load|store|atomic|prefetch)|s_dcache|s_mem(?:real)?time"
        r"|s_atc_probe|s_gl1_inv|s_get_waveid",
    ),
    ("wait/barrier", r"s_wait|s_barrier|s_sleep|s_nop|s_delay_alu|s_monitor_sleep"),
    (
        "other",
        r"s_(?:trap|sethalt|setprio|set_prio|sendmsg|clause|set_inst_prefetch|inst_prefetch|icache"
        r"|ttrace|code_end|wakeup|incperflevel|decperflevel|set_gpr_idx_(?:on|off|mode)|denorm_mode"
        r"|round_mode|version|set_vgpr_msb|setkill)",
    ),
    ("SALU", r"s_"),
)
#: The classes of :func:`classify`, in the order in which they are shown.
CLASSES = (
    *("VALU", "MFMA/WMMA", "SALU", "VMEM load", "VMEM store", "VMEM atomic"),
    *("LDS", "SMEM", "branch", "wait/barrier", "other"),
)


def classify(mnemonic: str) -> str:
    """The class of an instruction, one of :data:`CLASSES`, by its mnemonic."""
    flow = flow_of(mnemonic)
    if flow is not None and flow.sort != "trap":
        return "branch"
    for name, pattern in _CLASSES:
        if re.match(pattern, mnemonic):
            return name
    return "other"


def instruction_mix(co: CodeObject, kernel: Kernel, code: Sequence[Instruction]) -> dict[str, int]:
    """Class (all of :data:`CLASSES`) → how many, from a kernel's entry to its function's end.

    The end is the symbol's, or, where the symbol has no size, the next kernel's entry or the end
    of the section, without the padding that follows the last end of control flow.
    """
    section = co.section_at(kernel.entry)
    sizes = [s.size for s in co.symbols if s.value == kernel.entry and s.type == STT_FUNC]
    size = max(sizes, default=0)
    end = kernel.entry + size
    if not size:
        end = section.addr + section.size if section else kernel.entry
        end = min([other.entry for other in co.kernels if other.entry > kernel.entry] + [end])
    first, last = (bisect_left(code, at, key=lambda i: i.address) for at in (kernel.entry, end))
    found = [instruction.mnemonic for instruction in code[first:last]]
    if not size:
        stop = max((at for at, name in enumerate(found) if leaves(name)), default=-1)
        found = found[: stop + 1] or found
    counts = dict.fromkeys(CLASSES, 0)
    classes: dict[str, str] = {}
    for mnemonic in found:
        if mnemonic not in classes:
            classes[mnemonic] = classify(mnemonic)
        counts[classes[mnemonic]] += 1
    return counts
