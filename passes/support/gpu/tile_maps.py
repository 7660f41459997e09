"""Patterns that lower ``gpu.fill`` and ``gpu.map`` to loops over a thread's registers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects import affine, memref, vector
from xdsl.dialects.builtin import i32
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineBinaryOpExpr, AffineBinaryOpKind, AffineExpr, AffineMap
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.affine.expressions import expr_of, linear_of
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.types import (
    FragmentLayoutAttr,
    FragmentType,
    GlobalType,
    SharedType,
    vector_of,
)
from polyc.passes.support.gpu.mma_steps import is_packed
from polyc.passes.support.gpu.scope import thread_in_scope
from polyc.passes.support.gpu.spread import Spread
from polyc.passes.support.gpu.tile_contracts import registers_of
from polyc.passes.support.gpu.tile_fragments import first_holders, spread_of, when_needed
from polyc.passes.support.gpu.vectors import divisor
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
        emit = Emit()
        at = ThreadMap.of(emit, op)
        count = at.layout.registers.data

        def loop(then: Emit) -> None:
            if at.packs:
                then.loop(count // 2, at.run_pair, unroll=True, hint="r")
            else:
                then.loop(count, at.run, unroll=True, hint="r")

        # Around the loop where it can be: gpu-vectorize looks at loops without branches.
        when_needed(emit, at.first if at.writes_tensors_alone else None, loop)
        rewriter.replace(op, emit.ops, [])


@dataclass(frozen=True)
class ThreadMap:
    """A map as one thread runs it: from which of its registers it reads, and where it writes."""

    op: tile.MapOp
    layout: FragmentLayoutAttr
    thread: SSAValue
    first: SSAValue | None
    """Whether the thread is the first that holds its elements; None where each is, or none asks."""
    own: SSAValue | None
    """The registers of the space, where the body asks for its own element."""
    registers: Mapping[SSAValue, SSAValue]
    """Those of the fragments among inputs and outputs."""
    reads: Sequence[AffineExpr | None]
    writes: Sequence[AffineExpr | None]
    """The register of each input and output as a function of the space's; None of a tensor."""

    @staticmethod
    def of(emit: Emit, op: tile.MapOp) -> ThreadMap:
        """The map in its thread; raises PolycError ``LayoutConflict`` where another has a value."""
        layout, spread = spread_of(op.space, op)
        element, *_ = op.body.block.args
        # A body that does not ask for its own element takes from the fragment its layout alone.
        own = registers_of(emit, op.space) if element.first_use is not None else None
        registers = {
            v: registers_of(emit, v)
            for v in (*op.inputs, *op.outputs)
            if isinstance(v.type, FragmentType)
        }

        def places(
            values: Sequence[SSAValue], maps: Sequence[AffineMap]
        ) -> list[AffineExpr | None]:
            return [
                register_expr(op, spread, v, m) if v in registers else None
                for v, m in zip(values, maps, strict=True)
            ]

        reads, writes = places(op.inputs, op.input_maps), places(op.outputs, op.output_maps)
        thread = thread_in_scope(emit, op)
        to_tensors = any(isinstance(v.type, GlobalType) for v in op.outputs)
        first = first_holders(emit, spread, op) if to_tensors else None
        return ThreadMap(op, layout, thread, first, own, registers, reads, writes)

    @property
    def end(self) -> tile.YieldOp:
        """What the body gives."""
        end = self.op.body.block.last_op
        assert isinstance(end, tile.YieldOp)
        return end

    @property
    def packs(self) -> bool:
        """Whether a fragment that it writes has a word for two registers."""
        return any(is_packed(v) for v in self.op.outputs)

    @property
    def writes_tensors_alone(self) -> bool:
        """Whether all that it writes is in global memory."""
        return all(isinstance(v.type, GlobalType) for v in self.op.outputs)

    def run(self, emit: Emit, r: SSAValue) -> None:
        """The body at a register."""
        self.store(emit, self.values(emit, r), r)

    def run_pair(self, emit: Emit, word: SSAValue) -> None:
        """The body at two registers, of which packed fragments have one word."""
        places = [emit.apply(AffineExpr.dimension(0) * 2 + lane, [word]) for lane in (0, 1)]
        both = [self.values(emit, r) for r in places]
        for values, r in zip(both, places, strict=True):
            self.store(emit, values, r)
        for value, target in zip(self.end.values, self.op.outputs, strict=True):
            if is_packed(target):
                halves = [values.get(value, value) for values in both]
                bits = vector_of(i32, 1)
                found = vector.BitcastOp(emit.value(hw.PackOp(halves)), bits)
                whole = emit.value(hw.UnpackOp(emit.value(found), 0), value.name_hint)
                emit.op(memref.StoreOp.get(whole, self.registers[target], [word]))

    def values(self, emit: Emit, r: SSAValue) -> dict[SSAValue, SSAValue]:
        """What the values of the body are at a register."""
        op, found = self.op, dict[SSAValue, SSAValue]()
        scalar, *others = op.body.block.args
        if self.own is not None:
            found[scalar] = emit.value(memref.LoadOp.get(self.own, [r]), scalar.name_hint)
        for arg, source, access, which in zip(
            others, op.inputs, op.input_maps, self.reads, strict=True
        ):
            found[arg] = emit.value(self.load(emit, source, access, which, r), arg.name_hint)
        for index in op.body.block.walk():
            if isinstance(index, tile.TileIndexOp):
                place = self.layout.map.data.results[index.axis.value.data]
                hint = index.result.name_hint
                found[index.result] = emit.apply(place, [self.thread, r], hint=hint)
        computed = [
            o
            for o in op.body.block.ops
            if o is not self.end and not isinstance(o, tile.TileIndexOp)
        ]
        for o in computed:
            less = self.known_part(o, found, emit, r) if isinstance(o, affine.ApplyOp) else None
            if less is None:
                clone_into([o], found, emit)
            else:
                found[o.results[0]] = less
        return found

    def known_part(
        self, op: affine.ApplyOp, found: Mapping[SSAValue, SSAValue], emit: Emit, r: SSAValue
    ) -> SSAValue | None:
        """An index that the body makes of the tile's own, where a thread's place leaves less of it:
        a rest by what all threads, and all tiles, begin at multiples of is one of the register's.

        None where it stays as it is.
        """
        whole, inside = op.map.data, [isinstance(v.owner, tile.TileIndexOp) for v in op.operands]
        if not any(inside) or not _floors(whole):
            return None
        others = [v for v, here in zip(op.operands, inside, strict=True) if not here]
        steps = [max(divisor(v), 1) for v in others]
        places: list[AffineExpr] = []
        for value in op.operands:
            if isinstance(value.owner, tile.TileIndexOp):
                places.append(self.layout.map.data.results[value.owner.axis.value.data])
            else:
                at = others.index(value)
                places.append(AffineExpr.dimension(2 + at) * steps[at])
        dims = whole.num_dims
        spread = whole.results[0].replace_dims_and_symbols(places[:dims], places[dims:])
        less = linear_of(spread)
        if len(less.terms) >= len(linear_of(whole.results[0]).terms):
            return None
        if any(d > 1 for d in expr_of(less).used_dims()):
            return None  # What a tile begins at is in it: in steps, which nothing has.
        hint = op.results[0].name_hint
        return emit.apply(expr_of(less), [self.thread, r], hint=hint)

    def store(self, emit: Emit, values: Mapping[SSAValue, SSAValue], r: SSAValue) -> None:
        """Write what the body gives at a register, but for packed fragments."""
        op = self.op
        first = None if self.writes_tensors_alone else self.first
        for value, target, access, which in zip(
            self.end.values, op.outputs, op.output_maps, self.writes, strict=True
        ):
            result = values.get(value, value)
            if is_packed(target):
                continue
            if which is not None:
                register = emit.apply(which, [r])
                emit.op(memref.StoreOp.get(result, self.registers[target], [register]))
                continue
            stored = hw.StoreGlobalOp(result, target, self.coordinates(emit, access, r))
            when_needed(emit, first, lambda e, o=stored: e.ops.append(o))

    def load(
        self,
        emit: Emit,
        source: SSAValue,
        access: AffineMap,
        which: AffineExpr | None,
        r: SSAValue,
    ) -> Operation:
        """The op that reads an operand at its map of register ``r``."""
        kind = source.type
        if which is not None:
            return memref.LoadOp.get(self.registers[source], [emit.apply(which, [r])])
        at = self.coordinates(emit, access, r)
        if isinstance(kind, GlobalType):
            return hw.LoadGlobalOp(source, at, kind.element_type, cache=self.op.cache)
        assert isinstance(kind, SharedType)
        if kind.swizzle_bytes is None or not 1 <= len(at) <= 2:
            raise PolycError(
                "NoLayout",
                f"a map reads a shared tile of one or two axes that has a layout, not {kind}",
                self.op,
            )
        zero = emit.index(0)
        row = at[0] if len(at) == 2 else zero
        address = emit.value(tile.ElementAddressOp(source, zero, row, at[-1]))
        return hw.LoadSharedOp(address, kind.element_type)

    def coordinates(self, emit: Emit, access: AffineMap, r: SSAValue) -> list[SSAValue]:
        """Where an operand's map leads from register ``r``, after the origin."""
        origin = list(self.op.origin)
        symbols = [AffineExpr.symbol(i) for i in range(len(origin))]
        tile_axes = list(self.layout.map.data.results)
        return [
            emit.apply(expr.replace_dims_and_symbols(tile_axes, symbols), [self.thread, r], origin)
            for expr in access.results
        ]


def _floors(whole: AffineMap) -> list[AffineExpr]:
    """The parts of a map that divide."""
    kinds = (AffineBinaryOpKind.FloorDiv, AffineBinaryOpKind.Mod)
    parts = (e for result in whole.results for e in result.dfs())
    return [e for e in parts if isinstance(e, AffineBinaryOpExpr) and e.kind in kinds]


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
