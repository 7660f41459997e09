"""A region with a scatter: the tensor that it updates, its updates, and what follows (S8).

A region of this family has one ``region.scatter`` and no reduction; what updates and indices are
made of, and what is made of the result, is computed element by element.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import cast

from xdsl.dialects.builtin import f32, i1, i32
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineExpr

from polyc.affine.expressions import linear_of
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.common.dim import Assumption, Dim
from polyc.dialects.common.elements import bounds, is_integer, width, without_sign
from polyc.dialects.gpu.types import element_bytes
from polyc.dialects.region import (
    BroadcastInDimOp,
    CastOp,
    IndexOp,
    KernelOp,
    ReadOp,
    ReduceOp,
    ReduceTogetherOp,
    ScatterOp,
)
from polyc.dialects.region.magnitudes import EXACT, integer_up_to, whole_up_to
from polyc.dialects.region.types import AxisAttr, ValType
from polyc.families.facts import holds_always

SHORT = 128
"""Points of an innermost axis up to which threads have it whole, and go through its updates."""


@dataclass(frozen=True)
class Placed:
    """An index of an update, and the axis of the result on which it says a place."""

    index: SSAValue
    place: SSAValue
    axis: AxisAttr


@dataclass(frozen=True)
class Lists:
    """What says to which places of the result an update falls, so that each has a list of its own.

    ``placed``  the indices, the outermost axis first: all of them together say one place
    ``batch``   the other axes that they depend on, each point of which has lists of its own
    """

    placed: tuple[Placed, ...]
    batch: tuple[AxisAttr, ...]

    @property
    def labels(self) -> set[str]:
        """The axes whose points have a list each."""
        return {axis.label for axis in (*self.batch, *(one.axis for one in self.placed))}


@dataclass(frozen=True)
class Scatters:
    """A region with a scatter."""

    kernel: KernelOp
    scatter: ScatterOp

    @property
    def axes(self) -> tuple[AxisAttr, ...]:
        """The axes of its outputs, outermost first."""
        return tuple(self.kernel.iters)

    @property
    def column(self) -> AxisAttr | None:
        """The axis of a tile's columns: the innermost, unless an update falls to a place of it."""
        last = self.axes[-1] if self.axes else None
        return None if last is not None and last.label == self.single else last

    @property
    def row(self) -> AxisAttr | None:
        """The axis of a tile's rows: that of which an update falls to one row, or the innermost one
        whose place an index is compared with, or any outside of the columns.
        """
        if self.single is not None:
            return next(axis for axis in self.axes if axis.label == self.single)
        inner = [axis for axis in self.axes[:-1] if axis.label in self.placed]
        return (inner or list(self.axes[:-1]) or [None])[-1]

    @property
    def outer(self) -> tuple[AxisAttr, ...]:
        """The other axes."""
        return tuple(axis for axis in self.axes if axis not in (self.row, self.column))

    @property
    def placed(self) -> set[str]:
        """The axes whose places indices are compared with."""
        return {a for place in self.scatter.places for a in cast(ValType, place.type).labels}

    @cached_property
    def single(self) -> str | None:
        """The axis of which an update falls to one place, whatever the innermost other axis: its
        index is the same along both, and is compared with the place on the axis.  A short innermost
        one is none: a tile has many of its lines.
        """
        if len(self.scatter.indices) != 1 or len(self.scatter.labels) != 1:
            return None
        ((index, place),) = self.scatter.pairs
        own, there = (cast(ValType, v.type).labels for v in (index, place))
        if len(there) != 1 or there[0] in own:
            return None
        others = [axis.label for axis in self.axes if axis.label != there[0]]
        innermost, size = self.axes[-1].label, self.axes[-1].size.constant()
        if innermost == there[0] and others and size is not None and size <= SHORT:
            return None
        if innermost != there[0] and others and others[-1] in own:
            return None
        return there[0] if _is_plain(place) else None

    @cached_property
    def lists(self) -> Lists | None:
        """How the updates of a place are found, where each index says a place on an axis of its
        own that no index depends on."""
        found: dict[str, Placed] = {}
        others: set[str] = set()
        for index, place in self.scatter.pairs:
            own, there = (cast(ValType, v.type).labels for v in (index, place))
            if len(there) != 1 or there[0] in found or not _is_plain(place):
                return None
            axis = next(axis for axis in self.axes if axis.label == there[0])
            found[axis.label] = Placed(index, place, axis)
            others |= set(own) - set(self.scatter.labels)
        if others & set(found):
            return None
        inside = {axis.label for axis in self.axes}
        if not others <= inside:
            return None
        return Lists(
            tuple(found[axis.label] for axis in self.axes if axis.label in found),
            tuple(axis for axis in self.axes if axis.label in others),
        )

    @property
    def lone(self) -> set[str]:
        """The axes of the result on which updates depend and no list does."""
        own = set(cast(ValType, self.scatter.updates.type).labels)
        batch = () if self.lists is None else (axis.label for axis in self.lists.batch)
        return own - set(self.scatter.labels) - set(batch)

    @cached_property
    def each(self) -> Lists | None:
        """The same of elements, each with updates of its own: all axes but those of places are
        ones that these depend on.  None where the innermost axis is one that no index depends on,
        along which updates are read together, or updates are the same along an axis."""
        found = self.lists
        if found is None or self.axes[-1].label in self.lone:
            return None
        placed = [one.axis for one in found.placed]
        batch = tuple(axis for axis in self.axes if axis not in placed)
        if not {axis.label for axis in batch} <= self.lone | {a.label for a in found.batch}:
            return None
        return Lists(found.placed, batch)

    @property
    def key(self) -> str | None:
        """The function by which atomics find what all updates of an element make of it, whatever
        their order: the sum of integers, which wraps, or, of extremes, the largest number without a
        sign that stands for an update.  None of other functions."""
        fn, element = self.scatter.fn.data, self.scatter.result.type.element_type
        whole = is_integer(element) and element != i1
        if not whole and element != f32:
            return None
        if fn in ("max", "min"):
            return "umax"
        return "add" if fn == "add" and (whole or self.counts) else None

    @cached_property
    def counts(self) -> bool:
        """Whether sums of real numbers are of integers, and so few that f32 has each sum that there
        may be: then no order rounds any."""
        start, added = (whole_up_to(v) for v in (self.scatter.operand, self.scatter.updates))
        if self.scatter.fn.data != "add" or start is None or added is None:
            return False
        return self._comes_to(added, EXACT - start)

    @cached_property
    def is_narrow(self) -> bool:
        """Whether sums of integers of 64 bits are of numbers so small, and so few, that 32 bits
        have what updates of a place make together, as where places are counted."""
        element = self.scatter.result.type.element_type
        if self.scatter.fn.data != "add" or not is_integer(element) or width(element) <= 32:
            return False
        added = integer_up_to(self.scatter.updates)
        return added is not None and self._comes_to(added, bounds(i32)[1])

    def _comes_to(self, added: int, most: int) -> bool:
        """Whether as many updates as there are, of so much each, come to a number at most."""
        count = prod((size for _, size in self.over), start=Dim.const(1))
        fact = Assumption(Dim.const(most) - count * added, ">=")
        return holds_always(fact, self.kernel.assumptions, self.kernel.symbol_names)

    @property
    def plain(self) -> bool:
        """Whether the tensor and its updates are read and the result stored, with nothing made of
        any but in another type, of 32 bits at most."""

        def source(value: SSAValue) -> SSAValue:
            while isinstance(op := value.owner, CastOp | BroadcastInDimOp):
                value = op.operand
            return value

        ends = map(source, self.kernel.yield_op.values)
        starts = (source(value).owner for value in (self.scatter.operand, self.scatter.updates))
        return (
            all(value is self.scatter.result for value in ends)
            and all(isinstance(op, ReadOp) and op.guard is None for op in starts)
            and element_bytes(without_sign(self.scatter.result.type.element_type)) <= 4
        )

    @property
    def over(self) -> list[tuple[str, Dim]]:
        """The axes of the updates that are gone through, with their sizes, outermost first."""
        found: list[tuple[str, Dim]] = []
        for label in self.scatter.labels:
            kinds = [cast(ValType, v.type) for v in (self.scatter.updates, *self.scatter.indices)]
            axis = next(a for a in (kind.axis(label) for kind in kinds) if a is not None)
            found.append((label, axis.size))
        return found

    @property
    def beside(self) -> list[Attribute]:
        """The types of the tensors whose lines lie along the columns' axis."""
        column = self.column
        tensors = [t for t in self.kernel.seen if t.shape and column is not None]
        return [t.element_type for t in tensors if column and t.shape[-1] == column.size]

    @property
    def lengths(self) -> list[Dim]:
        """The size of the columns' axis, and those of the lines of all tensors along it."""
        column = self.column
        if column is None:
            return []
        lines = [t.shape[-1] for t in self.kernel.seen if t.shape and t.shape[-1] == column.size]
        return list(dict.fromkeys([column.size, *lines]))


