"""``torch.compile(model, backend="polyc")``: what polyc can say runs as its programs.

PyTorch makes a graph of the model functional; ops that have a converter become programs, as large
as they get, and the rest stays with PyTorch.  A ``Report`` says what and why.  Weights are bound
when a program first runs, and bound anew when they change; sizes that PyTorch leaves open are
symbols.  On the CPU programs are played back.  ``torch_parts`` runs one program, ``torch_graphs``
captures whole graphs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, cast

from polyc.dialects.common.arch import check_arch
from polyc.dialects.common.diagnostic import PolycError
from polyc.importers.decomposed import every_decomposition
from polyc.importers.fx import op_name, place_at
from polyc.importers.parts import fault_of
from polyc.importers.registry import Fault, library
from polyc.tools.jit.torch_graphs import Captured
from polyc.tools.jit.torch_parts import WEIGHTS, Bound, Weights

OPTIONS = ("arch", "graphs", "report", "weights")


@dataclass
class Report:
    """What became of one graph of a model.

    ``programs`` are the numbers of ops in each program, ``left`` the ops that stay with PyTorch.
    ``given_back`` are programs, by their numbers, that PyTorch runs after all, and why.  ``graphs``
    says what became of ``options={"graphs": True}``.
    """

    name: str
    programs: list[int] = field(default_factory=lambda: [])
    left: list[Fault] = field(default_factory=lambda: [])
    trained: bool = False
    given_back: dict[str, str] = field(default_factory=lambda: {})
    graphs: str = ""

    def __str__(self) -> str:
        if self.trained:
            return (
                f"{self.name}: a graph with gradients stays with PyTorch; call the model under "
                "torch.no_grad()"
            )
        ops = sum(self.programs)
        count = len(self.programs)
        many, more = ("" if one == 1 else "s" for one in (ops, count))
        lines = [
            f"{self.name}: {ops} op{many} in {count} program{more} of polyc, "
            f"{len(self.left)} with PyTorch"
        ]
        groups = Counter((fault.op, fault.why) for fault in self.left)
        for (op, why), times in groups.items():
            first = next(one for one in self.left if (one.op, one.why) == (op, why))
            lines.append(f"  {op}, {times} times, first at {first.where}: {why}")
        for name, why in self.given_back.items():
            lines.append(f"  {name} runs in PyTorch: {why}")
        if self.graphs:
            lines.append(f"  CUDA graphs: {self.graphs}")
        return "\n".join(lines)


REPORTS: list[Report] = []
"""Of the graphs that were compiled in this process, the last ones."""

MOST_REPORTS = 256


def torch_reports() -> Sequence[Report]:
    """What ``torch.compile(…, backend="polyc")`` made of graphs in this process, the last last."""
    return tuple(REPORTS)


def torch_backend(
    module: Any, inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None, **more: Any
) -> Callable[..., Any]:
    """The backend, as ``torch.compile`` calls it.

    ``options`` has ``arch``, that of the tensors' GPU unless given; ``report``, which is called
    with the ``Report`` of each graph; ``graphs``, whether calls are captured in CUDA graphs; and
    ``weights``, ``"once"`` or ``"packed"`` (docs/tools/pytorch.md).  Raises PolycError for an
    option that there is not, or that is something else.
    """
    settings = {**(options or {}), **more}
    if wrong := sorted(set(settings) - set(OPTIONS)):
        raise PolycError(
            "Usage", f"the backend has no option {wrong[0]}; there are {', '.join(OPTIONS)}"
        )
    _check(settings)
    library("torch", "torch")
    aot: Any = import_module("torch._dynamo.backends.common").aot_autograd
    boxed: Any = import_module("torch._functorch.aot_autograd").make_boxed_func

    def inference(graph: Any, _: Sequence[Any]) -> Any:
        divided, report, weights = _divided(graph, settings)
        if settings.get("graphs"):
            return boxed(Captured(divided, report, weights))

        def run(*args: Any) -> Any:
            weights.look(args)
            return divided(*args)

        return boxed(run)

    def training(graph: Any, _: Sequence[Any]) -> Any:
        _reported(Report(_next_name(), trained=True), settings)
        return boxed(graph)

    def backward(graph: Any, _: Sequence[Any]) -> Any:
        return boxed(graph)

    made = aot(
        fw_compiler=training,
        bw_compiler=backward,
        inference_compiler=inference,
        decompositions=every_decomposition(),
    )
    return cast("Callable[..., Any]", made(module, list(inputs)))


def _check(settings: Mapping[str, Any]) -> None:
    """Refuse the value of an option."""
    if (arch := settings.get("arch")) is not None:
        check_arch(arch)
    for name, known in (("graphs", (True, False)), ("weights", WEIGHTS)):
        if (given := settings.get(name, known[0])) not in known:
            raise PolycError("Usage", f"{name} is {' or '.join(map(repr, known))}, not {given!r}")
    if (told := settings.get("report")) is not None and not callable(told):
        raise PolycError("Usage", f"report is called with reports, and {told!r} is no function")


def _next_name() -> str:
    return f"graph {len(REPORTS)}"


def _reported(report: Report, settings: Mapping[str, Any]) -> None:
    REPORTS.append(report)
    del REPORTS[:-MOST_REPORTS]
    _told(report, settings)


def _told(report: Report, settings: Mapping[str, Any]) -> None:
    if (told := settings.get("report")) is not None:
        told(report)


def _divided(graph: Any, settings: Mapping[str, Any]) -> tuple[Any, Report, Weights]:
    """The graph with programs in the place of what can be said, and its weights."""
    report = Report(_next_name())
    inputs = [node.name for node in graph.graph.nodes if node.op == "placeholder"]
    named = {inputs[i]: i for i in _weights(len(inputs))}
    weights = Weights(list(named.values()))
    home = _home(graph)
    faults = {
        node: _elsewhere(node, home) or fault_of(node)
        for node in graph.graph.nodes
        if node.op == "call_function"
    }
    for node, fault in faults.items():
        if fault is not None:
            why = fault.message
            report.left.append(Fault(op_name(node), node.name, place_at(node), why))
    support: Any = import_module("torch.fx.passes.operator_support").OperatorSupportBase
    partitioner: Any = import_module("torch.fx.passes.infra.partitioner")

    class Said(support):
        def is_node_supported(self, submodules: Any, node: Any) -> bool:
            # Sizes stay with PyTorch, and are arguments of programs.
            known = node.op == "call_function" and faults.get(node) is None
            return known and (op_name(node) == "getitem" or _computes(node))

    finder = partitioner.CapabilityBasedPartitioner(
        graph, Said(), allows_single_node_partition=True
    )
    parts = finder.propose_partitions()
    parts = [part for part in parts if any(map(_computes, part.nodes))]
    fused = finder.fuse_partitions(parts)
    sizes = {
        str(node.meta["val"].node.expr): node
        for node in fused.graph.nodes
        if node.op == "placeholder" and type(node.meta.get("val")).__name__ == "SymInt"
    }
    held: dict[str, list[Any]] = {}
    for node in fused.graph.nodes:
        if node.op == "call_module":
            _show_symbols(node, getattr(fused, node.target), sizes)
            held[node.target] = list(node.args)

    def left(name: str, error: PolycError) -> None:
        if name not in report.given_back:
            report.given_back[name] = error.message
            _told(report, settings)

    for number, (name, args) in enumerate(held.items()):
        part = getattr(fused, name)
        report.programs.append(sum(map(_computes, part.graph.nodes)))
        places = {i: named.get(getattr(one, "name", "")) for i, one in enumerate(args)}
        constant = {i: place for i, place in places.items() if place is not None}
        kept, arch = settings.get("weights", WEIGHTS[0]), settings.get("arch")
        bound = Bound(part, f"program {number}", constant, weights, arch, kept, left)
        setattr(fused, name, _module(bound))
    fused.recompile()
    _reported(report, settings)
    return fused, report, weights


def _show_symbols(call: Any, part: Any, sizes: Mapping[str, Any]) -> None:
    """Give a part the symbols of its inputs' sizes that no size is by itself, as in ``2 * n``."""
    inputs = [node for node in part.graph.nodes if node.op == "placeholder"]
    shown: set[str] = set()
    wanted: dict[str, None] = {}
    for node in inputs:
        value = node.meta.get("val")
        for size in (value,) if not hasattr(value, "shape") else value.shape:
            if type(size).__name__ != "SymInt":
                continue
            wanted |= dict.fromkeys(map(str, sorted(size.node.expr.free_symbols, key=str)))
            if size.node.expr.is_Symbol:
                shown.add(str(size.node.expr))
    for name in wanted:
        if name in shown or name not in sizes:
            continue
        with part.graph.inserting_after(inputs[-1]):
            inputs.append(part.graph.placeholder(f"size_{name}"))
        inputs[-1].meta["val"] = sizes[name].meta["val"]
        call.args = (*call.args, sizes[name])
    part.recompile()


