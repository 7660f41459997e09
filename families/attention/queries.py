"""Queries that a kernel computes of what it reads, a tile at a time (S6.10).

What models do to queries just before attention, as rotary positions, a bias, a scale by a tensor or
a norm over the features of a head, is elementwise over queries and features, with reductions along
the features alone.  A kernel makes a tile of them once, for all keys.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import BFloat16Type, Float16Type, f32
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from polyc.dialects import region
from polyc.dialects.region.types import ValType
from polyc.families.attention.softmax import Refused, name_of, place_of
from polyc.rewriting.postorder import operands_of, reached
from polyc.rewriting.region.building import type_of
from polyc.rewriting.region.views import VIEWS

ELEMENTWISE = (
    region.ReadOp,
    region.ConstantOp,
    region.DimOp,
    region.IndexOp,
    region.InsideOp,
    region.UnaryOp,
    region.BinaryOp,
    region.CompareOp,
    region.SelectOp,
    region.CastOp,
    *VIEWS,
)
"""What a point of a tile computes."""


NORM_READS = 6
"""The most reads of queries beside whose norm a thread has registers: RoPE after a norm has 8."""


@dataclass(frozen=True)
class ComputedQueries:
    """Queries that are made of other values of the region."""

    name: str
    """That of the first tensor that has as many axes as they have."""
    value: SSAValue
    """The queries, rounded to f16 or bf16, over the batch, the queries and their features."""
    feature: str
    """The axis of the features."""
    along: tuple[str, ...]
    """The axes along the features: that, and those by which reductions run over them."""
    reductions: tuple[region.ReduceOp, ...]
    """In the order of the text."""
    reads: tuple[region.ReadOp, ...]
    """All that they are made of, in the order of the text."""

    @property
    def element(self) -> Attribute:
        """f16 or bf16."""
        return cast("ValType", self.value.type).element_type

    @property
    def operations(self) -> list[Operation]:
        """What makes them, operands first."""
        return _behind(self.value)


def queries_read(name: str, read: region.ReadOp, feature: str) -> ComputedQueries:
    """Queries as they lie in memory, where threads bring them row by row."""
    return ComputedQueries(name, read.result, feature, (feature,), (), (read,))


def rounded(value: SSAValue) -> SSAValue:
    """A factor of a product below the views and the casts that widen it."""
    while isinstance(op := value.owner, (*VIEWS, region.CastOp)):
        if isinstance(op, region.CastOp) and op.result.type.element_type != f32:
            break
        value = op.operand
    return value


def is_computed(value: SSAValue) -> bool:
    """Whether a factor of a product is more than a tensor that is moved and widened."""
    return not isinstance(rounded(value).owner, region.ReadOp | BlockArgument)


def computed_queries(
    kernel: region.KernelOp, factor: SSAValue, outer: Collection[str], feature: str
) -> ComputedQueries:
    """Queries that are computed, over the axes ``outer`` and a ``feature``, or Refused."""
    value = rounded(factor)
    kind = type_of(value)
    if not isinstance(kind.element_type, Float16Type | BFloat16Type):
        raise Refused(
            f"a factor is computed by {name_of(value)} as {kind.element_type}, which tensor cores "
            "would round",
            place_of(value),
        )
    features = kind.axis(feature)
    if features is None:
        raise Refused(f"its queries do not run over {feature}", place_of(value))
    operations = _behind(value)
    reductions = tuple(op for op in operations if isinstance(op, region.ReduceOp))
    along = dict.fromkeys([feature])
    for op in reductions:
        axes = [type_of(op.operand).axis(label) for label in op.labels]
        sums = op.fn.data == "sum" and op.accumulator != f32
        if len(axes) != 1 or axes[0] is None or axes[0].size != features.size or sums:
            raise Refused("its queries are made of a reduction not along their features", op)
        along[axes[0].label] = None
    for op in operations:
        if not isinstance(op, (*ELEMENTWISE, region.ReduceOp)):
            raise Refused(f"a factor is computed by {op.name}, and tensor cores read memory", op)
        for result in op.results:
            labels = type_of(result).labels
            beyond = [x for x in labels if x not in outer and x not in along]
            if beyond or sum(x in along for x in labels) > 1:
                strange = (beyond or [x for x in labels if x in along])[-1]
                raise Refused(f"its queries are made of values over {strange} too", op)
    reads = tuple(op for op in operations if isinstance(op, region.ReadOp))
    if reductions and len(reads) > NORM_READS:
        raise Refused(
            f"its queries are made of a norm and of {len(reads)} reads, and threads have registers "
            f"for both with {NORM_READS}",
            reductions[0],
        )
    wide = [op for op in reads if len(type_of(op.result).labels) == len(kind.labels)]
    if not wide:
        raise Refused("its queries are made of no tensor over all of their axes", place_of(value))
    name = kernel.name_of(wide[0].tensor)
    order = {op: i for i, op in enumerate(kernel.body.block.ops)}
    return ComputedQueries(
        name,
        value,
        feature,
        tuple(along),
        tuple(sorted(reductions, key=order.__getitem__)),
        tuple(sorted(reads, key=order.__getitem__)),
    )


def _behind(value: SSAValue) -> list[Operation]:
    """The ops that a value is made by, operands before users."""
    found = reached([value], operands_of)
    return [v.owner for v in found if isinstance(v.owner, Operation)]


def scores_among(
    kernel: region.KernelOp, value: SSAValue
) -> tuple[region.ReduceOp, Sequence[region.ReduceOp]]:
    """The sum that scores ``value`` come from, and the reductions that it is made of itself."""
    sums = [op for op in kernel.body.block.ops if isinstance(op, region.ReduceOp)]
    behind = set(_behind(value))
    own = [op for op in sums if op in behind]
    if not own or len(own) != len(sums):
        raise Refused(
            f"it has {len(sums)} reductions beside the softmax and not one", place_of(value)
        )
    return own[-1], own[:-1]
