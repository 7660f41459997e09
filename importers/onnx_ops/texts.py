"""TfIdfVectorizer of integers: how often each of some known runs of numbers is there."""

from __future__ import annotations

from functools import reduce
from itertools import pairwise

from polyc.importers.onnx_ops.movements import sliced
from polyc.importers.onnx_ops.node import Node
from polyc.importers.registry import converter
from polyc.trace import functions as F
from polyc.trace.values import Value

MOST_RUNS = 1024
"""Runs of numbers that are looked for, times the ways to skip numbers, at most."""


@converter("onnx", "TfIdfVectorizer")
def tf_idf(node: Node) -> Value:
    """Counts of runs of ``min_gram_length`` to ``max_gram_length`` numbers, which have up to
    ``max_skip_count`` others between two of theirs."""
    x = node.value()
    pool = node.attr("pool_int64s")
    if pool is None:
        node.unsaid("it counts texts, which graphs have not")
    starts = [*node.attr("ngram_counts"), len(pool)]
    places = list(node.attr("ngram_indexes"))
    weights = list(node.attr("weights", [1.0] * len(places)))
    least, most = int(node.attr("min_gram_length")), int(node.attr("max_gram_length"))
    skips = int(node.attr("max_skip_count")) + 1
    if len(places) * skips > MOST_RUNS:
        node.unsaid(f"{len(places)} runs of numbers; up to {MOST_RUNS // skips} are written out")
    axis, length = x.ndim - 1, x.kind.dims[x.ndim - 1].constant()
    if length is None:
        node.unsaid(f"a line of {x.kind.dims[axis]} numbers, which a call chooses")
    columns: dict[int, Value] = {}
    number = 0
    for size, (start, end) in enumerate(pairwise(starts), 1):
        for at in range(start, end, size):
            run, place = pool[at : at + size], places[number]
            weight = weights[number]
            number += 1
            if least <= size <= most:
                found = _count(x, [int(n) for n in run], skips if size > 1 else 1, length)
                columns[place] = _weighed(found, weight, node.attr("mode"))
    nothing = F.full(x.shape[:-1], 0.0)
    every = [columns.get(i, nothing) for i in range(max(places, default=-1) + 1)]
    return F.stack(every, axis)


def _count(x: Value, run: list[int], skips: int, length: int) -> Value:
    """How often a run is there along the last axis, as a real number."""
    axis = x.ndim - 1
    total = F.full(x.shape[:-1], 0.0)
    for step in range(1, skips + 1):
        ends = length - (len(run) - 1) * step
        if ends < 1:
            break
        hits = [
            sliced(x, axis, i * step, i * step + ends) == number for i, number in enumerate(run)
        ]
        total = total + reduce(lambda a, b: a & b, hits).cast("f32").sum(axis)
    return total


def _weighed(found: Value, weight: float, mode: bytes) -> Value:
    match mode:
        case b"TF":
            return found
        case b"IDF":
            return F.where(found > 0.0, F.full(found.shape, weight), 0.0)
        case _:
            return found * weight
