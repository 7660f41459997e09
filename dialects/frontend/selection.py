"""Ops of ``frontend`` that ask where elements stand: places of extremes, and sorts (S2.2).

Numbers are ordered as PyTorch orders them: NaN is above all else, and zeros of either sign are one
number.  What is equal keeps the order in which it stands.
"""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import IntegerAttr, IntegerType, StringAttr, UnitAttr, i32, i64
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

from polyc.dialects.common.dim import Dim, shape_text
from polyc.dialects.common.signature import same_shape, same_size, verify_symbols
from polyc.dialects.common.sizes import inferred, never_negative
from polyc.dialects.frontend.reductions import reduced_shape
from polyc.dialects.frontend.types import (
    TensorType,
    need_element,
    need_number,
    need_shape,
    parse_typed,
    print_typed,
    tensor,
    tensor_of,
)

PLACES = (i64, i32)
"""The types that places along an axis have."""

EXTREMES = ("max", "min")
"""Functions of ``frontend.arg_reduce``."""


def need_places(what: str, value: SSAValue) -> None:
    """Check that places are of a type of ``PLACES``; raises VerifyException."""
    element = tensor_of(value).element_type
    if element not in PLACES:
        raise VerifyException(f"{what} has places of i64 or i32, not of {element}; cast them")


def _need_axis(what: str, axis: int, value: SSAValue) -> None:
    dims = tensor_of(value).dims
    if not 0 <= axis < len(dims):
        raise VerifyException(
            f"axis {axis} of {what} is none of {shape_text(dims)}, which has 0 to {len(dims) - 1}"
        )


@irdl_op_definition
class ArgReduceOp(IRDLOperation):
    """Where along an axis the largest or smallest element is, the first of equal ones (S2.2).

    ``frontend.arg_reduce max %x axis 1 : type -> type``, with ``keepdims`` the axis stays with size
    1, with ``last`` it is the last of equal ones.  NaN is above all for a max and below all for a
    min.  Places are i64 or i32; over nothing, where a size is open, there is none, and it is -1.
    """

    name = "frontend.arg_reduce"
    fn = prop_def(StringAttr)
    operand = operand_def(TensorType)
    axis_attr = prop_def(IntegerAttr[IntegerType], prop_name="axis")
    keepdims = opt_prop_def(UnitAttr)
    last = opt_prop_def(UnitAttr)
    result = result_def(TensorType)
    traits = traits_def(Pure())

    def __init__(
        self,
        fn: str,
        operand: SSAValue,
        axis: int,
        *,
        keepdims: bool = False,
        last: bool = False,
        element: Attribute = i64,
    ) -> None:
        dims = tensor_of(operand).dims
        shape = inferred(lambda: reduced_shape(dims, [axis], keepdims))
        super().__init__(
            operands=[operand],
            result_types=[tensor(shape, element)],
            properties={
                "fn": StringAttr(fn),
                "axis": IntegerAttr(axis, i64),
                "keepdims": UnitAttr() if keepdims else None,
                "last": UnitAttr() if last else None,
            },
        )

    @property
    def function(self) -> str:
        return self.fn.data

    @property
    def axis(self) -> int:
        """The axis of which a place is asked."""
        return self.axis_attr.value.data

    @staticmethod
    def fault(fn: str) -> str | None:
        """What is wrong with a function's name, or None."""
        if fn in EXTREMES:
            return None
        return f"{fn} is not a function of frontend.arg_reduce; there are {', '.join(EXTREMES)}"

    def verify_(self) -> None:
        verify_symbols(self)
        if (fault := self.fault(self.function)) is not None:
            raise VerifyException(fault)
        what = f"arg{self.function}"
        need_number(what, (self.operand,))
        _need_axis(f"an {what}", self.axis, self.operand)
        dims = tensor_of(self.operand).dims
        if dims[self.axis].constant() == 0:
            raise VerifyException(
                f"{what} of {shape_text(dims)} over axis {self.axis} asks for a place among no "
                "elements; give the axis one or more"
            )
        shape = reduced_shape(dims, [self.axis], self.keepdims is not None)
        need_shape(self, f"the result of this {what}", self.result, shape)
        need_places(f"an {what}", self.result)

    @classmethod
    def parse(cls, parser: Parser) -> ArgReduceOp:
        start = parser.pos
        fn = parser.parse_identifier("max or min")
        if (fault := cls.fault(fn)) is not None:
            parser.raise_error(fault, start, parser.pos)
        unresolved = [parser.parse_unresolved_operand()]
        properties: dict[str, Attribute] = {"fn": StringAttr(fn), "axis": _parse_axis(parser)}
        for word in ("keepdims", "last"):
            if parser.parse_optional_keyword(word) is not None:
                properties[word] = UnitAttr()
        args, results, attributes = parse_typed(parser, unresolved)
        return cls.create(
            operands=args, result_types=results, properties=properties, attributes=attributes
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.function} ")
        printer.print_operand(self.operand)
        printer.print_string(f" axis {self.axis}")
        for word in ("keepdims", "last"):
            if word in self.properties:
                printer.print_string(f" {word}")
        print_typed(printer, self, {})


