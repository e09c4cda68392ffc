"""Listings for the tests of lint; gfx942 and later, and what they hold."""

from __future__ import annotations

from tests.compare.objects import source

__all__ = ["CLEAN", "TOO_CLOSE", "listing"]

#: v_rcp_f32 needs one wait state before a VALU instruction that reads its result (ISA guides,
#: table 11; LLVM's post-RA-hazard-rec puts an s_nop 0 between these two).
TOO_CLOSE = "\tv_rcp_f32 v1, v0\n\tv_mul_f32 v2, v1, v1\n\ts_endpgm"
CLEAN = "\tv_rcp_f32 v1, v0\n\ts_nop 0\n\tv_mul_f32 v2, v1, v1\n\ts_endpgm"


def listing(
    bodies: dict[str, str] | str, target: str = "gfx942", head: str = "", version: int = 5
) -> str:
    """A listing that ``coasm asm`` takes; one body is that of a kernel ``k``."""
    if isinstance(bodies, str):
        bodies = {"k": bodies}
    return (
        f'\t.amdgcn_target "amdgcn-amd-amdhsa--{target}"\n'
        f"\t.amdhsa_code_object_version {version}\n{head}{source(bodies, target)}"
    )
