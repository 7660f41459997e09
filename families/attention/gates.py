"""What a kernel asks of each score of an attention, and of the end of its keys (S6.10)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.ir import SSAValue

from polyc.dialects import region
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.plan.attention import PATTERN, SHARED_KEYS
from polyc.dialects.plan.fields import record_of
from polyc.dialects.region.types import ValType
from polyc.families.attention.ends import End
from polyc.families.attention.recognise import StreamingAttention
from polyc.rewriting.postorder import operands_of, reached

UNMASKED, PLAIN, BOUNDED, ALONG, ANY = range(5)
"""Scores: products times a number of all keys; with one bound of a query's keys; with any bounds;
made of other values too, of which one at most is a key's and the others are a query's or all keys'
own; or of any values, such as masks that are read, or weights of which a part is kept."""

KEPT_FEATURES = 128
"""The most features beside which a thread has registers for masks that are read and for what is
kept of weights, or with ``mma.sync`` for maxima and sums that are found again."""


def kind_of(attention: StreamingAttention) -> int:
    """How much scores and weights ask for beside a product of a query and a key."""
    score = attention.score
    if attention.kept:
        return ANY
    if score.scale is None or score.gates:
        return ALONG if reads_along(attention) else ANY
    if score.visible.everywhere:
        return UNMASKED
    return BOUNDED if score.visible.first_keys(1) else PLAIN


def reads_along(attention: StreamingAttention) -> bool:
    """Whether what scores are made of has one value of a key at most, and none of a key and query.

    Threads keep those of a step's keys in registers (``gpu-share-reads``).
    """
    score = attention.score
    products = attention.scores.result

    def needs(value: SSAValue) -> Sequence[SSAValue]:
        return () if value is products else operands_of(value)

    made = reached([score.value, *score.gates], needs)
    reads = [cast("ValType", v.type) for v in made if isinstance(v.owner, region.ReadOp)]
    of_keys = [kind.labels for kind in reads if attention.n in kind.labels]
    return len(of_keys) <= 1 and not any(attention.m in labels for labels in of_keys)


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
    that where they hold no mask of queries and keys and, with ``mma.sync``, no wide heads.
    """
    score = attention.score
    few = kind_of(attention) == ALONG and not is_tight(attention, plan)
    left = gates_left(attention, plan)
    return [gate for gate in left if gate in score.asked] if few else left


def is_tight(attention: StreamingAttention, plan: ScheduleOp) -> bool:
    """Whether the heads of a kernel of ``mma.sync`` leave its threads next to no register."""
    return plan.mma.data != "wgmma" and max(attention.tile_features) > KEPT_FEATURES
