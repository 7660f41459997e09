"""The type ``!frontend.tensor``, broadcasting, and how the ops of ``frontend`` are written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import AnyFloat, Float32Type, i1
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import IRDLOperation, irdl_attr_definition
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.common.dim import Dim, Shape, ShapeAttr, shape_text
from polyc.dialects.common.elements import ELEMENTS
from polyc.dialects.common.signature import SizedTensorType, same_shape, same_size


@irdl_attr_definition
class TensorType(SizedTensorType):
    """A tensor of the model, ``!frontend.tensor<[M, K], f16>`` (S0.1).

    Elements are f16, bf16 or f32; integers, i8 to i64 and ui8 to ui64; i1 for conditions and
    boolean masks, a byte each in memory.
    """

    name = "frontend.tensor"
    shape: ShapeAttr
    element_type: Attribute

    @classmethod
    def element_types(cls) -> tuple[Attribute, ...]:
        return ELEMENTS


def tensor(shape: Sequence[Dim | int | str], element_type: Attribute) -> TensorType:
    """``!frontend.tensor`` of sizes given as dims, integers or symbols' names."""
    return TensorType(ShapeAttr.of(shape), element_type)


def tensor_of(value: SSAValue) -> TensorType:
    """The type of a frontend value."""
    return cast(TensorType, value.type)


def broadcast(shapes: Sequence[Shape], at: Operation) -> Shape | None:
    """The right-aligned broadcast of ``shapes``, or None when sizes do not agree (S3.3).

    Only the constant size 1 stretches; a symbol that happens to be 1 does not.
    """
    rank = max((len(s) for s in shapes), default=0)
    result: list[Dim] = []
    for axis in range(-rank, 0):
        sizes = [s[axis] for s in shapes if len(s) >= -axis]
        wide = [s for s in sizes if s.constant() != 1]
        if any(not same_size(wide[0], s, at) for s in wide[1:]):
            return None
        result.append(wide[0] if wide else sizes[0])
    return tuple(result)


# Checks -------------------------------------------------------------------------------


def need_float(what: str, values: Sequence[SSAValue]) -> None:
    """Check that ``values`` hold real numbers, not integers or conditions."""
    for value in values:
        element = tensor_of(value).element_type
        if not isinstance(element, AnyFloat):
            also = "frontend.select or a " if element == i1 else "a "
            raise VerifyException(
                f"{what} computes with f16, bf16 or f32, not {element}; use {also}frontend.cast"
            )


def need_number(what: str, values: Sequence[SSAValue]) -> None:
    """Check that ``values`` hold numbers, not conditions."""
    for value in values:
        if tensor_of(value).element_type == i1:
            raise VerifyException(
                f"{what} computes with numbers, not i1; use frontend.select or a frontend.cast"
            )


def need_element(what: str, value: SSAValue, element: Attribute) -> None:
    """Check the element type of one operand or result, which is ``what``."""
    found = tensor_of(value).element_type
    if found != element:
        raise VerifyException(
            f"{what} has element type {element}, not {found}; add a frontend.cast"
        )


def need_shape(op: IRDLOperation, what: str, value: SSAValue, expected: Shape) -> None:
    """Check the shape of one operand or result, which is ``what``."""
    found = tensor_of(value).dims
    if not same_shape(found, expected, op):
        raise VerifyException(f"{what} is {shape_text(expected)}, not {shape_text(found)}")


def need_broadcast(op: IRDLOperation, what: str, values: Sequence[SSAValue]) -> None:
    """Check that ``values`` broadcast to the shape of the result of ``op``."""
    shapes = [tensor_of(v).dims for v in values]
    shape = broadcast(shapes, op)
    text = " and ".join(map(shape_text, shapes))
    if shape is None:
        raise VerifyException(
            f"BroadcastMismatch: {what} cannot broadcast {text}, aligned at the "
            "right; sizes there are equal or one of them is 1"
        )
    result = tensor_of(op.results[0]).dims
    if not same_shape(shape, result, op):
        raise VerifyException(
            f"BroadcastMismatch: {what} of {text} is {shape_text(shape)}; the "
            f"result says {shape_text(result)}"
        )


def need_accumulator(what: str, acc: Float32Type | None) -> None:
    """Check that a contraction names the type that it sums in."""
    if acc is None:
        raise VerifyException(
            f"AccDtypeMissing: {what} does not say in which type it sums; add {{acc = f32}}"
        )


def need_axes(what: str, axes: Sequence[int], shape: Shape) -> None:
    """Check that ``axes`` are axes of ``shape``, increasing, at least one."""
    if any(not 0 <= a < len(shape) for a in axes) or list(axes) != sorted(set(axes)):
        raise VerifyException(
            f"axes {list(axes)} of a {what} are different axes of {shape_text(shape)} in "
            f"increasing order, 0 to {len(shape) - 1}"
        )
    if not axes:
        raise VerifyException(f"a {what} names at least one axis")


# Text ---------------------------------------------------------------------------------


Typed = tuple[Sequence[SSAValue], Sequence[TensorType], dict[str, Attribute]]
"""Operands, the types of the results, and the attributes of an op that was read."""


def parse_typed(parser: Parser, unresolved: Sequence[UnresolvedOperand]) -> Typed:
    """Parse ``attr-dict? : types`` after the operands.

    Types are ``(type, type) -> type``; with one operand also ``type -> type``, or ``type``
    where the result has the operand's.
    """
    attributes = parser.parse_optional_attr_dict()
    parser.parse_punctuation(":")
    at = parser.pos
    if (function_type := parser.parse_optional_function_type()) is not None:
        inputs, outputs = function_type.inputs.data, function_type.outputs.data
    else:
        inputs = outputs = (parser.parse_type(),)
        if parser.parse_optional_punctuation("->") is not None:
            outputs = (parser.parse_type(),)
    if len(inputs) != len(unresolved):
        parser.raise_error(f"the op has {len(unresolved)} operands; the type has {len(inputs)}", at)
    for t in (*inputs, *outputs):
        if not isinstance(t, TensorType):
            parser.raise_error(f"expected a !frontend.tensor, not {t}", at)
    args = parser.resolve_operands(unresolved, inputs, at)
    return args, cast(Sequence[TensorType], outputs), attributes


def parse_values(parser: Parser) -> list[UnresolvedOperand]:
    """Parse ``%a, %b``."""
    return parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_unresolved_operand)


def print_typed(printer: Printer, op: IRDLOperation, extra: dict[str, Attribute]) -> None:
    """Print ``attr-dict? : types`` with ``extra`` in the dictionary, as ``parse_typed`` reads."""
    printer.print_op_attributes({**extra, **op.attributes})
    printer.print_string(" : ")
    inputs, outputs = [o.type for o in op.operands], [r.type for r in op.results]
    if len(inputs) == 1 and len(outputs) == 1:
        printer.print_attribute(inputs[0])
        if outputs != inputs:
            printer.print_string(" -> ")
            printer.print_attribute(outputs[0])
    else:
        printer.print_operation_type(op)