@irdl_op_definition
class SortOp(IRDLOperation):
    """The elements along an axis in their order, and where each of them stood (S2.2).

    ``frontend.sort %x axis 1 : (type) -> (type, type)``, with ``descending`` the largest first.
    The results have the axis whole, or a number of its first elements: the ``k`` largest or
    smallest.  What is equal keeps its order either way, and NaN is above all.  Places are i64 or
    i32.
    """

    name = "frontend.sort"
    operand = operand_def(TensorType)
    axis_attr = prop_def(IntegerAttr[IntegerType], prop_name="axis")
    descending = opt_prop_def(UnitAttr)
    values = result_def(TensorType)
    places = result_def(TensorType)
    traits = traits_def(Pure())

    def __init__(
        self,
        operand: SSAValue,
        axis: int,
        first: Dim | None = None,
        *,
        descending: bool = False,
        element: Attribute = i64,
    ) -> None:
        """All elements, or the ``first`` ones in that order."""
        kind = tensor_of(operand)
        dims = [first if i == axis and first is not None else d for i, d in enumerate(kind.dims)]
        super().__init__(
            operands=[operand],
            result_types=[tensor(dims, kind.element_type), tensor(dims, element)],
            properties={
                "axis": IntegerAttr(axis, i64),
                "descending": UnitAttr() if descending else None,
            },
        )

    @property
    def axis(self) -> int:
        """The axis that is sorted."""
        return self.axis_attr.value.data

    @property
    def first(self) -> Dim:
        """How many elements the results have of the axis."""
        return tensor_of(self.values).dims[self.axis]

    def verify_(self) -> None:
        verify_symbols(self)
        need_number("a sort", (self.operand,))
        _need_axis("a sort", self.axis, self.operand)
        operand, result = tensor_of(self.operand), tensor_of(self.values)
        need_element("what a sort gives", self.values, operand.element_type)
        apart = [d for i, d in enumerate(operand.dims) if i != self.axis]
        found = [d for i, d in enumerate(result.dims) if i != self.axis]
        if result.rank != operand.rank or not same_shape(tuple(apart), tuple(found), self):
            raise VerifyException(
                f"{shape_text(operand.dims)} sorted along axis {self.axis} is not "
                f"{shape_text(result.dims)}: the other axes stay as they are"
            )
        size, first = operand.dims[self.axis], self.first
        if not same_size(size, first, self):
            if first.constant() is None:
                raise VerifyException(
                    f"a sort gives all {size} elements or a number of them, not {first}"
                )
            if not never_negative(size - first, self):
                raise VerifyException(
                    f"a sort gives {first} elements of {size}, which may be fewer; assume {size} "
                    f">= {first}"
                )
        need_shape(self, "where elements of this sort stood", self.places, result.dims)
        need_places("a sort", self.places)

    @classmethod
    def parse(cls, parser: Parser) -> SortOp:
        unresolved = [parser.parse_unresolved_operand()]
        properties: dict[str, Attribute] = {"axis": _parse_axis(parser)}
        if parser.parse_optional_keyword("descending") is not None:
            properties["descending"] = UnitAttr()
        at = parser.pos
        args, results, attributes = parse_typed(parser, unresolved)
        if len(results) != 2:
            parser.raise_error(f"a sort gives elements and their places, not {len(results)}", at)
        return cls.create(
            operands=args, result_types=results, properties=properties, attributes=attributes
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.operand)
        printer.print_string(f" axis {self.axis}")
        if self.descending is not None:
            printer.print_string(" descending")
        print_typed(printer, self, {})


def _parse_axis(parser: Parser) -> Attribute:
    parser.parse_keyword("axis")
    return IntegerAttr(parser.parse_integer(allow_boolean=False), cast("IntegerType", i64))
