"""Dependences between the instances of statements, and what they allow of each axis (S7.1).

Statements run in order, the instances of one in the lexicographic order of its axes.  With
``S(p)`` before ``T(q)``, both touching one element of a tensor, the relation is

    true   = { S(p) → T(q) : S writes it, T reads it }
    anti   = { S(p) → T(q) : S reads it,  T writes it }
    output = { S(p) → T(q) : both write it }

A statement that accumulates reads and writes its element at every instance.  Those dependences
of it on itself are marked ``reduction``: the sum, max or min may be taken in any order (S6.5).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from xdsl.ir.affine import AffineConstraintExpr, AffineDimExpr, AffineMap, AffineSet

from polyc.affine import isl
from polyc.affine.expressions import constraint_of, linear_of
from polyc.dialects.index import moved_row
from polyc.poly.blocks import Blocks
from polyc.poly.indexbook import Json

Kind = Literal["true", "anti", "output"]


@dataclass(frozen=True, slots=True)
class Access:
    """Elements ``map(p)`` of a tensor, touched at the instances ``p`` in ``domain``."""

    tensor: str
    map: AffineMap
    domain: AffineSet


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement over ``dims``: its instances, what it reads and what it writes.

    ``accumulates`` names the tensor that it adds to by an op whose order is free.  Of the axes
    ``at_data`` it reads one place, which its data says: any of them, and it writes once.
    """

    name: str
    dims: tuple[str, ...]
    domain: AffineSet
    reads: tuple[Access, ...]
    writes: tuple[Access, ...]
    accumulates: str | None = None
    at_data: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Dependence:
    """Instances of ``sink`` that have to come after instances of ``source``.

    ``relation`` is a union of sets over the source's dimensions, then the sink's.  In a
    dependence of a statement on itself, piece ``i`` is carried by axis ``carried[i]``: the
    first in which the two differ.
    """

    kind: Kind
    source: str
    sink: str
    tensor: str
    relation: tuple[AffineSet, ...]
    carried: tuple[int, ...]
    reduction: bool


def dependences(statements: Sequence[Statement], facts: AffineSet) -> list[Dependence]:
    """Every dependence that has a pair of instances, under assumptions on the symbols.

    In the order of the sinks, then of the sources.  Raises ``IslLimitExceeded``.
    """
    found: list[Dependence] = []
    writers: dict[str, list[int]] = {}
    readers: dict[str, list[int]] = {}
    for j, sink in enumerate(statements):
        written, read = ({a.tensor for a in of} for of in (sink.writes, sink.reads))
        for tensors, there in ((written, writers), (read, readers)):
            for tensor in tensors:
                there.setdefault(tensor, []).append(j)
        # Two that only read a tensor do not depend on each other.
        touched = {i for tensor in read | written for i in writers.get(tensor, ())}
        touched |= {i for tensor in written for i in readers.get(tensor, ())}
        for i in sorted(touched):
            found += _between(statements[i], sink, facts)
    return found


def statements_of(blocks: Blocks) -> list[Statement]:
    """The blocks of a graph as statements, in order; tensors have the names of values."""
    found: list[Statement] = []
    for block in blocks.blocks:
        entry = block.entry
        domain = entry.iteration_domain()
        own = AffineMap(
            len(block.dims),
            len(block.symbols),
            tuple(AffineDimExpr(i) for i in range(block.rank)),
        )
        result = Access(block.name, own, domain)
        reads = [
            Access(blocks.names[r.source], r.map, r.domain)
            for one in block.readings
            for r in one.reads
        ]
        inner = tuple(range(block.rank, len(block.dims)))
        if entry.gathers:
            written = Access(block.name, own, _once(entry.domain(), inner))
            statement = Statement(
                block.name,
                block.dims,
                domain,
                tuple(dict.fromkeys(reads)),
                (written,),
                at_data=inner,
            )
        else:
            sums = block.name if inner else None
            reads += [result] if inner else []
            statement = Statement(
                block.name, block.dims, domain, tuple(dict.fromkeys(reads)), (result,), sums
            )
        found.append(statement)
    return found


def _once(domain: AffineSet, inner: Sequence[int]) -> AffineSet:
    """The points of a value, with one of axes that it has not."""
    rows = [constraint_of(linear_of(AffineDimExpr(axis)), True) for axis in inner]
    dims = domain.num_dims + len(inner)
    return AffineSet(dims, domain.num_symbols, (*domain.constraints, *rows))


def by_statement(found: Iterable[Dependence]) -> dict[str, list[Dependence]]:
    """The dependences of each statement on itself."""
    own: dict[str, list[Dependence]] = {}
    for one in found:
        if one.source == one.sink:
            own.setdefault(one.sink, []).append(one)
    return own


