"""What the rings of roles count by, where the iterations of tiles differ (T2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from xdsl.dialects import affine, scf, test
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.module import ModuleOp as GpuModuleOp
from polyc.passes.pipeline import GPU_PASSES
from polyc.passes.support.gpu.uniform import threads_agree
from polyc.playback.gpu import simulate
from polyc.playback.tile import run as played
from polyc.rewriting.emit import Emit, affine_dim
from polyc.test.support.chained_programs import assert_right, chained, growing, inputs, meant
from polyc.test.support.gpu_text import assert_refused, find, kernel, only, parsed, run

PASS = "gpu-warp-specialize"
ROLES = GPU_PASSES[: GPU_PASSES.index(PASS) + 1]
REST = GPU_PASSES[len(ROLES) :]
SIZES = {"M": 330, "N": 260}


def loops(module: ModuleOp) -> list[tile.TileLoopOp]:
    """The producer's and the consumers' loop over the tiles."""
    roles = only(module, tile.RolesOp)
    found = [op for role in (roles.producer, roles.consumer) for op in role.block.ops]
    return [op for op in found if isinstance(op, tile.TileLoopOp)]


def test_roles_carry_what_varies() -> None:
    """The iterations so far and, where a branch may skip the queries, how often they came."""
    carried = {growing(): 2, growing(branch=False): 2, PRODUCT: 1, chained(tiles=True): 0}
    for text, count in carried.items():
        assert [len(loop.iter_args) for loop in loops(run(text, *ROLES))] == [count, count]


def test_rings_count_by_what_is_carried() -> None:
    for loop in loops(run(growing(), *ROLES)):
        first, visit = loop.carried
        for op in find(loop, tile.RingAcquireOp) + find(loop, tile.RingWaitOp):
            if str(op.ring.type) == "!gpu.ring<1>":
                assert op.iteration is visit
            else:
                number = op.iteration.owner
                assert isinstance(number, affine.ApplyOp) and first in number.operands


def test_a_branch_that_is_not_taken_adds_none() -> None:
    for loop in loops(run(growing(), *ROLES)):
        branch = branch_of(loop)
        assert loop.yielded == tuple(branch.results)
        assert tuple(last_of(branch.false_region.block).operands) == loop.carried


MORE = (-200, -100, 0, 64, 500)


@pytest.mark.turns(3)
@pytest.mark.parametrize(("groups", "branch"), [(1, True), (2, False)])
@pytest.mark.parametrize("more", MORE)
def test_threads_find_what_is_meant(groups: int, more: int, branch: bool) -> None:
    """Tiles without keys, with few and with all; with the passes behind it and without them."""
    text = growing(groups, more, branch=branch)
    wanted = meant(inputs(SIZES), groups, more)
    for without in ((), ("gpu-skew", "gpu-turns")):
        assert_right(text, SIZES, *without, wanted=wanted)


@pytest.mark.parametrize("more", MORE)
def test_roles_play_by_tiles(more: int) -> None:
    """Also one op at a time, with whole tiles."""
    kernels = only(run(growing(1, more), *ROLES), GpuModuleOp)
    (found,) = played(kernels, inputs(SIZES), SIZES)
    np.testing.assert_array_equal(found, meant(inputs(SIZES), 1, more))


CONDITION = "%yes = arith.cmpi {} %row, %c0 : index"


@pytest.mark.parametrize("compared", ["sgt,", "eq,"])
def test_a_bound_that_all_tiles_share_in_a_branch_that_they_do_not(compared: str) -> None:
    """The first tile of a CTA is skipped, or all others are."""
    text = chained(1, tiles=True, branch="%yes", before=CONDITION.format(compared))
    given = inputs(SIZES)
    wanted = meant(given, 1)
    wanted[slice(0, 64) if compared == "sgt," else slice(64, None)] = 0
    assert_right(text, SIZES, wanted=wanted)


PRODUCT = """
!A = !gpu.global<[M, K], f16>
!B = !gpu.global<[K, 64], f16>
!C = !gpu.global<[M, 64], f32>
!a = !gpu.shared<[64, 64], f16>
!acc = !gpu.fragment<[64, 64], f32>

