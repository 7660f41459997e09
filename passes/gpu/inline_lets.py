"""``gpu-inline-lets``: index expressions without the names that an author gave their parts (T2).

``%x = i * 64`` and ``%y = x + j`` become ``%y = i * 64 + j``: the passes that ask whether an index
is aligned or inside then see it whole.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import affine
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineExpr
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.rewriting.driver import rewrite
from polyc.rewriting.emit import Emit, applied

LONGEST = 16
"""Terms of an expression beyond which nothing more is put into it."""


class InlineApply(RewritePattern):
    """Put an ``affine.apply`` into the ``affine.apply`` that uses it.

    Exact: an index expression at other expressions is their composition.  Operands that are equal
    become one, so the result has no more of them than there are values.  An expression that would
    grow beyond ``LONGEST`` terms stays in two.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: affine.ApplyOp, rewriter: PatternRewriter) -> None:
        if not any(isinstance(v.owner, affine.ApplyOp) for v in op.mapOperands):
            return
        values: list[SSAValue] = []

        def dimension(value: SSAValue) -> AffineExpr:
            if value not in values:
                values.append(value)
            return AffineExpr.dimension(values.index(value))

        def inlined(value: SSAValue) -> AffineExpr:
            owner = value.owner
            if not isinstance(owner, affine.ApplyOp):
                return dimension(value)
            return applied(owner, [dimension(v) for v in owner.mapOperands])

        whole = applied(op, [inlined(v) for v in op.mapOperands])
        if sum(1 for _ in whole.dfs()) > 2 * LONGEST:
            return
        emit = Emit()
        result = emit.apply(whole, values, hint=op.result.name_hint)
        rewriter.replace(op, emit.ops, [result])


class DropUnusedApply(RewritePattern):
    """Erase an ``affine.apply`` that nothing uses any more."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: affine.ApplyOp, rewriter: PatternRewriter) -> None:
        if not op.result.uses:
            rewriter.erase(op)


@dataclass(frozen=True)
class GpuInlineLets(ModulePass):
    """Inline named parts of index expressions."""

    name = "gpu-inline-lets"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [InlineApply()], recursive=True)
        unused: list[Operation] = [o for o in op.walk() if isinstance(o, affine.ApplyOp)]
        if unused:
            rewrite(op, [DropUnusedApply()], recursive=True)
