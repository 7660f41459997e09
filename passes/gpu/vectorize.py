"""``gpu-vectorize``: neighbouring elements of a thread in one access (T2, S8.1)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import ModuleOp, i1
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.dialects.gpu import hardware as hw
from polyc.passes.support.gpu.random_blocks import multiple_of_first, share_block
from polyc.passes.support.gpu.registers import turns
from polyc.passes.support.gpu.round_pairs import RoundPairs
from polyc.passes.support.gpu.symbols import enclosing_kernel
from polyc.passes.support.gpu.vectors import (
    clone_lanes,
    guards_bounds,
    is_shared,
    is_vector,
    shared,
)
from polyc.rewriting.driver import rewrite
from polyc.rewriting.effects import Effect, effect_of
from polyc.rewriting.emit import Emit, affine_dim

WIDTHS = (8, 4, 2)
"""Elements that one access may take, widest first."""


class VectorizeLoop(RewritePattern):
    """Run an unrolled loop ``width`` iterations at a time, with one access for neighbours.

    Legality: isl proves that each store of the loop (and each load that becomes a vector, of
    which a loop that only fills registers has one) touches consecutive elements that start
    at a multiple of ``width``, and rows hold whole vectors (the tensor type's alignment), so that
    the first element's guard holds for all.  A load of which that holds for fewer elements, as of
    f32 beside f16, becomes several vectors of so many.
    What they compute alike is computed once, as a factor that a row has one of beside its elements.
    Iterations are independent: the body has no other effect than these accesses and
    registers addressed by the loop's variable (or only read), it reads no tensor that it stores
    to and writes no shared memory, and an access is guarded by nothing but its own coordinates'
    bounds, and what is the same for all of a vector.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: scf.ForOp, rewriter: PatternRewriter) -> None:
        if (over := turns(op, by=1)) is None:
            return
        bound = over.stop
        stores = [o for o in op.body.block.ops if isinstance(o, hw.StoreGlobalOp)]
        loads = [o for o in op.body.block.ops if isinstance(o, hw.LoadGlobalOp)]
        if not (stores or self.fills(op)):
            return
        variable = op.body.block.args[0]
        for width in WIDTHS:
            if bound % width or not self.independent(op, stores, width, bound):
                continue
            if stores:
                wide = all(
                    is_vector(s, list(s.indices), variable, width, bound, s.value.type)
                    for s in stores
                )
            else:
                wide = any(
                    is_vector(o, list(o.indices), variable, width, bound, o.result.type)
                    for o in loads
                )
            if wide:
                self.widen(op, width, bound, rewriter)
                return

    @staticmethod
    def fills(op: scf.ForOp) -> bool:
        """Whether a loop writes registers that it reads, as one that sums what it loads does, or
        holds what it loads, or what it computes of that alone, or of conditions that it loads, a
        byte each."""
        ops = op.body.block.ops
        read = {o.memref for o in ops if isinstance(o, memref.LoadOp)}
        written = [o for o in ops if isinstance(o, memref.StoreOp)]
        if any(o.memref in read for o in written) or (written and not read):
            return True
        conditions = any(isinstance(o, hw.LoadGlobalOp) and o.result.type == i1 for o in ops)
        whole = all(isinstance(o.value.owner, hw.LoadGlobalOp) for o in written)
        return bool(written) and (conditions or whole)

    @staticmethod
    def independent(op: scf.ForOp, stores: list[hw.StoreGlobalOp], width: int, bound: int) -> bool:
        """Whether iterations may run side by side, and the guard of the first of ``width`` be
        theirs."""
        variable, stored = op.body.block.args[0], {s.tensor for s in stores}

        def alike(value: SSAValue) -> bool:
            return is_shared(value, op.body.block, width, bound)

        written = {o.memref for o in op.body.block.ops if isinstance(o, memref.StoreOp)}
        for inner in op.body.block.ops:
            match inner:
                case hw.LoadGlobalOp():
                    fine = inner.tensor not in stored and guards_bounds(inner, alike)
                case hw.StoreGlobalOp():
                    fine = guards_bounds(inner, alike)
                case memref.LoadOp() if inner.memref not in written:
                    fine = True
                case hw.LoadSharedOp():  # an op that writes there is not fine
                    fine = True
                case memref.LoadOp() | memref.StoreOp():
                    fine = list(inner.indices) == [variable]
                case _:
                    fine = effect_of(inner) is Effect.NONE or isinstance(inner, scf.YieldOp)
            if not fine:
                return False
        return True

    @staticmethod
    def widen(op: scf.ForOp, width: int, bound: int, rewriter: PatternRewriter) -> None:
        variable = op.body.block.args[0]
        body = [o for o in op.body.block.ops if not isinstance(o, scf.YieldOp)]
        widths: dict[Operation, int] = {
            o: next(
                (
                    w
                    for w in WIDTHS
                    if w <= width
                    and is_vector(o, list(o.indices), variable, w, bound, o.result.type)
                ),
                1,
            )
            for o in body
            if isinstance(o, hw.LoadGlobalOp)
        }
        kernel = enclosing_kernel(op)
        blocks = {
            o: multiple
            for o in body
            if isinstance(o, hw.PhiloxOp)
            and (multiple := multiple_of_first(o, variable, width, bound, kernel)) is not None
        }
        results = [r for o in body for r in o.results]
        alike = shared(results, op.body.block, width, bound)
        emit = Emit()

        def lanes(inner: Emit, first: SSAValue) -> None:
            maps: list[dict[SSAValue, SSAValue]] = []
            for lane in range(width):
                at = first if lane == 0 else inner.apply(affine_dim(0) + lane, [first])
                maps.append({variable: at})
            for o in body:
                if isinstance(o, hw.PhiloxOp) and o in blocks:
                    share_block(o, maps, blocks[o], inner)
                    continue
                if o.results and all(alike[r] for r in o.results):
                    clone_lanes(o, maps[:1], False, inner)
                    for one in maps[1:]:
                        one.update((r, maps[0][r]) for r in o.results)
                    continue
                # What is wider in memory comes in several accesses.
                each = widths.get(o, 1)
                for lane in range(0, width, each) if each > 1 else (0,):
                    clone_lanes(o, maps[lane : lane + each] if each > 1 else maps, each > 1, inner)

        new = emit.loop(bound, lanes, step=width, unroll=True, hint=variable.name_hint)
        new.location = op.location
        rewriter.replace(op, emit.ops, [])


