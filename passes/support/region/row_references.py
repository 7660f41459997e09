"""Exponentials of scores below anything of their row, as ones below the row's maximum.

    exp(c * x + r)  →  exp(c * (x - m)) * exp(c * m + r)          m = max(x)

People subtract nothing, the log-sum-exp, or the larger of the maximum and a sink.  Below the
maximum the sums of the exponentials stream (``region-streaming-softmax``), and no exponential is
infinite; what is of the row alone is a factor of the sums, and most of it cancels.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import f32, i1
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.dialects import region
from polyc.dialects.region.types import AxisAttr
from polyc.rewriting.changes import ChangeClass
from polyc.rewriting.driver import located
from polyc.rewriting.notes import Note, Report
from polyc.rewriting.region.building import erase_unused, spread, type_of
from polyc.rewriting.region.softmax_sums import (
    LEAST_F32,
    is_below_maximum,
    is_maximum_of,
    maximum_of,
)
from polyc.rewriting.region.views import VIEWS, behind_views, constant_of

ELEMENTWISE = (
    region.UnaryOp,
    region.BinaryOp,
    region.SelectOp,
    region.CastOp,
    *VIEWS,
)

ONE = 2.0**-22
"""How far from 1 the product of two numbers may be that stand for a logarithm's base and its
inverse, each rounded to f32."""


@dataclass
class SubtractMaximum(RewritePattern):
    """``exp(c * x + r)`` → ``exp(c * (x - m)) * exp(c * m + r)``, where m is the maximum of x.

    Legal for a positive finite number c and an r that does not depend on the axes that the maximum
    is over; powers of a number above 1 are exponentials.  A logarithm in r that is subtracted
    divides instead: ``exp(c * m - (c * m + log(l)))`` is ``1 / l``.  It is done where x is made of
    a sum of products, and the exponentials are summed over axes over which x weighs a product too:
    they are attention's weights, or their sum.

    ``finite-only``: where all of ``exp(c * x + r)`` fit f32 the numbers differ by roundings.  A
    maximum that is -inf counts as the least finite number, so that a row of -inf alone has a sum of
    0, as it had; rows whose exponentials all were 0, or of which one was infinite, have now the
    weights that real arithmetic gives them.
    """

    report: Report | None = None

    @op_type_rewrite_pattern
    def match_and_rewrite(
        self, op: region.UnaryOp | region.BinaryOp, rewriter: PatternRewriter, /
    ) -> None:
        unit, exponent = _power(op)
        if exponent is None:
            return
        for labels in _sums_of(op.results[0]):
            found = _split(exponent, labels)
            if not 0 < found.scale < math.inf or not _is_weighed(found.x, labels):
                continue
            rows = _linear(found.rows)
            top = next((v for v in rows if is_maximum_of(v, found.x)), None)
            if isinstance(op, region.UnaryOp):
                if maximum_of(op) is not None:
                    return  # as it should be
            elif top is not None and len(rows) == 1 and rows[top] == -found.scale:
                return
            self._rewrite(op, found, unit, rows, top, labels, rewriter)
            return

    def _rewrite(
        self,
        op: region.UnaryOp | region.BinaryOp,
        found: _Exponent,
        unit: float,
        rows: dict[SSAValue, float],
        top: SSAValue | None,
        labels: Sequence[str],
        rewriter: PatternRewriter,
    ) -> None:
        make = _Making(op, rewriter)
        axes = type_of(found.x).axes.data
        outer = [axis for axis in axes if axis.label not in labels]
        if top is None:
            top = make.guarded_maximum(found.x, labels)
        rows[top] = rows.get(top, 0.0) + found.scale
        below = make.binary("sub", found.x, spread(top, axes, rewriter))
        scale = found.scale * unit
        if scale != 1:
            below = make.binary("mul", below, make.number(scale, axes))
        result = make.unary("exp", below)
        rest: SSAValue | None = None
        for value, times in rows.items():
            inner = value.owner
            times *= unit
            if times == 0:
                continue
            log = inner if isinstance(inner, region.UnaryOp) and inner.fn.data == "log" else None
            if log is not None and abs(times + 1) < ONE:
                by = spread(log.operand, axes, rewriter)
                result = make.binary("div", result, by)
                continue
            term = spread(value, outer, rewriter)
            if times not in (1, -1):
                term = make.binary("mul", term, make.number(abs(times), outer))
            if rest is None:
                rest = term if times > 0 else make.unary("neg", term)
            else:
                rest = make.binary("add" if times > 0 else "sub", rest, term)
        if rest is not None:
            factor = make.unary("exp", rest)
            result = make.binary("mul", result, spread(factor, axes, rewriter))
        _say(self.report, op, "exponentials are taken below the maximum of their row")
        _replace(op, result, rewriter)


@dataclass
class MaskScores(RewritePattern):
    """``exp(c * x + r) * mask`` → ``exp(c * where(mask, x, -inf) + r)``, as for a choice of 0.

    Legal for a mask of conditions, where the exponentials, perhaps scaled by their row, are summed
    so, and x weighs a product over the axes of the sum and is made of one: a key that has no part
    in the sum is one that the mask forbids.  ``finite-only``: what is 0 times an infinity or NaN
    is 0.
    """

    report: Report | None = None

    @op_type_rewrite_pattern
    def match_and_rewrite(
        self, op: region.BinaryOp | region.SelectOp, rewriter: PatternRewriter, /
    ) -> None:
        for value, condition in _hidden_by(op):
            for labels in _sums_of(op.result, plain=True):
                scales, power = _behind_scales(value, labels)
                owner = power.owner
                if not isinstance(owner, region.UnaryOp | region.BinaryOp):
                    continue
                unit, exponent = _power(owner)
                if exponent is None:
                    continue
                found = _split(exponent, labels)
                if not 0 < found.scale < math.inf or not _is_weighed(found.x, labels):
                    continue
                self._rewrite(op, found, unit, condition, scales, rewriter)
                return

    def _rewrite(
        self,
        op: region.BinaryOp | region.SelectOp,
        found: _Exponent,
        unit: float,
        condition: SSAValue,
        scales: Sequence[tuple[region.BinaryOp, int]],
        rewriter: PatternRewriter,
    ) -> None:
        make = _Making(op, rewriter)
        axes = op.result.type.axes.data
        none = make.number(-math.inf, axes)
        x = make.add(region.SelectOp(spread(condition, axes, rewriter), found.x, none))
        if found.scale * unit != 1:
            x = make.binary("mul", x, make.number(found.scale * unit, axes))
        for times, row in found.rows:
            if times * unit not in (1, -1):
                by = make.number(abs(times * unit), type_of(row).axes.data)
                row = make.binary("mul", row, by)
            x = make.binary("add" if times > 0 else "sub", x, spread(row, axes, rewriter))
        result = make.unary("exp", x)
        for scale, side in reversed(scales):
            sides = [result, result]
            sides[side] = scale.operands[side]
            result = make.binary(scale.fn.data, *sides)
        _say(self.report, op, "a mask of exponentials and of their sum is one of the scores")
        _replace(op, result, rewriter)


@dataclass
class MaximumOfDifference(RewritePattern):
    """``max(x - r)`` → ``max(x) - r``, and so for a sum, where r is made of a maximum of x's row.

    People subtract the maximum before a softmax, which subtracts it again.  Legal where r does not
    depend on the axes of the maximum, x weighs a product over them, and is made of one.
    ``finite-only``: rounding is monotone, so that numbers stay as they are, but over no point the
    maximum is -inf whatever r is.
    """

    report: Report | None = None

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: region.ReduceOp, rewriter: PatternRewriter, /) -> None:
        below = op.operand.owner
        if op.fn.data != "max" or not isinstance(below, region.BinaryOp):
            return
        if below.fn.data not in ("sub", "add"):
            return
        x, row = below.operands
        still = behind_views(row)
        if set(type_of(still).labels) & set(op.labels) or not _is_weighed(x, op.labels):
            return
        if not any(
            top.fn.data == "max" and set(top.labels) == set(op.labels) for top in _behind(still)
        ):
            return
        make = _Making(op, rewriter)
        axes = op.result.type.axes.data
        top = next(
            (u.operation.results[0] for u in x.uses if _is_like(u.operation, op)),
            None,
        )
        if top is None:
            top = make.add(region.ReduceOp("max", x, op.labels))
        new = make.binary(below.fn.data, spread(top, axes, rewriter), spread(still, axes, rewriter))
        _say(
            self.report, op, "the maximum of scores below their row's maximum is one of the scores"
        )
        rewriter.replace(op, [], [new])
        erase_unused(below, rewriter)


def _is_like(op: Operation, other: region.ReduceOp) -> bool:
    """Whether an op reduces as another one does, and stands before it."""
    return (
        isinstance(op, region.ReduceOp)
        and op.fn.data == other.fn.data
        and set(op.labels) == set(other.labels)
        and op.is_before_in_block(other)
    )


@dataclass
class CancelFactor(RewritePattern):
    """``(a * f) / (b * f)`` → ``a / b``, and ``(a * f) / (b * f + c)`` → ``a / (b + c / f)``.

    And ``(a / l) / (b / l)`` → ``a / b``, where l is a sum of the row.  Legal where f is an
    exponential of the row, and the sum that is divided by is of exponentials below a maximum; c is
    of the row too, and ``1 / exp(g)`` is ``exp(-g)``.  So are products with the reciprocal.

    ``finite-only``: f may be 0 or infinite, and the quotient is not asked then.
    """

    report: Report | None = None

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: region.BinaryOp, rewriter: PatternRewriter, /) -> None:
        match op.fn.data:
            case "div":
                if self._divided_twice(op, rewriter):
                    return
                ways = [(op.lhs, op.rhs)]
            case "mul":
                ways = [
                    (one, inverse)
                    for one, other in (op.operands, op.operands[::-1])
                    if (inverse := _inverted(other)) is not None
                ]
            case _:
                return
        for over, under in ways:
            for kept, factor in _scaled_by_power(over):
                make = _Making(op, rewriter)
                by = self._without(under, factor, make)
                if by is None:
                    continue
                _say(self.report, op, "a factor of a sum and of what is divided by it cancels")
                axes = op.result.type.axes.data
                new = make.binary("div", spread(kept, axes, rewriter), spread(by, axes, rewriter))
                _replace(op, new, rewriter)
                return

    def _divided_twice(self, op: region.BinaryOp, rewriter: PatternRewriter) -> bool:
        """Cancel a sum by which both sides of a quotient are divided; whether there is one."""
        over, under = op.lhs.owner, behind_views(op.rhs).owner
        for one in (over, under):
            if not isinstance(one, region.BinaryOp) or one.fn.data != "div":
                return False
        assert isinstance(over, region.BinaryOp) and isinstance(under, region.BinaryOp)
        by = behind_views(over.rhs)
        kept = under.lhs
        while not isinstance(kept.owner, region.ReduceOp):
            scaled = next(_scaled_by_power(kept), None)
            if scaled is None:
                return False
            kept = scaled[0]
        if by is not behind_views(under.rhs) or not _sum_below_maximum(kept):
            return False
        summed = isinstance(by.owner, region.ReduceOp) and by.owner.fn.data == "sum"
        # Its own factor may have been taken out of the sum.
        if not summed and not any(_sum_below_maximum(s) for s, _ in _scaled_by_power(by)):
            return False
        make = _Making(op, rewriter)
        axes = op.result.type.axes.data
        _say(self.report, op, "a sum that both sides of a quotient are divided by cancels")
        new = make.binary("div", over.lhs, spread(behind_views(under.lhs), axes, rewriter))
        _replace(op, new, rewriter)
        return True

    def _without(self, under: SSAValue, factor: region.UnaryOp, make: _Making) -> SSAValue | None:
        """``under`` divided by the factor; None where that is not known to be one of it."""
        under = behind_views(under)
        for kept, other in _scaled_by_power(under):
            if _sum_below_maximum(kept) and _alike(other, factor):
                return kept
        op = under.owner
        if not isinstance(op, region.BinaryOp) or op.fn.data != "add":
            return None
        for one, rest in (op.operands, op.operands[::-1]):
            for kept, other in _scaled_by_power(behind_views(one)):
                if not (_sum_below_maximum(kept) and _alike(other, factor)):
                    continue
                axes = op.result.type.axes.data
                away = make.unary("exp", make.unary("neg", factor.operand))
                more = make.binary("mul", rest, spread(away, axes, make.rewriter))
                return make.binary("add", spread(kept, axes, make.rewriter), more)
        return None


@dataclass
class LogOfProduct(RewritePattern):
    """``log(b * exp(g))`` → ``log(b) + g``.

    Legal where the exponential is of the row and b is a sum.  ``finite-only``: the product may be 0
    or infinite where the logarithm is neither.
    """

    report: Report | None = None

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: region.UnaryOp, rewriter: PatternRewriter, /) -> None:
        if op.fn.data != "log":
            return
        axes = op.result.type.axes.data
        for kept, factor in _scaled_by_power(op.operand):
            if not _sum_below_maximum(kept):
                continue
            make = _Making(op, rewriter)
            log = make.unary("log", kept)
            new = make.binary("add", log, spread(factor.operand, axes, rewriter))
            given = op.operand.owner
            _say(self.report, op, "the logarithm of a scaled sum is one of the sum, and a term")
            rewriter.replace(op, [], [new])
            if isinstance(given, Operation):
                erase_unused(given, rewriter)
            return


# What an exponential is of -------------------------------------------------------------


@dataclass(frozen=True)
class _Exponent:
    """``scale * x`` and terms of the row, each times a number."""

    x: SSAValue
    scale: float
    rows: Sequence[tuple[float, SSAValue]]


def _power(op: region.UnaryOp | region.BinaryOp) -> tuple[float, SSAValue | None]:
    """What ``op`` is an exponential of, and a factor of that; None where it is none."""
    if isinstance(op, region.UnaryOp):
        return 1.0, op.operand if op.fn.data == "exp" else None
    base = constant_of(op.lhs)
    if op.fn.data != "pow" or op.result.type.element_type != f32:
        return 1.0, None
    if base is None or not 1 < base < math.inf:
        return 1.0, None
    return math.log(base), op.rhs


def _split(exponent: SSAValue, labels: Sequence[str]) -> _Exponent:
    """An exponent as scores and what is of their row.

    Where nothing is of the row, it is the scores as it is.
    """
    block = exponent.owner.parent if isinstance(exponent.owner, Operation) else None
    assert block is not None
    known = {
        op.operand
        for op in block.ops
        if isinstance(op, region.ReduceOp) and op.fn.data == "max" and set(op.labels) == set(labels)
    }
    x, scale, rows = exponent, 1.0, list[tuple[float, SSAValue]]()
    while x not in known:
        match x.owner:
            case region.UnaryOp() as op if op.fn.data == "neg":
                x, scale = op.operand, -scale
            case region.BinaryOp() as op if op.fn.data in ("add", "sub"):
                still = [
                    not set(type_of(behind_views(o)).labels) & set(labels) for o in op.operands
                ]
                if sum(still) != 1:
                    break
                side, sign = still.index(True), -1.0 if op.fn.data == "sub" else 1.0
                rows.append((scale * (sign if side else 1.0), op.operands[side]))
                x, scale = op.operands[1 - side], scale * (1.0 if side else sign)
            case region.BinaryOp() as op if (by := _number(op)) is not None:
                x, scale = by[0], scale * by[1]
            case _:
                break
    if not rows and x not in known:
        return _Exponent(exponent, 1.0, ())
    return _Exponent(x, scale, rows)


def _number(op: region.BinaryOp) -> tuple[SSAValue, float] | None:
    """What a product or quotient with a number is of, and the number as a factor."""
    if op.fn.data == "mul":
        for one, other in (op.operands, op.operands[::-1]):
            if (number := constant_of(other)) is not None:
                return one, number
    if op.fn.data == "div" and (number := constant_of(op.rhs)):
        return op.lhs, 1 / number
    return None


def _linear(terms: Sequence[tuple[float, SSAValue]]) -> dict[SSAValue, float]:
    """Values of the row, behind views, and by what each is multiplied in a sum of terms."""
    found: dict[SSAValue, float] = {}
    todo = list(terms)
    while todo:
        times, value = todo.pop(0)
        value = behind_views(value)
        match value.owner:
            case region.UnaryOp() as op if op.fn.data == "neg":
                todo.append((-times, op.operand))
            case region.BinaryOp() as op if op.fn.data in ("add", "sub"):
                sign = -1.0 if op.fn.data == "sub" else 1.0
                todo += [(times, op.lhs), (times * sign, op.rhs)]
            case region.BinaryOp() as op if (by := _number(op)) is not None:
                todo.append((times * by[1], by[0]))
            case _:
                found[value] = found.get(value, 0.0) + times
    return found


# Where it goes -------------------------------------------------------------------------


def _sums_of(value: SSAValue, plain: bool = False) -> Iterator[Sequence[str]]:
    """The axes of the sums that a value goes into, cast, moved, scaled or chosen.

    With ``plain`` they are those of sums over points of the value, and not of products of it.
    """
    seen: set[frozenset[str]] = set()
    own = set(type_of(value).labels)
    for op in _reached(value):
        labels = frozenset(op.labels)
        if plain and set(type_of(op.operand).labels) != own:
            continue
        if op.fn.data == "sum" and labels <= set(type_of(value).labels) and labels not in seen:
            seen.add(labels)
            yield op.labels


def _is_weighed(x: SSAValue, labels: Sequence[str]) -> bool:
    """Whether x is made of a sum of products, and weighs a product that is summed over its axes.

    Squares of distances are such products where many weigh the same, as keys do for all queries; of
    a window about each point, as of an image that is smoothed but for its edges, they are not.
    """
    products = [
        product
        for op in _behind(x)
        if op.fn.data == "sum"
        and isinstance(product := op.operand.owner, region.BinaryOp)
        and product.fn.data == "mul"
    ]
    plain = any(product.lhs is not product.rhs for product in products)
    own = set(type_of(x).labels)
    return bool(products) and any(
        op.fn.data == "sum"
        and set(op.labels) == set(labels)
        and isinstance(product := op.operand.owner, region.BinaryOp)
        and product.fn.data == "mul"
        and set(product.result.type.labels) - own
        and (plain or any(own - {*type_of(behind_views(o)).labels} for o in product.operands))
        for op in _reached(x)
    )


def _reached(value: SSAValue) -> Iterator[region.ReduceOp]:
    """The reductions that elementwise ops lead to."""
    work, seen = [value], {value}
    while work:
        for use in work.pop().uses:
            op = use.operation
            if isinstance(op, region.ReduceOp):
                yield op
            elif isinstance(op, ELEMENTWISE) and op.results[0] not in seen:
                seen.add(op.results[0])
                work.append(op.results[0])


def _behind(value: SSAValue) -> Iterator[region.ReduceOp]:
    """The reductions that elementwise ops make a value of."""
    work, seen = [value], {value}
    while work:
        op = work.pop().owner
        if isinstance(op, region.ReduceOp):
            yield op
        elif isinstance(op, ELEMENTWISE):
            work += [o for o in op.operands if o not in seen]
            seen.update(op.operands)


def _hidden_by(op: region.BinaryOp | region.SelectOp) -> Iterator[tuple[SSAValue, SSAValue]]:
    """What an op keeps where a condition holds, and puts 0 for elsewhere; and the condition."""
    if isinstance(op, region.SelectOp):
        if constant_of(op.if_false) == 0:
            yield op.if_true, behind_views(op.condition)
        return
    if op.fn.data != "mul":
        return
    for one, other in (op.operands, op.operands[::-1]):
        by = behind_views(other).owner
        match by:
            case region.CastOp() if type_of(by.operand).element_type == i1:
                yield one, behind_views(by.operand)
            case region.SelectOp() if (constant_of(by.if_true), constant_of(by.if_false)) == (1, 0):
                yield one, behind_views(by.condition)
            case _:
                pass


def _behind_scales(
    value: SSAValue, labels: Sequence[str]
) -> tuple[list[tuple[region.BinaryOp, int]], SSAValue]:
    """The products and quotients with values of the row around a value, the last first, with the
    sides of these; and the value."""
    scales: list[tuple[region.BinaryOp, int]] = []
    while isinstance(op := value.owner, region.BinaryOp) and op.fn.data in ("mul", "div"):
        sides = (1,) if op.fn.data == "div" else (1, 0)
        side = next(
            (
                i
                for i in sides
                if not set(type_of(behind_views(op.operands[i])).labels) & set(labels)
            ),
            None,
        )
        if side is None:
            break
        scales.append((op, side))
        value = op.operands[1 - side]
    return scales, value


# Factors of a row ----------------------------------------------------------------------


def is_row_power(value: SSAValue) -> region.UnaryOp | None:
    """The exponential of a row that a value shows along other axes; None for something else."""
    op = behind_views(value).owner
    return op if isinstance(op, region.UnaryOp) and op.fn.data == "exp" else None


def _scaled_by_power(value: SSAValue) -> Iterator[tuple[SSAValue, region.UnaryOp]]:
    """What a value is times an exponential that is repeated or of a sum's shape."""
    op = value.owner
    if not isinstance(op, region.BinaryOp) or op.fn.data != "mul":
        return
    for one, other in (op.operands, op.operands[::-1]):
        factor = is_row_power(other)
        if factor is not None:
            yield one, factor


