"""Pooling of ``frontend``: a function of the elements of each window, and where the largest or
smallest of them stands (S2.2, S4.9)."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import ClassVar, Self

from xdsl.dialects.builtin import DenseArrayBase, StringAttr, UnitAttr, i32, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.common.dim import Dim, Shape, ShapeAttr, shape_text
from polyc.dialects.common.movements import (
    numbers,
    numbers_attr,
    numbers_text,
    parse_numbers,
    parse_sizes,
)
from polyc.dialects.common.sizes import (
    inferred,
    never_negative,
    product,
    verify_known,
    window_count,
)
from polyc.dialects.frontend.reductions import AlongAxes
from polyc.dialects.frontend.selection import EXTREMES, need_places
from polyc.dialects.frontend.types import (
    TensorType,
    need_axes,
    need_float,
    need_number,
    parse_typed,
    print_typed,
    tensor,
    tensor_of,
)

POOLINGS = ("l1", "l2", "max", "mean", "min", "sum")
"""Functions of ``frontend.pool``."""

MOST_PLACES = 2**32 - 1
"""The elements of a plane whose places ``frontend.arg_pool`` can tell apart."""

MOST_OF_I32 = 2**31
"""Elements of which an i32 is a place."""

OF_REAL_NUMBERS = ("l2", "mean")
"""Those that integers do not have: a root and a quotient are no integers."""


def pool_room(
    size: Sequence[Dim],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil: bool,
) -> list[tuple[int, int]]:
    """The places before and after each axis within which all windows of a pool are whole.

    That is the padding.  With ``ceil``, and then for constant sizes, there is a step less one more
    after it, so that a window fits which begins inside; but less than a window, so that none begins
    at the end of the operand or behind it.
    """
    found: list[tuple[int, int]] = []
    ends = zip(padding[::2], padding[1::2], strict=True)
    for (low, high), count, step, spread in zip(ends, size, stride, dilation, strict=True):
        span = ((count.constant() or 1) - 1) * spread + 1
        found.append((low, min(high + step - 1, span - 1) if ceil else high))
    return found


def pool_shape(
    dims: Shape,
    axes: Sequence[int],
    size: Sequence[Dim],
    stride: Sequence[int],
    room: Sequence[tuple[int, int]],
    dilation: Sequence[int],
) -> Shape:
    """The shape of a pool: along each of ``axes`` as many as there are windows in ``room``.

    Raises ValueError where a window is too large by more than a step.
    """
    shape = list(dims)
    rows = zip(axes, size, stride, room, dilation, strict=True)
    for axis, count, step, (low, high), spread in rows:
        shape[axis] = window_count(shape[axis] + low + high, count, step, spread)
        if (shape[axis].constant() or 0) < 0:
            raise ValueError(f"no window of {count} fits")
    return tuple(shape)


class PooledOp(AlongAxes, ABC):
    """A function of the elements of each window along axes, whatever these are."""

    fn = prop_def(StringAttr)
    operand = operand_def(TensorType)
    result = result_def(TensorType)

    FUNCTIONS: ClassVar[tuple[str, ...]]
    """Those that the op has."""

    @property
    def function(self) -> str:
        return self.fn.data

    @classmethod
    def fault(cls, fn: str) -> str | None:
        """What is wrong with a function's name, or None."""
        if fn in cls.FUNCTIONS:
            return None
        return f"{fn} is not a function of {cls.name}; there are {', '.join(cls.FUNCTIONS)}"

    @classmethod
    def parse_function(cls, parser: Parser) -> StringAttr:
        """The function's name, which the text of each begins with."""
        start = parser.pos
        fn = parser.parse_identifier("a pooling")
        if (fault := cls.fault(fn)) is not None:
            parser.raise_error(fault, start, parser.pos)
        return StringAttr(fn)

    def need_elements(self, what: str) -> None:
        need = need_float if self.function in OF_REAL_NUMBERS else need_number
        need(f"{what} {self.function}", (self.operand,))

    def verify_function(self) -> None:
        """Check that there is such a function.  Raises VerifyException."""
        if (fault := self.fault(self.function)) is not None:
            raise VerifyException(fault)