def _independent_widths(op: scf.ForOp, bound: int) -> Iterator[int]:
    """How many iterations of a loop that stores nothing in memory may run side by side."""
    for width in WIDTHS:
        if bound % width == 0 and VectorizeLoop.independent(op, [], width, bound):
            yield width


class ShareBlocks(RewritePattern):
    """Run an unrolled loop of registers several iterations at a time, whose random numbers are of
    neighbours.

    Legality: that of ``VectorizeLoop``, with no store; places are a sum of coordinates, and isl
    proves that one goes up by one an iteration from a multiple of the width while the others stay.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: scf.ForOp, rewriter: PatternRewriter) -> None:
        if (over := turns(op, by=1)) is None:
            return
        bound, ops = over.stop, list(op.body.block.ops)
        if not any(isinstance(o, hw.PhiloxOp) for o in ops):
            return
        if any(isinstance(o, hw.StoreGlobalOp) for o in ops):
            return
        variable, kernel = op.body.block.args[0], enclosing_kernel(op)
        for width in _independent_widths(op, bound):
            if all(
                multiple_of_first(o, variable, width, bound, kernel) is not None
                for o in ops
                if isinstance(o, hw.PhiloxOp)
            ):
                VectorizeLoop.widen(op, width, bound, rewriter)
                return


class ShareBounds(RewritePattern):
    """Run an unrolled loop of registers several iterations at a time, whose places are before an
    axis' end together.

    Legality: that of ``VectorizeLoop``, with no store; isl proves that a place goes up by one an
    iteration from a multiple of the width, and the end is a multiple of it too.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: scf.ForOp, rewriter: PatternRewriter) -> None:
        if (over := turns(op, by=1)) is None:
            return
        bound, ops = over.stop, list(op.body.block.ops)
        bounds = [o for o in ops if isinstance(o, arith.CmpiOp)]
        if not bounds or any(isinstance(o, hw.StoreGlobalOp | hw.LoadGlobalOp) for o in ops):
            return
        values = [v for o in bounds for v in (o.lhs, o.result)]
        for width in _independent_widths(op, bound):
            alike = shared(values, op.body.block, width, bound)
            if any(alike[o.result] and not alike[o.lhs] for o in bounds):
                VectorizeLoop.widen(op, width, bound, rewriter)
                return


class PackThenRound(RewritePattern):
    """Round a whole vector where its elements were rounded one by one.

    Exact: rounding is element by element; the hardware rounds two at once.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: hw.PackOp, rewriter: PatternRewriter) -> None:
        rounds = [v.owner for v in op.values]
        sources: list[SSAValue] = []
        for owner in rounds:
            if not isinstance(owner, arith.TruncFOp):
                return
            sources.append(owner.input)
        wide = hw.PackOp(sources)
        rounded = arith.TruncFOp(wide.result, op.result.type)
        rewriter.replace(op, [wide, rounded], [rounded.result])
        for owner in dict.fromkeys(rounds):
            if isinstance(owner, Operation) and not any(r.uses.get_length() for r in owner.results):
                rewriter.erase(owner)


@dataclass(frozen=True)
class GpuVectorize(ModulePass):
    """Widen global accesses as far as alignment and layout allow."""

    name = "gpu-vectorize"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [VectorizeLoop()])
        rewrite(op, [ShareBlocks()])
        rewrite(op, [ShareBounds()])
        rewrite(op, [PackThenRound()])
        rewrite(op, [RoundPairs()])
