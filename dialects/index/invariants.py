"""The seven invariants of an entry of the index book, which its verifier holds (S4.1 to S4.8)."""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import AffineMapAttr, AffineSetAttr
from xdsl.ir import SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
    AffineSet,
)
from xdsl.utils.exceptions import VerifyException

from polyc.affine import isl
from polyc.dialects import tiny
from polyc.dialects.common.dim import AssumptionsAttr, Dim, shape_text
from polyc.dialects.common.numbers import plain_fault
from polyc.dialects.common.signature import SizedTensorType, graph_of, same_size
from polyc.dialects.common.sizes import product
from polyc.dialects.index.attrs import INNER, PieceAttr, axes_text, box
from polyc.dialects.index.entry import Entry, entry_of

MAX_PIECES = 64
"""Pieces that a domain may have before it is refused (S6.8 ExcessivePiecewise)."""

ZERO = AffineConstantExpr(0)


def verify_entry(op: Entry) -> None:
    """Check every invariant.  Raises VerifyException, also where isl gives up."""
    _verify_axes(op)
    _verify_scop(op)
    _verify_reduction(op)
    try:
        for piece in op.pieces:
            _verify_piece(op, piece)
        _verify_cover(op)
    except isl.IslLimitExceeded as error:
        raise VerifyException(
            f"PolyhedralLimit: {error}; use fewer pieces or simpler maps"
        ) from error


def _verify_axes(op: Entry) -> None:
    """Invariant 2: names i0, i1, … in order; one entry a value, one axis a dimension."""
    t = op.value.type
    if not isinstance(t, SizedTensorType):
        raise VerifyException(f"index.value describes a tensor, not {t}")
    if sum(isinstance(use.operation, Entry) for use in op.value.uses) > 1:
        raise VerifyException("the value has two index.value ops; keep one")
    counts = op.counts
    if len(counts) != t.rank:
        raise VerifyException(f"{len(counts)} axes for {t}, which has rank {t.rank}")
    if sum(counts) != len(op.axes) or min(counts, default=1) < 1:
        raise VerifyException(
            f"tuples {list(counts)} share out {len(op.axes)} axes; give each dimension one or more"
        )
    for i, axis in enumerate(op.axes):
        if axis.label.data != f"i{i}":
            raise VerifyException(
                f"axis {i} is named {axis.label.data}; axes are named i0, i1, … in order, "
                f"so write i{i}"
            )
        if axis.kind.data in INNER:
            raise VerifyException(f"axis i{i} of the value cannot be of kind {axis.kind.data}")
    for axes, size in zip(op.by_dimension, t.dims, strict=True):
        have = product(a.dim for a in axes)
        if not same_size(have, size, op):
            what = " x ".join(a.label.data for a in axes)
            raise VerifyException(f"axis {what} has size {have}, the value's type {t} has {size}")
    wanted = "reduce"
    if isinstance(op.value.owner, tiny.GatherOp | tiny.ScatterOp):
        wanted = op.value.owner.name.split(".")[1]
    for axis in op.reduced:
        if axis.kind.data != wanted:
            raise VerifyException(
                f"axis {axis.text()} is {axis.kind.data}, and not of kind {wanted}"
            )
        if axis.label.data[:1] == "i" and axis.label.data[1:].isdigit():
            what = {"gather": "gathered", "scatter": "scattered"}.get(wanted, "reduced")
            raise VerifyException(
                f"{what} axis {axis.label.data} has the name of an axis of the value"
            )
    for what, names in (
        ("name", [a.label.data for a in op.all_axes]),
        ("id", [a.number for a in op.all_axes]),
    ):
        for i, name in enumerate(names):
            if name in names[:i]:
                raise VerifyException(f"two axes have the {what} {name}")


def _verify_scop(op: Entry) -> None:
    """Invariant 5: a value is non_scop, or has a piece with an entry for each operand."""
    if not op.is_scop:
        if op.pieces.data or op.reduced.data:
            raise VerifyException(
                "NonSCoP: a non_scop value has no affine maps; leave out its pieces and "
                "reduced axes, or drop non_scop"
            )
        return
    if op.reason is not None:
        raise VerifyException(
            f'"{op.reason.data}" is why a value is non_scop, and this one is not; leave it out'
        )
    if not op.pieces.data:
        raise VerifyException("a value that is not non_scop has at least one piece")
    if len(op.pieces) > MAX_PIECES:
        raise VerifyException(
            f"ExcessivePiecewise: {len(op.pieces)} pieces, at most {MAX_PIECES}; "
            "simplify the domain"
        )
    wanted = len(op.operands_read)
    for piece in op.pieces:
        if len(piece.inputs) != wanted:
            raise VerifyException(
                f"{len(piece.inputs)} inputs for a value whose op reads {wanted} operands; "
                "give each a map or a fill"
            )


