"""Questions about sizes inside a graph: signs, quotients, and the groups of a reshape.

All are asked under the assumptions of the graph around an op, with every symbol 0 or
more (S2.1, S2.3).  What is beyond isl, a product of symbols, is answered by its canonical
form alone; a "no" then means "not known".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce

from xdsl.ir import Operation
from xdsl.ir.affine import (
    AffineConstantExpr,
    AffineConstraintExpr,
    AffineConstraintKind,
    AffineSet,
)
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.common.dim import Assumption, Dim, Shape
from polyc.dialects.common.signature import graph_of, same_size
from polyc.dialects.common.sized_tensor import symbol_space


def product(sizes: Iterable[Dim]) -> Dim:
    """The number of elements of a shape; 1 for rank 0."""
    return reduce(lambda a, b: a * b, sizes, Dim.const(1))


def quotient(a: Dim, b: Dim) -> Dim | None:
    """``q`` with ``a = q * b`` for all symbols, where the canonical forms show it.

    0 divides nothing.  A division of polynomials, whose terms stand in an order that products keep:
    by degree, then by the atoms.
    """
    if not b.terms:
        return None
    (factors, scale), rest, found = b.terms[0], a, Dim.const(0)
    while rest.terms:
        mono, coef = rest.terms[0]
        left = list(mono)
        for factor in factors:
            if factor not in left:
                return None
            left.remove(factor)
        if coef % scale:
            return None
        term = Dim(((tuple(left), coef // scale),))
        found, rest = found + term, rest - term * b
    return found


def inferred(infer: Callable[[], Shape]) -> Shape:
    """The shape that a constructor infers; that of a scalar where its arguments fit no result.

    The op is then made all the same, and its verifier says, with the values, what does not fit: a
    constructor that raised would say it as an index out of range.
    """
    try:
        return infer()
    except (IndexError, ValueError, ZeroDivisionError):
        return ()


def window_count(size: Dim, window: Dim, stride: int, dilation: int) -> Dim:
    """How many windows fit: ``(size - dilation * (window - 1) - 1) floordiv stride + 1`` (S4.9)."""
    return (size - (window - 1) * dilation - 1).floordiv(stride) + 1


def divided(a: Dim, b: Dim, at: Operation) -> Dim | None:
    """``a / b`` where it comes out even for all sizes that the assumptions allow, else None.

    Of nothing in 0 groups each one, as there is none, has 1.
    """
    if a.constant() == b.constant() == 0:
        return Dim.const(1)
    if (found := quotient(a, b)) is not None:
        return found
    by = b.constant()
    if by is None or by <= 0:
        return None
    whole = a.floordiv(by)
    return whole if same_size(whole * by, a, at) else None


def _plainly_natural(size: Dim) -> bool:
    """Whether the canonical form alone says that ``size`` is 0 or more."""
    return all(
        coef > 0
        and all(isinstance(a, str) or a.kind == "mod" or _plainly_natural(a.num) for a in mono)
        for mono, coef in size.terms
    )


def never_negative(size: Dim, at: Operation, given: Sequence[Dim] = ()) -> bool:
    """Whether ``size`` is 0 or more, wherever ``given`` are too, in the graph around ``at``."""
    if (value := size.constant()) is not None and value >= 0:
        return True
    if _plainly_natural(size):
        return True
    graph = graph_of(at)
    facts = () if graph is None else graph.facts
    known = () if graph is None else graph.symbol_names
    mentioned = (s for d in (size, *given) for s in d.symbols())
    names = tuple(dict.fromkeys((*known, *mentioned)))
    expr = size.as_affine(names)
    if expr is None:
        return False
    from polyc.affine.isl import implies

    conclusion = AffineSet(
        0,
        len(names),
        (AffineConstraintExpr(AffineConstraintKind.ge, expr, AffineConstantExpr(0)),),
    )
    return implies(symbol_space(names, (*facts, *(Assumption(g, ">=") for g in given))), conclusion)


def verify_known(op: Operation, sizes: Iterable[Dim], what: str) -> None:
    """Check that ``sizes``, which are ``what`` of ``op``, use symbols of the signature only."""
    graph = graph_of(op)
    if graph is None:
        return
    known = graph.symbol_names
    for size in sizes:
        for name in size.symbols():
            if name not in known:
                raise VerifyException(
                    f"symbol {name} in {what} is not in the signature of "
                    f"@{graph.sym_name.data}, whose symbols are {', '.join(known) or 'none'}; "
                    "use one of these or add an input that has it"
                )


Group = tuple[tuple[int, ...], tuple[int, ...]]
"""Positions in two shapes whose sizes multiply to the same number."""


def factor_groups(a: Shape, b: Shape, at: Operation) -> tuple[Group, ...] | None:
    """The finest groups of neighbouring axes of ``a`` and ``b`` with equal products (S4.7).

    A reshape from ``a`` to ``b`` keeps to the groups: it linearises the axes of one on the
    left and splits the result into those on the right.  None when the numbers of elements
    are not equal.  A group may have no axis on one side, sizes 1 on the other.
    """
    groups: list[Group] = []
    i = j = 0
    while i < len(a) or j < len(b):
        found = _next_group(a, b, i, j, at)
        if found is None:
            # A number of elements that is 0 factors in no other way.
            whole = (product(a), product(b))
            if not all(p.constant() == 0 for p in whole):
                return None
            return ((tuple(range(len(a))), tuple(range(len(b)))),)
        groups.append((tuple(range(i, found[0])), tuple(range(j, found[1]))))
        i, j = found
    return tuple(groups)


def _next_group(a: Shape, b: Shape, i: int, j: int, at: Operation) -> tuple[int, int] | None:
    """The ends of the first group from axes ``i`` and ``j``."""
    left = [product(a[i:end]) for end in range(i, len(a) + 1)]
    right = [product(b[j:end]) for end in range(j, len(b) + 1)]
    for total in range(1, len(left) + len(right) - 1):
        for p in range(max(0, total - len(right) + 1), min(total, len(left) - 1) + 1):
            if same_size(left[p], right[total - p], at):
                return i + p, j + total - p
    return None
