"""``index-to-region``: in which order of their axes values lie in memory around products (S11.1).

Around a convolution pixels lie first, or axes as the graph has them; what attention reads has its
features last, and what threads multiply has the axis last along which they are neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import cast

from xdsl.ir import BlockArgument, Operation, SSAValue

from polyc.dialects import index, tiny
from polyc.dialects.common.dim import Dim
from polyc.lowering.index_to_region import cost
from polyc.lowering.index_to_region.attention import Attentions
from polyc.lowering.index_to_region.factors import (
    axes_of,
    factors,
    is_inner,
    is_reshaped_view,
    pixels_first,
)
from polyc.lowering.index_to_region.levels import Level

FEW = 64
"""Multiply-adds with each element of a factor from which on a copy of it costs little beside."""

Turned = Mapping[SSAValue, dict[SSAValue, tuple[int, ...]]]
"""Of products that threads compute, what they read turned, and in which order of its axes."""


@dataclass
class Orders(Attentions):
    """The products of a graph, and the orders of axes around them."""

    as_pixels: frozenset[SSAValue] = frozenset()
    """Values that are images, and lie with their pixels outside."""

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
        pixels = self.levels.get(value, Level.AS_IT_IS) is not Level.AS_IT_IS
        key = ("turned", value, pixels)
        if key not in self.told:
            self.told[key] = self._found_turned(value, pixels)
        return self.told[key]

    def _found_turned(self, value: SSAValue, pixels: bool) -> dict[SSAValue, tuple[int, ...]]:
        """That of a product; ``pixels`` where it has its axes as a convolution stores them."""
        reduce = cast(tiny.ReduceOp, value.owner)
        space = tiny.tensor_of(reduce.operand).dims
        kept = [i for i in range(len(space)) if i not in reduce.axes]
        if pixels:
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
            if is_inner(plain, last) and (stored is None or is_inner(source, stored)):
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
        weights = axes_of(self.weights[first, second]) or set()
        for factor in self._read_by(first, second):
            own = axes_of(factor) or set()
            features = [*(set(summed) if factor in factors(first) else own - weights)]
            value = self._plain(factor)
            if isinstance(value, BlockArgument):
                value = next((v for v in self._way(factor) if self._is_widened(v, value)), value)
            axis = self._axis_below(factor, value, features[0]) if len(features) == 1 else None
            if axis is not None and not is_inner(value, axis):
                rank = tiny.tensor_of(value).rank
                found[value] = (*(i for i in range(rank) if i != axis), axis)
        return found

    def _is_widened(self, value: SSAValue, leaf: SSAValue) -> bool:
        """Whether a value is a leaf in a wider type."""
        return index.is_widening(value) and cast(Operation, value.owner).operands[0] is leaf

    def _moved_ends(self) -> dict[SSAValue, tuple[SSAValue, SSAValue | None]]:
        """Where a product's end is only moved: what is stored in its place, and a view of that.

        Of an attention's what a permutation makes of it, whose features stay innermost, the kernel
        writes as well as the end itself, and a reshape of what is stored is the same memory: heads
        that are merged in the rows of a token are written there.  What else is made of the scores,
        as the log-sum-exp, comes out of the kernel beside the end alone.  Another product's end,
        which a reshape merges once it is permuted, is stored so too, where an axis of its tiles
        stays innermost.  The groups of a convolution's filters are merged, as an implicit GEMM
        writes them, and what a reshape makes of another one's result, as a line of images of one
        row, is a view of it.
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
                if isinstance(user, tiny.ReshapeOp) and is_reshaped_view(user):
                    found[end] = (end, user.result)
            elif level > Level.CORE_SPREAD and (merged := self._merged_rows(value)) is not None:
                found[self._epilogue(value)[0]] = merged
        return found

    def _merged_rows(self, value: SSAValue) -> tuple[SSAValue, SSAValue] | None:
        """What a permutation makes of a product's end, and what a reshape makes of that in the
        same memory, as heads that are merged in the rows of a token; None where nothing does so,
        or an axis would lie innermost that both factors have, or neither.
        """
        end = self._epilogue(value)[0]
        order, stored, user = list(range(tiny.tensor_of(end).rank)), end, self._only_user(end)
        while isinstance(user, tiny.PermuteOp):
            order = [order[axis] for axis in user.perm]
            stored, user = user.result, self._only_user(user.result)
        if stored is end or not isinstance(user, tiny.ReshapeOp) or not is_reshaped_view(user):
            return None
        reduce = cast(tiny.ReduceOp, value.owner)
        if tiny.tensor_of(end).dims != tiny.tensor_of(value).dims:
            return None
        rank = tiny.tensor_of(reduce.operand).rank
        kept = [axis for axis in range(rank) if axis not in reduce.axes]
        owners = [axes_of(factor) for factor in factors(value)]
        if None in owners:
            return None
        last = kept[order[-1]]
        alone = sum(last in cast("set[int]", own) for own in owners) == 1
        return (stored, user.result) if alone else None

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

    def depthwise(self) -> list[SSAValue]:
        """The products of each channel by itself that have channels outside, and pixels inside."""
        return [
            value
            for value, level in self.levels.items()
            if level is Level.AS_IT_IS and self._is_depthwise(value)
            if self._pixels_first(value) not in (None, (0, 1, 2, 3))
        ]

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

    def whole(self) -> list[SSAValue]:
        """Convolutions that are stored with something that follows them, in another order than the
        graph's: what turns them may compute that while it waits for memory.
        """
        return [
            value
            for value, level in self.levels.items()
            if Level.AS_IT_IS < level < Level.BARE and self.follows[value]
            if self._pixels_first(value) not in (None, _as_they_are(value))
        ]

    def bare(self) -> list[SSAValue]:
        """Convolutions that are stored pixels first before all that follows them, which may read
        something that lies as the graph has its axes, as a residual does.
        """
        found: list[SSAValue] = []
        for value, level in self.levels.items():
            if level is Level.BARE and self._is_turned(value) and self.follows[value]:
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
        ends = {self._epilogue(value)[0] for value in self.levels}
        for value, level in self.levels.items():
            if level is Level.AS_IT_IS or self._pixels_first(value) is None:
                continue
            end = self._epilogue(value)[0]
            if self._is_turned(value) and not all(map(self._is_window, self.users.get(end, ()))):
                found[end] = None
            for factor in factors(value):
                source, order = self._order_read(factor)
                if order is None or source in ends or not cost.is_computed(source):
                    continue
                if source not in self.as_given and order != tuple(range(len(order))):
                    found[source] = None
        return list(found)


def _as_they_are(value: SSAValue) -> tuple[int, ...]:
    return tuple(range(tiny.tensor_of(value).rank))
