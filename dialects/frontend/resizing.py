"""Resizing of ``frontend``: elements at other coordinates, or between them (S2.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import gcd, isfinite

from xdsl.dialects.builtin import DenseArrayBase, FloatAttr, StringAttr, UnitAttr, f32
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.common.dim import Dim, Shape, shape_text
from polyc.dialects.common.movements import numbers_attr, numbers_text, parse_numbers
from polyc.dialects.common.numbers import number_text, parse_f32
from polyc.dialects.common.sizes import inferred, never_negative, quotient
from polyc.dialects.frontend.reductions import AlongAxes
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

TAPS: Mapping[str, tuple[int, ...]] = {
    "nearest": (0,),
    "linear": (0, 1),
    "cubic": (-1, 0, 1, 2),
}
"""The elements that each mode of ``frontend.resize`` takes, 0 being that at or before a place."""

MODES = tuple(TAPS)
"""Ways in which ``frontend.resize`` takes elements."""

CUBIC = -0.75
"""The coefficient of the cubic convolution (R. G. Keys, 1981) unless said, as PyTorch's and ONNX's
own; Keys's is -0.5."""

NO_ANTIALIAS = (
    "has no antialias: it takes the same few elements however much smaller the result is; smooth "
    "the tensor by a pool or a convolution before it"
)
"""What is said where antialiasing is asked for."""

COORDINATES = ("align_corners", "asymmetric", "half_pixel", "pytorch_half_pixel")
"""ONNX's ``coordinate_transformation_mode``: where a place of the result is in the operand."""

ROUNDINGS = ("ceil", "floor", "round_prefer_ceil", "round_prefer_floor")
"""ONNX's ``nearest_mode``: which element is nearest to it."""


@dataclass(frozen=True)
class Places:
    """Element ``i`` of an axis reads ``(step * i + offset) floordiv divisor``, at an end where that
    is outside: of the first ``low`` and the last ``high``."""

    step: int
    offset: int
    divisor: int
    low: int
    high: int


