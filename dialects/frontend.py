"""The ``frontend`` dialect: what a model computes, with its signature (S2.1-S2.3).

A ``frontend.graph`` states inputs, outputs, symbols and assumptions; its body is a pure
value graph of high-level ops.  Broadcasting is right-aligned.

An intermediate's element type is nominal (S0.6): values are computed in FP32 from the
first load and rounded at the outputs, at ``frontend.cast`` and at the operands of
``frontend.gemm``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, cast

from xdsl.dialects.builtin import (
    Float32Type,
    StringAttr,
    UnitAttr,
    bf16,
    f16,
    f32,
)
from xdsl.ir import Attribute, Dialect, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import HasParent, IsTerminator, Pure
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.dim import Dim, Shape, ShapeAttr, shape_text
from polyc.dialects.signature import (
    SignatureOp,
    SizedTensorType,
    same_shape,
    same_size,
    same_type,
    verify_symbols,
)

UNARY_FUNCTIONS = (
    "abs",
    "erf",
    "exp",
    "gelu",
    "log",
    "neg",
    "reciprocal",
    "relu",
    "rsqrt",
    "sigmoid",
    "silu",
    "sqrt",
    "tanh",
)
"""Functions of ``frontend.elementwise`` with one operand."""

BINARY_FUNCTIONS = ("add", "div", "max", "min", "mul", "pow", "sub")
"""Functions of ``frontend.elementwise`` with two operands."""


@irdl_attr_definition
class TensorType(SizedTensorType):
    """A tensor of the model, ``!frontend.tensor<[M, K], f16>``; f16, bf16 or f32 (S0.1)."""

    name = "frontend.tensor"
    shape: ShapeAttr
    element_type: Attribute

    @classmethod
    def element_types(cls) -> tuple[Attribute, ...]:
        return (f16, bf16, f32)


def tensor(shape: Sequence[Dim | int | str], element_type: Attribute) -> TensorType:
    """``!frontend.tensor`` of sizes given as dims, integers or symbols' names."""
    return TensorType(ShapeAttr.of(shape), element_type)


def tensor_of(value: SSAValue) -> TensorType:
    """The type of a frontend value."""
    return cast(TensorType, value.type)


@irdl_op_definition
class GraphOp(SignatureOp):
    """A model's graph with its signature; inputs and outputs are not ops (S2.1)."""

    name = "frontend.graph"
    TENSOR: ClassVar[type[SizedTensorType]] = TensorType


@irdl_op_definition
class GemmOp(IRDLOperation):
    """The matrix product ``c[m, n] = sum over k of a[m, k] * b[k, n]`` (S2.2).

    ``transpose_a`` reads ``a`` as [K, M], ``transpose_b`` reads ``b`` as [N, K].  The sum
    is accumulated in ``acc`` (f32); operands are rounded to their element type first,
    since tensor cores take them in it (S0.6).
    """

    name = "frontend.gemm"
    a = operand_def(TensorType)
    b = operand_def(TensorType)
    acc = prop_def(Float32Type)
    transpose_a = opt_prop_def(UnitAttr)
    transpose_b = opt_prop_def(UnitAttr)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$a `,` $b attr-dict `:` functional-type(operands, results)"

    def __init__(
        self,
        a: SSAValue,
        b: SSAValue,
        *,
        transpose_a: bool = False,
        transpose_b: bool = False,
        result_type: TensorType | None = None,
    ) -> None:
        if result_type is None:
            left, right = tensor_of(a), tensor_of(b)
            m, n = left.dims[int(transpose_a)], right.dims[int(not transpose_b)]
            result_type = tensor((m, n), left.element_type)
        super().__init__(
            operands=[a, b],
            result_types=[result_type],
            properties={
                "acc": f32,
                "transpose_a": UnitAttr() if transpose_a else None,
                "transpose_b": UnitAttr() if transpose_b else None,
            },
        )

    def verify_(self) -> None:
        verify_symbols(self)
        a, b, c = tensor_of(self.a), tensor_of(self.b), tensor_of(self.result)
        for what, t in (("a", a), ("b", b)):
            if t.rank != 2:
                raise VerifyException(
                    f"gemm multiplies matrices; operand {what} is {t} of rank {t.rank}, not 2"
                )
        if a.element_type != b.element_type:
            raise VerifyException(
                f"gemm operands have one element type; a has {a.element_type}, b has "
                f"{b.element_type}; cast one of them"
            )
        m, k = reversed(a.dims) if self.transpose_a else a.dims
        k_of_b, n = reversed(b.dims) if self.transpose_b else b.dims
        if not same_size(k, k_of_b, self):
            raise VerifyException(
                f"gemm contracts sizes {k} and {k_of_b}, which differ: a is "
                f"{shape_text(a.dims)}{_flag(self.transpose_a)}, b is "
                f"{shape_text(b.dims)}{_flag(self.transpose_b)}; transpose an operand or "
                "correct a shape"
            )
        if not same_shape(c.dims, (m, n), self):
            raise VerifyException(
                f"gemm of {shape_text(a.dims)}{_flag(self.transpose_a)} and "
                f"{shape_text(b.dims)}{_flag(self.transpose_b)} is {shape_text((m, n))}; "
                f"the result says {shape_text(c.dims)}"
            )
        if c.element_type not in (a.element_type, f32):
            raise VerifyException(
                f"a gemm of {a.element_type} gives {a.element_type} or f32, not "
                f"{c.element_type}; cast the result"
            )


