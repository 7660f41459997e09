"""Which function may move out of which reduction: the legality table, as data (S6.5).

``g(x)`` under a reduction becomes ``g`` of the reduction only where a row says so.  A row
names the function, which of its operands varies along the reduced axes, the reduction
before and after, the class of the change, and what must hold.  The classes, each
allowing more than the one before:

* ``exact``          the same values for every input, infinities and NaN included; the
                     sign of a zero is as open as max and min leave it
* ``reassociating``  the same in real arithmetic; rounding may differ in the last bits
* ``finite-only``    the same up to rounding where every value of both forms is finite

``TABLE`` is polyc's; ``register`` adds rows from outside, and every pattern takes a
table of its own if it is given one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from xdsl.dialects.builtin import AnyFloat, f32
from xdsl.ir import Operation, SSAValue

from polyc.dialects import region
from polyc.dialects.common.elements import is_integer
from polyc.dialects.region.types import ValType
from polyc.passes.support.region.facts import never_empty, nonnegative
from polyc.rewriting.changes import DEFAULT_CLASSES, ChangeClass

Varying = Literal["only", "lhs", "rhs"]
"""Which operand of the function depends on the reduced axes; ``only`` for one operand."""


# Candidates ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Candidate:
    """A function under a reduction, as a row sees it.

    ``varying`` depends on the reduced axes.  ``other``, for two operands, is the value
    that is repeated along them, before its broadcast.  ``scope`` is an op of the kernel for a
    reduction that does not stand in one yet.
    """

    reduce: region.ReduceOp
    body: Operation
    function: str
    position: Varying
    varying: SSAValue
    other: SSAValue | None = None
    scope: Operation | None = None

    @property
    def kernel(self) -> region.KernelOp | None:
        """The kernel whose sizes and assumptions hold."""
        return region.kernel_of(self.reduce if self.scope is None else self.scope)

    @property
    def constant(self) -> float | None:
        """The number that ``other`` is, if it is one."""
        if self.other is not None and isinstance(owner := self.other.owner, region.ConstantOp):
            return float(owner.number)
        return None

    def __str__(self) -> str:
        inner = {"only": "x", "lhs": "x, c", "rhs": "c, x"}[self.position]
        return f"{self.reduce.fn.data}({self.function}({inner}))"


def candidate(reduce: region.ReduceOp, scope: Operation | None = None) -> Candidate | None:
    """The function whose value ``reduce`` takes, if apart from x it is k-invariant.

    None when the operand is not a function of one varying number: a read, a select, a
    condition as a number, a product of two values that both vary.
    """
    match body := reduce.operand.owner:
        case region.UnaryOp():
            return Candidate(reduce, body, body.fn.data, "only", body.operand, scope=scope)
        case region.CastOp():
            if not isinstance(cast(ValType, body.operand.type).element_type, AnyFloat):
                return None
            return Candidate(reduce, body, "cast", "only", body.operand, scope=scope)
        case region.BinaryOp():
            left = invariant(body.lhs, reduce.labels)
            right = invariant(body.rhs, reduce.labels)
            if left is None and right is not None:
                return Candidate(reduce, body, body.fn.data, "lhs", body.lhs, right, scope)
            if right is None and left is not None:
                return Candidate(reduce, body, body.fn.data, "rhs", body.rhs, left, scope)
            return None
        case _:
            return None


def invariant(value: SSAValue, labels: Iterable[str]) -> SSAValue | None:
    """What ``value`` repeats along all of ``labels``; None when it depends on one."""
    owner = value.owner
    if isinstance(owner, region.BroadcastInDimOp):
        source = cast(ValType, owner.operand.type)
        if not set(labels) & set(source.labels):
            return owner.operand
    return None


# Preconditions -------------------------------------------------------------------------


@dataclass(frozen=True)
class Need:
    """A precondition: its words, complete after "needs", and its test."""

    text: str
    holds: Callable[[Candidate], bool]


def _constant(test: Callable[[float], bool]) -> Callable[[Candidate], bool]:
    return lambda c: c.constant is not None and test(c.constant)


NONEMPTY = Need(
    "a reduction that is never empty, since the function does not keep what an empty one gives",
    lambda c: never_empty(c.reduce, c.kernel),
)
NONNEGATIVE = Need(
    "an operand that is never negative, where the function is total and monotone",
    lambda c: nonnegative(c.varying),
)
NONNEGATIVE_OTHER = Need(
    "a factor that is never negative",
    lambda c: c.other is not None and nonnegative(c.other),
)
FINITE = Need("a finite constant", _constant(math.isfinite))
POSITIVE = Need("a finite constant above 0", _constant(lambda v: math.isfinite(v) and v > 0))
NEGATIVE = Need("a finite constant below 0", _constant(lambda v: math.isfinite(v) and v < 0))
NUMBER = Need("a constant that is not NaN", _constant(lambda v: not math.isnan(v)))


def _same_type(c: Candidate) -> bool:
    found = cast(ValType, c.reduce.operand.type).element_type
    return c.reduce.accumulator == found


SAME_ACCUMULATOR = Need(
    "an accumulator of the function's own type, since another one rounds elsewhere", _same_type
)
"""Held for every row by ``judge``."""


# Rows ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """``reduce(function(x))`` may become ``function(becomes(x))`` (S6.5).

    ``varying`` is the operand that is reduced; ``needs`` are the preconditions.
    """

    function: str
    varying: Varying
    reduce: str
    becomes: str
    change: ChangeClass
    needs: tuple[Need, ...] = ()

    def fits(self, c: Candidate) -> bool:
        """Whether the row speaks of ``c`` at all."""
        return (self.function, self.varying, self.reduce) == (
            c.function,
            c.position,
            c.reduce.fn.data,
        )


_FLIP = {"max": "min", "min": "max"}


def _rows() -> Iterable[Row]:
    # Rounding to a type is monotone and keeps infinities.
    yield Row("cast", "only", "max", "max", "exact")
    yield Row("cast", "only", "min", "min", "exact")
    yield Row("neg", "only", "max", "min", "exact")
    yield Row("neg", "only", "min", "max", "exact")
    # Exact but for the sign of a sum that is 0, on which a reciprocal depends.
    yield Row("neg", "only", "sum", "sum", "reassociating")
    # Correctly rounded and monotone from 0 up.  Below 0 it is NaN: so is then the min of the
    # roots, and the root of the min.  sqrt(+inf) is what an empty min gives.
    yield Row("sqrt", "only", "max", "max", "exact", (NONNEGATIVE, NONEMPTY))
    yield Row("sqrt", "only", "min", "min", "exact")
    # Monotone functions whose implementations are so up to the last bits.
    yield Row("log", "only", "max", "max", "reassociating", (NONNEGATIVE, NONEMPTY))
    yield Row("log", "only", "min", "min", "reassociating")
    yield Row("exp", "only", "max", "max", "reassociating", (NONEMPTY,))
    yield Row("exp", "only", "min", "min", "reassociating")
    for fn in ("tanh", "sigmoid", "erf"):
        for op in ("max", "min"):
            yield Row(fn, "only", op, op, "reassociating", (NONEMPTY,))
    # Monotone and total, and infinities stay.
    for fn in ("floor", "ceil", "trunc", "round"):
        for op in ("max", "min"):
            yield Row(fn, "only", op, op, "exact")
    for op, flip in _FLIP.items():
        for side in ("lhs", "rhs"):
            # max and min against a bound distribute over each other.
            yield Row(op, side, op, op, "exact", (NONEMPTY,))
            yield Row(flip, side, op, op, "exact", (NUMBER,))
            yield Row(flip, side, op, op, "exact", (NONEMPTY,))
            yield Row("add", side, op, op, "exact", (FINITE,))
            yield Row("add", side, op, op, "finite-only")
            yield Row("mul", side, op, op, "exact", (POSITIVE,))
            yield Row("mul", side, op, flip, "exact", (NEGATIVE,))
            yield Row("mul", side, op, op, "finite-only", (NONNEGATIVE_OTHER, NONEMPTY))
        yield Row("sub", "lhs", op, op, "exact", (FINITE,))
        yield Row("sub", "lhs", op, op, "finite-only")
        yield Row("sub", "rhs", op, flip, "exact", (FINITE,))
        yield Row("sub", "rhs", op, flip, "finite-only")
        yield Row("div", "lhs", op, op, "exact", (POSITIVE,))
        yield Row("div", "lhs", op, flip, "exact", (NEGATIVE,))
        yield Row("div", "lhs", op, op, "finite-only", (NONNEGATIVE_OTHER, NONEMPTY))
    # A sum of scaled terms: the sum alone can overflow, and 0 * inf is NaN.
    yield Row("mul", "lhs", "sum", "sum", "finite-only")
    yield Row("mul", "rhs", "sum", "sum", "finite-only")
    yield Row("div", "lhs", "sum", "sum", "finite-only")


TABLE: list[Row] = list(_rows())
"""The rows, tried in order; the first that fits, is allowed and has its needs fires."""

KNOWN_WRONG: dict[tuple[str, str], str] = {
    ("exp", "sum"): "sum(exp(x)) is not exp(sum(x))",
    ("cast", "sum"): (
        "the sum would accumulate in the other type: 4096 ones summed in fp16 are 2048"
    ),
    ("add", "sum"): "sum(x + c) holds c once for each point",
    ("sub", "sum"): "sum(x - c) holds c once for each point",
    ("max", "sum"): "sum(max(x, c)) is not max(sum(x), c)",
    ("min", "sum"): "sum(min(x, c)) is not min(sum(x), c)",
    ("sin", "max"): "sin is not monotone: max(sin(x)) over 0 and 3 is not sin(3)",
    ("abs", "max"): "abs is not monotone: max(abs(x)) over -3 and 1 is 3",
    ("abs", "min"): "abs is not monotone: min(abs(x)) over -3 and 1 is 1",
}
"""Why some pairs have no row, for the refusal's words."""


