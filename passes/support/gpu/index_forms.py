"""Index values of a kernel as affine forms, and what its branches and loops say of them.

The values that an index comes from, by affine maps, sums and the like, are *leaves*: arguments,
loops' variables, ops that nothing here looks into.  Each leaf is a dimension, so that two indices
at two places of a kernel are forms over the same dimensions, and isl decides whether they can be
equal.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from itertools import product
from math import lcm
from typing import cast

from xdsl.dialects import affine, arith
from xdsl.dialects.builtin import IndexType, IntegerAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import (
    AffineConstraintExpr,
    AffineConstraintKind,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
    AffineSet,
)

from polyc.affine import isl
from polyc.affine.expressions import Floor, Linear, NotAffine, expr_of, linear_of
from polyc.dialects.gpu import hardware as hw
from polyc.passes.support.gpu.signs import never_negative
from polyc.passes.support.gpu.spread import function_of
from polyc.passes.support.gpu.symbols import constant_of
from polyc.rewriting.emit import applied

EQ, GE = AffineConstraintKind.eq, AffineConstraintKind.ge
ZERO = AffineExpr.constant(0)


class Row(AffineConstraintExpr):
    """What holds of leaves: an expression that is 0, or not negative.

    An expression is a tree, and the same rows are asked about over and over: a row knows its hash
    and its leaves, and those that ``of`` makes are mostly one object where they are equal.
    """

    def __init__(self, kind: AffineConstraintKind, expr: AffineExpr) -> None:
        super().__init__(kind, expr, ZERO, canonicalize=False)

    @staticmethod
    @lru_cache(maxsize=1 << 14)
    def zero(expr: AffineExpr) -> Row:
        """``expr == 0``."""
        return Row(EQ, expr)

    @staticmethod
    @lru_cache(maxsize=1 << 14)
    def natural(expr: AffineExpr) -> Row:
        """``expr >= 0``."""
        return Row(GE, expr)

    def like(self, expr: AffineExpr) -> Row:
        """What this row says, of another expression."""
        return Row.zero(expr) if self.kind is EQ else Row.natural(expr)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Row) or self.number != other.number:
            return False
        return self.kind is other.kind and self.lhs == other.lhs

    def __hash__(self) -> int:
        return self.number

    @cached_property
    def number(self) -> int:
        """The hash."""
        return hash((self.kind, self.lhs))

    @cached_property
    def leaves(self) -> frozenset[int]:
        """The leaves that it speaks of."""
        return frozenset(self.lhs.used_dims())


MOST_FORMS = 4
"""Forms of one value beyond which it is a leaf: each select and minimum doubles them."""

ONE = (hw.ThreadIdOp, hw.BlockIdOp, hw.GridSizeOp, hw.ClusterRankOp)
"""Ops that give a thread the same value wherever they stand."""


@dataclass(frozen=True)
class Form:
    """A value where ``rows`` hold."""

    expr: AffineExpr
    rows: tuple[Row, ...] = ()


def at_least(expr: AffineExpr, bound: AffineExpr | int = 0) -> Row:
    """``expr >= bound``."""
    return Row.natural(expr - bound)


def equal(expr: AffineExpr, other: AffineExpr | int) -> Row:
    """``expr == other``."""
    return Row.zero(expr - other)


@dataclass
class Forms:
    """The leaves of a kernel, and the forms of what is made of them."""

    leaves: list[Hashable] = field(default_factory=list[Hashable])
    places: dict[Hashable, int] = field(default_factory=dict[Hashable, int])
    known: dict[SSAValue, tuple[Form, ...]] = field(
        default_factory=dict[SSAValue, tuple[Form, ...]]
    )

    def leaf(self, key: Hashable) -> AffineExpr:
        """The dimension that stands for ``key``."""
        if key not in self.places:
            self.places[key] = len(self.leaves)
            self.leaves.append(key)
        return AffineDimExpr(self.places[key])

    def of(self, value: SSAValue) -> tuple[Form, ...]:
        """What ``value`` is: one form, or one for each way that a select or a minimum may go."""
        if value not in self.known:
            found = self._expand(value)
            self.known[value] = found if 0 < len(found) <= MOST_FORMS else self._bare(value)
        return self.known[value]

    def _bare(self, value: SSAValue) -> tuple[Form, ...]:
        return (Form(self.leaf(value)),)

    def _expand(self, value: SSAValue) -> tuple[Form, ...]:
        owner = value.owner
        if (constant := constant_of(value)) is not None:
            return (Form(AffineExpr.constant(constant)),)
        if isinstance(owner, Block):
            return self._bare(value)
        match owner:
            case affine.ApplyOp():
                return self._combine(owner.operands, partial(applied, owner))
            case arith.AddiOp():
                return self._combine(owner.operands, lambda parts: parts[0] + parts[1])
            case arith.SubiOp():
                return self._combine(owner.operands, lambda parts: parts[0] - parts[1])
            case arith.MuliOp() if (factor := constant_of(owner.rhs)) is not None:
                return self._combine([owner.lhs], lambda parts: parts[0] * factor)
            case arith.MuliOp() if (factor := constant_of(owner.lhs)) is not None:
                return self._combine([owner.rhs], lambda parts: parts[0] * factor)
            case arith.DivUIOp() | arith.DivSIOp() | arith.RemUIOp() | arith.RemSIOp():
                by = constant_of(owner.rhs)
                if by is None or by <= 0 or not never_negative(owner.lhs):
                    return self._bare(value)
                if isinstance(owner, arith.DivUIOp | arith.DivSIOp):
                    return self._combine([owner.lhs], lambda parts: parts[0] // by)
                return self._combine([owner.lhs], lambda parts: parts[0] % by)
            case arith.IndexCastOp() | hw.WarpUniformOp() | hw.OpaqueOp():
                return self.of(owner.operands[0])
            case arith.SelectOp() if isinstance(value.type, IndexType):
                return tuple(
                    Form(form.expr, (*form.rows, *self.condition(owner.cond, holds)))
                    for side, holds in ((owner.lhs, True), (owner.rhs, False))
                    for form in self.of(side)
                )
            case arith.MinSIOp() | arith.MaxSIOp():
                sign = 1 if isinstance(owner, arith.MinSIOp) else -1
                return tuple(
                    Form(a.expr, (*a.rows, *b.rows, at_least((b.expr - a.expr) * sign)))
                    for one, other in (owner.operands, tuple(reversed(owner.operands)))
                    for a, b in product(self.of(one), self.of(other))
                )
            case _ if isinstance(owner, ONE):
                return (Form(self.leaf(owner.name)),)
            case _:
                return self._bare(value)

    def _combine(
        self, values: Sequence[SSAValue], make: Callable[[list[AffineExpr]], AffineExpr]
    ) -> tuple[Form, ...]:
        found: list[Form] = []
        for chosen in product(*(self.of(v) for v in values)):
            expr = make([form.expr for form in chosen])
            try:
                linear_of(expr)
            except NotAffine:
                return ()
            found.append(Form(expr, tuple(row for form in chosen for row in form.rows)))
        return tuple(found)

    def condition(self, value: SSAValue, holds: bool = True) -> tuple[Row, ...]:
        """What is known where a condition holds (or does not); nothing where it is no inequality.

        Fewer rows than there are is always right: they only rule out.
        """
        owner = value.owner
        match owner:
            case arith.AndIOp() if holds:
                return (*self.condition(owner.lhs), *self.condition(owner.rhs))
            case arith.OrIOp() if not holds:
                return (*self.condition(owner.lhs, False), *self.condition(owner.rhs, False))
            case arith.XOrIOp() if _is_true(owner.rhs):
                return self.condition(owner.lhs, not holds)
            case arith.CmpiOp() if isinstance(owner.lhs.type, IndexType):
                return self._compared(owner, holds)
            case _:
                return ()

    def _compared(self, op: arith.CmpiOp, holds: bool) -> tuple[Row, ...]:
        """What is known whichever way selects and minima go: these are leaves, as they are where
        loops end at them."""
        alone = [(self.alone(op.lhs), self.alone(op.rhs))]
        ways = self._ways(op, holds, alone)
        return ways[0] if ways else ()

    def alone(self, value: SSAValue) -> Form:
        """The form of a value that has one whatever holds, or the value as a leaf."""
        found = self.of(value)
        return found[0] if len(found) == 1 and not found[0].rows else Form(self.leaf(value))

    def ways(self, op: arith.CmpiOp, holds: bool) -> list[tuple[Row, ...]]:
        """What is known where a comparison of indices holds (or does not), one for each way that
        the selects and minima in it may go; none where it is no inequality."""
        return self._ways(op, holds, product(self.of(op.lhs), self.of(op.rhs)))

    def _ways(
        self, op: arith.CmpiOp, holds: bool, sides: Iterable[tuple[Form, Form]]
    ) -> list[tuple[Row, ...]]:
        predicate = arith.CMPI_COMPARISON_OPERATIONS[op.predicate.value.data]
        if predicate.startswith("u"):
            if not (never_negative(op.lhs) and never_negative(op.rhs)):
                return []
            predicate = "s" + predicate[1:]
        if not holds:
            predicate = OPPOSITE[predicate]
        return [
            (*left.rows, *right.rows, *_inequality(predicate, right.expr - left.expr))
            for left, right in sides
        ]


def _inequality(predicate: str, less: AffineExpr) -> tuple[Row, ...]:
    """What a comparison says of what its right side is more than its left one."""
    match predicate:
        case "eq":
            return (equal(less, 0),)
        case "slt":
            return (at_least(less, 1),)
        case "sle":
            return (at_least(less),)
        case "sgt":
            return (at_least(less * -1, 1),)
        case "sge":
            return (at_least(less * -1),)
        case _:
            return ()


OPPOSITE = {"eq": "ne", "ne": "eq", "slt": "sge", "sge": "slt", "sgt": "sle", "sle": "sgt"}
"""What holds where a comparison does not."""


def _is_true(value: SSAValue) -> bool:
    owner = value.owner
    return (
        isinstance(owner, arith.ConstantOp)
        and isinstance(owner.value, IntegerAttr)
        and owner.value.value.data != 0
    )


def possible(rows: Iterable[Row]) -> bool:
    """Whether all of ``rows`` can hold at once; True also where isl gives up.

    What rows alone decide, by a leaf that they pin to a number or by trying every residue, isl is
    not asked.
    """
    return _possible(tuple(dict.fromkeys(rows)))


@lru_cache(maxsize=1 << 14)
def _possible(rows: tuple[Row, ...]) -> bool:
    left = _pinned(rows)
    if left is None or any(row.kind is EQ and never_zero(row.lhs) for row in left):
        return False
    if not left:
        return True
    used = sorted({d for row in left for d in row.leaves})
    places: list[AffineExpr] = [AffineExpr.constant(0)] * (used[-1] + 1)
    for new, old in enumerate(used):
        places[old] = AffineDimExpr(new)
    dense = tuple(row.like(row.lhs.replace_dims_and_symbols(places, [])) for row in left)
    try:
        return not isl.is_empty(AffineSet(len(used), 0, dense))
    except isl.IslLimitExceeded:
        return True


def _pinned(rows: Sequence[Row]) -> list[Row] | None:
    """Rows with numbers for the leaves that are equal to one; None where a row cannot hold."""
    numbers: dict[int, int] = {}
    for row in rows:
        if row.kind is EQ and (pin := _pin(row.lhs)) is not None:
            numbers[pin[0]] = pin[1]
    left: list[Row] = []
    for row in rows:
        known = row.leaves & numbers.keys()
        if not known and row.leaves:
            left.append(row)
            continue
        places: list[AffineExpr] = [AffineDimExpr(d) for d in range(max(known, default=-1) + 1)]
        for d in known:
            places[d] = AffineExpr.constant(numbers[d])
        places += map(AffineDimExpr, range(len(places), max(row.leaves, default=-1) + 1))
        whole = linear_of(row.lhs.replace_dims_and_symbols(places, []))
        if whole.terms:
            left.append(row.like(expr_of(whole)))
        elif whole.constant < 0 or (row.kind is EQ and whole.constant):
            return None
    return left


@lru_cache(maxsize=1 << 14)
def _pin(expr: AffineExpr) -> tuple[int, int] | None:
    """The leaf that an expression of 0 makes a number, and that number."""
    whole = linear_of(expr)
    if len(whole.terms) != 1:
        return None
    ((atom, factor),) = whole.terms
    if isinstance(atom, Floor) or abs(factor) != 1:
        return None
    return atom[1], -whole.constant * factor


MOST_RESIDUES = 4096
"""Values of an expression that are tried."""


@lru_cache(maxsize=4096)
def never_zero(expr: AffineExpr) -> bool:
    """Whether an expression that repeats itself is 0 at no residue of its leaves.

    False where it does not repeat itself, or not soon enough.
    """
    whole = linear_of(expr)
    used = sorted(expr.used_dims())
    period = lcm(*_divisors(whole))
    if not used or period ** len(used) > MOST_RESIDUES:
        return False
    place = {d: i for i, d in enumerate(used)}
    dims = [AffineDimExpr(place.get(d, 0)) for d in range(used[-1] + 1)]
    value = function_of(AffineMap(len(used), 0, (expr.replace_dims_and_symbols(dims, []),)))
    origin = [0] * len(used)
    steps = ([period if i == j else 0 for j in range(len(used))] for i in range(len(used)))
    if any(value(step) != value(origin) for step in steps):
        return False
    return all(value(at) != (0,) for at in product(range(period), repeat=len(used)))


def _divisors(whole: Linear) -> Iterator[int]:
    for atom, _ in whole.terms:
        if isinstance(atom, Floor):
            yield from (atom.den * d for d in (1, *_divisors(atom.num)))


def value_of(key: Hashable) -> SSAValue | None:
    """The value that a leaf is, if it is one as it stands in the text."""
    return cast(SSAValue, key) if isinstance(key, SSAValue) else None


def defined_in(key: Hashable, around: Operation) -> bool:
    """Whether a leaf is a value that an op's regions define, anew whenever they run."""
    value = value_of(key)
    return value is not None and is_inside(value, around)


def is_inside(value: SSAValue, around: Operation) -> bool:
    """Whether an op's regions define a value."""
    inner = value.owner.parent_op()
    return inner is not None and around.is_ancestor(inner)
