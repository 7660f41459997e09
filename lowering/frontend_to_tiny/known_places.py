"""``frontend-to-tiny``: a gather whose places a graph counts is a part of what it reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import (
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)

from polyc.dialects import frontend
from polyc.dialects.common.dim import Dim
from polyc.dialects.common.elements import bounds, is_integer
from polyc.dialects.common.sizes import never_negative
from polyc.dialects.frontend.types import tensor, tensor_of
from polyc.rewriting.driver import located

ONE = Dim.const(1)


@dataclass(frozen=True)
class Places:
    """Indices ``start + step * i``, of ``i`` along one axis of their tensor; ``axis`` None where
    all are ``start``."""

    axis: int | None
    start: int
    step: int = 1

    def last(self, count: Dim) -> Dim:
        """The largest of them, of so many."""
        return Dim.const(self.start) + (count - 1) * self.step


class SliceAtKnownPlaces(RewritePattern):
    """A gather at indices that count along axes → a slice, its axes in order, and repeated.

    As the mask of the keys of each sequence, which libraries look up at all pairs of a sequence and
    a key.  Legal where each index is a constant, or a start and a positive step times the place
    along an axis of the indices, another one for each index, and none of them is outside: clamped,
    filled or counted from the end, they are the same.

    Exact: an element is the same one of what is read.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(
        self, op: frontend.GatherOp | frontend.GatherNdOp, rewriter: PatternRewriter, /
    ) -> None:
        before, parts, own = _parts(op)
        if parts is None:
            return
        dims = tensor_of(op.operand).dims
        axes = [part.axis for part in parts if part.axis is not None]
        if len(set(axes)) < len(axes):
            return
        low, high, step = [Dim.const(0)] * len(dims), list(dims), [1] * len(dims)
        for at, part in enumerate(parts, before):
            last = part.last(ONE if part.axis is None else own[part.axis])
            if part.start < 0 or not never_negative(dims[at] - 1 - last, op):
                return
            low[at], high[at], step[at] = Dim.const(part.start), last + 1, part.step
        rewriter.insert(cut := located(frontend.SliceOp(op.operand, low, high, step), op))
        # Where each of the operand's axes that stay is in the result.
        place: dict[int, int] = {}
        for at in range(len(dims)):
            if not before <= at < before + len(parts):
                place[at] = at if at < before else at + len(own) - len(parts)
            elif (axis := parts[at - before].axis) is not None:
                place[at] = before + axis
        sizes, value = tensor_of(cut.result).dims, cut.result
        if len(place) < len(dims):
            kept = located(frontend.ReshapeOp(value, [sizes[at] for at in place]), op)
            rewriter.insert(kept)
            value = kept.result
        order = sorted(range(len(place)), key=list(place.values()).__getitem__)
        if order != list(range(len(place))):
            rewriter.insert(turned := located(frontend.PermuteOp(value, order), op))
            value = turned.result
        shape = tensor(tensor_of(op.result).dims, tensor_of(op.operand).element_type)
        spread = frontend.ExpandOp(value, sorted(place.values()), shape)
        rewriter.replace(op, located(spread, op))


def _parts(
    op: frontend.GatherOp | frontend.GatherNdOp,
) -> tuple[int, list[Places] | None, Sequence[Dim]]:
    """The axes before those that are gathered, the places along each of these or None, and the
    axes that the indices have, those of a batch left out."""
    dims = tensor_of(op.indices).dims
    if isinstance(op, frontend.GatherOp):
        found = places_of(op.indices)
        return op.number, None if found is None else [found], dims
    batch, count = op.number, dims[-1].constant()
    own = dims[batch:-1]
    indices = op.indices.owner
    tuples: Sequence[SSAValue] = (op.indices,)
    if isinstance(indices, frontend.ConcatOp) and indices.axis == len(dims) - 1:
        tuples = indices.args
    if any(tensor_of(one).dims[-1] != ONE for one in tuples) or len(tuples) != count:
        return batch, None, own
    parts: list[Places] = []
    for one in tuples:
        found = places_of(one)
        if found is None or (found.axis is not None and found.axis < batch):
            return batch, None, own
        at = None if found.axis is None else found.axis - batch
        parts.append(replace(found, axis=at))
    return batch, parts, own


def places_of(value: SSAValue) -> Places | None:
    """Indices that count along an axis of their tensor; None where that is not seen."""
    kind, op = tensor_of(value), value.owner
    if not is_integer(kind.element_type) or not isinstance(op, Operation):
        return None
    match op:
        case frontend.IotaOp():
            size = kind.dims[op.axis].constant()
            most = bounds(kind.element_type)[1]
            if most < (2**31 - 1 if size is None else size - 1):
                return None
            return Places(None if size == 1 else op.axis, 0)
        case frontend.ConstantOp():
            return Places(None, int(op.number))
        case frontend.ExpandOp():
            found, stretched = places_of(op.operand), op.stretched()
            if found is None or found.axis is None:
                return found
            axis = op.dims[found.axis]
            return replace(found, axis=None if axis in stretched else axis)
        case frontend.PermuteOp():
            found = places_of(op.operand)
            if found is None or found.axis is None:
                return found
            return replace(found, axis=op.perm.index(found.axis))
        case frontend.ReshapeOp():
            return _reshaped(op)
        case frontend.SliceOp():
            found = places_of(op.operand)
            if found is None or found.axis is None:
                return found
            low, step = op.low[found.axis].constant(), op.steps[found.axis]
            if low is None:
                return None
            axis = None if kind.dims[found.axis] == ONE else found.axis
            return Places(axis, found.start + found.step * low, found.step * step)
        case frontend.CastOp():
            inner = tensor_of(op.operand).element_type
            found = places_of(op.operand)
            if found is None or not is_integer(inner):
                return None
            least, most = bounds(kind.element_type)
            wide = least <= bounds(inner)[0] and bounds(inner)[1] <= most
            return found if wide else None
        case _:
            return None


def _reshaped(op: frontend.ReshapeOp) -> Places | None:
    """Places that have axes of one point more or less."""
    found = places_of(op.operand)
    if found is None or found.axis is None:
        return found
    before, after = tensor_of(op.operand).dims, tensor_of(op.result).dims
    long, now = ([i for i, size in enumerate(dims) if size != ONE] for dims in (before, after))
    if [before[i] for i in long] != [after[i] for i in now]:
        return None
    return replace(found, axis=now[long.index(found.axis)])
