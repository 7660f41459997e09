"""CUDA C of the upstream ops that kernels use: arith, math, scf, affine.apply, memref.

``index`` is a 32-bit int and i64 a long long, whose arithmetic must not overflow but where an op
says that it ``wraps``; other integers wrap.  Floating point is f32, as ``docs/semantics.md`` says:
f16 and bf16 are only converted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects import affine, arith, math, memref, scf, vector
from xdsl.dialects.builtin import (
    Float32Type,
    FloatAttr,
    IndexType,
    IntegerType,
    MemRefType,
    NoneAttr,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineSymExpr,
)

from polyc.dialects.gpu.hardware import scalar_type
from polyc.dialects.gpu.loops import is_rolled, is_unrolled
from polyc.dialects.gpu.scalars import inverts_each, is_approximate, is_one, wraps
from polyc.dialects.gpu.types import REGISTER
from polyc.lowering.gpu_to_cuda.writer import KernelWriter, not_lowered, prints
from polyc.passes.support.gpu.signs import never_negative, sum_of_counts
from polyc.passes.support.gpu.symbols import constant_of

Row = Sequence[str]
"""The operands' elements at one place of a vector."""
View = Callable[[str, str], str]
"""Text and C type to the text of another view of the same bits."""


def elementwise(w: KernelWriter, op: Operation, function: Callable[[Row], str]) -> None:
    """Define the one result by ``function`` of the operands' elements."""
    (result,) = op.results
    t = w.type(result.type, op)
    rows = zip(*(w.elements(v) for v in op.operands), strict=True)
    w.define(result, w.vector(t, [function(row) for row in rows]))


# Integers ------------------------------------------------------------------------------

_SIGNED = {"u8": "signed char", "u16": "short", "u32": "int"}
_UNSIGNED = {"int": "u32", "i64": "u64"}


def _kind(w: KernelWriter, value: SSAValue, op: Operation) -> str:
    """The C type of a value's elements."""
    t = w.type(value.type, op)
    return t.element or t.name


def signed(text: str, kind: str) -> str:
    """``text`` of C type ``kind`` as a signed number."""
    if kind == "bool":
        return f"-(int){text}"
    return f"({_SIGNED[kind]}){text}" if kind in _SIGNED else text


def plain(text: str, kind: str) -> str:
    """``text`` as it is."""
    del kind
    return text


def unsigned(text: str, kind: str) -> str:
    """``text`` of C type ``kind`` as an unsigned number."""
    return f"({_UNSIGNED[kind]}){text}" if kind in _UNSIGNED else text


def _narrow(text: str, kind: str) -> str:
    """``text`` cut to C type ``kind`` where C's own arithmetic is wider."""
    return f"({kind})({text})" if kind in ("u8", "u16") else text


_OVERFLOWING = (arith.AddiOp, arith.SubiOp, arith.MuliOp)
"""Ops whose result may be beyond C's signed type."""


def _wrapping(op: Operation, kind: str) -> View:
    """The view of operands under which C wraps: one without a sign, of 32 bits at least."""
    if kind == "i64" and wraps(op):
        return unsigned
    # C multiplies two shorts as ints, which overflow.
    product = kind == "u16" and isinstance(op, arith.MuliOp)
    return (lambda text, kind: f"(u32){text}") if product else plain


_INTEGER: dict[type[Operation], tuple[View, str]] = {
    arith.AddiOp: (plain, "{a} + {b}"),
    arith.SubiOp: (plain, "{a} - {b}"),
    arith.MuliOp: (plain, "{a} * {b}"),
    arith.DivSIOp: (signed, "{a} / {b}"),
    arith.RemSIOp: (signed, "{a} % {b}"),
    arith.DivUIOp: (unsigned, "{a} / {b}"),
    arith.RemUIOp: (unsigned, "{a} % {b}"),
    arith.AndIOp: (plain, "{a} & {b}"),
    arith.OrIOp: (plain, "{a} | {b}"),
    arith.XOrIOp: (plain, "{a} ^ {b}"),
    arith.ShLIOp: (unsigned, "{a} << {y}"),
    arith.ShRUIOp: (unsigned, "{a} >> {y}"),
    arith.ShRSIOp: (signed, "{a} >> {y}"),
    arith.MinSIOp: (signed, "{a} < {b} ? {x} : {y}"),
    arith.MaxSIOp: (signed, "{a} > {b} ? {x} : {y}"),
    arith.MinUIOp: (unsigned, "{a} < {b} ? {x} : {y}"),
    arith.MaxUIOp: (unsigned, "{a} > {b} ? {x} : {y}"),
}
"""How the operands are seen, and the C: ``a`` and ``b`` as seen, ``x`` and ``y`` as they are."""

