"""Digits of what is sorted, and the ops that count, sum and move by them as instructions."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import i8, i32, i64

from polyc.dialects.gpu.tile.digits import MOST_BITS, CountDigitOp, MoveByDigitOp, SumCountsOp
from polyc.passes.support.gpu.digit_sorts import Digits
from polyc.passes.support.gpu.tile_digits import LowerCountDigit, LowerMoveByDigit, LowerSumCounts
from polyc.rewriting.driver import rewrite, verify
from polyc.test.support.gpu_text import kernel, parsed

OPS = CountDigitOp, SumCountsOp, MoveByDigitOp

TEXT = kernel(
    """
    %r = gpu.block_id
    %one = arith.constant 1 : index
    %row = gpu.shared_tile at 0 : !gpu.shared<[1, 512], i64>
    gpu.count_digit %row count %N by <32, 40> to %C[%r, %one] : !gpu.shared<[1, 512], i64>, !gpu.global<[M, T, 256], i32>
    gpu.sum_counts %C[%r] first %one of %T to %S : !gpu.global<[M, T, 256], i32>, !gpu.global<[M, 256], i32>
    gpu.move_by_digit %row count %N by <32, 40> from %C, %S[%r] tile %one to %X[%r] : !gpu.shared<[1, 512], i64>, !gpu.global<[M, T, 256], i32>, !gpu.global<[M, 256], i32>, !gpu.global<[M, N], i64>
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
    ],
)
def test_each_op_has_its_pattern(pattern: type, lowered: type) -> None:
    """It leaves the other two."""
    module = parsed(TEXT)
    rewrite(module, [pattern()])
    verify(module)
    left = {kind for kind in OPS if any(isinstance(op, kind) for op in module.walk())}
    assert left == set(OPS) - {lowered}


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
