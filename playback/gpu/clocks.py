"""Happens-before: vector clocks, and what every byte of memory knows of its last accesses.

Every thread of a cluster has a vector clock.  Its components are the threads themselves and
the asynchronous agents that work for them:

* one for each thread: its own events;
* one for each thread's ``cp.async``: the number of its newest group that is known complete;
* two for each thread's TMA stores: the groups that have read, and those that have written;
* one for each warp's part of ``wgmma``: the same for wgmma groups;
* one for each mbarrier: the number of its phases that are known complete, which is also the
  clock of the TMA copies that complete on it.

An access is an epoch ``(component, clock)``.  It happens before what a thread does now if
the thread's clock of that component has reached it.  Because this is a relation and not an
order of what ran first, a missing wait is found in every interleaving.

A second vector, ``proxied``, is what of the first one is visible to the async proxy: a
proxy fence copies the first into it, and synchronisation passes both on.

Shared memory is shadowed in granules of the smallest access of the kernel.  The method is
that of FastTrack (Flanagan and Freund, PLDI 2009) with full read sets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from mmap import mmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyc.playback.gpu.lanes import every, some

Array = NDArray[Any]


def of_cta(rank: int, ctas: int, gang: str) -> str:
    """Which CTA of a ``gang`` (``cluster`` or ``grid``), in words; nothing where there is one."""
    return "" if ctas == 1 else f" of CTA {rank} of the {gang}"


@dataclass(frozen=True)
class Components:
    """Which component of a clock belongs to whom.

    Threads, warps and mbarriers count through the cluster, CTA after CTA.
    """

    threads: int
    copies: bool
    """Whether threads have a component for their cp.async."""
    bulk: bool
    """Whether threads have two components for their TMA stores: what was read, what was written."""
    warps: int
    """Warps with a component for wgmma; 0 where the kernel has none."""
    barriers: tuple[str, ...]
    """The mbarriers by name."""
    ctas: int = 1
    """CTAs of the cluster; what is counted above is theirs together."""
    gang: str = "cluster"
    """What these CTAs are: a cluster, or a whole grid."""

    @property
    def first_bulk(self) -> int:
        return self.threads * (2 if self.copies else 1)

    @property
    def first_warp(self) -> int:
        return self.first_bulk + (2 * self.threads if self.bulk else 0)

    @property
    def first_barrier(self) -> int:
        return self.first_warp + self.warps

    @property
    def count(self) -> int:
        return self.first_barrier + len(self.barriers)

    def who(self, component: int) -> str:
        """The agent in words."""
        if component < self.threads:
            return f"thread {component}"
        if component < self.first_bulk:
            return f"the cp.async of thread {component - self.threads}"
        if component < self.first_warp:
            return f"the TMA store of thread {(component - self.first_bulk) % self.threads}"
        if component < self.first_barrier:
            rank, warp = divmod(component - self.first_warp, self.warps // self.ctas)
            return f"the wgmma of warp {warp}" + of_cta(rank, self.ctas, self.gang)
        return f"the TMA copy that signals {self.barriers[component - self.first_barrier]}"

    def thread(self, component: int) -> int | None:
        """The thread that the agent works for, where it is one thread's."""
        if component < self.threads:
            return component
        return component % self.threads if component < self.first_warp else None

    def is_thread(self, component: int) -> bool:
        return component < self.threads


