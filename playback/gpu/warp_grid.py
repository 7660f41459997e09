"""A warp and its grid: counters in global memory that CTAs signal and wait for.

PTX ISA, memory consistency model: an addition that releases and a read of it that acquires order
what came before the one in front of what comes after the other.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from polyc.playback.gpu.barriers import Signals
from polyc.playback.gpu.clocks import NEVER, UPDATED
from polyc.playback.gpu.kernel import Steps, Wait
from polyc.playback.gpu.lanes import Array, Mask, Value
from polyc.playback.gpu.memory import GlobalTensor
from polyc.playback.gpu.warp_cluster import ClusterWarp


class GridWarp(ClusterWarp):
    """What reaches CTAs of the grid that run at once."""

    def _counters(
        self, number: int, tensor: GlobalTensor, indices: Sequence[Value], m: Mask
    ) -> tuple[Array, Array]:
        """Lanes that name a counter, and its element; one that nothing has set is reported."""
        lanes, offsets = self._elements(number, tensor, indices, self.active(m), 1)
        tensor.track()
        shadow = tensor.shadow
        assert shadow is not None
        unset = shadow.cluster[offsets] == NEVER
        if tensor.is_undefined and unset.any():
            self.find(
                number,
                "Uninitialised",
                f"the counter {tensor.element_text(int(offsets[unset][0]))} is used where nothing "
                "has set it; make the workspace zeroed",
                self.threads[lanes],
                "global",
            )
            shadow.cluster[offsets] = UPDATED
        return lanes, offsets

    def _signals(self, tensor: GlobalTensor, offset: int) -> Signals:
        known = self.cta.cluster.signals
        return known.setdefault((tensor.name, offset), Signals(self.clocks))

    def signal_global(
        self, number: int, tensor: GlobalTensor, indices: Sequence[Value], m: Mask
    ) -> None:
        """One addition a lane; what the lane knows is released with it."""
        lanes, offsets = self._counters(number, tensor, indices, m)
        if not lanes.size:
            return
        threads = self.threads[lanes]
        self._trace(number, threads, offsets)
        now, clocks = self.clocks.now[threads], self.clocks.clock(threads)
        assert tensor.shadow is not None
        found = tensor.shadow.update(
            self.cta.cluster.number, now, threads, clocks, offsets[:, None], number
        )
        if found is not None:
            self._global_conflict(number, tensor, found, lanes, True)
        np.add.at(tensor.data, offsets, 1)
        for thread, offset in zip(threads, offsets.tolist(), strict=True):
            self._signals(tensor, offset).add(np.array([thread]))
        self.counters.barriers += 1
        self.dirty = True

    def wait_global(
        self, number: int, tensor: GlobalTensor, indices: Sequence[Value], count: Value, m: Mask
    ) -> Steps:
        """Each lane waits for its counter, and learns what its signals released."""
        lanes, offsets = self._counters(number, tensor, indices, m)
        wanted = (np.zeros(32, np.int64) + count)[lanes]

        def late() -> Array:
            return np.nonzero(tensor.data[offsets] < wanted)[0]

        def text() -> str:
            at = late()[0]
            name = tensor.element_text(int(offsets[at]))
            return f"{name} is {int(tensor.data[offsets[at]])}, and {int(wanted[at])} are awaited"

        if late().size:
            yield Wait(self.op(number), lambda: not late().size, text)
        for lane, offset in zip(lanes.tolist(), offsets.tolist(), strict=True):
            thread = self.threads[lane : lane + 1]
            self._trace(number, thread, np.array([offset]))
            self._signals(tensor, offset).observe(thread)
        self.counters.barriers += 1
        self.dirty = True
        yield None
