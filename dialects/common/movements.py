"""Movements that ``frontend`` and ``tiny`` share: reshape, permute, expand, pad, slice.

A movement is a logical view (S3.1): it says where each element of the result comes from,
and computes nothing.  Both dialects have the same ops with the same text; the classes
here hold what an op carries, its text and its legality, and each dialect's op adds its
name and its tensor type.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import count, pairwise
from typing import ClassVar, Self, cast

from xdsl.dialects.builtin import DenseArrayBase, IntegerType, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import IRDLOperation, prop_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.common.dim import Dim, Shape, ShapeAttr, parse_constant, parse_dim, shape_text
from polyc.dialects.common.elements import Number
from polyc.dialects.common.numbers import (
    PlainAttr,
    beside,
    number_text,
    parse_plain,
    plain_attr,
    plain_fault,
    plain_number,
)
from polyc.dialects.common.signature import SizedTensorType, same_shape, same_size, verify_symbols
from polyc.dialects.common.sizes import (
    factor_groups,
    inferred,
    never_negative,
    product,
    verify_known,
)


class MovementOp(IRDLOperation, ABC):
    """One operand, one result of the same element type; ``op %x … : type -> type``.

    A subclass says what its text carries between the operand and the attributes.
    """

    traits = traits_def(Pure())

    TENSOR: ClassVar[type[SizedTensorType]]
    """The tensor type of the dialect."""

    @property
    def source(self) -> SSAValue:
        """The value that moves."""
        return self.operands[0]

    @property
    def source_type(self) -> SizedTensorType:
        return cast(SizedTensorType, self.operands[0].type)

    @property
    def result_type(self) -> SizedTensorType:
        return cast(SizedTensorType, self.results[0].type)

    @classmethod
    def typed(cls, like: SSAValue, dims: Sequence[Dim]) -> Attribute:
        """The dialect's tensor type of ``dims`` with the element type of ``like``."""
        element = cast(SizedTensorType, like.type).element_type
        return cls.TENSOR.new([ShapeAttr(tuple(dims)), element])

    def verify_(self) -> None:
        verify_symbols(self)
        operand, result = self.source_type, self.result_type
        what = self.name.split(".")[1]
        if operand.element_type != result.element_type:
            raise VerifyException(
                f"{what} keeps the element type; the operand has {operand.element_type}, the "
                f"result {result.element_type}"
            )
        self.verify_move(operand.dims, result.dims)

    @abstractmethod
    def verify_move(self, operand: Shape, result: Shape) -> None:
        """Check the shapes and the numbers; raises VerifyException."""

    @classmethod
    @abstractmethod
    def parse_rest(cls, parser: Parser) -> dict[str, Attribute]:
        """Parse what stands after the operand; the properties."""

    @abstractmethod
    def print_rest(self, printer: Printer) -> None:
        """Print what stands after the operand, with a blank before each part."""

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        unresolved = parser.parse_unresolved_operand()
        properties = cls.parse_rest(parser)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        operand_type = parse_tensor(parser, cls.TENSOR)
        parser.parse_punctuation("->")
        result_type = parse_tensor(parser, cls.TENSOR)
        if "value" in properties:
            number = cast("PlainAttr", properties["value"])
            properties["value"] = beside(number, operand_type.element_type)
        return cls.create(
            operands=[parser.resolve_operand(unresolved, operand_type)],
            result_types=[result_type],
            properties=properties,
            attributes=attributes,
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.source)
        self.print_rest(printer)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.source.type)
        printer.print_string(" -> ")
        printer.print_attribute(self.results[0].type)


# Reading and writing parts ---------------------------------------------------------------


def parse_tensor(parser: Parser, kind: type[SizedTensorType]) -> SizedTensorType:
    start = parser.pos
    t = parser.parse_type()
    if not isinstance(t, kind):
        parser.raise_error(f"expected a !{kind.name}, not {t}", start, parser.pos)
    return t


def parse_numbers(parser: Parser, what: str) -> list[int]:
    """Parse ``[0, 1]``, ``what`` saying of what each is."""
    return parser.parse_comma_separated_list(
        parser.Delimiter.SQUARE, lambda: parse_constant(parser, what)
    )


def parse_sizes(parser: Parser) -> ShapeAttr:
    """Parse ``[1, M + 1]``."""
    return ShapeAttr(
        tuple(parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: parse_dim(parser)))
    )


def numbers_attr(values: Sequence[int]) -> DenseArrayBase:
    return DenseArrayBase.from_list(i64, values)


def numbers(values: DenseArrayBase) -> tuple[int, ...]:
    return cast("DenseArrayBase[IntegerType]", values).get_values()


def numbers_text(values: Sequence[int]) -> str:
    return "[" + ", ".join(map(str, values)) + "]"


