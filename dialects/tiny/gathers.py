"""``tiny.gather``: elements of a tensor at places that are data (S3.1, S4.5)."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DenseArrayBase
from xdsl.ir import SSAValue
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
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.common.dim import shape_text
from polyc.dialects.common.elements import Number
from polyc.dialects.common.gathers import (
    fill_number,
    outside,
    outside_of,
    parse_outside,
    print_outside,
    verify_fill,
)
from polyc.dialects.common.movements import numbers, numbers_attr, numbers_text, parse_numbers
from polyc.dialects.common.numbers import PlainAttr
from polyc.dialects.common.signature import same_shape, verify_symbols
from polyc.dialects.tiny.types import (
    TensorType,
    need_element,
    tensor,
    tensor_of,
    verify_index_types,
    verify_indices,
)


@irdl_op_definition
class GatherOp(IRDLOperation):
    """Elements whose places along some axes are data: one index a point for each of ``axes``.

    ``tiny.gather %x at [%i] axes [0] clamp : ([V, D], [N, D]) -> [N, D]``: element ``(n, d)`` is
    ``x[i[n, d], d]``.  Indices have the shape of the result and an integer type; along other axes
    the operand has the result's size, and is read at the point itself.  An index counts from 0.
    One outside of its axis reads the nearest element there is with ``clamp``, and the number with
    ``fill 0.0``; a tensor without elements reads as 0, or as the fill.  Nothing else is read.
    """

    name = "tiny.gather"
    operand = operand_def(TensorType)
    indices = var_operand_def(TensorType)
    axis_list = prop_def(DenseArrayBase, prop_name="axes")
    fill = opt_prop_def(PlainAttr, prop_name="value")
    result = result_def(TensorType)
    traits = traits_def(Pure())

    def __init__(
        self,
        operand: SSAValue,
        indices: Sequence[SSAValue],
        axes: Sequence[int],
        fill: Number | None = None,
    ) -> None:
        """``fill`` None clamps."""
        element = tensor_of(operand).element_type
        super().__init__(
            operands=[operand, list(indices)],
            properties={"axes": numbers_attr(axes), "value": outside(fill, element)},
            result_types=[tensor(tensor_of(indices[0]).dims, element)],
        )

    @property
    def axes(self) -> tuple[int, ...]:
        """The operand's axes that indices are along, increasing."""
        return numbers(self.axis_list)

    @property
    def number(self) -> Number | None:
        """What is outside; None where places are clamped."""
        return fill_number(self)

    @classmethod
    def parse(cls, parser: Parser) -> GatherOp:
        start = parser.pos
        names = [parser.parse_unresolved_operand()]
        parser.parse_keyword("at")
        names += parser.parse_comma_separated_list(
            parser.Delimiter.SQUARE, parser.parse_unresolved_operand
        )
        parser.parse_keyword("axes")
        axes = parse_numbers(parser, "an axis of a gather")
        fill = parse_outside(parser)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        at = parser.pos
        types = parser.parse_function_type()
        result = types.outputs.data[0] if len(types.outputs) == 1 else None
        if not isinstance(result, TensorType) or len(types.inputs) != len(names):
            parser.raise_error(
                f"expected the types of {len(names)} operands and one !tiny.tensor result", at
            )
        operand, *indices = parser.resolve_operands(names, types.inputs.data, start)
        fill = outside_of(fill, result.element_type)
        properties = {"axes": numbers_attr(axes), **({} if fill is None else {"value": fill})}
        return cls.create(
            operands=[operand, *indices],
            properties=properties,
            result_types=[result],
            attributes=attributes,
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.operand)
        printer.print_string(" at [")
        printer.print_list(self.indices, printer.print_operand)
        printer.print_string(f"] axes {numbers_text(self.axes)}")
        print_outside(printer, self.fill)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_function_type([v.type for v in self.operands], [self.result.type])

    def verify_(self) -> None:
        verify_symbols(self)
        source, result, axes = tensor_of(self.operand), tensor_of(self.result), self.axes
        need_element("the result of a gather", self.result, source.element_type)
        verify_indices("gather", source, axes, self.indices)
        verify_index_types(self, "gather", self.indices, result.dims, "result")
        kept = list(source.dims)
        for axis in axes:
            kept[axis : axis + 1] = result.dims[axis : axis + 1]
        if not same_shape(tuple(kept), result.dims, self):
            raise VerifyException(
                f"a gather along axes {list(axes)} keeps the other sizes of "
                f"{shape_text(source.dims)}; the result says {shape_text(result.dims)}"
            )
        verify_fill("a gather", self, source.element_type)
