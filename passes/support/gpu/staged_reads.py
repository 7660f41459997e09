"""What a step adds to its products comes by TMA, through a ring of tiles as its operands do (T2).

Where a producer brings the tiles of ``wgmma``, a mask of queries and keys that threads loaded
themselves would be what they wait for: each warp asks for eight rows at a time, two elements of a
row a thread, and only when its products are there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import bf16, f16, f32, i1
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint

from polyc.affine.expressions import canonical_expr
from polyc.dialects.common.arch import ARCHS
from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import kernel as gpu
from polyc.dialects.gpu import module as gpu_module
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.types import (
    FragmentType,
    GlobalType,
    SharedType,
    element_bytes,
    index_attr,
)
from polyc.dialects.plan.resources import RESERVED, SHARED_ALIGN
from polyc.passes.gpu.share_reads import axes_of, contract_before, is_before, reads_alone, sizes_of
from polyc.passes.gpu.warp_specialize import specializes
from polyc.passes.support.gpu.pipeline_parts import copies_of
from polyc.passes.support.gpu.ring_flow import is_chained
from polyc.passes.support.gpu.symbols import enclosing_kernel
from polyc.rewriting.driver import located
from polyc.rewriting.emit import Emit

TMA_BYTES = 16
"""Rows that TMA reads start at multiples of it, and a box's are whole ones of it."""

MOST_BOX = 256
"""Elements of a box along an axis."""

TMA_RANK = 5
"""Axes of a tensor that TMA reads."""

ELEMENTS = (f16, bf16, f32, i1)
"""Types of elements that a tensor map has here; a condition is a byte."""


class StageReads(RewritePattern):
    """Bring what a map over an accumulator reads at both axes to shared memory, with the operands.

    The map stands in a pipeline that gets roles (``gpu-warp-specialize``), behind a contract by
    ``wgmma`` into its space, of whose products another contract of the step makes use.  A tensor
    that it reads at the row and the column is copied by TMA to a tile, which gets a ring as those
    of the operands have, and behind the contract, whose products run meanwhile, from there to a
    fragment of the tile.

    Legality, exact: the kernel writes the tensor nowhere; elements outside of it are 0, as a map
    sees them.  TMA can read it: it is an argument of the kernel of 2 to 5 axes, none of them
    empty, whose rows are multiples of 16 bytes; the column moves along its last axis and the row
    along one other, by 1 each.  Refused, and left as they are: other reads, and tiles for which
    the CTAs of a multiprocessor have no shared memory.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.MapOp, rewriter: PatternRewriter) -> None:
        pipeline = op.parent_op()
        if not isinstance(pipeline, tile.PipelineOp) or not specializes(pipeline):
            return
        contract = contract_before(op)
        if contract is None or not is_chained(list(pipeline.body.block.ops)):
            return
        if not all(is_before(value, contract) for value in op.origin):
            return
        inputs, maps = list(op.inputs), op.input_maps
        found = False
        for i, (source, access) in enumerate(zip(inputs, maps, strict=True)):
            read = Read.of(source, access, op)
            if read is None or not read.has_room(pipeline):
                continue
            found = True
            inputs[i] = read.stage(op, contract, rewriter)
            both = (AffineExpr.dimension(0), AffineExpr.dimension(1))
            maps[i] = AffineMap(2, len(op.origin), both)
        if found:
            body = op.detach_region(op.body)
            every = [*maps, *op.output_maps]
            new = tile.MapOp(op.space, op.origin, inputs, op.outputs, every, body, op.cache)
            rewriter.replace(op, located(new, op))


@dataclass(frozen=True)
class Read:
    """What a map reads of a tensor at the rows and columns of its tile: ``first`` is where the
    tile begins, by the map's origin, and ``axes`` those that its rows and columns run along."""

    source: BlockArgument
    first: tuple[AffineExpr, ...]
    axes: tuple[int, int]
    kind: SharedType

    @staticmethod
    def of(source: SSAValue, access: AffineMap, op: tile.MapOp) -> Read | None:
        """None where TMA cannot bring it."""
        if not isinstance(source.type, GlobalType) or not isinstance(source, BlockArgument):
            return None
        kernel, kind = enclosing_kernel(op), source.type
        rank, size = len(kind.dims), element_bytes(kind.element_type)
        sizes = sizes_of(op.space)
        if (
            source.block is not kernel.body.block
            or kind.element_type not in ELEMENTS
            or len(axes_of(access)) != 2
            or rank > TMA_RANK
            or kind.align.data < TMA_BYTES
            or max(sizes) > MOST_BOX
            or sizes[1] * size % TMA_BYTES
            or not all(reads_alone(use.operation, source) for use in source.uses)
            or not all(is_some(kernel, kind, axis) for axis in range(rank))
        ):
            return None
        rows = [axis for axis in range(rank - 1) if uses(access.results[axis], 0)]
        if len(rows) != 1 or uses(access.results[-1], 0):
            return None
        if any(uses(access.results[axis], 1) for axis in range(rank - 1)):
            return None
        first: list[AffineExpr] = []
        for axis, expr in enumerate(access.results):
            own = 0 if axis == rows[0] else 1 if axis == rank - 1 else None
            left = expr if own is None else canonical_expr(expr - AffineExpr.dimension(own))
            if uses(left, 0) or uses(left, 1):
                return None
            first.append(left)
        shared = SharedType.of(sizes, kind.element_type)
        return Read(source, tuple(first), (rows[0], rank - 1), shared)

    def has_room(self, pipeline: tile.PipelineOp) -> bool:
        """Whether CTAs have shared memory for as many tiles as the pipeline is deep."""
        kernel = enclosing_kernel(pipeline)
        module = kernel.parent_op()
        assert isinstance(module, gpu_module.ModuleOp)
        stages = pipeline.stages.value.data
        ahead = {copy.target for copy in copies_of(pipeline)}
        tiles = [op.tile for op in kernel.walk() if isinstance(op, hw.SharedTileOp)]
        taken = sum(
            bytes_of(held) * (stages if held in ahead else repeats(held, kernel)) for held in tiles
        )
        beside = kernel.blocks_per_sm.value.data
        room = (ARCHS[module.arch.data].shared_bytes + RESERVED) // beside - RESERVED
        # Tiles begin at multiples, and barriers lie beside them.
        own = self.kind.bytes * stages + 2 * SHARED_ALIGN
        return taken + own <= room

    def stage(
        self, op: tile.MapOp, contract: tile.ContractOp, rewriter: PatternRewriter
    ) -> SSAValue:
        """The fragment that a step's elements come to."""
        owner = op.space.owner
        assert isinstance(owner, Operation)
        shared = hw.SharedTileOp(self.kind)
        held = tile.FragmentOp(FragmentType.of(self.kind.sizes, self.kind.element_type))
        shared.tile.name_hint = f"{self.source.name_hint}_tile"
        held.fragment.name_hint = self.source.name_hint
        rewriter.insert([located(o, op) for o in (shared, held)], InsertPoint.before(owner))
        emit = Emit()
        symbols = [AffineExpr.dimension(i) for i in range(len(op.origin))]
        places = [
            emit.apply(expr.replace_dims_and_symbols([], symbols), list(op.origin))
            for expr in self.first
        ]
        rank = len(places)
        axes = None if self.axes == (rank - 2, rank - 1) else self.axes
        load = tile.CopyOp(
            tile.CopyEnd(self.source, places),
            tile.CopyEnd(shared.tile),
            tile.CopyView(axes=axes),
            tile.CopyTravel("tma"),
        )
        load.stage = index_attr(0)
        emit.op(load)
        at = InsertPoint.after(place(op, contract))
        rewriter.insert([located(o, op) for o in emit.ops], at)
        read = tile.CopyOp(tile.CopyEnd(shared.tile), tile.CopyEnd(held.fragment))
        rewriter.insert(located(read, op), InsertPoint.after(contract))
        return held.fragment


