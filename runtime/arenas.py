"""Memory for workspaces: an arena a stream, which programs share and which goes with the last.

Calls on one stream run in order, so that they may use the same memory.  Two streams never do, nor
two threads' default streams, nor a stream and a graph that was captured from it: the graph is run
whenever and wherever its owner likes.
"""

from __future__ import annotations

import threading
from weakref import WeakValueDictionary

from polyc.runtime import driver

ARENAS_KEPT = 64
"""Streams whose arenas a program keeps, the oldest going first; those of captures all stay."""

Key = tuple[int, int, int]
"""GPU, number of the stream, number of the capture or 0."""


class Arena:
    """Memory for the workspaces of all calls on one stream of one GPU, which run in order.

    ``lock`` is held while a call's launches are put into the stream: another call's must not
    come between them.
    """

    def __init__(self, index: int, stream: int, captured: bool) -> None:
        self.lock = threading.RLock()
        self.captured = captured
        self._index, self._stream = index, stream
        self._blocks: list[driver.Buffer] = []

    def pointer(self, size: int) -> int:
        """The address of at least ``size`` bytes; what was there before is lost when it grows.

        A graph holds the addresses that it was captured with, so that they all stay.
        """
        if not self._blocks or self._blocks[-1].size < size:
            if self._blocks and not self.captured:
                driver.wait(self._stream)
                self._blocks.clear()
            self._blocks.append(driver.Buffer(size, self._index))
        return self._blocks[-1].pointer


_shared: WeakValueDictionary[Key, Arena] = WeakValueDictionary()
_lock = threading.Lock()


class Arenas:
    """The arenas that one owner uses; they are freed when no owner is left.

    ``private`` ones are used by no other.
    """

    def __init__(self, private: bool = False) -> None:
        self._held: dict[Key, Arena] = {}
        self._known = WeakValueDictionary[Key, Arena]() if private else _shared

    def of(self, index: int, stream: int) -> Arena:
        """The arena of ``stream`` on GPU ``index``, whose context is current."""
        capture = driver.capture(stream)
        number = driver.handle_number(stream) if capture else driver.stream_number(stream)
        key = index, number, capture
        if (held := self._held.get(key)) is not None:
            return held
        with _lock:
            found = self._known.get(key)
            if found is None:
                found = self._known[key] = Arena(index, stream, bool(capture))
            self._held[key] = found
            passing = [one for one in self._held if not one[2]]
            # What goes is freed outside of the lock, by whoever drops it last.
            gone = self._held.pop(passing[0]) if len(passing) > ARENAS_KEPT else None
        del gone
        return found
