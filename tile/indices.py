"""Whole numbers of a traced program: sizes and indices, with Python's operators.

A ``Size`` is known to the host: it stands in shapes, grids and conditions.  An ``Index`` is a
coordinate in a kernel; what is affine in other indices stays one expression until it is stored in
a variable or used, and then becomes one ``affine.apply``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn, TypeVar

from xdsl.dialects import affine, arith
from xdsl.dialects.builtin import (
    AffineMapAttr,
    IndexType,
)
from xdsl.ir import SSAValue
from xdsl.ir.affine import (
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
)

from polyc.dialects.common.dim import Dim
from polyc.dialects.gpu.tile import TileIndexOp
from polyc.tile.scalars import Scalar, hinted, no_number, no_truth, scalar
from polyc.tile.source import public, refuse, target
from polyc.tile.specs import read_dim
from polyc.tile.trace import (
    INDEX,
    Scope,
    constant,
    in_kernel,
    in_map,
    kernel_trace,
    valid_hint,
    value_of,
    visible,
)

T = TypeVar("T")

index = INDEX

# Sizes ---------------------------------------------------------------------------------


class Size:
    """A size that the host knows: a polynomial of symbols, ``M`` or ``(N + 63) // 64``.

    In a kernel it is an index, the value of the kernel's argument for the symbol.
    """

    noun = "an index"
    """What messages call it."""

    __slots__ = ("dim",)
    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __init__(self, dim: Dim) -> None:
        self.dim = dim

    def __str__(self) -> str:
        return str(self.dim)

    __repr__ = __str__

    def __add__(self, other: IndexLike) -> Size | Index:
        return of_sizes("add", self, other)

    def __radd__(self, other: IndexLike) -> Size | Index:
        return of_sizes("add", other, self)

    def __sub__(self, other: IndexLike) -> Size | Index:
        return of_sizes("sub", self, other)

    def __rsub__(self, other: IndexLike) -> Size | Index:
        return of_sizes("sub", other, self)

    def __mul__(self, other: IndexLike) -> Size | Index:
        return of_sizes("mul", self, other)

    def __rmul__(self, other: IndexLike) -> Size | Index:
        return of_sizes("mul", other, self)

    def __floordiv__(self, other: IndexLike) -> Size | Index:
        return of_sizes("floordiv", self, other)

    def __rfloordiv__(self, other: IndexLike) -> Size | Index:
        return of_sizes("floordiv", other, self)

    def __truediv__(self, other: object) -> NoReturn:
        _no_fraction()

    def __mod__(self, other: IndexLike) -> Size | Index:
        return of_sizes("mod", self, other)

    def __rmod__(self, other: IndexLike) -> Size | Index:
        return of_sizes("mod", other, self)

    def __neg__(self) -> Size | Index:
        return of_sizes("mul", self, -1)

    def __lt__(self, other: IndexLike) -> Scalar:
        return _as_value(self) < other

    def __le__(self, other: IndexLike) -> Scalar:
        return _as_value(self) <= other

    def __gt__(self, other: IndexLike) -> Scalar:
        return _as_value(self) > other

    def __ge__(self, other: IndexLike) -> Scalar:
        return _as_value(self) >= other

    def __eq__(self, other: object) -> Scalar:  # pyright: ignore[reportIncompatibleMethodOverride]
        return _as_value(self) == other

    def __ne__(self, other: object) -> Scalar:  # pyright: ignore[reportIncompatibleMethodOverride]
        return _as_value(self) != other

    def __bool__(self) -> bool:
        no_truth()

    def __index__(self) -> int:
        no_number()


def _as_value(size: Size) -> Index:
    kernel_trace()
    return to_index(size)


@public
def sizes(*names: str) -> tuple[Size, ...]:
    """Symbolic sizes by name: ``M, N = T.sizes("M", "N")``."""
    return tuple(Size(read_dim(name)) for name in names)


@public
def size(name: str) -> Size:
    """One symbolic size, or an expression of them: ``T.size("(H - 1) floordiv 2 + 1")``."""
    return Size(read_dim(name))


def to_dim(given: object) -> Dim:
    """A size for the host: an integer, a symbol's name, or an expression of sizes."""
    match given:
        case bool():
            pass
        case int():
            return Dim.const(given)
        case str():
            return read_dim(given)
        case Size():
            return given.dim
        case Index():
            refuse(
                "NotASize",
                "the host computes shapes and grids, from sizes alone; this is an index of a "
                "kernel",
            )
        case _:
            pass
    refuse("NotASize", f"{given!r} is no size; take an integer, a name or an expression of sizes")


