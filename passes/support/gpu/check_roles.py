"""Shared tiles between roles: no barrier joins these, so that an author says what carries the flow.

Roles run at the same time.  A tile that one fills and another one reads goes by a ring, by
mbarriers or by named barriers of both; ``gpu-insert-barriers`` can add none of these, and refuses
what has none.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.kernel import KernelOp
from polyc.dialects.gpu.types import SharedType
from polyc.passes.support.gpu.index_forms import (
    Forms,
    at_least,
    defined_in,
    equal,
    possible,
    value_of,
)
from polyc.passes.support.gpu.loop_steps import Loop
from polyc.passes.support.gpu.scope import in_loop, scope_of
from polyc.passes.support.gpu.shared_accesses import Access, accesses
from polyc.passes.support.gpu.uniform import around


def check_roles(kernel: KernelOp) -> None:
    """Refuse tiles that roles, or independent consumers, use with nothing between them.

    Raises PolycError ``RolesUnordered``.
    """
    for roles in [op for op in kernel.walk() if isinstance(op, tile.RolesOp)]:
        sides = [Role.of(side) for side in (roles.producer, roles.consumer)]
        for one, other in (sides, sides[::-1]):
            for write in one.touches:
                for access in other.touches:
                    if write.by_hand and access.by_hand:
                        continue  # Its author orders code on addresses.
                    if write.writes and write.tile is access.tile:
                        _check_pair(one, write, other, access)
        if roles.independent is not None and roles.consumers.value.data > 1:
            _check_consumers(roles, sides[1].touches)


@dataclass(frozen=True)
class Role:
    """What a role does to shared tiles, and the barriers, mbarriers and rings that its threads (or
    their copies) arrive at and wait at, each with the op."""

    touches: list[Access]
    arrivals: list[tuple[Operation, Hashable]]
    waits: list[tuple[Operation, Hashable]]

    @staticmethod
    def of(side: Region) -> Role:
        ops = list(side.walk())
        touches = [access for op in ops for access in accesses(op)]
        return Role(touches, list(arrivals(ops)), list(waits(ops)))


def _check_pair(one: Role, write: Access, other: Role, access: Access) -> None:
    """``write`` in one role and ``access`` in the other are ordered by something."""
    there = flows(one, write.op, other, access.op, write.signal)
    back = flows(other, access.op, one, write.op)
    again = in_loop(write.op) or in_loop(access.op)
    if (there and back) if again else (there or back):
        return
    way = "filled again while it is used" if there else "used before it is filled"
    raise PolycError(
        "RolesUnordered",
        f"{access.op.name} of one role uses {named(write)} and {write.op.name} of the other fills "
        "it, and no wait of the one is for an arrival of the other in between, so that the tile "
        f"may be {way}; roles run at the same time: let a gpu.ring carry the tile",
        access.op,
    )


def flows(
    one: Role, first: Operation, other: Role, then: Operation, signal: SSAValue | None = None
) -> bool:
    """Whether something that a role arrives at after ``first`` is waited for before ``then``.

    In a loop, after is before in the next iteration.  A load's bytes arrive at its ``signal``.
    """
    came = (
        {signal}
        if signal is not None
        else {what for op, what in one.arrivals if op is first or follows(first, op)}
    )
    return any(what in came and follows(op, then) for op, what in other.waits)


def follows(first: Operation, then: Operation) -> bool:
    """Whether ``then`` comes after ``first`` in the text of a role, or in a loop around both."""
    around_then = [then, *around(then)]
    for outer in (first, *around(first)):
        block = outer.parent_block()
        assert block is not None
        inner = block.find_ancestor_op_in_block(then)
        if inner is not None:
            looped = any(isinstance(o, Loop) and o in around_then for o in around(outer))
            return looped or (outer is not inner and outer.is_before_in_block(inner))
    return False


def arrivals(ops: Iterable[Operation]) -> Iterator[tuple[Operation, Hashable]]:
    """What threads that run ``ops`` arrive at, or their copies do."""
    for op in ops:
        match op:
            case tile.CopyOp() if op.signal is not None:
                yield op, op.signal
            case tile.RingReleaseOp() | tile.RingAcquireOp():
                yield op, op.ring
            case (
                hw.MBarrierArriveOp()
                | hw.MBarrierArriveClusterOp()
                | hw.MBarrierExpectOp()
                | hw.TmaLoadOp()
                | hw.TmaLoadIm2colOp()
            ):
                yield op, op.barrier
            case hw.NamedBarrierArriveOp():
                yield op, op.id.value.data
            case hw.NamedBarrierOp() if op.threads.value.data > scope_of(op).threads:
                yield op, op.id.value.data
            case _:
                pass


def waits(ops: Iterable[Operation]) -> Iterator[tuple[Operation, Hashable]]:
    """What threads that run ``ops`` wait at."""
    for op in ops:
        match op:
            case tile.RingWaitOp() | tile.RingAcquireOp():
                yield op, op.ring
            case hw.MBarrierWaitOp():
                yield op, op.barrier
            case hw.NamedBarrierOp() if op.threads.value.data > scope_of(op).threads:
                yield op, op.id.value.data
            case _:
                pass


def _check_consumers(roles: tile.RolesOp, made: Sequence[Access]) -> None:
    """Independent consumers that use one tile have slots of their own, or take turns."""
    for write in made:
        if not write.writes or write.by_hand or write.how == "tma":
            continue
        for access in made:
            if access.tile is write.tile and not access.by_hand and meet(roles, write, access):
                if in_turn(write.op) and in_turn(access.op):
                    continue
                raise PolycError(
                    "RolesUnordered",
                    f"each of {roles.consumers.value.data} independent consumers fills "
                    f"{named(write)} by {write.op.name}, which the others use at the same time; "
                    "make the tile a ring and give each its own slot, or let them take turns",
                    write.op,
                )


def meet(roles: tile.RolesOp, one: Access, other: Access) -> bool:
    """Whether two consumers may touch one slot of a tile."""
    assert isinstance(one.tile.type, SharedType)
    if one.tile.type.ring.data == 1 or one.slot is None or other.slot is None:
        return True
    forms = Forms()
    number = roles.consumer.block.args[0]
    mine, theirs = forms.leaf(number), forms.leaf(("another", number))
    slots = forms.of(one.slot), forms.of(other.slot)
    names: list[AffineExpr] = []
    for position, key in enumerate(list(forms.leaves)):
        names.append(AffineDimExpr(position))
        value = value_of(key)
        if value is not None and (value is number or defined_in(value, roles)):
            names[-1] = forms.leaf(("another", value))
    last = roles.consumers.value.data - 1
    bounds = [at_least(n) for n in (mine, theirs)] + [at_least(-n, -last) for n in (mine, theirs)]
    return any(
        possible([*bounds, equal(a.expr, b.expr.replace_dims_and_symbols(names, [])), apart])
        for a in slots[0]
        for b in slots[1]
        for apart in (at_least(mine - theirs, 1), at_least(theirs - mine, 1))
    )


def in_turn(op: Operation) -> bool:
    """Whether an op stands between the beginning and the end of a consumer's turn."""
    current: Operation | None = op
    while current is not None and not isinstance(current, tile.RolesOp):
        block = current.parent
        assert isinstance(block, Block)
        before = [o for o in block.ops if o.is_before_in_block(current)]
        after = [o for o in block.ops if current.is_before_in_block(o)]
        if any(_begins(o) for o in before) and any(_ends(o) for o in after):
            return True
        current = current.parent_op()
    return False


def _begins(op: Operation) -> bool:
    if isinstance(op, hw.NamedBarrierOp):
        return op.threads.value.data > scope_of(op).threads
    return isinstance(op, tile.OrderEnterOp)


def _ends(op: Operation) -> bool:
    return isinstance(op, hw.NamedBarrierArriveOp | tile.OrderLeaveOp)


def named(access: Access) -> str:
    hint = access.tile.name_hint
    return f"%{hint}" if hint else "a shared tile"
