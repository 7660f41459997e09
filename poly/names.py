"""Names of values and axes in reports: what the text calls them, else numbers."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from xdsl.ir import Operation, SSAValue

from polyc.dialects.common.dim import Dim
from polyc.dialects.common.signature import SignatureOp
from polyc.dialects.index import AxisAttr, book, value_op


def value_names(graph: Operation) -> dict[SSAValue, str]:
    """A name for each value in the book: its SSA name, else v0, v1, … in order.

    Inputs have the names of the signature.  A name that is taken gets a number.
    """
    names: dict[SSAValue, str] = {}
    taken: set[str] = set()
    given: dict[SSAValue, str] = {}
    if isinstance(graph, SignatureOp):
        args = graph.body.block.args
        given = {a: n.data for a, n in zip(args, graph.arg_names, strict=True)}
        taken = set(given.values())
    count = 0
    for value in book(graph):
        name = given.get(value)
        if name is None:
            hint = value.name_hint
            if hint is None:
                while f"v{count}" in taken:
                    count += 1
                name = f"v{count}"
            else:
                name, number = hint, 0
                while name in taken:
                    number += 1
                    name = f"{hint}_{number}"
            taken.add(name)
        names[value] = name
    return names


def value_name(value: SSAValue) -> str:
    """The name of one value of a graph that has an index book."""
    entry = value_op(value)
    graph = None if entry is None else entry.parent_op()
    return value.name_hint or "?" if graph is None else value_names(graph)[value]


def axis_names(
    axes: Sequence[AxisAttr], symbols: Sequence[str], reduced_from: int | None = None
) -> tuple[str, ...]:
    """Readable names of axes, as the region layer gives them.

    The symbol of the size in lower case when it is alone and free (``M`` → ``m``), else
    ``i<n>``, and ``r<n>`` from ``reduced_from`` on.
    """
    split = len(axes) if reduced_from is None else reduced_from
    names: list[str] = []
    for i, axis in enumerate(axes):
        text = str(axis.dim)
        plain = axis.dim.constant() is None and (text,) == axis.dim.symbols()
        name = text.lower()
        if not plain or name in names or name in symbols or name in _ISL_WORDS:
            name = f"i{i}" if i < split else f"r{i - split}"
        names.append(name)
    return tuple(names)


_ISL_WORDS = frozenset(
    "and or not exists implies mod floor ceil floord ceild min max true false rat".split()  # noqa: SIM905
)


def size_json(dim: Dim) -> int | str:
    """A size in JSON: a number, or the text of its expression."""
    value = dim.constant()
    return str(dim) if value is None else value


def number_json(value: float) -> float | str:
    """A number in JSON, which has no infinities and no NaN: those are text."""
    return value if isfinite(value) else str(value)
