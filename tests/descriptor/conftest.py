"""LLVM as the judge: what its assembler makes of ``.amdhsa_kernel`` blocks."""

from __future__ import annotations

import bisect
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from coasm.codeobject import Elf
from coasm.errors import CoasmError
from coasm.llvm import Llvm, find_llvm
from coasm.target import TargetID

_SETTINGS = {"on": "+", "off": "-"}
_NOT_IN_LLVM = {"gfx940", "gfx941"}


@pytest.fixture(scope="session")
def llvm() -> Llvm:
    try:
        return find_llvm(processor="gfx1250")
    except CoasmError as error:
        pytest.skip(f"no LLVM that knows all targets: {error}")


class Judge:
    """Assembles many kernels at once; an answer is 64 bytes, or LLVM's message as text."""

    def __init__(self, llvm: Llvm, folder: Path) -> None:
        if llvm.mc is None:
            pytest.skip(f"no llvm-mc in {llvm.directory}")
        self.mc = llvm.mc
        self.objdump = llvm.objdump
        self.object = folder / "kernels.o"

    def knows(self, target: TargetID) -> bool:
        return target.name not in _NOT_IN_LLVM

    def __call__(
        self, kernels: Sequence[Sequence[str]], target: TargetID, version: int = 6
    ) -> list[bytes | str]:
        text = [".text", ".p2align 6"]  # llvm-objdump decodes descriptors in code sections only
        starts = []
        for number, kernel in enumerate(kernels):
            starts.append(len(text) + 1)
            text += [f".amdhsa_kernel k{number}", *kernel, ".end_amdhsa_kernel"]
        settings = [("xnack", target.xnack), ("sramecc", target.sramecc)]
        features = [_SETTINGS[value] + name for name, value in settings if value in _SETTINGS]
        command = [
            self.mc,
            "-triple=amdgcn-amd-amdhsa",
            f"-mcpu={target.name}",
            f"-mattr={','.join(features)}",
            f"--amdhsa-code-object-version={version}",
            "-filetype=obj",
            "-o",
            str(self.object),
        ]
        source = "\n".join(text) + "\n"
        done = subprocess.run(command, input=source, text=True, capture_output=True, check=False)
        refused: dict[int, str] = {}
        for line, message in re.findall(r"<stdin>:(\d+):\d+: error: (.*)", done.stderr):
            refused.setdefault(bisect.bisect_right(starts, int(line)) - 1, message)
        if not refused:
            assert done.returncode == 0, done.stderr
            data = self._text()
            return [data[64 * n : 64 * n + 64] for n in range(len(kernels))]
        good = [n for n in range(len(kernels)) if n not in refused]
        rest = dict(zip(good, self([kernels[n] for n in good], target, version), strict=True))
        return [refused.get(n) or rest[n] for n in range(len(kernels))]

    def _text(self) -> bytes:
        elf = Elf(self.object.read_bytes())
        return next((s.data for s in elf.sections if s.name == ".text"), b"")

    def decoded(self, count: int) -> list[dict[str, int]]:
        """The directives that llvm-objdump prints for the kernels assembled last."""
        names = ",".join(f"k{number}.kd" for number in range(count))
        command = [self.objdump, f"--disassemble-symbols={names}", str(self.object)]
        done = subprocess.run(command, text=True, capture_output=True, check=True)
        blocks = re.findall(r"\.amdhsa_kernel k\d+\n(.*?)\.end_amdhsa_kernel", done.stdout, re.S)
        pattern = r"^\s*(?:; )?([\w.]+)\s+(\d+)\s*$"
        return [{n: int(v) for n, v in re.findall(pattern, b, re.M)} for b in blocks]


@pytest.fixture(scope="session")
def judge(llvm: Llvm, tmp_path_factory: pytest.TempPathFactory) -> Judge:
    return Judge(llvm, tmp_path_factory.mktemp("judge"))


@pytest.fixture(scope="session")
def all_targets() -> list[TargetID]:
    """Every processor that LLVM 22 knows, with each xnack setting that it can have."""
    from coasm.target import PROCESSORS

    return [
        TargetID(proc, xnack, "any" if proc.sramecc else "")
        for proc in PROCESSORS.values()
        if proc.name not in _NOT_IN_LLVM
        for xnack in (("any", "off", "on") if proc.xnack else ("",))
    ]


@pytest.fixture(scope="session")
def targets(all_targets: list[TargetID]) -> list[TargetID]:
    """The same without the xnack settings that cannot matter to a descriptor's bytes."""
    return [
        target
        for target in all_targets
        if target.xnack in ("", "any")
        or (target.xnack == "off" and target.name in ("gfx801", "gfx900", "gfx90a", "gfx942"))
    ]
