"""``index-to-region``: where a kernel is cut so that its products run on tensor cores (S11.1).

A product inside of a kernel that no family of products takes is computed by loops, a hundred times
slower.  So the values around it are stored, the fewest first:

- ``CORE_WITH_QUERIES``: two products with a softmax between them stay together, as attention, with
  what makes the queries; what else they read and what they make is stored;
- ``CORE``: the same, and the queries are stored;
- ``CORE_BARE``: the same, and only what rounds the second one stays with it;
- ``CORE_PLAIN``: the same, and what the two read lies in memory as they read it;
- ``CORE_SPREAD``: the same, and with what repeats in what the first reads, whose scores others
  want;
- ``PAIR``: two products that share a factor and meet in elementwise ops stay together, with what
  follows them both;
- ``PAIR_PLAIN``: the same, and what the two read lies in memory as they read it;
- ``ROWS``: each product has a kernel of its own, with the ops that follow it alone, of which some
  reduce its short rows;
- ``ALONE``: the same, with the elementwise ops that follow it alone;
- ``PLAIN``: its factors lie in memory as it reads them, no longer behind a movement;
- ``BARE``: it is rounded and stored, with what repeats along its rows or columns, as a bias; what
  followed that is a kernel of its own;
- ``SPREAD``: its factors lie in memory with what repeats in them, as windows or heads in groups do.

What is stored has its own type: a value that is rounded to f16 anyway is stored as f16.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from enum import IntEnum
from heapq import heapify, heappop, heappush
from itertools import pairwise
from math import inf, prod
from typing import cast

from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from polyc.dialects import index, tiny
from polyc.dialects.common.dim import Dim
from polyc.dialects.common.elements import is_integer
from polyc.dialects.common.movements import MovementOp
from polyc.dialects.common.views import is_view
from polyc.families.matmul.follow import WIDTHS
from polyc.lowering.index_to_region import cost
from polyc.lowering.index_to_region.kernels import Kernel, Settled
from polyc.lowering.index_to_region.scores import Reads, Scores, shared_scores
from polyc.rewriting.postorder import operands_of, reached

LEAST = 1_000_000
"""Multiply-adds of a product, sizes that are not known taken as ``cost.TYPICAL``, from which on it
is worth a kernel of its own."""

TILE = 8
"""Rows and columns of the least tile of tensor cores."""

FEW = 64
"""Multiply-adds with each element of a factor from which on a copy of it costs little beside."""

DEEP = 16
"""Terms of a product's sums for each element of its rows from which on these are reduced by another
kernel.  Of 64 columns and 4096 terms a softmax behind takes 2.6 us for 4.7 at one row so, 4.0 for
4.7 at 16, 5.0 for 6.2 at 256 and 7.7 for 8.7 at 1000 (H100)."""

NARROW_ROW = 128
"""Elements of such a row at most: of more, parts of the sums may go through memory."""

MANY_ROWS = 2048
"""Rows, where that is known, up to which this holds."""

FACTOR = "a product {where} reads it from memory"
END = "a product {where}, which holds no other reduction, ends with it"
TURNED = "neighbours of the product that reads it are its neighbours in memory then"
WANTED = "others want it beside an attention, which computes it of its own scores"
MORE = (tiny.ReduceOp, tiny.GatherOp, tiny.ScatterOp)
"""What the kernel of a product holds no other one of, nor beside it."""
ASIDE = (*MORE, tiny.ScanOp, tiny.SortOp)
"""What no two products around a softmax hold of what they read beside their factors."""

SIDE = "it is reduced, and what follows a product {where} reads it from memory"
GATHERED = "it is read where data says, and what follows a product {where} reads it from memory"


Turned = Mapping[SSAValue, dict[SSAValue, tuple[int, ...]]]
"""Of products that threads compute, what they read turned, and in which order of its axes."""


class Level(IntEnum):
    """How much around a product is stored."""

    AS_IT_IS = 0
    CORE_WITH_QUERIES = 1
    CORE = 2
    CORE_BARE = 3
    CORE_PLAIN = 4
    CORE_SPREAD = 5
    PAIR = 6
    PAIR_PLAIN = 7
    ROWS = 8
    ALONE = 9
    PLAIN = 10
    BARE = 11
    SPREAD = 12


_LAST_TOGETHER = (Level.CORE_PLAIN, Level.CORE_SPREAD, Level.PAIR_PLAIN)
"""The last levels at which products stay together."""


@dataclass
class Products:
    """The products of a graph, and how much around each is stored by now.

    ``same`` are equal values.  ``users`` are the ops that read each value, equal casts left out.
    """

    graph: tiny.GraphOp
    same: Mapping[SSAValue, SSAValue]
    levels: dict[SSAValue, Level] = field(default_factory=dict[SSAValue, Level])
    """The level of each product, in the order of the program."""
    users: dict[SSAValue, list[Operation]] = field(default_factory=dict[SSAValue, list[Operation]])
    partners: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    """Products that may share a kernel, the earlier one first."""
    given_up: dict[SSAValue, None] = field(default_factory=dict[SSAValue, None])
    """Products that no family takes, whatever is stored, as those of two types."""
    follows: dict[SSAValue, list[SSAValue]] = field(default_factory=dict[SSAValue, list[SSAValue]])
    """What elementwise ops make of each product, in the order of the program."""
    rows: dict[SSAValue, list[SSAValue]] = field(default_factory=dict[SSAValue, list[SSAValue]])
    """The same with reductions of its short rows, for products that have some."""
    weights: dict[tuple[SSAValue, SSAValue], SSAValue] = field(
        default_factory=dict[tuple[SSAValue, SSAValue], SSAValue]
    )
    """Two products of which the second weighs by a softmax of the first: that factor of it."""
    contractions: set[SSAValue] = field(default_factory=set[SSAValue])
    """All sums of products, those that are worth no kernel of their own too."""
    behind: dict[SSAValue, Mapping[SSAValue, None]] = field(
        default_factory=dict[SSAValue, Mapping[SSAValue, None]]
    )
    """What values are made of, down to contractions, of those that were asked about."""
    queries: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    """Of such a first product the factor that no key has a part in, where something computes it."""

    gathering: dict[tuple[SSAValue, SSAValue], Level] = field(
        default_factory=dict[tuple[SSAValue, SSAValue], Level]
    )
    """Such two of which some factor is gathered, and stays so; with the level that they had."""

    copied: dict[SSAValue, str] = field(default_factory=dict[SSAValue, str])
    """Products that weigh by a softmax, whose gathered factors lie in memory, and why they do."""

    as_given: frozenset[SSAValue] = frozenset()
    """Values around convolutions that lie as the graph has their axes."""

    as_pixels: frozenset[SSAValue] = frozenset()
    """Values that are images, and lie with their pixels outside."""

    parted: dict[SSAValue, str] = field(default_factory=dict[SSAValue, str])
    """Products that weigh by a softmax of another one, and why the two are no attention."""

    def __post_init__(self) -> None:
        last = self.graph.body.block.last_op
        assert last is not None
        every = (value for op in self.graph.body.block.ops for value in op.results)
        self.contractions = {value for value in every if cost.is_contraction(value)}
        wanted = set(reached(last.operands, operands_of))
        for op in self.graph.body.block.ops:
            if isinstance(op, index.ValueOp) or (op.results and op.results[0] in self.same):
                continue
            if op.results and not wanted.intersection(op.results):
                continue
            for operand in dict.fromkeys(self.same.get(o, o) for o in op.operands):
                self.users.setdefault(operand, []).append(op)
            if op.results and self._is_large(op.results[0]):
                tiles, each = self._is_of_tiles(op.results[0]), self._is_depthwise(op.results[0])
                if tiles:
                    self.levels[op.results[0]] = Level.AS_IT_IS
                if each or not tiles:
                    self.given_up[op.results[0]] = None
        readers = self._readers_in_order()
        self.follows = {value: self._following(value, readers) for value in self.levels}
        rows = {value: self._following(value, readers, rows=True) for value in self.levels}
        self.rows = {value: found for value, found in rows.items() if any(map(_reduced, found))}
        self._find_cores()
        self._find_partners()
        for value in self.rows:
            if self.levels[value] is Level.AS_IT_IS and self._is_deep(value):
                self.levels[value] = Level.ALONE

    def _is_deep(self, value: SSAValue) -> bool:
        """Whether a product sums far more terms than the rows have that are reduced after it, and
        has no great number of these: more blocks share its steps where each needs no whole row.
        """
        reduce = cast(tiny.ReduceOp, value.owner)
        sizes, dims = tiny.tensor_of(reduce.operand).dims, tiny.tensor_of(value).dims
        depth = [sizes[axis].constant() for axis in reduce.axes]
        along = {
            axis
            for one in self.rows[value]
            if isinstance(op := one.owner, tiny.ReduceOp)
            and tiny.tensor_of(op.operand).dims == dims
            for axis in op.axes
        }
        wide = [dims[axis].constant() for axis in along]
        if None in depth or None in wide or not along:
            return False
        others = [d.constant() for axis, d in enumerate(dims) if axis not in along]
        few = None in others or prod(cast("list[int]", others)) <= MANY_ROWS
        row = prod(cast("list[int]", wide))
        return few and row <= NARROW_ROW and prod(cast("list[int]", depth)) >= DEEP * row

    def _find_cores(self) -> None:
        """Pair products of which one weighs by a softmax of the other, each with one at most.

        First those that are seen to sum over what the softmax goes along, as another softmax, of
        features say, may lie between a product and the scores that are made of it.
        """
        found: list[tuple[bool, int, SSAValue, SSAValue, SSAValue, list[tiny.ReduceOp]]] = []
        places = {value: place for place, value in enumerate(self.levels)}
        for second in self.levels:
            behind = dict.fromkeys(v for f in factors(second) for v in self._behind(f))
            for first in (v for v in behind if v in places and v is not second):
                if (weights := self._softmax_of(first, second)) is not None:
                    along = self._goes_along(*weights, second)
                    found.append((not along, places[first], first, second, *weights))
        for _, _, first, second, factor, maxima in sorted(found, key=lambda one: one[:2]):
            if all(self.levels[v] is Level.AS_IT_IS for v in (first, second)):
                self.weights[first, second] = factor
                level = Level.CORE
                queries = self.queries_of(first, maxima)
                if queries is not None and cost.is_computed(self.source(queries)):
                    self.queries[first] = queries
                    level = Level.CORE_WITH_QUERIES
                self.levels[first] = self.levels[second] = level
                read = self._stored_for(first, second)
                if any(isinstance(self.source(f).owner, tiny.GatherOp) for f in read):
                    self.gathering[first, second] = level

    def queries_of(self, first: SSAValue, maxima: Sequence[tiny.ReduceOp]) -> SSAValue | None:
        """The factor of a product that is the same along what the maxima of it are taken over."""
        dims = tiny.tensor_of(first).dims
        reduce = cast(tiny.ReduceOp, first.owner)
        rank = tiny.tensor_of(reduce.operand).rank
        kept = [axis for axis in range(rank) if axis not in reduce.axes]
        along = {op.axes for op in maxima if tiny.tensor_of(op.operand).dims == dims}
        if len(along) != 1:
            return None
        keys = {kept[axis] for axis in along.pop()}
        found = [f for f in factors(first) if keys.isdisjoint(_axes_of(f) or keys)]
        return found[0] if len(found) == 1 else None

    def _is_large(self, value: SSAValue) -> bool:
        """Whether a value is a product that is worth a kernel of its own."""
        if value not in self.contractions:
            return False
        return cost.points(tiny.tensor_of(cast(tiny.ReduceOp, value.owner).operand).dims) > LEAST

    def _is_of_tiles(self, value: SSAValue) -> bool:
        """Whether tiles are multiplied of the factors of a product: tensor cores take 16 bits, and
        threads f32."""
        return self._kind(value) in (Float16Type, BFloat16Type, Float32Type)

    def _kind(self, value: SSAValue) -> type[Attribute] | None:
        """The type of what the factors of a product are read as, None where they differ."""
        kinds = {type(tiny.tensor_of(self.source(f)).element_type) for f in factors(value)}
        return kinds.pop() if len(kinds) == 1 else None

    # What the next round does

    def inside(self, kernel: Kernel) -> list[SSAValue]:
        """The products that a kernel computes."""
        found = dict.fromkeys(key[0] for key, form in kernel.held().items() if form is not None)
        return [value for value in found if value in self.levels]

    def store_more(
        self,
        kernels: Sequence[Kernel],
        contracts: Callable[[Kernel], bool],
        why: Callable[[Kernel], str],
    ) -> bool:
        """Raise the levels of the products that ``contracts`` says are not computed well.

        ``why`` is asked of two around a softmax that part.
        """
        changed = False
        shared = dict(self.shared())
        for kernel in kernels:
            inside = [v for v in self.inside(kernel) if v not in self.given_up]
            if not inside or contracts(kernel):
                continue
            changed = True
            others = [v for v in inside if self.levels[v] is not Level.CORE_WITH_QUERIES]
            if self._stores_gathered(inside, lambda kernel=kernel: why(kernel)):
                continue
            # What queries are made of by other products is stored before they are.
            for value in others or inside:
                level = self.levels[value]
                if level is Level.CORE_PLAIN and any(value is b for _, b in self.weights):
                    self.parted[value] = why(kernel)
                if level is self._last(value):
                    # Nothing helps: what is stored for it would be stored for nothing.
                    self.levels[value] = Level.AS_IT_IS
                    self.given_up[value] = None
                elif level is Level.CORE_PLAIN and self._is_wanted_alone(value, shared):
                    self.levels[value] = Level.CORE_SPREAD
                elif level in (Level.AS_IT_IS, *_LAST_TOGETHER):
                    self.levels[value] = Level.ROWS if value in self.rows else Level.ALONE
                else:
                    self.levels[value] = Level(level + 1)
        return changed

    def _stores_gathered(self, inside: Collection[SSAValue], why: Callable[[], str]) -> bool:
        """Whether two around a softmax go back to their first level, with what is gathered stored.

        They do where no other level short of plain factors has helped, ``why`` being the reason.
        """
        for first, second in list(self.gathering):
            if second in inside and self.levels[second] is Level.CORE_BARE:
                self.levels[first] = self.levels[second] = self.gathering.pop((first, second))
                self.copied[second] = why()
                return True
        return False

    def _is_wanted_alone(
        self, value: SSAValue, shared: Collection[tuple[SSAValue, SSAValue]]
    ) -> bool:
        """Whether others want the scores that a product makes, whose attention runs well."""
        return any(
            first is value and self.levels[second] < Level.CORE_PLAIN for first, second in shared
        )

    def settled(self) -> Settled:
        """What the levels of the products settle."""
        turned = {value: self._turned(value) for value in self.given_up}
        turned |= {second: self._features_last(first, second) for first, second in self._cores()}
        orders = self._orders(turned)
        cuts, views = self._cuts(orders, turned), list[SSAValue]()
        for end, (stored, view) in self._moved_ends().items():
            order = orders.get(end, ())
            if stored is end and order != tuple(range(len(order))):
                continue  # What is viewed in another shape lies as it is.
            if end in cuts:
                cuts[stored] = cuts.pop(end)
                orders.pop(end, None)
                orders.pop(stored, None)
                if view is not None:
                    cuts.pop(view, None)
                    orders.pop(view, None)
                    views.append(view)
        # What is an input of the graph in another shape is there.
        for value in [v for v in cuts if _is_input_reshaped(v)]:
            if value not in orders:
                del cuts[value]
                views.append(value)
        scores = list(self.shared().values())
        for one in scores:
            for value in one.stored:
                cuts.setdefault(value, WANTED)
        return Settled(cuts, self._kept(), orders, self._beside(), views, scores)

    def shared(self) -> dict[tuple[SSAValue, SSAValue], Scores]:
        """The products around a softmax that stay together, and whose scores others want too."""
        found: dict[tuple[SSAValue, SSAValue], Scores] = {}
        reads = Reads(self.same, self.users)
        for first, second in self._cores():
            end, _ = self._epilogue(second)
            sources = set(self._read_from(first, second, self._read_by(first, second)))
            sources.update(self._sides(first, second))
            inside = self._behind(end, sources, through=second)
            weights = self._behind(self.weights[first, second], sources)
            scores = shared_scores(reads, (first, second), weights, inside, end)
            if scores is not None:
                found[first, second] = scores
        return found

    def apart(self, pair: tuple[SSAValue, SSAValue]) -> Products:
        """The same with two products around a softmax that do not stay together."""
        other = self._copied()
        for value in pair:
            other.levels[value] = Level.ROWS if value in self.rows else Level.ALONE
        return other

    def given(self, value: SSAValue) -> Products:
        """The same with a value around convolutions that lies as the graph has its axes."""
        other = self._copied()
        other.as_given = self.as_given | {value}
        return other

    def pixels(self, values: Collection[SSAValue]) -> Products:
        """The same with values that lie with their pixels outside, and channels inside."""
        other = self._copied()
        other.as_pixels, other.as_given = self.as_pixels | set(values), self.as_given - set(values)
        return other

    def images(self) -> set[tuple[Dim, ...]]:
        """The sizes of what convolutions read windows of, and of what they end with, in the order
        of the graph: those whose channels come before their pixels.
        """
        found: set[tuple[Dim, ...]] = set()
        for value in (*self.levels, *self.given_up):
            own = self._windows_and_filters(value)
            if own is None or self._pixels_first(value) in (None, _as_they_are(value)):
                continue
            found.add(tiny.tensor_of(value).dims)
            for factor in factors(value):
                if any(isinstance(v.owner, tiny.WindowOp) for v in self._way(factor)):
                    found.add(tiny.tensor_of(self.source(factor)).dims)
        return found

    def plain(self, value: SSAValue) -> Products:
        """The same with a product that reads copies in its own order; what is of each channel by
        itself has its pixels outside then.
        """
        other = self._copied()
        other.levels[value] = Level.PLAIN
        return other

    def plain_as_given(self, value: SSAValue) -> Products:
        """The same, and what follows the product lies as the graph has its axes."""
        return self.plain(value).given(self._epilogue(value)[0])

    def _copied(self) -> Products:
        other = copy(self)
        other.levels, other.given_up = dict(self.levels), dict(self.given_up)
        other.parted, other.copied = dict(self.parted), dict(self.copied)
        other.gathering = dict(self.gathering)
        return other

    def depthwise(self) -> list[SSAValue]:
        """The products of each channel by itself that have channels outside, and pixels inside."""
        return [
            value
            for value, level in self.levels.items()
            if level is Level.AS_IT_IS and self._is_depthwise(value)
            if self._pixels_first(value) not in (None, (0, 1, 2, 3))
        ]

    def _is_depthwise(self, value: SSAValue) -> bool:
        """Whether a product is of windows, and of a filter for each channel, which no tile has."""
        reduce = cast(tiny.ReduceOp, value.owner)
        axes = self._windows_and_filters(value)
        return axes is not None and axes[1] - set(reduce.axes) <= axes[0]

    def read_across(self) -> list[SSAValue]:
        """Products of windows of one tap that read an input of the graph where it lies, whose
        pixels are not outside.
        """
        found: list[SSAValue] = []
        for value, level in self.levels.items():
            if level not in (Level.AS_IT_IS, Level.ALONE) or self._pixels_first(value) is None:
                continue
            for factor in factors(value):
                source, order = self._order_read(factor)
                across = order is not None and not self._lies_so(self._plain(factor), source)
                if across and not cost.is_computed(source) and value not in found:
                    found.append(value)
        return found

    def turned(self) -> Iterator[SSAValue]:
        """What lies around convolutions: what they read windows of, and what they end with."""
        for value, level in self.levels.items():
            if level is not Level.AS_IT_IS and self._pixels_first(value) is not None:
                yield from map(self.source, factors(value))
                yield self._epilogue(value)[0]

    def turned_ends(self) -> list[SSAValue]:
        """What lies pixels first around convolutions, and is not only theirs: what others make of
        it, or it of others, may want the order of the graph.
        """
        found: dict[SSAValue, None] = {}
        for value, level in self.levels.items():
            if level is Level.AS_IT_IS or self._pixels_first(value) is None:
                continue
            end = self._epilogue(value)[0]
            if self._is_turned(value) and not all(map(self._is_window, self.users.get(end, ()))):
                found[end] = None
            for factor in factors(value):
                source, order = self._order_read(factor)
                made = any(source is self._epilogue(other)[0] for other in self.levels)
                if order is None or made or not cost.is_computed(source):
                    continue
                if source not in self.as_given and order != tuple(range(len(order))):
                    found[source] = None
        return list(found)

    def _is_window(self, op: Operation) -> bool:
        """Whether an op moves a value, and the convolutions that read windows of it alone do."""
        if not op.results or not (isinstance(op, MovementOp) or index.is_widening(op.results[0])):
            return False
        if isinstance(op, tiny.WindowOp):
            return True
        return all(map(self._is_window, self.users.get(op.results[0], ())))

    def _moved_ends(self) -> dict[SSAValue, tuple[SSAValue, SSAValue | None]]:
        """Where a product's end is only moved: what is stored in its place, and a view of that.

        Of an attention's what a permutation makes of it, whose features stay innermost, the kernel
        writes as well as the end itself, and a reshape of what is stored is the same memory: heads
        that are merged in the rows of a token are written there.  What else is made of the scores,
        as the log-sum-exp, comes out of the kernel beside the end alone.  The groups of a
        convolution's filters are merged, as an implicit GEMM writes them, and what a reshape makes
        of another one's result, as a line of images of one row, is a view of it.
        """
        found: dict[SSAValue, tuple[SSAValue, SSAValue | None]] = {}
        last = self.graph.body.block.last_op
        assert isinstance(last, tiny.OutputOp)
        for first, second in self._cores():
            end, _ = self._epilogue(second)
            stored, user = end, self._only_user(end)
            while isinstance(user, tiny.PermuteOp) and user.perm[-1] == len(user.perm) - 1:
                stored, user = user.result, self._only_user(user.result)
            view = user.result if isinstance(user, tiny.ReshapeOp) else None
            beside = any(first in self._behind(output, (end,)) for output in last.args)
            if not beside and (stored is not end or view is not None):
                found[end] = (stored, view)
        for value, level in self.levels.items():
            if level > Level.CORE_SPREAD and self._is_in_groups(value):
                end = self._epilogue(value)[0]
                user = self._only_user(end)
                if isinstance(user, tiny.ReshapeOp):
                    found[end] = (user.result, None)
            elif level > Level.CORE_SPREAD and self._windows_and_filters(value) is not None:
                end = self._epilogue(value)[0]
                user = self._only_user(end)
                if isinstance(user, tiny.ReshapeOp) and _is_view(user):
                    found[end] = (end, user.result)
        return found

    def _merged(self, value: SSAValue) -> SSAValue:
        """What a reshape splits into groups, in the same memory."""
        op = value.owner
        return self.same.get(op.operand, op.operand) if isinstance(op, tiny.ReshapeOp) else value

    def _is_in_groups(self, value: SSAValue) -> bool:
        """Whether a product is of windows, and of filters that each see some of the channels."""
        reduce = cast(tiny.ReduceOp, value.owner)
        axes = self._windows_and_filters(value)
        return axes is not None and bool((axes[0] & axes[1]) - set(reduce.axes))

    def _only_user(self, value: SSAValue) -> Operation | None:
        users = self.users.get(value, ())
        return users[0] if len(users) == 1 else None

    def _cuts(self, orders: Collection[SSAValue], turned: Turned) -> dict[SSAValue, str]:
        """The values to store, with the reason; ``orders`` lie as their products read them."""
        found: dict[SSAValue, str] = {}
        for first, second in self._cores():
            read = self._stored_for(first, second)
            self._store(found, self._read_from(first, second, read), FACTOR, second)
            for side in self._sides(first, second):
                self._store(found, [side], self._why_aside(side), second, plain=True)
            if self.levels[second] is Level.CORE_PLAIN:
                self._store(found, map(self._plain, read), FACTOR, second, plain=True)
            elif self.levels[first] in (Level.CORE_PLAIN, Level.CORE_SPREAD):
                # Who computes the scores for others reads them so, and the attention too.
                spread = self.levels[first] is Level.CORE_SPREAD
                plain = [self._plain(factor, spread) for factor in factors(first)]
                self._store(found, plain, FACTOR, first, plain=True)
            self._end(found, second)
        first = {a for a, _ in self._pairs()}
        for value, level in self.levels.items():
            if level > Level.CORE_SPREAD:
                self._store(found, self._sources(value), FACTOR, value)
                if level >= Level.PLAIN or level is Level.PAIR_PLAIN:
                    spread = level is Level.SPREAD
                    read = (f for f in factors(value) if spread or self.source(f) not in orders)
                    if value in self.given_up:
                        read = (f for f in read if self._plain(f) not in turned[value])
                    plain = (self._plain(f, spread) for f in read)
                    if not spread and self._is_in_groups(value):
                        plain = map(self._merged, plain)
                    self._store(found, plain, FACTOR, value, plain=True)
                if value not in first:
                    self._end(found, value)
        for value, read in turned.items():
            self._store(found, list(read), TURNED, value, plain=True)
        return found

    def _find_partners(self) -> None:
        """Pair products that share a factor and meet in an epilogue, each with one at most."""
        untouched = (v for v, level in self.levels.items() if level is Level.AS_IT_IS)
        free = [value for value in untouched if value not in self.given_up]
        for number, first in enumerate(free):
            if self.levels[first] is not Level.AS_IT_IS:
                continue
            for second in free[number + 1 :]:
                alone = self.levels[second] is Level.AS_IT_IS
                if alone and self._are_partners(first, second):
                    self.partners[first] = second
                    self.levels[first] = self.levels[second] = Level.PAIR
                    break

    def _are_partners(self, first: SSAValue, second: SSAValue) -> bool:
        pair = (first, second)
        one, other = (tiny.tensor_of(cast(tiny.ReduceOp, v.owner).operand).dims for v in pair)
        read, also = ({self.source(f) for f in factors(v)} for v in pair)
        if one != other or not read & also:
            return False
        meet = set(self.follows[first]) & set(self.follows[second])
        apart = [v for v in self.follows[first] if v not in meet]
        # What the first one makes is wanted where they meet, and nowhere else.
        return bool(meet) and all(
            op.results and (op.results[0] in meet or op.results[0] in apart)
            for v in (first, *apart)
            for op in self.users.get(v, ())
        )

    def _pairs(self) -> list[tuple[SSAValue, SSAValue]]:
        """The partners that stay together."""
        return [
            (first, second)
            for first, second in self.partners.items()
            if self.levels[first] is self.levels[second]
            and self.levels[first] in (Level.PAIR, Level.PAIR_PLAIN)
        ]

    def _kept(self) -> set[SSAValue]:
        """The values between two products that stay together, which are computed where they are."""
        found: set[SSAValue] = set()
        together = [
            (*pair, {*self._read_from(*pair, self._stored_for(*pair)), *self._sides(*pair)})
            for pair in self._cores()
        ]
        together += [
            (a, b, {self.source(f) for f in (*factors(a), *factors(b))}) for a, b in self._pairs()
        ]
        alone = [value for value, level in self.levels.items() if level > Level.CORE_PLAIN]
        ends = {self._epilogue(value)[0] for value in alone}
        for first, second, read in together:
            if self.levels[first] is Level.CORE_WITH_QUERIES:
                read |= ends
            end, _ = self._epilogue(second)
            inside = self._behind(end, read, through=second)
            found |= {first, *(v for v in inside if v is second or not cost.is_contraction(v))}
            if (first, second) in self.gathering:
                found |= self._gathered(first, second, read)
        return found

    def _gathered(
        self, first: SSAValue, second: SSAValue, read: Collection[SSAValue]
    ) -> set[SSAValue]:
        """What is gathered for two around a softmax, and its places, which are of each step.

        Places that are reduced are computed once, and stored.
        """
        made = (v for f in self._stored_for(first, second) for v in self._behind(f, read))
        once = (tiny.ReduceOp, tiny.ScatterOp, tiny.ScanOp, tiny.SortOp)
        return {v for v in made if v not in read and not self._has(v, *once)}

    def _orders(self, turned: Turned) -> dict[SSAValue, tuple[int, ...]]:
        """In which order of their axes values lie in memory that are around products.

        Around a convolution the windows' factor lies as it is read, pixels outside and channels
        inside, and so does what follows the product; a factor of another product where it is not
        taken in its own order.
        """
        found: dict[SSAValue, tuple[int, ...]] = {}
        for value, level in self.levels.items():
            own = self._pixels_first(value)
            if level is Level.AS_IT_IS or (own is None and level < Level.PLAIN):
                continue
            for factor in factors(value):
                source, order = self._order_read(factor)
                if order is not None and cost.is_computed(source):
                    found.setdefault(source, order)
            end = self._epilogue(value)[0]
            # What is reduced behind the product has other axes than it, in their own order.
            if own is not None and tiny.tensor_of(end).rank == len(own):
                found.setdefault(end, own)
        given = {*self.as_given, *self._ends_of_windows()}
        found = {value: order for value, order in found.items() if value not in given}
        found |= {value: pixels_first(value) for value in self.as_pixels}
        for read in turned.values():
            found |= read
        return {v: order for v, order in found.items() if order != tuple(range(len(order)))}

    def _ends_of_windows(self) -> Iterator[SSAValue]:
        """What products of whole windows end with, where their image is not stored in columns: the
        kernels that take windows from planes write planes."""
        for value, level in self.levels.items():
            if level is not Level.SPREAD and any(map(self._is_whole, factors(value))):
                yield self._epilogue(value)[0]

    def _turned(self, value: SSAValue) -> dict[SSAValue, tuple[int, ...]]:
        """What a product that threads compute reads across its neighbours, in the order it should.

        That is a factor whose elements are used often, and whose last axis in memory is not the
        product's last: lanes beside each other would read far from each other at every step.
        """
        reduce = cast(tiny.ReduceOp, value.owner)
        space = tiny.tensor_of(reduce.operand).dims
        kept = [i for i in range(len(space)) if i not in reduce.axes]
        if self.levels.get(value, Level.AS_IT_IS) is not Level.AS_IT_IS:
            kept = [kept[i] for i in self._pixels_first(value) or range(len(kept))]
        wide = [i for i in kept if space[i].constant() != 1]
        found: dict[SSAValue, tuple[int, ...]] = {}
        for factor in factors(value) if wide else ():
            plain, source = self._plain(factor), self.source(factor)
            dims = tiny.tensor_of(plain).dims
            last = self._axis_below(factor, plain, wide[-1])
            if last is None or cost.points(dims) * FEW > cost.points(space):
                continue
            stored = self._axis_below(plain, source, last)
            if _is_inner(plain, last) and (stored is None or _is_inner(source, stored)):
                continue
            found[plain] = (*(i for i in range(len(dims)) if i != last), last)
        return found

    def _features_last(self, first: SSAValue, second: SSAValue) -> dict[SSAValue, tuple[int, ...]]:
        """What two products around a softmax read with features that are not its last axis.

        They are copied so that these are, where the two take what they read as they read it.
        """
        found: dict[SSAValue, tuple[int, ...]] = {}
        if self.levels[second] is not Level.CORE_PLAIN:
            return found
        summed = cast(tiny.ReduceOp, first.owner).axes
        weights = _axes_of(self.weights[first, second]) or set()
        for factor in self._read_by(first, second):
            own = _axes_of(factor) or set()
            features = [*(set(summed) if factor in factors(first) else own - weights)]
            value = self._plain(factor)
            if isinstance(value, BlockArgument):
                value = next((v for v in self._way(factor) if self._is_widened(v, value)), value)
            axis = self._axis_below(factor, value, features[0]) if len(features) == 1 else None
            if axis is not None and not _is_inner(value, axis):
                rank = tiny.tensor_of(value).rank
                found[value] = (*(i for i in range(rank) if i != axis), axis)
        return found

    def _is_widened(self, value: SSAValue, leaf: SSAValue) -> bool:
        """Whether a value is a leaf in a wider type."""
        return index.is_widening(value) and cast(Operation, value.owner).operands[0] is leaf

    def _axis_below(self, factor: SSAValue, value: SSAValue, axis: int) -> int | None:
        """The axis of ``value``, which ``factor`` moves, that is ``axis`` of it; None for none."""
        here = self.same.get(factor, factor)
        while here is not value:
            op = cast(Operation, here.owner)
            match op:
                case tiny.ExpandOp():
                    if axis not in op.dims:
                        return None
                    axis = op.dims.index(axis)
                case tiny.PermuteOp():
                    axis = op.perm[axis]
                case tiny.CastOp():
                    pass
                case _:
                    return None
            here = self.same.get(op.operands[0], op.operands[0])
        return axis

    def _beside(self) -> list[SSAValue]:
        """What is stored of attention: its kernel may give its log-sum-exp beside."""
        return [self._epilogue(second)[0] for _, second in self._cores()]

    def _pixels_first(self, value: SSAValue) -> tuple[int, ...] | None:
        """The axes of a product, first those of its factor of windows.

        None where it has no such factor, and where its factors share an axis, but for a filter a
        channel.
        """
        if (axes := self._windows_and_filters(value)) is None:
            return None
        image, filters = axes
        reduce = cast(tiny.ReduceOp, value.owner)
        rank = tiny.tensor_of(reduce.operand).rank
        kept = [axis for axis in range(rank) if axis not in reduce.axes]
        if image & filters & set(kept) and not self._is_depthwise(value):
            return None
        # An axis of one point may be neither's: one image may be read without its number.
        return tuple(sorted(range(len(kept)), key=lambda axis: kept[axis] in filters))

    def _windows_and_filters(self, value: SSAValue) -> tuple[set[int], set[int]] | None:
        """The axes of a product's space that its factor of windows has, and the other one; None
        where not just one is of windows.
        """
        given = factors(value)
        windowed = [self._is_windowed(factor) for factor in given]
        if sum(windowed) != 1 or any(map(self._is_whole, given)):
            return None
        image, filters = (_axes_of(f) for f in (given if windowed[0] else given[::-1]))
        return None if image is None or filters is None else (image, filters)

    def _is_windowed(self, factor: SSAValue) -> bool:
        """Whether a factor is windows that slide; not taps that run backwards, as those of a
        transposed convolution's filter."""
        way = list(self._way(factor))
        return any(isinstance(v.owner, tiny.WindowOp) for v in way) and not _runs_backwards(way)

    def _is_whole(self, factor: SSAValue) -> bool:
        """Whether a factor has all points of windows over rows and columns as one axis."""
        way = list(self._way(factor))
        for moved, below in pairwise(way):
            op = below.owner
            if isinstance(moved.owner, tiny.ReshapeOp) and isinstance(op, tiny.WindowOp):
                return len(op.axes) > 1 and not _runs_backwards(way)
        return False

    def _is_turned(self, value: SSAValue) -> bool:
        """Whether a product is stored with its axes in another order than it has."""
        own = self._pixels_first(value)
        if own is None or own == tuple(range(len(own))):
            return False
        return self._epilogue(value)[0] not in self.as_given

    def _order_read(self, factor: SSAValue) -> tuple[SSAValue, tuple[int, ...] | None]:
        """What a factor is read from, and in which order of its axes if that is all that moves it.

        Outside of the permutations there may be windows and what repeats and pads.
        """
        *way, source = self._way(factor)
        order = tuple(range(tiny.tensor_of(source).rank))
        below = True
        for value in reversed(way):
            match value.owner:
                case tiny.PermuteOp() as op if below:
                    order = tuple(order[axis] for axis in op.perm)
                case tiny.CastOp():
                    pass
                case tiny.PadOp() | tiny.WindowOp() | tiny.ExpandOp() | tiny.PermuteOp():
                    below = False
                case _:
                    return source, None
        return source, order

    def _store(
        self,
        found: dict[SSAValue, str],
        values: Iterator[SSAValue] | Sequence[SSAValue],
        why: str,
        product: SSAValue,
        plain: bool = False,
    ) -> None:
        for value in values:
            moved = plain and not isinstance(value, BlockArgument)
            if cost.is_computed(value) or moved:
                found.setdefault(value, self._reason(value, why, product))

    def _reason(self, value: SSAValue, why: str, product: SSAValue) -> str:
        """Why a value is stored for a product, with what either takes."""
        stored = cost.seconds_stored(value, len(self.users.get(value, ())))
        where, without = "on tensor cores", "without tensor cores"
        if self._kind(product) is Float32Type:
            where, without = "in tiles of f32", "in loops"
        return (
            f"{why.format(where=where)}; storing it takes about {stored * 1e6:.3g} us, and the "
            f"product {without} {cost.seconds_by_threads(product) * 1e6:.3g} us (a size that is "
            f"not known is taken as {cost.TYPICAL})"
        )

    # What is around a product

    def source(self, value: SSAValue) -> SSAValue:
        """What a value is read from: itself without movements and casts that widen."""
        *_, value = self._way(value)
        return value

    def _sources(self, value: SSAValue) -> Iterator[SSAValue]:
        """What the factors of a product are read from: of a concat its parts, if others make them.

        Those are tensors, and what products end with.  What elementwise ops make is joined on its
        way to memory.
        """
        made = {v for product in self.levels for v in (product, *self.follows[product])}
        for factor in factors(value):
            source = self.source(factor)
            parts = [self.source(part) for part in joined(source, self.same)]
            there = all(part in made or not cost.is_computed(part) for part in parts)
            yield from parts if parts and there else [source]

    def _plain(self, factor: SSAValue, repeats: bool = False) -> SSAValue:
        """The outermost value on the way to a factor, which ``repeats`` or does not, as it is read.

        That is one of the source's type: of what is widened, before it is.
        """
        *way, source = self._way(factor)
        wide = isinstance(tiny.tensor_of(source).element_type, Float32Type)
        for moved in way[1 if repeats else _below_windows(way) :]:
            widened = isinstance(tiny.tensor_of(moved).element_type, Float32Type) and not wide
            if _skips(moved) or (
                not widened
                and (repeats or not isinstance(moved.owner, tiny.ExpandOp | tiny.WindowOp))
            ):
                return source if self._lies_so(moved, source) else moved
        return source

    def _lies_so(self, moved: SSAValue, source: SSAValue) -> bool:
        """Whether elements follow each other in a value that ``moved`` moves as in that: axes of
        one point alone change places, as those of a filter of one tap.
        """
        dims = tiny.tensor_of(source).dims
        moves: list[Operation] = []
        while moved is not source:
            moves.append(cast(Operation, moved.owner))
            moved = cost.unmasked(self.same.get(o := moves[-1].operands[0], o))
        order = tuple(range(len(dims)))
        for op in reversed(moves):
            if isinstance(op, tiny.PermuteOp):
                order = tuple(order[axis] for axis in op.perm)
            elif not isinstance(op, tiny.CastOp):
                return False
        wide = [axis for axis in order if dims[axis].constant() != 1]
        return wide == sorted(wide)

    def _last(self, value: SSAValue) -> Level:
        """The level after which a product is given up.

        Where a factor repeats, what repeats is stored if either side is wide enough for a tile.
        """
        gone = cast(tiny.ReduceOp, value.owner).axes
        sizes = tiny.tensor_of(cast(tiny.ReduceOp, value.owner).operand).dims
        axes = [_axes_of(f) for f in factors(value)]
        if None in axes:
            return Level.BARE
        one, other = (cast("set[int]", a).difference(gone) for a in axes)
        wide = all(cost.points(sizes[i] for i in a) >= TILE for a in (one - other, other - one))
        return Level.SPREAD if wide else Level.BARE

    def _way(self, value: SSAValue) -> Iterator[SSAValue]:
        """A value, and what each movement and widening cast on the way to its source moves."""
        while True:
            value = cost.unmasked(self.same.get(value, value))
            yield value
            op = value.owner
            if not (isinstance(op, MovementOp) or index.is_widening(value)):
                return
            value = cast(Operation, op).operands[0]

    def _cores(self) -> list[tuple[SSAValue, SSAValue]]:
        """The products around a softmax that stay together with it."""
        levels = (
            Level.CORE_WITH_QUERIES,
            Level.CORE,
            Level.CORE_BARE,
            Level.CORE_PLAIN,
            Level.CORE_SPREAD,
        )
        return [pair for pair in self.weights if all(self.levels[v] in levels for v in pair)]

    def _softmax_of(
        self, first: SSAValue, second: SSAValue
    ) -> tuple[SSAValue, list[tiny.ReduceOp]] | None:
        """The factor of ``second`` that is a softmax of ``first``, and its reductions, or None.

        It is made of exponentials of ``first``, and of a maximum of that or of their sum, and of no
        product that needs ``first``, as what follows an attention is.
        """
        for factor in factors(second):
            behind = self._behind(factor)
            if first not in behind:
                continue
            others = (v for v in behind if v is not first and v in self.contractions)
            if any(first in self._behind(f) for v in others for f in factors(v)):
                continue
            powers = [v for v in behind if _is_power(v) and first in self._behind(v)]
            along = [
                value.owner
                for value in (behind if powers else ())
                if isinstance(value.owner, tiny.ReduceOp)
                and value.owner.function == "max"
                and first in self._behind(value)
            ]
            along = along or [op for value in powers for op in self._sums_of(value)]
            if along:
                return factor, along
        return None

    def _sums_of(self, value: SSAValue) -> Iterator[tiny.ReduceOp]:
        """The sums of a value that is moved and cast only, and multiplied by nothing."""
        for op in self.users.get(value, ()):
            if isinstance(op, tiny.ReduceOp):
                if op.function == "sum":
                    yield op
            elif isinstance(op, MovementOp | tiny.CastOp):
                yield from self._sums_of(op.results[0])

    def _goes_along(
        self, factor: SSAValue, along: Sequence[tiny.ReduceOp], second: SSAValue
    ) -> bool:
        """Whether a product is seen to sum over what one of the reductions ``along`` is of."""
        summed = cast(tiny.ReduceOp, second.owner).axes
        source = self.source(factor)
        axes = {self._axis_below(factor, source, axis) for axis in summed}
        dims = tiny.tensor_of(source).dims
        return any(set(op.axes) == axes and tiny.tensor_of(op.operand).dims == dims for op in along)

    def _read_by(self, first: SSAValue, second: SSAValue) -> list[SSAValue]:
        """The factors of two products that stay together, but for the softmax between them."""
        weights = self.weights[first, second]
        return [*factors(first), *(f for f in factors(second) if f is not weights)]

    def _read_from(
        self, first: SSAValue, second: SSAValue, read: Sequence[SSAValue]
    ) -> Iterator[SSAValue]:
        """What factors of two around a softmax are read from, behind gathers that stay with them.

        Queries are gathered on their way to memory.
        """
        queries = self.queries.get(first)
        for factor in read:
            source = self.source(factor)
            while (
                (first, second) in self.gathering
                and factor is not queries
                and isinstance(source.owner, tiny.GatherOp)
            ):
                source = self.source(source.owner.operand)
            yield source

    def _sides(self, first: SSAValue, second: SSAValue) -> list[SSAValue]:
        """What two around a softmax read beside their factors and is reduced or gathered, as a bias
        of positions or a mask that is looked up.

        It is stored as it is read, where it does not repeat: no step of theirs holds more of those.
        """
        read = set(self._read_from(first, second, self._stored_for(first, second)))
        end, _ = self._epilogue(second)
        inside = self._behind(end, read, through=second)
        beyond = {*read, *self._read_by(first, second)}
        made: set[SSAValue] = {first, second}
        found: dict[SSAValue, None] = {}
        for value in inside:
            op = cast(Operation, value.owner)
            given = [self.same.get(o, o) for o in op.operands]
            if value is first or not any(o in made for o in given):
                continue
            made.add(value)
            work = [o for o in given if o not in made and o not in beyond]
            while work:
                source = self.source(here := work.pop())
                if source in beyond or isinstance(source, BlockArgument):
                    continue
                if cost.is_contraction(source):
                    continue
                if isinstance(source.owner, ASIDE):
                    found[self._read_as(here)] = None
                else:
                    work += [self.same.get(o, o) for o in cast(Operation, source.owner).operands]
        return list(found)

    def _read_as(self, value: SSAValue) -> SSAValue:
        """What lies in memory for a value that is only moved: as it is read, but once where it
        repeats, and in the type of its source."""
        *way, source = self._way(value)
        views = tiny.ExpandOp | tiny.CastOp | tiny.ReshapeOp
        if all(isinstance(moved.owner, views) for moved in way):
            return source
        repeats = tiny.ExpandOp | tiny.CastOp
        return next(moved for moved in way if not isinstance(moved.owner, repeats))

    def _why_aside(self, side: SSAValue) -> str:
        return SIDE if self._has(side, tiny.ReduceOp) else GATHERED

    def _stored_for(self, first: SSAValue, second: SSAValue) -> list[SSAValue]:
        """Those of them that are stored: not the queries that the two are computed with."""
        read = self._read_by(first, second)
        if self.levels[first] is not Level.CORE_WITH_QUERIES:
            return read
        return [factor for factor in read if factor is not self.queries[first]]

    def _behind(
        self,
        value: SSAValue,
        stop: Collection[SSAValue] = (),
        through: SSAValue | None = None,
    ) -> Collection[SSAValue]:
        """What a value is made of, down to ``stop`` and to contractions, these included.

        ``value`` and ``through`` may be contractions themselves.
        """
        value = self.same.get(value, value)
        if not stop and through is None:
            if value not in self.behind:
                self.behind[value] = dict.fromkeys(self._found_behind(value, (), None))
            return self.behind[value]
        return self._found_behind(value, stop, through)

    def _found_behind(
        self, value: SSAValue, stop: Collection[SSAValue], through: SSAValue | None
    ) -> list[SSAValue]:

        def operands(one: SSAValue) -> list[SSAValue]:
            ends = one in self.contractions and one not in (value, through)
            op = one.owner
            if ends or not isinstance(op, Operation):
                return []
            read = (self.same.get(o, o) for o in op.operands)
            return [o for o in read if o not in stop and not isinstance(o, BlockArgument)]

        return reached([value], operands)

    def _end(self, found: dict[SSAValue, str], value: SSAValue) -> None:
        """Store the last of the elementwise ops that follow a product alone, and their sides."""
        end, sides = self._epilogue(value)
        if any(self._parts(op, value) for op in self._readers(end)):
            found.setdefault(end, self._reason(end, END, value))
        for side in sides:
            self._store(found, [side], self._why_aside(side), value)

    def _readers(self, value: SSAValue) -> Iterator[Operation]:
        """The ops that read a value, also behind permutations: an output is written in any order.

        A cast that widens is none if only equal casts read it, as where an output is rounded twice.
        """
        for op in self.users.get(value, ()):
            if isinstance(op, tiny.PermuteOp) or (op.results and index.is_widening(op.results[0])):
                yield from self._readers(op.results[0])
            else:
                yield op

    def _parts(self, op: Operation, value: SSAValue) -> bool:
        """Whether the end of what follows a product is stored for the sake of ``op``.

        As an output of the graph it is stored anyway, with the others of its shape, and with what a
        softmax gives beside it; but a convolution that stores its pixels first has an output that
        does not copied.
        """
        if not isinstance(op, tiny.OutputOp) or self._is_turned(value):
            return True
        if self.levels[value] in (Level.CORE_BARE, Level.CORE_PLAIN):
            return self._is_beside_others(value)
        core = (Level.CORE_WITH_QUERIES, Level.CORE)
        return self.levels[value] not in core and not self._all_outputs(value)

    def _is_beside_others(self, value: SSAValue) -> bool:
        """Whether the graph has an output that is made of other products than one of a pair is."""
        last = self.graph.body.block.last_op
        assert isinstance(last, tiny.OutputOp)
        pair = {v for both in self.weights if value in both for v in both}
        behind = {v for output in last.args for v in self._behind(output)}
        return any(v in self.levels and v not in pair for v in behind)

    def _all_outputs(self, value: SSAValue) -> bool:
        """Whether every output of the graph is a product, or follows it: one kernel writes them."""
        last = self.graph.body.block.last_op
        assert isinstance(last, tiny.OutputOp)
        follow = {value, *self._behind_product(value)}
        return all(self.same.get(o, o) in follow for o in last.args)

    def _behind_product(self, value: SSAValue) -> list[SSAValue]:
        """What follows a product and may stay with it."""
        return (self.rows if self.levels[value] is Level.ROWS else self.follows)[value]

    def _epilogue(self, value: SSAValue) -> tuple[SSAValue, list[SSAValue]]:
        """The last value of what follows a product alone, and what that reads of reductions and
        gathers."""
        bare = self.levels[value] in (
            Level.CORE_BARE,
            Level.CORE_PLAIN,
            Level.BARE,
            Level.SPREAD,
        )
        follow = self._behind_product(value)
        inside: set[SSAValue] = {value}
        for first, second in self._pairs():
            if second is value:
                inside |= {first, *self.follows[first]} - set(follow)
        outputs = self._all_outputs(value)
        end, sides = value, list[SSAValue]()
        held: list[SSAValue] = []
        for here in follow:
            op = cast(Operation, here.owner)
            given = [self.same.get(o, o) for o in op.operands]
            others = [self.source(o) for o in given if o not in inside]
            if any(self._later(o, value) for o in others):
                break
            if bare and not all(o in inside or _repeats(o) for o in given):
                break  # another tensor as large as the product
            inside.add(here)
            held += [self._made_of(o) for o in others if self._has(o, *MORE)]
            if cost.is_computed(here) and self._leaves_by(here, inside, outputs):
                end = here
                sides += held
                held.clear()
                if bare and isinstance(op, tiny.CastOp):
                    break
        return end, (sides if self.levels[value] > Level.CORE_SPREAD else [])

    def _made_of(self, value: SSAValue) -> SSAValue:
        """The reduction that one elementwise op after another makes a value of, with numbers: they
        are done again where it is read, which takes no kernel and no memory.  Else the value."""
        made = value
        while isinstance(op := value.owner, tiny.UnaryOp | tiny.BinaryOp | tiny.CompareOp):
            given = [self.source(o) for o in op.operands]
            others = [o for o in given if not isinstance(o.owner, tiny.ConstantOp)]
            if len(others) != 1 or tiny.tensor_of(others[0]).dims != tiny.tensor_of(value).dims:
                break
            value = others[0]
        reduces = isinstance(value.owner, tiny.ReduceOp) and not cost.is_contraction(value)
        return value if reduces else made

    def _leaves_by(self, value: SSAValue, inside: set[SSAValue], outputs: bool) -> bool:
        """Whether nothing but ``value`` of some values is wanted by others.

        With ``outputs`` they may be the graph's.
        """
        return all(
            (op.results and op.results[0] in inside) or (outputs and isinstance(op, tiny.OutputOp))
            for other in inside
            if other is not value
            for op in self.users.get(other, ())
        )

    def _readers_in_order(self) -> dict[SSAValue, list[tuple[int, Operation]]]:
        """The ops that read each value, with their places in the program."""
        found: dict[SSAValue, list[tuple[int, Operation]]] = {}
        for place, op in enumerate(self.graph.body.block.ops):
            for operand in dict.fromkeys(self.same.get(o, o) for o in op.operands):
                found.setdefault(operand, []).append((place, op))
        return found

    def _following(
        self,
        value: SSAValue,
        readers: Mapping[SSAValue, Sequence[tuple[int, Operation]]],
        rows: bool = False,
    ) -> list[SSAValue]:
        """What elementwise ops make of a value, in the order of the program.

        With ``rows`` they may reduce it along a short axis, always the same one, and use what that
        gives all along the axis again.
        """
        inside: dict[SSAValue, None] = {value: None}
        space = tiny.tensor_of(value).dims
        along: set[int] = set()
        ahead = dict(readers.get(value, ()))
        places = list(ahead)
        heapify(places)
        while places:
            op = ahead[heappop(places)]
            skipped = isinstance(op, (*MORE, MovementOp, index.ValueOp))
            match op:
                case tiny.ReduceOp() if rows and tiny.tensor_of(op.operand).dims == space:
                    again = along | set(op.axes)
                    skipped = not _is_short(space, again)
                    if not skipped:
                        along = again
                case tiny.ExpandOp() if rows:
                    skipped = tiny.tensor_of(op.result).dims != space
                case _:
                    pass
            if not op.results or skipped or op.results[0] in self.same:
                continue
            inside[op.results[0]] = None
            for place, reader in readers.get(op.results[0], ()):
                if place not in ahead:
                    ahead[place] = reader
                    heappush(places, place)
        return list(inside)[1:]

    def _later(self, value: SSAValue, than: SSAValue) -> bool:
        """Whether ``value`` follows a later product, which what comes of both stays with."""
        products = list(self.levels)
        later = products[products.index(than) + 1 :]
        return any(value is product or value in self.follows[product] for product in later)

    def _has(self, value: SSAValue, *kinds: type[Operation]) -> bool:
        """Whether a value is made of ops of some kinds, down to contractions."""
        return any(isinstance(v.owner, kinds) for v in self._behind(value))


