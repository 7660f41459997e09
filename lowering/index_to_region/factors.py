"""``index-to-region``: what a product's factors are, and how it reads them from memory (S11.1).

Walks over the values of a graph: from a factor through what moves it to what it is read from, and
to what values are made of.  Nothing here depends on what is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from itertools import pairwise
from math import inf, prod
from typing import Any, TypeVar, cast

from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from polyc.cost.tensor_cores import few_products
from polyc.dialects import index, tiny
from polyc.dialects.common.dim import Dim
from polyc.dialects.common.movements import MovementOp
from polyc.dialects.common.views import is_view
from polyc.lowering.index_to_region import cost
from polyc.rewriting.postorder import operands_of, reached

Told = TypeVar("Told")
Of = TypeVar("Of", bound="Factors")


def told_once(method: Callable[[Of, SSAValue], Told]) -> Callable[[Of, SSAValue], Told]:
    """A method that says of a value what depends on the graph alone, whatever is stored: it is
    asked once, and copies of the object share what it said."""
    name = method.__name__

    @wraps(method)
    def told(self: Of, value: SSAValue) -> Told:
        known, key = self.told, (name, value)
        if key not in known:
            known[key] = method(self, value)
        return known[key]

    return told


REPEATED = 16
"""Elements that each of a narrow value becomes, from which on it is repeated where it is read."""


@dataclass
class Factors:
    """The contractions of a graph, and how their factors are read.

    ``same`` are equal values.
    """

    graph: tiny.GraphOp
    same: Mapping[SSAValue, SSAValue]
    ops: list[Operation] = field(init=False)
    """The ops that outputs are made by, in the order of the program, equal casts left out."""
    users: dict[SSAValue, list[Operation]] = field(init=False)
    """Those of them that read each value."""
    contractions: set[SSAValue] = field(init=False)
    """All sums of products, those that are worth no kernel of their own too."""
    behind: dict[SSAValue, Mapping[SSAValue, None]] = field(
        default_factory=dict[SSAValue, Mapping[SSAValue, None]]
    )
    """What values are made of, down to contractions, of those that were asked about."""
    inputs: dict[SSAValue, Sequence[SSAValue]] = field(
        default_factory=dict[SSAValue, Sequence[SSAValue]]
    )
    """What the ops that make values read, of those that were asked about."""
    told: dict[Hashable, Any] = field(default_factory=dict[Hashable, Any])
    """What is known of values whatever is stored."""

    def __post_init__(self) -> None:
        last = self.graph.body.block.last_op
        assert last is not None
        every = (value for op in self.graph.body.block.ops for value in op.results)
        self.contractions = {value for value in every if cost.is_contraction(value)}
        wanted = set(reached(last.operands, operands_of))
        self.ops, self.users = [], {}
        for op in self.graph.body.block.ops:
            if isinstance(op, index.ValueOp) or (op.results and op.results[0] in self.same):
                continue
            if op.results and not wanted.intersection(op.results):
                continue
            self.ops.append(op)
            for operand in dict.fromkeys(self.same.get(o, o) for o in op.operands):
                self.users.setdefault(operand, []).append(op)

    def source(self, value: SSAValue) -> SSAValue:
        """What a value is read from: itself without movements and casts that widen."""
        return self._way(value)[-1]

    @told_once
    def _way(self, value: SSAValue) -> Sequence[SSAValue]:
        """A value, and what each movement and widening cast on the way to its source moves."""
        found: list[SSAValue] = []
        while True:
            value = cost.unmasked(self.same.get(value, value))
            found.append(value)
            op = value.owner
            if not (isinstance(op, MovementOp) or index.is_widening(value)):
                return found
            value = cast(Operation, op).operands[0]

    @told_once
    def _kind(self, value: SSAValue) -> type[Attribute] | None:
        """The type of what the factors of a product are read as, None where they differ."""
        kinds = {type(tiny.tensor_of(self.source(f)).element_type) for f in factors(value)}
        return kinds.pop() if len(kinds) == 1 else None

    def _is_of_tiles(self, value: SSAValue) -> bool:
        """Whether tiles are multiplied of the factors of a product: tensor cores take 16 bits, and
        threads f32."""
        return self._kind(value) in (Float16Type, BFloat16Type, Float32Type)

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

    @told_once
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

    def _has_windows(self, factor: SSAValue) -> bool:
        """Whether a factor is windows of what it is read from, or what is made of them."""
        return any(isinstance(v.owner, tiny.WindowOp) for v in self._way(factor))

    @told_once
    def _is_mixed(self, factor: SSAValue) -> bool:
        """Whether axes of a factor are several of its source that do not lie beside each other
        there, as those of a filter's taps and filters do where channels are between them."""
        way, source = self._way(factor), self.source(factor)
        below = [self.same.get(o := cast(Operation, v.owner).operands[0], o) for v in way[:-1]]
        merges = [
            o for v, o in zip(way, below, strict=False) if isinstance(v.owner, tiny.ReshapeOp)
        ]
        return any(o is not source and not self._lies_so(o, source) for o in merges)

    def _plain(self, factor: SSAValue, repeats: bool = False) -> SSAValue:
        """The outermost value on the way to a factor, which ``repeats`` or does not, as it is read.

        That is one of the source's type: of what is widened, before it is.
        """
        key = ("plain", factor, repeats)
        if key not in self.told:
            self.told[key] = self._found_plain(factor, repeats)
        return self.told[key]

    def _found_plain(self, factor: SSAValue, repeats: bool) -> SSAValue:
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

        A concat of which products read its parts is taken as it lies too where the two inner axes
        change places: a tile has either order of them, and nothing else stores it.
        """
        dims = tiny.tensor_of(source).dims
        turned = len(dims) > 1 and bool(joined(source, self.same))
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
        return wide == sorted(wide) or (
            turned and [*order[:-2], order[-1], order[-2]] == [*range(len(dims))]
        )

    def _read_as(self, value: SSAValue) -> SSAValue:
        """What lies in memory for a value that is only moved: as it is read, but once where it
        repeats, and in the type of its source."""
        *way, source = self._way(value)
        views = tiny.ExpandOp | tiny.CastOp | tiny.ReshapeOp
        if all(isinstance(moved.owner, views) for moved in way):
            return source
        repeats = tiny.ExpandOp | tiny.CastOp
        return next(moved for moved in way if not isinstance(moved.owner, repeats))

    def _merged(self, value: SSAValue) -> SSAValue:
        """What a reshape splits into groups, in the same memory; one that makes planes of an image
        images of its own is read as it lies."""
        op = value.owner
        if not isinstance(op, tiny.ReshapeOp):
            return value
        splits = tiny.tensor_of(value).rank > tiny.tensor_of(op.operand).rank
        return self.same.get(op.operand, op.operand) if splits else value

    @told_once
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

    @told_once
    def _windows_and_filters(self, value: SSAValue) -> tuple[set[int], set[int]] | None:
        """The axes of a product's space that its factor of windows has, and the other one; None
        where not just one is of windows.
        """
        given = factors(value)
        windowed = [self._is_windowed(factor) for factor in given]
        if sum(windowed) != 1 or any(map(self._is_whole, given)):
            return None
        image, filters = (axes_of(f) for f in (given if windowed[0] else given[::-1]))
        return None if image is None or filters is None else (image, filters)

    @told_once
    def _is_windowed(self, factor: SSAValue) -> bool:
        """Whether a factor is windows that slide; not taps that run backwards, as those of a
        transposed convolution's filter."""
        way = list(self._way(factor))
        return any(isinstance(v.owner, tiny.WindowOp) for v in way) and not _runs_backwards(way)

    @told_once
    def _is_whole(self, factor: SSAValue) -> bool:
        """Whether a factor has all points of windows over rows and columns as one axis."""
        way = list(self._way(factor))
        for moved, below in pairwise(way):
            op = below.owner
            if isinstance(moved.owner, tiny.ReshapeOp) and isinstance(op, tiny.WindowOp):
                return len(op.axes) > 1 and not _runs_backwards(way)
        return False

    @told_once
    def _is_in_groups(self, value: SSAValue) -> bool:
        """Whether a product is of windows, and of filters that each see some of the channels."""
        reduce = cast(tiny.ReduceOp, value.owner)
        axes = self._windows_and_filters(value)
        return axes is not None and bool((axes[0] & axes[1]) - set(reduce.axes))

    @told_once
    def _is_depthwise(self, value: SSAValue) -> bool:
        """Whether a product is of windows, and of a filter for each channel, which no tile has."""
        reduce = cast(tiny.ReduceOp, value.owner)
        axes = self._windows_and_filters(value)
        return axes is not None and axes[1] - set(reduce.axes) <= axes[0]

    @told_once
    def _is_of_few_products(self, value: SSAValue) -> bool:
        """Whether a product is of windows, and of so few filters, which stand before the pixels,
        that threads compute it where the windows lie."""
        reduce = cast(tiny.ReduceOp, value.owner)
        axes, dims = self._windows_and_filters(value), tiny.tensor_of(reduce.operand).dims
        if axes is None or not (own := axes[1] - set(reduce.axes) - axes[0]):
            return False
        last = max(axis for axis in range(len(dims)) if axis not in reduce.axes)
        if last in own:
            return False
        filters = [dims[axis].constant() for axis in own]
        depth = [dims[axis].constant() for axis in reduce.axes]
        if None in filters or None in depth:
            return False
        count, each = (prod(cast("list[int]", one)) for one in (filters, depth))
        shared = axes[0] & axes[1] - set(reduce.axes)
        return few_products(count, each, any(dims[axis].constant() != 1 for axis in shared))

    def _is_window(self, op: Operation) -> bool:
        """Whether an op moves a value, and the convolutions that read windows of it alone do."""
        if not op.results or not (isinstance(op, MovementOp) or index.is_widening(op.results[0])):
            return False
        if isinstance(op, tiny.WindowOp):
            return True
        return all(map(self._is_window, self.users.get(op.results[0], ())))

    def _only_user(self, value: SSAValue) -> Operation | None:
        users = self.users.get(value, ())
        return users[0] if len(users) == 1 else None

    def _readers(self, value: SSAValue) -> Iterator[Operation]:
        """The ops that read a value, also behind permutations: an output is written in any order.

        A cast that widens is none if only equal casts read it, as where an output is rounded twice.
        """
        for op in self.users.get(value, ()):
            if isinstance(op, tiny.PermuteOp) or (op.results and index.is_widening(op.results[0])):
                yield from self._readers(op.results[0])
            else:
                yield op

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
        contractions, told = self.contractions, self.inputs

        def operands(one: SSAValue) -> Sequence[SSAValue]:
            if one in contractions and one is not value and one is not through:
                return ()
            read = told.get(one)
            if read is None:
                read = told[one] = self._inputs(one)
            return [o for o in read if o not in stop] if stop else read

        return reached([value], operands)

    def _inputs(self, value: SSAValue) -> Sequence[SSAValue]:
        """What the op that makes a value reads, but for arguments."""
        op = value.owner
        if not isinstance(op, Operation):
            return ()
        read = (self.same.get(o, o) for o in op.operands)
        return tuple(o for o in read if not isinstance(o, BlockArgument))

    def _has(self, value: SSAValue, *kinds: type[Operation]) -> bool:
        """Whether a value is made of ops of some kinds, down to contractions."""
        return any(isinstance(v.owner, kinds) for v in self._behind(value))

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

    def _narrow_parts(self, value: SSAValue, kinds: tuple[type[Operation], ...]) -> list[SSAValue]:
        """What a value is made of that holds ops of some kinds, where elementwise ops repeat each
        of it many times, as a sum of numbers of rows and of columns does: that is done again where
        it is read.  Else what the value itself is made of."""
        op, parts = value.owner, list[SSAValue]()
        if isinstance(op, tiny.UnaryOp | tiny.BinaryOp | tiny.CompareOp | tiny.SelectOp):
            given = [self.source(o) for o in op.operands]
            parts = [o for o in given if self._has(o, *kinds)]
        most = cost.points(tiny.tensor_of(value).dims) / REPEATED
        if parts and all(cost.points(tiny.tensor_of(part).dims) <= most for part in parts):
            return [self._made_of(part) for part in parts]
        return [self._made_of(value)]


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


