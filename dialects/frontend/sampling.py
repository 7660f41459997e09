"""Sampling of ``frontend``: what lies at coordinates that are data (S2.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from xdsl.dialects.builtin import StringAttr, UnitAttr
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

from polyc.dialects.common.dim import Dim, Shape, shape_text
from polyc.dialects.common.signature import same_size, verify_symbols
from polyc.dialects.common.sizes import inferred
from polyc.dialects.frontend.resizing import MODES, TAPS
from polyc.dialects.frontend.types import (
    TensorType,
    need_element,
    need_float,
    need_shape,
    parse_typed,
    parse_values,
    print_typed,
    tensor,
    tensor_of,
)

PADDINGS = ("border", "reflection", "zeros")
"""What ``frontend.grid_sample`` reads outside, as PyTorch and ONNX name it."""

AROUND: Mapping[str, int] = {"nearest": 1, "linear": 2, "cubic": 4}
"""So far outside of an axis a place takes none of its elements, and is brought from farther."""

MOST_SAMPLED = 3
"""Axes that a grid has coordinates of, at most."""

MOST_CUBIC = 2
"""Of these, axes along which a place takes four elements."""


@irdl_op_definition
class GridSampleOp(IRDLOperation):
    """What lies at the places of a grid of coordinates: ``grid_sample`` of PyTorch and ONNX (S2.2).

    ``frontend.grid_sample linear %x, %grid zeros align_corners : ([N, C, H, W], [N, P, Q, 2]) ->
    [N, C, P, Q]``: the grid's last axis has a coordinate of each axis behind the second, that of
    the last axis first.  A coordinate g of an axis of n elements is the place ``(g + 1) / 2 *
    (n - 1)`` with ``align_corners``, else ``((g + 1) * n - 1) / 2``.  ``nearest``, ``linear`` and
    ``cubic`` take one, two or four elements along each axis, as ``frontend.resize`` does; halves
    go to the even place.  Outside is 0 (``zeros``), the nearest end (``border``), or what lies as
    far inside as the place is outside (``reflection``: at the ends' centres with
    ``align_corners``, else at their edges).
    """

    name = "frontend.grid_sample"
    fn = prop_def(StringAttr)
    operand = operand_def(TensorType)
    grid = operand_def(TensorType)
    padding_attr = prop_def(StringAttr, prop_name="padding")
    align_corners = opt_prop_def(UnitAttr)
    result = result_def(TensorType)
    traits = traits_def(Pure())

    def __init__(
        self,
        operand: SSAValue,
        grid: SSAValue,
        *,
        mode: str = "linear",
        padding: str = "zeros",
        align_corners: bool = False,
    ) -> None:
        kind, places = tensor_of(operand), tensor_of(grid).dims
        shape = inferred(lambda: (*kind.dims[:2], *places[1:-1]))
        super().__init__(
            operands=[operand, grid],
            result_types=[tensor(shape, kind.element_type)],
            properties={
                "fn": StringAttr(mode),
                "padding": StringAttr(padding),
                "align_corners": UnitAttr() if align_corners else None,
            },
        )

    @property
    def mode(self) -> str:
        """How elements are taken."""
        return self.fn.data

    @property
    def padding(self) -> str:
        """One of ``PADDINGS``."""
        return self.padding_attr.data

    @property
    def aligned(self) -> bool:
        """Whether -1 and 1 are the centres of the ends, and not their edges."""
        return self.align_corners is not None

    @property
    def taps(self) -> tuple[int, ...]:
        """The elements that a place takes along each axis, from the one at or before it on."""
        return TAPS[self.mode]

    @property
    def sizes(self) -> Shape:
        """The sizes of the axes that coordinates are of."""
        return tensor_of(self.operand).dims[2:]

    @staticmethod
    def fault(what: str, name: str) -> str | None:
        """What is wrong with the name of a mode or of a padding, or None."""
        known = {"mode": MODES, "padding": PADDINGS}[what]
        if name in known:
            return None
        return f"{name} is no {what} of frontend.grid_sample; there are {', '.join(known)}"

    def verify_(self) -> None:
        verify_symbols(self)
        for what, name in (("mode", self.mode), ("padding", self.padding)):
            if (fault := self.fault(what, name)) is not None:
                raise VerifyException(fault)
        need_float("grid_sample", self.operands)
        source, grid = (tensor_of(v).dims for v in (self.operand, self.grid))
        count = len(source) - 2
        if not 1 <= count <= MOST_SAMPLED:
            raise VerifyException(
                f"grid_sample reads [N, C] and one to {MOST_SAMPLED} axes, not {shape_text(source)}"
            )
        if self.mode == "cubic" and count > MOST_CUBIC:
            raise VerifyException(
                f"grid_sample cubic takes {len(self.taps) ** count} elements a place of "
                f"{shape_text(source)}; it is along up to {MOST_CUBIC} axes: take linear"
            )
        if len(grid) != len(source) or grid[-1].constant() != count:
            raise VerifyException(
                f"grid_sample of {shape_text(source)} has a grid of {len(source)} axes, the last "
                f"of which has {count} coordinates, not {shape_text(grid)}"
            )
        if not same_size(source[0], grid[0], self):
            raise VerifyException(
                f"grid_sample has {source[0]} images and {grid[0]} grids; each has its own"
            )
        need_element(
            "the result of a grid_sample", self.result, tensor_of(self.operand).element_type
        )
        expected: tuple[Dim, ...] = (*source[:2], *grid[1:-1])
        need_shape(self, "the result of this grid_sample", self.result, expected)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        def word(what: str) -> StringAttr:
            start = parser.pos
            name = parser.parse_identifier(f"the {what} of a grid_sample")
            if (fault := cls.fault(what, name)) is not None:
                parser.raise_error(fault, start, parser.pos)
            return StringAttr(name)

        properties: dict[str, Attribute] = {"fn": word("mode")}
        unresolved = parse_values(parser)
        properties["padding"] = word("padding")
        if parser.parse_optional_keyword("align_corners") is not None:
            properties["align_corners"] = UnitAttr()
        args, results, attributes = parse_typed(parser, unresolved)
        return cls.create(
            operands=args, result_types=results, properties=properties, attributes=attributes
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.mode} ")
        printer.print_list(self.operands, printer.print_operand)
        printer.print_string(f" {self.padding}")
        if self.aligned:
            printer.print_string(" align_corners")
        print_typed(printer, self, {})
