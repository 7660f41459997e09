"""Affine expressions in one spelling: a sum of dims, symbols and ``floordiv`` terms.

``canonical_expr`` brings any quasi-affine expression to the form that the index book
holds (S4.2): no ``mod``, no ``ceildiv``, positive denominators reduced by the gcd.
Pure Python, no isl: equal spelling proves equality, and ``affine/isl.py`` decides the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import gcd
from typing import Literal

from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineConstraintExpr,
    AffineConstraintKind,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
    AffineSet,
    AffineSymExpr,
)


class NotAffine(ValueError):
    """An expression multiplies variables, or divides by something but a positive number."""


@dataclass(frozen=True, slots=True)
class Floor:
    """``floor(num / den)`` with ``den > 1`` and nothing left to take out or cancel."""

    num: Linear
    den: int

    def key(self) -> tuple[object, ...]:
        return (2, self.den, self.num.key())


Atom = tuple[Literal["d", "s"], int] | Floor


def atom_key(atom: Atom) -> tuple[object, ...]:
    if isinstance(atom, Floor):
        return atom.key()
    return (0 if atom[0] == "d" else 1, atom[1])


@dataclass(frozen=True, slots=True)
class Linear:
    """A sum of integer multiples of atoms (dims, symbols, floors) and a constant."""

    terms: tuple[tuple[Atom, int], ...]
    constant: int

    def key(self) -> tuple[object, ...]:
        return (tuple((atom_key(a), c) for a, c in self.terms), self.constant)

    @staticmethod
    def of(terms: Sequence[tuple[Atom, int]], constant: int) -> Linear:
        total: dict[Atom, int] = {}
        for atom, coef in terms:
            total[atom] = total.get(atom, 0) + coef
        kept = [(a, c) for a, c in total.items() if c]
        if len(kept) > 1:
            kept.sort(key=lambda t: atom_key(t[0]))
        return Linear(tuple(kept), constant)

    def plus(self, other: Linear) -> Linear:
        if not self.terms or not other.terms:
            return Linear(self.terms or other.terms, self.constant + other.constant)
        return Linear.of([*self.terms, *other.terms], self.constant + other.constant)

    def times(self, factor: int) -> Linear:
        return Linear.of([(a, c * factor) for a, c in self.terms], self.constant * factor)

    def floordiv(self, den: int) -> Linear:
        """Floor of the quotient: whole parts taken out, then reduced by the gcd."""
        whole: list[tuple[Atom, int]] = []
        rest: list[tuple[Atom, int]] = []
        for atom, coef in self.terms:
            quotient = abs(coef) // den * (1 if coef > 0 else -1)
            if quotient:
                whole.append((atom, quotient))
            if coef != quotient * den:
                rest.append((atom, coef - quotient * den))
        # What is left of sorted terms is sorted.
        out = Linear(tuple(whole), self.constant // den)
        num = Linear(tuple(rest), self.constant % den)
        if not num.terms:
            return out
        common = gcd(den, *(coef for _, coef in num.terms))
        if common > 1:
            # floor((g*x + c) / (g*q)) = floor((x + floor(c / g)) / q) for integer x.
            terms = tuple((a, c // common) for a, c in num.terms)
            return out.plus(Linear(terms, num.constant // common).floordiv(den // common))
        if len(num.terms) == 1 and not num.constant:
            atom, coef = num.terms[0]
            if coef == 1 and isinstance(atom, Floor):
                # floor(floor(x / a) / b) = floor(x / (a*b))
                return out.plus(atom.num.floordiv(atom.den * den))
        return out.plus(Linear(((Floor(num, den), 1),), 0))


@lru_cache(maxsize=16_384)
def linear_of(expr: AffineExpr) -> Linear:
    """The canonical sum of ``expr``; raises NotAffine where it is not quasi-affine."""
    terms: list[tuple[Atom, int]] = []
    constant = _add_terms(expr, 1, terms)
    return Linear.of(terms, constant)


def _add_terms(expr: AffineExpr, factor: int, terms: list[tuple[Atom, int]]) -> int:
    """Append the terms of ``factor * expr`` and return its constant."""
    # By type and not by ``match``, which asks abstract classes three times for most nodes.
    if type(expr) is AffineConstantExpr:
        return factor * expr.value
    if type(expr) is AffineDimExpr:
        terms.append((("d", expr.position), factor))
        return 0
    if type(expr) is AffineSymExpr:
        terms.append((("s", expr.position), factor))
        return 0
    if not isinstance(expr, AffineBinaryOpExpr):
        raise NotAffine(f"{expr} is not an affine expression")
    kind, lhs, rhs = expr.kind, expr.lhs, expr.rhs
    if kind is AffineBinaryOpKind.Add:
        return _add_terms(lhs, factor, terms) + _add_terms(rhs, factor, terms)
    if kind is AffineBinaryOpKind.Mul:
        if (times := _constant(rhs)) is not None:
            return _add_terms(lhs, factor * times, terms)
        if (times := _constant(lhs)) is not None:
            return _add_terms(rhs, factor * times, terms)
        raise NotAffine(f"{expr} multiplies two variables and is not affine")
    divisor = _constant(rhs)
    if divisor is None or divisor <= 0:
        raise NotAffine(f"the divisor of {expr} is not a positive integer constant")
    whole = linear_of(lhs)
    if kind is AffineBinaryOpKind.CeilDiv:
        whole = Linear(whole.terms, whole.constant + divisor - 1)
    quotient = whole.floordiv(divisor)
    if kind is not AffineBinaryOpKind.Mod:
        terms += [(atom, coef * factor) for atom, coef in quotient.terms]
        return factor * quotient.constant
    terms += [(atom, coef * factor) for atom, coef in whole.terms]
    terms += [(atom, -coef * factor * divisor) for atom, coef in quotient.terms]
    return factor * (whole.constant - divisor * quotient.constant)


def _constant(expr: AffineExpr) -> int | None:
    """The value of ``expr`` where no variable is left in it."""
    if type(expr) is AffineConstantExpr:
        return expr.value
    if type(expr) is AffineDimExpr or type(expr) is AffineSymExpr:
        return None
    whole = linear_of(expr)
    return None if whole.terms else whole.constant


def expr_of(linear: Linear) -> AffineExpr:
    """``linear`` as an expression: dims, symbols, floors, then the constant."""
    total: AffineExpr | None = None
    for atom, coef in linear.terms:
        term: AffineExpr
        if isinstance(atom, Floor):
            term = AffineBinaryOpExpr(
                AffineBinaryOpKind.FloorDiv, expr_of(atom.num), AffineConstantExpr(atom.den)
            )
        else:
            term = AffineDimExpr(atom[1]) if atom[0] == "d" else AffineSymExpr(atom[1])
        if coef != 1:
            term = AffineBinaryOpExpr(AffineBinaryOpKind.Mul, term, AffineConstantExpr(coef))
        total = term if total is None else AffineBinaryOpExpr(AffineBinaryOpKind.Add, total, term)
    constant = AffineConstantExpr(linear.constant)
    if total is None:
        return constant
    if linear.constant:
        return AffineBinaryOpExpr(AffineBinaryOpKind.Add, total, constant)
    return total


def canonical_expr(expr: AffineExpr) -> AffineExpr:
    """The one spelling of ``expr``: a sum over dims, symbols and ``floordiv`` terms.

    ``mod`` becomes ``e - q * (e floordiv q)`` and ``ceildiv`` a ``floordiv``;
    denominators are positive and reduced by the gcd (S4.2).  Equal spelling proves
    equality; the converse needs isl.  Raises ValueError on a product of variables or
    a divisor that is not a positive constant.
    """
    return expr_of(linear_of(expr))


def decided(expr: AffineExpr, sizes: Sequence[int | None]) -> AffineExpr:
    """``expr`` with each ``floordiv`` that has one value where dims are from 0 to below ``sizes``
    as that value; a size that is not known is None.

    Raises NotAffine where ``expr`` is not quasi-affine.
    """
    linear = linear_of(expr)
    found = _decided(linear, sizes)
    return expr if found == linear else expr_of(found)


def _decided(linear: Linear, sizes: Sequence[int | None]) -> Linear:
    total = Linear((), linear.constant)
    for atom, coef in linear.terms:
        if not isinstance(atom, Floor):
            total = total.plus(Linear(((atom, coef),), 0))
            continue
        inner = _decided(atom.num, sizes)
        ends = reach(inner, sizes)
        if ends is not None and ends[0] // atom.den == ends[1] // atom.den:
            total = total.plus(Linear((), coef * (ends[0] // atom.den)))
        else:
            total = total.plus(inner.floordiv(atom.den).times(coef))
    return total


def reach(linear: Linear, sizes: Sequence[int | None]) -> tuple[int, int] | None:
    """Numbers that a sum is between, where dims are below ``sizes``; None where that is open."""
    low = high = linear.constant
    for atom, coef in linear.terms:
        if isinstance(atom, Floor):
            inner = reach(atom.num, sizes)
            ends = None if inner is None else (inner[0] // atom.den, inner[1] // atom.den)
        else:
            size = sizes[atom[1]] if atom[0] == "d" else None
            ends = None if not size else (0, size - 1)
        if ends is None:
            return None
        low += coef * ends[coef < 0]
        high += coef * ends[coef > 0]
    return low, high


def nodes(exprs: Iterable[AffineExpr]) -> int:
    """How many constants, variables and operations some expressions are written with."""
    count, work = 0, list(exprs)
    while work:
        expr = work.pop()
        count += 1
        if isinstance(expr, AffineBinaryOpExpr):
            work += (expr.lhs, expr.rhs)
    return count


def depth(exprs: Iterable[AffineExpr]) -> int:
    """How many operations are inside of each other in some expressions, at most."""
    most, work = 0, [(expr, 0) for expr in exprs]
    while work:
        expr, level = work.pop()
        most = max(most, level)
        if isinstance(expr, AffineBinaryOpExpr):
            work += ((expr.lhs, level + 1), (expr.rhs, level + 1))
    return most


def canonical_map(map: AffineMap) -> AffineMap:
    """``map`` with each result in canonical form."""
    return AffineMap(map.num_dims, map.num_symbols, tuple(canonical_expr(e) for e in map.results))


def canonical_set(points: AffineSet) -> AffineSet:
    """``points`` with each constraint as ``canonical >= 0`` or ``canonical == 0``."""
    constraints = [
        constraint_of(linear, equality) for linear, equality in rows_of(points) if linear.terms
    ]
    falsified = [
        constraint_of(linear, equality)
        for linear, equality in rows_of(points)
        if not linear.terms and (linear.constant != 0 if equality else linear.constant < 0)
    ]
    kept = tuple(dict.fromkeys(falsified or constraints))
    return AffineSet(points.num_dims, points.num_symbols, kept)


def uses_dim(expr: AffineExpr, dim: int) -> bool:
    """Whether ``dim`` is in the canonical text of ``expr`` (a necessary condition only)."""
    return _inside(linear_of(expr), dim)


def _inside(linear: Linear, dim: int) -> bool:
    return any(
        _inside(atom.num, dim) if isinstance(atom, Floor) else atom == ("d", dim)
        for atom, _ in linear.terms
    )


def alike(exprs: Iterable[AffineExpr], dim: int) -> int:
    """At how many neighbours on ``dim``, from a multiple of that on, each expression has one value.

    0 where none of them uses ``dim``.
    """
    found = 0
    for expr in exprs:
        for atom, _ in linear_of(expr).terms:
            if isinstance(atom, Floor) and _inside(atom.num, dim):
                own = dict(atom.num.terms).get(("d", dim), 0)
                alone = len(atom.num.terms) == 1 and not atom.num.constant and own == 1
                found = gcd(found, atom.den if alone else 1)
            elif atom == ("d", dim):
                found = 1
    return found


def constraint_of(linear: Linear, equality: bool) -> AffineConstraintExpr:
    kind = AffineConstraintKind.eq if equality else AffineConstraintKind.ge
    return AffineConstraintExpr(kind, expr_of(linear), AffineConstantExpr(0), canonicalize=False)


def tightest(rows: Sequence[AffineConstraintExpr]) -> tuple[AffineConstraintExpr, ...]:
    """``rows`` without those that another one implies by its spelling: ``x >= 1`` by ``x >= 2``."""
    space = AffineSet(0, 0, tuple(rows))
    least: dict[tuple[tuple[Atom, int], ...], tuple[int, int]] = {}
    kept: list[int] = []
    for number, (linear, equality) in enumerate(rows_of(space)):
        if equality:
            kept.append(number)
        elif (best := least.get(linear.terms)) is None or linear.constant < best[0]:
            least[linear.terms] = (linear.constant, number)
    numbers = sorted([*kept, *(number for _, number in least.values())])
    return tuple(rows[number] for number in numbers)


def rows_of(points: AffineSet) -> Iterator[tuple[Linear, bool]]:
    """Each constraint as ``(linear, is_equality)``, meaning ``linear >= 0`` or ``== 0``."""
    for row in points.constraints:
        difference = linear_of(row.lhs).plus(linear_of(row.rhs).times(-1))
        if row.kind is AffineConstraintKind.le:
            difference = difference.times(-1)
        yield difference, row.kind is AffineConstraintKind.eq


def expr_text(expr: AffineExpr, dims: Sequence[str], symbols: Sequence[str]) -> str:
    """``expr`` in isl's notation with names: ``2*h + kh - 1``, ``floor((l)/4)``."""

    def text(linear: Linear) -> str:
        out = ""
        for atom, coef in linear.terms:
            if isinstance(atom, Floor):
                name = f"floor(({text(atom.num)})/{atom.den})"
            else:
                name = dims[atom[1]] if atom[0] == "d" else symbols[atom[1]]
            part = name if abs(coef) == 1 else f"{abs(coef)}*{name}"
            sign = "-" if coef < 0 else "+"
            out += f" {sign} {part}" if out else (f"-{part}" if coef < 0 else part)
        if not out:
            return str(linear.constant)
        if linear.constant:
            out += f" {'-' if linear.constant < 0 else '+'} {abs(linear.constant)}"
        return out

    return text(linear_of(expr))
