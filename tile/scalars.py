"""Elements and truth values of a traced program: every operator of Python's makes one op."""

from __future__ import annotations

from typing import NoReturn

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    Float16Type,
    IndexType,
    IntegerType,
    bf16,
    f16,
    f32,
    i1,
    i32,
)
from xdsl.ir import Attribute, Operation, SSAValue

from polyc.tile.source import refuse, target
from polyc.tile.specs import element_name
from polyc.tile.trace import (
    INDEX,
    constant,
    valid_hint,
    value_of,
    visible,
)

DTYPES: dict[str, Attribute] = {
    **{"f16": f16, "bf16": bf16, "f32": f32, "i32": i32, "i1": i1, "index": INDEX}
}
"""Element types by their names."""


def dtype(given: object) -> Attribute:
    """An element type from itself or its name; raises PolycError ``UnknownType``."""
    return DTYPES[element_name(given)]


def hinted() -> str | None:
    """The name of the variable that takes the result."""
    name = target()
    return None if name is None else valid_hint(name)


def no_truth() -> NoReturn:
    refuse(
        "TracedCondition",
        "the condition is known when the kernel runs, not while it is traced: take T.when, or "
        "T.select for a value",
    )


def no_number() -> NoReturn:
    refuse(
        "TracedNumber",
        "the number is known when the kernel runs, not while it is traced: take T.serial for a "
        "loop over it",
    )


class Scalar:
    """One element, or a truth value; every operator makes one op.

    f16 and bf16 are converted to f32 where they are computed with, and back where they are stored.
    """

    __slots__ = ("_wide", "value")
    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __init__(self, value: SSAValue) -> None:
        self.value = value
        self._wide: SSAValue | None = None

    @property
    def kind(self) -> Attribute:
        return self.value.type

    def wide(self) -> SSAValue:
        """The value as f32 where it is f16 or bf16."""
        if not isinstance(self.kind, Float16Type | BFloat16Type):
            return self.value
        if self._wide is None or not visible(self._wide):
            self._wide = value_of(arith.ExtFOp(self.value, f32))
        return self._wide

    def __add__(self, other: ScalarLike) -> Scalar:
        return binary("add", self, other)

    def __radd__(self, other: ScalarLike) -> Scalar:
        return binary("add", other, self)

    def __sub__(self, other: ScalarLike) -> Scalar:
        return binary("sub", self, other)

    def __rsub__(self, other: ScalarLike) -> Scalar:
        return binary("sub", other, self)

    def __mul__(self, other: ScalarLike) -> Scalar:
        return binary("mul", self, other)

    def __rmul__(self, other: ScalarLike) -> Scalar:
        return binary("mul", other, self)

    def __truediv__(self, other: ScalarLike) -> Scalar:
        return binary("div", self, other)

    def __rtruediv__(self, other: ScalarLike) -> Scalar:
        return binary("div", other, self)

    def __neg__(self) -> Scalar:
        return unary(arith.NegfOp, self)

    def __abs__(self) -> Scalar:
        return unary(math.AbsFOp, self)

    def __and__(self, other: ScalarLike) -> Scalar:
        return binary("and", self, other)

    def __or__(self, other: ScalarLike) -> Scalar:
        return binary("or", self, other)

    def __xor__(self, other: ScalarLike) -> Scalar:
        return binary("xor", self, other)

    def __invert__(self) -> Scalar:
        return binary("xor", self, True if self.kind == i1 else -1)

    def __lt__(self, other: ScalarLike) -> Scalar:
        return _compare("lt", self, other)

    def __le__(self, other: ScalarLike) -> Scalar:
        return _compare("le", self, other)

    def __gt__(self, other: ScalarLike) -> Scalar:
        return _compare("gt", self, other)

    def __ge__(self, other: ScalarLike) -> Scalar:
        return _compare("ge", self, other)

    def __eq__(self, other: object) -> Scalar:  # pyright: ignore[reportIncompatibleMethodOverride]
        return _compare("eq", self, other)

    def __ne__(self, other: object) -> Scalar:  # pyright: ignore[reportIncompatibleMethodOverride]
        return _compare("ne", self, other)

    def __bool__(self) -> bool:
        no_truth()

    def __float__(self) -> float:
        no_number()

    def __int__(self) -> int:
        no_number()


ScalarLike = int | float | Scalar


def scalar(value: SSAValue) -> Scalar:
    return Scalar(value)


def named_scalar(value: SSAValue) -> Scalar:
    """A scalar that is named after the variable that takes it."""
    if (name := hinted()) is not None:
        value.name_hint = name
    return Scalar(value)


