"""``gpu-double-buffer-fragments``: load the next step's operands while this one multiplies (T2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint
from xdsl.traits import is_side_effect_free

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.tile.steps import (
    LoadOperandsOp,
    MultiplyOp,
    buffer_type,
    operand_registers,
    step_of,
)
from polyc.dialects.gpu.types import SharedType
from polyc.rewriting.driver import located, rewrite
from polyc.rewriting.emit import Emit, clone_into


class DoubleBufferFragments(RewritePattern):
    """Rotate a loop so that each step's operands are loaded while the one before multiplies.

    It takes a contract with ``fragment_buffers 2``, the last op of a loop as
    ``gpu-inject-pipeline`` writes it: waits and barriers (*meet*), then the copies ahead
    (*issue*), then the contract's steps 0 to n - 1, each a load and a product.  With L for the
    loads and M for the products of a step, an iteration becomes

        L1, issue, M0, L2, M1, … L(n-1), M(n-2), meet for the next iteration, its L0, M(n-1)

    and before the loop come the first meet and the first L0.  So a product never waits for its own
    loads, and threads that wait at the barrier still have products to feed the tensor core.

    Legality: M touches registers alone, so that *meet* may come before the last one, and all L of
    an iteration still come before the next meet: no thread overwrites a slot that is being
    read.  Issue and L go to different slots in either order, or threads would already race.  The
    L0 after the last iteration reads that iteration's own slot again, since no other one need have
    been filled, and nothing uses it.  The number of steps is even, so that step 0 always finds
    buffer 0.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.ContractOp, rewriter: PatternRewriter) -> None:
        if op.buffers == 1:
            return
        steps = self.steps(op)
        loop = _loop_of(op)
        parts = _cut(op, loop)
        assert isinstance(op.rhs.type, SharedType)
        element = op.rhs.type.element_type
        before = Emit()
        needed, kind = operand_registers(op.warp_sizes, element), buffer_type(element)
        a, b = (
            before.registers(2 * count, kind, name)
            for count, name in zip(needed, "ab", strict=True)
        )

        def load(emit: Emit, step: int, lhs_slot: SSAValue | None, rhs_slot: SSAValue | None):
            emit.op(
                LoadOperandsOp(
                    step,
                    op.lhs,
                    op.lhs_map.data,
                    op.rhs,
                    op.rhs_map.data,
                    step % 2,
                    a,
                    b,
                    op.warp_sizes,
                    lhs_slot,
                    rhs_slot,
                )
            )

        def first(emit: Emit, iteration: SSAValue) -> None:
            """Step 0 of an iteration, with the slots computed for it."""
            values: dict[SSAValue, SSAValue] = {loop.body.block.args[0]: iteration}
            clone_into(parts.slots, values, emit)
            slots = [None if s is None else values.get(s, s) for s in (op.lhs_slot, op.rhs_slot)]
            load(emit, 0, *slots)

        def multiply(step: int) -> MultiplyOp:
            return MultiplyOp(step % 2, a, b, op.acc, op.warp_sizes, element)

        def meet(emit: Emit) -> None:
            clone_into(parts.meet, {}, emit)

        meet(before)
        before.when(before.compare("slt", loop.lb, loop.ub), lambda then: first(then, loop.lb))
        one = before.index(1)
        rewriter.insert(before.ops, InsertPoint.before(loop))

        # The slots are needed before the copies ahead are issued.
        start = parts.issue[0] if parts.issue else op
        for moved in parts.slots:
            moved.detach()
            rewriter.insert(moved, InsertPoint.before(start))
        ahead = Emit()
        load(ahead, 1, op.lhs_slot, op.rhs_slot)
        rewriter.insert(ahead.ops, InsertPoint.before(start))
        rest = Emit()
        for step in range(steps - 1):
            if step:
                load(rest, step + 1, op.lhs_slot, op.rhs_slot)
            rest.op(multiply(step))
        meet(rest)
        this = loop.body.block.args[0]
        following = rest.value(arith.AddiOp(this, one), "next")
        there_is = rest.compare("slt", following, loop.ub)
        first(rest, rest.value(arith.SelectOp(there_is, following, this), "next"))
        rest.op(multiply(steps - 1))
        for new in rest.ops:
            located(new, op)
        for old in parts.meet:
            rewriter.erase(old)
        rewriter.replace(op, rest.ops, [])

    @staticmethod
    def steps(op: tile.ContractOp) -> int:
        """Steps over k; raises PolycError ``NoBuffers`` where there is nothing to buffer."""
        if op.mma.data == "wgmma":
            raise PolycError(
                "NoBuffers",
                f"{op.mma.data} reads its operands from shared memory by itself; "
                "fragment_buffers is for mma.sync and fma",
                op,
            )
        if op.mma.data == "fma" and (op.lhs_k_major or op.rhs_k_major):
            raise PolycError(
                "NoBuffers",
                "threads load neighbouring rows and columns of one k ahead; store both operands "
                "with these contiguous (turned copies do that), or drop fragment_buffers",
                op,
            )
        if not isinstance(op.lhs.type, SharedType):
            raise PolycError(
                "NoBuffers",
                "the left operand is in registers already; drop fragment_buffers",
                op,
            )
        if op.clear is not None:
            raise PolycError(
                "NoBuffers",
                "a contract that clears adds nothing up over a loop; drop fragment_buffers",
                op,
            )
        if op.token is not None:
            raise PolycError(
                "NoBuffers",
                "a contract with fragment_buffers is done when it is issued; drop the token",
                op,
            )
        depth, step = op.sizes[2], step_of(op.lhs.type.element_type)
        if depth // step % 2:
            raise PolycError(
                "NoBuffers",
                f"{depth} of k are {depth // step} steps, and two buffers take turns in an even "
                f"number of them; make k of the tile a multiple of {2 * step}",
                op,
            )
        return depth // step