gpu.module @m arch "sm_90a" symbols [M, K, T] assuming (K mod 8 == 0) {
  gpu.kernel @k(%A: !A = tensor 0, %B: !B = tensor 1, %S: !gpu.global<[T], i32> = tensor 2,
      %C: !C = tensor 3, %M: index = symbol M, %K: index = symbol K,
      %T: index = symbol T) threads 256 {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %zero = arith.constant 0.0 : f32
    %a = gpu.shared_tile : !a
    %b = gpu.shared_tile : !a
    gpu.tile_loop (%row, %column, %n) = [%M, %c1] tile <64, 1> raster "row" 1 {
      %acc = gpu.fragment : !acc
      gpu.fill %zero, %acc : !acc
      %tile = affine.apply affine_map<(r) -> (r floordiv 64)> (%row)
      %some = gpu.load_global %S[%tile : index] : !gpu.global<[T], i32> -> i32
      %bound = arith.index_cast %some : i32 to index
      gpu.pipeline %k, %i = to %bound step 64 stages 3 {
        gpu.copy %A[%row, %k] to %a loader "tma" : !A, !a
        gpu.copy %B[%k, %c0] to %b loader "tma" : !B, !a
        gpu.contract %a affine_map<(m, n, k) -> (m, k)>, %b affine_map<(m, n, k) -> (k, n)>
            into %acc mma "wgmma" warp_tile <64, 64> : !a, !a, !acc
      }
      gpu.map %acc : !acc origin [%row] ins()
          outs(%C : !C affine_map<(i, j)[r] -> (i + r, j)>) {
      ^bb0(%x: f32):
        gpu.yield %x : f32
      }
    }
    gpu.return
  }
  gpu.dispatch (A: !A, B: !B, S: !gpu.global<[T], i32>) -> (C: !C) {
    gpu.launch @k when (M >= 1, K >= 1) align [16, 16, 4, 16] grid [(M + 63) floordiv 64] persistent
  }
}
"""
"""A product whose rows are as long as a tensor says, tile by tile."""


def test_a_bound_that_is_read() -> None:
    """One contract stays pending, and its slot is released a step late: of none, none is."""
    rng = np.random.default_rng(7)
    given = [rng.integers(-2, 3, s).astype(np.float16) for s in ((448, 256), (256, 64))]
    length = np.array([0, 64, 192, 256, 0, 128, 256], np.int32)
    kernels = only(run(PRODUCT, *GPU_PASSES), GpuModuleOp)
    for seed in range(3):
        result = simulate(
            kernels, [*given, length], {"M": 448, "K": 256, "T": 7}, schedule="random", seed=seed
        )
        assert not result.findings, "\n".join(map(str, result.findings))
        a, b = (x.astype(np.float32) for x in given)
        for number, k in enumerate(length):
            rows = slice(64 * number, 64 * number + 64)
            np.testing.assert_array_equal(result.outputs[0][rows], a[rows, :k] @ b[:k])


def test_a_bound_that_the_kernel_writes_is_refused() -> None:
    text = PRODUCT.replace("gpu.pipeline", "gpu.store_global %some, %S[%c0 : index] : i32, "
                           "!gpu.global<[T], i32>\n      gpu.pipeline")  # fmt: skip
    message = (
        "the bound of this pipeline is read from a tensor that the kernel writes, so that it may "
        "change before the ops of the pipeline run; read it from an input"
    )
    assert_refused(text, "LateCondition", message, "gpu.pipeline", *ROLES)


def test_a_bound_of_a_thread_is_refused() -> None:
    text = PRODUCT.replace("%S[%tile", "%S[%thread").replace(
        "%tile = affine.apply affine_map<(r) -> (r floordiv 64)> (%row)", "%thread = gpu.thread_id"
    )
    message = (
        "this pipeline holds tile ops, which all threads run together, and its bound comes from "
        "gpu.thread_id, which differs between threads; let it depend on sizes, coordinates and "
        "tensors that the kernel only reads"
    )
    assert_refused(text, "VaryingCondition", message, "gpu.pipeline", *ROLES)


def test_ctas_that_fill_each_others_tiles_have_one_bound() -> None:
    text = PRODUCT.replace("threads 256", "threads 256 cluster 2").replace(
        'to %b loader "tma"', 'to %b loader "tma" multicast'
    )
    message = (
        "this pipeline holds a multicast copy, which all CTAs of a cluster make together, and its "
        "bound comes from gpu.tile_loop, which differs between them; copy without multicast, or "
        "let the bound depend on sizes and the loop's position"
    )
    assert_refused(text, "VaryingCondition", message, "gpu.pipeline", *ROLES)


def test_consumers_with_tiles_of_their_own_have_one_bound() -> None:
    text = PRODUCT.replace("threads 256", "threads 384").replace('"row" 1 {', '"row" 1 pingpong {')
    message = (
        "the number of iterations differs from tile to tile, and with pingpong each consumer has "
        "tiles of its own, so that none would know how many iterations those of the others took; "
        "drop pingpong, or let all tiles take as many"
    )
    assert_refused(text, "VaryingPipeline", message, "gpu.pipeline", *ROLES)


@pytest.mark.parametrize("value", ["%seen", "%sum"])
@pytest.mark.parametrize(
    ("start", "following", "agree"),
    [
        ("%K", "%more", True),
        ("%thread", "%more", False),
        ("%K", "%thread", False),
        ("%K", "%wide", False),
    ],
)
def test_threads_agree_on_what_a_loop_carries(
    value: str, start: str, following: str, agree: bool
) -> None:
    """In the loop and behind it: on what it begins with, and on what a tile hands to the next."""
    used = f'"test.op"({value}) : (index) -> ()'
    module = parsed(
        kernel(
            f"""
