"""NumPy semantics of movements, which ``frontend`` and ``tiny`` share (S3.1, S6.9).

All but pad and mask are views where NumPy can make one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineConstraintKind,
    AffineDimExpr,
    AffineExpr,
    AffineSet,
    AffineSymExpr,
)

from polyc.dialects.common.diagnostic import fail
from polyc.dialects.common.movements import (
    ExpandBase,
    MovementOp,
    PadBase,
    PermuteBase,
    ReshapeBase,
    SliceBase,
)
from polyc.playback.estimate import Estimate
from polyc.playback.functions import Array, as_array, posing
from polyc.playback.signature import sizes, value_sizes


def move(op: MovementOp, array: Array, symbols: Mapping[str, int]) -> Array:
    """The result of a movement that both dialects have, on ``array``."""
    match op:
        case ReshapeBase():
            return np.reshape(array, value_sizes(op.result_type, symbols))
        case PermuteBase():
            return np.transpose(array, op.perm)
        case ExpandBase():
            return expand(array, op.dims, value_sizes(op.result_type, symbols))
        case PadBase():
            room = list(zip(sizes(op.low, symbols), sizes(op.high, symbols), strict=True))
            if not room:  # a scalar, which np.pad does not take
                return array
            return np.pad(array, room, constant_values=array.dtype.type(op.number))
        case SliceBase():
            value_sizes(op.result_type, symbols)  # refuses a size that comes out negative
            ends = zip(op.low, op.high, op.steps, strict=True)
            where = tuple(slice(a.evaluate(symbols), b.evaluate(symbols), s) for a, b, s in ends)
            return as_array(array[where])  # of rank 0 it would be a scalar
        case _:
            fail("UnsupportedProgram", f"{op.name} has no playback", op)


def expand(array: Array, dims: Sequence[int], shape: tuple[int, ...]) -> Array:
    """``array`` as a view of ``shape``: its axis ``i`` is axis ``dims[i]`` there.

    It repeats along the other axes, and along an axis where its own size is 1.
    """
    where = tuple(slice(None) if i in dims else None for i in range(len(shape)))
    return np.broadcast_to(array[where], shape)


def whole(shape: Sequence[int]) -> tuple[slice, ...]:
    """All of ``shape``, as a range an axis."""
    return tuple(slice(0, n) for n in shape)


def window(
    array: Array,
    axes: Sequence[int],
    size: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
) -> Array:
    """The whole windows along ``axes``, their elements along new axes at the end.

    Those of a negative dilation run backwards.
    """
    if any(spread < 0 for spread in dilation):
        found = window(array, axes, size, stride, [abs(spread) for spread in dilation])
        back = [slice(None, None, -1 if spread < 0 else 1) for spread in dilation]
        return found[(..., *back)]
    shape, steps = list(array.shape), list(array.strides)
    for axis, count, step, spread in zip(axes, size, stride, dilation, strict=True):
        windows = (shape[axis] - spread * (count - 1) - 1) // step + 1
        if windows < 0:
            fail(
                "BadArgument",
                f"a window of {count} elements {spread} apart does not fit in {shape[axis]}; "
                "choose larger sizes",
            )
        shape[axis] = windows
        steps.append(steps[axis] * spread)
        steps[axis] *= step
    if not isinstance(array, Estimate):
        return np.lib.stride_tricks.as_strided(array, [*shape, *size], steps, writeable=False)
    return posing(array.moved(lambda a: window(a, axes, size, stride, dilation)))


def holds(condition: AffineSet, where: Sequence[slice], symbols: Sequence[int]) -> Array:
    """Where ``condition`` holds in the box of the ranges, as booleans that broadcast to it."""
    return holds_at(condition, grid(where), symbols) & np.ones([1] * len(where), np.bool_)


def grid(where: Sequence[slice]) -> list[Array]:
    """The coordinates of the box of the ranges, an array an axis; together they broadcast to it."""
    return list(np.ogrid[tuple(where)]) if where else []


def holds_at(condition: AffineSet, dims: Sequence[Array], symbols: Sequence[int]) -> Array:
    """Where ``condition`` holds at arrays of coordinates, as booleans that broadcast with them."""
    result = np.asarray(True)
    for row in condition.constraints:
        left, right = (affine_value(e, dims, symbols) for e in (row.lhs, row.rhs))
        match row.kind:
            case AffineConstraintKind.eq:
                result = result & (left == right)
            case AffineConstraintKind.ge:
                result = result & (left >= right)
            case AffineConstraintKind.le:
                result = result & (left <= right)
    return result


def affine_value(expr: AffineExpr, dims: Sequence[Array], symbols: Sequence[int]) -> Array:
    """``expr`` at arrays of coordinates and the symbols' values."""
    match expr:
        case AffineConstantExpr(value):
            return np.asarray(value)
        case AffineDimExpr(position):
            return dims[position]
        case AffineSymExpr(position):
            return np.asarray(symbols[position])
        case AffineBinaryOpExpr(kind, left, right):
            a, b = (affine_value(e, dims, symbols) for e in (left, right))
            match kind:
                case AffineBinaryOpKind.Add:
                    return a + b
                case AffineBinaryOpKind.Mul:
                    return a * b
                case AffineBinaryOpKind.FloorDiv:
                    return a // b
                case AffineBinaryOpKind.CeilDiv:
                    return -(-a // b)
                case AffineBinaryOpKind.Mod:
                    return a % b
        case _:
            raise AssertionError(f"{expr} is no affine expression")
