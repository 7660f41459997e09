"""The index rule of a reshape: groups of factors, constant divisors, tuples of factors (S4.7).

A reshape keeps to its factor groups.  In a group, sizes that are numbers are linearised and
split by ``floordiv``.  A linear index with a symbolic stride is not affine, so a dimension whose
size multiplies symbols stays a tuple of its factors: merging [M, N] to [M * N] gives the tuple
(M, N), and splitting it again at the same boundary gives back the axes that it had.  A split of
one axis by a symbol is a view of memory: a boundary, with its reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.ir import Operation
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap
from xdsl.pattern_rewriter import PatternRewriter, op_type_rewrite_pattern

from polyc.affine import isl
from polyc.dialects import tiny
from polyc.dialects.common.dim import Dim
from polyc.dialects.common.signature import same_size
from polyc.dialects.common.sizes import divided, factor_groups, product, quotient
from polyc.dialects.index import AxisAttr, AxisKind, box
from polyc.lowering.tiny_to_index.rule import (
    IndexRule,
    Placed,
    done,
    entry_of,
    not_affine,
    product_text,
    resized,
    symbol_names,
    write,
)

ZERO: AffineExpr = AffineConstantExpr(0)


@dataclass
class Factor:
    """A factor that old and new axes share.

    It is ``stride`` times a part of the old axis ``old``, and one of the factors of the new
    dimension ``new``.
    """

    size: Dim
    old: int
    stride: int
    new: int


def common_factors(old: Sequence[Dim], new: Sequence[Dim], at: Operation) -> list[Factor] | None:
    """The factors of two shapes with equal products, outermost first.

    Old axes are split by numbers alone; None where one would be split by a symbol, or where
    the sizes divide each other neither way.
    """
    i, j = len(old) - 1, len(new) - 1
    left, right = (old[i] if old else None), (new[j] if new else None)
    stride, found = 1, list[Factor]()
    while left is not None and right is not None:
        by = right.constant()
        if same_size(left, right, at):
            found.append(Factor(left, i, stride, j))
            i, j, stride = i - 1, j - 1, 1
            left, right = (old[i] if i >= 0 else None), (new[j] if j >= 0 else None)
        elif by is not None and by > 0 and (rest := divided(left, right, at)) is not None:
            found.append(Factor(right, i, stride, j))
            left, stride, j = rest, stride * by, j - 1
            right = new[j] if j >= 0 else None
        elif (rest := quotient(right, left)) is not None:
            found.append(Factor(left, i, stride, j))
            right, stride, i = rest, 1, i - 1
            left = old[i] if i >= 0 else None
        else:
            return None
    return None if left is not None or right is not None else found[::-1]


@dataclass
class Group:
    """What becomes of one factor group: the axes of its new dimensions, the old coordinates.

    Coordinates are in the positions of ``dimensions``, counted through in order.
    """

    dimensions: list[list[AxisAttr]] = field(default_factory=list[list[AxisAttr]])
    coordinates: list[AffineExpr] = field(default_factory=list[AffineExpr])


class IndexReshape(IndexRule):
    """A reshape reads each factor group by itself; factors that stay whole keep their ids."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tiny.ReshapeOp, rewriter: PatternRewriter) -> None:
        if done(op):
            return
        before = entry_of(op.operand, op).by_dimension
        new = tiny.tensor_of(op.result).dims
        groups = factor_groups(tiny.tensor_of(op.operand).dims, new, op)
        assert groups is not None, "a verified reshape keeps the number of elements"
        dimensions: list[list[AxisAttr]] = []
        results: list[AffineExpr] = []
        for left, right in groups:
            old = [axis for i in left for axis in before[i]]
            found = self._group(op, [before[i] for i in left], [new[j] for j in right])
            if found is None and product(new).constant() == 0:
                # There is no element: any map is right.
                dimensions = [self.axes(op, [size]) for size in new]
                results = [ZERO] * sum(map(len, before))
                break
            if found is None:
                target = " x ".join(str(new[j]) for j in right)
                reason = (
                    f"a reshape of {product_text(old)} to {target} divides by a symbol, which is a "
                    "view of memory and not affine"
                )
                not_affine(self, op, reason, rewriter)
                return
            first = sum(map(len, dimensions))
            shift = [AffineDimExpr(first + i) for i in range(sum(map(len, found.dimensions)))]
            results += [e.replace_dims_and_symbols(shift, ()) for e in found.coordinates]
            dimensions += found.dimensions
        placed = Placed.of(dimensions)
        names = symbol_names(op)
        whole = isl.canonical_map(AffineMap(len(placed.axes), len(names), tuple(results)))
        write(rewriter, op, placed, [isl.simplify_map(whole, box(placed.sizes, names))])

    def _group(
        self, op: Operation, before: Sequence[Sequence[AxisAttr]], new: Sequence[Dim]
    ) -> Group | None:
        if len(before) == len(new) == 1:
            kept = resized(before[0], new[0])
            return Group([kept], [AffineDimExpr(i) for i in range(len(kept))])
        old = [axis for dimension in before for axis in dimension]
        kind: AxisKind = "broadcast" if all(a.repeats for a in old) else "iter"
        places = range(len(new))
        if (linear := regroup([a.dim for a in old], new, places)) is not None:
            return Group([self.axes(op, [size], [kind]) for size in new], linear)
        wide = [i for i, a in enumerate(old) if a.dim.constant() != 1]
        targets = [j for j, size in enumerate(new) if size.constant() != 1]
        factors = common_factors([old[i].dim for i in wide], [new[j] for j in targets], op)
        if factors is None:
            return None
        found = Group([], [ZERO] * len(old))
        for j, size in enumerate(new):
            first = sum(map(len, found.dimensions))
            own = [f for f in factors if targets[f.new] == j]
            axes: list[AxisAttr] = []
            for run in merged(own):
                position: AffineExpr = AffineDimExpr(first + len(axes))
                for factor, part in zip(run, split(position, run), strict=True):
                    at = wide[factor.old]
                    found.coordinates[at] = found.coordinates[at] + part * factor.stride
                axes.append(self._axis(op, run, old[wide[run[0].old]]))
            found.dimensions.append(axes or self.axes(op, [size], [kind]))
        return found

    def _axis(self, op: Operation, run: Sequence[Factor], old: AxisAttr) -> AxisAttr:
        """The axis of a run of factors: the old one itself where it is that whole axis."""
        size = product(f.size for f in run)
        if len(run) == 1 and run[0].stride == 1 and size == old.dim:
            return old
        kind: AxisKind = "broadcast" if len(run) == 1 and old.repeats else "iter"
        return self.axes(op, [size], [kind])[0]