@dataclass(frozen=True)
class Line:
    """Element ``i`` of an axis is at ``(step * i + offset) / divisor`` of the operand's."""

    step: int
    offset: int
    divisor: int

    @property
    def reduced(self) -> Line:
        """The same in the least numbers; with a divisor of 1 every place is an element's."""
        by = gcd(self.step, self.offset, self.divisor)
        return Line(self.step // by, self.offset // by, self.divisor // by)


@irdl_op_definition
class ResizeOp(AlongAxes):
    """The elements at the places of a grid of other sizes, or what lies between them (S2.2).

    ``frontend.resize nearest %x axes [2, 3] half_pixel round_prefer_floor : [N, C, H, W] ->
    [N, C, 2 * H, 2 * W]``.  With n elements of an axis and m of the result, place i of the result
    is, in the operand, ``i * n / m`` (``asymmetric``), ``(i + 0.5) * n / m - 0.5``
    (``half_pixel``; with ``pytorch_half_pixel`` 0 where m is 1), or ``i * (n - 1) / (m - 1)``
    (``align_corners``, 0 where m is 1).  That is rounded, halves down with ``round_prefer_floor``
    and up with ``round_prefer_ceil``, and brought to the nearest end where it is outside.  The
    quotients are exact.

    ``frontend.resize linear %x axes [2, 3] half_pixel : …`` weighs the elements at both sides of a
    place by how near they are, and ``cubic`` the two at each side by Keys's convolution with the
    coefficient -0.75, axis by axis; ``cubic %x axes [2, 3] half_pixel coefficient -0.5`` by
    another.  An element that is outside is the nearest end; with ``exclude_outside``, of the cubic
    one, it has no weight, and the others are over their sum.
    """

    name = "frontend.resize"
    fn = prop_def(StringAttr)
    operand = operand_def(TensorType)
    coordinates_attr = prop_def(StringAttr, prop_name="coordinates")
    rounding_attr = opt_prop_def(StringAttr, prop_name="rounding")
    coefficient_attr = opt_prop_def(FloatAttr, prop_name="coefficient")
    exclude_outside = opt_prop_def(UnitAttr)
    result = result_def(TensorType)

    def __init__(
        self,
        operand: SSAValue,
        axes: Sequence[int],
        size: Sequence[Dim | int],
        *,
        mode: str = "nearest",
        coordinates: str = "half_pixel",
        rounding: str | None = None,
        coefficient: float | None = None,
        exclude_outside: bool = False,
    ) -> None:
        """``size`` are those of the axes in the result; ``rounding`` is of the nearest alone, whose
        halves go down without it, ``coefficient`` and ``exclude_outside`` of the cubic."""
        if rounding is None and mode == "nearest":
            rounding = "round_prefer_floor"
        kind = tensor_of(operand)

        def shape() -> Shape:
            dims = list(kind.dims)
            for axis, wanted in zip(axes, size, strict=True):
                dims[axis] = Dim.of(wanted)
            return tuple(dims)

        super().__init__(
            operands=[operand],
            result_types=[tensor(inferred(shape), kind.element_type)],
            properties={
                "fn": StringAttr(mode),
                "axes": numbers_attr(axes),
                "coordinates": StringAttr(coordinates),
                "rounding": None if rounding is None else StringAttr(rounding),
                "coefficient": None if coefficient is None else FloatAttr(coefficient, f32),
                "exclude_outside": UnitAttr() if exclude_outside else None,
            },
        )

    @property
    def mode(self) -> str:
        """How elements are taken."""
        return self.fn.data

    @property
    def coordinates(self) -> str:
        """One of ``COORDINATES``."""
        return self.coordinates_attr.data

    @property
    def rounding(self) -> str | None:
        """One of ``ROUNDINGS``, of the nearest."""
        return None if self.rounding_attr is None else self.rounding_attr.data

    @property
    def coefficient(self) -> float:
        """That of the cubic convolution."""
        return CUBIC if self.coefficient_attr is None else self.coefficient_attr.value.data

    @property
    def taps(self) -> tuple[int, ...]:
        """The elements that a place takes, from the one at or before it on."""
        return TAPS[self.mode]

    @staticmethod
    def fault(what: str, name: str) -> str | None:
        """What is wrong with the name of a mode, of coordinates or of a rounding, or None."""
        known = {"mode": MODES, "coordinates": COORDINATES, "rounding": ROUNDINGS}[what]
        if name in known:
            return None
        return f"{name} is no {what} of frontend.resize; there are {', '.join(known)}"

    def result_shape(self) -> Shape:
        dims, found = list(tensor_of(self.operand).dims), tensor_of(self.result).dims
        if len(found) == len(dims):
            for axis in self.axes:
                dims[axis] = found[axis]
        return tuple(dims)

    def need_elements(self, what: str) -> None:
        need = need_number if self.mode == "nearest" else need_float
        need(f"{what} {self.mode}", (self.operand,))

    def line(self, axis: int) -> Line:
        """Where the result's elements are along one of ``axes``.  Raises VerifyException."""
        size, count = (tensor_of(v).dims[axis] for v in (self.operand, self.result))
        ratio = self._ratio(axis, size, count)
        if ratio is None:
            return Line(0, 0, 1)
        over, under = ratio
        if "half_pixel" in self.coordinates:
            return Line(2 * over, over - under, 2 * under)
        return Line(over, 0, under)

    def places(self, axis: int, tap: int = 0) -> Places:
        """What is read along one of ``axes``: the nearest, or an element at or beside a place.

        Raises VerifyException where sizes do not say it.
        """
        size, count = (tensor_of(v).dims[axis] for v in (self.operand, self.result))
        line = self.line(axis)
        if not line.step:
            return Places(0, 0, 1, 0, 0)
        step, offset, divisor = line.step, line.offset + tap * line.divisor, line.divisor
        match self.rounding:
            case "ceil":
                offset += divisor - 1
            case "round_prefer_floor":
                step, offset, divisor = 2 * step, 2 * offset + divisor - 1, 2 * divisor
            case "round_prefer_ceil":
                step, offset, divisor = 2 * step, 2 * offset + divisor, 2 * divisor
            case _:
                pass
        low, high = -(min(offset, 0) // step), 0
        if (known := size.constant()) is not None and (many := count.constant()) is not None:
            inside = [(step * i + offset) // divisor for i in range(many)]
            low, high = sum(i < 0 for i in inside), sum(i >= known for i in inside)
        elif self.coordinates != "align_corners":
            # divisor * size = step * count: the first place that is outside is that many from the
            # end.
            high = max(offset // step, 0)
        if (low or high) and not never_negative(size - 1, self):
            raise VerifyException(
                f"resize reads the ends of axis {axis} again, whose size {size} may be 0; assume "
                "it to be 1 or more, or take another rounding"
            )
        if not never_negative(count - low - high, self):
            raise VerifyException(
                f"resize {self.mode} reads the ends of axis {axis} {low + high} times for a result "
                f"of {count}, which may be less; assume it to be that or more"
            )
        return Places(step, offset, divisor, low, high)

    def _ratio(self, axis: int, size: Dim, count: Dim) -> tuple[int, int] | None:
        """By how much a place of the operand goes on for one of the result, as two numbers; None
        where all are 0.  Raises VerifyException."""
        known, many = size.constant(), count.constant()
        if known == 0 and many != 0:
            raise VerifyException(
                f"resize of axis {axis} makes {count} elements of 0; there is none to take"
            )
        if many == 1 and self.coordinates in ("align_corners", "pytorch_half_pixel"):
            return None
        if size == count or many == 0:
            return 1, 1
        if self.coordinates == "align_corners":
            if known is None or many is None:
                raise VerifyException(
                    f"resize of axis {axis} from {size} to {count} with align_corners goes on by "
                    "what no number is; give numbers for both, or take other coordinates"
                )
            return (known - 1, many - 1) if known > 1 else None
        if known is not None and many is not None:
            return known, many
        larger, smaller = (quotient(a, b) for a, b in ((count, size), (size, count)))
        by = larger.constant() if larger is not None else None
        part = smaller.constant() if smaller is not None else None
        if by is None and part is None:
            raise VerifyException(
                f"resize of axis {axis} from {size} to {count} goes on by what no number is; make "
                "one a number of times the other, or give numbers for both"
            )
        one = part is not None and not never_negative(count - 2, self)
        if one and self.coordinates == "pytorch_half_pixel":
            raise VerifyException(
                f"resize of axis {axis} to {count} with pytorch_half_pixel is another one where "
                "that is 1; assume it to be more, or take half_pixel"
            )
        return (1, by) if by is not None else (part or 1, 1)

    def verify_(self) -> None:
        for what, name in (
            ("mode", self.mode),
            ("coordinates", self.coordinates),
            *([("rounding", self.rounding)] if self.rounding is not None else []),
        ):
            if (fault := self.fault(what, name)) is not None:
                raise VerifyException(fault)
        if (self.rounding is None) == (self.mode == "nearest"):
            way_out = "no rounding; leave it out"
            if self.rounding is None:
                way_out = f"a rounding; name one of {', '.join(ROUNDINGS)}"
            raise VerifyException(f"resize {self.mode} takes {way_out}")
        for word in ("coefficient", "exclude_outside"):
            if word in self.properties and self.mode != "cubic":
                raise VerifyException(
                    f"{word} is of the cubic weights, and resize {self.mode} has none; leave it out"
                )
        if not isfinite(self.coefficient):
            raise VerifyException(
                f"the coefficient {self.coefficient} of a resize is no number that weights are "
                f"made of; give a finite one, as {CUBIC} or -0.5"
            )
        dims, found = (tensor_of(v).dims for v in (self.operand, self.result))
        need_axes("resize", self.axes, dims)
        if len(found) != len(dims):
            raise VerifyException(
                f"resize keeps the number of axes; the operand is {shape_text(dims)}, the result "
                f"{shape_text(found)}"
            )
        super().verify_()
        for axis in self.axes:
            for tap in self.taps:
                self.places(axis, tap)

    @classmethod
    def parse(cls, parser: Parser) -> ResizeOp:
        def word(what: str) -> StringAttr:
            start = parser.pos
            name = parser.parse_identifier(f"the {what} of a resize")
            if (fault := cls.fault(what, name)) is not None:
                parser.raise_error(fault, start, parser.pos)
            return StringAttr(name)

        properties: dict[str, Attribute] = {"fn": word("mode")}
        unresolved = [parser.parse_unresolved_operand()]
        parser.parse_keyword("axes")
        axes: DenseArrayBase = numbers_attr(parse_numbers(parser, "an axis of a resize"))
        properties["axes"] = axes
        properties["coordinates"] = word("coordinates")
        if properties["fn"] == StringAttr("nearest"):
            properties["rounding"] = word("rounding")
        if parser.parse_optional_keyword("coefficient") is not None:
            properties["coefficient"] = FloatAttr(parse_f32(parser), f32)
        if parser.parse_optional_keyword("exclude_outside") is not None:
            properties["exclude_outside"] = UnitAttr()
        start = parser.pos
        if parser.parse_optional_keyword("antialias") is not None:
            parser.raise_error(f"frontend.resize {NO_ANTIALIAS}", start, parser.pos)
        args, results, attributes = parse_typed(parser, unresolved)
        return cls.create(
            operands=args, result_types=results, properties=properties, attributes=attributes
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.mode} ")
        printer.print_operand(self.operand)
        printer.print_string(f" axes {numbers_text(self.axes)} {self.coordinates}")
        if self.rounding is not None:
            printer.print_string(f" {self.rounding}")
        if self.coefficient_attr is not None:
            printer.print_string(f" coefficient {number_text(self.coefficient)}")
        if self.exclude_outside is not None:
            printer.print_string(" exclude_outside")
        print_typed(printer, self, {})
