"""The ``tiny`` dialect: movement, unary, binary, select, cast, reduce; nothing else (S3).

A ``tiny.graph`` has the signature of the ``frontend.graph`` that it comes from.  Leaves
are its arguments and scalar constants.  All arithmetic is f32; a ``tiny.cast`` stands
where a value is rounded or widened (S0.6).  Movements are logical views.  Nothing
broadcasts by itself: operands have equal shapes, and an ``expand`` names its dimensions.
A reduced axis is removed (S3.1).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import ClassVar, cast

from xdsl.dialects.builtin import (
    DenseArrayBase,
    Float32Type,
    FloatAttr,
    IntegerType,
    StringAttr,
    bf16,
    f16,
    f32,
    i1,
    i64,
)
from xdsl.ir import Attribute, Dialect, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import HasParent, IsTerminator, Pure
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.dim import Dim, ShapeAttr, shape_text
from polyc.dialects.frontend import verify_outputs
from polyc.dialects.signature import (
    SignatureOp,
    SizedTensorType,
    same_shape,
    same_size,
    verify_symbols,
)

UNARY_FUNCTIONS = (
    "abs",
    "erf",
    "exp",
    "log",
    "neg",
    "reciprocal",
    "rsqrt",
    "sigmoid",
    "sqrt",
    "tanh",
)
"""Functions of ``tiny.unary``."""

BINARY_FUNCTIONS = ("add", "div", "max", "min", "mul", "pow", "sub")
"""Functions of ``tiny.binary``."""

COMPARISONS = ("eq", "ge", "gt", "le", "lt", "ne")
"""Relations of ``tiny.compare``."""

REDUCTIONS = ("max", "min", "sum")
"""Functions of ``tiny.reduce``."""


@irdl_attr_definition
class TensorType(SizedTensorType):
    """A logical tensor, ``!tiny.tensor<[M, K], f32>``; i1 holds the conditions of selects."""

    name = "tiny.tensor"
    shape: ShapeAttr
    element_type: Attribute

    @classmethod
    def element_types(cls) -> tuple[Attribute, ...]:
        return (f16, bf16, f32, i1)


def tensor(shape: Sequence[Dim | int | str], element_type: Attribute = f32) -> TensorType:
    """``!tiny.tensor`` of sizes given as dims, integers or symbols' names."""
    return TensorType(ShapeAttr.of(shape), element_type)


def tensor_of(value: SSAValue) -> TensorType:
    """The type of a tiny value."""
    return cast(TensorType, value.type)


_Types = tuple[list[TensorType], TensorType]
"""Types of an op's operands, and of its result."""


@irdl_op_definition
class GraphOp(SignatureOp):
    """A pure value graph with its signature; argument types are as stored (S2.1, S3)."""

    name = "tiny.graph"
    TENSOR: ClassVar[type[SizedTensorType]] = TensorType


def _need_f32(what: str, values: Sequence[SSAValue]) -> None:
    for value in values:
        element = tensor_of(value).element_type
        if element != f32:
            raise VerifyException(
                f"{what} computes in f32; an operand has {element}, add a tiny.cast"
            )


def _known(what: str, fn: str, known: Sequence[str]) -> str | None:
    if fn in known:
        return None
    return f"{fn} is not a function of tiny.{what}; there are {', '.join(known)}"


def _parse_fn(parser: Parser, what: str, known: Sequence[str]) -> str:
    start = parser.pos
    fn = parser.parse_identifier(f"a function of tiny.{what}")
    if (fault := _known(what, fn, known)) is not None:
        parser.raise_error(fault, start, parser.pos)
    return fn


def _all_one(operands: int) -> Callable[[TensorType], _Types]:
    return lambda t: ([t] * operands, t)


def _relation(t: TensorType) -> _Types:
    return [t, t], tensor(t.dims, i1)


def _selection(t: TensorType) -> _Types:
    return [tensor(t.dims, i1), t, t], t