_SIZE_OPS: dict[str, Callable[[Dim, Dim], Dim]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a.floordiv(_divisor(b)),
    "ceildiv": lambda a, b: a.ceildiv(_divisor(b)),
    "mod": lambda a, b: a.mod(_divisor(b)),
}


def _divisor(dim: Dim) -> int:
    value = dim.constant()
    if value is None or value < 1:
        refuse("NotASize", f"a size is divided by a positive integer, not by {dim}")
    return value


def of_sizes(word: str, a: IndexLike, b: IndexLike) -> Size | Index:
    """An operation on sizes: on the host a size again, in a kernel an index."""
    if in_kernel() or isinstance(a, Index) or isinstance(b, Index):
        return _of_indices(word, a, b)
    return Size(_SIZE_OPS[word](to_dim(a), to_dim(b)))


# Indices -------------------------------------------------------------------------------


@dataclass(eq=False)
class Axis:
    """An axis of the tile that ``T.parallel`` runs over."""

    scope: Scope
    position: int
    hint: str | None = None
    made: SSAValue | None = None


Leaf = SSAValue | Axis


class Index:
    """A coordinate: an affine expression of values of type ``index``."""

    noun = "an index"
    """What messages call it."""

    __slots__ = ("expr", "hint", "leaves", "made")
    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __init__(self, expr: AffineExpr, leaves: Sequence[Leaf]) -> None:
        self.expr = expr
        self.leaves = tuple(leaves)
        self.hint: str | None = None
        self.made: SSAValue | None = None

    def __add__(self, other: IndexLike) -> Index:
        return _of_indices("add", self, other)

    def __radd__(self, other: IndexLike) -> Index:
        return _of_indices("add", other, self)

    def __sub__(self, other: IndexLike) -> Index:
        return _of_indices("sub", self, other)

    def __rsub__(self, other: IndexLike) -> Index:
        return _of_indices("sub", other, self)

    def __mul__(self, other: IndexLike) -> Index:
        return _of_indices("mul", self, other)

    def __rmul__(self, other: IndexLike) -> Index:
        return _of_indices("mul", other, self)

    def __floordiv__(self, other: IndexLike) -> Index:
        return _of_indices("floordiv", self, other)

    def __truediv__(self, other: object) -> NoReturn:
        _no_fraction()

    def __rfloordiv__(self, other: IndexLike) -> Index:
        return _of_indices("floordiv", other, self)

    def __mod__(self, other: IndexLike) -> Index:
        return _of_indices("mod", self, other)

    def __rmod__(self, other: IndexLike) -> Index:
        return _of_indices("mod", other, self)

    def __neg__(self) -> Index:
        return _of_indices("mul", self, -1)

    def __lt__(self, other: IndexLike) -> Scalar:
        return _compare_indices("slt", self, other)

    def __le__(self, other: IndexLike) -> Scalar:
        return _compare_indices("sle", self, other)

    def __gt__(self, other: IndexLike) -> Scalar:
        return _compare_indices("sgt", self, other)

    def __ge__(self, other: IndexLike) -> Scalar:
        return _compare_indices("sge", self, other)

    def __eq__(self, other: object) -> Scalar:  # pyright: ignore[reportIncompatibleMethodOverride]
        return _compare_indices("eq", self, other)

    def __ne__(self, other: object) -> Scalar:  # pyright: ignore[reportIncompatibleMethodOverride]
        return _compare_indices("ne", self, other)

    def __bool__(self) -> bool:
        no_truth()

    def __index__(self) -> int:
        no_number()

    @property
    def value(self) -> SSAValue:
        """The value in the text; makes the ops that compute it."""
        return ssa_index(self)


