"""Movements of ``frontend``: reshape, permute, expand, pad, slice, concat (S2.2).

All but ``concat`` are those of ``tiny``; ``polyc.dialects.common.movements`` has their text and
their legality.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import IntegerAttr, f32, i64
from xdsl.ir import SSAValue
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

from polyc.dialects.common.dim import Dim, Shape, parse_constant, shape_text
from polyc.dialects.common.movements import ExpandBase, PadBase, PermuteBase, ReshapeBase, SliceBase
from polyc.dialects.common.signature import SizedTensorType, same_size, verify_symbols
from polyc.dialects.common.sizes import inferred
from polyc.dialects.frontend.types import (
    TensorType,
    need_element,
    need_number,
    need_shape,
    parse_typed,
    parse_values,
    print_typed,
    tensor,
    tensor_of,
)


@irdl_op_definition
class ReshapeOp(ReshapeBase):
    """``frontend.reshape %x : [M, 8 * K] -> [M, K, 8]``: see ``ReshapeBase``."""

    name = "frontend.reshape"
    operand = operand_def(TensorType)
    result = result_def(TensorType)
    TENSOR: ClassVar[type[SizedTensorType]] = TensorType


@irdl_op_definition
class PermuteOp(PermuteBase):
    """``frontend.permute %x perm [1, 0] : [K, M] -> [M, K]``: see ``PermuteBase``."""

    name = "frontend.permute"
    operand = operand_def(TensorType)
    result = result_def(TensorType)
    TENSOR: ClassVar[type[SizedTensorType]] = TensorType


@irdl_op_definition
class ExpandOp(ExpandBase):
    """``frontend.expand %x dims [1] : [N] -> [M, N]``: see ``ExpandBase``."""

    name = "frontend.expand"
    operand = operand_def(TensorType)
    result = result_def(TensorType)
    TENSOR: ClassVar[type[SizedTensorType]] = TensorType


@irdl_op_definition
class PadOp(PadBase):
    """``frontend.pad %x low [1] high [0] value 0.0 : [M] -> [M + 1]``: see ``PadBase``."""

    name = "frontend.pad"
    operand = operand_def(TensorType)
    result = result_def(TensorType)
    TENSOR: ClassVar[type[SizedTensorType]] = TensorType

    def verify_(self) -> None:
        need_number("pad", (self.operand,))
        super().verify_()


@irdl_op_definition
class SliceOp(SliceBase):
    """``frontend.slice %x [1:M:2] : [M] -> [M floordiv 2]``: see ``SliceBase``."""

    name = "frontend.slice"
    operand = operand_def(TensorType)
    result = result_def(TensorType)
    TENSOR: ClassVar[type[SizedTensorType]] = TensorType


@irdl_op_definition
class ConcatOp(IRDLOperation):
    """Tensors one after the other along an axis (S2.2).

    ``frontend.concat %x, %y axis 1 : ([M, K], [M, N]) -> [M, K + N]``.  All other sizes
    are equal.
    """

    name = "frontend.concat"
    args = var_operand_def(TensorType)
    axis_attr = prop_def(IntegerAttr, prop_name="axis")
    result = result_def(TensorType)
    traits = traits_def(Pure())

    def __init__(self, args: Sequence[SSAValue], axis: int) -> None:
        shapes = [tensor_of(a).dims for a in args]

        def joined() -> Shape:
            dims = list(shapes[0])
            dims[axis] = sum((shape[axis] for shape in shapes[1:]), dims[axis])
            return tuple(dims)

        element = tensor_of(args[0]).element_type if args else f32
        super().__init__(
            operands=[list(args)],
            result_types=[tensor(inferred(joined), element)],
            properties={"axis": IntegerAttr(axis, i64)},
        )

    @property
    def axis(self) -> int:
        """The axis along which the operands follow each other."""
        return self.axis_attr.value.data

    def verify_(self) -> None:
        verify_symbols(self)
        if not self.args:
            raise VerifyException("concat has no operand; give at least one")
        first = tensor_of(self.args[0])
        axis = self.axis
        if not 0 <= axis < first.rank:
            raise VerifyException(
                f"axis {axis} of a concat is not an axis of {shape_text(first.dims)}, which are "
                f"0 to {first.rank - 1}"
            )
        total = Dim.const(0)
        for position, value in enumerate(self.args):
            need_element(f"operand {position} of a concat", value, first.element_type)
            dims = tensor_of(value).dims
            if len(dims) != first.rank or any(
                i != axis and not same_size(a, b, self)
                for i, (a, b) in enumerate(zip(dims, first.dims, strict=True))
            ):
                raise VerifyException(
                    f"concat along axis {axis} takes equal sizes along the others; operand 0 is "
                    f"{shape_text(first.dims)}, operand {position} is {shape_text(dims)}"
                )
            total = total + dims[axis]
        need_element("the result of a concat", self.result, first.element_type)
        expected = (*first.dims[:axis], total, *first.dims[axis + 1 :])
        need_shape(self, "the result of this concat", self.result, expected)

    @classmethod
    def parse(cls, parser: Parser) -> ConcatOp:
        unresolved = parse_values(parser)
        parser.parse_keyword("axis")
        axis = parse_constant(parser, "the axis of a concat")
        args, results, attributes = parse_typed(parser, unresolved)
        return cls.create(
            operands=args,
            result_types=results,
            properties={"axis": IntegerAttr(axis, i64)},
            attributes=attributes,
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.args, printer.print_operand)
        printer.print_string(f" axis {self.axis}")
        print_typed(printer, self, {})
