"""Barriers, fences, registers a thread, and TMA: how a warp meets others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from polyc.playback.gpu.barriers import MBarrier, NamedBarrier
from polyc.playback.gpu.copies import TmaCopy, TmaStore
from polyc.playback.gpu.findings import threads_text
from polyc.playback.gpu.kernel import BarrierArray, Steps, Wait
from polyc.playback.gpu.lanes import Array, Mask, Value, is_lanes
from polyc.playback.gpu.memory import MemoryWarp
from polyc.playback.gpu.storage import PATTERN, WINDOW, GlobalTensor, TensorMap, swizzled


class SyncWarp(MemoryWarp):
    """A warp that synchronises."""

    # Barriers and fences

    def barrier(self, number: int, which: Value, threads: int, m: Mask) -> Steps:
        yield from self.meet(number, self._named(number, which, m), threads, m)

    def barrier_arrive(self, number: int, which: Value, threads: int, m: Mask) -> None:
        """Arrive at a barrier and go on."""
        barrier = self._named(number, which, m)
        self._check_meeting(number, barrier, threads, m)
        self.counters.barriers += 1
        barrier.arrive(self.clocks, self.threads, threads, self.op(number))
        self.dirty = True

    def _named(self, number: int, which: Value, m: Mask) -> NamedBarrier:
        if is_lanes(which):
            ids = which[self.active(m)].ravel()
            if (ids != ids[0]).any():
                self.find(
                    number,
                    "BarrierDivergence",
                    f"lanes of warp {self.index} come to different barriers, {ids[0]} and others",
                )
            which = int(ids[0])
        if not 1 <= which <= 15 and which != 0:
            self.find(number, "OutOfBounds", f"a CTA has barriers 0 to 15, not {which}")
            which = 15
        return self.cta.named[which]

    def _check_meeting(self, number: int, barrier: NamedBarrier, threads: int, m: Mask) -> None:
        if m is not None:
            lanes = np.nonzero(m)[0]
            self.find(
                number,
                "BarrierDivergence",
                f"{lanes.size} lanes of warp {self.index} come to the barrier; a barrier counts "
                "whole warps",
                threads=self.threads[lanes],
            )
        if barrier.count and barrier.expected != threads:
            self.find(
                number,
                "BarrierMismatch",
                f"warp {self.index} comes to {barrier.name} with {threads} threads, and others "
                f"wait there for {barrier.expected}",
            )
        if others := barrier.unordered(self.clocks, self.threads):
            them = np.concatenate([a.threads for a in others])
            self.find(
                number,
                "BarrierPhase",
                f"{threads_text(self.threads.tolist())} come to {barrier.name} after "
                f"{threads_text(them.tolist())} have met there, and nothing orders that: on "
                "another run they are counted in place of those; take another barrier, or meet "
                "between",
                threads=np.concatenate([self.threads, them]),
                other=others[0].op,
            )

    def meet(self, number: int, barrier: NamedBarrier, threads: int, m: Mask) -> Steps:
        """Wait at a barrier until ``threads`` threads are there."""
        self._check_meeting(number, barrier, threads, m)
        self.counters.barriers += 1
        generation = barrier.generation
        if not barrier.come(self.clocks, self.threads, threads, self.op(number)):
            yield Wait(
                self.op(number), lambda: barrier.generation != generation, barrier.state, True
            )
        self.dirty = True
        yield None

    def _mbarriers(
        self, number: int, array: BarrierArray, index: Value, lanes: Array
    ) -> list[tuple[MBarrier, Array]]:
        """The barriers that lanes name, and the lanes of each."""
        if is_lanes(index):
            chosen = index[lanes]
            named = [(int(i), lanes[chosen == i]) for i in np.unique(chosen)]
        else:
            named = [(int(index), lanes)]
        found: list[tuple[MBarrier, Array]] = []
        for i, who in named:
            if not 0 <= i < array.count:
                self.find(
                    number,
                    "OutOfBounds",
                    f"mbarrier {i} of {array.name}, which has {array.count}",
                    threads=self.threads[who],
                    space="shared",
                    address=WINDOW + array.offset + 8 * i,
                )
            elif who.size:
                found.append((self.cta.mbarriers[array.first + i], who))
        return found

    def mbarrier_init(
        self, number: int, array: BarrierArray, index: Value, count: int, m: Mask
    ) -> None:
        for barrier, lanes in self._mbarriers(number, array, index, self.active(m)):
            for thread in self.threads[lanes].tolist():
                barrier.initialise(self.op(number), thread, count)
        self.dirty = True

    def fence_mbarrier_init(self, m: Mask) -> None:
        threads = self.threads[self.active(m)]
        for barrier in self.cta.mbarriers:
            for thread in threads.tolist():
                barrier.publish(thread)
        self.dirty = True

    def mbarrier_arrive(
        self, number: int, array: BarrierArray, index: Value, expected: int, m: Mask
    ) -> None:
        op = self.op(number)
        for barrier, lanes in self._mbarriers(number, array, index, self.active(m)):
            threads: list[int] = self.threads[lanes].tolist()
            if barrier.usable(op, threads):
                for thread in threads:
                    barrier.arrive(op, thread, expected)
            self.counters.mbarrier_arrivals += len(threads)
        self.dirty = True

    def mbarrier_announce(
        self, number: int, array: BarrierArray, index: Value, expected: int, m: Mask
    ) -> None:
        op = self.op(number)
        for barrier, lanes in self._mbarriers(number, array, index, self.active(m)):
            threads: list[int] = self.threads[lanes].tolist()
            if barrier.usable(op, threads):
                for thread in threads:
                    barrier.announce(op, thread, expected)

    def mbarrier_wait(
        self, number: int, array: BarrierArray, index: Value, parity: Value, m: Mask
    ) -> Steps:
        op = self.op(number)
        for barrier, lanes in self._mbarriers(number, array, index, self.active(m)):
            if is_lanes(parity):
                groups = [(p, lanes[parity[lanes] == p]) for p in np.unique(parity[lanes]).tolist()]
            else:
                groups = [(parity, lanes)]
            for bit, who in groups:
                threads = self.threads[who]
                if not barrier.usable(op, threads.tolist()):
                    continue
                self.counters.mbarrier_waits += 1
                barrier.check_wait(op, threads, int(bit) & 1)
                if not barrier.passes(int(bit) & 1):
                    yield Wait(
                        op,
                        lambda b=barrier, p=int(bit) & 1: b.passes(p),
                        lambda b=barrier, p=int(bit) & 1: f"parity {p}: {b.state()}",
                    )
                    barrier.check_wait(op, threads, int(bit) & 1)
                barrier.observe(threads)
        self.dirty = True
        yield None

    def fence_proxy_async(self, m: Mask) -> None:
        self.clocks.fence(self.threads[self.active(m)])

    def set_max_registers(self, number: int, increase: bool, count: int, m: Mask) -> Steps:
        """``setmaxnreg``: once a warpgroup; an increase waits for registers that others gave."""
        self.collective(number, m)
        pool, op, part = self.cta.pool, self.op(number), self.index % 4
        change = pool.come(self.group, part, count, int(self.threads[0]), op)
        if part == 0:
            held = pool.held[self.group]
            if increase == (count < held) and count != held:
                self.find(
                    number,
                    "Registers",
                    f"warpgroup {self.group} has {held} registers a thread and "
                    f"{'increases' if increase else 'decreases'} to {count}",
                )
            if change.need > pool.free:
                yield Wait(
                    op,
                    lambda: change.need <= pool.free,
                    lambda: f"{change.need} registers: the CTA's pool has {pool.free}",
                )
            pool.take(change)
        yield None

    # TMA

    def tma_load(
        self,
        number: int,
        source: TensorMap,
        coordinates: Sequence[Value],
        address: Value,
        array: BarrierArray,
        index: Value,
        m: Mask,
        mask: Value | None = None,
        *,
        counted: bool = True,
    ) -> None:
        """One box a lane, to the CTA; it is read from memory where it is ``counted``."""
        assert mask is None
        lanes = self.active(m)
        for barrier, who in self._mbarriers(number, array, index, lanes):
            for lane in who.tolist():
                start = [int(c[lane]) if is_lanes(c) else int(c) for c in coordinates]
                at = int(address[lane]) if is_lanes(address) else int(address)
                self._tma_load(number, source, start, at, barrier, lane, counted)

    def _tma_load(
        self,
        number: int,
        source: TensorMap,
        start: list[int],
        address: int,
        barrier: MBarrier,
        lane: int,
        counted: bool,
    ) -> None:
        op, thread = self.op(number), int(self.threads[lane])
        if (fault := source.misplaced(start)) is not None:
            self.find(number, "OutOfBounds", fault, np.array([thread]), "global")
        relative, size = self._box_place(number, "load", source, address, thread), source.bytes
        if relative is None:
            return
        usable = barrier.usable(op, [thread], True)
        if usable:
            barrier.check_phase(op, thread, "the copy")
        self.copies += 1
        self.counters.tma_bytes += size
        data, elements, touched = source.box_at(start)
        if counted:
            self.counters.tma_loads += 1
            self.counters.global_read_bytes += int(elements.size) * source.tensor.itemsize
            self.counters.global_read_sectors += touched
        if source.tensor.shadow is not None and elements.size:
            reader = np.array([barrier.component]), np.array([barrier.phase + 1])
            self._read_global(number, source.tensor, np.array([lane]), elements[None, :], reader)
            self._check_proxy(number, source.tensor, elements, lane, False)
        granule = self.shadow.granule
        granules = np.arange(relative // granule, -(-(relative + size) // granule))
        places = np.array([*start, relative, barrier.component])
        self._trace(number, np.array([thread]), places, writes=granules)
        if self.shadow.has_barriers and self.shadow.barrier[granules].any():
            self.find(
                number,
                "MBarrierOverwritten",
                f"a TMA load writes over an mbarrier from {self.cta.place(relative)} on",
                threads=np.array([thread]),
                space="shared",
                address=address,
            )
        clocks = self.clocks
        found = self.shadow.write_async(
            clocks.now[thread],
            clocks.proxied[thread],
            barrier.component,
            barrier.phase + 1,
            granules,
            number,
        )
        if found is not None:
            who = self.cta.components.who(barrier.component)
            self.cta.conflict(found, op, who, np.array([thread]), True, True)
        chunks = data.reshape(-1, 16)
        places = swizzled(address + 16 * np.arange(len(chunks)), source.span) - WINDOW
        phases: Array | None = None
        if not self.cta.threads.start <= thread < self.cta.threads.stop:
            first = clocks.components.first_barrier
            last = first + len(clocks.components.barriers)
            phases = clocks.now[thread, first:last].copy()
        copy = TmaCopy(self.cta.shared, op, thread, places, chunks, barrier, phases)
        if usable:
            self.cta.loads.setdefault(barrier.component, []).append(copy)
        self.cta.launch(copy)

    def _check_proxy(
        self, number: int, tensor: GlobalTensor, elements: Array, lane: int, writes: bool
    ) -> None:
        """What TMA touches in global memory was not written by code in this launch."""
        assert tensor.shadow is not None
        threads = self.clocks.components.threads
        found = tensor.shadow.unseen(self.cta.cluster.number, threads, elements)
        if found is not None:
            self._global_conflict(number, tensor, found, np.array([lane]), writes)

    def _box_place(
        self, number: int, what: str, tensor_map: TensorMap, address: int, thread: int
    ) -> int | None:
        """A box's first byte in shared memory; None where the copy cannot be made."""
        relative, size = address - WINDOW, tensor_map.bytes
        needs = max(128, PATTERN[tensor_map.span])
        if not 0 <= relative <= self.cta.shared.size - size:
            self.find(
                number,
                "OutOfBounds",
                f"a TMA {what} of {size} bytes at byte {relative} of shared memory, and the CTA "
                f"has {self.cta.shared.size}",
                np.array([thread]),
                "shared",
                address,
            )
            return None
        if address % needs:
            self.find(
                number,
                "Misaligned",
                f"a TMA {what} with swizzle {tensor_map.span} is at {self.cta.place(relative)}, no "
                f"multiple of {needs} bytes",
                np.array([thread]),
                "shared",
                address,
            )
            return None
        return relative

    def tma_store(
        self,
        number: int,
        target: TensorMap,
        coordinates: Sequence[Value],
        address: Value,
        m: Mask,
    ) -> None:
        for lane in self.active(m).tolist():
            start = [int(c[lane]) if is_lanes(c) else int(c) for c in coordinates]
            at = int(address[lane]) if is_lanes(address) else int(address)
            self._tma_store(number, target, start, at, lane)
        self.dirty = True

    def _tma_store(
        self, number: int, target: TensorMap, start: list[int], address: int, lane: int
    ) -> None:
        op, thread = self.op(number), int(self.threads[lane])
        relative = self._box_place(number, "store", target, address, thread)
        if relative is None:
            return
        size, granule, clocks = target.bytes, self.shadow.granule, self.clocks
        components = clocks.components
        granules = np.arange(relative // granule, -(-(relative + size) // granule))
        group = int(self.bulk_committed[lane]) + 1
        self.bulk_used[lane] = group
        self.last_store = number
        reader = components.first_bulk + thread
        who = components.who(reader)
        me = np.array([thread])
        self._trace(number, me, np.array([*start, relative]), reads=granules)
        now, proxied = clocks.now[thread], clocks.proxied[thread]
        found = self.shadow.read_async(now, proxied, reader, group, granules, number)
        if found is not None:
            self.cta.conflict(found, op, who, me, False, True)
        self._uninitialised(number, granules, me, "a TMA store")
        tensor = target.tensor
        tensor.track()
        assert tensor.shadow is not None
        elements, touched = target.elements_at(start)
        if elements.size:
            self._check_proxy(number, tensor, elements, lane, True)
            writer, clock = np.array([reader + components.threads]), np.array([group])
            hit = tensor.shadow.write(
                self.cta.cluster.number, now[None], writer, clock, elements[None], number
            )
            if hit is not None:
                self._global_conflict(number, tensor, hit, np.array([lane]), True)
        self.counters.tma_stores += 1
        self.counters.global_write_bytes += int(elements.size) * tensor.itemsize
        self.counters.global_write_sectors += touched
        chunks = address + 16 * np.arange(size // 16)
        places = swizzled(chunks, target.span) - WINDOW
        copy = TmaStore(self.cta.shared, places, target, start, group)
        self.bulk.append((lane, copy))
        self.cta.launch(copy)

    def bulk_commit(self, m: Mask) -> None:
        self.bulk_committed[self.active(m)] += 1

    def bulk_wait(self, pending: int, read: bool, m: Mask) -> None:
        """Lanes wait for all but their ``pending`` newest groups of TMA stores."""
        lanes = self.active(m)
        done = np.maximum(self.bulk_committed - pending, 0)
        waiting = set(lanes.tolist())
        kept: list[tuple[int, TmaStore]] = []
        for lane, copy in self.bulk:
            if lane in waiting and copy.group <= done[lane]:
                self.cta.arrive(copy)
                if copy in self.cta.flying:
                    self.cta.flying.remove(copy)
            if not copy.done:
                kept.append((lane, copy))
        self.bulk = kept
        components, now = self.clocks.components, self.clocks.now
        threads = self.threads[lanes]
        if components.bulk:
            for first in (0,) if read else (0, components.threads):
                columns = components.first_bulk + first + threads
                now[threads, columns] = np.maximum(now[threads, columns], done[lanes])
        self.dirty = True
