"""Types and scalars of the ``region`` dialect; see ``polyc.dialects.region``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.dialects.builtin import (
    ArrayAttr,
    BoolAttr,
    IntAttr,
    IntegerType,
    StringAttr,
)
from xdsl.ir import Attribute, ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.common.dim import (
    Dim,
    DimAttr,
    Shape,
    ShapeAttr,
    parse_dim,
    parse_shape,
    shape_text,
)
from polyc.dialects.common.elements import FLOATS, INTEGERS, is_integer

# Types ---------------------------------------------------------------------------------


@irdl_attr_definition
class AxisAttr(ParametrizedAttribute):
    """One axis: its name and its size, ``m: M``."""

    name = "region.axis"

    axis: StringAttr
    dim: DimAttr

    @staticmethod
    def of(axis: str, size: Dim | int | str) -> AxisAttr:
        return AxisAttr(StringAttr(axis), DimAttr(Dim.of(size)))

    @property
    def label(self) -> str:
        return self.axis.data

    @property
    def size(self) -> Dim:
        return self.dim.data

    def __str__(self) -> str:
        return f"{self.label}: {self.size}"

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            axis = _parse_axis(parser)
        return (axis.axis, axis.dim)

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(f"<{self}>")


def _parse_axis(parser: AttrParser) -> AxisAttr:
    label = parser.parse_identifier(" as an axis name")
    parser.parse_punctuation(":")
    return AxisAttr.of(label, parse_dim(parser))


def parse_axes(parser: AttrParser) -> ArrayAttr[AxisAttr]:
    return ArrayAttr(
        parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: _parse_axis(parser))
    )


def axes_text(axes: Iterable[AxisAttr]) -> str:
    """``[m: M, k: K]``."""
    return "[" + ", ".join(map(str, axes)) + "]"


def check_axes(axes: Iterable[AxisAttr]) -> None:
    seen: set[str] = set()
    for axis in axes:
        if axis.label in seen:
            raise VerifyException(
                f"axis {axis.label} stands twice in {axes_text(axes)}; an axis name is one "
                "index, give the second another name"
            )
        seen.add(axis.label)


@irdl_attr_definition
class ValType(ParametrizedAttribute, TypeAttribute):
    """A value: a function of named axes to an element type, ``!region.val<[m: M], f32>``.

    A scalar has no axes.  The element type is a float, an integer, or i1 for a condition.
    """

    name = "region.val"

    axes: ArrayAttr[AxisAttr]
    element_type: Attribute

    @staticmethod
    def of(axes: Iterable[AxisAttr], element_type: Attribute) -> ValType:
        return ValType(ArrayAttr(axes), element_type)

    @property
    def labels(self) -> tuple[str, ...]:
        """The axis names, in order."""
        return tuple(a.label for a in self.axes)

    @property
    def shape(self) -> Shape:
        """The axis sizes, in order."""
        return tuple(a.size for a in self.axes)

    def axis(self, label: str) -> AxisAttr | None:
        """The axis named ``label``, or None."""
        return next((a for a in self.axes if a.label == label), None)

    def with_element(self, element_type: Attribute) -> ValType:
        return ValType(self.axes, element_type)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            axes = parse_axes(parser)
            parser.parse_punctuation(",")
            element = parser.parse_type()
        return (axes, element)

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(f"{axes_text(self.axes)}, ")
            printer.print_attribute(self.element_type)

    def verify(self) -> None:
        check_axes(self.axes)
        check_element(self.element_type, condition=True)


def check_element(element: Attribute, condition: bool = False) -> None:
    if element in FLOATS or is_integer(element):
        return
    if condition and element == IntegerType(1):
        return
    raise VerifyException(
        f"element type {element} is not one of {', '.join(map(str, (*FLOATS, *INTEGERS)))}"
        + (" and i1" if condition else "")
    )


@irdl_attr_definition
class MemRefType(ParametrizedAttribute, TypeAttribute):
    """A dense row-major tensor in global memory (S6.1).

    ``align`` is in bytes, a power of two: what the base address is a multiple of.
    ``noalias`` promises that no other tensor of the kernel overlaps it.  An element of i1 is a
    byte.
    Text: ``!region.memref<[M, K], f16, align 16, noalias>``.
    """

    name = "region.memref"

    shape_attr: ShapeAttr
    element_type: Attribute
    align_attr: IntAttr
    noalias_attr: BoolAttr

    @staticmethod
    def of(
        shape: Iterable[Dim | int | str],
        element_type: Attribute,
        align: int = 16,
        noalias: bool = False,
    ) -> MemRefType:
        return MemRefType(
            ShapeAttr.of(shape), element_type, IntAttr(align), BoolAttr.from_bool(noalias)
        )

    @property
    def shape(self) -> Shape:
        return self.shape_attr.data

    @property
    def align(self) -> int:
        """Alignment of the base address, in bytes."""
        return self.align_attr.data

    @property
    def noalias(self) -> bool:
        return bool(self.noalias_attr.value.data)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            shape = ShapeAttr(parse_shape(parser))
            parser.parse_punctuation(",")
            element = parser.parse_type()
            parser.parse_punctuation(",")
            parser.parse_keyword("align")
            align = IntAttr(parser.parse_integer(allow_boolean=False))
            noalias = parser.parse_optional_punctuation(",") is not None
            if noalias:
                parser.parse_keyword("noalias")
        return (shape, element, align, BoolAttr.from_bool(noalias))

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(f"{shape_text(self.shape)}, ")
            printer.print_attribute(self.element_type)
            printer.print_string(f", align {self.align}")
            if self.noalias:
                printer.print_string(", noalias")

    def verify(self) -> None:
        check_element(self.element_type, condition=True)
        if self.align < 1 or self.align & (self.align - 1):
            raise VerifyException(
                f"align {self.align} is not a power of two; write the bytes that the base "
                "address is a multiple of"
            )


def val_type(value: SSAValue) -> ValType:
    """The type of a region value.  Raises VerifyException when it is another type."""
    if not isinstance(value.type, ValType):
        raise VerifyException(f"expected a !region.val, got {value.type}")
    return value.type