_BOOLEAN: dict[type[Operation], str] = {
    arith.AddiOp: "{a} ^ {b}",
    arith.SubiOp: "{a} ^ {b}",
    arith.MuliOp: "{a} & {b}",
}
"""Arithmetic of i1 is modulo 2."""


def _integer(w: KernelWriter, op: Operation) -> None:
    view, form = _INTEGER[type(op)]
    kind = _kind(w, op.results[0], op)
    if kind == "bool":
        form = _BOOLEAN.get(type(op), form)
    elif isinstance(op, _OVERFLOWING):
        view = _wrapping(op, kind)

    def element(row: Row) -> str:
        x, y = row
        text = form.format(a=view(x, kind), b=view(y, kind), x=x, y=y)
        return _narrow(text, kind)

    elementwise(w, op, element)


_INTEGER_NAMES: dict[type[Operation], str] = {
    arith.AddiOp: "sum",
    arith.SubiOp: "difference",
    arith.MuliOp: "product",
    arith.DivSIOp: "quotient",
    arith.DivUIOp: "quotient",
    arith.RemSIOp: "remainder",
    arith.RemUIOp: "remainder",
    arith.MinSIOp: "least",
    arith.MinUIOp: "least",
    arith.MaxSIOp: "most",
    arith.MaxUIOp: "most",
}

for _op in _INTEGER:
    prints(_op, _INTEGER_NAMES.get(_op, "bits"))(_integer)


@prints(arith.FloorDivSIOp, "quotient")
def _floor_div(w: KernelWriter, op: arith.FloorDivSIOp) -> None:
    _division(w, op, "floor_div")


@prints(arith.CeilDivSIOp, "quotient")
def _ceil_div(w: KernelWriter, op: arith.CeilDivSIOp) -> None:
    _division(w, op, "ceil_div")


def _division(w: KernelWriter, op: Operation, name: str) -> None:
    kind = _kind(w, op.results[0], op)
    function = f"{name}_i64" if kind == "i64" else name
    a, b = (signed(w.text(v), kind) for v in op.operands)
    w.define(op.results[0], w.call(function, a, b))


_COMPARE = ("==", "!=", "<", "<=", ">", ">=", "<", "<=", ">", ">=")


@prints(arith.CmpiOp, "holds")
def _compare_integers(w: KernelWriter, op: arith.CmpiOp) -> None:
    predicate, kind = op.predicate.value.data, _kind(w, op.lhs, op)
    view = plain if predicate < 2 else (signed if predicate < 6 else unsigned)
    a, b = view(w.text(op.lhs), kind), view(w.text(op.rhs), kind)
    w.define(op.result, f"{a} {_COMPARE[predicate]} {b}")


@prints(arith.SelectOp, "chosen")
def _select(w: KernelWriter, op: arith.SelectOp) -> None:
    if not isinstance(op.cond.type, IntegerType):
        raise not_lowered(op, "chooses by a vector", "choose element by element")
    w.define(op.result, f"{w.text(op.cond)} ? {w.text(op.lhs)} : {w.text(op.rhs)}")


def _convert_signed(w: KernelWriter, op: Operation) -> None:
    (value,), (result,) = op.operands, op.results
    source, target = _kind(w, value, op), _kind(w, result, op)
    elementwise(w, op, lambda row: f"({target}){signed(row[0], source)}")


def _convert_unsigned(w: KernelWriter, op: Operation) -> None:
    (value,), (result,) = op.operands, op.results
    source, target = _kind(w, value, op), _kind(w, result, op)
    elementwise(w, op, lambda row: f"({target}){unsigned(row[0], source)}")


prints(arith.IndexCastOp, "wide")(_convert_signed)
prints(arith.ExtSIOp, "wide")(_convert_signed)
prints(arith.ExtUIOp, "wide")(_convert_unsigned)
prints(arith.SIToFPOp, "x")(_convert_signed)
prints(arith.UIToFPOp, "x")(_convert_unsigned)


