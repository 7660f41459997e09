"""``gpu-lower-barriers``: slots and parities, and every interleaving of a few thousand.

The second half runs whole warp-specialised kernels under a model of mbarriers (PTX ISA 9.7.13):
the threads' waits, arrivals and copies are taken from the IR, and an order of them is drawn at
random.  Nothing may deadlock, be read before it is there, or be overwritten while it is read.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects import affine
from xdsl.dialects.builtin import AffineMapAttr, ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineMap

from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.kernel import KernelOp
from polyc.dialects.gpu.types import SharedType, TensorMapType, element_bytes
from polyc.test.support.evaluate import Event, Machine
from polyc.test.support.gpu_text import assert_refused, body_of, find, kernel, only, run, up_to

PASS = "gpu-lower-barriers"
TENSOR = "!gpu.global<[M, K], f16, align 16>"
ARGS = f"%A: {TENSOR} = tensor 0, %M: index = symbol M, %i: index = symbol K"


def ring(depth: int, steps: str, consumers: int = 2) -> str:
    kind = f"!gpu.shared<[64, 64], f16, swizzle 128, ring {depth}>"
    ring = f"!gpu.ring<{depth}>"
    copy = f'gpu.copy %A[%M, %M] to %tile slot %s loader "tma" signal %ring : {ring} at %i'
    words = {
        "acquire": f"gpu.ring_acquire %ring[%i] : {ring}",
        "copy": f"{copy} : {TENSOR}, {kind}",
        "wait": f"gpu.ring_wait %ring[%i] : {ring}",
        "release": f"gpu.ring_release %ring[%i] : {ring}",
    }
    body = "\n".join(f"    {words[word]}" for word in steps.split())
    return kernel(
        f"""
    %s = affine.apply affine_map<(i) -> (i mod {depth})>(%i)
    %tile = gpu.shared_tile : {kind}
    %ring = gpu.ring consumers {consumers} : {ring}
{body}""",
        ARGS,
        threads=384,
    )


def events(module: ModuleOp, i: int) -> list[Event]:
    machine = Machine(threads=384)
    for arg, value in zip(only(module, KernelOp).body.block.args, (0, 0, i), strict=True):
        machine.set(arg, value)
    return machine.run(body_of(module)).events


@pytest.mark.parametrize("depth", [2, 3, 4, 5, 8])
def test_lower_ring_counts_slots_and_parities(depth: int) -> None:
    """Iteration i is use u = i / depth of slot i mod depth: full at u mod 2, empty at the other."""
    module = run(ring(depth, "acquire copy wait release"), PASS)
    for i in range(4 * depth + 1):
        slot, use = i % depth, i // depth
        waits: list[tuple[str | None, int, int]] = []
        for event in events(module, i):
            match event.op:
                case hw.MBarrierWaitOp() as op:
                    at = int(event[op.index][0]), int(event[op.parity][0])
                    waits.append((op.barrier.name_hint, *at))
                case hw.MBarrierExpectOp() | hw.MBarrierArriveOp() as op:
                    assert set(event[op.index]) == {slot}
                case tile.CopyOp() as op:
                    assert op.signal_index is not None and set(event[op.signal_index]) == {slot}
                case _:
                    pass
        assert waits == [("empty", slot, 1 - use % 2), ("full", slot, use % 2)]


def test_lower_ring_counts_arrivals_and_bytes() -> None:
    """One arrival and the copies' bytes fill a slot; lane 0 of each consumer warp frees it."""
    module = run(ring(3, "acquire copy copy wait release", consumers=2), PASS)
    full, empty = (op.barrier for op in find(module, hw.MBarrierOp))
    inits = [(op.barrier, op.count.value.data) for op in find(module, hw.MBarrierInitOp)]
    assert inits == [(full, 1), (empty, 2 * 4)]
    assert only(module, hw.MBarrierExpectOp).bytes.value.data == 2 * 64 * 64 * 2
    found = events(module, 0)
    started = [e for e in found if isinstance(e.op, hw.MBarrierInitOp)]
    assert len(started) == 6 and all(e.active.tolist() == [True] + [False] * 383 for e in started)
    (arrive,) = (e for e in found if isinstance(e.op, hw.MBarrierArriveOp))
    assert (np.nonzero(arrive.active)[0] == np.arange(0, 384, 32)).all()
    names = [e.op.name for e in found if not isinstance(e.op, hw.MBarrierInitOp)]
    assert names[:2] == ["gpu.fence_mbarrier_init", "gpu.barrier"]


