"""``gpu-prefetch-reads``: what a step adds to its products comes during the step before (T2).

Where threads multiply by ``mma.sync`` they wait for the products, and what a map then reads of
memory, such as a bias of scores, has nothing to run beside: each step would wait once more for
memory, after its tiles have come.  Where a producer brings the tiles of ``wgmma`` by TMA, it brings
what such a map reads too (``StageReads``).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint

from polyc.dialects.gpu import tile
from polyc.dialects.gpu.types import FragmentType, GlobalType
from polyc.passes.gpu.share_reads import axes_of, contract_before, reads_alone, sizes_of
from polyc.passes.support.gpu.pipeline_parts import with_needs
from polyc.passes.support.gpu.staged_reads import StageReads
from polyc.passes.support.gpu.symbols import enclosing_kernel
from polyc.passes.support.gpu.uniform import is_scalar
from polyc.rewriting.driver import located, rewrite
from polyc.rewriting.emit import Emit, affine_dim, clone_into

MOST_AHEAD = 16
"""Elements that a thread has on their way, of one tensor."""

MOST_HELD = 128
"""Elements of a thread, those on their way and those of the accumulators of a step."""


class PrefetchReads(RewritePattern):
    """Read in each step of a pipeline what the next step's map over an accumulator takes.

    The map stands in the pipeline's body behind a contract by ``mma.sync`` into its space.  A
    tensor that it reads at both axes of the tile is read by a map of its own into a fragment of the
    tile, and what columns alone read has one already (``gpu-share-reads``).  That map runs once in
    front of the pipeline, for its first step, and in each step behind the last op that reads the
    fragment, for the step after it.

    Legality, exact: the kernel writes the tensor nowhere, so that it holds the same a step before;
    elements outside of it are 0, those of a step behind the last one too.  Where the next step
    reads follows from the loop's position by ops on indices.  Refused, and left as they are:
    fragments and accumulators that threads have no registers for (``MOST_AHEAD``, ``MOST_HELD``),
    maps in branches, tensors that the kernel writes.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.MapOp, rewriter: PatternRewriter) -> None:
        pipeline = op.parent_op()
        if not isinstance(pipeline, tile.PipelineOp) or is_load(op):
            return
        contract = contract_before(op)
        if contract is None or contract.mma.data != "mma.sync":
            return
        loads = [load for load in map(load_of, op.inputs) if load is not None]
        loads = [load for load in loads if load.parent_op() is pipeline and has_room(load.space)]
        inputs, maps = list(op.inputs), op.input_maps
        apart = [
            i for i, (v, m) in enumerate(zip(inputs, maps, strict=True)) if reads_tile(op, v, m)
        ]
        if not apart and not loads:
            return
        for i in apart:
            held, load = read_ahead(op, inputs[i], maps[i])
            owner = op.space.owner
            assert isinstance(owner, Operation)
            rewriter.insert(located(held, op), InsertPoint.after(owner))
            rewriter.insert(located(load, op), InsertPoint.before(op))
            loads.append(load)
            inputs[i] = held.fragment
            both = (AffineExpr.dimension(0), AffineExpr.dimension(1))
            maps[i] = AffineMap(2, len(op.origin), both)
        if apart:
            body = op.detach_region(op.body)
            every = [*maps, *op.output_maps]
            new = tile.MapOp(op.space, op.origin, inputs, op.outputs, every, body, op.cache)
            rewriter.replace(op, located(new, op))
        for load in loads:
            ahead(pipeline, load, rewriter)


def is_load(op: tile.MapOp) -> bool:
    """Whether a map reads one tensor into its space and computes nothing."""
    last = op.body.block.last_op
    return (
        [v.type for v in op.inputs if isinstance(v.type, GlobalType)] == [v.type for v in op.inputs]
        and len(op.inputs) == 1
        and list(op.outputs) == [op.space]
        and last is not None
        and list(last.operands) == [op.body.block.args[1]]
    )


