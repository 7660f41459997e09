"""Barriers: mbarriers with phases and transaction counts, and the CTA's hardware barriers.

PTX ISA 9.7.13 (barrier, mbarrier).  Next to its counts an mbarrier holds the clocks that its
arrivals release and that a completed wait learns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Operation

from polyc.playback.gpu.clocks import Clocks
from polyc.playback.gpu.findings import Report, threads_text
from polyc.playback.gpu.lanes import every

Array = NDArray[Any]


class MBarrier:
    """One mbarrier.

    ``phase`` numbers the phase that is not complete yet.  A phase completes when ``pending``
    arrivals have become 0 and ``transactions``, expected bytes less delivered ones, are 0.
    ``waits`` has for each thread the clock at which it last saw the newest complete phase.
    """

    def __init__(
        self, name: str, number: int, component: int, address: int, clocks: Clocks, report: Report
    ):
        self.name = name
        self.number = number
        self.component = component
        self.address = address
        self.clocks = clocks
        self.report = report
        self.ready = False
        self.count = 0
        self.pending = 0
        self.transactions = 0
        self.phase = 0
        self.made: tuple[int, int] = (0, 0)
        self.published: list[tuple[int, int]] = []
        self.announced: dict[int, tuple[int, Operation]] = {}
        self.op: Operation | None = None
        width = clocks.components.count
        self.gathered: Array = np.zeros(width, np.int32)
        self.gathered_proxied: Array = np.zeros(width, np.int32)
        self.released: Array = np.zeros(width, np.int32)
        self.released_proxied: Array = np.zeros(width, np.int32)
        self.waits: Array = np.zeros(clocks.components.threads, np.int32)

    def find(self, kind: str, text: str, op: Operation, threads: list[int]) -> None:
        self.report.add(kind, f"{self.name}: {text}", op, self.op, threads, "shared", self.address)

    def initialise(self, op: Operation, thread: int, count: int) -> None:
        if self.ready:
            self.find(
                "MBarrierInit",
                f"thread {thread} makes it ready for {count} arrivals, and it was ready before; "
                "one thread does it once",
                op,
                [thread],
            )
        self.ready = True
        self.op = op
        self.count = self.pending = count
        self.transactions = 0
        self.phase = 0
        clock = int(self.clocks.now[thread, thread])
        self.made, self.published = (thread, clock), []

    def publish(self, thread: int) -> None:
        """``thread`` fences mbarrier initialisations; it counts if it knows of this one.

        Who knows of a fence knows of those before it, so only the first of them are kept.
        """
        maker, clock = self.made
        now = self.clocks.now[thread]
        if self.ready and now[maker] >= clock and not self._is_published(now):
            self.published.append((thread, int(now[thread])))

    def _is_published(self, now: Array) -> bool:
        """Whether who knows ``now`` knows of a fence of the initialisation."""
        return any(now[thread] >= clock for thread, clock in self.published)

    def usable(self, op: Operation, threads: list[int], asynchronous: bool = False) -> bool:
        """Whether ``threads`` may use the barrier; what is wrong is reported."""
        if not self.ready:
            self.find("MBarrierInit", "it is used before it was made ready", op, threads)
            return False
        now = self.clocks.now
        maker, clock = self.made
        late = [t for t in threads if now[t, maker] < clock]
        if late:
            self.find(
                "MBarrierInit",
                f"nothing orders its use by {threads_text(late)} after thread {maker} made it "
                "ready; put a barrier between",
                op,
                late,
            )
        elif asynchronous:
            proxied = self.clocks.proxied
            if any(proxied[t, maker] < clock and not self._is_published(now[t]) for t in threads):
                self.find(
                    "MBarrierInit",
                    "a TMA copy signals it, and no fence made its initialisation visible to the "
                    "async proxy",
                    op,
                    threads,
                )
        return True

    def check_phase(self, op: Operation, thread: int, what: str) -> None:
        """What ``thread`` adds to this phase must not be able to come before the last one ended."""
        known = int(self.clocks.now[thread, self.component])
        if known < self.phase:
            self.find(
                "MBarrierPhase",
                f"{what} of thread {thread} counts for phase {self.phase}, and the thread has not "
                f"learnt that phase {self.phase - 1} ended: on another run it counts for that one",
                op,
                [thread],
            )

    def arrive(self, op: Operation, thread: int, expected: int = 0) -> None:
        """One arrival of ``thread``, which expects ``expected`` bytes more."""
        self.check_phase(op, thread, "the arrival")
        self.transactions += expected
        if self.pending == 0:
            self.find(
                "MBarrierCount",
                f"thread {thread} is arrival number {self.count + 1} of phase {self.phase}, which "
                f"counts {self.count}",
                op,
                [thread],
            )
        else:
            self.pending -= 1
        clocks = self.clocks
        np.maximum(self.gathered, clocks.now[thread], out=self.gathered)
        np.maximum(self.gathered_proxied, clocks.proxied[thread], out=self.gathered_proxied)
        clocks.tick(np.array([thread]))
        self._complete(op)

    def announce(self, op: Operation, thread: int, expected: int) -> None:
        """``thread`` expects ``expected`` bytes more, and does not arrive."""
        self.check_phase(op, thread, "the announcement")
        self.transactions += expected
        self.announced[thread] = int(self.clocks.now[thread, thread]), op

    def deliver(
        self, op: Operation, thread: int, size: int, phase: int, phases: Array | None = None
    ) -> None:
        """``size`` bytes have come of a copy that ``thread`` issued in ``phase``.

        Who sees them come knows that the mbarrier ``phases`` that the sender waited for are
        over, and nothing of what it wrote.
        """
        if not self.ready:
            return
        if phases is not None:
            first = self.clocks.components.first_barrier
            known = self.gathered[first : first + phases.size]
            np.maximum(known, phases, out=known)
        if phase != self.phase:
            self.find(
                "MBarrierBytes",
                f"a copy of phase {phase} delivers {size} bytes in phase {self.phase}: phase "
                f"{phase} expected fewer bytes than its copies bring",
                op,
                [thread],
            )
        self.transactions -= size
        if self.transactions < 0 and self.pending == 0:
            self.find(
                "MBarrierBytes",
                f"phase {self.phase} gets {-self.transactions} bytes more than it expects",
                op,
                [thread],
            )
            self.transactions = 0
        self._complete(op)

    def _complete(self, op: Operation) -> None:
        if self.pending or self.transactions:
            return
        threads = self.clocks.components.threads
        lost = np.nonzero(self.waits > self.gathered[:threads])[0]
        if lost.size:
            self.find(
                "MBarrierPhase",
                f"phase {self.phase} ends, and nothing orders that after "
                f"{threads_text(lost.tolist())} saw the end of phase {self.phase - 1}: a wait by "
                "parity can miss it",
                op,
                lost.tolist(),
            )
        for thread, (clock, announcement) in self.announced.items():
            if self.gathered[thread] < clock:
                self.report.add(
                    "MBarrierPhase",
                    f"{self.name}: phase {self.phase} ends, and none of its arrivals is ordered "
                    f"after thread {thread} announced bytes for it: on another run it ends before, "
                    "and they count for the next one",
                    announcement,
                    op,
                    [thread],
                    "shared",
                    self.address,
                )
        self.announced.clear()
        self.phase += 1
        self.gathered[self.component] = self.phase
        self.released, self.released_proxied = self.gathered, self.gathered_proxied
        self.gathered = np.zeros_like(self.released)
        self.gathered_proxied = np.zeros_like(self.released)
        self.waits[:] = 0
        self.pending = self.count

    def passes(self, parity: int) -> bool:
        """Whether a wait for ``parity`` goes on: the hardware knows no more than the parity."""
        return not self.ready or self.phase & 1 != parity

    def check_wait(self, op: Operation, threads: Array, parity: int) -> None:
        """Report threads whose wait by parity meets a later phase than the one that they mean."""
        known = self.clocks.now[threads, self.component]
        meant = known - 1 + ((known - 1 - parity) & 1)
        lost = threads[self.phase > meant + 1]
        if lost.size:
            self.find(
                "MBarrierPhase",
                f"{threads_text(lost.tolist())} waits with parity {parity} for phase "
                f"{int(meant.min())}, and phase {self.phase - 1} has ended already: the parity "
                "stands for another phase by now",
                op,
                lost.tolist(),
            )

    def observe(self, threads: Array) -> None:
        """``threads`` have waited: they learn what the newest complete phase released."""
        clocks = self.clocks
        clocks.learn(threads, self.released, self.released_proxied)
        self.waits[threads] = clocks.clock(threads)

    @property
    def made_by(self) -> Operation:
        """The op that made it ready."""
        assert self.op is not None
        return self.op

    def state(self) -> str:
        """What the current phase still needs."""
        text = f"{self.name} is in phase {self.phase}"
        needs: list[str] = []
        if self.pending:
            needs.append(f"{self.pending} of {self.count} arrivals")
        if self.transactions:
            needs.append(f"{self.transactions} bytes")
        return f"{text}, which needs {' and '.join(needs)}" if needs else text


@dataclass(frozen=True)
class Arrival:
    """A warp's ``threads`` came to a barrier at ``clocks``; ``waits`` says whether they stayed."""

    threads: Array
    clocks: Array
    op: Operation
    waits: bool


