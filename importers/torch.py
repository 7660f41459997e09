"""Programs of ``torch.export``: ``polyc.from_exported`` (ATen's ops, as they are kept whole).

The program is made functional first, and ops that polyc has whole stay whole: attention, norms,
linear layers, convolutions, softmax, activations.  A converter for ``"torch"`` is found by the
op's name with its overload, ``aten.add.Tensor``, or without it, ``aten.add``.  It is called with
the op's arguments in ATen's order and names: tensors are values, sizes that calls choose are
``Size``, element types are names such as ``"f32"``; devices, layouts and memory formats, of which a
graph has none, are left out.  It returns a value, or a sequence of them for several results.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from polyc.dialects.common.diagnostic import PolycError
from polyc.importers.decomposed import decomposed
from polyc.importers.fx import Reading, place_at
from polyc.importers.imported import Imported
from polyc.importers.registry import Faults, Refused, bad_model, library
from polyc.importers.symbols import Symbols


def from_exported(program: Any, name: str = "model", precision: str | None = None) -> Imported:
    """A ``torch.export.ExportedProgram`` as a graph and its parameters.

    Its tensors are the graph's inputs in their order, the model's parameters, buffers and constants
    are parameters by their names, and dynamic sizes are symbols, called as their ``Dim``, with
    their bounds as assumptions.  Products and convolutions of f32 are as precise as PyTorch's
    settings have them now (``torch.set_float32_matmul_precision``, ``allow_tf32``), or as
    ``precision`` says: ``"tf32"``, ``"f32x3"`` or ``"f32"``.  Raises PolycError
    ``UnsupportedModel`` with all ops that cannot be said, and ``BadModel`` for what is no exported
    program.
    """
    torch: Any = library("torch", "torch")
    if not isinstance(program, torch.export.ExportedProgram):
        bad_model(
            f"a {type(program).__name__}",
            "is no ExportedProgram; export the model by torch.export.export(model.eval(), args)",
        )
    named = _debug_names(program)
    # Without a table of decompositions ATen's composite ops stay, and what writes in place is gone.
    try:
        functional = program.run_decompositions({})
    except Exception as error:  # Of any kind: it runs ops of PyTorch's on tensors without numbers.
        bad_model(
            "an ExportedProgram",
            f"cannot be run by PyTorch itself: {str(error).strip().splitlines()[0]}; a gradient "
            "within it is such a case: compute it by hand, or outside of the model",
        )
    known = decomposed(functional)
    try:
        return _said(known, named, name, precision)
    except Refused as error:
        again = decomposed(known, error.ops)
        with suppress(Refused):
            if again is not known:
                return _said(again, named, name, precision)
        if known is functional:
            raise
    # What is missing is told by the ops that the model has.
    return _said(functional, named, name, precision)


def _said(program: Any, named: Mapping[str, str], name: str, precision: str | None) -> Imported:
    """A functional program as a graph and its parameters."""
    symbols = Symbols(named)
    faults = Faults(name)
    inputs, given = _placeholders(program, faults)
    facts = symbols.facts(program.range_constraints, [one.meta["val"] for one in inputs])
    reading = Reading(name, inputs, symbols, facts, faults, precision=precision)
    reading.bind(given)
    wanted = _outputs(program, faults)
    reading.run(program.graph_module)
    return reading.finished([(text, reading.value_at(node)) for text, node in wanted])


# What stands around the graph ---------------------------------------------------------------


def _placeholders(program: Any, faults: Faults) -> tuple[list[Any], dict[Any, tuple[str, Any]]]:
    """The nodes of the inputs that are tensors, and named tensors by the nodes that stand for them.

    Inputs that are numbers, texts or None are as they were exported.
    """
    specs = {spec.arg.name: spec for spec in program.graph_signature.input_specs}
    inputs: list[Any] = []
    given: dict[Any, tuple[str, Any]] = {}
    for node in program.graph.nodes:
        if node.op != "placeholder":
            continue
        spec = specs[node.name]
        kind = spec.kind.name
        if kind in ("PARAMETER", "BUFFER"):
            held = program.state_dict if spec.persistent is not False else program.constants
            tensor_ = held.get(spec.target, program.constants.get(spec.target))
            given[node] = spec.target, tensor_
        elif kind == "CONSTANT_TENSOR":
            given[node] = spec.target, program.constants[spec.target]
        elif hasattr(node.meta.get("val"), "shape"):
            inputs.append(node)
        elif kind != "USER_INPUT":
            faults.refused(
                kind, node.name, PolycError("BadArgument", "is an input that no graph has")
            )
    return inputs, given


def _outputs(program: Any, faults: Faults) -> list[tuple[str, Any]]:
    """The names and nodes of the results that are tensors or sizes.

    A buffer that is given itself, as one that is moved to where it is, is written to by nothing.
    """
    given = {spec.arg.name: spec.target for spec in program.graph_signature.input_specs}
    specs = program.graph_signature.output_specs
    end = next(node for node in program.graph.nodes if node.op == "output")
    found: list[tuple[str, Any]] = []
    for spec, node in zip(specs, end.args[0], strict=True):
        if spec.kind.name != "USER_OUTPUT":
            own = getattr(node, "op", None) == "placeholder" and given.get(node.name)
            if spec.target is not None and own == spec.target:
                continue
            what = spec.kind.name.lower().replace("_", " ")
            error = PolycError(
                "UnsupportedProgram",
                f"{what} of {spec.target}: a graph writes to nothing but its outputs; export the "
                "model in eval mode, and without a cache",
            )
            faults.refused(what, getattr(node, "name", str(node)), error, place_at(node))
        elif hasattr(node, "meta"):
            found.append((node.name, node))
    return found


def _debug_names(program: Any) -> dict[str, str]:
    """The names of ``Dim`` by those of the program's symbols, where it still knows them."""
    found: dict[str, str] = {}
    for node in program.graph.nodes:
        mode = getattr(node.meta.get("val"), "fake_mode", None)
        shapes = getattr(mode, "shape_env", None)
        if shapes is None:
            continue
        known: dict[str, str] = getattr(shapes, "source_name_to_debug_name", None) or {}
        every: dict[Any, list[Any]] = getattr(shapes, "var_to_sources", None) or {}
        for symbol, sources in every.items():
            for source in sources:
                given: Any = source.name
                text = str(given() if callable(given) else given)
                name = known.get(text, "")
                root = shapes.replacements.get(symbol, symbol)
                if name.isidentifier() and not name.startswith("_") and root.is_Symbol:
                    found.setdefault(str(root), name)
        break
    return found