def _one_each(what: str, names: str, count: int, rank: int) -> None:
    if count != rank:
        raise VerifyException(
            f"{what} has {count} {names} for an operand of rank {rank}; give one for each axis"
        )


# The movements ---------------------------------------------------------------------------


class ReshapeBase(MovementOp, ABC):
    """The elements in their row-major order under another shape (S3.1, S4.7).

    ``reshape %x : [M, 8 * K] -> [M, K, 8]``.  The numbers of elements are equal for all
    sizes that the assumptions allow.
    """

    def __init__(self, operand: SSAValue, dims: Sequence[Dim]) -> None:
        super().__init__(operands=[operand], result_types=[self.typed(operand, dims)])

    def verify_move(self, operand: Shape, result: Shape) -> None:
        if factor_groups(operand, result, self) is None:
            raise VerifyException(
                f"reshape keeps the number of elements; {shape_text(operand)} has "
                f"{product(operand)}, {shape_text(result)} has {product(result)}"
            )

    @classmethod
    def parse_rest(cls, parser: Parser) -> dict[str, Attribute]:
        return {}

    def print_rest(self, printer: Printer) -> None:
        pass


class PermuteBase(MovementOp, ABC):
    """Reordering of axes: result axis ``i`` is operand axis ``permutation[i]`` (S3.1).

    ``permute %x perm [1, 0] : [K, M] -> [M, K]``.
    """

    permutation = prop_def(DenseArrayBase)

    def __init__(
        self, operand: SSAValue, permutation: Sequence[int], result_type: Attribute | None = None
    ) -> None:
        if result_type is None:
            dims = cast(SizedTensorType, operand.type).dims
            kept = inferred(lambda: tuple(dims[p] for p in permutation))
            result_type = self.typed(operand, kept)
        super().__init__(
            operands=[operand],
            result_types=[result_type],
            properties={"permutation": numbers_attr(permutation)},
        )

    @property
    def perm(self) -> tuple[int, ...]:
        """The operand axis of each result axis."""
        return numbers(self.permutation)

    def verify_move(self, operand: Shape, result: Shape) -> None:
        perm = self.perm
        if sorted(perm) != list(range(len(operand))):
            raise VerifyException(
                f"perm {list(perm)} is not an order of the {len(operand)} axes of "
                f"{shape_text(operand)}"
            )
        expected = tuple(operand[p] for p in perm)
        if not same_shape(expected, result, self):
            raise VerifyException(
                f"{shape_text(operand)} in the order {list(perm)} is "
                f"{shape_text(expected)}; the result says {shape_text(result)}"
            )

    @classmethod
    def parse_rest(cls, parser: Parser) -> dict[str, Attribute]:
        parser.parse_keyword("perm")
        return {"permutation": numbers_attr(parse_numbers(parser, "an axis of a permute"))}

    def print_rest(self, printer: Printer) -> None:
        printer.print_string(f" perm {numbers_text(self.perm)}")


class ExpandBase(MovementOp, ABC):
    """Broadcast into a larger shape, each axis named (S3.2).

    ``expand %x dims [0, 1] : [M, K] -> [M, K, N]``: operand axis ``i`` becomes result
    axis ``dimensions[i]``, in increasing order; along every other result axis the value
    repeats.  An operand axis of the constant size 1 may become an axis of any size, along
    which the value repeats too; other axes keep their size.
    """

    dimensions = prop_def(DenseArrayBase)

    def __init__(
        self, operand: SSAValue, dimensions: Sequence[int], result_type: Attribute
    ) -> None:
        super().__init__(
            operands=[operand],
            result_types=[result_type],
            properties={"dimensions": numbers_attr(dimensions)},
        )

    @property
    def dims(self) -> tuple[int, ...]:
        """The result axis of each operand axis."""
        return numbers(self.dimensions)

    def stretched(self) -> tuple[int, ...]:
        """Result axes along which a size-1 operand axis repeats."""
        operand, result = self.source_type, self.result_type
        return tuple(
            axis
            for size, axis in zip(operand.dims, self.dims, strict=True)
            if size.constant() == 1 and result.dims[axis].constant() != 1
        )

    def verify_move(self, operand: Shape, result: Shape) -> None:
        dims, rank = self.dims, len(result)
        if len(dims) != len(operand):
            raise VerifyException(
                f"expand names {len(dims)} dimensions for an operand of rank {len(operand)}; "
                "name one for each operand axis"
            )
        if any(not 0 <= d < rank for d in dims):
            raise VerifyException(
                f"dims {list(dims)} of an expand point outside the result's axes, which are "
                f"0 to {rank - 1}"
            )
        if any(a >= b for a, b in pairwise(dims)):
            dialect = self.name.split(".")[0]
            raise VerifyException(
                f"dims {list(dims)} of an expand do not increase; put a {dialect}.permute before it"
            )
        for i, d in enumerate(dims):
            size, wanted = operand[i], result[d]
            if size.constant() != 1 and not same_size(size, wanted, self):
                raise VerifyException(
                    f"BroadcastMismatch: expand maps axis {i} of size {size} to axis {d} of "
                    f"size {wanted}, from {shape_text(operand)} to "
                    f"{shape_text(result)}; the sizes are equal or the operand's is 1"
                )

    @classmethod
    def parse_rest(cls, parser: Parser) -> dict[str, Attribute]:
        parser.parse_keyword("dims")
        return {"dimensions": numbers_attr(parse_numbers(parser, "an axis of an expand"))}

    def print_rest(self, printer: Printer) -> None:
        printer.print_string(f" dims {numbers_text(self.dims)}")


