"""Factors of products that are a loaded tensor times a number (S0.6).

A product with such a factor is the number times the product with what is loaded.  Which of the two
is computed is not defined, so that no kernel has to store the scaled tensor.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from xdsl.ir import BlockArgument, SSAValue

from polyc.dialects.common.movements import MovementOp
from polyc.dialects.frontend.elementwise import CastOp, ElementwiseOp
from polyc.dialects.frontend.leaves import ConstantOp
from polyc.dialects.frontend.movements import ExpandOp, PermuteOp, ReshapeOp, SliceOp
from polyc.dialects.frontend.types import tensor_of

MOVES = (ExpandOp, PermuteOp, ReshapeOp, SliceOp)
"""Movements that add no element: what they move may be scaled before or after."""


@dataclass(frozen=True)
class ScaledLoad:
    """``moves``, the last first, of what ``function`` (mul or div) makes of a loaded tensor."""

    loaded: SSAValue
    """The tensor, perhaps moved itself."""
    function: str
    number: float
    moves: tuple[MovementOp, ...]


def scaled_load(value: SSAValue) -> ScaledLoad | None:
    """What a factor of a product is; None where it is no loaded tensor times or over a number.

    The number is finite and not 0, and so is its inverse in f32.  A factor that a cast has rounded
    after the multiplication is none: the user asked for that rounding.
    """
    moves: list[MovementOp] = []
    while isinstance(op := value.owner, MOVES):
        moves.append(op)
        value = op.operand
    if not isinstance(op, ElementwiseOp) or op.function not in ("mul", "div"):
        return None
    sides = [(op.args[0], op.args[1])]
    if op.function == "mul":
        sides.append((op.args[1], op.args[0]))
    for loaded, by in sides:
        number = _number(by)
        same = tensor_of(loaded).dims == tensor_of(op.result).dims
        if number is not None and same and _is_loaded(loaded):
            return ScaledLoad(loaded, op.function, number, tuple(moves))
    return None


def _is_loaded(value: SSAValue) -> bool:
    """Whether a value is an input of the graph, perhaps moved."""
    while isinstance(op := value.owner, MOVES):
        value = op.operand
    return isinstance(value, BlockArgument)


def _number(value: SSAValue) -> float | None:
    """The one number that all elements of a value are, if it scales without loss of range."""
    while isinstance(op := value.owner, (*MOVES, CastOp)):
        value = op.operand
    if not isinstance(op, ConstantOp):
        return None
    size = abs(op.number)
    return op.number if 2.0**-126 <= size <= 2.0**126 and math.isfinite(size) else None