class Clocks:
    """The vector clocks of a cluster's threads, a row a thread."""

    def __init__(self, components: Components) -> None:
        self.components = components
        n = components.threads
        self.now: Array = np.zeros((n, components.count), np.int32)
        self.own = np.arange(n)
        self.now[self.own, self.own] = 1
        # Zeros that nobody has touched take no memory, and there are fences in few kernels.
        self.proxied: Array = np.zeros(self.now.shape, np.int32)
        self.fenced = False
        """Whether any thread has fenced the proxy: until then nothing is visible to it."""

    def tick(self, threads: Array) -> None:
        """A new epoch for each of ``threads``: what follows is not part of what was released."""
        self.now[threads, threads] += 1

    def clock(self, threads: Array) -> Array:
        return self.now[threads, threads]

    def meet(self, threads: Array) -> None:
        """A barrier of ``threads``: each learns what any of them knows."""
        rows = self._rows(threads)
        self.now[rows] = np.maximum.reduce(self.now[rows])
        if self.fenced:
            self.proxied[rows] = np.maximum.reduce(self.proxied[rows])
        self.tick(threads)

    def _rows(self, threads: Array) -> Array | slice:
        """The rows of ``threads``: of all together those that there are, which nobody copies."""
        return slice(None) if threads.size == len(self.now) else threads

    def learn(self, threads: Array, now: Array, proxied: Array) -> None:
        """``threads`` learn what was released as ``now`` and ``proxied``."""
        self.now[threads] = np.maximum(self.now[threads], now)
        if self.fenced:
            self.proxied[threads] = np.maximum(self.proxied[threads], proxied)

    def fence(self, threads: Array) -> None:
        """``fence.proxy.async``: what the threads know is visible to the async proxy."""
        self.fenced = True
        self.proxied[threads] = self.now[threads]


@dataclass(frozen=True)
class Conflict:
    """An access that nothing orders after an earlier one.

    ``reader`` says whether the earlier access read; ``proxied`` that it is ordered and only
    the proxy fence is missing; ``row`` and ``granule`` where it was found, ``component`` and
    ``op`` who made the earlier access, in global memory that of the cluster ``home``.
    """

    reader: bool
    proxied: bool
    row: int
    granule: int
    component: int
    op: int
    times: int
    home: int | None = None


class Atomics:
    """Atomic updates since the last plain write of each place: they race with plain accesses
    only."""

    def __init__(self) -> None:
        self.log: dict[int, dict[tuple[int, int], tuple[int, int]]] = {}

    def add(self, cluster: int, threads: Array, clocks: Array, places: Array, op: int) -> None:
        rows = zip(threads.tolist(), clocks.tolist(), places.tolist(), strict=True)
        for thread, clock, row in rows:
            for place in row:
                self.log.setdefault(place, {})[cluster, thread] = (clock, op)

    def unordered(self, cluster: int, now: Array, places: Array) -> Conflict | None:
        """The first update that a plain access of ``places[i]`` knowing ``now[i]`` races with."""
        if not self.log:
            return None
        for i, row in enumerate(places.tolist()):
            for place in row:
                for (home, thread), (clock, op) in self.log.get(place, {}).items():
                    if home != cluster or now[i, thread] < clock:
                        return Conflict(False, False, i, place, thread, op, 1, home)
        return None

    def clear(self, places: Array) -> None:
        if self.log:
            for place in places.ravel().tolist():
                self.log.pop(place, None)


def untouched(shape: tuple[int, int], kind: type[np.generic]) -> Array:
    """Zeros whose pages the system makes when they are touched, however large the array is.

    ``numpy.zeros`` sets memory that an earlier array of the process had.
    """
    count = shape[0] * shape[1]
    if not count:
        return np.zeros(shape, kind)
    return np.frombuffer(mmap(-1, count * np.dtype(kind).itemsize), kind).reshape(shape)


class Reads:
    """The last read of each granule by each of the components ``[first, last)``, and its op.

    A row that nobody reads is never touched, so that it costs no memory.
    """

    def __init__(self, size: int, first: int, last: int) -> None:
        self.first = first
        self.columns = slice(first, last)
        self.clock: Array = untouched((size, last - first), np.int32)
        self.op: Array = untouched((size, last - first), np.int16)
        self.seen: Array = np.zeros(size, np.bool_)

    def note(self, granules: Array, components: Array | int, clocks: Array | int, op: int) -> None:
        """``components`` read ``granules`` at ``clocks``."""
        self.clock[granules, components - self.first] = clocks
        self.op[granules, components - self.first] = op
        self.seen[granules] = True

    def late(self, now: Array, granules: Array) -> Array:
        """Where row ``i`` of ``granules``, knowing ``now[i]``, does not know of a read."""
        found: Array = np.zeros(granules.shape, np.bool_)
        rows, columns = np.nonzero(self.seen[granules])
        if rows.size:
            knows = now[rows if len(now) > 1 else 0, self.columns]
            found[rows, columns] = (self.clock[granules[rows, columns]] > knows).any(axis=1)
        return found

    def unknown(self, knows: Array, granule: int) -> tuple[int, int] | None:
        """The first component whose read of ``granule`` is not known, and the op."""
        column = np.nonzero(self.clock[granule] > knows[self.columns])[0]
        if not column.size:
            return None
        return int(column[0]) + self.first, int(self.op[granule, column[0]])

    def forget(self, granules: Array) -> None:
        """``granules`` are written."""
        those = granules[self.seen[granules]]
        if those.size:
            self.clock[those] = 0
            self.seen[those] = False


