"""What a graph of ``torch.fx`` computes of no input and no parameter: positions, and masks of them.

A model makes masks and positions by many small ops, gathers and scans among them, although every
number of them is known.  Those of whole numbers and of conditions are computed here, by PyTorch,
and said by what they are: one number everywhere, or a sum of places along axes.  The compiler then
sees a causal mask as what it is, and nothing of it is computed by a kernel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, cast

from polyc.importers.registry import library
from polyc.trace import functions as f
from polyc.trace.values import Value

LARGEST = 1 << 24
"""Elements of a tensor that is computed at most."""

TABLE = 1 << 16
"""Elements of a table of a function at most: as many lie in a cache."""

FUNCTIONS = frozenset(
    f"aten.{name}"
    for name in (
        *("pow", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan"),
        *("sinh", "cosh", "tanh", "asin", "acos", "atan", "atan2", "erf", "erfc", "sigmoid"),
    )
)
"""Functions that take an element longer than a table is read."""

AND = ("aten.bitwise_and", "aten.logical_and", "aten.__and__")


@dataclass(frozen=True)
class Places:
    """A tensor of ``shape`` that is ``start`` plus ``steps`` times its element's place, axis by
    axis; of conditions one that is the same everywhere."""

    shape: tuple[int, ...]
    element: str
    start: int
    steps: tuple[int, ...]

    @property
    def is_true(self) -> bool:
        """Whether it is a condition that always holds."""
        return self.element == "i1" and self.start == 1

    def said(self) -> Value:
        """The same as a value of the graph that is being built."""
        found: Value | None = None
        for axis, step in enumerate(self.steps):
            if not step:
                continue
            along = [size if i == axis else 1 for i, size in enumerate(self.shape)]
            place = f.iota(along, axis, self.element)
            place = place if step == 1 else place * step
            found = place if found is None else found + place
        if found is None and self.element == "i1":
            found = f.full((), self.start, "i32") != 0
        elif found is None:
            found = f.full((), self.start, self.element)
        elif self.start:
            found = found + self.start
        return found.expand(*self.shape) if self.shape else found


class Known:
    """The nodes of a graph whose numbers need no call, with these numbers."""

    def __init__(self) -> None:
        self._tensors: dict[Any, Any] = {}
        self._places: dict[Any, Places | None] = {}
        self._numbers: dict[Any, Any] = {}

    def places(self, node: Any, element: str) -> Places | None:
        """What a node of an ``element`` type is, where that is known and simple.

        It is asked of every node, in the order of the graph.
        """
        if node not in self._places:
            found = self._computed(node)
            self._places[node] = None
            if found is not None:
                self._tensors[node] = found
                with _real(library("torch", "torch")):
                    self._places[node] = _places(found, element)
        return self._places[node]

    def beside_true(self, node: Any, name: str) -> Any:
        """Of two conditions that both have to hold the node of the one that is not known, where the
        other one always holds."""
        if not any(name.startswith(one + ".") for one in AND) or len(node.args) != 2:
            return None
        for one, other in (node.args, node.args[::-1]):
            known = self._places.get(one) if hasattr(one, "meta") else None
            if known is not None and known.is_true and hasattr(other, "meta"):
                return other
        return None

    def needless(self, name: str, node: Any) -> bool:
        """Whether an argument of an attention is a mask that hides nothing."""
        known = self._places.get(node) if "scaled_dot_product" in name else None
        return known is not None and known.is_true

    def numbers(self, node: Any) -> Any:
        """The tensor of a node of any type, to be a constant; None where it is not known."""
        if node in self._tensors:
            return self._tensors[node]
        if node not in self._numbers:
            self._numbers[node] = self._computed(node, real=True)
        return self._numbers[node]

    def table(self, node: Any, name: str) -> Any:
        """The same of a function that is read sooner than it is computed for each element that
        wants it, as the rates of positions are; None of others."""
        fake = node.meta.get("val")
        if name.rpartition(".")[0] not in FUNCTIONS or not fake.is_floating_point():
            return None
        count = fake.numel()
        return self.numbers(node) if isinstance(count, int) and 1 < count <= TABLE else None

    def _computed(self, node: Any, real: bool = False) -> Any:
        """The tensor of a node on the CPU, ``real`` numbers too; None where something of it is not
        known."""
        target, fake = node.target, node.meta.get("val")
        if not hasattr(target, "_schema") or not hasattr(fake, "dtype"):
            return None
        if fake.is_complex() or "out" in node.kwargs or (fake.is_floating_point() and not real):
            return None
        torch = library("torch", "torch")
        if torch.Tag.nondeterministic_seeded in target.tags:
            return None
        if not all(isinstance(size, int) for size in fake.shape) or fake.numel() > LARGEST:
            return None
        try:
            args = [self._given(torch, one, real) for one in node.args]
            kwargs = {k: self._given(torch, one, real) for k, one in node.kwargs.items()}
            with _real(torch), torch.no_grad():
                found = target(*args, **kwargs)
        except (_Unknown, RuntimeError, NotImplementedError):
            return None
        same = isinstance(found, torch.Tensor) and found.shape == fake.shape
        return found if same and found.dtype == fake.dtype else None

    def _given(self, torch: Any, given: Any, real: bool) -> Any:
        if hasattr(given, "meta") and hasattr(given, "all_input_nodes"):
            if given in self._tensors:
                return self._tensors[given]
            if real and (found := self.numbers(given)) is not None:
                return found
            value = given.meta.get("val")
            if isinstance(value, bool | int | float) and given.op == "call_function":
                return value
            raise _Unknown
        if isinstance(given, torch.device):
            return torch.device("cpu")
        if isinstance(given, list | tuple):
            return [self._given(torch, one, real) for one in cast("Sequence[Any]", given)]
        if isinstance(given, Mapping):
            raise _Unknown
        return given


class _Unknown(Exception):
    """Something that an op reads is an input's."""


def _real(torch: Any) -> AbstractContextManager[Any]:
    """Within it tensors have numbers, also where a graph is being traced."""
    unset = getattr(torch._subclasses.fake_tensor, "unset_fake_temporarily", None)
    return nullcontext() if unset is None else unset()


def _places(found: Any, element: str) -> Places | None:
    """A tensor as what it is of places; None where it is something else."""
    shape = tuple(int(size) for size in found.shape)
    if not found.numel():
        return None
    start = found[(0,) * len(shape)]
    if element == "i1":
        same = bool((found == start).all())
        return Places(shape, element, int(start), (0,) * len(shape)) if same else None
    steps: list[int] = []
    rest = found - start
    for axis, size in enumerate(shape):
        at = [0] * len(shape)
        at[axis] = 1
        step = int(rest[tuple(at)]) if size > 1 else 0
        steps.append(step)
        if step:
            along = [size if i == axis else 1 for i in range(len(shape))]
            rest = rest - step * found.new_tensor(range(size)).reshape(along)
    return None if bool(rest.any()) else Places(shape, element, int(start), tuple(steps))
