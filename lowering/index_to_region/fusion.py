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

from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from math import prod
from typing import Literal, cast

from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr

from polyc.cost.values import size_in_bytes
from polyc.dialects import tiny
from polyc.dialects.common.dim import Dim
from polyc.dialects.index import is_widening
from polyc.dialects.region.moments import are_long
from polyc.dialects.region.types import AxisAttr
from polyc.lowering.index_to_region import cost
from polyc.lowering.index_to_region.forms import (
    Form,
    Forms,
    Key,
    entry_of,
    equal_casts,
    extent,
    not_affine,
    why_not_affine,
)
from polyc.lowering.index_to_region.outputs import embedded, is_about, is_below, turned_from
from polyc.lowering.index_to_region.scores import ROW, Scores, is_softmax_sum
from polyc.poly.same_point import two_points
from polyc.rewriting.postorder import reached
from polyc.rewriting.region.points import Point
from polyc.rewriting.tiny.split_reductions import outer_axes

Fuse = Literal["none", "legal", "cost"]
Split = Literal["none", "contractions"]
Edge = Literal["gmem", "deferred"]


FAR = 256
"""Operations and operands that say where a fused value is read, at most."""


SORTED = "it is sorted, which a kernel does that does nothing after it"
REDUCED = "it is reduced, and a kernel that sorts what is made of it reduces nothing"
SCANNED = "a kernel with a scan walks its axis once, and reduces nothing"
"""Why a reduction is stored that one with a scan would want, or the scan."""

FIRST = "it is reduced over outer axes first, and then over inner ones, of which few lie together"
LAST = "it is the second step of a reduction, which is done once, and is wanted at several points"
"""Why the first of two steps of a reduction is stored, and the second."""

IN_MEMORY = "a product on tensor cores reads it from memory, in another shape"


@dataclass(frozen=True, slots=True)
class Root:
    """A value that a kernel stores, at a point over its axes; ``output`` is the graph's, if any."""

    value: SSAValue
    point: Point
    output: int | None = None

    @property
    def axes(self) -> Sequence[int]:
        """The value's axes along which it is stored: not those of one point, at 0."""
        at = self.point.map.results
        return [i for i, place in enumerate(at) if isinstance(place, AffineDimExpr)]

    @property
    def stored_axes(self) -> Sequence[AxisAttr]:
        """The kernel's axes of these, in the value's order."""
        at = self.point.map.results
        return [self.point.axes[cast(AffineDimExpr, at[i]).position] for i in self.axes]


@dataclass(eq=False)
class Kernel:
    """A kernel to be: what it stores, and what that takes."""

    forms: Forms
    iters: tuple[AxisAttr, ...]
    roots: list[Root] = field(default_factory=list[Root])
    reads: dict[SSAValue, None] = field(default_factory=dict[SSAValue, None])
    """The values that it reads from memory."""
    lies: dict[SSAValue, tuple[int, ...]] = field(default_factory=dict[SSAValue, "tuple[int, ...]"])
    """In which order of its axes memory has what it reads, of what another kernel makes."""
    reduces: set[str] = field(default_factory=set[str])
    """The axes that its values are reduced over."""
    scatter: SSAValue | None = None
    """The scatter that it computes, beside no other and no reduction."""
    scan: SSAValue | None = None
    """The scan that it computes: one that has one reduces nothing, and has no other."""

    def held(self) -> dict[Key, Form | None]:
        """What it computes, and with None what it reads."""
        roots = [(root.value, root.point) for root in self.roots]
        return self.forms.held(roots, lambda value: value in self.reads)


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


@dataclass(frozen=True, slots=True)
class Stored:
    """A value in memory between kernels: which one makes it, and why it is there.

    ``order`` are the value's axes as memory holds them, the outermost first; one of one point may
    be left out.  With ``exact`` it is there in the type in which it is computed, and not in one of
    its own.  ``sums`` are the sums of a softmax's exponentials, which an attention stores.
    """

    kernel: Kernel
    edge: Edge
    reason: str
    order: tuple[int, ...]
    exact: bool = False
    sums: bool = False


