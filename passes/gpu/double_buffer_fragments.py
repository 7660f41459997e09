"""``gpu-double-buffer-fragments``: load the next step's operands while this one multiplies (T2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, f32
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
from polyc.passes.support.gpu.tile_contracts import sharing
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

    Several contracts by mma.sync that follow one another with one left tile are taken together: L
    loads that once, and a right operand for each, and M are all of their products.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.ContractOp, rewriter: PatternRewriter) -> None:
        if op.buffers == 1:
            return
        assert isinstance(op.rhs.type, SharedType)
        element = op.rhs.type.element_type
        group = [op] if element == f32 else sharing(op)
        steps, *_ = [self.steps(one) for one in group]
        loop = _loop_of(op)
        parts = _cut(group, loop)
        before = Emit()
        (of_a, of_b), kind = operand_registers(op.warp_sizes, element), buffer_type(element)
        a = before.registers(2 * of_a, kind, "a")
        right = [before.registers(2 * of_b, kind, "b") for _ in group]

        def load(emit: Emit, step: int, values: Mapping[SSAValue, SSAValue]) -> None:
            for one, b in zip(group, right, strict=True):
                left = (step, one.lhs, one.lhs_map.data)
                slots = (s and values.get(s, s) for s in (one.lhs_slot, one.rhs_slot))
                ends = (one.rhs, one.rhs_map.data, step % 2, a, b, one.warp_sizes)
                emit.op(LoadOperandsOp(*left, *ends, *slots, right=one is not op))

        def first(emit: Emit, iteration: SSAValue) -> None:
            """Step 0 of an iteration, with the slots computed for it."""
            values: dict[SSAValue, SSAValue] = {loop.body.block.args[0]: iteration}
            clone_into(parts.slots, values, emit)
            load(emit, 0, values)

        def multiply(emit: Emit, step: int) -> None:
            for one, b in zip(group, right, strict=True):
                emit.op(MultiplyOp(step % 2, a, b, one.acc, one.warp_sizes, element))

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
        load(ahead, 1, {})
        rewriter.insert(ahead.ops, InsertPoint.before(start))
        rest = Emit()
        for step in range(steps - 1):
            if step:
                load(rest, step + 1, {})
            multiply(rest, step)
        meet(rest)
        this = loop.body.block.args[0]
        following = rest.value(arith.AddiOp(this, one), "next")
        there_is = rest.compare("slt", following, loop.ub)
        first(rest, rest.value(arith.SelectOp(there_is, following, this), "next"))
        multiply(rest, steps - 1)
        for new in rest.ops:
            located(new, op)
        for old in parts.meet:
            rewriter.erase(old)
        for other in group[1:]:
            rewriter.erase(other)
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


def _cut(group: Sequence[tile.ContractOp], loop: scf.ForOp) -> _Parts:
    """Cut the loop's body; raises PolycError ``NoBuffers`` where its order is another one."""
    body = list(loop.body.block.ops)
    at = body.index(group[0])
    after = [o for o in body[at + len(group) :] if not isinstance(o, scf.YieldOp)]
    acting = [o for o in body[:at] if not is_side_effect_free(o)]
    waits = [i for i, o in enumerate(acting) if isinstance(o, _MEETING)]
    meet = acting[: waits[-1] + 1] if waits else []
    if (odd := next((o for o in (*meet, *after) if not isinstance(o, _MEETING)), None)) is not None:
        raise PolycError(
            "NoBuffers",
            f"{odd.name} stands where the loop's order is waits and barriers, then copies, then "
            "one contract, or several of one left tile; move it out of the loop or between them",
            odd,
        )
    slots = _needs(body, [s for op in group for s in (op.lhs_slot, op.rhs_slot) if s is not None])
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