def merged(factors: Sequence[Factor]) -> list[list[Factor]]:
    """Runs of factors that are one axis each: what stands inside of a number can be split off."""
    runs: list[list[Factor]] = []
    for factor in factors:
        if runs and factor.size.constant() is not None:
            runs[-1].append(factor)
        else:
            runs.append([factor])
    return runs


def split(position: AffineExpr, run: Sequence[Factor]) -> list[AffineExpr]:
    """The coordinates of a run's factors in the axis ``position`` that they make together."""
    parts: list[AffineExpr] = []
    for factor in reversed(run[1:]):
        extent = factor.size.constant()
        assert extent is not None
        outer = position // extent if extent else ZERO
        parts.insert(0, position - outer * extent)
        position = outer
    return [position, *parts]


def regroup(
    old: Sequence[Dim], new: Sequence[Dim], positions: Sequence[int]
) -> list[AffineExpr] | None:
    """The coordinates in a shape ``old`` of an element of the shape ``new``.

    ``positions`` are the dimensions that stand for the axes of ``new``.  None where a stride is
    not a constant.
    """
    linear: AffineExpr = ZERO
    first = True
    for size, position in zip(new, positions, strict=True):
        extent = size.constant()
        if extent == 1:
            continue
        if first:
            linear, first = AffineDimExpr(position), False
        elif extent is None:
            return None
        else:
            linear = linear * extent + AffineDimExpr(position)
    found: list[AffineExpr] = [ZERO] * len(old)
    wide = [i for i, size in enumerate(old) if size.constant() != 1]
    for i in reversed(wide[1:]):
        extent = old[i].constant()
        if extent is None:
            return None
        if extent == 0:
            return found
        quotient = linear // extent
        found[i] = linear - quotient * extent
        linear = quotient
    if wide:
        found[wide[0]] = linear
    return found
