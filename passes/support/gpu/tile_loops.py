"""The tile scheduler as arithmetic: rasters, and persistent loops over the tiles of a CTA (T2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, scf
from xdsl.ir import Block, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import tile
from polyc.passes.support.gpu.symbols import enclosing_kernel
from polyc.rewriting.emit import INDEX, Emit, affine_dim, ceil_div


def divided(emit: Emit, lhs: SSAValue, rhs: SSAValue, hint: str | None = None) -> SSAValue:
    return emit.value(arith.DivUIOp(lhs, rhs), hint)


def remainder(emit: Emit, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
    return emit.value(arith.RemUIOp(lhs, rhs))


def chosen(emit: Emit, condition: SSAValue, then: SSAValue, other: SSAValue) -> SSAValue:
    return emit.value(arith.SelectOp(condition, then, other))


@dataclass(frozen=True)
class Raster:
    """An order of the tiles of a grid of ``rows x columns``.

    ``row``: row by row.  ``column``: column by column.  ``grouped``: bands of ``group`` rows, in
    each down a column and then right.  ``shorter``: the same with bands along the shorter side.
    ``hilbert``: bands of ``group`` rows in squares of ``group x group``, in each along a Hilbert
    curve; what is left over at the right and at the bottom goes down a column and then right.
    """

    kind: str
    group: int

    def place(
        self, emit: Emit, number: SSAValue, rows: SSAValue, columns: SSAValue
    ) -> tuple[SSAValue, SSAValue]:
        """The row and column, in tiles, of tile ``number`` of the order."""
        if self.kind == "row":
            return divided(emit, number, columns), remainder(emit, number, columns)
        if self.kind == "column":
            return remainder(emit, number, rows), divided(emit, number, rows)
        if self.kind == "shorter":
            wide = emit.compare("ule", rows, columns)
            down = chosen(emit, wide, rows, columns)
            along = chosen(emit, wide, columns, rows)
            first, second = self.banded(emit, number, down, along)
            return chosen(emit, wide, first, second), chosen(emit, wide, second, first)
        if self.kind == "hilbert":
            return self.curved(emit, number, rows, columns)
        return self.banded(emit, number, rows, columns)

    def band(
        self, emit: Emit, number: SSAValue, rows: SSAValue, columns: SSAValue
    ) -> tuple[SSAValue, SSAValue, SSAValue]:
        """Of a tile's band the first row and the height, and the tile's number in it."""
        blocks = emit.apply(affine_dim(0) * self.group, [columns])
        band = divided(emit, number, blocks)
        first = emit.apply(affine_dim(0) * self.group, [band])
        left = emit.value(arith.SubiOp(rows, first))
        height = emit.value(arith.MinUIOp(left, emit.index(self.group)))
        return first, height, remainder(emit, number, blocks)

    def banded(
        self, emit: Emit, number: SSAValue, rows: SSAValue, columns: SSAValue
    ) -> tuple[SSAValue, SSAValue]:
        first, height, inside = self.band(emit, number, rows, columns)
        row = emit.apply(affine_dim(0) + affine_dim(1), [first, remainder(emit, inside, height)])
        return row, divided(emit, inside, height)

    def curved(
        self, emit: Emit, number: SSAValue, rows: SSAValue, columns: SSAValue
    ) -> tuple[SSAValue, SSAValue]:
        first, height, inside = self.band(emit, number, rows, columns)
        side = emit.index(self.group)
        area = emit.apply(affine_dim(0) * self.group, [height])
        square = divided(emit, inside, area)
        left = emit.apply(affine_dim(0) * self.group, [square])
        inside = remainder(emit, inside, area)
        width = emit.value(arith.MinUIOp(emit.value(arith.SubiOp(columns, left)), side))
        whole = emit.both(
            emit.compare("eq", height, side),
            emit.compare("eq", width, side),
        )
        x, y = self.hilbert(emit, inside)
        row = chosen(emit, whole, y, remainder(emit, inside, height))
        column = chosen(emit, whole, x, divided(emit, inside, height))
        add = affine_dim(0) + affine_dim(1)
        return emit.apply(add, [first, row]), emit.apply(add, [left, column])

    def hilbert(self, emit: Emit, number: SSAValue) -> tuple[SSAValue, SSAValue]:
        """Column and row of a number on the Hilbert curve through a square of ``group``."""
        zero = emit.index(0)
        x, y, rest, span = zero, zero, number, 1
        while span < self.group:
            right = emit.apply(affine_dim(0) // 2 % 2, [rest])
            down = emit.apply((affine_dim(0) + affine_dim(1)) % 2, [rest, right])
            turned = emit.compare("eq", down, zero)
            mirrored = emit.both(turned, emit.compare("ne", right, zero))
            back = -affine_dim(0) + (span - 1)
            u = chosen(emit, mirrored, emit.apply(back, [x]), x)
            v = chosen(emit, mirrored, emit.apply(back, [y]), y)
            x, y = chosen(emit, turned, v, u), chosen(emit, turned, u, v)
            x = emit.apply(affine_dim(0) + affine_dim(1) * span, [x, right])
            y = emit.apply(affine_dim(0) + affine_dim(1) * span, [y, down])
            rest = emit.apply(affine_dim(0) // 4, [rest])
            span *= 2
        return x, y


def outermost(
    emit: Emit, number: SSAValue, counts: Sequence[SSAValue], of_matrix: SSAValue
) -> tuple[list[SSAValue], SSAValue]:
    """The places of tile ``number`` on the axes before the last two, and its number in its matrix.

    ``counts`` are the tiles along those axes but the first, ``of_matrix`` those of a matrix.
    """
    outer = divided(emit, number, of_matrix)
    places: list[SSAValue] = []
    for count in reversed(counts):
        places.append(remainder(emit, outer, count))
        outer = divided(emit, outer, count)
    return [outer, *reversed(places)], remainder(emit, number, of_matrix)


class LowerTileLoop(RewritePattern):
    """A loop over the numbers of the tiles of this CTA, each of them taken to its coordinates.

    CTA ``b`` of ``g`` takes tiles ``b``, ``b + g``, …; a cluster takes a tile together, ``c`` rows
    of tiles high, of which its CTA ``r`` has row ``r``: the last one may lie outside.  With
    ``paired`` these are pairs of rows, and a loop inside takes the one and the other.  With
    ``share`` ``w`` of ``s`` the loop starts at the CTA's ``w``-th tile and steps over ``s``.  What
    goes on from tile to tile the loop carries, behind the ordinal.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.TileLoopOp, rewriter: PatternRewriter) -> None:
        if op.pingpong is not None:
            raise PolycError(
                "NoTurns",
                "this loop asks for consumers that take turns, and gpu-warp-specialize made none: "
                "it holds no pipeline of TMA copies and wgmma contracts; drop pingpong",
                op,
            )
        cluster = enclosing_kernel(op).cluster_size
        emit = Emit()
        counts = [
            emit.apply(
                ceil_div(affine_dim(0), size * (cluster if axis == len(op.sizes) - 2 else 1)),
                [whole],
                hint="tiles",
            )
            for axis, (whole, size) in enumerate(zip(op.sizes, op.tile.data, strict=True))
        ]
        rows = counts[-2]
        if op.paired is not None:
            counts[-2] = emit.apply(ceil_div(affine_dim(0), 2), [rows], hint="pairs")
        of_matrix = emit.value(arith.MuliOp(counts[-2], counts[-1]))
        total = of_matrix
        for count in counts[:-2]:
            total = emit.value(arith.MuliOp(total, count), "total")
        block, grid = emit.value(hw.BlockIdOp(), "block"), emit.value(hw.GridSizeOp(), "grid")
        rank: SSAValue | None = None
        if cluster > 1:
            block = emit.apply(affine_dim(0) // cluster, [block], hint="cluster")
            grid = emit.apply(affine_dim(0) // cluster, [grid], hint="clusters")
            rank = emit.value(hw.ClusterRankOp(), "rank")
        first, stride, ordinal, step = block, grid, emit.index(0), 1
        if op.share is not None and op.shares is not None:
            skipped = emit.value(arith.MuliOp(op.share, grid))
            first = emit.value(arith.AddiOp(block, skipped))
            step = op.shares.value.data
            stride = emit.apply(affine_dim(0) * step, [grid])
            ordinal = op.share
        body = Block(arg_types=[INDEX, INDEX, *(value.type for value in op.iter_args)])
        number, own, *carried = body.args
        number.name_hint, own.name_hint = "number", op.ordinal.name_hint
        inner = Emit()
        leading, row, column = self.place(op, inner, number, counts, of_matrix)
        if op.paired is None:
            steps = self.tile(op, inner, [*leading, row, column], rows, rank, own, carried, step)
            inner.op(scf.YieldOp(*steps))
        else:
            one = Block(arg_types=[INDEX, INDEX, *(value.type for value in op.iter_args)])
            half, now, *going = one.args
            half.name_hint, now.name_hint = "half", op.ordinal.name_hint
            both = Emit()
            last = both.apply(affine_dim(0) - affine_dim(1) - 1, [rows, row])
            first_half = both.compare("eq", half, both.index(0))
            at = [*leading, chosen(both, first_half, row, last), column]
            both.op(scf.YieldOp(*self.tile(op, both, at, rows, rank, now, going, step)))
            one.add_ops(both.ops)
            # A row in the middle is its own other one.
            alone = inner.compare("eq", inner.apply(affine_dim(0) * 2 + 1, [row]), rows)
            tiles = chosen(inner, alone, inner.index(1), inner.index(2))
            pair = scf.ForOp(inner.index(0), tiles, inner.index(1), [own, *carried], one)
            inner.op(pair)
            inner.op(scf.YieldOp(*pair.results))
        body.add_ops(inner.ops)
        loop = scf.ForOp(first, total, stride, [ordinal, *op.iter_args], body)
        emit.op(loop)
        rewriter.replace(op, emit.ops, loop.results[1:])

    @staticmethod
    def place(
        op: tile.TileLoopOp,
        emit: Emit,
        number: SSAValue,
        counts: Sequence[SSAValue],
        of_matrix: SSAValue,
    ) -> tuple[list[SSAValue], SSAValue, SSAValue]:
        """Where a number is in the raster's order: on the outer axes, its row, its column."""
        leading: list[SSAValue] = []
        if len(counts) > 2:
            leading, number = outermost(emit, number, counts[1:-2], of_matrix)
        raster = Raster(op.raster.data, op.group.value.data)
        return leading, *raster.place(emit, number, counts[-2], counts[-1])

    @staticmethod
    def tile(
        op: tile.TileLoopOp,
        emit: Emit,
        place: Sequence[SSAValue],
        rows: SSAValue,
        rank: SSAValue | None,
        ordinal: SSAValue,
        carried: Sequence[SSAValue],
        step: int,
    ) -> list[SSAValue]:
        """The body for a tile at a place of which there are so many rows; what goes on from it."""
        *leading, row, column = place
        if op.reversed is not None:
            row = emit.apply(affine_dim(0) - affine_dim(1) - 1, [rows, row])
        if rank is not None:
            row = emit.apply(
                affine_dim(0) * enclosing_kernel(op).cluster_size + affine_dim(1), [row, rank]
            )
        firsts = [
            emit.apply(affine_dim(0) * size, [at])
            for at, size in zip([*leading, row, column], op.tile.data, strict=True)
        ]
        following = emit.apply(affine_dim(0) + step, [ordinal])
        old = op.body.block
        for argument, value in zip(old.args, [*firsts, ordinal, *carried], strict=True):
            if value.name_hint is None:
                value.name_hint = argument.name_hint
            argument.replace_all_uses_with(value)
        going = [following, *op.yielded]
        for moved in [o for o in old.ops if not isinstance(o, tile.YieldOp)]:
            moved.detach()
            emit.op(moved)
        return going
