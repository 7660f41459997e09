"""Loops, conditions, roles and tile loops: the ``with`` statements of a kernel."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, Generic, TypeVar

from xdsl.dialects import scf
from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import Block, Operation, SSAValue

from polyc.dialects.gpu import tile
from polyc.dialects.gpu.loops import mark_unrolled
from polyc.tile.indices import Index, IndexLike, leaf, ssa_index
from polyc.tile.scalars import Scalar, constant_of, truth
from polyc.tile.source import here, public, refuse, targets
from polyc.tile.tiles import Order, unwrapped, wrapped
from polyc.tile.trace import (
    INDEX,
    ROLES,
    Scope,
    check_innermost,
    close_scope,
    insert,
    kernel_trace,
    named,
    open_scope,
    region_of,
)

R = TypeVar("R")


class Region(ABC, Generic[R]):
    """A ``with`` whose body becomes a region of one op.

    A ``for`` does the same: ``for k, i in T.pipelined(K, step=64):`` traces its body once.
    """

    kind = "region"

    def __init__(self) -> None:
        kernel_trace()
        self.location: LocationAttr = here()
        self.scope: Scope | None = None

    @abstractmethod
    def open(self) -> tuple[Block, R]:
        """The block of the body, and what the body sees."""

    @abstractmethod
    def close(self, block: Block) -> None:
        """End the body and append the op."""

    @public
    def __enter__(self) -> R:
        if self.scope is not None:
            refuse("UsedTwice", "this `with` was traced already; make another one")
        block, seen = self.open()
        named(block.args, targets())
        self.scope = open_scope(block, self.kind, self)
        return seen

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._exit(error)

    @public
    def _exit(self, error: BaseException | None) -> None:
        scope = self.scope
        assert scope is not None
        try:
            if error is None:
                check_innermost(scope)
                self.end(scope)
        finally:
            close_scope(scope)
        if error is None:
            self.close(scope.block)

    def end(self, scope: Scope) -> None:
        """Append the body's last op while the region is open."""

    def __iter__(self) -> Iterator[R]:
        yield self.__enter__()
        self._exit(None)


def _carried(given: object) -> SSAValue:
    """A value that leaves or enters a region; numbers become constants."""
    return constant_of(given) if isinstance(given, int | float) else unwrapped(given)


# Loops ---------------------------------------------------------------------------------


class Carrying(Region[Any]):
    """A loop that may carry values from one iteration to the next."""

    def __init__(self, carried: Sequence[object]) -> None:
        super().__init__()
        self.start = [_carried(v) for v in carried]
        self.next: list[SSAValue] | None = None
        self.carried_out: Sequence[SSAValue] | None = None

    @public
    def carry(self, *values: object) -> None:
        """What the next iteration, or the code after the loop, sees of the carried values."""
        if len(values) != len(self.start):
            refuse("WrongCarry", f"the loop carries {len(self.start)} values, not {len(values)}")
        if self.next is not None:
            refuse("WrongCarry", "the loop's values are carried once, at the end of its body")
        found: list[SSAValue] = []
        for given, start in zip(values, self.start, strict=True):
            value = _carried(given)
            if value.type != start.type:
                refuse("WrongCarry", f"a carried {start.type} does not become a {value.type}")
            found.append(value)
        self.next = found

    def end(self, scope: Scope) -> None:
        if self.start and self.next is None:
            refuse(
                "WrongCarry",
                "the body of a loop with carried values says what they become: loop.carry(…)",
                self.location,
            )
        if self.start or self.always_ends:
            insert(self.terminator(self.next or ()), self.location)

    always_ends = False
    """Whether the body has its last op also where nothing is carried."""

    @abstractmethod
    def terminator(self, values: Sequence[SSAValue]) -> Operation:
        """The last op of the body."""

    @property
    def results(self) -> tuple[Any, ...]:
        """The carried values after the loop."""
        if self.carried_out is None:
            refuse("OutOfScope", "a loop has results when its body is over")
        named(self.carried_out, targets())
        return tuple(wrapped(v) for v in self.carried_out)


class Serial(Carrying):
    """A loop whose iterations run one after another (``scf.for``)."""

    kind = "loop"
    always_ends = True

    def __init__(
        self,
        start: IndexLike,
        stop: IndexLike,
        step: IndexLike,
        carried: Sequence[object],
        unroll: bool,
    ) -> None:
        super().__init__(carried)
        self.bounds = [ssa_index(start), ssa_index(stop), ssa_index(step)]
        self.unroll = unroll

    def open(self) -> tuple[Block, Any]:
        block = Block(arg_types=[INDEX, *(v.type for v in self.start)])
        first, *rest = block.args
        if not rest:
            return block, leaf(first)
        return block, (leaf(first), *(wrapped(v) for v in rest))

    def terminator(self, values: Sequence[SSAValue]) -> Operation:
        return scf.YieldOp(*values)

    def close(self, block: Block) -> None:
        low, high, step = self.bounds
        made = insert(scf.ForOp(low, high, step, self.start, region_of(block)), self.location)
        self.carried_out = made.results
        if self.unroll:
            mark_unrolled(made)


