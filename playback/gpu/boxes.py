"""Boxes that TMA copies: where they may go, and what must come before them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from polyc.playback.gpu.accesses import GlobalSpace, SharedSpace
from polyc.playback.gpu.barriers import MBarrier
from polyc.playback.gpu.copies import TmaCopy
from polyc.playback.gpu.core import WarpCore
from polyc.playback.gpu.cta import Cta
from polyc.playback.gpu.kernel import BarrierArray
from polyc.playback.gpu.lanes import Array, Value, is_lanes, some
from polyc.playback.gpu.storage import PATTERN, WINDOW, GlobalTensor, TensorMap, swizzled
from polyc.playback.gpu.sync import MBarriers


def lane_of(coordinates: Sequence[Value], address: Value, lane: int) -> tuple[list[int], int]:
    """Where one lane's box begins in the tensor and in shared memory."""
    start = [int(c[lane]) if is_lanes(c) else int(c) for c in coordinates]
    return start, int(address[lane]) if is_lanes(address) else int(address)


def box_place(
    core: WarpCore,
    cta: Cta,
    number: int,
    what: str,
    tensor_map: TensorMap,
    start: Sequence[int],
    address: int,
    thread: int,
) -> int | None:
    """A box's first byte in shared memory; None where the copy cannot be made.

    Lines of a box begin at multiples of 16 bytes in global memory too: anything else is an illegal
    instruction on an H100.
    """
    inner = len(tensor_map.shape) - 1
    if start[inner] * tensor_map.tensor.itemsize % 16:
        core.find(
            number,
            "Misaligned",
            f"a TMA {what} begins at element {start[inner]} of {tensor_map.tensor.name}'s last "
            f"axis, byte {start[inner] * tensor_map.tensor.itemsize}, no multiple of 16",
            np.array([thread]),
            "global",
        )
        return None
    relative, size = address - WINDOW, tensor_map.bytes
    needs = max(128, PATTERN[tensor_map.span])
    if not 0 <= relative <= cta.shared.size - size:
        core.find(
            number,
            "OutOfBounds",
            f"a TMA {what} of {size} bytes at byte {relative} of shared memory, and the CTA "
            f"has {cta.shared.size}",
            np.array([thread]),
            "shared",
            address,
        )
        return None
    if address % needs:
        core.find(
            number,
            "Misaligned",
            f"a TMA {what} with swizzle {tensor_map.span} is at {cta.place(relative)}, no "
            f"multiple of {needs} bytes",
            np.array([thread]),
            "shared",
            address,
        )
        return None
    return relative


def check_proxy(
    core: WarpCore,
    tensors: GlobalSpace,
    number: int,
    tensor: GlobalTensor,
    elements: Array,
    lane: int,
    writes: bool,
) -> None:
    """What TMA touches in global memory was not written by code in this launch."""
    assert tensor.shadow is not None
    threads = core.clocks.components.threads
    found = tensor.shadow.unseen(core.cta.cluster.number, threads, elements)
    if found is not None:
        tensors.conflict(number, tensor, found, np.array([lane]), writes)


class BoxLoads:
    """A warp's TMA loads into the shared memory of one CTA: its own, or one of the cluster."""

    def __init__(
        self, core: WarpCore, tensors: GlobalSpace, shared: SharedSpace, mbarriers: MBarriers
    ) -> None:
        self.core = core
        self.tensors = tensors
        self.shared = shared
        self.mbarriers = mbarriers

    def load(
        self,
        number: int,
        source: TensorMap,
        coordinates: Sequence[Value],
        address: Value,
        array: BarrierArray,
        index: Value,
        lanes: Array,
        counted: bool = True,
    ) -> None:
        """One box a lane; it is read from memory where it is ``counted``."""
        for barrier, who in self.mbarriers.named(number, array, index, lanes):
            for lane in who.tolist():
                start, at = lane_of(coordinates, address, lane)
                self._load(number, source, start, at, barrier, lane, counted)

    def _load(
        self,
        number: int,
        source: TensorMap,
        start: list[int],
        address: int,
        barrier: MBarrier,
        lane: int,
        counted: bool,
    ) -> None:
        core, cta, shadow = self.core, self.shared.cta, self.shared.shadow
        op, thread = core.op(number), int(core.threads[lane])
        if (fault := source.misplaced(start)) is not None:
            core.find(number, "OutOfBounds", fault, np.array([thread]), "global")
        relative, size = (
            box_place(core, cta, number, "load", source, start, address, thread),
            source.bytes,
        )
        if relative is None:
            return
        usable = barrier.usable(op, [thread], True)
        if usable:
            barrier.check_phase(op, thread, "the copy")
        core.copies += 1
        core.counters.tma_bytes += size
        data, elements, touched = source.box_at(start)
        if counted:
            core.counters.tma_loads += 1
            core.counters.global_read_bytes += int(elements.size) * source.tensor.itemsize
            core.counters.global_read_sectors += touched
        if source.tensor.shadow is not None and elements.size:
            reader = np.array([barrier.component]), np.array([barrier.phase + 1])
            self.tensors.read(number, source.tensor, np.array([lane]), elements[None, :], reader)
            check_proxy(core, self.tensors, number, source.tensor, elements, lane, False)
        granule = shadow.granule
        granules = np.arange(relative // granule, -(-(relative + size) // granule))
        places = np.array([*start, relative, barrier.component])
        cta.record(number, np.array([thread]), places, writes=granules)
        if shadow.has_barriers and some(shadow.barrier[granules]):
            core.find(
                number,
                "MBarrierOverwritten",
                f"a TMA load writes over an mbarrier from {cta.place(relative)} on",
                threads=np.array([thread]),
                space="shared",
                address=address,
            )
        clocks = core.clocks
        found = shadow.write_async(
            clocks.now[thread],
            clocks.proxied[thread],
            barrier.component,
            barrier.phase + 1,
            granules,
            number,
        )
        if found is not None:
            who = cta.components.who(barrier.component)
            cta.conflict(found, op, who, np.array([thread]), True, True)
        chunks = data.reshape(-1, 16)
        places = swizzled(address + 16 * np.arange(len(chunks)), source.span) - WINDOW
        phases: Array | None = None
        if not cta.threads.start <= thread < cta.threads.stop:
            first = clocks.components.first_barrier
            last = first + len(clocks.components.barriers)
            phases = clocks.now[thread, first:last].copy()
        copy = TmaCopy(self.shared.memory, op, thread, places, chunks, barrier, phases)
        if usable:
            cta.loads.setdefault(barrier.component, []).append(copy)
        cta.launch(copy)
