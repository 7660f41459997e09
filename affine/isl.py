"""The one door to isl: affine attributes in, attributes and answers out (S5.3).

Nothing outside this module sees an isl object.  Maps and sets are xDSL's
``AffineMap`` and ``AffineSet``; their symbols are aligned by position (S4.8), and
every question is asked for symbols that are all non-negative, which sizes are.

Each thread has one isl context of its own.  Each question runs under an operation
limit (``MAX_OPERATIONS``, or ``limited``) and raises ``IslLimitExceeded`` beyond it,
which callers turn into a diagnostic.  islpy is imported at the first question, so
importing this module costs nothing.

The canonical spelling of expressions is in ``affine/expressions.py``, whose public names are
offered here as well.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from functools import lru_cache, wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from xdsl.ir.affine import (
    AffineConstantExpr,
    AffineConstraintExpr,
    AffineConstraintKind,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
    AffineSet,
    AffineSymExpr,
)

from polyc.affine.expressions import (
    Atom,
    Floor,
    Linear,
    canonical_expr,
    canonical_map,
    canonical_set,
    constraint_of,
    expr_of,
    expr_text,
    linear_of,
    rows_of,
    tightest,
    uses_dim,
)

if TYPE_CHECKING:
    import islpy as isl

__all__ = [
    "MAX_OPERATIONS",
    "IslLimitExceeded",
    "all_zero",
    "canonical_expr",
    "canonical_map",
    "canonical_set",
    "covers",
    "dims_equal",
    "empty_set",
    "expr_text",
    "greatest",
    "image_within",
    "implies",
    "is_empty",
    "limited",
    "map_text",
    "map_uses_dim",
    "maps_equal",
    "sample_point",
    "set_equal",
    "set_text",
    "sets_disjoint",
    "simplify_map",
    "simplify_pieces",
    "simplify_set",
    "tightest",
    "uses_dim",
]

MAX_OPERATIONS = 2_000_000
"""isl operations that one question may take; about a second of work."""

Answer = TypeVar("Answer")
Args = ParamSpec("Args")


class IslLimitExceeded(Exception):
    """A question to isl took more than its operation limit, or isl refused it."""


# The context and its limit --------------------------------------------------------------


class _Local(threading.local):
    """A thread's context, made at its first question, and its limit.

    ``signs`` are the sets of a space's points whose symbols are not negative.
    """

    def __init__(self) -> None:
        self.context: isl.Context | None = None
        self.operations = MAX_OPERATIONS
        self.signs: dict[tuple[int, int], isl.Set] = {}
        self.depth = 0


_local = _Local()


def _context() -> isl.Context:
    context = _local.context
    if context is None:
        import islpy as isl

        context = _local.context = isl.Context()
    return context


@contextmanager
def limited(operations: int) -> Generator[None]:
    """Questions in this thread take at most ``operations`` isl operations each."""
    before, _local.operations = _local.operations, operations
    try:
        yield
    finally:
        _local.operations = before


def _question(function: Callable[Args, Answer]) -> Callable[Args, Answer]:
    """Run under the limit; an isl error becomes IslLimitExceeded holding no isl object.

    The new exception is raised outside the handler, so that no traceback keeps frames
    (and with them isl objects of this thread's context) alive elsewhere.
    """

    @wraps(function)
    def ask(*args: Args.args, **kwargs: Args.kwargs) -> Answer:
        import islpy as isl

        if _local.depth:
            return function(*args, **kwargs)
        context = _context()
        context.reset_operations()
        context.set_max_operations(_local.operations)
        _local.depth = 1
        try:
            return function(*args, **kwargs)
        except isl.Error as error:
            reason = str(error)
        finally:
            _local.depth = 0
            context.set_max_operations(0)
            context.resume()
        if "quota" in reason or "exceeded" in reason or "abort" in reason:
            reason = f"it takes more than {_local.operations} isl operations"
        raise IslLimitExceeded(f"isl could not answer {function.__name__}: {reason}")

    return ask


# Attributes to isl and back -------------------------------------------------------------


def _space(n_dims: int, n_symbols: int) -> isl.Space:
    import islpy as isl

    space = isl.Space.set_alloc(_context(), n_symbols, n_dims)
    for i in range(n_symbols):
        space = space.set_dim_name(isl.dim_type.param, i, f"s{i}")
    return space


def _val(value: int) -> isl.Val:
    import islpy as isl

    if -(2**62) < value < 2**62:
        return isl.Val.int_from_si(_context(), value)
    return isl.Val.read_from_str(_context(), str(value))


def _aff(linear: Linear, local: isl.LocalSpace) -> isl.Aff:
    import islpy as isl

    aff = isl.Aff.zero_on_domain(local).set_constant_val(_val(linear.constant))
    floors: list[isl.Aff] = []
    for atom, coef in linear.terms:
        if isinstance(atom, Floor):
            part = _aff(atom.num, local).scale_down_val(_val(atom.den)).floor()
            floors.append(part.scale_val(_val(coef)))
        else:
            kind = isl.dim_type.in_ if atom[0] == "d" else isl.dim_type.param
            aff = aff.set_coefficient_val(kind, atom[1], _val(coef))
    for part in floors:
        aff = aff.add(part)
    return aff


def _bare_set(points: AffineSet) -> isl.Set:
    """The set as written, for any sign of the symbols."""
    import islpy as isl

    space = _space(points.num_dims, points.num_symbols)
    local = isl.LocalSpace.from_space(space)
    whole = isl.BasicSet.universe(space).to_set()
    for linear, equality in rows_of(points):
        aff = _aff(linear, local)
        zero = isl.Aff.zero_on_domain(local)
        part = aff.eq_basic_set(zero) if equality else aff.ge_basic_set(zero)
        whole = whole.intersect(part.to_set())
    return whole


def _symbols_set(n_dims: int, n_symbols: int, assumptions: AffineSet | None) -> isl.Set:
    """The points of a space where symbols are >= 0 and the assumptions hold."""
    facts = list(assumptions.constraints) if assumptions is not None else []
    if assumptions is not None and assumptions.num_symbols > n_symbols:
        raise ValueError(
            f"assumptions over {assumptions.num_symbols} symbols on {n_symbols} symbols"
        )
    facts += [
        AffineConstraintExpr(AffineConstraintKind.ge, AffineSymExpr(i), AffineConstantExpr(0))
        for i in range(n_symbols)
    ]
    return _bare_set(AffineSet(n_dims, n_symbols, tuple(facts)))


def _set(points: AffineSet) -> isl.Set:
    """The set, its symbols non-negative."""
    space = (points.num_dims, points.num_symbols)
    signs = _local.signs.get(space)
    if signs is None:
        signs = _local.signs[space] = _symbols_set(*space, None)
    return _bare_set(points).intersect(signs)


def _map_space(map: AffineMap) -> isl.Space:
    import islpy as isl

    space = isl.Space.alloc(_context(), map.num_symbols, map.num_dims, len(map.results))
    for i in range(map.num_symbols):
        space = space.set_dim_name(isl.dim_type.param, i, f"s{i}")
    return space


def _multi_aff(map: AffineMap) -> isl.MultiAff:
    import islpy as isl

    local = isl.LocalSpace.from_space(_space(map.num_dims, map.num_symbols))
    parts = isl.AffList.alloc(_context(), len(map.results))
    for expr in map.results:
        parts = parts.add(_aff(linear_of(expr), local))
    return isl.MultiAff.from_aff_list(_map_space(map), parts)


def _map(map: AffineMap) -> isl.Map:
    import islpy as isl

    return isl.Map.from_multi_aff(_multi_aff(map))


def _integer(value: isl.Val) -> int:
    return int(value.to_str())


def _from_aff(aff: isl.Aff) -> tuple[Linear, int]:
    """``(numerator, denominator)`` of an isl expression over a set's dimensions."""
    import islpy as isl

    den = _integer(aff.get_denominator_val())
    scaled = aff.scale_val(_val(den))
    total = Linear((), _integer(scaled.get_constant_val()))
    for kind, name in ((isl.dim_type.in_, "d"), (isl.dim_type.param, "s")):
        for i in range(aff.dim(kind)):
            coef = _integer(scaled.get_coefficient_val(kind, i))
            if coef:
                atom: Atom = ("d", i) if name == "d" else ("s", i)
                total = total.plus(Linear(((atom, coef),), 0))
    for i in range(scaled.dim(isl.dim_type.div)):
        coef = _integer(scaled.get_coefficient_val(isl.dim_type.div, i))
        if coef:
            num, floor_den = _from_aff(scaled.get_div(i))
            total = total.plus(num.floordiv(floor_den).times(coef))
    return total, den


def _from_integer_aff(aff: isl.Aff) -> Linear:
    """An isl expression that is an integer wherever it is used."""
    num, den = _from_aff(aff)
    return num.floordiv(den) if den != 1 else num


def _from_set(points: isl.Set, n_dims: int, n_symbols: int) -> tuple[AffineSet, ...]:
    """The convex pieces of an isl set, quantifiers written as ``floordiv``."""
    pieces: list[AffineSet] = []
    universe = _universe(n_dims, n_symbols)
    for basic in points.compute_divs().get_basic_sets():
        rows: list[tuple[tuple[object, ...], AffineConstraintExpr]] = []
        for constraint in basic.remove_redundancies().get_constraints():
            linear, _ = _from_aff(constraint.get_aff())
            row = constraint_of(linear, constraint.is_equality())
            here = AffineSet(n_dims, n_symbols, (row,))
            # The bounds that define a floor hold everywhere and say nothing.
            if linear.terms and not universe.is_subset(_bare_set(here)):
                rows.append(((not constraint.is_equality(), linear.key()), row))
        rows.sort(key=lambda r: r[0])
        pieces.append(AffineSet(n_dims, n_symbols, tuple(r for _, r in rows)))
    pieces.sort(key=str)
    return tuple(pieces)


def _universe(n_dims: int, n_symbols: int) -> isl.Set:
    import islpy as isl

    return isl.Set.universe(_space(n_dims, n_symbols))


def _aligned(*spaces: AffineSet | AffineMap) -> None:
    first = spaces[0]
    for other in spaces[1:]:
        if (other.num_dims, other.num_symbols) != (first.num_dims, first.num_symbols):
            raise ValueError(f"{first} and {other} are not over the same dimensions and symbols")


# Questions on sets ----------------------------------------------------------------------


@lru_cache(maxsize=4096)
@_question
def is_empty(points: AffineSet) -> bool:
    """Whether no values of the symbols (all >= 0) give the set a point."""
    return _set(points).is_empty()


@lru_cache(maxsize=4096)
@_question
def implies(assumptions: AffineSet, conclusion: AffineSet) -> bool:
    """Whether every point of ``assumptions`` is in ``conclusion``.

    Facts about symbols alone (``num_dims == 0``) may be asked about a set with
    dimensions; they then hold for every point.
    """
    if not assumptions.num_dims:
        known = _symbols_set(conclusion.num_dims, conclusion.num_symbols, assumptions)
        return known.is_subset(_bare_set(conclusion))
    _aligned(assumptions, conclusion)
    return _set(assumptions).is_subset(_bare_set(conclusion))


@lru_cache(maxsize=4096)
@_question
def sets_disjoint(a: AffineSet, b: AffineSet) -> bool:
    """Whether no values of the symbols give ``a`` and ``b`` a common point."""
    _aligned(a, b)
    return _set(a).is_disjoint(_set(b))


@lru_cache(maxsize=4096)
@_question
def set_equal(a: AffineSet, b: AffineSet) -> bool:
    """Whether ``a`` and ``b`` hold the same points for all values of the symbols."""
    _aligned(a, b)
    return _set(a).is_equal(_set(b))


@lru_cache(maxsize=4096)
@_question
def covers(whole: AffineSet, pieces: tuple[AffineSet, ...]) -> bool:
    """Whether the union of ``pieces`` is exactly ``whole``."""
    total = _set(whole).subtract(_set(whole))
    for piece in pieces:
        _aligned(whole, piece)
        total = total.union(_set(piece))
    return total.is_equal(_set(whole))


@lru_cache(maxsize=4096)
@_question
def simplify_set(points: AffineSet, context: AffineSet | None = None) -> AffineSet:
    """``points`` without what ``context`` (and symbols >= 0) already says.

    The result agrees with ``points`` inside the context.  An empty set is ``-1 >= 0``.
    """
    known = _symbols_set(points.num_dims, points.num_symbols, None)
    if context is not None:
        _aligned(points, context)
        known = known.intersect(_bare_set(context))
    inside = _bare_set(points).intersect(known)
    if inside.is_empty():
        return empty_set(points.num_dims, points.num_symbols)
    simple = inside.coalesce().gist(known).coalesce()
    pieces = _from_set(simple, points.num_dims, points.num_symbols)
    return pieces[0] if len(pieces) == 1 else canonical_set(points)


def empty_set(n_dims: int, n_symbols: int) -> AffineSet:
    """The set with no points, ``-1 >= 0``."""
    return AffineSet(n_dims, n_symbols, (constraint_of(Linear((), -1), False),))


@lru_cache(maxsize=4096)
@_question
def simplify_pieces(
    pieces: tuple[AffineSet, ...], context: AffineSet | None = None
) -> tuple[AffineSet, ...]:
    """The union of ``pieces``, coalesced, as disjoint convex pieces in a fixed order."""
    if not pieces:
        return ()
    n_dims, n_symbols = pieces[0].num_dims, pieces[0].num_symbols
    _aligned(*pieces)
    known = _symbols_set(n_dims, n_symbols, None)
    if context is not None:
        _aligned(pieces[0], context)
        known = known.intersect(_bare_set(context))
    total = _set(pieces[0])
    for piece in pieces[1:]:
        total = total.union(_set(piece))
    total = total.intersect(known).coalesce()
    if total.is_empty():
        return ()
    return _from_set(total.make_disjoint().gist(known).coalesce(), n_dims, n_symbols)


@lru_cache(maxsize=4096)
@_question
def sample_point(points: AffineSet) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """A point ``(dims, symbols)`` of the set with symbols >= 0, or None when empty."""
    import islpy as isl

    n_dims, n_symbols = points.num_dims, points.num_symbols
    flat = _set(points).move_dims(isl.dim_type.set, n_dims, isl.dim_type.param, 0, n_symbols)
    if flat.is_empty():
        return None
    point = flat.sample_point()
    values = [
        _integer(point.get_coordinate_val(isl.dim_type.set, i)) for i in range(n_dims + n_symbols)
    ]
    return tuple(values[:n_dims]), tuple(values[n_dims:])


@lru_cache(maxsize=4096)
@_question
def greatest(points: AffineSet, expr: AffineExpr) -> int | None:
    """The largest value of ``expr`` on a set, over all symbols; None where it has no bound.

    Raises ValueError when the set is empty.
    """
    import islpy as isl

    local = isl.LocalSpace.from_space(_space(points.num_dims, points.num_symbols))
    found = _set(points).max_val(_aff(linear_of(expr), local))
    if found.is_nan():
        raise ValueError(f"{points} is empty and has no greatest {expr}")
    return None if found.is_infty() else _integer(found)


# Questions on sizes and maps ------------------------------------------------------------


def dims_equal(
    a: AffineExpr, b: AffineExpr, n_symbols: int, assumptions: AffineSet | None = None
) -> bool:
    """Whether two sizes over ``s0 … s<n-1>`` are equal wherever the assumptions hold."""
    difference = linear_of(a).plus(linear_of(b).times(-1))
    if not difference.terms:
        return difference.constant == 0
    equal = AffineSet(0, n_symbols, (constraint_of(difference, True),))
    return implies(assumptions or AffineSet(0, n_symbols, ()), equal)


@lru_cache(maxsize=4096)
@_question
def maps_equal(a: AffineMap, b: AffineMap, domain: AffineSet) -> bool:
    """Whether ``a`` and ``b`` agree on every point of ``domain``."""
    _aligned(a, b, domain)
    if len(a.results) != len(b.results):
        return False
    points = _set(domain)
    return _map(a).intersect_domain(points).is_equal(_map(b).intersect_domain(points))


@lru_cache(maxsize=4096)
@_question
def image_within(map: AffineMap, domain: AffineSet, target: AffineSet) -> bool:
    """Whether ``map`` takes every point of ``domain`` into ``target``."""
    _aligned(map, domain)
    return _set(domain).apply(_map(map)).is_subset(_bare_set(target))


def all_zero(exprs: Iterable[AffineExpr], domain: AffineSet) -> bool:
    """Whether every expression is 0 on every point of ``domain``.

    What the spelling shows is not asked: isl gets the expressions that are neither 0 nor
    another constant in canonical form.
    """
    asked: list[AffineExpr] = []
    for expr in exprs:
        linear = linear_of(expr)
        if linear.terms:
            asked.append(expr)
        elif linear.constant:
            return not _has_origin(domain) and is_empty(domain)
    if not asked:
        return True
    equalities = [
        AffineConstraintExpr(AffineConstraintKind.eq, AffineDimExpr(i), AffineConstantExpr(0))
        for i in range(len(asked))
    ]
    return image_within(
        AffineMap(domain.num_dims, domain.num_symbols, tuple(asked)),
        domain,
        AffineSet(len(asked), domain.num_symbols, tuple(equalities)),
    )


def _has_origin(points: AffineSet) -> bool:
    """Whether the point with all dimensions and symbols 0 is one of ``points``."""
    at = ([0] * points.num_dims, [0] * points.num_symbols)
    for row in points.constraints:
        difference = row.lhs.eval(*at) - row.rhs.eval(*at)
        match row.kind:
            case AffineConstraintKind.eq:
                holds = difference == 0
            case AffineConstraintKind.ge:
                holds = difference >= 0
            case AffineConstraintKind.le:
                holds = difference <= 0
        if not holds:
            return False
    return True


@lru_cache(maxsize=4096)
@_question
def map_uses_dim(map: AffineMap, dim: int, domain: AffineSet) -> bool:
    """Whether some result differs between two points of ``domain`` that differ in ``dim`` alone.

    Raises IndexError when the map has no such dimension.
    """
    import islpy as isl

    if not 0 <= dim < map.num_dims:
        raise IndexError(f"{map} has no dimension {dim}")
    _aligned(map, domain)
    if not any(uses_dim(expr, dim) for expr in map.results):
        return False
    points = _set(domain)
    identity = AffineMap.identity(map.num_dims)
    others = AffineMap(
        map.num_dims,
        map.num_symbols,
        tuple(e for i, e in enumerate(identity.results) if i != dim),
    )
    rest = _map(others)
    neighbours = rest.apply_range(rest.reverse())
    neighbours = neighbours.intersect_domain(points).intersect_range(points)
    accesses = _map(map)
    same = accesses.apply_range(accesses.reverse())
    assert isinstance(neighbours, isl.Map)
    return not neighbours.is_subset(same)


@lru_cache(maxsize=4096)
@_question
def simplify_map(map: AffineMap, domain: AffineSet) -> AffineMap:
    """A map equal to ``map`` on ``domain``, with what the domain decides left out.

    Equalities of the domain are used up (isl's gist), and a ``floordiv`` that has one
    value on the domain becomes that value.  On an empty domain the map stays as it is.
    """
    import islpy as isl

    _aligned(map, domain)
    map = canonical_map(map)
    if not map.results:
        return map
    points = _set(domain)
    if points.is_empty():
        return map
    pieces = isl.PwMultiAff.from_multi_aff(_multi_aff(map)).gist(points).coalesce()
    if pieces.n_piece() != 1:
        return map
    found = pieces.as_multi_aff()
    linears = [_from_integer_aff(found.get_at(i)) for i in range(len(map.results))]
    local = isl.LocalSpace.from_space(_space(map.num_dims, map.num_symbols))
    return AffineMap(
        map.num_dims,
        map.num_symbols,
        tuple(expr_of(_without_constant_floors(e, points, local)) for e in linears),
    )


def _without_constant_floors(linear: Linear, points: isl.Set, local: isl.LocalSpace) -> Linear:
    import islpy as isl

    total = Linear((), linear.constant)
    for atom, coef in linear.terms:
        part = Linear(((atom, 1),), 0)
        if isinstance(atom, Floor):
            inner = _without_constant_floors(atom.num, points, local)
            part = inner.floordiv(atom.den)
            if part.terms:
                values = isl.Map.from_aff(_aff(part, local))
                image = points.apply(values)
                image = image.project_out(isl.dim_type.param, 0, image.dim(isl.dim_type.param))
                if image.is_singleton():
                    value = image.sample_point().get_coordinate_val(isl.dim_type.set, 0)
                    part = Linear((), _integer(value))
        total = total.plus(part.times(coef))
    return total


# Text ------------------------------------------------------------------------------------


@_question
def set_text(
    points: AffineSet, dims: Sequence[str], symbols: Sequence[str], *, bare: bool = False
) -> str:
    """The set in isl's notation with names: ``[M] -> { [m] : 0 <= m < M }``.

    ``bare`` leaves the list of symbols out.  Raises ValueError on a wrong count of names.
    """
    import islpy as isl

    _named(points, dims, symbols)
    named = _bare_set(points).coalesce().remove_redundancies()
    for i, name in enumerate(symbols):
        named = named.set_dim_name(isl.dim_type.param, i, name)
    for i, name in enumerate(dims):
        named = named.set_dim_name(isl.dim_type.set, i, name)
    return _bare_text(named.to_str()) if bare else named.to_str()


def map_text(
    map: AffineMap,
    dims: Sequence[str],
    symbols: Sequence[str],
    *,
    target: str = "",
    bare: bool = False,
) -> str:
    """The map in isl's notation with names: ``[M, K] -> { [m, k] -> A[m, k] }``.

    ``bare`` leaves the list of symbols out.  Raises ValueError on a wrong count of names.
    """
    _named(map, dims, symbols)
    results = ", ".join(expr_text(e, dims, symbols) for e in map.results)
    text = f"{{ [{', '.join(dims)}] -> {target}[{results}] }}"
    return text if bare or not symbols else f"[{', '.join(symbols)}] -> {text}"


def _named(over: AffineSet | AffineMap, dims: Sequence[str], symbols: Sequence[str]) -> None:
    if (len(dims), len(symbols)) != (over.num_dims, over.num_symbols):
        raise ValueError(
            f"{over} takes {over.num_dims} dimension and {over.num_symbols} symbol names, "
            f"not {len(dims)} and {len(symbols)}"
        )


def _bare_text(text: str) -> str:
    return text[text.index("{") :]
