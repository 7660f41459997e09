"""``index-to-region``: what is decided of a graph so far, while its kernels are composed (S6.1).

The questions that every later decision asks are here: where a value lies, in which order of its
axes, who wants it and what it is made of.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import cast

from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr

from polyc.cost.values import size_in_bytes
from polyc.dialects import tiny
from polyc.dialects.common.dim import Dim
from polyc.dialects.index import is_widening
from polyc.dialects.region.moments import are_long
from polyc.lowering.index_to_region import cost
from polyc.lowering.index_to_region.forms import Form, Forms, Key, entry_of, extent
from polyc.lowering.index_to_region.kernels import (
    Facts,
    Fuse,
    Kernel,
    Part,
    Root,
    Settled,
    Split,
    Stored,
)
from polyc.rewriting.postorder import reached
from polyc.rewriting.region.points import Point


class Composition:
    """What is known and decided of one graph with its index book.

    ``asked`` says at which points which kernels want a value, ``whole`` why one lies in memory as
    it is, for views of it, and ``settled`` which ones go where what follows them goes.
    ``stored``, ``views`` and ``placed`` are those of ``Kernels``, ``between`` the kernels of stored
    values.  ``early`` are stored values that have a kernel before they are reached, with where it
    wants them; ``holders`` the kernels of attentions whose scores others want, by their ends.
    """

    def __init__(
        self,
        graph: tiny.GraphOp,
        fuse: Fuse = "cost",
        split: Split = "none",
        settled: Settled | None = None,
        forms: dict[Key, Form] | None = None,
        facts: Facts | None = None,
        part: Part | None = None,
    ) -> None:
        """``forms`` are those that other partitions of the graph had everywhere; it learns more.

        With a ``part`` only its kernels are composed.
        """
        facts = facts or Facts.of(graph)
        self.part = part
        self.wanted: Mapping[SSAValue, Stored] = {} if part is None else part.wanted
        self.own = None if part is None else {op.results[0] for op in part.ops}
        self.given = settled or Settled()
        self.graph = graph
        self.forms = {} if forms is None else forms
        self.fuse = fuse
        self.split = split
        settled = settled or Settled()
        self.cuts, self.kept = settled.cuts, settled.kept
        self.orders, self.beside = settled.orders, settled.beside
        self.reshaped = settled.views
        self.scores = settled.scores
        self.again = {value: one.end for one in self.scores for value in one.again}
        self.rows = {value: one.end for one in self.scores for value in one.rows}
        self.holders: dict[SSAValue, Kernel] = {}
        self.early: dict[SSAValue, tuple[Kernel, Point]] = {}
        self.ops = facts.ops if part is None else part.ops
        self.same, self.uses, self.work = facts.same, facts.uses, facts.work
        self.reductions = facts.reductions
        self.asked: dict[SSAValue, dict[tuple[Kernel, Point], None]] = {}
        self.whole: dict[SSAValue, str] = {}
        self.settled: set[SSAValue] = set()
        self.stored: dict[SSAValue, Stored] = {}
        self.views: dict[SSAValue, SSAValue] = {}
        self.placed: dict[int, SSAValue] = {}
        self.turned: dict[SSAValue, tuple[int, ...]] = {}
        self.between: list[Kernel] = []
        if part is not None:
            self.whole |= part.viewed
            self.stored |= part.beside.stored
            self.views |= part.beside.views
            self.placed |= part.beside.placed

    def _operands(self, value: SSAValue) -> Sequence[SSAValue]:
        op = value.owner
        own = op.operands if isinstance(op, Operation) else ()
        return [self.same.get(o, o) for o in own]

    def _needs(self, value: SSAValue, other: SSAValue) -> bool:
        """Whether a value is made of another one."""
        return other in reached([value], self._operands)

    def _kernel(self, sizes: Sequence[Dim]) -> Kernel:
        forms = Forms(self.graph, self.same, self.cuts, everywhere=self.forms)
        return Kernel(forms, forms.names.iters(sizes))

    def _kernel_of(self, value: SSAValue) -> tuple[Kernel, Point]:
        """A kernel that stores a value in its order, and where it wants it."""
        sizes = extent(value, self.graph)
        order = self._order(value) or tuple(range(len(sizes)))
        kernel = self._kernel([sizes[axis] for axis in order])
        places = [AffineDimExpr(order.index(axis)) for axis in range(len(sizes))]
        point = Point.of(kernel.iters, places, kernel.forms.symbols)
        kernel.roots.append(Root(value, point))
        return kernel, point

    def _own(self, value: SSAValue) -> tuple[Kernel, Point]:
        """The kernel that stores a value, and where."""
        kernel = self.stored[value].kernel
        return kernel, next(root.point for root in kernel.roots if root.value is value)

    def _order(self, value: SSAValue) -> tuple[int, ...] | None:
        """In which order of its axes a value is stored; None where that is its own.

        What is viewed in another shape lies as it is.
        """
        if value in self.whole:
            return None
        if value in self.wanted:
            order = self.wanted[value].order
            return None if order == tuple(range(len(order))) else order
        return self.turned.get(value) or self.orders.get(value)

    def _memory(self, value: SSAValue) -> SSAValue:
        """The value of which ``value`` is a view in memory, or itself."""
        while isinstance(op := value.owner, tiny.ReshapeOp):
            if value not in self.reshaped and entry_of(value, self.graph).is_scop:
                break
            value = self._narrow(op.operand)
        return value

    def _narrow(self, value: SSAValue) -> SSAValue:
        """What a value is widened from, which is what lies in memory; or itself."""
        value = self.same.get(value, value)
        while is_widening(value):
            operand = cast(Operation, value.owner).operands[0]
            value = self.same.get(operand, operand)
        return value

    def _rounded(self, value: SSAValue) -> SSAValue:
        """What a value is cast from, or itself."""
        value = self.same.get(value, value)
        while isinstance(op := value.owner, tiny.CastOp):
            value = self.same.get(op.operand, op.operand)
        return value

    def _only_output(self, value: SSAValue) -> bool:
        """Whether a value is an output of one kernel and nothing else wants it."""
        if self.uses[value] > 1 or len(self.asked[value]) > 1:
            return False
        return self._is_output(value)

    def _is_output(self, value: SSAValue) -> bool:
        """Whether a value, which is not stored yet, is an output of the graph."""
        kernels = dict.fromkeys(kernel for kernel, _ in self.asked[value])
        return any(root.value is value for kernel in kernels for root in kernel.roots)

    def _holds(self, value: SSAValue, kernel: Kernel) -> bool:
        """Whether a kernel is an attention that computes a value itself, stored or not."""
        return value in self.again and self.holders.get(self.again[value]) is kernel

    def _are_long(self, others: Sequence[Dim], length: Dim) -> bool:
        """Whether rows, one for each of the other axes' points, are few, and the blocks of a whole
        chip do not keep one."""
        long = cost.points([length])
        widest = max((size for points, size in self._leaves if points >= long), default=1)
        return are_long(others, length, widest)

    @cached_property
    def _leaves(self) -> Collection[tuple[float, int]]:
        """How many points inputs of the graph have, about, and the bytes of one."""
        kinds = (tiny.tensor_of(leaf) for leaf in self.graph.body.block.args)
        return {(cost.points(kind.dims), size_in_bytes(kind.element_type)) for kind in kinds}
