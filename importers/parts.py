"""Parts of a model that ``torch.compile`` has cut out, as programs.

``from_graph`` gives one, ``fault_of`` says whether one op can be said where it stands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from polyc.dialects.common.diagnostic import PolycError
from polyc.importers.fx import Reading, has_tensor, is_complex, memory_order, op_name
from polyc.importers.imported import Imported
from polyc.importers.registry import Faults
from polyc.importers.symbols import Symbols


@dataclass(frozen=True)
class Part:
    """A graph module as a program, and how it is called.

    ``tensors`` are the numbers of its arguments that are inputs, in their order, ``sizes`` those of
    arguments that are sizes, by the names of their symbols.
    """

    imported: Imported
    tensors: Sequence[int]
    sizes: Mapping[str, int]
    orders: Sequence[Sequence[int] | None]
    """In which order of its axes each of ``tensors`` is given, and then each result; None for
    their own."""


def from_graph(module: Any, name: str, held: Mapping[int, Any]) -> Part:
    """A ``torch.fx.GraphModule`` of ATen's ops; ``held`` has the numbers of arguments that are
    parameters, by their place.  Raises PolycError."""
    nodes = [node for node in module.graph.nodes if node.op == "placeholder"]
    inputs: list[Any] = []
    places: list[int] = []
    sizes: dict[str, int] = {}
    given: dict[Any, tuple[str, Any]] = {}
    symbols = Symbols({})
    for i, node in enumerate(nodes):
        value = node.meta.get("val")
        if i in held:
            given[node] = node.name, held[i]
        elif has_tensor(value):
            inputs.append(node)
            places.append(i)
        elif type(value).__name__ == "SymInt" and value.node.expr.is_Symbol:
            sizes[symbols.name(str(value.node.expr))] = i
    faults = Faults(name)
    found_orders = {node: memory_order(node.meta["val"]) for node in inputs}
    orders = {node: order for node, order in found_orders.items() if order is not None}
    facts = symbols.facts(_ranges(nodes), [node.meta["val"] for node in inputs])
    reading = Reading(name, inputs, symbols, facts, faults, orders)
    reading.bind(given)
    reading.run(module)
    end = next(node for node in module.graph.nodes if node.op == "output")
    listed = end.args[0] if isinstance(end.args[0], list | tuple) else [end.args[0]]
    ends = list(cast("Sequence[Any]", listed))
    made = [memory_order(node.meta["val"]) for node in ends]
    found = [
        (node.name, reading.laid_out(reading.value_at(node), order))
        for node, order in zip(ends, made, strict=True)
    ]
    imported = reading.finished(found)
    there = set(imported.graph.symbol_names)
    known = {one: i for one, i in sizes.items() if one in there}
    return Part(imported, places, known, [*(orders.get(node) for node in inputs), *made])


def _ranges(nodes: Sequence[Any]) -> Mapping[Any, Any]:
    """What PyTorch has assumed of the symbols in the sizes of nodes: it asks before each call."""
    for node in nodes:
        mode = getattr(node.meta.get("val"), "fake_mode", None)
        if (shapes := getattr(mode, "shape_env", None)) is not None:
            return getattr(shapes, "var_to_range", {})
    return {}


def fault_of(node: Any) -> PolycError | None:
    """Why a node of a graph cannot be said where it stands; None where it can."""
    if op_name(node) == "getitem" or not has_tensor(node.meta.get("val")):
        return None
    faults = Faults(op_name(node))
    inputs = [one for one in node.all_input_nodes if has_tensor(one.meta.get("val"))]
    # A result that is a sequence is the input of no program.
    if any(isinstance(one.meta["val"], list | tuple) for one in inputs):
        return PolycError("UnsupportedProgram", f"{op_name(node)} takes a sequence of tensors")
    if any(is_complex(one.meta.get("val")) for one in (*inputs, node)):
        return PolycError("UnsupportedProgram", "no program takes or gives complex numbers")
    symbols = Symbols({})
    facts = symbols.facts(_ranges([*inputs, node]), [one.meta["val"] for one in inputs])
    try:
        reading = Reading("op", inputs, symbols, facts, faults)
    except PolycError as error:
        return error
    for one in node.all_input_nodes:
        if one not in inputs:
            reading.run_node(one)
    reading.run_node(node)
    for one in node.users:
        if op_name(one) == "getitem":
            reading.run_node(one)
    if not faults:
        return None
    first = faults.found[0]
    return PolycError("UnsupportedProgram", first.why or "no converter", first.place)
