"""``frontend-to-tiny``: samples at a grid's coordinates as gathers at computed indices (S3.2).

A coordinate becomes a place, which the padding brings inside or leaves outside, and which is then
near enough to the tensor that an i32 has it; the elements around it are gathered, and summed by
weights.  A gather reads nothing that is not the tensor's, whatever the coordinates are.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import f32, i32
from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.dialects import frontend, tiny
from polyc.dialects.common.dim import Shape
from polyc.dialects.frontend.sampling import AROUND
from polyc.lowering.frontend_to_tiny.builder import Builder, lowered_all, replace
from polyc.lowering.frontend_to_tiny.gathers import as_stored, part_of
from polyc.lowering.frontend_to_tiny.resizing import cubic_weights, linear_weights


class LowerGridSample(RewritePattern):
    """``frontend.grid_sample`` → gathers of the elements around each place, and their weighted sum.

    Axis by axis, the first one outermost.  NaN coordinates make NaN by their weights; the nearest
    element, which has none, is chosen against NaN.  Legal when the operands are lowered.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: frontend.GridSampleOp, rewriter: PatternRewriter, /) -> None:
        values = lowered_all(op.operands)
        if values is None:
            return
        build = Builder.before(op, rewriter)
        shape = frontend.tensor_of(op.result).dims
        # Of all channels alike, and spread to them in the end.
        plane = (shape[0], *shape[2:])
        axes = [_Axis(build, op, values[1], plane, i) for i in range(len(op.sizes))]
        # The padding brings all elements inside, but for the one behind the end of a linear place.
        fill = 0.0 if op.padding == "zeros" or op.mode == "linear" else None
        source = as_stored(values[0], fill)

        def spread(value: SSAValue) -> SSAValue:
            return build.expand(value, [0, *range(2, len(shape))], shape)

        elements = [[spread(index) for index in axis.indices] for axis in axes]
        weights = [[spread(weight) for weight in axis.weights] for axis in axes]

        def found(indices: Sequence[SSAValue]) -> SSAValue:
            """The weighted sum along the axes that have no index yet."""
            axis = len(indices)
            if axis == len(axes):
                where = range(2, 2 + axis)
                return build.cast(build.add(tiny.GatherOp(source, indices, where, fill)), f32)
            total: SSAValue | None = None
            for tap, index in enumerate(elements[axis]):
                term = found([*indices, index])
                if weights[axis]:
                    term = build.binary("mul", term, weights[axis][tap])
                total = term if total is None else build.binary("add", total, term)
            assert total is not None  # there is a tap
            return total

        result = found([])
        if op.mode == "nearest":
            for axis in axes:
                known = spread(build.compare("eq", axis.place, axis.place))
                result = build.select(known, result, build.splat(float("nan"), shape))
        replace(op, result, rewriter)


class _Axis:
    """Where the places of a grid are along one axis: indices of elements, and their weights."""

    def __init__(
        self, build: Builder, op: frontend.GridSampleOp, grid: SSAValue, plane: Shape, axis: int
    ) -> None:
        self.build, self.op, self.plane = build, op, plane
        self.size = op.sizes[axis]
        """The axis's size."""
        self.place = self._bounded(self._place(part_of(build, grid, len(op.sizes) - 1 - axis)))
        """Where each place is, f32."""
        if op.mode == "nearest":
            self.indices = [build.cast(build.unary("round", self.place), i32)]
            self.weights: list[SSAValue] = []
            return
        before = build.unary("floor", self.place)
        rest = build.binary("sub", self.place, before)
        weigh = linear_weights if op.mode == "linear" else cubic_weights
        self.weights = weigh(build, rest, plane)
        first = build.cast(before, i32)
        self.indices = [self._inside(self._moved(first, tap)) for tap in op.taps]

    def _number(self, value: float) -> SSAValue:
        return self.build.splat(value, self.plane)

    def _size(self, more: int) -> SSAValue:
        """The axis's size and ``more``, f32; computed, as it may be below 0."""
        if (known := self.size.constant()) is not None:
            return self._number(float(known + more))
        found = self.build.size(self.size)
        if more:
            found = self.build.binary("add", found, self.build.splat(float(more), ()))
        return self.build.spread(found, self.plane)

    def _place(self, coordinate: SSAValue) -> SSAValue:
        build = self.build
        above = build.binary("add", coordinate, self._number(1.0))
        if self.op.aligned:
            half = build.binary("mul", above, self._number(0.5))
            return build.binary("mul", half, self._size(-1))
        whole = build.binary("mul", above, self._size(0))
        return build.binary("mul", build.binary("sub", whole, self._number(1.0)), self._number(0.5))

    def _clipped(self, place: SSAValue, low: float, high: SSAValue) -> SSAValue:
        """``place``, or the end that is nearer to it; NaN stays."""
        least = self.build.binary("max", place, self._number(low))
        return self.build.binary("min", least, high)

    def _bounded(self, place: SSAValue) -> SSAValue:
        """A place as the padding has it, and so near that its elements are numbers of an i32."""
        around, cubic = AROUND[self.op.mode], self.op.mode == "cubic"
        if self.op.padding == "reflection":
            place = self._reflected(place, once=not cubic)
            if cubic:
                return place
        if self.op.padding == "zeros" or cubic:
            return self._clipped(place, -float(around), self._size(around - 1))
        return self._clipped(place, 0.0, self._size(-1))

    def _reflected(self, place: SSAValue, *, once: bool) -> SSAValue:
        """A place within a period of the reflections, or ``once`` within the axis."""
        build, aligned = self.build, self.op.aligned
        low, less = (0.0, 2) if aligned else (-0.5, 0)
        if (known := self.size.constant()) is not None:
            # One element is its own reflection; of none there is nothing to read.
            one = max(2 * known - less, 1)
            period, part = self._number(float(one)), self._number(1 / one)
        else:
            one = build.size(self.size * 2)
            if less:
                one = build.binary("sub", one, build.splat(float(less), ()))
            one = build.binary("max", one, build.splat(1.0, ()))
            part = build.binary("div", build.splat(1.0, ()), one)
            period, part = (build.spread(x, self.plane) for x in (one, part))
        far = build.binary("sub", place, self._number(low)) if low else place
        # A quotient that is rounded otherwise is another one where two reflections meet, alone.
        times = build.unary("floor", build.binary("mul", far, part))
        far = build.binary("sub", far, build.binary("mul", times, period))
        if once:
            far = build.binary("min", far, build.binary("sub", period, far))
        return build.binary("add", far, self._number(low)) if low else far

    def _moved(self, index: SSAValue, tap: int) -> SSAValue:
        if not tap:
            return index
        return self.build.binary("add", index, self.build.splat(tap, self.plane, i32))

    def _inside(self, index: SSAValue) -> SSAValue:
        """The element that stands at a place which the four around another reach: it is mirrored
        by itself, as its place has only been brought within a period."""
        op, build = self.op, self.build
        if op.mode != "cubic" or op.padding != "reflection":
            return index
        period = build.spread(build.size(self.size * 2, i32), self.plane)
        if op.aligned:
            last = period = build.binary("sub", period, build.splat(2, self.plane, i32))
        else:
            last = build.binary("sub", period, build.splat(1, self.plane, i32))
        index = build.binary("mod", index, period)
        return build.binary("min", index, build.binary("sub", last, index))
