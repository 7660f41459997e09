"""``torch.compile(model, backend="polyc")``: what polyc can say runs as its programs.

PyTorch makes a graph of the model functional; ops that have a converter become programs, as large
as they get, and the rest stays with PyTorch.  A ``Report`` says what and why.  Weights are bound
when a program first runs, and bound anew when they change; sizes that PyTorch leaves open are
symbols.  On the CPU programs are played back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, cast

from polyc.dialects.common.diagnostic import PolycError
from polyc.importers.fx import Part, fault_of, from_graph, op_name, place_at
from polyc.importers.registry import Fault, library
from polyc.tools.jit.compile import compile as compiled
from polyc.tools.jit.compiled import Compiled

OPTIONS = ("arch", "report")


@dataclass
class Report:
    """What became of one graph of a model.

    ``programs`` are the numbers of ops in each program, ``left`` the ops that stay with PyTorch.
    """

    name: str
    programs: list[int] = field(default_factory=lambda: [])
    left: list[Fault] = field(default_factory=lambda: [])
    trained: bool = False

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

    ``options`` has ``arch``, that of the tensors' GPU unless given, and ``report``, which is called
    with the ``Report`` of each graph.  Raises PolycError for an option that there is not.
    """
    settings = {**(options or {}), **more}
    if wrong := sorted(set(settings) - set(OPTIONS)):
        raise PolycError(
            "Usage", f"the backend has no option {wrong[0]}; there are {', '.join(OPTIONS)}"
        )
    library("torch", "torch")
    aot: Any = import_module("torch._dynamo.backends.common").aot_autograd
    boxed: Any = import_module("torch._functorch.aot_autograd").make_boxed_func

    def inference(graph: Any, _: Sequence[Any]) -> Any:
        return boxed(_divided(graph, settings))

    def training(graph: Any, _: Sequence[Any]) -> Any:
        _reported(Report(_next_name(), trained=True), settings)
        return boxed(graph)

    def backward(graph: Any, _: Sequence[Any]) -> Any:
        return boxed(graph)

    made = aot(
        fw_compiler=training,
        bw_compiler=backward,
        inference_compiler=inference,
    )
    return cast("Callable[..., Any]", made(module, list(inputs)))


def _next_name() -> str:
    return f"graph {len(REPORTS)}"


def _reported(report: Report, settings: Mapping[str, Any]) -> None:
    REPORTS.append(report)
    del REPORTS[:-MOST_REPORTS]
    if (told := settings.get("report")) is not None:
        told(report)


def _divided(graph: Any, settings: Mapping[str, Any]) -> Any:
    """The graph with programs in the place of what can be said."""
    report = Report(_next_name())
    weights = _weights(graph)
    faults = {node: fault_of(node) for node in graph.graph.nodes if node.op == "call_function"}
    for node, fault in faults.items():
        if fault is not None:
            why = fault.message
            report.left.append(Fault(op_name(node), node.name, place_at(node), why))
    support: Any = import_module("torch.fx.passes.operator_support").OperatorSupportBase
    partitioner: Any = import_module("torch.fx.passes.infra.partitioner")

    class Said(support):
        def is_node_supported(self, submodules: Any, node: Any) -> bool:
            return node.op == "call_function" and faults.get(node) is None

    finder = partitioner.CapabilityBasedPartitioner(
        graph, Said(), allows_single_node_partition=True
    )
    parts = finder.propose_partitions()
    parts = [part for part in parts if any(map(_computes, part.nodes))]
    fused = finder.fuse_partitions(parts)
    held: dict[str, list[Any]] = {}
    for node in fused.graph.nodes:
        if node.op == "call_module":
            held[node.target] = list(node.args)
    for name, args in held.items():
        part = getattr(fused, name)
        report.programs.append(sum(map(_computes, part.graph.nodes)))
        constant = [i for i, one in enumerate(args) if one.name in weights]
        setattr(fused, name, _program(part, name, constant, settings.get("arch")))
    fused.recompile()
    _reported(report, settings)
    return fused


