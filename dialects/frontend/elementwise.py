"""Elementwise ops of ``frontend``: functions, relations, select, casts (S2.2).

Operands broadcast right-aligned; only the constant size 1 stretches.  What a function does
with NaN, infinities and zeros is in docs/semantics.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import StringAttr, f32, i1
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.common.dim import Shape, shape_text
from polyc.dialects.common.elements import (
    COMPARE,
    COMPARISONS,
    CONDITION_BINARY,
    CONDITION_UNARY,
    INTEGER_BINARY,
    INTEGER_UNARY,
    Functions,
)
from polyc.dialects.common.signature import same_shape, verify_symbols
from polyc.dialects.frontend.types import (
    TensorType,
    broadcast,
    need_broadcast,
    need_element,
    need_float,
    parse_typed,
    parse_values,
    print_typed,
    tensor,
    tensor_of,
)

UNARY_FUNCTIONS = (
    *("abs", "acos", "acosh", "asin", "asinh", "atan", "atanh"),
    *("cbrt", "ceil", "cos", "cosh"),
    *("elu", "erf", "erfc", "exp", "exp2", "expm1"),
    *("floor", "gelu", "gelu_tanh", "hard_sigmoid", "hard_swish"),
    *("log", "log10", "log1p", "log2", "log_sigmoid", "mish", "neg"),
    *("reciprocal", "relu", "relu6", "round", "rsqrt"),
    *("selu", "sigmoid", "sign", "silu", "sin", "sinh", "softplus", "softsign", "sqrt"),
    *("tan", "tanh", "trunc"),
)
"""Functions of ``frontend.elementwise`` with one operand, of real numbers."""

UNARY = Functions(UNARY_FUNCTIONS, (*INTEGER_UNARY, "relu", "sign"), CONDITION_UNARY)
"""The functions with one operand."""

BINARY_FUNCTIONS = ("add", "atan2", "div", "fmod", "max", "min", "mod", "mul", "pow", "sub")
"""Functions of ``frontend.elementwise`` with two operands, of real numbers."""

BINARY = Functions(BINARY_FUNCTIONS, INTEGER_BINARY, CONDITION_BINARY)
"""The functions with two operands."""

SELU_ALPHA, SELU_SCALE = 1.6732632423543772, 1.0507009873554805
"""``selu`` is ``scale * x`` above 0, else ``scale * alpha * expm1(x)`` (Klambauer et al., 2017)."""


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
            result_type = tensor(_broadcast_of(args), _element(args[0]) if args else f32)
        super().__init__(
            operands=[list(args)], result_types=[result_type], properties={"fn": StringAttr(fn)}
        )

    @property
    def function(self) -> str:
        return self.fn.data

    @staticmethod
    def fault(fn: str, arity: int) -> str | None:
        """What is wrong with a function of ``arity`` operands, or None."""
        known = {1: UNARY.names, 2: BINARY.names}
        if fn in known.get(arity, ()):
            return None
        for count, functions in known.items():
            if fn in functions:
                return f"{fn} takes {count} operand{'s' * (count - 1)}, not {arity}"
        return (
            f"{fn} is not an elementwise function; there are {', '.join(UNARY.names)} "
            f"of one operand and {', '.join(BINARY.names)} of two"
        )

    def verify_(self) -> None:
        verify_symbols(self)
        if (fault := self.fault(self.function, len(self.args))) is not None:
            raise VerifyException(fault)
        result = tensor_of(self.result)
        for t in map(tensor_of, self.args):
            if t.element_type != result.element_type:
                raise VerifyException(
                    f"{self.function} has one element type; an operand has {t.element_type}, "
                    f"the result {result.element_type}; add a frontend.cast"
                )
        functions = UNARY if len(self.args) == 1 else BINARY
        if (fault := functions.fault(self.function, result.element_type)) is not None:
            raise VerifyException(fault)
        need_broadcast(self, self.function, self.args)

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


def _around(values: Sequence[SSAValue]) -> Operation:
    """The op or the graph that makes the first of ``values``."""
    owner = values[0].owner
    at = owner if isinstance(owner, Operation) else owner.parent_op()
    assert at is not None
    return at


def _broadcast_of(values: Sequence[SSAValue]) -> Shape:
    """The broadcast of the shapes of ``values``; the first shape where there is none."""
    shapes = [tensor_of(v).dims for v in values]
    if not shapes:
        return ()
    found = broadcast(shapes, _around(values))
    return shapes[0] if found is None else found


@irdl_op_definition
class CompareOp(IRDLOperation):
    """A relation of two tensors as a condition of i1, broadcast right-aligned (S2.2).

    ``frontend.compare lt %x, %y : (type, type) -> type``.  With a NaN every relation but
    ``ne`` is false.
    """

    name = "frontend.compare"
    fn = prop_def(StringAttr)
    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    result = result_def(TensorType)
    traits = traits_def(Pure())

    def __init__(
        self, fn: str, lhs: SSAValue, rhs: SSAValue, result_type: TensorType | None = None
    ) -> None:
        super().__init__(
            operands=[lhs, rhs],
            result_types=[result_type or tensor(_broadcast_of((lhs, rhs)), i1)],
            properties={"fn": StringAttr(fn)},
        )

    @property
    def function(self) -> str:
        return self.fn.data

    @staticmethod
    def fault(fn: str) -> str | None:
        """What is wrong with a relation's name, or None."""
        if fn in COMPARISONS:
            return None
        return f"{fn} is not a relation; there are {', '.join(COMPARISONS)}"

    def verify_(self) -> None:
        verify_symbols(self)
        if (fault := self.fault(self.function)) is not None:
            raise VerifyException(fault)
        if (fault := COMPARE.fault(self.function, _element(self.lhs))) is not None:
            raise VerifyException(fault)
        need_element(f"the right operand of {self.function}", self.rhs, _element(self.lhs))
        need_element(f"the result of {self.function}", self.result, i1)
        need_broadcast(self, self.function, self.operands)

    @classmethod
    def parse(cls, parser: Parser) -> CompareOp:
        start = parser.pos
        fn = parser.parse_identifier("a relation")
        if (fault := cls.fault(fn)) is not None:
            parser.raise_error(fault, start, parser.pos)
        args, results, attributes = parse_typed(parser, parse_values(parser))
        return cls.create(
            operands=args,
            result_types=results,
            properties={"fn": StringAttr(fn)},
            attributes=attributes,
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.function} ")
        printer.print_list(self.operands, printer.print_operand)
        print_typed(printer, self, {})