@dataclass
class Kernels:
    """The kernels of a graph, in an order in which they can run.

    ``stored`` are the values between them; ``views`` take a value that is another view of memory
    to the value that lies there.  ``placed`` are the outputs of the graph that a stored value, or
    a view of one, is; every other output is the root of a kernel.
    """

    kernels: list[Kernel]
    stored: dict[SSAValue, Stored]
    views: dict[SSAValue, SSAValue]
    placed: dict[int, SSAValue]
    settled: Settled = field(default_factory=lambda: Settled())
    """What they were composed by."""

    def base(self, value: SSAValue) -> SSAValue:
        """The value of which another one is a view in memory, or itself."""
        while value in self.views:
            value = self.views[value]
        return value


@dataclass(frozen=True)
class Settled:
    """What is settled before the cost is asked.

    ``cuts`` are values that are stored whatever the rest says, with the reason; of ``kept`` ones
    the cost is not asked.  ``orders`` are the axes of values, the outermost first, as memory best
    holds them.  With a cut value of ``beside`` the kernel that makes it stores what the graph gives
    of its reductions: attention's log-sum-exp.  ``views`` are reshapes of cut values, which are
    read in their own shape where these lie.  ``scores`` are those of attentions that others compute
    too.
    """

    cuts: Mapping[SSAValue, str] = field(default_factory=dict[SSAValue, str])
    kept: Collection[SSAValue] = ()
    orders: Mapping[SSAValue, tuple[int, ...]] = field(
        default_factory=dict[SSAValue, tuple[int, ...]]
    )
    beside: Collection[SSAValue] = ()
    views: Collection[SSAValue] = ()
    scores: Sequence[Scores] = ()

    def also(self, cuts: Mapping[SSAValue, str]) -> Settled:
        """The same with more cuts; the reasons that were there stay.

        What is another shape of what lies in memory is a view of that, and no copy.
        """
        views = [v for v in cuts if v not in self.cuts and isinstance(v.owner, tiny.ReshapeOp)]
        return replace(self, cuts={**cuts, **self.cuts}, views=[*self.views, *views])


@dataclass(frozen=True)
class Part:
    """Kernels of a graph that are composed anew beside others, which stay as they are.

    ``ops`` are those that they compute, in the order of the program, and ``leaves`` what they read
    of the others, as they read it.  ``wanted`` are the values of theirs that the others read, which
    stay where they are, ``viewed`` those of them that are read in another shape, with the reason.
    ``outputs`` are the outputs of the graph that are theirs.  ``beside`` are the others.
    """

    ops: Sequence[Operation]
    leaves: Collection[SSAValue]
    wanted: Mapping[SSAValue, Stored]
    viewed: Mapping[SSAValue, str]
    outputs: Collection[int]
    beside: Kernels


class NotApart(Exception):
    """That what becomes of a part changes the kernels beside it."""


@dataclass(frozen=True)
class Facts:
    """What is known of a graph whatever is stored."""

    ops: Sequence[Operation]
    same: Mapping[SSAValue, SSAValue]
    uses: Mapping[SSAValue, int]
    """How many ops read each value; a cast that another value equals does not."""
    work: cost.Work
    reductions: Mapping[SSAValue, int]
    """For each value the reductions that it is computed from, as bits."""

    @staticmethod
    def of(graph: tiny.GraphOp) -> Facts:
        """The facts of a graph with its index book."""
        ops = [op for op in graph.body.block.ops if op.results]
        same = equal_casts(graph)
        uses: dict[SSAValue, int] = {op.results[0]: 0 for op in ops}
        for op in graph.body.block.ops:
            if op.name == "index.value" or (op.results and op.results[0] in same):
                continue
            for operand in dict.fromkeys(same.get(o, o) for o in op.operands):
                if operand in uses:
                    uses[operand] += 1
        behind: dict[SSAValue, int] = dict.fromkeys(graph.body.block.args, 0)
        for number, op in enumerate(ops):
            bits = 1 << number if isinstance(op, tiny.ReduceOp) else 0
            for operand in op.operands:
                bits |= behind[operand]
            behind[op.results[0]] = bits
        return Facts(ops, same, uses, cost.Work.of(graph, uses, same), behind)


