"""The ``index`` dialect: the index book, a side table beside the tiny values (S4).

One ``index.value`` stands after each tiny value and says where the value is and where
its elements come from: its axes, its domain, and for each operand of the tiny op the
affine map from the value's axes to the operand's.  It takes the value as its operand,
has no results and computes nothing::

    %c = tiny.reduce sum %t axes [1] : …
    index.value %c axes [i0(5): M, i1(7): N] reduce [k(6): K]
        box from [affine_map<(d0, d1, d2)[s0, s1, s2] -> (d0, d2, d1)>] : …

An axis is written ``name(id): size``.  A map's dimensions are the value's axes, then
its reduced axes (S4.1); its symbols are those of the signature, in order (S4.8).
``box`` is the domain ``0 <= axis < size``; a value whose operands are read differently
in parts of it has ``pieces [affine_set<…> from […], …]`` instead, disjoint and covering
the box, where ``fill 0.0`` stands for an operand that is not read.

A dimension whose size multiplies symbols may be a tuple of axes, ``[(i0(5): M, i1(7): N)]``
for ``M * N``: maps range over the factors, and where this value is read its coordinates are
those of its axes, so that no map multiplies symbols (S4.7).

The verifier holds the seven invariants of S4.  ``book`` gathers the table of a graph;
``reach``, ``access`` and ``source`` compose its maps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import AnyFloat, UnitAttr, f32
from xdsl.ir import Dialect, Operation, SSAValue
from xdsl.ir.affine import (
    AffineConstantExpr,
    AffineConstraintExpr,
    AffineConstraintKind,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
    AffineSet,
)

from polyc.affine import isl
from polyc.affine.expressions import nodes
from polyc.dialects import tiny
from polyc.dialects.common.movements import MovementOp
from polyc.dialects.index.attrs import (
    AxisAttr,
    AxisKind,
    Fill,
    PieceAttr,
    bounds,
    box,
    reduced_label,
)
from polyc.dialects.index.invariants import MAX_PIECES
from polyc.dialects.index.value import ValueOp, value_op


def book(graph: Operation) -> dict[SSAValue, ValueOp]:
    """The entries of a graph by value, in the order of the text."""
    return {
        op.value: op
        for region in graph.regions
        for block in region.blocks
        for op in block.ops
        if isinstance(op, ValueOp)
    }


FOLLOWED = 64
"""Movements that are followed at most."""

FAR = 256
"""Operations and operands of a map through movements, about."""


@dataclass(frozen=True, slots=True)
class Reach:
    """How a value reaches another one: the composed map of a chain of entries (S4.6).

    ``map`` takes the dimensions ``axes`` (the axes of the value where the chain starts,
    then the axes reduced along it) to the coordinates of ``source``.  ``domain`` is
    over the same dimensions.  ``path`` holds the values passed, from the start to the
    one that reads ``source``; it is empty when the two are the same value.
    """

    source: SSAValue
    map: AffineMap
    axes: tuple[AxisAttr, ...]
    domain: AffineSet
    path: tuple[SSAValue, ...]

    @property
    def is_far(self) -> bool:
        """Whether so many movements lie behind, or the map has become so long, that the chain is
        followed no further: what divides and multiplies in turn doubles with each movement."""
        return len(self.path) >= FOLLOWED or nodes(self.map.results) > FAR


def _entry(value: SSAValue) -> ValueOp:
    entry = value_op(value)
    if entry is None:
        raise ValueError(f"%{value.name_hint or '?'} has no index.value; run tiny-to-index")
    return entry


def start(value: SSAValue) -> Reach:
    """A value's reach of itself: the identity on its axes."""
    entry = _entry(value)
    symbols = len(entry.symbol_names)
    rank = len(entry.axes)
    identity = AffineMap(rank, symbols, tuple(AffineDimExpr(i) for i in range(rank)))
    return Reach(value, identity, entry.axes.data, entry.domain(), ())


def step(reach: Reach, operand: int) -> Reach | None:
    """Follow ``reach`` to an operand of its source, composing the maps.

    Axes that the source reduces become further dimensions.  None where there is no
    single map: at a non_scop value, several pieces, or a fill.
    """
    whole = len(_entry(reach.source).pieces) == 1
    return next(iter(steps(reach, operand)), None) if whole else None


def steps(reach: Reach, operand: int) -> tuple[Reach, ...]:
    """``step`` through each piece of the source that reads the operand.

    A piece's domain joins the reach's.  Empty at a non_scop value and where fills stand for
    the operand everywhere.
    """
    entry = _entry(reach.source)
    found: list[Reach] = []
    for how, into, axes, domain in _onward(reach, operand):
        if isinstance(how, AffineMap):
            composed = tuple(
                isl.canonical_expr(e.replace_dims_and_symbols(into, ())) for e in how.results
            )
            map = AffineMap(len(axes), how.num_symbols, composed)
            path = (*reach.path, reach.source)
            found.append(Reach(entry.operands_read[operand], map, axes, domain, path))
    return tuple(found)


