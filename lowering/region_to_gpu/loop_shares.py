"""``region-to-gpu``: reductions that need one another, of points that blocks share.

A block takes the steps that fall to it in turn with the others, with what lies behind the end of an
axis masked, and stores what it has of each; a second kernel combines that, part by part.  What is
computed of a step is for ``loop_moments`` and ``loop_powers`` to say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, f32
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from polyc.dialects.common.dim import Dim
from polyc.dialects.gpu import tile
from polyc.dialects.region import ReduceOp
from polyc.dialects.region.moments import Moments
from polyc.families.loops.recognise import size_of
from polyc.lowering.region_to_gpu.loop_base import LoopBase
from polyc.lowering.region_to_gpu.loop_parts import Here, Part, Turn, each_turn, store
from polyc.lowering.region_to_gpu.loop_scope import (
    AxisPlace,
    Scope,
    held_along,
    placed_all,
    projection,
)
from polyc.lowering.region_to_gpu.point import COLUMN, ROW, Point
from polyc.rewriting.driver import located
from polyc.rewriting.emit import Emit, affine_dim

OWN = AffineMap.identity(2)
"""An element's own place."""

Fragment = tuple[SSAValue, AffineMap]
"""A fragment, and where in it an element of a map is."""


def number(emit: Emit, value: float) -> SSAValue:
    """An f32 constant."""
    return emit.value(arith.ConstantOp(FloatAttr(value, f32)))


def each(
    emit: Emit,
    space: SSAValue,
    inputs: Sequence[Fragment],
    outputs: Sequence[SSAValue],
    compute: Callable[..., Sequence[SSAValue]],
) -> None:
    """A map over the places of ``space``: ``compute`` takes an ``Emit``, the elements of ``space``
    and of ``inputs``, and gives those of ``outputs``."""
    block = Block(arg_types=[f32] * (1 + len(inputs)))
    own = Emit()
    results = compute(own, *block.args)
    block.add_ops([*own.ops, tile.YieldOp(list(results))])
    maps = [*(place for _, place in inputs), *(OWN for _ in outputs)]
    emit.op(tile.MapOp(space, [], [f for f, _ in inputs], outputs, maps, Region(block)))


def threads_fragment(
    builder: LoopBase,
    scope: Scope,
    along: tuple[bool, bool],
    apart: Mapping[str, int],
    hint: str,
) -> Fragment:
    """A fragment for what each thread has of a reduction that is ``along`` the tile and whose axes
    are parted ``apart``, and where in it the tile's elements go."""
    held = held_along(along, apart)
    made, fold = builder.folded(scope, held, apart, hint, f32, builder.plan.integer("vectorize"))
    return made, fold or projection(held)


def turns_of(
    builder: LoopBase,
    scope: Scope,
    reduce: ReduceOp,
    labels: Sequence[str],
    apart: Mapping[str, int],
    step_of: Callable[[Scope, SSAValue], None],
) -> None:
    """One loop over the steps along all of ``labels`` that fall to this block of the grid, each
    by its number."""
    assert builder.here is not None and builder.rank is not None
    rank, parts = builder.rank, builder.here.count
    steps = {label: builder.tile[apart[label]] if label in apart else 1 for label in labels}
    counts = [size_of(reduce, label).ceildiv(step) for label, step in steps.items()]
    sizes = [builder.frame.size(count) for count in counts[1:]]

    def body(inner: Emit, number: SSAValue) -> None:
        here, left = scope, number
        found: dict[str, SSAValue] = {}
        for label, size in zip(reversed(labels[1:]), reversed(sizes), strict=True):
            found[label] = inner.value(arith.RemUIOp(left, size))
            left = inner.value(arith.DivUIOp(left, size))
        found[labels[0]] = left
        for label, step in steps.items():
            start = inner.apply(affine_dim(0) * step, [found[label]])
            if start.name_hint is None:
                start.name_hint = f"{label}0" if step > 1 else label
            here = here.inside(inner, label, AxisPlace(apart.get(label), start))
        step_of(here, number)

    total = builder.frame.size(prod(counts, start=Dim.const(1)))
    if isinstance(parts, int):
        scope.emit.loop(total, body, step=parts, start=rank, hint="step")
        return

    def turn(inner: Emit, turn: SSAValue) -> None:
        behind = inner.value(arith.MuliOp(turn, parts))
        body(inner, inner.value(arith.AddiOp(behind, rank), "step"))

    left = scope.emit.apply(affine_dim(0) - affine_dim(1), [total, rank])
    scope.emit.loop(scope.emit.over(left, parts), turn, hint="turn")


