"""``polyc.from_onnx``: an ONNX model as a graph and its parameters.

The model is checked by onnx's checker and shape inference, brought to a newer operator set by its
version converter where a converter here needs it, and walked node by node (``onnx_ops/walk.py``).
A named size (``dim_param``) is a symbol; tensors of more than a number are parameters, apart from
the module.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, StringAttr
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.common.diagnostic import PolycError, from_text
from polyc.dialects.common.dim import Dim, Shape
from polyc.dialects.frontend import TensorType, tensor
from polyc.importers.imported import Imported
from polyc.importers.onnx_ops import elements, register
from polyc.importers.onnx_ops.files import Tensors, read_model
from polyc.importers.onnx_ops.items import ABSENT, LOST, Constants, Emulated, Item, Unsaid, way_out
from polyc.importers.onnx_ops.walk import Context, Scope, Walker
from polyc.importers.parameters import kept, symbol_name
from polyc.importers.registry import Faults, bad_model, library
from polyc.rewriting.notes import Note, show
from polyc.trace.annotations import read_assumptions
from polyc.trace.builder import Builder
from polyc.trace.elements import ELEMENTS
from polyc.trace.sizes import read_dim
from polyc.trace.values import CURRENT, Value

NEWER: Mapping[str, int] = {
    **dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax"), 13),
    "BatchNormalization": 9,
    # Broadcast by attributes before.
    **dict.fromkeys(("Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Xor", "Gemm"), 7),
    **dict.fromkeys(("Greater", "Less", "Equal", "PRelu"), 7),
}
"""Ops that meant something else before an operator set, to which the version converter brings
them."""

TARGET = 21
"""The operator set to which older models are brought."""


def from_onnx(
    model: Any,
    *,
    known: Mapping[str, Any] | None = None,
    sizes: Mapping[str, int] | None = None,
    assume: str = "",
    emulate: bool = False,
    folder: str | Path | None = None,
) -> Imported:
    """The graph of an ONNX model, and its parameters apart.

    ``model`` is the path of a file, or an ``onnx.ModelProto``, whose external data lies in
    ``folder``.  ``known`` gives the numbers of inputs that are the same at every call, such as the
    shape of a reshape: they are no inputs of the graph then; None says that an optional one is
    nothing.  ``sizes`` gives named sizes their numbers, and sequences their lengths,
    ``assume`` is what holds of the others (``"batch >= 1, seq mod 8 == 0"``).  With
    ``emulate`` a type that graphs have not is computed in another one: f64 in f32.

    Raises PolycError: ``NoImporter`` without onnx, ``BadModel`` for a file that is no valid model,
    ``UnsupportedModel`` with all that cannot be said and where it stands; and OSError.
    """
    walker, outputs = walked(
        model, known=known, sizes=sizes, assume=assume, emulate=emulate, folder=folder
    )
    walker.faults.check()
    return finished(walker, outputs)


def walked(
    model: Any,
    *,
    known: Mapping[str, Any] | None = None,
    sizes: Mapping[str, int] | None = None,
    assume: str = "",
    emulate: bool = False,
    folder: str | Path | None = None,
) -> tuple[Walker, dict[str, Item]]:
    """An import up to its end, with what it could not say, and the outputs by their names."""
    onnx = library("onnx", "onnx")
    register()
    path = "the model"
    if isinstance(model, str | Path):
        where = Path(model)
        path, folder = str(model), where.parent if folder is None else folder
        model = read_model(onnx, where)
    elif not isinstance(model, onnx.ModelProto):
        raise PolycError(
            "BadArgument",
            f"from_onnx takes a path or an onnx.ModelProto, not a {type(model).__name__}",
        )
    tensors = Tensors(onnx, path, None if folder is None else Path(folder))
    tensors.check(model)
    typed, inferred = _checked(onnx, model, path)
    if (newer := _newer(onnx, model, path)) is not model:
        model = newer
        typed, inferred = _checked(onnx, model, path)
    graph = model.graph
    given = {n: ABSENT if one is None else np.asarray(one) for n, one in (known or {}).items()}
    symbols = _Symbols(sizes or {})
    kinds, names, numbers, others = _inputs(onnx, model, path, given, symbols, emulate)
    at = FileLineColLoc(StringAttr(path), IntAttr(0), IntAttr(0))
    walker: Walker | None = None
    try:
        builder = Builder(
            symbol_name(graph.name or "model", ()),
            kinds,
            read_assumptions(assume),
            lambda: at if walker is None or walker.location is None else walker.location,
        )
    except VerifyException as error:
        raise from_text(str(error), at) from None
    functions = {(f.domain, f.name, f.overload): f for f in model.functions}
    walker = Walker(
        onnx,
        path,
        Constants(builder, emulate),
        Faults(path),
        functions,
        tensors,
        input_names=tuple(names),
        declared=symbols.declared(typed.graph),
    )
    scope: Scope = {}
    for name, number, ssa in zip(names, numbers, builder.inputs, strict=True):
        value = Value(builder, ssa)
        scope[name] = Emulated(value, number) if number in elements.SMALL else value
    for name, one in others.items():
        known_item: Any = one
        if type(one) is int:  # a sequence of as many
            known_item = [scope[f"{name}.{place}"] for place in range(one)]
        scope[name] = known_item
    opsets = {d.domain: d.version for d in model.opset_import}
    token = CURRENT.set(builder)
    try:
        initial: Scope = {}
        walker.initializers(graph, initial)
        scope = {**initial, **scope}
        walker.nodes(graph.node, scope, Context(opsets))
        outputs: dict[str, Item] = {}
        for one in graph.output:
            if one.name not in scope:
                bad_model(path, f"has an output {one.name!r}, which no node gives")
            item = scope[one.name]
            if isinstance(item, list):  # a sequence is an output for each of its tensors
                for place, part in enumerate(item):
                    outputs[f"{one.name}.{place}"] = _output(walker, one.name, part)
            else:
                outputs[one.name] = _output(walker, one.name, item)
        if not walker.faults:
            _compared(path, graph, outputs, inferred)
        elif inferred is not None:
            told = PolycError("BadModel", f"its shapes do not fit: {inferred}")
            walker.faults.refused("shape inference", "onnx", told)
    finally:
        CURRENT.reset(token)
    return walker, outputs


def _output(walker: Walker, name: str, item: Item) -> Item:
    try:
        return item if item is LOST else walker.constants.wide(item)
    except Unsaid as fault:
        walker.faults.refused("output", name, PolycError("UnsupportedProgram", fault.why))
        return item


def finished(walker: Walker, outputs: Mapping[str, Item]) -> Imported:
    """The module of an import without faults."""
    if not outputs:
        bad_model(walker.path, "gives no output; a graph computes at least one")
    builder = walker.builder
    taken = list(builder.entries) + [arg.name_hint or "" for arg in builder.inputs]
    taken += [spec.name for spec in builder.graph.inputs]
    named: dict[str, Any] = {}
    for name, item in outputs.items():
        named[symbol_name(name, (*taken, *named))] = cast("Value", item).ssa
    try:
        module = builder.finish(named)
    except VerifyException as error:
        raise from_text(str(error)) from None
    found = Imported(module, kept(module, builder), tuple(walker.input_names), tuple(outputs))
    show(_unread(found, walker.path))
    return found


def _unread(imported: Imported, path: str) -> Iterator[Note]:
    """That calls may give an input anything, as where a size it holds is what a model declares."""
    block = imported.graph.body.block
    names = [
        name
        for name, value in zip(imported.inputs, block.args, strict=False)
        if value.first_use is None
    ]
    if names:
        what = "inputs" if len(names) > 1 else "an input"
        yield Note(
            "UnreadInput",
            f"{path} has {what} that nothing reads: {', '.join(names)}; where it holds sizes these "
            "are what the model declares of its tensors, whatever a call gives: known= checks them",
            imported.graph,
            "warning",
        )


def _checked(onnx: Any, model: Any, path: str) -> tuple[Any, str | None]:
    """Refuse what onnx's checker refuses; the model with inferred types, and what its shape
    inference, strict and with its data propagated, finds wrong, which may be a fault of its own
    where a function has no shape."""
    if not all(isinstance(word, str) for word in _words(model.graph)):
        bad_model(path, "has a name that is no UTF-8")
    plain, told = _without_data(onnx, model), None
    try:
        # It fills in what an output leaves out, which the checker asks for.
        plain = onnx.shape_inference.infer_shapes(plain, strict_mode=True, data_prop=True)
    except (
        *(onnx.shape_inference.InferenceError, onnx.checker.ValidationError),
        *(TypeError, ValueError, RuntimeError),
    ) as error:
        told = _sentence(error)
    bare = plain
    plain = onnx.ModelProto()
    plain.CopyFrom(bare)
    for one in plain.graph.output:
        if one.type.HasField("tensor_type"):
            one.type.tensor_type.shape.SetInParent()  # nothing here asks for what it leaves out
    try:
        onnx.checker.check_model(plain)
    except (onnx.checker.ValidationError, TypeError, ValueError, RuntimeError) as error:
        bad_model(path, f"is refused by onnx: {told or _sentence(error)}")
    return bare, told


def _words(graph: Any) -> Iterator[Any]:
    """The names of a graph; those that are no text are bytes."""
    yield graph.name
    for one in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
        yield one.name
    for one in (*graph.input, *graph.output):
        yield from (d.dim_param for d in one.type.tensor_type.shape.dim)
    for node in graph.node:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        for attribute in node.attribute:
            yield attribute.name
            if attribute.HasField("g"):
                yield from _words(attribute.g)


def _compared(path: str, graph: Any, outputs: Mapping[str, Item], inferred: str | None) -> None:
    """Refuse a model whose outputs are not what it declares."""
    for one in graph.output:
        item, kind = outputs.get(one.name), one.type
        if not isinstance(item, Value) or kind.WhichOneof("value") != "tensor_type":
            continue
        declared = kind.tensor_type
        if not declared.HasField("shape"):
            continue
        found = [d.constant() for d in item.kind.dims]
        said = [d.dim_value if d.HasField("dim_value") else None for d in declared.shape.dim]
        if len(said) != len(found) or any(
            a is not None and b is not None and a != b for a, b in zip(said, found, strict=True)
        ):
            words = [
                d.dim_param or "?" if n is None else str(n)
                for d, n in zip(declared.shape.dim, said, strict=True)
            ]
            bad_model(
                path,
                f"declares the output {one.name!r} as [{', '.join(words)}], and its nodes give "
                f"[{', '.join(map(str, item.kind.dims))}]"
                + ("" if inferred is None else f"; onnx says: {inferred}"),
            )


def _without_data(onnx: Any, model: Any) -> Any:
    """The model with external tensors as inputs: onnx looks for no file of its own accord."""
    outside = [t for t in model.graph.initializer if t.data_location == 1]
    if not outside:
        return model
    made = onnx.ModelProto()
    made.CopyFrom(model)
    names = {one.name for one in outside}
    listed = {one.name for one in made.graph.input}
    left = [t for t in made.graph.initializer if t.name not in names]
    del made.graph.initializer[:]
    made.graph.initializer.extend(left)
    made.graph.input.extend(
        onnx.helper.make_tensor_value_info(t.name, t.data_type, list(t.dims))
        for t in outside
        if t.name not in listed
    )
    return made


def _sentence(error: Exception) -> str:
    return " ".join(str(error).split())[:400]


def _newer(onnx: Any, model: Any, path: str) -> Any:
    """The model in an operator set whose meaning the converters know."""
    opset = next((d.version for d in model.opset_import if d.domain in ("", "ai.onnx")), None)
    if opset is None:
        return model
    names = {node.op_type for node in model.graph.node if node.domain in ("", "ai.onnx")}
    older = [n for n in names if opset < NEWER.get(n, 0)]
    if not older:
        return model
    outside = any(t.data_location == 1 for t in model.graph.initializer)
    try:
        if outside:
            raise ValueError("its tensors lie in files of their own")
        return onnx.version_converter.convert_version(model, TARGET)
    except Exception as error:
        raise PolycError(
            "UnsupportedModel",
            f"{path} has {', '.join(sorted(older))} of operator set {opset}, which meant something "
            f"else then, and onnx's version converter does not bring it to {TARGET}: "
            f"{_sentence(error)}; convert the model before",
        ) from None


# Inputs -----------------------------------------------------------------------------------


def _inputs(
    onnx: Any,
    model: Any,
    path: str,
    known: Mapping[str, Any],
    symbols: _Symbols,
    emulate: bool,
) -> tuple[dict[str, TensorType], list[str], list[int], dict[str, Any]]:
    """The types of a graph's inputs, by names that IR has; the model's names, and their
    element types; and its inputs that
    are something else: what is known, and how many tensors a sequence has."""
    there = {t.name for t in model.graph.initializer}
    there |= {s.values.name for s in model.graph.sparse_initializer}
    listed = [one for one in model.graph.input if one.name not in there]
    unknown = [n for n in known if n not in {one.name for one in listed}]
    if unknown:
        raise PolycError(
            "BadArgument",
            f"known names {unknown[0]!r}; the inputs of {path} are "
            f"{', '.join(one.name for one in listed) or 'none'}",
        )
    sizes = symbols.given
    kinds: dict[str, TensorType] = {}
    items: dict[str, Any] = {}
    names: list[str] = []
    numbers: list[int] = []
    wrong: list[tuple[str, str]] = []

    def tensor_input(name: str, declared: Any, place: int | None = None) -> None:
        element = elements.NAMES.get(declared.elem_type)
        if element is None and emulate:
            element = elements.EMULATED.get(declared.elem_type)
        if element is None:
            way = way_out(declared.elem_type)
            wrong.append((name, f"graphs have no {elements.word(declared.elem_type)}{way}"))
        elif not declared.HasField("shape"):
            wrong.append((name, "it has no shape; run onnx.shape_inference, or declare it"))
        else:
            dims = [symbols.dim(name, i, d, place) for i, d in enumerate(declared.shape.dim)]
            try:
                kinds[symbol_name(name, tuple(kinds))] = tensor(dims, ELEMENTS[element])
            except VerifyException as error:
                bad_model(path, f"has an input {name!r} whose {error}")
            names.append(name)
            numbers.append(declared.elem_type)

    for one in listed:
        kind, declared = one.type.WhichOneof("value"), one.type
        if kind == "optional_type":  # it is there, unless it is known to be nothing
            declared = declared.optional_type.elem_type
            kind = declared.WhichOneof("value")
        if one.name in known:
            items[one.name] = known[one.name]
            if kind == "tensor_type" and known[one.name] is not ABSENT:
                dtype = onnx.helper.tensor_dtype_to_np_dtype(declared.tensor_type.elem_type)
                items[one.name] = _fitting(
                    path, one.name, declared.tensor_type, known[one.name], dtype
                )
        elif kind == "tensor_type":
            tensor_input(one.name, declared.tensor_type)
        elif kind == "sequence_type" and one.name in sizes:
            inner = declared.sequence_type.elem_type
            symbols.used.add(one.name)
            for place in range(sizes[one.name]):
                tensor_input(f"{one.name}.{place}", inner.tensor_type, place)
            items[one.name] = sizes[one.name]
        elif kind == "sequence_type":
            wrong.append((one.name, "it is a sequence; sizes says how many tensors it has"))
        else:
            word = "nothing" if kind is None else kind.removesuffix("_type").replace("_", " ")
            wrong.append((one.name, f"it is {word}; a graph's inputs are tensors"))
    if wrong:
        faults = Faults(path)
        for name, why in wrong:
            faults.refused("input", name, PolycError("UnsupportedProgram", why))
        faults.check()
    if left := [s for s in sizes if s not in symbols.asked and s not in symbols.used]:
        raise PolycError(
            "BadArgument",
            f"sizes names {left[0]!r}; the named sizes of {path} are "
            f"{', '.join(symbols.asked) or 'none'}",
        )
    return kinds, names, numbers, items


class _Symbols:
    """The named sizes of a model, as symbols or the numbers that they are given."""

    def __init__(self, given: Mapping[str, int]) -> None:
        self.given = dict(given)
        self.asked: dict[str, Dim] = {}
        self.used: set[str] = set()
        """Sequences whose lengths were asked for."""

    def dim(self, name: str, axis: int, declared: Any, place: int | None = None) -> Dim:
        """A size of an input, or of the tensor at a place of a sequence: those of one sequence may
        differ, and those at one place of several are the same."""
        match declared.WhichOneof("value"):
            case "dim_value":
                if declared.dim_value < 0 or declared.dim_value >= 2**31:
                    raise PolycError(
                        "BadModel",
                        f"input {name!r} has a size of {declared.dim_value} along axis {axis}; "
                        "sizes are 0 or more, and below 2 to the 31",
                    )
                return Dim.const(declared.dim_value)
            case "dim_param" if declared.dim_param:
                word = declared.dim_param
                return self._named(word if place is None else f"{word}_{place}")
            case _:
                return self._named(f"{name}_{axis}")

    def declared(self, graph: Any) -> dict[str, Shape]:
        """The sizes of values that a graph declares, where each is a number or a known symbol."""
        found: dict[str, Shape] = {}
        for one in (*graph.value_info, *graph.output):
            kind = one.type.tensor_type
            if one.type.WhichOneof("value") != "tensor_type" or not kind.HasField("shape"):
                continue
            dims = [
                Dim.const(d.dim_value) if d.HasField("dim_value") else self.asked.get(d.dim_param)
                for d in kind.shape.dim
            ]
            said = tuple(d for d in dims if d is not None)
            if len(said) == len(dims):
                found[one.name] = said
        return found

    def _named(self, word: str) -> Dim:
        if word not in self.asked:
            self.asked[word] = self._made(word)
        return self.asked[word]

    def _made(self, word: str) -> Dim:
        if word in self.given:
            return Dim.const(int(self.given[word]))
        try:
            found = read_dim(word)  # an exporter's expression, such as "2*N + 1"
            if found.symbols():
                return found.substitute(
                    {s: Dim.const(self.given[s]) for s in found.symbols() if s in self.given}
                )
        except PolycError:
            pass
        taken = [s for d in self.asked.values() for s in d.symbols()]
        return Dim.sym(symbol_name(word, taken))


def _fitting(path: str, name: str, kind: Any, array: Any, dtype: Any) -> Any:
    """Numbers that are known, as an input takes them.  Refuses others."""
    with np.errstate(all="ignore"):
        found = array if array.dtype == dtype else array.astype(dtype)
    if array.dtype != dtype and not np.array_equal(found.astype(array.dtype), array):
        raise PolycError(
            "BadArgument", f"known gives {name!r} numbers of {array.dtype}, and it takes {dtype}"
        )
    if not kind.HasField("shape"):
        return found
    dims = [d.dim_value if d.HasField("dim_value") else None for d in kind.shape.dim]
    if found.size == 1 and all(d == 1 for d in dims):
        return found.reshape([1] * len(dims))
    shape: Sequence[int] = found.shape
    if len(dims) != len(shape) or any(
        d is not None and d != n for d, n in zip(dims, shape, strict=True)
    ):
        words = [
            d.dim_param or "?" if n is None else str(n)
            for d, n in zip(kind.shape.dim, dims, strict=True)
        ]
        raise PolycError(
            "BadArgument",
            f"known gives {name!r} {list(shape)}, and {path} takes [{', '.join(words)}]",
        )
    return found