def test_a_ring_of_peers_counts_the_consumers_of_all() -> None:
    """Lane r of each warp tells CTA r; the cluster meets before the first use and at the end."""
    text = ring(3, "acquire copy wait release", consumers=2)
    text = text.replace("consumers 2", "consumers 2 peers 4")
    module = run(text.replace("threads 384", "threads 384 cluster 4"), PASS)
    assert {op.count.value.data for op in find(module, hw.MBarrierInitOp)} == {1, 2 * 4 * 4}
    assert not find(module, hw.MBarrierArriveOp) and not find(module, hw.BarrierOp)
    arrive = only(module, hw.MBarrierArriveClusterOp)
    assert arrive.reads is not None
    assert [op.name for op in body_of(module)][-2:] == ["gpu.cluster_barrier", "gpu.return"]
    assert len(find(module, hw.ClusterBarrierOp)) == 2


def test_a_ring_of_other_peers_than_the_cluster_is_refused() -> None:
    text = ring(3, "acquire copy wait release", consumers=1)
    text = text.replace("consumers 1", "consumers 1 peers 2")
    message = "the ring spans 2 CTAs and the kernel's clusters have 1; give both the same number"
    assert_refused(text, "BadRing", message, "gpu.ring consumers", PASS)


def test_copies_that_signal_something_else_are_not_counted() -> None:
    text = ring(3, "acquire copy copy").replace("at %i", "at %M", 1)
    assert only(run(text, PASS), hw.MBarrierExpectOp).bytes.value.data == 64 * 64 * 2


def test_a_slot_that_nothing_fills_is_refused() -> None:
    message = "nothing is copied into the acquired slot"
    assert_refused(ring(3, "acquire wait"), "BadRing", message, "ring_acquire", PASS)


def test_an_op_that_does_not_work_on_rings_is_refused() -> None:
    text = ring(3, "acquire copy").replace(
        "    gpu.return",
        '    %x = "arith.select"(%p, %ring, %ring)'
        " : (i1, !gpu.ring<3>, !gpu.ring<3>) -> !gpu.ring<3>\n    gpu.return",
    )
    text = text.replace(ARGS, ARGS + ", %p: i1 = symbol M")
    message = "arith.select does not work on a ring"
    assert_refused(text, "BadRing", message, "arith.select", PASS)


# Interleavings -----------------------------------------------------------------------------


def specialised(stages: int, consumers: int) -> ModuleOp:
    """A warp-specialised contraction up to roles; 64 rows a consumer, two operands."""
    m = 64 * consumers
    a, b = f"!gpu.shared<[{m}, 64], f16>", "!gpu.shared<[64, 32], f16>"
    acc = f"!gpu.fragment<[{m}, 32], f32>"
    right = "!gpu.global<[K, N], f16, align 16>"
    text = kernel(
        f"""
    %zero = arith.constant 0.0 : f32
    %o = arith.constant 0 : index
    %acc = gpu.fragment : {acc}
    gpu.fill %zero, %acc : {acc}
    %a = gpu.shared_tile : {a}
    %b = gpu.shared_tile : {b}
    gpu.pipeline %k, %i = to %K step 64 stages {stages} {{
      gpu.copy %A[%o, %k] to %a loader "tma" : {TENSOR}, {a}
      gpu.copy %B[%k, %o] to %b loader "tma" : {right}, {b}
      gpu.contract %a affine_map<(m, n, k) -> (m, k)>, %b affine_map<(m, n, k) -> (k, n)>
        into %acc mma "wgmma" warp_tile <64, 32> : {a}, {b}, {acc}
    }}""",
        f"%A: {TENSOR} = tensor 0, %B: {right} = tensor 1, %M: index = symbol M, "
        "%K: index = symbol K, %N: index = symbol N",
        threads=128 * (consumers + 1),
        registers="[40, 232]",
        dispatch="""  gpu.dispatch (A: !gpu.global<[M, K], f16>) -> (B: !gpu.global<[K, N], f16>) {
    gpu.launch @k when (K mod 8 == 0, N mod 8 == 0) align [16, 16] grid [1]
  }""",
    )
    return run(text, *up_to("gpu-plan-shared-memory"))


