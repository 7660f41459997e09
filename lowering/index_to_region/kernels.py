"""``index-to-region``: what a partition of a graph into kernels is (S6.1).

Kernels to be, the values that lie in memory between them, and what is known or settled before a
graph is composed.  Nothing is decided here: ``fusion.py`` does that.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, cast

from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr

from polyc.dialects import tiny
from polyc.dialects.region.types import AxisAttr
from polyc.lowering.index_to_region import cost
from polyc.lowering.index_to_region.forms import Form, Forms, Key, equal_casts
from polyc.lowering.index_to_region.scores import Scores
from polyc.rewriting.region.points import Point

Fuse = Literal["none", "legal", "cost"]


Split = Literal["none", "contractions"]


Edge = Literal["gmem", "deferred"]


@dataclass(frozen=True, slots=True)
class KernelKey:
    """What a kernel stores, and what it reads, in which order of axes; hashed once."""

    roots: tuple[Key, ...]
    reads: frozenset[tuple[SSAValue, tuple[int, ...]]]
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.roots, self.reads)))

    def __hash__(self) -> int:
        return self._hash


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
    sort: SSAValue | None = None
    """The sort that it computes, likewise."""
    row: AxisAttr | None = None
    """The axis along which that lies."""
    _known: tuple[int, int, KernelKey, dict[SSAValue, None]] | None = None

    def settle(self, lies: dict[SSAValue, tuple[int, ...]]) -> None:
        """Say in which order memory has what it reads, once all of it is composed."""
        if lies != self.lies or self._known is None:
            self.lies, self._known = lies, None

    @property
    def key(self) -> KernelKey:
        """What makes it the same kernel in two partitions of a graph: what it stores, and what it
        reads, in which order of axes.
        """
        return self._facts()[2]

    @property
    def computed(self) -> dict[SSAValue, None]:
        """The values that it computes, operands first."""
        return self._facts()[3]

    def _facts(self) -> tuple[int, int, KernelKey, dict[SSAValue, None]]:
        """What is asked of a kernel in each partition that has it, worked out once."""
        known = self._known
        if known is None or known[:2] != (len(self.roots), len(self.reads)):
            reads = frozenset((value, self.lies.get(value, ())) for value in self.reads)
            key = KernelKey(tuple((root.value, root.point) for root in self.roots), reads)
            inside = dict.fromkeys(k[0] for k, form in self.held().items() if form is not None)
            known = self._known = len(self.roots), len(self.reads), key, inside
        return known

    def held(self) -> dict[Key, Form | None]:
        """What it computes, and with None what it reads."""
        roots = [(root.value, root.point) for root in self.roots]
        return self.forms.held(roots, lambda value: value in self.reads)


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
    """That what becomes of a part changes the kernels beside it: those of ``values``."""

    def __init__(self, values: Collection[SSAValue]) -> None:
        super().__init__("a part of a graph changes the kernels beside it")
        self.values = values


@dataclass(frozen=True)
class Facts:
    """What is known of a graph whatever is stored."""

    ops: Sequence[Operation]
    same: Mapping[SSAValue, SSAValue]
    uses: Mapping[SSAValue, int]
    """How many ops read each value; a cast that another value equals does not."""
    work: cost.Work
    reductions: Mapping[SSAValue, int]
    """For each value the reductions that it is computed from, as bits, but for those behind what
    sorts, scans or scatters."""

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
            # What sorts, scans or scatters reduces nothing, and is a kernel's of its own.
            apart = isinstance(op, tiny.ScanOp | tiny.SortOp | tiny.ScatterOp)
            behind[op.results[0]] = 0 if apart else bits
        return Facts(ops, same, uses, cost.Work.of(graph, uses, same), behind)