@public
def serial(
    start: IndexLike,
    stop: IndexLike | None = None,
    step: IndexLike = 1,
    *,
    carried: Sequence[object] = (),
    unroll: bool = False,
) -> Serial:
    """A loop from ``start`` to ``stop``, or from 0 to ``start``.

    ``with T.serial(n) as i:``.  With ``carried`` the body also sees the carried values:
    ``loop = T.serial(n, carried=[x])``, ``with loop as (i, x):``, in it ``loop.carry(next)``, and
    after it ``(x,) = loop.results``.
    """
    if stop is None:
        return Serial(0, start, step, carried, unroll)
    return Serial(start, stop, step, carried, unroll)


class Pipelined(Region[tuple[Index, Index]]):
    """A loop whose copies run ahead of its contracts (``gpu.pipeline``)."""

    kind = "pipeline"

    def __init__(self, bound: IndexLike, step: int, stages: int) -> None:
        super().__init__()
        self.bound = ssa_index(bound)
        self.step, self.stages = step, stages

    def open(self) -> tuple[Block, tuple[Index, Index]]:
        block = Block(arg_types=[INDEX, INDEX])
        return block, (leaf(block.args[0]), leaf(block.args[1]))

    def close(self, block: Block) -> None:
        insert(tile.PipelineOp(self.bound, self.step, self.stages, region_of(block)), self.location)


@public
def pipelined(bound: IndexLike, *, step: int = 1, stages: int = 2) -> Pipelined:
    """A loop from 0 to ``bound`` by ``step``; the body sees the position and the iteration.

    Its copies run up to ``stages - 1`` iterations ahead of its contracts.
    """
    return Pipelined(bound, step, stages)


class TileLoop(Carrying):
    """A loop over the output tiles of a CTA (``gpu.tile_loop``)."""

    kind = "tile loop"

    def __init__(
        self,
        sizes: Sequence[IndexLike],
        tile_sizes: Sequence[int],
        raster: str,
        group: int,
        backwards: bool,
        share: tuple[IndexLike, int] | None,
        pingpong: bool,
        carried: Sequence[object],
    ) -> None:
        super().__init__(carried)
        self.sizes = [ssa_index(s) for s in sizes]
        self.tile_sizes = tuple(tile_sizes)
        self.raster, self.group, self.backwards = raster, group, backwards
        self.share = None if share is None else ssa_index(share[0])
        self.shares = None if share is None else share[1]
        self.pingpong = pingpong

    def open(self) -> tuple[Block, Any]:
        places = [INDEX] * (len(self.sizes) + 1)
        block = Block(arg_types=[*places, *(v.type for v in self.start)])
        seen = [leaf(v) for v in block.args[: len(places)]]
        return block, (*seen, *(wrapped(v) for v in block.args[len(places) :]))

    def terminator(self, values: Sequence[SSAValue]) -> Operation:
        return tile.YieldOp(values)

    def close(self, block: Block) -> None:
        made = tile.TileLoopOp(
            self.sizes,
            self.tile_sizes,
            region_of(block),
            self.raster,
            self.group,
            self.backwards,
            self.share,
            self.shares,
            self.pingpong,
            self.start,
        )
        self.carried_out = insert(made, self.location).results


@public
def tile_loop(
    sizes: Sequence[IndexLike],
    *,
    tile: Sequence[int],
    raster: str = "grouped",
    group: int = 8,
    reversed: bool = False,
    share: tuple[IndexLike, int] | None = None,
    pingpong: bool = False,
    carried: Sequence[object] = (),
) -> TileLoop:
    """The output tiles of this CTA, in a persistent kernel.

    The body sees a tile's first coordinates and its ordinal in this CTA.  ``share=(w, 2)`` runs it
    only for the ordinals that are ``w`` modulo 2.  With ``pingpong`` the consumers of a pipeline in
    it have tiles of their own, in turn.  ``carried`` are numbers that go on from tile to tile: the
    body sees them behind the ordinal, and says by ``loop.carry(…)`` what the next tile sees; after
    it ``loop.results`` has them (``serial``).
    """
    return TileLoop(sizes, tile, raster, group, reversed, share, pingpong, carried)


# Conditions ----------------------------------------------------------------------------


class _Branch(Region[None]):
    kind = "branch"

    def __init__(self, of: When, place: int) -> None:
        super().__init__()
        self.of, self.place = of, place

    def open(self) -> tuple[Block, None]:
        return Block(), None

    def end(self, scope: Scope) -> None:
        values = self.of.given[self.place]
        insert(scf.YieldOp(*values), self.location)

    def close(self, block: Block) -> None:
        self.of.closed(self.place, block)


