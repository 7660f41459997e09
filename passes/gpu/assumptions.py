"""``gpu-assumptions``: what the launch conditions say about alignment (T2, S2.1)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from xdsl.context import Context
from xdsl.dialects.builtin import IntAttr, ModuleOp
from xdsl.ir.affine import AffineConstraintExpr, AffineConstraintKind, AffineExpr, AffineSet
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.affine import isl
from polyc.dialects.common.dim import AssumptionsAttr, Dim
from polyc.dialects.common.grids import WORKSPACE_ALIGN
from polyc.dialects.gpu import module as gpu
from polyc.dialects.gpu.binding import BindAttr
from polyc.dialects.gpu.kernel import KernelOp
from polyc.dialects.gpu.launches import LaunchOp
from polyc.dialects.gpu.types import GlobalType, element_bytes
from polyc.rewriting.driver import rewrite

MAX_VECTOR_BYTES = 16
"""Widest global access of one thread (S8.1)."""

FEW_FACTS = 4
"""Conditions up to which isl is asked at once.  More of them compare the times of variants, in
which each rounding up is a variable of its own to isl: that takes it up to a second."""

PROBES = tuple((1 << power) + 1 for power in range(17)) + tuple(99 * n for n in range(1, 50, 4))
"""Sizes at which it is first tried whether conditions leave a size that is no multiple."""


def divides(size: Dim, factor: int, facts: AssumptionsAttr, symbols: tuple[str, ...]) -> bool:
    """Whether ``size`` is a multiple of ``factor`` wherever ``facts`` hold."""
    if (constant := size.constant()) is not None:
        return constant % factor == 0
    # What isl cannot read, a product of symbols, is compared by its canonical form.
    said = [size.mod(factor * times) for times in (1, 2, 4, 8)]
    if any(fact.kind == "==" and fact.expr in said for fact in facts.data):
        return True
    if len(facts.data) > FEW_FACTS and _refuted(size, factor, facts, symbols):
        return False
    expr = size.as_affine(symbols)
    if expr is None:
        return all(times % factor == 0 for _, times in size.terms)
    zero = AffineConstraintExpr(AffineConstraintKind.eq, expr % factor, AffineExpr.constant(0))
    return isl.implies(facts.as_affine_set(symbols), AffineSet(0, len(symbols), (zero,)))


def _refuted(size: Dim, factor: int, facts: AssumptionsAttr, symbols: tuple[str, ...]) -> bool:
    """Whether a size of ``PROBES`` is no multiple of ``factor`` where all ``facts`` hold."""
    own = size.symbols()
    for probe, other in product(PROBES, (None, 1, 64)):
        values = {name: probe if name in own else other or probe for name in symbols}
        if size.evaluate(values) % factor and all(fact.holds(values) for fact in facts.data):
            return True
    return False


class AlignFromConditions(RewritePattern):
    """Give each tensor argument of a kernel the alignment that all of its launches guarantee.

    Legality: a row starts at a multiple of ``align`` when the base does (checked at dispatch;
    a workspace is allocated so)
    and the row's length in bytes is one (implied by the conditions, decided by isl).  The one
    row of a vector counts too: it has to end with a whole access.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: KernelOp, rewriter: PatternRewriter) -> None:
        module = op.parent_op()
        if not isinstance(module, gpu.ModuleOp):
            return
        launches = [
            launch
            for launch in module.dispatch().launches()
            if launch.kernel.root_reference == op.sym_name
        ]
        for arg, binding in zip(op.body.block.args, op.bindings, strict=True):
            if not isinstance(arg.type, GlobalType):
                continue
            known = min(
                (self.alignment(arg.type, x, x.bound(binding), module) for x in launches),
                default=0,
            )
            size = element_bytes(arg.type.element_type)
            if known <= size or known <= arg.type.align.data:
                continue
            aligned = GlobalType(arg.type.shape, arg.type.element_type, IntAttr(known))
            rewriter.replace_value_with_new_type(arg, aligned)

    @staticmethod
    def alignment(
        tensor: GlobalType, launch: LaunchOp, binding: BindAttr, module: gpu.ModuleOp
    ) -> int:
        """Bytes that base and row starts are multiples of at this launch; at most 16."""
        facts = AssumptionsAttr((*module.assumptions.data, *launch.facts.data))
        index = binding.tensor_index
        base = WORKSPACE_ALIGN if index is None else launch.alignments[index]
        size = element_bytes(tensor.element_type)
        best = MAX_VECTOR_BYTES
        while best > size:
            rows = not tensor.dims or divides(
                tensor.dims[-1], best // size, facts, module.symbol_names
            )
            if base % best == 0 and rows:
                return best
            best //= 2
        return size


@dataclass(frozen=True)
class GpuAssumptions(ModulePass):
    """Put the alignment that the launch conditions imply into the types of tensor arguments."""

    name = "gpu-assumptions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [AlignFromConditions()])
