"""Convolution geometry: the attribute of the tile level and the tensor map of the hardware.

A convolution reads, for each pixel of its output and each tap (r, s) of its filter, one pixel
of its NHWC input.  Taken tap by tap, the pixels of the output are the rows of a matrix whose
columns are the input's channels (implicit GEMM).  Pairs of numbers are (height, width).

Sources: PTX ISA, "im2col mode" (bounding box, traversal stride, access outside);
CUDA driver API, cuTensorMapEncodeIm2col.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, IntAttr
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.common.dim import Dim
from polyc.dialects.gpu.types import element_bytes, parse_tf32, verify_tf32

CORNERS = (-128, 127)
"""What a corner of a bounding box in two axes may be."""

MAX_STRIDE = 8
"""The longest step of a copy through its tensor."""

MAX_OFFSET = 255
"""The farthest tap from the filter's base."""

MAX_PIXELS = 1024
"""Pixels of one copy."""

MAX_CHANNELS = 256
"""Channels of one copy."""


def _ints(parser: AttrParser, count: int, what: str) -> ArrayAttr[IntAttr]:
    pos = parser.pos
    found = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
    if len(found) != count:
        parser.raise_error(f"{what} is {count} numbers, not {len(found)}", pos, parser.pos)
    return ArrayAttr(map(IntAttr, found))


def _text(values: Sequence[int]) -> str:
    return "[" + ", ".join(map(str, values)) + "]"


def _pair(values: ArrayAttr[IntAttr]) -> tuple[int, int]:
    first, second = (v.data for v in values)
    return first, second


