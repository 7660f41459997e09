"""The type ``!tiny.tensor``, and how the ops of ``tiny`` check and write it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import bf16, f16, f32
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import IRDLOperation, irdl_attr_definition
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.common.dim import Dim, Shape, ShapeAttr, shape_text
from polyc.dialects.common.elements import ELEMENTS, is_integer
from polyc.dialects.common.signature import SizedTensorType, same_shape


@irdl_attr_definition
class TensorType(SizedTensorType):
    """A logical tensor, ``!tiny.tensor<[M, K], f32>``; i1 holds conditions."""

    name = "tiny.tensor"
    shape: ShapeAttr
    element_type: Attribute

    @classmethod
    def element_types(cls) -> tuple[Attribute, ...]:
        return ELEMENTS


def tensor(shape: Sequence[Dim | int | str], element_type: Attribute = f32) -> TensorType:
    """``!tiny.tensor`` of sizes given as dims, integers or symbols' names."""
    return TensorType(ShapeAttr.of(shape), element_type)


def tensor_of(value: SSAValue) -> TensorType:
    """The type of a tiny value."""
    return cast(TensorType, value.type)


# Checks -------------------------------------------------------------------------------


def need_number(what: str, values: Sequence[SSAValue]) -> None:
    """Check that values are of one type that is computed in: f32, or an integer type."""
    first = tensor_of(values[0]).element_type
    for value in values:
        element = tensor_of(value).element_type
        if element != f32 and not is_integer(element):
            raise VerifyException(
                f"{what} computes in f32 or an integer type; an operand has {element}, add a "
                "tiny.cast"
            )
        if element != first:
            raise VerifyException(
                f"{what} has operands of one type, not {first} and {element}; add a tiny.cast"
            )


def same_shapes(op: IRDLOperation, what: str, values: Sequence[SSAValue]) -> None:
    """Check that ``values`` have one shape; movements alone change shapes in ``tiny``."""
    first = tensor_of(values[0]).dims
    for value in values[1:]:
        other = tensor_of(value).dims
        if not same_shape(first, other, op):
            raise VerifyException(
                f"BroadcastMismatch: {what} takes equal shapes, not {shape_text(first)} and "
                f"{shape_text(other)}; insert a tiny.expand"
            )


def need_own(what: str, result: SSAValue, own: Attribute | None) -> None:
    """Check the type in which an op says that its result is stored, if it does."""
    if own is None:
        return
    if own not in (f16, bf16):
        raise VerifyException(f"the result of {what} is stored as f16 or bf16, not own {own}")
    element = tensor_of(result).element_type
    if element != f32:
        raise VerifyException(f"the result of {what} is own {own}, and {element} where f32 may be")


def need_element(what: str, value: SSAValue, element: Attribute) -> None:
    found = tensor_of(value).element_type
    if found != element:
        raise VerifyException(f"{what} has element type {element}, not {found}")


# Text ---------------------------------------------------------------------------------


Types = tuple[list[TensorType], TensorType]
"""Types of an op's operands, and of its result."""


def verify_indices(
    what: str,
    source: TensorType,
    axes: Sequence[int],
    indices: Sequence[SSAValue],
) -> None:
    """Check that an op has an index of ``source`` along each of its ``axes``, which increase.

    Raises VerifyException.
    """
    if not source.rank:
        raise VerifyException(
            f"a {what} is along an axis of its operand, and [] has none; reshape it to [1]"
        )
    inside = all(0 <= a < source.rank for a in axes)
    if not axes or not inside or list(axes) != sorted(set(axes)):
        raise VerifyException(
            f"axes {list(axes)} of a {what} are some axes of {shape_text(source.dims)} in "
            f"increasing order, 0 to {source.rank - 1}"
        )
    if len(indices) != len(axes):
        raise VerifyException(
            f"a {what} along {len(axes)} axes has {len(indices)} indices; give one each"
        )


