"""No modifier is ignored: each that LLVM takes on a row changes the result, or is refused by name.

That the result is the right one is the matter of the tests of each family; here stands that nothing
is dropped without a word.
"""

from __future__ import annotations

import hashlib
import re

import numpy as np
import pytest

from coasm.emulator.errors import Fault
from coasm.emulator.state.waves import Group
from coasm.llvm import Llvm
from tests.emulator.bench import GLOBAL, LDS, SCRATCH, Bench
from tests.emulator.modifier_forms import modifier_forms

IEEE, FLUSH = 0x3F0, 0x100


class States:
    """The same waves, LDS, scratch and memory for every form."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        rng = np.random.default_rng(4)
        normal = rng.normal(0, 3, (3, 128, 64))
        halves = normal[:2].astype(np.float16).view(np.uint16).astype(np.uint32)
        wide = np.ascontiguousarray(normal[2, :64].astype(np.float64)).view(np.uint32)
        wide = wide.reshape(64, 64, 2).transpose(0, 2, 1).reshape(128, 64)
        once = np.full((128, 64), 0x01010101, np.uint32)
        bits = rng.integers(0, 1 << 32, (128, 64), dtype=np.uint32)
        other, third = bits.copy(), bits.copy()
        other[9:12], third[8:10] = once[9:12], once[8:10]  # what a compare-and-swap compares
        self.registers = {
            "bits": bits,
            "f32": normal[0].astype(np.float32).view(np.uint32),
            "f16": halves[0] | halves[1] << np.uint32(16),
            "f64": wide,
            "second": other,
            "first": third,
        }
        single = np.uint32(1) << rng.integers(0, 32, (128, 64), dtype=np.uint32)
        self.registers["sparse"] = np.where(bits & 1, single, np.uint32(0))
        few = np.array([0, 1, -1, -128, 127, 128, 255, 65535, -32768, 32768], np.int32)
        self.registers["integers"] = rng.choice(few, (128, 64)).view(np.uint32)
        signs = rng.integers(0, 2, (128, 64), dtype=np.uint32)
        self.registers["bytes"] = rng.choice(
            np.array([0, 1, 0x7F, 0x80, 0xFF], np.uint8), (128, 64, 4)
        ).view(np.uint32)[..., 0]
        self.registers["±1, f32"] = np.uint32(0x3F800000) | signs << np.uint32(31)
        self.registers["±1, f16"] = np.uint32(0x3C003C00) | signs << np.uint32(15)
        self.registers["±1, f64"] = np.uint32(0x3FF00000) | signs << np.uint32(31)
        self.registers["scaled"] = wide.copy()
        self.registers["scaled"][10] = bits[10] % 6
        self.memory = rng.integers(0, 256, GLOBAL, dtype=np.uint8)
        self.random = rng.integers(0, 1 << 32, 106, dtype=np.uint32)
        self.results: dict[tuple[str, str, int], bytes] = {}

    def _wave(self, text: str, state: str, mode: int) -> Group:
        bench = self.bench
        group = bench.wave(mode)
        group.V[:128, 0] = self.registers[state]
        for at, value in enumerate(self.random):
            group.su[at][...] = value
        if text.startswith("v_"):
            return group
        lane = np.arange(64, dtype=np.uint32)
        address = lane * 64 + np.uint32(64)
        if text.startswith("scratch"):
            address = np.uint32(64) + 4 * (lane % 3)
        wide = address.astype(np.uint64) + np.uint64(bench.base)
        group.V[20, 0] = address
        if text.startswith(("global", "flat")):
            group.V[20, 0], group.V[21, 0] = wide.astype(np.uint32), wide >> np.uint64(32)
        group.V[22, 0], group.V[23, 0] = lane * 8, lane * 8
        group.d[4][...] = bench.base | 16 << 48  # a buffer with a stride of 16
        group.d[5][...] = 8192 | 0x20000 << 32
        group.d[6][...] = bench.base + 64
        if text.startswith("s_load"):
            group.d[2][...] = bench.base
        elif text.startswith("s_buffer"):
            group.d[2][...], group.d[3][...] = bench.base, group.d[5]
        group.su[124][...] = 256
        random = self.memory if state not in ("first", "second") else np.ones(GLOBAL, np.uint8)
        bench.globals[:], bench.lds[:] = random, random[:LDS]
        bench.scratch[:] = np.resize(random, 64 * SCRATCH)
        return group

    def after(self, text: str, state: str, mode: int) -> bytes:
        """What the wave and the memories hold after the instruction.

        Raises:
            Fault: it is refused.
        """
        found = self.results.get((text, state, mode))
        if found is None:
            bench = self.bench
            group = bench.run(text, self._wave(text, state, mode))
            parts = [group.V, group.S, group.scc]
            if not text.startswith("v_"):
                parts += [bench.globals, bench.lds, bench.scratch]
            found = hashlib.sha256(
                b"".join(np.ascontiguousarray(part).tobytes() for part in parts)
            ).digest()
            self.results[text, state, mode] = found
        return found

    def differ(self, form: str, base: str) -> bool:
        """Whether there is a state that the two leave differently."""
        for mode in (IEEE, FLUSH) if form.startswith("v_") else (IEEE,):
            for state in self.registers:
                if self.after(form, state, mode) != self.after(base, state, mode):
                    return True
        return False


#: Forms whose modifier changes no result, by what the ISA guides say.
WITHOUT_EFFECT = (
    # Caches hold nothing back here. The SC0 of an atomic is another matter, and not among these.
    r"\S+ .* (sc1|nt)",
    r"(?!\S*_atomic_)\S+ .* sc0",
    r"buffer_(inv|wbl2) (sc0|sc1|nt)",
    r"s_(buffer_)?load_\S+ .* glc",
    # ABID picks an index set where CBSZ is 0, else the first is taken (CDNA3 ISA guide, SMFMAC).
    r"v_smfmac_\S+ .* cbsz:[1-7]( abid:\d+)?",
    # A 16-bit operand is the low half of its register, and the sign of a half is in the half.
    r"v_(?!cvt_f16_f32|cvt_u16_f32)\w*16\w*_sdwa .*src\d_sel:WORD_\d.*",
    r"v_(\w*16\w*|mul_hi_u32_u24)_sdwa .* dst_sel:WORD_0 dst_unused:UNUSED_PAD .*",
    # An fp8 number is byte 0 of its operand, a pair of them word 0.
    r"v_cvt_f32_[fb][pf]8_sdwa .* src0_sel:(BYTE|WORD)_0",
    r"v_cvt_pk_f32_[fb][pf]8_sdwa .* src0_sel:WORD_0",
    # Of a shift's distance the low bits count, of ubyte N byte N, of ffbl the lowest one; a class
    # mask has 10 bits.
    r"v_(lshl|lshr|ashr)rev_\w+_sdwa .*src0_sel:(BYTE|WORD)_.*",
    r"v_(cvt_f32_ubyte[01]|ffbl_b32)_sdwa .*src0_sel:(BYTE|WORD)_.*",
    r"v_cmpx?_class_f\d+_sdwa .* src1_sel:WORD_[01]",
    r"v_cvt_off_f32_i4_sdwa v40, (sext\(v8\)|v8) .*src0_sel:((BYTE|WORD)_0)",
    r"v_cvt_off_f32_i4_sdwa v40, sext.*",
    # Results that fit into what they are put into, and are no negative numbers there.
    r"v_(ffb[hl]|frexp_exp|mul_hi_i32|cvt_f16)_\w+_sdwa .* dst_unused:UNUSED_SEXT .*",
    # The sign is not looked at, or comes from other operands.
    r"v_(cos_f\d+|frexp_exp_\w+)(_e64|_sdwa)? v40, (-|\||-\|)v.*",
    r"v_cmpx?_[ou]_\w+ vcc, .*[-|].*",
    r"v_div_(fixup|scale)_\w+ .*",
    r"v_cubesc_f32(_e64)? v40, v8, [-|].*, v12",
    r"v_cubetc_f32(_e64)? v40, [-|].*, v10, v12",
    r"v_trig_preop_f64(_e64)? v\[40:41\], [-|].*",
    # From 0 to below 1 in any case; comparisons that are never or always true.
    r"v_(fract|trig_preop)_f\d+ .* clamp",
    r"v_cmpx?_(f|t|tru)_.*",
    # Each half of the result has one source, and op_sel has a bit for each; a whole register has
    # no half.
    r"v_pk_mov_b32 .* op_sel_hi:.*",
    r"v_fma_mix\S* .* op_sel:\[[01,]*\]",
    # LLVM encodes it and does not show it.
    r"v_pk_fmac_f16 .* op_sel:.*",
    # No sum of these states saturates: see test_bytes.py.
    r"v_dot[48]c?_i32_i[48] .* clamp",
)
_SILENT = re.compile("|".join(f"(?:{form})" for form in WITHOUT_EFFECT))


def judge(llvm: Llvm, target: str, step: int) -> tuple[dict[str, str], list[str], int]:
    """(refused forms with the reason, forms that change nothing, how many change something)

    Of every *step*-th form.
    """
    forms = dict(list(modifier_forms(llvm, target).items())[::step])
    bench = Bench(llvm, target, list(dict.fromkeys([*forms, *forms.values()])))
    states = States(bench)
    refused: dict[str, str] = {}
    same: list[str] = []
    changed = 0
    for form, base in forms.items():
        if bench.encodings[form] == bench.encodings[base] or _SILENT.fullmatch(form):
            continue
        try:
            if states.differ(form, base):
                changed += 1
            else:
                same.append(form)
        except Fault as fault:
            refused[form] = str(fault)
    return refused, same, changed


@pytest.mark.slow
@pytest.mark.parametrize(("target", "step"), [("gfx950", 1), ("gfx942", 5)])
def test_no_modifier_is_dropped(target: str, step: int, llvm: Llvm) -> None:
    """All forms on gfx950, which has nearly all that gfx942 has; a fifth of them there."""
    refused, same, changed = judge(llvm, target, step)
    assert changed > 5000 / step
    assert not same, same[:20]
    # Operands whose values nobody says the result of, in the states of this test, too.
    words = re.compile("modifier|DPP|clamp|denormal|cbsz|abid|NaN as a number of 4 bits")
    odd = {form: why for form, why in refused.items() if not words.search(why)}
    assert not odd, list(odd.items())[:20]
