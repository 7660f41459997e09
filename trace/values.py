"""Values of a graph that is traced from Python: tensors with operators and methods."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Literal, NoReturn, cast

from xdsl.dialects.builtin import i1
from xdsl.ir import Attribute, SSAValue

from polyc.dialects import frontend
from polyc.dialects.common.dim import Dim, shape_text
from polyc.dialects.common.elements import is_integer
from polyc.dialects.common.numbers import not_held
from polyc.dialects.frontend import TensorType, tensor_of
from polyc.trace.annotations import element_name
from polyc.trace.builder import Builder
from polyc.trace.captured import is_array
from polyc.trace.elements import ELEMENTS
from polyc.trace.sizes import Size, SizeLike, dim_of, size_of
from polyc.trace.source import public, refuse

CURRENT: ContextVar[Builder | None] = ContextVar("polyc_trace", default=None)
"""The graph that is being traced."""

Axes = int | Sequence[int] | None
Operand = "Value | float | int"


def current() -> Builder:
    """The graph that is being traced.  Refuses a call outside of one."""
    builder = CURRENT.get()
    if builder is None:
        refuse(
            "NotTracing",
            "this makes a part of a graph, and none is traced here: call it in a function under "
            "@polyc.jit",
        )
    return builder


def value_of(x: object) -> Value:
    """A value; a tensor with numbers is a parameter of the graph.  Refuses what is none."""
    if not isinstance(x, Value):
        builder = CURRENT.get()
        if builder is not None and is_array(x):
            return Value(builder, builder.tensor(x))
        refuse("BadArgument", _not_a_value(x))
    if CURRENT.get() is not x.builder:
        refuse("NotTracing", f"{x!r} belongs to another trace, which is over; return it from there")
    return x


def _not_a_value(x: object) -> str:
    kind = type(x).__name__
    if hasattr(x, "__dlpack__") or hasattr(x, "__array__"):
        return f"a {kind} is no value of a graph that is traced; pass it to the function"
    if isinstance(x, Size):
        return f"the size {x} is no value of the graph, and a graph's numbers are constants"
    return f"{x!r} is a {kind}, not a value of the graph"


def operand(x: object, like: Value) -> Value:
    """A value, a tensor with numbers, or a number as a constant of the type of ``like``."""
    if isinstance(x, Value) or (is_array(x) and cast("Any", x).shape):
        return value_of(x)
    if isinstance(x, Size) or not isinstance(x, int | float):
        number = getattr(x, "__float__", None)
        scalar = getattr(x, "shape", None) in (None, ())
        if number is None or not scalar or isinstance(x, Size | str):
            refuse("BadArgument", _not_a_value(x))
        try:
            x = operator.index(cast("Any", x))
        except TypeError:
            x = cast("float", number())
    element = like.kind.element_type
    if element == i1:
        refuse("BadArgument", f"{x!r} beside a condition; compare conditions with & and |, or cast")
    if is_integer(element):
        if (fault := not_held(x, element)) is not None:
            refuse("TypeMismatch", f"{fault}; cast the value that it stands beside")
        return Value(like.builder, like.builder.constant(int(x), element))
    return Value(like.builder, like.builder.constant(float(x), element))


class Value:
    """A tensor of the graph: it has a shape and a type, and no numbers.

    ``shape`` has whole numbers and sizes that calls choose.  Operators broadcast right-aligned, and
    take numbers; both operands have one type, and ``cast`` makes another of it.
    """

    __slots__ = ("builder", "ssa")
    __array_ufunc__ = None  # an array of NumPy's leaves operators to this class
    __hash__ = object.__hash__

    def __init__(self, builder: Builder, ssa: SSAValue) -> None:
        self.builder, self.ssa = builder, ssa

    # What it is

    @property
    def kind(self) -> TensorType:
        """The type in the dialect."""
        return tensor_of(self.ssa)

    @property
    def shape(self) -> tuple[SizeLike, ...]:
        """The sizes."""
        return tuple(size_of(d) for d in self.kind.dims)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self.kind.rank

    @property
    def dtype(self) -> str:
        """The name of the element type: ``f16``, ``i64``, ``ui8``, ``i1``, …"""
        element = self.kind.element_type
        return next(name for name, known in ELEMENTS.items() if known == element)

    def __repr__(self) -> str:
        return f"<value {shape_text(self.kind.dims)} of {self.dtype}>"

    # Arithmetic

    def _binary(self, fn: str, other: object, turned: bool = False) -> Value:
        mine = value_of(self)
        a, b = (operand(other, mine), mine) if turned else (mine, operand(other, mine))
        same_type(fn, a, b)
        return Value(mine.builder, mine.builder.elementwise(fn, a.ssa, b.ssa))

    def _unary(self, fn: str) -> Value:
        return Value(self.builder, self.builder.elementwise(fn, value_of(self).ssa))

    @public
    def __add__(self, other: object) -> Value:
        return self._binary("add", other)

    @public
    def __radd__(self, other: object) -> Value:
        return self._binary("add", other, True)

    @public
    def __sub__(self, other: object) -> Value:
        return self._binary("sub", other)

    @public
    def __rsub__(self, other: object) -> Value:
        return self._binary("sub", other, True)

    @public
    def __mul__(self, other: object) -> Value:
        return self._binary("mul", other)

    @public
    def __rmul__(self, other: object) -> Value:
        return self._binary("mul", other, True)

    def _quotient(self, other: object, turned: bool = False) -> Value:
        if is_integer(value_of(self).kind.element_type):
            refuse("TypeMismatch", f"/ of {self!r} is no integer; use //, or cast to f32")
        return self._binary("div", other, turned)

    @public
    def __truediv__(self, other: object) -> Value:
        return self._quotient(other)

    @public
    def __rtruediv__(self, other: object) -> Value:
        return self._quotient(other, True)

    def _floor(self, other: object, turned: bool = False) -> Value:
        """The quotient of integers rounded down, as Python's: 0 over 0."""
        mine = value_of(self)
        a, b = (operand(other, mine), mine) if turned else (mine, operand(other, mine))
        if not is_integer(mine.kind.element_type):
            refuse("TypeMismatch", f"// is of integers, not of {mine!r}")
        same_type("//", a, b)
        whole, below, rest = (
            Value(a.builder, a.builder.elementwise(fn, a.ssa, b.ssa))
            for fn in ("div", "mod", "fmod")
        )
        # What is left has the divisor's sign where the quotient was not rounded up.
        return whole - (below != rest).cast(mine.dtype)

    @public
    def __floordiv__(self, other: object) -> Value:
        return self._floor(other)

    @public
    def __rfloordiv__(self, other: object) -> Value:
        return self._floor(other, True)

    @public
    def __mod__(self, other: object) -> Value:
        return self._binary("mod", other)

    @public
    def __rmod__(self, other: object) -> Value:
        return self._binary("mod", other, True)

    @public
    def __lshift__(self, other: object) -> Value:
        return self._binary("shl", other)

    @public
    def __rlshift__(self, other: object) -> Value:
        return self._binary("shl", other, True)

    @public
    def __rshift__(self, other: object) -> Value:
        return self._binary("shr", other)

    @public
    def __rrshift__(self, other: object) -> Value:
        return self._binary("shr", other, True)

    @public
    def __pow__(self, other: object) -> Value:
        if isinstance(other, int | float) and other == 2:
            return self._binary("mul", self)
        return self._binary("pow", other)

    @public
    def __rpow__(self, other: object) -> Value:
        return self._binary("pow", other, True)

    @public
    def __round__(self, digits: int | None = None) -> Value:
        if digits is not None:
            refuse("BadArgument", "round(x) is to whole numbers; scale x for digits")
        return self._unary("round")

    @public
    def __floor__(self) -> Value:
        return self._unary("floor")

    @public
    def __ceil__(self) -> Value:
        return self._unary("ceil")

    @public
    def __trunc__(self) -> Value:
        return self._unary("trunc")

    @public
    def __neg__(self) -> Value:
        return self._unary("neg")

    @public
    def __abs__(self) -> Value:
        return self._unary("abs")

    @public
    def __matmul__(self, other: object) -> Value:
        return self._product(self, other)

    @public
    def __rmatmul__(self, other: object) -> Value:
        return self._product(other, self)

    @staticmethod
    def _product(
        a: object, b: object, element: Attribute | None = None, precision: str | None = None
    ) -> Value:
        """``a @ b`` by NumPy's rules: a vector is a row at the left, a column at the right."""
        left, right = value_of(a), value_of(b)
        build = left.builder
        for what, one in (("left", left), ("right", right)):
            if not one.ndim:
                refuse("RankMismatch", f"the {what} operand of a product is a scalar; use *")
        same_type("a product", left, right)
        x, y = left.ssa, right.ssa
        if left.ndim == 1:
            x = build.reshape(x, (Dim.const(1), *left.kind.dims))
        if right.ndim == 1:
            y = build.reshape(y, (*right.kind.dims, Dim.const(1)))
        found = build.gemm(x, y, element=element, precision=precision)
        dims = list(tensor_of(found).dims)
        if right.ndim == 1:
            dims.pop()
        if left.ndim == 1:
            dims.pop(-1 if right.ndim == 1 else -2)
        return Value(build, build.reshape(found, dims))

    # Relations and conditions

    def _relation(self, fn: str, other: object) -> Value:
        mine = value_of(self)
        theirs = operand(other, mine)
        same_type(fn, mine, theirs)
        return Value(mine.builder, mine.builder.compare(fn, mine.ssa, theirs.ssa))

    @public
    def __lt__(self, other: object) -> Value:
        return self._relation("lt", other)

    @public
    def __le__(self, other: object) -> Value:
        return self._relation("le", other)

    @public
    def __gt__(self, other: object) -> Value:
        return self._relation("gt", other)

    @public
    def __ge__(self, other: object) -> Value:
        return self._relation("ge", other)

    @public
    def __eq__(self, other: object) -> Value:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self._relation("eq", other)

    @public
    def __ne__(self, other: object) -> Value:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self._relation("ne", other)

    def _bits(self, fn: str, other: object) -> Value:
        """A function of conditions, or of the bits of integers."""
        for one in (value_of(self), *([other] if isinstance(other, Value) else [])):
            if one.dtype != "i1" and not is_integer(one.kind.element_type):
                refuse("TypeMismatch", f"&, | and ^ are of conditions and integers, not of {one!r}")
        return self._binary(fn, other)

    @public
    def __and__(self, other: object) -> Value:
        return self._bits("and", other)

    @public
    def __or__(self, other: object) -> Value:
        return self._bits("or", other)

    @public
    def __xor__(self, other: object) -> Value:
        return self._bits("xor", other)

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    @public
    def __invert__(self) -> Value:
        self._bits("and", self)
        return self._unary("not")

    @public
    def __bool__(self) -> NoReturn:
        refuse(
            "UnknownValue",
            "a value's numbers are not known while a graph is traced, and Python's if, and, or and "
            "while ask for them; use polyc.where, & or |",
        )

    @public
    def __float__(self) -> NoReturn:
        refuse("UnknownValue", "a value's numbers are not known while a graph is traced")

    __int__ = __index__ = __float__  # pyright: ignore[reportAssignmentType]

    @public
    def __len__(self) -> int:
        if not self.ndim:
            refuse("RankMismatch", "a scalar has no length")
        first = self.shape[0]
        if isinstance(first, Size):
            refuse("UnknownSize", f"{first} has no value before a call; shape[0] is the size")
        return first

    @public
    def __setitem__(self, key: object, value: object) -> NoReturn:
        refuse(
            "BadArgument",
            "a value does not change; polyc.where, polyc.concat and polyc.scatter give another one",
        )

    @public
    def __iter__(self) -> NoReturn:
        refuse("BadArgument", "a value is not walked in Python; index it, or use polyc.split")

    # Types and movements

    @public
    def cast(self, dtype: object) -> Value:
        """Another element type; rounds to a narrower one."""
        element = ELEMENTS[element_name(dtype)]
        return Value(self.builder, self.builder.cast(value_of(self).ssa, element))

    astype = to = cast

    @property
    def T(self) -> Value:
        """The last two axes exchanged."""
        return self.transpose()

    mT = T

    @public
    def transpose(self, a: int = -2, b: int = -1) -> Value:
        """Two axes exchanged."""
        mine = value_of(self)
        order = list(range(mine.ndim))
        first, second = mine.builder.axis(mine.ssa, a), mine.builder.axis(mine.ssa, b)
        order[first], order[second] = order[second], order[first]
        return Value(mine.builder, mine.builder.permute(mine.ssa, order))

    @public
    def permute(self, *order: Any) -> Value:
        """Axes in another order: result axis ``i`` is axis ``order[i]``."""
        return Value(self.builder, self.builder.permute(value_of(self).ssa, listed(order)))

    @public
    def reshape(self, *shape: Any) -> Value:
        """The elements in their order under another shape; one size may be -1."""
        dims = [dim_of(size) for size in listed(shape)]
        return Value(self.builder, self.builder.reshape(value_of(self).ssa, dims))

    @public
    def expand(self, *shape: Any) -> Value:
        """The broadcast to a shape, right-aligned; -1 keeps a size."""
        mine, wanted = value_of(self), [dim_of(size) for size in listed(shape)]
        first = len(wanted) - mine.ndim
        dims = [
            mine.kind.dims[i - first] if d.constant() == -1 and i >= first else d
            for i, d in enumerate(wanted)
        ]
        return Value(mine.builder, mine.builder.expand(mine.ssa, dims))

    @public
    def unsqueeze(self, axis: int) -> Value:
        """One more axis, of size 1, at ``axis`` of the result."""
        mine = value_of(self)
        dims = list(mine.kind.dims)
        dims.insert(mine.builder.axis(mine.ssa, axis, 1), Dim.const(1))
        return Value(mine.builder, mine.builder.reshape(mine.ssa, dims))

    @public
    def squeeze(self, axis: Axes = None) -> Value:
        """Without axes of size 1; without ``axis`` all of them go."""
        mine = value_of(self)
        dims = mine.kind.dims
        ones = [i for i, d in enumerate(dims) if d.constant() == 1]
        gone = ones if axis is None else mine.builder.axes(mine.ssa, axis)
        for one in gone:
            if one not in ones:
                refuse("ShapeMismatch", f"axis {one} of {shape_text(dims)} has not the size 1")
        kept = [d for i, d in enumerate(dims) if i not in gone]
        return Value(mine.builder, mine.builder.reshape(mine.ssa, kept))

    @public
    def __getitem__(self, key: Any) -> Value:
        mine = value_of(self)
        items: list[Any] = [*cast("tuple[Any, ...]", key)] if isinstance(key, tuple) else [key]
        named = sum(1 for item in items if item is not None and item is not ...)
        dots = sum(1 for item in items if item is ...)
        if dots > 1:
            refuse("BadArgument", f"an index has one ..., not {dots}")
        if named > mine.ndim:
            refuse("RankMismatch", f"{named} indices for {mine!r}")
        at = next((i for i, item in enumerate(items) if item is ...), len(items))
        items[at : at + 1] = [slice(None)] * (mine.ndim - named)
        if any(isinstance(item, Value) for item in items):
            return mine._taken(items)
        low: list[Dim] = []
        high: list[Dim] = []
        steps: list[int] = []
        kept: list[Dim | None] = []
        for item in items:
            if item is None:
                kept.append(Dim.const(1))
                continue
            start, stop, step, stays = _part(item, mine.kind.dims[len(low)])
            low.append(start)
            high.append(stop)
            steps.append(step)
            kept.append((stop - start).ceildiv(step) if stays else None)
        found = mine.builder.slice(mine.ssa, low, high, steps)
        return Value(mine.builder, mine.builder.reshape(found, [d for d in kept if d is not None]))

    def _taken(self, items: Sequence[Any]) -> Value:
        """The elements at the one index that is a value, with what the others say of theirs."""
        places = [i for i, item in enumerate(items) if isinstance(item, Value)]
        if len(places) > 1 or any(
            item is None or not isinstance(item, slice | Value) for item in items
        ):
            refuse(
                "BadArgument",
                "one index is a value beside slices; for more take polyc.gather_nd, or index again",
            )
        (axis,) = places
        others = [slice(None) if i == axis else item for i, item in enumerate(items)]
        mine, index = value_of(self[tuple(others)]), value_of(items[axis])
        if index.dtype == "i1":
            refuse(
                "TypeMismatch",
                f"{index!r} is no index: how many elements a condition chooses is not known; "
                "use polyc.where, which chooses by elements",
            )
        if not index.dtype.strip("ui").isdigit():
            refuse("TypeMismatch", f"{index!r} is no index; cast it to an integer type")
        found = mine.builder.gather(frontend.GatherOp, mine.ssa, index.ssa, axis)
        return Value(mine.builder, found)

    # Reductions

    @public
    def sum(self, axis: Axes = None, keepdims: bool = False) -> Value:
        """The sum over axes, all without ``axis``."""
        return self._reduced("sum", axis, keepdims)

    @public
    def max(self, axis: Axes = None, keepdims: bool = False) -> Value:
        """The largest over axes; NaN where one is NaN."""
        return self._reduced("max", axis, keepdims)

    @public
    def min(self, axis: Axes = None, keepdims: bool = False) -> Value:
        """The smallest over axes; NaN where one is NaN."""
        return self._reduced("min", axis, keepdims)

    @public
    def mean(self, axis: Axes = None, keepdims: bool = False) -> Value:
        """The mean over axes."""
        return self._reduced("mean", axis, keepdims)

    @public
    def prod(self, axis: Axes = None, keepdims: bool = False) -> Value:
        """The product over axes, all without ``axis``."""
        return self._reduced("prod", axis, keepdims)

    @public
    def any(self, axis: Axes = None, keepdims: bool = False) -> Value:
        """Whether any condition holds over axes."""
        return self._reduced("any", axis, keepdims)

    @public
    def all(self, axis: Axes = None, keepdims: bool = False) -> Value:
        """Whether all conditions hold over axes."""
        return self._reduced("all", axis, keepdims)

    def _reduced(
        self,
        fn: Literal["sum", "prod", "max", "min", "mean", "any", "all"],
        axis: Axes,
        keep: bool,
    ) -> Value:
        if fn in ("any", "all") and self.dtype != "i1":
            refuse("TypeMismatch", f"{fn} is of conditions, i1, not of {self!r}; compare it")
        made = self.builder.reduce(fn, value_of(self).ssa, axis, keepdims=keep)
        return Value(self.builder, made)


