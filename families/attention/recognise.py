"""The attention of a region: scores, and what a softmax over the keys makes of them (S3.2, S6.10).

A region computes, for every query m of every batch point,

    s[n] = score(sum over d of Q[m, d] * K[n, d])
    p[n] = exp(factor * (s[n] - max(s)))
    O[m, e] = end(max(s), sum(p), sum over n of round(keep(p[n])) * V[n, e])

with one ``region.reduce_together`` over the keys n, or is refused with the reason.  ``score`` and
``end`` are elementwise; ``keep`` multiplies by what is read, or puts 0 by a condition, as dropout
does.  A mask is what makes a score -inf: a set of positions, or a condition that
is data.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from xdsl.dialects.builtin import BFloat16Type, Float16Type, f32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineSet

from polyc.affine import isl
from polyc.dialects import region
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.common.dim import Dim
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region.types import AxisAttr, ValType
from polyc.families.attention.ends import End, ends_among
from polyc.families.attention.operands import (
    FEATURE_STEP,
    Factor,
    HeadOperand,
    apart,
    in_tiles,
    operand_of,
)
from polyc.families.attention.paged import STEP, Paged, fits
from polyc.families.attention.queries import (
    ComputedQueries,
    computed_queries,
    is_computed,
    rounded,
    scores_among,
)
from polyc.families.attention.shared import SharedKeys, shared_keys
from polyc.families.attention.softmax import (
    Kept,
    Masks,
    Refused,
    Weights,
    name_of,
    place_of,
    read_of,
    set_over,
    values_of,
    weights_of,
)
from polyc.families.attention.visible import Visible
from polyc.poly.why_not import TMA_RANK
from polyc.rewriting.region.building import type_of
from polyc.rewriting.region.compose import domain
from polyc.rewriting.region.views import behind_views, constant_of

MANY_QUERIES = 64
"""Points from which on an axis is more likely of queries than of heads that share keys."""


EASY = 128
"""Features beside which threads have registers for any scores, whatever fills a tile."""

MOST_SCORES = 1 << 29
"""Scores of f32 that are stored for products of a kernel each: 2 GiB of them."""

NARROW = 32
"""Features of heads of f32 for which that takes no less time, by the model."""


@dataclass(frozen=True)
class Score:
    """What is done to a product of a query and a key before the softmax."""

    value: SSAValue
    """The score where no mask forbids the key."""
    scale: float | None
    """``value`` is the product times this, which is above 0; None where it is something else."""
    gates: tuple[SSAValue, ...]
    """Conditions that are data; where one is false the score is -inf."""
    visible: Visible
    """The positions outside of which the score is -inf."""
    ends: tuple[End, ...] = ()
    """Those of ``gates`` that hide every key from a number on, which is data."""

    @property
    def asked(self) -> tuple[SSAValue, ...]:
        """The gates but for those that ask whether something which is added is not -inf.

        Where such a one is false, ``value`` is -inf by itself, or NaN where the rest of the sum is
        NaN or +inf.
        """
        added: set[SSAValue] = set()
        work = [self.value]
        while work:
            value = behind_views(work.pop())
            added.add(value)
            if isinstance(op := value.owner, region.BinaryOp) and op.fn.data == "add":
                work += op.operands
        return tuple(gate for gate in self.gates if _not_hidden(gate) not in added)


def _not_hidden(gate: SSAValue) -> SSAValue | None:
    """What a gate compares with -inf, to be something else; None where it asks another question."""
    op = gate.owner
    if not isinstance(op, region.CompareOp) or op.fn.data != "ne":
        return None
    sides = [x for x in op.operands if constant_of(x) != -math.inf]
    return behind_views(sides[0]) if len(sides) == 1 else None


@dataclass(frozen=True, kw_only=True)
class StreamingAttention:
    """Attention in a region, its axes and its parts."""

    kernel: region.KernelOp
    scores: region.ReduceOp
    together: region.ReduceTogetherOp
    maximum: SSAValue
    """The largest score of a query."""
    total: SSAValue
    """The sum of its weights."""
    weighted: SSAValue
    """The sum of its weights times V, over the features too."""
    batch: tuple[str, ...]
    """The axes outside of one attention, in the order of the output."""
    m: str
    n: str
    depth_axis: str
    width_axis: str
    depth: int
    """Features of Q and K, a multiple of 8."""
    width: int
    """Features of V and of the output, a multiple of 8."""
    q: HeadOperand | ComputedQueries
    """Queries as they lie in memory, or what makes them."""
    k: HeadOperand
    v: HeadOperand
    element: Attribute
    """f16 or bf16, of V; weights are rounded to it.  Q and K may be of the other one.  Or f32, of
    all three."""
    score: Score
    factor: float
    """Weights are ``exp(factor * (score - max))``."""
    kept: tuple[Kept, ...] = ()
    """What multiplies the weights, or chooses among them, before they are rounded."""
    finite_only: tuple[str, ...]
    """What a kernel does otherwise where a value is not finite, as sentences (S6.5)."""
    whole_rows: bool = False
    """Whether tiles have rows as TMA brings them best (``in_tiles``)."""

    @property
    def shared(self) -> SharedKeys | None:
        """Heads that have the same keys and values; None where each has its own."""
        places = [*self.k.places, *self.v.places]
        places += [place for paged in self.pages for place in paged.places(self.batch)]
        return shared_keys(self.batch, self.size, places)

    @property
    def pages(self) -> tuple[Paged, ...]:
        """The pages that keys and values lie in; none where their rows follow each other."""
        return tuple(side.paged for side in (self.k, self.v) if side.paged is not None)

    def fits_pages(self, keys: int) -> bool:
        """Whether so many keys of a step are few whole pages, or a whole part of one."""
        return fits(keys, self.pages)

    def step(self, keys: int) -> int:
        """So many keys of a step, or the most below that are of whole pages or parts of one."""
        return next(n for n in range(keys, 0, -STEP) if n <= STEP or self.fits_pages(n))

    @property
    def tile_features(self) -> tuple[int, int]:
        """The features that tiles of Q and K, and tiles of V and of the output, have."""
        depth, width = (in_tiles(n, self.element, self.whole_rows) for n in self.heads)
        return depth, width

    @property
    def heads(self) -> tuple[int, int]:
        """The features of Q and K, and of V and the output."""
        return self.depth, self.width

    def in_whole_rows(self) -> StreamingAttention:
        """The attention with tiles as TMA brings them best, or itself where it has such ones, where
        another head's features would be in a tile, and where threads have no registers for more:
        of wide heads beside scores that are more than products, and beside more outputs."""
        wide = replace(self, whole_rows=True)
        if wide.tile_features == self.tile_features or isinstance(self.q, ComputedQueries):
            return self
        plain = self.score.scale is not None and not self.hides
        if max(wide.tile_features) > EASY and (not plain or self.stores_rows or self.kept):
            return self
        try:
            q, k = (apart(side, True, True) for side in (self.q, self.k))
            wide = replace(wide, q=q, k=k, v=apart(self.v, False, True))
        except Refused:
            return self
        return wide if wide.rank <= max(TMA_RANK, self.rank) else self

    def as_held(self, loader: str, tile: tuple[int, int]) -> StreamingAttention:
        """The attention as a plan has it, by its loader and the features of its tiles."""
        wide = self.in_whole_rows() if loader == "tma" else self
        return wide if wide.tile_features == tile else self

    def as_planned(self, plan: ScheduleOp) -> StreamingAttention:
        """The attention as it lies in the tiles of a schedule."""
        return self.as_held(plan.loader.data, (plan.tile_sizes[2], plan.warp_tile_sizes[1]))

    @property
    def hides(self) -> bool:
        """Whether a mask hides keys from queries."""
        return bool(self.score.gates) or not self.score.visible.everywhere

    @property
    def stores_rows(self) -> bool:
        """Whether an output has one number of each query, as the log-sum-exp is."""
        outputs = self.kernel.yield_op.values
        return any(self.width_axis not in type_of(value).labels for value in outputs)

    @property
    def rank(self) -> int:
        """The most dimensions that a kernel reads Q, K or V along."""
        return max(len(side.shape) for side in self.copied)

    @property
    def copied(self) -> tuple[HeadOperand, ...]:
        """What is copied to tiles as it lies in memory: K and V, and Q where nothing makes it."""
        queries = () if isinstance(self.q, ComputedQueries) else (self.q,)
        return (*queries, self.k, self.v)

    def misfit(self, tile: tuple[int, int]) -> str | None:
        """What is wrong with the features of a plan's tiles, of Q and K and of V; None if they are
        the heads'."""
        if tile == self.tile_features:
            return None
        depth, width = self.tile_features
        padded = (depth, width) != self.heads
        wanted = f", which tiles of {depth} and {width} hold" if padded else ""
        return (
            f"has tiles for heads of {tile[0]} and {tile[1]} features (the last of tile and of "
            f"warp_tile); the region's have {self.depth} and {self.width}{wanted}"
        )

    def axis(self, label: str) -> AxisAttr:
        """An axis by its name."""
        for value in (self.scores.operand, self.weighted):
            if (found := type_of(value).axis(label)) is not None:
                return found
        for found in self.kernel.iters:
            if found.label == label:
                return found
        raise KeyError(label)

    def size(self, label: str) -> Dim:
        """The number of points of an axis."""
        return self.axis(label).size