def _sum_below_maximum(value: SSAValue) -> bool:
    """Whether a value is a sum of exponentials below a maximum of the row."""
    op = value.owner
    if not isinstance(op, region.ReduceOp) or op.fn.data != "sum":
        return False
    return is_below_maximum(_behind_casts(op.operand), op.labels)


def _replace(op: Operation, value: SSAValue, rewriter: PatternRewriter) -> None:
    """A value in an op's place, and no more of what only that op read."""
    given = [o.owner for o in op.operands]
    rewriter.replace(op, [], [value])
    for one in given:
        if isinstance(one, Operation):
            erase_unused(one, rewriter)


def _behind_casts(value: SSAValue) -> SSAValue:
    while isinstance(op := value.owner, (*VIEWS, region.CastOp)):
        value = op.operand
    return value


def _inverted(value: SSAValue) -> SSAValue | None:
    """What a value is the reciprocal of."""
    op = behind_views(value).owner
    if isinstance(op, region.UnaryOp) and op.fn.data == "reciprocal":
        return op.operand
    if isinstance(op, region.BinaryOp) and op.fn.data == "div" and constant_of(op.lhs) == 1:
        return op.rhs
    return None


def _alike(one: Operation, other: Operation) -> bool:
    """Whether two ops compute the same of the same, behind views."""
    if one is other:
        return True
    if not isinstance(one, ELEMENTWISE | region.ConstantOp) or type(one) is not type(other):
        return False
    if one.properties != other.properties or len(one.operands) != len(other.operands):
        return False
    for a, b in zip(one.operands, other.operands, strict=True):
        a, b = behind_views(a), behind_views(b)
        if a is b:
            continue
        if not isinstance(a.owner, Operation) or not isinstance(b.owner, Operation):
            return False
        if not _alike(a.owner, b.owner):
            return False
    return True


