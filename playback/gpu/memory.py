"""Accesses of global and shared memory by a warp, and its cp.async."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from polyc.playback.gpu.clocks import NEVER, UPDATED, Conflict, repeated, rows_of
from polyc.playback.gpu.copies import CpAsync
from polyc.playback.gpu.core import WarpBase
from polyc.playback.gpu.counters import sectors, wavefronts
from polyc.playback.gpu.lanes import Array, Mask, Value, byte_rows, is_lanes, spread
from polyc.playback.gpu.signals import Signals
from polyc.playback.gpu.storage import WINDOW, GlobalTensor

ATOMIC = {"add": np.add, "max": np.maximum, "min": np.minimum}
"""Read-modify-write functions."""


def _of_lanes(value: Value, lanes: Array, dtype: np.dtype[Any]) -> Array:
    return value[lanes] if is_lanes(value) else np.full(lanes.size, value, dtype)


class MemoryWarp(WarpBase):
    """A warp that accesses memory."""

    def _sound(
        self,
        number: int,
        kind: str,
        good: Array,
        lanes: Array,
        places: Array,
        space: str,
        fault: Callable[[int], tuple[str, int]],
    ) -> tuple[Array, Array]:
        """Lanes and places where ``good`` holds; the others are one finding of ``kind``.

        ``fault`` gives what a thread does at a place, and the address of that.
        """
        if good.all():
            return lanes, places
        bad = np.nonzero(~good)[0]
        text, address = fault(int(places[bad[0]]))
        self.find(
            number,
            kind,
            f"thread {int(self.threads[lanes[bad[0]]])} {text}",
            threads=self.threads[lanes[bad]],
            space=space,
            address=address,
        )
        return lanes[good], places[good]

    # Global memory

    def _elements(
        self,
        number: int,
        tensor: GlobalTensor,
        indices: Sequence[Value],
        lanes: Array,
        width: int,
    ) -> tuple[Array, Array]:
        """Lanes with a sound access, and the first element of each; others are reported."""
        if not lanes.size:
            return lanes, np.zeros(0, np.int64)
        if len(indices) == 1 and len(tensor.shape) != 1:
            offsets = spread(indices[0], lanes)
            inside = (offsets >= 0) & (offsets + width <= tensor.size)
        else:
            offsets = np.zeros(lanes.size, np.int64)
            inside = np.ones(lanes.size, np.bool_)
            for axis, (index, extent) in enumerate(zip(indices, tensor.shape, strict=True)):
                last = width if axis == len(tensor.shape) - 1 else 1
                if is_lanes(index):
                    at = spread(index, lanes)
                    inside &= (at >= 0) & (at + last <= extent)
                    offsets = offsets * extent + at
                else:
                    inside &= 0 <= int(index) <= extent - last
                    offsets = offsets * extent + int(index)

        def outside(at: int) -> tuple[str, int]:
            more = f" and the {width - 1} elements after it" if width > 1 else ""
            text = f"accesses {tensor.element_text(at)}{more}, outside the shape "
            return f"{text}{list(tensor.shape)}", tensor.base + at * tensor.itemsize

        lanes, offsets = self._sound(
            number, "OutOfBounds", inside, lanes, offsets, "global", outside
        )
        size = width * tensor.itemsize

        def misaligned(at: int) -> tuple[str, int]:
            address = tensor.base + at * tensor.itemsize
            text = f"moves {size} bytes at {address:#x} ({tensor.element_text(at)}), no multiple"
            return f"{text} of {size}", address

        aligned = (tensor.base + offsets * tensor.itemsize) % size == 0
        return self._sound(number, "Misaligned", aligned, lanes, offsets, "global", misaligned)

    def _global_conflict(
        self, number: int, tensor: GlobalTensor, found: Conflict, lanes: Array, writes: bool
    ) -> None:
        thread = int(self.threads[lanes[found.row]])
        components = self.clocks.components
        other = components.who(found.component)
        if found.home not in (None, self.cta.cluster.number):
            other += f" of {'CTA' if components.ctas == 1 else 'cluster'} {found.home}"
        verb = "writes" if writes else "reads"
        earlier = "has read" if found.reader else "wrote"
        text = (
            f"thread {thread} {verb} {tensor.element_text(found.granule)}, and nothing orders "
            f"that after {other} {earlier} it"
        )
        if found.proxied:
            text = (
                f"thread {thread} {verb} {tensor.element_text(found.granule)} through the async "
                f"proxy, and what {other} wrote there in this launch is not visible to it: "
                "fence.proxy.async is for shared memory; load it without TMA, or in a later launch"
            )
        self.find(
            number,
            "ProxyFence" if found.proxied else "DataRace",
            text,
            threads=np.array([thread, components.thread(found.component) or 0]),
            space="global",
            address=tensor.base + found.granule * tensor.itemsize,
            times=found.times,
            other=self.op(found.op),
        )

    def _read_global(
        self,
        number: int,
        tensor: GlobalTensor,
        lanes: Array,
        elements: Array,
        copies: tuple[Array, Array] | None = None,
    ) -> None:
        """Happens-before of a read of a tensor that the kernel also writes.

        ``copies`` are the components and clocks of what reads for the lanes, where it is not the
        lanes themselves: the read is over when the copy is known complete.
        """
        shadow = tensor.shadow
        if shadow is None or not lanes.size:
            return
        threads = self.threads[lanes]
        now = self.clocks.now[threads]
        readers, clocks = copies or (threads, self.clocks.clock(threads))
        found = shadow.read(self.cta.cluster.number, now, readers, clocks, elements, number)
        if found is not None:
            self._global_conflict(number, tensor, found, lanes, False)
        if tensor.is_undefined and (shadow.cluster[elements] == NEVER).any():
            self.find(
                number,
                "Uninitialised",
                f"the {tensor.role} {tensor.name} is read where no kernel has written it",
                threads=threads,
                space="global",
            )
        self.dirty = True

    def load_global(
        self,
        number: int,
        tensor: GlobalTensor,
        indices: Sequence[Value],
        predicate: Value,
        width: int,
        vector: bool,
        m: Mask,
    ) -> Array:
        lanes = self.active(m, predicate)
        lanes, offsets = self._elements(number, tensor, indices, lanes, width)
        result = np.zeros((32, width), tensor.data.dtype)
        if lanes.size:
            elements = offsets[:, None] + np.arange(width)
            self._trace(number, self.threads[lanes], offsets)
            result[lanes] = tensor.data[elements]
            self._read_global(number, tensor, lanes, elements)
            self.counters.global_read_bytes += elements.size * tensor.itemsize
            self.counters.global_read_sectors += sectors(tensor.base + offsets * tensor.itemsize)
        return result if vector else result[:, 0]

    def store_global(
        self,
        number: int,
        value: Value,
        tensor: GlobalTensor,
        indices: Sequence[Value],
        predicate: Value,
        width: int,
        m: Mask,
    ) -> None:
        lanes = self.active(m, predicate)
        lanes, offsets = self._elements(number, tensor, indices, lanes, width)
        if not lanes.size:
            return
        elements = offsets[:, None] + np.arange(width)
        self._trace(number, self.threads[lanes], offsets)
        if is_lanes(value):
            tensor.data[elements] = value.reshape(32, width)[lanes]
        else:
            tensor.data[elements] = value
        self.counters.global_write_bytes += elements.size * tensor.itemsize
        self.counters.global_write_sectors += sectors(tensor.base + offsets * tensor.itemsize)
        tensor.track()
        shadow = tensor.shadow
        assert shadow is not None
        threads = self.threads[lanes]
        if (shared := repeated(elements)) is not None:
            both = threads[rows_of(elements, shared)]
            self.find(
                number,
                "DataRace",
                f"lanes of one store write {tensor.element_text(shared)} at once",
                threads=both,
                space="global",
                address=tensor.base + shared * tensor.itemsize,
                other=self.op(number),
            )
        now, clocks = self.clocks.now[threads], self.clocks.clock(threads)
        found = shadow.write(self.cta.cluster.number, now, threads, clocks, elements, number)
        if found is not None:
            self._global_conflict(number, tensor, found, lanes, True)
        if known := self.cta.cluster.signals.get(tensor.name):
            for element in elements.ravel().tolist():  # A counter that is set anew.
                known.pop(element, None)
        self.dirty = True

    def _also_updated(
        self, number: int, tensor: GlobalTensor, offset: int, thread: int, signals: Signals
    ) -> None:
        self.find(
            number,
            "SignalCount",
            f"thread {thread} updates {tensor.element_text(offset)}, which is a counter of "
            "signals: a wait takes the update for one, and it releases nothing",
            np.array([thread]),
            "global",
            tensor.base + offset * tensor.itemsize,
            signals.op,
        )

    def atomic_global(
        self,
        number: int,
        function: str,
        value: Value,
        tensor: GlobalTensor,
        indices: Sequence[Value],
        predicate: Value,
        m: Mask,
    ) -> None:
        """One update a lane, in any order."""
        lanes = self.active(m, predicate)
        lanes, offsets = self._elements(number, tensor, indices, lanes, 1)
        if not lanes.size:
            return
        tensor.track()
        shadow = tensor.shadow
        assert shadow is not None
        threads = self.threads[lanes]
        self._trace(number, threads, offsets)
        if tensor.is_undefined and (shadow.cluster[offsets] == NEVER).any():
            self.find(
                number,
                "Uninitialised",
                f"the {tensor.role} {tensor.name} is updated where nothing has set it",
                threads,
                "global",
            )
            shadow.cluster[offsets] = UPDATED
        now, clocks = self.clocks.now[threads], self.clocks.clock(threads)
        place = offsets[:, None]
        found = shadow.update(self.cta.cluster.number, now, threads, clocks, place, number)
        if found is not None:
            self._global_conflict(number, tensor, found, lanes, True)
        if known := self.cta.cluster.signals.get(tensor.name):
            for thread, offset in zip(threads.tolist(), offsets.tolist(), strict=True):
                if offset in known:
                    self._also_updated(number, tensor, offset, thread, known[offset])
        ATOMIC[function].at(tensor.data, offsets, _of_lanes(value, lanes, tensor.data.dtype))
        size = offsets.size * tensor.itemsize
        self.counters.global_read_bytes += size
        self.counters.global_write_bytes += size
        touched = sectors(tensor.base + offsets * tensor.itemsize)
        self.counters.global_read_sectors += touched
        self.counters.global_write_sectors += touched
        self.dirty = True

    # Shared memory

    def _addresses(
        self, number: int, address: Value, lanes: Array, width: int
    ) -> tuple[Array, Array]:
        """Lanes with a sound shared access, and their bytes from the start of the CTA's own."""
        relative = spread(address, lanes) - WINDOW
        good = (relative >= 0) & (relative + width <= self.cta.shared.size)

        def outside(at: int) -> tuple[str, int]:
            text = f"accesses {width} bytes at byte {at} of shared memory, and the CTA has"
            return f"{text} {self.cta.shared.size}", at + WINDOW

        lanes, relative = self._sound(
            number, "OutOfBounds", good, lanes, relative, "shared", outside
        )

        def misaligned(at: int) -> tuple[str, int]:
            text = f"accesses {width} bytes at {self.cta.place(at)}, no multiple of {width}"
            return text, at + WINDOW

        aligned = relative % width == 0
        return self._sound(number, "Misaligned", aligned, lanes, relative, "shared", misaligned)

    def _count_shared(self, number: int, relative: Array, lanes: Array, width: int) -> None:
        access = self.counters.access(self.op(number))
        access.instructions += 1
        access.bytes += relative.size * width
        waves = wavefronts(relative, width, lanes)
        access.wavefronts += waves
        requests = len(set((lanes // (32 if width <= 4 else 128 // width)).tolist()))
        access.ideal += min(waves, requests)

    def _uninitialised(self, number: int, granules: Array, threads: Array, who: str) -> None:
        empty = self.shadow.unwritten(granules)
        if empty.any():
            relative = int(granules[empty].flat[0]) * self.shadow.granule
            self.find(
                number,
                "Uninitialised",
                f"{who} reads {self.cta.place(relative)}, which nothing has written",
                threads=threads,
                space="shared",
                address=relative + WINDOW,
            )

    def _read_shared(self, number: int, lanes: Array, relative: Array, width: int) -> None:
        granules = self.shadow.granules(relative, width)
        threads = self.threads[lanes]
        self._trace(number, threads, relative, reads=granules)
        found = self.shadow.read(
            self.clocks.now[threads], threads, self.clocks.clock(threads), granules, number
        )
        if found is not None:
            thread = threads[found.row : found.row + 1]
            self.cta.conflict(
                found, self.op(number), f"thread {int(thread[0])}", thread, False, False
            )
        self._uninitialised(number, granules, threads, "the warp")
        self.counters.shared_read_bytes += relative.size * width
        self._count_shared(number, relative, lanes, width)
        self.dirty = True

    def _write_shared(
        self,
        number: int,
        lanes: Array,
        relative: Array,
        width: int,
        components: Array,
        clocks: Array,
        asynchronous: bool,
    ) -> None:
        granules = self.shadow.granules(relative, width)
        threads = self.threads[lanes]
        op = self.op(number)
        self._trace(number, threads, relative, writes=granules)
        if self.shadow.has_barriers and self.shadow.barrier[granules].any():
            at = int(granules[self.shadow.barrier[granules]].flat[0]) * self.shadow.granule
            self.find(
                number,
                "MBarrierOverwritten",
                f"{op.name} writes {self.cta.place(at)}",
                threads=threads,
                space="shared",
                address=at + WINDOW,
            )
        if (shared := repeated(granules)) is not None:
            at = shared * self.shadow.granule
            self.find(
                number,
                "DataRace",
                f"lanes of one instruction write {self.cta.place(at)} at once",
                threads=threads[rows_of(granules, shared)],
                space="shared",
                address=at + WINDOW,
                other=op,
            )
        found = self.shadow.write(self.clocks.now[threads], components, clocks, granules, number)
        if found is not None:
            thread = threads[found.row : found.row + 1]
            who = self.cta.components.who(int(components[found.row]))
            self.cta.conflict(found, op, who, thread, True, asynchronous)
        self.counters.shared_write_bytes += relative.size * width
        self._count_shared(number, relative, lanes, width)
        self.dirty = True

    def load_shared(
        self,
        number: int,
        address: Value,
        dtype: np.dtype[Any],
        width: int,
        vector: bool,
        m: Mask,
    ) -> Array:
        size = width * dtype.itemsize
        lanes, relative = self._addresses(number, address, self.active(m), size)
        result = np.zeros((32, width), dtype)
        if lanes.size:
            self._read_shared(number, lanes, relative, size)
            result[lanes] = self.cta.shared.load(relative, size, dtype)
        return result if vector else result[:, 0]

    def store_shared(
        self,
        number: int,
        value: Value,
        address: Value,
        dtype: np.dtype[Any],
        width: int,
        m: Mask,
    ) -> None:
        size = width * dtype.itemsize
        lanes, relative = self._addresses(number, address, self.active(m), size)
        if not lanes.size:
            return
        threads = self.threads[lanes]
        self._write_shared(
            number, lanes, relative, size, threads, self.clocks.clock(threads), False
        )
        values = byte_rows(value, width, dtype)
        self.cta.shared.store(relative, values[lanes])

    def atomic_shared(
        self,
        number: int,
        function: str,
        value: Value,
        address: Value,
        dtype: np.dtype[Any],
        m: Mask,
    ) -> None:
        """One update a lane, in any order."""
        lanes, relative = self._addresses(number, address, self.active(m), 4)
        if not lanes.size:
            return
        granules = self.shadow.granules(relative, 4)
        threads = self.threads[lanes]
        self._trace(number, threads, relative)
        now, clocks = self.clocks.now[threads], self.clocks.clock(threads)
        found = self.shadow.update(now, threads, clocks, granules, number)
        if found is not None:
            thread = threads[found.row : found.row + 1]
            who = f"thread {int(thread[0])}"
            self.cta.conflict(found, self.op(number), who, thread, True, False)
        self._uninitialised(number, granules, threads, "an atomic")
        memory = self.cta.shared.bytes.view(dtype)
        ATOMIC[function].at(memory, relative // 4, _of_lanes(value, lanes, dtype))
        self.counters.shared_read_bytes += 4 * relative.size
        self.counters.shared_write_bytes += 4 * relative.size
        self._count_shared(number, relative, lanes, 4)
        self.dirty = True

    # cp.async

    def cp_async(
        self,
        number: int,
        address: Value,
        tensor: GlobalTensor,
        indices: Sequence[Value],
        predicate: Value,
        size: int,
        m: Mask,
    ) -> None:
        lanes, relative = self._addresses(number, address, self.active(m), size)
        if not lanes.size:
            return
        self.copies += 1
        threads = self.threads[lanes]
        groups = self.committed[lanes] + 1
        self.copied[lanes] = groups
        self.last_copy = number
        self._write_shared(
            number, lanes, relative, size, self.clocks.components.threads + threads, groups, True
        )
        width = size // tensor.itemsize
        values = np.zeros((32, width), tensor.data.dtype)
        wanted = self.active(m, predicate)
        if wanted.size != lanes.size:
            wanted = np.intersect1d(wanted, lanes)
        wanted, offsets = self._elements(number, tensor, indices, wanted, width)
        if wanted.size:
            elements = offsets[:, None] + np.arange(width)
            self._trace(number, self.threads[wanted], offsets)
            values[wanted] = tensor.data[elements]
            readers = self.clocks.components.threads + self.threads[wanted]
            copies = readers, self.committed[wanted] + 1
            self._read_global(number, tensor, wanted, elements, copies)
            self.counters.cp_async_bytes += elements.size * tensor.itemsize
            self.counters.global_read_bytes += elements.size * tensor.itemsize
            self.counters.global_read_sectors += sectors(tensor.base + offsets * tensor.itemsize)
        copy = CpAsync(self.cta.shared, lanes, groups, relative, values[lanes].view(np.uint8))
        copy.agent = f"cp.async, warp {self.index}"
        self.pending.append(copy)
        self.cta.launch(copy)

    def cp_async_commit(self, m: Mask) -> None:
        if m is None:
            self.committed += 1
        else:
            self.committed[m] += 1

    def cp_async_wait(self, pending: int, m: Mask) -> None:
        """Lanes wait until all but their ``pending`` newest groups have arrived."""
        done = np.maximum(self.committed - pending, 0)
        lanes = self.active(m)
        waits = np.zeros(32, np.bool_)
        waits[lanes] = True
        kept: list[CpAsync] = []
        for copy in self.pending:
            if (waits[copy.lanes] & (copy.groups <= done[copy.lanes])).any():
                self.cta.arrive(copy)
                if copy in self.cta.copying:
                    self.cta.copying.remove(copy)
            if not copy.done:
                kept.append(copy)
        self.pending = kept
        threads = self.threads[lanes]
        if self.clocks.components.copies:
            columns = self.clocks.components.threads + threads
            now = self.clocks.now
            now[threads, columns] = np.maximum(now[threads, columns], done[lanes])
            self.dirty = True
