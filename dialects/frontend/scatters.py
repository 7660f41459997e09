"""Scatters of ``frontend``: updates of a tensor at places that are data (S2.2).

Each scatter writes where the gather of its name reads, and its updates have the shape of what that
gives.  Updates of one element are combined in their order, the last axis fastest: the last one
stays of ``set``.  One whose index is outside of its axis is left out; with ``trap`` that is a fault
of the program, which playback and a debug build report (docs/semantics.md).
"""

from __future__ import annotations

from abc import ABC
from typing import ClassVar, Self

from xdsl.dialects.builtin import IntegerAttr, StringAttr, UnitAttr, i1, i64
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

from polyc.dialects.common.dim import parse_constant, shape_text
from polyc.dialects.common.elements import is_integer
from polyc.dialects.common.gathers import SCATTERS
from polyc.dialects.common.signature import same_shape, verify_symbols
from polyc.dialects.frontend.gathers import GatherBase, GatherElementsOp, GatherNdOp, GatherOp
from polyc.dialects.frontend.types import (
    TensorType,
    need_element,
    need_shape,
    parse_typed,
    parse_values,
    print_typed,
    tensor_of,
)


class ScatterBase(IRDLOperation, ABC):
    """A scatter: a tensor, indices of an integer type, and updates."""

    fn = prop_def(StringAttr)
    operand = operand_def(TensorType)
    indices = operand_def(TensorType)
    updates = operand_def(TensorType)
    number_attr = prop_def(IntegerAttr, prop_name="axis")
    from_end = opt_prop_def(UnitAttr)
    trap = opt_prop_def(UnitAttr)
    result = result_def(TensorType)
    traits = traits_def(Pure())

    GATHER: ClassVar[type[GatherBase]]
    """The gather that reads where the scatter writes."""

    def __init__(
        self,
        fn: str,
        operand: SSAValue,
        indices: SSAValue,
        updates: SSAValue,
        number: int,
        *,
        from_end: bool = False,
        trap: bool = False,
    ) -> None:
        """``number`` is the axis, or how many axes are a batch."""
        super().__init__(
            operands=[operand, indices, updates],
            properties={
                "fn": StringAttr(fn),
                "axis": IntegerAttr(number, i64),
                "from_end": UnitAttr() if from_end else None,
                "trap": UnitAttr() if trap else None,
            },
            result_types=[operand.type],
        )

    @property
    def function(self) -> str:
        """``set``, ``add``, ``mul``, ``max`` or ``min``."""
        return self.fn.data

    @property
    def number(self) -> int:
        """The axis, or how many axes are a batch."""
        return self.number_attr.value.data

    @property
    def counts_from_end(self) -> bool:
        """Whether a negative index counts from the end."""
        return self.from_end is not None

    @classmethod
    def function_fault(cls, fn: str) -> str | None:
        """What is wrong with the name of a function, as a sentence, or None."""
        if fn in SCATTERS:
            return None
        return f"{fn} is no function of a scatter; there are {', '.join(SCATTERS)}"

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        start = parser.pos
        fn = parser.parse_identifier("the function of a scatter")
        if (fault := cls.function_fault(fn)) is not None:
            parser.raise_error(fault, start, parser.pos)
        unresolved = parse_values(parser)
        parser.parse_keyword(cls.GATHER.WORD)
        number = parse_constant(parser, f"the {cls.GATHER.WORD} of a scatter")
        properties: dict[str, Attribute] = {
            "fn": StringAttr(fn),
            "axis": IntegerAttr(number, i64),
        }
        for word in ("from_end", "trap"):
            if parser.parse_optional_keyword(word) is not None:
                properties[word] = UnitAttr()
        args, results, attributes = parse_typed(parser, unresolved)
        return cls.create(
            operands=args, result_types=results, properties=properties, attributes=attributes
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.function} ")
        printer.print_list(self.operands, printer.print_operand)
        printer.print_string(f" {self.GATHER.WORD} {self.number}")
        for word in ("from_end", "trap"):
            if word in self.properties:
                printer.print_string(f" {word}")
        print_typed(printer, self, {})

    def verify_(self) -> None:
        verify_symbols(self)
        what = self.name.split(".")[1]
        source, indices, updates = (tensor_of(v) for v in self.operands)
        if (fault := self.function_fault(self.function)) is not None:
            raise VerifyException(fault)
        if source.element_type == i1 and self.function != "set":
            raise VerifyException(f"a {what} of i1 is set, not {self.function}; use a cast")
        if not is_integer(indices.element_type):
            raise VerifyException(
                f"the indices of a {what} are of an integer type, not {indices.element_type}; add "
                "a frontend.cast"
            )
        need_element(f"an update of a {what}", self.updates, source.element_type)
        need_element(f"the result of a {what}", self.result, source.element_type)
        need_shape(self, f"the result of a {what}", self.result, source.dims)
        if (fault := self.GATHER.fault(source.dims, indices.dims, self.number)) is not None:
            raise VerifyException(fault.replace("gather", "scatter"))
        expected = self.GATHER.shape(source.dims, indices.dims, self.number)
        if not same_shape(expected, updates.dims, self):
            raise VerifyException(
                f"a {what} into {shape_text(source.dims)} at {shape_text(indices.dims)} takes "
                f"updates {shape_text(expected)}, not {shape_text(updates.dims)}"
            )
        self.GATHER.verify_sizes(self, source.dims, indices.dims, self.number)


@irdl_op_definition
class ScatterOp(ScatterBase):
    """Updates of what lies at indices along an axis: rows of a table, ``torch.index_add``.

    ``frontend.scatter add %x, %i, %u axis 0 : ([V, D], [N], [N, D]) -> [V, D]``: ``x[i[n], d]``
    becomes larger by ``u[n, d]``.
    """

    name = "frontend.scatter"
    GATHER: ClassVar[type[GatherBase]] = GatherOp


@irdl_op_definition
class ScatterElementsOp(ScatterBase):
    """An index along an axis for each update: ``torch.scatter_reduce``, ONNX's ScatterElements.

    ``frontend.scatter_elements set %x, %i, %u axis 1 : ([A, B], [A, J], [A, J]) -> [A, B]``:
    ``x[a, i[a, j]]`` becomes ``u[a, j]``.
    """

    name = "frontend.scatter_elements"
    GATHER: ClassVar[type[GatherBase]] = GatherElementsOp


@irdl_op_definition
class ScatterNdOp(ScatterBase):
    """Updates of elements or blocks at tuples of indices: ONNX's ScatterND.

    ``frontend.scatter_nd max %x, %i, %u batch 0 : ([A, B, C], [I, 2], [I, C]) -> [A, B, C]``:
    ``x[i[n, 0], i[n, 1], c]`` becomes ``u[n, c]`` where that is larger.
    """

    name = "frontend.scatter_nd"
    GATHER: ClassVar[type[GatherBase]] = GatherNdOp