# Building ------------------------------------------------------------------------------


@dataclass
class _Making:
    """Makes ops in front of ``like``."""

    like: Operation
    rewriter: PatternRewriter

    def add(self, op: Operation) -> SSAValue:
        self.rewriter.insert(located(op, self.like))
        return op.results[0]

    def binary(self, fn: str, left: SSAValue, right: SSAValue) -> SSAValue:
        return self.add(region.BinaryOp(fn, left, right))

    def unary(self, fn: str, value: SSAValue) -> SSAValue:
        return self.add(region.UnaryOp(fn, value))

    def number(self, value: float, axes: Sequence[AxisAttr]) -> SSAValue:
        return spread(self.add(region.ConstantOp(value, f32)), axes, self.rewriter)

    def guarded_maximum(self, x: SSAValue, labels: Sequence[str]) -> SSAValue:
        """The maximum of x, and the least finite number where that is -inf."""
        tops = (
            use.operation
            for use in x.uses
            if isinstance(op := use.operation, region.ReduceOp)
            and op.fn.data == "max"
            and set(op.labels) == set(labels)
            and op.is_before_in_block(self.like)
        )
        top = next((op.results[0] for op in tops), None)
        if top is None:
            top = self.add(region.ReduceOp("max", x, labels))
        for use in top.uses:
            op = use.operation
            sides = {constant_of(o) for o in op.operands} if isinstance(op, region.BinaryOp) else ()
            if LEAST_F32 in sides and op.is_before_in_block(self.like):
                return op.results[0]
        axes = type_of(top).axes.data
        return self.binary("max", top, self.number(LEAST_F32, axes))


def _say(report: Report | None, op: Operation, text: str) -> None:
    if report is not None:
        change: ChangeClass = "finite-only"
        report.fired.append(Note(change, text, op))


def row_references(report: Report) -> Sequence[RewritePattern]:
    """The patterns of this file."""
    return [
        MaskScores(report),
        MaximumOfDifference(report),
        SubtractMaximum(report),
        CancelFactor(report),
        LogOfProduct(report),
    ]
