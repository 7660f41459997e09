"""How many windows a pool has, and what they are: as PyTorch's and ONNX's text has it."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from xdsl.dialects.builtin import f32
from xdsl.utils.exceptions import VerifyException

from polyc.dialects import frontend
from polyc.dialects.common.dim import Dim
from polyc.dialects.frontend import ArgPoolOp, GraphOp, OutputOp, PoolOp, tensor, tensor_of
from polyc.playback.frontend import run
from polyc.playback.functions import Array


def pooled(x: Array, op: PoolOp | ArgPoolOp) -> Array:
    graph = GraphOp("f", [op.operand.type], [op.result.type])
    op.operands[0] = graph.body.block.args[0]
    graph.body.block.add_ops([op, OutputOp([op.result])])
    graph.verify()
    return run(graph, [x], {})[0]


def placeholder(*shape: Dim | int | str):
    return frontend.ConstantOp(0.0, tensor(shape, f32)).result


def torchs_count(size: int, taps: int, step: int, low: int, high: int, apart: int, ceil: bool):
    """PyTorch's ``pooling_output_shape``, which drops one window; ONNX drops all that begin so."""
    room = size + low + high - apart * (taps - 1) - 1 + (step - 1 if ceil else 0)
    count = room // step + 1
    while ceil and (count - 1) * step >= size + low:
        count -= 1
    return count


def test_there_are_as_many_windows_as_elsewhere() -> None:
    x = placeholder("H")
    for taps, step, low, high, apart, ceil in product(
        (1, 2, 3), (1, 2, 3), (0, 1), (0, 1, 3), (1, 2), (False, True)
    ):
        op = PoolOp(
            "max",
            x,
            [0],
            [taps],
            stride=[step],
            padding=[low, high],
            dilation=[apart],
            ceil_mode=ceil,
        )
        for size in range(8):
            wanted = torchs_count(size, taps, step, low, high, apart, ceil)
            if size + low + high > apart * (taps - 1):
                assert op.result_shape()[0].evaluate({"H": size}) == wanted, (op, size)


def torchs_average(
    x: Array, taps: int, step: int, room: int, count: tuple[int, int], included: bool
) -> Array:
    """PyTorch's kernel of ``avg_pool2d``, an element after another."""
    height, width = x.shape
    found = np.zeros(count, np.float32)
    for row, column in np.ndindex(*count):
        h, w = row * step - room, column * step - room
        below, right = min(h + taps, height + room), min(w + taps, width + room)
        size = (below - h) * (right - w)
        h, w = max(h, 0), max(w, 0)
        below, right = min(below, height), min(right, width)
        total = x[h:below, w:right].sum(dtype=np.float32)
        found[row, column] = total / (size if included else (below - h) * (right - w))
    return found


@pytest.mark.parametrize("included", [False, True])
@pytest.mark.parametrize("ceil", [False, True])
def test_means_are_those_of_torch(included: bool, ceil: bool) -> None:
    dice = np.random.default_rng(5)
    for taps, step, room in ((2, 2, 0), (3, 2, 1), (3, 1, 1), (2, 3, 1), (5, 2, 2)):
        x = dice.integers(-8, 8, (7, 8)).astype(np.float32)
        op = PoolOp(
            "mean",
            placeholder(7, 8),
            [0, 1],
            [taps, taps],
            stride=[step, step],
            padding=[room] * 4,
            ceil_mode=ceil,
            count_include_pad=included,
        )
        rows, columns = (torchs_count(n, taps, step, room, room, 1, ceil) for n in x.shape)
        wanted = torchs_average(x, taps, step, room, (rows, columns), included)
        np.testing.assert_allclose(pooled(x, op), wanted, rtol=1e-6)


def first_of_largest(x: Array, op: ArgPoolOp) -> Array:
    """A loop over each window, which goes on to another place for a larger element, or for NaN."""
    shape = tuple(dim.constant() or 0 for dim in tensor_of(op.result).dims)
    found = np.full(shape, -1, np.int64)
    less = op.function == "min"
    for place in np.ndindex(*shape):
        best = None
        for tap in np.ndindex(*(size.constant() or 0 for size in op.size)):
            at = list(place)
            for i, axis in enumerate(op.axes):
                at[axis] = place[axis] * op.stride[i] + tap[i] * op.dilation[i] - op.padding[2 * i]
            if not all(0 <= a < n for a, n in zip(at, x.shape, strict=True)):
                continue
            one = x[tuple(at)]
            beyond = best is None or (one < best if less else one > best)
            if beyond or (one != one and best == best):
                best = one
                axes = range(x.ndim) if op.whole is not None else op.axes
                found[place] = np.ravel_multi_index(
                    [at[a] for a in axes], [x.shape[a] for a in axes]
                )
    return found


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("fn", ["max", "min"])
def test_places_are_of_the_first_of_the_largest(fn: str, whole: bool) -> None:
    dice = np.random.default_rng(7)
    numbers = np.asarray([-np.inf, -1.0, -0.0, 0.0, 1.0, np.inf, np.nan], np.float32)
    for axes, taps, step, room, apart, ceil in (
        ([1, 2], [3, 2], [2, 1], [1, 1, 0, 1], [1, 1], False),
        ([0, 2], [2, 2], [2, 3], [2, 0, 0, 0], [2, 1], False),
        ([0, 1, 2], [2, 1, 3], [2, 1, 2], [0, 0, 0, 0, 3, 3], [1, 1, 1], True),
        ([1], [1], [1], [2, 2], [1], False),
    ):
        for dims in ((4, 5, 6), (3, 1, 7)):
            x = dice.choice(numbers, dims)
            op = ArgPoolOp(
                fn,
                placeholder(*dims),
                axes,
                taps,
                stride=step,
                padding=room,
                dilation=apart,
                ceil_mode=ceil,
                whole=whole,
            )
            np.testing.assert_array_equal(pooled(x, op), first_of_largest(x, op), str(op))


def test_a_window_that_does_not_fit_is_said_by_the_verifier() -> None:
    graph = GraphOp("f", [tensor([2, 4], f32)], [])
    op = PoolOp("max", graph.body.block.args[0], [0], [7])
    graph.body.block.add_op(op)
    with pytest.raises(VerifyException, match="pool has windows that span 7 along axis 0"):
        op.verify_()