def fills(reach: Reach, operand: int) -> tuple[tuple[AffineSet, float], ...]:
    """Where fills stand for an operand of the source, over the reach's dimensions."""
    return tuple(
        (domain, how)
        for how, _, _, domain in _onward(reach, operand)
        if not isinstance(how, AffineMap)
    )


def _onward(
    reach: Reach, operand: int
) -> Iterator[tuple[AffineMap | float, list[AffineExpr], tuple[AxisAttr, ...], AffineSet]]:
    """For each piece of the source: how it has the operand, and where.

    Next come the source's dimensions as expressions of the new ones, those, and their domain.
    """
    entry = _entry(reach.source)
    before = len(reach.axes)
    fresh = (AffineDimExpr(before + i) for i in range(len(entry.reduced)))
    into = [*reach.map.results, *fresh]
    axes = (*reach.axes, *entry.reduced)
    rows = bounds([a.dim for a in entry.reduced], entry.symbol_names, before)
    for piece in entry.pieces:
        inside = () if isinstance(piece.domain, UnitAttr) else piece.domain.data.constraints
        domain = (*reach.domain.constraints, *rows, *(moved_row(r, into) for r in inside))
        where = AffineSet(len(axes), reach.map.num_symbols, domain)
        yield piece.entries[operand], into, axes, where


def moved_row(row: AffineConstraintExpr, into: Sequence[AffineExpr]) -> AffineConstraintExpr:
    """A row with expressions in place of its dimensions."""
    difference = row.lhs - row.rhs
    if row.kind is AffineConstraintKind.le:
        difference = difference * -1
    equal = row.kind is AffineConstraintKind.eq
    kind = AffineConstraintKind.eq if equal else AffineConstraintKind.ge
    moved = isl.canonical_expr(difference.replace_dims_and_symbols(into, ()))
    return AffineConstraintExpr(kind, moved, AffineConstantExpr(0), canonicalize=False)


def reach(
    value: SSAValue, until: Callable[[SSAValue], bool], from_: Reach | None = None
) -> Iterator[Reach]:
    """Every way from ``value`` up to the first values where ``until`` holds, in order.

    Ways that end at a leaf or cannot be composed without meeting one are left out.
    """
    work = [start(value) if from_ is None else from_]
    while work:
        here = work.pop()
        if until(here.source):
            yield here
            continue
        onward = (step(here, i) for i in range(len(_entry(here.source).operands_read)))
        work += reversed([further for further in onward if further is not None])


def access(value: SSAValue, leaf: SSAValue) -> AffineMap:
    """The map from the axes of ``value`` (then those reduced on the way) to ``leaf``.

    The composition is simplified on its domain.  Raises ValueError when there is no
    way to the leaf, or several with different maps (``x + transpose(x)``).
    """
    found = {isl.simplify_map(r.map, r.domain) for r in reach(value, lambda v: v is leaf)}
    if len(found) != 1:
        raise ValueError(
            f"%{value.name_hint or '?'} reaches %{leaf.name_hint or '?'} by "
            f"{len(found) or 'no'} {'maps' if len(found) != 1 else 'map'}; access needs one"
        )
    return found.pop()


def is_movement(value: SSAValue) -> bool:
    """Whether the value is a logical view of its op's operand (S3.1).

    ``step`` says whether one map describes the view: a pad or a mask has fills as well.
    """
    return isinstance(value.owner, MovementOp)


def is_widening(value: SSAValue) -> bool:
    """Whether the value is a cast that loses nothing: to f32, or to the same type."""
    owner = value.owner
    if not isinstance(owner, tiny.CastOp):
        return False
    before, after = tiny.tensor_of(owner.operand).element_type, tiny.tensor_of(value).element_type
    return before == after or (after == f32 and isinstance(before, AnyFloat))


def source(value: SSAValue, casts: bool = True, from_: Reach | None = None) -> Reach:
    """The value behind the movements, and (with ``casts``) widening casts, of ``value``.

    The map takes the axes of ``value`` to those of the source.  ``from_`` continues a
    reach that ends at ``value``.  One that ``is_far`` is not followed further: the source is then a
    movement itself.
    """
    here = start(value) if from_ is None else from_
    while not here.is_far and (is_movement(here.source) or (casts and is_widening(here.source))):
        further = step(here, 0)
        if further is None:
            break
        here = further
    return here


__all__ = [
    "MAX_PIECES",
    "AxisAttr",
    "AxisKind",
    "Fill",
    "Index",
    "PieceAttr",
    "Reach",
    "ValueOp",
    "access",
    "book",
    "bounds",
    "box",
    "fills",
    "is_movement",
    "is_widening",
    "moved_row",
    "reach",
    "reduced_label",
    "source",
    "start",
    "step",
    "steps",
    "value_op",
]

Index = Dialect("index", [ValueOp], [AxisAttr, PieceAttr])
"""The dialect, as ``polyc-opt`` registers it."""
