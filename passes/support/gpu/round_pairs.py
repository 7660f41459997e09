"""A pattern of ``gpu-vectorize``: values that stay in registers are rounded two at once (T2).

The hardware rounds two f32 to a word of two 16-bit values in one instruction, and what reads such
registers next (stmatrix, a left operand of wgmma, a store) wants them as words.
"""

from __future__ import annotations

from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import f32
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu.types import element_bytes, vector_of
from polyc.passes.support.gpu.registers import turns
from polyc.passes.support.gpu.vectors import clone_lanes, guards_bounds, is_vector
from polyc.rewriting.effects import Effect, effect_of
from polyc.rewriting.emit import Emit, affine_dim, clone_into

PAIR = 2


class RoundPairs(RewritePattern):
    """Run an unrolled loop over registers two at a time where it rounds them to 16 bits.

    What it loads from neighbouring elements of a tensor becomes one load, on the terms of
    ``VectorizeLoop``.

    Legality: iterations are independent: the body has no effect but on registers addressed by the
    loop's variable, and loads.  Rounding is element by element, so that the values are the same.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: scf.ForOp, rewriter: PatternRewriter) -> None:
        over = turns(op, by=1)
        if over is None or over.stop % PAIR:
            return
        bound = over.stop
        variable = op.body.block.args[0]
        body = [o for o in op.body.block.ops if not isinstance(o, scf.YieldOp)]
        if not any(rounds(o) for o in body) or not all(independent(o, variable) for o in body):
            return
        emit = Emit()
        wide = {
            o
            for o in body
            if isinstance(o, hw.LoadGlobalOp)
            and guards_bounds(o)
            and is_vector(o, list(o.indices), variable, PAIR, bound, o.result.type)
        }

        def pair(inner: Emit, first: SSAValue) -> None:
            second = inner.apply(affine_dim(0) + 1, [first])
            maps: list[dict[SSAValue, SSAValue]] = [{variable: first}, {variable: second}]
            for o in body:
                if isinstance(o, memref.StoreOp) and rounds(o):
                    self.round(o, maps, inner)
                elif o in wide:
                    clone_lanes(o, maps, True, inner)
                elif not (isinstance(o, arith.TruncFOp) and only_stored(o)):
                    for values in maps:
                        clone_into([o], values, inner)

        new = emit.loop(bound, pair, step=PAIR, unroll=True, hint=variable.name_hint)
        new.location = op.location
        rewriter.replace(op, emit.ops, [])

    @staticmethod
    def round(op: memref.StoreOp, maps: list[dict[SSAValue, SSAValue]], emit: Emit) -> None:
        owner = op.value.owner
        assert isinstance(owner, arith.TruncFOp)
        wide = emit.value(hw.PackOp([m.get(owner.input, owner.input) for m in maps]))
        narrow = vector_of(owner.result.type, PAIR)
        rounded = emit.value(arith.TruncFOp(wide, narrow), op.value.name_hint)
        for lane, values in enumerate(maps):
            element = emit.value(hw.UnpackOp(rounded, lane))
            at = [values.get(i, i) for i in op.indices]
            emit.op(memref.StoreOp.get(element, values.get(op.memref, op.memref), at))


def rounds(op: Operation) -> bool:
    """Whether an op stores an f32 that was rounded to 16 bits for it."""
    if not isinstance(op, memref.StoreOp) or not isinstance(op.value.owner, arith.TruncFOp):
        return False
    rounding = op.value.owner
    return rounding.input.type == f32 and element_bytes(rounding.result.type) == 2


def only_stored(op: arith.TruncFOp) -> bool:
    """Whether nothing but rounding stores uses a rounded value."""
    return all(rounds(use.operation) for use in op.result.uses)


def independent(op: Operation, variable: SSAValue) -> bool:
    """Whether iterations of an op may run side by side."""
    if isinstance(op, memref.LoadOp | memref.StoreOp):
        return list(op.indices) == [variable]
    if isinstance(op, hw.LoadGlobalOp):
        return True
    return effect_of(op) is Effect.NONE and not op.regions
