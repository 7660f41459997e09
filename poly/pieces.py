"""Tensors that are read as one, one after another along an axis: what a concat becomes (S2.2).

A concat is the maximum of its parts, each of them -inf where it is not: in a region these are reads
under guards, of which one holds at every point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import cast

from xdsl.dialects.builtin import AnyFloat, f32
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.ir.affine import (
    AffineConstantExpr,
    AffineConstraintExpr,
    AffineConstraintKind,
    AffineDimExpr,
    AffineExpr,
    AffineSet,
)

from polyc.affine import isl
from polyc.affine.expressions import Atom, Floor, Linear, linear_of
from polyc.dialects.common.dim import AssumptionsAttr, Dim
from polyc.dialects.index import moved_row
from polyc.dialects.region import (
    BinaryOp,
    BroadcastInDimOp,
    CastOp,
    ConstantOp,
    InsideOp,
    ReadOp,
    SelectOp,
    TransposeOp,
)
from polyc.dialects.region.types import MemRefType, ValType

_ZERO = AffineConstantExpr(0)


@dataclass(frozen=True)
class Piece:
    """A tensor that is a part of a value: ``size`` points along ``axis`` from ``first`` on.

    ``dimension`` is the one of the tensor that the axis walks.
    """

    read: ReadOp
    axis: str
    dimension: int
    first: Dim
    size: Dim


@dataclass(frozen=True)
class Concat:
    """A value that is read in pieces along an axis, in the order of that.

    Outside of ``within``, a set of the axes of the first one's read, it is 0; None is everywhere.
    """

    pieces: tuple[Piece, ...]
    within: AffineSet | None = None

    @property
    def axis(self) -> str:
        """The axis along which they follow each other."""
        return self.pieces[0].axis


def concat_of(value: SSAValue, symbols: Sequence[str]) -> Concat | None:
    """How a value is a concat; None where it is none.

    Its pieces are read alike but for where they begin, and together have the axis whole.  Whether
    guards say just where they are is for ``is_within_bounds``.
    """
    inside: Operation | Block | None = None
    if isinstance(op := value.owner, SelectOp) and _is_zero(op.if_false):
        inside, value = _moved(op.condition).owner, op.if_true
    pieces = _pieces_of(value, symbols)
    if not pieces or inside is None:
        return Concat(pieces) if pieces else None
    labels = pieces[0].read.result.type.labels
    if not isinstance(inside, InsideOp) or not set(inside.result.type.labels) <= set(labels):
        return None
    into = [AffineDimExpr(labels.index(label)) for label in inside.result.type.labels]
    rows = tuple(moved_row(row, into) for row in inside.set.data.constraints)
    return Concat(pieces, AffineSet(len(labels), len(symbols), rows))


def _is_zero(value: SSAValue) -> bool:
    op = _moved(value).owner
    return isinstance(op, ConstantOp) and op.value.value.data == 0.0


def _moved(value: SSAValue) -> SSAValue:
    """What is repeated or turned to be a value."""
    while isinstance(op := value.owner, BroadcastInDimOp | TransposeOp):
        value = op.operand
    return value


def _pieces_of(value: SSAValue, symbols: Sequence[str]) -> tuple[Piece, ...]:
    """The pieces of a value along an axis, in the order of that; none where it has none."""
    reads = _parts(value)
    if len(reads) < 2 or len({read.result.type.element_type for read in reads}) > 1:
        return ()
    names = reads[0].result.type.labels
    first = [linear_of(e) for e in _places(reads[0], names)]
    found: list[Piece] = []
    along: int | None = None
    for read in reads[1:]:
        if set(read.result.type.labels) != set(names):
            return ()
        here = [linear_of(e) for e in _places(read, names)]
        apart = [i for i, (a, b) in enumerate(zip(first, here, strict=False)) if a != b]
        if len(here) != len(first) or len(apart) != 1 or along not in (None, apart[0]):
            return ()
        (along,) = apart
    assert along is not None
    for read in reads:
        place = _places(read, names)[along]
        terms = linear_of(place).terms
        walked = [(atom, factor) for atom, factor in terms if not _is_symbol(atom)]
        match walked:
            case [(("d", int(axis)), 1)]:
                pass
            case _:
                return ()
        rest = tuple(term for term in terms if term not in walked)
        shift = _as_dim(Linear(rest, linear_of(place).constant), symbols)
        size = cast("MemRefType", read.tensor.type).shape[along]
        found.append(Piece(read, names[axis], along, -shift, size))
    return _in_order(found, value)


def _parts(value: SSAValue) -> list[ReadOp]:
    """The reads of which a value is the maximum, where each is -inf outside of its guard.

    They may be widened on the way.
    """
    match value.owner:
        case CastOp() as op if _is_wider(op):
            return _parts(op.operand)
        case BinaryOp() as op if op.fn.data == "max":
            left, right = _parts(op.lhs), _parts(op.rhs)
            return [*left, *right] if left and right else []
        case ReadOp() as op if op.guard is not None and op.fill is not None:
            there = op.fill.value.data == -inf and isinstance(op.tensor, BlockArgument)
            return [op] if there else []
        case _:
            return []


def _is_wider(op: CastOp) -> bool:
    """Whether a cast keeps every number as it is."""
    narrow = cast("ValType", op.operand.type).element_type
    return op.result.type.element_type == f32 and isinstance(narrow, AnyFloat)


def _in_order(pieces: Sequence[Piece], value: SSAValue) -> tuple[Piece, ...]:
    """Pieces that follow each other from one end of the axis to the other; or none."""
    left, found = list(pieces), list[Piece]()
    end = Dim.const(0)
    while left:
        following = next((piece for piece in left if piece.first == end), None)
        if following is None:
            return ()
        left.remove(following)
        found.append(following)
        end = following.first + following.size
    axis = next(a for a in pieces[0].read.result.type.axes if a.label == pieces[0].axis)
    return tuple(found) if end == axis.size else ()


def _places(read: ReadOp, names: Sequence[str]) -> list[AffineExpr]:
    """A read's coordinates in terms of the axes ``names``."""
    dims = [AffineDimExpr(names.index(label)) for label in read.result.type.labels]
    return [e.replace_dims_and_symbols(dims, ()) for e in read.map.data.results]


