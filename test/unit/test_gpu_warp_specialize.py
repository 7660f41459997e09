"""``gpu-warp-specialize``: which pipelines take roles, and which cannot."""

from __future__ import annotations

from functools import partial

import pytest

from polyc.dialects.gpu import tile
from polyc.dialects.gpu.module import KernelOp
from polyc.test.unit.gpu_programs import TENSOR, pipeline
from polyc.test.unit.gpu_text import assert_refused, find, only, run, unchanged

PASS = "gpu-warp-specialize"


roles = partial(pipeline, "wgmma", "tma", threads=256)
"""A pipeline that takes roles; it has 256 threads, one warpgroup of which loads."""


def test_specialize_warps() -> None:
    module = run(roles(attributes="registers = #gpu.ints<40, 232>"), PASS)
    op = only(module, tile.RolesOp)
    assert not find(module, tile.PipelineOp)
    assert op.register_split == (40, 232) and op.consumers.value.data == 1
    assert op.single_thread is not None
    assert "registers" not in only(module, KernelOp).attributes
    assert [o.name for o in op.producer.walk() if o.name.startswith("gpu.")] == [
        "gpu.ring_acquire",
        "gpu.copy",
        "gpu.yield",
    ]
    assert [o.name for o in op.consumer.walk() if o.name.startswith("gpu.")] == [
        "gpu.fragment",
        "gpu.ring_wait",
        "gpu.contract",
        "gpu.await",
        "gpu.ring_release",
        "gpu.await",
        "gpu.yield",
    ]
    awaits = [o.pending.value.data for o in find(module, tile.AwaitOp)]
    assert awaits == [1, 0]


@pytest.mark.parametrize("threads", [256, 384, 512])
def test_specialize_warps_counts_the_consumers(threads: int) -> None:
    rows = 64 * (threads // 128 - 1)
    text = roles(threads=threads, acc=f"[{rows}, {rows}], f32", tile=f"[{rows}, {rows}], f16")
    text = text.replace("warp_tile <64, 64>", f"warp_tile <64, {rows}>")
    module = run(text, PASS)
    assert only(module, tile.RolesOp).consumers.value.data == threads // 128 - 1
    assert only(module, tile.RingOp).consumers.value.data == threads // 128 - 1


LEFT_ALONE = {
    "copies of the threads": pipeline("wgmma", "cp_async", threads=256),
    "contracts of the warps": pipeline("mma.sync", "tma", threads=256),
    "no contract": roles(contracts=False),
    "no copy": roles(copies=False),
    "a copy without a loader yet": roles().replace(' loader "tma"', ""),
    "one other copy": roles(
        inside=f'gpu.copy %A[%M, %k] to %t loader "register" : {TENSOR}, !gpu.shared<[64, 64], f16>'
    ),
    "a pipeline in a branch": roles(wrap="scf.if %p", before="%p = arith.constant true"),
}


@pytest.mark.parametrize("text", LEFT_ALONE.values(), ids=LEFT_ALONE)
def test_specialize_warps_leaves_alone(text: str) -> None:
    unchanged(text, PASS)


def test_specialize_warps_needs_a_warpgroup_to_load() -> None:
    message = (
        "128 threads leave no warpgroup to load; "
        "a warp-specialised kernel has 128 more than its consumers"
    )
    assert_refused(roles(threads=128), "NoProducer", message, "gpu.kernel", PASS)


def test_specialize_warps_needs_a_second_slot() -> None:
    message = "a pipeline of 1 stage overwrites the tile that is being read; give it 2 to 8"
    assert_refused(roles(stages=1), "PipelineTooShallow", message, "gpu.pipeline", PASS)


@pytest.mark.parametrize(("threads", "computing"), [(384, 256), (512, 384)])
def test_specialize_warps_counts_who_holds_the_accumulator(threads: int, computing: int) -> None:
    message = (
        f"128 threads hold the accumulator and {computing} compute it; "
        "change the kernel's threads, the tile or the warp_tile"
    )
    text = roles(threads=threads)
    passes = ("gpu-layout-inference", PASS)
    assert_refused(text, "ThreadMismatch", message, "gpu.contract", *passes)
