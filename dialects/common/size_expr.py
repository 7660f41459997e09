"""Dimension expressions: what a tensor's size may be.

A dimension is a polynomial over named symbols with integer coefficients, whose
atoms may also be ``e floordiv c`` and ``e mod c`` with a positive constant ``c``
(requirements S2.3, S4.7).  Expressions are kept in one canonical form, so that
equal polynomials are equal objects and print the same text in every process.

They are plain data: what runs a program that was kept on disk calculates with them and imports no
xDSL.  ``polyc.dialects.common.dim`` has their syntax and attributes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import gcd
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from xdsl.ir.affine import AffineExpr

DivKind = Literal["floordiv", "mod"]


@dataclass(frozen=True, slots=True)
class DivAtom:
    """``num floordiv den`` or ``num mod den`` with a positive constant ``den``."""

    kind: DivKind
    num: Dim
    den: int

    def __str__(self) -> str:
        return f"{self.num.wrapped()} {self.kind} {self.den}"


Atom = str | DivAtom
Monomial = tuple[Atom, ...]
"""A product of atoms, sorted by their text; the empty product is 1."""


@lru_cache(4096)
def _text(atom: Atom) -> str:
    """An atom's text, by which the atoms of a monomial and monomials are sorted."""
    return str(atom)


@dataclass(frozen=True, slots=True)
class Dim:
    """A canonical size expression: a sum of integer multiples of monomials.

    ``terms`` is sorted, has no zero coefficient, and is the whole identity of the
    expression.  Build one with ``Dim.const``, ``Dim.sym`` and the operators.
    """

    terms: tuple[tuple[Monomial, int], ...]

    @staticmethod
    def const(value: int) -> Dim:
        return Dim((((), value),) if value else ())

    @staticmethod
    def sym(name: str) -> Dim:
        return Dim((((name,), 1),))

    @staticmethod
    def of(value: Dim | int | str) -> Dim:
        """A ``Dim`` from itself, an integer or a symbol's name."""
        if isinstance(value, Dim):
            return value
        return Dim.const(value) if isinstance(value, int) else Dim.sym(value)

    @staticmethod
    def _collect(parts: Iterable[tuple[Monomial, int]]) -> Dim:
        total: dict[Monomial, int] = {}
        for mono, coef in parts:
            total[mono] = total.get(mono, 0) + coef
        kept = [(m, c) for m, c in total.items() if c]
        if len(kept) > 1:
            kept.sort(key=lambda t: (not t[0], -len(t[0]), [_text(a) for a in t[0]]))
        return Dim(tuple(kept))

    @staticmethod
    def of_terms(terms: Iterable[tuple[Monomial, int]]) -> Dim:
        """A sum of terms, products of atoms with a factor."""
        return Dim._collect(terms)

    def __add__(self, other: Dim | int) -> Dim:
        return Dim._collect([*self.terms, *Dim.of(other).terms])

    def __neg__(self) -> Dim:
        return Dim(tuple((m, -c) for m, c in self.terms))

    def __sub__(self, other: Dim | int) -> Dim:
        return self + -Dim.of(other)

    def __mul__(self, other: Dim | int) -> Dim:
        return Dim._collect(
            (tuple(sorted(m + n, key=_text)), c * d)
            for m, c in self.terms
            for n, d in Dim.of(other).terms
        )

    def _split(self, den: int) -> tuple[Dim, Dim]:
        """``(q, r)`` with ``self = den*q + r``, taking out what divides exactly."""
        quotient = [(m, c // den) for m, c in self.terms]
        rest = [(m, c % den) for m, c in self.terms]
        return Dim._collect(quotient), Dim._collect(rest)

    def floordiv(self, den: int) -> Dim:
        """Floor of ``self / den``, reduced by the gcd (S4.2); ``den`` is a positive constant."""
        if den <= 0:
            raise ValueError(f"a dimension is divided by a positive constant, not {den}")
        whole, rest = self._split(den)
        if (value := rest.constant()) is not None:
            return whole + value // den
        common = gcd(den, *(c for _, c in rest.terms))
        rest = Dim(tuple((m, c // common) for m, c in rest.terms))
        return whole + Dim((((DivAtom("floordiv", rest, den // common),), 1),))

    def ceildiv(self, den: int) -> Dim:
        return (self + (den - 1)).floordiv(den)

    def mod(self, den: int) -> Dim:
        """``self - den * floor(self / den)``; ``den`` is a positive constant."""
        if den <= 0:
            raise ValueError(f"a dimension is divided by a positive constant, not {den}")
        _, rest = self._split(den)
        if (value := rest.constant()) is not None:
            return Dim.const(value % den)
        return Dim((((DivAtom("mod", rest, den),), 1),))

    def constant(self) -> int | None:
        """The value when no symbol is in it, else None."""
        if not self.terms:
            return 0
        if len(self.terms) == 1 and not self.terms[0][0]:
            return self.terms[0][1]
        return None

    def symbols(self) -> tuple[str, ...]:
        """Names of the symbols, in order of first appearance in the text."""
        found: dict[str, None] = {}
        for mono, _ in self.terms:
            for atom in mono:
                names = (atom,) if isinstance(atom, str) else atom.num.symbols()
                found.update(dict.fromkeys(names))
        return tuple(found)

    def evaluate(self, values: Mapping[str, int]) -> int:
        """The integer at ``values``; raises KeyError for a symbol without one."""
        total = 0
        for mono, coef in self.terms:
            for atom in mono:
                if isinstance(atom, str):
                    coef *= values[atom]
                else:
                    n = atom.num.evaluate(values)
                    coef *= n // atom.den if atom.kind == "floordiv" else n % atom.den
            total += coef
        return total

    def substitute(self, values: Mapping[str, Dim]) -> Dim:
        """The expression with symbols replaced."""
        total = Dim.const(0)
        for mono, coef in self.terms:
            term = Dim.const(coef)
            for atom in mono:
                if isinstance(atom, str):
                    term = term * values.get(atom, Dim.sym(atom))
                else:
                    num = atom.num.substitute(values)
                    div = atom.kind == "floordiv"
                    term = term * (num.floordiv(atom.den) if div else num.mod(atom.den))
            total = total + term
        return total

    def as_affine(self, symbols: Sequence[str]) -> AffineExpr | None:
        """As an affine expression over ``symbols`` (``s0, s1, …`` in that order).

        None when the expression multiplies symbols; such a size is beyond isl and
        is compared by its canonical form.  Raises ValueError on an unknown symbol.
        """
        from xdsl.ir.affine import (
            AffineBinaryOpExpr,
            AffineBinaryOpKind,
            AffineConstantExpr,
            AffineSymExpr,
        )

        total: AffineExpr | None = None
        for mono, coef in self.terms:
            if len(mono) > 1:
                return None
            if not mono:
                term: AffineExpr = AffineConstantExpr(coef)
            else:
                atom = mono[0]
                if isinstance(atom, str):
                    if atom not in symbols:
                        raise ValueError(f"symbol {atom} is not among {', '.join(symbols)}")
                    term = AffineSymExpr(symbols.index(atom))
                else:
                    num = atom.num.as_affine(symbols)
                    if num is None:
                        return None
                    floor = atom.kind == "floordiv"
                    kind = AffineBinaryOpKind.FloorDiv if floor else AffineBinaryOpKind.Mod
                    term = AffineBinaryOpExpr(kind, num, AffineConstantExpr(atom.den))
                if coef != 1:
                    term = AffineBinaryOpExpr(
                        AffineBinaryOpKind.Mul, term, AffineConstantExpr(coef)
                    )
            total = (
                term if total is None else AffineBinaryOpExpr(AffineBinaryOpKind.Add, total, term)
            )
        return AffineConstantExpr(0) if total is None else total

    @staticmethod
    def from_affine(expr: AffineExpr, symbols: Sequence[str]) -> Dim:
        """From an affine expression over symbols alone (no dimensions)."""
        from xdsl.ir.affine import (
            AffineBinaryOpExpr,
            AffineBinaryOpKind,
            AffineConstantExpr,
            AffineSymExpr,
        )

        match expr:
            case AffineConstantExpr(value):
                return Dim.const(value)
            case AffineSymExpr(position):
                return Dim.sym(symbols[position])
            case AffineBinaryOpExpr(kind, lhs, rhs):
                a, b = Dim.from_affine(lhs, symbols), Dim.from_affine(rhs, symbols)
                if kind is AffineBinaryOpKind.Add:
                    return a + b
                if kind is AffineBinaryOpKind.Mul:
                    return a * b
                den = b.constant()
                if den is None:
                    raise ValueError(f"division by the symbolic {b}")
                if kind is AffineBinaryOpKind.FloorDiv:
                    return a.floordiv(den)
                return a.ceildiv(den) if kind is AffineBinaryOpKind.CeilDiv else a.mod(den)
            case _:
                raise ValueError(f"{expr} is not an expression of symbols")

    def wrapped(self) -> str:
        """The text, in parentheses unless it is a single symbol or number."""
        text = str(self)
        return text if text.replace("_", "").isalnum() else f"({text})"

    def __str__(self) -> str:
        if not self.terms:
            return "0"
        out = ""
        for mono, coef in self.terms:
            single = len(mono) == 1
            factors = [
                a if isinstance(a, str) else (str(a) if single and abs(coef) == 1 else f"({a})")
                for a in mono
            ]
            size = abs(coef)
            if size != 1 or not factors:
                factors.insert(0, str(size))
            text = " * ".join(factors)
            if not out:
                # A leading minus binds tighter than floordiv: keep the atom whole.
                negative_atom = coef < 0 and single and not isinstance(mono[0], str) and size == 1
                out = (f"-({text})" if negative_atom else f"-{text}") if coef < 0 else text
            else:
                out += f" {'-' if coef < 0 else '+'} {text}"
        return out


Shape = tuple[Dim, ...]


@dataclass(frozen=True, slots=True)
class Assumption:
    """A fact about symbols: ``expr == 0`` or ``expr >= 0``."""

    expr: Dim
    kind: Literal["==", ">="]

    def holds(self, values: Mapping[str, int]) -> bool:
        value = self.expr.evaluate(values)
        return value == 0 if self.kind == "==" else value >= 0

    def __str__(self) -> str:
        """``lhs kind rhs`` with the constant on the right."""
        constant = dict(self.expr.terms).get((), 0)
        return f"{self.expr - constant} {self.kind} {-constant}"


MAX_SIZE = 2**31 - 2**12
"""Kernels index with 32 bits, and go past a tensor's end by up to a tile before they guard."""


def unknown_symbol(fact: Assumption, symbols: Iterable[str]) -> str | None:
    """What is wrong with a fact that names something beside ``symbols``, or None."""
    known = list(symbols)
    for name in fact.expr.symbols():
        if name not in known:
            return f"the assumption {fact} names {name}, which is not among the symbols " + (
                ", ".join(known) or "none"
            )
    return None


def shape_text(shape: Iterable[Dim]) -> str:
    return "[" + ", ".join(map(str, shape)) + "]"
