"""The versions of what is installed, in a millisecond.

``importlib.metadata`` takes longer to import than a program on disk takes to start.
"""

from __future__ import annotations

import os
import re
import sys
from functools import cache


def installed(name: str) -> str | None:
    """The version of an installed distribution, by its folder of metadata; None without one."""
    return _all(tuple(sys.path)).get(_plain(name))


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "_", name).lower()


@cache
def _all(path: tuple[str, ...]) -> dict[str, str]:
    """The versions of all distributions; of one that is there twice, the first that is found."""
    found: dict[str, str] = {}
    for folder in path:
        try:
            listed = os.listdir(folder or ".")
        except OSError:
            continue
        for entry in listed:
            stem, _, kind = entry.rpartition(".")
            if kind in ("dist-info", "egg-info"):
                title, dash, version = stem.partition("-")
                if dash:
                    found.setdefault(_plain(title), version)
    return found
