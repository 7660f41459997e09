"""Functions of elements and indices that Python has no operator for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any, Protocol, TypeVar, overload
from typing import cast as typed

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import AnyFloat, f32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from polyc.dialects.gpu.scalars import APPROXIMATE
from polyc.dialects.gpu.scalars import sigmoid as sigmoid_ops
from polyc.tile.indices import Index, IndexLike, Size, apply_map, element, leaf, of_sizes, ssa_index
from polyc.tile.scalars import (
    INTEGER_OPS,
    Scalar,
    ScalarLike,
    binary,
    converted,
    dtype,
    hinted,
    make,
    named_scalar,
    number,
    pair,
    scalar,
    truth,
    unary,
)
from polyc.tile.source import public, refuse
from polyc.tile.trace import INDEX, constant, kernel_trace, new_constant, value_of

Named = TypeVar("Named")


def _either(word: str, a: object, b: object) -> Scalar | Index:
    if isinstance(a, Scalar) or isinstance(b, Scalar):
        return binary(word, a, b)
    kernel_trace()
    made = value_of(make(INTEGER_OPS[word], ssa_index(a), ssa_index(b)), hinted())
    return leaf(made)


@overload
def max(a: Index | Size, b: IndexLike) -> Index: ...
@overload
def max(a: int, b: Index | Size) -> Index: ...
@overload
def max(a: Scalar, b: ScalarLike) -> Scalar: ...
@overload
def max(a: float, b: Scalar) -> Scalar: ...
@public
def max(a: object, b: object) -> Scalar | Index:
    """The larger of two elements (NaN if one is), or of two indices."""
    return _either("max", a, b)


@overload
def min(a: Index | Size, b: IndexLike) -> Index: ...
@overload
def min(a: int, b: Index | Size) -> Index: ...
@overload
def min(a: Scalar, b: ScalarLike) -> Scalar: ...
@overload
def min(a: float, b: Scalar) -> Scalar: ...
@public
def min(a: object, b: object) -> Scalar | Index:
    """The smaller of two elements (NaN if one is), or of two indices."""
    return _either("min", a, b)


@public
def ceildiv(a: IndexLike, b: IndexLike) -> Size | Index:
    """``a / b`` rounded up: a size on the host, an index in a kernel."""
    if isinstance(a, AffineExpr) and isinstance(b, int):  # in the function of T.apply
        return typed(Any, a.ceil_div(b))
    return of_sizes("ceildiv", a, b)


@public
def add(a: IndexLike, b: IndexLike) -> Index:
    """``a + b`` by an op of ``arith`` of its own, which is not part of an affine expression."""
    kernel_trace()
    return leaf(value_of(arith.AddiOp(ssa_index(a), ssa_index(b)), hinted()))


@public
def subtract(a: IndexLike, b: IndexLike) -> Index:
    """``a - b`` by an op of ``arith`` of its own, which is not part of an affine expression."""
    kernel_trace()
    return leaf(value_of(arith.SubiOp(ssa_index(a), ssa_index(b)), hinted()))


@public
def divide(a: IndexLike, b: IndexLike) -> Index:
    """``a // b`` where both are 0 or more: an unsigned division, shorter than ``//``."""
    kernel_trace()
    return leaf(value_of(arith.DivUIOp(ssa_index(a), ssa_index(b)), hinted()))


@public
def remainder(a: IndexLike, b: IndexLike) -> Index:
    """``a % b`` where both are 0 or more."""
    kernel_trace()
    return leaf(value_of(arith.RemUIOp(ssa_index(a), ssa_index(b)), hinted()))


@overload
def const(value: int) -> Index: ...
@overload
def const(value: float, kind: object) -> Scalar: ...
@public
def const(value: float, kind: object = INDEX) -> Index | Scalar:
    """A constant with an op and a name of its own; the same number later on is this one."""
    kernel_trace()
    return element(new_constant(value, dtype(kind), hinted()))


@public
def cast(value: ScalarLike | IndexLike, to: object) -> Scalar:
    """``value`` as an element of type ``to``: floats round, an index becomes an integer."""
    kernel_trace()
    kind, hint = dtype(to), hinted()
    if isinstance(value, int | float):
        return named_scalar(number(value, kind))
    start = value.value if isinstance(value, Scalar) else ssa_index(value)
    return scalar(converted(start, kind, hint))


@overload
def select(condition: Scalar, a: Scalar, b: ScalarLike) -> Scalar: ...
@overload
def select(condition: Scalar, a: float, b: Scalar) -> Scalar: ...
@overload
def select(condition: Scalar, a: Index | Size, b: IndexLike) -> Index: ...
@overload
def select(condition: Scalar, a: int, b: Index | Size) -> Index: ...
@public
def select(condition: Scalar, a: object, b: object) -> Scalar | Index:
    """``a`` where the condition holds, else ``b``."""
    test = truth(condition)
    if isinstance(a, Scalar) and isinstance(b, Scalar) and a.kind == b.kind:
        left, right = a.value, b.value
    elif isinstance(a, Scalar) or isinstance(b, Scalar):
        left, right = pair(a, b)
    else:
        left, right = ssa_index(a), ssa_index(b)
    return element(value_of(arith.SelectOp(test, left, right), hinted()))


