"""A part of a model that ``torch.compile`` has cut out, as a program on PyTorch's tensors.

Weights are used where the model has them.  Of what is made of weights alone only what is small is
kept, so that none is there twice; ``weights="packed"`` keeps all of it, for speed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from polyc.dialects.common.diagnostic import PolycError
from polyc.importers.parts import Part, from_graph
from polyc.importers.registry import library
from polyc.runtime.const_pool import Params
from polyc.runtime.torch_workspaces import TorchArenas
from polyc.runtime.views import LIBRARY_NAMES
from polyc.tools.jit.compile import compile as compiled
from polyc.tools.jit.compiled import Compiled

WEIGHTS = ("once", "packed")
"""What is kept of weights: what the model has, or what is made of it too."""

Left = Callable[[str, PolycError], None]
"""Told of a part, by name, that stays with PyTorch after all, and why."""

State = tuple[int, int]

OFTEN = 3
"""Changes of a weight after which it is taken for data."""


class Weights:
    """The inputs of a graph that are the same tensors at every call, by their ``numbers``.

    ``moving`` are those that turned out to be data: that changed ``OFTEN`` times, as a cache that
    is written between calls does.
    """

    def __init__(self, numbers: Sequence[int]) -> None:
        self._numbers = tuple(numbers)
        self._places = {number: place for place, number in enumerate(self._numbers)}
        self.moving: set[int] = set()
        self.turn = 0
        """How often one of them has changed."""
        self._states: list[State | None] = []
        self._changes: dict[int, int] = {}

    @property
    def numbers(self) -> list[int]:
        """Those that stay."""
        return [i for i in self._numbers if i not in self.moving]

    def look(self, args: Sequence[Any]) -> None:
        """See which have changed since the call before."""
        states = [state_of(args[i]) for i in self._numbers]
        if states == self._states:
            return
        for i, old, new in zip(self._numbers, self._states, states, strict=False):
            if old != new and i not in self.moving:
                self._changes[i] = self._changes.get(i, 0) + 1
                if self._changes[i] >= OFTEN:
                    self.moving.add(i)
        self._states, self.turn = states, self.turn + 1

    def state(self, number: int) -> State | None:
        """How one was when it was last looked at; None where that is data, or tells nothing."""
        if number in self.moving:
            return None
        return self._states[self._places[number]]


class Bound:
    """A part of a graph as a program, whose weights are those of the last call.

    ``constant`` are the places of arguments that are ``weights``, by their numbers there.  Where
    one of them is another tensor the program is made again; where one was written to, what was made
    of it is.
    Tensors of ``torch.inference_mode`` do not tell that they were written to: these are arguments
    as others are.  A part that cannot be lowered after all runs in PyTorch, and ``left`` is told.
    """

    def __init__(
        self,
        part: Any,
        name: str,
        constant: Mapping[int, int],
        weights: Weights,
        arch: str | None,
        kept: str = WEIGHTS[0],
        left: Left | None = None,
    ) -> None:
        self.part, self.name, self.constant, self.arch = part, name, dict(constant), arch
        self._weights, self._sparing, self._left = weights, kept == WEIGHTS[0], left
        self._made: _Made | None = None
        self._plain = False
        self._lock = threading.RLock()
        end = next(node for node in part.graph.nodes if node.op == "output")
        self._several = isinstance(end.args[0], list | tuple)

    def __call__(self, args: Sequence[Any]) -> Any:
        """The part's results for its arguments."""
        if self._plain:
            return self.part(*args)
        made = self._made
        if made is None or made.turn != self._weights.turn:
            with self._lock:
                made = self._current(args)
        if made is None:
            return self.part(*args)
        try:
            results = made.run(args)
        except PolycError as error:
            if error.kind != "NoVariant":
                raise
            self._tell(error)  # sizes that no kernel takes
            return self.part(*args)
        return tuple(results) if self._several else results[0]

    def _current(self, args: Sequence[Any]) -> _Made | None:
        """The program for the weights of a call; None where there is none."""
        turn = self._weights.turn
        states = [self._weights.state(number) for number in self.constant.values()]
        made = self._made
        if made is not None and made.states != states:
            if [one and one[0] for one in made.states] == [one and one[0] for one in states]:
                made.program.refresh()
                made.states = states
            else:
                made = None
        if made is None:
            try:
                made = self._made = self._compiled(args, states)
            except PolycError as error:
                self._plain = True
                self._tell(error)
                return None
        made.turn = turn
        return made

    def _tell(self, error: PolycError) -> None:
        if self._left is not None:
            self._left(self.name, error)

    def _compiled(self, args: Sequence[Any], states: list[State | None]) -> _Made:
        held = {
            i: args[i].detach()
            for i, state in zip(self.constant, states, strict=True)
            if state is not None
        }
        part = from_graph(self.part, self.name, held)
        on = next((one.device for one in args if getattr(one, "is_cuda", False)), None)
        params = Params.of(part.imported.parameters)
        program = compiled(
            part.imported,
            self.arch,
            device="cpu" if on is None else "cuda",
            params=params.sparingly() if self._sparing else params,
        ).with_workspaces(TorchArenas)
        if on is not None:
            program.program(on.index or 0)  # what cannot be lowered is known before a call
        return _Made(part, program, on, states)


class _Made:
    """A part as a program, for weights that were in these states."""

    def __init__(
        self, part: Part, program: Compiled, device: Any, states: list[State | None]
    ) -> None:
        self.part, self.program, self.device, self.states = part, program, device, states
        self.turn = 0
        count = len(part.tensors)
        self._given = list(zip(part.tensors, part.orders, strict=False))
        self._orders = [None if o is None else _back(o) for o in part.orders[count:]]

    def run(self, args: Sequence[Any]) -> list[Any]:
        """The results for a part's arguments."""
        tensors = [
            (args[i] if order is None else args[i].permute(order)).detach().contiguous()
            for i, order in self._given
        ]
        symbols = {name: args[i] for name, i in self.part.sizes.items()}
        more: dict[str, Any] = {"symbols": symbols} if symbols else {}
        if not tensors:
            more["out"] = self._fresh(symbols)
        found = self.program(*tensors, **more)
        several = list(cast("Any", found) if isinstance(found, tuple | list) else (found,))
        return [
            one if back is None else one.permute(back)
            for one, back in zip(several, self._orders, strict=True)
        ]

    def _fresh(self, symbols: Mapping[str, int]) -> list[Any]:
        """Outputs of a program that takes no tensors, and so cannot be like one."""
        torch: Any = library("torch", "torch")
        return [
            torch.empty(shape, dtype=getattr(torch, LIBRARY_NAMES[element]), device=self.device)
            for shape, element in self.program.signature.fresh(dict(symbols))
        ]


def _back(order: Sequence[int]) -> list[int]:
    """The permutation that undoes one."""
    return [order.index(axis) for axis in range(len(order))]


def state_of(tensor: Any) -> State | None:
    """What changes when a tensor is another one or is written to; None where nothing tells."""
    try:
        return tensor.data_ptr(), tensor._version
    except RuntimeError:  # it was made under torch.inference_mode
        return None