def pair(a: object, b: object) -> tuple[SSAValue, SSAValue]:
    """Two operands of one type: numbers take the type of the other, 16-bit floats become f32."""
    for one in (a, b):
        if not isinstance(one, int | float | Scalar):
            what = getattr(one, "noun", None) or repr(one)
            refuse(
                "MixedNumbers", f"{what} is no element; T.cast converts an index, A[i, j] reads one"
            )
    if isinstance(a, Scalar):
        left = a.wide()
        right = b.wide() if isinstance(b, Scalar) else number(b, left.type)
    else:
        assert isinstance(b, Scalar)
        right = b.wide()
        left = number(a, right.type)
    if left.type != right.type:
        refuse("MixedNumbers", f"{left.type} and {right.type} do not mix; T.cast one of them")
    return left, right


def number(given: object, kind: Attribute) -> SSAValue:
    """A Python number as a constant of type ``kind``."""
    if not isinstance(given, int | float):
        refuse("MixedNumbers", f"{given!r} is no number")
    if not isinstance(kind, AnyFloat) and not float(given).is_integer():
        refuse("MixedNumbers", f"{given} is not of type {kind}; T.cast the other operand")
    return constant(given, kind)


_FLOAT: dict[str, type[Operation]] = {
    "add": arith.AddfOp,
    "sub": arith.SubfOp,
    "mul": arith.MulfOp,
    "div": arith.DivfOp,
    "max": arith.MaximumfOp,
    "min": arith.MinimumfOp,
}
INTEGER_OPS: dict[str, type[Operation]] = {
    "add": arith.AddiOp,
    "sub": arith.SubiOp,
    "mul": arith.MuliOp,
    "max": arith.MaxSIOp,
    "min": arith.MinSIOp,
    "and": arith.AndIOp,
    "or": arith.OrIOp,
    "xor": arith.XOrIOp,
}


def binary(word: str, a: object, b: object) -> Scalar:
    left, right = pair(a, b)
    table = _FLOAT if isinstance(left.type, AnyFloat) else INTEGER_OPS
    if (found := table.get(word)) is None:
        refuse("MixedNumbers", f"{word} is not defined on {left.type}")
    return scalar(value_of(make(found, left, right), hinted()))


def make(kind: type[Operation], *operands: SSAValue) -> Operation:
    return kind(*operands)  # pyright: ignore[reportArgumentType]


def _compare(word: str, a: object, b: object) -> Scalar:
    left, right = pair(a, b)
    if isinstance(left.type, AnyFloat):
        op: Operation = arith.CmpfOp(left, right, "une" if word == "ne" else "o" + word)
    else:
        op = arith.CmpiOp(left, right, word if word in ("eq", "ne") else "s" + word)
    return scalar(value_of(op, hinted()))


def unary(kind: type[Operation], given: object) -> Scalar:
    if not isinstance(given, Scalar) or not isinstance(given.kind, AnyFloat):
        what = f"a value of type {given.kind}" if isinstance(given, Scalar) else repr(given)
        refuse("MixedNumbers", f"{what} is no float; T.cast makes one")
    return scalar(value_of(make(kind, given.wide()), hinted()))


def converted(value: SSAValue, kind: Attribute, hint: str | None = None) -> SSAValue:
    """``value`` as type ``kind``, by the ops that this takes."""
    have = value.type
    if have == kind:
        return value
    if isinstance(have, IndexType):
        whole = value_of(arith.IndexCastOp(value, i32), hint if kind == i32 else None)
        return converted(whole, kind, hint)
    if isinstance(have, AnyFloat) and isinstance(kind, AnyFloat):
        if have.bitwidth < kind.bitwidth:
            return value_of(arith.ExtFOp(value, kind), hint)
        if have.bitwidth > kind.bitwidth:
            return value_of(arith.TruncFOp(value, kind), hint)
        return value_of(arith.TruncFOp(value_of(arith.ExtFOp(value, f32)), kind), hint)
    if have == i1 and isinstance(kind, AnyFloat):
        return value_of(arith.UIToFPOp(value, kind), hint)
    if isinstance(have, IntegerType) and isinstance(kind, AnyFloat):
        return value_of(arith.SIToFPOp(value, kind), hint)
    if isinstance(have, AnyFloat) and kind == i32:
        return value_of(arith.FPToSIOp(value, i32), hint)
    refuse("UnknownType", f"{have} is not converted to {kind}")


def truth(condition: object) -> SSAValue:
    """The value of a condition; raises PolycError ``NotACondition``."""
    if not isinstance(condition, Scalar) or condition.kind != i1:
        refuse(
            "NotACondition",
            "a condition is a comparison of values of the kernel, such as `i < n`; a Python truth "
            "value is decided by a Python `if`",
        )
    return condition.value


def constant_of(given: float) -> SSAValue:
    """A Python number as a value: integers are indices, others f32."""
    if isinstance(given, bool):
        return constant(given, i1)
    return constant(given, INDEX if isinstance(given, int) else f32)
