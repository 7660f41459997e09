"""Leaves of ``frontend``: constants, sizes and positions (S2.2)."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import IntegerAttr, f32, i1, i64
from xdsl.ir import Attribute
from xdsl.irdl import IRDLOperation, irdl_op_definition, prop_def, result_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.common.dim import Dim, parse_constant, shape_text
from polyc.dialects.common.elements import Number, is_integer
from polyc.dialects.common.leaves import ConstantBase, DimBase
from polyc.dialects.common.movements import parse_tensor
from polyc.dialects.common.numbers import plain_fault
from polyc.dialects.common.signature import SizedTensorType, verify_symbols
from polyc.dialects.common.sizes import verify_known
from polyc.dialects.frontend.types import TensorType, need_number, tensor, tensor_of


@irdl_op_definition
class ConstantOp(ConstantBase):
    """A scalar, ``frontend.constant 0.5 : !frontend.tensor<[], f16>``; also inf, -inf, nan.

    It broadcasts like any operand.  A float type is nominal: the value is an f32.  An integer has
    no point: ``frontend.constant 5 : !frontend.tensor<[], i64>``.
    """

    name = "frontend.constant"
    result = result_def(TensorType)
    TENSOR: ClassVar[type[SizedTensorType]] = TensorType

    def __init__(self, value: Number, result_type: TensorType | None = None) -> None:
        """``value`` is rounded to f32; OverflowError when it is finite and too large."""
        super().__init__(value, result_type or tensor((), f32))

    def verify_(self) -> None:
        if tensor_of(self.result).rank:
            raise VerifyException(
                f"a constant is a scalar, not {self.result.type}; it broadcasts, or use a "
                "frontend.expand"
            )
        need_number("a constant", (self.result,))
        if (fault := plain_fault(self.value, tensor_of(self.result).element_type)) is not None:
            raise VerifyException(fault)


@irdl_op_definition
class DimOp(DimBase):
    """A size as a scalar, ``frontend.dim M * K : !frontend.tensor<[], i64>``.

    Of a float type it is rounded to f32, of an integer type it wraps where it is beyond that.
    """

    name = "frontend.dim"
    result = result_def(TensorType)
    TENSOR: ClassVar[type[SizedTensorType]] = TensorType

    def __init__(self, size: Dim, element_type: Attribute = i64) -> None:
        super().__init__(size, tensor((), element_type))

    def verify_(self) -> None:
        t = tensor_of(self.result)
        if t.rank or t.element_type == i1:
            raise VerifyException(f"a dim is a scalar number, not {t}")
        verify_known(self, (self.size,), "a dim")


@irdl_op_definition
class IotaOp(IRDLOperation):
    """The positions along an axis, ``frontend.iota axis 1 : !frontend.tensor<[M, N], i64>``.

    Element ``[i, j]`` is ``j``, which wraps where it is beyond the type.  Other starts and steps
    are arithmetic.
    """

    name = "frontend.iota"
    axis_attr = prop_def(IntegerAttr, prop_name="axis")
    result = result_def(TensorType)
    traits = traits_def(Pure())

    def __init__(self, result_type: TensorType, axis: int) -> None:
        super().__init__(properties={"axis": IntegerAttr(axis, i64)}, result_types=[result_type])

    @property
    def axis(self) -> int:
        """The axis whose positions the elements are."""
        return self.axis_attr.value.data

    def verify_(self) -> None:
        verify_symbols(self)
        t = tensor_of(self.result)
        if not 0 <= self.axis < t.rank:
            raise VerifyException(
                f"axis {self.axis} of an iota is not an axis of {shape_text(t.dims)}, which are 0 "
                f"to {t.rank - 1}"
            )
        if not is_integer(t.element_type):
            raise VerifyException(
                f"an iota is of an integer type, not {t.element_type}; add a frontend.cast"
            )

    @classmethod
    def parse(cls, parser: Parser) -> IotaOp:
        parser.parse_keyword("axis")
        axis = parse_constant(parser, "the axis of an iota")
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        return cls.create(
            properties={"axis": IntegerAttr(axis, i64)},
            result_types=[parse_tensor(parser, TensorType)],
            attributes=attributes,
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(f" axis {self.axis}")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)
