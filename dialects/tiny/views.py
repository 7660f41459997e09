"""The movements that ``tiny`` alone has: window, sample and mask (S3.1).

``window`` makes a convolution ``movement + mul + reduce(sum)`` with a symbolic image: a
view by reshape and slice would linearise with symbolic strides, which is not affine
(S4.7).  ``mask`` is to a domain what ``pad`` is.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import ClassVar

from xdsl.dialects.builtin import AffineSetAttr, DenseArrayBase, IntegerAttr, UnitAttr, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineSet
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.common.dim import Dim, Shape, ShapeAttr, parse_constant, shape_text
from polyc.dialects.common.elements import Number
from polyc.dialects.common.movements import (
    MovementOp,
    numbers,
    numbers_attr,
    numbers_text,
    parse_numbers,
    parse_sizes,
)
from polyc.dialects.common.numbers import (
    PlainAttr,
    number_text,
    parse_plain,
    plain_attr,
    plain_fault,
    plain_number,
)
from polyc.dialects.common.signature import SizedTensorType, graph_of, same_shape
from polyc.dialects.common.sizes import never_negative, verify_known, window_count
from polyc.dialects.tiny.types import TensorType, need_number, tensor_of


@irdl_op_definition
class WindowOp(MovementOp):
    """Overlapping windows along axes, their elements along new axes at the end.

    ``tiny.window %x axes [1] size [3] stride [2] dilation [1] : [C, H] -> [C, Ho, 3]``:
    element ``(c, o, r)`` is operand element ``(c, stride * o + dilation * r)``, for as many
    windows as fit whole.  The new axes are in the order of ``axes``.  With a negative dilation a
    window's elements run backwards, from its end: ``stride * o + |dilation| * (size - 1 - r)``.
    """

    name = "tiny.window"
    operand = operand_def(TensorType)
    axis_list = prop_def(DenseArrayBase, prop_name="axes")
    size_list = prop_def(ShapeAttr, prop_name="size")
    stride_list = prop_def(DenseArrayBase, prop_name="stride")
    dilation_list = prop_def(DenseArrayBase, prop_name="dilation")
    result = result_def(TensorType)
    TENSOR: ClassVar[type[SizedTensorType]] = TensorType

    def __init__(
        self,
        operand: SSAValue,
        axes: Sequence[int],
        size: Sequence[Dim | int],
        stride: Sequence[int],
        dilation: Sequence[int],
    ) -> None:
        windows = [Dim.of(s) for s in size]
        dims = list(tensor_of(operand).dims)
        for axis, window, step, spread in zip(axes, windows, stride, dilation, strict=True):
            dims[axis] = window_count(dims[axis], window, step, abs(spread))
        super().__init__(
            operands=[operand],
            result_types=[self.typed(operand, [*dims, *windows])],
            properties={
                "axes": numbers_attr(axes),
                "size": ShapeAttr.of(windows),
                "stride": numbers_attr(stride),
                "dilation": numbers_attr(dilation),
            },
        )

    @property
    def axes(self) -> tuple[int, ...]:
        """The operand axes along which windows move, increasing."""
        return numbers(self.axis_list)

    @property
    def size(self) -> Shape:
        """The elements of a window along each of ``axes``."""
        return self.size_list.data

    @property
    def stride(self) -> tuple[int, ...]:
        """The distance between windows."""
        return numbers(self.stride_list)

    @property
    def dilation(self) -> tuple[int, ...]:
        """The distance between elements of a window, negative where they run backwards."""
        return numbers(self.dilation_list)

    def verify_move(self, operand: Shape, result: Shape) -> None:
        axes = self.axes
        if any(not 0 <= a < len(operand) for a in axes) or any(a >= b for a, b in pairwise(axes)):
            raise VerifyException(
                f"axes {list(axes)} of a window are different axes of {shape_text(operand)} in "
                f"increasing order, 0 to {len(operand) - 1}"
            )
        if not axes:
            raise VerifyException("a window names at least one axis")
        for what, count in (
            ("sizes", len(self.size)),
            ("strides", len(self.stride)),
            ("dilations", len(self.dilation)),
        ):
            if count != len(axes):
                raise VerifyException(
                    f"window has {count} {what} for {len(axes)} axes; give one for each"
                )
        verify_known(self, self.size, "the size of a window")
        for value in self.stride:
            if value < 1:
                kind = "NegativeStrideUnsupported: " if value < 0 else ""
                raise VerifyException(
                    f"{kind}window has stride {value}; a view goes forward, give 1 or more"
                )
        if 0 in self.dilation:
            raise VerifyException(
                "window has dilation 0, whose elements are all one; give 1 or more, or -1 or less "
                "for a window that runs backwards"
            )
        dims = list(operand)
        rows = zip(axes, self.size, self.stride, self.dilation, strict=True)
        for axis, window, step, spread in rows:
            if not never_negative(window - 1, self):
                raise VerifyException(
                    f"window takes {window} elements along axis {axis}, which may be none; "
                    "assume the size to be 1 or more"
                )
            dims[axis] = window_count(dims[axis], window, step, abs(spread))
        expected = (*dims, *self.size)
        if not same_shape(expected, result, self):
            raise VerifyException(
                f"the windows of {shape_text(operand)} are {shape_text(expected)}; the result "
                f"says {shape_text(result)}"
            )

    @classmethod
    def parse_rest(cls, parser: Parser) -> dict[str, Attribute]:
        found: dict[str, Attribute] = {}
        for key in ("axes", "size", "stride", "dilation"):
            parser.parse_keyword(key)
            if key == "size":
                found[key] = parse_sizes(parser)
            else:
                what = "an axis of a window" if key == "axes" else f"a {key} of a window"
                found[key] = numbers_attr(parse_numbers(parser, what))
        return found

    def print_rest(self, printer: Printer) -> None:
        printer.print_string(
            f" axes {numbers_text(self.axes)} size {shape_text(self.size)} "
            f"stride {numbers_text(self.stride)} dilation {numbers_text(self.dilation)}"
        )


@irdl_op_definition
class SampleOp(MovementOp):
    """The elements of an axis at ``(step * i + offset) floordiv divisor``, as many as asked for.

    ``tiny.sample %x axis 1 step 2 offset 1 divisor 3 : [M, K] -> [M, L]``: element ``(m, i)`` is
    operand element ``(m, (2 * i + 1) floordiv 3)``.  What is read lies inside of the operand, as
    far as the assumptions say.  The nearest elements of a resize are read so.

    With ``ends`` the first or the last element is read where that is outside, and both sizes of the
    axis are numbers: ``tiny.sample %x axis 0 step 2 offset -1 divisor 4 ends : [3] -> [6]`` reads
    elements 0, 0, 0, 1, 1 and 2.
    """

    name = "tiny.sample"
    operand = operand_def(TensorType)
    axis_attr = prop_def(IntegerAttr, prop_name="axis")
    step_attr = prop_def(IntegerAttr, prop_name="step")
    offset_attr = prop_def(IntegerAttr, prop_name="offset")
    divisor_attr = prop_def(IntegerAttr, prop_name="divisor")
    ends = opt_prop_def(UnitAttr)
    result = result_def(TensorType)
    TENSOR: ClassVar[type[SizedTensorType]] = TensorType
    KEYS: ClassVar[tuple[str, ...]] = ("axis", "step", "offset", "divisor")

    def __init__(
        self,
        operand: SSAValue,
        axis: int,
        size: Dim | int,
        step: int,
        offset: int,
        divisor: int,
        *,
        ends: bool = False,
    ) -> None:
        """``size`` is that of the axis in the result."""
        dims = list(tensor_of(operand).dims)
        dims[axis] = Dim.of(size)
        numbers = zip(self.KEYS, (axis, step, offset, divisor), strict=True)
        super().__init__(
            operands=[operand],
            result_types=[self.typed(operand, dims)],
            properties={
                **{key: IntegerAttr(value, i64) for key, value in numbers},
                "ends": UnitAttr() if ends else None,
            },
        )

    @property
    def repeats_ends(self) -> bool:
        """Whether the first or the last element is read where a place is outside."""
        return self.ends is not None

    def places(self, size: int, count: int) -> list[int]:
        """Where each of ``count`` elements is read, of an axis of ``size`` ones."""
        found = [(self.step * i + self.offset) // self.divisor for i in range(count)]
        return [min(max(at, 0), size - 1) for at in found] if self.repeats_ends else found

    @property
    def axis(self) -> int:
        """The axis whose elements are read."""
        return self.axis_attr.value.data

    @property
    def step(self) -> int:
        """By how much the dividend grows from an element of the result to the next one."""
        return self.step_attr.value.data

    @property
    def offset(self) -> int:
        """The dividend at element 0."""
        return self.offset_attr.value.data

    @property
    def divisor(self) -> int:
        """What the dividend is divided by."""
        return self.divisor_attr.value.data

    def verify_move(self, operand: Shape, result: Shape) -> None:
        axis = self.axis
        if not 0 <= axis < len(operand):
            raise VerifyException(
                f"axis {axis} of a sample is not an axis of {shape_text(operand)}, which are 0 to "
                f"{len(operand) - 1}"
            )
        for what, value, least in (("step", self.step, 0), ("divisor", self.divisor, 1)):
            if value < least:
                raise VerifyException(
                    f"sample has {what} {value}, which is too small; give {least} or more"
                )
        expected = (*operand[:axis], *result[axis : axis + 1], *operand[axis + 1 :])
        if not same_shape(expected, result, self):
            raise VerifyException(
                f"a sample along axis {axis} of {shape_text(operand)} keeps the other sizes; the "
                f"result says {shape_text(result)}"
            )
        count = result[axis]
        if self.repeats_ends:
            self._verify_ends(operand[axis], count)
            return
        last = operand[axis] * self.divisor - (count - 1) * self.step - self.offset - 1
        if count.constant() != 0 and (
            self.offset < 0 or not never_negative(last, self, [count - 1])
        ):
            raise VerifyException(
                f"UnguardedAccess: sample reads ({self.step} * i + {self.offset}) floordiv "
                f"{self.divisor} of axis {axis} for i from 0 up to {count}, which is not inside of "
                f"its size {operand[axis]}, as far as the assumptions say; read less, or assume it"
            )

    def _verify_ends(self, size: Dim, count: Dim) -> None:
        if size.constant() is None or count.constant() is None:
            raise VerifyException(
                f"sample repeats the ends of axis {self.axis}, whose size {size} or {count} is no "
                "number; give numbers for both, or read what is inside"
            )
        if size.constant() == 0 and count.constant() != 0:
            raise VerifyException(
                f"sample reads the ends of axis {self.axis}, which has no element; give it one"
            )

    @classmethod
    def parse_rest(cls, parser: Parser) -> dict[str, Attribute]:
        found: dict[str, Attribute] = {}
        for key in cls.KEYS:
            parser.parse_keyword(key)
            found[key] = IntegerAttr(parse_constant(parser, f"the {key} of a sample"), i64)
        if parser.parse_optional_keyword("ends") is not None:
            found["ends"] = UnitAttr()
        return found

    def print_rest(self, printer: Printer) -> None:
        printer.print_string(
            f" axis {self.axis} step {self.step} offset {self.offset} divisor {self.divisor}"
        )
        if self.repeats_ends:
            printer.print_string(" ends")


@irdl_op_definition
class MaskOp(MovementOp):
    """The value where an affine condition on its axes holds, a fill elsewhere (S3.1).

    ``tiny.mask %x where affine_set<(d0, d1)[s0, s1] : (d0 - d1 >= 0)> fill -inf : type ->
    type``: dimensions are the axes, symbols those of the signature (S4.8).  What the
    operand holds where the condition does not has no effect.
    """

    name = "tiny.mask"
    operand = operand_def(TensorType)
    condition_attr = prop_def(AffineSetAttr, prop_name="condition")
    fill = prop_def(PlainAttr, prop_name="value")
    result = result_def(TensorType)
    TENSOR: ClassVar[type[SizedTensorType]] = TensorType

    def __init__(self, operand: SSAValue, condition: AffineSet, fill: Number) -> None:
        number = plain_attr(fill, tensor_of(operand).element_type)
        super().__init__(
            operands=[operand],
            result_types=[operand.type],
            properties={"condition": AffineSetAttr(condition), "value": number},
        )

    @property
    def condition(self) -> AffineSet:
        """Where the value stays."""
        return self.condition_attr.data

    @property
    def number(self) -> Number:
        """What is elsewhere: an int of integers."""
        return plain_number(self.fill)

    def verify_(self) -> None:
        need_number("mask", (self.operand,))
        super().verify_()
        if (fault := plain_fault(self.fill, tensor_of(self.operand).element_type)) is not None:
            raise VerifyException(f"the fill of a mask: {fault}")

    def verify_move(self, operand: Shape, result: Shape) -> None:
        if not same_shape(operand, result, self):
            raise VerifyException(
                f"a mask keeps the shape; the operand is {shape_text(operand)}, the "
                f"result {shape_text(result)}"
            )
        condition = self.condition
        if condition.num_dims != len(operand):
            raise VerifyException(
                f"the condition of a mask has {condition.num_dims} dimensions for the "
                f"{len(operand)} axes of {shape_text(operand)}; give one for each"
            )
        graph = graph_of(self)
        if graph is not None and condition.num_symbols != len(graph.symbol_names):
            names = ", ".join(graph.symbol_names) or "none"
            raise VerifyException(
                f"the condition of a mask has {condition.num_symbols} symbols; the signature of "
                f"@{graph.sym_name.data} has {len(graph.symbol_names)}: {names}"
            )
        from polyc.affine.expressions import canonical_set

        try:
            canonical_set(condition)
        except ValueError as error:
            raise VerifyException(f"NonSCoP: the condition of a mask: {error}") from error

    @classmethod
    def parse_rest(cls, parser: Parser) -> dict[str, Attribute]:
        parser.parse_keyword("where")
        start = parser.pos
        condition = parser.parse_attribute()
        if not isinstance(condition, AffineSetAttr):
            parser.raise_error(f"expected an affine_set, not {condition}", start, parser.pos)
        parser.parse_keyword("fill")
        return {"condition": condition, "value": parse_plain(parser)}

    def print_rest(self, printer: Printer) -> None:
        printer.print_string(" where ")
        printer.print_attribute(self.condition_attr)
        printer.print_string(f" fill {number_text(self.number)}")
