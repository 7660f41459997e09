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
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.dialects import region
from polyc.dialects.region_types import AxisAttr
from polyc.passes.driver import located, rewrite
from polyc.passes.legality import CLASSES, ChangeClass, check_classes
from polyc.passes.notes import Note, Report, show
from polyc.passes.region_rewriting import erase_unused, type_of

VIEWS = (region.BroadcastInDimOp, region.TransposeOp)


# Legality ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Weighted:
    """A sum of ``exp(scale * (x - max(x)))``, perhaps times values, and the class of joining it."""

    sum: region.ReduceOp
    scale: float
    change: ChangeClass


@dataclass
class Streams:
    """The sums below a maximum that can be joined with it, and why others cannot."""

    sums: list[Weighted] = field(default_factory=list[Weighted])
    refusals: list[str] = field(default_factory=list[str])


class _NotJoined(Exception):
    """Why a sum stays a reduction of its own, as a clause about it."""


def streams(top: region.ReduceOp, classes: Sequence[str] = CLASSES) -> Streams:
    """The sums that depend on the maximum ``top``, judged as ``JoinSoftmax`` says."""
    found = Streams()
    if top.fn.data != "max":
        return found
    below = _below(top)
    for op in below:
        if not isinstance(op, region.ReduceOp) or op.fn.data != "sum":
            continue
        try:
            joined = _weighted(top, op, below)
            if joined.change not in classes:
                raise _NotJoined(
                    f"joining it is {joined.change}, and only {', '.join(classes)} may fire"
                )
            found.sums.append(joined)
        except _NotJoined as why:
            found.refusals.append(f"{_named(op)} does not join {_named(top)}: {why}")
    return found


def _named(op: region.ReduceOp) -> str:
    label = f' "{op.label}"' if op.label else ""
    return f"the {op.fn.data}{label} over [{', '.join(op.labels)}]"


def _below(top: region.ReduceOp) -> dict[Operation, None]:
    """The ops that depend on ``top``, in the order of the text."""
    found: dict[Operation, None] = {}
    op = top.next_op
    while op is not None:
        if any(o.owner is top or o.owner in found for o in op.operands):
            found[op] = None
        op = op.next_op
    return found


def _weighted(top: region.ReduceOp, op: region.ReduceOp, below: dict[Operation, None]) -> Weighted:
    if set(op.labels) != set(top.labels):
        raise _NotJoined("the two are over different axes")
    for kind in (type_of(top.operand), top.result.type, type_of(op.operand), op.result.type):
        if kind.element_type != f32:
            raise _NotJoined(f"one of them is of {kind.element_type}, and states are scaled in f32")
    change: ChangeClass = "reassociating"
    value = op.operand
    while True:
        owner = value.owner
        match owner:
            case region.UnaryOp() if owner.fn.data == "exp":
                return Weighted(op, _scale(top, owner.operand), change)
            case region.UnaryOp() if owner.fn.data == "neg":
                value = owner.operand
            case region.CastOp():
                if owner.result.type.element_type != f32:
                    change = "finite-only"  # rounded at the scale of a chunk's maximum
                value = owner.operand
            case region.BroadcastInDimOp() | region.TransposeOp():
                value = owner.operand
            case region.BinaryOp() if owner.fn.data in ("mul", "div"):
                value = _factor(owner, below)
                change = "finite-only"  # a value may be infinite, and a weight of a chunk not 0
            case region.SelectOp():
                value = _chosen(owner, below)
            case region.ReduceOp():
                raise _NotJoined(f"it takes {_named(owner)}")
            case _:
                raise _NotJoined(
                    "it is a sum of something else than exponentials times values of their own"
                )


def _factor(op: region.BinaryOp, below: dict[Operation, None]) -> SSAValue:
    """The factor with the exponential; the other one does not depend on the maximum."""
    left, right = (o.owner in below for o in op.operands)
    if left and right:
        for operand in op.operands:
            if isinstance(found := behind_views(operand).owner, region.ReduceOp):
                raise _NotJoined(
                    f"its terms need {_named(found)}, which is known at the end only; apply that "
                    "to the sum"
                )
        raise _NotJoined(f"both operands of its {op.fn.data} depend on the maximum")
    if op.fn.data == "div" and right:
        raise _NotJoined("it divides by exponentials")
    return op.lhs if left else op.rhs


def _chosen(op: region.SelectOp, below: dict[Operation, None]) -> SSAValue:
    """The branch with the exponential, where the condition is given and the other is 0."""
    branches = [op.if_true, op.if_false]
    moving = [v for v in branches if v.owner in below]
    zero = [v for v in branches if constant_of(v) == 0]
    if op.condition.owner in below or len(moving) != 1 or len(zero) != 1:
        raise _NotJoined(
            "it selects, and not between an exponential and 0 by a condition that is given"
        )
    return moving[0]


def _scale(top: region.ReduceOp, exponent: SSAValue) -> float:
    """The factor of an exponent that is ``scale * (x - max(x))``."""
    scale, owner = 1.0, exponent.owner
    if isinstance(owner, region.BinaryOp) and owner.fn.data == "mul":
        for number, other in (
            (constant_of(owner.rhs), owner.lhs),
            (constant_of(owner.lhs), owner.rhs),
        ):
            if number is not None:
                scale, owner = number, other.owner
                break
    if not (math.isfinite(scale) and scale > 0):
        raise _NotJoined(f"its exponent is scaled by {scale}, which is not positive and finite")
    if (
        not isinstance(owner, region.BinaryOp)
        or owner.fn.data != "sub"
        or owner.lhs is not top.operand
        or not _is_maximum(behind_views(owner.rhs), top)
    ):
        raise _NotJoined("its exponent is not x - max(x), of the x whose maximum it is")
    return scale


def _is_maximum(value: SSAValue, top: region.ReduceOp) -> bool:
    """Whether ``value`` is the maximum, or that with a finite number where it is -inf."""
    owner = value.owner
    if owner is top:
        return True
    if not isinstance(owner, region.SelectOp) or behind_views(owner.if_false).owner is not top:
        return False
    test, number = owner.condition.owner, constant_of(owner.if_true)
    if not isinstance(test, region.CompareOp) or test.fn.data != "eq":
        return False
    sides = {behind_views(o).owner is top: constant_of(o) for o in test.operands}
    return sides.get(False) == -math.inf and True in sides and _finite(number)


def _finite(number: float | None) -> bool:
    return number is not None and math.isfinite(number)


def behind_views(value: SSAValue) -> SSAValue:
    """The value that ``value`` shows over other axes, or in another order of them."""
    while isinstance(owner := value.owner, VIEWS):
        value = owner.operand
    return value


def constant_of(value: SSAValue) -> float | None:
    """The number that every element of ``value`` is, if it is one."""
    owner = behind_views(value).owner
    return owner.number if isinstance(owner, region.ConstantOp) else None


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
        if not joined or region.kernel_of(op) is not op.parent_op():
            return
        made = _together(op, joined, _below(op))
        _define_before(made.values, op)
        if self.report is not None:
            change = max((w.change for w in joined), key=CLASSES.index)
            names = ", ".join(_named(w.sum) for w in joined)
            text = f"{_named(op)} and {names} are one reduction over their product"
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