def register(*rows: Row) -> None:
    """Add rows to ``TABLE`` for the rest of the process; a row that is there stays once."""
    TABLE.extend(row for row in rows if row not in TABLE)


# Reductions of reductions ----------------------------------------------------------------


JOIN: dict[str, ChangeClass] = {
    "sum": "reassociating",
    "prod": "reassociating",
    "max": "exact",
    "min": "exact",
}
"""R0: two reductions by the same function as one, and the class of that change."""


@dataclass(frozen=True)
class JoinNeed:
    """What R0 asks of two reductions: its words, and why a pair does not have it, or None."""

    text: str
    refusal: Callable[[region.ReduceOp, region.ReduceOp], str | None]


def _unlike(outer: region.ReduceOp, inner: region.ReduceOp) -> str | None:
    f, g = outer.fn.data, inner.fn.data
    return None if f == g else f"a {f} of a {g} is a barrier: unlike reductions do not join"


def _accumulators(outer: region.ReduceOp, inner: region.ReduceOp) -> str | None:
    if outer.accumulator == inner.accumulator:
        return None
    return f"the two accumulate in {inner.accumulator} and {outer.accumulator}"


def _narrow(outer: region.ReduceOp, inner: region.ReduceOp) -> str | None:
    if outer.fn.data != "sum" or outer.accumulator == f32 or is_integer(outer.accumulator):
        return None
    return (
        f"a sum in {outer.accumulator} depends on its order by more than its last bits: 4096 ones "
        "are 2048 in f16, and 64 sums of 64 are not"
    )


