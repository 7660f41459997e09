"""What is slow about a region as loops, and why."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import SSAValue

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.region import (
    BinaryOp,
    BroadcastInDimOp,
    CastOp,
    KernelOp,
    ReduceOp,
    TransposeOp,
)
from polyc.families.loops.recognise import (
    find_loops,
    steps_of,
    type_of,
)
from polyc.rewriting.notes import Note


def remarks(kernel: KernelOp, refusal: PolycError | None) -> Iterator[Note]:
    """What is slow about a region as loops, and why; ``refusal`` is the first other family's."""
    loops = find_loops(kernel).expanded
    steps = steps_of(loops)
    name = kernel.sym_name.data
    contraction = next(_contractions(loops), None)
    if contraction is not None and refusal is not None:
        _, _, why = refusal.message.partition(": ")
        yield Note(
            "NoTensorCores",
            f"region @{name} holds a contraction and runs as loops without tensor cores, "
            f"{steps.total} steps an element of its output: {why or refusal.message}",
            kernel,
        )
    if steps.nested is not None:
        axes = ", ".join(steps.nested.labels)
        yield Note(
            "Recomputed",
            f"region @{name} reduces over [{axes}] again in each step of another reduction, which "
            f"is {steps.total} steps an element of its output; make what it reduces first an "
            "output of a graph of its own",
            kernel,
        )


def _contractions(kernel: KernelOp) -> Iterator[ReduceOp]:
    """Sums of products of two values that both have the sum's axes, and each one of its own."""
    for op in kernel.walk():
        if not isinstance(op, ReduceOp) or op.fn.data != "sum":
            continue
        product = op.operand.owner
        if isinstance(product, BinaryOp) and product.fn.data == "mul":
            left, right = (_own_axes(v) for v in product.operands)
            if left - right and right - left and set(op.labels) <= left & right:
                yield op


def _own_axes(value: SSAValue) -> set[str]:
    """The axes that a value depends on, whatever it was broadcast to."""
    owner = value.owner
    while isinstance(owner, BroadcastInDimOp | CastOp | TransposeOp):
        value = owner.operand
        owner = value.owner
    return set(type_of(value).labels)
