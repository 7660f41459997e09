"""``gpu-roll-maps``: what follows a sum in many instructions is a loop; registers move round in it.

A register's number is part of an instruction, so that a loop over an accumulator is unrolled whole.
With a function of some instructions for each of 128 elements its code is longer than what a
multiprocessor keeps of instructions, and warps wait for these: 10,700 of them take 113,000 cycles,
ten each, with two warps that are to hide it.  Here one part of the loop is code, and runs for every
part: after each the registers of the next take the places of those before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from xdsl.context import Context
from xdsl.dialects import affine, arith, math, memref, scf
from xdsl.dialects.builtin import MemRefType, ModuleOp, f32
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu.types import register_count
from polyc.passes.support.gpu.registers import OWN, places_of, room_of, turns
from polyc.passes.support.gpu.symbols import enclosing_kernel
from polyc.rewriting.driver import located, rewrite
from polyc.rewriting.emit import Emit, affine_dim, clone_into
from polyc.rewriting.equal_ops import drop_unused

FUNCTION = 14
"""Instructions of a function of one or two numbers, about: an exponential has 8, a tanh 18."""

LONGER: Mapping[type[Operation], int] = {
    arith.DivfOp: 26,
    math.Log1pOp: 25,
    math.SinOp: 24,
    math.CosOp: 24,
    math.TanOp: 110,
    math.PowFOp: 95,
    math.Atan2Op: 150,
    math.AcoshOp: 45,
    math.AsinhOp: 45,
    math.AtanhOp: 40,
    math.ErfOp: 16,
    hw.ErfcOp: 45,
    hw.FmodOp: 75,
}
"""Those of longer ones."""

LONG = 4096
"""Instructions of a loop from which on it is rolled: 64 KiB of code."""

SHORT = 2048
"""Of a part of it at most."""

LEAST = 8
"""Elements of a part: each moves as many registers as there are others, over so many."""

TURNS = (math.SinOp, math.CosOp)
"""Functions that are asked in pairs where a thread has few registers left
(``gpu-group-functions``): rolled too, pairs beside 128 sums spilled."""

LEFT = 40
"""Registers beside a thread's arrays from which on turns of several elements are rolled: 128 sums
beside so many took 25 us, and 43 as they were (logsigmoid, an H100)."""

_CHEAP = (math.AbsFOp, math.FmaOp, math.FloorOp, math.CeilOp, math.TruncOp, math.RoundEvenOp)


def instructions(op: Operation) -> int:
    """About how many instructions of a thread an op is."""
    if (longer := LONGER.get(type(op))) is not None:
        return longer
    return FUNCTION if op.name.startswith("math.") and not isinstance(op, _CHEAP) else 1


@dataclass
class Array:
    """An array of registers in a loop: the place of each access in each turn, and by how many
    places it moves after a part."""

    places: list[list[int]] = field(default_factory=list[list[int]])
    is_stored: bool = False
    moves: int = 0

    def moves_by(self, part: int, turns: int, size: int) -> int | None:
        """By how many places a part of ``part`` turns of ``turns`` is behind the one before; None
        where accesses differ, or the whole loop does not bring each register back."""
        found = {row[at + part] - row[at] for row in self.places for at in range(len(row) - part)}
        if len(found) != 1:
            return None
        (by,) = found
        return by if by == 0 or (by > 0 and by * (turns // part) == size) else None


class RollMap(RewritePattern):
    """A long unrolled loop over registers → a loop of parts, after each of which registers move.

    Legality: the loop goes from 0 by a constant step to a constant bound, and holds no other loop
    or condition.  Its arrays of registers have one axis, and are accessed where the loop's variable
    alone says; from one part to the next all accesses of an array move by the same number, or stay,
    and in the whole loop each register comes round to where it was.  What is stored takes the place
    of what is loaded, which nothing reads afterwards: it has its type, or rounds f32 at the end of
    its way.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: scf.ForOp, rewriter: PatternRewriter) -> None:
        roll = _Roll.of(op)
        if roll is None:
            return
        emit = Emit()
        roll.build(emit)
        rewriter.replace(op, located_all(emit.ops, op), [])
        for stored, source in roll.joined.items():
            if _kind(stored) == _kind(source):
                stored.replace_all_uses_with(source)


