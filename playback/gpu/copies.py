"""Asynchronous operations on their way: cp.async, TMA loads and wgmma."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from xdsl.ir import Operation

from polyc.playback.gpu import fragments
from polyc.playback.gpu.barriers import MBarrier
from polyc.playback.gpu.lanes import Array
from polyc.playback.gpu.storage import Registers, SharedMemory, TensorMap


class Copy(ABC):
    """An asynchronous operation on its way.

    ``agent``, ``what``, ``stage`` and ``start`` are for the timeline.
    """

    done = False
    agent = ""
    what = "copy"
    stage: int | None = None
    start = 0

    @abstractmethod
    def complete(self) -> None:
        """Have its effect."""


class CpAsync(Copy):
    """One cp.async instruction of a warp: ``values[i]`` goes to ``addresses[i]``."""

    def __init__(
        self, shared: SharedMemory, lanes: Array, groups: Array, addresses: Array, values: Array
    ):
        self.shared = shared
        self.lanes = lanes
        self.groups = groups
        self.addresses = addresses
        self.values = values

    def complete(self) -> None:
        if not self.done:
            self.done = True
            self.shared.store(self.addresses, self.values)


class TmaCopy(Copy):
    """One TMA load: ``chunks`` of 16 bytes go to ``addresses``, then ``barrier`` is told.

    ``phases`` are the mbarrier phases that a peer knew to have ended when it sent the bytes.
    """

    def __init__(
        self,
        shared: SharedMemory,
        op: Operation,
        thread: int,
        addresses: Array,
        chunks: Array,
        barrier: MBarrier,
        phases: Array | None = None,
    ):
        self.shared = shared
        self.phases = phases
        self.op = op
        self.thread = thread
        self.addresses = addresses
        self.chunks = chunks
        self.barrier = barrier
        self.phase = barrier.phase
        self.agent = "TMA"
        self.stage = barrier.number

    def complete(self) -> None:
        if not self.done:
            self.done = True
            self.shared.store(self.addresses, self.chunks)
            self.barrier.deliver(self.op, self.thread, self.chunks.size, self.phase, self.phases)


class TmaStore(Copy):
    """One TMA store: the chunks at ``addresses`` go to the box of ``target`` at ``start``."""

    def __init__(
        self,
        shared: SharedMemory,
        addresses: Array,
        target: TensorMap,
        start: list[int],
        group: int,
    ) -> None:
        self.shared = shared
        self.addresses = addresses
        self.target = target
        self.place = start
        self.group = group
        self.agent = "TMA"
        self.what = "store"

    def complete(self) -> None:
        if not self.done:
            self.done = True
            self.target.store_at(self.place, self.shared.rows[16][self.addresses >> 4])


class WgmmaCall(Copy):
    """One wgmma of a warpgroup; ready to run when all four warps have issued it."""

    def __init__(
        self, shared: SharedMemory, op: Operation, terms: tuple[Any, ...], a: Array, b: Array
    ) -> None:
        self.shared = shared
        self.op = op
        self.terms = terms
        self.a = a
        self.b = b
        self.registers: list[Registers | None] = [None] * 4
        self.groups = [0] * 4
        self.left: list[Registers | None] = [None] * 4
        """Where the warps hold the left operand, if that is in registers."""
        self.first = 0
        self.clear = False
        self.what = "mma"

    @property
    def issued(self) -> bool:
        return all(r is not None for r in self.registers)

    def complete(self) -> None:
        if self.done:
            return
        self.done = True
        _, _, n, transpose_a, transpose_b, dtype = self.terms
        rows = self.shared.rows[16]
        held = [r.data[self.first : self.first + 4] for r in self.left if r is not None]
        if held:
            a = np.concatenate([fragments.mma_a(h, dtype) for h in held])
        else:
            a = fragments.operand(rows[self.a >> 4], 64, transpose_a, dtype)
        b = fragments.operand(rows[self.b >> 4], n, transpose_b, dtype)
        parts = fragments.accumulator_layout(a @ b.T)
        for registers, part in zip(self.registers, parts, strict=True):
            assert registers is not None
            if self.clear:
                registers.data[...] = part
            else:
                registers.data += part
