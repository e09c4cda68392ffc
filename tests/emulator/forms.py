"""Forms of every row of the emulator that LLVM's assembler takes, found by asking it.

Nothing here knows what an instruction does: candidates are made from lists of operands, and LLVM
says for each target which of them are instructions.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import accumulate, product

from coasm.emulator.rows.table import ROWS
from coasm.isa.table import opcode
from coasm.llvm import Llvm
from coasm.target import processor

TARGETS = ("gfx942", "gfx950")
_ERROR = re.compile(r"^<stdin>:(\d+):\d+: error", re.M)


def accepted(llvm: Llvm, target: str, lines: Iterable[str]) -> set[str]:
    """The *lines* that LLVM's assembler takes for *target*."""
    lines = list(dict.fromkeys(lines))
    assert llvm.mc is not None
    command = [llvm.mc, "-triple=amdgcn-amd-amdhsa", f"-mcpu={target}", "-filetype=null"]
    done = subprocess.run(
        command, input="\n".join(lines) + "\n", capture_output=True, text=True, check=False
    )
    wrong = {int(number) for number in _ERROR.findall(done.stderr)}
    return {line for number, line in enumerate(lines, 1) if number not in wrong}


def _span(file: str, first: int, count: int) -> str:
    return f"{file}{first}" if count == 1 else f"{file}[{first}:{first + count - 1}]"


def _by_size(name: str) -> Iterator[str]:
    """With operands as large as the table of instructions says: what has many registers."""
    for instructions in ("950", "942"):
        known = opcode(name, instructions)
        if known is not None and known.slots:
            sizes = [-(-(slot.bits or 32) // 32) for slot in known.slots]
            places = accumulate((size + size % 2 for size in sizes[1:]), initial=8)
            spans = [_span("v", at, n) for at, n in zip(places, sizes[1:], strict=False)]
            yield f"{name} {', '.join([_span('v', 100, sizes[0]), *spans])}"


def _vector_forms(name: str) -> Iterator[str]:
    if "bitop3" in name:
        yield f"{name} v40, v8, v10, v12 bitop3:0x6a"
        return
    results: tuple[str, ...] = ("v40", "v[40:41]")
    if name.startswith("v_cmp"):
        results = ("vcc",)
    elif name.startswith("v_read"):
        results = ("s40",)
    elif re.match(r"v_(\w+_co|div_scale|mad_[ui]64)_", name):
        results = ("v40, vcc", "v[40:41], vcc")
    if name.startswith("v_smfmac"):
        for out, a, b in product((4, 16), (2, 4), (4, 8)):
            sources = f"{_span('v', 8, a)}, {_span('v', 16, b)}, v24"
            yield f"{name} {_span('v', 64, out)}, {sources}"
        return
    if name.startswith("v_mfma"):
        for out, a, b in product((2, 4, 8, 16, 32), (1, 2, 4, 8), (1, 2, 4, 8)):
            text = f"{name} {_span('v', 64, out)}, {_span('v', 8, a)}, {_span('v', 16, b)}, "
            yield text + _span("v", 96, out)
            if "_scale_" in name and a == b == 8:
                yield text + f"{_span('v', 96, out)}, v24, v25"
        return
    sizes = [(_span("v", 8, 1), _span("v", 8, 2)), (_span("v", 10, 1), _span("v", 10, 2))]
    sizes.append((_span("v", 12, 1), _span("v", 12, 2)))
    for result in results:
        for count in (1, 2, 3):
            for sources in product(*sizes[:count]):
                text = f"{name} {result}, {', '.join(sources)}"
                yield text
                if re.match(r"v_(addc|subb|subbrev|cndmask)_", name):
                    yield text + ", vcc"
    yield name
    yield from _by_size(name)
    for literal in ("0x40490fdb", "0x4249"):
        yield from (f"{name} v40, v8, {literal}, v10", f"{name} v40, v8, v10, {literal}")
    yield from (f"{name} v40, a8", f"{name} a40, v8", f"{name} a40, a8")
    yield from (f"{name} s40, v8, s42", f"{name} v40, s8, 5")


def _scalar_forms(name: str) -> Iterator[str]:
    for out, base in product((1, 2, 4, 8, 16), (2, 4)):
        yield f"{name} {_span('s', 40, out)}, {_span('s', 4, base)}, 0x10"
    for result, count in product(("s40", "s[40:41]", ""), (0, 1, 2)):
        for sources in product(("s8", "s[8:9]"), ("s10", "s[10:11]"), repeat=1):
            parts = [result, *sources[:count]] if result else list(sources[:count])
            yield f"{name} {', '.join(parts)}"
    yield f"{name} s40, 0x1234"
    yield f"{name} 1"
    yield f"{name} s40, hwreg(HW_REG_MODE, 0, 8)"


def _memory_forms(name: str) -> Iterator[str]:
    """Addresses are in v20 and v21; data from v8 on, results from v40 on."""
    kind = name.split("_")[0]
    spaces = {"ds": ("v20", ""), "flat": ("v[20:21]", ""), "global": ("v[20:21]", ", off")}
    address, off = {**spaces, "scratch": ("v20", ", off")}.get(kind, ("", ""))
    gives = any(word in name for word in ("load", "read", "swizzle", "permute", "_rtn_"))
    if "_lds_" in name:
        yield f"{name} v[20:21], off"
    for size in (1, 2, 3, 4):
        data, old, second = (_span("v", first, size) for first in (8, 40, 12))
        if kind == "buffer":
            yield f"{name} {data}, off, s[8:11], 0"
        elif "addtid" in name:
            yield f"{name} {old if gives else data}"
        elif "wrxchg2" in name:  # of two places, which must not be one
            yield f"{name} {_span('v', 40, 2 * size)}, {address}, {data}, {second} offset1:1"
        elif gives and kind == "ds":
            yield from (f"{name} {old}, {address}", f"{name} {old}, {address}, {data}")
            yield f"{name} {old}, {address}, {data}, {second}"
        elif gives:
            yield f"{name} {old}, {address}{off}"
        elif kind == "ds":
            yield from (f"{name} {address}, {data}", f"{name} {address}, {data}, {second}")
        else:
            yield f"{name} {address}, {data}{off}"
    yield name


@cache
def base_forms(llvm: Llvm, target: str, prefix: str = "") -> dict[str, str]:
    """A plain form of each row's instruction that *target* has, by mnemonic.

    Only of those whose mnemonic begins with *prefix*.
    """
    candidates: dict[str, str] = {}
    for name in (name for name in ROWS if name.startswith(prefix)):
        make = {"v": _vector_forms, "s": _scalar_forms}.get(name.split("_")[0], _memory_forms)
        for text in make(name):
            candidates.setdefault(text, name)
    forms: dict[str, str] = {}
    good = accepted(llvm, target, candidates)
    instructions = processor(target).family.instructions
    for text, name in candidates.items():
        # LLVM takes names of before, which are not those that it prints.
        if text in good and opcode(name, instructions):
            forms.setdefault(name, text)
    return forms
