"""Random numbers of neighbours in a loop: those of one block are made together.

Exact: the numbers are functions of their places.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from math import gcd

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, IntegerAttr
from xdsl.ir import Block, SSAValue

from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu.hardware.random import WORDS
from polyc.dialects.gpu.kernel import KernelOp
from polyc.passes.support.gpu.vectors import Access, divisor, size_divisor
from polyc.rewriting.effects import Effect, effect_of
from polyc.rewriting.emit import Emit


@dataclass
class _Terms:
    """A place as a sum: ``moving`` coordinates, of which one may go up with the loop, those that
    ``stay``, and what the rest is a multiple of."""

    moving: list[SSAValue] = field(default_factory=list[SSAValue])
    stay: list[SSAValue] = field(default_factory=list[SSAValue])
    multiples: list[int] = field(default_factory=list[int])


def multiple_of_first(
    op: hw.PhiloxOp, variable: SSAValue, width: int, bound: int, kernel: KernelOp
) -> int | None:
    """What the first of ``width`` iterations' places is a multiple of, 4 at most, where the places
    are neighbours under one seed; else None."""
    terms = _Terms()
    body = variable.owner
    assert isinstance(body, Block)
    if not stays(op.seed, body) or not _split(op.place, 1, True, terms, body, kernel):
        return None
    for last in terms.moving:
        others = [c for c in terms.moving if c is not last]
        if Access.of([*terms.stay, *others, last], variable).is_vector(width, bound):
            known = [width, *(divisor(c) for c in others), *terms.multiples]
            return gcd(WORDS, reduce(gcd, known))
    return None


def share_block(
    op: hw.PhiloxOp, maps: list[dict[SSAValue, SSAValue]], multiple: int, emit: Emit
) -> None:
    """``op`` of several iterations, whose values ``maps`` hold, as one."""
    place, seed = (maps[0].get(v, v) for v in op.operands)
    several = emit.value(hw.PhiloxOp(place, seed, len(maps), multiple))
    for lane, values in enumerate(maps):
        values[op.result] = emit.value(hw.UnpackOp(several, lane), op.result.name_hint)


def _split(
    value: SSAValue, times: int, exact: bool, terms: _Terms, body: Block, kernel: KernelOp
) -> bool:
    """Take apart a value that counts ``times``, or a multiple of that where it is not ``exact``.

    False where a part of it may be anything.
    """
    owner = value.owner
    match owner:
        case arith.AddiOp():
            return all(_split(v, times, exact, terms, body, kernel) for v in owner.operands)
        case arith.MuliOp():
            lhs, rhs = owner.operands
            if isinstance(lhs.owner, arith.ConstantOp) or not stays(rhs, body):
                lhs, rhs = rhs, lhs
            if not stays(rhs, body):
                return False
            by, known = _multiple(rhs, kernel)
            return _split(lhs, times * by, exact and known, terms, body, kernel)
        case _ if (index := _index(value)) is not None:
            if exact and times == 1:
                terms.moving.append(index)
            else:
                terms.stay.append(index)
                terms.multiples.append(times * max(divisor(index), 1))
            return True
        case _:
            terms.multiples.append(times * _multiple(value, kernel)[0])
            return stays(value, body)


def stays(value: SSAValue, body: Block) -> bool:
    """Whether a value is the same in all iterations of a loop with this body."""
    work = [value]
    while work:
        owner = work.pop().owner
        if isinstance(owner, Block):
            if owner is body:
                return False
        elif owner.parent is body:
            if effect_of(owner) > Effect.READS or owner.regions:
                return False
            work += owner.operands
    return True


def _index(value: SSAValue) -> SSAValue | None:
    """The place on an axis, or the size, that was cast to a value."""
    owner = value.owner
    if isinstance(owner, arith.ExtSIOp | arith.ExtUIOp):
        owner = owner.input.owner
    if isinstance(owner, arith.IndexCastOp) and isinstance(owner.input.type, IndexType):
        return owner.input
    return None


def _multiple(value: SSAValue, kernel: KernelOp) -> tuple[int, bool]:
    """What a value is a multiple of, and whether it is that number itself."""
    if isinstance(owner := value.owner, arith.ConstantOp) and isinstance(
        number := owner.value, IntegerAttr
    ):
        return number.value.data, True
    index = _index(value)
    return (1, False) if index is None else (size_divisor(index, kernel), False)
