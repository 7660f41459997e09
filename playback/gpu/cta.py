"""One CTA and its cluster: shared memory, barriers, clocks and what is on its way."""

from __future__ import annotations

import random
from dataclasses import dataclass

from xdsl.ir import Operation

from polyc.playback.gpu.barriers import MBarrier, NamedBarrier
from polyc.playback.gpu.clocks import Clocks, Conflict, Shadow
from polyc.playback.gpu.copies import Copy, CpAsync, TmaCopy, WgmmaCall
from polyc.playback.gpu.counters import Counters
from polyc.playback.gpu.findings import Report
from polyc.playback.gpu.kernel import KernelInfo
from polyc.playback.gpu.lanes import Array, some
from polyc.playback.gpu.record import Timeline, Trace
from polyc.playback.gpu.register_pool import RegisterPool
from polyc.playback.gpu.signals import Signals
from polyc.playback.gpu.storage import WINDOW, WINDOW_STRIDE, SharedMemory


@dataclass(frozen=True)
class Reach:
    """Threads of CTA ``block`` reached another CTA's shared memory at these clocks."""

    threads: Array
    clocks: Array
    op: Operation
    block: int


class Cluster:
    """The CTAs that run together: the unit of simulation.

    It is a cluster, or the whole grid of a cooperative launch.  They share their clocks, so that
    each thread can know of each other's events, the dice of the interleaving and the counters.
    Shared memory, barriers and what is on its way are a CTA's own.  Global memory knows a cluster
    by ``number``.
    """

    def __init__(
        self,
        kernel: KernelInfo,
        number: int,
        counters: Counters,
        report: Report,
        completion: str,
        dice: random.Random,
        trace: Trace | None = None,
        timeline: Timeline | None = None,
        grid: int = 1,
    ) -> None:
        self.kernel = kernel
        self.number = number
        self.grid = grid
        """CTAs of the whole launch."""
        self.counters = counters
        self.report = report
        self.completion = completion
        self.dice = dice
        self.trace = trace
        self.timeline = timeline
        self.components = kernel.components()
        self.clocks = Clocks(self.components)
        self.barrier = NamedBarrier(-1)
        self.signals: dict[str, dict[int, Signals]] = {}
        """What CTAs have signalled, by the counter's tensor and its element."""
        self.ctas: list[Cta] = [Cta(self, rank) for rank in range(kernel.cluster)]

    def complete_some(self) -> None:
        """With random completion: perhaps something completes now, in each CTA."""
        for cta in self.ctas:
            cta.complete_some()

    def complete_one(self) -> bool:
        """No warp can go on: the next copy of a CTA arrives.  False when there is none."""
        waiting = [cta for cta in self.ctas if cta.flying]
        if self.completion == "random" and len(waiting) > 1:
            self.dice.shuffle(waiting)
        return any(cta.complete_one() for cta in waiting)

    def finish(self) -> None:
        """All of its CTAs end."""
        for cta in self.ctas:
            cta.finish()


