"""``gpu-share-reads``: what an accumulator's rows or columns read of memory, they read once (T2).

A thread holds many elements of an accumulator, of few rows and columns.  A map over it that reads a
tensor at the row alone, as a mask of queries is, or at the column alone, as a bias of keys is,
would load one number again for each element; the CUDA compiler does not merge loads under
predicates.  Nor does it merge functions with branches, so that a cosine of a row's number would be
computed for each column that a thread has: these are computed once too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import cast

from xdsl.context import Context
from xdsl.dialects import scf
from xdsl.dialects.builtin import AnyFloat, ModuleOp, f32
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap, AffineSymExpr
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint

from polyc.dialects.gpu import tile
from polyc.dialects.gpu.types import FragmentType, GlobalType
from polyc.passes.gpu.roll_maps import instructions
from polyc.passes.support.gpu.index_forms import is_inside
from polyc.rewriting.driver import located, rewrite
from polyc.rewriting.effects import Effect, effect_of
from polyc.rewriting.emit import Emit, clone_into

ROWS = 0
"""The axis of an accumulator's rows, of which a thread has few."""

STEPS = (scf.ForOp, tile.PipelineOp)
"""Loops of steps: a contract in them fills its accumulator anew or adds to it each time."""


class ShareReads(RewritePattern):
    """Read what a map over an accumulator takes of its rows or columns into a fragment of these.

    The map stands in a loop of steps, in one block behind the contract into its accumulator.  A
    tensor that it reads at one axis of the tile is read by a map of its own into a fragment of that
    axis; one that it reads at neither, into a fragment of rows.  That map goes in front of the
    loops that change nothing of its place, or else in front of the contract, whose products then
    run beside the loads.  An integer of rank 0, as a seed is, is one number for all rows.

    A map behind the steps, which ends a tile, shares what it reads of rows alone, in front of it:
    a thread has few rows, and the CUDA compiler then sees that what is computed of such numbers
    only, as a quotient, is one for the row.

    Legality, exact: the same elements are read, and those outside of a tensor are 0 as before.
    Nothing in the kernel writes the tensor.  Refused, and left as they are: columns behind the
    steps, whose fragment would live on beside the whole accumulator, tensors that the kernel
    writes, and reads at both axes.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.MapOp, rewriter: PatternRewriter) -> None:
        contract = contract_before(op)
        if contract is None and not is_behind_steps(op):
            return
        inputs, maps = list(op.inputs), op.input_maps
        shared = [i for i, (v, m) in enumerate(zip(inputs, maps, strict=True)) if is_shared(v, m)]
        if contract is None:
            shared = [i for i in shared if axis_of(maps[i]) in (None, ROWS)]
        if not shared:
            return
        for i in shared:
            axis, place = axis_of(maps[i]) or ROWS, Place.of(op, maps[i])
            once, fill = read_once(op, inputs[i], axis, place)
            at = op if contract is None else first_place(op, contract, place.origin)
            owner = op.space.owner
            assert isinstance(owner, Operation)
            rewriter.insert(located(once, op), InsertPoint.after(owner))
            rewriter.insert(located(fill, op), InsertPoint.before(at))
            inputs[i] = once.fragment
            maps[i] = AffineMap(2, len(op.origin), (AffineExpr.dimension(axis),))
        body = op.detach_region(op.body)
        every = [*maps, *op.output_maps]
        new = tile.MapOp(op.space, op.origin, inputs, op.outputs, every, body, op.cache)
        rewriter.replace(op, located(new, op))


class ComputeOnce(RewritePattern):
    """Compute what a map over an accumulator makes of its rows' numbers alone once for each row.

    Functions of numbers from fragments of rows, with all that leads to them and follows from the
    rows alone, are a map of their own over a fragment of rows, in front of the map.

    Legality, exact: the same ops of the same numbers.  The map follows a contract or the steps of
    one, its body has no branch, and what is computed is f32 and takes ``COSTLY`` instructions.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.MapOp, rewriter: PatternRewriter) -> None:
        if contract_before(op) is None and not is_behind_steps(op):
            return
        block = op.body.block
        if any(inner.regions for inner in block.ops):
            return
        rows: dict[SSAValue, int] = {
            argument: number
            for number, (argument, source, access) in enumerate(
                zip(block.args[1:], op.inputs, op.input_maps, strict=False)
            )
            if isinstance(source.type, FragmentType)
            and access.results == (AffineExpr.dimension(ROWS),)
            and len(source.type.sizes) == 1
        }
        own = _of_rows(block, set(rows))
        ends = [
            value
            for inner in block.ops
            for value in inner.results
            if value in own
            and value.type == f32
            and any(not set(use.operation.results) & own for use in value.uses)
        ]
        chains = {end: _behind(end, own) for end in ends}
        ends = [end for end in ends if sum(map(instructions, chains[end])) >= COSTLY][:MOST_ENDS]
        if not ends:
            return
        owner = op.space.owner
        assert isinstance(owner, Operation)
        inputs, maps = list(op.inputs), op.input_maps
        for end in ends:
            once, fill = self._once(op, end, chains[end], rows)
            rewriter.insert(located(once, op), InsertPoint.after(owner))
            rewriter.insert(located(fill, op), InsertPoint.before(op))
            inputs.append(once.fragment)
            maps.append(AffineMap(2, len(op.origin), (AffineExpr.dimension(ROWS),)))
            argument = rewriter.insert_block_argument(block, len(inputs), f32)
            argument.name_hint = end.name_hint
            end.replace_all_uses_with(argument)
        for inner in reversed(list(block.ops)):
            if (
                inner.results
                and not any(r.first_use for r in inner.results)
                and set(inner.results) & own
            ):
                rewriter.erase(inner)
        body = op.detach_region(op.body)
        new = tile.MapOp(op.space, op.origin, inputs, op.outputs, [*maps, *op.output_maps], body)
        rewriter.replace(op, located(new, op))

    def _once(
        self,
        op: tile.MapOp,
        end: SSAValue,
        chain: Sequence[Operation],
        rows: Mapping[SSAValue, int],
    ) -> tuple[tile.FragmentOp, tile.MapOp]:
        """A fragment of rows, and the map that computes a number of each from others of rows."""
        read = [v for v in rows if any(v in inner.operands for inner in chain)]
        fragment = tile.FragmentOp(FragmentType.of([sizes_of(op.space)[ROWS]], f32))
        fragment.fragment.name_hint = end.name_hint
        target, row = fragment.fragment, AffineMap(1, 0, (AffineExpr.dimension(0),))
        block = Block(arg_types=[f32, *(value.type for value in read)])
        values: dict[SSAValue, SSAValue] = dict(zip(read, block.args[1:], strict=True))
        emit = Emit()
        clone_into(chain, values, emit)
        emit.ops.append(tile.YieldOp([values[end]]))
        block.add_ops(emit.ops)
        sources = [op.inputs[rows[value]] for value in read]
        maps = [row] * (len(sources) + 1)
        return fragment, tile.MapOp(target, [], sources, [target], maps, Region(block))