def _flag(transposed: UnitAttr | None) -> str:
    return " transposed" if transposed else ""


def broadcast(shapes: Sequence[Shape], at: Operation) -> Shape | None:
    """The right-aligned broadcast of ``shapes``, or None when sizes do not agree (S3.3).

    Only the constant size 1 stretches; a symbol that happens to be 1 does not.
    """
    rank = max((len(s) for s in shapes), default=0)
    result: list[Dim] = []
    for axis in range(-rank, 0):
        sizes = [s[axis] for s in shapes if len(s) >= -axis]
        wide = [s for s in sizes if s.constant() != 1]
        if any(not same_size(wide[0], s, at) for s in wide[1:]):
            return None
        result.append(wide[0] if wide else sizes[0])
    return tuple(result)


@irdl_op_definition
class ElementwiseOp(IRDLOperation):
    """A function of one or two tensors, element by element, broadcast right-aligned (S2.2).

    ``frontend.elementwise relu %x : type`` or
    ``frontend.elementwise add %x, %y : (type, type) -> type``.  What a function does with
    NaN, infinities and zeros is in docs/semantics.md.
    """

    name = "frontend.elementwise"
    fn = prop_def(StringAttr)
    args = var_operand_def(TensorType)
    result = result_def(TensorType)
    traits = traits_def(Pure())

    UNARY: ClassVar[tuple[str, ...]] = UNARY_FUNCTIONS
    BINARY: ClassVar[tuple[str, ...]] = BINARY_FUNCTIONS

    def __init__(
        self, fn: str, args: Sequence[SSAValue], result_type: TensorType | None = None
    ) -> None:
        """The result type is the broadcast of the operands' unless given."""
        if result_type is None:
            types = [tensor_of(a) for a in args]
            owner = args[0].owner
            at = owner if isinstance(owner, Operation) else owner.parent_op()
            assert at is not None
            shape = broadcast([t.dims for t in types], at)
            result_type = types[0] if shape is None else tensor(shape, types[0].element_type)
        super().__init__(
            operands=[list(args)], result_types=[result_type], properties={"fn": StringAttr(fn)}
        )

    @property
    def function(self) -> str:
        return self.fn.data

    @staticmethod
    def fault(fn: str, arity: int) -> str | None:
        """What is wrong with a function of ``arity`` operands, or None."""
        known = {1: UNARY_FUNCTIONS, 2: BINARY_FUNCTIONS}
        if fn in known.get(arity, ()):
            return None
        for count, functions in known.items():
            if fn in functions:
                return f"{fn} takes {count} operand{'s' * (count - 1)}, not {arity}"
        return (
            f"{fn} is not an elementwise function; there are {', '.join(UNARY_FUNCTIONS)} "
            f"of one operand and {', '.join(BINARY_FUNCTIONS)} of two"
        )

    def verify_(self) -> None:
        verify_symbols(self)
        if (fault := self.fault(self.function, len(self.args))) is not None:
            raise VerifyException(fault)
        types = [tensor_of(a) for a in self.args]
        result = tensor_of(self.result)
        for t in types:
            if t.element_type != result.element_type:
                raise VerifyException(
                    f"{self.function} has one element type; an operand has {t.element_type}, "
                    f"the result {result.element_type}; add a frontend.cast"
                )
        shapes = [t.dims for t in types]
        shape = broadcast(shapes, self)
        text = " and ".join(map(shape_text, shapes))
        if shape is None:
            raise VerifyException(
                f"BroadcastMismatch: {self.function} cannot broadcast {text}, aligned at the "
                "right; sizes there are equal or one of them is 1"
            )
        if not same_shape(shape, result.dims, self):
            raise VerifyException(
                f"BroadcastMismatch: {self.function} of {text} is {shape_text(shape)}; the "
                f"result says {shape_text(result.dims)}"
            )

    @classmethod
    def parse(cls, parser: Parser) -> ElementwiseOp:
        start = parser.pos
        fn = parser.parse_identifier("an elementwise function")
        end = parser.pos
        unresolved = parser.parse_comma_separated_list(
            parser.Delimiter.NONE, parser.parse_unresolved_operand
        )
        if (fault := cls.fault(fn, len(unresolved))) is not None:
            parser.raise_error(fault, start, end)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        at = parser.pos
        if (function_type := parser.parse_optional_function_type()) is not None:
            inputs, outputs = function_type.inputs.data, function_type.outputs.data
        else:
            inputs = outputs = (parser.parse_type(),)
        if len(inputs) != len(unresolved) or len(outputs) != 1:
            parser.raise_error(
                f"{fn} has {len(unresolved)} operands and 1 result; the type has "
                f"{len(inputs)} and {len(outputs)}",
                at,
            )
        args = parser.resolve_operands(unresolved, inputs, start)
        if not isinstance(outputs[0], TensorType):
            parser.raise_error(f"the result is a !frontend.tensor, not {outputs[0]}", at)
        op = cls(fn, args, outputs[0])
        op.attributes |= attributes
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.function} ")
        printer.print_list(self.args, printer.print_operand)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        types = [a.type for a in self.args]
        if types == [self.result.type]:
            printer.print_attribute(self.result.type)
        else:
            printer.print_operation_type(self)


