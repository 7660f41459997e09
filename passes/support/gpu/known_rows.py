"""What the loops, branches and maps around an op say of index values, as affine rows (T2)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Block, Operation

from polyc.dialects.gpu import kernel as gpu
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.types import FragmentType
from polyc.passes.support.gpu.index_forms import Forms, Row, at_least, possible, value_of
from polyc.rewriting.emit import affine_dim

Ways = list[tuple[Row, ...]]
"""Rows of which those of one entry hold, nobody knows of which."""

MOST_WAYS = 16
"""Ways beyond which a branch around an op is not asked."""


def can_be(op: Operation, forms: Forms, asked: Ways) -> bool:
    """Whether one of ``asked`` may hold where ``op`` stands; True where nothing rules it out.

    Known are the bounds of the loops around it, the conditions of its branches, that sizes and the
    coordinates of tiles are 0 or more, and that the coordinates in a map's body are in its tile.
    """
    around = _ways_around(op, forms)
    plain = _natural(forms)
    return any(possible([*plain, *known, *way]) for way, known in product(asked, around))


def _ways_around(op: Operation, forms: Forms) -> Ways:
    found: Ways = [()]
    inner = op
    while (parent := inner.parent_op()) is not None:
        ways: Ways = []
        match parent:
            case scf.ForOp():
                ways = _bounds(parent, forms)
            case scf.IfOp():
                ways = _taken(parent, inner.parent_region() is parent.true_region, forms)
            case tile.MapOp():
                ways = [tuple(_coordinates(parent, forms))]
            case _:
                pass
        if ways and len(ways) * len(found) <= MOST_WAYS:
            found = [(*one, *other) for one, other in product(found, ways)]
        inner = parent
    return found


def _bounds(op: scf.ForOp, forms: Forms) -> Ways:
    variable = forms.leaf(op.body.block.args[0])
    return [
        (*low.rows, *high.rows, at_least(variable - low.expr), at_least(high.expr - variable, 1))
        for low, high in product(forms.of(op.lb), forms.of(op.ub))
    ]


def _taken(op: scf.IfOp, holds: bool, forms: Forms) -> Ways:
    condition = op.cond.owner
    if isinstance(condition, arith.CmpiOp) and isinstance(condition.lhs.type, IndexType):
        return forms.ways(condition, holds)
    return [forms.condition(op.cond, holds)]


def _coordinates(op: tile.MapOp, forms: Forms) -> Iterator[Row]:
    assert isinstance(op.space.type, FragmentType)
    for inner in op.body.walk():
        if isinstance(inner, tile.TileIndexOp):
            at = forms.leaf(inner.result)
            yield at_least(at)
            yield at_least(at * -1 + op.space.type.sizes[inner.axis.value.data], 1)


def _natural(forms: Forms) -> list[Row]:
    found: list[Row] = []
    for number, key in enumerate(forms.leaves):
        value = value_of(key)
        owner = value.owner.parent_op() if value and isinstance(value.owner, Block) else None
        carried = isinstance(owner, tile.TileLoopOp) and value in owner.carried
        if not carried and isinstance(owner, gpu.KernelOp | tile.TileLoopOp | tile.RolesOp):
            found.append(at_least(affine_dim(number)))
    return found
