"""Blocks and edges: against LLVM's own labels of branch targets, and programs worked by hand."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from coasm.asm.decode import decode
from coasm.codeobject import load
from coasm.flow.cfg import Graph, control_flow
from coasm.llvm import Llvm
from coasm.llvm.run import assemble, link
from coasm.target import TargetID, processor
from tests.linter.kernels import listing

END = "\ts_endpgm\n"


def built(llvm: Llvm, body: str, target: str = "gfx942") -> tuple[Graph, bytes]:
    """The graph of a kernel k with *body*, and the object."""
    made = assemble(llvm, listing(body, target).encode(), TargetID(processor(target)), 5)
    assert made.data is not None, made.messages
    data = link(llvm, [made.data])
    co = load(data, name="k.co")
    return control_flow(co, decode(co, llvm)), data


def edges(graph: Graph) -> dict[int, tuple[int, ...]]:
    """First instruction of a block → those of the blocks that may come next."""
    return {
        block.first: tuple(sorted(graph.blocks[n].first for n in block.follows))
        for block in graph.blocks
    }


# Instructions are numbered from 0; what is expected was worked out from the ISA guide's SOPP list.
PROGRAMS = {
    "straight": ("\ts_nop 0\n" + END, {0: ()}),
    "around": ("\ts_cbranch_scc1 .La\n\ts_nop 0\n.La:\n" + END, {0: (1, 2), 1: (2,), 2: ()}),
    "loop": (".La:\n\ts_nop 0\n\ts_cbranch_scc0 .La\n" + END, {0: (0, 2), 2: ()}),
    "two ways": (
        "\ts_cbranch_vccz .La\n\ts_nop 0\n\ts_branch .Lb\n.La:\n\ts_nop 1\n.Lb:\n" + END,
        {0: (1, 3), 1: (4,), 3: (4,), 4: ()},
    ),
    "to the next": ("\ts_cbranch_execz .La\n.La:\n" + END, {0: (1,), 1: ()}),
    "ends in the middle": (
        "\ts_cbranch_execz .La\n\ts_endpgm\n.La:\n\ts_nop 0\n" + END,
        {0: (1, 2), 1: (), 2: ()},
    ),
    "a trap goes on": ("\ts_trap 2\n" + END, {0: ()}),
    "a call": (
        "\ts_call_b64 s[4:5], .La\n" + END + ".La:\n\ts_setpc_b64 s[4:5]\n",
        {0: (2,), 1: (), 2: ()},
    ),
    "a call by register": ("\ts_swappc_b64 s[4:5], s[6:7]\n" + END, {0: (), 1: ()}),
    "a long branch": (
        "\ts_getpc_b64 s[4:5]\n.Lp:\n\ts_add_u32 s4, s4, (.La-.Lp)&0xffffffff\n"
        "\ts_addc_u32 s5, s5, (.La-.Lp)>>32\n\ts_setpc_b64 s[4:5]\n\ts_nop 0\n.La:\n" + END,
        {0: (5,), 4: (5,), 5: ()},
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_worked_by_hand(llvm: Llvm, name: str) -> None:
    body, wanted = PROGRAMS[name]
    graph, _ = built(llvm, body)
    assert edges(graph) == wanted


def test_what_cannot_be_followed_is_said(llvm: Llvm) -> None:
    graph, _ = built(llvm, "\ts_swappc_b64 s[4:5], s[6:7]\n\ts_setpc_b64 s[4:5]\n")
    assert [(one.at, one.why) for one in graph.unfollowed] == [
        (0, "goes where a register says"),
        (1, "goes where a register says"),
    ]
    assert [block.resumes for block in graph.blocks] == [False, True]
    assert graph.reached([0]) == {0, 1}
    graph, _ = built(llvm, "\ts_branch 0x1000\n" + END)
    assert [one.at for one in graph.unfollowed] == [0]
    assert "where no code is" in graph.unfollowed[0].why


def test_flow_that_runs_out_of_the_code(llvm: Llvm) -> None:
    assert built(llvm, "\ts_nop 0\n\ts_nop 1\n")[0].falls == [1]
    assert built(llvm, "\ts_nop 0\n\t.long 0xffffffff\n" + END)[0].falls == [0]
    assert built(llvm, END)[0].falls == []


@pytest.mark.parametrize("target", ["gfx90a", "gfx942", "gfx1030", "gfx1201", "gfx1250"])
def test_targets_are_those_that_llvm_labels(llvm: Llvm, target: str, tmp_path: Path) -> None:
    """``llvm-objdump --symbolize-operands`` puts L0, L1 … where branches lead, but for a symbol."""
    body = ""
    for at in range(40):
        body += f".L{at}:\n\ts_nop {at % 8}\n"
        to = (at * 7 + 3) % 40
        body += f"\ts_cbranch_{('scc0', 'vccnz', 'execz')[at % 3]} .L{to if at % 4 else at}\n"
    graph, data = built(llvm, body + END, target)
    path = tmp_path / "k.co"
    path.write_bytes(data)
    run = subprocess.run(
        [llvm.objdump, "-d", "--symbolize-operands", path],
        capture_output=True,
        text=True,
        check=True,
    )
    labels = re.findall(r"^([0-9a-f]{16}) <L\d+>:", run.stdout, re.MULTILINE)
    labelled = {int(address, 16) for address in labels}
    assert len(labelled) > 20
    starts = {graph.instructions[0].address}
    assert set(graph.targets.values()) - starts == labelled - starts
    assert labelled <= set(graph.block_addresses)


def test_a_part_is_a_graph_of_its_own(llvm: Llvm) -> None:
    graph, _ = built(llvm, "\ts_endpgm\n.La:\n\ts_nop 0\n\ts_cbranch_scc0 .La\n" + END)
    assert edges(graph) == {0: (), 1: (1, 3), 3: ()}
    part = graph.part(1, 3)
    assert edges(part) == {0: (0, 2), 2: ()}
    assert part.block_addresses == graph.block_addresses[1:]
    assert part.targets == {1: part.instructions[0].address}
