"""Walks an ONNX graph: each node is folded, said by its converter, or by the body of its function.

Numbers that are known are folded by onnx's own reference evaluator, sizes by ``sizes.py``.  An op
without a converter is what its function says, one of the model's or of the operator set, also of
those whose body depends on the operands (``attention``, ``layer normalization``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, LocationAttr, NameLoc, StringAttr
from xdsl.ir import Operation, SSAValue

from polyc.dialects.common.diagnostic import Place, PolycError, of_verifier
from polyc.dialects.common.dim import Shape
from polyc.importers.onnx_ops import sizes
from polyc.importers.onnx_ops.items import ABSENT, LOST, Constants, Item, Unsaid
from polyc.importers.onnx_ops.node import MOST_KNOWN, Node, dims_of, element_number
from polyc.importers.registry import Faults, bad_model, converter_of, library
from polyc.trace.builder import Builder
from polyc.trace.values import Value

DEEPEST = 40
"""Functions and graphs inside of each other, at most."""

MOST_NODES = 200_000
"""Nodes that are imported, those of functions and of loops counted each time, at most."""

GRAPH, GRAPHS = 5, 10
"""Members of ``onnx.AttributeProto.AttributeType``."""

Scope = dict[str, Item]

ONNX_DOMAINS = ("", "ai.onnx")

_WRONG = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What an attribute or an operand of a wrong kind runs into."""


@dataclass
class Context:
    """Where nodes stand: the operator sets that they are written in, and what a function is
    given for its attributes."""

    opsets: Mapping[str, int]
    attributes: Mapping[str, Any] | None = None
    depth: int = 0
    inside: str = ""
    """The node that has this function or graph."""