@irdl_op_definition
class CastOp(IRDLOperation):
    """A conversion that the user wrote: rounds to a narrower type, else changes nothing."""

    name = "frontend.cast"
    operand = operand_def(TensorType)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$operand attr-dict `:` type($operand) `->` type($result)"

    def __init__(self, operand: SSAValue, element_type: Attribute) -> None:
        result = tensor(tensor_of(operand).dims, element_type)
        super().__init__(operands=[operand], result_types=[result])

    def verify_(self) -> None:
        verify_symbols(self)
        operand, result = tensor_of(self.operand), tensor_of(self.result)
        if not same_shape(operand.dims, result.dims, self):
            raise VerifyException(
                f"a cast keeps the shape; the operand is {shape_text(operand.dims)}, the "
                f"result {shape_text(result.dims)}"
            )


@irdl_op_definition
class OutputOp(IRDLOperation):
    """The values of the graph's outputs, rounded to the outputs' element types (S0.6)."""

    name = "frontend.output"
    args = var_operand_def(TensorType)
    traits = traits_def(IsTerminator(), HasParent(GraphOp))
    assembly_format = "$args attr-dict `:` type($args)"

    def __init__(self, args: Sequence[SSAValue]) -> None:
        super().__init__(operands=[list(args)])

    def verify_(self) -> None:
        verify_outputs(self, self.args)


def verify_outputs(op: Operation, values: Sequence[SSAValue]) -> None:
    """Check that ``values`` have the types of the outputs of the graph around ``op``."""
    graph = op.parent_op()
    if not isinstance(graph, SignatureOp):
        return
    outputs = graph.function_type.outputs.data
    if len(values) != len(outputs):
        raise VerifyException(
            f"@{graph.sym_name.data} has {len(outputs)} outputs, and {len(values)} are given"
        )
    for name, value, expected in zip(graph.res_names, values, outputs, strict=True):
        if not same_type(value.type, expected, op):
            raise VerifyException(
                f"output {name.data} of @{graph.sym_name.data} is {expected} in the "
                f"signature; the value is {value.type}"
            )


Frontend = Dialect("frontend", [GraphOp, GemmOp, ElementwiseOp, CastOp, OutputOp], [TensorType])
"""The dialect, as ``polyc-opt`` registers it."""

__all__ = [
    "BINARY_FUNCTIONS",
    "UNARY_FUNCTIONS",
    "CastOp",
    "ElementwiseOp",
    "Frontend",
    "GemmOp",
    "GraphOp",
    "OutputOp",
    "TensorType",
    "broadcast",
    "tensor",
    "tensor_of",
    "verify_outputs",
]
