"""Tile level: which CTA works on which tile (T3)."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IndexType, StringAttr, UnitAttr
from xdsl.ir import Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure, SingleBlockImplicitTerminator, ensure_terminator
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.gpu.tile.flow import YieldOp
from polyc.dialects.gpu.types import IndexAttr, IntsAttr, index_attr

RASTERS = ("row", "column", "grouped", "shorter", "hilbert")
"""Orders of the tiles of a matrix: row by row; column by column; in bands of ``group`` rows, down
each column; bands along the shorter side; along Hilbert curves through squares of ``group`` tiles.
"""

ONCE = RASTERS[:3]
"""Those of CTAs that have one tile each."""

BANDS = RASTERS[2:]
"""Those to which ``group`` says something."""


@irdl_op_definition
class TileCoordinatesOp(IRDLOperation):
    """The first coordinates of the CTA's output tile, where each CTA has one.

    The grid is linear.  ``sizes`` are the output's, ``tile`` the tile's; axes before the last two,
    the row and the column, go outermost.  With ``raster "grouped"`` the CTAs walk ``group`` tile
    rows at a time, down a column of the group and then right, which keeps the operands of
    neighbouring CTAs in the L2 cache; ``"row"`` walks row by row, ``"column"`` column by column.
    With ``cluster`` the CTAs of a cluster have one tile together, and the grid has as many times
    more of them.
    """

    name = "gpu.tile_coordinates"
    sizes = var_operand_def(IndexType)
    tile = prop_def(IntsAttr)
    raster = prop_def(StringAttr)
    group = prop_def(IndexAttr)
    cluster = opt_prop_def(UnitAttr)
    coordinates = var_result_def(IndexType)
    traits = traits_def(Pure())

    def __init__(
        self,
        sizes: Sequence[SSAValue],
        tile: Sequence[int],
        raster: str = "grouped",
        group: int = 8,
        cluster: bool = False,
    ) -> None:
        super().__init__(
            operands=[list(sizes)],
            properties={
                "tile": IntsAttr(tuple(tile)),
                "raster": StringAttr(raster),
                "group": index_attr(group),
                "cluster": UnitAttr() if cluster else None,
            },
            result_types=[[IndexType()] * len(sizes)],
        )

    @property
    def tile_sizes(self) -> tuple[int, ...]:
        return self.tile.data

    @classmethod
    def parse(cls, parser: Parser) -> TileCoordinatesOp:
        sizes, tile, raster, group = _parse_tiles(parser)
        together = parser.parse_optional_keyword("cluster") is not None
        op = cls(sizes, tile, raster, group, together)
        op.attributes.update(parser.parse_optional_attr_dict())
        return op

    def print(self, printer: Printer) -> None:
        _print_tiles(printer, self)
        printer.print_string(" cluster" if self.cluster is not None else "")
        printer.print_op_attributes(self.attributes)

    def verify_(self) -> None:
        _verify_tiles(self, ONCE)
        if len(self.coordinates) != len(self.sizes):
            raise VerifyException(
                f"a tile of {len(self.sizes)} axes has as many first coordinates, not "
                f"{len(self.coordinates)}"
            )


def _parse_tiles(parser: Parser) -> tuple[Sequence[SSAValue], Sequence[int], str, int]:
    """``[sizes] tile <sizes> raster "kind" group``."""
    sizes = parser.parse_comma_separated_list(
        parser.Delimiter.SQUARE, parser.parse_unresolved_operand
    )
    parser.parse_keyword("tile")
    tile = IntsAttr.parse_parameter(parser)
    parser.parse_keyword("raster")
    raster = parser.parse_str_literal()
    found = [parser.resolve_operand(v, IndexType()) for v in sizes]
    return found, tile, raster, parser.parse_integer()


def _print_tiles(printer: Printer, op: TileCoordinatesOp | TileLoopOp) -> None:
    printer.print_string("[")
    printer.print_list(op.sizes, printer.print_ssa_value)
    printer.print_string("] tile ")
    op.tile.print_parameter(printer)
    printer.print_string(f' raster "{op.raster.data}" {op.group.value.data}')


def _verify_tiles(op: TileCoordinatesOp | TileLoopOp, rasters: Sequence[str]) -> None:
    rank = len(op.sizes)
    if rank < 2 or len(op.tile.data) != rank or min(op.tile.data) < 1:
        raise VerifyException(
            f"tiles have two axes or more and a positive size on each, not "
            f"{list(op.tile.data)} for {rank} sizes"
        )
    if op.raster.data not in rasters:
        raise VerifyException(f'a raster is one of {", ".join(rasters)}, not "{op.raster.data}"')
    if op.group.value.data < 1:
        raise VerifyException(f"a raster group has 1 or more rows, not {op.group.value.data}")


@irdl_op_definition
class TileLoopOp(IRDLOperation):
    """Run the body for every output tile of this CTA: a persistent kernel's outer loop.

    Tiles are numbered in the raster's order; CTA ``b`` of a grid of ``g`` takes tiles ``b``,
    ``b + g``, and so on, so that any grid does the whole.  The CTAs of a cluster work on
    neighbours along the row axis.  ``sizes`` are the output's, ``tile`` the tile's; axes before the
    last two go outermost.  ``raster`` orders the last two axes (``RASTERS``), with ``group`` rows a
    band; ``reversed`` walks rows from the last to the first.  The body sees the tile's first
    coordinates and its ordinal in this CTA: 0, 1, 2, …  With ``share`` the body runs only for tiles
    whose ordinal is ``share`` modulo ``shares``: independent consumers take turns.  ``pingpong``
    asks ``gpu-warp-specialize`` to make them, each with tiles of its own; it changes no result.
    """

    name = "gpu.tile_loop"
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    sizes = var_operand_def(IndexType)
    share = opt_operand_def(IndexType)
    tile = prop_def(IntsAttr)
    raster = prop_def(StringAttr)
    group = prop_def(IndexAttr)
    reversed = opt_prop_def(UnitAttr)
    shares = opt_prop_def(IndexAttr)
    pingpong = opt_prop_def(UnitAttr)
    body = region_def("single_block")
    traits = traits_def(SingleBlockImplicitTerminator(YieldOp))

    def __init__(
        self,
        sizes: Sequence[SSAValue],
        tile: Sequence[int],
        body: Region,
        raster: str = "grouped",
        group: int = 8,
        reversed: bool = False,
        share: SSAValue | None = None,
        shares: int | None = None,
        pingpong: bool = False,
    ) -> None:
        super().__init__(
            operands=[list(sizes), share],
            properties={
                "tile": IntsAttr(tuple(tile)),
                "raster": StringAttr(raster),
                "group": index_attr(group),
                "reversed": UnitAttr() if reversed else None,
                "shares": None if shares is None else index_attr(shares),
                "pingpong": UnitAttr() if pingpong else None,
            },
            regions=[body],
        )
        for trait in self.get_traits_of_type(SingleBlockImplicitTerminator):
            ensure_terminator(self, trait)

    @property
    def coordinates(self) -> tuple[SSAValue, ...]:
        """The tile's first coordinates, in elements."""
        return tuple(self.body.block.args[:-1])

    @property
    def ordinal(self) -> SSAValue:
        """How many tiles of this CTA came before."""
        return self.body.block.args[-1]

    @classmethod
    def parse(cls, parser: Parser) -> TileLoopOp:
        def argument() -> Parser.Argument:
            return parser.parse_argument(expect_type=False).resolve(IndexType())

        args = parser.parse_comma_separated_list(parser.Delimiter.PAREN, argument)
        parser.parse_punctuation("=")
        sizes, tile, raster, group = _parse_tiles(parser)
        backwards = parser.parse_optional_keyword("reversed") is not None
        share: SSAValue | None = None
        shares: int | None = None
        if parser.parse_optional_keyword("share") is not None:
            share = parser.resolve_operand(parser.parse_unresolved_operand(), IndexType())
            parser.parse_keyword("of")
            shares = parser.parse_integer()
        pingpong = parser.parse_optional_keyword("pingpong") is not None
        attributes = parser.parse_optional_attr_dict_with_keyword()
        body = parser.parse_region(args)
        op = cls(sizes, tile, body, raster, group, backwards, share, shares, pingpong)
        if attributes is not None:
            op.attributes.update(attributes.data)
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" (")
        printer.print_list(self.body.block.args, printer.print_ssa_value)
        printer.print_string(") = ")
        _print_tiles(printer, self)
        printer.print_string(" reversed" if self.reversed is not None else "")
        if self.share is not None:
            printer.print_string(" share ")
            printer.print_ssa_value(self.share)
        if self.shares is not None:
            printer.print_string(f" of {self.shares.value.data}")
        printer.print_string(" pingpong" if self.pingpong is not None else "")
        printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False, print_block_terminators=False)

    def verify_(self) -> None:
        _verify_tiles(self, RASTERS)
        rank = len(self.sizes)
        if [a.type for a in self.body.block.args] != [IndexType()] * (rank + 1):
            raise VerifyException(
                f"the body takes {rank} first coordinates and the tile's ordinal, all of type index"
            )
        side = self.group.value.data
        if self.raster.data == "hilbert" and side & (side - 1):
            raise VerifyException(
                f"a Hilbert curve fills squares whose side is a power of two, not {side}"
            )
        if (self.share is None) != (self.shares is None):
            raise VerifyException("a share is one of a number of them: give both")
        if self.share is not None and self.pingpong is not None:
            raise VerifyException("pingpong gives each consumer its share of the tiles: drop it")
        if self.shares is not None and self.shares.value.data < 1:
            raise VerifyException(f"tiles are not shared by {self.shares.value.data}")
