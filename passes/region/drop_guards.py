"""``region-drop-guards``: guards of a kernel without what is always true (S5.1, S6.4).

``index-to-region`` makes no redundant guard; they come from text, from kernels that were
merged, and from assumptions that were added later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.ir.affine import AffineConstraintExpr, AffineSet
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.affine import isl
from polyc.dialects import region
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.common.sized_tensor import symbol_space
from polyc.dialects.index.attrs import bounds
from polyc.poly.guards import Verdict, judge
from polyc.rewriting.driver import located, rewrite
from polyc.rewriting.notes import Note, show


@dataclass
class Ledger:
    """What a run dropped and kept, a remark each."""

    dropped: list[Note] = field(default_factory=list[Note])
    kept: list[Note] = field(default_factory=list[Note])


def _verdicts(op: region.ReadOp | region.InsideOp, points: AffineSet) -> Sequence[Verdict] | None:
    """A verdict a row of a guard, over the axes of the op's value; None outside a kernel."""
    kernel = region.kernel_of(op)
    if kernel is None:
        return None
    axes = op.result.type.axes.data
    names = kernel.symbol_names
    rows = (
        *bounds([a.size for a in axes], names),
        *symbol_space(names, kernel.facts).constraints,
    )
    try:
        return judge(points.constraints, AffineSet(len(axes), len(names), rows))
    except isl.IslLimitExceeded as error:
        raise PolycError("PolyhedralLimit", f"{error}; write a simpler guard", op) from error


def _kept(
    op: region.ReadOp | region.InsideOp, verdicts: Sequence[Verdict], ledger: Ledger
) -> list[AffineConstraintExpr]:
    """The rows to keep; each verdict goes into the ledger."""
    kernel = region.kernel_of(op)
    assert kernel is not None
    dims, symbols = op.result.type.labels, kernel.symbol_names
    for v in verdicts:
        text = isl.set_text(_alone(v), dims, symbols)
        if v.failing is None:
            known = isl.set_text(v.known, dims, symbols)
            said = f"the guard {text} holds everywhere: {known} is within it"
            ledger.dropped.append(Note("GuardDropped", said, op))
        else:
            at = zip((*dims, *symbols), (*v.failing[0], *v.failing[1]), strict=True)
            where = ", ".join(f"{n} = {x}" for n, x in at)
            ledger.kept.append(Note("GuardKept", f"the guard {text} is false at {where}", op))
    return [v.row for v in verdicts if not v.dropped]


def _alone(verdict: Verdict) -> AffineSet:
    known = verdict.known
    return AffineSet(known.num_dims, known.num_symbols, (verdict.row,))


@dataclass
class DropReadGuard(RewritePattern):
    """A guarded read whose guard is partly or always true → the read with less of a guard.

    Legal when isl proves each dropped row on the read's axes, under the kernel's assumptions
    and the rows that stay.  Exact: the fill of a point that was never outside has no effect.
    """

    ledger: Ledger = field(default_factory=Ledger)

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: region.ReadOp, rewriter: PatternRewriter, /) -> None:
        if op.guard is None or op.fill is None:
            return
        points = op.guard.data
        verdicts = _verdicts(op, points)
        if verdicts is None:
            return
        rows = _kept(op, verdicts, self.ledger)
        if len(rows) == len(verdicts):
            return
        guard = AffineSet(points.num_dims, points.num_symbols, tuple(rows)) if rows else None
        fill = op.fill.value.data if rows else None
        axes = op.result.type.axes
        read = region.ReadOp(op.tensor, op.map.data, axes, guard, fill)
        _replace(op, read, rewriter)


@dataclass
class DropInside(RewritePattern):
    """A condition on axes that is partly or always true → less of one, or the select's value.

    Legal as ``DropReadGuard``.  A ``region.inside`` that is always true goes where all its uses
    are the predicates of selects, each of which then is its first value.  Exact.
    """

    ledger: Ledger = field(default_factory=Ledger)

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: region.InsideOp, rewriter: PatternRewriter, /) -> None:
        points = op.set.data
        verdicts = _verdicts(op, points)
        if verdicts is None:
            return
        rows = _kept(op, verdicts, self.ledger)
        if rows and len(rows) < len(verdicts):
            less = AffineSet(points.num_dims, points.num_symbols, tuple(rows))
            axes = op.result.type.axes
            _replace(op, region.InsideOp(less, axes), rewriter)
        if rows:
            return
        _always(op, rewriter)


def _always(op: region.InsideOp, rewriter: PatternRewriter) -> None:
    """Put the chosen values in the place of selects by a condition that always holds."""
    for use in tuple(op.result.uses):
        select = use.operation
        if isinstance(select, region.BroadcastInDimOp | region.TransposeOp):
            for inner in tuple(select.result.uses):
                if isinstance(inner.operation, region.SelectOp) and inner.index == 0:
                    rewriter.replace(inner.operation, [], [inner.operation.operands[1]])
            if not select.result.uses:
                rewriter.erase(select)
        elif isinstance(select, region.SelectOp) and use.index == 0:
            rewriter.replace(select, [], [select.operands[1]])
    if not op.result.uses:
        rewriter.erase(op)


def _replace(op: Operation, made: Operation, rewriter: PatternRewriter) -> None:
    rewriter.replace(op, [located(made, op)])


@dataclass(frozen=True)
class RegionDropGuards(ModulePass):
    """Drop what isl proves of guards; ``ledger`` prints every verdict with its proof."""

    name = "region-drop-guards"

    ledger: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        found = Ledger()
        rewrite(op, [DropReadGuard(found), DropInside(found)])
        if self.ledger:
            show([*found.dropped, *found.kept])