@public
def fma(a: ScalarLike, b: ScalarLike, c: ScalarLike) -> Scalar:
    """``a * b + c``, rounded once."""
    known = next((x for x in (a, b, c) if isinstance(x, Scalar)), None)
    if known is None:
        refuse("MixedNumbers", "fma takes an element of the kernel among its operands")
    kind = known.wide().type
    first, second, third = (
        x.wide() if isinstance(x, Scalar) else number(x, kind) for x in (a, b, c)
    )
    return scalar(value_of(math.FmaOp(first, second, third), hinted()))


class _Function(Protocol):
    __name__: str

    def __call__(self, x: Scalar, *, approximate: bool = False) -> Scalar: ...


def _function(name: str, kind: type[Operation], what: str) -> _Function:
    def function(x: Scalar, *, approximate: bool = False) -> Scalar:
        found = unary(kind, x)
        if approximate:
            owner = found.value.owner
            assert isinstance(owner, Operation)
            owner.properties["fastmath"] = APPROXIMATE
        return found

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{what} of an element, in f32; ``approximate`` allows a shorter one."
    return typed("_Function", public(function))


exp = _function("exp", math.ExpOp, "e to the power")
exp2 = _function("exp2", math.Exp2Op, "2 to the power")
log = _function("log", math.LogOp, "Natural logarithm")
log2 = _function("log2", math.Log2Op, "Logarithm to base 2")
sqrt = _function("sqrt", math.SqrtOp, "Square root")
rsqrt = _function("rsqrt", math.RsqrtOp, "1 over the square root")
tanh = _function("tanh", math.TanhOp, "Hyperbolic tangent")
erf = _function("erf", math.ErfOp, "Error function")
abs = _function("abs", math.AbsFOp, "Absolute value")
acos = _function("acos", math.AcosOp, "Arc cosine")
acosh = _function("acosh", math.AcoshOp, "Inverse hyperbolic cosine")
asin = _function("asin", math.AsinOp, "Arc sine")
asinh = _function("asinh", math.AsinhOp, "Inverse hyperbolic sine")
atan = _function("atan", math.AtanOp, "Arc tangent")
atanh = _function("atanh", math.AtanhOp, "Inverse hyperbolic tangent")
cbrt = _function("cbrt", math.CbrtOp, "Third root")
ceil = _function("ceil", math.CeilOp, "Next whole number upwards")
cos = _function("cos", math.CosOp, "Cosine")
cosh = _function("cosh", math.CoshOp, "Hyperbolic cosine")
expm1 = _function("expm1", math.ExpM1Op, "e to the power, less 1")
floor = _function("floor", math.FloorOp, "Next whole number downwards")
log10 = _function("log10", math.Log10Op, "Logarithm to base 10")
log1p = _function("log1p", math.Log1pOp, "Natural logarithm of 1 more")
round = _function("round", math.RoundEvenOp, "Nearest whole number, ties to even")
sin = _function("sin", math.SinOp, "Sine")
sinh = _function("sinh", math.SinhOp, "Hyperbolic sine")
tan = _function("tan", math.TanOp, "Tangent")
trunc = _function("trunc", math.TruncOp, "Next whole number towards 0")


@public
def sigmoid(x: Scalar) -> Scalar:
    """``1 / (1 + exp(-x))``."""
    if not isinstance(x.kind, AnyFloat):
        refuse("MixedNumbers", "sigmoid takes a float; T.cast makes one")
    *ops, last = sigmoid_ops(x.wide(), constant(1.0, f32))
    for op in ops:
        value_of(op)
    return scalar(value_of(last, hinted()))


def affine_map(dims: int, function: Callable[..., Any], symbols: int = 0) -> AffineMap:
    """The map that a Python function of coordinates, and then of symbols, computes."""
    if len(signature(function).parameters) != dims + symbols:
        refuse("WrongRank", f"the function takes {dims + symbols} coordinates")
    given = function(
        *(AffineExpr.dimension(i) for i in range(dims)),
        *(AffineExpr.symbol(i) for i in range(symbols)),
    )
    results = list(typed("Sequence[object]", given)) if isinstance(given, tuple | list) else [given]
    found: list[AffineExpr] = []
    for one in results:
        if isinstance(one, int):
            found.append(AffineExpr.constant(one))
        elif isinstance(one, AffineExpr):
            found.append(one)
        else:
            refuse("NotAffine", f"{one!r} is no affine expression of the coordinates")
    return AffineMap(dims, symbols, tuple(found))


@public
def apply(
    function: Callable[..., Any], *operands: IndexLike, symbols: Sequence[IndexLike] = ()
) -> Index:
    """``affine.apply`` of a function: ``T.apply(lambda c: (c + 31) // 32, C)``.

    Operators make these ops themselves, of sizes alone with symbols; here every operand is a
    dimension of the map, and those of ``symbols``, which come last, are its symbols.
    """
    kernel_trace()
    of = affine_map(len(operands), function, len(symbols))
    if len(of.results) != 1:
        refuse("NotAffine", f"the function gives one index, not {len(of.results)}")
    return leaf(apply_map(of, [ssa_index(o) for o in (*operands, *symbols)], hinted()))


@public
def name(value: Named, text: str) -> Named:
    """``value``, called ``text`` in the text where it has no name of a variable."""
    made: object = ssa_index(value) if isinstance(value, Index) else getattr(value, "value", None)
    if not isinstance(made, SSAValue):
        refuse("NotAValue", f"{value!r} is no value of the kernel")
    found = typed("SSAValue[Attribute]", made)
    if found.name_hint is None:
        found.name_hint = text
    return typed(Named, leaf(found)) if isinstance(value, Index) else value