def located_all(ops: Sequence[Operation], like: Operation) -> list[Operation]:
    """Ops, which are where another is unless they say where they are."""
    for op in ops:
        located(op, like)
    return list(ops)


@dataclass
class _Roll:
    """A loop that is to be rolled."""

    op: scf.ForOp
    step: int
    turns: int
    arrays: dict[SSAValue, Array]
    joined: dict[SSAValue, SSAValue]
    part: int

    @staticmethod
    def of(op: scf.ForOp) -> _Roll | None:
        if (over := turns(op)) is None:
            return None
        body = [inner for inner in op.body.block.ops if not isinstance(inner, scf.YieldOp)]
        cost, many = sum(map(instructions, body)), len(over)
        if cost * many <= LONG:
            return None
        arrays = _arrays(op, body, over)
        if arrays is None or (joined := _joined(op, arrays)) is None:
            return None
        room = room_of(enclosing_kernel(op), body)
        if room < 0 and any(isinstance(inner, TURNS) for inner in body):
            return None
        for part in range(many // 2, 0, -1):
            if many % part or cost * part > SHORT:
                continue
            moves = {v: a.moves_by(part, many, _size(v)) for v, a in arrays.items()}
            moving = all(moves[source] for source in joined.values())
            # Turns of several elements each keep more in hand than what a full thread has left.
            several = moves.values() if room >= LEFT - OWN else ()
            enough = max((part * over.step, *(by or 0 for by in several))) >= LEAST
            if enough and moving and all(by is not None for by in moves.values()):
                for value, array in arrays.items():
                    array.moves = moves[value] or 0
                return _Roll(op, over.step, many, arrays, joined, part)
        return None

    def build(self, emit: Emit) -> None:
        """The loop of parts, and the roundings that are left to its end."""
        count = self.part * self.step
        emit.loop(
            self.turns // self.part, lambda outer, at: self.one(outer, at, count), hint="part"
        )
        for stored, source in self.joined.items():
            if _kind(stored) != _kind(source):
                self.rounded(emit, stored, source)

    def one(self, outer: Emit, at: SSAValue, count: int) -> None:
        """A part of the loop, and the moves after it."""

        def body(inner: Emit, turn: SSAValue) -> None:
            r = inner.apply(affine_dim(0) * count + affine_dim(1), [at, turn], hint="r")
            variable = self.op.body.block.args[0]
            own: dict[SSAValue, SSAValue] = {variable: turn}
            values: dict[SSAValue, SSAValue] = {variable: r}
            for op in self.op.body.block.ops:
                if isinstance(op, scf.YieldOp):
                    continue
                if not isinstance(op, memref.LoadOp | memref.StoreOp):
                    clone_into([op], values, inner)
                    continue
                index = _at(op.indices[0], dict(own), inner)
                if isinstance(op, memref.LoadOp):
                    values[op.res] = inner.value(memref.LoadOp.get(op.memref, [index]))
                else:
                    value = values.get(op.value, op.value)
                    self.store(inner, op.memref, value, index)

        outer.loop(count, body, step=self.step, unroll=True, hint="turn")
        for value, array in self.arrays.items():
            if array.moves and value not in self.joined:
                _move(outer, value, array.moves, _size(value))

    def store(self, emit: Emit, to: SSAValue, value: SSAValue, index: SSAValue) -> None:
        """What the loop stores, in the place of what it has loaded."""
        source = self.joined[to]
        if _kind(source) != _kind(to):
            cut = value.owner
            if isinstance(cut, arith.TruncFOp) and cut.operands[0].type == f32:
                value = cut.operands[0]
            else:
                value = emit.value(arith.ExtFOp(value, f32))
        emit.op(memref.StoreOp.get(value, source, [index]))

    def rounded(self, emit: Emit, stored: SSAValue, source: SSAValue) -> None:
        """Round what took the places of f32."""

        def body(inner: Emit, r: SSAValue) -> None:
            wide = inner.value(memref.LoadOp.get(source, [r]))
            cut = inner.value(arith.TruncFOp(wide, _kind(stored)))
            inner.op(memref.StoreOp.get(cut, stored, [r]))

        emit.loop(_size(stored), body, unroll=True, hint="r")


def _at(index: SSAValue, own: dict[SSAValue, SSAValue], emit: Emit) -> SSAValue:
    """An index where the loop's variable is what ``own`` says, which learns what it is made of."""
    if index not in own and isinstance(apply := index.owner, affine.ApplyOp):
        for value in apply.mapOperands:
            own[value] = _at(value, own, emit)
        clone_into([apply], own, emit)
    return own.get(index, index)


def _kind(value: SSAValue) -> Attribute:
    """The element type of an array of registers."""
    return cast("MemRefType[Attribute]", value.type).element_type


def _size(value: SSAValue) -> int:
    """Registers of an array."""
    count = register_count(value.type)
    assert count is not None
    return count


def _arrays(op: scf.ForOp, body: Sequence[Operation], turns: range) -> dict[SSAValue, Array] | None:
    """The arrays of registers that a loop accesses; None where it does so in other ways."""
    found: dict[SSAValue, Array] = {}
    for inner in body:
        if not any(isinstance(v.type, MemRefType) for v in inner.operands):
            continue
        if not isinstance(inner, memref.LoadOp | memref.StoreOp):
            return None
        if register_count(inner.memref.type) is None:
            return None
        row = places_of(inner.indices[0], op.body.block.args[0], turns)
        if row is None:
            return None
        array = found.setdefault(inner.memref, Array())
        array.places.append(row)
        array.is_stored |= isinstance(inner, memref.StoreOp)
    return found


def _joined(op: scf.ForOp, arrays: dict[SSAValue, Array]) -> dict[SSAValue, SSAValue] | None:
    """The array whose places each stored one takes; None where one finds none."""
    found: dict[SSAValue, SSAValue] = {}
    for stored, array in arrays.items():
        if not array.is_stored:
            continue
        every = {place for row in array.places for place in row}
        once = sum(map(len, array.places)) == len(every) == _size(stored)
        source = next(
            (
                value
                for value, other in arrays.items()
                if not other.is_stored
                and value not in found.values()
                and _takes(value, stored)
                and all(row in other.places for row in array.places)
                and _is_last_read(value, op)
            ),
            None,
        )
        if not once or source is None:
            return None
        found[stored] = source
    return found


def _takes(source: SSAValue, stored: SSAValue) -> bool:
    """Whether registers hold what others are for, or round it later."""
    kinds = _kind(source), _kind(stored)
    return _size(source) == _size(stored) and (kinds[0] == kinds[1] or kinds[0] == f32)


def _is_last_read(value: SSAValue, op: scf.ForOp) -> bool:
    """Whether nothing reads or writes an array of the loop's block after the loop."""
    block, owner = op.parent_block(), value.owner
    if isinstance(owner, Block) or owner.parent_block() is not block or block is None:
        return False
    users = {block.find_ancestor_op_in_block(use.operation) for use in value.uses}
    order = {inner: at for at, inner in enumerate(block.ops)}
    return all(user is not None and order[user] <= order[op] for user in users)


def _move(emit: Emit, array: SSAValue, by: int, size: int) -> None:
    """Bring the registers of the next part to the places of those before, and these behind all."""
    aside = emit.registers(by, _kind(array), "aside")

    def copy(start: int, source: SSAValue, first: int, target: SSAValue, count: int) -> None:
        def body(inner: Emit, r: SSAValue) -> None:
            index = inner.apply(affine_dim(0) + start, [r]) if start else r
            place = inner.apply(affine_dim(0) + first, [r]) if first else r
            value = inner.value(memref.LoadOp.get(source, [index]))
            inner.op(memref.StoreOp.get(value, target, [place]))

        emit.loop(count, body, unroll=True, hint="r")

    copy(0, array, 0, aside, by)
    copy(by, array, 0, array, size - by)
    copy(0, aside, size - by, array, by)


@dataclass(frozen=True)
class GpuRollMaps(ModulePass):
    """Roll loops over registers whose code would be too long."""

    name = "gpu-roll-maps"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [RollMap()])
        drop_unused(op.body)  # Roundings that are left to the end.