class NamedBarrier:
    """Hardware barrier ``number``, which warps use again and again: a *generation* each time.

    The hardware counts arrivals and does not know whose they are.  A generation is the same in
    every interleaving where each arrival happens after all of the generation before: then nobody
    else can be counted in one, and no one in another.  Those who waited in a generation know of
    its arrivals; others must have learnt of them by other means.

    Number 0 is the CTA's own, -1 the cluster's.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.expected = 0
        self.generation = 0
        self.here: list[Arrival] = []
        """The arrivals of this generation."""
        self.before: list[Arrival] = []
        """Those of the last complete one."""
        self.waited: set[int] = set()
        """The first threads of the warps that waited in that."""
        self.now: Array | None = None
        """What those know that have arrived and gone on."""
        self.proxied: Array | None = None
        self.asks = False
        """Whether those of this generation ask for a condition."""
        self.any = False
        """Whether one of them has it."""
        self.answers: list[bool] = []
        """Whether one had it, of every complete generation."""

    @property
    def count(self) -> int:
        """Threads that have come in this generation."""
        return sum(a.threads.size for a in self.here)

    def unordered(self, clocks: Clocks, threads: Array) -> list[Arrival]:
        """Arrivals of the last generation that nothing orders before one of the warp ``threads``.

        In another interleaving the warp takes the place of one of these.
        """
        if not self.before or int(threads[0]) in self.waited:
            return []
        known = clocks.now[threads].max(axis=0)
        return [a for a in self.before if every(known[a.threads] < a.clocks)]

    def arrive(self, clocks: Clocks, threads: Array, expected: int, op: Operation) -> bool:
        """A warp arrives and goes on; True when nobody is left to come."""
        now, proxied = clocks.now[threads].max(axis=0), clocks.proxied[threads].max(axis=0)
        self.now = now if self.now is None else np.maximum(self.now, now)
        self.proxied = proxied if self.proxied is None else np.maximum(self.proxied, proxied)
        self.here.append(Arrival(threads, clocks.clock(threads), op, False))
        self.expected = expected
        clocks.tick(threads)
        return self._completed(clocks)

    def _completed(self, clocks: Clocks) -> bool:
        if self.count < self.expected:
            return False
        waiting = [a.threads for a in self.here if a.waits]
        if waiting:
            arrived = np.concatenate(waiting)
            if self.now is not None and self.proxied is not None:
                clocks.learn(arrived, self.now, self.proxied)
            clocks.meet(arrived)
        self.before, self.here = self.here, []
        self.waited = {int(threads[0]) for threads in waiting}
        self.now, self.proxied = None, None
        self.answers.append(self.any)
        self.any = False
        self.generation += 1
        return True

    def come(self, clocks: Clocks, threads: Array, expected: int, op: Operation) -> bool:
        """A warp arrives and waits; True when it is the last one, and then all have met."""
        self.expected = expected
        self.here.append(Arrival(threads, clocks.clock(threads), op, True))
        return self._completed(clocks)

    @property
    def name(self) -> str:
        if self.number < 0:
            return "the barrier of the cluster"
        return "the barrier of the CTA" if self.number == 0 else f"barrier {self.number}"

    def state(self) -> str:
        return f"{self.name} has {self.count} of {self.expected} threads"
