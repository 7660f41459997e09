"""``gpu-inject-pipeline``: every tile is there when it is read, and read before it goes."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.kernel import KernelOp
from polyc.test.support.evaluate import Event, Machine
from polyc.test.support.gpu_programs import pipeline
from polyc.test.support.gpu_text import assert_refused, body_of, find, only, run

PASS = "gpu-inject-pipeline"
BEFORE = ("gpu-layout-inference", "gpu-multi-version-buffers")


def steps(module: ModuleOp, k: int) -> list[Event]:
    machine = Machine(handlers={tile.FragmentOp: lambda event: [np.zeros(1)]})
    _, m, size = only(module, KernelOp).body.block.args
    machine.set(m, 0)
    machine.set(size, k)
    return machine.run(body_of(module)).events


@dataclass
class Slot:
    """What is known of a slot of the ring."""

    holds: int = -1
    group: int = -1
    """The cp.async group of its copy; registers have none and are there at once."""
    read_since_barrier: bool = False


@dataclass
class Stream:
    """The order of one thread's steps, where every other thread takes the same ones."""

    stages: int
    asynchronous: bool
    group: int = 0
    arrived: int = 0
    seen_by_all: int = 0
    copied: int = 0
    met: int = 0
    read: int = 0
    slots: dict[int, Slot] = field(default_factory=dict[int, Slot])

    def step(self, event: Event) -> None:
        match event.op:
            case tile.CopyOp() as op:
                assert op.slot is not None
                number = int(event[op.slot][0])
                slot = self.slots.setdefault(number, Slot())
                assert not slot.read_since_barrier, f"slot {number} may still be read"
                self.slots[number] = Slot(self.copied, self.group)
                self.copied += 1
            case hw.CpAsyncCommitOp():
                self.group += 1
            case hw.CpAsyncWaitOp() as op:
                self.arrived = self.group - op.pending.value.data
            case hw.BarrierOp():
                self.seen_by_all, self.met = self.arrived, self.copied
                for slot in self.slots.values():
                    slot.read_since_barrier = False
            case tile.ContractOp() as op:
                assert op.lhs_slot is not None and op.rhs_slot is not None
                number = int(event[op.lhs_slot][0])
                slot = self.slots[number]
                assert slot.holds == self.read, f"iteration {self.read} reads {slot.holds}"
                if self.asynchronous:
                    assert slot.group < self.seen_by_all, "the copy may not have arrived"
                else:
                    assert slot.holds < self.met, "other threads may not have stored yet"
                slot.read_since_barrier = True
                self.read += 1
            case _:
                pass


@pytest.mark.parametrize("loader", ["cp_async", "register"])
@pytest.mark.parametrize("stages", range(2, 9))
def test_inject_pipeline_reads_what_has_arrived(stages: int, loader: str) -> None:
    module = run(pipeline(loader=loader, stages=stages), *BEFORE, PASS)
    assert not find(module, tile.PipelineOp)
    for iterations in (0, 1, stages - 1, stages, 2 * stages + 1):
        stream = Stream(stages, loader == "cp_async")
        for event in steps(module, 64 * iterations - (iterations > 0)):
            stream.step(event)
        assert stream.read == stream.copied == iterations


def test_a_wait_that_is_too_weak_is_seen() -> None:
    """The test above can fail: one group more may be missing."""
    module = run(pipeline(stages=3), *BEFORE, PASS)
    wait = only(module, hw.CpAsyncWaitOp)
    wait.properties["pending"] = type(wait.pending).from_index_int_value(2)
    stream = Stream(3, True)
    with pytest.raises(AssertionError, match="may not have arrived"):
        for event in steps(module, 640):
            stream.step(event)


def test_a_barrier_that_is_missing_is_seen() -> None:
    module = run(pipeline(stages=3), *BEFORE, PASS)
    only(module, hw.BarrierOp).detach()
    stream = Stream(3, True)
    with pytest.raises(AssertionError, match="may not have arrived"):
        for event in steps(module, 640):
            stream.step(event)


REFUSED = {
    "tma without roles": (
        pipeline(loader="tma"),
        "NoRoles",
        "a pipeline of TMA copies runs on roles (gpu-warp-specialize), which take wgmma "
        "contracts; choose cp_async or register copies for mma.sync",
    ),
    "wgmma on what threads wrote": (
        pipeline("wgmma"),
        "NoRoles",
        "wgmma reads tiles that TMA brought (gpu-warp-specialize), since it does not see "
        "what threads wrote; choose tma copies, or mma.sync contracts",
    ),
    "one stage": (
        pipeline(stages=1),
        "PipelineTooShallow",
        "a pipeline of 1 stage overwrites the tile that is being read; give it 2 to 8",
    ),
    "no copy": (
        pipeline(copies=False),
        "NothingToPipeline",
        "this pipeline copies nothing; use scf.for",
    ),
}


@pytest.mark.parametrize(("text", "kind", "message"), REFUSED.values(), ids=REFUSED)
def test_inject_pipeline_refuses(text: str, kind: str, message: str) -> None:
    assert_refused(text, kind, message, "gpu.pipeline", PASS)


def test_inject_pipeline_counts_who_holds_the_accumulator() -> None:
    message = (
        "128 threads hold the accumulator and 256 compute it; "
        "change the kernel's threads, the tile or the warp_tile"
    )
    text = pipeline(threads=256)
    assert_refused(text, "ThreadMismatch", message, "gpu.contract", *BEFORE, PASS)