class PadBase(MovementOp, ABC):
    """Room before and after each axis, filled with one number (S3.1).

    ``pad %x low [0, 1] high [0, 1] value 0.0 : [M, K] -> [M, K + 2]``.  Result element
    ``i`` is operand element ``i - low`` where that exists, else ``value``.
    """

    low_sizes = prop_def(ShapeAttr, prop_name="low")
    high_sizes = prop_def(ShapeAttr, prop_name="high")
    fill = prop_def(PlainAttr, prop_name="value")

    def __init__(
        self, operand: SSAValue, low: Sequence[Dim | int], high: Sequence[Dim | int], value: Number
    ) -> None:
        kind = cast(SizedTensorType, operand.type)
        dims = kind.dims
        sizes = [d + a + b for d, a, b in zip(dims, low, high, strict=True)]
        super().__init__(
            operands=[operand],
            result_types=[self.typed(operand, sizes)],
            properties={
                "low": ShapeAttr.of(low),
                "high": ShapeAttr.of(high),
                "value": plain_attr(value, kind.element_type),
            },
        )

    @property
    def low(self) -> Shape:
        """Elements added before each axis."""
        return self.low_sizes.data

    @property
    def high(self) -> Shape:
        """Elements added after each axis."""
        return self.high_sizes.data

    @property
    def number(self) -> Number:
        """What the added elements are: an int of integers."""
        return plain_number(self.fill)

    def verify_(self) -> None:
        super().verify_()
        if (fault := plain_fault(self.fill, self.source_type.element_type)) is not None:
            raise VerifyException(f"the value of a pad: {fault}")

    def verify_move(self, operand: Shape, result: Shape) -> None:
        for what, sizes in (("low", self.low), ("high", self.high)):
            _one_each("pad", f"{what} sizes", len(sizes), len(operand))
            verify_known(self, sizes, f"{what} of a pad")
            for axis, size in enumerate(sizes):
                if not never_negative(size, self):
                    raise VerifyException(
                        f"pad adds {size} elements at the {what} end of axis {axis}, which may be "
                        "negative; use a slice to remove elements, or assume the size to be 0 or "
                        "more"
                    )
        rows = zip(operand, self.low, self.high, strict=True)
        expected = tuple(d + a + b for d, a, b in rows)
        if not same_shape(expected, result, self):
            raise VerifyException(
                f"{shape_text(operand)} padded by {shape_text(self.low)} and "
                f"{shape_text(self.high)} is {shape_text(expected)}; the result says "
                f"{shape_text(result)}"
            )

    @classmethod
    def parse_rest(cls, parser: Parser) -> dict[str, Attribute]:
        parser.parse_keyword("low")
        low = parse_sizes(parser)
        parser.parse_keyword("high")
        high = parse_sizes(parser)
        parser.parse_keyword("value")
        return {"low": low, "high": high, "value": parse_plain(parser)}

    def print_rest(self, printer: Printer) -> None:
        printer.print_string(
            f" low {shape_text(self.low)} high {shape_text(self.high)} "
            f"value {number_text(self.number)}"
        )


def slice_sizes(low: Sequence[Dim], high: Sequence[Dim], steps: Sequence[int]) -> list[Dim]:
    """The shape of a slice: ``ceil((high - low) / step)`` an axis (S3.3)."""
    return [(b - a).ceildiv(s) for a, b, s in zip(low, high, steps, strict=True)]


def symbolic_step(step: Dim, axis: int) -> str:
    """The sentence for a step that is no number (S3.3)."""
    return (
        f"NonSCoP: slice steps by {step} along axis {axis}, and a symbolic step is not affine; "
        "give an integer"
    )


