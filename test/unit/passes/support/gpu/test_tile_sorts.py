"""Networks and pools sort rows of every length, with every number of threads, in any schedule."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyc.dialects.gpu.module import ModuleOp
from polyc.passes.pipeline import GPU_PASSES
from polyc.playback import tile as playback
from polyc.playback.gpu import simulate
from polyc.test.support.gpu_text import assert_refused, kernel, only, parsed, run
from polyc.test.support.turns import examples

ARGS = "%X: !gpu.global<[M, N], i64> = tensor 0, %M: index = symbol M, %N: index = symbol N"
DISPATCH = """
  gpu.dispatch () -> (X: !gpu.global<[M, N], i64>) {
    gpu.launch @k align [8] grid [M]
  }"""


def in_memory(threads: int, unsigned: str, columns: int = 128) -> str:
    """Each CTA sorts a row of X where it lies."""
    fill = """
    %b = gpu.block_id
    %zero = arith.constant 0 : index
    %space = gpu.fragment : !gpu.fragment<[1, 128], i64>
    gpu.map %space : !gpu.fragment<[1, 128], i64> origin [%b] ins()
        outs(%X : !gpu.global<[M, N], i64> affine_map<(i, j)[b] -> (b, j)>) {
    ^bb0(%e: i64):
      %at = gpu.tile_index 1
      %n = arith.index_cast %at : index to i64
      %by = arith.constant 7919 : i64
      %c = arith.constant 3037000493 : i64
      %m = arith.muli %n, %by : i64
      %x = arith.xori %m, %c : i64
      %low = arith.constant 255 : i64
      %few = arith.andi %x, %low : i64
      %mid = arith.constant 128 : i64
      %y = arith.subi %few, %mid : i64
      gpu.yield %y : i64
    }
"""
    fill = fill.replace("[1, 128]", f"[1, {columns}]")
    sort = f"    gpu.sort %X[%b] count %N {unsigned} : !gpu.global<[M, N], i64>\n"
    return kernel(fill + sort, ARGS, threads=threads, symbols="M, N", dispatch=DISPATCH)


def numbers(count: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    whole = np.arange(count, dtype=np.int64)
    return ((whole * 7919 ^ 3037000493) & 255) - 128


@settings(max_examples=examples(10), deadline=None)
@given(st.integers(0, 128), st.sampled_from((32, 64, 128)), st.booleans())
def test_a_row_of_any_length(count: int, threads: int, unsigned: bool) -> None:
    text = in_memory(threads, "unsigned" if unsigned else "")
    right = numbers(count)
    right = np.sort(right.view(np.uint64)).view(np.int64) if unsigned else np.sort(right)
    sizes = {"M": 1, "N": count}
    (found,) = playback.run(only(parsed(text), ModuleOp), [], sizes, "k")
    np.testing.assert_array_equal(np.asarray(found)[0], right)
    result = simulate(run(text, *GPU_PASSES), [], sizes, "k", schedule="random", seed=count)
    result.check()
    np.testing.assert_array_equal(result.outputs[0][0], right)


@pytest.mark.parametrize(
    "op",
    [
        "gpu.sort %row[] count %half : !gpu.shared<[1, 64], i32>",
        "gpu.kept %row, %held fill 4 : !gpu.shared<[1, 64], i32>, !gpu.shared<[1, 1], i32>",
    ],
)
def test_threads_that_do_not_come_by_together(op: str) -> None:
    text = kernel(f"""
    %row = gpu.shared_tile at 0 : !gpu.shared<[1, 64], i32>
    %held = gpu.shared_tile at 0 : !gpu.shared<[1, 1], i32>
    %half = arith.constant 64 : index
    %thread = gpu.thread_id
    %low = arith.cmpi slt, %thread, %half : index
    scf.if %low {{
      {op}
    }}""")
    name = op.split()[0]
    message = (
        f"{name} lets all 128 threads meet, in a branch that they do not take together; move it "
        "out, or let the condition depend on sizes and coordinates alone"
    )
    assert_refused(text, "DivergentBarrier", message, name, "gpu-lower-tile-ops")
