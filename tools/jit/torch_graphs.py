"""Calls of a compiled model in CUDA graphs: ``torch.compile(…, options={"graphs": True})``.

The first call of a kind runs as it is, which binds weights; the second is captured by PyTorch's
``torch.cuda.graph``, and later ones copy their inputs to where the graph reads them, replay it, and
copy the results out.  A kind is the sizes, types and layouts of all inputs, the numbers among them,
and which weights there are and what was last written to them: another one is another graph, and the
``MOST`` used last are kept.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Hashable, Sequence
from typing import Any, Protocol, cast

from polyc.importers.registry import library
from polyc.tools.jit.torch_parts import Weights, state_of

MOST = 16
"""Graphs that are kept of one function, and kinds of calls that are remembered."""


class Told(Protocol):
    """What is told how captures went."""

    graphs: str


class _Graph:
    """One captured call: what it reads, and what it leaves."""

    def __init__(self, graph: Any, inputs: dict[int, Any], results: Sequence[Any]) -> None:
        self.graph, self.inputs, self.results = graph, inputs, results


class Captured:
    """``run``, a function of tensors and numbers that writes to none of them, in CUDA graphs.

    ``weights`` are arguments that stay where they are.  ``report.graphs`` says what
    happened.  What cannot be captured runs as it is: calls with tensors on the host, or without any
    on a GPU, and functions with an op that waits for the GPU or allocates what a graph does not
    hold.  Results are tensors of their own, which later calls do not write to.  Any number of
    threads, and streams, may call it; replays come one after another.
    """

    def __init__(self, run: Callable[..., Any], report: Told, weights: Weights) -> None:
        self._run, self._report, self._weights = run, report, weights
        self._seen: dict[Hashable, _Graph | None] = {}
        self._refused = ""
        self._count = 0
        self._lock = threading.RLock()
        self._pool: Any = None
        self._done: Any = None
        report.graphs = "nothing captured yet; the second call with like inputs is"

    def __call__(self, *args: Any) -> Any:
        torch: Any = library("torch", "torch")
        self._weights.look(args)
        if self._refused:
            return self._run(*args)
        tensors = [one for one in args if isinstance(one, torch.Tensor)]
        if why := _why_not(torch, tensors):
            self._report.graphs = f"not captured: {why}"
            return self._run(*args)
        with self._lock, torch.cuda.device(tensors[0].device):
            weights = frozenset(self._weights.numbers)
            key = _kind(torch, args, weights)
            again, found = key in self._seen, self._seen.pop(key, None)
            if again and found is None:
                found = self._capture(torch, args, weights)
            if not self._refused:
                self._seen[key] = found
            if len(self._seen) > MOST:
                del self._seen[next(iter(self._seen))]
            return self._run(*args) if found is None else self._replay(torch, found, args)

    def _capture(self, torch: Any, args: Sequence[Any], weights: Collection[int]) -> _Graph | None:
        """The graph of a call; None, with the reason in the report, where there is none."""
        inputs = {
            i: one.detach().clone()
            for i, one in enumerate(args)
            if isinstance(one, torch.Tensor) and i not in weights
        }
        given = [inputs.get(i, one) for i, one in enumerate(args)]
        if self._pool is None:
            self._pool = torch.cuda.graph_pool_handle()
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        try:
            with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
                results = self._run(*given)
        except Exception as error:
            torch.cuda.synchronize()
            said = str(error).strip() or type(error).__name__
            self._refused = said.splitlines()[0]
            self._report.graphs = f"not captured: {self._refused}"
            return None
        self._count += 1
        many = "" if self._count == 1 else "s"
        self._report.graphs = f"{self._count} kind{many} of calls captured"
        return _Graph(graph, inputs, _listed(results))

    def _replay(self, torch: Any, found: _Graph, args: Sequence[Any]) -> Any:
        """The results of a captured call on other inputs."""
        stream = torch.cuda.current_stream()
        if self._done is not None:
            stream.wait_event(self._done)  # what another stream replays is read and written here
        for i, target in found.inputs.items():
            target.copy_(args[i])
        found.graph.replay()
        results = [one.clone() if isinstance(one, torch.Tensor) else one for one in found.results]
        self._done = torch.cuda.Event()
        self._done.record(stream)
        return tuple(results)


def _listed(results: Any) -> list[Any]:
    return list(cast("Sequence[Any]", results)) if isinstance(results, list | tuple) else [results]


def _why_not(torch: Any, tensors: Sequence[Any]) -> str:
    """Why a call is not captured, "" where it may be."""
    on_host = [one for one in tensors if not one.is_cuda]
    if on_host:
        shape = list(on_host[0].shape)
        return f"an input of shape {shape} is on the host, and a graph would keep its numbers"
    if not tensors:
        return "no input is on a GPU"
    if len({one.device for one in tensors}) > 1:
        return "the inputs are on several GPUs"
    if torch.cuda.is_current_stream_capturing():
        return "another graph is being captured, which holds this call"
    return ""


def _kind(torch: Any, args: Sequence[Any], weights: Collection[int]) -> Hashable:
    """What calls have in common that one graph serves."""
    parts: list[Hashable] = []
    for i, one in enumerate(args):
        if not isinstance(one, torch.Tensor):
            parts.append((type(one).__name__, one))
        elif i in weights:
            parts.append((one.data_ptr(), state_of(one), tuple(one.shape)))
        else:
            parts.append((tuple(one.shape), one.stride(), one.dtype))
    return tuple(parts)