COSTLY = 8
"""Instructions from which on what rows have one of is computed once for each."""

MOST_ENDS = 2
"""Numbers of a row that are computed once, each of which takes a register a row."""


def _of_rows(block: Block, rows: Set[SSAValue]) -> set[SSAValue]:
    """The values of a block that follow from numbers of rows, and from what is outside of it: not
    from where in the tile they are."""
    found = set(rows)
    known = set[SSAValue](found)
    for op in block.ops:
        if isinstance(op, tile.TileIndexOp):
            continue
        inside = [v for v in op.operands if v.owner is block or _is_in(v, block)]
        if effect_of(op) is not Effect.NONE or not all(v in known for v in inside):
            continue
        known.update(op.results)
        if any(v in found for v in inside):
            found.update(op.results)
    return (found | (known - rows)) - rows


def _is_in(value: SSAValue, block: Block) -> bool:
    return isinstance(value.owner, Operation) and value.owner.parent_block() is block


def _behind(end: SSAValue, own: Set[SSAValue]) -> list[Operation]:
    """The ops that a value is made by, of those of rows, in their order."""
    found: set[Operation] = set()
    work = [end]
    while work:
        value = work.pop()
        if value in own and isinstance(value.owner, Operation) and value.owner not in found:
            found.add(value.owner)
            work += value.owner.operands
    block = cast(Operation, end.owner).parent_block()
    assert block is not None
    return [op for op in block.ops if op in found]


@dataclass(frozen=True)
class Place:
    """Where a map reads: coordinates by the tile's axes, and by those origins that they use."""

    exprs: tuple[AffineExpr, ...]
    origin: tuple[SSAValue, ...]

    @staticmethod
    def of(op: tile.MapOp, access: AffineMap) -> Place:
        used = sorted(
            {e.position for r in access.results for e in r.dfs() if isinstance(e, AffineSymExpr)}
        )
        symbols = [AffineExpr.symbol(sum(u < i for u in used)) for i in range(len(op.origin))]
        dims = [AffineExpr.dimension(i) for i in range(2)]
        exprs = tuple(e.replace_dims_and_symbols(dims, symbols) for e in access.results)
        return Place(exprs, tuple(op.origin[i] for i in used))