def _module(bound: Bound) -> Any:
    """A module of PyTorch's that runs a part of a graph as a program."""
    torch: Any = library("torch", "torch")

    class Program(torch.nn.Module):
        def __init__(self) -> None:
            torch.nn.Module.__init__(self)
            self.call = bound

        def forward(self, *args: Any) -> Any:
            return self.call(args)

    return Program()


def _tensors(node: Any) -> Iterator[Any]:
    """What PyTorch says of the tensors that a node takes and gives."""
    for one in (*node.all_input_nodes, node):
        value = one.meta.get("val")
        several = cast("Sequence[Any]", value) if isinstance(value, list | tuple) else (value,)
        yield from (each for each in several if hasattr(each, "dtype"))


def _home(graph: Any) -> Any:
    """Where a graph's programs run: the GPU that most of its ops are on, or the host."""
    nodes = [node for node in graph.graph.nodes if node.op == "call_function"]
    places = Counter(one.device for node in nodes for one in _tensors(node))
    gpus = {place: count for place, count in places.items() if place.type == "cuda"}
    every = gpus or places
    return max(every, key=lambda place: every[place], default=None)


def _elsewhere(node: Any, home: Any) -> PolycError | None:
    """Why a node is no part of a program that runs in one place."""
    places = dict.fromkeys(str(one.device) for one in _tensors(node))
    if not _computes(node) or list(places) in ([], [str(home)]):
        return None
    return PolycError("DeviceMismatch", f"on {' and '.join(places)}, and programs on {home}")


def _computes(node: Any) -> bool:
    """Whether a node is an op of tensors."""
    if node.op != "call_function" or op_name(node) == "getitem":
        return False
    value = node.meta.get("val")
    return hasattr(value, "dtype") or isinstance(value, list | tuple)


def _weights(count: int) -> list[int]:
    """The numbers of the graph's inputs that are the same tensors at every call.

    Buffers that the model itself writes to, as a cache or the statistics of a norm in training, are
    data.
    """
    guards: Any = import_module("torch._guards")
    context = guards.TracingContext.try_get()
    metadata = getattr(context, "fw_metadata", None)
    known = getattr(metadata, "static_input_indices", None) or ()
    told: Sequence[Any] = getattr(metadata, "input_info", ())
    written = {i for i, one in enumerate(told) if getattr(one, "mutates_data", False)}
    return [i for i in known if i < count and i not in written]
