"""Whether the emulator did what the pseudo-code says, bit for bit."""

from __future__ import annotations

from tests.emulator.pseudocode.catalogue import Field
from tests.emulator.pseudocode.model import Case, Result
from tests.emulator.pseudocode.softfloat import FORMATS

__all__ = ["same"]

#: A NaN that these give is one of their sources, bit for bit, or one that the text spells out.
_EXACT_NANS = ("v_min", "v_max", "v_med3", "v_pk_min", "v_pk_max", "v_mov", "v_cndmask",
               "v_pk_mov", "v_div_fixup")  # fmt: skip
#: Approximated by hardware: how many units in the last place the emulator may be off.
#: Source: OpenCL's native functions as LLVM assumes them; CDNA3 ISA guide (1 ulp).
APPROXIMATE = {
    f"v_{name}_{kind}": bound
    for names, kinds, bound in (
        ("rcp rsq sqrt exp log", "f16 f32", 1),
        ("rcp rsq sqrt", "f64", 1),
        ("rcp_iflag", "f32", 1),
    )
    for name in names.split()
    for kind in kinds.split()
}
#: sin and cos: the absolute error, in units of 2**-13 (f16) or 2**-20 (f32).
ABSOLUTE = {"v_sin_f32", "v_cos_f32", "v_sin_f16", "v_cos_f16"}


def _parts(field: Field) -> tuple[str, int, int]:
    """(format, size of a part, parts) of a destination."""
    form = field.format.removeprefix("PK2_").lower()
    size = FORMATS[form].width if form in FORMATS else max(field.bits, 32)
    return form, size, max(field.bits, size) // size if "PK2" in field.format else 1


def _same_part(form: str, case: Case, got: int, want: int, nan_source: bool) -> bool:
    if got == want or form not in FORMATS:
        return got == want
    layout = FORMATS[form]
    body = layout.sign - 1
    nan = want & body > layout.infinity
    if nan and got & body > layout.infinity:
        if case.mnemonic.startswith(_EXACT_NANS) and "imum" not in case.mnemonic:
            return False
        # Which operand's NaN is handed on is open; that it is quiet is not.
        return nan_source and bool(got & layout.quiet)
    if nan or got & body > layout.infinity:
        return False
    if case.modifiers.get("clamp") and not (got | want) & body:
        return True  # whether clamp keeps the sign of a zero is open
    if case.mnemonic in ABSOLUTE:
        return _near(form, got, want)
    bound = APPROXIMATE.get(case.mnemonic, 0)
    return got & layout.sign == want & layout.sign and abs(got - want) <= bound


def _near(form: str, got: int, want: int) -> bool:
    from tests.emulator.pseudocode.functions import _float
    from tests.emulator.pseudocode.values import Value

    width = FORMATS[form].width
    a, b = (_float(Value("f", width, bits)) for bits in (got, want))
    return abs(a - b) <= (2.0**-20 if form == "f32" else 2.0**-10)


def same(case: Case, field: Field, got: int, want: Result, lane: int) -> bool:
    """Whether a lane's destination is as expected."""
    expected = want.lanes[lane]
    form, size, count = _parts(field)
    known = want.known
    if got & known == expected & known:
        return True
    if case.form == "sdwa" and case.modifiers.get("dst_sel", "DWORD") != "DWORD":
        if case.mnemonic in APPROXIMATE or case.mnemonic in ABSOLUTE:
            return True  # pieces of a number that is not exact
        return want.nan_sources[lane] and "F" in field.format
    mask = (1 << size) - 1
    for at in range(0, 64, size):
        a, b = got >> at & known >> at & mask, expected >> at & known >> at & mask
        inside = at < size * count or (form == "f16" and at == 16)
        if not (_same_part(form, case, a, b, want.nan_sources[lane]) if inside else a == b):
            return False
    return True