@prints(arith.FPToSIOp, "whole")
def _to_signed(w: KernelWriter, op: arith.FPToSIOp) -> None:
    _to_integer(w, op, signed=True)


@prints(arith.FPToUIOp, "whole")
def _to_unsigned(w: KernelWriter, op: arith.FPToUIOp) -> None:
    _to_integer(w, op, signed=False)


def _to_integer(w: KernelWriter, op: Operation, signed: bool) -> None:
    """A number that the type holds, cut towards 0: the hardware converts to 32 and 64 bits."""
    require_f32(op)
    target = _kind(w, op.results[0], op)
    wide = {("i64", True): "i64", ("i64", False): "u64"}.get((target, signed))
    wide = wide or ("int" if signed else "u32")
    elementwise(w, op, lambda row: f"({target})({wide}){row[0]}")


@prints(arith.TruncIOp, "low")
def _truncate_integer(w: KernelWriter, op: arith.TruncIOp) -> None:
    target = _kind(w, op.result, op)
    if target == "bool":
        elementwise(w, op, lambda row: f"{row[0]} & 1")
    else:
        elementwise(w, op, lambda row: f"({target}){row[0]}")


_BITS = {
    ("u32", "float"): "__uint_as_float({})",
    ("float", "u32"): "__float_as_uint({})",
    ("u16", "f16"): "{}",
    ("f16", "u16"): "{}",
    ("u16", "bf16"): "{}",
    ("bf16", "u16"): "{}",
    ("f16", "bf16"): "{}",
    ("bf16", "f16"): "{}",
}


@prints(arith.BitcastOp, "bits")
def _bitcast(w: KernelWriter, op: arith.BitcastOp) -> None:
    source, target = _kind(w, op.input, op), _kind(w, op.result, op)
    form = "{}" if source == target else _BITS.get((source, target))
    if form is None:
        raise not_lowered(
            op,
            f"takes the bits of {op.input.type} as {op.result.type}",
            "it can change between i32 and f32, and among 16-bit types",
        )
    elementwise(w, op, lambda row: form.format(*row))


# Floating point ------------------------------------------------------------------------


def require_f32(op: Operation) -> None:
    """Raise PolycError unless what an op computes with is f32, an integer or a condition."""
    for value in (*op.operands, *op.results):
        element = scalar_type(value.type)
        if not isinstance(element, Float32Type | IntegerType | IndexType):
            raise not_lowered(
                op, f"computes in {element}", "kernels compute in f32: extend the operands first"
            )


_FLOAT: dict[type[Operation], str] = {
    arith.AddfOp: "{} + {}",
    arith.SubfOp: "{} - {}",
    arith.MulfOp: "{} * {}",
    arith.DivfOp: "{} / {}",
    arith.NegfOp: "-{}",
    arith.MaxnumfOp: "fmaxf({}, {})",
    arith.MinnumfOp: "fminf({}, {})",
    math.AbsFOp: "fabsf({})",
    math.AcosOp: "acosf({})",
    math.AcoshOp: "acoshf({})",
    math.AsinOp: "asinf({})",
    math.AsinhOp: "asinhf({})",
    math.AtanOp: "atanf({})",
    math.Atan2Op: "atan2f({}, {})",
    math.AtanhOp: "atanhf({})",
    math.CbrtOp: "cbrtf({})",
    math.CeilOp: "ceilf({})",
    math.CoshOp: "coshf({})",
    math.Exp2Op: "exp2f({})",
    math.ExpM1Op: "expm1f({})",
    math.ExpOp: "expf({})",
    math.FloorOp: "floorf({})",
    math.FmaOp: "fmaf({}, {}, {})",
    math.Log10Op: "log10f({})",
    math.Log2Op: "log2f({})",
    math.LogOp: "logf({})",
    math.PowFOp: "powf({}, {})",
    math.RoundEvenOp: "rintf({})",
    math.RsqrtOp: "rsqrtf({})",
    math.SinhOp: "sinhf({})",
    math.TanOp: "tanf({})",
    math.TanhOp: "tanhf({})",
    math.TruncOp: "truncf({})",
}


def _float(w: KernelWriter, op: Operation) -> None:
    require_f32(op)
    form = _FLOAT[type(op)]
    elementwise(w, op, lambda row: form.format(*row))


