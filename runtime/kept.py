"""Programs on disk: what a new process runs without lowering, and without importing what lowers.

An entry has a program's description (``polyc.runtime.described``), with the launches of those
variants that somebody ran, and the names of the entries that have their cubins.  A variant that is
not there is lowered from the program's source, and the entry then grows.  Its name is the hash of
everything that it depends on (``key``).
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polyc.dialects.common.diagnostic import PolycError
from polyc.runtime.code import Code, Unit
from polyc.runtime.described import (
    Described,
    Launch,
    described_json,
    merged,
    read_described,
)
from polyc.runtime.origin import Origin
from polyc.runtime.store import Store, cache_root
from polyc.runtime.versions import versions

if TYPE_CHECKING:
    from polyc.dialects.gpu.module import ModuleOp

FORMAT = 4
"""Changes when the layout of an entry does."""


def key(what: str, parts: Mapping[str, Any]) -> str | None:
    """The name of the entry for ``parts``, which are JSON data; None where nothing is kept.

    The versions of polyc's source and of all that compiles with it are part of it; where there is
    no compiler, nothing is kept, and with ``POLYC_CACHE=cubins`` what was compiled alone.
    """
    if cache_root() is None or os.environ.get("POLYC_CACHE") == "cubins":
        return None
    try:
        known = versions()
    except PolycError:
        return None
    whole = {"what": what, "format": FORMAT, "parts": parts, "versions": known}
    text = json.dumps(whole, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest() + f".{what}"


def programs_dir() -> Path | None:
    """Where entries are, or None where nothing is kept."""
    root = cache_root()
    return None if root is None else root / "programs"


def load(name: str | None) -> Mapping[str, Any] | None:
    """The JSON of an entry; None where there is none, or it is refused with a warning."""
    folder = programs_dir()
    if name is None or folder is None:
        return None
    found = Store(folder).load(name)
    return None if found is None else found[0]


def save(name: str | None, data: Mapping[str, Any]) -> None:
    """Write an entry, whole or not at all."""
    folder = programs_dir()
    if name is not None and folder is not None:
        Store(folder).save(name, data, b"")


def alone() -> AbstractContextManager[None]:
    """While an entry is read and written with more: see ``Store.alone``."""
    folder = programs_dir()
    return nullcontext() if folder is None else Store(folder).alone()


def refused(name: str, error: Exception) -> None:
    """Warn of an entry that holds other data than its name says."""
    warnings.warn(
        f"polyc: the cache entry {name} is of another kind ({error}); it is made anew",
        RuntimeWarning,
        stacklevel=3,
    )


def origin(name: str | None, lower: Callable[[], Origin]) -> Origin:
    """The program of an entry; where there is none, of ``lower``, and then there is one.

    Without a ``name`` nothing is kept.  Raises what ``lower`` does, also later, when a variant is
    asked for that nobody ran before.
    """
    if name is None:
        return lower()
    if (data := load(name)) is not None:
        try:
            return Kept(name, read_described(data["described"]), _read_units(data["units"]), lower)
        except (ValueError, TypeError, LookupError) as error:
            refused(name, error)
    return Kept.of(name, lower())


class Kept(Origin):
    """A program with an entry of a name, which grows when a variant is lowered or compiled."""

    def __init__(
        self, name: str, described: Described, units: Sequence[Unit], lower: Callable[[], Origin]
    ) -> None:
        self._name = name
        self._lower = lower
        self._lowered: Origin | None = None
        # Held for what is remembered, and while lowering; never while the code is asked.
        self._lock = threading.RLock()
        self.described = described
        self.code = Code(described.arch, described.name, described.kernels, self._source, units)
        self.code.on_made = self._publish

    @staticmethod
    def of(name: str, lowered: Origin) -> Kept:
        """One that was just lowered."""
        found = Kept(name, lowered.described, (), lambda: lowered)
        found._lowered = lowered
        found.code = lowered.code
        found.code.on_made = found._publish
        found._publish()
        return found

    def _now(self) -> Origin:
        """The program, lowered."""
        with self._lock:
            if self._lowered is None:
                self._lowered = self._lower()
            return self._lowered

    def _source(self, kernel: str) -> str:
        code = self._now().code
        return code.source(code.unit(kernel))

    def module(self) -> ModuleOp:
        return self._now().module()

    def launches(self, number: int) -> Sequence[Launch]:
        known = self.described.choices[number].launches
        if known is not None:
            return known
        found = tuple(self._now().launches(number))
        with self._lock:
            choices = list(self.described.choices)
            choices[number] = choices[number]._replace(launches=found)
            self.described = self.described._replace(choices=tuple(choices))
        self._publish()
        return found

    def _publish(self) -> None:
        """Write the entry with all that is known now, and what others have written meanwhile."""
        units = {unit.kernels: unit.entry for unit in self.code.compiled}
        with self._lock, alone():
            data = described_json(self.described)
            if (other := load(self._name)) is not None:
                try:
                    theirs = {u.kernels: u.entry for u in _read_units(other["units"])}
                    data["launches"] = merged(other["described"], data)
                    read_described(data)
                except (ValueError, TypeError, LookupError):
                    data = described_json(self.described)
                else:
                    units = theirs | units
            listed = [[list(kernels), entry] for kernels, entry in units.items()]
            save(self._name, {"described": data, "units": listed})


def _read_units(data: Any) -> list[Unit]:
    found: list[Unit] = []
    for kernels, entry in data:
        texts = [entry, *kernels]
        if not all(isinstance(text, str) for text in texts):
            raise TypeError(f"{texts} are no names")
        found.append(Unit(tuple(kernels), entry))
    return found
