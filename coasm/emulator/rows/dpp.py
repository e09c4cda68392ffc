"""Source 0 from other lanes: data-parallel primitives. Source: CDNA3 ISA guide, "DPP"."""

# NumPy's stubs give Any for arithmetic on arrays of any type.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import numpy as np

from coasm.emulator.errors import Fault
from coasm.emulator.rows.taken import peek
from coasm.emulator.rows.values import Array, Getter, spread
from coasm.emulator.state.waves import Group
from coasm.isa import Parsed

__all__ = ["dpp_lanes", "dpp_source", "has_dpp", "write_mask", "writes_all"]

_DPP = (
    "quad_perm",
    "row_shl",
    "row_shr",
    "row_ror",
    "wave_shl",
    "wave_rol",
    "wave_shr",
    "wave_ror",
    "row_mirror",
    "row_half_mirror",
    "row_bcast",
    "row_newbcast",
)


def has_dpp(parsed: Parsed) -> bool:
    """Whether source 0 goes through a lane permutation."""
    return bool(peek(parsed, "row_mask") and peek(parsed, "bank_mask"))


def dpp_lanes(parsed: Parsed, lanes: int) -> tuple[Array, Array]:
    """The lane that each lane reads, and whether it exists: int64 and bool, [lanes].

    Raises:
        Fault: a permutation that is not emulated.
    """
    lane, all_exist = np.arange(lanes), np.ones(lanes, np.bool_)
    for name in _DPP:
        text = parsed.modifiers.get(name)
        if text is None:
            continue
        if name == "quad_perm":
            order = np.array(parsed.bits(name, 4))
            return lane & ~3 | order[lane & 3], all_exist
        if name == "row_mirror":
            return lane ^ 15, all_exist
        if name == "row_half_mirror":
            return lane ^ 7, all_exist
        count = int(text, 0)
        if name == "row_newbcast":
            return lane & ~15 | count, all_exist
        if name == "row_bcast":
            # 15: the last lane of each row to the next row; 31: lane 31 to rows 2 and 3.
            if count == 15:
                return np.maximum((lane & ~15) - 1, 0), lane >= 16
            return np.full(lanes, 31), lane >= 32
        if name.startswith("row_"):
            at = (lane & 15) + (count if name == "row_shl" else -count)
            if name == "row_ror":
                return lane & ~15 | at & 15, all_exist
            return lane & ~15 | at & 15, (at >= 0) & (at < 16)
        at = lane + (count if name in ("wave_shl", "wave_rol") else -count)
        wraps = name.endswith(("rol", "ror"))
        return at & (lanes - 1), all_exist if wraps else (at >= 0) & (at < lanes)
    raise Fault("this DPP control is not emulated")


def dpp_source(parsed: Parsed, raw: Getter, lanes: int) -> Getter:
    """Source 0 as [n, 64] after the permutation; lanes without a source read 0."""
    sources, exists = dpp_lanes(parsed, lanes)

    def read(s: Group) -> Array:
        value = spread(raw(s), s.shape)[:, sources]
        valid = spread(exists, value.shape)
        if not s.full:
            valid = valid & s.mask[:, sources]  # a lane that is switched off counts as missing
        return value if valid.all() else np.where(valid, value, value.dtype.type(0))

    return read


def writes_all(parsed: Parsed) -> bool:
    """Whether a DPP instruction writes every lane of EXEC."""
    masks = parsed.number("row_mask", 15), parsed.number("bank_mask", 15)
    return masks == (15, 15) and "bound_ctrl" in parsed.modifiers


def write_mask(parsed: Parsed, lanes: int) -> Getter | None:
    """The lanes that a DPP instruction writes at all; None: every lane of EXEC.

    Without ``bound_ctrl`` a lane keeps its result register where its source lane does not exist or
    is switched off.
    """
    if not has_dpp(parsed):
        return None
    lane = np.arange(lanes)
    rows, banks = parsed.number("row_mask", 15), parsed.number("bank_mask", 15)
    enabled: Array = (rows >> (lane >> 4) & 1 & (banks >> (lane >> 2 & 3))).astype(bool)
    if "bound_ctrl" in parsed.modifiers:
        return lambda s: enabled
    sources, exists = dpp_lanes(parsed, lanes)
    enabled = enabled & exists
    return lambda s: enabled if s.full else s.mask[:, sources] & enabled
