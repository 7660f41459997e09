"""``region-to-gpu``: several CTAs share the steps of one tile (split-K; S8, S9).

The steps over k are cut into as many neighbouring parts as ``split_k`` says, nearly equal ones.
Each CTA sums its part into an accumulator of the whole tile.  In a cluster ``gpu.reduce_scatter``
brings them together, after which a CTA has its share of the tile's columns, and runs the epilogue
over that; else they go to memory (``partial_sums``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.types import FragmentType
from polyc.dialects.plan import ScheduleOp
from polyc.rewriting.emit import Emit, affine_dim, ceil_div


@dataclass(frozen=True)
class Steps:
    """The steps of one CTA: where the first of them begins on k, and how long all of them are."""

    first: SSAValue
    bound: SSAValue


@dataclass(frozen=True)
class Split:
    """The CTAs of a tile, ``parts`` of them: a cluster, or any that store their sums."""

    parts: int
    stores: bool = False

    @staticmethod
    def of(plan: ScheduleOp) -> Split | None:
        """None where each CTA has a tile of its own."""
        parts = plan.integer("split_k")
        return None if parts == 1 else Split(parts, plan.stores_sums)

    def steps(self, emit: Emit, size: SSAValue, depth: int, part: SSAValue | None) -> Steps:
        """This CTA's part of the steps of ``depth`` over an axis of ``size``: number ``part``, or
        its rank's.

        All parts but the last ones have the same number of steps; those may have fewer, or none.
        """
        rank = emit.value(hw.ClusterRankOp(), "rank") if part is None else part
        most = emit.apply(ceil_div(affine_dim(0), depth * self.parts) * depth, [size], hint="part")
        first = emit.value(arith.MuliOp(rank, most), "first")
        left = emit.apply(affine_dim(0) - affine_dim(1), [size, first])
        some = emit.value(arith.MaxSIOp(left, emit.index(0)))
        return Steps(first, emit.value(arith.MinSIOp(some, most), "bound"))

    def combine(
        self,
        emit: Emit,
        at: Mapping[str, SSAValue],
        axes: tuple[str, str],
        height: SSAValue,
        accs: Sequence[SSAValue],
    ) -> tuple[dict[str, SSAValue], list[SSAValue]]:
        """The sums over all CTAs, of this one's share of the columns, and where that begins.

        ``axes`` are the rows and the columns; the output has ``height`` rows.
        """
        row, column = axes
        rank = emit.value(hw.ClusterRankOp(), "rank")
        inside = emit.apply(affine_dim(0) - affine_dim(1), [height, at[row]], hint="rows")
        parts: list[SSAValue] = []
        width = 0
        for acc in accs:
            assert isinstance(acc.type, FragmentType)
            rows, columns = acc.type.sizes
            width = columns // self.parts
            parts.append(emit.value(tile.FragmentOp(FragmentType.of([rows, width], f32)), "part"))
            emit.op(tile.ReduceScatterOp("sum", acc, parts[-1], inside))
        start = emit.apply(affine_dim(0) + affine_dim(1) * width, [at[column], rank])
        start.name_hint = f"{column}0"
        return {**at, column: start}, parts
