"""Ways from a value up to the values that it is made of, through the index book (S4.6, S7.1).

A way is one affine branch of the relation ``consumer point → element of another value``: a
``Reach``, with a domain that holds the conditions of the pieces passed.  The relation itself is
the union of the ways.  Reduced axes that are passed are further dimensions of a way, after the
consumer's own axes and reduced axes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineMap, AffineSet

from polyc.dialects.common.dim import AssumptionsAttr
from polyc.dialects.common.signature import graph_of
from polyc.dialects.index import Reach, ValueOp, start, steps, value_op

MAX_WAYS = 64
"""Ways to one value before the question is given up (S6.8 ExcessivePiecewise)."""


@dataclass(frozen=True, slots=True)
class Blocked:
    """Why there is no affine relation between two values, as one clause."""

    reason: str


def entry_of(value: SSAValue) -> ValueOp:
    """The entry of a value; raises ValueError when the book has none."""
    entry = value_op(value)
    if entry is None:
        raise ValueError(f"%{value.name_hint or '?'} has no index.value; run tiny-to-index first")
    return entry


def upstream(value: SSAValue) -> set[SSAValue]:
    """The value and everything that it is computed from."""
    found = {value}
    pending = [value]
    while pending:
        owner = pending.pop().owner
        if isinstance(owner, Operation):
            for operand in owner.operands:
                if operand not in found:
                    found.add(operand)
                    pending.append(operand)
    return found


def downstream(value: SSAValue) -> set[SSAValue]:
    """The value and everything that is computed from it."""
    found = {value}
    pending = [value]
    while pending:
        for use in pending.pop().uses:
            if not isinstance(use.operation, ValueOp):
                for result in use.operation.results:
                    if result not in found:
                        found.add(result)
                        pending.append(result)
    return found


def _between(
    consumer: SSAValue, producer: SSAValue, order: Mapping[SSAValue, int] | None
) -> set[SSAValue]:
    """The values on the ways from ``consumer`` up to ``producer``, both included, if there is one.

    What stands before the producer is not looked at where ``order`` says so.
    """
    if order is None:
        return upstream(consumer) & downstream(producer)
    least = order[producer]
    above: dict[SSAValue, list[SSAValue]] = {consumer: []}
    pending = [consumer]
    while pending:
        value = pending.pop()
        owner = value.owner
        if value is producer or not isinstance(owner, Operation):
            continue
        for operand in owner.operands:
            if order.get(operand, -1) < least:
                continue
            if operand not in above:
                above[operand] = []
                pending.append(operand)
            above[operand].append(value)
    found: set[SSAValue] = set()
    pending = [producer] if producer in above else []
    while pending:
        value = pending.pop()
        if value not in found:
            found.add(value)
            pending += above[value]
    return found


def ways(
    consumer: SSAValue, producer: SSAValue, order: Mapping[SSAValue, int] | None = None
) -> tuple[Reach, ...] | Blocked:
    """Every way from ``consumer`` up to ``producer``; each distinct one once.

    The first dimensions of a way are the consumer's axes, then its reduced axes; those that
    are reduced further up follow.  Blocked where the producer is not upstream, where a value
    between the two is not affine, or where there are more than ``MAX_WAYS``.  ``order`` are the
    places of the graph's values in its text: with them the search stays between the two.
    """
    between = _between(consumer, producer, order)
    if not between:
        return Blocked("the consumer is not computed from the producer")
    found: dict[SSAValue, dict[tuple[AffineMap, AffineSet], Reach]] = {}
    first = start(consumer)
    found[consumer] = {(first.map, first.domain): first}
    for value in _bottom_up(consumer, between):
        if value is producer:
            continue
        entry = entry_of(value)
        if (reason := entry.why_not_affine) is not None:
            return Blocked(f"%{value.name_hint or '?'} between them is not affine: {reason}")
        for i, operand in enumerate(entry.operands_read):
            if operand not in between:
                continue
            there = found.setdefault(operand, {})
            for reach in found.get(value, {}).values():
                for further in steps(reach, i):
                    there.setdefault((further.map, further.domain), further)
            if len(there) > MAX_WAYS:
                return Blocked(
                    f"%{operand.name_hint or '?'} is read in more than {MAX_WAYS} ways from there"
                )
    return tuple(found.get(producer, {}).values())


def _bottom_up(consumer: SSAValue, among: set[SSAValue]) -> Iterator[SSAValue]:
    """``among``, each value before those that it is computed from."""
    order: list[SSAValue] = []
    seen: set[SSAValue] = set()
    pending = [(consumer, False)]
    while pending:
        value, finished = pending.pop()
        if finished:
            order.append(value)
        elif value not in seen:
            seen.add(value)
            pending.append((value, True))
            if isinstance(owner := value.owner, Operation):
                pending += [(o, False) for o in owner.operands if o in among]
    return reversed(order)


def facts_of(value: SSAValue) -> AffineSet:
    """What the graph around assumes of its symbols, as a set without dimensions."""
    entry = entry_of(value)
    graph = graph_of(entry)
    assumed = AssumptionsAttr(() if graph is None else graph.facts)
    return assumed.as_affine_set(entry.symbol_names)
