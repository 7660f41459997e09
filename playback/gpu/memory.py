"""The simulator: loads and stores, cp.async, and boxes by TMA."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu.hardware import access_bytes, vector_length
from polyc.playback.gpu.accesses import GlobalSpace, SharedSpace
from polyc.playback.gpu.arithmetic import dtype_of
from polyc.playback.gpu.boxes import BoxLoads, box_place, check_proxy, lane_of
from polyc.playback.gpu.clocks import repeated, rows_of
from polyc.playback.gpu.copies import CpAsync, TmaStore
from polyc.playback.gpu.core import WarpCore
from polyc.playback.gpu.counters import sectors
from polyc.playback.gpu.kernel import BarrierArray
from polyc.playback.gpu.lanes import Array, Mask, Value, byte_rows, is_lanes, some, spread
from polyc.playback.gpu.peers import Peers
from polyc.playback.gpu.storage import WINDOW, GlobalTensor, TensorMap, swizzled
from polyc.playback.gpu.sync import MBarriers
from polyc.playback.gpu.translator import Translator, simulates, width_of


class Memory:
    """A warp's loads and stores."""

    def __init__(self, core: WarpCore, tensors: GlobalSpace, shared: SharedSpace) -> None:
        self.core = core
        self.tensors = tensors
        self.shared = shared

    def load_global(
        self,
        number: int,
        tensor: GlobalTensor,
        indices: Sequence[Value],
        predicate: Value,
        width: int,
        vector: bool,
        m: Mask,
        fill: float = 0,
    ) -> Array:
        lanes = self.core.active(m, predicate)
        lanes, offsets = self.tensors.elements(number, tensor, indices, lanes, width)
        result = np.full((32, width), fill, tensor.data.dtype)
        if lanes.size:
            elements = offsets[:, None] + np.arange(width)
            self.core.cta.record(number, self.core.threads[lanes], offsets)
            result[lanes] = tensor.data[elements]
            self.tensors.read(number, tensor, lanes, elements)
            self.core.counters.global_read_bytes += elements.size * tensor.itemsize
            self.core.counters.global_read_sectors += sectors(
                tensor.base + offsets * tensor.itemsize
            )
        return result if vector else result[:, 0]

    def store_global(
        self,
        number: int,
        value: Value,
        tensor: GlobalTensor,
        indices: Sequence[Value],
        predicate: Value,
        width: int,
        m: Mask,
    ) -> None:
        lanes = self.core.active(m, predicate)
        lanes, offsets = self.tensors.elements(number, tensor, indices, lanes, width)
        if not lanes.size:
            return
        elements = offsets[:, None] + np.arange(width)
        self.core.cta.record(number, self.core.threads[lanes], offsets)
        if is_lanes(value):
            tensor.data[elements] = value.reshape(32, width)[lanes]
        else:
            tensor.data[elements] = value
        self.core.counters.global_write_bytes += elements.size * tensor.itemsize
        self.core.counters.global_write_sectors += sectors(tensor.base + offsets * tensor.itemsize)
        tensor.track()
        shadow = tensor.shadow
        assert shadow is not None
        threads = self.core.threads[lanes]
        if (shared := repeated(elements)) is not None:
            both = threads[rows_of(elements, shared)]
            self.core.find(
                number,
                "DataRace",
                f"lanes of one store write {tensor.element_text(shared)} at once",
                threads=both,
                space="global",
                address=tensor.base + shared * tensor.itemsize,
                other=self.core.op(number),
            )
        now, clocks = self.core.clocks.now[threads], self.core.clocks.clock(threads)
        found = shadow.write(self.core.cta.cluster.number, now, threads, clocks, elements, number)
        if found is not None:
            self.tensors.conflict(number, tensor, found, lanes, True)
        if known := self.core.cta.cluster.signals.get(tensor.name):
            for element in elements.ravel().tolist():  # A counter that is set anew.
                known.pop(element, None)
        self.core.dirty = True

    def load_shared(
        self,
        number: int,
        address: Value,
        dtype: np.dtype[Any],
        width: int,
        vector: bool,
        m: Mask,
    ) -> Array:
        size = width * dtype.itemsize
        lanes, relative = self.shared.addresses(number, address, self.core.active(m), size)
        result = np.zeros((32, width), dtype)
        if lanes.size:
            self.shared.read(number, lanes, relative, size)
            result[lanes] = self.shared.memory.load(relative, size, dtype)
        return result if vector else result[:, 0]

    def store_shared(
        self,
        number: int,
        value: Value,
        address: Value,
        dtype: np.dtype[Any],
        width: int,
        m: Mask,
    ) -> None:
        size = width * dtype.itemsize
        lanes, relative = self.shared.addresses(number, address, self.core.active(m), size)
        if not lanes.size:
            return
        threads = self.core.threads[lanes]
        self.shared.write(
            number, lanes, relative, size, threads, self.core.clocks.clock(threads), False
        )
        values = byte_rows(value, width, dtype)
        self.shared.memory.store(relative, values[lanes])


