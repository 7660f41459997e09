"""``gpu-warp-specialize``: which pipelines take roles, and which cannot."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from xdsl.dialects import affine, arith
from xdsl.ir import Region

from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.kernel import KernelOp
from polyc.dialects.gpu.module import ModuleOp
from polyc.passes.pipeline import GPU_PASSES
from polyc.playback.gpu import simulate
from polyc.test.support.gpu_programs import TENSOR, pipeline
from polyc.test.support.gpu_text import assert_refused, find, only, run, unchanged

PASS = "gpu-warp-specialize"


roles = partial(pipeline, "wgmma", "tma", threads=256)
"""A pipeline that takes roles; it has 256 threads, one warpgroup of which loads."""


def test_specialize_warps() -> None:
    module = run(roles(registers="[40, 232]"), PASS)
    op = only(module, tile.RolesOp)
    assert not find(module, tile.PipelineOp)
    assert op.register_split == (40, 232) and op.consumers.value.data == 1
    assert op.single_thread is not None
    assert only(module, KernelOp).registers is None
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
    awaits = [o.depth for o in find(module, tile.AwaitOp)]
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


# Tile loops ----------------------------------------------------------------------------------


def persistent(
    before: str = "", bound: str = "%K", multicast: str = "", cluster: str = "", share: str = ""
) -> str:
    """A pipeline in a loop over tiles; ``before`` stands in the loop, in front of it."""
    shared, fragment = "!gpu.shared<[64, 64], f16>", "!gpu.fragment<[64, 64], f32>"
    return f"""gpu.module @m arch "sm_90a" symbols [M, K, N] {{
  gpu.kernel @k(%A: {TENSOR} = tensor 0, %M: index = symbol M, %K: index = symbol K)
      threads 256 {cluster} {{
    %zero = arith.constant 0.0 : f32
    %t = gpu.shared_tile : {shared}
    gpu.tile_loop (%r, %c, %n) = [%M, %K] tile <64, 64> raster "grouped" 4 {share} {{
      %acc = gpu.fragment : {fragment}
      gpu.fill %zero, %acc : {fragment}
      {before}
      gpu.pipeline %k, %i = to {bound} step 64 stages 3 {{
        gpu.copy %A[%r, %k] to %t loader "tma" {multicast} : {TENSOR}, {shared}
        gpu.contract %t affine_map<(m, n, k) -> (m, k)>, %t affine_map<(m, n, k) -> (k, n)>
            into %acc mma "wgmma" warp_tile <64, 64> : {shared}, {shared}, {fragment}
      }}
    }}
    gpu.return
  }}
}}
"""


def loop_of(role: Region) -> tile.TileLoopOp:
    (found,) = (op for op in role.block.ops if isinstance(op, tile.TileLoopOp))
    return found


def test_both_roles_walk_the_tiles() -> None:
    module = run(persistent(), PASS)
    op = only(module, tile.RolesOp)
    loads, computes = (loop_of(region) for region in (op.producer, op.consumer))
    assert loads.tile == computes.tile and loads.group == computes.group
    names = [o.name for o in loads.walk() if o.name.startswith("gpu.")]
    assert names == ["gpu.tile_loop", "gpu.ring_acquire", "gpu.copy", "gpu.yield"]
    names = [o.name for o in computes.walk() if o.name.startswith("gpu.")]
    assert names == [
        "gpu.tile_loop",
        "gpu.fragment",
        "gpu.fill",
        "gpu.ring_wait",
        "gpu.contract",
        "gpu.await",
        "gpu.ring_release",
        "gpu.await",
        "gpu.ring_release",
        "gpu.yield",
    ]


def test_consumers_take_turns_over_tiles_of_their_own() -> None:
    text = persistent(share="pingpong").replace("threads 256", "threads 384")
    module = run(text, PASS)
    op = only(module, tile.RolesOp)
    assert op.independent is not None and op.consumers.value.data == 2
    assert only(module, tile.RingOp).consumers.value.data == 1
    loads, computes = (loop_of(region) for region in (op.producer, op.consumer))
    assert loads.share is None and computes.shares is not None
    assert computes.share is op.consumer.block.args[0] and computes.shares.value.data == 2
    assert computes.pingpong is None and loads.pingpong is None
    names = [o.name for o in computes.walk() if o.name.startswith("gpu.")]
    assert names == [
        "gpu.tile_loop",
        "gpu.fragment",
        "gpu.fill",
        "gpu.order_enter",
        "gpu.ring_wait",
        "gpu.contract",
        "gpu.await",
        "gpu.ring_release",
        "gpu.order_leave",
        "gpu.await",
        "gpu.ring_release",
        "gpu.yield",
    ]


def test_one_consumer_takes_no_turns() -> None:
    message = "1 consumer takes no turns; give a kernel with pingpong 384 threads"
    assert_refused(persistent(share="pingpong"), "NoTurns", message, "gpu.kernel", PASS)


def test_turns_without_a_pipeline_are_refused() -> None:
    text = persistent(share="pingpong").replace('loader "tma"', 'loader "cp_async"')
    message = (
        "this loop asks for consumers that take turns, and gpu-warp-specialize made none: it holds "
        "no pipeline of TMA copies and wgmma contracts; drop pingpong"
    )
    assert_refused(text, "NoTurns", message, "gpu.tile_loop", PASS, "gpu-lower-coordinates")


def test_iterations_count_on_from_tile_to_tile() -> None:
    """Iteration i of tile n is number n * iterations + i of the ring, in both roles."""
    op = only(run(persistent(), PASS), tile.RolesOp)
    for region in (op.producer, op.consumer):
        loop = loop_of(region)
        (first,) = [o for o in loop.body.block.ops if isinstance(o, arith.MuliOp)]
        assert first.lhs is loop.ordinal
        step = find(loop, tile.RingAcquireOp) or find(loop, tile.RingWaitOp)
        number = step[0].iteration.owner
        assert isinstance(number, affine.ApplyOp) and first.result in number.operands


def test_what_copies_need_of_a_tile_goes_along() -> None:
    before = "%half = affine.apply affine_map<(r) -> (r floordiv 2)> (%r)"
    text = persistent(before).replace("gpu.copy %A[%r, %k]", "gpu.copy %A[%half, %k]")
    loop = loop_of(only(run(text, PASS), tile.RolesOp).producer)
    copy = only(loop, tile.CopyOp)
    owner = copy.indices[0].owner
    assert isinstance(owner, affine.ApplyOp) and list(owner.operands) == [loop.coordinates[0]]


def test_a_multicast_ring_spans_the_cluster() -> None:
    ring = only(run(persistent(multicast="multicast", cluster="cluster 2"), PASS), tile.RingOp)
    assert ring.peer_count == 2
    assert only(run(persistent(cluster="cluster 2"), PASS), tile.RingOp).peer_count == 1


def test_iterations_that_differ_from_tile_to_tile_are_carried() -> None:
    """Each role computes them; ``test_role_counts.py`` has what they are for."""
    op = only(run(persistent(bound="%r"), PASS), tile.RolesOp)
    for region in (op.producer, op.consumer):
        loop = loop_of(region)
        (following,) = (value.owner for value in loop.yielded)
        assert isinstance(following, affine.ApplyOp) and loop.carried[0] in following.operands


def test_copies_that_need_what_consumers_do_are_refused() -> None:
    before = "%x = arith.index_cast %r : index to i32\n"
    before += "      %y = gpu.load_shared %x : i32\n"
    before += "      %z = arith.index_cast %y : i32 to index"
    text = persistent(before).replace("gpu.copy %A[%r, %k]", "gpu.copy %A[%z, %k]")
    message = (
        "the copies of the pipeline need gpu.load_shared, which only its consumers run; move it "
        "out of the tile loop or write the roles out"
    )
    assert_refused(text, "BadProducer", message, "gpu.load_shared", PASS)


def test_shared_tile_loops_are_their_authors() -> None:
    unchanged(persistent(share="share %M of 2"), PASS)


COMPUTED = """
!A = !gpu.global<[M, K], f16>
!B = !gpu.global<[K, N], f16>
!C = !gpu.global<[M, N], f16>
!a = !gpu.shared<[128, 64], f16>
!b = !gpu.shared<[64, 64], f16>
!acc = !gpu.fragment<[128, 64], f32>
!left = !gpu.fragment<[128, 64], f16>

