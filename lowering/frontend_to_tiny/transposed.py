"""``frontend-to-tiny``: transposed convolutions as convolutions of each phase (S3.2).

Elements of the result whose places have the same remainder by the stride, a *phase*, read the image
with the same taps, every so many: a convolution whose filter runs backwards.  Neighbouring phases
with as many taps are filters of one convolution, whose results are put between each other.  So no
zero between elements is multiplied.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import (
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)

from polyc.dialects import frontend, tiny
from polyc.dialects.common.dim import Dim, Shape
from polyc.dialects.common.sizes import divided
from polyc.dialects.common.sizes import product as multiplied
from polyc.lowering.frontend_to_tiny.builder import Builder, lowered_all, replace
from polyc.lowering.frontend_to_tiny.convolution_parts import Convolution
from polyc.lowering.frontend_to_tiny.convolutions import over_axes


@dataclass(frozen=True)
class Phases:
    """Neighbouring phases of an axis, from ``first`` on, that read with as many taps.

    Phase ``first + j`` has the taps ``tap + j + step * t``, for ``t`` from 0 up to ``taps``, and
    its element ``q`` reads the image at ``q - shift - spread * t``.
    """

    first: int
    count: int
    tap: int
    step: int
    taps: int
    shift: int
    spread: int


@dataclass(frozen=True)
class Side:
    """An axis of a transposed convolution.

    Elements ``stride * (start + q) + phase - low`` of the result are computed, for ``q`` from 0 up
    to the image's size and ``more``; the result begins at the one number ``cut`` of these.
    """

    stride: int
    start: int
    more: int
    cut: int
    phases: tuple[Phases, ...]


def side_of(taps: int, stride: int, low: int, high: int, more: int, dilation: int) -> Side:
    """How an axis of ``taps`` taps comes apart; ``more`` is its output padding."""
    start, cut = divmod(low, stride)
    # The result has stride * size + rest elements.
    rest = dilation * (taps - 1) + more + 1 - stride - low - high
    common = math.gcd(stride, dilation)
    step, spread = stride // common, dilation // common
    found: list[Phases] = []
    for tap in range(min(step, taps)):
        shift, first = divmod(dilation * tap, stride)
        one = Phases(first, 1, tap, step, -(-(taps - tap) // step), shift, spread)
        before = found[-1] if found else None
        if before is not None and dilation == 1 and before.taps == one.taps:
            found[-1] = Phases(
                before.first, before.count + 1, before.tap, step, one.taps, shift, spread
            )
        else:
            found.append(one)
    found.sort(key=lambda phases: phases.first)
    return Side(stride, start, -(-(cut + rest) // stride), cut, tuple(found))


class LowerConvTranspose(RewritePattern):
    """``frontend.conv_transpose2d`` and its like → a convolution for the phases with as many taps.

    Legal when both operands are lowered.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(
        self,
        op: frontend.ConvTranspose1dOp | frontend.ConvTranspose2dOp | frontend.ConvTranspose3dOp,
        rewriter: PatternRewriter,
        /,
    ) -> None:
        operands = lowered_all((op.image, op.weight))
        if operands is None:
            return
        build = Builder.before(op, rewriter)
        if op.channels_first:
            order = (0, *range(2, op.COUNT + 2), 1)
            operands = [build.permute(v, order) for v in operands]
        replace(op, _Transposed(op, build, *operands).value(), rewriter)


