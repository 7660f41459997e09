"""``index-to-region``: which values of a graph are stored, and which kernels there are (S6.1).

The values are visited from the outputs up.  When a value is reached, every point at which a kernel
wants it is known, so it is decided there and then:

- what a value that is no affine access looks at is stored, and the value is another view of the
  same memory (S4.7);
- a reduction, with the elementwise ops that follow it alone, is computed once (S6.6): wanted at
  two points, or by two kernels, it is stored.  It may be computed inside its consumer where every
  element is wanted at one point only, which isl decides (S7.1);
- what is left is a question of cost (S11.1).

A stored value is the output of a kernel of its own.  Outputs of the graph of one shape share a
kernel, and so do smaller ones that share a reduction with it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import cast

from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr

from polyc.dialects import tiny
from polyc.dialects.common.dim import Dim
from polyc.lowering.index_to_region import cost
from polyc.lowering.index_to_region.forms import entry_of, extent, not_affine, why_not_affine
from polyc.lowering.index_to_region.kernels import Edge, Kernel, Kernels, NotApart, Root, Stored
from polyc.lowering.index_to_region.outputs import embedded, turned_from
from polyc.lowering.index_to_region.reasons import Reasons
from polyc.lowering.index_to_region.scores import is_softmax_sum
from polyc.rewriting.postorder import reached
from polyc.rewriting.region.points import Point

IN_MEMORY = "a product on tensor cores reads it from memory, in another shape"

ENDS = 64
"""Outputs that one kernel has at most."""


@dataclass(eq=False)
class _Ends:
    """A kernel of outputs.

    ``elementwise`` are the ops between them and reductions, as bits, and ``reductions`` all
    reductions that they are made of.
    """

    kernel: Kernel
    elementwise: int = 0
    reductions: int = 0
    between: SSAValue | None = None
    """The value between kernels that it makes; it makes outputs beside that do not need it."""
    held: set[SSAValue] = field(default_factory=set[SSAValue])
    """Ends of attentions that it computes, whose scores others want."""
    wanted: set[SSAValue] = field(default_factory=set[SSAValue])
    """The ends of attentions whose scores it wants."""

    def takes(self, elementwise: int, held: Set[SSAValue], wanted: Set[SSAValue]) -> bool:
        """Whether one more output with these ops does not make the kernel too much.

        Nor is it an attention that would compute what others want of the scores.
        """
        ops = (self.elementwise | elementwise).bit_count()
        mixed = self.held & wanted or self.wanted & held
        return ops <= cost.LIMIT and len(self.kernel.roots) < ENDS and not mixed


class Composer(Reasons):
    """Decides for one graph with its index book; ``run`` does it.

    ``fuse``: ``none`` stores every reduction and every value with several uses, ``legal`` fuses
    what may be, ``cost`` what pays.  ``split`` keeps a kernel for each contraction: a fused one is
    joined to its consumer by a ``deferred`` edge.
    """

    def run(self) -> Kernels:
        """The kernels.  Raises PolycError where a value has no form in a kernel."""
        ends = self._output_kernels()
        for op in reversed(self.ops):
            self._visit(op.results[0])
        for leaf in self.graph.body.block.args:
            self._read_from_memory(leaf)
        beside = self._beside_part()
        ends = [kernel for kernel in ends if kernel.roots and kernel not in self.between]
        kernels = reached([*reversed(self.between), *ends, *beside], self._before)
        for kernel in kernels:
            kernel.settle({v: self.stored[v].order for v in kernel.reads if v in self.stored})
        return Kernels(kernels, self.stored, self.views, self.placed, self.given)

    def _beside_part(self) -> Sequence[Kernel]:
        """The kernels beside a part, which reads what they make.

        Raises NotApart where it asks for what they do not store, or no longer makes what they read.
        """
        if (part := self.part) is None:
            return ()
        for leaf in part.leaves:
            self._read_from_memory(leaf)
        known = {*part.leaves, *self.graph.body.block.args, *(self.own or ())}
        changed = [value for value in self.asked if value not in known]
        for value, before in self.wanted.items():
            after = self.stored.get(value)
            if after is None or (after.order, after.exact) != (before.order, before.exact):
                changed.append(value)
        if changed:
            raise NotApart(changed)
        return part.beside.kernels

    def _before(self, kernel: Kernel) -> list[Kernel]:
        """The kernels that make what one reads."""
        read = (self._memory(value) for value in kernel.reads)
        return [self.stored[value].kernel for value in read if value in self.stored]

    def _output_kernels(self) -> list[Kernel]:
        """The kernels of the graph's outputs, which ask for these."""
        found: list[_Ends] = []
        by_sizes: dict[tuple[Dim, ...], list[_Ends]] = {}
        outputs = self.graph.body.block.last_op
        assert isinstance(outputs, tiny.OutputOp)
        reductions = self.reductions
        # A smaller output finds its place among the axes of a larger one.
        given = list(enumerate(self.same.get(value, value) for value in outputs.args))
        if self.part is not None:
            given = [(number, value) for number, value in given if number in self.part.outputs]
        given = [(number, value) for number, value in given if not self._in_place(number, value)]
        self._begin_beside(found, reductions, [value for _, value in given])
        order = sorted(given, key=lambda o: -len(extent(o[1], self.graph)))
        for number, value in order:
            sizes = extent(value, self.graph)
            elementwise = self.work.elementwise.get(value, 0)
            held, wanted = self._attentions_of(value)
            alike = by_sizes.setdefault(sizes, [])
            # A kernel that is full takes no more, or the search would not be linear.
            alike[:] = [
                e for e in alike if self.fuse != "none" and e.takes(elementwise, set(), set())
            ]
            fitting = (end for end in alike if end.takes(elementwise, held, wanted))
            ends, places = next(fitting, None), None
            sharing = found if reductions[value] and self.fuse != "none" else ()
            for other in sharing:
                if other is ends:
                    break
                shared = other.reductions & reductions[value]
                beside = other.between is None or (
                    shared == reductions[value] and not self._needs(value, other.between)
                )
                if shared and beside and other.takes(elementwise, held, wanted):
                    places = embedded(sizes, other.kernel.iters)
                    if places is not None:
                        ends = other
                        break
            if ends is None:
                ends = _Ends(self._kernel(sizes))
                found.append(ends)
                alike.append(ends)
            kernel = ends.kernel
            ends.elementwise |= elementwise
            ends.reductions |= reductions[value]
            ends.held |= held
            ends.wanted |= wanted
            if places is None:
                places = [AffineDimExpr(i) for i in range(len(kernel.iters))]
            point = Point.of(kernel.iters, places, len(self.graph.symbol_names))
            kernel.roots.append(Root(value, point, number))
            self.asked.setdefault(value, {})[(kernel, point)] = None
        for ends in found:
            ends.kernel.roots.sort(key=lambda root: root.output or 0)
        return [ends.kernel for ends in found]

    def _in_place(self, number: int, value: SSAValue) -> bool:
        """Whether an output lies where an attention is stored, in the output's order then."""
        if not self.beside or value in self.views:
            return False
        found = turned_from(self.graph, value, self.same)
        if found is None or found.source not in self.cuts or found.source not in self.beside:
            return False
        self.turned[found.source] = found.order
        self.views[value] = found.source
        self.placed[number] = value
        return True

    def _begin_beside(
        self, found: list[_Ends], reductions: Mapping[SSAValue, int], outputs: Sequence[SSAValue]
    ) -> None:
        """The kernels of values between kernels that make outputs of the graph beside."""
        for value in self.beside:
            if value not in self.cuts or value in outputs:
                continue
            if self.own is not None and value not in self.own:
                continue
            kernel, point = self._kernel_of(value)
            ends = _Ends(kernel, between=value)
            ends.held, ends.wanted = self._attentions_of(value)
            ends.elementwise = self.work.elementwise.get(value, 0)
            ends.reductions = reductions[value]
            self.asked.setdefault(value, {})[(ends.kernel, point)] = None
            self.early[value] = (ends.kernel, point)
            found.append(ends)

    def _attentions_of(self, value: SSAValue) -> tuple[set[SSAValue], set[SSAValue]]:
        """The attentions whose scores others want that an output ends, and whose scores it wants.

        They are said by their ends.  What rows have one of is the attention's.
        """
        if not self.scores:
            return set(), set()
        ends = {one.end for one in self.scores}

        def operands(one: SSAValue) -> Sequence[SSAValue]:
            stays = one in ends or (one is not value and one in self.cuts)
            return () if stays or one in self.rows else self._operands(one)

        found = reached([value], operands)
        computed = {one for one in found if one is value or one not in self.cuts}
        return computed & ends, {self.again[one] for one in computed if one in self.again}

    def _visit(self, value: SSAValue) -> None:
        """Decide about a value whose every use has been visited, and ask for its operands."""
        asked = self.asked.get(value, {})
        if value in self.views:
            self._read_from_memory(value)
            return
        kept = self.wanted.get(value)
        if not asked and kept is None and value not in self.whole and value not in self.turned:
            return
        entry = entry_of(value, self.graph)
        if value in self.reshaped:
            operand = cast(tiny.ReshapeOp, value.owner).operand
            reason = self.cuts.get(self._narrow(operand)) or self.cuts.get(value)
            self._view(value, reason or IN_MEMORY)
            return
        if not entry.is_scop:
            self._view(value, why_not_affine(entry))
            return
        edge: Edge = "gmem"
        reason = self.whole.get(value) or self.cuts.get(value) or (kept and kept.reason)
        reason = reason or self._why_apart(value)
        reason = reason or self._why_stored(value)
        reason = reason or self._why_far(value)
        if reason is None and self._splits(value):
            edge, reason = "deferred", "a kernel for each contraction was asked for"
            if self._is_output(value):
                edge = "gmem"
        self._settle_operands(value)
        if reason is not None:
            asked = self._store(value, edge, reason)
        if isinstance(value.owner, tiny.ScanOp):
            for kernel, _ in asked:
                kernel.scan = value
        if isinstance(value.owner, tiny.SortOp):
            for kernel, point in asked:
                place = cast(AffineDimExpr, point.map.results[value.owner.axis])
                kernel.sort, kernel.row = value, point.axes[place.position]
        self._note_holder(value, asked)
        pending = list(asked)
        for kernel, point in pending:
            form = kernel.forms.form(value, point)
            if isinstance(value.owner, tiny.ReduceOp):
                kernel.reduces.update(a.label for a in form.fresh)
            elif isinstance(value.owner, tiny.ScatterOp):
                kernel.scatter = value
            for operand, where in form.operands:
                if operand is not value:
                    self.asked.setdefault(operand, {})[(kernel, where)] = None
                elif (kernel, where) not in pending:
                    pending.append((kernel, where))

    def _view(self, value: SSAValue, reason: str) -> None:
        """A value that is no affine access: another view of what its operand is in memory."""
        op = cast(Operation, value.owner)
        if not isinstance(op, tiny.ReshapeOp):
            raise not_affine(op, reason)
        operand = self._narrow(op.operand)
        self.views[value] = operand
        self.whole[operand] = reason
        self._read_from_memory(value)

    def _store(self, value: SSAValue, edge: Edge, reason: str) -> dict[tuple[Kernel, Point], None]:
        """Give a value a kernel of its own; where that kernel wants it."""
        beside = self._beside_end(value) or self._beside_squares(value)
        beside = beside or self._beside_terms(value) or self._beside_reduced(value)
        exact = beside is not None
        beside = beside or self._beside_next(value)
        if beside is not None:
            self.early[value] = beside
            beside[0].roots.append(Root(value, beside[1]))
        self._read_from_memory(value)
        if value in self.early:
            kernel, point = self.early[value]
        else:
            kernel, point = self._kernel_of(value)
        if kernel not in self.between:
            self.between.append(kernel)
        if beside is None:
            order = self._order(value) or tuple(range(len(kernel.iters)))
        else:
            root = Root(value, point)
            own = dict(zip(root.axes, map(kernel.iters.index, root.stored_axes), strict=True))
            order = tuple(sorted(own, key=own.__getitem__))
        sums = value in self.rows and exact and is_softmax_sum(value)
        self.stored[value] = Stored(kernel, edge, reason, order, exact, sums)
        held = {one: None for one in self.asked.get(value, {}) if self._holds(value, one[0])}
        return {**held, (kernel, point): None}

    def _note_holder(self, end: SSAValue, asked: Collection[tuple[Kernel, Point]]) -> None:
        """Remember the one kernel of an attention whose scores others want."""
        kernels = list(dict.fromkeys(kernel for kernel, _ in asked))
        if len(kernels) == 1 and any(one.end is end for one in self.scores):
            self.holders[end] = kernels[0]

    def _read_from_memory(self, value: SSAValue) -> None:
        """The kernels that want a value read it.

        The first output of the graph that it is lies there; another one is copied, and so is an
        input.
        """
        base = self._memory(value)
        turned = self._order(value) is not None
        for kernel, _ in self.asked.get(value, {}):
            if value in self.early and kernel is self.early[value][0]:
                continue
            if self._holds(value, kernel):
                continue
            kernel.reads[value] = None
            for root in [r for r in kernel.roots if r.value is value]:
                free = all(self._memory(v) is not base for v in self.placed.values())
                free = free and not turned and not isinstance(base, BlockArgument)
                if free and root.output is not None:
                    self.placed[root.output] = value
                    kernel.roots.remove(root)

    def _splits(self, value: SSAValue) -> bool:
        """Whether a contraction ends here that is to be a kernel of its own."""
        return (
            self.split == "contractions"
            and value not in self.settled
            and any(map(cost.is_contraction, self.work.heads.get(value, ())))
            and not self._only_output(value)
        )

    def _settle_operands(self, value: SSAValue) -> None:
        """The ops that ``value`` is the epilogue of go where it goes."""
        if not cost.is_computed(value):
            return
        heads = set(self.work.heads.get(value, ()))
        for given in cast(Operation, value.owner).operands:
            operand = self.same.get(given, given)
            if self.uses.get(operand) == 1 and heads & set(self.work.heads.get(operand, ())):
                self.settled.add(operand)
