"""``frontend-to-tiny``: random numbers and dropout, from the place of each element (S12.6)."""

from __future__ import annotations

import math

from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import (
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)

from polyc.dialects import frontend, tiny
from polyc.dialects.common.dim import Shape
from polyc.dialects.common.elements import COUNTER, ui32
from polyc.dialects.common.sizes import product
from polyc.dialects.frontend.random import UNIFORM_BITS, WORD, chances
from polyc.lowering.frontend_to_tiny.builder import Builder, lowered_all, replace


class LowerRandom(RewritePattern):
    """``frontend.random`` → ``philox`` of each element's place, and what makes numbers of it.

    Legal when seed and offset are lowered.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: frontend.RandomOp, rewriter: PatternRewriter, /) -> None:
        values = lowered_all(op.operands)
        if values is None:
            return
        build, kind = Builder.before(op, rewriter), frontend.tensor_of(op.result)
        made = _Words(build, kind.dims, *values)
        match op.distribution:
            case "bits":
                found = build.cast(made.pairs, ui32)
            case "bernoulli":
                assert op.p is not None
                found = made.holds(op.p)
            case "uniform":
                found = made.uniform(build.cast(made.pairs, ui32), UNIFORM_BITS[kind.element_type])
            case _:
                found = made.normal()
        replace(op, found, rewriter)


class LowerDropout(RewritePattern):
    """``frontend.dropout`` → a select of what is kept, scaled, and 0.

    Legal when the operands are lowered.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: frontend.DropoutOp, rewriter: PatternRewriter, /) -> None:
        values = lowered_all(op.operands)
        if values is None:
            return
        build, shape = Builder.before(op, rewriter), frontend.tensor_of(op.result).dims
        value, seed, offset = values
        kept = _Words(build, shape, seed, offset).holds(1 - op.p)
        scaled = build.binary("mul", value, build.splat(op.scale, shape))
        replace(op, build.select(kept, scaled, build.splat(0.0, shape)), rewriter)


class _Words:
    """The random numbers of a tensor; ``pairs`` has each beside its neighbour's."""

    def __init__(self, build: Builder, shape: Shape, seed: SSAValue, offset: SSAValue) -> None:
        self.build, self.shape = build, shape
        self.places = self._places(build.cast(offset, COUNTER))
        key = build.spread(build.cast(seed, COUNTER), shape)
        self.pairs = build.binary("philox", self.places, key)

    def _places(self, offset: SSAValue) -> SSAValue:
        """The row-major places plus the offset, axis by axis: they may be beyond 32 bits."""
        build, shape = self.build, self.shape
        found: SSAValue | None = offset
        if shape and isinstance(owner := offset.owner, tiny.ConstantOp) and not owner.number:
            found = None
        for axis, size in enumerate(shape):
            within = shape[: axis + 1]
            place = build.add(tiny.IotaOp(size, COUNTER))
            step = product(shape[axis + 1 :])
            if (known := step.constant()) is None:
                by = build.add(tiny.DimOp(step, tiny.tensor((), COUNTER)))
                place = build.binary("mul", place, build.spread(by, (size,)))
            elif known != 1:
                place = build.binary("mul", place, build.splat(known, (size,), COUNTER))
            place = place if not axis else build.expand(place, (axis,), within)
            if found is not None:
                place = build.binary("add", build.expand(found, range(axis), within), place)
            found = place
        assert found is not None
        return found

    def holds(self, p: float) -> SSAValue:
        """A condition with a chance of ``p``: where a word is below as many of 2³²."""
        build = self.build
        word = build.binary("and", self.pairs, build.splat(2**WORD - 1, self.shape, COUNTER))
        return build.compare("lt", word, build.splat(chances(p), self.shape, COUNTER))

    def uniform(self, word: SSAValue, bits: int) -> SSAValue:
        """The ``bits`` high ones of a word of ui32, over 2 to the ``bits``: exact."""
        build = self.build
        high = build.binary("shr", word, build.splat(WORD - bits, self.shape, ui32))
        return build.binary("mul", build.cast(high, f32), build.splat(2.0**-bits, self.shape))

    def normal(self) -> SSAValue:
        """Box and Muller's: of two neighbours one number is the cosine's, the other the sine's."""
        build, shape = self.build, self.shape

        def number(value: int) -> SSAValue:
            return build.splat(value, shape, COUNTER)

        own = build.cast(self.pairs, ui32)
        other = build.cast(build.binary("shr", self.pairs, number(WORD)), ui32)
        even = build.compare("eq", build.binary("and", self.places, number(1)), number(0))
        first, second = build.select(even, own, other), build.select(even, other, own)
        some = build.cast(build.binary("max", first, build.splat(1, shape, ui32)), f32)
        log = build.unary("log", build.binary("mul", some, build.splat(2.0**-WORD, shape)))
        radius = build.unary("sqrt", build.binary("mul", log, build.splat(-2.0, shape)))
        turn = build.splat(2 * math.pi, shape)
        angle = build.binary("mul", self.uniform(second, UNIFORM_BITS[f32]), turn)
        wave = build.select(even, build.unary("cos", angle), build.unary("sin", angle))
        return build.binary("mul", radius, wave)
