"""What a kernel asks of each score of an attention, and of the end of its keys (S6.10)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import bf16, f16, f32, i1
from xdsl.ir import SSAValue

from polyc.dialects import region
from polyc.dialects.common.dim import Assumption
from polyc.dialects.plan import MAX_VECTOR_BYTES, ScheduleOp
from polyc.dialects.plan.attention import PATTERN, SHARED_KEYS
from polyc.dialects.plan.fields import record_of
from polyc.dialects.region.types import ValType
from polyc.families.attention.ends import End
from polyc.families.attention.recognise import StreamingAttention
from polyc.families.facts import holds_always
from polyc.rewriting.postorder import operands_of, reached
from polyc.rewriting.region.building import type_of
from polyc.rewriting.region.views import behind_views, constant_of

UNMASKED, PLAIN, BOUNDED, ALONG, BROUGHT, ANY = range(6)
"""Scores: products times a number of all keys; with one bound of a query's keys; with any bounds;
made of other values too, of which one at most is a key's and the others are a query's or all keys'
own; with one bound at most and of one mask of queries and keys, of two bytes, or of conditions that
TMA brings; or of any values, such as several masks, or weights of which a part is kept."""

KEPT_FEATURES = 128
"""The most features beside which a thread has registers for masks that are read and for what is
kept of weights, or with ``mma.sync`` for maxima and sums that are found again."""


def kind_of(attention: StreamingAttention) -> int:
    """How much scores and weights ask for beside a product of a query and a key."""
    score = attention.score
    if attention.kept:
        return ANY
    if score.scale is None or score.gates:
        if reads_along(attention):
            return ALONG
        return BROUGHT if reads_one_mask(attention) else ANY
    if score.visible.everywhere:
        return UNMASKED
    return BOUNDED if score.visible.first_keys(1) else PLAIN


def reads_along(attention: StreamingAttention) -> bool:
    """Whether what scores are made of has one value of a key at most, and none of a key and query.

    Threads keep those of a step's keys in registers (``gpu-share-reads``).
    """
    of_keys = [kind.labels for kind in _kinds_of_keys(attention)]
    return len(of_keys) <= 1 and not any(attention.m in labels for labels in of_keys)


def reads_one_mask(attention: StreamingAttention) -> bool:
    """Whether all that scores are made of beside products, and that is a key's, is one tensor of
    queries and keys: numbers of two bytes, or conditions in rows that TMA takes; and what a query
    sees ends by its position at most."""
    of_keys = _kinds_of_keys(attention)
    if len(of_keys) != 1 or attention.m not in of_keys[0].labels:
        return False
    if attention.score.visible.first_keys(1):
        return False
    element = of_keys[0].element_type
    if element == i1:
        kernel = attention.kernel
        whole = Assumption(attention.size(attention.n).mod(MAX_VECTOR_BYTES), "==")
        return holds_always(whole, kernel.assumptions, kernel.symbol_names)
    return element in (f16, bf16)


def _kinds_of_keys(attention: StreamingAttention) -> list[ValType]:
    """What scores read beside queries and keys that is not the same for all keys."""
    score = attention.score
    products = attention.scores.result

    def needs(value: SSAValue) -> Sequence[SSAValue]:
        return () if value is products else operands_of(value)

    made = reached([score.value, *score.gates], needs)
    reads = [cast("ValType", v.type) for v in made if isinstance(v.owner, region.ReadOp)]
    return [kind for kind in reads if attention.n in kind.labels]


def ends_walked(attention: StreamingAttention, plan: ScheduleOp) -> Sequence[End]:
    """The gates that say where a kernel's walk over the keys ends: those of lengths that are data.

    A tile has one for all of its rows.  The producers of wgmma do not know of them.
    """
    if plan.mma.data == "wgmma":
        return ()
    packs = record_of(plan.algo_choice)[PATTERN] == SHARED_KEYS
    shared = attention.shared if packs else None
    ends = attention.score.ends
    return [end for end in ends if shared is None or shared.axis not in end.labels]


def gates_left(attention: StreamingAttention, plan: ScheduleOp) -> Sequence[SSAValue]:
    """The gates that hide keys before the end of a kernel's walk over these."""
    ends = {end.gate for end in ends_walked(attention, plan)}
    return [gate for gate in attention.score.gates if gate not in ends]


def gates_asked(attention: StreamingAttention, plan: ScheduleOp) -> Sequence[SSAValue]:
    """The gates that a kernel asks score by score.

    Others say what an addend of the score does too, and where a hidden key's score is not -inf by
    that, it is NaN, and all is computed again: maxima and sums too.  Threads have registers for
    that where they have no wide heads and, with ``mma.sync``, hold no mask of queries and keys.
    """
    score = attention.score
    few = kind_of(attention) == ALONG and not is_tight(attention, plan)
    if plan.mma.data == "wgmma" and kind_of(attention) > ALONG:
        few = max(attention.tile_features) <= KEPT_FEATURES
    left = gates_left(attention, plan)
    return [gate for gate in left if gate in score.asked] if few else left


NEAR = 2.0**17
"""What may be added to products for their sum with a base to be rounded as exponents may be: the
largest number of f16, twice.  A base is then right to 2^-7, alike for all weights of a row."""

HALF = 65504.0
"""The largest number of f16 that is finite."""


def is_near(attention: StreamingAttention) -> bool:
    """Whether the exponent of a weight is one fused multiplication and addition of its score.

    That is so of products times a number, of what is added to them while it is no more than f16
    holds, and of what a tanh bounds.  A mask of f32 or bf16 may be -1e9, of which a base would be
    wrong by more than there is between scores.
    """
    if attention.score.scale is not None:
        return True
    most = _most(behind_views(attention.score.value), attention.scores.result)
    return most is not None and most <= NEAR


def _most(value: SSAValue, products: SSAValue) -> float | None:
    """How large a finite value may be beside products, which count nothing; None: not known."""
    if value is products:
        return 0.0
    if (number := constant_of(value)) is not None:
        return abs(number) if math.isfinite(number) else None
    match op := value.owner:
        case region.ReadOp():
            return HALF if type_of(value).element_type == f16 else None
        case region.UnaryOp() if op.fn.data == "tanh":
            return 1.0
        case region.CastOp() if type_of(value).element_type == f32:
            return _most(behind_views(op.operand), products)
        case region.BinaryOp() if op.fn.data in ("add", "sub", "mul"):
            both = [_most(behind_views(side), products) for side in op.operands]
            if None in both:
                return None
            one, other = (side or 0.0 for side in both)
            return one * other if op.fn.data == "mul" else one + other
        case _:
            return None


def is_tight(attention: StreamingAttention, plan: ScheduleOp) -> bool:
    """Whether the heads of a kernel of ``mma.sync`` leave its threads next to no register."""
    return plan.mma.data != "wgmma" and max(attention.tile_features) > KEPT_FEATURES