for _op in _FLOAT:
    prints(_op, "x")(_float)


@prints(arith.DivfOp, "x")
def _divide(w: KernelWriter, op: arith.DivfOp) -> None:
    """In a way that is as short for a numerator of 0, unless a constant says what is divided; of a
    vector the short ways of all elements at once.

    Where the op allows an approximation, one over a number is the device's own reciprocal.  By a
    whole number that is known it takes no branch.
    """
    if is_approximate(op) and is_one(op.lhs):
        require_f32(op)
        elementwise(w, op, lambda row: w.call("reciprocal_approx", row[1]))
        return
    if _is_whole(op.rhs):
        require_f32(op)
        elementwise(w, op, lambda row: w.call("divide_by_whole", *row))
        return
    require_f32(op)
    if w.type(op.result.type, op).is_vector:
        if inverts_each(op):
            w.define(op.result, w.call("invert_each", w.text(op.rhs)))
        else:
            w.define(op.result, w.call("divide_each", w.text(op.lhs), w.text(op.rhs)))
        return
    if any(isinstance(value.owner, arith.ConstantOp) for value in op.operands):
        _float(w, op)
        return
    elementwise(w, op, lambda row: w.call("divide", *row))


MOST_WHOLE = 1 << 22
"""A divisor from which on a quotient by its inverse may not be the nearest."""


def _is_whole(value: SSAValue) -> bool:
    """Whether a divisor is a known whole number; a power of two is a product to the compiler."""
    op = value.owner
    number = op.value if isinstance(op, arith.ConstantOp) else None
    if not isinstance(number, FloatAttr):
        return False
    size = abs(number.value.data)
    if not 2 < size < MOST_WHOLE or size != int(size):
        return False
    return int(size) & (int(size) - 1) != 0


@prints(math.ErfOp, "x")
def _erf(w: KernelWriter, op: math.ErfOp) -> None:
    """In fewer instructions than C's own, and within what ``docs/semantics.md`` says."""
    require_f32(op)
    elementwise(w, op, lambda row: w.call("error_function", *row))


@prints(math.Exp2Op, "x")
def _exp2(w: KernelWriter, op: math.Exp2Op) -> None:
    """One instruction where the op allows an approximation (``fastmath<afn>``)."""
    if not is_approximate(op):
        _float(w, op)
        return
    require_f32(op)
    elementwise(w, op, lambda row: w.call("exp2_approx", *row))


@prints(arith.MaximumfOp, "x")
def _maximum(w: KernelWriter, op: arith.MaximumfOp) -> None:
    require_f32(op)
    elementwise(w, op, lambda row: w.call("max_nan", *row))


@prints(arith.MinimumfOp, "x")
def _minimum(w: KernelWriter, op: arith.MinimumfOp) -> None:
    require_f32(op)
    elementwise(w, op, lambda row: w.call("min_nan", *row))


_COMPARE_FLOATS = (
    "false",
    "{a} == {b}",
    "{a} > {b}",
    "{a} >= {b}",
    "{a} < {b}",
    "{a} <= {b}",
    "{a} < {b} || {a} > {b}",
    "{a} == {a} && {b} == {b}",
    "!({a} < {b} || {a} > {b})",
    "!({a} <= {b})",
    "!({a} < {b})",
    "!({a} >= {b})",
    "!({a} > {b})",
    "{a} != {b}",
    "{a} != {a} || {b} != {b}",
    "true",
)
"""By predicate number: false, ordered eq gt ge lt le ne, ord, unordered the same, uno, true."""


@prints(arith.CmpfOp, "holds")
def _compare_floats(w: KernelWriter, op: arith.CmpfOp) -> None:
    require_f32(op)
    form = _COMPARE_FLOATS[op.predicate.value.data]
    w.define(op.result, form.format(a=w.text(op.lhs), b=w.text(op.rhs)))


@prints(arith.ExtFOp, "x")
def _extend_float(w: KernelWriter, op: arith.ExtFOp) -> None:
    source, target = _kind(w, op.input, op), _kind(w, op.result, op)
    if source not in ("f16", "bf16") or target != "float":
        raise not_lowered(
            op, f"extends {op.input.type} to {op.result.type}", "it can extend f16 and bf16 to f32"
        )
    elementwise(w, op, lambda row: w.call(f"{source}_to_f32", *row))


