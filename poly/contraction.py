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

and every operand coordinate is an offset that no axis changes plus one of

* an axis;
* a split: axes that together count the dimension once, as ``4 * g + c`` with ``c < 4``;
* a window: ``stride * h + dilation * r`` of an axis of the operand's own and a reduced one.

With a window, or a stride alone, the product is a convolution (S4.9).  Isl decides which axes
a coordinate depends on and whether a split counts once; spelling does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap, AffineSet

from polyc.affine import isl
from polyc.affine.expressions import Atom, Floor, Linear, constraint_of, expr_of, linear_of

Role = Literal["batch", "lhs", "rhs", "reduce"]


@dataclass(frozen=True, slots=True)
class Coordinate:
    """One coordinate of an operand: the sum of ``step * axis`` over ``terms``, and ``offset``.

    ``terms`` holds (dimension of the domain, step), the largest step first; ``offset`` is an
    expression of symbols.
    """

    terms: tuple[tuple[int, int], ...]
    offset: AffineExpr

    @property
    def axis(self) -> int | None:
        """The axis of a coordinate that follows one by steps of 1."""
        return self.terms[0][0] if [step for _, step in self.terms] == [1] else None


@dataclass(frozen=True, slots=True)
class Window:
    """A coordinate ``stride * axis + dilation * tap + offset`` of one side of a convolution.

    ``tap`` is the reduced axis, or None where the window has one point and no axis.
    """

    side: Literal["lhs", "rhs"]
    coordinate: int
    axis: int
    stride: int
    tap: int | None
    dilation: int
    offset: AffineExpr


