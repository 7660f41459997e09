"""Accesses of global and shared memory: where they may go, and what must come before them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from polyc.playback.gpu.clocks import NEVER, Conflict, repeated, rows_of
from polyc.playback.gpu.core import WarpCore
from polyc.playback.gpu.counters import wavefronts
from polyc.playback.gpu.cta import Cta
from polyc.playback.gpu.lanes import Array, Value, every, is_lanes, some, spread
from polyc.playback.gpu.signals import Signals
from polyc.playback.gpu.storage import WINDOW, GlobalTensor


def _sound(
    core: WarpCore,
    number: int,
    kind: str,
    good: Array,
    lanes: Array,
    places: Array,
    space: str,
    fault: Callable[[int], tuple[str, int]],
) -> tuple[Array, Array]:
    """Lanes and places where ``good`` holds; the others are one finding of ``kind``.

    ``fault`` gives what a thread does at a place, and the address of that.
    """
    if every(good):
        return lanes, places
    bad = np.nonzero(~good)[0]
    text, address = fault(int(places[bad[0]]))
    core.find(
        number,
        kind,
        f"thread {int(core.threads[lanes[bad[0]]])} {text}",
        threads=core.threads[lanes[bad]],
        space=space,
        address=address,
    )
    return lanes[good], places[good]


class GlobalSpace:
    """Global memory as a warp accesses it: the tensors."""

    def __init__(self, core: WarpCore) -> None:
        self.core = core

    def elements(
        self,
        number: int,
        tensor: GlobalTensor,
        indices: Sequence[Value],
        lanes: Array,
        width: int,
    ) -> tuple[Array, Array]:
        """Lanes with a sound access, and the first element of each; others are reported."""
        if not lanes.size:
            return lanes, np.zeros(0, np.int64)
        if len(indices) == 1 and len(tensor.shape) != 1:
            offsets = spread(indices[0], lanes)
            inside = (offsets >= 0) & (offsets + width <= tensor.size)
        else:
            offsets = np.zeros(lanes.size, np.int64)
            inside = np.ones(lanes.size, np.bool_)
            for axis, (index, extent) in enumerate(zip(indices, tensor.shape, strict=True)):
                last = width if axis == len(tensor.shape) - 1 else 1
                if is_lanes(index):
                    at = spread(index, lanes)
                    inside &= (at >= 0) & (at + last <= extent)
                    offsets = offsets * extent + at
                else:
                    inside &= 0 <= int(index) <= extent - last
                    offsets = offsets * extent + int(index)

        def outside(at: int) -> tuple[str, int]:
            more = f" and the {width - 1} elements after it" if width > 1 else ""
            text = f"accesses {tensor.element_text(at)}{more}, outside the shape "
            return f"{text}{list(tensor.shape)}", tensor.base + at * tensor.itemsize

        lanes, offsets = _sound(
            self.core, number, "OutOfBounds", inside, lanes, offsets, "global", outside
        )
        size = width * tensor.itemsize

        def misaligned(at: int) -> tuple[str, int]:
            address = tensor.base + at * tensor.itemsize
            text = f"moves {size} bytes at {address:#x} ({tensor.element_text(at)}), no multiple"
            return f"{text} of {size}", address

        aligned = (tensor.base + offsets * tensor.itemsize) % size == 0
        return _sound(
            self.core, number, "Misaligned", aligned, lanes, offsets, "global", misaligned
        )

    def conflict(
        self, number: int, tensor: GlobalTensor, found: Conflict, lanes: Array, writes: bool
    ) -> None:
        """Report a conflict in global memory; ``lanes`` and ``writes`` are the later access."""
        thread = int(self.core.threads[lanes[found.row]])
        components = self.core.clocks.components
        other = components.who(found.component)
        if found.home not in (None, self.core.cta.cluster.number):
            other += f" of {'CTA' if components.ctas == 1 else 'cluster'} {found.home}"
        verb = "writes" if writes else "reads"
        earlier = "has read" if found.reader else "wrote"
        text = (
            f"thread {thread} {verb} {tensor.element_text(found.granule)}, and nothing orders "
            f"that after {other} {earlier} it"
        )
        if found.proxied:
            text = (
                f"thread {thread} {verb} {tensor.element_text(found.granule)} through the async "
                f"proxy, and what {other} wrote there in this launch is not visible to it: "
                "fence.proxy.async is for shared memory; load it without TMA, or in a later launch"
            )
        self.core.find(
            number,
            "ProxyFence" if found.proxied else "DataRace",
            text,
            threads=np.array([thread, components.thread(found.component) or 0]),
            space="global",
            address=tensor.base + found.granule * tensor.itemsize,
            times=found.times,
            other=self.core.op(found.op),
        )

    def read(
        self,
        number: int,
        tensor: GlobalTensor,
        lanes: Array,
        elements: Array,
        copies: tuple[Array, Array] | None = None,
    ) -> None:
        """Happens-before of a read of a tensor that the kernel also writes.

        ``copies`` are the components and clocks of what reads for the lanes, where it is not the
        lanes themselves: the read is over when the copy is known complete.
        """
        shadow = tensor.shadow
        if shadow is None or not lanes.size:
            return
        threads = self.core.threads[lanes]
        now = self.core.clocks.now[threads]
        readers, clocks = copies or (threads, self.core.clocks.clock(threads))
        found = shadow.read(self.core.cta.cluster.number, now, readers, clocks, elements, number)
        if found is not None:
            self.conflict(number, tensor, found, lanes, False)
        if tensor.is_undefined and some(shadow.cluster[elements] == NEVER):
            self.core.find(
                number,
                "Uninitialised",
                f"the {tensor.role} {tensor.name} is read where no kernel has written it",
                threads=threads,
                space="global",
            )
        self.core.dirty = True

    def also_updated(
        self, number: int, tensor: GlobalTensor, offset: int, thread: int, signals: Signals
    ) -> None:
        """Report an atomic update of a counter of ``signals``."""
        self.core.find(
            number,
            "SignalCount",
            f"thread {thread} updates {tensor.element_text(offset)}, which is a counter of "
            "signals: a wait takes the update for one, and it releases nothing",
            np.array([thread]),
            "global",
            tensor.base + offset * tensor.itemsize,
            signals.op,
        )


class SharedSpace:
    """The shared memory of ``cta``, a warp's own or another of the cluster, as it accesses it."""

    def __init__(self, core: WarpCore, cta: Cta) -> None:
        self.core = core
        self.cta = cta
        self.memory = cta.shared
        self.shadow = cta.shadow

    def addresses(
        self, number: int, address: Value, lanes: Array, width: int
    ) -> tuple[Array, Array]:
        """Lanes with a sound shared access, and their bytes from the start of the CTA's own."""
        relative = spread(address, lanes) - WINDOW
        good = (relative >= 0) & (relative + width <= self.memory.size)

        def outside(at: int) -> tuple[str, int]:
            text = f"accesses {width} bytes at byte {at} of shared memory, and the CTA has"
            return f"{text} {self.memory.size}", at + WINDOW

        lanes, relative = _sound(
            self.core, number, "OutOfBounds", good, lanes, relative, "shared", outside
        )

        def misaligned(at: int) -> tuple[str, int]:
            text = f"accesses {width} bytes at {self.cta.place(at)}, no multiple of {width}"
            return text, at + WINDOW

        aligned = relative % width == 0
        return _sound(
            self.core, number, "Misaligned", aligned, lanes, relative, "shared", misaligned
        )

    def count(self, number: int, relative: Array, lanes: Array, width: int) -> None:
        """Count an access of ``width`` bytes a lane, and its wavefronts."""
        access = self.core.counters.access(self.core.op(number))
        access.instructions += 1
        access.bytes += relative.size * width
        waves = wavefronts(relative, width, lanes)
        access.wavefronts += waves
        requests = len(set((lanes // (32 if width <= 4 else 128 // width)).tolist()))
        access.ideal += min(waves, requests)

    def uninitialised(self, number: int, granules: Array, threads: Array, who: str) -> None:
        """Report what ``who`` reads among ``granules`` and nothing has written."""
        empty = self.shadow.unwritten(granules)
        if some(empty):
            relative = int(granules[empty].flat[0]) * self.shadow.granule
            self.core.find(
                number,
                "Uninitialised",
                f"{who} reads {self.cta.place(relative)}, which nothing has written",
                threads=threads,
                space="shared",
                address=relative + WINDOW,
            )

    def read(self, number: int, lanes: Array, relative: Array, width: int) -> None:
        """Happens-before of a read of ``width`` bytes a lane from the bytes ``relative`` on."""
        core, clocks = self.core, self.core.clocks
        granules = self.shadow.granules(relative, width)
        threads = core.threads[lanes]
        self.cta.record(number, threads, relative, reads=granules)
        found = self.shadow.read(
            clocks.now[threads], threads, clocks.clock(threads), granules, number
        )
        if found is not None:
            thread = threads[found.row : found.row + 1]
            who = f"thread {int(thread[0])}"
            self.cta.conflict(found, core.op(number), who, thread, False, False)
        self.uninitialised(number, granules, threads, "the warp")
        core.counters.shared_read_bytes += relative.size * width
        self.count(number, relative, lanes, width)
        core.dirty = True

    def write(
        self,
        number: int,
        lanes: Array,
        relative: Array,
        width: int,
        components: Array,
        clocks: Array,
        asynchronous: bool,
    ) -> None:
        """Happens-before of a write; ``components`` and ``clocks`` are those of what writes."""
        core, op = self.core, self.core.op(number)
        granules = self.shadow.granules(relative, width)
        threads = core.threads[lanes]
        self.cta.record(number, threads, relative, writes=granules)
        if self.shadow.has_barriers and some(self.shadow.barrier[granules]):
            at = int(granules[self.shadow.barrier[granules]].flat[0]) * self.shadow.granule
            core.find(
                number,
                "MBarrierOverwritten",
                f"{op.name} writes {self.cta.place(at)}",
                threads=threads,
                space="shared",
                address=at + WINDOW,
            )
        if (shared := repeated(granules)) is not None:
            at = shared * self.shadow.granule
            core.find(
                number,
                "DataRace",
                f"lanes of one instruction write {self.cta.place(at)} at once",
                threads=threads[rows_of(granules, shared)],
                space="shared",
                address=at + WINDOW,
                other=op,
            )
        found = self.shadow.write(core.clocks.now[threads], components, clocks, granules, number)
        if found is not None:
            thread = threads[found.row : found.row + 1]
            who = self.cta.components.who(int(components[found.row]))
            self.cta.conflict(found, op, who, thread, True, asynchronous)
        core.counters.shared_write_bytes += relative.size * width
        self.count(number, relative, lanes, width)
        core.dirty = True
