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

from collections.abc import Collection, Mapping, Sequence
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
    products: tuple[SSAValue, SSAValue],
    weights: Collection[SSAValue],
    inside: Collection[SSAValue],
    end: SSAValue,
) -> Scores | None:
    """What others want of the first of the two ``products`` of an attention that ends at ``end``.

    ``weights`` is what the factor of the second product is made of down to the first, and
    ``inside`` all that the attention computes, operands before users.  None where nobody else wants
    the scores, or where the attention would need what its own rows are needed for.
    """
    first, _ = products
    again = _scores_to_weights(reads, first, weights)
    rows = _rows(reads, products, again, inside)
    made = dict.fromkeys(again)
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
    return Scores(end, set(again), rows, stored)


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


def _scores_to_weights(
    reads: Reads, first: SSAValue, weights: Collection[SSAValue]
) -> dict[SSAValue, None]:
    """Of what weights are made of, what differs from score to score."""
    again: dict[SSAValue, None] = {first: None}
    for value in weights:
        reduces = isinstance(value.owner, tiny.ReduceOp)
        if value is not first and not reduces and any(o in again for o in reads.operands(value)):
            again[value] = None
    return again


def _rows(
    reads: Reads,
    products: tuple[SSAValue, SSAValue],
    again: Collection[SSAValue],
    inside: Collection[SSAValue],
) -> list[SSAValue]:
    """What is computed inside of the scores, once a row, and not of the second product."""
    first, second = products
    rows: list[SSAValue] = []
    made: set[SSAValue] = set()
    wide, after = set(again), {second}
    for value in inside:
        operands = reads.operands(value)
        reduces = isinstance(value.owner, tiny.ReduceOp)
        if value is first or value is second:
            continue
        if any(o in after for o in operands):
            after.add(value)
        elif not reduces and any(o in wide for o in operands):
            wide.add(value)
        elif any(o in made or o in wide for o in operands):
            made.add(value)
            if cost.is_computed(value):
                rows.append(value)
    return rows


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
