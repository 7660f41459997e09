"""The two halves of a pipeline's body: what loads, and what computes.

Both ways of running a pipeline, on roles and in one instruction stream, cut it here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.ir import Operation, SSAValue
from xdsl.traits import is_side_effect_free

from polyc.dialects.diagnostic import PolycError
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.types import FragmentLayoutAttr, FragmentType
from polyc.passes.emit import Emit, affine_dim, ceil_div, clone_into


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
    for contract in op.body.block.ops:
        if not isinstance(contract, tile.ContractOp):
            continue
        kind = contract.acc.type
        assert isinstance(kind, FragmentType)
        if not isinstance(kind.layout, FragmentLayoutAttr):
            continue
        if (holders := kind.layout.threads.data) != computing:
            raise PolycError(
                "ThreadMismatch",
                f"{holders} threads hold the accumulator and {computing} compute it; change the "
                "kernel's threads, the tile or the warp_tile",
                contract,
            )


def split(op: tile.PipelineOp) -> tuple[list[Operation], list[Operation]]:
    """``(loading, computing)``: the copies, and the rest, each with the pure ops it needs."""
    body = [o for o in op.body.block.ops if not isinstance(o, tile.YieldOp)]
    copies = [o for o in body if _loads(o)]
    rest = [o for o in body if not _loads(o) and not is_side_effect_free(o)]
    if not copies:
        raise PolycError("NothingToPipeline", "this pipeline copies nothing; use scf.for", op)
    return with_needs(body, copies), with_needs(body, rest)


def _loads(op: Operation) -> bool:
    return isinstance(op, tile.CopyOp) and op.is_load


def with_needs(body: Sequence[Operation], roots: Sequence[Operation]) -> list[Operation]:
    """``roots`` and the ops of ``body`` that they depend on, in the body's order."""
    needed: set[Operation] = set()
    work = list(roots)
    while work:
        op = work.pop()
        if op in needed:
            continue
        needed.add(op)
        work.extend(v.owner for v in op.operands if isinstance(v.owner, Operation))
    return [op for op in body if op in needed]


def clone_iteration(
    op: tile.PipelineOp,
    part: Sequence[Operation],
    iteration: SSAValue,
    emit: Emit,
    number: SSAValue | None = None,
    outer: Mapping[SSAValue, SSAValue] | None = None,
) -> None:
    """Append ``part`` of the body as it runs in iteration number ``iteration``.

    The body sees ``number`` as the iteration's, where pipelines follow one another and their
    iterations count on; ``outer`` maps values from outside of the pipeline.
    """
    values: dict[SSAValue, SSAValue] = {**(outer or {}), op.iteration: number or iteration}
    if op.position.uses.get_length():
        values[op.position] = emit.apply(
            affine_dim(0) * op.step.value.data, [iteration], hint=op.position.name_hint
        )
    clone_into(part, values, emit)