def _verify_piece(op: Entry, piece: PieceAttr) -> None:
    symbols = len(op.symbol_names)
    if isinstance(piece.domain, AffineSetAttr):
        domain = piece.domain.data
        _verify_space(op, domain, len(op.axes), symbols)
        for row in domain.constraints:
            for side in (row.lhs, row.rhs):
                _verify_expr(side, whole=False)
        _verify_unconditional(op, domain)
    for operand, entry in zip(op.operands_read, piece.entries, strict=True):
        if isinstance(entry, AffineMap):
            _verify_map(op, piece, operand, entry, symbols)
    for operand, entry in zip(op.operands_read, piece.inputs, strict=True):
        if not isinstance(entry, AffineMapAttr):
            element = cast(SizedTensorType, operand.type).element_type
            if (fault := plain_fault(entry, element)) is not None:
                raise VerifyException(f"the fill of an operand: {fault}")


def _verify_space(op: Entry, of: AffineMap | AffineSet, dims: int, symbols: int) -> None:
    """S4.8: symbols are those of the signature, in order."""
    if of.num_dims != dims:
        raise VerifyException(
            f"{of} has {of.num_dims} dimensions; it takes {dims}, the value's axes"
            + (" and then its reduced axes" if isinstance(of, AffineMap) else "")
        )
    if of.num_symbols != symbols:
        raise VerifyException(
            f"{of} has {of.num_symbols} symbols; the signature has {symbols}: "
            f"{', '.join(op.symbol_names) or 'none'}"
        )


def _verify_expr(expr: AffineExpr, whole: bool = True) -> None:
    """Invariants 1 and 6: affine and floordiv, positive denominators, lowest terms.

    ``whole`` asks for the canonical spelling of the expression too (invariant 7).
    """
    for part in expr.dfs():
        if not isinstance(part, AffineBinaryOpExpr):
            continue
        kind = part.kind
        if kind in (AffineBinaryOpKind.Mod, AffineBinaryOpKind.CeilDiv):
            way = "e - q * (e floordiv q)" if kind is AffineBinaryOpKind.Mod else "floordiv"
            raise VerifyException(
                f"MissingDivGuard: {kind.get_token()} is left in {part}; write it as {way}"
            )
        if kind is not AffineBinaryOpKind.FloorDiv:
            continue
        if not isinstance(part.rhs, AffineConstantExpr) or part.rhs.value <= 0:
            raise VerifyException(
                f"the denominator of {part} is {part.rhs}; it is a positive integer"
            )
        if (lowest := isl.canonical_expr(part)) != part:
            raise VerifyException(f"{part} is not in lowest terms; write {lowest}")
    if whole and (simple := isl.canonical_expr(expr)) != expr:
        raise VerifyException(f"{expr} is not simplified; write {simple}")


def _verify_unconditional(op: Entry, domain: AffineSet) -> None:
    """Invariant 3: no condition on a broadcast axis."""
    whole = op.domain()
    for row in domain.constraints:
        for i, axis in enumerate(op.axes):
            if axis.repeats and isl.uses_dim(row.lhs - row.rhs, i):
                alone = AffineSet(domain.num_dims, domain.num_symbols, (row,))
                if not isl.implies(whole, alone):
                    raise VerifyException(
                        f"the condition {row} is on the broadcast axis i{i}; a broadcast is "
                        "the constant 0 in the map, never a condition"
                    )