class Composer:
    """Decides for one graph with its index book; ``run`` does it.

    ``fuse``: ``none`` stores every reduction and every value with several uses, ``legal`` fuses
    what may be, ``cost`` what pays.  ``split`` keeps a kernel for each contraction: a fused one is
    joined to its consumer by a ``deferred`` edge.
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
            kernel.lies = {v: self.stored[v].order for v in kernel.reads if v in self.stored}
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
        if not known.issuperset(self.asked):
            raise NotApart
        for value, before in self.wanted.items():
            after = self.stored.get(value)
            if after is None or (after.order, after.exact) != (before.order, before.exact):
                raise NotApart
        return part.beside.kernels

    def _before(self, kernel: Kernel) -> list[Kernel]:
        """The kernels that make what one reads."""
        read = (self._memory(value) for value in kernel.reads)
        return [self.stored[value].kernel for value in read if value in self.stored]

    # Outputs

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

    # One value

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

    def _narrow(self, value: SSAValue) -> SSAValue:
        """What a value is widened from, which is what lies in memory; or itself."""
        value = self.same.get(value, value)
        while is_widening(value):
            operand = cast(Operation, value.owner).operands[0]
            value = self.same.get(operand, operand)
        return value

    def _store(self, value: SSAValue, edge: Edge, reason: str) -> dict[tuple[Kernel, Point], None]:
        """Give a value a kernel of its own; where that kernel wants it."""
        beside = self._beside_end(value) or self._beside_squares(value)
        beside = beside or self._beside_terms(value)
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
        exact = beside is not None
        sums = value in self.rows and exact and is_softmax_sum(value)
        self.stored[value] = Stored(kernel, edge, reason, order, exact, sums)
        held = {one: None for one in self.asked.get(value, {}) if self._holds(value, one[0])}
        return {**held, (kernel, point): None}

    def _note_holder(self, end: SSAValue, asked: Collection[tuple[Kernel, Point]]) -> None:
        """Remember the one kernel of an attention whose scores others want."""
        kernels = list(dict.fromkeys(kernel for kernel, _ in asked))
        if len(kernels) == 1 and any(one.end is end for one in self.scores):
            self.holders[end] = kernels[0]

    def _holds(self, value: SSAValue, kernel: Kernel) -> bool:
        """Whether a kernel is an attention that computes a value itself, stored or not."""
        return value in self.again and self.holders.get(self.again[value]) is kernel

    def _beside_end(self, value: SSAValue) -> tuple[Kernel, Point] | None:
        """The attention that stores what its rows have one of, and where it wants that.

        None where that is at several places, or at one that is no point of axes of its kernel, and
        where the attention reads what others make of it.
        """
        holder = self.holders.get(self.rows[value]) if value in self.rows else None
        points = [point for kernel, point in self.asked.get(value, {}) if kernel is holder]
        if holder is None or len(points) != 1 or value in self.whole:
            return None
        if any(self._needs(read, value) for read in holder.reads):
            return None
        root, sizes = Root(value, points[0]), extent(value, self.graph)
        axes = root.stored_axes
        plain = all(i in root.axes or size.constant() == 1 for i, size in enumerate(sizes))
        inside = set(points[0].axes) <= set(holder.iters) and len(set(axes)) == len(axes)
        return (holder, points[0]) if plain and inside and points[0].guard is None else None

    def _beside_squares(self, value: SSAValue) -> tuple[Kernel, Point] | None:
        """The kernel between others that sums squares about a value, as a variance about a mean, or
        exponentials below it, as a softmax below its maximum, and where it wants that; None where
        there is none, or it has other axes.

        It finds both while it reads once.  Sums along rows are a block's, which keeps these.
        """
        if self.fuse != "cost" or value in self.whole:
            return None
        for kernel, point in self.asked.get(value, {}):
            if kernel not in self.between or len(kernel.roots) != 1:
                continue
            end = kernel.roots[0].value
            squares = is_about(end, value, self.same) or is_below(end, value, self.same)
            if squares is None or not self._finds_both(squares):
                continue
            wanted = [p for k, p in self.asked[value] if k is kernel]
            root = Root(value, point)
            axes = list(root.stored_axes)
            whole = axes == list(kernel.iters) and point.guard is None
            if whole and len(wanted) == 1 and self._order(value) is None:
                return kernel, point
        return None

    def _finds_both(self, op: tiny.ReduceOp) -> bool:
        """Whether a reduction, and one that it needs, are not along rows that blocks keep."""
        *others, row = tiny.tensor_of(op.operand).dims
        return op.axes != (len(others),) or self._are_long(others, row)

    def _is_top(self, value: SSAValue) -> bool:
        """Whether a value is the maximum below which the one kernel that wants it sums
        exponentials, and which it wants beside these."""
        kernels = {kernel for kernel, _ in self.asked.get(value, {})}
        roots = [root for kernel in kernels for root in kernel.roots]
        if len(kernels) != 1 or len(roots) != 1:
            return False
        powers = is_below(roots[0].value, value, self.same)
        return powers is not None and self._finds_both(powers)

    def _beside_terms(self, value: SSAValue) -> tuple[Kernel, Point] | None:
        """The kernel that stores the terms of a sum along rows, and where it has that of each row;
        None where they are not stored.

        It has a row at hand, where another kernel would read it again: of a softmax whose weights a
        product reads, and whose sums its output is divided by.
        """
        op = value.owner
        if self.fuse != "cost" or value in self.whole or not isinstance(op, tiny.ReduceOp):
            return None
        sizes = extent(op.operand, self.graph)
        if op.axes != (len(sizes) - 1,) or self._order(value) is not None:
            return None
        for terms in self.cuts:
            # A view of what lies in memory is stored by no kernel.
            plain = self._order(terms) is None and terms not in self.whole
            plain &= terms not in self.views and terms not in self.reshaped
            if not plain or self._rounded(terms) is not op.operand or self._needs(terms, value):
                continue
            if terms not in self.stored and terms not in self.early:
                self.early[terms] = kernel, point = self._kernel_of(terms)
                self.asked.setdefault(terms, {})[(kernel, point)] = None
            kernel, point = self.early.get(terms) or self._own(terms)
            if len(kernel.roots) != 1 or [a.size for a in kernel.iters] != list(sizes):
                continue
            return kernel, Point.of(kernel.iters, point.map.results[:-1], kernel.forms.symbols)
        return None

    def _rounded(self, value: SSAValue) -> SSAValue:
        """What a value is cast from, or itself."""
        value = self.same.get(value, value)
        while isinstance(op := value.owner, tiny.CastOp):
            value = self.same.get(op.operand, op.operand)
        return value

    def _own(self, value: SSAValue) -> tuple[Kernel, Point]:
        """The kernel that stores a value, and where."""
        kernel = self.stored[value].kernel
        return kernel, next(root.point for root in kernel.roots if root.value is value)

    def _kernel_of(self, value: SSAValue) -> tuple[Kernel, Point]:
        """A kernel that stores a value in its order, and where it wants it."""
        sizes = extent(value, self.graph)
        order = self._order(value) or tuple(range(len(sizes)))
        kernel = self._kernel([sizes[axis] for axis in order])
        places = [AffineDimExpr(order.index(axis)) for axis in range(len(sizes))]
        point = Point.of(kernel.iters, places, kernel.forms.symbols)
        kernel.roots.append(Root(value, point))
        return kernel, point

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

    def _memory(self, value: SSAValue) -> SSAValue:
        """The value of which ``value`` is a view in memory, or itself."""
        while isinstance(op := value.owner, tiny.ReshapeOp):
            if value not in self.reshaped and entry_of(value, self.graph).is_scop:
                break
            value = self._narrow(op.operand)
        return value

    def _splits(self, value: SSAValue) -> bool:
        """Whether a contraction ends here that is to be a kernel of its own."""
        return (
            self.split == "contractions"
            and value not in self.settled
            and any(map(cost.is_contraction, self.work.heads.get(value, ())))
            and not self._only_output(value)
        )

    def _only_output(self, value: SSAValue) -> bool:
        """Whether a value is an output of one kernel and nothing else wants it."""
        if self.uses[value] > 1 or len(self.asked[value]) > 1:
            return False
        return self._is_output(value)

    def _is_output(self, value: SSAValue) -> bool:
        """Whether a value, which is not stored yet, is an output of the graph."""
        kernels = dict.fromkeys(kernel for kernel, _ in self.asked[value])
        return any(root.value is value for kernel in kernels for root in kernel.roots)

    # Stored or fused

    def _why_stored(self, value: SSAValue) -> str | None:
        """Why a value is stored; None where it is fused with what wants it."""
        if isinstance(value.owner, tiny.ScatterOp):
            return self._why_scattered(value)
        if self.work.heads.get(value) and any(k.scatter is not None for k, _ in self.asked[value]):
            return "it is reduced, and a scatter reads it, whose kernel reduces nothing"
        if self._is_first_step(value):
            return FIRST
        if self._is_last_step(value):
            return LAST
        scans = any(kernel.scan is not None for kernel, _ in self.asked.get(value, {}))
        scans &= isinstance(value.owner, tiny.ReduceOp)
        scans |= isinstance(value.owner, tiny.ScanOp)
        if not cost.is_computed(value) or (
            not scans and (value in self.settled or self._only_output(value))
        ):
            return None
        wanted = list(dict.fromkeys((k, p.unfilled) for k, p in self.asked[value]))
        if isinstance(value.owner, tiny.ScanOp):
            return self._why_scanned_apart(value, wanted)
        if isinstance(value.owner, tiny.ReduceOp) and any(k.scan is not None for k, _ in wanted):
            return SCANNED
        heads = self.work.heads[value]
        if value in self.again:
            return None
        if value in self.rows and len({id(k) for k, _ in wanted}) > 1:
            return None if self._beside_end(value) is None else ROW
        if self.fuse == "none":
            return "nothing is fused" if heads or self.uses[value] > 1 else None
        if self.fuse == "cost" and value not in self.whole and self._is_top(value):
            return None
        if heads and len(wanted) > 1:
            kernels = len({id(k) for k, _ in wanted})
            where = f"by {kernels} kernels" if kernels > 1 else f"at {len(wanted)} points"
            return f"it is reduced, which is done once, and is wanted {where}"
        if heads and any(k.forms.names.gathered & set(p.labels) for k, p in wanted):
            return "it is reduced, which is done once, and a gather reads it where its data says"
        if heads and (clash := _clash(*wanted[0])) is not None:
            return f"it is reduced, which is done once, and {clash}"
        if value in self.kept:
            return None
        delta = self._delta(value, wanted)
        return str(delta) if self.fuse == "cost" and not delta.pays else None

    def _is_first_step(self, value: SSAValue) -> bool:
        """Whether a value is reduced over the axes that a reduction of the rest of its axes is done
        over first."""
        op = value.owner
        users = [use.operation for use in value.uses if use.operation.name != "index.value"]
        if not isinstance(op, tiny.ReduceOp) or len(users) != 1:
            return False
        (user,) = users
        if not isinstance(user, tiny.ReduceOp) or user.function != op.function:
            return False
        dims = tiny.tensor_of(op.operand).dims
        left = [axis for axis in range(len(dims)) if axis not in op.axes]
        return outer_axes(dims, sorted((*op.axes, *(left[a] for a in user.axes)))) == op.axes

    def _is_last_step(self, value: SSAValue) -> bool:
        """Whether a value is the second one of such a reduction, and a kernel wants it that would
        compute it again for others of its points."""
        op = value.owner
        if not isinstance(op, tiny.ReduceOp) or not self._is_first_step(op.operand):
            return False
        wanted = self.asked.get(value, {})
        return any(set(p.labels) != {a.label for a in k.iters} for k, p in wanted)

    def _why_scattered(self, value: SSAValue) -> str | None:
        """Why a scatter is stored: what is wanted of it is not one point of one kernel's, or that
        has another one, or reduces.
        """
        wanted = list(dict.fromkeys((k, p.unfilled) for k, p in self.asked[value]))
        if self._is_sorted(value):
            return "it is scattered, and a sort reads it, whose kernel scatters nothing"
        if len(wanted) > 1:
            return f"it is scattered, which is done once, and is wanted at {len(wanted)} points"
        for kernel, point in wanted:
            if kernel.scatter is not None or kernel.scan is not None or kernel.reduces:
                return "it is scattered, by a kernel that reduces nothing and scatters nothing else"
            if kernel.forms.names.gathered & set(point.labels):
                return "it is scattered, and a gather reads it where its data says"
            if (clash := _clash(kernel, point)) is not None:
                return f"it is scattered, which is done once, and {clash}"
            if set(point.labels) != {a.label for a in kernel.iters}:
                return "it is scattered, once for all that repeat it"
        return None

    def _why_apart(self, value: SSAValue) -> str | None:
        """Why a value is stored for a sort: one is a kernel of its own, which reduces nothing."""
        if isinstance(value.owner, tiny.SortOp):
            return SORTED
        sorts = self._is_sorted(value)
        return REDUCED if sorts and isinstance(value.owner, tiny.ReduceOp) else None

    def _is_sorted(self, value: SSAValue) -> bool:
        """Whether a kernel that sorts wants a value."""
        return any(
            isinstance(root.value.owner, tiny.SortOp)
            for kernel, _ in self.asked.get(value, {})
            for root in kernel.roots
        )

    def _why_scanned_apart(
        self, value: SSAValue, wanted: Sequence[tuple[Kernel, Point]]
    ) -> str | None:
        """Why a scan is stored; None where a kernel that walks its axis may go on with it."""
        if self.fuse == "none":
            return "nothing is fused"
        if len(wanted) > 1:
            return "it is a scan, which is computed once, and is wanted at several places"
        ((kernel, point),) = wanted
        if kernel.scan is not None:
            return "it is a scan, and what wants it holds another one"
        if kernel.scatter is not None or self._is_sorted(value):
            return "it is a scan, and what wants it scatters or sorts"
        if kernel.reduces or self._reduced_beside(kernel, value):
            return SCANNED
        places = point.map.results
        whole = set(point.axes) == set(kernel.iters) and point.guard is None
        plain = all(isinstance(place, AffineDimExpr) for place in places)
        if not whole or not plain or len(set(places)) != len(kernel.iters):
            return "it is a scan, which is computed once, and is read in another shape"
        if any(len(root.stored_axes) != len(kernel.iters) for root in kernel.roots):
            return "it is a scan, and what wants it stores a value over fewer axes"
        return None

    def _reduced_beside(self, kernel: Kernel, scan: SSAValue) -> bool:
        """Whether a kernel that wants a scan would reduce something beside it."""

        def operands(value: SSAValue) -> Sequence[SSAValue]:
            stays = value is scan or value in self.stored or value in self.cuts
            return () if stays else self._operands(value)

        behind = reached([root.value for root in kernel.roots], operands)
        return any(isinstance(v.owner, tiny.ReduceOp) and v not in self.stored for v in behind)

    def _why_far(self, value: SSAValue) -> str | None:
        """Why a value is stored because of where it is read; None where that is said shortly.

        Movements compose, and what divides and multiplies in turn doubles with each of them.
        """
        most = max((point.nodes for _, point in self.asked.get(value, {})), default=0)
        if most <= FAR or not cost.is_small(value):
            return None
        return f"where it is read takes {most} operations and operands to say, and {FAR} are taken"

    def _settle_operands(self, value: SSAValue) -> None:
        """The ops that ``value`` is the epilogue of go where it goes."""
        if not cost.is_computed(value):
            return
        heads = set(self.work.heads.get(value, ()))
        for given in cast(Operation, value.owner).operands:
            operand = self.same.get(given, given)
            if self.uses.get(operand) == 1 and heads & set(self.work.heads.get(operand, ())):
                self.settled.add(operand)

    def _delta(self, value: SSAValue, wanted: Sequence[tuple[Kernel, Point]]) -> cost.Delta:
        count = 0.0
        for kernel, point in wanted:
            again = self._passes(value, kernel, point)
            for axis in self._missing(value, kernel, point):
                again *= cost.blocks(axis.size)
            count += cost.points(a.size for a in point.axes) * again
        kernels = len({id(k) for k, _ in wanted})
        return cost.fusion_delta(value, self.work, extent(value, self.graph), count, kernels)

    def _missing(self, value: SSAValue, kernel: Kernel, point: Point) -> Iterator[AxisAttr]:
        """The kernel's axes along which every block computes the value again.

        A row that is reduced where it is used lies in one block; a product's is another row.  What
        is sorted lies in one block too, which has all of the result's row.
        """
        own = {
            axis.label
            for head in self.work.heads[value]
            for axis in kernel.forms.form(head, self._at_head(value, head, point)).fresh
            if not cost.is_contraction(head)
        }
        row = [axis for axis in kernel.iters if axis.label in own]
        long = prod((a.size for a in row), start=Dim.const(1))
        if len(row) == len(kernel.iters) and cost.points([long]) > cost.ROW:
            row = []  # the only row there is: one block would do all the work
        if self._are_long([axis.size for axis in kernel.iters if axis not in row], long):
            row = []  # no blocks keep a row, and few would walk along it
        row += [
            root.stored_axes[root.value.owner.axis]
            for root in kernel.roots
            if isinstance(root.value.owner, tiny.SortOp)
        ]
        for axis in kernel.iters:
            if axis.label not in point.labels and axis not in row:
                yield axis

    def _at_head(self, value: SSAValue, head: SSAValue, point: Point) -> Point:
        """Where a reduction is wanted that a value is the epilogue of, which may have axes of one
        point beside."""
        here, places = value, list(range(len(point.map.results)))
        while here is not head:
            op = cast(Operation, here.owner)
            if isinstance(op, tiny.ExpandOp):
                places = [places[axis] for axis in op.dims]
            here = next(v for v in self._operands(here) if head in self.work.heads.get(v, ()))
        if here is value or len(places) == len(point.map.results):
            return point
        at = [point.map.results[place] for place in places]
        return Point.of(point.axes, at, len(self.graph.symbol_names), point.guard)

    def _are_long(self, others: Sequence[Dim], length: Dim) -> bool:
        """Whether rows, one for each of the other axes' points, are few, and the blocks of a whole
        chip do not keep one."""
        kinds = [tiny.tensor_of(leaf) for leaf in self.graph.body.block.args]
        long = cost.points([length])
        whole = [kind for kind in kinds if cost.points(kind.dims) >= long]
        widest = max((size_in_bytes(kind.element_type) for kind in whole), default=1)
        return are_long(others, length, widest)

    def _passes(self, value: SSAValue, kernel: Kernel, point: Point) -> int:
        """How often a contraction runs along an axis: twice where a reduction of it comes first."""
        if not any(map(cost.is_contraction, self.work.heads[value])):
            return 1
        rows = kernel.reduces & {a.label for a in kernel.iters} & set(point.labels)
        sizes = [a.size for a in kernel.iters if a.label in rows]
        return 2 if any(cost.blocks(size) > 1 for size in sizes) else 1


def _clash(kernel: Kernel, point: Point) -> str | None:
    """How an element is wanted at two points, as a clause; None where none is."""
    return two_points(point.map, kernel.forms.points(point.axes, point.guard), point.labels)
