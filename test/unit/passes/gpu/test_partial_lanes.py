"""``gpu-partial-lanes``: which running sums lanes keep, and that their sum is the same (T2)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.module import ModuleOp
from polyc.dialects.gpu.types import FragmentType
from polyc.passes.pipeline import GPU_PASSES
from polyc.passes.support.gpu.scope import in_loop
from polyc.playback.gpu import simulate
from polyc.test.support.gpu_text import find, only, printed, run
from polyc.test.support.turns import examples

PASS = "gpu-partial-lanes"

FMA = "%t = math.fma %old, %f, %new : f32"


def summed(
    step: str = FMA,
    *,
    warp: str = "<16, 32>",
    fill: str = "%zero",
    by: str = "(i, j) -> (i)",
    kind: str = "sum",
    inside: str = "",
    loop: bool = True,
) -> str:
    """Row sums of A · B, block by block of B: each step halves the sum so far and adds its own."""
    acc, row = "!gpu.fragment<[64, 32], f32>", "!gpu.fragment<[64], f32>"
    held = "!gpu.shared<[64, 32], f16>", "!gpu.shared<[32, 32], f16>"
    body = f"""
  gpu.copy %B[%k, %c0] to %b loader "register" : !gpu.global<[N, 32], f16>, {held[1]}
  gpu.contract %a affine_map<(m, n, k) -> (m, k)>, %b affine_map<(m, n, k) -> (n, k)>
      into %s clear mma "mma.sync" warp_tile {warp} : {held[0]}, {held[1]}, {acc}
  gpu.reduce {kind} %s by affine_map<{by}> into %part : {acc}, {row}
  {inside}
  gpu.map %l : {row} origin []
      ins(%part : {row} affine_map<(i) -> (i)>, %half : {row} affine_map<(i) -> (i)>)
      outs(%l : {row} affine_map<(i) -> (i)>) {{
  ^bb0(%old: f32, %new: f32, %f: f32):
    {step}
    gpu.yield %t : f32
  }}"""
    walk = f"gpu.pipeline %k, %i = to %N step 32 stages 2 {{ {body} }}"
    if not loop:
        walk = "%k = arith.constant 0 : index\n" + body
    return f"""
