"""Dimensions of a tensor that axes count in digits, as one dimension of each digit.

Heads that lie inside of rows, ``[B, T, H * D]`` read at ``h * D + d``, are ``[B, T, H, D]`` read at
``(h, d)``: the same memory, of which each axis has a dimension and a step of its own.  Packed
projections are read so too, at ``h * D + d + 2 * H * D`` as at ``(h + 2 * H, d)``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import cast

from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr

from polyc.affine.expressions import Atom, Linear, expr_of, linear_of
from polyc.dialects.common.dim import Dim
from polyc.dialects.common.sizes import quotient
from polyc.dialects.region import KernelOp, ReadOp
from polyc.dialects.region.types import MemRefType, val_type
from polyc.rewriting.region.other_shapes import in_other_shapes


@dataclass(frozen=True)
class Digits:
    """A dimension of a tensor as several: ``steps`` from a point of each to the next one, outermost
    first, the last of 1."""

    steps: tuple[int, ...]
    sizes: tuple[Dim, ...]


def digits_apart(kernel: KernelOp) -> KernelOp:
    """The region that sees every dimension which its reads count in digits as one of each: a copy
    that stands nowhere, or itself where there are none.

    All reads of a tensor have to agree: the steps along the dimension divide each other, the
    largest one divides the dimension, and what each read has of a digit but for the outermost stays
    inside of it, for all points.  A dimension that is read otherwise stays one.  Exact: it is
    another view of the same memory.
    """
    shapes: dict[SSAValue, list[Digits | None]] = {}
    for arg in kernel.ins:
        reads = [use.operation for use in arg.uses]
        if not reads or not all(isinstance(op, ReadOp) for op in reads):
            continue
        found = [
            _digits_of(cast("list[ReadOp]", reads), at, size)
            for at, size in enumerate(cast(MemRefType, arg.type).shape)
        ]
        if any(found):
            shapes[arg] = found
    if not shapes:
        return kernel

    def places(op: ReadOp) -> list[AffineExpr]:
        found: list[AffineExpr] = []
        for digits, expr in zip(shapes[op.tensor], op.map.data.results, strict=True):
            parts = None if digits is None else _parted(linear_of(expr), digits.steps)
            found += [expr] if parts is None else map(expr_of, parts)
        return found

    sizes = {
        tensor: [None if digits is None else digits.sizes for digits in found]
        for tensor, found in shapes.items()
    }
    return in_other_shapes(kernel, sizes, places)


def _digits_of(reads: Sequence[ReadOp], at: int, size: Dim) -> Digits | None:
    """The digits in which all reads count dimension ``at``; None where it stays one."""
    places = [linear_of(op.map.data.results[at]) for op in reads]
    steps = {step for place in places for atom, step in place.terms if not _is_symbol(atom)}
    if not steps or min(steps) < 1:
        return None
    order = tuple(sorted(steps | {1}, reverse=True))
    if len(order) < 2 or any(outer % inner for outer, inner in pairwise(order)):
        return None
    outermost = quotient(size, Dim.const(order[0]))
    if outermost is None:
        return None
    found = Digits(
        order, (outermost, *(Dim.const(outer // inner) for outer, inner in pairwise(order)))
    )
    fits = all(_stays_inside(op, place, found) for op, place in zip(reads, places, strict=True))
    return found if fits else None


def _is_symbol(atom: Atom) -> bool:
    return isinstance(atom, tuple) and atom[0] == "s"


def _parted(place: Linear, steps: Sequence[int]) -> list[Linear] | None:
    """What a place has of each digit; None where a symbol counts by less than a digit's step."""
    terms: list[list[tuple[Atom, int]]] = [[] for _ in steps]
    for atom, step in place.terms:
        number = next((i for i, one in enumerate(steps) if step % one == 0), None)
        if number is None or (number and _is_symbol(atom)):
            return None
        terms[number].append((atom, step // steps[number]))
    left, constants = place.constant, list[int]()
    for step in steps:
        constants.append(left // step)
        left %= step
    return [Linear.of(own, constant) for own, constant in zip(terms, constants, strict=True)]


def _stays_inside(op: ReadOp, place: Linear, digits: Digits) -> bool:
    """Whether what a read has of every digit but the outermost is less than that digit's size."""
    parts = _parted(place, digits.steps)
    if parts is None:
        return False
    axes = val_type(op.result).axes.data
    for part, size in zip(parts[1:], digits.sizes[1:], strict=True):
        most = part.constant
        for atom, step in part.terms:
            if not isinstance(atom, tuple) or atom[0] != "d":
                return False
            points = axes[atom[1]].size.constant()
            if points is None:
                return False
            most += step * (points - 1)
        if most >= (size.constant() or 0):
            return False
    return True
