"""Programs on a GPU: checked on poisoned memory, and timed in graphs over rotating inputs."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Protocol

from polyc.dialects.common.diagnostic import PolycError
from polyc.runtime import driver
from polyc.runtime.graphs import Graph, Stream, free_bytes
from polyc.runtime.program import Program
from polyc.runtime.variants import Bound
from polyc.runtime.views import ELEMENT_BYTES, TensorView, row_major

POISON = 0xFF
"""A byte of which every element of a floating-point type is NaN."""

GUARD = 4096
"""Bytes before and behind an output that no kernel writes."""

LAUNCHES = 16
"""A graph has at least so many launches."""

BATCH = 0.004
"""Seconds that a round of one candidate takes about."""


class Reference(Protocol):
    """Inputs, and whether outputs agree with what they are to give."""

    @property
    def inputs(self) -> Sequence[Any]: ...

    @property
    def names(self) -> Sequence[str]: ...

    @property
    def where(self) -> str: ...

    def difference(self, outputs: Sequence[Any]) -> tuple[int, object] | None: ...


Kind = tuple[tuple[int, ...], str]
"""The shape and the element type of a tensor."""


class Place:
    """A tensor on the GPU, between guards."""

    def __init__(self, kind: Kind, index: int, array: Any = None) -> None:
        shape, element = kind
        self.kind = kind
        self.bytes = prod(shape) * ELEMENT_BYTES[element]
        self.buffer = driver.Buffer(self.bytes + 2 * GUARD, index)
        pointer = self.buffer.pointer + GUARD
        self.view = TensorView(pointer, shape, row_major(shape), element, index, self.buffer)
        if array is not None:
            import numpy as np

            from polyc.runtime.tensors import numpy_dtype

            # NaN around it: what is read from outside of it is not 0 by chance.
            whole = np.full(self.buffer.size, POISON, np.uint8)
            data = np.ascontiguousarray(array, numpy_dtype(element)).reshape(-1).view(np.uint8)
            whole[GUARD : GUARD + self.bytes] = data
            self.buffer.upload(int(whole.ctypes.data))

    def poison(self, stream: int) -> None:
        """Fill it, and its guards."""
        driver.clear(self.buffer.pointer, self.buffer.size, stream, POISON)

    def read(self) -> tuple[Any, bool]:
        """The elements, and whether the guards are as they were after ``poison``.

        A condition that was not written reads as the number 255.
        """
        import numpy as np

        from polyc.runtime.tensors import numpy_dtype

        shape, element = self.kind
        whole = np.empty(self.buffer.size, np.uint8)
        self.buffer.download(int(whole.ctypes.data))
        inside = whole[GUARD : GUARD + self.bytes]
        kept = bool(
            (whole[:GUARD] == POISON).all() and (whole[GUARD + self.bytes :] == POISON).all()
        )
        own = element != "i1" or bool((inside > 1).any())
        data = inside.view(numpy_dtype(element)) if element != "i1" else inside
        data = data if own else inside.view(np.bool_)
        return data.reshape(shape), kept


class Bench:
    """A region's tensors on GPU ``index``, on which its candidates are checked and timed.

    ``sets`` are inputs as arrays: the first is what is timed, on as many copies as exceed the L2
    cache, or one where ``rotate`` is False.
    """

    def __init__(
        self,
        sets: Sequence[Sequence[Any]],
        inputs: Sequence[Kind],
        outputs: Sequence[Kind],
        symbols: dict[str, int],
        index: int = 0,
        rotate: bool = True,
    ) -> None:
        self.index, self.symbols = index, symbols
        self.runs: list[list[Any]] = []
        """What both runs of a check computed of the last inputs."""
        with driver.current(index):
            self.stream = Stream(index)
            one = sum(prod(s) * ELEMENT_BYTES[e] for s, e in (*inputs, *outputs))
            l2 = driver.device(index).l2_bytes
            room = free_bytes() // (2 * max(1, one))
            if room < 1:
                raise PolycError(
                    "OutOfMemory",
                    f"the tensors take {one / 1e9:.1f} GB, and the GPU has "
                    f"{free_bytes() / 1e9:.1f} GB free; use smaller sizes",
                )
            count = max(2, min(32, -(-4 * l2 // max(1, one)), room)) if rotate else 1
            self.outputs = [[Place(kind, index) for kind in outputs] for _ in range(count)]
            self.copies = [
                [Place(k, index, a) for k, a in zip(inputs, sets[0], strict=True)]
                for _ in range(count)
            ]
            self.checked = [
                self.copies[0],
                *([Place(k, index, a) for k, a in zip(inputs, s, strict=True)] for s in sets[1:]),
            ]
            driver.synchronize()  # copies from memory that is not pinned may be on their way

    def bound(self, program: Program, inputs: Sequence[Place], outputs: Sequence[Place]) -> Bound:
        """A program's launch on tensors of the bench."""
        views, results = [p.view for p in inputs], [p.view for p in outputs]
        return program.bound(views, results, self.symbols)

    def wrong(self, program: Program, references: Sequence[Reference]) -> str | None:
        """What is wrong with what a program computes, or None.

        Outputs and workspaces hold NaN before each of two runs, so that what is not written, or is
        read before it is, shows.  Raises PolycError where it does not run or does not end.
        """
        outputs, stream = self.outputs[0], self.stream
        for reference, inputs in zip(references, self.checked, strict=True):
            with driver.current(self.index):
                launch = self.bound(program, inputs, outputs)
                self.runs = []
                for turn in range(2):
                    pointer, size = launch.workspaces(stream.handle)
                    if size and not turn:
                        driver.clear(pointer, size, stream.handle, POISON)
                    found = self._run(launch)
                    again = "" if turn == 0 else ", in its second run"
                    for name, (_, kept) in zip(reference.names, found, strict=True):
                        if not kept:
                            return f"it writes outside of {name}{again}"
                    self.runs.append([data for data, _ in found])
                    apart = reference.difference(self.runs[-1])
                    if apart is not None:
                        position, mismatch = apart
                        return (
                            f"output {reference.names[position]} at {reference.where}, "
                            f"{mismatch}{again}"
                        )
        return None

    def results(self, program: Program) -> list[Any]:
        """What a program computes on the first inputs, in outputs that held NaN."""
        with driver.current(self.index):
            launch = self.bound(program, self.checked[0], self.outputs[0])
            return [data for data, _ in self._run(launch)]

    def _run(self, launch: Bound) -> list[tuple[Any, bool]]:
        """Run a launch on the first outputs, and read them."""
        for place in self.outputs[0]:
            place.poison(self.stream.handle)
        launch.run(self.stream.handle)
        self.stream.wait()
        return [place.read() for place in self.outputs[0]]

    def timed(self, program: Program) -> Launches:
        """A program's launches on all copies of the inputs, ready to be timed."""
        with driver.current(self.index):
            return Launches(self, program)


class Launches:
    """A CUDA graph of a program's launches, one after another, over the copies of a bench."""

    def __init__(self, bench: Bench, program: Program) -> None:
        self._index = bench.index
        bound = [
            bench.bound(program, i, o) for i, o in zip(bench.copies, bench.outputs, strict=True)
        ]
        self._held = bench, bound, program  # a launch alone keeps no tensor
        self._count = -(-LAUNCHES // len(bound)) * len(bound)
        stream = bench.stream

        def body() -> None:
            for i in range(self._count):
                bound[i % len(bound)].run(stream.handle)

        for launch in bound:  # code is loaded, and attributes are set, outside of the capture
            launch.run(stream.handle)
        stream.wait()
        self._graph = Graph(stream, body, bench.index)
        self._replays = 0

    def seconds(self) -> float:
        """Seconds of a launch, over one batch."""
        with driver.current(self._index):
            if not self._replays:
                self._graph.seconds(1)
                once = self._graph.seconds(2)
                self._replays = max(1, min(2000, round(BATCH / max(once, 1e-7))))
            return self._graph.seconds(self._replays) / self._count
