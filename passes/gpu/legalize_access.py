"""``gpu-legalize-access``: guard global accesses that may leave their tensor (T2, S9.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import IndexType, ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.dialects.common.dim import Dim
from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.kernel import KernelOp
from polyc.dialects.gpu.types import GlobalType
from polyc.passes.support.gpu.signs import never_negative
from polyc.passes.support.gpu.symbols import enclosing_kernel, is_size, size_value
from polyc.passes.support.gpu.tile_bounds import inside_tile
from polyc.rewriting.driver import rewrite
from polyc.rewriting.emit import Emit


def in_bounds(
    emit: Emit, op: Operation, tensor: SSAValue, indices: Sequence[SSAValue]
) -> SSAValue | None:
    """The predicate that each coordinate is in its tensor; None for linear or rank-0 access.

    One that may be negative is compared as an unsigned number, which is both bounds at once; one
    that picks a point of a batch is inside, and so is one of a tile that is whole.
    """
    assert isinstance(tensor.type, GlobalType)
    if any(not isinstance(i.type, IndexType) for i in indices):
        return None
    kernel = enclosing_kernel(op)
    predicate: SSAValue | None = None
    for index, dim in zip(indices, tensor.type.dims, strict=True):
        if picks_a_point(index, dim, kernel) or inside_tile(index, dim, kernel):
            continue
        below = "slt" if never_negative(index) else "ult"
        inside = emit.compare(below, index, size_value(emit, dim, kernel))
        predicate = emit.both(predicate, inside)
    return predicate


def picks_a_point(index: SSAValue, dim: Dim, kernel: KernelOp) -> bool:
    """Whether a coordinate is that of a CTA's tile on an axis of ``dim`` points before its matrix.

    Tiles have one point of such an axis, and no more tiles are walked than there are.
    """
    owner = index.owner
    if isinstance(owner, Block):
        owner = owner.parent_op()
    if not isinstance(owner, tile.TileLoopOp | tile.TileCoordinatesOp):
        return False
    outer = list(owner.coordinates)[:-2]
    if index not in outer:
        return False
    axis = outer.index(index)
    return owner.tile.data[axis] == 1 and is_size(owner.sizes[axis], dim, kernel)


class GuardLoad(RewritePattern):
    """An element outside the tensor is not read; its value is the load's fill, or 0.

    A vector is guarded by its first element: rows hold whole vectors (``gpu-vectorize``).
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: hw.LoadGlobalOp, rewriter: PatternRewriter) -> None:
        if op.predicate is not None:
            return
        emit = Emit()
        guard = in_bounds(emit, op, op.tensor, op.indices)
        if guard is not None:
            kind = op.result.type
            new = hw.LoadGlobalOp(op.tensor, op.indices, kind, guard, op.fill, op.cache)
            rewriter.replace(op, [*emit.ops, new], [new.result])


class GuardStore(RewritePattern):
    """An element outside the tensor is not written."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: hw.StoreGlobalOp, rewriter: PatternRewriter) -> None:
        if op.predicate is not None:
            return
        emit = Emit()
        guard = in_bounds(emit, op, op.tensor, op.indices)
        if guard is not None:
            promised = op.promised or None
            new = hw.StoreGlobalOp(op.value, op.tensor, op.indices, guard, promised)
            rewriter.replace(op, [*emit.ops, new], [])


class GuardCpAsync(RewritePattern):
    """A chunk outside the tensor arrives as zeros.

    Chunks are as wide as the rows' alignment, so one is inside whole or outside whole.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: hw.CpAsyncOp, rewriter: PatternRewriter) -> None:
        if op.predicate is not None:
            return
        emit = Emit()
        guard = in_bounds(emit, op, op.tensor, op.indices)
        if guard is not None:
            new = hw.CpAsyncOp(op.address, op.tensor, op.indices, op.bytes.value.data, guard)
            rewriter.replace(op, [*emit.ops, new], [])


class GuardAtomic(RewritePattern):
    """An element outside the tensor is not updated."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: hw.AtomicGlobalOp, rewriter: PatternRewriter) -> None:
        if op.predicate is not None:
            return
        emit = Emit()
        guard = in_bounds(emit, op, op.tensor, op.indices)
        if guard is not None:
            function = op.function.data
            new = hw.AtomicGlobalOp(function, op.value, op.tensor, op.indices, guard)
            rewriter.replace(op, [*emit.ops, new], [])


class GuardExchange(RewritePattern):
    """An element outside the tensor is not set; what was there is 0."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: hw.ExchangeGlobalOp, rewriter: PatternRewriter) -> None:
        if op.predicate is not None:
            return
        emit = Emit()
        guard = in_bounds(emit, op, op.tensor, op.indices)
        if guard is not None:
            new = hw.ExchangeGlobalOp(op.value, op.tensor, op.indices, guard, add=op.adds)
            rewriter.replace(op, [*emit.ops, new], [new.result])


@dataclass(frozen=True)
class GpuLegalizeAccess(ModulePass):
    """Predicate every global access by the sizes of its tensor."""

    name = "gpu-legalize-access"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [GuardLoad(), GuardStore(), GuardCpAsync(), GuardAtomic(), GuardExchange()])
