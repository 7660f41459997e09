"""``tiny-gather-first``: what is computed of whole rows and read at some places is computed there.

A cross entropy takes one element of each row of ``x - max(x)`` or of a log-softmax.  Gathered of
that, it needs the whole of it in memory, which waits for the row's maximum; of ``x``, one kernel
walks over the rows and the elements are read beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.dialects import tiny
from polyc.rewriting.driver import located, rewrite
from polyc.rewriting.region.building import erase_unused
from polyc.rewriting.tiny.elementwise import ELEMENTWISE, is_repeated, waits


class GatherFirst(RewritePattern):
    """``gather(f(x, repeat(r)))`` → ``f(gather(x), repeat(r))``, where ``r`` is of a reduction.

    ``f`` is an elementwise op, and ``r`` is repeated along the axes of the indices; between the two
    there may be more elementwise ops.  Legal where places are clamped to axes that have elements.
    Worth it where no more elements are gathered than there are, and ``f`` is no output, which would
    be stored anyway.  Exact: each element is computed as before, of the same numbers.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tiny.GatherOp, rewriter: PatternRewriter, /) -> None:
        made = op.operand.owner
        if op.number is not None or not isinstance(made, ELEMENTWISE) or not _is_fewer(op):
            return
        if any(isinstance(use.operation, tiny.OutputOp) for use in op.operand.uses):
            return
        if not waits(op.operand, frozenset(op.axes)):
            return
        operands: list[SSAValue] = []
        for value in made.operands:
            part = located(_part(value, op), op)
            rewriter.insert(part)
            operands.append(part.results[0])
        kind = tiny.tensor(tiny.tensor_of(op.result).dims, tiny.tensor_of(op.result).element_type)
        again = type(made).create(
            operands=operands, result_types=[kind], properties=dict(made.properties)
        )
        rewriter.replace(op, [located(again, made)])
        erase_unused(made, rewriter)


def _is_fewer(op: tiny.GatherOp) -> bool:
    """Whether a gather is of axes with elements, and has no more of them."""
    sizes = [
        [tiny.tensor_of(value).dims[axis].constant() for axis in op.axes]
        for value in (op.operand, op.result)
    ]
    known = [[n for n in one if n is not None] for one in sizes]
    whole, part = map(prod, known)
    return known == sizes and 1 <= part <= whole


def _part(value: SSAValue, gather: tiny.GatherOp) -> Operation:
    """A value's elements at a gather's places."""
    kind = tiny.tensor_of(value)
    if is_repeated(value, frozenset(gather.axes)):
        repeat = value.owner
        assert isinstance(repeat, tiny.ExpandOp)
        shape = tiny.tensor(tiny.tensor_of(gather.result).dims, kind.element_type)
        return tiny.ExpandOp(repeat.operand, repeat.dims, shape)
    return tiny.GatherOp(value, gather.indices, gather.axes)


@dataclass(frozen=True)
class TinyGatherFirst(ModulePass):
    """Gathers of what waits for a reduction, before what is computed of it."""

    name = "tiny-gather-first"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [GatherFirst()], recursive=True)