CLASSES = ("isfinite", "isinf", "isnan")
"""What ``frontend.classify`` asks."""


@irdl_op_definition
class ClassifyOp(IRDLOperation):
    """Whether a number is finite, infinite or none at all, as a condition of i1.

    ``frontend.classify isnan %x : (type) -> type``.
    """

    name = "frontend.classify"
    fn = prop_def(StringAttr)
    operand = operand_def(TensorType)
    result = result_def(TensorType)
    traits = traits_def(Pure())

    def __init__(self, fn: str, operand: SSAValue) -> None:
        super().__init__(
            operands=[operand],
            result_types=[tensor(tensor_of(operand).dims, i1)],
            properties={"fn": StringAttr(fn)},
        )

    @property
    def function(self) -> str:
        return self.fn.data

    @staticmethod
    def fault(fn: str) -> str | None:
        """What is wrong with a question's name, or None."""
        if fn in CLASSES:
            return None
        return f"{fn} is not a question of frontend.classify; there are {', '.join(CLASSES)}"

    def verify_(self) -> None:
        verify_symbols(self)
        if (fault := self.fault(self.function)) is not None:
            raise VerifyException(fault)
        need_float(self.function, self.operands)
        need_element(f"the result of {self.function}", self.result, i1)
        if not same_shape(tensor_of(self.operand).dims, tensor_of(self.result).dims, self):
            raise VerifyException(
                f"{self.function} keeps the shape; the operand is "
                f"{shape_text(tensor_of(self.operand).dims)}, the result "
                f"{shape_text(tensor_of(self.result).dims)}"
            )

    @classmethod
    def parse(cls, parser: Parser) -> ClassifyOp:
        start = parser.pos
        fn = parser.parse_identifier("a question")
        if (fault := cls.fault(fn)) is not None:
            parser.raise_error(fault, start, parser.pos)
        unresolved = [parser.parse_unresolved_operand()]
        args, results, attributes = parse_typed(parser, unresolved)
        return cls.create(
            operands=args,
            result_types=results,
            properties={"fn": StringAttr(fn)},
            attributes=attributes,
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.function} ")
        printer.print_operand(self.operand)
        print_typed(printer, self, {})


@irdl_op_definition
class SelectOp(IRDLOperation):
    """``then`` where the condition holds, else ``otherwise``, broadcast right-aligned (S2.2).

    ``frontend.select %c, %x, %y : (type, type, type) -> type``.  The value not taken has
    no effect, NaN and infinities included.
    """

    name = "frontend.select"
    condition = operand_def(TensorType)
    then = operand_def(TensorType)
    otherwise = operand_def(TensorType)
    result = result_def(TensorType)
    traits = traits_def(Pure())

    def __init__(
        self,
        condition: SSAValue,
        then: SSAValue,
        otherwise: SSAValue,
        result_type: TensorType | None = None,
    ) -> None:
        values = (condition, then, otherwise)
        super().__init__(
            operands=values,
            result_types=[result_type or tensor(_broadcast_of(values), _element(then))],
        )

    def verify_(self) -> None:
        verify_symbols(self)
        need_element("the condition of a select", self.condition, i1)
        for value in (self.otherwise, self.result):
            need_element("each branch of a select", value, _element(self.then))
        need_broadcast(self, "select", self.operands)

    @classmethod
    def parse(cls, parser: Parser) -> SelectOp:
        args, results, attributes = parse_typed(parser, parse_values(parser))
        return cls.create(operands=args, result_types=results, attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.operands, printer.print_operand)
        print_typed(printer, self, {})


def _element(value: SSAValue) -> Attribute:
    return tensor_of(value).element_type


@irdl_op_definition
class CastOp(IRDLOperation):
    """A conversion that the user wrote: rounds to a narrower float type, else changes nothing.

    A condition becomes 1 or 0; a number becomes the condition that it is not 0.  A real number is
    cut to an integer and saturates, NaN as 0; an integer wraps in a narrower one.
    """

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
