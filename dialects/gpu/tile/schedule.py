"""Tile level: which CTA works on which tile (T3)."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import AnyFloat, IndexType, IntegerType, StringAttr, UnitAttr
from xdsl.ir import Attribute, Region, SSAValue
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
from xdsl.parser import Parser, UnresolvedOperand
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
    coordinates and its ordinal in this CTA: 0, 1, 2, …  With ``paired`` a CTA takes two tiles of a
    column together, of rows ``r`` and ``rows - 1 - r``, and the raster orders these pairs: where
    work grows with the row, all of them have as much.  A row in the middle is one tile.  With
    ``share`` the body runs only for tiles whose ordinal is ``share`` modulo ``shares``: independent
    consumers take turns.  ``pingpong`` asks ``gpu-warp-specialize`` to make them, each with tiles
    of its own; it changes no result.

    ``iter_args`` are numbers that go on from tile to tile, as those of ``scf.for`` do: the body
    sees them behind the ordinal and yields what it sees of them at its next tile, and the results
    are what the last one yielded, or the initial values where the CTA has no tile.
    """

    name = "gpu.tile_loop"
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    sizes = var_operand_def(IndexType)
    share = opt_operand_def(IndexType)
    iter_args = var_operand_def()
    tile = prop_def(IntsAttr)
    raster = prop_def(StringAttr)
    group = prop_def(IndexAttr)
    reversed = opt_prop_def(UnitAttr)
    shares = opt_prop_def(IndexAttr)
    pingpong = opt_prop_def(UnitAttr)
    paired = opt_prop_def(UnitAttr)
    body = region_def("single_block")
    res = var_result_def()
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
        iter_args: Sequence[SSAValue] = (),
        paired: bool = False,
    ) -> None:
        super().__init__(
            operands=[list(sizes), share, list(iter_args)],
            properties={
                "tile": IntsAttr(tuple(tile)),
                "raster": StringAttr(raster),
                "group": index_attr(group),
                "reversed": UnitAttr() if reversed else None,
                "shares": None if shares is None else index_attr(shares),
                "pingpong": UnitAttr() if pingpong else None,
                "paired": UnitAttr() if paired else None,
            },
            result_types=[[value.type for value in iter_args]],
            regions=[body],
        )
        for trait in self.get_traits_of_type(SingleBlockImplicitTerminator):
            ensure_terminator(self, trait)

    @property
    def coordinates(self) -> tuple[SSAValue, ...]:
        """The tile's first coordinates, in elements."""
        return tuple(self.body.block.args[: len(self.sizes)])

    @property
    def ordinal(self) -> SSAValue:
        """How many tiles of this CTA came before."""
        return self.body.block.args[len(self.sizes)]

    @property
    def carried(self) -> tuple[SSAValue, ...]:
        """What the body sees of ``iter_args``."""
        return tuple(self.body.block.args[len(self.sizes) + 1 :])

    @property
    def yielded(self) -> tuple[SSAValue, ...]:
        """What ``carried`` becomes for the next tile."""
        last = self.body.block.last_op
        return tuple(last.values) if isinstance(last, YieldOp) else ()

    def like(
        self,
        body: Region,
        *,
        share: tuple[SSAValue, int] | None = None,
        iter_args: Sequence[SSAValue] = (),
    ) -> TileLoopOp:
        """A loop over the same tiles in the same order, or a share of them, that takes no turns."""
        made = TileLoopOp(
            list(self.sizes),
            self.tile.data,
            body,
            self.raster.data,
            self.group.value.data,
            self.reversed is not None,
            *((None, None) if share is None else share),
            iter_args=iter_args,
            paired=self.paired is not None,
        )
        made.attributes.update(self.attributes)
        return made

    @classmethod
    def parse(cls, parser: Parser) -> TileLoopOp:
        def argument() -> Parser.Argument:
            return parser.parse_argument(expect_type=False).resolve(IndexType())

        args = parser.parse_comma_separated_list(parser.Delimiter.PAREN, argument)
        parser.parse_punctuation("=")
        sizes, tile, raster, group = _parse_tiles(parser)
        backwards = parser.parse_optional_keyword("reversed") is not None
        paired = parser.parse_optional_keyword("paired") is not None
        share: SSAValue | None = None
        shares: int | None = None
        if parser.parse_optional_keyword("share") is not None:
            share = parser.resolve_operand(parser.parse_unresolved_operand(), IndexType())
            parser.parse_keyword("of")
            shares = parser.parse_integer()
        pingpong = parser.parse_optional_keyword("pingpong") is not None
        carried, start = _parse_carried(parser)
        attributes = parser.parse_optional_attr_dict_with_keyword()
        body = parser.parse_region([*args, *carried])
        order = sizes, tile, body, raster, group, backwards
        op = cls(*order, share, shares, pingpong, start, paired)
        if attributes is not None:
            op.attributes.update(attributes.data)
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" (")
        printer.print_list((*self.coordinates, self.ordinal), printer.print_ssa_value)
        printer.print_string(") = ")
        _print_tiles(printer, self)
        printer.print_string(" reversed" if self.reversed is not None else "")
        printer.print_string(" paired" if self.paired is not None else "")
        if self.share is not None:
            printer.print_string(" share ")
            printer.print_ssa_value(self.share)
        if self.shares is not None:
            printer.print_string(f" of {self.shares.value.data}")
        printer.print_string(" pingpong" if self.pingpong is not None else "")
        if self.iter_args:
            printer.print_string(" iter_args(")
            pairs = zip(self.carried, self.iter_args, strict=True)
            printer.print_list(pairs, lambda pair: _print_carried(printer, *pair))
            printer.print_string(") -> (")
            printer.print_list([v.type for v in self.iter_args], printer.print_attribute)
            printer.print_string(")")
        printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(
            self.body,
            print_entry_block_args=False,
            print_block_terminators=bool(self.iter_args),
        )

    def verify_(self) -> None:
        _verify_tiles(self, RASTERS)
        rank = len(self.sizes)
        if [a.type for a in self.body.block.args[: rank + 1]] != [IndexType()] * (rank + 1):
            raise VerifyException(
                f"the body takes {rank} first coordinates and the tile's ordinal, all of type index"
            )
        self._verify_carried()
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
        if self.paired is not None and (self.share is not None or self.pingpong is not None):
            raise VerifyException(
                "pairs are of CTAs that take their tiles whole; drop share and pingpong"
            )

    def _verify_carried(self) -> None:
        kinds = [value.type for value in self.iter_args]
        for kind in kinds:
            if not isinstance(kind, IndexType | IntegerType | AnyFloat):
                raise VerifyException(f"numbers go on from tile to tile, not {kind}")
        for what, values in (
            ("the body takes", self.carried),
            ("the body yields", self.yielded),
            ("the results are", self.res),
        ):
            if [value.type for value in values] != kinds:
                raise VerifyException(
                    f"{what} {_listed([value.type for value in values])} for iter_args of "
                    f"{_listed(kinds)}: one each, of the same type"
                )