class Cta:
    """One CTA of a running kernel, the one of ``rank`` in its cluster.

    A shared address is the CTA's own, as PTX's ``.shared::cta`` is; ``window`` is where the
    cluster sees the CTA's shared memory.
    """

    def __init__(self, cluster: Cluster, rank: int) -> None:
        self.cluster = cluster
        self.rank = rank
        self.kernel = kernel = cluster.kernel
        self.block = cluster.number * kernel.cluster + rank
        self.counters = cluster.counters
        self.report = report = cluster.report.of(kernel.name, self.block)
        self.completion = cluster.completion
        self.dice = cluster.dice
        self.trace = cluster.trace
        self.timeline = cluster.timeline if self.block == 0 else None
        self.components = components = cluster.components
        self.clocks = cluster.clocks
        self.window = rank * WINDOW_STRIDE + WINDOW
        self.threads = slice(rank * 32 * kernel.warps, (rank + 1) * 32 * kernel.warps)
        """The CTA's threads among the cluster's."""
        self.reached: list[Reach] = []
        """Where peers reached this CTA's shared memory."""
        self.shared = SharedMemory(kernel.shared_bytes)
        self.shadow = Shadow(components, kernel.shared_bytes, kernel.granule)
        first = rank * kernel.mbarriers
        self.mbarriers = [
            MBarrier(
                components.barriers[first + b.first + i],
                i,
                components.first_barrier + first + b.first + i,
                WINDOW + b.offset + 8 * i,
                self.clocks,
                report,
            )
            for b in kernel.barriers
            for i in range(b.count)
        ]
        for b in kernel.barriers:
            self.shadow.reserve(b.offset, 8 * b.count)
        self.named = {i: NamedBarrier(i) for i in range(16)}
        self.calls: list[list[WgmmaCall]] = [[] for _ in range(-(-kernel.threads // 128))]
        """The wgmma of each warpgroup in order."""
        self.loads: dict[int, list[TmaCopy]] = {}
        """The TMA loads by the component of the mbarrier that they signal."""
        self.flying: list[Copy] = []
        """TMA copies and wgmma that may complete at any time."""
        self.copying: list[Copy] = []
        """cp.async of all warps that have not completed."""
        per_thread = min(255, 65536 // (kernel.threads * kernel.blocks_per_sm)) // 8 * 8
        self.pool = RegisterPool(len(self.calls), per_thread, self.clocks, report)

    # Places

    def place(self, relative: int) -> str:
        """A shared byte in words: ``A_tile, slot 2, byte 64``."""
        for tile in self.kernel.tiles:
            at = relative - tile.offset
            if 0 <= at < tile.slot * tile.slots:
                slot = f", slot {at // tile.slot}" if tile.slots > 1 else ""
                return f"{tile.name}{slot}, byte {at % tile.slot}"
        for barrier in self.kernel.barriers:
            at = relative - barrier.offset
            if 0 <= at < 8 * barrier.count:
                return f"mbarrier {barrier.name}[{at // 8}]"
        return f"shared byte {relative}"

    def conflict(
        self,
        found: Conflict,
        op: Operation,
        who: str,
        threads: Array,
        writes: bool,
        asynchronous: bool,
    ) -> None:
        """Report a conflict in shared memory; ``who`` and ``writes`` are the later access."""
        components = self.components
        earlier = components.who(found.component)
        by_thread = components.is_thread(found.component)
        relative = found.granule * self.shadow.granule
        place = self.place(relative)
        verb = "writes" if writes else "reads"
        if found.proxied:
            kind = "ProxyFence"
            text = (
                f"{who} {verb} {place} through the async proxy, and what {earlier} wrote there "
                "is not visible to it: a fence.proxy.async is missing between"
            )
        elif found.reader:
            kind = "DataRace" if by_thread and not asynchronous else "StageOverwritten"
            text = f"{who} writes {place}, and nothing orders that after {earlier} has read it"
        elif by_thread:
            kind = "DataRace"
            text = f"{who} {verb} {place}, and nothing orders that after {earlier} wrote it"
        else:
            kind = "UnwaitedCopy"
            text = f"{who} {verb} {place}, and has not waited for {earlier}, which fills it"
        other = components.thread(found.component)
        involved = [int(t) for t in threads] + ([] if other is None else [other])
        self.report.add(
            kind,
            text,
            op,
            self.kernel.ops[found.op],
            involved,
            "shared",
            WINDOW + relative,
            found.times,
        )

    def record(
        self,
        number: int,
        threads: Array,
        places: Array,
        reads: Array | None = None,
        writes: Array | None = None,
    ) -> None:
        """Add an access by op ``number`` to the fingerprint: who, where, and what came before.

        ``reads`` and ``writes`` are the granules of this CTA's shared memory that it touches.
        """
        trace, clocks = self.trace, self.clocks
        if trace is None:
            return
        name = f"{self.block} {self.kernel.ops[number].name}"
        parts = (threads, places, clocks.now[threads], clocks.proxied[threads])
        if writes is not None:
            self.shadow.held[writes] = trace.hold(name, *parts)
            return
        trace.add(name, *parts)
        if reads is not None:
            trace.use(self.shadow.held[reads])

    # Asynchronous operations

    def launch(self, copy: Copy) -> None:
        """An asynchronous operation begins, and may complete from now on."""
        if self.timeline is not None:
            copy.start = self.timeline.now
        if self.completion == "early":
            self.arrive(copy)
        elif isinstance(copy, CpAsync):
            self.copying.append(copy)
        else:
            self.flying.append(copy)

    def complete_some(self) -> None:
        """With random completion: perhaps something completes now."""
        if self.completion != "random" or self.dice.random() > 0.3:
            return
        queue = self.flying if self.flying and self.dice.random() < 0.5 else self.copying
        if queue:
            self._complete(queue, self.dice.randrange(len(queue)))

    def complete_one(self) -> bool:
        """No warp can go on: the next copy arrives.  False when there is none."""
        if not self.flying:
            return False
        last = len(self.flying) - 1
        self._complete(
            self.flying, self.dice.randint(0, last) if self.completion == "random" else 0
        )
        return True

    def _complete(self, queue: list[Copy], index: int) -> None:
        copy = queue[index]
        if isinstance(copy, WgmmaCall):
            # Those of a warpgroup run in order.
            copy = next(c for c in queue if isinstance(c, WgmmaCall))
        queue.remove(copy)
        self.arrive(copy)

    def arrive(self, copy: Copy) -> None:
        """A copy has its effect now."""
        if not copy.done:
            if self.timeline is not None:
                self.timeline.add(copy.agent, copy.start, copy.what, copy.stage)
            copy.complete()

    def finish(self) -> None:
        """The CTA ends: nothing may be on its way, no barrier half full, no peer at work."""
        for reach in self.reached:
            # The CTA's memory lives as long as its last thread; one must know of the access.
            known = self.clocks.now[self.threads][:, reach.threads].max(axis=0)
            if some(late := known < reach.clocks):
                self.report.add(
                    "PeerLifetime",
                    f"CTA {self.block} may end before CTA {reach.block} reaches its shared "
                    "memory: a cluster barrier is missing at the end",
                    reach.op,
                    None,
                    reach.threads[late].tolist(),
                    "cluster",
                    None,
                    1,
                )
        self.pool.finish()
        self.counters.peak_shared_bytes = max(
            self.counters.peak_shared_bytes, self.kernel.shared_bytes
        )
        for copy in self.flying:
            self.arrive(copy)
        for barrier in self.mbarriers:
            known = int(self.clocks.now[:, barrier.component].max())
            late = [c for c in self.loads.get(barrier.component, ()) if c.phase >= known]
            if late:
                barrier.find(
                    "Unfinished",
                    f"no thread waits for {len(late)} TMA loads into it, and the CTA may end "
                    "before they arrive",
                    late[0].op,
                    [late[0].thread],
                )
        for barrier in self.mbarriers:
            if not barrier.ready:
                continue
            if 0 < barrier.pending < barrier.count:
                barrier.find(
                    "MBarrierCount",
                    f"the CTA ends with {barrier.count - barrier.pending} of the {barrier.count} "
                    f"arrivals of phase {barrier.phase}",
                    barrier.made_by,
                    [],
                )
            elif barrier.transactions or not barrier.pending:
                barrier.find(
                    "MBarrierBytes",
                    f"the CTA ends while phase {barrier.phase} waits for "
                    f"{barrier.transactions} bytes",
                    barrier.made_by,
                    [],
                )
