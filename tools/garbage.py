"""How often Python looks for garbage in a process of a tool.

IR is full of cycles and most of it lives as long as the process, so that looking at all of it again
after every 700 new objects, as Python does, takes an eighth of the time of compiling a large graph.
"""

from __future__ import annotations

import gc


def collect_rarely() -> None:
    """From now on this process looks for garbage after 100,000 new objects."""
    gc.set_threshold(100_000, 20, 50)