def _computes(node: Any) -> bool:
    """Whether a node is an op of tensors."""
    if node.op != "call_function" or op_name(node) == "getitem":
        return False
    value = node.meta.get("val")
    return hasattr(value, "dtype") or isinstance(value, list | tuple)


def _weights(graph: Any) -> set[str]:
    """The names of the graph's inputs that are the same tensors at every call."""
    guards: Any = import_module("torch._guards")
    context = guards.TracingContext.try_get()
    known = getattr(getattr(context, "fw_metadata", None), "static_input_indices", None) or ()
    inputs = [node.name for node in graph.graph.nodes if node.op == "placeholder"]
    return {inputs[i] for i in known if i < len(inputs)}


def _program(part: Any, name: str, constant: Sequence[int], arch: str | None) -> Any:
    """A module of PyTorch's that runs a part of a graph as a program."""
    torch: Any = library("torch", "torch")

    class Program(torch.nn.Module):
        def __init__(self) -> None:
            torch.nn.Module.__init__(self)
            self.call = Bound(part, name, constant, arch)

        def forward(self, *args: Any) -> Any:
            return self.call(args)

    return Program()


class Bound:
    """A part of a graph as a program, whose weights are those of the last call.

    ``constant`` are the places of arguments that stay the same tensors; a program is made again
    where one of them is another one, or was written to.
    """

    def __init__(self, part: Any, name: str, constant: Sequence[int], arch: str | None) -> None:
        self.part, self.name, self.constant, self.arch = part, name, tuple(constant), arch
        self._made: tuple[Part, Compiled] | None = None
        self._key: list[tuple[int, int | None]] = []
        end = next(node for node in part.graph.nodes if node.op == "output")
        self._several = isinstance(end.args[0], list | tuple)
        listed: list[Any] = list(end.args[0]) if self._several else [end.args[0]]
        self._orders = [_order(node.meta["val"]) for node in listed]

    def __call__(self, args: Sequence[Any]) -> Any:
        """The part's results for its arguments."""
        key = [_state(args[i]) for i in self.constant]
        if self._made is None or key != self._key:
            self._made, self._key = self._compiled(args), key
        part, program = self._made
        tensors = [args[i].detach().contiguous() for i in part.tensors]
        if part.sizes:
            found = program(*tensors, symbols={name: args[i] for name, i in part.sizes.items()})
        else:
            found = program(*tensors)
        several = list(cast("Any", found) if isinstance(found, tuple | list) else (found,))
        results = [
            one if order is None else _laid_out(one, order)
            for one, order in zip(several, self._orders, strict=True)
        ]
        return tuple(results) if self._several else results[0]

    def _compiled(self, args: Sequence[Any]) -> tuple[Part, Compiled]:
        held = {i: args[i].detach() for i in self.constant}
        part = from_graph(self.part, self.name, held)
        device = "cuda" if any(getattr(one, "is_cuda", False) for one in args) else "cpu"
        return part, compiled(part.imported, self.arch, device=device)


def _state(tensor: Any) -> tuple[int, int | None]:
    """What changes when a tensor is another one or is written to."""
    return tensor.data_ptr(), None if tensor.is_inference() else tensor._version


def _order(fake: Any) -> list[int] | None:
    """The axes from the outermost in memory on, where a result is not to lie row by row."""
    if not hasattr(fake, "stride") or fake.is_contiguous() or any(s == 0 for s in fake.stride()):
        return None
    strides: list[int] = [
        one if isinstance(one, int) else int(one.node.hint or 0) for one in fake.stride()
    ]
    rank = len(strides)
    order = sorted(range(rank), key=lambda axis: -strides[axis])
    return None if order == list(range(rank)) else order


def _laid_out(tensor: Any, order: Sequence[int]) -> Any:
    """The same elements with axes in another order in memory, as ops that are left may ask for."""
    back = [order.index(axis) for axis in range(len(order))]
    return tensor.permute(*order).contiguous().permute(*back)
