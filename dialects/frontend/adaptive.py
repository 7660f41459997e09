"""Adaptive pooling of ``frontend``: as many windows as are asked for, of nearly one size (S2.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.common.dim import Dim, Shape
from polyc.dialects.common.movements import numbers_attr, numbers_text, parse_numbers
from polyc.dialects.frontend.pooling import PooledOp
from polyc.dialects.frontend.types import (
    parse_typed,
    print_typed,
    tensor,
    tensor_of,
)

ADAPTIVE = ("max", "mean", "min", "sum")
"""Functions of ``frontend.adaptive_pool``."""


@irdl_op_definition
class AdaptivePoolOp(PooledOp):
    """A function of the elements of as many windows along each axis as the result has (S2.2).

    ``frontend.adaptive_pool mean %x axes [2, 3] : [N, C, 50, 30] -> [N, C, 7, 5]``: of an axis of
    ``size`` elements and ``count`` windows, window ``i`` has those from ``i * size floordiv count``
    on and before ``((i + 1) * size) ceildiv count``, as PyTorch has it.  Windows of an axis have
    one or two sizes, and neighbours may share an element.  Both sizes of each axis are numbers, and
    the operand has an element there.
    """

    name = "frontend.adaptive_pool"
    FUNCTIONS: ClassVar[tuple[str, ...]] = ADAPTIVE

    def __init__(
        self, fn: str, operand: SSAValue, axes: Sequence[int], counts: Sequence[int]
    ) -> None:
        """``counts`` are the windows along each of ``axes``."""
        kind = tensor_of(operand)
        dims = list(kind.dims)
        for axis, count in zip(axes, counts, strict=True):
            dims[axis] = Dim.const(count)
        super().__init__(
            operands=[operand],
            result_types=[tensor(tuple(dims), kind.element_type)],
            properties={"fn": StringAttr(fn), "axes": numbers_attr(axes)},
        )

    @property
    def windows(self) -> list[tuple[int, int]]:
        """Of each of ``axes`` its size and the number of its windows, which are known."""
        whole, found = tensor_of(self.operand).dims, tensor_of(self.result).dims
        return [(whole[a].constant() or 0, found[a].constant() or 0) for a in self.axes]

    def result_shape(self) -> Shape:
        found = tensor_of(self.result).dims
        return tuple(
            found[i] if i in self.axes and i < len(found) else dim
            for i, dim in enumerate(tensor_of(self.operand).dims)
        )

    def verify_(self) -> None:
        self.verify_function()
        super().verify_()
        whole, found = tensor_of(self.operand).dims, tensor_of(self.result).dims
        for axis in self.axes:
            size, count = whole[axis], found[axis]
            if size.constant() is None or count.constant() is None:
                raise VerifyException(
                    f"adaptive_pool makes {count} windows of axis {axis}, whose size is {size}; "
                    "give numbers for both, or reshape an axis whose windows are alike"
                )
            if size.constant() == 0 and count.constant() != 0:
                raise VerifyException(
                    f"adaptive_pool makes {count} windows of axis {axis}, which has no element; "
                    "give it one"
                )

    @classmethod
    def parse(cls, parser: Parser) -> AdaptivePoolOp:
        fn = cls.parse_function(parser)
        unresolved = [parser.parse_unresolved_operand()]
        parser.parse_keyword("axes")
        axes = numbers_attr(parse_numbers(parser, "an axis of a pool"))
        properties: dict[str, Attribute] = {"fn": fn, "axes": axes}
        args, results, attributes = parse_typed(parser, unresolved)
        return cls.create(
            operands=args, result_types=results, properties=properties, attributes=attributes
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.function} ")
        printer.print_operand(self.operand)
        printer.print_string(f" axes {numbers_text(self.axes)}")
        print_typed(printer, self, {})
