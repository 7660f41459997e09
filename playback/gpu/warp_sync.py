"""Barriers, fences, registers a thread, and TMA: how a warp meets others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from polyc.playback.gpu.barriers import MBarrier
from polyc.playback.gpu.copies import TmaCopy
from polyc.playback.gpu.kernel import BarrierArray, Steps, Wait
from polyc.playback.gpu.lanes import Array, Mask, Value, is_lanes
from polyc.playback.gpu.memory import PATTERN, WINDOW, TensorMap, swizzled
from polyc.playback.gpu.warp_memory import MemoryWarp


class SyncWarp(MemoryWarp):
    """A warp that synchronises."""

    # Barriers and fences

    def barrier(self, number: int, which: int, threads: int, m: Mask) -> Steps:
        if m is not None:
            lanes = np.nonzero(m)[0]
            self.find(
                number,
                "BarrierDivergence",
                f"{lanes.size} lanes of warp {self.index} come to the barrier; a barrier counts "
                "whole warps",
                threads=self.threads[lanes],
            )
        barrier = self.cta.named[which]
        if barrier.arrived.size and barrier.expected != threads:
            self.find(
                number,
                "BarrierMismatch",
                f"warp {self.index} comes to barrier {which} with {threads} threads, and others "
                f"wait there for {barrier.expected}",
            )
        self.counters.barriers += 1
        generation = barrier.generation
        if not barrier.come(self.clocks, self.threads, threads):
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
        for barrier in self.cta.mbarriers:
            for thread in self.threads[self.active(m)].tolist():
                if barrier.published is None:
                    barrier.publish(thread)

    def set_max_registers(self, number: int, increase: bool, count: int, m: Mask) -> Steps:
        """``setmaxnreg``: once a warpgroup; an increase waits for registers that others gave."""
        self.collective(number, m)
        cta, op = self.cta, self.op(number)
        if self.index % 4 == 0:
            held = cta.registers[self.group]
            if increase == (count < held) and count != held:
                self.find(
                    number,
                    "Registers",
                    f"warpgroup {self.group} has {held} registers a thread and "
                    f"{'increases' if increase else 'decreases'} to {count}",
                )
            need = (count - held) * 128
            if need > cta.register_pool:
                yield Wait(
                    op,
                    lambda: need <= cta.register_pool,
                    lambda: f"{need} registers: the CTA's pool has {cta.register_pool}",
                )
            cta.register_pool -= need
            cta.registers[self.group] = count
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
    ) -> None:
        lanes = self.active(m)
        for barrier, who in self._mbarriers(number, array, index, lanes):
            for lane in who.tolist():
                start = [int(c[lane]) if is_lanes(c) else int(c) for c in coordinates]
                at = int(address[lane]) if is_lanes(address) else int(address)
                self._tma_load(number, source, start, at, barrier, lane)

    def _tma_load(
        self,
        number: int,
        source: TensorMap,
        start: list[int],
        address: int,
        barrier: MBarrier,
        lane: int,
    ) -> None:
        op, thread = self.op(number), int(self.threads[lane])
        relative, size = address - WINDOW, source.bytes
        needs = max(128, PATTERN[source.span])
        if not 0 <= relative <= self.cta.shared.size - size:
            self.find(
                number,
                "OutOfBounds",
                f"a TMA load of {size} bytes to byte {relative} of shared memory, and the CTA has "
                f"{self.cta.shared.size}",
                threads=np.array([thread]),
                space="shared",
                address=address,
            )
            return
        if address % needs:
            self.find(
                number,
                "Misaligned",
                f"a TMA load with swizzle {source.span} goes to {self.cta.place(relative)}, no "
                f"multiple of {needs} bytes",
                threads=np.array([thread]),
                space="shared",
                address=address,
            )
            if address % 16:
                return
        usable = barrier.usable(op, [thread], True)
        if usable:
            barrier.check_phase(op, thread, "the copy")
        self.copies += 1
        self.counters.tma_loads += 1
        self.counters.tma_bytes += size
        data, elements, touched = source.box_at(start)
        self.counters.global_read_bytes += int(elements.size) * source.tensor.itemsize
        self.counters.global_read_sectors += touched
        if source.tensor.shadow is not None and elements.size:
            self._read_global(number, source.tensor, np.array([lane]), elements[None, :])
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
        if address % needs:
            places = np.clip(places, 0, self.cta.shared.size - 16)
        copy = TmaCopy(self.cta.shared, op, thread, places, chunks, barrier)
        if usable:
            self.cta.loads.setdefault(barrier.component, []).append(copy)
        self.cta.launch(copy)