def factors(value: SSAValue) -> tuple[SSAValue, SSAValue]:
    """The two values whose products a contraction sums."""
    reduce = cast(tiny.ReduceOp, value.owner)
    product = cast(tiny.BinaryOp, reduce.operand.owner)
    return product.lhs, product.rhs


def joined(value: SSAValue, same: Mapping[SSAValue, SSAValue]) -> list[SSAValue]:
    """The parts of a concat, padded to the whole; none where a value is something else.

    It is their maximum, rounded to their own type; ``same`` are equal values.
    """
    value = same.get(value, value)
    match value.owner:
        case tiny.CastOp() as op:
            return joined(op.operand, same)
        case tiny.BinaryOp() as op if op.function == "max":
            left, right = joined(op.lhs, same), joined(op.rhs, same)
            return [*left, *right] if left and right else []
        case tiny.PadOp() as op if op.number == -inf:
            return [value]
        case _:
            return []


def _is_power(value: SSAValue) -> bool:
    """Whether a value is an exponential, or a power of something."""
    match value.owner:
        case tiny.UnaryOp() as op:
            return op.function == "exp"
        case tiny.BinaryOp() as op:
            return op.function == "pow" and not is_integer(tiny.tensor_of(value).element_type)
        case _:
            return False


def _reduced(value: SSAValue) -> bool:
    return isinstance(value.owner, tiny.ReduceOp)


