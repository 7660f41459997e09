"""``gpu-turns``: consumers that work together part, and take turns at the tensor cores (T2).

While one warpgroup's products are under way another one computes on its own sums, and the other way
round: neither has to wait, as both would if all of them multiplied and then all of them computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp, NoneAttr
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint, Rewriter

from polyc.dialects.gpu import tile
from polyc.dialects.gpu.types import FragmentType, GlobalType, SharedType
from polyc.passes.support.gpu.tile_effects import fragments_of
from polyc.passes.support.gpu.uniform import around, is_scalar
from polyc.rewriting.driver import located, rewrite
from polyc.rewriting.emit import INDEX, Emit, affine_dim
from polyc.rewriting.postorder import operands_of, reached

ROWS = 64
"""Rows of a warpgroup: those of one wgmma."""

AFFINE_ROW = affine_dim(0)


class TakeTurns(RewritePattern):
    """Let each consumer have its own rows, and its turn to issue a loop's products.

    Consumers that work together have 64 rows each of every fragment.  They become independent:
    fragments have 64 rows, maps to tensors begin 64 rows later for each, and a tile that is the
    left operand of their products becomes one of as many slots, filled by a copy each.  Where a
    loop issues several products one after another and then computes on their sums, the products
    are one turn.

    What they load beside such loops, from tensors into fragments of other rows and into tiles that
    are right operands, each loads for itself: the fragments stay whole, and the tiles become one of
    as many slots.  Each asks its own rows what ``gpu.any`` asks.

    Legality, exact: no op computes across rows of two consumers, and all consumers run the same
    steps of these loops, so that each takes its turn as often.  Refused, and left as they are: one
    consumer; no such loop, or one in a branch that ``gpu.any`` decides; fragments with a layout of
    the author's; ops but contracts, fills, maps, reductions by the row, rings, and loads.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.RolesOp, rewriter: PatternRewriter) -> None:
        count = op.consumers.value.data
        if op.independent is not None or count < 2:
            return
        turns = [turn for loop in op.consumer.walk() if (turn := turn_of(loop)) is not None]
        if not turns or any(is_asked_for(first) for first, _ in turns):
            return
        split = Split.of(op, count)
        if split is None:
            return
        order = located(tile.OrderBarrierOp(count), op)
        order.order.name_hint = "turn"
        body = op.consumer.detach_block(0)
        number = body.insert_arg(INDEX, 0)
        number.name_hint = "w"
        for first, last in turns:
            rewriter.insert(
                located(tile.OrderEnterOp(order.order, number), first), InsertPoint.before(first)
            )
            rewriter.insert(
                located(tile.OrderLeaveOp(order.order, number), last), InsertPoint.after(last)
            )
        split.apply(body, number, count, rewriter)
        new = tile.RolesOp(
            count,
            op.register_split,
            op.detach_region(op.producer),
            Region(body),
            op.single_thread is not None,
            independent=True,
        )
        new.attributes.update(op.attributes)
        rewriter.replace(op, [order, located(new, op)], [])


def turn_of(loop: Operation) -> tuple[tile.ContractOp, tile.ContractOp] | None:
    """The first and the last of a loop's products that are one turn.

    They are all of the loop's contracts, two or more, with nothing between them that computes or
    waits for one of them, and behind them something computes on their sums.
    """
    if not isinstance(loop, scf.ForOp):
        return None
    ops = list(loop.body.block.ops)
    contracts = [op for op in ops if isinstance(op, tile.ContractOp)]
    if len(contracts) < 2:
        return None
    first, last = ops.index(contracts[0]), ops.index(contracts[-1])
    quiet = all(
        isinstance(op, tile.ContractOp | tile.RingWaitOp) or is_scalar(op) for op in ops[first:last]
    )
    sums = {contract.acc for contract in contracts}
    busy = any(
        isinstance(inner, tile.MapOp | tile.ReduceOp) and sums & set(fragments_of(inner))
        for op in ops[last + 1 :]
        for inner in op.walk()
    )
    return (contracts[0], contracts[-1]) if quiet and busy else None


def is_asked_for(op: Operation) -> bool:
    """Whether ``gpu.any`` decides if an op runs."""
    conditions = [o.cond for o in around(op) if isinstance(o, scf.IfOp)]
    made = reached(conditions, operands_of)
    return any(isinstance(value.owner, tile.AnyOp) for value in made)


