"""The simulator: counters in global memory that CTAs signal and wait for, and posts.

PTX ISA, memory consistency model: an addition that releases and a read of it that acquires order
what came before the one in front of what comes after the other.  A post and its wait are relaxed:
they order nothing, and a word of 64 bits is read and written whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from polyc.dialects.gpu import hardware as hw
from polyc.playback.gpu.accesses import GlobalSpace
from polyc.playback.gpu.arithmetic import dtype_of
from polyc.playback.gpu.clocks import NEVER, UPDATED
from polyc.playback.gpu.core import WarpCore
from polyc.playback.gpu.kernel import Steps, Wait
from polyc.playback.gpu.lanes import Array, Mask, Value, some
from polyc.playback.gpu.registers import RegisterFile
from polyc.playback.gpu.signals import Mistaken, Signals
from polyc.playback.gpu.storage import GlobalTensor, Registers
from polyc.playback.gpu.translator import Translator, simulates

POSTED = 1 << 32
"""The mark of a word whose number is there."""


class GridSignals:
    """What reaches CTAs of the grid that run at once."""

    def __init__(self, core: WarpCore, tensors: GlobalSpace, registers: RegisterFile) -> None:
        self.core = core
        self.registers = registers
        self.tensors = tensors

    def _counters(
        self, number: int, tensor: GlobalTensor, indices: Sequence[Value], m: Mask
    ) -> tuple[Array, Array]:
        """Lanes that name a counter, and its element; one that nothing has set is reported."""
        lanes, offsets = self.tensors.elements(number, tensor, indices, self.core.active(m), 1)
        tensor.track()
        shadow = tensor.shadow
        assert shadow is not None
        unset = shadow.cluster[offsets] == NEVER
        if tensor.is_undefined and some(unset):
            self.core.find(
                number,
                "Uninitialised",
                f"the counter {tensor.element_text(int(offsets[unset][0]))} is used where nothing "
                "has set it; make the workspace zeroed",
                self.core.threads[lanes],
                "global",
            )
            shadow.cluster[offsets] = UPDATED
        return lanes, offsets

    def _signals(self, number: int, tensor: GlobalTensor, offset: int) -> Signals:
        """The signals of a counter; from when it is one, atomics may not update it."""
        known = self.core.cta.cluster.signals.setdefault(tensor.name, {})
        found = known.get(offset)
        if found is None:
            found = Signals(self.core.clocks, int(tensor.data[offset]), self.core.op(number))
            known[offset] = found
            assert tensor.shadow is not None
            for (_, thread), (_, op) in tensor.shadow.atomics.log.get(offset, {}).items():
                if isinstance(self.core.op(op), hw.AtomicGlobalOp | hw.ExchangeGlobalOp):
                    self.tensors.also_updated(op, tensor, offset, thread, found)
        return found

    def _mistaken(self, tensor: GlobalTensor, offset: int, found: Mistaken | None) -> None:
        if found is None:
            return
        early, late = found.early.thread, found.late.thread
        self.core.report.add(
            "SignalCount",
            f"{tensor.element_text(offset)} is awaited to be {found.count}, and nothing orders "
            f"thread {late}, which signals it after that, after the signal of thread {early}: on "
            "another run the wait takes the one for the other; wait for all, or take a counter "
            "for each meeting",
            found.late.op,
            found.op,
            [late, early],
            "global",
            tensor.base + offset * tensor.itemsize,
        )

    def signal(self, number: int, tensor: GlobalTensor, indices: Sequence[Value], m: Mask) -> None:
        """One addition a lane; what the lane knows is released with it."""
        lanes, offsets = self._counters(number, tensor, indices, m)
        if not lanes.size:
            return
        threads = self.core.threads[lanes]
        self.core.cta.record(number, threads, offsets)
        known = [self._signals(number, tensor, offset) for offset in offsets.tolist()]
        now, clocks = self.core.clocks.now[threads], self.core.clocks.clock(threads)
        assert tensor.shadow is not None
        found = tensor.shadow.update(
            self.core.cta.cluster.number, now, threads, clocks, offsets[:, None], number
        )
        if found is not None:
            self.tensors.conflict(number, tensor, found, lanes, True)
        for thread, offset, signals in zip(threads.tolist(), offsets.tolist(), known, strict=True):
            self._mistaken(tensor, offset, signals.add(thread, self.core.op(number)))
            tensor.data[offset] += 1
        self.core.counters.barriers += 1
        self.core.dirty = True

    def wait(
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
            yield Wait(self.core.op(number), lambda: not late().size, text)
        threads = self.core.threads[lanes]
        assert tensor.shadow is not None
        met = tensor.shadow.poll(
            self.core.cta.cluster.number,
            self.core.clocks.now[threads],
            threads,
            self.core.clocks.clock(threads),
            offsets[:, None],
            number,
        )
        if met is not None:
            self.tensors.conflict(number, tensor, met, lanes, False)
        for lane, offset, value in zip(
            lanes.tolist(), offsets.tolist(), wanted.tolist(), strict=True
        ):
            thread = self.core.threads[lane : lane + 1]
            self.core.cta.record(number, thread, np.array([offset]))
            signals = self._signals(number, tensor, offset)
            found = signals.observe(int(thread[0]), value, self.core.op(number))
            self._mistaken(tensor, offset, found)
        self.core.counters.barriers += 1
        self.core.dirty = True
        yield None

    # Posts

    def post(
        self,
        number: int,
        value: Value,
        tensor: GlobalTensor,
        indices: Sequence[Value],
        predicate: Value,
        dtype: np.dtype[Any],
        m: Mask,
    ) -> None:
        """Each lane's number into its word; nothing is released with it."""
        lanes = self.core.active(m, predicate)
        lanes, offsets = self.words(number, tensor, indices, lanes)
        if not lanes.size:
            return
        threads = self.core.threads[lanes]
        self.core.cta.record(number, threads, offsets)
        taken = tensor.data[offsets] != 0
        if some(taken):
            offset = int(offsets[taken][0])
            self.core.find(
                number,
                "PostedTwice",
                f"{tensor.element_text(offset)} is posted, and a thread that waits for it may have "
                "either number; take a word for each",
                threads[taken],
                "global",
                tensor.base + offset * tensor.itemsize,
            )
        assert tensor.shadow is not None
        now, clocks = self.core.clocks.now[threads], self.core.clocks.clock(threads)
        found = tensor.shadow.update(
            self.core.cta.cluster.number, now, threads, clocks, offsets[:, None], number
        )
        if found is not None:
            self.tensors.conflict(number, tensor, found, lanes, True)
        numbers = np.broadcast_to(np.asarray(value, dtype), 32)[lanes]
        tensor.data[offsets] = numbers.view(np.uint32).astype(np.int64) | POSTED
        self.core.dirty = True

    def words(
        self, number: int, tensor: GlobalTensor, indices: Sequence[Value], lanes: Array
    ) -> tuple[Array, Array]:
        """Lanes that name a word, and its element; one that nothing has set is reported."""
        lanes, offsets = self.tensors.elements(number, tensor, indices, lanes, 1)
        tensor.track()
        shadow = tensor.shadow
        assert shadow is not None
        unset = shadow.cluster[offsets] == NEVER
        if tensor.is_undefined and some(unset):
            self.core.find(
                number,
                "Uninitialised",
                f"the word {tensor.element_text(int(offsets[unset][0]))} is used where nothing "
                "has set it; make the workspace zeroed",
                self.core.threads[lanes],
                "global",
            )
            shadow.cluster[offsets] = UPDATED
        return lanes, offsets

    def await_posts(
        self,
        number: int,
        tensor: GlobalTensor,
        places: Sequence[Sequence[Value]],
        predicates: Sequence[Value],
        registers: Registers,
        offset: Value,
        m: Mask,
    ) -> Steps:
        """Each lane waits for its words, and takes their numbers; it learns nothing else."""
        core = self.core
        first = core.scalar(number, offset, m)
        for k, (indices, predicate) in enumerate(zip(places, predicates, strict=True)):
            lanes = core.active(m, predicate)
            lanes, offsets = self.words(number, tensor, indices, lanes)

            def late(offsets: Array = offsets) -> Array:
                return np.nonzero(tensor.data[offsets] == 0)[0]

            def text(offsets: Array = offsets) -> str:
                at = int(offsets[np.nonzero(tensor.data[offsets] == 0)[0][0]])
                return f"{tensor.element_text(at)} is not posted"

            if lanes.size and late().size:
                yield Wait(core.op(number), lambda late=late: not late().size, text)
            found = np.zeros(32, np.uint32)
            found[lanes] = (tensor.data[offsets] & 0xFFFF_FFFF).astype(np.uint32)
            self.registers.store(
                number, found.view(registers.data.dtype), registers, (first + k,), m
            )
            if not lanes.size:
                continue
            threads = core.threads[lanes]
            assert tensor.shadow is not None
            met = tensor.shadow.poll(
                core.cta.cluster.number,
                core.clocks.now[threads],
                threads,
                core.clocks.clock(threads),
                offsets[:, None],
                number,
            )
            if met is not None:
                self.tensors.conflict(number, tensor, met, lanes, False)
            core.cta.record(number, threads, offsets)
        core.counters.barriers += 1
        core.dirty = True
        yield None