class WindowsOp(PooledOp, ABC):
    """A function of the elements of each window along axes.

    Window ``o`` has the elements ``stride * o + dilation * r - low``, for ``r`` from 0 up to its
    size; ``padding`` is before and after each axis in turn.  There are as many windows as fit
    whole.  With ``ceil_mode`` the last one may reach beyond the padding, and one that starts at the
    end of the operand or behind it is dropped, as PyTorch and ONNX have it.
    """

    size_list = prop_def(ShapeAttr, prop_name="size")
    stride_list = prop_def(DenseArrayBase, prop_name="stride")
    padding_list = prop_def(DenseArrayBase, prop_name="padding")
    dilation_list = prop_def(DenseArrayBase, prop_name="dilation")
    ceil_mode = opt_prop_def(UnitAttr)

    WORDS: ClassVar[tuple[str, ...]]
    """The words that may stand behind the numbers in the text, each a property."""

    def __init__(
        self,
        fn: str,
        operand: SSAValue,
        axes: Sequence[int],
        size: Sequence[Dim | int],
        stride: Sequence[int] | None,
        padding: Sequence[int] | None,
        dilation: Sequence[int] | None,
        element: Attribute,
        *,
        words: Sequence[str] = (),
    ) -> None:
        """``words`` of ``WORDS`` are said; ``element`` is the result's type."""
        sizes = ShapeAttr.of(size)
        steps, spreads = (list(n) if n else [1] * len(axes) for n in (stride, dilation))
        ends = list(padding) if padding else [0, 0] * len(axes)
        dims = tensor_of(operand).dims

        def shape() -> Shape:
            room = pool_room(sizes.data, steps, ends, spreads, "ceil_mode" in words)
            return pool_shape(dims, axes, sizes.data, steps, room, spreads)

        super().__init__(
            operands=[operand],
            result_types=[tensor(inferred(shape), element)],
            properties={
                "fn": StringAttr(fn),
                "axes": numbers_attr(axes),
                "size": sizes,
                "stride": numbers_attr(steps),
                "padding": numbers_attr(ends),
                "dilation": numbers_attr(spreads),
                **{word: UnitAttr() for word in words},
            },
        )

    @property
    def size(self) -> Shape:
        """The elements of a window along each of ``axes``."""
        return self.size_list.data

    @property
    def stride(self) -> tuple[int, ...]:
        """The distance between windows."""
        return numbers(self.stride_list)

    @property
    def padding(self) -> tuple[int, ...]:
        """Places before and after each of ``axes``, in turn."""
        return numbers(self.padding_list)

    @property
    def dilation(self) -> tuple[int, ...]:
        """The distance between elements of a window."""
        return numbers(self.dilation_list)

    def room(self) -> list[tuple[int, int]]:
        """The places before and after each of ``axes`` within which all windows are whole."""
        ceil = self.ceil_mode is not None
        return pool_room(self.size, self.stride, self.padding, self.dilation, ceil)

    @property
    def one(self) -> str:
        """The op's name with an article."""
        name = self.name.split(".")[1]
        return f"{'an' if name.startswith('a') else 'a'} {name}"

    def verify_words(self) -> None:
        """Check what the words say of the function.  Raises VerifyException."""

    def result_shape(self) -> Shape:
        dims = tensor_of(self.operand).dims
        return pool_shape(dims, self.axes, self.size, self.stride, self.room(), self.dilation)

    def verify_(self) -> None:
        self.verify_function()
        dims, what = tensor_of(self.operand).dims, self.name.split(".")[1]
        need_axes(what, self.axes, dims)
        self._verify_numbers(what)
        verify_known(self, self.size, f"the size of {self.one}")
        for axis, size in zip(self.axes, self.size, strict=True):
            if not never_negative(size - 1, self):
                raise VerifyException(
                    f"{what} has windows of {size} along axis {axis}, which may be none; give 1 or "
                    "more, or assume it"
                )
            if self.ceil_mode is not None and size.constant() is None:
                raise VerifyException(
                    f"{what} has windows of {size} along axis {axis} with ceil_mode, where how "
                    "many there are depends on their size; give a number, or leave ceil_mode out"
                )
        self.verify_words()
        rows = zip(self.axes, self.room(), self.size, self.dilation, strict=True)
        for axis, (low, high), size, spread in rows:
            span = (size - 1) * spread + 1
            whole = dims[axis] + low + high
            if (left := (whole - span).constant()) is not None and left < -1:
                raise VerifyException(
                    f"{what} has windows that span {span} along axis {axis}, which is {whole} with "
                    "its padding; pad more or take smaller windows"
                )
        super().verify_()

    def _verify_numbers(self, name: str) -> None:
        count = len(self.axes)
        for what, values, wanted, least in (
            ("size", self.size, count, None),
            ("stride", self.stride, count, 1),
            ("padding", self.padding, 2 * count, 0),
            ("dilation", self.dilation, count, 1),
        ):
            if len(values) != wanted:
                each = "two, before and after," if what == "padding" else "one"
                raise VerifyException(
                    f"{name} has {len(values)} numbers of {what} for axes {list(self.axes)}; give "
                    f"{each} for each axis"
                )
            for value in values:
                if least is not None and isinstance(value, int) and value < least:
                    kind = "NegativeStrideUnsupported: " if what != "padding" and value < 0 else ""
                    raise VerifyException(
                        f"{kind}{what} {value} of {self.one} is too small; give {least} or more"
                    )

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        properties: dict[str, Attribute] = {"fn": cls.parse_function(parser)}
        unresolved = [parser.parse_unresolved_operand()]
        for key in ("axes", "size", "stride", "padding", "dilation"):
            parser.parse_keyword(key)
            if key == "size":
                properties[key] = parse_sizes(parser)
            else:
                what = "an axis of a pool" if key == "axes" else f"a {key} of a pool"
                properties[key] = numbers_attr(parse_numbers(parser, what))
        for key in cls.WORDS:
            if parser.parse_optional_keyword(key) is not None:
                properties[key] = UnitAttr()
        args, results, attributes = parse_typed(parser, unresolved)
        return cls.create(
            operands=args, result_types=results, properties=properties, attributes=attributes
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.function} ")
        printer.print_operand(self.operand)
        printer.print_string(
            f" axes {numbers_text(self.axes)} size {shape_text(self.size)} "
            f"stride {numbers_text(self.stride)} padding {numbers_text(self.padding)} "
            f"dilation {numbers_text(self.dilation)}"
        )
        for key in self.WORDS:
            if key in self.properties:
                printer.print_string(f" {key}")
        print_typed(printer, self, {})


