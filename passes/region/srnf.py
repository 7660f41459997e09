"""``region-srnf``: reductions of a kernel in their normal form (S6.5).

The rules are patterns:

* R0 ``JoinReductions``     a reduction of a reduction by the same function is one
* R1 ``HoistFromReduction`` a function that does not depend on the reduced axes moves out
* R3 ``MoveInvariantOut``   work on repeated values is done before they are repeated
* R3 ``ApplyToAccumulator`` work on a transposed accumulator is done before it is transposed

R4, the barrier between unlike reductions, is a condition of R0 and of nothing else.  R2
undoes R1 and is a pass of its own, ``region-distribute``.  What may move is decided by the
tables in ``passes/support/region/legality.py``; ``refusals`` says for each reduction why the
function under it stays.  Applied to its own result the pass changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import (
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)

from polyc.dialects import region
from polyc.passes.support.region.legality import (
    JOIN,
    JOIN_NEEDS,
    Candidate,
    JoinNeed,
    Row,
    candidate,
    judge,
    why_not_joined,
)
from polyc.rewriting.changes import DEFAULT_CLASSES, ChangeClass, check_classes
from polyc.rewriting.driver import located, rewrite
from polyc.rewriting.notes import Note, Report, show
from polyc.rewriting.region.building import (
    ComposeBroadcasts,
    ComposeTransposes,
    Elementwise,
    erase_unused,
    rebuilt,
    spread,
    type_of,
)

# Patterns ------------------------------------------------------------------------------


@dataclass
class JoinReductions(RewritePattern):
    """R0: ``reduce f over K1 (reduce f over K2 x)`` → ``reduce f over K1, K2 x``.

    Legal when both reduce by the same function (R4: a max of sums stays) in the same
    accumulator, in f32 if it is a sum, the inner result has no other use, and the inner
    init is the neutral value, which the verifier holds.  Exact for max and min; a sum is
    reassociated.  ``join`` and ``needs`` are the legality tables to go by.
    """

    classes: Sequence[str] = DEFAULT_CLASSES
    report: Report | None = None
    join: Mapping[str, ChangeClass] = field(default_factory=lambda: JOIN)
    needs: Sequence[JoinNeed] = JOIN_NEEDS

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: region.ReduceOp, rewriter: PatternRewriter, /) -> None:
        if not isinstance(inner := op.operand.owner, region.ReduceOp):
            return
        if why_not_joined(op, inner, self.classes, self.join, self.needs) is not None:
            return
        both = {*op.labels, *inner.labels}
        joined = region.ReduceOp(
            op.fn.data,
            inner.operand,
            [label for label in type_of(inner.operand).labels if label in both],
            acc=inner.acc,
            label=op.label or inner.label,
            precision=inner.precision,
        )
        joined.result.name_hint = op.result.name_hint
        if self.report is not None:
            text = f"{op.fn.data} over [{', '.join(inner.labels)}] joined the one outside it"
            self.report.fired.append(Note(self.join[op.fn.data], text, located(joined, op)))
        rewriter.replace(op, joined)
        erase_unused(inner, rewriter)


@dataclass
class HoistFromReduction(RewritePattern):
    """R1: ``reduce f over K g(x)`` → ``g(reduce f' over K x)``.

    Legal where a row of the legality table allows it: it names the function, the operand
    that varies, ``f`` and ``f'``, the class of the change and the preconditions; and
    where nothing else uses ``g(x)``, so no work is added.  Its class is the row's.
    """

    classes: Sequence[str] = DEFAULT_CLASSES
    table: Sequence[Row] | None = None
    report: Report | None = None

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: region.ReduceOp, rewriter: PatternRewriter, /) -> None:
        c = candidate(op)
        if c is None or not op.operand.has_one_use():
            return
        row = judge(c, self.classes, self.table).row
        if row is None:
            return
        acc = None if isinstance(c.body, region.CastOp) else op.acc
        precision = op.precision if row.becomes == "sum" else None
        reduced = region.ReduceOp(
            row.becomes, c.varying, op.labels, acc=acc, label=op.label, precision=precision
        )
        reduced.result.name_hint = op.result.name_hint
        rewriter.insert(reduced)
        operands: list[SSAValue] = [reduced.result]
        if c.other is not None:
            other = spread(c.other, reduced.result.type.axes.data, rewriter)
            operands.insert(0 if c.position == "rhs" else 1, other)
        moved = rebuilt(c.body, operands)
        if self.report is not None:
            note = Note(row.change, f"{c.function} moved out of {c}", located(reduced, op))
            self.report.fired.append(note)
        # The name stays with the reduction; what moved keeps the function's.
        moved.results[0].name_hint = c.body.results[0].name_hint
        op.result.name_hint = None
        rewriter.replace(op, moved)
        erase_unused(c.body, rewriter)


@dataclass
class MoveInvariantOut(RewritePattern):
    """R3: an elementwise op on repeated values → the op on the values, then repeated.

    Legal when every operand is a broadcast and some axis of the result is new to all of
    them: no point of the result sees other inputs than before.  Exact.  Nothing that
    does not depend on a reduced axis stays under its reduction.
    """

    report: Report | None = None

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        if not isinstance(op, Elementwise):
            return
        sources: list[SSAValue] = []
        for operand in op.operands:
            if not isinstance(owner := operand.owner, region.BroadcastInDimOp):
                return
            sources.append(owner.operand)
        result = op.result.type
        labels = {label for s in sources for label in type_of(s).labels}
        if len(labels) == len(result.axes):
            return
        axes = type_of(sources[0]).axes.data
        if any(type_of(s).axes.data != axes for s in sources):
            axes = tuple(a for a in result.axes if a.label in labels)
        small = rebuilt(op, [spread(s, axes, rewriter) for s in sources])
        rewriter.insert(small)
        small.results[0].name_hint = op.result.name_hint
        if self.report is not None:
            text = f"{op.name} is computed over {region.axes_text(axes)}, then repeated"
            self.report.fired.append(Note("exact", text, located(small, op)))
        owners = [o.owner for o in op.operands]
        places = [result.labels.index(a.label) for a in axes]
        rewriter.replace(op, region.BroadcastInDimOp(small.results[0], places, result.axes))
        for owner in dict.fromkeys(owners):
            erase_unused(cast(Operation, owner), rewriter)


@dataclass
class ApplyToAccumulator(RewritePattern):
    """R3: an elementwise op on a transposed accumulator → the op on it, then transposed.

    Legal when every operand that a reduction leads to is transposed alike; the others are
    turned back, which moves nothing.  Exact.  What follows a reduction then runs where its
    accumulator lies.
    """

    report: Report | None = None

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        if not isinstance(op, Elementwise):
            return
        turned = next(
            (
                o.owner
                for o in op.operands
                if isinstance(o.owner, region.TransposeOp) and _is_accumulated(o)
            ),
            None,
        )
        if turned is None:
            return
        perm, axes = turned.permutation, type_of(turned.operand).axes.data
        operands: list[SSAValue] = []
        for operand in op.operands:
            owner = operand.owner
            if isinstance(owner, region.TransposeOp) and owner.permutation == perm:
                operands.append(owner.operand)
            elif _is_accumulated(operand):
                return
            else:
                operands.append(operand)
        done = rebuilt(op, [spread(o, axes, rewriter) for o in operands])
        rewriter.insert(done)
        done.results[0].name_hint = op.result.name_hint
        if self.report is not None:
            text = f"{op.name} runs on the accumulator, before it is transposed"
            self.report.fired.append(Note("exact", text, located(done, op)))
        owners = [o.owner for o in op.operands]
        rewriter.replace(op, region.TransposeOp(done.results[0], perm))
        for owner in dict.fromkeys(owners):
            if isinstance(owner, region.TransposeOp):
                erase_unused(owner, rewriter)


def _is_accumulated(value: SSAValue) -> bool:
    """Whether ``value`` has all the axes of a reduction's result and is computed from it."""
    seen: set[SSAValue] = set()
    todo = [value]
    while todo:
        if (found := todo.pop()) in seen:
            continue
        seen.add(found)
        if isinstance(owner := found.owner, region.ReduceOp):
            return True
        if isinstance(owner, region.TransposeOp | Elementwise):
            todo += owner.operands
    return False


# The pass ------------------------------------------------------------------------------


def patterns(
    classes: Sequence[str] = DEFAULT_CLASSES,
    table: Sequence[Row] | None = None,
    report: Report | None = None,
) -> list[RewritePattern]:
    """The patterns of the pass, in the order in which they are tried."""
    return [
        ComposeBroadcasts(),
        ComposeTransposes(),
        MoveInvariantOut(report),
        ApplyToAccumulator(report),
        HoistFromReduction(classes, table, report),
        JoinReductions(classes, report),
    ]


def refusals(
    scope: Operation, classes: Sequence[str] = DEFAULT_CLASSES, table: Sequence[Row] | None = None
) -> list[Note]:
    """Why the function under each reduction of ``scope`` stays there (S6.8).

    One note of kind ``NonAssociativeTransform`` a reduction over a function of one
    varying value, or over another reduction.
    """
    notes: list[Note] = []
    for op in scope.walk():
        if not isinstance(op, region.ReduceOp):
            continue
        reason: str | None = None
        if isinstance(inner := op.operand.owner, region.ReduceOp):
            reason = why_not_joined(op, inner, classes)
        elif (c := candidate(op)) is not None:
            reason = _why_not_hoisted(c, classes, table)
        if reason is not None:
            notes.append(Note("NonAssociativeTransform", reason, op))
    return notes


def _why_not_hoisted(
    c: Candidate, classes: Sequence[str], table: Sequence[Row] | None
) -> str | None:
    verdict = judge(c, classes, table)
    if verdict.row is None:
        return verdict.reason
    if not c.reduce.operand.has_one_use():
        return f"the {c.function} under {c} has other uses, and would be computed twice"
    return None


def normalise(
    scope: ModuleOp | region.KernelOp,
    classes: Sequence[str] = DEFAULT_CLASSES,
    table: Sequence[Row] | None = None,
) -> Report:
    """Bring the reductions of ``scope`` to normal form; what fired and what was refused."""
    report = Report()
    rewrite(scope, patterns(classes, table, report), recursive=True)
    report.refused = refusals(scope, classes, table)
    return report


@dataclass(frozen=True)
class RegionSrnf(ModulePass):
    """The kernels' reductions in normal form (S6.5).

    ``classes`` are the changes that may happen.  Each use of a finite-only row is
    reported on stderr; with ``report`` every use and every refusal is.
    """

    name = "region-srnf"

    classes: tuple[str, ...] = DEFAULT_CLASSES
    report: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        check_classes(self.name, self.classes)
        done = normalise(op, self.classes)
        notes = [n for n in done.fired if self.report or n.kind == "finite-only"]
        show(notes + (done.refused if self.report else []))