def load_of(held: SSAValue) -> tile.MapOp | None:
    """The one op that sets a fragment, if that is a load."""
    users = list(dict.fromkeys(use.operation for use in held.uses))
    sets = [u for u in users if isinstance(u, tile.MapOp) and held in u.outputs]
    others = [u for u in users if not isinstance(u, tile.MapOp)]
    return sets[0] if len(sets) == 1 and not others and is_load(sets[0]) else None


def reads_tile(op: tile.MapOp, source: SSAValue, access: AffineMap) -> bool:
    """Whether a map reads a tensor at both axes of its tile, and threads have room for that."""
    return (
        isinstance(source.type, GlobalType)
        and len(axes_of(access)) == 2
        and all(reads_alone(use.operation, source) for use in source.uses)
        and has_room(op.space)
    )


def has_room(held: SSAValue) -> bool:
    """Whether a thread has registers for a fragment beside the accumulators of the kernel."""
    owner = held.owner
    assert isinstance(owner, Operation)
    kernel = enclosing_kernel(owner)
    threads = kernel.threads.value.data
    sizes = sizes_of(held)
    # A row lies in four lanes, and a column's elements in as many as there are warps' rows.
    own = prod(sizes) // threads if len(sizes) == 2 else sizes[0] // 4
    sums = {o.acc for o in kernel.walk() if isinstance(o, tile.ContractOp)}
    beside = sum(prod(sizes_of(acc)) for acc in sums if in_pipeline(acc)) // threads
    return own <= MOST_AHEAD and own + beside <= MOST_HELD


def in_pipeline(acc: SSAValue) -> bool:
    """Whether a contract of a pipeline has this accumulator."""
    users = (use.operation for use in acc.uses)
    return any(
        isinstance(u, tile.ContractOp) and isinstance(u.parent_op(), tile.PipelineOp) for u in users
    )


def read_ahead(
    op: tile.MapOp, source: SSAValue, access: AffineMap
) -> tuple[tile.FragmentOp, tile.MapOp]:
    """A fragment like a map's space, and the map that reads a tensor into it."""
    assert isinstance(source.type, GlobalType)
    kind = source.type.element_type
    fragment = tile.FragmentOp(FragmentType.of(sizes_of(op.space), kind))
    fragment.fragment.name_hint = source.name_hint
    block = Block(arg_types=[kind, kind])
    block.args[1].name_hint = source.name_hint
    block.add_op(tile.YieldOp([block.args[1]]))
    both = (AffineExpr.dimension(0), AffineExpr.dimension(1))
    maps = [access, AffineMap(2, len(op.origin), both)]
    held = fragment.fragment
    return fragment, tile.MapOp(held, op.origin, [source], [held], maps, Region(block))


def ahead(pipeline: tile.PipelineOp, load: tile.MapOp, rewriter: PatternRewriter) -> None:
    """Let a load of a pipeline's body run a step ahead."""
    block, held = pipeline.body.block, load.space
    position, iteration = block.args
    needs = [o for o in with_needs(list(block.ops), [load]) if o is not load]
    if not all(is_scalar(o) for o in needs):
        return
    readers = [use.operation for use in held.uses if use.operation is not load]
    inside = [block.find_ancestor_op_in_block(reader) for reader in readers]
    last = [o for o in block.ops if o in inside][-1]
    first, then = Emit(), Emit()
    zero = first.index(0)
    clone_into([*needs, load], {position: zero, iteration: zero}, first)
    step = pipeline.step.value.data
    values: dict[SSAValue, SSAValue] = {
        position: then.apply(affine_dim(0) + step, [position], hint=position.name_hint),
        iteration: then.apply(affine_dim(0) + 1, [iteration], hint=iteration.name_hint),
    }
    clone_into([*needs, load], values, then)
    rewriter.insert([located(o, load) for o in first.ops], InsertPoint.before(pipeline))
    rewriter.insert([located(o, load) for o in then.ops], InsertPoint.after(last))
    rewriter.erase(load)


@dataclass(frozen=True)
class GpuPrefetchReads(ModulePass):
    """Read a step ahead what is added to a step's products."""

    name = "gpu-prefetch-reads"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [PrefetchReads(), StageReads()])