def place(op: tile.MapOp, contract: tile.ContractOp) -> Operation:
    """What the copy goes behind: that of the contract's operands, ahead of those that a later
    contract of the step reads, or else whatever is in front of the contract."""
    block = contract.parent_block()
    assert block is not None and contract.prev_op is not None
    own = [
        copy
        for copy in block.ops
        if isinstance(copy, tile.CopyOp)
        and copy.is_before_in_block(contract)
        and copy.target in (contract.lhs, contract.rhs)
    ]
    there = [copy for copy in own if all(is_before(value, copy) for value in op.origin)]
    return there[-1] if there else contract.prev_op


def uses(expr: AffineExpr, axis: int) -> bool:
    """Whether an expression has an axis of the tile in it."""
    return any(isinstance(e, AffineDimExpr) and e.position == axis for e in expr.dfs())


def is_some(kernel: gpu.KernelOp, kind: GlobalType, axis: int) -> bool:
    """Whether an axis is not empty: it has a known size, or that of one that TMA reads anyway."""
    size = kind.dims[axis]
    if (known := size.constant()) is not None:
        return known > 0
    copies = [o for o in kernel.walk() if isinstance(o, tile.CopyOp) and o.loader is not None]
    read = [o.source.type for o in copies if o.loader is not None and o.loader.data == "tma"]
    return any(isinstance(other, GlobalType) and size in other.dims for other in read)


def bytes_of(held: SSAValue) -> int:
    """The bytes of a shared tile, or of all of its ring."""
    return cast("SharedType", held.type).bytes


def repeats(held: SSAValue, kernel: gpu.KernelOp) -> int:
    """How many of a tile there will be at most, that threads fill beside the pipelines: one for
    each warpgroup that computes (``gpu-turns``)."""
    fills = [u.operation for u in held.uses if isinstance(u.operation, tile.CopyOp)]
    by_tma = any(c.loader is not None and c.loader.data == "tma" for c in fills)
    return 1 if by_tma else max(1, kernel.threads.value.data // 128 - 1)