@prints(arith.TruncFOp, "rounded")
def _truncate_float(w: KernelWriter, op: arith.TruncFOp) -> None:
    source, t = _kind(w, op.input, op), w.type(op.result.type, op)
    target = t.element or t.name
    if source != "float" or target not in ("f16", "bf16"):
        raise not_lowered(
            op, f"rounds {op.input.type} to {op.result.type}", "it can round f32 to f16 and bf16"
        )
    if t.lanes != 2:
        elementwise(w, op, lambda row: w.call(f"f32_to_{target}", *row))
        return
    elements = iter(w.elements(op.input))
    words = [w.call(f"f32_to_{target}x2", a, b) for a, b in zip(elements, elements, strict=True)]
    w.define(op.result, f"{t.name}{{{{{', '.join(words)}}}}}")


# Index arithmetic ----------------------------------------------------------------------

_ATOM, _MUL, _ADD, _SHIFT, _AND = 5, 4, 3, 2, 1


def affine_text(
    w: KernelWriter,
    expr: AffineExpr,
    dims: Sequence[str],
    symbols: Sequence[str],
    counts: Sequence[bool] = (),
) -> str:
    """``expr`` as C; floordiv, ceildiv and mod are exact for any sign.

    ``counts`` says which dimensions, and then which symbols, are never negative: quotients of these
    by numbers are of unsigned ones, which take a third of the instructions.
    """
    return _AffineText(w, dims, symbols, counts).show(expr)[0]


@dataclass(frozen=True)
class _AffineText:
    """Affine expressions as C, each with how tightly it binds."""

    w: KernelWriter
    dims: Sequence[str]
    symbols: Sequence[str]
    counts: Sequence[bool] = ()

    def wrap(self, e: AffineExpr, least: int) -> str:
        text, level = self.show(e)
        return text if level >= least else f"({text})"

    def show(self, e: AffineExpr) -> tuple[str, int]:
        match e:
            case AffineConstantExpr(value):
                return str(value), _ATOM if value >= 0 else _MUL
            case AffineDimExpr(position):
                return self.dims[position], _ATOM
            case AffineSymExpr(position):
                return self.symbols[position], _ATOM
            case AffineBinaryOpExpr(kind, lhs, rhs):
                return self.binary(kind, lhs, rhs)
            case _:
                raise AssertionError(e)

    def binary(self, kind: AffineBinaryOpKind, lhs: AffineExpr, rhs: AffineExpr) -> tuple[str, int]:
        wrap = self.wrap
        constant = rhs.value if isinstance(rhs, AffineConstantExpr) else None
        if kind is AffineBinaryOpKind.Add:
            match rhs:
                case AffineConstantExpr(value) if value < 0:
                    return f"{wrap(lhs, _ADD)} - {-value}", _ADD
                case AffineBinaryOpExpr(
                    AffineBinaryOpKind.Mul, factor, AffineConstantExpr(value)
                ) if value < 0:
                    scale = "" if value == -1 else f" * {-value}"
                    return f"{wrap(lhs, _ADD)} - {wrap(factor, _MUL)}{scale}", _ADD
                case _:
                    return f"{wrap(lhs, _ADD)} + {wrap(rhs, _ADD)}", _ADD
        if kind is AffineBinaryOpKind.Mul:
            if constant == -1:
                match lhs:
                    case AffineBinaryOpExpr(
                        AffineBinaryOpKind.FloorDiv, e, AffineConstantExpr(value)
                    ) if _is_power(value):
                        return self.rounded_up(_negated(e), value)
                    case _:
                        return f"-{wrap(lhs, _ATOM)}", _MUL
            return f"{wrap(lhs, _MUL)} * {wrap(rhs, _ATOM)}", _MUL
        if constant == 1 and kind is not AffineBinaryOpKind.Mod:
            return self.show(lhs)
        power = constant is not None and _is_power(constant)
        shift = constant.bit_length() - 1 if constant is not None else 0
        if kind is AffineBinaryOpKind.Mod:
            if constant == 1:
                return "0", _ATOM
            if power:
                return f"{wrap(lhs, _ATOM)} & {cast(int, constant) - 1}", _AND
            if self.is_count(lhs, constant):
                return f"(int)((u32)({self.show(lhs)[0]}) % {constant}u)", _ATOM
            return self.w.call("floor_mod", self.show(lhs)[0], self.show(rhs)[0]), _ATOM
        if kind is AffineBinaryOpKind.FloorDiv:
            if power:
                return f"{wrap(lhs, _ATOM)} >> {shift}", _SHIFT
            if self.is_count(lhs, constant):
                return f"(int)((u32)({self.show(lhs)[0]}) / {constant}u)", _ATOM
            return self.w.call("floor_div", self.show(lhs)[0], self.show(rhs)[0]), _ATOM
        if power:
            return self.rounded_up(lhs, cast(int, constant))
        return self.w.call("ceil_div", self.show(lhs)[0], self.show(rhs)[0]), _ATOM

    def is_count(self, e: AffineExpr, by: int | None) -> bool:
        """Whether what is divided by a number is never negative."""
        if by is None or by <= 0 or not self.counts:
            return False
        places = [AffineExpr.dimension(i) for i in range(len(self.counts))]
        dims = len(self.dims)
        return sum_of_counts(e.replace_dims_and_symbols(places[:dims], places[dims:]), self.counts)

    def rounded_up(self, e: AffineExpr, power: int) -> tuple[str, int]:
        """``e ceildiv power``, for a power of two.

        Not as ``-(-e >> n)``: where that bounds two loops, ptxas 13.0 and 13.5 leave its second
        value out of the code before the second loop, which then ends after one turn.
        """
        return f"({self.wrap(e, _ADD)} - 1 >> {power.bit_length() - 1}) + 1", _ADD


