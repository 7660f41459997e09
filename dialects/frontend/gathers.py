"""Gathers of ``frontend``: elements at places that are data (S2.2).

An index counts from 0, and with ``from_end`` a negative one from the end, -1 being the last.  One
outside of its axis reads the nearest element with ``clamp``, and a number with ``fill 0.0``; of a
tensor without elements it reads 0, or the fill.  With ``trap`` it is a fault of the program, which
playback and a debug build report (docs/semantics.md).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Self

from xdsl.dialects.builtin import IntegerAttr, UnitAttr, i64
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

from polyc.dialects.common.dim import Shape, parse_constant, shape_text
from polyc.dialects.common.elements import Number, computed, is_integer
from polyc.dialects.common.gathers import (
    fill_number,
    outside,
    outside_of,
    parse_outside,
    print_outside,
    verify_fill,
)
from polyc.dialects.common.numbers import PlainAttr
from polyc.dialects.common.signature import same_shape, same_size, verify_symbols
from polyc.dialects.common.sizes import never_negative
from polyc.dialects.frontend.types import (
    TensorType,
    need_element,
    parse_typed,
    parse_values,
    print_typed,
    tensor,
    tensor_of,
)


class GatherBase(IRDLOperation, ABC):
    """A gather: a tensor, indices of an integer type, and what an index outside of it reads."""

    operand = operand_def(TensorType)
    indices = operand_def(TensorType)
    number_attr = prop_def(IntegerAttr, prop_name="axis")
    from_end = opt_prop_def(UnitAttr)
    fill = opt_prop_def(PlainAttr, prop_name="value")
    trap = opt_prop_def(UnitAttr)
    result = result_def(TensorType)
    traits = traits_def(Pure())

    WORD: ClassVar[str]
    """The number that the op has in its text: its ``axis``, or how many axes are a ``batch``."""

    def __init__(
        self,
        operand: SSAValue,
        indices: SSAValue,
        number: int,
        fill: Number | None = None,
        *,
        from_end: bool = False,
        trap: bool = False,
    ) -> None:
        """``number`` is the axis, or how many axes are a batch; ``fill`` None clamps."""
        source = tensor_of(operand)
        shape = self.shape(source.dims, tensor_of(indices).dims, number)
        super().__init__(
            operands=[operand, indices],
            properties={
                "axis": IntegerAttr(number, i64),
                "from_end": UnitAttr() if from_end else None,
                "value": outside(fill, source.element_type),
                "trap": UnitAttr() if trap else None,
            },
            result_types=[tensor(shape, source.element_type)],
        )

    @property
    def number(self) -> int:
        """The axis, or how many axes are a batch."""
        return self.number_attr.value.data

    @property
    def outside(self) -> Number | None:
        """What is outside; None where places are clamped."""
        return fill_number(self)

    @property
    def counts_from_end(self) -> bool:
        """Whether a negative index counts from the end."""
        return self.from_end is not None

    @classmethod
    @abstractmethod
    def shape(cls, operand: Shape, indices: Shape, number: int) -> Shape:
        """The shape of the result."""

    @classmethod
    @abstractmethod
    def fault(cls, operand: Shape, indices: Shape, number: int) -> str | None:
        """What is wrong with the ranks and the number, as a sentence, or None."""

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        unresolved = parse_values(parser)
        parser.parse_keyword(cls.WORD)
        number = parse_constant(parser, f"the {cls.WORD} of a gather")
        properties: dict[str, Attribute] = {"axis": IntegerAttr(number, i64)}
        if parser.parse_optional_keyword("from_end") is not None:
            properties["from_end"] = UnitAttr()
        fill = parse_outside(parser)
        if parser.parse_optional_keyword("trap") is not None:
            properties["trap"] = UnitAttr()
        args, results, attributes = parse_typed(parser, unresolved)
        fill = outside_of(fill, computed(results[0].element_type))
        if fill is not None:
            properties["value"] = fill
        return cls.create(
            operands=args, result_types=results, properties=properties, attributes=attributes
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.operands, printer.print_operand)
        printer.print_string(f" {self.WORD} {self.number}")
        if self.from_end is not None:
            printer.print_string(" from_end")
        print_outside(printer, self.fill)
        if self.trap is not None:
            printer.print_string(" trap")
        print_typed(printer, self, {})

    def verify_(self) -> None:
        verify_symbols(self)
        source, indices, result = (tensor_of(v) for v in (*self.operands, self.result))
        what = self.name.split(".")[1]
        if not is_integer(indices.element_type):
            raise VerifyException(
                f"the indices of a {what} are of an integer type, not {indices.element_type}; add "
                "a frontend.cast"
            )
        need_element(f"the result of a {what}", self.result, source.element_type)
        if (fault := self.fault(source.dims, indices.dims, self.number)) is not None:
            raise VerifyException(fault)
        expected = self.shape(source.dims, indices.dims, self.number)
        if not same_shape(expected, result.dims, self):
            raise VerifyException(
                f"a {what} of {shape_text(source.dims)} at {shape_text(indices.dims)} is "
                f"{shape_text(expected)}; the result says {shape_text(result.dims)}"
            )
        self.verify_sizes(self, source.dims, indices.dims, self.number)
        verify_fill(f"a {what}", self, computed(source.element_type))

    @classmethod
    def verify_sizes(cls, at: IRDLOperation, operand: Shape, indices: Shape, number: int) -> None:
        """Check sizes that have to be equal, or not larger, at an op; raises VerifyException."""


def _axis_fault(what: str, operand: Shape, axis: int) -> str | None:
    if 0 <= axis < len(operand):
        return None
    if not operand:
        return f"a {what} is along an axis of its operand, and [] has none; reshape it to [1]"
    return (
        f"axis {axis} of a {what} is not an axis of {shape_text(operand)}, which are 0 to "
        f"{len(operand) - 1}"
    )


@irdl_op_definition
class GatherOp(GatherBase):
    """What lies at indices along an axis: rows of a table, ``numpy.take``, ONNX's Gather.

    ``frontend.gather %x, %i axis 1 clamp : ([A, B, C], [I, J]) -> [A, I, J, C]``: element
    ``(a, i, j, c)`` is ``x[a, indices[i, j], c]``.
    """

    name = "frontend.gather"
    WORD: ClassVar[str] = "axis"

    @classmethod
    def shape(cls, operand: Shape, indices: Shape, number: int) -> Shape:
        return (*operand[:number], *indices, *operand[number + 1 :])

    @classmethod
    def fault(cls, operand: Shape, indices: Shape, number: int) -> str | None:
        return _axis_fault("gather", operand, number)


@irdl_op_definition
class GatherElementsOp(GatherBase):
    """An index along an axis for each element: ``torch.gather``, ONNX's GatherElements.

    ``frontend.gather_elements %x, %i axis 1 clamp : ([A, B], [A, J]) -> [A, J]``: element
    ``(a, j)`` is ``x[a, indices[a, j]]``.  Other axes have no more indices than elements.
    """

    name = "frontend.gather_elements"
    WORD: ClassVar[str] = "axis"

    @classmethod
    def shape(cls, operand: Shape, indices: Shape, number: int) -> Shape:
        return indices

    @classmethod
    def fault(cls, operand: Shape, indices: Shape, number: int) -> str | None:
        if len(operand) != len(indices):
            return (
                f"a gather_elements of {shape_text(operand)} has indices of its rank, not "
                f"{shape_text(indices)}"
            )
        return _axis_fault("gather_elements", operand, number)

    @classmethod
    def verify_sizes(cls, at: IRDLOperation, operand: Shape, indices: Shape, number: int) -> None:
        for axis, (size, count) in enumerate(zip(operand, indices, strict=True)):
            fits = axis == number or same_size(size, count, at)
            if not fits and not never_negative(size - count, at):
                raise VerifyException(
                    f"a {at.name.split('.')[1]} along axis {number} has {count} indices along axis "
                    f"{axis}, where the operand has {size}; slice the indices, or assume it"
                )


@irdl_op_definition
class GatherNdOp(GatherBase):
    """Elements or blocks at tuples of indices: ONNX's GatherND.

    ``frontend.gather_nd %x, %i batch 0 clamp : ([A, B, C], [I, 2]) -> [I, C]``: element ``(i, c)``
    is ``x[indices[i, 0], indices[i, 1], c]``.  The last axis of the indices has one for each of
    the operand's axes from the first; the first ``batch`` axes are the same in both.
    """

    name = "frontend.gather_nd"
    WORD: ClassVar[str] = "batch"

    @classmethod
    def shape(cls, operand: Shape, indices: Shape, number: int) -> Shape:
        count = indices[-1].constant()
        assert count is not None, "a verified gather_nd knows how many indices a tuple has"
        return (*indices[:-1], *operand[number + count :])

    @classmethod
    def fault(cls, operand: Shape, indices: Shape, number: int) -> str | None:
        count = indices[-1].constant() if indices else None
        if count is None or count < 1:
            return (
                "the last axis of the indices of a gather_nd has a known number of indices, 1 or "
                f"more, and they are {shape_text(indices)}"
            )
        if not 0 <= number < len(indices):
            return (
                f"a gather_nd at {shape_text(indices)} has 0 to {len(indices) - 1} batch axes, not "
                f"{number}; the last axis is that of the tuples"
            )
        if number + count > len(operand):
            return (
                f"a gather_nd of {shape_text(operand)} with {number} batch axes has up to "
                f"{max(0, len(operand) - number)} indices a tuple, behind these axes; they are "
                f"{shape_text(indices)}"
            )
        return None

    @classmethod
    def verify_sizes(cls, at: IRDLOperation, operand: Shape, indices: Shape, number: int) -> None:
        for axis in range(number):
            if not same_size(operand[axis], indices[axis], at):
                what = at.name.split(".")[1]
                raise VerifyException(
                    f"batch axis {axis} of a {what} has {operand[axis]} elements and "
                    f"{indices[axis]} indices; it is the same in both"
                )
