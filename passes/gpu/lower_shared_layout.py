"""``gpu-lower-shared-layout``: element addresses by the tile's swizzle (T2)."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import ModuleOp, i32
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.types import SharedType, element_bytes
from polyc.rewriting.driver import rewrite
from polyc.rewriting.emit import Emit, affine_dim

PATTERN_ROW = 128
"""Bytes of one line of the swizzle pattern: all 32 banks once."""

CHUNK = 16
"""Bytes that a swizzle keeps together."""


class LowerElementAddress(RewritePattern):
    """``slot + panel + row·S + (byte xor chunk·((row floordiv 128/S) mod S/16))``.

    This is the hardware's swizzle of span S for tiles that start where the pattern does: bits
    4 and up of the address are XORed with bits 7 and up.  The XOR stays inside the row's S
    bytes, so the rest is affine and moves out of loops.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.ElementAddressOp, rewriter: PatternRewriter) -> None:
        kind = op.tile.type
        assert isinstance(kind, SharedType)
        span, size = kind.swizzle_bytes, element_bytes(kind.element_type)
        if span is None:
            raise PolycError("NoLayout", f"{kind} has no layout; run gpu-layout-inference", op)
        emit = Emit()
        base = emit.value(hw.SharedAddressOp(op.tile, op.slot))
        width = kind.panel_columns
        row, column = affine_dim(0), affine_dim(1)
        line = emit.apply(
            row * (width * size) + column // width * kind.panel_bytes
            if width < kind.sizes[-1]
            else row * (width * size),
            [op.row, op.column],
        )
        inner = column % width if width < kind.sizes[-1] else column
        byte = emit.apply(inner * size, [op.row, op.column])
        if span:
            lines_apart = PATTERN_ROW // span
            chunk = row // lines_apart % (span // CHUNK) * CHUNK
            twist = emit.apply(chunk, [op.row])
            byte = emit.value(arith.XOrIOp(byte, twist))
        offset = emit.apply(affine_dim(0) + affine_dim(1), [line, byte])
        address = emit.value(
            arith.AddiOp(base, emit.value(arith.IndexCastOp(offset, i32))), op.result.name_hint
        )
        rewriter.replace(op, emit.ops, [address])


@dataclass(frozen=True)
class GpuLowerSharedLayout(ModulePass):
    """Turn element addresses into arithmetic."""

    name = "gpu-lower-shared-layout"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [LowerElementAddress()])