@dataclass
class Barrier:
    """An mbarrier: ``phase`` counts the completed ones."""

    count: int
    phase: int = 0
    arrived: int = 0
    expected: int = 0

    def settle(self) -> None:
        if self.arrived == self.count and self.expected == 0:
            self.phase, self.arrived = self.phase + 1, 0

    def passes(self, parity: int) -> bool:
        return self.phase % 2 != parity


@dataclass
class Slot:
    """A slot of a tile's ring: the iteration whose copy is in it, or None while one arrives."""

    holds: int | None = None
    readers: set[int] = field(default_factory=set[int])


class Race(AssertionError):
    """Something was read or written at the wrong time."""


class Deadlock(AssertionError):
    """Nobody can go on."""


class Interleaving:
    """One order of the threads' steps, drawn by ``seed``."""

    def __init__(self, module: ModuleOp, iterations: int, seed: int) -> None:
        self.random = random.Random(seed)
        top = only(module, KernelOp)
        threads = top.threads.value.data
        machine = Machine(threads=threads, handlers={hw.WgmmaDescriptorOp: self.address})
        for arg, binding in zip(top.body.block.args, top.bindings, strict=True):
            if binding.kind.data == "symbol":
                machine.set(arg, {"M": 64, "K": 64 * iterations, "N": 32}[str(binding.source.data)])
        machine.run(body_of(module))
        self.tiles: dict[int, tuple[int, int]] = {}
        for op in find(module, hw.SharedTileOp):
            kind = op.tile.type
            assert isinstance(kind, SharedType) and op.offset is not None
            self.tiles[op.offset.value.data] = kind.slot_bytes, kind.ring.data
        self.barriers: dict[tuple[SSAValue, int], Barrier] = {}
        for event in machine.events:
            if isinstance(event.op, hw.MBarrierInitOp):
                key = event.op.barrier, int(event[event.op.index][0])
                self.barriers[key] = Barrier(event.op.count.value.data)
        self.slots: dict[tuple[int, int], Slot] = {}
        self.arriving: list[tuple[int, tuple[int, int], int, Barrier]] = []
        groups = threads // 128
        # One thread stands for its warp: lane 0, which arrives, and the producer's.
        self.threads = [self.thread(machine.events, t, t // 128) for t in range(0, threads, 32)]
        self.threads = self.threads[: 4 * (groups - 1) + 1]
        self.iterations = iterations

    @staticmethod
    def address(event: Event) -> list[NDArray[Any]]:
        assert isinstance(event.op, hw.WgmmaDescriptorOp)
        return [event.operands[0]]

    def slot(self, address: int) -> tuple[int, int]:
        """The tile and the slot that an address is in."""
        start = max(s for s in self.tiles if s <= address)
        size, depth = self.tiles[start]
        number = (address - start) // size
        assert number < depth
        return start, number

    def thread(self, events: list[Event], thread: int, group: int) -> Iterator[None]:
        """The steps of one thread; each ``next`` is one of them or a try to make it."""
        contract, copies, pending = -1, 0, list[list[Slot]]()
        running: Operation | None = None
        for event in events:
            if not event.active[thread]:
                continue

            def at(value: SSAValue, event: Event = event) -> int:
                return int(event.operands[list(event.op.operands).index(value)][thread])

            match event.op:
                case hw.MBarrierWaitOp() as op:
                    barrier = self.barriers[op.barrier, at(op.index)]
                    while not barrier.passes(at(op.parity)):
                        yield
                case hw.MBarrierExpectOp() as op:
                    barrier = self.barriers[op.barrier, at(op.index)]
                    barrier.expected += op.bytes.value.data
                    barrier.arrived += 1
                    barrier.settle()
                case hw.MBarrierArriveOp() as op:
                    barrier = self.barriers[op.barrier, at(op.index)]
                    barrier.arrived += 1
                    barrier.settle()
                case hw.TmaLoadOp() as op:
                    key = self.slot(at(op.address))
                    slot = self.slots.setdefault(key, Slot())
                    if slot.readers:
                        raise Race(f"slot {key} is overwritten while it is read")
                    slot.holds = None
                    assert isinstance(op.map.type, TensorMapType)
                    rows, columns = op.map.type.sizes
                    size = rows * columns * element_bytes(op.map.type.element_type)
                    barrier = self.barriers[op.barrier, at(op.index)]
                    self.arriving.append((copies // len(self.tiles), key, size, barrier))
                    copies += 1
                case hw.WgmmaFenceOp():
                    contract += 1
                    pending.append([])
                    running = event.op
                case hw.WgmmaOp() as op:
                    assert running is not None
                    for operand in (op.a, op.b):
                        slot = self.slots.get(self.slot(at(operand)), Slot())
                        if slot.holds != contract:
                            raise Race(
                                f"contract {contract} reads what iteration {slot.holds} left"
                            )
                        slot.readers.add(thread)
                        pending[-1].append(slot)
                case hw.WgmmaWaitOp() as op:
                    keep = op.pending.value.data
                    while len(pending) > keep:
                        for slot in pending.pop(0):
                            if not any(slot in group for group in pending):
                                slot.readers.discard(thread)
                case _:
                    continue
            yield
        assert contract in (-1, self.iterations - 1)

    def run(self) -> None:
        """Raises Race or Deadlock."""
        idle = 0
        while self.threads:
            step = self.random.randrange(len(self.threads) + len(self.arriving))
            if step < len(self.threads):
                before = self.state()
                try:
                    next(self.threads[step])
                except StopIteration:
                    del self.threads[step]
                    idle = 0
                    continue
                idle = idle + 1 if before == self.state() else 0
            else:
                iteration, key, size, barrier = self.arriving.pop(step - len(self.threads))
                self.slots[key].holds = iteration
                barrier.expected -= size
                barrier.settle()
                idle = 0
            if idle > 400 and not self.arriving:
                raise Deadlock(f"{len(self.threads)} threads wait")

    def state(self) -> tuple[object, ...]:
        """What a step changes unless its thread waits."""
        barriers = tuple((b.phase, b.arrived, b.expected) for b in self.barriers.values())
        readers = tuple(len(s.readers) for s in self.slots.values())
        return barriers, readers, len(self.arriving)


@pytest.mark.turns(3)
@pytest.mark.parametrize("consumers", [1, 2])
@pytest.mark.parametrize("stages", [2, 3, 4, 5])
def test_no_order_of_the_threads_deadlocks_or_races(stages: int, consumers: int) -> None:
    module = specialised(stages, consumers)
    for iterations in (0, 1, stages - 1, stages, 2 * stages + 1, 4 * stages):
        for seed in range(3):
            Interleaving(module, iterations, seed).run()


def shift(module: ModuleOp, barrier: str, by: int) -> None:
    """Make the mistake: the waits for a barrier use another parity."""
    for op in find(module, hw.MBarrierWaitOp):
        if op.barrier.name_hint == barrier:
            owner = op.parity.owner
            assert isinstance(owner, affine.ApplyOp)
            old = owner.map.data
            expr = (old.results[0] + by) % 2
            owner.properties["map"] = AffineMapAttr(AffineMap(1, 0, (expr,)))


def test_a_shifted_parity_is_seen() -> None:
    """The tests above can fail: each role's waits, one phase off."""
    module = specialised(3, 1)
    shift(module, "empty", 1)
    with pytest.raises(Deadlock):
        Interleaving(module, 7, 0).run()
    module = specialised(3, 1)
    shift(module, "full", 1)
    with pytest.raises(Race, match="contract 0 reads"):
        Interleaving(module, 7, 0).run()


def test_a_release_that_comes_too_early_is_seen() -> None:
    """Without the wait for the contract before, its slot is overwritten under it."""
    module = specialised(3, 1)
    for op in find(module, hw.WgmmaWaitOp):
        if op.pending.value.data == 1:
            op.properties["pending"] = type(op.pending).from_index_int_value(2)
    with pytest.raises(Race, match="while it is read"):
        for seed in range(20):
            Interleaving(module, 12, seed).run()


def test_a_release_that_is_missing_is_seen() -> None:
    module = specialised(3, 2)
    for op in find(module, hw.MBarrierInitOp):
        if op.count.value.data == 8:
            op.properties["count"] = type(op.count).from_index_int_value(9)
    Interleaving(module, 3, 0).run()
    with pytest.raises(Deadlock):
        Interleaving(module, 4, 0).run()