@dataclass(frozen=True, slots=True)
class Operand:
    """How one operand is read: its coordinates, outermost first."""

    coordinates: tuple[Coordinate, ...]

    @property
    def axes(self) -> tuple[int | None, ...]:
        """For each coordinate the one axis that it follows by steps of 1, or None."""
        return tuple(c.axis for c in self.coordinates)

    @property
    def offsets(self) -> tuple[AffineExpr, ...]:
        return tuple(c.offset for c in self.coordinates)

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
    have them, so that a transposed operand shows.  ``windows`` is empty in a matmul.
    """

    kind: Literal["matmul", "conv"]
    names: tuple[str, ...]
    batch: tuple[int, ...]
    lhs_axes: tuple[int, ...]
    rhs_axes: tuple[int, ...]
    reduce: tuple[int, ...]
    lhs: Operand
    rhs: Operand
    windows: tuple[Window, ...] = ()

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
    """Decide whether ``out = sum over reduce_axes of lhs * rhs`` is a matmul or a convolution.

    ``out_axes`` and ``reduce_axes`` name the dimensions of both maps and of ``domain``,
    outputs first.  The maps take a point of the domain to the operands' coordinates.
    Raises ``IslLimitExceeded``, and ValueError when the dimensions do not match.
    """
    return _classified(tuple(out_axes), tuple(reduce_axes), lhs_map, rhs_map, domain)


@lru_cache(maxsize=4096)
def _classified(
    out_axes: Sequence[str],
    reduce_axes: Sequence[str],
    lhs_map: AffineMap,
    rhs_map: AffineMap,
    domain: AffineSet,
) -> ContractionPattern | Refusal:
    """The same, remembered: families, patterns and the cut ask of a region in turn."""
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
    if not roles["lhs"] and not roles["rhs"] and out_axes:
        return Refusal("both operands are read along the same axes, so nothing is used twice")
    operands: list[Operand] = []
    windows: list[Window] = []
    sides: tuple[tuple[Literal["lhs", "rhs"], AffineMap], ...] = (
        ("lhs", lhs_map),
        ("rhs", rhs_map),
    )
    for side, map in sides:
        operand = _operand(side, names, map, domain)
        if isinstance(operand, Refusal):
            return operand
        operands.append(operand)
        for i, coordinate in enumerate(operand.coordinates):
            found = _windowed(side, i, coordinate, roles[side], roles["reduce"])
            if found is not None:
                windows.append(found)
            elif (why := _why_not_counted(side, i, coordinate, names, domain)) is not None:
                return Refusal(why)
    return ContractionPattern(
        "conv" if windows else "matmul",
        names,
        tuple(roles["batch"]),
        tuple(roles["lhs"]),
        tuple(roles["rhs"]),
        tuple(roles["reduce"]),
        operands[0],
        operands[1],
        tuple(windows),
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
    """The coordinates as sums of axes, each axis in one of them."""
    coordinates: list[Coordinate] = []
    seen: set[int] = set()
    for i, expr in enumerate(map.results):
        where = f"coordinate {i} of the {side}"
        one = AffineMap(map.num_dims, map.num_symbols, (expr,))
        linear = linear_of(expr)
        if _floors_axes(linear):
            linear = linear_of(isl.simplify_map(one, domain).results[0])
        used = sorted(_read_axes(one, domain))
        if _floors_axes(linear):
            if len(used) == 1:
                return Refusal(f"{where} steps along {names[used[0]]} by not 1")
            return Refusal(f"{where} mixes the axes {_listed(used, names)}")
        steps, offset = _parted(linear)
        for axis, step in steps.items():
            if axis in seen:
                return Refusal(f"the {side} reads the axis {names[axis]} twice, on a diagonal")
            if step < 0:
                return Refusal(f"{where} runs backwards along {names[axis]}")
            seen.add(axis)
        terms = sorted(steps.items(), key=lambda t: (-t[1], t[0]))
        coordinates.append(Coordinate(tuple(terms), expr_of(offset)))
    return Operand(tuple(coordinates))


def _parted(linear: Linear) -> tuple[dict[int, int], Linear]:
    """The step along each dimension, and what is left, over symbols."""
    steps: dict[int, int] = {}
    rest: list[tuple[Atom, int]] = []
    for atom, step in linear.terms:
        if isinstance(atom, Floor) or atom[0] == "s":
            rest.append((atom, step))
        else:
            steps[atom[1]] = step
    return steps, Linear(tuple(rest), linear.constant)


def _floors_axes(linear: Linear) -> bool:
    """Whether a floor of the expression holds a dimension."""

    def holds(inner: Linear) -> bool:
        return any(
            holds(atom.num) if isinstance(atom, Floor) else atom[0] == "d"
            for atom, _ in inner.terms
        )

    return any(isinstance(atom, Floor) and holds(atom.num) for atom, _ in linear.terms)


def _windowed(
    side: Literal["lhs", "rhs"],
    number: int,
    coordinate: Coordinate,
    own: Sequence[int],
    reduced: Sequence[int],
) -> Window | None:
    """The coordinate as a window, or as a stride along an axis of the operand's own."""
    terms = dict(coordinate.terms)
    axes = [a for a in terms if a in own]
    taps = [a for a in terms if a in reduced]
    if len(axes) != 1 or len(axes) + len(taps) != len(terms) or len(taps) > 1:
        return None
    axis, tap = axes[0], taps[0] if taps else None
    if tap is None and terms[axis] == 1:
        return None
    dilation = 1 if tap is None else terms[tap]
    return Window(side, number, axis, terms[axis], tap, dilation, coordinate.offset)


def _why_not_counted(
    side: str, number: int, coordinate: Coordinate, names: Sequence[str], domain: AffineSet
) -> str | None:
    """Why the axes of a coordinate do not count its points once each; None where they do."""
    terms = coordinate.terms
    where = f"coordinate {number} of the {side}"
    if terms and terms[-1][1] != 1:
        return f"{where} steps along {names[terms[-1][0]]} by not 1"
    for i, (_, step) in enumerate(terms[:-1]):
        inner = Linear.of([(("d", axis), -inside) for axis, inside in terms[i + 1 :]], step - 1)
        below = constraint_of(inner, False)
        if not isl.implies(domain, AffineSet(domain.num_dims, domain.num_symbols, (below,))):
            axes = sorted(axis for axis, _ in terms)
            return f"{where} mixes the axes {_listed(axes, names)}"
    return None


def _listed(axes: Sequence[int], names: Sequence[str]) -> str:
    return " and ".join(names[a] for a in axes)
