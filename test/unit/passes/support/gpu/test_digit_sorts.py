"""Rows sorted digit by digit: by any bits, in tiles and in threads, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import i8, i64

from polyc.dialects.gpu.module import ModuleOp
from polyc.dialects.gpu.tile.digits import values_of
from polyc.passes.pipeline import GPU_PASSES
from polyc.passes.support.gpu.digit_sorts import Digits
from polyc.passes.support.gpu.tile_digits import DIGIT_PATTERNS
from polyc.playback import tile as playback
from polyc.playback.functions import order_by_bits
from polyc.playback.gpu import simulate
from polyc.playback.tile.digits import DIGITS
from polyc.test.support.gpu_text import assert_refused, kernel, only, parsed, run

ARGS = "%X: !gpu.global<[1, N], i64> = tensor 0, %N: index = symbol N"
DISPATCH = """
  gpu.dispatch () -> (X: !gpu.global<[1, N], i64>) {
    gpu.launch @k align [8] grid [1]
  }"""


def text(by: str, columns: int = 256) -> str:
    """A CTA makes a row in shared memory, sorts it by bits, and writes it."""
    made = """
    %zero = arith.constant 0 : index
    %row = gpu.shared_tile at 0 : !gpu.shared<[1, 256], i64, swizzle 0>
    %space = gpu.fragment : !gpu.fragment<[1, 256], i64>
    gpu.map %space : !gpu.fragment<[1, 256], i64> origin [] ins()
        outs(%space : !gpu.fragment<[1, 256], i64> affine_map<(i, j) -> (i, j)>) {
    ^bb0(%e: i64):
      %at = gpu.tile_index 1
      %n = arith.index_cast %at : index to i64
      %by = arith.constant 7919 : i64
      %m = arith.muli %n, %by : i64
      %c = arith.constant 3037000493 : i64
      %x = arith.muli %m, %c : i64
      gpu.yield %x : i64
    }
    gpu.copy %space to %row : !gpu.fragment<[1, 256], i64>, !gpu.shared<[1, 256], i64, swizzle 0>
    gpu.sort %row[] count %N BY : !gpu.shared<[1, 256], i64, swizzle 0>
    gpu.map %space : !gpu.fragment<[1, 256], i64> origin []
        ins(%row : !gpu.shared<[1, 256], i64, swizzle 0> affine_map<(i, j) -> (i, j)>)
        outs(%X : !gpu.global<[1, N], i64> affine_map<(i, j) -> (i, j)>) {
    ^bb0(%e: i64, %v: i64):
      gpu.yield %v : i64
    }
"""
    made = made.replace("BY", by).replace("256", str(columns))
    return kernel(made, ARGS, threads=64, symbols="N", dispatch=DISPATCH)


@pytest.mark.parametrize(
    ("bits", "unsigned"), [((20, 39), False), ((0, 8), True), ((56, 64), False), ((10, 50), True)]
)
def test_a_row_by_some_bits(bits: tuple[int, int], unsigned: bool) -> None:
    said = f"by <{bits[0]}, {bits[1]}>" + (" unsigned" if unsigned else "")
    for count in (256, 201):
        row = (np.arange(count, dtype=np.int64) * 7919) * 3037000493
        right = row[order_by_bits(row, bits, 0, unsigned)]
        (found,) = playback.run(only(parsed(text(said)), ModuleOp), [], {"N": count}, "k")
        np.testing.assert_array_equal(np.asarray(found)[0], right)
        lowered = run(text(said), *GPU_PASSES)
        result = simulate(lowered, [], {"N": count}, "k", schedule="random", seed=count)
        result.check()
        np.testing.assert_array_equal(result.outputs[0][0], right)


def test_threads_that_do_not_share_a_row() -> None:
    message = (
        "64 threads sort a row of 96 elements by bits, which they do not share evenly in whole "
        "warps; take a multiple of them"
    )
    wrong = """
    %row = gpu.shared_tile at 0 : !gpu.shared<[1, 96], i64>
    %n = arith.constant 96 : index
    gpu.sort %row[] count %n by <0, 8> : !gpu.shared<[1, 96], i64>"""
    assert_refused(
        kernel(wrong, threads=64), "ThreadMismatch", message, "gpu.sort", "gpu-lower-tile-ops"
    )


def test_how_bits_are_cut_into_digits() -> None:
    whole = Digits(i64, (32, 64), False, 256)
    assert (whole.count, whole.size, whole.values, whole.base, whole.is_wide) == (
        *(4, 8, 256),
        *(32, False),
    )
    few = Digits(i8, (0, 8), True, 64)
    assert (few.count, few.size, few.values) == (2, 4, 32)
    assert Digits(i64, (0, 64), False, 512).is_wide
    assert Digits(i64, (32, 48), False, 64).last == (1 << 47) - 1
    assert values_of((3, 5)) == 32 and values_of((32, 40)) == 256


def test_what_is_played_is_lowered() -> None:
    assert len(DIGITS) == len(DIGIT_PATTERNS) == 4