@dataclass(frozen=True)
class Split:
    """What becomes a consumer's own.

    ``fragments`` have 64 rows then, and so have ``left``, the left operands of products; ``whole``
    ones stay as they are, and ``right`` are tiles that each consumer fills for itself.
    """

    fragments: Sequence[SSAValue]
    whole: Sequence[SSAValue]
    left: Sequence[SSAValue]
    right: Sequence[SSAValue]

    @staticmethod
    def of(op: tile.RolesOp, count: int) -> Split | None:
        """None where something does not go by rows."""
        fragments: list[SSAValue] = []
        whole: list[SSAValue] = []
        left: dict[SSAValue, None] = {}
        right: dict[SSAValue, None] = {}
        for inner in op.consumer.walk():
            match inner:
                case tile.FragmentOp():
                    kind = inner.fragment.type
                    assert isinstance(kind, FragmentType)
                    if not isinstance(kind.layout, NoneAttr):
                        return None
                    (fragments if kind.sizes[0] == ROWS * count else whole).append(inner.fragment)
                case tile.ContractOp():
                    if inner.mma.data != "wgmma" or inner.warp_sizes[0] != ROWS:
                        return None
                    if isinstance(inner.lhs.type, SharedType):
                        left[inner.lhs] = None
                case tile.CopyOp() if is_read(inner):
                    left[inner.source] = None
                case tile.CopyOp():
                    if not is_own_load(inner):
                        return None
                    if isinstance(inner.target.type, SharedType):
                        right[inner.target] = None
                case tile.MapOp():
                    if not all(
                        m.results and m.results[0] == AFFINE_ROW
                        for value, m in mapped(inner)
                        if isinstance(value.type, FragmentType)
                    ):
                        return None
                case tile.ReduceOp():
                    if inner.by.data.results[0] != AFFINE_ROW or inner.cluster is not None:
                        return None
                case _ if not isinstance(inner, ALLOWED) and not is_scalar(inner):
                    return None
                case _:
                    pass
        for inner in op.consumer.walk():
            used = fragments_of(inner)
            if not (all(v in fragments for v in used) or all(v in whole for v in used)):
                return None
        parts = all(map(divides, left)) and all(held_by(op.consumer, held) for held in right)
        return Split(fragments, whole, list(left), list(right)) if parts else None

    def apply(self, body: Block, number: SSAValue, count: int, rewriter: PatternRewriter) -> None:
        """Give the consumer ``number`` of ``count``, whose body this is, its own rows."""
        emit = Emit()
        first = emit.apply(affine_dim(0) * ROWS, [number], hint="first_row")
        for held in self.left:
            parted(held, count, number, rewriter)
        for held in self.right:
            repeated(held, count, number, rewriter)
        for fragment in self.fragments:
            kind = fragment.type
            assert isinstance(kind, FragmentType)
            own = FragmentType.of((ROWS, *kind.sizes[1:]), kind.element_type)
            rewriter.replace_value_with_new_type(fragment, own)
        for inner in list(body.walk()):
            if isinstance(inner, tile.MapOp) and inner.space not in self.whole:
                for index in list(inner.body.walk()):
                    if isinstance(index, tile.TileIndexOp) and index.axis.value.data == 0:
                        move_index(index, first, rewriter)
                move_rows(inner, first)
        rewriter.insert(emit.ops, InsertPoint.at_start(body))


ALLOWED = (
    tile.AnyOp,
    tile.FillOp,
    tile.YieldOp,
    tile.AwaitOp,
    tile.RingWaitOp,
    tile.RingReleaseOp,
    tile.TileLoopOp,
    tile.TileIndexOp,
    scf.ForOp,
    scf.IfOp,
    scf.YieldOp,
)
"""Ops of a consumer that do the same for fewer rows, beside those that ``Split`` looks into."""


def mapped(op: tile.MapOp) -> list[tuple[SSAValue, AffineMap]]:
    """The values that a map reads and writes, each with where."""
    return list(zip((*op.inputs, *op.outputs), (m.data for m in op.maps.data), strict=True))


def divides(held: SSAValue) -> bool:
    """Whether a shared tile can be as many slots: all that use it are products, as their left
    operand by rows, copies to registers, and copies by TMA that fill it for these."""
    kind = held.type
    assert isinstance(kind, SharedType)
    ring = kind.ring.data > 1
    return all(
        (
            (isinstance(user, tile.ContractOp) and user.lhs is held and user.lhs_k_major)
            and (user.lhs_slot is not None) == ring
        )
        or (
            isinstance(user, tile.CopyOp)
            and user.source is held
            and is_read(user)
            and (user.source_slot is not None) == ring
        )
        or (
            isinstance(user, tile.CopyOp)
            and user.target is held
            and (user.slot is not None) == ring
            and user.signal is not None
            and user.multicast is None
            and user.view == tile.CopyView(axes=user.view.axes)
        )
        for user in (use.operation for use in held.uses)
    )


def is_read(op: tile.CopyOp) -> bool:
    """Whether a copy brings a shared tile, whole, to registers by its rows."""
    source, target = op.source.type, op.target.type
    return (
        isinstance(source, SharedType)
        and isinstance(target, FragmentType)
        and source.sizes == target.sizes
        and op.view == tile.CopyView()
        and op.token is None
        and not op.transposes
    )


def is_own_load(op: tile.CopyOp) -> bool:
    """Whether each consumer may make a copy for itself.

    It brings a tensor to registers or to a shared tile, or registers to a tile, and stands beside
    the loops whose products are turns.
    """
    ends = (op.source.type, op.target.type)
    moves = isinstance(op.source.type, GlobalType | FragmentType) and isinstance(
        op.target.type, SharedType | FragmentType
    )
    return (
        moves
        and not all(isinstance(end, FragmentType) for end in ends)
        and (op.loader is None or op.loader.data != "tma")
        and op.slot is op.source_slot is op.signal is op.token is None
        and not any(turn_of(outer) is not None for outer in around(op))
    )


