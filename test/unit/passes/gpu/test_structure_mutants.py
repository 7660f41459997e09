"""Kernels whose structure is wrong by one place are refused, or found by the simulator (T2).

``gpu-warp-specialize``, ``gpu-skew`` and ``gpu-turns`` make rings, awaits, turns and the first and
last parts of a loop.  Each of these is left out, or shifted by one, in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import numpy as np
import pytest
from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.rewriter import Rewriter

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.module import ModuleOp as GpuModuleOp
from polyc.passes.pipeline import GPU_PASSES
from polyc.playback.gpu import simulate
from polyc.rewriting.emit import Emit, affine_dim
from polyc.test.support.chained_programs import chained, inputs, meant
from polyc.test.support.gpu_text import find, only, run

STRUCTURE = GPU_PASSES[: GPU_PASSES.index("gpu-turns") + 1]
REST = GPU_PASSES[len(STRUCTURE) :]
SIZES = {"M": 300, "N": 260}
"""Three tiles, all of one CTA, of five steps each."""

FLOW = (
    tile.RingAcquireOp,
    tile.RingWaitOp,
    tile.RingReleaseOp,
    tile.AwaitOp,
    tile.OrderEnterOp,
    tile.OrderLeaveOp,
    tile.CopyOp,
    tile.ContractOp,
)

Mutation = tuple[str, Callable[[], None]]


def shifted(op: Operation, place: int, by: int, wrap: int | None) -> None:
    """Let an operand be more by a number, modulo ``wrap`` where that is given."""
    emit = Emit()
    more = affine_dim(0) + by
    new = emit.apply(more if wrap is None else more % wrap, [op.operands[place]])
    block = op.parent_block()
    assert block is not None
    block.insert_ops_before(emit.ops, op)
    op.operands[place] = new


def mutations(module: ModuleOp) -> Iterator[Mutation]:
    """What may be wrong by one place."""
    for number, op in enumerate(find(module, Operation)):
        name = f"{number} {op.name}"
        if isinstance(op, FLOW) and not op.results and not isinstance(op, tile.CopyOp):
            yield f"{name} left out", lambda op=op: Rewriter.erase_op(op)
        match op:
            case tile.RingReleaseOp() if str(op.ring.type) == "!gpu.ring<1>":
                pass  # Of one slot, any number says which.
            case tile.RingAcquireOp() | tile.RingWaitOp() | tile.RingReleaseOp():
                yield f"{name} one later", lambda op=op: shifted(op, 1, 1, None)
            case tile.OrderEnterOp() | tile.OrderLeaveOp():
                yield f"{name} of the other", lambda op=op: shifted(op, 1, 1, 2)
            case tile.CopyOp() if op.slot is not None:
                place = list(op.operands).index(op.slot)
                yield f"{name} to the other slot", lambda op=op, p=place: shifted(op, p, 1, 2)
            case tile.ContractOp():
                for slot in (op.lhs_slot, op.rhs_slot):
                    if slot is not None:
                        place = list(op.operands).index(slot)
                        yield f"{name} of slot {place}", lambda op=op, p=place: shifted(op, p, 1, 2)
            case scf.ForOp():
                for place, side in ((0, "begins"), (1, "ends")):
                    for by in (1, -1):
                        yield (
                            f"{name} {side} {by:+}",
                            lambda op=op, p=place, by=by: shifted(op, p, by, None),
                        )
            case _:
                pass


@cache
def _structured() -> ModuleOp:
    return run(chained(tiles=True), *STRUCTURE)


def structured() -> ModuleOp:
    """The kernel with its structure, to be changed."""
    return _structured().clone()


NAMES = [name for name, _ in mutations(structured())]


def test_there_are_mutants_of_each_kind() -> None:
    kinds = {name.split()[1] for name in NAMES}
    assert kinds == {
        "gpu.ring_acquire", "gpu.ring_wait", "gpu.ring_release", "gpu.await", "gpu.order_enter",
        "gpu.order_leave", "gpu.copy", "gpu.contract", "scf.for",
    }  # fmt: skip
    assert len(NAMES) > 40


def test_the_kernel_itself_is_right() -> None:
    assert verdict(structured()) == "right"


def verdict(module: ModuleOp) -> str:
    """``right``, or how a kernel of the structure's was caught."""
    try:
        lowered = run(module, *REST)
    except PolycError as error:
        return error.kind
    given = inputs(SIZES)
    result = simulate(only(lowered, GpuModuleOp), given, SIZES, multiprocessors=1)
    if result.findings:
        return result.findings[0].kind
    return "right" if np.array_equal(result.outputs[0], meant(given)) else "wrong numbers"


@pytest.mark.turns(3)
@pytest.mark.parametrize("name", NAMES)
def test_a_mutant_is_caught(name: str) -> None:
    module = structured()
    (change,) = [change for other, change in mutations(module) if other == name]
    change()
    assert verdict(module) != "right"
