"""The two halves of a pipeline's body: what loads, and what computes.

Both ways of running a pipeline, on roles and in one instruction stream, cut it here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects import scf
from xdsl.ir import Operation, SSAValue

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import tile
from polyc.passes.support.gpu.guards import acting, statement
from polyc.passes.support.gpu.layouts import accumulator
from polyc.rewriting.emit import Emit, affine_dim, ceil_div, clone_into


def iterations(op: tile.PipelineOp, emit: Emit) -> SSAValue:
    """How many times the body runs: ceil(bound / step)."""
    return emit.apply(ceil_div(affine_dim(0), op.step.value.data), [op.bound], hint="iterations")


def check_stages(op: tile.PipelineOp) -> None:
    """Refuse a pipeline whose copies have no slot to run ahead into.

    Raises PolycError ``PipelineTooShallow``.
    """
    if op.stages.value.data < 2:
        raise PolycError(
            "PipelineTooShallow",
            "a pipeline of 1 stage overwrites the tile that is being read; give it 2 to 8",
            op,
        )


def check_threads(op: tile.PipelineOp, computing: int) -> None:
    """Refuse a pipeline that more or fewer threads compute than its fragments are laid out for.

    ``computing`` is how many threads run the contracts.  Raises PolycError ``ThreadMismatch``.
    """
    for contract in op.body.walk():
        if not isinstance(contract, tile.ContractOp):
            continue
        try:
            holders = accumulator(contract).threads.data
        except ValueError:
            continue  # gpu-layout-inference refuses the tile.
        if holders != computing:
            raise PolycError(
                "ThreadMismatch",
                f"{holders} threads hold the accumulator and {computing} compute it; change the "
                "kernel's threads, the tile or the warp_tile",
                contract,
            )


def split(op: tile.PipelineOp) -> tuple[list[Operation], list[Operation]]:
    """``(loading, computing)``: the copies, and the rest, each with the values it needs.

    A guarded statement goes where the statement does, guard and all.  Raises PolycError
    ``NothingToPipeline`` where nothing is copied, ``IfNotBound`` for a branch that does both.
    """
    body = list(op.body.block.ops)
    loading, computing = list[Operation](), list[Operation]()
    for part in acting(op.body.block):
        if loads(part):
            loading.append(part)
            continue
        if isinstance(part, scf.IfOp) and any(loads(inner) for inner in part.walk()):
            raise PolycError(
                "IfNotBound",
                "this branch loads a tile and does something else, so that its copies cannot run "
                "ahead; run gpu-bind-ifs, and let nothing in the branch use what its copies give",
                part,
            )
        computing.append(part)
    if not loading:
        raise PolycError("NothingToPipeline", "this pipeline copies nothing; use scf.for", op)
    return with_needs(body, loading), with_needs(body, computing)


def copies_of(op: tile.PipelineOp) -> list[tile.CopyOp]:
    """The copies of tensors to shared tiles in a pipeline's body, bare and guarded."""
    found = map(statement, acting(op.body.block))
    return [o for o in found if isinstance(o, tile.CopyOp) and o.is_load]


def loads(op: Operation) -> bool:
    """Whether an op, or the one statement in its guards, copies a tensor to a shared tile."""
    copy = statement(op)
    return isinstance(copy, tile.CopyOp) and copy.is_load


def with_needs(body: Sequence[Operation], roots: Sequence[Operation]) -> list[Operation]:
    """``roots`` and the ops of ``body`` that they depend on, in the body's order."""
    needed: set[Operation] = set()
    work = list(roots)
    while work:
        op = work.pop()
        if op in needed:
            continue
        needed.add(op)
        used = (v for inner in op.walk() for v in inner.operands)
        work.extend(v.owner for v in used if isinstance(v.owner, Operation))
    return [op for op in body if op in needed]


def clone_iteration(
    op: tile.PipelineOp,
    part: Sequence[Operation],
    iteration: SSAValue,
    emit: Emit,
    numbers: Mapping[SSAValue, SSAValue] | None = None,
    outer: Mapping[SSAValue, SSAValue] | None = None,
) -> None:
    """Append ``part`` of the body as it runs in iteration number ``iteration``.

    ``numbers`` is what the rings of tiles count by, where pipelines follow one another and their
    iterations count on: slots follow it, and everything else sees the pipeline's own iteration.
    ``outer`` maps values from outside of the pipeline.  Raises PolycError ``SlotShared``.
    """
    values: dict[SSAValue, SSAValue] = {**(outer or {}), op.iteration: iteration}
    if op.position.uses.get_length():
        values[op.position] = emit.apply(
            affine_dim(0) * op.step.value.data, [iteration], hint=op.position.name_hint
        )
    slots: dict[Operation, SSAValue] = {}
    if numbers is not None and any(number is not iteration for number in numbers.values()):
        slots = {o: _number_of(o, held, numbers) for o, held in slot_ops(part).items()}
    for slot, number in slots.items():
        counted = {**values, op.iteration: number}
        clone_into([slot], counted, emit)
        values |= {result: counted[result] for result in slot.results}
    clone_into([o for o in part if o not in slots], values, emit)


def _number_of(
    op: Operation, tiles: Sequence[SSAValue], numbers: Mapping[SSAValue, SSAValue]
) -> SSAValue:
    """What the rings of tiles whose slot is ``op`` count by; raises PolycError ``SlotShared``."""
    found = {numbers[held] for held in tiles if held in numbers} or set(numbers.values())
    if len(found) != 1:
        raise PolycError(
            "SlotShared",
            "this value is a slot of tiles that another pipeline fills too and of tiles that it "
            "does not, so that their rings count apart; compute a slot for each",
            op,
        )
    return found.pop()


def slot_ops(part: Sequence[Operation]) -> dict[Operation, list[SSAValue]]:
    """The ops of a pipeline's body that say which slots of rings its tiles are, and of which."""
    slots: dict[SSAValue, list[SSAValue]] = {}
    for slot, held in (pair for o in part for inner in o.walk() for pair in _slots(inner)):
        slots.setdefault(slot, []).append(held)
    found = {
        o: [held for result in o.results for held in slots.get(result, ())]
        for o in part
        if any(result in slots for result in o.results)
    }
    for op in found:
        for use in (use for result in op.results for use in result.uses):
            user = use.operation
            is_slot = user.operands[use.index] in dict(_slots(user))
            if not is_slot or not _only_slot(user, use.index):
                raise PolycError(
                    "SlotShared",
                    "this value is a slot, which counts on from tile to tile, and something else "
                    "too, which does not; compute the other one apart",
                    op,
                )
    return found


def _slots(op: Operation) -> list[tuple[SSAValue, SSAValue]]:
    """The slots that an op takes, each with the tile whose it is."""
    match op:
        case tile.CopyOp():
            found = ((op.slot, op.target), (op.source_slot, op.source))
        case tile.ContractOp():
            found = ((op.lhs_slot, op.lhs), (op.rhs_slot, op.rhs))
        case _:
            return []
    return [(slot, held) for slot, held in found if slot is not None]


def _only_slot(op: Operation, index: int) -> bool:
    """Whether an operand that is a slot is not a coordinate of the same copy as well."""
    if not isinstance(op, tile.CopyOp):
        return True
    return op.operands[index] not in (*op.indices, *op.tap)