def _is_short(space: Sequence[Dim], axes: set[int]) -> bool:
    """Whether a product's tile has all of its points along ``axes``, which are one."""
    sizes = [space[axis].constant() for axis in axes]
    return len(sizes) == 1 and sizes[0] is not None and sizes[0] <= WIDTHS[-1]


def _is_inner(value: SSAValue, axis: int) -> bool:
    """Whether the points of an axis are neighbours, where the axes lie in their order."""
    return all(size.constant() == 1 for size in tiny.tensor_of(value).dims[axis + 1 :])


def _skips(value: SSAValue) -> bool:
    """Whether a value is every so many-th pixel of another one: windows of one tap, with a step."""
    op = value.owner
    if not isinstance(op, tiny.WindowOp) or any(size.constant() != 1 for size in op.size):
        return False
    return any(step != 1 for step in op.stride)


def _repeats(value: SSAValue) -> bool:
    """Whether a value repeats along an axis, as a bias does."""
    entry = index.value_op(value)
    return entry is not None and any(axis.repeats for axis in entry.axes)


def _axes_of(factor: SSAValue) -> set[int] | None:
    """The axes of a product's space along which a factor does not repeat.

    None where a size is a product of symbols, which has an axis for each of them in the book.
    """
    entry = index.value_op(factor)
    if entry is None or len(entry.axes) != tiny.tensor_of(factor).rank:
        return None
    return {i for i, axis in enumerate(entry.axes) if not axis.repeats}