def _verify_map(
    op: Entry, piece: PieceAttr, operand: SSAValue, map: AffineMap, symbols: int
) -> None:
    _verify_space(op, map, len(op.all_axes), symbols)
    t = operand.type
    if not isinstance(t, SizedTensorType):
        raise VerifyException(f"{map} reads {t}, which is not a tensor")
    entry = entry_of(operand)
    sizes = t.dims if entry is None else tuple(a.dim for a in entry.axes)
    if len(map.results) != len(sizes):
        raise VerifyException(
            f"{map} has {len(map.results)} results for {t} of rank {len(sizes)}"
            + ("" if entry is None or entry.is_plain else ", counting the axes of its tuples")
        )
    inside = True
    for i, expr in enumerate(map.results):
        _verify_expr(expr)
        spread = [d for d, a in enumerate(op.axes) if a.repeats and isl.uses_dim(expr, d)]
        if spread and not (entry is not None and entry.axes.data[i].repeats):
            raise VerifyException(
                f"result {i} of {map} varies with the broadcast axis i{spread[0]}; a "
                "broadcast is the constant 0"
            )
        plain = _plainly_inside(op, expr, sizes[i])
        inside &= plain
        repeated = entry is not None and entry.axes.data[i].repeats and expr == ZERO
        if not plain and not repeated and sizes[i].as_affine(op.symbol_names) is None:
            raise VerifyException(
                f"UnguardedAccess: result {i} of {map} is not seen to be inside the size "
                f"{sizes[i]}, which multiplies symbols; make the value non_scop"
            )
    if inside:
        return
    domain = op.iteration_domain(piece)
    graph = graph_of(op)
    facts = AssumptionsAttr(() if graph is None else graph.facts).as_affine_set(op.symbol_names)
    domain = AffineSet(
        domain.num_dims, domain.num_symbols, (*domain.constraints, *facts.constraints)
    )
    if not isl.image_within(map, domain, box(sizes, op.symbol_names)):
        raise VerifyException(
            f"UnguardedAccess: {map} leaves its operand {t} somewhere on the domain; guard "
            "it by a piece with a fill, or correct the map"
        )


def _plainly_inside(op: Entry, expr: AffineExpr, size: Dim) -> bool:
    """Whether a coordinate is inside ``[0, size)`` at first sight."""
    if isinstance(expr, AffineDimExpr):
        return op.all_axes[expr.position].dim == size
    limit = size.constant()
    return isinstance(expr, AffineConstantExpr) and limit is not None and 0 <= expr.value < limit


def _verify_reduction(op: Entry) -> None:
    """Invariant 4: a reduced axis is removed from the value and recorded by its id."""
    owner = op.value.owner
    if isinstance(owner, tiny.GatherOp):
        _verify_gather(op, owner)
        return
    if isinstance(owner, tiny.ScatterOp):
        _verify_scatter(op, owner)
        return
    if isinstance(owner, tiny.ScanOp):
        _verify_scan(op, owner)
        return
    if isinstance(owner, tiny.SortOp):
        _verify_sort(op, owner)
        return
    if not isinstance(owner, tiny.ReduceOp):
        if op.reduced.data:
            raise VerifyException(
                f"the value reduces {axes_text(op.reduced)}, but its op is no tiny.reduce or "
                "tiny.sort"
            )
        return
    if not op.is_scop:
        return
    axes, entry = owner.axes, entry_of(owner.operand)
    counts = (1,) * tiny.tensor_of(owner.operand).rank if entry is None else entry.counts
    count = sum(counts[a] for a in axes)
    if len(op.reduced) != count:
        raise VerifyException(
            f"the op reduces {count} axes, the entry records {len(op.reduced)}; record "
            "each reduced axis by the id that it had"
        )
    if entry is None:
        return
    before = [a.number for a in entry.axes]
    removed = [a.number for axis in axes for a in entry.by_dimension[axis]]
    if list(op.reduce_axes) != removed:
        raise VerifyException(
            f"the op removes the axes with ids {removed}, the entry records {list(op.reduce_axes)}"
        )
    kept = [n for n in before if n not in removed]
    if [a.number for a in op.axes] != kept:
        raise VerifyException(
            f"the axes that remain keep their ids {kept}, not {[a.number for a in op.axes]}"
        )


def _verify_gather(op: Entry, owner: tiny.GatherOp) -> None:
    """A gather's indexed axes are recorded, and are where its operand alone is read by data."""
    if not op.is_scop:
        return
    source = tiny.tensor_of(owner.operand).dims
    if len(op.reduced) != len(owner.axes):
        raise VerifyException(
            f"the op has indices along {len(owner.axes)} axes, the entry records "
            f"{len(op.reduced)}; record each of them"
        )
    for axis, recorded in zip(owner.axes, op.reduced, strict=True):
        if not same_size(source[axis], recorded.dim, op):
            raise VerifyException(
                f"axis {recorded.text()} stands for axis {axis} of the operand, whose size is "
                f"{source[axis]}"
            )
    rank = len(op.axes)
    for piece in op.pieces:
        read, *indices = piece.entries
        if not isinstance(read, AffineMap):
            raise VerifyException(
                f"a gather reads its operand by a map, not as {read}; its own fill is what is "
                "outside"
            )
        for index in indices:
            used = index.used_dims() if isinstance(index, AffineMap) else set[int]()
            if any(d >= rank for d in used):
                raise VerifyException(f"{index} reads an index at a place that it says itself")
        for place, axis in enumerate(owner.axes):
            wanted = AffineDimExpr(rank + place)
            if read.results[axis] != wanted:
                raise VerifyException(
                    f"result {axis} of {read} is where an index says; write d{rank + place}"
                )


