"""A node of an ONNX graph, as a converter sees it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, cast

import numpy as np

from polyc.dialects.common.dim import Dim, Shape
from polyc.importers.onnx_ops import elements
from polyc.importers.onnx_ops.items import (
    ABSENT,
    Array,
    Constants,
    Emulated,
    Item,
    Mark,
    Sizes,
    Unsaid,
)
from polyc.trace.values import Value

if TYPE_CHECKING:
    from polyc.trace.builder import Builder

MOST_KNOWN = 4096
"""Elements of a constant that is computed while a model is imported, at most."""


class Node:
    """One node: its op, its inputs as items, and its attributes.

    ``subgraph(body, items)`` imports a graph attribute in the scope of the node and gives its
    outputs.
    """

    def __init__(
        self,
        op: str,
        inputs: Sequence[Item],
        attributes: dict[str, Any],
        outputs: Sequence[str],
        constants: Constants,
        version: int = 0,
        subgraph: Callable[[Any, Sequence[Item]], list[Item]] | None = None,
        tensors: Any = None,
        declared: Sequence[Shape | None] = (),
    ) -> None:
        self.op, self.inputs, self.attributes = op, list(inputs), attributes
        self.outputs, self.constants, self.version = list(outputs), constants, version
        """``version`` is the operator set that the node is written in."""
        self._subgraph, self.tensors = subgraph, tensors
        self._declared = declared

    @property
    def builder(self) -> Builder:
        """The graph that is built."""
        return self.constants.builder

    def unsaid(self, why: str, needs: Item | None = None) -> NoReturn:
        """The graph cannot say this node."""
        raise Unsaid(why, needs)

    # Inputs

    def item(self, index: int) -> Item:
        """An input as it is, ABSENT where it is left out."""
        return self.inputs[index] if index < len(self.inputs) else ABSENT

    def has(self, index: int) -> bool:
        """Whether an input is there."""
        return self.item(index) is not ABSENT

    def value(self, index: int = 0) -> Value:
        """An input as a value of the graph."""
        return self.constants.value(self.item(index))

    def wide(self, index: int = 0) -> Value:
        """An input as a value, numbers of a small type in what holds them."""
        return self.constants.wide(self.item(index))

    def values(self) -> list[Value]:
        """All inputs as values."""
        return [self.value(i) for i in range(len(self.inputs))]

    def optional(self, index: int) -> Value | None:
        """An input as a value, None where it is left out."""
        return self.value(index) if self.has(index) else None

    def known(self, index: int, what: str = "its numbers") -> Array:
        """The numbers of an input that are known before a call.  Raises Unsaid."""
        item = self.item(index)
        if isinstance(item, np.ndarray):
            return item
        if item is ABSENT:
            raise Unsaid(f"{what} is left out")
        if isinstance(item, Value) and any(d.constant() == 0 for d in item.kind.dims):
            return np.zeros([d.constant() or 0 for d in item.kind.dims], np.int64)  # no numbers
        raise Unsaid(f"{what} is data, which a graph cannot have", item)

    def number(self, index: int, what: str = "a number") -> float | int:
        """The one number of an input."""
        array = self.known(index, what)
        if array.size != 1:
            raise Unsaid(f"{what} has {array.size} elements, not 1")
        return cast("float | int", array.reshape(-1)[0].item())

    def sizes(self, index: int, what: str = "its shape") -> list[Dim]:
        """Whole numbers of an input, of which some may have symbols."""
        item = self.item(index)
        if isinstance(item, Sizes):
            return [cast("Dim", d) for d in item.dims.reshape(-1)]
        known = self.known(index, what)
        if known.dtype.kind not in "iuf":
            raise Unsaid(f"{what} is of {known.dtype}, and sizes are whole numbers")
        return [Dim.const(int(n)) for n in known.reshape(-1)]

    def is_known(self, index: int) -> bool:
        """Whether the numbers of an input are known before a call, up to symbols, or left out."""
        item = self.item(index)
        empty = isinstance(item, Value) and any(d.constant() == 0 for d in item.kind.dims)
        return empty or not isinstance(item, Value)

    def declared(self, output: int = 0) -> Shape | None:
        """The sizes that the model declares of an output, or onnx infers; None where it does not
        say all of them.  They say what an input of sizes, which is data, has to hold."""
        return self._declared[output] if output < len(self._declared) else None

    def ints(self, index: int, what: str = "its numbers") -> list[int]:
        """Whole numbers of an input, all known."""
        item = self.item(index)
        if isinstance(item, Sizes):
            raise Unsaid(f"{what} depends on sizes that a call chooses", item)
        return [int(n) for n in self.known(index, what).reshape(-1)]

    def dims(self, index: int = 0) -> Shape:
        """The sizes of an input."""
        return dims_of(self.item(index))

    def rank(self, index: int = 0) -> int:
        """How many axes an input has."""
        return len(self.dims(index))

    def axis(self, name: str = "axis", default: int = 0, rank: int | None = None) -> int:
        """An attribute that names an axis of the first input, from 0 on."""
        return self.placed(int(self.attr(name, default)), self.rank() if rank is None else rank)

    def placed(self, axis: int, rank: int) -> int:
        """An axis from 0 on; those below 0 count from the end."""
        if not -max(rank, 1) <= axis < max(rank, 1):
            raise Unsaid(f"axis {axis} is none of {rank}")
        return axis % rank if rank else 0

    def element(self, index: int = 0) -> str:
        """The element type of an input, as graphs call it."""
        item = self.item(index)
        if isinstance(item, Value):
            return item.dtype
        return self.constants.element(self.number_of_element(index))

    def number_of_element(self, index: int = 0) -> int:
        """ONNX's number of an input's element type."""
        return element_number(self.item(index))

    # Attributes and outputs

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute, or what the op has where it is left out."""
        return self.attributes.get(name, default)

    def wants(self, index: int) -> bool:
        """Whether the model names an output."""
        return index < len(self.outputs) and bool(self.outputs[index])

    def subgraph(self, body: Any, items: Sequence[Item]) -> list[Item]:
        """The outputs of a graph attribute on items, in the scope of this node."""
        if self._subgraph is None:
            raise Unsaid("it has a graph, and none is imported here")
        return self._subgraph(body, items)


def dims_of(item: Item) -> Shape:
    """The sizes of an item that is a tensor."""
    if isinstance(item, Value):
        return item.kind.dims
    if isinstance(item, np.ndarray):
        return tuple(Dim.const(n) for n in item.shape)
    if isinstance(item, Sizes):
        return tuple(Dim.const(n) for n in item.dims.shape)
    if isinstance(item, Emulated):
        return item.wide.kind.dims
    raise Unsaid("it takes a tensor, and is given a sequence or nothing")


def element_number(item: Item) -> int:
    """ONNX's number of an item's element type."""
    if isinstance(item, Value):
        return elements.NUMBERS[item.dtype]
    if isinstance(item, Sizes):
        return elements.INT64
    if isinstance(item, Emulated):
        return item.number
    if isinstance(item, np.ndarray):
        return elements.number_of_dtype(item.dtype)
    if isinstance(item, Mark) or not item:
        raise Unsaid("an operand that it needs is left out")
    return element_number(item[0])