class _Transposed:
    """The transposed convolution of an image [N, …, C] with a weight [C, …, F / groups]."""

    def __init__(
        self, op: frontend.ConvTransposeOp, build: Builder, x: SSAValue, w: SSAValue
    ) -> None:
        self.op, self.build, self.x, self.w = op, build, x, w
        self.batch, *self.sizes, self.channels = tiny.tensor_of(x).dims
        _, *taps, self.each = tiny.tensor_of(w).dims
        ends = zip(op.padding[::2], op.padding[1::2], strict=True)
        rows = zip(taps, op.stride, ends, op.output_padding, op.dilation, strict=True)
        self.sides = [
            side_of(count.constant() or 1, step, low, high, more, spread)
            for count, step, (low, high), more, spread in rows
        ]
        self.counts = [n + s.more for n, s in zip(self.sizes, self.sides, strict=True)]

    @property
    def is_plain(self) -> bool:
        """Whether one convolution is the result: of one phase an axis, with nothing cut off."""
        found = frontend.tensor_of(self.op.result).dims
        inner = found[2:] if self.op.channels_first else found[1:-1]
        return set(self.op.stride) == {1} and tuple(self.counts) == tuple(inner)

    def value(self) -> SSAValue:
        """The result, in the order of the layout."""
        build, op = self.build, self.op
        parts = list(product(*(side.phases for side in self.sides)))
        made = [self.apart(phases) for phases in parts]
        if self.is_plain:
            return made[0]
        whole = [sum(p.count for p in side.phases) == side.stride for side in self.sides]
        value = made[0]
        if len(made) > 1 or not all(whole):
            # Each lies in its phases; where all have some, nothing is added to what a number is.
            fill, fn = (-math.inf, "max") if all(whole) else (0.0, "add")
            padded = [self.placed(v, phases, fill) for v, phases in zip(made, parts, strict=True)]
            value = padded[0]
            for other in padded[1:]:
                value = build.binary(fn, value, other)
        filters = self.op.groups * self.each
        merged = [count * side.stride for count, side in zip(self.counts, self.sides, strict=True)]
        found = frontend.tensor_of(op.result).dims
        first = op.channels_first
        value = build.reshape(
            value,
            (self.batch, filters, *merged) if first else (self.batch, *merged, filters),
        )
        inner = found[2:] if first else found[1:-1]
        low = [Dim.const(side.cut) for side in self.sides]
        if any(side.cut for side in self.sides) or tuple(merged) != tuple(inner):
            ends = [start + size for start, size in zip(low, inner, strict=True)]
            zero = Dim.const(0)
            starts = (zero, zero, *low) if first else (zero, *low, zero)
            stops = (self.batch, filters, *ends) if first else (self.batch, *ends, filters)
            value = build.add(tiny.SliceOp(value, starts, stops))
        return value

    def apart(self, phases: Sequence[Phases]) -> SSAValue:
        """The phases of one convolution, [N, F, Q, n, …] or [N, Q, n, …, F]: each of the axes with
        its phases beside it."""
        build, op, groups = self.build, self.op, self.op.groups
        first, several = op.channels_first, groups.constant() != 1
        counts = [p.count for p in phases]
        filters = multiplied([groups * self.each, *map(Dim.const, counts)])
        x, padding = self.image(phases)
        shape = (
            (self.batch, filters, *self.counts) if first else (self.batch, *self.counts, filters)
        )
        conv = Convolution(
            op,
            first,
            [1] * len(phases),
            padding,
            [p.spread for p in phases],
            groups,
            frontend.tensor_of(op.image).element_type,
            op.precision,
            shape,
            self.is_plain,
        )
        value = over_axes(conv, build, x, self.filter(phases))
        if self.is_plain:
            return value
        own = (groups, self.each) if several else (self.each,)
        return self.split(value, [Dim.const(n) for n in counts], own)

    def split(self, value: SSAValue, counts: Sequence[Dim], own: Shape) -> SSAValue:
        """Filters ``[groups, phases …, F / groups]`` apart, and each phase beside its axis."""
        build, many = self.build, len(counts)
        parts = (*own[:-1], *counts, own[-1])
        inner = len(parts)
        if self.op.channels_first:
            value = build.reshape(value, (self.batch, *parts, *self.counts))
            at, base = 1, 1 + inner
            kept = [*range(at, at + len(own) - 1), at + inner - 1]
            phase = range(at + len(own) - 1, at + len(own) - 1 + many)
            axes = [a for i in range(many) for a in (base + i, phase[i])]
            value = build.permute(value, (0, *kept, *axes))
            pixels = [n for pair in zip(self.counts, counts, strict=True) for n in pair]
            return build.reshape(value, (self.batch, multiplied(own), *pixels))
        value = build.reshape(value, (self.batch, *self.counts, *parts))
        base = 1 + many
        phase = range(base + len(own) - 1, base + len(own) - 1 + many)
        kept = [*range(base, base + len(own) - 1), base + inner - 1]
        axes = [a for i in range(many) for a in (1 + i, phase[i])]
        value = build.permute(value, (0, *axes, *kept))
        pixels = [n for pair in zip(self.counts, counts, strict=True) for n in pair]
        return build.reshape(value, (self.batch, *pixels, multiplied(own)))

    def placed(self, value: SSAValue, phases: Sequence[Phases], fill: float) -> SSAValue:
        """Some phases in the place of all of them, and ``fill`` in that of the others."""
        low, high = ([0] * tiny.tensor_of(value).rank for _ in range(2))
        before = 2 if self.op.channels_first else 1
        for i, (one, side) in enumerate(zip(phases, self.sides, strict=True)):
            axis = before + 2 * i + 1
            low[axis], high[axis] = one.first, side.stride - one.first - one.count
        return self.build.add(tiny.PadOp(value, low, high, fill))

    def image(self, phases: Sequence[Phases]) -> tuple[SSAValue, list[int]]:
        """The image that a convolution reads, and the room that it adds around that.

        Element ``q`` reads from ``start + q - shift - spread * (taps - 1)`` on; what nothing reads
        at an end is cut off.
        """
        ends: list[int] = []
        for one, side in zip(phases, self.sides, strict=True):
            low = one.shift + one.spread * (one.taps - 1) - side.start
            ends += [low, side.start + side.more - one.shift]
        if min(ends) >= 0:
            return self.x, ends
        build = self.build
        before = [max(low, 0) for low, _ in _pairs(ends)]
        after = [max(high, 0) for _, high in _pairs(ends)]
        padded = tiny.PadOp(build.cast(self.x, f32), [0, *before, 0], [0, *after, 0], 0.0)
        x = build.add(padded)
        sizes = tiny.tensor_of(x).dims
        low = [0, *(max(-a, 0) for a, _ in _pairs(ends)), 0]
        high = [sizes[0], *sizes[1:-1], sizes[-1]]
        for i, (_, end) in enumerate(_pairs(ends)):
            high[i + 1] = high[i + 1] - max(-end, 0)
        return build.add(tiny.SliceOp(x, low, high)), [0] * len(ends)

    def filter(self, phases: Sequence[Phases]) -> SSAValue:
        """The filters [groups * phases … * F / groups, taps …, C / groups] of some phases."""
        build, many = self.build, len(phases)
        # Rounded first: what is only moved is then computed nowhere.
        w = build.narrowed(self.w, frontend.tensor_of(self.op.image).element_type)
        dims = tiny.tensor_of(w).dims
        low, high = [0] * len(dims), list(dims)
        for i, one in enumerate(phases):
            low[i + 1] = one.tap
            high[i + 1] = Dim.const(one.tap + one.step * (one.taps - 1) + one.count)
        if any(low) or tuple(high) != dims:
            w = build.add(tiny.SliceOp(w, low, high))
        # The taps of a phase, and the phases, of each axis; then the taps from the last one on.
        axes = range(1, many + 1)
        counts, steps = [p.count for p in phases], [p.step for p in phases]
        w = build.add(tiny.WindowOp(w, axes, counts, steps, [1] * many))
        taps = [p.taps for p in phases]
        if any(n > 1 for n in taps):
            w = build.add(tiny.WindowOp(w, axes, taps, [1] * many, [-1] * many))
            # Of each axis of taps there is one window left, which has all of them.
            kept = [n for i, n in enumerate(tiny.tensor_of(w).dims) if i not in axes]
            w = build.reshape(w, tuple(kept))
            order = [0, *range(2 + many, 2 + 2 * many), 1, *range(2, 2 + many)]
            w = build.permute(w, order)
        # [C, taps …, F / groups, phases …]
        groups = self.op.groups
        channels, *_ = tiny.tensor_of(w).dims
        inner = divided(channels, groups, self.op)
        assert inner is not None  # the verifier has seen that it comes out even
        sizes = tiny.tensor_of(w).dims[1:]
        w = build.reshape(w, (groups, inner, *sizes))
        at, each, phase = range(2, 2 + many), 2 + many, range(3 + many, 3 + 2 * many)
        w = build.permute(w, (0, *phase, each, *at, 1))
        filters = multiplied([groups, *map(Dim.const, counts), self.each])
        w = build.reshape(w, (filters, *(Dim.const(n) for n in taps), inner))
        return build.cast(w, f32)


def _pairs(ends: Sequence[int]) -> Iterator[tuple[int, int]]:
    return zip(ends[::2], ends[1::2], strict=True)