def _negated(e: AffineExpr) -> AffineExpr:
    """``-e``, its sums with what is added in front of what is subtracted."""
    match e:
        case AffineConstantExpr(value):
            return AffineExpr.constant(-value)
        case AffineBinaryOpExpr(AffineBinaryOpKind.Mul, lhs, AffineConstantExpr(value)):
            return lhs if value == -1 else lhs * -value
        case AffineBinaryOpExpr(AffineBinaryOpKind.Add, lhs, rhs):
            first, second = _negated(lhs), _negated(rhs)
            return second + first if _is_subtracted(first) else first + second
        case _:
            return e * -1


def _is_subtracted(e: AffineExpr) -> bool:
    """Whether a sum is better written with ``e`` behind what it is added to."""
    match e:
        case AffineBinaryOpExpr(AffineBinaryOpKind.Mul, _, AffineConstantExpr(value)):
            return value < 0
        case AffineConstantExpr():
            return True
        case _:
            return False


def _is_power(value: int) -> bool:
    """Whether it is a power of two."""
    return value > 0 and value & (value - 1) == 0


@prints(affine.ApplyOp, "index")
def _apply(w: KernelWriter, op: affine.ApplyOp) -> None:
    operands = [w.text(v) for v in op.mapOperands]
    map_ = op.map.data
    dims, symbols = operands[: map_.num_dims], operands[map_.num_dims :]
    expr = map_.results[0]
    counts = [never_negative(v) for v in op.mapOperands] if _divides(expr) else []
    w.define(op.result, affine_text(w, expr, dims, symbols, counts))


def _divides(expr: AffineExpr) -> bool:
    """Whether an expression divides by a number that is no power of two."""
    kinds = (AffineBinaryOpKind.FloorDiv, AffineBinaryOpKind.Mod)
    return any(
        isinstance(e, AffineBinaryOpExpr)
        and e.kind in kinds
        and isinstance(e.rhs, AffineConstantExpr)
        and not _is_power(e.rhs.value)
        for e in expr.dfs()
    )


# Registers -----------------------------------------------------------------------------


@prints(memref.AllocaOp, "registers")
def _alloca(w: KernelWriter, op: memref.AllocaOp) -> None:
    t: MemRefType[Attribute] = op.memref.type
    if t.memory_space not in (REGISTER, NoneAttr()) or -1 in t.get_shape():
        raise not_lowered(
            op, f"allocates {t}", "a kernel allocates registers, as many as the type says"
        )
    extents = "".join(f"[{size}]" for size in t.get_shape())
    element = w.type(t.element_type, op)
    w.line(f"{element.name} {w.name(op.memref, 'registers')}{extents};")


