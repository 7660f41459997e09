"""The convolutions of ``frontend``, along one, two and three axes, and transposed (S2.2, S4.9)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Self

from xdsl.dialects.builtin import DenseArrayBase, Float32Type, StringAttr, f32
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

from polyc.dialects.common.dim import Dim, DimAttr, Shape, parse_dim, shape_text
from polyc.dialects.common.movements import numbers, numbers_attr, numbers_text, parse_numbers
from polyc.dialects.common.signature import same_shape, same_size, verify_symbols
from polyc.dialects.common.sizes import (
    divided,
    inferred,
    never_negative,
    verify_known,
    window_count,
)
from polyc.dialects.frontend.products import need_precision, need_product_types
from polyc.dialects.frontend.types import (
    TensorType,
    need_accumulator,
    parse_typed,
    parse_values,
    print_typed,
    tensor,
    tensor_of,
)

SIDES = {1: ("W",), 2: ("H", "W"), 3: ("D", "H", "W")}
"""The names of the axes that windows move along."""

LAYOUTS_OF = {1: ("ncw", "nwc"), 2: ("nchw", "nhwc"), 3: ("ncdhw", "ndhwc")}
"""Of a convolution along so many axes: channels before them, or after them."""

LAYOUTS = LAYOUTS_OF[2]
"""Layouts of ``frontend.conv2d``; the weight is [F, C, R, S] or [F, R, S, C]."""


def canonical(layout: str, dims: Shape) -> Shape:
    """The sizes of an image, a weight or a result in the order of ``nchw``."""
    if not layout.endswith("c"):
        return dims
    first, *sides, channels = dims
    return (first, channels, *sides)


def laid(layout: str, first: Dim, channels: Dim, sides: Sequence[Dim]) -> Shape:
    """Sizes in the order of a layout."""
    return (first, *sides, channels) if layout.endswith("c") else (first, channels, *sides)


class ConvBase(IRDLOperation, ABC):
    """An image and a weight, ``op layout %x, %w stride … groups 1 {acc = f32} : types``.

    A subclass says along how many axes windows move, and what its shapes are.
    """

    layout_attr = prop_def(StringAttr, prop_name="layout")
    image = operand_def(TensorType)
    weight = operand_def(TensorType)
    stride_list = prop_def(DenseArrayBase, prop_name="stride")
    padding_list = prop_def(DenseArrayBase, prop_name="padding")
    dilation_list = prop_def(DenseArrayBase, prop_name="dilation")
    groups_attr = prop_def(DimAttr, prop_name="groups")
    acc = opt_prop_def(Float32Type)
    precision = opt_prop_def(StringAttr)
    result = result_def(TensorType)
    traits = traits_def(Pure())

    COUNT: ClassVar[int]
    """Axes that windows move along."""

    LISTS: ClassVar[tuple[str, ...]] = ("stride", "padding", "dilation")
    """The lists of numbers in the order of the text."""

    def _made(
        self,
        image: SSAValue,
        weight: SSAValue,
        layout: str,
        lists: Mapping[str, Sequence[int] | None],
        groups: Dim | int,
        precision: str | None,
        result_type: TensorType | None,
    ) -> None:
        """What constructors have in common; a list that is not given is of ones or zeros."""
        given = {
            key: list(values)
            if values is not None
            else [0 if "padding" in key else 1] * self.COUNT * (2 if key == "padding" else 1)
            for key, values in lists.items()
        }
        if result_type is None:
            x, w = tensor_of(image), tensor_of(weight)
            shape = inferred(lambda: self.shape(layout, x.dims, w.dims, given, Dim.of(groups)))
            result_type = tensor(shape, x.element_type)
        super().__init__(
            operands=[image, weight],
            result_types=[result_type],
            properties={
                "layout": StringAttr(layout),
                **{key: numbers_attr(values) for key, values in given.items()},
                "groups": DimAttr(Dim.of(groups)),
                "acc": f32,
                "precision": None if precision is None else StringAttr(precision),
            },
        )

    @property
    def layout(self) -> str:
        """``nchw`` or ``nhwc``, or what that is along one axis or three."""
        return self.layout_attr.data

    @property
    def channels_first(self) -> bool:
        """Whether channels come before the axes that windows move along."""
        return not self.layout.endswith("c")

    @property
    def stride(self) -> tuple[int, ...]:
        """The distance between windows along each axis."""
        return numbers(self.stride_list)

    @property
    def padding(self) -> tuple[int, ...]:
        """Zeros before and after each axis in turn, as before and after H, before and after W."""
        return numbers(self.padding_list)

    @property
    def dilation(self) -> tuple[int, ...]:
        """The distance between elements of a window along each axis."""
        return numbers(self.dilation_list)

    @property
    def groups(self) -> Dim:
        """How many groups channels and filters are in."""
        return self.groups_attr.data

    @property
    def lists(self) -> Mapping[str, Sequence[int]]:
        """The lists of numbers by name."""
        return {key: getattr(self, key) for key in self.LISTS}

    @classmethod
    def word(cls) -> str:
        """What the op is called in a sentence."""
        return cls.name.split(".")[1]

    @classmethod
    def fault(cls, layout: str) -> str | None:
        """What is wrong with a layout's name, or None."""
        known = LAYOUTS_OF[cls.COUNT]
        if layout in known:
            return None
        return f"{layout} is not a layout of {cls.word()}; there are {', '.join(known)}"

    @classmethod
    @abstractmethod
    def shape(
        cls,
        layout: str,
        image: Shape,
        weight: Shape,
        lists: Mapping[str, Sequence[int]],
        groups: Dim,
    ) -> Shape:
        """The shape of the result."""

    @abstractmethod
    def verify_sizes(self, channels: Dim, sides: Shape, weight: Shape) -> None:
        """Check an image's channels and its other sizes, and a weight's sizes in channels-first
        order; raises VerifyException."""

    def verify_(self) -> None:
        verify_symbols(self)
        word, rank = self.word(), self.COUNT + 2
        if (fault := self.fault(self.layout)) is not None:
            raise VerifyException(fault)
        need_accumulator(word, self.acc)
        x, w = tensor_of(self.image), tensor_of(self.weight)
        for what, t in (("an image", x), ("a weight", w)):
            if t.rank != rank:
                raise VerifyException(
                    f"{word} takes {what} of rank {rank}, not {t} of rank {t.rank}"
                )
        need_product_types(word, self.operands, self.result)
        need_precision(word, self.precision, self.image)
        self._verify_numbers()
        _, channels, *sides = canonical(self.layout, x.dims)
        weight = canonical(self.layout, w.dims)
        verify_known(self, (self.groups,), f"the groups of a {word}")
        for side, taps in zip(SIDES[self.COUNT], weight[2:], strict=True):
            if not never_negative(taps - 1, self):
                raise VerifyException(
                    f"{word} has a window of {taps} along {side}, which may be none; give 1 or "
                    "more, or assume it"
                )
        self.verify_sizes(channels, tuple(sides), weight)
        expected = self.shape(self.layout, x.dims, w.dims, self.lists, self.groups)
        found = tensor_of(self.result).dims
        if not same_shape(expected, found, self):
            raise VerifyException(
                f"{word} of {shape_text(x.dims)} and {shape_text(w.dims)} is "
                f"{shape_text(expected)}; the result says {shape_text(found)}"
            )

    def need_groups(self, what: str, filters: Dim) -> None:
        """Check that ``what``, ``filters`` of them, come in groups."""
        if divided(filters, self.groups, self) is None:
            raise VerifyException(
                f"{self.word()} divides {filters} {what} into {self.groups} groups, which does not "
                "come out even as far as the assumptions say; change the groups, or assume it"
            )

    def _verify_numbers(self) -> None:
        word, sides = self.word(), " and then ".join(SIDES[self.COUNT])
        for what, values in self.lists.items():
            count = self.COUNT * (2 if what == "padding" else 1)
            least = 0 if "padding" in what else 1
            if len(values) != count:
                raise VerifyException(
                    f"{word} has {len(values)} numbers of {what}; give {count}, for {sides}"
                )
            for value in values:
                if value < least:
                    kind = "NegativeStrideUnsupported: " if least and value < 0 else ""
                    raise VerifyException(
                        f"{kind}{what} {value} of a {word} is too small; give {least} or more"
                    )

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        start = parser.pos
        layout = parser.parse_identifier("a layout")
        if (fault := cls.fault(layout)) is not None:
            parser.raise_error(fault, start, parser.pos)
        unresolved = parse_values(parser)
        properties: dict[str, Attribute] = {"layout": StringAttr(layout)}
        for key in cls.LISTS:
            parser.parse_keyword(key)
            properties[key] = numbers_attr(parse_numbers(parser, f"a {key} of a {cls.word()}"))
        parser.parse_keyword("groups")
        properties["groups"] = DimAttr(parse_dim(parser))
        args, results, attributes = parse_typed(parser, unresolved)
        for key in ("acc", "precision"):
            if (found := attributes.pop(key, None)) is not None:
                properties[key] = found
        return cls.create(
            operands=args, result_types=results, properties=properties, attributes=attributes
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.layout} ")
        printer.print_list(self.operands, printer.print_operand)
        for key, values in self.lists.items():
            printer.print_string(f" {key} {numbers_text(values)}")
        printer.print_string(f" groups {self.groups}")
        said = {"acc": self.acc, "precision": self.precision}
        print_typed(printer, self, {key: a for key, a in said.items() if a is not None})