def _parse_operands(
    parser: Parser, operands: int, derive: Callable[[TensorType], _Types]
) -> tuple[Sequence[SSAValue], TensorType, dict[str, Attribute]]:
    """Parse ``%a, %b attr-dict? : type`` or ``%a, %b : (type, type) -> type``.

    The short form names one type, from which ``derive`` has the operands' and the result's.
    """
    start = parser.pos
    unresolved = [parser.parse_unresolved_operand()]
    for _ in range(operands - 1):
        parser.parse_punctuation(",")
        unresolved.append(parser.parse_unresolved_operand())
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
        inputs, result = derive(_parse_tensor(parser))
    return parser.resolve_operands(unresolved, inputs, start), result, attributes


def _print_operands(
    printer: Printer,
    op: IRDLOperation,
    head: str,
    derive: Callable[[TensorType], _Types],
) -> None:
    """Print ``head %a, %b : types``, in the short form where the types follow from one."""
    printer.print_string(f" {head} " if head else " ")
    values = op.operands
    printer.print_list(values, printer.print_operand)
    printer.print_op_attributes(op.attributes)
    printer.print_string(" : ")
    result = op.results[0]
    types = [tensor_of(v) for v in values]
    if derive(types[-1]) == (types, result.type):
        printer.print_attribute(types[-1])
    else:
        printer.print_function_type(types, [result.type])


def _same_shapes(op: IRDLOperation, what: str, values: Sequence[SSAValue]) -> None:
    """Check that ``values`` have one shape; movements alone change shapes in ``tiny``."""
    first = tensor_of(values[0]).dims
    for value in values[1:]:
        other = tensor_of(value).dims
        if not same_shape(first, other, op):
            raise VerifyException(
                f"BroadcastMismatch: {what} takes equal shapes, not {shape_text(first)} and "
                f"{shape_text(other)}; insert a tiny.expand"
            )


def _need_element(what: str, value: SSAValue, element: Attribute) -> None:
    found = tensor_of(value).element_type
    if found != element:
        raise VerifyException(f"{what} has element type {element}, not {found}")


def _parse_tensor(parser: Parser) -> TensorType:
    start = parser.pos
    t = parser.parse_type()
    if not isinstance(t, TensorType):
        parser.raise_error(f"expected a !tiny.tensor, not {t}", start, parser.pos)
    return t


@irdl_op_definition
class ConstantOp(IRDLOperation):
    """A scalar, ``tiny.constant 0.0 : !tiny.tensor<[], f32>``; also ``inf``, ``-inf``, ``nan``."""

    name = "tiny.constant"
    value = prop_def(FloatAttr[Float32Type])
    result = result_def(TensorType)
    traits = traits_def(Pure())

    def __init__(self, value: float, result_type: TensorType | None = None) -> None:
        """``value`` is rounded to f32; OverflowError when it is finite and too large."""
        super().__init__(
            properties={"value": FloatAttr(value, f32)},
            result_types=[result_type or tensor((), f32)],
        )

    @property
    def number(self) -> float:
        """The value as a Python float."""
        return float(self.value.value.data)

    def verify_(self) -> None:
        t = tensor_of(self.result)
        if t.rank or t.element_type != f32:
            raise VerifyException(f"a constant is a scalar of f32, not {t}")

    @classmethod
    def parse(cls, parser: Parser) -> ConstantOp:
        start = parser.pos
        negative = parser.parse_optional_punctuation("-") is not None
        if parser.parse_optional_keyword("inf") is not None:
            value = math.inf
        elif parser.parse_optional_keyword("nan") is not None:
            value = math.nan
        else:
            value = float(parser.parse_number(allow_boolean=False))
        if _single(value) is None:
            parser.raise_error(
                f"{value:g} is beyond the largest f32, 3.4028235e+38; write inf", start, parser.pos
            )
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        op = cls(-value if negative else value, _parse_tensor(parser))
        op.attributes |= attributes
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {number_text(self.number)}")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)


def _single(value: float) -> float | None:
    """``value`` rounded to f32, None where a finite value is too large for that."""
    try:
        return FloatAttr(value, f32).value.data
    except OverflowError:
        return None


def number_text(value: float) -> str:
    """The shortest decimal text that reads back as the f32 ``value``; inf, -inf or nan."""
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    single = _single(value)
    for digits in range(1, 18):
        text = f"{value:.{digits}g}"
        if _single(float(text)) == single:
            break
    else:
        text = repr(value)
    if "e" in text:
        mantissa, exponent = text.split("e")
        return f"{mantissa if '.' in mantissa else mantissa + '.0'}e{exponent}"
    return text if "." in text else text + ".0"


