"""``setmaxnreg``: the registers that a CTA's warpgroups give each other (PTX ISA 9.7.19)."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Operation

from polyc.playback.gpu.clocks import Clocks
from polyc.playback.gpu.findings import Report
from polyc.playback.gpu.lanes import Array

STATES = 1 << 14
"""Orders of changes that are looked through; kernels have a handful."""


@dataclass(frozen=True)
class Change:
    """A warp's ``setmaxnreg`` to ``count``: ``thread`` did it at ``clock``, knowing ``now``.

    ``need`` are the registers that its warpgroup takes, or gives where it is negative.
    """

    group: int
    count: int
    need: int
    thread: int
    clock: int
    now: Array
    op: Operation

    def follows(self, other: Change) -> bool:
        """Whether it happens after ``other``."""
        return bool(self.now[other.thread] >= other.clock)


class RegisterPool:
    """The registers that no warpgroup of a CTA holds, and who holds how many."""

    def __init__(self, groups: int, registers: int, clocks: Clocks, report: Report) -> None:
        self.free = 0
        self.registers = registers
        self.held = [registers] * groups
        self.clocks = clocks
        self.report = report
        self.steps: list[list[dict[int, Change]]] = [[] for _ in range(groups)]
        """Of each warpgroup its changes, each by the warps that have come to it."""

    def come(self, group: int, part: int, count: int, thread: int, op: Operation) -> Change:
        """Warp ``part`` of a warpgroup comes to its next ``setmaxnreg``; the others come too."""
        steps = self.steps[group]
        number = next((i for i, step in enumerate(steps) if part not in step), len(steps))
        if number == len(steps):
            steps.append({})
        held = self.registers if number == 0 else steps[number - 1][part].count
        now = self.clocks.now[thread].copy()
        need = (count - held) * 128
        change = Change(group, count, need, thread, int(now[thread]), now, op)
        first = next(iter(steps[number].values()), change)
        steps[number][part] = change
        if first.count != count or first.op is not op:
            self._find(
                f"warp {4 * group + part} sets {count} registers a thread where another warp of "
                f"warpgroup {group} sets {first.count}: all four do it together",
                change,
                first,
            )
        before = steps[number - 1] if number else {}
        for other in range(4) if number else ():
            earlier = before.get(other)
            if earlier is None or not change.follows(earlier):
                self._find(
                    f"warp {4 * group + part} sets registers again, and nothing orders that after "
                    f"warp {4 * group + other} set them before; let the warpgroup meet between",
                    change,
                    earlier,
                )
                break
        return change

    def take(self, change: Change) -> None:
        """The change is done."""
        self.free -= change.need
        self.held[change.group] = change.count

    def _find(self, text: str, change: Change, other: Change | None) -> None:
        threads = [change.thread] + ([] if other is None else [other.thread])
        self.report.add("Registers", text, change.op, other.op if other else None, threads)

    def finish(self) -> None:
        """The CTA ends: each warp has done what its warpgroup did, and no order blocks."""
        for group, steps in enumerate(self.steps):
            for step in steps:
                if len(step) < 4:
                    self._find(
                        f"{len(step)} of the 4 warps of warpgroup {group} set its registers: all "
                        "four do it together",
                        next(iter(step.values())),
                        None,
                    )
        changes = [[s[0] for s in steps if 0 in s] for steps in self.steps]
        if (blocked := self._blocked(changes)) is not None:
            self._find(
                f"warpgroup {blocked.group} sets {blocked.count} registers a thread: on another "
                "run others take first what it needs, and it waits for ever",
                blocked,
                None,
            )

    def _blocked(self, changes: list[list[Change]]) -> Change | None:
        """A change that waits for ever in some order that what happens before it allows."""
        start = tuple(0 for _ in changes)
        seen, todo = {start}, [start]
        while todo and len(seen) < STATES:
            at = todo.pop()
            done = [c for steps, i in zip(changes, at, strict=True) for c in steps[:i]]
            left = [c for steps, i in zip(changes, at, strict=True) for c in steps[i:]]
            free = -sum(c.need for c in done)
            ready = [
                steps[i]
                for steps, i in zip(changes, at, strict=True)
                if i < len(steps)
                and not any(steps[i].follows(c) for c in left if c is not steps[i])
            ]
            runs = [c for c in ready if c.need <= free]
            if ready and not runs:
                return ready[0]
            for change in runs:
                reached = tuple(i + (g == change.group) for g, i in enumerate(at))
                if reached not in seen:
                    seen.add(reached)
                    todo.append(reached)
        return None