class ConvOp(ConvBase, ABC):
    """A convolution as neural networks have it, a correlation (S2.2, S4.9)."""

    def __init__(
        self,
        image: SSAValue,
        weight: SSAValue,
        *,
        layout: str | None = None,
        stride: Sequence[int] | None = None,
        padding: Sequence[int] | None = None,
        dilation: Sequence[int] | None = None,
        groups: Dim | int = 1,
        precision: str | None = None,
        result_type: TensorType | None = None,
    ) -> None:
        """The layout has channels first unless given; strides and dilations are 1, padding 0."""
        lists = {"stride": stride, "padding": padding, "dilation": dilation}
        named = LAYOUTS_OF[self.COUNT][0] if layout is None else layout
        self._made(image, weight, named, lists, groups, precision, result_type)

    @classmethod
    def shape(
        cls,
        layout: str,
        image: Shape,
        weight: Shape,
        lists: Mapping[str, Sequence[int]],
        groups: Dim,
    ) -> Shape:
        n, _, *sides = canonical(layout, image)
        filters, _, *window = canonical(layout, weight)
        counts = [
            window_count(size + low + high, taps, step, spread)
            for size, taps, step, (low, high), spread in _along(sides, window, lists)
        ]
        return laid(layout, n, filters, counts)

    def verify_sizes(self, channels: Dim, sides: Shape, weight: Shape) -> None:
        word, groups = self.word(), self.groups
        filters, inner, *window = weight
        if not same_size(groups * inner, channels, self):
            x, w = (tensor_of(v).dims for v in (self.image, self.weight))
            raise VerifyException(
                f"{word} in {groups} groups reads {groups} * {inner} channels, and the image has "
                f"{channels}: image {shape_text(x)}, weight {shape_text(w)}; the weight's "
                "channels are those of one group"
            )
        self.need_groups("filters", filters)
        rows = zip(SIDES[self.COUNT], _along(sides, window, self.lists), strict=True)
        for side, (size, taps, _, (low, high), spread) in rows:
            reach = size + low + high - (taps - 1) * spread - 1
            if (room := reach.constant()) is not None and room < -1:
                raise VerifyException(
                    f"{word} has a window that spans {(taps - 1) * spread + 1} along {side}, which "
                    f"is {size + low + high} with its padding; pad more or take a smaller window"
                )