gpu.module @relu arch "sm_90a" symbols [M, K, N] assuming (K mod 8 == 0, N mod 8 == 0, K >= 1) {
  gpu.kernel @relu(
      %A: !A = tensor 0, %B: !B = tensor 1, %C: !C = tensor 2,
      %M: index = symbol M, %N: index = symbol N, %K: index = symbol K) threads 384 {
    %zero = arith.constant 0.0 : f32
    %row, %column = gpu.tile_coordinates[%M, %N] tile <128, 64> raster "row" 1
    %a = gpu.shared_tile : !a
    %b = gpu.shared_tile : !b
    %acc = gpu.fragment : !acc
    %raw = gpu.fragment : !left
    %left = gpu.fragment : !left
    gpu.fill %zero, %acc : !acc
    gpu.pipeline %k, %i = to %K step 64 stages 3 {
      gpu.copy %A[%row, %k] to %a loader "tma" : !A, !a
      gpu.copy %B[%k, %column] to %b loader "tma" : !B, !b
      gpu.copy %a to %raw : !a, !left
      gpu.map %raw : !left origin [] ins() outs(%left : !left affine_map<(i, j) -> (i, j)>) {
      ^bb0(%x: f16):
        %wide = arith.extf %x : f16 to f32
        %none = arith.constant 0.0 : f32
        %y = arith.maximumf %wide, %none : f32
        %z = arith.truncf %y : f32 to f16
        gpu.yield %z : f16
      }
      gpu.contract %left affine_map<(m, n, k) -> (m, k)>, %b affine_map<(m, n, k) -> (k, n)>
          into %acc mma "wgmma" warp_tile <64, 64> : !left, !b, !acc
    }
    gpu.map %acc : !acc origin [%row, %column] ins()
        outs(%C : !C affine_map<(i, j)[r, c] -> (i + r, j + c)>) {
    ^bb0(%x: f32):
      %y = arith.truncf %x : f32 to f16
      gpu.yield %y : f16
    }
    gpu.return
  }
  gpu.dispatch (A: !A, B: !B) -> (C: !C) {
    gpu.launch @relu align [16, 16, 16] grid [M ceildiv 128, N ceildiv 64]
  }
}
"""
"""A product by hand whose left operand consumers compute in registers."""


def test_what_consumers_compute_has_two_fragments() -> None:
    """The one that the pending contract reads is not written: two steps an iteration, in turn."""
    module = run(COMPUTED, *GPU_PASSES[: GPU_PASSES.index(PASS) + 1])
    consumer = only(module, tile.RolesOp).consumer
    contracts = [op for op in consumer.walk() if isinstance(op, tile.ContractOp)]
    first, second, last = (op.lhs for op in contracts)
    assert first is last and first is not second
    for contract in contracts:
        before = contract.prev_op
        assert isinstance(before, tile.MapOp) and contract.lhs in before.outputs


@pytest.mark.parametrize("k", [8, 64, 136, 320])
def test_a_computed_operand_is_right(k: int) -> None:
    """One step, an even and an odd number of them, and tails; no register is written too early."""
    kernels = only(run(COMPUTED, *GPU_PASSES), ModuleOp)
    sizes = {"M": 130, "K": k, "N": 72}
    dice = np.random.default_rng(k)
    a, b = (dice.integers(-3, 4, s).astype(np.float16) for s in ((130, k), (k, 72)))
    result = simulate(kernels, [a, b], sizes, schedule="random", seed=k)
    assert not result.findings, "\n".join(map(str, result.findings))
    wanted = np.maximum(a, 0).astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_array_equal(result.outputs[0].astype(np.float32), wanted)


def test_one_fragment_is_written_too_early() -> None:
    """What the two fragments are for: the simulator sees a register written that is read still."""
    kernels = only(run(COMPUTED, *GPU_PASSES), ModuleOp)
    products = find(kernels, hw.WgmmaRegistersOp)
    first, second = dict.fromkeys(op.a for op in products)
    second.replace_all_uses_with(first)
    inputs = [np.ones((130, 320), np.float16), np.ones((320, 72), np.float16)]
    found = simulate(kernels, inputs, {"M": 130, "K": 320, "N": 72}).findings
    assert "AccumulatorRace" in {finding.kind for finding in found}