def _is_input_reshaped(value: SSAValue) -> bool:
    """Whether a value is a view of the memory of an input of the graph."""
    op = value.owner
    return isinstance(op, tiny.ReshapeOp) and isinstance(op.operand, BlockArgument) and _is_view(op)


def _is_view(op: tiny.ReshapeOp) -> bool:
    return is_view(tiny.tensor_of(op.result).dims, tiny.tensor_of(op.operand).dims)


def _runs_backwards(way: Sequence[SSAValue]) -> bool:
    """Whether windows on the way from a factor have taps in the other order."""
    ops = (value.owner for value in way if isinstance(value.owner, tiny.WindowOp))
    return any(step < 0 for op in ops for step in op.dilation)


def _below_windows(way: Sequence[SSAValue]) -> int:
    """Where on the way from a factor inwards that begins of which a product reads windows: behind
    the windows, the zeros around it, and what splits its axes; 1 where it reads none.
    """
    walked = [i for i, value in enumerate(way) if isinstance(value.owner, tiny.WindowOp)]
    walked = [i for i in walked if not _skips(way[i])]
    if not walked or _runs_backwards(way):
        return 1
    axes, number = cast(tiny.WindowOp, way[walked[0]].owner).axes, walked[0] + 1
    while number < len(way):
        match way[number].owner:
            case tiny.PadOp() as pad:
                ends = zip(pad.low, pad.high, strict=True)
                padded = {axis for axis, two in enumerate(ends) if set(two) != {Dim.const(0)}}
                if not padded <= set(axes):
                    break
            case tiny.ReshapeOp() as reshape if _splits(reshape):
                pass
            case _:
                break
        number += 1
    return number


def pixels_first(value: SSAValue) -> tuple[int, ...]:
    """The axes of an image ``[N, C, H, W]`` with its pixels outside and its channels inside."""
    return (0, *range(2, tiny.tensor_of(value).rank), 1)


def _as_they_are(value: SSAValue) -> tuple[int, ...]:
    return tuple(range(tiny.tensor_of(value).rank))


def _splits(op: tiny.ReshapeOp) -> bool:
    """Whether a reshape makes several axes of one, and not one of several, as of planes."""
    made, given = (
        sum(size.constant() != 1 for size in tiny.tensor_of(value).dims)
        for value in (op.result, op.operand)
    )
    return made > given