gpu.module @m arch "sm_80" symbols [N] {{
  gpu.kernel @k(%A: !gpu.global<[64, 32], f16> = tensor 0, %B: !gpu.global<[N, 32], f16> = tensor 1,
      %O: !gpu.global<[64], f32> = tensor 2, %N: index = symbol N) threads 128 {{
    %c0 = arith.constant 0 : index
    %zero = arith.constant 0.0 : f32
    %one = arith.constant 1.0 : f32
    %point = arith.constant 0.5 : f32
    %a = gpu.shared_tile : {held[0]}
    %b = gpu.shared_tile : {held[1]}
    %s = gpu.fragment : {acc}
    %part = gpu.fragment : {row}
    %half = gpu.fragment : {row}
    %l = gpu.fragment : {row}
    gpu.fill {fill}, %l : {row}
    gpu.fill %point, %half : {row}
    gpu.copy %A[%c0, %c0] to %a loader "register" : !gpu.global<[64, 32], f16>, {held[0]}
    {walk}
    gpu.map %l : {row} origin [] ins() outs(%O : !gpu.global<[64], f32> affine_map<(i) -> (i)>) {{
    ^bb0(%x: f32):
      gpu.yield %x : f32
    }}
    gpu.return
  }}
  gpu.dispatch (A: !gpu.global<[64, 32], f16>, B: !gpu.global<[N, 32], f16>)
      -> (O: !gpu.global<[64], f32>) {{
    gpu.launch @k when (N >= 1) align [16, 16, 16] grid [1]
  }}
}}
"""


KEPT = {
    "a multiply-add": FMA,
    "a multiply-add, turned": "%t = math.fma %f, %old, %new : f32",
    "a product and a sum": "%u = arith.mulf %f, %old : f32\n%t = arith.addf %new, %u : f32",
    "a sum alone": "%t = arith.addf %old, %new : f32",
}


@pytest.mark.parametrize("step", KEPT.values(), ids=KEPT)
def test_a_running_sum_is_kept_by_lanes(step: str) -> None:
    module = run(summed(step), PASS)
    inside, joined = find(module, tile.ReduceOp)
    kinds = [str(inside.target.type), str(joined.source.type), str(joined.target.type)]
    assert kinds == [f"!gpu.fragment<{sizes}, f32>" for sizes in ("[64, 4]", "[64, 4]", "[64]")]
    (step_map,) = [m for m in find(module, tile.MapOp) if m.space is joined.source]
    assert [len(m.results) for m in step_map.input_maps] == [2, 1]
    reader = find(module, tile.MapOp)[-1]
    assert reader.space is joined.target and joined.next_op is reader


def shuffles(*without: str) -> tuple[int, int]:
    """How many exchanges between lanes a kernel has in its loops, and outside of them."""
    module = run(summed(), *(name for name in GPU_PASSES if name not in without))
    found = find(module, hw.ShuffleOp)
    inside = sum(in_loop(op) for op in found)
    return inside, len(found) - inside


def test_no_step_shuffles() -> None:
    """The lanes meet once, behind the loop."""
    inside, outside = shuffles()
    assert inside == 0 < outside
    assert shuffles(PASS) == (outside, 0)


ROW = "!gpu.fragment<[64], f32>"

LEFT_ALONE = {
    "another reduction": summed(kind="max"),
    "a row in two warps": summed(warp="<32, 16>"),
    "a sum that begins at 1": summed(fill="%one"),
    "no loop": summed(loop=False),
    "the square of the sum": summed("%t = math.fma %old, %old, %new : f32"),
    "a factor that is the part": summed("%t = math.fma %old, %new, %new : f32"),
    "a difference": summed("%t = arith.subf %old, %new : f32"),
    "a part that something else reads": summed(
        inside=f"gpu.map %half : {ROW} origin [] ins(%part : {ROW} affine_map<(i) -> (i)>) "
        f"outs(%half : {ROW} affine_map<(i) -> (i)>) {{\n^bb0(%x: f32, %y: f32):\n"
        "  gpu.yield %y : f32\n}"
    ),
    "a sum that is read in the loop": summed(
        inside=f"gpu.map %l : {ROW} origin [] ins() outs(%half : {ROW} affine_map<(i) -> (i)>) "
        "{\n^bb0(%x: f32):\n  gpu.yield %x : f32\n}"
    ),
    "columns": summed().replace("gpu.fragment<[64], f32>", "gpu.fragment<[32], f32>").replace(
        "(i, j) -> (i)>", "(i, j) -> (j)>"
    ),
}  # fmt: skip


@pytest.mark.parametrize("text", LEFT_ALONE.values(), ids=LEFT_ALONE)
def test_sums_that_stay_whole(text: str) -> None:
    module = run(text)
    before = printed(module)
    assert printed(run(module, PASS)) == before


def test_twice_is_once() -> None:
    once = printed(run(summed(), PASS))
    assert printed(run(once, PASS)) == once


def test_a_layout_of_the_authors_stays() -> None:
    module = run(summed(), "gpu-layout-inference")
    kinds = {str(op.fragment.type) for op in find(module, tile.FragmentOp)}
    before = printed(module)
    assert all("layout" in kind for kind in kinds) and printed(run(module, PASS)) == before
    assert all(isinstance(op.fragment.type, FragmentType) for op in find(module, tile.FragmentOp))


@settings(max_examples=examples(10), deadline=None)
@given(st.integers(1, 150), st.integers(0, 1000), st.sampled_from(list(KEPT.values())))
def test_the_sum_is_the_same(n: int, seed: int, step: str) -> None:
    """Exactly, for numbers whose sums are: the order of a sum is all that changes."""
    rng = np.random.default_rng(seed)
    a = rng.integers(-2, 3, (64, 32)).astype(np.float16)
    b = rng.integers(-2, 3, (n, 32)).astype(np.float16)
    whole, lanes = (
        simulate(only(run(summed(step), *passes), ModuleOp), [a, b], {"N": n})
        for passes in (GPU_PASSES, [name for name in GPU_PASSES if name != PASS])
    )
    assert not whole.findings and not lanes.findings
    np.testing.assert_array_equal(whole.outputs[0], lanes.outputs[0])