@irdl_op_definition
class CastOp(IRDLOperation):
    """Conversion between float types: to a narrower one rounds to nearest even (S0.6)."""

    name = "tiny.cast"
    operand = operand_def(TensorType)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$operand attr-dict `:` type($operand) `->` type($result)"

    def __init__(self, operand: SSAValue, element_type: Attribute) -> None:
        result = tensor(tensor_of(operand).dims, element_type)
        super().__init__(operands=[operand], result_types=[result])

    def verify_(self) -> None:
        verify_symbols(self)
        operand, result = tensor_of(self.operand), tensor_of(self.result)
        if not same_shape(operand.dims, result.dims, self):
            raise VerifyException(
                f"a cast keeps the shape; the operand is {shape_text(operand.dims)}, the "
                f"result {shape_text(result.dims)}"
            )
        if i1 in (operand.element_type, result.element_type):
            raise VerifyException(
                f"a cast converts between f16, bf16 and f32, not {operand.element_type} to "
                f"{result.element_type}; use tiny.select for a condition"
            )


@irdl_op_definition
class UnaryOp(IRDLOperation):
    """A function of each element, ``tiny.unary exp %x : type``, in f32."""

    name = "tiny.unary"
    fn = prop_def(StringAttr)
    operand = operand_def(TensorType)
    result = result_def(TensorType)
    traits = traits_def(Pure())

    def __init__(self, fn: str, operand: SSAValue, result_type: TensorType | None = None) -> None:
        super().__init__(
            operands=[operand],
            result_types=[result_type or operand.type],
            properties={"fn": StringAttr(fn)},
        )

    @property
    def function(self) -> str:
        return self.fn.data

    def verify_(self) -> None:
        verify_symbols(self)
        if (fault := _known("unary", self.function, UNARY_FUNCTIONS)) is not None:
            raise VerifyException(fault)
        _need_f32(self.function, (self.operand,))
        _need_element(f"the result of {self.function}", self.result, f32)
        _same_shapes(self, self.function, (self.operand, self.result))

    @classmethod
    def parse(cls, parser: Parser) -> UnaryOp:
        fn = _parse_fn(parser, "unary", UNARY_FUNCTIONS)
        (operand,), result, attributes = _parse_operands(parser, 1, _all_one(1))
        op = cls(fn, operand, result)
        op.attributes |= attributes
        return op

    def print(self, printer: Printer) -> None:
        _print_operands(printer, self, self.function, _all_one(1))


@irdl_op_definition
class BinaryOp(IRDLOperation):
    """A function of two values of one shape, ``tiny.binary add %x, %y : type``, in f32."""

    name = "tiny.binary"
    fn = prop_def(StringAttr)
    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    result = result_def(TensorType)
    traits = traits_def(Pure())

    def __init__(
        self, fn: str, lhs: SSAValue, rhs: SSAValue, result_type: TensorType | None = None
    ) -> None:
        super().__init__(
            operands=[lhs, rhs],
            result_types=[result_type or lhs.type],
            properties={"fn": StringAttr(fn)},
        )

    @property
    def function(self) -> str:
        return self.fn.data

    def verify_(self) -> None:
        verify_symbols(self)
        if (fault := _known("binary", self.function, BINARY_FUNCTIONS)) is not None:
            raise VerifyException(fault)
        _need_f32(self.function, (self.lhs, self.rhs))
        _need_element(f"the result of {self.function}", self.result, f32)
        _same_shapes(self, self.function, (self.lhs, self.rhs, self.result))

    @classmethod
    def parse(cls, parser: Parser) -> BinaryOp:
        fn = _parse_fn(parser, "binary", BINARY_FUNCTIONS)
        (lhs, rhs), result, attributes = _parse_operands(parser, 2, _all_one(2))
        op = cls(fn, lhs, rhs, result)
        op.attributes |= attributes
        return op

    def print(self, printer: Printer) -> None:
        _print_operands(printer, self, self.function, _all_one(2))


