"""The simulator: barriers, mbarriers, fences, and the registers that warpgroups give each other."""

from __future__ import annotations

from collections.abc import Generator

import numpy as np
from xdsl.ir import Operation, SSAValue

from polyc.dialects.gpu import hardware as hw
from polyc.playback.gpu.barriers import MBarrier, NamedBarrier
from polyc.playback.gpu.core import WarpCore
from polyc.playback.gpu.cta import Cta
from polyc.playback.gpu.findings import threads_text
from polyc.playback.gpu.kernel import BarrierArray, Steps, Wait
from polyc.playback.gpu.lanes import Array, Mask, Value, is_lanes, some
from polyc.playback.gpu.storage import WINDOW
from polyc.playback.gpu.translator import Translator, simulates


class Sync:
    """Where a warp meets others of its CTA, and what it lets them see."""

    def __init__(self, core: WarpCore) -> None:
        self.core = core

    def barrier(self, number: int, which: Value, threads: int, m: Mask) -> Steps:
        """Wait at hardware barrier ``which`` until ``threads`` threads are there."""
        yield from self.meet(number, self._named(number, which, m), threads, m)

    def barrier_any(
        self, number: int, which: Value, threads: int, condition: Value, m: Mask
    ) -> Generator[Wait | None, None, bool]:
        """Wait at a barrier as ``barrier`` does, and give whether any thread has the condition."""
        barrier = self._named(number, which, m)
        lanes = self.core.active(m)
        held = some(condition[lanes]) if is_lanes(condition) else bool(condition) and lanes.size > 0
        barrier.any |= held
        generation = barrier.generation
        yield from self.meet(number, barrier, threads, m, asks=True)
        return barrier.answers[generation]

    def barrier_arrive(self, number: int, which: Value, threads: int, m: Mask) -> None:
        """Arrive at a barrier and go on."""
        barrier = self._named(number, which, m)
        self._check_meeting(number, barrier, threads, m)
        self._check_asking(number, barrier, False)
        self.core.counters.barriers += 1
        barrier.arrive(self.core.clocks, self.core.threads, threads, self.core.op(number))
        self.core.dirty = True

    def _named(self, number: int, which: Value, m: Mask) -> NamedBarrier:
        if is_lanes(which):
            ids = which[self.core.active(m)].ravel()
            if some(ids != ids[0]):
                warp = self.core.index
                self.core.find(
                    number,
                    "BarrierDivergence",
                    f"lanes of warp {warp} come to different barriers, {ids[0]} and others",
                )
            which = int(ids[0])
        if not 1 <= which <= 15 and which != 0:
            self.core.find(number, "OutOfBounds", f"a CTA has barriers 0 to 15, not {which}")
            which = 15
        return self.core.cta.named[which]

    def _check_meeting(self, number: int, barrier: NamedBarrier, threads: int, m: Mask) -> None:
        core = self.core
        if m is not None:
            lanes = np.nonzero(m)[0]
            core.find(
                number,
                "BarrierDivergence",
                f"{lanes.size} lanes of warp {core.index} come to the barrier; a barrier counts "
                "whole warps",
                threads=core.threads[lanes],
            )
        if barrier.count and barrier.expected != threads:
            core.find(
                number,
                "BarrierMismatch",
                f"warp {core.index} comes to {barrier.name} with {threads} threads, and others "
                f"wait there for {barrier.expected}",
            )
        if others := barrier.unordered(core.clocks, core.threads):
            them = np.concatenate([a.threads for a in others])
            core.find(
                number,
                "BarrierPhase",
                f"{threads_text(core.threads.tolist())} come to {barrier.name} after "
                f"{threads_text(them.tolist())} have met there, and nothing orders that: on "
                "another run they are counted in place of those; take another barrier, or meet "
                "between",
                threads=np.concatenate([core.threads, them]),
                other=others[0].op,
            )

    def _check_asking(self, number: int, barrier: NamedBarrier, asks: bool) -> None:
        """``bar.red`` and the other barriers do not meet each other."""
        if barrier.count and barrier.asks != asks:
            self.core.find(
                number,
                "BarrierMismatch",
                f"warp {self.core.index} comes to {barrier.name} "
                f"{'with' if asks else 'without'} a condition, and others wait there "
                f"{'without' if asks else 'with'} one",
            )
        barrier.asks = asks

    def meet(
        self, number: int, barrier: NamedBarrier, threads: int, m: Mask, asks: bool = False
    ) -> Steps:
        """Wait at a barrier until ``threads`` threads are there, who ask for a condition or not."""
        core, op = self.core, self.core.op(number)
        self._check_meeting(number, barrier, threads, m)
        self._check_asking(number, barrier, asks)
        core.counters.barriers += 1
        generation = barrier.generation
        if not barrier.come(core.clocks, core.threads, threads, op):
            yield Wait(op, lambda: barrier.generation != generation, barrier.state, True)
        core.dirty = True
        yield None

    def fence_proxy_async(self, m: Mask) -> None:
        """What the lanes know becomes visible to the async proxy."""
        self.core.clocks.fence(self.core.threads[self.core.active(m)])

    def set_max_registers(self, number: int, increase: bool, count: int, m: Mask) -> Steps:
        """``setmaxnreg``: once a warpgroup; an increase waits for registers that others gave."""
        core, op = self.core, self.core.op(number)
        core.collective(number, m)
        pool, part = core.cta.pool, core.index % 4
        change = pool.come(core.group, part, count, int(core.threads[0]), op)
        if part == 0:
            held = pool.held[core.group]
            if increase == (count < held) and count != held:
                core.find(
                    number,
                    "Registers",
                    f"warpgroup {core.group} has {held} registers a thread and "
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


class MBarriers:
    """A warp's use of the mbarriers of ``cta``: its own CTA, or one of the cluster."""

    def __init__(self, core: WarpCore, cta: Cta) -> None:
        self.core = core
        self.cta = cta

    def named(
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
                self.core.find(
                    number,
                    "OutOfBounds",
                    f"mbarrier {i} of {array.name}, which has {array.count}",
                    threads=self.core.threads[who],
                    space="shared",
                    address=WINDOW + array.offset + 8 * i,
                )
            elif who.size:
                found.append((self.cta.mbarriers[array.first + i], who))
        return found

    def init(self, number: int, array: BarrierArray, index: Value, count: int, m: Mask) -> None:
        for barrier, lanes in self.named(number, array, index, self.core.active(m)):
            for thread in self.core.threads[lanes].tolist():
                barrier.initialise(self.core.op(number), thread, count)
        self.core.dirty = True

    def fence_init(self, m: Mask) -> None:
        threads = self.core.threads[self.core.active(m)]
        for barrier in self.cta.mbarriers:
            for thread in threads.tolist():
                barrier.publish(thread)
        self.core.dirty = True

    def arrive(
        self, number: int, array: BarrierArray, index: Value, expected: int, m: Mask
    ) -> None:
        """One arrival a lane, each of which announces ``expected`` bytes of copies."""
        op = self.core.op(number)
        for barrier, lanes in self.named(number, array, index, self.core.active(m)):
            threads: list[int] = self.core.threads[lanes].tolist()
            if barrier.usable(op, threads):
                for thread in threads:
                    barrier.arrive(op, thread, expected)
            self.core.counters.mbarrier_arrivals += len(threads)
        self.core.dirty = True

    def announce(
        self, number: int, array: BarrierArray, index: Value, expected: int, m: Mask
    ) -> None:
        """Bytes of copies are announced, apart from an arrival."""
        op = self.core.op(number)
        for barrier, lanes in self.named(number, array, index, self.core.active(m)):
            threads: list[int] = self.core.threads[lanes].tolist()
            if barrier.usable(op, threads):
                for thread in threads:
                    barrier.announce(op, thread, expected)

    def wait(self, number: int, array: BarrierArray, index: Value, parity: Value, m: Mask) -> Steps:
        op = self.core.op(number)
        for barrier, lanes in self.named(number, array, index, self.core.active(m)):
            if is_lanes(parity):
                groups = [(p, lanes[parity[lanes] == p]) for p in np.unique(parity[lanes]).tolist()]
            else:
                groups = [(parity, lanes)]
            for bit, who in groups:
                threads = self.core.threads[who]
                if not barrier.usable(op, threads.tolist()):
                    continue
                self.core.counters.mbarrier_waits += 1
                barrier.check_wait(op, threads, int(bit) & 1)
                if not barrier.passes(int(bit) & 1):
                    yield Wait(
                        op,
                        lambda b=barrier, p=int(bit) & 1: b.passes(p),
                        lambda b=barrier, p=int(bit) & 1: f"parity {p}: {b.state()}",
                    )
                    barrier.check_wait(op, threads, int(bit) & 1)
                barrier.observe(threads)
        self.core.dirty = True
        yield None


@simulates(hw.BarrierOp)
def _barrier(t: Translator, op: hw.BarrierOp) -> None:
    threads = t.kernel.threads.value.data
    t.line(f"yield from w.sync.barrier({t.number(op)}, 0, {threads}, {t.mask})")


def barrier_number(
    t: Translator, op: hw.NamedBarrierOp | hw.NamedBarrierArriveOp | hw.BarrierAnyOp
) -> str:
    """Which hardware barrier an op names."""
    number = str(op.id.value.data)
    return number if op.offset is None else f"{number} + {t.name(op.offset)}"


@simulates(hw.NamedBarrierOp)
def _named_barrier(t: Translator, op: hw.NamedBarrierOp) -> None:
    which, threads = barrier_number(t, op), op.threads.value.data
    t.line(f"yield from w.sync.barrier({t.number(op)}, {which}, {threads}, {t.mask})")


@simulates(hw.BarrierAnyOp)
def _barrier_any(t: Translator, op: hw.BarrierAnyOp) -> None:
    which, threads = barrier_number(t, op), op.threads.value.data
    asked = f"{t.number(op)}, {which}, {threads}, {t.name(op.condition)}, {t.mask}"
    t.define(op.result, f"yield from w.sync.barrier_any({asked})")


@simulates(hw.NamedBarrierArriveOp)
def _named_barrier_arrive(t: Translator, op: hw.NamedBarrierArriveOp) -> None:
    which, threads = barrier_number(t, op), op.threads.value.data
    t.line(f"w.sync.barrier_arrive({t.number(op)}, {which}, {threads}, {t.mask})")
    t.line("yield None")


def barrier_at(t: Translator, op: Operation, barrier: SSAValue, index: SSAValue) -> str:
    """The first arguments of an mbarrier's op: its number, the array and the barrier's index."""
    return f"{t.number(op)}, {t.name(barrier)}, {t.name(index)}"


@simulates(hw.MBarrierInitOp)
def _mbarrier_init(t: Translator, op: hw.MBarrierInitOp) -> None:
    at = barrier_at(t, op, op.barrier, op.index)
    t.line(f"w.mbarriers.init({at}, {op.count.value.data}, {t.mask})")


@simulates(hw.MBarrierExpectOp)
def _mbarrier_expect(t: Translator, op: hw.MBarrierExpectOp) -> None:
    at = barrier_at(t, op, op.barrier, op.index)
    t.line(f"w.mbarriers.arrive({at}, {op.bytes.value.data}, {t.mask})")
    t.line("yield None")


@simulates(hw.MBarrierAnnounceOp)
def _mbarrier_announce(t: Translator, op: hw.MBarrierAnnounceOp) -> None:
    at = barrier_at(t, op, op.barrier, op.index)
    t.line(f"w.mbarriers.announce({at}, {op.bytes.value.data}, {t.mask})")


@simulates(hw.MBarrierArriveOp)
def _mbarrier_arrive(t: Translator, op: hw.MBarrierArriveOp) -> None:
    t.line(f"w.mbarriers.arrive({barrier_at(t, op, op.barrier, op.index)}, 0, {t.mask})")
    t.line("yield None")


@simulates(hw.MBarrierWaitOp)
def _mbarrier_wait(t: Translator, op: hw.MBarrierWaitOp) -> None:
    at = barrier_at(t, op, op.barrier, op.index)
    t.line(f"yield from w.mbarriers.wait({at}, {t.name(op.parity)}, {t.mask})")


@simulates(hw.FenceMBarrierInitOp)
def _fence_mbarrier_init(t: Translator, op: hw.FenceMBarrierInitOp) -> None:
    t.line(f"w.mbarriers.fence_init({t.mask})")


@simulates(hw.FenceProxyAsyncOp)
def _fence_proxy_async(t: Translator, op: hw.FenceProxyAsyncOp) -> None:
    t.line(f"w.sync.fence_proxy_async({t.mask})")


@simulates(hw.SetMaxRegistersOp)
def _set_max_registers(t: Translator, op: hw.SetMaxRegistersOp) -> None:
    increase, count = op.direction.data == "increase", op.count.value.data
    t.line(f"yield from w.sync.set_max_registers({t.number(op)}, {increase}, {count}, {t.mask})")