@irdl_attr_definition
class Im2colMapType(ParametrizedAttribute, TypeAttribute):
    """A TMA descriptor that reads the rows of an implicit GEMM from an NHWC tensor.

    ``!gpu.im2col_map<[128, 64], f16, swizzle 128, lower [-1, -1], upper [-1, -1], strides [1, 1]>``
    copies 64 channels of 128 pixels at once.  The pixels are where the filter's base may stand: in
    the bounding box from ``lower`` (against the image's first pixel) to ``upper`` (against its
    last one), every ``strides``-th, row after row and image after image.  The tap is a further
    operand of the copy (``gpu.tma_load_im2col``); pixels outside the image arrive as zeros.
    What one loads that ends with ``, tf32`` is rounded to TF32, as of a tensor map.
    For padding p, dilation d and a filter of n taps, lower is -p and upper is p - (n - 1) d.
    Where an image is padded by other numbers at its end, those are upper's p.
    """

    name = "gpu.im2col_map"
    box: ArrayAttr[IntAttr]
    element_type: Attribute
    swizzle: IntAttr
    lower: ArrayAttr[IntAttr]
    upper: ArrayAttr[IntAttr]
    strides: ArrayAttr[IntAttr]
    tf32: IntAttr

    @staticmethod
    def of(
        box: Sequence[int],
        element_type: Attribute,
        swizzle: int,
        lower: Sequence[int],
        upper: Sequence[int],
        strides: Sequence[int] = (1, 1),
        tf32: bool = False,
    ) -> Im2colMapType:
        def ints(values: Sequence[int]) -> ArrayAttr[IntAttr]:
            return ArrayAttr(map(IntAttr, values))

        corners = ints(lower), ints(upper)
        rounds = IntAttr(int(tf32))
        return Im2colMapType(
            ints(box), element_type, IntAttr(swizzle), *corners, ints(strides), rounds
        )

    @property
    def rounds(self) -> bool:
        """Whether what it loads is rounded to TF32."""
        return self.tf32.data != 0

    def rounding(self) -> Im2colMapType:
        """The same, of what is rounded to TF32 on its way."""
        return Im2colMapType(
            *(self.box, self.element_type, self.swizzle, self.lower, self.upper, self.strides),
            IntAttr(1),
        )

    @property
    def sizes(self) -> tuple[int, int]:
        """Pixels and channels of one copy."""
        return _pair(self.box)

    @property
    def lower_corner(self) -> tuple[int, int]:
        return _pair(self.lower)

    @property
    def upper_corner(self) -> tuple[int, int]:
        return _pair(self.upper)

    @property
    def steps(self) -> tuple[int, int]:
        """The strides along height and width."""
        return _pair(self.strides)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            box = _ints(parser, 2, "the box of an im2col map (pixels, channels)")
            parser.parse_punctuation(",")
            element = parser.parse_type()
            parser.parse_punctuation(",")
            parser.parse_keyword("swizzle")
            swizzle = parser.parse_integer()
            pairs: list[ArrayAttr[IntAttr]] = []
            for word in ("lower", "upper", "strides"):
                parser.parse_punctuation(",")
                parser.parse_keyword(word)
                pairs.append(_ints(parser, 2, f"{word} (height, width)"))
            tf32 = parse_tf32(parser)
        return (box, element, IntAttr(swizzle), *pairs, tf32)

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(f"<{_text(self.sizes)}, ")
        printer.print_attribute(self.element_type)
        printer.print_string(
            f", swizzle {self.swizzle.data}, lower {_text(self.lower_corner)}, "
            f"upper {_text(self.upper_corner)}, strides {_text(self.steps)}"
            f"{', tf32' if self.rounds else ''}>"
        )

    def verify(self) -> None:
        size, swizzle = element_bytes(self.element_type), self.swizzle.data
        verify_tf32(self.rounds, self.element_type)
        for values, count, what in (
            (self.box, 2, "box"),
            (self.lower, 2, "lower corner"),
            (self.upper, 2, "upper corner"),
            (self.strides, 2, "strides"),
        ):
            if len(values) != count:
                raise VerifyException(f"the {what} of an im2col map is {count} numbers")
        if swizzle not in (0, 32, 64, 128):
            raise VerifyException(f"a TMA swizzle is 0, 32, 64 or 128 bytes, not {swizzle}")
        pixels, channels = self.sizes
        if not 1 <= pixels <= MAX_PIXELS or not 1 <= channels <= MAX_CHANNELS:
            raise VerifyException(
                f"an im2col copy has 1 to {MAX_PIXELS} pixels and 1 to {MAX_CHANNELS} channels, "
                f"not {pixels} and {channels}"
            )
        inner = channels * size
        if inner % 16 or (swizzle and inner > swizzle):
            raise VerifyException(
                f"the channels of a pixel are {inner} bytes; they must be a multiple of 16 and "
                f"at most the swizzle's {swizzle}"
            )
        low, high = CORNERS
        for corner in (self.lower_corner, self.upper_corner):
            if any(not low <= c <= high for c in corner):
                raise VerifyException(
                    f"corners of a bounding box are {low} to {high}, not {list(corner)}"
                )
        if any(not 1 <= s <= MAX_STRIDE for s in self.steps):
            raise VerifyException(f"TMA strides are 1 to {MAX_STRIDE}, not {list(self.steps)}")


