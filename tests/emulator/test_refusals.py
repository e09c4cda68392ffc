"""``coasm info`` says before a run what the emulator refuses: that is what a run stumbles over."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import coasm
from coasm.__main__ import main
from coasm.emulator import EmulationError
from coasm.llvm import Llvm
from tests.emulator.harness import assemble, run
from tests.linter.sources import listing


def _refused(llvm: Llvm, body: str, target: str = "gfx942") -> dict[str, int]:
    co = coasm.load(assemble(llvm, body, target).data)
    (kernel,) = co.kernels
    assert kernel.info.emulator is not None
    return dict(kernel.info.emulator.refused)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("ds_gws_barrier v0 gds", "ds_gws_barrier"),
        ("v_add_u32_dpp v1, v2, v3 row_shl:1 row_mask:0xf bank_mask:0xf", ""),
        ("v_alignbit_b32 v10, v2, v4, v6 op_sel:[0,1,0,0]", "op_sel of v_alignbit_b32"),
        ("v_mov_b32 v200, 0", "a register is beyond the"),
        ("v_mov_b32 v1, 0", ""),
    ],
)
def test_what_is_refused_before_is_what_a_run_refuses(text: str, what: str, llvm: Llvm) -> None:
    body = f"{text}\n{text}\ns_endpgm"
    found = _refused(llvm, body)
    if not what:
        assert found == {}
        run(llvm, assemble(llvm, body), "k", [np.zeros(1, np.uint32)])
        return
    ((said, count),) = found.items()
    assert count == 2 and said.startswith(text.split()[0]) and what in said
    with pytest.raises(EmulationError) as caught:
        run(llvm, assemble(llvm, body), "k", [np.zeros(1, np.uint32)])
    reason = said[len(text.split()[0]) + 2 : -1]
    assert reason.replace("a register is", "v200 is") in str(caught.value)


def test_a_target_that_is_not_emulated(llvm: Llvm) -> None:
    co = coasm.assemble(listing("\ts_nop 0\n\ts_endpgm", "gfx1100")).co
    emulator = co.kernels[0].info.emulator
    assert emulator is not None and emulator.refused == {"gfx1100, which is not emulated": 2}


def test_info_shows_it(llvm: Llvm, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "k.co"
    path.write_bytes(assemble(llvm, "ds_gws_barrier v0 gds\ns_endpgm").data)
    assert main(["info", str(path), "--json"]) == 0
    (kernel,) = json.loads(capsys.readouterr().out)["kernels"]
    assert kernel["emulator"] == {"refused": {"ds_gws_barrier": 1}}
    assert main(["info", str(path)]) == 0
    assert "refuses ds_gws_barrier (1)" in capsys.readouterr().out
    path.write_bytes(assemble(llvm, "s_endpgm").data)
    assert main(["info", str(path)]) == 0
    assert "runs it whole" in capsys.readouterr().out