@irdl_op_definition
class CompareOp(IRDLOperation):
    """A relation of two f32 values as a condition, ``tiny.compare lt %x, %y : type`` (S3.1).

    The result has element type i1.  With a NaN every relation but ``ne`` is false.
    """

    name = "tiny.compare"
    fn = prop_def(StringAttr)
    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    result = result_def(TensorType)
    traits = traits_def(Pure())

    def __init__(
        self, fn: str, lhs: SSAValue, rhs: SSAValue, result_type: TensorType | None = None
    ) -> None:
        super().__init__(
            operands=[lhs, rhs],
            result_types=[result_type or tensor(tensor_of(lhs).dims, i1)],
            properties={"fn": StringAttr(fn)},
        )

    @property
    def function(self) -> str:
        return self.fn.data

    def verify_(self) -> None:
        verify_symbols(self)
        if (fault := _known("compare", self.function, COMPARISONS)) is not None:
            raise VerifyException(fault)
        _need_f32(self.function, (self.lhs, self.rhs))
        _need_element(f"the result of {self.function}", self.result, i1)
        _same_shapes(self, self.function, (self.lhs, self.rhs, self.result))

    @classmethod
    def parse(cls, parser: Parser) -> CompareOp:
        fn = _parse_fn(parser, "compare", COMPARISONS)
        (lhs, rhs), result, attributes = _parse_operands(parser, 2, _relation)
        op = cls(fn, lhs, rhs, result)
        op.attributes |= attributes
        return op

    def print(self, printer: Printer) -> None:
        _print_operands(printer, self, self.function, _relation)


@irdl_op_definition
class SelectOp(IRDLOperation):
    """``then`` where the condition holds, else ``otherwise``, element by element (S3.1).

    The value not taken has no effect, NaN and infinities included.
    """

    name = "tiny.select"
    condition = operand_def(TensorType)
    then = operand_def(TensorType)
    otherwise = operand_def(TensorType)
    result = result_def(TensorType)
    traits = traits_def(Pure())

    def __init__(
        self,
        condition: SSAValue,
        then: SSAValue,
        otherwise: SSAValue,
        result_type: TensorType | None = None,
    ) -> None:
        super().__init__(
            operands=[condition, then, otherwise], result_types=[result_type or then.type]
        )

    def verify_(self) -> None:
        verify_symbols(self)
        _need_element("the condition of a select", self.condition, i1)
        element = tensor_of(self.then).element_type
        for value in (self.otherwise, self.result):
            _need_element("each branch of a select", value, element)
        _same_shapes(self, "select", (self.condition, self.then, self.otherwise, self.result))

    @classmethod
    def parse(cls, parser: Parser) -> SelectOp:
        (condition, then, otherwise), result, attributes = _parse_operands(parser, 3, _selection)
        op = cls(condition, then, otherwise, result)
        op.attributes |= attributes
        return op

    def print(self, printer: Printer) -> None:
        _print_operands(printer, self, "", _selection)


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
    operand_type = _parse_tensor(parser)
    parser.parse_punctuation("->")
    result_type = _parse_tensor(parser)
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
        if (fault := _known("reduce", self.function, REDUCTIONS)) is not None:
            raise VerifyException(fault)
        _need_f32(self.function, (self.operand,))
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
        fn = _parse_fn(parser, "reduce", REDUCTIONS)
        moved, attributes = _parse_moved(parser, "axes")
        op = cls(fn, *moved)
        op.attributes |= attributes
        return op

    def print(self, printer: Printer) -> None:
        _print_moved(printer, self, self.function, "axes", self.axes)


@irdl_op_definition
class OutputOp(IRDLOperation):
    """The values of the graph's outputs; their types are the signature's."""

    name = "tiny.output"
    args = var_operand_def(TensorType)
    traits = traits_def(IsTerminator(), HasParent(GraphOp))
    assembly_format = "$args attr-dict `:` type($args)"

    def __init__(self, args: Sequence[SSAValue]) -> None:
        super().__init__(operands=[list(args)])

    def verify_(self) -> None:
        verify_outputs(self, self.args)


Tiny = Dialect(
    "tiny",
    [
        GraphOp,
        ConstantOp,
        CastOp,
        UnaryOp,
        BinaryOp,
        CompareOp,
        SelectOp,
        ExpandOp,
        PermuteOp,
        ReduceOp,
        OutputOp,
    ],
    [TensorType],
)
"""The dialect, as ``polyc-opt`` registers it."""