def _along(
    sides: Sequence[Dim], window: Sequence[Dim], lists: Mapping[str, Sequence[int]]
) -> Iterator[tuple[Dim, Dim, int, tuple[int, int], int]]:
    """Of each axis that windows move along its size, taps, stride, padding and dilation."""
    padding = lists["padding"]
    ends = zip(padding[::2], padding[1::2], strict=True)
    return zip(sides, window, lists["stride"], ends, lists["dilation"], strict=True)


@irdl_op_definition
class Conv1dOp(ConvOp):
    """A convolution along one axis: an image [N, C, W] and a weight [F, C / groups, S].

    ``frontend.conv1d ncw %x, %w stride [1] padding [1, 1] dilation [1] groups 1 {acc = f32} :
    (types) -> type``; in layout ``nwc`` [N, W, C] and [F, S, C / groups].  See ``Conv2dOp``.
    """

    name = "frontend.conv1d"
    COUNT: ClassVar[int] = 1


@irdl_op_definition
class Conv2dOp(ConvOp):
    """A convolution over two axes, as neural networks have it (a correlation; S2.2, S4.9).

    ``frontend.conv2d nchw %x, %w stride [2, 2] padding [1, 1, 1, 1] dilation [1, 1]
    groups 1 {acc = f32} : (types) -> type``.

    In layout ``nchw`` the image is [N, C, H, W] and the weight [F, C / groups, R, S]; in
    ``nhwc`` they are [N, H, W, C] and [F, R, S, C / groups].  ``padding`` is before and
    after H, then before and after W, with zeros.  The result has
    ``(H + lo + hi - dilation * (R - 1) - 1) floordiv stride + 1`` rows.  Group ``g`` of the
    F filters reads group ``g`` of the channels.  Operands are rounded to their element
    type first, and the sum is accumulated in ``acc`` (S0.6).  ``precision`` is as of
    ``frontend.gemm``.
    """

    name = "frontend.conv2d"
    COUNT: ClassVar[int] = 2


@irdl_op_definition
class Conv3dOp(ConvOp):
    """A convolution over three axes: an image [N, C, D, H, W], a weight [F, C / groups, T, R, S].

    ``frontend.conv3d ncdhw %x, %w stride [1, 1, 1] padding [1, 1, 1, 1, 1, 1] dilation [1, 1, 1]
    groups 1 {acc = f32} : (types) -> type``; in layout ``ndhwc`` [N, D, H, W, C] and
    [F, T, R, S, C / groups].  See ``Conv2dOp``.
    """

    name = "frontend.conv3d"
    COUNT: ClassVar[int] = 3


