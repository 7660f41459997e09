"""A warp's lanes, masks, control and registers."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np
from xdsl.ir import Operation

from polyc.playback.gpu.copies import CpAsync, TmaStore
from polyc.playback.gpu.cta import Cta
from polyc.playback.gpu.lanes import LANES, NOBODY, Array, Mask, Value, is_lanes
from polyc.playback.gpu.storage import Registers


class WarpBase:
    """Lanes and registers of a warp: what every op with an effect builds on."""

    def __init__(self, cta: Cta, index: int) -> None:
        self.cta = cta
        self.index = index
        self.number = cta.rank * cta.kernel.warps + index
        """The warp's number in the cluster; ``index`` is that in the CTA."""
        self.group = index // 4
        self.clocks = cta.clocks
        self.shadow = cta.shadow
        self.counters = cta.counters
        self.report = cta.report
        self.ops = cta.kernel.ops
        self.threads = np.arange(32 * self.number, 32 * self.number + 32)
        """The threads' numbers in the cluster, which their clocks go by."""
        self.thread_id = np.arange(32 * index, 32 * index + 32, dtype=np.int32)
        self.block_id = cta.block
        self.dirty = True
        """Whether a lane did something since the lanes last met."""
        self.moment: int = 0
        self.copies: int = 0
        self.products: int = 0
        # cp.async: groups committed by each lane, and what has not arrived.
        self.committed: Array = np.zeros(32, np.int64)
        self.pending: list[CpAsync] = []
        self.copied: Array = np.zeros(32, np.int64)
        self.last_copy: int | None = None
        # TMA stores: groups committed by each lane, the newest group used, what is on its way.
        self.bulk_committed: Array = np.zeros(32, np.int64)
        self.bulk_used: Array = np.zeros(32, np.int64)
        self.bulk: list[tuple[int, TmaStore]] = []
        self.last_store: int | None = None
        # wgmma: calls issued, groups closed, groups known complete, the open group's calls.
        self.issued: int = 0
        self.closed: int = 0
        self.settled: int = 0
        self.open: int = 0
        self.fenced = -1
        self.seen: int = 0
        self.accumulators: list[Registers] = []

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

    def _trace(
        self,
        number: int,
        threads: Array,
        places: Array,
        reads: Array | None = None,
        writes: Array | None = None,
    ) -> None:
        """Add an access to the fingerprint: who accesses what, and what happened before.

        ``reads`` and ``writes`` are the granules of shared memory that it touches.
        """
        trace, clocks = self.cta.trace, self.clocks
        if trace is None:
            return
        name = f"{self.cta.block} {self.op(number).name}"
        parts = (threads, places, clocks.now[threads], clocks.proxied[threads])
        if writes is not None:
            self.shadow.held[writes] = trace.hold(name, *parts)
            return
        trace.add(name, *parts)
        if reads is not None:
            trace.use(self.shadow.held[reads])

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
            if not running.any():
                return
            yield at, None if running.all() else running
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

    # Who and where

    def uniform(self, number: int, value: Value, m: Mask) -> Value:
        if not is_lanes(value):
            return value
        if not self.collective(number, m):
            lanes = self.active(m)
            return int(value[lanes[0]])
        first = int(value[0])
        if (value != first).any():
            self.find(
                number,
                "NotUniform",
                f"a value stated to be uniform is {first} in lane 0 of warp {self.index} and "
                f"{int(value[value != first][0])} in lane {int(np.nonzero(value != first)[0][0])}",
            )
        return first

    def elect(self, number: int, m: Mask) -> Array:
        self.collective(number, m)
        chosen = np.zeros(32, np.bool_)
        chosen[self.active(m)[0]] = True
        return chosen

    def shuffle(self, number: int, kind: str, value: Value, lane: Value, m: Mask) -> Value:
        """The value of the lane that each lane names; every lane must take part."""
        self.collective(number, m)
        if not is_lanes(value):
            return value
        here = np.arange(32)
        there = {
            "xor": here ^ lane,
            "up": here - lane,
            "down": here + lane,
            "index": here * 0 + lane % 32,
        }[kind]
        return value[np.where((there >= 0) & (there < 32), there, here)]

    # Registers

    def alloca(
        self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any], tracked: bool
    ) -> Registers:
        found = Registers(name, shape, dtype, tracked)
        if tracked:
            self.accumulators.append(found)
        return found

    def _inside(self, number: int, registers: Registers, at: tuple[Value, ...], m: Mask) -> bool:
        """Whether the active lanes' indices are inside the array."""
        for index, extent in zip(at, registers.data.shape, strict=False):
            if is_lanes(index):
                values = index if m is None else index[m]
                if not values.size or (values.min() >= 0 and values.max() < extent):
                    continue
            else:
                if 0 <= index < extent:
                    continue
                values = np.array([index])
            if ((values < 0) | (values >= extent)).any():
                lanes = self.active(m)
                bad = int(values[(values < 0) | (values >= extent)][0])
                self.find(
                    number,
                    "OutOfBounds",
                    f"register {bad} of {registers.name}, which has {extent}",
                    threads=self.threads[lanes],
                    space="register",
                    address=bad,
                )
                return False
        return True

    def load_register(
        self, number: int, registers: Registers, at: tuple[Value, ...], m: Mask
    ) -> Array:
        if not self._inside(number, registers, at, m):
            return np.zeros(32, registers.data.dtype)
        if registers.tracked:
            self._touch(number, registers, False)
        varying = False
        for i in at:
            varying = varying or isinstance(i, np.ndarray)
        where = (*at, LANES) if varying else at
        if not registers.full:
            self._written(number, registers, registers.initialised[where], m)
        if varying and m is not None:
            where = (*(np.where(m, i, 0) for i in at), LANES)
        return registers.data[where].copy()

    def _written(self, number: int, registers: Registers, initialised: Array, m: Mask) -> None:
        ready = initialised if m is None else initialised | ~m
        if ready.all():
            if m is None and registers.initialised.all():
                registers.full = True
            return
        lanes = np.nonzero(~ready.reshape(-1, 32).all(axis=0))[0]
        self.find(
            number,
            "Uninitialised",
            f"registers of {registers.name} are read before they are set",
            threads=self.threads[lanes],
            space="register",
        )

    def store_register(
        self, number: int, value: Value, registers: Registers, at: tuple[Value, ...], m: Mask
    ) -> None:
        if not self._inside(number, registers, at, m):
            return
        if registers.tracked:
            self._touch(number, registers, True)
        varying = m is not None
        for i in at:
            varying = varying or isinstance(i, np.ndarray)
        if not varying:
            registers.data[at] = value
            if not registers.full:
                registers.initialised[at] = True
            return
        lanes = self.active(m)
        where = (*(i[lanes] if is_lanes(i) else i for i in at), lanes)
        registers.data[where] = value[lanes] if is_lanes(value) else value
        registers.initialised[where] = True

    def _touch(self, number: int, registers: Registers, writes: bool) -> None:
        """Code reads or writes registers that wgmma accumulates in."""
        if registers.group > self.settled:
            self.find(
                number,
                "AccumulatorRace",
                f"{registers.name} is {'written' if writes else 'read'} while the wgmma of group "
                f"{registers.group} may still add to it; {self.settled} groups were waited for",
                space="register",
            )
        elif writes and registers.reader > self.settled:
            self.find(
                number,
                "AccumulatorRace",
                f"{registers.name} is written while the wgmma of group {registers.reader} may "
                f"still read it; {self.settled} groups were waited for",
                space="register",
            )
        elif registers.group and registers.fenced <= registers.issued:
            self.find(
                number,
                "RegisterFence",
                f"nothing keeps the compiler from moving this access of {registers.name} before "
                "the wait for its wgmma; put gpu.register_fence after the wait",
                space="register",
            )
        registers.touched = self.moment
        if writes:
            registers.written = self.moment

    def _range(
        self, number: int, registers: Registers, offset: Value, count: int, m: Mask
    ) -> int | None:
        """The first of ``count`` registers that an instruction names; None outside the array."""
        first = self._scalar(number, offset, m)
        size = registers.data.shape[0]
        if first >= 0 and first + count <= size:
            return first
        self.find(
            number,
            "OutOfBounds",
            f"registers {first} to {first + count - 1} of {registers.name}, which has {size}",
            space="register",
            address=first,
        )
        return None

    def _scalar(self, number: int, value: Value, m: Mask) -> int:
        """A number that an instruction takes once for the warp."""
        if not is_lanes(value):
            return int(value)
        lanes = self.active(m)
        first = int(value[lanes[0]])
        if (value[lanes] != first).any():
            self.find(
                number,
                "NotUniform",
                f"{self.op(number).name} takes one number for the warp, and lanes give several",
                threads=self.threads[lanes],
            )
        return first