def held_by(consumer: Region, held: SSAValue) -> bool:
    """Whether a shared tile is the consumers' alone: they copy into it, and multiply by it."""
    kind = held.type
    assert isinstance(kind, SharedType)
    return kind.ring.data == 1 and all(
        consumer.is_ancestor(user)
        and (
            (isinstance(user, tile.CopyOp) and user.target is held)
            or (
                isinstance(user, tile.ContractOp) and user.lhs is not held and user.rhs_slot is None
            )
        )
        for user in (use.operation for use in held.uses)
    )


def repeated(held: SSAValue, count: int, number: SSAValue, rewriter: PatternRewriter) -> None:
    """Make a tile one of ``count`` slots, of which consumer ``number`` fills and reads its own."""
    kind = held.type
    assert isinstance(kind, SharedType)
    ring = kind.like(ring=count)
    new = rewriter.replace_value_with_new_type(held, ring)
    for user in [use.operation for use in new.uses]:
        if isinstance(user, tile.ContractOp):
            side = tile.ContractSide(new, user.rhs_map.data, number)
            rewriter.replace(user, user.like(rhs=side))
        else:
            assert isinstance(user, tile.CopyOp)
            rewriter.replace(user, user.like(slot=number))


def parted(held: SSAValue, count: int, number: SSAValue, rewriter: PatternRewriter) -> None:
    """Make a tile one of ``count`` slots of 64 rows, of each slot that it had; consumer ``number``
    reads its own."""
    kind = held.type
    assert isinstance(kind, SharedType)
    slots = count * kind.ring.data
    own = kind.like((ROWS, *kind.sizes[1:]), ring=slots)
    new = rewriter.replace_value_with_new_type(held, own)
    for user in [use.operation for use in new.uses]:
        assert isinstance(user, tile.ContractOp | tile.CopyOp)
        emit, slot = Emit(), number
        taken = user.lhs_slot if isinstance(user, tile.ContractOp) else user.source_slot
        if taken is not None:
            place = AFFINE_ROW * count + affine_dim(1)
            slot = emit.apply(place, [taken, number], hint="slot")
        if isinstance(user, tile.ContractOp):
            side = tile.ContractSide(new, user.lhs_map.data, slot)
            rewriter.replace(user, [*emit.ops, user.like(lhs=side)])
            continue
        if user.source is new:
            rewriter.replace(user, [*emit.ops, user.like(source_slot=slot)])
            continue
        emit = Emit()
        axes = user.view.axes
        row = len(user.indices) - 2 if axes is None else axes[0]
        for i in range(count):
            indices = list(user.indices)
            indices[row] = emit.apply(AFFINE_ROW + i * ROWS, [indices[row]])
            slot = emit.index(i)
            if user.slot is not None:
                slot = emit.apply(AFFINE_ROW * count + i, [user.slot], hint="slot")
            emit.op(user.like(slot=slot, indices=indices))
        rewriter.replace(user, emit.ops, [])


def move_index(op: tile.TileIndexOp, first: SSAValue, rewriter: PatternRewriter) -> None:
    """Let a row's number in a map count from ``first`` on."""
    uses = list(op.result.uses)
    shifted = Emit()
    index = shifted.apply(AFFINE_ROW + affine_dim(1), [op.result, first])
    for use in uses:
        use.operation.operands[use.index] = index
    rewriter.insert(shifted.ops, InsertPoint.after(op))


def move_rows(op: tile.MapOp, first: SSAValue) -> None:
    """Let a map's rows be those from ``first`` on, where it reads and writes tensors."""
    tensors = [v for v, _ in mapped(op) if not isinstance(v.type, FragmentType)]
    if not tensors:
        return
    symbol = AffineExpr.symbol(len(op.origin))
    rank = len(op.space.type.sizes) if isinstance(op.space.type, FragmentType) else 0
    dims = [AFFINE_ROW + symbol, *(affine_dim(i) for i in range(1, rank))]
    symbols = [AffineExpr.symbol(i) for i in range(len(op.origin))]
    maps = [
        AffineMap(
            m.num_dims,
            len(op.origin) + 1,
            m.results
            if isinstance(value.type, FragmentType)
            else tuple(e.replace_dims_and_symbols(dims, symbols) for e in m.results),
        )
        for value, m in mapped(op)
    ]
    body = op.detach_region(op.body)
    new = tile.MapOp(op.space, [*op.origin, first], op.inputs, op.outputs, maps, body)
    new.attributes.update(op.attributes)
    Rewriter.replace_op(op, located(new, op))


@dataclass(frozen=True)
class GpuTurns(ModulePass):
    """Part consumers that multiply and compute, and let them take turns."""

    name = "gpu-turns"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [TakeTurns()])
