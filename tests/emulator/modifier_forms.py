"""Every modifier on every row: forms that LLVM's assembler takes, each with one without it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from coasm.llvm import Llvm
from tests.emulator.forms import accepted, base_forms


def _one_hot(name: str, rest: str = "0", hot: str = "1") -> Iterator[str]:
    for count in (1, 2, 3, 4):
        for at in range(count):
            yield f"{name}:[{','.join(hot if n == at else rest for n in range(count))}]"


_WORDS = """
    clamp mul:2 mul:4 div:2 gds offset:16 offset0:1 offset1:2 offen idxen lds glc slc sc0 sc1 nt tfe
    lwe unorm nv d16 cbsz:1 cbsz:2 abid:1 blgp:1 blgp:4 bitop3:0x96
"""
_SUFFIXES = (
    *_WORDS.split(),
    "cbsz:1 abid:1",
    *_one_hot("op_sel"),
    *_one_hot("op_sel_hi", "1", "0"),
    *_one_hot("neg_lo"),
    *_one_hot("neg_hi"),
    *_one_hot("neg"),
)
_ALL = "row_mask:0xf bank_mask:0xf"
_SAME = f"quad_perm:[0,1,2,3] {_ALL}"
_MOVES = """
    row_shl:1 row_shr:1 row_ror:1 wave_shl:1 wave_rol:1 wave_shr:1 wave_ror:1 row_bcast:15
    row_bcast:31 row_newbcast:3
"""
_DPP = (
    f"quad_perm:[1,0,3,2] {_ALL}",
    "quad_perm:[0,1,2,3] row_mask:0x5 bank_mask:0xf",
    "quad_perm:[0,1,2,3] row_mask:0xf bank_mask:0x5",
    f"row_mirror {_ALL}",
    f"row_half_mirror {_ALL}",
    *(f"{name} {_ALL}{more}" for name in _MOVES.split() for more in ("", " bound_ctrl:0")),
)
_SELECTS = ("BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3", "WORD_0", "WORD_1")


def _sdwa(text: str) -> Iterator[tuple[str, str]]:
    """(form, base) with sub-dword selections."""
    name, _, rest = text.partition(" ")
    results = ("", " dst_sel:DWORD dst_unused:UNUSED_PAD")
    count = sum(one != "vcc" for one in rest.split(", ")[1:])
    for sources in {min(count, 2)}:
        for result in results:
            plain = [f" src{n}_sel:DWORD" for n in range(sources)]
            base = f"{name}_sdwa {rest}{result}{''.join(plain)}"
            for at in range(sources):
                for select in _SELECTS:
                    picked = [*plain]
                    picked[at] = f" src{at}_sel:{select}"
                    form = f"{name}_sdwa {rest}{result}{''.join(picked)}"
                    yield form, base
                    operands = rest.split(", ")
                    places = [n for n, one in enumerate(operands) if n and one != "vcc"]
                    signed = [*operands]
                    signed[places[at]] = f"sext({signed[places[at]]})"
                    yield f"{name}_sdwa {', '.join(signed)}{form.split(rest, 1)[1]}", form
            if result:
                for select in _SELECTS:
                    for unused in ("UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE"):
                        tail = f" dst_sel:{select} dst_unused:{unused}"
                        yield f"{name}_sdwa {rest}{tail}{''.join(plain)}", base
            yield from ((f"{base} {one}", base) for one in ("clamp", "mul:2", "div:2"))
            for negative in _negated(rest):
                yield base.replace(rest, negative), base


def _negated(rest: str) -> Iterator[str]:
    operands = rest.split(", ")
    for at in range(1, len(operands)):
        for pattern in ("-{}", "|{}|", "-|{}|"):
            changed = [*operands]
            changed[at] = pattern.format(changed[at])
            yield ", ".join(changed)


def _candidates(text: str) -> Iterator[tuple[str, str]]:
    name, _, rest = text.partition(" ")
    for suffix in _SUFFIXES:
        yield f"{text} {suffix}", text
    if name.startswith("buffer") and ", off, " in text:
        for words in ("offen", "idxen", "offen offset:8", "idxen offset:8"):
            yield text.replace("off,", "v22,") + " " + words, text
        yield text.replace("off,", "v[22:23],") + " idxen offen", text
        for words in ("lds", "offen lds"):
            address = "v22" if "offen" in words else "off"
            bare = f"{name} {address}, {text.split(', ', 2)[2]}"
            yield f"{bare} {words}", text
    if name.startswith("global"):
        yield text.replace("v[20:21]", "v22").replace("off", "s[12:13]") + " offset:-16", text
    if not name.startswith("v_") or not rest:
        return
    for negative in _negated(rest):
        yield f"{name} {negative}", text
        yield f"{name}_e64 {negative}", text
    if name.startswith("v_mfma"):
        return
    for control in _DPP:
        yield f"{name}_dpp {rest} {control}", f"{name}_dpp {rest} {_SAME}"
    yield from _sdwa(text)


@cache
def modifier_forms(llvm: Llvm, target: str) -> dict[str, str]:
    """Form with a modifier → the form without it; both are instructions of *target*."""
    pairs: dict[str, str] = {}
    for text in base_forms(llvm, target).values():
        for form, base in _candidates(text):
            pairs.setdefault(form, base)
    good = accepted(llvm, target, (base for base in pairs.values() if base not in pairs))
    known = good | pairs.keys()
    forms = accepted(llvm, target, (f for f, base in pairs.items() if base in known))
    known = good | forms
    return {f: base for f, base in pairs.items() if f in forms and base in known}
