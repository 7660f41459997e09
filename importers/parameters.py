"""A model's tensors with numbers: entries of a parameter file, apart from the module (S12.2).

The builder keeps what was read (``Builder.captured``); a module names the entries, and has their
sizes and types only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xdsl.dialects.builtin import ModuleOp, i1

from polyc.dialects.common.elements import is_integer
from polyc.dialects.frontend import GraphOp, parameters
from polyc.trace.annotations import element_name
from polyc.trace.builder import Builder
from polyc.trace.elements import ELEMENTS
from polyc.trace.values import Value


def read(builder: Builder, array: Any, wanted: str) -> Value:
    """The value of a tensor with numbers: a parameter; of a number alone, a constant.

    ``wanted`` is what its entry is called, or like it where that is taken.  A condition is a
    parameter always, as graphs have no constants of these.  Raises PolycError ``UnknownType`` for
    elements that graphs do not have.
    """
    if tuple(array.shape) == ():
        element = ELEMENTS[element_name(getattr(array.dtype, "name", array.dtype))]
        if element != i1:
            number = int(array) if is_integer(element) else float(array)
            return Value(builder, builder.constant(number, element))
    known = builder.captured.tensors
    for name, one in known.items():
        if one is array:
            return Value(builder, builder.tensor(array, name))
    return Value(builder, builder.tensor(array, free_name(wanted, (*known, *builder.entries))))


def free_name(wanted: str, taken: Sequence[str]) -> str:
    """A name of an entry, or of an input, that is not taken: ``wanted`` or that with a number."""
    clean = "".join(c if c.isprintable() else "_" for c in wanted) or "constant"
    if clean == "__metadata__":  # the format's own
        clean = "metadata"
    name, number = clean, 0
    while name in taken:
        number += 1
        name = f"{clean}_{number}"
    return name


def symbol_name(wanted: str, taken: Sequence[str]) -> str:
    """A name that IR has for an input, an output, a graph or a size, like ``wanted``."""
    clean = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in wanted)
    if not clean or clean[0].isdigit():
        clean = f"_{clean}"
    return free_name(clean, taken)


def kept(module: ModuleOp, builder: Builder) -> Mapping[str, Any]:
    """The tensors that a finished module still reads, by the names of their entries."""
    graphs = [op for op in module.ops if isinstance(op, GraphOp)]
    left = {one.entry.data for graph in graphs for one in parameters(graph)}
    return {name: one for name, one in builder.captured.tensors.items() if name in left}