def _verify_scatter(op: Entry, owner: tiny.ScatterOp) -> None:
    """A scatter's updates are of any place of the recorded axes, and of the point elsewhere."""
    if not op.is_scop:
        return
    sizes, rank = tiny.tensor_of(owner.updates).dims, len(op.axes)
    same = len(op.reduced) == len(owner.axes) and all(
        same_size(sizes[axis], recorded.dim, op)
        for axis, recorded in zip(owner.axes, op.reduced, strict=True)
    )
    if not same:
        raise VerifyException(
            f"the op has updates along axes {list(owner.axes)} of their {shape_text(sizes)}, the "
            f"entry records {axes_text(op.reduced)}; record each of them"
        )
    own: list[AffineExpr] = [AffineDimExpr(i) for i in range(rank)]
    there = list(own)
    for place, axis in enumerate(owner.axes):
        there[axis] = AffineDimExpr(rank + place)
    for piece in op.pieces:
        for entry, wanted in zip(
            piece.entries, (own, *(there for _ in piece.entries[1:])), strict=True
        ):
            if not isinstance(entry, AffineMap) or list(entry.results) != wanted:
                text = ", ".join(map(str, wanted))
                raise VerifyException(f"{entry} is not how the scatter reads, which is at ({text})")


def _verify_sort(op: Entry, owner: tiny.SortOp) -> None:
    """The sorted axis is removed too, and an axis of its own is where it was."""
    if not op.is_scop:
        return
    entry = entry_of(owner.operand)
    before = () if entry is None else entry.by_dimension
    if len(op.reduced) != 1 or (before and len(before[owner.axis]) != 1):
        raise VerifyException(
            f"the op sorts one axis, the entry records {len(op.reduced)}; record the axis that is "
            "sorted by the id that it had"
        )
    if not before:
        return
    (removed,) = before[owner.axis]
    if list(op.reduce_axes) != [removed.number]:
        raise VerifyException(
            f"the op sorts the axis with id {removed.number}, the entry records "
            f"{list(op.reduce_axes)}"
        )
    kept = [a.number for i, d in enumerate(before) if i != owner.axis for a in d]
    found = [a.number for i, d in enumerate(op.by_dimension) if i != owner.axis for a in d]
    if found != kept or any(a.number == removed.number for a in op.axes):
        raise VerifyException(
            f"the axes that remain keep their ids {kept}, and the sorted one gets a new one, not "
            f"{[a.number for a in op.axes]}"
        )


def _verify_scan(op: Entry, scan: tiny.ScanOp) -> None:
    """The axis that a scan goes along is recorded, and read: one axis, and another id's after."""
    if not op.is_scop:
        return
    if len(op.reduced) != 1:
        raise VerifyException(
            f"the op goes along one axis, the entry records {len(op.reduced)}; record it by the id "
            "that it had"
        )
    if op.counts[scan.axis] != 1:
        raise VerifyException(
            f"the op goes along dimension {scan.axis}, which is a tuple of {op.counts[scan.axis]} "
            "axes; view it as one"
        )
    entry = entry_of(scan.operand)
    if entry is None:
        return
    gone = [a.number for a in entry.by_dimension[scan.axis]]
    if list(op.reduce_axes) != gone:
        raise VerifyException(
            f"the op goes along the axis with id {gone[0]}, the entry records "
            f"{list(op.reduce_axes)}"
        )
    kept = [a.number for i, d in enumerate(entry.by_dimension) if i != scan.axis for a in d]
    own = [a.number for i, d in enumerate(op.by_dimension) if i != scan.axis for a in d]
    if own != kept:
        raise VerifyException(
            f"the axes that it does not go along keep their ids {kept}, not {own}"
        )


def _verify_cover(op: Entry) -> None:
    """Invariant 7 and S4.1: pieces are disjoint, not empty, and cover the box."""
    pieces = op.pieces.data
    if len(pieces) == 1 and pieces[0].is_box:
        return
    if not op.is_scop:
        return
    domains = [op.domain(p) for p in pieces]
    for i, domain in enumerate(domains):
        if isl.is_empty(domain):
            raise VerifyException(f"piece {i} holds no point; leave it out")
        for j, other in enumerate(domains[:i]):
            if not isl.sets_disjoint(domain, other):
                raise VerifyException(
                    f"pieces {j} and {i} overlap; the pieces of a domain are disjoint"
                )
    if not isl.covers(op.domain(), tuple(domains)):
        raise VerifyException(
            "the pieces do not cover the box of the axes; add a piece with a fill for the rest"
        )
