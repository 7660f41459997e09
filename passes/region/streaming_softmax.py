"""``region-streaming-softmax``: a maximum and the sums of exponentials below it as one reduction.

    m = max(x)        l = sum(exp(x - m))        o = sum(exp(x - m) * v)

over the same axes become one ``region.reduce_together`` over the product monoid (max, sum,
accumulator) (S6.10; online softmax).  A chunk has its own m, and l and o that belong to it, by the
very ops that the kernel had.  Two chunks combine by scaling the sums of the smaller m down to the
larger one, by exp(m_i - m).
"""

from __future__ import annotations

import math
from collections.abc import Sequence, Set
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.dialects import region
from polyc.dialects.gpu.types import element_bytes
from polyc.dialects.region.moments import are_long, moments_of
from polyc.dialects.region.types import AxisAttr
from polyc.rewriting.changes import CLASSES, check_classes
from polyc.rewriting.driver import located, rewrite
from polyc.rewriting.notes import Note, Report, show
from polyc.rewriting.region.building import erase_unused, type_of
from polyc.rewriting.region.softmax_sums import Weighted, below_of, named, streams
from polyc.rewriting.region.views import VIEWS

# Building ------------------------------------------------------------------------------


def _needed(
    top: region.ReduceOp, sums: Sequence[region.ReduceOp], below: dict[Operation, None]
) -> tuple[list[Operation], list[SSAValue]]:
    """The ops of a chunk in order, and the values that it takes.

    Views and constants come along; every other value that does not depend on the maximum is taken.
    Some value that is taken has each axis of the reduction: where only a view gives one of them,
    what the view shows is taken.
    """
    labels = set(top.labels)
    ops, taken = _chunk(top, sums, below, set())
    given = {label for value in taken for label in type_of(value).labels}
    return (ops, taken) if labels <= given else _chunk(top, sums, below, labels - given)


def _chunk(
    top: region.ReduceOp,
    sums: Sequence[region.ReduceOp],
    below: dict[Operation, None],
    outside: Set[str],
) -> tuple[list[Operation], list[SSAValue]]:
    """As ``_needed``; views that give one of the axes ``outside`` stay outside of the chunk."""

    def comes_along(op: Operation) -> bool:
        if isinstance(op, VIEWS):
            gives = set(type_of(op.result).labels) - set(type_of(op.operand).labels)
            return not gives & outside
        return isinstance(op, region.ConstantOp)

    needed: set[Operation] = {top}
    todo: list[Operation] = [top, *sums]
    while todo:
        op = todo.pop()
        needed.add(op)
        for operand in op.operands:
            owner = operand.owner
            if owner in needed or not isinstance(owner, Operation):
                continue
            if owner in below or comes_along(owner):
                todo.append(owner)
    block = top.parent
    assert block is not None
    ops = [op for op in block.ops if op in needed]
    taken = [o for op in ops for o in op.operands if o.owner not in needed]
    return ops, list(dict.fromkeys(taken))


def _define_before(values: Sequence[SSAValue], anchor: Operation) -> None:
    """Move what ``values`` need in front of ``anchor``, on which none of it depends."""
    block = anchor.parent
    assert block is not None
    late: set[Operation] = set()
    todo = [v.owner for v in values]
    while todo:
        op = todo.pop()
        if isinstance(op, Operation) and op not in late and anchor.is_before_in_block(op):
            late.add(op)
            todo += [o.owner for o in op.operands]
    for op in [op for op in block.ops if op in late]:
        op.detach()
        block.insert_op_before(op, anchor)


@dataclass(frozen=True)
class _Side:
    """How the sums of one of two states go into that of both, over the axes of the maximum."""

    same: SSAValue
    """Where its maximum is that of both: its sums stay as they are, infinite ones too."""
    none: SSAValue
    """Where its maximum is -inf: it has no finite term and adds nothing to another state."""
    factor: SSAValue
    """Anywhere else its sums are scaled down by this."""


@dataclass
class _Combine:
    """The block that brings two states together."""

    block: Block

    def add(self, op: Operation) -> SSAValue:
        self.block.add_op(op)
        return op.results[0]

    def over(self, value: SSAValue, axes: Sequence[AxisAttr]) -> SSAValue:
        have, want = type_of(value).labels, [a.label for a in axes]
        if list(have) == want:
            return value
        return self.add(region.BroadcastInDimOp(value, [want.index(h) for h in have], axes))

    def number(self, value: float, axes: Sequence[AxisAttr]) -> SSAValue:
        return self.over(self.add(region.ConstantOp(value, f32)), axes)

    def side(self, own: SSAValue, both: SSAValue, scale: float) -> _Side:
        axes = type_of(own).axes.data
        down = self.add(region.BinaryOp("sub", own, both))
        if scale != 1:
            down = self.add(region.BinaryOp("mul", down, self.number(scale, axes)))
        return _Side(
            self.add(region.CompareOp("eq", own, both)),
            self.add(region.CompareOp("eq", own, self.number(-math.inf, axes))),
            self.add(region.UnaryOp("exp", down)),
        )

    def scaled(self, part: SSAValue, side: _Side) -> SSAValue:
        """A sum of one state as it goes into the sum of both."""
        axes = type_of(part).axes.data
        none, zero = self.over(side.none, axes), self.number(0.0, axes)
        kept = self.add(region.SelectOp(none, zero, part))
        moved = self.add(region.BinaryOp("mul", kept, self.over(side.factor, axes)))
        return self.add(region.SelectOp(self.over(side.same, axes), part, moved))

    def fill(self, scales: Sequence[float]) -> None:
        """The ops of the block: one maximum, and a sum for each of ``scales``."""
        count = 1 + len(scales)
        left, right = self.block.args[:count], self.block.args[count:]
        top = self.add(region.BinaryOp("max", left[0], right[0]))
        sides = {
            scale: [self.side(m, top, scale) for m in (left[0], right[0])]
            for scale in dict.fromkeys(scales)
        }
        states = [top]
        for x, y, scale in zip(left[1:], right[1:], scales, strict=True):
            parts = [self.scaled(v, side) for v, side in zip((x, y), sides[scale], strict=True)]
            states.append(self.add(region.BinaryOp("add", *parts)))
        self.block.add_op(region.StateOp(states))


