"""Digits of what is sorted, and the ops that count, sum and move by them as instructions."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import i8, i32, i64

from polyc.dialects.gpu.module import ModuleOp
from polyc.dialects.gpu.tile.digits import (
    MOST_BITS,
    CountDigitOp,
    MoveByDigitOp,
    SortByDigitOp,
    SumCountsOp,
)
from polyc.passes.pipeline import GPU_PASSES
from polyc.passes.support.gpu.digit_sorts import Digits
from polyc.passes.support.gpu.tile_digits import (
    AT_ONCE,
    LowerCountDigit,
    LowerMoveByDigit,
    LowerSortByDigit,
    LowerSumCounts,
)
from polyc.playback.gpu import simulate
from polyc.rewriting.driver import rewrite, verify
from polyc.test.support.gpu_text import kernel, only, parsed, run

OPS = CountDigitOp, SumCountsOp, MoveByDigitOp, SortByDigitOp

TEXT = kernel(
    """
    %r = gpu.block_id
    %one = arith.constant 1 : index
    %row = gpu.shared_tile at 0 : !gpu.shared<[1, 512], i64>
    gpu.count_digit %row count %N by <32, 40> to %C[%r, %one] : !gpu.shared<[1, 512], i64>, !gpu.global<[M, T, 256], i32>
    gpu.sum_counts %C[%r] first %one of %T to %S : !gpu.global<[M, T, 256], i32>, !gpu.global<[M, 256], i32>
    gpu.move_by_digit %row count %N by <32, 40> from %C, %S[%r] tile %one to %X[%r] : !gpu.shared<[1, 512], i64>, !gpu.global<[M, T, 256], i32>, !gpu.global<[M, 256], i32>, !gpu.global<[M, N], i64>
    %bases = gpu.shared_tile at 4096 : !gpu.shared<[1, 256], i32>
    gpu.sort_by_digit %row count %N by <32, 40> from %C, %S[%r] tile %one to %bases : !gpu.shared<[1, 512], i64>, !gpu.global<[M, T, 256], i32>, !gpu.global<[M, 256], i32>, !gpu.shared<[1, 256], i32>
""",  # noqa: E501
    "%X: !gpu.global<[M, N], i64> = tensor 0, %C: !gpu.global<[M, T, 256], i32> = tensor 1, "
    "%S: !gpu.global<[M, 256], i32> = tensor 2, %N: index = symbol N, %T: index = symbol T",
    threads=256,
    symbols="M, N, T",
)


@pytest.mark.parametrize(
    ("pattern", "lowered"),
    [
        (LowerCountDigit, CountDigitOp),
        (LowerSumCounts, SumCountsOp),
        (LowerMoveByDigit, MoveByDigitOp),
        (LowerSortByDigit, SortByDigitOp),
    ],
)
def test_each_op_has_its_pattern(pattern: type, lowered: type) -> None:
    """It leaves the others."""
    module = parsed(TEXT)
    rewrite(module, [pattern()])
    verify(module)
    left = {kind for kind in OPS if any(isinstance(op, kind) for op in module.walk())}
    assert left == set(OPS) - {lowered}


SUMS = kernel(
    """
    %thread = gpu.thread_id
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %step = arith.constant 64 : index
    %end = arith.constant 256 : index
    scf.for %t = %zero to %T step %one {
      scf.for %v = %thread to %end step %step {
        %x = gpu.load_global %X[%zero, %t, %v : index, index, index] : !gpu.global<[M, T, 256], i32> -> i32
        gpu.store_global %x, %C[%zero, %t, %v : index, index, index] : i32, !gpu.global<[M, T, 256], i32>
      }
    }
    %none = arith.constant 0 : i32
    scf.for %v = %thread to %end step %step {
      gpu.store_global %none, %S[%zero, %v : index, index] : i32, !gpu.global<[M, 256], i32>
    }
    gpu.barrier
    gpu.sum_counts %C[%zero] first %zero of %T to %S : !gpu.global<[M, T, 256], i32>, !gpu.global<[M, 256], i32>
""",  # noqa: E501
    "%X: !gpu.global<[M, T, 256], i32> = tensor 0, %C: !gpu.global<[M, T, 256], i32> = tensor 1, "
    "%S: !gpu.global<[M, 256], i32> = tensor 2, %M: index = symbol M, %T: index = symbol T",
    threads=64,
    symbols="M, T",
    dispatch="""
  gpu.dispatch (X: !gpu.global<[M, T, 256], i32>) -> (C: !gpu.global<[M, T, 256], i32>, S: !gpu.global<[M, 256], i32>) {
    gpu.launch @k align [4, 4, 4] grid [1]
  }""",  # noqa: E501
)


@pytest.mark.parametrize("tiles", [1, 8, 8 * AT_ONCE, 8 * AT_ONCE + 9])
def test_sums_of_counts_are_those_of_the_tiles_before(tiles: int) -> None:
    """Of eight values by 64 threads: eight runs of tiles, of as many as are on their way at once,
    of fewer, and of more."""
    x = np.random.default_rng(tiles).integers(0, 99, (1, tiles, 256)).astype(np.int32)
    result = simulate(only(run(SUMS, *GPU_PASSES), ModuleOp), [x], {"M": 1, "T": tiles})
    result.check()
    found, totals = result.outputs
    before = np.cumsum(x, axis=1) - x
    np.testing.assert_array_equal(found[:, :, :8], before[:, :, :8])
    np.testing.assert_array_equal(totals[:, :8], x.sum(axis=1)[:, :8])


@pytest.mark.parametrize("threads", [32, 128, 512])
@pytest.mark.parametrize(
    ("element", "bits"), [(i64, (32, 64)), (i64, (0, 64)), (i32, (0, 16)), (i8, (0, 8))]
)
def test_digits_are_all_bits_that_decide(
    element: object, bits: tuple[int, int], threads: int
) -> None:
    digits = Digits(element, bits, False, threads)  # pyright: ignore[reportArgumentType]
    width = bits[1] - bits[0]
    assert 1 <= digits.size <= MOST_BITS
    assert width <= digits.count * digits.size < width + digits.count