def verify_index_types(
    op: IRDLOperation, what: str, indices: Sequence[SSAValue], shape: Shape, of: str
) -> None:
    """Check that indices are integers, of the ``shape`` that what is named ``of`` has.

    Raises VerifyException.
    """
    for index in indices:
        kind = tensor_of(index)
        if not is_integer(kind.element_type):
            raise VerifyException(
                f"the indices of a {what} are of an integer type, not {kind.element_type}; "
                "add a tiny.cast"
            )
        if not same_shape(kind.dims, shape, op):
            raise VerifyException(
                f"BroadcastMismatch: the indices of a {what} have the shape of its {of}, "
                f"{shape_text(shape)}, not {shape_text(kind.dims)}; insert a tiny.expand"
            )


def fn_fault(op: str, fn: str, known: Sequence[str]) -> str | None:
    """What is wrong with ``fn`` as a function of ``op``, or None."""
    if fn in known:
        return None
    return f"{fn} is not a function of {op}; there are {', '.join(known)}"


def parse_fn(parser: Parser, op: str, known: Sequence[str]) -> str:
    start = parser.pos
    fn = parser.parse_identifier(f"a function of {op}")
    if (fault := fn_fault(op, fn, known)) is not None:
        parser.raise_error(fault, start, parser.pos)
    return fn


def parse_own(parser: Parser) -> dict[str, Attribute]:
    """Parse ``own f16``, or nothing, as a property of the op."""
    return {"own": parser.parse_type()} if parser.parse_optional_keyword("own") else {}


def print_own(printer: Printer, own: Attribute | None) -> None:
    if own is not None:
        printer.print_string(" own ")
        printer.print_attribute(own)


@dataclass(frozen=True)
class Parsed:
    """What the text of an op on elements says after its name."""

    operands: Sequence[SSAValue]
    result: TensorType
    properties: dict[str, Attribute]
    attributes: dict[str, Attribute]


def parse_operands(parser: Parser, derive: Callable[[TensorType], Types]) -> Parsed:
    """Parse ``%a, %b (own f16)? attr-dict? : type`` or ``… : (type, type) -> type``.

    The short form names one type, from which ``derive`` has the operands' and the result's.
    """
    operands = len(derive(tensor(()))[0])
    start = parser.pos
    unresolved = [parser.parse_unresolved_operand()]
    for _ in range(operands - 1):
        parser.parse_punctuation(",")
        unresolved.append(parser.parse_unresolved_operand())
    properties = parse_own(parser)
    attributes = parser.parse_optional_attr_dict()
    parser.parse_punctuation(":")
    at = parser.pos
    inputs: Sequence[Attribute]
    if (function_type := parser.parse_optional_function_type()) is not None:
        inputs, outputs = function_type.inputs.data, function_type.outputs.data
        result = outputs[0] if len(outputs) == 1 else None
        if not isinstance(result, TensorType) or len(inputs) != operands:
            parser.raise_error(
                f"expected the types of {operands} operands and one !tiny.tensor result", at
            )
    else:
        inputs, result = derive(parse_tensor(parser))
    values = parser.resolve_operands(unresolved, inputs, start)
    return Parsed(values, result, properties, attributes)


def print_operands(
    printer: Printer,
    op: IRDLOperation,
    head: str,
    derive: Callable[[TensorType], Types],
) -> None:
    """Print what ``parse_operands`` reads, in the short form where the types follow from one."""
    printer.print_string(f" {head} " if head else " ")
    values = op.operands
    printer.print_list(values, printer.print_operand)
    print_own(printer, op.properties.get("own"))
    printer.print_op_attributes(op.attributes)
    printer.print_string(" : ")
    result = op.results[0]
    types = [tensor_of(v) for v in values]
    if derive(types[-1]) == (types, result.type):
        printer.print_attribute(types[-1])
    else:
        printer.print_function_type(types, [result.type])


def parse_tensor(parser: Parser) -> TensorType:
    start = parser.pos
    t = parser.parse_type()
    if not isinstance(t, TensorType):
        parser.raise_error(f"expected a !tiny.tensor, not {t}", start, parser.pos)
    return t
