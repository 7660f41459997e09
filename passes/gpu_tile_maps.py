"""Patterns that lower ``gpu.fill`` and ``gpu.map`` to loops over a thread's registers."""

from __future__ import annotations

from xdsl.dialects import memref
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.dialects.diagnostic import PolycError
from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.types import FragmentLayoutAttr, FragmentType, GlobalType
from polyc.passes.emit import Emit, clone_into
from polyc.passes.gpu_tile_contracts import registers_of


def fragment_layout(op: tile.MapOp | tile.FillOp, fragment: SSAValue) -> FragmentLayoutAttr:
    """The layout of a fragment; raises PolycError ``NoLayout`` while it is open."""
    assert isinstance(fragment.type, FragmentType)
    if not isinstance(fragment.type.layout, FragmentLayoutAttr):
        raise PolycError("NoLayout", f"{fragment.type} has no layout; run gpu-layout-inference", op)
    return fragment.type.layout


class LowerFill(RewritePattern):
    """Each thread sets its registers."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.FillOp, rewriter: PatternRewriter) -> None:
        layout = fragment_layout(op, op.fragment)
        emit = Emit()
        registers = registers_of(emit, op.fragment)
        emit.loop(
            layout.registers.data,
            lambda body, r: body.ops.append(memref.StoreOp.get(op.value, registers, [r])),
            unroll=True,
            hint="r",
        )
        rewriter.replace(op, emit.ops, [])


class LowerMap(RewritePattern):
    """Each thread runs the body once a register.

    The coordinates of register ``r`` of thread ``t`` are the fragment's layout at ``(t, r)``, and
    an operand's are its map after that, as one affine expression of ``t``, ``r`` and the origin.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.MapOp, rewriter: PatternRewriter) -> None:
        layout = fragment_layout(op, op.space)
        emit = Emit()
        space = registers_of(emit, op.space)
        targets = [
            registers_of(emit, out) if isinstance(out.type, FragmentType) else out
            for out in op.outputs
        ]
        thread = emit.value(hw.ThreadIdOp(), "thread")
        end = op.body.block.last_op
        assert isinstance(end, tile.YieldOp)

        def body(inner: Emit, r: SSAValue) -> None:
            values: dict[SSAValue, SSAValue] = {}
            scalar, *others = op.body.block.args
            values[scalar] = inner.value(memref.LoadOp.get(space, [r]), scalar.name_hint)
            for arg, tensor, access in zip(others, op.inputs, op.input_maps, strict=True):
                assert isinstance(tensor.type, GlobalType)
                at = self.coordinates(inner, access, layout, [thread, r], list(op.origin))
                load = hw.LoadGlobalOp(tensor, at, tensor.type.element_type)
                values[arg] = inner.value(load, arg.name_hint)
            clone_into([o for o in op.body.block.ops if o is not end], values, inner)
            for value, target, access in zip(end.values, targets, op.output_maps, strict=True):
                result = values.get(value, value)
                if isinstance(target.type, GlobalType):
                    at = self.coordinates(inner, access, layout, [thread, r], list(op.origin))
                    inner.op(hw.StoreGlobalOp(result, target, at))
                else:
                    inner.op(memref.StoreOp.get(result, target, [r]))

        emit.loop(layout.registers.data, body, unroll=True, hint="r")
        rewriter.replace(op, emit.ops, [])

    @staticmethod
    def coordinates(
        emit: Emit,
        access: AffineMap,
        layout: FragmentLayoutAttr,
        where: list[SSAValue],
        origin: list[SSAValue],
    ) -> list[SSAValue]:
        symbols = [AffineExpr.symbol(i) for i in range(len(origin))]
        tile_axes = list(layout.map.data.results)
        return [
            emit.apply(expr.replace_dims_and_symbols(tile_axes, symbols), where, origin)
            for expr in access.results
        ]