IndexLike = int | Size | Index


def _no_fraction() -> NoReturn:
    refuse("NotAnIndex", "sizes and indices are whole: divide by //, or by T.ceildiv to round up")


def leaf(value: SSAValue) -> Index:
    """An SSA value of type index."""
    return Index(AffineExpr.dimension(0), (value,))


def to_index(given: object) -> Index:
    """An index from a number, a size or itself; raises PolycError ``NotAnIndex``."""
    match given:
        case Index():
            return given
        case bool():
            pass
        case int():
            return Index(AffineExpr.constant(given), ())
        case Size():
            return _index_of_dim(given.dim)
        case str():
            return _index_of_dim(read_dim(given))
        case _:
            pass
    what = f"a value of type {given.kind}" if isinstance(given, Scalar) else repr(given)
    refuse("NotAnIndex", f"{what} is no coordinate; take integers, sizes and indices")


def _index_of_dim(dim: Dim) -> Index:
    """A size in the open kernel, from the kernel's arguments."""
    kernel = kernel_trace().kernel
    assert kernel is not None
    names = dim.symbols()
    values = [kernel.symbol(name) for name in names]
    expr = dim.as_affine(names)
    if expr is not None:
        dims = [AffineExpr.dimension(i) for i in range(len(names))]
        return Index(expr.replace_dims_and_symbols([], dims), values)
    total: Index | None = None
    for mono, factor in dim.terms:
        product: Index = Index(AffineExpr.constant(factor), ())
        for atom in mono:
            if isinstance(atom, str):
                value = _index_of_dim(Dim.sym(atom))
            else:
                value = _combine(atom.kind, _index_of_dim(atom.num), to_index(atom.den))
            product = _combine("mul", product, value)
        total = product if total is None else _combine("add", total, product)
    return to_index(0) if total is None else total


def _merged(a: Index, b: Index) -> tuple[AffineExpr, AffineExpr, list[Leaf]]:
    """Both expressions over one list of leaves."""
    leaves = list(a.leaves)
    places: list[AffineExpr] = []
    for one in b.leaves:
        at = next((i for i, known in enumerate(leaves) if known is one), None)
        if at is None:
            at = len(leaves)
            leaves.append(one)
        places.append(AffineExpr.dimension(at))
    return a.expr, b.expr.replace_dims_and_symbols(places, []), leaves


_AFFINE: dict[str, Callable[[AffineExpr, AffineExpr], AffineExpr]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: -b + a if isinstance(a, AffineConstantExpr) else a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b,
    "ceildiv": lambda a, b: a.ceil_div(b),
    "mod": lambda a, b: a % b,
}


def _of_indices(word: str, given_a: object, given_b: object) -> Index:
    """An operation on indices: affine where it is, else an op of ``arith`` on their values."""
    if isinstance(given_a, Scalar) or isinstance(given_b, Scalar):
        refuse("MixedNumbers", "an index and an element do not mix; T.cast makes one of the other")
    kernel_trace()
    return stored(_combine(word, to_index(given_a), to_index(given_b)))


def _combine(word: str, a: Index, b: Index) -> Index:
    expr_a, expr_b, leaves = _merged(a, b)
    constant_b = isinstance(expr_b, AffineConstantExpr)
    divides = word in ("floordiv", "ceildiv", "mod")
    if divides and isinstance(expr_b, AffineConstantExpr) and expr_b.value < 1:
        refuse("NotAnIndex", f"an index is divided by a positive number, not by {expr_b.value}")
    if constant_b or (not divides and (word != "mul" or isinstance(expr_a, AffineConstantExpr))):
        return Index(_AFFINE[word](expr_a, expr_b), leaves)
    return leaf(_arith(word, ssa_index(a), ssa_index(b)))


