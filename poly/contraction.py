"""Contractions: which axes of a sum of products are batch, rows, columns and reduction.

A sum over reduced axes of ``lhs[f(i)] * rhs[g(i)]`` is a matrix product when every axis
has one role (S5.2):

=========  ==================  =======================
role       read by             in
=========  ==================  =======================
batch      both operands       the output
lhs (m)    the lhs alone       the output
rhs (n)    the rhs alone       the output
reduce (k) both operands       the reduced axes
=========  ==================  =======================

and every operand coordinate is one axis plus an offset that no axis changes.  Isl
decides which axes a coordinate depends on; spelling does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap, AffineSet

from polyc.poly import isl

Role = Literal["batch", "lhs", "rhs", "reduce"]


@dataclass(frozen=True, slots=True)
class Operand:
    """How one operand is read: for each coordinate its axis, or None, and an offset.

    ``axes[i]`` is a dimension of the domain; coordinate ``i`` is that dimension plus
    ``offsets[i]``, an expression of symbols (0 where the access is plain).
    """

    axes: tuple[int | None, ...]
    offsets: tuple[AffineExpr, ...]

    @property
    def plain(self) -> bool:
        """Whether every coordinate is an axis with no offset."""
        zero = AffineConstantExpr(0)
        return None not in self.axes and all(o == zero for o in self.offsets)


@dataclass(frozen=True, slots=True)
class ContractionPattern:
    """A recognised contraction; axes are dimensions of the domain, outputs first.

    ``batch``, ``lhs_axes`` (m), ``rhs_axes`` (n) and ``reduce`` (k) part the dimensions,
    each in increasing order.  ``lhs`` and ``rhs`` give the order in which the operands
    have them, so that a transposed operand shows.
    """

    kind: Literal["matmul"]
    names: tuple[str, ...]
    batch: tuple[int, ...]
    lhs_axes: tuple[int, ...]
    rhs_axes: tuple[int, ...]
    reduce: tuple[int, ...]
    lhs: Operand
    rhs: Operand

    def role(self, axis: int) -> Role:
        """The role of a dimension of the domain."""
        if axis in self.batch:
            return "batch"
        if axis in self.lhs_axes:
            return "lhs"
        return "rhs" if axis in self.rhs_axes else "reduce"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a sum of products is no contraction of a known kind, as one clause."""

    reason: str


def classify(
    out_axes: Sequence[str],
    reduce_axes: Sequence[str],
    lhs_map: AffineMap,
    rhs_map: AffineMap,
    domain: AffineSet,
) -> ContractionPattern | Refusal:
    """Decide whether ``out = sum over reduce_axes of lhs * rhs`` is a matrix product.

    ``out_axes`` and ``reduce_axes`` name the dimensions of both maps and of ``domain``,
    outputs first.  The maps take a point of the domain to the operands' coordinates.
    Raises ``IslLimitExceeded``, and ValueError when the dimensions do not match.
    """
    names = (*out_axes, *reduce_axes)
    for space in (lhs_map, rhs_map, domain):
        if space.num_dims != len(names):
            raise ValueError(f"{space} has {space.num_dims} dimensions for axes {list(names)}")
    if not reduce_axes:
        return Refusal("no axis is reduced")
    reads = [_read_axes(m, domain) for m in (lhs_map, rhs_map)]
    roles: dict[Role, list[int]] = {"batch": [], "lhs": [], "rhs": [], "reduce": []}
    for axis, name in enumerate(names):
        in_lhs, in_rhs = axis in reads[0], axis in reads[1]
        if axis >= len(out_axes):
            if not (in_lhs and in_rhs):
                side = "neither operand reads" if in_lhs == in_rhs else "only one operand reads"
                return Refusal(f"{side} the reduced axis {name}")
            roles["reduce"].append(axis)
        elif in_lhs and in_rhs:
            roles["batch"].append(axis)
        elif in_lhs or in_rhs:
            roles["lhs" if in_lhs else "rhs"].append(axis)
        else:
            return Refusal(f"neither operand reads the output axis {name}")
    operands: list[Operand] = []
    for side, map in (("lhs", lhs_map), ("rhs", rhs_map)):
        operand = _operand(side, names, map, domain)
        if isinstance(operand, Refusal):
            return operand
        operands.append(operand)
    return ContractionPattern(
        "matmul",
        names,
        tuple(roles["batch"]),
        tuple(roles["lhs"]),
        tuple(roles["rhs"]),
        tuple(roles["reduce"]),
        operands[0],
        operands[1],
    )


def _read_axes(map: AffineMap, domain: AffineSet) -> frozenset[int]:
    """The axes that change the access.

    An axis of one point changes nothing; it counts as read where it is written, which
    is as true as any other role and keeps a size of 1 from hiding a matrix product.
    """
    return frozenset(d for d in range(map.num_dims) if _depends(map, d, domain))


def _depends(map: AffineMap, dim: int, domain: AffineSet) -> bool:
    if not any(isl.uses_dim(expr, dim) for expr in map.results):
        return False
    return isl.map_uses_dim(map, dim, domain) or _single_valued(dim, domain)


def _single_valued(dim: int, domain: AffineSet) -> bool:
    """Whether ``dim`` is fixed by the other dimensions and the symbols."""
    alone = AffineMap(domain.num_dims, domain.num_symbols, (AffineDimExpr(dim),))
    return not isl.map_uses_dim(alone, dim, domain)


def _operand(
    side: str, names: Sequence[str], map: AffineMap, domain: AffineSet
) -> Operand | Refusal:
    axes: list[int | None] = []
    offsets: list[AffineExpr] = []
    for i, expr in enumerate(map.results):
        one = AffineMap(map.num_dims, map.num_symbols, (expr,))
        used = sorted(_read_axes(one, domain))
        if len(used) > 1:
            mixed = " and ".join(names[d] for d in used)
            return Refusal(f"coordinate {i} of the {side} mixes the axes {mixed}")
        if not used:
            axes.append(None)
            offsets.append(isl.simplify_map(one, domain).results[0])
            continue
        axis = used[0]
        if axis in axes:
            return Refusal(f"the {side} reads the axis {names[axis]} twice, on a diagonal")
        rest = AffineMap(
            map.num_dims,
            map.num_symbols,
            (isl.canonical_expr(expr - AffineDimExpr(axis)),),
        )
        if _read_axes(rest, domain):
            return Refusal(f"coordinate {i} of the {side} steps along {names[axis]} by not 1")
        axes.append(axis)
        offsets.append(isl.simplify_map(rest, domain).results[0])
    return Operand(tuple(axes), tuple(offsets))
