"""Patterns that lower ``gpu.fill`` and ``gpu.map`` to loops over a thread's registers."""

from __future__ import annotations

from xdsl.dialects import memref, vector
from xdsl.dialects.builtin import VectorType, i32
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.types import (
    FragmentLayoutAttr,
    FragmentType,
    GlobalType,
    SharedType,
)
from polyc.passes.support.gpu.mma_steps import is_packed
from polyc.passes.support.gpu.scope import thread_in_scope
from polyc.passes.support.gpu.spread import Spread
from polyc.passes.support.gpu.tile_contracts import registers_of
from polyc.passes.support.gpu.tile_fragments import first_holders, spread_of, when_needed
from polyc.rewriting.emit import Emit, clone_into


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
    What is read of another fragment must be in the same thread's registers.  What is written to a
    tensor is written by the first thread that holds the element.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.MapOp, rewriter: PatternRewriter) -> None:
        layout, spread = spread_of(op.space, op)
        emit = Emit()
        element, *_ = op.body.block.args
        # A body that does not ask for its own element takes from the fragment its layout alone.
        space = registers_of(emit, op.space) if element.first_use is not None else None
        operands = {
            v: registers_of(emit, v)
            for v in (*op.inputs, *op.outputs)
            if isinstance(v.type, FragmentType)
        }
        reads = [
            register_expr(op, spread, v, m) if v in operands else None
            for v, m in zip(op.inputs, op.input_maps, strict=True)
        ]
        writes = [
            register_expr(op, spread, v, m) if v in operands else None
            for v, m in zip(op.outputs, op.output_maps, strict=True)
        ]
        thread = thread_in_scope(emit, op)
        origin = list(op.origin)
        to_tensors = [isinstance(v.type, GlobalType) for v in op.outputs]
        first = first_holders(emit, spread, op) if any(to_tensors) else None
        end = op.body.block.last_op
        assert isinstance(end, tile.YieldOp)

        packed = any(is_packed(v) for v in op.outputs)

        def scalars(inner: Emit, r: SSAValue) -> dict[SSAValue, SSAValue]:
            """The body at one register: what its values are there."""
            values: dict[SSAValue, SSAValue] = {}
            scalar, *others = op.body.block.args
            if space is not None:
                values[scalar] = inner.value(memref.LoadOp.get(space, [r]), scalar.name_hint)
            for arg, source, access, which in zip(
                others, op.inputs, op.input_maps, reads, strict=True
            ):
                load = self.load(inner, op, source, operands, access, layout, which, thread, r)
                values[arg] = inner.value(load, arg.name_hint)
            for index in op.body.block.walk():
                if isinstance(index, tile.TileIndexOp):
                    place = layout.map.data.results[index.axis.value.data]
                    hint = index.result.name_hint
                    values[index.result] = inner.apply(place, [thread, r], hint=hint)
            clone_into(
                [
                    o
                    for o in op.body.block.ops
                    if o is not end and not isinstance(o, tile.TileIndexOp)
                ],
                values,
                inner,
            )
            return values

        def store(inner: Emit, values: dict[SSAValue, SSAValue], r: SSAValue) -> None:
            for value, target, access, which in zip(
                end.values, op.outputs, op.output_maps, writes, strict=True
            ):
                result = values.get(value, value)
                if is_packed(target):
                    continue
                if which is not None:
                    inner.op(
                        memref.StoreOp.get(result, operands[target], [inner.apply(which, [r])])
                    )
                    continue
                at = self.coordinates(inner, access, layout, [thread, r], origin)
                stored = hw.StoreGlobalOp(result, target, at)
                when_needed(
                    inner, None if all(to_tensors) else first, lambda e, o=stored: e.ops.append(o)
                )

        def body(inner: Emit, r: SSAValue) -> None:
            store(inner, scalars(inner, r), r)

        def pair(inner: Emit, word: SSAValue) -> None:
            """Two registers, of which packed fragments have one word."""
            places = [inner.apply(AffineExpr.dimension(0) * 2 + lane, [word]) for lane in (0, 1)]
            both = [scalars(inner, r) for r in places]
            for values, r in zip(both, places, strict=True):
                store(inner, values, r)
            for value, target in zip(end.values, op.outputs, strict=True):
                if is_packed(target):
                    halves = [values.get(value, value) for values in both]
                    bits = VectorType(i32, [1])
                    found = vector.BitcastOp(inner.value(hw.PackOp(halves)), bits)
                    whole = inner.value(hw.UnpackOp(inner.value(found), 0), value.name_hint)
                    inner.op(memref.StoreOp.get(whole, operands[target], [word]))

        def loop(then: Emit) -> None:
            if packed:
                then.loop(layout.registers.data // 2, pair, unroll=True, hint="r")
            else:
                then.loop(layout.registers.data, body, unroll=True, hint="r")

        # Around the loop where it can be: gpu-vectorize looks at loops without branches.
        when_needed(emit, first if all(to_tensors) else None, loop)
        rewriter.replace(op, emit.ops, [])

    def load(
        self,
        emit: Emit,
        op: tile.MapOp,
        source: SSAValue,
        registers: dict[SSAValue, SSAValue],
        access: AffineMap,
        layout: FragmentLayoutAttr,
        which: AffineExpr | None,
        thread: SSAValue,
        r: SSAValue,
    ) -> Operation:
        """The op that reads an operand at its map of register ``r``."""
        kind = source.type
        if which is not None:
            return memref.LoadOp.get(registers[source], [emit.apply(which, [r])])
        at = self.coordinates(emit, access, layout, [thread, r], list(op.origin))
        if isinstance(kind, GlobalType):
            return hw.LoadGlobalOp(source, at, kind.element_type)
        assert isinstance(kind, SharedType)
        if kind.swizzle_bytes is None or not 1 <= len(at) <= 2:
            raise PolycError(
                "NoLayout",
                f"a map reads a shared tile of one or two axes that has a layout, not {kind}",
                op,
            )
        zero = emit.index(0)
        row = at[0] if len(at) == 2 else zero
        address = emit.value(tile.ElementAddressOp(source, zero, row, at[-1]))
        return hw.LoadSharedOp(address, kind.element_type)

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


def register_expr(
    op: tile.MapOp, space: Spread, operand: SSAValue, access: AffineMap
) -> AffineExpr:
    """The register of a fragment operand as a function of the space's register.

    Raises PolycError ``LayoutConflict`` where another thread holds what this one needs.
    """
    _, spread = spread_of(operand, op)
    try:
        which = space.held(AffineMap(access.num_dims, 0, access.results), spread)
        return Spread(((0,),), tuple((w,) for w in which)).register_expr()
    except ValueError as error:
        assert isinstance(op.space.type, FragmentType)
        raise PolycError(
            "LayoutConflict",
            f"this map runs over {op.space.type.layout} and reads {operand.type} by {access}: "
            f"{error}; leave the layout open, or annotate one that puts both in one thread",
            op,
        ) from None
