"""What decides a program beside its own text: the parts of the name that it has on disk.

A program's entry is named by the text of its canonical IR (``program``).  In front of it stands
what is known without parsing: the text that was given, or a Python function (``source``), whose
entry says which canonical IR that is.  So two texts that differ in blanks share their kernels, and
a text that was seen before is not parsed.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from polyc.runtime import driver, kept


def digest(text: str | bytes) -> str:
    """The hash of a text."""
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()


def source(what: str, parts: Mapping[str, Any]) -> str | None:
    """The name of the entry that says what a text or a function means."""
    return kept.key("source", {"of": what, **parts})


def program(
    ir: str,
    arch: str | None,
    name: str | None = None,
    plan: Any = None,
    options: Mapping[str, Any] | None = None,
    part: str | None = None,
) -> str | None:
    """The name of a program's entry, by the hash of its canonical IR; None where nothing is kept.

    ``part`` is one of two programs that it is made as.  ``plan`` and ``options`` are as
    ``polyc.compile`` has them, files by their content.  With
    ``kernels`` nothing is kept: what a Python file does depends on more than its text.
    """
    given = {k: v for k, v in (options or {}).items() if v is not None}
    if "kernels" in given:
        return None
    try:
        parts = {"plan": _plan(plan), "records": _records(given.get("records"))}
        parts["part"] = part
        parts["sparing"] = given.get("sparing")
        parts["sizes"] = json.dumps(given.get("sizes"), sort_keys=True)
    except (OSError, TypeError, ValueError):
        return None  # whoever reads it says what is wrong
    return kept.key("program", {"ir": ir, "arch": arch, "name": name, "on": _chip(), **parts})


def _plan(plan: Any) -> str | None:
    if plan is None:
        return None
    if isinstance(plan, str | Path):
        return digest(Path(plan).read_bytes())
    return digest(json.dumps(plan, sort_keys=True))


def _records(path: Any) -> list[Any] | None:
    """Measured plans, and the GPU that is here: they are used where they were measured."""
    if path is None:
        return None
    here = None
    if driver.available():
        found = driver.device(0)
        here = [found.name, found.multiprocessors, found.clock_mhz]
    return [digest(Path(path).read_bytes()), here]


def _chip() -> str | None:
    """The chip that kernels are modelled on, where this process was given another one."""
    module: Any = sys.modules.get("polyc.cost.device")
    given = None if module is None else module.given()
    return None if given is None else repr(given)
