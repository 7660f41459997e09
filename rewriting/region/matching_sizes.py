"""Sizes, access maps and guards of two regions, where the symbols of one stand for expressions.

The pattern's symbols get names of their own (``'M``), so that both may have an ``M``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, pairwise

from xdsl.ir import Operation
from xdsl.ir.affine import (
    AffineConstantExpr,
    AffineConstraintExpr,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
    AffineSet,
    AffineSymExpr,
)

from polyc.affine import isl
from polyc.dialects.common.dim import Assumption, AssumptionsAttr, Dim, Shape, shape_text
from polyc.dialects.common.sizes import product, quotient
from polyc.dialects.region import DimOp, IndexOp, InsideOp, KernelOp, ReadOp
from polyc.dialects.region.types import AxisAttr, val_type
from polyc.rewriting.region.compose import domain

Binding = Dim
"""What a symbol of a pattern stands for."""

Bindings = Mapping[str, Dim]
"""What each of the pattern's symbols, as it is named here, stands for."""

OWN = "'"
"""What the pattern's symbols are prefixed with."""


class Sizes:
    """The questions about sizes of one pattern and one target."""

    def __init__(self, pattern: KernelOp, target: KernelOp) -> None:
        self.pattern, self.target = pattern, target
        self.unbound: str | None = None
        """Why the last question for bindings had no answer."""

    def _dim(self, size: Dim) -> Dim:
        """A size of the pattern in the names that it has here."""
        return size.substitute({s: Dim.sym(OWN + s) for s in size.symbols()})

    def named(self, bindings: Bindings) -> dict[str, Dim]:
        """Bindings under the pattern's own names; what no tensor's size has is not there."""
        names = self.pattern.symbol_names
        return {s: bindings[OWN + s] for s in names if OWN + s in bindings}

    def facts(self, bindings: Bindings) -> tuple[Assumption, ...]:
        """What the pattern assumes of its sizes, in the target's symbols."""
        return tuple(
            Assumption(self._dim(fact.expr).substitute(bindings), fact.kind)
            for fact in self.pattern.facts
            if all(OWN + s in bindings for s in fact.expr.symbols())
        )

    # What symbols stand for

    def bindings(self, tensors: Sequence[int]) -> Iterator[Bindings]:
        """What the symbols stand for, so that each tensor is a view of the target's.

        ``tensors`` are the target's, for each of the pattern's.  An axis of the pattern may be
        several neighbouring axes of the target; one each comes first.
        """
        pairs: list[tuple[str, Shape, Shape]] = []
        names = [n.data for n in (*self.pattern.arg_names, *self.pattern.res_names)]
        for name, kind, other in zip(names, self.pattern.tensors, tensors, strict=True):
            shape = tuple(self._dim(size) for size in kind.shape)
            pairs.append((name, shape, self.target.tensors[other].shape))
        self.unbound = None
        yield from self._bound(pairs, {}, [])

    def _bound(
        self,
        pairs: Sequence[tuple[str, Shape, Shape]],
        known: Bindings,
        later: Sequence[tuple[str, Dim, Dim]],
    ) -> Iterator[Bindings]:
        if not pairs:
            yield from self._complete(known, later)
            return
        (name, shape, other), *rest = pairs
        for sizes in _groups(len(shape), other):
            solved: Bindings | None = known
            open_ = list(later)
            for size, value in zip(shape, sizes, strict=True):
                if (found := self._solved(size, value, solved)) is None:
                    self._refuse(
                        f"{name} of the pattern is {self._text(shape)}, which {shape_text(other)} "
                        "here is not"
                    )
                    break
                solved = found
                if any(s not in solved for s in _own_symbols(size)):
                    open_.append((name, size, value))
            else:
                yield from self._bound(rest, solved, open_)
        if len(shape) > len(other):
            self._refuse(
                f"{name} of the pattern is {self._text(shape)}, and has fewer axes here, "
                f"{shape_text(other)}"
            )

    def _solved(self, size: Dim, value: Dim, known: Bindings) -> Bindings | None:
        """``known`` and what follows from ``size`` being ``value``; None where it cannot be."""
        left = size.substitute(known)
        open_ = _own_symbols(left)
        if not open_:
            return known if self.target.same_size(left, value) else None
        if len(open_) > 1:
            return known
        (symbol,) = open_
        terms = [(mono, coef) for mono, coef in left.terms if symbol in mono]
        rest = Dim.of_terms(t for t in left.terms if t not in terms)
        if len(terms) != 1 or symbol in _own_symbols(rest) or terms[0][0].count(symbol) != 1:
            return known
        mono, coef = terms[0]
        factors = list(mono)
        factors.remove(symbol)
        if _own_symbols(by := Dim(((tuple(factors), coef),))):
            return known
        found = quotient(value - rest, by)
        return None if found is None else {**known, symbol: found}

    def _complete(
        self, known: Bindings, later: Sequence[tuple[str, Dim, Dim]]
    ) -> Iterator[Bindings]:
        """Bindings of all symbols, with what could not be asked before."""
        waiting = list(later)
        while waiting:
            still: list[tuple[str, Dim, Dim]] = []
            before = len(known)
            for name, size, value in waiting:
                found = self._solved(size, value, known)
                if found is None:
                    text = f"a size of {name} is {self._text((size,))} in the pattern"
                    self._refuse(f"{text}, and {value} here")
                    return
                known = found
                if _own_symbols(size.substitute(known)):
                    still.append((name, size, value))
            if len(known) == before and len(still) == len(waiting):
                break
            waiting = still
        missing = [s for s in self._needed(known) if OWN + s not in known]
        if missing:
            self._refuse(f"no tensor tells how large {missing[0]} of the pattern is")
        else:
            yield known

    def _needed(self, known: Bindings) -> list[str]:
        """The symbols that sizes of tensors have, and those that assumptions relate to them."""
        found = [s for kind in self.pattern.tensors for size in kind.shape for s in size.symbols()]
        for fact in self.pattern.facts:
            symbols = fact.expr.symbols()
            if any(OWN + s in known for s in symbols):
                found += symbols
        return found

    def _refuse(self, text: str) -> None:
        self.unbound = self.unbound or text

    def _text(self, shape: Shape) -> str:
        return shape_text(shape).replace(OWN, "")

    # What is equal then

    def unequal_tensors(self, bindings: Bindings, tensors: Sequence[int]) -> str | None:
        """The tensor that both regions see in unlike shapes, or None."""
        names = [n.data for n in (*self.target.arg_names, *self.target.res_names)]
        for kind, position in zip(self.pattern.seen, tensors, strict=True):
            mine = tuple(self._dim(size).substitute(bindings) for size in kind.shape)
            other = self.target.seen[position]
            same = len(mine) == len(other.shape) and all(
                self.target.same_size(a, b) for a, b in zip(mine, other.shape, strict=True)
            )
            if not same or kind.element_type != other.element_type:
                return (
                    f"it sees {names[position]} as {shape_text(other.shape)} of "
                    f"{other.element_type}, where the pattern sees {shape_text(mine)} of "
                    f"{kind.element_type}"
                )
        return None

    def unequal_axes(
        self, bindings: Bindings, pairs: Sequence[tuple[AxisAttr, AxisAttr]]
    ) -> str | None:
        """The axes that have unlike sizes, or None."""
        for ours, theirs in pairs:
            size = self._dim(ours.size).substitute(bindings)
            if not self.target.same_size(size, theirs.size):
                return f"its axis {theirs} is {ours.label}: {size} in the pattern"
        return None

    def unequal(
        self, bindings: Bindings, ours: Operation, theirs: Operation, axes: Mapping[str, str]
    ) -> str | None:
        """How two reads, two sizes or two conditions differ, or None where they do not."""
        try:
            match ours, theirs:
                case DimOp(), DimOp():
                    size = self._dim(ours.size).substitute(bindings)
                    if not self.target.same_size(size, theirs.size):
                        return f"it uses the size {theirs.size}, and the pattern {size}"
                case IndexOp(), IndexOp():
                    whole = self._domain(bindings, theirs.result)
                    mine = self._moved(bindings, ours.expr, ours, theirs, axes)
                    if mine is None or not isl.maps_equal(
                        AffineMap(whole.num_dims, whole.num_symbols, (mine,)),
                        theirs.map.data,
                        whole,
                    ):
                        return "its index counts other points than the pattern's"
                case InsideOp(), InsideOp():
                    whole = self._domain(bindings, theirs.result)
                    moved = self._moved_set(bindings, ours.set.data, ours, theirs, axes)
                    if moved is None or not _same_within(whole, moved, theirs.set.data):
                        return "its condition holds at other points than the pattern's"
                case ReadOp(), ReadOp():
                    return self._unequal_reads(bindings, ours, theirs, axes)
                case _:
                    return f"{theirs.name} is not compared"
        except isl.IslLimitExceeded as error:
            return f"isl gives up on its {theirs.name}: {error}"
        return None

    def _unequal_reads(
        self, bindings: Bindings, ours: ReadOp, theirs: ReadOp, axes: Mapping[str, str]
    ) -> str | None:
        assert isinstance(ours, ReadOp) and isinstance(theirs, ReadOp)
        name = self.target.name_of(theirs.tensor)
        whole = self._domain(bindings, theirs.result)
        everywhere = AffineSet(whole.num_dims, whole.num_symbols, ())
        guard = everywhere if theirs.guard is None else theirs.guard.data
        mine: AffineSet | None = everywhere
        if ours.guard is not None:
            mine = self._moved_set(bindings, ours.guard.data, ours, theirs, axes)
        if mine is None or not _same_within(whole, mine, guard):
            return f"it reads {name} at other points than the pattern"
        inside = AffineSet(
            whole.num_dims, whole.num_symbols, (*whole.constraints, *guard.constraints)
        )
        if theirs.fill is not None and ours.fill is not None:
            a, b = ours.fill.value.data, theirs.fill.value.data
            if str(a) != str(b) and not isl.implies(whole, guard):
                return f"it fills {name} with {b}, and the pattern with {a}"
        results = [self._moved(bindings, e, ours, theirs, axes) for e in ours.map.data.results]
        kept = [e for e in results if e is not None]
        if len(kept) < len(results) or len(kept) != len(theirs.map.data.results):
            return f"the pattern's index of {name} is beyond isl at these sizes"
        there = AffineMap(whole.num_dims, whole.num_symbols, tuple(kept))
        if not isl.maps_equal(there, theirs.map.data, inside):
            return f"it reads {name} at other elements than the pattern"
        return None

    def _domain(self, bindings: Bindings, result: object) -> AffineSet:
        """The points of a value of the target, at sizes that both regions assume."""
        kind = val_type(result)  # pyright: ignore[reportArgumentType]
        points = domain(self.target, kind.axes.data)
        facts = AssumptionsAttr(self.facts(bindings))
        more = facts.as_affine_set(self.target.symbol_names).constraints
        return AffineSet(points.num_dims, points.num_symbols, (*points.constraints, *more))

    def _into(
        self,
        bindings: Bindings,
        ours: ReadOp | IndexOp | InsideOp,
        theirs: ReadOp | IndexOp | InsideOp,
        axes: Mapping[str, str],
    ) -> tuple[list[AffineExpr], list[AffineExpr | None]]:
        """The target's expressions for the dimensions and the symbols of an op of the pattern."""
        places = {label: i for i, label in enumerate(val_type(theirs.result).labels)}
        dims: list[AffineExpr] = [
            AffineDimExpr(places[axes[label]]) for label in val_type(ours.result).labels
        ]
        names = self.target.symbol_names
        sizes = [bindings.get(OWN + s) for s in self.pattern.symbol_names]
        return dims, [None if size is None else size.as_affine(names) for size in sizes]

    def _moved(
        self,
        bindings: Bindings,
        expr: AffineExpr,
        ours: ReadOp | IndexOp | InsideOp,
        theirs: ReadOp | IndexOp | InsideOp,
        axes: Mapping[str, str],
    ) -> AffineExpr | None:
        """An index of the pattern in the target's terms; None where a size of it is not affine."""
        dims, symbols = self._into(bindings, ours, theirs, axes)
        used = {e.position for e in expr.dfs() if isinstance(e, AffineSymExpr)}
        if any(symbols[i] is None for i in used):
            return None
        whole = [AffineConstantExpr(0) if e is None else e for e in symbols]
        return isl.canonical_expr(expr.replace_dims_and_symbols(dims, whole))

    def _moved_set(
        self,
        bindings: Bindings,
        points: AffineSet,
        ours: ReadOp | IndexOp | InsideOp,
        theirs: ReadOp | IndexOp | InsideOp,
        axes: Mapping[str, str],
    ) -> AffineSet | None:
        """A set of the pattern in the target's terms; None where a size of it is not affine."""
        rows: list[AffineConstraintExpr] = []
        for row in points.constraints:
            lhs, rhs = (self._moved(bindings, e, ours, theirs, axes) for e in (row.lhs, row.rhs))
            if lhs is None or rhs is None:
                return None
            rows.append(AffineConstraintExpr(row.kind, lhs, rhs))
        names = self.target.symbol_names
        return AffineSet(len(val_type(theirs.result).axes), len(names), tuple(rows))


def _own_symbols(size: Dim) -> list[str]:
    """The pattern's symbols in a size."""
    return [s for s in size.symbols() if s.startswith(OWN)]


def _groups(count: int, sizes: Shape) -> Iterator[Shape]:
    """``sizes`` as so many products of neighbours, in every way."""
    if count == 0:
        if not sizes or product(sizes) == Dim.const(1):
            yield ()
        return
    for cuts in combinations(range(1, len(sizes)), count - 1):
        ends = (0, *cuts, len(sizes))
        yield tuple(product(sizes[a:b]) for a, b in pairwise(ends))


def _same_within(whole: AffineSet, a: AffineSet, b: AffineSet) -> bool:
    """Whether two sets have the same points of ``whole``."""
    shape = (whole.num_dims, whole.num_symbols)
    first = AffineSet(*shape, (*whole.constraints, *a.constraints))
    second = AffineSet(*shape, (*whole.constraints, *b.constraints))
    return isl.set_equal(first, second)