def axes_of(factor: SSAValue) -> set[int] | None:
    """The axes of a product's space along which a factor does not repeat.

    None where a size is a product of symbols, which has an axis for each of them in the book.
    """
    entry = index.value_op(factor)
    if entry is None or len(entry.axes) != tiny.tensor_of(factor).rank:
        return None
    return {i for i, axis in enumerate(entry.axes) if not axis.repeats}


def repeats(value: SSAValue) -> bool:
    """Whether a value repeats along an axis, as a bias does."""
    entry = index.value_op(value)
    return entry is not None and any(axis.repeats for axis in entry.axes)


def is_inner(value: SSAValue, axis: int) -> bool:
    """Whether the points of an axis are neighbours, where the axes lie in their order."""
    return all(size.constant() == 1 for size in tiny.tensor_of(value).dims[axis + 1 :])


def is_reshaped_view(op: tiny.ReshapeOp) -> bool:
    """Whether what a reshape gives is another view of its operand's memory."""
    return is_view(tiny.tensor_of(op.result).dims, tiny.tensor_of(op.operand).dims)


def _skips(value: SSAValue) -> bool:
    """Whether a value is every so many-th pixel of another one: windows of one tap, with a step."""
    op = value.owner
    if not isinstance(op, tiny.WindowOp) or any(size.constant() != 1 for size in op.size):
        return False
    return any(step != 1 for step in op.stride)


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


def _splits(op: tiny.ReshapeOp) -> bool:
    """Whether a reshape makes several axes of one, and not one of several, as of planes."""
    made, given = (
        sum(size.constant() != 1 for size in tiny.tensor_of(value).dims)
        for value in (op.result, op.operand)
    )
    return made > given


def pixels_first(value: SSAValue) -> tuple[int, ...]:
    """The axes of an image ``[N, C, H, W]`` with its pixels outside and its channels inside."""
    return (0, *range(2, tiny.tensor_of(value).rank), 1)
