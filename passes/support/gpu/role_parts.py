"""What the roles of pipelines do: the producer's walk, and the consumers' loops (T2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from xdsl.dialects import scf
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import InsertPoint, Rewriter

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.types import (
    FragmentType,
    SharedType,
    element_bytes,
)
from polyc.dialects.gpu.waiting import RingType
from polyc.dialects.plan import OPERAND_BYTES
from polyc.passes.support.gpu.guards import guards_of
from polyc.passes.support.gpu.pipeline_parts import clone_iteration, copies_of, with_needs
from polyc.passes.support.gpu.ring_flow import (
    ChainedStep,
    computed_operands,
    is_chained,
    ring_groups,
)
from polyc.passes.support.gpu.role_counts import NO_VALUES, Counts
from polyc.passes.support.gpu.role_place import Place
from polyc.passes.support.gpu.uniform import is_scalar
from polyc.rewriting.driver import located
from polyc.rewriting.emit import INDEX, Emit, affine_dim, clone_into


@dataclass
class Flow:
    """The rings between the roles of pipelines, and how the consumers follow them."""

    place: Place
    rings: dict[SSAValue, SSAValue]
    """The ring that carries each tile that the pipelines' copies fill."""
    users: dict[SSAValue, list[int]]
    """The pipelines whose copies fill a ring, by their number."""
    early: dict[SSAValue, SSAValue]
    """As ``rings``, for tiles that are filled before the pipelines."""
    counts: Counts
    """What the rings count by."""

    @staticmethod
    def of(counts: Counts, emit: Emit, consumers: int) -> Flow:
        place, peers = counts.place, 1
        if any(copy.multicast is not None for op in place.ops for copy in copies_of(op)):
            peers = place.kernel.cluster_size
        early: dict[SSAValue, SSAValue] = {}
        if place.early:
            ahead = min(slots_of(copy.target) for copy in place.early)
            ring = emit.value(tile.RingOp(ahead, consumers), "ring")
            early = {copy.target: ring for copy in place.early}
        filled = [{copy.target for copy in copies_of(op)} for op in place.ops]
        rings: dict[SSAValue, SSAValue] = {}
        users: dict[SSAValue, list[int]] = {}
        for group in ring_groups(place.ops):
            by = [number for number, targets in enumerate(filled) if group[0] in targets]
            depth = place.ops[by[0]].stages.value.data
            ring = emit.value(tile.RingOp(depth, consumers, peers), "ring")
            rings |= dict.fromkeys(group, ring)
            users[ring] = by
        return Flow(place, rings, users, early, counts)

    def rings_of(self, number: int) -> list[SSAValue]:
        """The rings that a pipeline's copies fill."""
        return [ring for ring, users in self.users.items() if number in users]

    def numbers(
        self, number: int, emit: Emit, values: Mapping[SSAValue, SSAValue] = NO_VALUES
    ) -> Callable[[Emit, SSAValue], dict[SSAValue, SSAValue]]:
        """What gives, of an iteration of pipeline ``number``, what its rings count.

        ``emit`` gets what they count by at the first iteration; ``values`` is what stands for the
        consumers' values.
        """
        rings = self.rings_of(number)
        firsts: dict[tuple[int, ...], SSAValue | None] = {}
        for ring in rings:
            users = tuple(self.users[ring])
            if users not in firsts:
                firsts[users] = self.counts.first(emit, number, users, values)

        def of(inner: Emit, i: SSAValue) -> dict[SSAValue, SSAValue]:
            found: dict[tuple[int, ...], SSAValue] = {}
            for users, first in firsts.items():
                found[users] = i
                if first is not None:
                    whole = affine_dim(0) + affine_dim(1)
                    found[users] = inner.apply(whole, [first, i], hint="number")
            return {ring: found[tuple(self.users[ring])] for ring in rings}

        return of

    def of_tiles(self, numbers: Mapping[SSAValue, SSAValue]) -> dict[SSAValue, SSAValue]:
        """What the rings of tiles count, by the tiles."""
        return {held: numbers[ring] for held, ring in self.rings.items() if ring in numbers}

    def take_early(self, rewriter: PatternRewriter) -> None:
        """The early copies are the producer's; who reads their tiles waits, and then releases."""
        block = self.place.op.parent_block()
        assert block is not None
        for ring in dict.fromkeys(self.early.values()):
            tiles = [held for held, carrier in self.early.items() if carrier is ring]
            copies = [copy for copy in self.place.early if copy.target in tiles]
            users = {use.operation for held in tiles for use in held.uses} - set(copies)
            inside = [block.find_ancestor_op_in_block(user) for user in users]
            readers = [op for op in block.ops if op in inside]
            emit = Emit()
            visit = self.counts.visit(emit)
            emit.op(tile.RingWaitOp(ring, visit))
            if (slot := self.early_slot(ring, visit, emit)) is not None:
                for user in (use.operation for held in tiles for use in list(held.uses)):
                    if isinstance(user, tile.ContractOp):
                        side = tile.ContractSide(user.lhs, user.lhs_map.data, slot)
                        rewriter.replace(user, user.like(lhs=side))
            rewriter.insert(
                [located(new, self.place.op) for new in emit.ops], InsertPoint.before(readers[0])
            )
            emit = Emit()
            emit.op(tile.RingReleaseOp(ring, self.counts.visit(emit)))
            rewriter.insert(
                [located(new, self.place.op) for new in emit.ops], InsertPoint.after(readers[-1])
            )
            for copy in copies:
                rewriter.erase(copy)

    def early_slot(self, ring: SSAValue, visit: SSAValue, emit: Emit) -> SSAValue | None:
        """The slot of the tiles that are filled before the pipelines; None where they have one."""
        assert isinstance(ring.type, RingType)
        ahead = ring.type.depth.data
        if ahead == 1 or self.place.tiles is None:
            return None
        return emit.apply(affine_dim(0) % ahead, [visit], hint="slot")

    def consumer(self, number: int, part: list[Operation], turns: Turns | None) -> Emit:
        """The consumers' loop, in the place of a pipeline; where they take turns, within one.

        Of several pipelines each awaits its contracts where their sums are read, so that none of
        one is under way in the next.
        """
        op, emit, count = self.place.ops[number], Emit(), self.counts.counts[number]
        if is_chained(part) or len(self.place.ops) > 1:
            numbers = self.numbers(number, emit)

            def chained(inner: Emit, i: SSAValue) -> None:
                now = numbers(inner, i)
                computed = Emit()
                clone_iteration(op, part, i, computed, self.of_tiles(now), {})
                ChainedStep(self.rings, now, inner).run(computed.ops)

            emit.loop(count, chained, hint="i")
            return emit
        first = self.counts.first(emit, number, [number])

        def of_ring(inner: Emit, i: SSAValue, shift: int = 0) -> SSAValue:
            if first is None:
                return inner.apply(affine_dim(0) + shift, [i], hint="previous" if shift else None)
            whole = affine_dim(0) + affine_dim(1) + shift
            return inner.apply(whole, [first, i], hint="previous" if shift else "number")

        (ring,) = dict.fromkeys(self.rings.values())

        def step(inner: Emit, i: SSAValue, twins: Mapping[SSAValue, SSAValue]) -> None:
            number = of_ring(inner, i)
            inner.op(tile.RingWaitOp(ring, number))
            computed = Emit()
            clone_iteration(op, part, i, computed, self.of_tiles({ring: number}), twins)
            inner.ops += computed.ops
            settle_before(computed.ops, inner)
            late = inner.compare("sgt", i, inner.index(0))
            inner.when(
                late, lambda then: then.ops.append(tile.RingReleaseOp(ring, of_ring(then, i, -1)))
            )

        twins = {
            value: emit.value(tile.FragmentOp(cast(FragmentType, value.type)), value.name_hint)
            for value in computed_operands(part)
        }
        if turns is not None:
            emit.op(tile.OrderEnterOp(turns.order, turns.number))
        if not twins:
            emit.loop(count, lambda inner, i: step(inner, i, {}), hint="i")
        else:

            def pair(inner: Emit, at: SSAValue) -> None:
                step(inner, inner.apply(affine_dim(0) * 2, [at], hint="i"), {})
                step(inner, inner.apply(affine_dim(0) * 2 + 1, [at], hint="i"), twins)

            emit.loop(emit.apply(affine_dim(0) // 2, [count], hint="pairs"), pair, hint="pair")
            odd = emit.compare("eq", emit.apply(affine_dim(0) % 2, [count]), emit.index(1))
            last = emit.apply(affine_dim(0) - 1, [count], hint="i")
            emit.when(odd, lambda then: step(then, last, {}))
        if turns is not None:
            emit.op(tile.OrderLeaveOp(turns.order, turns.number))
        emit.op(tile.AwaitOp(0))
        if first is not None:
            some = emit.compare("sgt", count, emit.index(0))
            emit.when(
                some,
                lambda then: then.ops.append(tile.RingReleaseOp(ring, of_ring(then, count, -1))),
            )
        return emit


@dataclass
class Producer:
    """The producer's own walk over the tiles and the branches, to the copies in them."""

    flow: Flow
    loading: Sequence[list[Operation]]
    """Of each pipeline the copies, with the values that they need."""
    values: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    """What stands in the producer for a value of the consumers' text."""

    @property
    def place(self) -> Place:
        return self.flow.place

    def walk(self, emit: Emit) -> None:
        """Append all that the producer does."""
        self.enter(0, emit)

    def enter(self, level: int, emit: Emit) -> None:
        """What is inside of the frames before ``level``."""
        if level == len(self.place.frames):
            self.load(emit)
            return
        frame = self.place.frames[level]
        if isinstance(frame, scf.IfOp):
            condition = self.values.get(frame.cond, frame.cond)

            taken = Emit(emit)
            self.compute(frame.true_region.block, taken)
            self.enter(level + 1, taken)
            taken.op(scf.YieldOp(*self.ends(frame.true_region.block)))
            other = [scf.YieldOp(*self.ends(frame.false_region.block))] if frame.results else None
            kinds = [result.type for result in frame.results]
            self.keep(frame, emit.op(scf.IfOp(condition, kinds, taken.ops, other)))
            return
        old = frame.body.block
        body = Block(arg_types=[arg.type for arg in old.args])
        for mine, theirs in zip(body.args, old.args, strict=True):
            mine.name_hint = theirs.name_hint
            self.values[theirs] = mine
        inner = Emit()
        self.compute(old, inner)
        self.enter(level + 1, inner)
        if frame.iter_args:
            inner.op(tile.YieldOp(self.ends(old)))
        body.add_ops(inner.ops)
        self.keep(frame, emit.op(frame.like(Region(body), iter_args=list(frame.iter_args))))

    def keep(self, theirs: Operation, mine: Operation) -> None:
        """Let an op's results stand for those of the consumers'."""
        for value, result in zip(theirs.results, mine.results, strict=True):
            result.name_hint = value.name_hint
            self.values[value] = result

    def ends(self, block: Block) -> list[SSAValue]:
        """What a frame's block yields, in the producer."""
        last = block.last_op
        assert last is not None
        return [self.values.get(value, value) for value in last.operands]

    def compute(self, block: Block, emit: Emit) -> None:
        """The values of a frame's block that the copies need, and what the roles count by."""
        early = self.place.early
        left = (*self.place.ops, *self.place.frames, *early)
        wanted = [o for o in block.ops if o not in left]
        loading = [op for part in self.loading for op in part]
        needed = with_needs(wanted, [*loading, *early, *self.flow.counts.made])
        for need in needed:
            if not is_scalar(need):
                raise PolycError(
                    "BadProducer",
                    f"the copies of the pipeline need {need.name}, which only its consumers run; "
                    "move it out of the tile loop or write the roles out",
                    need,
                )
        clone_into(needed, self.values, emit)

    def load(self, emit: Emit) -> None:
        """The early copies, and the pipelines'."""
        visit = self.flow.counts.visit(emit, self.values)
        for ring in dict.fromkeys(self.flow.early.values()):
            emit.op(tile.RingAcquireOp(ring, visit))
        for copy in self.place.early:
            copied = Emit()
            clone_into([copy], self.values, copied)
            slot = self.flow.early_slot(self.flow.early[copy.target], visit, emit)
            if slot is not None:
                (whole,) = copied.ops
                assert isinstance(whole, tile.CopyOp)
                copied.ops = [whole.like(slot=slot)]
                whole.erase()
            visits = dict.fromkeys(self.flow.early.values(), visit)
            signalled(copied.ops, self.flow.early, visits, emit)
        for number, (op, loading) in enumerate(zip(self.place.ops, self.loading, strict=True)):
            self.walk_over(number, op, loading, emit)

    def walk_over(
        self, number: int, op: tile.PipelineOp, loading: list[Operation], emit: Emit
    ) -> None:
        """The copies of pipeline ``number``."""
        numbers = self.flow.numbers(number, emit, self.values)

        def step(loop: Emit, i: SSAValue) -> None:
            now = numbers(loop, i)
            copied = Emit()
            clone_iteration(op, loading, i, copied, self.flow.of_tiles(now), self.values)
            self.produce(loop, copied.ops, now)

        count = self.flow.counts.counts[number]
        bound = self.values.get(count, count)
        if any(_is_taken(inner) for inner in op.body.walk()):
            # Of a known count the places of all copies would be kept beside what the consumers
            # hold: there are no registers for both.
            bound = emit.value(hw.OpaqueOp(bound))
        emit.loop(bound, step, hint="i")

    def produce(
        self, emit: Emit, copied: Sequence[Operation], numbers: Mapping[SSAValue, SSAValue]
    ) -> None:
        """The copies of an iteration, each ring acquired before its first."""
        first = next(iter(numbers))
        emit.op(tile.RingAcquireOp(first, numbers[first]))
        acquired = {first}
        for new in copied:
            for copy in [o for o in new.walk() if isinstance(o, tile.CopyOp)]:
                ring = self.flow.rings[copy.target]
                if ring not in acquired:
                    acquired.add(ring)
                    emit.op(tile.RingAcquireOp(ring, numbers[ring]))
            signalled([new], self.flow.rings, numbers, emit)


def slots_of(held: SSAValue) -> int:
    """The slots of a tile that is filled before the pipelines, if nothing names one of them."""
    kind = held.type
    assert isinstance(kind, SharedType)
    named = any(
        use.operation.slot is not None
        if isinstance(use.operation, tile.CopyOp)
        else not isinstance(use.operation, tile.ContractOp)
        or use.operation.lhs is not held
        or use.operation.lhs_slot is not None
        for use in held.uses
    )
    return 1 if named else kind.ring.data


def signalled(
    ops: Sequence[Operation],
    rings: Mapping[SSAValue, SSAValue],
    numbers: Mapping[SSAValue, SSAValue],
    emit: Emit,
) -> None:
    """Append ops with their copies signalling the rings of their tiles."""
    for new in ops:
        if isinstance(new, tile.CopyOp):
            signal = tile.CopySignal(rings[new.target], numbers[rings[new.target]])
            emit.op(new.like(signal=signal))
            new.erase()
            continue
        emit.op(new)
        for copy in [o for o in new.walk() if isinstance(o, tile.CopyOp)]:
            signal = tile.CopySignal(rings[copy.target], numbers[rings[copy.target]])
            Rewriter.replace_op(copy, copy.like(signal=signal))


@dataclass
class Turns:
    """Consumers that take turns: each has every ``count``-th tile of the CTA.

    They issue their contracts one after another, in the ``order``, so that one's epilogue runs
    beside another's.  ``number`` says which consumer it is.
    """

    order: SSAValue
    count: int
    block: Block = field(default_factory=lambda: Block(arg_types=[INDEX]))

    @property
    def number(self) -> SSAValue:
        return self.block.args[0]

    def shared_out(self, tiles: tile.TileLoopOp, rewriter: PatternRewriter) -> tile.TileLoopOp:
        """The loop over a consumer's own tiles; each has a slot of the shared tiles that it fills.

        Raises PolycError ``TileShared`` where something else than copies uses one of these.
        """
        copies = [op for op in tiles.body.block.ops if isinstance(op, tile.CopyOp)]
        filled = dict.fromkeys(c.target for c in copies if isinstance(c.target.type, SharedType))
        for held in filled:
            kind = held.type
            assert isinstance(kind, SharedType)
            for use in held.uses:
                if use.operation not in copies or kind.ring.data != 1:
                    raise PolycError(
                        "TileShared",
                        f"{use.operation.name} uses a tile of which each consumer needs one; with "
                        "pingpong only copies of a tile can",
                        use.operation,
                    )
            ring = kind.like(ring=self.count)
            new = rewriter.replace_value_with_new_type(held, ring)
            for copy in [op for op in tiles.body.block.ops if isinstance(op, tile.CopyOp)]:
                if copy.target is new:
                    Rewriter.replace_op(copy, copy.like(slot=self.number))
                elif copy.source is new:
                    Rewriter.replace_op(copy, copy.like(source_slot=self.number))
        body = tiles.detach_region(tiles.body)
        made = tiles.like(body, share=(self.number, self.count))
        return located(made, tiles)

    def body(self, ops: Sequence[Operation]) -> Region:
        """What each of them does."""
        self.number.name_hint = "w"
        self.block.add_ops([*ops, tile.YieldOp()])
        return Region(self.block)


def settle_before(iteration: Sequence[Operation], emit: Emit) -> None:
    """Wait until of an iteration's contracts at most the last one is pending.

    Where the last one is guarded and skipped, nothing is: the wait then stands in the guards.  Of
    one that may run any number of times, nobody knows how many are pending, and none stays.

    Nor does one of 16 bits whose rows the iteration takes to registers: NVRTC 13.0 took the wait
    for one less as one for all of its sums, and moved that behind most of their stores, so that
    tiles of 64x192 and more were wrong on an H100 (3072 channels of 7² pixels to 768, 32 images).
    13.5 does not, nor either with rows of f32, or that lie in shared memory
    (``test/support/machine_code.py`` finds it).
    """
    contracts = [c for o in iteration for c in o.walk() if isinstance(c, tile.ContractOp)]
    last = contracts[-1]
    if any(_takes_short(o, last) for one in iteration for o in one.walk()):
        emit.op(tile.AwaitOp(0))
        return
    guards = guards_of(last)
    whole = guards[-1] if guards else last
    if whole not in iteration or any(guard.false_region.blocks for guard in guards):
        emit.op(tile.AwaitOp(0))
        return
    if not guards:
        emit.op(tile.AwaitOp(1))
        return
    block = last.parent_block()
    assert block is not None
    block.insert_op_after(tile.AwaitOp(1), last)
    for guard in guards:
        guard.false_region.add_block(Block([tile.AwaitOp(0), scf.YieldOp()]))


def _is_taken(op: Operation) -> bool:
    """Whether an op takes a tile to registers."""
    return isinstance(op, tile.CopyOp) and isinstance(op.target.type, FragmentType)


def _takes_short(op: Operation, contract: tile.ContractOp) -> bool:
    """Whether an op takes the rows of a contract, of 16 bits, to registers as they are."""
    if not isinstance(op, tile.CopyOp) or op.target is not contract.lhs:
        return False
    kind = op.target.type
    return isinstance(kind, FragmentType) and element_bytes(kind.element_type) == OPERAND_BYTES
