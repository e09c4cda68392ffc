"""The families of kernels: each folder here is one, with the face that its ``FAMILY`` is."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from coasm.errors import LaunchError
from coasm.launch.family import Family

__all__ = ["FAMILIES", "UNNAMED", "family_of", "find_families"]

#: The family that ``coasm run`` means where it is given a family's options without a name.
UNNAMED = "f4gemm"


def find_families() -> dict[str, Family]:
    """Every family by its name."""
    folders = sorted(module.name for module in pkgutil.iter_modules(__path__) if module.ispkg)
    return {name: import_module(f"{__name__}.{name}").FAMILY for name in folders}


FAMILIES = find_families()


def family_of(name: str) -> Family:
    """The family of that name.

    Raises:
        LaunchError: there is none.
    """
    if name not in FAMILIES:
        raise LaunchError(f"no family of kernels {name!r}; known are {', '.join(FAMILIES)}")
    return FAMILIES[name]
