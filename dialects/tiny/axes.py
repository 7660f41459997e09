"""The ops of ``tiny`` that change axes: movements and reduce; see ``polyc.dialects.tiny``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import AnyFloat, DenseArrayBase, StringAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.common import precision as precisions
from polyc.dialects.common.dim import shape_text
from polyc.dialects.common.elements import holds
from polyc.dialects.common.movements import (
    ExpandBase,
    PadBase,
    PermuteBase,
    ReshapeBase,
    SliceBase,
    numbers,
    numbers_attr,
    numbers_text,
    parse_numbers,
)
from polyc.dialects.common.numbers import number_text
from polyc.dialects.common.precision import need_sum
from polyc.dialects.common.signature import SizedTensorType, same_shape, verify_symbols
from polyc.dialects.tiny.types import (
    TensorType,
    fn_fault,
    need_number,
    need_own,
    parse_fn,
    parse_own,
    parse_tensor,
    print_own,
    tensor,
    tensor_of,
)

REDUCTIONS = ("max", "min", "prod", "sum")
"""Functions of ``tiny.reduce``."""


@irdl_op_definition
class ReshapeOp(ReshapeBase):
    """``tiny.reshape %x : [M, 8 * K] -> [M, K, 8]``: see ``ReshapeBase``."""

    name = "tiny.reshape"
    operand = operand_def(TensorType)
    result = result_def(TensorType)
    TENSOR: ClassVar[type[SizedTensorType]] = TensorType


@irdl_op_definition
class PermuteOp(PermuteBase):
    """``tiny.permute %x perm [1, 0] : [K, M] -> [M, K]``: see ``PermuteBase``."""

    name = "tiny.permute"
    operand = operand_def(TensorType)
    result = result_def(TensorType)
    TENSOR: ClassVar[type[SizedTensorType]] = TensorType


@irdl_op_definition
class ExpandOp(ExpandBase):
    """``tiny.expand %x dims [0, 1] : [M, K] -> [M, K, N]``: see ``ExpandBase``."""

    name = "tiny.expand"
    operand = operand_def(TensorType)
    result = result_def(TensorType)
    TENSOR: ClassVar[type[SizedTensorType]] = TensorType


@irdl_op_definition
class PadOp(PadBase):
    """``tiny.pad %x low [1] high [0] value 0.0 : [M] -> [M + 1]``: see ``PadBase``.

    It is movement, of f32, integers, and floats of fewer bits that hold what is added.
    """

    name = "tiny.pad"
    operand = operand_def(TensorType)
    result = result_def(TensorType)
    TENSOR: ClassVar[type[SizedTensorType]] = TensorType

    def verify_(self) -> None:
        element = self.source_type.element_type
        if not isinstance(element, AnyFloat):
            need_number("pad", (self.operand,))
        super().verify_()
        if not holds(element, self.number):
            raise VerifyException(
                f"pad adds {number_text(self.number)}, which {element} does not hold; add a "
                "tiny.cast to f32"
            )


@irdl_op_definition
class SliceOp(SliceBase):
    """``tiny.slice %x [1:M:2] : [M] -> [M floordiv 2]``: see ``SliceBase``."""

    name = "tiny.slice"
    operand = operand_def(TensorType)
    result = result_def(TensorType)
    TENSOR: ClassVar[type[SizedTensorType]] = TensorType


@irdl_op_definition
class ReduceOp(IRDLOperation):
    """Sum, max or min over axes, which leave the shape; the others keep their order (S3.1).

    ``tiny.reduce sum %x axes [1] : [M, K, N] -> [M, N]``.  Over nothing a sum is 0, a max
    -inf, a min +inf; of integers a max is the least of the type, and a min the most.  The order of
    a sum is not defined; one of integers wraps.  ``precision`` says of a sum how
    precise its terms have to be, where they are products (docs/semantics.md, *Precision*):
    ``tiny.reduce sum %x axes [1] precision tf32 : …``.
    """

    name = "tiny.reduce"
    fn = prop_def(StringAttr)
    operand = operand_def(TensorType)
    axis_list = prop_def(DenseArrayBase, prop_name="axes")
    own = opt_prop_def(Attribute)
    precision = opt_prop_def(StringAttr)
    result = result_def(TensorType)
    traits = traits_def(Pure())

    def __init__(
        self,
        fn: str,
        operand: SSAValue,
        axes: Sequence[int],
        result_type: TensorType | None = None,
        precision: StringAttr | None = None,
    ) -> None:
        if result_type is None:
            t = tensor_of(operand)
            kept = [d for i, d in enumerate(t.dims) if i not in axes]
            result_type = tensor(kept, t.element_type)
        super().__init__(
            operands=[operand],
            result_types=[result_type],
            properties={
                "fn": StringAttr(fn),
                "axes": numbers_attr(axes),
                "precision": precision,
            },
        )

    @property
    def function(self) -> str:
        return self.fn.data

    @property
    def axes(self) -> tuple[int, ...]:
        """The reduced operand axes, increasing."""
        return numbers(self.axis_list)

    def verify_(self) -> None:
        verify_symbols(self)
        if (fault := fn_fault(self.name, self.function, REDUCTIONS)) is not None:
            raise VerifyException(fault)
        need_number(self.function, (self.operand,))
        operand, result = tensor_of(self.operand), tensor_of(self.result)
        if operand.element_type != result.element_type:
            raise VerifyException(
                f"reduce keeps the element type; the operand has {operand.element_type}, the "
                f"result {result.element_type}"
            )
        need_own(self.function, self.result, self.own)
        need_sum(self.function, self.precision)
        axes = self.axes
        if any(not 0 <= a < operand.rank for a in axes) or list(axes) != sorted(set(axes)):
            raise VerifyException(
                f"axes {list(axes)} of a reduce are different axes of "
                f"{shape_text(operand.dims)} in increasing order, 0 to {operand.rank - 1}"
            )
        if not axes:
            raise VerifyException("a reduce names at least one axis")
        expected = tuple(d for i, d in enumerate(operand.dims) if i not in axes)
        if not same_shape(expected, result.dims, self):
            raise VerifyException(
                f"{shape_text(operand.dims)} reduced over axes {list(axes)} is "
                f"{shape_text(expected)}; the result says {shape_text(result.dims)}"
            )

    @classmethod
    def parse(cls, parser: Parser) -> ReduceOp:
        fn = parse_fn(parser, cls.name, REDUCTIONS)
        unresolved = parser.parse_unresolved_operand()
        parser.parse_keyword("axes")
        axes = parse_numbers(parser, "an axis of a reduce")
        properties = parse_own(parser)
        precision = precisions.parse(parser)
        attributes: dict[str, Attribute] = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        operand_type = parse_tensor(parser)
        parser.parse_punctuation("->")
        result_type = parse_tensor(parser)
        operand = parser.resolve_operand(unresolved, operand_type)
        op = cls(fn, operand, axes, result_type, precision)
        op.properties |= properties
        op.attributes |= attributes
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.function} ")
        printer.print_operand(self.operand)
        printer.print_string(f" axes {numbers_text(self.axes)}")
        print_own(printer, self.own)
        precisions.print_precision(printer, self.precision)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.operand.type)
        printer.print_string(" -> ")
        printer.print_attribute(self.result.type)