@simulates(hw.SignalGlobalOp)
def _signal_global(t: Translator, op: hw.SignalGlobalOp) -> None:
    t.stores(op.counters)
    t.line(
        f"w.grid.signal({t.number(op)}, {t.name(op.counters)}, ({t.values(op.indices)}), {t.mask})"
    )
    t.line("yield None")


@simulates(hw.WaitGlobalOp)
def _wait_global(t: Translator, op: hw.WaitGlobalOp) -> None:
    t.line(
        f"yield from w.grid.wait({t.number(op)}, {t.name(op.counters)}, "
        f"({t.values(op.indices)}), {t.name(op.count)}, {t.mask})"
    )


@simulates(hw.PostGlobalOp)
def _post_global(t: Translator, op: hw.PostGlobalOp) -> None:
    t.stores(op.words)
    dtype = t.object(dtype_of(op.value.type), "d")
    t.line(
        f"w.grid.post({t.number(op)}, {t.name(op.value)}, {t.name(op.words)}, "
        f"({t.values(op.indices)}), {t.predicate(op.predicate)}, {dtype}, {t.mask})"
    )
    t.line("yield None")


@simulates(hw.AwaitPostsGlobalOp)
def _await_posts_global(t: Translator, op: hw.AwaitPostsGlobalOp) -> None:
    t.stores(op.words)
    places = "".join(f"({t.values(place)}), " for place in op.places)
    predicates = "".join(f"{t.predicate(p)}, " for p in op.predicates)
    t.line(
        f"yield from w.grid.await_posts({t.number(op)}, {t.name(op.words)}, ({places}), "
        f"({predicates}), {t.name(op.registers)}, {t.name(op.offset)}, {t.mask})"
    )