class When(_Branch):
    """What runs where a condition holds (``scf.if``)."""

    def __init__(self, condition: Scalar) -> None:
        self.given: list[tuple[SSAValue, ...]] = [(), ()]
        self.blocks: list[Block | None] = [None, None]
        self.op: scf.IfOp | None = None
        super().__init__(self, 0)
        self.condition = truth(condition)

    @public
    def give(self, *values: object) -> None:
        """The values that this branch ends with; both branches give as many, of the same types."""
        place = 0 if self.blocks[0] is None else 1
        self.given[place] = tuple(map(_carried, values))

    @public
    def otherwise(self) -> _Branch:
        """``with choice.otherwise():`` what runs where the condition does not hold."""
        if self.blocks[0] is None or self.blocks[1] is not None:
            refuse("UsedTwice", "a condition has one branch where it holds and then another one")
        return _Branch(self, 1)

    def closed(self, place: int, block: Block) -> None:
        self.blocks[place] = block
        types = [v.type for v in self.given[0]]
        if place == 0 and not types:
            self.op = insert(scf.IfOp(self.condition, [], region_of(block)), self.location)
        elif place == 1:
            if [v.type for v in self.given[1]] != types:
                refuse(
                    "WrongCarry",
                    f"the branches give {len(types)} and {len(self.given[1])} values, or of "
                    "different types",
                )
            if self.op is not None:
                self.op.false_region.add_block(block)
                return
            first = self.blocks[0]
            assert first is not None
            self.op = insert(
                scf.IfOp(self.condition, types, region_of(first), region_of(block)), self.location
            )

    @property
    def results(self) -> tuple[Any, ...]:
        """The values that the branch gave which ran."""
        if self.op is None:
            refuse("OutOfScope", "a condition has results when both of its branches are over")
        named(self.op.results, targets())
        return tuple(wrapped(v) for v in self.op.results)


@public
def when(condition: Scalar) -> When:
    """``with T.when(i < n):``; ``with choice.otherwise():`` for the other case."""
    return When(condition)


# Roles ---------------------------------------------------------------------------------


class Roles(Region["Roles"]):
    """The CTA's warpgroups take roles (``gpu.roles``)."""

    kind = ROLES

    def __init__(
        self, consumers: int, registers: Sequence[int], single_thread: bool, independent: bool
    ) -> None:
        super().__init__()
        self.consumers, self.registers = consumers, tuple(registers)
        self.single_thread, self.independent = single_thread, independent
        self.bodies: dict[str, Block] = {}

    def open(self) -> tuple[Block, Roles]:
        return Block(), self

    @public
    def producer(self) -> _Role:
        """``with roles.producer():`` what the last warpgroup does."""
        return _Role(self, "producer")

    @public
    def consumer(self) -> _Role:
        """``with roles.consumer() as w:`` what the others do; ``w`` numbers independent ones."""
        return _Role(self, "consumer")

    def close(self, block: Block) -> None:
        if missing := [word for word in ("producer", "consumer") if word not in self.bodies]:
            refuse("NoRole", f"T.roles has no {missing[0]}: `with roles.{missing[0]}():`")
        insert(
            tile.RolesOp(
                self.consumers,
                self.registers,
                region_of(self.bodies["producer"]),
                region_of(self.bodies["consumer"]),
                self.single_thread,
                self.independent,
            ),
            self.location,
        )


class _Role(Region[Any]):
    kind = "role"

    def __init__(self, roles: Roles, word: str) -> None:
        super().__init__()
        self.roles, self.word = roles, word
        if roles.scope is None or kernel_trace().scopes[-1] is not roles.scope:
            refuse("NoRole", "a role stands directly under its `with T.roles(…) as roles:`")
        if word in roles.bodies:
            refuse("UsedTwice", f"the {word} has its region already")

    def open(self) -> tuple[Block, Any]:
        numbered = self.word == "consumer" and self.roles.independent
        block = Block(arg_types=[INDEX] if numbered else [])
        return block, leaf(block.args[0]) if numbered else None

    def end(self, scope: Scope) -> None:
        insert(tile.YieldOp(), self.location)

    def close(self, block: Block) -> None:
        self.roles.bodies[self.word] = block


@public
def roles(
    *,
    consumers: int,
    registers: Sequence[int] = (0, 0),
    single_thread: bool = True,
    independent: bool = False,
) -> Roles:
    """``with T.roles(consumers=2, registers=(24, 240)) as roles:`` and in it its two roles.

    ``registers`` is the budget a thread of producer and consumer.  Consumers work together, or,
    ``independent``, each on its own.
    """
    return Roles(consumers, registers, single_thread, independent)


class Turn(Region[None]):
    """The turn of one participant of an order barrier."""

    def __init__(self, order: Order, number: IndexLike) -> None:
        super().__init__()
        self.order, self.number = order, number

    def open(self) -> tuple[Block, None]:
        raise AssertionError

    def close(self, block: Block) -> None:
        raise AssertionError

    @public
    def __enter__(self) -> None:
        self.order.enter(self.number)

    def _exit(self, error: BaseException | None) -> None:
        if error is None:
            self.order.leave(self.number)


@public
def turn(order: Order, number: IndexLike) -> Turn:
    """``with T.turn(order, w):`` enters the participant's turn, and leaves it at the end."""
    return Turn(order, number)
