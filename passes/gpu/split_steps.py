"""``gpu-split-steps``: a loop is cut where a branch of its body begins or ends to be taken (T2).

A mask cuts the tiles on its border alone, and a tail is in the last step.  The steps between run
without the branch, which keeps the CUDA compiler from moving anything past it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import affine, arith, scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineExpr
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.affine.expressions import Linear, NotAffine, canonical_expr, expr_of, linear_of, uses_dim
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.types import SharedType
from polyc.passes.support.gpu.index_forms import is_inside
from polyc.passes.support.gpu.symbols import constant_of
from polyc.rewriting.driver import located, rewrite
from polyc.rewriting.effects import is_unused
from polyc.rewriting.emit import PREDICATES, Emit, affine_dim, applied, clone_into

MOST = 2
"""Branches of a loop that are cut away: each may make three loops of one."""

STEP = 0
"""The dimension that stands for a loop's step; the others are values from outside of the loop."""


@dataclass(frozen=True)
class Bound:
    """``factor`` times the step plus ``rest``, which names no step."""

    factor: int
    rest: AffineExpr

    def opposite(self) -> Bound:
        """What is 0 or more where this is below 0."""
        return Bound(-self.factor, canonical_expr(self.rest * -1 - 1))


@dataclass(frozen=True)
class Stretch:
    """The neighboring steps at which no bound is below 0, and what a condition is there."""

    bounds: tuple[Bound, ...]
    holds: bool
    """Whether it holds in the stretch; at all other steps it is the opposite."""

    def where(self, holds: bool) -> Stretch | None:
        """The stretch in which the condition ``holds``, or does not; None where that is none."""
        if holds is self.holds:
            return self
        return Stretch((self.bounds[0].opposite(),), holds) if len(self.bounds) == 1 else None


class SplitSteps(RewritePattern):
    """Cut a loop around the steps at which the first such branch of its body is taken, or is not.

    The condition compares expressions of which each is a multiple of the loop's step and what the
    loop does not change: the least of them with another, or the greatest, or several comparisons
    where one is enough or all are needed.  It has one value in a stretch of neighboring steps, the
    other before and after, so that up to three loops of the same body, with one side of the branch
    in its place, do what the one did.  Where the signs of the multiples say that no step is before
    or after, there is no loop for these.

    Legality, exact: the steps keep their order, each does what it did, and what a step hands to the
    next goes from loop to loop.  The bounds are computed in front of the first loop, of values that
    the loop does not change.  Refused, and left as they are: loops with steps other than 1 or more
    than ``MOST`` such branches; branches that give values or do anything but compute on fragments;
    conditions of another form, of what the body reads, or of nothing that changes with the step.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: scf.ForOp, rewriter: PatternRewriter) -> None:
        if constant_of(op.step) != 1:
            return
        forms = _Forms(op)
        found = [
            (guard, stretch)
            for guard in op.body.block.ops
            if isinstance(guard, scf.IfOp) and not guard.results and _computes(guard)
            if (stretch := forms.stretch(guard.cond)) is not None
            and any(bound.factor for bound in stretch.bounds)
        ]
        if 0 < len(found) <= MOST:
            rewriter.replace(op, *_cut(op, *found[0], forms))


COMPUTING = (tile.FillOp, tile.MapOp, tile.ReduceOp)
"""What a branch is cut away for: work on all elements of fragments.  A barrier's or a copy's own
branch costs a comparison, and two loops around it cost all that the loop does once more."""


def _computes(branch: scf.IfOp) -> bool:
    """Whether the tile ops of a branch compute on fragments, and it has some."""
    ops = [op for op in branch.walk() if type(op) in tile.TILE_OPS]
    return any(isinstance(op, COMPUTING) for op in ops) and all(
        isinstance(op, (*COMPUTING, tile.TileIndexOp, tile.YieldOp))
        and not any(isinstance(value.type, SharedType) for value in op.operands)
        for op in ops
    )


def _cut(
    op: scf.ForOp, guard: scf.IfOp, stretch: Stretch, forms: _Forms
) -> tuple[list[Operation], Sequence[SSAValue]]:
    """The loops that an op becomes, and what they give."""
    emit = Emit()
    start: SSAValue = op.lb
    end: SSAValue = op.ub
    before = after = False
    for bound in stretch.bounds:
        if bound.factor < 0:
            after = True
            last = forms.emitted(emit, bound.rest // -bound.factor + 1)
            end = emit.value(arith.MinSIOp(end, last))
            continue
        before = True
        if bound.factor:
            first = forms.emitted(emit, (bound.rest // bound.factor) * -1)
        else:
            always = emit.compare("sge", forms.emitted(emit, bound.rest), emit.index(0))
            first = emit.value(arith.SelectOp(always, op.lb, op.ub))
        start = emit.value(arith.MaxSIOp(start, first))
    if before:
        start = emit.value(arith.MinSIOp(start, op.ub), "clear")
    if after:
        end = emit.value(arith.MaxSIOp(end, start), "dark")
    loops = [(op.lb, start, not stretch.holds)] if before else []
    loops.append((start, end, stretch.holds))
    if after:
        loops.append((end, op.ub, not stretch.holds))
    carried: Sequence[SSAValue] = op.iter_args
    number = op.body.block.get_operation_index(guard)
    for low, high, holds in loops:
        clone_into([op], {}, emit)
        loop = emit.ops[-1]
        assert isinstance(loop, scf.ForOp)
        loop.operands = [low, high, op.step, *carried]
        _decide(loop, number, holds)
        carried = loop.results
    for new in emit.ops:
        located(new, op)
    return emit.ops, carried


def _decide(loop: scf.ForOp, number: int, holds: bool) -> None:
    """Put one side of a loop's branch, the op of this number, in the place of the branch."""
    block = loop.body.block
    guard = list(block.ops)[number]
    assert isinstance(guard, scf.IfOp)
    side = guard.true_region if holds else guard.false_region
    for inner in list(side.block.ops) if side.blocks else []:
        if not isinstance(inner, scf.YieldOp):
            inner.detach()
            block.insert_op_before(inner, guard)
    condition = guard.cond.owner
    guard.detach()
    guard.erase()
    _drop(condition, loop)


