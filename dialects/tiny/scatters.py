"""``tiny.scatter``: updates of a tensor at places that are data (S3.1, S4.5)."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DenseArrayBase, StringAttr, f32
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

from polyc.dialects.common.dim import shape_text
from polyc.dialects.common.elements import is_integer
from polyc.dialects.common.gathers import SCATTERS
from polyc.dialects.common.movements import numbers, numbers_attr, numbers_text, parse_numbers
from polyc.dialects.common.signature import same_shape, verify_symbols
from polyc.dialects.tiny.types import (
    TensorType,
    fn_fault,
    need_element,
    parse_fn,
    tensor_of,
    verify_index_types,
    verify_indices,
)


@irdl_op_definition
class ScatterOp(IRDLOperation):
    """A tensor with updates combined into elements whose places along some axes are data.

    ``tiny.scatter add %x, %u at [%i] axes [0] : ([V, D], [N, D], [N, D]) -> [V, D]``: element
    ``(v, d)`` is ``x[v, d]`` with each ``u[n, d]`` added of which ``i[n, d]`` is ``v``, in the
    order of ``n``.  Updates and indices have one shape; along other axes it is the operand's, and
    an update is of the element at its own point.  ``set`` takes the last.  An update whose index is
    outside of its axis is left out.
    """

    name = "tiny.scatter"
    fn = prop_def(StringAttr)
    operand = operand_def(TensorType)
    updates = operand_def(TensorType)
    indices = var_operand_def(TensorType)
    axis_list = prop_def(DenseArrayBase, prop_name="axes")
    result = result_def(TensorType)
    traits = traits_def(Pure())

    def __init__(
        self,
        fn: str,
        operand: SSAValue,
        updates: SSAValue,
        indices: Sequence[SSAValue],
        axes: Sequence[int],
    ) -> None:
        super().__init__(
            operands=[operand, updates, list(indices)],
            properties={"fn": StringAttr(fn), "axes": numbers_attr(axes)},
            result_types=[operand.type],
        )

    @property
    def function(self) -> str:
        """``set``, ``add``, ``mul``, ``max`` or ``min``."""
        return self.fn.data

    @property
    def axes(self) -> tuple[int, ...]:
        """The operand's axes that indices are along, increasing."""
        return numbers(self.axis_list)

    @classmethod
    def parse(cls, parser: Parser) -> ScatterOp:
        fn = parse_fn(parser, cls.name, SCATTERS)
        start = parser.pos
        names = [parser.parse_unresolved_operand()]
        parser.parse_punctuation(",")
        names.append(parser.parse_unresolved_operand())
        parser.parse_keyword("at")
        names += parser.parse_comma_separated_list(
            parser.Delimiter.SQUARE, parser.parse_unresolved_operand
        )
        parser.parse_keyword("axes")
        axes = parse_numbers(parser, "an axis of a scatter")
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        at = parser.pos
        types = parser.parse_function_type()
        result = types.outputs.data[0] if len(types.outputs) == 1 else None
        if not isinstance(result, TensorType) or len(types.inputs) != len(names):
            parser.raise_error(
                f"expected the types of {len(names)} operands and one !tiny.tensor result", at
            )
        return cls.create(
            operands=parser.resolve_operands(names, types.inputs.data, start),
            properties={"fn": StringAttr(fn), "axes": numbers_attr(axes)},
            result_types=[result],
            attributes=attributes,
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.function} ")
        printer.print_list([self.operand, self.updates], printer.print_operand)
        printer.print_string(" at [")
        printer.print_list(self.indices, printer.print_operand)
        printer.print_string(f"] axes {numbers_text(self.axes)}")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_function_type([v.type for v in self.operands], [self.result.type])

    def verify_(self) -> None:
        verify_symbols(self)
        source, updates, axes = tensor_of(self.operand), tensor_of(self.updates), self.axes
        if (fault := fn_fault(self.name, self.function, SCATTERS)) is not None:
            raise VerifyException(fault)
        element = source.element_type
        if element != f32 and not is_integer(element):
            raise VerifyException(
                f"a scatter combines in f32 or an integer type; its operand has {element}, add a "
                "tiny.cast"
            )
        need_element("an update of a scatter", self.updates, element)
        need_element("the result of a scatter", self.result, element)
        if not same_shape(source.dims, tensor_of(self.result).dims, self):
            raise VerifyException(
                f"a scatter keeps the shape {shape_text(source.dims)}, and its result says "
                f"{shape_text(tensor_of(self.result).dims)}"
            )
        verify_indices("scatter", source, axes, self.indices)
        kept = list(source.dims)
        for axis in axes:
            kept[axis : axis + 1] = updates.dims[axis : axis + 1]
        if not same_shape(tuple(kept), updates.dims, self):
            raise VerifyException(
                f"a scatter along axes {list(axes)} takes updates with the other sizes of "
                f"{shape_text(source.dims)}, not {shape_text(updates.dims)}"
            )
        verify_index_types(self, "scatter", self.indices, updates.dims, "updates")