def _arith(word: str, a: SSAValue, b: SSAValue) -> SSAValue:
    if word == "mul":
        return value_of(arith.MuliOp(a, b))
    if word == "ceildiv":
        return value_of(arith.CeilDivSIOp(a, b))
    quotient = value_of(arith.FloorDivSIOp(a, b))
    if word == "floordiv":
        return quotient
    return value_of(arith.SubiOp(a, value_of(arith.MuliOp(quotient, b))))


def stored(found: Index) -> Index:
    """An index whose expression is stored in a variable is computed there, under its name.

    In the body of ``T.parallel`` it stays an expression, because it may say which element is meant;
    its value, where one is needed, gets the name.
    """
    name = target()
    if name is None:
        return found
    if in_map():
        found.hint = found.hint or valid_hint(name)
        return found
    match found.expr:
        case AffineConstantExpr():
            return found
        case AffineDimExpr():
            (value,) = found.leaves
            if isinstance(value, SSAValue) and value.name_hint is None:
                value.name_hint = valid_hint(name)
            return found
        case _:
            return leaf(_apply(found, valid_hint(name)))


def _apply(found: Index, hint: str | None) -> SSAValue:
    """An ``affine.apply`` of the leaves that the expression uses.

    They are its dimensions; those of an expression of sizes alone are its symbols, as where the
    passes compute a size.
    """
    kernel = kernel_trace().kernel
    assert kernel is not None
    used = sorted(found.expr.used_dims())
    values = [_leaf_value(found.leaves[i]) for i in used]
    is_size = all(kernel.is_symbol(value) for value in values)
    places = [AffineExpr.constant(0)] * len(found.leaves)
    for new, old in enumerate(used):
        places[old] = AffineExpr.symbol(new) if is_size else AffineExpr.dimension(new)
    expr = found.expr.replace_dims_and_symbols(places, [])
    dims, symbols = (0, len(used)) if is_size else (len(used), 0)
    return apply_map(AffineMap(dims, symbols, (expr,)), values, hint)


def apply_map(of: AffineMap, operands: Sequence[SSAValue], hint: str | None) -> SSAValue:
    """An ``affine.apply``."""
    return value_of(affine.ApplyOp(operands, AffineMapAttr(of)), hint)


def _leaf_value(one: Leaf) -> SSAValue:
    if isinstance(one, SSAValue):
        return one
    if not any(s is one.scope for s in kernel_trace().scopes):
        refuse("OutOfScope", "an axis of T.parallel is known in its body only")
    if one.made is None or not visible(one.made):
        one.made = value_of(TileIndexOp(one.position), one.hint)
    return one.made


def ssa_index(given: object) -> SSAValue:
    """The value of an index; makes the ops that compute it."""
    found = to_index(given)
    match found.expr:
        case AffineConstantExpr(value):
            return constant(value, INDEX)
        case AffineDimExpr(position):
            return _leaf_value(found.leaves[position])
        case _:
            pass
    if found.made is None or not visible(found.made):
        found.made = _apply(found, found.hint)
    return found.made


def _compare_indices(word: str, a: object, b: object) -> Scalar:
    if isinstance(a, Scalar) or isinstance(b, Scalar):
        refuse("MixedNumbers", "an index and an element do not compare; T.cast one of them")
    kernel_trace()
    return scalar(value_of(arith.CmpiOp(ssa_index(a), ssa_index(b), word), hinted()))


def element(value: SSAValue) -> Index | Scalar:
    """A value of an element type, as Python sees it."""
    return leaf(value) if isinstance(value.type, IndexType) else scalar(value)
