"""Elementwise ops of the ``region`` dialect; see ``polyc.dialects.region``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from xdsl.dialects.builtin import (
    Float32Type,
    IntegerType,
    StringAttr,
)
from xdsl.ir import (
    Attribute,
    Operation,
    SSAValue,
)
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

from polyc.dialects.common.elements import bitcast_fault
from polyc.dialects.region.scope import (
    BINARY_FNS,
    COMPARE_FNS,
    UNARY_FNS,
    OpT,
    check_function,
    parse_fn,
    parse_types,
    print_types,
    same_axes,
    set_type,
)
from polyc.dialects.region.types import (
    ValType,
    val_type,
)

# Elementwise ---------------------------------------------------------------------------


@irdl_op_definition
class UnaryOp(IRDLOperation):
    """``fn`` of each element; operand and result have the same type."""

    name = "region.unary"

    fn = prop_def(StringAttr)
    operand = operand_def(ValType)
    result = result_def(ValType)

    traits = traits_def(Pure())

    def __init__(self, fn: str, operand: SSAValue) -> None:
        super().__init__(
            operands=[operand], properties={"fn": StringAttr(fn)}, result_types=[operand.type]
        )

    def print(self, printer: Printer) -> None:
        _print_elementwise(self, printer, self.fn.data)

    @classmethod
    def parse(cls, parser: Parser) -> UnaryOp:
        fn = parse_fn(parser, UNARY_FNS.names).data
        return _parse_elementwise(parser, 1, lambda ops: cls(fn, ops[0]))

    def verify_(self) -> None:
        check_function(self, self.fn.data, UNARY_FNS)
        _check_equal_types(self, self.operands, self.result.type)


@irdl_op_definition
class BinaryOp(IRDLOperation):
    """``fn`` of the elements at the same point; operands and result have the same type.

    Nothing broadcasts by itself: axes are made equal before, by
    ``region.broadcast_in_dim`` and ``region.transpose`` (S6.3).
    """

    name = "region.binary"

    fn = prop_def(StringAttr)
    lhs = operand_def(ValType)
    rhs = operand_def(ValType)
    result = result_def(ValType)

    traits = traits_def(Pure())

    def __init__(self, fn: str, lhs: SSAValue, rhs: SSAValue) -> None:
        super().__init__(
            operands=[lhs, rhs], properties={"fn": StringAttr(fn)}, result_types=[lhs.type]
        )

    def print(self, printer: Printer) -> None:
        _print_elementwise(self, printer, self.fn.data)

    @classmethod
    def parse(cls, parser: Parser) -> BinaryOp:
        fn = parse_fn(parser, BINARY_FNS.names).data
        return _parse_elementwise(parser, 2, lambda ops: cls(fn, ops[0], ops[1]))

    def verify_(self) -> None:
        check_function(self, self.fn.data, BINARY_FNS)
        _check_equal_types(self, self.operands, self.result.type)


@irdl_op_definition
class CompareOp(IRDLOperation):
    """Whether a relation holds between the elements at the same point, as i1.

    With a NaN every relation but ``ne`` is false.
    """

    name = "region.compare"

    fn = prop_def(StringAttr)
    lhs = operand_def(ValType)
    rhs = operand_def(ValType)
    result = result_def(ValType)

    traits = traits_def(Pure())

    def __init__(self, fn: str, lhs: SSAValue, rhs: SSAValue) -> None:
        super().__init__(
            operands=[lhs, rhs],
            properties={"fn": StringAttr(fn)},
            result_types=[cast(ValType, lhs.type).with_element(IntegerType(1))],
        )

    def print(self, printer: Printer) -> None:
        _print_elementwise(self, printer, self.fn.data)

    @classmethod
    def parse(cls, parser: Parser) -> CompareOp:
        fn = parse_fn(parser, COMPARE_FNS.names).data
        return _parse_elementwise(parser, 2, lambda ops: cls(fn, ops[0], ops[1]))

    def verify_(self) -> None:
        check_function(self, self.fn.data, COMPARE_FNS)
        expected = val_type(self.lhs).with_element(IntegerType(1))
        _check_equal_types(self, self.operands, self.result.type, expected)


@irdl_op_definition
class SelectOp(IRDLOperation):
    """``if_true`` where ``condition`` (i1) holds, else ``if_false``.

    The value that is not chosen has no effect on the result, not even as NaN.
    """

    name = "region.select"

    condition = operand_def(ValType)
    if_true = operand_def(ValType)
    if_false = operand_def(ValType)
    result = result_def(ValType)

    traits = traits_def(Pure())

    def __init__(self, condition: SSAValue, if_true: SSAValue, if_false: SSAValue) -> None:
        super().__init__(operands=[condition, if_true, if_false], result_types=[if_true.type])

    def print(self, printer: Printer) -> None:
        _print_elementwise(self, printer)

    @classmethod
    def parse(cls, parser: Parser) -> SelectOp:
        return _parse_elementwise(parser, 3, lambda ops: cls(ops[0], ops[1], ops[2]))

    def verify_(self) -> None:
        condition = val_type(self.condition)
        if condition.element_type != IntegerType(1):
            raise VerifyException(
                f"the condition of a select is i1, not {condition.element_type}; compare first"
            )
        _check_equal_types(self, self.operands[1:], self.result.type)
        _check_equal_axes(self, condition, val_type(self.result))


@irdl_op_definition
class CastOp(IRDLOperation):
    """Each element in another element type.

    What is rounded, what is cut to integers, what saturates and what wraps is in docs/semantics.md.
    """

    name = "region.cast"

    operand = operand_def(ValType)
    result = result_def(ValType)

    traits = traits_def(Pure())

    def __init__(self, operand: SSAValue, element_type: Attribute) -> None:
        super().__init__(
            operands=[operand],
            result_types=[cast(ValType, operand.type).with_element(element_type)],
        )

    def print(self, printer: Printer) -> None:
        _print_elementwise(self, printer, short=False)

    @classmethod
    def parse(cls, parser: Parser) -> CastOp:
        return _parse_elementwise(parser, 1, lambda ops: cls(ops[0], Float32Type()), short=False)

    def verify_(self) -> None:
        _check_equal_axes(self, val_type(self.operand), val_type(self.result))


@irdl_op_definition
class BitcastOp(IRDLOperation):
    """The bits of each f32 as an i32, or of each i32 as an f32; nothing is converted."""

    name = "region.bitcast"

    operand = operand_def(ValType)
    result = result_def(ValType)

    traits = traits_def(Pure())

    def __init__(self, operand: SSAValue, element_type: Attribute) -> None:
        super().__init__(
            operands=[operand],
            result_types=[cast(ValType, operand.type).with_element(element_type)],
        )

    def print(self, printer: Printer) -> None:
        _print_elementwise(self, printer, short=False)

    @classmethod
    def parse(cls, parser: Parser) -> BitcastOp:
        return _parse_elementwise(parser, 1, lambda ops: cls(ops[0], Float32Type()), short=False)

    def verify_(self) -> None:
        operand, result = val_type(self.operand), val_type(self.result)
        _check_equal_axes(self, operand, result)
        if (fault := bitcast_fault(operand.element_type, result.element_type)) is not None:
            raise VerifyException(fault)


def _print_elementwise(
    op: IRDLOperation, printer: Printer, fn: str | None = None, short: bool = True
) -> None:
    printer.print_string(" " if fn is None else f" {fn} ")
    printer.print_list(op.operands, printer.print_operand)
    printer.print_op_attributes(op.attributes)
    print_types(printer, op.operands, op.results[0].type, short)


def _parse_elementwise(
    parser: Parser,
    count: int,
    build: Callable[[Sequence[SSAValue]], OpT],
    short: bool = True,
) -> OpT:
    pos = parser.pos
    unresolved = parser.parse_comma_separated_list(
        parser.Delimiter.NONE, parser.parse_unresolved_operand
    )
    if len(unresolved) != count:
        parser.raise_error(f"expected {count} operands, got {len(unresolved)}", pos)
    extra = parser.parse_optional_attr_dict()
    pos = parser.pos
    operands, result = parse_types(parser, unresolved, short)
    for found in (*(o.type for o in operands), result):
        if not isinstance(found, ValType):
            parser.raise_error(f"expected a !region.val, got {found}", pos)
    op = build(operands)
    set_type(op, result)
    op.attributes |= extra
    return op


def _check_equal_types(
    op: Operation,
    operands: Sequence[SSAValue],
    result: Attribute,
    expected: ValType | None = None,
) -> None:
    """Operands agree in axes (BroadcastMismatch) and element type; the result follows.

    ``expected`` is the result's type where it is not the operands'.
    """
    types = [val_type(o) for o in operands]
    for other in types[1:]:
        _check_equal_axes(op, types[0], other)
        if other.element_type != types[0].element_type:
            raise VerifyException(
                f"{op.name} has operands of {types[0].element_type} and {other.element_type}; "
                "convert one with region.cast"
            )
    expected = expected or types[0]
    if result != expected:
        raise VerifyException(f"{op.name} of {types[0]} gives {expected}, not {result}")


def _check_equal_axes(op: Operation, a: ValType, b: ValType) -> None:
    if not same_axes(op, a, b):
        raise VerifyException(
            f"BroadcastMismatch: {op.name} has the unlike types {a} and {b}; make their axes "
            "equal with region.broadcast_in_dim or region.transpose"
        )
