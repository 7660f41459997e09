"""The simulator: shuffles, and atomics on global and shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from polyc.dialects.gpu import hardware as hw
from polyc.playback.atomics import combine_at
from polyc.playback.gpu.accesses import GlobalSpace, SharedSpace
from polyc.playback.gpu.arithmetic import dtype_of
from polyc.playback.gpu.clocks import NEVER, UPDATED
from polyc.playback.gpu.core import WarpCore
from polyc.playback.gpu.counters import sectors
from polyc.playback.gpu.lanes import Array, Mask, Value, is_lanes, some
from polyc.playback.gpu.storage import GlobalTensor
from polyc.playback.gpu.translator import Translator, simulates


def _of_lanes(value: Value, lanes: Array, dtype: np.dtype[Any]) -> Array:
    return value[lanes] if is_lanes(value) else np.full(lanes.size, value, dtype)


class Exchange:
    """What threads give each other in one instruction."""

    def __init__(self, core: WarpCore, tensors: GlobalSpace, shared: SharedSpace) -> None:
        self.core = core
        self.tensors = tensors
        self.shared = shared

    def shuffle(self, number: int, kind: str, value: Value, lane: Value, m: Mask) -> Value:
        """The value of the lane that each lane names; every lane must take part."""
        self.core.collective(number, m)
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

    def match(self, number: int, value: Value, bits: int, m: Mask) -> tuple[Array, Array, Array]:
        """Of the lanes with a lane's low bits: how many are below it, how many, and the first."""
        self.core.collective(number, m)
        own = (np.zeros(32, np.int64) + value) & ((1 << bits) - 1)
        same = own[:, None] == own[None, :]
        rank = np.asarray(np.sum(np.tril(same, -1), axis=1, dtype=np.int32))
        count = np.asarray(np.sum(same, axis=1, dtype=np.int32))
        return rank, count, np.argmax(same, axis=1).astype(np.int32)

    def atomic_global(
        self,
        number: int,
        function: str,
        value: Value,
        tensor: GlobalTensor,
        indices: Sequence[Value],
        predicate: Value,
        m: Mask,
    ) -> None:
        """One update a lane, in any order."""
        lanes, offsets = self._updated(number, tensor, indices, predicate, m)
        values = _of_lanes(value, lanes, tensor.data.dtype)
        combine_at(function, tensor.data, offsets, values)

    def exchange_global(
        self,
        number: int,
        value: Value,
        tensor: GlobalTensor,
        indices: Sequence[Value],
        predicate: Value,
        adds: bool,
        m: Mask,
    ) -> Array:
        """One element a lane, the first lane first, each with what it found."""
        lanes, offsets = self._updated(number, tensor, indices, predicate, m, sets=not adds)
        result = np.zeros(32, np.int32)
        new = _of_lanes(value, lanes, tensor.data.dtype)
        for lane, offset, one in zip(lanes.tolist(), offsets.tolist(), new.tolist(), strict=True):
            result[lane] = tensor.data[offset]
            tensor.data[offset] = one + (result[lane] if adds else 0)
        return result

    def _updated(
        self,
        number: int,
        tensor: GlobalTensor,
        indices: Sequence[Value],
        predicate: Value,
        m: Mask,
        sets: bool = False,
    ) -> tuple[Array, Array]:
        """The lanes that update an element of a tensor, and where; what is wrong of it is found.

        One that ``sets`` it may be the first to: what it finds there is then anything.
        """
        lanes = self.core.active(m, predicate)
        lanes, offsets = self.tensors.elements(number, tensor, indices, lanes, 1)
        if not lanes.size:
            return lanes, offsets
        tensor.track()
        shadow = tensor.shadow
        assert shadow is not None
        threads = self.core.threads[lanes]
        self.core.cta.record(number, threads, offsets)
        if tensor.is_undefined and some(shadow.cluster[offsets] == NEVER):
            if not sets:
                self.core.find(
                    number,
                    "Uninitialised",
                    f"the {tensor.role} {tensor.name} is updated where nothing has set it",
                    threads,
                    "global",
                )
            shadow.cluster[offsets] = UPDATED
        now, clocks = self.core.clocks.now[threads], self.core.clocks.clock(threads)
        place = offsets[:, None]
        found = shadow.update(self.core.cta.cluster.number, now, threads, clocks, place, number)
        if found is not None:
            self.tensors.conflict(number, tensor, found, lanes, True)
        if known := self.core.cta.cluster.signals.get(tensor.name):
            for thread, offset in zip(threads.tolist(), offsets.tolist(), strict=True):
                if offset in known:
                    self.tensors.also_updated(number, tensor, offset, thread, known[offset])
        size = offsets.size * tensor.itemsize
        self.core.counters.global_read_bytes += size
        self.core.counters.global_write_bytes += size
        touched = sectors(tensor.base + offsets * tensor.itemsize)
        self.core.counters.global_read_sectors += touched
        self.core.counters.global_write_sectors += touched
        self.core.dirty = True
        return lanes, offsets

    def atomic_shared(
        self,
        number: int,
        function: str,
        value: Value,
        address: Value,
        dtype: np.dtype[Any],
        m: Mask,
    ) -> None:
        """One update a lane, in any order."""
        lanes, relative = self.shared.addresses(number, address, self.core.active(m), 4)
        if not lanes.size:
            return
        granules = self.shared.shadow.granules(relative, 4)
        threads = self.core.threads[lanes]
        self.core.cta.record(number, threads, relative)
        now, clocks = self.core.clocks.now[threads], self.core.clocks.clock(threads)
        found = self.shared.shadow.update(now, threads, clocks, granules, number)
        if found is not None:
            thread = threads[found.row : found.row + 1]
            who = f"thread {int(thread[0])}"
            self.core.cta.conflict(found, self.core.op(number), who, thread, True, False)
        self.shared.uninitialised(number, granules, threads, "an atomic")
        memory = self.shared.memory.bytes.view(dtype)
        combine_at(function, memory, relative // 4, _of_lanes(value, lanes, dtype))
        self.core.counters.shared_read_bytes += 4 * relative.size
        self.core.counters.shared_write_bytes += 4 * relative.size
        self.shared.count(number, relative, lanes, 4)
        self.core.dirty = True

    def fetch_add(self, number: int, value: Value, address: Value, m: Mask) -> Array:
        """One update a lane, the first lane first, each with what it found."""
        dtype = np.dtype(np.int32)
        self.atomic_shared(number, "add", value, address, dtype, m)
        lanes, relative = self.shared.addresses(number, address, self.core.active(m), 4)
        result = np.zeros(32, dtype)
        after = self.shared.memory.bytes.view(dtype)
        added = _of_lanes(value, lanes, dtype)
        for place in np.unique(relative):
            here = relative == place
            own = added[here]
            result[lanes[here]] = after[place // 4] - own.sum() + np.cumsum(own) - own
        return result


@simulates(hw.FetchAddSharedOp)
def _fetch_add(t: Translator, op: hw.FetchAddSharedOp) -> None:
    t.accesses_shared(4)
    t.define(
        op.result,
        f"w.exchange.fetch_add({t.number(op)}, {t.name(op.value)}, {t.name(op.address)}, {t.mask})",
    )


@simulates(hw.ShuffleOp)
def _shuffle(t: Translator, op: hw.ShuffleOp) -> None:
    value, lane = t.name(op.value), t.name(op.lane)
    t.define(
        op.result,
        f"w.exchange.shuffle({t.number(op)}, {op.kind.data!r}, {value}, {lane}, {t.mask})",
    )


@simulates(hw.MatchLanesOp)
def _match_lanes(t: Translator, op: hw.MatchLanesOp) -> None:
    names = ", ".join(t.name(result) for result in op.results)
    t.line(
        f"{names} = w.exchange.match({t.number(op)}, {t.name(op.value)}, {op.bits.value.data}, "
        f"{t.mask})"
    )


@simulates(hw.AtomicGlobalOp)
def _atomic_global(t: Translator, op: hw.AtomicGlobalOp) -> None:
    t.stores(op.tensor)
    t.line(
        f"w.exchange.atomic_global({t.number(op)}, {op.function.data!r}, {t.name(op.value)}, "
        f"{t.name(op.tensor)}, ({t.values(op.indices)}), {t.predicate(op.predicate)}, {t.mask})"
    )


@simulates(hw.ExchangeGlobalOp)
def _exchange_global(t: Translator, op: hw.ExchangeGlobalOp) -> None:
    t.stores(op.tensor)
    t.define(
        op.result,
        f"w.exchange.exchange_global({t.number(op)}, {t.name(op.value)}, {t.name(op.tensor)}, "
        f"({t.values(op.indices)}), {t.predicate(op.predicate)}, {op.adds}, {t.mask})",
    )


@simulates(hw.AtomicSharedOp)
def _atomic_shared(t: Translator, op: hw.AtomicSharedOp) -> None:
    t.accesses_shared(4)
    dtype = t.object(dtype_of(op.value.type), "d")
    t.line(
        f"w.exchange.atomic_shared({t.number(op)}, {op.function.data!r}, {t.name(op.value)}, "
        f"{t.name(op.address)}, {dtype}, {t.mask})"
    )
