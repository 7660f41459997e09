"""``region-srnf``: reductions of a kernel in their normal form (S6.5).

Three rules, each a pattern:

* R0 ``JoinReductions``     a reduction of a reduction by the same function is one
* R1 ``HoistFromReduction`` a function that does not depend on the reduced axes moves out
* R3 ``MoveInvariantOut``   work on repeated values is done before they are repeated

R4, the barrier between unlike reductions, is R0's condition.  What may move is decided by
the table in ``polyc.passes.legality``; ``refusals`` says for each reduction why the
function under it stays.  Applied to its own result the pass changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import AnyFloat, ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import (
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)
from xdsl.traits import Pure

from polyc.dialects import region
from polyc.dialects.diagnostic import PolycError
from polyc.dialects.region_types import AxisAttr, ValType
from polyc.passes.driver import located, rewrite
from polyc.passes.legality import (
    CLASSES,
    DEFAULT_CLASSES,
    JOIN,
    Candidate,
    Row,
    candidate,
    judge,
)
from polyc.passes.notes import Note, show

# What happened -------------------------------------------------------------------------


@dataclass
class Report:
    """What a run did (``fired``) and did not (``refused``)."""

    fired: list[Note] = field(default_factory=list[Note])
    refused: list[Note] = field(default_factory=list[Note])


# Building ------------------------------------------------------------------------------


def _type(value: SSAValue) -> ValType:
    return cast(ValType, value.type)


def _spread(value: SSAValue, axes: Sequence[AxisAttr], rewriter: PatternRewriter) -> SSAValue:
    """``value`` over ``axes``, which contain its own, in front of the matched op."""
    have, want = _type(value).labels, tuple(a.label for a in axes)
    if have == want:
        return value
    op: Operation
    if len(have) == len(want):
        op = region.TransposeOp(value, [have.index(w) for w in want])
    else:
        op = region.BroadcastInDimOp(value, [want.index(h) for h in have], axes)
    rewriter.insert(op)
    return op.results[0]


def _rebuilt(op: Operation, operands: Sequence[SSAValue]) -> Operation:
    """The elementwise ``op`` on other operands, over their axes."""
    match op:
        case region.UnaryOp():
            return region.UnaryOp(op.fn.data, operands[0])
        case region.BinaryOp():
            return region.BinaryOp(op.fn.data, operands[0], operands[1])
        case region.CompareOp():
            return region.CompareOp(op.fn.data, operands[0], operands[1])
        case region.SelectOp():
            return region.SelectOp(operands[0], operands[1], operands[2])
        case region.CastOp():
            return region.CastOp(operands[0], op.result.type.element_type)
        case _:
            raise ValueError(f"{op.name} is not elementwise")


def erase_unused(op: Operation, rewriter: PatternRewriter) -> None:
    """Erase ``op`` if it is pure and nothing uses it, then what only it used."""
    if any(r.first_use for r in op.results) or not op.has_trait(Pure):
        return
    owners = [o.owner for o in op.operands if isinstance(o.owner, Operation)]
    rewriter.erase(op)
    for owner in dict.fromkeys(owners):
        erase_unused(owner, rewriter)


def _only_use(value: SSAValue) -> bool:
    return value.has_one_use()


# Patterns ------------------------------------------------------------------------------


@dataclass
class JoinReductions(RewritePattern):
    """R0: ``reduce f over K1 (reduce f over K2 x)`` → ``reduce f over K1, K2 x``.

    Legal when both reduce by the same function (R4: a max of sums stays) in the same
    accumulator, the inner result has no other use, and the inner init is the neutral
    value, which the verifier holds.  Exact for max and min; a sum is reassociated.
    """

    classes: Sequence[str] = DEFAULT_CLASSES
    report: Report | None = None

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: region.ReduceOp, rewriter: PatternRewriter, /) -> None:
        if not isinstance(inner := op.operand.owner, region.ReduceOp):
            return
        if why_not_joined(op, inner, self.classes) is not None:
            return
        both = {*op.labels, *inner.labels}
        joined = region.ReduceOp(
            op.fn.data,
            inner.operand,
            [label for label in _type(inner.operand).labels if label in both],
            acc=cast(AnyFloat | None, inner.acc),
            label=op.label or inner.label,
        )
        joined.result.name_hint = op.result.name_hint
        if self.report is not None:
            text = f"{op.fn.data} over [{', '.join(inner.labels)}] joined the one outside it"
            self.report.fired.append(Note(JOIN[op.fn.data], text, located(joined, op)))
        rewriter.replace(op, joined)
        erase_unused(inner, rewriter)


def why_not_joined(
    outer: region.ReduceOp, inner: region.ReduceOp, classes: Sequence[str]
) -> str | None:
    """Why R0 leaves two reductions apart; None when it joins them."""
    f, g = outer.fn.data, inner.fn.data
    if f != g:
        return f"a {f} of a {g} is a barrier: unlike reductions do not join"
    if outer.accumulator != inner.accumulator:
        return f"the two accumulate in {inner.accumulator} and {outer.accumulator}"
    if not _only_use(inner.result):
        return "the inner result has other uses, and would be computed twice"
    if JOIN[f] not in classes:
        return f"joining a {f} is {JOIN[f]}, and only {', '.join(classes)} may fire"
    return None


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
        if c is None or not _only_use(op.operand):
            return
        row = judge(c, self.classes, self.table).row
        if row is None:
            return
        acc = None if isinstance(c.body, region.CastOp) else cast(AnyFloat | None, op.acc)
        reduced = region.ReduceOp(row.becomes, c.varying, op.labels, acc=acc, label=op.label)
        reduced.result.name_hint = op.result.name_hint
        rewriter.insert(reduced)
        operands: list[SSAValue] = [reduced.result]
        if c.other is not None:
            other = _spread(c.other, reduced.result.type.axes.data, rewriter)
            operands.insert(0 if c.position == "rhs" else 1, other)
        moved = _rebuilt(c.body, operands)
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
        if not isinstance(
            op,
            region.UnaryOp | region.BinaryOp | region.CompareOp | region.SelectOp | region.CastOp,
        ):
            return
        sources: list[SSAValue] = []
        for operand in op.operands:
            if not isinstance(owner := operand.owner, region.BroadcastInDimOp):
                return
            sources.append(owner.operand)
        result = op.result.type
        labels = {label for s in sources for label in _type(s).labels}
        if len(labels) == len(result.axes):
            return
        axes = _type(sources[0]).axes.data
        if any(_type(s).axes.data != axes for s in sources):
            axes = tuple(a for a in result.axes if a.label in labels)
        small = _rebuilt(op, [_spread(s, axes, rewriter) for s in sources])
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


class ComposeBroadcasts(RewritePattern):
    """A broadcast of a broadcast or of a transpose → one broadcast; one of nothing → none.

    Legal always, and exact: no element changes.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: region.BroadcastInDimOp, rewriter: PatternRewriter, /) -> None:
        inner = op.operand.owner
        if op.operand.type == op.result.type and op.positions == tuple(range(len(op.positions))):
            rewriter.replace(op, [], [op.operand])
            return
        match inner:
            case region.BroadcastInDimOp():
                places = [op.positions[p] for p in inner.positions]
            case region.TransposeOp():
                back = {p: i for i, p in enumerate(inner.permutation)}
                places = [op.positions[back[p]] for p in range(len(back))]
            case _:
                return
        rewriter.replace(op, region.BroadcastInDimOp(inner.operand, places, op.result.type.axes))
        erase_unused(inner, rewriter)


# The pass ------------------------------------------------------------------------------


def patterns(
    classes: Sequence[str] = DEFAULT_CLASSES,
    table: Sequence[Row] | None = None,
    report: Report | None = None,
) -> list[RewritePattern]:
    """The patterns of the pass, in the order in which they are tried."""
    return [
        ComposeBroadcasts(),
        MoveInvariantOut(report),
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
    if not _only_use(c.reduce.operand):
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
        for found in self.classes:
            if found not in CLASSES:
                raise PolycError(
                    "BadPassOption",
                    f"region-srnf has no class {found} of changes; there are {', '.join(CLASSES)}",
                )
        done = normalise(op, self.classes)
        notes = [n for n in done.fired if self.report or n.kind == "finite-only"]
        show(notes + (done.refused if self.report else []))
