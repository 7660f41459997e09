"""``index-to-region``: what a graph makes of an attention's scores beside the attention.

    w = exp(s - m) / l        y = sum over keys of round(w) * v

where ``w`` is wanted in memory too, as the weights that a model returns.  With ``w`` stored, and
read by the second product, every element of the scores goes through memory four times or more.  So
the two products may stay together all the same: their kernel stores what each row has one of, here
``m`` and ``l``, and whoever wants ``w`` computes it of the first product's factors once more, in
the epilogue of a product of its own.  Nothing of the scores' size is read then.  Which of the two
takes less time is a question of the model of time (``cuts.py``).

Exact: each value is made by the ops that made it before.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue

from polyc.dialects import tiny
from polyc.dialects.common.movements import MovementOp
from polyc.lowering.index_to_region import cost
from polyc.rewriting.postorder import reached

ROW = "each row of an attention has one, which the attention stores for who computes its scores too"


@dataclass(frozen=True)
class Scores:
    """What others want of an attention's scores.

    ``end`` is the value that the attention's kernel stores.  ``again`` are the values from the
    scores to the weights, which every kernel that wants them computes itself; ``rows`` those that a
    row has one of, which the attention's kernel stores; ``stored`` those of ``again``, and made of
    these, that lie in memory for others than the attention.
    """

    end: SSAValue
    again: Collection[SSAValue]
    rows: Collection[SSAValue]
    stored: Collection[SSAValue]


@dataclass(frozen=True)
class Reads:
    """The values that ops read, and the ops that read values, equal casts left out."""

    same: Mapping[SSAValue, SSAValue]
    users: Mapping[SSAValue, Sequence[Operation]]

    def operands(self, value: SSAValue) -> list[SSAValue]:
        op = value.owner
        return [self.same.get(o, o) for o in op.operands] if isinstance(op, Operation) else []


def shared_scores(
    reads: Reads,
    first: SSAValue,
    weights: Collection[SSAValue],
    inside: Collection[SSAValue],
    end: SSAValue,
) -> Scores | None:
    """What others want of ``first``, the product of an attention that ends at ``end``.

    ``weights`` is what the factor of the second product is made of down to ``first``, operands
    before users, and ``inside`` all that the attention computes.  None where nobody else wants the
    scores, or where the attention would need what its own rows are needed for.
    """
    again, rows = _parted(reads, first, weights)
    made = dict.fromkeys([first, *again])
    for value in list(made):
        _follow(reads, value, made)
    wanted, stored = False, dict[SSAValue, None]()
    within = set(inside)
    for value in made:
        others = _outside(reads, value, within)
        wanted = wanted or bool(others)
        apart = (op for op in others if not isinstance(op, tiny.OutputOp))
        if any(op.results[0] not in made for op in apart):
            stored[value] = None
    if not wanted or _needs(reads, first, within):
        return None
    return Scores(end, {first, *again}, rows, stored)


def is_softmax_sum(value: SSAValue) -> bool:
    """Whether a number of each row of an attention is the sum of its weights.

    An attention has one sum beside that of its values, which is of exponentials below a maximum.
    """
    op = value.owner
    if not isinstance(op, tiny.ReduceOp) or op.function != "sum":
        return False
    terms = op.operand.owner
    while isinstance(terms, tiny.CastOp):
        terms = terms.operand.owner
    return isinstance(terms, tiny.UnaryOp) and terms.function == "exp"


def _parted(
    reads: Reads, first: SSAValue, weights: Collection[SSAValue]
) -> tuple[list[SSAValue], list[SSAValue]]:
    """Of what weights are made of: what differs from score to score, and what rows have one of."""
    again: dict[SSAValue, None] = {first: None}
    rows: dict[SSAValue, None] = {}
    of_rows: set[SSAValue] = set()
    for value in weights:
        operands = reads.operands(value)
        if value is first:
            continue
        if not isinstance(value.owner, tiny.ReduceOp) and any(o in again for o in operands):
            again[value] = None
        elif any(o in again or o in of_rows for o in operands):
            of_rows.add(value)
            if cost.is_computed(value):
                rows[value] = None
    return list(again), list(rows)


def _follow(reads: Reads, value: SSAValue, made: dict[SSAValue, None]) -> None:
    """Add what elementwise ops make of a value, at its own shape."""
    work = [value]
    while work:
        here = work.pop()
        for op in reads.users.get(here, ()):
            keeps = not isinstance(op, tiny.ReduceOp | MovementOp) or isinstance(op, tiny.MaskOp)
            if op.results and keeps and op.results[0] not in made:
                made[op.results[0]] = None
                work.append(op.results[0])


def _outside(reads: Reads, value: SSAValue, inside: Collection[SSAValue]) -> list[Operation]:
    """The ops that read a value, or move what is inside of it, and are not inside themselves."""
    found: list[Operation] = []
    work = [value]
    while work:
        for op in reads.users.get(work.pop(), ()):
            if not op.results or op.results[0] not in inside:
                found.append(op)
            elif isinstance(op, MovementOp):
                work += op.results
    return found


def _needs(reads: Reads, first: SSAValue, inside: Collection[SSAValue]) -> bool:
    """Whether what is read inside is made of ``first`` outside."""
    read = {o for value in inside if value is not first for o in reads.operands(value)}
    return first in reached(read - set(inside), reads.operands)