@irdl_attr_definition
class Im2colAttr(ParametrizedAttribute):
    """How a convolution's filter moves over its input.

    ``#gpu.im2col<kernel [3, 3], strides [1, 1], padding [1, 1], dilation [1, 1]>``: output pixel
    (p, q) and tap (r, s) read input pixel (p·stride - padding + r·dilation, and so along the
    width), zeros where that is outside the image.  ``padding [0, 0] to [1, 1]`` is of an image
    that is padded by other numbers after its last row and column than before its first.
    """

    name = "gpu.im2col"
    kernel: ArrayAttr[IntAttr]
    strides: ArrayAttr[IntAttr]
    padding: ArrayAttr[IntAttr]
    after: ArrayAttr[IntAttr]
    dilation: ArrayAttr[IntAttr]

    @staticmethod
    def of(
        kernel: Sequence[int],
        strides: Sequence[int] = (1, 1),
        padding: Sequence[int] = (0, 0),
        dilation: Sequence[int] = (1, 1),
        after: Sequence[int] | None = None,
    ) -> Im2colAttr:
        """``after`` is the padding behind the last row and column, ``padding`` where left out."""
        last = padding if after is None else after
        return Im2colAttr(
            *(ArrayAttr(map(IntAttr, v)) for v in (kernel, strides, padding, last, dilation))
        )

    @property
    def taps(self) -> tuple[int, int]:
        return _pair(self.kernel)

    @property
    def steps(self) -> tuple[int, int]:
        return _pair(self.strides)

    @property
    def pads(self) -> tuple[int, int]:
        """Zeros before the first row and column."""
        return _pair(self.padding)

    @property
    def pads_after(self) -> tuple[int, int]:
        """Zeros after the last row and column."""
        return _pair(self.after)

    @property
    def dilations(self) -> tuple[int, int]:
        return _pair(self.dilation)

    @property
    def is_apart(self) -> bool:
        """Whether windows of a row lie apart, and none reaches beyond it: neighbours have nothing
        in common, and what a row of them reads follows each other."""
        reach = (self.taps[1] - 1) * self.dilations[1] + 1
        return reach <= self.steps[1] and not self.pads[1] and not self.pads_after[1]

    def output(self, height: int, width: int) -> tuple[int, int]:
        """Height and width of the output for an input of these."""
        first, second = (
            size.evaluate({}) for size in self.output_dims(Dim.const(height), Dim.const(width))
        )
        return first, second

    def output_dims(self, height: Dim, width: Dim) -> tuple[Dim, Dim]:
        """Height and width of the output as expressions of the input's."""
        first, second = (
            (extent + (before + after - (taps - 1) * dilation - 1)).floordiv(step) + 1
            for extent, taps, step, before, after, dilation in zip(
                (height, width),
                self.taps,
                self.steps,
                self.pads,
                self.pads_after,
                self.dilations,
                strict=True,
            )
        )
        return first, second

    def map_type(
        self, pixels: int, channels: int, element_type: Attribute, swizzle: int
    ) -> Im2colMapType:
        """The tensor map that copies ``channels`` of ``pixels`` rows of the implicit GEMM."""
        upper = [
            pad - (taps - 1) * dilation
            for taps, pad, dilation in zip(self.taps, self.pads_after, self.dilations, strict=True)
        ]
        lower = [-pad for pad in self.pads]
        return Im2colMapType.of([pixels, channels], element_type, swizzle, lower, upper, self.steps)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        pairs: list[ArrayAttr[IntAttr]] = []
        with parser.in_angle_brackets():
            for i, word in enumerate(("kernel", "strides", "padding", "dilation")):
                if i:
                    parser.parse_punctuation(",")
                parser.parse_keyword(word)
                pairs.append(_ints(parser, 2, f"{word} (height, width)"))
                if word == "padding":
                    after = parser.parse_optional_keyword("to") is not None
                    pairs.append(_ints(parser, 2, "padding to") if after else pairs[-1])
        return pairs

    def print_parameters(self, printer: Printer) -> None:
        after = f" to {_text(self.pads_after)}" if self.pads_after != self.pads else ""
        printer.print_string(
            f"<kernel {_text(self.taps)}, strides {_text(self.steps)}, "
            f"padding {_text(self.pads)}{after}, dilation {_text(self.dilations)}>"
        )

    def verify(self) -> None:
        for word, values, least in (
            ("kernel", self.kernel, 1),
            ("strides", self.strides, 1),
            ("padding", self.padding, 0),
            ("padding to", self.after, 0),
            ("dilation", self.dilation, 1),
        ):
            numbers = [v.data for v in values]
            if len(numbers) != 2 or min(numbers) < least:
                raise VerifyException(f"{word} is two numbers of at least {least}, not {numbers}")


IM2COL_TYPES: list[type[Attribute]] = [Im2colMapType, Im2colAttr]