@irdl_op_definition
class PoolOp(WindowsOp):
    """A function of the elements of each window along axes (S2.2, S4.9).

    ``frontend.pool max %x axes [2, 3] size [3, 3] stride [2, 2] padding [1, 1, 1, 1]
    dilation [1, 1] : [N, C, H, W] -> [N, C, (H - 1) floordiv 2 + 1, …]``.

    What is outside of the operand has no effect: it is -inf for ``max``, +inf for ``min``, which
    are the least and the largest number of integers, and 0 for the sums.  ``l1`` is the sum of
    absolute values, ``l2`` the root of the sum of squares.  ``mean`` divides the sum by the number
    of the window's elements that are inside of the operand, or with ``count_include_pad`` inside of
    the padding too.
    """

    name = "frontend.pool"
    count_include_pad = opt_prop_def(UnitAttr)

    FUNCTIONS: ClassVar[tuple[str, ...]] = POOLINGS
    WORDS: ClassVar[tuple[str, ...]] = ("ceil_mode", "count_include_pad")

    def __init__(
        self,
        fn: str,
        operand: SSAValue,
        axes: Sequence[int],
        size: Sequence[Dim | int],
        *,
        stride: Sequence[int] | None = None,
        padding: Sequence[int] | None = None,
        dilation: Sequence[int] | None = None,
        ceil_mode: bool = False,
        count_include_pad: bool = False,
    ) -> None:
        """``stride`` and ``dilation`` are 1 and ``padding`` is 0 unless given."""
        said = zip(self.WORDS, (ceil_mode, count_include_pad), strict=True)
        words = [word for word, wanted in said if wanted]
        element = tensor_of(operand).element_type
        super().__init__(fn, operand, axes, size, stride, padding, dilation, element, words=words)

    def verify_words(self) -> None:
        if self.count_include_pad is not None and self.function != "mean":
            raise VerifyException(
                f"count_include_pad says what a mean divides by, and this pool is a "
                f"{self.function}; leave it out"
            )


@irdl_op_definition
class ArgPoolOp(WindowsOp):
    """Where the largest or smallest element of each window stands, the first of equal ones (S2.2).

    ``frontend.arg_pool max %x axes [2, 3] size [2, 2] stride [2, 2] padding [0, 0, 0, 0]
    dilation [1, 1] : [N, C, H, W] -> [N, C, H floordiv 2, W floordiv 2]``: a place is that in the
    plane of ``axes``, ``i * W + j`` here, as PyTorch counts; with ``whole`` that in the operand,
    ``((n * C + c) * H + i) * W + j``, as ONNX does.  Windows are those of ``frontend.pool``; what
    is outside of the operand is no element, and a window of nothing has the place -1.  NaN is above
    all for a max and below all for a min.  Places are i64 or i32.
    """

    name = "frontend.arg_pool"
    whole = opt_prop_def(UnitAttr)

    FUNCTIONS: ClassVar[tuple[str, ...]] = EXTREMES
    WORDS: ClassVar[tuple[str, ...]] = ("ceil_mode", "whole")

    def __init__(
        self,
        fn: str,
        operand: SSAValue,
        axes: Sequence[int],
        size: Sequence[Dim | int],
        *,
        stride: Sequence[int] | None = None,
        padding: Sequence[int] | None = None,
        dilation: Sequence[int] | None = None,
        ceil_mode: bool = False,
        whole: bool = False,
        element: Attribute = i64,
    ) -> None:
        """``stride`` and ``dilation`` are 1 and ``padding`` is 0 unless given."""
        said = zip(self.WORDS, (ceil_mode, whole), strict=True)
        words = [word for word, wanted in said if wanted]
        super().__init__(fn, operand, axes, size, stride, padding, dilation, element, words=words)

    def need_result(self, what: str) -> None:
        need_places(f"an {what}", self.result)

    def verify_words(self) -> None:
        dims = tensor_of(self.operand).dims
        plane = product(dims[axis] for axis in self.axes).constant()
        if plane is not None and plane > MOST_PLACES:
            raise VerifyException(
                f"arg_pool has a plane of {plane} elements, and a place in it is one of "
                f"{MOST_PLACES}; slice it"
            )
        count = plane if self.whole is None else product(dims).constant()
        element = tensor_of(self.result).element_type
        if element == i32 and count is not None and count > MOST_OF_I32:
            raise VerifyException(
                f"arg_pool has places of i32 among {count} elements, of which i32 has "
                f"{MOST_OF_I32}; take i64"
            )
