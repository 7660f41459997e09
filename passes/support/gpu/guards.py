"""Ops of a pipeline's body that stand under conditions: guarded statements (T2).

A guard is an ``scf.if`` without results or another side around one statement.  ``gpu-bind-ifs``
makes guards of an author's branches; a guarded copy then has a stage of its own, as a bare one.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, Operation, SSAValue

from polyc.dialects.gpu import tile
from polyc.passes.support.gpu.uniform import is_scalar, same_value


def holds_tile_ops(op: Operation) -> bool:
    """Whether something in a branch is of all threads together."""
    return any(type(inner) in tile.TILE_OPS for inner in op.walk())


def acting(block: Block) -> list[Operation]:
    """The ops of a block that do more than compute values."""
    return [op for op in block.ops if not is_scalar(op)]


def statement(op: Operation) -> Operation:
    """What stands inside the guards that ``op`` is; ``op`` itself where it is none."""
    while isinstance(op, scf.IfOp) and not op.results and not op.false_region.blocks:
        inner = acting(op.true_region.block)
        if len(inner) != 1:
            break
        op = inner[0]
    return op


def guards_of(op: Operation, outermost: Operation | None = None) -> list[scf.IfOp]:
    """The branches around an op, the innermost first, up to ``outermost``."""
    found: list[scf.IfOp] = []
    parent = op.parent_op()
    while parent is not outermost and isinstance(parent, scf.IfOp):
        found.append(parent)
        parent = parent.parent_op()
    return found


def enclosing_pipeline(op: Operation) -> tile.PipelineOp | None:
    """The pipeline in whose body an op stands, bare or in branches."""
    guards = guards_of(op)
    parent = guards[-1].parent_op() if guards else op.parent_op()
    return parent if isinstance(parent, tile.PipelineOp) else None


def copies_into(op: tile.RingAcquireOp) -> tuple[list[tile.CopyOp], list[tile.CopyOp]]:
    """The copies into an acquired slot: those in the acquire's own block, and those in branches
    of it."""
    bare, guarded = list[tile.CopyOp](), list[tile.CopyOp]()
    for use in op.ring.uses:
        copy = use.operation
        if not isinstance(copy, tile.CopyOp) or copy.signal_index != op.iteration:
            continue
        if copy.parent_block() is op.parent_block():
            bare.append(copy)
        elif any(guard.parent_block() is op.parent_block() for guard in guards_of(copy)):
            guarded.append(copy)
    return bare, guarded


Literal = tuple[SSAValue, bool]
"""A condition, and whether it holds."""


def literals(op: Operation) -> list[Literal]:
    """What holds where an op of a pipeline's body runs: the conditions of its branches."""
    found: list[Literal] = []
    inner = op
    for guard in guards_of(op):
        region = inner.parent_region()
        found.append(_literal(guard.cond, region is guard.true_region))
        inner = guard
    return found


def _literal(condition: SSAValue, holds: bool) -> Literal:
    """A condition without negations in front."""
    while isinstance(owner := condition.owner, arith.XOrIOp):
        if not isinstance(owner.rhs.owner, arith.ConstantOp):
            break
        constant = owner.rhs.owner.value
        if not isinstance(constant, IntegerAttr) or not constant.value.data:
            break
        condition, holds = owner.lhs, not holds
    return condition, holds


def exclusive(one: Sequence[Literal], other: Sequence[Literal]) -> bool:
    """Whether two ops cannot run in the same iteration."""
    return any(a is not b and same_value(v, w) for v, a in one for w, b in other)


MOST_CASES = 512
"""Cases that are told apart, beyond which a tile is taken for not filled."""


def covers(fills: Sequence[Sequence[Literal]], reader: Sequence[Literal]) -> bool:
    """Whether, wherever ``reader`` holds, one of ``fills`` does.

    Conditions that are computed alike are one; any others may hold or not, whatever the rest do.
    Each case takes one condition more to hold or not, the first one of the shortest fill that is
    left: the parts of a chain of branches, each where those before it are not, take one a part.
    """
    atoms: list[SSAValue] = []

    def atom(value: SSAValue) -> int:
        for number, known in enumerate(atoms):
            if same_value(known, value):
                return number
        atoms.append(value)
        return len(atoms) - 1

    def numbered(given: Sequence[Literal]) -> dict[int, bool] | None:
        """The conditions of one by their numbers; None where it never runs."""
        found: dict[int, bool] = {}
        for value, holds in given:
            if found.setdefault(atom(value), holds) is not holds:
                return None
        return found

    def left(offered: list[dict[int, bool]], number: int, holds: bool) -> list[dict[int, bool]]:
        """What is left to ask of each fill that is possible where a condition holds, or not."""
        return [
            {other: which for other, which in fill.items() if other != number}
            for fill in offered
            if fill.get(number, holds) is holds
        ]

    wanted = numbered(reader)
    if wanted is None:
        return True
    offered = [known for fill in fills if (known := numbered(fill)) is not None]
    for number, holds in wanted.items():
        offered = left(offered, number, holds)
    cases = [offered]
    for _ in range(MOST_CASES):
        if not cases:
            return True
        offered = cases.pop()
        if not offered:
            return False
        if shortest := min(offered, key=len):
            number = next(iter(shortest))
            cases += [left(offered, number, holds) for holds in (False, True)]
    return not cases