@dataclass
class Walker:
    """An import under way: the graph that grows, and what cannot be said."""

    onnx: Any
    path: str
    constants: Constants
    faults: Faults
    functions: Mapping[tuple[str, str, str], Any] = field(default_factory=lambda: {})
    tensors: Any = None
    """Reads a TensorProto, external data too."""
    needs: list[str] = field(default_factory=lambda: [])
    """The graph's inputs of which numbers would have to be known."""
    count: int = 0
    location: LocationAttr | None = None

    @property
    def builder(self) -> Builder:
        return self.constants.builder

    # Graphs

    def initializers(self, graph: Any, scope: Scope) -> None:
        """The tensors of a graph, as known numbers with their names."""
        for tensor in graph.initializer:
            array = self.tensors.array(tensor)
            self.constants.name(array, tensor.name)
            scope[tensor.name] = array
        for sparse in graph.sparse_initializer:
            array = self.tensors.dense(sparse)
            self.constants.name(array, sparse.values.name)
            scope[sparse.values.name] = array

    def graph(
        self, graph: Any, items: Sequence[Item], outer: Scope, context: Context
    ) -> list[Item]:
        """The outputs of a graph inside of another one."""
        names = [one.name for one in graph.input]
        if len(items) > len(names):
            bad_model(
                self.path,
                f"gives {len(items)} inputs to graph {graph.name!r}, which has {len(names)}",
                self.place,
            )
        scope = dict(outer)
        self.initializers(graph, scope)
        scope.update(zip(names, items, strict=False))
        self.nodes(graph.node, scope, context)
        return [self._found(one.name, scope) for one in graph.output]

    def nodes(self, nodes: Sequence[Any], scope: Scope, context: Context) -> None:
        """Import nodes in their order."""
        if context.depth > DEEPEST:
            bad_model(self.path, f"nests functions or graphs deeper than {DEEPEST}", self.place)
        for position, node in enumerate(nodes):
            self.count += 1
            if self.count > MOST_NODES:
                raise PolycError(
                    "UnsupportedModel",
                    f"{self.path} has more than {MOST_NODES} nodes with those of functions and "
                    "loops; import a part of it",
                )
            name = node.name or f"{node.op_type}_{position}"
            name = f"{context.inside}/{name}" if context.inside else name
            at = self.location
            where = FileLineColLoc(StringAttr(f"{self.path}:{name}"), IntAttr(0), IntAttr(0))
            self.location = NameLoc(StringAttr(name), where)
            try:
                outputs = self._node(node, name, scope, context)
            finally:
                self.location = at
            scope.update((n, o) for n, o in zip(node.output, outputs, strict=False) if n)

    @property
    def place(self) -> Place | None:
        """Where the import is."""
        where = self.location
        return None if not isinstance(where, NameLoc) else Place(f"{self.path}:{where.desc.data}")

    def _found(self, name: str, scope: Scope) -> Item:
        if not name:
            return ABSENT
        if name not in scope:
            bad_model(self.path, f"reads {name!r}, which no node before gives", self.place)
        return scope[name]

    # Nodes

    def _node(self, proto: Any, name: str, scope: Scope, context: Context) -> Sequence[Item]:
        inputs = [self._found(one, scope) for one in proto.input]
        lost = [LOST] * len(proto.output)
        domain = "" if proto.domain in ONNX_DOMAINS else proto.domain
        op = f"{domain}::{proto.op_type}" if domain else proto.op_type
        if any(one is LOST for one in inputs):
            return lost
        place = Place(f"{self.path}:{name}")
        try:
            outputs = self._said(proto, domain, op, name, inputs, scope, context)
        except Unsaid as fault:
            why, names = fault.why, self.origins(fault.needs)
            if names:
                self.needs += [n for n in names if n not in self.needs]
                listed = ", ".join(f"{n!r}: …" for n in names)
                why += f"; give what is always the same as known={{{listed}}}"
            self.faults.refused(op, name, PolycError("UnsupportedProgram", why), place)
            return lost
        except PolycError as error:
            if error.kind == "BadModel":
                raise
            self.faults.refused(op, name, error, place)
            return lost
        except _WRONG as error:
            told = f"its operands or attributes are none that it takes: {error}"
            self.faults.refused(op, name, PolycError("BadModel", told), place)
            return lost
        except Exception as error:
            if (told := of_verifier(error, place)) is None:
                raise
            self.faults.refused(op, name, told, place)
            return lost
        if outputs is None:
            self.faults.missing(op, name, place)
            return lost
        return outputs

    def _said(
        self,
        proto: Any,
        domain: str,
        op: str,
        name: str,
        inputs: list[Item],
        scope: Scope,
        context: Context,
    ) -> Sequence[Item] | None:
        proto = self._resolved(proto, context)
        attributes = {
            a.name: a.g if a.type == GRAPH else self.onnx.helper.get_attribute_value(a)
            for a in proto.attribute
        }
        below = Context(context.opsets, context.attributes, context.depth + 1, name)
        node = Node(
            proto.op_type,
            inputs,
            attributes,
            proto.output,
            self.constants,
            self._version(domain, proto.op_type, context),
            lambda body, items: self.graph(body, items, scope, below),
            self.tensors,
            # Names of functions and of graphs inside are others.
            [] if context.depth else [self.declared.get(n) for n in proto.output],
        )
        if not domain and (known := self._constant(proto, node)) is not None:
            return known
        if not domain and (folded := self._folded(proto, node, context)) is not None:
            return folded
        if not domain and (sized := sizes.folded(node)) is not None:
            return [sized]
        if (converter := converter_of("onnx", op)) is not None:
            found = converter(node)
            if found is not NotImplemented:
                return _listed(found)
        return self._by_function(proto, domain, node, name, context)

    def _resolved(self, proto: Any, context: Context) -> Any:
        """A node of a function with the attributes that it is given."""
        if context.attributes is None or not any(
            a.ref_attr_name or a.type in (GRAPH, GRAPHS) for a in proto.attribute
        ):
            return proto
        made = self.onnx.NodeProto()
        made.CopyFrom(proto)
        _give(made, context.attributes)
        return made

    def _version(self, domain: str, op: str, context: Context) -> int:
        for name in (domain, domain or "ai.onnx"):
            if name in context.opsets:
                return int(context.opsets[name])
        if not domain and context.depth:  # a function of another domain does not always say it
            return int(self.onnx.defs.onnx_opset_version())
        bad_model(
            self.path,
            f"has an op {op} of domain {domain!r}, and imports no operator set for it",
            self.place,
        )

    # Known numbers

    def _constant(self, proto: Any, node: Node) -> list[Item] | None:
        if proto.op_type != "Constant":
            return None
        for attribute in proto.attribute:
            match attribute.name:
                case "value":
                    array = self.tensors.array(attribute.t)
                    if array.size > 1:
                        self.constants.name(array, proto.output[0])
                    return [array]
                case "sparse_value":
                    return [self.tensors.dense(attribute.sparse_tensor)]
                case "value_float" | "value_floats":
                    return [np.array(node.attr(attribute.name), dtype=np.float32)]
                case "value_int" | "value_ints":
                    return [np.array(node.attr(attribute.name), dtype=np.int64)]
                case _:
                    raise Unsaid("it holds texts")
        raise Unsaid("it holds nothing")

    def _folded(self, proto: Any, node: Node, context: Context) -> list[Item] | None:
        """The outputs where all inputs are known and few, by onnx's reference evaluator."""
        if proto.op_type not in sizes.FOLDED or not node.inputs:
            return None
        total = 0
        for one in node.inputs:
            if one is not ABSENT and not isinstance(one, np.ndarray):
                return None
            total += one.size if isinstance(one, np.ndarray) else 0
        if total > MOST_KNOWN:
            return None
        helper = self.onnx.helper
        names = [f"x{i}" if one is not ABSENT else "" for i, one in enumerate(node.inputs)]
        outputs = [f"y{i}" if one else "" for i, one in enumerate(proto.output)]
        if not any(outputs):
            return [ABSENT for _ in outputs]
        one = self.onnx.NodeProto()
        one.CopyFrom(proto)
        del one.input[:], one.output[:]
        one.input.extend(names)
        one.output.extend(outputs)
        opsets = [helper.make_opsetid("", node.version)]
        function = helper.make_function(
            "polyc", "folded", [n for n in names if n], [n for n in outputs if n], [one], opsets
        )
        given = {n: i for n, i in zip(names, node.inputs, strict=True) if n}
        evaluator = library("onnx.reference", "onnx").ReferenceEvaluator
        try:
            with np.errstate(all="ignore"):
                found: list[Any] = evaluator(function).run(None, given, {})
        except Exception:
            return None  # the converter says what is wrong with it
        if any(not isinstance(f, np.ndarray | np.generic) for f in found):
            return None
        rest = iter(found)
        return [np.asarray(next(rest)) if n else ABSENT for n in outputs]

    # Functions

    def _by_function(
        self, proto: Any, domain: str, node: Node, name: str, context: Context
    ) -> Sequence[Item] | None:
        """The outputs by the body of a function, None where the op is none."""
        key = domain, proto.op_type, proto.overload
        given = {a.name: a for a in proto.attribute}
        body = self.functions.get(key)
        if body is None:
            body, defaults = self._of_schema(proto, domain, node)
            if body is None:
                return None
            given = {**defaults, **given}
        for attribute in body.attribute_proto:
            given.setdefault(attribute.name, attribute)
        scope: Scope = dict.fromkeys(body.input, ABSENT)
        scope.update(zip(body.input, node.inputs, strict=False))
        opsets = {d.domain: d.version for d in body.opset_import}
        inner = Context(opsets, given, context.depth + 1, name)
        self.nodes(body.node, scope, inner)
        # A body leaves out what nobody asks for.
        return [scope.get(one, ABSENT) for one in body.output]

    def _of_schema(self, proto: Any, domain: str, node: Node) -> tuple[Any, Mapping[str, Any]]:
        """The body of an op's function in its operator set, and its attributes' defaults."""
        defs = self.onnx.defs
        try:
            schema = defs.get_schema(proto.op_type, node.version, domain)
        except defs.SchemaError:
            return None, {}
        defaults = {
            n: a.default_value
            for n, a in schema.attributes.items()
            if a.default_value is not None and a.default_value.name
        }
        # The newest body that the node's operator set has.
        if schema.has_context_dependent_function:
            versions = [
                v for v in schema.context_dependent_function_opset_versions if v <= node.version
            ]
            types = [self.type_of(one) for one in node.inputs]
            for version in sorted(versions, reverse=True):
                text = schema.get_context_dependent_function_with_opset_version(
                    version, proto.SerializeToString(), [t.SerializeToString() for t in types]
                )
                if text:
                    body = self.onnx.FunctionProto()
                    body.ParseFromString(text)
                    return body, defaults
        if schema.has_function:
            versions = [v for v in schema.function_opset_versions if v <= node.version]
            version = max(versions, default=max(schema.function_opset_versions))
            text = schema.get_function_with_opset_version(version)
            if isinstance(text, bytes):
                body = self.onnx.FunctionProto()
                body.ParseFromString(text)
                return body, defaults
            return text, defaults
        return None, {}

    def type_of(self, item: Item) -> Any:
        """The type of an item, as onnx's inference has it."""
        helper = self.onnx.helper
        if item is ABSENT:
            return self.onnx.TypeProto()
        if isinstance(item, list):
            return helper.make_sequence_type_proto(
                self.type_of(item[0]) if item else self.onnx.TypeProto()
            )
        found: list[int | str] = []
        for dim in dims_of(item):
            value = dim.constant()
            found.append(str(dim) if value is None else value)
        return helper.make_tensor_type_proto(element_number(item), found)

    # What depends on data

    def origins(self, item: Item | None) -> list[str]:
        """The graph's inputs that an item is made of."""
        if not isinstance(item, Value):
            return []
        block = self.builder.graph.body.block
        names = dict(zip(block.args, self.input_names, strict=True))
        seen: set[SSAValue] = set()
        left: list[SSAValue] = [item.ssa]
        while left:
            one = left.pop()
            if one in seen:
                continue
            seen.add(one)
            if isinstance(one.owner, Operation):
                left += one.owner.operands
        return [names[one] for one in block.args if one in seen]

    input_names: Sequence[str] = ()
    """What the model calls the graph's inputs."""
    declared: Mapping[str, Shape] = field(default_factory=lambda: {})
    """The sizes that the model declares of values, or onnx infers, where they are all said."""


def _give(proto: Any, given: Mapping[str, Any]) -> None:
    """Put what a function is given in the place of references to it, in graphs of it too."""
    kept = [a for a in proto.attribute if not a.ref_attr_name or a.ref_attr_name in given]
    made: list[Any] = []
    for attribute in kept:
        one = type(attribute)()
        one.CopyFrom(given[attribute.ref_attr_name] if attribute.ref_attr_name else attribute)
        one.name = attribute.name
        one.ClearField("ref_attr_name")
        for graph in [one.g] if one.type == GRAPH else one.graphs:
            for node in graph.node:
                _give(node, given)
        made.append(one)
    del proto.attribute[:]
    proto.attribute.extend(made)


def _listed(found: Any) -> list[Item]:
    return list(cast("tuple[Item, ...]", found)) if isinstance(found, tuple) else [found]