%thread = gpu.thread_id
%sum = gpu.tile_loop (%r, %c, %n) = [%K, %K] tile <8, 8> raster "row" 1
    iter_args(%seen = {start}) -> (index) {{
  %more = arith.addi %seen, %r : index
  %wide = arith.addi %seen, %thread : index
  {used if value == "%seen" else ""}
  gpu.yield {following} : index
}}
{used if value == "%sum" else ""}
""",
            "%K: index = symbol K",
        )
    )
    (found,) = [op for op in module.walk() if isinstance(op, test.TestOp)]
    assert threads_agree(found.operands[0]) is agree


# Mutants --------------------------------------------------------------------------------------


def alternating() -> ModuleOp:
    """A kernel in roles whose every other tile sees no keys."""
    text = growing(1, 64).replace(
        "%any = arith.cmpi sgt, %end, %c0 : index",
        """%odd = affine.apply affine_map<(n) -> (n mod 2)> (%n)
%any = arith.cmpi slt, %odd, %c1 : index""",
    )
    return run(text, *ROLES)


def verdict(module: ModuleOp) -> str:
    """``right``, or how a kernel was caught."""
    try:
        lowered = run(module, *REST)
    except PolycError as error:
        return error.kind
    given = inputs(SIZES)
    result = simulate(only(lowered, GpuModuleOp), given, SIZES, multiprocessors=1)
    if result.findings:
        return result.findings[0].kind
    wanted = meant(given, 1, 64)
    for row in range(64, len(wanted), 128):
        wanted[row : row + 64] = 0
    return "right" if np.array_equal(result.outputs[0], wanted) else "wrong numbers"


def last_of(block: Block) -> Operation:
    assert block.last_op is not None
    return block.last_op


def not_carried(loop: tile.TileLoopOp, place: int) -> None:
    last_of(loop.body.block).operands[place] = loop.carried[place]


def branch_of(loop: tile.TileLoopOp) -> scf.IfOp:
    (branch,) = [op for op in loop.body.block.ops if isinstance(op, scf.IfOp)]
    return branch


def forgotten(loop: tile.TileLoopOp, place: int) -> None:
    """A branch that is not taken begins from 0 again."""
    last_of(branch_of(loop).false_region.block).operands[place] = loop.iter_args[place]


def off_by_one(loop: tile.TileLoopOp, place: int) -> None:
    """A branch that is taken adds one more."""
    block, emit = branch_of(loop).true_region.block, Emit()
    end = last_of(block)
    more = emit.apply(affine_dim(0) + 1, [end.operands[place]])
    block.insert_ops_before(emit.ops, end)
    end.operands[place] = more


def test_the_kernel_itself_is_right() -> None:
    assert verdict(alternating()) == "right"


@pytest.mark.turns(3)
@pytest.mark.parametrize("place", [0, 1], ids=["iterations", "visits"])
@pytest.mark.parametrize("roles", [(0,), (1,), (0, 1)], ids=["producer", "consumer", "both"])
@pytest.mark.parametrize("change", [not_carried, forgotten, off_by_one])
def test_a_mutant_is_caught(
    change: Callable[[tile.TileLoopOp, int], None], roles: Sequence[int], place: int
) -> None:
    module = alternating()
    for role in roles:
        change(loops(module)[role], place)
    assert verdict(module) != "right"