if TYPE_CHECKING:

    class Tensor(Value):
        """What a checker sees of ``polyc.trace.annotations.Tensor``: the parameter's value."""

        def __class_getitem__(cls, items: Any) -> Any: ...


def listed(given: Sequence[Any]) -> list[Any]:
    """``f(1, 2)`` and ``f((1, 2))`` as one list."""
    if len(given) == 1 and isinstance(given[0], tuple | list):
        return list(cast("Sequence[Any]", given[0]))
    return list(given)


def same_type(what: str, *values: Value) -> None:
    """Refuse operands of unlike types, with a way out."""
    first = values[0]
    for other in values[1:]:
        if other.dtype != first.dtype:
            refuse(
                "TypeMismatch",
                f"{what} has operands of one type, not {first!r} and {other!r}; cast one of them, "
                f'as in x.cast("{first.dtype}")',
            )


def _part(item: object, size: Dim) -> tuple[Dim, Dim, int, bool]:
    """Start, end and step of an index of one axis, and whether the axis stays."""

    def placed(given: object, otherwise: Dim) -> Dim:
        if given is None:
            return otherwise
        at = dim_of(given)
        value, whole = at.constant(), size.constant()
        if value is not None and value < 0:
            at = size + value
        # As in Python, a number beyond an end that is known is the end.
        if value is not None and whole is not None:
            at = Dim.const(min(max(value + whole if value < 0 else value, 0), whole))
        return at

    if isinstance(item, slice):
        item = cast("slice[Any, Any, Any]", item)
        step = 1 if item.step is None else dim_of(item.step).constant()
        if step is None or step < 1:
            refuse("BadArgument", f"a slice steps by {item.step}; give a number of 1 or more")
        start = placed(item.start, Dim.const(0))
        stop = placed(item.stop, size)
        span = (stop - start).constant()
        return start, start if span is not None and span < 0 else stop, step, True
    if isinstance(item, Value | bool):
        refuse(
            "BadArgument",
            f"{item!r} is no index; indices are numbers, sizes, slices and values of integers",
        )
    at = dim_of(item)
    value, whole = at.constant(), size.constant()
    if value is not None and whole is not None and not -whole <= value < whole:
        refuse("BadArgument", f"index {value} is beyond an axis of {whole}")
    if value is not None and value < 0:
        at = size + value
    return at, at + 1, 1, False
