"""``index-to-region``: where a kernel is cut so that its products run on tensor cores (S11.1).

A product inside of a kernel that no family of products takes is computed by loops, a hundred times
slower.  So the values around it are stored, the fewest first, as its level says (``levels.py``).
The classes that ``Products`` is of each know one thing more: how factors are read (``factors.py``),
what follows a product (``epilogues.py``), which two are attention (``attention.py``), and in which
order axes lie (``orders.py``).  Here is how levels rise, and what they settle.

What is stored has its own type: a value that is rounded to f16 anyway is stored as f16.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from copy import copy
from dataclasses import dataclass, field
from math import prod
from typing import cast

from xdsl.ir import BlockArgument, SSAValue

from polyc.dialects import tiny
from polyc.lowering.index_to_region import cost
from polyc.lowering.index_to_region.factors import axes_of, factors, is_reshaped_view
from polyc.lowering.index_to_region.kernels import Kernel, Settled
from polyc.lowering.index_to_region.levels import LAST_TOGETHER, Level
from polyc.lowering.index_to_region.orders import Orders, Turned
from polyc.rewriting.tiny.groups import merged_groups

LEAST = 1_000_000
"""Multiply-adds of a product, sizes that are not known taken as ``cost.TYPICAL``, from which on it
is worth a kernel of its own."""

TILE = 8
"""Rows and columns of the least tile of tensor cores."""

DEEP = 16
"""Terms of a product's sums for each element of its rows from which on these are reduced by another
kernel.  Of 64 columns and 4096 terms a softmax behind takes 2.6 us for 4.7 at one row so, 4.0 for
4.7 at 16, 5.0 for 6.2 at 256 and 7.7 for 8.7 at 1000 (H100)."""

NARROW_ROW = 128
"""Elements of such a row at most: of more, parts of the sums may go through memory."""

MANY_ROWS = 2048
"""Rows, where that is known, up to which this holds."""

FACTOR = "a product {where} reads it from memory"
TURNED = "neighbours of the product that reads it are its neighbours in memory then"
WANTED = "others want it beside an attention, which computes it of its own scores"
GROUPS = "the groups of its norm are rows, which are merged in memory"


@dataclass
class Products(Orders):
    """The products of a graph, and how much around each is stored by now."""

    copied: dict[SSAValue, str] = field(default_factory=dict[SSAValue, str])
    """Products that weigh by a softmax, whose gathered factors lie in memory, and why they do."""
    parted: dict[SSAValue, str] = field(default_factory=dict[SSAValue, str])
    """Products that weigh by a softmax of another one, and why the two are no attention."""
    tried_given: frozenset[SSAValue] = frozenset()
    """Convolutions of which what follows was tried where it lies."""
    groups: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    """What merges the groups of a norm, and what it merges."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for op in self.ops:
            if op.results and (apart := merged_groups(op.results[0])) is not None:
                self.groups[op.results[0]] = apart
        for op in self.ops:
            if op.results and self._is_large(op.results[0]):
                tiles, each = self._is_of_tiles(op.results[0]), self._is_of_each(op.results[0])
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
        for value, level in self.levels.items():
            if level is Level.AS_IT_IS and self._is_gathered_once(value):
                self.given_up[value] = None
        for value in self.rows:
            if self.levels[value] is Level.AS_IT_IS and self._is_deep(value):
                self.levels[value] = Level.ALONE

    def _is_of_each(self, value: SSAValue) -> bool:
        """Whether threads compute a product's elements, each its own, where windows lie."""
        return self._is_depthwise(value) or self._is_of_few_products(value)

    def _is_gathered_once(self, value: SSAValue) -> bool:
        """Whether a product reads each element of a factor once that is gathered, as a token does
        its own expert's weights: as tiles read it, it would be stored and read again for that."""
        space = tiny.tensor_of(cast(tiny.ReduceOp, value.owner).operand).dims
        every = [axes_of(factor) for factor in factors(value)]
        one, other = (found or set[int]() for found in every)
        for factor, more in zip(factors(value), (other - one, one - other), strict=True):
            if isinstance(self.source(factor).owner, tiny.GatherOp) and None not in every:
                return all(space[axis].constant() == 1 for axis in more)
        return False

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

    def _is_large(self, value: SSAValue) -> bool:
        """Whether a value is a product that is worth a kernel of its own."""
        if value not in self.contractions:
            return False
        return cost.points(tiny.tensor_of(cast(tiny.ReduceOp, value.owner).operand).dims) > LEAST

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
                elif level in (Level.AS_IT_IS, *LAST_TOGETHER):
                    self.levels[value] = Level.ROWS if value in self.rows else Level.ALONE
                elif self._is_tried_beside(value):
                    continue
                elif level is Level.ROWS and self._windows_and_filters(value) is None:
                    self.levels[value] = Level.ALONE
                else:
                    self.levels[value] = Level(level + 1)
        return changed

    def _is_tried_beside(self, value: SSAValue) -> bool:
        """Whether a product at its level may run well with something else stored, which is now."""
        match self.levels[value]:
            case Level.ALONE:
                return self._joins(value)
            case Level.PLAIN:
                return self._lies_as_given(value)
            case _:
                return False

    def _joins(self, value: SSAValue) -> bool:
        """Whether one concat that both factors are is joined in memory from now on, and was not:
        each of them would be, as it is read."""
        left, right = factors(value)
        same = self.source(left) is self.source(right)
        if value in self.joining or not same or not self._parts_read(left):
            return False
        self.joining |= {value}
        return True

    def _lies_as_given(self, value: SSAValue) -> bool:
        """Whether what follows a convolution lies as the graph has its axes from now on, which was
        not tried: an image's own numbers of each filter may be read then.  Once tried, no more."""
        end = self._epilogue(value)[0]
        if value in self.tried_given:
            self.as_given -= {end}
            return False
        self.tried_given |= {value}
        if not self._is_turned(value) or not self.follows[value]:
            return False
        self.as_given |= {end}
        return True

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
        # A norm of groups is one of rows where they are apart; merged they are the same memory.
        # What an attention makes of its scores it has as the graph does.
        for merged, apart in () if scores else self.groups.items():
            if merged not in orders and apart not in orders:
                cuts.setdefault(apart, GROUPS)
                cuts.pop(merged, None)
                views.append(merged)
        for one in scores:
            for value in one.stored:
                cuts.setdefault(value, WANTED)
        return Settled(cuts, self._kept(), orders, self._beside(), views, scores)

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

    def plain(self, *values: SSAValue) -> Products:
        """The same with products that read copies in their own order; what is of each channel by
        itself has its pixels outside then.
        """
        other = self._copied()
        other.levels.update(dict.fromkeys(values, Level.PLAIN))
        return other

    def lone(self, value: SSAValue) -> Products:
        """The same with a product that is stored before all that follows it."""
        other = self._copied()
        other.stored_alone = self.stored_alone | {value}
        return other

    def by_threads(self) -> list[SSAValue]:
        """The products of windows of each channel by itself, or of few filters, as they are."""
        return [
            value
            for value, level in self.levels.items()
            if level is Level.AS_IT_IS and self._is_of_each(value)
        ]

    def ending(self, *values: SSAValue) -> Products:
        """The same with products that threads compute where they lie, and whose ends are stored."""
        other = self._copied()
        other.ended = self.ended.union(values)
        return other

    def plain_as_given(self, value: SSAValue) -> Products:
        """The same, and what follows the product lies as the graph has its axes."""
        other = self.plain(value)
        return other.given(other._epilogue(value)[0])

    def _copied(self) -> Products:
        other = copy(self)
        other.levels, other.given_up = dict(self.levels), dict(self.given_up)
        other.parted, other.copied = dict(self.parted), dict(self.copied)
        other.gathering = dict(self.gathering)
        return other

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
                if level >= Level.PLAIN or level in (Level.PAIR_PLAIN, Level.ROWS_PLAIN):
                    spread = level is Level.SPREAD
                    read = (f for f in factors(value) if spread or self.source(f) not in orders)
                    if value in self.given_up:
                        read = (f for f in read if self._plain(f) not in turned[value])
                    plain = (self._plain(f, spread) for f in read)
                    if not spread and self._is_in_groups(value):
                        plain = map(self._merged, plain)
                    self._store(found, plain, FACTOR, value, plain=True)
                else:
                    # What no product reads where it lies is stored before what one may.
                    beside = not any(map(self._has_windows, factors(value)))
                    mixed = (self._plain(f) for f in factors(value) if beside and self._is_mixed(f))
                    self._store(found, mixed, FACTOR, value, plain=True)
                if value not in first:
                    self._end(found, value)
        for value, level in self.levels.items():
            if value in self.ended and level is Level.AS_IT_IS:
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

    def _last(self, value: SSAValue) -> Level:
        """The level after which a product is given up.

        Where a factor repeats, what repeats is stored if either side is wide enough for a tile.
        """
        gone = cast(tiny.ReduceOp, value.owner).axes
        sizes = tiny.tensor_of(cast(tiny.ReduceOp, value.owner).operand).dims
        axes = [axes_of(f) for f in factors(value)]
        if None in axes:
            return Level.BARE
        one, other = (cast("set[int]", a).difference(gone) for a in axes)
        wide = all(cost.points(sizes[i] for i in a) >= TILE for a in (one - other, other - one))
        return Level.SPREAD if wide else Level.BARE


def _reduced(value: SSAValue) -> bool:
    return isinstance(value.owner, tiny.ReduceOp)


def _is_input_reshaped(value: SSAValue) -> bool:
    """Whether a value is a view of the memory of an input of the graph."""
    op = value.owner
    return (
        isinstance(op, tiny.ReshapeOp)
        and isinstance(op.operand, BlockArgument)
        and is_reshaped_view(op)
    )