def parallel_axes(statement: Statement, found: Sequence[Dependence]) -> tuple[int, ...]:
    """The axes along which all instances may run at once.

    No dependence of the statement on itself goes from one point of the axis to another, and the
    statement has more of its points than the one that data says.
    """
    axes = (a for a in range(len(statement.dims)) if a not in statement.at_data)
    return tuple(a for a in axes if not _along(statement, a, found))


def reduction_axes(statement: Statement, found: Sequence[Dependence]) -> tuple[int, ...]:
    """The axes along which only the statement's own reduction orders the instances."""
    kept: list[int] = []
    for axis in range(len(statement.dims)):
        along = _along(statement, axis, found)
        if along and all(d.reduction for d in along):
            kept.append(axis)
    return tuple(kept)


def _along(statement: Statement, axis: int, found: Sequence[Dependence]) -> list[Dependence]:
    """The dependences of a statement on itself between different points of an axis."""
    rank = len(statement.dims)
    out: list[Dependence] = []
    for d in found:
        if d.source != statement.name or d.sink != statement.name:
            continue
        step = AffineDimExpr(rank + axis) - AffineDimExpr(axis)
        apart = [constraint_of(linear_of(s * step - 1), False) for s in (1, -1)]
        if any(not isl.is_empty(_narrowed(p, [row])) for p in d.relation for row in apart):
            out.append(d)
    return out


def _between(source: Statement, sink: Statement, facts: AffineSet) -> Iterator[Dependence]:
    touches: tuple[tuple[Kind, Sequence[Access], Sequence[Access]], ...] = (
        ("true", source.writes, sink.reads),
        ("anti", source.reads, sink.writes),
        ("output", source.writes, sink.writes),
    )
    for kind, firsts, seconds in touches:
        tensors = dict.fromkeys(a.tensor for a in firsts)
        for tensor in tensors:
            pieces: list[AffineSet] = []
            carried: list[int] = []
            for a in firsts:
                for b in seconds:
                    if a.tensor != tensor or b.tensor != tensor:
                        continue
                    for depth, piece in _conflicts(a, b, source is sink, facts):
                        pieces.append(piece)
                        carried.append(depth)
            if pieces:
                inner = source is sink and source.accumulates == tensor
                yield Dependence(
                    kind,
                    source.name,
                    sink.name,
                    tensor,
                    tuple(pieces),
                    tuple(carried) if source is sink else (),
                    inner,
                )


def _conflicts(
    a: Access, b: Access, itself: bool, facts: AffineSet
) -> Iterator[tuple[int, AffineSet]]:
    """Pairs of instances that touch one element, the second later; by the axis that says so."""
    split, dims = a.map.num_dims, a.map.num_dims + b.map.num_dims
    shifted = [AffineDimExpr(split + i) for i in range(b.map.num_dims)]
    rows = [*facts.constraints, *a.domain.constraints]
    rows += [moved_row(r, shifted) for r in b.domain.constraints]
    for x, y in zip(a.map.results, b.map.results, strict=True):
        difference = x - y.replace_dims_and_symbols(shifted, ())
        rows.append(constraint_of(linear_of(difference), True))
    points = AffineSet(dims, a.map.num_symbols, tuple(rows))
    if not itself:
        if not isl.is_empty(points):
            yield 0, points
        return
    before: list[AffineConstraintExpr] = []
    for depth in range(split):
        step = AffineDimExpr(split + depth) - AffineDimExpr(depth)
        later = _narrowed(points, [*before, constraint_of(linear_of(step - 1), False)])
        if not isl.is_empty(later):
            yield depth, later
        before.append(constraint_of(linear_of(step), True))


def _narrowed(points: AffineSet, rows: Sequence[AffineConstraintExpr]) -> AffineSet:
    return AffineSet(points.num_dims, points.num_symbols, (*points.constraints, *rows))


# As JSON -------------------------------------------------------------------------------


def dependence_json(
    found: Dependence, statements: Mapping[str, Statement], symbols: tuple[str, ...]
) -> Json:
    """A dependence with its relation in isl's notation; the sink's axes have a prime."""
    source, sink = statements[found.source], statements[found.sink]
    names = (*source.dims, *(f"{d}'" for d in sink.dims))
    out: Json = {
        "kind": found.kind,
        "from": found.source,
        "to": found.sink,
        "tensor": found.tensor,
        "relation": [isl.set_text(p, names, symbols) for p in found.relation],
    }
    if found.source == found.sink:
        out["carried_by"] = [source.dims[a] for a in dict.fromkeys(found.carried)]
        out["reduction"] = found.reduction
    return out
