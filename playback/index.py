"""NumPy semantics of the index book: its own maps, domains and fills are evaluated (S4, S6.9).

A value is computed from its entry: in each piece of the domain the operands are read through
the piece's maps, or are the piece's fill, the op's function is applied, and the reduced axes are
reduced.  What a movement does is never asked of its op, so a wrong map, guard, fill or domain
gives wrong numbers, or a point outside a tensor, in no piece or in two, which is refused.

A value is held with an axis of size 1 wherever it repeats, and is read at arrays of coordinates
that broadcast, so the [M, K, N] of a matrix product does not exist before its sum, and does not
there either: a product that only sums read, and a mask or select that only such products read,
are evaluated where the sum asks for them.  A ``non_scop`` value has no maps: it is a boundary,
where the operand is in memory, and its op is played back on that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np
from xdsl.dialects.builtin import AffineSetAttr
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineMap

from polyc.dialects import index, tiny
from polyc.dialects.common.diagnostic import fail
from polyc.dialects.common.movements import MovementOp
from polyc.dialects.common.precision import coarser
from polyc.dialects.index import PieceAttr, ValueOp
from polyc.playback import functions, gathers, views
from polyc.playback import tiny as tiny_playback
from polyc.playback.agreement import Mismatch, tolerance_check
from polyc.playback.estimate import products_of
from polyc.playback.functions import Array, dtype_of
from polyc.playback.signature import bind, sizes, value_sizes

PART = 1 << 22
"""Points at which a sum evaluates its operand at once."""


def run(graph: tiny.GraphOp, inputs: Sequence[Array], symbols: Mapping[str, int]) -> list[Array]:
    """The outputs of ``graph`` by its book, each in its stored type.

    Raises PolycError: ``BadArgument`` for arguments that do not fit, ``UnguardedAccess`` for
    a map that leaves its operand, ``InvalidIR`` for a value with no entry and for a point that
    is not in exactly one piece.
    """
    play = Player.of(graph, inputs, symbols)
    ops = [op for op in graph.body.block.ops if op.results]
    play.asked |= tiny_playback.asked_for(graph)
    outputs = graph.body.block.last_op
    assert isinstance(outputs, tiny.OutputOp), "a verified graph ends in tiny.output"
    last = _last_readers(graph, play.asked)
    for op in ops:
        if op.results[0] not in play.asked:
            play.compute(op.results[0])
        for value in last.get(op, ()):
            play.held.pop(value, None)
    return [np.array(play.whole(o), order="C") for o in outputs.operands]


def _last_readers(
    graph: tiny.GraphOp, asked: Collection[SSAValue]
) -> dict[Operation, list[SSAValue]]:
    """After each op, the values that nothing further reads; the outputs are not among them."""
    ops = list(graph.body.block.ops)
    until: dict[SSAValue, int] = {}
    for position in reversed(range(len(ops))):
        op = ops[position]
        if not op.results and not isinstance(op, tiny.OutputOp):
            continue
        if op.results and op.results[0] in asked:
            # It is evaluated where its own last reader is.
            position = until.get(op.results[0], position)
        for value in op.operands:
            until[value] = max(position, until.get(value, position))
    found: dict[Operation, list[SSAValue]] = {}
    for value, position in until.items():
        found.setdefault(ops[position], []).append(value)
    return found


def every_value(
    graph: tiny.GraphOp, inputs: Sequence[Array], symbols: Mapping[str, int]
) -> Iterator[tuple[SSAValue, Array]]:
    """Each value of ``graph`` by its book, in the order of the text, whole."""
    play = Player.of(graph, inputs, symbols)
    for op in graph.body.block.ops:
        if op.results:
            play.compute(op.results[0])
            yield op.results[0], play.whole(op.results[0])


def first_difference(
    graph: tiny.GraphOp, inputs: Sequence[Array], symbols: Mapping[str, int]
) -> tuple[SSAValue, Mismatch] | None:
    """The first value that the book does not compute as its op does, from equal operands.

    It says which entry is wrong where a whole graph disagrees with its reference.
    """
    play = Player.of(graph, inputs, symbols)
    for op in graph.body.block.ops:
        if not op.results or not play.entry(op.results[0]).is_scop:
            continue
        value = op.results[0]
        play.compute(value)
        wanted = tiny_playback.evaluate(op, [play.whole(o) for o in op.operands], symbols)
        found, kind = play.whole(value), tiny.tensor_of(value).element_type
        wrong = tolerance_check(found, np.broadcast_to(wanted, found.shape), kind)
        if wrong is not None:
            return value, wrong
    return None


@dataclass
class Player:
    """The values of one graph computed so far.

    ``held`` has a value over the axes of its entry, with size 1 where it repeats.
    """

    graph: tiny.GraphOp
    symbols: Mapping[str, int]
    book: Mapping[SSAValue, ValueOp]
    held: dict[SSAValue, Array] = field(default_factory=dict[SSAValue, Array])
    asked: set[SSAValue] = field(default_factory=set[SSAValue])

    @staticmethod
    def of(graph: tiny.GraphOp, inputs: Sequence[Array], symbols: Mapping[str, int]) -> Player:
        arrays = bind(graph, inputs, symbols)
        held: dict[SSAValue, Array] = dict(zip(graph.body.block.args, arrays, strict=True))
        return Player(graph, symbols, index.book(graph), held)

    def extents(self, value: SSAValue) -> tuple[int, ...]:
        """The sizes of the axes that the entry of ``value`` has."""
        return sizes(tuple(a.dim for a in self.entry(value).axes), self.symbols)

    def entry(self, value: SSAValue) -> ValueOp:
        found = self.book.get(value)
        if found is None:
            name = value.name_hint or "?"
            fail("InvalidIR", f"%{name} has no index.value; run tiny-to-index", self.graph)
        return found

    @property
    def symbol_values(self) -> list[int]:
        return [self.symbols[s] for s in self.graph.symbol_names]

    # Whole values

    def whole(self, value: SSAValue) -> Array:
        """All of ``value``, in the shape of its type."""
        spread = np.broadcast_to(self.held[value], self.extents(value))
        return spread.reshape(value_sizes(tiny.tensor_of(value), self.symbols))

    def compute(self, value: SSAValue) -> None:
        """Evaluate ``value`` from its entry and hold it."""
        entry, op = self.entry(value), value.owner
        assert isinstance(op, Operation), "arguments are held from the start"
        extents = self.extents(value)
        if not entry.is_scop or not op.operands or isinstance(op, tiny.ScatterOp):
            # What a scatter's updates are of is data: it is played back on all of them.
            args = [self.whole(o) for o in op.operands]
            self.held[value] = tiny_playback.evaluate(op, args, self.symbols).reshape(extents)
            return
        boxes = self._boxes(op, entry, extents)
        if len(boxes) == 1:
            self.held[value] = self._box(value, boxes[0])
            return
        whole = np.empty(extents, dtype_of(tiny.tensor_of(value).element_type))
        for where in boxes:
            whole[where] = self._box(value, where)
        self.held[value] = whole

    def _box(self, value: SSAValue, where: Sequence[slice]) -> Array:
        """The part ``where`` of a value, with an axis of size 1 where it repeats."""
        some = np.asarray(all(range_.start < range_.stop for range_ in where))
        found = self.evaluate(value, views.grid(where), some)
        return found if found.ndim else found.reshape((1,) * len(where))

    def _boxes(
        self, op: Operation, entry: ValueOp, extents: tuple[int, ...]
    ) -> list[tuple[slice, ...]]:
        """The whole box; parts of it for a sum that would evaluate much at once."""
        factors = self._factors(op)
        everything = (*extents, *self._gone(entry))
        lead = 0
        if any(f in self.asked for f in factors):
            while lead < len(extents) and prod(everything[lead:]) > PART:
                lead += 1
        rest = views.whole(extents[lead:])
        return [(*(slice(i, i + 1) for i in at), *rest) for at in np.ndindex(*extents[:lead])] or [
            views.whole(extents)
        ]

    # Values at coordinates

    def at(
        self, value: SSAValue, coords: Sequence[Array], inside: Array, reader: Operation
    ) -> Array:
        """``value`` at coordinates of its axes, which count where ``inside`` holds."""
        if value not in self.held:
            return self.evaluate(value, coords, inside)
        array, places = self.held[value], list[Array]()
        for axis, (c, extent) in enumerate(zip(coords, self.extents(value), strict=True)):
            beyond = inside & ((c < 0) | (c >= extent))
            if beyond.any():
                worst = int(np.broadcast_to(c, beyond.shape)[beyond][0])
                fail(
                    "UnguardedAccess",
                    f"%{value.name_hint or '?'} is read at {worst} along axis i{axis}, which has "
                    f"{extent} elements; guard the map by a piece with a fill, or correct it",
                    reader,
                )
            if not extent and c.size:
                return np.zeros((), array.dtype)
            once = array.shape[axis] == 1 and extent != 1
            places.append(np.zeros((), np.int64) if once else np.clip(c, 0, extent - 1))
        return np.asarray(array[tuple(places)])

    def evaluate(self, value: SSAValue, coords: Sequence[Array], inside: Array) -> Array:
        """``value`` from its operands at coordinates of its axes, by its pieces."""
        entry, op = self.entry(value), value.owner
        assert isinstance(op, Operation)
        pieces = entry.pieces.data
        if len(pieces) == 1 and pieces[0].is_box:
            return self._piece(op, entry, pieces[0], coords, inside)
        result, count = np.zeros((), dtype_of(tiny.tensor_of(value).element_type)), np.asarray(0)
        for piece in pieces:
            here = inside
            if isinstance(piece.domain, AffineSetAttr):
                here = inside & views.holds_at(piece.domain.data, coords, self.symbol_values)
            count = count + here
            if here.any():
                result = np.where(here, self._piece(op, entry, piece, coords, here), result)
        if (inside & (count != 1)).any():
            few = "no piece" if (inside & (count < 1)).any() else "two pieces"
            fail(
                "InvalidIR",
                f"a point of %{value.name_hint or '?'} is in {few} of its domain; pieces are "
                "disjoint and cover the box of the axes",
                entry,
            )
        return result

    def _piece(
        self, op: Operation, entry: ValueOp, piece: PieceAttr, coords: Sequence[Array], here: Array
    ) -> Array:
        if isinstance(op, tiny.ReduceOp):
            return self._reduced(op, entry, piece, coords, here)
        if isinstance(op, tiny.GatherOp):
            return self._gathered(op, entry, piece, coords, here)
        if isinstance(op, tiny.SortOp):
            return self._sorted(op, entry, piece, coords, here)
        if isinstance(op, tiny.ScanOp):
            return self._scanned(op, entry, piece, coords, here)
        args = self._args(op, piece, coords, here)
        return args[0] if isinstance(op, MovementOp) else self._function(op, args)

    def _function(self, op: Operation, args: Sequence[Array]) -> Array:
        return tiny_playback.evaluate(op, args, self.symbols)

    def _args(
        self,
        op: Operation,
        piece: PieceAttr,
        coords: Sequence[Array],
        here: Array,
        first: int = 0,
    ) -> list[Array]:
        """The operands of ``op`` from the ``first`` on through a piece's maps, or its fills."""
        args: list[Array] = []
        for operand, entry in zip(op.operands[first:], piece.entries[first:], strict=True):
            if isinstance(entry, AffineMap):
                places = [views.affine_value(e, coords, self.symbol_values) for e in entry.results]
                args.append(self.at(operand, places, here, op))
            else:
                args.append(np.asarray(entry, dtype_of(tiny.tensor_of(operand).element_type)))
        return args

    def _gathered(
        self,
        op: tiny.GatherOp,
        entry: ValueOp,
        piece: PieceAttr,
        coords: Sequence[Array],
        here: Array,
    ) -> Array:
        """A gather at coordinates: its operand's map has its indices for the axes they are of."""
        inner = [*coords, *(np.zeros((), np.int64) for _ in entry.reduced)]
        read, *_ = piece.entries
        assert isinstance(read, AffineMap)
        indices = self._args(op, piece, inner, here, first=1)
        extents = self._gone(entry)
        element = tiny.tensor_of(op.result).element_type
        if 0 in extents:
            number = 0 if op.number is None else op.number
            return functions.number(number, element)
        inside, known = here, list[Array]()
        for place, extent in zip(indices, extents, strict=True):
            inside = inside & gathers.are_inside(place, extent)
            known.append(gathers.nearest(place, extent))
        wide = [*coords, *known]
        places = [views.affine_value(e, wide, self.symbol_values) for e in read.results]
        found = self.at(op.operand, places, here, op)
        return gathers.settled(found, indices, inside | ~here, op.number, element)

    # Reductions

    def _gone(self, entry: ValueOp) -> tuple[int, ...]:
        """The sizes of the reduced axes."""
        return sizes(tuple(a.dim for a in entry.reduced), self.symbols)

    def _factors(self, op: Operation) -> tuple[SSAValue, ...]:
        """The factors of the product that ``op`` sums, where it is not held."""
        product = op.operands[0]
        summed = isinstance(op, tiny.ReduceOp) and product in self.asked
        if summed and isinstance(product.owner, tiny.BinaryOp):
            return tuple(product.owner.operands)
        return ()

    def _reduced(
        self,
        op: tiny.ReduceOp,
        entry: ValueOp,
        piece: PieceAttr,
        coords: Sequence[Array],
        here: Array,
    ) -> Array:
        gone = self._gone(entry)
        rank = len(coords)
        later = (None,) * len(gone)
        wide = [c[(..., *later)] for c in coords]
        wide += [c.reshape((1,) * rank + c.shape) for c in views.grid(views.whole(gone))]
        here = (here[(..., *later)] if here.ndim else here) & (0 not in gone)
        axes = tuple(range(rank, rank + len(gone)))

        def spread(array: Array, kept: tuple[int, ...]) -> Array:
            return np.broadcast_to(array, (*kept, *gone))

        if self._factors(op):
            arrays = self._product(op.operand, piece, wide, here)
            kept = np.broadcast_shapes(*(kept_shape(a, rank) for a in arrays))
            x, y = (spread(a, kept) for a in arrays)
            with products_of(coarser(op.precision)):
                return tiny_playback.sum_of_product(x, y, axes)
        (array,) = self._args(op, piece, wide, here)
        with products_of(coarser(op.precision)):
            return functions.reduce(op.function, spread(array, kept_shape(array, rank)), axes)

    def _sorted(
        self,
        op: tiny.SortOp,
        entry: ValueOp,
        piece: PieceAttr,
        coords: Sequence[Array],
        here: Array,
    ) -> Array:
        """What stands at a place of the sorted axis, of all that the maps read for it."""
        (size,) = self._gone(entry)
        rank = len(coords)
        wide = [*(c[..., None] for c in coords), np.arange(size).reshape((1,) * rank + (size,))]
        (array,) = self._args(
            op, piece, wide, (here[..., None] if here.ndim else here) & (size > 0)
        )
        places = coords[entry.axes.data.index(entry.by_dimension[op.axis][0])][..., None]
        shape = np.broadcast_shapes(array.shape[:-1], places.shape[:-1])
        row = functions.sort(np.broadcast_to(array, (*shape, size)), rank, size)
        inside = np.clip(places, 0, max(size - 1, 0))
        return np.take_along_axis(row, np.broadcast_to(inside, (*shape, 1)), rank)[..., 0]

    def _scanned(
        self,
        op: tiny.ScanOp,
        entry: ValueOp,
        piece: PieceAttr,
        coords: Sequence[Array],
        here: Array,
    ) -> Array:
        """A scan of the places of its axis as the map reads them; it is asked for all of them."""
        (size,) = self._gone(entry)
        axis = sum(entry.counts[: op.axis])
        (array,) = self._args(op, piece, [*coords, coords[axis]], here)
        whole = [1] * len(coords)
        whole[axis] = size
        shape = np.broadcast_shapes(array.shape, tuple(whole))
        return functions.scan(
            op.function,
            np.broadcast_to(array, shape),
            axis,
            reverse=op.is_reverse,
            exclusive=op.is_exclusive,
        )

    def _product(
        self, product: SSAValue, piece: PieceAttr, coords: Sequence[Array], here: Array
    ) -> list[Array]:
        """The factors of ``product`` as the sum reads it in ``piece``."""
        (read,) = piece.entries
        assert isinstance(read, AffineMap) and isinstance(product.owner, Operation)
        places = [views.affine_value(e, coords, self.symbol_values) for e in read.results]
        (factors,) = self.entry(product).pieces.data
        return self._args(product.owner, factors, places, here)


def kept_shape(array: Array, rank: int) -> tuple[int, ...]:
    """The first ``rank`` sizes of an array at coordinates; 1 each where it has one value."""
    return array.shape[:rank] if array.ndim else (1,) * rank
