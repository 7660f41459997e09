"""The classes of changes that a rewrite may make to results (S6.5)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from polyc.dialects.common.diagnostic import PolycError

ChangeClass = Literal["exact", "reassociating", "rounding", "finite-only"]

CLASSES: tuple[ChangeClass, ...] = ("exact", "reassociating", "rounding", "finite-only")
"""From the one that changes nothing to the one that asks for finite values."""

DEFAULT_CLASSES: tuple[ChangeClass, ...] = ("exact", "reassociating")


def check_classes(name: str, classes: Iterable[str]) -> None:
    """Raise PolycError unless the option ``classes`` of pass ``name`` holds classes only."""
    for found in classes:
        if found not in CLASSES:
            raise PolycError(
                "BadPassOption",
                f"{name} has no class {found} of changes; there are {', '.join(CLASSES)}",
            )