class SliceBase(MovementOp, ABC):
    """A part of each axis: ``slice %x [0:M, 1:K:2] : [M, K] -> [M, K floordiv 2]`` (S3.1, S3.3).

    Result element ``o`` is operand element ``low + step * o``, for ``o`` from 0 up to
    ``ceil((high - low) / step)``.  ``0 <= low`` and ``high <= size`` follow from the
    assumptions wherever an element is read; nothing counts from the end.
    """

    low_sizes = prop_def(ShapeAttr, prop_name="low")
    high_sizes = prop_def(ShapeAttr, prop_name="high")
    step_sizes = prop_def(ShapeAttr, prop_name="step")

    def __init__(
        self,
        operand: SSAValue,
        low: Sequence[Dim | int],
        high: Sequence[Dim | int],
        step: Sequence[int] | None = None,
    ) -> None:
        steps = [1] * len(low) if step is None else list(step)
        starts, ends = [Dim.of(d) for d in low], [Dim.of(d) for d in high]
        kept = inferred(lambda: tuple(slice_sizes(starts, ends, steps)))
        super().__init__(
            operands=[operand],
            result_types=[self.typed(operand, kept)],
            properties={
                "low": ShapeAttr.of(low),
                "high": ShapeAttr.of(high),
                "step": ShapeAttr.of(steps),
            },
        )

    @property
    def low(self) -> Shape:
        """The first operand element along each axis."""
        return self.low_sizes.data

    @property
    def high(self) -> Shape:
        """The end of each axis; no element from there on is read."""
        return self.high_sizes.data

    @property
    def steps(self) -> tuple[int, ...]:
        """The distance between elements along each axis, 1 or more once verified."""
        return tuple(s.constant() or 0 for s in self.step_sizes.data)

    def verify_move(self, operand: Shape, result: Shape) -> None:
        low, high, steps = self.low, self.high, self.step_sizes.data
        for what, sizes in (("starts", low), ("ends", high), ("steps", steps)):
            _one_each("slice", what, len(sizes), len(operand))
            verify_known(self, sizes, f"the {what} of a slice")
        for axis, step in enumerate(steps):
            value = step.constant()
            if value is None:
                raise VerifyException(symbolic_step(step, axis))
            if value < 0:
                raise VerifyException(
                    f"NegativeStrideUnsupported: slice steps by {value} along axis {axis}; a view "
                    "goes forward, give a step of 1 or more"
                )
            if value == 0:
                raise VerifyException(
                    f"slice steps by 0 along axis {axis}; give a step of 1 or more"
                )
        expected = tuple(slice_sizes(low, high, self.steps))
        some = [d - 1 for d in expected]
        for axis, size in enumerate(operand):
            for fault, room, text in (
                ("starts before", low[axis], f"{low[axis]} >= 0"),
                ("ends beyond", size - high[axis], f"{high[axis]} <= {size}"),
            ):
                if not never_negative(room, self, some):
                    way = (
                        f"count from the start, as in {size} - {-(low[axis].constant() or 0)}"
                        if fault == "starts before" and (low[axis].constant() or 0) < 0
                        else f"correct it, or assume what makes {text} hold"
                    )
                    raise VerifyException(
                        f"UnguardedAccess: slice [{low[axis]}:{high[axis]}] {fault} axis {axis} "
                        f"of size {size}, as far as the assumptions say; {way}"
                    )
        if not same_shape(expected, result, self):
            raise VerifyException(
                f"slice {self.ranges()} of {shape_text(operand)} is {shape_text(expected)}; the "
                f"result says {shape_text(result)}"
            )

    def ranges(self) -> str:
        """The text of the ranges, ``[0:M, 1:K:2]``."""
        parts = [
            f"{a}:{b}" + ("" if s.constant() == 1 else f":{s}")
            for a, b, s in zip(self.low, self.high, self.step_sizes.data, strict=True)
        ]
        return "[" + ", ".join(parts) + "]"

    @classmethod
    def parse_rest(cls, parser: Parser) -> dict[str, Attribute]:
        axes = count()

        def one() -> tuple[Dim, Dim, Dim]:
            axis = next(axes)
            low = parse_dim(parser)
            parser.parse_punctuation(":")
            high = parse_dim(parser)
            step = Dim.const(1)
            if parser.parse_optional_punctuation(":") is not None:
                start = parser.pos
                step = parse_dim(parser)
                if step.constant() is None:
                    # Before the result's type, whose sizes would divide by it.
                    parser.raise_error(symbolic_step(step, axis), start, parser.pos)
            return low, high, step

        ranges = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, one)
        low, high, step = zip(*ranges, strict=True) if ranges else ((), (), ())
        return {"low": ShapeAttr(low), "high": ShapeAttr(high), "step": ShapeAttr(step)}

    def print_rest(self, printer: Printer) -> None:
        printer.print_string(f" {self.ranges()}")
