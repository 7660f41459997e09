"""What a name of an ONNX graph stands for while it is imported.

A ``Value`` of the graph; a NumPy array of numbers that are known; ``Sizes``, whole numbers that are
known up to symbols, as ``Shape`` gives them; a list of items, which is a sequence; ``ABSENT``, an
optional that holds nothing; or ``LOST``, what a node that could not be said would have given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np

from polyc.dialects import frontend
from polyc.dialects.common.dim import Dim
from polyc.importers.onnx_ops import elements
from polyc.importers.parameters import free_name
from polyc.trace.builder import Builder
from polyc.trace.elements import ELEMENTS
from polyc.trace.values import Value

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"


class Mark:
    """A name without a value."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


ABSENT, LOST = Mark("ABSENT"), Mark("LOST")


@dataclass(frozen=True)
class Sizes:
    """Whole numbers of which some are sizes with symbols: an array of ``Dim``, i64 in the model."""

    dims: Array

    @staticmethod
    def of(dims: Sequence[Dim]) -> Item:
        """A vector of them, an array of numbers where all are known."""
        made = np.empty(len(dims), dtype=object)
        made[:] = list(dims)
        return known_sizes(made)


@dataclass(frozen=True)
class Emulated:
    """Numbers of a small type, as a value of a larger one: ``number`` is ONNX's of that type."""

    wide: Value
    number: int


Item: TypeAlias = "Value | Array | Sizes | Emulated | list[Item] | Mark"


def known_sizes(dims: Any) -> Item:
    """An array of sizes, of numbers where none has a symbol."""
    array: Array = np.asarray(dims, dtype=object)
    numbers = [Dim.of(d).constant() for d in array.flat]
    if all(n is not None for n in numbers):
        return np.array(numbers, dtype=np.int64).reshape(array.shape)
    made = np.empty(array.shape, dtype=object)
    made.flat[:] = [Dim.of(d) for d in array.flat]
    return Sizes(made)


class Unsaid(Exception):
    """What a graph cannot say of a node; the import goes on to find all of these.

    ``needs`` is the item whose numbers would have to be known before a call.
    """

    def __init__(self, why: str, needs: Item | None = None) -> None:
        super().__init__(why)
        self.why, self.needs = why, needs


def way_out(number: int) -> str:
    """What a caller may do about a type that graphs have not."""
    if (name := elements.EMULATED.get(number)) is None:
        return ""
    return f"; emulate=True computes it in {name}"


class Constants:
    """Known numbers as values of a graph: constants, sizes, and entries of the parameter file."""

    def __init__(self, builder: Builder, emulate: bool) -> None:
        self.builder, self.emulate = builder, emulate
        self.names: dict[int, str] = {}
        """What initializers are called, by their arrays."""
        self._kept: dict[int, tuple[Array, Value]] = {}

    def name(self, array: Array, name: str) -> None:
        """``array`` is the initializer ``name``, an entry of the parameters where it is read."""
        self.names[id(array)] = name

    def element(self, number: int) -> str:
        """The graph's type for one of ONNX.  Raises Unsaid."""
        if (name := elements.NAMES.get(number)) is not None:
            return name
        if self.emulate and number == elements.DOUBLE:
            return elements.EMULATED[number]
        if number in elements.SMALL and self.emulate:
            raise Unsaid(f"{elements.word(number)} is emulated in casts and quantization alone")
        raise Unsaid(f"graphs have no {elements.word(number)}{way_out(number)}")

    def value(self, item: Item) -> Value:
        """An item as a value.  Raises Unsaid for what is none."""
        if isinstance(item, Value):
            return item
        if isinstance(item, Sizes):
            return self._sizes(item.dims)
        if isinstance(item, np.ndarray):
            if (kept := self._kept.get(id(item))) is None:
                kept = self._kept[id(item)] = item, self._array(item)
            return kept[1]
        if isinstance(item, Emulated):
            raise Unsaid(
                f"{elements.word(item.number)} is emulated in casts and quantization alone"
            )
        raise Unsaid(
            "a sequence stands where a tensor belongs"
            if isinstance(item, list)
            else "an operand that it needs is left out"
        )

    def wide(self, item: Item) -> Value:
        """An item as a value, numbers of a small type in what holds them."""
        if isinstance(item, Emulated):
            return item.wide
        if isinstance(item, np.ndarray) and self.emulate:
            small = elements.SMALL.get(elements.number_of_dtype(item.dtype))
            if small is not None:
                return self.value(item.astype(elements.DTYPES[small.stored]))
        return self.value(item)

    def _array(self, array: Array) -> Value:
        element = self.element(elements.number_of_dtype(array.dtype))
        array = array.astype(elements.DTYPES[element], copy=False)
        name = self.names.get(id(array))
        if array.size == 0 or ((name is None or array.size == 1) and _uniform(array)):
            return self._filled(array, element)
        if name is None and array.ndim == 1 and element in ("i32", "i64"):
            start, step = int(array[0]), int(array[1]) - int(array[0])
            if np.array_equal(array, start + step * np.arange(array.size, dtype=array.dtype)):
                return self._steps(array.size, start, step, element)
        taken = (*self.builder.captured.tensors, *self.builder.entries)
        kept = np.ascontiguousarray(array)
        wanted = free_name(name or f"constant{len(taken)}", taken)
        return Value(self.builder, self.builder.tensor(kept, wanted))

    def _steps(self, count: int, start: int, step: int, element: str) -> Value:
        kind = frontend.tensor([Dim.const(count)], ELEMENTS[element])
        made = Value(self.builder, self.builder.add(frontend.IotaOp(kind, 0)))
        made = made if step == 1 else made * step
        return made if start == 0 else made + start

    def _filled(self, array: Array, element: str) -> Value:
        first = array.reshape(-1)[0] if array.size else array.dtype.type(0)
        return self.full([Dim.const(n) for n in array.shape], first, element)

    def full(self, dims: Sequence[Dim], number: Any, element: str) -> Value:
        """A tensor of one number."""
        build = self.builder
        if element == "i1":
            one = build.compare(
                "eq",
                build.constant(0, ELEMENTS["i32"]),
                build.constant(0 if number else 1, ELEMENTS["i32"]),
            )
        else:
            kind = ELEMENTS[element]
            one = build.constant(
                float(number) if element in ("f16", "bf16", "f32") else int(number), kind
            )
        return Value(build, build.expand(one, list(dims)))

    def _sizes(self, dims: Array) -> Value:
        build = self.builder
        ones = [build.add(frontend.DimOp(cast("Dim", d), ELEMENTS["i64"])) for d in dims.flat]
        if dims.ndim == 0:
            return Value(build, ones[0])
        parts = [build.reshape(one, [Dim.const(1)]) for one in ones]
        joined = build.concat(parts, 0)
        return Value(build, build.reshape(joined, [Dim.const(n) for n in dims.shape]))


def _uniform(array: Array) -> bool:
    flat = array.reshape(-1)
    raw = np.ascontiguousarray(flat).view(np.uint8).reshape(flat.size, -1)
    return bool((raw == raw[:1]).all())