class CpAsyncGroups:
    """A warp's cp.async, in groups of each lane."""

    def __init__(self, core: WarpCore, tensors: GlobalSpace, shared: SharedSpace) -> None:
        self.core = core
        self.tensors = tensors
        self.shared = shared
        self.committed: Array = np.zeros(32, np.int64)
        """Groups that each lane has committed."""
        self.pending: list[CpAsync] = []
        """What has not arrived."""
        self.copied: Array = np.zeros(32, np.int64)
        """The newest group of each lane that copies."""
        self.last: int | None = None

    def copy(
        self,
        number: int,
        address: Value,
        tensor: GlobalTensor,
        indices: Sequence[Value],
        predicate: Value,
        size: int,
        m: Mask,
    ) -> None:
        """Copy ``size`` bytes a lane, zeros where the predicate does not hold."""
        lanes, relative = self.shared.addresses(number, address, self.core.active(m), size)
        if not lanes.size:
            return
        self.core.copies += 1
        threads = self.core.threads[lanes]
        groups = self.committed[lanes] + 1
        self.copied[lanes] = groups
        self.last = number
        self.shared.write(
            number,
            lanes,
            relative,
            size,
            self.core.clocks.components.threads + threads,
            groups,
            True,
        )
        width = size // tensor.itemsize
        values = np.zeros((32, width), tensor.data.dtype)
        wanted = self.core.active(m, predicate)
        if wanted.size != lanes.size:
            wanted = np.intersect1d(wanted, lanes)
        wanted, offsets = self.tensors.elements(number, tensor, indices, wanted, width)
        if wanted.size:
            elements = offsets[:, None] + np.arange(width)
            self.core.cta.record(number, self.core.threads[wanted], offsets)
            values[wanted] = tensor.data[elements]
            readers = self.core.clocks.components.threads + self.core.threads[wanted]
            copies = readers, self.committed[wanted] + 1
            self.tensors.read(number, tensor, wanted, elements, copies)
            self.core.counters.cp_async_bytes += elements.size * tensor.itemsize
            self.core.counters.global_read_bytes += elements.size * tensor.itemsize
            self.core.counters.global_read_sectors += sectors(
                tensor.base + offsets * tensor.itemsize
            )
        copy = CpAsync(self.shared.memory, lanes, groups, relative, values[lanes].view(np.uint8))
        copy.agent = f"cp.async, warp {self.core.index}"
        self.pending.append(copy)
        self.core.cta.launch(copy)

    def commit(self, m: Mask) -> None:
        if m is None:
            self.committed += 1
        else:
            self.committed[m] += 1

    def wait(self, pending: int, m: Mask) -> None:
        """Lanes wait until all but their ``pending`` newest groups have arrived."""
        done = np.maximum(self.committed - pending, 0)
        lanes = self.core.active(m)
        waits = np.zeros(32, np.bool_)
        waits[lanes] = True
        kept: list[CpAsync] = []
        for copy in self.pending:
            if some(waits[copy.lanes] & (copy.groups <= done[copy.lanes])):
                self.core.cta.arrive(copy)
                if copy in self.core.cta.copying:
                    self.core.cta.copying.remove(copy)
            if not copy.done:
                kept.append(copy)
        self.pending = kept
        threads = self.core.threads[lanes]
        if self.core.clocks.components.copies:
            columns = self.core.clocks.components.threads + threads
            now = self.core.clocks.now
            now[threads, columns] = np.maximum(now[threads, columns], done[lanes])
            self.core.dirty = True

    def finish(self) -> None:
        """The warp's threads have ended."""
        for copy in self.pending:
            copy.complete()
        if self.last is None:
            return
        core = self.core
        columns = core.clocks.components.threads + core.threads
        late = np.nonzero(core.clocks.now[core.threads, columns] < self.copied)[0]
        if late.size:
            core.find(
                self.last,
                "Unfinished",
                "the kernel ends with cp.async that their threads have not waited for",
                core.threads[late],
            )