def tails_of(builder: LoopBase, reduce: ReduceOp, apart: Mapping[str, int]) -> dict[str, SSAValue]:
    """The sizes of the axes whose last step may go beyond their end, of those that threads
    part."""
    ends = {label: size_of(reduce, label) for label in apart}
    return {
        label: builder.frame.size(size)
        for label, size in ends.items()
        if size.mod(builder.tile[apart[label]]).constant() != 0
    }


def inside(point: Point, tails: Mapping[str, SSAValue]) -> SSAValue | None:
    """Whether a point is within the ends of axes; None where nothing says so."""
    found: SSAValue | None = None
    for label, size in tails.items():
        here = point.index(point.axes[label])
        found = point.emit.both(found, point.emit.compare("slt", here, size))
    return found


def within(
    tails: Mapping[str, SSAValue],
    nothing: float,
    value_of: Callable[[Point, SSAValue], SSAValue],
) -> Callable[[Point, SSAValue], SSAValue]:
    """What computes ``value_of`` an element at a point, in f32; ``nothing`` beyond the ends."""

    def found(point: Point, scalar: SSAValue) -> SSAValue:
        there, value = inside(point, tails), value_of(point, scalar)
        if there is None:
            return value
        return point.emit.value(arith.SelectOp(there, value, number(point.emit, nothing)))

    return found


def as_f32(point: Point, scalar: SSAValue) -> SSAValue:
    """An element as it is, in f32."""
    return point.cast(scalar, f32)


def store_share(
    builder: LoopBase, scope: Scope, value: SSAValue, held: SSAValue, like: Operation
) -> None:
    """Write what a block ``held`` of a value into that value's workspace."""
    assert builder.part is not None and builder.here is not None
    where, origin = placed_all(scope.places)
    to = builder.sums[value]
    located(store(scope.emit, builder.part, held, builder.here, where, origin, to), like)


def store_shares(
    builder: LoopBase, scope: Scope, moments: Moments, fragments: Sequence[SSAValue]
) -> None:
    """Write what a block has of each of ``moments.stored``."""
    for value, fragment in zip(moments.stored, fragments, strict=True):
        store_share(builder, scope, value, fragment, moments.squares)


def combine_shares(
    emit: Emit,
    part: Part,
    here: Here,
    acc: SSAValue,
    about: Fragment,
    at: Mapping[str, AffineExpr],
    origin: Sequence[SSAValue],
    spaces: Sequence[SSAValue],
    value_of: Callable[..., SSAValue],
) -> None:
    """Add up, in ``acc``, a value of each part of a tile's results, every thread those of its own,
    in order.

    ``value_of`` takes an ``Emit``, what ``spaces`` have of a part, and the element of ``about``.
    """

    def one(inner: Emit, turn: Turn) -> None:
        block = Block(arg_types=[f32] * (2 + len(spaces)))
        before, *stored = block.args
        own = Emit()
        value = value_of(own, *stored)
        if (exists := turn.inside(own)) is not None:
            value = own.value(arith.SelectOp(exists, value, number(own, 0.0)))
        found = own.value(arith.AddfOp(before, value))
        block.add_ops([*own.ops, tile.YieldOp([found])])
        count = len(turn.symbols)
        there = AffineMap(2, count, turn.place)
        held = AffineMap(2, count, about[1].results)
        maps = [*(there for _ in spaces), held, AffineMap(2, count, (ROW, COLUMN))]
        inputs = [*spaces, about[0]]
        inner.op(tile.MapOp(acc, turn.symbols, inputs, [acc], maps, Region(block)))

    each_turn(emit, part, here, at, origin, one)