def contract_before(op: tile.MapOp) -> tile.ContractOp | None:
    """The contract into a map's space in the same body of a loop, ahead of it."""
    if not isinstance(op.parent_op(), STEPS) or len(sizes_of(op.space)) != 2:
        return None
    before = op.prev_op
    while before is not None:
        if isinstance(before, tile.ContractOp) and before.acc is op.space:
            return before
        before = before.prev_op
    return None


def is_behind_steps(op: tile.MapOp) -> bool:
    """Whether a map is over an accumulator that steps ahead of it, in its block, have filled."""
    if len(sizes_of(op.space)) != 2:
        return False
    fills = [u.operation for u in op.space.uses if isinstance(u.operation, tile.ContractOp)]
    block = op.parent_block()
    assert block is not None
    return any(
        step is not None and not isinstance(step, tile.ContractOp) and step.is_before_in_block(op)
        for step in map(block.find_ancestor_op_in_block, fills)
    )


def sizes_of(fragment: SSAValue) -> tuple[int, ...]:
    return cast("FragmentType", fragment.type).sizes


def axes_of(access: AffineMap) -> set[int]:
    """The axes of the tile that a place depends on."""
    return {
        e.position
        for result in access.results
        for e in result.dfs()
        if isinstance(e, AffineDimExpr)
    }


def axis_of(access: AffineMap) -> int | None:
    """The one axis that a place depends on; None where it is none."""
    return next(iter(axes_of(access)), None)


def is_shared(source: SSAValue, access: AffineMap) -> bool:
    """Whether elements of a row or column read the same of a tensor that is not written."""
    if not isinstance(source.type, GlobalType) or len(axes_of(access)) > 1:
        return False
    if not access.results and not isinstance(source.type.element_type, AnyFloat):
        return False
    return all(reads_alone(use.operation, source) for use in source.uses)


def reads_alone(op: Operation, tensor: SSAValue) -> bool:
    """Whether an op reads a tensor and does not write it."""
    match op:
        case tile.MapOp():
            return tensor not in op.outputs
        case tile.CopyOp():
            return tensor is not op.target
        case _:
            return False


def read_once(
    op: tile.MapOp, source: SSAValue, axis: int, place: Place
) -> tuple[tile.FragmentOp, tile.MapOp]:
    """A fragment of one axis of a map's space, and the map that reads a tensor into it."""
    kind = cast("GlobalType", source.type).element_type
    fragment = tile.FragmentOp(FragmentType.of([sizes_of(op.space)[axis]], kind))
    fragment.fragment.name_hint = source.name_hint
    here = [AffineExpr.dimension(0)] * 2
    symbols = [AffineExpr.symbol(i) for i in range(len(place.origin))]
    exprs = tuple(e.replace_dims_and_symbols(here, symbols) for e in place.exprs)
    count = len(place.origin)
    block = Block(arg_types=[kind, kind])
    block.args[1].name_hint = source.name_hint
    block.add_op(tile.YieldOp([block.args[1]]))
    maps = [AffineMap(1, count, exprs), AffineMap(1, count, (AffineExpr.dimension(0),))]
    target = fragment.fragment
    return fragment, tile.MapOp(target, place.origin, [source], [target], maps, Region(block))


def first_place(op: tile.MapOp, contract: tile.ContractOp, origin: Sequence[SSAValue]) -> Operation:
    """The op that what is read at ``origin`` goes in front of: a loop that changes none of it.

    Otherwise it is the one behind the contract, or the map itself where its place is known later.
    """
    at: Operation = contract
    outer = contract.parent_op()
    while isinstance(outer, STEPS) and not any(is_inside(value, outer) for value in origin):
        at, outer = outer, outer.parent_op()
    if at is not contract:
        return at
    assert contract.next_op is not None
    return contract.next_op if all(is_before(value, contract) for value in origin) else op


def is_before(value: SSAValue, op: Operation) -> bool:
    """Whether a value that another op of the block uses is there ahead of ``op``."""
    owner = value.owner
    if isinstance(owner, Block) or owner.parent_block() is not op.parent_block():
        return True
    return owner.is_before_in_block(op)


@dataclass(frozen=True)
class GpuShareReads(ModulePass):
    """Read once what an accumulator's rows and columns have one of."""

    name = "gpu-share-reads"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [ShareReads()])
        rewrite(op, [ComputeOnce()])
