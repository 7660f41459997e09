"""Reductions along the columns of a product that follow it: a softmax, or a norm of its rows.

The accumulators of a tile have the rows whole where the tile is as wide as these are long.  Threads
then reduce them in registers, and go on with what that gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import f32
from xdsl.ir import Operation, SSAValue

from polyc.dialects.common.dim import Assumption, Dim
from polyc.dialects.gpu.tile.compute import REDUCTIONS
from polyc.dialects.region import KernelOp, ReduceOp, ReduceTogetherOp
from polyc.dialects.region.types import ValType, axes_text
from polyc.families.facts import holds_always
from polyc.rewriting.region.products import following, unsupported

WIDTHS = (32, 64, 128, 256)
"""Columns of the tiles, or of those of a cluster, that have the rows whole."""

MOST_HELD = 128
"""Columns of which a thread of a warpgroup holds the accumulators beside what becomes of them."""

WAY_OUT = (
    f"a product's tile has rows of at most {WIDTHS[-1]} elements whole; make the product an output "
    "of a graph of its own"
)


def find_following(kernel: KernelOp) -> tuple[ReduceOp | ReduceTogetherOp, ...]:
    """The reductions of a region that follow others, in the order of the text.

    All of them go along the same axis.  Raises PolycError ``UnsupportedProgram`` otherwise.
    """
    found = following(kernel)
    for op in found:
        if len(op.labels) != 1 or op.labels != found[0].labels:
            why = f"what follows its product is reduced over [{', '.join(op.labels)}]"
            before = "" if op is found[0] else f" and over [{', '.join(found[0].labels)}]"
            raise unsupported(kernel, why + before, WAY_OUT, op)
    for op in (o for one in found for o in one.walk() if isinstance(o, ReduceOp)):
        if op.fn.data not in REDUCTIONS or (op.fn.data == "sum" and op.accumulator != f32):
            why = f"what follows its product is reduced by {op.fn.data} in {op.accumulator}"
            raise unsupported(kernel, why, "reduce it in a graph of its own", op)
    return tuple(found)


def steps_of(follow: Sequence[Operation]) -> int:
    """How many numbers a row is reduced to, one after another."""
    return sum(isinstance(op, ReduceOp) for one in follow for op in one.walk())


def width_of(kernel: KernelOp, columns: Dim) -> int | None:
    """The columns of the narrowest tile that has rows of so many elements whole; None for none."""
    known, symbols = kernel.assumptions, kernel.symbol_names
    fitting = (w for w in WIDTHS if holds_always(Assumption(-columns + w, ">="), known, symbols))
    return next(fitting, None)


def check_axes(kernel: KernelOp, result: SSAValue) -> None:
    """Refuse what is made of the result of a product and has axes beside its own.

    Raises PolycError ``UnsupportedProgram``.
    """
    own = set(cast(ValType, result.type).labels)
    dependent = {result}
    for op in kernel.body.block.ops:
        if not any(operand in dependent for operand in op.operands):
            continue
        dependent.update(op.results)
        for value in op.results:
            strange = [axis for axis in cast(ValType, value.type).axes if axis.label not in own]
            if strange and isinstance(op, ReduceTogetherOp):
                why = f"it has a softmax that weighs values along {axes_text(strange)}"
                raise unsupported(kernel, why, WAY_OUT, op)
            if strange:
                why = f"what follows its product has axes {axes_text(strange)} beside its own"
                raise unsupported(kernel, why, WAY_OUT, op)


def check_rows(kernel: KernelOp, follow: Sequence[Operation], column: str, size: Dim) -> None:
    """Refuse reductions after a product that do not go along its columns, or along too many.

    These are the axis ``column``, which has ``size`` points.  Raises PolycError
    ``UnsupportedProgram``.
    """
    first = cast("ReduceOp | ReduceTogetherOp", follow[0])
    if first.labels != (column,):
        why = f"what follows its product is reduced over [{', '.join(first.labels)}]"
        raise unsupported(kernel, why, f"reduce along [{column}], its columns", first)
    if width_of(kernel, size) is None:
        why = f"what follows its product is reduced over {column}, which has {size} points"
        raise unsupported(kernel, why, WAY_OUT, first)