def _loop_of(op: tile.ContractOp) -> scf.ForOp:
    loop = op.parent_op()
    if isinstance(loop, scf.ForOp) and not loop.iter_args:
        step = loop.step.owner
        if isinstance(step, arith.ConstantOp) and step.value == IntegerAttr.from_index_int_value(1):
            return loop
    if isinstance(loop, scf.IfOp):
        raise PolycError(
            "NoBuffers",
            "operands are loaded ahead for every iteration, and a condition skips this contract in "
            "some; drop fragment_buffers",
            op,
        )
    raise PolycError(
        "NoBuffers",
        "operands are loaded ahead from one iteration to the next; put the contract into a "
        "gpu.pipeline or into a loop of step 1 that carries no values",
        op,
    )


@dataclass(frozen=True)
class _Parts:
    """A loop's body, cut: ``meet``, ``issue``, and the pure ops that the slots come from."""

    meet: Sequence[Operation]
    issue: Sequence[Operation]
    slots: Sequence[Operation]


def _cut(op: tile.ContractOp, loop: scf.ForOp) -> _Parts:
    """Cut the loop's body; raises PolycError ``NoBuffers`` where its order is another one."""
    body = list(loop.body.block.ops)
    at = body.index(op)
    after = [o for o in body[at + 1 :] if not isinstance(o, scf.YieldOp)]
    acting = [o for o in body[:at] if not is_side_effect_free(o)]
    waits = [i for i, o in enumerate(acting) if isinstance(o, _MEETING)]
    meet = acting[: waits[-1] + 1] if waits else []
    if (odd := next((o for o in (*meet, *after) if not isinstance(o, _MEETING)), None)) is not None:
        raise PolycError(
            "NoBuffers",
            f"{odd.name} stands where the loop's order is waits and barriers, then copies, then "
            "one contract; move it out of the loop or between them",
            odd,
        )
    slots = _needs(body, [s for s in (op.lhs_slot, op.rhs_slot) if s is not None])
    if (impure := next((o for o in slots if not is_side_effect_free(o)), None)) is not None:
        raise PolycError(
            "NoBuffers",
            f"the contract's slot comes from {impure.name}, which cannot be computed for the next "
            "iteration; compute it from the loop's variable",
            impure,
        )
    return _Parts(meet, acting[len(meet) :], slots)


_MEETING = (hw.CpAsyncWaitOp, hw.BarrierOp, hw.NamedBarrierOp)
"""What may stand before the copies: it makes the tiles of the iteration readable."""


def _needs(body: Sequence[Operation], values: Sequence[SSAValue]) -> list[Operation]:
    """The ops of ``body`` that ``values`` come from, in the body's order."""
    found: set[Operation] = set()
    inside = set(body)
    work = list(values)
    while work:
        owner = work.pop().owner
        if isinstance(owner, Block) or owner not in inside or owner in found:
            continue
        found.add(owner)
        work.extend(owner.operands)
    return [o for o in body if o in found]


@dataclass(frozen=True)
class GpuDoubleBufferFragments(ModulePass):
    """Give the contracts that ask for it a second buffer of operand registers."""

    name = "gpu-double-buffer-fragments"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [DoubleBufferFragments()])
