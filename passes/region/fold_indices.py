"""``region-fold-indices``: integers that are affine in a point's place, as one index.

What a resize weighs its elements by is a rest, ``(2 * i + 3) mod 4``, which a graph says as ops on
a row of numbers.  As one ``region.index`` it is an affine expression, of which a kernel knows what
is the same for all threads, as it does of places.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.affine.expressions import Floor, Linear, expr_of, linear_of
from polyc.dialects import region
from polyc.dialects.common.elements import bounds, is_integer
from polyc.rewriting.driver import located, rewrite
from polyc.rewriting.region.building import erase_unused, type_of
from polyc.rewriting.region.views import behind_views, constant_of

FOLDED = ("add", "sub", "mul", "mod")
"""Functions of an index and a number, or, to add and subtract, of two indices."""


class FoldIndex(RewritePattern):
    """A rest of an index by a number, and what is made of one → one index.

    Legality: exact.  Sums and products wrap as an index does that is beyond its type.  A rest is by
    a number above 0, as ``docs/semantics.md`` has it with the divisor's sign, of an index that
    does not wrap: all its axes have known sizes, between which it stays within its type.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: region.BinaryOp, rewriter: PatternRewriter, /) -> None:
        if op.fn.data not in FOLDED or not is_integer(op.result.type.element_type):
            return
        kernel = region.kernel_of(op)
        sides = [behind_views(v).owner for v in (op.lhs, op.rhs)]
        begun = any(isinstance(side, region.IndexOp) and _has_floor(side.expr) for side in sides)
        if kernel is None or (op.fn.data != "mod" and not begun):
            return
        found = _folded(op)
        if found is None:
            return
        axes, symbols = op.result.type.axes.data, len(kernel.symbol_names)
        map_of = AffineMap(len(axes), symbols, (found,))
        new = region.IndexOp(map_of, axes, op.result.type.element_type)
        new.result.name_hint = op.result.name_hint
        operands = list(op.operands)
        rewriter.replace(op, [located(new, op)])
        for value in operands:
            if isinstance(value.owner, Operation) and not value.uses:
                erase_unused(value.owner, rewriter)


def _has_floor(expr: AffineExpr) -> bool:
    return any(isinstance(atom, Floor) for atom, _ in linear_of(expr).terms)


def _folded(op: region.BinaryOp) -> AffineExpr | None:
    """What an op gives as an affine expression of its axes; None where it is none."""
    lhs, rhs = (_index(v, op.result.type.labels) for v in (op.lhs, op.rhs))
    left, right = (constant_of(v) for v in (op.lhs, op.rhs))
    match op.fn.data:
        case "mod":
            if lhs is None or right is None or right <= 0 or not _stays(op.lhs):
                return None
            by = int(right)
            whole = linear_of(lhs)
            # e mod q is e - q * (e floordiv q).
            return expr_of(whole.plus(whole.floordiv(by).times(-by)))
        case "mul":
            index, number = (lhs, right) if lhs is not None else (rhs, left)
            if index is None or number is None:
                return None
            return expr_of(linear_of(index).times(int(number)))
        case _:
            parts = [
                index if index is not None else number
                for index, number in ((lhs, left), (rhs, right))
            ]
            if any(part is None for part in parts) or (lhs is None and rhs is None):
                return None
            first, second = (
                linear_of(p) if isinstance(p, AffineExpr) else Linear((), int(p or 0))
                for p in parts
            )
            return expr_of(first.plus(second.times(1 if op.fn.data == "add" else -1)))


def _index(value: SSAValue, labels: tuple[str, ...]) -> AffineExpr | None:
    """The expression of a value that is an index, over other axes of the same names."""
    owner = behind_views(value).owner
    if not isinstance(owner, region.IndexOp):
        return None
    own = owner.result.type.labels
    if not set(own) <= set(labels):
        return None
    dims = [AffineDimExpr(labels.index(label)) for label in own]
    used = owner.map.data
    symbols = [AffineExpr.symbol(i) for i in range(used.num_symbols)]
    return owner.expr.replace_dims_and_symbols(dims, symbols)


def _stays(value: SSAValue) -> bool:
    """Whether an index is within its type at all points."""
    owner = behind_views(value).owner
    assert isinstance(owner, region.IndexOp)
    sizes = [size.constant() for size in owner.result.type.shape]
    ends = _ends(linear_of(owner.expr), sizes)
    least, most = bounds(type_of(owner.result).element_type)
    return ends is not None and least <= ends[0] and ends[1] <= most


def _ends(whole: Linear, sizes: list[int | None]) -> tuple[int, int] | None:
    """The least and the largest that an expression may be; None where that is not known."""
    low = high = whole.constant
    for atom, times in whole.terms:
        if isinstance(atom, Floor):
            inner = _ends(atom.num, sizes)
            if inner is None:
                return None
            one = (inner[0] // atom.den, inner[1] // atom.den)
        else:
            kind, number = atom
            size = sizes[number] if kind == "d" else None
            if not size:
                return None
            one = (0, size - 1)
        found = sorted(times * end for end in one)
        low, high = low + found[0], high + found[1]
    return low, high


def fold_indices(module: ModuleOp) -> None:
    """Fold all of a module's; ``index-to-region`` asks what it takes so."""
    rewrite(module, [FoldIndex()])


@dataclass(frozen=True)
class RegionFoldIndices(ModulePass):
    """Make one index of integers that are affine in a point's place."""

    name = "region-fold-indices"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        fold_indices(op)
