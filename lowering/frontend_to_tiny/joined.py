"""``frontend-to-tiny``: a softmax of joined scores, of which a part is used."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import f32
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import (
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)

from polyc.dialects import frontend
from polyc.dialects.common.dim import Dim
from polyc.dialects.common.elements import FLOATS
from polyc.dialects.frontend.types import tensor_of
from polyc.rewriting.driver import located
from polyc.rewriting.region.building import erase_unused


class SplitJoinedSoftmax(RewritePattern):
    """``slice(softmax(concat(x, s)))`` → ``exp(x - m) / (sum(exp(x - m)) + exp(s - m))``.

    Attention with a sink joins a column to the scores and drops it after the softmax; m is the
    larger of the maximum of x and s.  Legal where the slice is one part of the concat, along the
    one axis of the softmax, all others have one element there, and nothing else reads the softmax.
    A maximum that is subtracted from the whole before the softmax is subtracted there anyway, where
    no cast in between rounds the difference.  A cast of what is joined is one of each part.

    Reassociating: the sum is taken part by part.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: frontend.SliceOp, rewriter: PatternRewriter, /) -> None:
        soft = op.operand.owner
        casts: list[frontend.CastOp] = []
        while isinstance(soft, frontend.CastOp) and soft.result.has_one_use():
            casts.append(soft)
            soft = soft.operand.owner
        if not isinstance(soft, frontend.SoftmaxOp) or not soft.result.has_one_use():
            return
        if len(soft.axes) != 1:
            return
        value, before = _unshifted(soft.operand, soft.axes[0]), list[frontend.CastOp]()
        while isinstance(value.owner, frontend.CastOp):
            before.append(value.owner)
            value = value.owner.operand
            if all(map(_is_exact, before)):
                value = _unshifted(value, soft.axes[0])
        joined = value.owner
        if not isinstance(joined, frontend.ConcatOp) or joined.axis != soft.axes[0]:
            return
        number = _part(op, list(joined.operands), joined.axis)
        if number is None:
            return
        parts = [_cast(part, before, rewriter) for part in joined.operands]
        result = self._softmax(parts, number, joined.axis, op, rewriter)
        rewriter.replace(op, [], [_cast(result, casts, rewriter)])
        erase_unused(casts[0] if casts else soft, rewriter)

    def _softmax(
        self,
        parts: Sequence[SSAValue],
        number: int,
        axis: int,
        like: Operation,
        rewriter: PatternRewriter,
    ) -> SSAValue:
        def add(op: Operation) -> SSAValue:
            rewriter.insert(located(op, like))
            return op.results[0]

        def reduced(fn: str, part: SSAValue) -> SSAValue:
            if tensor_of(part).dims[axis].constant() == 1:
                return part
            return add(frontend.ReduceOp(fn, part, [axis], keepdims=True))

        def folded(fn: str, values: Sequence[SSAValue]) -> SSAValue:
            found = values[0]
            for value in values[1:]:
                found = add(frontend.ElementwiseOp(fn, [found, value]))
            return found

        top = folded("max", [reduced("max", part) for part in parts])
        powers = [
            add(frontend.ElementwiseOp("exp", [add(frontend.ElementwiseOp("sub", [part, top]))]))
            for part in parts
        ]
        total = folded("add", [reduced("sum", power) for power in powers])
        return add(frontend.ElementwiseOp("div", [powers[number], total]))


def _cast(value: SSAValue, casts: Sequence[frontend.CastOp], rewriter: PatternRewriter) -> SSAValue:
    """A value cast as another one is by some casts, the last first."""
    for cast in reversed(casts):
        again = located(frontend.CastOp(value, tensor_of(cast.result).element_type), cast)
        rewriter.insert(again)
        value = again.result
    return value


def _is_exact(cast: frontend.CastOp) -> bool:
    """Whether a cast changes no number: one of real numbers to f32, or to the type they have."""
    source, target = (tensor_of(v).element_type for v in (cast.operand, cast.result))
    return source == target or (source in FLOATS and target == f32)


def _unshifted(value: SSAValue, axis: int) -> SSAValue:
    """What a value was before its maximum along an axis was subtracted."""
    op = value.owner
    if isinstance(op, frontend.ElementwiseOp) and op.function == "sub":
        top = op.args[1].owner
        if (
            isinstance(top, frontend.ReduceOp)
            and top.function == "max"
            and top.operand is op.args[0]
            and list(top.axes) == [axis]
        ):
            return op.args[0]
    return value


def _part(op: frontend.SliceOp, parts: Sequence[SSAValue], axis: int) -> int | None:
    """Which of the parts of a concat a slice of it is, the others being one element each."""
    dims, whole = tensor_of(op.result).dims, tensor_of(op.operand).dims
    if any(d != w for i, (d, w) in enumerate(zip(dims, whole, strict=True)) if i != axis):
        return None
    if any(step != 1 for step in op.steps):
        return None
    start: Dim = Dim.const(0)
    for number, part in enumerate(parts):
        size = tensor_of(part).dims[axis]
        others = [p for p in parts if p is not part]
        alone = all(tensor_of(p).dims[axis].constant() == 1 for p in others)
        if op.low[axis] == start and dims[axis] == size and alone and others:
            return number
        start = start + size
    return None