class ConvTransposeOp(ConvBase, ABC):
    """A transposed convolution: what a convolution's gradient is to its image.

    An image [N, C, H, W] and a weight [C, F / groups, R, S], in the order of the layout.  Element
    ``o`` of the result is the sum over the channels, and over those taps r for which ``o + low -
    dilation * r`` is a multiple of the stride, of the image there, 0 outside of it, times the
    weight.  The result has ``stride * (H - 1) - low - high + dilation * (R - 1) + output_padding +
    1`` rows.
    """

    output_padding_list = prop_def(DenseArrayBase, prop_name="output_padding")
    LISTS: ClassVar[tuple[str, ...]] = ("stride", "padding", "output_padding", "dilation")

    def __init__(
        self,
        image: SSAValue,
        weight: SSAValue,
        *,
        layout: str | None = None,
        stride: Sequence[int] | None = None,
        padding: Sequence[int] | None = None,
        output_padding: Sequence[int] | None = None,
        dilation: Sequence[int] | None = None,
        groups: Dim | int = 1,
        precision: str | None = None,
        result_type: TensorType | None = None,
    ) -> None:
        """The layout has channels first unless given; strides and dilations are 1, padding 0."""
        lists = {
            "stride": stride,
            "padding": padding,
            "output_padding": output_padding,
            "dilation": dilation,
        }
        named = LAYOUTS_OF[self.COUNT][0] if layout is None else layout
        self._made(image, weight, named, lists, groups, precision, result_type)

    @property
    def output_padding(self) -> tuple[int, ...]:
        """Rows and columns more at the end of the result."""
        return numbers(self.output_padding_list)

    @classmethod
    def shape(
        cls,
        layout: str,
        image: Shape,
        weight: Shape,
        lists: Mapping[str, Sequence[int]],
        groups: Dim,
    ) -> Shape:
        n, _, *sides = canonical(layout, image)
        _, filters, *window = canonical(layout, weight)
        rows = zip(_along(sides, window, lists), lists["output_padding"], strict=True)
        counts = [
            (size - 1) * step - low - high + (taps - 1) * spread + more + 1
            for (size, taps, step, (low, high), spread), more in rows
        ]
        if any((count.constant() or 0) < 0 for count in counts):
            raise ValueError("a size comes out negative")
        return laid(layout, n, filters * groups, counts)

    def verify_sizes(self, channels: Dim, sides: Shape, weight: Shape) -> None:
        word = self.word()
        inner, _, *window = weight
        if not same_size(inner, channels, self):
            x, w = (tensor_of(v).dims for v in (self.image, self.weight))
            raise VerifyException(
                f"{word} reads {inner} channels, and the image has {channels}: image "
                f"{shape_text(x)}, weight {shape_text(w)}; the weight's first axis is the channels"
            )
        self.need_groups("channels", channels)
        rows = zip(
            SIDES[self.COUNT], _along(sides, window, self.lists), self.output_padding, strict=True
        )
        for side, (size, taps, step, (low, high), spread), more in rows:
            if taps.constant() is None:
                raise VerifyException(
                    f"{word} has a window of {taps} along {side}, and which taps an element has "
                    "follows from a number; give one"
                )
            count = (size - 1) * step + (taps - 1) * spread + more + 1
            if ((count - low - high).constant() or 0) < 0:
                raise VerifyException(
                    f"{word} cuts {low} and {high} places along {side} of {count}; take less "
                    "padding"
                )


@irdl_op_definition
class ConvTranspose1dOp(ConvTransposeOp):
    """A transposed convolution along one axis; see ``ConvTransposeOp``.

    ``frontend.conv_transpose1d ncw %x, %w stride [2] padding [1, 1] output_padding [1] dilation [1]
    groups 1 {acc = f32} : (types) -> type``.
    """

    name = "frontend.conv_transpose1d"
    COUNT: ClassVar[int] = 1


@irdl_op_definition
class ConvTranspose2dOp(ConvTransposeOp):
    """A transposed convolution over two axes; see ``ConvTransposeOp``.

    ``frontend.conv_transpose2d nchw %x, %w stride [2, 2] padding [1, 1, 1, 1] output_padding [0, 0]
    dilation [1, 1] groups 1 {acc = f32} : (types) -> type``.
    """

    name = "frontend.conv_transpose2d"
    COUNT: ClassVar[int] = 2


@irdl_op_definition
class ConvTranspose3dOp(ConvTransposeOp):
    """A transposed convolution over three axes; see ``ConvTransposeOp``."""

    name = "frontend.conv_transpose3d"
    COUNT: ClassVar[int] = 3
