"""The ``tiny`` dialect: movements, gathers, scatters, functions of elements, reductions (S3).

A ``tiny.graph`` has the signature of the ``frontend.graph`` that it comes from.  Leaves
are its arguments, scalar constants, sizes and positions.  Real numbers are computed in f32,
integers in their own type; a ``tiny.cast`` stands where a value is rounded, widened or
converted (S0.6).  Movements are logical views.  Nothing broadcasts by itself: operands have
equal shapes, and an ``expand`` names its dimensions.  A reduced axis is removed (S3.1).

A computed value of f32 may say in which narrower type it is stored where it goes through memory
between two kernels, ``tiny.binary add %x, %y own f16 : …``: the type that its user gave it.  It
is rounded there and nowhere else; another computation of it may leave it as it is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Self

from xdsl.dialects.builtin import (
    StringAttr,
    f32,
    i1,
)
from xdsl.ir import Attribute, Dialect, SSAValue
from xdsl.irdl import (
    IRDLOperation,
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

from polyc.dialects.common.dim import Dim, shape_text
from polyc.dialects.common.elements import (
    COMPARE,
    COMPARISONS,
    CONDITION_BINARY,
    CONDITION_UNARY,
    COUNTER_BINARY,
    INTEGER_BINARY,
    INTEGER_UNARY,
    Functions,
    Number,
    bitcast_fault,
    is_integer,
)
from polyc.dialects.common.leaves import ConstantBase, DimBase
from polyc.dialects.common.numbers import number_text, plain_fault
from polyc.dialects.common.signature import (
    SignatureOp,
    SizedTensorType,
    same_shape,
    verify_outputs,
    verify_symbols,
)
from polyc.dialects.common.sizes import verify_known
from polyc.dialects.tiny.axes import (
    REDUCTIONS,
    ExpandOp,
    PadOp,
    PermuteOp,
    ReduceOp,
    ReshapeOp,
    SliceOp,
)
from polyc.dialects.tiny.gathers import GatherOp
from polyc.dialects.tiny.scans import ScanOp
from polyc.dialects.tiny.scatters import ScatterOp
from polyc.dialects.tiny.sorting import SortOp
from polyc.dialects.tiny.types import (
    TensorType,
    Types,
    fn_fault,
    need_element,
    need_number,
    need_own,
    parse_fn,
    parse_operands,
    print_operands,
    same_shapes,
    tensor,
    tensor_of,
)
from polyc.dialects.tiny.views import MaskOp, SampleOp, WindowOp

__all__ = [
    "BINARY",
    "BINARY_FUNCTIONS",
    "COMPARISONS",
    "REDUCTIONS",
    "UNARY",
    "UNARY_FUNCTIONS",
    "BinaryOp",
    "BitcastOp",
    "CastOp",
    "CompareOp",
    "ConstantOp",
    "DimOp",
    "ExpandOp",
    "FunctionOp",
    "GatherOp",
    "GraphOp",
    "IotaOp",
    "MaskOp",
    "OutputOp",
    "PadOp",
    "PermuteOp",
    "ReduceOp",
    "ReshapeOp",
    "SampleOp",
    "ScanOp",
    "ScatterOp",
    "SelectOp",
    "SliceOp",
    "SortOp",
    "TensorType",
    "Tiny",
    "UnaryOp",
    "WindowOp",
    "number_text",
    "tensor",
    "tensor_of",
]

UNARY_FUNCTIONS = (
    *("abs", "acos", "acosh", "asin", "asinh", "atan", "atanh"),
    *("cbrt", "ceil", "cos", "cosh"),
    *("erf", "erfc", "exp", "exp2", "expm1"),
    *("floor", "log", "log10", "log1p", "log2", "neg"),
    *("reciprocal", "round", "rsqrt"),
    *("sigmoid", "sign", "sin", "sinh", "sqrt"),
    *("tan", "tanh", "trunc"),
)
"""Functions of ``tiny.unary`` on real numbers."""

UNARY = Functions(UNARY_FUNCTIONS, INTEGER_UNARY, CONDITION_UNARY)
"""The functions of ``tiny.unary``."""

BINARY_FUNCTIONS = ("add", "atan2", "div", "fmod", "max", "min", "mul", "pow", "sub")
"""Functions of ``tiny.binary`` on real numbers."""

BINARY = Functions(BINARY_FUNCTIONS, INTEGER_BINARY, CONDITION_BINARY, COUNTER_BINARY)
"""The functions of ``tiny.binary``."""


@irdl_op_definition
class GraphOp(SignatureOp):
    """A pure value graph with its signature; argument types are as stored (S2.1, S3)."""

    name = "tiny.graph"
    TENSOR: ClassVar[type[SizedTensorType]] = TensorType


@irdl_op_definition
class ConstantOp(ConstantBase):
    """A scalar, ``tiny.constant 0.0 : !tiny.tensor<[], f32>``; also ``inf``, ``-inf``, ``nan``.

    An integer has no point: ``tiny.constant 5 : !tiny.tensor<[], i64>``.
    """

    name = "tiny.constant"
    result = result_def(TensorType)
    TENSOR: ClassVar[type[SizedTensorType]] = TensorType

    def __init__(self, value: Number, result_type: TensorType | None = None) -> None:
        """``value`` is rounded to f32; OverflowError when it is finite and too large."""
        super().__init__(value, result_type or tensor((), f32))

    def verify_(self) -> None:
        t = tensor_of(self.result)
        if t.rank or not (t.element_type == f32 or is_integer(t.element_type)):
            raise VerifyException(f"a constant is a scalar of f32 or an integer type, not {t}")
        if (fault := plain_fault(self.value, t.element_type)) is not None:
            raise VerifyException(fault)


@irdl_op_definition
class DimOp(DimBase):
    """A size as a scalar, ``tiny.dim M * K : !tiny.tensor<[], f32>``, rounded to f32 (S3.1).

    A mean divides by one.  Of an integer type it wraps where it is beyond that.
    """

    name = "tiny.dim"
    result = result_def(TensorType)
    TENSOR: ClassVar[type[SizedTensorType]] = TensorType

    def __init__(self, size: Dim, result_type: TensorType | None = None) -> None:
        super().__init__(size, result_type or tensor((), f32))

    def verify_(self) -> None:
        t = tensor_of(self.result)
        if t.rank or not (t.element_type == f32 or is_integer(t.element_type)):
            raise VerifyException(f"a dim is a scalar of f32 or an integer type, not {t}")
        verify_known(self, (self.size,), "a dim")


@irdl_op_definition
class CastOp(IRDLOperation):
    """Conversion: to a narrower float type rounds to nearest even (S0.6).

    What is cut to integers, what saturates and what wraps is in docs/semantics.md.
    """

    name = "tiny.cast"
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
        if i1 in (operand.element_type, result.element_type):
            raise VerifyException(
                f"a cast converts between numbers, not {operand.element_type} to "
                f"{result.element_type}; use tiny.select for a condition"
            )


@irdl_op_definition
class BitcastOp(IRDLOperation):
    """The bits of each f32 as an i32, or of each i32 as an f32; nothing is converted (S3.1).

    ``tiny.bitcast %x : !tiny.tensor<[N], f32> -> !tiny.tensor<[N], i32>``.  Which bits a NaN has is
    not defined.
    """

    name = "tiny.bitcast"
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
        same_shapes(self, "bitcast", (self.operand, self.result))
        if (fault := bitcast_fault(operand.element_type, result.element_type)) is not None:
            raise VerifyException(fault)


class FunctionOp(IRDLOperation, ABC):
    """A function of the elements at one place, ``op fn %x, %y : type``, of f32, integers or i1.

    A subclass has the operands; they have one type, and the result has their shape.
    """

    fn = prop_def(StringAttr)
    own = opt_prop_def(Attribute)
    result = result_def(TensorType)
    traits = traits_def(Pure())

    FUNCTIONS: ClassVar[Functions]
    """The functions that the op has."""

    @classmethod
    @abstractmethod
    def types(cls, operand: TensorType) -> Types:
        """The types of the operands and the result, from that of one operand."""

    @property
    def function(self) -> str:
        return self.fn.data

    def verify_(self) -> None:
        verify_symbols(self)
        if (fault := fn_fault(self.name, self.function, self.FUNCTIONS.names)) is not None:
            raise VerifyException(fault)
        first = tensor_of(self.operands[0]).element_type
        for value in self.operands[1:]:
            need_element(f"each operand of {self.function}", value, first)
        if first != i1:
            need_number(self.function, self.operands)
        if (fault := self.FUNCTIONS.fault(self.function, first)) is not None:
            raise VerifyException(fault)
        _, expected = self.types(tensor_of(self.operands[0]))
        need_element(f"the result of {self.function}", self.result, expected.element_type)
        need_own(self.function, self.result, self.own)
        same_shapes(self, self.function, (*self.operands, self.result))

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        fn = parse_fn(parser, cls.name, cls.FUNCTIONS.names)
        found = parse_operands(parser, cls.types)
        return cls.create(
            operands=found.operands,
            result_types=[found.result],
            properties={"fn": StringAttr(fn), **found.properties},
            attributes=found.attributes,
        )

    def print(self, printer: Printer) -> None:
        print_operands(printer, self, self.function, self.types)


@irdl_op_definition
class UnaryOp(FunctionOp):
    """A function of each element, ``tiny.unary exp %x : type``."""

    name = "tiny.unary"
    operand = operand_def(TensorType)
    FUNCTIONS: ClassVar[Functions] = UNARY

    def __init__(self, fn: str, operand: SSAValue, result_type: TensorType | None = None) -> None:
        super().__init__(
            operands=[operand],
            result_types=[result_type or operand.type],
            properties={"fn": StringAttr(fn)},
        )

    @classmethod
    def types(cls, operand: TensorType) -> Types:
        return [operand], operand


@irdl_op_definition
class BinaryOp(FunctionOp):
    """A function of two values of one shape, ``tiny.binary add %x, %y : type``."""

    name = "tiny.binary"
    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    FUNCTIONS: ClassVar[Functions] = BINARY

    def __init__(
        self, fn: str, lhs: SSAValue, rhs: SSAValue, result_type: TensorType | None = None
    ) -> None:
        super().__init__(
            operands=[lhs, rhs],
            result_types=[result_type or lhs.type],
            properties={"fn": StringAttr(fn)},
        )

    @classmethod
    def types(cls, operand: TensorType) -> Types:
        return [operand, operand], operand


@irdl_op_definition
class CompareOp(FunctionOp):
    """A relation of two values as a condition, ``tiny.compare lt %x, %y : type`` (S3.1).

    The result has element type i1.  With a NaN every relation but ``ne`` is false.
    """

    name = "tiny.compare"
    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    FUNCTIONS: ClassVar[Functions] = COMPARE

    def __init__(
        self, fn: str, lhs: SSAValue, rhs: SSAValue, result_type: TensorType | None = None
    ) -> None:
        super().__init__(
            operands=[lhs, rhs],
            result_types=[result_type or tensor(tensor_of(lhs).dims, i1)],
            properties={"fn": StringAttr(fn)},
        )

    @classmethod
    def types(cls, operand: TensorType) -> Types:
        return [operand, operand], tensor(operand.dims, i1)


@irdl_op_definition
class IotaOp(IRDLOperation):
    """The positions along one axis, ``tiny.iota : !tiny.tensor<[N], i32>`` (S3.1).

    Element ``i`` is ``i``, which wraps where it is beyond the type.  A leaf: other starts, steps
    and shapes are arithmetic and expands of it.
    """

    name = "tiny.iota"
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "attr-dict `:` type($result)"

    def __init__(self, size: Dim, element_type: Attribute) -> None:
        super().__init__(result_types=[tensor((size,), element_type)])

    def verify_(self) -> None:
        verify_symbols(self)
        t = tensor_of(self.result)
        if t.rank != 1 or not is_integer(t.element_type):
            raise VerifyException(
                f"an iota is one axis of an integer type, not {t}; expand it, or cast it"
            )


def _selection(t: TensorType) -> Types:
    return [tensor(t.dims, i1), t, t], t


@irdl_op_definition
class SelectOp(IRDLOperation):
    """``then`` where the condition holds, else ``otherwise``, element by element (S3.1).

    The value not taken has no effect, NaN and infinities included.
    """

    name = "tiny.select"
    condition = operand_def(TensorType)
    then = operand_def(TensorType)
    otherwise = operand_def(TensorType)
    own = opt_prop_def(Attribute)
    result = result_def(TensorType)
    traits = traits_def(Pure())

    def __init__(
        self,
        condition: SSAValue,
        then: SSAValue,
        otherwise: SSAValue,
        result_type: TensorType | None = None,
    ) -> None:
        super().__init__(
            operands=[condition, then, otherwise], result_types=[result_type or then.type]
        )

    def verify_(self) -> None:
        verify_symbols(self)
        need_element("the condition of a select", self.condition, i1)
        element = tensor_of(self.then).element_type
        for value in (self.otherwise, self.result):
            need_element("each branch of a select", value, element)
        need_own("select", self.result, self.own)
        same_shapes(self, "select", (self.condition, self.then, self.otherwise, self.result))

    @classmethod
    def parse(cls, parser: Parser) -> SelectOp:
        found = parse_operands(parser, _selection)
        return cls.create(
            operands=found.operands,
            result_types=[found.result],
            properties=found.properties,
            attributes=found.attributes,
        )

    def print(self, printer: Printer) -> None:
        print_operands(printer, self, "", _selection)


@irdl_op_definition
class OutputOp(IRDLOperation):
    """The values of the graph's outputs; their types are the signature's."""

    name = "tiny.output"
    args = var_operand_def(TensorType)
    traits = traits_def(IsTerminator(), HasParent(GraphOp))
    assembly_format = "$args attr-dict `:` type($args)"

    def __init__(self, args: Sequence[SSAValue]) -> None:
        super().__init__(operands=[list(args)])

    def verify_(self) -> None:
        verify_outputs(self, self.args)


Tiny = Dialect(
    "tiny",
    [
        GraphOp,
        ConstantOp,
        CastOp,
        BitcastOp,
        UnaryOp,
        BinaryOp,
        CompareOp,
        SelectOp,
        DimOp,
        IotaOp,
        ReshapeOp,
        PermuteOp,
        ExpandOp,
        PadOp,
        SliceOp,
        WindowOp,
        SampleOp,
        MaskOp,
        GatherOp,
        ScatterOp,
        ReduceOp,
        SortOp,
        ScanOp,
        OutputOp,
    ],
    [TensorType],
)
"""The dialect, as ``polyc-opt`` registers it."""
