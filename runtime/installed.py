"""The versions of what is installed, in a millisecond.

``importlib.metadata`` takes longer to import than a program on disk takes to start.
"""

from __future__ import annotations

import os
import re
import sys
from functools import cache


@cache
def installed(name: str) -> str | None:
    """The version of an installed distribution, by its folder of metadata; None without one."""
    wanted = re.sub(r"[-_.]+", "_", name).lower()
    for folder in sys.path:
        try:
            listed = os.listdir(folder or ".")
        except OSError:
            continue
        for entry in listed:
            stem, dot, kind = entry.rpartition(".")
            if dot and kind in ("dist-info", "egg-info") and "-" in stem:
                title, _, version = stem.partition("-")
                if re.sub(r"[-_.]+", "_", title).lower() == wanted:
                    return version
    return None
