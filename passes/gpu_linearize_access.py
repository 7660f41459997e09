"""``gpu-linearize-access``: coordinates as one element offset in 64 bits (S4.7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, ModuleOp, i64
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu.types import GlobalType
from polyc.passes.driver import rewrite
from polyc.passes.emit import Emit
from polyc.passes.gpu_symbols import enclosing_kernel, size_value


def linear_offset(
    emit: Emit, op: Operation, tensor: SSAValue, indices: Sequence[SSAValue]
) -> SSAValue | None:
    """Row-major offset of ``indices``; None when it is linear already.

    Coordinates are 32-bit, products 64-bit: a tensor may have more than 2^31 elements.
    """
    assert isinstance(tensor.type, GlobalType)
    if any(not isinstance(i.type, IndexType) for i in indices):
        return None
    kernel = enclosing_kernel(op)
    total: SSAValue | None = None
    for index, dim in zip(indices, tensor.type.dims, strict=True):
        wide = emit.value(arith.IndexCastOp(index, i64))
        if total is None:
            total = wide
            continue
        size = emit.value(arith.IndexCastOp(size_value(emit, dim, kernel), i64))
        total = emit.value(arith.AddiOp(emit.value(arith.MuliOp(total, size)), wide))
    if total is None:
        total = emit.value(arith.IndexCastOp(emit.index(0), i64))
    return total


class LinearizeLoad(RewritePattern):
    """A load at coordinates becomes a load at an offset."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: hw.LoadGlobalOp, rewriter: PatternRewriter) -> None:
        emit = Emit()
        offset = linear_offset(emit, op, op.tensor, op.indices)
        if offset is not None:
            new = hw.LoadGlobalOp(op.tensor, [offset], op.result.type, op.predicate)
            rewriter.replace(op, [*emit.ops, new], [new.result])


class LinearizeStore(RewritePattern):
    """A store at coordinates becomes a store at an offset."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: hw.StoreGlobalOp, rewriter: PatternRewriter) -> None:
        emit = Emit()
        offset = linear_offset(emit, op, op.tensor, op.indices)
        if offset is not None:
            new = hw.StoreGlobalOp(op.value, op.tensor, [offset], op.predicate)
            rewriter.replace(op, [*emit.ops, new], [])


class LinearizeCpAsync(RewritePattern):
    """A cp.async at coordinates becomes one at an offset."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: hw.CpAsyncOp, rewriter: PatternRewriter) -> None:
        emit = Emit()
        offset = linear_offset(emit, op, op.tensor, op.indices)
        if offset is not None:
            size = op.bytes.value.data
            new = hw.CpAsyncOp(op.address, op.tensor, [offset], size, op.predicate)
            rewriter.replace(op, [*emit.ops, new], [])


class LinearizeAtomic(RewritePattern):
    """An atomic update at coordinates becomes one at an offset."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: hw.AtomicGlobalOp, rewriter: PatternRewriter) -> None:
        emit = Emit()
        offset = linear_offset(emit, op, op.tensor, op.indices)
        if offset is not None:
            function = op.function.data
            new = hw.AtomicGlobalOp(function, op.value, op.tensor, [offset], op.predicate)
            rewriter.replace(op, [*emit.ops, new], [])


@dataclass(frozen=True)
class GpuLinearizeAccess(ModulePass):
    """Turn coordinates into linear offsets by the symbolic strides."""

    name = "gpu-linearize-access"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [LinearizeLoad(), LinearizeStore(), LinearizeCpAsync(), LinearizeAtomic()])
