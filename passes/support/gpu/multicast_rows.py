"""A pattern that lowers ``gpu.copy`` with ``multicast`` of a tile whose rows the CTAs share.

``LowerTmaCopy`` gives each CTA of the cluster whole panels; a tile that is stored along the
reduction, as a convolution's filters are, has one panel, and is cut into bands of rows.
"""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.types import (
    SharedType,
    TensorMapType,
)
from polyc.dialects.gpu.waiting import MBarrierType
from polyc.passes.support.gpu.symbols import enclosing_kernel
from polyc.passes.support.gpu.tile_copies import tensor_map_argument
from polyc.rewriting.emit import Emit, affine_dim

PATTERN_ROWS = 8
"""Rows after which a swizzle repeats: where a band may begin."""


class LowerSharedRows(RewritePattern):
    """CTA ``r`` of a cluster of ``c`` loads band ``r`` of ``c`` bands of rows, and sends it to all.

    Legality: the panels do not split among the CTAs, and bands are whole repetitions of the
    swizzle, so that a box of a band's rows has the tile's own pattern.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.CopyOp, rewriter: PatternRewriter) -> None:
        target = op.target.type
        if (
            op.multicast is None
            or op.im2col is not None
            or op.loader is None
            or op.loader.data != "tma"
            or not isinstance(target, SharedType)
            or len(target.sizes) != 2
            or target.swizzle_bytes is None
            or not isinstance(op.signal.type if op.signal else None, MBarrierType)
        ):
            return
        kernel = enclosing_kernel(op)
        cluster, (rows, columns) = kernel.cluster_size, target.sizes
        width = target.panel_columns
        panels = columns // width
        if cluster == 1 or panels % cluster == 0 or rows % (PATTERN_ROWS * cluster):
            return
        assert op.signal is not None and op.signal_index is not None
        band = rows // cluster
        across, along = op.tile_axes
        sizes = [1] * len(op.indices)
        sizes[across], sizes[along] = band, width
        box = TensorMapType.of(sizes, target.element_type, target.swizzle_bytes)
        map_arg = tensor_map_argument(kernel, op.source, box, op)
        emit = Emit()
        rank = emit.value(hw.ClusterRankOp(), "rank")
        mask = emit.int32((1 << cluster) - 1)
        shift = emit.apply(affine_dim(0) * (target.panel_bytes // cluster), [rank])
        start = emit.value(hw.SharedAddressOp(op.target, op.slot or emit.index(0)))
        base = emit.value(arith.AddiOp(start, emit.value(arith.IndexCastOp(shift, i32))))
        first = emit.apply(affine_dim(0) + affine_dim(1) * band, [op.indices[across], rank])
        for panel in range(panels):
            address, column = base, op.indices[along]
            if panel:
                address = emit.value(arith.AddiOp(base, emit.int32(panel * target.panel_bytes)))
                column = emit.apply(affine_dim(0) + panel * width, [column])
            place: list[SSAValue] = list(op.indices)
            place[across], place[along] = first, column
            hint = None if op.cache is None else op.cache.data
            emit.op(hw.TmaLoadOp(map_arg, place, address, op.signal, op.signal_index, mask, hint))
        rewriter.replace(op, emit.ops, [])
