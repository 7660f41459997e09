"""Keys and values in pages: they lie at places that are data, as those of a paged cache (S6.10).

    K[n, d] = cache[table(n floordiv P), n mod P, d]

A page is ``P`` keys that are neighbours in memory, or one key.  Which page it is an index says,
which is data: of a sequence's table, say.  A kernel asks for it once for all keys of a page.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineConstraintExpr, AffineDimExpr, AffineExpr, AffineSet

from polyc.affine import isl
from polyc.affine.expressions import canonical_expr, constraint_of, linear_of, uses_dim
from polyc.dialects import region
from polyc.dialects.common.dim import Assumption, Dim
from polyc.dialects.region.types import AxisAttr, MemRefType
from polyc.families.attention.ends import unlike_scalars
from polyc.families.attention.softmax import Refused
from polyc.families.facts import holds_always
from polyc.rewriting.postorder import operands_of, reached
from polyc.rewriting.region.building import type_of
from polyc.rewriting.region.compose import domain

STEP = 16
"""Keys that one step of a tensor core takes of the values, so that a kernel's steps are multiples:
pages are such multiples too, or parts of one."""

MOST_PAGES = 8
"""Pages of a step, beside which threads have registers for where they lie."""


@dataclass(frozen=True)
class Paged:
    """Which page of a tensor the keys of a step lie in."""

    gather: region.GatherOp
    dimension: int
    """The dimension of the tensor along which pages lie."""
    keys: int
    """Keys of a page."""

    @property
    def index(self) -> SSAValue:
        """What says which page a key is in, an integer over the batch and the keys."""
        return self.gather.indices[0]

    def places(self, batch: Sequence[str]) -> list[AffineExpr]:
        """What the index is made of, in the axes of the batch, and the keys as one more."""
        found: list[AffineExpr] = []
        for value in reached([self.index], operands_of):
            op = value.owner
            if not isinstance(op, region.ReadOp | region.IndexOp):
                continue
            labels = op.result.type.labels
            dims = [AffineDimExpr(batch.index(x) if x in batch else len(batch)) for x in labels]
            found += [expr.replace_dims_and_symbols(dims, []) for expr in op.map.data.results]
        return found


def check_gather(gather: region.GatherOp) -> None:
    """Refuse a gather along more axes than one, or one that gives numbers of its own."""
    if len(gather.labels) != 1:
        raise Refused(f"a factor is gathered along {len(gather.labels)} axes and not one", gather)
    if gather.number not in (None, 0):
        raise Refused(
            f"a factor is gathered, and is {gather.number} and not 0 where no page is", gather
        )


def pages_of(
    kernel: region.KernelOp,
    read: region.ReadOp,
    gather: region.GatherOp,
    n: str,
    batch: Collection[str],
) -> Paged:
    """The pages that a gathered factor lies in, whose keys ``n`` are those of whole ones; raises
    Refused where there are none."""
    check_gather(gather)
    axis, labels = type_of(gather.result).axis(n), read.result.type.labels
    assert axis is not None
    if read.guard is not None:
        raise Refused("a factor is gathered of what is read under a guard", read)
    shape = cast("MemRefType", read.tensor.type).shape
    along = list[Dim]()
    if n in labels:
        ends = zip(read.map.data.results, shape, strict=True)
        along = [size for expr, size in ends if uses_dim(expr, labels.index(n))]
    sizes = [size.constant() for size in along] or [1]
    if len(sizes) != 1 or sizes[0] is None:
        raise Refused("a factor is gathered by pages of no known number of keys", gather)
    paged = page_of(kernel, gather, read, n, sizes[0])
    check_index(kernel, paged, n, batch)
    whole = Assumption(axis.size.mod(paged.keys), "==")
    if not holds_always(whole, kernel.assumptions, kernel.symbol_names):
        raise Refused(f"its {axis.size} keys may be no whole pages of {paged.keys}", gather)
    return paged


def page_of(
    kernel: region.KernelOp, gather: region.GatherOp, read: region.ReadOp, n: str, size: int
) -> Paged:
    """The pages of ``size`` keys that a gathered factor is in; Refused where there are none.

    Those of one key have no axis of keys.
    """
    (label,) = gather.labels
    axes = read.result.type.axes.data
    labels = read.result.type.labels
    page = AffineDimExpr(labels.index(label))
    key = AffineDimExpr(labels.index(n)) if n in labels else None
    found: list[int] = []
    for number, expr in enumerate(read.map.data.results):
        if expr == page:
            found.append(number)
        elif uses_dim(expr, page.position):
            raise Refused(f"a factor is gathered at {expr}, not along an axis", read)
        elif (
            key is not None
            and uses_dim(expr, key.position)
            and not _equal(kernel, axes, expr, key % size)
        ):
            raise Refused(f"a factor is gathered by pages, in which its keys lie at {expr}", read)
    if len(found) != 1:
        raise Refused(f"a factor is gathered along {len(found)} dimensions and not one", gather)
    if size < 1 or (size % STEP and STEP % size):
        raise Refused(
            f"a factor lies in pages of {size} keys, which are no multiple of {STEP} and no part",
            gather,
        )
    return Paged(gather, found[0], size)


def fits(keys: int, pages: Collection[Paged]) -> bool:
    """Whether so many keys of a step are few whole pages, or a whole part of one."""
    return all(
        paged.keys % keys == 0
        or (keys % paged.keys == 0 and keys <= max(STEP, MOST_PAGES * paged.keys))
        for paged in pages
    )


def check_index(kernel: region.KernelOp, paged: Paged, n: str, batch: Collection[str]) -> None:
    """Refuse an index that is not one number for a page of keys, computed of what is read."""
    if (op := unlike_scalars(paged.index)) is not None:
        raise Refused(f"the places of a factor are made by {op.name}", op)
    for value in reached([paged.index], operands_of):
        op = value.owner
        if not isinstance(op, region.ReadOp | region.IndexOp):
            continue
        axes, labels = op.result.type.axes.data, op.result.type.labels
        beyond = [label for label in labels if label not in (*batch, n)]
        if beyond:
            raise Refused(f"the places of a factor depend on {beyond[0]}", op)
        for expr in op.map.data.results if n in labels else ():
            first = _first_of_page(expr, labels.index(n), len(labels), paged.keys)
            if not _equal(kernel, axes, expr, first):
                raise Refused(
                    f"the places of a factor differ between the {paged.keys} keys of a page", op
                )


def _first_of_page(expr: AffineExpr, key: int, rank: int, size: int) -> AffineExpr:
    """An expression at the first key of the page of each key."""
    dims: list[AffineExpr] = [AffineDimExpr(i) for i in range(rank)]
    dims[key] = AffineDimExpr(key) // size * size
    return expr.replace_dims_and_symbols(dims, [])


def _equal(
    kernel: region.KernelOp, axes: tuple[AxisAttr, ...], one: AffineExpr, other: AffineExpr
) -> bool:
    """Whether two expressions of ``axes`` are equal at all points."""
    points = domain(kernel, axes)
    difference = canonical_expr(one - other)
    rows: tuple[AffineConstraintExpr, ...] = (constraint_of(linear_of(difference), True),)
    return isl.implies(points, AffineSet(points.num_dims, points.num_symbols, rows))