def _together(
    top: region.ReduceOp, joined: Sequence[Weighted], below: dict[Operation, None]
) -> region.ReduceTogetherOp:
    """The one reduction of a maximum and its sums; not yet in a block."""
    reductions = [top, *(w.sum for w in joined)]
    ops, taken = _needed(top, reductions[1:], below)
    made = region.ReduceTogetherOp(taken, top.labels, [r.result.type for r in reductions])
    chunk = made.chunk.block
    values: dict[SSAValue, SSAValue] = dict(zip(taken, chunk.args, strict=True))
    for arg, value in zip(chunk.args, taken, strict=True):
        arg.name_hint = value.name_hint
    for op in ops:
        copy = op.clone(value_mapper=values)
        copy.location = op.location
        chunk.add_op(copy)
    chunk.add_op(region.StateOp([values[r.result] for r in reductions]))
    _Combine(made.combine.block).fill([w.scale for w in joined])
    for state, reduction in zip(made.states, reductions, strict=True):
        state.name_hint = reduction.result.name_hint
    return made


# The pattern and the pass --------------------------------------------------------------


def _is_apart(top: region.ReduceOp) -> bool:
    """Whether loops find a maximum and the sums below it while they read once."""
    kernel = top.parent_op()
    assert isinstance(kernel, region.KernelOp)
    values = list(kernel.yield_op.values)
    found = moments_of(values)
    if found is None or any(set(top.labels) & set(type_of(v).labels) for v in values):
        return False
    *others, row = type_of(top.operand).axes.data
    if top.labels != (row.label,):
        return True
    reads = [op for op in kernel.walk() if isinstance(op, region.ReadOp)]
    widest = max((element_bytes(op.result.type.element_type) for op in reads), default=1)
    return are_long([axis.size for axis in others], row.size, widest)


@dataclass
class JoinSoftmax(RewritePattern):
    """A maximum and the sums of exponentials below it → one ``region.reduce_together``.

    Legal for a sum

    * over the axes of the maximum, both in f32;
    * of ``exp(scale * (x - m))`` with the x of the maximum m, where m may be replaced by a finite
      number where it is -inf, and scale is a positive finite constant: with another one weights
      grow without bound as the maximum does;
    * the exponentials taken as they are, negated, cast, repeated, selected against 0, or
      multiplied and divided by values that do not depend on m.  A sum that divides by another sum
      below m is refused: apply that to the result.

    Not of a region that gives nothing else, where points lie apart or rows are few and long: loops
    find both there while blocks share the points (``dialects/region/moments.py``).

    What else uses m, the exponentials or the sums is left, and uses the joined results.

    The class is ``reassociating`` for sums of exponentials: for every x, infinities and NaN
    included, a row that is all -inf (NaN, or 0 where m was replaced) and no points at all (-inf
    and 0).  It is ``finite-only`` where weights are rounded, as they are at the scale of a
    chunk's maximum, and where they multiply values: for values that are finite, and so large at
    most that no sum of a chunk overflows.  In x, infinities and NaN are right there too.
    """

    classes: Sequence[str] = CLASSES
    report: Report | None = None

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: region.ReduceOp, rewriter: PatternRewriter, /) -> None:
        joined = streams(op, self.classes).sums
        if not joined or region.kernel_of(op) is not op.parent_op() or _is_apart(op):
            return
        made = _together(op, joined, below_of(op))
        _define_before(made.values, op)
        if self.report is not None:
            change = max((w.change for w in joined), key=CLASSES.index)
            names = ", ".join(named(w.sum) for w in joined)
            text = f"{named(op)} and {names} are one reduction over their product"
            self.report.fired.append(Note(change, text, located(made, op)))
        rewriter.replace(op, made, [made.states[0]])
        for weighted, state in zip(joined, made.states[1:], strict=True):
            operand = weighted.sum.operand.owner
            rewriter.replace(weighted.sum, [], [state])
            if isinstance(operand, Operation):
                erase_unused(operand, rewriter)


def stream(scope: ModuleOp | region.KernelOp, classes: Sequence[str] = CLASSES) -> Report:
    """Join the maxima of ``scope`` with their sums; what fired, and why what did not."""
    report = Report()
    tops = [op for op in scope.walk() if isinstance(op, region.ReduceOp) and op.parent is not None]
    report.refused = [
        Note("NonAssociativeTransform", why, op)
        for op in tops
        if isinstance(op.parent_op(), region.KernelOp)
        for why in streams(op, classes).refusals
    ]
    rewrite(scope, [JoinSoftmax(classes, report)], recursive=True)
    return report


@dataclass(frozen=True)
class RegionStreamingSoftmax(ModulePass):
    """A softmax's maximum and sums in one pass over its axis (S6.10).

    ``classes`` are the changes that may happen.  Each use that is finite-only is reported on
    stderr; with ``report`` every use and every refusal is.
    """

    name = "region-streaming-softmax"

    classes: tuple[str, ...] = CLASSES
    report: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        check_classes(self.name, self.classes)
        done = stream(op, self.classes)
        notes = [n for n in done.fired if self.report or n.kind == "finite-only"]
        show(notes + (done.refused if self.report else []))
