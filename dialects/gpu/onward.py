"""Whether TMA goes along rows of a tensor, a line of the L2 cache after another."""

from __future__ import annotations

from xdsl.dialects import affine, arith, scf
from xdsl.ir import Block, SSAValue

from polyc.affine.expressions import linear_of
from polyc.dialects.gpu.hardware import TmaLoadOp
from polyc.dialects.gpu.loops import is_unrolled
from polyc.dialects.gpu.types import TensorMapType, element_bytes

LINE = 128
"""Bytes of a line."""


def goes_onward(map_: SSAValue, kind: TensorMapType) -> bool:
    """Whether all loads by a map take a line of each row, and the turn of a loop after them the
    next one."""
    width = kind.sizes[-1]
    loads = [use.operation for use in map_.uses if isinstance(use.operation, TmaLoadOp)]
    whole = width * element_bytes(kind.element_type) == LINE
    return whole and bool(loads) and all(_steps(load) == width for load in loads)


def _steps(load: TmaLoadOp) -> int | None:
    """By how much a load goes along rows from one turn of the loop around it to the next."""
    around = load.parent_op()
    while around is not None and not (isinstance(around, scf.ForOp) and not is_unrolled(around)):
        around = around.parent_op()
    if not isinstance(around, scf.ForOp):
        return None
    return _factor(load.coordinates[-1], around.body.block.args[0])


def _factor(value: SSAValue, variable: SSAValue) -> int | None:
    """By how much an index grows with a loop's variable; None where that is not always as much."""
    if value is variable:
        return 1
    owner = value.owner
    if isinstance(owner, Block) or not isinstance(owner, affine.ApplyOp | arith.AddiOp):
        return 0
    factors = [_factor(operand, variable) for operand in owner.operands]
    if isinstance(owner, arith.AddiOp):
        known = [one for one in factors if one is not None]
        return sum(known) if len(known) == len(factors) else None
    dims, found = owner.map.data.num_dims, 0
    for atom, count in linear_of(owner.map.data.results[0]).terms:
        if not isinstance(atom, tuple):
            if any(one != 0 for one in factors):
                return None
            continue
        letter, position = atom
        factor = factors[position if letter == "d" else dims + position]
        if factor is None:
            return None
        found += count * factor
    return found