def _is_plain(place: SSAValue) -> bool:
    """Whether a place is the point on its axis, from a size on."""
    assert isinstance(place.owner, IndexOp)
    rest = linear_of(place.owner.expr - AffineExpr.dimension(0))
    return all(isinstance(atom, tuple) and atom[0] == "s" for atom, _ in rest.terms)


def find_scatters(kernel: KernelOp) -> Scatters:
    """The scatter of a region; raises PolycError ``UnsupportedProgram`` with the reason."""
    found = [op for op in kernel.walk() if isinstance(op, ScatterOp)]

    def refused(why: str) -> PolycError:
        name = kernel.sym_name.data
        text = f"region @{name} is not one of scatters: {why}; they have one region.scatter"
        return PolycError("UnsupportedProgram", text, kernel).located(kernel)

    if len(found) != 1:
        raise refused(f"it has {len(found)}")
    (scatter,) = found
    for op in kernel.walk():
        if isinstance(op, ReduceOp | ReduceTogetherOp):
            raise refused(f"it reduces over [{', '.join(op.labels)}] too")
    if not all(isinstance(place.owner, IndexOp) for place in scatter.places):
        raise refused("a place is no expression of its axes")
    for value in kernel.yield_op.values:
        labels = cast(ValType, value.type).labels
        if set(labels) != {axis.label for axis in kernel.iters}:
            raise refused("an output is not over all axes of the region")
    return Scatters(kernel, scatter)
