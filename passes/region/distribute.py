"""``region-distribute``: R2, a reduction distributed over its operand where that costs less.

* ``SplitReduction``   a reduction of a sum or a maximum of two values is that of two reductions
* ``JoinThrough``      a function between two reductions moves into the inner one, so that they join

R2 undoes what R1 does, so it has a driver of its own, which runs a pattern only where the cost
(``polyc.passes.support.region.cost``) becomes less; it ends, as no cost falls for ever (S6.5).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import AnyFloat, ModuleOp, f32
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.dialects import region
from polyc.dialects.common.dim import Dim
from polyc.dialects.region.types import AxisAttr
from polyc.passes.support.region.cost import NOMINAL, total
from polyc.passes.support.region.legality import JOIN, Row, candidate, judge, why_not_joined
from polyc.rewriting.changes import CLASSES, DEFAULT_CLASSES, ChangeClass, check_classes
from polyc.rewriting.driver import located, rewrite
from polyc.rewriting.notes import Note, Report, show
from polyc.rewriting.region.building import (
    ComposeBroadcasts,
    ComposeTransposes,
    Elementwise,
    erase_unused,
    rebuilt,
    type_of,
)

SPLIT: dict[tuple[str, str], ChangeClass] = {
    ("add", "sum"): "finite-only",
    ("sub", "sum"): "finite-only",
    ("max", "max"): "exact",
    ("min", "min"): "exact",
}
"""``reduce(function(x, y))`` is ``function(reduce(x), reduce(y))``, and the class of that change.