def _listed(kinds: Sequence[Attribute]) -> str:
    return f"({', '.join(map(str, kinds))})"


def _parse_carried(parser: Parser) -> tuple[list[Parser.Argument], list[SSAValue]]:
    """``iter_args(%x = %start) -> (type)``: what the body sees, and the initial values."""
    if parser.parse_optional_keyword("iter_args") is None:
        return [], []

    def pair() -> tuple[Parser.UnresolvedArgument, UnresolvedOperand]:
        argument = parser.parse_argument(expect_type=False)
        parser.parse_punctuation("=")
        return argument, parser.parse_unresolved_operand()

    at = parser.pos
    pairs = parser.parse_comma_separated_list(parser.Delimiter.PAREN, pair)
    parser.parse_punctuation("->")
    kinds = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
    if len(kinds) != len(pairs):
        parser.raise_error(f"{len(pairs)} iter_args have as many types, not {len(kinds)}", at)
    return (
        [argument.resolve(kind) for (argument, _), kind in zip(pairs, kinds, strict=True)],
        [parser.resolve_operand(v, kind) for (_, v), kind in zip(pairs, kinds, strict=True)],
    )


def _print_carried(printer: Printer, seen: SSAValue, start: SSAValue) -> None:
    printer.print_ssa_value(seen)
    printer.print_string(" = ")
    printer.print_ssa_value(start)
