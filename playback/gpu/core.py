"""A warp's core: its lanes and masks, its place among the CTAs, and what it reports."""

from __future__ import annotations

from collections.abc import Generator

import numpy as np
from xdsl.ir import Operation

from polyc.playback.gpu.cta import Cta
from polyc.playback.gpu.lanes import LANES, NOBODY, Array, Mask, Value, every, is_lanes, some


class WarpCore:
    """What every part of a warp builds on; the parts are in the files of their ops' groups."""

    def __init__(self, cta: Cta, index: int) -> None:
        self.cta = cta
        self.index = index
        self.number = cta.rank * cta.kernel.warps + index
        """The warp's number in the cluster; ``index`` is that in the CTA."""
        self.group = index // 4
        self.clocks = cta.clocks
        self.counters = cta.counters
        self.report = cta.report
        self.ops = cta.kernel.ops
        self.threads = np.arange(32 * self.number, 32 * self.number + 32)
        """The threads' numbers in the cluster, which their clocks go by."""
        self.dirty = True
        """Whether a lane did something since the lanes last met."""
        self.copies: int = 0
        """Asynchronous copies issued; with ``products`` the scheduler tells who is a producer."""
        self.products: int = 0

    def op(self, number: int) -> Operation:
        return self.ops[number]

    def find(
        self,
        number: int,
        kind: str,
        message: str,
        threads: Array | None = None,
        space: str = "",
        address: int | None = None,
        other: Operation | None = None,
        times: int = 1,
    ) -> None:
        """Report a finding at op ``number``, of all threads of the warp where none are named."""
        involved = self.threads if threads is None else threads
        self.report.add(
            kind, message, self.op(number), other, involved.tolist(), space, address, times
        )

    # Lanes

    def active(self, m: Mask, predicate: Value = None) -> Array:
        """The lanes that are active and whose predicate holds."""
        if predicate is None or predicate is True:
            return LANES if m is None else np.nonzero(m)[0]
        if predicate is False:
            return NOBODY
        if is_lanes(predicate):
            chosen: Array = predicate if m is None else predicate & m
            return np.nonzero(chosen)[0]
        return self.active(m, bool(predicate))

    def collective(self, number: int, m: Mask) -> bool:
        """An instruction of the whole warp: its lanes meet.  False where some are missing."""
        if m is not None:
            lanes = np.nonzero(m)[0]
            self.find(
                number,
                "BarrierDivergence",
                f"{self.op(number).name} is for the whole warp, and {lanes.size} lanes of warp "
                f"{self.index} execute it",
                threads=self.threads[lanes],
            )
            return False
        if self.dirty:
            self.clocks.meet(self.threads)
            self.dirty = False
        return True

    def loop(
        self, m: Mask, low: Value, high: Value, step: Value
    ) -> Generator[tuple[Value, Mask], None, None]:
        """The iterations of an ``scf.for``: the induction value and who takes part."""
        if not any(is_lanes(v) for v in (low, high, step)):
            for i in range(low, high, step):
                yield i, m
            return
        at = np.zeros(32, np.int32) + low
        while True:
            running = at < high
            if m is not None:
                running = running & m
            if not some(running):
                return
            yield at, None if every(running) else running
            at = at + step

    def divided_by_zero(self, number: int, zero: Value, m: Mask) -> None:
        lanes = self.active(m, zero if is_lanes(zero) else True)
        if lanes.size:
            self.find(
                number,
                "DivisionByZero",
                "an integer is divided by zero",
                threads=self.threads[lanes],
            )

    def count(self, ops: int, m: Mask) -> None:
        self.counters.thread_ops += ops * (32 if m is None else int(np.count_nonzero(m)))

    def scalar(self, number: int, value: Value, m: Mask) -> int:
        """A number that an instruction takes once for the warp."""
        if not is_lanes(value):
            return int(value)
        lanes = self.active(m)
        first = int(value[lanes[0]])
        if some(value[lanes] != first):
            self.find(
                number,
                "NotUniform",
                f"{self.op(number).name} takes one number for the warp, and lanes give several",
                threads=self.threads[lanes],
            )
        return first
