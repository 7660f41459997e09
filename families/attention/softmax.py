"""What a softmax over keys takes: its scores below their masks, its weights, and its values.

Parts of what ``recognise.py`` looks for, found one from another; each raises ``Refused`` where the
region has something else there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

from xdsl.dialects.builtin import f32
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineConstraintExpr, AffineDimExpr, AffineExpr, AffineSet

from polyc.affine.expressions import constraint_of, expr_of, linear_of, rows_of, uses_dim
from polyc.dialects import region
from polyc.families.attention.visible import Visible
from polyc.rewriting.region.softmax_sums import read_type, streams
from polyc.rewriting.region.views import VIEWS, behind_views, constant_of


class Refused(Exception):
    """Why a region is no attention, as a clause about it, and where."""

    def __init__(self, why: str, at: Operation | None = None) -> None:
        super().__init__(why)
        self.at = at


@dataclass(frozen=True)
class Kept:
    """A tensor that keeps a part of each weight: a factor, or a condition for it not to be 0."""

    value: SSAValue
    condition: bool


@dataclass(frozen=True)
class Weights:
    """What ``region.reduce_together`` reduces: scores, and the values that weights multiply."""

    maximum: SSAValue
    total: SSAValue
    weighted: SSAValue
    scores: SSAValue
    values: SSAValue
    rounded: Attribute
    factor: float
    guarded: bool
    """Whether the maximum of no key at all is replaced by a finite number."""
    kept: tuple[Kept, ...] = ()
    """What is kept of the weights before they are rounded, the first first."""


def place_of(value: SSAValue) -> Operation | None:
    return value.owner if isinstance(value.owner, Operation) else None


def name_of(value: SSAValue) -> str:
    return value.owner.name if isinstance(value.owner, Operation) else "a block argument"


def weights_of(together: region.ReduceTogetherOp) -> Weights:
    """The chunk as a maximum, the sum of weights below it, and that of weighted values."""
    chunk = together.chunk.block
    made = cast("region.StateOp", chunk.last_op).values
    states = dict(zip(made, together.states, strict=True))
    tops = [v for v in made if isinstance(op := v.owner, region.ReduceOp) and op.fn.data == "max"]
    sums = streams(cast("region.ReduceOp", tops[0].owner)).sums if len(tops) == 1 else []
    plain = [s for s in sums if _is_exp(s.sum.operand)]
    wide = [s for s in sums if isinstance(s.sum.operand.owner, region.BinaryOp)]
    if not (len(states) == 3 and len(plain) == len(wide) == 1 and plain[0].scale == wide[0].scale):
        raise Refused("its softmax is not a maximum, a sum and a weighted sum", together)
    product = cast("region.BinaryOp", wide[0].sum.operand.owner)
    if product.fn.data != "mul":
        raise Refused("its values are not multiplied by their weights", together)
    sides = [_weight_behind(x) for x in product.operands]
    weight = next((i for i, side in enumerate(sides) if side is not None), None)
    if weight is None:
        raise Refused("its values are not multiplied by their weights", together)
    types, keeping = cast("tuple[list[Attribute], list[Kept]]", sides[weight])
    scores = cast("region.ReduceOp", tops[0].owner).operand
    values = behind_views(product.operands[1 - weight])
    taken: dict[SSAValue, SSAValue] = dict(zip(chunk.args, together.values, strict=True))
    if scores not in taken or values not in taken:
        raise Refused("its softmax computes its scores or values itself", together)
    kept = tuple(replace(k, value=taken.get(k.value, k.value)) for k in keeping)
    for one in kept:
        if read_type(one.value) is None and constant_of(one.value) is None:
            raise Refused(
                f"its weights are multiplied by {name_of(one.value)}, and not by what is read",
                place_of(one.value),
            )
    narrow = [x for x in types if x != f32]
    if len(set(narrow)) > 1:
        raise Refused("it rounds its weights twice", together)
    exponent = cast("region.UnaryOp", plain[0].sum.operand.owner).operand.owner
    while not isinstance(exponent, region.BinaryOp) or exponent.fn.data != "sub":
        assert isinstance(exponent, region.BinaryOp)  # times a number, as ``streams`` has seen
        inner = exponent.lhs if constant_of(exponent.lhs) is None else exponent.rhs
        exponent = inner.owner
    return Weights(
        states[tops[0]],
        states[plain[0].sum.result],
        states[wide[0].sum.result],
        taken[scores],
        taken[values],
        narrow[0] if narrow else f32,
        plain[0].scale,
        behind_views(exponent.rhs) is not tops[0],
        kept,
    )


def _weight_behind(value: SSAValue) -> tuple[list[Attribute], list[Kept]] | None:
    """The types that an exponential is cast to, and what is kept of it; None for no weight."""
    value, types = _behind_casts(value)
    kept: list[Kept] = []
    while not _is_exp(value):
        match value.owner:
            case region.BinaryOp() as op if op.fn.data == "mul":
                inside = [_holds_exp(x) for x in op.operands]
                if sum(inside) != 1:
                    return None
                side = inside.index(True)
                kept.insert(0, Kept(behind_views(op.operands[1 - side]), condition=False))
                value = op.operands[side]
            case region.SelectOp() as op if constant_of(op.if_false) == 0:
                kept.insert(0, Kept(behind_views(op.condition), condition=True))
                value = op.if_true
            case _:
                return None
        value, more = _behind_casts(value)
        types += more
    return types, kept


def _holds_exp(value: SSAValue) -> bool:
    """Whether a value is an exponential, or what is kept of one."""
    owner = _behind_casts(value)[0].owner
    match owner:
        case region.BinaryOp():
            return any(_holds_exp(x) for x in owner.operands)
        case region.SelectOp():
            return _holds_exp(owner.if_true)
        case _:
            return isinstance(owner, region.UnaryOp) and owner.fn.data == "exp"


def _is_exp(value: SSAValue) -> bool:
    return isinstance(op := value.owner, region.UnaryOp) and op.fn.data == "exp"


def _behind_casts(value: SSAValue) -> tuple[SSAValue, list[Attribute]]:
    """What ``value`` shows but for views and casts, and the types of these."""
    types: list[Attribute] = []
    while isinstance(op := value.owner, (*VIEWS, region.CastOp)):
        if isinstance(op, region.CastOp):
            types.append(op.result.type.element_type)
        value = op.operand
    return value, types


def read_of(value: SSAValue) -> tuple[region.ReadOp, region.GatherOp | None]:
    """The read of an operand that is moved and widened only, and the gather that it may be of."""
    found, types = _behind_casts(value)
    op = gather = found.owner
    if isinstance(gather, region.GatherOp):
        found, more = _behind_casts(gather.operand)
        op, types = found.owner, [*types, *more]
    if not isinstance(op, region.ReadOp) or not isinstance(op.tensor, BlockArgument):
        raise Refused(
            f"a factor is computed by {name_of(found)}, and tensor cores read memory",
            place_of(found),
        )
    if any(t not in (f32, op.result.type.element_type) for t in types):
        raise Refused("a factor is rounded on its way to a product", op)
    return op, gather if isinstance(gather, region.GatherOp) else None


def values_of(
    value: SSAValue,
) -> tuple[tuple[region.ReadOp, region.GatherOp | None], list[SSAValue]]:
    """The read of V, as ``read_of`` finds it, and the conditions under which it is not 0."""
    conditions: list[SSAValue] = []
    while True:
        found, types = _behind_casts(value)
        op = found.owner
        if not isinstance(op, region.SelectOp) or any(t != f32 for t in types):
            return read_of(value), conditions
        if constant_of(op.if_false) != 0:
            raise Refused("V is replaced by something else than 0", op)
        conditions.append(behind_views(op.condition))
        value = op.if_true


@dataclass(frozen=True)
class Masks:
    """A score below the conditions that make it -inf."""

    value: SSAValue
    positions: tuple[region.InsideOp, ...]
    conditions: tuple[SSAValue, ...]

    @staticmethod
    def of(value: SSAValue) -> Masks:
        positions: list[region.InsideOp] = []
        conditions: list[SSAValue] = []
        value = behind_views(value)
        while isinstance(op := value.owner, region.SelectOp):
            if constant_of(op.if_false) != -math.inf:
                break
            condition = behind_views(op.condition)
            if isinstance(condition.owner, region.InsideOp):
                positions.append(condition.owner)
            else:
                conditions.append(condition)
            value = behind_views(op.if_true)
        return Masks(value, tuple(positions), tuple(conditions))

    def split(self, m: str, n: str, symbols: Sequence[str]) -> tuple[Visible, tuple[SSAValue, ...]]:
        """The positions of query and key that are visible, and the other conditions."""
        rows: list[AffineConstraintExpr] = []
        gates = list(self.conditions)
        for inside in self.positions:
            part = set_over((m, n), inside.set.data, inside.result.type.labels)
            if part is None:
                gates.append(inside.result)
            else:
                rows += part.constraints
        return Visible(AffineSet(2, len(symbols), tuple(rows))), tuple(gates)


def set_over(axes: Sequence[str], points: AffineSet, labels: Sequence[str]) -> AffineSet | None:
    """A set over ``labels`` as one over ``axes``; None where it depends on others."""
    places = [AffineDimExpr(axes.index(x) if x in axes else len(axes)) for x in labels]
    symbols = [AffineExpr.symbol(i) for i in range(points.num_symbols)]
    rows: list[AffineConstraintExpr] = []
    for linear, equality in rows_of(points):
        expr = expr_of(linear).replace_dims_and_symbols(places, symbols)
        if uses_dim(expr, len(axes)):
            return None
        rows.append(constraint_of(linear_of(expr), equality))
    return AffineSet(len(axes), points.num_symbols, tuple(rows))
