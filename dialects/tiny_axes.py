"""The ops of ``tiny`` that change axes: expand, permute, reduce; see ``polyc.dialects.tiny``."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import cast

from xdsl.dialects.builtin import DenseArrayBase, IntegerType, StringAttr, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.dim import shape_text
from polyc.dialects.signature import same_shape, same_size, verify_symbols
from polyc.dialects.tiny_types import (
    TensorType,
    fn_fault,
    need_f32,
    parse_fn,
    parse_tensor,
    tensor,
    tensor_of,
)

REDUCTIONS = ("max", "min", "sum")
"""Functions of ``tiny.reduce``."""


def _numbers(values: DenseArrayBase) -> tuple[int, ...]:
    return cast("DenseArrayBase[IntegerType]", values).get_values()


def _parse_moved(
    parser: Parser, keyword: str
) -> tuple[tuple[SSAValue, list[int], TensorType], dict[str, Attribute]]:
    """Parse ``%x keyword [0, 1] attr-dict? : type -> type``; the operand, numbers and type."""
    unresolved = parser.parse_unresolved_operand()
    parser.parse_keyword(keyword)
    numbers = parser.parse_comma_separated_list(
        parser.Delimiter.SQUARE, lambda: parser.parse_integer(allow_boolean=False)
    )
    attributes = parser.parse_optional_attr_dict()
    parser.parse_punctuation(":")
    operand_type = parse_tensor(parser)
    parser.parse_punctuation("->")
    result_type = parse_tensor(parser)
    operand = parser.resolve_operand(unresolved, operand_type)
    return (operand, numbers, result_type), attributes


def _print_moved(
    printer: Printer, op: IRDLOperation, head: str, keyword: str, numbers: Sequence[int]
) -> None:
    operand, result = op.operands[0], op.results[0]
    printer.print_string(f" {head} " if head else " ")
    printer.print_operand(operand)
    printer.print_string(f" {keyword} [{', '.join(map(str, numbers))}]")
    printer.print_op_attributes(op.attributes)
    printer.print_string(" : ")
    printer.print_attribute(operand.type)
    printer.print_string(" -> ")
    printer.print_attribute(result.type)


def _keeps_element(op: IRDLOperation, what: str) -> tuple[TensorType, TensorType]:
    """The operand's and the result's type of a movement; they have one element type."""
    operand, result = tensor_of(op.operands[0]), tensor_of(op.results[0])
    if operand.element_type != result.element_type:
        raise VerifyException(
            f"{what} keeps the element type; the operand has {operand.element_type}, the "
            f"result {result.element_type}"
        )
    return operand, result


@irdl_op_definition
class ExpandOp(IRDLOperation):
    """Broadcast into a larger shape, each axis named (S3.2).

    ``tiny.expand %x dims [0, 1] : [M, K] -> [M, K, N]``: operand axis ``i`` becomes result
    axis ``dimensions[i]``, in increasing order; along every other result axis the value
    repeats.  An operand axis of the constant size 1 may become an axis of any size, along
    which the value repeats too; other axes keep their size.
    """

    name = "tiny.expand"
    operand = operand_def(TensorType)
    dimensions = prop_def(DenseArrayBase)
    result = result_def(TensorType)
    traits = traits_def(Pure())

    def __init__(
        self, operand: SSAValue, dimensions: Sequence[int], result_type: TensorType
    ) -> None:
        super().__init__(
            operands=[operand],
            result_types=[result_type],
            properties={"dimensions": DenseArrayBase.from_list(i64, dimensions)},
        )

    @property
    def dims(self) -> tuple[int, ...]:
        """The result axis of each operand axis."""
        return _numbers(self.dimensions)

    def stretched(self) -> tuple[int, ...]:
        """Result axes along which a size-1 operand axis repeats."""
        operand, result = tensor_of(self.operand), tensor_of(self.result)
        return tuple(
            axis
            for size, axis in zip(operand.dims, self.dims, strict=True)
            if size.constant() == 1 and result.dims[axis].constant() != 1
        )

    def verify_(self) -> None:
        verify_symbols(self)
        operand, result = _keeps_element(self, "expand")
        dims = self.dims
        if len(dims) != operand.rank:
            raise VerifyException(
                f"expand names {len(dims)} dimensions for an operand of rank {operand.rank}; "
                "name one for each operand axis"
            )
        if any(not 0 <= d < result.rank for d in dims):
            raise VerifyException(
                f"dims {list(dims)} of an expand point outside the result's axes, which are "
                f"0 to {result.rank - 1}"
            )
        if any(a >= b for a, b in pairwise(dims)):
            raise VerifyException(
                f"dims {list(dims)} of an expand do not increase; put a tiny.permute before it"
            )
        for i, d in enumerate(dims):
            size, wanted = operand.dims[i], result.dims[d]
            if size.constant() != 1 and not same_size(size, wanted, self):
                raise VerifyException(
                    f"BroadcastMismatch: expand maps axis {i} of size {size} to axis {d} of "
                    f"size {wanted}, from {shape_text(operand.dims)} to "
                    f"{shape_text(result.dims)}; the sizes are equal or the operand's is 1"
                )

    @classmethod
    def parse(cls, parser: Parser) -> ExpandOp:
        moved, attributes = _parse_moved(parser, "dims")
        op = cls(*moved)
        op.attributes |= attributes
        return op

    def print(self, printer: Printer) -> None:
        _print_moved(printer, self, "", "dims", self.dims)


@irdl_op_definition
class PermuteOp(IRDLOperation):
    """Reordering of axes: result axis ``i`` is operand axis ``permutation[i]`` (S3.1).

    ``tiny.permute %x perm [1, 0] : [K, M] -> [M, K]``.
    """

    name = "tiny.permute"
    operand = operand_def(TensorType)
    permutation = prop_def(DenseArrayBase)
    result = result_def(TensorType)
    traits = traits_def(Pure())

    def __init__(
        self,
        operand: SSAValue,
        permutation: Sequence[int],
        result_type: TensorType | None = None,
    ) -> None:
        if result_type is None:
            t = tensor_of(operand)
            result_type = tensor([t.dims[p] for p in permutation], t.element_type)
        super().__init__(
            operands=[operand],
            result_types=[result_type],
            properties={"permutation": DenseArrayBase.from_list(i64, permutation)},
        )

    @property
    def perm(self) -> tuple[int, ...]:
        """The operand axis of each result axis."""
        return _numbers(self.permutation)

    def verify_(self) -> None:
        verify_symbols(self)
        operand, result = _keeps_element(self, "permute")
        perm = self.perm
        if sorted(perm) != list(range(operand.rank)):
            raise VerifyException(
                f"perm {list(perm)} is not an order of the {operand.rank} axes of "
                f"{shape_text(operand.dims)}"
            )
        expected = tuple(operand.dims[p] for p in perm)
        if not same_shape(expected, result.dims, self):
            raise VerifyException(
                f"{shape_text(operand.dims)} in the order {list(perm)} is "
                f"{shape_text(expected)}; the result says {shape_text(result.dims)}"
            )

    @classmethod
    def parse(cls, parser: Parser) -> PermuteOp:
        moved, attributes = _parse_moved(parser, "perm")
        op = cls(*moved)
        op.attributes |= attributes
        return op

    def print(self, printer: Printer) -> None:
        _print_moved(printer, self, "", "perm", self.perm)


@irdl_op_definition
class ReduceOp(IRDLOperation):
    """Sum, max or min over axes, which leave the shape; the others keep their order (S3.1).

    ``tiny.reduce sum %x axes [1] : [M, K, N] -> [M, N]``.  Over nothing a sum is 0, a max
    -inf, a min +inf.  The order of a sum is not defined.
    """

    name = "tiny.reduce"
    fn = prop_def(StringAttr)
    operand = operand_def(TensorType)
    axis_list = prop_def(DenseArrayBase, prop_name="axes")
    result = result_def(TensorType)
    traits = traits_def(Pure())

    def __init__(
        self,
        fn: str,
        operand: SSAValue,
        axes: Sequence[int],
        result_type: TensorType | None = None,
    ) -> None:
        if result_type is None:
            t = tensor_of(operand)
            kept = [d for i, d in enumerate(t.dims) if i not in axes]
            result_type = tensor(kept, t.element_type)
        super().__init__(
            operands=[operand],
            result_types=[result_type],
            properties={"fn": StringAttr(fn), "axes": DenseArrayBase.from_list(i64, axes)},
        )

    @property
    def function(self) -> str:
        return self.fn.data

    @property
    def axes(self) -> tuple[int, ...]:
        """The reduced operand axes, increasing."""
        return _numbers(self.axis_list)

    def verify_(self) -> None:
        verify_symbols(self)
        if (fault := fn_fault(self.name, self.function, REDUCTIONS)) is not None:
            raise VerifyException(fault)
        need_f32(self.function, (self.operand,))
        operand, result = _keeps_element(self, "reduce")
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
        moved, attributes = _parse_moved(parser, "axes")
        op = cls(fn, *moved)
        op.attributes |= attributes
        return op

    def print(self, printer: Printer) -> None:
        _print_moved(printer, self, self.function, "axes", self.axes)