def find_attention(kernel: region.KernelOp) -> StreamingAttention:
    """The attention of a region; raises PolycError ``UnsupportedProgram`` with the reason."""
    try:
        return _Search(kernel).found()
    except Refused as why:
        raise PolycError(
            "UnsupportedProgram",
            f"region @{kernel.sym_name.data} has no schedule as attention: {why}",
            why.at,
        ).located(kernel) from why


class _Search:
    """The parts of an attention, found one from another."""

    def __init__(self, kernel: region.KernelOp) -> None:
        self.kernel = kernel
        self.symbols = kernel.symbol_names

    def found(self) -> StreamingAttention:
        together = self._together()
        weights = weights_of(together)
        n = together.labels[0]
        scores = self._scores(weights.scores)
        q, k = self._factors(scores, n)
        masks = Masks.of(weights.scores)
        keys, gather = k
        m = self._queries(q, keys.result if gather is None else gather.result, masks)
        depth_axis = scores.labels[0]
        axes = type_of(scores.result).labels
        summed = type_of(weights.weighted).labels
        # What has one point may be read without its axis.
        one = {a.label for a in self.kernel.iters if a.size.constant() == 1}
        batch = tuple(
            a.label
            for a in self.kernel.iters
            if a.label != m and (a.label in axes or a.label in one)
        )
        if {*batch, m, n} - one != set(axes) - one:
            raise Refused(f"its scores are over {list(axes)}, and its outputs are not", scores)
        wide = [label for label in summed if label not in (*batch, m)]
        if len(wide) != 1 or set(summed) - one != {*batch, m, *wide} - one:
            raise Refused(f"the sum of its values is over {list(summed)}", together)
        visible, gates = masks.split(m, n, self.symbols)
        (read, paged), conditions = values_of(weights.values)
        element = read.result.type.element_type
        q_side: HeadOperand | ComputedQueries
        if isinstance(q, region.ReadOp):
            q_side = operand_of(self.kernel, (q, None), (m, depth_axis), batch, True)
        else:
            q_side = computed_queries(self.kernel, q, (*batch, m), depth_axis)
        k_side = operand_of(self.kernel, k, (n, depth_axis), batch, True)
        v_side = operand_of(self.kernel, (read, paged), (n, wide[0]), batch, False)
        self._check_queries(q_side, scores)
        self._check_elements((q_side, k_side, v_side), element, weights, together)
        if element == f32:
            heads = _head(scores.operand, depth_axis), _head(weights.weighted, wide[0])
            self._check_exact(scores, max(heads))
        forbidden = self._check_values(read, conditions, visible, gates, (m, n))
        value = masks.value
        self._check_elementwise(value, {scores.result}, (*batch, m, n))
        for gate in gates:
            self._check_elementwise(gate, {scores.result}, (*batch, m, n))
        factors = [one for one in weights.kept if not one.condition]
        for one in weights.kept:
            self._check_elementwise(one.value, set(), (*batch, m, n))
        for out in self.kernel.yield_op.values:
            self._check_elementwise(out, set(together.states), (*batch, m, *wide))
        # All queries of a tile have one end: only one of them may have a part in it.
        queries = type_of(scores.result).axis(m)
        alone = queries is not None and queries.size.constant() == 1
        ends = ends_among(gates, n, (*batch, m) if alone else batch)
        return StreamingAttention(
            kernel=self.kernel,
            scores=scores,
            together=together,
            maximum=weights.maximum,
            total=weights.total,
            weighted=weights.weighted,
            batch=batch,
            m=m,
            n=n,
            depth_axis=depth_axis,
            width_axis=wide[0],
            depth=_head(scores.operand, depth_axis),
            width=_head(weights.weighted, wide[0]),
            q=q_side,
            k=k_side,
            v=v_side,
            element=element,
            score=Score(value, _scale(value, scores.result), gates, visible, ends),
            factor=weights.factor,
            kept=weights.kept,
            finite_only=(
                *forbidden,
                *([_UNREAD] if factors and not visible.everywhere else []),
                *([] if weights.guarded else [_UNGUARDED]),
            ),
        )

    def _together(self) -> region.ReduceTogetherOp:
        ops = list(self.kernel.body.block.ops)
        found = [op for op in ops if isinstance(op, region.ReduceTogetherOp)]
        if len(found) != 1:
            raise Refused(
                f"it has {len(found)} softmaxes (region.reduce_together) and not one",
                found[1] if found else None,
            )
        if len(found[0].labels) != 1:
            raise Refused(f"its softmax is over {len(found[0].labels)} axes", found[0])
        return found[0]

    def _scores(self, value: SSAValue) -> region.ReduceOp:
        """The one sum of products that the scores come from."""
        found, _ = scores_among(self.kernel, value)
        if found.fn.data != "sum" or len(found.labels) != 1:
            raise Refused("its scores are no sum over one axis", found)
        if found.label is None:
            raise Refused("its scores have no name for the plan to speak of", found)
        return found

    def _factors(self, scores: region.ReduceOp, n: str) -> tuple[region.ReadOp | SSAValue, Factor]:
        """The queries, as what is read or what makes them, and the keys, which run over ``n``."""
        product = scores.operand.owner
        if not isinstance(product, region.BinaryOp) or product.fn.data != "mul":
            raise Refused("its scores are no sum of products", scores)
        if product.result.type.element_type != f32:
            raise Refused(f"its products are {product.result.type.element_type}", product)
        left, right = (rounded(side) for side in product.operands)
        queries, keys = (right, left) if n in type_of(left).labels else (left, right)
        computes = is_computed(queries)
        sides = [read_of(side) for side in ((keys,) if computes else (queries, keys))]
        if n in type_of(queries).labels or n not in type_of(keys).labels:
            raise Refused(f"not one of its factors runs over the keys {n}", scores)
        for side, _ in sides:
            if side.guard is not None:
                raise Refused("a factor of its scores is read under a guard", side)
        return queries if computes else sides[0][0], sides[-1]

    def _check_queries(self, q: HeadOperand | ComputedQueries, scores: region.ReduceOp) -> None:
        """Refuse reductions that the scores are made of, and the queries are not."""
        _, beside = scores_among(self.kernel, scores.result)
        own = q.reductions if isinstance(q, ComputedQueries) else ()
        if len(beside) != len(own):
            raise Refused(
                f"it has {len(beside) + 1} reductions beside the softmax and not one", scores
            )

    def _queries(self, q: region.ReadOp | SSAValue, keys: SSAValue, masks: Masks) -> str:
        """The axis of the queries: one that the keys do not have.

        Where heads share their keys there are several; the mask, an open size, the place in the
        tensor and how many there are tell which: heads may share a dimension with features.
        """
        depth = type_of(keys).labels
        value = q.result if isinstance(q, region.ReadOp) else q
        mine = [a for a in type_of(value).axes if a.label not in depth]
        if not mine:
            raise Refused(
                "each query has keys of its own, so nothing is used twice", place_of(value)
            )
        named = {label for inside in masks.positions for label in inside.result.type.labels}
        alone = {a.label for a in mine}
        if isinstance(q, region.ReadOp):
            labels = q.result.type.labels
            along = [e for e in q.map.data.results if isinstance(e, AffineDimExpr)]
            alone = {labels[e.position] for e in along}

        def likely(place: int, axis: AxisAttr) -> tuple[bool, bool, bool, bool, int]:
            size = axis.size.constant()
            many = size is None or size >= MANY_QUERIES
            return axis.label in named, size is None, axis.label in alone, many, place

        return max(enumerate(mine), key=lambda p: likely(*p))[1].label

    def _check_elements(
        self,
        operands: Sequence[HeadOperand | ComputedQueries],
        element: Attribute,
        weights: Weights,
        at: Operation,
    ) -> None:
        def place(operand: HeadOperand | ComputedQueries) -> Operation | None:
            computed = isinstance(operand, ComputedQueries)
            return place_of(operand.value) if computed else operand.read

        for operand in operands:
            own = operand.element
            if not isinstance(own, Float16Type | BFloat16Type) and {own, element} != {f32}:
                raise Refused(
                    f"{operand.name} holds {own}, and tensor cores take f16 or bf16", place(operand)
                )
        q, k, _ = operands
        kinds = [q.element, k.element]
        if kinds[0] != kinds[1]:
            raise Refused(f"{k.name} holds {kinds[1]}, and {q.name} {kinds[0]}", place(k))
        if weights.rounded != element:
            raise Refused(
                f"its weights are {weights.rounded} and V is {element}, and tensor cores take "
                "operands of one type",
                at,
            )

    def _check_exact(self, scores: region.ReduceOp, features: int) -> None:
        """Refuse products of f32 that tensor cores may take: those of a kernel each are faster.

        But not of heads so narrow that scores in memory take as long as threads that multiply, nor
        where scores would take much memory, or nobody knows how much.
        """
        sums = [op for op in self.kernel.walk() if isinstance(op, region.ReduceOp)]
        coarse = [op for op in sums if op.precision is not None]
        sizes = [axis.size.constant() for axis in type_of(scores.result).axes]
        few = None not in sizes and math.prod(n or 0 for n in sizes) <= MOST_SCORES
        if coarse and few and features > NARROW:
            raise Refused(
                "its products may be less exact than f32, which products of their own make use of",
                coarse[0],
            )

    def _check_values(
        self,
        read: region.ReadOp,
        conditions: Sequence[SSAValue],
        visible: Visible,
        gates: Sequence[SSAValue],
        axes: tuple[str, str],
    ) -> tuple[str, ...]:
        """Refuse values that are 0 where their weight is not; what is said of those that are not 0.

        A kernel leaves out all values of a key that the mask forbids.
        """
        guards: list[tuple[ValType, AffineSet]] = []
        for condition in conditions:
            inside = condition.owner
            if condition in gates:
                continue
            if not isinstance(inside, region.InsideOp):
                raise Refused("V is replaced by 0 under a condition that is no mask", read)
            guards.append((inside.result.type, inside.set.data))
        if read.guard is not None:
            guards.append((read.result.type, read.guard.data))
            if read.fill is None or read.fill.value.data != 0:
                raise Refused("V is not 0 where its guard fails", read)
        left_out = visible.everywhere
        for kind, guard in guards:
            known = set_over(kind.labels, visible.points, axes)
            space = domain(self.kernel, kind.axes.data)
            rows = (*space.constraints, *(() if known is None else known.constraints))
            seen = AffineSet(space.num_dims, space.num_symbols, rows)
            if not isl.implies(seen, guard):
                raise Refused("V is read under a guard that allows less than the mask", read)
            if known is not None:
                rows = (*space.constraints, *guard.constraints)
                allowed = AffineSet(space.num_dims, space.num_symbols, rows)
                left_out = left_out or isl.implies(allowed, known)
        return () if left_out and all(gate in conditions for gate in gates) else (_FORBIDDEN,)

    def _check_elementwise(
        self, value: SSAValue, leaves: set[SSAValue], axes: Iterable[str]
    ) -> None:
        """Refuse what a point of a tile cannot compute."""
        todo, seen = [value], set(leaves)
        while todo:
            value = todo.pop()
            if value in seen:
                continue
            seen.add(value)
            op = value.owner
            beyond = [x for x in type_of(value).labels if x not in axes]
            if beyond:
                raise Refused(f"a value beside the softmax runs over {beyond[0]}", place_of(value))
            match op:
                case (
                    region.ReadOp()
                    | region.ConstantOp()
                    | region.DimOp()
                    | region.IndexOp()
                    | region.InsideOp()
                ):
                    pass
                case (
                    region.UnaryOp()
                    | region.BinaryOp()
                    | region.CompareOp()
                    | region.SelectOp()
                    | region.CastOp()
                    | region.BroadcastInDimOp()
                    | region.TransposeOp()
                ):
                    todo += op.operands
                case _:
                    raise Refused(
                        f"a value beside the softmax is made by {name_of(value)}", place_of(value)
                    )


