"""The host's checks of a call, from the signature: what every backend asks before it runs (J3)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.common.size_expr import MAX_SIZE, Assumption, Shape
from polyc.runtime import tensors
from polyc.runtime.views import TensorView

T = TypeVar("T")


@dataclass(frozen=True)
class HostSignature:
    """Names, types and promises of a program's tensors, inputs before outputs.

    ``aligns`` are the promised alignments of addresses in bytes, 0 where nothing is promised.
    ``pooled`` is for each input the name that the constant pool has for it, "" for data; ``sizes``
    are those that what the pool holds shows.
    """

    name: str
    names: Sequence[str]
    shapes: Sequence[Shape]
    elements: Sequence[str]
    aligns: Sequence[int]
    num_inputs: int
    symbols: Sequence[str]
    facts: Sequence[Assumption]
    pooled: Sequence[str] = ()
    sizes: Mapping[str, int] = field(default_factory=dict[str, int])

    def called(self, held: Collection[int], sizes: Mapping[str, int]) -> HostSignature:
        """What calls check where the constant pool has the inputs ``held``, by their numbers."""
        there = [i for i in range(len(self.names)) if i not in held]

        def left(every: Sequence[T]) -> tuple[T, ...]:
            return tuple(every[i] for i in there if i < len(every))

        return replace(
            self,
            names=left(self.names),
            shapes=left(self.shapes),
            elements=left(self.elements),
            aligns=left(self.aligns),
            num_inputs=self.num_inputs - len(held),
            pooled=left(self.pooled),
            sizes=dict(sizes),
        )

    def views(
        self,
        given: Sequence[object],
        start: int,
        stop: int,
        what: str,
        stream: int | None,
        rows: bool = False,
    ) -> list[TensorView]:
        """The views of tensors ``start`` to ``stop``: number, type, rank, strides, alignment.

        ``rows`` as for ``tensors.check``.
        """
        if len(given) != stop - start:
            raise PolycError(
                "BadArgument",
                f"{self.name} takes {stop - start} {what} "
                f"({', '.join(self.names[start:stop])}), {len(given)} are given",
            )
        views: list[TensorView] = []
        for i, tensor in enumerate(given, start):
            name, output = self.names[i], i >= self.num_inputs
            view = tensors.view(tensor, name, stream, output)
            rank, align = len(self.shapes[i]), self.aligns[i]
            tensors.check(view, name, self.elements[i], rank, align, output, tensor, rows)
            views.append(view)
        return views

    def bind(self, views: Sequence[TensorView], given: Mapping[str, int] | None) -> dict[str, int]:
        """The symbols' values from the first tensors of the signature, checked."""
        shapes: list[tuple[str, Shape, tuple[int, ...]]] = [
            (name, dims, view.shape)
            for name, dims, view in zip(self.names, self.shapes, views, strict=False)
        ]
        values = tensors.bind_symbols(shapes, {**self.sizes, **(given or {})}, self.symbols)
        for fact in self.facts:
            if not fact.holds(values):
                text = ", ".join(f"{name} = {value}" for name, value in values.items())
                raise PolycError(
                    "AssumptionBroken", f"{self.name} was compiled assuming {fact}, and {text}"
                )
        sizes = [
            *values.items(),
            *((f"dimension {axis} of {n}", v) for n, _, s in shapes for axis, v in enumerate(s)),
        ]
        for what, value in sizes:
            if value > MAX_SIZE:
                raise PolycError(
                    "BadArgument",
                    f"{what} is {value}; kernels index with 32 bits, sizes up to {MAX_SIZE}",
                )
        return values

    def check_apart(self, inputs: Sequence[TensorView], outputs: Sequence[TensorView]) -> None:
        """An output overlaps no other tensor: kernels read and write in any order."""
        views = [*inputs, *outputs]
        for i, out in enumerate(outputs, len(inputs)):
            for j, other in enumerate(views[:i]):
                if (
                    out.size
                    and other.size
                    and out.pointer < other.pointer + other.reach
                    and other.pointer < out.pointer + out.reach
                ):
                    raise PolycError(
                        "Overlap",
                        f"{self.names[i]} and {self.names[j]} share memory; give the output its "
                        "own",
                    )

    def fresh(self, values: Mapping[str, int]) -> list[tuple[list[int], str]]:
        """Shape and type of each output."""
        listed = zip(self.shapes, self.elements, strict=True)
        return [
            ([dim.evaluate(values) for dim in dims], element)
            for dims, element in list(listed)[self.num_inputs :]
        ]

    def outputs(
        self, inputs: Sequence[object], values: Mapping[str, int], stream: int | None
    ) -> list[object]:
        """Uninitialised outputs of the library that the first input is of."""
        example: Any = inputs[0] if inputs else None
        return [
            tensors.empty_like_input(example, shape, element, stream)
            for shape, element in self.fresh(values)
        ]
