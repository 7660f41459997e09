"""``frontend-check-indices``: a debug build's reports of indices that are outside of their axis.

Each op with a ``trap`` loses it, and for each axis that its indices are of the graph has one more
output: the place of the first one that is outside, or -1, that index, and the axis's size.  What
the graph computes stays what it is; whoever runs it reads the reports
(``rewriting/frontend/traps.py``).
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FunctionType, ModuleOp, StringAttr, i64
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint

from polyc.dialects import frontend
from polyc.dialects.common.dim import Dim
from polyc.dialects.common.elements import bounds
from polyc.dialects.common.sizes import product
from polyc.dialects.frontend import tensor, tensor_of
from polyc.dialects.frontend.gathers import GatherBase
from polyc.dialects.frontend.scatters import ScatterBase
from polyc.rewriting.driver import rewrite
from polyc.rewriting.frontend.traps import Trap, trapping


class ReportIndices(RewritePattern):
    """An op with a ``trap`` → the op, and reports of its indices that the graph gives too.

    Exact in what the graph gave before.  Legal always; it fires where an op has a ``trap``.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: frontend.GraphOp, rewriter: PatternRewriter, /) -> None:
        found = list(trapping(op))
        if not found:
            return
        end = op.body.block.last_op
        assert isinstance(end, frontend.OutputOp)
        build = _Builder(rewriter, end)
        records: list[SSAValue] = []
        for one, traps in found:
            records += [build.record(one, trap) for trap in traps]
            one.trap = None
            rewriter.notify_op_modified(one)
        taken = {name.data for name in (*op.arg_names, *op.res_names)} | set(op.symbol_names)
        names: list[str] = []
        for number in range(len(records)):
            name = f"trap{number}"
            while name in taken:
                name += "_"
            names.append(name)
        attrs = [DictionaryAttr({}) for _ in records]
        op.res_names = ArrayAttr([*op.res_names, *map(StringAttr, names)])
        op.res_attrs = ArrayAttr([*op.res_attrs, *attrs])
        op.function_type = FunctionType.from_lists(
            op.function_type.inputs.data,
            [*op.function_type.outputs.data, *(record.type for record in records)],
        )
        rewriter.replace(end, frontend.OutputOp([*end.args, *records]), [])
        rewriter.notify_op_modified(op)


class _Builder:
    """Inserts ops before the end of a graph."""

    def __init__(self, rewriter: PatternRewriter, end: Operation) -> None:
        self._rewriter = rewriter
        self._at = InsertPoint.before(end)

    def add(self, op: Operation) -> SSAValue:
        self._rewriter.insert(op, self._at)
        return op.results[0]

    def number(self, value: int) -> SSAValue:
        return self.add(frontend.ConstantOp(value, tensor((), i64)))

    def record(self, op: GatherBase | ScatterBase, trap: Trap) -> SSAValue:
        """The three numbers that say of some indices what is wrong."""
        index = self._indices(op.indices, trap)
        (count,) = tensor_of(index).dims
        size = self.add(frontend.DimOp(tensor_of(op.operand).dims[trap.axis]))
        low = self.add(frontend.ElementwiseOp("neg", [size])) if trap.from_end else self.number(0)
        below = self.add(frontend.CompareOp("lt", index, low))
        above = self.add(frontend.CompareOp("ge", index, size))
        outside = self.add(frontend.ElementwiseOp("or", [below, above]))
        place = self.add(frontend.IotaOp(tensor((count,), i64), 0))
        none = self.number(bounds(i64)[1])
        first = self.add(frontend.SelectOp(outside, place, none))
        first = self.add(frontend.ReduceOp("min", first, [0]))
        inside = self.add(frontend.CompareOp("eq", first, none))
        place = self.add(frontend.SelectOp(inside, self.number(-1), first))
        value = self.add(frontend.GatherOp(index, place, 0))
        parts = [self.add(frontend.ReshapeOp(one, (Dim.const(1),))) for one in (place, value, size)]
        return self.add(frontend.ConcatOp(parts, 0))

    def _indices(self, indices: SSAValue, trap: Trap) -> SSAValue:
        """All indices of a trap in one row of i64."""
        dims = tensor_of(indices).dims
        if trap.component is not None:
            low = [*(Dim.const(0) for _ in dims[:-1]), Dim.const(trap.component)]
            high = [*dims[:-1], Dim.const(trap.component + 1)]
            indices = self.add(frontend.SliceOp(indices, low, high))
        whole = product(dims if trap.component is None else dims[:-1])
        indices = self.add(frontend.ReshapeOp(indices, (whole,)))
        if tensor_of(indices).element_type == i64:
            return indices
        return self.add(frontend.CastOp(indices, i64))


@dataclass(frozen=True)
class FrontendCheckIndices(ModulePass):
    """Reports of the indices of ops with a ``trap``, as outputs of their graphs."""

    name = "frontend-check-indices"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [ReportIndices()])