def _drop(op: object, loop: scf.ForOp) -> None:
    """Erase an op of the loop's body that nothing uses any more, and what only it used."""
    if isinstance(op, Operation) and op.parent_op() is loop and is_unused(op):
        needed = [value.owner for value in op.operands]
        op.detach()
        op.erase()
        for one in needed:
            _drop(one, loop)


class _Forms:
    """Conditions and index values of a loop's body by the loop's step and values from outside."""

    def __init__(self, loop: scf.ForOp) -> None:
        self.loop = loop
        self.values: list[SSAValue] = [loop.body.block.args[0]]

    def emitted(self, emit: Emit, expr: AffineExpr) -> SSAValue:
        """The value of an expression that does not name the step, before the loop."""
        return emit.apply(canonical_expr(expr), self.values)

    def stretch(self, condition: SSAValue) -> Stretch | None:
        """Where a condition has one value, and the other elsewhere; None where none is known."""
        op = condition.owner
        if isinstance(op, arith.AndIOp | arith.OrIOp):
            holds = isinstance(op, arith.AndIOp)
            sides = [found and found.where(holds) for found in map(self.stretch, op.operands)]
            bounds = [b for side in sides if side is not None for b in side.bounds]
            return None if None in sides else Stretch(tuple(bounds), holds)
        if not isinstance(op, arith.CmpiOp):
            return None
        compared = PREDICATES[op.predicate.value.data]
        if compared not in ("slt", "sle", "sgt", "sge"):
            return None
        # ``left < right``, or its opposite.
        left, right = (op.rhs, op.lhs) if compared in ("sgt", "sle") else (op.lhs, op.rhs)
        less = compared in ("slt", "sgt")
        lefts, rights = self._leaves(left, arith.MinSIOp), self._leaves(right, arith.MaxSIOp)
        if found := self._bounds(rights, lefts, 0):
            return Stretch(found, not less)
        lefts, rights = self._leaves(left, arith.MaxSIOp), self._leaves(right, arith.MinSIOp)
        found = self._bounds(lefts, rights, -1)
        return Stretch(found, less) if found else None

    def _leaves(
        self, value: SSAValue, kind: type[arith.MinSIOp] | type[arith.MaxSIOp]
    ) -> list[SSAValue]:
        """What the loop takes the least, or the greatest, of."""
        if isinstance(op := value.owner, kind) and is_inside(value, self.loop):
            return [leaf for side in op.operands for leaf in self._leaves(side, kind)]
        return [value]

    def _bounds(
        self, lows: Sequence[SSAValue], highs: Sequence[SSAValue], shift: int
    ) -> tuple[Bound, ...]:
        """Each of ``highs`` less each of ``lows`` and ``shift`` more; none where one is unknown."""
        found: list[Bound] = []
        for high in map(self.expr, highs):
            for low in map(self.expr, lows):
                bound = None if high is None or low is None else _bound(high - low + shift)
                if bound is None:
                    return ()
                found.append(bound)
        return tuple(found)

    def expr(self, value: SSAValue) -> AffineExpr | None:
        """An index value by the step and what is outside; None where the loop's body reads it."""
        op = value.owner
        if (number := constant_of(value)) is not None:
            return AffineExpr.constant(number)
        if value is self.values[STEP] or not is_inside(value, self.loop):
            if value not in self.values:
                self.values.append(value)
            return affine_dim(self.values.index(value))
        if not isinstance(op, affine.ApplyOp | arith.AddiOp | arith.SubiOp | arith.MuliOp):
            return None
        parts = [part for part in map(self.expr, op.operands) if part is not None]
        if len(parts) < len(op.operands):
            return None
        match op:
            case affine.ApplyOp():
                return applied(op, parts)
            case arith.AddiOp():
                return parts[0] + parts[1]
            case arith.SubiOp():
                return parts[0] - parts[1]
            case _:
                fixed = any(isinstance(part, AffineConstantExpr) for part in parts)
                return parts[0] * parts[1] if fixed else None


def _bound(expr: AffineExpr) -> Bound | None:
    """An expression by its multiple of the step; None where it depends on it in another way."""
    try:
        whole = linear_of(expr)
    except NotAffine:
        return None
    factor = sum(count for atom, count in whole.terms if atom == ("d", STEP))
    rest = expr_of(whole.plus(Linear(((("d", STEP), -factor),), 0)) if factor else whole)
    return None if uses_dim(rest, STEP) else Bound(factor, rest)


@dataclass(frozen=True)
class GpuSplitSteps(ModulePass):
    """Cut loops at the steps from which, or to which, a branch of their bodies is taken."""

    name = "gpu-split-steps"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [SplitSteps()], recursive=True)