_FORBIDDEN = (
    "a key that the mask forbids contributes nothing, and not 0 times its value where V is not "
    "finite there"
)
_UNREAD = (
    "where a mask of positions forbids a key, the factor of its weight is not read: it must be "
    "finite there"
)
_UNGUARDED = "the sums of a row whose scores are all -inf are 0 and not NaN"


def _scale(value: SSAValue, product: SSAValue) -> float | None:
    """The positive number by which ``value`` is ``product``, if that is what it is."""
    if value is product:
        return 1.0
    op = value.owner
    if not isinstance(op, region.BinaryOp) or op.fn.data != "mul":
        return None
    for one, other in (op.operands, op.operands[::-1]):
        number = constant_of(other)
        if behind_views(one) is product and number is not None and 0 < number < math.inf:
            return number
    return None


def _head(value: SSAValue, label: str) -> int:
    """The size of a head, which tiles need as a number."""
    axis = type_of(value).axis(label)
    assert axis is not None
    size = axis.size.constant()
    if size is None:
        raise Refused(f"the size {axis.size} of a head is known at launch only", place_of(value))
    if size < FEATURE_STEP or size % FEATURE_STEP:
        raise Refused(f"a head has {size} features, no multiple of {FEATURE_STEP}", place_of(value))
    return size