def _place(w: KernelWriter, array: SSAValue, indices: Sequence[SSAValue]) -> str:
    return w.text(array) + "".join(f"[{w.text(i)}]" for i in indices)


@prints(memref.LoadOp, "x")
def _load(w: KernelWriter, op: memref.LoadOp) -> None:
    w.define(op.res, _place(w, op.memref, op.indices))


@prints(memref.StoreOp)
def _store(w: KernelWriter, op: memref.StoreOp) -> None:
    w.line(f"{_place(w, op.memref, op.indices)} = {w.text(op.value)};")


# Control -------------------------------------------------------------------------------


def _assign(w: KernelWriter, targets: Sequence[str], block: Block, op: Operation) -> None:
    """``targets`` take what ``block`` yields, all at once; an empty target takes nothing."""
    last = block.last_op
    sources = last.arguments if isinstance(last, scf.YieldOp) else ()
    pairs = [(t, s, w.text(s)) for t, s in zip(targets, sources, strict=True) if t]
    pairs = [p for p in pairs if p[0] != p[2]]
    saved: dict[str, str] = {}
    for i, (target, _, _) in enumerate(pairs):
        for _, source, text in pairs[i + 1 :]:
            if text == target and text not in saved:
                saved[text] = w.fresh(f"old_{text}")
                w.line(f"{w.type(source.type, op).name} {saved[text]} = {text};")
    for target, _, text in pairs:
        w.line(f"{target} = {saved.get(text, text)};")


@prints(scf.ForOp)
def _for(w: KernelWriter, op: scf.ForOp) -> None:
    induction, *carried = op.body.block.args
    targets: list[str] = []
    for argument, result, start in zip(carried, op.res, op.iter_args, strict=True):
        if argument not in w.live and result not in w.live:
            targets.append("")  # nothing needs it
            continue
        name = w.fresh(argument.name_hint or result.name_hint or "carried")
        t = w.type(argument.type, op)
        w.alias(argument, name)
        w.alias(result, name)
        w.line(f"{t.name} {name} = {w.text(start)};")
        targets.append(name)
    kind = _kind(w, induction, op)
    low, high, step = (w.text(v) for v in (op.lb, op.ub, op.step))
    i = w.name(induction, "i")
    by = f"++{i}" if constant_of(op.step) == 1 else f"{i} += {step}"
    if is_unrolled(op) or is_rolled(op):
        w.line("#pragma unroll" if is_unrolled(op) else "#pragma unroll 1")
    head = f"for ({kind} {i} = {low}; {signed(i, kind)} < {signed(high, kind)}; {by})"
    with w.block(head):
        w.ops(op.body.block)
        _assign(w, targets, op.body.block, op)


@prints(scf.IfOp)
def _if(w: KernelWriter, op: scf.IfOp) -> None:
    targets: list[str] = []
    for result in op.output:
        if result not in w.live:
            targets.append("")
            continue
        t = w.type(result.type, op)
        targets.append(w.name(result, "chosen"))
        w.line(f"{t.name} {targets[-1]};")
    then, other = op.true_region.block, op.false_region.blocks.first
    with w.block(f"if ({w.text(op.cond)})"):
        w.ops(then)
        _assign(w, targets, then, op)
    if other is None or (not targets and all(isinstance(o, scf.YieldOp) for o in other.ops)):
        return
    w.lines.pop()
    with w.block("} else"):
        w.ops(other)
        _assign(w, targets, other, op)


@prints(scf.YieldOp)
def _yield(w: KernelWriter, op: scf.YieldOp) -> None:
    """Written by the op around it."""


@prints(arith.ConstantOp)
def _constant(w: KernelWriter, op: arith.ConstantOp) -> None:
    w.constant(op)


@prints(vector.BitcastOp, "bits")
def _vector_bitcast(w: KernelWriter, op: vector.BitcastOp) -> None:
    """The same words under another type."""
    source, target = w.type(op.source.type, op), w.type(op.result.type, op)
    if source.word != target.word or source.words != target.words:
        raise not_lowered(
            op,
            f"turns {op.source.type} into {op.result.type}",
            "both sides must be words of one kind: integers, f16 and bf16, or f32",
        )
    parts = ", ".join(source.parts(w.text(op.source)))
    w.define(op.result, f"{target.name}{{{{{parts}}}}}")