def _shared(outer: region.ReduceOp, inner: region.ReduceOp) -> str | None:
    if inner.result.has_one_use():
        return None
    return "the inner result has other uses, and would be computed twice"


ONE_FUNCTION = JoinNeed("the same function (R4)", _unlike)
ONE_ACCUMULATOR = JoinNeed("the same accumulator", _accumulators)
WIDE_SUM = JoinNeed("a sum accumulates in f32", _narrow)
ONE_USE = JoinNeed("the inner result has no other use", _shared)

JOIN_NEEDS: tuple[JoinNeed, ...] = (ONE_FUNCTION, ONE_ACCUMULATOR, WIDE_SUM, ONE_USE)
"""R0's conditions.  That the inner init is the neutral value is held by the verifier."""


def why_not_joined(
    outer: region.ReduceOp,
    inner: region.ReduceOp,
    classes: Sequence[str] = DEFAULT_CLASSES,
    join: Mapping[str, ChangeClass] = JOIN,
    needs: Sequence[JoinNeed] = JOIN_NEEDS,
) -> str | None:
    """Why R0 leaves two reductions apart; None when it joins them."""
    for need in needs:
        if (reason := need.refusal(outer, inner)) is not None:
            return reason
    if (change := join[outer.fn.data]) not in classes:
        return f"joining a {outer.fn.data} is {change}, and only {', '.join(classes)} may fire"
    return None


# Judgement -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Verdict:
    """The row that allows a candidate, or why none does."""

    row: Row | None
    reason: str = ""


def judge(
    c: Candidate, classes: Sequence[str] = DEFAULT_CLASSES, table: Sequence[Row] | None = None
) -> Verdict:
    """The first row that allows ``c``; without one the reason of each that fits."""
    kind = cast(ValType, c.varying.type).element_type
    if not isinstance(kind, AnyFloat):
        return Verdict(None, f"{c} is of {kind}, and the rows are of real numbers")
    if not SAME_ACCUMULATOR.holds(c):
        return Verdict(None, f"{c} needs {SAME_ACCUMULATOR.text}")
    reasons: list[str] = []
    for row in TABLE if table is None else table:
        if not row.fits(c):
            continue
        missing = [need.text for need in row.needs if not need.holds(c)]
        if not missing and row.change in classes:
            return Verdict(row)
        if missing:
            reasons.append("needs " + " and ".join(missing))
        else:
            reasons.append(f"is {row.change}, and only {', '.join(classes)} may fire")
    if not reasons:
        known = KNOWN_WRONG.get((c.function, c.reduce.fn.data))
        reasons.append(f"has no row: {known}" if known else "has no row in the legality table")
    return Verdict(None, f"{c} " + "; or ".join(dict.fromkeys(reasons)))
