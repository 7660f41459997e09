"""``gpu-coalesce-stores``: 16-byte stores where four lanes hold a line between them (T2).

An mma accumulator gives a thread two neighbouring columns, and its three neighbours the next
six.  Storing two 16-bit elements a thread fills a quarter of each 32-byte sector; here the
four lanes of a quad exchange their words first, so that each stores eight columns in a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith, memref, scf, vector
from xdsl.dialects.builtin import ModuleOp, i32
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import (
    AffineConstraintExpr,
    AffineConstraintKind,
    AffineExpr,
    AffineSet,
)
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.transforms.loop_invariant_code_motion import move_loop_invariant_code

from polyc.affine import isl
from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu.types import GlobalType, element_bytes, vector_of
from polyc.passes.support.gpu.registers import turns
from polyc.passes.support.gpu.symbols import constant_of
from polyc.passes.support.gpu.vectors import Access, guards_bounds
from polyc.rewriting.driver import rewrite
from polyc.rewriting.effects import Effect, effect_of
from polyc.rewriting.emit import PREDICATES, Emit, affine_dim, clone_into
from polyc.rewriting.postorder import computed

QUAD = 4
"""Lanes that share an 8-column block of an accumulator, and words that each ends up with."""

PAIR = 2
"""Elements of a word."""

STEP = QUAD * 2 * PAIR
"""Registers of a thread in four 8-column blocks of two rows."""


class TransposeQuads(RewritePattern):
    """Exchange 2-element words within quads, and store 8 elements a thread.

    The loop's variable counts registers ``r = 16q + 4j + 2h``: block ``j`` of four, row half
    ``h``.  Lane ``c`` of a quad gets the quad's words of block ``c``.

    Legality: isl proves, for every register and thread ``4u + c``, that the last coordinate
    is that of ``(16q + 2h, 4u)`` plus ``8j + 2c``, that this first one is a multiple of 8 and
    that the others do not depend on ``j`` and ``c``; rows hold whole 16-byte vectors; the
    store is guarded by its coordinates' bounds alone; all lanes of a warp run the loop, whose
    bounds are constants (``uniform``).
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: scf.ForOp, rewriter: PatternRewriter) -> None:
        over = turns(op, by=PAIR)
        if over is None or over.stop % STEP or not uniform(op):
            return
        bound = over.stop
        body = [o for o in op.body.block.ops if not isinstance(o, scf.YieldOp)]
        stores = [o for o in body if isinstance(o, hw.StoreGlobalOp)]
        if len(stores) != 1:
            return
        (store,) = stores
        tensor = store.tensor.type
        assert isinstance(tensor, GlobalType)
        if hw.vector_length(store.value.type) != PAIR or element_bytes(tensor.element_type) != 2:
            return
        if tensor.align.data < PAIR * 2 * QUAD or not guards_bounds(store):
            return
        if not bounds_are_outside(store):
            # A size that is a product of symbols was computed in the loop, anew each time.
            move_loop_invariant_code(op)
            rewriter.notify_op_modified(op)
            if not bounds_are_outside(store):
                return
            body = [o for o in op.body.block.ops if not isinstance(o, scf.YieldOp)]
        if not all(self.may_repeat(o, store) for o in body):
            return
        access = Access.of(list(store.indices), op.body.block.args[0])
        thread = next((v for v in access.values if isinstance(v.owner, hw.ThreadIdOp)), None)
        if thread is None or not self.is_quad_layout(access, thread, bound):
            return
        self.exchange(op, store, access, thread, bound, rewriter)

    @staticmethod
    def may_repeat(op: Operation, store: hw.StoreGlobalOp) -> bool:
        """Whether an op of the body may run before the stores of other iterations."""
        if isinstance(op, hw.LoadGlobalOp):
            return op.tensor is not store.tensor
        return op is store or isinstance(op, memref.LoadOp) or effect_of(op) is Effect.NONE

    @staticmethod
    def is_quad_layout(access: Access, thread: SSAValue, bound: int) -> bool:
        """The legality's arithmetic, decided by isl over all values of the other operands."""
        t = access.values.index(thread)
        count = len(access.values)
        q, h, j, c = affine_dim(0), affine_dim(count), affine_dim(count + 1), affine_dim(count + 2)
        group = q * STEP + h * PAIR
        first = access.at({0: group, t: affine_dim(t) * QUAD})
        here = access.at({0: group + j * (2 * PAIR), t: affine_dim(t) * QUAD + c})
        results = [first[-1] % (PAIR * QUAD), here[-1] - first[-1] - j * (PAIR * QUAD) - c * PAIR]
        results += [a - b for a, b in zip(here[:-1], first[:-1], strict=True)]
        zero = AffineExpr.constant(0)
        ge = AffineConstraintKind.ge
        dims = count + 3
        domain = [AffineConstraintExpr(ge, affine_dim(d), zero) for d in range(dims)]
        for dim, last in ((q, bound // STEP - 1), (h, 1), (j, QUAD - 1), (c, QUAD - 1)):
            domain.append(AffineConstraintExpr(ge, -dim + last, zero))
        return isl.all_zero(results, AffineSet(dims, 0, tuple(domain)))

    @staticmethod
    def exchange(
        op: scf.ForOp,
        store: hw.StoreGlobalOp,
        access: Access,
        thread: SSAValue,
        bound: int,
        rewriter: PatternRewriter,
    ) -> None:
        variable = op.body.block.args[0]
        body = [o for o in op.body.block.ops if o is not store and not isinstance(o, scf.YieldOp)]
        element = hw.scalar_type(store.value.type)
        emit = Emit()
        lane = emit.apply(affine_dim(0) % QUAD, [thread], hint="quad_lane")

        def group(inner: Emit, g: SSAValue) -> None:
            words: list[SSAValue] = []
            start = affine_dim(0) // 2 * STEP + affine_dim(0) % 2 * PAIR
            for block in range(QUAD):
                r = inner.apply(start + block * 2 * PAIR, [g])
                values: dict[SSAValue, SSAValue] = {variable: r}
                clone_into(body, values, inner)
                pair = values.get(store.value, store.value)
                one = inner.value(vector.BitcastOp(pair, vector_of(i32, 1)))
                words.append(inner.value(hw.UnpackOp(one, 0)))
            words = transposed(inner, words, lane)
            packed = inner.value(hw.PackOp(words))
            line = inner.value(vector.BitcastOp(packed, vector_of(element, PAIR * QUAD)))
            first = inner.apply(start, [g])
            operands = [first, *access.values[1:]]
            at = [inner.apply(e, operands) for e in access.exprs]
            # The quad's first column and the lane's own eight: 2c columns back, 8c forward.
            at[-1] = inner.apply(
                affine_dim(0) + affine_dim(1) * (PAIR * QUAD - PAIR), [at[-1], lane]
            )
            moved = dict(zip(store.indices, at, strict=True))
            guard = None if store.predicate is None else rebuilt(inner, store.predicate, moved)
            new = hw.StoreGlobalOp(line, store.tensor, at, guard)
            new.location = store.location
            inner.op(new)

        loop = emit.loop(bound // (STEP // 2), group, unroll=True, hint="g")
        loop.location = op.location
        rewriter.replace(op, emit.ops, [])


def rebuilt(emit: Emit, guard: SSAValue, moved: dict[SSAValue, SSAValue]) -> SSAValue:
    """A guard of coordinates' bounds at other coordinates; what it does not bound stays."""

    def parts(value: SSAValue) -> Sequence[SSAValue]:
        return value.owner.operands if isinstance(value.owner, arith.AndIOp) else ()

    def made(value: SSAValue, both: Sequence[SSAValue]) -> SSAValue:
        owner = value.owner
        if both:
            return emit.both(both[0], both[1])
        if isinstance(owner, arith.CmpiOp) and owner.lhs in moved:
            size = constant_of(owner.rhs)
            bound = owner.rhs if size is None else emit.index(size)
            return emit.compare(PREDICATES[owner.predicate.value.data], moved[owner.lhs], bound)
        return value

    return computed(guard, parts, made)


def bounds_are_outside(store: hw.StoreGlobalOp) -> bool:
    """Whether the bounds in a store's guard are constants, or computed outside its loop."""
    work = [] if store.predicate is None else [store.predicate]
    while work:
        owner = work.pop().owner
        if isinstance(owner, arith.AndIOp):
            work += owner.operands
        elif isinstance(owner, arith.CmpiOp) and constant_of(owner.rhs) is None:
            source = owner.rhs.owner
            if (source.parent if isinstance(source, Operation) else source) is store.parent:
                return False
    return True


def transposed(emit: Emit, words: list[SSAValue], lane: SSAValue) -> list[SSAValue]:
    """Word ``k`` of lane ``c`` of each quad becomes word ``c`` of lane ``k``.

    Two rounds of exchange with the neighbour at distance 1 and 2; a lane gives away the word
    that the neighbour needs.
    """
    zero = emit.index(0)
    for distance in (1, 2):
        bit = emit.apply(affine_dim(0) // distance % 2, [lane])
        high = emit.compare("ne", bit, zero)
        step = emit.index(distance)
        out = list(words)
        for low in (i for i in range(QUAD) if not i & distance):
            other = low | distance
            given = emit.value(arith.SelectOp(high, words[low], words[other]))
            got = emit.value(hw.ShuffleOp("xor", given, step))
            out[low] = emit.value(arith.SelectOp(high, got, words[low]))
            out[other] = emit.value(arith.SelectOp(high, words[other], got))
        words = out
    return words


def uniform(op: Operation) -> bool:
    """Whether whole warps reach ``op``: no branch or loop stands around it (roles do)."""
    parent = op.parent_op()
    while parent is not None:
        if isinstance(parent, scf.IfOp | scf.ForOp | scf.WhileOp):
            return False
        parent = parent.parent_op()
    return True


@dataclass(frozen=True)
class GpuCoalesceStores(ModulePass):
    """Widen the stores of mma accumulators to 16 bytes a thread."""

    name = "gpu-coalesce-stores"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [TransposeQuads()])