class Tma:
    """A warp's copies of boxes between global memory and shared memory."""

    def __init__(
        self,
        core: WarpCore,
        tensors: GlobalSpace,
        shared: SharedSpace,
        mbarriers: MBarriers,
        peers: Peers,
    ) -> None:
        self.core = core
        self.tensors = tensors
        self.shared = shared
        self.peers = peers
        self.own = BoxLoads(core, tensors, shared, mbarriers)
        self.committed: Array = np.zeros(32, np.int64)
        """Groups of stores that each lane has committed."""
        self.used: Array = np.zeros(32, np.int64)
        """The newest group of each lane that stores."""
        self.pending: list[tuple[int, TmaStore]] = []
        """The stores that are on their way, and their lanes."""
        self.last: int | None = None

    def load(
        self,
        number: int,
        source: TensorMap,
        coordinates: Sequence[Value],
        address: Value,
        array: BarrierArray,
        index: Value,
        m: Mask,
        mask: Value | None = None,
    ) -> None:
        """A box, to this CTA or to every CTA of ``mask`` at the same place in each."""
        lanes = self.core.active(m)
        if mask is None:
            self.own.load(number, source, coordinates, address, array, index, lanes)
            return
        bits = spread(mask, lanes)
        counted = True
        for rank in range(16):
            who = lanes[bits >> rank & 1 == 1]
            if not who.size:
                continue
            # The peer waits for the bytes on its own barrier, so it outlives the copy.
            ranks = np.full(who.size, rank)
            for peer, few in self.peers.reached(number, ranks, who, lasting=False):
                shared, mbarriers = SharedSpace(self.core, peer), MBarriers(self.core, peer)
                there = BoxLoads(self.core, self.tensors, shared, mbarriers)
                there.load(number, source, coordinates, address, array, index, few, counted)
                counted = False

    def store(
        self,
        number: int,
        target: TensorMap,
        coordinates: Sequence[Value],
        address: Value,
        m: Mask,
    ) -> None:
        """One box a lane, from the CTA's shared memory."""
        for lane in self.core.active(m).tolist():
            start, at = lane_of(coordinates, address, lane)
            self._store(number, target, start, at, lane)
        self.core.dirty = True

    def _store(
        self, number: int, target: TensorMap, start: list[int], address: int, lane: int
    ) -> None:
        op, thread = self.core.op(number), int(self.core.threads[lane])
        relative = box_place(
            self.core, self.shared.cta, number, "store", target, start, address, thread
        )
        if relative is None:
            return
        size, granule, clocks = target.bytes, self.shared.shadow.granule, self.core.clocks
        components = clocks.components
        granules = np.arange(relative // granule, -(-(relative + size) // granule))
        group = int(self.committed[lane]) + 1
        self.used[lane] = group
        self.last = number
        reader = components.first_bulk + thread
        who = components.who(reader)
        me = np.array([thread])
        self.core.cta.record(number, me, np.array([*start, relative]), reads=granules)
        now, proxied = clocks.now[thread], clocks.proxied[thread]
        found = self.shared.shadow.read_async(now, proxied, reader, group, granules, number)
        if found is not None:
            self.core.cta.conflict(found, op, who, me, False, True)
        self.shared.uninitialised(number, granules, me, "a TMA store")
        tensor = target.tensor
        tensor.track()
        assert tensor.shadow is not None
        elements, touched = target.elements_at(start)
        if elements.size:
            check_proxy(self.core, self.tensors, number, tensor, elements, lane, True)
            writer, clock = np.array([reader + components.threads]), np.array([group])
            hit = tensor.shadow.write(
                self.core.cta.cluster.number, now[None], writer, clock, elements[None], number
            )
            if hit is not None:
                self.tensors.conflict(number, tensor, hit, np.array([lane]), True)
        self.core.counters.tma_stores += 1
        self.core.counters.global_write_bytes += int(elements.size) * tensor.itemsize
        self.core.counters.global_write_sectors += touched
        chunks = address + 16 * np.arange(size // 16)
        places = swizzled(chunks, target.span) - WINDOW
        copy = TmaStore(self.shared.memory, places, target, start, group)
        self.pending.append((lane, copy))
        self.core.cta.launch(copy)

    def commit(self, m: Mask) -> None:
        self.committed[self.core.active(m)] += 1

    def wait(self, pending: int, read: bool, m: Mask) -> None:
        """Lanes wait for all but their ``pending`` newest groups of TMA stores."""
        lanes = self.core.active(m)
        done = np.maximum(self.committed - pending, 0)
        waiting = set(lanes.tolist())
        kept: list[tuple[int, TmaStore]] = []
        for lane, copy in self.pending:
            if lane in waiting and copy.group <= done[lane]:
                self.core.cta.arrive(copy)
                if copy in self.core.cta.flying:
                    self.core.cta.flying.remove(copy)
            if not copy.done:
                kept.append((lane, copy))
        self.pending = kept
        components, now = self.core.clocks.components, self.core.clocks.now
        threads = self.core.threads[lanes]
        if components.bulk:
            for first in (0,) if read else (0, components.threads):
                columns = components.first_bulk + first + threads
                now[threads, columns] = np.maximum(now[threads, columns], done[lanes])
        self.core.dirty = True

    def finish(self) -> None:
        """The warp's threads have ended."""
        if self.last is None:
            return
        core = self.core
        columns = core.clocks.components.first_bulk + core.threads
        late = np.nonzero(core.clocks.now[core.threads, columns] < self.used)[0]
        if late.size:
            core.find(
                self.last,
                "Unfinished",
                "the kernel ends while TMA stores may still read its shared memory",
                core.threads[late],
            )


@simulates(hw.LoadGlobalOp)
def _load_global(t: Translator, op: hw.LoadGlobalOp) -> None:
    width, vector = width_of(op.result.type)
    fill = "" if op.fill is None else f", float('{op.fill.value.data}')"
    if op.fill is not None and isinstance(op.fill.value.data, int):
        fill = f", {op.fill.value.data}"
    t.define(
        op.result,
        f"w.memory.load_global({t.number(op)}, {t.name(op.tensor)}, ({t.values(op.indices)}), "
        f"{t.predicate(op.predicate)}, {width}, {vector}, {t.mask}{fill})",
    )


@simulates(hw.StoreGlobalOp)
def _store_global(t: Translator, op: hw.StoreGlobalOp) -> None:
    t.stores(op.tensor)
    t.line(
        f"w.memory.store_global({t.number(op)}, {t.name(op.value)}, {t.name(op.tensor)}, "
        f"({t.values(op.indices)}), {t.predicate(op.predicate)}, "
        f"{vector_length(op.value.type)}, {t.mask})"
    )


@simulates(hw.AddressRemainderOp)
def _address_remainder(t: Translator, op: hw.AddressRemainderOp) -> None:
    t.define(op.result, f"({t.name(op.tensor)}.base % {op.of.value.data})")


@simulates(hw.LoadSharedOp)
def _load_shared(t: Translator, op: hw.LoadSharedOp) -> None:
    t.accesses_shared(access_bytes(op.result.type))
    width, vector = width_of(op.result.type)
    dtype = t.object(dtype_of(op.result.type), "d")
    t.define(
        op.result,
        f"w.memory.load_shared({t.number(op)}, {t.name(op.address)}, {dtype}, {width}, {vector}, "
        f"{t.mask})",
    )


@simulates(hw.StoreSharedOp)
def _store_shared(t: Translator, op: hw.StoreSharedOp) -> None:
    t.accesses_shared(access_bytes(op.value.type))
    dtype = t.object(dtype_of(op.value.type), "d")
    t.line(
        f"w.memory.store_shared({t.number(op)}, {t.name(op.value)}, {t.name(op.address)}, {dtype}, "
        f"{vector_length(op.value.type)}, {t.mask})"
    )


@simulates(hw.CpAsyncOp)
def _cp_async(t: Translator, op: hw.CpAsyncOp) -> None:
    t.copies = True
    t.accesses_shared(op.bytes.value.data)
    t.line(
        f"w.cp_async.copy({t.number(op)}, {t.name(op.address)}, {t.name(op.tensor)}, "
        f"({t.values(op.indices)}), {t.predicate(op.predicate)}, {op.bytes.value.data}, "
        f"{t.mask})"
    )


@simulates(hw.CpAsyncCommitOp)
def _cp_async_commit(t: Translator, op: hw.CpAsyncCommitOp) -> None:
    t.line(f"w.cp_async.commit({t.mask})")
    t.line("yield None")


@simulates(hw.CpAsyncWaitOp)
def _cp_async_wait(t: Translator, op: hw.CpAsyncWaitOp) -> None:
    t.line(f"w.cp_async.wait({op.pending.value.data}, {t.mask})")
    t.line("yield None")


@simulates(hw.PrefetchTensorMapOp)
def _prefetch_tensor_map(t: Translator, op: hw.PrefetchTensorMapOp) -> None:
    """No cache is modelled."""


@simulates(hw.TmaLoadOp)
def _tma_load(t: Translator, op: hw.TmaLoadOp) -> None:
    t.line(
        f"w.tma.load({t.number(op)}, {t.name(op.map)}, ({t.values(op.coordinates)}), "
        f"{t.name(op.address)}, {t.name(op.barrier)}, {t.name(op.index)}, {t.mask}"
        f"{'' if op.mask is None else ', ' + t.name(op.mask)})"
    )
    t.line("yield None")


@simulates(hw.TmaStoreOp)
def _tma_store(t: Translator, op: hw.TmaStoreOp) -> None:
    t.bulk = True
    t.stores(op.map)
    t.line(
        f"w.tma.store({t.number(op)}, {t.name(op.map)}, ({t.values(op.coordinates)}), "
        f"{t.name(op.address)}, {t.mask})"
    )
    t.line("yield None")


@simulates(hw.BulkCommitOp)
def _bulk_commit(t: Translator, op: hw.BulkCommitOp) -> None:
    t.line(f"w.tma.commit({t.mask})")


@simulates(hw.BulkWaitOp)
def _bulk_wait(t: Translator, op: hw.BulkWaitOp) -> None:
    t.line(f"w.tma.wait({op.pending.value.data}, {op.read is not None}, {t.mask})")
    t.line("yield None")