def _is_symbol(atom: Atom) -> bool:
    return not isinstance(atom, Floor) and atom[0] == "s"


def _as_dim(linear: Linear, symbols: Sequence[str]) -> Dim:
    """A sum of symbols and a constant as a size."""
    total = Dim.const(linear.constant)
    for atom, factor in linear.terms:
        assert not isinstance(atom, Floor)
        total += Dim.sym(symbols[atom[1]]) * factor
    return total


def guard_of(read: ReadOp) -> AffineSet | None:
    """The points at which a read is made; None is everywhere."""
    return None if read.guard is None else read.guard.data


def is_within_bounds(
    read: ReadOp,
    dimensions: Sequence[int],
    guard: AffineSet | None,
    known: AssumptionsAttr,
    symbols: Sequence[str],
    most: tuple[int, int] | None = None,
) -> bool | None:
    """Whether ``guard`` holds just where a read's place on ``dimensions`` is in its tensor.

    On the others it is taken to be.  Points are those of the read's axes, with sizes as ``known``,
    and of an axis with its number in ``most`` the first so many; None where an extent is beyond
    isl.
    """
    shape = cast("MemRefType", read.tensor.type).shape
    axes = read.result.type.axes
    points: list[AffineConstraintExpr] = []
    bounds: list[AffineConstraintExpr] = []
    for i, axis in enumerate(axes):
        points.append(_at_least_zero(AffineDimExpr(i)))
        if (size := axis.size.as_affine(symbols)) is not None:
            points.append(_at_least_zero(size + AffineDimExpr(i) * -1 + -1))
    for at in dimensions:
        place, extent = read.map.data.results[at], shape[at].as_affine(symbols)
        if extent is None:
            return None
        bounds += [_at_least_zero(place), _at_least_zero(extent + place * -1 + -1)]
    if most is not None:
        bounds.append(_at_least_zero(AffineDimExpr(most[0]) * -1 + (most[1] - 1)))
    rows = () if guard is None else guard.constraints
    facts = known.as_affine_set(symbols).constraints
    guarded, inside = (
        AffineSet(len(axes), len(symbols), (*facts, *points, *those)) for those in (rows, bounds)
    )
    return bool(isl.set_equal(guarded, inside))


def _at_least_zero(expr: AffineExpr) -> AffineConstraintExpr:
    return AffineConstraintExpr(AffineConstraintKind.ge, expr, _ZERO)
