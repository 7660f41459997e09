"""``gpu-layout-inference``: how shared tiles are swizzled and who holds which element (T2).

Strict level: a contract fixes the layouts of its operands and of its accumulator.  Common
level: a layout goes through maps and reductions to the fragments that they touch.  Free level:
what is still open gets rows of vectors.  An author's layout is kept, and refused where it leaves
elements out or the instruction cannot work with it.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.tile.compute import FMA_VECTOR
from polyc.dialects.gpu.types import FragmentType, SharedType, element_bytes
from polyc.passes.support.gpu.free_layouts import (
    CheckLayout,
    LayOutFree,
    LayOutShared,
    SpreadThroughMap,
    SpreadThroughReduce,
    SpreadThroughScan,
    SpreadThroughScatter,
    set_fragment_layout,
    widest_swizzle,
)
from polyc.passes.support.gpu.layouts import (
    accumulator,
    fma_accumulator,
    mma_sync_accumulator,
    tf32_operand,
    wgmma_operand,
)
from polyc.rewriting.driver import rewrite


class LayOutContract(RewritePattern):
    """Swizzle a contract's operands as wide as their rows allow, and place its accumulator.

    With the hardware's swizzle, eight rows of 16-byte chunks fall into different banks, so
    ldmatrix and wgmma read without conflicts, whichever axis is contiguous.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.ContractOp, rewriter: PatternRewriter) -> None:
        # One by one: both may be one tile, which the first call gives a new type.
        if isinstance(op.lhs.type, SharedType):
            self.lay_out_shared(op, op.lhs, rewriter)
        self.lay_out_shared(op, op.rhs, rewriter)
        try:
            layout = accumulator(op)
        except ValueError as error:
            raise PolycError("LayoutConflict", str(error), op) from None
        set_fragment_layout(op.acc, layout, op, rewriter)
        if isinstance(op.lhs.type, FragmentType):
            self.lay_out_left(op, rewriter)

    @staticmethod
    def lay_out_left(op: tile.ContractOp, rewriter: PatternRewriter) -> None:
        """A fragment on the left lies as an accumulator of its sizes would, of threads that
        multiply by themselves one of operands that are stored along k; of TF32 as wgmma has it."""
        m, n, k = op.sizes
        rows, columns = op.warp_sizes
        if op.is_tf32:
            layout = tf32_operand(m, k, turned=not op.lhs_k_major)
        elif op.mma.data == "wgmma":
            layout = wgmma_operand(m, k, turned=not op.lhs_k_major)
        elif op.mma.data == "fma":
            layout = fma_accumulator(m, k, (rows, k), lhs_k_major=True, rhs_k_major=True)
        elif columns == n:
            layout = mma_sync_accumulator(m, k, (rows, k))
        else:
            raise PolycError(
                "LayoutConflict",
                f"a warp that holds rows of the left operand multiplies them with all {n} columns; "
                f"make the warp_tile {rows}x{n}",
                op,
            )
        set_fragment_layout(op.lhs, layout, op, rewriter)

    @staticmethod
    def lay_out_shared(op: tile.ContractOp, operand: SSAValue, rewriter: PatternRewriter) -> None:
        kind = operand.type
        assert isinstance(kind, SharedType)
        span = kind.swizzle_bytes
        if span is None:
            laid = laid_out(op, operand, kind)
            found = laid.swizzle_bytes
            rewriter.replace_value_with_new_type(operand, laid)
            kind, span = laid, found
        if op.mma.data == "wgmma" and span == 0:
            raise PolycError(
                "LayoutConflict",
                f"wgmma reads swizzled operands here and {kind} has rows of "
                f"{kind.sizes[-1] * element_bytes(kind.element_type)} bytes; make rows a "
                "multiple of 32 bytes",
                op,
            )


def laid_out(op: tile.ContractOp, operand: SSAValue, kind: SharedType) -> SharedType:
    """The layout of an operand: swizzled, but for lines of which threads load four of one k.

    These lie in different banks as they are, and an address is a sum; where a turned copy fills
    them, by columns, a pad puts these into different banks too.
    """
    lines = op.mma.data == "fma" and not (op.lhs_k_major if operand is op.lhs else op.rhs_k_major)
    if not lines:
        return kind.like(swizzle=widest_swizzle(kind))
    users = [use.operation for use in operand.uses]
    turned = any(isinstance(u, tile.CopyOp) and u.turned is not None for u in users)
    return kind.like(swizzle=0, pad=FMA_VECTOR if turned else 0)


@dataclass(frozen=True)
class GpuLayoutInference(ModulePass):
    """Choose the layouts that the tile program leaves open."""

    name = "gpu-layout-inference"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [CheckLayout()])
        rewrite(op, [LayOutContract()])
        common = [
            SpreadThroughMap(),
            SpreadThroughReduce(),
            SpreadThroughScan(),
            SpreadThroughScatter(),
        ]
        rewrite(op, common, recursive=True)
        while rewrite(op, [LayOutFree()]):
            rewrite(op, common, recursive=True)
        rewrite(op, [LayOutShared()])
