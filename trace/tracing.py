"""A Python function over values becomes a ``frontend.graph``: it runs once and records ops."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from xdsl.dialects.builtin import FileLineColLoc, IntAttr, LocationAttr, ModuleOp, StringAttr
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.common.diagnostic import PolycError, from_text
from polyc.dialects.common.dim import Assumption
from polyc.dialects.frontend import GraphOp, parameters, tensor
from polyc.trace.annotations import TensorAnnotation
from polyc.trace.builder import Builder
from polyc.trace.elements import ELEMENTS
from polyc.trace.source import refuse
from polyc.trace.values import CURRENT, Value

Shape = Literal["one", "tuple", "list", "dict"]


@dataclass(frozen=True)
class Traced:
    """A graph that was traced, and how the function returned its outputs."""

    module: ModuleOp
    shape: Shape
    keys: tuple[str, ...]
    captured: Mapping[str, object]
    """The tensors with numbers that it read, by the names of their entries."""


def place_of_function(function: Callable[..., object]) -> LocationAttr | None:
    """Where a Python function begins, or None."""
    code = getattr(function, "__code__", None)
    if code is None:
        return None
    return FileLineColLoc(StringAttr(code.co_filename), IntAttr(code.co_firstlineno), IntAttr(1))


def traced(
    function: Callable[..., Any],
    tensors: Mapping[str, TensorAnnotation],
    arguments: Callable[[Mapping[str, Value]], tuple[Sequence[Any], Mapping[str, Any]]],
    *,
    name: str,
    facts: Sequence[Assumption] = (),
) -> Traced:
    """Run ``function`` once on values of ``tensors``; the graph of what it returns.

    ``arguments`` says what the function is called with, given its tensors.  Every tensor has an
    element type.  Raises PolycError at the user's line, and what the function itself raises.
    """
    if CURRENT.get() is not None:
        refuse("NestedTrace", f"{name} is traced while another graph is; call the function itself")
    at = place_of_function(function)
    kinds = {
        one: tensor(given.dims, ELEMENTS[given.element or ""]) for one, given in tensors.items()
    }
    try:
        builder = Builder(name, kinds, facts)
    except VerifyException as error:
        raise from_text(str(error), at) from None
    if at is not None:
        builder.graph.location = at
    inputs = {one: Value(builder, ssa) for one, ssa in zip(kinds, builder.inputs, strict=True)}
    positional, named = arguments(inputs)
    token = CURRENT.set(builder)
    try:
        found = function(*positional, **named)
    finally:
        CURRENT.reset(token)
    shape, keys, values = _outputs(name, found, at)
    for one in values:
        if one.builder is not builder:
            refuse("NotTracing", f"{name} returns {one!r}, which is of another trace", at)
    try:
        outputs = [one.ssa for one in values]
        module = builder.finish(
            dict(zip(keys, outputs, strict=True)) if shape == "dict" else outputs
        )
    except VerifyException as error:
        raise from_text(str(error), at) from None
    graphs = [op for op in module.ops if isinstance(op, GraphOp)]
    left = {one.entry.data for graph in graphs for one in parameters(graph)}
    read = {name: one for name, one in builder.captured.tensors.items() if name in left}
    return Traced(module, shape, keys, read)


def _outputs(
    name: str, found: object, at: LocationAttr | None
) -> tuple[Shape, tuple[str, ...], list[Value]]:
    shape: Shape = "one"
    keys: tuple[str, ...] = ()
    if isinstance(found, Value):
        return shape, keys, [found]
    if isinstance(found, dict):
        pairs = cast("dict[object, object]", found)
        shape, keys, listed = "dict", tuple(map(str, pairs)), list(pairs.values())
    elif isinstance(found, tuple | list):
        shape = "tuple" if isinstance(found, tuple) else "list"
        listed = list(cast("Sequence[object]", found))
    else:
        listed = [found]
    for one in listed:
        if not isinstance(one, Value):
            what = "nothing" if one is None else f"{one!r}, a {type(one).__name__}"
            raise PolycError(
                "BadArgument",
                f"{name} returns {what}; a graph's outputs are values: one, a tuple, or a "
                "dictionary of them",
                at,
            )
    if not listed:
        raise PolycError("BadArgument", f"{name} returns no value; a graph computes one", at)
    return shape, keys, cast("list[Value]", listed)