class Shadow:
    """What is known of each granule of one CTA's shared memory."""

    def __init__(self, components: Components, size: int, granule: int) -> None:
        n = max(1, -(-size // granule))
        self.components = components
        self.granule = granule
        self.writer: Array = np.zeros(n, np.int32)
        self.written: Array = np.zeros(n, np.int32)
        self.write_op: Array = np.zeros(n, np.int32)
        # Apart, as a row of what threads have read is long, and wgmma reads most of the memory.
        self.reads = (
            Reads(n, 0, components.first_warp),
            Reads(n, components.first_warp, components.count),
        )
        self.held: Array = np.zeros(n, np.int64)
        """The number of the last write in the fingerprint."""
        self.barrier: Array = np.zeros(n, np.bool_)
        self.has_barriers = False
        self.atomics = Atomics()

    def granules(self, addresses: Array, width: int) -> Array:
        """The granules of accesses of ``width`` bytes, a row an access."""
        first = addresses // self.granule
        if width <= self.granule:
            return first[:, None]
        return first[:, None] + np.arange(width // self.granule)

    def reserve(self, start: int, size: int) -> None:
        """The bytes of mbarriers, which are not data."""
        self.barrier[start // self.granule : -(-(start + size) // self.granule)] = True
        self.has_barriers = True

    # Reads

    def unwritten(self, granules: Array) -> Array:
        """Where nothing was ever written."""
        return self.written[granules] == 0

    def read(
        self, now: Array, own: Array, clocks: Array, granules: Array, op: int
    ) -> Conflict | None:
        """Accesses by threads: row ``i`` reads ``granules[i]`` knowing ``now[i]``."""
        writers = self.writer[granules]
        known = now[np.arange(len(granules))[:, None], writers] >= self.written[granules]
        self.reads[0].note(granules, own[:, None], clocks[:, None], op)
        if every(known):
            return self.atomics.unordered(0, now, granules)
        return self._writer_conflict(granules, ~known, False)

    def read_async(
        self, now: Array, proxied: Array, component: int, clock: int, granules: Array, op: int
    ) -> Conflict | None:
        """One agent of the async proxy that started knowing ``now`` reads ``granules``."""
        writers, written = self.writer[granules], self.written[granules]
        conflict = self._async_conflict(now, proxied, granules, writers, written)
        self.reads[component >= self.components.first_warp].note(granules, component, clock, op)
        return conflict

    def _async_conflict(
        self, now: Array, proxied: Array, granules: Array, writers: Array, written: Array
    ) -> Conflict | None:
        known = now[writers] >= written
        if not every(known):
            return self._writer_conflict(granules[:, None], ~known[:, None], False)
        generic = writers < self.components.first_barrier
        visible = ~generic | (proxied[writers] >= written)
        if not every(visible):
            return self._writer_conflict(granules[:, None], ~visible[:, None], True)
        return None

    def _writer_conflict(self, granules: Array, wrong: Array, proxied: bool) -> Conflict:
        rows, columns = np.nonzero(wrong)
        row, granule = int(rows[0]), int(granules[rows[0], columns[0]])
        return Conflict(
            False,
            proxied,
            row,
            granule,
            int(self.writer[granule]),
            int(self.write_op[granule]),
            int(np.unique(rows).size),
        )

    # Writes

    def write(
        self, now: Array, components: Array, clocks: Array, granules: Array, op: int
    ) -> Conflict | None:
        """Accesses by threads, or by their cp.async: row ``i`` writes ``granules[i]``.

        ``components`` and ``clocks`` are the epochs of the writes.
        """
        rows = np.arange(len(granules))[:, None]
        known = now[rows, self.writer[granules]] >= self.written[granules]
        conflict = None if every(known) else self._writer_conflict(granules, ~known, False)
        conflict = conflict or self.atomics.unordered(0, now, granules)
        self.atomics.clear(granules)
        conflict = conflict or self._readers(now, granules)
        for reads in self.reads:
            reads.forget(granules)
        self.writer[granules] = components[:, None]
        self.written[granules] = clocks[:, None]
        self.write_op[granules] = op
        return conflict

    def _readers(self, now: Array, granules: Array) -> Conflict | None:
        late = self.reads[0].late(now, granules) | self.reads[1].late(now, granules)
        return self._reader_conflict(granules, late, now) if some(late) else None

    def update(
        self, now: Array, threads: Array, clocks: Array, granules: Array, op: int
    ) -> Conflict | None:
        """Atomic updates by threads: row ``i`` updates ``granules[i]``."""
        rows = np.arange(len(granules))[:, None]
        known = now[rows, self.writer[granules]] >= self.written[granules]
        conflict = None if every(known) else self._writer_conflict(granules, ~known, False)
        conflict = conflict or self._readers(now, granules)
        self.atomics.add(0, threads, clocks, granules, op)
        return conflict

    def write_async(
        self, now: Array, proxied: Array, component: int, clock: int, granules: Array, op: int
    ) -> Conflict | None:
        """One agent of the async proxy writes ``granules``."""
        writers, written = self.writer[granules], self.written[granules]
        conflict = self._async_conflict(now, proxied, granules, writers, written)
        touched = granules[self.reads[0].seen[granules] | self.reads[1].seen[granules]]
        if touched.size:
            conflict = conflict or self._readers(now[None], touched[:, None])
            for reads in self.reads:
                reads.forget(touched)
        self.writer[granules] = component
        self.written[granules] = clock
        self.write_op[granules] = op
        return conflict

    def _reader_conflict(self, granules: Array, wrong: Array, now: Array) -> Conflict:
        rows, columns = np.nonzero(wrong)
        row, granule = int(rows[0]), int(granules[rows[0], columns[0]])
        knows = now[row] if len(now) > 1 else now[0]
        found = self.reads[0].unknown(knows, granule) or self.reads[1].unknown(knows, granule)
        assert found is not None
        return Conflict(
            True,
            False,
            row,
            granule,
            *found,
            int(np.unique(rows).size),
        )


NEVER = -1
"""The cluster of an element that no plain store has written."""

UPDATED = -2
"""The cluster of one that atomics updated without that, or that was set before the launch."""


class GlobalShadow:
    """What is known of each element of a tensor in global memory that a kernel stores to.

    Nothing orders the CTAs of different clusters within a launch, so an element that one of
    them writes is no other's.  Between the launches of a sequence everything is ordered; where
    a launch only reads a tensor (``watched`` is false) nothing can collide.
    """

    def __init__(self, size: int) -> None:
        self.cluster: Array = np.full(size, NEVER, np.int32)
        self.thread: Array = np.zeros(size, np.int32)
        self.written: Array = np.zeros(size, np.int32)
        self.write_op: Array = np.zeros(size, np.int32)
        self.readers: dict[int, dict[tuple[int, int], tuple[int, int]]] = {}
        self.atomics = Atomics()
        self.polls = Atomics()
        """Waits for counters, which race with plain stores only."""
        self.watched = True

    def settle(self, watched: bool) -> None:
        """A launch is over, and what it wrote is there for the next one."""
        past = self.cluster >= 0
        self.cluster[past] = UPDATED
        self.thread[past] = 0  # The next launch may have fewer.
        self.readers.clear()
        self.atomics, self.polls = Atomics(), Atomics()
        self.watched = watched

    def fill(self) -> None:
        """The host has set every element."""
        self.cluster[:] = UPDATED

    def _writers(self, cluster: int, now: Array, elements: Array) -> Conflict | None:
        writer, owner = self.thread[elements], self.cluster[elements]
        rows = np.arange(len(elements))[:, None]
        known = (owner < 0) | ((owner == cluster) & (now[rows, writer] >= self.written[elements]))
        if every(known):
            return None
        at, column = np.nonzero(~known)
        element = int(elements[at[0], column[0]])
        return Conflict(
            False,
            False,
            int(at[0]),
            element,
            int(self.thread[element]),
            int(self.write_op[element]),
            int(np.unique(at).size),
            int(self.cluster[element]),
        )

    def read(
        self, cluster: int, now: Array, threads: Array, clocks: Array, elements: Array, op: int
    ) -> Conflict | None:
        """Row ``i``: ``threads[i]``, or what copies for it, reads ``elements[i]``."""
        if not self.watched:
            return None
        for thread, clock, row in zip(
            threads.tolist(), clocks.tolist(), elements.tolist(), strict=True
        ):
            for element in row:
                self.readers.setdefault(element, {})[cluster, thread] = (clock, op)
        found = self._writers(cluster, now, elements)
        return found or self.atomics.unordered(cluster, now, elements)

    def unseen(self, cluster: int, threads: int, elements: Array) -> Conflict | None:
        """The first of ``elements`` that the async proxy does not see as ``cluster`` left it.

        One of the ``threads`` wrote it itself in this launch and not by a TMA store, and the fence
        of the async proxy orders shared memory only.
        """
        by_code = (self.cluster[elements] == cluster) & (self.thread[elements] < threads)
        if some(by_code):
            element = int(elements[by_code][0])
            who, op = int(self.thread[element]), int(self.write_op[element])
            return Conflict(False, True, 0, element, who, op, 1, cluster)
        for element in elements.tolist() if self.atomics.log else ():
            for (home, thread), (_, op) in self.atomics.log.get(element, {}).items():
                if home == cluster:
                    return Conflict(False, True, 0, element, thread, op, 1, cluster)
        return None

    def write(
        self, cluster: int, now: Array, threads: Array, clocks: Array, elements: Array, op: int
    ) -> Conflict | None:
        """Row ``i``: thread ``threads[i]`` writes ``elements[i]``."""
        conflict = self._writers(cluster, now, elements)
        conflict = conflict or self.atomics.unordered(cluster, now, elements)
        conflict = conflict or self._readers(cluster, now, elements)
        if conflict is None and (polled := self.polls.unordered(cluster, now, elements)):
            conflict = replace(polled, reader=True)
        self.atomics.clear(elements)
        self.polls.clear(elements)
        if self.readers:
            for element in elements.ravel().tolist():
                self.readers.pop(element, None)
        self.cluster[elements] = cluster
        self.thread[elements] = threads[:, None]
        self.written[elements] = clocks[:, None]
        self.write_op[elements] = op
        return conflict

    def _readers(self, cluster: int, now: Array, elements: Array) -> Conflict | None:
        if not self.readers:
            return None
        for i, row in enumerate(elements.tolist()):
            for element in row:
                for (home, thread), (clock, by) in self.readers.get(element, {}).items():
                    if home != cluster or now[i, thread] < clock:
                        return Conflict(True, False, i, element, thread, by, 1, home)
        return None

    def update(
        self, cluster: int, now: Array, threads: Array, clocks: Array, elements: Array, op: int
    ) -> Conflict | None:
        """Atomic updates: row ``i``, thread ``threads[i]`` updates ``elements[i]``."""
        conflict = self._writers(cluster, now, elements)
        conflict = conflict or self._readers(cluster, now, elements)
        self.atomics.add(cluster, threads, clocks, elements, op)
        return conflict

    def poll(
        self, cluster: int, now: Array, threads: Array, clocks: Array, elements: Array, op: int
    ) -> Conflict | None:
        """Waits for counters: row ``i``, thread ``threads[i]`` has waited for ``elements[i]``."""
        self.polls.add(cluster, threads, clocks, elements, op)
        return self._writers(cluster, now, elements)


def repeated(granules: Array) -> int | None:
    """The first granule that two rows share, or None: two lanes of one store collide there."""
    flat = granules.ravel()
    if flat.size < 2:
        return None
    ordered = np.sort(flat)
    same = ordered[1:] == ordered[:-1]
    return int(ordered[1:][same][0]) if some(same) else None


def rows_of(granules: Array, granule: int) -> Sequence[int]:
    """The rows that hold ``granule``."""
    return [int(i) for i in np.nonzero((granules == granule).any(axis=1))[0]]
