"""Who goes on next: a seeded scheduler with policies (issue: different interleavings).

A warp runs to its next switch point, which is every synchronising op and the end of an
iteration of a loop that is not unrolled.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from polyc.playback.gpu.clocks import of_cta
from polyc.playback.gpu.core import WarpCore
from polyc.playback.gpu.cta import Cluster
from polyc.playback.gpu.kernel import Steps, Wait

SCHEDULES = ("round-robin", "random", "producer-first", "consumer-first", "one-warp-ahead")
"""The policies.

``producer-first`` prefers warps that issue copies and no products, ``consumer-first`` those
that issue products; ``one-warp-ahead`` lets one warp, chosen by the seed, run as far as it
can before any other.
"""


class Running:
    """A warp with its coroutine."""

    def __init__(self, warp: WarpCore, steps: Steps) -> None:
        self.warp = warp
        self.steps = steps
        self.wait: Wait | None = None
        self.since = 0
        self.over = False

    @property
    def can_run(self) -> bool:
        return not self.over and (self.wait is None or self.wait.ready())


def _production(warp: WarpCore) -> int:
    """How much a warp is a producer: 1, or -1 for a consumer, 0 where it is not known."""
    if warp.products:
        return -1
    return 1 if warp.copies else 0


def _name(warp: WarpCore) -> str:
    kernel = warp.cta.kernel
    return f"{warp.index}{of_cta(warp.cta.rank, kernel.cluster, kernel.gang)}"


class Scheduler:
    """Runs the warps of one cluster."""

    def __init__(self, policy: str, seed: int, dice: random.Random) -> None:
        self.policy = policy
        self.dice = dice
        self.ahead = seed
        self.last = -1

    def choose(self, ready: Sequence[Running], count: int) -> Running:
        match self.policy:
            case "random":
                return self.dice.choice(ready)
            case "one-warp-ahead":
                favourite = self.ahead % count
                return min(ready, key=lambda r: (r.warp.number != favourite, self._turn(r, count)))
            case "producer-first":
                return min(ready, key=lambda r: (-_production(r.warp), self._turn(r, count)))
            case "consumer-first":
                return min(ready, key=lambda r: (_production(r.warp), self._turn(r, count)))
            case _:
                return min(ready, key=lambda r: self._turn(r, count))

    def _turn(self, running: Running, count: int) -> int:
        """Distance from the warp that ran last, going round."""
        return (running.warp.number - self.last - 1) % count

    def run(self, cluster: Cluster, warps: Sequence[Running]) -> None:
        """Run all warps to their end, or until none can go on."""
        count = len(warps)
        while True:
            cluster.complete_some()
            ready = [r for r in warps if r.can_run]
            if not ready:
                if all(r.over for r in warps):
                    return
                if cluster.complete_one():
                    continue
                deadlock(warps)
                return
            chosen = self.choose(ready, count)
            self.last = chosen.warp.number
            cluster.counters.switches += 1
            self.step(chosen)

    def step(self, chosen: Running) -> None:
        """Run a warp to its next switch point."""
        timeline, wait = chosen.warp.cta.timeline, chosen.wait
        if timeline is not None:
            timeline.now += 1
            if wait is not None:
                timeline.add(f"warp {chosen.warp.index}", chosen.since, f"wait {wait.op.name}")
            chosen.since = timeline.now
        try:
            chosen.wait = next(chosen.steps)
        except StopIteration:
            chosen.over = True


def deadlock(warps: Sequence[Running]) -> None:
    """Report who waits for what; no warp can go on and nothing is on its way."""
    standing = [r for r in warps if not r.over and r.wait is not None]
    reasons: dict[tuple[int, str], list[Running]] = {}
    for running in standing:
        assert running.wait is not None
        reasons.setdefault((id(running.wait.op), running.wait.text()), []).append(running)
    groups: list[str] = []
    for (_, text), members in reasons.items():
        wait = members[0].wait
        assert wait is not None
        who = ", ".join(_name(r.warp) for r in members)
        plural = "s" if len(members) > 1 else ""
        verb = "wait" if len(members) > 1 else "waits"
        groups.append(f"warp{plural} {who} {verb} at {wait.op.name} ({text})")
    over = [_name(r.warp) for r in warps if r.over]
    if over:
        groups.append(f"warp{'s' if len(over) > 1 else ''} {', '.join(over)} ended")
    first = standing[0].wait
    assert first is not None
    other = next((r.wait.op for r in standing if r.wait and r.wait.op is not first.op), None)
    missing = all(r.wait is not None and r.wait.barrier for r in standing)
    standing[0].warp.report.add(
        "BarrierMissing" if missing else "Deadlock",
        "no warp can go on: " + "; ".join(groups),
        first.op,
        other,
        [int(t) for r in standing for t in r.warp.threads],
    )
