"""Which rings carry pipelines' tiles to their consumers, and how long these hold each slot (T2).

Contracts of an iteration may wait for one another: attention's second product reads weights that
come from its first.  Their tiles then have a ring each, so that the first's slot is free while the
second still waits.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.ir import Operation, SSAValue

from polyc.dialects.gpu import tile
from polyc.dialects.gpu.types import FragmentType
from polyc.passes.support.gpu.pipeline_parts import copies_of
from polyc.passes.support.gpu.tile_effects import fragments_of, writes
from polyc.rewriting.driver import located
from polyc.rewriting.emit import Emit


def depths(ops: Sequence[Operation]) -> dict[tile.ContractOp, int]:
    """Of each contract in ``ops``, how many of the others before it it waits for, in a chain.

    One waits for another where it reads, on its left, a fragment that comes from its sums.
    """
    found: dict[tile.ContractOp, int] = {}
    comes: dict[SSAValue, int] = {}
    """How many contracts, in a chain, a fragment comes from."""
    for op in (inner for outer in ops for inner in outer.walk()):
        if isinstance(op, tile.ContractOp):
            found[op] = comes.get(op.lhs, 0)
            comes[op.acc] = max(comes.get(op.acc, 0), found[op] + 1)
            continue
        level = max((comes.get(value, 0) for value in fragments_of(op)), default=0)
        for value in writes(op):
            comes[value] = max(comes.get(value, 0), level)
    return found


def is_chained(ops: Sequence[Operation]) -> bool:
    """Whether a contract in ``ops`` waits for another one."""
    return any(depths(ops).values())


def ring_groups(ops: Sequence[tile.PipelineOp]) -> list[list[SSAValue]]:
    """The tiles that pipelines fill by the rings that carry them.

    One ring carries what is filled by the same pipelines, and in each read at the same depths.
    """
    keys: dict[SSAValue, list[Hashable]] = {}
    for number, op in enumerate(ops):
        known = depths([op])
        for held in dict.fromkeys(copy.target for copy in copies_of(op)):
            users = {use.operation for use in held.uses}
            readers = [user for user in users if op.is_ancestor(user) and not _fills(user, held)]
            key = frozenset(
                known.get(r, r) if isinstance(r, tile.ContractOp) else r for r in readers
            )
            keys.setdefault(held, []).append((number, key if any(known.values()) else None))
    groups: dict[Hashable, list[SSAValue]] = {}
    for held, key in keys.items():
        groups.setdefault(tuple(key), []).append(held)
    return list(groups.values())


def _fills(op: Operation, held: SSAValue) -> bool:
    return isinstance(op, tile.CopyOp) and op.target is held


@dataclass
class ChainedStep:
    """The consumers' part of an iteration whose contracts wait for one another.

    Each is awaited where its sums are read, or its left operand is written, and the slots that it
    read are then released.  ``rings`` says which ring carries a tile.
    """

    rings: Mapping[SSAValue, SSAValue]
    numbers: Mapping[SSAValue, SSAValue]
    """The iteration that each ring counts."""
    emit: Emit
    pending: list[tile.ContractOp] = field(default_factory=list[tile.ContractOp])
    held: dict[SSAValue, list[Operation]] = field(default_factory=dict[SSAValue, list[Operation]])
    """The ops that still have to read a ring's slot."""

    def run(self, ops: Sequence[Operation]) -> None:
        """Append an iteration's ops, with the flow between them."""
        waited: set[SSAValue] = set()
        for op in ops:
            for ring in self.rings_of(op):
                self.held.setdefault(ring, []).append(op)
        for op in ops:
            self.settle(op)
            for ring in self.rings_of(op):
                if ring not in waited:
                    waited.add(ring)
                    self.emit.op(tile.RingWaitOp(ring, self.numbers[ring]))
            if isinstance(op, tile.ContractOp):
                self.issue(op)
                continue
            self.emit.op(op)
            for inner in [o for o in op.walk() if isinstance(o, tile.ContractOp)]:
                await_at_once(inner)
            self.has_read(op)
        self.settle(None)

    def issue(self, op: tile.ContractOp) -> None:
        """Begin a contract; what it read is released when it has been awaited."""
        begun = op.like(token=True)
        self.emit.op(begun)
        self.pending.append(begun)
        for readers in self.held.values():
            readers[:] = [begun if reader is op else reader for reader in readers]
        op.erase()

    def settle(self, op: Operation | None) -> None:
        """Await the contracts that ``op`` has to come after; all of them for None."""
        last = max((i for i, c in enumerate(self.pending) if _comes_after(op, c)), default=-1)
        finished = self.pending[: last + 1]
        if not finished:
            return
        del self.pending[: last + 1]
        tokens = [c.token for c in finished if c.token is not None]
        self.emit.op(tile.AwaitOp(tokens=tokens))
        for contract in finished:
            self.has_read(contract)

    def has_read(self, op: Operation) -> None:
        """Release the slots that ``op`` was the last to read."""
        for ring, readers in self.held.items():
            if op in readers:
                readers.remove(op)
                if not readers:
                    self.emit.op(tile.RingReleaseOp(ring, self.numbers[ring]))

    def rings_of(self, op: Operation) -> list[SSAValue]:
        used = (value for inner in op.walk() for value in inner.operands)
        return list(dict.fromkeys(self.rings[value] for value in used if value in self.rings))


def _comes_after(op: Operation | None, contract: tile.ContractOp) -> bool:
    """Whether an op needs what a contract gives, or changes what it reads."""
    if op is None:
        return True
    if isinstance(op, tile.ContractOp):
        return op.lhs is contract.acc
    touched = {value for inner in op.walk() for value in fragments_of(inner)}
    changed = {value for inner in op.walk() for value in writes(inner)}
    return contract.acc in touched or bool({contract.lhs, contract.rhs} & changed)


def await_at_once(op: tile.ContractOp) -> None:
    """Let a contract that stands in a branch be complete where the branch ends."""
    begun = located(op.like(token=True), op)
    block = op.parent_block()
    assert block is not None and begun.token is not None
    block.insert_ops_before([begun, tile.AwaitOp(tokens=[begun.token])], op)
    op.detach()
    op.erase()


def computed_operands(part: Sequence[Operation]) -> list[SSAValue]:
    """The fragments that contracts of an iteration read in registers and that it writes itself."""
    contracts = [c for o in part for c in o.walk() if isinstance(c, tile.ContractOp)]
    held = dict.fromkeys(c.lhs for c in contracts if isinstance(c.lhs.type, FragmentType))
    return [
        value
        for value in held
        if any(use.operation not in contracts for use in value.uses if _is_in(use.operation, part))
    ]


def _is_in(op: Operation, part: Sequence[Operation]) -> bool:
    return any(one.is_ancestor(op) for one in part)
