"""``region-to-gpu``: chains of tiles of lines that lie side by side, as columns do (S8, S9)."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from polyc.dialects.gpu.types import FragmentLayoutAttr
from polyc.lowering.region_to_gpu.point import COLUMN, ROW
from polyc.lowering.region_to_gpu.scan_chains import ChainBuilder, Link
from polyc.lowering.region_to_gpu.scan_teams import ZERO
from polyc.rewriting.emit import Emit


class ColumnChainBuilder(ChainBuilder):
    """The same of lines that lie side by side: a tile's rows are their points.

    A thread has neighbouring points of neighbouring lines.  The words of these lie apart, so that
    those of neighbouring threads are neighbours.
    """

    axis = 0
    by = AffineMap(2, 0, (ZERO, COLUMN))

    @property
    def beside(self) -> str | None:
        return self.scans.column

    @property
    def along(self) -> tuple[bool, bool]:
        return False, True

    @property
    def across(self) -> int:
        """Threads side by side."""
        return self.plan.tile_sizes[1] // self.plan.integer("vectorize")

    def layout(self) -> FragmentLayoutAttr:
        """Threads have vectors side by side, and as many rows each below each other."""
        vector, threads = self.plan.integer("vectorize"), self.plan.threads()
        run = self.plan.tile_sizes[0] * self.across // threads
        column = ROW % self.across * vector + COLUMN % vector
        place = ROW // self.across * run + COLUMN // vector, column
        return FragmentLayoutAttr.of(threads, run * vector, AffineMap(2, 0, place))

    def word(self, row: AffineExpr, column: AffineExpr) -> tuple[AffineExpr, AffineExpr]:
        vector = self.plan.integer("vectorize")
        return ZERO, column % vector * self.across + column // vector

    def told(self) -> FragmentLayoutAttr:
        place = ZERO, ROW % self.across + COLUMN * self.across
        vector = self.plan.integer("vectorize")
        return FragmentLayoutAttr.of(self.plan.threads(), vector, AffineMap(2, 0, place))

    def awaited(self) -> FragmentLayoutAttr:
        vector, threads = self.plan.integer("vectorize"), self.plan.threads()
        deep = threads // self.across
        row = ROW // self.across + COLUMN // vector * deep
        column = ROW % self.across + COLUMN % vector * self.across
        return FragmentLayoutAttr.of(
            threads, vector * self.group // deep, AffineMap(2, 0, (row, column))
        )

    def where(
        self, emit: Emit, link: Link, number: SSAValue, count: SSAValue
    ) -> tuple[SSAValue, SSAValue]:
        assert link.column is not None
        first = emit.value(arith.MuliOp(link.line, count))
        return emit.value(arith.AddiOp(first, number)), link.column

    def known(self, emit: Emit, before: SSAValue) -> SSAValue:
        return before

    def worded(self) -> AffineMap:
        vector = self.plan.integer("vectorize")
        return AffineMap(2, 0, (ZERO, COLUMN % self.across * vector + COLUMN // self.across))