Of two sums each can overflow where the sum of the differences does not.
"""


@dataclass
class _Made:
    """Ops that a rewrite would put in front of the matched one, and what they cost."""

    before: Operation
    ops: list[Operation] = field(default_factory=list[Operation])

    def add(self, op: Operation) -> SSAValue:
        self.ops.append(op)
        return op.results[0]

    def spread(self, value: SSAValue, axes: Sequence[AxisAttr]) -> SSAValue:
        """``value`` over ``axes``, which contain its own."""
        have, want = type_of(value).labels, [a.label for a in axes]
        if list(have) == want:
            return value
        if isinstance(owner := value.owner, region.BroadcastInDimOp):
            return self.spread(owner.operand, axes)
        return self.add(region.BroadcastInDimOp(value, [want.index(h) for h in have], axes))

    def reduce(self, fn: str, value: SSAValue, labels: Sequence[str]) -> SSAValue:
        """The reduction of ``value`` in f32; the one that is there already, if one is."""
        for use in value.uses:
            found = use.operation
            if (
                isinstance(found, region.ReduceOp)
                and (found.fn.data, found.labels, found.accumulator) == (fn, tuple(labels), f32)
                and found.parent is self.before.parent
                and found.is_before_in_block(self.before)
            ):
                return found.result
        return self.add(region.ReduceOp(fn, value, labels, acc=f32))

    def drop(self) -> None:
        """Forget the ops; none was inserted."""
        for op in reversed(self.ops):
            op.erase()


@dataclass
class _Distributing(RewritePattern):
    """What the patterns of R2 share: the classes that may happen, and the cost."""

    classes: Sequence[str] = DEFAULT_CLASSES
    nominal: int = NOMINAL
    report: Report | None = None

    def _settle(
        self,
        op: region.ReduceOp,
        old: Sequence[Operation],
        made: _Made,
        result: SSAValue,
        change: ChangeClass,
        what: str,
        rewriter: PatternRewriter,
    ) -> None:
        """Replace ``op`` by ``result`` if that costs less than ``old``, which it makes unused."""
        before, after = total(old, self.nominal), total(made.ops, self.nominal)
        if after >= before:
            made.drop()
            return
        rewriter.insert(made.ops)
        if self.report is not None:
            text = f"{what}: {after} operations in the place of {before}"
            at = located(cast(Operation, result.owner), op)
            self.report.fired.append(Note(change, text, at))
        operand = cast(Operation, op.operand.owner)
        result.name_hint = op.result.name_hint
        rewriter.replace(op, [], [result])
        erase_unused(operand, rewriter)


@dataclass
class SplitReduction(_Distributing):
    """R2: ``reduce f over K g(x, y)`` → ``g(reduce f x, reduce f y)``, by cost.

    Legal where ``SPLIT`` has a row for (g, f) of a class that may happen, in f32, and where
    nothing else uses ``g(x, y)``.  What does not depend on K is not summed but multiplied by
    the number of points; in ``sum(select(p, g(x, c), 0))`` those are the live ones, where p
    holds.  Its class is the row's; ``split`` is the table to go by.
    """

    split: Mapping[tuple[str, str], ChangeClass] = field(default_factory=lambda: SPLIT)

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: region.ReduceOp, rewriter: PatternRewriter, /) -> None:
        guard, body = _guarded(op)
        if not isinstance(body, region.BinaryOp) or op.accumulator != f32:
            return
        g, f = body.fn.data, op.fn.data
        change = self.split.get((g, f))
        if change is None or change not in self.classes or not body.result.has_one_use():
            return
        if body.result.type.element_type != f32 or not op.operand.has_one_use():
            return
        if f != "sum" and any(_repeated(o, op.labels) for o in body.operands):
            return  # over nothing it would not be the repeated value; R1 knows when
        made = _Made(op)
        parts = [self._part(op, operand, guard, made) for operand in body.operands]
        result = made.add(region.BinaryOp(g, *parts))
        old = [op, body, *([] if guard is None else [cast(Operation, op.operand.owner)])]
        what = f"{f}({g}(x, y)) is split"
        self._settle(op, old, made, result, change, what, rewriter)

    @staticmethod
    def _part(
        op: region.ReduceOp, value: SSAValue, guard: SSAValue | None, made: _Made
    ) -> SSAValue:
        """The reduction of one operand over the axes of ``op``."""
        fn, axes = op.fn.data, op.result.type.axes.data
        absent = _repeated(value, op.labels)
        if guard is not None:
            if len(absent) < len(op.labels):
                zero = made.spread(made.add(region.ConstantOp(0.0, f32)), type_of(value).axes.data)
                chosen = made.add(region.SelectOp(guard, value, zero))
                return made.reduce(fn, chosen, op.labels)
            count = made.spread(_live_points(guard, op.labels, made), axes)
        elif absent:
            sizes = [a.size for a in type_of(value).axes if a.label in absent]
            number = made.add(region.DimOp(prod(sizes, start=Dim.const(1))))
            count = made.spread(number, axes)
        else:
            return made.reduce(fn, value, op.labels)
        source = cast(region.BroadcastInDimOp, value.owner).operand
        left = [label for label in op.labels if label not in absent]
        once = made.reduce(fn, source, left) if left else source
        return made.add(region.BinaryOp("mul", made.spread(once, axes), count))


def _live_points(guard: SSAValue, labels: Sequence[str], made: _Made) -> SSAValue:
    """How many points of ``labels`` a condition holds at, over the other axes that it has."""
    if isinstance(owner := guard.owner, region.BroadcastInDimOp) and not _repeated(guard, labels):
        guard = owner.operand
    axes = type_of(guard).axes.data
    one, zero = (made.spread(made.add(region.ConstantOp(v, f32)), axes) for v in (1.0, 0.0))
    return made.reduce("sum", made.add(region.SelectOp(guard, one, zero)), labels)


def _guarded(op: region.ReduceOp) -> tuple[SSAValue | None, Operation | None]:
    """The condition and the value of a sum of ``select(p, value, 0)``, or None and the value."""
    owner = op.operand.owner
    if isinstance(owner, region.SelectOp) and op.fn.data == "sum":
        other = owner.if_false.owner
        if isinstance(other, region.BroadcastInDimOp):
            other = other.operand.owner
        if isinstance(other, region.ConstantOp) and other.number == 0:
            return owner.condition, cast(Operation, owner.if_true.owner)
    return None, owner if isinstance(owner, Operation) else None


def _repeated(value: SSAValue, labels: Sequence[str]) -> list[str]:
    """Which of ``labels`` ``value`` does not depend on."""
    owner = value.owner
    if not isinstance(owner, region.BroadcastInDimOp):
        return []
    have = type_of(owner.operand).labels
    return [label for label in labels if label not in have]


@dataclass
class JoinThrough(_Distributing):
    """R2 and R0: ``reduce f over J g(reduce f' over K x)`` → ``reduce f over J, K g(x)``, by cost.

    Legal where R1 would turn ``reduce f over K g(x)`` into ``g(reduce f' over K x)``, so where
    the legality table has that row, and where R0 joins two reductions by f; nothing else uses
    what is between.  Its class is the larger of the two.
    """

    table: Sequence[Row] | None = None

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: region.ReduceOp, rewriter: PatternRewriter, /) -> None:
        body = op.operand.owner
        if not isinstance(body, Elementwise) or not op.operand.has_one_use():
            return
        inner = next((o.owner for o in body.operands if isinstance(o.owner, region.ReduceOp)), None)
        if inner is None or not inner.result.has_one_use():
            return
        made, x = _Made(op), type_of(inner.operand)
        operands = [
            inner.operand if o is inner.result else made.spread(o, x.axes.data)
            for o in body.operands
        ]
        moved = made.add(rebuilt(body, operands))
        acc = cast(AnyFloat, op.accumulator)
        sunk = region.ReduceOp(op.fn.data, moved, inner.labels, acc=acc)
        row = None
        if (c := candidate(sunk, op)) is not None:
            row = judge(c, self.classes, self.table).row
        legal = (
            row is not None
            and row.becomes == inner.fn.data
            and sunk.result.type == op.operand.type
            and why_not_joined(op, sunk, self.classes, needs=()) is None
        )
        sunk.erase()
        if not legal or row is None or (op.fn.data == "sum" and op.accumulator != f32):
            made.drop()
            return
        both = {*op.labels, *inner.labels}
        labels = [label for label in x.labels if label in both]
        result = made.add(region.ReduceOp(op.fn.data, moved, labels, acc=acc, label=op.label))
        change = CLASSES[max(CLASSES.index(row.change), CLASSES.index(JOIN[op.fn.data]))]
        what = f"{row.function} moved into {inner.fn.data} over [{', '.join(inner.labels)}]"
        self._settle(op, [op, body, inner], made, result, change, what, rewriter)


def patterns(
    classes: Sequence[str] = DEFAULT_CLASSES,
    nominal: int = NOMINAL,
    report: Report | None = None,
    table: Sequence[Row] | None = None,
) -> list[RewritePattern]:
    """The patterns of the pass, in the order in which they are tried."""
    return [
        ComposeBroadcasts(),
        ComposeTransposes(),
        SplitReduction(classes, nominal, report),
        JoinThrough(classes, nominal, report, table),
    ]


def distribute(
    scope: ModuleOp | region.KernelOp,
    classes: Sequence[str] = DEFAULT_CLASSES,
    nominal: int = NOMINAL,
    table: Sequence[Row] | None = None,
) -> Report:
    """Distribute reductions of ``scope`` where that costs less; what fired."""
    report = Report()
    rewrite(scope, patterns(classes, nominal, report, table), recursive=True)
    return report


@dataclass(frozen=True)
class RegionDistribute(ModulePass):
    """Reductions distributed over their operands where that costs less (R2 of S6.5).

    ``classes`` are the changes that may happen; ``size`` is what a symbol counts as.  Each use
    of a finite-only row is reported on stderr; with ``report`` every use is.
    """

    name = "region-distribute"

    classes: tuple[str, ...] = DEFAULT_CLASSES
    size: int = NOMINAL
    report: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        check_classes(self.name, self.classes)
        fired = distribute(op, self.classes, self.size).fired
        show(n for n in fired if self.report or n.kind == "finite-only")
